"""What all reports share: the target, findings, the environment."""

from dataclasses import dataclass, field

from gradcli.errors import GradcliError, Place, Span
from gradcli.words import Severity


@dataclass(frozen=True, slots=True)
class Target:
    """What was differentiated, as the user wrote it."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth telling about the function, the point or the claim, with its place."""

    kind: str
    severity: Severity
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    operation: str | None = None


def finding(
    kind: str,
    severity: Severity,
    message: str,
    *,
    hint: str | None = None,
    at: Span | Place | None = None,
    operation: str | None = None,
) -> Finding:
    """Return a finding at a place in the user's text; the column counts from 1."""
    if at is None:
        return Finding(kind, severity, message, hint, operation=operation)
    if isinstance(at, Place):
        column = at.column + 1 if at.length else None
        return Finding(kind, severity, message, hint, at.file, at.line, column, at.source, operation)
    return Finding(kind, severity, message, hint, None, at.line, at.column + 1, at.source, operation)


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """An error in a document: the caret's line and column as text in `where`."""

    kind: str
    message: str
    where: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The document for a request that could not be carried out."""

    error: ErrorDetail
    schema: str = "gradcli.error/1"
    line: int | None = field(default=None)


def error_report(error: GradcliError) -> ErrorReport:
    """Return the document for an error."""
    where = None if error.where is None else "\n".join(filter(None, error.where.caret()))
    return ErrorReport(ErrorDetail(error.kind, error.what, where, error.do))
