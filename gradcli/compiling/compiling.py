"""Compiled functions: traced once at an example, written as straight-line numpy code, and run as such."""

import contextvars
import copy
import dataclasses
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.compiling.straight_line import (
    AbstractValue,
    DetachedFunction,
    NumpyCall,
    OfNode,
    ProgramNode,
    StraightLine,
    ValuePlace,
    times,
    value_and_gradient,
)
from gradcli.compiling.written import FunctionText, write_function
from gradcli.errors import BadPoint, BadShape, BadTarget, FunctionFailed, GradcliError, TraceDiffers
from gradcli.targets.arguments import refuse_again, remember_refusal
from gradcli.targets.nesting import ContainerNode, LabelledLeaf, Leaf, put_together, take_apart
from gradcli.targets.nesting import Node as Structure
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.tracing import primitive
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.shapes import largest_finite, shape
from gradcli.tracing.tracer import Tracer

_AGREEMENT = 1e-9  # of the largest entry, between the compiled function and the function at the example
_ROUNDINGS = 1e-12  # of the largest value of the program: what its rounding may change


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The program as it was traced: it runs on traced values, to be differentiated further."""

    nodes: tuple[ProgramNode, ...]
    inputs: tuple[int, ...]
    results: tuple[int, ...]

    def run(self, xs: Sequence[Value]) -> list[Value]:
        """Return the results on any values, also traced ones."""
        values: dict[int, Value] = dict(zip(self.inputs, xs, strict=True))
        for k, node in enumerate(self.nodes):
            if k not in values:
                assert node.operation is not None or node.constant
                operands = [values[j] for j in node.operands]
                values[k] = node.value if node.operation is None else node.operation(*operands, **node.params)
        return [values[k] for k in self.results]


# The arguments of a compiled function: those of the example, by their kinds, and what to say of any that differ.

_NUMBERS = (float, np.float64)


class ExampleMismatch(BadShape):
    """An argument is not like the example's."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument; its values are those of each call."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, x: Any, into: list[Value]) -> None:
        """Append the argument. Raises ExampleMismatch for another shape or dtype."""
        same = type(x) is np.ndarray and x.dtype == self.dtype and x.shape == self.shape
        if not same and not _is_traced(x, self.shape):
            raise _example_mismatch(self.path, _describe_value(x), f"{self.dtype} of shape {self.shape}")
        into.append(x)


@dataclass(frozen=True, slots=True)
class Number:
    """A float argument; its value is that of each call."""

    path: str

    def read(self, x: Any, into: list[Value]) -> None:
        """Append the argument. Raises ExampleMismatch for what is not a float."""
        if type(x) in _NUMBERS:
            into.append(float(x))
        elif _is_traced(x, ()):
            into.append(x)
        else:
            raise _example_mismatch(self.path, _describe_value(x), "a float")


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that is part of the program: integers, a flag, a text, an object. It must be the example's."""

    path: str
    value: Any

    def read(self, x: Any, into: list[Value]) -> None:
        """Append nothing. Raises ExampleMismatch for another value."""
        if x is not self.value and not _is_equal(x, self.value):
            given, example = _describe_value(x), _describe_value(self.value)
            raise _example_mismatch(self.path, given, example if given != example else f"{example} with other values")

    def __reduce__(self) -> Any:
        if isinstance(self.value, ModuleType):
            return _fixed_module, (self.path, self.value.__name__)
        return Fixed, (self.path, self.value)


@dataclass(frozen=True, slots=True)
class Container:
    """A list, tuple, dict, named tuple or dataclass of arguments; `keys` are those of a dict."""

    kind: Any
    keys: tuple[Any, ...] | None
    parts: tuple["Argument", ...]
    path: str

    def read(self, x: Any, into: list[Value]) -> None:
        """Append the parts' arguments. Raises ExampleMismatch for another structure."""
        if type(x) is not self.kind:
            raise _example_mismatch(self.path, _describe_value(x), f"a {self.kind.__name__}")
        values: list[Any] = _members(x) if self.keys is None else [x[key] for key in self.keys if key in x]
        if len(values) != len(self.parts) or (self.keys is not None and tuple(x) != self.keys):
            given = f"a {self.kind.__name__} with other members, or in another order"
            raise _example_mismatch(self.path, given, "those of the example")
        for part, value in zip(self.parts, values, strict=True):
            part.read(value, into)


Argument = Array | Number | Fixed | Container


def _fixed_module(path: str, name: str) -> Fixed:
    return Fixed(path, importlib.import_module(name))


