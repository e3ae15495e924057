"""Reports as an HTML page: well formed, without scripts or requests, whatever the names in it."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as gradcli_package
from gradcli.report.blocks import Code, Heading, Headline, Mathematics, Paragraph, Piece, Table
from gradcli.report.forms import render_as_text
from tests.rows import for_rows

SAID = "[red]x[/red] </script><b>&amp; 50% a:b,c | `q` $y$ \"z\" 'w' \\ ]]> <!-- --> </style></title>"
HIDDEN = "\x1b[31m\x07\x00\u202e\u2066\x9b"
MATH = "{http://www.w3.org/1998/Math/MathML}math"


@dataclass(frozen=True)
class Page:
    """A report made of given blocks."""

    shown: tuple[Any, ...]

    def blocks(self) -> tuple[Any, ...]:
        return self.shown


def parsed(page: str) -> ET.Element:
    """Return a page as XML, without its script, in which signs are themselves."""
    return ET.fromstring(re.sub(r"<script>.*?</script>", "", page.removeprefix("<!doctype html>\n"), flags=re.DOTALL))


class Elements(HTMLParser):
    """The elements of a piece of HTML with their attributes, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


NASTY = SAID + HIDDEN
BLOCKS = [
    Heading(NASTY), Headline("FAIL", "bad", NASTY), Paragraph((Piece(NASTY, "good"), Piece("b"))), Code(NASTY),
    Table(("a", NASTY), ((NASTY, "1"), (Piece(NASTY, "dim"), "2")), frozenset({1}), NASTY), Table(("", ""), ((NASTY, "c"),)),
]  # fmt: skip


@for_rows("block", BLOCKS)
def test_no_text_acts_in_a_page(block: Any) -> None:
    page = render_as_text("html", Page((block,)))
    found = parsed(page)
    assert SAID in "".join(found.itertext())
    assert not any(c in page for c in HIDDEN if c not in "[31m")
    tags = {element.tag for element in found.iter()}
    assert tags <= {*"html head meta title style body main h1 h2 p strong span pre code div table caption thead tbody tr th td".split()}  # noqa: SIM905  # fmt: skip


def test_a_formula_is_an_element_of_its_own() -> None:
    math = f'<math xmlns="{MATH[1:].partition("}")[0]}"><mi>x</mi></math>'
    page = render_as_text("html", Page((Table(("", ""), (("f", Mathematics("x", "strong", "x", math)),)),)))
    assert [element.tag for element in parsed(page).iter() if element.tag == MATH]


@pytest.mark.parametrize("columns", [("", "a"), ("", "")])
def test_no_cell_is_the_head_of_nothing(columns: tuple[str, ...]) -> None:
    found = parsed(render_as_text("html", Page((Table(columns, (("", "b"), ("c", "d"))),))))
    assert all("".join(head.itertext()) for head in found.iter("th"))


@pytest.mark.parametrize("block", BLOCKS[3:])
def test_what_may_be_wider_than_the_page_has_a_name_and_takes_the_focus(block: Any) -> None:
    wide = [
        e for e in parsed(render_as_text("html", Page((block,)))).iter() if e.tag == "pre" or e.get("class") == "wide"
    ]
    assert wide and all(e.get("tabindex") == "0" and e.get("role") and e.get("aria-label") for e in wide)


@for_rows(("f", "options"), [
    ("log(det(S)) + x@inv(S)@x", ("--shapes", "S: n n; x: n")), ("sum(a<b)*x # </script>", ("--shapes", "a: n; b: n")),
    ("sum(W**3)", ("--shapes", "W: m n", "--order", "2")), ("softmax(z)", ("--shapes", "z: n")), ("max(x)", ("--shapes", "x: n")),
    ("norm(W@x)", ("--at", "W=randn(2,3), x=randn(3)")),
], parts=2)  # fmt: skip
def test_derivations_are_pages(gradcli: Callable[..., Any], f: str, options: tuple[str, ...]) -> None:
    page = gradcli("derive", f, *options, "--format", "html").stdout
    found = parsed(page)
    assert [e for e in found.iter() if e.tag == MATH] and "default-src 'none'" in page
    assert not re.search(r"<script|\son\w+=|javascript:|@import|url\((?!#arrow\))", page)
    assert set(re.findall(r"https?://[^\"<]*", page)) <= {"http://www.w3.org/1998/Math/MathML"}


def test_beside_an_answer_the_derivation_is_folded(gradcli: Callable[..., Any]) -> None:
    page = gradcli("derive", "sum(x**2)", "--shapes", "x: n", "--answer", "x", "--format", "html").stdout
    before, folded = page.split("<details><summary><h2>The derivation, the result and its code</h2></summary>")
    assert "power rule" not in before and "power rule" in folded and "--show" not in page


