"""The report of `find`: the hand-written gradients of a project, and the checks that cover each."""

import itertools
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from gradcli.classes import dataclass
from gradcli.report.blocks import Block, Code, Paragraph, Piece
from gradcli.report.encode import Status
from gradcli.words import DerivativeKind, FoundBy

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
