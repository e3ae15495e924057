"""Wrong claims are repaired by the smallest edit of their own source; right ones, and what may not be run, are left alone."""

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.checks.wrong import CauseBudget
from gradcli.repair.repair import REPAIR_WORKERS, describe_repair
from gradcli.repair.repair_process import result_of_search
from gradcli.repair.scope import Change, Edit, Right, apply_changes
from gradcli.repair.search import Repair, RepairSearch
from tests.rows import for_rows

pytestmark = pytest.mark.repairs
Gradcli = Callable[..., Any]

RIDGE = """\
import numpy as np


def f(w, X, y, lam):
    e = X @ w - y
    return np.mean(e ** 2) + lam * np.sum(w ** 2)


def g(w, X, y, lam):
    n = len(y)
    e = X @ w - y
    return {result}
"""
AT = "w=[0.5, -1.2], X=[[1,2],[0.3,-1],[2,0.1]], y=[1,-0.5,0.2], lam=0.3"


def diagnosis(ran: Any) -> dict[str, Any]:
    assert ran.exit_status == 1, ran.stdout + ran.stderr
    return next(p["diagnosis"] for p in ran.json["points"] if p["diagnosis"])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(gradcli: Gradcli, source: str, at: str, *more: str, names: str = "f,g") -> dict[str, Any]:
    Path("claimed.py").write_text(source, newline="")
    f, g = names.split(",")
    return diagnosis(gradcli("check", f"claimed.py:{f}", "--grad", g, "--at", at, "--json", *more))


@for_rows(
    ("f", "wrong", "right", "at"),
    [
        ("sum(tanh(x))", "1-tanh(x)**3", "1-tanh(x)**2", "x=[0.3,1.2,-0.5]"),
        ("0.5*sum((A@x - b)**2)", "r = A@x - b; x=A@r", "r = A@x - b; x=A.T@r", "x=[1,2], A=[[1,2],[3,5]], b=[0,1]"),
        ("log(x)*y", "x=y*x, y=log(x)", "x=y / x, y=log(x)", "x=1.5, y=0.4"),
        ("sin(x)*exp(y)", "x=cos(x)*exp(y), y=sin(x)*exp(x)", "x=cos(x)*exp(y), y=sin(x)*exp(y)", "x=0.4, y=0.9"),
    ],
)
def test_an_expression_gets_its_replacement(gradcli: Gradcli, f: str, wrong: str, right: str, at: str) -> None:
    found = diagnosis(
        gradcli("check", f, "--grad", wrong, "--at", at, "--wrt", "x,y" if "y=" in wrong else "x", "--json")
    )
    assert found["replacement"] == right and found["patch"] is None
    assert found["edits"][0] | {"kind": ""} == {"kind": "", "line": 1, "before": wrong, "after": right}


