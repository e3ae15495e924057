"""Reports in notebooks: every form of every report, small, without scripts and styles to depend on; in rich; on one line."""

import dataclasses
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import gradcli
from gradcli.report.blocks import (
    Chart,
    Code,
    Heading,
    Headline,
    HeatMap,
    Mathematics,
    Paragraph,
    Piece,
    Series,
    Table,
    Verbatim,
    plain_text,
)
from gradcli.report.common import Printed, Target
from gradcli.report.derive import Lecture
from gradcli.report.drawing import chart
from gradcli.report.drawing.graph import draw_graph
from gradcli.report.encode import encode
from gradcli.report.forms import enable_report_display, notebook
from gradcli.report.suite import SuiteReport, count_verdicts, row_of_document
from tests.rows import for_rows

QUICK = "certified,reverse,finite-difference"
SAID = "[red]x[/red] </script><b>&amp; 50% a:b,c | `q` $y$ \"z\" 'w' \\ ]]> <!-- --> </style></title></div>"
HIDDEN = "\x1b[31m\x07\x00\u202e\u2066\x9b"
NASTY = SAID + HIDDEN
MATH = "{http://www.w3.org/1998/Math/MathML}"
SVG = "{http://www.w3.org/2000/svg}"
TAGS = {*"div h1 h2 p strong span pre code table caption thead tbody tr th td".split()}  # noqa: SIM905
DRAWN = {f"{SVG}{tag}" for tag in ("svg", "g", "path", "rect", "text", "circle")}
POINT = {"x": 0.5, "y": 1.2}
SIZES = {"W": "m n", "x": "n", "y": "m"}

enable_report_display()


def wrong(x: Any) -> Any:
    return np.cos(x) + 1


def suite() -> SuiteReport:
    reports = [gradcli.check("sin(x)", {"x": 1.0}, modes=QUICK), REPORTS["fail"]()]
    rows = tuple(row_of_document(f"c{k}", r.target.text, encode(r), 0.1) for k, r in enumerate(reports))
    return SuiteReport(
        ("gradcli", "check"), 0, None, None, None, ("c0", "c1"), "", count_verdicts(rows), 1, 0.2, rows, {"numpy": "2"}
    )


def lecture() -> Lecture:
    at = {"w": np.array([1.0, -1.0]), "x": np.array([0.5, 2.0])}
    return Lecture(gradcli.derive("w@tanh(x)", at=at), gradcli.trace("w@tanh(x)", at), gradcli.check("w@tanh(x)", at))


REPORTS: dict[str, Callable[[], Any]] = {
    "check": lambda: gradcli.check("sin(x*y)", POINT, modes=QUICK),
    "fail": lambda: gradcli.check(np.sin, 0.5, grad=wrong, modes=QUICK),
    "small": lambda: gradcli.check("sum(W*W)", {"W": np.eye(2) - 3}, grad="[[-4, -6], [-6, -5]]", modes=QUICK),
    "large": lambda: gradcli.check("sum(x*x)", {"x": np.arange(-4.0, 4.0)}, grad="-x", modes=QUICK),
    "inconclusive": lambda: gradcli.check("abs(x)", {"x": 0.0}, modes=QUICK),
    "trace": lambda: gradcli.trace("v = x*y; v + x", POINT),
    "sweep": lambda: gradcli.sweep("sin(x*y)", POINT, grad="x=y*cos(x*y), y=x*cos(x*y)", schemes="forward,central"),
    "compare-modes": lambda: gradcli.compare_modes("sum(tanh(W@x)**2)", "W=randn(3,4), x=randn(4)", modes=QUICK),
    "cost": lambda: gradcli.cost("sum(tanh(W@x)**2)", "W=randn(3,4), x=randn(4)", wrt="W"),
    "derive": lambda: gradcli.derive("sum((W@x - y)**2)", SIZES),
    "suite": suite,
    "lecture": lecture,
}
made = cache(lambda name: REPORTS[name]())
EVERY = pytest.mark.parametrize("name", REPORTS)


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)


def words(html: str) -> str:
    """Return the text of HTML as one sees it when every style is taken away."""
    return " ".join("".join(parsed(html).itertext()).split())


def test_every_kind_of_report_is_tried() -> None:
    tried = {type(made(name)).__name__ for name in REPORTS}  # first: it loads all of them
    assert tried == {kind.__name__ for kind in Printed.__subclasses__() if kind.__module__.startswith("gradcli.")}


