"""Charts in the terminal and in Markdown, and pictures in files: readable, within the width, harmless, the same each time."""

import io
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.cli.output import refuse_pictures, requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.report.blocks import Bars, Block, Chart, HeatMap, Picture, Region, Series
from gradcli.report.drawing.chart import COLORS_OF_CELLS, draw_heat_map
from gradcli.report.forms import ENDINGS, PICTURES, Page, render_as_file, render_as_text
from gradcli.report.forms import figure as painting
from gradcli.report.forms import terminal_chart as drawing
from gradcli.report.forms.figure import describe_left_out, draw_picture_file, refuse_large_png, use_own_settings
from gradcli.request.options import Options
from tests.rows import for_rows

H = [10.0**-k for k in range(17)]
FORWARD = Series("forward", tuple((h, h + 1e-16 / h) for h in H), "o")
CENTRAL = Series("central", tuple((h, h**2 + 1e-16 / h) for h in H), "x")
FLOOR = Series("floor", ((1e-16, 1e-16), (1.0, 1e-16)), guide=True)
BEST = Series("best h", ((1e-6, 1e-16), (1e-6, 1.0)), guide=True)
CHART = Chart("Error against step size", "step h", "relative error", (FORWARD, CENTRAL, FLOOR, BEST))
SHADED = replace(CHART, regions=(Region("rounding: slope -1", 1e-16, 1e-9), Region("truncation: slope 2", 1e-7, 1.0)))
BARS = Bars("Cost", "evaluations of f", (("reverse", 2.6), ("symbolic", 0.0), ("forward", 1900.0)), log=True)
HEAT = HeatMap("Jacobian", "difference", [[1.0, math.nan], [-2.0, math.inf]], ((0, 1), (9, 9)))
HOSTILE = (
    "$x$",
    r"$\frac{$",
    "[red]x[/red]",
    "\x1b[31m",
    "</svg><script>",
    "```",
    "_hidden",
    "\u202e",
    "a\nb\x00\ufffe",
    "数" * 60,
)
ANSI = "\x1b"
BRAILLE = re.compile("[\u2801-\u28ff]")


@dataclass(frozen=True)
class Drawn:
    """A report of blocks and pictures."""

    pictures_: tuple[Picture, ...]

    def blocks(self) -> tuple[Block, ...]:
        return tuple(picture for picture in self.pictures_ if isinstance(picture, Chart))

    def pictures(self) -> tuple[Picture, ...]:
        return self.pictures_


def text(chart: Chart, page: Page | None = None) -> str:
    return render_as_text("text", Drawn((chart,)), page)


def plot_of(shown: str) -> list[str]:
    """Return the rows between the axes."""
    return [
        re.split("[│┤|+]", line, maxsplit=1)[1]
        for line in shown.splitlines()
        if re.match("[ 0-9e-]* [│┤|+](?![-+])", line)
    ]


def one(*points: tuple[float, float], name: str = "f") -> Chart:
    return Chart("", "", "", (Series(name, points, "o"),))


# In the terminal


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_title_axes_marks_and_legend_are_there(encoding: str) -> None:
    shown = text(CHART, Page(80, False, encoding))
    for said in ("Error against step size", "step h", "relative error", "o forward", "x central", "floor", "best h"):
        assert said in shown
    rows = "".join(plot_of(shown))
    assert rows.count("o") >= 6 and rows.count("x") >= 6


def test_both_axes_have_powers_of_ten() -> None:
    shown = text(CHART).splitlines()
    beside = [label.group(1) for line in shown if (label := re.match(r" *(1e-?\d+|1) ┤", line))]
    below = next(line for line in shown if len(re.findall(r"1e-\d+", line)) > 2).split()
    assert beside == ["1", "1e-4", "1e-8", "1e-12", "1e-16"]
    assert below == ["1e-16", "1e-14", "1e-12", "1e-10", "1e-8", "1e-6", "1e-4", "1e-2", "1"]


