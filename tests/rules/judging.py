"""Whether a number is the value or the slope of a primitive, at arguments inside and outside of its domain."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from gradcli.rules.special import ByOrder
from gradcli.tracing.primitive import Params, Primitive
from tests.rules.references import LARGEST, SMALLEST, Truth, mp, truth

RELATIVE = 1e-6  # what a slope may be off by, beyond what neighbouring floats differ by
NEIGHBOURS = 8  # steps to the neighbouring floats, by which the slope may move
GROWING = ("hyp",)  # mpmath takes minutes for arguments of these that are huge


class Judgement(Enum):
    """What is said of one number."""

    RIGHT = "right"
    REFUSED = "refused"  # nan, inf where the truth is finite, or an error: no number is claimed
    WRONG = "wrong"


@dataclass(frozen=True)
class Place:
    """Arguments of a primitive, and the one by which it is differentiated."""

    row: Primitive
    i: int
    xs: tuple[float, ...]
    params: Params

    def function(self, x: Any) -> Any:
        """Return the primitive as a function of that argument alone."""
        own = list(map(np.float64, self.xs))
        return self.row(*own[: self.i], x, *own[self.i + 1 :], **self.params)

    def truth(self) -> Truth:
        """Return what mpmath says. Raises NoReference."""
        return truth(self.row.name, self.i, self.xs, **self.params)

    def neighbours(self) -> Iterator["Place"]:
        """Yield the places one float away."""
        for k, x in enumerate(self.xs):
            if x == 0:  # exact: nothing was rounded to it
                continue
            for way in (-np.inf, np.inf):
                near = float(np.nextafter(x, way))
                yield Place(self.row, self.i, (*self.xs[:k], near, *self.xs[k + 1 :]), self.params)


def judged(found: float, place: Place, right: Truth, of_value: bool = False, bound: float = 0.0) -> Judgement:
    """Return whether a number is a slope, or the value, at a place; at an edge either one-sided slope is one.

    It is wrong if it is finite and the truth is not, or off by more than 1e-6 of it and 8 times what the truth moves by
    on the way to the neighbouring floats, and the bound that comes with it. Raises NoReference.
    """
    truths = _known(right, of_value)
    if np.isnan(found) or not np.isfinite(bound):
        return Judgement.REFUSED
    if np.isinf(found):
        return Judgement.RIGHT if any(abs(t) > LARGEST / 2 for t in truths) else Judgement.REFUSED
    if not truths:
        return Judgement.WRONG
    low, high = min(truths), max(truths)
    room = RELATIVE * max(abs(low), abs(high)) + SMALLEST * 2**53 + bound  # below it floats lose digits by themselves
    if low - room <= found <= high + room:
        return Judgement.RIGHT
    for near in place.neighbours():
        others = _known(near.truth(), of_value)
        room += NEIGHBOURS * max((abs(t - low) for t in others), default=mp.mpf(0))
    return Judgement.RIGHT if low - room <= found <= high + room else Judgement.WRONG


def _known(right: Truth, of_value: bool) -> list[Any]:
    return [t for t in ((right.value,) if of_value else (right.left, right.right)) if t is not None]


def as_function_has_it(place: Place, value: float) -> Truth:
    """Return the truth for a real function: where mpmath's value is complex there is none, unless it returns the real part.

    Raises  NoReference.
    """
    right = place.truth()
    if not right.complex or (np.isfinite(value) and abs(value - right.value) <= 1e-8 * abs(right.value)):
        return right
    return Truth(None, None, None)


def arguments(rng: Any, decades: float) -> float:
    """Return a number of one of these kinds: ordinary, from 0 to 1, huge or tiny, whole, half a whole, beside a whole one."""
    sign = rng.choice([-1.0, 1.0])
    kind, whole = rng.integers(0, 9), float(rng.integers(-4, 5))
    return float(
        rng.normal() * 2 if kind < 2
        else rng.uniform(0, 1) if kind == 2
        else sign * 10 ** rng.uniform(-decades, decades) if kind == 3
        else sign * 10 ** rng.uniform(-12, 6) if kind == 4
        else rng.integers(-20, 21) if kind == 5
        else rng.integers(-20, 21) + 0.5 if kind == 6
        else (np.nextafter(whole, sign * np.inf) if whole else sign * 10**-decades) if kind == 7
        else rng.uniform(-30, 60)
    )  # fmt: skip


def orders(rng: Any) -> float:
    """Return an order: whole, negative, half a whole, or any."""
    kinds = (
        rng.integers(0, 8),
        rng.integers(-6, 12),
        rng.integers(-6, 12) + 0.5,
        rng.uniform(-4, 10),
        rng.uniform(0, 4),
    )
    return float(kinds[rng.integers(0, len(kinds))])


def places(row: Primitive, params: Params, count: int, decades: float = 300) -> Iterator[Place]:
    """Yield places of a row, inside and outside of its domain, of sizes up to 10**decades; the same ones for the same row."""
    rng = np.random.default_rng(list(row.name.encode()))
    fixed = [isinstance(rule, ByOrder) for rule in row.rules]
    moving = [i for i, order in enumerate(fixed) if not order]
    for k in range(count):
        xs = [orders(rng) if order else arguments(rng, decades) for order in fixed]
        if row.name.startswith(GROWING) and abs(xs[-1]) > 1e4:
            xs[-1] = float(np.sign(xs[-1]) * abs(xs[-1]) ** 0.01)
        yield Place(row, moving[k % len(moving)], tuple(xs), params)