@pytest.mark.parametrize("ending", ["html", "md", "tex"])
def test_a_document_at_a_point_is_a_lecture(gradcli: Callable[..., Any], tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"lecture.{ending}"
    ran = gradcli("derive", "w@tanh(W@x)", "--at", "w=[1, -1], W=[[1, 2], [0, 1]], x=[0.5, -1]", "--out", str(file))
    text = file.read_text(encoding="utf-8")
    assert ran.exit_status == 0 and "adjoint" not in ran.stdout
    tables = ("local partials", "dL/dx") if ending != "html" else ("steps of the computation", "dL/dresult")
    for part in ("Forward and backward at the point", "Check", "PASS", "certified", *tables):
        assert part in text
    assert {"html": "<math", "md": r"\tanh\left(W \, x\right)$", "tex": r"\begin{aligned}"}[ending] in text


def test_without_a_point_a_document_has_the_derivation_alone(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    gradcli("derive", "sum(x**2)", "--shapes", "x: n", "--out", str(file))
    assert "adjoint" not in file.read_text(encoding="utf-8")


def test_a_lecture_may_assume(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "lecture.html"
    argv = (
        "derive",
        "-sum(y*log(softmax(z)))",
        "--at",
        "z=[1, 2, 3], y=[0, 0, 1]",
        "--assume",
        "y: simplex",
        "--wrt",
        "z",
    )
    assert gradcli(*argv, "--out", str(file)).exit_status == 0
    assert "PASS" in file.read_text(encoding="utf-8")


def test_python_gets_a_page(tmp_path: Path) -> None:
    page = gradcli_package.check("x**2*sin(y)", {"x": 1.5, "y": 0.7}, grad="x=2*x*sin(y), y=x**2*sin(y)").page()
    file = page.save(tmp_path / "page.html")
    assert file.read_text(encoding="utf-8") == str(page) and "first wrong" not in str(page)
    frame = Elements()
    frame.feed(page._repr_html_())
    assert frame.found == [("iframe", {**frame.found[0][1], "srcdoc": str(page), "sandbox": "allow-scripts"})]
    assert repr(page) == "HtmlPage()"


@for_rows("report", [
    lambda: gradcli_package.trace("x*y", {"x": 1.0, "y": 2.0}), lambda: gradcli_package.sweep("sin(x)", {"x": 1.0}),
    lambda: gradcli_package.compare_modes("sin(x)", {"x": 1.0}, modes="certified,reverse"),
    lambda: gradcli_package.derive("sum(x**2)", {"x": "n"}),
    lambda: gradcli_package.check(lambda x: float(np.sum(x)) ** 2, np.ones(2)),
])  # fmt: skip
def test_every_report_is_a_page_that_is_well_formed(report: Callable[[], Any]) -> None:
    page = str(report().page())
    found = parsed(page)
    ids = [element.get("id") for element in found.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def nodes_of(page: str) -> dict[str, Any]:
    """Return the data of the boxes of the whole computation, by their names."""
    data = json.loads(next(e.text or "" for e in parsed(page).iter("script") if e.get("type") == "application/json"))
    return {node["n"]: node for node in data["levels"][0]["nodes"]}


@for_rows(("f", "at", "forward", "backward"), [
    ("y = A@B; sum(y*y)", "A=[[1,3],[2,0]], B=[[1,2],[0,4]]",
     {"y": ["A", "[[1, 3], [2, 0]]", "B", "[[1, 2], [0, 4]]", "[[1, 14], [2, 4]]", 2]},
     {"A": ["(dL/dy)", "[[2, 28], [4, 8]]", "Bᵀ", "[[1, 0], [2, 4]]", "[[58, 112], [20, 32]]", 2],
      "B": ["Aᵀ", "[[1, 2], [3, 0]]", "(dL/dy)", "[[2, 28], [4, 8]]", "[[10, 44], [6, 84]]", 2]}),
    ("y = W@x; sum(y)", "W=[[1,3],[2,0]], x=[1,2]", {"y": ["W", "[[1, 3], [2, 0]]", "x", "[[1], [2]]", "[[7], [2]]", 1]},
     {"W": ["(dL/dy)", "[[1], [1]]", "xᵀ", "[[1, 2]]", "[[1, 2], [1, 2]]", 2],
      "x": ["Wᵀ", "[[1, 2], [3, 0]]", "(dL/dy)", "[[1], [1]]", "[[3], [3]]", 1]}),
    ("y = w@W; sum(y)", "W=[[1,3],[2,0]], w=[1,2]", {"y": ["wᵀ", "[[1, 2]]", "W", "[[1, 3], [2, 0]]", "[[5, 3]]", 1]},
     {"w": ["W", "[[1, 3], [2, 0]]", "(dL/dy)", "[[1], [1]]", "[[4], [2]]", 1],
      "W": ["w", "[[1], [2]]", "(dL/dy)ᵀ", "[[1, 1]]", "[[1, 1], [2, 2]]", 2]}),
    ("y = A@A; sum(y)", "A=[[1,3],[2,0]]", {"y": ["A", "[[1, 3], [2, 0]]", "A", "[[1, 3], [2, 0]]", "[[7, 3], [2, 6]]", 2]},
     {"A": ["(dL/dy)", "[[1, 1], [1, 1]]", "Aᵀ", "[[1, 2], [3, 0]]", "[[4, 2], [4, 2]]", 2]}),
    ("y = A@B; sum(y)", "A=ones(2,5), B=ones(5,2)", {}, {}), ("y = A@B; sum(y)", "A=ones(5,2), B=ones(2,2)", {}, {}),
    ("y = A*B; sum(y)", "A=ones(2,2), B=ones(2,2)", {}, {}), ("y = [[1,2],[3,4]]@A; sum(y)", "A=ones(2,2)", {}, {}),
    ("y = A@B; sum(y)", "A=ones(2,2,2), B=ones(2,2)", {}, {}), ("x@w", "x=[1,2], w=[3,4]", {}, {}),
])  # fmt: skip
def test_products_of_small_matrices_are_in_a_page_with_their_operands(
    gradcli: Callable[..., Any], f: str, at: str, forward: dict[str, Any], backward: dict[str, Any]
) -> None:
    nodes = nodes_of(gradcli("trace", f, "--at", at, "--format", "html").stdout)
    assert {name: node["x"] for name, node in nodes.items() if "x" in node} == forward
    assert {name: node["t"][0][5] for name, node in nodes.items() if [len(t) for t in node.get("t", ())][:1] == [6]
            and isinstance(node["t"][0][5], list)} == backward  # fmt: skip


def test_maps_of_an_adjoint_and_of_the_claimed_one_have_one_scale(gradcli: Callable[..., Any]) -> None:
    page = gradcli("check", "sum(x**2)", "--grad", "-x", "--at", "x=[1, 2, 3, 4, 5, 6, 7]", "--format", "html").stdout
    value, right, claimed = nodes_of(page)["x"]["s"]
    assert value == [1, 7, "1235678", "0", "7", "012345678"]
    assert right == [1, 7, "2246688", "-14", "14", "igec02468"] and claimed == [1, 7, "0ccceee", *right[3:]]


@for_rows("at", ["x=[1,2,3,4,5,6,inf]", "x=[nan,1,2,3,4,5,6,7]", "x=[1e308,-1.7e308,0,1,2,3,4,5]", "x=[]"])
def test_values_that_are_not_finite_have_pages(gradcli: Callable[..., Any], at: str) -> None:
    page = gradcli("trace", "sum(x*x)", "--at", at, "--format", "html")
    assert page.exit_status == 0 and parsed(page.stdout) is not None


def test_a_check_at_an_infinite_slope_has_a_page(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    argv = ("check", "sum(log(x))", "--grad", "2/x", "--at", "x=[1,2,3,0,5,6,7,8]")
    assert gradcli(*argv, "--out", str(tmp_path / "page.html")).exit_status == gradcli(*argv).exit_status


def test_shards_are_merged_into_a_page(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gradcli.toml").write_text(
        "".join(f'[[check]]\nid = "{name}"\ntarget = "sin(x)"\nat = ["x=1"]\n' for name in "abcd")
    )
    monkeypatch.chdir(tmp_path)
    for k in (1, 2):
        gradcli("check", "--shard", f"{k}/2", "--out", f"{k}.json")
    page = gradcli("merge", "1.json", "2.json", "--format", "html")
    links = [e.get("href") for e in parsed(page.stdout).iter("a")]
    assert page.exit_status == 0 and [f"#check-{k}" for k in (1, 2, 3, 4)] == [a for a in links if a != "#checks"]


def test_a_page_of_an_empty_jacobian(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(
        "compare-modes", "sum(x**2)", "--at", "x=zeros(0,3)", "--format", "html", "--modes", "certified,reverse"
    )
    assert ran.exit_status in (0, 3) and parsed(ran.stdout) is not None


def test_long_targets_have_short_titles(gradcli: Callable[..., Any]) -> None:
    page = parsed(gradcli("trace", " + ".join(["x"] * 300), "x=1", "--format", "html").stdout)
    title = page.find("head/title")
    assert title is not None and len(title.text or "") <= 80
