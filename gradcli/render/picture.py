"""Pictures in a file, by matplotlib's objects: no global state, no settings of the user, the same bytes each time."""

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gradcli.errors import BadOption
from gradcli.report.blocks import Bars, Chart, HeatMap, Picture, drawable
from gradcli.report.escape import visible

Axes = Any  # matplotlib is optional
_ILLEGAL = re.compile("[\ufffe\uffff]")  # in XML
# Okabe and Ito (2008), Color universal design: told apart by every kind of colour vision; the dark ones first
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("--", ":", "-.")
_WIDTH, _DPI = 8.0, 150  # inches, and dots per inch of a PNG
_MOST_PICTURES, _MOST_BARS = 20, 50
_MOST_DECADES = 150
_BIGGEST = 1e300  # numbers are clipped to it: their range must be a float too
_SETTINGS = {
    "svg.hashsalt": "gradcli", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 10, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": "0.9", "legend.frameon": False,
}  # fmt: skip


def need_matplotlib() -> None:
    """Raise BadOption where pictures cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise BadOption("matplotlib is not installed", do="pip install 'gradcli[plot]'") from None


def drawn(pictures: Sequence[Picture], form: Literal["svg", "png"]) -> bytes:
    """Return pictures, one below another, as a file.

    Raises  BadOption where matplotlib is missing.
    """
    need_matplotlib()
    import matplotlib

    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(("backend", "date."))}
    with warnings.catch_warnings(), np.errstate(all="ignore"), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # a glyph that the font lacks, a setting that is on its way out
        matplotlib.rcParams.update({**defaults, **_SETTINGS})
        file = io.BytesIO()
        nameless = {"Date": None} if form == "svg" else {"Software": None}
        _figure(pictures).savefig(file, format=form, dpi=_DPI, metadata=nameless)
    return file.getvalue()


def _figure(pictures: Sequence[Picture]) -> Any:
    from matplotlib.figure import Figure

    shown = pictures[:_MOST_PICTURES]
    heights = [_height(picture) for picture in shown] or [1.0]
    left_out = len(pictures) - len(shown)
    figure: Any = Figure(figsize=(_WIDTH, sum(heights) + 0.3 * bool(left_out)), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
    places = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for place, picture in zip(places, shown, strict=False):
        place.suptitle(_label(picture.title, 80), x=0.012, ha="left", fontsize=10, fontweight="bold", parse_math=False)
        if isinstance(picture, Chart):
            _chart(place.subplots(), picture)
        elif isinstance(picture, Bars):
            _bars(place.subplots(), picture)
        else:
            _heat_map(place.subplots(), picture)
    if left_out:
        figure.supxlabel(f"{left_out} more not drawn", fontsize=9)
    if not shown:
        figure.text(0.5, 0.5, "nothing to draw", ha="center", va="center")
    return figure


def _height(picture: Picture) -> float:
    """Return the inches a picture takes."""
    if isinstance(picture, Chart):
        return 4.2
    if isinstance(picture, Bars):
        return 1.1 + 0.27 * min(len(picture.bars), _MOST_BARS)
    rows, columns = _matrix(picture).shape
    height: float = 1.1 + min(4.5, max(1.0, rows * _cell(columns)))
    return height


def _cell(columns: int) -> float:
    """Return the inches of a matrix entry across."""
    return min(0.5, 5.5 / max(columns, 1))


def _chart(axes: Axes, chart: Chart) -> None:
    """Draw lines over one another, logarithmic both ways; a point left out is a gap."""
    handles, names, guides = [], [], 0
    for k, series in enumerate(chart.series):
        points = [
            tuple(_placed(number, log=True) for number in point) if all(map(drawable, point)) else (math.nan, math.nan)
            for point in series.points
        ]
        if all(math.isnan(x) for x, _ in points):
            continue
        look: dict[str, Any] = {
            "color": _COLORS[k % len(_COLORS)], "linewidth": 1.3, "marker": _MARKS[k % len(_MARKS)], "markersize": 4.5,
            "markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 3,
        }  # fmt: skip
        if series.guide:
            look = {"color": "0.45", "linewidth": 0.9, "linestyle": _DASHES[guides % len(_DASHES)], "zorder": 2}
            guides += 1
        handles += axes.plot(*np.transpose(points), **look)
        names.append(_label(series.name, 36))
    if not handles:
        _say(axes, "nothing to draw: no value is positive and finite")
        return
    axes.set(xscale="log", yscale="log")
    for axis, data in ((axes.xaxis, "get_xdata"), (axes.yaxis, "get_ydata")):
        numbers = np.concatenate([getattr(handle, data)() for handle in handles])
        _ticks(axis, np.nanmin(numbers), np.nanmax(numbers))
    axes.set_xlabel(_label(chart.x, 60), parse_math=False)
    axes.set_ylabel(_label(chart.y, 40), parse_math=False)
    axes.grid(True, which="major", linewidth=0.6)
    legend = axes.legend(handles, ["-"] * len(handles), loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    for entry, name in zip(legend.get_texts(), names, strict=True):
        entry.set(text=name, parse_math=False)  # not as a label: one that begins with _ would be left out


def _bars(axes: Axes, bars: Bars) -> None:
    """Draw named numbers as bars with their values; on a logarithmic axis what is not positive has a name and no bar."""
    shown = bars.bars[:_MOST_BARS]
    log = bars.log and any(drawable(value) for _, value in shown)
    lengths = [_placed(value, log) for _, value in shown]
    known = [length for length in lengths if not math.isnan(length)]
    base = _below(min(known)) if log else 0.0
    if log:
        axes.set_xscale("log")
        top = 10.0 ** min(307.0, 1.14 * math.log10(max(known)) - 0.14 * math.log10(base))
        axes.set_xlim(base, top)
        _ticks(axes.xaxis, base, top)
    rows = range(len(shown))
    axes.barh(rows, [length - base for length in lengths], left=base, height=0.66, color=_COLORS[0], zorder=3)
    if not log:
        axes.margins(x=0.14)
        if not any(known):
            axes.set_xlim(0, 1)
        axes.axvline(0, color="0.3", linewidth=0.8, zorder=4)
    for row, (_, value), length in zip(rows, shown, lengths, strict=True):
        end, side = (base if math.isnan(length) else length), -1 if length < 0 else 1
        axes.annotate(
            _number(value), (end, row), xytext=(4 * side, 0), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right", zorder=5,
        )  # fmt: skip
    axes.set_yticks(rows, [_label(name, 40) for name, _ in shown], parse_math=False)
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", linewidth=0.6)
    more = f"   ({len(bars.bars) - len(shown)} more not drawn)" if len(bars.bars) > len(shown) else ""
    axes.set_xlabel(_label(bars.unit, 60) + more, parse_math=False)
    if not shown:
        _say(axes, "nothing to draw")


def _ticks(axis: Any, low: float, high: float) -> None:
    """Set the ticks of a logarithmic axis over more decades than matplotlib can tick without overflow."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if math.log10(high) - math.log10(low) > _MOST_DECADES:
        axis.set_view_interval(low, high, ignore=True)
        axis.set_major_locator(FixedLocator([10.0**k for k in range(-300, 301, 100)]))
        axis.set_minor_locator(NullLocator())


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _placed(value: float, log: bool) -> float:
    """Return where a number lies on an axis, nan if nowhere."""
    if not (drawable(value) if log else math.isfinite(value)):
        return math.nan
    return min(max(value, 1 / _BIGGEST if log else -_BIGGEST), _BIGGEST)


