"""The arguments of a compiled function: those of the example, by their kinds, and what to say of any that differ."""

import copy
import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.errors import BadPoint, BadShape, BadTarget
from gradcli.targets.structure import Branch, LabelledLeaf, Leaf, Node
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import Tracer

_NUMBERS = (float, np.float64)


class Mismatch(BadShape):
    """An argument is not like the example's."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument; its values are those of each call."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, x: Any, into: list[Value]) -> None:
        """Append the argument. Raises Mismatch for another shape or dtype."""
        same = type(x) is np.ndarray and x.dtype == self.dtype and x.shape == self.shape
        if not same and not _is_traced(x, self.shape):
            raise _mismatch(self.path, _described(x), f"{self.dtype} of shape {self.shape}")
        into.append(x)


@dataclass(frozen=True, slots=True)
class Number:
    """A float argument; its value is that of each call."""

    path: str

    def read(self, x: Any, into: list[Value]) -> None:
        """Append the argument. Raises Mismatch for what is not a float."""
        if type(x) in _NUMBERS:
            into.append(float(x))
        elif _is_traced(x, ()):
            into.append(x)
        else:
            raise _mismatch(self.path, _described(x), "a float")


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that is part of the program: integers, a flag, a text, an object. It must be the example's."""

    path: str
    value: Any

    def read(self, x: Any, into: list[Value]) -> None:
        """Append nothing. Raises Mismatch for another value."""
        if x is not self.value and not _is_equal(x, self.value):
            given, example = _described(x), _described(self.value)
            raise _mismatch(self.path, given, example if given != example else f"{example} with other values")

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
        """Append the parts' arguments. Raises Mismatch for another structure."""
        if type(x) is not self.kind:
            raise _mismatch(self.path, _described(x), f"a {self.kind.__name__}")
        values: list[Any] = _members(x) if self.keys is None else [x[key] for key in self.keys if key in x]
        if len(values) != len(self.parts) or (self.keys is not None and tuple(x) != self.keys):
            raise _mismatch(
                self.path, f"a {self.kind.__name__} with other members, or in another order", "those of the example"
            )
        for part, value in zip(self.parts, values, strict=True):
            part.read(value, into)


Argument = Array | Number | Fixed | Container


def _fixed_module(path: str, name: str) -> Fixed:
    return Fixed(path, importlib.import_module(name))


def varies(x: Any) -> bool:
    """Whether an argument can have another value at each call: a float, or an array of float64."""
    return type(x) in _NUMBERS or (type(x) is np.ndarray and x.dtype == np.float64)


def argument(path: str, node: Node, x: Any) -> Argument:
    """Return the kind of an argument of the example, given its path and its structure.

    Integer and boolean arrays are part of the program, as indices are.

    Raises  BadPoint for arrays other than of float64, integers or booleans, and for iterators.
    """
    if isinstance(node, Branch):
        keys = tuple(x) if isinstance(x, Mapping) else None
        parts = tuple(
            argument(_path(path, part), part, member) for part, member in zip(node.parts, _members(x), strict=True)
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
        raise BadPoint(
            f"{path} is {_described(x)}", do="compile functions of float64, integer and boolean arrays and of floats"
        )
    return Fixed(path, copy.copy(x) if isinstance(x, set | bytearray) else x)


def _path(path: str, part: Node) -> str:
    return part.path if isinstance(part, Leaf) else path


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


def _described(x: Any) -> str:
    if isinstance(x, np.ndarray | np.generic | Tracer):
        return f"{x.dtype} of shape {x.shape}"
    text = repr(x) if isinstance(x, int | str | float | None) else f"a {type(x).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _mismatch(path: str, given: str, example: str) -> Mismatch:
    return Mismatch(
        f"{path} is {given}; the function was compiled for {example}", do="compile it again for such an argument"
    )
