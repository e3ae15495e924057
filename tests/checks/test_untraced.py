"""Functions that cannot be traced are checked by function values alone; and every finding names its line."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gradcli as package
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "certified,forward,reverse,fd")
X = "x=[0.5, 2]"
TRACED = ("certified", "forward", "reverse")


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


UNTRACED = {
    "float": (
        "import math\ndef f(x):\n    total = math.sin(x[0].__float__())\n    return total + math.sin(x[1].__float__())\n",
        4,
        "x[0].__float__()",
    ),
    "map": ("import math\ndef f(x):\n    return sum(map(math.sin, map(np.float64, x)))\n", 4, "map(np.float64, x)"),
    "bytes": ("def f(x):\n    y = np.frombuffer(x.tobytes())\n    return np.sum(np.sin(y))\n", 3, "x.tobytes()"),
    "vectorize": (
        "import math\nsines = np.vectorize(math.sin)\ndef f(x):\n"
        "    return np.sum(sines(np.float64(x[0]))) + np.sin(x[1])\n",
        5,
        "np.float64(x[0])",
    ),
    "no rule": (
        "def f(x):\n    w = np.linalg.eig(np.diag(x))[0]\n    return np.sum(np.sin(w.real))\n",
        3,
        "np.linalg.eig(",
    ),
    "pickle": (
        "import pickle\ndef f(x):\n    y = pickle.loads(pickle.dumps(x))\n    return np.sum(np.sin(y))\n",
        4,
        "pickle.dumps(x)",
    ),
}
CLAIMS = "def g(x): return np.cos(x)\ndef slip(x): return np.cos(x)*1.001\ndef sign(x): return -np.cos(x)\n"


@pytest.fixture(name="checked", params=list(UNTRACED))
def _checked(request: Any, gradcli: Callable[..., Any], tmp_path: Path) -> tuple[Callable[..., Any], int, str, str]:
    """Check a function that cannot be traced; the line and the piece of it where the trace ends."""
    code, line, piece = UNTRACED[request.param]
    file = written(tmp_path, code + CLAIMS)
    return lambda *more: gradcli("check", f"{file}:f", X, *QUICK, *more), line, piece, Path(file).name


def test_what_ended_the_trace_is_a_finding_with_its_line(checked: tuple[Callable[..., Any], int, str, str]) -> None:
    check, line, piece, name = checked
    ran = check("--json")
    (point,) = ran.json["points"]
    (finding,) = (finding for finding in point["findings"] if finding["kind"] == "untraced")
    assert ran.exit_status == 3
    assert finding["line"] == line and finding["file"].endswith(name)
    assert piece in finding["source"] and "function values" in finding["message"]
    assert {point["modes"][mode]["status"] for mode in TRACED} == {"unsupported"}
    assert point["modes"]["finite-difference"]["status"] == "ok"


@pytest.mark.parametrize(("claim", "status"), [("g", 0), ("slip", 1), ("sign", 1)])
def test_claims_are_still_judged(checked: tuple[Callable[..., Any], int, str, str], claim: str, status: int) -> None:
    ran = checked[0]("--grad", claim, "--json")
    assert ran.exit_status == status, ran.stdout
    assert any(finding["kind"] == "untraced" for finding in ran.json["points"][0]["findings"])


def test_text_shows_the_line_and_what_to_do(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, UNTRACED["float"][0])
    said = gradcli("check", f"{file}:f", X, *QUICK).stdout
    assert said.startswith("INCONCLUSIVE")
    assert f"{Path(file).name}:4 " in said and "x[0].__float__()" in said and "np.*" in said


def test_the_size_of_error_that_would_be_seen_is_told(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, UNTRACED["float"][0] + CLAIMS)
    document = gradcli("check", f"{file}:f", X, "--grad", "g", *QUICK, "--json").json
    assert 1e-14 < document["detects"]["relative"] < 1e-8


@pytest.mark.parametrize("factor", [1e-2, 1e-4, 1e-6, 1e-8])
def test_small_mistakes_are_found_by_values_alone(gradcli: Callable[..., Any], tmp_path: Path, factor: float) -> None:
    file = written(tmp_path, UNTRACED["float"][0] + f"def slip(x): return np.cos(x)*(1 + {factor})\n")
    assert gradcli("check", f"{file}:f", X, "--grad", "slip", *QUICK).exit_status == 1


@pytest.mark.parametrize("command", ["grad", "trace"])
def test_commands_that_need_a_trace_say_what_ended_it(
    gradcli: Callable[..., Any], tmp_path: Path, command: str
) -> None:
    file = written(tmp_path, UNTRACED["float"][0])
    ran = gradcli(command, f"{file}:f", X)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert f"{Path(file).name}:4 " in ran.stderr and "float" in ran.stderr


def test_compare_modes_shows_what_is_left(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, UNTRACED["float"][0])
    modes = gradcli("compare-modes", f"{file}:f", X, *QUICK, "--json").json["modes"]
    assert modes["finite-difference"]["status"] == "ok"
    assert {modes[mode]["status"] for mode in TRACED} == {"unsupported"}


def test_second_derivatives_need_a_trace(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, UNTRACED["float"][0])
    ran = gradcli("check", f"{file}:f", X, "--order", "2", *QUICK)
    assert ran.exit_status in (2, 3) and "float" in ran.stdout + ran.stderr


def test_the_api_says_the_same() -> None:
    def f(x: Any) -> Any:
        return x[0].__float__() ** 2

    x = np.array([0.5, 2.0])
    assert package.check(f, x).verdict == "inconclusive"
    assert package.check(f, x, grad=lambda x: np.array([2 * x[0], 0.0])).verdict == "pass"
    assert package.check(f, x, grad=lambda x: np.array([2 * x[0], 1e-3])).verdict == "fail"


PLACES = {
    # what is found: code, point, kind, line, source, words of the message
    "log of zero": ("def f(x):\n    y = x - 0.5\n    return np.sum(np.log(y))\n", "non-finite", 4, "np.log(y)", "-inf"),
    "log of negative": (
        "def f(x):\n    y = x - 1.0\n    return np.sum(np.log(y))\n",
        "non-finite",
        4,
        "np.log(y)",
        "nan",
    ),
    "division by zero": (
        "def f(x):\n    y = x - 2.0\n    z = 1/y\n    return np.sum(z)\n",
        "non-finite",
        4,
        "1/y",
        "inf",
    ),
    "square root": (
        "def f(x):\n    y = x - 2.0\n    return np.sum(np.sqrt(y*y + 0))\n",
        "kink",
        4,
        "np.sqrt(y*y + 0)",
        "f has a kink at x[1]",
    ),
    "overflow": (
        "def f(x):\n    y = np.exp(1000*x)\n    return np.sum(y)\n",
        "non-finite",
        3,
        "np.exp(1000*x)",
        "exp overflows at 2000",
    ),
    "kink": ("def f(x):\n    y = x - 2.0\n    return np.sum(np.abs(y))\n", "kink", 4, "np.abs(y)", "x[1]"),
    "tie": ("def f(x):\n    return np.sum(x) + np.max(x - np.array([0.0, 1.5]))\n", "kink", 3, "np.max(", "x["),
    "relu": ("def f(x):\n    return np.sum(np.maximum(x - 0.5, 0))\n", "kink", 3, "np.maximum(", "x[0]"),
    "staircase": (
        "def f(x):\n    y = np.floor(3*x + 0.2)\n    return np.sum(y**2)\n",
        "staircase",
        3,
        "np.floor(",
        "step function",
    ),
    "branch": (
        "def f(x):\n    if x[1] > 1.75:\n        return np.sum(x**2)\n    return np.sum(x)\n",
        "branch",
        3,
        "if x[1] > 1.75:",
        "0.25",
    ),
    "loop": (
        "def f(x):\n    y = x\n    while np.sum(y) < 9:\n        y = y*2\n    return np.sum(y)\n",
        "branch",
        4,
        "while np.sum(y) < 9:",
        "margin",
    ),
    "in a callee": (
        "def g(y):\n    return np.log(y)\ndef f(x):\n    return np.sum(g(x - 0.5))\n",
        "non-finite",
        3,
        "np.log(y)",
        "-inf",
    ),
}


@pytest.mark.parametrize("what", PLACES)
def test_findings_name_file_line_and_source(gradcli: Callable[..., Any], tmp_path: Path, what: str) -> None:
    code, kind, line, source, words = PLACES[what]
    file = written(tmp_path, code)
    ran = gradcli("check", f"{file}:f", X, *QUICK, "--json")
    found = [finding for finding in ran.json["points"][0]["findings"] if finding["kind"] == kind]
    assert found, ran.json["points"][0]["findings"]
    assert ran.exit_status == (0 if kind == "branch" else 3)
    assert any(
        finding["line"] == line
        and finding["file"].endswith(Path(file).name)
        and source in finding["source"]
        and words in finding["message"]
        for finding in found
    ), found


@pytest.mark.parametrize("what", PLACES)
def test_text_shows_the_line_of_a_finding(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, line, source, _ = PLACES[what]
    file = written(tmp_path, code)
    said = gradcli("check", f"{file}:f", X, *QUICK).stdout
    assert f"{Path(file).name}:{line} " in said and source.rstrip(":(") in said


def test_the_column_is_that_of_the_operation(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x):\n    return np.sum(x) + np.abs(x[0] - 0.5)\n")
    (finding,) = gradcli("check", f"{file}:f", X, *QUICK, "--json").json["points"][0]["findings"]
    assert finding["column"] == len("    return np.sum(x) + ") + 1


def test_the_trace_shows_lines_of_the_users_file(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x):\n    y = np.sin(x)\n    return np.sum(y*x)\n")
    nodes = gradcli("trace", f"{file}:f", X, "--json").json["nodes"]
    assert [node["line"] for node in nodes if node["operation"] == "sin"] == [3]
    assert {node["line"] for node in nodes if node["operation"] not in ("input", "sin")} == {4}


def test_a_wrong_trace_is_not_believed(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        def f(x):
            kind = 1.0 if type(x) is np.ndarray else 1.001
            return np.sum(np.sin(x)) * kind
        def g(x): return np.cos(x)
    """
    file = written(tmp_path, code)
    assert gradcli("check", f"{file}:f", X, *QUICK).exit_status == 3
    assert gradcli("check", f"{file}:f", X, "--grad", "g", *QUICK).exit_status != 1


