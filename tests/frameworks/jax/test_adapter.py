"""Functions written in JAX, their own gradients checked as the command line does it."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli

pytest.importorskip("jax", reason="JAX is not installed")

HEAD = """
    from functools import partial

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
"""

RULES = """
    def product(x, w):
        return jnp.sin(x) * w

    def fwd(x, w):
        return product(x, w), (x, w)

    def bwd(saved, ybar):
        x, w = saved
        return ybar * jnp.cos(x) * w, ybar * jnp.sin(x)

    def bwd_wrong(saved, ybar):
        x, w = saved
        return ybar * jnp.cos(x), ybar * jnp.sin(x)

    right, wrong = jax.custom_vjp(product), jax.custom_vjp(product)
    right.defvjp(fwd, bwd)
    wrong.defvjp(fwd, bwd_wrong)

    def fwd_off(x, w):
        return product(x, w) + 0.01, (x, w)

    off = jax.custom_vjp(product)
    off.defvjp(fwd_off, bwd)

    def scale(x, c):
        return x * x * c

    scaled = jax.custom_vjp(scale)

    def bwd_wrong_by_one(saved, ybar):
        return 2 * ybar * saved[0] * saved[1], None

    scaled.defvjp(lambda x, c: (scale(x, c), (x, c)), bwd_wrong_by_one)
