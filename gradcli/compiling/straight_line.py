"""A straight-line program over numpy values, written while a function runs on abstract values, which have only a shape.

Nodes are numbered in order, operands before results. A node that was written before is not written again, and what needs
no operation gets none: multiplying by one, spreading a number over entries that exist anyway, operations on constants.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, NoReturn

import numpy as np

from gradcli.arithmetic.recorded_program import vjp
from gradcli.arithmetic.tape import CONSTANT, SPENT, Line, sweep_back, transpose
from gradcli.classes import dataclass
from gradcli.errors import BadShape, CannotCompile, GradcliError, NoRule, TraceEnded
from gradcli.rules.kinds import ConstantSlope, Differential, Partial
from gradcli.rules.methods import SAME_NAME
from gradcli.rules.shaping import PUT, SELECT
from gradcli.tracing import shapes
from gradcli.tracing.primitive import REAL, Params, Primitive, Transposer, Value, bind, primitive_by_name
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Arithmetic, Tracer, assign_value

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


# Abstract values: what a function gets while its program is written. They have a shape and a dtype, and no value.

_INSTEAD = "np.where(condition, a, b), np.maximum and np.minimum"
_TRUTHS = {np.any, np.all, np.count_nonzero}
_POSITIONS = {np.nonzero, np.argwhere, np.flatnonzero}
_NEED_VALUES = (  # they compile as calls; the shapes of their results depend on shapes only
    "sort", "argsort", "partition", "argpartition", "argmax", "argmin", "median", "percentile", "quantile", "searchsorted",
    "digitize", "interp", "unwrap", "cov", "corrcoef", "gradient", "polyfit", "nan_to_num", "geomspace", "take_along_axis",
    "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian", "nanpercentile", "nanquantile",
    "nancumsum", "nancumprod", "nanargmax", "nanargmin",
)  # fmt: skip
_CALLED = {*(getattr(np, name) for name in _NEED_VALUES), np.linalg.slogdet, np.linalg.matrix_rank}
_ARGUMENTS = (int, float, str, bool, type(None), np.generic, np.ndarray, slice)


@dataclass(frozen=True, slots=True)
class DetachedFunction:
    """A function of numpy's whose result carries no derivative, as an operation of a program."""

    function: Callable[..., Any]

    @property
    def is_identity(self) -> bool:
        """Whether the result is the operand itself, without its derivative."""
        return self.function is _identity

    def __call__(self, *xs: Value, **params: Any) -> Value:
        return self.function(*xs, **params)


