"""SARIF 2.1.0: what its schema asks for, what code scanning needs of each result, and what a rule says."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcli.errors import BadTarget, FunctionFailed, GradcliError, Place
from gradcli.report.common import error_report
from gradcli.report.explain import SITE, read_explanations
from gradcli.report.forms import Page, render_as_text
from gradcli.report.forms.ci import error_annotation
from gradcli.report.suite import row_of_document
from tests.report.suites import error_row, suite
from tests.rows import for_rows

Gradcli = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
QUICK = ("--modes", "reverse,fd", "--json")
HOSTILE = "a <b> `c` $d$ \\ é\u202e\n::error::e, 100%"


def raised(file: str, line: int = 2) -> FunctionFailed:
    return FunctionFailed("a.py:f raised ValueError: no", where=Place(file, line, "    raise ValueError('no')", 4, 5))


def log_of(report: Any, folder: Path) -> dict[str, Any]:
    return dict(json.loads(render_as_text("sarif", report, Page(folder=str(folder)))))


# What the schema of OASIS asks for, as far as gradcli writes it: for each object its properties, and those it must have.
_TEXT = {"text"}
_OBJECTS: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "results"}, {"tool"}),
    "tool": ({"driver"}, {"driver"}),
    "driver": ({"name", "version", "informationUri", "rules"}, {"name"}),
    "rule": ({"id", "shortDescription", "fullDescription", "helpUri", "help"}, {"id"}),
    "help": ({"text", "markdown"}, _TEXT),
    "message": (_TEXT, _TEXT),
    "result": ({"ruleId", "level", "message", "partialFingerprints", "locations"}, {"message"}),
    "location": ({"physicalLocation"}, set()),
    "physicalLocation": ({"artifactLocation", "region"}, {"artifactLocation"}),
    "artifactLocation": ({"uri", "uriBaseId", "description"}, {"uri"}),
    "region": ({"startLine"}, {"startLine"}),
}
_URI = re.compile(r"(?:[\w.~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+")


def faults(log: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a log of SARIF."""
    yield from _of("log", log)
    if log["version"] != "2.1.0":
        yield "the version is not 2.1.0"
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        yield from (*_of("run", run), *_of("tool", run["tool"]), *_of("driver", driver))
        ids = [rule["id"] for rule in driver["rules"]]
        if sorted(ids) != sorted({result["ruleId"] for result in run["results"]}):
            yield "the rules are not those of the results, each once"
        for rule in driver["rules"]:
            yield from (*_of("rule", rule), *_of("help", rule["help"]))
            for key in ("shortDescription", "fullDescription"):
                yield from _of("message", rule[key])
                if not 0 < len(rule[key]["text"]) <= 1024:  # of code scanning
                    yield f"{key} is empty or too long"
            if not _URI.fullmatch(rule["helpUri"].replace("https://", "", 1)):
                yield f"{rule['helpUri']} is no address"
        for result in run["results"]:
            yield from _of_result(result)


def _of_result(result: dict[str, Any]) -> Iterator[str]:
    yield from (*_of("result", result), *_of("message", result["message"]))
    if result["level"] not in ("none", "note", "warning", "error"):
        yield f"there is no level {result['level']}"
    if not result["locations"]:
        yield "code scanning takes no result without a location"
    if not all(isinstance(text, str) for text in result["partialFingerprints"].values()):
        yield "a fingerprint is no text"
    for location in result["locations"]:
        place = location["physicalLocation"]
        artifact, region = place["artifactLocation"], place["region"]
        yield from (*_of("location", location), *_of("physicalLocation", place), *_of("region", region))
        yield from _of("artifactLocation", artifact)
        uri = artifact["uri"]
        relative = _URI.fullmatch(uri) and not uri.startswith("/") and ":" not in uri.split("/")[0]
        if not (relative or (re.match("file:///", uri) and "uriBaseId" not in artifact)):
            yield f"{uri} is neither relative nor the whole address of a file"
        if not (type(region["startLine"]) is int and region["startLine"] >= 1):
            yield f"a line is {region['startLine']}"


def _of(kind: str, found: dict[str, Any]) -> Iterator[str]:
    known, needed = _OBJECTS[kind]
    if not needed <= found.keys() <= known:
        yield f"{kind} has {sorted(found)}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder below the root of a repository, with a suite and a file."""
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "below it"
    folder.mkdir()
    (folder / "gradcli.toml").write_text("")
    (folder / "a.py").write_text("def f(x):\n    raise ValueError('no')\n")
    return folder


def test_it_has_what_the_schema_and_code_scanning_ask_for(gradcli: Gradcli, project: Path) -> None:
    fail = gradcli("check", "sum(x**2)", "x=[1, 2]", "--grad", "-2*x", *QUICK).json
    unknown = gradcli("check", "sum(sin(x))", "x=[0.3, 0.9]", "--grad", "[7, 2]", *QUICK).json
    kink = gradcli("check", "abs(x)", "x=0", *QUICK).json
    passed = gradcli("check", "x**2", "x=1", *QUICK).json
    rows = [
        row_of_document(name, "f", found, 0.1)
        for name, found in (("a", fail), ("b", unknown), (HOSTILE, kink), ("d", passed))
    ]
    log = log_of(suite(*rows, error_row("e", "a.py:f", raised("a.py"))), project)
    assert [*faults(log)] == []
    results = log["runs"][0]["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("sign", "error"), ("wrong-gradient", "error"), ("kink", "note"), ("error", "error"),
    ]  # fmt: skip


