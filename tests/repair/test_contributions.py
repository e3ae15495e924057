"""What values contribute through statements is written by the rules of the textbook, and added where a claim lacks it."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

from gradcli.api import locate_target
from gradcli.checks.build import request_for
from gradcli.repair.contributions import ForwardPass, is_same, list_contributions, list_steps, read_forward_pass
from gradcli.request.options import Options
from tests.repair.test_repair import check, diagnosis
from tests.rows import for_rows

Gradcli = Callable[..., Any]


def read(tmp_path: Path, statement: str, at: dict[str, Any]) -> ForwardPass:
    text = f"def f(x, a):\n    y = {statement}\n    return (y * y * y).sum()\n"
    code = compile(text, str(tmp_path / "users.py"), "exec")
    names: dict[str, Any] = {"np": np, "special": special}
    exec(code, names)
    request = request_for(locate_target(names["f"], at, Options(wrt="x")), None, Options(wrt="x"))
    definition = ast.parse(text).body[0]
    forward = read_forward_pass(request.question(request.points[0]), names["f"].__code__, lambda code: definition, 200)
    assert forward is not None
    return forward


X = np.array([[0.7, 1.3, 0.4], [1.1, 0.2, 0.9], [0.3, 1.7, 0.8]])
A = np.array([[1.5, 0.6, 0.1], [0.9, 1.2, 0.7], [0.4, 1.6, 2.0]])


@for_rows(
    ("statement", "code"),
    [
        ("np.exp(x)", "dy * y"),
        ("np.expm1(x)", "dy * np.exp(x)"),
        ("np.log(x)", "dy / x"),
        ("np.log1p(x)", "dy / (1 + x)"),
        ("np.log2(x)", "dy / (x * np.log(2))"),
        ("np.log10(x)", "dy / (x * np.log(10))"),
        ("np.sqrt(x)", "dy / (2 * y)"),
        ("np.tanh(x)", "dy * (1 - y**2)"),
        ("special.expit(x)", "dy * y * (1 - y)"),
        ("special.softmax(x, axis=-1)", "y * (dy - np.sum(dy * y, axis=-1, keepdims=True))"),
        ("np.sin(x)", "dy * np.cos(x)"),
        ("np.cos(x)", "-dy * np.sin(x)"),
        ("np.square(x)", "2 * x * dy"),
        ("np.abs(x - a)", "dy * np.sign(x - a)"),
        ("x ** 3", "3 * x**2 * dy"),
        ("x ** a", "a * x ** (a - 1) * dy"),
        ("x + a", "dy"),
        ("a - x", "-dy"),
        ("-x * a", "-dy * a"),
        ("x / a", "dy / a"),
        ("a / x", "-dy * a / x**2"),
        ("x @ a", "dy @ a.T"),
        ("a.T @ x", "a @ dy"),
        ("np.dot(a, x)", "a.T @ dy"),
        ("x @ a[0]", "np.outer(dy, a[0])"),
        ("a[0] @ x", "np.outer(a[0], dy)"),
        ("x.T", "dy.T"),
        ("np.transpose(x)", "dy.T"),
        ("x[1]", "dy"),
        ("x[1:, ::2]", "dy"),
        ("np.maximum(x, 0.6)", "dy * (x > 0.6)"),
        ("np.minimum(0.6, x)", "dy * (x < 0.6)"),
        ("np.where(a > 1, x, a)", "np.where(a > 1, dy, 0.0)"),
        ("np.where(a > 1, a, x)", "np.where(a > 1, 0.0, dy)"),
        ("np.sum(x)", "dy"),
        ("x.sum(axis=1)", "dy[:, None]"),
        ("np.sum(x, axis=0)", "dy"),
        ("np.mean(x)", "dy / x.size"),
        ("x.mean(axis=0)", "dy / len(x)"),
        ("np.mean(x ** 2, axis=1, keepdims=True)", "2 * x * dy / x.shape[1]"),
        ("np.diag(x)", "np.diag(dy)"),
        ("np.linalg.inv(x)", "-y.T @ dy @ y.T"),
        ("np.linalg.slogdet(x)[1]", "dy * np.linalg.inv(x).T"),
        ("np.exp(-x.copy())", "-dy * y"),
        ("x.reshape(9)", "dy.reshape(x.shape)"),
        ("np.stack([a, x @ a]).transpose(1, 2, 0)", "dy.transpose(2, 0, 1)[1] @ a.T"),
        ("x @ np.stack([a, a.T])", "np.sum(dy @ np.stack([a, a.T]).swapaxes(-1, -2), axis=0)"),
    ],
)
def test_a_contribution_is_written_as_by_hand(tmp_path: Path, statement: str, code: str) -> None:
    forward = read(tmp_path, statement, {"x": X, "a": A})
    claimed = {"x": X, "a": A, "y": forward.values["y"], "dy": forward.adjoints["y"]}
    (found,) = [each for each in list_contributions(forward, claimed) if each.name == "x"]
    assert ("-" if found.sign == "-" else "") + found.code == code
    assert found.index == (statement[2:-1] if statement.startswith("x[") else "")
    dx = np.zeros_like(X)
    exec(f"dx[{found.index or '...'}] {found.sign}= {found.code}", {"np": np, "dx": dx, **claimed})
    np.testing.assert_allclose(dx, forward.adjoints["x"], rtol=1e-12)


@for_rows(
    ("statement", "steps"),
    [
        ("x @ a / np.sqrt(3)", [" / np.sqrt(3)"]),
        ("np.tanh(2 * x)", [" * (1 - y**2)", " * (1 - y**2) * 2"]),
        ("special.expit(x)", [" * y * (1 - y)"]),
        ("1 / (2 + np.exp(-x))", [" / (2 + np.exp(-x)) ** 2 * np.exp(-x)"]),
        ("1 / (1 + np.exp(-x))", [" * y * (1 - y)"]),
        ("-np.exp(-x)", [" * np.exp(-x)"]),
        ("np.maximum(x - 1, -0.2)", [" * (x - 1 > -0.2)"]),
        ("x @ a + a[0]", []),
        ("np.exp(x).T", []),
    ],
)
def test_an_adjoint_is_taken_a_step_further_back_entry_by_entry(
    tmp_path: Path, statement: str, steps: list[str]
) -> None:
    forward = read(tmp_path, statement, {"x": X, "a": A})
    claimed = {"x": X, "a": A, "y": forward.values["y"], "dy": forward.adjoints["y"]}
    found = [*list_steps(forward, claimed, [claimed["dy"]])]
    assert [step for _, step in found] == steps and all(is_same(x, claimed["dy"]) for x, _ in found)
    assert [*list_steps(forward, claimed, [X, A])] == []


@for_rows(
    ("statement", "at", "code"),
    [
        ("x * a", {"x": np.array([[0.7], [1.3], [0.4]]), "a": A}, "np.sum(dy * a, axis=1, keepdims=True)"),
        ("a - x", {"x": X[0], "a": A}, "np.sum(dy, axis=0)"),
        ("a * x", {"x": 0.7, "a": A}, "np.sum(dy * a)"),
        ("x @ a", {"x": X[0], "a": A[0]}, "dy * a"),
        ("x @ a", {"x": X[0], "a": A}, "dy @ a.T"),
        ("np.outer(x, a)", {"x": X[0], "a": A[0]}, "dy @ a"),
        ("np.outer(a, x)", {"x": X[0], "a": A[0]}, "a @ dy"),
    ],
)
def test_what_was_broadcast_is_summed(tmp_path: Path, statement: str, at: dict[str, Any], code: str) -> None:
    forward = read(tmp_path, statement, at)
    claimed = {**at, "y": forward.values["y"], "dy": forward.adjoints["y"]}
    found = next(each for each in list_contributions(forward, claimed) if each.name == "x")
    assert found.code == code
    made = eval(found.code, {"np": np, **claimed})
    np.testing.assert_allclose(made if found.sign == "+" else -made, forward.adjoints["x"], rtol=1e-12)


def test_two_parts_through_one_statement_are_added_together_too(tmp_path: Path) -> None:
    forward = read(tmp_path, "x - x.mean(axis=0)", {"x": X, "a": A})
    claimed = {"x": X, "y": forward.values["y"], "dy": forward.adjoints["y"]}
    found = [each.sign + each.code for each in list_contributions(forward, claimed) if each.name == "x"]
    assert found == ["+dy", "-np.sum(dy, axis=0) / len(x)", "+dy - np.sum(dy, axis=0) / len(x)"]


def test_an_adjoint_without_a_name_is_computed_from_later_ones(tmp_path: Path) -> None:
    forward = read(tmp_path, "np.tanh(x)", {"x": X, "a": A})
    (found,) = [each for each in list_contributions(forward, {"x": X, "h": forward.values["y"]}) if each.name == "x"]
    assert found.indirect
    np.testing.assert_allclose(eval(found.code, {"h": forward.values["y"]}), forward.adjoints["x"], rtol=1e-12)


LAYER_NORM = """\
import numpy as np

