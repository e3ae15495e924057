"""Verdicts: what passes, what fails, what cannot be told, and why."""

from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.checks.check import check
from gradcli.checks.probe import locate
from gradcli.checks.request import Request
from gradcli.modes.claim import ClaimedExpressions
from gradcli.report import numbers
from gradcli.report.check import CheckReport
from gradcli.report.encode import encode
from gradcli.report.suite import row_of_document
from gradcli.request.options import Options
from gradcli.targets.target_request import TargetRequest
from tests.rows import for_rows

FAST = ("certified", "forward", "reverse", "complex-step", "finite-difference")


def checked(
    text: str, at: str = "", grad: str | None = None, modes: tuple[str, ...] = FAST, **rest: Any
) -> CheckReport:
    """Check one expression in this process."""
    options = Options(**rest)
    found = locate(TargetRequest(text, (at,) if at else (), options))
    claim = ClaimedExpressions(grad, found.wrt) if grad is not None else None
    return check(Request(found.f, found.points, found.wrt, modes, claim, options))


def kinds(report: CheckReport) -> set[str]:
    return {f.kind for point in report.points for f in point.findings if f.severity != "info"}


# fmt: off
RIGHT = [
    # expression                                   point                          claim
    ("sin(x*y) + exp(-x**2)",                      "x=0.5, y=1.2",                None),
    ("sin(x*y) + exp(-x**2)",                      "x=0.5, y=1.2",                "x=y*cos(x*y) - 2*x*exp(-x**2), y=x*cos(x*y)"),
    ("sum(x*sin(x))",                              "x=[0.4, -1.1, 0.8]",          "sin(x) + x*cos(x)"),
    ("1e6*sum(x**2) + 1e6*sum(x)",                 "x=[0.3, -1.4, 2.2]",          "2e6*x + 1e6"),
    ("1e-8*sum(x) + 1e-8*sum(sin(x))",             "x=[0.3, -1.4, 2.2]",          "1e-8*(1 + cos(x))"),
    ("sum(maximum(x, 0)) + 0.1*sum(x**2)",         "x=[0.5, -0.3, 3e-7, 0.9]",    "(x > 0) + 0.2*x"),
    ("sum(sin(100*x)) + sum(x)",                   "x=[0.3, -1.4, 2.2]",          "100*cos(100*x) + 1"),
    ("sum(exp(20*x)) + sum(x)",                    "x=[0.3, -0.2, 1.1]",          "20*exp(20*x) + 1"),
    ("(1e8 + sum(x**2)) - 1e8 + sum(sin(x))",      "x=[0.4, -1.1, 0.8, 1.7]",     "2*x + cos(x)"),
    ("sum(log(x)) + 1e-6*sum(x)",                  "x=[3e6, 2e7, 8e5]",           "1/x + 1e-6"),
    ("sum(sqrt(x)) + sum(x)",                      "x=[1e-7, 4e-6, 3e-8]",        "0.5/sqrt(x) + 1"),
    ("1e4*sin(x[0]) + sin(x[1]) + 1e-4*sin(x[2])", "x=[0.4, 0.7, 1.0]",           "cos(x)*[1e4, 1, 1e-4]"),
    ("0.5*(x-u)@solve(S, x-u) + 0.5*log(det(S))",  "x=randn(3), u=randn(3), S=spd(3)", None),
    ("x*0",                                        "x=1",                         "0"),
    ("tanh(x)",                                    "x=25",                        None),
    ("log(x) + arccosh(y)",                        "",                            None),
    ("[x*y, x**2]",                                "x=2, y=3",                    None),
]
WRONG = [
    ("x**2",                        "x=3",                  "x",                        "factor"),
    ("x*y",                         "x=3, y=2",             "x=y, y=-x",                "sign"),
    ("x*y",                         "x=3, y=2",             "x=x, y=y",                 "swapped"),
    ("sum(x**2)",                   "x=[1, 2, 3]",          "0*x",                      "detached"),
    ("mean(x**2)",                  "x=[1, 2, 3, 4]",       "2*x",                      "factor"),
    ("sum(A*B)",                    "A=randn(3,3), B=randn(3,3)", "A=B.T, B=A",         "transposed"),
    ("sum(x**3)",                   "x=[1, 2, 4, 5]",       "3*concatenate([x[1:], x[:1]])**2", "shifted"),
    ("sum(x**2)",                   "x=[1, 2, 3]",          "2*x[0]",                   "shape"),
    ("sum(sin(x))",                 "x=[1, 2, 3]",          "cos(x)*(1 + 1e-8)",        "scaled"),
    ("sum(sin(x)) + sum(x)",        "x=[1, 2, 3]",          "cos(x)",                   "term"),
    ("log(x)",                      "x=2",                  "1/(x - 2)",                "non-finite"),
]
OPEN = [
    ("sum(relu(x))",         "x=[1, 0, -2]",   {"kink"}),
    ("abs(x)",               "x=0",            {"kink"}),
    ("max(x, y)",            "x=1, y=1",       {"kink"}),
    ("max([x, y, 0])",       "x=1, y=1",       {"kink"}),
    ("x if x > 0 else -x",   "x=0",            {"kink"}),
    ("clip(x, 0, 1)*y",      "x=1, y=2",       {"kink"}),
    ("floor(x)*y",           "x=1.5,y=2",      {"staircase"}),
    ("sign(x) + y",          "x=1.5,y=2",      {"staircase"}),
    ("(x > 1)*y",            "x=1.5,y=2",      {"staircase"}),
    ("1 if x > 1 else 2",    "x=1.5",          {"staircase"}),
    ("x - floor(x)",         "x=2",            {"jump"}),
    ("(x - floor(x))*(ceil(x) - x)", "x=2",    {"kink"}),
    ("sqrt(x)",              "x=0",            {"non-finite"}),
    ("log(x)",               "x=-1",           {"non-finite"}),
    ("1/x",                  "x=0",            {"non-finite"}),
    ("exp(x)",               "x=1000",         {"non-finite"}),
    ("1/0",                  "",               {"non-finite"}),
    ("norm(x)",              "x=[0, 0]",       {"kink"}),
    ("abs(y) + sqrt(x)",     "x=0, y=0",       {"non-finite"}),
]
# fmt: on


