"""Every error a user can meet: what happened, where, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

ErrorKind = Literal[
    "error", "internal", "expression", "limit", "point", "claim", "shape", "usage", "unsupported", "no rule", "trace ended",
    "trace", "target", "function", "ended the process", "undecided", "timeout", "unverified", "contradiction", "not run",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text the user wrote: `text[start:start + length]`, counted in characters."""

    text: str
    start: int
    length: int = 1

    @property
    def source(self) -> str:
        """The characters the span covers."""
        return self.text[self.start : self.start + self.length]

    @property
    def line(self) -> int:
        """The line the span begins on, from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column the span begins at within its line, from 0."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1)

    def caret(self) -> tuple[str, str]:
        """Return the line that holds the span and the line of carets to print under it, at most 76 characters wide."""
        line = self.text.split("\n")[self.line - 1]
        width = max(1, min(self.length, len(line) - self.column))
        first = max(0, min(self.column - 30, len(line) - 70)) if len(line) > 70 else 0
        shown = line[first : first + 70]
        before, after = ("..." if first else ""), ("..." if first + 70 < len(line) else "")
        return before + shown + after, " " * (len(before) + self.column - first) + "^" * min(width, 70)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code and the columns of the operation on it; `column` counts from 0."""

    file: str
    line: int
    text: str
    column: int = 0
    length: int = 0

    @property
    def source(self) -> str:
        """The whole line, without its indent."""
        return self.text.strip()

    @property
    def operation(self) -> str:
        """The characters of the operation, or the whole line where they are not known."""
        return self.text[self.column : self.column + self.length] or self.source

    def caret(self) -> tuple[str, str]:
        """Return `file:line    source` and the carets to print under the operation; none where it is not known."""
        indent = len(self.text) - len(self.text.lstrip())
        head = f"{self.file}:{self.line}    "
        width = max(0, min(self.length, len(self.source) - (self.column - indent)))
        return head + self.source, " " * (len(head) + max(0, self.column - indent)) + "^" * width if width else ""


class GradcliError(Exception):
    """An error with three sentences: what happened, where, and what to do."""

    kind: ErrorKind = "error"

    def __init__(self, what: str, *, where: Span | Place | None = None, do: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.do)


def _rebuild(kind: type[GradcliError], what: str, where: Span | Place | None, do: str | None) -> GradcliError:
    return kind(what, where=where, do=do)


class BadExpression(GradcliError):
    """The expression is not in the language."""

    kind = "expression"


class TooLarge(GradcliError):
    """The request is over a limit that is checked before any work is done."""

    kind = "limit"


class BadPoint(GradcliError):
    """A point, a value or a data file cannot be used."""

    kind = "point"


class BadClaim(GradcliError):
    """A claimed gradient cannot be read or evaluated."""

    kind: ErrorKind = "claim"


class BadShape(GradcliError):
    """Two values do not fit together."""

    kind = "shape"


class BadOption(GradcliError):
    """An option, a command or an argument is not known or not usable."""

    kind = "usage"


class NotSupported(GradcliError):
    """A target or mode asks for something gradcli does not do."""

    kind: ErrorKind = "unsupported"


class SlopeNotFinite(NotSupported):
    """A rule has no finite slope at the point, so that the recorded program has no gradient there; f may have one."""


class NoRule(NotSupported):
    """A numpy function without a derivative rule was called on a traced value."""

    kind = "no rule"


class TraceEnded(NotSupported):
    """A traced value was turned into a plain number, so that its derivative is lost.

    `raised` counts them: a function that catches one and goes on has lost its trace all the same.
    """

    kind = "trace ended"
    raised = 0

    def __init__(self, what: str, *, where: Span | Place | None = None, do: str | None = None) -> None:
        super().__init__(what, where=where, do=do)
        TraceEnded.raised += 1


class TraceDiffers(GradcliError):
    """What was traced is not what the function does: nothing traced can confirm anything."""

    kind = "trace"


class BadTarget(GradcliError):
    """A file, a module or a name in it cannot be loaded, or its parameters cannot be filled."""

    kind = "target"


class FunctionFailed(GradcliError):
    """The user's function raised, or returned something that has no gradient."""

    kind = "function"


class ProcessEnded(GradcliError):
    """The user's code ended the process: by os._exit, a signal, a crash, or want of memory."""

    kind = "ended the process"


class NotConfirmed(AssertionError):
    """A gradient was not confirmed: shown to be wrong, or inconclusive; the message is the verdict."""


class Undecided(GradcliError):
    """A ball is too wide to say which side of a comparison it is on."""

    kind = "undecided"


class OutOfTime(GradcliError):
    """A mode ran over its time or memory."""

    kind = "timeout"
