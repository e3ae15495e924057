"""Forward mode: dual numbers."""

import numpy as np

from gradcli.modes.mode import Available, Question
from gradcli.numerics.jacobians import by_columns
from gradcli.point import Cost, Estimate, Witness


class Forward:
    """One dual evaluation for each entry of the inputs."""

    name = "forward"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: what rounding can have done, by balls of 53 bits or by shaken runs."""
        q.refuse_untraced()
        count = q.entries
        q.affordable(count * q.traced_seconds)
        with np.errstate(all="ignore"):
            value = {name: by_columns(q.g, q.xs, k, q.value) for k, name in enumerate(q.wrt)}
        cost = Cost(evaluations=count, operations=3 * q.operations * count)
        return Estimate(value, q.rounding, statistical=q.rounding_is_estimated, cost=cost)
