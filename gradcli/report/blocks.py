"""What renderers for people know: a few kinds of block, and text with a tone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "good", "bad", "unsure", "dim", "strong"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text in one tone; the words must say what the tone says."""

    text: str
    tone: Tone = "plain"


Cell = str | Piece | tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing said: a word (PASS, FAIL, INCONCLUSIVE) and a sentence."""

    word: str
    tone: Tone
    sentence: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text, wrapped to the width; `indent` columns in."""

    text: Cell
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be shown letter by letter, never wrapped: a command, a line of source."""

    text: str
    language: str = "console"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names; numbers stand under each other."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: frozenset[int] = frozenset()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes `(id, label)` and edges `(from, to, label)`."""

    nodes: tuple[tuple[str, str], ...]
    edges: tuple[tuple[str, str, str], ...]


Block = Verdict | Paragraph | Code | Table | Graph


def text_of(cell: Cell) -> str:
    """Return a cell without its tones."""
    if isinstance(cell, str):
        return cell
    return cell.text if isinstance(cell, Piece) else "".join(piece.text for piece in cell)


def pieces_of(cell: Cell) -> Sequence[Piece]:
    """Return a cell as pieces."""
    if isinstance(cell, str):
        return (Piece(cell),)
    return (cell,) if isinstance(cell, Piece) else cell
