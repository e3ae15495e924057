"""Record the calls of functions with `tf.custom_gradient`, eagerly and while a graph is traced."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient

from gradcli.project.capture.recorder import GradientPair, Recorder, find_caller

_DECORATORS = ("_eager_mode_decorator", "_graph_mode_decorator")


def replacements(recorder: Recorder) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in TensorFlow."""
    for name in _DECORATORS:
        yield custom_gradient, name, _recording_call(recorder, getattr(custom_gradient, name))


def _recording_call(recorder: Recorder, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a function with a gradient of its own: the same call, which is recorded."""

    def call(function: Any, args: Any, kwargs: Any) -> Any:
        users = inspect.unwrap(function)
        recorded = recorder.recorded(users, "backward", None) if recorder.is_on else None
        if recorded is not None:
            leaves = [*args, *kwargs.values()]
            own, options = tf.custom_gradient(function), {"framework": "tensorflow"}
            pair = GradientPair("backward", own, users, "framework", own=len(args), options=options)

            def given() -> Any:
                return tuple(map(_as_array, args)), {name: _as_array(x) for name, x in kwargs.items()}

            drawn = any(isinstance(x, tf.Tensor) and not hasattr(x, "numpy") for x in leaves)
            shapes = tuple(map(_shape_and_format, leaves))
            recorded.keep_call(pair, shapes, given, at=find_caller("tensorflow"), drawn=drawn)
        return plain(function, args, kwargs)

    return call


def _as_array(x: Any) -> Any:
    """Return a tensor as an array; values are drawn for a tensor of a graph, which has none yet."""
    if isinstance(x, tf.Variable):
        with tf.init_scope():  # outside of a graph that is being traced
            return np.array(x.numpy())
    if not isinstance(x, tf.Tensor):
        return x
    if hasattr(x, "numpy"):
        return np.array(x.numpy())
    shape = [n or 2 for n in (x.shape.as_list() if x.shape.rank is not None else [2])]
    drawn = np.random.default_rng(0).normal(size=shape) if x.dtype.is_floating else np.zeros(shape)
    return drawn.astype(x.dtype.as_numpy_dtype)


def _shape_and_format(x: Any) -> Any:
    return (str(x.shape), str(x.dtype)) if isinstance(x, tf.Tensor | tf.Variable) else type(x).__name__
