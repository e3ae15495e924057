"""What is found in a project, and what is declared for it, as plain data that the reading process can send."""

from dataclasses import dataclass
from pathlib import Path

from gradcli.words import DerivativeKind, FoundBy


@dataclass(frozen=True, slots=True)
class Declared:
    """A check that the project declares: its id, its target, the texts of its claims, and the folder they are relative to.

    A target is `file.py:name`, `package.module:name`, or an expression; a claim is a name, `file.py:name`, or an expression.
    """

    id: str
    target: str
    claims: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its name, and its default as it is written, empty if it has none."""

    name: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A hand-written gradient: where it is defined, what it is, of which function, and the checks that cover it.

    `parameters` are those of the function that it is a gradient of, and `reachable` says whether both can be named from
    outside: functions of a module, or methods of an object of the module, which `through` names.
    """

    name: str
    file: str
    line: int
    kind: DerivativeKind
    of: str | None
    found_by: FoundBy
    checked_by: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    reachable: bool = False
    through: str = ""
    point: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that cannot be read, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The hand-written gradients in the files, by file and line, and the files that cannot be read."""

    gradients: tuple[Found, ...]
    unreadable: tuple[Unread, ...]
