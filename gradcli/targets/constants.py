"""The constants of the user's code: numbers that a function reads and that are none of its arguments.

They stand in modules, in closures, in defaults of parameters, in attributes of objects and classes, and as literals in the
code. The function can be called with other values, such as tracers, in their places.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError
from gradcli.targets.nesting import Node, put_together, take_apart
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import is_users_file
from gradcli.tracing.tracer import UNBOUND, content_of_cell, nested_codes

_MOST_PLACES = 200  # where constants stand, of one function
_MOST_VISITED = 1_000  # functions, classes and objects that one function reads; parts of a container
_MOST_ENTRIES = 2**16  # of an array: of larger ones, what is computed is not looked at
Put = Callable[[Any], object]


def _is_constant(x: Any) -> bool:
    """Whether a value is a float64 number, or an array of them: operations with it are rounded."""
    if type(x) in (float, np.float64):
        return bool(np.isfinite(x))
    return type(x) is np.ndarray and x.dtype == np.float64 and 0 < x.size <= _MOST_ENTRIES


@dataclass(frozen=True)
class _ConstantPlace:
    """Where constants stand: what puts a value there, its own value, and that value taken apart."""

    put: Put
    value: Any
    node: Node
    leaves: dict[str, Any]

    def put_numbers(self, numbers: Iterator[Value]) -> None:
        """Put a value there whose constants are the next numbers."""
        self.put(put_together(self.node, {p: next(numbers) if _is_constant(x) else x for p, x in self.leaves.items()}))


class Constants:
    """The constants that a function reads, and the user's functions and objects that it reads; `literals` are asked for.

    >>> Constants(lambda x, eps=0.5: x * eps).numbers
    [np.float64(0.5)]
    """

    def __init__(self, function: Any, literals: bool = False) -> None:
        self._places: dict[Any, _ConstantPlace] = {}
        self._literals = literals
        seen: dict[int, Any] = {}
        waiting = [function]
        while waiting and len(seen) < _MOST_VISITED:
            x = waiting.pop()
            if id(x) not in seen:
                seen[id(x)] = x  # holds it, so that no other object gets its id
                waiting += self._read(x)

    @property
    def numbers(self) -> list[Any]:
        """The values of all constants, in order."""
        found = (x for place in self._places.values() for x in place.leaves.values() if _is_constant(x))
        return [np.float64(x) if type(x) is float else x for x in found]

    @contextmanager
    def with_numbers(self, numbers: Sequence[Value]) -> Iterator[None]:
        """Context in which other values stand in the places of the constants, in this process."""
        left = iter(numbers)
        with ExitStack() as stack:
            for place in self._places.values():
                stack.callback(place.put, place.value)
                place.put_numbers(left)
            yield

    def _read(self, x: Any) -> list[Any]:
        """Note the constants in a function, an object or a class, and return the other functions and objects in it."""
        if isinstance(x, MethodType):
            return [x.__func__, x.__self__]
        if isinstance(x, functools.partial):
            found = self._note((id(x), "arguments"), functools.partial(_put_arguments, x), (x.args, x.keywords))
            return [x.func, *found]
        if isinstance(x, staticmethod | classmethod):
            return [x.__func__]
        if isinstance(x, property):
            return [x.fget]
        if isinstance(x, FunctionType):
            return self._read_function(x) if is_users_file(x.__code__.co_filename) else []
        if isinstance(x, ModuleType):
            return []
        kinds = [kind for kind in (x if isinstance(x, type) else type(x)).__mro__ if _is_users_class(kind)]
        read = [y for kind in kinds for y in self._note_all(kind, vars(kind), functools.partial(setattr, kind))]
        if kinds and not isinstance(x, type):
            own = getattr(x, "__dict__", {})
            read += self._note_all(x, own, own.__setitem__)
        return read

    def _read_function(self, function: FunctionType) -> list[Any]:
        code = function.__code__
        names = sorted({name for inner in nested_codes(code) for name in inner.co_names})
        read = self._note_names(names, function.__globals__)
        for name in names:
            module = function.__globals__.get(name)
            if isinstance(module, ModuleType) and is_users_file(getattr(module, "__file__", None) or ""):
                read += self._note_names(names, vars(module))
        for k, cell in enumerate(function.__closure__ or ()):
            value = content_of_cell(cell)
            if value is not UNBOUND:
                read += self._note((id(function), k), functools.partial(setattr, cell, "cell_contents"), value)
        for name in ("__defaults__", "__kwdefaults__"):
            read += self._note(
                (id(function), name), functools.partial(setattr, function, name), getattr(function, name)
            )
        if self._literals:
            literals = [x for inner in nested_codes(code) for x in inner.co_consts if type(x) is float]

            def put(numbers: list[Any]) -> None:
                function.__code__ = code if numbers is literals else _with_literals(code, iter(numbers))

            self._note((id(function), "literals"), put, literals)
        return read

    def _note_names(self, names: Iterable[str], held: dict[str, Any]) -> list[Any]:
        return self._note_all(held, {name: held[name] for name in names if name in held}, held.__setitem__)

    def _note_all(self, owner: Any, held: Any, put: Callable[[str, Any], object]) -> list[Any]:
        pairs = [(name, x) for name, x in list(held.items()) if not name.startswith("__")]
        return [y for name, x in pairs for y in self._note((id(owner), name), functools.partial(put, name), x)]

    def _note(self, key: Any, put: Put, x: Any) -> list[Any]:
        """Note the constants in a value that stands somewhere, and return the functions and objects in it."""
        if not isinstance(x, float | np.ndarray | list | tuple | dict):
            return [x]
        if _has_many_parts(x):
            return []
        try:
            node, leaves = take_apart("", x)
        except GradcliError:  # such as a list that holds itself
            return []
        if any(map(_is_constant, leaves.values())) and len(self._places) < _MOST_PLACES:
            self._places.setdefault(key, _ConstantPlace(put, x, node, leaves))
        return [leaf for leaf in leaves.values() if not isinstance(leaf, int | float | str | np.ndarray | None)]


def _has_many_parts(x: Any) -> bool:
    """Whether a container, with those inside it, has more parts than are looked at, as a table in a list of lists has."""
    waiting, count = [x], 0
    while waiting and count <= _MOST_VISITED:
        part = waiting.pop()
        count += 1
        if isinstance(part, list | tuple | dict):
            waiting += itertools.islice(part.values() if isinstance(part, dict) else part, _MOST_VISITED)
    return count > _MOST_VISITED


def _put_arguments(made: Any, given: tuple[Any, Any]) -> None:
    made.__setstate__((made.func, *given, made.__dict__))


def _is_users_class(kind: type) -> bool:
    """Whether a class is defined in a file of the user's, and takes other values, as an enumeration does not."""
    codes = [x.__code__ for x in vars(kind).values() if isinstance(x, FunctionType)]
    return type(kind).__setattr__ is type.__setattr__ and any(is_users_file(code.co_filename) for code in codes)


def _with_literals(code: CodeType, numbers: Iterator[Value]) -> CodeType:
    """Return a code object with other values for its literals, which are in the order of `nested_codes`."""
    own = [next(numbers) if type(x) is float else x for x in code.co_consts]
    return code.replace(co_consts=tuple(_with_literals(x, numbers) if isinstance(x, CodeType) else x for x in own))
