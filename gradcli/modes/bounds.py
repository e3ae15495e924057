"""The rounding error of a float64 gradient at one point: bounded by balls of 53 bits, or estimated by shaken runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import precision
from gradcli.arithmetic.dual import jacobian_from_rows, unit_directions
from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Line, Tape, drop_unread_values
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported, OutOfTime, Undecided
from gradcli.modes.recording import Recording
from gradcli.modes.rounding import (
    EPS,
    FUNCTION_ERROR,
    constants_for_shifts,
    has_factored_matrix,
    record_in_balls,
    rounding_bounds,
    slopes_by_values,
)
from gradcli.request.point import Array
from gradcli.rules.kinds import LARGE, ConstantSlope, Linear, Partial
from gradcli.targets.constants import Constants
from gradcli.targets.derived import WithConstants, original_function
from gradcli.targets.expression import Expression
from gradcli.targets.instructions import around_constants
from gradcli.targets.python import message_of
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.tracing.shapes import all_finite, is_plain, largest_magnitude, map_in_blocks, shape, size

# A recorded program run again with every operation shaken: perturbed by about one rounding error.

_EPS = float(np.finfo(np.float64).eps)
LARGEST = 16.0  # perturbation, in units of eps
_MOVES = np.delete(np.arange(-LARGEST, LARGEST + 1), int(LARGEST))  # all but 0, in units of eps, exact in float64
SIZE = float(np.sqrt(np.mean(_MOVES**2)))  # root mean square of the perturbations
_POOL = 16_381  # random factors, of which each operation takes a part; prime, so that rows of arrays do not repeat them


@lru_cache(maxsize=16)
def _factor_pool(seed: int, ulps: float) -> Any:
    """Return the factors of the pool, repeated once, so that a whole pool can be taken from any start."""
    factors = np.tile(1.0 + _EPS * ulps / LARGEST * np.random.default_rng([seed, _POOL]).choice(_MOVES, _POOL), 2)
    factors.flags.writeable = False
    return factors


class Shake:
    """A function that multiplies each entry of a value by a random number near one; `ulps` is the largest perturbation.

    By default, a perturbation is about `SIZE` rounding errors. Perturbations have many sizes, so that two equal values that
    cancel do not change alike.
    """

    def __init__(self, seed: int, ulps: float = LARGEST) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = _factor_pool(seed, ulps)

    def __call__(self, x: Value) -> Value:
        start = int(self.rng.integers(_POOL))
        if type(x) is not np.ndarray:
            return x * self.pool[start]
        if x.size <= _POOL - start:
            return x * self.pool[start : start + x.size].reshape(x.shape)
        return _multiply_by_factors(x, self.pool[_POOL - start : 2 * _POOL - start])


def _multiply_by_factors(x: Value, factors: Value) -> Value:
    """Return the entries of an array, in C order, times the factors, which are used again and again."""
    flat = np.ravel(x)
    made = np.empty(flat.size, np.result_type(flat, factors))
    for first in range(0, flat.size, _POOL):
        part = flat[first : first + _POOL]
        np.multiply(part, factors[: part.size], out=made[first : first + _POOL])
    return made.reshape(x.shape)


@dataclass(frozen=True, slots=True)
class Shaken:
    """A rule whose tangent or cotangent is shaken before it is pushed forward or pulled back."""

    rule: Rule
    shake: Shake

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.rule.push(primitive, i, y, xs, self.shake(xdot), params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.rule.pull(self.shake(ybar), i, y, xs, params, transpose)


def perturb_program(
    program: RecordedProgram, shake: Shake, kernels: bool = True, rough: Mapping[str, Shake] = {}
) -> RecordedProgram:
    """Return the same program on the same branches, with every value and every cotangent shaken.

    Without `kernels`, slopes use the textbook partials, which may lose digits that the kernels keep. Operations in `rough`,
    and their operands, are shaken by the `Shake` that is given there.
    """

    @cache
    def loosened(primitive: Primitive) -> Primitive:
        own = [
            Partial(rule.partial) if isinstance(rule, Partial) and rule.kernel and not kernels else rule
            for rule in primitive.rules
        ]
        return replace(primitive, rules=tuple(Shaken(rule, rough.get(primitive.name, shake)) for rule in own))

    made, values, last_reads = Tape(program.tape.level), list[Value](), program.last_reads()
    end = program.y.slot if program.moves else CONSTANT  # its value says where the cotangent is nan
    for k, (primitive, slots, xs, y, params, position) in enumerate(program.lines):
        held: tuple[Sequence[Value], Value] = xs, y
        if primitive is not None:
            xs = [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, xs, strict=True)]
            own = rough.get(primitive.name, shake)
            # inner rounding errors of such an operation act like changes of its operands
            if primitive.kind == "differential" or own is not shake:
                xs = [own(x) if isinstance(x, float | np.ndarray) else x for x in xs]
            y = own(primitive.fun(*xs, **(params or {})))
            held = xs, y
            if k != end and size(y) >= LARGE:
                held = drop_unread_values(primitive, slots, xs, y, kernels)
            primitive = loosened(primitive)
        made.lines.append((primitive, slots, *held, params, position))
        values.append(y)
        for slot in last_reads[k]:
            values[slot] = None
    return program.on(made)


def perturb_operations(program: RecordedProgram, shakes: Mapping[str, Shake]) -> RecordedProgram:
    """Return the program with the values and cotangents of some operations shaken, and what depends on them run again.

    The operations themselves, which may be expensive, are not run again.
    """
    made, moved = Tape(program.tape.level), set[int]()
    for k, (primitive, slots, xs, y, params, position) in enumerate(program.lines):
        if primitive is not None and primitive.name in shakes:
            own = shakes[primitive.name]
            y, primitive = own(y), replace(primitive, rules=tuple(Shaken(rule, own) for rule in primitive.rules))
            moved.add(k)
        elif primitive is not None and moved.intersection(slots):
            xs = [x if slot == CONSTANT else made.value(slot) for slot, x in zip(slots, xs, strict=True)]
            y = primitive.fun(*xs, **(params or {}))
            moved.add(k)
        made.lines.append((primitive, slots, xs, y, params, position))
    return program.on(made)


# The rounding error of a float64 gradient at one point.

_ENOUGH_BITS = 256  # so that what is not rounded to 53 bits adds nothing
_WIDE = 1e-11  # relative: a wider radius may come from balls of dependent values, not from rounding
SAFETY = 16.0  # times the changes in shaken runs: what any order of operations may change
_TYPICAL = 0.9  # the quantile of the relative changes that every entry is granted
_CANCELLED = 1e-8  # of the largest slope: smaller ones may be zero up to rounding, and change completely
_RUNS = ((60_000, 8), (400_000, 2))  # scalar operations of f, and shaken sweeps; one sweep if there are more
_INPUTS, _INPUT_RUNS, _INPUT_ULPS = 0x1E57, 3, (64, 1024)  # a seed, runs, and by how many ulps inputs are moved
_FAR_LESS = 4.0  # times the change of one run: no other run changes an entry so much more
_SMALL = 2.0**-10  # times an ulp of the largest entry: smaller errors do not count, wherever they are
FORMAT_RUNS = 16  # sweeps with random roundings of a narrow format, from which typical errors are estimated
_SOLVER_RUNS, _SOLVER_SAFETY = 8, 3.0  # sweeps with shaken solutions, and how much more than they show may happen
_NO_CHANGE = 1e-9  # of the largest slope: a gradient that does not depend on a value changes by rounding alone
_MANY = 1000  # entries in all runs together, which show the typical change
_SAMPLE = 1000  # entries: a sample of so many shows the typical change


@dataclass(frozen=True, slots=True)
class RoundingError:
    """The rounding error of each entry of our float64 gradient, by input.

    `proved` says that balls of 53 bits bound it. `unbounded` says in words why there is no bound; the errors are infinite then.
    """

    errors: dict[str, Array]
    proved: bool
    unbounded: str = ""


def gradient_rounding_error(q: Recording, kernels: bool) -> RoundingError:
    """Return the rounding error of each entry of our float64 gradient.

    With `kernels`, the partials are those that gradcli computes; else the textbook's formulas.

    Error   by balls a bound, up to a few ulps. If balls cost too much, become too wide because their values depend on
            each other, or matrices are factored, an estimate: the changes in runs whose every operation is off by one
            rounding. Where an operation raises an error in such a run, there is none. What the rounding of pi and e
            changes is added.
    """
    found = _rounding_of_operations(q, kernels)
    if any(np.any(np.isinf(change)) for change in q.by_constants.values()):
        return RoundingError(infinite_errors(q), False, "f with pi or e some ulps larger raises an error")
    for name, change in q.by_constants.items():
        found.errors[name] = found.errors[name] + change
    return found


def _rounding_of_operations(q: Recording, kernels: bool) -> RoundingError:
    radii: list[Array] | None = None
    if q.affords_balls:
        with suppress(Undecided, NotSupported):
            if 53 not in q.balls:
                q.balls[53] = record_in_balls(q.g, q.xs)
            radii = rounding_bounds(q.balls[53], q.xs, kernels)
            radii = radii if all(np.all(np.isfinite(r)) for r in radii) else None
    known = not has_factored_matrix(q.program_lines)
    wide: list[Array] = []  # which radii are wide beside their slope; slopes that cancel to zero are not counted
    if radii is not None:
        pairs = zip(radii, q.wrt, strict=True)
        wide = [r > _WIDE * np.abs(q.slopes[name]) + EPS * _largest_slope(q) for r, name in pairs]
    try:
        if radii is not None and not kernels and (other := _changes_of_textbook_slopes(q, radii)) is not None:
            radii = [np.maximum(r, m / SIZE) for r, m in zip(radii, other, strict=True)]
        if radii is not None and known and not any(map(np.any, wide)):
            return RoundingError(_bounds_from_changes(q, radii), True)
        moved = changes_by_random_rounding(q, kernels)
    except Undecided as error:
        if radii is not None and known:
            return RoundingError(_bounds_from_changes(q, radii), True)
        return RoundingError(infinite_errors(q), False, error.what)
    if radii is not None:
        moved = [m + r for m, r in zip(moved, _changes_by_constants(q, kernels), strict=True)]
        both = zip(radii, moved, wide, strict=True)
        moved = [np.where(w, np.minimum(r, m), r if known else np.maximum(r, m)) for r, m, w in both]
    return RoundingError(_bounds_from_changes(q, moved), False)


def _changes_by_constants(q: Recording, kernels: bool) -> list[Array]:
    """Return the radius of each entry where only operations on what is not differentiated are rounded; 0 if that is unknown.

    Runs with random roundings take these for exact.
    """
    f = original_function(q.f)
    if isinstance(f, Expression) and f.program.computes_with_constants(q.wrt):
        with suppress(Undecided, NotSupported), around_constants(partial(precision, 53)):
            program = record_in_balls(q.g, q.xs, _ENOUGH_BITS)
            radii = rounding_bounds(program, q.xs, kernels, _ENOUGH_BITS)
            return [np.where(np.isfinite(r), r, 0.0) for r in radii]
    return [np.zeros(shape(q.slopes[name])) for name in q.wrt]


def infinite_errors(q: Recording) -> dict[str, Array]:
    """Return infinite errors in the shapes of our Jacobian."""
    return {name: np.full(shape(q.slopes[name]), np.inf)[()] for name in q.wrt}


@contextmanager
def undecided_if_raised() -> Iterator[None]:
    """Raise Undecided for an error of an operation, or of its rule, in a run with random rounding errors."""
    try:
        yield
    except (OutOfTime, MemoryError):
        raise
    except Exception as error:
        raise Undecided(f"a run with random rounding errors raises {message_of(error)}") from error


def _perturbed_slopes(q: Recording, perturbed: Callable[[], RecordedProgram]) -> list[Array]:
    """Return the Jacobian of a perturbed program, one array for each input. Raises Undecided where it raises an error.

    `perturbed` makes the same program whenever it is called. The first is used up by one sweep; where that gives nan, zero
    times infinity has to be counted as zero, by further sweeps.
    """
    with undecided_if_raised():
        program = perturbed()
        rows = [program.tape.pull(program.y, np.float64(1), program.inputs, once=True)] if shape(q.value) == () else []
        if not rows or any(np.any(np.isnan(xbar)) for xbar in rows[0]):
            program = perturbed() if rows else program
            rows = [program.pull(seed) for seed in unit_directions(q.value)]
    return [jacobian_from_rows(rows, q.value, k, x) for k, x in enumerate(q.xs)]


def hardly_rounds_with_inputs(q: Recording, least: Mapping[str, Array]) -> bool:
    """Whether each entry of the gradient by some inputs changes by far less than `least` where inputs are off by a rounding.

    Cost    one run of the recorded program, and one reverse sweep.
    """
    rng, ulps = np.random.default_rng([q.seed, _INPUTS]), _INPUT_ULPS[0]
    moved = [(x * (1 + ulps * EPS * rng.choice([-1.0, 1.0], shape(x))))[()] for x in q.xs]
    try:
        slopes = _perturbed_slopes(q, lambda: q.program.with_inputs(moved))
    except Undecided:
        return False
    pairs = zip(q.wrt, slopes, strict=True)
    changes = {name: np.abs(slope - q.slopes[name]) / ulps for name, slope in pairs if name in least}
    return all(np.all(_FAR_LESS * change <= least[name]) for name, change in changes.items())


def input_rounding(q: Recording) -> dict[str, Array] | None:
    """Return how much each entry of the gradient changes where the inputs are off by a rounding; None if it is not known.

    No formula for the gradient can be held to less: written otherwise, it rounds sums of inputs that ours does not form.
    Entries whose change does not grow with the change of the inputs, as at a jump of a slope, get 0.

    Cost    a few recordings and reverse sweeps.
    """
    rng = np.random.default_rng([q.seed, _INPUTS])
    found = {name: np.zeros(shape(q.slopes[name])) for name in q.wrt}
    for _ in range(_INPUT_RUNS):
        signs = {name: rng.choice([-1.0, 1.0], shape(x)) for name, x in zip(q.wrt, q.xs, strict=True)}
        changes = []
        for ulps in _INPUT_ULPS:
            moved = {name: (x * (1 + ulps * EPS * signs[name]))[()] for name, x in zip(q.wrt, q.xs, strict=True)}
            other = replace(q, point=replace(q.point, values={**q.point.values, **moved}, value=None))
            try:
                changes.append({name: np.abs(other.slopes[name] - q.slopes[name]) / ulps for name in q.wrt})
            except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
                return None
            if any(shape(change) != shape(found[name]) for name, change in changes[-1].items()):
                return None
        near, far = changes
        for name in q.wrt:
            grows = near[name] <= 4 * far[name] + EPS * np.abs(q.slopes[name])
            found[name] = np.fmax(found[name], np.where(grows & np.isfinite(near[name]), near[name], 0.0))
    return found


def rounding_with_other_inputs(q: Recording) -> dict[str, Array] | None:
    """Return the rounding error of the gradient where operations on what is not differentiated are rounded, too.

    In Python code these compute with float64: in the gradient of `x*(np.exp(z)-1)` by x, exp(z)-1 has lost digits where z is
    tiny, be z an input or a constant of the code. They are traced for it: all of them, or, where f cannot be traced so,
    without the literals, and without all constants. None where there is nothing to trace; 0 in entries without a bound.

    Cost    up to three recordings, and the rounding error of the gradient of one.
    """
    others = [
        name
        for name, x in q.point.values.items()
        if name not in q.wrt and isinstance(x, np.float64 | np.ndarray) and x.dtype == np.float64 and x.size
    ]
    if q.f.kind != "python" or q.solvers:
        return None
    function = getattr(original_function(q.f), "function", None)
    for constants in (Constants(function, literals=True), Constants(function), Constants(None)):
        if not others and not constants.numbers:
            return None
        whole = replace(q, f=WithConstants(q.f, others, constants))
        try:
            if whole.untraced is not None or not whole.affords_slopes:
                continue
            errors = gradient_rounding_error(whole, kernels=False).errors
        except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            continue  # such as an operation that takes no tracer there
        return {name: np.where(np.isfinite(errors[name]), errors[name], 0.0)[()] for name in q.wrt}
    return None


def has_kernels(lines: Iterable[Line]) -> bool:
    """Whether a slope may be computed otherwise than by the textbook's formula in one of the lines."""
    primitives = {primitive for primitive, *_ in lines if primitive is not None}
    return not all(
        isinstance(rule, ConstantSlope | Linear) or (isinstance(rule, Partial) and rule.kernel is None)
        for primitive in primitives
        for rule in primitive.rules
    )


