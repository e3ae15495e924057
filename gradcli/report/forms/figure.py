"""Draw the pictures of a report into one file of a given size, with the largest letters that fit."""

import io
import itertools
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from gradcli.errors import BadOption
from gradcli.report.blocks import Bars, Chart, HeatMap, Picture, Series, is_drawable, make_one_line, make_visible
from gradcli.report.drawing.chart import COLORS_OF_CELLS, LEVELS, Cells, as_matrix
from gradcli.report.forms import Page
from gradcli.report.trace import TraceReport

Form = Literal["svg", "png", "pdf"]
Inches = tuple[float, float]

_WIDTH, _DPI = 8.0, 150  # the default width in inches, and the default dots per inch of a PNG
_MOST_PICTURES = 20
_MOST_PIXELS = 200_000_000  # of a PNG, four bytes each
_LEAST = 0.3  # the least part of its place that the axes of a picture take; less leaves only labels and legends
_SCALES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.42, 0.35, 0.3, 0.25, 0.2, 0.16, 0.13, 0.1, 0.08)  # of letters and lines
_HOPE = 2.5  # times the size that has room: larger letters are not tried
_COLUMN = 5.0  # the preferred width of a picture beside others, in inches
_SETTINGS = {
    "svg.hashsalt": "gradcli", "svg.fonttype": "path", "pdf.fonttype": 42, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": "0.9", "legend.frameon": False,
}  # fmt: skip
_POINTS = {  # sizes that are scaled with the letters
    "font.size": 9.0, "axes.titlesize": 10.0, "axes.linewidth": 0.8, "axes.labelpad": 4.0, "hatch.linewidth": 1.0,
    "xtick.major.size": 3.5, "xtick.minor.size": 2.0, "xtick.major.width": 0.8, "xtick.minor.width": 0.6,
    "xtick.major.pad": 3.5, "ytick.major.size": 3.5, "ytick.minor.size": 2.0, "ytick.major.width": 0.8,
    "ytick.minor.width": 0.6, "ytick.major.pad": 3.5,
}  # fmt: skip
_NAMELESS: dict[str, dict[str, None]] = {  # no date and no version: the same report gives the same bytes
    "svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}  # fmt: skip


def draw_picture_file(
    pictures: Sequence[Picture], form: Form, size: Inches | None = None, dpi: int | None = None
) -> bytes:
    """Return the bytes of a file with the pictures, one below another.

    Units   `size` is width and height in inches, `dpi` in dots per inch.
    Raises  BadOption for a PNG of too many pixels.
    """
    dots = dpi or _DPI
    if form == "png":
        refuse_large_png(size or _natural_size(pictures), dots)
    with use_own_settings():
        file = io.BytesIO()
        make_figure(pictures, size).savefig(file, format=form, dpi=dots, metadata=_NAMELESS[form])
    return file.getvalue()


@contextmanager
def use_own_settings() -> Iterator[None]:
    """Use gradcli's own settings of matplotlib, without warnings; the user's settings are restored at the end."""
    import matplotlib

    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(("backend", "date."))}
    with warnings.catch_warnings(), np.errstate(all="ignore"), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # a glyph that the font lacks, a layout without room
        matplotlib.rcParams.update({**defaults, **_SETTINGS})
        yield


def refuse_large_png(size: Inches, dpi: int | None) -> None:
    """Raise BadOption for a PNG of more than 200 million pixels."""
    dots = dpi or _DPI
    pixels = size[0] * size[1] * dots**2
    if pixels > _MOST_PIXELS:
        what = f"a .png of {size[0]:g}x{size[1]:g} inches at {dots} dots per inch has {pixels / 1e6:,.0f} million"
        fits = int(math.sqrt(_MOST_PIXELS / (size[0] * size[1])))
        limit = f"pixels, more than {_MOST_PIXELS / 1e6:,.0f}"
        raise BadOption(f"{what} {limit}", do=f"--dpi {fits}, a smaller --size, or a .pdf")


# Draw pictures with matplotlib: line charts, bars and matrices, each in its own part of a figure.

