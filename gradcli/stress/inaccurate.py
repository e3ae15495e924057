"""The finding that names the point where the fewest digits are right, the line that loses them, and what to write instead."""

import math
import re
from collections.abc import Mapping
from typing import Any

from gradcli.errors import Place
from gradcli.reports import numbers
from gradcli.reports.common import Finding, finding
from gradcli.stress.exact import Named, loss
from gradcli.words import Kind, Severity

FEW_DIGITS = 6.0  # fewer are reported


# What to write instead of a line that loses digits.

_KNOWN = (  # a pattern of the line, what it does, what to write
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*cos\((?P<x>.+)\)", "1 - cos(x) cancels near 0", "2*sin(x/2)**2"),
    (r"(?:\w+\.)*exp\((?P<x>.+)\)\s*-\s*1", "exp(x) - 1 cancels near 0", "expm1(x)"),
    (r"(?:\w+\.)*log\(\s*1(?:\.0)?\s*\+", "log(1 + x) cancels near 0", "log1p(x)"),
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*tanh\(.+\)\s*\*\*\s*2", "1 - tanh(x)**2 cancels where x is large", "1/cosh(x)**2"),
    (r"1(?:\.0)?\s*/\s*\(1(?:\.0)?\s*\+\s*(?:\w+\.)*exp\(.+\)\)\s*-\s*1", "sigmoid(x) - 1 cancels where x is large",
     "-1/(1 + exp(x))"),
    (r"mean\(.+\*\*\s*2.*\)\s*-\s*(?:\w+\.)*mean\(.+\)\s*\*\*\s*2", "mean(x**2) - mean(x)**2 cancels where x varies little",
     "mean((x - mean(x))**2)"),
    (r"sqrt\(.+\)\s*-\s*.*sqrt\(.+\)", "the difference of two roots cancels", "(a - b)/(sqrt(a) + sqrt(b))"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern), says, do) for pattern, says, do in _KNOWN)


def advice(line: str, operation: str) -> tuple[str, str | None]:
    """Return what a line loses its digits by, and what to write instead, None where nothing better is known."""
    for pattern, says, do in _PATTERNS:
        if pattern.search(line):
            return says, do
    if operation in ("sub", "subtract", "add", "sum", "-", "+"):
        return "nearly equal numbers cancel", None
    return "digits are lost", None


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
