"""Several checks: a line for each, the details of what did not pass, the counts, and one document in each form."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gradcli = Callable[..., Any]
QUICK = ("--modes", "reverse,finite-difference")
MIXED = ("x**2", "log(x-1)", "sin(x", "sin(x)", "--grad", "2*x", "x=0", *QUICK)


def rows(stdout: str) -> list[list[str]]:
    """Return the lines before the first empty one, as their word and their name."""
    return [line.split()[:2] for line in stdout.partition("\n\n")[0].splitlines()]


def test_each_has_a_line_in_order_and_the_last_line_counts(gradcli: Gradcli) -> None:
    ran = gradcli("check", *MIXED)
    assert rows(ran.stdout) == [["PASS", "x**2"], ["INCONCLUSIVE", "log(x-1)"], ["ERROR", "sin(x"], ["FAIL", "sin(x)"]]
    assert re.fullmatch(r"1 passed, 1 failed, 1 inconclusive, 1 error in .+ s", ran.stdout.splitlines()[-1])
    assert ran.exit_status == 1


def test_only_what_did_not_pass_is_shown_in_full(gradcli: Gradcli) -> None:
    stdout = gradcli("check", *MIXED).stdout
    assert [line for line in stdout.splitlines() if "Again:" in line].__len__() == 2
    assert "\nFAIL  sin(x): the claimed gradient is wrong" in stdout and "\nPASS  x**2" not in stdout


def test_verbose_shows_all_in_full(gradcli: Gradcli) -> None:
    stdout = gradcli("check", "x**2", "x**3", *QUICK, "-v").stdout
    assert stdout.count("Again:") == 2 and stdout.count("\n  mode ") == 6  # three points each
    assert stdout.splitlines()[-1].startswith("2 passed in ")


def test_quiet_shows_the_last_line_of_several_and_nothing_of_one(gradcli: Gradcli) -> None:
    assert re.fullmatch(r"2 passed in .+ s\n", gradcli("check", "x**2", "x**3", *QUICK, "-q").stdout)
    assert gradcli("check", "x**2", *QUICK, "-q").stdout == ""


@pytest.mark.parametrize("targets", [("x**2",), ("x**2", "x**3")])
@pytest.mark.parametrize("form", ["json", "ndjson", "junit"])
def test_quiet_leaves_a_document_that_is_asked_for(gradcli: Gradcli, targets: tuple[str, ...], form: str) -> None:
    words = ("check", *targets, *QUICK, "--format", form)
    quiet, whole = gradcli(*words, "-q").stdout, gradcli(*words).stdout
    assert len(quiet.splitlines()) == len(whole.splitlines()) > 0


def test_two_alike_have_two_names(gradcli: Gradcli) -> None:
    assert rows(gradcli("check", "x**2", "x**2", "x**2", *QUICK).stdout)[:3] == [
        ["PASS", "x**2"], ["PASS", "x**2#2"], ["PASS", "x**2#3"],
    ]  # fmt: skip


def test_what_is_allowed_has_passed(gradcli: Gradcli) -> None:
    ran = gradcli("check", "abs(x)", "x**2", "x=0", "--allow", "kink", *QUICK)
    assert ran.stdout.split()[:4] == ["PASS", "abs(x)", "(allowed:", "kink)"] and "2 passed in " in ran.stdout
    assert ran.exit_status == 0


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit(gradcli: Gradcli, width: int) -> None:
    long = "sin(x)*" * 20 + "x"
    lines = gradcli("check", long, "x**2", *QUICK, environ={"COLUMNS": str(width)}).stdout.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= width


def test_junit_has_a_case_for_each(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    stdout = gradcli("check", *MIXED, "--format", "junit", "--out", str(file)).stdout
    suite = ET.fromstring(stdout).find("testsuite")
    assert suite is not None and [suite.get(k) for k in ("tests", "failures", "errors")] == ["4", "1", "2"]
    assert [case.get("name") for case in suite] == ["x**2", "log(x-1)", "sin(x", "sin(x)"]
    assert [[tag.tag for tag in case if tag.tag != "properties"] for case in suite] == [
        [],
        ["error"],
        ["error"],
        ["failure"],
    ]
    assert [case.get("name") for case in ET.parse(file).getroot()[0]] == [case.get("name") for case in suite]


def test_csv_has_the_rows_of_all_under_their_names(gradcli: Gradcli) -> None:
    found = list(csv.DictReader(io.StringIO(gradcli("check", *MIXED, "--format", "csv").stdout)))
    assert list(dict.fromkeys(row["id"] for row in found)) == ["x**2", "log(x-1)", "sin(x", "sin(x)"]
    assert {row["verdict"] for row in found if row["id"] == "sin(x"} == {"error"}


def test_markdown_has_one_table_and_the_failures(gradcli: Gradcli) -> None:
    stdout = gradcli("check", *MIXED, "--format", "markdown").stdout
    assert stdout.count("| --- | --- | --- | ---: |") == 1
    assert "**FAIL** `sin(x)`: the claimed gradient is wrong" in stdout and "**PASS**" not in stdout


def test_annotations_are_ten_at_most_worst_first(gradcli: Gradcli) -> None:
    many = [f"log(x)*{k}" for k in range(1, 12)]
    lines = gradcli("check", *many, "sin(x)", "x=0", "--grad", "0*x", *QUICK, "--format", "github").stdout.splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("::error title=gradcli%3A sin(x)") and lines[-1] == "and 2 more"


def test_lines_of_standard_input_are_several(process: Callable[..., Any]) -> None:
    ran = process("check", "-", "x=1", *QUICK, stdin="x**2\n\nx**3\n")
    assert rows(ran.stdout)[:2] == [["PASS", "x**2"], ["PASS", "x**3"]]


def test_what_ended_a_process_is_on_the_page(process: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text("import os\n\ndef f(x):\n    os._exit(3)\n")
    ran = process("check", "x**2", f"{file}:f", "x**3", "x=1", *QUICK)
    assert [row[0] for row in rows(ran.stdout)[:3]] == ["PASS", "ERROR", "PASS"]
    assert ran.stdout.splitlines()[-1].startswith("2 passed, 1 error in ")


def test_of_several_points_the_worst_is_in_full(gradcli: Gradcli) -> None:
    stdout = gradcli("check", "x**2", "--grad", "2*x + (x < 0.07)", *QUICK).stdout
    assert stdout.count("\n  mode ") == 1 and "point 2  fail" in stdout
    others = [line.split()[:3] for line in stdout.splitlines() if line.startswith("  point ")]
    assert others == [["point", "1", "pass"], ["point", "3", "pass"]]


def test_a_line_may_have_its_claim_as_an_object(gradcli: Gradcli) -> None:
    lines = [
        '{"target": "x*y", "grad": {"x": "y", "y": 1}, "at": {"x": 1, "y": 2}}',
        '{"target": "sum(x**2)", "grad": {"x": [2, 4.5]}, "at": {"x": [1, 2]}}',
        '{"target": "x", "grad": {"x": true}}',
        '{"target": "x", "grad": 3}',
    ]
    ran = gradcli("check", "-", *QUICK, stdin="\n".join(lines))
    assert [row[0] for row in rows(ran.stdout)[:4]] == ["PASS", "FAIL", "ERROR", "ERROR"]
    assert "(`grad` and `at` also an object)" in ran.stderr


@pytest.mark.slow
def test_work_on_large_arrays_is_announced(gradcli: Gradcli) -> None:
    ran = gradcli("check", "sum(x)", "x=ones(10000000)", "--modes", "reverse")
    assert ran.stderr.startswith("10,000,000 entries: each mode needs several arrays of 76 MiB")
    assert gradcli("check", "sum(x)", "x=ones(1000)", "--modes", "reverse").stderr == ""


def test_each_expression_takes_the_values_that_it_has(gradcli: Gradcli) -> None:
    found = gradcli("check", "x**2", "y*x", "x=1", "y=2", *QUICK, "--json").json
    assert [check["document"]["points"][0]["at"] for check in found["checks"]] == [{"x": 1.0}, {"y": 2.0, "x": 1.0}]
    ran = gradcli("check", "x**2", "y*x", "x=1", "z=2", *QUICK)
    assert ran.exit_status == 2 and "'z' is an input of no target" in ran.stderr
