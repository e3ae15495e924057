"""Narrow formats in every framework: a right gradient passes by the format's own bounds, a wrong one fails."""

import importlib.util
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.arithmetic.devices import quiet_imports

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
    if framework in ("torch", "jax"):  # the others are compared by their values
        assert report.native.exactness.share < 1
        assert report.points[0].modes["certified"].status == "ok"
    assert gradcli.check(wrong, POINT, framework=framework, dtype=dtype).verdict == "fail"


KERNEL = """\
import math
import torch

C = math.sqrt(2.0 / math.pi)


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        z = x.float() + bias.float()
        return (0.5 * z * (1 + torch.tanh(C * (z + 0.044715 * z**3)))).to(x.dtype)

    @staticmethod
    def backward(ctx, ybar):
        x, bias = ctx.saved_tensors
        z = x.float() + bias.float()
        t = torch.tanh(C * (z + 0.044715 * z**3))
        d = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * C * (1 + 3 * 0.044715 * z**2){slip}
        zbar = ybar.float() * d
        return zbar.to(x.dtype), zbar.sum(0).to(bias.dtype)


def f(x, bias):
    return Gelu.apply(x, bias)
"""


@pytest.mark.parametrize("more", [(), ("--dtype", "float32")])
@pytest.mark.parametrize(("slip", "status"), [("", 0), (" + 3e-6", 1)])
def test_constants_that_are_rounded_to_float32_are_no_mistake(
    gradcli: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], slip: str, status: int
) -> None:
    """The slope of GELU nearly vanishes at its minimum, where the error of rounded constants is the same at nearby points."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL.format(slip=slip))
    for seed in ("0", "1"):
        ran = gradcli("check", "kernel.py:f", "--at", "x=randn(8, 32), bias=randn(32)", "--seed", seed, *more)
        assert ran.exit_status == status, ran.stdout
