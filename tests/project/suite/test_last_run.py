"""What is kept of the last run: verdicts and times, and no damage to them is more than a note."""

import json
import random
from pathlib import Path

from gradcli.project.suite.selection import FOLDER, read_last_run, write_last_run
from gradcli.report.suite import CheckRow, row_of_document

ROW: CheckRow = row_of_document("a", "x**2", {"verdict": "pass", "exit_status": 0}, 0.1)
KEPT = {"a": {"verdict": "pass", "seconds": 0.1}, "b": {"verdict": "not reached"}}


def written(folder: Path) -> list[str]:
    """Keep the verdicts of a run, and return what it told."""
    notes: list[str] = []
    write_last_run(folder, [ROW], ["b"], notes.append)
    return notes


def test_verdicts_are_kept_beside_those_of_other_checks(tmp_path: Path) -> None:
    assert read_last_run(tmp_path, lambda note: None) == {} and written(tmp_path) == []
    write_last_run(tmp_path, [], ["a"], lambda note: None)
    last = read_last_run(tmp_path, lambda note: None)
    assert last == {**KEPT, "a": {"verdict": "not reached", "seconds": 0.1}}
    assert (tmp_path / FOLDER / ".gitignore").read_text() == "*\n"
    assert (tmp_path / FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_run_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    write_last_run(tmp_path, [], [], lambda note: None)
    assert list(tmp_path.iterdir()) == []


def test_no_damage_is_an_exception(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / FOLDER / "last.json"
    good = path.read_bytes()
    draw = random.Random(0)
    for _ in range(200):
        bad = bytearray(good[: draw.randrange(1, len(good))] if draw.random() < 0.3 else good)
        for _ in range(draw.randrange(4)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        path.write_bytes(bad)
        notes: list[str] = []
        last = read_last_run(tmp_path, notes.append)
        assert all(isinstance(entry, dict) for entry in last.values())
        assert last or notes == [f"note: {FOLDER}/last.json is damaged or of another version, and is ignored"]
    for text in ("[]", '{"format": 2, "checks": []}', json.dumps({"format": 1, "checks": KEPT}), "[" * 10**5):
        path.write_text(text)
        assert read_last_run(tmp_path, notes.append) == {}, text


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file")
    assert [note.partition(": ")[2] for note in written(tmp_path)] == [
        "the verdicts are not kept for --last-failed: .gradcli_cache cannot be written: File exists"
    ]
