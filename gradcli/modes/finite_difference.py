"""Finite differences of the untouched function."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.modes.mode import Available, OverBudget, Question
from gradcli.modes.work import MOST_EVALUATIONS
from gradcli.numerics.jacobians import columns_to_array
from gradcli.numerics.noise import noise
from gradcli.numerics.steps import TAME, Difference, derivative
from gradcli.point import Array, Cost, Estimate, Witness

CALLS = 21  # for each entry, about: from 7 of a tame function to over 70


class FiniteDifference:
    """Central differences with Richardson extrapolation; step and error bound from estimated noise and truncation."""

    name = "finite-difference"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: estimated. Cost: 7 to 10 evaluations for each entry of a tame function, 35 or more of another."""
        self.affordable(q)
        value: dict[str, Array] = {}
        bound: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            seen, calls = np.maximum(q.noise_floor, noise_along(q)), NOISE_CALLS
            entries, most = q.entries, q.stepping.budget or np.inf
            for k, name in enumerate(q.wrt):
                found = []
                for at in np.ndindex(shape(q.xs[k])):
                    entries -= 1
                    found.append(self.entry(q, k, at, seen, most - calls - TAME * entries))
                    calls += found[-1].calls
                value[name] = columns_to_array([d.value for d in found], q.value, q.xs[k])
                bound[name] = columns_to_array([d.bound for d in found], q.value, q.xs[k])
            if (
                q.untraced is None and q.affords_slopes
            ):  # values of an ill-conditioned f are those of a function beside it
                bound = {name: b + q.rounding[name] for name, b in bound.items()}
        return Estimate(value, bound, statistical=True, cost=Cost(evaluations=calls, operations=calls * q.operations))

    def affordable(self, q: Question) -> None:
        """Raise NotRun where the entries take too many evaluations, or too much work."""
        calls = q.entries * CALLS
        budget = q.stepping.budget or (MOST_EVALUATIONS if q.untraced is not None else calls)
        if calls > budget:
            says = f"{q.entries:,} entries would take about {calls:,} evaluations, more than the budget of {budget:,}"
            raise OverBudget(says, do=f"--budget {calls}")
        if q.untraced is None:
            q.affordable(calls * q.work, f"{calls:,} evaluations of f")

    def entry(self, q: Question, k: int, at: tuple[int, ...], seen: Any, most: float = np.inf) -> Difference:
        """Return the derivative by one entry, by `most` calls; `seen` is the noise of f as a whole."""
        x = q.xs[k]

        def phi(t: float) -> Any:
            moved = np.array(x)
            moved[at] += t
            xs = list(q.xs)
            xs[k] = moved[()]
            return q.near(*xs)

        name = q.wrt[k]
        low, high = q.stepping.of(name)
        return derivative(
            phi, float(np.asarray(x)[at]), float(np.median(np.abs(x))), q.noise_floor, low=low, high=high, seen=seen,
            at=q.value, h=q.stepping.h, size=q.stepping.scales.get(name), most=most,
        )  # fmt: skip


NOISE_CALLS = 9


def noise_along(q: Question) -> Any:
    """Return the noise of f along a random direction in proportion to the entries. Cost: 9 calls."""
    rng = np.random.default_rng([q.seed, 0x4015E])
    drawn = [rng.choice([-1.0, 1.0], shape(x)) * q.stepping.sizes(name, x) for name, x in zip(q.wrt, q.xs, strict=True)]
    vs = [q.stepping.inward(name, x, v) for name, x, v in zip(q.wrt, q.xs, drawn, strict=True)]
    return noise(lambda t: q.near(*[x + t * v for x, v in zip(q.xs, vs, strict=True)]), 1.0)
