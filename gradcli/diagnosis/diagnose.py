"""Find the simplest single mistake that turns the right gradient into the claim, or describe the pattern of the error."""

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
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_SEARCH = (  # the simplest first: the first that explains every wrong entry is the diagnosis
    as_a_whole, exchanged, in_entries, without_incoming, squared_first, lower_precision, by_differences, slightly_off,
    on_tape, by_parameter, by_unnamed_factor,
    by_a_constant, by_law, by_share, of_another_point, in_one_entry, nearly,
)  # fmt: skip


_SHARES = {
    by_differences: 0.25,
    on_tape: 0.9,
}  # of the calls that are left: what a step may take, so that later ones get some


def diagnose(wrong: Wrong) -> Diagnosis:
    """Return the likely mistake; if no known mistake explains the claim, the pattern of its error.

    Mistakes whose trial takes calls are tried while the budget of `wrong` has some.
    """
    unknown = _not_finite(wrong)
    if unknown is not None:
        return unknown
    for find in _SEARCH:
        try:
            with wrong.budget.keeping(int((1 - _SHARES.get(find, 1.0)) * wrong.budget.left)):
                found = find(wrong)
        except BudgetSpent:
            wrong.note_limit()
            continue
        if found is not None:
            return found
    return pattern(wrong)


def _not_finite(wrong: Wrong) -> Diagnosis | None:
    masks = {name: ~np.isfinite(wrong.claimed[name]) & wrong.masks[name] for name in wrong.names}
    if not any(np.any(mask) for mask in masks.values()):
        return None
    where = Wrong(wrong.q, wrong.claimed, wrong.right, masks).where() or " in every entry"
    return wrong.says(DiagnosisKind.NON_FINITE, f"the claim is not finite{where}, where the right gradient is")
