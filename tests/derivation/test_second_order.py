"""Steps of second derivatives begin at the gradient's closed form and differentiate it; each of them is true in numbers."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.targets.expression import Expression
from tests.derivation.problems import Problem
from tests.derivation.test_textbook import SIZES, point
from tests.rows import for_rows

Gradcli = Callable[..., Any]

# fmt: off
CASES = {
    # name             function                               sizes                      by   assuming
    "a number":       ("x**3*sin(x)",                         "x:",                      "x", ""),
    "a quotient":     ("log(x)/x",                            "x:",                      "x", "x: positive"),
    "a sum":          ("sum(exp(-a*x**2))",                   "x: n; a: n",              "x", ""),
    "logistic":       ("sum(log(1 + exp(X@w)))",              "X: m n; w: n",            "w", ""),
    "softmax":        ("-sum(y*log(softmax(z)))",             "z: n; y: n",              "z", "y: simplex"),
    "a norm":         ("norm(x)",                             "x: n",                    "x", ""),
    "a form":         ("x@A@x",                               "A: n n; x: n",            "x", ""),
    "least squares":  ("0.5*sum((X@W - Y)**2)",               "X: m n; W: n k; Y: m k",  "W", ""),
    "rows":           ("sum(log(1 + exp(X@W)))",              "X: m n; W: n k",          "W", ""),
    "a determinant":  ("log(det(S))",                         "S: n n",                  "S", "S: spd"),
    "a trace":        ("trace(inv(S)@A)",                     "S: n n; A: n n",          "S", ""),
    "a layer":        ("sum(tanh(W@x)**2)",                   "W: m n; x: n",            "W", ""),
}
# fmt: on


def told(gradcli: Gradcli, f: str, shapes: str, wrt: str, assume: str, style: str) -> list[dict[str, Any]]:
    facts = ("--assume", assume) if assume else ()
    argv = ("derive", f, "--shapes", shapes, "--wrt", wrt, *facts, "--order", "2", "--style", style, "--json")
    ran = gradcli(*argv)
    assert ran.exit_status == 0, ran.stdout
    steps: list[dict[str, Any]] = ran.json["results"][0]["steps"]
    return steps


def run(statement: str, scope: dict[str, Any]) -> Any:
    """Return the value of the right side of `name = ...`, and give it the name; names of bars and products are no letters."""
    name, _, right = statement.partition(" = ")
    formula = Expression(right)
    scope[name] = formula({n: np.float64(x) if np.ndim(x) == 0 else x for n, x in scope.items() if n in formula.inputs})
    return scope[name]


@pytest.fixture(name="case", params=CASES.values(), ids=CASES)
def _case(request: pytest.FixtureRequest) -> tuple[str, str, str, str]:
    return request.param


@pytest.mark.parametrize("style", ["differential", "graph", "index"])
def test_the_gradient_comes_first_and_then_its_differential(gradcli: Gradcli, case: tuple, style: str) -> None:
    f, shapes, wrt, assume = case
    steps = told(gradcli, f, shapes, wrt, assume, style)
    first = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--json").json["results"][0]
    *parts, last = first["formula"]["expression"].split("; ")
    assert (steps[0]["rule"], steps[0]["before"]) == ("gradient", f)
    if "y: simplex" not in assume:  # what is assumed of others may be used at once
        assert steps[0]["after"] == "; ".join([*parts, f"G = {last}"])
    rules = [step["rule"] for step in steps]
    assert rules.count("gradient") == 1 and rules.count("read off") == 1
    assert all(step["where"] is None for step in steps)
    left = [step["after"].partition(" = ")[0].partition("[")[0] for step in steps]
    letters = {"differential": ["G", "dG"], "graph": ["G", "G_bar", f"{wrt}_bar"], "index": ["G", "dG"]}[style]
    assert [name for name in left if name in letters and name != "G"] == letters[1:]
    assert left[rules.index("read off") :] == ["H"] * (len(steps) - rules.index("read off"))


@pytest.mark.parametrize("style", ["differential", "graph"])
def test_every_step_is_true(gradcli: Gradcli, case: tuple, style: str) -> None:
    f, shapes, wrt, assume = case
    steps = told(gradcli, f, shapes, wrt, assume, style)
    scope: dict[str, Any] = {**SIZES, **point(Problem(f, shapes, wrt, "", assume), 1)}
    v = np.random.default_rng(2).normal(size=np.shape(scope[wrt])) if np.ndim(scope[wrt]) else np.float64(1)
    scope |= {"V": v, "v": v, f"d{wrt}": v}
    for statement in steps[0]["after"].split("; "):
        run(statement, scope)
    gradient, h = scope["G"], 1e-5
    moved = [{**scope, wrt: scope[wrt] + sign * h * v} for sign in (1, -1)]
    for other in moved:
        for statement in steps[0]["after"].split("; "):
            run(statement, other)
    slope = (moved[0]["G"] - moved[1]["G"]) / (2 * h)
    at = next(k for k, step in enumerate(steps) if step["rule"] == "read off")
    for step in steps[1:at]:
        run(step["after"], scope)
    np.testing.assert_allclose(scope["G"], gradient, rtol=1e-12, atol=1e-12)
    told_slope = scope["dG" if style == "differential" else f"{wrt}_bar"]
    np.testing.assert_allclose(told_slope, slope, rtol=1e-6, atol=1e-8)
    for step in steps[at:]:
        hessian = run(step["after"], dict(scope))
        product = hessian if step["after"].startswith("H[V]") else hessian @ v if np.ndim(v) else hessian * v
        np.testing.assert_allclose(product, slope, rtol=1e-6, atol=1e-8)


def test_a_gradient_without_a_closed_form_is_differentiated_as_it_is(gradcli: Gradcli) -> None:
    steps = told(gradcli, "x@x + sum(i0e(a)*x)", "x: n; a: n", "x", "", "differential")
    assert [step["rule"] for step in steps] == ["read off"] and steps[0]["after"] == "H = 2*eye(n)"


@for_rows(("f", "shapes", "letters"), [
    ("sum(G*x**3)", "x: n; G: n", ("H", "J")), ("sum(H*x**3)", "x: n; H: n", ("G", "J")), ("sum(a*x**3)", "x: n; a: n", ("G", "H")),
    ("sum(G*H*J*x**3)", "x: n; G: n; H: n; J: n", ("D", "grad")),
])  # fmt: skip
def test_letters_are_not_those_of_inputs(gradcli: Gradcli, f: str, shapes: str, letters: tuple[str, str]) -> None:
    steps = told(gradcli, f, shapes, "x", "", "differential")
    assert steps[0]["after"].startswith(f"{letters[0]} = ") and steps[-1]["after"].startswith(f"{letters[1]} = ")


def test_a_seed_is_no_input(gradcli: Gradcli) -> None:
    steps = told(gradcli, "sum(v*x**3)", "x: n; v: n", "x", "", "graph")
    (seed,) = (step["after"] for step in steps if step["after"].startswith("G_bar = "))
    assert seed != "G_bar = v"


def test_what_is_assumed_of_the_input_itself_is_used_after_it_has_moved(gradcli: Gradcli) -> None:
    steps = told(gradcli, "log(det(S))", "S: n n", "S", "S: spd", "differential")
    assert steps[0]["after"] == "G = inv(S).T" and steps[-1]["after"] == "H[V] = -P@V.T@P"


def test_a_linear_function_has_nothing_to_tell(gradcli: Gradcli) -> None:
    for style in ("differential", "graph", "index"):
        steps = told(gradcli, "sum(a*x)", "x: n; a: n", "x", "", style)
        assert [(step["rule"], step["after"]) for step in steps] == [
            ("gradient", "G = a"),
            ("read off", "H[i,j] = 0" if style == "index" else "H = zeros([n, n])"),
        ]


def test_a_python_function_keeps_its_names(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "losses.py"
    file.write_text(
        "import numpy as np\n\ndef loss(w, X, y):\n    r = np.tanh(X @ w) - y\n    return np.sum(r**2)/2\n",
        encoding="utf-8",
    )
    argv = ("derive", f"{file}:loss", "--shapes", "X: m n; w: n; y: m", "--wrt", "w", "--order", "2", "--json")
    (result,) = gradcli(*argv).json["results"]
    assert result["steps"][0]["rule"] == "gradient" and all(step["where"] is None for step in result["steps"])
    rng = np.random.default_rng(0)
    at = {"X": rng.normal(size=(4, 3)), "w": rng.normal(size=3), "y": rng.normal(size=4)}
    scope: dict[str, Any] = {}
    exec(result["code"]["numpy"], scope)
    t = np.tanh(at["X"] @ at["w"])
    right = at["X"].T @ np.diag((1 - t**2) ** 2 - 2 * (t - at["y"]) * t * (1 - t**2)) @ at["X"]
    np.testing.assert_allclose(scope["hessian"](**at), right, rtol=1e-12)


def test_the_text_tells_them(gradcli: Gradcli) -> None:
    shown = re.sub(r"\s+", " ", gradcli("derive", "x**3*sin(x)", "--order", "2").stdout)
    assert "1 gradient G = x³ cos(x) + 3 x² sin(x)" in shown and "product rule dG = " in shown
    assert "second derivative by x ∂²f/∂x² = 6 x² cos(x) + (6 x - x³) sin(x)" in shown and "H = 6*cos(x)*x^2" in shown
    assert "function 3" in shown  # operations of f itself


def test_a_name_that_a_later_step_gives_anew_has_the_shape_that_it_has_there(gradcli: Gradcli) -> None:
    ran = gradcli("derive", "exp(-(sum(exp(-s*v))))", "--shapes", "v: n; s:", "--wrt", "v", "--order", "2")
    shown = re.sub(r"\s+", " ", ran.stdout)
    assert "H = s² t1 e eᵀ - s² t1 diag(e)" in shown and "diag(t1)" not in shown, ran.stdout
