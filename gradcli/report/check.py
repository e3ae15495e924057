"""The report of `check`: what was found at each point, and what it comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradcli.errors import NotConfirmed
from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Code, Paragraph, Piece, Table, Tone, Verdict
from gradcli.report.common import Finding, Target
from gradcli.report.encode import ABSENT, Absent, Values
from gradcli.report.tidy import entries

MAX_ROWS = 10
_WORDS: dict[str, tuple[str, Tone]] = {
    "pass": ("PASS", "good"),
    "fail": ("FAIL", "bad"),
    "inconclusive": ("INCONCLUSIVE", "unsure"),
}
_LOOKED_AT = {  # what the derivative is of, where it is not the target itself
    "Hessian": "gradient of {}", "product H v": "gradient of {} along v", "product J v": "{} along v",
    "product w J": "w . {}",
}  # fmt: skip
_TONES: dict[str, Tone] = {"agree": "good", "disagree": "bad"}
_SHORT = {"agree": "", "disagree": "  disagrees", "cannot tell": "  cannot tell"}


@dataclass(frozen=True, slots=True)
class Detects:
    """The smallest relative error of an entry that the check would have seen, and the entry where it is largest."""

    relative: float | None
    at: str | None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One entry of a claim that is wrong."""

    input: str
    index: tuple[int, ...]
    claimed: float
    reference: float
    difference: float
    bound: float
    ratio: float
    output: tuple[int, ...] | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Entries:
    """How many entries were compared, and how that went."""

    compared: int
    wrong: int
    undecided: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely mistake behind a wrong claim."""

    kind: str
    message: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    corrected: str | None = None


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What one mode answered, or why it did not."""

    status: str
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    decimals: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    verdict: str | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    seconds: float | Absent = ABSENT
    rests_on: tuple[str, ...] | Absent = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class PointReport:
    """One point: the value, every mode, and the verdict."""

    at: dict[str, Values]
    drawn: tuple[str, ...]
    differentiated: tuple[str, ...]
    constant: tuple[str, ...]
    value: Values | Absent
    verdict: str
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


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything `gradcli check` found for one target."""

    target: Target
    claim: str | None
    seed: int
    command: tuple[str, ...]
    exit_status: int
    verdict: str
    detects: Detects
    points: tuple[PointReport, ...]
    environment: dict[str, str]
    schema: str = "gradcli.check/1"
    derivative: str = "gradient"
    line: int | Absent = ABSENT

    @property
    def passed(self) -> bool:
        """Whether every gradient was confirmed."""
        return self.verdict == "pass"

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self, allow: Sequence[str] = ()) -> None:
        """Raise NotConfirmed unless every gradient was confirmed, or all that stands against it is in `allow`."""
        open_ = {f.kind for point in self.points for f in point.findings if f.severity == "inconclusive"}
        if self.passed or (self.verdict == "inconclusive" and open_ and open_ <= set(allow)):
            return
        found = [point.diagnosis.message for point in self.points if point.diagnosis]
        raise NotConfirmed(f"{_WORDS[self.verdict][0]}  {self.sentence()}" + "".join(f"; {said}" for said in found[:1]))

    def blocks(self) -> tuple[Block, ...]:
        """Return what people read: the verdict, then what lets them believe it, then what to do."""
        word, tone = _WORDS[self.verdict]
        blocks: list[Block] = [Verdict(word, tone, self.sentence())]
        for number, point in enumerate(self.points):
            blocks += _point_blocks(self, point, number)
        if self.verdict == "fail":
            blocks += [Paragraph("Again:"), Code(replay(self.command))]
        return tuple(blocks)

    def _unclaimed(self) -> str:
        """Say which inputs the claim leaves out."""
        point = self.points[0]
        left = [name for name in point.differentiated if name not in point.modes["claim"].values]
        return f"; {', '.join(left)} {'was' if len(left) == 1 else 'were'} not claimed" if left else ""

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every entry of every mode at every point as a row."""
        rows: list[tuple[object, ...]] = []
        for number, point in enumerate(self.points):
            for mode, result in point.modes.items():
                for name, x in result.values.items():
                    bounds = (result.bound or {})[name]
                    both = zip(entries(x), entries(np.broadcast_to(bounds, np.shape(x))), strict=True)
                    rows += [
                        (number, mode, name, index, g, b, result.verdict or "", point.verdict)
                        for (index, g), (_, b) in both
                    ]
        return ("point", "mode", "input", "index", "value", "bound", "mode_verdict", "verdict"), rows

    def sentence(self) -> str:
        """Return the verdict in words."""
        wrong = sum(point.entries.wrong for point in self.points)
        compared = sum(point.entries.compared for point in self.points)
        if self.verdict == "fail":
            shape = next(
                (p.diagnosis.message for p in self.points if p.diagnosis and p.diagnosis.kind == "shape"), None
            )
            if shape:
                return shape
            whose = f"the claimed {self.derivative}" if self.claim is not None else f"gradcli's own {self.derivative}"
            return (
                f"{whose} is wrong in {wrong} of {compared} entr{'y' if compared == 1 else 'ies'}"
                if wrong
                else f"{whose} is contradicted"
            )
        if self.verdict == "inconclusive":
            found = [f for p in self.points for f in p.findings if f.severity == "inconclusive"]
            found.sort(key=lambda f: f.kind != "not a subgradient")
            said = found[0].message if found else "the modes cannot tell"
            return f"{said}; accepted (--allow)" if self.exit_status == 0 else said
        better = "" if self.detects.relative is None else f" to better than {numbers.power(self.detects.relative)}"
        if self.claim is not None:
            return f"the claimed {self.derivative} is right{better}{self._unclaimed()}"
        return f"gradcli's own {self.derivative} is right{better}; none of yours was checked (--{self._option()})"

    def _option(self) -> str:
        return {"Jacobian": "jac", "Hessian": "hess"}.get(self.derivative, "grad")


