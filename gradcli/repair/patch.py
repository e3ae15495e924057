"""A repair as a unified diff that `git apply` takes."""

import difflib
import re
from pathlib import Path

from gradcli.repair.place import Edit
from gradcli.repair.search import Repair
from gradcli.repair.text import changed, lines_of
from gradcli.report.point_report import SourceEdit

WORDS = {  # by the kind of an edit
    "sign": "a sign", "operator": "an operator", "factor": "a factor", "term": "a term", "exponent": "an exponent",
    "constant": "a number", "name": "a name", "function": "a function", "index": "an index", "axis": "an axis",
    "transpose": "a transpose", "subscripts": "the order of subscripts", "sum": "a sum", "order": "an order",
    "grouping": "the place of a bracket", "comparison": "a comparison", "assignment": "an assignment", "statement": "a statement",
}  # fmt: skip
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
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


def slip_of(repair: Repair) -> str:
    """Say what is there and what it should be, such as "a name is wrong: `X` should be `Xs`"."""
    edits = zip(repair.edits, repair.before, edits_in(repair), strict=True)
    return "; ".join(_slip(edit, before, line) for edit, before, line in edits)


def _slip(edit: Edit, before: str, line: SourceEdit) -> str:
    word = WORDS.get(edit.kind, "the code")
    pairs = {(" ".join(before[c.start : c.end].split()), " ".join(c.new.split())) for c in edit.changes}
    old, new = next(iter(pairs)) if len(pairs) == 1 else (line.before, line.after)
    if not old:
        return f"{word} is missing: `{new}`"
    if not new:
        return f"{word} is one too many: `{old}`"
    which = ""
    if len(edit.changes) == 1:
        start = edit.changes[0].start
        left = before[before.rfind("\n", 0, start) + 1 : start]
        as_word = rf"(?<!\w){re.escape(old)}(?!\w)"
        which = _which(len(re.findall(as_word, left)), len(re.findall(as_word, line.before)))
        old, new, which = _differing_words(line.before, line.after) or (old, new, which)
    return f"{word} is wrong: {which}`{old}` should be `{new}`"


def _differing_words(before: str, after: str) -> tuple[str, str, str] | None:
    """Return the one word in which two texts differ, with its keyword as in `axis=0`; None if they differ in more."""
    a, b = (re.findall(r"\w+=(?!=)|[\w.]+|\S", text) for text in (before, after))
    differing = [k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    if len(a) != len(b) or len(differing) != 1:
        return None
    k = differing[0]
    keyword = a[k - 1] if k and re.fullmatch(r"\w+=", a[k - 1]) else ""
    return keyword + a[k], keyword + b[k], _which(a[:k].count(a[k]), a.count(a[k]))


def _which(number: int, count: int) -> str:
    """Say which of several equal words is meant, counted from 0; nothing where there is one."""
    if count < 2:
        return ""
    return f"the {_ORDINALS[number]} " if number < len(_ORDINALS) else f"number {number + 1} of the texts "
