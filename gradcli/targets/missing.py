"""What the words of a command name and is not there: found by looking and by reading, before anything is imported or run.

Only what is certain is reported; all else is left to the command, which says it in the same words.
"""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gradcli.request.target_text import ASSIGNMENT, is_folder, is_python
from gradcli.targets.missing_target import Source, refuse_target
from gradcli.targets.point_files import data_file, file_values, gives_values, point_file

_COMMANDS = ("check", "compare-modes", "sweep", "derive", "grad", "trace")
_POINT = ("--at", "-a")
_SHORT = ("-a",)  # its value is a word of its own
_CLAIM = ("--grad", "--jac", "--hess", "--jvp", "--vjp", "--hvp")
_OTHERS = ("--wrt", "--seed", "--shapes", "--pick", "--modes", "--device")  # that take a value too
_FLAGS = (
    "--value-and-grad", "--require-claim", "--json", "--quiet", "-q", "--verbose", "-v", "--color", "--no-color", "--traceback",
    "--allow-inconclusive", "--mutate",
)  # fmt: skip


class Words(NamedTuple):
    """The words of a command with one target: the target, the strings of its point, and its claims."""

    target: str
    points: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def refuse_missing(argv: Sequence[str]) -> None:
    """Raise an error for what a command names and is not there: a Python file, a module, a name, or a file of data.

    Raises  BadTarget, BadPoint, TooLarge.
    """
    words = words_of(argv)
    if words is None or is_folder(words.target):
        return
    with contextlib.suppress(OSError):  # of a path that no file can have
        source = refuse_target(words.target) if is_python(words.target) else None
        for text in words.points:
            _refuse_point(text, words.target, source)
        for text in words.claims:
            if is_python(text):
                refuse_target(text)


def words_of(argv: Sequence[str]) -> Words | None:
    """Return the words of a command; None if it has not one target, or options that are not known here."""
    if not argv or argv[0] not in _COMMANDS:
        return None
    target, points, claims = "", list[str](), list[str]()
    words = list(argv[:0:-1])
    while words:
        word = words.pop()
        option, equals, value = word.partition("=")
        if word in _FLAGS:
            continue
        if option in (*_POINT, *_CLAIM, *_OTHERS):
            if (equals and option in _SHORT) or not (equals or words):
                return None
            given = value if equals else words.pop()
            points += [given] if option in _POINT else []
            claims += [given] if option in _CLAIM else []
        elif word.startswith("-"):
            return None
        elif not target:
            target = word
        elif ASSIGNMENT.fullmatch(word) and word.partition("=")[2].strip():
            points.append(word)
        else:
            return None
    return Words(target, tuple(points), tuple(claims)) if target else None


def _refuse_point(text: str, target: str, source: Source | None) -> None:
    """Raise an error for a file that a string of the point names and is not there.

    A file that the target's own code names is left out, because this code may write it when it is imported.
    """
    stripped = text.strip()
    if is_python(stripped) and not gives_values(stripped):
        refuse_target(stripped)
        return
    values = [text[slice(*match.span("file"))].strip() for match in file_values(text)]
    named = [stripped] if stripped.startswith("@") else values
    for reference in named:
        if is_python(target) and (source is None or _is_named_in(source.text, reference)):
            continue
        if stripped.startswith("@"):
            point_file(reference)
        else:
            data_file(reference, "")


def _is_named_in(code: bytes, reference: str) -> bool:
    """Whether a string in Python code ends with the name of a file, with any ending or none, as `np.save("x")` adds one."""
    stem = Path(reference.removeprefix("@")).name.partition(".")[0]
    return re.search(rb"\b%s(?:\.\w+)?['\"]" % re.escape(stem).encode(), code) is not None
