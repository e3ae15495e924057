"""Documents read back: what prints a report prints its document, and the document of what was read is the same."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.check import CheckReport
from gradcli.report.common import ErrorReport
from gradcli.report.compare import CompareReport, GradReport
from gradcli.report.derive import DeriveReport
from gradcli.report.encode import NotADocument, Summarised, decode_document, encode
from gradcli.report.forms import render_as_text
from gradcli.report.suite import row_of_document
from gradcli.report.sweep import SweepReport
from gradcli.report.trace import TraceReport
from tests.conftest import gradcli
from tests.rows import for_rows

FOLDER = Path(__file__).parents[1] / "goldens"
LINES = [shlex.split(line) for line in (FOLDER / "commands.txt").read_text().splitlines() if line and line[0] != "#"]
CHECKS = [(words[0], words[1:]) for words in LINES if words[1] == "check" and "--json" in words]
OTHERS: dict[str, type] = {
    "compare-modes": CompareReport, "sweep": SweepReport, "derive": DeriveReport, "trace": TraceReport, "grad": GradReport,
}  # fmt: skip


@for_rows(("name", "words"), CHECKS, ids=lambda x: x if isinstance(x, str) else "", parts=7)
def test_a_document_read_back_is_the_same_report(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    ran = gradcli(*words)
    document = ran.json
    if document["schema"] == "gradcli.error/1":
        assert encode(decode_document(ErrorReport, document)) == document
        return
    report = decode_document(CheckReport, document)
    assert encode(report) == document
    if name in ("power", "softmax", "python-wrong", "kink"):
        told = gradcli(*(word for word in words if word != "--json")).stdout
        assert render_as_text("text", report).split() == told.split()


@for_rows("words", [words[1:] for words in LINES if words[0] in ("compare", "sweep", "derive", "trace", "grad")])
def test_a_document_of_another_command_read_back_is_the_same_report(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    document = gradcli(*words).json
    assert encode(decode_document(OTHERS[words[0]], document)) == document


@for_rows(
    "change",
    [
        {"verdict": "maybe"}, {"points": 3}, {"seed": "0"}, {"detects": None}, {"points": [{}]}, {"target": {"kind": "x"}},
        {"exit_status": True},
    ],
)  # fmt: skip
def test_other_data_is_no_document(change: dict[str, Any]) -> None:
    document = gradcli("check", "x**2", "x=1", "--json").json
    with pytest.raises(NotADocument):
        decode_document(CheckReport, {**document, **change})


@for_rows("data", [None, [], "text", 3, {"schema": "gradcli.check/3"}])
def test_what_is_no_object_is_no_document(data: Any) -> None:
    with pytest.raises(NotADocument):
        decode_document(CheckReport, data)


def test_fields_of_later_versions_are_ignored() -> None:
    document = gradcli("check", "x**2", "x=1", "--json").json
    assert decode_document(CheckReport, {**document, "more": 1}).seed == 0
    assert encode(decode_document(CheckReport, {**document, "more": 1})) == document


def test_a_summary_of_a_large_array_is_not_read_as_one() -> None:
    ran = gradcli("check", "sum(x**2)", "x=ones(10001)", "--modes", "reverse", "--grad", "2*x + (x > 2)", "--json")
    with pytest.raises(Summarised):
        decode_document(CheckReport, json.loads(ran.stdout))


def test_a_row_with_large_arrays_still_says_what_is_wrong() -> None:
    words = ("check", "sum(x**2)", "x=ones(10001)", "--grad", "3*x", "--json")
    row = row_of_document("large", "sum(x**2)", gradcli(*words).json, 1.0)
    shown = render_as_text("text", _Blocks(row.blocks()))
    assert row.report is None and row.said() == "10,001 entries wrong"
    assert "x[" in shown and "Likely mistake" in shown and "gradcli check 'sum(x**2)'" in shown


class _Blocks:
    """A report that consists of these blocks."""

    def __init__(self, blocks: Any) -> None:
        self.blocks = lambda: blocks
