"""Graphs: the operations of a program as nodes, each with a float64 value that gives the shape; none decides a branch.

A program recorded at several sizes gives graphs of the same form; numbers that differ between them depend on the sizes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import freeze_operand
from gradcli.errors import NotSupported
from gradcli.tracing.primitive import Params, Primitive, Value, bind
from gradcli.tracing.provenance import HERE, current_position, place_of_position
from gradcli.tracing.tracer import Arithmetic, Tracer

MOST_NODES = 20_000  # of one recording, made from one input; no formula is that long


class NotStraight(NotSupported):
    """A recording as graphs that was ended: the function chooses by values, or has too many operations, for a formula."""


class GraphNode(Arithmetic):
    """A node: an operation on nodes and plain values, or an input (`op` contains its name, and `args` is empty).

    User code may write into an array after it was an operand, so that operands are `fixed` nodes. `count` is shared by all
    nodes that are made from one input, and counts them.
    """

    __slots__ = ("_fixed", "args", "count", "op", "params", "value")
    level = 0
    symbolic = True

    def __init__(self, op: str, args: tuple[Any, ...], params: Params, value: Any) -> None:
        self.op = op
        self.args = args
        self.params = params
        self.value = value
        self.storage = None
        self._fixed: GraphNode | None = None
        self.count: list[int] = next((x.count for x in args if isinstance(x, GraphNode) and x.count), [])

    @classmethod
    def variable(cls, name: str, value: Any) -> "GraphNode":
        """Return an input node."""
        node = cls(f"input {name}", (), {}, value)
        node.count = [0]
        return node

    @classmethod
    def lift(cls, number: Value) -> Any:
        if isinstance(number, GraphNode):
            return number
        return cls("constant", (), {}, np.asarray(number, dtype=np.float64)[()])

    def hold(self, x: Value) -> Tracer:
        held: Tracer = self.lift(x)
        return held

    def rebind(self, other: Tracer) -> None:
        if isinstance(other, GraphNode):
            other.fixed()
        super().rebind(other)

    def fixed(self) -> "GraphNode":
        """Return the node of the present value, which a later write into the array does not change."""
        if self._fixed is not None:
            return self._fixed
        node = GraphNode(self.op, self.args, self.params, self.value)
        node.count = self.count
        self._fixed = node._fixed = node
        return node

    def __bool__(self) -> bool:
        """Raise NotStraight: which branch is taken, or whether a loop goes on, is not known without values."""
        raise NotStraight(
            "f asks whether a comparison of its inputs holds, in an if, a loop, max() or min(); a formula has all cases in it",
            where=place_of_position(HERE.position or current_position()),
            do="write np.where, np.maximum or np.minimum; gradcli check and gradcli grad take the function as it is",
        )

    def __and__(self, other: Value) -> Value:
        return bind(np.logical_and, self, other)

    def __or__(self, other: Value) -> Value:
        return bind(np.logical_or, self, other)

    def __invert__(self) -> Value:
        return bind(np.logical_not, self)

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
        plain = [x.value if isinstance(x, GraphNode) else x for x in xs]
        try:
            value = primitive.fun(*plain, **params)
        except np.linalg.LinAlgError:  # values give shapes and branches only; a singular matrix changes neither
            value = np.full(np.shape(plain[-1]) if primitive.name in ("inv", "solve") else (), np.nan)[()]
        operands = tuple(x.fixed() if isinstance(x, GraphNode) else freeze_operand(x) for x in xs)
        node = GraphNode(primitive.name, operands, params, value)
        if node.count:
            node.count[0] += 1
            if node.count[0] > MOST_NODES:
                raise NotStraight(
                    f"f has more than {MOST_NODES:,} operations, too many for a formula",
                    do="use fewer and larger operations on arrays; gradcli grad computes the derivative at a point",
                )
        return node


# Formulas: a rule that is run on names prints itself, so that the listed formula is the one that is computed.

_INFIX = {"add": (" + ", 1), "subtract": (" - ", 1), "multiply": ("*", 2), "divide": ("/", 2), "power": ("**", 4)}
_COMPARISONS = {"equal": " == ", "not_equal": " != ", "greater": " > ", "less": " < "}
_ATOM = 5


class FormulaText(Arithmetic):
    """A formula as text, and how tightly its outermost operator binds."""

    __slots__ = ("binds", "text")
    level = 0

    def __init__(self, text: str, binds: int = _ATOM) -> None:
        self.text = text
        self.binds = binds
        self.storage = None

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(f"{float(number):g}")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def primal(self) -> Value:
        return np.float64(np.nan)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        parts = [x if isinstance(x, FormulaText) else FormulaText.lift(x) for x in xs]
        name = primitive.name
        if name == "positive":
            return parts[0]
        if name == "negative":
            return FormulaText("-" + _parenthesise(parts[0], 3), 3)
        if name == "integer_power":
            return FormulaText(f"{_parenthesise(parts[0], 5)}**{params['n']}", 4)
        if name in _INFIX:
            sign, binds = _INFIX[name]
            right = binds + (sign in (" - ", "/"))
            return FormulaText(_parenthesise(parts[0], binds) + sign + _parenthesise(parts[1], right), binds)
        if name in _COMPARISONS:
            return FormulaText(_COMPARISONS[name].join(part.text for part in parts), 0)
        extra = [f"{key}={value}" for key, value in params.items()]
        return FormulaText(f"{name}({', '.join([*(part.text for part in parts), *extra])})")


def _parenthesise(part: FormulaText, binds: int) -> str:
    return part.text if part.binds >= binds else f"({part.text})"


def write_formula(rule: Any, xs: Sequence[str], params: Params) -> str:
    """Return a partial derivative as text, by running the rule on names; the value is `y`."""
    found = rule(FormulaText("y"), *(FormulaText(x) for x in xs), **params)
    return found.text if isinstance(found, FormulaText) else f"{float(found):g}"
