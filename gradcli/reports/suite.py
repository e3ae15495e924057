"""The report of several checks: a line for each, the details of those that did not pass, and the counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from gradcli.reports import numbers
from gradcli.reports.blocks import WORDS, Block, Cell, Paragraph, Piece, Table, Tone
from gradcli.reports.check import COLUMNS, CheckReport
from gradcli.reports.escape import cut
from gradcli.words import Exit, Severity, Verdict

_ERROR: tuple[str, Tone] = ("ERROR", "bad")
_WORD, _SECONDS, _SAID = 14, 8, 34  # columns of a line
_SHORTEST = 0.01  # seconds that are written
_LEAST = 12  # columns of a name
_TIMED = 72  # columns from which on the time has its place


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One of several checks: its name, and its report or the error that there is instead."""

    id: str
    report: CheckReport | None
    error: str | None
    seconds: float

    @property
    def status(self) -> Exit:
        """The exit status that this check alone would have."""
        return Exit.UNUSABLE if self.report is None else Exit(self.report.exit_status)

    @property
    def word(self) -> tuple[str, Tone]:
        """The verdict as it is printed, and its tone; what `--allow` accepts has passed."""
        if self.report is None or self.status is Exit.UNUSABLE:
            return _ERROR
        if self.report.verdict == Verdict.INCONCLUSIVE and self.status is Exit.CONFIRMED:
            kinds = dict.fromkeys(
                f.kind for p in self.report.points for f in p.findings if f.severity == Severity.INCONCLUSIVE
            )
            return f"PASS (allowed: {', '.join(kinds)})", "good"
        return WORDS[self.report.verdict]

    @property
    def counted(self) -> str:
        """Under which word it is counted."""
        return {Exit.CONFIRMED: "passed", Exit.WRONG: "failed", Exit.INCONCLUSIVE: "inconclusive"}.get(
            self.status, "errors"
        )

    def said(self) -> str:
        """Return the least that says why: how far off it could be, how many entries are wrong, or what is in the way."""
        if self.report is None:
            return self.error or ""
        if self.report.verdict == Verdict.PASS:
            limit = self.report.limit().partition(":")[0]
            return f"right {limit}{')' if '(' in limit else ''}" if limit else ""
        return self.report.short()

    def line(self, width: int) -> Paragraph:
        """Return the check on one line of `width` columns."""
        (word, _, allowed), tone = self.word[0].partition(" "), self.word[1]
        timed = width >= _TIMED
        room = width - _WORD - 2 - (_SECONDS if timed else 0)
        name = max(_LEAST, room - _SAID)
        shown = cut(self.id, name).ljust(name) + "  " + cut(allowed or self.said(), room - name).ljust(room - name)
        time = _seconds(self.seconds).rjust(_SECONDS) if timed else ""
        return Paragraph((Piece(word.ljust(_WORD), tone), Piece((shown + time).rstrip())), 0)


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """Several checks, in the order in which they were asked for."""

    checks: tuple[CheckRow, ...]
    seconds: float

    def blocks(self) -> tuple[Block, ...]:
        """Return a table of all checks, the details of those that did not pass, and the counts."""
        rows: list[tuple[Cell, ...]] = [
            (Piece(*check.word), check.id, check.said(), _seconds(check.seconds)) for check in self.checks
        ]
        return (Table(("verdict", "check", "", "time"), tuple(rows), frozenset({3})), *self.details())

    def details(self) -> tuple[Block, ...]:
        """Return the reports that did not pass in full, and the counts."""
        found: list[Block] = []
        for check in self.checks:
            if check.report is not None and check.status is not Exit.CONFIRMED:
                found += check.report.blocks()
        return (*found, Paragraph(Piece(self.counts(), "strong"), 0))

    def counts(self) -> str:
        """Return the last line: how many passed, failed, are inconclusive, and are errors; zeros are left out."""
        words = [check.counted for check in self.checks]
        every = ", ".join(
            f"{words.count(word)} {'error' if (word, words.count(word)) == ('errors', 1) else word}"
            for word in ("passed", "failed", "inconclusive", "errors")
            if word in words
        )
        return f"{every or 'nothing checked'} in {_seconds(self.seconds)}"

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the rows of every check under its id."""
        columns = ("id", *COLUMNS)
        rows: list[tuple[object, ...]] = []
        for check in self.checks:
            if check.report is None:
                rows.append((check.id, *[""] * (len(columns) - 2), "error"))
                continue
            rows += [(check.id, *row) for row in check.report.records()[1]]
        return columns, rows


def _seconds(seconds: float) -> str:
    return f"{numbers.two(max(seconds, _SHORTEST))} s"


def unlike(ids: Sequence[str], name: str) -> str:
    """Return a name for a check that none of the others has: a second one of the same text ends in #2."""
    taken = sum(other == name or other.rpartition("#")[0] == name for other in ids)
    return f"{name}#{taken + 1}" if taken else name
