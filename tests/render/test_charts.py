"""Charts in the terminal and in Markdown, and pictures in files: readable, within the width, harmless, the same each time."""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.commands.output import emit, for_several, output
from gradcli.errors import BadOption
from gradcli.options import Options
from gradcli.render import ENDINGS, PICTURES, Page, as_file, rendered
from gradcli.render import chart as drawing
from gradcli.render import picture as painting
from gradcli.report.blocks import Bars, Block, Chart, HeatMap, Picture, Series
from gradcli.world import World

H = [10.0**-k for k in range(17)]
FORWARD = Series("forward", tuple((h, h + 1e-16 / h) for h in H), "o")
CENTRAL = Series("central", tuple((h, h**2 + 1e-16 / h) for h in H), "x")
FLOOR = Series("floor", ((1e-16, 1e-16), (1.0, 1e-16)), guide=True)
BEST = Series("best h", ((1e-6, 1e-16), (1e-6, 1.0)), guide=True)
CHART = Chart("Error against step size", "step h", "relative error", (FORWARD, CENTRAL, FLOOR, BEST))
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
    return rendered("text", Drawn((chart,)), page)


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


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "no such encoding"])
def test_a_chart_is_within_the_width(width: int, color: bool, encoding: str) -> None:
    wide = Chart(
        "± " * 99, "h × " * 40, "y" * 200, (*CHART.series, *(Series(f"±{k} " * 9, ((1.0, 10.0**k),)) for k in range(9)))
    )
    for line in re.sub("\x1b\\[[0-9;]*m", "", text(wide, Page(width, color, encoding))).splitlines():
        assert len(line) <= min(width, drawing.WIDEST + 2)


def test_no_ansi_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert ANSI not in text(CHART, Page(80, False))
    assert ANSI not in rendered("markdown", Drawn((CHART,)), Page(80, True))


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


@pytest.mark.parametrize("bad", LEFT_OUT)
def test_what_is_not_positive_and_finite_is_left_out(bad: float) -> None:
    good = ((1e-3, 1e-3), (1.0, 1.0))
    assert text(one(good[0], (bad, 1.0), (1.0, bad), good[1]), Page(60, False, "ascii")) == text(
        one(*good), Page(60, False, "ascii")
    )


@pytest.mark.parametrize("bad", LEFT_OUT)
def test_a_line_breaks_where_a_point_is_left_out(bad: float) -> None:
    whole, broken = one((1e-3, 1e-3), (1.0, 1.0)), one((1e-3, 1e-3), (0.1, bad), (1.0, 1.0))
    assert len(BRAILLE.findall(text(whole))) > 20 > len(BRAILLE.findall(text(broken)))


@pytest.mark.parametrize("bad", LEFT_OUT)
def test_a_series_without_a_point_is_not_in_the_legend(bad: float) -> None:
    shown = text(Chart("", "", "", (Series("gone", ((1.0, bad),), "x"), FORWARD)))
    assert "gone" not in shown and "o forward" in shown


@pytest.mark.parametrize("chart", [Chart("t", "x", "y", ()), one(), one((1.0, 0.0))])
def test_an_empty_chart_says_so(chart: Chart) -> None:
    assert "nothing to draw: no value is positive and finite" in text(chart)
    assert as_file("png", Drawn((chart,)))


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
    assert as_file("png", Drawn((one(*points),)))


def test_points_lie_at_their_labels() -> None:
    rows = text(one((1e-8, 1e-4), (1.0, 1.0)), Page(80, False, "ascii")).splitlines()
    at = next(line for line in rows if line.lstrip().startswith("1e-4 +"))
    below = next(line for line in rows if "1e-8" in line)
    assert at.index("o") == below.index("1e-8") + 2


def test_series_with_one_mark_get_marks_of_their_own() -> None:
    same = tuple(Series(name, ((1.0, 10.0**k), (10.0, 10.0**k))) for k, name in enumerate("abc"))
    shown = text(Chart("", "", "", same))
    assert "o a   x b   + c" in shown


