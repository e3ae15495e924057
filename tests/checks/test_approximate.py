"""Claims that approximate: differences with their step, lower precision, a solver's tolerance; and what nothing explains."""

import math
import re
from typing import Any

import numpy as np
import pytest

import gradcli
from tests.checks.planting import checked, diagnosis_of, named
from tests.rows import for_rows

ODD = np.array([0.31, -0.27, 0.93, 0.44, -0.55])
RNG = np.random.default_rng(9)
X = RNG.normal(size=5) + 2.5
A = RNG.normal(size=(3, 3))


def f(x: Any) -> Any:
    return np.sum(np.sin(x) * x) + np.prod(np.cos(x / 5))


def g(x: Any) -> Any:
    return np.sin(x) + x * np.cos(x) - np.tan(x / 5) / 5 * np.prod(np.cos(x / 5))


def difference(scheme: str, h: float, relative: bool = False) -> Any:
    def claim(x: Any) -> Any:
        made = np.zeros(len(x))
        for k in range(len(x)):
            step = h * abs(x[k]) if relative else h
            d = np.eye(len(x))[k] * step
            if scheme == "central":
                made[k] = (f(x + d) - f(x - d)) / (2 * step)
            else:
                made[k] = (f(x + d) - f(x)) / step if scheme == "forward" else (f(x) - f(x - d)) / step
        return made

    return claim


# fmt: off
DIFFERENCES = [
    ("forward",  1e-2, "proportional to h: truncation"),
    ("forward",  1e-5, "proportional to h: truncation"),
    ("backward", 1e-4, "proportional to h: truncation"),
    ("central",  1e-2, "proportional to h**2: truncation"),
    ("central",  1e-3, "proportional to h**2: truncation"),
    ("forward",  5e-4, "proportional to h: truncation"),
    ("forward",  1e-11, "rounding"),
]
# fmt: on


@for_rows(("scheme", "h", "law"), DIFFERENCES)
def test_a_difference_is_named_with_its_step_and_the_law_of_its_error(scheme: str, h: float, law: str) -> None:
    found = named(f, {"x": X}, difference(scheme, h), g)
    assert (found.kind, found.message) == (
        "approximation",
        f"the claim is a {scheme} difference with the step h = {h:.3g}; its error is {law}",
    )


def test_a_step_relative_to_the_input_is_named() -> None:
    found = named(f, {"x": X}, difference("forward", 1e-5, relative=True), g)
    assert found.kind == "approximation"
    assert "a forward difference with the step h = 1e-05 times |x|" in found.message


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 7), ("float16", 3)])
def test_lower_precision_is_named(dtype: str, digits: int) -> None:
    found = named(f, {"x": X}, lambda x: g(x).astype(dtype).astype(float), g)
    assert found.kind == "approximation"
    assert f"every entry is a {dtype} number, right to about {digits} digits" in found.message
    assert "--rtol" in found.message


def test_small_errors_of_all_sizes_are_an_approximation() -> None:
    noise = 1 + 1e-5 * np.array([0.3, -1.0, 0.7, 0.5, -0.2])
    found = named(f, {"x": X}, lambda x: g(x) * noise, g)
    assert found.kind == "approximation"
    assert "the claim agrees to 5 digits in every entry" in found.message
    assert "--rtol 1e-04 accepts it" in found.message


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g: g.astype("float32").astype(float),
        lambda g: g * (1 + 7e-6 * np.array([0.3, -1.0, 0.7, 0.5, -0.2])),
        lambda g: g * (1 + 7e-6 * np.array([4.0, -1.0, 0.7, 0.5, -0.2])),
    ],
)
def test_the_tolerance_that_is_offered_accepts_it(spoil: Any) -> None:
    claim = lambda x: spoil(g(x))
    (rtol,) = re.findall(r"--rtol (\S+) accepts it", named(f, {"x": X}, claim, g).message)
    assert checked(f, {"x": X}, claim, rtol=float(rtol)).verdict == "pass"


# fmt: off
SMALL = [
    # what is made of the right gradient of f at x, kind, part of the message
    (lambda x, g: g + 0.01 * x,      "term",     "a term is too much: 0.01 times x"),
    (lambda x, g: g + 1e-4 * x,      "term",     "a term is too much: 0.0001 times x"),
    (lambda x, g: g + 1e-6 * x,      "term",     "a term is too much: 1e-06 times x"),
    (lambda x, g: g + 1e-5 / x,      "unknown",  "its error is 1e-05 times 1/x"),
    (lambda x, g: g + 1e-5,          "constant", "a constant 1e-05 is added"),
    (lambda x, g: np.round(8 * g) / 8,  "unknown", "its error is in every entry of x (of both signs"),
    (lambda x, g: g * (1 + 1e-4 * ODD), "unknown", "its error is in every entry of x (of both signs"),
]
# fmt: on


