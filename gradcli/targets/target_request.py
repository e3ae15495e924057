"""What is asked of one target: its text, its point and its options, as data."""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import BadOption, BadPoint, NotSupported
from gradcli.request.options import CLAIM_KINDS, DEFAULTS, Options, find_claim, words_to_repeat
from gradcli.request.target_text import is_python, names_python

_ENTRY = re.compile(r"\w+(?:\.\w+|\[\d+\])+")  # of an argument: params.A


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """One target, with its point and the options that hold for it.

    `at` and `values` give its point: strings as for `--at`, and the values of a JSON line; or `point` does, values as Python has
    them, by path. `line` is its line of standard
    input, `texts_from_line` the `grad` and `at` of a JSON line, which may name Python code, and `problem` what is wrong with
    the line. With `separate_points`, each string of `at` is a point of its own, which inherits nothing. `module` is a module
    whose objects the point of an expression may name; without it, an expression takes data alone. `sizes` are numbers of
    named sizes, and `command` is what repeats the check, where that is not its own command.
    """

    target: str
    at: tuple[str, ...] = ()
    options: Options = DEFAULTS
    line: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    point: dict[str, Any] | None = None
    problem: str | None = None
    texts_from_line: tuple[str, ...] = ()
    separate_points: bool = False
    module: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def claim(self) -> tuple[str, Any] | None:
        """The kind of derivative that is claimed, and the claim; None without a claim. Raises BadOption for two claims."""
        return find_claim(self.options)

    @property
    def command_to_repeat(self) -> tuple[str, ...]:
        """The command that repeats this check exactly."""
        options = replace(self.options, at=checked_point_texts(self))
        return self.command or ("gradcli", "check", self.target, *words_to_repeat(options))

    @property
    def points_of(self) -> str:
        """The target whose module the point may name."""
        return f"{self.module}:_" if self.module else self.target

    @property
    def runs_python(self) -> bool:
        """Whether the target, its claim or its point names Python code."""
        claims = (getattr(self.options, kind) for kind in CLAIM_KINDS)
        texts = (self.target, *self.at, *self.texts_from_line, *claims)
        return any(isinstance(text, str) and names_python(text) for text in texts)


def checked_point_texts(request: TargetRequest) -> tuple[str, ...]:
    """Return the strings of the point, with the values of a JSON line's `at` written as NAME=VALUE.

    Raises  BadOption for a malformed line; NotSupported for Python code from standard input that is not allowed; BadPoint
            for a value that is not numeric, or a key that cannot be the name of an input.
    """
    if request.problem is not None:
        raise BadOption(request.problem, do='write {"target": "x*y", "at": {"x": 1, "y": 2}}')
    if request.line is not None and not request.options.allow_python:
        for text in (request.target, *request.texts_from_line):
            if is_python(text):
                says = f"'{text}' names Python code, which standard input may not run"
                raise NotSupported(says, do="allow it: --allow-python")
    if not all(name.isidentifier() or _ENTRY.fullmatch(name) for name in request.values):
        raise BadPoint("a key of `at` is not an identifier", do="use the inputs' names as keys")
    written = [f"{name}={format_value(name, x)}" for name, x in request.values.items()]
    return (*request.at, ", ".join(written)) if written else request.at


def format_value(name: str, x: Any, formulas: bool = False) -> str:
    """Return a JSON value as a string for `--at` or `--grad`; with `formulas`, strings are formulas. Raises BadPoint."""
    if formulas and isinstance(x, str):
        return x
    if isinstance(x, bool) or not isinstance(x, int | float | list):
        raise BadPoint(f"{name} is not a number or a list of numbers", do=f'write {{"{name}": 0.5}}')
    if isinstance(x, list):
        return "[" + ", ".join(format_value(name, part) for part in x) + "]"
    return repr(x)
