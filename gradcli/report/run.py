"""The report of `run`: the hand-written gradients that a program used, each checked at values that it had."""

from collections.abc import Sequence
from dataclasses import field, replace

from gradcli.classes import dataclass
from gradcli.report.blocks import Block, Cell, Heading, Paragraph, Piece, Table, Verbatim, make_visible
from gradcli.report.brief_of_check import Word
from gradcli.report.check import COLUMNS
from gradcli.report.common import ABSENT, Absent, ErrorDetail, ErrorReport, seed_line
from gradcli.report.encode import TEXT_ONLY, Status, encode
from gradcli.report.suite import STATUS, CheckRow, SuiteReport, count_verdicts, row_of_document
from gradcli.words import DerivativeKind, Exit, Kind, worst_status

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