def _varying_parts(argument: Argument) -> list[Array | Number]:
    """Return the arrays and the floats of an argument."""
    if isinstance(argument, Container):
        return [one for part in argument.parts for one in _varying_parts(part)]
    return [] if isinstance(argument, Fixed) else [argument]


def is_variable(x: Any) -> bool:
    """Whether an argument can have another value at each call: a float, or an array of float64."""
    return type(x) in _NUMBERS or (type(x) is np.ndarray and x.dtype == np.float64)


def argument_kind(path: str, node: Structure, x: Any) -> Argument:
    """Return the kind of an argument of the example, given its path and its structure.

    Integer and boolean arrays are part of the program, as indices are.

    Raises  BadPoint for arrays other than of float64, integers or booleans, and for iterators.
    """
    if isinstance(node, ContainerNode):
        keys = tuple(x) if isinstance(x, Mapping) else None
        parts = tuple(
            argument_kind(part.path if isinstance(part, Leaf) else path, part, member)
            for part, member in zip(node.parts, _members(x), strict=True)
        )
        return Container(type(x), keys, parts, path)
    if isinstance(node, LabelledLeaf):
        raise BadPoint(f"{path} is a pandas {type(x).__name__}", do=f"compile for its values: {path}.to_numpy()")
    if type(x) is np.ndarray and x.dtype == np.float64:
        return Array(path, x.shape, x.dtype)
    if type(x) is np.ndarray and x.dtype.kind in "biu":
        return Fixed(path, x.copy())
    if type(x) in _NUMBERS:
        return Number(path)
    if hasattr(x, "__next__"):
        raise BadPoint(f"{path} is an iterator, which can be read only once", do="pass a list or an array")
    if isinstance(x, np.ndarray | Tracer | complex | np.inexact):
        do = "compile functions of float64, integer and boolean arrays and of floats"
        raise BadPoint(f"{path} is {_describe_value(x)}", do=do)
    return Fixed(path, copy.copy(x) if isinstance(x, set | bytearray) else x)


def _members(x: Any) -> list[Any]:
    """Return the members of a container, in order."""
    if isinstance(x, Mapping):
        return list(x.values())
    return list(x) if isinstance(x, list | tuple) else [getattr(x, part.name) for part in dataclasses.fields(x)]


def refuse_kind(f: Callable[..., Any], name: str, signature: inspect.Signature | None) -> None:
    """Raise BadTarget for what cannot be compiled: generators, and functions that take any number of arguments."""
    if inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f):
        raise BadTarget(f"{name} is a generator", do="return an array or a list")
    for parameter in signature.parameters.values() if signature else ():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            shown = str(parameter).partition(":")[0]
            raise BadTarget(f"{name} takes any number of arguments ({shown})", do="write its parameters out")


