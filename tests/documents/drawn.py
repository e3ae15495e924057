"""Whether two files that a command draws are the same, but for what differs from machine to machine."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_goldens import words_apart

_TIMES = re.compile(r"(?<![\w.])[\d.,]+ m?s\b|(?<=\+)cpu|torch \d[\w.+]*")
_SHARED = re.compile(r"<style>.*?</style>|<script>.*?</script>", re.DOTALL)
_HASH = re.compile(r"sha256-[\w+/=]+")
_PLOT = "<dc:title>Matplotlib v"  # whose curves of rounding errors are others on other processors
_CURVE = re.compile(r'(?<=<g class="n\d y\d k\d">).*?(?=</g>)')  # of a chart in a page, for the same reason
_PLACES = re.compile(r"Matplotlib v[\d.]+|#?[pm][0-9a-f]{10}|-?\d+(\.\d+)?")


def apart(old: Path, new: Path) -> Iterator[str]:
    """Yield where two pages or pictures differ, but for times and versions."""
    if old.suffix not in (".html", ".svg"):
        yield "it was written otherwise"
        return
    a, b = (path.read_text(encoding="utf-8") for path in (old, new))
    if _PLOT in a:
        a, b = (_PLACES.sub("", text) for text in (a, b))
    kept = (_HASH.sub("", _SHARED.sub("", _TIMES.sub("", _CURVE.sub("", text)))) for text in (a, b))
    yield from words_apart(*kept)
    if _SHARED.findall(a) != _SHARED.findall(b):
        yield "style or script have changed"
