"""Reports for people: the verdict first, within the width, colour only where it is wanted, nothing taken for markup."""

import io
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.cli import output
from gradcli.cli.main import run
from gradcli.cli.world import World
from gradcli.errors import BadExpression, Span
from gradcli.report.blocks import Table
from gradcli.report.common import error_detail
from gradcli.report.forms import Page, error_as_text, render_as_text
from gradcli.report.forms.text import blocks_as_text
from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
ANSI = re.compile("\x1b\\[")
SAID = "[red]x[/red] </script> :smile: 'q' \"r\" \\"
HIDDEN = "\x1b[31m\u202e\u2066\x07\x9b\r"

# fmt: off
REPORTS = {
    "pass":          ("check", "sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2", *QUICK),
    "fail":          ("check", "sin(x*y)", "x=0.5", "y=1.2", "--grad", "x=y*cos(x*y), y=2*x*cos(x*y)", *QUICK),
    "many wrong":    ("check", "sum(W**3)", "W=randn(4,5)", "--grad", "W**2", *QUICK),
    "wrong shape":   ("check", "sum(x**2)", "x=[1,2]", "--grad", "3", *QUICK),
    "kink":          ("check", "abs(x)", "x=0", *QUICK),
    "not finite":    ("check", "log(x)", "x=0", *QUICK),
    "drawn":         ("check", "x_with_a_long_name_1*x_with_a_long_name_2", *QUICK),
    "vector":        ("check", "[x*y, x]", "x=1", "y=2", *QUICK),
    "long target":   ("check", " + ".join(f"sin({k}*x)" for k in range(40)), "x=1", "--modes", "fwd,fd"),
    "compare-modes": ("compare-modes", "sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2", *QUICK),
    "compare array": ("compare-modes", "sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4", *QUICK),
    "trace":         ("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4"),
    "trace arrays":  ("trace", "sum(tanh(W@x)**2)", "--shapes", "W: 3 4; x: 4"),
    "modes":         ("modes",),
    "ops":           ("ops", "arctan2"),
}
# fmt: on
WORDS = {"pass": "PASS", "fail": "FAIL", "many wrong": "FAIL", "wrong shape": "FAIL", "kink": "INCONCLUSIVE"}


def report_of(gradcli: Callable[..., Any], case: str) -> Any:
    """Return the report a command would have rendered."""
    caught: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradcli.cli.check.write_report", lambda report, *_, **__: caught.append(report))
        patch.setattr(output, "render_as_text", lambda form, report, page=None: caught.append(report) or "")
        gradcli(*REPORTS[case])
    return caught[0]


def fitting(text: str) -> list[str]:
    """Return the lines that must fit: all but a command to be copied, which is never wrapped."""
    return [line for line in text.split("\n") if not line.startswith("  gradcli ")]


@for_rows("case", REPORTS)
def test_no_line_is_wider_than_the_page(gradcli: Callable[..., Any], case: str) -> None:
    report = report_of(gradcli, case)
    for width in (80, 60):
        assert max(map(len, fitting(render_as_text("text", report, Page(width))))) <= width


@for_rows("case", REPORTS)
def test_a_narrow_page_loses_no_character(gradcli: Callable[..., Any], case: str) -> None:
    report = report_of(gradcli, case)
    whole = Counter("".join(render_as_text("text", report, Page(400)).split()))
    for width in (120, 80):  # a table in parts says its first column again
        assert not whole - Counter("".join(render_as_text("text", report, Page(width)).split()))


@for_rows("case", REPORTS)
def test_colour_changes_no_character(gradcli: Callable[..., Any], case: str) -> None:
    report = report_of(gradcli, case)
    plain, coloured = (render_as_text("text", report, Page(80, color)) for color in (False, True))
    stripped = re.sub("\x1b\\[[0-9;]*m", "", coloured)
    assert not ANSI.search(plain)
    assert [line.rstrip() for line in stripped.split("\n")] == plain.split("\n")


@for_rows("case", REPORTS)
def test_an_ascii_page_gets_ascii(gradcli: Callable[..., Any], case: str) -> None:
    assert render_as_text("text", report_of(gradcli, case), Page(80, False, "ascii")).isascii()


@for_rows(("case", "word"), WORDS.items())
def test_the_verdict_is_the_first_word(gradcli: Callable[..., Any], case: str, word: str) -> None:
    assert gradcli(*REPORTS[case]).stdout.split()[0] == word


