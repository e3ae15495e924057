"""The evidence at one point, as data; the verdict is a function of it alone (`decide`)."""

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
Masks = Mapping[str, Any]  # a value for each entry, by input


class Look(Enum):
    """Evidence that costs evaluations of f or of the claim, and is gathered only if the verdict depends on it.

    The value is the name of the field of `Evidence` that holds it.
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
    """The verdict depends on evidence that has not been gathered yet."""

    def __init__(self, look: Look) -> None:
        super().__init__(look.value)
        self.look = look


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mode: an estimate, or a status and the error that explains it."""

    mode: Mode
    status: ModeStatus
    estimate: Estimate | None = None
    error: GradcliError | None = None


@dataclass(frozen=True, slots=True)
class Direction:
    """How <g, v> compares with a difference of f along v; `agrees` is None if the bound is too wide to decide."""

    agrees: bool | None
    relative: float
    calls: int
    room: float = np.inf
    steps: dict[str, Array] = field(default_factory=dict)

    def room_of(self, name: str) -> Array:
        """Return the largest undetected error of each entry of one input, if it is the only wrong entry."""
        with np.errstate(all="ignore"):
            return self.room / np.abs(self.steps[name]) if name in self.steps else np.inf


@dataclass(frozen=True, slots=True)
class Blame:
    """Why function values may contradict the trace: the wrong rule and its place, or a kink through which no slope flows."""

    rule: str | None = None
    at: Place | Span | None = None
    flat_kink: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """The result of another call with the same arguments: a finding if the value changed, else None."""

    changed: Finding | None = None


@dataclass(frozen=True, slots=True)
class Hull:
    """The distance of a claim from the convex hull of the pieces' gradients, and the number of pieces.

    Units  `distance` is that of the worst entry, and `limit` the largest distance that counts as none, both relative to
           each entry's largest slope.
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
    """The convex hull of the gradients of the pieces that meet at a kink; None if they could not be computed."""

    hull: Hull | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The likely mistake in the claim, if one is known."""

    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Planted:
    """The results of planted mistakes, and a finding if one of them was not caught or none was planted."""

    mutants: tuple[Mutant, ...]
    survived: Finding | None = None


@dataclass(frozen=True, slots=True)
class Projections:
    """The result of random projections of function values; `agrees` is None if they are too noisy or too few.

    `wrong` are the entries that were measured alone and differ from the claim. `open_` are findings that leave the claim
    undecided: kinks and second slopes.
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
    """Whether the recorded program gives the function's values near the point; None if this could not be compared.

    Units  `limit` is the smallest lost term that the test would have detected, relative to all slopes.
    """

    agrees: bool | None = None
    limit: float | None = None
    untested: str = ""  # why the values were not compared
    evaluations: int = 0


@dataclass(frozen=True)
class Evidence:
    """All evidence at one point; a field that a `Look` names is None until it has been gathered.

    Shapes  `words[mode][x]` and `undecided[x]` have the shape of the estimates' values of input x, or broadcast to it.
    """

    inputs: tuple[str, ...]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    reference: str | None = None  # the mode that the others are compared with
    words: Mapping[str, Masks] = field(default_factory=dict)  # the verdict of each entry against the reference, by mode
    claimed: tuple[str, ...] | None = None  # the inputs that the claim covers; None without a claim
    findings: tuple[Finding, ...] = ()
    undecided: Masks = field(default_factory=dict)  # the entries that a kink or a staircase leaves undecided
    scales: tuple[Finding, ...] = ()  # findings of differences at several scales on undecided entries
    wrong_shape: Diagnosis | None = None
    tolerance: Tolerance | None = None
    trace: TraceSeen = TraceSeen()
    untraced: GradcliError | None = None  # the error that ended the trace
    written_as_text: bool = False  # a traced value was converted to text, where its slope may have been lost
    may_doubt_trace: bool = False  # function values were requested, and the trace is not rejected yet
    may_keep_state: bool = False  # a Python function, whose value may depend on earlier calls
    wants_mutants: bool = False
    many_entries: bool = False  # a claim without a trace, with too many entries to move one by one
    direction: Direction | None = None
    blame: Blame | None = None
    claim_again: Again | None = None
    pieces: Pieces | None = None
    diagnosis: Explained | None = None
    function_again: Again | None = None
    mutants: Planted | None = None
    projections: Projections | None = None

    def estimate(self, mode: str) -> Estimate:
        """The estimate of a mode. Raises KeyError if the mode gave none."""
        found = self.outcomes[mode].estimate
        if found is None:
            raise KeyError(mode)
        return found

    def answered(self, mode: str) -> Estimate | None:
        """The estimate of a mode, or None if it gave none."""
        return self.outcomes[mode].estimate if mode in self.outcomes else None

    @cached_property
    def own_modes(self) -> tuple[str, ...]:
        """The modes that were compared, without the claim."""
        return tuple(mode for mode in self.words if mode != "claim")

    @cached_property
    def confirmed(self) -> dict[str, Any]:
        """A mask of the confirmed entries, by input: two modes that rest on nothing in common agree on them.

        If there is no trace, the claim itself is the second witness, beside differences with a known error bound.
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
            for mode in self.own_modes:  # a contradicted entry is not confirmed, whichever modes agree on it
                mask = mask & (self.words[mode][name] != DISAGREE)
            seen[name] = np.asarray(mask)
        return seen

    @cached_property
    def independent_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of compared modes that rest on nothing in common."""
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
    """Return gathered evidence. Raises NotSeen if it has not been gathered yet."""
    if seen is None:
        raise NotSeen(look)
    return seen
