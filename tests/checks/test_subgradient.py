"""At a kink: means of the gradients of the pieces that meet there pass as subgradients, all else is told apart."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks.more_evidence import CLOSE, HullDistance, distance_from_hull
from gradcli.checks.probe import locate
from gradcli.modes.mode import Question
from gradcli.report.check import CheckReport
from gradcli.request.point import Estimate
from gradcli.targets.target_request import TargetRequest
from tests.checks.planting import checked
from tests.rows import for_rows

FORTY = "[" + ", ".join(["0"] * 40) + "]"


def judged(text: str, at: str, claim: str) -> CheckReport:
    return checked(text, at, claim)


def kinds(report: CheckReport) -> dict[str, str]:
    return {f.kind: f.severity for f in report.points[0].findings}


def listed(xs: Any) -> str:
    return "[" + ", ".join(f"{x:.17g}" for x in xs) + "]"


# fmt: off
MEMBERS = [
    # expression, point, claim
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 0, 0]"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 1, 0]"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 0.3, 0]"),
    ("sum(abs(x))",                     "x=[0, 2]",                 "[-1, 1]"),
    ("sum(abs(x))",                     "x=[0, 2]",                 "[0.2, 1]"),
    ("abs(x)*y + y**2",                 "x=0, y=3",                 "x=-2.5, y=6"),
    ("max(x, y)",                       "x=1, y=1",                 "x=1, y=0"),
    ("max(x, y)",                       "x=1, y=1",                 "x=0.5, y=0.5"),
    ("max([x, y, z])",                  "x=1, y=1, z=1",            "x=0.2, y=0.5, z=0.3"),
    ("max(x)",                          "x=[3, 1, 3]",              "[0, 0, 1]"),
    ("min(x)",                          "x=[3, 1, 1]",              "[0, 0.25, 0.75]"),
    ("sum(clip(x, 0, 1))",              "x=[0, 1, 0.5]",            "[0, 1, 1]"),
    ("sum(clip(x, 0, 1))",              "x=[0, 1, 0.5]",            "[0.5, 0.5, 1]"),
    ("2*x if x > 1 else x + 1",         "x=1",                      "2"),
    ("2*x if x > 1 else x + 1",         "x=1",                      "1.5"),
    ("sum(where(x > 0, x, 3*x))",       "x=[0, 2]",                 "[2, 1]"),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([1.0] * 40)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([0.0] * 40)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([0.5] * 40)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([0.3] * 40)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed(np.arange(40) % 2)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed(np.arange(40) < 12)),
    ("sum(relu(x))",                    f"x={FORTY}",               listed(np.arange(40) < 7)),
    ("1e6*a**2 + 0.1*relu(b)",          "a=1, b=0",                 "a=2e6*a, b=0.05"),
    ("1e7*y + max(x)",                  "x=[1, 1], y=1",            "x=[0.25, 0.75], y=1e7"),
    ("1e-9*abs(x) + y**2",              "x=0, y=1",                 "x=-1e-9, y=2"),
    ("abs(x + 300*y) + abs(x - 300*y)", "x=0, y=0",                 "x=0.5, y=-300"),
]
OUTSIDE = [
    ("1e6*a**2 + 0.1*relu(b)",          "a=1, b=0",                 "a=2e6*a, b=-1.5"),
    ("1e6*a**2 + 0.1*relu(b)",          "a=1, b=0",                 "a=2e6*a, b=0.1001"),
    ("1e7*y + max(x)",                  "x=[1, 1], y=1",            "x=[3, -2], y=1e7"),
    ("1e7*y + max(x)",                  "x=[1, 1], y=1",            "x=[0.505, 0.505], y=1e7"),
    ("1e-9*abs(x) + y**2",              "x=0, y=1",                 "x=5e-7, y=2"),
    ("1e7*relu(x) + 1e-5*relu(y)",      "x=0, y=0",                 "x=5e6, y=2e-5"),
    ("abs(x + 300*y) + abs(x - 300*y)", "x=0, y=0",                 "x=2, y=300"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 2, 0]"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, -0.01, 0]"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 1.00001, 0]"),
    ("sum(abs(x))",                     "x=[0, 2]",                 "[1.1, 1]"),
    ("max(x, y)",                       "x=1, y=1",                 "x=0.505, y=0.505"),
    ("max(x, y)",                       "x=1, y=1",                 "x=1, y=1"),
    ("max(x, y)",                       "x=1, y=1",                 "x=0, y=0"),
    ("max(x)",                          "x=[3, 1, 3]",              "[0.4, 0, 0.5]"),
    ("sum(clip(x, 0, 1))",              "x=[0, 1, 0.5]",            "[2, 0, 1]"),
    ("2*x if x > 1 else x + 1",         "x=1",                      "3"),
    ("sum(where(x > 0, x, 3*x))",       "x=[0, 2]",                 "[0.5, 1]"),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([1.0] * 39 + [1.5])),
    ("sum(relu(x))",                    f"x={FORTY}",               listed([-0.2] + [0.5] * 39)),
]
BESIDE = [  # wrong where f is smooth
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[3, 0, 0]"),
    ("sum(relu(x))",                    "x=[1, 0, -2]",             "[1, 0.5, 1]"),
    ("abs(x)*y + y**2",                 "x=0, y=3",                 "x=1, y=-6"),
    ("sum(clip(x, 0, 1))",              "x=[0, 1, 0.5]",            "[0.5, 0.5, 0]"),
    ("max(x)",                          "x=[3, 1, 3]",              "[0.5, 0.1, 0.5]"),
]
NEARBY = [  # near a kink, not at it: right, and wrong
    ("sum(relu(x)) + sum(x**2)",        "x=[1, 3e-7, -2]",          "(x > 0) + 2*x",  "(x > 1e-6) + 2*x"),
    ("sum(relu(x)) + sum(x)",           "x=[1, -3e-7, -2]",         "(x > 0) + 1",    "(x > -1e-6) + 1"),
    ("max(x, y) + x*y",                 "x=1.0000003, y=1",         "x=1 + y, y=x",   "x=y, y=1 + x"),
    pytest.param("sum(relu(x))",        "x=[1, -3e-7, -2]",         "(x > 0)",        "(x > -1e-6)"),
    ("sum(abs(x)*x**2 + abs(x))",       "x=[3e-7, 0.4]",            "3*x*abs(x) + sign(x)", "[-1, 3*0.4**2 + 1]"),
    pytest.param("max(x, y)**2",        "x=1.0000003, y=1",         "x=2*x, y=0",     "x=2*x, y=2*x"),
]
# fmt: on


@pytest.mark.parametrize(("text", "at", "claim"), MEMBERS)
def test_a_mean_of_the_pieces_passes_as_a_subgradient(text: str, at: str, claim: str) -> None:
    report = judged(text, at, claim)
    found = kinds(report)
    assert (report.verdict, report.exit_status) == ("pass", 0), report.points[0].findings
    assert (found["subgradient"], found["kink"]) == ("warning", "warning")
    (says,) = [f.message for f in report.points[0].findings if f.kind == "subgradient"]
    assert "a mean of the gradients of the" in says


def test_a_pass_at_a_kink_says_no_more_than_the_test_for_subgradients_sees() -> None:
    report = judged("1e6*a**2 + 0.1*relu(b)", "a=1, b=0", "a=2e6*a, b=0.05")
    assert CLOSE <= report.detects.relative < 10 * CLOSE
    just = judged("1e6*a**2 + 0.1*relu(b)", "a=1, b=0", f"a=2e6*a, b={0.1 * (1 + 20 * CLOSE)!r}")
    assert (report.verdict, just.verdict) == ("pass", "inconclusive")


@pytest.mark.parametrize(("text", "at", "claim"), OUTSIDE)
def test_what_is_no_mean_of_the_pieces_is_not_decided_and_told(text: str, at: str, claim: str) -> None:
    report = judged(text, at, claim)
    assert (report.verdict, report.exit_status) == ("inconclusive", 3), report.points[0].findings
    assert kinds(report)["not-a-subgradient"] == "inconclusive"
    assert "subgradient" not in kinds(report)
    (says,) = [f.message for f in report.points[0].findings if f.kind == "not-a-subgradient"]
    assert "away from every mean of the" in says


@for_rows(("text", "at", "claim"), BESIDE)
def test_a_claim_that_is_wrong_beside_the_kink_fails(text: str, at: str, claim: str) -> None:
    report = judged(text, at, claim)
    assert (report.verdict, report.exit_status) == ("fail", 1)
    assert "subgradient" not in kinds(report)
    assert report.points[0].diagnosis is not None


@for_rows(("text", "at", "right", "wrong"), NEARBY)
def test_a_point_near_a_kink_is_decided(text: str, at: str, right: str, wrong: str) -> None:
    assert (judged(text, at, right).verdict, judged(text, at, wrong).verdict) == ("pass", "fail")
    (says,) = [f.message for f in judged(text, at, right).points[0].findings if f.kind == "kink-nearby"]
    assert says.startswith("a kink is 3e-07 away in x")


@pytest.mark.parametrize(
    ("text", "at", "right", "wrong"),
    [
        ("sum(relu(x))", "x=[1, -3e-7, -2]", "(x > 0)", "(x > -1e-6)"),
        ("max(x, y)**2", "x=1.0000003, y=1", "x=2*x, y=0", "x=2*x, y=2*x"),
    ],
)
def test_all_modes_together_decide_where_the_slope_near_a_kink_is_zero(
    text: str, at: str, right: str, wrong: str
) -> None:
    assert (gradcli.check(text, at, grad=right).verdict, gradcli.check(text, at, grad=wrong).verdict) == (
        "pass",
        "fail",
    )


def ordered(x: Any) -> Any:
    s = np.sort(x)
    return s[0] + 3 * s[1]


@for_rows(
    ("claim", "status"), [([1, 3], 0), ([3, 1], 0), ([2, 2], 0), ([1.5, 2.5], 0), ([1, 1], 3), ([4, 0], 3), ([3, 3], 3)]
)
def test_at_a_tie_of_a_sort_means_of_both_orders_pass(claim: list[float], status: int) -> None:
    report = checked(ordered, {"x": np.array([2.0, 2.0])}, lambda x: np.array(claim, dtype=float))
    assert report.exit_status == status
    assert ("subgradient" if status == 0 else "not-a-subgradient") in kinds(report)


def test_a_smooth_point_has_neither_finding() -> None:
    assert set(kinds(judged("sum(x**2)", "x=[1, 2]", "2*x"))) == set()


def test_a_step_at_the_tie_is_no_kink_to_have_subgradients() -> None:
    report = judged("1 + x if x > 1 else x", "x=1", "1")
    assert report.verdict == "inconclusive"
    assert "subgradient" not in kinds(report)


def lies(text: str, at: str, **claim: Any) -> HullDistance:
    found = locate(TargetRequest(text, (at,)))
    value = {name: np.asarray(x, dtype=float)[()] for name, x in claim.items()}
    bound = {name: np.zeros(np.shape(x))[()] for name, x in value.items()}
    return distance_from_hull(Question(found.f, found.points[0], found.wrt), Estimate(value, bound))


@for_rows(
    ("text", "at", "claim", "pieces", "distance"),
    [
        ("sum(relu(x))", "x=[0, 0]", [0.5, 0.5], 4, 0.0),
        ("sum(relu(x))", "x=[0, 0]", [2.0, 0.5], 4, 1.0),
        ("sum(relu(x))", "x=[0, 3]", [-0.25, 1.0], 2, 0.25),
        ("max(x)", "x=[1, 1, 1]", [1 / 3, 1 / 3, 1 / 3], 3, 0.0),
        ("max(x)", "x=[1, 1]", [0.505, 0.505], 2, 0.005),
        ("5*abs(x)", "x=0", -6.0, 2, 0.2),
    ],
)
def test_the_hull_counts_the_pieces_and_measures_the_distance(
    text: str, at: str, claim: Any, pieces: int, distance: float
) -> None:
    found = lies(text, at, x=claim)
    assert found.piece_count == pieces
    assert abs(found.distance - distance) <= 10 * CLOSE
    assert found.holds == (distance == 0)
    assert not found.contradicted_by_values


def test_a_claim_for_some_of_the_inputs_alone_has_no_hull() -> None:
    found = locate(TargetRequest("max(x, y)", ("x=1, y=1",)))
    q = Question(found.f, found.points[0], found.wrt)
    assert distance_from_hull(q, Estimate({"x": np.float64(1)}, {"x": np.float64(0)})) == HullDistance()


def test_one_of_several_tied_entries_is_a_subgradient_also_of_many_windows() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(12, 4))
    x = np.maximum(rng.normal(size=(12, 4)), 0) * (rng.random((12, 4)) > 0.5)

    def first(x: Any) -> Any:
        out = np.zeros_like(x)
        np.put_along_axis(out, x.argmax(axis=1)[:, None], w[:, :1], 1)
        return out

    f = lambda x: (x.max(axis=1) * w[:, 0]).sum()
    assert gradcli.check(f, {"x": x}, grad=first).headline == "PASS (a subgradient at a kink)"
    every = lambda x: (x == x.max(axis=1, keepdims=True)) * w[:, :1]
    assert gradcli.check(f, {"x": x}, grad=every).verdict == "inconclusive"
