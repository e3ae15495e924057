"""A straight-line program over numpy values, written while a function runs on values that nobody can look at.

Nodes are numbered in order, operands before results. A node that was written before is not written again, and what needs
no operation gets none: multiplying by one, spreading a number over entries that are there anyway.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from gradcli.core.primitive import Params, Primitive, Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import Arithmetic, Tracer
from gradcli.errors import NotSupported

MOST_NODES = 20_000  # of a program, which would take long to write and to compile
_LARGE = 2**12  # entries of a sample, which need not all be computed
MOST_BYTES = 2**29  # of the values at the call in which it is written
_BROADCAST, _RESHAPE, _MULTIPLY = named("broadcast_to"), named("reshape"), named("multiply")
Operation = Primitive | Callable[..., Value]


class CannotCompile(NotSupported):
    """The function looks at a value, so that it may do something else at others; or its program cannot be written."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation on earlier nodes; one without operands is an input, or the constant `value`.

    `value` is a sample: that of the call in which the program was written. It shows the shape.
    """

    operation: Operation | None
    operands: tuple[int, ...]
    params: Params
    value: Value
    constant: bool = False


@dataclass
class StraightLine:
    """Nodes at one nesting level; where it is `exact`, for other numbers than float64's, constants are not computed with."""

    level: float
    exact: bool = False
    most: int = MOST_NODES
    nodes: list[Node] = field(default_factory=list)
    _known: dict[Any, int] = field(default_factory=dict)
    _bytes: int = 0

    def input(self, x: Value) -> "AbstractValue":
        """Return a new input, of which `x` is a sample."""
        return self._written(Node(None, (), {}, x))

    def operation(self, operation: Operation, xs: Sequence[Value], params: Params) -> "AbstractValue":
        """Return the node of an operation on nodes and plain values, written if it is new."""
        operands = tuple(self._node(x) for x in xs)
        simple = self._simplified(operation, operands, params)
        if simple is not None:
            return simple
        key = _key(operation, operands, params)
        known = None if key is None else self._known.get(key)
        if known is not None:
            return self.unseen(known)
        made = self._written(
            Node(operation, operands, params, _sample(operation, [self.nodes[k].value for k in operands], params))
        )
        if key is not None:
            self._known[key] = made.number
        return made

    def _simplified(self, operation: Operation, operands: tuple[int, ...], params: Params) -> "AbstractValue | None":
        """Return the node of less than the operation that has the same result, or None."""
        nodes = [self.nodes[k] for k in operands]
        if not isinstance(operation, Primitive):
            return None
        if self._is_folded(operation, nodes):
            return self.constant(operation.fun(*(node.value for node in nodes), **params))
        if operation in (_BROADCAST, _RESHAPE):
            number = operands[0] if shape(nodes[0].value) == () else self._number_spread(operands[0])
            if number is None or params["to"] == () or (operation is _BROADCAST and number == operands[0]):
                return None
            return self.operation(_BROADCAST, [self.unseen(number)], params)
        if operation.kind != "elementwise":
            return None
        bare = [k if (number := self._number_spread(k)) is None else number for k in operands]
        if bare != list(operands):
            wanted = np.broadcast_shapes(*(shape(node.value) for node in nodes))
            made = self.operation(operation, list(map(self.unseen, bare)), params)
            return made if made.shape == wanted else self.operation(_BROADCAST, [made], {"to": wanted})
        if operation is _MULTIPLY:
            for one, other in ((nodes[0], operands[1]), (nodes[1], operands[0])):
                if one.constant and shape(one.value) == () and one.value == 1.0:
                    return self.unseen(other)
        return None

    def _is_folded(self, primitive: Primitive, nodes: Sequence[Node]) -> bool:
        """Whether an operation on constants is done at once."""
        constant = all(node.constant and shape(node.value) == () for node in nodes)
        return constant and primitive.kind == "elementwise" and not self.exact

    def _number_spread(self, k: int) -> int | None:
        """Return the number of which all entries of a node are copies, or None."""
        node = self.nodes[k]
        return (
            node.operands[0]
            if node.operation is _BROADCAST and shape(self.nodes[node.operands[0]].value) == ()
            else None
        )

    def constant(self, x: Value) -> "AbstractValue":
        """Return the node of a plain value."""
        return self.unseen(self._node(x))

    def _node(self, x: Value) -> int:
        """Return the number of a value's node; constants are copied, as the user's code may write to them later."""
        if isinstance(x, AbstractValue):
            if x.program is not self:
                raise CannotCompile("a value of another trace")
            return x.number
        if isinstance(x, Tracer) or not isinstance(x, float | int | np.generic | np.ndarray):
            raise CannotCompile(f"an operand is a {type(x).__name__}")
        if isinstance(x, np.ndarray):
            return self._written(Node(None, (), {}, x.copy(), constant=True)).number
        key = ("constant", type(x), x if isinstance(x, int) else np.float64(x).tobytes())
        if key not in self._known:
            self._known[key] = self._written(Node(None, (), {}, x, constant=True)).number
        return self._known[key]

    def _written(self, node: Node) -> "AbstractValue":
        if len(self.nodes) >= self.most:
            raise CannotCompile(f"the program has over {self.most:,} operations")
        self._bytes += node.value.nbytes if isinstance(node.value, np.ndarray) else 0
        if self._bytes > MOST_BYTES:
            raise CannotCompile(f"the program's values take over {MOST_BYTES >> 20} MiB")
        self.nodes.append(node)
        return self.unseen(len(self.nodes) - 1)

    def unseen(self, number: int) -> "AbstractValue":
        """Return the value of a node."""
        return (Exact if self.exact else AbstractValue)(self, number)

    def needed(self, results: Iterable[int]) -> list[int]:
        """Return the nodes that results are computed from, in order."""
        found = set(results)
        for k in range(max(found, default=-1), -1, -1):
            if k in found:
                found.update(self.nodes[k].operands)
        return sorted(found)


