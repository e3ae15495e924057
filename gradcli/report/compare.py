"""The reports of `compare-modes`, every mode side by side, and of `grad`, the gradient alone."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Context, Decimal
from typing import Literal

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers, point_report
from gradcli.report.blocks import (
    WORDS,
    Bars,
    Block,
    Cell,
    Code,
    Figure,
    Heading,
    Headline,
    Paragraph,
    Picture,
    Piece,
    Table,
    Tone,
    Verbatim,
    shorten_text,
)
from gradcli.report.check import error_maps
from gradcli.report.common import ABSENT, Absent, Finding, Printed, Target, seed_line
from gradcli.report.encode import Given, Status, Values, encode
from gradcli.report.numbers import entries_with_index
from gradcli.words import Derivative, Exit, Kind, ModeStatus, RanOn, Verdict

# What a report of `compare-modes` says of each mode, format, scheme and batch.

EXACT = 99.0  # digits of a reference whose bound is zero


@dataclass(frozen=True, slots=True)
class RightDigits:
    """How many digits are right, in the worst and in the median entry.

    worst     The right decimal digits of the worst entry; 99 where it is exact.
    median    The right decimal digits of the median entry; 99 where it is exact.
    at_least  Whether the true figures may be larger, because the reference is known to no more.
    """

    worst: float
    median: float
    at_least: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class ModeRow:
    """What one mode answered and what it cost. Units: seconds, evaluations and operations of f, sweeps, bytes.

    status           Whether the mode answered, and if not, why.
    gradient         The gradient with respect to each input, shaped as the input, for a scalar result.
    jacobian         The Jacobian with respect to each input, indexed [output, input], for a result that is no scalar.
    right_digits     The decimal digits in which it agrees with the reference.
    bound            A bound on the error of each entry by input, shaped as the gradient or Jacobian.
    proved           Whether the bound is proved, not estimated.
    bound_held       Whether the difference from the reference lies within the bound.
    reference        Whether the others are compared with this mode; left out where they are not.
    evaluations      The number of evaluations of f.
    recomputed       The number of these that a checkpointed function runs again.
    sweeps           The number of sweeps: back for each output, or forward for each entry of the inputs.
    operations       The number of scalar operations, null where they cannot be counted.
    additions        The number of additions, subtractions and comparisons.
    multiplications  The number of multiplications and divisions.
    transcendental   The number of evaluations of transcendental functions, square roots among them.
    formula          The number of operations of the derivative written out as a formula.
    formula_shared   The same number with common subexpressions named.
    seconds          The time of one gradient, in seconds.
    relative_time    The same time in evaluations of f.
    peak_bytes       The memory held at the peak of one run, in bytes; null where it was not measured.
    ran_on           Where a framework computed it: the framework, its version, the device and the format.
    message          Why there is no answer, as a sentence.
    hint             What to do to get an answer, null where nothing is known to help.
    """

    status: ModeStatus
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    right_digits: RightDigits | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    bound_held: bool | Absent = ABSENT
    reference: bool | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    recomputed: int | Absent = ABSENT
    sweeps: int | Absent = ABSENT
    operations: int | Absent | None = ABSENT
    additions: int | Absent = ABSENT
    multiplications: int | Absent = ABSENT
    transcendental: int | Absent = ABSENT
    formula: int | Absent = ABSENT
    formula_shared: int | Absent = ABSENT
    seconds: float | Absent = ABSENT
    relative_time: float | Absent = ABSENT
    peak_bytes: int | Absent | None = ABSENT
    ran_on: RanOn | Absent = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class SchemeSummary:
    """One difference scheme along one direction: what was observed and what theory predicts. h in units of the inputs' size.

    scheme           The name of the difference scheme.
    order            The observed power of h with which the error falls; null where it follows none.
    best_h           The step of the least error, in units of the inputs' size.
    relative_error   The relative error at this step, the median of three neighbouring steps.
    digits           The right decimal digits at this step.
    predicted_h      The best step by theory, in units of the inputs' size; null where nothing is predicted.
    predicted_error  The relative error there by theory; null where nothing is predicted.
    """

    scheme: str
    order: float | None
    best_h: float
    relative_error: float
    digits: float
    predicted_h: float | None
    predicted_error: float | None


@dataclass(frozen=True, slots=True)
class Precision:
    """A gradient in low precision. Units: ulps of that precision; entries; events of the whole reverse sweep.

    dtype               The format that the gradient was computed in.
    ulps_worst          The error of the worst entry, in units in the last place of the format.
    ulps_median         The error of the median entry, in the same units.
    zeros               The number of entries that are 0 in the format and not in truth.
    not_finite          The number of entries that are infinite or nan in the format.
    underflows          The number of operations of the reverse sweep that underflowed to 0.
    subnormals          The number of operations of the reverse sweep with a subnormal result.
    overflows           The number of operations of the reverse sweep that overflowed.
    loss_scale          The power of two that the loss was scaled by; null where it was not scaled.
    restored            The number of entries that are finite and not 0 with the scaled loss.
    scaled_ulps_worst   The error of the worst entry with the scaled loss, in units in the last place.
    scaled_ulps_median  The error of the median entry with the scaled loss, in the same units.
    scaled_overflows    The number of operations that overflowed with the scaled loss.
    scaled_not_finite   The number of entries that are infinite or nan with the scaled loss.
    """

    dtype: str
    ulps_worst: float
    ulps_median: float
    zeros: int
    not_finite: int
    underflows: int
    subnormals: int
    overflows: int
    loss_scale: int | None = None
    restored: int | None = None
    scaled_ulps_worst: float | None = None
    scaled_ulps_median: float | None = None
    scaled_overflows: int | None = None
    scaled_not_finite: int | None = None


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Gradients of micro-batches against that of the full batch: differences relative to its largest entry.

    count         The number of micro-batches.
    inputs        The inputs that were split along their first axis.
    batch         The number of rows of the full batch.
    how           Which of their gradients' mean and sum is that of the full batch; null where neither is.
    mean_differs  The largest difference of the mean, relative to the largest entry of the full gradient.
    sum_differs   The largest difference of the sum, relative to the same entry.
    uneven        Whether the micro-batches have different numbers of rows, by which the mean is weighted then.
    spread        How far the gradient of one micro-batch is from that of the full batch, root mean square, in its norms; null
                  where the mean of them is not that of the full batch.
    """

    count: int
    inputs: tuple[str, ...]
    batch: int
    how: Literal["mean", "sum"] | None
    mean_differs: float
    sum_differs: float
    uneven: bool
    spread: float | None = None

    def says(self) -> str:
        """Return the finding in a sentence."""
        whole = f"{self.count} micro-batches of {', '.join(self.inputs)} ({self.batch} rows)"
        weighted = "mean, weighted by their rows," if self.uneven else "mean"
        if not np.isfinite(self.mean_differs):
            return f"{whole}: a gradient is not finite, so there is nothing to compare"
        if self.how is None:
            return (
                f"{whole}: neither the {weighted} ({self.mean_differs:.1e} off) nor the sum ({self.sum_differs:.1e} off) "
                "of their gradients is that of the full batch: the loss mixes rows (batch statistics, a norm over rows)"
            )
        if self.how == "mean":
            which, differs, other, off = weighted, self.mean_differs, "their sum", self.sum_differs
        else:
            which, differs, other, off = "sum", self.sum_differs, "their mean", self.mean_differs
        right = f"the {which} of their gradients is that of the full batch to {differs:.1e} (rounding)"
        said = f"{whole}: {right}; {other} is off by {off:.2g} {'times' if off >= 1 else 'of'} the largest entry"
        if self.spread is None:
            return said
        return f"{said}. One of them alone is off by {self.spread:.2g} of its norm, root mean square"


