"""Every document the program prints validates against the schema the program prints for it."""

import copy
import dataclasses
import importlib
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import gradcli as gradcli_package
from gradcli.cli import listings
from gradcli.errors import ErrorKind, GradcliError
from gradcli.report.encode import document_fields, field_descriptions
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict
from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
NAMES = (
    "check",
    "compare-modes",
    "sweep",
    "derive",
    "grad",
    "trace",
    "modes",
    "ops",
    "explain",
    "find",
    "suite",
    "error",
)

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
    "sweep":                   ("sweep", "sin(x)", "x=1", "--schemes", "forward,complex"),
    "sweep, formats and claim": ("sweep", "x**3", "x=1", "--grad", "3*x**2", "--dtype", "float16,float64", "--schemes", "central"),
    "sweep, a kink":           ("sweep", "abs(x)", "x=0"),
    "derive":                  ("derive", "sum(x**2)", "--shapes", "x: n"),
    "derive, an answer":       ("derive", "sum(x**2)", "--shapes", "x: n", "--answer", "x"),
    "derive, refused":         ("derive", "c*sum(x) + sum(i0e(x))", "--shapes", "x: n; c:"),
    "modes":                   ("modes",),
    "ops":                     ("ops", "tanh"),
    "ops, not elementwise":    ("ops", "matmul"),
    "find":                    ("find", str(Path(__file__).parents[2] / "examples")),
    "suite":                   ("check", "x**2", "abs(x)", "sine(x)", "x=0", "--allow", "kink"),
    "suite, wrong":            ("check", "x**2", "sin(x)", "x=1", "--grad", "2*x"),
    "explain":                 ("explain",),
    "explain, a kind":         ("explain", "kink"),
    "explain, two meanings":   ("explain", "non-finite"),
    "error, expression":       ("check", "sine(x)"),
    "error, usage":            ("check", "x", "--bogus"),
    "error, command":          ("chek", "x"),
    "error, point":            ("grad", "x", "x=@nowhere.npy"),
}
# fmt: on
NUMBERS = {"check": 3, "compare-modes": 4, "sweep": 3, "derive": 2, "trace": 2}  # of schemas that have changed
VERDICTS = {"pass": 0, "fail": 1, "inconclusive": 3}


def schema(gradcli: Callable[..., Any], name: str) -> Any:
    return gradcli("schema", name).json


def number(name: str) -> str:
    """Return the name of a schema with its number."""
    return f"gradcli.{name}/{NUMBERS.get(name, 1)}"


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


@pytest.mark.parametrize(
    "case", ["check, a wrong claim", "compare-modes", "grad, vector", "trace", "modes", "ops", "find"]
)
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


@for_rows("name", NAMES)
def test_schemas_are_schemas(gradcli: Callable[..., Any], name: str) -> None:
    found = schema(gradcli, name)
    Draft202012Validator.check_schema(found)
    assert found["title"] == number(name)
    assert "schema" in found["required"]


@pytest.mark.parametrize("spelled", ["gradcli.check/3", "check/3", "gradcli.check"])
def test_schemas_are_found_by_the_names_in_documents(gradcli: Callable[..., Any], spelled: str) -> None:
    assert schema(gradcli, spelled) == schema(gradcli, "check")


