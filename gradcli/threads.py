"""How many threads numerical libraries may use. They read it once, when they are loaded: it is set before all else."""

import itertools
import os
from collections.abc import Sequence

_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
OPTION = "--threads"
_SET: list[int] = []


def set_threads(argv: Sequence[str]) -> None:
    """Give numerical libraries the threads that the arguments name, or one: sums over threads differ in the last digits."""
    _SET[:] = [_named(argv)]
    os.environ.update(dict.fromkeys(_VARIABLES, str(_SET[0])))


def threads() -> int | None:
    """Return how many threads were set in this process; None where it is not the program's own, as in Python's API."""
    return _SET[0] if _SET else None


def _named(argv: Sequence[str]) -> int:
    """Return the number after `--threads`; a word that is none is refused later, with all other options."""
    words = argv[: list(argv).index("--")] if "--" in argv else argv
    texts = [b for a, b in itertools.pairwise(words) if a == OPTION]
    texts += [word.removeprefix(f"{OPTION}=") for word in words if word.startswith(f"{OPTION}=")]
    known = [int(text) for text in texts if text.isdecimal() and 0 < len(text) < 5]
    return max(1, known[-1]) if known else 1
