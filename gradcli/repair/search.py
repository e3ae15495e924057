"""The search for the smallest edit that makes a claim right: one edit, then two, within a counted number of evaluations."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.checks.causes import REDRAWN, confirmed_gradient, is_long
from gradcli.checks.request import Request
from gradcli.checks.wrong import MOST, BudgetSpent, CauseBudget, allowed_search_calls
from gradcli.classes import dataclass
from gradcli.errors import GradcliError
from gradcli.modes.claim import GRANT, GRANT_SOLVER, Called, ClaimedFunction, WrongShape, reshape_claim
from gradcli.modes.mode import Question
from gradcli.modes.recording import smaller_tolerances
from gradcli.modes.redraw import redraw_inputs, resize_inputs, shrink_inputs
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.repair.scope import Change, Edit, Gradient, Right, apply_changes
from gradcli.request.point import Array, Estimate, Point
from gradcli.targets.arguments import default_of
from gradcli.targets.derived import STEP, original_function
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.tracing.shapes import shape, size

_RIVALS = 250  # further evaluations after the first edit that holds, for others that hold too
_DEARER = 0.35  # how much more a rival may cost
_BASES = 3  # edits that mend a part of the claim, from which a second one is sought
_MOST_ALTERNATIVES = 3
_CHANGES_RIGHT = 3.0  # added to the cost of edits in statements that do so
_GIVES_RIGHT = 1.5  # of edits in statements whose value is right
_COMES_LATER = 0.4  # of edits in statements that read what a statement not known to be right has made
_CHEAPEST = 0.8  # the cost of the likeliest edits
CALLS_A_POINT = 10  # of f, about, for the right gradient at a further point

_RAISED = (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, np.linalg.LinAlgError)  # by code of users


class Subject(Protocol):
    """A claim as source text that can be changed and evaluated."""

    @property
    def text(self) -> str:
        """The source text."""

    def gradient(self, changes: Sequence[Change], number: int) -> Gradient | None:
        """Return the gradient that the changed claim gives at a point; None if it gives none."""

    def edits(self, without: Collection[int]) -> Iterable[Edit]:
        """Return the edits that may repair it, in any order, without those of statements on some lines."""

    def composed(self, right: Right) -> Iterable[Edit]:
        """Return edits that add to an output, or multiply it by, what the right gradient shows to be lacking."""

    def scaled(self) -> Mapping[int, tuple[Change, ...]]:
        """Return, for each line with a statement, a change that scales its value, to see what depends on it."""

    def right_lines(self) -> Collection[int]:
        """Return the lines of statements whose value is known to be right."""

    def later_lines(self, right: Collection[int]) -> Collection[int]:
        """Return the lines of statements that read values which are not known to be right."""

    def after(self, edit: Edit) -> "Subject | None":
        """Return the claim after an edit, to be edited again; None if that cannot be."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A text of the claim that is right, and the edits that made it."""

    text: str
    edits: tuple[Edit, ...]
    before: tuple[str, ...]  # the text that each edit was made in

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits)

    def with_edit(self, edit: Edit) -> "Repair":
        """Return the repair with one more edit of its text."""
        return Repair(apply_changes(self.text, edit.changes), (*self.edits, edit), (*self.before, self.text))


