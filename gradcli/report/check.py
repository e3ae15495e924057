"""The report of `check`: what was found at each point, and what it comes to."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NotConfirmed
from gradcli.report import numbers, point_report
from gradcli.report.blocks import (
    WORDS,
    Begins,
    Block,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Headline,
    HeatMap,
    Mathematics,
    Paragraph,
    Piece,
    Table,
    Tone,
    Verbatim,
    Walk,
    shorten_text,
    split_into_pieces,
)
from gradcli.report.common import ABSENT, Absent, Finding, Printed, SourceLine, Target, seed_line
from gradcli.report.encode import TEXT_ONLY, Status, Values
from gradcli.report.numbers import entries_with_index, is_small, norm, write_shape
from gradcli.report.point_report import (
    NOT_RUN,
    Aspect,
    Detects,
    Diagnosis,
    Exactness,
    ModeResult,
    Mutant,
    NativeReport,
    Part,
    PointReport,
    SourceEdit,
    StressReport,
    as_exact_as,
    aspect_cell,
    layer_blocks,
    order_worst_first,
)
from gradcli.report.trace import TraceReport
from gradcli.words import OF_SHAPE, Derivative, DiagnosisKind, Exit, Kind, RanOn, Severity, Verdict, slug

COLUMNS = ("point", "mode", "input", "index", "value", "bound", "mode_verdict", "verdict")  # of the rows of csv
_FIRST = {Severity.ERROR: Kind.FIRST_ORDER, Severity.INCONCLUSIVE: Kind.NOT_A_SUBGRADIENT}  # what says most
LESS_EXACT_WORDS = "right, but less exact than the same formula"
_WORST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
_BOLD = "Bold: the digits that agree with those of the best value."


# What a check found of an implementation beside its reference.


@dataclass(frozen=True, slots=True)
class Comparison:
    """An implementation beside its reference, in circumstances in which kernels go wrong.

    reference  The reference, as it was given.
    rows       How value and gradient compare with those of the reference in each circumstance. The reference's error is the
               typical error of its formula in the same format.
    """

    reference: str
    rows: tuple[Aspect, ...]

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and nothing of it is wrong."""
        states = {row.status for row in self.rows}
        return "agrees" in states and "wrong" not in states

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        rows = [(row.name, aspect_cell(row)) for row in self.rows]
        return [Paragraph(f"Beside {shorten_text(self.reference)}:"), Table(("", ""), rows)]


# Small gradients in full, beside each other.

_WRONG = ' class="bad" mathcolor="#d1443b"'  # a style sheet has another colour


