"""What a primitive is: one differentiable operation, with one derivative rule for each of its arguments."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NoRule, TraceEnded
from gradcli.tracing.provenance import package_called
from gradcli.tracing.shapes import Value as Value  # exported again for modules that also import Primitive
from gradcli.tracing.shapes import shape, size
from gradcli.words import RuleKind

# The cost of one evaluation of a primitive: scalar operations, counted from the shapes of its operands and its result.

Params = dict[str, Any]
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Operations:
    """Numbers of scalar operations; a comparison counts as an addition, a square root as transcendental."""

    additions: int = 0
    multiplications: int = 0
    transcendental: int = 0

    @property
    def total(self) -> int:
        return self.additions + self.multiplications + self.transcendental

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(
            self.additions + other.additions,
            self.multiplications + other.multiplications,
            self.transcendental + other.transcendental,
        )

    def __sub__(self, other: "Operations") -> "Operations":
        return self + other.times(-1)

    def times(self, count: int) -> "Operations":
        """Return the operations of `count` runs."""
        return Operations(count * self.additions, count * self.multiplications, count * self.transcendental)


@dataclass(frozen=True, slots=True)
class Work:
    """A coarse measure of work, compared with the limits of a mode.

    `entries` counts results that are computed entry by entry, `products` the multiply-adds of matrix products.
    """

    entries: int = 0
    products: int = 0

    @property
    def operations(self) -> int:
        """The number of scalar operations; a multiply-add counts as two."""
        return self.entries + 2 * self.products


def largest_entry_count(xs: Values, y: Any) -> int:
    """Return the number of entries of the largest value among the operands and the result."""
    return max(size(y), *map(size, xs))


@dataclass(frozen=True, slots=True)
class PrimitiveCost:
    """The cost of a primitive, as functions of its operands, its result and its parameters.

    `operations` is shown in reports, and `work` is compared with limits. `terms` is the number of terms that one entry of
    the result has when it is written out as a formula of the operands.
    """

    operations: Callable[[Values, Any, Params], Operations]
    work: Callable[[Values, Any, Params], Work] = lambda xs, y, params: Work(largest_entry_count(xs, y))
    terms: Callable[[Values, Any], float] = lambda xs, y: 1.0


def _terms_of_sum(xs: Values, y: Any) -> float:
    return max(1.0, max(size(x) for x in xs) / max(1, size(y)))


def _contraction_operations(terms: int, factors: int, results: int) -> Operations:
    return Operations(max(0, terms - results), terms * factors)


def _einsum_loop_count(subscripts: str, xs: Iterable[Any]) -> int:
    """Return how often the innermost statement of an einsum runs."""
    inputs = subscripts.partition("->")[0].split(",")
    sizes = {letter: n for part, x in zip(inputs, xs, strict=True) for letter, n in zip(part, shape(x), strict=True)}
    return math.prod(sizes.values())


def _power_operations(xs: Values, y: Any, params: Params) -> Operations:
    n = abs(int(params.get("n", 1)))
    return Operations(multiplications=size(y) * max(0, n.bit_length() + n.bit_count() - 2))


FUNCTION = PrimitiveCost(lambda xs, y, params: Operations(transcendental=largest_entry_count(xs, y)))
ADDITION = PrimitiveCost(lambda xs, y, params: Operations(additions=largest_entry_count(xs, y)))
MULTIPLICATION = PrimitiveCost(lambda xs, y, params: Operations(multiplications=largest_entry_count(xs, y)))
MOVE = PrimitiveCost(lambda xs, y, params: Operations())
POWER = PrimitiveCost(_power_operations)
SCATTERED = PrimitiveCost(lambda xs, y, params: Operations(additions=size(xs[0])))
REDUCTION = PrimitiveCost(
    lambda xs, y, params: Operations(additions=max(0, size(xs[0]) - size(y))), terms=_terms_of_sum
)
FUNCTION_OF_ALL = PrimitiveCost(FUNCTION.operations, terms=_terms_of_sum)
PRODUCT = PrimitiveCost(
    lambda xs, y, params: _contraction_operations(size(y) * shape(xs[0])[-1], 1, size(y)),
    lambda xs, y, params: Work(products=size(y) * shape(xs[0])[-1]),
    lambda xs, y: float(shape(xs[0])[-1]),
)
CONTRACTION = PrimitiveCost(
    lambda xs, y, params: _contraction_operations(_einsum_loop_count(params["subscripts"], xs), len(xs) - 1, size(y)),
    lambda xs, y, params: Work(products=size(y) * max(1, *(size(x) for x in xs))),
    lambda xs, y: max(1.0, float(math.prod(size(x) for x in xs)) ** 0.5 / max(1, size(y))),
)


def _operations_of_products(work: Callable[[Values, Any, Params], Work]) -> Callable[[Values, Any, Params], Operations]:
    def operations(xs: Values, y: Any, params: Params) -> Operations:
        products = work(xs, y, params).products
        return Operations(products, products)

    return operations


def factorisation_cost(products: int, expanded: bool = False) -> PrimitiveCost:
    """Return the cost of a matrix factorisation: `products` multiply-adds for each entry and row of the matrix.

    With `expanded`, a formula of the result writes out a determinant: n * n! terms for n rows.
    """

    def work(xs: Values, y: Any, params: Params) -> Work:
        return Work(products=products * size(xs[0]) * max(shape(xs[0])[-2:], default=1))

    def terms(xs: Values, y: Any) -> float:
        n = shape(xs[0])[-1] if expanded and shape(xs[0]) else 0
        return math.prod(map(float, range(1, n + 1))) * n if n else 1.0

    return PrimitiveCost(_operations_of_products(work), work, terms)


def _transform_work(xs: Values, y: Any, params: Params) -> Work:
    return Work(10 * size(y), size(y) * shape(y)[-1])


TRANSFORM = PrimitiveCost(_operations_of_products(_transform_work), _transform_work, lambda xs, y: float(shape(y)[-1]))


# Domains: where on the real line an elementwise operation is smooth, and which numbers there are hard to compute with.

_SIZES = np.array([1e-300, 1e-154, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1.1, 1.5, 2.0, 3.3, 7.7, 25.9, 40.0, 300.0, 700.0])
_HUGE = np.array([1e4, 1e8, 1e20, 1e154, 1e300])
_NEAR_ONE = 1 - np.array([1e-15, 1e-10, 1e-5, 1e-2])


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An open set of real numbers; `contains(x)` tests membership elementwise.

    `hard` lists members for tests of accuracy: tiny, ordinary, huge and saturated numbers. A `dense` domain leaves out
    isolated points only. Outside a domain that is not dense, a function has no value or is constant.
    """

    name: str
    contains: Callable[[Any], Any]
    hard: Any
    dense: bool = False

    def sample(self, rng: Any, count: int) -> Any:
        """Return `count` random members of ordinary size, none of them within 0.05 of zero.

        Shapes  the result has the shape (count,).
        """
        drawn = np.concatenate(
            [rng.normal(size=50 * count), rng.uniform(0, 1, 20 * count), 1 + rng.exponential(size=20 * count)]
        )
        inside = drawn[self.contains(drawn) & (abs(drawn) > 0.05)]
        return rng.choice(inside, count, replace=False)