@pytest.mark.parametrize(("claim", "status"), [("g", 0), ("slip", 1), ("sign", 1)])
def test_a_value_that_goes_through_text_is_noticed_and_function_values_decide(
    gradcli: Callable[..., Any], tmp_path: Path, claim: str, status: int
) -> None:
    code = "def f(x):\n    y = np.array([np.float64(str(v)) for v in x])\n    return np.sum(np.sin(y))\n"
    ran = gradcli("check", f"{written(tmp_path, code + CLAIMS)}:f", X, "--grad", claim, *QUICK, "--json")
    assert ran.exit_status == status
    [untraced] = [f for f in ran.json["points"][0]["findings"] if f["kind"] == "untraced"]
    assert "text" in untraced["message"] and untraced["line"] == 3


@pytest.mark.parametrize(
    "use", ["x[0].item()", "x.tolist()[0]", "copy.deepcopy(x)[0]", "list(x)[0]", "x.copy()[0]", "next(iter(x))"]
)
def test_what_looks_like_a_loss_of_the_trace_may_be_none(gradcli: Callable[..., Any], tmp_path: Path, use: str) -> None:
    code = f"import copy, math\ndef f(x):\n    return math.sin({use}) + np.sin(x[1])\n"
    ran = gradcli("check", f"{written(tmp_path, code)}:f", X, *QUICK, "--json")
    assert (ran.exit_status, ran.json["points"][0]["findings"]) == (0, [])


