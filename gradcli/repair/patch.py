"""A repair as a unified diff that `git apply` takes."""

import difflib
from pathlib import Path

from gradcli.repair.search import Repair
from gradcli.repair.text import changed, lines_of
from gradcli.reports.point_report import SourceEdit

_PROJECT = (".git", ".hg", "pyproject.toml")


def patch_of(path: str, before: str, after: str) -> str | None:
    """Return the difference of two texts of a file, with its path relative to the project.

    None if the file is outside the project, or its name cannot be written in a patch. Line ends stay as they are.
    """
    name = relative(path)
    if name is None:
        return None
    lines = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def relative(path: str) -> str | None:
    """Return the path of a file as a patch names it; None if it lies outside the project, or has an odd name."""
    file, here = Path(path).resolve(), Path.cwd().resolve()
    root = next(
        (folder for folder in (here, *here.parents) if any((folder / name).exists() for name in _PROJECT)), here
    )
    if not file.is_relative_to(root):
        return None
    name = file.relative_to(root).as_posix()
    return None if any(ord(c) < 32 or c in '"\\' for c in name) else name


def edits_in(repair: Repair) -> tuple[SourceEdit, ...]:
    """Return the edits of a repair with the lines before and after each."""
    found = []
    for edit, before in zip(repair.edits, repair.before, strict=True):
        start, end = min(c.start for c in edit.changes), max(c.end for c in edit.changes)
        first = before.rfind("\n", 0, start) + 1
        last = before.find("\n", end - 1 if before[start:end].endswith("\n") else end)
        last = len(before) if last < 0 else last
        after = changed(before, edit.changes)
        new = after[first : len(after) - (len(before) - last)]
        line = before.count("\n", 0, start) + 1
        found.append(SourceEdit(edit.kind, line, before[first:last].strip(), new.strip()))
    return tuple(found)
