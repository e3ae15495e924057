"""The lines of jq in docs/how-to/jq.md print what Python reads at the same places of the document, also where jq is not installed."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents.blocks import Command, blocks, read
from tests.documents.comparing import differs
from tests.documents.running import run

PAGE = "docs/how-to/jq.md"
COMMANDS = [command for block in blocks(read(PAGE)) if "jq" in block.needs for command in block.commands()]


def points(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the points of all checks that have a verdict, each with the name of its check."""
    for check in document["checks"]:
        yield from ((check["id"], point) for point in check["document"].get("points", ()))


def diagnoses(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((name, point["diagnosis"]) for name, point in points(document) if point["diagnosis"] is not None)


def errors(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (
        (check["id"], check["document"]["error"]) for check in document["checks"] if "error" in check["document"]
    )


def with_verdict(document: dict[str, Any], verdict: str) -> list[dict[str, Any]]:
    return [check for check in document["checks"] if check["verdict"] == verdict]


def quoted(words: list[str]) -> str:
    return " ".join(f"'{word}'" for word in words)


READINGS: list[Callable[[dict[str, Any]], list[str]]] = [  # in the order of the page
    lambda d: [check["id"] for check in with_verdict(d, "fail")],
    lambda d: [f"{name}: {found['message']}" for name, found in diagnoses(d)],
    lambda d: [f"{found['file']}:{found['line']}" for _, found in diagnoses(d) if "edits" in found],
    lambda d: [found["patch"] for _, found in diagnoses(d) if found["patch"] is not None],
    lambda d: [str(max(abs(entry["difference"]) for _, point in points(d) for entry in point["mismatches"]))],
    lambda d: [json.dumps(d["counts"], separators=(",", ":"))],
    lambda d: [f"{name}: {error['message']}" for name, error in errors(d)],
    lambda d: [f"{error['file']}:{error['line']}" for _, error in errors(d) if "file" in error],
    lambda d: [f"{n}: {f['kind']}" for n, point in points(d) for f in point["findings"] if f["severity"] == "inconclusive"],
    lambda d: [f"{check['id']}: {check['document']['detects']['relative']}" for check in with_verdict(d, "pass")],
    lambda d: [
        quoted(check["document"]["command"])
        for check in d["checks"] if check["verdict"] != "pass" and "command" in check["document"]
    ],
    lambda d: [str(d["counts"]["failed"] == 0 and d["counts"]["errors"] <= 1).lower()],
]  # fmt: skip


def fields(value: Any) -> Iterator[str]:
    """Yield the names of all fields of a document."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from fields(inner)


def named(command: Command) -> set[str]:
    """Return the fields that a line of jq reads."""
    program = next(word for word in shlex.split(command.line.partition(";")[0])[1:] if not word.startswith("-"))
    return {*re.findall(r"\.([a-z_]+)", program)}


@pytest.mark.slow
@pytest.mark.repairs
def test_each_line_prints_what_python_reads_at_the_same_fields(tmp_path: Path) -> None:
    assert run(PAGE, tmp_path, frozenset()).wrong == []  # the blocks that need no jq: one writes the document
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    known = {*fields(document)}
    assert len(COMMANDS) == len(READINGS) >= 10
    for command, reading in zip(COMMANDS, READINGS, strict=True):
        assert command.line.startswith("jq ") and named(command) and named(command) <= known, command.line
        shown = (
            command.shown.partition("\n1\n")[0].strip("\n")
            if "; echo $?" in command.line
            else command.shown.strip("\n")
        )
        read_ = [line for text in reading(document) for line in text.strip("\n").splitlines()]
        assert read_ and differs(shown + "\n", "\n".join(read_) + "\n") is None, command.line


def test_the_fields_that_a_line_reads_are_found() -> None:
    found = named(Command("jq -r '.checks[]?.a | select(.b == 0.5) | \"\\(.c_d): \\(.e)\"' report.json; echo $?", ""))
    assert found == {"checks", "a", "b", "c_d", "e"}
