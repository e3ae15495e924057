"""What a report of `check` says of one point."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Paragraph, Piece, Table, Tone, Verbatim
from gradcli.report.common import ABSENT, Absent, Finding
from gradcli.report.encode import Given, Values
from gradcli.words import Agreement, AspectStatus, DiagnosisKind, ModeStatus, RanOn, Verdict

# What a check found of a framework's function: its other ways to differentiate; and of what was checked alone, as layers are.

_WORTH = 1e-3  # seconds: what runs quicker has no cost to speak of
_TONES: dict[str, Tone] = {"agrees": "good", "wrong": "bad", "differs": "unsure"}
_ALONE: dict[Verdict, tuple[str, Tone]] = {Verdict.PASS: ("right", "good"), Verdict.FAIL: ("wrong", "bad")}


@dataclass(frozen=True, slots=True)
class Aspect:
    """One more way in which the framework differentiates, and how far it is from what is right, relative to it.

    name        The way to differentiate, such as `second run` or `forward mode`.
    status      Whether it gives the right gradient, and if it did not run, why.
    difference  The largest difference from what is right, relative to the largest entry.
    allowed     The largest relative difference that rounding explains.
    message     What is to be known of it, as a sentence.
    """

    name: str
    status: AspectStatus
    difference: float | Absent = ABSENT
    allowed: float | Absent = ABSENT
    message: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Part:
    """A custom gradient or a layer that was met on the way, checked alone at the values it really saw.

    name     The name of the custom gradient, or the path of the layer with its class.
    verdict  The verdict on it alone.
    detects  The smallest relative error that would have been seen.
    message  Why it is not confirmed, as a sentence.
    file     The file of its backward function.
    line     The line of its backward function, counted from 1.
    source   The text of this line.
    reached  Whether the inputs of the function move its arguments in directions in which it is not the derivative.
    ignores  Whether its backward returns the same for another cotangent.
    """

    name: str
    verdict: Verdict
    detects: float | Absent = ABSENT
    message: str | Absent = ABSENT
    file: str | Absent = ABSENT
    line: int | Absent = ABSENT
    source: str | Absent = ABSENT
    reached: bool | Absent = ABSENT
    ignores: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Exactness:
    """How exact a gradient in a narrow format is: errors in ulps of each entry, and as a share of what is allowed.

    median_ulps   The median error of an entry, in units in its last place.
    largest_ulps  The largest error of an entry, in units in its last place.
    share         The largest error as a share of what the format allows; above 1 is too inexact.
    vanished      The number of entries that are zero in the format and not in truth.
    ratio         The error over the typical error of the same formula in the format: a root mean square, of the worst input.
    largest_ratio  The same of the entry where it is largest.
    """

    median_ulps: float
    largest_ulps: float
    share: float
    vanished: int = 0
    ratio: float | Absent = ABSENT
    largest_ratio: float | Absent = ABSENT

    def in_words(self, dtype: str) -> str:
        """Return how exact it is, in this format."""
        median, largest = numbers.two_digits(self.median_ulps), numbers.two_digits(self.largest_ulps)
        says = f"off by {median} ulps (median), {largest} at most"
        if isinstance(self.ratio, float) and isinstance(self.largest_ratio, float):
            says += f": {numbers.two_digits(self.ratio)} times the error of the same formula in {dtype}"
            says += f" ({numbers.two_digits(self.largest_ratio)} times in the worst entry)"
        if self.vanished:
            says += f"; {self.vanished:,} entr{'y is' if self.vanished == 1 else 'ies are'} 0 and should not be"
        return says


@dataclass(frozen=True, slots=True)
class GradientCost:
    """What a gradient cost: seconds forward and backward, bytes kept in between, and at most on a GPU.

    forward_seconds   The time of one evaluation, in seconds.
    backward_seconds  The time of the backward pass, in seconds.
    saved_bytes       The memory kept between the two, in bytes.
    peak_bytes        The most memory taken on a GPU, in bytes.
    """

    forward_seconds: float
    backward_seconds: float
    saved_bytes: int
    peak_bytes: int | Absent = ABSENT

    def in_words(self) -> str:
        """Return the times and the memory."""
        forward, backward = map(numbers.write_seconds, (self.forward_seconds, self.backward_seconds))
        peak = f", {numbers.write_bytes(self.peak_bytes)} at the peak" if isinstance(self.peak_bytes, int) else ""
        kept = numbers.write_bytes(self.saved_bytes)
        return f"forward {forward}, backward {backward}; {kept} kept in between{peak}"


@dataclass(frozen=True, slots=True)
class NativeReport:
    """The framework, where and in which format it ran, its other ways to differentiate, and the parts.

    framework  The framework that the function is written in.
    version    The version of the framework.
    device     The device that it ran on, such as cpu or cuda:0.
    dtype      The format whose gradient was checked, such as float32.
    aspects    The framework's other ways to differentiate, each compared with what is right.
    parts      The custom gradients met on the way, each checked alone.
    exactness  How exact the gradient is in a narrow format.
    cost       What the gradient cost.
    declined   The inputs that are numbers, and that a custom backward returns None for: they are not differentiated.
    """

    framework: str
    version: str
    device: str
    dtype: str
    aspects: tuple[Aspect, ...] = ()
    parts: tuple[Part, ...] = ()
    exactness: Exactness | Absent = ABSENT
    cost: GradientCost | Absent = ABSENT
    declined: tuple[str, ...] | Absent = ABSENT

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        blocks: list[Block] = [Paragraph(RanOn(self.framework, self.version, self.device, self.dtype).says())]
        if self.exactness:
            blocks.append(Paragraph(self.exactness.in_words(self.dtype)))
        if self.cost and (self.cost.forward_seconds >= _WORTH or self.device != "cpu"):
            blocks.append(Paragraph(self.cost.in_words()))
        rows = [(aspect.name, aspect_cell(aspect)) for aspect in self.aspects]
        blocks += [Table(("also", ""), rows)] if rows else []
        for part in self.parts:
            name, (word, tone) = f"{part.name} ", _ALONE.get(part.verdict, ("inconclusive", "unsure"))
            says = f" to better than {numbers.write_bound(part.detects)}" if word == "right" and part.detects else ""
            says += f": {part.message}" if part.message else ""
            blocks.append(Paragraph((Piece(name, "strong"), Piece("alone is "), Piece(word, tone), Piece(says))))
            if word != "right" and part.source and part.file:
                blocks.append(Paragraph(Verbatim(f"{part.file}:{part.line}    {part.source}", "dim"), 4))
        return blocks


def aspect_cell(aspect: Aspect) -> Cell:
    """Return how one way to differentiate turned out, in words."""
    says = aspect.status + (f" ({numbers.write_bound(aspect.difference)})" if aspect.difference else "")
    return Piece(says + (f": {aspect.message}" if aspect.message else ""), _TONES.get(aspect.status, "dim"))


def layer_blocks(layers: Sequence[Part], whole: Verdict, word: str) -> list[Block]:
    """Return what people read of the layers of a network, each checked alone, and what follows if all of them are right.

    `word` says what they are.
    """
    if not layers:
        return []
    rows = []
    for part in layers:
        at = f" ({part.file}:{part.line})" if part.file else ""
        if part.verdict == Verdict.PASS:
            better = f" to better than {numbers.write_bound(part.detects)}" if part.detects else ""
            cell = Piece(f"right{better}", "good")
        elif part.verdict == Verdict.FAIL and whole == Verdict.PASS:  # as softmax alone, before its loss, is
            cell = Piece(f"not the derivative of its forward pass{at}; what calls it is right", "unsure")
        elif part.verdict == Verdict.FAIL:
            cell = Piece(f"wrong: {part.message}{at}", "bad")
        else:
            cell = Piece(part.message or "cannot be told", "unsure")
        rows.append((part.name, cell))
    blocks: list[Block] = [Table((f"{word}, from the loss backwards", "alone"), rows)]
    if whole == Verdict.FAIL and not any(part.verdict == Verdict.FAIL for part in layers):
        known = "" if all(part.verdict == Verdict.PASS for part in layers) else ", as far as they were checked"
        blocks.append(Paragraph(f"No {word} is wrong where it is called first{known}: look at what calls them."))
    return blocks


# What a report of `check` says of one point.


@dataclass(frozen=True, slots=True)
class UnresolvedEntries:
    """The entries that function values do not resolve, and that were accepted, as they are small beside the largest.

    count           The number of entries that were not resolved.
    compared        The number of entries that were compared.
    below           The largest error that one of them may have, in units of the gradient.
    at              The entry that may have it, such as `x[3]`.
    told_from_zero  Whether one of them is larger than its bound; else all of them are smaller than `below`.
    """

    count: int
    compared: int
    below: float
    at: str
    told_from_zero: bool

    def in_words(self) -> str:
        """Return it as the end of a sentence: `4 of 40 entries not resolved (below 2e-05)`."""
        which = self.at if self.count == 1 else f"{self.count:,} of {self.compared:,} entries"
        return f"{which} not resolved ({self._limit_in_words()})"

    def alone(self) -> str | None:
        """Return it as an addition to the verdict if it is one entry; None for several."""
        return f"{self.at} not resolved: {self._limit_in_words()}" if self.count == 1 else None

    def _limit_in_words(self) -> str:
        return f"{'errors ' if self.told_from_zero else ''}below {numbers.write_bound(self.below)}"


@dataclass(frozen=True, slots=True)
class Detects:
    """The smallest relative error of an entry that the check would have seen, and the entry where it is largest.

    Entries of 0 have no relative error, and those that were not resolved have none that was seen.

    relative    The smallest relative error that would have been seen in each entry that is not 0 and was resolved; null
                where no error was sure to be seen.
    at          The entry in which only larger errors are seen, such as `x[3]`; null where there is none.
    absolute    The smallest absolute error that would have been seen in the entries that are 0: where all entries are,
                and beside `relative` where function values alone show it.
    unresolved  The entries that function values did not resolve.
    solvers     The solvers that the function calls, with their tolerances, where these set the limit: the claim is then
                as exact as they allow.
    """

    relative: float | None
    at: str | None
    absolute: float | Absent = ABSENT
    unresolved: UnresolvedEntries | Absent = ABSENT
    solvers: tuple[str, ...] | Absent = ABSENT


def as_exact_as(solvers: Sequence[str]) -> str:
    """Say that something is as exact as solvers allow: `as exact as solve_ivp at rtol=1e-8 allows`."""
    return f"as exact as {' and '.join(solvers)} {'allows' if len(solvers) == 1 else 'allow'}"


NO_SIZE = Detects(None, None)  # no error is certain to be seen, or there is no verdict


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One entry of a claim that is wrong.

    input       The input with respect to which the entry is a derivative.
    index       The index of the entry in this input, counted from 0; empty for a number.
    claimed     The claimed value, in units of f per unit of the input.
    reference   The right value, in the same units.
    difference  The claimed value minus the right one, in the same units.
    bound       How far apart the two could be if the claim were right, in the same units.
    ratio       The claimed value divided by the right one.
    output      The index of the output, counted from 0, where the result is no scalar.
    """

    input: str
    index: tuple[int, ...]
    claimed: float
    reference: float
    difference: float
    bound: float
    ratio: float
    output: tuple[int, ...] | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake planted in the gradient under test: in how many entries, each alone, and how many would be caught.

    mistake            The planted mistake, in words.
    planted            The number of entries in which it was planted, one at a time.
    caught             The number of these that the check would have found wrong.
    smallest_in_every  The smallest relative size of the mistake that is caught in every entry; null where there is
                       none.
    smallest_in_any    The smallest relative size that is caught in at least one entry; null where the mistake has no
                       size.
    """

    mistake: str
    planted: int
    caught: int
    smallest_in_every: float | None
    smallest_in_any: float | None

    @property
    def sizeless(self) -> bool:
        """Whether the mistake has no size that could be smaller."""
        return self.smallest_in_any is None


@dataclass(frozen=True, slots=True)
class Entries:
    """How many entries were compared, and how that went.

    compared   The number of entries that were compared.
    wrong      The number of these that are wrong.
    undecided  The number of these of which nothing could be said.
    """

    compared: int
    wrong: int
    undecided: int


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """One edit of a claim's source.

    kind    What is changed: sign, operator, factor, term, exponent, constant, name, function, index, axis, transpose,
            subscripts, sum, order, grouping, comparison, assignment or statement.
    line    The line, counted from 1; 1 for a claim that is an expression.
    before  The text of the line as it is; the whole claim where this is an expression.
    after   The same with the edit; empty where the line is left out.
    """

    kind: str
    line: int
    before: str
    after: str


NOT_RUN = "is not run in search of a repair"  # of a function of the claim, with the reason


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely mistake behind a wrong claim, and the smallest edit of the claim that makes it right.

    kind       The name of the mistake, such as sign, factor or shape; `unknown` where none explains the claim.
    message    The mistake, as a sentence.
    file       The file of the code with the mistake; null where it is not known.
    line       The line of the mistake, counted from 1; null where it is not known.
    source     The text of this line, null where it is not known.
    corrected  What the worst entry should be, or the line as it should be; null where this is not known.
    patch      The edit as a unified diff, with the path relative to the project; null where none was found.
    replacement  The corrected claim, where it is an expression.
    edits      The edits of the patch or the replacement.
    alternatives  Further patches or replacements that are right wherever they were tried.
    no_patch   Why there is no patch or replacement, where one was sought.
    right_here_only  Edits that make the claim right at this point and beside it, and wrong where all inputs are drawn anew or
               have other sizes: they are no repair.
    closed_form  The right gradient by each wrong input as code, where there is no patch or replacement and a closed form
               was found: an expression, or a function in the language of f.
    closed_form_shapes  The sizes that an expression in `closed_form` names, as --shapes takes them.
    layer      The layer of a network that has the mistake; an edit makes this layer right.
    """

    kind: DiagnosisKind
    message: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    corrected: str | None = None
    patch: str | None = None
    replacement: str | Absent = ABSENT
    edits: tuple[SourceEdit, ...] | Absent = ABSENT
    alternatives: tuple[str, ...] | Absent = ABSENT
    no_patch: str | Absent = ABSENT
    right_here_only: tuple[SourceEdit, ...] | Absent = ABSENT
    closed_form: dict[str, str] | Absent = ABSENT
    closed_form_shapes: str | Absent = ABSENT
    layer: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What one mode answered, or why it did not.

    status       Whether the mode answered, and if not, why.
    gradient     The gradient with respect to each input, shaped as the input, for a scalar result.
    jacobian     The Jacobian with respect to each input, indexed [output, input], for a result that is no scalar.
    bound        A bound on the error of each entry by input, shaped as the gradient or Jacobian.
    decimals     The entries as decimal strings by input, where more digits are known than float64 holds.
                 In an expression pi and e are exact; any other number is the float64 that it names.
    proved       Whether the bound is proved, not estimated.
    verdict      Whether the mode agrees with the reference.
    evaluations  The number of evaluations of f that the mode took.
    seconds      The time that the mode took, in seconds.
    rests_on     What the answer depends on; two modes confirm each other only where they share none of it.
    ran_on       Where a framework computed it: the framework, its version, the device and the format.
    message      Why there is no answer, as a sentence.
    hint         What to do to get an answer, null where nothing is known to help.
    """

    status: ModeStatus
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    decimals: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    verdict: Agreement | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    seconds: float | Absent = ABSENT
    rests_on: tuple[str, ...] | Absent = ABSENT
    ran_on: RanOn | Absent = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class TraceTestReport:
    """Whether the recorded program gives the function's values beside the point; None where this could not be compared.

    agrees       Whether the two agree; null where they could not be compared.
    detects      The smallest lost term that would have been seen, relative to all contributions; null where nothing was
                 compared.
    evaluations  The number of evaluations of f that the test took.
    message      Why they could not be compared, as a sentence.
    """

    agrees: bool | None
    detects: float | None
    evaluations: int
    message: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class FewestDigits:
    """The hard point where a value or a gradient keeps the fewest right digits.

    of      What keeps these digits: `value`, the value of f, or the mode that computed the gradient.
    digits  The right digits of the worst entry there, 16 at most.
    at      The value of every input by name.
    """

    of: str
    digits: float
    at: dict[str, Given]


@dataclass(frozen=True, slots=True)
class StressReport:
    """How many hard points were looked at, and what was seen there (--stress).

    points   The number of points that were looked at.
    right    The number of these where the claim is right; it may lose digits there, which a finding says. Without a
             claim: the number where the right value and gradient are known.
    skipped  The number of these where f raises, is not smooth or not finite, or is too costly to know.
    wrong    The number of these where the claim seemed wrong; the check of the simplest one decides.
    fewest   Without a claim: where f, and its gradient by each mode, keep the fewest right digits.
    """

    points: int
    right: int
    skipped: int
    wrong: int
    fewest: tuple[FewestDigits, ...] | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank of a distributed program has.

    rank      The number of the rank, from 0.
    loss      The loss that it returns.
    gradient  What backward leaves on it, by the names of the inputs, shaped as its part of each.
    """

    rank: int
    loss: float
    gradient: dict[str, Values]