@pytest.mark.parametrize("columns", ["80", "60", "40"])
def test_the_width_of_the_terminal_is_kept(gradcli: Callable[..., Any], columns: str) -> None:
    stdout = gradcli(*REPORTS["pass"], environ={"COLUMNS": columns}).stdout
    assert max(map(len, fitting(stdout))) <= int(columns)


# fmt: off
COLOURS = [
    ((),              {},                                       False),
    ((),              {"FORCE_COLOR": "1"},                     True),
    ((),              {"NO_COLOR": "1"},                        False),
    ((),              {"NO_COLOR": "1", "FORCE_COLOR": "1"},    False),
    ((),              {"NO_COLOR": "", "FORCE_COLOR": "1"},     True),
    (("--color",),    {},                                       True),
    (("--color",),    {"NO_COLOR": "1"},                        True),
    (("--no-color",), {"FORCE_COLOR": "1"},                     False),
]
# fmt: on


@for_rows(("options", "environ", "coloured"), COLOURS)
def test_colour_is_on_only_where_it_is_wanted(
    gradcli: Callable[..., Any], options: tuple, environ: dict[str, str], coloured: bool
) -> None:
    stdout = gradcli(*REPORTS["kink"], *options, environ=environ).stdout
    assert bool(ANSI.search(stdout)) is coloured


@for_rows(("options", "environ", "coloured"), COLOURS)
def test_errors_follow_the_same_rule(
    gradcli: Callable[..., Any], options: tuple, environ: dict[str, str], coloured: bool
) -> None:
    stderr = gradcli("check", "sine(x)", *options, environ=environ).stderr
    assert bool(ANSI.search(stderr)) is coloured


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "coloured"), [("xterm", True), ("dumb", False)])
def test_a_terminal_is_coloured_unless_it_is_dumb(term: str, coloured: bool) -> None:
    world = World(io.StringIO(), Terminal(), io.StringIO(), {"TERM": term})
    run(REPORTS["kink"], world)
    assert bool(ANSI.search(world.stdout.getvalue())) is coloured


def test_colour_goes_by_the_stream_written_to() -> None:
    world = World(io.StringIO(), Terminal(), io.StringIO(), {"TERM": "xterm"})
    run(["check", "sine(x)"], world)
    assert not ANSI.search(world.stderr.getvalue())


@for_rows(("command", "argv"), [("check", QUICK), ("compare-modes", QUICK)])
@for_rows("color", ["--color", "--no-color"])
def test_targets_are_shown_as_they_are_and_drive_nothing(
    gradcli: Callable[..., Any], command: str, argv: tuple, color: str
) -> None:
    stdout = gradcli(command, f"x**2 # {SAID}{HIDDEN}", "x=2", *argv, color, environ={"COLUMNS": "120"}).stdout
    assert SAID in stdout
    assert not any(c in stdout for c in "\u202e\u2066\x07\x9b\r")
    assert "\x1b[31m\n" not in stdout and (color == "--color" or "\x1b" not in stdout)


def test_carets_stand_under_their_place(gradcli: Callable[..., Any]) -> None:
    lines = gradcli("check", "1 + \u202esine(x)\x1b[0m").stderr.split("\n")
    assert not {"\x1b", "\u202e"} & set("".join(lines))
    wanted = gradcli("check", "1 + sine(x) # [red]x[/red]").stderr.split("\n")
    assert wanted[1].index("sine") == wanted[2].index("^^^^")
    assert "[red]x[/red]" in wanted[1]


def test_claims_and_values_are_shown_as_they_are(gradcli: Callable[..., Any]) -> None:
    claim = "x # [red]x[/red]</script>\x1b[31m\u202e"
    stdout = gradcli("check", "x**2", "x=2", "--grad", claim, *QUICK).stdout
    assert "[red]x[/red]</script>" in stdout and not {"\x1b", "\u202e"} & set(stdout)


def test_an_error_has_three_parts() -> None:
    error = BadExpression("what [b]", where=Span("a + [b] + c", 4, 3), do="do [b]")
    assert error_as_text(error_detail(error), Page()) == "error: what [b]\n  a + [b] + c\n      ^^^\n  do [b]\n"


def test_an_error_of_several_lines_points_into_its_line() -> None:
    assert error_as_text(error_detail(BadExpression("w", where=Span("a\n b", 3))), Page()) == "error: w\n   b\n   ^\n"


