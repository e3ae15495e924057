"""The guides for those who change the code name what is there: every package, and files and tests that exist."""

import re
from pathlib import Path

import pytest

from gradcli.words import Kind

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ["ARCHITECTURE.md", "CONTRIBUTING.md"]
PATH = re.compile(r"`((?:[\w.]+/)*[\w.]*(?:\.py|\.md|/))`")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("guide", GUIDES)
def test_files_that_a_guide_names_exist(guide: str) -> None:
    named = PATH.findall(text(guide))
    assert len(named) > 15
    assert [path for path in named if not any((folder / path).exists() for folder in (ROOT, ROOT / "gradcli"))] == []


def test_the_architecture_names_every_package() -> None:
    parts = [path.name + "/" * path.is_dir() for path in (ROOT / "gradcli").iterdir() if path.name != "__pycache__"]
    known = set(PATH.findall(text("ARCHITECTURE.md"))) | {"py.typed"}
    assert sorted(set(parts) - known) == []


def test_the_glossary_is_in_order_and_has_every_kind_of_place() -> None:
    words = re.findall(r"^\| ([\w ,]+?) +\|", text("docs/reference/glossary.md"), re.MULTILINE)[1:]
    assert words == sorted(words)
    places = {
        Kind.KINK,
        Kind.STAIRCASE,
        Kind.SUBGRADIENT,
        Kind.FINE_STRUCTURE,
        Kind.BRANCH,
        Kind.NOISE,
        Kind.TRACE_TEST,
    }
    assert {place.replace("-", " ") for place in places} <= set(words)


def test_the_changelog_begins_with_what_is_not_released() -> None:
    assert re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)[0] == "Unreleased"