@EVERY
def test_a_report_has_the_forms_of_a_notebook(name: str) -> None:
    bundle = made(name)._repr_mimebundle_()
    latex = {"text/latex"} if name in ("derive", "lecture") else set()
    assert set(bundle) == {"text/plain", "text/html", "text/markdown"} | latex
    assert max(map(len, bundle["text/plain"].split("\n"))) <= 130  # only code is wider than the page
    assert "\x1b" not in bundle["text/plain"] and not bundle["text/plain"].endswith("\n")
    assert len(bundle["text/html"].encode()) < notebook.MOST_BYTES


@EVERY
def test_forms_can_be_asked_for_and_left_out(name: str) -> None:
    report = made(name)
    assert set(report._repr_mimebundle_(include=["text/html", "image/png"])) == {"text/html"}
    assert "text/html" not in report._repr_mimebundle_(exclude={"text/html"})


@EVERY
def test_html_needs_no_script_no_style_sheet_and_no_class(name: str) -> None:
    found = parsed(made(name)._repr_mimebundle_()["text/html"])
    for element in found.iter():
        assert element.tag in TAGS | DRAWN or element.tag.startswith(MATH)
        assert not set(element.attrib) & {"id", "href", "src"} and not any(a.startswith("on") for a in element.attrib)
        assert "class" not in element.attrib and "url" not in "".join(element.attrib.values())


@EVERY
def test_without_its_styles_html_says_what_the_text_says(name: str) -> None:
    """Every word of the text is in the HTML; formulas are MathML there, and charts have other characters."""
    bundle = made(name)._repr_mimebundle_()
    html = words(bundle["text/html"])
    for block in made(name).blocks():
        if isinstance(block, Headline):
            assert f"{block.word} {plain_text(block.sentence)}" in html
        elif isinstance(block, Table):
            for cell in (plain_text(c) for row in block.rows for c in row if isinstance(c, str | Verbatim)):
                assert " ".join(cell.split()) in html


def luminance(color: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(text: str) -> tuple[float, ...]:
    return tuple(int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))


