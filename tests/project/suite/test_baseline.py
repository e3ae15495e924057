"""What is known to fail."""

from pathlib import Path
from typing import Any

import pytest

from gradcli.errors import BadOption
from gradcli.project.suite import selection
from gradcli.project.suite.selection import Baseline, KnownFailure
from gradcli.report.suite import CheckRow, row_of_document
from tests.conftest import gradcli

QUICK = ("--modes", "reverse,fd", "--json")


def row(name: str, *words: str) -> CheckRow:
    return row_of_document(name, words[0], gradcli("check", *words, *QUICK).json, 0.1)


@pytest.fixture(name="rows", scope="module")
def _rows() -> dict[str, CheckRow]:
    return {
        "sign: of x": row("sign: of x", "x**2*y", "x=1", "y=2", "--grad", "x=-2*x*y, y=x**2"),
        "kink": row("kink", "abs(x)", "x=0"),
        "good": row("good", "x**2", "x=1"),
    }


def test_it_is_written_and_read_without_numbers(rows: dict[str, CheckRow], tmp_path: Path) -> None:
    found = Baseline().updated([*rows.values()], [*rows])
    selection.write_baseline(tmp_path / "known.json", found)
    assert selection.read_baseline(tmp_path / "known.json") == found
    assert found.checks == (
        KnownFailure("kink", "", "inconclusive", "kink"),
        KnownFailure("sign: of x", "x", "fail", "sign"),
    )
    assert all(found.covers(rows[name]) == (name != "good") for name in rows)


def test_another_mistake_is_not_covered(rows: dict[str, CheckRow]) -> None:
    known = Baseline().updated([rows["sign: of x"]], [*rows])
    assert not known.covers(row("sign: of x", "x**2*y", "x=1", "y=2", "--grad", "x=3*x*y, y=x**2"))
    assert not known.covers(row("sign: of x", "x**2*y", "x=1", "y=2", "--grad", "x=-2*x*y, y=-x**2"))


def test_every_reason_of_every_point_is_listed(rows: dict[str, CheckRow]) -> None:
    """A second reason that comes later is new, and so is a point without a verdict beside one that fails."""
    document = dict(rows["kink"].document)
    point = document["points"][0]
    another = {**point, "findings": [*point["findings"], {"kind": "noise", "severity": "inconclusive"}]}
    both = row_of_document("kink", "abs(x)", {**document, "points": [another]}, 0.1)
    known = Baseline().updated([rows["kink"]], ["kink"])
    assert known.covers(rows["kink"]) and not known.covers(both)
    failed = {**rows["sign: of x"].document["points"][0]}
    mixed = row_of_document("m", "f", {**document, "verdict": "fail", "exit_status": 1, "points": [failed, point]}, 0.1)
    assert {known.kind for known in selection.failures_of_row(mixed)} == {"fail", "inconclusive"}


def test_what_no_longer_fails_is_stale(rows: dict[str, CheckRow]) -> None:
    known = Baseline().updated([*rows.values()], [*rows])
    mended = row("sign: of x", "x**2*y", "x=1", "y=2", "--grad", "x=2*x*y, y=x**2")
    assert known.stale([mended], [*rows]) == ("sign: of x",)
    assert known.stale([rows["good"]], [*rows]) == () and known.stale([], ["kink"]) == ("sign: of x",)
    assert known.updated([mended], [*rows]).checks == (KnownFailure("kink", "", "inconclusive", "kink"),)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "gradcli.baseline/1", "known": [3]}', '{"schema": "gradcli.baseline/1", "known": ["x"]}', "{", '{"schema": "other/1", "known": []}'])  # fmt: skip
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: Any) -> None:
    (tmp_path / "known.json").write_text(text)
    with pytest.raises(BadOption, match="is no baseline"):
        selection.read_baseline(tmp_path / "known.json")
