"""Predict the cost of a program at sizes that were not run, from exact counts at small sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import GradcliError
from gradcli.modes.mode import Question
from gradcli.modes.work import Effort
from gradcli.study.counts import Counts, Outline, counts, outline
from gradcli.study.polynomials import NotPolynomial, at_size
from gradcli.verify.request import Request

SPACINGS = (12, 64, 60)  # between tried sizes, so that size // 2, size // 3, size // 4, ... are polynomials too
TRIED = 5  # sizes: enough for a polynomial of degree 3 and one spare point
MOST_TRIED = 4 * 10**7  # work at the size at which a prediction is tested
MOST_TRIED_LINES = 2_000  # of the program at that size
_UNKNOWN = 10**4  # assumed work for each unit of a size whose work is unknown

_View = Callable[[Outline], Any]
_Finish = Callable[[Any], Counts]
# What is predicted, the most exact first: the shapes of all lines, because the peak of memory may move in large programs;
# the counts, if the number of lines grows; else only what the shapes of inputs and result determine.
_WAYS: tuple[tuple[_View, _Finish], ...] = (
    (lambda made: made, counts),
    (counts, lambda found: found),
    (lambda made: counts(made).of_shapes, lambda found: found),
)


class Prediction:
    """The cost of a program at any size: counted if it was recorded there, else predicted from small sizes."""

    def __init__(self, name: str, make: Callable[[int], Request]) -> None:
        self.name = name
        self.make = make
        self.outlines: dict[int, Outline | None] = {}
        self.known: dict[int, Counts | None] = {}
        self.predictable = True

    def question(self, n: int) -> tuple[Question, Request]:
        """Return the question at a size, and the request that it was made from."""
        request = self.make(n)
        return request.question(request.points[0], request.budget.at_least(Effort.ALL)), request

    def at(self, n: int) -> Counts | None:
        """Return the cost at a size; None if no exact prediction is possible."""
        if n not in self.known:
            self.known[n] = self._predicted(n) if self.predictable else None
        return self.known[n]

    def counted(self, n: int, q: Question) -> Counts | None:
        """Return the counted cost at a size that is run; if it differs from the prediction, predictions stop."""
        made = self._recorded(n, q)
        if made is None:
            return self.at(n)
        found = counts(made)
        expected = self.known.get(n)
        self.predictable &= expected is None or expected == (found if expected.counted else found.of_shapes)
        self.known[n] = found
        return found

    @property
    def recorded(self) -> list[tuple[int, Counts]]:
        """The costs of the recorded sizes, in order of size."""
        return [(n, counts(made)) for n, made in sorted(self.outlines.items()) if made is not None]

    def _recorded(self, n: int, q: Question | None = None) -> Outline | None:
        """Return the outline of the program at a size; None if it has too many lines. Errors of the function are raised."""
        if n not in self.outlines:
            with np.errstate(all="ignore"):
                self.outlines[n] = outline(q or self.question(n)[0], self.name)
        return self.outlines[n]

    def _predicted(self, n: int) -> Counts | None:
        """Return the cost by the first way of prediction that is exact at one more size; None if none is."""
        for view, finish in _WAYS:
            for spacing in SPACINGS:
                tried = [n % spacing + spacing * k for k in range(1, TRIED + 1)]
                try:
                    found = [self._recorded(m) for m in tried]
                    seen = [view(made) for made in found if made is not None]
                    predicted = finish(at_size(tried, seen, n)) if len(seen) == TRIED else None
                    if predicted is not None and self._holds(tried, seen, n, view, finish):
                        return predicted
                except (GradcliError, NotPolynomial, MemoryError):
                    continue  # the function is undefined at some size, or follows no polynomial
        return None

    def _holds(self, tried: Sequence[int], seen: Sequence[Any], n: int, view: _View, finish: _Finish) -> bool:
        """Whether the prediction is exact at one more size: the largest below n that is quick to record; True if none is."""
        spacing = tried[1] - tried[0]
        for m in reversed([tried[-1] + spacing * 2**k for k in range(20) if tried[-1] + spacing * 2**k < n]):
            expected = at_size(tried, seen, m)
            takes = finish(expected)
            work = takes.gradient_work + takes.tangent_work if takes.counted else m * _UNKNOWN
            if work + takes.input_bytes <= MOST_TRIED and takes.lines <= MOST_TRIED_LINES:
                made = self._recorded(m)
                return made is not None and view(made) == expected
        return True
