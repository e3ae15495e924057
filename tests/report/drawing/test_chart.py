"""Charts, bars and matrices as SVG: every number is in its place, and in words."""

import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

from gradcli.report.blocks import Bars, Chart, HeatMap, Region, Series
from gradcli.report.drawing import chart
from gradcli.report.forms.html import read_asset

SVG = "{http://www.w3.org/2000/svg}"
LINE = Chart("t", "h", "error", (Series("a", ((1e-4, 1e-8), (1e-2, 1e-4), (1.0, 1.0)), "o"),))


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def test_points_lie_where_their_powers_of_ten_are() -> None:
    svg = parsed(chart.draw_chart(LINE))
    spots = [(float(use.get("x", "nan")), float(use.get("y", "nan"))) for use in svg.iter(f"{SVG}use")]
    assert spots[1] == (
        pytest.approx((spots[0][0] + spots[2][0]) / 2, abs=1),
        pytest.approx((spots[0][1] + spots[2][1]) / 2, abs=1),
    )
    assert spots[0][0] < spots[2][0] and spots[0][1] > spots[2][1]
    assert next(svg.iter(f"{SVG}title")).text == "a: 1e-08 at 0.0001"
    assert {"1e-4", "1e-8", "1"} <= {text.text for text in svg.iter(f"{SVG}text")}


def test_what_cannot_be_drawn_leaves_a_gap() -> None:
    series = Series("a", ((1.0, 1.0), (2.0, 0.0), (3.0, math.nan), (4.0, 1e3), (5.0, 1e4)))
    svg = parsed(chart.draw_chart(Chart("t", "x", "y", (series,))))
    path = next(p for p in svg.iter(f"{SVG}path") if p.get("class") == "line").get("d", "")
    assert path.count("M") == 2 and path.count("L") == 1
    assert chart.draw_chart(Chart("t", "x", "y", (Series("a", ((1.0, 0.0),)),))) == ""


def test_names_have_colours_and_styles_have_marks() -> None:
    points = ((1.0, 1.0), (2.0, 2.0))
    lines = [Series(name, points, style=style) for style in ("d", "s") for name in ("a", "b")]
    both = Chart("t", "x", "y", (*lines, Series("g", points, guide=True)))
    looks = chart.Looks.of(both)
    assert [looks.classes(series) for series in both.series] == [
        "n0 y0 k0",
        "n1 y0 k1",
        "n0 y1 k0",
        "n1 y1 k1",
        "n2 guide",
    ]
    assert looks.mark(0, 1) != looks.mark(0, 0) and looks.mark(1, 0) == looks.mark(0, 0)
    alone = chart.Looks.of(Chart("t", "x", "y", (Series("a", points), Series("b", points))))
    assert alone.mark(0, 0) != alone.mark(1, 0)


def test_regions_are_shaded_and_named_above_the_frame_as_upright_lines_are() -> None:
    mark = Series("h = 0.01, a", ((1e-2, 1e-8), (1e-2, 1.0)), guide=True)
    regions = (Region("rounding: slope -1", 1e-4, 1e-3), Region("truncation: slope 2", 0.1, 1.0))
    svg = parsed(chart.draw_chart(Chart("t", "h", "error", (*LINE.series, mark), regions)))
    left, right = ((float(r.get("x", "nan")), float(r.get("width", "nan"))) for r in svg.iter(f"{SVG}rect"))
    words = {text.text: text for text in svg.iter(f"{SVG}text")}
    assert float(words["rounding: slope -1"].get("x", "nan")) == pytest.approx(sum(left), abs=0.2)  # its end
    assert float(words["truncation: slope 2"].get("x", "nan")) == pytest.approx(right[0], abs=0.2)  # its begin
    frame = next(float(r.get("y", "nan")) for r in svg.iter(f"{SVG}rect"))
    rows = [float(words[name].get("y", "nan")) for name in ("rounding: slope -1", "truncation: slope 2", mark.name)]
    assert rows[2] < rows[0] == rows[1] < frame
    width = float(svg.get("viewBox", "").split()[2])
    assert right[0] + 7 * len("truncation: slope 2") < width  # a name at the edge widens the picture
    assert "h = 0.01, a, rounding: slope -1, truncation: slope 2" in svg.get("aria-label", "")


def test_the_first_line_is_drawn_last() -> None:
    points = ((1.0, 1.0), (2.0, 2.0))
    svg = chart.draw_chart(
        Chart("t", "x", "y", (Series("a", points), Series("b", points), Series("g", points, guide=True)))
    )
    assert svg.index('"n2 guide"') < svg.index('"n1 y0 k1"') < svg.index('"n0 y0 k0"')


