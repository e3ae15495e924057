"""A check in ten lines at most, for programs, logs and editors: what is wrong, where, the edit, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import cut_line, make_visible, shorten_text
from gradcli.report.check import CheckReport, edit_lines, file_and_line, likely_cause, quote_command, worst_point
from gradcli.report.common import Absent, ErrorReport
from gradcli.words import Exit, Severity, Verdict

LINES = 10  # at most
_ENTRIES = 3  # wrong ones, in text
_LISTED = 10  # wrong ones, in a document
_WIDEST = 300  # columns of a part of a line

Word = Literal["pass", "fail", "inconclusive", "error"]


@dataclass(frozen=True, slots=True)
class BriefEntry:
    """One entry of a claim that is wrong.

    entry    The entry as it is written: `W[3,2]`.
    claimed  The claimed value.
    right    The right value.
    """

    entry: str
    claimed: float
    right: float


@dataclass(frozen=True, slots=True)
class Brief:
    """One check in brief.

    name     The name of the check among several, else its target.
    verdict  The verdict; what `--allow` accepts has passed.
    says     The verdict in a sentence, or the error.
    wrong    The worst wrong entries, at most 10.
    more     How many other entries are wrong.
    kind     The kind of mistake or finding that decides, which `gradcli explain` explains; null where nothing is wrong.
    cause    Why a claim is wrong, in a sentence; null where this is not known, or nothing is wrong.
    file     The file to be changed, or in which an error happened; null where it is not known.
    line     This line, counted from 1.
    edit     The edit that makes the claim right: a unified diff, or the claim as it should be; null where none is known.
    changed  The lines of the edit, each after a minus as it is and after a plus as it should be.
    right    The right gradient by each input as code, where there is no edit and a closed form is known.
    again    The command that repeats the check; null where it is not known.
    next     What to do next.
    schema   The name of this schema, with its number.
    """

    name: str
    verdict: Word
    says: str
    wrong: tuple[BriefEntry, ...] = ()
    more: int = 0
    kind: str | None = None
    cause: str | None = None
    file: str | None = None
    line: int | None = None
    edit: str | None = None
    changed: tuple[str, ...] = ()
    right: dict[str, str] = field(default_factory=dict)
    again: str | None = None
    next: str = ""
    schema: str = "gradcli.brief/1"

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        return self.verdict.upper()

    def gist(self) -> str:
        """Return the place, what was checked, the inputs with wrong entries, why, and the edit, on one line."""
        place = f"{self.file}:{self.line} " if self.file and self.line else ""
        inputs = dict.fromkeys(f"d{w.entry.rpartition('/')[2].partition('[')[0]}" for w in self.wrong)
        name = " ".join(filter(None, (shorten_text(self.name), ", ".join(inputs))))
        says = _cut_to_one_line(f"{place}{name}: {self.cause or self.says}")
        if not self.changed:
            return says
        edit = "; ".join(line[2:] for line in self.changed if line.startswith("+ ")) or "leave out"
        return f"{says} | edit: {_cut_to_one_line(edit)}"

    def lines(self) -> tuple[str, ...]:
        """Return the text: a line that says all, also of an error what to do; then wrong entries, and what to do next."""
        again = f" | again: {_cut_to_one_line(self.again)}" if self.again else ""
        advice = f"next: {_cut_to_one_line(self.next)}"
        if self.verdict == "error":
            return (f"{self.word} {self.gist()} | {advice}{again}",)
        lines = [f"{self.word} {self.gist()}{again}"]
        shown = self.wrong[:_ENTRIES]
        for w in shown:
            claimed, right = numbers.write_differing_pair(w.claimed, w.right)
            lines.append(f"  {w.entry}: {claimed} claimed, {right} right")
        left = self.more + len(self.wrong) - len(shown)
        lines += [f"  {left:,} more wrong entr{'y' if left == 1 else 'ies'}"] * bool(left)
        lines += [f"  {advice}"] * (self.verdict != "pass")
        return tuple(lines)


def _cut_to_one_line(text: str) -> str:
    return cut_line(make_visible(text), _WIDEST)


def brief_of(report: CheckReport) -> Brief:
    """Return the report of one check in brief."""
    point = report.points[worst_point(report)]
    failed = report.verdict == Verdict.FAIL
    wrong = tuple(
        BriefEntry(numbers.entry_name(m.input, m.index, m.output or (), point.outputs or ()), m.claimed, m.reference)
        for m in point.mismatches[:_LISTED]
    )
    unusable, allowed = report.exit_status == Exit.UNUSABLE, report.exit_status == Exit.CONFIRMED
    verdict: Word = "error" if unusable else "pass" if allowed else report.verdict.value
    file, line = next(iter(file_and_line(report)), (None, None)) if failed else (None, None)
    d = point.diagnosis if failed else None
    edit = None if d is None else d.patch or d.replacement or None
    changed = () if d is None else tuple(edit_lines(d.edits or ()))
    right = {} if d is None or isinstance(d.closed_form, Absent) else d.closed_form
    kind = report.decisive()
    return Brief(
        report.id or report.target.text, verdict, report.sentence(), wrong, max(0, point.entries.wrong - len(wrong)), kind,
        likely_cause(report) if failed else None, file, line, edit, changed, right, quote_command(report.command) or None,
        _next_step(report, kind, bool(edit), right),
    )  # fmt: skip


def _next_step(report: CheckReport, kind: str | None, has_edit: bool, right: Mapping[str, str]) -> str:
    if kind is None:
        return "nothing" if report.claim is not None else "name a gradient of yours, which was not checked: --grad"
    if has_edit:
        return "make the edit, and run the check again"
    if right:
        return "write the gradient as it is right: " + "; ".join(f"by {x}: {code}" for x, code in right.items())
    open_ = [f for p in report.points for f in p.findings if f.severity == Severity.INCONCLUSIVE]
    hint = next((f.hint for f in open_ if f.kind == kind and f.hint), None)
    return hint or f"gradcli explain {kind}"


def brief_of_error(report: ErrorReport, name: str, again: str | None) -> Brief:
    """Return the error of one check in brief; `name` is that of the check, and `again` the command that repeats it."""
    e = report.error
    file, line = None if isinstance(e.file, Absent) else e.file, None if isinstance(e.line, Absent) else e.line
    next = e.hint or "correct the request"
    return Brief(name, "error", e.message, file=file, line=line, again=again, next=next)


def first_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first lines, the last of which counts those that are left out where there are too many."""
    left = len(lines) - LINES + 1
    return tuple(lines) if left <= 1 else (*lines[: LINES - 1], f"and {left:,} more lines: another --format has all")