@pytest.mark.parametrize("mark", ["", "ab", "\x1b", "\n", "●"])
def test_a_mark_that_cannot_be_shown_is_replaced(mark: str) -> None:
    assert "o f" in text(Chart("", "", "", (Series("f", ((1.0, 1.0),), mark),)), Page(60, False, "ascii"))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_series_is_hidden_behind_an_equal_one(encoding: str) -> None:
    points = tuple((10.0**k, 10.0**k) for k in range(9))
    shown = text(Chart("", "", "", tuple(Series(m, points, m) for m in "ox+")), Page(80, False, encoding))
    assert [sum(row.count(mark) for row in plot_of(shown)) for mark in "ox+"] == [3, 3, 3]


# Names from outside


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_acts_in_a_terminal_or_in_markdown(name: str) -> None:
    chart = Chart(name, name, name, (Series(name, ((1.0, 1.0), (2.0, 3.0))),))
    for encoding in ("utf-8", "ascii"):
        shown = text(chart, Page(60, False, encoding))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    if name.isprintable() and len(name) < 30:
        assert text(chart).count(name) == 4
    document = rendered("markdown", Drawn((chart,)))
    fence = re.match("`{3,}", document)
    assert fence and ANSI not in document
    assert [line for line in document.splitlines() if line.lstrip().startswith(fence[0])] == [
        fence[0] + "text",
        fence[0],
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_acts_in_a_picture(name: str) -> None:
    pictures = (
        Chart(name, name, name, (Series(name, ((1.0, 1.0), (2.0, 3.0))),)),
        Bars(name, name, ((name, 1.0), (name, -2.0))),
        HeatMap(name, name, [[1.0, 2.0]]),
    )
    image = as_file("svg", Drawn(pictures)).decode()
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(image).iter()}
    assert "svg" in tags and "script" not in tags
    assert as_file("png", Drawn(pictures)).startswith(b"\x89PNG\r\n\x1a\n")


def test_a_name_is_no_mathematics_and_none_is_left_out() -> None:
    image = as_file(
        "svg", Drawn((Chart("", "", "", tuple(Series(n, ((1.0, 1.0),)) for n in ("$x_1$", "_private"))),))
    ).decode()
    assert "<!-- $x_1$ -->" in image and "<!-- _private -->" in image


# Pictures


def drawn_words(*pictures: Picture) -> set[str]:
    return set(re.findall("<!-- (.*?) -->", as_file("svg", Drawn(pictures)).decode()))


def test_all_pictures_are_in_one_file() -> None:
    words = drawn_words(CHART, BARS, HEAT)
    assert {
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
    } <= words


def test_a_png_is_one_and_grows_with_its_pictures() -> None:
    def height(*pictures: Picture) -> int:
        image = as_file("png", Drawn(pictures))
        assert image.startswith(b"\x89PNG\r\n\x1a\n")
        return int.from_bytes(image[20:24])

    assert height(CHART) < height(CHART, BARS) < height(CHART, BARS, HEAT) < 2000


@pytest.mark.parametrize("form", PICTURES)
def test_the_same_report_gives_the_same_bytes(form: str) -> None:
    first = as_file(form, Drawn((CHART, BARS, HEAT)))
    assert first == as_file(form, Drawn((CHART, BARS, HEAT)))
    assert not re.search(rb"20\d\d-\d\d-\d\d", first)


def test_settings_of_the_user_change_nothing_and_are_kept() -> None:
    import matplotlib

    before = as_file("png", Drawn((CHART,)))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert as_file("png", Drawn((CHART,))) == before
        assert matplotlib.rcParams["font.size"] == 30


def test_pyplot_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert as_file("png", Drawn((CHART, BARS, HEAT)))


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


@pytest.mark.parametrize("values", BARS_OF)
@pytest.mark.parametrize("log", [False, True])
def test_any_bars_can_be_drawn(values: tuple[float, ...], log: bool) -> None:
    assert as_file("png", Drawn((Bars("t", "s", tuple((f"b{k}", v) for k, v in enumerate(values)), log),)))


