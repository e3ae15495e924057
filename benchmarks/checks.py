"""What a full check of a claimed gradient costs, and the smallest wrong entry it catches, beside others' checks.

    python benchmarks/checks.py [--rounds 15] [--json]

Ten thousand parameters and an MLP with 203,530, every entry compared; a black box of 1,000 entries, of which one is wrong.
Peers check the same function and gradient at their defaults.
"""

import common  # first: it sets the threads

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure, Run

import gradcli
from gradcli.modes.screening import screen

TOPIC = "checks"
ENTRIES = 3334
SEEDS = 100  # of the black box
QUICK = 5  # runs in a row of what takes a few milliseconds


def chain(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x * w + b) ** 2)


def chain_by_hand(x: Any, w: Any, b: Any) -> Any:
    t = np.tanh(x * w + b)
    d = 2 * t * (1 - t * t)
    return d * w, d * x, d


def mlp(W1: Any, b1: Any, W2: Any, b2: Any, X: Any, Y: Any) -> Any:
    z = np.tanh(X @ W1 + b1) @ W2 + b2
    return -np.sum(Y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))) / len(X)


def mlp_by_hand(W1: Any, b1: Any, W2: Any, b2: Any, X: Any, Y: Any) -> Any:
    h = np.tanh(X @ W1 + b1)
    e = np.exp(h @ W2 + b2)
    d = (e / np.sum(e, axis=1, keepdims=True) - Y) / len(X)
    dh = d @ W2.T * (1 - h * h)
    return {"W1": X.T @ dh, "b1": dh.sum(0), "W2": h.T @ d, "b2": d.sum(0)}