LONG = """
def f(x):
    y = 0 * x
    for _ in range(2000):
        y = 0.9 * y + x
    return np.sum(y)
def g(x): return np.full(2, 10.0)
def bad(x): return np.full(2, 11.0)
"""


@pytest.mark.parametrize(("claim", "status"), [("g", 0), ("bad", 1)])
def test_a_trace_that_is_too_long_is_a_finding_and_function_values_go_on(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str, status: int
) -> None:
    monkeypatch.setattr("gradcli.arithmetic.tape.MOST_LINES", 1000)
    ran = gradcli("check", f"{written(tmp_path, LONG)}:f", X, "--grad", claim, *QUICK, "--json")
    (point,) = ran.json["points"]
    (finding,) = [finding for finding in point["findings"] if finding["kind"] == "untraced"]
    assert ran.exit_status == status
    assert "the trace has more than 1,000 lines" in finding["message"] and finding["source"] == "y = 0.9 * y + x"
    assert point["modes"]["finite-difference"]["status"] == "ok"


WEIGHTS = np.logspace(0, -6, 5)


def narrow_inside(x: Any) -> float:
    return float(np.sum(np.tanh(np.float32([float(v) for v in x])) * np.float32(WEIGHTS)))


def narrow_beside_wide(x: Any) -> float:
    return 0.5 * math.sin(float(x[0])) + narrow_inside(np.concatenate([[0.25], x[1:]]))


def coarse_levels(x: Any) -> float:
    return float(np.float32(7e6) + np.float32(40 * float(x[0]) + 1e-3 * float(x[1])))


def far_apart(x: Any) -> float:
    return 1e6 * math.sin(float(x[0])) + 1e-9 * math.sin(float(x[1]))


def flat_in_one(x: Any) -> float:
    return 1e3 * math.sin(float(x[0])) + 0.0 * float(x[1])