def _with_negatives(x: Any) -> Any:
    return np.concatenate([-x[::-1], x])


_EVERYWHERE = _with_negatives(np.concatenate([_SIZES, _HUGE]))

REAL = Domain("real", lambda x: np.isfinite(x), _EVERYWHERE, dense=True)
POSITIVE = Domain("x > 0", lambda x: x > 0, np.concatenate([_SIZES, _HUGE]))
AWAY_FROM_0 = Domain("x != 0", lambda x: x != 0, _EVERYWHERE, dense=True)
ABOVE_MINUS_1 = Domain("x > -1", lambda x: x > -1, np.concatenate([-_NEAR_ONE, -_SIZES[:8], _SIZES, _HUGE]))
INSIDE_1 = Domain("-1 < x < 1", lambda x: abs(x) < 1, _with_negatives(np.concatenate([_SIZES[:8], _NEAR_ONE])))
ABOVE_1 = Domain("x > 1", lambda x: x > 1, np.concatenate([1 + (1 - _NEAR_ONE), _SIZES[8:], _HUGE]))
BELOW_1 = Domain("x < 1", lambda x: x < 1, np.concatenate([-_HUGE[::-1], -_SIZES[::-1], _SIZES[:8], _NEAR_ONE]))
UNIT = Domain("0 < x < 1", lambda x: (x > 0) & (x < 1), np.concatenate([_SIZES[:8], _NEAR_ONE]))
UP_TO_10000 = Domain("0 < x < 10,000", lambda x: (x > 0) & (x < 1e4), _SIZES[4:-1])
NOT_POLE = Domain(
    "x not 0, -1, -2, ...",
    lambda x: (x > 0) | (x != np.floor(x)),
    np.concatenate([-_SIZES[2:8], -_SIZES[8:12] - 0.05, _SIZES[2:15], np.array([100.0, 170.0])]),
    dense=True,
)
NOT_HALF_PI = Domain("cos(x) != 0", lambda x: np.isfinite(x), _EVERYWHERE, dense=True)

