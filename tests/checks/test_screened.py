"""Black boxes of many entries: projections judge the claim, and the finding `coverage` says what they would have seen."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.targets.test_loading import written

QUICK = ("--modes", "reverse,fd", "--budget", "500")
CODE = """
    import math
    def f(x): return sum(map(math.sin, map(np.float64, x)))
    def right(x): return np.cos(x)
    def negative(x): return -np.cos(x)
    def one_halved(x): return np.where(np.arange(len(x)) == 7, 0.5, 1.0)*np.cos(x)
    def one_zero(x): return np.where(np.arange(len(x)) == 250, 0.0, 1.0)*np.cos(x)
    def one_slightly(x): return np.where(np.arange(len(x)) == 7, 1.001, 1.0)*np.cos(x)
    def one_nan(x): return np.where(np.arange(len(x)) == 3, np.nan, np.cos(x))
    def short(x): return np.cos(x)[1:]
    def drawn(x): return np.cos(x)*(1 + 1e-10*np.random.default_rng().normal(size=len(x)))
    def drifting(x, calls=[]):
        calls.append(x)
        return np.cos(x)*(1 + len(calls)*2.0**-30)
    def overwriting(x):
        slopes = np.cos(x)
        x *= 2
        return slopes

    def two(W, b): return sum(map(math.sin, map(np.float64, np.ravel(W)))) + sum(map(math.exp, map(np.float64, b)))
    def two_right(W, b): return np.cos(W), np.exp(b)
    def two_wrong(W, b):
        slopes = np.cos(W)
        slopes[2, 5] *= 3
        return slopes, np.exp(b)

    def noisy(x): return f(x) + 1e-3*math.sin(1e15*x[0].__float__() + 1e14*x[-1].__float__())
    def kinked(x): return sum(map(abs, map(np.float64, x)))
    def kinked_right(x): return np.sign(x)
    def bent(x): return f(x) + 100*abs(x[7].__float__() - 0.5)
    def turned(x): return f(x) + 2*max(x[7].__float__() - 0.5, 0)
    def e(x): return sum(map(math.exp, map(np.float64, x)))
    def e_right(x): return np.exp(x)
    def rooted(x): return e(x) + sum(math.sqrt(v.__float__())**5 for v in x)
    def rooted_right(x): return np.exp(x) + 2.5*np.sqrt(x)**3
    def single(x):
        total = np.float32(0)
        for v in map(np.float64, x): total = np.float32(total + np.float32(math.exp(v) + math.sqrt(v)**5))
        return total.__float__()
    def counted(x):
        with open({calls!r}, "a") as stream: stream.write(".")
        return f(x)
