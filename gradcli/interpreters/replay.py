"""A recorded run, run again: with every operation shaken, or with other rules at some of its lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gradcli.core.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.interpreters.tape import CONSTANT, Line, Recorded, Tape
from gradcli.primitives.kinds import Partial

_EPS = float(np.finfo(np.float64).eps)
LARGEST = 16.0  # move, in units of eps
_MOVES = np.setdiff1d(np.arange(-LARGEST, LARGEST + 1), [0.0])  # in units of eps, exact in float64
SIZE = float(np.sqrt(np.mean(_MOVES**2)))  # of a typical move
_POOL = 16_381  # random signs, of which each operation takes some; a prime, so that rows of arrays do not repeat them


@lru_cache(maxsize=16)
def _factors(seed: int, ulps: float) -> Any:
    factors = 1.0 + _EPS * ulps / LARGEST * np.random.default_rng([seed, _POOL]).choice(_MOVES, _POOL)
    factors.flags.writeable = False
    return factors


class Shake:
    """Multiplies each entry of a value by a number near one: what one more rounding could have done, `SIZE` times.

    The numbers have many sizes: two equal values that cancel must not be moved alike.
    """

    def __init__(self, seed: int, ulps: float = LARGEST) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = _factors(seed, ulps)

    def __call__(self, x: Value) -> Value:
        start = int(self.rng.integers(_POOL))
        if type(x) is not np.ndarray:
            return x * self.pool[start]
        if x.size <= _POOL - start:
            return x * self.pool[start : start + x.size].reshape(x.shape)
        return x * np.resize(np.roll(self.pool, start), x.shape)


@dataclass(frozen=True, slots=True)
class Shaken:
    """A rule whose cotangent is shaken before it is pulled back."""

    rule: Rule
    shake: Shake

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.rule.push(primitive, i, y, xs, self.shake(xdot), params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.rule.pull(self.shake(ybar), i, y, xs, params, transpose)


def shaken(tape: Tape, shake: Shake, kernels: bool = True, rough: Mapping[str, Shake] = {}) -> Tape:
    """Return the same run on the same branches, every value and every cotangent off by one rounding.

    Without `kernels`, slopes are the textbook's, which may lose digits that gradcli's own keep. Operations in `rough`,
    and their operands, are off by more.
    """

    @cache
    def loosened(primitive: Primitive) -> Primitive:
        own = primitive.rules if kernels else map(_textbook, primitive.rules)
        return replace(primitive, rules=tuple(Shaken(rule, rough.get(primitive.name, shake)) for rule in own))

    made = Tape(tape.level)
    for primitive, slots, xs, y, params, position in tape.lines:
        if primitive is not None:
            xs = [x if slot == CONSTANT else made.value(slot) for slot, x in zip(slots, xs, strict=True)]
            own = rough.get(primitive.name, shake)
            if (
                primitive.kind == "differential" or own is not shake
            ):  # inner roundings are those of operands a little off
                xs = [own(x) if isinstance(x, float | np.ndarray) else x for x in xs]
            y = own(primitive.fun(*xs, **(params or {})))
            primitive = loosened(primitive)
        made.lines.append((primitive, slots, xs, y, params, position))
    return made


def rerun(y: Value, inputs: Sequence[Recorded], tape: Tape, xs: Sequence[Value]) -> Value | None:
    """Return the value of a recorded program at other inputs, or None where it would have decided otherwise there.

    Decisions are comparisons, orders and steps like rounding: what the record holds as constants.
    """
    values: list[Value] = [None] * len(tape.lines)
    for recorded, x in zip(inputs, xs, strict=True):
        values[recorded.slot] = x

    def operands(slots: Sequence[int], constants: Sequence[Value]) -> list[Value]:
        return [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]

    for k, (primitive, slots, constants, _, params, _) in enumerate(tape.lines):
        if primitive is not None:
            values[k] = primitive.fun(*operands(slots, constants), **(params or {}))
    for primitive, slots, constants, decided, params, _ in tape.decisions:
        if primitive is not None and max(slots) != CONSTANT:
            again = primitive.fun(*operands(slots, constants), **(params or {}))
            if not np.array_equal(again, decided, equal_nan=True):
                return None
    return values[y.slot] if moves(y) else (y.primal if isinstance(y, Recorded) else y)


def _textbook(rule: Rule) -> Rule:
    return Partial(rule.partial) if isinstance(rule, Partial) and rule.kernel else rule


def with_rules(tape: Tape, rules: Mapping[int, Mapping[int, Rule]]) -> Tape:
    """Return the run with other rules: `rules[k][i]` is that of argument i at line k."""
    made = Tape(tape.level)
    made.lines = list(tape.lines)
    for k, changed in rules.items():
        made.lines[k] = _line_with(tape.lines[k], changed)
    return made


def _line_with(line: Line, changed: Mapping[int, Rule]) -> Line:
    primitive, slots, xs, y, params, position = line
    if primitive is None:
        return line
    own = tuple(changed.get(i) or primitive.rule(i) for i in range(len(slots)))
    return replace(primitive, rules=own), slots, xs, y, params, position


def pulled(tape: Tape, y: Value, ybar: Value, inputs: Sequence[Recorded]) -> list[Any]:
    """Return the cotangents of the inputs on a tape of the same lines as that of `y`."""
    return (
        tape.pull(Recorded(tape.value(y.slot), y.slot, tape), ybar, inputs) if moves(y) else list(map(_still, inputs))
    )


def _still(x: Recorded) -> Value:
    return np.zeros(np.shape(x.primal))[()]


def moves(y: Value) -> bool:
    """Whether a result depends on the inputs at all."""
    return isinstance(y, Recorded) and y.slot != CONSTANT
