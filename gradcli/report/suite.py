"""The report of several checks: a line for each, the details of those that did not pass, and the counts."""

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Block,
    Code,
    Heading,
    Headline,
    Link,
    Paragraph,
    Piece,
    Table,
    Tone,
    Verbatim,
    cut_between_words,
    shorten_text,
)
from gradcli.report.brief_of_check import LINES, Brief, Word, brief_of, brief_of_error
from gradcli.report.check import COLUMNS, CheckReport, file_and_line, limit_in_words, quote_command
from gradcli.report.common import ABSENT, Absent, ErrorReport, Printed, seed_line
from gradcli.report.decode import Summarised, decode_document
from gradcli.report.encode import TEXT_ONLY, Status
from gradcli.report.point_report import Detects
from gradcli.request.target_text import TARGET
from gradcli.words import Exit, Severity, Verdict, worst_status

_WORDS: dict[Word, tuple[str, Tone]] = {**{v.value: WORDS[v] for v in Verdict}, "error": ("ERROR", "bad")}
_COUNTED: dict[Word, str] = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive", "error": "errors"}
STATUS = {"pass": Exit.CONFIRMED, "fail": Exit.WRONG, "inconclusive": Exit.INCONCLUSIVE, "error": Exit.UNUSABLE}
_COUNTERS = (*_COUNTED.values(), "known")
_WORD, _SECONDS, _SAID = 14, 8, 34  # columns of a line
_SHORTEST = 0.01  # seconds that are written
_LEAST, _LONGEST = 12, 40  # columns of a name
_TIMED = 72  # columns from which on the time has its place
_NAMED = 10  # checks that were not reached, by name
_PAGED = 200  # checks with details on a page, if so many passed
_WRONG_ENTRIES = 10  # shown of a check whose arrays are too large for its document