@dataclass(frozen=True, slots=True)
class PointReport:
    """One point: the value, every mode, and the verdict.

    at              The value of every input by name.
    drawn           The inputs whose values were drawn at random.
    differentiated  The inputs whose derivatives were compared.
    constant        The inputs with respect to which no derivative is taken.
    value           The value of f at the point, left out where there is none.
    verdict         The verdict at this point.
    reference       The mode that the others are compared with; null where none answered.
    gradient        The gradient of the reference with respect to each input, shaped as the input.
    jacobian        The Jacobian of the reference with respect to each input, indexed [output, input].
    entries         How many entries were compared, and how many are wrong or open.
    mismatches      The wrong entries of the claim, the worst first, at most 1000 of each input.
    modes           What each mode answered, by its name; `claim` is the claimed gradient.
    findings        What is worth knowing of the function, the point and the claim.
    diagnosis       The likely mistake behind a wrong claim; null where nothing is wrong.
    detects         How small an error would have been seen at this point.
    outputs         The names of the outputs, for a result that is no scalar.
    mutants         What became of planted mistakes (--mutate).
    trace_test      Whether the recorded program is the function, compared beside the point.
    not_claimed     The inputs that the claim leaves out.
    name            The name of the point among several of a suite.
    ranks           What each rank of a distributed program has, where several ran it.
    """

    at: dict[str, Given]
    drawn: tuple[str, ...]
    differentiated: tuple[str, ...]
    constant: tuple[str, ...]
    value: Values | Absent
    verdict: Verdict
    reference: str | None
    gradient: dict[str, Values] | Absent
    jacobian: dict[str, Values] | Absent
    entries: Entries
    mismatches: tuple[Mismatch, ...]
    modes: dict[str, ModeResult]
    findings: tuple[Finding, ...]
    diagnosis: Diagnosis | None
    detects: Detects
    outputs: tuple[str, ...] | Absent = ABSENT
    mutants: tuple[Mutant, ...] | Absent = ABSENT
    trace_test: TraceTestReport | Absent = ABSENT
    not_claimed: tuple[str, ...] | Absent = ABSENT
    name: str | Absent = ABSENT
    ranks: tuple[RankReport, ...] | Absent = ABSENT


