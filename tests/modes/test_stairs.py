"""Steps: a constant away from their jumps, a staircase where an entry reaches the result through them alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import NotSupported
from gradcli.modes.kinks import Mark, find_staircases, find_steps_at_jumps
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

ONE = np.float64(1)
TWO = np.array([1.3, -2.2])
STEPS = {
    "floor": np.floor, "ceil": np.ceil, "rint": np.rint, "trunc": np.trunc, "sign": np.sign,
    "floor_divide": lambda x: x // 0.3, "heaviside": lambda x: np.heaviside(x, 0.5),
}  # fmt: skip


def stairs(f: Callable[..., Any], *xs: Any) -> list[Mark]:
    program = record(f, xs)
    value = f(*xs)
    with np.errstate(all="ignore"):
        return find_staircases(f, xs, program, program.pull(np.ones(np.shape(value))[()]))


def jumps(f: Callable[..., Any], *xs: Any) -> list[Mark]:
    program = record(f, xs)
    bars = program.tape.sweep(program.y.slot, ONE)
    return find_steps_at_jumps(f, program, bars)


@for_rows("name", STEPS)
def test_an_entry_that_reaches_the_result_through_a_step_alone(name: str) -> None:
    (found,) = stairs(lambda x, y: STEPS[name](x * 2) * y, ONE, ONE)
    assert found.says == f"{name} is a step function: its slope is 0 although its value changes"
    assert [bool(mask) for mask in found.reach] == [True, False]


def test_of_copysign_the_sign_is_the_step() -> None:
    (found,) = stairs(lambda x, y: np.copysign(x * x, y), ONE, ONE)
    assert found.says.startswith("sign is a step function")


def test_every_step_of_the_table_is_tried() -> None:
    assert set(STEPS) == {row.name for row in PRIMITIVES.values() if row.staircase}


def guarded(x: Any, y: Any) -> Any:
    if np.any(x < -5):
        raise NotSupported("too small")
    return y * np.sum(x > -100)


def dead(x: Any) -> Any:
    np.sign(x)
    return np.sum(x**2)


def in_a_loop(x: Any) -> Any:
    total = 0.0
    for k in range(2):
        total = total + np.round(x[k])
    return total


THROUGH_STEPS = [
    (in_a_loop, (TWO,), [[True, True]]),
    (lambda x: np.sum(np.round(x)) + x[0] ** 2, (TWO,), [[False, True]]),
    (lambda x: np.sum(np.where(x > 0, 1.0, 0.0)), (TWO,), [[True, True]]),
    (lambda x: np.sum(x > 0.5) * 1.0, (TWO,), [[True, True]]),
    (lambda x, y: y[int(np.argmax(x))] ** 2, (TWO, TWO), [[True, True], [False, False]]),
    (lambda p: np.sum(np.random.default_rng(0).uniform(size=2) < p) * 1.0, (np.array([0.2, 0.6]),), [[True, True]]),
    (lambda x, y: np.sum(y) / np.sum(x > 0), (TWO, TWO), [[True, True], [False, False]]),
    (lambda x: 3.0 if x > 1.5 else 2.0, (ONE,), [True]),
    (lambda x: np.sum((np.round(x * 4) / 4) ** 2), (TWO,), [[True, True]]),
    (lambda x: np.sum(np.sort(np.floor(x))), (TWO,), [[True, True]]),
    (lambda x, y: np.where(x > 0, y, 2 * y), (ONE, ONE), [True, False]),
    (lambda x: np.median(np.floor(x)), (np.array([0.3, -1.2, 2.0]),), [[True, True, True]]),
    (lambda x: np.sum(np.outer(np.sign(x), x)[:, 0]), (TWO,), [[False, True]]),
]


@for_rows(("f", "xs", "reach"), THROUGH_STEPS)
def test_whichever_step_it_is(f: Callable[..., Any], xs: Any, reach: Any) -> None:
    found = stairs(f, *xs)
    assert found
    masks = [np.any([mark.reach[k] for mark in found], axis=0) for k in range(len(xs))]
    assert [np.asarray(mask).tolist() for mask in masks] == reach


@for_rows(
    ("f", "xs"),
    [
        (lambda x: x > 1e6, (ONE,)),  # where it was moved to, nothing changes
        (lambda x: np.floor(2.5) * x, (ONE,)),
        (lambda x: x * 2, (ONE,)),
        (lambda x: np.sum(x - np.round(x)), (TWO,)),
        (lambda x: np.sum(np.sign(x) * np.log1p(np.abs(x))), (TWO,)),
        (lambda x: np.sum(np.where(x > 0, x, 0.0)), (TWO,)),
        (lambda x: np.sum(x[x > 0]), (TWO,)),
        (lambda x: x**2 if x > 0 else 0.0, (-ONE,)),
        (lambda x: np.sum(np.maximum(x, 0) + (x > 0)), (TWO,)),
        (lambda x: x @ np.sign(x), (np.array([0.0, 0.0]),)),
        (np.median, (np.array([0.3, -1.2, 2.0]),)),  # another entry becomes the middle
        (lambda x: np.quantile(x, 0.3), (np.array([0.3, -1.2, 2.0, 4.0, 7.0]),)),
        (guarded, (TWO, ONE)),
        (dead, (TWO,)),
    ],
)
def test_a_constant_step_is_none(f: Callable[..., Any], xs: Any) -> None:
    assert stairs(f, *xs) == []


@for_rows(
    ("f", "x"),
    [
        (lambda x: x - np.floor(x), 2.0),
        (lambda x: (x - np.floor(x)) ** 2, 2.0),
        (lambda x: np.sign(x) * np.log1p(np.abs(x)), 0.0),
        (lambda x: np.floor(x) + (x - np.floor(x)) ** 2, 2.0),
        (lambda x: np.rint(x) * x, 0.5),
        (lambda x: x * np.floor(10 * x), 0.3),  # 10*x is 3 but for rounding
    ],
)
def test_a_step_at_its_jump(f: Callable[..., Any], x: float) -> None:
    (found, *_) = jumps(f, np.float64(x))
    assert found.says.endswith("is at its jump") and found.reach == (np.True_,)


@for_rows(
    ("f", "x"),
    [
        (lambda x: x - np.floor(x), 2.001),
        (dead, 0.0),
        (lambda x: x**2 + 0 * np.floor(x), 2.0),
        (lambda x: np.exp(x) * np.sign(x + 3), 0.0),
    ],
)
def test_a_step_elsewhere_or_without_effect(f: Callable[..., Any], x: float) -> None:
    assert jumps(f, np.float64(x)) == []
