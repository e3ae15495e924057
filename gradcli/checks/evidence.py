"""The evidence at one point, as data; the verdict is a function of it alone (`decide`)."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.mode import Mode
from gradcli.modes.rounding import EPS
from gradcli.modes.trace_test import TraceTest
from gradcli.report.common import Finding
from gradcli.report.point_report import NO_SIZE, Detects, Diagnosis, Entries, Mismatch, Mutant
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.shapes import (
    BLOCK,
    all_finite,
    concatenate_entries,
    entries_of_part,
    largest_finite,
    largest_magnitude,
    map_in_blocks,
    shared_zeros,
)
from gradcli.words import Agreement, ModeStatus, Verdict

T = TypeVar("T")
PerEntry = Mapping[str, Any]  # a value for each entry, by input


class EvidenceKind(Enum):
    """Evidence that costs evaluations of f or of the claim, and is gathered only if the verdict depends on it.

    Each value but the last names the field of `Evidence` that holds it. `VALUES_ALONE` asks for the whole check to be
    repeated without the trace.
    """

    DIRECTION = "direction"
    BLAME = "blame"
    CLAIM_AGAIN = "claim_again"
    CLAIM_ROUNDING = "claim_rounding"
    LEFT_OUT = "left_out"
    PIECES = "pieces"
    FUNCTION_AGAIN = "function_again"
    MUTANTS = "mutants"
    PROJECTIONS = "projections"
    FORMAT = "format"
    VALUES_ALONE = "values_alone"


class MissingEvidence(Exception):
    """The verdict depends on evidence that has not been gathered yet."""

    def __init__(self, kind: EvidenceKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mode: an estimate, or a status and the error that explains it."""

    mode: Mode
    status: ModeStatus
    estimate: Estimate | None = None
    error: GradcliError | None = None


@dataclass(frozen=True, slots=True)
class DirectionalCheck:
    """How <g, v> compares with a difference of f along v; `agrees` is None if the bound is too wide to decide.

    `bound` is that of the untouched function. `in_balls` says that the recorded program was also run in balls, and that
    `relative_bound` is that of their difference.
    """

    agrees: bool | None
    relative_bound: float
    calls: int
    bound: float = np.inf
    displacements: dict[str, Array] = field(default_factory=dict)
    in_balls: bool = False

    def bound_of(self, name: str, part: slice) -> Array:
        """Return the error bound of the difference, per unit of some entries; an error up to three times this may still agree."""
        if name not in self.displacements:
            return np.inf
        with np.errstate(all="ignore"):
            return self.bound / np.abs(entries_of_part(self.displacements[name], part))