@dataclass(frozen=True, slots=True, eq=False)
class NumpyCall:
    """A call of a function of numpy's that has to see values, such as np.sort, as one operation of a program.

    `args` and `kwargs` have a `ValuePlace` for each abstract value. `output` is the number of the result, where there
    are several.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...] | None = None
    output: int | None = None

    def __call__(self, *xs: Value) -> Value:
        args, kwargs = _map_arguments(lambda x: xs[x.number] if type(x) is ValuePlace else x, (self.args, self.kwargs))
        found = self.function(*args, **kwargs)
        y = found if self.output is None else found[self.output]
        if self.shape is not None and np.shape(y) != self.shape:
            gives = f"np.{self.function.__name__} gives shape {np.shape(y)}"
            do = "use functions whose results have the same shape for all values"
            raise BadShape(f"{gives}; the function was compiled for {self.shape}", do=do)
        return y


@dataclass(frozen=True, slots=True)
class NamedConstant:
    """The constant pi or e, as an operation of a program: an arithmetic may know more of it than its float64 `value`."""

    name: str
    value: float

    def __call__(self) -> Value:
        return np.float64(self.value)


class ValuePlace:
    """The place of one of several values: of an operand among the arguments of a `NumpyCall`, of a result in a structure.

    It is no dataclass, which would be a structure itself.
    """

    def __init__(self, number: int) -> None:
        self.number = number


def _map_arguments(change: Callable[[Any], Any], x: Any) -> Any:
    """Return arguments with each of them changed, also those in dicts, lists and tuples."""
    if type(x) is dict:
        return {name: _map_arguments(change, part) for name, part in x.items()}
    return type(x)(_map_arguments(change, part) for part in x) if type(x) in (list, tuple) else change(x)


def _identity(x: Value) -> Value:
    return x


def _missing_value(what: str, do: str) -> CannotCompile:
    return CannotCompile(f"the function needs {what}, which a compiled function does not have", do=do)


class AbstractValue(OfNode):
    """A value of a program that is being written; asking it for more than its shape and dtype raises CannotCompile."""

    __slots__ = ()

    @property
    def __class__(self) -> type:
        return np.ndarray if self.shape else self.dtype.type

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of an abstract value is fixed")

    @property
    def under(self) -> Value:
        return np.float64(0)  # the arithmetic underneath is float64's

    @property
    def primal(self) -> Value:
        return self._plain_value("a plain value")

    def settle(self) -> NoReturn:
        raise CannotCompile("the function uses a value that it kept from an earlier call")

    def hold(self, x: Value) -> Tracer:
        return self.program.constant(x)

    def twin(self) -> Tracer:
        return type(self)(self.program, self.number)

    def __repr__(self) -> str:
        return f"AbstractValue({self.number})"

    def detached(self) -> OfNode:
        """Return the value without its derivative."""
        return self.program.operation(DetachedFunction(_identity), [self], {})

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Any) -> Value:
        return self.program.operation(primitive, xs, params)

    def differentiated(self, f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Return a scalar function's value and gradient at abstract values, as nodes of their program.

        Raises  BadShape if the value is not a scalar.
        """
        if self.program.differentiate is None:
            raise CannotCompile("a gradient inside a function of this kind")
        return self.program.differentiate(f, xs)

    # What needs a plain value.

    def __bool__(self) -> bool:
        return bool(self._plain_value("the truth of a value (`if`, `and`, `max`)", f"use {_INSTEAD}"))

    def __index__(self) -> Any:
        do = "compute indices and sizes from integers alone"
        return self._plain_value("an index or a size from data", do).__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._plain_value("a plain array"), dtype)

    def _plain_value(self, asked: str, do: str = "use numpy's functions of arrays, which compile") -> Any:
        if not self.is_constant:
            raise _missing_value(asked, do)
        return self.node.value

    # Masks, and writes that they select.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc in _BITWISE:
            return self.program.operation(DetachedFunction(ufunc), inputs, {})
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _POSITIONS:
            raise _missing_value(f"a shape that depends on values (np.{function.__name__})", f"use {_INSTEAD}")
        if function in _TRUTHS and len(args) == 1 and args[0] is self and self.dtype == bool and not kwargs.get("out"):
            return self.program.operation(DetachedFunction(function), args, kwargs)
        before = TraceEnded.raised
        try:
            return super().__array_function__(function, types, args, kwargs)
        except (TraceEnded, NoRule):
            if function not in _CALLED or "out" in kwargs:
                raise
            TraceEnded.raised = before
            return self._record_call(function, args, kwargs)

    def called(self, function: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """Return numpy's function of this name as the array's method."""
        return self.__array_function__(function, (type(self),), (self, *args), kwargs)

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Sort in place."""
        self[...] = np.sort(self, axis, **options)

    def _record_call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return a call of a function of numpy's as one operation, or one for each of its results.

        Raises  CannotCompile for functions among the arguments.
        """
        operands: list[Any] = []

        def replace_by_place(x: Any) -> Any:
            if isinstance(x, AbstractValue):
                operands.append(x)
                return ValuePlace(len(operands) - 1)
            if not isinstance(x, _ARGUMENTS) or isinstance(x, Tracer):
                raise _missing_value("plain values for a function that is passed to numpy", f"use {_INSTEAD}")
            return x

        call = NumpyCall(function, *_map_arguments(replace_by_place, (tuple(args), dict(kwargs))))
        found = call(*(x.node.value for x in operands))

        def operation(part: Value, output: int | None = None) -> Value:
            return self.program.operation(replace(call, shape=np.shape(part), output=output), operands, {})

        if not isinstance(found, tuple):
            return operation(found)
        made = [operation(part, k) for k, part in enumerate(found)]
        return type(found)(*made) if hasattr(found, "_fields") else tuple(made)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_plain_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        is_mask = isinstance(index, AbstractValue) and index.dtype == bool and index.shape == self.shape
        if is_mask and np.shape(value) == ():
            assign_value(self, bind(np.where, index, value, self))
        else:
            super().__setitem__(_plain_index(index), value)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the value as another type; float64 carries the derivative."""
        wanted = np.dtype(dtype)
        if self.dtype != np.float64 and wanted.kind in "biuf":
            return self.program.operation(DetachedFunction(np.ndarray.astype), [self], {"dtype": wanted})
        return super().astype(dtype, *args, **kwargs)  # type: ignore[misc]


def _plain_index(index: Any) -> Any:
    """Return an index with the plain values of constants. Raises CannotCompile for one that depends on values."""
    parts = index if isinstance(index, tuple) else (index,)
    asked = "an index that depends on values", f"use {_INSTEAD}, or capture the index in a closure"
    plain = tuple(part._plain_value(*asked) if isinstance(part, AbstractValue) else part for part in parts)
    return plain if isinstance(index, tuple) else plain[0]


_BITWISE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert}


def _install_methods() -> None:
    for kind in (float, int, complex):
        asked = f"a plain value for {kind.__name__}()"
        method = lambda self, kind=kind, asked=asked: kind(self._plain_value(asked))
        setattr(AbstractValue, f"__{kind.__name__}__", method)
    for name, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        setattr(AbstractValue, f"__{name}__", lambda self, other, ufunc=ufunc: ufunc(self, other))
        setattr(AbstractValue, f"__r{name}__", lambda self, other, ufunc=ufunc: ufunc(other, self))
    for name in SAME_NAME:
        f = getattr(np, name)
        setattr(AbstractValue, name, lambda self, *args, f=f, **kwargs: self.called(f, args, kwargs))
    setattr(AbstractValue, "__invert__", lambda self: np.invert(self))  # noqa: B010


_install_methods()


class Exact(AbstractValue, Arithmetic):
    """A value of a program for an arithmetic of its own, in which constants are exact and nothing is computed beforehand."""

    __slots__ = ()

    @classmethod
    def lift(cls, number: Value) -> OfNode:
        return number if isinstance(number, Exact) else WRITING.get().constant(number)

    @classmethod
    def lift_constant(cls, name: str, value: Value) -> OfNode:
        return WRITING.get().operation(NamedConstant(name, float(value)), [], {})

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Any) -> Value:
        if primitive.kinks is not None or primitive.constant:
            raise CannotCompile(f"{primitive.name} has kinks or steps")
        return super().process(primitive, xs, params)


WRITING: ContextVar[StraightLine] = ContextVar("writing")  # the exact program that is being written


# The gradient of a program, written by its rules: the reverse sweep as further nodes.
#
# A rule that needs no values becomes the operations it consists of. Any other is one operation, which calls the rule on the
# values of each run.

_ADD, _NEGATIVE = map(primitive_by_name, ("add", "negative"))


def same(x: Value) -> Value:
    """Return the operand: what is differentiated is a node of its own."""
    return x


def seed(y: Value) -> Value:
    """Return the cotangent of a scalar, with which a reverse sweep begins: one, or nan where the scalar is nan."""
    return np.where(np.isnan(y), np.nan, 1.0)[()]


def times(ybar: Value, slope: Value) -> Value:
    """Return the product of a cotangent and a slope; zero where the cotangent is zero and the slope is not finite."""
    return np.where(np.equal(ybar, 0) & ~np.isfinite(slope), 0.0, np.multiply(ybar, slope))[()]


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of an elementwise primitive by argument `i`, from its value and its operands."""

    primitive: Primitive
    i: int

    @property
    def rule(self) -> Partial:
        """The rule that has the slope."""
        rule = self.primitive.rule(self.i)
        assert isinstance(rule, Partial)
        return rule

    def __call__(self, y: Value, *xs: Value, **params: Any) -> Value:
        return self.rule.slope(y, xs, params)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The cotangent of argument `i` of a primitive, by its rule: from that of the value, the value and the operands."""

    primitive: Primitive
    i: int

    def __call__(self, ybar: Value, y: Value, *xs: Value, **params: Any) -> Value:
        return self.primitive.rule(self.i).pull(ybar, self.i, y, xs, params, transpose)


@dataclass(frozen=True, slots=True)
class Through:
    """The cotangent of argument `i` of any operation, by a tape that is recorded at each run."""

    operation: Operation
    i: int

    def __call__(self, ybar: Value, *xs: Value, **params: Any) -> Value:
        def alone(x: Value) -> Value:
            return self.operation(*xs[: self.i], x, *xs[self.i + 1 :], **params)

        return vjp(alone, [xs[self.i]])[1](ybar)[0]


def value_and_gradient(f: Callable[..., Value], xs: Sequence[OfNode | Value]) -> tuple[Value, list[Value]]:
    """Return a scalar function's value and gradient at values of a program that is being written, as nodes of it.

    Raises  BadShape if the value is not a scalar.
    """
    program = next(x.program for x in xs if isinstance(x, OfNode))
    inputs = [program.operation(same, [x], {}, again=True) for x in xs]
    y = f(*inputs)
    if getattr(y, "program", None) is not program:
        return y, [np.zeros(x.shape)[()] for x in inputs]
    if y.shape:
        raise BadShape(f"the value has shape {y.shape}, and only a scalar has a gradient", do="use gradcli.jacobian")
    bars = write_gradient(program, y, inputs)
    return y, [np.zeros(x.shape)[()] if bar is None else bar for x, bar in zip(inputs, bars, strict=True)]


def write_gradient(
    program: StraightLine, y: OfNode, wrt: Sequence[OfNode], ybar: OfNode | None = None
) -> list[OfNode | None]:
    """Return the cotangents of `wrt`, given that of `y`, which for a scalar is one; None where nothing flows."""
    first = min((x.number for x in wrt), default=y.number)
    moving = {x.number for x in wrt}  # the nodes through which a derivative flows
    for k in range(first, y.number + 1):
        node = program.nodes[k]
        if not moving.isdisjoint(node.operands) and not _is_constant(node):
            moving.add(k)
    if y.number not in moving:
        return [None for _ in wrt]
    lines = [_tape_line(program, k, first, moving) for k in range(first, y.number + 1)]
    bars: list[Any] = [None] * len(lines)
    if ybar is None and not program.exact and any(_may_be_nan(program.nodes[k]) for k in moving):
        ybar = program.operation(seed, [y], {})
    bars[-1] = program.constant(np.float64(1)) if ybar is None else ybar
    sweep_back(lines, bars, len(lines) - 1)
    return [bars[x.number - first] if x.number <= y.number else None for x in wrt]


def _may_be_nan(node: ProgramNode) -> bool:
    """Whether an operation has no value at some numbers, where its slope may have one all the same."""
    if not isinstance(node.operation, Primitive):
        return node.operation is not same and node.operation is not None
    everywhere = all(domain is REAL for domain in node.operation.on) or node.params.get("n", -1) >= 0
    return node.operation.kind == "elementwise" and not everywhere


def _is_constant(node: ProgramNode) -> bool:
    """Whether an operation's result carries no derivative."""
    if isinstance(node.operation, Primitive):
        return node.operation.constant or not node.is_float
    return isinstance(node.operation, DetachedFunction) or node.operation is seed or not node.is_float


def _tape_line(program: StraightLine, k: int, first: int, moving: set[int]) -> Line:
    """Return a node as a line of a tape whose rules write what they compute as further nodes."""
    node = program.nodes[k]
    if node.operation is None or k not in moving or moving.isdisjoint(node.operands):
        return SPENT
    rules = tuple(_Written(program, k) for _ in node.operands)
    slots = tuple(operand - first if operand in moving else CONSTANT for operand in node.operands)
    return replace(_MULTIPLY, rules=rules), slots, (), None, None, None


@dataclass(frozen=True, slots=True)
class _Written:
    """A rule that writes the cotangent of an argument of node k; the line of the tape has no values."""

    program: StraightLine
    k: int

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        program, node = self.program, self.program.nodes[self.k]
        operation, params = node.operation, node.params
        y = program.abstract(self.k)
        xs = [
            x.value if (x := program.nodes[j]).constant and not program.exact else program.abstract(j)
            for j in node.operands
        ]
        if operation is same:
            return ybar
        if operation is times:
            return shapes.unbroadcast(program.operation(times, [ybar, xs[1 - i]], {}), xs[i])
        if isinstance(operation, Slope):
            return _pull_through_slope(program, operation, i, ybar, xs, params)
        assert operation is not None
        if not isinstance(operation, Primitive):
            return program.operation(Through(operation, i), [ybar, *xs], params)
        rule = operation.rule(i)
        if isinstance(rule, ConstantSlope):
            if rule.factor == -1.0:
                ybar = program.operation(_NEGATIVE, [ybar], {})
            elif rule.factor != 1.0:
                ybar = program.operation(_MULTIPLY, [np.float64(rule.factor), ybar], {})
            return shapes.unbroadcast(ybar, xs[i])
        if isinstance(rule, Partial):
            slope = _write_slope(program, operation, rule, i, [y, *xs], params)
            return shapes.unbroadcast(
                program.operation(_MULTIPLY if program.exact else times, [ybar, slope], {}), xs[i]
            )
        if not isinstance(rule, Differential):
            found = try_rule(lambda: rule.pull(ybar, i, y, xs, params, _refuse_program))
            if found is not None:
                return found
        return program.operation(Pulled(operation, i), [ybar, y, *xs], params)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        raise NotImplementedError("only the reverse sweep is written")


def _write_slope(
    program: StraightLine, primitive: Primitive, rule: Partial, i: int, operands: Sequence[Value], params: Params
) -> Value:
    """Return a slope: the operations of its formula, unless these need values or another form is more accurate."""
    if program.exact:
        return rule.partial(*operands, **params)
    found = None if rule.kernel else try_rule(lambda: rule.partial(*operands, **params))
    return program.operation(Slope(primitive, i), operands, params) if found is None else found


def _pull_through_slope(
    program: StraightLine, slope: Slope, i: int, ybar: Value, xs: Sequence[Value], params: Params
) -> Value:
    """Return the cotangent of argument i of a slope; its formula is differentiated, not its more accurate form."""
    inputs = [program.operation(same, [x], {}, again=True) for x in xs]
    partial = try_rule(lambda: slope.rule.partial(*inputs, **params))
    if partial is None or getattr(partial, "program", None) is not program:
        return program.operation(Through(slope, i), [ybar, *xs], params)
    (found,) = write_gradient(program, partial, [inputs[i]], ybar)
    return np.zeros(shape(xs[i]))[()] if found is None else found


def try_rule(compute: Callable[[], Value]) -> Value | None:
    """Return what a rule writes; None where it needs plain values."""
    before = TraceEnded.raised
    try:
        return compute()
    except (GradcliError, TypeError, ValueError):
        TraceEnded.raised = before
        return None


def _refuse_program(program: Callable[[Value], Value], x: Value, ybar: Value) -> NoReturn:
    raise CannotCompile("a rule with a program of its own")


# A program made ready to be written as text: the rules written out, and what its results do not need left out.
#
# There are two ways to multiply a cotangent by a slope. The plain product is fast, and gives nan for zero times infinity. The
# careful one gives zero there, as the tape does; a run whose results have a nan is repeated with it.


def expand_rules(
    program: StraightLine, inputs: Sequence[int], results: Sequence[int], careful: bool
) -> tuple[StraightLine, list[int], list[int], list[int]]:
    """Return the part of a program that its results need, with the rules of elementwise operations written out.

    With it the numbers of its inputs, its results, and of scalars whose derivative was taken: where one is nan, so is
    the gradient. Inputs and constants come first.
    """
    made = StraightLine(program.values, program.level, differentiate=program.differentiate)
    found: dict[int, Value] = {k: made.input(program.nodes[k].value) for k in inputs}
    watched: list[int] = []
    for k in _order_with_late_writes(program, [k for k in results if k not in found]):
        node = program.nodes[k]
        if k in found:
            continue
        if node.constant:
            found[k] = made.constant(node.value)
            continue
        xs = [found[j] for j in node.operands]
        if node.operation is seed and not careful:
            watched.append(xs[0].number)
        y = _write_operation(made, node, xs, careful)
        found[k] = y if isinstance(y, OfNode) else made.constant(y)
    ins, outs = [found[k].number for k in inputs], [found[k].number for k in results]
    needed = {*made.needed([*outs, *watched]), *ins}
    order = sorted(needed, key=lambda k: (made.nodes[k].operation is not None, k))
    place = {k: number for number, k in enumerate(order)}
    nodes = [made.nodes[k] for k in order]
    made.nodes[:] = [replace(node, operands=tuple(place[j] for j in node.operands)) for node in nodes]
    return made, [place[k] for k in ins], [place[k] for k in outs], [place[k] for k in watched]


def _write_operation(program: StraightLine, node: ProgramNode, xs: list[OfNode], careful: bool) -> Value:
    operation, params = node.operation, node.params
    assert operation is not None
    if operation is same or (isinstance(operation, DetachedFunction) and operation.is_identity):
        return xs[0]
    if operation is seed and not careful:
        return np.float64(1)
    if operation is times and not careful:
        return _write_linear(program, xs[0], lambda ybar: program.operation(_MULTIPLY, [ybar, xs[1]], {}))
    if operation is _ADD:
        return _add_nodes(program, *xs)
    if operation is _NEGATIVE:
        return _write_linear(program, xs[0], lambda x: program.operation(_NEGATIVE, [x], {}))
    if isinstance(operation, Slope | Pulled):
        rule = operation if isinstance(operation, Pulled) else operation.rule.kernel or operation.rule.partial
        found = try_rule(lambda: rule(*(x.node.value if x.is_constant else x for x in xs), **params))
        if found is not None:
            return found
    return program.operation(operation, xs, params)


def _write_linear(program: StraightLine, x: OfNode, write: Callable[[OfNode], OfNode]) -> OfNode:
    """Return a linear function of a node; that of a selection, one of whose branches is zero, is taken of the other."""
    if x.node.operation is SELECT:
        condition, *branches = map(program.abstract, x.node.operands)
        for k in (0, 1):
            if is_zero(branches[1 - k].node):
                branches[k] = _write_linear(program, branches[k], write)
                return program.operation(SELECT, [condition, *branches], {})
    return write(x)


def _add_nodes(program: StraightLine, a: OfNode, b: OfNode) -> OfNode:
    """Return a sum; that of the two branches of a selection, each zero elsewhere, is the selection itself."""
    one, other = program.nodes[a.number], program.nodes[b.number]
    if one.operation is SELECT and other.operation is SELECT and one.operands[0] == other.operands[0]:
        condition, *mine = map(program.abstract, one.operands)
        yours = list(map(program.abstract, other.operands[1:]))
        for (x, after), (before, y) in ((mine, yours), (yours, mine)):
            if is_zero(after.node) and is_zero(before.node):
                return program.operation(SELECT, [condition, x, y], {})
    return program.operation(_ADD, [a, b], {})


def _order_with_late_writes(program: StraightLine, results: Sequence[int]) -> list[int]:
    """Return the nodes that results need, in an order in which writes into an array come as late as possible.

    What reads the array before the write comes first then, so that the write can use its memory.
    """
    found: dict[int, None] = {}
    for first in sorted(program.needed(results), key=lambda k: program.nodes[k].operation is PUT):
        pending = [first]
        while pending:  # a write may be read by another write: a chain of them, without recursion
            missing = [j for j in program.nodes[pending[-1]].operands if j not in found]
            if missing:
                pending.extend(reversed(missing))
            else:
                found[pending.pop()] = None
    return list(found)
