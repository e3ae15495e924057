"""The forms that other programs show: Markdown, JUnit, GitHub annotations, DOT and Mermaid; each escapes what it is given."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gradcli.report.blocks import Code, Graph, Headline, Paragraph, Table
from gradcli.report.forms import rendered
from gradcli.report.forms.markdown import escaped
from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
SAID = "[red]x[/red] </script><b>&amp; 50% a:b,c | `q` $y$ @me \"z\" 'w' \\ ]]>"
HIDDEN = "\x1b[31m\x07\x00\u202e\u2066\x9b"
NASTY = f"x**2 # {SAID}{HIDDEN}"


@dataclass(frozen=True)
class Page:
    """A report made of given blocks."""

    shown: tuple[Any, ...]

    def blocks(self) -> tuple[Any, ...]:
        return self.shown

    def graph(self) -> Graph:
        return self.shown[0]


def markdown(*blocks: Any) -> str:
    return rendered("markdown", Page(blocks))


def as_markdown_shows(text: str) -> str:
    """Undo backslash escapes, as a Markdown reader does."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


@for_rows("text", [SAID, "# not a heading", "- no list", "1. x", "a_b_c *d* ~e~", "![i](http://h)"])
def test_markdown_shows_text_as_it_is(text: str) -> None:
    assert as_markdown_shows(escaped(text)) == text


@for_rows("sign", [*"`*_[]<>#|~$&@\\!"])
def test_markdown_signs_are_escaped(sign: str) -> None:
    assert escaped(f"a{sign}b") == f"a\\{sign}b"


def test_markdown_paragraphs_are_one_line() -> None:
    assert markdown(Paragraph("a\n\n# b")) == "a  \\# b\n"


def test_markdown_table_cells_stay_in_their_cells() -> None:
    shown = markdown(Table(("a", "b"), (("x|y", "two\nlines"), ("spanning",)), frozenset({1})))
    lines = shown.strip().split("\n")
    assert lines[:2] == ["| a | b |", "| --- | ---: |"]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}


@pytest.mark.parametrize("text", ["plain", "a ``` b", "a\n````\nb"])
def test_markdown_code_cannot_end_its_own_fence(text: str) -> None:
    shown = markdown(Code(text)).strip().split("\n")
    fence = shown[-1]
    assert set(fence) == {"`"} and shown[0] == f"{fence}console"
    assert not any(line.startswith(fence) for line in shown[1:-1])


def test_markdown_begins_with_the_verdict() -> None:
    assert markdown(Headline("FAIL", "bad", "wrong")) == "**FAIL** wrong\n"