@dataclass(frozen=True, slots=True)
class Cause:
    """The likely cause if values contradict the trace: a wrong rule and its place, or an operation evaluated at its kink."""

    rule: str | None = None
    at: Place | Span | None = None
    operation_at_kink: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRounding:
    """What the rounding errors of the claim itself explain: a finding if they are its only errors, else None.

    Units  `off` is relative to the largest entry of each input.
    """

    only_error: Finding | None = None
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class OmittedConstant:
    """A small constant without which f has the claimed gradient, as text, the operation that it guards, and the difference.

    Without a constant, none explains the claim.

    Units  `off` is relative to the largest entry of each input.
    """

    constant: str | None = None
    operation: str = ""
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class HullDistance:
    """The distance of a claim from the convex hull of the gradients of the pieces that meet at a kink; no pieces if unknown.

    Units  `distance` is that of the worst entry, and `limit` the largest distance that counts as none, both relative to
           each entry's largest slope.
    """

    distance: float = 0.0
    piece_count: int = 0
    limit: float = 0.0
    contradicted_by_values: bool = False

    @property
    def holds(self) -> bool:
        """Whether the claim is a subgradient."""
        return self.distance <= self.limit and not self.contradicted_by_values


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The mistakes that were planted, and a finding if one was missed or none could be planted."""

    mutants: tuple[Mutant, ...]
    problem: Finding | None = None


@dataclass(frozen=True, slots=True)
class FormatEvidence:
    """What other runs of a claim say about its errors in a narrow format.

    dtype          The format, such as bfloat16.
    coarseness     One rounding of the format, in those of float64.
    wide           The verdict on the same gradient in a wider format; None if it was not computed there.
    wide_error     The largest error in the wider format, relative to the largest entry.
    changes        Whether the errors that are larger than the format explains change from point to point, as rounding
                   errors do and a mistake does not; None if there are none, or this was not measured.
    predicted      Whether the errors are as large as those in the wider format predict for rounding in this one.
    underflows     Whether every entry is zero, and the right ones are too small for the format.
    wider          The option that gives a wider format; None if there is none.
    """

    dtype: str
    coarseness: float
    wide: Verdict | None = None
    wide_error: float | None = None
    changes: bool | None = None
    predicted: bool = False
    underflows: bool = False
    wider: str | None = None


@dataclass(frozen=True, slots=True)
class Projections:
    """The result of random projections of function values; `agrees` is None if they are too noisy or too few.

    `wrong` are the entries that were measured alone and differ from the claim. `undecided_because` are findings that leave
    the claim undecided: kinks and second slopes.
    """

    agrees: bool | None
    coverage: Finding
    entries: Entries
    undecided_because: tuple[Finding, ...] = ()
    wrong: tuple[Mismatch, ...] = ()
    complete: bool = True
    calls: int = 0
    detects: Detects = NO_SIZE


@dataclass(frozen=True, slots=True)
class SetLeft:
    """A set that an input lies on at the point, and that a derivative by its single entries leaves.

    `why` says what f does off the set; `differs` says that the claim is wrong by single entries, and right along the set.
    """

    input: str
    fact: str
    name: str
    why: str
    differs: bool


# Whether two estimates agree, entry by entry.

AGREE, CANNOT_TELL, DISAGREE = np.int8(0), np.int8(1), np.int8(2)  # verdicts of entries; a larger number is worse
WORDS: tuple[Agreement, ...] = ("agree", "cannot tell", "disagree")
SMALL_CONSTANT = 1e-4  # of a constant, and of the difference that leaving it out makes, relative to the largest entry
NEAR_ZERO = 1e-6  # relative to the largest entry: smaller entries are compared as if they were this large
USEFUL = 1e-3  # a bound wider than this, relative to the entry, decides nothing
USEFUL_SOLVER = 0.01  # the same where f calls a solver, whose tolerance bounds what can be known
USEFUL_NARROW = 1.0  # the same for formats of few digits, relative to the largest entry: one that is missing is seen
USEFUL_VALUES = 0.01  # the same where the bound is that of differences, which no format excuses
UNRESOLVED = 0.5  # an entry known to be different from zero is not confirmed by a bound half its size
DOUBT = 3.0  # between one and three bounds, an estimated bound cannot tell


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances that the user gave; they only loosen what the bounds grant.

    Units  `rtol` relative to the reference, `atol` in units of the gradient.
    """

    rtol: float = 0.0
    atol: float = 0.0


def allowed_difference(
    a: Estimate, b: Estimate, name: str, fixed: Tolerance | None, part: slice | None = None
) -> Array:
    """Return the allowed difference of two correct estimates of one input: the sum of their bounds, or the user's tolerance.

    Shapes  the shape of the estimates' values: of the output, then of the input; flat for a `part` of the entries.
    Units   in units of the gradient.
    """
    own, bound, value = a.bound[name], b.bound[name], b.value[name]
    if part is not None:
        own, bound, value = (entries_of_part(x, part) for x in (own, bound, value))
    room = np.asarray(own) + np.asarray(bound)
    return room if fixed is None else np.maximum(room, tolerated_difference(fixed, value))


def tolerated_difference(fixed: Tolerance | None, value: Array) -> Array:
    """Return the difference from the values of the reference that the user tolerates."""
    return np.zeros(np.shape(value)) if fixed is None else fixed.atol + fixed.rtol * np.abs(value)


def zero_scale(right: Estimate, xs: Iterable[Array], value: Array) -> float:
    """Return the absolute value below which entries of a gradient count as zero, at inputs `xs` with the value of f."""
    entries = max((largest_finite(v) for v in right.value.values()), default=0.0)
    x = max(map(largest_finite, xs), default=0.0)
    return NEAR_ZERO * max(entries, largest_finite(value) / max(x, 1.0))


