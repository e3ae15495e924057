"""The iterated logistic map at depth 12: from its text to the value of its gradient; `expression_swell.py` has all depths.

python benchmarks/swell.py [--rounds 15] [--json]
"""

import common  # first: it sets the threads

from collections.abc import Iterator

from common import Figure
from expression_swell import PROBLEMS, candidates, medians

DEPTH = 12


def figures(rounds: int) -> Iterator[Figure]:
    medians(candidates(PROBLEMS[0], 2), 2)  # the first run of all imports and builds tables
    ms = {name: 1e3 * seconds for name, seconds in medians(candidates(PROBLEMS[0], DEPTH), max(3, rounds // 3)).items()}
    yield Figure("expression swell", "iterated logistic map, depth 12, first gradient", ms.pop("gradcli"), "ms", 5, ms)


if __name__ == "__main__":
    common.main(figures, __doc__)