def test_another_number_is_not_taken_for_this_one(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("schema", "check/1")
    assert ran.exit_status == 2
    assert "this version of gradcli writes gradcli.check/3" in ran.stderr


CORRUPTIONS = [
    (("schema",), "gradcli.check/1"),
    (("verdict",), "passed"),
    (("exit_status",), 4),
    (("target", "kind"), "text"),
    (("derivative",), "slope"),
    (("points", 0, "verdict"), "right"),
    (("points", 0, "modes", "forward", "status"), "fine"),
    (("points", 0, "modes", "forward", "verdict"), "pass"),
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


def reported(kind: Any, found: dict[str, type] | None = None) -> dict[str, type]:
    """Return a report's type and the types of all that is in it, by name."""
    found = {} if found is None else found
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        found[f"{kind.__module__}.{kind.__qualname__}"] = kind
        for hint in typing.get_type_hints(kind).values():
            reported(hint, found)
    for part in typing.get_args(kind):
        reported(part, found)
    return found


REPORTED = {
    name: report_type
    for module, report in listings.DOCUMENTS.values()
    for name, report_type in reported(getattr(importlib.import_module(module), report)).items()
}


@for_rows("name", sorted(REPORTED))
def test_a_docstring_describes_every_field_of_a_report_and_no_other(name: str) -> None:
    descriptions = field_descriptions(REPORTED[name])
    assert list(descriptions) == [field.name for field in document_fields(REPORTED[name]).values()]
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in descriptions.values())


def test_a_description_goes_on_in_lines_that_are_indented() -> None:
    class Told:
        """What is told.

        Units of the rest.

        x     The first word,
              and the second.
        long  The third.

        Cost  nothing
        """

    assert field_descriptions(Told) == {"x": "The first word, and the second.", "long": "The third."}


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every property of a schema."""
    if isinstance(schema, dict):
        yield from (schema["properties"].items() if isinstance(schema.get("properties"), dict) else ())
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from properties(part)


@for_rows("name", NAMES)
def test_every_property_has_a_description(gradcli: Callable[..., Any], name: str) -> None:
    assert [name for name, what in properties(schema(gradcli, name)) if not what.get("description")] == []


def test_words_are_listed(gradcli: Callable[..., Any]) -> None:
    found = schema(gradcli, "check")["properties"]
    point = found["points"]["items"]["properties"]
    assert found["schema"]["const"] == "gradcli.check/3"
    assert found["verdict"]["enum"] == [*Verdict]
    assert point["findings"]["items"]["properties"]["severity"]["enum"] == [*Severity]
    assert point["findings"]["items"]["properties"]["kind"]["enum"] == [*Kind]
    diagnosis = point["diagnosis"]["anyOf"][0]
    assert diagnosis["properties"]["kind"]["enum"] == [*DiagnosisKind]
    assert "not run" in point["modes"]["additionalProperties"]["properties"]["status"]["enum"]


def kinds_of_errors(kind: type[GradcliError]) -> set[str]:
    return {kind.kind}.union(*map(kinds_of_errors, kind.__subclasses__()))


def test_every_kind_of_error_is_listed() -> None:
    """With those of all modules: a class that nothing has loaded has no subclass here."""
    for path in Path(gradcli_package.__file__).parent.rglob("*.py"):
        if "(GradcliError)" in path.read_text() or "kind: ErrorKind" in path.read_text():
            importlib.import_module(
                ".".join(("gradcli", *path.relative_to(Path(gradcli_package.__file__).parent).with_suffix("").parts))
            )
    assert kinds_of_errors(GradcliError) <= {*typing.get_args(ErrorKind)}


def test_a_refused_input_has_its_error(gradcli: Callable[..., Any]) -> None:
    document = gradcli(*DOCUMENTS["derive, refused"], "--json").json
    error = document["refused"]["x"]
    assert [result["wrt"] for result in document["results"]] == ["c"] and list(document["refused"]) == ["x"]
    assert [f["message"] for f in document["findings"] if f["kind"] == "refused"] == [f"by x: {error['message']}"]
    assert error["kind"] == "unsupported" and "i0e(x)" in error["where"] and "^" in error["where"]
    assert "refused" not in gradcli(*DOCUMENTS["derive"], "--json").json


def test_schemas_are_strict_json(gradcli: Callable[..., Any]) -> None:
    assert json.loads(gradcli("schema", "check").stdout)["type"] == "object"


def test_unknown_documents_are_refused(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("schema", "chekc")
    assert ran.exit_status == 2
    assert "there is no document 'chekc'" in ran.stderr
    assert all(name in ran.stderr for name in NAMES)