def solver_bounds(q: Recording) -> dict[str, Array]:
    """Return how much each entry of the gradient may be off because solvers in f stop at a tolerance.

    Error   an estimate: a multiple of the largest change in runs whose solutions are off by the solvers' errors.
    Cost    some sweeps; no equation is solved again.
    Raises  Undecided where such a run raises an error.
    """
    moved = {name: np.zeros(shape(q.slopes[name])) for name in q.wrt}
    for run in range(_SOLVER_RUNS if q.solvers else 0):

        def perturbed(seed: int = q.seed + run) -> RecordedProgram:
            shakes = {name: Shake(seed, error / EPS) for name, error in q.solvers.items()}
            return perturb_operations(q.recording, shakes)

        slopes = _perturbed_slopes(q, perturbed)
        for name, slope in zip(q.wrt, slopes, strict=True):
            np.maximum(moved[name], np.abs(slope - q.slopes[name]), out=moved[name])
    return {name: _SOLVER_SAFETY * x for name, x in moved.items()}


def _largest_slope(q: Recording) -> float:
    return max((largest_magnitude(q.slopes[name]) for name in q.wrt), default=0.0)


def _bounds_from_changes(q: Recording, spread: list[Array]) -> dict[str, Array]:
    def bound(moved: Array, slope: Array) -> Array:
        return 2 * moved + FUNCTION_ERROR * np.abs(slope) + 1e-320

    pairs = zip(q.wrt, spread, strict=True)
    return {name: np.asarray(map_in_blocks(bound, np.float64, s, q.slopes[name]))[()] for name, s in pairs}