"""

RIGHT = {
    "a function": ("def f(x, w):\n    return jnp.sum(jnp.tanh(x @ w))", "x=randn(3,4), w=randn(4)"),
    "several results": ("def f(x):\n    return {'s': jnp.sin(x), 'k': jnp.argmax(x)}", "x=randn(3)"),
    "jit": ("@jax.jit\ndef f(x):\n    return jnp.sum(lax.cumsum(x) ** 2)", "x=randn(3)"),
    "custom_vjp": ("f = right", "x=randn(3), w=randn(3)"),
    "custom_vjp of a number": ("def f(x):\n    return jnp.sum(jnp.sin(scaled(x, 0.3)))", "x=randn(3)"),
    "custom_vjp of a mask": ("M = jnp.array([1.0, 0.0, 2.0])\ndef f(x):\n    return jnp.sum(jnp.sin(scaled(x, M)))", "x=randn(3)"),
    "custom_vjp inside": ("def f(x, w):\n    return jnp.sum(right(x, w) ** 2)", "x=randn(3), w=randn(3)"),
    "scan": ("@jax.jit\ndef f(x, w):\n    return lax.scan(lambda c, a: (right(c, a), a), w, x)[0]", "x=randn(2,3), w=randn(3)"),
    "a branch": ("def f(x):\n    return jnp.sum(x**2) if x[0] > 0 else -jnp.sum(x)", "x=randn(3)"),
    "a loop": ("def f(x):\n    while jnp.sum(x * x) < 30:\n        x = 2 * x\n    return jnp.sum(x)", "x=randn(3)"),
    "random": ("def f(x):\n    return jnp.sum(x * jax.random.normal(jax.random.key(0), x.shape))", "x=randn(3)"),
    "random in a scan": (
        "def step(c, k):\n    return c * jax.random.uniform(k, c.shape), None\n"
        "def f(x):\n    return lax.scan(step, x, jax.random.split(jax.random.key(1), 2))[0]",
        "x=randn(3)",
    ),
    "vmap inside": ("def f(x, w):\n    return jnp.sum(jax.vmap(right)(x, w))", "x=randn(3), w=randn(3)"),
    "checkpoint": ("def f(x, w):\n    return jnp.sum(jax.checkpoint(right)(x, w))", "x=randn(3), w=randn(3)"),
    "a gradient inside": ("def f(x):\n    return jnp.sum(jax.grad(lambda t: jnp.sum(t**3))(x) * x)", "x=randn(3)"),
    "solve": ("def f(a):\n    return jnp.sum(jnp.linalg.solve(a @ a.T + jnp.eye(3), a))", "a=randn(3,3)"),
    "nondiff_argnums": (
        "@partial(jax.custom_vjp, nondiff_argnums=(1,))\ndef power(x, n):\n    return x**n\n"
        "power.defvjp(lambda x, n: (x**n, x), lambda n, x, ybar: (ybar * n * x ** (n - 1),))\n"
        "def f(x):\n    return jnp.sum(power(x, 3))",
        "x=randn(3)",
    ),
    "custom_jvp": (
        "@jax.custom_jvp\ndef f(x):\n    return jnp.exp(x)\nf.defjvp(lambda xs, xdots: (f(*xs), f(*xs) * xdots[0]))", "x=randn(3)",
    ),
}  # fmt: skip

#        what: source, point, the function whose own gradient is wrong
WRONG: dict[str, tuple[str, str, str | None]] = {
    "a derivative that is missing": ("def f(x):\n    return jnp.sum(scaled(x, 2 * x))", "x=randn(3)", "scale"),
    "custom_vjp": ("f = wrong", "x=randn(3), w=randn(3)", None),
    "inside": ("def f(x, w):\n    return jnp.sum(wrong(right(x, w), w) ** 2)", "x=randn(3), w=randn(3)", "product"),
    "in jit": ("@jax.jit\ndef f(x, w):\n    return jnp.sum(wrong(x, w) ** 2)", "x=randn(3), w=randn(3)", "product"),
    "in scan": (
        "@jax.jit\ndef f(x, w):\n    return lax.scan(lambda c, a: (wrong(c, a), a), w, x)[0]", "x=randn(2,3), w=randn(3)", "product",
    ),
    "in cond": ("def f(x, w):\n    return lax.cond(x[0] > 9, jnp.add, wrong, x, w)", "x=randn(3), w=randn(3)", "product"),
    "in vmap": ("def f(x, w):\n    return jnp.sum(jax.vmap(wrong)(x, w) ** 2)", "x=randn(3), w=randn(3)", "product"),
    "in checkpoint": ("def f(x, w):\n    return jnp.sum(jax.checkpoint(wrong)(x, w) ** 2)", "x=randn(3), w=randn(3)", "product"),
    "value of fwd": ("f = off", "x=randn(3), w=randn(3)", None),
    "stopped": ("def f(x):\n    return jnp.sum(x * lax.stop_gradient(x))", "x=randn(3)", None),
    "a masked nan": ("def f(x):\n    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))", "x=randn(3)", None),
}  # fmt: skip

#        what: source, point, exit status, sentence
SAID = {
    "integers": ("def f(n):\n    return jnp.sum(n)", "n=int(3)", 2, "returns a tensor of int64, which has no gradient"),
    "no tensor": ("def f(x):\n    return None", "x=randn(3)", 2, "returns None"),
    "numpy": ("def f(x):\n    return jnp.sum(jnp.asarray(np.sin(x)))", "x=randn(3)", 2, "use jax.numpy"),
    "float()": ("def f(x):\n    return jnp.sum(x) * float(x[0])", "x=randn(3)", 2, "Python needs a number, but JAX has only a traced value"),
    "a branch in jit": ("@jax.jit\ndef f(x):\n    return x[0] if x[0] > 0 else x[1]", "x=randn(3)", 2, "TracerBoolConversionError"),
    "no rule": ("f = jax.custom_vjp(product)", "x=randn(3), w=randn(3)", 2, "No VJP defined"),
    "a gradient too few": (
        "f = jax.custom_vjp(product)\nf.defvjp(fwd, lambda saved, ybar: (ybar,))", "x=randn(3), w=randn(3)", 1, "gradients of the wrong number",
    ),
    "a gradient's shape": (
        "f = jax.custom_vjp(product)\nf.defvjp(fwd, lambda saved, ybar: (jnp.sum(ybar), ybar))",
        "x=randn(3), w=randn(3)", 1, "gradients of the wrong number or shape",
    ),
    "fwd's result": ("f = jax.custom_vjp(product)\nf.defvjp(product, bwd)", "x=randn(3), w=randn(3)", 1, "the rule returns the wrong values"),
    "an error in bwd": (
        "f = jax.custom_vjp(product)\nf.defvjp(fwd, lambda saved, ybar: ybar.nothing)", "x=randn(3), w=randn(3)", 2, "no attribute 'nothing'",
    ),
    "a number without a gradient": (
        "f = jax.custom_vjp(product, nondiff_argnums=(1,))\nf.defvjp(lambda x, w: (product(x, w), x), lambda w, x, ybar: (w * jnp.cos(x) * ybar,))",
        "x=randn(3), w=2.0", 2, "--wrt x",
    ),
    "value of fwd": (
        "def f(x, w):\n    return jnp.sum(off(x, w))", "x=randn(3), w=randn(3)", 1,
        "product alone is wrong: its rule returns another value than the function",
    ),
    "value of fwd, where the whole is wrong": (
        "def f(x, w):\n    return jnp.sum(off(x, w) ** 2)", "x=randn(3), w=randn(3)", 1,
        "product alone is wrong: its rule returns another value than the function",
    ),
    "a stopped gradient, beside one that JAX stops": (
        "def f(x):\n    return jnp.sum(x * lax.stop_gradient(jax.nn.softmax(x)))", "x=randn(3)", 1,
        "Likely mistake: `lax.stop_gradient(jax.nn.softmax(x))` is held constant: no gradient passes through it",
    ),
    "a device": ("def f(x):\n    return jnp.sum(x)", "x=randn(3)", 2, "there is no device 'cuda:9'"),
}  # fmt: skip


@pytest.fixture(name="written")
def _written(tmp_path: Path) -> Any:
    def written(source: str) -> str:
        file = tmp_path / f"model{len(list(tmp_path.iterdir()))}.py"
        file.write_text(textwrap.dedent(HEAD) + textwrap.dedent(RULES) + "\n\n" + source + "\n")
        return f"{file}:f"

    return written


@pytest.mark.parametrize("what", RIGHT)
def test_right(what: str, gradcli: Any, written: Any) -> None:
    source, point = RIGHT[what]
    ran = gradcli("check", written(source), "--at", point, "--format", "json")
    assert ran.exit_status == 0, ran.stdout + ran.stderr
    assert ran.json["verdict"] == "pass"
    assert ran.json["native"]["dtype"] == "float64"
    assert ran.json["points"][0]["modes"]["certified"]["status"] == "ok", "the program was not replayed"
    assert all(part["verdict"] == "pass" for part in ran.json["native"].get("parts", []))


def test_complex_numbers(gradcli: Any, written: Any) -> None:
    square = "@jax.custom_vjp\ndef square(z):\n    return z * z\ndef f(z):\n    return square(z) * jnp.exp(1j * z)\n"
    rule = "square.defvjp(lambda z: (z * z, z), lambda z, ybar: ({},))"
    point = "z=complex(randn(3), [1, 2, 3])"
    right = gradcli("check", written(square + rule.format("2 * z * ybar")), "--at", point)
    assert right.exit_status == 0, right.stdout + right.stderr
    conjugated = gradcli("check", written(square + rule.format("2 * z.conj() * ybar")), "--at", point)
    assert (conjugated.exit_status, "z.imag" in conjugated.stdout) == (1, True), conjugated.stdout + conjugated.stderr


@pytest.mark.parametrize("what", WRONG)
def test_wrong(what: str, gradcli: Any, written: Any) -> None:
    source, point, named = WRONG[what]
    ran = gradcli("check", written(source), "--at", point, "--format", "json")
    assert ran.exit_status == 1, ran.stdout + ran.stderr
    parts = {part["name"]: part for part in ran.json["native"].get("parts", [])}
    wrong = [name for name, part in parts.items() if part["verdict"] == "fail"]
    assert wrong == ([named] if named else [])
    if named:
        assert parts[named]["source"].startswith("def bwd_wrong")


@pytest.mark.parametrize("what", SAID)
def test_said(what: str, gradcli: Any, written: Any) -> None:
    source, point, status, sentence = SAID[what]
    more = ("--device", "cuda:9") if what == "a device" else ()
    ran = gradcli("check", written(source), "--at", point, *more)
    assert sentence in " ".join((ran.stdout + ran.stderr).split()), ran.stdout + ran.stderr
    assert ran.exit_status == status
    assert "Traceback" not in ran.stderr


def test_compiled(gradcli: Any, written: Any) -> None:
    target = written("def f(x, w, power):\n    return jnp.sum(right(x, w) ** power)")
    ran = gradcli("check", target, "--at", "x=randn(3), w=randn(3), power=int(2)", "--compile")
    assert ran.exit_status == 0, ran.stdout + ran.stderr
    target = written("def f(x, w):\n    return jnp.sum(wrong(x, w) ** 2)")
    assert gradcli("check", target, "--at", "x=randn(3), w=randn(3)", "--compile").exit_status == 1


def test_pytrees_by_path() -> None:
    import jax.numpy as jnp

    def f(p: Any) -> Any:
        return jnp.sum(jnp.tanh(p["w"] @ p["b"][0]))

    report = gradcli.check(f, {"p": {"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": [np.array([0.1, 0.2])]}})
    assert report.exit_status == 0
    assert list(report.points[0].gradient) == ["p.w", "p.b[0]"]


def test_wrt_leaves_out_what_has_no_gradient(gradcli: Any, written: Any) -> None:
    ran = gradcli("check", written(SAID["a number without a gradient"][0]), "--at", "x=randn(3), w=2.0", "--wrt", "x")
    assert ran.exit_status == 0, ran.stdout + ran.stderr


def test_of_numpys_module_by_the_option(gradcli: Any, written: Any) -> None:
    ran = gradcli("check", written("def f(x):\n    return x @ x"), "--at", "x=randn(3)", "--framework", "jax")
    assert ran.exit_status == 0
    assert "jax's gradient is right" in " ".join(ran.stdout.split())


def test_a_registered_class_is_differentiated_by_its_arrays(gradcli: Any, written: Any) -> None:
    source = """
