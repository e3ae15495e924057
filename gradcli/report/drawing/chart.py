"""Charts, bars and matrices as SVG. Colours are classes of a style sheet; each series has a mark of its own besides."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Bars, Chart, HeatMap, Series, escape_markup, is_drawable

COLORS = 7  # classes k0 to k6 of lines
SWITCHED_NAMES, SWITCHED_STYLES = 16, 8  # lines that the style sheet of pages can switch off
MARKS = (
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", "M-3-3h6v6h-6z", "M0-4l3.6 6.5h-7.2z", "M0-4l4 4-4 4-4-4z", "M0 4l3.6-6.5h-7.2z",
    "M-1-5h2v4h4v2h-4v4h-2v-4h-4v-2h4z",  # its ends show behind every other mark
)  # fmt: skip
_WIDE, _HIGH = 480, 340  # on a phone, its letters are still those of a footnote
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 44
_LINE = 15  # the height of a line of words
_TINTS = ("#e69f00", "#0072b2")  # of the regions of a chart
_LETTER = 7.3  # the width of one
_EDGE = 0.2  # of the width: so near to an edge, a name has no room
_MOST_TICKS = 9
_MOST_CELLS = 40  # rows or columns of a matrix that are drawn one by one
_DECADES = "power of ten"  # the unit of relative errors
_ERRORS = (-17.0, 0.0)  # their decades: the last bit, and no right digit
_MOST_INDICES = 10  # along an axis of a map
_LARGEST_MAP = 400  # the width or height of a matrix
_BAR = 22  # the height of a bar and the room below it
_NAMES, _NUMBERS = 140, 80  # the widths of the words beside bars


def draw_chart(picture: Chart) -> str:
    """Return lines on logarithmic axes, of which each point says its numbers; an empty text where no point can be drawn.

    The page that shows it needs `define_marks` once.
    """
    spots = [point for series in picture.series for point in series.points if all(map(is_drawable, point))]
    if not spots:
        return ""
    x, y = (_Axis([math.log10(spot[k]) for spot in spots]) for k in (0, 1))
    looks = Looks.of(picture)
    parts, names, right = [], [], float(_WIDE)
    for k, region in enumerate(picture.regions):  # behind the lines
        (low, _), (high, _) = (_pixels_of_shares(x.share(h), 0) for h in (region.low, region.high))
        box = f'x="{low:.1f}" y="{_TOP}" width="{high - low:.1f}" height="{_HIGH - _TOP - _BOTTOM}"'
        parts.append(f'<rect {box} fill="{_TINTS[k % len(_TINTS)]}" fill-opacity="0.12"/>')
        if k == 0 and x.share(region.high) > _EDGE:  # the name of the first ends with it, the others begin with theirs
            names.append(_draw_name(region.name, high, "left"))
        else:
            names.append(_draw_name(region.name, low, "right"))
            right = max(right, low + _LETTER * len(region.name))
    uprights = sorted((s for s in picture.series if s.upright), key=lambda s: s.points[0][0])
    over = _LINE * (len(uprights) + bool(names))
    parts += [*names, _draw_frame(x, y, picture)]
    parts += [_draw_series(series, looks, x, y) for series in reversed(picture.series) if not series.upright]
    for row, series in enumerate(uprights, start=bool(names)):  # each up to its name
        share = x.share(series.points[0][0])
        at, _ = _pixels_of_shares(share, 0)
        # of several, names end at their lines, so that no line crosses a name
        beside: Literal["left", ""] = "left" if len(uprights) > 1 or share > 1 - _EDGE else ""
        name = _draw_name(series.name, at, "right" if share < _EDGE else beside, row)
        line = f'<path class="line" d="M{at:.1f} {_TOP - _LINE * row}V{_HIGH - _BOTTOM}"/>'
        parts.append(f'<g class="{looks.classes(series)}">{line}{name}</g>')
    said = (*map(_series_name, picture.series), *(region.name for region in picture.regions))
    return _wrap_in_svg("chart", f"{picture.title}: {', '.join(said)}", right, _HIGH + over, parts, over)


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of the lines of a chart: a colour for each name and, where there are several, a mark and dashes for each style.

    Where all lines have one style, each name has a mark as well.
    """

    names: tuple[str, ...]
    styles: tuple[str, ...]

    @classmethod
    def of(cls, picture: Chart) -> "Looks":
        """Return the looks of a chart; guides are names, too, without a mark."""
        styles = tuple(dict.fromkeys(series.style for series in picture.series if not series.guide))
        return cls(tuple(dict.fromkeys(series.name for series in picture.series)), styles)

    def classes(self, series: Series) -> str:
        """Return the classes of a line, by which a style sheet finds it: n0 its name, y0 its style, k0 its colour."""
        name = self.names.index(series.name)
        if series.guide:
            return f"n{name} guide"
        return f"n{name} y{self.styles.index(series.style)} k{name % COLORS}"

    def mark(self, name: int, style: int) -> str:
        """Return the name of the mark of a line."""
        return f"m{(style if len(self.styles) > 1 else name) % len(MARKS)}"

    def samples(self, picture: Chart) -> Iterator[tuple[Literal["n", "y"], int, str, str]]:
        """Yield each name (n) and, of several, each style (y): its number, a line as a legend shows it, and its words."""
        several = len(self.styles) > 1
        for k, name in enumerate(self.names):
            guide = any(series.guide and series.name == name for series in picture.series)
            look, mark = ("guide", "") if guide else (f"k{k % COLORS}", "" if several else self.mark(k, 0))
            yield "n", k, _legend_line(look, mark), name
        for k, style in enumerate(self.styles) if several else ():
            yield "y", k, _legend_line(f"y{k}", self.mark(0, k)), style


