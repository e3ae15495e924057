"""What the documents take from the code is what the code says; `pytest tests/documents --update-docs` writes it anew."""

import re
from collections import Counter

import pytest

from gradcli.report.explain import read_explanations
from tests.conftest import gradcli
from tests.documents.blocks import ROOT, pages, read
from tests.documents.generated import PARTS, SUBJECTS, commands, for_language_models, part_of, title
from tests.rows import for_rows


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_what_the_code_says(name: str, request: pytest.FixtureRequest) -> None:
    page, make = PARTS[name]
    text, new = read(page), make()
    found = part_of(text, name)
    if request.config.getoption("--update-docs"):
        (ROOT / page).write_text(text[: found.start()] + new + text[found.end() :], encoding="utf-8")
    else:
        assert found[0] == new, "pytest tests/documents --update-docs rewrites it"


def test_what_programs_read_first_is_what_the_pages_say(request: pytest.FixtureRequest) -> None:
    path, new = ROOT / "docs" / "llms.txt", for_language_models()
    if request.config.getoption("--update-docs"):
        path.write_text(new, encoding="utf-8")
    else:
        assert path.read_text(encoding="utf-8") == new, "pytest tests/documents --update-docs rewrites it"


def test_every_option_is_in_the_reference_once() -> None:
    rows = re.findall(r"^\| ((?:`-[\w-]+`(?:, )?)+) \| (`[^|]*`)?", commands(), re.MULTILINE)
    assert {name for name, count in Counter(rows).items() if count > 1} == set()
    assert {name for name, count in Counter(option for option, _ in rows).items() if count > 1} == {
        "`--dtype`",
        "`--shard`",
    }


def test_commands_are_in_the_order_of_the_help() -> None:
    listed = re.findall(r"^  ([a-z][\w-]*)  ", gradcli("--help").stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == re.findall(r"^## gradcli (\S+)$", commands(), re.MULTILINE)


def test_every_finding_has_one_subject() -> None:
    for row in read_explanations():
        assert [subject for subject, (_, has) in SUBJECTS.items() if has(row)] in ([s] for s in SUBJECTS), row.kind


@for_rows("page", [page for page in pages() if page.count("/") == 2 and not page.endswith("/index.md")])
def test_an_index_says_what_a_page_gives(page: str) -> None:
    folder, _, name = page.rpartition("/")
    if folder.startswith("docs/"):
        assert re.search(
            rf"^\| \[{re.escape(title(page))}\]\({name}\) \| [A-Z`].*\. \|$", read(f"{folder}/index.md"), re.MULTILINE
        )
