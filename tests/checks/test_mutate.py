"""`--mutate`: planted mistakes are counted honestly, what is seen is what `check` sees, and gross ones end the pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import for_rows

QUICK = ("--modes", "reverse,fd")
RELATIVE, PART = "one entry off by a relative error", "one entry off by a part of the largest"
ONCE = ("the sign of one entry flipped", "one entry zero", "one entry doubled", "the entries shifted by one")
KEYS = ["mistake", "planted", "caught", "smallest_in_every", "smallest_in_any"]


def mutated(gradcli: Callable[..., Any], *argv: str, modes: tuple[str, ...] = QUICK) -> Any:
    """Return the document of a check of one point with planted mistakes."""
    return gradcli("check", *argv, "--mutate", *modes, "--json").json


def by_mistake(document: Any, point: int = 0) -> dict[str, dict[str, Any]]:
    return {mutant["mistake"]: mutant for mutant in document["points"][point]["mutants"]}


def kinds(document: Any) -> list[str]:
    return [f["kind"] for f in document["points"][0]["findings"] if f["severity"] == "inconclusive"]


# fmt: off
CAUGHT = [
    # check                                                               entries  changed by a shift
    (("sum(sin(x))", "x=[0.3,1,2]"),                                        3,  3),
    (("sum(sin(x))", "x=[0.3,1,2]", "--grad", "cos(x)"),                    3,  3),
    (("x**2", "x=3"),                                                       1,  0),
    (("x**2", "x=3", "--grad", "2*x"),                                      1,  0),
    (("sum(x)", "x=[1,1,1]"),                                               3,  0),
    (("x*y", "x=1", "y=2", "--grad", "x=y"),                                1,  0),
    (("sum(W@x)", "W=[[1,2],[3,4]]", "x=[1,2]"),                            6,  6),
    (("[x, x*y]", "x=1", "y=2"),                                            3,  4),
    (("[x, x*y]", "x=1", "y=2", "--jac", "x=[1, y], y=[0, x]"),             3,  4),
    (("sum(x*y)", "x=[1,2]", "y=[0,3]", "--wrt", "x"),                      1,  2),
    (("x**3", "x=2", "--order", "2"),                                       1,  0),
    (("x**3", "x=2", "--hess", "6*x"),                                      1,  0),
]
# fmt: on


@for_rows(("argv", "entries", "moved"), CAUGHT)
def test_a_sharp_check_catches_every_planted_mistake(
    gradcli: Callable[..., Any], argv: tuple, entries: int, moved: int
) -> None:
    document = mutated(gradcli, *argv)
    found = by_mistake(document)
    assert (document["exit_status"], kinds(document)) == (0, [])
    assert list(found) == [RELATIVE, PART, *ONCE] and all(list(m) == KEYS for m in found.values())
    for mistake in (RELATIVE, *ONCE[:3]):
        assert (found[mistake]["planted"], found[mistake]["caught"]) == (entries, entries)
    assert (found[ONCE[3]]["planted"], found[ONCE[3]]["caught"]) == (moved, moved)
    for mistake in (RELATIVE, PART):
        assert 0 < found[mistake]["smallest_in_any"] <= found[mistake]["smallest_in_every"] < 1e-8
    assert all(found[mistake][key] is None for mistake in ONCE for key in KEYS[3:])


@for_rows("argv", [argv for argv, _, _ in CAUGHT])
def test_the_gradient_is_judged_as_it_is_without_mutants(gradcli: Callable[..., Any], argv: tuple) -> None:
    document, plain = mutated(gradcli, *argv), gradcli("check", *argv, *QUICK, "--json").json
    assert (document["verdict"], document["detects"]) == (plain["verdict"], plain["detects"])
    assert document["points"][0]["entries"] == plain["points"][0]["entries"]
    assert "mutants" not in plain["points"][0]
    evaluations = [[mode["evaluations"] for mode in d["points"][0]["modes"].values()] for d in (document, plain)]
    assert evaluations[0] == evaluations[1]


SEEN = [
    (("sum(sin(x))", "x=[0.3,1,2]"), "cos(x)"),
    (("x**2", "x=3"), "2*x"),
    (("x*y", "x=1", "y=2", "--wrt", "x"), "y"),
]


@pytest.mark.parametrize(("argv", "claim"), SEEN)
def test_what_is_said_to_be_seen_is_seen_and_smaller_ones_are_not(
    gradcli: Callable[..., Any], argv: tuple, claim: str
) -> None:
    shown = by_mistake(mutated(gradcli, *argv, "--grad", claim))[RELATIVE]["smallest_in_every"]
    for error, status in ((shown, 1), (shown / 100, 0)):
        assert gradcli("check", *argv, "--grad", f"{claim}*(1 + {error!r})", *QUICK).exit_status == status


# fmt: off
TOLERANCES = [
    # tolerance           relative   part     status  gross mistakes that are not seen
    (("--rtol", "2e-3"),  1e-2,      1e-2,    0,      set()),
    (("--rtol", "2e-6"),  1e-5,      1e-5,    0,      set()),
    (("--atol", "0.1"),   1e-1,      1e-1,    0,      set()),
    (("--atol", "3"),     None,      1e0,     3,      {*ONCE[1:]}),
    (("--rtol", "1.5"),   None,      None,    3,      {*ONCE[1:]}),
    (("--rtol", "3"),     None,      None,    3,      {*ONCE}),
]
# fmt: on


@for_rows(("tolerance", "relative", "part", "status", "unseen"), TOLERANCES)
def test_a_wide_tolerance_lets_mistakes_through_and_is_told_so(
    gradcli: Callable[..., Any], tolerance: tuple, relative: Any, part: Any, status: int, unseen: set[str]
) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[1,2,3]", "--grad", "2*x", *tolerance)
    found = by_mistake(document)
    assert document["exit_status"] == status
    assert found[RELATIVE]["smallest_in_every"] == relative
    assert found[PART]["smallest_in_every"] == part
    assert {mistake for mistake in ONCE if found[mistake]["caught"] < found[mistake]["planted"]} == unseen
    assert kinds(document) == (["mutant"] if status else [])


def test_a_mistake_that_would_go_unseen_is_a_finding(gradcli: Callable[..., Any]) -> None:
    argv = ("sum(x**2)", "x=[1,2,3]", "--grad", "2*x", "--rtol", "3")
    document = mutated(gradcli, *argv)
    (found,) = [f for f in document["points"][0]["findings"] if f["kind"] == "mutant"]
    assert (document["verdict"], found["severity"]) == ("inconclusive", "inconclusive")
    assert found["message"] == f"3 of 3 planted mistakes would not be found: {RELATIVE}"
    assert "too wide" in found["hint"]
    assert gradcli("check", *argv, *QUICK).exit_status == 0  # without mutants the tolerance is the user's business


@pytest.mark.parametrize(("allowed", "status"), [("mutant", 0), ("noise", 3), ("kink,mutant", 0)])
def test_unseen_mistakes_can_be_accepted(gradcli: Callable[..., Any], allowed: str, status: int) -> None:
    argv = ("sum(x**2)", "x=[1,2,3]", "--grad", "2*x", "--rtol", "3", "--allow", allowed)
    assert mutated(gradcli, *argv)["exit_status"] == status


def test_a_wrong_claim_stays_wrong(gradcli: Callable[..., Any]) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[1,2,3]", "--grad", "3*x")
    assert (document["exit_status"], document["verdict"]) == (1, "fail")
    assert document["points"][0]["diagnosis"]["kind"] == "factor"


def test_entries_that_differences_cannot_resolve_are_not_said_to_be_caught(gradcli: Callable[..., Any]) -> None:
    document = mutated(gradcli, "x**2 + 1e-20*y", "x=1", "y=1", "--grad", "x=2*x, y=1e-20")
    found = by_mistake(document)
    assert document["exit_status"] == 3 and kinds(document) == ["noise", "mutant"]
    assert all((found[mistake]["planted"], found[mistake]["caught"]) == (2, 1) for mistake in ONCE[:3])
    assert found[RELATIVE]["smallest_in_every"] is None and found[RELATIVE]["smallest_in_any"] < 1e-8


def test_every_point_has_its_own_mutants(gradcli: Callable[..., Any]) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[1,2]", "x=[1,2,3]")
    assert [by_mistake(document, k)[RELATIVE]["planted"] for k in (0, 1)] == [2, 3]


def test_a_zero_gradient_has_nothing_to_plant_in(gradcli: Callable[..., Any]) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[0,0]", modes=("--modes", "certified,reverse,fd"))
    assert document["exit_status"] == 0
    assert all(mutant["planted"] == 0 for mutant in by_mistake(document).values())


@pytest.mark.parametrize("form", [(), ("--format", "markdown")], ids=str)
def test_people_read_a_table(gradcli: Callable[..., Any], form: tuple) -> None:
    said = gradcli("check", "sum(x**2)", "x=[1,2]", "--grad", "2*x", "--mutate", *QUICK, *form).stdout
    rows = {row[0]: row[-1] for row in map(_cells, said.splitlines()) if row}
    assert "smallest caught" in rows["planted mistake"]
    assert "in every entry" in rows[RELATIVE]
    assert [rows[mistake] for mistake in ONCE] == ["caught in 2 of 2"] * 4


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").replace(" | ", "  ").split("  ") if cell.strip()]


def test_without_the_option_nothing_is_said_of_mutants(gradcli: Callable[..., Any]) -> None:
    assert "planted" not in gradcli("check", "sum(x**2)", "x=[1,2]", "--grad", "2*x", *QUICK).stdout


def test_the_option_takes_no_value(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=1", "--mutate=3")
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ") and "--mutate" in ran.stderr


@pytest.mark.parametrize(
    "more", [("--modes", "certified,reverse"), ("--modes", "reverse,fd", "--budget", "1")], ids=str
)
def test_where_nothing_can_be_planted_it_is_said(gradcli: Callable[..., Any], more: tuple) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[1,2,3]", modes=more)
    said = " ".join(f["message"] for f in document["points"][0]["findings"])
    assert document["points"][0]["mutants"] or "mistake" in said


def test_in_a_wrong_claim_no_size_below_the_bounds_is_said_to_be_seen(gradcli: Callable[..., Any]) -> None:
    found = by_mistake(mutated(gradcli, "sum(sin(x))", "x=[0.3,1,2]", "--grad", "1.001*cos(x)"))
    assert not found or found[RELATIVE]["smallest_in_every"] > 1e-13


def test_in_a_claim_of_the_wrong_shape_nothing_is_planted(gradcli: Callable[..., Any]) -> None:
    assert by_mistake(mutated(gradcli, "x**2", "x=3", "--grad", "[2, 3]")) == {}


def test_entries_that_are_nearly_equal_end_no_pass(gradcli: Callable[..., Any]) -> None:
    document = mutated(gradcli, "sum(x**2)", "x=[1, 1.00000000000001, 5]", "--grad", "2*x")
    assert (document["exit_status"], kinds(document)) == (0, [])


def test_a_subgradient_that_passes_still_does(gradcli: Callable[..., Any]) -> None:
    argv = ("max(x, y)", "x=1", "y=1", "--grad")
    assert gradcli("check", *argv, "x=-0.5, y=0.5", *QUICK).exit_status == 3
    assert gradcli("check", *argv, "x=0.5, y=0.5", *QUICK).exit_status == 0
    assert mutated(gradcli, *argv, "x=0.5, y=0.5")["exit_status"] == 0


def test_entries_at_a_kink_are_said_to_be_left_out(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "sum(abs(x))", "--at", "x=[0, 1]", "--grad", "[0.5, 1]", "--mutate", "--json")
    said = [f["message"] for f in ran.json["points"][0]["findings"] if f["kind"] == "mutant"]
    assert said == ["no mistake was planted in 1 entry at a kink: other subgradients are right there, too"]


def test_where_projections_judge_it_is_said_that_nothing_is_planted(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    box = "import numpy as np\ndef f(x):\n    return sum(map(float, np.sin(np.frombuffer(x.tobytes()))))\n"
    (tmp_path / "box.py").write_text(box + "def g(x):\n    return np.cos(x)\n")
    document = mutated(gradcli, f"{tmp_path / 'box.py'}:f", "x=randn(500)", "--grad", "g", "--budget", "5000")
    found = [f for f in document["points"][0]["findings"] if f["kind"] in ("mutant", "coverage")]
    assert {f["kind"] for f in found} == {"mutant", "coverage"} and document["points"][0]["mutants"] == []
    assert "no mistake was planted" in " ".join(f["message"] for f in found)


def test_where_the_trace_test_confirms_the_certified_gradient_mistakes_are_caught(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "sum(sin(A@B)*B)", "--shapes", "A: 3 3; B: 3 2", "--points", "1", "--wrt", "A")
    ran = gradcli(*argv, "--grad", "A = (cos(A@B)*B)@B.T", "--mutate", "--json")
    assert ran.exit_status == 0
    assert {(m["caught"], m["planted"]) for m in ran.json["points"][0]["mutants"]} == {(9, 9)}
