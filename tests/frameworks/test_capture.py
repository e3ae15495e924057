"""Custom gradients of the frameworks that a program uses: found, counted, and checked at the values they had."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TORCH = """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        {mistake}
        return 3 * ctx.scale * x**2 * g, None

torch.manual_seed(0)
layer = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.001)
calls = 0
for step in range(10):
    loss = Cube.apply(layer(torch.randn(5, 4)), 0.1).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{{loss.item():.6f}}")
"""
OPERATOR = """
import torch

@torch.library.custom_op("mine::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3

def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])

def cube_backward(ctx, g):
    return {factor} * ctx.saved_tensors[0] ** 2 * g

cube.register_autograd(cube_backward, setup_context=save)
x = torch.arange(4.0, requires_grad=True)
cube(x).sum().backward()
torch.ops.mine.cube(x).sum().backward()
print(x.grad.tolist())
"""
JAX = """
import jax
import jax.numpy as jnp

@jax.custom_vjp
def cube(x):
    return x**3

def cube_fwd(x):
    return x**3, x

def cube_bwd(x, g):
    return ({factor} * x**2 * g,)

cube.defvjp(cube_fwd, cube_bwd)

@jax.custom_jvp
def square(x):
    return x * x

@square.defjvp
def square_jvp(primals, tangents):
    return square(*primals), 2 * primals[0] * tangents[0]

def loss(x):
    return jnp.sum(cube(x)) + jnp.sum(square(x))

x = jnp.arange(1.0, 5.0)
{use}
print("done")
"""
TENSORFLOW = """
import tensorflow as tf

@tf.custom_gradient
def cube(x):
    def grad(upstream):
        return {factor} * x**2 * upstream
    return x**3, grad

{decorator}
def loss(x):
    return tf.reduce_sum(cube(x))

x = tf.constant([1.0, 2.0, 3.0])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = loss(x)
print(tape.gradient(y, x).numpy().tolist())
"""
MLX = """
import mlx.core as mx

@mx.custom_function
def cube(x):
    return x**3

@cube.vjp
def cube_vjp(primals, cotangent, output):
    return {factor} * primals**2 * cotangent

print(mx.grad(lambda x: mx.sum(cube(x)))(mx.array([1.0, 2.0])).tolist())
"""


def report(folder: Path, text: str) -> dict[str, Any]:
    """Run a program plainly and by gradcli, assert that it is undisturbed, and return the report."""
    name = next(name for name in ("torch", "jax", "tensorflow", "mlx") if f"import {name}" in text)
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    (folder / "script.py").write_text(text)
    plain = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True)
    command = [sys.executable, "-m", "gradcli", "run", "--out", "report.json", "script.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    assert done.stdout == plain.stdout
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert done.returncode == found["exit_status"]
    return found


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {each["name"].rpartition(".")[2]: each["verdict"] for each in document["gradients"]}


@pytest.mark.parametrize("wrong", [False, True])
def test_an_autograd_function_in_a_training_loop(wrong: bool, tmp_path: Path) -> None:
    found = report(tmp_path, TORCH.format(mistake="x = x * 1.01" if wrong else "pass"))
    (gradient,) = found["gradients"]
    assert (gradient["name"], gradient["of"], gradient["calls"], gradient["checked"]) == (
        "Cube.backward",
        "Cube",
        10,
        3,
    )
    assert gradient["verdict"] == ("fail" if wrong else "pass")


def test_a_backward_pass_that_is_wrong_at_a_later_call(tmp_path: Path) -> None:
    stale = "global calls; calls += 1; x = x * 0 + 1 if 3 < calls <= 10 else x"
    found = report(tmp_path, TORCH.format(mistake=stale).replace("range(10)", "range(10)"))
    (gradient,) = found["gradients"]
    assert gradient["verdict"] == "fail"
    said = [
        f["message"]
        for point in gradient["points"]
        for f in point["check"]["document"]["points"][0]["findings"]
        if f["kind"] == "depends-on-earlier-calls"
    ]
    assert any("returned another gradient than the same values give now" in text for text in said)


def test_a_backward_pass_that_ignores_what_comes_in(tmp_path: Path) -> None:
    text = TORCH.format(mistake="g = torch.ones_like(x)")
    assert report(tmp_path, text)["gradients"][0]["verdict"] == "fail"


def test_a_scalar_whose_backward_pass_ignores_what_comes_in(tmp_path: Path) -> None:
    text = TORCH.format(mistake="g = torch.ones(())").replace("return scale * x**3", "return (scale * x**3).sum()")
    assert report(tmp_path, text)["gradients"][0]["verdict"] == "fail"


@pytest.mark.parametrize("factor", [3, 4])
def test_a_registered_operator(factor: int, tmp_path: Path) -> None:
    (gradient,) = report(tmp_path, OPERATOR.format(factor=factor))["gradients"]
    assert (gradient["name"], gradient["calls"]) == ("cube_backward", 2)
    assert gradient["verdict"] == ("pass" if factor == 3 else "fail")


USES = {
    "eager": "jax.grad(loss)(x)",
    "jit": "step = jax.jit(jax.grad(loss)); step(x); step(2 * x)",
    "vmap": "jax.vmap(jax.grad(loss))(jnp.stack([x, x + 1]))",
    "jit of vmap": "jax.jit(jax.vmap(jax.grad(loss)))(jnp.stack([x, x + 1]))",
    "scan": "jax.lax.scan(lambda c, _: (c - 0.01 * jax.grad(loss)(c), 0.0), x, None, length=3)",
    "value alone": "loss(x)",
    "checkpoint": "jax.jit(jax.grad(jax.checkpoint(loss)))(x)",
    "while": "jax.lax.while_loop(lambda c: jnp.sum(c) > 9, lambda c: c - 0.1 * jax.grad(loss)(c), x)",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("factor", [3, 4])
def test_custom_rules_of_jax(use: str, factor: int, tmp_path: Path) -> None:
    found = report(tmp_path, JAX.format(factor=factor, use=USES[use]))
    assert verdicts(found) == {"cube_bwd": "pass" if factor == 3 else "fail", "square_jvp": "pass"}
    assert all(each["checked"] and not each["points"][0]["drawn"] for each in found["gradients"])


@pytest.mark.parametrize("decorator", ["", "@tf.function"])
@pytest.mark.parametrize("factor", [3, 4])
def test_a_custom_gradient_of_tensorflow(decorator: str, factor: int, tmp_path: Path) -> None:
    found = report(tmp_path, TENSORFLOW.format(factor=float(factor), decorator=decorator))
    assert verdicts(found) == {"cube": "pass" if factor == 3 else "fail"}
    assert found["gradients"][0]["points"][0]["drawn"] == bool(decorator)


@pytest.mark.parametrize("factor", [3, 4])
def test_a_custom_function_of_mlx(factor: int, tmp_path: Path) -> None:
    assert verdicts(report(tmp_path, MLX.format(factor=factor))) == {"cube_vjp": "pass" if factor == 3 else "fail"}
