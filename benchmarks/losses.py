"""Reverse gradients of five losses, n = 10 to 1,000,000, in units of the gradient that an engineer writes in numpy.

    python benchmarks/losses.py [--rounds 15] [--json]

Hand-written means the same accurate partials that gradcli uses (the slope of tanh holds where tanh is nearly one); `naive`
is the gradient with the textbook's. `gradcli` is the compiled gradient, `gradcli, tape` the one that is traced at each call.
"""

import common  # first: it sets the threads

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from common import Figure, Run

import gradcli

TOPIC = "gradients"


def sech2(a: Any) -> Any:
    """Return the slope of tanh, accurate also where tanh is nearly one."""
    s = 1.0 / np.cosh(a)
    return s * s


@dataclass(frozen=True)
class Loss:
    """A loss written against a module like numpy, its gradient by hand, and how its inputs are drawn."""

    name: str
    f: Callable[..., Any]
    by_hand: Callable[..., Any]
    inputs: Callable[[int], dict[str, Any]]
    goals: dict[int, float]
    naive: Callable[..., Any] | None = None
    wrt: tuple[str, ...] = ()
    beat: bool = False


def draw(*sizes: int) -> Any:
    return np.random.default_rng(sizes).standard_normal(sizes)


def chain(xp: Any, x: Any, w: Any, b: Any) -> Any:
    return xp.sum(xp.tanh(x * w + b) ** 2)


