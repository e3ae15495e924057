"""What one run of a function shows: its calls of custom gradients, the formats of its values, its stopped gradients."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from tensorflow.python.ops import custom_gradient

from gradcli.core.provenance import is_users, place_of, position
from gradcli.frameworks.framework import EPS, Call, Flat, Inside
from gradcli.source.structure import taken_apart

_MOST = 64  # calls that are collected at most
_EAGERLY = "_eager_mode_decorator"  # of tf.custom_gradient


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[Call]:
    """Return one call of each custom function, for each set of argument shapes that a run contains.

    A `tf.function` runs as plain Python here, so that calls inside it get actual values.
    """
    found: dict[Any, Call] = {}
    own = getattr(custom_gradient, _EAGERLY)

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

    setattr(custom_gradient, _EAGERLY, seen)
    try:
        with eagerly():
            f(xs)
    finally:
        setattr(custom_gradient, _EAGERLY, own)
    return list(found.values())


def inside(run: Callable[[], Any], xs: Sequence[Any]) -> Inside:
    """Return the narrowest format among the values that a run computes from the tensors `xs`, and its stopped gradients."""
    moving = {id(x): x for x in xs}  # kept, so that no id is used again
    formats, stops = ["float64"], list[Any]()

    def note_formats(
        kind: Any, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if moving.keys().isdisjoint(map(id, inputs)):
            return
        moving.update((id(y), y) for y in outputs)
        formats.extend(y.dtype.name for y in outputs if y.dtype.name in EPS)
        if kind == "StopGradient":
            stops.append(position())

    op_callbacks.add_op_callback(note_formats)
    try:
        with eagerly():
            run()
    finally:
        op_callbacks.remove_op_callback(note_formats)
    return Inside(max(formats, key=lambda name: EPS[name]), tuple(stops))


def applied(function: Any) -> Callable[..., Any]:
    """Return a function with a custom gradient as a plain callable, with its signature."""
    call: Callable[..., Any] = tf.custom_gradient(function)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    apply.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    apply.__name__ = _name(function)
    return apply


@contextmanager
def eagerly() -> Iterator[None]:
    """Run each `tf.function` as plain Python in the block."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


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
