"""Conditions by == and !=, masks, and truth values: the indicator is in the formula, in the code and in an answer's check."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.targets.expression import Expression
from tests.rows import for_rows

# fmt: off
KEPT = [
    # function                                             sizes                    by   the derivative, for numpy
    ("sum(where(M, x, 0)*y)",                              "M: n; x: n; y: n",      "x", "(M != 0)*y"),
    ("sum(where(M == 1, x**2, x*y))",                      "M: n; x: n; y: n",      "x", "np.where(M == 1, 2*x, y)"),
    ("sum(where(M != 2, y, 3*x))",                         "M: n; x: n; y: n",      "x", "3.0*(M == 2)"),
    ("sum((y != -100)*softplus(x))",                       "y: n; x: n",            "x", "(y != -100)/(1 + np.exp(-x))"),
    ("sum(where((y == 1) or (y == 2), x, x**2))",          "y: n; x: n",            "x", "np.where((y == 1) | (y == 2), 1, 2*x)"),
    ("sum(where((y == 1) and (x > 0), x**3, 0))",          "y: n; x: n",            "x", "(y == 1)*(x > 0)*3*x**2"),
    ("sum(where(not (y == 1), x, 0))",                     "y: n; x: n",            "x", "1.0*(y != 1)"),
    ("sum(x*(y == z))",                                    "x: n; y: n; z: n",      "x", "1.0*(y == z)"),
    ("sum((y == 1)*x)**2",                                 "x: n; y: n",            "x", "2*np.sum((y == 1)*x)*(y == 1)"),
    ("sum((y == 1)*exp((y == 1)*x))",                      "x: n; y: n",            "x", "(y == 1)*np.exp((y == 1)*x)"),
    ("sum(where(y == 1, y*a, 0))",                         "y: n; a: n",            "y", "(y == 1)*a"),
    ("sum(where(k == 2, X, 0)*Y)",                         "k: m n; X: m n; Y: m n", "X", "(k == 2)*Y"),
    ("sum(where(d == 0, 0, x/d))",                         "x: n; d: n",            "x", "np.where(d == 0, 0, 1/np.where(d == 0, 1, d))"),
    ("sum(where((d == 0) and (y == 0), 0, x/(d + y)))",    "x: n; d: n; y: n",      "x", "np.where((d == 0) & (y == 0), 0, 1/np.where((d == 0) & (y == 0), 1, d + y))"),
    ("where(s == 1, x**2, x**3)",                          "s:; x:",                "x", "np.where(s == 1, 2*x, 3*x**2)"),
    ("where(s, x**2, x**3)",                               "s:; x:",                "x", "np.where(s, 2*x, 3*x**2)"),
]
VALUES = {
    "M": [1.0, 0.0, 2.0, 1.0, 0.0], "y": [1.0, -100.0, 2.0, 1.0, 0.0], "z": [1.0, 0.0, 2.0, 0.5, 0.0],
    "d": [1.0, 0.0, 2.0, 0.5, 0.0],
    "k": [2.0, 1.0, 2.0, 0.0, 2.0], "s": [1.0],
}
# fmt: on


def shaped(sizes: str) -> dict[str, str]:
    return {name.strip(): dims.strip() for name, dims in (part.split(":") for part in sizes.split(";"))}


def values_of(shapes: dict[str, str], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    lengths = {"m": 4, "n": 5}
    found = {}
    for name, dims in shapes.items():
        x = rng.standard_normal([lengths[d] for d in dims.split()])
        found[name] = (rng.choice(VALUES[name], np.shape(x)) if name in VALUES else np.asarray(x))[()]
    return found


@for_rows(("f", "sizes", "wrt", "right"), KEPT, parts=2)
def test_the_indicator_is_kept(f: str, sizes: str, wrt: str, right: str) -> None:
    shapes = shaped(sizes)
    report = gradcli.derive(f, shapes=shapes, wrt=wrt)
    (result,) = report.results
    assert report.exit_status == 0
    scope: dict[str, Any] = {}
    exec(result.code["numpy"], scope)
    for seed in range(4):
        at = values_of(shapes, seed)
        wanted = np.asarray(eval(right, {"np": np, **at}), dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):  # np.where computes both branches
            np.testing.assert_allclose(scope["gradient"](**at), wanted, rtol=1e-12, atol=1e-14)
            formula = Expression(result.formula.expression)
            known = {**at, "m": 4.0, "n": 5.0}
            np.testing.assert_allclose(formula({n: known[n] for n in formula.inputs}), wanted, rtol=1e-12, atol=1e-14)


def test_what_another_input_masks_has_no_derivative_where_it_has_none_itself() -> None:
    (result,) = gradcli.derive("sum(where(M > 0, log(x), 0))", shapes={"M": "n", "x": "n"}, wrt="x").results
    scope: dict[str, Any] = {}
    exec(result.code["numpy"], scope)
    with np.errstate(divide="ignore"):  # np.where computes both branches
        found = scope["gradient"](M=np.array([1.0, 0.0, -1.0]), x=np.array([2.0, 0.0, np.inf]))
    np.testing.assert_array_equal(found, [0.5, 0, 0])


@pytest.mark.parametrize(
    ("f", "right"),
    [
        ("sum(where(M, log(Z), 0))", [0.5, 0.0, 0.0]),
        ("sum(where(M, log(Z), Z))", [0.5, 1.0, 1.0]),
        ("sum(where(1 - M, 0, log(Z)*2))", [1.0, 0.0, 0.0]),
        ("sum(where(M, Z**2, 1/Z))", [4.0, -np.inf, -0.0]),
    ],
)
def test_what_a_mask_hides_has_no_derivative_in_code(f: str, right: Any) -> None:
    (result,) = gradcli.derive(f, shapes={"M": "n", "Z": "n"}, wrt="Z", assume={"M": "mask"}).results
    scope: dict[str, Any] = {}
    exec(result.code["numpy"], scope)
    with np.errstate(divide="ignore"):  # np.where computes both branches
        found = scope["gradient"](M=np.array([1.0, 0.0, 0.0]), Z=np.array([2.0, 0.0, np.inf]))
    np.testing.assert_array_equal(found, right)


def test_a_mask_is_itself(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "sum(where(M, x, 0)*y) + sum(M**2*x)", "--shapes", "M: n; x: n; y: n", "--wrt", "x")
    ran = gradcli(*argv, "--assume", "M: mask", "--json")
    assert ran.json["results"][0]["formula"]["expression"] in ("M*y + M", "M + M*y", "M*(y + 1)", "M*(1 + y)")
    assert ran.json["results"][0]["check"]["verdict"] == "pass"


@for_rows(("answer", "status"), [
    ("where(M == 1, y, 0)", 0), ("(M == 1)*y", 0), ("where(M != 1, 0, y)", 0), ("0*y", 1), ("y", 1), ("(M != 1)*y", 1),
    ("(M == 2)*y", 1),
], parts=2)  # fmt: skip
def test_an_answer_is_held_against_the_indicator(gradcli: Callable[..., Any], answer: str, status: int) -> None:
    argv = ("derive", "sum(where(M == 1, x, 0)*y)", "--shapes", "M: n; x: n; y: n", "--wrt", "x", "--answer", answer)
    assert gradcli(*argv).exit_status == status


REFUSED = [
    ("sum(where(X@v == 0, a, w))", "X: n n; v: n; w: n; a: n", "a", "is false wherever f was evaluated"),
    (
        "-sum(Y*log_softmax(where(M > 0, Z, -inf), axis=1))",
        "M: m n; Z: m n; Y: m n",
        "Z",
        "is true wherever f has a value",
    ),
    ("huber(x, y)", "x:; y:", "x", "f is computed in another way at other values"),
    ("sum(where(isnan(y), 0, (y - x)**2))", "y: n; x: n", "x", "isnan has no closed form"),
]


@pytest.mark.parametrize(("f", "sizes", "wrt", "says"), REFUSED)
def test_what_the_proof_cannot_reach_is_refused(f: str, sizes: str, wrt: str, says: str) -> None:
    report = gradcli.derive(f, shapes=shaped(sizes), wrt=wrt)
    assert report.exit_status == 3 and not report.results
    assert says in report.findings[-1].message


@pytest.mark.parametrize(("f", "right"), [
    ("where(x == 0, 1, sin(x)/x)", lambda x: np.cos(x) / x - np.sin(x) / x**2), ("where(x == 0, 0, x*log(x))", lambda x: np.log(x) + 1),
])  # fmt: skip
def test_a_single_point_of_the_input_itself_is_left_out_and_said(f: str, right: Any) -> None:
    report = gradcli.derive(f, shapes={"x": ""})
    assert report.exit_status == 0
    assert [finding.message for finding in report.findings] == [
        "by x: comparisons of x by == are true at single points only, where the formula may not hold"
    ]
    scope: dict[str, Any] = {}
    exec(report.results[0].code["numpy"], scope)
    np.testing.assert_allclose(scope["gradient"](x=0.7), right(0.7))


@for_rows(("f", "says"), [
    ("where(x > 0, log(x), x)", "x positive in the case that has it"), ("where(x > 0, log(x), x) + log(x)", "x positive"),
    ("log(x)", "x positive"), ("1/where(x > 0, x + 1, 1 - x)", "t1 not 0"), ("exp(where(x > 0, 1/x, x))", "x not 0 in the case that has it"),
])  # fmt: skip
def test_what_one_case_needs_is_said_of_it(f: str, says: str) -> None:
    (result,) = gradcli.derive(f, shapes={"x": ""}).results
    assert says in [part for step in result.steps if step.condition for part in step.condition.split("; ")]


def test_a_python_function_keeps_its_conditions() -> None:
    def loss(M: Any, y: Any, x: Any) -> Any:
        return np.sum(np.where((M == 1) & ~(y == 2), x**2, 0.0))

    report = gradcli.derive(loss, shapes={"M": "n", "y": "n", "x": "n"}, wrt="x")
    scope: dict[str, Any] = {}
    exec(report.results[0].code["numpy"], scope)
    at = {"M": np.array([1.0, 1, 0, 1]), "y": np.array([2.0, 1, 2, 0]), "x": np.array([0.3, 0.5, 0.7, -0.2])}
    np.testing.assert_allclose(scope["gradient"](**at), 2 * at["x"] * (at["M"] == 1) * (at["y"] != 2))


def test_a_hessian_keeps_its_conditions() -> None:
    result = gradcli.derive("sum(where(y == 1, x**3, 0))", shapes={"x": "n", "y": "n"}, wrt="x", order=2).results[0]
    scope: dict[str, Any] = {}
    exec(result.code["numpy"], scope)
    x, y = np.array([0.3, 0.5, 0.7]), np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(scope["hessian"](x=x, y=y), np.diag(6 * x * (y == 1)))