"""
X = "x=linspace(0.1,1,500)"


@pytest.fixture(name="checked")
def _checked(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    path = written(tmp_path, CODE.replace("{calls!r}", repr(str(tmp_path / "calls"))))

    def checked(name: str, claim: str, *argv: str) -> Any:
        """Return the document of a check of a function of the file."""
        return gradcli("check", f"{path}:{name}", "--grad", claim, *QUICK, *(argv or (X,)), "--json").json

    return checked


def finding(document: Any, kind: str) -> Any:
    (found,) = [f for f in document["points"][0]["findings"] if f["kind"] == kind]
    return found


# fmt: off
VERDICTS = [
    # function   claim           point                                       status  wrong, undecided
    ("f",        "right",        (X,),                                       0,      (0, 0)),
    ("f",        "right",        (X, "--seed", "7"),                         0,      (0, 0)),
    ("f",        "one_halved",   (X,),                                       1,      (1, 0)),
    ("f",        "one_zero",     (X,),                                       1,      (1, 0)),
    ("f",        "one_slightly", (X,),                                       1,      (1, 0)),
    ("f",        "negative",     (X,),                                       1,      (20, 480)),
    ("two",      "two_right",    ("W=ones(10,30)", "b=zeros(200)"),          0,      (0, 0)),
    ("two",      "two_wrong",    ("W=ones(10,30)", "b=zeros(200)"),          1,      (1, 0)),
    ("noisy",    "right",        (X,),                                       3,      (0, 0)),
]
# fmt: on


@pytest.mark.parametrize(("name", "claim", "at", "status", "counts"), VERDICTS)
def test_projections_judge_every_entry(
    checked: Callable[..., Any], name: str, claim: str, at: tuple, status: int, counts: tuple[int, int]
) -> None:
    document = checked(name, claim, *at)
    entries = document["points"][0]["entries"]
    assert document["exit_status"] == status
    assert entries == {"compared": 500, "wrong": counts[0], "undecided": counts[1]}
    assert finding(document, "untraced")["severity"] == "warning"
    assert finding(document, "coverage")["message"].startswith("function values alone: ")
    word = {0: "agree", 1: "disagree"}.get(status)
    assert document["points"][0]["modes"]["claim"].get("verdict") == word


@pytest.mark.parametrize(
    ("claim", "verdict", "kind"),
    [
        ("drawn", "fail", "not-deterministic"),
        ("drifting", "fail", "not-deterministic"),
        ("overwriting", "inconclusive", "mutates-input"),
    ],
)
def test_projections_excuse_nothing_that_blocks_a_verdict(
    checked: Callable[..., Any], claim: str, verdict: str, kind: str
) -> None:
    document = checked("f", claim)
    assert document["verdict"] == verdict
    assert finding(document, kind)
    assert document["points"][0]["modes"]["claim"].get("verdict") == ("agree" if verdict == "fail" else None)


# fmt: off
PLACES = [
    ("f",   "one_halved",   (X,),                               "x", [7],    0.5),
    ("f",   "one_zero",     (X,),                               "x", [250],  0.0),
    ("f",   "one_slightly", (X,),                               "x", [7],    1.001),
    ("two", "two_wrong",    ("W=ones(10,30)", "b=zeros(200)"),  "W", [2, 5], 3.0),
]
# fmt: on


@pytest.mark.parametrize(("name", "claim", "at", "entry", "index", "ratio"), PLACES)
def test_the_wrong_entry_is_found_and_measured(
    checked: Callable[..., Any], name: str, claim: str, at: tuple, entry: str, index: list[int], ratio: float
) -> None:
    (mismatch,) = checked(name, claim, *at)["points"][0]["mismatches"]
    assert (mismatch["input"], mismatch["index"]) == (entry, index)
    assert mismatch["ratio"] == pytest.approx(ratio, rel=1e-6)
    assert mismatch["claimed"] - mismatch["reference"] == mismatch["difference"]
    assert abs(mismatch["difference"]) > mismatch["bound"] > 0


# fmt: off
DIAGNOSES = [("one_halved", "factor"), ("negative", "sign"), ("one_nan", "non-finite"), ("short", "shape")]
# fmt: on


@pytest.mark.parametrize(("claim", "kind"), DIAGNOSES)
def test_the_likely_mistake_is_named(checked: Callable[..., Any], claim: str, kind: str) -> None:
    document = checked("f", claim)
    assert (document["exit_status"], document["points"][0]["diagnosis"]["kind"]) == (1, kind)


def numbers_of(message: str) -> dict[str, float]:
    """Return what a coverage message counts."""
    patterns = {
        "projections": r"([\d,]+) projections", "entries": r"projections of ([\d,]+) entries",
        "evaluations": r"([\d,]+) evaluations", "half": r"a relative error of (\d+e[+-]\d+) would be seen in half",
        "left": r"([\d,]+) more entries",
    }  # fmt: skip
    found = {name: re.search(pattern, message) for name, pattern in patterns.items()}
    return {name: float(match[1].replace(",", "")) for name, match in found.items() if match}


def test_the_coverage_of_a_right_claim_is_sharp_and_complete(checked: Callable[..., Any]) -> None:
    document = checked("f", "right")
    found = finding(document, "coverage")
    told = numbers_of(found["message"])
    assert found["severity"] == "info" and "the search was cut short" not in found["message"]
    assert (told["projections"], told["entries"]) == (3, 500)
    assert "; with 99 % probability, a relative error of " in found["message"]
    assert found["message"].endswith(" would be seen in half of the entries, a wholly wrong value in any")
    assert told["evaluations"] < 100 and told["half"] < 1e-6 and "left" not in told
    assert told["half"] <= 10 * document["detects"]["relative"] < 1e-4


def test_an_error_above_what_is_said_to_be_seen_is_seen(checked: Callable[..., Any]) -> None:
    relative = checked("f", "right")["detects"]["relative"]
    assert relative < 1e-3 / 2  # the error of `one_slightly`
    assert checked("f", "one_slightly")["exit_status"] == 1


def test_entries_that_were_not_taken_apart_are_told(checked: Callable[..., Any]) -> None:
    document = checked("f", "negative")
    told, entries = finding(document, "coverage"), document["points"][0]["entries"]
    assert told["severity"] == "warning" and told["message"].endswith(
        "; the search was cut short (--budget N allows more)"
    )
    assert numbers_of(told["message"])["left"] == entries["undecided"] == 500 - entries["wrong"]


def test_the_text_says_at_least(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    path = written(tmp_path, CODE.replace("{calls!r}", "''"))
    ran = gradcli("check", f"{path}:f", X, "--grad", "negative", *QUICK)
    said = " ".join(ran.stdout.split())
    assert said.startswith("FAIL …/") and ": the claimed gradient is wrong in at least 20 of 500 entries" in said
    assert "coverage: function values alone" in said and "and were not searched further" in said


# fmt: off
BUDGETS = [
    # evaluations  claim          status  finding
    ("10",         "right",       3,      "budget"),
    ("10",         "negative",    3,      "budget"),
    ("30",         "right",       0,      None),
    ("30",         "negative",    3,      "budget"),
    ("60",         "negative",    1,      None),
    ("500",        "negative",    1,      None),
]
# fmt: on


@pytest.mark.parametrize(("budget", "claim", "status", "kind"), BUDGETS)
def test_a_budget_ends_the_search_and_what_is_known_is_told(
    checked: Callable[..., Any], budget: str, claim: str, status: int, kind: str | None
) -> None:
    document = checked("f", claim, X, "--budget", budget)
    point = document["points"][0]
    assert document["exit_status"] == status
    assert [f["kind"] for f in point["findings"] if f["severity"] == "inconclusive"] == ([kind] if kind else [])
    told = finding(document, "coverage")
    assert numbers_of(told["message"])["evaluations"] <= int(budget)
    assert told["severity"] == "warning" and "the search was cut short" in told["message"]


def test_the_evaluations_told_are_those_that_were_made(checked: Callable[..., Any], tmp_path: Path) -> None:
    document = checked("counted", "right")
    made = len((tmp_path / "calls").read_text())
    told = numbers_of(finding(document, "coverage")["message"])["evaluations"]
    assert told <= made <= told + 20  # the value, the trace, the time of a call, and one more at the end


# fmt: off
KINKS = [
    ("turned", ["kink"],   "f has a kink at x[7]: its slope is 0.87758 from the left and 2.8776 from the right"),
    ("bent",   ["kink"],   "f has a kink at x[7]: its slope is -99.122 from the left and 100.88 from the right"),
]
# fmt: on


@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize(("name", "kinds", "says"), KINKS)
def test_a_kink_at_an_entry_is_no_mistake(
    checked: Callable[..., Any], name: str, kinds: list[str], says: str, seed: str
) -> None:
    document = checked(name, "right", "x=full(0.5, 500)", "--seed", seed)
    found = [f for f in document["points"][0]["findings"] if f["severity"] == "inconclusive"]
    assert (document["exit_status"], [f["kind"] for f in found], found[0]["message"]) == (3, kinds, says)
    assert document["points"][0]["entries"]["wrong"] == 0


def test_a_wrong_entry_beside_a_kink_is_wrong(checked: Callable[..., Any]) -> None:
    assert checked("turned", "one_zero", "x=full(0.5, 500)")["exit_status"] == 1


def test_few_entries_are_moved_one_by_one(checked: Callable[..., Any]) -> None:
    document = checked("f", "right", "x=[0.1, 0.5, 1]")
    assert document["points"][0]["modes"]["finite-difference"]["status"] == "ok"
    assert "coverage" not in [f["kind"] for f in document["points"][0]["findings"]]


def test_without_a_claim_nothing_is_projected(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    path = written(tmp_path, CODE.replace("{calls!r}", "''"))
    document = gradcli("check", f"{path}:f", X, *QUICK, "--json").json
    assert document["exit_status"] == 3
    assert "coverage" not in [f["kind"] for f in document["points"][0]["findings"]]


# fmt: off
EDGED = [
    # function   claim           point                  edges
    ("e",        "e_right",      "x=linspace(0,2,300)", ("--bounds", "x=0:2")),  # the user's edges
    ("rooted",   "rooted_right", "x=linspace(0,1,300)", ()),                     # it raises
    ("rooted",   "rooted_right", "x=zeros(300)",        ()),                     # it raises in nearly every direction
    ("single",   "rooted_right", "x=linspace(0,1,300)", ()),                     # its noise is far above float64's
    ("single",   "rooted_right", "x=linspace(0,1,300)", ("--bounds", "x=0:1")),
]
# fmt: on


@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize(("name", "claim", "at", "edges"), EDGED)
def test_a_right_claim_raises_no_alarm_at_the_edges_of_the_domain(
    checked: Callable[..., Any], name: str, claim: str, at: str, edges: tuple, seed: str
) -> None:
    assert checked(name, claim, at, *edges, "--seed", seed)["exit_status"] != 1


def test_a_claim_of_zeros_is_not_said_to_be_exact(checked: Callable[..., Any]) -> None:
    document = checked("kinked", "kinked_right", "x=zeros(500)")
    assert document["detects"]["relative"] is None or document["detects"]["relative"] > 0