def replay(command: tuple[str, ...]) -> str:
    """Return a command as one would type it."""
    import shlex

    return " ".join(shlex.quote(word) for word in command)


def _point_blocks(report: CheckReport, point: PointReport, number: int) -> list[Block]:
    blocks: list[Block] = []
    place = ", ".join(f"{name} = {_at(point, name, report.seed)}" for name in point.at)
    looked_at = _LOOKED_AT.get(report.derivative, "{}").format(report.target.text)
    head = f"f = {looked_at}" + ("" if isinstance(point.value, Absent) else f" = {numbers.value(point.value)}")
    at = f"at {place}" if place else ""
    if len(report.points) > 1:
        word, tone = _WORDS[point.verdict]
        blocks.append(Paragraph((Piece(f"point {number + 1}  ", "strong"), Piece(word.lower(), tone)), 0))
    blocks += [Paragraph(head), *([Paragraph(at)] if at else [])]
    if point.mismatches:
        blocks += _mismatch_blocks(point)
    if number == 0 or point.verdict != "pass":
        blocks.append(_modes_table(point))
    blocks += [block for f in point.findings for block in _finding_blocks(f)]
    if point.diagnosis is not None and point.diagnosis.kind != "shape":
        blocks += _diagnosis_blocks(point.diagnosis)
    if point.verdict == "pass" and number == 0:
        blocks.append(Paragraph(confirmed_by(point)))
    return blocks


def _at(point: PointReport, name: str, seed: int) -> str:
    shown = numbers.value(point.at[name])
    return f"{shown} (drawn, seed {seed})" if name in point.drawn else shown


def _finding_blocks(f: Finding) -> list[Block]:
    tone: Tone = "unsure" if f.severity in ("inconclusive", "warning") else "plain"
    blocks: list[Block] = [Paragraph((Piece(f"{f.kind}: ", tone), Piece(f.message)))]
    if f.source and f.line is not None and f.file:
        blocks.append(Paragraph(Piece(f"{f.file}:{f.line}    {f.source}", "dim"), 4))
    elif f.source and f.line is not None:
        blocks.append(Paragraph(Piece(f"{f.source}   (line {f.line}, column {f.column})", "dim"), 4))
    if f.hint:
        blocks.append(Paragraph(f.hint, 4))
    return blocks


def _diagnosis_blocks(d: Diagnosis) -> list[Block]:
    head = "" if d.kind == "unknown" else "Likely mistake: "
    blocks: list[Block] = [Paragraph((Piece(head, "strong"), Piece(d.message)))]
    if d.source and d.file:
        blocks.append(Paragraph(Piece(f"{d.file}:{d.line}    {d.source}", "dim"), 4))
    return blocks + ([Paragraph(f"corrected: {d.corrected}", 4)] if d.corrected else [])


def _mismatch_blocks(point: PointReport) -> list[Block]:
    rows: list[tuple[Cell, ...]] = []
    for m in point.mismatches[:MAX_ROWS]:
        output = m.output if isinstance(m.output, tuple) else ()
        entry = numbers.entry_name(m.input, m.index, output, point.outputs or ())
        claimed, right = numbers.apart(m.claimed, m.reference)
        rows.append((entry, Piece(claimed, "bad"), right, numbers.ratio(m.ratio)))
    blocks: list[Block] = [
        Table(("entry", "claimed", point.reference or "reference", "ratio"), tuple(rows), frozenset({1, 2, 3}))
    ]
    left = point.entries.wrong - len(rows)
    agree = point.entries.compared - point.entries.wrong - point.entries.undecided
    if left > 0:
        blocks.append(Paragraph(f"{left} more wrong entries"))
    if agree > 0:
        blocks.append(Paragraph(f"{agree} more {'entries agree' if agree > 1 else 'entry agrees'}"))
    return blocks


def _modes_table(point: PointReport) -> Block:
    """Show scalars in full, a column each; arrays by the number of right digits alone."""
    names = point.differentiated
    answered = (result.values for result in point.modes.values() if result.status == "ok")
    reference = point.modes[point.reference].values if point.reference else next(answered, {})
    single = isinstance(point.value, Absent) or np.ndim(point.value) == 0
    scalar = single and all(np.ndim(x) == 0 for x in reference.values()) and len(names) <= 2
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
    if mode == point.reference and result.proved:
        return Piece(f"{proved_digits(result):.0f} (proved)", tone)
    if mode == point.reference:
        return Piece("reference", tone)
    found = [numbers.right_digits(x, reference[name]) for name, x in result.values.items() if name in reference]
    worst = min((float(np.min(d, initial=16.0)) for d in found), default=0.0)
    return Piece(f"{worst:.1f}{_SHORT[verdict]}", tone)


def proved_digits(result: ModeResult) -> float:
    """Return how many digits of the worst entry the bound proves."""
    worst = np.inf
    for name, x in result.values.items():
        bound = np.asarray((result.bound or {})[name])
        with np.errstate(all="ignore"):
            digits = np.where(bound == 0, 99.0, -np.log10(bound / np.where(np.asarray(x) == 0, 1.0, np.abs(x))))
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
    if values and "claim" in agreeing and any(f.kind == "untraced" for f in point.findings):
        return f"Confirmed by function values alone ({', '.join(values)}). {calls} evaluations of f."
    if not values or not rules:
        return f"{calls} evaluations of f."
    both = f"by function values ({', '.join(values)}) and by rules ({', '.join(rules)})"
    return f"Confirmed {both}, which share nothing. {calls} evaluations of f."