def _legend_line(look: str, mark: str) -> str:
    content = '<path class="line" d="M0 8h28"/>' + (_place_mark(mark, 14, 8) if mark else "")
    return f'<svg width="28" height="16" aria-hidden="true"><g class="{look}">{content}</g></svg>'


def _place_mark(mark: str, x: float, y: float, says: str = "") -> str:
    title = f"<title>{escape_markup(says)}</title>" if says else ""
    return f'<use href="#{mark}" x="{x:g}" y="{y:g}">{title}</use>'


def define_marks() -> str:
    """Return the marks of all charts of a page, to be drawn by their names."""
    paths = "".join(f'<path id="m{k}" transform="scale(.8)" d="{path}"/>' for k, path in enumerate(MARKS))
    return f'<svg width="0" height="0" aria-hidden="true"><defs>{paths}</defs></svg>'


class _Axis:
    """A logarithmic axis between two powers of ten."""

    def __init__(self, decades: Sequence[float]) -> None:
        self.low = math.floor(min(decades))
        self.high = max(math.ceil(max(decades)), self.low + 1)

    def share(self, number: float) -> float:
        """Return where a number lies, from 0 to 1."""
        return self.of_decade(math.log10(number))

    def of_decade(self, decade: float) -> float:
        """Return where a power of ten lies, from 0 to 1, also beyond the range of float64."""
        return (decade - self.low) / (self.high - self.low)

    def ticks(self) -> list[int]:
        step = numbers.round_step((self.high - self.low) / _MOST_TICKS)
        return [k for k in range(self.low, self.high + 1) if k % step == 0]


def _series_name(series: Series) -> str:
    return " ".join(filter(None, (series.name, series.style)))


def _pixels_of_shares(across: float, up: float) -> tuple[float, float]:
    return _LEFT + across * (_WIDE - _LEFT - _RIGHT), _HIGH - _BOTTOM - up * (_HIGH - _TOP - _BOTTOM)


def _draw_frame(x: _Axis, y: _Axis, picture: Chart) -> str:
    grid, words = "", ""
    for k in x.ticks():
        at, _ = _pixels_of_shares(x.of_decade(k), 0)
        grid += f"M{at:.1f} {_TOP}V{_HIGH - _BOTTOM}"
        words += f'<text x="{at:.1f}" y="{_HIGH - _BOTTOM + 16}">{_write_power_of_ten(k)}</text>'
    for k in y.ticks():
        _, at = _pixels_of_shares(0, y.of_decade(k))
        grid += f"M{_LEFT} {at:.1f}H{_WIDE - _RIGHT}"
        words += f'<text class="left" x="{_LEFT - 6}" y="{at + 4:.1f}">{_write_power_of_ten(k)}</text>'
    middle, half = (_LEFT + _WIDE - _RIGHT) / 2, (_TOP + _HIGH - _BOTTOM) / 2
    words += f'<text x="{middle:.0f}" y="{_HIGH - 8}">{escape_markup(picture.x)}</text>'
    words += f'<text transform="translate(13 {half:.0f}) rotate(-90)">{escape_markup(picture.y)}</text>'
    return f'<path class="grid" d="{grid}"/>{words}'


