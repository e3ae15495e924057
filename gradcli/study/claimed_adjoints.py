"""The adjoints that a wrong claim has: at the inputs those claimed, inside the program those that its mistake makes."""

from collections.abc import Mapping

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.diagnosis.on_tape import on_tape
from gradcli.diagnosis.wrong import Gradient, Wrong
from gradcli.interpreters.program import Program
from gradcli.modes.mode import Question
from gradcli.reports.point_report import PointReport
from gradcli.reports.trace import differs


def claimed_adjoints(q: Question, point: PointReport) -> dict[int, Value]:
    """Return, by the number of a line, the adjoints that the claim at a point has; none where there is no wrong claim.

    Each is the derivative of the sum of all outputs, as the right adjoints are.
    """
    claim = point.modes.get("claim")
    if claim is None or not point.mismatches or point.reference is None:
        return {}
    claimed = {name: np.asarray(x, dtype=float) for name, x in claim.values.items() if name in q.wrt}
    right = {
        name: np.asarray(x, dtype=float) for name, x in point.modes[point.reference].values.items() if name in claimed
    }
    if claimed.keys() != right.keys() or any(claimed[name].shape != right[name].shape for name in claimed):
        return {}
    outputs = tuple(range(np.ndim(q.value)))
    inputs = {x.slot: name for x, name in zip(q.recording.inputs, q.wrt, strict=True)}
    at_inputs = {k: np.sum(claimed[name], axis=outputs)[()] for k, name in inputs.items() if name in claimed}
    slipped = _slipped(q, point, claimed, right)
    bars = {} if slipped is None else _adjoints(slipped)
    explains_all = all(k in bars and not differs(claim, bars[k]) for k, claim in at_inputs.items())
    return {**bars, **at_inputs} if explains_all else at_inputs


def _slipped(q: Question, point: PointReport, claimed: Gradient, right: Gradient) -> Program | None:
    """Return the recorded program with the one slip that makes the claim; None if the diagnosis names no line of it."""
    if point.diagnosis is None or point.diagnosis.line is None:
        return None
    masks = {name: np.zeros(x.shape, dtype=bool) for name, x in claimed.items()}
    room = {name: np.zeros(x.shape) for name, x in claimed.items()}
    for wrong in point.mismatches:
        at = (*(wrong.output if isinstance(wrong.output, tuple) else ()), *wrong.index)
        masks[wrong.input][at], room[wrong.input][at] = True, wrong.bound
    search = Wrong(q, claimed, right, masks, room)
    return search.slipped[-1] if on_tape(search) is not None and search.slipped else None


def _adjoints(program: Program) -> Mapping[int, Value]:
    """Return the adjoints of all lines by their number."""
    ybar = np.ones(shape(program.tape.value(program.y.slot)))[()]
    with np.errstate(all="ignore"):
        bars = program.tape.sweep(program.y.slot, ybar)
    return {k: bar for k, bar in enumerate(bars) if bar is not None}
