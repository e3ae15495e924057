"""Which points are tried until a check runs, and what is said where none does."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.project.discovery.proposal import Trial, try_checks
from tests.project.discovery.reading import find, written

Tried = Callable[..., dict[str, Trial]]


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tried:
    """Return what trying the gradients of a file shows, by their names."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> dict[str, Trial]:
        written(tmp_path, {"a.py": f"import numpy as np\n{text}"})
        gradients = find(["a.py"]).gradients
        return {gradients[k].name: trial for k, trial in try_checks(gradients, Path(), lambda text: None).items()}

    return run


RUNS: dict[str, tuple[str, dict[str, Any]]] = {  # code, and what is found for its one gradient
    "an equation": (
        "def rhs(t, y, p):\n    k1, k2 = p\n    return np.array([-k1 * y[0], k1 * y[0] - k2 * y[1]])\n"
        "def rhs_jac(t, y, p):\n    k1, k2 = p\n    return np.array([[-k1, 0], [k1, -k2]])\n",
        {"target": "a.py:rhs", "jac": "rhs_jac", "wrt": "y", "at": "t=0.3, y=randn(2), p=randn(2)"},
    ),
    "kinds": (
        "def c(q, k: np.ndarray, n: int, flag: bool, mask=None):\n    assert type(n) is int and type(flag) is bool\n    return n * np.sum(q * k)\n"
        "def c_grad(q, k, n, flag, mask=None): return n * k, n * q\n",
        {"target": "a.py:c", "grad": "c_grad", "at": "q=randn(3), k=randn(3), n=int(2), flag=True"},
    ),
    "a size that an error names": (
        "M = np.arange(88.0).reshape(11, 8)\ndef f(u): return np.sum((M @ u) ** 2)\ndef f_grad(u): return 2 * M.T @ (M @ u)\n",
        {"target": "a.py:f", "grad": "f_grad", "at": "u=randn(8)"},
    ),
    "a size that the claim has": (
        "def f(p): return p[0] * np.sin(p[1])\ndef f_grad(p): return np.array([np.sin(p[1]), p[0] * np.cos(p[1])])\n",
        {"target": "a.py:f", "grad": "f_grad", "at": "p=randn(2)"},
    ),
    "a longer vector": (
        "class Chain:\n    n = 4\n    def fun(self, x): return np.sum((x[1:] - x[:-1]) ** 2 * np.ones(self.n - 1))\n"
        "    def jac(self, x):\n        g = np.zeros(self.n)\n        g[1:] += 2 * np.diff(x)\n        g[:-1] -= 2 * np.diff(x)\n        return g\n",
        {"target": "a.py:Chain().fun", "jac": "jac", "at": "x=randn(4)"},
    ),
    "an object of data": (
        "class Poisson:\n    def __init__(self, endog, exog): self.endog, self.exog = endog, exog\n"
        "    def loglike(self, params): return np.sum(self.endog * (self.exog @ params) - np.exp(self.exog @ params))\n"
        "    def score(self, params): return self.exog.T @ (self.endog - np.exp(self.exog @ params))\n",
        {"target": "a.py:Poisson([0, 1, 0, 1, 0], randn(5,3)).loglike", "grad": "score", "at": "params=randn(3)"},
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Near:\n    reference: np.ndarray\n    weight: float = 0.5\n"
        "    def evaluate(self, m): return self.weight * np.sum((m - self.reference) ** 2)\n"
        "    def gradient(self, m): return 2 * self.weight * (m - self.reference)\n",
        {"target": "a.py:Near(randn(3)).evaluate", "grad": "gradient", "at": "m=randn(3)"},
    ),
    "a class that is made of an abstract one": (
        "class Norm:\n    def rho(self, z): raise NotImplementedError\n    def loss(self, w): return np.sum(self.rho(w))\n"
        "    def loss_grad(self, w): return self.slope(w)\n"
        "class Square(Norm):\n    def rho(self, z): return z * z\n    def slope(self, z): return 2 * z\n",
        {"target": "a.py:Square().loss", "grad": "loss_grad", "at": "w=randn(3)"},
    ),
    "a definite matrix": (
        "def logdet(S): return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(S))))\ndef logdet_grad(S): return np.linalg.inv(S)\n",
        {"target": "a.py:logdet", "grad": "logdet_grad", "at": "S=spd(3)", "assume": "S: spd", "structure": True},
    ),
    "rows of indices": (
        "def embed(table, ids): return table[ids].sum(1)\n"
        "def embed_backward(dout, table, ids):\n    g = np.zeros_like(table)\n    np.add.at(g, ids, np.repeat(dout[:, None], ids.shape[1], 1))\n    return g\n",
        {"target": "a.py:embed", "at": "table=randn(5,3), ids=int([[0, 2], [1, 0], [2, 1], [0, 2], [1, 0]])"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNS)
def test_a_point_is_found_at_which_a_right_gradient_passes(trials: Tried, case: str) -> None:
    code, keys = RUNS[case]
    (trial,) = trials(code).values()
    assert (trial.keys, trial.verdict) == (keys, "pass"), trial.reason


F = "def f({head}):\n    {body}\ndef f_grad({head}): return 2 * x\n"
WHY = {  # code, and why no check of its one gradient runs
    "an import":  ("import no_such_module\n" + F.format(head="x", body="return x @ x"), "no_such_module is not in this environment"),
    "a function": (F.format(head="x, fn", body="return fn(x)"), "its argument fn is a function"),
    "nested":     ("def solve(b):\n    def fun(u): return u * u\n    def jac(u): return 2 * u\n    return fun, jac\n",
                   "gradcli run PROGRAM.py checks it: it stands inside solve"),
    "abstract":   ("class N:\n    def rho(self, z): raise NotImplementedError\n    def loss(self, w): return self.rho(w)\n    def loss_grad(self, w): return 2 * w\n",
                   "N is an abstract class, and its file has no class that is made of it"),
    "an error":   (F.format(head="x", body="raise RuntimeError('the data are not there')"), "a.py:f raised RuntimeError: the data are not there"),
    "another shape": ("def f(x): return np.sum(x[:2] ** 2)\ndef f_grad(x): return 2 * np.outer(x, x)\n",
                   "at the sizes that were tried, the claimed gradient of x has shape (3, 3); the right one has shape (3,)"),
    "a value, but no gradient": ("def f(x): return np.sum(x**2)\ndef f_grad(x): return 2 * x.no_such_name\n",
                   "f_grad raised AttributeError: 'numpy.ndarray' object has no attribute 'no_such_name'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WHY)
def test_the_reason_is_that_of_the_most_plausible_try(trials: Tried, case: str) -> None:
    code, why = WHY[case]
    (trial,) = trials(code).values()
    assert (trial.keys, trial.reason) == (None, why)


TORCH = """import torch
class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps: float, subtract: bool):
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, r)
        return x * r * weight + bias
    @staticmethod
    def backward(ctx, g):
        x, weight, r = ctx.saved_tensors
        h = x * r
        k = g * weight
        return r * (k - h * (k * h).mean(-1, keepdim=True)), (g * h).sum(0), g.sum(0), None, None
"""
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_function_of_torch_is_tried(trials: Tried) -> None:
    trial = trials(TORCH)["Norm"]
    point = "x=randn(5,3), weight=randn(3), bias=randn(3), eps=1e-5, subtract=True"
    assert (trial.keys, trial.verdict) == ({"target": "a.py:Norm", "at": point}, "pass"), trial.reason


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_that_is_said(trials: Tried) -> None:
    assert trials(TORCH) == {"Norm": Trial(reason="torch is not in this environment")}