def _sample(operation: Operation, xs: Sequence[Value], params: Params) -> Value:
    """Return an operation's value; of a large elementwise one the first entry, spread, which shows the shape as well."""
    if not isinstance(operation, Primitive):
        return operation(*xs, **params)
    if operation.kind == "elementwise":
        spread = np.broadcast_shapes(*map(shape, xs))
        if math.prod(spread) >= _LARGE:
            return np.broadcast_to(operation.fun(*(x.flat[0] if shape(x) else x for x in xs), **params), spread)
    return operation.fun(*xs, **params)


def compiled(inputs: Iterable[int], lines: Iterable[str], space: dict[str, Any]) -> Callable[..., Any]:
    """Return the Python function of these statements; inputs are its parameters, each `v` and its number."""
    text = "".join(f"    {line}\n" for line in lines)
    exec(compile(f"def program({', '.join(f'v{k}' for k in inputs)}):\n{text}", "<program>", "exec"), space)
    made: Callable[..., Any] = space["program"]
    return made


def _key(operation: Operation, operands: tuple[int, ...], params: Params) -> Any:
    key = (operation, operands, tuple((name, _typed(params[name])) for name in sorted(params)))
    try:
        hash(key)
    except TypeError:  # positions in an array
        return None
    return key


def _typed(x: Any) -> Any:
    """Return a parameter beside its type, as True, 1 and 1.0 are equal."""
    if isinstance(x, tuple):
        return tuple(map(_typed, x))
    return (slice, x.start, x.stop, x.step) if isinstance(x, slice) else (type(x), x)


class AbstractValue(Tracer):
    """A value of the program; it has a shape, and whoever asks for more ends the trace."""

    __slots__ = ("number", "program")

    def __init__(self, program: StraightLine, number: int) -> None:
        self.program = program
        self.number = number
        self.storage = None

    @property
    def sample(self) -> Value:
        """The value at the call in which the program is written."""
        return self.program.nodes[self.number].value

    @property
    def level(self) -> float:  # type: ignore[override]
        return self.program.level

    @property
    def shape(self) -> tuple[int, ...]:
        return shape(self.sample)

    @property
    def under(self) -> Value:
        return np.float64(0)  # float64 it is, whichever one

    @property
    def primal(self) -> Value:
        node = self.program.nodes[self.number]
        if not node.constant:
            raise CannotCompile("the function looks at a value")
        return node.value

    def settle(self) -> NoReturn:
        raise CannotCompile("a value is kept between calls")

    def hold(self, x: Value) -> Tracer:
        return self.program.constant(x)

    def twin(self) -> Tracer:
        return type(self)(self.program, self.number)

    def rebind(self, other: Tracer) -> NoReturn:
        raise CannotCompile("the function writes into an array")

    def __repr__(self) -> str:
        return f"AbstractValue({self.number})"

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        if primitive.constant:
            raise CannotCompile(f"{primitive.name} of a value decides what is done")
        return self.program.operation(primitive, xs, params)


class Exact(AbstractValue, Arithmetic):
    """A value of a program for an arithmetic of its own, in which constants are exact and nothing is computed beforehand."""

    __slots__ = ()

    @classmethod
    def lift(cls, number: Value) -> "AbstractValue":
        return number if isinstance(number, Exact) else WRITING.get().constant(number)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        if primitive.kinks is not None:
            raise CannotCompile(f"{primitive.name} has kinks")
        return super().process(primitive, xs, params)


WRITING: ContextVar[StraightLine] = ContextVar("writing")  # the exact program that is being written
