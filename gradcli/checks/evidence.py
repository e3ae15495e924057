"""The evidence at one point, as data; the verdict is a function of it alone (`decide`)."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import field
from decimal import ROUND_UP, Context, Decimal
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.mode import Mode
from gradcli.modes.rounding import EPS
from gradcli.modes.trace_test import TraceTest
from gradcli.report import numbers
from gradcli.report.common import ABSENT, Finding
from gradcli.report.point_report import NO_SIZE, Detects, Diagnosis, Entries, Mismatch, Mutant, UnresolvedEntries
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.shapes import (
    BLOCK,
    all_finite,
    concatenate_entries,
    entries_of_part,
    iterate_blocks,
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

    Units  `off` is relative to the entry in which it is largest, `at`, such as `x[3]`.
    """

    only_error: Finding | None = None
    off: float = 0.0
    at: str | None = None


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
    input_rounding: PerEntry = field(default_factory=dict)  # how far off a claim may be, as its inputs are rounded
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


# Compute the smallest error that the check would have detected.

_MOSTLY = 0.5  # of the allowed difference: what makes so much of it sets the limit


# Entries that function values alone do not resolve: their differences cannot be told from 0, or hardly.

MOST = 1e-2  # of the largest entry of the input: a larger error is left open, however blunt the check is
Masks = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The entries of a claim that function values do not resolve, as masks by input.

    An entry is not resolved if the claim lies within the bound of its difference, and this bound is wide beside the
    difference. `accepted` are those whose largest possible error is below the check's own limit, that of the resolved
    entries, times the largest entry of their input. `open` are others that cannot be told from 0. `zeros` are claimed as
    exactly 0, and their differences are 0.

    Units  `error` is the largest possible error of each entry, in units of the gradient.
    """

    accepted: Masks = field(default_factory=dict)
    open: Masks = field(default_factory=dict)
    zeros: Masks = field(default_factory=dict)
    error: Masks = field(default_factory=dict)

    def agreement(self, words: Any, name: str) -> Any:
        """Return the verdicts of the entries of one input, with those of the entries that are not resolved."""
        if name not in self.accepted:
            return words
        return np.where(self.accepted[name], AGREE, np.where(self.open[name], CANNOT_TELL, words))

    def worst(self, masks: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
        """Return the place of the entry with the largest possible error among some; None if there are none."""
        found: tuple[float, str, tuple[int, ...]] | None = None
        for name, mask in masks.items():
            if np.any(mask):
                errors = np.where(mask, self.error[name], -1.0)
                at = tuple(int(k) for k in np.unravel_index(int(np.argmax(errors)), errors.shape))
                if found is None or float(errors[at]) > found[0]:
                    found = float(errors[at]), name, at
        return None if found is None else found[1:]

    def zero_limit(self) -> float | None:
        """Return the largest error that an entry claimed as exactly 0 may have; None if there is no such entry."""
        place = self.worst(self.zeros)
        return None if place is None else float(self.error[place[0]][place[1]])


def resolution_of(seen: Evidence) -> Resolution:
    """Return which entries of the claim function values alone do not resolve.

    The check's own limit is the relative error beyond which it is certain to call a resolved entry wrong: `DOUBT` bounds.
    """
    claim = seen.estimate_or_none("claim")
    if claim is None or claim.narrow or seen.reference is None or "claim" not in seen.agreement:
        return Resolution()
    if seen.dependencies(seen.reference) != {Witness.FUNCTION_VALUES}:
        return Resolution()
    right, found = seen.estimate(seen.reference), Resolution()
    hidden: Masks = {}
    limit = 0.0
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            x, y = np.asarray(claim.value[name]), np.asarray(right.value[name])
            room, distance = np.asarray(allowed_difference(claim, right, name, None)), np.abs(x - y)
            slopes = right.slopes.get(name)
            several = False if slopes is None else np.isfinite(slopes.left) | np.isfinite(slopes.other)
            at_kink = np.asarray(seen.undecided.get(name, False)) | several
            closed = (distance <= room) & np.isfinite(room) & (words != DISAGREE) & ~at_kink
            closed &= ~(distance + right.bound[name] <= tolerated_difference(seen.tolerance, y))
            resolved, zero = room <= USEFUL * np.abs(y), (x == 0) & (y == 0)
            hidden[name] = closed & ~resolved & ~zero
            found.zeros[name], found.error[name] = closed & zero, distance + room
            limit = max(limit, float(np.max(np.where(closed & resolved & ~zero, room / np.abs(y), 0.0), initial=0.0)))
        for name, mask in hidden.items():
            y = np.abs(right.value[name])
            top = float(np.max(np.where(mask | ~np.isfinite(y), 0.0, y), initial=0.0))
            found.accepted[name] = mask & (found.error[name] <= min(DOUBT * limit, MOST) * top)
            found.open[name] = mask & ~found.accepted[name] & _entries_near_zero(seen, name)
    return found


def _entries_near_zero(seen: Evidence, name: str) -> Any:
    """Return a mask of the entries whose difference cannot be told from 0."""
    right = seen.estimate(str(seen.reference))
    return np.abs(right.value[name]) <= right.bound[name]


def report_accepted_entries(seen: Evidence, found: Resolution) -> UnresolvedEntries | None:
    """Return what a pass says of the entries that were accepted without being resolved; None if there are none."""
    place = found.worst(found.accepted)
    if place is None:
        return None
    name, at = place
    return UnresolvedEntries(
        count=sum(int(np.sum(mask)) for mask in found.accepted.values()),
        compared=sum(int(np.size(mask)) for mask in found.accepted.values()),
        below=float(found.error[name][at]),
        at=numbers.entry_name(name, at),
        told_from_zero=any(bool(np.any(mask & ~_entries_near_zero(seen, n))) for n, mask in found.accepted.items()),
    )


def describe_open_entries(seen: Evidence, found: Resolution) -> str | None:
    """Return in words which entries are left open, and the one with the widest bound; None if there are none."""
    place = found.worst(found.open)
    if place is None:
        return None
    count = sum(int(np.sum(mask)) for mask in found.open.values())
    total = sum(int(np.size(mask)) for mask in found.open.values())
    return f"{count:,} of {total:,} entr{'y' if total == 1 else 'ies'} not resolved: {_describe_entry(seen, *place)}"


def find_undecided_entry(seen: Evidence) -> tuple[str, str, float] | None:
    """Return the undecided entry of the claim that needs the largest tolerance; None if none has a finite bound.

    It comes in words, with the option that decides all entries, and with the bound of the reference, relative to it, where
    the claim is outside of the bounds all the same; 0 where it is not, or the reference is 0.
    """
    if seen.claimed is None or seen.reference is None:
        return None
    claim, right = seen.estimate("claim"), seen.estimate(seen.reference)
    given = seen.tolerance or Tolerance()
    relative: dict[str, Any] = {}
    absolute: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            y = np.abs(right.value[name])
            needed = np.abs(np.asarray(claim.value[name]) - right.value[name]) + right.bound[name]
            undecided = (words == CANNOT_TELL) & np.isfinite(needed)
            relative[name] = np.where(undecided, (needed - given.atol) / y, -np.inf)
            absolute[name] = np.where(undecided, needed - given.rtol * y, -np.inf)
    largest = {name: float(np.max(x, initial=-np.inf)) for name, x in relative.items()}
    name = max(largest, key=lambda n: largest[n])
    if largest[name] == -np.inf:
        return None
    at = tuple(int(k) for k in np.unravel_index(int(np.argmax(relative[name])), np.shape(relative[name])))
    most = max(float(np.max(x, initial=-np.inf)) for x in absolute.values())
    option = f"--rtol {_round_up(largest[name])}" if np.isfinite(largest[name]) else f"--atol {_round_up(most)}"
    bound = float(np.asarray(right.bound[name])[at])
    own = float(np.asarray(claim.bound[name])[at])
    off = abs(float(np.asarray(claim.value[name] - right.value[name])[at]))
    size = abs(float(np.asarray(right.value[name])[at]))
    outside = bound / size if size and off > DOUBT * (bound + own) else 0.0
    return _describe_entry(seen, name, at), f"{option} decides it", outside


def _round_up(x: float) -> str:
    """Return a positive number with two digits, rounded up."""
    return f"{float(Context(prec=2, rounding=ROUND_UP).create_decimal(Decimal(f'{x:.12g}'))):.1e}"


def _describe_entry(seen: Evidence, name: str, at: tuple[int, ...]) -> str:
    """Return an entry of the reference with its bound, and the claim: `x[1] is 0 +- 2e-03, claimed 0.0001`."""
    right, claim = seen.estimate(str(seen.reference)), seen.estimate("claim")
    value, bound, own = (float(np.asarray(part[name])[at]) for part in (right.value, right.bound, claim.value))
    return f"{numbers.entry_name(name, at)} is {value:.3g} +- {numbers.write_bound(bound)}, claimed {numbers.few_digits(own)}"


def find_detection_limit(seen: Evidence, verdict: Verdict, hull: HullDistance | None) -> Detects:
    """Return the largest relative error that could have gone undetected, over the nonzero entries that were resolved.

    If all entries are zero, return the largest absolute error instead; beside it, if some are and function values alone
    show it. The limit of an entry is the larger of two: the
    allowed difference of claim and reference, and what tracing could lose (the limit of the trace test or of function
    values, whichever is less). At a kink the limit of the test for subgradients is included too.

    Units  relative to each entry of the reference, for a claim in a narrow format to the largest entry; the absolute error
           in units of the gradient.
    """
    if seen.reference is None or verdict == Verdict.INCONCLUSIVE:
        return NO_SIZE
    right = seen.estimate(seen.reference)
    smallest, at, absolute, by_solvers = -1.0, None, None, False
    names = seen.claimed or seen.inputs
    claim = seen.estimate_or_none("claim")
    resolution = resolution_of(seen) if hull is None else Resolution()
    unresolved = report_accepted_entries(seen, resolution) or ABSENT
    if hull is None and not any(np.any(np.asarray(right.value[name]) != 0) for name in names):
        every = [_allowed_difference_to_claim(seen, right, name, slice(None)) for name in names]
        every += [_largest_confirmed_error(seen, name, slice(None)) for name in names]
        largest = max((float(np.max(room, initial=0.0)) for room in every if room is not None), default=np.inf)
        absolute = largest if np.isfinite(largest) else None
    for name in names:
        value = np.asarray(right.value[name])
        # small entries have no right digit there
        top = largest_finite(value) if claim is not None and claim.narrow else None
        left_out = None  # the entries at the kink have the limit of the hull, and those not resolved their own
        if hull is not None and np.any(seen.undecided[name]):
            left_out = np.broadcast_to(seen.undecided[name], value.shape)
        elif name in resolution.accepted:
            left_out = np.broadcast_to(resolution.accepted[name], value.shape)
        for part in iterate_blocks(value.size):
            room = _largest_undetected_error(seen, right, name, part)
            entries = entries_of_part(value, part)
            g = np.abs(entries) if top is None else np.full(np.shape(entries), top)
            g = g if left_out is None else np.where(entries_of_part(left_out, part), 0.0, g)
            if room is None or not np.any(g > 0):
                continue
            relative = np.divide(room, g, out=np.zeros(np.shape(g)), where=g > 0)
            k = int(np.argmax(relative))
            if float(np.reshape(relative, -1)[k]) > smallest:
                smallest = float(np.reshape(relative, -1)[k])
                estimates = [right] if claim is None else [claim, right]
                parts = [np.ravel(entries_of_part(e.solvers[name], part)) for e in estimates if name in e.solvers]
                made = sum(float(x[k] if x.size > 1 else x[0]) for x in parts)  # by the tolerances of solvers in f
                by_solvers = made > _MOSTLY * float(np.reshape(room, -1)[k])
                place = np.unravel_index(part.start + k, value.shape) if value.ndim else ()
                at = numbers.entry_name(name, tuple(map(int, place)))
    if hull is not None and hull.limit > smallest:
        smallest, at, by_solvers = hull.limit, None, False
    if 0 <= smallest < 1:
        zero_limit = resolution.zero_limit()
        solvers = seen.solvers if by_solvers and seen.tolerance is None else ABSENT
        return Detects(smallest, at, ABSENT if zero_limit is None else zero_limit, unresolved, solvers)
    return Detects(None, None, ABSENT if absolute is None else absolute, unresolved)


def _largest_undetected_error(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the largest undetected absolute error of some entries of one input; None if it is unknown."""
    claim = seen.estimate_or_none("claim")
    own = _allowed_difference_to_claim(seen, right, name, part)
    if own is None:
        return None
    if claim is not None and seen.trace.detects is None and not seen.trace.why:
        return own  # nothing is traced, or the recorder compares every operation
    lost = _largest_confirmed_error(seen, name, part)
    if seen.trace.detects is not None:
        by_test = seen.trace.detects * np.abs(np.asarray(entries_of_part(right.value[name], part)))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