def test_every_mark_that_is_used_is_defined() -> None:
    used = set(re.findall(r'href="#(\w+)"', chart.draw_chart(LINE)))
    assert used <= set(re.findall(r'id="(\w+)"', chart.define_marks()))


def test_bars_are_as_long_as_their_numbers() -> None:
    svg = parsed(chart.draw_bars(Bars("t", "digits", (("a", 4.0), ("b", 16.0), ("c", math.nan)))))
    widths = [float(rect.get("width", "nan")) for rect in svg.iter(f"{SVG}rect")]
    assert widths[0] == pytest.approx(widths[1] / 4, abs=1) and widths[2] == 0
    assert "a 4, b 16, c nan" in svg.get("aria-label", "")


def test_a_matrix_has_its_levels_and_its_worst_entries() -> None:
    values = np.array([[-17.0, -16.0], [-2.0, np.nan]])
    svg = parsed(chart.draw_heat_map(HeatMap("t", "power of ten", values, ((1, 0),))))
    assert {p.get("class") for p in svg.iter(f"{SVG}path")} == {"h0", "h7", "hx", "grid"}
    assert "not finite" in [text.text for text in svg.iter(f"{SVG}text")]
    assert "from 1e-17 to 1" in svg.get("aria-label", "") and "[1,0]: 0.01" in svg.get("aria-label", "")
    assert [circle.get("class") for circle in svg.iter(f"{SVG}circle")] == ["halo", "ring"]


def test_a_large_matrix_keeps_its_largest_entry() -> None:
    values = np.full((300, 500), -16.0)
    values[123, 456] = -1.0
    drawn = chart.draw_heat_map(HeatMap("t", "power of ten", values, ((123, 456),)))
    assert len(drawn) < 40_000
    assert "h8" in {p.get("class") for p in parsed(drawn).iter(f"{SVG}path")}


@pytest.mark.parametrize("low", [-324, -309, 300])
def test_axes_reach_the_ends_of_float64(low: int) -> None:
    ends = (max(10.0 ** (low + 1), 5e-324), 10.0 ** min(low + 8, 308))
    drawn = chart.draw_chart(Chart("t", "x", "y", (Series("a", tuple((end, end) for end in ends)),)))
    assert len([*parsed(drawn).iter(f"{SVG}use")]) == 2


def test_the_style_sheet_has_every_switch() -> None:
    style = read_asset("page.css")
    looks = [f"n{k}" for k in range(chart.SWITCHED_NAMES)] + [f"y{k}" for k in range(chart.SWITCHED_STYLES)]
    assert [look for look in looks if f".picture:has(.x{look}:not(:checked)) .wide .{look}" not in style] == []


def test_a_matrix_without_a_finite_entry_is_drawn() -> None:
    parsed(chart.draw_heat_map(HeatMap("t", "u", np.full((2, 2), np.inf))))
    assert chart.draw_heat_map(HeatMap("t", "u", np.zeros((0, 3)))) == ""


def test_a_matrix_of_both_signs_has_two_colours_and_0_in_its_legend() -> None:
    svg = parsed(chart.draw_heat_map(HeatMap("t", "u", np.array([[-2.0, 0.0, 1.0]]))))
    words = [text.text for text in svg.iter(f"{SVG}text")]
    assert {p.get("class") for p in svg.iter(f"{SVG}path")} == {"hi", "h0", "h4", "grid"}
    assert words == ["0", "0", "1", "2", "-2", "0", "2", "u"]
    assert "from -2 to 2" in svg.get("aria-label", "")


def test_the_style_sheet_has_the_colours_of_picture_files() -> None:
    assert [
        k for k, color in chart.COLORS_OF_CELLS.items() if f".h{k} {{ fill: {color};" not in read_asset("page.css")
    ] == []


# Machado, Oliveira and Fernandes (2009), A physiologically-based model for simulation of color vision deficiency, severity 1
VISIONS = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "usual": np.eye(3),
}


@pytest.mark.parametrize("vision", VISIONS.values(), ids=VISIONS)
def test_colours_of_both_signs_are_told_apart_by_every_vision(vision: Any) -> None:
    colors = [chart.COLORS_OF_CELLS[k] for k in "igec02468"]
    rgb = np.array([[int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)] for color in colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(vision), 0, 1)
    xyz = seen @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    f = np.cbrt(np.maximum(xyz / xyz.sum(axis=0).max(), 1e-6) / np.array([0.9505, 1.0, 1.089]))
    lab = np.stack([116 * f[:, 1], 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
    apart = [float(np.linalg.norm(lab[a] - lab[b])) for a in range(9) for b in range(a)]
    assert min(apart) > 7  # of CIELAB; 2.3 is just noticed
