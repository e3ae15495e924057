"""What the documents take from the code is what the code says; `pytest tests/documents --update-docs` writes it anew."""

import pytest

from gradcli.words import DiagnosisKind, Kind
from tests.documents.blocks import ROOT, read
from tests.documents.generated import FINDINGS, PARTS, part_of, whole_pages


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_what_the_code_says(name: str, request: pytest.FixtureRequest) -> None:
    page, make = PARTS[name]
    text, new = read(page), make()
    found = part_of(text, name)
    if request.config.getoption("--update-docs"):
        (ROOT / page).write_text(text[: found.start()] + new + text[found.end() :], encoding="utf-8")
    else:
        assert found[0] == new, "pytest tests/documents --update-docs rewrites it"


def test_pages_that_are_generated_are_what_the_code_says(request: pytest.FixtureRequest) -> None:
    for page, new in whole_pages().items():
        path = ROOT / page
        if request.config.getoption("--update-docs"):
            path.write_text(new, encoding="utf-8")
        else:
            assert path.exists() and path.read_text(encoding="utf-8") == new, f"{page}: --update-docs rewrites it"


def test_every_kind_of_finding_and_diagnosis_has_a_page_and_no_other() -> None:
    there = {path.stem for path in (ROOT / FINDINGS).glob("*.md")}
    assert there == {*Kind, *DiagnosisKind, "index"}