def _draw_name(words: str, at: float, side: Literal["left", "right", ""], row: int = 0) -> str:
    """Return a name above the frame, in a row: it ends at a place, begins there, or has it in its middle."""
    look = f' class="{side}"' if side else ""
    return f'<text{look} x="{at:.1f}" y="{_TOP - _LINE * row - 4}">{escape_markup(words)}</text>'


def _write_power_of_ten(k: int) -> str:
    return f"1e{k}" if k else "1"


def _draw_series(series: Series, looks: Looks, x: _Axis, y: _Axis) -> str:
    name = looks.names.index(series.name)
    mark = "" if series.guide else looks.mark(name, looks.styles.index(series.style))
    path, gap, spots = "", True, ""
    for point in series.points:
        if not all(map(is_drawable, point)):
            gap = True
            continue
        across, up = map(round, _pixels_of_shares(x.share(point[0]), y.share(point[1])))
        path += f"{'M' if gap else 'L'}{across} {up}"
        gap = False
        says = f"{_series_name(series)}: {numbers.few_digits(point[1], 3)} at {numbers.few_digits(point[0], 3)}"
        spots += _place_mark(mark, across, up, says) if mark else ""
    return f'<g class="{looks.classes(series)}"><path class="line" d="{path}"/>{spots}</g>'


def draw_bars(picture: Bars) -> str:
    """Return named numbers as bars with their values; on a logarithmic axis, numbers that are not positive have no bar."""
    known = [value for _, value in picture.bars if (is_drawable(value) if picture.log else math.isfinite(value))]
    if not known:
        return ""
    low = math.floor(math.log10(min(known))) - 0.3 if picture.log else min(0.0, *known)
    high = math.log10(max(known)) if picture.log else max(0.0, *known)
    room = _WIDE - _NAMES - _NUMBERS
    parts = []
    for k, (name, value) in enumerate(picture.bars):
        top = k * _BAR
        share = ((math.log10(value) if picture.log else value) - low) if value in known else 0.0
        length = room * share / ((high - low) or 1.0)
        at_end = escape_markup(numbers.few_digits(value, 3))
        parts.append(
            f'<text class="left" x="{_NAMES - 8}" y="{top + 14}">{escape_markup(name)}</text>'
            f'<rect class="bar" x="{_NAMES}" y="{top + 2}" width="{max(length, 0):.0f}" height="{_BAR - 6}"/>'
            f'<text class="right" x="{_NAMES + length + 6:.0f}" y="{top + 14}">{at_end}</text>'
        )
    bars = ", ".join(f"{name} {numbers.few_digits(value, 3)}" for name, value in picture.bars)
    words = f"{picture.title}, in {picture.unit}{', on a logarithmic scale' * picture.log}: {bars}"
    return _wrap_in_svg("bars", words, _WIDE, _BAR * len(picture.bars) + 4, parts)


# Matrices in few cells, and cells in levels of one or two colours.

LEVELS = 9  # of a colour, from light to dark
# Blues and Oranges of Harrower and Brewer (2003), ColorBrewer.org: told apart by every kind of colour vision
_BLUES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b")
_ORANGES = ("#fff5eb", "#fee6ce", "#fdd0a2", "#fdae6b", "#fd8d3c", "#f16913", "#d94801", "#a63603", "#7f2704")
COLORS_OF_CELLS = dict(zip("012345678abcdefghi", (*_BLUES, *_ORANGES), strict=True)) | {"x": "#b9bec4"}
_POSITIVE, _NEGATIVE, _SIGNED = "012345678", "ihgfedcba", "igec02468"  # the colours of the levels, the lowest first


