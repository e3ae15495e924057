"""Checks of an MLP with 203,530 parameters in torch and JAX, every entry, beside the frameworks' own checkers.

    python benchmarks/frameworks.py [--rounds 9] [--json]

The same loss in several ways: operations alone, one custom function for the loss, one for its activation, one for a layer
in a method that takes a dict. torch's peer is gradcheck(fast_mode=True), JAX's check_grads of order 1 in reverse mode.
gradcli compares every entry; both peers compare projections. Last, the first check of a new process, which has imported
everything and computed nothing.
"""

import common  # first: it sets the threads

import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from common import Figure

import gradcli

TOPIC = "frameworks"
GOALS = {"torch": 1.5, "jax": 1.0}
Check = tuple[Callable[[], Any], Callable[[], Any]]  # gradcli's and the framework's own


def drawn() -> tuple[dict[str, Any], Any, Any]:
    rng = np.random.default_rng(0)
    at = {
        "W1": rng.standard_normal((784, 256)) / 28, "b1": np.zeros(256), "W2": rng.standard_normal((256, 10)) / 16, "b2": np.zeros(10),
    }  # fmt: skip
    return at, rng.standard_normal((64, 784)), np.eye(10)[rng.integers(0, 10, 64)]


def in_torch() -> dict[str, Check]:
    import torch

    torch.set_num_threads(1)
    at, *data = drawn()
    X, Y = map(torch.tensor, data)

    class Whole(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
            h = torch.tanh(X @ W1 + b1)
            z = h @ W2 + b2
            ctx.save_for_backward(W2, h, z)
            return -(Y * torch.log_softmax(z, 1)).sum() / len(X)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            W2, h, z = ctx.saved_tensors
            d = ybar * (torch.softmax(z, 1) - Y) / len(X)
            dh = d @ W2.T * (1 - h * h)
            return X.T @ dh, dh.sum(0), h.T @ d, d.sum(0)

    class Tanh(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = torch.tanh(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            (y,) = ctx.saved_tensors
            return ybar * (1 - y * y)

    class Layer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, W: Any, b: Any) -> Any:
            ctx.save_for_backward(x, W)
            return x @ W + b

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            x, W = ctx.saved_tensors
            return ybar @ W.T, x.T @ ybar, ybar.sum(0)

    class Net:
        def loss(self, p: dict[str, Any]) -> Any:
            h = X
            for k in "12":
                h = Layer.apply(torch.tanh(h) if k == "2" else h, p[f"W{k}"], p[f"b{k}"])
            return torch.nn.functional.cross_entropy(h, Y)

    def plain(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return -(Y * torch.log_softmax(torch.tanh(X @ W1 + b1) @ W2 + b2, 1)).sum() / len(X)

    def whole(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return Whole.apply(W1, b1, W2, b2)

    def activation(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return -(Y * torch.log_softmax(Tanh.apply(X @ W1 + b1) @ W2 + b2, 1)).sum() / len(X)

    net = Net()
    given = {name: torch.tensor(x) for name, x in at.items()}
    leaves = tuple(torch.tensor(x, requires_grad=True) for x in at.values())

    def both(f: Callable[..., Any], point: dict[str, Any], apart: Callable[..., Any]) -> Check:
        return (lambda: gradcli.check(f, point), lambda: torch.autograd.gradcheck(apart, leaves, fast_mode=True))

    return {
        "operations": both(plain, given, plain), "custom loss": both(whole, given, whole),
        "custom activation": both(activation, given, activation),
        "custom layers, method, dict": both(net.loss, {"p": given}, lambda *xs: net.loss(dict(zip(at, xs, strict=True)))),
    }  # fmt: skip


def in_jax() -> dict[str, Check]:
    import jax
    import jax.numpy as jnp
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)
    at, *data = drawn()
    X, Y = map(jnp.array, data)

    def plain(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return -jnp.sum(Y * jax.nn.log_softmax(jnp.tanh(X @ W1 + b1) @ W2 + b2)) / len(X)

    @jax.custom_vjp
    def whole(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        return plain(W1, b1, W2, b2)

    def forward(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        h = jnp.tanh(X @ W1 + b1)
        return plain(W1, b1, W2, b2), (W2, h, h @ W2 + b2)

    def backward(kept: Any, ybar: Any) -> Any:
        W2, h, z = kept
        d = ybar * (jax.nn.softmax(z) - Y) / len(X)
        dh = d @ W2.T * (1 - h * h)
        return X.T @ dh, dh.sum(0), h.T @ d, d.sum(0)

    whole.defvjp(forward, backward)

    @jax.custom_vjp
    def tanh(x: Any) -> Any:
        return jnp.tanh(x)

    tanh.defvjp(lambda x: (jnp.tanh(x), jnp.tanh(x)), lambda y, ybar: (ybar * (1 - y * y),))

    def by_dict(p: dict[str, Any]) -> Any:
        return -jnp.sum(Y * jax.nn.log_softmax(tanh(X @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"])) / len(X)

    given = {name: jnp.array(x) for name, x in at.items()}

    def both(f: Callable[..., Any], point: dict[str, Any], args: tuple[Any, ...]) -> Check:
        return lambda: gradcli.check(f, point), lambda: check_grads(f, args, order=1, modes=["rev"])

    apart = tuple(given.values())
    return {
        "operations": both(plain, given, apart), "jitted": both(jax.jit(plain), given, apart),
        "custom loss": both(whole, given, apart), "custom activation, dict": both(by_dict, {"p": given}, (given,)),
    }  # fmt: skip


FIRST = """
import time, gradcli.api, gradcli.frameworks.{framework}.adapter
{imports}
def f(x): return ({functions}.tanh(x) ** 2).sum()
start = time.perf_counter()
{check}
print(1e3 * (time.perf_counter() - start))
"""
FIRST_IN = {
    "torch": {
        "imports": "import torch; functions = torch; x = torch.arange(5.0, dtype=torch.float64, requires_grad=True)",
        "gradcli": "gradcli.check(f, x.detach())", "peer": "torch.autograd.gradcheck(f, x, fast_mode=True)",
    },
    "jax": {
        "imports": """
import jax, jax.numpy as functions; from jax.test_util import check_grads
jax.config.update("jax_enable_x64", True); import numpy; x = numpy.arange(5.0)""",
        "gradcli": "gradcli.check(f, functions.array(x))", "peer": 'check_grads(f, (x,), order=1, modes=["rev"])',
    },
}  # fmt: skip


def first_check(framework: str, which: str) -> float:
    """Return the milliseconds that the first check of a new process takes."""
    parts = FIRST_IN[framework]
    code = FIRST.format(framework=framework, imports=parts["imports"], functions="functions", check=parts[which])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def figures(rounds: int) -> Iterator[Figure]:
    for framework, made in (("torch", in_torch), ("jax", in_jax)):
        if not common.there(framework):
            continue
        found = {}
        for name, (ours, theirs) in made().items():
            report = ours()
            assert report.verdict == "pass", report
            took = common.times({"gradcli": ours, "theirs": theirs}, min(rounds, 9))
            found[name] = common.ratios(took, "theirs")["gradcli"]
            found[f"{name}, ms"] = 1e3 * common.medians(took)["gradcli"]
        worst = max(x for name, x in found.items() if not name.endswith(", ms"))
        work = f"MLP with 203,530 parameters in {framework}, every entry"
        yield Figure(TOPIC, work, worst, "of its own check", GOALS[framework], found)
        first = {which: median(first_check(framework, which) for _ in range(5)) for which in ("gradcli", "peer")}
        own = {"its own": first["peer"]}
        yield Figure(TOPIC, f"the first check of a process in {framework}", first["gradcli"], "ms", 150, own)


if __name__ == "__main__":
    common.main(figures, __doc__)