def _is_traced(x: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(x, Tracer) and x.shape == shape


def _is_equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # objects that hold arrays
        return False


def _describe_value(x: Any) -> str:
    if isinstance(x, np.ndarray | np.generic | Tracer):
        return f"{x.dtype} of shape {x.shape}"
    text = repr(x) if isinstance(x, int | str | float | None) else f"a {type(x).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _example_mismatch(path: str, given: str, example: str) -> ExampleMismatch:
    says = f"{path} is {given}; the function was compiled for {example}"
    return ExampleMismatch(says, do="compile it again for such an argument")


class Compiled:
    """A function that was traced at an example and runs as straight-line numpy code.

    `source` is the code. Arrays that the function captured are constants of the code, as they were at the example. The
    result is in arrays of its own. Another shape or dtype of an argument, or another value of one that is neither a float nor
    an array of floats, raises BadShape. It can be pickled, called from threads, differentiated and compiled into other functions.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Argument],
        recorded: _Recorded,
        codes: tuple[FunctionText, FunctionText | None],
        result: Any,
    ) -> None:
        self.__name__ = self.__qualname__ = name
        if all(map(str.isidentifier, arguments)):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            self.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in arguments])
        self._arguments = dict(arguments)
        self._names, self._readers = tuple(arguments), tuple(arguments.values())
        self._recorded = recorded
        self._fast, self._careful = codes
        self._result = result

    @cached_property
    def source(self) -> str:
        """The code, below comments that say what its names stand for."""
        head = self._fast.text.split("(", 1)[1].split(")", 1)[0]
        lines = [f"# {self.__name__}"]
        inputs = [one for argument in self._readers for one in _varying_parts(argument)]
        for symbol, one in zip(filter(None, head.split(", ")), inputs, strict=True):
            kind = f"{one.dtype} of shape {one.shape}" if isinstance(one, Array) else "a float"
            path = one.path if one.path.isprintable() else ascii(one.path)[1:-1]
            lines.append(f"# {symbol}: {path}, {kind}")
        for symbol, x in self._fast.space.items():
            if symbol[0] == "c" and symbol[1:].isdigit():
                lines.append(f"# {symbol}: {np.asarray(x).dtype} of shape {shape(x)}, captured")
        return "\n".join(lines) + "\n" + self._fast.text

    @cached_property
    def _fast_function(self) -> Callable[..., Any]:
        return self._fast.function()

    @cached_property
    def _careful_function(self) -> Callable[..., Any]:
        assert self._careful is not None
        return self._careful.function()

    @cached_property
    def _structure(self) -> tuple[Structure, dict[str, Any]]:
        return take_apart("", self._result)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns at these arguments.

        Raises  BadShape for an argument that is not like the example's.
        """
        xs: list[Value] = []
        for one, x in zip(self._readers, self._ordered_arguments(args, kwargs), strict=True):
            one.read(x, xs)
        for x in xs:
            if isinstance(x, Tracer):
                return self._restore_structure(self._recorded.run(xs))
        if self._careful is None:
            return self._restore_structure(self._fast_function(*xs)[0])
        results, total = run_quietly(self._fast_function, xs)
        if total != total:
            results, _ = run_quietly(self._careful_function, xs)
        return self._restore_structure(results)

    def _ordered_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the arguments in the order of the example's. Raises TypeError if any is missing or unknown."""
        names = self._names
        if not kwargs and len(args) == len(names):
            return args
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or kwargs.keys() != set(names[len(args) :]):
            says = f"{self.__name__} was compiled for the arguments {', '.join(names)}: give each of them once"
            raise TypeError(says)
        given |= kwargs
        return [given[name] for name in names]

    def _restore_structure(self, results: Sequence[Value]) -> Any:
        """Return results in the structure that the function returned at the example."""
        if type(self._result) is ValuePlace:
            return results[0]
        structure, leaves = self._structure
        found = {path: results[x.number] if type(x) is ValuePlace else x for path, x in leaves.items()}
        return put_together(structure, found)

    def __reduce__(self) -> Any:
        codes = (self._fast, self._careful)
        return Compiled, (self.__name__, self._arguments, self._recorded, codes, self._result)

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}>"


class _Quiet(threading.local):
    """A context of this thread in which numpy ignores floating-point errors; entering it takes less time than errstate."""

    def __init__(self) -> None:
        self.context = contextvars.copy_context()
        self.context.run(np.seterr, all="ignore")


_QUIET = _Quiet()


def run_quietly(function: Callable[..., Any], xs: Sequence[Value]) -> Any:
    """Return a function's results, with floating-point errors ignored."""
    try:
        return _QUIET.context.run(function, *xs)
    except RuntimeError:  # the context is entered already: a compiled function was called by a rule of another
        with np.errstate(all="ignore"):
            return function(*xs)


