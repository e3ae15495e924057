"""`gradcli check`: its statuses, its document, its options, and what it says of bad input."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest

from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")

# fmt: off
STATUSES = [
    (0, "pass",         ("x**2", "x=3")),
    (0, "pass",         ("sin(x*y)",)),
    (0, "pass",         ("x**2", "x=3", "--grad", "2*x")),
    (0, "pass",         ("x*y", "x=1", "y=2", "--grad", "x=y")),
    (0, "pass",         ("[x, x**2]", "x=3", "--jac", "[1, 2*x]")),
    (0, "pass",         ("p = x*y; p**2", "x=1", "y=2", "--grad", "p=2*x*y; x=p*y, y=p*x")),
    (1, "fail",         ("x**2", "x=3", "--grad", "x")),
    (1, "fail",         ("x**2", "--grad", "x")),
    (1, "fail",         ("sum(x**2)", "x=[1,2]", "--grad", "2*x[0]")),
    (1, "fail",         ("sum(x**2)", "x=[1,2]", "--grad", "[[2, 4]]")),
    (1, "fail",         ("x**2", "x=3", "--grad", "0*x/0")),
    (1, "fail",         ("[x, x**2]", "x=3", "--jac", "[1, x]")),
    (1, "fail",         ("x*y", "x=1", "y=2", "--grad", "x=y, y=2*x")),
    (1, "fail",         ("x**2", "x=0", "x=3", "--grad", "x")),
    (3, "inconclusive", ("abs(x)", "x=0")),
    (3, "inconclusive", ("floor(x)", "x=0.5")),
    (3, "inconclusive", ("log(x)", "x=0")),
    (3, "inconclusive", ("sqrt(x)", "x=-1")),
    (3, "inconclusive", ("abs(x)", "x=1", "x=0")),
]
# fmt: on


@for_rows(("status", "verdict", "argv"), STATUSES)
def test_exit_statuses(gradcli: Callable[..., Any], status: int, verdict: str, argv: tuple) -> None:
    ran = gradcli("check", *argv, *QUICK, "--json")
    assert (ran.exit_status, ran.json["exit_status"], ran.json["verdict"]) == (status, status, verdict)


def test_one_kind_of_witness_is_not_enough(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=3", "--modes", "forward,reverse", "--json")
    assert ran.exit_status == 3
    assert ran.json["points"][0]["findings"][0]["kind"] == "no-second-witness"


# fmt: off
BAD = [
    (("sine(x)",),                              "sine",              True),
    (("sin(x",),                                "closed",            True),
    (("x +",),                                  "",                  True),
    (("lambda x: x",),                          "lambda",            True),
    (("__import__('os')",),                     "__import__",        True),
    (("x.__class__",),                          "__class__",         True),
    (("",),                                     "empty",             False),
    (("x**2", "z=2"),                           "'z' is not an input",   False),
    (("x**2", "--at", "x=1, x=2"),              "given twice",       True),
    (("x**2", "--at", "3"),                     "names its values",  True),
    (("x**2", "--at", ""),                      "empty",             False),
    (("x**2", "x=open('f')"),                   "open",              True),
    (("x**2", "x='a'"),                         "not a number",      False),
    (("x**2", "x=[[1], [1, 2]]"),               "lengths",           True),
    (("x**2", "x=@nowhere.npy"),                "nowhere.npy",       False),
    (("x**2", "--at", "@nowhere.json"),         "nowhere.json",      False),
    (("W@x", "W=[[1, 2]]", "x=[1, 2, 3]"),      "do not fit",        True),
    (("zeros(2**28)",),                         "the limit is",      True),
    (("x**2", "x=zeros(2**28)"),                "the limit is",      True),
    (("x**2", "--wrt", "z"),                    "--wrt names 'z'",   False),
    (("x**2", "x=1", "--grad", "2*y"),          "y",                 False),
    (("x**2", "x=1", "--grad", "2*"),           "",                  True),
    (("x**2", "x=1", "--grad", "sine(x)"),      "sine",              True),
    (("x*y", "x=1", "--grad", "y"),             "several inputs",    False),
    (("x*y", "x=1", "--grad", "z=y"),           "z",                 False),
    (("losses:focal",),                         "no module",         False),
]
# fmt: on


@for_rows(("argv", "what", "caret"), BAD)
def test_bad_input_is_one_error_on_standard_error(
    gradcli: Callable[..., Any], argv: tuple, what: str, caret: bool
) -> None:
    ran = gradcli("check", *argv, *QUICK)
    assert ran.exit_status == 2
    assert ran.stdout == ""
    first, *rest = ran.stderr.splitlines()
    assert first.startswith("error: ") and what in first
    assert all(line.startswith("  ") for line in rest)
    assert any(set(line.strip()) == {"^"} for line in rest) is caret
    assert len(rest) == (3 if caret else 1) or not caret


@for_rows(("argv", "what", "caret"), BAD)
def test_bad_input_is_a_document_for_programs(gradcli: Callable[..., Any], argv: tuple, what: str, caret: bool) -> None:
    ran = gradcli("check", *argv, *QUICK, "--json")
    assert (ran.exit_status, ran.stderr) == (2, "")
    assert next(iter(ran.json)) == "schema"
    error = ran.json["error"]
    assert ran.json["schema"] == "gradcli.error/1" and what in error["message"]
    assert (error["where"] is not None) is caret
    assert error["kind"] in ("expression", "point", "usage", "shape", "limit", "claim", "unsupported", "target")


def test_the_caret_stands_under_the_offending_text(gradcli: Callable[..., Any]) -> None:
    assert gradcli("check", "sine(x*y) + exp(-x**2)").stderr == (
        "error: unknown function 'sine'\n  sine(x*y) + exp(-x**2)\n  ^^^^\n  did you mean 'sin'?\n"
    )


KEYS = ["schema", "target", "claim", "seed", "command", "exit_status", "verdict", "detects", "points", "environment"]
POINT_KEYS = (
    "at drawn differentiated constant value verdict reference gradient entries mismatches modes findings diagnosis"
)
MODE_KEYS = ["status", "gradient", "bound", "proved", "verdict", "evaluations", "seconds", "rests_on"]


@pytest.fixture(name="passed")
def _passed(gradcli: Callable[..., Any]) -> Any:
    return gradcli("check", "sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2", *QUICK, "--json").json


def test_the_document_has_the_keys_of_the_contract(passed: Any) -> None:
    assert [key for key in passed if key in KEYS] == KEYS and next(iter(passed)) == "schema"
    assert set(POINT_KEYS.split()) <= set(passed["points"][0])
    assert set(MODE_KEYS) <= set(passed["points"][0]["modes"]["certified"])
    assert set(passed["environment"]) >= {"gradcli", "python", "numpy"}
    assert set(passed["points"][0]["entries"]) == {"compared", "wrong", "undecided"}
    assert set(passed["detects"]) == {"relative", "at"}


def test_the_document_has_the_values_of_the_contract(passed: Any) -> None:
    point = passed["points"][0]
    assert passed["schema"] == "gradcli.check/3"
    assert passed["target"] == {"kind": "expression", "text": "sin(x*y) + exp(-x**2)"}
    assert (passed["claim"], passed["seed"], passed["command"][:2]) == (None, 0, ["gradcli", "check"])
    assert point["at"] == {"x": 0.5, "y": 1.2}
    assert (point["drawn"], point["differentiated"], point["constant"]) == ([], ["x", "y"], [])
    assert point["value"] == pytest.approx(1.3434432564664402, rel=1e-15)
    assert point["gradient"] == point["modes"][point["reference"]]["gradient"]
    assert point["entries"] == {"compared": 2, "wrong": 0, "undecided": 0}
    assert (point["reference"], point["mismatches"], point["diagnosis"]) == ("certified", [], None)
    assert 0 < passed["detects"]["relative"] < 1e-9 and passed["detects"]["at"] in ("x", "y")


def test_bounds_hold_and_are_rounded_up(passed: Any) -> None:
    with mpmath.workdps(80):
        x, y = mpmath.mpf(0.5), mpmath.mpf(1.2)
        right = {"x": y * mpmath.cos(x * y) - 2 * x * mpmath.exp(-(x**2)), "y": x * mpmath.cos(x * y)}
        for mode in passed["points"][0]["modes"].values():
            values = mode.get("decimals", mode["gradient"])
            for name, exact in right.items():
                assert abs(mpmath.mpf(values[name]) - exact) <= mpmath.mpf(mode["bound"][name])


def test_the_certified_bound_is_that_of_the_decimals(passed: Any) -> None:
    certified = passed["points"][0]["modes"]["certified"]
    assert certified["proved"] is True
    assert all(0 < bound < 1e-30 for bound in certified["bound"].values())
    assert all(float(Fraction(text)) == certified["gradient"][k] for k, text in certified["decimals"].items())


def test_a_claim_is_a_mode_and_its_mistakes_are_listed(gradcli: Callable[..., Any]) -> None:
    document = gradcli("check", "x*y", "x=3", "y=2", "--grad", "x=y, y=2*x", *QUICK, "--json").json
    (point,) = document["points"]
    assert document["claim"] == "x=y, y=2*x"
    assert point["modes"]["claim"]["gradient"] == {"x": 2.0, "y": 6.0}
    (mismatch,) = point["mismatches"]
    bound = mismatch.pop("bound")
    assert mismatch == {"input": "y", "index": [], "claimed": 6.0, "reference": 3.0, "difference": 3.0, "ratio": 2.0}
    assert 0 < bound < 1e-6
    assert set(point["diagnosis"]) == {"kind", "message", "file", "line", "source", "corrected", "patch"}
    assert point["entries"] == {"compared": 2, "wrong": 1, "undecided": 0}


def test_mismatches_name_their_index(gradcli: Callable[..., Any]) -> None:
    document = gradcli("check", "sum(W**2)", "W=[[1,2],[3,4]]", "--grad", "2*W + [[0,0],[1,0]]", *QUICK, "--json").json
    assert [m["index"] for m in document["points"][0]["mismatches"]] == [[1, 0]]


def test_a_vector_result_has_a_jacobian_indexed_output_input(gradcli: Callable[..., Any]) -> None:
    document = gradcli("check", "[x[0]*x[1], x[0], 7*x[1]]", "x=[2,3]", *QUICK, "--json").json
    for part in (document["points"][0], document["points"][0]["modes"]["reverse"]):
        assert "gradient" not in part
        assert part["jacobian"] == {"x": [[3.0, 2.0], [1.0, 0.0], [0.0, 7.0]]}


def test_findings_say_where_they_are(gradcli: Callable[..., Any]) -> None:
    document = gradcli("check", "x + abs(x)", "x=0", *QUICK, "--json").json
    (finding,) = document["points"][0]["findings"]
    assert set(finding) == {"kind", "severity", "message", "hint", "file", "line", "column", "source", "operation"}
    assert [finding[k] for k in ("kind", "severity", "line", "column", "source", "operation")] == [
        "kink",
        "inconclusive",
        1,
        5,
        "abs(x)",
        "absolute",
    ]


def test_numbers_that_are_not_finite_are_strings(gradcli: Callable[..., Any]) -> None:
    (point,) = gradcli("check", "log(x)", "x=0", *QUICK, "--json").json["points"]
    assert point["value"] == "-inf"


def test_drawn_inputs_are_listed_and_shown(gradcli: Callable[..., Any]) -> None:
    document = gradcli("check", "x*y", "x=1", *QUICK, "--json").json
    assert [point["drawn"] for point in document["points"]] == [["y"]]
    assert "(drawn, seed 0)" in gradcli("check", "x*y", "x=1", *QUICK).stdout


def test_without_a_point_three_are_drawn(gradcli: Callable[..., Any]) -> None:
    points = gradcli("check", "x*y", *QUICK, "--json").json["points"]
    assert len({point["at"]["x"] for point in points}) == 3
    assert all(point["at"]["x"] != point["at"]["y"] for point in points)


def test_points_says_how_many_are_drawn(gradcli: Callable[..., Any]) -> None:
    assert len(gradcli("check", "x", "--points", "5", *QUICK, "--json").json["points"]) == 5


def test_the_seed_decides_what_is_drawn(gradcli: Callable[..., Any]) -> None:
    first, again, other = (
        gradcli("grad", "x**2", "--seed", seed, "--json").json["at"]["x"] for seed in ("0", "0", "1")
    )
    assert first == again != other


def test_wrt_chooses_and_lists(gradcli: Callable[..., Any]) -> None:
    (point,) = gradcli("check", "x1*x2*y", "x1=1", "x2=2", "y=3", "--wrt", "x*", *QUICK, "--json").json["points"]
    assert (point["differentiated"], point["constant"]) == (["x1", "x2"], ["y"])
    assert set(point["gradient"]) == {"x1", "x2"}


# fmt: off
ALLOWED = [
    (3, ("abs(x)", "x=0")),
    (0, ("abs(x)", "x=0", "--allow", "kink")),
    (0, ("abs(x)", "x=0", "--allow", "noise, kink")),
    (3, ("abs(x)", "x=0", "--allow", "staircase")),
    (0, ("floor(x)", "x=0.5", "--allow", "staircase")),
    (3, ("floor(x) + abs(y)", "x=0.5", "y=0", "--allow", "staircase")),
    (0, ("floor(x) + abs(y)", "x=0.5", "y=0", "--allow", "staircase,kink")),
    (0, ("abs(x)", "x=0", "--allow-inconclusive")),
    (0, ("log(x)", "x=0", "--allow", "non-finite")),
    (1, ("x**2", "x=1", "--grad", "x", "--allow-inconclusive")),
    (1, ("x**2", "x=1", "--grad", "x", "--allow", "kink")),
]
# fmt: on


@for_rows(("status", "argv"), ALLOWED)
def test_allow_turns_findings_into_success(gradcli: Callable[..., Any], status: int, argv: tuple) -> None:
    ran = gradcli("check", *argv, *QUICK, "--json")
    assert (ran.exit_status, ran.json["exit_status"]) == (status, status)


def test_an_accepted_kink_is_still_told(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "abs(x)", "x=0", "--allow", "kink", *QUICK, "--json")
    assert [finding["kind"] for finding in ran.json["points"][0]["findings"]] == ["kink"]


# fmt: off
TOLERANCES = [
    (1, "2.001*x", ()),
    (1, "2.001*x", ("--rtol", "1e-5")),
    (0, "2.001*x", ("--rtol", "1e-2")),
    (0, "2.001*x", ("--atol", "0.1")),
    (1, "2.001*x", ("--atol", "1e-4")),
    (0, "2.0000001*x", ("--rtol", "1e-5")),
    (0, "2*x",     ("--rtol", "1e-12")),
]
# fmt: on


@for_rows(("status", "claim", "tolerance"), TOLERANCES)
def test_fixed_tolerances_replace_computed_ones(
    gradcli: Callable[..., Any], status: int, claim: str, tolerance: tuple
) -> None:
    assert gradcli("check", "x**2", "x=3", "--grad", claim, *tolerance, *QUICK).exit_status == status


def test_require_claim_accepts_a_claim(gradcli: Callable[..., Any]) -> None:
    assert gradcli("check", "x", "x=1", "--require-claim", "--grad", "1", *QUICK).exit_status == 0
    assert gradcli("check", "x", "x=1", "--require-claim", *QUICK).exit_status == 2


def test_without_a_claim_the_text_says_so(gradcli: Callable[..., Any]) -> None:
    said = " ".join(gradcli("check", "x**2", "x=3", *QUICK).stdout.split())
    assert said.startswith("PASS x**2: gradcli's own gradient") and "of yours was checked" in said


def test_modes_are_named_by_prefix_and_short_name(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=3", "--modes", "cert,rev,fd,cs", "--json")
    assert list(ran.json["points"][0]["modes"]) == ["certified", "reverse", "complex-step", "finite-difference"]


def test_all_modes_agree_on_the_worked_example(gradcli: Callable[..., Any]) -> None:
    (point,) = gradcli("check", "sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2", "--json").json["points"]
    assert {name: mode["verdict"] for name, mode in point["modes"].items()} == dict.fromkeys(
        ("certified", "symbolic", "forward", "reverse", "complex-step", "finite-difference"), "agree"
    )
    right = (1.2 * math.cos(0.6) - math.exp(-0.25), 0.5 * math.cos(0.6))
    assert list(point["gradient"].values()) == pytest.approx(right, rel=1e-15)


def test_the_command_told_repeats_the_check(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "x*y", "x=1", "--grad", "x=y, y=2*x", "--seed", "7", "--rtol", "1e-9", "--wrt", "x,y", *QUICK)
    first = gradcli(*argv, "--json").json
    again = gradcli(*first["command"][1:], "--json").json
    assert again["points"][0]["at"] == first["points"][0]["at"]
    assert (again["exit_status"], again["command"]) == (1, first["command"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--allow", "noise,kink"), ("--allow", "kink,noise")),
        (("--allow-inconclusive",), ("--allow-inconclusive",)),
        (("--require-claim",), ("--require-claim",)),
        (("--timeout", "90s"), ("--timeout", "90s")),
        (("--timeout", "2min"), ("--timeout", "120s")),
        (("--threads", "2"), ("--threads", "2")),
    ],
    ids=str,
)
def test_the_command_told_repeats_what_decides_the_status(
    process: Callable[..., Any], given: tuple[str, ...], told: tuple[str, ...]
) -> None:
    command = process("check", "x*y", "x=1", "y=2", "--grad", "x=y, y=2*x", *given, *QUICK, "--json").json["command"]
    first = command.index(told[0])
    assert tuple(command[first : first + len(told)]) == told
    shown = process("check", "x*y", "x=1", "y=2", "--grad", "x=y, y=2*x", *given, *QUICK).stdout
    assert " ".join(told) in " ".join(shown.partition("Again:")[2].split())


def test_a_report_is_a_point_of_the_next_check(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    first = gradcli("check", "x*y", "x=1.25", *QUICK, "--json", "--out", str(report)).json
    second = gradcli("check", "x*y", "--at", f"@{report}", *QUICK, "--json").json
    assert second["points"][0]["at"] == first["points"][0]["at"] == json.loads(report.read_text())["points"][0]["at"]


def test_several_targets_get_the_worst_status(gradcli: Callable[..., Any]) -> None:
    assert gradcli("check", "x**2", "abs(x)", "x=0", *QUICK).exit_status == 3
    assert gradcli("check", "abs(x)", "x**3", "x=0", "x=2", "--grad", "3*x**2 + 1", *QUICK).exit_status == 1


def test_a_bad_target_does_not_hide_a_wrong_gradient(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "sine(x)", "x**2", "x=3", "--grad", "x", *QUICK)
    assert ran.exit_status == 1
    assert "unknown function 'sine'" in ran.stderr and "FAIL" in ran.stdout
