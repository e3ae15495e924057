"""Factors by which gradients are commonly wrong, and the mistake behind each."""

from collections.abc import Iterator

import numpy as np

from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.wrong import Gradient, Wrong
from gradcli.modes.mode import Question
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import end_to_end, shape, size
from gradcli.words import DiagnosisKind

_SAME = 1e-6  # relative: two factors this near are the same
_BY_NAME = (
    (2.0, "a factor 2 too large"),
    (0.5, "a factor 2 too small"),
    (np.pi / 180, "a factor pi/180: degrees for radians"),
    (180 / np.pi, "a factor 180/pi: radians for degrees"),
    (np.log(10.0), "a factor ln 10: the base of a logarithm"),
    (1 / np.log(10.0), "a factor 1/ln 10: the base of a logarithm"),
    (np.log(2.0), "a factor ln 2: the base of a logarithm"),
    (1 / np.log(2.0), "a factor 1/ln 2: the base of a logarithm"),
    (np.pi, "a factor pi too large"),
    (1 / np.pi, "a factor pi too small"),
    (2 * np.pi, "a factor 2 pi too large"),
    (0.5 / np.pi, "a factor 2 pi too small"),
    (np.sqrt(np.pi) / 2, "a factor sqrt(pi)/2: that of erf is missing"),
    (np.sqrt(2.0), "a factor sqrt(2) too large"),
    (np.sqrt(0.5), "a factor sqrt(2) too small"),
)
_BY_NUMBER = tuple(
    row for n in (3, 4, 6, 8) for row in ((float(n), f"a factor {n} too large"), (1.0 / n, f"a factor {n} too small"))
)


def factor_of(claimed: Gradient, right: Gradient, names: tuple[str, ...]) -> float | None:
    """Return the factor from the right gradient to the claim by least squares; None if a gradient is zero or not finite.

    Shapes  `claimed[x]` and `right[x]` have the same shape for each input x in `names`.
    """
    a, b = (end_to_end(of[name] for name in names) for of in (claimed, right))
    scale = float(np.max(np.abs(b), initial=0.0))
    if not scale > 0 or not np.all(np.isfinite(a)):
        return None
    return float((a / scale) @ (b / scale) / ((b / scale) @ (b / scale)))


def named_factor(factor: float, wrong: Wrong) -> tuple[DiagnosisKind, str] | None:
    """Return the kind of mistake that causes a factor, and a sentence; None if no known mistake causes it."""
    if abs(factor) < 1e-9:
        return DiagnosisKind.DETACHED, "the gradient is zero: the input is detached somewhere or treated as a constant"
    if abs(factor + 1) < _SAME:
        return DiagnosisKind.SIGN, "the sign is flipped"
    for value, says in (*_BY_NAME, *_counted(wrong), *_constants(wrong.q), *_BY_NUMBER, *_recorded(wrong.q)):
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")):
            if abs(factor / (sign * value) - 1) < _SAME:
                return DiagnosisKind.FACTOR, says + also
    return None


def _recorded(q: Question) -> Iterator[tuple[float, str]]:
    """Yield the factors that a number inside the function causes, such as a temperature, if it is missing or repeated."""
    seen: set[float] = set()
    for _, slots, xs, _, _, position in q.lines:
        for slot, x in zip(slots, xs, strict=False):
            if slot == CONSTANT and np.ndim(x) == 0 and isinstance(x, int | float | np.number):
                c, code = abs(float(x)), code_at(position)
                if np.isfinite(c) and c not in (0.0, 1.0) and c not in seen and code:
                    seen.add(c)
                    yield c, f"a factor {c:.6g}: the number in {code} is one too many"
                    yield 1 / c, f"a factor 1/{c:.6g}: the number in {code} is missing"


def _counted(wrong: Wrong) -> Iterator[tuple[float, str]]:
    """Yield the factors that come from counts n of entries or axes: n, n - 1, and their quotients."""
    sizes: dict[int, str] = {}
    for name, x in wrong.q.point.values.items():
        if isinstance(x, np.ndarray | np.float64):
            for k, n in enumerate(shape(x)):
                sizes.setdefault(n, f"axis {k} of {name}")
            sizes.setdefault(size(x), f"the entries of {name}")
    sizes.setdefault(size(wrong.q.value), "the outputs")
    for _, _, _, y, _, _ in wrong.q.lines:
        for n in shape(y):
            sizes.setdefault(n, f"the {n} entries of an intermediate value")
    for n, what in sizes.items():
        if n > 2:
            yield float(n), f"a factor {n} too large: a mean over {what} became a sum"
            yield 1.0 / n, f"a factor {n} too small: a sum over {what} became a mean"
            yield float(n - 1), f"a factor {n - 1} too large: the division by n - 1 is missing (n counts {what})"
            yield 1.0 / (n - 1), f"a factor {n - 1} too small: divided by n - 1 once too often (n counts {what})"
            yield n / (n - 1), f"a factor {n}/{n - 1}: n and n - 1 are mixed up (n counts {what})"
            yield (n - 1) / n, f"a factor {n - 1}/{n}: n and n - 1 are mixed up (n counts {what})"


def _constants(q: Question) -> Iterator[tuple[float, str]]:
    """Yield the factors that a scalar argument causes if it is missing or repeated, such as a step size dt."""
    for name, x in q.point.values.items():
        if isinstance(x, float | np.float64 | int) and np.isfinite(x) and abs(x) not in (0.0, 1.0):
            for power, says in (
                (1, "one {} too many"),
                (-1, "{} is missing"),
                (2, "{}**2 too many"),
                (-2, "{}**2 is missing"),
            ):
                yield float(x) ** power, f"a factor {float(x) ** power:.6g}: " + says.format(name)
