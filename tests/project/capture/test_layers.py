"""Backward passes that a program calls by itself: layers, pairs with a cache, networks; in modules and in the script."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from gradcli.project.capture.session import RecordingRequest, Session, execute_program
from gradcli.report.suite import RunReport
from tests.conftest import process
from tests.project.capture.watching import used

LAYERS = """
import numpy as np


class Dense:
    def __init__(self, n, m):
        self.W, self.b = np.random.randn(n, m), np.zeros(m)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout):
        self.dW, self.db = self.x.T @ dout, dout.sum(axis=0)
        return dout @ self.W.T


class Added(Dense):
    def forward(self, x):
        return super().forward(x) + x

    def backward(self, dout):
        return super().backward(dout) + dout


class Drop:
    def forward(self, x, train=True):
        self.mask = np.random.rand(*x.shape) > 0.5 if train else 1
        return x * self.mask

    def backward(self, dout):
        return dout * self.mask


class Square:
    def forward(self, x):
        self.x = x
        return x**2

    def backward(self, dout):
        return 2 * dout * self.x


class Once:
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        self.x = x
        return np.exp(x)

    def backward(self, dout):
        return dout * np.exp(self.x) * (1 if self.calls == 1 else 2)


class Loss:
    def forward(self, y, t):
        self.d = y - t
        return (self.d**2).mean()

    def backward(self):
        return 2 * self.d / self.d.size


