"""Finite differences of the untouched function."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape, size
from gradcli.modes.mode import CALL, Available, Question
from gradcli.numerics.jacobians import columns_to_array
from gradcli.numerics.steps import derivative
from gradcli.point import Array, Cost, Estimate, Witness

_CALLS_PER_ENTRY = 61


class FiniteDifference:
    """Central differences with Richardson extrapolation; step and error bound from estimated noise and truncation."""

    name = "finite-difference"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: estimated. Cost: 35 or 70 evaluations for each entry of the inputs."""
        entries = sum(size(x) for x in q.xs)
        q.affordable(entries * _CALLS_PER_ENTRY * max(q.seconds, CALL), essential=q.untraced is not None)
        value: dict[str, Array] = {}
        bound: dict[str, Array] = {}
        calls = 0
        with np.errstate(all="ignore"):
            for k, name in enumerate(q.wrt):
                found = [self._entry(q, k, at) for at in np.ndindex(shape(q.xs[k]))]
                calls += sum(d.calls for d in found)
                value[name] = columns_to_array([d.value for d in found], q.value, q.xs[k])
                bound[name] = columns_to_array([d.bound for d in found], q.value, q.xs[k])
        return Estimate(value, bound, statistical=True, cost=Cost(evaluations=calls, operations=calls * q.operations))

    def _entry(self, q: Question, k: int, at: tuple[int, ...]) -> Any:
        x = q.xs[k]

        def phi(t: float) -> Any:
            moved = np.array(x)
            moved[at] += t
            xs = list(q.xs)
            xs[k] = moved[()]
            return q.near(*xs)

        return derivative(phi, float(np.asarray(x)[at]), float(np.median(np.abs(x))), q.noise_floor)