@jax.tree_util.register_pytree_node_class
class f:
    def __init__(self, w=None):
        self.w = jnp.ones((3, 3)) * 0.3 if w is None else w

    def __call__(self, x):
        return jnp.tanh(self.w @ x)

    def tree_flatten(self):
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _, parts):
        return cls(*parts)
"""
    ran = gradcli("check", written(source), "--at", "x=randn(3)", "--format", "json")
    assert ran.exit_status == 0, ran.stdout + ran.stderr
    assert list(ran.json["points"][0]["gradient"]) == ["x", "w"]


def test_the_users_configuration_is_as_it_was(gradcli: Any, written: Any) -> None:
    import jax

    gradcli("check", written("f = right"), "--at", "x=randn(3), w=randn(3)")
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == "float32"


def test_a_claim_written_in_jax(gradcli: Any, written: Any) -> None:
    target = written(
        "def f(x):\n    return jnp.sum(jnp.sin(x))\n\ndef g(x):\n    return jnp.cos(x)\n\ndef h(x):\n    return -jnp.cos(x)"
    )
    module = target.removesuffix(":f")
    assert gradcli("check", target, "--grad", f"{module}:g", "--at", "x=randn(3)").exit_status == 0
    assert gradcli("check", target, "--grad", f"{module}:h", "--at", "x=randn(3)").exit_status == 1


def test_a_mistake_beside_comparisons_with_a_constant_array_is_looked_for() -> None:
    import jax
    import jax.numpy as jnp

    c = jnp.array([0.5, -0.5, 1.0])

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sum((x > c) * x + c * x)

    f.defjvp(lambda xs, xdots: (f(*xs), 2 * jnp.sum(xdots[0])))
    report = gradcli.check(f, jnp.array([0.3, 0.7, 2.0]))
    assert report.verdict == "fail" and report.points[0].diagnosis is not None