@dataclass(frozen=True, slots=True)
class Product:
    """One way to a product H v. Units: evaluations of the gradient, seconds, time in those of one gradient.

    name           How the product is computed.
    evaluations    The number of evaluations of the gradient.
    seconds        The time of one product, in seconds.
    relative_time  The same time in evaluations of the gradient.
    digits         The right decimal digits of the worst entry; null where they are not known.
    at_least       Whether the true figure may be larger, because the Hessian is known to no more.
    """

    name: str
    evaluations: int
    seconds: float
    relative_time: float
    digits: float | None
    at_least: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True, repr=False)
class CompareReport(Printed):
    """All modes at one point, and error against step size.

    target        What was differentiated.
    at            The value of every input by name.
    drawn         The inputs whose values were drawn at random.
    seed          The seed of everything that was drawn.
    value         The value of f at the point.
    f_seconds     The time of one evaluation of f, in seconds.
    reference     The mode that the others are compared with; null where none answered.
    modes         What each mode answered and what it cost, by its name; `claim` is the claimed gradient.
    sweep         A summary of error against step size (--steps), one entry for each difference scheme.
    findings      What is worth knowing of the function and the point.
    exit_status   The exit status of this command.
    environment   The versions of what the result depends on, by name, and the number of threads.
    verdict       The verdict on the claim, as `check` gives it.
    message       The verdict as a sentence.
    function      What was differentiated, where it is not the target itself but its gradient or a product.
    columns       The names of the columns that the text shows.
    precision     The gradient in formats of low precision, one entry for each (--dtype).
    accumulation  Gradients of micro-batches against that of the full batch (--accumulate).
    products      The ways to a product of the Hessian with a vector (--order 2).
    derivative    Which derivative was compared.
    outputs       The names of the outputs, for a result that is no scalar.
    no_sweep      Why error against step size is left out, as a sentence.
    schema        The name of this schema, with its number.
    line          The line of standard input that asked for it, counted from 1.
    """

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    seed: int
    value: Values
    f_seconds: float
    reference: str | None
    modes: dict[str, ModeRow]
    sweep: tuple[SchemeSummary, ...]
    findings: tuple[Finding, ...]
    exit_status: Status
    environment: dict[str, str | int]
    verdict: Verdict | Absent = ABSENT
    message: str | Absent = ABSENT
    function: str | Absent = ABSENT
    columns: tuple[str, ...] | Absent = ABSENT
    precision: tuple[Precision, ...] | Absent = ABSENT
    accumulation: Accumulation | Absent = ABSENT
    products: tuple[Product, ...] | Absent = ABSENT
    derivative: Derivative = "gradient"
    outputs: tuple[str, ...] | Absent = ABSENT
    no_sweep: str | Absent = ABSENT  # why there is no error against step size
    schema: str = "gradcli.compare-modes/4"
    line: int | Absent = ABSENT

    def blocks(self) -> tuple[Block, ...]:
        """Return the verdict on a claim, the value, the gradients, the costs, and what they say."""
        found: list[Block] = []
        ok = {mode: row for mode, row in self.modes.items() if row.status == "ok"}
        digits = {mode: row.right_digits.worst for mode, row in ok.items() if row.right_digits}
        if isinstance(self.verdict, Verdict) and isinstance(self.message, str):
            says = (Verbatim(shorten_text(self.target.text)), Piece(f": {self.message}"))
            found.append(Headline(*_verdict_word(self), says))
        elif len(digits) > 1:
            ends = (min(digits, key=digits.__getitem__), max(digits, key=digits.__getitem__))
            least, most = (f"{_digits_cell(ok[mode], 'worst')} ({mode})" for mode in ends)
            summary = f"{len(ok)} modes answer; right digits of the worst entry: {least} to {most}."
            found.append(Paragraph((Piece(summary, "strong"),), 0))
        place = numbers.write_point(self.at, self.drawn)
        found.append(Paragraph(f"{self.function or f'f = {self.target.text}'} = {numbers.write_value(self.value)}", 0))
        found += [Paragraph(f"at {place}", 0)] if place else []
        found += [_gradient_table(self), *_cost_blocks(self)]
        found += [Paragraph(where.says()) for where in _runs_on_frameworks(self)]
        found += [Paragraph(said) for said in _cost_sentences(self)]
        for f in self.findings:
            install = f": {f.hint}" if f.kind == Kind.UNAVAILABLE else ""
            found.append(Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message + install))))
        if self.products:
            rows = []
            for p in self.products:
                shown = "" if p.digits is None else _write_digits(p.digits, p.at_least)
                rows.append((p.name, shown, str(p.evaluations), numbers.two_digits(p.relative_time)))
            found.append(Table(("one product H v", "digits", "gradients", "time, in gradients"), rows, {1, 2, 3}))
        found += _precision_blocks(self.precision) if self.precision else []
        if self.accumulation:
            found.append(Paragraph(f"{self.accumulation.says()}."))
        if self.sweep:
            found += _sweep_blocks(self.sweep)
        elif isinstance(self.no_sweep, str):
            found.append(Paragraph(f"Error against step size is not shown: {self.no_sweep} (gradcli sweep shows it)."))
        return (*found, *seed_line(self.seed))

    def gist(self) -> str:
        """Return the verdict on a claim, the target, and the least and the most digits of the modes that answered."""
        verdict = f"{_verdict_word(self)[0]}: " if isinstance(self.verdict, Verdict) else ""
        answered = [row for row in self.modes.values() if row.status == "ok"]
        digits = [row.right_digits.worst for row in answered if row.right_digits]
        said = f", {_write_digits(min(digits))} to {_write_digits(max(digits))} right digits" if digits else ""
        return f"{verdict}{shorten_text(self.target.text)}: {len(answered)} modes{said}"

    def pictures(self) -> tuple[Picture, ...]:
        """Return bars of digits and cost, and the errors of matrices as heat maps."""
        ok = {mode: row for mode, row in self.modes.items() if row.status == "ok"}
        digits = tuple((mode, row.right_digits.worst) for mode, row in ok.items() if row.right_digits)
        costs = tuple((mode, float(row.relative_time or 0.0)) for mode, row in ok.items())
        found: list[Picture] = [
            Bars("right digits of the worst entry", "digits", digits),
            Bars("time of a gradient", "evaluations of f", costs, log=True),
        ]
        for mode, row in ok.items():
            if mode != self.reference:
                found += error_maps(mode, row.values, _right_values(self), int(np.ndim(self.value)))
        if self.precision:
            ulps = tuple((p.dtype, p.ulps_worst) for p in self.precision)
            found.append(Bars("worst error of a gradient in low precision", "ulps of that precision", ulps, log=True))
        return tuple(found)

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the text, and the pictures below it."""
        return (*self.blocks(), Heading("Charts"), *self.pictures())

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every entry of every mode as a row."""
        rows: list[tuple[object, ...]] = []
        for mode, row in self.modes.items():
            for name, x in row.values.items():
                bounds = entries_with_index((row.bound or {})[name])
                both = zip(entries_with_index(x), bounds, strict=True)
                rows += [(mode, name, index, g, b) for (index, g), (_, b) in both]
        return ("mode", "input", "index", "value", "bound"), rows


