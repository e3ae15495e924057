"""How a TensorFlow function is given a backward pass of its own, and where people have it."""

import functools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tests.frameworks.corpus.case import Case, Function


def with_gradient(f: Function, bwd: Function) -> Function:
    """Return a function with a backward pass of its own: from the output's cotangent, the output and the inputs."""

    @tf.custom_gradient
    @functools.wraps(f)
    def ruled(*xs: Any) -> Any:
        y = f(*xs)
        return y, lambda ybar: bwd(ybar, y, *xs)

    return ruled  # type: ignore[no-any-return]


def case(name: str, f: Function, bwd: Function, wrong: Mapping[str, Function], **inputs: Any) -> Case:
    """Return a case whose versions differ in their backward pass alone."""
    versions = {says: with_gradient(f, rule) for says, rule in wrong.items()}
    return Case(name, with_gradient(f, bwd), versions, inputs)


def program(custom: Function) -> Function:
    """Return a loss that has a custom function inside."""

    @functools.wraps(custom)
    def loss(*args: Any) -> Any:
        y = custom(*args)
        smooth = [tf.reduce_sum(tf.sigmoid(x)) for x in args if x.dtype.is_floating]
        return tf.reduce_sum(tf.sin(y) + 0.3 * y) + 0.1 * tf.add_n(smooth)

    loss.__name__ = "loss"
    return loss
