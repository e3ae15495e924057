"""Draw the pictures of a report into one file of a given size, with the largest letters that fit."""

import io
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from gradcli.errors import BadOption
from gradcli.report.blocks import Bars, Picture
from gradcli.report.forms.picture import MOST_BARS, draw, height, labelled, wrapped

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


def drawn(pictures: Sequence[Picture], form: Form, size: Inches | None = None, dpi: int | None = None) -> bytes:
    """Return the bytes of a file with the pictures, one below another.

    Units   `size` is width and height in inches, `dpi` in dots per inch.
    Raises  BadOption for a PNG of too many pixels.
    """
    dots = dpi or _DPI
    if form == "png":
        refuse_large(size or _natural(pictures), dots)
    with own_settings():
        file = io.BytesIO()
        figure_of(pictures, size).savefig(file, format=form, dpi=dots, metadata=_NAMELESS[form])
    return file.getvalue()


@contextmanager
def own_settings() -> Iterator[None]:
    """Use gradcli's own settings of matplotlib, without warnings; the user's settings are restored at the end."""
    import matplotlib

    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(("backend", "date."))}
    with warnings.catch_warnings(), np.errstate(all="ignore"), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # a glyph that the font lacks, a layout without room
        matplotlib.rcParams.update({**defaults, **_SETTINGS})
        yield


def refuse_large(size: Inches, dpi: int | None) -> None:
    """Raise BadOption for a PNG of more than 200 million pixels."""
    dots = dpi or _DPI
    pixels = size[0] * size[1] * dots**2
    if pixels > _MOST_PIXELS:
        what = (
            f"a .png of {size[0]:g}x{size[1]:g} inches at {dots} dots per inch has {pixels / 1e6:,.0f} million pixels"
        )
        fits = int(math.sqrt(_MOST_PIXELS / (size[0] * size[1])))
        raise BadOption(f"{what}, more than {_MOST_PIXELS / 1e6:,.0f}", do=f"--dpi {fits}, a smaller --size, or a .pdf")


def left_out(pictures: Sequence[Picture]) -> tuple[str, ...]:
    """Return sentences that say which pictures and bars are left out of a file."""
    more = len(pictures) - _MOST_PICTURES
    found = [f"{more} more pictures are not drawn"] if more > 0 else []
    for picture in pictures[:_MOST_PICTURES]:
        if isinstance(picture, Bars) and len(picture.bars) > MOST_BARS:
            found.append(f"{picture.title}: {len(picture.bars) - MOST_BARS} more bars are not drawn")
    return tuple(found)


def figure_of(pictures: Sequence[Picture], size: Inches | None = None) -> Any:
    """Return a figure of these pictures, with the largest letters at which nothing is cut; call it in `own_settings`."""
    shown = pictures[:_MOST_PICTURES]
    inches = size or _natural(pictures)
    columns = 1 if size is None else max(range(1, len(shown) + 1), key=lambda n: _room(shown, inches, n), default=1)
    room = _room(shown, inches, columns)
    high = len(_SCALES) - 1  # the smallest scale is used even if it does not fit
    low = next((k for k, scale in enumerate(_SCALES) if scale <= _HOPE * room), high)
    figure = _laid_out(shown, inches, columns, _SCALES[low])
    if low == high or _fits(figure, _SCALES[low]):
        return figure
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(tried := _laid_out(shown, inches, columns, _SCALES[middle]), _SCALES[middle]):
            high, figure = middle, tried
        else:
            low = middle
    if high == len(_SCALES) - 1:
        return _laid_out(shown, inches, columns, _SCALES[high])
    _letters(_SCALES[high])
    return figure


def _natural(pictures: Sequence[Picture]) -> Inches:
    return _WIDTH, sum(map(height, pictures[:_MOST_PICTURES])) or 1.0


def _room(pictures: Sequence[Picture], inches: Inches, columns: int) -> float:
    """Return about how large pictures in this many columns can be, relative to their preferred size."""
    return min(inches[0] / (_COLUMN * columns), inches[1] / sum(_heights(pictures, columns)))


def _heights(pictures: Sequence[Picture], columns: int) -> list[float]:
    """Return the preferred height of each row of pictures, in inches."""
    found = [height(picture) for picture in pictures] or [1.0]
    return [max(found[k : k + columns]) for k in range(0, len(found), columns)]


def _letters(scale: float) -> None:
    """Set the sizes of letters and lines of new objects; ticks are only made when a figure is drawn."""
    import matplotlib

    matplotlib.rcParams.update({name: points * scale for name, points in _POINTS.items()})


def _laid_out(pictures: Sequence[Picture], inches: Inches, columns: int, scale: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    _letters(scale)
    figure: Any = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(h_pad=0.1 * scale, w_pad=0.1 * scale)
    heights = _heights(pictures, columns)
    places = figure.subfigures(len(heights), columns, height_ratios=heights, squeeze=False)
    wide = inches[0] / columns
    for k, picture in enumerate(pictures):
        place = places[k // columns, k % columns]
        title = labelled(picture.title, 80)
        if title.strip():
            look = {"fontsize": 10 * scale, "fontweight": "bold", "parse_math": False}
            place.suptitle(wrapped(title, wide, 11 * scale), x=0.1 * scale / wide, ha="left", **look)
        draw(place, picture, scale, (wide, inches[1] * heights[k // columns] / sum(heights)))
    if not pictures:
        figure.text(0.5, 0.5, "nothing to draw", ha="center", va="center")
    return figure


def _fits(figure: Any, scale: float) -> bool:
    """Whether every picture fits in its place with all words, without overlaps, and is large enough to be seen."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    room = figure.dpi * 0.02 * scale
    for place in figure.subfigs:
        boxes = [axes.get_tightbbox(renderer) for axes in place.axes]
        around = [part.get_window_extent(renderer) for part in (place._suptitle, *place.legends) if part is not None]
        if not all(_inside(box, place.bbox, room) for box in (*boxes, *around)):
            return False
        if any(one.overlaps(box.padded(-room)) for one in around for box in boxes):
            return False
        for axes in place.axes:
            allotted = axes.get_position(original=True)
            if min(allotted.width, allotted.height) < _LEAST or any(_crowded(axes, renderer)):
                return False
    return True


def _inside(box: Any, place: Any, room: float) -> bool:
    whole = place.padded(room)
    return bool(box.x0 >= whole.x0 and box.y0 >= whole.y0 and box.x1 <= whole.x1 and box.y1 <= whole.y1)


def _crowded(axes: Any, renderer: Any) -> Iterator[bool]:
    """Yield, for each two neighbouring labels on an axis, whether they overlap."""
    for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
        labels = [label for label in axis.get_ticklabels(which="both") if label.get_visible() and label.get_text()]
        boxes = sorted((label.get_window_extent(renderer) for label in labels), key=lambda box: getattr(box, low))
        yield from (getattr(a, high) > getattr(b, low) for a, b in itertools.pairwise(boxes))