def _verdict_word(report: CompareReport) -> tuple[str, Tone]:
    """Return the verdict on a claim as it is printed; ERROR where a mode that was named is not installed."""
    assert isinstance(report.verdict, Verdict)
    return ("ERROR", "bad") if report.exit_status == Exit.UNUSABLE else WORDS[report.verdict]


def _right_values(report: CompareReport) -> dict[str, Values]:
    """Return the values that those of the modes are compared with."""
    return report.modes[report.reference].values if report.reference else {}


def _gradient_table(report: CompareReport) -> Table:
    reference = _right_values(report)
    ok = {mode: row.values for mode, row in report.modes.items() if row.status == "ok"}
    entries = point_report.entries_to_show(reference, [*ok.values()])
    of = (report.outputs or ()) if report.derivative == "Hessian" else ()
    columns = ("mode", *(point_report.derivative_name(entry, np.ndim(report.value), of) for entry in entries))

    def write_entry(values: dict[str, Values], name: str, at: tuple[int, ...]) -> Cell:
        if name not in values:
            return Piece("not claimed", "dim")
        return numbers.mark_agreeing_digits(*(float(np.asarray(x[name])[at]) for x in (values, reference)))

    rows = [(mode, *(write_entry(values, *entry) for entry in entries)) for mode, values in ok.items()]
    return Table(columns, rows, title=point_report.title_of_entries(reference, entries))


