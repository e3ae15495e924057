"""Check all entries of a claimed gradient by differences along a few random directions, and search for the wrong ones."""

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from gradcli.classes import dataclass
from gradcli.modes.difference_steps import (
    QUICK,
    SAFETY,
    Difference,
    FunctionNoise,
    Line,
    derivative,
    estimate_noise,
    kink_size,
    quick_derivative,
    rough_part,
)
from gradcli.modes.rounding import EPS
from gradcli.request.point import Array
from gradcli.targets.derived import random_signs

_DECADES = 2.0  # decades of |claim * scale| in one stratum: the truncation of the largest entry hides much smaller ones
_LAST_STRATUM = 10  # the highest rank, counted from 0; all smaller entries have it
_SHARP = 1e-7  # relative to the median entry of a group: a bound this small is good enough
_CLEAR = 20.0  # the ratio of the error that is searched for to a bound that is good enough
_DISAGREES = 3.0  # in bounds, which are estimates: a larger difference disagrees
_DETECTED = _DISAGREES + 1  # in bounds: a larger error disagrees, even if the measured difference is off by one bound
_ROUNDED = 1e-12  # relative: the assumed rounding of a correct claim, whose algorithm is unknown
_VANISHING = 1e-13  # of the largest term: how inexact a right claim may be where it nearly vanishes
_CHANCE = 6.0  # in norms of the terms: their sum with random signs lies outside once in 3e7 (Hoeffding)
_INVISIBLE = 30.0  # in units of the noise: no step distinguishes smaller claims from 0
_FEWER = 2  # complex steps along a stratum of smaller entries
_RESERVE = 300  # calls of f that complex steps leave to differences, in case they do not settle it
_STRUCTURE_BUDGET = 300  # calls of f: with a smaller budget, fine structure is not searched
_MOST_KINKS = 20  # the largest number of entries at kinks that are reported
_MOST_WRONG = 20  # the largest number of wrong entries that are searched for
_PROJECTIONS = 3  # how often a stratum is projected
_WIDEST = 1e4  # the same, where it is known to be there
_WIDE = 300.0  # times the usual distance: noise is measured this far apart too, where float32's rounding shows


# What a screening of a claimed gradient is asked for, and what it found.

CONFIDENCE = 0.99  # the probability that an error of the size `detectable` is detected


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """An entry that disagrees when it is moved alone: its index, its measured slope and the bound of this slope."""

    index: int
    measured: float
    bound: float


@dataclass(frozen=True, slots=True)
class Kink:
    """One-sided slopes that differ: by one entry, or (index None) along a direction if the entry was not found."""

    index: int | None
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """The result of a screening.

    `agrees` is False if an entry or a group of entries disagrees. It is None if none does but the claim stays undecided: at
    a kink, if differences agree only over wider steps (`only_wider`), or if errors are detectable for less than half of the
    gradient. Else it is True. `complete` is False if the budget ran out or entries were not moved. `suspected` are groups
    of indices that disagree, but no wrong entry was found in them. `detectable` is the smallest absolute error of each entry
    that is detected with probability `confidence`, whatever else is wrong; it is infinite if no error is.
    """

    agrees: bool | None
    wrong: tuple[WrongEntry, ...]
    suspected: tuple[Array, ...]
    detectable: Array
    projections: int
    calls: int
    complete: bool
    confidence: float = CONFIDENCE
    kinks: tuple[Kink, ...] = ()
    only_wider: tuple[Difference, ...] = ()


