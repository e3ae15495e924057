"""How much work the lines of a recorded program are, in scalar operations and in balls."""

from collections.abc import Iterable
from typing import Any

from gradcli.core.shapes import shape, size

_SECONDS_PER_ENTRY = 6e-6  # one elementwise operation in balls, forward and backward
_SECONDS_PER_PRODUCT = 3e-8  # one multiply-add of a matrix product in balls, forward and backward
_CUBIC = {  # multiply-adds for each entry and row of a matrix, in balls
    "solve": 1, "inv": 1, "det": 1, "logdet": 1, "cholesky": 5, "qr": 5, "pinv": 5,
    "eigvalsh": 30, "eigenvectors": 30, "svdvals": 30, "singular_vectors": 30,
}  # fmt: skip


def work(line: Any) -> tuple[int, int]:
    """Return the entries and the multiply-adds of one line."""
    primitive, _, xs, y, _, _ = line
    if primitive is None:
        return 0, 0
    if primitive.name == "matmul":
        return 0, size(y) * shape(xs[0])[-1]
    if primitive.name in _CUBIC:
        return 0, _CUBIC[primitive.name] * size(xs[0]) * max(shape(xs[0])[-2:], default=1)
    if primitive.name in ("dft_cos", "dft_sin"):
        return 10 * size(y), size(y) * shape(y)[-1]
    if primitive.name == "einsum":
        return 0, size(y) * max(1, *(size(x) for x in xs))
    return max(size(y), *(size(x) for x in xs)), 0


def seconds_in_balls(lines: Iterable[Any]) -> float:
    """Return the predicted seconds of a forward and a backward sweep in balls."""
    return sum(a * _SECONDS_PER_ENTRY + b * _SECONDS_PER_PRODUCT for a, b in map(work, lines))
