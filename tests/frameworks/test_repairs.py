"""Wrong backward passes are repaired in the function that computes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.repairs

TORCH = """\
import torch


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return {result}


def swish(x):
    return Swish.apply(x).square().sum()
"""
JAX = """\
import jax
import jax.numpy as jnp


@jax.custom_vjp
def swish(x):
    return x * jax.nn.sigmoid(x)


def fwd(x):
    s = jax.nn.sigmoid(x)
    return x * s, (x, s)


def bwd(res, g):
    x, s = res
    return ({result},)


swish.defvjp(fwd, bwd)


def loss(x):
    return jnp.sum(swish(x) ** 2)
"""
TENSORFLOW = """\
import tensorflow as tf


@tf.custom_gradient
def swish(x):
    s = tf.sigmoid(x)

    def grad(g):
        return {result}

    return x * s, grad


def loss(x):
    return tf.reduce_sum(swish(x))
"""
MLX = """\
import mlx.core as mx


@mx.custom_function
def swish(x):
    return x * mx.sigmoid(x)


@swish.vjp
def swish_vjp(x, g, y):
    s = mx.sigmoid(x)
    return {result}


def loss(x):
    return mx.sum(mx.square(swish(x)))
"""

SLIPS = ("g * (s + x * s)", "g * (s - x * s * (1 - s))")
OUT_OF_REACH = ("tensorflow", SLIPS[0])  # the verdict by values took few calls, and so may the search
SLOW = ("jax", SLIPS[0])  # which torch and MLX have
LAYERS = {
    "torch": (TORCH, "swish"),
    "jax": (JAX, "loss"),
    "tensorflow": (TENSORFLOW, "loss"),
    "mlx.core": (MLX, "loss"),
}
CASES = [
    *((framework, wrong) for framework in LAYERS for wrong in SLIPS if (framework, wrong) not in (OUT_OF_REACH, SLOW)),
    *((framework, "s + x * s * (1 - s)") for framework in ("torch", "mlx.core")),
    ("mlx.core", "g * (s + y * s)"),  # an edit of the value y would make it right, and is none of the gradient
]


@pytest.mark.parametrize(("framework", "wrong"), CASES)
def test_a_wrong_backward_is_repaired_where_it_is_written(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str, wrong: str
) -> None:
    pytest.importorskip(framework)
    source, name = LAYERS[framework]
    source = source.replace("{result}", wrong)
    monkeypatch.chdir(tmp_path)
    Path("layers.py").write_text(source)
    ran = gradcli("check", f"layers.py:{name}", "--at", "x=[0.3, -1.2, 2.0]", "--json")
    found = next((p["diagnosis"] for p in ran.json.get("points", []) if p["diagnosis"]), ran.json)
    assert ran.exit_status == 1 and found.get("patch"), found
    (edit,) = found["edits"]
    assert "g" in edit["after"] and edit["before"] == source.splitlines()[edit["line"] - 1].strip()


COMPILED = """\
import jax
import jax.numpy as jnp


def soft(z):
    return jnp.log1p(jnp.exp(z)), 1 / (1 + jnp.exp(z))


@jax.jit
def f(x):
    v, p = soft(x)
    return jnp.sum(v * v) + jnp.sum(p)


def g(x):
    v, p = soft(x)
    return 2 * v * p - p * (1 - p)
"""


def test_what_a_compiled_function_calls_is_never_edited(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    Path("compiled.py").write_text(COMPILED)
    ran = gradcli("check", "compiled.py:f", "--grad", "g", "--at", "x=[0.3, -1.2]", "--json")
    found = next(p["diagnosis"] for p in ran.json["points"] if p["diagnosis"])
    assert found["edits"][0]["after"] == "return 2 * v * (1 - p) - p * (1 - p)"