# Which entries of a gradient are shown: all where they are few, else the largest and the least exact one of each input.

MOST = 8  # entries side by side
WORST_FIRST = "by relative, then by absolute error"  # what the worst entries are ordered by

Entry = tuple[str, tuple[int, ...]]
Gradient = Mapping[str, Values]


def entries_to_show(reference: Gradient, others: Sequence[Gradient]) -> list[Entry]:
    """Return the entries to show of a gradient, `others` being what modes or a claim have for the same one."""
    if count_entries(reference) <= MOST:
        return [(name, at) for name, g in reference.items() for at in np.ndindex(np.shape(g))]
    chosen: list[Entry] = []
    for name, g in reference.items():
        if np.size(g):
            sizes = np.abs(np.nan_to_num(np.asarray(g, dtype=float)))
            found = []  # the worst entry of each, after its digits
            for x in (np.ravel(x[name]) for x in others if name in x):
                k = int(order_worst_first(x, np.ravel(g))[0])
                found.append((float(numbers.count_right_digits(x[k], np.ravel(g)[k])), k))
            least_exact = [k for _, k in sorted(found, key=lambda pair: pair[0])[:1]]
            places = dict.fromkeys((int(np.argmax(sizes)), *least_exact))
            chosen += [(name, tuple(map(int, np.unravel_index(k, np.shape(g))))) for k in places]
    return chosen[:MOST]