@dataclass(frozen=True, slots=True)
class Scale:
    """What the colours of a map mean: the values of both ends, and a letter for the colour of each level between them.

    It begins at 0, which is white: positive values are blue, negative ones orange. With both signs 0 is in the middle.
    """

    low: float
    high: float
    colors: str

    @classmethod
    def over(cls, *arrays: np.ndarray) -> "Scale":
        """Return the scale of arrays that are compared, over their finite entries."""
        finite = [x[np.isfinite(x)] for x in arrays]
        low = min((float(np.min(x, initial=0.0)) for x in finite), default=0.0) + 0.0
        high = max((float(np.max(x, initial=0.0)) for x in finite), default=0.0) + 0.0
        if low < 0 < high:
            size = max(-low, high)
            return cls(-size, size, _SIGNED)
        return cls(low, high, _NEGATIVE if low < 0 else _POSITIVE)

    def letters(self, cells: np.ndarray) -> np.ndarray:
        """Return the letter of the colour of each cell, x where it is not finite."""
        found: np.ndarray = np.array([*self.colors, "x"])[levels_of_cells(cells, self.low, self.high)]
        return found

    def marks(self) -> list[tuple[float, float]]:
        """Return the values that a legend names, each with its place from 0 to 1."""
        middle = [(0.5, 0.0)] if self.colors == _SIGNED else []
        return [(0.0, self.low), *middle, (1.0, self.high)]


def coarsen_matrix(
    matrix: np.ndarray, most: int, size: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, int, int]:
    """Return a matrix in at most `most` rows and columns, and how many rows and columns each cell stands for.

    A cell is the entry of several whose `size` is the largest; nan counts as the largest.
    """
    rows, columns = (max(1, math.ceil(n / most)) for n in matrix.shape)
    cells = []
    for r in range(0, matrix.shape[0], rows):
        parts = (matrix[r : r + rows, c : c + columns].reshape(-1) for c in range(0, matrix.shape[1], columns))
        cells.append([float(part[int(np.argmax(size(part)))]) for part in parts])
    return np.array(cells), rows, columns


