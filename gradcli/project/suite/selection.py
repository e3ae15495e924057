"""Which checks of a suite are run: by name, by what happened last time, and by shard."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gradcli.errors import BadOption, Span
from gradcli.project.suite.config import Check

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


def of_shard(ids: Iterable[str], shard: tuple[int, int]) -> frozenset[str]:
    """Return the ids that belong to the K-th of N shards, which depends on the id alone."""
    index, count = shard
    return frozenset(
        name for name in ids if int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) % count == index - 1
    )
