"""Find the simplest single mistake that turns the right gradient into the claim, or describe the pattern of the error."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from gradcli.diagnosis.approximate import by_differences, lower_precision, nearly
from gradcli.diagnosis.budget import BudgetSpent
from gradcli.diagnosis.chain_rule import by_parameter, squared_first, without_incoming
from gradcli.diagnosis.gradient_slips import (
    as_a_whole,
    by_a_constant,
    by_unnamed_factor,
    exchanged,
    in_entries,
    in_one_entry,
    slightly_off,
)
from gradcli.diagnosis.on_tape import by_share, on_tape
from gradcli.diagnosis.other_point import of_another_point
from gradcli.diagnosis.residual import by_law, pattern
from gradcli.diagnosis.wrong import Wrong
from gradcli.errors import FunctionFailed, TraceEnded
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_SEARCH = (  # the simplest first: the first that explains every wrong entry is the diagnosis
    as_a_whole, exchanged, in_entries, without_incoming, squared_first, lower_precision, by_differences, slightly_off,
    on_tape, by_parameter, by_unnamed_factor,
    by_a_constant, by_law, by_share, of_another_point, in_one_entry, nearly,
)  # fmt: skip
_MANY = 2  # entries, which one number, the distance to the other point, does not explain by accident
_NUMBER = re.compile(r"\d[\w.+-]*")
_BY_NUMBER = frozenset({DiagnosisKind.UNKNOWN, DiagnosisKind.SCALED, DiagnosisKind.FACTOR, DiagnosisKind.SLIP})


# Of the calls that are left: what a step may take, so that some are left for later ones, and for trying a name elsewhere.
_SHARES = {by_differences: 0.25, on_tape: 0.6}


def diagnose(wrong: Wrong, elsewhere: Iterable[Wrong] = ()) -> Diagnosis:
    """Return the likely mistake; if no known mistake explains the claim, the pattern of its error.

    A mistake that explains the claim at the point and not `elsewhere`, where the claim is wrong, too, is none. What takes
    calls is tried while the budget of `wrong` has some.
    """
    unknown = _not_finite(wrong)
    if unknown is not None:
        return unknown
    others = _Kept(iter(elsewhere))
    for find in _SEARCH:
        try:
            with wrong.budget.keeping(int((1 - _SHARES.get(find, 1.0)) * wrong.budget.left)):
                found = find(wrong)
            if found is not None and all(_is_same(found, _found_in(other, find, found), wrong) for other in others):
                return found
        except BudgetSpent:
            wrong.note_limit()
        except (FunctionFailed, TraceEnded):  # f cannot be called once more, as where it keeps what it was given
            continue
    return pattern(wrong)


class _Kept:
    """What an iterator yields, which is asked for it once, and no earlier than it is needed."""

    def __init__(self, source: Iterator[Wrong]) -> None:
        self.source = source
        self.known: list[Wrong] = []

    def __iter__(self) -> Iterator[Wrong]:
        yield from self.known
        for x in self.source:
            self.known.append(x)
            yield x


def _found_in(wrong: Wrong, find: Callable[[Wrong], Diagnosis | None], first: Diagnosis) -> Diagnosis | None:
    """Return the mistake that explains the claim at another point, on the line of the first one if it does there."""
    if find not in (on_tape, by_share):
        return find(wrong)
    for only in ((first.file, first.line), None) if first.line is not None else (None,):
        at = replace(wrong, only_line=only, unnamed=[], slipped=[])
        found = on_tape(at)
        found = by_share(at) if find is by_share else found  # it takes what the search on the tape has left
        if found is not None:
            return found
    return None


def _is_same(found: Diagnosis, other: Diagnosis | None, wrong: Wrong) -> bool:
    """Whether two points have the same mistake, on the same line; a factor without a known cause has to be the same number.

    A stale value that explains many entries needs no other point: the iteration that finds it may not converge there.
    """
    if found.kind is DiagnosisKind.STALE and wrong.count > _MANY:
        return True
    if other is None or (found.kind, found.file, found.line) != (other.kind, other.file, other.line):
        return False
    if found.kind not in _BY_NUMBER:
        return True
    one, two = (x.message.partition(" in ")[0] for x in (found, other))
    if ":" in one and found.kind is not DiagnosisKind.UNKNOWN:  # named by its cause, whose number may be the point's
        one, two = (_NUMBER.sub("", text) for text in (one, two))
    return one == two


def _not_finite(wrong: Wrong) -> Diagnosis | None:
    masks = {name: ~np.isfinite(wrong.claimed[name]) & wrong.masks[name] for name in wrong.names}
    if not any(np.any(mask) for mask in masks.values()):
        return None
    where = Wrong(wrong.q, wrong.claimed, wrong.right, masks).where() or " in every entry"
    return wrong.says(DiagnosisKind.NON_FINITE, f"the claim is not finite{where}, where the right gradient is")
