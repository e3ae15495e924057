"""What a primitive is: one differentiable operation, with one derivative rule for each of its arguments."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NoRule, TraceEnded
from gradcli.tracing.domain import REAL, Domain
from gradcli.tracing.primitive_cost import FUNCTION, PrimitiveCost
from gradcli.tracing.shapes import Value as Value  # exported again for modules that also import Primitive
from gradcli.words import RuleKind

T = TypeVar("T")
Params = dict[str, Any]
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
    is the relative error of the values there if it is larger than a few rounding errors.

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
    why, do = REASONS.get(function, ("", "write it with functions that have one: gradcli ops"))
    raise NoRule(f"{name} has no derivative rule" + (f": {why}" if why else ""), do=do)


def bind(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call the handler of the numpy `function`.

    Raises  NoRule if there is none.
    """
    return handler_of(function)(*args, **kwargs)
