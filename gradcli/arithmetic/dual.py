"""Dual numbers: a value and its tangent along one direction; forward mode."""

from collections.abc import Callable, Sequence
from typing import Any

from gradcli.tracing.primitive import Params, Primitive, Value, kept_value_error, open_sweep, without_ended_sweeps
from gradcli.tracing.shapes import broadcast_like, zeros_like
from gradcli.tracing.tracer import Tracer, nan_where_undefined


class Dual(Tracer):
    """The number `primal + tangent e` with e**2 = 0; a tangent of None stays zero even where a slope is infinite."""

    __slots__ = ("level", "primal", "tangent")

    def __init__(self, primal: Value, tangent: Value, level: float) -> None:
        self.primal = primal
        self.tangent = tangent
        self.level = level
        self.storage = None

    def settle(self) -> Value:
        if self.tangent is not None:
            raise kept_value_error()
        return self.primal

    def hold(self, x: Value) -> "Dual":
        return Dual(self.primal.hold(x) if isinstance(self.primal, Tracer) else x, None, self.level)

    @property
    def moves(self) -> bool:
        return self.tangent is not None or (
            isinstance(self.primal, Tracer) and self.primal.level >= 1 and self.primal.moves
        )

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        level = self.level
        duals = [isinstance(x, Dual) and x.level == level for x in xs]
        primals = [x.primal if dual else x for x, dual in zip(xs, duals, strict=True)]
        y = primitive(*primals, **params)
        if primitive.constant:
            return y
        ydot: Any = None
        for i, dual in enumerate(duals):
            if dual and xs[i].tangent is not None:
                part = primitive.rule(i).push(primitive, i, y, primals, xs[i].tangent, params)
                ydot = part if ydot is None else ydot + part
        return Dual(y, None if ydot is None else broadcast_like(ydot, y), level)


def jvp(f: Callable[..., Value], primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[Value, Value]:
    """Return f(*primals) and its derivative along `tangents`.

    A tangent of None marks a constant primal, by which slopes may be infinite.

    Shapes  each tangent has the shape of its primal; the derivative has the shape of the value.
    Raises  TraceEnded if f returns a value that it kept from an earlier trace.
    """
    with open_sweep() as level:
        duals = [Dual(x, xdot, level) for x, xdot in zip(primals, tangents, strict=True)]
        y = without_ended_sweeps(f(*duals))
        if isinstance(y, Dual) and y.level == level:
            return y.primal, zeros_like(y.primal) if y.tangent is None else nan_where_undefined(y.primal, y.tangent)
        return y, zeros_like(y)
