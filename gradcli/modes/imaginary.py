"""A first screen of a claimed gradient by complex steps: a dozen evaluations, where the function is analytic.

Im f(x + i h v) / h is the derivative along v up to rounding, because nothing is subtracted; it shows one entry among a
thousand that is wrong by 1e-8. The real part of a complex result, and a real difference along the same direction, must
agree with real arithmetic; where they do not, this screen gives no answer.

Source  Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gradcli.modes.extrapolation import QUICK, quick_derivative
from gradcli.modes.rounding import EPS
from gradcli.modes.steps import Line, derivative
from gradcli.request.point import Array

_H = 1e-20  # of the entries' sizes
_OTHER = 0.7  # of that step: a second step, at which values round differently
_SAME = 1e-9  # of f: how near its real part must stay to its value
_USEFUL = 1e-4  # of the slope: a difference with a wider bound confirms nothing
_ROUNDINGS = 8.0  # times the rounding that was observed: what rounding may be
_CHANCE = 6.0  # times the norm: a sum with random signs lies outside once in 3e7 (Hoeffding)
_MOST = 0.5  # of a difference: what may be left of it besides the entry that explains it
Found = tuple[int, float, float]  # an entry, its slope, and the bound of this


@dataclass
class Steps:
    """Derivatives of a function along directions by complex steps, compared with those of a claimed gradient.

    `f` takes a displacement, real or complex. `room(terms)` bounds the rounding of a sum of terms of the claim. `claim_error`
    holds absolute errors of the claim that are no mistake, and `least` is that of terms that nearly vanish.

    Shapes  claim, claim_error, displacements and directions (n,).
    """

    f: Callable[[Array], complex]
    value: float
    claim: Array
    room: Callable[[Array], float]
    claim_error: Array
    least: float = 0.0
    calls: int = 0
    rounding: float = 0.0  # of a slope, relative to the sum of the sizes of its terms

    def slope(self, v: Array, step: float = _H) -> float:
        """Return the derivative along v. Raises ValueError if f treats complex numbers differently from real ones."""
        self.calls += 1
        y = self.f(1j * step * v)
        if not np.iscomplexobj(y) or not np.isfinite(y) or abs(np.real(y) - self.value) > _SAME * abs(self.value):
            raise ValueError("f behaves differently for complex numbers")
        return float(np.imag(y)) / step

    def holds_for(self, v: Array) -> bool:
        """Return whether a real difference along v agrees; set `rounding` from the distance of two complex steps."""
        one, other = self.slope(v), self.slope(v, _OTHER * _H)
        real = quick_derivative(lambda t: float(np.real(self.f(t * v))), EPS * abs(self.value), self.value)
        self.calls += 2 * len(QUICK)
        size = float(np.sum(np.abs(self.claim * v)))
        self.rounding = _ROUNDINGS * max(abs(one - other) / size if size else 0.0, EPS)
        return bool(abs(real.value - one) <= 3 * real.bound <= _USEFUL * max(abs(one), EPS * size))

    def compared(self, v: Array) -> tuple[float, float]:
        """Return the difference between the slope along v and the claim's, and how much of it rounding explains."""
        terms = self.claim * v
        bound = self.rounding * float(np.sum(np.abs(terms)))
        bound += self.least + self.room(terms) + _CHANCE * float(np.linalg.norm(self.claim_error * v))
        return self.slope(v) - float(np.sum(terms)), bound

    def odd_alone(
        self, vs: Sequence[Array], differences: Sequence[float], entries: Array, disagrees: float
    ) -> Found | None:
        """Return the one entry that explains the differences along several directions, if it disagrees alone; else None.

        Differences that rounding may explain add up in all entries. Those of a single wrong entry are in proportion to it.
        Alone, it is compared with the claim to its own rounding, which is far less. It must then be most of each
        difference: among many entries that are a little inexact, each is a small part.

        Raises  ValueError as `measured_alone` does.
        """
        apart = np.stack([difference / v[entries] for difference, v in zip(differences, vs, strict=True)])
        mean = np.abs(np.mean(apart, axis=0))
        if not np.any(mean > 0):
            return None
        spread = np.ptp(apart, axis=0) / np.where(mean > 0, mean, np.nan)
        k = int(entries[np.nanargmin(spread)])
        found = self.measured_alone(vs[0], k, disagrees)
        if found is None:
            return None
        error = found[1] - float(self.claim[k])
        pairs = zip(vs, differences, strict=True)
        explained = all(abs(error * float(v[k]) - difference) <= _MOST * abs(difference) for v, difference in pairs)
        return found if explained else None

    def odd_entry(self, v: Array, entries: Array, disagrees: float) -> Found | None:
        """Bisect the entries down to one that disagrees with the claim; return its index, its slope and the bound of this.

        Return None if the last entry agrees. Raises ValueError as `measured_alone` does.
        """
        while len(entries) > 1:
            half, moved = entries[: len(entries) // 2], np.zeros(v.shape)
            moved[half] = v[half]
            difference, bound = self.compared(moved)
            entries = half if abs(difference) > disagrees * bound else entries[len(entries) // 2 :]
        return self.measured_alone(v, int(entries[0]), disagrees)

    def measured_alone(self, v: Array, k: int, disagrees: float) -> Found | None:
        """Return the index of an entry, its slope and the bound of this, if it disagrees with the claim; else None.

        Raises  ValueError if real differences contradict its complex step.
        """
        moved = np.zeros(v.shape)
        moved[k] = v[k]
        difference, bound = self.compared(moved)
        if abs(difference) <= disagrees * bound:
            return None
        measured = float(self.claim[k] * v[k] + difference)
        real = derivative(Line(lambda t: float(np.real(self.f(t * moved))), at=self.value))
        self.calls += real.calls
        if abs(float(real.value) - measured) > 3 * float(real.bound):
            raise ValueError("f behaves differently for complex numbers")
        return k, measured / float(v[k]), bound / abs(float(v[k]))
