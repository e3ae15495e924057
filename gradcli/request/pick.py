"""Which parts of what a function returns are its value and its gradient."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import FunctionFailed

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
