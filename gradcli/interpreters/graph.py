"""Graphs: what was computed, as nodes, beside float64 values that decide branches and show shapes.

A program recorded at several sizes gives graphs of one form; where numbers in them differ, they are functions of the sizes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Params, Primitive, Value
from gradcli.core.tracer import Arithmetic, Tracer


class Graph(Arithmetic):
    """A node: an operation on nodes and plain values, or an input (`op` is its name and `args` are none)."""

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
        """Return an input."""
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
        """As the value has it: what is recorded is the branch that is taken there."""
        return bool(self.value)

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
        except np.linalg.LinAlgError:  # the values show shapes and branches: a singular matrix has no part in either
            value = np.full(np.shape(plain[-1]) if primitive.name in ("inv", "solve") else (), np.nan)[()]
        return Graph(primitive.name, tuple(xs), params, value)