def judge_entries(
    a: Estimate, b: Estimate, name: str, scale: float, fixed: Tolerance | None = None, useful: float = USEFUL,
    doubt: float = DOUBT,
) -> Any:  # fmt: skip
    """Return the verdict of each entry of one input; `b` is the reference.

    `useful` is the bound, relative to an entry, beyond which values that are not equal decide nothing. A difference of up to
    `doubt` bounds decides nothing if one of them is estimated. A fixed tolerance turns verdicts towards agreement alone: an
    entry agrees if it lies within the tolerance wherever the reference is within its bound, and disagrees only if it lies
    outside wherever that is.

    Shapes  as the estimates' values.
    Units   `scale` is the absolute value below which an entry of the gradient counts as zero.
    """
    x, y = np.asarray(a.value[name]), np.asarray(b.value[name])
    if a is b:  # an estimate beside itself agrees where it and its bound are finite
        known = lambda y, bound: np.where(np.isfinite(y) & np.isfinite(bound), AGREE, CANNOT_TELL)
        return _share_if_all_agree(map_in_blocks(known, np.int8, y, b.bound[name]))
    top = max(largest_finite(y), scale) if a.narrow else 0.0

    def words(x: Array, y: Array, bound: Array, own: Array, solvers: Array) -> Any:
        """Return the verdicts of some entries, given the values, the bounds of both estimates, and what solvers make of them."""
        room = bound + own
        distance = np.abs(x - y)
        close = distance <= room
        verdict = np.zeros(close.shape, np.int8) if np.all(close) else np.where(close, AGREE, DISAGREE)
        size = np.abs(y)
        if a.narrow:
            wide = room > USEFUL_NARROW * top
            if b.statistical:
                wide |= own > USEFUL_VALUES * top
        else:
            wide = room > useful * np.maximum(size, scale)
            wide |= (room > UNRESOLVED * size) & (size > own)
        if np.any(wide):  # two equal values agree, unless the bound is as wide as the slopes of f
            unequal = (distance > 0) | (room > USEFUL * scale / NEAR_ZERO if scale else False)
            verdict[...] = np.where(close & wide & unequal, CANNOT_TELL, verdict)
        if (a.statistical or b.statistical) and not np.all(close):
            doubtful = room + (doubt - 1.0) * np.maximum(room - solvers, 0.0)
            verdict[...] = np.where(~close & (distance <= doubtful), CANNOT_TELL, verdict)
        if fixed is not None:
            tolerated = tolerated_difference(fixed, y)
            verdict[...] = np.where((verdict == DISAGREE) & (distance - own <= tolerated), CANNOT_TELL, verdict)
            verdict[...] = np.where(distance + own <= tolerated, AGREE, verdict)
        if all_finite(distance) and all_finite(room):
            return verdict
        return np.where(np.isfinite(distance) & np.isfinite(room), verdict, CANNOT_TELL)

    with np.errstate(all="ignore"):
        solvers = np.asarray(a.solvers.get(name, 0.0)) + b.solvers.get(name, 0.0)
        return _share_if_all_agree(map_in_blocks(words, np.int8, x, y, a.bound[name], b.bound[name], solvers))


def _share_if_all_agree(verdicts: Any) -> Any:
    """Return the verdicts of entries; those of a large array in which all agree share their memory with others."""
    if np.size(verdicts) <= BLOCK or np.any(verdicts != AGREE):
        return verdicts
    return shared_zeros(np.shape(verdicts), np.int8)


def largest_relative_error(seen: "Evidence") -> float:
    """Return how far the claim is from the reference: the largest difference, relative to the largest entry of each input."""
    claim, right = seen.estimate("claim").value, seen.estimate(str(seen.reference)).value
    with np.errstate(all="ignore"):
        sizes = {name: largest_finite(right[name]) or 1.0 for name in claim}
        apart = [np.max(np.abs(x - right[name]), initial=0.0) / sizes[name] for name, x in claim.items()]
    return float(np.max(apart, initial=0.0))


def worst_verdict(verdicts: Iterable[Any]) -> Agreement:
    """Return the worst of many verdicts in words."""
    return WORDS[max((int(np.max(v, initial=AGREE)) for v in verdicts), default=0)]


