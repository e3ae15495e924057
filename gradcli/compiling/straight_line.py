"""A straight-line program over numpy values, written while a function runs on abstract values, which have only a shape.

Nodes are numbered in order, operands before results. A node that was written before is not written again, and what needs
no operation gets none: multiplying by one, spreading a number over entries that exist anyway, operations on constants.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import CannotCompile
from gradcli.tracing.primitive import Params, Primitive, Value, primitive_by_name
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer

MOST_NODES = 20_000  # of a program, which would take long to write and to compile
MOST_BYTES = 2**29  # of the values at the example
_LARGE = 2**12  # entries of a sample, which need not all be computed
_BROADCAST, _RESHAPE, _GETITEM = map(primitive_by_name, ("broadcast_to", "reshape", "getitem"))
_MULTIPLY, _NOT_EQUAL, _SELECT = map(primitive_by_name, ("multiply", "not_equal", "where"))
Operation = Primitive | Callable[..., Value]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramNode:
    """An operation on earlier nodes; one without operands is an input, or the constant `value`.

    `value` is a sample: the value at the example. It shows the shape and the dtype.
    """

    operation: Operation | None
    operands: tuple[int, ...]
    params: Params
    value: Value
    constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the node's value."""
        return shape(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the node's value."""
        found = getattr(self.value, "dtype", None)
        return np.asarray(self.value).dtype if found is None else found

    @property
    def is_float(self) -> bool:
        """Whether the value consists of floats; comparisons and integers carry no derivative."""
        return self.dtype.kind == "f"


@dataclass
class StraightLine:
    """Nodes at one nesting level, whose values are of the class `values` while a function runs on them.

    With `exact`, for another arithmetic than float64's, nothing is computed with constants.
    """

    values: type["OfNode"]
    level: float
    exact: bool = False
    differentiate: Callable[..., tuple[Value, list[Value]]] | None = None  # writes the gradient of a part
    most: int = field(default_factory=lambda: MOST_NODES)
    nodes: list[ProgramNode] = field(default_factory=list)
    _known: dict[Any, int] = field(default_factory=dict)
    _arrays: dict[int, int] = field(default_factory=dict)
    _captured: list[Any] = field(default_factory=list)  # captured arrays, kept so that their ids stay theirs
    _bytes: int = 0

    def input(self, x: Value) -> "OfNode":
        """Return a new input, of which `x` is a sample."""
        return self._append_node(ProgramNode(None, (), {}, x))

    def operation(self, operation: Operation, xs: Sequence[Value], params: Params, again: bool = False) -> "OfNode":
        """Return the node of an operation on nodes and plain values, written if it is new, or in any case `again`."""
        operands = tuple(self._node_number(x) for x in xs)
        simple = self._simplify_operation(operation, operands, params)
        if simple is not None:
            return simple
        key = None if again else _operation_key(operation, operands, params)
        known = None if key is None else self._known.get(key)
        if known is not None:
            return self.abstract(known)
        sample = _sample_value(operation, [self.nodes[k].value for k in operands], params)
        made = self._append_node(ProgramNode(operation, operands, params, sample))
        if key is not None:
            self._known[key] = made.number
        return made

    def _simplify_operation(self, operation: Operation, operands: tuple[int, ...], params: Params) -> "OfNode | None":
        """Return the node of less than the operation that has the same result, or None."""
        nodes = [self.nodes[k] for k in operands]
        if not isinstance(operation, Primitive):
            return None
        spread = operation in (_BROADCAST, _RESHAPE) and nodes[0].shape == ()
        if not self.exact and not spread and all(node.constant for node in nodes):
            return self.constant(operation.fun(*(node.value for node in nodes), **params))
        if operation is _NOT_EQUAL and nodes[0].dtype == bool and is_zero(nodes[1]):
            return self.abstract(operands[0])
        if operation is _GETITEM and type(params["index"]) is tuple and not params["index"]:
            return self.abstract(operands[0])
        if operation in (_BROADCAST, _RESHAPE):
            number = operands[0] if nodes[0].shape == () else self._spread_number(operands[0])
            if number is None or params["to"] == () or (operation is _BROADCAST and number == operands[0]):
                return None
            return self.operation(_BROADCAST, [self.abstract(number)], params)
        if not is_elementwise(operation) and operation is not _SELECT:
            return None
        bare = [k if (number := self._spread_number(k)) is None else number for k in operands]
        if bare != list(operands):
            wanted = np.broadcast_shapes(*(node.shape for node in nodes))
            made = self.operation(operation, list(map(self.abstract, bare)), params)
            return made if made.shape == wanted else self.operation(_BROADCAST, [made], {"to": wanted})
        if operation is _MULTIPLY:
            for one, other in ((nodes[0], operands[1]), (nodes[1], operands[0])):
                if one.constant and one.shape == () and one.value == 1.0 and self.nodes[other].dtype == np.float64:
                    return self.abstract(other)
        return None

    def _spread_number(self, k: int) -> int | None:
        """Return the number of which all entries of a node are copies, or None."""
        node = self.nodes[k]
        spread = node.operation is _BROADCAST and self.nodes[node.operands[0]].shape == ()
        return node.operands[0] if spread else None

    def constant(self, x: Value) -> "OfNode":
        """Return the node of a plain value."""
        return self.abstract(self._node_number(x))

    def _node_number(self, x: Value) -> int:
        """Return the number of a value's node; arrays are copied, because the user's code may write to them later."""
        if getattr(x, "program", None) is self:
            return int(x.number)
        if isinstance(x, Tracer) or not isinstance(x, float | int | np.generic | np.ndarray) or np.iscomplexobj(x):
            what = "a value of another trace" if isinstance(x, Tracer) else f"a {np.asarray(x).dtype} value"
            do = "compile functions of real numbers, outside of other traces"
            raise CannotCompile(f"an operand is {what}", do=do)
        if isinstance(x, np.ndarray):
            return self._captured_array_node(x)
        key = ("constant", type(x), x if isinstance(x, int) else np.asarray(x).tobytes())
        if key not in self._known:
            self._known[key] = self._append_node(ProgramNode(None, (), {}, x, constant=True)).number
        return self._known[key]

    def _captured_array_node(self, x: Any) -> int:
        """Return the number of a captured array's node: a new one, if the array has changed since it was last used."""
        if x.dtype == object:
            raise CannotCompile("an operand is an array of objects", do="use an array of numbers")
        known = self._arrays.get(id(x))
        if known is not None and self.nodes[known].value.tobytes() == x.tobytes():
            return known
        own = x.copy()
        number = self._append_node(ProgramNode(None, (), {}, own, constant=True)).number
        self._arrays[id(x)] = self._arrays[id(own)] = number
        self._captured.append(x)
        return number

    def _append_node(self, node: ProgramNode) -> "OfNode":
        if len(self.nodes) >= self.most:
            do = "write loops over entries as array operations"
            raise CannotCompile(f"the program has over {self.most:,} operations", do=do)
        if isinstance(node.value, np.ndarray) and 0 not in node.value.strides:
            self._bytes += node.value.nbytes
        if self._bytes > MOST_BYTES:
            says = f"the program's values take over {MOST_BYTES >> 20} MiB"
            raise CannotCompile(says, do="compile it for a smaller example")
        self.nodes.append(node)
        return self.abstract(len(self.nodes) - 1)

    def abstract(self, number: int) -> "OfNode":
        """Return the abstract value of a node."""
        return self.values(self, number)

    def needed(self, results: Iterable[int]) -> list[int]:
        """Return the nodes that results are computed from, in order."""
        found = set(results)
        for k in range(max(found, default=-1), -1, -1):
            if k in found:
                found.update(self.nodes[k].operands)
        return sorted(found)


class OfNode(Tracer):
    """The value of a node while its program is written: its shape and dtype are known."""

    __slots__ = ("number", "program")

    def __init__(self, program: StraightLine, number: int) -> None:
        self.program = program
        self.number = number
        self.storage = None

    @property
    def level(self) -> float:  # type: ignore[override]
        return self.program.level

    @property
    def node(self) -> ProgramNode:
        """The node."""
        return self.program.nodes[self.number]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.node.dtype

    @property
    def is_constant(self) -> bool:
        """Whether the value does not depend on the inputs, and is known."""
        return self.node.constant


def is_zero(node: ProgramNode) -> bool:
    """Whether a node is the number 0."""
    return node.constant and node.shape == () and bool(node.value == 0)


def is_elementwise(primitive: Primitive) -> bool:
    """Whether a primitive computes each entry of its result from one entry of each operand; comparisons do as well."""
    own = isinstance(primitive.fun, np.ufunc) and primitive.fun.signature is None
    return own or primitive.kind == "elementwise"


def _sample_value(operation: Operation, xs: Sequence[Value], params: Params) -> Value:
    """Return an operation's value; of a large elementwise one the first entry, broadcast, which shows the shape as well."""
    if not isinstance(operation, Primitive):
        return operation(*xs, **params)
    if is_elementwise(operation):
        spread = np.broadcast_shapes(*map(shape, xs))
        if math.prod(spread) >= _LARGE:
            return np.broadcast_to(operation.fun(*(x.flat[0] if shape(x) else x for x in xs), **params), spread)
    return operation.fun(*xs, **params)


def _operation_key(operation: Operation, operands: tuple[int, ...], params: Params) -> Any:
    key = (operation, operands, tuple((name, _with_type(params[name])) for name in sorted(params)))
    try:
        hash(key)
    except TypeError:  # positions in an array
        return None
    return key


def _with_type(x: Any) -> Any:
    """Return a parameter beside its type, because True, 1 and 1.0 are equal."""
    if isinstance(x, tuple):
        return tuple(map(_with_type, x))
    return (slice, x.start, x.stop, x.step) if isinstance(x, slice) else (type(x), x)
