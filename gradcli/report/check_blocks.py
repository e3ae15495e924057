"""What people read of a point that was checked: blocks, which renderers turn into text."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gradcli.report import numbers, point_report
from gradcli.report.blocks import WORDS, Block, Cell, Code, Paragraph, Piece, Table, Tone
from gradcli.report.common import Absent, Finding, Target
from gradcli.report.encode import Given, Values
from gradcli.report.point_report import (
    Diagnosis,
    FewestDigits,
    ModeResult,
    Mutant,
    PointReport,
    SourceEdit,
    StressReport,
)
from gradcli.words import OF_SHAPE, Derivative, DiagnosisKind, Kind, RanOn, Severity, Verdict

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


class Checked(Protocol):
    """What the blocks of a point show of the whole report."""

    @property
    def target(self) -> Target: ...

    @property
    def seed(self) -> int: ...

    @property
    def derivative(self) -> Derivative: ...

    @property
    def points(self) -> tuple[PointReport, ...]: ...


def wrong_entries(report: Checked, point: PointReport, number: int) -> list[Block]:
    """Return a table of the worst entries of a wrong claim, and how many others are wrong or right."""
    return (
        _mismatch_blocks(point, f"at {_called(point, number)}" if len(report.points) > 1 else "")
        if point.mismatches
        else []
    )


def point_blocks(report: Checked, point: PointReport, number: int, opened: bool = False) -> list[Block]:
    """Return what is known of one point; its wrong entries and their cause are left out where the report `opened` with them."""
    blocks: list[Block] = []
    place = ", ".join(f"{name} = {_at(point, name, report.seed)}" for name in point.at)
    looked_at = _LOOKED_AT.get(report.derivative, "{}").format(report.target.text)
    head = f"f = {looked_at}" + ("" if isinstance(point.value, Absent) else f" = {numbers.value(point.value)}")
    at = f"at {place}" if place else ""
    if len(report.points) > 1:
        word, tone = WORDS[point.verdict]
        blocks.append(Paragraph((Piece(f"{_called(point, number)}  ", "strong"), Piece(word.lower(), tone)), 0))
    blocks += [Paragraph(head), *([Paragraph(at)] if at else [])]
    blocks += [] if opened else wrong_entries(report, point, number)
    blocks += [*_gradient_table(report, point), _modes_table(point)]
    blocks += [Paragraph(result.ran_on.says()) for result in point.modes.values() if isinstance(result.ran_on, RanOn)]
    blocks += [block for f in point.findings for block in _finding_blocks(f)]
    if point.diagnosis is not None and point.diagnosis.kind not in OF_SHAPE and not opened:
        blocks += diagnosis_blocks(point.diagnosis)
    if point.verdict == Verdict.PASS:
        blocks.append(Paragraph(confirmed_by(point)))
    return blocks + (_mutant_blocks(point.mutants) if point.mutants else [])


def other_points(report: Checked, numbers_of: Sequence[int]) -> list[Block]:
    """Return one line for each of these points: its verdict, how many entries are wrong, and where it is."""
    rows: list[tuple[Cell, ...]] = []
    for number in numbers_of:
        point = report.points[number]
        word, tone = WORDS[point.verdict]
        wrong = f", {point.entries.wrong} of {point.entries.compared} wrong" if point.entries.wrong else ""
        place = ", ".join(f"{name} = {_briefly(x)}" for name, x in point.at.items())
        rows.append((_called(point, number), Piece(word.lower() + wrong, tone), f"at {place}"))
    return [Table(("", "", ""), tuple(rows))] if rows else []


def _called(point: PointReport, number: int) -> str:
    name = point.name or str(number + 1)
    return name if name.endswith("point") else f"point {name}"


def _briefly(x: Given) -> str:
    return numbers.short(x) if isinstance(x, int | float) and np.ndim(x) == 0 else numbers.value(x)


def _at(point: PointReport, name: str, seed: int) -> str:
    shown = numbers.value(point.at[name])
    return f"{shown} (drawn, seed {seed})" if name in point.drawn else shown


def _finding_blocks(f: Finding) -> list[Block]:
    tone: Tone = "unsure" if f.severity in (Severity.INCONCLUSIVE, Severity.WARNING) else "plain"
    blocks: list[Block] = [Paragraph((Piece(f"{f.kind}: ", tone), Piece(f.message)))]
    if f.source and f.line is not None and f.file:
        blocks.append(Paragraph(Piece(f"{f.file}:{f.line}    {f.source}", "dim"), 4))
    elif f.source and f.line is not None:
        blocks.append(Paragraph(Piece(f"{f.source}   (line {f.line}, column {f.column})", "dim"), 4))
    if f.hint:
        blocks.append(Paragraph(f.hint, 4))
    return blocks


def diagnosis_blocks(d: Diagnosis) -> list[Block]:
    """Return the likely mistake, its line, and the repair."""
    head = "" if d.kind == DiagnosisKind.UNKNOWN else "Likely mistake: "
    blocks: list[Block] = [Paragraph((Piece(head, "strong"), Piece(d.message)))]
    if d.source and d.file:
        blocks.append(Paragraph(Piece(f"{d.file}:{d.line}    {d.source}", "dim"), 4))
    blocks += [Paragraph(f"corrected: {d.corrected}", 4)] if d.corrected else []
    return [*blocks, *repair_blocks(d)]


def repair_blocks(d: Diagnosis) -> list[Block]:
    """Show the smallest edit that makes the claim right, or one that does so at this point alone."""
    if isinstance(d.right_here_only, tuple):
        at = [str(e.line) for e in d.right_here_only if e.line > 1]  # an expression is line 1
        where = f" of line {', '.join(at)}" if at else ""
        says = (
            f"This edit{where} makes the claim right at this point, but not at other inputs or sizes; it is no repair:"
        )
        blocks: list[Block] = [Paragraph((Piece("Right here only: ", "strong"), Piece(says)))]
        return [*blocks, Code("\n".join(edit_lines(d.right_here_only)), "diff"), *_closed_form_blocks(d)]
    return _closed_form_blocks(d) or _edit_blocks(d)


def _closed_form_blocks(d: Diagnosis) -> list[Block]:
    if isinstance(d.closed_form, dict):
        text = "\n\n".join(
            f"# by {name}\n{code}" if "\n" in code else f"{name} = {code}" for name, code in d.closed_form.items()
        )
        sizes = f', with --shapes "{d.closed_form_shapes}"' if isinstance(d.closed_form_shapes, str) else ""
        says = f"The gradient in closed form{sizes}:"
        return [Paragraph((Piece("Right: ", "strong"), Piece(says))), Code(text, "python")]
    return []


def _edit_blocks(d: Diagnosis) -> list[Block]:
    if isinstance(d.edits, Absent):
        return []
    these, make = ("These edits", "make") if len(d.edits) > 1 else ("This edit", "makes")
    where = "" if isinstance(d.replacement, str) or d.patch is None else f" of {d.patch.split()[1].removeprefix('a/')}"
    at = f"{where}, line {', '.join(str(e.line) for e in d.edits)}" if where else ""
    says = f"{these}{at} {make} the claim right here and at the other points that were tried:"
    return [Paragraph((Piece("Repair: ", "strong"), Piece(says))), Code("\n".join(edit_lines(d.edits)), "diff")]


def edit_lines(edits: Sequence[SourceEdit]) -> list[str]:
    """Return edits as lines: each line as it is after a minus, and as it should be after a plus."""
    pairs = [(sign, text) for e in edits for sign, text in (("-", e.before), ("+", e.after))]
    return [f"{sign} {line.strip()}" for sign, text in pairs for line in text.splitlines()]


def stress_blocks(stress: StressReport, verdict: Verdict) -> list[Block]:
    """Say how many hard points were looked at, and at how many the claim is right; without a claim, where digits are lost."""
    if isinstance(stress.fewest, tuple):
        return _fewest_blocks(stress, stress.fewest)
    says = f"{stress.points:,} hard points: the claim is right at {stress.right:,}"
    says += f"; {stress.skipped:,} were left out, where f has no gradient or no value" if stress.skipped else ""
    open_ = stress.wrong if verdict != Verdict.FAIL else 0
    says += f"; {open_:,} could not be decided" if open_ else ""
    return [Paragraph((Piece("Stress: ", "strong"), Piece(says)))]


def _fewest_blocks(stress: StressReport, fewest: Sequence[FewestDigits]) -> list[Block]:
    says = f"{stress.points:,} hard points: the right value and gradient are known at {stress.right:,}"
    says += "" if fewest else "; no digits are lost there but those that the inputs leave open"
    blocks: list[Block] = [Paragraph((Piece("Stress: ", "strong"), Piece(says)))]
    if fewest:
        rows: list[tuple[Cell, ...]] = []
        for x in fewest:
            what = "value of f" if x.of == "value" else f"gradient by {x.of}"
            rows.append((what, f"{x.digits:.1f}", numbers.at_values(x.at)))
        blocks.append(Table(("", "right digits", "at"), tuple(rows)))
    return blocks


def _mutant_blocks(mutants: Sequence[Mutant]) -> list[Block]:
    """Show what became of planted mistakes."""
    rows: list[tuple[Cell, ...]] = []
    for m in mutants:
        if m.sizeless:
            tone: Tone = "good" if m.caught == m.planted else "bad"
            rows.append((m.mistake, Piece(f"caught in {m.caught:,} of {m.planted:,}", tone)))
        else:
            every = (
                "none in every entry" if m.smallest_in_every is None else f"{m.smallest_in_every:.0e} in every entry"
            )
            rows.append((m.mistake, f"{every}, {m.smallest_in_any:.0e} in the best"))
    return [Table(("planted mistake", "smallest caught"), tuple(rows))]


def _mismatch_blocks(point: PointReport, title: str) -> list[Block]:
    rows: list[tuple[Cell, ...]] = []
    for m in point.mismatches[:_ROWS]:
        output = m.output if isinstance(m.output, tuple) else ()
        entry = numbers.entry_name(m.input, m.index, output, point.outputs or ())
        claimed, right = numbers.apart(m.claimed, m.reference)
        rows.append((entry, Piece(claimed, "bad"), right, numbers.ratio(m.ratio)))
    order = f"the worst first, {point_report.WORST_FIRST}" if len(rows) > 1 else ""
    columns = ("entry", "claimed", point.reference or "reference", "ratio")
    caption = ": ".join(filter(None, (title, order)))
    blocks: list[Block] = [Table(columns, tuple(rows), frozenset({1, 2, 3}), caption)]
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
    scalar = _in_full(point, reference)
    columns = (
        ("mode", *(f"df/d{name}" for name in names), "right digits")
        if scalar
        else ("mode", "right digits", "largest bound")
    )
    rows = [
        _mode_row(point, mode, result, reference, scalar)
        for mode, result in point.modes.items()
        if result.status == "ok"
    ]
    return Table(columns, (*rows, *_silent_rows(point)))


def _gradient_table(report: Checked, point: PointReport) -> list[Block]:
    """Show the reference's gradient, and the claim's, where the table of modes does not show values."""
    reference = point.modes[point.reference].values if point.reference else {}
    if _in_full(point, reference) or not reference:
        return []
    others = [result.values for result in point.modes.values() if result.status == "ok"]
    entries = point_report.shown(reference, others)
    axes = 0 if isinstance(point.value, Absent) else np.ndim(point.value)
    rows: list[tuple[Cell, ...]] = []
    for mode in dict.fromkeys(("claim", str(point.reference))):
        values = point.modes[mode].values if mode in point.modes else {}
        cells = [numbers.short(np.asarray(values[n])[at], 8) if n in values else "not claimed" for n, at in entries]
        rows += [(mode, *cells)] if values else []
    of = (point.outputs or ()) if report.derivative == "Hessian" else ()
    columns = ("", *(point_report.named(entry, axes, of) for entry in entries))
    return [Table(columns, tuple(rows), title=point_report.title(reference, entries))]


def _in_full(point: PointReport, reference: dict[str, Values]) -> bool:
    """Whether the table of modes has a column for each entry."""
    single = isinstance(point.value, Absent) or np.ndim(point.value) == 0
    return single and all(np.ndim(x) == 0 for x in reference.values()) and len(point.differentiated) <= 2


def _silent_rows(point: PointReport) -> list[tuple[Cell, ...]]:
    """Return the modes that did not answer, those with the same reason on one line."""
    reasons: dict[str, list[str]] = {}
    for mode, result in point.modes.items():
        if result.status != "ok":
            reasons.setdefault(f"{result.status}: {result.message}" if result.message else result.status, []).append(
                mode
            )
    return [(", ".join(modes), Piece(reason, "dim")) for reason, modes in reasons.items()]


def _mode_row(
    point: PointReport, mode: str, result: ModeResult, reference: dict[str, Values], scalar: bool
) -> tuple[Cell, ...]:
    digits = _digits(mode, point, result, reference)
    if not scalar:
        largest = max((float(np.max(b, initial=0.0)) for b in (result.bound or {}).values()), default=0.0)
        return (mode, digits, f"{numbers.power(largest)}{' (proved)' if result.proved else ''}")
    cells: list[Cell] = []
    for name in point.differentiated:
        if name not in result.values:
            cells.append(Piece("not claimed", "dim"))
        elif mode == "finite-difference" and isinstance(result.bound, dict):
            cells.append(numbers.within(float(result.values[name]), float(result.bound[name])))
        else:
            cells.append(numbers.compared(float(result.values[name]), float(reference.get(name, np.nan))))
    return (mode, *cells, digits)


def _digits(mode: str, point: PointReport, result: ModeResult, reference: dict[str, Values]) -> Cell:
    verdict = result.verdict if isinstance(result.verdict, str) else "agree"
    tone = _TONES.get(verdict, "unsure")
    if verdict == "cannot tell" and any(f.kind in _NO_GRADIENT for f in point.findings):
        return Piece(_at_a_kink(mode, point), tone)
    if mode == point.reference and result.proved:
        return Piece(f"{proved_digits(result):.0f} (proved)", tone)
    if mode == point.reference:
        return Piece("reference", tone)
    if point.reference is None:
        return Piece(_SHORT[verdict].strip() or verdict, tone)
    sizes = _sizes(point.modes[point.reference])
    found = [
        numbers.right_digits(x, reference[name], sizes[name]) for name, x in result.values.items() if name in reference
    ]
    worst = min((float(np.min(d, initial=16.0)) for d in found), default=0.0)
    return Piece(f"{worst:.1f}{_SHORT[verdict]}", tone)


def _at_a_kink(mode: str, point: PointReport) -> str:
    """Return what the value of a mode is where f has no gradient."""
    if mode != "claim":
        return "convention"
    return "a subgradient" if any(f.kind == Kind.SUBGRADIENT for f in point.findings) else "cannot tell"


def _sizes(result: ModeResult) -> dict[str, Any]:
    """Return from where digits of an entry count that may be zero, as far as is known: from the largest one; 0 for others."""
    largest = max((float(np.max(np.abs(x), initial=0.0)) for x in result.values.values()), default=0.0)
    bounds = result.bound or {}
    return {name: np.where(np.abs(x) <= bounds.get(name, 0.0), largest, 0.0) for name, x in result.values.items()}


def proved_digits(result: ModeResult) -> float:
    """Return how many digits of the worst entry the bound proves."""
    worst, sizes = np.inf, _sizes(result)
    for name, x in result.values.items():
        bound = np.asarray((result.bound or {})[name])
        size = np.where(sizes[name] == 0, np.where(np.asarray(x) == 0, 1.0, np.abs(x)), sizes[name])
        with np.errstate(all="ignore"):
            digits = np.where(bound == 0, 99.0, -np.log10(bound / size))
        worst = min(worst, float(np.min(digits, initial=99.0)))
    return worst


def confirmed_by(point: PointReport) -> str:
    """Return which modes confirmed the gradient and what they rest on."""
    agreeing = {name: result for name, result in point.modes.items() if result.verdict == "agree"}
    values = [n for n, r in agreeing.items() if r.rests_on == ("function values",)]
    rules = [
        n for n, r in agreeing.items() if "rules" in (r.rests_on or ()) and "function values" not in (r.rests_on or ())
    ]
    calls = sum(int(r.evaluations or 0) for r in point.modes.values())
    if values and "claim" in agreeing and any(f.kind == Kind.UNTRACED for f in point.findings):
        return f"Confirmed by function values alone ({', '.join(values)}). {calls} evaluations of f."
    if any(f.kind == Kind.COVERAGE for f in point.findings):
        return "Confirmed by projections of function values alone, within the limits above."
    if not values or not rules:
        return f"{calls} evaluations of f."
    both = f"by function values ({', '.join(values)}) and by rules ({', '.join(rules)})"
    return f"Confirmed {both}, which are independent. {calls} evaluations of f."
