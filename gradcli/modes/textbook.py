"""How textbooks write slopes of what the user wrote out: a softmax without its shift, a sigmoid and a tanh by their values.

The roundings differ. The slope of a sigmoid y near 1 is y (1 - y) there, a difference of nearly equal numbers, and through the
exponential it has all its digits; so has that of a softmax through its shift.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.rules.kinds import Partial
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.shapes import is_plain

_VIEWS = frozenset({"reshape", "transpose", "broadcast_to", "getitem", "positive"})
_INVERSE = "-1"  # the exponent of a power that is a reciprocal
_RISING = Primitive("sigmoid", lambda v: 1 / (1 + np.exp(-v)), (Partial(lambda y, v: y * (1 - y)),))
_TANH = Primitive("tanh", np.tanh, (Partial(lambda y, v: 1 - y * y),))


def constants_for_shifts(lines: Sequence[Line]) -> dict[int, Line]:
    """Return constants, by line, for the largest entries that are subtracted from their own array."""
    if not _has_primitive(lines, "max"):
        return {}
    constants: dict[int, Line] = {}  # by line: the largest entry as a constant
    found: dict[int, Line] = {}
    of: dict[int, tuple[int, Hashable]] = {}  # by slot: the line of the largest entry, and what its array is a view of
    array: dict[int, Hashable] = {}  # by slot: what it is a view of
    for k, (primitive, slots, _, y, params, position) in enumerate(lines):
        word = "" if primitive is None else primitive.name
        first = array.get(slots[0], slots[0]) if slots else CONSTANT
        if word == "max" and first != CONSTANT:
            of[k] = k, first
            constants[k] = None, (), (), y, None, position
        elif word == "subtract" and slots[1] in of and of[slots[1]][1] == first:
            found[of[slots[1]][0]] = constants[of[slots[1]][0]]
        elif word in _VIEWS:
            array[k] = (first, str(params)) if word == "getitem" else first
            if slots[0] in of:
                of[k] = of[slots[0]]
    return found


def _has_primitive(lines: Iterable[Line], word: str) -> bool:
    return any(primitive is not None and primitive.name == word for primitive, *_ in lines)


def has_other_slopes(lines: Sequence[Line]) -> bool:
    """Whether a textbook writes slopes of these lines otherwise."""
    return bool(constants_for_shifts(lines) or slopes_by_values(lines))


class _Exponentials:
    """The lines of a program that are exponentials, and sums and differences of them, as they are read."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[int, Any]] = {}  # by line of an exponential: the slot and the value of its argument
        self.plus_one: dict[int, int] = {}  # by line of 1 + exp(v): that of the exponential
        # by line of exp(u) +- exp(v): what u and v are
        self.pairs: dict[tuple[str, int], tuple[Hashable, Hashable]] = {}
        self._known: dict[int, Hashable] = {}  # by slot: what it is, so that -x is -x wherever it is written

    def key(self, slot: int) -> Hashable:
        return self._known.get(slot, slot)

    def read(self, k: int, word: str, slots: tuple[int, ...], xs: Any) -> None:
        """Note a line, if it is one of these."""
        if word == "negative":
            self._known[k] = "-", self.key(slots[0])
        elif word == "exp" and slots[0] != CONSTANT and is_plain(xs[0]):
            self.of[k] = slots[0], xs[0]
        elif word in ("add", "subtract"):
            inside = [slot for slot in slots if slot in self.of]
            others = [x for slot, x in zip(slots, xs, strict=True) if slot == CONSTANT]
            if word == "add" and len(inside) == len(others) == 1 and np.all(np.equal(others[0], 1)):
                self.plus_one[k] = inside[0]
            elif len(inside) == 2:
                self.pairs[word, k] = self.key(self.of[slots[0]][0]), self.key(self.of[slots[1]][0])


def slopes_by_values(lines: Sequence[Line]) -> dict[int, Line]:
    """Return lines for a sigmoid or a tanh that is written with exponentials, whose slopes are those of their values."""
    found: dict[int, Line] = {}
    if not _has_primitive(lines, "exp"):
        return found
    seen = _Exponentials()
    for k, (primitive, slots, xs, y, params, position) in enumerate(lines):
        word = "" if primitive is None else primitive.name
        seen.read(k, word, slots, xs)
        below = slots[-1] if slots else CONSTANT
        inverse = word == "reciprocal" or (word == "integer_power" and _INVERSE in map(str, (params or {}).values()))
        if below in seen.plus_one and (inverse or (word == "divide" and slots[0] == CONSTANT)):
            top = np.asarray(xs[0] if word == "divide" else 1.0, dtype=float)
            slot, v = seen.of[seen.plus_one[below]]
            if np.shape(v) == np.shape(y) and np.all(top != 0):
                found[k] = _falling_sigmoid(top), (slot,), (v,), y, None, position
        elif word == "divide" and slots[0] in seen.of and below in seen.plus_one:
            slot, v = seen.of[slots[0]]
            if seen.key(slot) == seen.key(seen.of[seen.plus_one[below]][0]):
                found[k] = _RISING, (slot,), (v,), y, None, position
        elif word == "divide" and ("subtract", slots[0]) in seen.pairs:
            first, second = seen.pairs["subtract", slots[0]]
            slot, v = next((own for own in seen.of.values() if seen.key(own[0]) == first), (CONSTANT, None))
            if seen.pairs.get(("add", below)) == (first, second) and second == ("-", first) and slot != CONSTANT:
                found[k] = _TANH, (slot,), (v,), y, None, position
    return found


def _falling_sigmoid(top: Any) -> Primitive:
    """Return c / (1 + exp(v)), whose slope is -y (1 - y/c)."""
    return Primitive("sigmoid", lambda v: top / (1 + np.exp(v)), (Partial(lambda y, v: -y * (1 - y / top)),))
