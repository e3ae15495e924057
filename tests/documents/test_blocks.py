"""Every console block and every doctest of every page is run, and prints what is shown.

`pytest tests/documents --update-docs` rewrites what differs: outputs, pages and pictures of `examples`, and what is generated.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT, blocks, pages, read, sections, to_run
from tests.documents.drawn import apart
from tests.documents.running import EXAMPLES, Page, run
from tests.rows import for_rows

IN_SECTIONS = {"examples/README.md"}  # pages whose sections do not need each other
HERE = [
    (page, section)
    for page in pages()
    if any(not block.needs for block in to_run(page))
    for section in (sections(read(page)) if page in IN_SECTIONS else [None])
]
TOOLS = frozenset(name for name in ("jq",) if shutil.which(name))
PLAIN = re.compile(r"pip|pipx|uv|python3? -m (venv|pip)|source|git|cd|sudo|pre-commit")


def check(page: Page, update: bool) -> None:
    """Fail where a page is not as its commands print, or rewrite it and what they write."""
    folder = page.folder / "examples"
    wrong = [*page.wrong]
    for path in page.changed:
        differences = list(apart(EXAMPLES / path, folder / path))
        if differences and update:
            shutil.copy(folder / path, EXAMPLES / path)
        wrong += [f"examples/{path}: {line}" for line in differences[:5]]
    if update and page.renewed != page.text:
        (ROOT / page.name).write_text(read(page.name).replace(page.text, page.renewed), encoding="utf-8")
    if not update:
        assert not wrong, f"{page.name}: --update-docs rewrites it\n\n" + "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.repairs
@pytest.mark.parametrize(("page", "section"), HERE, ids=lambda words: words or "whole")
def test_a_page_shows_what_its_commands_print(
    page: str, section: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check(run(page, tmp_path, TOOLS, section), request.config.getoption("--update-docs"))


@for_rows("page", pages())
def test_what_is_not_run_is_no_command_of_gradcli(page: str) -> None:
    for block in blocks(read(page)):
        if block.kind in ("", "sh", "bash", "shell"):
            words = [line for line in block.text.splitlines() if line and not PLAIN.match(line)]
            assert not words, f"{words[0]}: a command that can be run is in a console block"


@for_rows("page", pages())
def test_python_that_is_shown_compiles(page: str) -> None:
    for block in blocks(read(page)):
        if block.kind == "python" and not block.is_doctest:
            compile(block.text, page, "exec")