def test_more_bars_than_can_be_read_are_counted() -> None:
    assert "s   (150 more not drawn)" in drawn_words(Bars("t", "s", tuple((f"b{k}", 1.0) for k in range(200))))


NAN = math.nan
MATRICES: list[Any] = [
    [[1.0, NAN], [-2.0, math.inf]], [[NAN, NAN]], [], [[]], 3.0, [1, 2, 3], np.zeros((3, 3)), np.ones((2, 3, 4)),
    np.arange(3000.0).reshape(3, 1000), np.arange(3000.0).reshape(1000, 3), [[-1.7e308, 1.7e308]], [[5e-324, 0]],
]  # fmt: skip


@pytest.mark.parametrize("values", MATRICES, ids=str)
def test_any_matrix_can_be_drawn(values: Any) -> None:
    assert as_file("png", Drawn((HeatMap("t", "u", values, ((0, 0), (-1, 5))),)))


def test_a_heat_map_says_what_its_hatching_means() -> None:
    assert "column   (hatched: not finite)" in drawn_words(HEAT)
    assert "column" in drawn_words(HeatMap("t", "u", [[1.0]]))


def test_no_pictures_and_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(painting, "_MOST_PICTURES", 2)
    assert drawn_words() == {"nothing to draw"}
    assert "5 more not drawn" in drawn_words(*[HEAT] * 7)


# Files


FORMS = ("text", "json")


def planned(
    *, pictures: bool = True, out: tuple[str, ...] = (), plot: tuple[str, ...] = (), form: str | None = None
) -> Any:
    options = Options(format=form, out=out, plot=plot, quiet=True)
    return output(FORMS, options, World(environ={}), pictures=pictures)


def test_plot_and_out_write_pictures(tmp_path: Path) -> None:
    to = planned(out=(f"{tmp_path}/a.svg",), plot=(f"{tmp_path}/b.png", f"{tmp_path}/c.SVG"))
    assert [form for form, _ in to.files] == ["svg", "png", "svg"]
    emit(Drawn((CHART,)), to, World(environ={}))
    assert (tmp_path / "b.png").read_bytes() == as_file("png", Drawn((CHART,)))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "c.SVG").read_bytes() == as_file("svg", Drawn((CHART,)))


# fmt: off
REFUSED = [
    ({"plot": ("a.json",)},                 "a.json has no ending this command can write", "endings: .svg, .png"),
    ({"plot": ("a",)},                      "a has no ending this command can write",      "endings: .svg, .png"),
    ({"plot": ("no/such/a.svg",)},          "no/such/a.svg cannot be written",             "name a file in a folder that exists"),
    ({"out": ("a.svg",), "pictures": False},   "a.svg has no ending this command can write",  "endings: .json, .txt"),
    ({"form": "svg"},                       "there is no format 'svg' for this command",   "formats: text, json"),
]
# fmt: on


@pytest.mark.parametrize(("asked", "what", "do"), REFUSED)
def test_what_cannot_be_drawn_is_refused_before_the_work(asked: dict[str, Any], what: str, do: str) -> None:
    with pytest.raises(BadOption) as caught:
        planned(**asked)
    assert (caught.value.what, caught.value.do) == (what, do)


def test_a_picture_shows_one_target(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="a picture shows one target"):
        for_several(planned(plot=(f"{tmp_path}/a.png",)), verbose=False)


def test_without_matplotlib_the_plan_fails_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadOption) as caught:
        planned(plot=(f"{tmp_path}/a.png",))
    assert (caught.value.what, caught.value.do) == ("matplotlib is not installed", "pip install 'gradcli[plot]'")
    assert planned(out=(f"{tmp_path}/a.json",)).files
    assert text(CHART)


def test_every_ending_has_a_renderer() -> None:
    assert {ENDINGS[ending] for ending in (".svg", ".png")} == set(PICTURES)
