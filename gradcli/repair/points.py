"""The points of a repair: the given one, drawn ones near it, and further ones where the other inputs are moved too."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape, size
from gradcli.errors import GradcliError
from gradcli.modes.claim import GRANT
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.numerics.rounding import EPS
from gradcli.point import Array, Estimate, Point
from gradcli.repair.right import Right
from gradcli.source.derived import STEP
from gradcli.verify.request import Request

DRAWN, FURTHER = 3, 3
_ATTEMPTS = 8
_MOST_ENTRIES = 20_000  # of a gradient or Jacobian
_ANSWERS = ("certified", "reverse", "finite-difference")
_SPREAD = 0.3  # relative, of the inputs that are moved; halved after each point that is not smooth
_ROOM = 1e-9  # relative to the largest entry: a slip is never so small
_ROUNDINGS = 64  # of the claim's own format, where that is coarser than float64
_COARSEST = 1e-4  # relative to the largest entry: what two edits differ by must be larger


def points_of(request: Request, point: Point, names: tuple[str, ...]) -> tuple[list[Right], list[Right]]:
    """Return the right gradients of some inputs at the given point and three drawn ones, and at further ones.

    Only the inputs that are differentiated are moved at first, since a claim may hold for labels that sum to one alone.
    Where the claim is wrong at a hard point, the point that the user gave and three near it are among the drawn ones.
    """
    first = _right(request, point, names)
    if first is None:
        return [], []
    moved = tuple(name for name in request.wrt if name != STEP) or tuple(_floats(point))
    drawn = list(_near(request, point, names, moved, DRAWN, 0))
    if all(point is not other for other in request.points):
        given = request.points[0]
        right = _right(request, given, names)
        drawn += [*([right] if right is not None else []), *_near(request, given, names, moved, DRAWN, 2)]
    others = tuple(name for name in _floats(point) if name not in moved and not _whole(point.values[name]))
    further = list(_near(request, point, names, (*moved, *others), FURTHER, 1)) if others else []
    return [first, *drawn], further


def _floats(point: Point) -> Iterator[str]:
    for name, x in point.values.items():
        if name != STEP and isinstance(x, np.ndarray | np.floating | float) and np.asarray(x).dtype.kind == "f":
            yield name


def _whole(x: Any) -> bool:
    """Whether all numbers are whole, as labels and counts are."""
    return bool(np.all(np.asarray(x) == np.round(x)))


def _near(
    request: Request, point: Point, names: tuple[str, ...], moved: tuple[str, ...], count: int, stream: int
) -> Iterator[Right]:
    rng = np.random.default_rng([request.seed, 0x9E9A1, stream])
    for _ in range(count):
        spread = _SPREAD
        for _ in range(_ATTEMPTS):
            values = {n: _moved(request, n, x, rng, spread) if n in moved else x for n, x in point.values.items()}
            found = _right(request, Point(values, number=point.number), names)
            if found is not None:
                yield found
                break
            spread /= 2


def _moved(request: Request, name: str, x: Any, rng: np.random.Generator, spread: float) -> Any:
    """Return the values moved at random: what is symmetric stays so, and what is 0 moves by the size of the others."""
    x = np.asarray(x, dtype=float)
    scale = np.abs(x) + 0.3 * float(np.median(np.abs(x))) if x.size else x
    step = spread * np.where(scale > 0, scale, 1.0) * rng.uniform(-1, 1, x.shape)
    if x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x, x.T):
        step = (step + step.T) / 2
    return request.stepping.moved_inside(name, x + step)[()]


def _right(request: Request, point: Point, names: tuple[str, ...]) -> Right | None:
    """Return the right gradient at a point; None if f is not smooth there, or nothing can say what it is."""
    q = Question(request.f, replace(point, value=None), request.wrt, request.seed, request.budget, request.stepping)
    try:
        with np.errstate(all="ignore"):
            if not np.all(np.isfinite(q.value)) or size(q.value) * q.entries > _MOST_ENTRIES:
                return None
            if q.untraced is None and (q.kinks or q.not_finite is not None):
                return None
            estimate = _answer(q)
    except (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, np.linalg.LinAlgError):
        return None
    if estimate is None:
        return None
    gradient = {name: np.asarray(estimate.value[name]) for name in names}
    if not all(np.all(np.isfinite(g)) for g in gradient.values()):
        return None
    coarseness = request.claim.precision.coarseness() if request.claim is not None else 1.0
    room = {name: _room(q, estimate, name, gradient[name], coarseness) for name in names}
    return Right(dict(point.values), gradient, room, shape(q.value))


def _answer(q: Question) -> Estimate | None:
    for name in _ANSWERS:
        try:
            return MODES[name].gradient(q)
        except GradcliError:
            continue
    return None


def _room(q: Question, estimate: Estimate, name: str, gradient: Array, coarseness: float) -> Array:
    """Return how far a right claim may be from the right gradient; one of its roundings is `coarseness` times float64's."""
    rounding = EPS * np.abs(gradient) if q.untraced is not None else q.rounding_of_textbook[0][name]
    relative = min(max(_ROOM, _ROUNDINGS * EPS * coarseness), _COARSEST)
    largest = relative * float(np.max(np.abs(gradient), initial=0.0))
    return np.asarray(estimate.bound[name]) + np.minimum(GRANT * coarseness * np.asarray(rounding), largest)
