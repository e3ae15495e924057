"""The graph of a computation as SVG: its words, its edges, what is red, and hostile names."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import gradcli
from gradcli.report.drawing.graph import Drawing, brief_value, draw_graph
from tests.report.forms.test_html import SAID
from tests.rows import for_rows

SVG = "{http://www.w3.org/2000/svg}"


def drawn(f: str, **at: object) -> tuple[Drawing, ET.Element]:
    drawing = draw_graph(gradcli.trace(f, at))
    return drawing, ET.fromstring(drawing.svg)


def words(element: ET.Element, look: str) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text") if text.get("class") == look]


def test_values_stand_above_and_adjoints_below() -> None:
    _, svg = drawn("v3 = x1 + x2; v3 * x1", x1=3.0, x2=4.0)
    assert words(svg, "n") == ["x1", "x2", "v3", "result"]
    assert words(svg, "v") == ["3", "4", "7", "21"]
    assert words(svg, "a") == ["10", "3", "3", "1"]
    above, below = (
        [float(text.get("y", "nan")) for text in svg.iter(f"{SVG}text") if text.get("class") == look] for look in "va"
    )
    assert max(above) < 0 < min(below)  # from the centre of the box


def test_partials_stand_at_the_edges() -> None:
    drawing, svg = drawn("v3 = x1 + x2; v3 * x1", x1=3.0, x2=4.0)
    assert drawing.edges == ((0, 2), (0, 3), (1, 2), (2, 3))
    edges = next(g for g in svg.iter(f"{SVG}g") if g.get("class") == "edges")
    assert sorted(text.text or "" for text in edges.iter(f"{SVG}text")) == ["1", "1", "3", "7"]
    assert {path.get("id") for path in edges.iter(f"{SVG}path")} == {"e0-2", "e0-3", "e1-2", "e2-3"}


def test_edges_begin_and_end_at_their_boxes() -> None:
    drawing, svg = drawn("a = x*y; b = a + x; sin(b)*a*y", x=1.0, y=2.0)
    boxes = {}
    for g in svg.iter(f"{SVG}g"):
        if g.get("id"):
            x, y = map(float, re.findall(r"-?\d+", g.get("transform", "")))
            rect = g.find(f"{SVG}rect")
            assert rect is not None
            half = float(rect.get("width", "nan")) / 2, float(rect.get("height", "nan")) / 2
            boxes[g.get("id")] = (x, y, *half)
    for a, b in drawing.edges:
        path = next(p for p in svg.iter(f"{SVG}path") if p.get("id") == f"e{a}-{b}").get("d", "")
        ends = spots(path)
        x, y, wide, _ = boxes[f"n{a}"]
        assert ends[0] == (pytest.approx(x + wide, abs=1), pytest.approx(y, abs=4))
        x, y, wide, high = boxes[f"n{b}"]
        assert ends[-1][0] == pytest.approx(x - wide, abs=1) and abs(ends[-1][1] - y) <= high + 1


def spots(path: str) -> list[tuple[float, float]]:
    """Return the points at which the parts of a path end."""
    found: list[tuple[float, float]] = []
    for numbers in re.findall(r"[Mlc]([^Mlc]*)", path):
        xs = [float(n) for n in re.findall(r"-?\d+", numbers)]
        x, y = found[-1] if found else (0.0, 0.0)
        found.append((x + xs[-2], y + xs[-1]))
    return found


def test_a_wrong_claim_is_red_from_where_it_departs() -> None:
    report = gradcli.check("x**2*sin(y)", {"x": 1.5, "y": 0.7}, grad="x=2*x*sin(y), y=x**2*sin(y)")
    trace = report.walk()
    svg = ET.fromstring(draw_graph(trace).svg)
    red = [g for g in svg.iter(f"{SVG}g") if "bad" in (g.get("class") or "")]
    assert [words(g, "n") for g in red] == [["y"]]
    assert words(red[0], "c") == ["claimed 1.4495"]


def test_hostile_names_are_text() -> None:
    name = re.sub(r"\s", " ", SAID)
    drawing = draw_graph(gradcli.trace(f"sum(x**2) # {name}", {"x": np.ones(2)}))
    found = ET.fromstring(drawing.svg)
    assert {element.tag for element in found.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "defs", "marker", "g", "path", "rect", "text")
    }


@for_rows(("x", "says"), [
    (1 / 3, "0.33333"), (np.float64("nan"), "nan"), (np.array([3.0, 4.0]), "(2,) ‖5‖"), (np.zeros((0, 2)), "(0,2) ‖0‖"),
    (np.ones((2, 2)), "(2,2) ‖2‖"),
])  # fmt: skip
def test_values_are_brief(x: object, says: str) -> None:
    assert brief_value(x) == says


def test_constants_and_inputs_outside_of_wrt_are_grey() -> None:
    svg = ET.fromstring(draw_graph(gradcli.trace("3*x*y + y - 3", {"x": 2.0, "y": 5.0}, wrt="x")).svg)
    grey = [g for g in svg.iter(f"{SVG}g") if g.get("class") == "given"]
    assert sorted((words(g, "n"), words(g, "v")) for g in grey) == [(["3.0"], []), (["3.0"], []), (["y"], ["5"])]
    paths = [path.get("class") for path in svg.iter(f"{SVG}path")]
    assert paths.count("given") == 4  # y is used twice


def test_a_graph_runs_downwards() -> None:
    trace = gradcli.trace("v3 = x1 + x2; v3 * x1", {"x1": 3.0, "x2": 4.0})
    for down in (False, True):
        svg = ET.fromstring(draw_graph(trace, down=down).svg)
        at = {g.get("id"): [*map(float, re.findall(r"-?\d+", g.get("transform", "")))] for g in svg.iter(f"{SVG}g")}
        assert at["n0"][down] < at["n2"][down] < at["n3"][down]


def test_characters_that_xml_does_not_allow_are_replaced() -> None:
    ET.fromstring(draw_graph(gradcli.trace("sum(x**2) # \uffff \ufffe", {"x": np.ones(2)})).svg)


@pytest.mark.parametrize(
    ("x", "norm"), [([1e200, 1e200], "1.41e+200"), ([3e-200, 4e-200], "5e-200"), ([1.0, np.inf], "inf")]
)
def test_norms_are_those_of_the_entries(x: list[float], norm: str) -> None:
    assert brief_value(np.array(x)) == f"(2,) ‖{norm}‖"