def changes_by_random_rounding(q: Recording, kernels: bool, rough: Mapping[str, float] = {}) -> list[Array]:
    """Return how much each entry of the gradient changes in runs whose every operation is off by one rounding.

    `rough` gives the number of ulps for the operations, by name, that may be off by more.

    Shapes  one array for each input, as our Jacobian.
    Raises  Undecided where such a run raises an error.
    Source  Parker (1997), Monte Carlo arithmetic; Vignes (1993), the CESTAC method.
    """
    program = q.program
    if size(q.value) > q.entries or not all(map(is_plain, program.tape.values)):
        most = max(8.0, *rough.values(), 0.0)
        return [most * EPS * np.sqrt(len(program.lines)) * np.abs(q.slopes[name]) for name in q.wrt]
    moved = _largest_changes(q, kernels, rough)
    other = None if kernels else _changes_of_textbook_slopes(q, moved)
    if other is not None:
        moved = [np.maximum(a, b) for a, b in zip(moved, other, strict=True)]
    least = EPS / SAFETY * _largest_slope(q)  # a slope that is zero in our order of operations may not be in another
    return [_grant_typical_change(m, q.slopes[name], least) for m, name in zip(moved, q.wrt, strict=True)]


def _largest_changes(q: Recording, kernels: bool, rough: Mapping[str, float]) -> list[Array]:
    """Return the largest change of each entry in shaken runs of the program."""
    if not q.program.moves:
        return [np.zeros(shape(q.slopes[name])) for name in q.wrt]
    moved: list[Array] = []
    affordable = next((n for limit, n in _RUNS if q.work < limit), 1)
    for run in range(min(affordable, -(-_MANY // max(1, q.entries)))):

        def perturbed(seed: int = q.seed + run) -> RecordedProgram:
            looser = {name: Shake(seed, ulps) for name, ulps in rough.items()}
            return perturb_program(q.program, Shake(seed), kernels, looser)

        slopes = _perturbed_slopes(q, perturbed)
        for k, name in enumerate(q.wrt):
            found = np.abs(slopes[k] - q.slopes[name])
            found = found if all_finite(found) else np.where(np.isfinite(found), found, 0.0)
            if run == 0:
                moved.append(found)
            else:
                moved[k] = np.maximum(moved[k], found)
    return moved


def _changes_of_textbook_slopes(q: Recording, ours: list[Array]) -> list[Array] | None:
    """Return the changes in shaken runs with slopes as a textbook writes them; None where these are the same program.

    Shifts count only where the gradient does not depend on them. `ours` are the changes of the recorded program.
    """
    if not q.program.moves or not all(map(is_plain, q.program.tape.values)):
        return None
    constants, slopes = constants_for_shifts(q.program_lines), slopes_by_values(q.program_lines)
    for lines in filter(None, ({**constants, **slopes}, slopes if constants else {})):
        found = partial(q.recording.with_lines, lines)
        exact = _perturbed_slopes(q, found)
        moved = _perturbed_slopes(q, lambda found=found: perturb_program(found(), Shake(q.seed), kernels=False))  # type: ignore[misc]
        each = zip(exact, moved, ours, q.wrt, strict=True)
        if all(
            np.all(
                np.abs(x - q.slopes[name])
                <= _NO_CHANGE * _largest_slope(q) + largest_magnitude(x - y) + largest_magnitude(own)
            )
            for x, y, own, name in each
        ):
            return [np.abs(y - q.slopes[name]) for y, name in zip(moved, q.wrt, strict=True)]
    return None


def apply_least_error(typical: Array, right: Array, eps: float) -> Array:
    """Return typical errors that are no smaller than what one rounding of the format makes of much smaller entries.

    Units  `eps` is the machine epsilon of the format.
    """
    return np.maximum(typical, _SMALL * eps * float(np.max(np.abs(right), initial=0.0)))


def typical_errors(q: Recording, coarseness: float) -> dict[str, Array]:
    """Return the typical error of each entry of the gradient in a format with `coarseness` times float64's epsilon.

    Every value and every cotangent of the recorded program is rounded at random, the slopes are the textbook's.

    Shapes  as our Jacobian, by input.
    Error   the root mean square of some runs.
    Raises  Undecided where such a run raises an error.
    """
    squares = [np.zeros(shape(q.slopes[name])) for name in q.wrt]
    for run in range(FORMAT_RUNS):

        def perturbed(seed: int = q.seed + run) -> RecordedProgram:
            return perturb_program(q.program, Shake(seed, 0.5 * coarseness), kernels=False)

        slopes = _perturbed_slopes(q, perturbed)
        for k, name in enumerate(q.wrt):
            off = slopes[k] - q.slopes[name]
            squares[k] += np.square(np.where(np.isfinite(off), off, 0.0))
    roots = (np.sqrt(s / FORMAT_RUNS) for s in squares)
    return {name: apply_least_error(x, q.slopes[name], EPS * coarseness) for name, x in zip(q.wrt, roots, strict=True)}


def _grant_typical_change(moved: Array, slopes: Array, least: float) -> Array:
    """Return the change of each entry, at least the typical change for its size, because few runs may miss an entry."""
    every = max(1, slopes.size // _SAMPLE)
    some_moved, some = moved.reshape(-1)[::every], np.abs(slopes.reshape(-1)[::every])
    used = some > _CANCELLED * largest_magnitude(slopes)
    ratios = some_moved[used] / some[used]
    place = int(_TYPICAL * (ratios.size - 1) + 0.5)
    typical = float(np.partition(ratios, place)[place]) if ratios.size else 0.0

    def granted(change: Array, slope: Array) -> Array:
        return np.maximum(SAFETY / SIZE * np.maximum(change, typical * np.abs(slope)), least)

    return np.asarray(map_in_blocks(granted, np.float64, moved, slopes))
