"""Losses of machine learning: the printed code is right, and finite where the gradient is."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks.run_modes import run_mode
from gradcli.derivation import derive
from gradcli.derivation.index import Atom, Tensor, add, apply_function, scalar, scale_tensor, tensor_of_atom
from gradcli.derivation.sized_problem import parse_shapes
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.report.common import Absent
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from gradcli.targets.facts import draw_with_facts
from tests.rows import for_rows

# fmt: off
RIGHT = [
    # function                                                                                  sizes                     by    what is assumed
    # operands that are equal on an open set
    ("minimum(r*a, clip(r, 0.8, 1.2)*a)",                                                       "r:; a:",                 "r",  ""),
    ("r = exp(lp - lq); -mean(minimum(r*a, clip(r, 0.8, 1.2)*a))",                              "lp: n; lq: n; a: n",     "lp", ""),
    ("mean(maximum((v - R)**2, (w + clip(v - w, -0.2, 0.2) - R)**2))",                          "v: n; w: n; R: n",       "v",  ""),
    ("sum(maximum(where(x > 0, x*a, 0), x*a))",                                                 "x: n; a: n",             "x",  ""),
    ("sum(minimum(abs(x), x)*a)",                                                               "x: n; a: n",             "x",  ""),
    # rows that sum to one, beside a softmax of all entries
    ("-sum(Y*log(exp(Z)/sum(exp(Z))))",                                                         "Z: m n; Y: m n",         "Z",  "Y: onehot rows"),
    # a transposed exponential of a negative
    ("K = exp(-C); u = a/(K@w); v = b/(K.T@u); u@(K*C)@v",                                      "C: m n; a: m; b: n; w: n", "C", "w: positive"),
    ("K = exp(-C/t); u = a/sum(K, axis=1); sum(b*(K.T@u)**2)",                                  "C: m n; a: m; b: n; t:", "C",  "t: positive"),
    ("sum(where(x > 0, x*log(x), 0) - where(x < y, sqrt(y - x), exp(x - y)))",                  "x: n; y: n",             "x",  ""),
    ("sum(where((x > 0) or (x < y), 1/(abs(x) + maximum(x, y - x)), 0))",                       "x: n; y: n",             "x",  ""),
    # a difference of large numbers, of which rounding leaves few digits
    ("t*logsumexp(z/t)",                                                                        "t:; z: n",               "t",  ""),
    # one branch or the other
    ("x if x > 0 else 0.1*x",                                                                   "x:",                     "x",  ""),
    ("a = x*y if x > y else x - y; a**2",                                                       "x:; y:",                 "x",  ""),
    # a branch that has no value where it is not taken
    ("sum(where(x > 0, x*log(x), 0))",                                                          "x: n",                   "x",  ""),
    ("where(x > 0, sqrt(x), 2*x)",                                                              "x:",                     "x",  ""),
    ("a@where(x > y, log(x - y), 0)",                                                           "a: n; x: n; y: n",       "y",  ""),
    ("sum(where(x <= 1, x**2/2, where(x > 2, 1/(x - 2), log(x))))",                             "x: n",                   "x",  ""),
]
FINITE = [
    # function                                                                                  sizes                     by    the certified gradient is finite at
    ("sum(where(x > 0, x, exp(x) - 1))",                                                        "x: n",                   "x",  [1e3, -1e3, 0.5, 3.5e3]),
    ("sum(minimum(1, exp(x - y))*y)",                                                           "x: n; y: n",             "x",  [1e3, -1e3, 0.5, 3.5e3]),
    ("r = exp(x - y); -mean(minimum(r*y, clip(r, 0.8, 1.2)*y))",                                "x: n; y: n",             "x",  [1e3, -1e3, 5.0, -3.5e3]),
    ("-sum(y*log_softmax(x)) + 0.1*logsumexp(x)**2",                                            "x: n; y: n",             "x",  [1e3, -1e3, 0.5, 3.5e3]),
    ("m = minimum(exp(x)*y, y); mean(where(y < 0.25, maximum(m, 3*y), m))",                     "x: n; y: n",             "x",  [1e3, -1e3, 5.0, 3.5e3]),
    ("-sum((1 - sigmoid(x))**3.5*y*log_expit(x))",                                              "x: n; y: n",             "x",  [1e3, -1e3, 0.5, -3.5e3]),
    ("p = softmax(x); q = softmax(2*x); y@(p - q)",                                             "x: n; y: n",             "x",  [1e3, -1e3, 0.5, 3.5e3]),
    ("softmax(concatenate([x, y]))@concatenate([y, x])",                                        "x: n; y: n",             "x",  [1e3, -1e3, 0.5, 3.5e3]),
]
# fmt: on
LENGTHS = {"m": 3, "n": 4}


def point_of(sizes: str, assumed: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    facts = {n: frozenset({" ".join(words)}) for n, words in parse_shapes([assumed]).items()}
    shapes = {n: tuple(LENGTHS[d] for d in dims) for n, dims in parse_shapes([sizes]).items()}
    return {n: draw_with_facts(facts.get(n, frozenset()), shape, rng) for n, shape in shapes.items()}


def differences(f: Expression, at: dict[str, Any], wrt: str) -> Any:
    x = np.asarray(at[wrt], dtype=float)
    slopes = np.empty(x.shape)
    for k in np.ndindex(x.shape):
        h = np.zeros(x.shape)
        h[k] = 1e-6
        slopes[k] = (f({**at, wrt: x + h}) - f({**at, wrt: x - h})) / 2e-6
    return slopes


def code_of(f: str, sizes: str, wrt: str, assumed: str) -> Any:
    shapes = {n: " ".join(dims) for n, dims in parse_shapes([sizes]).items()}
    report = gradcli.derive(f, shapes, wrt=wrt, assume={n: " ".join(w) for n, w in parse_shapes([assumed]).items()})
    assert report.exit_status == 0, report.findings
    scope: dict[str, Any] = {}
    exec(report.results[0].code["numpy"], scope)
    return scope["gradient"]


@for_rows(("f", "sizes", "wrt", "assumed"), RIGHT, parts=2)
def test_the_code_is_right(f: str, sizes: str, wrt: str, assumed: str) -> None:
    gradient = code_of(f, sizes, wrt, assumed)
    for seed in range(4):
        at = point_of(sizes, assumed, seed)
        with np.errstate(all="ignore"):  # np.where computes both branches
            np.testing.assert_allclose(gradient(**at), differences(Expression(f), at, wrt), rtol=1e-6, atol=1e-6)


# fmt: off
GRU = "z = sigmoid(A@x + B@h); r = sigmoid(C@x + D@h); c = tanh(E@x + F@(r*h)); y = (1 - z)*h + z*c; "
LSTM = "i = sigmoid(A@x + B@h); g = sigmoid(C@x + D@h); o = sigmoid(E@x + F@h); c = g*s + i*tanh(G@x + H@h); y = o*tanh(c); "
OF_CELLS = "A: n n; B: n n; C: n n; D: n n; E: n n; F: n n; x: n; h: n; v: n"
CELLS = [
    # cell                              by    sizes
    (GRU + "v@y",                       "x",  OF_CELLS),
    (GRU + "v@y",                       "h",  OF_CELLS),
    (GRU + "v@y",                       "D",  OF_CELLS),
    (LSTM + "0.5*sum((y - v)**2)",      "B",  OF_CELLS + "; G: n n; H: n n; s: n"),
    (LSTM + "v@y",                      "h",  OF_CELLS + "; G: n n; H: n n; s: n"),
]
# fmt: on


@pytest.mark.slow
@for_rows(("f", "wrt", "sizes"), CELLS)
def test_a_cell_of_vectors_multiplies_no_matrices(f: str, wrt: str, sizes: str) -> None:
    report = gradcli.derive(f, {n: " ".join(dims) for n, dims in parse_shapes([sizes]).items()}, wrt=wrt)
    (result,) = report.results
    assert "sigmoid(-" not in result.formula.expression
    assert not isinstance(result.cost, Absent)
    few, many = (eval(result.cost.operations, {"n": n}) for n in (1_000, 100_000))  # our own polynomial
    assert many / few < 1.1 * 100**2


@for_rows(("f", "wrt", "formula"), [
    ("z = sigmoid(a); sum((1 - z)*h)**2",              "h", "2*(h@(1 - z))*(1 - z)"),
    ("z = sigmoid(a - b); sum(h*(1 - z) + z*c)**2/2",  "h", "(sum(c) + (h - c)@(1 - z))*(1 - z)"),
])  # fmt: skip
def test_the_complement_of_a_named_sigmoid_is_written_so(f: str, wrt: str, formula: str) -> None:
    (result,) = gradcli.derive(f, dict.fromkeys(Expression(f).inputs, "n"), wrt=wrt).results
    assert result.formula.expression.endswith(formula)
    assert "sigmoid(-" not in " ".join(step.after for step in result.steps)


@for_rows(("f", "sizes", "wrt", "x"), FINITE)
def test_the_code_is_finite_where_the_gradient_is(f: str, sizes: str, wrt: str, x: list[float]) -> None:
    at = {"x": np.array(x), "y": np.array([0.3, 0.2, 0.4, 0.1])}
    at = {name: at[name] for name in parse_shapes([sizes])}
    found = run_mode(MODES["certified"], Question(Expression(f), Point(at), (wrt,)))
    assert found.estimate is not None
    with np.errstate(over="ignore", invalid="ignore"):  # np.where computes both branches
        np.testing.assert_allclose(code_of(f, sizes, wrt, "")(**at), found.estimate.value[wrt], rtol=1e-9, atol=1e-300)


def test_a_form_that_is_not_finite_gives_way_to_the_one_before_simplification(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfolded(x: Tensor, cost: Any, steps: Any = None) -> Tensor:
        z = tensor_of_atom(Atom("input", "z", dims=(x.free[0].dim,)), x.free)
        nothing = [
            apply_function("expm1", [z], x.free),
            scale_tensor(apply_function("exp", [z], x.free), -1),
            scalar(Fraction(1)),
        ]
        return add([x, *nothing], x.free)

    monkeypatch.setattr(derive, "simplified", unfolded)
    np.testing.assert_allclose(code_of("logsumexp(z)", "z: n", "z", "")(z=np.array([3.5e3, 0, 1])), [1, 0, 0])


@for_rows(("f", "finite"), [("1/cosh(x)", False), ("tanh(x)", True)])
def test_code_that_is_not_finite_at_extreme_values_says_so(f: str, finite: bool) -> None:
    report = gradcli.derive(f, shapes={"x": ""})
    assert report.results[0].check.finite is finite
    assert ("it is not finite at some extreme values where the derivative is" in str(report.blocks())) is not finite