@pytest.mark.parametrize(("encoding", "ends"), [("utf-8", "├─┤"), ("ascii", "|-|")])
def test_a_region_has_a_bracket_under_its_part_of_the_axis(encoding: str, ends: str) -> None:
    lines = text(SHADED, Page(80, False, encoding)).splitlines()
    below = next(line for line in lines if line.lstrip().startswith("1e-16  "))
    for words, low, high in (("rounding: slope -1", "1e-16", "1e-9"), ("truncation: slope 2", "1e-7", "1")):
        line = next(line for line in lines if words in line)
        drawn = re.search(f"[{re.escape(ends[0])}]{re.escape(ends[1])}+[{re.escape(ends[2])}]", line)
        assert drawn is not None
        ticks = [m.start() + len(m.group()) // 2 for m in re.finditer(r"\S+", below)]
        decade = (ticks[-1] - ticks[0]) / 16
        assert abs(drawn.start() - ticks[0] - decade * (16 + math.log10(float(low)))) < 2
        assert abs(drawn.end() - 1 - ticks[0] - decade * (16 + math.log10(float(high)))) < 2


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_first_line_covers_the_others_where_they_meet(encoding: str) -> None:
    same = [Series(name, FORWARD.points, name) for name in "ab"]
    shown = text(Chart("", "", "", tuple(same)), Page(80, True, encoding))
    assert "\x1b[35m⠉" not in shown and shown.count("\x1b[36m") >= shown.count("\x1b[35m")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "no such encoding"])
def test_a_chart_is_within_the_width(width: int, color: bool, encoding: str) -> None:
    wide = Chart(
        "± " * 99, "h × " * 40, "y" * 200, (*CHART.series, *(Series(f"±{k} " * 9, ((1.0, 10.0**k),)) for k in range(9))),
        (*SHADED.regions, Region("r " * 99, 1e-9, 1e-8)),
    )  # fmt: skip
    for line in re.sub("\x1b\\[[0-9;]*m", "", text(wide, Page(width, color, encoding))).splitlines():
        assert len(line) <= min(width, drawing.WIDEST + 2)


def test_no_ansi_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert ANSI not in text(CHART, Page(80, False))
    assert ANSI not in render_as_text("markdown", Drawn((CHART,)), Page(80, True))


def test_with_colour_each_series_has_its_own_and_guides_are_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")  # the page alone decides
    shown = text(CHART, Page(80, True))
    assert "\x1b[36mo " in shown and "\x1b[35mx " in shown and "\x1b[2m⠤ " in shown and "\x1b[2m⡇ " in shown


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_marks_alone_where_braille_cannot_be_written(encoding: str) -> None:
    shown = text(CHART, Page(80, False, encoding))
    assert shown.isascii() and "?" not in shown
    assert "." in "".join(plot_of(shown)) and ":" in "".join(plot_of(shown))


def test_lines_are_braille_without_blank_patterns() -> None:
    assert BRAILLE.search(text(CHART)) and "\u2800" not in text(CHART)


LEFT_OUT = [0.0, -1.0, math.nan, math.inf, -math.inf]


@for_rows("bad", LEFT_OUT)
def test_what_is_not_positive_and_finite_is_left_out(bad: float) -> None:
    good = ((1e-3, 1e-3), (1.0, 1.0))
    assert text(one(good[0], (bad, 1.0), (1.0, bad), good[1]), Page(60, False, "ascii")) == text(
        one(*good), Page(60, False, "ascii")
    )


@for_rows("bad", LEFT_OUT)
def test_a_line_breaks_where_a_point_is_left_out(bad: float) -> None:
    whole, broken = one((1e-3, 1e-3), (1.0, 1.0)), one((1e-3, 1e-3), (0.1, bad), (1.0, 1.0))
    assert len(BRAILLE.findall(text(whole))) > 20 > len(BRAILLE.findall(text(broken)))


@for_rows("bad", LEFT_OUT)
def test_a_series_without_a_point_is_not_in_the_legend(bad: float) -> None:
    shown = text(Chart("", "", "", (Series("gone", ((1.0, bad),), "x"), FORWARD)))
    assert "gone" not in shown and "o forward" in shown


@pytest.mark.parametrize("chart", [Chart("t", "x", "y", ()), one(), one((1.0, 0.0))])
def test_an_empty_chart_says_so(chart: Chart) -> None:
    assert "nothing to draw: no value is positive and finite" in text(chart)
    assert render_as_file("png", Drawn((chart,)))