G = np.array([[0.3, -1.2, 0.5, 0.9], [1.1, 0.4, -0.7, 0.2], [-0.6, 0.8, 0.1, 1.3]])


def f(x, gain):
    mean = np.mean(x, axis=1, keepdims=True)
    centred = x - mean
    var = np.mean(centred**2, axis=1, keepdims=True)
    std = np.sqrt(var + 1e-5)
    return np.sum(G * gain * centred / std)


def g(x, gain):
    mu = np.mean(x, axis=1, keepdims=True)
    xc = x - mu
    v = np.mean(xc**2, axis=1, keepdims=True)
    s = np.sqrt(v + 1e-5)
    dgain = np.sum(G * xc / s, axis=0)
    dcentred = G * gain / s
    dstd = -np.sum(G * gain * xc, axis=1, keepdims=True) / s**2
    dvar = dstd / (2 * s)
    dcentred += 2 * xc * dvar / x.shape[1]
    dx = dcentred.copy()
    dx -= np.mean(dcentred, axis=1, keepdims=True)
    return dx, dgain
"""


@pytest.mark.slow
@pytest.mark.repairs
@for_rows(
    ("line", "wrong", "after"),
    [
        ("    dcentred += 2 * xc * dvar / x.shape[1]\n", "", "dcentred += 2 * xc * dvar / xc.shape[1]"),
        ("dstd = -np.sum(G * gain * xc, axis=1, keepdims=True) / s**2", "dstd = 0.0 * s", "dstd"),
        ("dgain = np.sum(G * xc / s, axis=0)", "dgain = 0.0 * gain", "dgain"),
    ],
)
def test_a_line_that_is_missing_is_written(
    gradcli: Gradcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, wrong: str, after: str
) -> None:
    monkeypatch.chdir(tmp_path)
    at = "x=[[1.2, -0.3, 0.8, 2.0], [0.1, 0.9, -1.5, 0.4], [0.6, 0.2, 1.8, -0.7]], gain=[1.1, 0.7, -0.4, 1.6]"
    found = check(gradcli, LAYER_NORM.replace(line, wrong), at)
    assert after in found["edits"][0]["after"] and found["patch"]


RNN = """\
import numpy as np

