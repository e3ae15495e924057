"""The adjoints that a wrong claim has: at the inputs those claimed, inside the program those that its mistake makes."""

from dataclasses import replace

import numpy as np

from gradcli.arithmetic.program import Program
from gradcli.checks.on_tape import Search, on_tape
from gradcli.checks.wrong import MOST, CauseBudget, Gradient, Wrong
from gradcli.modes.mode import Question
from gradcli.report.point_report import PointReport
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

_ROUNDED = 1e-9  # relative: adjoints that differ by less differ by rounding


def claimed_adjoints(q: Question, point: PointReport) -> dict[int, Value]:
    """Return, by the number of a line, the adjoints that a wrong claim at a point has otherwise than the right gradient.

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
    wrong = {m.input for m in point.mismatches}
    inputs = {x.slot: name for x, name in zip(q.recording.inputs, q.wrt, strict=True)}
    found = {k: np.sum(claimed[name], axis=outputs)[()] for k, name in inputs.items() if name in wrong}
    program = _slipped(q, point, claimed, right)
    if program is None:
        return found
    bars = program.tape.sweep(program.y.slot, np.ones(shape(q.value))[()])
    inside = range(len(inputs), len(bars))
    return found | {k: bars[k] for k in inside if bars[k] is not None and _is_other(bars[k], q.bars[k])}


def _is_other(slipped: Value, right: Value | None) -> bool:
    """Whether a mistake changes an adjoint; both are computed by the same operations, up to where the mistake is."""
    if right is None or shape(slipped) != shape(right):
        return True
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(slipped) - right) > _ROUNDED * np.abs(right)
    return bool(np.any(apart | (np.isfinite(slipped) != np.isfinite(right))))


def _slipped(q: Question, point: PointReport, claimed: Gradient, right: Gradient) -> Program | None:
    """Return the recorded program with the one slip that makes the whole claim; None if none on a line of it does."""
    if point.diagnosis is None or point.diagnosis.line is None:
        return None
    masks = {name: np.zeros(x.shape, dtype=bool) for name, x in claimed.items()}
    room = {name: np.zeros(x.shape) for name, x in claimed.items()}
    for mismatch in point.mismatches:
        at = (*(mismatch.output if isinstance(mismatch.output, tuple) else ()), *mismatch.index)
        masks[mismatch.input][at], room[mismatch.input][at] = True, mismatch.bound
    wrong = Wrong(q, claimed, right, masks, room)
    if on_tape(wrong) is None or not wrong.slipped:
        return None
    program = wrong.slipped[-1]
    return program if Search(replace(wrong, budget=CauseBudget(MOST))).tried(program) == "" else None