@for_rows(("words", "behind"), [("#000000", "#ffffff"), ("#1f2328", "#ffffff"), ("#e6edf3", "#0d1117"), ("#d4d4d4", "#1e1e1e"), ("#ffffff", "#111111")])  # fmt: skip
@for_rows("tone", ["good", "bad", "unsure"])
def test_tones_can_be_read_on_light_and_on_dark(tone: str, words: str, behind: str) -> None:
    found = re.fullmatch(r"color:color-mix\(in srgb,currentColor (\d+)%,(#[0-9a-f]{6})\)", notebook._STYLES[tone])
    assert found is not None
    share = int(found[1]) / 100
    mixed = tuple(share * a + (1 - share) * b for a, b in zip(rgb(words), rgb(found[2]), strict=True))
    high, low = sorted((luminance(mixed), luminance(rgb(behind))), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_no_colour_is_fixed() -> None:
    fixed = {look for look, style in notebook._STYLES.items() if re.search("background|color:(?!color-mix)", style)}
    assert fixed == set()


@dataclass(frozen=True)
class Blocks(Printed):
    """A report made of given blocks."""

    shown: tuple[Any, ...]

    def blocks(self) -> tuple[Any, ...]:
        return self.shown


HOSTILE = [
    Heading(NASTY), Headline("FAIL", "bad", NASTY), Paragraph((Piece(NASTY, "good"), Piece("b"))), Code(NASTY),
    Table(("a", NASTY), ((NASTY, "1"), (Piece(NASTY, "dim"), "2")), frozenset({1}), NASTY), Table(("", ""), ((NASTY, "c"),)),
]  # fmt: skip


@for_rows("block", HOSTILE)
def test_no_text_acts(block: Any) -> None:
    bundle = Blocks((block,))._repr_mimebundle_()
    found = parsed(bundle["text/html"])
    assert SAID in "".join(found.itertext()) and {element.tag for element in found.iter()} <= TAGS
    assert not any(c in form for form in bundle.values() for c in HIDDEN if c not in "[31m")


def test_a_hostile_target_is_text_on_one_line() -> None:
    report = replace(made("check"), target=Target("python", NASTY + "\nsecond"))
    assert "\n" not in repr(report) and not any(c in repr(report) for c in HIDDEN if c not in "[31m")
    assert {e.tag for e in parsed(report._repr_mimebundle_()["text/html"]).iter()} <= TAGS


@pytest.mark.slow
def test_a_report_that_is_too_large_says_what_is_left_out() -> None:
    """A trace of several thousand nodes: its first rows, and a sentence."""
    report = gradcli.trace(lambda x: sum(np.sin(k * x) for k in range(400)), 2.0)
    bundle = report._repr_mimebundle_()
    assert 20_000 < len(bundle["text/html"].encode()) < notebook.MOST_BYTES
    nodes = len(report.nodes)
    for form in ("text/html", "text/plain"):
        assert re.search(
            rf"\d+ of {nodes:,} rows are shown here. print\(report\) shows all of it, report.page\(\)", bundle[form]
        )
    assert len(str(report)) > 10 * len(bundle["text/plain"])


LONG = "x" * 100_000
MATHML = f'<math xmlns="{MATH[1:-1]}">{"<mi>x</mi>" * 9_000}</math>'
LARGE = [
    Table(("a", "b"), tuple((str(k), "é" * 30) for k in range(20_000)), frozenset({0})),
    Table(("a",), ((LONG,), (LONG,))), Paragraph(LONG), Paragraph((Piece(LONG, "bad"), Piece(LONG))), Code(LONG),
    Table(("", ""), (("f", Mathematics("x" * 9_000, "strong", "x", MATHML)),)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("block", LARGE)
def test_html_is_small_whatever_is_large(block: Any, count: int) -> None:
    bundle = Blocks((Headline("FAIL", "bad", "it is wrong"), *[block] * count))._repr_mimebundle_()
    assert len(bundle["text/html"].encode()) < notebook.MOST_BYTES
    assert "FAIL it is wrong" in words(bundle["text/html"])


def test_a_formula_is_mathml_and_an_equation() -> None:
    bundle = made("derive")._repr_mimebundle_()
    assert [e for e in parsed(bundle["text/html"]).iter() if e.tag == f"{MATH}math"]
    assert bundle["text/latex"].count("$$") == 2 * len(made("derive").results)
    assert (
        r"\frac{\partial f}{\partial x} &= 2 W^{\top}" in bundle["text/latex"]
        and "document" not in bundle["text/latex"]
    )


def test_a_trace_has_its_graph_with_arrowheads() -> None:
    bundle = made("trace")._repr_mimebundle_()
    (graph,) = parsed(bundle["text/html"]).iter(f"{SVG}svg")
    assert {"x", "y", "v", "x*y", "0.5", "1.2", "1.1"} <= {text.text for text in graph.iter(f"{SVG}text")}
    paths = [*graph.iter(f"{SVG}path")]
    edges, heads = (
        [path.get("d", "") for path in paths if (path.get("fill") == "none") == edge] for edge in (True, False)
    )
    assert len(edges) == len(heads) == 4 and all(head.endswith("l-8-4v8z") for head in heads)
    assert "Above each box is its value" not in bundle["text/plain"] + bundle["text/markdown"]


def test_a_chart_has_its_lines_its_marks_and_a_legend() -> None:
    bundle = made("sweep")._repr_mimebundle_()
    first, *_ = drawn = [svg for svg in parsed(bundle["text/html"]).iter(f"{SVG}svg") if svg.get("role") == "img"]
    points = len(made("sweep").curves[0].h)
    marks = [path.get("d", "").count("M") for path in first.iter(f"{SVG}path") if path.get("stroke") == "none"]
    assert len(drawn) == 1 and len(marks) == 2 and 0.8 * points < min(marks) <= max(marks) <= points
    assert "forward" in words(bundle["text/html"]) and "central" in words(bundle["text/html"])
    assert not set(bundle["text/html"]) & set("⠿│─┤┬└") and set(bundle["text/plain"]) & set("⠿│─┤┬└")


def test_a_wrong_gradient_is_beside_the_right_one() -> None:
    small, large = (parsed(made(name)._repr_mimebundle_()["text/html"]) for name in ("small", "large"))
    wrong = [e.text for e in small.iter(f"{MATH}mn") if e.get("mathcolor")]
    assert wrong == ["-5"] and len([*small.iter(f"{MATH}mn")]) == 8
    assert [e.text for e in large.iter("strong")][1:4] == [
        "df/dx, claimed", "df/dx, right", "claim: relative error of the entries of x, the largest ringed",
    ]  # fmt: skip
    assert len([*large.iter(f"{SVG}svg")]) == 3


@pytest.mark.slow
def test_pictures_that_are_too_large_are_left_out_and_it_is_said() -> None:
    inputs = {name: np.sin(np.arange(k, k + 400.0)).reshape(20, 20) for k, name in enumerate("abc")}
    report = gradcli.check("sum(a*a) + sum(b*b) + sum(c*c)", inputs, grad="a=a, b=b, c=c", modes=QUICK)
    html = report._repr_mimebundle_()["text/html"]
    assert len(html.encode()) < notebook.MOST_BYTES and html.count("Pictures are left out here.") == 1
    long = gradcli.trace("sum(x)" + " + sin(x[0])*x[1]*cos(x[0])" * 15, {"x": np.ones(2)})
    bundle = long._repr_mimebundle_()
    assert ("<svg" in bundle["text/html"]) != ("Pictures are left out here." in bundle["text/html"])
    assert "Pictures are left out" not in bundle["text/markdown"] + bundle["text/plain"]


@for_rows("behind", ["#ffffff", "#111111", "#1e1e1e"])
def test_lines_can_be_seen_on_light_and_on_dark(behind: str) -> None:
    for color in (*notebook._LINES, notebook._GREY, notebook._RED):
        if color != "currentColor":
            high, low = sorted((luminance(rgb(color)), luminance(rgb(behind))), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 3


def test_every_look_of_a_picture_is_an_attribute() -> None:
    """The others are names of pictures, of lines that a page switches, and words with the colour of the text around."""
    lines = Chart("", "", "", tuple(Series(f"{k}", ((1.0, 1.0),), style="ab"[k % 2]) for k in range(7)))
    maps = (HeatMap("", "", [[-1.0, 0.0, 2.0, np.nan]], ((0, 0),)), HeatMap("", "", np.linspace(-1, 0, 9)[None, :]))
    pictures = chart.draw_chart(lines) + "".join(map(chart.draw_heat_map, maps)) + draw_graph(made("trace")).svg
    found = {look for looks in re.findall('class="([^"]*)"', pictures) for look in looks.split()}
    known = {look for looks in notebook._ATTRIBUTES for look in looks.split()}
    assert {look for look in found - known if not re.fullmatch(r"n\d", look)} == {
        "chart",
        "heat",
        "graph",
        "y0",
        "v",
        "a",
        "t",
    }


GISTS = {
    "check": "<CheckReport PASS: sin(x*y): gradcli's own gradient is right to better than ",
    "fail": "<CheckReport FAIL: sin: the claimed gradient is wrong in 1 of 1 entry>",
    "small": "<CheckReport FAIL: sum(W*W): the claimed gradient is wrong in 1 of 4 entries>",
    "large": "<CheckReport FAIL: sum(x*x): the claimed gradient is wrong in ",
    "inconclusive": "<CheckReport INCONCLUSIVE: abs(x): ",
    "trace": "<TraceReport v = x*y; v + x: 4 nodes, result = 1.1>",
    "sweep": "<SweepReport PASS: sin(x*y): at best 1",
    "compare-modes": "<CompareReport sum(tanh(W@x)**2): 3 modes, 1",
    "cost": "<CostReport sum(tanh(W@x)**2): 12 entries, 28 B kept>",
    "derive": "<DeriveReport sum((W@x - y)**2): gradient by W, x, y>",
    "suite": "<SuiteReport 1 passed, 1 failed in ",
    "lecture": "<Lecture PASS: w@tanh(x): ",
}


@EVERY
def test_repr_is_one_line(name: str) -> None:
    said = repr(made(name))
    assert said.startswith(GISTS[name]) and said.endswith(">") and "\n" not in said and len(said) < 200
    assert repr([made(name)]) == f"[{said}]"


def test_parts_of_reports_keep_their_repr() -> None:
    assert repr(made("check").target) == "Target(kind='expression', text='sin(x*y)')"


def test_a_repr_is_cut() -> None:
    report = replace(
        made("derive"), shapes={}, results=tuple(replace(r, wrt="w" * 400) for r in made("derive").results)
    )
    assert len(repr(report)) < 200 and repr(report).endswith("…>")


def console(width: int, color: bool) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=color, color_system="standard" if color else None)


@EVERY
def test_rich_shows_a_report_in_colour(name: str) -> None:
    colored, plain = console(100, True), console(100, False)
    colored.print(made(name))
    plain.print(made(name))
    assert isinstance(colored.file, io.StringIO) and isinstance(plain.file, io.StringIO)
    assert "\x1b[" in colored.file.getvalue()
    shown, text = plain.file.getvalue().split(), made(name)._repr_mimebundle_()["text/plain"].split()
    chart = any(set(word) & set("⠿│─┤┬└") for word in text)
    assert chart or shown == text


def test_rich_wraps_within_its_console() -> None:
    narrow = console(50, False)
    narrow.print(made("fail"))
    assert isinstance(narrow.file, io.StringIO)
    assert max(map(len, narrow.file.getvalue().split("\n"))) <= 50
    assert narrow.file.getvalue().startswith("FAIL  sin: the claimed gradient is wrong")


def test_text_in_a_report_is_no_markup_to_rich() -> None:
    shown = console(200, False)
    shown.print(Blocks((Paragraph("[red]x[/red] :smile:"),)))
    assert isinstance(shown.file, io.StringIO) and "[red]x[/red] :smile:" in shown.file.getvalue()


def test_reports_are_equal_as_before() -> None:
    assert dataclasses.replace(made("trace")) == made("trace")
