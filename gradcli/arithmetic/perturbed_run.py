"""A recorded program run again with every operation shaken: perturbed by about one rounding error."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Tape, drop_unread_values
from gradcli.classes import dataclass
from gradcli.rules.kinds import LARGE, Partial
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.tracing.shapes import size

_EPS = float(np.finfo(np.float64).eps)
LARGEST = 16.0  # perturbation, in units of eps
_MOVES = np.delete(np.arange(-LARGEST, LARGEST + 1), int(LARGEST))  # all but 0, in units of eps, exact in float64
SIZE = float(np.sqrt(np.mean(_MOVES**2)))  # root mean square of the perturbations
_POOL = 16_381  # random factors, of which each operation takes a part; prime, so that rows of arrays do not repeat them


@lru_cache(maxsize=16)
def _factor_pool(seed: int, ulps: float) -> Any:
    """Return the factors of the pool, repeated once, so that a whole pool can be taken from any start."""
    factors = np.tile(1.0 + _EPS * ulps / LARGEST * np.random.default_rng([seed, _POOL]).choice(_MOVES, _POOL), 2)
    factors.flags.writeable = False
    return factors


class Shake:
    """A function that multiplies each entry of a value by a random number near one; `ulps` is the largest perturbation.

    By default, a perturbation is about `SIZE` rounding errors. Perturbations have many sizes, so that two equal values that
    cancel do not change alike.
    """

    def __init__(self, seed: int, ulps: float = LARGEST) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = _factor_pool(seed, ulps)

    def __call__(self, x: Value) -> Value:
        start = int(self.rng.integers(_POOL))
        if type(x) is not np.ndarray:
            return x * self.pool[start]
        if x.size <= _POOL - start:
            return x * self.pool[start : start + x.size].reshape(x.shape)
        return _multiply_by_factors(x, self.pool[_POOL - start : 2 * _POOL - start])


def _multiply_by_factors(x: Value, factors: Value) -> Value:
    """Return the entries of an array, in C order, times the factors, which are used again and again."""
    flat = np.ravel(x)
    made = np.empty(flat.size, np.result_type(flat, factors))
    for first in range(0, flat.size, _POOL):
        part = flat[first : first + _POOL]
        np.multiply(part, factors[: part.size], out=made[first : first + _POOL])
    return made.reshape(x.shape)


@dataclass(frozen=True, slots=True)
class Shaken:
    """A rule whose tangent or cotangent is shaken before it is pushed forward or pulled back."""

    rule: Rule
    shake: Shake

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.rule.push(primitive, i, y, xs, self.shake(xdot), params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.rule.pull(self.shake(ybar), i, y, xs, params, transpose)


def perturb_program(
    program: RecordedProgram, shake: Shake, kernels: bool = True, rough: Mapping[str, Shake] = {}
) -> RecordedProgram:
    """Return the same program on the same branches, with every value and every cotangent shaken.

    Without `kernels`, slopes use the textbook partials, which may lose digits that the kernels keep. Operations in `rough`,
    and their operands, are shaken by the `Shake` that is given there.
    """

    @cache
    def loosened(primitive: Primitive) -> Primitive:
        own = [
            Partial(rule.partial) if isinstance(rule, Partial) and rule.kernel and not kernels else rule
            for rule in primitive.rules
        ]
        return replace(primitive, rules=tuple(Shaken(rule, rough.get(primitive.name, shake)) for rule in own))

    made, values, last_reads = Tape(program.tape.level), list[Value](), program.last_reads()
    end = program.y.slot if program.moves else CONSTANT  # its value says where the cotangent is nan
    for k, (primitive, slots, xs, y, params, position) in enumerate(program.lines):
        held: tuple[Sequence[Value], Value] = xs, y
        if primitive is not None:
            xs = [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, xs, strict=True)]
            own = rough.get(primitive.name, shake)
            # inner rounding errors of such an operation act like changes of its operands
            if primitive.kind == "differential" or own is not shake:
                xs = [own(x) if isinstance(x, float | np.ndarray) else x for x in xs]
            y = own(primitive.fun(*xs, **(params or {})))
            held = xs, y
            if k != end and size(y) >= LARGE:
                held = drop_unread_values(primitive, slots, xs, y, kernels)
            primitive = loosened(primitive)
        made.lines.append((primitive, slots, *held, params, position))
        values.append(y)
        for slot in last_reads[k]:
            values[slot] = None
    return program.on(made)


def perturb_operations(program: RecordedProgram, shakes: Mapping[str, Shake]) -> RecordedProgram:
    """Return the program with the values and cotangents of some operations shaken, and what depends on them run again.

    The operations themselves, which may be expensive, are not run again.
    """
    made, moved = Tape(program.tape.level), set[int]()
    for k, (primitive, slots, xs, y, params, position) in enumerate(program.lines):
        if primitive is not None and primitive.name in shakes:
            own = shakes[primitive.name]
            y, primitive = own(y), replace(primitive, rules=tuple(Shaken(rule, own) for rule in primitive.rules))
            moved.add(k)
        elif primitive is not None and moved.intersection(slots):
            xs = [x if slot == CONSTANT else made.value(slot) for slot, x in zip(slots, xs, strict=True)]
            y = primitive.fun(*xs, **(params or {}))
            moved.add(k)
        made.lines.append((primitive, slots, xs, y, params, position))
    return program.on(made)