@dataclass(frozen=True)
class CheckRow:
    """One of several checks.

    id        The name of the check.
    target    What was checked, as it was written.
    verdict   The verdict on the check; what `--allow` accepts has passed.
    cached    Always false: every check runs.
    known     Whether the baseline lists all that is wrong with it.
    seconds   The time that the check took, in seconds.
    document  The document of the check, or of the error that there is instead.
    """

    id: str
    target: str
    verdict: Word
    cached: bool
    known: bool
    seconds: float
    document: dict[str, Any]

    @cached_property
    def report(self) -> CheckReport | None:
        """The report of the check; None for an error, and if its document has summaries of large arrays."""
        if "error" in self.document:
            return None
        try:
            return decode_document(CheckReport, self.document)
        except Summarised:
            return None

    @cached_property
    def error(self) -> ErrorReport | None:
        """The error that there is instead of a verdict."""
        return decode_document(ErrorReport, self.document) if "error" in self.document else None

    @property
    def status(self) -> Exit:
        """The exit status that this check alone would have."""
        if self.known:
            return Exit.CONFIRMED
        internal = self.error is not None and self.error.error.kind == "internal"
        return Exit.INTERNAL if internal else STATUS[self.verdict]

    @property
    def word(self) -> tuple[str, Tone]:
        """The verdict as it is printed, and its tone; what `--allow` accepts has passed."""
        said, tone = _WORDS[self.verdict]
        if self.known:
            return f"{said} (known)", "unsure"
        if self.verdict == "pass" and self.document.get("verdict") == Verdict.INCONCLUSIVE:
            return f"{said} (allowed: {', '.join(self.prevented_by())})", tone
        return self.document.get("headline", said), tone

    def prevented_by(self) -> tuple[str, ...]:
        """Return the kinds of findings that prevented a verdict."""
        found = (f for point in self.document.get("points", ()) for f in point["findings"])
        return tuple(dict.fromkeys(f["kind"] for f in found if f["severity"] == Severity.INCONCLUSIVE))

    @property
    def counted(self) -> str:
        """Under which word it is counted."""
        return "known" if self.known else _COUNTED[self.verdict]

    def said(self) -> str:
        """Return the least that says why: how far off it could be, how many entries are wrong, or what is in the way."""
        if self.error is not None:
            return self.error.error.message
        if self.document["verdict"] == Verdict.PASS and self.document.get("exit_status") != Exit.UNUSABLE:
            narrow = (self.document.get("native") or {}).get("dtype", "float64") != "float64"
            if narrow and self.report is not None and (exactness := self.report.exactness()):
                return exactness
            limit = limit_in_words(decode_document(Detects, self.document["detects"]))
            return f"right {limit.replace(': every entry is 0', '')}" if limit else ""
        report = self.report
        if report is None:
            wrong = sum(point["entries"]["wrong"] for point in self.document["points"])
            return f"{wrong:,} entries wrong" if wrong else str(self.document["verdict"])
        return report.short()

    def line(self, width: int, longest: int = _LONGEST) -> Paragraph:
        """Return the check on one line of `width` columns; `longest` is the width of the longest name."""
        said, tone = self.word
        word, _, limit = (said, "", "") if len(said) <= _WORD else said.partition(" ")
        text = limit if limit.startswith("(allowed") else f"{limit} {self.said()}".strip()
        timed = width >= _TIMED
        room = width - _WORD - 2 - (_SECONDS if timed else 0)
        name = max(_LEAST, min(longest, room - _SAID))
        shown = shorten_text(self.id, name).ljust(name) + "  " + cut_between_words(text, room - name).ljust(room - name)
        time = _write_seconds(self.seconds).rjust(_SECONDS) if timed else ""
        return Paragraph((Piece(f"{word} ".ljust(_WORD), tone), Piece((shown + time).rstrip())), 0)

    def brief(self) -> Brief:
        """Return the check in brief."""
        if self.report is not None:
            return replace(brief_of(self.report), name=self.id, verdict=self.verdict)
        if self.error is not None:
            return brief_of_error(self.error, self.id, self.replay() or None)
        next = "see the whole document: --json"  # whose arrays are too large to be made again from it
        return Brief(self.id, self.verdict, self.said(), again=self.replay() or None, next=next)

    def last_line(self, width: int) -> Paragraph:
        """Return what is said at the end of a check that did not pass, in `width` columns: where, what is wrong, and the edit."""
        word, tone = _WORDS[self.verdict]
        said = cut_between_words(self.brief().gist(), width - len(word) - 1)
        return Paragraph((Piece(word, tone), Piece(f" {said}")), 0, wraps=False)

    def blocks(self, full: bool = False) -> tuple[Block, ...]:
        """Return the check's report; if `full`, with every point in full."""
        if self.report is not None:
            return replace(self.report, full=full).blocks()
        word, tone = self.word
        blocks: list[Block] = [Headline(word, tone, (Verbatim(shorten_text(self.target)), Piece(f": {self.said()}")))]
        if self.error is not None:
            detail = self.error.error
            where = [Code(detail.where, "")] if detail.where else []
            return (*blocks, *where, *([Paragraph(detail.hint)] if detail.hint else []))
        for point in self.document["points"]:
            rows = []
            for entry in point["mismatches"][:_WRONG_ENTRIES]:
                name = numbers.entry_name(entry["input"], tuple(entry["index"]), tuple(entry.get("output", ())))
                rows.append((Verbatim(name), str(entry["claimed"]), str(entry["reference"])))
            blocks += [Table(("entry", "claimed", "right"), rows, {1, 2})] if rows else []
            blocks += [Paragraph(f"{f['kind']}: {f['message']}") for f in point["findings"]]
            blocks += [Paragraph(f"Likely mistake: {point['diagnosis']['message']}")] if point["diagnosis"] else []
        return (*blocks, Paragraph("Again:"), Code(self.replay()))

    def places(self, config: str | None) -> list[tuple[str, int | None]]:
        """Return the files to be changed, each with its line if that is known, the likeliest first; `config` declares the check.

        For an error these are the line that raised it and the file of the target. For a gradient that is wrong or open it is
        the claim or its edit; the function it belongs to is not among them.
        """
        found: list[tuple[str, int | None]] = []
        if self.verdict == "error":
            if self.error is not None and isinstance(file := self.error.error.file, str):
                found.append((file, self.error.error.line or None))
            target = TARGET.fullmatch(self.target.strip())
            if target is not None and target["file"].endswith(".py"):
                found.append((target["file"], None))
        elif self.report is not None:
            found += file_and_line(self.report)
        elif "claimed_at" in self.document:
            found.append((self.document["claimed_at"]["file"], self.document["claimed_at"]["line"]))
        return [*found, *([] if config is None else [(config, None)])]

    def replay(self) -> str:
        """Return the command that repeats the check; an empty text if it is not known."""
        return quote_command(tuple(self.document.get("command") or ()))


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of the checks was run.

    index  The number of the part, counted from 1.
    of     The number of parts.
    """

    index: int
    of: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How many checks came to which verdict.

    passed        Those whose gradients were confirmed, or accepted by `--allow`.
    failed        Those with a gradient that was shown to be wrong.
    inconclusive  Those without a verdict.
    errors        Those that could not be carried out.
    known         Those that fail or are inconclusive as the baseline says.
    """

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    errors: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class SuiteReport(Printed):
    """Several checks, in the order in which they are declared.

    command      The words of the command.
    seed         The seed of everything that was drawn, where no check says otherwise.
    config       The file that declares the checks; null for targets on the command line.
    profile      The profile in use, null where there is none.
    shard        Which part of the checks was run; null for all.
    declared     The ids of all declared checks, in this order, also of those that were not selected.
    digest       A digest of what all declared checks ask for: their targets, points, claims and options.
    counts       How many checks came to which verdict.
    exit_status  The exit status of the command.
    seconds      The time that all of it took, in seconds.
    checks       The checks that were run.
    environment  The versions of what the results depend on, by name, and the number of threads.
    selected     The ids of the checks that were selected, before a shard of them was taken; absent if all were.
    not_reached  The ids of checks that were to be run, and were not: the run was interrupted, or --exitfirst ended it.
    stale        The ids that the baseline lists with a failure that is no longer there, or that are no check of the suite.
    no_point     The gradients found in a folder that were not checked, because no point is known for them.
    schema       The name of this schema, with its number.
    renewal      The words of the command that writes the baseline anew; absent unless one of its entries is stale.
    """

    command: tuple[str, ...]
    seed: int
    config: str | None
    profile: str | None
    shard: Shard | None
    declared: tuple[str, ...]
    digest: str
    counts: Counts
    exit_status: Status
    seconds: float
    checks: tuple[CheckRow, ...]
    environment: dict[str, str | int]
    selected: tuple[str, ...] | Absent = ABSENT
    not_reached: tuple[str, ...] | Absent = ABSENT
    stale: tuple[str, ...] | Absent = ABSENT
    no_point: tuple[str, ...] | Absent = ABSENT
    schema: str = "gradcli.suite/1"
    renewal: tuple[str, ...] | Absent = ABSENT
    full: bool = field(default=False, metadata={TEXT_ONLY: True})  # those that passed too

    def blocks(self) -> tuple[Block, ...]:
        """Return a table of all checks, the details of those that did not pass, and the counts."""
        return (self._checks_table(), *self.reports(), *self.last())

    def headed_blocks(self) -> tuple[Block, ...]:
        """Return a table of all checks, those that did not pass in full, each below a heading, and the counts."""
        found: list[Block] = []
        for check in self._shown():
            found += [Heading((Verbatim(check.id), Piece(f": {check.word[0]}"))), *check.blocks(self.full)]
        return (self._checks_table(), *found, *self.last())

    def _checks_table(self, linked: Collection[int] = ()) -> Table:
        """Return a table of all checks; on a page, these have links to their details."""
        rows = []
        for k, check in enumerate(self.checks):
            name = Link(check.id, to=f"check-{k + 1}") if k in linked else Verbatim(check.id)
            rows.append((Piece(*check.word), name, check.said(), _write_seconds(check.seconds)))
        return Table(("verdict", "check", "what was found", "time"), rows, {3})

    def _shown(self) -> list[CheckRow]:
        """Return the checks that are shown in full."""
        return [check for check in self.checks if self.full or check.status is not Exit.CONFIRMED]

    def page_blocks(self) -> tuple[Block, ...]:
        """Return the counts, a table of all checks with links, and the details that they lead to."""
        shown = [k for k, check in enumerate(self.checks) if check.status is not Exit.CONFIRMED]
        shown += [k for k in range(len(self.checks)) if k not in shown][: max(0, _PAGED - len(shown))]
        found: list[Block] = []
        for k in sorted(shown):
            found += [Heading(self.checks[k].id, name=f"check-{k + 1}"), *self.checks[k].blocks(full=True)]
            found.append(Paragraph(Link("back to all checks", to="checks")))
        left = len(self.checks) - len(shown)
        more = [Paragraph(f"{left:,} more checks passed; their details are in --json.")] * bool(left)
        return (*self.last(), Heading("All checks", name="checks"), self._checks_table(shown), *more, *found)

    def gist(self) -> str:
        """Return the counts."""
        return self.counted()

    def reports(self) -> tuple[Block, ...]:
        """Return the reports that did not pass, in full."""
        found: list[Block] = []
        for check in self._shown():
            if check.error is None:
                found += [Heading(check.id)] if check.id != check.target else []
                found += check.blocks(self.full)
        return tuple(found)

    def not_passed(self) -> tuple[CheckRow, ...]:
        """Return the checks that did not pass, the wrong ones first; of several with the same error, the first."""
        found = [check for check in self.checks if check.status is not Exit.CONFIRMED]
        found.sort(key=lambda check: check.verdict != "fail")
        seen = {check.said(): check for check in reversed(found) if check.error is not None}
        return tuple(check for check in found if check.error is None or seen[check.said()] is check)

    def last(self) -> tuple[Block, ...]:
        """Return what stands at the end: what lacks a point, entries of the baseline that are out of date, and the counts."""
        stale = [Paragraph(f"{name}: {why}", 0) for name, why in self.out_of_date()]
        again = quote_command(self.renewal or ())
        renewal = (Paragraph("Write the baseline anew:", 0), Code(again)) if again else ()
        without = [Paragraph(f"no point  {name}", 0) for name in self.no_point or ()]
        if without:
            says = "They lack a point: gradcli init, or gradcli init --add beside a suite, writes their checks."
            without.append(Paragraph(says, 0))
        left = self.not_reached or ()
        names = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else "")
        not_reached = [Paragraph(f"not reached: {names}", 0)] * bool(left)
        counted = Paragraph(Piece(self.counted(), "strong"), 0)
        seed = seed_line(self.seed, 0, repeats="--seed" in self.command)  # which some check may have of its own
        return (*without, *not_reached, *stale, *renewal, *seed, counted)

    def out_of_date(self) -> list[tuple[str, str]]:
        """Return the ids of stale entries of the baseline, each with why it is one."""
        gone = "the baseline lists it, and it is no check of this suite"
        old = "the baseline lists a failure that is no longer there"
        return [(name, old if name in self.declared else gone) for name in self.stale or ()]

    def counted(self) -> str:
        """Return the last line: how many passed, failed, are inconclusive, and are errors; zeros are left out."""
        counts = ((word, getattr(self.counts, word)) for word in _COUNTERS)
        words = (f"{n:,} {'error' if (word, n) == ('errors', 1) else word}" for word, n in counts if n)
        every = ", ".join(words)
        left = f", {len(self.not_reached):,} not reached" if self.not_reached else ""
        return f"{every or 'nothing checked'}{left} in {_write_seconds(self.seconds)}"

    def brief(self) -> tuple[str, ...]:
        """Return a line for each check that did not pass, at most nine of them, and the counts."""
        rows = self.not_passed()
        more = len(rows) - (LINES - 1)
        shown = rows if more <= 0 else rows[: LINES - 2]
        lines = [row.brief().lines()[0] for row in shown]
        lines += [f"and {more + 1:,} more that did not pass"] * (more > 0)
        return (*lines, self.counted())

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the rows of every check under its id."""
        columns = ("id", *COLUMNS)
        rows: list[tuple[object, ...]] = []
        for check in self.checks:
            found = [] if check.report is None else check.report.records()[1]
            rows += [(check.id, *row) for row in found] or [(check.id, *[""] * (len(columns) - 2), check.verdict)]
        return columns, rows


def row_of_document(name: str, target: str, document: dict[str, Any], seconds: float) -> CheckRow:
    """Return the row of a check whose document is known."""
    verdict: Word = "error" if "error" in document else document["verdict"]
    if document.get("exit_status") == Exit.CONFIRMED:
        verdict = "pass"
    elif document.get("exit_status") == Exit.UNUSABLE:
        verdict = "error"
    return CheckRow(name, target, verdict, cached=False, known=False, seconds=seconds, document=document)


def count_verdicts(rows: Sequence[CheckRow]) -> Counts:
    """Return how many checks came to which verdict."""
    words = [row.counted for row in rows]
    return Counts(*map(words.count, _COUNTERS))


def exit_status_of_checks(rows: Sequence[CheckRow], *others: Exit) -> Exit:
    """Return the exit status of several checks."""
    return worst_status([*(row.status for row in rows), *others])


def _write_seconds(seconds: float) -> str:
    return f"{numbers.two_digits(max(seconds, _SHORTEST))} s"
