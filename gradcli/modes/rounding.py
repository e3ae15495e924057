"""Bound the rounding error of a float64 gradient by repeating its reverse sweep in ball arithmetic (Arb) at 53 bits."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import MATRICES, Ball, precision, radius
from gradcli.arithmetic.dual import cotangent_rows, jacobian_from_rows
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.request.point import Array
from gradcli.rules.kinds import KERNELS, Partial
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.shapes import entries_of_part, is_plain, iterate_blocks

_SOLVES = frozenset({"det", "logdet", "inv", "solve", "cholesky"})  # operations whose slopes divide by the matrix
_LOST = 1e-2  # n times the condition number, in roundings of one: above it errors no longer grow with the perturbation
_SINGULAR = 1e12  # roundings, at most: for a singular matrix nothing is known


def has_factored_matrix(lines: Iterable[Line]) -> bool:
    """Whether LAPACK factors a matrix in one of the lines: balls use other algorithms, and do not bound its rounding."""
    return any(p is not None and p.kind == "differential" and p.name in MATRICES for p, *_ in lines)


EPS = float(np.finfo(np.float64).eps)
FUNCTION_ERROR = 8 * EPS  # relative: the assumed largest rounding error of a kernel or of a numpy function


def contribution_of_line(bar: Value, y: Value) -> tuple[float, float]:
    """Return the sum and the Euclidean norm of the finite contributions of a line, which are its value times its adjoint.

    Shapes  `bar` and `y` have one shape.
    """
    if type(y) is np.float64 and isinstance(bar, float):
        moved = abs(float(bar) * float(y))
        return (moved, moved) if math.isfinite(moved) else (0.0, 0.0)
    bar, y = np.asarray(bar), np.asarray(y)
    total, norm = 0.0, 0.0
    for part in iterate_blocks(y.size):
        moved = np.abs(entries_of_part(bar, part) * entries_of_part(y, part))
        added = float(moved.sum())
        if not math.isfinite(added):
            moved = moved[np.isfinite(moved)]
            added = float(moved.sum())
        total += added
        norm = math.hypot(norm, _euclidean_norm(moved.reshape(-1)))
    return total, norm


def _euclidean_norm(sizes: Array) -> float:
    """Return the Euclidean norm of sizes, also where their squares overflow or vanish."""
    squares = float(np.einsum("i,i->", sizes, sizes, dtype=float))
    if 1e-200 < squares < math.inf:
        return math.sqrt(squares)
    top = float(sizes.max(initial=0.0))
    return top * math.sqrt(float(np.square(sizes / top).sum())) if top > 0 else 0.0


def record_in_balls(f: Callable[..., Value], xs: Sequence[Value], bits: int = 53) -> RecordedProgram:
    """Return f recorded on balls, whose radii bound the rounding of its operations.

    Raises  Undecided if so many bits cannot decide a comparison.
    """
    with precision(bits):
        return record(f, [Ball.lift(x) for x in xs])


def rounding_bounds(program: RecordedProgram, xs: Sequence[Value], kernels: bool = False, bits: int = 53) -> list[Any]:
    """Return the radius of each entry of the gradient of a program that was recorded on balls of so many bits, by input.

    With `kernels`, partials are computed by the kernels that float64 sweeps use, else by the textbook's formulas.

    Error   a bound on the rounding of the operations in the order in which they were recorded; each numpy function may add
            FUNCTION_ERROR.
    Raises  Undecided if so many bits cannot decide a comparison.
    Source  Johansson (2017), Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
    """
    token = KERNELS.set(kernels)
    try:
        with precision(bits):
            radii = [[radius(xbar) for xbar in row] for row in cotangent_rows(program, Ball.lift(1))]
            return [jacobian_from_rows(radii, program.y, k, x) for k, x in enumerate(xs)]
    finally:
        KERNELS.reset(token)


# An a priori bound of the rounding in LAPACK's factorisations, whose kernels differ between processors.


def has_singular_matrix(lines: Iterable[Line]) -> bool:
    """Whether a matrix that one of the lines solves with is singular up to rounding: no run shows how far off its result is."""
    return any(
        primitive is not None and primitive.name in _SOLVES and EPS * _condition_times_size(xs[0]) > _LOST
        for primitive, _, xs, *_ in lines
    )


def roundings_of_operation(primitive: Primitive, xs: Sequence[Value]) -> float:
    """Return by how many roundings the result of an operation may be off: one, or for LAPACK n times the condition number."""
    if primitive.kind != "differential" or primitive.name not in MATRICES:
        return 1.0
    return min(_condition_times_size(xs[0]), _SINGULAR)


def _condition_times_size(a: Value) -> float:
    """Return n times the condition number of a matrix, the largest of several; 1 for what is no matrix of numbers."""
    if not isinstance(a, np.ndarray) or a.ndim < 2 or not a.size or not np.all(np.isfinite(a)):
        return 1.0
    return float(max(a.shape[-2:]) * np.max(np.linalg.cond(a)))


# Tell rounding errors from mistakes: between nearby points rounding errors change, and a mistake stays.

_NEARBY = 8  # points where the errors are measured
_FEWER = 2.0**-8  # times the error in the narrow format: a larger one in the wide format is no loss of digits
_AS_MANY = 16.0  # times the error that is expected of a loss of as many digits
_STAYS = 25.0  # times the variance of a mean: a larger mean error does not come from rounding

Values = Mapping[str, Any]


def errors_change(
    off: Callable[[Values], Any | None], at: Values, moved: Sequence[str], seed: int, eps: float
) -> bool | None:
    """Return whether errors change between points near `at` as rounding errors do. `off(values)` returns the errors there.

    The inputs `moved` are moved by one or two ulps. None if `off` returns None at a point.

    Shapes  `off` returns a vector, of the same length at each point.
    Units   `eps` is the machine epsilon of the format.
    """
    rng = np.random.default_rng([seed, 0xF0])
    errors = []
    for _ in range(_NEARBY):
        error = off({**at, **{name: _move_by_ulps(at[name], eps, rng) for name in moved}})
        if error is None:
            return None
        errors.append(error)
    with np.errstate(all="ignore"):
        mean = np.mean(errors, axis=0)
        noise = np.var(errors, axis=0, ddof=1) / _NEARBY  # of the mean
        return bool(np.sum(np.square(mean)) <= _STAYS * np.sum(noise))


def loses_as_many_digits(error: float, wide_error: float, eps: float, wide_eps: float) -> bool:
    """Whether an error in a narrow format is about what rounding makes of one in a wide format, where it is smaller.

    This holds for sums that lose small terms, whose errors do not change between nearby points.

    Units  both errors are relative to the same size.
    """
    return wide_error <= _FEWER * error and error <= _AS_MANY * max(wide_error, wide_eps) * eps / wide_eps


def _move_by_ulps(x: Any, eps: float, rng: np.random.Generator) -> Any:
    """Return a value in a format of machine epsilon `eps`, each entry one or two ulps away from that of `x`."""
    ulps = rng.integers(1, 3, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    mantissa, exponent = np.frexp(np.asarray(x) * (1 + eps * ulps))
    return np.ldexp(np.round(mantissa * 2 / eps) * eps / 2, exponent)[()]


# How textbooks write slopes of what the user wrote out: a softmax without its shift, a sigmoid and a tanh by their values.
#
# The roundings differ. The slope of a sigmoid y near 1 is y (1 - y) there, a difference of nearly equal numbers, and through the
# exponential it has all its digits; so has that of a softmax through its shift.

_VIEWS = frozenset({"reshape", "transpose", "broadcast_to", "getitem", "positive"})
_INVERSE = "-1"  # the exponent of a power that is a reciprocal
_RISING = Primitive("sigmoid", lambda v: 1 / (1 + np.exp(-v)), (Partial(lambda y, v: y * (1 - y)),))
_TANH = Primitive("tanh", np.tanh, (Partial(lambda y, v: 1 - y * y),))


def constants_for_shifts(lines: Sequence[Line]) -> dict[int, Line]:
    """Return constants, by line, for the largest entries that are subtracted from their own array."""
    if not _has_primitive(lines, "max"):
        return {}
    constants: dict[int, Line] = {}  # by line: the largest entry as a constant
    found: dict[int, Line] = {}
    of: dict[int, tuple[int, Hashable]] = {}  # by slot: the line of the largest entry, and what its array is a view of
    array: dict[int, Hashable] = {}  # by slot: what it is a view of
    for k, (primitive, slots, _, y, params, position) in enumerate(lines):
        word = "" if primitive is None else primitive.name
        first = array.get(slots[0], slots[0]) if slots else CONSTANT
        if word == "max" and first != CONSTANT:
            of[k] = k, first
            constants[k] = None, (), (), y, None, position
        elif word == "subtract" and slots[1] in of and of[slots[1]][1] == first:
            found[of[slots[1]][0]] = constants[of[slots[1]][0]]
        elif word in _VIEWS:
            array[k] = (first, str(params)) if word == "getitem" else first
            if slots[0] in of:
                of[k] = of[slots[0]]
    return found


def _has_primitive(lines: Iterable[Line], word: str) -> bool:
    return any(primitive is not None and primitive.name == word for primitive, *_ in lines)


def has_other_slopes(lines: Sequence[Line]) -> bool:
    """Whether a textbook writes slopes of these lines otherwise."""
    return bool(constants_for_shifts(lines) or slopes_by_values(lines))


class _Exponentials:
    """The lines of a program that are exponentials, and sums and differences of them, as they are read."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[int, Any]] = {}  # by line of an exponential: the slot and the value of its argument
        self.plus_one: dict[int, int] = {}  # by line of 1 + exp(v): that of the exponential
        # by line of exp(u) +- exp(v): what u and v are
        self.pairs: dict[tuple[str, int], tuple[Hashable, Hashable]] = {}
        self._known: dict[int, Hashable] = {}  # by slot: what it is, so that -x is -x wherever it is written

    def key(self, slot: int) -> Hashable:
        return self._known.get(slot, slot)

    def read(self, k: int, word: str, slots: tuple[int, ...], xs: Any) -> None:
        """Note a line, if it is one of these."""
        if word == "negative":
            self._known[k] = "-", self.key(slots[0])
        elif word == "exp" and slots[0] != CONSTANT and is_plain(xs[0]):
            self.of[k] = slots[0], xs[0]
        elif word in ("add", "subtract"):
            inside = [slot for slot in slots if slot in self.of]
            others = [x for slot, x in zip(slots, xs, strict=True) if slot == CONSTANT]
            if word == "add" and len(inside) == len(others) == 1 and np.all(np.equal(others[0], 1)):
                self.plus_one[k] = inside[0]
            elif len(inside) == 2:
                self.pairs[word, k] = self.key(self.of[slots[0]][0]), self.key(self.of[slots[1]][0])


