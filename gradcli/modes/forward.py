"""Forward mode: dual numbers."""

import numpy as np

from gradcli.modes.jacobians import jacobian_by_columns
from gradcli.modes.mode import Available, Question
from gradcli.modes.problem import TRACED
from gradcli.modes.rounding import FUNCTION_ERROR
from gradcli.request.point import Estimate, EstimateCost, Witness


class Forward:
    """One dual evaluation for each entry of the inputs."""

    name = "forward"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by forward sweeps.

        Error   rounding, bounded by balls of 53 bits or estimated by shaken runs of the reverse sweep. A forward sweep sums
                the terms of an entry in another order; some ulps of the largest entry are added for terms that cancel.
        Cost    one dual evaluation for each entry of the inputs.
        Raises  NotRun if that is too much; the error that ended the trace.
        """
        q.refuse_untraced()
        count = q.entries
        q.budget.admit(TRACED * count * q.work, f"{count:,} forward sweeps")
        with np.errstate(all="ignore"):
            value = {name: jacobian_by_columns(q.g, q.xs, k, q.value) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(evaluations=count, operations=3 * q.operations * count)
        bound = {name: q.rounding[name] + FUNCTION_ERROR * np.max(np.abs(x), initial=0.0) for name, x in value.items()}
        return Estimate(value, bound, statistical=q.rounding_is_estimated, cost=cost)
