"""The errors that users can meet; each says what happened, where, and what to do."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from gradcli.classes import dataclass

ErrorKind = Literal[
    "error", "internal", "expression", "limit", "point", "claim", "shape", "usage", "unsupported", "no rule", "trace ended",
    "trace", "target", "function", "ended the process", "undecided", "timeout", "unverified", "contradiction", "not run",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a string that the user wrote: `text[start:start + length]`, in characters."""

    text: str
    start: int
    length: int = 1

    @property
    def source(self) -> str:
        """The characters that the span covers."""
        return self.text[self.start : self.start + self.length]

    @property
    def line(self) -> int:
        """The line on which the span begins, counted from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column at which the span begins, counted from 0."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1)

    def caret(self) -> tuple[str, str]:
        """Return the line of the span and a line of carets to print under it, both at most 76 characters wide."""
        line = self.text.split("\n")[self.line - 1]
        width = max(1, min(self.length, len(line) - self.column))
        first = max(0, min(self.column - 30, len(line) - 70)) if len(line) > 70 else 0
        shown = line[first : first + 70]
        before, after = ("..." if first else ""), ("..." if first + 70 < len(line) else "")
        return before + shown + after, " " * (len(before) + self.column - first) + "^" * min(width, 70)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code, and the columns of an operation on it; `column` counts from 0."""

    file: str
    line: int
    text: str
    column: int = 0
    length: int = 0

    @property
    def source(self) -> str:
        """The whole line without its indentation."""
        return self.text.strip()

    @property
    def operation(self) -> str:
        """The source of the operation, or the whole line if its columns are unknown."""
        return self.text[self.column : self.column + self.length] or self.source

    def caret(self) -> tuple[str, str]:
        """Return `file:line    source` and the carets to print under the operation; no carets if its columns are unknown."""
        indent = len(self.text) - len(self.text.lstrip())
        head = f"{self.file}:{self.line}    "
        width = max(0, min(self.length, len(self.source) - (self.column - indent)))
        return head + self.source, " " * (len(head) + max(0, self.column - indent)) + "^" * width if width else ""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is installed here, as a sentence, for a request that it cannot carry out: `torch 2.13.0+cpu finds ...`."""

    says: str

    def caret(self) -> tuple[str, str]:
        """Return the sentence, and no carets."""
        return self.says, ""


Where = Span | Place | Installed


class GradcliError(Exception):
    """The base of all errors of gradcli: `what` happened, `where`, and what to `do`."""

    kind: ErrorKind = "error"

    def __init_subclass__(cls, kind: ErrorKind | None = None) -> None:
        super().__init_subclass__()
        if kind is not None:
            cls.kind = kind

    def __init__(self, what: str, *, where: Where | None = None, do: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.do)


def _rebuild(kind: type[GradcliError], what: str, where: Where | None, do: str | None) -> GradcliError:
    return kind(what, where=where, do=do)


class BadExpression(GradcliError, kind="expression"):
    """The expression is not in the language."""


class TooLarge(GradcliError, kind="limit"):
    """The request exceeds a limit that is checked before any work is done."""


class BadPoint(GradcliError, kind="point"):
    """A point, a value or a data file cannot be used."""


class BadClaim(GradcliError, kind="claim"):
    """A claimed gradient cannot be read or evaluated."""


class BadShape(GradcliError, kind="shape"):
    """The shapes of two values do not fit together."""


class BadOption(GradcliError, kind="usage"):
    """An option, a command or an argument is unknown or cannot be used."""


class NotSupported(GradcliError, kind="unsupported"):
    """A target or a mode needs something that gradcli does not support."""


class SlopeNotFinite(NotSupported):
    """A rule has no finite slope at the point, so the recorded program has no gradient there; f itself may have one."""


class NoRule(NotSupported, kind="no rule"):
    """A numpy function without a derivative rule was called on a traced value."""


class TraceEnded(NotSupported, kind="trace ended"):
    """A traced value was converted to a plain number, so that its derivative is lost.

    `raised` counts these errors, because a function that catches one and continues has lost its trace too.
    """

    raised = 0

    def __init__(self, what: str, *, where: Where | None = None, do: str | None = None) -> None:
        super().__init__(what, where=where, do=do)
        TraceEnded.raised += 1


class CannotCompile(TraceEnded, kind="unsupported"):
    """The function needs a plain value, or a shape that depends on values, so that it may do something else at others."""


class TraceDiffers(GradcliError, kind="trace"):
    """The trace differs from the function, so that traced modes can confirm nothing."""


class BadTarget(GradcliError, kind="target"):
    """A file, a module or a name in it cannot be loaded, or its parameters cannot be filled."""


class FunctionFailed(GradcliError, kind="function"):
    """The user's function raised an exception, or returned something that has no gradient."""


class ProcessEnded(GradcliError, kind="ended the process"):
    """The user's code ended the process, by os._exit, a signal, a crash, or lack of memory."""


class NotConfirmed(AssertionError):
    """A gradient is wrong, or the check is inconclusive; the message is the verdict, or the whole `report`."""

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class Undecided(GradcliError, kind="undecided"):
    """A ball is too wide to decide a comparison, or an operation raises an error in a perturbed run."""


class OutOfTime(GradcliError, kind="timeout"):
    """A mode exceeded its limit of time or memory."""


_SHORTEST = 10.0  # seconds: the shortest time limit that is suggested


class SuiteTimeUp(OutOfTime):
    """The time limit of `--timeout` is over.

    `points` are the reports that were finished by then, and `report` says what is checked; where it has points itself, the
    verdict was decided, and only the cause was still looked for.
    """

    def __init__(self, seconds: float, points: tuple[Any, ...] = (), report: Any = None) -> None:
        super().__init__(f"time is up after {seconds:g} s", do=f"--timeout {max(_SHORTEST, 4 * seconds):g}s")
        self.points, self.report = points, report


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it comes from, ten at most."""
    found: BaseException | None = error
    for _ in range(10):
        if found is not None:
            yield found
            found = found.__cause__ or found.__context__


def install_command(*extras: str) -> str:
    """Return how to install what a part of gradcli needs, or one of several: gradcli is installed from a clone."""
    return "in a clone of gradcli: " + " or ".join(f'pip install ".[{extra}]"' for extra in extras)


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, to suggest it; None if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1, 0.6)), None)