@for_rows(("makes", "kind", "says"), SMALL, ids=[row[2][:40] for row in SMALL], parts=2)
def test_a_small_mistake_is_no_approximation(makes: Any, kind: str, says: str) -> None:
    found = named(f, {"x": X}, lambda x: makes(x, g(x)), g)
    assert (found.kind, says in found.message, "--rtol" in found.message) == (kind, True, False), found


def decayed(x: Any, y: Any) -> Any:
    return np.sum(np.sin(x)) * np.sum(np.cosh(y)) / 7


def d_decayed(x: Any, y: Any) -> Any:
    return np.cos(x) * np.sum(np.cosh(y)) / 7, np.sum(np.sin(x)) * np.sinh(y) / 7


def test_a_law_may_hold_in_several_inputs() -> None:
    at = {"x": X, "y": A[0]}
    found = named(
        decayed, at, lambda x, y: tuple(d + 0.01 * v for d, v in zip(d_decayed(x, y), (x, y), strict=True)), d_decayed
    )
    assert (found.kind, "0.01 times x and y" in found.message) == ("term", True), found


def quartic(a: Any) -> Any:
    return np.sum(np.sin(a) * np.exp(a))


def d_quartic(a: Any) -> Any:
    return (np.sin(a) + np.cos(a)) * np.exp(a)


# fmt: off
PATTERNS = [
    # what is added to the right gradient of f at x, and what the error is said to be
    (lambda x, g: 0.3 * x * x,       "its error is 0.3 times x**2"),
    (lambda x, g: 0.3 / x,           "its error is 0.3 times 1/x"),
    (lambda x, g: 0.2 * g * g,       "its error is 0.2 times the square of its gradient"),
    (lambda x, g: np.abs(ODD),       "its error is in every entry of x (positive"),
    (lambda x, g: -np.abs(ODD),      "its error is in every entry of x (negative"),
    (lambda x, g: ODD,               "its error is in every entry of x (of both signs"),
    (lambda x, g: ODD * (np.arange(5) < 2), "its error is in x[0], x[1] (of both signs"),
]
# fmt: on


@for_rows(("added", "says"), PATTERNS, parts=2)
def test_what_no_mistake_explains_is_told_by_its_pattern(added: Any, says: str) -> None:
    found = named(f, {"x": X}, lambda x: g(x) + added(x, g(x)), g)
    assert (found.kind, says in found.message) == ("unknown", True), found
    assert "no mistake that gradcli knows explains the claim" in found.message


@for_rows(
    ("added", "says"),
    [
        (np.outer(ODD[:3], ODD[2:]), "in every entry of a (of both signs, of rank one, up to "),
        (RNG.normal(size=(3, 3)), "in every entry of a (of both signs, up to "),
        (np.outer([0, 1, 0], ODD[:3]), "a[1,0], a[1,1], a[1,2] (of both signs, of rank one"),
        (np.outer(ODD[:3], [0, 0, 1]), "a[0,2], a[1,2], a[2,2] (of both signs, of rank one"),
    ],
)
def test_the_pattern_of_a_matrix_is_told(added: Any, says: str) -> None:
    found = named(quartic, {"a": A}, lambda a: d_quartic(a) + added, d_quartic)
    assert (found.kind, says in found.message) == ("unknown", True), found


@pytest.mark.parametrize(("function", "claim", "at"), [(f, g, {"x": X}), (quartic, d_quartic, {"a": A})])
def test_the_right_gradient_has_no_diagnosis(function: Any, claim: Any, at: Any) -> None:
    report = checked(function, at, claim)
    assert (report.verdict, diagnosis_of(report)) == ("pass", None)


@for_rows(
    ("function", "point", "claim", "headline"),
    [
        ("sum(log(y + 1e-7))", "y=[0.3, 0.7]", "1/y", "PASS (leaves out 1e-07 in log: 3e-07 off)"),
        ("sum(sqrt(y*y + 1e-6))", "y=[0.3, 0.7]", "y/sqrt(y*y)", "PASS (leaves out 1e-06 in sqrt: 6e-06 off)"),
        ("sum(y)/(norm(y) + 1e-6)", "y=[0.3, 0.7]", "1/norm(y) - sum(y)*y/norm(y)**3", "PASS (leaves out 1e-06 in a division: 4e-06 off)"),
        ("sum(log(y + 1e-7))", "y=[0.3, 0.7]", "1/y + 1e-7", None),  # no constant explains it
        ("sum(log(y + 1e-7)) + sum(y)", "y=[0.3, 0.7]", "1/y", None),
        ("sum(log(y + 1e-3))", "y=[0.3, 0.7]", "1/y", None),  # the constant is not small
        ("sum(log(y + 1e-7))", "y=[1e-4, 0.7]", "1/y", None),  # nor is the difference
        ("sum(y + 1e-7*sin(y))", "y=[0.3, 0.7]", "1 + 0*y", None),  # it is a factor
    ],
)  # fmt: skip
def test_a_small_constant_that_the_claim_leaves_out_is_named(
    function: str, point: str, claim: str, headline: str | None
) -> None:
    report = gradcli.check(function, point, grad=claim)
    assert (report.verdict, report.headline or None) == ("fail" if headline is None else "pass", headline)
    if headline is not None:
        off = float(headline.split()[-2])
        assert report.detects.relative == pytest.approx(off, rel=0.5) and report.points[0].entries.wrong == 0