@pytest.mark.parametrize(
    "points",
    [
        ((1.0, 1.0),),
        ((2.5, 2.5), (3.0, 2.6)),
        ((5e-324, 1e308), (1e308, 5e-324)),
        ((1e-250, 1e-250), (1e250, 1e250)),
        ((1e-16, 1e-16),),
    ],
)
def test_any_range_has_labels_on_both_axes(points: tuple[tuple[float, float], ...]) -> None:
    for encoding in ("utf-8", "ascii"):
        shown = text(one(*points), Page(60, False, encoding))
        assert "o" in "".join(plot_of(shown))
        assert len(re.findall(r"\b1(?:e-?\d+)?\b", shown)) >= 3
        assert max(map(len, shown.splitlines())) <= 60
    assert render_as_file("png", Drawn((one(*points),)))


def test_points_lie_at_their_labels() -> None:
    rows = text(one((1e-8, 1e-4), (1.0, 1.0)), Page(80, False, "ascii")).splitlines()
    at = next(line for line in rows if line.lstrip().startswith("1e-4 +"))
    below = next(line for line in rows if "1e-8" in line)
    assert at.index("o") == below.index("1e-8") + 2


def test_series_with_one_mark_get_marks_of_their_own() -> None:
    same = tuple(Series(name, ((1.0, 10.0**k), (10.0, 10.0**k))) for k, name in enumerate("abc"))
    shown = text(Chart("", "", "", same))
    assert "o a   x b   + c" in shown


@for_rows("mark", ["", "ab", "\x1b", "\n", "●"])
def test_a_mark_that_cannot_be_shown_is_replaced(mark: str) -> None:
    assert "o f" in text(Chart("", "", "", (Series("f", ((1.0, 1.0),), mark),)), Page(60, False, "ascii"))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_series_is_hidden_behind_an_equal_one(encoding: str) -> None:
    points = tuple((10.0**k, 10.0**k) for k in range(9))
    shown = text(Chart("", "", "", tuple(Series(m, points, m) for m in "ox+")), Page(80, False, encoding))
    assert [sum(row.count(mark) for row in plot_of(shown)) for mark in "ox+"] == [3, 3, 3]


# Names from outside


@for_rows("name", HOSTILE)
def test_no_name_acts_in_a_terminal_or_in_markdown(name: str) -> None:
    chart = Chart(name, name, name, (Series(name, ((1.0, 1.0), (2.0, 3.0))),))
    for encoding in ("utf-8", "ascii"):
        shown = text(chart, Page(60, False, encoding))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    if name.isprintable() and len(name) < 30:
        assert text(chart).count(name) == 4
    document = render_as_text("markdown", Drawn((chart,)))
    fence = re.match("`{3,}", document)
    assert fence and ANSI not in document
    assert [line for line in document.splitlines() if line.lstrip().startswith(fence[0])] == [
        fence[0] + "text",
        fence[0],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("every", [HOSTILE[:-1], HOSTILE[-1:]], ids=["short", "long"])
def test_no_name_acts_in_a_picture(every: tuple[str, ...]) -> None:
    words = " ".join(every)
    pictures = (
        Chart(words, words, words, tuple(Series(name, ((1.0, 1.0), (2.0, 3.0))) for name in every)),
        Bars(words, words, tuple((name, 1.0) for name in every)),
        HeatMap(words, words, [[1.0, 2.0]]),
    )
    image = render_as_file("svg", Drawn(pictures)).decode()
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(image).iter()}
    assert "svg" in tags and "script" not in tags


def test_a_name_is_no_mathematics_and_none_is_left_out() -> None:
    image = render_as_file(
        "svg", Drawn((Chart("", "", "", tuple(Series(n, ((1.0, 1.0),)) for n in ("$x_1$", "_private"))),))
    ).decode()
    assert "<!-- $x_1$ -->" in image and "<!-- _private -->" in image


# Pictures


def figure_of(pictures: Sequence[Picture], size: tuple[float, float] | None = None) -> Any:
    with use_own_settings():
        return painting.make_figure(pictures, size)


def drawn_words(*pictures: Picture) -> set[str]:
    return set(re.findall("<!-- (.*?) -->", render_as_file("svg", Drawn(pictures)).decode()))