def test_no_line_ends_in_blanks(gradcli: Callable[..., Any]) -> None:
    stdout = gradcli(*REPORTS["compare-modes"]).stdout
    assert not [line for line in stdout.split("\n") if line != line.rstrip()]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_wide_table_is_shown_in_parts_and_loses_nothing(width: int) -> None:
    columns = ("time, in evaluations of f", *(f"n={k}" for k in range(1, 21)), "grows as")
    rows = (("forward", *(f"{k},000" for k in range(1, 21)), "n^1.00"), ("reverse", *["~7.5"] * 20, "n^0.01"))
    text = blocks_as_text((Table(columns, rows, frozenset(range(1, 22))),), Page(width=width))
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    assert (
        all(words.count(cell) == 1 for cell in (*columns[1:-1], *rows[0][1:], "n^0.01")) and words.count("~7.5") == 20
    )


def as_lines(table: Table, width: int = 80) -> list[str]:
    return blocks_as_text((table,), Page(width=width)).splitlines()


def test_a_table_with_too_wide_a_cell_has_an_entry_after_another() -> None:
    value = "[-0.957938, -0.487229, 0.444645, 0.123456]"
    rows = (
        ("1", "t1 = sin(x) + exp(-x**2)", value, "dt1/dx = 0.82533561   dt1/dy = 0.5"),
        ("2", "t2 = W @ t1", "1.0", ""),
    )
    assert as_lines(Table(("", "forward", "value", "local partials"), rows, frozenset({0}))) == [
        "     forward",
        "  1  t1 = sin(x) + exp(-x**2)",
        f"      value           {value}",
        "      local partials  dt1/dx = 0.82533561   dt1/dy = 0.5",
        "  2  t2 = W @ t1",
        "      value           1.0",
    ]


@pytest.mark.parametrize("width", [33, 20, 12])
def test_a_table_is_shown_where_there_is_no_room_beside_its_first_column(width: int) -> None:
    rows = (("gradient by finite-difference", "3.1", "x = 1e-9"), ("value of f", "4.2", "x = 2"))
    text = blocks_as_text((Table(("", "right digits", "at"), rows),), Page(width))
    assert all(re.sub(r"\s", "", cell) in re.sub(r"\s", "", text) for row in rows for cell in row)


def test_only_what_is_too_wide_stands_below_its_name_in_a_list() -> None:
    formula = "G[i] = sum_j A[j,i]*[sum_k A[j,k]*x[k] == max_k(sum_l A[k,l]*x[l])]"
    rows = (("gradient by x, n", "A.T@(y == max(y))"), ("with indices", formula), ("code", "it was run against values"))
    assert as_lines(Table(("", ""), rows)) == [
        "  gradient by x, n  A.T@(y == max(y))",
        "  with indices",
        f"      {formula}",
        "  code              it was run against values",
    ]


def test_long_names_of_few_rows_are_a_column() -> None:
    names = tuple(f"df/dparams.layers[{k}].W[2,1]" for k in range(4))
    lines = as_lines(Table(("", *names), (("claim", *"1234"), ("certified", *"5678"))))
    assert lines[0].split() == ["claim", "certified"]
    assert [line.split() for line in lines[1:]] == [[name, str(k + 1), str(k + 5)] for k, name in enumerate(names)]


def test_sentences_are_wrapped_between_words_and_formulas_where_three_blanks_are() -> None:
    says = "A reverse sweep in ball arithmetic, until the radius is small, which is (a, b) or so"
    rows = ((says, "dt1/dx = 0.82533561   dt1/dy = 0.5", "1; 2"),)
    lines = as_lines(Table(("how", "partials", "n"), rows), 60)
    assert "dt1/dx = 0.82533561" in lines[1] and "dt1/dy = 0.5" in lines[2] and max(map(len, lines)) <= 60
    assert any("(a, b)" in line for line in lines)


def test_of_many_rows_one_may_be_wrapped() -> None:
    rows = (*((f"f{k}", "cos(x)") for k in range(40)), ("power", "b*a**(b - 1) + log(a)*a**b" * 3))
    lines = as_lines(Table(("primitive", "derivative"), rows), 60)
    assert lines[1] == "  f0         cos(x)" and len(lines) < 45 and max(map(len, lines)) <= 60


NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?(?![\w.])")
PARTIAL = re.compile(r"d\w+/d[\w.\[\],]+ = \S+")


@for_rows("case", REPORTS)
def test_no_number_and_no_partial_derivative_is_broken(gradcli: Callable[..., Any], case: str) -> None:
    report = report_of(gradcli, case)
    wide = render_as_text("text", report, Page(400))
    for width in (80, 120):
        text = render_as_text("text", report, Page(width))
        for what in (NUMBER, PARTIAL):
            assert set(what.findall(wide)) <= set(what.findall(text))
