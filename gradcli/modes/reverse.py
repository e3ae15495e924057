"""Reverse mode: the tape."""

import numpy as np

from gradcli.interpreters.tape import record
from gradcli.modes.mode import Available, Question
from gradcli.numerics.rounding import jacobian, stacked
from gradcli.point import Cost, Estimate, Witness


class Reverse:
    """One recorded evaluation, and one sweep back for each entry of the output."""

    name = "reverse"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: what rounding can have done, by balls of 53 bits."""
        q.refuse_large_jacobian()
        with np.errstate(all="ignore"):
            y, inputs, tape = record(q.g, q.xs)
            rows = jacobian(y, inputs, tape, np.float64(1))
        value = {name: stacked(rows, y, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        held = sum(np.asarray(line[3]).nbytes for line in tape.lines)
        cost = Cost(evaluations=1, operations=q.operations * (1 + 2 * len(rows)), peak_bytes=held)
        return Estimate(value, q.rounding, cost=cost)