def _digits_cell(row: ModeRow, which: Literal["worst", "median"]) -> str:
    found = row.right_digits
    return _write_digits(getattr(found, which), found.at_least) if found else "-"


def _write_digits(digits: float, at_least: bool | Absent = ABSENT) -> str:
    if digits >= EXACT:
        return "exact"
    return f"{'>=' if at_least is True else ''}{digits:.1f}"


def _bound_held_cell(row: ModeRow) -> Cell:
    if row.proved and not isinstance(row.bound_held, Absent):
        return Piece("proved", "good")
    if isinstance(row.bound_held, Absent):
        return Piece("reference" if row.reference else "-", "dim")
    return Piece("yes", "good") if row.bound_held else Piece("NO", "bad")


COLUMNS: dict[str, tuple[Callable[[ModeRow], Cell], str]] = {
    "digits": (lambda row: _digits_cell(row, "worst"), "right in the worst entry"),
    "median": (lambda row: _digits_cell(row, "median"), "right in the median entry"),
    "bound": (lambda row: numbers.write_bound(point_report.largest_bound(row.bound)), "the mode's own error bound"),
    "held": (_bound_held_cell, "whether the error lies within it"),
    "calls": (lambda row: numbers.two_digits(row.evaluations or 0), "evaluations of f"),
    "time/f": (lambda row: numbers.two_digits(row.relative_time or 0.0), "time in evaluations of f"),
    "seconds": (lambda row: numbers.write_if_known(row.seconds, numbers.write_seconds), "time"),
    "ops": (lambda row: numbers.write_if_known(row.operations, numbers.two_digits), "scalar operations"),
    "adds": (lambda row: numbers.write_if_known(row.additions, numbers.two_digits), "additions"),
    "mults": (lambda row: numbers.write_if_known(row.multiplications, numbers.two_digits), "multiplications"),
    "fn": (lambda row: numbers.write_if_known(row.transcendental, numbers.two_digits), "transcendental functions"),
    "memory": (lambda row: numbers.write_if_known(row.peak_bytes, numbers.write_bytes), "held at the peak of one run"),
    "sweeps": (
        lambda row: numbers.write_if_known(row.sweeps, numbers.two_digits),
        "sweeps back for each output, or forward for each input entry",
    ),
    "device": (lambda row: row.ran_on.device if isinstance(row.ran_on, RanOn) else "cpu", "what it ran on"),
}
_DIGITS = 25  # of a float64 that are shown
_DECIMAL = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
USUAL = ("digits", "median", "bound", "held", "calls", "time/f")
OF_JACOBIANS = ("digits", "median", "bound", "held", "calls", "sweeps", "time/f")
COST = ("digits", "calls", "time/f", "adds", "mults", "fn", "memory")


