"""Every document the program prints validates against the schema the program prints for it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

QUICK = ("--modes", "certified,forward,reverse,fd")
NAMES = ("check", "compare-modes", "grad", "trace", "modes", "ops", "error")

# fmt: off
DOCUMENTS = {
    "check passes":            ("check", "x*y", "x=1", "y=2", *QUICK),
    "check, a right claim":    ("check", "x**2", "x=3", "--grad", "2*x", *QUICK),
    "check, a wrong claim":    ("check", "x*y", "x=1", "y=2", "--grad", "x=2*y, y=x", *QUICK),
    "check, a wrong shape":    ("check", "sum(x**2)", "x=[1,2]", "--grad", "3", *QUICK),
    "check, a wrong Jacobian": ("check", "[x, x**2]", "x=3", "--jac", "[1, x]", *QUICK),
    "check, part of a claim":  ("check", "x*y", "x=1", "y=2", "--grad", "x=y", *QUICK),
    "check, a zero claimed":   ("check", "x**2", "x=0", "--grad", "x+1", *QUICK),
    "check, a kink":           ("check", "abs(x)", "x=0", *QUICK),
    "check, a staircase":      ("check", "floor(x)*x", "x=0.5", *QUICK),
    "check, not finite":       ("check", "log(x)", "x=0", *QUICK),
    "check, nan":              ("check", "sqrt(x)", "x=-1", *QUICK),
    "check, no witness":       ("check", "x**2", "x=3", "--modes", "forward"),
    "check, vector result":    ("check", "[x*y, x]", "x=1", "y=2", *QUICK),
    "check, drawn points":     ("check", "sin(x)", *QUICK),
    "check, no input":         ("check", "2**3", *QUICK),
    "check, a large array":    ("check", "sum(c*x)", "x=2", "c=ones(10001)", "--wrt", "x", *QUICK),
    "check, all modes":        ("check", "sin(x*y)", "x=0.5", "y=1.2"),
    "check, a warning":        ("check", "sum(softmax(X)**2)", "X=randn(2,2)", *QUICK),
    "check, unsupported":      ("check", "abs(x)", "x=1", "--modes", "cs,fwd"),
    "compare-modes":           ("compare-modes", "sin(x) + x*y", "x=0.5", "y=1.2", *QUICK),
    "compare-modes, claim":    ("compare-modes", "x**2", "x=3", "--grad", "x", *QUICK),
    "compare-modes, vector":   ("compare-modes", "[x*y, x]", "x=0.5", "y=1.2", *QUICK),
    "compare-modes, kink":     ("compare-modes", "abs(x)", "x=0", "--modes", "cs,fwd"),
    "grad":                    ("grad", "x*y", "x=1"),
    "grad, vector":            ("grad", "[x*y, x]", "x=1", "y=2"),
    "grad, a large array":     ("grad", "sum(x**2)", "x=ones(10001)"),
    "grad, not finite":        ("grad", "log(x)", "x=0"),
    "trace":                   ("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4"),
    "trace, arrays":           ("trace", "sum(W@x)", "--shapes", "W: 2 3; x: 3"),
    "trace, not finite":       ("trace", "log(x)", "x=0"),
    "modes":                   ("modes",),
    "ops":                     ("ops", "tanh"),
    "ops, checked":            ("ops", "sin", "--check"),
    "ops, not elementwise":    ("ops", "matmul"),
    "error, expression":       ("check", "sine(x)"),
    "error, usage":            ("check", "x", "--bogus"),
    "error, command":          ("chek", "x"),
    "error, point":            ("grad", "x", "x=@nowhere.npy"),
}
# fmt: on
VERDICTS = {"pass": 0, "fail": 1, "inconclusive": 3}


def schema(gradcli: Callable[..., Any], name: str) -> Any:
    return gradcli("schema", name).json


def number(name: str) -> str:
    """Return the name of a schema with its number."""
    return f"gradcli.{name}/{2 if name in ('check', 'compare-modes', 'sweep') else 1}"


def complaints(gradcli: Callable[..., Any], document: Any) -> list[str]:
    """Return what is wrong with a document by the schema it names."""
    name = document["schema"].removeprefix("gradcli.").partition("/")[0]
    return [error.message for error in Draft202012Validator(schema(gradcli, name)).iter_errors(document)]


@pytest.mark.parametrize("case", DOCUMENTS)
def test_documents_validate(gradcli: Callable[..., Any], case: str) -> None:
    ran = gradcli(*DOCUMENTS[case], "--json")
    assert ran.json["schema"] == number(case.partition(",")[0].partition(" ")[0])
    assert complaints(gradcli, ran.json) == []
    assert ran.stderr == ""


@pytest.mark.parametrize("case", ["check, a wrong claim", "compare-modes", "grad, vector", "trace", "modes", "ops"])
def test_one_line_documents_are_the_same_documents(gradcli: Callable[..., Any], case: str) -> None:
    ran = gradcli(*DOCUMENTS[case], "--format", "ndjson")
    assert ran.stdout.count("\n") == 1
    assert complaints(gradcli, ran.json) == []


def test_the_documents_have_every_verdict(gradcli: Callable[..., Any]) -> None:
    runs = [gradcli(*DOCUMENTS[case], "--json") for case in ("check passes", "check, a wrong claim", "check, a kink")]
    assert {ran.json["verdict"]: ran.exit_status for ran in runs} == VERDICTS


GIVEN = """import numpy as np
class Mode: pass
MASK = np.array([[True, False]])
POINT = {"x": np.array([1.0, 2.0]), "mode": "1e", "none": None, "yes": True, "mask": MASK, "names": np.array(["a"]), "it": Mode()}
def f(x, **rest):
    return np.sum(x**2)
