"""The forms that other programs show: Markdown, JUnit, GitHub annotations, DOT and Mermaid; each escapes what it is given."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gradcli.report.blocks import Code, Graph, Heading, Headline, Paragraph, Piece, Table, Verbatim
from gradcli.report.forms import render_as_text
from gradcli.report.forms.markdown import escape_markdown
from gradcli.report.suite import CheckedCall, Program, RunReport, UsedGradient, row_of_document
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
    return render_as_text("markdown", Page(blocks))


def as_markdown_shows(text: str) -> str:
    """Undo backslash escapes, as a Markdown reader does."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


@for_rows("text", [SAID, "# not a heading", "- no list", "1. x", "a_b_c *d* ~e~", "![i](http://h)"])
def test_markdown_shows_text_as_it_is(text: str) -> None:
    assert as_markdown_shows(escape_markdown(text)) == text


@for_rows("sign", [*"`*_[]<>#|~$&@\\!"])
def test_markdown_signs_are_escaped(sign: str) -> None:
    assert escape_markdown(f"a{sign}b") == f"a\\{sign}b"


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


def tokens(text: str) -> Iterator[Token]:
    """Yield what a reader of CommonMark with tables takes a text for, also inside of lines."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def shown(text: str) -> str:
    """Return the text that a reader of CommonMark shows."""
    return "".join(
        token.content for token in tokens(text) if token.type in ("text", "code_inline", "fence", "text_special")
    )


ACTIVE = {
    "html_block",
    "html_inline",
    "link_open",
    "image",
    "bullet_list_open",
    "ordered_list_open",
    "blockquote_open",
    "hr",
}
NAMES = [
    SAID,
    "`",
    "``",
    " ` ",
    "a```b",
    "`a",
    "a`",
    "#",
    "- a",
    "1. a",
    "> a",
    "    a",
    "a|b",
    "\\|",
    "\\",
    "![i](http://h)",
    "a\n\n# b",
    "***",
]


@for_rows("name", NAMES)
def test_markdown_has_code_in_spans_that_end_where_it_ends(name: str) -> None:
    blocks = (
        Heading((Verbatim(name), Piece(": FAIL"))), Headline("FAIL", "bad", (Verbatim(name), Piece(f": {name}"))),
        Paragraph((Piece("at "), Verbatim(name))), Paragraph(name), Table(("a", "b"), ((Verbatim(name), Piece(name)),)),
    )  # fmt: skip
    found = [*tokens(markdown(*blocks))]
    assert not ACTIVE & {token.type for token in found}
    kinds = [token.type for token in found if token.type.endswith("_open")]
    assert kinds == [
        "heading_open", "paragraph_open", "strong_open", "paragraph_open", "paragraph_open", "table_open", "thead_open",
        "tr_open", "th_open", "th_open", "tbody_open", "tr_open", "td_open", "td_open",
    ]  # fmt: skip
    one_line = " ".join(name.replace("\n", " ").split(" ")).strip()
    code = [token.content.strip() for token in found if token.type == "code_inline"]
    assert code == [one_line] * (3 if "|" in name else 4)
    assert shown(markdown(Paragraph(name))) == one_line


def test_markdown_of_a_blank_name_is_no_code() -> None:
    assert markdown(Paragraph((Verbatim(" "), Piece("a")))) == "a\n"


def test_markdown_of_a_nasty_target(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("check", NASTY, "x=2", "--grad", "x", *QUICK, "--format", "markdown").stdout
    assert not ACTIVE & {token.type for token in tokens(stdout)}
    assert not any(c in stdout for c in "\x1b\x07\x00\u202e\u2066\x9b")
    assert SAID in shown(stdout)


def test_markdown_has_a_heading_for_each_check_and_code_as_code(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "x**2", "sin(x)", "log(x", "--grad", "2*x", "x=1", *QUICK, "--format", "markdown")
    lines = gradcli(*argv).stdout.splitlines()
    assert lines[0] == "| verdict | check | what was found | time |"
    assert [line for line in lines if line.startswith("#")] == ["## `sin(x)`: FAIL", "## `log(x`: ERROR"]
    assert "**FAIL** `sin(x)`: the claimed gradient is wrong in 1 of 1 entry" in lines
    assert {"`f = sin(x) = 0.8414709848078965`", "`at x = 1.0`", "More: `gradcli explain unknown`"} <= {*lines}
    where = lines.index(
        "**ERROR** `log(x`: " + next(line.partition("`log(x`: ")[2] for line in lines if "**ERROR**" in line)
    )
    assert lines[where + 2 : where + 6] == ["```", "log(x", "   ^", "```"]
    (first, *_) = gradcli("check", "sin(x)", "x=1", "--grad", "2*x", *QUICK, "--format", "markdown").stdout.splitlines()
    assert first == "## `sin(x)`: FAIL"


def test_markdown_of_a_run_has_a_heading_for_each_check(gradcli: Callable[..., Any]) -> None:
    found = gradcli("check", "sin(x)", "x=1", "--grad", "2*x", *QUICK, "--json").json
    call = CheckedCall(3, "fit.py:9", None, False, row_of_document("a", "fit.py:f", found, 0.1))
    used = UsedGradient("f_grad", "fit.py", 4, "jac", "f", 7, 1, "fail", (), (call,))
    report = RunReport(("gradcli", "run", "fit.py"), 0, Program(0), 1, (used,), {})
    lines = render_as_text("markdown", report).splitlines()
    assert lines[0] == "| verdict | defined at | gradient | checked | what was found |"
    assert lines[2] == "| FAIL | `fit.py:4` | `f_grad` | 1 of 7 | 1 of 1 entry wrong |"
    assert lines[4:7] == ["## `f_grad`: FAIL", "", "`fit.py:4`: call 3 of 7, from fit.py:9"]


@pytest.mark.repairs
def test_markdown_has_a_repair_as_a_difference(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli("check", "x**2*y", "x=3", "y=2", "--grad", "x=x*y, y=x**2", *QUICK, "--format", "markdown").stdout
    (fence,) = (token for token in tokens(stdout) if token.type == "fence" and token.info == "diff")
    assert fence.content == "- x=x*y, y=x**2\n+ x=2 * x*y, y=x**2\n"


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
    lines = render_as_text("mermaid", graph(label)).strip().split("\n")
    assert re.fullmatch(rf"  n0\[{safe}\]", lines[1])
    assert re.fullmatch(rf"  n0 -->\|{safe}\| n1", lines[3])
    assert len(lines) == 4


def test_mermaid_entities_name_the_characters() -> None:
    assert 'n0["a#34;#60;b#62;#35;"]' in render_as_text("mermaid", graph('a"<b>#'))


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