@for_rows(("text", "at", "grad"), RIGHT)
def test_a_right_gradient_passes_and_says_what_it_could_have_seen(text: str, at: str, grad: str | None) -> None:
    report = checked(text, at, grad)
    assert report.verdict == "pass", [(p.findings, p.modes) for p in report.points]
    assert report.exit_status == 0
    nonzero = any(np.any(np.asarray(g) != 0) for p in report.points for g in (p.gradient or p.jacobian or {}).values())
    assert (report.detects.relative is not None) == nonzero
    assert not nonzero or 0 < report.detects.relative < 1e-6


@for_rows(("text", "at", "grad", "mistake"), WRONG)
def test_a_wrong_gradient_fails_and_its_mistake_is_named(text: str, at: str, grad: str, mistake: str | None) -> None:
    report = checked(text, at, grad)
    assert (report.verdict, report.exit_status) == ("fail", 1)
    diagnosis = report.points[0].diagnosis
    assert (diagnosis.kind if diagnosis else None) == mistake


@for_rows(("text", "at", "expected"), OPEN)
def test_what_has_no_gradient_is_inconclusive_and_says_why(text: str, at: str, expected: set[str]) -> None:
    report = checked(text, at)
    assert (report.verdict, report.exit_status) == ("inconclusive", 3)
    assert kinds(report) & expected


def test_a_kink_through_which_nothing_flows_is_no_kink() -> None:
    assert checked("relu(x)**2 + x", "x=0").verdict == "pass"


def test_the_entries_beside_a_kink_are_still_judged() -> None:
    point = checked("sum(relu(x))", "x=[1, 0, -2]").points[0]
    assert (point.entries.compared, point.entries.undecided) == (3, 1)


def test_a_wrong_entry_beside_a_kink_is_wrong() -> None:
    assert checked("sum(relu(x))", "x=[1, 0, -2]", "[3, 0, 0]").exit_status == 1


@pytest.mark.parametrize(("grad", "status"), [("[1, 0.5, 0]", 0), ("[1, 2, 0]", 3), ("[1, -0.1, 0]", 3)])
def test_an_allowed_kink_excuses_only_claims_between_the_slopes(grad: str, status: int) -> None:
    assert checked("sum(relu(x))", "x=[1, 0, -2]", grad, allow=frozenset({"kink"})).exit_status == status