# where float kernels and operations of frameworks are accurate; their error was measured on these sets only
NEAR_0 = Domain(
    "|x| < 0.15", lambda x: abs(x) < 0.15, _with_negatives(np.array([1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.149]))
)
NEAR_1 = Domain(
    "|x - 1| < 0.15", lambda x: abs(x - 1) < 0.15, 1 + _with_negatives(np.array([1e-15, 1e-8, 1e-3, 0.1, 0.149]))
)
ABOVE_12 = Domain("x > 12", lambda x: x > 12, np.concatenate([np.array([12.1, 25.9, 300.0]), _HUGE]))
BEYOND_12 = Domain("|x| > 12", lambda x: abs(x) > 12, _with_negatives(ABOVE_12.hard))
ABOVE_30 = Domain("x > 30", lambda x: x > 30, np.concatenate([np.array([30.1, 40.0, 700.0]), _HUGE]))
BEYOND_30 = Domain("|x| > 30", lambda x: abs(x) > 30, _with_negatives(ABOVE_30.hard))
ABOVE_MINUS_10000 = Domain(
    "x > -10000", lambda x: x > -1e4, np.concatenate([-_SIZES[::-1], _SIZES, np.array([-9e3, 1e8])])
)


# What a primitive is.

T = TypeVar("T")
Transposer = Callable[[Callable[[Value], Value], Value, Value], Value]


ON_COMPLEX: list[Callable[..., Value]] = []  # runs a primitive on plain complex and traced operands together
_MAY_BE_COMPLEX = {np.ndarray, complex, np.complex128, np.complex64}