def by_torch(f: Callable[..., Any], gradient: Callable[..., Any], at: dict[str, Any], slow: bool) -> dict[str, Run]:
    """Return torch's checks of the same function with the same gradient as its backward."""
    if not common.there("torch"):
        return {}
    import torch

    torch.set_num_threads(1)

    class Claimed(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return torch.tensor(f(*(x.numpy() for x in xs)))

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            found = gradient(*(x.numpy() for x in ctx.saved_tensors))
            bars = found.values() if isinstance(found, dict) else found
            return tuple(ybar * torch.from_numpy(np.asarray(bar)) for bar in bars) + (None,) * (len(at) - len(bars))

    wanted = len(at) if not isinstance(gradient(*at.values()), dict) else len(gradient(*at.values()))
    xs = tuple(torch.tensor(x, requires_grad=k < wanted) for k, x in enumerate(at.values()))
    runs: dict[str, Run] = {"torch, fast": lambda: torch.autograd.gradcheck(Claimed.apply, xs, fast_mode=True)}
    if slow:
        runs["torch"] = lambda: torch.autograd.gradcheck(Claimed.apply, xs)
    return runs


def by_scipy(at: dict[str, Any]) -> dict[str, Run]:
    from scipy.optimize import check_grad

    ends = np.cumsum([np.size(x) for x in at.values()])[:-1]
    flat = np.concatenate([np.ravel(x) for x in at.values()])
    return {
        "scipy": lambda: check_grad(
            lambda v: chain(*np.split(v, ends)), lambda v: np.concatenate(chain_by_hand(*np.split(v, ends))), flat
        )
    }


def smallest_seen(at: dict[str, Any]) -> float:
    """Return the smallest relative error of the middle entry, by powers of ten, that a check calls wrong."""
    k = int(np.argsort(np.abs(chain_by_hand(**at)[1]))[ENTRIES // 2])
    for power in range(2, 16):

        def wrong(x: Any, w: Any, b: Any, power: int = power) -> Any:
            dx, dw, db = chain_by_hand(x, w, b)
            dw = dw.copy()
            dw[k] *= 1 + 10.0**-power
            return dx, dw, db

        if gradcli.check(chain, at, grad=wrong).verdict != "fail":
            return float(10.0 ** (1 - power))
    return 0.0


def ten_thousand(rounds: int) -> Iterator[Figure]:
    rng = np.random.default_rng(0)
    at = {name: rng.standard_normal(ENTRIES) for name in ("x", "w", "b")}
    gradient = gradcli.grad(chain, wrt=("x", "w", "b"))
    assert gradcli.check(chain, at, grad=chain_by_hand)
    quick: dict[str, Run] = {
        "f": lambda: chain(**at),
        "gradient": lambda: gradient(**at),
        "check": lambda: gradcli.check(chain, at, grad=chain_by_hand),
    }
    runs = {**by_torch(chain, chain_by_hand, at, slow=True), **by_scipy(at)}
    quick |= {name: run for name, run in runs.items() if name == "torch, fast"}
    runs |= {name: common.repeated(run, QUICK) for name, run in quick.items()}
    ms = {name: 1e3 * seconds for name, seconds in common.medians(common.times(runs, rounds)).items()}
    ms |= {name: ms[name] / QUICK for name in quick}
    peers = {name: ms[name] for name in ("torch, fast", "torch", "scipy") if name in ms}
    work = "claimed gradient, 10,002 parameters, every entry: over one gradient"
    yield Figure(TOPIC, work, ms["check"] - ms["gradient"], "ms", 3, peers)
    yield Figure(TOPIC, "the smallest error of one entry that it sees", smallest_seen(at), "relative", 1e-10)


def network(rounds: int) -> Iterator[Figure]:
    rng = np.random.default_rng(0)
    at = {
        "W1": rng.standard_normal((784, 256)) / 28, "b1": np.zeros(256), "W2": rng.standard_normal((256, 10)) / 16, "b2": np.zeros(10),
        "X": rng.standard_normal((64, 784)), "Y": np.eye(10)[rng.integers(0, 10, 64)],
    }  # fmt: skip
    ask: dict[str, Any] = {"grad": mlp_by_hand, "wrt": ["W1", "b1", "W2", "b2"]}
    assert gradcli.check(mlp, at, **ask)
    took = common.times(
        {
            "f": lambda: mlp(**at),
            "check": lambda: gradcli.check(mlp, at, **ask),
            **by_torch(mlp, mlp_by_hand, at, slow=False),
        },
        rounds,
    )
    ms = {name: 1e3 * seconds for name, seconds in common.medians(took).items()}
    peers = {name: ms[name] for name in ("f", "torch, fast") if name in ms}
    yield Figure(TOPIC, "claimed gradient, MLP with 203,530 parameters, every entry", ms["check"], "ms", 50, peers)
    everything = common.times({"all": lambda: gradcli.check(mlp, at, **ask, modes="certified,reverse")}, 1)
    yield Figure(TOPIC, "the same with its certified witness", common.medians(everything)["all"], "s", 2)


def black_box(rounds: int) -> Iterator[Figure]:
    n, calls, caught = 1_000, [], 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x, c = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, n)
        claim = 2 * c * x * np.cos(c * x * x)
        claim[seed % n] *= 1 + 1e-8

        def f(step: Any, x: Any = x, c: Any = c) -> Any:
            return np.sum(np.sin(c * (x + step) ** 2))

        ask: dict[str, Any] = {"seed": seed, "complex_phi": f, "phi_at_zero": float(f(0.0))}
        right = screen(f, 2 * c * x * np.cos(c * x * x), x, **ask)
        found = screen(f, claim, x, **ask)
        calls.append(right.calls)
        assert right.agrees, "a right claim is flagged"
        caught += found.agrees is not True
    yield Figure(TOPIC, "black box, 1,000 entries: evaluations of the first screen", float(np.median(calls)), "f", 20)
    yield Figure(TOPIC, "one entry wrong by 1e-8 among 1,000, caught", 100.0 * caught / SEEDS, "%", 99, least=True)


def figures(rounds: int) -> Iterator[Figure]:
    yield from ten_thousand(rounds)
    yield from network(rounds)
    yield from black_box(rounds)


if __name__ == "__main__":
    common.main(figures, __doc__)
