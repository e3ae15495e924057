"""The reports of several checks: of a suite, with details of those that did not pass, of `run`, and of `find`."""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Block,
    Cell,
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
    make_visible,
    shorten_text,
)
from gradcli.report.brief_of_check import LINES, Brief, Word, brief_of, brief_of_error
from gradcli.report.check import COLUMNS, CheckReport, file_and_line, limit_in_words, quote_command
from gradcli.report.common import ABSENT, Absent, ErrorDetail, ErrorReport, Printed, seed_line
from gradcli.report.encode import TEXT_ONLY, Status, Summarised, decode_document, encode
from gradcli.report.point_report import Detects
from gradcli.request.target_text import TARGET
from gradcli.words import DerivativeKind, Exit, FoundBy, Kind, Severity, Verdict, worst_status

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


# The report of `run`: the hand-written gradients that a program used, each checked at values that it had.

_PLACE, _NAME = 20, 18  # columns of a place and of a name in the table
_LISTED = 5  # gradients that were not watched, by name
_WHY_NOT = "The program did not use them, or calls them itself, where gradcli.watch names such pairs."
WORST: tuple[Word, ...] = ("fail", "error", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """One call of a gradient that was checked.

    call     The number of the call, counted from 1.
    at       Where the user's code began it, as FILE:LINE; null where that is not known.
    process  The number of the child process that made the call; null for the program's own process.
    drawn    Whether the values were drawn at the shapes of the call, because the call itself had none to show.
    check    The check of this call.
    """

    call: int
    at: str | None
    process: int | None
    drawn: bool
    check: CheckRow

    @property
    def is_undecided(self) -> bool:
        """Whether the bounds alone are too wide for a verdict, as where all of a gradient cancels at an optimum."""
        return self.check.verdict == "inconclusive" and set(self.check.prevented_by()) == {Kind.NOISE}


@dataclass(frozen=True, slots=True)
class UsedGradient:
    """A hand-written gradient that the program used.

    name     The name of the function or class, with the names around it.
    file     The file that defines it.
    line     The first line of the definition, counted from 1.
    kind     Which derivative it is.
    of       The function that it is a gradient of; null where it returns the value too.
    calls    How often it was called.
    checked  How many of the calls were checked.
    verdict  The worst verdict on a call.
    notes    What is to be known of its calls: that some were not kept, or not counted.
    points   The calls that were checked, in their order.
    """

    name: str
    file: str
    line: int
    kind: DerivativeKind
    of: str | None
    calls: int
    checked: int
    verdict: Word
    notes: tuple[str, ...]
    points: tuple[CheckedCall, ...]

    @property
    def place(self) -> str:
        """Where it is defined, as FILE:LINE."""
        return f"{self.file}:{self.line}"

    @property
    def worst(self) -> CheckRow | None:
        """The check of the verdict; None if no call was checked."""
        return next((p.check for p in self.points if p.check.verdict == self.verdict), None)

    @property
    def undecided(self) -> str:
        """Which calls decided nothing, in words, where others did; empty if all decided."""
        numbers = ", ".join(f"{p.call:,}" for p in self.points if p.is_undecided)
        says = f"undecided at call {numbers}: the bounds are too wide, as where a gradient cancels at an optimum"
        return says if numbers and self.verdict == "pass" else ""

    def as_check(self) -> CheckRow:
        """Return it as one of several checks, with the document of its worst call."""
        name, check = f"{self.name}, {self.place}", self.worst
        if check is not None:
            return replace(check, id=name, verdict=self.verdict)
        error = ErrorReport(ErrorDetail("not run", f"no call was checked: {'; '.join(self.notes)}"))
        return row_of_document(name, self.name, encode(error), 0.0)

    def row(self) -> tuple[Cell, ...]:
        """Return it as a row of the table."""
        check = self.worst
        word, said = Piece("NOT CHECKED", "unsure"), ""
        if check is not None:
            word = Piece(*check.word)
            if check.verdict == "inconclusive" and check.prevented_by():
                said = check.prevented_by()[0]
            else:
                said = check.said().replace("right to better than", "right to").replace(" entries wrong", " wrong")
        place, name = (
            Verbatim(make_visible(text if len(text) <= width else f"...{text[3 - width :]}"))
            for text, width in ((self.place, _PLACE), (self.name, _NAME))
        )
        return (word, place, name, f"{self.checked} of {self.calls:,}", said)


@dataclass(frozen=True, slots=True)
class Program:
    """The program that was run.

    status       Its exit status.
    interrupted  Whether an interrupt ended it.
    """

    status: int
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class RunReport:
    """The hand-written gradients that a program used, each checked at values that it had.

    command      The words of the command.
    seed         The seed of everything that was drawn.
    program      How the program ended; null where recorded calls were read from a file.
    exit_status  The exit status of gradcli: the program's if it is not 0, else that of the worst check.
    gradients    The gradients, the worst first, then by file and line.
    environment  The versions of what the results depend on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    unwatched    The number of hand-written gradients, in the files below the current folder that the program loaded, of which
                 no use was watched.
    not_watched  These gradients, each with its file and line.
    """

    command: tuple[str, ...]
    seed: int
    program: Program | None
    exit_status: Status
    gradients: tuple[UsedGradient, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.run/1"
    unwatched: int | Absent = ABSENT
    not_watched: tuple[str, ...] | Absent = ABSENT
    full: bool = field(default=False, metadata={TEXT_ONLY: True})  # calls that passed too

    def headed_blocks(self) -> tuple[Block, ...]:
        """Return the blocks with a heading above each check."""
        return self.blocks(headed=True)

    def blocks(self, headed: bool = False) -> tuple[Block, ...]:
        """Return a table of the gradients, the checks that did not pass in full, and the counts."""
        if not self.gradients:
            return (*seed_line(self.seed, 0), Paragraph(Piece(self.counted(), "strong"), 0))
        header = ("verdict", "defined at", "gradient", "checked", "what was found")
        blocks: list[Block] = [Table(header, [each.row() for each in self.gradients], {3})]
        for each in self.gradients:
            notes = (*each.notes, *filter(None, [each.undecided]))
            blocks += [Paragraph(f"{each.name}, {each.place}: {note}", 0) for note in notes]
            wrong = [p for p in each.points if p.check.status is not Exit.CONFIRMED and not each.undecided]
            for point in each.points if self.full else wrong[:1]:
                at = f", from {point.at}" if point.at else ""
                drawn = ", at drawn values" if point.drawn else ""
                call = f"call {point.call:,} of {each.calls:,}{at}{drawn}"
                if headed:
                    blocks.append(Heading((Verbatim(each.name), Piece(f": {point.check.word[0]}"))))
                    blocks.append(Paragraph((Verbatim(each.place), Piece(f": {call}")), 0))
                else:
                    blocks.append(Paragraph(Piece(f"{each.name}, {each.place}: {call}", "strong"), 0))
                blocks += point.check.blocks(self.full)
            rest = [] if self.full else [f"{p.call:,} ({p.check.word[0]})" for p in wrong[1:]]
            blocks += [Paragraph(f"Also call {', '.join(rest)}; --verbose shows them in full.")] if rest else []
        left = self.not_watched or ()
        if left:
            more = f" and {len(left) - _LISTED:,} more, which gradcli find lists" if len(left) > _LISTED else ""
            says = f"Not watched: {'; '.join(left[:_LISTED])}{more}. {_WHY_NOT}"
            blocks.append(Paragraph(says, 0))
        return (*blocks, *seed_line(self.seed, 0), Paragraph(Piece(self.counted(), "strong"), 0))

    def as_suite(self) -> SuiteReport:
        """Return it as a report of several checks, one for each gradient."""
        rows = tuple(each.as_check() for each in self.gradients)
        return SuiteReport(
            self.command, self.seed, None, None, None, tuple(row.id for row in rows), "", count_verdicts(rows), self.exit_status,
            sum(row.seconds for row in rows), rows, self.environment,
        )  # fmt: skip

    def counted(self) -> str:
        """Return the last line: how many gradients there are of each verdict."""
        if not self.gradients:
            says = "no gradient was used as gradcli run watches it"
            if not self.unwatched:
                return says
            many = "1 hand-written gradient" if self.unwatched == 1 else f"{self.unwatched:,} hand-written gradients"
            lists = "gradcli find lists them, and gradcli.watch names those that the program calls itself"
            return f"{says}; its files have {many}: {lists}"
        words = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive", "error": "not checked"}
        counts = ((said, sum(g.verdict == word for g in self.gradients)) for word, said in words.items())
        many = f"{len(self.gradients)} gradient{'s' * (len(self.gradients) > 1)}"
        return f"{many}: " + ", ".join(f"{count} {word}" for word, count in counts if count)

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the rows of every check under the place of its gradient."""
        columns = ("file", "line", "name", "call", *COLUMNS)
        rows: list[tuple[object, ...]] = []
        for gradient in self.gradients:
            for point in gradient.points:
                found = [] if point.check.report is None else point.check.report.records()[1]
                empty = [("",) * (len(COLUMNS) - 1) + (point.check.verdict,)]
                rows += [(gradient.file, gradient.line, gradient.name, point.call, *row) for row in found or empty]
        return columns, rows


def worst_verdict(points: Sequence[CheckedCall]) -> Word:
    """Return the worst verdict on calls; it is inconclusive if none was checked.

    A call whose bounds are too wide to decide, as where all of a gradient cancels at an optimum, counts only if no other
    call passes.
    """
    words = [point.check.verdict for point in points if not point.is_undecided]
    decided = words if "pass" in words else [point.check.verdict for point in points]
    return min(decided, key=WORST.index, default="inconclusive")


def exit_status_of_run(gradients: Sequence[UsedGradient]) -> Exit:
    """Return the exit status of all checks of a run."""
    left = [Exit.INCONCLUSIVE for gradient in gradients if "were not checked" in "".join(gradient.notes)]
    return worst_status([*left, *(STATUS[gradient.verdict] for gradient in gradients)])


# The report of `find`: the hand-written gradients of a project, and the checks that cover each.

_UNCHECKED = "not checked"
_MOST_FOLDERS = 10  # on the screen
_WIDEST = 44  # columns of a name or of a kind; what is longer moves the rest of its line only


@dataclass(frozen=True, slots=True)
class FoundGradient:
    """One hand-written gradient, and the checks that cover it.

    name        The name of the function or class with the names around it, such as `Poisson.score`.
    file        The file that defines it, with forward slashes.
    line        The line of the definition, counted from 1.
    kind        Which derivative it is; a custom function of a framework has a backward pass, a vjp or a jvp.
    of          The function that it is a gradient of; null where that is not known, or where it returns the value too.
    found_by    What showed that it is a gradient: its name, a call of scipy, or a framework.
    checked_by  The ids of the checks that cover it.
    """

    name: str
    file: str
    line: int
    kind: DerivativeKind
    of: str | None
    found_by: FoundBy
    checked_by: tuple[str, ...]

    @property
    def what(self) -> str:
        """Which derivative of which function it is, in words."""
        return self.kind if self.of is None or self.of == self.name else f"{self.kind} of {self.of}"

    @property
    def checks(self) -> str:
        """The checks that cover it, in words."""
        return ", ".join(self.checked_by) or _UNCHECKED


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that cannot be read.

    file    The file, with forward slashes.
    reason  Why it cannot be read.
    """

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class FindCounts:
    """How many gradients there are, and how many have a check.

    found    How many hand-written gradients were found.
    checked  How many of them at least one check covers.
    """

    found: int
    checked: int

    def __str__(self) -> str:
        """Return the last line of the report."""
        are = "gradient is" if self.found == 1 else "gradients are"
        return f"{self.checked} of {self.found} hand-written {are} checked"

    def percent(self) -> float:
        """Return how many of a hundred are checked: 100 where none was found."""
        return 100.0 * self.checked / self.found if self.found else 100.0


@dataclass(frozen=True, slots=True)
class FolderCounts:
    """How many gradients the files of one folder have, without the folders in it.

    folder   The folder, with forward slashes.
    found    How many hand-written gradients were found in its files.
    checked  How many of them at least one check covers.
    """

    folder: str
    found: int
    checked: int


def counts_by_folder(gradients: Sequence[FoundGradient]) -> tuple[FolderCounts, ...]:
    """Return the counts of each folder that has gradients, the largest first."""
    inside: dict[str, list[FoundGradient]] = {}
    for gradient in gradients:
        inside.setdefault(str(PurePosixPath(gradient.file).parent), []).append(gradient)
    counts = (FolderCounts(folder, len(g), sum(bool(x.checked_by) for x in g)) for folder, g in inside.items())
    return tuple(sorted(counts, key=lambda each: (-each.found, each.folder)))


@dataclass(frozen=True, slots=True)
class FindReport:
    """The hand-written gradients of a project, and the checks that cover them.

    paths        The files and folders that were read.
    gradients    The hand-written gradients, by file and line.
    folders      How many gradients each folder has, the largest first.
    unreadable   The files that cannot be read.
    counts       How many gradients were found, and how many are checked.
    next         What to do next; null where no gradient was found.
    environment  The versions of what the result depends on, by name, and the number of threads.
    exit_status  The exit status of this command.
    schema       The name of this schema, with its number.
    """

    paths: tuple[str, ...]
    gradients: tuple[FoundGradient, ...]
    folders: tuple[FolderCounts, ...]
    unreadable: tuple[UnreadableFile, ...]
    counts: FindCounts
    next: str | None
    environment: dict[str, str | int]
    exit_status: Status = 0
    schema: str = "gradcli.find/1"

    def blocks(self) -> tuple[Block, ...]:
        """Return the largest folders, the gradients by file, the files that cannot be read, and the counts."""
        found: list[Block] = []
        if len(self.folders) > 1:
            largest = [(_short_path(each.folder), each) for each in self.folders[:_MOST_FOLDERS]]
            widest = max(len(name) for name, _ in largest)
            digits = len(str(self.folders[0].found))
            lines = []
            for name, each in largest:
                what = "gradient, " if each.found == 1 else "gradients,"
                lines.append(f"  {name:<{widest}}  {each.found:>{digits}} {what} {each.checked} checked")
            more = len(self.folders) - len(largest)
            lines += [f"  and {more} more {'folder' if more == 1 else 'folders'}"] if more else []
            found += [Paragraph("by folder", 0), Code("\n".join(lines), "text")]
        for file, group in itertools.groupby(self.gradients, key=lambda gradient: gradient.file):
            these = [*group]
            digits = max(len(str(g.line)) for g in these)  # the parts of a row stand under those of the others
            wide = min(_WIDEST, max(len(g.name) for g in these))
            room = min(_WIDEST, max(len(g.what) for g in these))
            rows = [f"  {g.line:>{digits}}  {g.name:<{wide}}  {g.what:<{room}}  {g.checks}" for g in these]
            found += [Paragraph(Piece(_short_path(file), "strong"), 0, wraps=False), Code("\n".join(rows), "text")]
        if self.unreadable:
            reasons = "\n".join(f"  {_short_path(each.file)}: {each.reason}" for each in self.unreadable)
            found += [Paragraph("cannot be read", 0), Code(reasons, "text")]
        return (*found, Paragraph(Piece(str(self.counts), "strong"), 0))

    def brief(self) -> tuple[str, ...]:
        """Return the counts, a line for each gradient that is not checked, and what to do next."""
        open_ = [f"{g.file}:{g.line} {g.name}: {g.what}, {g.checks}" for g in self.gradients if not g.checked_by]
        return (str(self.counts), *open_, *([] if self.next is None else [f"next: {self.next}"]))

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the gradients as rows."""
        return ("file", "line", "name", "kind", "of", "found_by", "checked_by"), [
            (g.file, g.line, g.name, g.kind, g.of, g.found_by, " ".join(g.checked_by)) for g in self.gradients
        ]


def _short_path(path: str) -> str:
    """Return a path as it is shown: that of an installed package begins at the package."""
    return re.sub(r".*/(site|dist)-packages/(?=.)", "", path)
