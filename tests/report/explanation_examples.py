"""Run the example of an explanation, and say whether it shows its kind and prints what is shown."""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gradcli.report.explain import Example, Explanation
from tests.documents.comparing import skeleton


def kinds(document: Any, group: str) -> Iterator[str]:
    """Yield the kinds of all findings of a document, or of its diagnoses where mistakes are looked for."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "diagnosis" and value is not None and group == "mistake":
                yield value["kind"]
            if key == "findings" and group != "mistake":
                yield from (found["kind"] for found in value)
            yield from kinds(value, group)
    if isinstance(document, list):
        for part in document:
            yield from kinds(part, group)


def assert_it_shows(row: Explanation, run: Callable[..., Any], folder: Path) -> None:
    """Assert that the example of a row gives its kind, and prints its lines; three dots stand for what is left out."""
    assert row.example is not None
    program, *argv = shlex.split(row.example.command)
    assert program == "gradcli"
    with _folder_of(row.example, folder / "document"):
        assert row.kind in set(kinds(run(*argv, "--json").json, row.group))
    with _folder_of(row.example, folder / "text"):
        printed = skeleton(" ".join(run(*argv).stdout.split()))
    for line in row.example.prints:
        at = 0
        for piece in line.split("..."):
            at = printed.index(skeleton(" ".join(piece.split())), at)


@contextlib.contextmanager
def _folder_of(example: Example, folder: Path) -> Iterator[None]:
    """Work in a new folder with the file of an example; each run has its own, as the file may keep state."""
    folder.mkdir()
    if example.file is not None:
        (folder / "f.py").write_text(example.file)
    with contextlib.chdir(folder):
        yield