Axes = Any  # of matplotlib, which is loaded where it draws
Place = Any  # a part of a figure
Spot = tuple[float, float]
# Okabe and Ito (2008), Color universal design: distinct for every kind of colour vision; dark colours first
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_TINTS = (_COLORS[4], _COLORS[0])  # of regions
_DASHES = ("--", ":", "-.")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1, 1.5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
MOST_BARS = 50
_CHART, _ROWS = 4.2, 4.5  # the height of a chart, and the largest height of the rows of a matrix, in inches
_MOST_DECADES = 150
_BIGGEST = 1e300  # numbers are clipped to it, so that their range does not overflow
_BESIDE = 0.34  # the part of the width that a legend beside the axes may take; a wider one goes below
_LETTER = 0.6  # the average width of letters, relative to their height
_MARKED = 12  # marks on a line of many points


def default_height(picture: Picture) -> float:
    """Return the default height of a picture in inches."""
    if isinstance(picture, Chart):
        return _CHART
    if isinstance(picture, Bars):
        return 1.1 + 0.27 * min(len(picture.bars), MOST_BARS)
    rows, columns = Cells.of(picture).letters.shape if as_matrix(picture.values).size else (0, 0)
    high = 1.1 + float(min(_ROWS, max(1.0, rows * _cell_width(columns))))
    return high if np.isfinite(picture.values).all() else high + 0.35


def _cell_width(columns: int) -> float:
    """Return the width of a matrix entry in inches."""
    return min(0.5, 5.5 / max(columns, 1))


def _draw_chart(place: Place, chart: Chart, scale: float, inches: tuple[float, float]) -> None:
    """Draw lines on logarithmic axes; a point that cannot be drawn leaves a gap."""
    axes = place.subplots()
    looks = _Looks(chart.series, scale)
    named: list[tuple[Series, Any]] = []
    guides = 0
    for order, series in enumerate(chart.series):
        points = []
        for x, y in series.points:
            known = is_drawable(x) and is_drawable(y)
            points.append((_position_on_axis(x, True), _position_on_axis(y, True)) if known else (math.nan, math.nan))
        if all(math.isnan(x) for x, _ in points):
            continue
        look = looks.guide(guides) if series.guide else looks.of(series, order, points)
        (line,) = axes.plot(*np.transpose(points), **look)
        if series.upright:
            row = sum(one.upright for one, _ in named) + bool(chart.regions)
            _write_above_axes(axes, series.name, points[0][0], row, scale)
        guides += series.guide
        named.append((series, line))
    if not named:
        _say_nothing_drawn(axes)
        return
    axes.set(xscale="log", yscale="log")
    for axis, data in ((axes.xaxis, "get_xdata"), (axes.yaxis, "get_ydata")):
        numbers = np.concatenate([getattr(line, data)() for _, line in named])
        _set_ticks(axis, np.nanmin(numbers), np.nanmax(numbers))
    _name_axes(axes, chart.x, chart.y, scale, inches)
    axes.grid(True, which="major", linewidth=0.6 * scale)
    for k, region in enumerate(chart.regions):
        axes.axvspan(region.low, region.high, color=_TINTS[k % len(_TINTS)], alpha=0.12, linewidth=0, zorder=0)
        at, side = (region.low, "left") if k else (region.high, "right")  # the names of two regions do not meet
        _write_above_axes(axes, region.name, at, 0, scale, side)
    _draw_legend(place, axes, looks.entries(named), scale, inches)


def _write_above_axes(axes: Axes, words: str, x: float, row: int, scale: float, side: str = "center") -> None:
    """Write words above axes, in a row, over a place on the horizontal axis."""
    where = {"xytext": (0, (2 + 11 * row) * scale), "textcoords": "offset points", "ha": side, "va": "bottom"}
    axes.annotate(label_on_one_line(words, 36), (x, 1), xycoords=axes.get_xaxis_transform(), parse_math=False, **where)


