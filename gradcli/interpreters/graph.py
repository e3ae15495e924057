"""Graphs: the operations of a program as nodes, each with a float64 value that decides branches and gives the shape.

A program recorded at several sizes gives graphs of the same form; numbers that differ between them depend on the sizes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Params, Primitive, Value
from gradcli.core.tracer import Arithmetic, Tracer


class Graph(Arithmetic):
    """A node: an operation on nodes and plain values, or an input (`op` contains its name, and `args` is empty)."""

    __slots__ = ("args", "op", "params", "value")
    level = 0
    symbolic = True

    def __init__(self, op: str, args: tuple[Any, ...], params: Params, value: Any) -> None:
        self.op = op
        self.args = args
        self.params = params
        self.value = value
        self.storage = None

    @classmethod
    def variable(cls, name: str, value: Any) -> "Graph":
        """Return an input node."""
        return cls(f"input {name}", (), {}, value)

    @classmethod
    def lift(cls, number: Value) -> Any:
        return (
            number if isinstance(number, Graph) else cls("constant", (), {}, np.asarray(number, dtype=np.float64)[()])
        )

    def hold(self, x: Value) -> Tracer:
        held: Tracer = self.lift(x)
        return held

    def __bool__(self) -> bool:
        """Return the truth of the value, so that the branch taken at this value is recorded."""
        return bool(self.value)

    @property
    def moves(self) -> bool:
        return self.op != "constant"

    @property
    def primal(self) -> Value:
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        plain = [x.value if isinstance(x, Graph) else x for x in xs]
        try:
            value = primitive.fun(*plain, **params)
        except np.linalg.LinAlgError:  # values give shapes and branches only; a singular matrix changes neither
            value = np.full(np.shape(plain[-1]) if primitive.name in ("inv", "solve") else (), np.nan)[()]
        return Graph(primitive.name, tuple(xs), params, value)