def slopes_by_values(lines: Sequence[Line]) -> dict[int, Line]:
    """Return lines for a sigmoid or a tanh that is written with exponentials, whose slopes are those of their values."""
    found: dict[int, Line] = {}
    if not _has_primitive(lines, "exp"):
        return found
    seen = _Exponentials()
    for k, (primitive, slots, xs, y, params, position) in enumerate(lines):
        word = "" if primitive is None else primitive.name
        seen.read(k, word, slots, xs)
        below = slots[-1] if slots else CONSTANT
        inverse = word == "reciprocal" or (word == "integer_power" and _INVERSE in map(str, (params or {}).values()))
        if below in seen.plus_one and (inverse or (word == "divide" and slots[0] == CONSTANT)):
            top = np.asarray(xs[0] if word == "divide" else 1.0, dtype=float)
            slot, v = seen.of[seen.plus_one[below]]
            if np.shape(v) == np.shape(y) and np.all(top != 0):
                found[k] = _falling_sigmoid(top), (slot,), (v,), y, None, position
        elif word == "divide" and slots[0] in seen.of and below in seen.plus_one:
            slot, v = seen.of[slots[0]]
            if seen.key(slot) == seen.key(seen.of[seen.plus_one[below]][0]):
                found[k] = _RISING, (slot,), (v,), y, None, position
        elif word == "divide" and ("subtract", slots[0]) in seen.pairs:
            first, second = seen.pairs["subtract", slots[0]]
            slot, v = next((own for own in seen.of.values() if seen.key(own[0]) == first), (CONSTANT, None))
            if seen.pairs.get(("add", below)) == (first, second) and second == ("-", first) and slot != CONSTANT:
                found[k] = _TANH, (slot,), (v,), y, None, position
    return found


def _falling_sigmoid(top: Any) -> Primitive:
    """Return c / (1 + exp(v)), whose slope is -y (1 - y/c)."""
    return Primitive("sigmoid", lambda v: top / (1 + np.exp(v)), (Partial(lambda y, v: -y * (1 - y / top)),))