class _Looks:
    """The look of the lines of a chart: a colour for each name and, if there are several styles, dashes for each style."""

    def __init__(self, series: Sequence[Series], scale: float) -> None:
        told = [one for one in series if not one.guide]
        self.styles = list(dict.fromkeys(one.style for one in told))
        self.several = len(self.styles) > 1
        self.names = list(dict.fromkeys(one.name for one in told)) if self.several else []
        self.lines, self.scale = len(series), scale

    def of(self, series: Series, order: int, points: Sequence[Spot]) -> dict[str, Any]:
        """Return the look of a line through these points; `order` counts the lines of the chart."""
        name = self.names.index(series.name) if self.several else order
        look = self._line_style(self.styles.index(series.style) if self.several else name)
        marked = _points_with_marks(points, name, len(self.names) or self.lines)
        zorder = 4 - order / self.lines  # the first line covers the rest, and all cover the guides
        return {"color": _COLORS[name % len(_COLORS)], "markevery": marked, "zorder": zorder, **look}

    def _line_style(self, mark: int) -> dict[str, Any]:
        return {
            "linewidth": 1.3 * self.scale, "marker": _MARKS[mark % len(_MARKS)], "markersize": 4.5 * self.scale,
            "markeredgecolor": "white", "markeredgewidth": 0.4 * self.scale,
            "linestyle": _LINES[mark % len(_LINES)] if self.several else "-",
        }  # fmt: skip

    def guide(self, number: int) -> dict[str, Any]:
        """Return the look of a guide, such as a limit or a prediction."""
        dashes = _DASHES[number % len(_DASHES)]
        return {"color": "0.45", "linewidth": 0.9 * self.scale, "linestyle": dashes, "zorder": 2}

    def entries(self, named: Sequence[tuple[Series, Any]]) -> list[tuple[Any, str]]:
        """Return the entries of the legend: every line or, if there are several styles, every colour and every style."""
        from matplotlib.lines import Line2D

        if not self.several:
            return [(line, series.name) for series, line in named]
        names = {series.name: line.get_color() for series, line in named if not series.guide}
        styles = dict.fromkeys(series.style for series, _ in named if not series.guide)
        colours = [(Line2D([], [], color=c, linewidth=2.5 * self.scale), name) for name, c in names.items()]
        dashes = [(Line2D([], [], color="0.25", **self._line_style(self.styles.index(one))), one) for one in styles]
        return [*colours, *dashes, *((line, series.name) for series, line in named if series.guide)]