def _below(least: float) -> float:
    """Return the power of ten a logarithmic bar of this value begins at: well below it, so that it is seen."""
    power: float = 10.0 ** math.floor(math.log10(least) - 0.3)
    return power


def _heat_map(axes: Axes, heat: HeatMap) -> None:
    """Draw a matrix: one hue for values of one sign, two about zero for both; hatched where there is no finite value."""
    from matplotlib.ticker import MaxNLocator

    values = _matrix(heat)
    finite = values[np.isfinite(values)]
    if not values.size:
        _say(axes, "nothing to draw: no entries")
        return
    both = finite.size and finite.min() < 0 < finite.max()
    least, most = (-np.abs(finite).max(), np.abs(finite).max()) if both else (None, None)
    image = axes.imshow(
        np.ma.masked_invalid(values), cmap="PuOr" if both else "viridis", vmin=least, vmax=most,
        interpolation="nearest", aspect="equal" if max(values.shape) <= 4 * min(values.shape) else "auto",
    )  # fmt: skip
    axes.set_anchor("W")
    axes.patch.set(facecolor="white", edgecolor="0.55", hatch="//////", linewidth=0)
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
    bar.set_label(_label(heat.unit, 40), parse_math=False)
    bar.outline.set_visible(False)
    axes.spines[:].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set(xlabel="column" + "   (hatched: not finite)" * (finite.size < values.size), ylabel="row")
    rows, columns = values.shape
    size = min(max(5.0, 0.7 * 72 * min(_cell(columns), 4.5 / rows)), 24.0)  # of a ring, in points
    where = [(row, column) for row, column in heat.marked if 0 <= row < rows and 0 <= column < columns]
    for color, width in (("white", 3.0), ("black", 1.4)):
        axes.scatter(
            [column for _, column in where], [row for row, _ in where], s=size**2, facecolors="none",
            edgecolors=color, linewidths=width, zorder=3,
        )  # fmt: skip


def _matrix(heat: HeatMap) -> Any:
    """Return the values as a float matrix; a vector is one row."""
    values = np.asarray(heat.values, float)
    values = values.reshape(-1, values.shape[-1]) if values.ndim > 2 else np.atleast_2d(values)
    return np.where(np.isinf(values), np.nan, np.clip(values, -_BIGGEST, _BIGGEST))


def _say(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)


def _label(text: str, most: int) -> str:
    """Return text from outside on one line of at most `most` characters; it is never read as mathematics."""
    line = _ILLEGAL.sub("\ufffd", visible(text)).replace("\n", " ").replace("\t", " ")
    return line if len(line) <= most else line[: most - 1] + "…"
