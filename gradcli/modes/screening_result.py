"""What a screening of a claimed gradient is asked for, and what it found."""

from dataclasses import dataclass

from gradcli.modes.extrapolation import Difference
from gradcli.request.point import Array

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


@dataclass(frozen=True, slots=True)
class Limits:
    """How many calls of f a screening may make, how often it projects a stratum, and how many wrong entries it seeks."""

    budget: int = 10_000
    projections_per_stratum: int = 3
    max_wrong: int = 20