def side_by_side(*matrices: tuple[str, Values, Collection[tuple[int, ...]]]) -> Mathematics:
    """Return matrices in brackets, or vectors as one row, each with its name and the indices of its wrong entries."""
    shown = []
    for name, x, wrong in matrices:
        rows = ""
        for r, row in enumerate(np.atleast_2d(np.asarray(x, dtype=float))):
            cells = ""
            for c, value in enumerate(row):
                look = _WRONG if (r, c)[2 - np.ndim(x) :] in wrong else ""
                cells += f"<mtd><mn{look}>{numbers.few_digits(value, 4)}</mn></mtd>"
            rows += f"<mtr>{cells}</mtr>"
        shown.append(f"<mtext>{name}&#160;</mtext><mrow><mo>[</mo><mtable>{rows}</mtable><mo>]</mo></mrow>")
    text = "; ".join(f"{name} {np.asarray(x).tolist()}" for name, x, _ in matrices)
    inside = '<mspace width="2em"/>'.join(shown)
    return Mathematics(text, mathml=f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{inside}</math>')


# The errors of gradients as matrices, for pictures.

_MARKED = 3  # worst entries of a map that are ringed
_LARGEST = 1_000  # rows or columns of a picture
_FLOOR = 1e-17  # relative error shown for entries that are right to the last bit


def error_maps(
    mode: str,
    values: Mapping[str, Values],
    reference: Mapping[str, Values],
    outputs: int = 0,
    *,
    vectors: bool = False,
    worst: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
) -> list[HeatMap]:
    """Return the relative errors of each matrix of a mode, in powers of ten; absolute ones where the right entry is 0.

    The entries in `worst`, the first ones of each input, are ringed; without it the worst that there are.

    Shapes  gradients that are matrices; Jacobians, whose first `outputs` axes are those of the result, with all outputs
            along the rows and all entries of the input along the columns. With `vectors`, these too, each as a row.
    """
    found = []
    for name, right in reference.items():
        if name not in values or np.shape(values[name]) != np.shape(right):
            continue
        g, own = _as_matrix(right, outputs), _as_matrix(values[name], outputs)
        if vectors and g.ndim == 1:
            g, own = g[None, :], own[None, :]
        if g.ndim != 2 or not g.size or not 1 < max(g.shape) <= _LARGEST:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(own - g) / np.where(g == 0, 1.0, np.abs(g))
        error = np.where(own == g, 0.0, np.where(np.isnan(error), np.inf, error))
        if worst is None:
            ringed = [at for at in order_worst_first(np.ravel(own), np.ravel(g))[:_MARKED] if np.ravel(error)[at] > 0]
        else:
            ringed = [np.ravel_multi_index(at, np.shape(right)) for at in worst.get(name, ())[:_MARKED]]
        marked = tuple(tuple(int(k) for k in np.unravel_index(at, g.shape)) for at in ringed)
        title = f"{mode}: relative error of the entries of {name}, the largest ringed"
        found.append(HeatMap(title, "power of ten", np.log10(np.maximum(error, _FLOOR)), marked))  # type: ignore[arg-type]
    return found


def _as_matrix(x: Values, outputs: int) -> np.ndarray:
    array = np.asarray(x, dtype=float)
    if not outputs or array.ndim == 2:
        return array
    return array.reshape(int(np.prod(array.shape[:outputs])), int(np.prod(array.shape[outputs:])))


# What people read of a point that was checked: blocks, which renderers turn into text.

_ROWS = 3  # of wrong entries, the worst first
_LOOKED_AT = {  # what the derivative is of, where it is not the target itself
    "elementwise derivative": "sum of the entries of {}", "Hessian": "gradient of {}",
    "diagonal of the Hessian": "sum of the entries of the gradient of {}",
    "product H v": "gradient of {} along v", "product J v": "{} along v",
    "product w J": "w . {}",
}  # fmt: skip
_NO_GRADIENT = (Kind.KINK, Kind.JUMP, Kind.INFINITE_SLOPE)  # there modes give a convention
_TONES: dict[str, Tone] = {"agree": "good", "disagree": "bad"}
_SHORT = {"agree": "", "disagree": "  disagrees", "cannot tell": "  cannot tell"}


def _point_blocks(report: "CheckReport", point: PointReport, number: int, opened: bool) -> list[Block]:
    """Return what is known of one point; its wrong entries and their cause are left out where the report `opened` with them."""
    blocks: list[Block] = []
    drawn = f" (drawn, seed {report.seed})"
    place = ", ".join(f"{n} = {numbers.write_value(x)}{drawn if n in point.drawn else ''}" for n, x in point.at.items())
    looked_at = numbers.free_letters(_LOOKED_AT.get(report.derivative, "{}"), point.at).format(report.target.text)
    head = f"f = {looked_at}" + ("" if isinstance(point.value, Absent) else f" = {numbers.write_value(point.value)}")
    if len(report.points) > 1:
        word, tone = WORDS[point.verdict]
        blocks.append(Paragraph((Piece(f"{_name_point(point, number)}  ", "strong"), Piece(word.lower(), tone)), 0))
    blocks += [Paragraph(Verbatim(head)), *([Paragraph(Verbatim(f"at {place}"))] if place else [])]
    blocks += [] if opened else _wrong_entry_blocks(report, point, number)
    blocks += [*_gradient_table(report, point), _modes_table(point)]
    blocks += [Paragraph(result.ran_on.says()) for result in point.modes.values() if isinstance(result.ran_on, RanOn)]
    blocks += [block for f in point.findings for block in _finding_blocks(f)]
    if point.diagnosis is not None and point.diagnosis.kind not in OF_SHAPE and not opened:
        blocks += diagnosis_blocks(point.diagnosis)
    if point.verdict == Verdict.PASS:
        blocks.append(Paragraph(explain_confirmation(point)))
    return blocks + (_mutant_blocks(point.mutants) if point.mutants else [])


def _other_point_blocks(points: Mapping[int, PointReport]) -> list[Block]:
    """Return one line for each of these points: its verdict, how many entries are wrong, and where it is."""
    rows = []
    for number, point in points.items():
        word, tone = WORDS[point.verdict]
        wrong = f", {point.entries.wrong} of {point.entries.compared} wrong" if point.entries.wrong else ""
        short, full = numbers.few_digits, numbers.write_value
        place = ", ".join(f"{n} = {short(x) if isinstance(x, int | float) else full(x)}" for n, x in point.at.items())
        rows.append((_name_point(point, number), Piece(word.lower() + wrong, tone), f"at {place}"))
    return [Table(("", "", ""), rows)] if rows else []


def _name_point(point: PointReport, number: int) -> str:
    name = point.name or str(number + 1)
    return name if name.endswith("point") else f"point {name}"


def _finding_blocks(f: Finding) -> list[Block]:
    tone: Tone = "unsure" if f.severity in (Severity.INCONCLUSIVE, Severity.WARNING) else "plain"
    blocks: list[Block] = [Paragraph((Piece(f"{f.kind}: ", tone), Piece(f.message)))]
    if f.source and f.line is not None:
        beside = f"{f.source}   (line {f.line}, column {f.column})"
        blocks.append(Paragraph(Verbatim(f"{f.file}:{f.line}    {f.source}" if f.file else beside, "dim"), 4))
    return blocks + ([Paragraph(f.hint, 4)] if f.hint else [])


def diagnosis_blocks(d: Diagnosis) -> list[Block]:
    """Return the likely mistake, its line, and the repair."""
    head = "" if d.kind == DiagnosisKind.UNKNOWN else "Likely mistake: "
    blocks: list[Block] = [Paragraph((Piece(head, "strong"), Piece(d.message)))]
    if d.source and d.file:
        blocks.append(Paragraph(Verbatim(f"{d.file}:{d.line}    {d.source}", "dim"), 4))
    blocks += [Paragraph((Piece("corrected: "), Verbatim(d.corrected)), 4)] if d.corrected else []
    return [*blocks, *repair_blocks(d)]


def repair_blocks(d: Diagnosis) -> list[Block]:
    """Show the smallest edit that makes the claim right, or one that does so at this point alone."""
    if isinstance(d.right_here_only, tuple):
        at = [str(e.line) for e in d.right_here_only if e.line > 1]  # an expression is line 1
        line = f" of line {', '.join(at)}" if at else ""
        says = f"This edit{line} makes the claim right at this point, but not at other inputs or sizes"
        head = Paragraph((Piece("Right here only: ", "strong"), Piece(f"{says}; it is no repair:")))
        return [head, Code("\n".join(edit_lines(d.right_here_only)), "diff"), *_closed_form_blocks(d)]
    if isinstance(d.edits, Absent):
        why = d.no_patch if isinstance(d.no_patch, str) and NOT_RUN in d.no_patch else ""
        return [*([Paragraph(f"No edit was tried: {why}")] if why else []), *_closed_form_blocks(d)]
    if closed_form := _closed_form_blocks(d):
        return closed_form
    these, make = ("These edits", "make") if len(d.edits) > 1 else ("This edit", "makes")
    where = "" if isinstance(d.replacement, str) or d.patch is None else f" of {d.patch.split()[1].removeprefix('a/')}"
    where += f", line {', '.join(str(e.line) for e in d.edits)}" if where else ""
    what = d.layer if isinstance(d.layer, str) else "the claim"
    says = f"{these}{where} {make} {what} right here and at the other points that were tried:"
    return [Paragraph((Piece("Repair: ", "strong"), Piece(says))), Code("\n".join(edit_lines(d.edits)), "diff")]


def _closed_form_blocks(d: Diagnosis) -> list[Block]:
    if isinstance(d.closed_form, dict):
        text = "\n\n".join(
            f"# by {name}\n{code}" if "\n" in code else f"{name} = {code}" for name, code in d.closed_form.items()
        )
        sizes = f', with --shapes "{d.closed_form_shapes}"' if isinstance(d.closed_form_shapes, str) else ""
        says = f"The gradient in closed form{sizes}:"
        return [Paragraph((Piece("Right: ", "strong"), Piece(says))), Code(text, "python")]
    return []


def edit_lines(edits: Sequence[SourceEdit]) -> list[str]:
    """Return edits as lines: each line as it is after a minus, and as it should be after a plus."""
    pairs = [(sign, text) for e in edits for sign, text in (("-", e.before), ("+", e.after))]
    return [f"{sign} {line.strip()}" for sign, text in pairs for line in text.splitlines()]


def stress_blocks(stress: StressReport, verdict: Verdict) -> list[Block]:
    """Say how many hard points were looked at, and at how many the claim is right; without a claim, where digits are lost."""
    says = "1 hard point" if stress.points == 1 else f"{stress.points:,} hard points"
    if isinstance(stress.fewest, tuple):
        says += f": the right value and gradient are known at {stress.right:,}"
        says += "" if stress.fewest else "; no digits are lost there but those that the inputs leave open"
    else:
        says += f": the claim is right at {stress.right:,}"
        left = "was" if stress.skipped == 1 else "were"
        says += f"; {stress.skipped:,} {left} left out, where f has no gradient or no value" if stress.skipped else ""
        says += f"; {stress.wrong:,} could not be decided" if stress.wrong and verdict != Verdict.FAIL else ""
    blocks: list[Block] = [Paragraph((Piece("Stress: ", "strong"), Piece(says)))]
    if stress.fewest:
        rows = [
            ("value of f" if x.of == "value" else f"gradient by {x.of}", f"{x.digits:.1f}", numbers.write_point(x.at))
            for x in stress.fewest
        ]
        blocks.append(Table(("", "right digits", "at"), rows))
    return blocks


def _mutant_blocks(mutants: Sequence[Mutant]) -> list[Block]:
    """Show what became of planted mistakes."""
    rows: list[Sequence[Cell]] = []
    for m in mutants:
        if m.sizeless:
            tone: Tone = "good" if m.caught == m.planted else "bad"
            rows.append((m.mistake, Piece(f"caught in {m.caught:,} of {m.planted:,}", tone)))
        else:
            every = "none" if m.smallest_in_every is None else f"{m.smallest_in_every:.0e}"
            rows.append((m.mistake, f"{every} in every entry, {m.smallest_in_any:.0e} in the best"))
    return [Table(("planted mistake", "smallest caught"), rows)]


def _wrong_entry_blocks(report: "CheckReport", point: PointReport, number: int) -> list[Block]:
    """Return a table of the worst entries of a wrong claim, and how many others are wrong or right."""
    if not point.mismatches:
        return []
    rows = []
    for m in point.mismatches[:_ROWS]:
        entry = numbers.entry_name(m.input, m.index, m.output or (), point.outputs or ())
        claimed, right = numbers.write_differing_pair(m.claimed, m.reference)
        rows.append((Verbatim(entry), Piece(claimed, "bad"), right, numbers.write_ratio(m.ratio)))
    title = f"at {_name_point(point, number)}" if len(report.points) > 1 else ""
    order = f"the worst first, {point_report.WORST_FIRST}" if len(rows) > 1 else ""
    columns = ("entry", "claimed", point.reference or "reference", "ratio")
    caption = ": ".join(filter(None, (title, order)))
    blocks: list[Block] = [Table(columns, rows, {1, 2, 3}, caption)]
    left = point.entries.wrong - len(rows)
    agree = point.entries.compared - point.entries.wrong - point.entries.undecided
    if left > 0:
        blocks.append(Paragraph(f"{left} more wrong entr{'y' if left == 1 else 'ies'}"))
    if agree > 0:
        blocks.append(Paragraph(f"{agree} more {'entries agree' if agree > 1 else 'entry agrees'}"))
    return blocks


def _modes_table(point: PointReport) -> Block:
    """Show scalars in full, a column each; arrays by the number of right digits alone."""
    names = point.differentiated
    answered = (result.values for result in point.modes.values() if result.status == "ok")
    reference = point.modes[point.reference].values if point.reference else next(answered, {})
    scalar = _has_entry_columns(point, reference)
    columns = (*(f"df/d{name}" for name in names), "right digits") if scalar else ("right digits", "largest bound")
    rows: list[Sequence[Cell]] = []
    reasons: dict[str, list[str]] = {}  # why modes did not answer: those with the same reason are on one line
    for mode, result in point.modes.items():
        if result.status == "ok":
            rows.append(_mode_row(point, mode, result, reference, scalar))
        else:
            reason = f"{result.status}: {result.message}" if result.message else result.status
            reasons.setdefault(reason, []).append(mode)
    rows += [(", ".join(modes), Piece(reason, "dim")) for reason, modes in reasons.items()]
    return Table(("mode", *columns), rows)


def _gradient_table(report: "CheckReport", point: PointReport) -> list[Block]:
    """Show the reference's gradient, and the claim's, where the table of modes does not show values."""
    reference = point.modes[point.reference].values if point.reference else {}
    if _has_entry_columns(point, reference) or not reference:
        return []
    others = [result.values for result in point.modes.values() if result.status == "ok"]
    entries = point_report.entries_to_show(reference, others)
    axes = 0 if isinstance(point.value, Absent) else np.ndim(point.value)
    rows = []
    for mode in dict.fromkeys(("claim", str(point.reference))):
        if mode in point.modes and (values := point.modes[mode].values):
            known = {n: np.asarray(x) for n, x in values.items()}
            shown = (numbers.few_digits(known[n][at], 8) if n in known else "not claimed" for n, at in entries)
            rows.append((mode, *shown))
    of = (point.outputs or ()) if report.derivative == "Hessian" else ()
    columns = ("", *(point_report.derivative_name(entry, axes, of) for entry in entries))
    return [Table(columns, rows, title=point_report.title_of_entries(reference, entries))]


def _has_entry_columns(point: PointReport, reference: dict[str, Values]) -> bool:
    """Whether the table of modes has a column for each entry."""
    single = isinstance(point.value, Absent) or np.ndim(point.value) == 0
    return single and all(np.ndim(x) == 0 for x in reference.values()) and len(point.differentiated) <= 2


def _mode_row(
    point: PointReport, mode: str, result: ModeResult, reference: dict[str, Values], scalar: bool
) -> tuple[Cell, ...]:
    digits = _right_digits_cell(mode, point, result, reference)
    if not scalar:
        largest = numbers.write_bound(point_report.largest_bound(result.bound))
        return (mode, digits, f"{largest}{' (proved)' if result.proved else ''}")
    cells: list[Cell] = []
    for name in point.differentiated:
        if name not in result.values:
            cells.append(Piece("not claimed", "dim"))
        elif mode == "finite-difference" and isinstance(result.bound, dict):
            cells.append(numbers.write_with_bound(float(result.values[name]), float(result.bound[name])))
        else:
            cells.append(numbers.mark_agreeing_digits(float(result.values[name]), float(reference.get(name, np.nan))))
    return (mode, *cells, digits)


def _right_digits_cell(mode: str, point: PointReport, result: ModeResult, reference: dict[str, Values]) -> Cell:
    verdict = result.verdict if isinstance(result.verdict, str) else "not compared"
    tone = _TONES.get(verdict, "unsure")
    kinds = {f.kind for f in point.findings}
    if verdict == "cannot tell" and not kinds.isdisjoint(_NO_GRADIENT):
        of_claim = "a subgradient" if Kind.SUBGRADIENT in kinds else verdict
        return Piece(of_claim if mode == "claim" else "convention", tone)
    if mode == point.reference and result.proved:
        return Piece(f"{count_proved_digits(result):.0f} (proved)", tone)
    if mode == point.reference:
        return Piece("reference", tone)
    if point.reference is None:
        return Piece(_SHORT.get(verdict, "").strip() or verdict, tone)
    sizes = _digit_scales(point.modes[point.reference])
    both = ((name, x) for name, x in result.values.items() if name in reference)
    found = [numbers.count_right_digits(x, reference[name], sizes[name]) for name, x in both]
    worst = min((float(np.min(d, initial=16.0)) for d in found), default=0.0)
    return Piece(f"{worst:.1f}{_SHORT.get(verdict, '')}", tone)


def _digit_scales(result: ModeResult) -> dict[str, Any]:
    """Return from where digits of an entry count that may be zero, as far as is known: from the largest one; 0 for others."""
    largest = max((float(np.max(np.abs(x), initial=0.0)) for x in result.values.values()), default=0.0)
    bounds = result.bound or {}
    return {name: np.where(np.abs(x) <= bounds.get(name, 0.0), largest, 0.0) for name, x in result.values.items()}


def count_proved_digits(result: ModeResult) -> float:
    """Return how many digits of the worst entry the bound proves."""
    worst, sizes = np.inf, _digit_scales(result)
    for name, x in result.values.items():
        bound = np.asarray((result.bound or {})[name])
        size = np.where(sizes[name] == 0, np.where(np.asarray(x) == 0, 1.0, np.abs(x)), sizes[name])
        with np.errstate(all="ignore"):
            digits = np.where(bound == 0, 99.0, -np.log10(bound / size))
        worst = min(worst, float(np.min(digits, initial=99.0)))
    return worst


def explain_confirmation(point: PointReport) -> str:
    """Return which modes confirmed the gradient and what they rest on."""
    agreeing = {name: result for name, result in point.modes.items() if result.verdict == "agree"}
    rests_on = {name: result.rests_on or () for name, result in agreeing.items()}
    values = [name for name, on in rests_on.items() if on == ("function values",)]
    rules = [name for name, on in rests_on.items() if "rules" in on and "function values" not in on]
    calls = sum(int(r.evaluations or 0) for r in point.modes.values())
    count = f"{calls} {'evaluation' if calls == 1 else 'evaluations'} of f by the modes."
    if values and "claim" in agreeing and any(f.kind == Kind.UNTRACED for f in point.findings):
        return f"Confirmed by function values alone ({', '.join(values)}). {count}"
    if any(f.kind == Kind.COVERAGE for f in point.findings):
        return "Confirmed by projections of function values alone, within the limits above."
    if any(result.proved is True for result in agreeing.values()) and not (values and rules):
        return f"Certified by rules, and by function values along a random direction. {count}"
    if not values or not rules:
        return count
    both = f"by function values ({', '.join(values)}) and by rules ({', '.join(rules)})"
    return f"Confirmed {both}, which are independent. {count}"


# The report of a check, and what all of its forms are made of.


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Printed):
    """Everything `gradcli check` found for one target.

    target       What was checked.
    claim        The claimed gradient as it was given; null where there is none, and gradcli's own is checked.
    seed         The seed of everything that was drawn.
    command      The words of the command that repeats this check.
    exit_status  The exit status of this check.
    verdict      The verdict over all points.
    detects      How small an error would have been seen at every point.
    points       What was found at each point, in the order in which they were checked.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    derivative   Which derivative was checked.
    line         The line of standard input that asked for this check, counted from 1.
    native       What was found of a function that is written in a framework.
    id           The name of this check among several.
    claimed_at   The line of the code that defines the claimed gradient.
    stress       How many hard points were looked at (--stress).
    comparison   How an implementation compares with its reference (--reference).
    headline     The verdict as it is printed, where it has a limit: `PASS (a subgradient at a kink)`.
    on           The set that each input is assumed to lie on, by name; derivatives are along these sets (--assume).
    layers       The layers that an object of one's own holds, each checked alone, in the order of the backward pass.
    """

    target: Target
    claim: str | None
    seed: int
    command: tuple[str, ...]
    exit_status: Status
    verdict: Verdict
    detects: Detects
    points: tuple[PointReport, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.check/3"
    derivative: Derivative = "gradient"
    line: int | Absent = ABSENT
    native: NativeReport | Absent = ABSENT
    id: str | Absent = ABSENT
    claimed_at: SourceLine | Absent = ABSENT
    stress: StressReport | Absent = ABSENT
    comparison: Comparison | Absent = ABSENT
    headline: str | Absent = ABSENT
    on: dict[str, str] | Absent = ABSENT
    layers: tuple[Part, ...] | Absent = ABSENT
    full: bool = field(default=False, metadata={TEXT_ONLY: True})  # every point in full, not the worst one alone
    # the computation at the worst point, or why it is not drawn; for pages, where it is made when it is needed
    walk: Callable[[], TraceReport | str] | None = field(
        default=None, compare=False, repr=False, metadata={TEXT_ONLY: True}
    )

    def __post_init__(self) -> None:
        word = self._verdict_word()
        object.__setattr__(self, "headline", word if "(" in word else ABSENT)

    @property
    def passed(self) -> bool:
        """Whether every gradient was confirmed, by the modes that were named too."""
        return self.verdict == Verdict.PASS and self.exit_status != Exit.UNUSABLE

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self, allow: Sequence[str] = ()) -> None:
        """Raise NotConfirmed unless every gradient was confirmed, or every reason against it is in `allow`."""
        open_ = {f.kind for point in self.points for f in point.findings if f.severity == Severity.INCONCLUSIVE}
        if self.passed or (self.verdict == Verdict.INCONCLUSIVE and open_ and open_ <= set(map(slug, allow))):
            return
        found = [point.diagnosis.message for point in self.points if point.diagnosis]
        said = f"{WORDS[self.verdict][0]}  {self.sentence()}" + "".join(f"; {mistake}" for mistake in found[:1])
        raise NotConfirmed(said, self)

    def blocks(self) -> tuple[Block, ...]:
        """Return what people read: the verdict, its cause, then what lets them believe it, then what to do."""
        worst = worst_point(self)
        failed = self.verdict == Verdict.FAIL
        blocks: list[Block] = [*self.opening()]
        layers = layer_blocks(self.layers or (), self.verdict, self._part_name)
        if failed:
            blocks += self._cause_blocks() + layers
            if at := self.claimed_at:
                where = Verbatim(f"{at.file}:{at.line}    {at.source}", "dim")
                blocks += [Paragraph("The claim is defined here:"), Paragraph(where, 4)]
        for number, point in enumerate(self.points):
            if self.full or number == worst:
                blocks += _point_blocks(self, point, number, opened=failed and number == worst)
        if not self.full:
            blocks += _other_point_blocks({k: point for k, point in enumerate(self.points) if k != worst})
        blocks += self.native.blocks() if self.native else []
        blocks += [] if failed else layers
        blocks += self.comparison.blocks() if self.comparison else []
        blocks += stress_blocks(self.stress, self.verdict) if self.stress else []
        kind = self.decisive()
        blocks += [Paragraph((Piece("More: "), Verbatim(f"gradcli explain {kind}")))] if kind else []
        blocks += [Paragraph("Again:"), Code(quote_command(self.command))] if self.command else seed_line(self.seed)
        return (*blocks, *self._closing_line())

    def headed_blocks(self) -> tuple[Block, ...]:
        """Return what people read, below a heading with the verdict."""
        return (Heading((Verbatim(shorten_text(self.target.text)), Piece(f": {self._verdict_word()}"))), *self.blocks())

    def opening(self) -> tuple[Block, ...]:
        """Return what is printed as soon as the verdict is decided: the verdict, and the worst entries of a wrong claim."""
        tone: Tone = "bad" if self.exit_status == Exit.UNUSABLE else WORDS[self.verdict][1]
        says = (Verbatim(shorten_text(self.target.text)), Piece(f": {self.sentence()}"))
        headline = Headline(self._verdict_word(), tone, says)
        if self.verdict != Verdict.FAIL:
            return (headline,)
        worst = worst_point(self)
        return (headline, *_wrong_entry_blocks(self, self.points[worst], worst))

    def _cause_blocks(self) -> list[Block]:
        """Return the likely mistake at the worst point, and the repair; a wrong shape is said in the headline."""
        diagnosis = self.points[worst_point(self)].diagnosis
        if diagnosis is None:
            return []
        return repair_blocks(diagnosis) if diagnosis.kind in OF_SHAPE else diagnosis_blocks(diagnosis)

    def _closing_line(self) -> list[Block]:
        """Return a last line that repeats the verdict on a wrong claim, with the cause."""
        if self.verdict != Verdict.FAIL:
            return []
        diagnosis = self.points[worst_point(self)].diagnosis
        word, tone = WORDS[self.verdict]
        unknown = diagnosis is None or diagnosis.kind == DiagnosisKind.UNKNOWN
        says = self.sentence() if diagnosis is None or unknown else diagnosis.message
        return [Paragraph((Piece(f"{word}  ", tone), Verbatim(shorten_text(self.target.text)), Piece(f": {says}")))]

    def parts(self) -> tuple[Part, ...]:
        """Return what was checked alone: custom gradients inside a framework's function, or the layers of an object."""
        return self.native.parts if self.native else self.layers or ()

    def first_wrong_layer(self) -> Part | None:
        """Return the wrong layer that the backward pass meets first, a layer within another before that one."""
        wrong = [part for part in self.layers or () if part.verdict == Verdict.FAIL]
        path = {part.name: part.name.rpartition(" (")[0] for part in wrong}
        holds_another = {a for a in path for b in path.values() if b.startswith((f"{path[a]}.", f"{path[a]}["))}
        return next((part for part in wrong if part.name not in holds_another), None)

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the verdict, its cause and the worst entries, the computation with what the claim makes of it, maps of wrong
        gradients, and all that the text has.
        """
        first, *entries = self.opening()
        mistake, ending = self._cause_blocks(), self._closing_line()
        walk = None if self.walk is None else self.walk()
        drawn: list[Block | Figure] = []
        if walk is not None:
            begins: Begins = "mistake" if self.verdict == Verdict.FAIL else "end"
            drawn.append(Paragraph(walk) if isinstance(walk, str) else Walk(walk, begins))
        left: list[Block] = []
        for block in self.blocks():
            if block not in (first, *entries, *mistake, *ending):
                cells = [cell for row in block.rows for cell in row] if isinstance(block, Table) else []
                bold = any(piece.tone == "strong" for cell in cells for piece in split_into_pieces(cell))
                left += [block, *[Paragraph(Piece(_BOLD, "dim"))] * bold]
        rest = Folded("The whole report", tuple(left), opened=self.verdict == Verdict.INCONCLUSIVE)
        return (first, *mistake, *entries, *self._small_matrices(), *drawn, *self._gradient_maps(), rest)

    def wrong_gradients(self) -> Iterator[Block | HeatMap]:
        """Yield what the claim has and what is right, beside each other: in full where it is small, else as maps."""
        yield from self._small_matrices()
        yield from self._gradient_maps()

    def _small_matrices(self) -> list[Block]:
        """Return a wrong gradient by a small array in full, and the right one beside it; wrong entries are red."""
        point = self.points[worst_point(self)]
        found: list[Block] = []
        for name in dict.fromkeys(m.input for m in point.mismatches) if point.reference else ():
            claimed, right = (point.modes[mode].values.get(name) for mode in ("claim", point.reference or ""))
            if claimed is not None and right is not None and is_small(right) and np.shape(claimed) == np.shape(right):
                wrong = {(*(m.output or ()), *m.index) for m in point.mismatches if m.input == name}
                both = side_by_side((f"df/d{name}, claimed", claimed, wrong), ("right", right, set()))
                found.append(Paragraph((both,)))
        return found

    def _gradient_maps(self) -> Iterator[Block | HeatMap]:
        """Yield for each wrong gradient at the worst point that is not small: what is claimed, what is right, and the errors."""
        point = self.points[worst_point(self)]
        if "claim" not in point.modes or point.reference is None:
            return
        outputs = 0 if isinstance(point.value, Absent) else int(np.ndim(point.value))
        claimed, right = (point.modes[mode].values for mode in ("claim", point.reference))
        for name in dict.fromkeys(m.input for m in point.mismatches if m.input in right):
            if is_small(right[name]):
                continue
            worst = [(*(m.output or ()), *m.index) for m in point.mismatches if m.input == name]
            of_name = {name: right[name]}
            for errors in error_maps("claim", claimed, of_name, outputs, vectors=True, worst={name: worst}):
                own, g = (np.atleast_2d(_as_matrix(x[name], outputs)) for x in (claimed, right))
                sizes = (numbers.few_digits(norm(x)) for x in (own, g))
                says = "df/d{} has the shape {}; its norm is {} as claimed, and {} where it is right."
                yield Paragraph(says.format(name, write_shape(np.shape(right[name])), *sizes), 0)
                yield HeatMap(f"df/d{name}, claimed", "", own, errors.marked, beside=g)
                yield HeatMap(f"df/d{name}, right", "", g, beside=own)
                yield errors

    def gist(self) -> str:
        """Return the verdict, the target and the sentence that says why."""
        return f"{self._verdict_word()}: {shorten_text(self.target.text)}: {self.sentence()}"

    def _verdict_word(self) -> str:
        """Return the verdict as it is printed; that of a pass with what it holds for: subgradients, what was left out."""
        if self.exit_status == Exit.UNUSABLE:
            return "ERROR"
        word, entries = WORDS[self.verdict][0], self.detects.unresolved
        left = (self.points[0].not_claimed or ()) if self.points else ()
        declined = (self.native.declined or ()) if self.native else ()
        single = entries.alone() if entries else None
        limits = [f"{', '.join(left)} not checked"] * bool(left)
        limits += [f"{', '.join(declined)} not differentiated"] * bool(declined)
        limits += [single] if single else []
        found = [f for point in self.points for f in point.findings]
        limits += list(dict.fromkeys(f.message for f in found if f.kind == Kind.APPROXIMATION))
        limits += ["a subgradient at a kink"] * any(f.kind == Kind.SUBGRADIENT for f in found)
        return f"{word} ({'; '.join(limits)})" if limits and self.passed else word

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every entry of every mode at every point as a row."""
        rows: list[tuple[object, ...]] = []
        for number, point in enumerate(self.points):
            for mode, result in point.modes.items():
                for name, x in result.values.items():
                    bounds = np.broadcast_to((result.bound or {})[name], np.shape(x))
                    for (index, g), (_, b) in zip(entries_with_index(x), entries_with_index(bounds), strict=True):
                        rows.append((number, mode, name, index, g, b, result.verdict or "", point.verdict))
        return COLUMNS, rows

    def sentence(self) -> str:
        """Return the verdict in words, or which of the modes that were named is not installed."""
        findings = [f for point in self.points for f in point.findings]
        missing = [f"{f.message} ({f.hint})" if f.hint else f.message for f in findings if f.kind == Kind.UNAVAILABLE]
        if self.exit_status == Exit.UNUSABLE and missing:
            return "; ".join(dict.fromkeys(missing))
        if self.verdict == Verdict.FAIL:
            for point in self.points:
                if point.diagnosis and point.diagnosis.kind in OF_SHAPE:
                    return point.diagnosis.message
            wrong = sum(point.entries.wrong for point in self.points)
            compared = sum(point.entries.compared for point in self.points)
            whose = self._name_gradient()
            also = self._findings_of_severity(Severity.ERROR)
            if also and (not wrong or also[0].kind == Kind.FIRST_ORDER):
                return also[0].message
            if not wrong:
                return f"{whose} is contradicted"
            least = "at least " if any(f.kind == Kind.COVERAGE for f in findings) else ""
            entries = f"{least}{wrong} of {compared} entr{'y' if compared == 1 else 'ies'}"
            said = f"{whose} is wrong in {entries}{self._sets_suffix()}"
            layer = self.first_wrong_layer()
            is_first = f"is the first wrong {self._part_name}"
            return said if layer is None else f"{said}; from the loss backwards, {layer.name} {is_first}"
        if self.verdict == Verdict.INCONCLUSIVE:
            found = self._findings_of_severity(Severity.INCONCLUSIVE)
            said = found[0].message if found else "the modes cannot tell"
            return f"{said}; accepted (--allow)" if self.exit_status == 0 else said
        better = f" {self.limit()}" if self.limit() else ""
        if self.claim is not None and (exactness := self.exactness()):
            return f"{self._name_gradient()} is right, {exactness}"
        if self.comparison and self.comparison.agrees:
            return f"value and gradient are those of {shorten_text(self.comparison.reference)}{better}{self._format_suffix()}"
        if self.claim is not None:
            lost = any(f.kind == Kind.INACCURATE for f in findings) and self.detects.relative is None
            better = " up to its own rounding" if lost and not better else better
            return f"{self._name_gradient()} is right{better}{self._format_suffix()}{self._sets_suffix()}"
        option = {"Jacobian": "jac", "Hessian": "hess"}.get(self.derivative, "grad")
        option = "value-and-grad" if any(f.kind == Kind.VALUE_AND_GRADIENT for f in findings) else option
        unchecked = f"none of yours was checked (--{option})"
        return f"gradcli's own {self.derivative} is right{better}{self._sets_suffix()}; {unchecked}"

    def decisive(self) -> DiagnosisKind | Kind | None:
        """Return the kind of the diagnosis or finding that the verdict is about; None if the check succeeded."""
        if self.exit_status == Exit.CONFIRMED:
            return None
        if self.exit_status == Exit.UNUSABLE:
            return Kind.UNAVAILABLE
        for point in self.points:
            if point.diagnosis is not None and point.verdict == self.verdict:
                return point.diagnosis.kind
        findings = self._findings_of_severity(Severity.ERROR if self.verdict == Verdict.FAIL else Severity.INCONCLUSIVE)
        return findings[0].kind if findings else None

    def _findings_of_severity(self, severity: Severity) -> list[Finding]:
        """Return the findings of a severity at all points, the most important first."""
        found = [f for point in self.points for f in point.findings if f.severity == severity]
        return sorted(found, key=lambda f: f.kind != _FIRST.get(severity))

    def exactness(self) -> str:
        """Say how exact a right claim in a narrow format is as a whole, where its limit does not hold for every entry."""
        if not self.native or self.native.dtype == "float64" or self.verdict != Verdict.PASS:
            return ""
        off = max((worst_error(point) for point in self.points), default=0.0)
        said = (f for point in self.points for f in point.findings if f.kind == Kind.INACCURATE)
        less = any(f.message.startswith(LESS_EXACT_WORDS) for f in said)
        if not less and (not isinstance(self.detects.relative, float) or off <= self.detects.relative):
            return ""
        found = self.native.exactness
        if not isinstance(found, Exactness):
            worst = f"worst entry {numbers.two_digits(100 * off)} % from a difference"
            return f"as far as function values show in {self.native.dtype} ({worst})"
        ratio, largest = found.ratio or 1.0, found.largest_ratio or 1.0
        plain = f"the plain formula in {self.native.dtype} (worst entry {numbers.two_digits(100 * off)} % off)"
        if not less:
            return f"about as exact as {plain}"
        return f"{numbers.two_digits(ratio if ratio > 2.0 else largest)} times less exact than {plain}"

    def limit(self) -> str:
        """Return how far a gradient that is right could be off."""
        entries = self.detects.unresolved
        if entries and entries.alone() is not None:
            return limit_in_words(replace(self.detects, unresolved=ABSENT))  # the verdict names the entry
        return limit_in_words(self.detects)

    def short(self) -> str:
        """Return why it did not pass, without the name of what was checked."""
        wrong, compared = (sum(getattr(p.entries, word) for p in self.points) for word in ("wrong", "compared"))
        if self.verdict == Verdict.FAIL and wrong and self.sentence().endswith(("entry", "entries")):
            return f"{wrong:,} of {compared:,} entr{'y' if compared == 1 else 'ies'} wrong"
        return self.sentence()

    @property
    def _runs_on_ranks(self) -> bool:
        return any(point.ranks for point in self.points)

    @property
    def _part_name(self) -> str:
        """What is checked alone, in a word."""
        return "custom function" if self._runs_on_ranks else "layer"

    def _name_gradient(self) -> str:
        if self.native or self._runs_on_ranks:
            return str(self.claim)
        names = {name for point in self.points for name in point.at}
        whose = "the claimed" if self.claim is not None else "gradcli's own"
        return f"{whose} {numbers.free_letters(self.derivative, names)}"

    def _format_suffix(self) -> str:
        """Say in which format a gradient is right, where that is not float64."""
        return f" in {self.native.dtype}" if self.native and self.native.dtype != "float64" else ""

    def _sets_suffix(self) -> str:
        """Say on which sets a gradient is right or wrong, where inputs are assumed to lie on some."""
        sets = self.on or {}
        words = [f"{name} ({of})" if len(sets) > 1 else name for of, name in sets.items()]
        return f" on {' and '.join(words)}" if words else ""


