"""What all reports share: the target, findings, the environment."""

from collections.abc import Callable
from dataclasses import field
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal

from gradcli.classes import dataclass
from gradcli.errors import ErrorKind, GradcliError, Installed, Place, Where
from gradcli.report.blocks import Block, Paragraph, cut_line, make_visible
from gradcli.request.option_values import RandomSeed, seed_words
from gradcli.words import Kind, Severity, TargetKind

Shown = Literal["text", "rich", "notebook", "html"]  # what Python, rich, notebooks and pages ask a report for
_GIST = 160  # characters of a report on one line
_FRAME = 720  # the height of a page in a notebook, in pixels


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A report as a page, one file that needs nothing else: a notebook shows it in a frame.

    html  The content of the file.
    """

    html: str = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page into a file, and return its path."""
        file = Path(path)
        file.write_text(self.html, encoding="utf-8")
        return file

    def __str__(self) -> str:
        return self.html

    def _repr_html_(self) -> str:
        frame = f'<iframe title="gradcli" sandbox="allow-scripts" width="100%" height="{_FRAME}"'
        return f'{frame} srcdoc="{escape(self.html)}"></iframe>'


class Printed:
    """A report that shows itself: as text to `print`, in colour to rich, in the forms of a notebook, on one line by `repr`.

    The forms are set once, where reports are given to Python.
    """

    __slots__ = ()
    in_form: ClassVar[Callable[[Shown, Any], Any]] = staticmethod(lambda form, report: repr(report))

    def gist(self) -> str:
        """Return what the report is of and what it says, in few words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {cut_line(make_visible(self.gist()), _GIST)}>"

    def __str__(self) -> str:
        return str(Printed.in_form("text", self))

    def __rich__(self) -> Any:
        return Printed.in_form("rich", self)

    def page(self) -> HtmlPage:
        """Return the report as a page; what it draws of a check is computed now."""
        return HtmlPage(Printed.in_form("html", self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the report in the forms of a notebook by their media types: `include` alone, and none of `exclude`."""
        forms: dict[str, str] = Printed.in_form("notebook", self)
        left_out = exclude or ()
        return {kind: form for kind, form in forms.items() if kind in (include or forms) and kind not in left_out}


@dataclass(frozen=True, slots=True)
class Target:
    """What was differentiated, as the user wrote it.

    kind  Whether the target is an expression or Python code.
    text  The target as it was written, such as `sin(x*y)` or `losses.py:focal`.
    """

    kind: TargetKind
    text: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code.

    file    The file it is in.
    line    The line of the file, counted from 1.
    source  The text of this line.
    """

    file: str
    line: int
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth telling about the function, the point or the claim, with its place.

    kind       What the finding is about.
    severity   What the finding means for the verdict.
    message    What was found, as a sentence.
    hint       What to do about it, null where nothing is to be done.
    file       The file it was found in, null for an expression and where no place is known.
    line       The line of the file or of the expression, counted from 1; null where it is not known.
    column     The column of the line, counted from 1; null where it is not known.
    source     The text at this place, null where it is not known.
    operation  The operation that it is about, null where it is about none.
    """

    kind: Kind
    severity: Severity
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    operation: str | None = None


def finding(
    kind: Kind,
    severity: Severity,
    message: str,
    *,
    hint: str | None = None,
    at: Where | None = None,
    operation: str | None = None,
) -> Finding:
    """Return a finding at a place in the user's text; the column counts from 1."""
    if at is None or isinstance(at, Installed):
        return Finding(kind, severity, message, hint, operation=operation)
    if isinstance(at, Place):
        column = at.column + 1 if at.length else None
        return Finding(kind, severity, message, hint, at.file, at.line, column, at.source, operation)
    return Finding(kind, severity, message, hint, None, at.line, at.column + 1, at.source, operation)


# What stands for a field that a document leaves out.


class Absent:
    """The default of a field that is left out of the document when there is nothing to say."""

    def __bool__(self) -> Literal[False]:
        return False

    def __reduce__(self) -> str:
        return "ABSENT"  # copies, and what is read from a pickle, are the one object


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """An error in a document: the caret's line and column, or what is installed here, as text in `where`.

    kind     What kind of error it is.
    message  What happened, as a sentence.
    where    The line it happened on, and below it carets under the place; or what is installed here, if that is the
             reason; null where no place is known.
    hint     What to do about it, null where nothing is known to help.
    file     The file it happened in, where a line of a file is known.
    line     This line, counted from 1.
    """

    kind: ErrorKind
    message: str
    where: str | None = None
    hint: str | None = None
    file: str | Absent = ABSENT
    line: int | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The document for a request that could not be carried out.

    error   What happened, where, and what to do about it.
    schema  The name of this schema, with its number.
    line    The line of standard input that asked for it, counted from 1; null for the command line.
    id      The name of the check among several.
    """

    error: ErrorDetail
    schema: str = "gradcli.error/1"
    line: int | None = field(default=None)
    id: str | Absent = ABSENT


def error_report(error: GradcliError) -> ErrorReport:
    """Return the document for an error."""
    return ErrorReport(error_detail(error))


def error_detail(error: GradcliError) -> ErrorDetail:
    """Return an error as documents have it."""
    where = None if error.where is None else "\n".join(filter(None, error.where.caret()))
    file, line = (error.where.file, error.where.line) if isinstance(error.where, Place) else (ABSENT, ABSENT)
    return ErrorDetail(error.kind, error.what, where, error.do, file, line)


def seed_line(seed: int, indent: int = 2, *, repeats: bool = True) -> tuple[Block, ...]:
    """Return a line that names a seed that was drawn, and whether it `repeats` the run; nothing for one that the user gave."""
    if not isinstance(seed, RandomSeed):
        return ()
    again = f"The seed was drawn: {' '.join(seed_words(seed))} repeats this."
    return (Paragraph(again if repeats else f"The seed {seed} was drawn.", indent),)


@dataclass(frozen=True, slots=True)
class Opaque:
    """What stays of a value of the user's own type in another process: the name of the type."""

    type: str
