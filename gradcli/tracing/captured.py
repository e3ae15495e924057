"""The traced values inside functions and containers: found, and replaced by others.

A right-hand side that a solver calls again and again often holds the parameters that are differentiated: in its closure, in
a partial, in the object that it is a method of.
"""

import contextlib
import copy
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from gradcli.tracing.tracer import Tracer

_DEEPEST = 12  # levels of functions, objects and containers inside each other


class Captured:
    """The traced `leaves` inside a structure, each once, and the same structure with other values in their place.

    The structure is copied where it holds traced values: an object of the user's may hold others later.
    """

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self._collect_leaves()
        if self.leaves:
            self.structure = self.rebuilt(self.leaves)
            self._collect_leaves()

    def _collect_leaves(self) -> None:
        self.leaves: list[Tracer] = []
        self._places: dict[int, int] = {}
        self._holds: dict[int, bool] = {}
        self._find_traced(self.structure, 0)

    def rebuilt(self, values: Sequence[Any]) -> Any:
        """Return a copy of the structure in which `values` stand in the places of the leaves."""
        return self._copy_with_values(self.structure, values, {})

    def _find_traced(self, x: Any, depth: int) -> bool:
        """Return whether `x` contains a traced value, and note all that it contains."""
        if isinstance(x, Tracer):
            if id(x) not in self._places:
                self._places[id(x)] = len(self.leaves)
                self.leaves.append(x)
            return True
        if depth > _DEEPEST:
            return False
        if id(x) not in self._holds:
            self._holds[id(x)] = False  # while its parts are looked at, for structures that contain themselves
            self._holds[id(x)] = any(tuple(self._find_traced(part, depth + 1) for part in _objects_inside(x)))
        return self._holds[id(x)]

    def _copy_with_values(self, x: Any, values: Sequence[Any], known: dict[int, Any]) -> Any:
        if isinstance(x, Tracer):
            return values[self._places[id(x)]]
        if not self._holds.get(id(x), False):
            return x
        if id(x) not in known:
            known[id(x)] = x  # while its parts are copied, for containers that contain themselves
            _copy_object(known, x, lambda part: self._copy_with_values(part, values, known))
        return known[id(x)]


# What a function holds: the values in its closure, and the code of the functions inside it.

UNBOUND: Any = type("Unbound", (), {"__repr__": lambda self: "unbound"})()


def content_of_cell(cell: CellType) -> Any:
    """Return the value in a cell of a closure; UNBOUND if its name has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def closure_values(function: FunctionType) -> dict[str, Any]:
    """Return the names of a function's closure that have a value, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: x for name, cell in cells if (x := content_of_cell(cell)) is not UNBOUND}


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def unwrap_function(x: Any) -> Any:
    """Return the function of Python inside a bound method, or inside a function that numba compiles; anything else as it is."""
    inner = x.__func__ if isinstance(x, MethodType) else getattr(x, "__dict__", {}).get("py_func")
    return inner if isinstance(inner, FunctionType) else x


def _objects_inside(x: Any) -> list[Any]:
    """Return the objects directly inside a container, a function or an object of a class of the user's."""
    if isinstance(x, list | tuple | set | frozenset):
        return list(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, types.FunctionType):
        return [*map(content_of_cell, x.__closure__ or ()), *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, type | types.ModuleType) or type(x).__module__ in ("builtins", "numpy"):
        return []
    return list(getattr(x, "__dict__", {}).values())


def _copy_object(known: dict[int, Any], x: Any, part: Callable[[Any], Any]) -> None:
    """Make `known[id(x)]` a copy with the copies of what is inside; a function or an object may refer to itself."""
    if isinstance(x, list | tuple | set | frozenset):
        parts = map(part, x)
        known[id(x)] = type(x)(*parts) if isinstance(x, tuple) and hasattr(x, "_fields") else type(x)(parts)
    elif isinstance(x, functools.partial):
        named = {k: part(v) for k, v in x.keywords.items()}
        known[id(x)] = functools.partial(part(x.func), *map(part, x.args), **named)
    elif isinstance(x, types.MethodType):
        known[id(x)] = types.MethodType(part(x.__func__), part(x.__self__))
    elif isinstance(x, types.FunctionType):
        cells = tuple(types.CellType() for _ in x.__closure__ or ())
        known[id(x)] = made = types.FunctionType(x.__code__, x.__globals__, x.__name__, None, cells)
        for own, cell in zip(cells, x.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a name that is bound later
                own.cell_contents = part(cell.cell_contents)
        made.__defaults__ = tuple(map(part, x.__defaults__)) if x.__defaults__ else None
        made.__kwdefaults__ = {k: part(v) for k, v in x.__kwdefaults__.items()} if x.__kwdefaults__ else None
    else:
        known[id(x)] = copied = copy.copy(x)
        if isinstance(x, dict):
            copied.update((key, part(value)) for key, value in x.items())
        else:
            for name, value in vars(x).items():
                object.__setattr__(copied, name, part(value))