def test_modes_that_share_what_they_rest_on_confirm_nothing() -> None:
    report = checked("x**2", "x=3", modes=("forward", "reverse"))
    assert report.verdict == "inconclusive"
    (found,) = report.points[0].findings
    assert found.kind == "no-second-witness"
    assert "finite-difference" in str(found.hint)


def test_a_claim_is_not_granted_what_float64_lost() -> None:
    assert checked("tanh(x)", "x=25", "1 - tanh(x)**2").verdict == "inconclusive"


@pytest.mark.parametrize("f", ["logm", "sqrtm"])
@pytest.mark.parametrize("matrix", ["[[2, 0.3, -0.4], [0.1, 2, 0.5], [0.6, -0.3, 2]]", "spd(3)"])
def test_functions_of_a_matrix_have_no_complex_step(f: str, matrix: str) -> None:
    """scipy computes them by rotations, which add rounding of the real parts to the imaginary ones."""
    report = checked(f"trace(B @ {f}(A))", f"A={matrix}, B=randn(3,3)")
    mode = report.points[0].modes["complex-step"]
    assert report.verdict == "pass" and mode.message == f"{f} rounds small imaginary parts away"


def test_nan_claimed_where_f_is_smooth_is_wrong() -> None:
    assert checked("x**2", "x=3", "0/0*x").exit_status == 1


def test_none_means_not_differentiated() -> None:
    report = checked("x**2*y", "x=3, y=2", "x=2*x*y, y=None")
    assert report.verdict == "pass"
    assert report.points[0].entries.compared == 1


def test_a_zero_gradient_is_reported_as_weak_evidence() -> None:
    assert "weak" in kinds(checked("x**2", "x=0", "2*x"))


@pytest.mark.parametrize("claim", [None, "2*(x - 1)"])
def test_a_gradient_of_zeros_is_right_to_within_an_absolute_limit(claim: str | None) -> None:
    report = checked("sum((x - 1)**2)", "x=[1, 1]", claim)
    assert (report.verdict, report.detects.relative) == ("pass", None)
    assert report.detects.absolute is not None and 0 <= report.detects.absolute < 1e-12
    assert (
        f" is right to within {numbers.write_bound(report.detects.absolute)} (absolute: every entry is 0)"
        in report.sentence()
    )
    row = row_of_document("f", "f", encode(report), 0.1)
    assert row.said() == f"right to within {numbers.write_bound(report.detects.absolute)} (absolute)"


def test_a_gradient_that_is_not_zero_is_right_to_a_relative_limit() -> None:
    report = checked("x**2", "x=3", "2*x")
    limit = numbers.write_bound(report.detects.relative)
    assert f" is right to better than {limit}" in report.sentence()
    assert row_of_document("f", "f", encode(report), 0.1).said() == f"right to better than {limit}"


def test_a_fixed_tolerance_replaces_the_computed_one() -> None:

    assert checked("x**2", "x=3", "2.001*x").exit_status == 1
    assert checked("x**2", "x=3", "2.001*x", rtol=1e-2).exit_status == 0


def test_several_points_take_the_worst_verdict() -> None:
    found = locate(TargetRequest("abs(x)", ("x=1", "x=0")))
    assert [p.verdict for p in check(Request(found.f, found.points, found.wrt, FAST)).points] == [
        "pass",
        "inconclusive",
    ]


def test_drawn_points_lie_where_the_function_is_smooth() -> None:
    report = checked("log(x) + arcsin(y) + sqrt(z - 1) + abs(w)")
    assert report.verdict == "pass"
    assert all(p.drawn == ("x", "y", "z", "w") for p in report.points)
    assert len({float(p.at["x"]) for p in report.points}) == 3


def squared(x: Any) -> Any:
    return np.sum(x**2)


def test_a_claim_that_changes_is_said_to_and_not_diagnosed() -> None:
    rng = np.random.default_rng(0)
    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=lambda x: 2 * x * rng.uniform(0.5, 1.5))
    assert (report.verdict, report.exit_status, report.points[0].diagnosis) == ("fail", 1, None)
    (found,) = [f for f in report.points[0].findings if f.kind == "not-deterministic"]
    assert found.message.startswith("the claimed gradient is not deterministic: two calls with the same arguments give")
    assert "seed" in str(found.hint)


