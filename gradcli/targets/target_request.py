"""One target of a command, with the point and the claim that belong to it alone."""

import re
from dataclasses import field
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import BadOption, BadPoint, NotSupported
from gradcli.request.target_text import is_python, names_python

_ENTRY = re.compile(r"\w+(?:\.\w+|\[\d+\])+")  # of an argument: params.A


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """One target, with the options that belong to it alone.

    `at` and `values` give its point: strings as for `--at`, and the values of a JSON line. `claim` is the option that claims a
    derivative, and its text. `line` is its line of standard input, `texts_from_line` the `grad` and `at` of a JSON line, which
    may name Python code, and `problem` what is wrong with the line. `python_allowed` says whether a line of standard input
    may name Python code. With `separate_points`, each string of `at` is a point of its own, which inherits nothing. `module` is
    a module whose objects the point of an expression may name; without it, an expression takes data alone.
    """

    target: str
    at: tuple[str, ...] = ()
    claim: tuple[str, str] | None = None
    wrt: str | None = None
    line: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    python_allowed: bool = False
    texts_from_line: tuple[str, ...] = ()
    separate_points: bool = False
    module: str = ""

    @property
    def points_of(self) -> str:
        """The target whose module the point may name."""
        return f"{self.module}:_" if self.module else self.target

    @property
    def runs_python(self) -> bool:
        """Whether the target, its claim or its point names Python code."""
        texts = (self.target, *self.at, *self.texts_from_line, *([] if self.claim is None else [self.claim[1]]))
        return any(names_python(text) for text in texts)


def checked_point_texts(request: TargetRequest) -> tuple[str, ...]:
    """Return the strings of the point, with the values of a JSON line's `at` written as NAME=VALUE.

    Raises  BadOption for a malformed line; NotSupported for Python code from standard input that is not allowed; BadPoint
            for a value that is not numeric, or a key that cannot be the name of an input.
    """
    if request.problem is not None:
        raise BadOption(request.problem, do='write {"target": "x*y", "at": {"x": 1, "y": 2}}')
    if request.line is not None and not request.python_allowed:
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