def order_worst_first(claimed: Any, right: Any) -> Any:
    """Return the order of the entries of two vectors: by relative error, then by absolute error, the largest first.

    Relative errors that are equal to six digits count as equal: beyond them, rounding would order the entries. An entry
    that is not finite, or where the right one is 0, has an infinite relative error.
    """
    with np.errstate(all="ignore"):
        error = np.nan_to_num(np.abs(np.subtract(claimed, right, dtype=float)), nan=np.inf)
        relative = np.nan_to_num(np.where(error == 0, 0.0, error / np.abs(right)), nan=np.inf, posinf=np.inf)
        unit = 10.0 ** (np.floor(np.log10(np.where((relative > 0) & np.isfinite(relative), relative, 1.0))) - 5)
        relative = np.where(np.isfinite(relative), np.round(relative / unit) * unit, np.inf)
    return np.lexsort((-error, -relative))


def largest_bound(bound: Gradient | Absent) -> float:
    """Return the largest bound of an entry; 0 where none is given."""
    return max((float(np.max(x, initial=0.0)) for x in (bound or {}).values()), default=0.0)


def count_entries(reference: Gradient) -> int:
    """Return how many entries a gradient has."""
    return sum(int(np.size(g)) for g in reference.values())


def title_of_entries(reference: Gradient, entries: Sequence[Entry]) -> str:
    """Return what the entries are, where they are not all."""
    count = count_entries(reference)
    says = f"{len(entries)} of {count:,} entries: the largest and the least exact of each input"
    return says if count > MOST else ""


def derivative_name(entry: Entry, outputs: int, of: Sequence[str]) -> str:
    """Return how a derivative is written: df/dx[0], df[1]/dx[0] for a result with `outputs` axes.

    A second derivative is d2f/dx[0]dy, `of` being the names of the first derivatives.
    """
    name, at = entry
    if of:
        return f"d2f/d{of[at[0]].removeprefix('df/d')}d{numbers.entry_name(name, at[outputs:])}"
    output = f"[{','.join(map(str, at[:outputs]))}]" if outputs else ""
    return f"df{output}/d{numbers.entry_name(name, at[outputs:])}"
