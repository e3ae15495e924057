"""Values by name: paths into arguments, objects of Python files, points in the target's module."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from gradcli.errors import GradcliError
from gradcli.targets.missing import has_assignment
from gradcli.targets.points import parse_assignments
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd", "--json")
CODE = """
    DATA = np.array([[1.0, 2.0], [3.0, 4.0], [0.5, 1.0]])
    LABELS = np.array([0, 1, 0])
    class cfg:
        data = DATA
        n = 3
    def make(): return DATA
    def square(t): return t**2
    START = {"params": {"A": 2.0, "b": [1.0, np.array([1.0, 2.0])], "n": 2}, "x": np.array([0.5, 1.5])}
    IN_ORDER = ({"A": 2.0, "b": [1.0, np.ones(2)], "n": 2}, np.ones(2))
    ONE = np.array([1.0, 2.0])
    DEFAULT = {"A": 1.0, "b": 2.0}
    def start(): return START
    def nested(params, x): return params["A"]*np.sum(x**params["n"]) + params["b"][0]*np.sum(params["b"][1]*x)
    def fit(w, data, y): return np.sum((data @ w - y)**2)
    def power(x, n): return np.sum(x**np.arange(n)[-1])
    def mapped(x, by): return np.sum(by(x))
    def alone(x): return np.sum(x**2)
    def with_default(x, params=DEFAULT): return params["A"]*x**2 + params["b"]