def screen(
    phi: Callable[[Array], float],
    claim: Array,
    scales: Array,
    *,
    seed: int,
    claim_error: Array | float = 0.0,
    complex_phi: Callable[[Array], complex] | None = None,
    phi_at_zero: float | None = None,
    rounds: bool = False,
    budget: int = 10_000,
) -> ScreeningResult:
    """Check every entry of a claimed gradient of a scalar function without moving each entry alone, by `budget` calls of f.

    Shapes  claim and scales (n,). phi takes a displacement (n,) and returns f there. `complex_phi` does the same for complex
            displacements; it raises ValueError if f does not take them. `phi_at_zero` is f at the point. `rounds` says that f
            is known to compute in a narrow format, whose steps are noise and no structure.
    Units   scales are the displacements of the inputs' entries that count as 1; `claim_error` are absolute errors that a
            right claim may have. Entries with a scale of 0, or a scale or claim that is not finite, are not moved.
    Error   bounds of differences are estimates; an error above `detectable` is missed with probability 1 - `confidence`.
    Cost    with complex steps 12 calls, and 3 for each further stratum, if the claim agrees; with differences about 40 calls to
            measure the noise, 6 to over 100 for each projection, and about k log2(n) projections to find k wrong entries;
            never above the budget.
    """
    known = np.isfinite(claim) & np.isfinite(scales) & (scales != 0)
    claim, scales, claim_error = (np.where(known, x, 0.0) for x in (claim, scales, claim_error))
    rng = np.random.default_rng([seed, 0x5C4E])
    search = _Search(phi, claim, scales, claim_error, budget, rng, phi_at_zero, rounds)
    with np.errstate(all="ignore"):
        if complex_phi is not None and search.by_complex_steps(complex_phi):
            return search.result()
        try:
            search.measure_noise()
            for count in (1, _PROJECTIONS):  # each once first: the budget must reach every stratum
                for stratum in search.strata:
                    search.project(stratum, count)
            search.find_wrong_entries()
        except _BudgetSpent:
            search.complete = False
        return search.result()


class _BudgetSpent(Exception): ...


@dataclass(frozen=True, slots=True)
class _Residual:
    """The difference between the slope of a group of entries, moved along v, and the claim, with the bound of it."""

    entries: Array
    difference: float
    bound: float
    kink: Kink | None = None

    @property
    def disagrees(self) -> bool:
        return abs(self.difference) > _DISAGREES * self.bound


@dataclass(slots=True)
class _Stratum:
    """Entries with claims of similar size; the bounds of the projections that agreed, and the one that did not."""

    entries: Array
    bounds: list[float] = field(default_factory=list)
    disagreeing: tuple[Array, _Residual] | None = None


# A first screen of a claimed gradient by complex steps: a dozen evaluations, where the function is analytic.
#
# Im f(x + i h v) / h is the derivative along v up to rounding, because nothing is subtracted; it shows one entry among a
# thousand that is wrong by 1e-8. The real part of a complex result, and a real difference along the same direction, must
# agree with real arithmetic; where they do not, this screen gives no answer.
#
# Source  Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.

_H = 1e-20  # of the entries' sizes
_OTHER = 0.7  # of that step: a second step, at which values round differently
_SAME = 1e-9  # of f: how near its real part must stay to its value
_USEFUL = 1e-4  # of the slope: a difference with a wider bound confirms nothing
_ROUNDINGS = 8.0  # times the rounding that was observed: what rounding may be
_MOST = 0.5  # of a difference: what may be left of it besides the entry that explains it


