"""What the documents take from the code is what the code says; `pytest tests/documents --update-docs` writes it anew."""

import pytest

from tests.documents.blocks import ROOT, read
from tests.documents.generated import PARTS, for_language_models, part_of


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
