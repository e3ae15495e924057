"""How an option is written and read: the form of a row in the table of options."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ROW = "option"  # the key of a field's metadata


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is written and read.

    `kind` is the type on the command line: a string, which `read` converts to the value, a number, or a flag. `write`
    returns the strings of the value in a replayed command, and `take` converts the value of Python's keyword. An option
    without `write` is not replayed, and one without `take` is no keyword. One that is `hidden` is accepted, and is not in the
    help.
    """

    name: str
    flags: tuple[str, ...]
    metavar: str
    help: str
    on: tuple[str, ...]
    group: str | None
    default: Any
    kind: type
    repeated: bool
    low: int | None
    high: int | None
    read: Callable[[str, Any], Any] | None
    write: Callable[[Any], Sequence[str]] | None
    take: Callable[[str, Any], Any] | None
    hidden: bool

    @property
    def flag(self) -> str:
        """The long name of the option, such as `--at`."""
        return self.flags[0]

    def value(self, given: Any) -> Any:
        """Return the value of an option from what the command line gave. Raises BadOption."""
        if given is None:
            return self.default
        return given if self.read is None else self.read(self.flag, given)


def row(
    flags: str, metavar: str, help: str, *, on: Sequence[str], default: Any = None, kind: type = str, group: str | None = None,
    repeated: bool = False, low: int | None = None, high: int | None = None,
    read: Callable[[str, Any], Any] | None = None, write: Callable[[Any], Sequence[str]] | None = None,
    take: Callable[[str, Any], Any] | None = None, hidden: bool = False,
) -> Any:  # fmt: skip
    """Return a field of `Options` whose metadata is its row of the table."""
    about = Option(
        "", tuple(flags.split()), metavar, help, tuple(on), group, default, kind, repeated, low, high, read, write, take,
        hidden,
    )  # fmt: skip
    return dataclasses.field(default=default, metadata={ROW: about})


def as_given(name: str, value: Any) -> Any:
    """Return a value of Python as it is."""
    return value


def first_or_second(name: str, order: int) -> int:
    """Return an order of derivatives. Raises TypeError."""
    if order not in (1, 2):
        raise TypeError(f"{name}={order!r}: the order of the derivative is 1 or 2")
    return order


def one(value: Any) -> Sequence[str]:
    """Return the one word of a value."""
    return (value if isinstance(value, str) else repr(value),)


def all_of(values: Sequence[str]) -> Sequence[str]:
    """Return the words of a repeated option."""
    return values


def flag_alone(value: bool) -> Sequence[str]:
    """Return the word of a flag, which has no value."""
    return ("",)


def listed(values: frozenset[str]) -> Sequence[str]:
    """Return a set as one word."""
    return (",".join(sorted(values)),)


def in_seconds(value: float) -> Sequence[str]:
    """Return a time as one word."""
    return (f"{value:g}s",)


def short(x: float) -> str:
    """Return a number without needless zeros."""
    return repr(float(x)).removesuffix(".0")