def _allowed_difference_to_claim(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the allowed difference of some entries of claim and reference; without a claim, the bound of the reference."""
    if seen.claimed is None:
        return np.asarray(entries_of_part(right.bound[name], part))
    claim = seen.estimate_or_none("claim")
    if claim is None or name not in claim.value:
        return None
    room = np.asarray(allowed_difference(claim, right, name, seen.tolerance, part))
    granted = seen.input_rounding.get(name)
    if granted is None:
        return room
    return np.fmax(room, entries_of_part(granted, part) + entries_of_part(right.bound[name], part))


def _largest_confirmed_error(seen: Evidence, name: str, part: slice) -> Array | None:
    """Return the largest error in an entry that the best independent pair of modes, or one direction, would still confirm."""
    if seen.untraced is not None:
        return None
    rooms = []
    for a, b in seen.independent_pairs:
        one, other = (entries_of_part(seen.agreement[mode][name], part) == AGREE for mode in (a, b))
        both = one & other
        rooms.append(np.where(both, allowed_difference(seen.estimate(a), seen.estimate(b), name, None, part), np.inf))
    if not rooms and seen.direction is not None and seen.direction.agrees:
        return seen.direction.bound_of(name, part)
    return np.min(np.stack(rooms), axis=0) if rooms else None
