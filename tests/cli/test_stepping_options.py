"""`--h`, `--bounds`, `--scale`, `--budget`: what they change, what they refuse, and the command that repeats the check."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.errors import BadOption
from gradcli.request.option_values import parse_edges
from gradcli.request.options import Options, options_of_command
from gradcli.request.point import Stepping
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "reverse,fd")
INF = float("inf")


# fmt: off
BAD = [
    # option        text             what is wrong                                   what to do
    ("--h",         "abc",           "--h",                                          ""),
    ("--h",         "",              "--h",                                          ""),
    ("--h",         "0",             "--h takes a positive step, not 0",             "drop --h"),
    ("--h",         "-1e-3",         "--h takes a positive step, not -0.001",        "drop --h"),
    ("--h",         "nan",           "--h takes a positive step, not nan",           "drop --h"),
    ("--h",         "inf",           "--h takes a positive step, not inf",           "drop --h"),
    ("--h",         "1e-400",        "--h takes a positive step, not 0",             "drop --h"),
    ("--bounds",    "x=1",           "--bounds takes NAME=LOW:HIGH, not 'x=1'",      '--bounds "k=0:inf"'),
    ("--bounds",    "x=2:1",         "--bounds takes NAME=LOW:HIGH, not 'x=2:1'",    '--bounds "k=0:inf"'),
    ("--bounds",    "x=3:3",         "--bounds takes NAME=LOW:HIGH, not 'x=3:3'",    '--bounds "k=0:inf"'),
    ("--bounds",    "x=nan:9",       "--bounds takes NAME=LOW:HIGH, not 'x=nan:9'",  '--bounds "k=0:inf"'),
    ("--bounds",    "x",             "--bounds takes NAME=..., not 'x'",             '--bounds "k=0:inf"'),
    ("--bounds",    "0:inf",         "--bounds takes NAME=..., not '0:inf'",         '--bounds "k=0:inf"'),
    ("--bounds",    "=0:9",          "--bounds takes NAME=..., not '=0:9'",          '--bounds "k=0:inf"'),
    ("--bounds",    "x=low:9",       "--bounds takes numbers, not 'low'",            "numbers such as"),
    ("--bounds",    "x=0:1:9",       "--bounds takes numbers, not '1:9'",            "numbers such as"),
    ("--bounds",    "x=0:9, y=2:1",  "--bounds takes NAME=LOW:HIGH, not 'y=2:1'",    '--bounds "k=0:inf"'),
    ("--bounds",    "x=0:9, x=1:9",  "--bounds names 'x' twice",                     "leave one out"),
    ("--bounds",    "z=0:9",         "--bounds names 'z', which is not an input",        "inputs: x"),
    ("--bounds",    "xx=0:9",        "--bounds names 'xx', which is not an input",       "did you mean 'x'?"),
    ("--bounds",    "x=4:inf",       "x lies outside its bounds, 4 to inf",          "move the point, or the bounds"),
    ("--scale",     "x=-1",          "--scale takes positive sizes",                 '--scale "x=1e-3"'),
    ("--scale",     "x=0",           "--scale takes positive sizes",                 '--scale "x=1e-3"'),
    ("--scale",     "x=inf",         "--scale takes positive sizes",                 '--scale "x=1e-3"'),
    ("--scale",     "x=nan",         "--scale takes positive sizes",                 '--scale "x=1e-3"'),
    ("--scale",     "x=",            "--scale takes positive sizes",                 '--scale "x=1e-3"'),
    ("--scale",     "x",             "--scale takes NAME=..., not 'x'",              '--scale "x=1e-3"'),
    ("--scale",     "1e-3",          "--scale takes NAME=..., not '1e-3'",           '--scale "x=1e-3"'),
    ("--scale",     "x=wide",        "--scale takes numbers, not 'wide'",            "numbers such as"),
    ("--scale",     "x=1, x=1",      "--scale names 'x' twice",                      "leave one out"),
    ("--scale",     "z=1",           "--scale names 'z', which is not an input",         "inputs: x"),
    ("--budget",    "0",             "--budget",                                     ""),
    ("--budget",    "-5",            "--budget",                                     ""),
    ("--budget",    "1.5",           "--budget",                                     ""),
    ("--budget",    "many",          "--budget takes a whole number of at least 1, not 'many'", "write --budget 1"),
]
# fmt: on


@for_rows(("option", "text", "what", "do"), BAD)
def test_a_bad_value_is_one_clear_error(
    gradcli: Callable[..., Any], option: str, text: str, what: str, do: str
) -> None:
    ran = gradcli("check", "x**2", "x=3", *QUICK, option, text)
    assert (ran.exit_status, ran.stdout) == (2, "")
    first, *rest = ran.stderr.splitlines()
    assert first.startswith("error: ") and what in first and "internal" not in first
    assert len(rest) == 1 and rest[0].startswith("  ") and do in rest[0]


@for_rows(("option", "text", "what", "do"), BAD)
def test_a_bad_value_is_a_document_for_programs(
    gradcli: Callable[..., Any], option: str, text: str, what: str, do: str
) -> None:
    ran = gradcli("check", "x**2", "x=3", *QUICK, option, text, "--json")
    assert (ran.exit_status, ran.stderr) == (2, "")
    error = ran.json["error"]
    assert error["kind"] == "usage" and what in error["message"] and do in error["hint"]


# fmt: off
READ = [
    ({"bounds": ["k=0:inf"]},                     Stepping(edges={"k": (0.0, INF)})),
    ({"bounds": ["k=:3"]},                        Stepping(edges={"k": (-INF, 3.0)})),
    ({"bounds": ["k=-1e-3:"]},                    Stepping(edges={"k": (-1e-3, INF)})),
    ({"bounds": ["k=:"]},                         Stepping(edges={"k": (-INF, INF)})),
    ({"bounds": [" a = 0 : 1 , b=2:3,"]},         Stepping(edges={"a": (0.0, 1.0), "b": (2.0, 3.0)})),
    ({"bounds": ["a=0:1", "b=2:3"]},              Stepping(edges={"a": (0.0, 1.0), "b": (2.0, 3.0)})),
    ({"bounds": ["params.W=0:1"]},                Stepping(edges={"params.W": (0.0, 1.0)})),
    ({"bounds": ["µ=0:1"]},                       Stepping(edges={"μ": (0.0, 1.0)})),
    ({"scale": ["x=1e-3, y=5"]},                 Stepping(scales={"x": 1e-3, "y": 5.0})),
    ({"scale": ["x=1e-3", "y=5"]},               Stepping(scales={"x": 1e-3, "y": 5.0})),
    ({"h": 1e-5, "budget": 7},                    Stepping(1e-5, {}, {}, 7)),
    ({},                                          Stepping()),
]
# fmt: on


@for_rows(("options", "stepping"), READ)
def test_the_options_are_read(options: dict[str, Any], stepping: Stepping) -> None:
    rows = {row.name: row for row in options_of_command("check")}
    assert Options(**{name: rows[name].value(x) for name, x in options.items()}).stepping == stepping


def test_a_bad_option_says_what_was_written() -> None:
    with pytest.raises(BadOption) as error:
        parse_edges("--bounds", ["a=0:1, b"])
    assert error.value.what == "--bounds takes NAME=..., not 'b'"


def differences(document: Any) -> Any:
    return document["points"][0]["modes"]["finite-difference"]


# fmt: off
STATUSES = [
    (0, ("exp(x)", "x=0", "--h", "1e-4")),
    (0, ("exp(x)", "x=0", "--h", "1e-4", "--grad", "exp(x)")),
    (1, ("exp(x)", "x=0", "--h", "1e-4", "--grad", "1.001*exp(x)")),
    (3, ("exp(x)", "x=0", "--h", "1e-300")),
    (3, ("exp(x)", "x=0", "--h", "1e5")),
    (0, ("log(x)", "x=1", "--bounds", "x=0:inf")),
    (0, ("exp(x)", "x=0", "--bounds", "x=0:inf")),
    (0, ("exp(x)", "x=0", "--bounds", "x=0:1", "--grad", "exp(x)")),
    (1, ("exp(x)", "x=0", "--bounds", "x=0:1", "--grad", "1.001*exp(x)")),
    (0, ("sum(exp(x))", "x=[0,1,2]", "--bounds", "x=0:2", "--grad", "exp(x)")),
    (1, ("sum(exp(x))", "x=[0,1,2]", "--bounds", "x=0:2", "--grad", "exp(x)*[1.001,1,1]")),
    (3, ("abs(x)", "x=0", "--bounds", "x=-1:1")),
    (0, ("x*y", "x=1", "y=2", "--bounds", "x=1:inf, y=:2")),
    (2, ("x*y", "x=1", "y=2", "--bounds", "x=1:inf, y=:1")),
    (2, ("sum(exp(x))", "x=[0,1,3]", "--bounds", "x=0:2")),
    (2, ("exp(x)", "x=1", "x=-1", "--bounds", "x=0:2")),
    (0, ("sin(1e-6*x)", "x=0", "--scale", "x=1e6")),
    (1, ("sin(1e-6*x)", "x=0", "--scale", "x=1e6", "--grad", "1.001e-6*cos(1e-6*x)")),
    (0, ("sum(x**2)", "x=[1,2,3]", "--budget", "10")),
    (0, ("sum(x**2)", "x=[1,2,3]", "--budget", "10", "--grad", "2*x")),
    (1, ("sum(x**2)", "x=[1,2,3]", "--budget", "10", "--grad", "3*x")),
]
# fmt: on


@for_rows(("status", "argv"), STATUSES)
def test_verdicts_under_the_options(gradcli: Callable[..., Any], status: int, argv: tuple) -> None:
    assert gradcli("check", *argv, *QUICK).exit_status == status


def test_a_fixed_step_costs_four_evaluations_an_entry(gradcli: Callable[..., Any]) -> None:
    one, two = (
        differences(gradcli("check", "sum(x**3)", x, "--h", "1e-3", *QUICK, "--json").json)["evaluations"]
        for x in ("x=[1]", "x=[1,2]")
    )
    assert two - one == 4


def test_differences_that_the_budget_refuses_say_what_would_do(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "sum(x**2)", "x=[1,2,3]", *QUICK, "--json", "--budget")
    refused = differences(gradcli(*argv, "10").json)
    assert refused["status"] == "not run"
    assert refused["message"] == "3 entries would take about 63 evaluations, more than the budget of 10"
    option, enough = refused["hint"].split()
    assert option == "--budget"
    assert differences(gradcli(*argv, enough).json)["status"] == "ok"
    assert differences(gradcli(*argv, str(int(enough) - 1)).json)["status"] == "not run"


BLACK_BOX = """
    import math
    def f(x): return sum(map(math.sin, map(np.float64, x)))
    def g(x): return np.cos(x)
    def negative(x): return -np.cos(x)
    def vector(x): return np.array([math.sin(v.__float__()) for v in x])
    def diagonal(x): return np.diag(np.cos(x))
