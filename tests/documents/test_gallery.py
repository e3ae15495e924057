"""The gallery shows every page and every picture of examples/pages, each made by a command."""

import itertools
import shlex
from pathlib import Path

from tests.documents.blocks import ROOT, blocks, read
from tests.rows import for_rows

FOLDER = ROOT / "examples" / "pages"
DRAWN = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".svg"))


def written() -> set[str]:
    """Return the names of the files that the gallery's commands write."""
    lines = [
        command.line
        for block in blocks(read("docs/gallery.md"))
        if block.kind == "console"
        for command in block.commands()
    ]
    words = [shlex.split(line) for line in lines]
    return {Path(b).name for found in words for a, b in itertools.pairwise(found) if a in ("-o", "--plot")}


@for_rows("name", DRAWN)
def test_it_is_shown_and_a_command_makes_it(name: str) -> None:
    assert f"](../examples/pages/{name})" in read("docs/gallery.md")
    assert name in written()


def test_there_are_six_pages() -> None:
    assert len([name for name in DRAWN if name.endswith(".html")]) == 6
