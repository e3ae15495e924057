"""Recognise claims that are right at another point: stale values, exchanged arguments, rounded inputs."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.core.shapes import end_to_end, shape, size
from gradcli.diagnosis.wrong import Gradient, Wrong
from gradcli.errors import GradcliError
from gradcli.interpreters.program import record
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import by_rows, stacked
from gradcli.point import Array
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_TURNS = 8  # iterations of Newton's method for the distance by which the point was moved
_LINEAR = 0.7  # the largest part of the error that the first Newton step may leave unexplained
_MOST_OUTPUTS = 16
_PROBE = 1e-6  # relative to the point: the step for the derivative of the gradient
_EVEN = 1e-3  # relative: the distance is shown with three digits if this changes it by less


def of_another_point(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis that names the other point where the claim would be right; None if there is none. Raises BudgetSpent."""
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS:
        return None
    with np.errstate(all="ignore"):
        for says, xs in _other_points(q):
            made = gradient_at(wrong, xs)
            if made is not None and wrong.explained(made):
                return wrong.says(
                    DiagnosisKind.STALE if "exchanged" not in says else DiagnosisKind.SWAPPED,
                    f"the claim is the right gradient {says}",
                )
        if wrong.count < 2:
            return None  # some point on any line explains a single number
        for says, direction in _directions(wrong):
            distance = _followed(wrong, direction)
            if distance is not None:
                return wrong.says(
                    DiagnosisKind.STALE,
                    f"the claim is the right gradient {says.format(_shown(distance))} (a stale value)",
                )
    return None


def _shown(distance: float) -> str:
    return f"{distance:.3g}" if abs(float(f"{distance:.3g}") / distance - 1) < _EVEN else f"{distance:.6g}"


def gradient_at(wrong: Wrong, xs: list[Array]) -> Gradient | None:
    """Return gradcli's gradient at another point for the claimed inputs; None if it fails or is not finite.

    Shapes  `xs` as the inputs; each gradient has the shape of the output, then of the input.
    """
    q = wrong.q
    wrong.budget.spend(1 + size(q.value))  # an evaluation, and a sweep for each output
    try:
        rows = by_rows(record(q.g, xs), np.float64(1))
    except GradcliError:
        return None
    made = {
        name: stacked(rows, q.value, k, x)
        for k, (name, x) in enumerate(zip(q.wrt, xs, strict=True))
        if name in wrong.claimed
    }
    return made if all(np.all(np.isfinite(g)) for g in made.values()) else None


def _other_points(q: Question) -> Iterator[tuple[str, list[Array]]]:
    """Yield points that are used by mistake: exchanged or rounded inputs, zeros, ones, other signs."""
    for a in range(len(q.xs)):
        for b in range(a + 1, len(q.xs)):
            if shape(q.xs[a]) == shape(q.xs[b]):
                xs = list(q.xs)
                xs[a], xs[b] = xs[b], xs[a]
                yield f"with {q.wrt[a]} and {q.wrt[b]} exchanged", xs
    yield "at the point in float32", [_in_float32(x) for x in q.xs]
    for digits in range(4):
        yield f"at the point rounded to {digits} decimals", [_rounded(x, digits) for x in q.xs]
        yield f"at the point rounded to {digits + 1} digits", [_to_digits(x, digits + 1) for x in q.xs]
    yield "at zero", [np.zeros(shape(x))[()] for x in q.xs]
    yield "at ones", [np.ones(shape(x))[()] for x in q.xs]
    yield "at the negative point", [-x for x in q.xs]
    if all(np.all(np.asarray(x) >= 0) for x in q.xs):
        return
    yield "at the absolute values of the point", [np.abs(x) for x in q.xs]


def _to_digits(x: Array, digits: int) -> Array:
    size = 10.0 ** (np.floor(np.log10(np.where(x == 0, 1.0, np.abs(x)))) + 1 - digits)
    return np.asarray(np.round(x / size) * size)[()]


def _rounded(x: Array, digits: int) -> Array:
    return np.asarray(np.round(x, digits))[()]


def _in_float32(x: Array) -> Array:
    rounded: Any = np.array(x, dtype="float32")
    return rounded.astype(np.float64)[()]


def _directions(wrong: Wrong) -> Iterator[tuple[str, list[Array]]]:
    """Yield lines through the point along which programs move it, such as the gradient."""
    q = wrong.q
    if all(name in wrong.right and shape(wrong.right[name]) == shape(x) for name, x in zip(q.wrt, q.xs, strict=True)):
        yield "at x + {} times the gradient", [np.asarray(wrong.right[name]) for name in q.wrt]
    yield "at the point times (1 + {})", list(q.xs)
    if len(q.xs) > 1:
        for k, name in enumerate(q.wrt):
            still = [np.zeros(shape(x))[()] for x in q.xs]
            yield f"at {name} times (1 + {{}})", [*still[:k], q.xs[k], *still[k + 1 :]]
            if name in wrong.right and shape(wrong.right[name]) == shape(q.xs[k]):
                yield (
                    f"at {name} + {{}} times its gradient",
                    [*still[:k], np.asarray(wrong.right[name]), *still[k + 1 :]],
                )


def _followed(wrong: Wrong, direction: list[Array]) -> float | None:
    """Return the distance along a line at which the claim is the right gradient, by Newton's method; None if there is none."""
    xs = wrong.q.xs
    scale = max((float(np.max(np.abs(x), initial=0.0)) for x in xs), default=0.0) or 1.0
    longest = max(float(np.max(np.abs(v), initial=0.0)) for v in direction)
    if not longest > 0 or not np.isfinite(longest):
        return None
    distance, h = 0.0, _PROBE * scale / longest
    for turn in range(_TURNS):
        here, near = (
            gradient_at(wrong, [x + s * v for x, v in zip(xs, direction, strict=True)])
            for s in (distance, distance + h)
        )
        if here is None or near is None:
            return None
        slope = end_to_end(near.values()) - end_to_end(here.values())
        left = end_to_end(wrong.claimed.values()) - end_to_end(here.values())
        if not np.any(slope):
            return None
        step = float(left @ slope / (slope @ slope))
        if turn == 0 and float(np.linalg.norm(left - step * slope)) > _LINEAR * float(np.linalg.norm(left)):
            return None
        distance += step * h
        made = gradient_at(wrong, [x + distance * v for x, v in zip(xs, direction, strict=True)])
        if made is not None and wrong.explained(made):
            return distance
    return None
