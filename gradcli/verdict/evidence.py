"""What was seen at one point, as data. The verdict is a function of it alone (`decide`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.mode import Mode
from gradcli.point import Array, Estimate, Witness
from gradcli.reports.common import Finding
from gradcli.reports.point_report import NO_SIZE, Detects, Diagnosis, Entries, Mismatch, Mutant
from gradcli.verdict.entries import AGREE, DISAGREE, Tolerance
from gradcli.words import ModeStatus

T = TypeVar("T")
Masks = Mapping[str, Any]  # for each input, a value for each of its entries


class Look(Enum):
    """What costs evaluations of f, or of the claim, and is looked at only where the verdict depends on it.

    The value names the field of the evidence that holds what was seen.
    """

    DIRECTION = "direction"
    BLAME = "blame"
    CLAIM_AGAIN = "claim_again"
    PIECES = "pieces"
    DIAGNOSIS = "diagnosis"
    FUNCTION_AGAIN = "function_again"
    MUTANTS = "mutants"
    PROJECTIONS = "projections"
    VALUES_ALONE = "values_alone"


class NotSeen(Exception):
    """The verdict depends on something that was not looked at yet."""

    def __init__(self, look: Look) -> None:
        super().__init__(look.value)
        self.look = look


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mode: an estimate, or a status and why."""

    mode: Mode
    status: ModeStatus
    estimate: Estimate | None = None
    error: GradcliError | None = None


@dataclass(frozen=True, slots=True)
class Direction:
    """How <g, v> compares with a difference of f along v; `agrees` is None where the bound decides nothing."""

    agrees: bool | None
    relative: float
    calls: int
    room: float = np.inf
    steps: dict[str, Array] = field(default_factory=dict)

    def room_of(self, name: str) -> Array:
        """Return how wrong each entry of one input could be unseen, were it the only wrong one."""
        with np.errstate(all="ignore"):
            return self.room / np.abs(self.steps[name]) if name in self.steps else np.inf


@dataclass(frozen=True, slots=True)
class Blame:
    """What may explain that function values contradict the trace: a wrong rule, or a kink through which no slope flows."""

    rule: str | None = None
    at: Place | Span | None = None
    flat_kink: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """What another call with the same arguments showed: the finding, where it gave something else."""

    changed: Finding | None = None


@dataclass(frozen=True, slots=True)
class Hull:
    """How far a claim is from the means of the pieces' gradients, and how many pieces there are.

    Units  `distance` and `limit` are relative to each entry's largest slope: the distance of the entry that is furthest
           off, and the largest distance that counts as none.
    """

    distance: float
    pieces: int
    limit: float
    contradicted: bool = False

    @property
    def holds(self) -> bool:
        """Whether the claim is a subgradient."""
        return self.distance <= self.limit and not self.contradicted


