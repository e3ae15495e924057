"""Where in a TOML file a key is. `tomllib` gives no positions, so a candidate is renamed and the text read again."""

import itertools
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from gradcli.errors import Place

_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_MOST_CANDIDATES = 50  # readings of the text
_RENAMED = "gradcli-looks-for-this-key"
Path = Sequence[str | int]  # the keys and indices that lead to a value


def place_of(text: str, file: str, path: Path) -> Place | None:
    """Return the line and columns of the last key of a path in a TOML text; None if it is not found.

    In a table of an array of tables, such as the third `[[check]]`, the text of this table alone is read again.
    """
    number = next((part for part in path if isinstance(part, int)), None)
    if number is None:
        return _place_in(text, 0, len(text), file, path)
    header = ".".join(map(str, path[: path.index(number)]))
    bounds = _table(text, header, number)
    alone = tuple(0 if part == number and isinstance(part, int) else part for part in path)
    found = None if bounds is None else _place_in(text, *bounds, file, alone)
    return found or _place_in(text, 0, len(text), file, path)


def _place_in(text: str, start: int, end: int, file: str, path: Path) -> Place | None:
    """Return the place of a key in a part of a text, which is read with each candidate renamed."""
    part, key = text[start:end], str(path[-1])
    matches = re.finditer(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?(?=\s*[=.\]])", part)
    for match in itertools.islice(matches, _MOST_CANDIDATES):
        try:
            renamed = tomllib.loads(part[: match.start()] + _RENAMED + part[match.end() :])
        except tomllib.TOMLDecodeError:
            continue
        if _has(renamed, (*path[:-1], _RENAMED)):
            return place_at(text, file, start + match.start(), len(match.group()))
    return None


def _table(text: str, header: str, number: int) -> tuple[int, int] | None:
    """Return where the table `[[header]]` with this number begins and ends, counted from 0."""
    parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in header.split("."))
    found = list(itertools.islice(re.finditer(rf"^\[\[\s*{parts}\s*\]\]", text, re.MULTILINE), number + 1))
    if number >= len(found):
        return None
    after = re.compile(r"^\[", re.MULTILINE).search(text, found[number].end())
    return found[number].start(), after.start() if after else len(text)


def place_of_table(text: str, file: str, header: str, number: int) -> Place | None:
    """Return the place of the head of the table `[[header]]` with this number, counted from 0."""
    bounds = _table(text, header, number)
    if bounds is None:
        return None
    return place_at(text, file, bounds[0], text.index("]]", bounds[0]) + 2 - bounds[0])


def place_of_error(text: str, file: str, error: tomllib.TOMLDecodeError) -> Place:
    """Return the place that a message of `tomllib` names: the end of the document if it names none."""
    found = _AT.search(str(error))
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    line = min(line, len(lines))
    return Place(file, line, lines[line - 1], max(0, min(column - 1, len(lines[line - 1]) - 1)), 1)


def place_at(text: str, file: str, start: int, length: int) -> Place:
    """Return characters of a text as a place in its file."""
    line = text.count("\n", 0, start)
    return Place(file, line + 1, text.splitlines()[line], start - (text.rfind("\n", 0, start) + 1), length)


def _has(found: Any, path: Path) -> bool:
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
