"""Draw a chart in characters on logarithmic axes: lines in braille with marks, or only marks without braille."""

import itertools
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from gradcli.classes import dataclass
from gradcli.report.blocks import Chart, Region, Series, is_drawable, make_one_line, make_visible

Ink = int | Literal["plain", "dim", "strong"]  # a number is that of a series, from 0
Line = tuple[tuple[str, Ink], ...]
Spot = tuple[float, float]

WIDEST = 100
_NARROWEST = 24
_ROWS = 17
_APART = (8, 3)  # minimum columns and rows between two tick labels
_BETWEEN_MARKS = (4, 2)  # columns or rows between two marks of one series
_STEPS = (1, 2, 4, 8, 10, 20, 40, 50, 100, 200, 400)
_SPARE_MARKS = "ox+*#%@&=~^"
_GUIDES = {True: ("⠤", "⡇"), False: (".", ":")}  # horizontal and vertical, with and without braille
_BRACKETS = {True: ("├", "─", "┤"), False: ("|", "-", "|")}
_GAP = "   "  # between two names in the legend
_NOTHING = "nothing to draw: no value is positive and finite"


def draw_lines(chart: Chart, width: int, braille: bool) -> tuple[Line, ...]:
    """Return a chart with its legend as lines of at most `width` columns, each in runs of one ink."""
    width = max(_NARROWEST, min(width, WIDEST))
    title = [
        line for part in textwrap.wrap(make_visible(chart.title), width) for line in _title_line(part, width, "strong")
    ]
    runs: list[list[list[Spot]]] = []  # of each series, in decades; a point that cannot be drawn ends a run
    for one in chart.series:
        groups = itertools.groupby(one.points, key=lambda point: all(map(is_drawable, point)))
        runs.append([[(math.log10(px), math.log10(py)) for px, py in part] for kept, part in groups if kept])
    spots = [spot for run in runs for part in run for spot in part]
    if not spots:
        return *title, ((_cut_to_width(_NOTHING, width), "plain"),)
    y = _Axis.over([spot[1] for spot in spots], _ROWS)
    labels = dict(y.ticks(_APART[1]))
    gutter = max(map(len, labels.values()), default=0)
    x = _Axis.over([spot[0] for spot in spots], width - gutter - 2)
    marks = _choose_marks(chart.series, braille)
    sheet = _draw_sheet(chart.series, runs, marks, x, y, braille)
    rows = (_write_row(sheet, row, labels.get(y.cells - 1 - row, ""), gutter, x, braille) for row in range(y.cells))
    centre = " " * (gutter + 2 + max(0, (x.cells - len(chart.x)) // 2))
    return (
        *title,
        *_title_line(chart.y, width, "dim"),
        *rows,
        *_horizontal_axis(x, gutter, braille),
        *(_bracket_region(region, x, gutter + 2, braille) for region in chart.regions),
        *_title_line(centre + chart.x, width, "dim"),
        *_write_legend(chart.series, runs, marks, width, braille),
    )


def draw_as_text(chart: Chart, width: int, braille: bool) -> str:
    """Return a chart as plain text, without inks."""
    return "\n".join("".join(part for part, _ in line).rstrip() for line in draw_lines(chart, width, braille))


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis from `low` to `high`, in decades, over a number of cells; whole decades are centred in cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def over(cls, decades: Sequence[float], cells: int) -> "_Axis":
        """Return the axis that shows these values and ends at whole decades."""
        first, last = math.floor(min(decades)), math.ceil(max(decades))
        last = max(last, first + 1)
        half = (last - first) / (cells - 1) / 2
        return cls(first - half, last + half, cells)

    def cell(self, decade: float) -> int:
        """Return the cell a value lies in."""
        return max(0, min(self.cells - 1, int((decade - self.low) / (self.high - self.low) * self.cells)))

    def ticks(self, apart: int) -> Iterator[tuple[int, str]]:
        """Yield the cells with a label, and the labels, at least `apart` cells from one another."""
        each = self.cells / (self.high - self.low)
        step = next((step for step in _STEPS if step * each >= apart), _STEPS[-1])
        for k in range(math.ceil(self.low), math.floor(self.high) + 1):
            if k % step == 0:
                yield self.cell(k), f"1e{k}" if k else "1"


def _choose_marks(series: Sequence[Series], braille: bool) -> list[str]:
    """Return a different mark for each series: its own mark if it is free and can be written, else a spare one."""
    marks: list[str] = []
    for one in series:
        usable = len(one.mark) == 1 and one.mark.isprintable() and not one.mark.isspace()
        own = [one.mark] if usable and (braille or one.mark.isascii()) else []
        taken = {mark for mark, other in zip(marks, series, strict=False) if not other.guide}
        spare = [mark for mark in _SPARE_MARKS if mark not in taken]
        marks.append(next((mark for mark in own if mark not in taken or one.guide), (spare or ["o"])[0]))
    return marks


def _draw_sheet(
    series: Sequence[Series], runs: list[list[list[Spot]]], marks: list[str], x: _Axis, y: _Axis, braille: bool
) -> dict[tuple[int, int], tuple[str, Ink]]:
    """Return the drawn characters by row and column, from the top; marks cover lines, and lines cover guides."""
    sheet: dict[tuple[int, int], tuple[str, Ink]] = {}
    for k in sorted(range(len(series)), key=lambda k: (not series[k].guide, -k)):
        ink: Ink = "dim" if series[k].guide else k
        lines = [line for run in runs[k] for line in zip(run, [*run[1:], run[-1]], strict=True)]
        if braille:
            _overlay_braille(sheet, lines, x, y, ink)
        elif series[k].guide:
            for (px, py), (qx, qy) in lines:  # points along the line, at least one for each cell
                count = 1 + max(abs(x.cell(px) - x.cell(qx)), abs(y.cell(py) - y.cell(qy)))
                for n in range(count + 1):
                    row = y.cells - 1 - y.cell(py + (qy - py) * n / count)
                    sheet[row, x.cell(px + (qx - px) * n / count)] = (_GUIDES[False][series[k].upright], ink)
    sheet.update((cell, (marks[k], k)) for cell, k in _place_marks(series, runs, x, y, every=not braille))
    return sheet


_BLANK = 0x2800  # the braille pattern without a dot; a dot is a bit


def _overlay_braille(
    sheet: dict[tuple[int, int], tuple[str, Ink]], lines: Sequence[tuple[Spot, Spot]], x: _Axis, y: _Axis, ink: Ink
) -> None:
    """Add lines in braille to the sheet: cells hold the dots of both, in the ink of the new one."""
    from plotille import Canvas

    canvas: Any = Canvas(x.cells, y.cells, x.low, y.low, x.high, y.high)
    for spot, after in lines:
        canvas.line(*spot, *after)
    for row, drawn in enumerate(canvas.plot(linesep="\n").split("\n")):
        for column, sign in enumerate(drawn):
            if ord(sign) > _BLANK:
                under = ord(sheet.get((row, column), (chr(_BLANK), ink))[0])
                sheet[row, column] = (chr(under | ord(sign)), ink)


def _place_marks(
    series: Sequence[Series], runs: list[list[list[Spot]]], x: _Axis, y: _Axis, every: bool
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the cells with a mark and the series of each; where several meet, the series with the fewest marks gets it."""
    wanted: dict[tuple[int, int], list[int]] = {}
    for k, one in enumerate(series):
        last = (-9, -9)
        for px, py in itertools.chain(*runs[k]) if not one.guide else ():
            cell = (y.cells - 1 - y.cell(py), x.cell(px))
            far = abs(cell[1] - last[1]) >= _BETWEEN_MARKS[0] or abs(cell[0] - last[0]) >= _BETWEEN_MARKS[1]
            if every or far:
                wanted.setdefault(cell, []).append(k)
                last = cell
    had = [0] * len(series)
    for cell in sorted(wanted, key=lambda cell: cell[::-1]):
        whose = min(wanted[cell], key=lambda k: had[k])
        had[whose] += 1
        yield cell, whose


def _write_row(
    sheet: dict[tuple[int, int], tuple[str, Ink]], row: int, label: str, gutter: int, x: _Axis, braille: bool
) -> Line:
    """Return one line of the drawing, with its tick label."""
    axis = ("┤" if label else "│") if braille else ("+" if label else "|")
    cells: Iterable[tuple[str, Ink]] = (sheet.get((row, column), (" ", "plain")) for column in range(x.cells))
    grouped = itertools.groupby(cells, key=lambda cell: cell[1])
    return (
        (f"{label:>{gutter}} {axis}", "plain"),
        *(("".join(sign for sign, _ in part), ink) for ink, part in grouped),
    )


def _horizontal_axis(x: _Axis, gutter: int, braille: bool) -> tuple[Line, Line]:
    """Return the horizontal axis and the line with its labels."""
    ticks = dict(x.ticks(_APART[0]))
    rule, tick, corner = ("─", "┬", "└") if braille else ("-", "+", "+")
    axis = "".join(tick if cell in ticks else rule for cell in range(x.cells))
    labels = [" "] * (gutter + 2 + x.cells)
    for cell, label in ticks.items():
        start = min(gutter + 2 + cell - len(label) // 2, len(labels) - len(label))
        labels[start : start + len(label)] = label
    return ((" " * gutter + " " + corner + axis, "plain"),), (("".join(labels).rstrip(), "plain"),)


def _bracket_region(region: Region, x: _Axis, start: int, braille: bool) -> Line:
    """Return a bracket under a region of the horizontal axis, with its name beside it; if there is no room, the name alone."""
    low, high = (start + x.cell(math.log10(h)) for h in (region.low, region.high))
    left, line, right = _BRACKETS[braille]
    drawn, width = f"{left}{line * (high - low - 1)}{right}", start + x.cells
    if high + 2 + len(region.name) < width:
        return ((f"{' ' * low}{drawn} {region.name}", "plain"),)
    if len(region.name) < low:
        return ((f"{region.name:>{low - 1}} {drawn}", "plain"),)
    return ((_cut_to_width(region.name, width), "plain"),)


def _write_legend(
    series: Sequence[Series], runs: list[list[list[Spot]]], marks: list[str], width: int, braille: bool
) -> list[Line]:
    """Return the lines of the legend, with as many entries on each line as fit."""
    from rich.cells import cell_len

    found: list[list[tuple[str, Ink]]] = []
    used = width
    for k, one in enumerate(series):
        if not runs[k]:
            continue
        mark = _GUIDES[braille][one.upright] if one.guide else marks[k]
        name = _cut_to_width(one.name, width - len(mark) - 1)
        size = len(mark) + 1 + cell_len(name)
        if used + len(_GAP) + size > width:
            found.append([])
            used = size
        else:
            found[-1].append((_GAP, "plain"))
            used += len(_GAP) + size
        found[-1] += [(f"{mark} ", "dim" if one.guide else k), (name, "dim" if one.guide else "plain")]
    return [tuple(line) for line in found]


def _title_line(title: str, width: int, ink: Ink) -> tuple[Line, ...]:
    return (((_cut_to_width(title, width), ink),),) if title.strip() else ()


def _cut_to_width(title: str, width: int) -> str:
    """Return text on one line of at most `width` columns, without control characters."""
    from rich.cells import cell_len, set_cell_size

    shown = make_one_line(title)
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 3) + "..."