X = np.sin(np.arange(18.0)).reshape(6, 3)
Y = np.cos(np.arange(12.0)).reshape(6, 2)


def f(W, U, V):
    T = len(X)
    H = np.zeros((T + 1, 2))
    loss = 0.0
    for t in range(T):
        H[t + 1] = np.tanh(W @ H[t] + U @ X[t])
        e = V @ H[t + 1] - Y[t]
        loss += 0.5 * e @ e
    return loss / T


def g(W, U, V):
    T = len(X)
    states, errors = [np.zeros(2)], []
    for t in range(T):
        states.append(np.tanh(W @ states[-1] + U @ X[t]))
        errors.append((V @ states[-1] - Y[t]) / T)
    dW, dU, dV = np.zeros_like(W), np.zeros_like(U), np.zeros_like(V)
    dh = np.zeros(2)
    for t in reversed(range(T)):
        dV += np.outer(errors[t], states[t + 1])
        dh = dh + V.T @ errors[t]
        da = dh * (1 - states[t + 1] ** 2)
        dW += np.outer(da, states[t])
        dU += np.outer(da, X[t])
        dh = W.T @ da
    return dW, dU, dV
"""

EULER = """\
import numpy as np

DT = 0.1
U = np.array([0.5, -0.2, 0.3, 0.9, -0.4, 0.1])
TARGET = np.array([1.0, 0.0])


def step(x, u, theta):
    position, velocity = x
    acceleration = u - theta[0] * position - theta[1] * velocity**3
    return np.array([position + DT * velocity, velocity + DT * acceleration])


def f(x0, theta):
    xs = [x0]
    for u in U:
        xs.append(step(xs[-1], u, theta))
    cost = 0.0
    for x in xs[1:]:
        cost = cost + DT * np.sum((x - TARGET) ** 2)
    return cost


def g(x0, theta):
    xs = [x0]
    for u in U:
        xs.append(step(xs[-1], u, theta))
    lam = np.zeros(2)
    dtheta = np.zeros_like(theta)
    for k in range(len(U) - 1, -1, -1):
        lam = lam + 2 * DT * (xs[k + 1] - TARGET)
        p, v = xs[k]
        da = DT * lam[1]
        dtheta[0] -= da * p
        dtheta[1] -= da * v**3
        dp = lam[0] - da * theta[0]
        dv = lam[1] - 3 * da * theta[1] * v**2
        dv += DT * lam[0]
        lam = np.array([dp, dv])
    return lam, dtheta