@pytest.mark.slow
@pytest.mark.parametrize("form", PICTURES)
def test_all_pictures_are_in_one_file_the_same_each_time_whatever_the_users_settings(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # which is not needed
    image = render_as_file(form, Drawn((CHART, BARS, HEAT)))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert render_as_file(form, Drawn((CHART, BARS, HEAT))) == image
        assert matplotlib.rcParams["font.size"] == 30
    assert not re.search(rb"20\d\d-\d\d-\d\d", image)
    if form == "svg":
        words = {
            CHART.title,
            CHART.x,
            CHART.y,
            "forward",
            "floor",
            BARS.title,
            BARS.unit,
            "reverse",
            HEAT.title,
            HEAT.unit,
        }
        assert words <= {*re.findall("<!-- (.*?) -->", image.decode())}
    elif form == "png":
        assert image.startswith(b"\x89PNG\r\n\x1a\n")
        assert png_height(render_as_file(form, Drawn((CHART,)))) < png_height(image) < 2000
    else:
        assert image.startswith(b"%PDF-") and b"/FontFile2" in image and b"/Type3" not in image
        assert b"CreationDate" not in image and b"Producer" not in image


def png_height(image: bytes) -> int:
    return int.from_bytes(image[20:24])


@pytest.mark.slow
def test_a_picture_has_the_size_that_is_asked_for() -> None:
    page = Page(size=(3.5, 2.5), dpi=200)
    png = render_as_file("png", Drawn((CHART,)), page)
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (700, 500)
    assert b'width="252pt" height="180pt"' in render_as_file("svg", Drawn((CHART,)), page)
    assert b"/MediaBox [ 0 0 252 180 ]" in render_as_file("pdf", Drawn((CHART,)), page)
    assert int.from_bytes(render_as_file("png", Drawn((CHART,)), Page(dpi=100))[16:20]) == 800


def test_a_png_of_too_many_pixels_is_refused() -> None:
    with pytest.raises(BadOption, match="million pixels"):
        draw_picture_file([CHART] * 20, "png", None, 1200)
    refuse_large_png((40.0, 40.0), 300)


SCHEMES, DTYPES = (
    ("forward", "central", "5-point", "7-point", "richardson", "complex"),
    ("float16", "float32", "float64"),
)
SEVERAL = Chart(
    "relative error of the slope along v", "step h, in units of the inputs' sizes", "error",
    tuple(
        Series(name, tuple((h, 0.1 * h ** (k + 1) + e / h) for h in H), style=dtype)
        for dtype, e in zip(DTYPES, (1e-3, 1e-7, 1e-16), strict=True)
        for k, name in enumerate(SCHEMES)
    ),
)  # fmt: skip
LONG = Chart(
    "A long title of many words " * 3,
    "W" * 60,
    "M" * 40,
    tuple(Series(f"{k} {'W' * 34}", FORWARD.points) for k in range(9)),
)
SMALL_BARS = Bars(
    "A title that is too long for a small picture", "units", tuple((f"{'W' * 30} {k}", 10.0**k) for k in range(12))
)
SHOWN = {
    "several formats": (SEVERAL,), "a chart": (CHART,), "regions": (SHADED,), "long names": (LONG,), "bars": (SMALL_BARS,), "a matrix": (HEAT,),
    "a wide matrix": (HeatMap("t", "u", np.arange(3000.0).reshape(3, 1000), ((0, 0),)),),
    "all": (CHART, BARS, HEAT), "many": (SEVERAL, BARS, HEAT, HEAT),
}  # fmt: skip
COLUMN, TINY = (3.5, 2.5), (1.0, 1.0)
WIDE, HIGH, STRIP, RIBBON, LARGE = (8.0, 2.0), (2.0, 6.0), (40.0, 1.0), (1.0, 40.0), (20.0, 15.0)
DRAWN_AT = [
    *(("a chart", size) for size in (None, COLUMN, TINY, WIDE, HIGH, STRIP, RIBBON, LARGE)),
    ("regions", TINY), ("several formats", TINY), ("long names", TINY), ("bars", TINY), ("a matrix", TINY),
    ("long names", None), ("a wide matrix", COLUMN), ("all", WIDE), ("many", HIGH),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), DRAWN_AT, ids=str)
