"""Read TOML that people wrote: every mistake has its line.

`tomllib` gives no positions, so to find a key, a candidate is renamed and the text read again.
"""

import itertools
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradcli.errors import BadOption, Place

_MOST = 10_000_000  # bytes of a file
_MOST_CANDIDATES = 50  # readings of the text, to find a key
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_RENAMED = "gradcli-looks-for-this-key"
KeyPath = Sequence[str | int]  # the keys and indices that lead to a value


def read_text(path: Path) -> str:
    """Return the text of a file. Raises BadOption if it is too large, or not readable as UTF-8."""
    try:
        if path.stat().st_size > _MOST:
            raise BadOption(f"{path.name} is larger than {_MOST:,} bytes", do="keep data in files of its own")
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark at the beginning
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{path} cannot be read: {error}", do="write it in UTF-8, and make it readable") from None


def tables(text: str, name: str) -> dict[str, Any]:
    """Return what a TOML text says. Raises BadOption with the line of a mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _place_of_error(text, name, error)
        what = str(error).partition(" (at ")[0]
        raise BadOption(f"{name} is not valid TOML: {what}", where=where, do="correct this line") from None
    except RecursionError:
        raise BadOption(f"{name} is not usable: its lists are nested too deeply", do="write flat lists") from None
    except ValueError as error:  # a whole number of more digits than Python reads
        raise BadOption(f"{name} is not usable: {error}", do="write a shorter number") from None


def place_of_key(text: str, file: str, path: KeyPath) -> Place | None:
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


def _place_in(text: str, start: int, end: int, file: str, path: KeyPath) -> Place | None:
    """Return the place of a key in a part of a text, which is read with each candidate renamed."""
    part, key = text[start:end], str(path[-1])
    matches = re.finditer(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?(?=\s*[=.\]])", part)
    for match in itertools.islice(matches, _MOST_CANDIDATES):
        try:
            renamed = tomllib.loads(part[: match.start()] + _RENAMED + part[match.end() :])
        except tomllib.TOMLDecodeError:
            continue
        if _has(renamed, (*path[:-1], _RENAMED)):
            return _place_of_characters(text, file, start + match.start(), len(match.group()))
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
    return _place_of_characters(text, file, bounds[0], text.index("]]", bounds[0]) + 2 - bounds[0])


def _place_of_error(text: str, file: str, error: tomllib.TOMLDecodeError) -> Place:
    """Return the place that a message of `tomllib` names: the end of the document if it names none."""
    found = _AT.search(str(error))
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    line = min(line, len(lines))
    return Place(file, line, lines[line - 1], max(0, min(column - 1, len(lines[line - 1]) - 1)), 1)


def _place_of_characters(text: str, file: str, start: int, length: int) -> Place:
    """Return characters of a text as a place in its file."""
    line = text.count("\n", 0, start)
    return Place(file, line + 1, text.splitlines()[line], start - (text.rfind("\n", 0, start) + 1), length)


def _has(found: Any, path: KeyPath) -> bool:
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