def worst_error(point: PointReport) -> float:
    """Return the largest error of an entry of the claim, relative to this entry of the reference, where that is not 0."""
    claim, right = point.modes.get("claim"), point.modes.get(point.reference or "")
    if claim is None or right is None:
        return 0.0
    worst = 0.0
    for name, x in claim.values.items():
        y = np.asarray(right.values.get(name, x), dtype=float)
        off = np.abs(np.asarray(x, dtype=float) - y)
        worst = max(worst, float(np.max(off[y != 0] / np.abs(y[y != 0]), initial=0.0)))
    return worst


def worst_point(report: CheckReport) -> int:
    """Return the number of the first point with the verdict on the whole check."""
    return min(range(len(report.points)), key=lambda k: _WORST.index(report.points[k].verdict))


def limit_in_words(detects: Detects) -> str:
    """Return how far a gradient that is right could be off: relative to the entries, absolute where they are 0."""
    said = ""
    absolute = numbers.write_bound(detects.absolute) if isinstance(detects.absolute, float) else ""
    if detects.relative is not None:
        said = f"to better than {numbers.write_bound(detects.relative)}"
        said += f", {as_exact_as(detects.solvers)}" if detects.solvers else ""
        said += f"; entries of 0 to within {absolute} (absolute)" if absolute else ""
    elif absolute:
        said = f"to within {absolute} (absolute: every entry is 0)"
    return f"{said}; {detects.unresolved.in_words()}" if said and detects.unresolved else said


