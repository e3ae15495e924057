"""numba itself: compiled functions are targets, helpers and claims, and a claim is repaired in its Python code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli

numba = pytest.importorskip("numba")

FILE = """\
import math

import numpy as np
from numba import njit, vectorize


@njit
def loss(x):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = x[i] ** 3
    return out.sum() + math.sin(x[0])


@njit
def grad(x):
    g = 3 * x**2
    g[0] += math.cos(x[0])
    return g


@njit
def wrong(x):
    g = 2 * x**2
    g[0] += math.cos(x[0])
    return g


@vectorize
def softplus(x):
    return math.log1p(math.exp(x))


def total(x):
    return softplus(x).sum()


def total_grad(x):
    return 1 / (1 + np.exp(-x))
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "compiled_functions.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(("target", "claim"), [("loss", "grad"), ("total", "total_grad")])
def test_a_compiled_function_is_a_target_and_a_claim(gradcli: Any, file: Path, target: str, claim: str) -> None:
    ran = gradcli("check", f"{file}:{target}", "--grad", claim, "--at", "x=[1.0, 2.0]", "--json")
    assert ran.exit_status == 0
    modes = {name for name, mode in ran.json["points"][0]["modes"].items() if mode["status"] == "ok"}
    assert {"certified", "reverse"} <= modes


@pytest.mark.repairs
def test_a_compiled_claim_is_repaired(gradcli: Any, file: Path) -> None:
    ran = gradcli("check", f"{file}:loss", "--grad", "wrong", "--at", "x=[1.0, 2.0]")
    assert ran.exit_status == 1
    assert "+ g = 3 * x**2" in ran.stdout


def test_what_is_first_called_in_a_trace_compiles_and_runs_afterwards() -> None:
    @numba.njit
    def f(x: Any) -> Any:
        out = np.zeros(x.shape[0])
        for i in range(x.shape[0]):
            out[i] = x[i] ** 2
        return out.sum()

    @numba.njit
    def table(n: int) -> Any:
        return np.ones(n) * 3.0

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(gradcli.grad(lambda x: f(x) + np.sum(table(2) * x))(x), [5.0, 7.0])
    assert (f(x), table(2).sum()) == (5.0, 6.0)
    assert len(f.signatures) == len(table.signatures) == 1
