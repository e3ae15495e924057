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
    found = []
    for file, lines in recorded.items():
        near = {k for line in lines for k in range(line - _AROUND, line + _AROUND + 1)}
        for k in sorted(near):
            written = linecache.getline(file, k)  # empty beyond the file's end
            if written or k in lines:
                found.append(SourceLine(file, k, texts.get((file, k)) or written.rstrip("\n")))
    return tuple(found[:_MOST])