"""


def test_a_name_may_be_a_path() -> None:
    found = parse_assignments("params.A=1, layers[0].W=[1, 2]; 0.weight=randn(2), x=3")
    assert found["params.A"] == 1 and found["layers[0].W"].tolist() == [1.0, 2.0]


def test_a_path_has_a_stream_of_its_own() -> None:
    found = parse_assignments("a.b=randn(3), a.c=randn(3), a_b=randn(3)")
    assert len({tuple(x) for x in found.values()}) == 3
    assert found["a.b"].tolist() == parse_assignments("x=1, a.b=randn(3)")["a.b"].tolist()


@for_rows("text", ["a.b=1, a.b=2", "a[0]=1; a[0]=2", "x=m:A, x=m:B", "a.b="])
def test_a_bad_path_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(GradcliError) as error:
        parse_assignments(text, from_python=lambda code: 1.0)
    assert error.value.where is not None


def test_objects_of_python_code_are_read_by_the_caller_alone() -> None:
    named = []
    parse_assignments("x=1, data=some/folder/file.py:cfg.data, f=pkg.mod::f, g=m:make()", from_python=named.append)
    assert named == ["some/folder/file.py:cfg.data", "pkg.mod::f", "m:make()"]
    assert parse_assignments('x=1, s="file.py:name"')["s"] == "file.py:name"
    with pytest.raises(GradcliError, match="runs for Python functions only"):
        parse_assignments("x=1, data=file.py:DATA")


def test_a_point_and_a_value_are_told_apart() -> None:
    assert has_assignment("data=file.py:DATA") and not has_assignment("file.py:DATA")


# fmt: off
RUNS = [
    ("fit",     ("--at", "w=randn(2), data={f}:DATA, y={f}:LABELS"),        ["w", "data"]),
    ("fit",     ("--at", "w=randn(2)", "data={f}:cfg.data", "y={f}:LABELS"), ["w", "data"]),
    ("fit",     ("--at", "w=randn(2), data={f}:make(), y={f}:LABELS", "--wrt", "w"), ["w"]),
    ("power",   ("--at", "x=[1, 2], n={f}:cfg.n"),                          ["x"]),
    ("mapped",  ("--at", "x=[1, 2], by={f}:square"),                        ["x"]),
    ("nested",  ("--at", "START"),                                          ["params.A", "params.b[0]", "params.b[1]", "x"]),
    ("nested",  ("--at", "start", "--wrt", "x"),                            ["x"]),
    ("nested",  ("--at", "IN_ORDER", "--wrt", "params.A"),                  ["params.A"]),
    ("alone",   ("--at", "ONE"),                                            ["x"]),
    ("with_default", ("x=1", "params.A=3"),                                 ["x", "params.A", "params.b"]),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "differentiated"), RUNS)
def test_points_and_objects_of_the_users_files(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple[str, ...], differentiated: list[str]
) -> None:
    file = written(tmp_path, CODE)
    ran = gradcli("check", f"{file}:{target}", *(word.replace("{f}", str(file)) for word in at), *QUICK)
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["differentiated"] == differentiated


def test_an_entry_keeps_the_others(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, CODE)
    more = ("--at", "START", "--at", "params.A=3, params.b[1]=[5, 6], params.n=3")
    at = gradcli("check", f"{file}:nested", *more, *QUICK).json["points"][0]["at"]
    assert at == {"params.A": 3.0, "params.b[0]": 1.0, "params.b[1]": [5.0, 6.0], "params.n": 3, "x": [0.5, 1.5]}
    given = gradcli("check", f"{file}:with_default", "x=1", "params.b=7", *QUICK).json["points"][0]["at"]
    assert given == {"x": 1.0, "params.A": 1.0, "params.b": 7.0}
    again = gradcli("check", f"{file}:alone", "--at", "ONE", *QUICK).json["points"][0]["at"]
    assert again == {"x": [1.0, 2.0]}


# fmt: off
REFUSED = [
    ("alone",        ("--at", "ONEE"),                      "has no 'ONEE'", "did you mean ONE?"),
    ("fit",          ("--at", "w=randn(2), data={f}:DATE"), "has no value 'DATE'", "did you mean"),
    ("nested",       ("--at", "START", "params.C=1"),       "params has no entry 'params.C'", "it has: params.A"),
    ("nested",       ("--at", "START", "params.b=1"),       "params.b holds several entries", "params.b[0], params.b[1]"),
    ("nested",       ("--at", "START", "x.y=1"),            "x has no entry 'x.y'", "it is one value: write x="),
    ("nested",       ("--at", "START", "parms.A=1"),        "'parms' is not a parameter", "did you mean 'params'?"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "said", "do"), REFUSED)
def test_names_that_are_not_there(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple[str, ...], said: str, do: str
) -> None:
    file = written(tmp_path, CODE)
    ran = gradcli("check", f"{file}:{target}", *(word.replace("{f}", str(file)) for word in at), *QUICK)
    assert ran.exit_status == 2
    assert said in ran.json["error"]["message"] and do in ran.json["error"]["hint"]


@pytest.mark.parametrize("at", ["x={f}:DATA", "{n}=users:DATA", "START"])
def test_an_expression_runs_nothing(gradcli: Callable[..., Any], tmp_path: Path, at: str) -> None:
    file = written(tmp_path, "open('ran', 'w')\n" + CODE)
    ran = gradcli("check", "sum(x)", "--at", at.format(f=file, n="x"), "--json")
    assert ran.exit_status == 2 and not (tmp_path / "ran").exists() and not Path("ran").exists()
    assert ran.json["error"]["kind"] == "point"


@pytest.mark.parametrize("at", ["x={f}:DATA", {"x": "{f}:DATA"}])
def test_a_line_of_standard_input_runs_nothing(gradcli: Callable[..., Any], tmp_path: Path, at: Any) -> None:
    file = written(tmp_path, "raise SystemExit('it ran')\n")
    point = json.loads(json.dumps(at).replace("{f}", str(file)))
    ran = gradcli("check", "-", "--json", stdin=json.dumps({"target": "sum(x)", "at": point}) + "\n")
    assert ran.exit_status == 2 and "it ran" not in ran.stdout


def test_a_suite_takes_them_too(gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, CODE, "losses.py")
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\nid = "fit"\ntarget = "losses.py:fit"\nat = "w=randn(2), data=losses.py:DATA, y=losses.py:LABELS"\n'
        '[[check]]\nid = "start"\ntarget = "losses.py:nested"\nat = ["START", "start"]\n'
    )
    ran = gradcli("check", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert len(ran.json["checks"][1]["document"]["points"]) == 2


def test_a_users_dict_stays_what_it_is() -> None:
    f = lambda x, table: np.sum(x * table[0]) + table[1]
    assert check(f, {"x": np.array([1.0, 2.0]), "table": {0: np.array([3.0, 4.0]), 1: 5.0}}).verdict == "pass"
