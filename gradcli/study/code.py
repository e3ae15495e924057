"""The user's code around recorded operations, line by line."""

import linecache
from collections.abc import Iterable

from gradcli.errors import Place
from gradcli.reports.common import SourceLine

_AROUND = 2  # lines that are shown before and after one that was recorded
_MOST = 400  # lines that are shown


def source_around(places: Iterable[Place]) -> tuple[SourceLine, ...]:
    """Return the recorded lines of each file in their order, with the lines between and around them."""
    recorded: dict[str, set[int]] = {}
    texts: dict[tuple[str, int], str] = {}
    for at in places:
        recorded.setdefault(at.file, set()).add(at.line)
        texts[at.file, at.line] = at.text
    found: list[SourceLine] = []
    for file, lines in recorded.items():
        near = {k for line in lines for k in range(line - _AROUND, line + _AROUND + 1)}
        code = {k: texts.get((file, k)) or linecache.getline(file, k).rstrip("\n") for k in sorted(near)}
        filled = {k for k, text in code.items() if text.strip() or k in lines}
        found += [SourceLine(file, k, text) for k, text in code.items() if k in filled or {k - 1, k + 1} <= filled]
    return tuple(found[:_MOST])
