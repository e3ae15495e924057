"""Narrow formats in every framework: a right gradient passes by the format's own bounds, a wrong one fails."""

import importlib.util
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.lowering.quiet import quiet_imports

FORMATS = ("float32", "float16", "bfloat16")
POINT = {"x": np.array([0.25, -0.3125, 1.75])}


def functions(framework: str) -> tuple[Any, Any]:
    """Return a function, and one whose gradient is cut in half."""
    with quiet_imports():
        if framework == "torch":
            import torch

            return lambda x: torch.sum(torch.sin(x)), lambda x: torch.sum((torch.sin(x) + torch.sin(x).detach()) / 2)
        if framework == "jax":
            import jax
            import jax.numpy as jnp

            return lambda x: jnp.sum(jnp.sin(x)), lambda x: jnp.sum(
                (jnp.sin(x) + jax.lax.stop_gradient(jnp.sin(x))) / 2
            )
        if framework == "tensorflow":
            import tensorflow as tf

            return (
                lambda x: tf.reduce_sum(tf.sin(x)),
                lambda x: tf.reduce_sum((tf.sin(x) + tf.stop_gradient(tf.sin(x))) / 2),
            )
        import mlx.core as mx

        return lambda x: mx.sum(mx.sin(x)), lambda x: mx.sum((mx.sin(x) + mx.stop_gradient(mx.sin(x))) / 2)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow", "mlx"])
def test_a_narrow_format_is_judged_by_its_own_bounds(framework: str, dtype: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    right, wrong = functions(framework)
    report = gradcli.check(right, POINT, framework=framework, dtype=dtype)
    assert (report.verdict, report.native.dtype) == ("pass", dtype), str(report)
    assert 1e-8 < report.detects.relative < 0.5  # what the wrong one is off by
    assert report.native.exactness.share < 1
    assert report.points[0].modes["certified"].status == "ok"
    assert gradcli.check(wrong, POINT, framework=framework, dtype=dtype).verdict == "fail"
