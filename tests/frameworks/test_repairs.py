"""Wrong backward passes of torch and JAX are repaired in the function that computes them."""

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
    return Swish.apply(x).sum()
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
    return jnp.sum(swish(x))
"""
RIGHT = "g * (s + x * s * (1 - s))"


@pytest.mark.parametrize(
    ("framework", "source", "name"), [("torch", TORCH, "swish"), ("jax", JAX, "loss")], ids=["torch", "jax"]
)
@pytest.mark.parametrize("wrong", ["g * (s + x * s)", "g * (s - x * s * (1 - s))", "s + x * s * (1 - s)"])
def test_a_wrong_backward_is_repaired_where_it_is_written(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str, source: str, name: str,
    wrong: str,
) -> None:  # fmt: skip
    pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    Path("layers.py").write_text(source.replace("{result}", wrong).replace(").sum()", ").square().sum()"))
    if framework == "jax":
        Path("layers.py").write_text(
            source.replace("{result}", wrong).replace("jnp.sum(swish(x))", "jnp.sum(swish(x)**2)")
        )
    ran = gradcli("check", f"layers.py:{name}", "--at", "x=[0.3, -1.2, 2.0]", "--json")
    found = next(p["diagnosis"] for p in ran.json["points"] if p["diagnosis"])
    assert ran.exit_status == 1 and found["patch"], found
    (edit,) = found["edits"]
    assert (
        "g" in edit["after"]
        and edit["before"] == source.replace("{result}", wrong).splitlines()[edit["line"] - 1].strip()
    )