class Softmax:
    def forward(self, x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def backward(self, dout):
        return dout


class Entropy:
    def forward(self, p, t):
        self.p, self.t = p, t
        return -np.log(p[np.arange(len(t)), t]).mean()

    def backward(self):
        d = self.p.copy()
        d[np.arange(len(self.t)), self.t] -= 1
        return d / len(self.t)


class Net:
    def __init__(self):
        self.params = {"W": np.random.randn(3, 2)}

    def loss(self, x, t):
        return ((x @ self.params["W"] - t) ** 2).sum()

    def gradient(self, x, t):
        return {"W": x.T @ (x @ self.params["W"] - t)}


class Both(Net):
    def loss(self, x, t=None):
        y = x @ self.params["W"]
        return y if t is None else (((y - t) ** 2).sum(), {"W": 2 * x.T @ (y - t)})

    gradient = None


class Adding(Dense):
    def __init__(self, n, m):
        super().__init__(n, m)
        self.dW = np.zeros((n, m), np.float32)

    def backward(self, dout):
        self.dW += self.x.T @ dout
        return dout @ self.W.T


class Momentum(Dense):
    def __init__(self, n, m):
        super().__init__(n, m)
        self.vW = np.zeros((n, m))

    def backward(self, dout, lr):
        dx = dout @ self.W.T
        self.vW = 0.9 * self.vW - lr * (self.x.T @ dout)
        self.W += self.vW
        return dx


class Masked:
    def forward(self, x, train=True):
        if train:
            self.cache = (x > 1.3, x)
        return np.maximum(x, 1.3)

    def backward(self, dout):
        dout *= self.cache[0]
        return dout


class Squared:
    def loss(self, y, y_pred):
        return 0.5 * (y - y_pred) ** 2

    def gradient(self, y, y_pred):
        return y_pred - y


class Inverse:
    def forward(self, x):
        return x / 3

    def backward(self, y):
        return y * 3


class Attributes(dict):
    __getattr__ = dict.__getitem__


class Frozen(type):
    def __setattr__(cls, name, x):
        raise AttributeError(name)


class Odd(metaclass=Frozen):
    def forward(self, x):
        return x

    def backward(self, dout, held=0.5):
        return dout


class Single:
    one = None

    def __new__(cls):
        cls.one = cls.one or super().__new__(cls)
        return cls.one


class Stored(Square):
    def __init__(self):
        self.store = Single()


class Kept:
    def __init__(self, n, m):
        self.weights = np.random.randn(n, m)

    def forward(self, inputs):
        self.inputs = inputs
        self.output = inputs @ self.weights

    def backward(self, dvalues):
        self.dweights = self.inputs.T @ dvalues
        self.dinputs = dvalues @ self.weights.T


class OfPrediction:
    def forward(self, y_pred, y_true):
        return ((y_pred - y_true) ** 2).mean(axis=-1)

    def backward(self, dvalues, y_true):
        self.dinputs = 2 * (dvalues - y_true) / y_true.size


rng = np.random.default_rng(0)


class Drawn:
    def forward(self, x):
        self.mask = rng.random(x.shape) > 0.5
        return x * self.mask

    def backward(self, dout):
        return dout * self.mask


def scale_forward(x, a):
    return a * x, (x, a)


def scale_backward(dout, cache):
    x, a = cache
    return dout * a, (dout * x).sum()


def slope_loss(W, b, x, y):
    d = x @ W + b - y
    loss = np.sum(d**2)
    dW, db = 2 * x.T @ d, d.sum(axis=0)
    return loss, dW, db


def cost_last(w, x):
    cost, dw = ((x @ w) ** 2).sum(), 2 * x.T @ (x @ w)
    return {"dw": dw}, cost


def cost_alone(w, x):
    cost, grad = ((x @ w) ** 2).sum(), 2 * x.T @ (x @ w)
    return cost, grad


def of_one(w):
    loss, grad = w @ w, 2 * w
    return loss, grad


def by_the_last(x, y, w):
    r = x @ w - y
    loss, grad = r**2, 2 * r * x
    return loss, grad


def of_a_sample(w, x, rng):
    k = rng.integers(len(x), size=2)
    loss, grad = ((x[k] @ w) ** 2).sum(), 2 * x[k].T @ (x[k] @ w)
    return loss, grad


STATE = {"batch": 0}


def of_a_batch(w, x):
    part = x[STATE["batch"] % 3 :: 3]
    STATE["batch"] += 1
    loss, grad = ((part @ w) ** 2).sum(), 2 * part.T @ (part @ w)
    return loss, grad


def stepping(w, x):
    loss, grad = ((x @ w) ** 2).sum(), 2 * x.T @ (x @ w)
    w -= 0.01 * grad
    return loss, grad


def with_more(W, V, x):
    h = np.tanh(W @ x)
    loss = ((V @ h) ** 2).sum()
    dV = 2 * np.outer(V @ h, h)
    dW = np.outer(2 * (V.T @ (V @ h)) * (1 - h**2), x)
    return loss, dV, dW, h


def mixed_up(W, V, x):
    loss = ((W @ x) ** 2).sum() + 3 * ((V @ x) ** 2).sum()
    dW = 6 * np.outer(V @ x, x)
    return loss, dW


def of_differences(x):
    dx = x - np.roll(x, 1)
    energy = (dx**2).sum()
    return energy, dx


def with_probabilities(x, y):
    d = np.exp(x) / np.exp(x).sum()
    loss = -np.log(d[y])
    return loss, d


def shift_forward(x):
    return x**3, x


def shift_backward(dout, cache):
    return dout * cache**2
"""
RNG = np.random.default_rng(1)
X, T = np.arange(12.0).reshape(4, 3) / 10 + 0.1, np.ones((4, 2))


@pytest.fixture(name="program")
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], object]], RunReport]:
    """Return a function that lets another one use the module of layers, and returns the report."""
    (tmp_path / "own_layers.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_layers", raising=False)
    np.random.seed(0)
    return lambda work: used(lambda: work(importlib.import_module("own_layers")))


def step(layer: Any, *args: Any, shape: tuple[int, ...] = (4, 3)) -> None:
    layer.forward(*args)
    layer.backward(np.ones(shape))


def affine(m: ModuleType) -> None:
    y, cache = m.scale_forward(X, 2.0)
    m.scale_backward(np.ones_like(y), cache)


def cubed(m: ModuleType) -> None:
    y, cache = m.shift_forward(X)
    m.shift_backward(dout=np.ones_like(y), cache=cache)


def twice(m: ModuleType) -> None:
    """One layer at two places: its second forward pass overwrites what the first one kept."""
    layer, between = m.Dense(3, 3), m.Square()
    for _ in range(3):
        layer.forward(between.forward(layer.forward(X)))
        layer.backward(between.backward(layer.backward(np.ones((4, 3)))))


def mixed(m: ModuleType) -> None:
    """A network in which evaluations stand between the steps."""
    net, loss = [m.Dense(3, 2), m.Drop()], m.Loss()
    for k in range(20):
        net[1].forward(net[0].forward(X), train=False)
        loss.forward(net[1].forward(net[0].forward(X[: 4 - k % 2])), T[: 4 - k % 2])
        net[0].backward(net[1].backward(loss.backward()))
        net[0].W -= 0.1 * net[0].dW


def fused(m: ModuleType) -> None:
    """A softmax that leaves its slope to the loss after it."""
    softmax, loss, t = m.Softmax(), m.Entropy(), np.array([0, 1, 2, 1])
    for _ in range(4):
        loss.forward(softmax.forward(X), t)
        softmax.backward(loss.backward())


def added(m: ModuleType) -> None:
    layer = m.Adding(3, 2)
    for _ in range(3):
        step(layer, X, shape=(4, 2))


def moved(m: ModuleType) -> None:
    layer = m.Momentum(3, 2)
    for _ in range(3):
        layer.forward(X)
        layer.backward(np.ones((4, 2)), 0.1)


def evaluated(m: ModuleType) -> None:
    """An evaluation stands between a forward pass and its backward pass, which gets its cotangent by name."""
    layer = m.Masked()
    for _ in range(3):
        layer.forward(X * 2)
        layer.forward(X, train=False)
        layer.backward(dout=np.ones((4, 3)))


def kept(m: ModuleType) -> None:
    """Layers whose passes return nothing, and a loss that takes its prediction in the place of a cotangent."""
    layer, loss = m.Kept(3, 2), m.OfPrediction()
    for _ in range(3):
        layer.forward(X)
        loss.forward(layer.output, T)
        loss.backward(layer.output, T)
        layer.backward(loss.dinputs)
        layer.weights -= 0.1 * layer.dweights


def of_functions(m: ModuleType) -> None:
    """Functions that return their value and their gradients, and one that returns something else beside its value."""
    for _ in range(2):
        m.slope_loss(np.ones((3, 2)), np.zeros(2), X, T)
        m.cost_last(np.ones(3), x=X)
        m.with_probabilities(X[0], 1)
        m.of_one(np.ones(3))
        m.by_the_last(X[0], 0.5, np.ones(3))
        m.of_a_sample(np.ones(3), X, RNG)
        m.of_a_batch(np.ones(3), X)
        m.stepping(np.ones(3), X)
        m.with_more(np.ones((4, 3)), np.ones((2, 4)), X[0])
        m.mixed_up(np.ones((2, 3)), np.ones((2, 3)) / 5, X[0])
        m.of_differences(X[0])
    assert m.STATE["batch"] == 2
    minimize(m.cost_alone, np.zeros(3), args=(X,), jac=True)


def odd(m: ModuleType) -> None:
    layer = m.Square()
    layer.forward(m.Attributes(x=X).x)
    layer.backward(np.ones((4, 3)))
    step(m.Odd(), X)
    m.Odd().backward(X, held=0.3)


def both(m: ModuleType) -> None:
    net = m.Both()
    net.loss(X)
    net.loss(X, T)


USES = {  # what a program does, and the gradients that it used: the calls, and the verdict
    "a layer": (lambda m: step(m.Dense(3, 2), X, shape=(4, 2)), {"Dense.backward": (1, "pass")}),
    "a method of the base class": (lambda m: step(m.Added(3, 3), X), {"Added.backward": (1, "pass")}),
    "a random mask": (lambda m: step(m.Drop(), X), {"Drop.backward": (1, "pass")}),
    "wrong in a later call": (lambda m: [step(each, X) for each in [m.Once()] * 2], {"Once.backward": (2, "fail")}),
    "a network, step by step": (
        mixed, {"Dense.backward": (20, "pass"), "Drop.backward": (20, "pass"), "Loss.backward": (20, "pass")}
    ),
    "one layer at two places": (twice, {"Dense.backward": (6, "fail"), "Square.backward": (3, "pass")}),
    "gradients that are added in float32": (added, {"Adding.backward": (3, "pass")}),
    "momentum in the backward pass": (moved, {"Momentum.backward": (3, "pass")}),
    "an evaluation between": (evaluated, {"Masked.backward": (3, "pass")}),
    "a loss of the label first": (lambda m: m.Squared().gradient(T, 2 * T), {"Squared.gradient": (1, "pass")}),
    "an inverse": (lambda m: (k := m.Inverse()).backward(k.forward(X)), {}),
    "a generator of the module": (lambda m: step(m.Drawn(), X), {"Drawn.backward": (1, "pass")}),
    "results as attributes": (kept, {"Kept.backward": (3, "pass"), "OfPrediction.backward": (3, "pass")}),
    "values with gradients": (
        of_functions,
        {
            **dict.fromkeys(("of_one", "by_the_last", "of_a_sample", "of_a_batch", "stepping", "with_more"), (2, "pass")),
            "slope_loss": (2, "fail"), "mixed_up": (2, "fail"), "cost_last": (2, "pass"), "cost_alone": (1, "pass"),
        },  # fmt: skip
    ),
    "a copy that would be the object itself": (lambda m: step(m.Stored(), X), {"Square.backward": (1, "inconclusive")}),
    "odd classes": (odd, {"Square.backward": (1, "pass")}),
    "two that are right together": (fused, {"Softmax.backward": (4, "pass"), "Entropy.backward": (4, "pass")}),
    "one of two alone": (lambda m: step(m.Softmax(), X), {"Softmax.backward": (1, "fail")}),
    "a pair with a cache": (affine, {"scale_backward": (1, "pass")}),
    "a wrong pair, by name": (cubed, {"shift_backward": (1, "fail")}),
    "a gradient beside the loss": (lambda m: m.Net().gradient(X, T), {"Net.gradient": (1, "fail")}),
    "a loss that returns both": (both, {"Both.loss": (1, "pass")}),
    "a forward pass alone": (lambda m: m.Square().forward(X), {}),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_backward_passes_are_checked_as_they_were_used(program: Any, use: str) -> None:
    work, wanted = USES[use]
    assert {each.name: (each.calls, each.verdict) for each in program(work).gradients} == wanted


def test_modules_and_classes_are_as_before_afterwards(program: Any) -> None:
    held: list[ModuleType] = []
    program(held.append)
    (module,) = held
    assert not hasattr(module.scale_backward, "__wrapped__")
    assert "self.x = x" in inspect.getsource(module.Dense.forward)
    assert not hasattr(module.Dense.backward, "__wrapped__")


def test_a_script_hands_over_what_it_defines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = LAYERS + "\nimport traceback\nstep = Square()\nstep.forward(np.ones(3))\nstep.backward(np.ones(3))\n"
    lines += "y, cache = shift_forward(np.ones(2))\nshift_backward(y, cache)\nassert 'step' in globals()\n"
    script = tmp_path / "train.py"
    script.write_text(lines)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    session = Session(RecordingRequest(3))
    session.begin()
    try:
        assert execute_program([str(script)], session.layers.look_at_script).status == 0
    finally:
        recorder = session.end()
    assert {each.definition.name: each.definition.line for each in recorder.all()} == {
        "Square.backward": lines[: lines.index("return 2 * dout * self.x")].count("\n"),
        "shift_backward": lines[: lines.index("return dout * cache**2")].count("\n"),
    }


@pytest.mark.slow
def test_a_child_process_sends_its_layers(tmp_path: Path) -> None:
    (tmp_path / "own_layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(
        "import os\nimport numpy as np\nfrom own_layers import Square\n"
        "if (pid := os.fork()) == 0:\n    s = Square()\n    s.forward(np.ones(2))\n    s.backward(np.ones(2))\n"
        "else:\n    os.waitpid(pid, 0)\n"
    )
    ran = process("run", "--out", "r.json", "train.py", cwd=tmp_path)
    assert ran.exit_status == 0, ran.stderr
    assert '"name": "Square.backward"' in (tmp_path / "r.json").read_text()