"""

# fmt: off
EXHAUSTED = [
    (3, ("--budget", "10", "--grad", "g")),
    (3, ("--budget", "10", "--grad", "negative")),
    (0, ("--budget", "10", "--grad", "g", "--allow", "budget")),
    (0, ("--budget", "10", "--grad", "g", "--allow-inconclusive")),
    (3, ("--budget", "10", "--grad", "g", "--allow", "noise,kink")),
    (0, ("--budget", "42", "--grad", "g")),
    (1, ("--budget", "42", "--grad", "negative")),
    (1, ("--budget", "42", "--grad", "negative", "--allow", "budget")),
]
# fmt: on


@pytest.mark.parametrize(("status", "more"), EXHAUSTED)
def test_a_black_box_whose_budget_is_spent_is_inconclusive(
    gradcli: Callable[..., Any], tmp_path: Path, status: int, more: tuple
) -> None:
    document = gradcli("check", f"{written(tmp_path, BLACK_BOX)}:f", "x=[0.1, 1]", *QUICK, *more, "--json").json
    found = [f for f in document["points"][0]["findings"] if f["severity"] == "inconclusive"]
    assert document["exit_status"] == status
    assert [f["kind"] for f in found] == (["budget"] if "10" in more else [])
    assert all(f["message"] == "10 evaluations of f are too few to decide the claim" for f in found)
    assert all("--budget" in f["hint"] for f in found)


@pytest.mark.parametrize("more", [("f",), ("vector",), ("vector", "--grad", "diagonal")], ids=str)
def test_a_spent_budget_is_named_where_no_projection_helps(
    gradcli: Callable[..., Any], tmp_path: Path, more: tuple
) -> None:
    target = f"{written(tmp_path, BLACK_BOX)}:{more[0]}"
    ran = gradcli("check", target, "x=[0.1, 1]", *QUICK, *more[1:], "--budget", "10", "--json")
    found = [f for f in ran.json["points"][0]["findings"] if f["severity"] == "inconclusive"]
    assert (ran.exit_status, [f["kind"] for f in found]) == (3, ["budget"])


# fmt: off
REPEATED = [
    ("--h", "1e-05"), ("--h", "0.0001"), ("--budget", "99"), ("--scale", "x=0.001"), ("--scale", "x=3.0000000000000004"),
    ("--bounds", "x=0:inf"), ("--bounds", "x=-inf:inf"), ("--bounds", "x=0.5:1e+20"), ("--mutate",),
    ("--bounds", "x=0.123456789:1"),
]
# fmt: on


@for_rows("option", REPEATED, ids=str)
def test_the_command_told_repeats_the_options(gradcli: Callable[..., Any], option: tuple) -> None:
    first = gradcli("check", "exp(x)", "x=0.987654321", *option, *QUICK, "--json").json
    again = gradcli(*first["command"][1:], "--json").json
    assert " ".join(option) in " ".join(first["command"])
    assert again["command"] == first["command"]
    assert differences(again).get("bound") == differences(first).get("bound")


def test_points_are_drawn_inside_the_bounds(gradcli: Callable[..., Any]) -> None:
    for seed in map(str, range(3)):
        ran = gradcli("check", "x**2", "--bounds", "x=2:4", "--seed", seed, *QUICK, "--json")
        assert ran.exit_status == 0
        assert all(2 <= point["at"]["x"] <= 4 for point in ran.json["points"])


@pytest.mark.parametrize("argv", [("exp(x) + 600", "x=2", "--bounds", "x=0:2"), ("sqrt(2-x)**5 + 600", "x=2")], ids=str)
def test_no_internal_error_at_the_end_of_a_domain(gradcli: Callable[..., Any], argv: tuple) -> None:
    assert gradcli("check", *argv, *QUICK).exit_status in (0, 3)