def _runs_on_frameworks(report: CompareReport) -> list[RanOn]:
    return [row.ran_on for row in report.modes.values() if isinstance(row.ran_on, RanOn)]


def _cost_blocks(report: CompareReport) -> list[Block]:
    """Return the columns that were asked for, or the usual ones, with the device if a framework ran on one; and what they are."""
    usual = OF_JACOBIANS if np.ndim(report.value) else USUAL
    columns = report.columns or (*usual, *(["device"] if _runs_on_frameworks(report) else []))
    rows: list[Sequence[Cell]] = []
    for mode, row in report.modes.items():
        if row.status != "ok":
            rows.append((mode, Piece(f"{row.status}: {row.message}" if row.message else row.status, "dim")))
        else:
            rows.append((mode, *(COLUMNS[name][0](row) for name in columns)))
    right = [k for k, name in enumerate(columns, 1) if name not in ("held", "device")]
    says = "; ".join(f"{name}: {COLUMNS[name][1]}" for name in columns)
    says = says.replace(" of f", " of the gradient") if report.derivative == "Hessian" else says
    return [Table(("mode", *columns), rows, right), Paragraph((Piece(says, "dim"),))]


def _cost_sentences(report: CompareReport) -> list[str]:
    """Return what one sweep buys, what the shape of a Jacobian decides, and how large the formula is."""
    lines = []
    ok = {name: row for name, row in report.modes.items() if row.status == "ok"}
    entries = sum(int(np.size(x)) for row in list(ok.values())[:1] for x in row.values.values())
    outputs = int(np.size(report.value))
    unit = "gradients" if report.derivative == "Hessian" else "f"
    reverse, forward, differences = (ok.get(name) for name in ("reverse", "forward", "finite-difference"))
    if np.ndim(report.value) and (reverse or forward):
        n = entries // max(1, outputs)
        rows, columns = numbers.write_count(outputs, "reverse sweep"), numbers.write_count(n, "forward one")
        ways = ((reverse, f"by rows it takes {rows}"), (forward, f"by columns {columns}"))
        said = ", ".join(f"{way} ({_relative_time(row)} {unit})" for row, way in ways if row)
        if reverse and forward and reverse.operations and forward.operations:
            said += f": {'rows' if reverse.operations <= forward.operations else 'columns'} take fewer operations here"
        lines.append(f"The {report.derivative} is {outputs:,} by {n:,}: {said}.")
    elif reverse and entries > 1:
        named_rows = (("differences", differences), ("forward", forward))
        others = [f"{name} {numbers.two_digits(row.evaluations or 0)}" for name, row in named_rows if row]
        needs = f"; evaluations needed: {', '.join(others)}" if others else ""
        again = "" if isinstance(reverse.recomputed, Absent) else ", what it recomputes included,"
        buys = f"for {numbers.two_digits(entries)} derivatives{needs}"
        lines.append(f"One reverse sweep costs {_relative_time(reverse)} evaluations of f{again} {buys}.")
    inexact = _DECIMAL.findall(report.target.text) if report.target.kind == "expression" else []
    named = next((word for word in inexact if Decimal(word) != Decimal(float(word))), None)
    if "certified" in ok and named is not None:
        exact = Decimal(float(named))
        shown = Context(prec=_DIGITS, rounding=ROUND_DOWN).plus(exact)
        digits = f"{shown}{'' if shown == exact else '...'}"
        lines.append(f"Certified digits are those of the float64 that a number names: {named} is {digits}")
    symbolic = ok.get("symbolic")
    if symbolic and isinstance(symbolic.formula, int):
        count, shared = numbers.write_count(symbolic.formula, "operation"), symbolic.formula_shared
        program = f", {numbers.two_digits(reverse.operations)} as a program" if reverse and reverse.operations else ""
        named = f"{numbers.write_if_known(shared, '{:,}'.format)} with common subexpressions named{program}"
        lines.append(f"The derivative as a formula has {count}, {named}.")
    return lines


