"""Whether a check fits into the memory that is free, said before its arrays are made."""

from gradcli.arithmetic.tape import held_bytes
from gradcli.errors import TooLarge
from gradcli.modes.mode import Question
from gradcli.targets.limits import memory_bytes

_SMALL = 2**22  # entries: the free memory is not looked up for fewer
_ARRAYS = 13  # of the size of the inputs: what a check holds at its peak, without what f computes on the way
_SWEEPS = 2  # times the values of the recorded run: their adjoints, and another run with other roundings


def admit_inputs(q: Question) -> None:
    """Refuse a check whose gradients and bounds would not fit into memory. Raises TooLarge."""
    if q.entries > _SMALL:
        _admit(8 * _ARRAYS * q.entries, q)


def admit_recording(q: Question) -> None:
    """Refuse a check whose reverse sweeps would not fit into memory, beside the recorded run. Raises TooLarge."""
    if q.entries > _SMALL and q.untraced is None:
        _admit(8 * _ARRAYS * q.entries + _SWEEPS * held_bytes(q.recording.tape), q)


def _admit(needed: int, q: Question) -> None:
    free = memory_bytes()
    if needed <= free:
        return
    raise TooLarge(
        f"a check of {q.entries:,} entries needs about {needed / 1e9:.2g} GB, and {free / 1e9:.2g} GB are free",
        do="check fewer of the inputs (--wrt), or a smaller problem",
    )
