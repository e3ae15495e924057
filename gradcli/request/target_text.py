"""What the texts of a request mean: which name Python code, how names are compared, which parts of a result are picked."""

import dataclasses
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import FunctionFailed

TARGET = re.compile(
    r"(?P<file>[^\n(]*\.py|[^\W\d][\w.]*)::?(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:(?P<made>\((?P<inside>.*)\))(?P<after>(?:\.[^\W\d]\w*)*))?",
    re.DOTALL,
)

ASSIGNMENT = re.compile(r"\s*(?:[^\W\d]\w*|\d+\.\w+)(?:\.\w+|\[\d+\])*\s*=(?!=)[^;\n]*")  # an argument NAME=VALUE


def is_python(text: str) -> bool:
    """Whether a target names Python code: `PATH.py:NAME`, `PATH.py:NAME(3, 5).METHOD`, `DOTTED.MODULE:NAME`, or a file alone."""
    stripped = text.strip()
    return TARGET.fullmatch(stripped) is not None or (stripped.endswith(".py") and "\n" not in stripped)


def is_folder(text: str) -> bool:
    """Whether a word names a folder: one that exists, or one that ends in a slash."""
    return bool(text.strip("/ ")) and (text.endswith("/") or os.path.isdir(text))  # noqa: PTH112 (never raises)


def names_python(text: str) -> bool:
    """Whether a target, a claim or a point may name Python code: it has a file or a module with a name after a colon."""
    return is_python(text) or ".py" in text


def has_several_targets(words: Sequence[str]) -> bool:
    """Whether the words of the command line name more than one target, or standard input."""
    return words[:1] == ["-"] or sum(k == 0 or not ASSIGNMENT.fullmatch(w) for k, w in enumerate(words)) > 1


def normalise_name(name: str) -> str:
    """Return a name in the form in which Python compares names (NFKC)."""
    return unicodedata.normalize("NFKC", name)


PASSES = (("forward", "backward"), ("fprop", "bprop"), ("forward_pass", "backward_pass"))  # the two methods of a layer
OUTPUTS = ("output", "outputs", "out", "y", "result", "activation", "activations")  # attributes of a layer
LOSSES = ("loss", "cost", "objective")  # methods of a network
GRADIENT_METHODS = ("gradient", "gradients", "grad", "grads")
_WORDS_OF_PASSES = (("forward", "backward"), ("fwd", "bwd"), ("fprop", "bprop"))  # among the words of a function's name


def output_of_pass(held: Any, returned: Any) -> Any:
    """Return the output of a forward pass: what it returned, else what its object keeps as such; None if there is none."""
    kept = {} if returned is not None else getattr(held, "__dict__", {})
    return next((kept[name] for name in OUTPUTS if kept.get(name) is not None), returned)


def backward_names(forward: str) -> list[str]:
    """Return the usual names of the backward pass: `conv_backward_naive` of `conv_forward_naive`, `relu_backward` of `relu`."""
    words = forward.split("_")
    found = [
        "_".join(b if word == a else word for word in words) for a, b in _WORDS_OF_PASSES if a in words and words != [a]
    ]
    return [*found, f"{forward}_backward", f"{forward}_bwd", f"backward_{forward}"]


# Which parts of what a function returns are its value and its gradient.

Part = int | str  # a position in a tuple, or a key


