"""The finding that names the point where the fewest digits are right, the line that loses them, and what to write instead."""

import math
from collections.abc import Mapping
from typing import Any

from gradcli.errors import Place
from gradcli.reports import numbers
from gradcli.reports.common import Finding, finding
from gradcli.stress.advice import advice
from gradcli.stress.exact import Named, loss
from gradcli.words import Kind, Severity

FEW_DIGITS = 6.0  # fewer are reported


def inaccurate(
    what: str,
    digits: float,
    values: Mapping[str, Any],
    function: Named | None,
    wrt: tuple[str, ...],
    wanted: float | None,
) -> Finding:
    """Return the finding that `what` keeps few right digits at a point, an error if more are `wanted`.

    `function` computes it; its line that loses the digits is named where it can be traced.
    """
    says = f"{what} keeps {math.floor(digits * 10) / 10:.1f} right digits at {numbers.at_values(values)}"
    lost = None if function is None else loss(function, wrt, values)
    hint, where = None, None
    if lost is not None:
        where = lost.where
        reason, better = advice(where.source if where is not None else "", lost.name)
        says += f"; {reason}"
        hint = None if better is None else f"write {better}"
        if isinstance(where, Place) and where.operation != where.source:
            says += f", in {where.operation}"
    few = wanted is not None and digits < wanted
    if few:
        says += f"; --digits asks for {wanted:g}"
    return finding(Kind.INACCURATE, Severity.ERROR if few else Severity.WARNING, says, at=where, hint=hint)
