"""Check all entries of a claimed gradient by differences along a few random directions, and search for the wrong ones."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gradcli.numerics.extrapolation import QUICK, SAFETY, Difference, kink_of, quick_derivative
from gradcli.numerics.fine_structure import rough_part
from gradcli.numerics.imaginary import Steps
from gradcli.numerics.line import Line
from gradcli.numerics.noise import noise
from gradcli.numerics.steps import Noise, derivative
from gradcli.point import Array

CONFIDENCE = 0.99  # the probability that an error of the size `sees` is seen
_DECADES = 2.0  # of |claim * scale| in one stratum: the truncation of the largest entry hides much smaller ones
_STRATA = 10  # at most; smaller entries belong to the last one
_SHARP = 1e-7  # a bound, relative to the median entry of a group, that is good enough
_CLEAR = 20.0  # a bound so many times smaller than the error that is searched for is good enough
_DISAGREES = 3.0  # times the bound, which is an estimate: a larger difference disagrees
_SEEN = _DISAGREES + 1  # times the bound: a larger error disagrees, even if the difference itself is off by the bound
_ROUNDED = 1e-12  # relative rounding of a correct claim, whose algorithm is unknown
_CHANCE = 6.0  # times the norm: a sum with random signs lies outside once in 3e7 (Hoeffding)
_INVISIBLE = 30.0  # times the noise: no step distinguishes smaller claims from 0
_RESERVE = 300  # calls that are kept for differences, in case complex steps do not settle it
_LOOK = 300  # calls: the least budget with which fine structure is searched
_IN_FULL = -1.0  # a wanted bound that no quick measurement reaches, so that the full one is made
_MOST_KINKS = 20  # entries at kinks that are reported, at most
_WIDE = 300.0  # noise is also measured over distances this many times as wide, where float32's rounding shows


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
class Screened:
    """The result of a screening.

    `agrees` is False if an entry or a group disagrees. Otherwise it is None at a kink, if differences agree only over wider
    steps (`only_wider`), or if errors are detectable for less than half of the gradient; else True, also where the search
    is not `complete`: the budget ran out, or entries were not moved. `suspected` are groups of indices that disagree as a
    whole, without a wrong entry found in them. `sees` is, for each entry, the smallest absolute error that is detected with
    probability `confidence`, whatever else is wrong; infinite if none is.
    """

    agrees: bool | None
    wrong: tuple[WrongEntry, ...]
    suspected: tuple[Array, ...]
    sees: Array
    projections: int
    calls: int
    complete: bool
    confidence: float = CONFIDENCE
    kinks: tuple[Kink, ...] = ()
    only_wider: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """How many calls of f a screening may make, how often a stratum is projected, and how many wrong entries are sought."""

    budget: int = 10_000
    projections: int = 3
    most: int = 20


LIMITS = Limits()


def screen(
    phi: Callable[[Array], float],
    claim: Array,
    scales: Array,
    *,
    seed: int,
    within: Array | float = 0.0,
    by_complex: Callable[[Array], complex] | None = None,
    value: float | None = None,
    limits: Limits = LIMITS,
) -> Screened:
    """Check every entry of a claimed gradient of a scalar function without moving each entry alone.

    Shapes  claim and scales (n,). phi takes a displacement (n,) and returns f there. `by_complex` does the same for complex
            displacements; it raises ValueError if f does not take them. `value` is f at the point.
    Units   scales are the displacements of the inputs' entries that count as 1; `within` are absolute errors that the claim
            may have without being wrong. Entries with a scale of 0, or a scale or claim that is not finite, are not moved.
    Error   bounds of differences are estimates; an error above `sees` is missed with probability 1 - `confidence`.
    Cost    with complex steps 10 calls if the claim agrees; with differences about 40 calls to measure the noise, 6 to over
            100 for each projection, and about k log2(n) projections to find k wrong entries; never above the budget.
    """
    known = np.isfinite(claim) & np.isfinite(scales) & (scales != 0)
    claim, scales, within = (np.where(known, x, 0.0) for x in (claim, scales, within))
    search = _Search(phi, claim, scales, within, limits.budget, np.random.default_rng([seed, 0x5C4E]))
    search.value = value
    with np.errstate(all="ignore"):
        if (
            by_complex
            and value is not None
            and limits.budget >= _RESERVE
            and search.by_complex_steps(by_complex, value, limits.projections, limits.most)
        ):
            return search.result()
        try:
            search.measure_noise()
            for often in (1, limits.projections):  # once each first, so that the budget reaches every stratum
                for stratum in search.strata:
                    search.repeat(stratum, often)
            search.take_apart(limits.projections, limits.most)
        except _Spent:
            search.complete = False
        return search.result()


class _Spent(Exception): ...


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


@dataclass(slots=True)
class _Search:
    f: Callable[[Array], float]
    claim: Array
    scales: Array
    within: Array
    budget: int
    rng: np.random.Generator
    value: float | None = None
    floor: float = 0.0  # the measured noise of f
    fine: bool = False
    calls: int = 0
    projections: int = 0
    complete: bool = True
    strata: list[_Stratum] = field(default_factory=list)
    wrong: list[WrongEntry] = field(default_factory=list)
    suspected: list[Array] = field(default_factory=list)
    measured: dict[int, float] = field(default_factory=dict)
    kinks: list[Kink] = field(default_factory=list)
    wider: list[Difference] = field(default_factory=list)

    def along(self, v: Array) -> Callable[[float], float]:
        def phi(t: float) -> float:
            if self.calls >= self.budget:
                raise _Spent
            self.calls += 1
            return float(self.f(t * v))

        return phi

    def weights(self, entries: Array) -> Array:
        """Return a random direction: each of the entries moves by half to all of its scale, with either sign."""
        v = np.zeros(self.claim.shape)
        drawn = self.rng.random(len(entries))
        v[entries] = self.scales[entries] * np.where(drawn < 0.5, -0.5 - drawn, drawn)
        return v

    def by_complex_steps(self, f: Callable[[Array], complex], value: float, projections: int, most: int) -> bool:
        """Check all entries by complex steps and find the wrong ones; return False if that is not possible."""
        entries = np.flatnonzero(self.scales)
        steps = Steps(f, value, self.claim, lambda terms: float(_ROUNDED * np.linalg.norm(terms)), self.within)
        try:
            if not len(entries) or not steps.holds_for(self.weights(entries)):
                return False
            wrong: list[WrongEntry] = []
            bounds: list[float] = []
            while len(bounds) < projections:
                if steps.calls > self.budget - _RESERVE:
                    return False
                v = self.weights(entries)
                difference, bound = steps.compared(v)
                if abs(difference) <= _DISAGREES * bound:
                    bounds.append(bound)
                    continue
                found = steps.odd_entry(v, entries, _DISAGREES)
                if found is None or len(wrong) == most:
                    return False
                wrong.append(WrongEntry(*found))
                entries, bounds = np.setdiff1d(entries, [found[0]]), []
        except (TypeError, ValueError):
            return False
        finally:
            self.calls += steps.calls
        self.wrong, self.projections, self.strata = wrong, projections, [_Stratum(entries, bounds)]
        self.measured = {suspect.index: suspect.bound for suspect in wrong}
        return True

    def measure_noise(self) -> None:
        """Measure the noise of f, and sort the entries into strata."""
        entries, levels = np.flatnonzero(self.scales), [np.nan]
        while len(entries) and not np.all(np.isfinite(levels)):  # moving fewer of them may stay inside the domain
            phi = self.along(self.weights(entries))
            levels = [noise(phi, scale) for scale in (1.0, _WIDE)]
            entries = entries[1::2]
        levels = list(np.nan_to_num(levels, posinf=0.0))
        if self.budget < _LOOK or not self.explained(max(self.floor, levels[0])):
            self.floor = max(self.floor, *levels)
        sizes = np.abs(self.claim * self.scales)
        rank = np.minimum(np.log10(np.max(sizes, initial=0.0) / sizes) // _DECADES, _STRATA)
        rank = np.where(self.scales == 0, -1, np.where(sizes <= _INVISIBLE * self.floor, _STRATA, rank))
        self.strata = [_Stratum(np.flatnonzero(rank == r)) for r in np.unique(rank) if r >= 0]

    def explained(self, seen: float) -> bool:
        """Return whether a kink, or structure finer than the steps, explains what looked like noise along a direction.

        If it is structure, the quick measurement of slopes is not used from then on.
        """
        v = self.weights(np.flatnonzero(self.scales))
        if not np.any(v):
            return False
        line = Line(self.along(v), at=self.value)
        rough = float(rough_part(line, np.float64(seen)))
        found = derivative(Line(line.phi, at=self.value), noise=Noise(self.floor, seen, rough))
        smooth = bool(np.isfinite(found.other) & ~np.asarray(found.jumps)) or rough < seen
        self.fine = smooth and not found.kinked
        self.floor = max(self.floor, rough)
        return smooth or bool(found.kinked)

    def slope(self, entries: Array, v: Array, wanted: float, *, confirm: bool = False) -> _Residual:
        """Measure the slope of one group along v: by 6 calls if their bound is at most `wanted`, else by about 35 more."""
        moved = np.zeros(v.shape)
        moved[entries] = v[entries]
        terms, slack = (self.claim * moved)[entries], np.abs(self.within * moved)[entries]
        allowed = _ROUNDED * np.linalg.norm(terms) + min(np.sum(slack), _CHANCE * np.linalg.norm(slack))

        def judged(found: Difference) -> _Residual:
            bound, difference = float(found.bound + allowed / _DISAGREES), float(found.value - np.sum(terms))
            if found.kinked:
                return _Residual(entries, 0.0, np.inf, Kink(None, float(found.left), float(found.right)))
            beside = _DISAGREES * float(found.other_bound) + allowed
            if abs(difference) > _DISAGREES * bound and abs(float(found.other - np.sum(terms))) <= beside < np.inf:
                self.wider.append(found)
                return _Residual(entries, 0.0, np.inf)
            return _Residual(entries, *((difference, bound) if np.isfinite(bound + difference) else (0.0, np.inf)))

        phi, quick = self.along(moved), None
        if not self.fine and 3 * SAFETY * self.floor / QUICK[-1] <= wanted:
            quick = judged(quick_derivative(phi, self.floor, self.value))
            if quick.kink or (quick.bound <= wanted and not (confirm and quick.disagrees)):
                return quick
        full = judged(derivative(Line(phi, at=self.value), noise=Noise(self.floor), looks=self.fine))
        sharper = quick and full.bound > quick.bound > abs(full.difference - quick.difference) - full.bound
        return quick if quick and sharper else full

    def repeat(self, stratum: _Stratum, projections: int) -> None:
        """Project a stratum until `projections` of them agree or one disagrees."""
        while stratum.disagreeing is None and len(stratum.bounds) < min(projections, len(stratum.entries)):
            v = self.weights(stratum.entries)
            middle = float(np.median(np.abs(self.claim * v)[stratum.entries]))
            seen = self.slope(stratum.entries, v, _SHARP * middle, confirm=True)
            self.projections += 1
            if seen.kink is not None and self.leave_out_kink(stratum, v):
                continue
            seen = seen if seen.kink is None else self.slope(stratum.entries, v, _IN_FULL)
            self.kinks += [] if seen.kink is None else [seen.kink]
            stratum.disagreeing = (v, seen) if seen.disagrees else None
            stratum.bounds += [] if seen.disagrees else [seen.bound]

    def leave_out_kink(self, stratum: _Stratum, v: Array) -> bool:
        """Find the entry that causes a kink along a direction and remove it from its stratum; return False if none does."""
        entries = stratum.entries
        while len(entries) > 1 and len(self.kinks) < _MOST_KINKS:
            entries = max(np.split(entries, [len(entries) // 2]), key=lambda half: self.bend(half, v))
        kink = self.slope(entries, v, _IN_FULL).kink if len(entries) == 1 else None
        if kink is None:
            return False
        k = int(entries[0])
        left, right = kink.left / float(v[k]), kink.right / float(v[k])
        self.kinks.append(Kink(k, *((left, right) if v[k] > 0 else (right, left))))
        stratum.entries = np.setdiff1d(stratum.entries, entries, assume_unique=True)
        return True

    def bend(self, entries: Array, v: Array) -> float:
        """Return by how much the one-sided slopes along some entries differ, by 6 calls."""
        moved = np.zeros(v.shape)
        moved[entries] = v[entries]
        phi = self.along(moved)
        if self.value is None:
            self.value = phi(0.0)
        up, down = (np.array([phi(sign * h) for h in QUICK]) for sign in (1, -1))
        return abs(float(kink_of(up, down, self.value, QUICK)))

    def take_apart(self, projections: int, most: int) -> None:
        """Find the wrong entries of the strata that disagree, and project the remaining entries again."""
        disagreeing = [stratum for stratum in self.strata if stratum.disagreeing]
        for k, stratum in enumerate(disagreeing):
            quota = len(self.wrong) - (len(self.wrong) - most) // (len(disagreeing) - k)
            while stratum.disagreeing and len(self.wrong) < quota:
                (v, whole), stratum.disagreeing, stratum.bounds, before = stratum.disagreeing, None, [], len(self.wrong)
                settled = self.bisect(v, whole, quota)
                stratum.entries = np.setdiff1d(stratum.entries, settled, assume_unique=True)
                if len(self.wrong) > before:  # else the same projection would disagree again
                    self.repeat(stratum, projections)
        self.complete &= not any(s.disagreeing or (len(s.entries) and not s.bounds) for s in disagreeing)

    def bisect(self, v: Array, whole: _Residual, quota: int) -> Array:
        """Bisect a group that disagrees down to single entries; return the entries found wrong, suspected, or unclear."""
        stack, settled = [whole], []
        try:
            while stack and len(self.wrong) < quota:
                parts = self.parts(stack[-1], v)
                group = stack.pop()
                stack += parts
                settled += [] if parts else [group.entries]
        finally:
            self.suspected += [group.entries for group in stack]
        self.complete &= not stack
        return np.concatenate(settled + [group.entries for group in stack])

    def parts(self, group: _Residual, v: Array) -> list[_Residual]:
        """Return the halves of a group that disagree; the second is measured only if the first does not decide it."""
        first, rest = np.split(group.entries, [len(group.entries) // 2])
        if not len(first):
            k, alone = int(rest[0]), self.slope(rest, v, 0.0)
            found = WrongEntry(k, float(self.claim[k] + alone.difference / v[k]), alone.bound / abs(float(v[k])))
            self.measured[k] = found.bound
            self.wrong += [found] if alone.disagrees else []
            return []
        wanted = abs(group.difference) / _CLEAR
        one = self.slope(first, v, wanted)
        other = _Residual(rest, group.difference - one.difference, group.bound + one.bound)
        if not (one.disagrees or other.disagrees):
            other = self.slope(rest, v, wanted)
        disagreeing = [half for half in (other, one) if half.disagrees]
        apart = abs(group.difference - one.difference - other.difference)  # beyond the bounds, nothing is proved
        self.suspected += [group.entries] if not disagreeing and apart <= group.bound + one.bound + other.bound else []
        self.complete &= bool(disagreeing)
        return disagreeing

    def result(self) -> Screened:
        suspected = self.suspected + [stratum.entries for stratum in self.strata if stratum.disagreeing]
        sees, sizes = np.full(self.claim.shape, np.inf), np.abs(self.claim * self.scales)
        for stratum in (s for s in self.strata if s.bounds and not s.disagreeing):
            sees[stratum.entries] = _seen(stratum) / np.abs(self.scales[stratum.entries])
        sees[list(self.measured)] = [_SEEN * bound for bound in self.measured.values()]
        seen = np.isfinite(sees) & ((sees <= np.abs(self.claim)) | (self.claim == 0))
        decided = np.any(seen) and np.sum(sizes[seen]) >= np.sum(sizes) / 2
        open_ = bool(self.kinks or self.wider) or not decided
        agrees = False if self.wrong or suspected else None if open_ else True
        done = self.complete and bool(np.all(self.scales != 0))
        return Screened(
            agrees, tuple(self.wrong), tuple(suspected), sees, self.projections, self.calls, done,
            kinks=tuple(self.kinks), only_wider=tuple(self.wider),
        )  # fmt: skip


def _seen(stratum: _Stratum) -> float:
    """Return the least error of one term that is seen, whatever the sum of the other errors."""
    rooms = _SEEN * np.sort(stratum.bounds)
    k = np.arange(len(rooms)) + 1  # each misses e with probability 2 room / |e|, as the weight of e has density 1
    least = 2 * np.exp((np.cumsum(np.log(rooms)) - np.log(1 - CONFIDENCE)) / k)
    return float(np.min(least) if len(stratum.entries) > 1 else 2 * rooms[0])
