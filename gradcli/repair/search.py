"""The search for the smallest edit that makes a claim right: one edit, then two, within a counted number of evaluations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.checks.wrong import MOST, BudgetSpent, CauseBudget
from gradcli.repair.scope import Change, Edit, Gradient, Right, changed

_RIVALS = 250  # further evaluations after the first edit that holds, for others that hold too
_DEARER = 0.35  # how much more a rival may cost
_BASES = 3  # edits that mend a part of the claim, from which a second one is sought
_MOST_ALTERNATIVES = 3
_CHANGES_RIGHT = 3.0  # added to the cost of edits in statements that do so
CALLS_A_POINT = 10  # of f, about, for the right gradient at a further point


class Subject(Protocol):
    """A claim as source text that can be changed and evaluated."""

    @property
    def text(self) -> str:
        """The source text."""

    def gradient(self, changes: Sequence[Change], number: int) -> Gradient | None:
        """Return the gradient that the changed claim gives at a point; None if it gives none."""

    def edits(self) -> Iterable[Edit]:
        """Return the edits that may repair it, in any order."""

    def composed(self, right: Right) -> Iterable[Edit]:
        """Return edits that add to an output, or multiply it by, what the right gradient shows to be lacking."""

    def scaled(self) -> Mapping[int, tuple[Change, ...]]:
        """Return, for each line with a statement, a change that scales its value, to see what depends on it."""

    def after(self, edit: Edit) -> "Subject | None":
        """Return the claim after an edit, to be edited again; None if that cannot be."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A text of the claim that is right, and the edits that made it."""

    text: str
    edits: tuple[Edit, ...]
    before: tuple[str, ...]  # the text that each edit was made in

    @property
    def cost(self) -> float:
        return sum(edit.cost for edit in self.edits)


@dataclass
class Search:
    """A search at some points: the given one, drawn ones, and further ones, with all inputs drawn anew or of other sizes.

    `right_here` are the edits that hold at the points alone, and not at a further one: they are no repairs.
    """

    points: Sequence[Right]
    further: Callable[[], Sequence[Right]] = tuple  # called where an edit holds at the points
    budget: CauseBudget = field(default_factory=lambda: CauseBudget(MOST))
    evaluations: int = 0
    right_here: list[Repair] = field(default_factory=list)
    _partly: list[tuple[int, Edit]] = field(default_factory=list)

    def repairs(self, subject: Subject) -> list[Repair]:
        """Return the repairs that hold at every point and every further one, the smallest first."""
        found = [Repair(changed(subject.text, e.changes), (e,), (subject.text,)) for e in self._single(subject)]
        if not found:
            alone = list(self.right_here)
            for _, first in sorted(self._partly, key=lambda pair: (-pair[0], pair[1].cost))[:_BASES]:
                base = subject.after(first)
                if base is None:
                    continue
                self._partly = []
                both = [
                    Repair(changed(base.text, e.changes), (first, e), (subject.text, base.text))
                    for e in self._single(base)
                ]
                self.right_here = alone
                if both:
                    found = both
                    break
        return sorted(found, key=lambda repair: repair.cost)[: 1 + _MOST_ALTERNATIVES]

    def _single(self, subject: Subject) -> list[Edit]:
        """Return the edits that hold at every point and every further one."""
        first = self.points[0]
        try:
            wrong = first.wrong(self._made(subject, (), 0))
            dearer, idle = self._lines_by_effect(subject, wrong)
        except BudgetSpent:
            return []
        promising = (edit for edit in subject.edits() if edit.line not in idle)
        edits = sorted(promising, key=lambda e: e.cost + dearer.get(e.line, 0.0))
        found = self._holding(subject, edits, wrong, dearer)
        return found or self._holding(subject, subject.composed(first), wrong, {})

    def _holding(
        self, subject: Subject, edits: Iterable[Edit], wrong: dict[str, Any] | None, dearer: dict[int, float]
    ) -> list[Edit]:
        """Try edits, the cheapest first; return those that hold everywhere, and keep those that mend a part."""
        found: list[Edit] = []
        tried: set[tuple[Change, ...]] = set()
        end, most = np.inf, np.inf
        for edit in edits:
            cost = edit.cost + dearer.get(edit.line, 0.0)
            if self.budget.left <= 0 or cost > end or self.evaluations > most:
                break
            if edit.changes in tried:
                continue
            tried.add(edit.changes)
            try:
                made = self.points[0].wrong(self._made(subject, edit.changes, 0))
                if made is None:
                    continue
                if not any(np.any(mask) for mask in made.values()):
                    if not all(p.holds(self._made(subject, edit.changes, k)) for k, p in enumerate(self.points) if k):
                        continue
                    if all(
                        p.holds(self._made(subject, edit.changes, k))
                        for k, p in enumerate(self._further_points, len(self.points))
                    ):
                        found.append(edit)
                        end, most = min(end, cost + _DEARER), min(most, self.evaluations + _RIVALS)
                    else:
                        self.right_here.append(Repair(changed(subject.text, edit.changes), (edit,), (subject.text,)))
                elif (mended := 1 if wrong is None else _mended(wrong, made)) > 0:
                    self._partly.append((mended, edit))
            except BudgetSpent:
                break
        return found

    @cached_property
    def _further_points(self) -> Sequence[Right]:
        points = self.further()
        self.budget.spend(min(self.budget.left, CALLS_A_POINT * len(points)))
        return points

    def _made(self, subject: Subject, changes: Sequence[Change], number: int) -> Gradient | None:
        self.budget.spend()
        self.evaluations += 1
        return subject.gradient(changes, number)

    def _lines_by_effect(self, subject: Subject, wrong: dict[str, Any] | None) -> tuple[dict[int, float], set[int]]:
        """Return what edits of a line cost more because right entries depend on it, and the lines on which no wrong one does."""
        found: dict[int, float] = {}
        idle: set[int] = set()
        own = None if wrong is None else self._made(subject, (), 0)
        if wrong is None or own is None:
            return found, idle
        for line, changes in subject.scaled().items():
            made = self._made(subject, changes, 0)
            if made is None:
                continue
            moved = {name: _differs(own[name], made.get(name)) for name in wrong}
            wholly_right = [name for name, mask in wrong.items() if not np.any(mask)]
            if any(np.any(moved[name]) for name in wholly_right):
                found[line] = _CHANGES_RIGHT
            elif not any(np.any(moved[name] & mask) for name, mask in wrong.items() if moved[name].shape == mask.shape):
                idle.add(line)
        return found, idle


def _mended(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Return how many entries an edit mended; 0 if it broke a right one."""
    if any(np.any(after[name] & ~before[name]) for name in before):
        return 0
    return sum(int(np.sum(before[name]) - np.sum(after[name])) for name in before)


def _differs(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return np.ones(a.shape, dtype=bool)
    with np.errstate(all="ignore"):
        return ~(np.abs(a - b) <= 1e-9 * np.abs(a))