def test_markdown_of_a_nasty_target(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("check", NASTY, "x=2", "--grad", "x", *QUICK, "--format", "markdown").stdout
    outside = re.sub(r"^(```+)console$.*?^\1$", "", stdout, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<", outside)
    assert not any(c in stdout for c in "\x1b\x07\x00\u202e\u2066\x9b")
    assert SAID in as_markdown_shows(outside)


JUNIT = [
    (("x**2", "x=3"), 0, 1, 0, 0, None),
    (("x**2", "x=3", "x=4", "--grad", "x"), 1, 2, 2, 0, "failure"),
    (("abs(x)", "x=0", "x=1"), 3, 2, 0, 1, "error"),
]


@pytest.mark.parametrize(("argv", "status", "tests", "failures", "errors", "tag"), JUNIT)
def test_junit_counts_verdicts(
    gradcli: Callable[..., Any], argv: tuple, status: int, tests: int, failures: int, errors: int, tag: str | None
) -> None:
    ran = gradcli("check", *argv, *QUICK, "--format", "junit")
    suite = ET.fromstring(ran.stdout.encode())[0]
    assert ran.exit_status == status
    assert [suite.get(key) for key in ("tests", "failures", "errors")] == [str(tests), str(failures), str(errors)]
    assert len(suite) == tests
    assert [child.tag for case in suite for child in case] == [tag] * (failures + errors)


def test_junit_is_xml_whatever_the_target_holds(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", NASTY + "\ufffe\uffff", "x=2", "--grad", "x", *QUICK, "--format", "junit")
    suite = ET.fromstring(ran.stdout.encode())[0]
    assert SAID in suite[0].get("name")
    assert suite[0][0].get("message").startswith("the claimed gradient is wrong")
    assert not any(c in ran.stdout for c in "\x1b\x00\u202e\ufffe")


def test_junit_failures_say_what_failed_and_where(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=2.5", "--grad", "x", *QUICK, "--format", "junit")
    said = ET.fromstring(ran.stdout.encode())[0][0][0].text
    assert "f = x**2" in said and "x = 2.5" in said and "a factor 2 too small" in said


LEVELS = [
    (("x**2", "x=3"), "::notice "),
    (("x**2", "x=3", "--grad", "x"), "::error "),
    (("abs(x)", "x=0"), "::warning "),
]


@pytest.mark.parametrize(("argv", "begins"), LEVELS)
def test_github_level_follows_the_verdict(gradcli: Callable[..., Any], argv: tuple, begins: str) -> None:
    stdout = gradcli("check", *argv, *QUICK, "--format", "github").stdout
    assert stdout.startswith(begins) and stdout.count("\n") == 1


def test_github_names_the_likely_mistake(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x*y", "x=1", "y=2", "--grad", "x=-y, y=-x", *QUICK, "--format", "github")
    assert "the sign is flipped" in ran.stdout


def test_nothing_in_a_target_is_a_workflow_command(gradcli: Callable[..., Any]) -> None:
    target = "(x**2 # 50%, a:b::error::\n# ::warning file=a::b\r\n)"
    stdout = gradcli("check", target, "x=2", *QUICK, "--format", "github").stdout
    command, properties, data = re.fullmatch(r"::(\w+) (.*?)::(.*)\n", stdout).groups()
    assert command == "notice"
    assert "50%25%2C a%3Ab%3A%3Aerror" in properties and "%0A" in properties
    assert ":" not in properties and "," not in properties
    assert "\r" not in stdout and "\n" not in data


LABELS = [
    'a"];evil[label="b',
    "back\\slash\\",
    "line\nbreak",
    "</script><b>",
    "[red]x[/red]",
    "semi;colon#1 %% --> | {x} (y)",
    "\x1b\u202e",
]


def graph(label: str) -> Page:
    return Page((Graph((("0", label), ("1", "plain")), (("0", "1", label),)),))


@for_rows("label", LABELS)
def test_mermaid_labels_are_one_quoted_string(label: str) -> None:
    safe = r'"(?:[\w .,=+\-\u2400-\u2421\ufffd]|#\d+;|<br/>)*"'
    lines = rendered("mermaid", graph(label)).strip().split("\n")
    assert re.fullmatch(rf"  n0\[{safe}\]", lines[1])
    assert re.fullmatch(rf"  n0 -->\|{safe}\| n1", lines[3])
    assert len(lines) == 4


def test_mermaid_entities_name_the_characters() -> None:
    assert 'n0["a#34;#60;b#62;#35;"]' in rendered("mermaid", graph('a"<b>#'))


TRACE = ("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4")


def test_mermaid_has_a_node_and_an_edge_per_line(gradcli: Callable[..., Any]) -> None:
    lines = gradcli(*TRACE, "--format", "mermaid").stdout.strip().split("\n")
    assert lines[0] == "flowchart LR"
    assert [line.strip()[:2] for line in lines if re.match(r"  n\d+\[", line)] == ["n0", "n1", "n2", "n3"]
    assert sum("-->" in line for line in lines) == 4
    assert '  n0 -->|"7"| n3' in lines


def test_names_in_a_graph_may_be_any_identifier(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("trace", "α = x**2; α*2", "x=1", "--format", "mermaid").stdout
    assert '["α<br/>' in stdout
