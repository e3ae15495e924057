"""Claims that are the right gradient of another point: stale, exchanged, rounded."""

from typing import Any

import numpy as np
import pytest

from tests.checks.planting import checked, diagnosis_of, named

RNG = np.random.default_rng(3)
AT = {"x": RNG.normal(size=4) * 1.3, "y": RNG.normal(size=4) * 0.8 + 0.1}


def f(x: Any, y: Any) -> Any:
    a = np.sin(x * y)
    return np.sum(a * np.exp(x)) + np.sum(np.cosh(y))


def g(x: Any, y: Any) -> Any:
    a, e, c = np.sin(x * y), np.exp(x), np.cos(x * y)
    return e * c * y + a * e, e * c * x + np.sinh(y)


def norm(x: Any) -> Any:
    return np.sqrt(np.sum(x * x) + 1) + np.sum(np.cos(x))


def d_norm(x: Any) -> Any:
    return x / np.sqrt(np.sum(x * x) + 1) - np.sin(x)


def both(how: Any) -> Any:
    return lambda x, y: g(how(x), how(y))


# fmt: off
OF_TWO = [
    # the claim, kind, what is said
    (lambda x, y: g(y, x),                            "swapped", "with x and y exchanged"),
    (both(lambda v: v.astype("float32").astype(float)), "stale", "at the point in float32"),
    (both(lambda v: np.round(v, 1)),                  "stale",   "at the point rounded to 1 decimal"),
    (both(lambda v: np.round(v, 2)),                  "stale",   "at the point rounded to 2 decimals"),
    (both(lambda v: 0 * v + 1),                       "stale",   "at ones"),
    (both(np.abs),                                    "stale",   "at the absolute values of the point"),
    (both(lambda v: 0.9 * v),                         "stale",   "at the point times 0.9"),
    (both(lambda v: 1.05 * v),                        "stale",   "at the point times 1.05"),
    (lambda x, y: g(0.9 * x, y),                      "stale",   "at x times 0.9"),
    (lambda x, y: g(x, 1.02 * y),                     "stale",   "at y times 1.02"),
    (lambda x, y: g(x - 0.01 * g(x, y)[0], y - 0.01 * g(x, y)[1]), "stale", "at x + -0.01 times the gradient"),
    (lambda x, y: g(x + 0.003 * g(x, y)[0], y + 0.003 * g(x, y)[1]), "stale", "at x + 0.003 times the gradient"),
    (lambda x, y: g(x - 0.01 * g(x, y)[0], y),        "stale",   "at x + -0.01 times its gradient"),
    (lambda x, y: g(x, y - 0.02 * g(x, y)[1]),        "stale",   "at y + -0.02 times its gradient"),
]
OF_ONE = [
    (lambda x: d_norm(0.9 * x),                       "stale",   "at the point times 0.9"),
    (lambda x: d_norm(x - 0.05 * d_norm(x)),          "stale",   "at x + -0.05 times the gradient"),
    (lambda x: d_norm(np.round(x, 1)),                "stale",   "at the point rounded to 1 decimal"),
]
# fmt: on


@pytest.mark.parametrize(("claim", "kind", "says"), OF_TWO, ids=[row[2] for row in OF_TWO])
def test_the_other_point_is_named(claim: Any, kind: str, says: str) -> None:
    found = named(f, AT, claim, g)
    assert (found.kind, says in found.message) == (kind, True), found
    assert "the claim is the right gradient" in found.message
    assert found.line is None


@pytest.mark.parametrize(("claim", "kind", "says"), OF_ONE, ids=[row[2] for row in OF_ONE])
def test_the_other_point_of_one_input_is_named(claim: Any, kind: str, says: str) -> None:
    found = named(norm, {"x": AT["x"]}, claim, d_norm)
    assert (found.kind, says in found.message) == (kind, True), found


@pytest.mark.parametrize(("function", "claim", "at"), [(f, g, AT), (norm, d_norm, {"x": AT["x"]})])
def test_the_right_point_has_no_diagnosis(function: Any, claim: Any, at: Any) -> None:
    report = checked(function, at, claim)
    assert (report.verdict, diagnosis_of(report)) == ("pass", None)


def test_an_expression_at_another_point_is_told() -> None:
    report = checked("sum(sin(x)*x)", "x=[0.4, 1.1, -0.8]", "sin(0.9*x) + 0.9*x*cos(0.9*x)")
    found = diagnosis_of(report)
    assert found is not None
    assert (found.kind, "times 0.9" in found.message) == ("stale", True)


def test_a_claim_that_does_not_use_the_input_is_right_at_zero() -> None:
    found = diagnosis_of(checked("log(sum(exp(x)*[1, 2, 3]))", "x=[0.4, 0.1, -0.3]", "[1, 2, 3]/6"))
    assert found is not None
    assert (found.kind, found.message) == ("stale", "the claim is the right gradient at zero")


@pytest.mark.parametrize(
    ("f", "claim", "at", "not_said"),
    [
        ("x**3", "x=3*x", "x=2", "factor 2"),  # it is a factor x
        ("x**4", "x=4*x**2", "x=3", "factor 9"),
        ("sum(x**2)*y", "x=2*x*y**2, y=sum(x**2)", "x=[0.5,1.5], y=2", "a factor 2 too large"),
    ],
)
def test_a_name_that_holds_at_the_point_alone_is_not_given(
    gradcli: Any, f: str, claim: str, at: str, not_said: str
) -> None:
    ran = gradcli("check", f, "--grad", claim, "--at", at, "--json")
    assert ran.exit_status == 1 and not_said not in ran.json["points"][0]["diagnosis"]["message"]


def test_numbers_that_are_claimed_are_named_by_the_point_alone(gradcli: Any) -> None:
    ran = gradcli(
        "check", "sum(sin(x))", "--grad", "x=[-0.8775825618903728, -0.5403023058681398]", "--at", "x=[0.5,1]", "--json"
    )
    assert ran.json["points"][0]["diagnosis"]["kind"] == "sign"


def test_an_overwritten_sum_on_one_of_several_lines_is_named() -> None:
    def valley(x: Any) -> Any:
        bend = x[1:] - x[:-1] ** 2
        return np.sum(100 * bend**2) + np.sum((1 - x[:-1]) ** 2)

    def d_valley(x: Any) -> Any:
        bend = x[1:] - x[:-1] ** 2
        dx = np.zeros_like(x)
        dx[1:] += 200 * bend
        dx[:-1] = -400 * bend * x[:-1]  # += is right
        dx[:-1] -= 2 * (1 - x[:-1])
        return dx

    found = checked(valley, {"x": np.array([0.5, -1.2, 0.8, 1.4])}, d_valley)
    assert found.exit_status == 1 and diagnosis_of(found).kind != "unknown"
