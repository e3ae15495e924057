"""Custom gradients of the frameworks that a program uses: found, counted, and checked at the values they had."""

import contextlib
import importlib.util
import io
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loaded import Loaded

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

@torch.library.custom_op("mine::wrong_cube", mutates_args=())
def wrong_cube(x: torch.Tensor) -> torch.Tensor:
    return x**3

def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])

def cube_backward(ctx, g):
    return 3 * ctx.saved_tensors[0] ** 2 * g

def wrong_backward(ctx, g):
    return 4 * ctx.saved_tensors[0] ** 2 * g

cube.register_autograd(cube_backward, setup_context=save)
wrong_cube.register_autograd(wrong_backward, setup_context=save)
x = torch.arange(4.0, requires_grad=True)
(cube(x) + wrong_cube(x)).sum().backward()
(torch.ops.mine.cube(x) + torch.ops.mine.wrong_cube(x)).sum().backward()
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
    return (3 * x**2 * g,)

cube.defvjp(cube_fwd, cube_bwd)
wrong_cube = jax.custom_vjp(lambda x: x**3)

def wrong_bwd(x, g):
    return (4 * x**2 * g,)

wrong_cube.defvjp(cube_fwd, wrong_bwd)

@jax.custom_jvp
def square(x):
    return x * x

@square.defjvp
def square_jvp(primals, tangents):
    return square(*primals), 2 * primals[0] * tangents[0]

def loss(x):
    return jnp.sum(cube(x)) + jnp.sum(wrong_cube(x)) + jnp.sum(square(x))

x = jnp.arange(1.0, 5.0)
{use}
print("done")
"""
TENSORFLOW = """
import tensorflow as tf

@tf.custom_gradient
def cube(x):
    def grad(upstream):
        return 3.0 * x**2 * upstream
    return x**3, grad

@tf.custom_gradient
def wrong_cube(x):
    def grad(upstream):
        return 4.0 * x**2 * upstream
    return x**3, grad

{decorator}
def loss(x):
    return tf.reduce_sum(cube(x)) + tf.reduce_sum(wrong_cube(x))

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
    return 3 * primals**2 * cotangent

@mx.custom_function
def wrong_cube(x):
    return x**3

@wrong_cube.vjp
def wrong_vjp(primals, cotangent, output):
    return 4 * primals**2 * cotangent

