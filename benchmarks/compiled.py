"""Compiled gradients of ten ways in which people write functions, over the gradient that an engineer writes in numpy.

    python benchmarks/compiled.py [--rounds 15] [--json]

The gradient by hand has the same accurate slope of tanh. Beside it: the gradient on the tape, traced at each call; jax.jit and
casadi where they are installed and can run the function.
"""

import common  # first: it sets the threads

import statistics
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from common import Figure, Run

import gradcli

TOPIC = "compiled gradients"
GOALS = {10: 2.0, 1_000: 1.8, 100_000: 1.1}
MOST_OF_A_MATRIX = 1_000  # entries of x, for which the quadratic form is timed


class Idiom(NamedTuple):
    """A function, its arguments, and its gradient by the first of them, written by hand."""

    f: Callable[..., Any]
    at: tuple[Any, ...]
    by_hand: Callable[..., Any]


def sech2(a: Any) -> Any:
    """Return the slope of tanh, accurate also where tanh is nearly one."""
    s = 1.0 / np.cosh(a)
    return s * s


class Layer:
    """A layer with a loss, as a method."""

    def __init__(self, w: Any, b: Any) -> None:
        self.w, self.b = w, b

    def loss(self, x: Any) -> Any:
        return np.sum(np.tanh(x * self.w + self.b) ** 2)


def idioms(n: int) -> dict[str, Idiom]:
    """Return the functions for inputs of n entries."""
    rng = np.random.default_rng(n)
    x, w, b = rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)
    captured, model, settings = (w, b), SimpleNamespace(w=w, b=b), {"w": w, "x": x}

    def by_hand(x: Any, *more: Any) -> Any:
        a = x * w + b
        return 2.0 * np.tanh(a) * sech2(a) * w

    def with_defaults(x: Any, w: Any = w, b: Any = b) -> Any:
        return np.sum(np.tanh(x * w + b) ** 2)

    def of_a_dict(p: Any) -> Any:
        return np.sum(np.tanh(p["x"] * p["w"] + b) ** 2)

    def dict_by_hand(p: Any) -> Any:
        a = p["x"] * p["w"] + b
        d = 2.0 * np.tanh(a) * sech2(a)
        return {"w": d * p["x"], "x": d * p["w"]}

    def quietly(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.sum(np.tanh(x * w + b) ** 2)

    def quietly_by_hand(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return by_hand(x)

    def writing(x: Any) -> Any:
        y = np.zeros(n + 1)
        y[1:] = x * w
        y[0] = 1.0
        return np.sum(y[:-1] * y[1:] ** 2)

    def writing_by_hand(x: Any) -> Any:
        y = np.zeros(n + 1)
        y[1:] = x * w
        y[0] = 1.0
        bar = np.zeros(n + 1)
        bar[:-1] = y[1:] ** 2
        bar[1:] += 2.0 * y[:-1] * y[1:]
        return bar[1:] * w

    def chosen_by_hand(x: Any) -> Any:
        return np.where(x > 0.0, w, np.exp(x))

    found = {
        "closure over a tuple of arrays": Idiom(
            lambda x: np.sum(np.tanh(x * captured[0] + captured[1]) ** 2), (x,), by_hand
        ),
        "module as an argument": Idiom(lambda x, xp: xp.sum(xp.tanh(x * w + b) ** 2), (x, np), by_hand),
        "default arguments": Idiom(with_defaults, (x,), by_hand),
        "attributes": Idiom(lambda x: np.sum(np.tanh(x * model.w + model.b) ** 2), (x,), by_hand),
        "bound method": Idiom(Layer(w, b).loss, (x,), by_hand),
        "dict": Idiom(of_a_dict, (settings,), dict_by_hand),
        "errstate": Idiom(quietly, (x,), quietly_by_hand),
        "np.where": Idiom(lambda x: np.sum(np.where(x > 0.0, x * w, np.exp(x))), (x,), chosen_by_hand),
        "writes into an array": Idiom(writing, (x,), writing_by_hand),
    }
    if n <= MOST_OF_A_MATRIX:
        a = rng.normal(size=(n, n))
        found["einsum with data"] = Idiom(lambda x: np.einsum("i,ij,j->", x, a, x), (x,), lambda x: a @ x + x @ a)
    return found


def candidates(idiom: Idiom) -> dict[str, Run]:
    """Return what computes the gradient, by name. Raises AssertionError where the gradients differ."""
    own = gradcli.grad(idiom.f, verify=False)
    compiled = gradcli.compile(own, *idiom.at)
    expected = idiom.by_hand(*idiom.at)
    found = compiled(*idiom.at)
    pairs = [(found[name], expected[name]) for name in expected] if isinstance(expected, dict) else [(found, expected)]
    assert all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)
    return {
        "by hand": lambda: idiom.by_hand(*idiom.at),
        "gradcli": lambda: compiled(*idiom.at),
        "tape": lambda: own(*idiom.at),
    } | _jitted(idiom)


def _jitted(idiom: Idiom) -> dict[str, Run]:
    """Return jax.jit's gradient of the function, with jax's numpy in place of numpy, where it takes it."""
    if not common.there("jax"):
        return {}
    import jax
    from jax import numpy as jnp

    jax.config.update("jax_enable_x64", True)
    if idiom.at[1:] and idiom.at[1] is not np:
        return {}
    f = idiom.f
    if len(idiom.at) == 1:
        return {}  # it names numpy itself: only the function of a module can be given jax's
    jitted = jax.jit(jax.grad(lambda x: f(x, jnp)))
    return {"jax, jitted": lambda: jax.block_until_ready(jitted(idiom.at[0]))}


def figures(rounds: int) -> Iterator[Figure]:
    for n, goal in GOALS.items():
        ratios: dict[str, list[float]] = {}
        for name, idiom in idioms(n).items():
            quick = 200 if n <= 1_000 else 2
            took = common.times({key: common.repeated(run, quick) for key, run in candidates(idiom).items()}, rounds)
            beside = common.ratios(took, "by hand")
            for key, ratio in beside.items():
                ratios.setdefault(key, []).append(ratio)
            yield Figure(TOPIC, f"{name}, n = {n:,}", beside.pop("gradcli"), "of by hand", goal, beside)
        middle = {key: statistics.median(values) for key, values in ratios.items()}
        yield Figure(TOPIC, f"median of the ways, n = {n:,}", middle.pop("gradcli"), "of by hand", goal, middle)


if __name__ == "__main__":
    common.main(figures, __doc__)
