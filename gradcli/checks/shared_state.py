"""A claim that reads what the function kept of its last call: it is called right after the function, at the same point."""

from dataclasses import replace

import numpy as np

from gradcli.checks.request import Request
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedFunction
from gradcli.targets.derived import root_of
from gradcli.targets.facts import Notice
from gradcli.targets.python import PythonFunction
from gradcli.words import Kind, Severity

_AWAY = 2.0**-6  # the other point at which the function is called, relative to each entry and in addition to it


def in_turn(request: Request) -> Request | None:
    """Return the request with a claim that follows the function at each point; None if the claim does not read what that keeps.

    Cost  three evaluations of f, and three of the claim.
    """
    claim, f = request.claim, root_of(request.f)
    if not isinstance(claim, ClaimedFunction) or not isinstance(f, PythonFunction):
        return None
    if f.pick is not None or request.own is not None or not request.points:
        return None
    after, at = claim.after(f), dict(request.points[0].values)
    other = {name: x * (1 + _AWAY) + _AWAY if name in f.inputs else x for name, x in at.items()}
    try:
        first = after(at)
        f(other)
        stale = claim(dict(at))
        again = after(at)
        if not _same(first, again) or _same(first, stale):
            return None
    except (GradcliError, ArithmeticError, TypeError, ValueError):
        return None
    says = (
        f"{claim.text} reads what the function kept of its last call: it was called right after it, at the same point"
    )
    hint = "call them in this order, or let it depend on its arguments alone"
    notice = Notice(Kind.EARLIER_CALLS, Severity.WARNING, says, hint=hint)
    return replace(request, claim=after, notices=(*request.notices, notice))


def _same(a: dict[str, object], b: dict[str, object]) -> bool:
    """Whether two gradients are equal. Raises TypeError for what is no array, such as a sparse matrix."""
    return a.keys() == b.keys() and all(
        np.array_equal(np.asarray(a[name], dtype=float), np.asarray(b[name], dtype=float), equal_nan=True) for name in a
    )