"""

FILTER = """\
import numpy as np

x = np.sin(np.arange(9.0))
d = np.cos(np.arange(9.0))


def f(a, b):
    y1 = y2 = 0.0
    s = 0.0
    for n in range(len(x)):
        y = b * x[n] + a[0] * y1 + a[1] * y2
        y2 = y1
        y1 = y
        s += (y - d[n]) ** 2
    return s


def g(a, b):
    y = np.zeros(len(x) + 2)
    for n in range(len(x)):
        y[n + 2] = b * x[n] + a[0] * y[n + 1] + a[1] * y[n]
    da = np.zeros(2)
    db = 0.0
    dy = np.zeros(len(x) + 2)
    for n in reversed(range(len(x))):
        dy[n + 2] += 2 * (y[n + 2] - d[n])
        db += dy[n + 2] * x[n]
        da[0] += dy[n + 2] * y[n + 1]
        da[1] += dy[n + 2] * y[n]
        dy[n + 1] += a[0] * dy[n + 2]
        dy[n] += a[1] * dy[n + 2]
    return da, db
"""

MIDPOINT = """\
def deriv(x, v, k):
    return v, -k * x


def f(x, v, k):
    dt = 0.1
    for _ in range(5):
        a1, b1 = deriv(x, v, k)
        a2, b2 = deriv(x + dt / 2 * a1, v + dt / 2 * b1, k)
        x = x + dt * a2
        v = v + dt * b2
    return x**2 + 0.5 * v**2


def g(x, v, k):
    dt = 0.1
    tape = []
    for _ in range(5):
        a1, b1 = deriv(x, v, k)
        xm, vm = x + dt / 2 * a1, v + dt / 2 * b1
        tape.append((x, xm))
        a2, b2 = deriv(xm, vm, k)
        x, v = x + dt * a2, v + dt * b2
    gx, gv = 2 * x, v
    gk = 0.0
    for x, xm in tape[::-1]:
        ga2, gb2 = dt * gx, dt * gv
        gxm = -k * gb2
        gvm = ga2
        gk -= gb2 * xm
        ga1, gb1 = dt / 2 * gxm, dt / 2 * gvm
        gx += gxm
        gv += gvm
        gx -= k * gb1
        gk -= gb1 * x
        gv += ga1
    return gx, gv, gk
"""
AT = {
    RNN: "W=[[0.3, -0.2], [0.4, 0.1]], U=[[0.2, -0.5, 0.1], [0.7, 0.3, -0.4]], V=[[0.6, -0.1], [0.2, 0.8]]",
    EULER: "x0=[0.4, -0.7], theta=[1.3, 0.6]",
    FILTER: "a=[0.5, -0.3], b=0.7",
    MIDPOINT: "x=0.8, v=-0.3, k=2.1",
}


@pytest.mark.slow
@pytest.mark.repairs
@for_rows(
    ("module", "line", "after"),
    [
        (RNN, "        dV += np.outer(errors[t], states[t + 1])\n", "dV += np.outer(errors[t], states[t + 1])"),
        (RNN, "        dh = dh + V.T @ errors[t]\n", "dh += V.T @ errors[t]"),
        (RNN, "        dU += np.outer(da, X[t])\n", "dU += np.outer(da, X[t])"),
        (EULER, "        lam = lam + 2 * DT * (xs[k + 1] - TARGET)\n", "lam += 2 * DT * (xs[k + 1] - TARGET)"),
        (EULER, "        dtheta[0] -= da * p\n", "dtheta[0] -= da * p"),
        (EULER, "        dv += DT * lam[0]\n", "+ lam[0] * DT"),
        (FILTER, "        dy[n] += a[1] * dy[n + 2]\n", "dy[n] += dy[n + 2] * a[1]"),
        (FILTER, "        da[1] += dy[n + 2] * y[n]\n", "da[1] += dy[n + 2] * y[n]"),
        (MIDPOINT, "        gk -= gb2 * xm\n", "gk -= gb2 * xm"),
        (MIDPOINT, "        gx += gxm\n", "gx += gxm"),
    ],
)
def test_a_line_that_a_loop_lacks_is_written(
    gradcli: Gradcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, line: str, after: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert line in module
    file = Path(f"lacks{[*AT].index(module)}{module.index(line)}.py")
    file.write_text(module.replace(line, ""))
    found = diagnosis(gradcli("check", f"{file}:f", "--grad", "g", "--at", AT[module], "--json"))
    assert after in found["edits"][0]["after"] and found["patch"]