@pytest.mark.parametrize(
    ("f", "x", "claim", "wrong"),
    [
        ("y = 1 - 1/(1 + exp(x)); y", 20.0, "y = 1 - 1/(1 + exp(x)); y*(1 - y)", "y = 1 - 1/(1 + exp(x)); y*(1 - y)*(1 + 1e-6)"),
        ("logaddexp(0, x)", -14.0, "1 - 1/(1 + exp(x))", "1 - 1/(1 + exp(x*(1 + 1e-7)))"),
    ],
)  # fmt: skip
def test_a_right_formula_that_loses_digits_passes_with_its_line_and_a_wrong_one_fails(
    f: str, x: float, claim: str, wrong: str
) -> None:
    report = gradcli.check(f, {"x": x}, grad=claim)
    (said,) = [found for found in report.points[0].findings if found.kind == "inaccurate"]
    assert report.verdict == "pass" and "nearly equal numbers cancel" in said.message
    assert gradcli.check(f, {"x": x}, grad=wrong).verdict == "fail"


@pytest.mark.parametrize(("logit", "limit"), [(33.0, 9e-4), (36.0, 0.05), (100.0, None)])
@pytest.mark.parametrize("f", ["sum(logaddexp(0, z) - z*y)", "sum(log1p(exp(-abs(z))) + maximum(z, 0) - z*y)"])
def test_a_right_formula_passes_where_its_rounding_is_wide_beside_an_entry(f: str, logit: float, limit: Any) -> None:
    """The error of the entry that loses its digits is within the limit that is printed."""
    at = {"z": [logit, 1.0], "y": [1.0, 0.0]}
    report = gradcli.check(f, at, grad="1/(1 + exp(-z)) - y", wrt="z")
    assert report.verdict == "pass" and any(found.kind == "inaccurate" for found in report.points[0].findings)
    assert report.detects.relative == (None if limit is None else pytest.approx(limit, rel=0.2))
    assert report.sentence().endswith("right up to its own rounding") == (limit is None)


def test_what_its_own_rounding_leaves_open_of_a_claim_is_said_and_the_tolerance_decides_it() -> None:
    at = {"z": np.array([33.0, 1.0]), "y": np.array([1.0, 0.0])}

    def check(factor: float, **options: Any) -> Any:
        claim = lambda z, y: (1 / (1 + np.exp(-z)) - y) * np.array([factor, 1.0])
        return gradcli.check("sum(logaddexp(0, z) - z*y)", at, grad=claim, wrt="z", **options)

    report = check(-1.0)
    (said,) = [found for found in report.points[0].findings if found.kind == "noise"]
    assert report.verdict == "inconclusive" and "the rounding granted to the claim" in said.message
    option = (said.hint or "").partition("rtol")[2].split()[0].strip("=")
    assert check(-1.0, rtol=float(option)).verdict == "pass"


def test_a_claim_that_is_no_more_than_nearly_right_is_not_excused_as_rounding() -> None:
    for factor in (1 + 1e-11, 1 + 1e-7):
        assert gradcli.check("sum(sin(x))", {"x": [0.3, 2.0]}, grad=f"cos(x)*{factor!r}").verdict == "fail"
        assert gradcli.check(lambda x: math.sin(x), {"x": 0.3}, grad=lambda x: math.cos(x) * factor).verdict == "fail"  # noqa: B023


def test_a_claim_of_many_entries_or_much_work_is_not_evaluated_without_rounding() -> None:
    def claim(x: Any, turns: int = 0) -> Any:
        g = 1 - 1 / (1 + np.exp(x))
        for _ in range(turns):
            g = g + 0 * x
        return g

    def verdict(n: int, turns: int) -> str:
        f = lambda x: np.sum(np.logaddexp(0, x))
        return str(gradcli.check(f, {"x": np.full(n, -14.0)}, grad=lambda x: claim(x, turns)).verdict)

    assert verdict(20, 0) == "pass"
    assert (verdict(6_000, 0), verdict(20, 2_000)) == ("fail", "fail")
