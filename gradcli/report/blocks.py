"""What renderers for people know: a few kinds of block, and text with a tone."""

import math
from collections.abc import Collection, Sequence
from functools import cache
from html import escape
from typing import Any, Literal

from gradcli.classes import dataclass
from gradcli.words import Verdict

Tone = Literal["plain", "good", "bad", "unsure", "dim", "strong"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in one tone; the words must say what the tone says."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Mathematics(Piece):
    """A formula: `text` is for a terminal; the same in LaTeX and, as a `<math>` element, in MathML."""

    latex: str = ""
    mathml: str = ""


@dataclass(frozen=True, slots=True)
class Link(Piece):
    """Text that leads to the part of a page with the name `to`; elsewhere it is text."""

    to: str = ""


@dataclass(frozen=True, slots=True)
class Verbatim(Piece):
    """Text that is read letter by letter: a line of code, a name in it, a command. Markdown has it in a code span."""


Cell = str | Piece | tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Headline:
    """The first thing said: a word (PASS, FAIL, INCONCLUSIVE) and a sentence."""

    word: str
    tone: Tone
    sentence: Cell


WORDS: dict[Verdict, tuple[str, Tone]] = {
    Verdict.PASS: ("PASS", "good"), Verdict.FAIL: ("FAIL", "bad"), Verdict.INCONCLUSIVE: ("INCONCLUSIVE", "unsure"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a part of a document; `level` 1 is that of the document. Links of a page lead to its `name`."""

    text: Cell
    level: int = 2
    name: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text, `indent` columns in; it is wrapped to the width where it `wraps`, and a path is not."""

    text: Cell
    indent: int = 2
    wraps: bool = True


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be shown letter by letter, never wrapped: a command, a line of source."""

    text: str
    language: str = "console"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names; numbers, in the columns `right`, stand under each other."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: Collection[int] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes `(id, label)` and edges `(from, to, label)`."""

    nodes: tuple[tuple[str, str], ...]
    edges: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: points `(x, y)`, and its mark, one character by which it is told apart without colour.

    A `guide` is a limit or a prediction: drawn thinly, without a mark; an upright one has its name beside it, too. In a
    picture file, lines of one name and several styles have one colour, and lines of one style and several names have one mark.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    mark: str = "o"
    guide: bool = False
    style: str = ""

    @property
    def upright(self) -> bool:
        """Whether it is a vertical line."""
        return self.guide and len({x for x, _ in self.points}) == 1


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the horizontal axis of a chart, from `low` to `high`, and what holds there: it is shaded, or bracketed."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one another, both axes in powers of ten; points that are not positive and finite are left out.

    The first line covers the others where they meet.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """Named numbers side by side, in one unit; for picture files and pages."""

    title: str
    unit: str
    bars: tuple[tuple[str, float], ...]
    log: bool = False


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A matrix as colours, its `marked` entries `(row, column)` ringed; for picture files, pages and notebooks.

    A map has one scale with the map `beside` it, whose values these are.
    """

    title: str
    unit: str
    values: Any
    marked: tuple[tuple[int, int], ...] = ()
    beside: Any = ()


Begins = Literal["start", "end", "mistake"]


@dataclass(frozen=True, slots=True)
class Walk:
    """A computation that a page draws as a graph with forward and backward steps; `trace` is the report of `trace`.

    `begins` names the step that is shown first: `start`, `end`, or `mistake`, where a wrong claim departs.
    """

    trace: Any
    begins: Begins = "start"


def is_drawable(number: float) -> bool:
    """Whether a number has a place on an axis in powers of ten."""
    return math.isfinite(number) and number > 0


Picture = Chart | Bars | HeatMap
Block = Headline | Heading | Paragraph | Code | Table | Graph | Chart


@dataclass(frozen=True, slots=True)
class Folded:
    """A part of a page that a reader opens and closes by its title."""

    title: str
    blocks: tuple[Block, ...]
    opened: bool = False


Figure = Walk | Folded | Picture  # what only pages and picture files show


def plain_text(cell: Cell) -> str:
    """Return a cell without its tones."""
    return cell if isinstance(cell, str) else "".join(piece.text for piece in split_into_pieces(cell))


def split_into_pieces(cell: Cell) -> Sequence[Piece]:
    """Return a cell as pieces."""
    if isinstance(cell, str):
        return (Piece(cell),)
    return (cell,) if isinstance(cell, Piece) else cell


# Text that may not act: control and bidirectional characters made visible.

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_NOT_XML = (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF)  # what XML does not allow


@cache
def _visible_signs() -> dict[int, str]:
    """Return what is shown in place of a character, by its number."""
    controls = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {127: "\u2421"}
    return controls | dict.fromkeys((*range(128, 160), *map(ord, _BIDI), *_NOT_XML), "\ufffd")


def make_visible(text: str) -> str:
    """Return the text with characters that could drive a terminal or reorder a line replaced, one for one."""
    return text.translate(_visible_signs())


def make_one_line(text: str) -> str:
    """Return the text with such characters replaced, a space for each tab and each end of a line."""
    return make_visible(text).replace("\n", " ").replace("\t", " ")


def escape_markup(text: str) -> str:
    """Return text as it is written in HTML, SVG and XML, also inside quotes, with signs for what cannot be seen."""
    return escape(make_visible(text))


def escape_workflow_data(text: str) -> str:
    """Return text as the message of a GitHub workflow command."""
    return make_visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def cut_line(text: str, width: int) -> str:
    """Return the beginning of a string on one line of at most `width` columns."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


_PART_OF_A_WORD = 12  # letters that are left out of a line, so that it ends with a word


def cut_between_words(text: str, width: int) -> str:
    """Return the beginning of a string on one line of at most `width` columns, cut between words where one ends near."""
    flat = " ".join(text.split())
    if len(flat) <= width:
        return flat
    short = flat[: width - 1]
    words = short.rpartition(" ")[0]
    return f"{words if words and len(short) - len(words) <= _PART_OF_A_WORD else short}…"


def shorten_text(text: str, width: int = 40) -> str:
    """Return the beginning of a string, or the end of a file's name with as many of its folders as fit."""
    flat = " ".join(text.split())
    if len(flat) <= width or ".py:" not in flat:
        return cut_line(flat, width)
    folders = flat.split("/")
    ends = ("/".join(folders[k:]) for k in range(1, len(folders)))
    return next((f"…/{end}" for end in ends if len(end) <= width - 2), f"…{flat[1 - width :]}")