def test_nothing_is_cut(name: str, size: tuple[float, float] | None) -> None:
    with use_own_settings():
        figure = figure_of(SHOWN[name], size)
        figure.draw_without_rendering()
        renderer = figure.canvas.get_renderer()
        whole = figure.bbox.padded(1)
        found = []
        for axes in figure.axes:
            found += [axes.get_tightbbox(renderer), *(text.get_window_extent(renderer) for text in shown_words(axes))]
        for place in figure.subfigs:
            found += [
                part.get_window_extent(renderer) for part in (place._suptitle, *place.legends) if part is not None
            ]
    assert size is None or tuple(figure.get_size_inches()) == size
    assert len(found) > 8 * len(figure.subfigs)
    assert all(whole.x0 <= b.x0 and whole.y0 <= b.y0 and b.x1 <= whole.x1 and b.y1 <= whole.y1 for b in found)


def shown_words(axes: Any) -> list[Any]:
    """Return the words of a picture: names of axes, bars and lines, numbers beside bars and at ticks within the axes."""
    ticks = [
        label
        for axis, (low, high) in ((axes.xaxis, sorted(axes.get_xlim())), (axes.yaxis, sorted(axes.get_ylim())))
        for tick, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        if low <= tick <= high
    ]
    legend = axes.get_legend().get_texts() if axes.get_legend() else []
    return [text for text in (axes.xaxis.label, axes.yaxis.label, *axes.texts, *legend, *ticks) if text.get_text()]


@pytest.mark.slow
def test_letters_are_as_large_as_fit() -> None:
    def letters(size: tuple[float, float]) -> float:
        (axes,) = figure_of((CHART,), size).axes
        return float(axes.xaxis.label.get_size())

    assert letters((8.0, 4.2)) == 9.0 and letters((20.0, 10.0)) == 9.0
    assert 7.0 <= letters((3.5, 2.5)) <= 9.0 and letters((1.0, 1.0)) < 4.0


@pytest.mark.slow
def test_pictures_go_side_by_side_where_that_makes_them_larger() -> None:
    wide, high = (figure_of((CHART, CHART), size) for size in ((10.0, 3.0), (4.0, 8.0)))
    assert wide.subfigs[0].bbox.y0 == wide.subfigs[1].bbox.y0
    assert high.subfigs[0].bbox.x0 == high.subfigs[1].bbox.x0


@pytest.mark.slow
def test_every_scheme_and_every_format_is_drawn_and_in_the_legend() -> None:
    (axes,) = figure_of((SEVERAL,)).axes
    assert {*SCHEMES, *DTYPES} <= drawn_words(SEVERAL)
    looks = [(line.get_color(), str(line.get_marker())) for line in axes.lines]
    assert len(looks) == len(set(looks)) == len(SCHEMES) * len(DTYPES)
    assert len({color for color, _ in looks}) == len(SCHEMES) and len({mark for _, mark in looks}) == len(DTYPES)
    entries = dict(
        zip((t.get_text() for t in axes.get_legend().get_texts()), axes.get_legend().get_lines(), strict=True)
    )
    assert [entries[name].get_color() for name in SCHEMES] == list(dict.fromkeys(color for color, _ in looks))
    assert [str(entries[name].get_marker()) for name in DTYPES] == list(dict.fromkeys(mark for _, mark in looks))


def test_a_picture_shades_its_regions_and_names_them_and_its_upright_lines() -> None:
    (axes,) = figure_of((SHADED,)).axes
    spans = [patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches]
    assert [(span.x0, span.x1) for span in spans] == [pytest.approx((r.low, r.high)) for r in SHADED.regions]
    assert {t.get_text() for t in axes.texts} == {"rounding: slope -1", "truncation: slope 2", "best h"}
    over = [line.get_zorder() for line in axes.lines]
    assert over[0] > over[1] > max(over[2:])  # the first covers the second, and both the guides


@pytest.mark.slow
def test_lines_over_one_another_have_marks_at_other_points_and_a_lone_point_has_one() -> None:
    same = tuple(Series(name, FORWARD.points * 3) for name in "abc")
    (axes,) = figure_of((Chart("", "", "", same),)).axes
    a, b, c = ({*line.get_markevery()} for line in axes.lines)
    assert a and b and c and not (a & b or a & c or b & c)
    lone = tuple((10.0**k, 1.0 if k == 7 else math.nan) for k in range(40))
    (axes,) = figure_of((Chart("", "", "", (FORWARD, Series("lone", lone))),)).axes
    assert 7 in axes.lines[1].get_markevery()