"""


@pytest.mark.parametrize("command", ["check", "grad", "trace", "compare-modes"])
def test_whatever_python_code_takes_validates(gradcli: Callable[..., Any], tmp_path: Path, command: str) -> None:
    (tmp_path / "given.py").write_text(GIVEN)
    target = f"{tmp_path / 'given.py'}:f"
    document = gradcli(command, target, "--at", f"{tmp_path / 'given.py'}:POINT", "--json").json
    at = document["points"][0]["at"] if "points" in document else document["at"]
    assert at["mode"] == "1e" and complaints(gradcli, document) == []


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas(gradcli: Callable[..., Any], name: str) -> None:
    found = schema(gradcli, name)
    Draft202012Validator.check_schema(found)
    assert found["title"] == number(name)
    assert "schema" in found["required"]


@pytest.mark.parametrize("spelled", ["gradcli.check/2", "check/2", "gradcli.check"])
def test_schemas_are_found_by_the_names_in_documents(gradcli: Callable[..., Any], spelled: str) -> None:
    assert schema(gradcli, spelled) == schema(gradcli, "check")


def test_another_number_is_not_taken_for_this_one(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("schema", "check/1")
    assert ran.exit_status == 2
    assert "this version of gradcli writes gradcli.check/2" in ran.stderr


CORRUPTIONS = [
    (("verdict",), "remove"),
    (("points",), "remove"),
    (("points", 0, "modes"), "remove"),
    (("points", 0, "modes", "forward", "status"), "remove"),
    (("points", 0, "mismatches", 0, "claimed"), "remove"),
    (("exit_status",), "1"),
    (("points",), {}),
    (("points", 0, "at", "x"), {}),
    (("points", 0, "gradient", "x"), "two"),
    (("points", 0, "modes", "forward", "bound", "x"), {"shape": [2]}),
    (("points", 0, "modes", "forward", "proved"), "no"),
    (("points", 0, "entries", "wrong"), 0.5),
    (("points", 0, "differentiated"), [1]),
    (("points", 0, "mismatches", 0, "ratio"), "infinite"),
    (("points", 0, "diagnosis", "line"), "1"),
    (("environment",), []),
    (("claim",), 3),
]


@pytest.fixture(name="wrong", scope="module")
def _wrong() -> list[Any]:
    return []


@pytest.mark.parametrize(("path", "value"), CORRUPTIONS)
def test_corrupted_documents_do_not_validate(
    gradcli: Callable[..., Any], wrong: list[Any], path: tuple, value: object
) -> None:
    if not wrong:
        wrong.append(gradcli(*DOCUMENTS["check, a wrong claim"], "--json").json)
    document = copy.deepcopy(wrong[0])
    place = document
    for step in path[:-1]:
        place = place[step]
    assert path[-1] in place or isinstance(path[-1], int)
    if value == "remove":
        del place[path[-1]]
    else:
        place[path[-1]] = value
    assert complaints(gradcli, document)


def test_documents_may_gain_fields(gradcli: Callable[..., Any]) -> None:
    document = gradcli("grad", "x", "x=1", "--json").json
    assert complaints(gradcli, document | {"later": 1}) == []


def test_schemas_are_strict_json(gradcli: Callable[..., Any]) -> None:
    assert json.loads(gradcli("schema", "check").stdout)["type"] == "object"


def test_unknown_documents_are_refused(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("schema", "chekc")
    assert ran.exit_status == 2
    assert "there is no document 'chekc'" in ran.stderr
    assert all(name in ran.stderr for name in NAMES)
