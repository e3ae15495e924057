"""Every kind is explained, every example shows its kind, and what is said of options is true."""

import ast
import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.explain import FOLDER, GROUPS, PART, Explanation, read_explanations
from gradcli.request.options import ROWS
from gradcli.words import ALLOWED, DiagnosisKind, Kind
from tests.report.explanation_examples import assert_it_shows
from tests.rows import for_rows

SOURCES = sorted((Path(__file__).resolve().parents[2] / "gradcli").rglob("*.py"))
ALL = read_explanations()
HERE = [row for row in ALL if row.example is not None and row.example.needs is None]
FOOT = "[All findings and diagnoses](../../../docs/findings/index.md)\n"
OPEN = ("INCONCLUSIVE", "ERROR")  # severities of what prevents a pass
WORDS = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def name(row: Explanation) -> str:
    return f"{row.kind}, {row.group}"


def severities() -> dict[str, set[str]]:
    """Return the severities with which the code makes findings of each kind, by the names of the members."""
    found = defaultdict(set)
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and call.args:
                called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                words = [ast.unparse(part) for part in call.args[:2]]
                if (
                    called in ("finding", "Notice")
                    and words[0].startswith("Kind.")
                    and words[1].startswith("Severity.")
                ):
                    found[words[0].removeprefix("Kind.")].add(words[1].removeprefix("Severity."))
                if called in ("inconclusive", "_inconclusive") and words[0].startswith("Kind."):
                    found[words[0].removeprefix("Kind.")].add("INCONCLUSIVE")
    return found


def test_every_kind_has_one_explanation_and_no_other() -> None:
    findings = [row.kind for row in ALL if row.group != "mistake"]
    mistakes = [row.kind for row in ALL if row.group == "mistake"]
    assert sorted(findings) == sorted(Kind) and sorted(mistakes) == sorted(DiagnosisKind)


def test_every_file_explains_a_kind_and_every_line_of_it_is_read() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert files.keys() == {*Kind, *DiagnosisKind}
    parts = ("", "## As a finding\n\n## As a mistake\n\n")
    for kind, text in files.items():
        assert PART.sub("", text) in {f"# {kind}\n\n{part}{FOOT}" for part in parts}


def test_groups_follow_each_other() -> None:
    groups = [row.group for row in ALL]
    assert groups == sorted(groups, key=list(GROUPS).index)


@pytest.mark.slow
def test_what_informs_prevents_nothing() -> None:
    found = severities()
    assert len(found) > 40
    informs = {row.kind for row in ALL if row.group == "informs"}
    for member, severity in found.items():
        assert (Kind[member] in informs) <= severity.isdisjoint(OPEN), member


def test_what_allow_accepts_prevents_a_pass() -> None:
    assert set(ALLOWED) <= {row.kind for row in ALL if row.group == "prevents a pass"}


@for_rows("row", ALL, ids=name)
def test_the_option_that_accepts_a_kind_is_named_where_there_is_one(row: Explanation) -> None:
    wanted = row.group == "prevents a pass" and row.kind in ALLOWED
    assert (f"--allow {row.kind}" in row.do) is wanted


def options() -> Iterator[str]:
    for row in ROWS:
        yield from (word for flag in row.flags for word in flag.split("/"))


@for_rows("row", ALL, ids=name)
def test_options_and_kinds_in_a_text_exist(row: Explanation) -> None:
    assert set(WORDS.findall(row.meaning + row.do)) <= set(options())


@for_rows("row", ALL, ids=name)
def test_a_text_is_short(row: Explanation) -> None:
    assert len(row.summary) <= 50 and not row.summary.endswith(".")
    sentences = re.findall(r"[^.]+(?:\.(?=\S)[^.]+)*\.", row.meaning)
    assert 1 <= len(sentences) <= 5
    assert row.do.endswith(".") and len(row.meaning) <= 480 and len(row.do) <= 320


@pytest.mark.slow
@pytest.mark.parametrize("row", HERE, ids=name)
def test_an_example_shows_its_kind(
    row: Explanation, gradcli: Callable[..., Any], process: Callable[..., Any], tmp_path: Path
) -> None:
    if row.kind == Kind.UNAVAILABLE and importlib.util.find_spec("mlx"):
        pytest.skip("mlx is installed")
    assert_it_shows(row, process if row.kind == Kind.TIMEOUT else gradcli, tmp_path)


def test_only_a_kind_that_no_short_command_shows_has_no_example() -> None:
    assert [row.kind for row in ALL if row.example is None] == [Kind.TRACE, Kind.CHANGED_SINCE]