def chain_by_hand(slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def gradient(x: Any, w: Any, b: Any) -> Any:
        a = x * w + b
        t = np.tanh(a)
        d = 2 * t * slope(t, a)
        return d * w, d * x, d

    return gradient


def rosenbrock(xp: Any, x: Any) -> Any:
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_by_hand(x: Any) -> Any:
    r = x[1:] - x[:-1] ** 2
    g = np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * r - 2 * (1 - x[:-1])
    g[1:] += 200 * r
    return (g,)


def logistic(xp: Any, w: Any, X: Any, y: Any) -> Any:
    z = X @ w
    return xp.sum(xp.log(1 + xp.exp(-y * z)))


def logistic_by_hand(w: Any, X: Any, y: Any) -> Any:
    z = X @ w
    return (X.T @ (-y / (1 + np.exp(y * z))),)


def mlp(xp: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any, X: Any, Y: Any) -> Any:
    h = xp.tanh(X @ W1 + b1)
    h = xp.tanh(h @ W2 + b2)
    z = h @ W3 + b3
    return -xp.sum(Y * (z - xp.log(xp.sum(xp.exp(z), 1)).reshape((-1, 1)))) / 64


def mlp_by_hand(slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def gradient(W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any, X: Any, Y: Any) -> Any:
        a1 = X @ W1 + b1
        h1 = np.tanh(a1)
        a2 = h1 @ W2 + b2
        h2 = np.tanh(a2)
        e = np.exp(h2 @ W3 + b3)
        d3 = (e / np.sum(e, axis=1, keepdims=True) - Y) / 64
        d2 = d3 @ W3.T * slope(h2, a2)
        d1 = d2 @ W2.T * slope(h1, a1)
        return X.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)

    return gradient


def mlp_inputs(n: int) -> dict[str, Any]:
    sizes = (784, 256, 256, 10)
    found = {}
    for k in (1, 2, 3):
        found[f"W{k}"] = draw(sizes[k - 1], sizes[k]) / np.sqrt(sizes[k - 1])
        found[f"b{k}"] = np.zeros(sizes[k])
    return {**found, "X": draw(n, 784), "Y": np.eye(10)[np.arange(n) % 10]}


def attention(xp: Any, Q: Any, K: Any, V: Any) -> Any:
    s = Q @ K.T / 8.0
    e = xp.exp(s)
    return xp.sum((e / xp.sum(e, 1).reshape((-1, 1)) @ V) ** 2)


def attention_by_hand(Q: Any, K: Any, V: Any) -> Any:
    e = np.exp(Q @ K.T / 8.0)
    p = e / np.sum(e, axis=1, keepdims=True)
    obar = 2 * (p @ V)
    pbar = obar @ V.T
    sbar = p * (pbar - np.sum(pbar * p, axis=1, keepdims=True)) / 8.0
    return sbar @ K, sbar.T @ Q, p.T @ obar


LOSSES = (
    Loss("sum(tanh(x*w + b)**2)", chain, chain_by_hand(lambda t, a: sech2(a)), lambda n: {"x": draw(n), "w": draw(n, 1)[:, 0], "b": draw(n, 2)[:, 0]},
         {10: 3, 1_000: 2.5, 100_000: 1.1, 1_000_000: 1.05}, chain_by_hand(lambda t, a: 1 - t * t), ("x", "w", "b")),
    Loss("Rosenbrock by slices", rosenbrock, rosenbrock_by_hand, lambda n: {"x": draw(n)}, {10: 6, 1_000: 5}, wrt=("x",)),
    Loss("logistic regression, 20 features", logistic, logistic_by_hand, lambda n: {"w": draw(20), "X": draw(n, 20), "y": np.sign(draw(n))},
         {10: 6, 10_000: 1.5}, wrt=("w",)),
    Loss("MLP 784-256-256-10, batch", mlp, mlp_by_hand(lambda h, a: sech2(a)), mlp_inputs, {64: 1.1}, mlp_by_hand(lambda h, a: 1 - h * h),
         ("W1", "b1", "W2", "b2", "W3", "b3"), beat=True),
    Loss("softmax attention, n by 64", attention, attention_by_hand, lambda n: {"Q": draw(n, 64), "K": draw(n, 64) / 2, "V": draw(n, 64) / 3}, {64: 1.4},
         wrt=("Q", "K", "V")),
)  # fmt: skip


def candidates(loss: Loss, at: dict[str, Any]) -> dict[str, Run]:
    """Return what computes the gradient, by name."""
    f = partial(loss.f, np)
    own = gradcli.grad(f, wrt=loss.wrt)
    compiled = gradcli.compile(own, **at)
    found: dict[str, Run] = {
        "by hand": lambda: loss.by_hand(**at),
        "gradcli": lambda: compiled(**at),
        "gradcli, tape": lambda: own(**at),
    }
    if loss.naive is not None:
        naive = loss.naive
        found["naive"] = lambda: naive(**at)
    if common.there("autograd"):
        import autograd
        import autograd.numpy as anp

        names = list(at)
        theirs = autograd.grad(lambda *xs: loss.f(anp, *xs), tuple(names.index(name) for name in loss.wrt))
        found["autograd"] = lambda: theirs(*at.values())
    if common.there("torch"):
        import torch

        torch.set_num_threads(1)

        def by_torch() -> Any:
            xs = {name: torch.from_numpy(x).requires_grad_(name in loss.wrt) for name, x in at.items()}
            return torch.autograd.grad(loss.f(torch, **xs), [xs[name] for name in loss.wrt])

        found["torch"] = by_torch
    if common.there("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        names = list(at)
        jitted = jax.jit(jax.grad(lambda *xs: loss.f(jax.numpy, *xs), tuple(names.index(name) for name in loss.wrt)))
        found["jax, jitted"] = lambda: jax.block_until_ready(jitted(*at.values()))
    return found


def right(found: dict[str, Run]) -> None:
    """Refuse to time gradients that differ."""
    theirs = found["by hand"]()
    mine = found["gradcli"]()
    mine = mine if isinstance(mine, tuple | list) else (mine,)
    assert all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(mine, theirs, strict=True))


def figures(rounds: int) -> Iterator[Figure]:
    for loss in LOSSES:
        for n, goal in loss.goals.items():
            runs = candidates(loss, loss.inputs(n))
            right(runs)
            quick = 20 if n <= 1_000 and not loss.beat else 1
            took = common.times({name: common.repeated(run, quick) for name, run in runs.items()}, rounds)
            beside = common.ratios(took, "by hand")
            own = beside.pop("gradcli")
            yield Figure(TOPIC, f"{loss.name}, n = {n:,}", own, "of by hand", goal, beside)
            if loss.beat:
                for peer in ("autograd", "torch"):
                    if peer in took:
                        yield Figure(
                            TOPIC,
                            f"the same beside {peer}",
                            1 / common.ratios(took, "gradcli")[peer],
                            f"of {peer}",
                            1.0,
                        )


if __name__ == "__main__":
    common.main(figures, __doc__)
