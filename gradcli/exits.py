"""Exit statuses, and how several of them become one."""

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """What the process says to the shell; the README's table has the same rows."""

    CONFIRMED = 0
    WRONG = 1
    UNUSABLE = 2
    INCONCLUSIVE = 3
    INTERNAL = 70
    INTERRUPTED = 130


KINDS = (  # of findings that leave a verdict open, which `--allow` may turn into success
    "kink", "jump", "staircase", "non-finite", "noise", "no second witness", "disagreement", "contradiction",
    "not deterministic", "trace", "trace test", "depends on earlier calls", "mutates input", "timeout", "mutant", "budget",
    "fine structure",
)  # fmt: skip
_WORST_FIRST = (Exit.INTERRUPTED, Exit.INTERNAL, Exit.WRONG, Exit.UNUSABLE, Exit.INCONCLUSIVE, Exit.CONFIRMED)


def worst(statuses: Iterable[Exit]) -> Exit:
    """Return the one status for several results: wrong before unusable before inconclusive before confirmed."""
    return min(statuses, key=_WORST_FIRST.index, default=Exit.CONFIRMED)
