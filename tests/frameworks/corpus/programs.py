"""A custom backward pass where people have it: in the middle of a program."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def jax_program(custom: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss that has a custom function inside."""

    @functools.wraps(custom)
    def loss(*args: Any) -> Any:
        y = custom(*args)
        return jnp.sum(jnp.sin(y) + 0.3 * y) + 0.1 * sum(
            jnp.sum(jax.nn.sigmoid(x)) for x in args if x.dtype.kind == "f"
        )

    loss.__name__ = "loss"
    return loss
