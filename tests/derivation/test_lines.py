"""Where steps come from: lines of a file, columns of an expression; and which line has the name of a statement."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import for_rows

SOURCE = """
import numpy as np

def helper(u):
    return np.tanh(u) * u

def loss(w, X, y):
    r = (
        X @ w
        - y
    )
    s = np.sum(helper(r)
               ** 2)
    if len(y) > 1: s = s / len(y)
    return s
"""
STEPS = [  # the name, and the line it is made at
    ("r = X@w - y", 9), ("h = tanh(r)", 5), ("t1 = h*r", 5), ("s = t1@t1", 12), ("f = s/m", 14),
]  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "losses.py").write_text(SOURCE)
    return f"{tmp_path}/losses.py:loss"


@pytest.mark.parametrize("style", ["graph", "differential", "index"])
def test_the_lines_of_a_program(gradcli: Callable[..., Any], target: str, style: str) -> None:
    argv = ("derive", target, "--shapes", "w: n; X: m n; y: m", "--wrt", "w", "--style", style)
    steps = gradcli(*argv, "--json").json["results"][0]["steps"]
    named = [s for s in steps if s["rule"] == "name"]
    assert [int(s["where"].rpartition(":")[2]) for s in named] == [line for _, line in STEPS]
    assert all(s["where"].rpartition(":")[0].endswith("losses.py") for s in named)
    if style != "index":
        assert [s["after"] for s in named] == [name for name, _ in STEPS]
    moved = [s["where"] for s in steps if s["rule"] not in ("name", "read off") and s["where"]]
    lines = [s["where"] for s in named]
    assert moved == (lines[::-1] if style == "graph" else lines)


def test_the_text_shows_the_line_without_the_file(gradcli: Callable[..., Any], target: str) -> None:
    shown = gradcli("derive", target, "--shapes", "w: n; X: m n; y: m", "--wrt", "w", "--style", "graph").stdout.split(
        "\n"
    )
    head = next(line for line in shown if "step" in line and "formula" in line)
    assert head.split()[-1] == "line"
    (row,) = [line for line in shown if "t1_bar =" in line]
    assert row.split()[-1] == "5"


def test_columns_of_an_expression(gradcli: Callable[..., Any]) -> None:
    f = "u = X@w - y; sum(u**2)"
    ran = gradcli("derive", f, "--shapes", "X: m n; w: n; y: m", "--wrt", "w", "--json")
    places = {s["after"]: s["where"] for s in ran.json["results"][0]["steps"]}
    assert places["u = X@w - y"] == "columns 5-11" and places["f = u@u"] == "columns 14-22"
    assert places["G = 2*(X.T@u)"] is None
    shown = gradcli("derive", f, "--shapes", "X: m n; w: n; y: m", "--wrt", "w").stdout.split("\n")
    assert next(line for line in shown if "step" in line).split() == ["step", "formula"]


def test_lines_of_an_expression(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "u = tanh(x)\nsum(u**2)", "--shapes", "x: n", "--json")
    assert [s["where"] for s in ran.json["results"][0]["steps"][:2]] == ["line 1, columns 5-11", "line 2, columns 1-9"]


def test_a_product_is_one_step(gradcli: Callable[..., Any]) -> None:
    steps = gradcli("derive", "2*prod(x)", "--shapes", "x: n", "--json").json["results"][0]["steps"]
    assert [s["after"] for s in steps if s["rule"] == "name"] == ["f = 2*prod(x)"]
    assert steps[1]["rule"] == "product rule" and steps[1]["condition"] == "no entry of x is 0"


@for_rows("wrt", ["x,W", "W,x", "x,W,y", "y,W", "W*,x"])
def test_results_stand_in_the_order_of_wrt(gradcli: Callable[..., Any], wrt: str) -> None:
    ran = gradcli("derive", "sum((W@x - y)**2)", "--shapes", "W: m n; x: n; y: m", "--wrt", wrt, "--no-steps", "--json")
    assert [r["wrt"] for r in ran.json["results"]] == wrt.replace("*", "").split(",")


def test_an_adjoint_of_a_vector_is_multiplied_entry_by_entry(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "tanh(A@x)", "--shapes", "A: m n; x: n", "--wrt", "x", "--style", "graph", "--json")
    shown = [s["unicode"] for s in ran.json["results"][0]["steps"]]
    assert "t1_bar = f_bar ∘ (1 - f²)" in shown and "x_bar = Aᵀ t1_bar" in shown
