"""A first screen of a claimed gradient by complex steps: a dozen evaluations, where the function is analytic.

Im f(x + i h v) / h is the derivative along v to rounding, as nothing is subtracted; one entry among a thousand that is wrong
by 1e-8 shows in it. What is real about a complex result (its real part, a real difference along the same direction) must be
what it is for real numbers; where it is not, nothing is said.

Source  Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradcli.numerics.extrapolation import QUICK, quick_derivative
from gradcli.numerics.rounding import EPS
from gradcli.numerics.steps import Line, derivative
from gradcli.point import Array

_H = 1e-20  # of the entries' sizes
_OTHER = 0.7  # of that step: rounding falls otherwise there
_SAME = 1e-9  # of f: how near its real part stays to its value
_USEFUL = 1e-4  # of the slope: a difference that is known no better confirms nothing
_ROUNDINGS = 8.0  # how much larger than what was seen of it, rounding may be
_CHANCE = 6.0  # times the norm: a sum with random signs lies outside once in 3e7 (Hoeffding)


@dataclass
class Steps:
    """Derivatives of a function along directions by complex steps, beside what a claim says of them.

    `f` takes a displacement, real or complex; `room` is what the rounding of some terms of the claim may sum up to, and
    `within` absolute errors of the claim that are no mistake.
    """

    f: Callable[[Array], complex]
    value: float
    claim: Array
    room: Callable[[Array], float]
    within: Array
    calls: int = 0
    rounding: float = 0.0  # of a slope, beside the sum of the sizes of its terms

    def slope(self, v: Array, step: float = _H) -> float:
        """Return the derivative along v. Raises ValueError where f does something else with complex numbers."""
        self.calls += 1
        y = self.f(1j * step * v)
        if not np.iscomplexobj(y) or not np.isfinite(y) or abs(np.real(y) - self.value) > _SAME * abs(self.value):
            raise ValueError("f behaves differently for complex numbers")
        return float(np.imag(y)) / step

    def holds_for(self, v: Array) -> bool:
        """Whether a real difference along v agrees, and how far two steps are apart is noted as rounding."""
        one, other = self.slope(v), self.slope(v, _OTHER * _H)
        real = quick_derivative(lambda t: float(np.real(self.f(t * v))), EPS * abs(self.value), self.value)
        self.calls += 2 * len(QUICK)
        size = float(np.sum(np.abs(self.claim * v)))
        self.rounding = _ROUNDINGS * max(abs(one - other) / size if size else 0.0, EPS)
        return bool(abs(real.value - one) <= 3 * real.bound <= _USEFUL * max(abs(one), EPS * size))

    def compared(self, v: Array) -> tuple[float, float]:
        """Return by how much the slope along v differs from the claim's, and what of it rounding explains."""
        terms = self.claim * v
        bound = self.rounding * float(np.sum(np.abs(terms)))
        bound += self.room(terms) + _CHANCE * float(np.linalg.norm(self.within * v))
        return self.slope(v) - float(np.sum(terms)), bound

    def odd_entry(self, v: Array, entries: Array, disagrees: float) -> tuple[int, float, float] | None:
        """Halve the entries until one is left whose slope is not the claim's; return it, its slope and the bound of that.

        None where no half disagrees, or real differences of that entry contradict its complex step.
        """
        while len(entries) > 1:
            half, moved = entries[: len(entries) // 2], np.zeros(v.shape)
            moved[half] = v[half]
            difference, bound = self.compared(moved)
            entries = half if abs(difference) > disagrees * bound else entries[len(entries) // 2 :]
        k, moved = int(entries[0]), np.zeros(v.shape)
        moved[k] = v[k]
        difference, bound = self.compared(moved)
        measured = float(self.claim[k] * v[k] + difference)
        real = derivative(Line(lambda t: float(np.real(self.f(t * moved))), at=self.value))
        self.calls += real.calls
        if abs(difference) <= disagrees * bound or abs(float(real.value) - measured) > 3 * float(real.bound):
            return None
        return k, measured / float(v[k]), bound / abs(float(v[k]))
