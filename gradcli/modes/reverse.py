"""Reverse mode: the tape."""

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import METER, held_bytes
from gradcli.modes.jacobians import cotangent_rows, jacobian_from_rows
from gradcli.modes.mode import Available, Question
from gradcli.request.point import Estimate, EstimateCost, Witness
from gradcli.tracing.shapes import size


class Reverse:
    """One recorded evaluation, and one sweep back for each entry of the output."""

    name = "reverse"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by reverse sweeps.

        Error   rounding, bounded by balls of 53 bits or estimated by shaken runs.
        Cost    one recorded evaluation, and one sweep back for each entry of the output.
        Raises  NotRun for a Jacobian that is too large; the error that ended the trace.
        """
        q.refuse_untraced()
        q.refuse_large_jacobian()
        if q.checkpointed:
            return self._gradient_of_new_recording(q)
        cost = EstimateCost(1, self._count_operations(q), q.reverse_seconds, peak_bytes=q.recorded_bytes)
        value = {name: jacobian_from_rows(q.rows, q.program.y, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        return Estimate(value, q.rounding, statistical=q.rounding_is_estimated, cost=cost)

    def _gradient_of_new_recording(self, q: Question) -> Estimate:
        """Return the gradient from a new recording, for a function with checkpoints."""
        METER.most_nested = 0
        with np.errstate(all="ignore"):
            program = record(q.g, q.xs)
            rows = cotangent_rows(program, np.float64(1))
        value = {name: jacobian_from_rows(rows, program.y, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(1, self._count_operations(q), peak_bytes=held_bytes(program.tape) + METER.most_nested)
        return Estimate(value, q.rounding, statistical=q.rounding_is_estimated, cost=cost)

    def _count_operations(self, q: Question) -> int:
        return q.operations * (1 + 2 * size(q.value))