class Rule(Protocol):
    """How a tangent is pushed and a cotangent is pulled through one argument."""

    def push(self, primitive: "Primitive", i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        """Return the contribution of argument `i` to the tangent of `y`, given its tangent `xdot`."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        """Return the cotangent of argument `i`, in the shape of that argument, given the cotangent `ybar` of `y`."""


# Levels of nested sweeps: each sweep has its own, so that tangents and cotangents of different sweeps never mix.

_UNIQUE = 2.0**-40
_depth: ContextVar[int] = ContextVar("depth", default=0)
_number = itertools.count(1)
LIVE: set[float] = {0, 1, 2, 3, math.inf}  # levels of open sweeps, and integers, which no sweep gets


def sweep_depth() -> int:
    """Return the number of open sweeps."""
    return _depth.get()


@contextmanager
def open_sweep() -> Iterator[float]:
    """Open a sweep and yield its level; close the sweep on exit, also when user code raises.

    A level is the depth of the sweep, 1 for the outermost, plus a fraction that no other sweep has. A value that user code
    keeps from one sweep is therefore never mistaken for a value of another.
    """
    depth = _depth.get() + 1
    level = depth + next(_number) % 2**39 * _UNIQUE
    token = _depth.set(depth)
    LIVE.add(level)
    try:
        yield level
    finally:
        LIVE.discard(level)
        _depth.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One row of the rule table. Called on numpy values, it computes; called on tracers, it lets the innermost one run it.

    `error(xs, params)` is the relative error of the value of an iterative method, if that is more than rounding.

    `on_complex` computes the function at complex numbers near the real axis if `fun` does not accept them. `complex_loss`
    is the relative error of the values there if it is larger than a few rounding errors; 1 if no digit is right.

    With `body`, `fun` consists of numpy calls, and an arithmetic that has no entry for the primitive runs these calls. A
    function made of pieces has two more fields: `branch(y, *xs)` returns the weights of the operands in the piece that
    was taken, and `margin(*xs)` returns a value that is zero where two pieces meet.

    Shapes  as `fun`; positional arguments may be differentiated, keyword `params` never are.
    Raises  TraceEnded if an operand depends on the inputs of a sweep that has ended.
    """

    name: str
    fun: Callable[..., Value]
    rules: tuple[Rule, ...]
    kind: RuleKind = "elementwise"
    on: tuple[Domain, ...] = (REAL,)
    kinks: str | None = None
    kink: Callable[..., Value] | None = None
    analytic: bool = True
    staircase: bool = False
    reason: str | None = None
    body: bool = False
    cost: PrimitiveCost = FUNCTION
    branch: Callable[..., list[Value]] | None = None
    margin: Callable[..., Value] | None = None
    on_complex: Callable[..., Value] | None = None
    complex_loss: float = 0.0
    error: Callable[[Sequence[Value], Params], float] | None = None

    @property
    def constant(self) -> bool:
        """Whether the derivative is zero wherever it exists (floor, comparisons), so that no line is recorded."""
        return not self.rules

    @property
    def dense(self) -> bool:
        """Whether it has a value at all numbers but isolated ones; False if the domain is not declared."""
        return self.constant or (bool(self.on) and all(domain.dense for domain in self.on))

    def title(self, params: Params | None) -> str:
        """Return the name that a message uses: that of the function whose result a solver computed, or the primitive's."""
        equation = (params or {}).get("equation")
        return self.name if equation is None else str(equation.name)

    def rule(self, i: int) -> Rule:
        """Return the rule of argument `i`; the last one serves all further arguments (concatenate, einsum)."""
        return self.rules[i] if i < len(self.rules) else self.rules[-1]

    def __call__(self, *xs: Value, **params: Any) -> Value:
        top = None
        for x in xs:
            if isinstance(x, Interpreted):
                if x.level not in LIVE:
                    return self(*map(without_ended_sweeps, xs), **params)
                if top is None or x.level > top.level:
                    top = x
        if top is None:
            try:
                return self.fun(*xs, **params)
            except TypeError:
                if self.on_complex is None or not any(map(np.iscomplexobj, xs)):
                    raise
                return self.on_complex(*xs, **params)
        for x in xs:
            kind = type(x)
            if kind in _MAY_BE_COMPLEX and (kind is not np.ndarray or x.dtype.kind == "c"):
                return ON_COMPLEX[0](self, xs, params)
        return top.process(self, xs, params)

    def is_a(self, *others: "Primitive") -> bool:
        """Return whether it is one of these operations; names are compared, so that its rules may differ."""
        return any(self.name == other.name for other in others)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], "Primitive"], tuple[str]]:
        return primitive_by_name, (self.name,)


class Interpreted:
    """The part of a tracer that a primitive uses: its nesting level, and the method that takes over the call."""

    __slots__ = ()
    level: float

    def settle(self) -> Value:
        """Return the value under this tracer, whose sweep has ended.

        Raises  TraceEnded if the value depends on the inputs of that sweep.
        """
        raise NotImplementedError

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        """Run `primitive` in this tracer's arithmetic."""
        raise NotImplementedError


