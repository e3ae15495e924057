"""A wrong claim with the right gradient, and the test whether a mistake explains the claim."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import cotangent_rows, jacobian_from_rows
from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.classes import dataclass
from gradcli.modes.mode import Question
from gradcli.report import numbers
from gradcli.report.point_report import Diagnosis, order_worst_first
from gradcli.request.point import Array
from gradcli.tracing.shapes import largest_magnitude, shape, size
from gradcli.words import DiagnosisKind

Gradient = dict[str, Array]
CLOSE = 1e-7  # relative: a mistake explains a claim if the gradient with the mistake is this near the claim
SMALL = 1e-3  # relative to the largest entry: smaller entries are compared as if they were this large
_LEFT = 0.02  # the largest part of the claim's error that a mistake may leave unexplained
_NAMED = 3  # up to this many entries are named one by one


# What the search for the cause of a wrong claim may still take: calls, which are counted, and a time limit as a safety net.

FEWEST, MOST = 400, 4_000  # calls of f, whatever the verdict took
_TIMES = 8.0  # the calls that the verdict took
_OPERATIONS = 4e6  # scalar operations that are allowed where a call takes few of them
SECONDS = 30.0  # of processor time: the limit, unless the user gives another one
_WAITED = 4.0  # times the limit, on the clock: other programs may take most of the processors


class BudgetSpent(Exception):
    """The search for a cause has no calls left, or its time is up."""


def allowed_search_calls(verdict_calls: float, operations: int | None) -> int:
    """Return how many calls the search for a cause may take, from the calls that the verdict took.

    `operations` counts the scalar operations of one call, where f was recorded; None if it was not.
    """
    least = 0.0 if operations is None else _OPERATIONS / max(operations, 1)
    return int(min(max(_TIMES * verdict_calls, least, FEWEST), MOST))


class CauseBudget:
    """The calls and the seconds that are left for the cause of one FAIL: names of mistakes, edits, the closed form.

    A call is one evaluation of f or of the claim, one sweep, or one candidate edit at one point. Seconds are those of the
    processor, so that a busy machine changes nothing; what only waits ends after four times as many.
    """

    def __init__(self, calls: int, seconds: float = SECONDS) -> None:
        self.calls, self._kept = calls, 0
        self.late = False  # whether the time limit was reached
        self._end, self._end_on_clock = time.process_time() + seconds, time.monotonic() + _WAITED * seconds

    @property
    def left(self) -> int:
        """The calls that may be spent now."""
        return max(0, self.calls - self._kept)

    @property
    def seconds(self) -> float:
        """The seconds of processor time that are left."""
        return max(0.0, self._end - time.process_time())

    @property
    def wait(self) -> float:
        """The seconds on the clock that are left."""
        return max(0.0, self._end_on_clock - time.monotonic())

    def spend(self, calls: int = 1) -> None:
        """Count some calls. Raises BudgetSpent if they are not left, or the time is up."""
        if self.late or time.process_time() > self._end or time.monotonic() > self._end_on_clock:
            self.late = True
            raise BudgetSpent
        if calls > self.left:
            raise BudgetSpent
        self.calls -= calls

    @contextmanager
    def keeping(self, calls: int) -> Iterator[None]:
        """Keep some of the calls that are left, which nothing in the block may spend."""
        before, self._kept = self._kept, self._kept + calls
        try:
            yield
        finally:
            self._kept = before


@dataclass(frozen=True)
class Wrong:
    """A claim that is wrong at the entries in `masks`, and the right gradient; both by input.

    Shapes  all arrays have the shape of the claim: that of the output, then that of the input.
    Units   `room` is the allowed difference of two equal values, in units of the gradient.
    """

    q: Question
    claimed: Gradient
    right: Gradient
    masks: dict[str, Any]
    room: Gradient = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # remarks on the search, such as that it was cut short
    unnamed: list[Diagnosis] = field(default_factory=list)  # factors with no known cause, as a last resort
    # the recorded program with the slip that explains the claim
    slipped: list[RecordedProgram] = field(default_factory=list)
    only_line: tuple[str | None, int | None] | None = None  # the file and line of the slips that are tried on the tape
    budget: CauseBudget = field(default_factory=lambda: CauseBudget(MOST))

    def note_limit(self) -> None:
        """Note that the search for the mistake ended at its limit, once."""
        note = "not all mistakes were tried, for the search is limited to a number of calls"
        if note not in self.notes:
            self.notes.append(note)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The inputs with wrong entries."""
        return tuple(name for name, mask in self.masks.items() if np.any(mask))

    @property
    def count(self) -> int:
        """The number of wrong entries."""
        return sum(int(np.sum(mask)) for mask in self.masks.values())

    @property
    def masked(self) -> tuple[Gradient, Gradient]:
        """The claim and the right gradient at the wrong entries alone."""
        claimed, right = (
            {name: np.asarray(of[name])[np.asarray(self.masks[name])] for name in self.names}
            for of in (self.claimed, self.right)
        )
        return claimed, right

    @property
    def outputs(self) -> int:
        """The number of leading axes that count outputs."""
        return len(shape(self.q.value))

    def alone(self, name: str) -> "Wrong":
        """Return the same claim restricted to one input."""
        return Wrong(
            self.q, {name: self.claimed[name]}, {name: self.right[name]}, {name: self.masks[name]}, self.room,
            budget=self.budget,
        )  # fmt: skip

    def gradient_of(self, program: RecordedProgram, xs: Sequence[Array]) -> Gradient:
        """Return the gradient of a program for the claimed inputs, whose values are `xs`.

        Cost  one reverse sweep for each entry of the value.
        """
        rows = cotangent_rows(program, np.float64(1))
        claimed = ((k, name) for k, name in enumerate(self.q.wrt) if name in self.claimed)
        return {name: jacobian_from_rows(rows, self.q.value, k, xs[k]) for k, name in claimed}

    def explained(self, made: Gradient) -> bool:
        """Whether `made`, the right gradient with a mistake, equals the claim; inputs not in `made` have the right gradient."""
        left = total = 0.0
        for name, claim in self.claimed.items():
            candidate = np.asarray(made.get(name, self.right[name]))
            if shape(candidate) != shape(claim):
                return False
            scale = max(largest_magnitude(candidate), 1e-300)
            room = CLOSE * np.maximum(np.abs(candidate), SMALL * scale) + self.room.get(name, 0.0)
            with np.errstate(invalid="ignore"):
                if not np.all(np.abs(claim - candidate) <= room):
                    return False
            left += float(np.sum(np.abs(claim - candidate)[self.masks[name]]))
            total += float(np.sum(np.abs(claim - self.right[name])[self.masks[name]]))
        return bool(left <= _LEFT * total) and bool(np.isfinite(total))

    def where(self) -> str:
        """Return in words which entries are wrong, such as ` in x[4]`; empty if all are wrong."""
        if self.count == sum(size(mask) for mask in self.masks.values()):
            return ""
        parts = []
        for name in self.names:
            mask = np.asarray(self.masks[name])
            places = np.argwhere(mask)
            if np.all(mask):
                parts.append(f"all of {name}" if size(mask) > 1 else name)
            elif len(places) <= _NAMED:
                parts.append(", ".join(self.entry(name, tuple(int(k) for k in at)) for at in places))
            else:
                parts.append(describe_entries(mask, name, self.outputs))
        return " in " + " and ".join(parts) if len(parts) <= _NAMED else f" in {self.count:,} entries"

    def entry(self, name: str, at: tuple[int, ...]) -> str:
        """Return the name of one entry, such as `x[4]`."""
        return numbers.entry_name(name, at[self.outputs :], at[: self.outputs])

    def worst(self) -> tuple[str, tuple[int, ...]]:
        """Return the input and the index of the worst wrong entry, by relative, then by absolute error."""
        claimed, right = self.masked
        places = [(name, at) for name in self.names for at in map(tuple, np.argwhere(self.masks[name]))]
        values = (np.concatenate([np.ravel(of[name]) for name in self.names]) for of in (claimed, right))
        name, at = places[int(order_worst_first(*values)[0])]
        return name, tuple(int(k) for k in at)

    def says(self, kind: DiagnosisKind, message: str, **more: Any) -> Diagnosis:
        """Return a diagnosis with this message, and with the right value of the worst entry."""
        name, at = self.worst()
        claimed, right = numbers.write_differing_pair(float(self.claimed[name][at]), float(self.right[name][at]))
        return Diagnosis(kind, message, corrected=f"{self.entry(name, at)} = {right}, not {claimed}", **more)


def describe_entries(mask: Any, name: str, outputs: int) -> str:
    """Return a set of entries in words: rows, columns, the diagonal or a range if possible, else their number."""
    if mask.ndim == 2:
        words = ("output", "input") if outputs else ("row", "column")
        for axis, word in ((1, words[0]), (0, words[1])):
            lines = np.any(mask, axis=axis)
            if np.array_equal(mask, np.broadcast_to(np.expand_dims(lines, axis), mask.shape)):
                numbers_ = ", ".join(map(str, np.flatnonzero(lines)[:_NAMED]))
                return f"{word}{'s' if np.sum(lines) > 1 else ''} {numbers_}{', ...' if np.sum(lines) > _NAMED else ''} of {name}"
        eye: Any = np.eye(*mask.shape) == 1.0
        if np.array_equal(mask, eye):
            return f"the diagonal of {name}"
        if np.array_equal(mask, ~eye):
            return f"{name} off the diagonal"
    if mask.ndim == 1:
        first, last = int(np.argmax(mask)), mask.size - int(np.argmax(mask[::-1]))
        if np.all(mask[first:last]):
            return f"{name}[{first}:{last}]"
    return f"{int(np.sum(mask)):,} of {mask.size:,} entries of {name}"