SQUARED_SECH = 1 - np.tanh([0.1, 0.2, 0.3, 0.4, 0.5]) ** 2
# fmt: off
RIGHT_BY_VALUES = [  # a function, a point, its gradient, and what the verdict says of entries
    (narrow_inside,      [0.1, 0.2, 0.3, 0.4, 0.5],  SQUARED_SECH * WEIGHTS,                                "not resolved"),
    (far_apart,          [0.3, 0.7],                 [1e6 * np.cos(0.3), 1e-9 * np.cos(0.7)],               "x[1] not resolved: below"),
    (flat_in_one,        [0.3, 0.7],                 [1e3 * np.cos(0.3), 0.0],                              "; entries of 0 to within"),
]
# fmt: on


@pytest.mark.parametrize(("f", "x", "g", "said"), RIGHT_BY_VALUES)
def test_small_entries_are_not_called_wrong_and_are_counted(f: Any, x: Any, g: Any, said: str) -> None:
    report = package.check(f, {"x": np.array(x)}, grad=lambda x: np.array(g))
    assert report.verdict == "pass" and said in report.gist() and "every entry" not in report.gist()


@pytest.mark.parametrize(("f", "x", "g", "said"), RIGHT_BY_VALUES)
def test_beside_small_entries_a_mistake_in_the_largest_is_seen(f: Any, x: Any, g: Any, said: str) -> None:
    for wrong in (np.array(g) * np.where(np.arange(len(g)) == 0, 1.1, 1.0), np.array([*g[:-1], 0.1 * g[0]])):
        report = package.check(f, {"x": np.array(x)}, grad=lambda x, wrong=wrong: wrong)
        assert report.verdict == "fail"


def test_where_one_entry_is_wide_and_others_are_narrow_no_small_one_is_called_wrong() -> None:
    g = np.array([0.5 * np.cos(0.1), *(SQUARED_SECH * WEIGHTS)[1:]])
    right, wrong = (
        package.check(narrow_beside_wide, {"x": np.array([0.1, 0.2, 0.3, 0.4, 0.5])}, grad=lambda x, s=s: s * g)
        for s in (1.0, 1.01)
    )
    assert right.verdict != "fail" and wrong.verdict == "fail"


def test_an_entry_below_the_spacing_of_the_values_is_not_resolved() -> None:
    report = package.check(coarse_levels, {"x": np.array([2.0, 3.0])}, grad=lambda x: np.array([40.0, 1e-3]))
    (finding,) = (f for f in report.points[0].findings if f.kind == "not-resolved")
    assert report.verdict == "inconclusive" and "claimed" in finding.message
    with pytest.raises(package.NotConfirmed):
        report.raise_if_failed()
    report.raise_if_failed(allow=["not-resolved"])


def test_mistakes_are_planted_in_entries_that_are_not_resolved() -> None:
    report = package.check(
        far_apart, {"x": np.array([0.3, 0.7])}, grad=lambda x: [1e6 * np.cos(x[0]), 1e-9 * np.cos(x[1])], mutate=True
    )
    flipped = next(m for m in report.points[0].mutants if m.mistake == "the sign of one entry flipped")
    (finding,) = (f for f in report.points[0].findings if f.kind == "mutant")
    assert (flipped.planted, flipped.caught) == (2, 1)
    assert finding.severity == "warning" and "not resolved" in finding.message


def test_where_f_moves_in_steps_that_cannot_be_traced_a_claim_of_zero_is_open() -> None:
    def staircase(x: Any) -> float:
        return float(sum(math.floor(float(entry) * 1e7) / 1e7 for entry in x))

    report = package.check(staircase, {"x": np.array([0.12345673, 0.30000005])}, grad=np.zeros_like)
    assert report.verdict == "inconclusive"
    assert [f.kind for f in report.points[0].findings if f.severity == "inconclusive"] == ["staircase", "staircase"]


@for_rows(
    "cdf", [lambda x, a: stats.t.cdf(x, a), lambda x, a: stats.beta.cdf(x, a, 2.0), lambda x, a: stats.f.cdf(x, a, 3.0)]
)
def test_by_a_shape_without_a_rule_a_distribution_is_checked_by_its_values(cdf: Callable[..., Any]) -> None:
    report = package.check(lambda x, a: np.sum(cdf(x, a)), {"x": np.array([0.2, 0.5]), "a": 1.4})
    (untraced,) = [f for f in report.points[0].findings if f.kind == "untraced"]
    assert report.verdict == "inconclusive" and "has no derivative by its order" in untraced.message


def test_a_function_that_changes_in_steps_alone_is_not_confirmed() -> None:
    report = package.check(lambda x: float(format(float(x), ".1f")), 0.3142, grad=lambda x: 0.0)
    assert report.verdict == "inconclusive" and "in steps alone" in report.sentence()