@dataclass
class Evidence:
    """All evidence at one point; a field that a `EvidenceKind` names is None until it has been gathered.

    Shapes  `agreement[mode][x]` and `undecided[x]` have the shape of the estimates' values of input x, or broadcast to it.
    """

    inputs: tuple[str, ...]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reference: str | None = None  # the mode that the others are compared with
    agreement: dict[str, PerEntry] = field(default_factory=dict)  # of each entry with the reference, by mode
    claimed: tuple[str, ...] | None = None  # the inputs that the claim covers; None without a claim
    findings: tuple[Finding, ...] = ()
    undecided: PerEntry = field(default_factory=dict)  # the entries that a kink or a staircase leaves undecided
    scale_findings: tuple[Finding, ...] = ()  # of differences at several scales, on undecided entries
    wrong_shape: Diagnosis | None = None
    tolerance: Tolerance | None = None
    trace: TraceTest = TraceTest(None)
    untraced: GradcliError | None = None  # the error that ended the trace
    # solvers in f with the tolerances at which they stop, if these change its derivatives
    solvers: tuple[str, ...] = ()
    written_as_text: bool = False  # a traced value was converted to text, where its slope may have been lost
    may_retry_without_trace: bool = False  # function values were requested, and the trace is not rejected yet
    may_keep_state: bool = False  # a Python function, whose value may depend on earlier calls
    # that a derivative by single entries leaves, and f does not allow or does not see
    sets_left: tuple[SetLeft, ...] = ()
    wants_mutants: bool = False
    needs_projections: bool = False  # a claim without a trace, with too many entries to move one by one
    direction: DirectionalCheck | None = None
    blame: Cause | None = None
    claim_again: tuple[Finding, ...] | None = None  # none if a second call of the claim gives the same gradient
    claim_rounding: ClaimRounding | None = None
    left_out: OmittedConstant | None = None
    pieces: HullDistance | None = None
    function_again: tuple[Finding, ...] | None = None  # none if another call of f gives the same value
    mutants: MutationResult | None = None
    projections: Projections | None = None
    format: FormatEvidence | None = None

    def estimate(self, mode: str) -> Estimate:
        """The estimate of a mode. Raises KeyError if the mode gave none."""
        found = self.outcomes[mode].estimate
        if found is None:
            raise KeyError(mode)
        return found

    def estimate_or_none(self, mode: str) -> Estimate | None:
        """The estimate of a mode, or None if it gave none."""
        return self.outcomes[mode].estimate if mode in self.outcomes else None

    @cached_property
    def modes_without_claim(self) -> tuple[str, ...]:
        """The modes that were compared, without the claim."""
        return tuple(mode for mode in self.agreement if mode != "claim")

    @cached_property
    def confirmed(self) -> dict[str, Any]:
        """A mask of the confirmed entries, by input: two modes that share no dependency agree on them.

        If there is no trace, the claim itself is the second witness, beside differences with a known error bound.
        """
        if self.reference is None:
            return {}
        right = self.estimate(self.reference)
        if self.untraced is not None and self.claimed is not None:
            return {name: np.isfinite(right.bound[name]) & np.isfinite(right.value[name]) for name in self.inputs}
        seen = {}
        for name in self.inputs:
            agree = {mode: self.agreement[mode][name] == AGREE for mode in self.modes_without_claim}
            pairs = [agree[a] & agree[b] for a, b in self.independent_pairs]
            if not pairs:
                seen[name] = shared_zeros(np.shape(agree[self.reference]), bool)
                continue
            mask = np.logical_or.reduce(pairs)
            for mode in self.modes_without_claim:  # a contradicted entry is not confirmed, whichever modes agree on it
                mask = mask & (self.agreement[mode][name] != DISAGREE)
            seen[name] = np.asarray(mask)
        return seen

    @cached_property
    def independent_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of compared modes that share no dependency."""
        pairs = itertools.combinations(self.modes_without_claim, 2)
        return tuple((a, b) for a, b in pairs if not self.dependencies(a) & self.dependencies(b))

    def dependencies(self, mode: str) -> frozenset[Witness]:
        """What the answer of a mode depends on."""
        return self.outcomes[mode].mode.rests_on

    def contradicts(self, mode: str) -> bool:
        """Whether a mode differs from the reference in some entry."""
        return any(np.any(word == DISAGREE) for word in self.agreement.get(mode, {}).values())


def require_evidence(value: T | None, kind: EvidenceKind) -> T:
    """Return gathered evidence. Raises MissingEvidence if it has not been gathered yet."""
    if value is None:
        raise MissingEvidence(kind)
    return value


# How exact a gradient in a narrow format is, beside what its format can deliver.

LESS_EXACT = 4.0  # times the typical error of the same formula in the format: a larger error is reported
LESS_EXACT_ENTRY = 6.0  # the same of one entry
_ONE_ROUNDING = 12**-0.5  # ulps: the root mean square error of one rounding


def error_ratios(
    claim: Mapping[str, Array], right: Mapping[str, Array], typical: Mapping[str, Array], coarseness: float
) -> tuple[float, float]:
    """Return the error of a claim over the typical error of the same formula in its format: of the worst input, and entry.

    The first is a root mean square of the entries of one input. Entries that both compute without an error count as 0.

    Units  `coarseness` is one rounding of the format in those of float64.
    """
    worst = largest = 0.0
    for name, x in claim.items():
        y = np.asarray(right[name])
        least = _ONE_ROUNDING * EPS * coarseness * np.abs(y)  # the result itself is rounded
        off = np.abs(np.asarray(x) - y)
        with np.errstate(all="ignore"):
            found = np.where(off > 0, off / np.maximum(typical[name], least), 0.0)
        if found.size:
            worst = max(worst, float(np.sqrt(np.mean(np.square(found)))))
            largest = max(largest, float(np.max(found)))
    return worst, largest


def has_no_right_digit(claim: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Whether the error of a claim is at least half as large as the largest entry of the gradient."""
    x, y = (concatenate_entries(part[name] for name in claim) for part in (claim, right))
    largest = largest_magnitude(y)
    return largest > 0 and not largest_magnitude(x - y) < 0.5 * largest
