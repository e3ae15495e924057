"""The counted work of a derivation, which ends it: a count, and not a time, so that the answer is the same on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gradcli.errors import NotSupported

MOST_WORK = 300_000  # of one derivative, in factors that are put in order; those of textbooks take 10,000 at most
MOST_SIMPLIFYING = 100_000  # of that, for one simplification, which then ends with the smallest form it has found
_CHARACTERS = 50  # of the canonical text of a function that count as one factor


class TooLong(NotSupported):
    """A derivative whose formula takes more work than is allowed."""


@dataclass
class _Counter:
    done: int
    most: int


_COUNTER: ContextVar[_Counter | None] = ContextVar("counter of work", default=None)


@contextmanager
def limited_work(most: int = MOST_WORK) -> Iterator[None]:
    """Let what runs inside do at most this much work, and no more than is left outside."""
    outer = _COUNTER.get()
    counter = _Counter(0, most if outer is None else min(most, outer.most - outer.done))
    token = _COUNTER.set(counter)
    try:
        yield
    finally:
        _COUNTER.reset(token)
        if outer is not None:
            outer.done += counter.done


def spend_work(factors: int) -> None:
    """Count work. Raises TooLong if more is done than is allowed."""
    counter = _COUNTER.get()
    if counter is None:
        return
    counter.done += factors
    if counter.done > counter.most:
        raise TooLong(
            "its formula is too long: finding and simplifying it takes more work than is allowed",
            do="derive a part of f, or name an intermediate result as an input; gradcli grad computes the derivative at a point",
        )


def spend_on_text(characters: int) -> None:
    """Count the work of a canonical text. Raises TooLong if more is done than is allowed."""
    spend_work(characters // _CHARACTERS)
