"""Where in a TOML file a key is. `tomllib` gives no positions, so a candidate is renamed and the text read again."""

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from gradcli.errors import Place

_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_RENAMED = "gradcli-looks-for-this-key"
Path = Sequence[str | int]  # the keys and indices that lead to a value


def place_of(text: str, file: str, path: Path) -> Place | None:
    """Return the line and columns of the last key of a path in a TOML text; None if it is not found."""
    *_, key = path
    for match in re.finditer(rf"(?<![\w-])[\"']?{re.escape(str(key))}[\"']?(?=\s*[=.\]])", text):
        try:
            renamed = tomllib.loads(text[: match.start()] + _RENAMED + text[match.end() :])
        except tomllib.TOMLDecodeError:
            continue
        if _has(renamed, (*path[:-1], _RENAMED)):
            return place_at(text, file, match.start(), len(match.group()))
    return None


def place_of_table(text: str, file: str, header: str, number: int) -> Place | None:
    """Return the place of the table `[[header]]` with this number, counted from 0."""
    parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in header.split("."))
    found = list(re.finditer(rf"^\s*\[\[\s*{parts}\s*\]\]", text, re.MULTILINE))
    if number >= len(found):
        return None
    start = found[number].end() - len(found[number].group().lstrip())
    return place_at(text, file, start, found[number].end() - start)


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
