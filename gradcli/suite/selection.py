"""Which checks of a suite are run: by name, by what happened last time, by what changed, and by shard."""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcli.errors import BadOption, Span
from gradcli.suite.config import Check

Wanted = Callable[[str], bool]  # whether a text in lower case is selected
_WORD = re.compile(r"\s*(?:(?P<quoted>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>[^\s()'\"]+)|(?P<sign>[()]))")


def by_name(checks: Sequence[Check], expression: str) -> tuple[Check, ...]:
    """Return the checks whose id or target an expression of names with `and`, `or` and `not` selects, as in pytest.

    Raises  BadOption for an expression that cannot be read, or that selects nothing.
    """
    wanted = _Expression(expression).read()
    found = tuple(check for check in checks if wanted(f"{check.id}\n{check.ask.target}".lower()))
    if not found:
        raise BadOption(f"no check is selected by -k '{expression}'", do="gradcli check --list shows all")
    return found


class _Expression:
    """Reads `focal and not (huber or lost)`; names in quotes may hold blanks, and quotes after a backslash."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[tuple[str, str, int]] = []
        start = 0
        while text[start:].strip():
            match = _WORD.match(text, start)
            if match is None:
                raise self._wrong("this quote has no end", len(text) - len(text[start:].lstrip()))
            kind = str(match.lastgroup)
            self._words.append((kind, match[kind], match.start(kind)))
            start = match.end()
        self._k = 0

    def read(self) -> Wanted:
        """Return the predicate. Raises BadOption."""
        found = self._any()
        if self._k < len(self._words):
            raise self._wrong("this does not belong here", self._words[self._k][2])
        return found

    def _any(self) -> Wanted:
        parts = [self._all()]
        while self._next_is("or"):
            parts.append(self._all())
        return lambda text: any(part(text) for part in parts)

    def _all(self) -> Wanted:
        parts = [self._one()]
        while self._next_is("and"):
            parts.append(self._one())
        return lambda text: all(part(text) for part in parts)

    def _one(self) -> Wanted:
        if self._next_is("not"):
            inner = self._one()
            return lambda text: not inner(text)
        if self._k == len(self._words):
            raise self._wrong("a name is missing here", len(self._text))
        kind, word, start = self._words[self._k]
        self._k += 1
        if (kind, word) == ("sign", "("):
            found = self._any()
            if not self._next_is(")"):
                raise self._wrong("this bracket is not closed", start)
            return found
        if kind == "sign" or (kind == "word" and word in ("and", "or")):
            raise self._wrong("a name is missing here", start)
        name = (re.sub(r"\\(.)", r"\1", word[1:-1]) if kind == "quoted" else word).lower()
        return lambda text: name in text

    def _next_is(self, word: str) -> bool:
        found = self._k < len(self._words) and self._words[self._k][:2] in (("word", word), ("sign", word))
        self._k += found
        return found

    def _wrong(self, what: str, start: int) -> BadOption:
        text = self._text or " "
        return BadOption(
            f"-k cannot be read: {what}",
            where=Span(text, min(start, len(text) - 1)),
            do='write -k "focal and not huber"',
        )


def not_passed(checks: Sequence[Check], last: Mapping[str, Any]) -> tuple[Check, ...]:
    """Return the checks that did not pass last time, or were not reached. Raises BadOption if there are none."""
    found = tuple(check for check in checks if last.get(check.id, {}).get("verdict") != "pass")
    if not found:
        raise BadOption("every check passed last time", do="without --last-failed all are run")
    return found


def changed(
    checks: Sequence[Check], last: Mapping[str, Any], folder: Path, since: str | None, digest: Callable[[Check], str]
) -> tuple[Check, ...]:
    """Return the checks whose files differ from git's HEAD, or from where HEAD left `since`.

    A check counts as changed if its files are not known, or if its own declaration is another one than last time.

    Raises  BadOption where there is no git repository, or `since` is not known there.
    """
    files = _files_changed(folder, since)

    def is_changed(check: Check) -> bool:
        known = last.get(check.id, {})
        sources = known.get("files")
        return sources is None or known.get("declared") != digest(check) or bool(files & set(sources))

    return tuple(check for check in checks if is_changed(check))


def _files_changed(folder: Path, since: str | None) -> set[str]:
    """Return the files that differ, relative to the folder; new files that git does not ignore count too."""
    if since is not None and since.startswith("-"):
        raise BadOption(f"'{since}' names no commit", do="write --changed-since main")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    base = "HEAD" if since is None else _git(top, "merge-base", "HEAD", since).strip()
    names = _git(top, "diff", "--name-only", "--no-renames", "-z", base, "--")
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    paths = (top / name for name in (names + new).split("\0") if name)
    return {Path(os.path.relpath(path, folder.resolve())).as_posix() for path in paths}


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-C", str(folder), *words]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        raise BadOption("git is not installed, which --changed needs", do="leave it out") from None
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["it failed"])[0]
        raise BadOption(f"git cannot tell what changed: {said[:200]}", do="leave --changed out")
    return ran.stdout


def of_shard(ids: Iterable[str], shard: tuple[int, int]) -> frozenset[str]:
    """Return the ids that belong to the K-th of N shards, which depends on the id alone."""
    index, count = shard
    return frozenset(
        name for name in ids if int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) % count == index - 1
    )