def file_and_line(report: CheckReport) -> list[tuple[str, int | None]]:
    """Return the file and the line to be changed, if they are known: of the edit that makes a claim right, else of the claim.

    A custom gradient inside f is the claim where it is wrong. The lines of f are named only where nothing but f is the
    user's: a framework's gradient, or gradcli's own, was checked.
    """
    diagnoses = [p.diagnosis for p in report.points if p.diagnosis is not None]
    found: list[Diagnosis | Finding | SourceLine | Part] = [d for d in diagnoses if not isinstance(d.edits, Absent)]
    layer = report.first_wrong_layer()
    found += [] if layer is None else [layer]
    found += [report.claimed_at] if report.claimed_at else []
    found += [part for part in report.native.parts if part.verdict == Verdict.FAIL] if report.native else []
    if report.claim is None or report.native:
        found += [*diagnoses, *(f for point in report.points for f in point.findings)]
    named = ((x.file, x.line if isinstance(x.line, int) else None) for x in found if isinstance(x.file, str))
    return [*named][:1]


def rewrite_hints(report: CheckReport, written: Callable[[str], str]) -> CheckReport:
    """Return the report with each hint of its findings as `written` returns it."""
    points = []
    for point in report.points:
        findings = (f if f.hint is None else replace(f, hint=written(f.hint)) for f in point.findings)
        points.append(replace(point, findings=tuple(findings)))
    return replace(report, points=tuple(points))


def likely_cause(report: CheckReport) -> str:
    """Return why a check did not pass, in one line: the likely mistake, else how many entries are wrong."""
    diagnoses = (point.diagnosis for point in report.points if point.diagnosis is not None)
    known = [d.message for d in diagnoses if d.kind != DiagnosisKind.UNKNOWN]
    return known[0] if known else report.short()


def line_to_change(report: CheckReport) -> str:
    """Return the file and the line to be changed, `losses.py:12`; an empty text where they are not known."""
    return next((f"{file}:{line}" for file, line in file_and_line(report) if line is not None), "")


def explain_verdict(report: CheckReport) -> str:
    """Return the verdict in words, the mistakes that explain a wrong claim, and the edits that make it right, line by line."""
    diagnoses = [p.diagnosis for p in report.points if p.diagnosis is not None]
    said = "; ".join(dict.fromkeys([report.sentence(), *(d.message for d in diagnoses)]))
    return "\n".join([said, *(line for d in diagnoses for line in edit_lines(d.edits or ()))])


def quote_command(command: tuple[str, ...]) -> str:
    """Return a command as one would type it."""
    import shlex

    return " ".join(shlex.quote(word) for word in command)