@dataclass
class _Steps:
    """Derivatives of a function along directions by complex steps, compared with those of a claimed gradient.

    `f` takes a displacement, real or complex. `claim_error` holds absolute errors of the claim that are no mistake, and
    `least` is that of terms that nearly vanish.

    Shapes  claim, claim_error, displacements and directions (n,).
    """

    f: Callable[[Array], complex]
    value: float
    claim: Array
    claim_error: Array
    least: float
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
        room = float(_ROUNDED * np.linalg.norm(terms)) + _CHANCE * float(np.linalg.norm(self.claim_error * v))
        bound = self.rounding * float(np.sum(np.abs(terms)))
        bound += self.least + room
        return self.slope(v) - float(np.sum(terms)), bound

    def odd_alone(self, vs: Sequence[Array], differences: Sequence[float], entries: Array) -> WrongEntry | None:
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
        found = self.measured_alone(vs[0], k)
        if found is None:
            return None
        error = found.measured - float(self.claim[k])
        pairs = zip(vs, differences, strict=True)
        explained = all(abs(error * float(v[k]) - difference) <= _MOST * abs(difference) for v, difference in pairs)
        return found if explained else None

    def odd_entry(self, v: Array, entries: Array) -> WrongEntry | None:
        """Bisect the entries down to one that disagrees with the claim, and return it; None if the last entry agrees.

        Raises  ValueError as `measured_alone` does.
        """
        while len(entries) > 1:
            half, moved = entries[: len(entries) // 2], np.zeros(v.shape)
            moved[half] = v[half]
            difference, bound = self.compared(moved)
            entries = half if abs(difference) > _DISAGREES * bound else entries[len(entries) // 2 :]
        return self.measured_alone(v, int(entries[0]))

    def measured_alone(self, v: Array, k: int) -> WrongEntry | None:
        """Return an entry with its slope and the bound of this, if it disagrees with the claim; else None.

        Raises  ValueError if real differences contradict its complex step.
        """
        moved = np.zeros(v.shape)
        moved[k] = v[k]
        difference, bound = self.compared(moved)
        if abs(difference) <= _DISAGREES * bound:
            return None
        measured = float(self.claim[k] * v[k] + difference)
        real = derivative(Line(lambda t: float(np.real(self.f(t * moved))), at=self.value))
        self.calls += real.calls
        if abs(float(real.value) - measured) > 3 * float(real.bound):
            raise ValueError("f behaves differently for complex numbers")
        return WrongEntry(k, measured / float(v[k]), bound / abs(float(v[k])))


@dataclass(slots=True)
class _Search:
    f: Callable[[Array], float]
    claim: Array
    scales: Array
    claim_error: Array
    budget: int
    rng: np.random.Generator
    phi_at_zero: float | None = None
    rounds: bool = False
    noise_floor: float = 0.0  # in units of f
    has_fine_structure: bool = False
    calls: int = 0
    projections: int = 0
    complete: bool = True
    strata: list[_Stratum] = field(default_factory=list)
    wrong: list[WrongEntry] = field(default_factory=list)
    suspected: list[Array] = field(default_factory=list)
    bounds_by_entry: dict[int, float] = field(default_factory=dict)
    kinks: list[Kink] = field(default_factory=list)
    wider: list[Difference] = field(default_factory=list)

    def restricted_to(self, entries: Array, v: Array) -> Callable[[float], float]:
        """Return f as a function of t, where the displacement is t v in the given entries and 0 in the others."""
        displacement = np.zeros(v.shape)
        displacement[entries] = v[entries]

        def phi(t: float) -> float:
            if self.calls >= self.budget:
                raise _BudgetSpent
            self.calls += 1
            return float(self.f(t * displacement))

        return phi

    def random_direction(self, entries: Array) -> Array:
        """Return a random direction: each of the entries moves by half to all of its scale, with either sign."""
        v = np.zeros(self.claim.shape)
        v[entries] = self.scales[entries] * random_signs(self.rng, (len(entries),))
        return v

    def by_complex_steps(self, f: Callable[[Array], complex]) -> bool:
        """Check all entries by complex steps and find the wrong ones; return False if that is not possible."""
        if self.phi_at_zero is None or self.budget < _RESERVE:
            return False
        entries = np.flatnonzero(self.scales)
        least = _VANISHING * float(np.max(np.abs(self.claim * self.scales), initial=0.0))
        steps = _Steps(f, self.phi_at_zero, self.claim, self.claim_error, least)
        try:
            if not len(entries) or not steps.holds_for(self.random_direction(entries)):
                return False
            self.sort_into_strata()
            for k, stratum in enumerate(self.strata):  # the first has the largest entries
                self.by_steps(steps, stratum, _FEWER if k else _PROJECTIONS)
        except (TypeError, ValueError, _BudgetSpent):
            self.strata, self.projections, self.wrong = [], 0, []
            return False
        finally:
            self.calls += steps.calls
        self.bounds_by_entry = {suspect.index: suspect.bound for suspect in self.wrong}
        return True

    def by_steps(self, steps: _Steps, stratum: _Stratum, count: int) -> None:
        """Project a stratum by complex steps until `count` projections agree; wrong entries are left out of it.

        Raises  ValueError if they cannot be found, _BudgetSpent.
        """
        while len(stratum.entries):
            vs, differences, found = list[Array](), list[float](), None
            while len(vs) < min(count, len(stratum.entries)) and found is None:
                if steps.calls > self.budget - _RESERVE:
                    raise _BudgetSpent
                vs.append(self.random_direction(stratum.entries))
                difference, bound = steps.compared(vs[-1])
                differences.append(difference)
                stratum.bounds.append(bound)
                if abs(difference) > _DISAGREES * bound:
                    found = steps.odd_entry(vs[-1], stratum.entries)
                    if found is None:
                        raise ValueError("no single entry explains the difference")
            found = found or steps.odd_alone(vs, differences, stratum.entries)
            self.projections += len(vs)
            if found is None:
                return
            if len(self.wrong) == _MOST_WRONG:
                raise ValueError("too many entries are wrong")
            self.wrong.append(found)
            stratum.entries, stratum.bounds = np.setdiff1d(stratum.entries, [found.index]), []

    def measure_noise(self) -> None:
        """Measure the noise of f, and sort the entries into strata."""
        entries, levels = np.flatnonzero(self.scales), [np.nan]
        while len(entries) and not np.all(np.isfinite(levels)):  # moving fewer of them may stay inside the domain
            phi = self.restricted_to(entries, self.random_direction(entries))
            levels = [estimate_noise(phi, scale) for scale in ((1.0, _WIDE, _WIDEST) if self.rounds else (1.0, _WIDE))]
            entries = entries[1::2]
        levels = list(np.nan_to_num(levels, posinf=0.0))
        unexamined = self.rounds or self.budget < _STRUCTURE_BUDGET
        if unexamined or not self.structure_explains_noise(max(self.noise_floor, levels[0])):
            self.noise_floor = max(self.noise_floor, *levels)
        self.sort_into_strata()

    def sort_into_strata(self) -> None:
        """Sort the entries into strata by the size of their claims."""
        sizes = np.abs(self.claim * self.scales)
        rank = np.minimum(np.log10(np.max(sizes, initial=0.0) / sizes) // _DECADES, _LAST_STRATUM)
        rank = np.where(self.scales == 0, -1, np.where(sizes <= _INVISIBLE * self.noise_floor, _LAST_STRATUM, rank))
        self.strata = [_Stratum(np.flatnonzero(rank == r)) for r in np.unique(rank) if r >= 0]

    def structure_explains_noise(self, level: float) -> bool:
        """Return whether a kink, or structure finer than the steps, explains what looked like noise along a direction.

        If it is structure, the quick measurement of slopes is not used from then on.
        """
        entries = np.flatnonzero(self.scales)
        v = self.random_direction(entries)
        if not np.any(v):
            return False
        line = Line(self.restricted_to(entries, v), at=self.phi_at_zero)
        rough = float(rough_part(line, np.float64(level)))
        found = derivative(Line(line.phi, at=self.phi_at_zero), noise=FunctionNoise(self.noise_floor, level, rough))
        smooth = bool(np.isfinite(found.other) & ~np.asarray(found.jumps)) or rough < level
        self.has_fine_structure = smooth and not found.kinked
        self.noise_floor = max(self.noise_floor, rough)
        return smooth or bool(found.kinked)

    def residual(
        self, entries: Array, v: Array, wanted_bound: float = 0.0, *, confirm: bool = False, skip_quick: bool = False
    ) -> _Residual:
        """Compare the slope of one group along v with the claim.

        Cost  6 calls if the bound is at most `wanted_bound`, else about 35 more.
        """
        claimed_terms, claim_error = self.claim[entries] * v[entries], np.abs(self.claim_error[entries] * v[entries])
        allowed = _ROUNDED * np.linalg.norm(claimed_terms)
        allowed += min(np.sum(claim_error), _CHANCE * np.linalg.norm(claim_error))

        def to_residual(found: Difference) -> _Residual:
            bound, difference = float(found.bound + allowed / _DISAGREES), float(found.value - np.sum(claimed_terms))
            if found.kinked:
                return _Residual(entries, 0.0, np.inf, Kink(None, float(found.left), float(found.right)))
            other_allowed = _DISAGREES * float(found.other_bound) + allowed
            other_difference = float(found.other - np.sum(claimed_terms))
            if abs(difference) > _DISAGREES * bound and abs(other_difference) <= other_allowed < np.inf:
                self.wider.append(found)
                return _Residual(entries, 0.0, np.inf)
            return _Residual(entries, *((difference, bound) if np.isfinite(bound + difference) else (0.0, np.inf)))

        phi, quick = self.restricted_to(entries, v), None
        if not (skip_quick or self.has_fine_structure) and 3 * SAFETY * self.noise_floor / QUICK[-1] <= wanted_bound:
            quick = to_residual(quick_derivative(phi, self.noise_floor, self.phi_at_zero))
            if quick.kink or (quick.bound <= wanted_bound and not (confirm and quick.disagrees)):
                return quick
        line, noise_level = Line(phi, at=self.phi_at_zero), FunctionNoise(self.noise_floor)
        full = to_residual(derivative(line, noise=noise_level, looks=self.has_fine_structure))
        if quick is None:
            return full
        apart = abs(full.difference - quick.difference)
        return quick if quick.bound < full.bound and apart < quick.bound + full.bound else full

    def project(self, stratum: _Stratum, count: int) -> None:
        """Project a stratum along random directions until `count` projections agree or one disagrees."""
        while stratum.disagreeing is None and len(stratum.bounds) < min(count, len(stratum.entries)):
            v = self.random_direction(stratum.entries)
            middle = float(np.median(np.abs(self.claim * v)[stratum.entries]))
            residual = self.residual(stratum.entries, v, _SHARP * middle, confirm=True)
            self.projections += 1
            if residual.kink is not None and self.leave_out_kink(stratum, v):
                continue
            residual = residual if residual.kink is None else self.residual(stratum.entries, v, skip_quick=True)
            self.kinks += [] if residual.kink is None else [residual.kink]
            stratum.disagreeing = (v, residual) if residual.disagrees else None
            stratum.bounds += [] if residual.disagrees else [residual.bound]

    def leave_out_kink(self, stratum: _Stratum, v: Array) -> bool:
        """Find the entry that causes a kink along a direction and remove it from its stratum; return False if none does."""
        entries = stratum.entries
        while len(entries) > 1 and len(self.kinks) < _MOST_KINKS:
            entries = max(np.split(entries, [len(entries) // 2]), key=lambda half: self.slope_jump(half, v))
        kink = self.residual(entries, v, skip_quick=True).kink if len(entries) == 1 else None
        if kink is None:
            return False
        k = int(entries[0])
        left, right = kink.left / float(v[k]), kink.right / float(v[k])
        self.kinks.append(Kink(k, *((left, right) if v[k] > 0 else (right, left))))
        stratum.entries = np.setdiff1d(stratum.entries, entries, assume_unique=True)
        return True

    def slope_jump(self, entries: Array, v: Array) -> float:
        """Return by how much the one-sided slopes along some entries differ, by 6 calls."""
        phi = self.restricted_to(entries, v)
        if self.phi_at_zero is None:
            self.phi_at_zero = phi(0.0)
        up, down = (np.array([phi(sign * h) for h in QUICK]) for sign in (1, -1))
        return abs(float(kink_size(up, down, self.phi_at_zero, QUICK)))

    def find_wrong_entries(self) -> None:
        """Find the wrong entries of the strata that disagree, and project the remaining entries again."""
        disagreeing = [stratum for stratum in self.strata if stratum.disagreeing]
        for k, stratum in enumerate(disagreeing):
            remaining, strata_left = _MOST_WRONG - len(self.wrong), len(disagreeing) - k
            quota = len(self.wrong) + -(-remaining // strata_left)  # share what remains equally, rounded up
            while stratum.disagreeing and len(self.wrong) < quota:
                (v, group), stratum.disagreeing, stratum.bounds, before = stratum.disagreeing, None, [], len(self.wrong)
                done = self.bisect(v, group, quota)
                stratum.entries = np.setdiff1d(stratum.entries, done, assume_unique=True)
                if len(self.wrong) > before:  # else the same projection would disagree again
                    self.project(stratum, _PROJECTIONS)
        self.complete &= not any(s.disagreeing or (len(s.entries) and not s.bounds) for s in disagreeing)

    def bisect(self, v: Array, group: _Residual, quota: int) -> Array:
        """Bisect a group that disagrees down to single entries; return the entries found wrong, suspected, or unclear."""
        stack, done = [group], []
        try:
            while stack and len(self.wrong) < quota:
                halves = self.disagreeing_halves(stack[-1], v)
                part = stack.pop()
                stack += halves
                done += [] if halves else [part.entries]
        finally:
            self.suspected += [part.entries for part in stack]
        self.complete &= not stack
        return np.concatenate(done + [part.entries for part in stack])

    def disagreeing_halves(self, group: _Residual, v: Array) -> list[_Residual]:
        """Return the halves of a group that disagree; the second is measured only if the first does not decide it."""
        first, second = np.split(group.entries, [len(group.entries) // 2])
        if not len(first):
            k, alone = int(second[0]), self.residual(second, v)
            found = WrongEntry(k, float(self.claim[k] + alone.difference / v[k]), alone.bound / abs(float(v[k])))
            self.bounds_by_entry[k] = found.bound
            self.wrong += [found] if alone.disagrees else []
            return []
        wanted_bound = abs(group.difference) / _CLEAR
        first_half = self.residual(first, v, wanted_bound)
        second_half = _Residual(second, group.difference - first_half.difference, group.bound + first_half.bound)
        if not (first_half.disagrees or second_half.disagrees):
            second_half = self.residual(second, v, wanted_bound)
        disagreeing = [half for half in (second_half, first_half) if half.disagrees]
        apart = abs(group.difference - first_half.difference - second_half.difference)
        proved = apart <= group.bound + first_half.bound + second_half.bound
        self.suspected += [group.entries] if not disagreeing and proved else []
        self.complete &= bool(disagreeing)
        return disagreeing

    def result(self) -> ScreeningResult:
        suspected = self.suspected + [stratum.entries for stratum in self.strata if stratum.disagreeing]
        detectable, sizes = np.full(self.claim.shape, np.inf), np.abs(self.claim * self.scales)
        for stratum in (s for s in self.strata if s.bounds and not s.disagreeing):
            detectable[stratum.entries] = _smallest_detectable(stratum) / np.abs(self.scales[stratum.entries])
        detectable[list(self.bounds_by_entry)] = [_DETECTED * bound for bound in self.bounds_by_entry.values()]
        is_detectable = np.isfinite(detectable) & ((detectable <= np.abs(self.claim)) | (self.claim == 0))
        decided = np.any(is_detectable) and np.sum(sizes[is_detectable]) >= np.sum(sizes) / 2
        undecided = bool(self.kinks or self.wider) or not decided
        agrees = False if self.wrong or suspected else None if undecided else True
        complete = self.complete and bool(np.all(self.scales != 0))
        return ScreeningResult(
            agrees, tuple(self.wrong), tuple(suspected), detectable, self.projections, self.calls, complete,
            kinks=tuple(self.kinks), only_wider=tuple(self.wider),
        )  # fmt: skip


def _smallest_detectable(stratum: _Stratum) -> float:
    """Return the smallest error of an entry times its scale that is detected with probability CONFIDENCE."""
    detected_from = _DETECTED * np.sort(stratum.bounds)
    k = np.arange(len(detected_from)) + 1
    # each misses e with probability 2 detected_from / |e|: e's weight has density 1
    candidates = 2 * np.exp((np.cumsum(np.log(detected_from)) - np.log(1 - CONFIDENCE)) / k)
    return float(np.min(candidates) if len(stratum.entries) > 1 else 2 * detected_from[0])
