"""What the search for the cause of a wrong claim may still take: calls, which are counted, and a time limit as a safety net."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

FEWEST, MOST = 400, 4_000  # calls of f, whatever the verdict took
_TIMES = 8.0  # the calls that the verdict took
_OPERATIONS = 4e6  # scalar operations that are allowed where a call takes few of them
SECONDS = 30.0  # of processor time: the limit, unless the user gives another one
_WAITED = 4.0  # times the limit, on the clock: other programs may take most of the processors


class BudgetSpent(Exception):
    """The search for a cause has no calls left, or its time is up."""


def calls_for(verdict_calls: float, operations: int | None) -> int:
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
        """Keep some calls, which nothing in the block may spend."""
        before, self._kept = self._kept, max(self._kept, calls)
        try:
            yield
        finally:
            self._kept = before