def test_a_claim_whose_second_call_fails_is_said_to_change() -> None:
    calls: list[int] = []

    def claim(x: Any) -> Any:
        calls.append(1)
        return 3 * x if len(calls) == 1 else x[7]

    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=claim)
    (found,) = [f for f in report.points[0].findings if f.kind == "not-deterministic"]
    assert (report.verdict, "a second call with the same arguments fails" in found.message) == ("fail", True)


def test_a_wrong_claim_that_stays_the_same_is_diagnosed() -> None:
    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=lambda x: 4 * x)
    assert (report.verdict, kinds(report)) == ("fail", set())
    assert report.points[0].diagnosis is not None


@pytest.mark.parametrize(("factor", "verdict"), [(2.0, "inconclusive"), (3.0, "fail")])
def test_a_claim_that_writes_into_its_input_is_told(factor: float, verdict: str) -> None:
    def claim(x: Any) -> Any:
        x *= factor
        return x

    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=claim)
    (found,) = [f for f in report.points[0].findings if f.kind == "mutates-input"]
    assert (report.verdict, found.severity) == (verdict, "inconclusive")
    assert found.message == "claim writes into its input; it was given copies"


@pytest.mark.parametrize("entries", [1, 9])
def test_modes_that_add_no_witness_are_left_out_where_the_entries_of_a_claim_are_certified(entries: int) -> None:
    x = np.linspace(0.1, 1.0, entries)
    report = package.check(lambda x: np.sum(np.sin(x)), x, grad=np.cos)
    modes = report.points[0].modes
    assert report.verdict == "pass"
    assert modes["certified"].status == modes["reverse"].status == "ok"
    for name in ("symbolic", "forward", "complex-step", "finite-difference"):
        assert (modes[name].status, modes[name].message) == ("not run", "every entry is certified")
    assert (
        package.check(lambda x: np.sum(np.sin(x)), x, grad=np.cos, modes="all").points[0].modes["forward"].status
        == "ok"
    )
    kinked = package.check(lambda x: np.sum(np.abs(x - 0.1)), x, grad=lambda x: np.sign(x - 0.1)).points[0].modes
    assert kinked["finite-difference"].status == "ok"  # at a kink there is no certified value
    assert package.check(lambda x: np.sum(np.sin(x)), x).points[0].modes["forward"].status == "ok"  # no claim


def test_a_right_claim_of_many_entries_takes_nine_calls() -> None:
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return np.sum(np.tanh(x) ** 2)

    at = np.linspace(-1.0, 1.0, 20_000)
    report = package.check(counted, {"x": at}, grad=lambda x: 2 * np.tanh(x) / np.cosh(x) ** 2)
    assert (report.verdict, len(calls)) == ("pass", 9)


# Of 400 entries, which balls take long for.
WAVE, CANCELS = "sum(exp(sin(x))*cos(x))", "sum((1e4 + x)**2 - 1e8 - 2e4*x)"
SLOPE = "exp(sin(x))*(cos(x)**2 - sin(x))"


@pytest.mark.parametrize(
    ("f", "claim", "verdict", "reference"),
    [
        (WAVE, SLOPE, "pass", "reverse"), (WAVE, f"{SLOPE}*(1 + 1e-9)", "fail", "certified"),
        (CANCELS, "2*x", "pass", "certified"),  # the digits that reverse loses are asked of balls
        (CANCELS, "2*x*(1 + 3e-9)", "fail", "certified"),
    ],
)  # fmt: skip
def test_balls_that_take_long_are_asked_where_a_quick_look_leaves_anything_open(
    f: str, claim: str, verdict: str, reference: str
) -> None:
    report = package.check(f, {"x": np.linspace(0.1, 1.0, 400)}, grad=claim)
    modes = report.points[0].modes
    assert (report.verdict, report.points[0].reference) == (verdict, reference)
    assert (modes["certified"].status == "not run") == (reference == "reverse")
    if reference == "reverse":
        assert modes["certified"].message == "reverse and function values decide"


def test_a_gradient_that_is_certified_with_float64s_pi_says_so() -> None:
    (point,) = checked("(x - pi)**2", "x=3.141592653589793", "2*(x - pi)").points
    assert any(
        f.message.startswith("the gradient is certified with the float64 values of pi and e") for f in point.findings
    )