def levels_of_cells(cells: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the level of each cell between two ends, from 0 to LEVELS - 1; -1 where it is not finite."""
    known = np.isfinite(cells)
    half = high / 2 - low / 2  # the whole may be beyond float64
    share = (np.where(known, cells, low) / 2 - low / 2) / (half or 1.0)
    return np.where(known, np.clip((share * LEVELS).astype(int), 0, LEVELS - 1), -1)


def as_matrix(x: Any) -> np.ndarray:
    """Return an array as a matrix: a vector as one row, of more axes the last one as columns."""
    array = np.asarray(x, dtype=float)
    return array.reshape(-1, array.shape[-1]) if array.ndim > 2 else np.atleast_2d(array)


@dataclass(frozen=True, slots=True)
class Cells:
    """A map as every form draws it.

    letters  The letter of the colour of each cell.
    scale    What they mean.
    shape    The rows and columns of the matrix.
    each     How many of them a cell stands for; it is the largest entry of several.
    unit     What the numbers of the legend are.
    """

    letters: np.ndarray
    scale: Scale
    shape: tuple[int, int]
    each: tuple[int, int]
    unit: str

    @classmethod
    def of(cls, picture: HeatMap) -> "Cells":
        """Return the cells of a map; powers of ten go from 1e-17 to 1, so that what is right looks alike in every map."""
        values, decades = as_matrix(picture.values), picture.unit == _DECADES
        cells, *each = coarsen_matrix(values, _MOST_CELLS, np.asarray if decades else np.abs)
        scale = Scale(*_ERRORS, _POSITIVE) if decades else Scale.over(values, as_matrix(picture.beside))
        shape = (values.shape[0], values.shape[1])
        return cls(scale.letters(cells), scale, shape, (each[0], each[1]), picture.unit)

    @property
    def names(self) -> str:
        """What the numbers of the legend are, as it says it."""
        return "relative error" if self.unit == _DECADES else self.unit

    def said(self, x: float) -> str:
        """Return a number of the legend."""
        return f"{10.0**x:.1g}" if self.unit == _DECADES else numbers.few_digits(x, 3)

    def ticks(self, axis: int) -> list[tuple[int, float]]:
        """Return a few indices along an axis, from 0, and the place of each in cells."""
        size = self.shape[axis]
        step = numbers.round_step(size / _MOST_INDICES)
        return [(index, self.place(axis, index)) for index in range(0, size, step)]

    def place(self, axis: int, index: int) -> float:
        """Return where the middle of the cell with a row or column lies, in cells."""
        return index // self.each[axis] + 0.5


def draw_heat_map(picture: HeatMap) -> str:
    """Return a matrix in nine levels, with indices of its rows and columns; marked entries are ringed.

    An empty text where there is no entry.
    """
    values = as_matrix(picture.values)
    if not values.size:
        return ""
    cells = Cells.of(picture)
    rows, columns = cells.letters.shape
    size = max(4, min(24, _LARGEST_MAP // max(rows, columns)))
    left, top = 14 + 7 * len(str(cells.ticks(0)[-1][0])), 18
    high_at = top + rows * size
    paths: dict[str, str] = defaultdict(str)
    for (r, c), letter in np.ndenumerate(cells.letters):
        cross = f"l{size} {size}" if letter == "x" else ""
        paths[letter] += f"M{left + c * size} {top + r * size}h{size}v{size}h-{size}z{cross}"
    parts = [f'<path class="h{letter}" d="{path}"/>' for letter, path in sorted(paths.items())]
    parts.append(f'<path class="grid" d="M{left} {top}H{left + columns * size}V{high_at}H{left}z"/>')
    for r, c in picture.marked:
        at = f'cx="{left + cells.place(1, c) * size:g}" cy="{top + cells.place(0, r) * size:g}" r="{size * 0.4:g}"'
        parts.append(f'<circle class="halo" {at}/><circle class="ring" {at}/>')
    for index, place in cells.ticks(0):
        parts.append(f'<text class="left" x="{left - 5}" y="{top + place * size + 4:g}">{index}</text>')
    for index, place in cells.ticks(1):
        parts.append(f'<text x="{left + place * size:g}" y="{top - 5}">{index}</text>')
    not_finite = bool((cells.letters == "x").any())
    parts.append(_legend_of_cells(cells, high_at + 12, not_finite))
    low, high = cells.said(cells.scale.low), cells.said(cells.scale.high)
    worst = "; ".join(f"[{r},{c}]: {cells.said(values[r, c])}" for r, c in picture.marked)
    words = f"{picture.title} (from {low} to {high}){': ' * bool(worst)}{worst}"
    beside = 16 * LEVELS + 22 + _LETTER * max(len(cells.names), 14 * not_finite)
    return _wrap_in_svg("heat", words, math.ceil(max(left + columns * size + 10, beside)), high_at + 44, parts)


def _legend_of_cells(cells: Cells, top: int, not_finite: bool) -> str:
    """Return the colours of a map with the numbers of their ends, and what they are."""
    wide = 16 * LEVELS
    squares = "".join(
        f'<rect class="h{letter}" x="{16 * k}" y="{top}" width="16" height="10"/>'
        for k, letter in enumerate(cells.scale.colors)
    )
    squares += f'<path class="grid" d="M0 {top}h{wide}v10h-{wide}z"/>'
    sides = {0.0: ' class="right"', 1.0: ' class="left"'}
    words = "".join(
        f'<text{sides.get(share, "")} x="{wide * share:g}" y="{top + 26}">{cells.said(x)}</text>'
        for share, x in cells.scale.marks()
    )
    words += f'<text class="right" x="{wide + 10}" y="{top + 10}">{escape_markup(cells.names)}</text>'
    if not_finite:
        squares += f'<path class="hx" d="M{wide + 10} {top + 17}h16v10h-16zl16 10"/>'
        words += f'<text class="right" x="{wide + 32}" y="{top + 26}">not finite</text>'
    return squares + words


def _wrap_in_svg(look: str, words: str, wide: float, high: float, parts: Sequence[str], over: float = 0) -> str:
    """Return a picture; `over` of its height lies above 0."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="{look}" role="img" aria-label="{escape_markup(words)}" '
    return f'{head}viewBox="0 {-over:g} {wide:g} {high:g}" width="{wide:g}" height="{high:g}">{"".join(parts)}</svg>'