@dataclass
class RepairSearch:
    """A search at some points: the given one, drawn ones, and further ones, with all inputs drawn anew or of other sizes.

    `right_here` are the edits that hold at the points alone, and not at a further one: they are no repairs.
    """

    points: Sequence[Right]
    further: Callable[[], Sequence[Right]] = tuple  # called where an edit holds at the points
    budget: CauseBudget = field(default_factory=lambda: CauseBudget(MOST))
    evaluations: int = 0
    right_here: list[Repair] = field(default_factory=list)
    _partly: list[tuple[int, Edit]] = field(default_factory=list)

    def repairs(self, subject: Subject) -> list[Repair]:
        """Return the repairs that hold at every point and every further one, the smallest first."""
        unedited = Repair(subject.text, (), ())
        found = [unedited.with_edit(edit) for edit in self._single_edits(subject)]
        if not found:
            alone = list(self.right_here)
            for _, first in sorted(self._partly, key=lambda pair: (-pair[0], pair[1].cost))[:_BASES]:
                base = subject.after(first)
                if base is None:
                    continue
                self._partly = []
                found = [unedited.with_edit(first).with_edit(edit) for edit in self._single_edits(base)]
                self.right_here = list(alone)
                if found:
                    break
        return sorted(found, key=lambda repair: repair.cost)[: 1 + _MOST_ALTERNATIVES]

    def _single_edits(self, subject: Subject) -> list[Edit]:
        """Return the edits that hold at every point and every further one."""
        first = self.points[0]
        try:
            wrong = first.wrong(self._gradient_after(subject, (), 0))
            changes_right, idle = self._lines_by_effect(subject, wrong)
            right = {*subject.right_lines()} - idle
        except BudgetSpent:
            return []
        later = subject.later_lines(right)
        dearer = changes_right | {line: max(changes_right.get(line, 0.0), _GIVES_RIGHT) for line in right}

        def cost_by_line(edit: Edit) -> float:
            """Return the cost of an edit with what its line adds."""
            more = changes_right if edit.is_next_step else dearer
            return edit.cost + (0.0 if edit.exchanges else more.get(edit.line, 0.0))

        def cost_of(edit: Edit) -> float:
            # a name may lack something wherever it is made
            comes_later = edit.line in later and edit.kind != "statement"
            return cost_by_line(edit) + (_COMES_LATER if comes_later else 0.0)

        def edits() -> Iterator[Edit]:
            """Yield the edits by their cost; those of lines that are right are not made before it is their turn."""
            promising = (edit for edit in subject.edits(idle | right) if edit.line not in idle)
            made = sorted(promising, key=cost_of)
            number = sum(cost_of(edit) < _CHEAPEST + _GIVES_RIGHT for edit in made)
            yield from made[:number]
            others = (edit for edit in subject.edits(idle) if edit.line in right) if right else ()
            yield from sorted((*made[number:], *others), key=cost_of)

        found = self._edits_that_hold(subject, edits(), wrong, cost_by_line)
        return found or self._edits_that_hold(subject, subject.composed(first), wrong, lambda edit: edit.cost)

    def _edits_that_hold(
        self, subject: Subject, edits: Iterable[Edit], wrong: dict[str, Any] | None, cost_of: Callable[[Edit], float]
    ) -> list[Edit]:
        """Try edits, the cheapest first; return those that hold everywhere, and keep those that mend a part."""
        found: list[Edit] = []
        tried: set[tuple[Change, ...]] = set()
        end, most = np.inf, np.inf
        for edit in edits:
            cost = cost_of(edit)
            if self.budget.left <= 0 or cost > end or self.evaluations > most:
                break
            if edit.changes in tried:
                continue
            tried.add(edit.changes)
            try:
                made = self.points[0].wrong(self._gradient_after(subject, edit.changes, 0))
                if made is None:
                    continue
                if any(np.any(mask) for mask in made.values()):
                    if wrong is None:
                        self._partly.append((1, edit))
                    elif all(not np.any(made[name] & ~was) for name, was in wrong.items()):  # it broke no right entry
                        mended = sum(int(np.sum(was) - np.sum(made[name])) for name, was in wrong.items())
                        self._partly += [(mended, edit)] if mended > 0 else []
                elif self._holds_at(subject, edit, self.points[1:], 1):
                    if self._holds_at(subject, edit, self._further_points, len(self.points)):
                        found.append(edit)
                        end, most = min(end, cost + _DEARER), min(most, self.evaluations + _RIVALS)
                    else:
                        self.right_here.append(Repair(subject.text, (), ()).with_edit(edit))
            except BudgetSpent:
                break
        return found

    def _holds_at(self, subject: Subject, edit: Edit, points: Sequence[Right], first: int) -> bool:
        numbered = enumerate(points, first)
        return all(point.holds(self._gradient_after(subject, edit.changes, k)) for k, point in numbered)

    @cached_property
    def _further_points(self) -> Sequence[Right]:
        points = self.further()
        self.budget.spend(min(self.budget.left, CALLS_A_POINT * len(points)))
        return points

    def _gradient_after(self, subject: Subject, changes: Sequence[Change], number: int) -> Gradient | None:
        self.budget.spend()
        self.evaluations += 1
        return subject.gradient(changes, number)

    def _lines_by_effect(self, subject: Subject, wrong: dict[str, Any] | None) -> tuple[dict[int, float], set[int]]:
        """Return what edits of a line cost more because right entries depend on it, and the lines on which no wrong one does."""
        found: dict[int, float] = {}
        idle: set[int] = set()
        own = None if wrong is None else self._gradient_after(subject, (), 0)
        if wrong is None or own is None:
            return found, idle
        for line, changes in subject.scaled().items():
            made = self._gradient_after(subject, changes, 0)
            if made is None:
                continue
            moved = {}
            for name in wrong:
                a, b = np.asarray(own[name]), np.asarray(made.get(name))
                with np.errstate(all="ignore"):
                    near = np.abs(a - b) <= 1e-9 * np.abs(a) if a.shape == b.shape else np.zeros(a.shape, dtype=bool)
                    moved[name] = ~near
            wholly_right = [name for name, mask in wrong.items() if not np.any(mask)]
            if any(np.any(moved[name]) for name in wholly_right):
                found[line] = _CHANGES_RIGHT
            elif not any(np.any(moved[name] & mask) for name, mask in wrong.items() if moved[name].shape == mask.shape):
                idle.add(line)
        return found, idle


