"""Look for hard points where a claim is wrong or loses digits, and add what was found to the report of a check."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.causes import Verified
from gradcli.checks.check import verify
from gradcli.checks.lost_digits import (
    evaluate_both_ways,
    is_explained_by_rounding,
    record_or_none,
    report_inaccuracy,
    traceable_claim,
)
from gradcli.checks.request import Request
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadOption, GradcliError
from gradcli.modes.claim import Called, Claim, Claimed, ClaimedFunction, WrongShape, grant_input_rounding, reshape_claim
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.check import CheckReport
from gradcli.report.common import Finding
from gradcli.report.point_report import FewestDigits, StressReport
from gradcli.request.point import Estimate, Point, Stepping
from gradcli.targets.derived import Weighted, is_target, original_function, random_signs
from gradcli.targets.facts import (
    Function,
    dims_of_values,
    draw_with_facts,
    impose_facts,
    parse_facts,
    restrict_to_inputs,
)
from gradcli.targets.python import PythonFunction
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import closure_values, nested_codes, unwrap_function
from gradcli.words import Exit, Severity, Verdict, worst_status

# Points built to break gradients: signs, zeros, ties, saturation, magnitudes, tails, branches, indices, other sizes.

Values = dict[str, Any]
_POWERS = (-300, -150, -30, -16, -12, -8, -5, -3, -2, -1, 1, 2, 3, 5, 8, 12, 16, 30, 150, 300)
_SCALES = (1.0, 3.0, 0.1, 10.0, 100.0, 1e-3)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 31)
_FEW_OF_KIND = 6  # entries that are set alone
_LARGEST_POINT = 4_000  # entries of an input of another size


@dataclass(frozen=True)
class Around:
    """The given point, the inputs that are differentiated, the bounds, and the numbers near which branches may change."""

    values: Mapping[str, Any]
    wrt: tuple[str, ...]
    stepping: Stepping
    critical: Sequence[float] = ()
    seed: int = 0
    sizes: Mapping[str, Sequence[int]] | None = None  # by the name of a size; None for the usual sizes of every one
    named: Mapping[str, int] | None = None  # the sizes that have a name
    facts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # what is assumed about inputs

    @property
    def inputs(self) -> dict[str, Any]:
        """The given values of the inputs that are differentiated, as arrays."""
        return {name: np.asarray(self.values[name], dtype=float) for name in self.wrt}


def hard_points(around: Around, more: Iterable[Values] = ()) -> Iterator[Values]:
    """Yield points in an order that takes one of each kind in turn; those outside the bounds are left out."""
    kinds = [iter(more), *(make(around, np.random.default_rng([around.seed, k])) for k, make in enumerate(_KINDS))]
    seen = {_bytes_of_values(around.values)}
    while kinds:
        for kind in tuple(kinds):
            changed = next(kind, None)
            if changed is None:
                kinds.remove(kind)
                continue
            values = _impose_assumptions(around, {**around.values, **changed})
            key = _bytes_of_values(values)
            moved = tuple(np.asarray(values[name], dtype=float) for name in around.wrt)
            if key not in seen and around.stepping.are_inside(around.wrt, moved):
                seen.add(key)
                yield values


def _impose_assumptions(around: Around, values: Values) -> Values:
    """Return the values with every input moved to where the assumptions about it hold; numbers are numpy's."""
    rng = np.random.default_rng(around.seed)
    made = {
        name: np.float64(x) if isinstance(x, float) else x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x
        for name, x in values.items()
    }
    for name, facts in around.facts.items():
        with np.errstate(all="ignore"):
            x = impose_facts(facts, np.asarray(values[name], dtype=float), rng)
        made[name] = x if np.all(np.isfinite(x)) else draw_with_facts(facts, np.shape(values[name]), rng)
    return made


def _bytes_of_values(values: Mapping[str, Any]) -> bytes:
    parts = [np.asarray(x) for x in values.values()]
    return b"|".join(x.tobytes() if x.dtype.kind in "fiub" else repr(x.shape).encode() for x in parts)


# The kinds of points: each yields the values that it changes.