def test_the_checker_sees_what_is_wrong(project: Path) -> None:
    log = log_of(suite(error_row("e", "a.py:f", raised("a.py"))), project)
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    place["region"]["startLine"], place["artifactLocation"]["uri"], result["level"] = 0, "/a b.py", "bad"
    result["locations"].append(
        {"physicalLocation": {"region": {"startLine": 1}, "artifactLocation": {"uri": "a.py"}}, "x": 1}
    )
    del log["runs"][0]["tool"]["driver"]["rules"][0]["help"]["text"]
    assert len([*faults(log)]) == 5


WHERE = {  # the error of a check, and where it is shown
    "the line that raised": (raised("a.py"), "a.py:f", ("a.py", 2)),
    "a line of a file elsewhere": (raised("/elsewhere/b.py"), "a.py:f", ("a.py", None)),
    "the file of the target": (BadTarget("a.py has no function 'g'"), "a.py:g", ("a.py", None)),
    "with arguments": (BadTarget("no"), "a.py:L(x[1:2]).forward", ("a.py", None)),
    "the file of the suite": (BadTarget("there is no file b.py"), "b.py:f", ("gradcli.toml", None)),
    "an expression": (GradcliError("unknown function"), "sine(x)", ("gradcli.toml", None)),
}


@for_rows("how", WHERE)
def test_an_error_is_at_its_line_or_in_the_file_that_names_it(how: str, project: Path) -> None:
    error, target, (file, line) = WHERE[how]
    report = suite(error_row("e", target, error))
    log = log_of(report, project)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    artifact = {"uri": f"below%20it/{file}", "uriBaseId": "%SRCROOT%"}
    assert place == {"artifactLocation": artifact, "region": {"startLine": line or 1}} and [*faults(log)] == []
    annotation = render_as_text("github", report, Page(folder=str(project)))
    at = f",file=below it/{file}" + ("" if line is None else f",line={line}")
    assert annotation == f"::error title=gradcli%3A e{at}::{error.what}\n"


def test_what_is_in_no_file_has_a_location_that_says_so(gradcli: Gradcli, tmp_path: Path) -> None:
    fail = gradcli("check", "sum(x**2)", "x=[1, 2]", "--grad", "-2*x", *QUICK).json
    log = log_of(suite(row_of_document("a", "sum(x**2)", fail, 0.1), config=None), tmp_path)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert "There is no file" in location["physicalLocation"]["artifactLocation"]["description"]["text"]
    assert [*faults(log)] == []


def test_a_claim_in_the_suite_is_in_its_file(gradcli: Gradcli, project: Path) -> None:
    fail = gradcli("check", "sum(x**2)", "x=[1, 2]", "--grad", "-2*x", *QUICK).json
    report = suite(row_of_document("a", "sum(x**2)", fail, 0.1))
    place = log_of(report, project)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "below%20it/gradcli.toml"
    assert ",file=below it/gradcli.toml::" in render_as_text("github", report, Page(folder=str(project)))


def test_a_file_outside_of_the_repository_has_its_whole_address(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "b.py"
    outside.write_text("\n\n")
    log = log_of(suite(error_row("e", f"{outside}:f", raised(str(outside))), config=None), project)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": outside.as_uri()}, "region": {"startLine": 2}} and [*faults(log)] == []


def test_a_rule_says_what_the_documentation_says_and_where(gradcli: Gradcli, tmp_path: Path) -> None:
    fail = gradcli("check", "sum(x**2)", "x=[1, 2]", "--grad", "-2*x", *QUICK).json
    rule = log_of(suite(row_of_document("a", "sum(x**2)", fail, 0.1)), tmp_path)["runs"][0]["tool"]["driver"]["rules"][
        0
    ]
    (sign,) = (row for row in read_explanations() if row.kind == "sign")
    assert rule["shortDescription"]["text"] == f"sign: {sign.summary}."
    assert rule["fullDescription"]["text"] == sign.meaning
    assert sign.do in " ".join(rule["help"]["text"].split()) and "What to do: " in rule["help"]["markdown"]


@for_rows("kind", [*dict.fromkeys(row.kind for row in read_explanations()), "wrong-gradient", "error", "inconclusive"])
def test_each_rule_has_a_page_of_the_repository(kind: str) -> None:
    from gradcli.report.forms.ci import _describe_rule

    rule = _describe_rule(kind)
    assert (ROOT / rule["helpUri"].removeprefix(f"{SITE}/")).is_file()
    assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
    assert len(rule["fullDescription"]["text"]) <= 1024


def test_the_error_of_a_command_is_annotated_at_its_line(project: Path) -> None:
    detail = error_report(raised("a.py")).error
    shown = error_annotation(detail, Page(folder=str(project)))
    assert shown == "::error title=gradcli,file=below it/a.py,line=2::a.py:f raised ValueError: no\n"
    said = error_report(BadTarget("no")).error
    assert error_annotation(said, Page(folder=str(project))) == "::error title=gradcli::no\n"