def test_logarithmic_bars_show_what_is_not_positive_by_its_number() -> None:
    bars = Bars(
        "",
        "s",
        (("zero", 0.0), ("minus", -1.0), ("nan", math.nan), ("inf", math.inf), ("big", 1900.0), ("small", 1e-9)),
        log=True,
    )
    assert {"zero", "0", "minus", "-1", "nan", "inf", "1,900", "1e-09"} <= drawn_words(bars)


BARS_OF = [
    (),
    (0.0,),
    (0.0, 0.0),
    (math.nan,),
    (-1.0, 2.0),
    (1.0,),
    (5e-324, 1e308),
    (1e-250, 1e250),
    tuple(range(200)),
]


@pytest.mark.slow
@pytest.mark.parametrize("values", BARS_OF)
@pytest.mark.parametrize("log", [False, True])
def test_any_bars_can_be_drawn(values: tuple[float, ...], log: bool) -> None:
    assert render_as_file("png", Drawn((Bars("t", "s", tuple((f"b{k}", v) for k, v in enumerate(values)), log),)))


@pytest.mark.slow
def test_more_bars_than_can_be_read_are_counted() -> None:
    bars = Bars("t", "s", tuple((f"b{k}", 1.0) for k in range(200)))
    assert {"b0", "b49"} <= drawn_words(bars) and "b50" not in drawn_words(bars)
    assert describe_left_out((CHART, bars)) == ("t: 150 more bars are not drawn",)


NAN = math.nan
MATRICES: list[Any] = [
    [[1.0, NAN], [-2.0, math.inf]], [[NAN, NAN]], [], [[]], 3.0, [1, 2, 3], np.zeros((3, 3)), np.ones((2, 3, 4)),
    np.arange(3000.0).reshape(3, 1000), np.arange(3000.0).reshape(1000, 3), [[-1.7e308, 1.7e308]], [[5e-324, 0]],
]  # fmt: skip


@for_rows("values", MATRICES, ids=str, parts=4)
def test_any_matrix_can_be_drawn(values: Any) -> None:
    assert render_as_file("png", Drawn((HeatMap("t", "u", values, ((0, 0), (-1, 5))),)))


@for_rows("heat", [
    HeatMap("t", "u", np.arange(-30.0, 60.0).reshape(9, 10), ((2, 3),)), HeatMap("t", "u", [[1.0, math.nan, 3.0]]),
    HeatMap("t", "power of ten", np.linspace(-17, 0, 12).reshape(3, 4)), HeatMap("t", "u", np.arange(6400.0).reshape(80, 80)),
    HeatMap("t", "u", [[1.0]], beside=np.array([[-4.0, 2.0]])),
])  # fmt: skip
def test_a_map_is_the_same_in_a_page_and_in_a_picture_file(heat: HeatMap) -> None:
    svg = ElementTree.fromstring(draw_heat_map(heat))
    cells: dict[tuple[int, int], str] = {}
    for path in svg.iter("{http://www.w3.org/2000/svg}path"):
        if path.get("class") != "grid":
            for x, y, _ in re.findall(r"M(\d+) (\d+)h(\d+)v\3", path.get("d", "")):
                cells[int(y), int(x)] = str(path.get("class"))[1:]
    rows, columns = (sorted({place[k] for place in cells}) for k in (0, 1))
    with use_own_settings():
        (axes,) = figure_of([heat]).subfigs[0].axes
        (bar,) = axes.child_axes
        (image,) = axes.get_images()
        shown = image.to_rgba(image.get_array(), bytes=True)
        assert axes.yaxis_inverted() and shown.shape[:2] == (len(rows), len(columns))
        for r, y in enumerate(rows):
            for c, x in enumerate(columns):
                if cells[y, x] != "x":
                    assert "#{:02x}{:02x}{:02x}".format(*shown[r, c, :3]) == COLORS_OF_CELLS[cells[y, x]]
                assert shown[r, c, 3] == 255 * (cells[y, x] != "x")
        words = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
        indices = [[label.get_text() for label in axis.get_ticklabels()] for axis in (axes.yaxis, axes.xaxis)]
        assert words[: len(indices[0]) + len(indices[1])] == [*indices[0], *indices[1]]
        assert {label.get_text() for label in bar.yaxis.get_ticklabels()} <= {*words}