# The points of a repair: the given one, drawn ones near it, and further ones with all inputs drawn anew, or of another size.

DRAWN, SIZES = 3, 3  # points near the given one; other sizes
_ATTEMPTS = 8
_REDRAWS = 4  # until the inputs that cannot be redrawn are looked for
_MOST_ENTRIES = 20_000  # of a gradient or Jacobian at which edits are tried
_MOST_HERE = 10_000_000  # the same where an edit that holds at smaller sizes is tried
_ANSWERS = ("certified", "reverse", "finite-difference")
_FAR, _FAR_DRAWS = 2.0, 2  # of the logarithm by which a number is multiplied; points
_SPREAD = 0.3  # relative, of the inputs that are moved; halved after each point that is not smooth
_ROOM = 1e-9  # relative to the largest entry: a slip is never so small
_ROUNDINGS = 64  # of the claim's own format, where that is coarser than float64
_COARSEST = 1e-4  # relative to the largest entry: what two edits differ by must be larger


_ENOUGH = MOST // 2  # calls: with fewer, edits are tried at smaller sizes first
_LEAST_AT_SMALLER_SIZES = MOST // 4  # calls
_CHEAPER = 10  # times: a call of an edited claim beside a call of f with a sweep
NO_POINTS = "the right gradient is not known at enough points to try edits"
AtOtherSizes = Callable[[Mapping[str, Any]], Request]  # the request at values of other sizes, which raises GradcliError


def draw_near_points(request: Request, point: Point, names: tuple[str, ...]) -> list[Right]:
    """Return the right gradients of some inputs at the given point and at three drawn ones.

    Only the inputs that are differentiated are moved. Where the claim is wrong at a hard point, the point that the user gave
    and three near it are among the drawn ones.
    """
    first = _right_gradient_at(request, point, names)
    if first is None:
        return []
    moved = _inputs_to_move(request, point.values)
    drawn = list(_draw_nearby_points(request, point, names, moved, 0))
    if all(point is not other for other in request.points):
        given = request.points[0]
        right = _right_gradient_at(request, given, names)
        drawn += [*([right] if right is not None else []), *_draw_nearby_points(request, given, names, moved, 2)]
    return [first, *drawn]


def draw_further_points(request: Request, points: Sequence[Right], resized: AtOtherSizes) -> list[Right]:
    """Return the right gradients where all inputs are drawn anew, and at other sizes that f and the claim accept.

    An edit that holds at `points` alone, the first of which is the given one, is right by accident. `resized` makes the
    request at values of other sizes, or of parameters that the point leaves at their defaults.
    """
    first = points[0]
    names, moved = tuple(first.gradient), _inputs_to_move(request, first.at)
    right = tuple(name for name in names if all(_is_claim_right(request, point, (name,)) for point in points))
    held = right if _is_claim_right(request, first, ()) else None
    drawn = list(_redraw_all_inputs(request, first, names, held, moved))
    if defaults := _shared_defaults(request):
        rng = np.random.default_rng([request.seed, 0x9E9A4])
        values = {**(drawn[0].at if drawn else first.at), **redraw_inputs(defaults, (), rng)}
        drawn += filter(None, [_at_another_size(values, names, held, resized)])
    others = resize_inputs(first.at, moved, np.random.default_rng([request.seed, 0x9E9A3]))
    of_sizes = (next(filter(None, (_at_another_size(v, names, held, resized) for v in ways)), None) for ways in others)
    return [*drawn, *itertools.islice(filter(None, of_sizes), SIZES)]


