"""JUnit as Jenkins reads it: what the schema of its xunit plugin allows, and what of a check is where."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gradcli.errors import BadTarget
from gradcli.report.forms import render_as_text
from gradcli.report.suite import row_of_document
from tests.report.suites import error_row, suite

Gradcli = Callable[..., Any]
QUICK = ("--modes", "reverse,fd")
HOSTILE = "a <b> ]]> & \x1b \ufffe \" ' \u202e"

# For each element: the attributes that it must have, those that it may have, its children, and whether it holds text.
_COUNTS = {"tests", "failures", "errors"}
_ELEMENTS: dict[str, tuple[set[str], set[str], set[str], bool]] = {
    "testsuites": (set(), {"name", "time", *_COUNTS}, {"testsuite"}, False),
    "testsuite": (
        {"name", *_COUNTS},
        {"time", "skipped"},
        {"testcase", "properties", "system-out", "system-err"},
        False,
    ),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "properties", "system-out", "system-err"},  # its JUnit plugin reads properties
        False,
    ),
    "properties": (set(), set(), {"property"}, False),
    "property": ({"name", "value"}, set(), set(), False),
    **dict.fromkeys(("failure", "error", "skipped"), (set(), {"type", "message"}, set(), True)),
    **dict.fromkeys(("system-out", "system-err"), (set(), set(), set(), True)),
}
_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")


def faults(element: ET.Element) -> Iterator[str]:
    """Yield what the schema does not allow in an element, and in those inside of it."""
    if element.tag not in _ELEMENTS:
        yield f"there is no {element.tag}"
        return
    needed, more, children, text = _ELEMENTS[element.tag]
    if not needed <= element.attrib.keys() <= needed | more:
        yield f"{element.tag} has {sorted(element.attrib)}"
    if not _TIME.fullmatch(element.get("time", "")):
        yield f"{element.get('time')} is no time"
    if not text and any((said or "").strip() for said in (element.text, *(child.tail for child in element))):
        yield f"{element.tag} holds text"
    for child in element:
        if child.tag not in children:
            yield f"{element.tag} has a {child.tag}"
        yield from faults(child)
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        counts = {
            "tests": len(cases),
            **{f"{tag}s": sum(c.find(tag) is not None for c in cases) for tag in ("failure", "error")},
        }
        if {name: element.get(name) for name in counts} != {name: str(count) for name, count in counts.items()}:
            yield f"the counts are not {counts}"


@pytest.mark.parametrize(
    "argv",
    [
        ("x**2", "log(x-1)", "sin(x", "sin(x)", "--grad", "2*x", "x=0"),
        ("x**2", "x=3", "x=4", "--grad", "x"),
        ("abs(x)", "x=0", "x=1"),
    ],
)
def test_jenkins_takes_it(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    found = ET.fromstring(gradcli("check", *argv, *QUICK, "--format", "junit").stdout)
    assert [*faults(found)] == []
    assert len([*found.iter("testcase")]) > 1


def test_jenkins_takes_the_names_and_texts_of_others(gradcli: Gradcli) -> None:
    fail = gradcli("check", "sum(x**2)", "x=[1, 2]", "--grad", "-2*x", *QUICK, "--json").json
    rows = [replace(row_of_document(HOSTILE, HOSTILE, fail, 1234.56789), known=known) for known in (False, True)]
    report = suite(
        *rows, error_row("lost", "a.py:f", BadTarget(HOSTILE)),
        not_reached=(HOSTILE,), stale=(HOSTILE, "old"), renewal=("gradcli", "check", "--baseline", "<&>", "--update-baseline"),
    )  # fmt: skip
    found = ET.fromstring(render_as_text("junit", report))
    assert [*faults(found)] == []
    assert [[child.tag for child in case] for case in found[0]] == [
        ["properties", "failure"], ["properties", "skipped"], ["error"], ["skipped"], ["error"], ["error"],
    ]  # fmt: skip
    assert found[0][0].get("time") == "1234.568"


def test_the_checker_sees_what_jenkins_refuses() -> None:
    bad = """<testsuites><testsuite name="a" tests="1" failures="0" errors="1" time="1.2345"><testcase file="a">
    <skipped/></testcase><other/></testsuite></testsuites>"""
    assert [*faults(ET.fromstring(bad))] == [
        "1.2345 is no time", "testcase has ['file']", "testsuite has a other", "there is no other",
        "the counts are not {'tests': 1, 'failures': 0, 'errors': 0}",
    ]  # fmt: skip


def test_what_repeats_a_check_is_in_its_properties(gradcli: Gradcli) -> None:
    stdout = gradcli("check", "x**2", "x*y", "x=1", "y=2", "--seed", "3", *QUICK, "--format", "junit").stdout
    first, second = (
        {found.get("name"): str(found.get("value")) for found in case.iter("property")}
        for case in ET.fromstring(stdout).iter("testcase")
    )
    assert first["seed"] == "3" and re.fullmatch(r"gradcli check 'x\*\*2' .*--seed 3", first["replay"])
    assert "gradcli check 'x*y'" in second["replay"]


def test_a_job_that_fails_by_the_baseline_says_so(gradcli: Gradcli) -> None:
    passed = row_of_document("mse", "x**2", gradcli("check", "x**2", "x=1", *QUICK, "--json").json, 0.1)
    report = suite(passed, stale=("mse", "old"), renewal=("gradcli", "check", "--baseline", "a b", "--update-baseline"))
    said = {
        "mse": "the baseline lists a failure that is no longer there",
        "old": "the baseline lists it, and it is no check of this suite",
    }
    command = "gradcli check --baseline 'a b' --update-baseline"
    cases = ET.fromstring(render_as_text("junit", report)).findall("testsuite/testcase[@classname='gradcli.baseline']")
    assert {case.get("name"): case[0].text for case in cases} == {
        name: f"{name}: {why}\nWrite the baseline anew:\n{command}" for name, why in said.items()
    }
    assert render_as_text("github", report).splitlines() == [
        f"::error title=gradcli%3A {name}::{name}: {why}; write the baseline anew: {command}"
        for name, why in said.items()
    ]