def test_a_heat_map_says_what_its_hatching_means() -> None:
    assert "not finite" in drawn_words(HEAT)
    assert "not finite" not in drawn_words(HeatMap("t", "u", [[1.0]]))


def test_no_pictures_and_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(painting, "_MOST_PICTURES", 2)
    assert drawn_words() == {"nothing to draw"}
    assert describe_left_out([HEAT] * 7) == ("5 more pictures are not drawn",) and describe_left_out([HEAT] * 2) == ()
    assert len(figure_of([HEAT] * 7).subfigs) == 2


# Files


FORMS = ("text", "json")


def planned(
    *,
    pictures: bool = True,
    out: tuple[str, ...] = (),
    plot: tuple[str, ...] = (),
    form: str | None = None,
    size: tuple[float, float] | None = None,
    dpi: int | None = None,
) -> Any:
    options = Options(format=form, out=out, plot=plot, size=size, dpi=dpi, quiet=True)
    return requested_output(FORMS, options, World(environ={}), pictures=pictures)


@pytest.mark.slow
def test_plot_and_out_write_pictures(tmp_path: Path) -> None:
    to = planned(out=(f"{tmp_path}/a.svg",), plot=(f"{tmp_path}/b.png", f"{tmp_path}/c.SVG"))
    assert [form for form, _ in to.files] == ["svg", "png", "svg"]
    write_report(Drawn((CHART,)), to, World(environ={}))
    assert (tmp_path / "b.png").read_bytes() == render_as_file("png", Drawn((CHART,)))
    assert (
        (tmp_path / "a.svg").read_bytes() == (tmp_path / "c.SVG").read_bytes() == render_as_file("svg", Drawn((CHART,)))
    )


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [False, True])
def test_what_is_not_drawn_is_said_on_standard_error(tmp_path: Path, quiet: bool) -> None:
    stderr = io.StringIO()
    world = World(stdout=io.StringIO(), stderr=stderr, environ={})
    bars = Bars("t", "s", tuple((f"b{k}", 1.0) for k in range(60)))
    write_report(Drawn((bars,)), replace(planned(plot=(f"{tmp_path}/a.svg",)), quiet=quiet), world)
    assert stderr.getvalue() == ("" if quiet else "t: 10 more bars are not drawn\n")


# fmt: off
REFUSED = [
    ({"plot": ("a.json",)},                 "a.json has no ending this command can write", "endings: .svg, .png, .pdf"),
    ({"plot": ("a",)},                      "a has no ending this command can write",      "endings: .svg, .png, .pdf"),
    ({"plot": ("no/such/a.svg",)},          "no/such/a.svg cannot be written",             "name a file in a folder that exists"),
    ({"out": ("a.svg",), "pictures": False},   "a.svg has no ending this command can write",  "endings: .json, .txt"),
    ({"size": (3.0, 2.0)},                  "--size is for pictures, and none is asked for", "name one: --size ... --plot FILE.pdf"),
    ({"dpi": 300, "out": ("a.json",)},      "--dpi is for pictures, and none is asked for",  "name one: --dpi ... --plot FILE.pdf"),
    ({"size": (40.0, 40.0), "dpi": 1200, "plot": ("a.png",)},
     "a .png of 40x40 inches at 1200 dots per inch has 2,304 million pixels, more than 200", "--dpi 353, a smaller --size, or a .pdf"),
    ({"form": "svg"},                       "there is no format 'svg' for this command",   "formats: text, json"),
]
# fmt: on


@for_rows(("asked", "what", "do"), REFUSED)
def test_what_cannot_be_drawn_is_refused_before_the_work(asked: dict[str, Any], what: str, do: str) -> None:
    with pytest.raises(BadOption) as caught:
        planned(**asked)
    assert (caught.value.what, caught.value.do) == (what, do)


def test_a_picture_shows_one_target(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="a picture shows one target"):
        refuse_pictures(planned(plot=(f"{tmp_path}/a.png",)))


def test_every_ending_has_a_renderer() -> None:
    assert {ENDINGS[ending] for ending in (".svg", ".png", ".pdf")} == set(PICTURES)