def _points_with_marks(points: Sequence[Spot], name: int, names: int) -> list[int]:
    """Return the points with marks: different ones for each name, so that equal lines show, and all isolated points."""
    step = max(1, len(points) // _MARKED)
    drawn = [False, *(not math.isnan(x) for x, _ in points), False]
    alone = {k for k in range(len(points)) if drawn[k : k + 3] == [False, True, False]}
    return sorted({*range(name * step // max(1, names), len(points), step), *alone})


def _draw_legend(
    place: Place, axes: Axes, entries: Sequence[tuple[Any, str]], scale: float, inches: tuple[float, float]
) -> None:
    """Draw the legend beside the axes, or below them if there is no room."""
    handles, names = [handle for handle, _ in entries], [label_on_one_line(name, 36) for _, name in entries]

    def made(parent: Any, **where: Any) -> Any:
        legend = parent.legend(handles, ["-"] * len(handles), borderaxespad=0, **where)
        for entry, name in zip(legend.get_texts(), names, strict=True):
            entry.set(text=name, parse_math=False)  # matplotlib leaves out labels that begin with _
        return legend

    beside = made(axes, loc="upper left", bbox_to_anchor=(1.01, 1))
    box = beside.get_window_extent(place.canvas.get_renderer())
    width, high = box.width / axes.figure.dpi, box.height / axes.figure.dpi
    if width > _BESIDE * inches[0] or high > 0.75 * inches[1]:
        beside.remove()
        columns = int((inches[0] - 0.2 * scale) / (width + 0.25 * scale))
        made(place, loc="outside lower left", ncols=max(1, min(columns, len(entries))))


def _name_axes(axes: Axes, x: str, y: str, scale: float, inches: tuple[float, float]) -> None:
    points = 9 * scale
    axes.set_xlabel(wrap_label(label_on_one_line(x, 60), 0.75 * inches[0], points), parse_math=False)
    axes.set_ylabel(wrap_label(label_on_one_line(y, 40), 0.7 * inches[1], points), parse_math=False)


def _draw_bars(axes: Axes, bars: Bars, scale: float, inches: tuple[float, float]) -> None:
    """Draw named numbers as bars with their values; on a logarithmic axis, numbers that are not positive have no bar."""
    from matplotlib.ticker import NullFormatter

    shown = bars.bars[:MOST_BARS]
    log = bars.log and any(is_drawable(value) for _, value in shown)
    lengths = [_position_on_axis(value, log) for _, value in shown]
    known = [length for length in lengths if not math.isnan(length)]
    # logarithmic bars begin at a power of ten well below the least value, so that its bar shows
    base = 10.0 ** math.floor(math.log10(min(known)) - 0.3) if log else 0.0
    if log:
        axes.set_xscale("log")
        top = 10.0 ** min(307.0, 1.14 * math.log10(max(known)) - 0.14 * math.log10(base))
        axes.set_xlim(base, top)
        _set_ticks(axes.xaxis, base, top)
        axes.xaxis.set_minor_formatter(NullFormatter())  # every bar shows its value
    rows = range(len(shown))
    axes.barh(rows, [length - base for length in lengths], left=base, height=0.66, color=_COLORS[0], zorder=3)
    if not log:
        axes.margins(x=0.14)
        if not any(known):
            axes.set_xlim(0, 1)
        axes.axvline(0, color="0.3", linewidth=0.8 * scale, zorder=4)
    for row, (_, value), length in zip(rows, shown, lengths, strict=True):
        end, side = (base if math.isnan(length) else length), -1 if length < 0 else 1
        axes.annotate(
            _write_number(value), (end, row), xytext=(4 * side * scale, 0), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right", zorder=5,
        )  # fmt: skip
    axes.set_yticks(rows, [label_on_one_line(name, 40) for name, _ in shown], parse_math=False)
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", linewidth=0.6 * scale)
    _name_axes(axes, bars.unit, "", scale, inches)
    if not shown:
        _say_nothing_drawn(axes)


def _set_ticks(axis: Any, low: float, high: float) -> None:
    """Set the ticks of a logarithmic axis over more decades than matplotlib can tick without overflow."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if math.log10(high) - math.log10(low) > _MOST_DECADES:
        axis.set_view_interval(low, high, ignore=True)
        axis.set_major_locator(FixedLocator([10.0**k for k in range(-300, 301, 100)]))
        axis.set_minor_locator(NullLocator())


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _position_on_axis(value: float, log: bool) -> float:
    """Return the position of a number on an axis; nan if it cannot be drawn."""
    if not (is_drawable(value) if log else math.isfinite(value)):
        return math.nan
    return min(max(value, 1 / _BIGGEST if log else -_BIGGEST), _BIGGEST)


def _draw_heat_map(place: Place, heat: HeatMap, scale: float, inches: tuple[float, float]) -> None:
    """Draw a matrix in the cells and colours that it has in a page; entries that are not finite are hatched."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    axes = place.subplots()
    if not as_matrix(heat.values).size:
        _say_nothing_drawn(axes)
        return
    cells = Cells.of(heat)
    numbered = np.vectorize(f"{cells.scale.colors}x".index)(cells.letters)
    rows, columns = numbered.shape
    image = axes.imshow(
        np.ma.masked_equal(numbered, LEVELS), cmap=ListedColormap([COLORS_OF_CELLS[c] for c in cells.scale.colors]),
        vmin=-0.5, vmax=LEVELS - 0.5, interpolation="nearest",
        aspect="equal" if max(rows, columns) <= 4 * min(rows, columns) else "auto",
    )  # fmt: skip
    axes.set_anchor("W")
    hatched: dict[str, Any] = {"facecolor": COLORS_OF_CELLS["x"], "edgecolor": "0.4", "hatch": "//////", "linewidth": 0}
    axes.patch.set(**hatched)
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
    marks = cells.scale.marks()
    bar.set_ticks([LEVELS * share - 0.5 for share, _ in marks], labels=[cells.said(x) for _, x in marks])
    bar.ax.minorticks_off()
    bar.set_label(wrap_label(label_on_one_line(cells.names, 40), 0.5 * inches[1], 9 * scale), parse_math=False)
    bar.outline.set(color="0.7", linewidth=0.6 * scale)
    axes.spines[:].set(visible=True, color="0.7", linewidth=0.6 * scale)
    for k, axis in enumerate((axes.yaxis, axes.xaxis)):
        axis.set_ticks([at - 0.5 for _, at in cells.ticks(k)], [str(index) for index, _ in cells.ticks(k)])
    _name_axes(axes, "column", "row", scale, inches)
    if (cells.letters == "x").any():
        place.legend([Patch(**hatched)], ["not finite"], loc="outside lower left", borderaxespad=0)
    cell = min(_cell_width(columns) * scale, 0.6 * inches[0] / columns, 0.5 * inches[1] / rows)
    size = min(max(5.0 * scale, 0.7 * 72 * cell), 24.0 * scale)  # the size of a ring in points
    where = [(r, c) for r, c in heat.marked if 0 <= r < cells.shape[0] and 0 <= c < cells.shape[1]]
    for color, width in (("white", 3.0), ("black", 1.4)):
        axes.scatter(
            [cells.place(1, c) - 0.5 for _, c in where], [cells.place(0, r) - 0.5 for r, _ in where], s=size**2,
            facecolors="none", edgecolors=color, linewidths=width * scale, zorder=3,
        )  # fmt: skip


def _say_nothing_drawn(axes: Axes) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing to draw", ha="center", va="center", transform=axes.transAxes)


def label_on_one_line(text: str, most: int) -> str:
    """Return text on one line of at most `most` characters, with control characters made visible."""
    line = make_one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def wrap_label(text: str, inches: float, points: float) -> str:
    """Return text in lines that fit into this width. Units: the width in inches, the size of letters in points."""
    return "\n".join(textwrap.wrap(text, max(8, int(inches * 72 / (points * _LETTER)))))


def describe_left_out(pictures: Sequence[Picture]) -> tuple[str, ...]:
    """Return sentences that say which pictures and bars are left out of a file."""
    more = len(pictures) - _MOST_PICTURES
    found = [f"{more} more pictures are not drawn"] if more > 0 else []
    for picture in pictures[:_MOST_PICTURES]:
        if isinstance(picture, Bars) and len(picture.bars) > MOST_BARS:
            found.append(f"{picture.title}: {len(picture.bars) - MOST_BARS} more bars are not drawn")
    return tuple(found)


def make_figure(pictures: Sequence[Picture], size: Inches | None = None) -> Any:
    """Return a figure of these pictures, with the largest letters at which nothing is cut; call it in `use_own_settings`."""
    shown = pictures[:_MOST_PICTURES]
    inches = size or _natural_size(pictures)
    most = 1 if size is None else len(shown)
    columns = max(range(1, most + 1), key=lambda n: _estimate_scale(shown, inches, n), default=1)
    room = _estimate_scale(shown, inches, columns)
    high = len(_SCALES) - 1  # the smallest scale is used even if it does not fit
    low = next((k for k, scale in enumerate(_SCALES) if scale <= _HOPE * room), high)
    figure = _lay_out_figure(shown, inches, columns, _SCALES[low])
    if low == high or _has_enough_room(figure, _SCALES[low]):
        return figure
    while high - low > 1:
        middle = (low + high) // 2
        if _has_enough_room(tried := _lay_out_figure(shown, inches, columns, _SCALES[middle]), _SCALES[middle]):
            high, figure = middle, tried
        else:
            low = middle
    if high == len(_SCALES) - 1:
        return _lay_out_figure(shown, inches, columns, _SCALES[high])
    _set_letter_sizes(_SCALES[high])
    return figure


def _natural_size(pictures: Sequence[Picture]) -> Inches:
    return _WIDTH, sum(map(default_height, pictures[:_MOST_PICTURES])) or 1.0


def _estimate_scale(pictures: Sequence[Picture], inches: Inches, columns: int) -> float:
    """Return about how large pictures in this many columns can be, relative to their preferred size."""
    return min(inches[0] / (_COLUMN * columns), inches[1] / sum(_heights_of_rows(pictures, columns)))


def _heights_of_rows(pictures: Sequence[Picture], columns: int) -> list[float]:
    """Return the preferred height of each row of pictures, in inches."""
    found = [default_height(picture) for picture in pictures] or [1.0]
    return [max(found[k : k + columns]) for k in range(0, len(found), columns)]


def _set_letter_sizes(scale: float) -> None:
    """Set the sizes of letters and lines of new objects; ticks are only made when a figure is drawn."""
    import matplotlib

    matplotlib.rcParams.update({name: points * scale for name, points in _POINTS.items()})


def _lay_out_figure(pictures: Sequence[Picture], inches: Inches, columns: int, scale: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    _set_letter_sizes(scale)
    figure: Any = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(h_pad=0.1 * scale, w_pad=0.1 * scale)
    heights = _heights_of_rows(pictures, columns)
    places = figure.subfigures(len(heights), columns, height_ratios=heights, squeeze=False)
    wide = inches[0] / columns
    for k, picture in enumerate(pictures):
        place = places[k // columns, k % columns]
        title = label_on_one_line(picture.title, 160)
        if title.strip():
            look = {"fontsize": 10 * scale, "fontweight": "bold", "parse_math": False}
            place.suptitle(wrap_label(title, wide, 11 * scale), x=0.1 * scale / wide, ha="left", **look)
        room = (wide, inches[1] * heights[k // columns] / sum(heights))
        if isinstance(picture, Chart):
            _draw_chart(place, picture, scale, room)
        elif isinstance(picture, Bars):
            _draw_bars(place.subplots(), picture, scale, room)
        else:
            _draw_heat_map(place, picture, scale, room)
    if not pictures:
        figure.text(0.5, 0.5, "nothing to draw", ha="center", va="center")
    return figure


def _has_enough_room(figure: Any, scale: float) -> bool:
    """Whether every picture fits in its place with all words, without overlaps, and is large enough to be seen."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    room = figure.dpi * 0.02 * scale
    for place in figure.subfigs:
        boxes = [axes.get_tightbbox(renderer) for axes in place.axes]
        around = [part.get_window_extent(renderer) for part in (place._suptitle, *place.legends) if part is not None]
        whole = place.bbox.padded(room)
        if any(b.x0 < whole.x0 or b.y0 < whole.y0 or b.x1 > whole.x1 or b.y1 > whole.y1 for b in (*boxes, *around)):
            return False
        if any(one.overlaps(box.padded(-room)) for one in around for box in boxes):
            return False
        for axes in place.axes:
            allotted = axes.get_position(original=True)
            if min(allotted.width, allotted.height) < _LEAST or any(_overlaps_of_labels(axes, renderer)):
                return False
    return True


def _overlaps_of_labels(axes: Any, renderer: Any) -> Iterator[bool]:
    """Yield, for each two neighbouring labels on an axis, whether they overlap."""
    for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
        labels = [label for label in axis.get_ticklabels(which="both") if label.get_visible() and label.get_text()]
        boxes = sorted((label.get_window_extent(renderer) for label in labels), key=lambda box: getattr(box, low))
        yield from (getattr(a, high) > getattr(b, low) for a, b in itertools.pairwise(boxes))


# Pictures as text: SVG, with the graph of a computation or what matplotlib draws, and graphs for Mermaid.

_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1f2328; text-anchor: middle; }
rect { fill: #fff; stroke: #8c959f; rx: 5px; }
path { fill: none; stroke: #8c959f; stroke-width: 1.5; }
.n { font-weight: 700; } .edges text { text-anchor: end; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.down text { text-anchor: middle; } .edges path { marker-end: url(#arrow); } marker path { fill: #8c959f; stroke: none; }
.given { opacity: .65; } .given rect { stroke-dasharray: 2 2; }
.v { fill: #0a5bb5; }
.a { fill: #116329; } .c { fill: #b3261e; font-weight: 700; } .bad rect { stroke: #b3261e; stroke-width: 2; }
.many rect { stroke-dasharray: 6 3; }
"""


def render_svg(report: Any, page: Page) -> str:
    """Return the graph of a computation, or the report's pictures, one below another, as SVG."""
    if isinstance(report, TraceReport):
        from gradcli.report.drawing.graph import draw_graph

        return f"{draw_graph(report, style=_STYLE, down=page.down).svg}\n"
    return draw_picture_file(report.pictures(), "svg", page.size, page.dpi).decode()


def render_png(report: Any, page: Page) -> bytes:
    """Return the report's pictures, one below another, as PNG."""
    return draw_picture_file(report.pictures(), "png", page.size, page.dpi)


def render_pdf(report: Any, page: Page) -> bytes:
    """Return the report's pictures, one below another, as PDF."""
    return draw_picture_file(report.pictures(), "pdf", page.size, page.dpi)


def render_mermaid(report: Any, page: Page) -> str:
    """Return the report's graph as a Mermaid flowchart."""
    graph = report.graph()
    nodes = [f'  n{name}["{_escape_mermaid(label)}"]' for name, label in graph.nodes]
    edges = [f'  n{a} -->|"{_escape_mermaid(label)}"| n{b}' for a, b, label in graph.edges]
    return "\n".join(["flowchart LR", *nodes, *edges]) + "\n"


def _escape_mermaid(text: str) -> str:
    """Return text with special characters as Mermaid entities, so that nothing in it is syntax or HTML."""
    safe = "".join(c if c.isalnum() or c in " .,=+-_\n" else f"#{ord(c)};" for c in make_visible(text))
    return safe.replace("\n", "<br/>")
