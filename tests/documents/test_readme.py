"""The README stays short, and says of exit statuses what the program does."""

import re

import pytest

from gradcli.words import Exit
from tests.documents.blocks import ROOT, blocks, pages, read
from tests.rows import for_rows


def test_the_readme_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 170


def test_ci_and_pytest_take_six_lines_each() -> None:
    found = {block.kind: block.text for block in blocks(read("README.md")) if block.kind in ("yaml", "python")}
    assert [len(text.splitlines()) for text in found.values()] == [6, 6]


@pytest.mark.parametrize("page", ["README.md", "docs/reference/exit-statuses.md", "docs/how-to/jq.md"])
def test_every_exit_status_is_there(page: str) -> None:
    stated = {int(status) for status in re.findall(r"^\| (\d+) \|", read(page), re.MULTILINE)}
    assert stated >= {int(status) for status in Exit if status is not Exit.INTERRUPTED}
    assert stated <= {int(status) for status in Exit}


@for_rows("page", pages())
def test_links_to_files_lead_to_files(page: str) -> None:
    folder = (ROOT / page).parent
    prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose)
    assert [link for link in links if not (folder / link).exists()] == []