@dataclass(frozen=True, slots=True)
class Pieces:
    """The smooth pieces that meet at a kink, beside the claim; no hull where they cannot be looked at."""

    hull: Hull | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The likely mistake, where one is known."""

    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Planted:
    """What became of mistakes that were planted in the gradient, and a finding where one survived or none was planted."""

    mutants: tuple[Mutant, ...]
    survived: Finding | None = None


@dataclass(frozen=True, slots=True)
class Projections:
    """What random projections of function values show of a claim; `agrees` is None where they are too noisy or too few.

    `wrong` are the entries that were measured and differ, `open_` what keeps the claim open: kinks and second slopes.
    """

    agrees: bool | None
    coverage: Finding
    entries: Entries
    open_: tuple[Finding, ...] = ()
    wrong: tuple[Mismatch, ...] = ()
    complete: bool = True
    calls: int = 0
    detects: Detects = NO_SIZE


@dataclass(frozen=True)
class TraceSeen:
    """Whether the recorded program gives the function's values beside the point; None where that could not be compared.

    Units  `limit` is the smallest term that would have been seen to be lost, relative to all slopes.
    """

    agrees: bool | None = None
    limit: float | None = None
    untested: str = ""  # why they were not compared
    evaluations: int = 0


@dataclass(frozen=True)
class Evidence:
    """What was seen at one point.

    Shapes  `words[mode][x]`, `undecided[x]`: as the estimates' values of input x, or what broadcasts to it.

    The field that a `Look` names is None until it was looked at.
    """

    inputs: tuple[str, ...]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    reference: str | None = None  # the mode that the others are compared with
    words: Mapping[str, Masks] = field(default_factory=dict)  # by mode: whether each entry agrees with the reference
    claimed: tuple[str, ...] | None = None  # the inputs that a claim is for
    findings: tuple[Finding, ...] = ()
    undecided: Masks = field(default_factory=dict)  # the entries that a kink or a staircase leaves open
    scales: tuple[Finding, ...] = ()  # what differences at several scales show at the entries that are open
    wrong_shape: Diagnosis | None = None
    tolerance: Tolerance | None = None
    trace: TraceSeen = TraceSeen()
    untraced: GradcliError | None = None  # what ended the trace
    written_as_text: bool = False  # a traced value: a slope may have been lost there
    may_doubt_trace: bool = False  # function values were asked for, and the trace is believed so far
    may_keep_state: bool = False  # a Python function, whose calls may depend on those before
    wants_mutants: bool = False
    many_entries: bool = False  # a claim by function values alone, too many to be moved one by one
    direction: Direction | None = None
    blame: Blame | None = None
    claim_again: Again | None = None
    pieces: Pieces | None = None
    diagnosis: Explained | None = None
    function_again: Again | None = None
    mutants: Planted | None = None
    projections: Projections | None = None

    def estimate(self, mode: str) -> Estimate:
        """The estimate of a mode that answered. Raises KeyError for others."""
        found = self.outcomes[mode].estimate
        if found is None:
            raise KeyError(mode)
        return found

    def answered(self, mode: str) -> Estimate | None:
        """The estimate of a mode, None where it did not answer."""
        return self.outcomes[mode].estimate if mode in self.outcomes else None

    @cached_property
    def own_modes(self) -> tuple[str, ...]:
        """The modes that were compared, without the claim."""
        return tuple(mode for mode in self.words if mode != "claim")

    @cached_property
    def confirmed(self) -> dict[str, Any]:
        """For each input, which entries two modes agree on that rest on nothing in common.

        Where there is no trace, the claim itself is the second witness: differences of known error are beside it.
        """
        if self.reference is None:
            return {}
        right = self.estimate(self.reference)
        if self.untraced is not None and self.claimed is not None:
            return {name: np.isfinite(right.bound[name]) & np.isfinite(right.value[name]) for name in self.inputs}
        seen = {}
        for name in self.inputs:
            agree = {mode: self.words[mode][name] == AGREE for mode in self.own_modes}
            pairs = [agree[a] & agree[b] for a, b in self.independent_pairs]
            mask = np.logical_or.reduce(pairs) if pairs else np.zeros(np.shape(agree[self.reference]), dtype=bool)
            for mode in self.own_modes:  # what some mode contradicts, no two others confirm
                mask = mask & (self.words[mode][name] != DISAGREE)
            seen[name] = np.asarray(mask)
        return seen

    @cached_property
    def independent_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of modes that rest on nothing in common."""
        modes = self.own_modes
        return tuple(
            (a, b) for i, a in enumerate(modes) for b in modes[i + 1 :] if not self.rests_on(a) & self.rests_on(b)
        )

    def rests_on(self, mode: str) -> frozenset[Witness]:
        """What the answer of a mode depends on."""
        return self.outcomes[mode].mode.rests_on

    def contradicts(self, mode: str) -> bool:
        """Whether a mode differs from the reference in some entry."""
        return any(np.any(word == DISAGREE) for word in self.words.get(mode, {}).values())


def known(seen: T | None, look: Look) -> T:
    """Return what was seen. Raises NotSeen where it was not looked at yet."""
    if seen is None:
        raise NotSeen(look)
    return seen