print(mx.grad(lambda x: mx.sum(cube(x)) + mx.sum(wrong_cube(x)))(mx.array([1.0, 2.0])).tolist())
"""


Program = Callable[[str], tuple[dict[str, Any], str]]
FRESH = {  # what is run as a process of its own, which loads the framework: the program, what it prints, and its verdicts
    "torch": (TORCH.format(mistake="pass"), None, {"backward": "pass"}),
    "jax": (
        JAX.format(use="jax.grad(loss)(x)"),
        "done",
        {"cube_bwd": "pass", "wrong_bwd": "fail", "square_jvp": "pass"},
    ),
    "tensorflow": (TENSORFLOW.format(decorator=""), "[7.0, 28.0, 63.0]", {"cube": "pass", "wrong_cube": "fail"}),
    "mlx": (MLX, "[7.0, 28.0]", {"cube_vjp": "pass", "wrong_vjp": "fail"}),
}


@pytest.fixture(name="watch")
def _watch(loaded: Callable[..., Loaded], tmp_path: Path) -> Program:
    """Return what runs a program by gradcli, in a copy of a process that has loaded its framework."""

    def watch(text: str) -> tuple[dict[str, Any], str]:
        framework = text.split()[1]
        if importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
        (tmp_path / "script.py").write_text(text)
        done = loaded(framework).run("run", "--out", "report.json", "script.py", cwd=tmp_path)
        found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
        assert done.exit_status == found["exit_status"]
        return found, done.stdout.strip()

    return watch


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {each["name"].rpartition(".")[2]: each["verdict"] for each in document["gradients"]}


def training(watch: Program, mistake: str, shape: str = "return scale * x**3") -> dict[str, Any]:
    """Return what was found of the one gradient of the training loop."""
    (gradient,) = watch(TORCH.format(mistake=mistake).replace("return scale * x**3", shape))[0]["gradients"]
    return gradient  # type: ignore[no-any-return]


@pytest.mark.parametrize("framework", FRESH)
def test_a_program_that_loads_the_framework_is_watched_and_undisturbed(framework: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    text, printed, expected = FRESH[framework]
    (tmp_path / "script.py").write_text(text)
    if printed is None:
        with contextlib.redirect_stdout(io.StringIO()) as plain:
            runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
        printed = plain.getvalue().strip()
    command = [sys.executable, "-m", "gradcli", "run", "--out", "report.json", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == printed, done.stderr
    found = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == found["exit_status"]
    assert verdicts(found) == expected
    assert not found["gradients"][0]["points"][0]["drawn"]


@pytest.mark.parametrize("wrong", [False, True])
def test_an_autograd_function_in_a_training_loop(wrong: bool, watch: Program) -> None:
    gradient = training(watch, "x = x * 1.01" if wrong else "pass")
    assert [gradient[key] for key in ("name", "of", "calls", "checked")] == ["Cube.backward", "Cube", 10, 3]
    assert gradient["verdict"] == ("fail" if wrong else "pass")


def test_a_backward_pass_that_is_wrong_at_a_later_call(watch: Program) -> None:
    gradient = training(watch, "global calls; calls += 1; x = x * 0 + 1 if 3 < calls <= 10 else x")
    assert gradient["verdict"] == "fail"
    said = [
        f["message"]
        for point in gradient["points"]
        for f in point["check"]["document"]["points"][0]["findings"]
        if f["kind"] == "depends-on-earlier-calls"
    ]
    assert any("returned another gradient than the same values give now" in text for text in said)


def test_a_backward_pass_that_ignores_what_comes_in(watch: Program) -> None:
    assert training(watch, "g = torch.ones_like(x)")["verdict"] == "fail"


def test_a_scalar_whose_backward_pass_ignores_what_comes_in(watch: Program) -> None:
    assert training(watch, "g = torch.ones(())", "return (scale * x**3).sum()")["verdict"] == "fail"


def test_registered_operators(watch: Program) -> None:
    found, printed = watch(OPERATOR)
    assert printed == "[0.0, 14.0, 56.0, 126.0]"
    assert {each["name"]: each["calls"] for each in found["gradients"]} == {"cube_backward": 2, "wrong_backward": 2}
    assert verdicts(found) == {"cube_backward": "pass", "wrong_backward": "fail"}


USES = (
    "step = jax.jit(jax.grad(loss)); step(x); step(2 * x)",
    "jax.vmap(jax.grad(loss))(jnp.stack([x, x + 1]))",
    "jax.jit(jax.vmap(jax.grad(loss)))(jnp.stack([x, x + 1]))",
    "jax.lax.scan(lambda c, _: (c - 0.01 * jax.grad(loss)(c), 0.0), x, None, length=3)",
    "loss(x)",
    "jax.jit(jax.grad(jax.checkpoint(loss)))(x)",
    "jax.lax.while_loop(lambda c: jnp.sum(c) > 9, lambda c: c - 0.1 * jax.grad(loss)(c), x)",
)


@pytest.mark.parametrize("use", USES)
def test_custom_rules_of_jax(use: str, watch: Program) -> None:
    found, printed = watch(JAX.format(use=use))
    assert printed == "done"
    assert verdicts(found) == {"cube_bwd": "pass", "wrong_bwd": "fail", "square_jvp": "pass"}
    assert all(each["checked"] and not each["points"][0]["drawn"] for each in found["gradients"])


def test_custom_gradients_of_tensorflow_in_a_compiled_function(watch: Program) -> None:
    found, printed = watch(TENSORFLOW.format(decorator="@tf.function"))
    assert printed == "[7.0, 28.0, 63.0]"
    assert verdicts(found) == {"cube": "pass", "wrong_cube": "fail"}
    assert found["gradients"][0]["points"][0]["drawn"]


SPARSE = """
import torch


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x):
        ctx.save_for_backward(a)
        return torch.sparse.mm(a, x)

    @staticmethod
    def backward(ctx, g):
        return None, {factor} * torch.sparse.mm(ctx.saved_tensors[0].t(), g)


a = (torch.rand(4, 4, dtype=torch.float64) * (torch.rand(4, 4) > 0.5)).to_sparse{layout}()
Times.apply(a, torch.randn(4, 3, dtype=torch.float64, requires_grad=True)).sum().backward()
"""


@pytest.mark.parametrize("layout", ["", "_csr"])
@pytest.mark.parametrize(("factor", "verdict"), [(1, "pass"), (2, "fail")])
def test_sparse_tensors_are_handed_on_as_they_are(
    layout: str, factor: int, verdict: str, tmp_path: Path, loaded: Loaded
) -> None:
    loaded("torch")
    ops, program = SPARSE.format(factor=factor, layout=layout).split("\n\n\na = ")
    (tmp_path / "ops.py").write_text(ops)
    (tmp_path / "train.py").write_text(f"import torch\nfrom ops import Times\n\na = {program}")
    words = ["run", "--out", "r.json", "--save", "r.npz", "--write-suite", "s.toml", "train.py"]
    subprocess.run([sys.executable, "-m", "gradcli", *words], cwd=tmp_path, capture_output=True, check=False)
    (gradient,) = json.loads((tmp_path / "r.json").read_text())["gradients"]
    assert (gradient["verdict"], gradient["calls"]) == (verdict, 1)
    assert "is a sparse tensor" in (tmp_path / "s.toml").read_text()
