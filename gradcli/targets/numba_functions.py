"""Functions that numba compiles: their Python code runs on traced arguments, and they are compiled without stand-ins."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.targets.numpy_replacements import SWEEPS, traced

Originals = Callable[[], AbstractContextManager[None]]


def _call(original: Callable[..., Any], _: Originals) -> Callable[..., Any]:
    """Return what calls a function of `@njit`."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (self.py_func if _are_traced(args, kwargs) else functools.partial(original, self))(*args, **kwargs)

    return call


def _call_each(original: Callable[..., Any], _: Originals) -> Callable[..., Any]:
    """Return what calls a function of `@vectorize`, which is defined for one entry."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _are_traced(args, kwargs):
            return original(self, *args, **kwargs)
        if kwargs:
            raise TraceEnded("a function of numba.vectorize with keywords cannot be traced", do="write y = f(x)")
        shape = np.broadcast_shapes(*map(np.shape, args))
        arrays = [np.broadcast_to(x, shape) for x in args]
        entries = [self.__wrapped__(*(x[at] for x in arrays)) for at in np.ndindex(*shape)]
        return np.reshape(np.stack(entries), shape)

    return call


def _compile(original: Callable[..., Any], originals: Originals) -> Callable[..., Any]:
    """Return what compiles a function for types of arguments: numba knows numpy's functions by identity."""

    @functools.wraps(original)
    def compile_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        with originals():
            return original(self, *args, **kwargs)

    return compile_function


def _are_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return SWEEPS.hold is not None and (traced(args) or traced(list(kwargs.values())))


_METHODS = (
    ("numba.core.dispatcher", "Dispatcher", "__call__", _call),
    ("numba.core.dispatcher", "Dispatcher", "compile", _compile),
    ("numba.np.ufunc.dufunc", "DUFunc", "__call__", _call_each),
    ("numba.np.ufunc.ufuncbuilder", "UFuncDispatcher", "compile", _compile),
)


def imported() -> list[str]:
    """Return the modules of numba that have stand-ins and are imported; none is imported for them."""
    return [name for name in dict.fromkeys(row[0] for row in _METHODS) if name in sys.modules]


def methods(originals: Originals) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield a class of numba, the name of a method, and its stand-in; within `originals()` no stand-in is in place."""
    for module, kind, name, stand_in in _METHODS:
        owner = getattr(sys.modules.get(module), kind, None)
        if owner is not None and hasattr(owner, name):
            yield owner, name, stand_in(getattr(owner, name), originals)


def call_python_code() -> None:
    """From now on, let every function of `@njit` run its Python code: for a process that edits the code of functions."""
    owner = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
    if owner is not None:
        owner.__call__ = lambda self, *args, **kwargs: self.py_func(*args, **kwargs)