def _relative_time(row: ModeRow) -> str:
    return numbers.two_digits(row.relative_time or 0.0)


def _precision_blocks(found: tuple[Precision, ...]) -> list[Block]:
    """Return the errors in each format, what a scaled loss changes, and why entries are zero though nothing underflowed."""
    columns = ("gradient in", "ulps worst", "median", "lost as 0", "underflow", "overflow", "not finite")
    rows, says = [], []
    for p in found:
        ulps = (numbers.two_digits(p.ulps_worst), numbers.two_digits(p.ulps_median))
        rows.append((p.dtype, *ulps, *(f"{n:,}" for n in (p.zeros, p.underflows, p.overflows, p.not_finite))))
        if p.loss_scale is not None:
            restored, infinite = p.restored or 0, p.scaled_not_finite or 0
            worst, median = numbers.two_digits(p.scaled_ulps_worst), numbers.two_digits(p.scaled_ulps_median)
            left = f", {numbers.write_count(infinite, 'entry')} {_is_or_are(infinite)} not finite" if infinite else ""
            says.append(
                f"{p.dtype} with the loss scaled by 2^{p.loss_scale}: {restored:,} of {p.zeros:,} lost entries "
                f"{_is_or_are(restored)} restored, the worst is {worst} ulps off (median {median}), "
                f"{numbers.write_count(p.scaled_overflows or 0, 'overflow')}{left}."
            )
        if p.zeros and not p.underflows:
            cause = "lost to saturation or cancellation (1 - y where y rounds to 1)"
            if p.overflows:
                cause = f"0 after {numbers.write_count(p.overflows, 'overflow')} (1 / inf is 0)"
            lost = f"{numbers.write_count(p.zeros, 'entry')} {_is_or_are(p.zeros)} 0 although nothing underflowed"
            says.append(f"{p.dtype}: {lost}: a slope is {cause}, which no loss scale restores.")
    return [Table(columns, rows, range(1, len(columns))), *map(Paragraph, says)]


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def _sweep_blocks(sweep: tuple[SchemeSummary, ...]) -> list[Block]:
    """Return each scheme with its best step, observed and predicted, and which is best."""
    rows = []
    for s in sweep:
        order = "-" if s.order is None else f"{s.order:.2f}"
        observed = (numbers.few_digits(s.best_h, 2), numbers.few_digits(s.relative_error, 2), f"{s.digits:.1f}")
        predicted = ("-" if x is None else numbers.few_digits(x, 2) for x in (s.predicted_h, s.predicted_error))
        rows.append((s.scheme, order, *observed, *predicted))
    columns = ("scheme", "order", "best h", "error", "digits", "predicted h", "error")
    title = "error against step size (gradcli sweep shows all of it)"
    best = max(sweep, key=lambda s: s.digits)
    reached = f"{best.digits:.1f} digits at h = {numbers.few_digits(best.best_h, 2)}"
    says = f"{best.scheme.capitalize()} is best: {reached} of the inputs' size."
    if best.digits < 1:
        says = "No step gives a right digit: gradcli sweep says why."
    return [Table(columns, rows, range(1, 7), title), Paragraph(says)]