def compiled_function(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Compiled:
    """Return a function compiled at an example of its arguments.

    Raises  CannotCompile, with its line, where the function needs a plain value or a shape that depends on values;
            TraceDiffers if the code does not find what the function finds at the example.
    """
    name = getattr(f, "__name__", type(f).__name__)
    signature = signature_of(f)
    refuse_kind(f, name, signature)
    refuse_again(f)
    named = _arguments_by_name(signature, args, kwargs)
    structures: dict[str, Structure] = {}
    leaves: dict[str, Any] = {}
    arguments: dict[str, Argument] = {}
    for key, x in named.items():
        structures[key], inside = take_apart(key, x)
        leaves |= inside
        arguments[key] = argument_kind(key, structures[key], x)
    values: list[Value] = []
    for one, x in zip(arguments.values(), named.values(), strict=True):
        one.read(x, values)
    function = PythonFunction(f, name, structures, ())
    with np.errstate(all="ignore"), primitive.open_sweep() as level:
        program = StraightLine(AbstractValue, level, differentiate=value_and_gradient)
        inputs: list[int] = []

        def abstract(x: Any) -> Any:
            if not is_variable(x):
                return x
            made = program.input(x if type(x) is np.ndarray else np.float64(x))
            inputs.append(made.number)
            return made

        y = function.raw({path: abstract(x) for path, x in leaves.items()})
        results: list[OfNode] = []
        result = _with_places(y, program, results, name)
        numbers = [x.number for x in results]
        careful = write_function(program, inputs, numbers, careful=True)
        products = any(node.operation is times for node in program.nodes)
        codes = (careful, careful if products else None)
        if products and not _may_lose_nan(program):
            codes = write_function(program, inputs, numbers, careful=False), careful
        size = max((largest_finite(node.value) for node in program.nodes), default=0.0)
    kept = (node if node.constant else replace(node, value=None) for node in program.nodes)  # without their samples
    found = Compiled(name, arguments, _Recorded(tuple(kept), tuple(inputs), tuple(numbers)), codes, result)
    try:
        _compare_with_function(found, function, leaves, values, size)
        _compare_with_function(found, function, *_values_at_other_point(leaves, values), size, only_finite=True)
    except TraceDiffers as error:
        remember_refusal(f, error.what)
        raise
    return found


def _arguments_by_name(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the example's arguments by parameter name, in the order of the parameters."""
    if signature is None:
        return {f"argument{k}": x for k, x in enumerate(args)} | dict(kwargs)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        says = f"the example does not fit the function: {error}"
        raise BadTarget(says, do="give each argument of the function") from None


def _with_places(y: Any, program: StraightLine, results: list[OfNode], name: str) -> Any:
    """Return the function's result with places for what the code computes. Raises FunctionFailed for no numbers."""
    structure, leaves = take_apart("", y)
    found: dict[str, Any] = {}
    for path, x in leaves.items():
        if hasattr(x, "__next__") or (isinstance(x, np.ndarray) and x.dtype == object and not isinstance(x, Tracer)):
            what = "an array of objects" if isinstance(x, np.ndarray) else "an iterator"
            raise FunctionFailed(f"{name} returns {what}", do="return arrays, numbers, or structures of them")
        if isinstance(x, Tracer | np.ndarray | float | np.generic):
            found[path] = ValuePlace(len(results))
            results.append(program.constant(x))
        elif isinstance(x, str | bytes | int | None):
            found[path] = x
        else:
            says = f"{name} returns a {type(x).__name__}, which may hold values of the trace"
            raise FunctionFailed(says, do="return arrays, numbers, or tuples, lists, dicts and dataclasses of them")
    return put_together(structure, found)


def _may_lose_nan(program: StraightLine) -> bool:
    """Whether a gradient inside the function decides something: a nan of its fast form would not reach the results."""
    reached: set[int] = set()
    for k, node in enumerate(program.nodes):
        if not reached.isdisjoint(node.operands):
            constant = isinstance(node.operation, Primitive) and node.operation.constant
            if constant or isinstance(node.operation, DetachedFunction | NumpyCall):
                return True
            reached.add(k)
        elif node.operation is times:
            reached.add(k)
    return False


def _values_at_other_point(leaves: Mapping[str, Any], values: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the leaves of the arguments, and the values of the inputs, at another point."""

    def moved(x: Any) -> Any:
        if not is_variable(x):
            return x
        step = np.cos(1.0 + np.arange(np.size(x))).reshape(np.shape(x)) * 0.25 * (np.abs(x) + 0.5)
        return x + step if type(x) is np.ndarray else type(x)(x + step)

    return {path: moved(x) for path, x in leaves.items()}, list(map(moved, values))


def _compare_with_function(
    made: Compiled, function: PythonFunction, leaves: Mapping[str, Any], values: Sequence[Any], size: float,
    only_finite: bool = False,
) -> None:  # fmt: skip
    """Compare the compiled code with the function, up to rounding of values of some size. Raises TraceDiffers.

    With `only_finite`, a point at which the function raises, or has a value that is not finite, is passed over.
    """
    places = [path for path, x in take_apart("", made._result)[1].items() if type(x) is ValuePlace]
    with np.errstate(all="ignore"):
        try:
            y = function.raw({path: x.copy() if isinstance(x, np.ndarray) else x for path, x in leaves.items()})
        except GradcliError:
            if only_finite:
                return
            raise
        got = take_apart("", y)[1]
        expected = [got[path] for path in places if path in got]
        if only_finite and not all(np.all(np.isfinite(x)) for x in expected):
            return
        found = [made._careful_function(*values)[0]] if made._careful is not None else []
        fast, total = made._fast_function(*values)
    if total == total:
        found.append(fast)
    if len(expected) != len(places) or not all(
        _is_close(a, b, size) for results in found for a, b in zip(results, expected, strict=True)
    ):
        do = "let the function depend on its arguments alone: draw no random numbers in it, and keep no state"
        raise TraceDiffers(f"the compiled code of {made.__name__} does not find what the function finds", do=do)


def _is_close(a: Any, b: Any, size: float) -> bool:
    if shape(a) != shape(b):
        return False
    if np.asarray(a).dtype.kind != "f":
        return bool(np.array_equal(a, b))
    room = _AGREEMENT * np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) + _ROUNDINGS * size
    return bool(np.all(np.isclose(a, b, rtol=0.0, atol=room, equal_nan=True)))
