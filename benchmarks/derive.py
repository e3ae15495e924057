"""What a derivation costs: closed forms of textbook problems, from the text to the simplified gradient, and as it is printed.

    python benchmarks/derive.py [--rounds 15] [--json]

Nothing else joins closed forms, steps and a check; there is no peer to time.
"""

import common  # first: it sets the threads

import time
from collections.abc import Iterator
from typing import Any

from common import Figure

import gradcli
from gradcli.derivation import derive as derivation

TOPIC = "derive"
PROBLEMS = (
    ("a.T@x", "a: n; x: n"), ("x.T@A@x", "A: n n; x: n"), ("0.5*sum((W@x - y)**2)", "W: m n; x: n; y: m"), ("trace(A@X)", "A: n m; X: m n"),
    ("log(det(X))", "X: n n"), ("sum(log(1 + exp(-t*(X@w))))", "X: m n; w: n; t: m"), ("trace(inv(X)@A)", "X: n n; A: n n"),
    ("sum(sigmoid(A@x))", "A: m n; x: n"), ("logsumexp(A@x)", "A: m n; x: n"), ("norm(A@x - b)", "A: m n; x: n; b: m"),
    ("sum(tanh(X@W + b)**2)", "X: m n; W: n k; b: k"), ("x.T@solve(A, x)", "A: n n; x: n"),
)  # fmt: skip


def figures(rounds: int) -> Iterator[Figure]:
    runs = {text: (lambda text=text, shapes=shapes: _derived(text, shapes)) for text, shapes in PROBLEMS}
    ms = {text: 1e3 * seconds for text, seconds in common.medians(common.times(runs, max(3, rounds // 3))).items()}
    slowest = max(ms, key=lambda text: ms[text])
    middle = sorted(ms.values())[len(ms) // 2]
    yield Figure(TOPIC, f"a whole derivation, verified, the middle one of {len(ms)}", middle, "ms")
    yield Figure(TOPIC, f"the slowest, {slowest}", ms[slowest], "ms")
    yield Figure(
        TOPIC, "simplification, the slowest", max(_simplified(text, shapes) for text, shapes in PROBLEMS), "ms", 50
    )


def _derived(text: str, shapes: str) -> Any:
    return gradcli.derive(text, dict(part.split(": ") for part in shapes.split("; ")))


def _simplified(text: str, shapes: str) -> float:
    """Return the milliseconds that all simplifications of one derivation take."""
    spent = 0.0

    def timed(*args: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        found = own(*args)
        spent += time.perf_counter() - start
        return found

    own = derivation.simplified
    derivation.simplified = timed
    try:
        _derived(text, shapes)
    finally:
        derivation.simplified = own
    return 1e3 * spent


if __name__ == "__main__":
    common.main(figures, __doc__)