@for_rows("rows", [64, 40])  # of 19,200 and 30,000 entries
def test_an_expression_of_many_entries_gets_its_replacement(gradcli: Gradcli, rows: int) -> None:
    claim, at = (
        "r = tanh(X@W) - Y; W=X.T@(r*(1 - tanh(X@W)**2))/{}",
        "W=randn({n},100), X=randn({r},{n}), Y=randn({r},100)",
    )
    f, at = "sum((tanh(X@W) - Y)**2)/40", at.format(n=19_200 // rows, r=rows)
    found = diagnosis(gradcli("check", f, "--grad", claim.format(40), "--at", at, "--wrt", "W", "--json"))
    assert found["replacement"] == claim.format(20)


def test_claims_of_two_inputs_are_exchanged(gradcli: Gradcli) -> None:
    ran = gradcli("check", "x*y**2", "--grad", "x=2*x*y, y=y**2", "--at", "x=2, y=3", "--json")
    assert diagnosis(ran)["edits"] == [
        {"kind": "order", "line": 1, "before": "x=2*x*y, y=y**2", "after": "x=y**2, y=2*x*y"}
    ]


SOFTMAX = """\
import numpy as np


def f(W, X, y, reg):
    loss = 0.0
    for i in range(len(X)):
        scores = X[i] @ W
        p = np.exp(scores - np.max(scores))
        p /= p.sum()
        loss -= np.log(p[y[i]])
    return loss / len(X) + reg * np.sum(W * W)


def g(W, X, y, reg):
    dW = np.zeros_like(W)
    for i in range(len(X)):
        scores = X[i] @ W
        p = np.exp(scores - np.max(scores))
        p /= p.sum()
        for j in range(W.shape[1]):
            dW[:, j] += (p[j] - (j == y[i])) * X[i]
    dW /= len(X)
    dW += 2 * reg * W
    return dW


def point(rows, features):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, features)), rng.integers(0, 10, rows)
    return {"W": 0.01 * rng.normal(size=(features, 10)), "X": X, "y": y, "reg": 5e-3}


def many():
    return point(60, 31)


def most():
    return point(6, 2_100)
"""


@pytest.mark.slow
@for_rows(
    ("right", "wrong", "at", "after"),
    [
        ("2 * reg * W", "reg * W", "many", "dW += 2 * reg * W"),
        ("2 * reg * W", "reg * W", "most", "dW += 2 * reg * W"),  # 21,000 entries
        ("(p[j] - (j == y[i])) * X[i]", "p[j] * X[i]", "many", "p /= p.sum()\n        p[y[i]] -= 1"),
    ],
)
def test_a_claim_of_many_entries_in_loops_gets_an_edit(
    gradcli: Gradcli, here: Path, right: str, wrong: str, at: str, after: str
) -> None:
    found = check(gradcli, wrong.join(SOFTMAX.rsplit(right, 1)), f"claimed.py:{at}", "--wrt", "W")
    assert found["edits"][0]["after"] == after and found["patch"]


LAYERS = """\
import numpy as np


def f(p, X, rows):
    return np.sum(np.tanh(X @ p["W"] + p["b"]) ** 2) / rows


def g(p, X, rows):
    y = np.tanh(X @ p["W"] + p["b"])
    d = 2 * y * (1 - y**2) / rows
    return {"p": {"W": X.T @ d, "b": d.mean(0)}}


def point():
    rng = np.random.default_rng(0)
    return {"p": {"W": rng.normal(size=(40, 30)), "b": rng.normal(size=30)}, "X": rng.normal(size=(20, 40)), "rows": 20}
"""


def test_large_arrays_of_a_call_in_python_are_those_of_the_search(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("claimed_in_python.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(here)
    module = importlib.import_module("claimed_in_python")
    report = package.check(module.f, module.point(), grad=module.g)
    diagnosis: Any = report.points[0].diagnosis
    assert [edit.after for edit in diagnosis.edits] == ['return {"p": {"W": X.T @ d, "b": d.sum(0)}}']


RECURRENT = """\
import numpy as np


def forward(W, X):
    h, cache, loss = np.zeros(W.shape[0]), [], 0.0
    for x in X:
        before = h
        h = np.tanh(W @ h + x)
        cache.append((before, h))
        loss = loss + np.mean(h ** 2) / len(X)
    return loss, cache


def f(W, X):
    return forward(W, X)[0]


def g(W, X):
    T, n = X.shape
    dW, dh = np.zeros_like(W), np.zeros(n)
    for before, h in reversed(forward(W, X)[1]):
        da = (2 * h / (n * T) + dh) * (1 - h ** 2)
        dW += np.outer(da, before)
        dh = W.T @ da
    return dW


def point():
    rng = np.random.default_rng(0)
    return {"W": rng.normal(size=(3, 3)) / 2, "X": rng.normal(size=(4, 3))}
"""


@for_rows(("right", "wrong"), [("dh = W.T @ da", "dh = W @ da"), (" + dh)", ")")])
def test_values_in_a_list_that_f_and_the_claim_share_end_no_search(
    gradcli: Gradcli, here: Path, right: str, wrong: str
) -> None:
    found = check(gradcli, RECURRENT.replace(right, wrong), "claimed.py:point", "--wrt", "W")
    (edit,) = found["edits"]
    assert edit["after"] in RECURRENT, edit


LEFT_OUT = """\
import numpy as np


def f(x, y):
    return np.sum(np.sin(x) * y) + 0.5 * np.sum(x**2)


def g(x, y):
    dx = np.cos(x) * y
    return dx, np.sin(x)
"""


@pytest.mark.slow
def test_a_term_that_is_missing_is_added(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, LEFT_OUT, "x=[0.5, -1.2, 0.8], y=[2.1, 0.3, -0.4]")
    assert "x" in found["edits"][0]["after"] and found["patch"].count("\n+") == 2


SCORES = """\
import numpy as np


def f(W, b, X, y, reg):
    z = X @ W + b
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return -np.log(p[np.arange(len(y)), y]).mean() + 0.5 * reg * np.sum(W**2)


def g(W, b, X, y, reg):
    N = X.shape[0]
    z = X @ W + b
    d = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    d[np.arange(N), y] -= 1
    d /= N
    dW = X.T @ d + reg * W
    return dW, d.sum(axis=0)
"""


@pytest.mark.slow
@for_rows(
    ("right", "wrong", "after"),
    [
        ("    d /= N\n", "", "d[np.arange(N), y] -= 1\n    d /= X.shape[0]"),
        ("\n    d /= N\n    dW", "; dW", "d[np.arange(N), y] -= 1\n    d /= X.shape[0]; dW = X.T @ d + reg * W"),
        ("    d[np.arange(N), y] -= 1\n", "", "    d[np.arange(len(y)), y] -= 1"),
        (" + reg * W", "", "dW = X.T @ d + reg * W"),
        (
            "    d = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)",
            "    d = np.exp(z)",
            "d = np.exp(z)\n    d /= d.sum(axis=-1, keepdims=True)",
        ),
    ],
)
def test_a_line_of_backpropagation_that_is_missing_is_added(
    gradcli: Gradcli, here: Path, right: str, wrong: str, after: str
) -> None:
    at = "W=randn(4,3), b=randn(3), X=randn(5,4), y=[0,1,2,2,1], reg=0.1"
    (edit,) = check(gradcli, wrong.join(SCORES.rsplit(right, 1)), at, "--wrt", "W,b")["edits"]
    assert edit["after"].endswith(after), edit


ATTENTION = """\
import numpy as np


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def f(x, Wq, Wk, Wv, Wo, heads=4):
    n, d = x.shape
    dh = d // heads
    split = lambda a: a.reshape(n, heads, dh).transpose(1, 0, 2)
    q, k, v = split(x @ Wq), split(x @ Wk), split(x @ Wv)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(dh)
    p = softmax(s)
    o = (p @ v).transpose(1, 0, 2).reshape(n, d)
    y = o @ Wo
    return 0.5 * np.sum(y * y)


def g(x, Wq, Wk, Wv, Wo, heads=4):
    n, d = x.shape
    dh = d // heads
    split = lambda a: a.reshape(n, heads, dh).transpose(1, 0, 2)
    join = lambda a: a.transpose(1, 0, 2).reshape(n, d)
    q, k, v = split(x @ Wq), split(x @ Wk), split(x @ Wv)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(dh)
    p = softmax(s)
    o = join(p @ v)
    y = o @ Wo
    do = y @ Wo.T
    dWo = o.T @ y
    do = split(do)
    dv = p.transpose(0, 2, 1) @ do
    dp = do @ v.transpose(0, 2, 1)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(dh)
    dq = ds @ k
    dk = ds.transpose(0, 2, 1) @ q
    dq, dk, dv = join(dq), join(dk), join(dv)
    dx = dq @ Wq.T + dk @ Wk.T + dv @ Wv.T
    return dx, x.T @ dq, x.T @ dk, x.T @ dv, dWo
"""


@pytest.mark.slow
@for_rows(
    ("right", "wrong"),
    [
        (
            "ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(dh)",
            "ds = p * (dp - (dp * p).sum(-1, keepdims=True))",
        ),
        ("/ np.sqrt(dh)", "/ dh"),
        ("/ np.sqrt(dh)", "* np.sqrt(dh)"),
        (" + dv @ Wv.T", ""),
        ("(dp * p).sum(-1, keepdims=True)", "(dp * p).sum(-2, keepdims=True)"),
    ],
)
def test_attention_of_several_heads_is_put_right(gradcli: Gradcli, here: Path, right: str, wrong: str) -> None:
    at = "x=randn(6,8), Wq=randn(8,8), Wk=randn(8,8), Wv=randn(8,8), Wo=randn(8,8)"
    source = wrong.join(ATTENTION.rsplit(right, 1))
    (edit,) = check(gradcli, source, at, "--wrt", "x,Wq,Wk,Wv,Wo")["edits"]
    assert right in edit["after"]


LSTM = """\
import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def f(xs, W, U, b):
    n = len(b) // 4
    h, c = np.zeros(n), np.zeros(n)
    total = 0.0
    for x in xs:
        z = W @ x + U @ h + b
        i, f, o = sigmoid(z[:n]), sigmoid(z[n : 2 * n]), sigmoid(z[2 * n : 3 * n])
        g = np.tanh(z[3 * n :])
        c = f * c + i * g
        h = o * np.tanh(c)
        total += np.sum(h**3)
    return total


def g(xs, W, U, b):
    n = len(b) // 4
    h, c = np.zeros(n), np.zeros(n)
    kept = []
    for x in xs:
        z = W @ x + U @ h + b
        i, f, o = sigmoid(z[:n]), sigmoid(z[n : 2 * n]), sigmoid(z[2 * n : 3 * n])
        g = np.tanh(z[3 * n :])
        before = h, c
        c = f * c + i * g
        h = o * np.tanh(c)
        kept.append((x, before, i, f, o, g, c, h))
    dW, dU, db = np.zeros_like(W), np.zeros_like(U), np.zeros_like(b)
    dh_next, dc_next = np.zeros(n), np.zeros(n)
    for x, (h0, c0), i, f, o, g, c, h in reversed(kept):
        dh = 3 * h**2 + dh_next
        t = np.tanh(c)
        do = dh * t
        dc = dc_next + dh * o * (1 - t**2)
        di = dc * g
        df = dc * c0
        dg = dc * i
        dz = np.concatenate([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
        dW += np.outer(dz, x)
        dU += np.outer(dz, h0)
        db += dz
        dh_next = U.T @ dz
        dc_next = dc * f
    return dW, dU, db
"""


@pytest.mark.slow
@for_rows(
    ("right", "wrong"),
    [("dh * o * (1 - t**2)", "dh * o"), ("do * o * (1 - o)", "do"), ("dc_next = dc * f", "dc_next = dc")],
)
def test_a_step_that_a_loop_leaves_out_is_written(gradcli: Gradcli, here: Path, right: str, wrong: str) -> None:
    at = "xs=randn(4,3), W=randn(8,3), U=0.5*randn(8,2), b=randn(8)"
    (edit,) = check(gradcli, LSTM.replace(right, wrong), at, "--wrt", "W,U,b")["edits"]  # which has its own f and g
    assert edit["after"] in LSTM and right in edit["after"]


def test_the_mean_that_the_derivative_of_a_centred_array_takes_away_is_added(gradcli: Gradcli) -> None:
    at = "x=[0.3, 1.1, -0.4], c=[1, 2, 0.5]"
    ran = gradcli("check", "sum(c*(x - mean(x))*0.7)", "--grad", "c*0.7", "--at", at, "--wrt", "x", "--json")
    assert diagnosis(ran)["replacement"] == "c*0.7 - mean(c*0.7)"


@for_rows(
    ("wrong", "right"),
    [
        ("softmax(z)*c", "softmax(z) * (c - sum(softmax(z) * c))"),
        ("p=softmax(z); p*(1-p)*c", "p=softmax(z); p * (c - sum(p * c))"),
    ],
)
def test_the_mean_that_the_derivative_of_softmax_takes_away_is_added(gradcli: Gradcli, wrong: str, right: str) -> None:
    at = "z=[0.1, 0.7, -0.3], c=[1, 2, 0.5]"
    ran = gradcli("check", "sum(c*softmax(z))", "--grad", wrong, "--at", at, "--wrt", "z", "--json")
    assert diagnosis(ran)["replacement"] == right


@for_rows(
    ("f", "wrong", "right"),
    [
        ("sum(x**2)*y", "2*3*x*y", "2*x*y"),
        ("sum(log(x))*y", "y/(2*x)", "y/x"),
        ("sum(sin(x))*y", "cos(2*x)*y", "cos(x)*y"),
    ],
)
def test_a_factor_that_is_one_too_many_is_left_out(gradcli: Gradcli, f: str, wrong: str, right: str) -> None:
    ran = gradcli("check", f, "--grad", wrong, "--at", "x=[1, 2], y=0.7", "--wrt", "x", "--json")
    assert diagnosis(ran)["replacement"] == right


def test_a_number_and_a_factor_that_are_missing_are_added_without_brackets(gradcli: Gradcli) -> None:
    ran = gradcli("check", "sum(y*x**2)", "--grad=-x", "--at", "x=[1, 2, 3], y=[2, 3, 5]", "--wrt", "x", "--json")
    assert diagnosis(ran)["replacement"] == "x * 2 * y"


@pytest.mark.slow
def test_two_edits_are_found_where_one_is_not_enough(gradcli: Gradcli) -> None:
    ran = gradcli(
        "check", "sin(x)*exp(y)", "--grad", "x=sin(x)*exp(y), y=sin(x)*exp(x)", "--at", "x=0.4, y=0.9", "--json"
    )
    found = diagnosis(ran)
    assert found["replacement"] == "x=cos(x)*exp(y), y=sin(x)*exp(y)" and len(found["edits"]) == 2


BY_FOLDER = """\
import os

import numpy as np

from factor import FACTOR

SCALE = FACTOR * float(os.environ["SCALE"])


def f(x):
    return np.sum(SCALE * x**2)


def g(x):
    return 3 * SCALE * x
"""


@pytest.mark.slow
def test_each_claim_is_tried_where_it_was_checked_by_one_process(
    gradcli: Gradcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = set()
    for factor in (2, 5):
        folder = tmp_path / str(factor)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SCALE", str(factor))
        Path("factor.py").write_text(f"FACTOR = {factor}\n")
        found = check(gradcli, BY_FOLDER, "x=[0.5, -1.2, 0.8]")
        (edit,) = found["edits"]
        assert (edit["before"].strip(), edit["after"].strip()) == ("return 3 * SCALE * x", "return 2 * SCALE * x")
        kept.add(REPAIR_WORKERS.waiting)
        sys.modules.pop("factor", None)
    assert len(kept) == 1 and None not in kept


@pytest.mark.slow
def test_where_no_process_is_copied_each_claim_has_one_of_its_own(
    gradcli: Gradcli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcli.repair.repair.FORKS", False)
    monkeypatch.setattr(sys, "path", [*sys.path, Path("which is no text")])
    for _ in range(2):
        assert check(gradcli, LEFT_OUT, "x=[0.5, -1.2, 0.8], y=[2.1, 0.3, -0.4]")["patch"]
        assert REPAIR_WORKERS.waiting is None


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_function_gets_a_patch_that_git_applies(gradcli: Gradcli, here: Path, ends: str) -> None:
    source = RIDGE.format(result="2 * X.T @ e + 2 * lam * w").replace("\n", ends)
    found = check(gradcli, source, AT, "--wrt", "w", "--patch", "fix.diff")
    assert found["edits"][0]["line"] == 12 and "replacement" not in found
    assert (here / "claimed.py").read_bytes() == source.encode()  # it is never written to
    assert (here / "fix.diff").read_bytes().decode() == found["patch"]
    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    ran = gradcli("check", "claimed.py:f", "--grad", "g", "--at", AT, "--wrt", "w")
    assert ran.exit_status == 0 or _fresh(here)


def _fresh(folder: Path) -> bool:
    """Whether the patched file passes in a process that has not loaded the old one."""
    command = [sys.executable, "-m", "gradcli", "check", "claimed.py:f", "--grad", "g", "--at", AT, "--wrt", "w"]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_several_targets_write_one_diff(gradcli: Gradcli, here: Path) -> None:
    for name in ("one", "two"):
        Path(f"{name}.py").write_text(RIDGE.format(result="2 * X.T @ e + 2 * lam * w"))
    Path("gradcli.toml").write_text(
        "".join(
            f'[[check]]\nid = "{name}"\ntarget = "{name}.py:f"\ngrad = "{name}.py:g"\nwrt = "w"\nat = "{AT}"\n'
            for name in ("one", "two")
        )
    )
    ran = gradcli("check", "--patch", "fix.diff")
    assert ran.exit_status == 1 and "2 repairs are in fix.diff" in ran.stderr, ran.stdout + ran.stderr
    assert (here / "fix.diff").read_text().count("--- a/") == 2


@pytest.mark.slow
def test_a_file_without_a_last_newline_keeps_it_that_way(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, RIDGE.format(result="2 * X.T @ e + 2 * lam * w").rstrip(), AT, "--wrt", "w")
    assert found["patch"].count("\\ No newline at end of file") == 2


@pytest.mark.slow
def test_the_report_shows_the_lines_of_the_edit(gradcli: Gradcli, here: Path) -> None:
    Path("claimed.py").write_text(RIDGE.format(result="2 / n * X.T @ e - 2 * lam * w"))
    text = gradcli("check", "claimed.py:f", "--grad", "g", "--at", AT, "--wrt", "w").stdout
    assert "- return 2 / n * X.T @ e - 2 * lam * w\n" in text and "+ return 2 / n * X.T @ e + 2 * lam * w\n" in text


METHODS = """\
import numpy as np


class Spring:
    stiffness = 2.5

    def energy(self, x):
        return 0.5 * self.stiffness * np.sum(self.stretch(x) ** 2)

    def stretch(self, x):
        return x[1:] - x[:-1]

    def pulled(self, x):
        return self.stiffness * (x[1:] - x[:-1])

    def forces(self, x):
        s = self.pulled(x)
        out = np.zeros_like(x)
        out[:-1] -= s
        out[:-1] += s
        return out
"""
CLOSURES = """\
import numpy as np


def made(scale):
    def g(x):
        return scale * np.sin(x)

    return g


def f(x):
    return 3.0 * np.sum(np.sin(x))


g = made(3.0)
"""
HELPER = """\
import numpy as np


def f(x):
    return np.sum(np.log(np.cosh(x)))


def slope(x):
    return 1 / np.tanh(x)


g = lambda x: slope(x)
"""
LOOP = """\
from builtins import range

import numpy as np


def f(x):
    total = 0.0
    for k in range(len(x) - 1):
        total += (x[k + 1] - x[k] ** 2) ** 2
    return total


def g(x):
    out = np.zeros(len(x))
    for k in range(len(x) - 1):
        r = x[k + 1] - x[k] ** 2
        out[k] = -4 * x[k] * r
        out[k + 1] += 2 * r
    return out
"""
RECURSION = """\
import numpy as np


def f(x):
    p = 1.0
    for a in x:
        p = p * (1 - a * p)
    return p


def g(x):
    p, dp = 1.0, np.zeros(len(x))
    for k, a in enumerate(x):
        p = p * (1 - a * p)
        dp = dp * (1 - 2 * a * p) - p**2 * (np.arange(len(x)) == k)
    return dp
"""


SOFT_MINIMA = """\
import numpy as np

def softmin(a):
    e = np.exp(-np.asarray(a))
    return -np.log(np.sum(e)), e / np.sum(e)

def forward(x):
    R = np.zeros(len(x) + 1)
    R[0] = x[0]
    for i in range(1, len(x) + 1):
        s, _ = softmin([R[i - 1], x[i - 1]])
        R[i] = s + x[i - 1] ** 2
    return R

def f(x):
    return forward(x)[-1]

def g(x):
    R, dx = forward(x), np.zeros(len(x))
    d = 1.0
    for i in range(len(x), 0, -1):
        _, p = softmin([R[i - 1], x[i - 1]])
        dx[i - 1] += (p[1] - 2 * x[i - 1]) * d
        d = d * p[0]
    dx[0] += d
    return dx
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "names", "after"),
    [
        (SOFT_MINIMA, "f,g", "dx[i - 1] += (p[1] + 2 * x[i - 1]) * d"),
        (RECURSION, "f,g", "dp = dp * (1 - 2 * a * p) - p**2 * (np.arange(len(x)) == k)\n        p = p * (1 - a * p)"),
        (METHODS, "Spring.energy,Spring.forces", "out[1:] += s"),
        (CLOSURES, "f,g", "return scale * np.cos(x)"),
        (HELPER, "f,g", None),
        (LOOP, "f,g", "out[k] += -4 * x[k] * r"),
    ],
)
def test_methods_closures_helpers_and_loops_are_edited(
    gradcli: Gradcli, here: Path, source: str, names: str, after: str | None
) -> None:
    found = check(gradcli, source, "x=[0.5, -1.2, 0.8, 2.1]", names=names)
    assert found["patch"] and (after is None or found["edits"][0]["after"] == after)


class _Raises:
    """An object that raises an error where it is read in another process."""

    def __reduce__(self) -> Any:
        return _raise, ("a\x1b[2J\nb",)


def _raise(text: str) -> None:
    raise RuntimeError(text)


def test_an_error_that_ends_the_search_for_an_edit_is_named() -> None:
    why = result_of_search(pickle.dumps(_Raises())).why
    assert why == r"an error ended the search for an edit: RuntimeError: a\x1b[2J b"


COMPLEX = """\
import numpy as np

rng = np.random.default_rng(0)
A, b = rng.normal(size=(5, 4)) + 1j * rng.normal(size=(5, 4)), np.arange(5.0)


def amplitudes(x, y):
    return np.sum((np.abs(A @ (x + 1j * y)) ** 2 - b) ** 2)


def g(x, y):
    w = A @ (x + 1j * y)
    d = {line}
    return d.real, d.imag


def f(x):
    return np.sum(np.abs(np.fft.fft(x)) ** 4)


def h(x):
    s = np.fft.fft(x)
    return len(x) * np.real(np.fft.ifft({spectrum}))
"""


@pytest.mark.parametrize(
    ("names", "line", "says"),
    [
        ("amplitudes,g", "4 * A.T @ ((np.abs(w) ** 2 - b) * w)", "a conjugate is missing: `A.T` should be `A.T.conj()`"),
        ("amplitudes,g", "4 * A.conj().T @ ((np.abs(w) ** 2 - b) * w.conj())", "a conjugate is one too many: `w.conj()` should be `w`"),
        ("amplitudes,g", "4 * A.conj().T @ ((np.abs(w) ** 2 - b) * np.conj(w))", "a conjugate is one too many: `np.conj(w)` should be `w`"),
        ("f,h", "4 * np.abs(s) ** 2 * s.conj()", "a conjugate is one too many: `s.conj()` should be `s`"),
    ],
)  # fmt: skip
def test_a_conjugate_that_is_missing_or_too_many_is_named(
    gradcli: Gradcli, here: Path, names: str, line: str, says: str
) -> None:
    source = COMPLEX.format(line=line, spectrum=line)
    found = check(
        gradcli, source, "x=[0.5, -1.2, 0.8, 2.1]" + ", y=[1, 0.3, -0.7, 0.2]" * (names == "amplitudes,g"), names=names
    )
    assert found["patch"] and found["message"] == says


SHARED = """\
import numpy as np


def rate(x):
    return np.tanh(x)


def f(x):
    return np.sum(rate(x) * x)


def g(x):
    return rate(x)
"""


@pytest.mark.slow
def test_what_f_uses_is_never_edited(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, SHARED, "x=[0.5, -1.2]")
    assert found["patch"] is None or "@@ -1" not in found["patch"].split("def g")[0].replace("@@ -10", "")
    assert all(edit["line"] >= 12 for edit in found.get("edits", []))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("len([open])", "it uses open"),
        ("np.save('seen.npy', x)", "it uses save"),
        ("os.getpid()", "it uses os"),
        ("global seen; seen = x", "a global statement"),
        ("f.calls = 1", "it assigns to f.calls"),
    ],
)
def test_code_that_does_more_than_compute_is_not_run_again(gradcli: Gradcli, here: Path, line: str, says: str) -> None:
    source = f"import os\nimport numpy as np\n\ndef f(x):\n    return np.sum(x**2)\n\ndef g(x):\n    {line}\n    return 3 * x\n"
    found = check(gradcli, source, "x=[0.5, -1.2]")
    assert found["patch"] is None and says in found["no_patch"]


HELPED = """\
import numpy as np

def soft(z):
    return np.log1p(np.exp(z)), 1 / (1 + np.exp(z))

def probability(z):
    return soft(z)[1]

def f(x):
    v, p = soft(x)
    return np.sum(v * v), 2 * v * p
"""


@pytest.mark.slow
def test_a_function_that_other_code_uses_is_edited_last(gradcli: Gradcli, here: Path) -> None:
    Path("claimed.py").write_text(HELPED)
    found = diagnosis(gradcli("check", "claimed.py:f", "--value-and-grad", "--at", "x=[0.3, -1.2]", "--json"))
    assert found["edits"][0]["after"] == "return np.sum(v * v), 2 * v * (1 - p)"
    assert not any("log1p" in text for text in found.get("alternatives", ()))


OTHER_MODULE = """\
import numpy as np

def logistic(x):
    return 1 / (1 + half(x)**2)

def half(x):
    return np.exp(-x / 2)

def logged(x):
    return written(logistic(x))

def written(x):
    open("seen", "w").close()
    return x
"""


@pytest.mark.slow
@pytest.mark.parametrize("function", ["logistic", "logged"])
@pytest.mark.parametrize(
    ("line", "of_module"),
    [("from beside import *", ""), ("from beside import np, {}", ""), ("import beside", "beside.")],
)
def test_functions_of_other_modules_are_run_again_if_they_only_compute(
    gradcli: Gradcli, here: Path, line: str, of_module: str, function: str
) -> None:
    Path("beside.py").write_text(OTHER_MODULE)
    called = f"{of_module}{function}(x)"
    source = (
        f"import numpy as np\n{line.format(function)}\n\ndef f(x):\n    return np.sum({called})\n\n"
        f"def g(x):\n    p = {called}\n    return p * (1 + p)\n"
    )
    found = check(gradcli, source, "x=[0.5, -1.2]")
    sys.modules.pop("beside", None)
    if function == "logistic":
        assert found["edits"][0]["after"] == "return p * (1 - p)"
    else:
        says = f"g is not run in search of a repair: it uses {of_module.rstrip('.') or function}, line 8"
        assert found["no_patch"] == says
        ran = gradcli("check", "claimed.py:f", "--grad", "g", "--at", "x=[0.5, -1.2]")
        assert f"No edit was tried: {says}" in " ".join(ran.stdout.split())


HARMFUL = """\
import numpy as np


def logged(x):
    np.save("seen.npy", x)
    return np.sin(x)


def wiped(x):
    open("wiped", "w").close()
    return np.cos(x)


def f(x):
    return np.sum(logged(x) * np.tanh(x))


def slope(x):
    return np.cosh(x)


def g(x):
    return slope(x) * 5
"""


@pytest.mark.slow
def test_no_other_function_is_called_that_does_more_than_compute(gradcli: Gradcli, here: Path) -> None:
    check(gradcli, HARMFUL, "x=[0.5, -1.2]")
    assert not (here / "wiped").exists()  # it has the arity of `slope`, in whose place it could be tried


@pytest.mark.slow
def test_an_edit_that_does_not_end_is_given_up(gradcli: Gradcli, here: Path) -> None:
    source = (
        "import numpy as np\n\ndef f(x):\n    return np.sum(x**2)\n\ndef g(x):\n    k = 0\n    while k < 3:\n        k = k + 1\n"
        "    return 3 * x\n"
    )
    assert check(gradcli, source, "x=[0.5, -1.2]")["edits"][0]["after"] in ("return 2 * x", "return (k - 1) * x")


@pytest.mark.slow
def test_a_claim_outside_the_project_gets_no_patch(
    gradcli: Gradcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "claimed.py").write_text(RIDGE.format(result="2 * X.T @ e + 2 * lam * w"))
    monkeypatch.chdir(inside)
    ran = gradcli("check", "../claimed.py:f", "--grad", "../claimed.py:g", "--at", AT, "--wrt", "w", "--json")
    assert diagnosis(ran)["patch"] is None and "outside the project" in diagnosis(ran)["no_patch"]


@pytest.mark.slow
def test_where_no_edit_helps_the_closed_form_is_shown(gradcli: Gradcli, here: Path) -> None:
    ran = gradcli("check", "x**2*y", "--grad", "x=gamma(x)*7, y=x**2", "--at", "x=1.5, y=0.4", "--json")
    assert diagnosis(ran)["closed_form"]["x"] in ("2*x*y", "2*y*x") and "replacement" not in diagnosis(ran)
    found = check(
        gradcli, LEFT_OUT.replace("np.cos(x) * y", "np.arctan(7 * x)"), "x=[0.5, -1.2, 0.8], y=[2.1, 0.3, -0.4]"
    )
    assert found["patch"] is None and "np.cos(x)" in found["closed_form"]["x"]
    assert "y" not in found["closed_form"]


def test_no_repair_multiplies_a_claim_by_the_right_gradient_over_the_claim(gradcli: Gradcli) -> None:
    found = diagnosis(gradcli("check", "sum(x**2)", "x=[1,2,3]", "--grad", "x=6.6*x", "--json"))
    assert "replacement" not in found and found["closed_form"] == {"x": "2*x"}, found


def test_a_right_claim_has_no_diagnosis(gradcli: Gradcli, here: Path) -> None:
    Path("claimed.py").write_text(RIDGE.format(result="2 / n * X.T @ e + 2 * lam * w"))
    ran = gradcli("check", "claimed.py:f", "--grad", "g", "--at", AT, "--wrt", "w", "--json", "--patch", "fix.diff")
    assert ran.exit_status == 0 and ran.json["points"][0]["diagnosis"] is None
    assert "nothing is wrong" in ran.stderr and not (here / "fix.diff").exists()


@pytest.mark.slow
def test_two_runs_give_the_same_patch(gradcli: Gradcli, here: Path) -> None:
    source = RIDGE.format(result="2 * X.T @ e + 2 * lam * w")
    first, second = (json.dumps(check(gradcli, source, AT, "--wrt", "w")) for _ in range(2))
    assert first == second


FIT = """\
import numpy as np


class Fit:
    def __init__(self, t, y, sigma):
        self.t, self.y, self.sigma = t, y, sigma

    def residual(self, params):
        return (params["A"] * np.exp(-params["k"] * self.t) + params["c"] - self.y) / self.sigma

    def jacobian(self, params):
        e = np.exp(-params["k"] * self.t)
        J = np.empty((len(self.t), 3))
        J[:, 0] = e / self.sigma
        J[:, 1] = -params["A"] * self.t * e
        J[:, 2] = 1 / self.sigma
        return J


T = np.linspace(0, 5, 12)
FIT = Fit(T, 2 * np.exp(-0.8 * T) + 0.3, 0.05)
START = {"params": {"A": 1.5, "k": 0.5, "c": 0.1}}
"""


@pytest.mark.slow
def test_no_repair_reads_memory_that_nothing_has_written(gradcli: Gradcli, here: Path) -> None:
    Path("claimed.py").write_text(FIT)
    found = diagnosis(gradcli("check", "claimed.py:FIT.residual", "--jac", "FIT.jacobian", "--at", "START", "--json"))
    assert "self.sigma" in found["edits"][0]["after"]  # and not J[:, 2], which an earlier call has left in the memory


TAIL_SUMS = """\
import numpy as np


def f(b, Z, t):
    w = np.exp(Z @ b)
    return sum(np.log(w[t >= s].sum()) for s in t)


def g(b, Z, t):
    w = np.exp(Z @ b)
    out = np.zeros(len(b))
    for s in t:
        tail = t >= s
        z = (w[tail, None] * np.minimum(Z[tail], 0)).sum(0)
        out += z / w[tail].sum()
    return out


AT = {"b": np.array([0.3, -0.2]), "Z": np.array([[0.5, 1.0], [1.2, 0.1], [0.3, 0.9], [0.8, 0.2]]), "t": np.array([3, 1, 2, 4])}
"""
LAYER = """\
import numpy as np


class Scale:
    def forward(self, x, w):
        self.x = x
        return x * w

    def backward(self, dy):
        return self.x * dy / 6


def f(w, x):
    return np.sum(np.tanh(Scale().forward(x, w)))


def g(w, x):
    layer = Scale()
    y = layer.forward(x, w)
    return layer.backward(1 - np.tanh(y) ** 2)
"""


@pytest.mark.slow
def test_an_edit_that_is_right_for_the_signs_of_the_point_alone_is_no_repair(gradcli: Gradcli, here: Path) -> None:
    Path("claimed.py").write_text(TAIL_SUMS)
    found = diagnosis(gradcli("check", "claimed.py:f", "--grad", "g", "--at", "AT", "--wrt", "b", "--json"))
    assert found["patch"] is None or "maximum" not in found["patch"]  # it is right for what is positive


def test_an_edit_with_a_size_of_the_point_is_right_here_only(gradcli: Gradcli, here: Path) -> None:
    ran = gradcli("check", "mean(x**2)", "--grad", "x=2*x", "--at", "x=[1,2,3,4]", "--json")
    found = diagnosis(ran)
    assert found.get("replacement") is None and found["right_here_only"]
    assert found["closed_form"] == {"x": "2*x/n"} and found["closed_form_shapes"] == "x: n"
    text = gradcli("check", "mean(x**2)", "--grad", "x=2*x", "--at", "x=[1,2,3,4]").stdout
    assert "Right here only: " in text and 'closed form, with --shapes "x: n"' in text


def test_an_edit_that_is_right_on_one_side_of_a_threshold_is_right_here_only(gradcli: Gradcli, here: Path) -> None:
    claim = "x=2*clip(x, -1, 1)*(x <= 1)"
    ran = gradcli("check", "sum(clip(x, -1, 1)**2)", "--grad", claim, "--at", "x=[0.5, -2, 3]", "--json")
    found = diagnosis(ran)
    assert found.get("replacement") is None and found["right_here_only"]


def test_a_named_size_may_stand_in_a_repair(gradcli: Gradcli) -> None:
    ran = gradcli("check", "mean(x**2)", "--grad", "x=2*x", "--at", "x=[1,2,3,4]", "--shapes", "x: n", "--json")
    assert diagnosis(ran)["replacement"] == "x=2*x / n"


@pytest.mark.slow
def test_a_number_that_is_a_size_by_accident_is_left_out(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, LAYER, "w=[0.5, -1.2, 0.8, 2.1, 0.3, -0.4], x=[1.5, 0.2, -0.8, 0.7, 1.1, 0.6]", "--wrt", "w")
    assert [e["after"] for e in found["edits"]] == ["return self.x * dy"]


@pytest.mark.slow
def test_a_closed_form_that_holds_at_one_size_alone_is_not_shown(gradcli: Gradcli, here: Path) -> None:
    source = (
        "import numpy as np\n\ndef f(x, w):\n    a, b, c, d = x\n    return a * w[0] + b * c\n\n"
        "def g(x, w):\n    return np.arctan(x) * 7\n"
    )
    found = check(gradcli, source, "x=[1.5, 2.5, 3.5, 4.5], w=[1.5, 2.5]", "--wrt", "x")
    assert "closed_form" not in found and found["patch"] is None


@pytest.mark.slow
def test_a_claim_may_assign_to_attributes_of_its_layer(gradcli: Gradcli, here: Path) -> None:
    source = (
        "import numpy as np\n\nclass Linear:\n    def forward(self, x):\n        self.x = x\n        return self.W @ x\n\n"
        "    def backward(self, dy):\n        return -np.outer(dy, self.x)\n\n"
        "def f(W, x):\n    return 0.5 * np.sum(np.tanh(W @ x) ** 2)\n\n"
        "def g(W, x):\n    layer = Linear()\n    layer.W = W\n    y = np.tanh(layer.forward(x))\n"
        "    return layer.backward(y * (1 - y**2))\n"
    )
    found = check(gradcli, source, "W=[[0.5, -1.2], [0.8, 0.3]], x=[0.4, 0.9]", "--wrt", "W")
    assert [e["after"] for e in found["edits"]] == ["return np.outer(dy, self.x)"]


@pytest.mark.slow
def test_labels_and_masks_are_redrawn_as_what_they_are(gradcli: Gradcli, here: Path) -> None:
    source = (
        "import numpy as np\n\ndef f(z, y):\n    return np.sum(np.log(np.sum(np.exp(z), 1)) - np.sum(y * z, 1))\n\n"
        "def g(z, y):\n    p = np.exp(z) / np.sum(np.exp(z), 1, keepdims=True)\n    return p + y\n"
    )
    at = "z=[[0.5, 1.2, -0.3], [0.1, -0.7, 0.9]], y=[[0,1,0],[1,0,0]]"
    assert check(gradcli, source, at, "--wrt", "z")["edits"][0]["after"] == "return p - y"


LOGIT = """\
import numpy as np

X = np.array([[10.0, 20.0], [30.0, -10.0], [0.5, 4.0]])


class Logit:
    def __init__(self, scale):
        self.scale = scale

    def fun(self, b):
        Xs = X / self.scale
        z = Xs @ b
        p = np.exp(z) / np.exp(z).sum()
        return -np.log(p[0]), {gradient}


MODEL = Logit(8.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "right"), [("p @ X - X[0]", "p @ Xs - Xs[0]"), ("Xs[0] - p @ Xs", "p @ Xs - Xs[0]")])
def test_a_function_that_returns_both_is_repaired_where_its_value_stays(
    gradcli: Gradcli, here: Path, wrong: str, right: str
) -> None:
    Path("logit.py").write_text(LOGIT.format(gradient=wrong))
    found = diagnosis(gradcli("check", "logit.py:MODEL.fun", "--value-and-grad", "--at", "b=[0.1, -0.3]", "--json"))
    assert found["edits"] == [
        {
            "kind": found["edits"][0]["kind"],
            "line": 14,
            "before": f"return -np.log(p[0]), {wrong}",
            "after": f"return -np.log(p[0]), {right}",
        }
    ]
    assert (found["file"], found["line"]) == ("logit.py", 14)


@pytest.mark.slow
def test_what_is_there_and_what_it_should_be_are_said(gradcli: Gradcli, here: Path) -> None:
    source = """\
import numpy as np


def f(w, A):
    return np.sum(A @ w**2 * np.arange(3.0))


def g(w, A):
    k = np.arange(3.0)
    return 2 * w * np.sum(A * k[:, None], axis=1)
"""
    found = check(gradcli, source, "w=[0.5, -1.2, 2], A=[[1, 2, 0.3],[3, 5, 1],[2, -1, 4]]", "--wrt", "w")
    assert found["message"] == "an axis is wrong: `axis=1` should be `axis=0`"


@pytest.mark.slow
def test_an_edit_that_repairs_the_only_wrong_entry_names_the_mistake(gradcli: Gradcli, here: Path) -> None:
    source = """\
import numpy as np

R = 8.314


def f(w, T):
    return np.sum((w[0] - w[1] / (R * T)) ** 2)


def g(w, T):
    res = w[0] - w[1] / (R * T)
    return np.array([2 * np.sum(res), -2 * np.sum(res / T)])
"""
    found = check(gradcli, source, "w=[2, 5000], T=[300, 320, 350]", "--wrt", "w")
    assert found["kind"] == "slip" and "should be" in found["message"]
    assert found["edits"][0]["after"] == "return np.array([2 * np.sum(res), -2 * np.sum(res / T) / R])"


@for_rows(
    ("kind", "before", "change", "says"),
    [
        ("name", "g += X[c] - p @ X", [(5, 6, "Xs"), (16, 17, "Xs")], "a name is wrong: `X` should be `Xs`"),
        ("axis", "g = np.sum(A, axis=0)", [(19, 20, "1")], "an axis is wrong: `axis=0` should be `axis=1`"),
        ("axis", "v = x.var(0, ddof=1)", [(18, 19, "0")], "an argument is wrong: `ddof=1` should be `ddof=0`"),
        ("function", "x=sin(x), y=1", [(2, 5, "cos")], "a function is wrong: `sin` should be `cos`"),
        ("constant", "g = 2 * x**2", [(4, 5, "3")], "a number is wrong: the first `2` should be `3`"),
        ("transpose", "g = A @ x + A @ y", [(12, 13, "A.T")], "a transpose is missing: the second `A` should be `A.T`"),
        ("exponent", "g = 3 * x**2", [(11, 12, "3")], "an exponent is wrong: `2` should be `3`"),
        (
            "order",
            "h = 2 * h\ng = h\n",
            [(0, 15, "g = h\nh = 2 * h")],
            "the order of two statements is wrong: `g = h` belongs before `h = 2 * h`",
        ),
        ("statement", "g = x\ng += y\n", [(6, 13, "")], "a statement is one too many: `g += y`"),
        ("statement", "g = x\n", [(5, 5, "\ng += y")], "a statement is missing: `g += y`"),
    ],
)
def test_the_slip_in_words(kind: str, before: str, change: list[tuple[int, int, str]], says: str) -> None:
    edit = Edit(kind, 1.0, 1, tuple(Change(*c) for c in change))
    assert describe_repair(Repair(apply_changes(before, edit.changes), (edit,), (before,))) == says


READS_TEXT = """
import math


def model(deck):
    return "J = %.10e" % (math.sin(float(deck)) * math.exp(-float(deck) / 3))


def f(x):
    return float(model(f"{x:.14g}").split("=")[1])


def g(x):
    return 1.5 * math.exp(-x / 3) * (math.cos(x) - math.sin(x) / 3)
"""


@pytest.mark.slow
def test_the_right_gradient_of_a_function_whose_trace_differs_is_that_of_its_values(
    gradcli: Gradcli, here: Path
) -> None:
    (edit,) = check(gradcli, READS_TEXT, "x=0.7")["edits"]
    assert edit["after"].strip() == "return math.exp(-x / 3) * (math.cos(x) - math.sin(x) / 3)"


STEP = """\
import numpy as np


def f(kappa, u, dx=0.25):
    return np.sum(kappa[:-1] * kappa[1:] * u) / dx**3


def g(kappa, u, dx=0.25):
    made = np.zeros(len(kappa))
    made[:-1] += kappa[1:] * u / dx
    made[1:] += kappa[:-1] * u / dx
    return made
"""


def test_a_default_that_is_equal_to_a_count_by_accident_moves(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, STEP, "kappa=linspace(0.3, 1.2, 17), u=randn(16)", "--wrt", "kappa")
    assert all("len(" not in edit["after"] for edit in found.get("edits", ())), found
    assert found["message"].endswith("; or dx**2 too many, or a division by dx**2 is missing"), found


PICKED = """\
import numpy as np


def f(F, Y, rows):
    return np.sum(F ** 2) + np.sum((F[rows] - Y[rows]) ** 2)


def g(F, Y, rows):
    made = 2 * F
    made[rows] += F[rows] - Y[rows]
    return made
"""


@for_rows("rows", ["[0, 3]", "[3, 0]", "[0, 1, 2, 3]", "[0, 2, 3]"])
def test_an_index_without_repetitions_has_none_at_other_points(gradcli: Gradcli, here: Path, rows: str) -> None:
    found = check(gradcli, PICKED, f"F=randn(5, 2), Y=randn(5, 2), rows={rows}", "--wrt", "F")
    assert found["edits"][0]["after"] == "made[rows] += 2 * (F[rows] - Y[rows])", found


RATES = """\
import numpy as np


def f(k, b):
    for _ in range(4):
        b = b - 0.1 * (3 * k * b * b)
    return 0.5 * np.sum((b - 1) ** 2)


def g(k, b):
    kept = []
    for _ in range(4):
        kept.append(b)
        b = b - 0.1 * (3 * k * b * b)
    lam, dk = b - 1, 0.0
    for b in reversed(kept):
        dk = dk - 0.1 * np.sum(3 * b * b * lam)
        lam = lam - 0.1 * (3 * k * b * lam)
    return {"k": dk, "b": lam}
"""


def test_a_number_that_is_wrong_is_no_contribution_that_is_missing(gradcli: Gradcli, here: Path) -> None:
    found = check(gradcli, RATES, "k=0.7, b=[0.5, 0.8, 1.3]")
    assert (found["kind"], found["message"]) == ("slip", "a number is wrong: `0.1` should be `0.2`")


ADJOINT = """\
import numpy as np


def f(k, b):
    for _ in range(3):
        b = b - 0.1 * np.sin(k * b)
    return 0.5 * np.sum((b - 1) ** 2)


def g(k, b):
    kept = []
    for _ in range(3):
        kept.append(b)
        b = b - 0.1 * np.sin(k * b)
    lam, dk = b - 1, np.zeros(2)
    for b in reversed(kept):
        lam = lam - 0.1 * np.cos(k * b) * k * lam
        dk = dk - 0.1 * np.cos(k * b) * b * lam
    return dk, lam
"""
ITEMS = """\
import numpy as np


def f(U, V, u, i):
    return np.sum((U[u] * V[i]).sum(1) ** 2)


def g(U, V, u, i):
    dU, dV = np.zeros(U.shape), np.zeros(V.shape)
    for a, b in zip(u, i):
        e = 2 * np.sum(U[a] * V[b])
        dU[a] += e * V[b]
        dV[b] += e * V[b]
    return dU, dV
"""
COUNTS = """\
import numpy as np


def f(x, seen):
    return np.sum(np.sin(x)) / len(x)


def g(x, seen):
    return np.cos(x) / seen.sum()
"""


@pytest.mark.parametrize(
    ("source", "at", "after"),
    [
        (ADJOINT, "k=[0.7, 1.2], b=[0.5, 1.8]", "dk = dk - 0.1 * np.cos(k * b) * b * lam"),
        (ITEMS, "U=randn(3, 2), V=randn(4, 2), u=[0, 2, 1, 0], i=[3, 0, 1, 2]", "dV[b] += e * U[a]"),
        (COUNTS, "x=[0.3, 1.2, 0.5, 2.1], seen=[1, 0, 1, 1]", "return np.cos(x) / len(x)"),
    ],
)
def test_statements_items_and_divisors_are_exchanged(
    gradcli: Gradcli, here: Path, source: str, at: str, after: str
) -> None:
    names = [name for name in ("k", "b", "U", "V", "x") if f"{name}=" in at]
    found = check(gradcli, source, at, "--wrt", ",".join(names))
    assert found["edits"][0]["after"].splitlines()[0] == after, found


@for_rows(
    "update",
    [
        "dx[0] += d[0]",  # and not added to x, nor after the return
        "dx[0] *= 3",  # and not times 1
        "dx *= d[0]",
    ],
)
def test_an_update_that_is_one_too_many_is_left_out_and_not_made_useless(
    gradcli: Gradcli, here: Path, update: str
) -> None:
    source = (
        "import numpy as np\n\ndef f(x):\n    return np.sum((x[1:] - x[:-1]) ** 3)\n\n"
        "def g(x):\n    d = x[1:] - x[:-1]\n    dx = np.zeros_like(x)\n    dx[1:] += 3 * d**2\n    dx[:-1] -= 3 * d**2\n"
        f"    {update}\n    return dx\n"
    )
    found = check(gradcli, source, "x=[0.3, 1.2, -0.4, 2.0]")
    assert found["edits"] == [{"kind": "statement", "line": 11, "before": update, "after": ""}]


def test_a_factor_that_is_one_too_many_is_no_wrong_derivative_of_a_sum(gradcli: Gradcli, here: Path) -> None:
    source = (
        "import numpy as np\n\ndef f(x, y):\n    h = np.tanh(x)\n    return 0.5 * np.sum((h - y) ** 2)\n\n"
        "def g(x, y):\n    h = np.tanh(x)\n    d = h - y\n    d *= 1 - h**2\n    d *= 1 - h**2\n    return d\n"
    )
    found = check(gradcli, source, "x=[0.3, 1.2, -0.4], y=[0.5, 0.1, 0.2]", "--wrt", "x")
    assert found["message"] == "a statement is one too many: `d *= 1 - h**2`"


class OfTwoLines:
    """A claim of which the first line changes the right entry, too; exchanging the lines makes it right."""

    text = "a\nb\n"

    def gradient(self, changes: Sequence[Change], number: int) -> dict[str, Any]:
        by_name = {"c": {"x": 1.0, "y": 1.0}, "d": {"x": 2.0, "y": 3.0}, "b": {"x": 1.0, "y": 2.0}}
        return {
            n: np.asarray(x) for n, x in by_name.get(changes[0].new if changes else "", {"x": 1.0, "y": 3.0}).items()
        }

    def edits(self, without: Collection[int]) -> list[Edit]:
        others = [Edit("name", 2.0, 2, (Change(2, 3, f"x{k}"),)) for k in range(20)]
        return [*others, Edit("order", 1.2, 1, (Change(0, 1, "b"), Change(2, 3, "a")))]

    def composed(self, right: Right) -> tuple[Edit, ...]:
        return ()

    def scaled(self) -> dict[int, tuple[Change, ...]]:
        return {1: (Change(0, 1, "d"),), 2: (Change(2, 3, "c"),)}

    def right_lines(self) -> tuple[int, ...]:
        return ()

    def later_lines(self, right: Collection[int]) -> tuple[int, ...]:
        return ()

    def after(self, edit: Edit) -> None:
        return None


def test_statements_that_right_entries_need_are_exchanged_no_later() -> None:
    subject = OfTwoLines()
    right = Right({}, {"x": np.asarray(1.0), "y": np.asarray(2.0)}, {"x": np.asarray(0.0), "y": np.asarray(0.0)})
    search = RepairSearch([right], budget=CauseBudget(12))
    assert [repair.text for repair in search.repairs(subject)] == ["b\na\n"]
