"""The calls of functions with custom gradients (`tf.custom_gradient`) during one run, with their actual arguments."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import custom_gradient

from gradcli.core.provenance import is_users, place_of, position
from gradcli.frameworks.framework import Call, Flat
from gradcli.source.structure import taken_apart

_MOST = 64  # calls that are collected at most
_EAGERLY, _IN_A_GRAPH = "_eager_mode_decorator", "_graph_mode_decorator"
Decorator = Callable[[Any, Any, Any], Any]


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[Call]:
    """Return one call of each custom function, for each set of argument shapes that a run contains.

    A `tf.function` runs as plain Python here, so that calls inside it get actual values.
    """
    found: dict[Any, Call] = {}
    own: Decorator = getattr(custom_gradient, _EAGERLY)

    def seen(function: Any, args: Any, kwargs: Any) -> Any:
        plain = inspect.unwrap(function)
        code = getattr(plain, "__code__", None)
        leaves = taken_apart("", (args, kwargs))[1].values()
        key = (code, tuple(_key(x) for x in leaves))
        if code is not None and is_users(code.co_filename) and key not in found and len(found) < _MOST:
            found[key] = Call(
                _name(plain), applied(function), tuple(args), dict(kwargs), position(), place_of(_rule(plain))
            )
        return own(function, args, kwargs)

    with _instead(_EAGERLY, seen), eagerly():
        f(xs)
    return list(found.values())


def applied(function: Any) -> Callable[..., Any]:
    """Return a function with a custom gradient as a plain callable, with its signature."""
    call: Callable[..., Any] = tf.custom_gradient(function)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    apply.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    apply.__name__ = _name(function)
    return apply


@contextmanager
def without_rules() -> Iterator[None]:
    """Ignore custom gradients in the block, so that a graph contains only what the functions compute."""
    with _instead(_IN_A_GRAPH, lambda function, args, kwargs: function(*args, **kwargs)[0]):
        yield


@contextmanager
def eagerly() -> Iterator[None]:
    """Run each `tf.function` as plain Python in the block."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextmanager
def _instead(name: str, decorator: Decorator) -> Iterator[None]:
    own = getattr(custom_gradient, name)
    setattr(custom_gradient, name, decorator)
    try:
        yield
    finally:
        setattr(custom_gradient, name, own)


def _rule(function: Any) -> Any:
    """Return the gradient that a function defines inside itself, in a form whose source can be found; else the function."""
    code = function.__code__
    inner = [c for c in code.co_consts if inspect.iscode(c)]
    named = [c for c in inner if not c.co_name.startswith("<")] or inner
    return _Coded(named[-1]) if named else function


class _Coded:
    """A stand-in for a function that has only its code, from which the source line is read."""

    def __init__(self, code: Any) -> None:
        self.__code__ = code


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "function"))


def _key(x: Any) -> Any:
    return (tuple(x.shape), x.dtype) if isinstance(x, tf.Tensor | tf.Variable) else repr(x)[:80]
