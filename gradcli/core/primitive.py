"""What a primitive is: one differentiable operation, with one derivative rule for each of its arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from gradcli.core.cost import FUNCTION, Cost
from gradcli.core.domain import REAL, Domain
from gradcli.core.levels import LIVE
from gradcli.core.shapes import Value as Value  # for all who import it with a primitive
from gradcli.errors import TraceEnded
from gradcli.words import RuleKind

T = TypeVar("T")
Params = dict[str, Any]
Transposer = Callable[[Callable[[Value], Value], Value, Value], Value]


ON_COMPLEX: list[Callable[..., Value]] = []  # what runs a primitive when a plain complex operand meets a traced one
_MAY_BE_COMPLEX = {np.ndarray, complex, np.complex128, np.complex64}


class Rule(Protocol):
    """How a tangent is pushed and a cotangent is pulled through one argument."""

    def push(self, primitive: "Primitive", i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        """Return the part of ydot that argument `i`, moving with `xdot`, contributes."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        """Return the cotangent of argument `i`, in its shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One row of the rule table: called on numpy values it computes, called on tracers it lets the innermost one act.

    `on_complex` is the function at complex numbers near the real axis, where `fun` does not take them; `complex_loss` is the
    relative error of its values there, where it is more than a few roundings.

    A row with a `body` is made of numpy calls: an arithmetic that does not know it by name runs these. What is made of
    pieces has the weights of its operands in the piece that was taken, `branch(y, *xs)`, and what is zero where two of them
    meet, `margin(*xs)`.

    Shapes  as `fun`; positional arguments may be differentiated, keyword `params` never are.
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
    cost: Cost = FUNCTION
    branch: Callable[..., list[Value]] | None = None
    margin: Callable[..., Value] | None = None
    on_complex: Callable[..., Value] | None = None
    complex_loss: float = 0.0

    @property
    def constant(self) -> bool:
        """Whether the derivative is zero wherever it exists (floor, comparisons), so that nothing is recorded."""
        return not self.rules

    @property
    def dense(self) -> bool:
        """Whether it has a value for all numbers but single ones; unknown, as for functions with an order, is no."""
        return self.constant or (bool(self.on) and all(domain.dense for domain in self.on))

    def rule(self, i: int) -> Rule:
        """The rule of argument `i`; the last one serves all further arguments (concatenate, einsum)."""
        return self.rules[i] if i < len(self.rules) else self.rules[-1]

    def __call__(self, *xs: Value, **params: Any) -> Value:
        top = None
        for x in xs:
            if isinstance(x, Interpreted):
                if x.level not in LIVE:
                    return self(*map(settled, xs), **params)
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
        """Whether it is one of these operations, with their rules or with others."""
        return any(self.name == other.name for other in others)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], "Primitive"], tuple[str]]:
        return named, (self.name,)


class Interpreted:
    """What a primitive needs to know of a tracer: its nesting level, and that it takes over the call."""

    __slots__ = ()
    level: float

    def settle(self) -> Value:
        """Return the value under this tracer, whose sweep is over. Raises TraceEnded if it moved in that sweep."""
        raise NotImplementedError

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        """Run `primitive` in this tracer's arithmetic."""
        raise NotImplementedError


def kept() -> TraceEnded:
    """Return the error that ends a trace in which a value of an earlier one is used."""
    says = "a value that the function kept from an earlier trace is used again"
    return TraceEnded(says, do="do not keep values between calls: they belong to one evaluation")


def settled(x: Value) -> Value:
    """Return a value without the tracers of sweeps that are over, which the user's code may have kept.

    Raises  TraceEnded if it moved in such a sweep.
    """
    while isinstance(x, Interpreted) and x.level not in LIVE:
        x = x.settle()
    return x


PRIMITIVES: dict[str, Primitive] = {}


def named(name: str) -> Primitive:
    """Return the primitive called `name`."""
    return PRIMITIVES[name]


def by_name(table: Mapping[Primitive, T]) -> dict[str, T]:
    """Return a table of primitives by their names: it holds for an operation with other rules, too."""
    return {primitive.name: entry for primitive, entry in table.items()}


def declare(primitive: Primitive) -> Primitive:
    """Add a row to the table; a name is declared once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"{primitive.name} is declared twice")
    PRIMITIVES[primitive.name] = primitive
    return primitive