def calls_of_edits(request: Request, least: int) -> int:
    """Return how many calls a search for edits may take at the first point of a request, at least so many."""
    q = request.question(request.points[0])
    return least if q.untraced is not None else max(least, allowed_search_calls(0, q.operations // _CHEAPER))


@dataclass(frozen=True)
class SmallerSizes:
    """The check at smaller sizes with right gradients there and near, the one at the given point, and the calls of a search."""

    request: Request
    points: list[Right]
    given: Right
    calls: int


def at_smaller_sizes(
    request: Request, point: Point, names: tuple[str, ...], resized: AtOtherSizes, calls: int, points: Sequence[Right]
) -> SmallerSizes | None:
    """Return where edits are tried first, as calls are few because each takes long, or right gradients too large.

    None where calls and points are enough, where the sizes cannot be smaller, and where the claim is not wrong there.
    """
    if calls >= _ENOUGH and len(points) > 1:
        return None
    for smaller in shrink_inputs(point.values, _inputs_to_move(request, point.values)):
        try:
            with np.errstate(all="ignore"):
                other = resized(smaller)
            there = draw_near_points(other, other.points[0], names) if {*names} <= {*other.wrt} else []
            if len(there) < 2 or other.claim is None:
                continue
            if there[0].holds(reshape_like_right(there[0], other.claim(there[0].copied_values()))):
                continue
        except _RAISED:
            continue
        given = _right_gradient_at(request, point, names, quick=True, most=_MOST_HERE)
        if given is None:
            return None
        return SmallerSizes(other, there, replace(given, resized=True), calls_of_edits(other, _LEAST_AT_SMALLER_SIZES))
    return None


def _shared_defaults(request: Request) -> dict[str, Any]:
    """Return the real numbers that f and the claim have as the defaults of parameters, and that are not of the point.

    One of them, such as a step dt=0.01, may be equal to something else, as to 1/n.
    """
    f, claim = original_function(request.f), request.claim
    called = claim.compute if isinstance(claim, ClaimedFunction) else None
    if not isinstance(f, PythonFunction) or not isinstance(called, Called):
        return {}
    signature = signature_of(f.function)
    names = [name for name in signature.parameters if name not in f.arguments] if signature else []
    defaults = {name: default_of(f.function, name) for name in names}
    return {
        name: np.float64(x)
        for name, x in defaults.items()
        if type(x) is float and np.isfinite(x) and default_of(called.function.function, name) == x
    }


def _inputs_to_move(request: Request, values: Mapping[str, Any]) -> tuple[str, ...]:
    floats = (
        name
        for name, x in values.items()
        if name != STEP and isinstance(x, np.ndarray | np.floating | float) and np.asarray(x).dtype.kind == "f"
    )
    return tuple(name for name in request.wrt if name != STEP) or tuple(floats)


def _redraw_all_inputs(
    request: Request, first: Right, names: tuple[str, ...], held: tuple[str, ...] | None, moved: tuple[str, ...]
) -> Iterator[Right]:
    """Yield the right gradients at points with all inputs drawn anew, the last with other signs, and far from the given one.

    Those show an edit that is right on one side of a threshold of f alone.

    Inputs that f or the claim does not take with other values, so that a gradient in `held` is right no more, are kept.
    """
    rng = np.random.default_rng([request.seed, 0x9E9A2])
    kept: set[str] = {STEP, *getattr(request.claim, "sizes", {})}
    searched, stepping = False, request.options.stepping

    def draw(still: Collection[str], times: int = _REDRAWS, **how: Any) -> Right | None:
        moving = {name: x for name, x in first.at.items() if name not in still}
        for _ in range(times):
            values = {**first.at, **redraw_inputs(moving, moved, rng, **how)}
            values = {n: stepping.moved_inside(n, x) if n in stepping.edges else x for n, x in values.items()}
            right = _right_gradient_at(request, Point(values), names, quick=True)
            if right is not None and _is_claim_right(request, right, held):
                return right
        return None

    for _ in range(REDRAWN):
        right = draw(kept)
        if right is None and not searched:
            searched = True
            others = [name for name in first.at if name not in moved and name not in kept]
            kept |= {name for name in others if draw({*first.at} - {name}, 1) is None}
            right = draw(kept)
        right = draw({*first.at} - {*moved}, 1) if right is None else right
        if right is not None:
            yield right
    right = draw(kept, signs=True)
    if right is not None:
        yield right
    signs = right is not None
    yield from filter(None, (draw(kept, 1, signs=signs, spread=_FAR) for _ in range(_FAR_DRAWS)))


def _at_another_size(
    values: Mapping[str, Any], names: tuple[str, ...], held: tuple[str, ...] | None, resized: AtOtherSizes
) -> Right | None:
    try:
        with np.errstate(all="ignore"):
            other = resized(values)
    except _RAISED:
        return None
    if not {*names} <= {*other.wrt}:
        return None
    right = _right_gradient_at(other, other.points[0], names, quick=True)
    if right is None or not _is_claim_right(other, right, held):
        return None
    return replace(right, resized=True, sizes=getattr(other.claim, "sizes", {}))


def _is_claim_right(request: Request, right: Right, held: tuple[str, ...] | None) -> bool:
    """Whether the claim gives a gradient at a point, and a right one for the inputs in `held`.

    None stands for a claim that has the wrong shape at the given point: it may have it here, too.
    """
    claim = request.claim
    if claim is None:
        return not held
    try:
        made = reshape_like_right(right, claim(right.copied_values()))
    except WrongShape:
        return held is None
    except _RAISED:
        return False
    return right.holds(made, held or ())


def reshape_like_right(right: Right, made: Gradient) -> dict[str, Array]:
    """Return a claimed gradient in the shapes of the right one. Raises WrongShape."""
    return {n: reshape_claim(n, x, right.outputs, shape(right.at[n])) for n, x in made.items() if n in right.gradient}


def _draw_nearby_points(
    request: Request, point: Point, names: tuple[str, ...], moved: tuple[str, ...], stream: int
) -> Iterator[Right]:
    rng = np.random.default_rng([request.seed, 0x9E9A1, stream])
    for _ in range(DRAWN):
        spread = _SPREAD
        for _ in range(_ATTEMPTS):
            values = {n: _move_values(request, n, x, rng, spread) if n in moved else x for n, x in point.values.items()}
            found = _right_gradient_at(request, Point(values, number=point.number), names)
            if found is not None:
                yield found
                break
            spread /= 2


def _move_values(request: Request, name: str, x: Any, rng: np.random.Generator, spread: float) -> Any:
    """Return the values moved at random: what is symmetric stays so, and what is 0 moves by the size of the others."""
    x = np.asarray(x, dtype=float)
    scale = np.abs(x) + 0.3 * float(np.median(np.abs(x))) if x.size else x
    step = spread * np.where(scale > 0, scale, 1.0) * rng.uniform(-1, 1, x.shape)
    if x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x, x.T):
        step = (step + step.T) / 2
    return request.options.stepping.moved_inside(name, x + step)[()]


def _right_gradient_at(
    request: Request, point: Point, names: tuple[str, ...], quick: bool = False, most: int = _MOST_ENTRIES
) -> Right | None:
    """Return the right gradient at a point; None if f is not smooth there, or nothing can say what it is.

    A `quick` one is that of the reverse mode, confirmed by a difference along a random direction, and so is that of a program
    of many lines.
    """
    q = request.question(replace(point, value=None))
    try:
        with np.errstate(all="ignore"), smaller_tolerances(request.f):
            if not np.all(np.isfinite(q.value)) or size(q.value) * q.entries > most:
                return None
            q = q.by_values_where_the_trace_differs()
            if q.untraced is None and (q.ties or q.not_finite is not None):
                return None
            estimate, changes = _best_estimate(q, quick or is_long(q)), q.solver_changes
    except _RAISED:
        return None
    if estimate is None:
        return None
    gradient = {name: np.asarray(estimate.value[name]) for name in names}
    if not all(np.all(np.isfinite(g)) for g in gradient.values()):
        return None
    coarseness = request.claim.precision.coarseness() if request.claim is not None else 1.0
    relative = min(max(_ROOM, _ROUNDINGS * EPS * coarseness), _COARSEST)
    room = {}
    for name, g in gradient.items():  # how far a right claim may be, one of whose roundings is so many times float64's
        known = EPS * np.abs(g) if q.untraced is not None else np.inf if is_long(q) else None
        rounding = q.rounding_of_textbook.errors[name] if known is None else known
        largest = float(np.max(np.abs(g), initial=0.0))
        granted = np.minimum(GRANT * coarseness * np.asarray(rounding), relative * largest)
        room[name] = np.asarray(estimate.bound[name]) + granted
    if changes is not None:
        room = {name: x + GRANT_SOLVER * changes.of(name, gradient[name]) for name, x in room.items()}
    return Right(dict(point.values), gradient, room, shape(q.value))


def _best_estimate(q: Question, quick: bool) -> Estimate | None:
    if quick:
        return confirmed_gradient(q)
    for name in _ANSWERS:
        try:
            return MODES[name].gradient(q)
        except GradcliError:
            continue
    return None