# The report of `grad`: the gradient alone.


@dataclass(frozen=True, slots=True)
class GradReport:
    """The gradient by the reverse mode, at one point.

    target       What was differentiated.
    at           The value of every input by name.
    drawn        The inputs whose values were drawn at random.
    seed         The seed of everything that was drawn.
    value        The value of f at the point.
    gradient     The gradient with respect to each input, shaped as the input, for a scalar result.
    jacobian     The Jacobian with respect to each input, indexed [output, input], for a result that is no scalar.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    exit_status  The exit status of this command.
    line         The line of standard input that asked for it, counted from 1.
    bound        The bound of rounding of each entry, shaped as the gradient; digits beyond it are left out of the gradient.
    notes        What the gradient does not tell, in sentences: digits lost in rounding, values that are not finite, kinks.
    """

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    seed: int
    value: Values
    gradient: dict[str, Values] | Absent
    jacobian: dict[str, Values] | Absent
    environment: dict[str, str | int]
    schema: str = "gradcli.grad/1"
    exit_status: Status = 0
    line: int | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    notes: tuple[str, ...] = ()

    def blocks(self) -> tuple[Block, ...]:
        """Return one line for each input, with the digits that rounding leaves; a point that was drawn is a line too."""
        found = self.gradient or self.jacobian or {}
        lines = [f"df/d{name} = {json.dumps(encode(g))}" for name, g in found.items()]
        if self.drawn:
            drawn = dict.fromkeys(self.drawn, " (drawn)")
            values = [f"{n} = {json.dumps(encode(x))}{drawn.get(n, '')}" for n, x in self.at.items()]
            at = f"at {', '.join(values)}"
            beside = len(lines) == 1 and not any(map(np.ndim, self.at.values()))
            lines = [f"{lines[0]}  {at}"] if beside else [*lines, at]
        return (*(Code(line, "text") for line in lines), *seed_line(self.seed, 0))

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the entries as rows, with the value of the input, and whether it was drawn."""
        found = self.gradient or self.jacobian or {}
        rows: list[tuple[object, ...]] = []
        for name, g in found.items():
            drawn = str(name in self.drawn).lower()
            # of a Jacobian, the entries of the input go round once for each output
            values = itertools.cycle(x for _, x in entries_with_index(self.at[name]))
            rows += [(name, index, dx, x, drawn) for (index, dx), x in zip(entries_with_index(g), values, strict=False)]
        return ("input", "index", "gradient", "at", "drawn"), rows