@dataclass(frozen=True, slots=True)
class Pick:
    """The parts of a result, each by its position in a tuple or by its key.

    With `pair` they are the value and the gradient in either order, or the value and the gradients by the first inputs.
    With `gradient_places` they are no parts of a result: it says where an object keeps each parameter's gradient, W's in `dw`.
    """

    value: Part = 0
    grad: Part = 1
    pair: bool = False
    gradient_places: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """How the option is written."""
        return ",".join(f"{a}={b}" for a, b in self.gradient_places or (("value", self.value), ("grad", self.grad)))

    @property
    def named(self) -> str:
        """How messages name the gradient."""
        if self.pair:
            return "the gradient that it returns"
        return f"part {self.grad} of its result" if isinstance(self.grad, int) else f"'{self.grad}' of its result"

    def value_of(self, y: Any, text: str) -> Any:
        """Return the value in the result `y` of the function `text`. Raises FunctionFailed."""
        return self._read_part(y, self.value, text)

    def gradient_of(self, y: Any, text: str) -> Any:
        """Return the gradient in a result. Raises FunctionFailed."""
        return self._read_part(y, self.grad, text)

    def _read_part(self, y: Any, part: Part, text: str) -> Any:
        if self.pair:
            if not isinstance(y, tuple | list) or len(y) < 2 or (len(y) > 2 and not _is_number(y[0])):
                raise self.no_pair(y, text)
            if len(y) > 2:
                return tuple(y[1:]) if part == self.grad else y[0]
            return y[1 - int(part) if _is_number(y[1]) and not _is_number(y[0]) else int(part)]
        if isinstance(y, Mapping):
            for key in (part, str(part)):
                if key in y:
                    return y[key]
            raise _error_of_missing_key(text, part, [str(key) for key in y])
        if isinstance(part, str):
            return _read_field(y, part, text)
        if not isinstance(y, tuple | list):
            says = f"{text} returns {_describe_kind(y)}, not a tuple or a dict"
            raise FunctionFailed(says, do="drop --pick, or return the value and the gradient")
        if not -len(y) <= part < len(y):
            count = f"{len(y)} part{'' if len(y) == 1 else 's'}"
            do = f"positions are 0 to {len(y) - 1}" if len(y) > 1 else "return the value and the gradient"
            raise FunctionFailed(f"{text} returns {count}, and --pick names part {part}", do=do)
        return y[part]

    def no_pair(self, y: Any, text: str) -> FunctionFailed:
        """Return the error that a result is no value with its gradient."""
        says = f"{text} does not return a pair of its value and its gradient"
        do = "drop --value-and-grad"
        if isinstance(y, Mapping) and len(y) > 1:
            value, grad = (str(key) for key in [*y][:2])
            do = f"name the two parts: --pick value={value},grad={grad}"
        elif isinstance(y, tuple | list) and len(y) > 2 and not isinstance(y[0], list | tuple):
            do = "name the two parts by position: --pick value=0,grad=1"
        return FunctionFailed(says, do=do)


PAIR = Pick(pair=True)


def _is_number(x: Any) -> bool:
    """Whether a part of a result is one number, or an array of one."""
    return isinstance(x, float | int) or getattr(x, "size", 2) == 1


def _read_field(y: Any, name: str, text: str) -> Any:
    """Return a field of a named tuple or a dataclass. Raises FunctionFailed."""
    fields = getattr(y, "_fields", ()) if isinstance(y, tuple) else ()
    if dataclasses.is_dataclass(y) and not isinstance(y, type):
        fields = tuple(field.name for field in dataclasses.fields(y))
    if name in fields:
        return getattr(y, name)
    if fields:
        raise _error_of_missing_key(text, name, fields)
    if isinstance(y, tuple | list):
        says = f"{text} returns a {type(y).__name__} of {len(y)} parts, which have no names, and --pick names '{name}'"
        raise FunctionFailed(says, do="positions count from 0: --pick value=0,grad=1")
    says = f"{text} returns {_describe_kind(y)}, not a tuple or a dict"
    raise FunctionFailed(says, do="drop --pick, or return the value and the gradient")


def _error_of_missing_key(text: str, part: Part, keys: Any) -> FunctionFailed:
    from gradcli.errors import closest_name

    alike = [key for key in keys if key.lower() == str(part).lower()]
    near = alike[0] if alike else closest_name(str(part), keys)
    listed = f"it has: {', '.join(keys)}" if keys else "it is empty"
    says = f"what {text} returns has no '{part}', which --pick names"
    return FunctionFailed(says, do=f"did you mean '{near}'? {listed}" if near else listed)


def _describe_kind(y: Any) -> str:
    if y is None:
        return "None"
    if isinstance(y, str):
        return "a string"
    if getattr(y, "ndim", 0):
        return "an array"
    return "a number" if isinstance(y, float | int) or hasattr(y, "ndim") else f"a value of type {type(y).__name__}"