def kept_value_error() -> TraceEnded:
    """Return the error for a trace in which user code uses a value of an earlier trace."""
    says = "a value that the function kept from an earlier trace is used again"
    return TraceEnded(says, do="do not keep values between calls: they belong to one evaluation")


def without_ended_sweeps(x: Value) -> Value:
    """Return `x` without tracers of sweeps that have ended, which user code may have kept.

    Raises  TraceEnded if `x` depends on the inputs of such a sweep.
    """
    while isinstance(x, Interpreted) and x.level not in LIVE:
        x = x.settle()
    return x


F: Any = SimpleNamespace()  # the primitives as attributes, for formulas: F.erf(x)
PRIMITIVES: dict[str, Primitive] = vars(F)


def primitive_by_name(name: str) -> Primitive:
    """Return the primitive called `name`.

    Raises  KeyError if there is none.
    """
    return PRIMITIVES[name]


def table_by_name(table: Mapping[Primitive, T]) -> dict[str, T]:
    """Return a table of primitives by their names, so that it also serves a primitive whose rules were replaced."""
    return {primitive.name: entry for primitive, entry in table.items()}


def declare(primitive: Primitive) -> Primitive:
    """Add a row to the table and return it.

    Raises  ValueError if the name is already declared.
    """
    if primitive.name in PRIMITIVES:
        raise ValueError(f"{primitive.name} is declared twice")
    PRIMITIVES[primitive.name] = primitive
    return primitive


# The table of handlers: for each numpy function, the function that runs in its place when an argument is traced.

Function = Callable[..., Any]
HANDLERS: dict[Function, Function] = {}
METHODS: dict[str, Function] = {}  # handlers of the methods of every ufunc, which is their first argument
VIEWS: set[Function] = set()  # functions of one array whose result may be a view of it; storage.py checks whether it is
REASONS: dict[Function, tuple[str, str]] = {}  # why a function has no rule, and what to write instead
# look-ups for functions without an entry in HANDLERS, such as those of scipy.special, which is imported late
LATE_LOOKUPS: list[Callable[[Function], Function | None]] = []


def handles(*functions: Function | None) -> Callable[[Function], Function]:
    """Register the decorated function as the handler of each of `functions`.

    None, which stands for a function that the installed numpy lacks, is skipped.
    """

    def declare(handler: Function) -> Function:
        HANDLERS.update({function: handler for function in functions if function is not None})
        return handler

    return declare


def handle(table: Mapping[Any, Function]) -> None:
    """Register handlers that are one line each, by their functions; they take these functions' names, which errors show."""
    for function, handler in table.items():
        handler.__name__ = handler.__qualname__ = function.__name__
        HANDLERS[function] = handler


def handler_of(function: Function) -> Function:
    """Return the handler that runs in place of `function` on traced arguments.

    Raises  NoRule if there is none; the error says why, and what to write instead.
    """
    known = HANDLERS.get(function)
    if known is not None:
        return known
    original = getattr(function, "__wrapped__", None)  # a stand-in that replaces a numpy function in a trace
    if original in HANDLERS:
        return HANDLERS[original]
    for lookup in LATE_LOOKUPS:
        late = lookup(function)
        if late is not None:
            HANDLERS[function] = late
            return late
    name = getattr(function, "__name__", str(function))
    called = package_called() if name.startswith("_") else None  # a part of what the user calls
    name = name if called is None else f"{called[0]} of {called[1]}"
    why, do = REASONS.get(function, ("", "write it with functions that have one: gradcli ops"))
    raise NoRule(f"{name} has no derivative rule" + (f": {why}" if why else ""), do=do)


def bind(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call the handler of the numpy `function`.

    Raises  NoRule if there is none.
    """
    return handler_of(function)(*args, **kwargs)