def _draw_normal(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Normal numbers of several sizes, for all inputs at once and for each alone, moved inside the bounds."""
    for _ in range(4):
        for scale in _SCALES:
            drawn = {n: scale * rng.standard_normal(x.shape) for n, x in around.inputs.items()}
            made = _move_inside_bounds(around, drawn)
            yield made
            for name in around.wrt if len(around.wrt) > 1 else ():
                yield {name: made[name]}


def _move_inside_bounds(around: Around, values: Values) -> Values:
    return {name: around.stepping.moved_inside(name, np.asarray(x, dtype=float)) for name, x in values.items()}


def _change_signs(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """The given numbers with other signs: all, one input, one entry, at random."""
    yield {name: -x for name, x in around.inputs.items()}
    for name, x in around.inputs.items():
        yield {name: -x}
        for k in _spread_indices(x):
            yield {name: _set_entry(x, k, -x.flat[k])}
        for _ in range(4):
            yield {name: x * rng.choice([-1.0, 1.0], x.shape)}


def _spread_indices(x: Any) -> list[int]:
    return np.unique(np.linspace(0, x.size - 1, min(_FEW_OF_KIND, x.size)).astype(int)).tolist() if x.size else []


def _set_entry(x: Any, k: int, value: float) -> Any:
    made = np.array(x, dtype=float)
    made.flat[k] = value
    return made


def _near_branches(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers between and beside the constants of the code, in one entry, and in all."""
    for number, (value, (name, x)) in enumerate(itertools.product(around.critical, around.inputs.items())):
        if x.size:
            yield {name: _set_entry(x, number % x.size, value)}
            if x.size > 1:
                yield {name: value * (1 + 1e-3 * rng.uniform(0, 1, x.shape))}


def _scale_by_powers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """The given numbers times powers of ten: all, one input, one entry, both signs."""
    for power in sorted(_POWERS, key=lambda p: (abs(p) > 30, abs(p) % 7, p)):
        factor = 10.0**power
        with np.errstate(all="ignore"):
            yield {name: x * factor for name, x in around.inputs.items()}
            for name, x in around.inputs.items():
                if len(around.wrt) > 1:
                    yield {name: x * factor}
                for k in _spread_indices(x)[:2] if x.size > 1 else ():
                    yield {name: _set_entry(x, k, x.flat[k] * factor)}
                yield {name: -x * factor}


def _saturating_numbers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers where exponentials saturate or overflow, in one entry or in all, and numbers far from zero and near each other."""
    for value in (12.0, 20.0, 31.0, 37.0, 45.0, 100.0, 500.0, 720.0, 800.0):
        for (name, x), sign in itertools.product(around.inputs.items(), (1.0, -1.0)):
            if x.size > 1:
                yield {name: _set_entry(x, int(rng.integers(x.size)), sign * value)}
            yield {name: sign * value + x}
            yield {name: sign * value * np.ones_like(x) * (1 + 0.01 * rng.uniform(-1, 1, x.shape))}
    for power in (3, 5, 7, 9):
        for name, x in around.inputs.items():
            yield {name: 10.0**power + x}


def _zeros_and_ties(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Zeros, equal entries, entries in order, nearly equal ones, one entry alone."""
    for name, x in around.inputs.items():
        yield {name: np.zeros_like(x)}
        yield {name: -0.0 * np.ones_like(x)}
        for k in _spread_indices(x) if x.size > 1 else ():
            yield {name: _set_entry(x, k, 0.0)}
            yield {name: _set_entry(x, k, x.flat[(k + 1) % x.size])}
            yield {name: _set_entry(np.zeros_like(x), k, 1.0)}
        if x.size > 1:
            yield {name: np.sort(x, axis=None).reshape(x.shape)}
            yield {name: -np.sort(-x, axis=None).reshape(x.shape)}
            yield {name: x.reshape(-1)[::-1].reshape(x.shape)}
            yield {name: np.mean(x) * (1 + 1e-9 * rng.uniform(-1, 1, x.shape))}
        yield {name: np.full_like(x, 1.0)}


def _heavy_tails(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Heavy-tailed numbers, and numbers evenly spread over their exponents."""
    for _ in range(8):
        made = {n: rng.standard_cauchy(x.shape) for n, x in around.inputs.items()}
        yield _move_inside_bounds(around, made)
        signs = {
            n: rng.choice([-1.0, 1.0], x.shape) * 10.0 ** rng.uniform(-9, 5, x.shape) for n, x in around.inputs.items()
        }
        yield _move_inside_bounds(around, signs)


def _spread_over_bounds(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers spread over the bounds, evenly and by their distance from each end."""
    inputs = {n: x for n, x in around.inputs.items() if n in around.stepping.edges}
    ends = {n: [float(np.clip(edge, -1e300, 1e300)) for edge in around.stepping.edges_of(n)] for n in inputs}
    for _ in range(6) if inputs else ():
        yield {n: low + (high - low) * rng.uniform(0, 1, inputs[n].shape) for n, (low, high) in ends.items()}
    for power in (-1, -2, -3, -5, -8, -12, -16):
        for (name, x), from_low in itertools.product(inputs.items(), (True, False)):
            low, high = ends[name]
            edge = low + (high - low) * 10.0**power if from_low else high - (high - low) * 10.0**power
            yield {name: _set_entry(x, int(rng.integers(x.size)), edge) if x.size else x}
            yield {name: np.full_like(x, edge) * (1 + 1e-3 * rng.uniform(-1, 0, x.shape))}
        for name, x in inputs.items():
            low, high = around.stepping.edges_of(name)
            if low > 0 and np.isfinite(high):
                yield {name: 10.0 ** (np.log10(low) + (np.log10(high) - np.log10(low)) * rng.uniform(0, 1, x.shape))}
            yield {name: np.clip(x * 10.0**power, low, high)}


def _change_integers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Other indices, masks and counts: repeated, all false, all true, another order; numbers beside the given one."""
    for name, x in around.values.items():
        if name in around.wrt or isinstance(x, str | bytes):
            continue
        array = np.asarray(x)
        if array.dtype.kind not in "iub" or not array.size:
            continue
        if array.ndim == 0:
            if array.dtype.kind != "b":
                for value in (int(array) + 1, int(array) - 1, 1, 2, 0):
                    yield {name: type(x)(value)}
            continue
        most = int(np.max(array)) if array.dtype.kind != "b" else 1
        made = [np.full_like(array, array.flat[0]), np.roll(array, 1), array[..., ::-1], np.zeros_like(array)]
        if array.dtype.kind == "b" or set(np.unique(array)) <= {0, 1}:
            made += [np.ones_like(array), 1 - array if array.dtype.kind != "b" else ~array]
            made += [rng.integers(0, 2, array.shape).astype(array.dtype) for _ in range(3)]
        elif most >= 0 and np.min(array) >= 0:
            made += [rng.integers(0, most + 1, array.shape).astype(array.dtype) for _ in range(3)]
            made += [np.full_like(array, most)]
        for other in made:
            yield {name: other}


def _change_sizes(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Other lengths of arrays; axes of one length are taken to be one size."""
    found = {n for x in around.values.values() if isinstance(x, np.ndarray) for n in x.shape if n > 0}
    lengths, named = sorted(found, reverse=True), around.named or {}
    tried = {"": _SIZES} if around.sizes is None else around.sizes
    for name, sizes in tried.items():
        for size, old in itertools.product(sizes, [named[name]] if name in named else lengths):
            made: Values = {}
            for n, x in around.values.items() if size != old else ():
                if isinstance(x, np.ndarray):
                    made[n] = _resize_axis(x, old, size, rng, n in around.wrt)
                elif isinstance(x, int) and not isinstance(x, bool) and x == old:
                    made[n] = size
            if made and all(np.size(x) <= _LARGEST_POINT for x in made.values()):
                yield made


def _resize_axis(x: Any, old: int, size: int, rng: np.random.Generator, moves: bool) -> Any:
    for axis, length in enumerate(x.shape):
        if length == old:
            taken = np.arange(size) % old
            x = np.take(x, taken, axis=axis)
            if moves and size > old:
                x = x * (1 + 0.3 * rng.uniform(-1, 1, x.shape))
    return x


_KINDS: tuple[Callable[[Around, np.random.Generator], Iterator[Values]], ...] = (
    _change_signs, _draw_normal, _near_branches, _change_integers, _change_sizes, _scale_by_powers, _spread_over_bounds,
    _zeros_and_ties, _saturating_numbers, _heavy_tails,
)  # fmt: skip


# The search for hard points, and what it adds to a report.

POINTS = 400  # that are looked at, unless the user asks for another number
_MOST_CALLS = 15_000  # of f, after which no further point is looked at
_WITHOUT = frozenset({"symbolic"})  # modes that a wrong point need not run
_CONFIRMED = 3  # wrong points that are checked in full, before the search goes on without a verdict
FEW_DIGITS = 6.0  # fewer are reported
_LOST = 2.0  # digits that are lost beside those that the inputs leave open; fewer are no finding


def search_hard_points(given: Verified, request: Request, sizes: Mapping[str, int] | None = None) -> Verified:
    """Return the verdict with what was seen at hard points.

    Of a claim that passed: the point where it is wrong, or where it keeps the fewest digits. Without a claim: where f and
    its gradient by each mode keep the fewest. `sizes` has the numbers of named sizes.

    Raises  BadOption where the claim is no gradient; BadClaim if the claim raises where f is smooth.
    """
    if not is_target(request.f) and not isinstance(request.f, Weighted) and request.own is None:
        raise BadOption("--stress is for gradients, Jacobians and products w J", do="check the gradient: --grad")
    report = given.report
    if report.verdict == Verdict.FAIL:
        return given
    if request.claim is None:
        return replace(given, report=_search_without_claim(report, request, sizes))
    counts = dict.fromkeys(Word, 0)
    fewest: Look | None = None
    in_float32: Look | None = None  # where the claim loses the most digits on float32 inputs
    wrong: Verified | None = None
    confirmed = 0
    is_called = isinstance(request.claim, ClaimedFunction) and isinstance(request.claim.compute, Called)
    narrow = MOST if is_called else 0
    for values in _draw_hard_points(request, sizes):
        seen = look_at_point(request, values)
        counts[seen.word] += 1
        if seen.word is Word.WRONG and confirmed < _CONFIRMED:
            confirmed += 1
            wrong = _confirm_wrong_point(request, seen.values, request.points[0])
            if wrong is not None:
                break
        if seen.word is Word.RIGHT and _has_fewer_digits(seen, fewest):
            fewest = seen
        if seen.word is Word.RIGHT and narrow > 0:
            narrow -= 1
            other = look_in_float32(request, seen)
            in_float32 = other if other is not None and _has_fewer_digits(other, in_float32) else in_float32
    stress = StressReport(sum(counts.values()), counts[Word.RIGHT], counts[Word.SKIPPED], counts[Word.WRONG])
    report = replace(report, stress=stress)
    if wrong is not None:
        failed = replace(wrong.report.points[0], name="hard point")
        causes = {len(report.points): cause for cause in wrong.causes.values()}
        points = (*report.points, failed)
        report = replace(report, points=points, verdict=Verdict.FAIL, exit_status=int(Exit.WRONG))
        return Verified(report, causes, calls=wrong.calls)
    report = _add_fewest_digits(report, request, fewest, request.options.digits)
    if in_float32 is not None:
        what = f"on float32 inputs the claim of {in_float32.name}"
        lost = report_inaccuracy(what, in_float32.digits, in_float32.values, None, request.wrt, None)
        report = _add_findings(report, [lost])
    return replace(given, report=report)


# Look at a claim at one point: is f smooth and finite there, is the claim right, and how many digits does it keep?

FULL = 16.0  # digits of float64
_TINY = 1e-290  # below it numbers lose digits because float64 has no smaller ones
_LARGEST_LOOKED_AT = 1e290  # above it the next operation may overflow
_MOST_ENTRIES_LOOKED_AT = 20_000
_GROWN = 64.0  # ulps of an input, by which the right gradient moves: what no claim can keep
_AS_A_WHOLE = 0.1  # relative: a larger change is not in proportion to what moved the inputs


class Word(Enum):
    """What was seen at a point."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"  # f is not smooth or not finite there, or nothing can say what is right


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a point: the word, the digits that the claim keeps in its worst entry, and that entry's input.

    `given` counts the digits that the inputs leave: if they move by a rounding, the right gradient moves too.
    """

    word: Word
    values: Mapping[str, Any]
    digits: float = FULL
    given: float = FULL
    name: str = ""

    @property
    def lost(self) -> float:
        """How many digits the claim loses that the inputs do not take."""
        return max(0.0, min(self.given, FULL) - self.digits)


def look_at_point(request: Request, values: Mapping[str, Any], *, conditioned: bool = True) -> Look:
    """Look at the claim of a request at one point.

    Raises  BadClaim if the claim raises where f is smooth.
    """
    skipped = Look(Word.SKIPPED, values)
    q = request.question(Point(dict(values)))
    right = right_gradient(q)
    if right is None or request.claim is None:
        return skipped
    try:
        claimed = Claim(request.claim).gradient(q)
    except WrongShape:
        return Look(Word.WRONG, values, 0.0)
    except BadClaim as error:
        what = f"{error.what}, at the hard point {numbers.write_point(values)}"
        raise BadClaim(what, where=error.where, do=error.do) from error
    except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return skipped
    digits, name = digits_of_gradient(claimed, right)
    if not all(np.all(np.isfinite(np.asarray(x))) for x in claimed.value.values()):
        return Look(Word.WRONG, values, 0.0, name=name)
    if _differs_beyond_bounds(claimed, right):
        claimed, _ = grant_input_rounding(claimed, right, q)
    if not _differs_beyond_bounds(claimed, right):
        given = given_digits(q, right) if conditioned and digits < FULL - _LOST else FULL
        return Look(Word.RIGHT, values, digits, given, name)
    if is_explained_by_rounding(request.claim, request.wrt, values, claimed.value, right.value):
        return Look(Word.RIGHT, values, digits, given_digits(q, right) if conditioned else FULL, name)
    if q.untraced is None and any(map(np.any, q.undecided)):  # a staircase, which takes longer to see
        return skipped
    return Look(Word.WRONG, values, digits, name=name)


def right_gradient(q: Question) -> Estimate | None:
    """Return the right gradient where f is smooth and finite; None elsewhere."""
    try:
        with np.errstate(all="ignore"):
            if not np.all(np.isfinite(q.value)) or np.size(q.value) * q.entries > _MOST_ENTRIES_LOOKED_AT:
                return None
            q = q.by_values_where_the_trace_differs()
            if q.untraced is not None:
                return MODES["finite-difference"].gradient(q)
            if np.any(np.abs(q.value) > _LARGEST_LOOKED_AT) or q.ties:
                return None
            try:
                found = MODES["certified"].gradient(q)
            except GradcliError:
                return None
    except (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, OverflowError, np.linalg.LinAlgError):
        return None
    finite = all(np.all(np.isfinite(x)) and np.all(np.abs(x) < _LARGEST_LOOKED_AT) for x in found.value.values())
    return found if finite else None


def _differs_beyond_bounds(claimed: Estimate, right: Estimate) -> bool:
    """Whether the claim differs from the right gradient by more than a right one can."""
    for name, x in claimed.value.items():
        with np.errstate(all="ignore"):
            room = np.asarray(claimed.bound[name]) + np.asarray(right.bound[name]) + _TINY
            if shape(x) != shape(right.value[name]) or np.any(np.abs(np.asarray(x) - right.value[name]) > room):
                return True
    return False


def digits_of_gradient(found: Estimate, right: Estimate) -> tuple[float, str]:
    """Return the right digits in the worst entry of a gradient, as far as the right one is known, and this entry's input."""
    worst, at = FULL, ""
    for name, x in found.value.items():
        if shape(x) != shape(right.value[name]):
            return 0.0, name
        digits = right_digits(x, right.value[name], right.bound[name])
        if digits < worst:
            worst, at = digits, name
    return worst, at


def right_digits(x: Any, right: Any, bound: Any = 0.0) -> float:
    """Return how many digits of an array are right in its worst entry; the right one is known to the bound."""
    right = np.asarray(right)
    with np.errstate(all="ignore"):
        error = np.abs(np.asarray(x) - right) - np.asarray(bound)
        relative = np.where(error > _TINY, error / np.abs(right), 0.0)
        relative = np.where(np.isfinite(np.asarray(x)) & np.isfinite(relative), relative, 1.0)
    most = float(np.max(relative, initial=0.0))
    return FULL if most <= EPS else FULL - float(np.clip(FULL + np.log10(most), 0.0, FULL))


def given_digits(q: Question, right: Estimate) -> float:
    """Return the digits of the right gradient that inputs leave which are known to a rounding."""
    other = right_gradient(replace(q, point=Point(move_by_rounding(q))))
    if other is None:
        return 0.0
    return min((digits_left_by_inputs(x, other.value[name]) for name, x in right.value.items()), default=FULL)


def move_by_rounding(q: Question) -> dict[str, Any]:
    """Return the values of a point with every input moved by some roundings, which `digits_left_by_inputs` takes into account."""
    rng = np.random.default_rng(q.seed)
    made = dict(q.point.values)
    for name in q.wrt:
        x = np.asarray(made[name], dtype=float)
        made[name] = (x * (1 + _GROWN * EPS * random_signs(rng, x.shape)))[()]
    return made


def digits_left_by_inputs(x: Any, other: Any) -> float:
    """Return the digits of an array that one rounding of the inputs leaves: it is `other` where `move_by_rounding` moved them.

    An array that changes as a whole, as a fast oscillation does, is in no proportion to what moved it: none are left.
    """
    with np.errstate(all="ignore"):
        change = np.abs(np.asarray(other) - np.asarray(x)) / np.abs(np.asarray(x))
    worst = float(np.max(np.where(np.isfinite(change), change, 0.0), initial=0.0))
    if worst > _AS_A_WHOLE:
        return 0.0
    return FULL if worst == 0.0 else FULL - float(np.clip(FULL + np.log10(worst / _GROWN), 0.0, FULL))


def require_digits(report: CheckReport, request: Request, digits: float) -> CheckReport:
    """Return the report, wrong if the claim keeps fewer digits at a given point than are asked for."""
    if request.claim is None or not is_target(request.f):
        raise BadOption("--digits counts the right digits of a claimed gradient", do="give one: --grad g")
    looks = [look_at_point(request, point.values, conditioned=False) for point in request.points]
    fewest = min(looks, key=lambda seen: seen.digits)
    return _add_fewest_digits(report, request, fewest if fewest.word is Word.RIGHT else None, digits)


# Points on the other side of the branches that f and its claim took, sought by following the margins of comparisons.

_STEPS = 4  # of Newton's method towards a margin of zero
_BEYOND = (1.01, 1.5)  # times the step that reaches it
_MOST_MARGINS = 40  # comparisons
_COMPARED = frozenset({"less", "less_equal", "greater", "greater_equal"})


def points_beyond_branches(request: Request, point: Point) -> Iterator[dict[str, Any]]:
    """Yield points where one comparison of f or of the claim goes the other way than at the given point."""
    claim = traceable_claim(request.claim)
    functions = [restrict_to_inputs(request.f, point.values, request.wrt)]
    if claim is not None:
        functions.append(lambda *xs: claim({**point.values, **dict(zip(request.wrt, xs, strict=True))}))
    for function in functions:
        program = record_or_none(function, [point.values[name] for name in request.wrt])
        if program is not None:
            yield from _cross_comparisons(request, point.values, function, program)


def _cross_comparisons(
    request: Request, values: Mapping[str, Any], function: Any, program: RecordedProgram
) -> Iterator[dict[str, Any]]:
    number = 0
    for k, (primitive, _, operands, _, _, _) in enumerate(program.tape.decisions):
        if primitive is None or primitive.name not in _COMPARED or len(operands) < 2:
            continue
        margins = np.ravel(np.subtract(*(np.asarray(x, dtype=float) for x in operands[:2])))
        for entry in np.argsort(np.abs(margins))[:3]:
            number += 1
            if number > _MOST_MARGINS:
                return
            for beyond in _BEYOND:
                made = _follow_margin(request, values, function, k, int(entry), beyond)
                if made is not None:
                    yield made


def _follow_margin(
    request: Request, values: Mapping[str, Any], function: Any, k: int, entry: int, beyond: float
) -> dict[str, Any] | None:
    """Return a point a little beyond that where the k-th comparison changes, found by Newton's method on its margin."""
    xs = [np.asarray(values[name], dtype=float) for name in request.wrt]
    for _ in range(_STEPS):
        program = record_or_none(function, [x[()] for x in xs])
        if program is None or k >= len(program.tape.decisions):
            break
        _, slots, operands, _, _, _ = program.tape.decisions[k]
        margin = np.subtract(*(np.asarray(x, dtype=float) for x in operands[:2]))
        if entry >= margin.size:
            break
        slopes = [np.zeros(np.shape(x)) for x in xs]
        seed = np.zeros(margin.shape)
        seed.flat[entry] = 1.0
        for sign, slot, x in zip((1.0, -1.0), slots, operands, strict=False):
            if slot == CONSTANT:
                continue
            own = seed if np.shape(x) == margin.shape else np.sum(seed).reshape(np.shape(x))
            found = program.tape.sweep(slot, (sign * own)[()])
            for n, recorded in enumerate(program.inputs):
                if found[recorded.slot] is not None:
                    slopes[n] = slopes[n] + found[recorded.slot]
        square = sum(float(np.sum(np.square(s))) for s in slopes)
        if not 0 < square < np.inf:
            break
        xs = [x - float(margin.flat[entry]) / square * s for x, s in zip(xs, slopes, strict=True)]
    start = [np.asarray(values[name], dtype=float) for name in request.wrt]
    xs = [a + beyond * (b - a) for a, b in zip(start, xs, strict=True)]
    made = {name: x[()] for name, x in zip(request.wrt, xs, strict=True)}
    return {**values, **made} if all(np.all(np.isfinite(x)) for x in made.values()) else None


# Numbers near which a function may take another branch: the constants of its code, and of the user's functions it calls.

_MOST_CRITICAL = 24  # numbers that are used
_MOST_ENTRIES = 200  # of an array that holds such numbers
_DEEP = 4  # calls from one function to the next
_NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:[eE][-+]?\d+)?")


def critical_numbers(f: Function, claim: Claimed | None) -> list[float]:
    """Return numbers between and beyond the constants that a function and its claim hold, both signs, the smallest first."""
    root = original_function(f)
    read: list[Any] = [root.function] if isinstance(root, PythonFunction) else []
    if isinstance(claim, ClaimedFunction) and isinstance(claim.compute, Called):
        read.append(claim.compute.function.function)
    functions = [x for x in map(unwrap_function, read) if isinstance(x, FunctionType)]
    found = {x for function in functions for x in _constants_in_code(function, _DEEP, set())}
    if root.kind == "expression":
        texts = (getattr(root, "text", ""), getattr(claim, "text", ""))
        found |= {float(number) for text in texts for number in _NUMBER.findall(text)}
    held = sorted({x for x in found if np.isfinite(x) and 0 < abs(x) < 1e6} | {0.0})
    if len(held) > _MOST_CRITICAL:
        held = [held[k] for k in np.linspace(0, len(held) - 1, _MOST_CRITICAL).astype(int)]
    beyond = [held[0] - 1.0, held[-1] * 1.25 + 1.0]
    between = [(a + b) / 2 for a, b in itertools.pairwise(held)]
    beside = [x * (1 + side) for x in held if x for side in (-1e-3, 1e-3)]
    both = {*beyond, *between, *beside}
    return sorted(both | {-x for x in both}, key=abs)


def _constants_in_code(function: FunctionType, deep: int, seen: set[int]) -> Iterator[float]:
    if id(function) in seen or not deep:
        return
    seen.add(id(function))
    names = {name for code in nested_codes(function.__code__) for name in code.co_names}
    own = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    for code in nested_codes(function.__code__):
        yield from (float(x) for x in code.co_consts if isinstance(x, int | float) and not isinstance(x, bool))
    for x in map(unwrap_function, (*closure_values(function).values(), *own, *(function.__defaults__ or ()))):
        if isinstance(x, FunctionType):
            if x.__module__ == function.__module__:
                yield from _constants_in_code(x, deep - 1, seen)
        elif isinstance(x, int | float) and not isinstance(x, bool):
            yield float(x)
        elif isinstance(x, np.ndarray) and x.dtype.kind in "fiu" and x.size <= _MOST_ENTRIES:
            yield from map(float, x.reshape(-1))


def _draw_hard_points(request: Request, sizes: Mapping[str, int] | None) -> Iterator[dict[str, Any]]:
    """Yield hard points, as many as are wanted, until f was called too often."""
    given, options = request.points[0], request.options
    around = Around(
        given.values, request.wrt, options.stepping, critical_numbers(request.f, request.claim), request.seed,
        options.sizes_check, sizes, parse_facts(list(options.assume), dims_of_values(given.values)),
    )  # fmt: skip
    last = _count_calls(request) + _MOST_CALLS
    found = hard_points(around, points_beyond_branches(request, given))
    if isinstance(request.f, Weighted):  # the weights of a product w J have the shapes of the point
        shapes = {name: np.shape(x) for name, x in given.values.items()}
        found = (v for v in found if all(np.shape(v[name]) == own for name, own in shapes.items() if name in v))
    for values in itertools.islice(found, POINTS if options.stress_points is None else options.stress_points):
        if _count_calls(request) > last:
            return
        yield values


# A claim on float32 inputs: the digits that it keeps of those that float32 leaves.

MOST = 60  # points at which float32 is tried
DIGITS = float(-np.log10(np.finfo(np.float32).eps))
_FEWEST_GIVEN = 3.0  # digits that float32 must leave of the right gradient
_LOST_IN_FLOAT32 = 3.0  # digits that are lost beside those that float64 loses; fewer are no finding
_SMALLEST, _LARGEST = 1e-30, 1e30  # numbers whose squares and products float32 may not have are left out, unless zero


def look_in_float32(request: Request, seen: Look) -> Look | None:
    """Return what the claim keeps on float32 inputs, if it loses more digits than at the point seen in float64; else None.

    The right gradient is that at the same numbers, in float64.
    """
    values = seen.values
    narrow = {**values, **{name: np.asarray(values[name], dtype=np.float32)[()] for name in request.wrt}}
    wide = {**values, **{name: np.asarray(narrow[name], dtype=float)[()] for name in request.wrt}}
    if not all(_is_in_float32_range(wide[name]) for name in request.wrt) or request.claim is None:
        return None
    q = request.question(Point(wide))
    right = right_gradient(q)
    if right is None or not all(map(_is_in_float32_range, right.value.values())):
        return None
    given = DIGITS - (FULL - given_digits(q, right))
    if given < _FEWEST_GIVEN:
        return None
    try:
        with np.errstate(all="ignore"):
            found = request.claim(narrow)
            claimed = {n: reshape_claim(n, x, np.shape(q.value), shape(wide[n])) for n, x in found.items()}
    except (GradcliError, WrongShape, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        return None
    both = {n: x for n, x in claimed.items() if n in right.value}
    digits = {n: min(right_digits(x, right.value[n], right.bound[n]), DIGITS) for n, x in both.items()}
    name = min(digits, key=lambda n: digits[n])
    narrowed = Look(Word.RIGHT, wide, digits[name], given, name)
    return narrowed if narrowed.lost > seen.lost + _LOST_IN_FLOAT32 else None


def _is_in_float32_range(x: Any) -> bool:
    x = np.abs(np.asarray(x))
    return bool(np.all((x == 0) | ((x > _SMALLEST) & (x < _LARGEST))))


def _has_fewer_digits(seen: Look, fewest: Look | None) -> bool:
    return seen.lost > _LOST and (fewest is None or seen.digits < fewest.digits)


# How many digits are right at a point without a claim: of the value of f, and of its gradient by each mode.

VALUE = "value"
BY_RULES = ("forward", "reverse")  # modes that lose digits by rounding alone
MEASURED = (*BY_RULES, "finite-difference")


def measure_digits(request: Request, q: Question) -> dict[str, Look]:
    """Return the right digits of the value of f and of its gradient by each mode; nothing where they cannot be known.

    Shapes  digits are those of the worst entry.
    """
    right = None if q.untraced is not None else right_gradient(q)
    if right is None:
        return {}
    found: dict[str, Look] = {}
    values: Mapping[str, Any] = q.point.values
    exact = evaluate_both_ways(request.f, q.wrt, values)
    if exact is not None and shape(exact[1]) == shape(np.ravel(q.value)):
        digits, given = right_digits(np.ravel(q.value), exact[1]), FULL
        if digits < FULL - 4:
            other = evaluate_both_ways(request.f, q.wrt, move_by_rounding(q))
            given = 0.0 if other is None else digits_left_by_inputs(exact[1], other[1])
        found[VALUE] = Look(Word.RIGHT, values, digits, given)
    left_by_inputs: float | None = None
    for mode in (name for name in MEASURED if name in request.modes):
        try:
            with np.errstate(all="ignore"):
                gradient = MODES[mode].gradient(q)
        except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            continue
        digits, name = digits_of_gradient(gradient, right)
        if left_by_inputs is None and digits < FULL - 4:
            left_by_inputs = given_digits(q, right)
        found[mode] = Look(Word.RIGHT, values, digits, FULL if left_by_inputs is None else left_by_inputs, name)
    return found


def _search_without_claim(report: CheckReport, request: Request, sizes: Mapping[str, int] | None) -> CheckReport:
    """Return the report with the points where f, and its gradient by each mode, keep the fewest digits."""
    if request.question(request.points[0]).untraced is not None:
        what = "--stress without a claim compares with certified values, and f is not traced"
        raise BadOption(what, do="give a claim, which needs values of f alone: --grad g")
    tried = known = 0
    fewest: dict[str, Look] = {}
    for values in _draw_hard_points(request, sizes):
        tried += 1
        seen = measure_digits(request, request.question(Point(values)))
        known += bool(seen)
        for what, each in seen.items():
            if _has_fewer_digits(each, fewest.get(what)):
                fewest[what] = each
    listed = tuple(FewestDigits(what, x.digits, dict(x.values)) for what, x in fewest.items())
    report = replace(report, stress=StressReport(tried, known, tried - known, 0, listed))
    found, wanted = [], request.options.digits
    for what, x in fewest.items():
        if what in (VALUE, *BY_RULES) and x.digits < max(FEW_DIGITS, wanted or 0.0):
            name = "f" if what == VALUE else f"the gradient by {what}"
            found.append(report_inaccuracy(name, x.digits, x.values, request.f, request.wrt, wanted))
    return _add_findings(report, found)


def _count_calls(request: Request) -> int:
    """Return how often the function was called; 0 for an expression, whose calls cost little."""
    root = original_function(request.f)
    return root.calls if isinstance(root, PythonFunction) else 0


# Shrink a point where a claim is wrong to the simplest one where it still is.

_MOST = 120  # points that are tried
_ROUNDED = (1, 2, 3)  # significant digits
_FEW = 12  # entries that are made simpler one by one


def shrink_point(
    values: Mapping[str, Any], given: Mapping[str, Any], wrt: tuple[str, ...], fails: Callable[[Any], bool]
) -> dict[str, Any]:
    """Return a point that still `fails`, with as many given values, and numbers as short, as were found.

    Cost  at most 120 calls of `fails`.
    """
    best = dict(values)
    simpler = _simpler_points(best, given, wrt)
    for _ in range(_MOST):
        other = next(simpler, None)
        if other is None:
            break
        if fails(other):
            best, simpler = other, _simpler_points(other, given, wrt)
    return best


def _simpler_points(
    values: Mapping[str, Any], given: Mapping[str, Any], wrt: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield simpler points: an input as it was given, all entries rounded, one entry as given or rounded."""
    for name, x in values.items():
        if np.shape(x) == np.shape(given[name]) and not np.array_equal(np.asarray(x), np.asarray(given[name])):
            yield {**values, name: given[name]}
    for name in wrt:
        x = np.asarray(values[name], dtype=float)
        for digits in _ROUNDED:
            rounded = _round_to_digits(x, digits)
            if not np.array_equal(rounded, x):
                yield {**values, name: rounded[()]}
                break
        if 1 < x.size <= _FEW:
            was = np.asarray(given[name], dtype=float)
            for k in range(x.size):
                first = was.flat[k] if was.shape == x.shape else 1.0
                for simple in (first, *(_round_to_digits(x.flat[k], d) for d in _ROUNDED)):
                    if len(repr(float(simple))) < len(repr(float(x.flat[k]))):
                        made = x.copy()
                        made.flat[k] = simple
                        yield {**values, name: made}
                        break


def _round_to_digits(x: Any, digits: int) -> Any:
    return np.vectorize(lambda number: float(f"{number:.{digits}g}"), otypes=[float])(x) if np.size(x) else x


def _confirm_wrong_point(request: Request, values: Mapping[str, Any], given: Point) -> Verified | None:
    """Return the verdict at the simplest point near these values where the whole check says fail; None if it says otherwise."""
    fails: Callable[[Any], bool] = lambda at: look_at_point(request, at, conditioned=False).word is Word.WRONG
    for at in (shrink_point(values, given.values, request.wrt, fails), values):
        alone = replace(
            request, points=(Point(dict(at), number=len(request.points)),), own=None, layer=None,
            options=replace(request.options, mutate=False),
            modes=tuple(mode for mode in request.modes if mode not in _WITHOUT),
        )  # fmt: skip
        found = verify(alone)
        if found.report.verdict == Verdict.FAIL:
            return found
    return None


def _add_fewest_digits(report: CheckReport, request: Request, fewest: Look | None, wanted: float | None) -> CheckReport:
    if fewest is None or fewest.digits >= max(FEW_DIGITS, wanted or 0.0):
        return report
    claim = traceable_claim(request.claim)
    lost = report_inaccuracy(f"the claim of {fewest.name}", fewest.digits, fewest.values, claim, request.wrt, wanted)
    return _add_findings(report, [lost])


def _add_findings(report: CheckReport, found: list[Finding]) -> CheckReport:
    """Return the report with some findings at its first point, which fails if one of them is an error."""
    first = replace(report.points[0], findings=(*report.points[0].findings, *found))
    if any(each.severity == Severity.ERROR for each in found):
        first = replace(first, verdict=Verdict.FAIL)
        status = int(worst_status([Exit(report.exit_status), Exit.WRONG]))
        report = replace(report, verdict=Verdict.FAIL, exit_status=status)
    return replace(report, points=(first, *report.points[1:]))
