"""Ties: every function that compares finds them as kinks, and balls that cannot be told apart are undecided."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.recorded_program import record
from gradcli.errors import Undecided
from gradcli.modes.kinks import find_kinks, find_staircases
from tests.rows import for_rows

KNOTS = np.array([0.0, 1.0, 3.0])
Function = Callable[[Any], Any]

# fmt: off
#    name               function                                        a tie                   no tie
TIES: tuple[tuple[str, Function, list[float], list[float]], ...] = (
    ("sort",            lambda x: np.sort(x)[0],                        [1.0, 1.0, 2.0],        [1.0, 1.5, 2.0]),
    ("argsort",         lambda x: x[np.argsort(x)],                     [1.0, 1.0, 2.0],        [1.0, 1.5, 2.0]),
    ("partition",       lambda x: np.partition(x, 1)[1],                [1.0, 1.0, 2.0],        [1.0, 1.5, 2.0]),
    ("median",          lambda x: np.median(x),                         [1.0, 2.0, 2.0],        [1.0, 1.0, 2.0, 3.0, 3.0]),
    ("median even",     lambda x: np.median(x),                         [2.0, 2.0, 1.0, 2.0],   [1.0, 2.0, 2.0, 3.0]),
    ("percentile",      lambda x: np.percentile(x, 30),                 [1.0, 1.0, 2.0, 4.0],   [1.0, 2.0, 4.0, 4.0]),
    ("max",             lambda x: np.max(x),                            [2.0, 2.0, 1.0],        [1.0, 1.0, 2.0]),
    ("argmax",          lambda x: x[np.argmax(x)],                      [2.0, 2.0, 1.0],        [1.0, 1.0, 2.0]),
    ("argmin",          lambda x: x[np.argmin(x)],                      [1.0, 1.0, 2.0],        [1.0, 2.0, 2.0]),
    ("max initial",     lambda x: np.max(x, initial=2.0),               [2.0, 1.0],             [1.0, 1.5]),
    ("nanmax",          lambda x: np.nanmax(x),                         [2.0, 2.0],             [1.0, 2.0]),
    ("interp",          lambda x: np.interp(x, KNOTS, KNOTS**2),        [1.0, 2.0],             [0.5, 2.0]),
    ("interp end",      lambda x: np.interp(x, KNOTS, KNOTS**2),        [3.0],                  [4.0]),
    ("searchsorted",    lambda x: x * np.searchsorted(KNOTS, x),        [0.5, 1.0],             [0.5, 1.5]),
    ("digitize",        lambda x: x * np.digitize(x, KNOTS),            [0.5, 1.0],             [0.5, 1.5]),
    ("piecewise",       lambda x: np.piecewise(x, [x > 1], [np.square, np.abs]), [1.0, 2.0],    [1.5, 2.0]),
    ("select",          lambda x: np.select([x > 1], [x], -x),          [1.0, 2.0],             [1.5, 2.0]),
    ("unique",          lambda x: np.unique(x),                         [1.0, 1.0, 2.0],        [1.0, 1.5]),
    ("unwrap",          lambda x: np.unwrap(x, period=2.0),             [0.0, 1.0],             [0.0, 1.5]),
    ("sorted",          lambda x: sorted(x)[0],                         [1.0, 1.0],             [1.0, 2.0]),
    ("clip",            lambda x: np.clip(x, 0, 1),                     [1.0, 2.0],             [0.5, 2.0]),
    ("copysign",        lambda x: np.copysign(x, -1.0),                 [0.0, 1.0],             [0.5, 1.0]),
    ("frexp",           lambda x: np.frexp(x)[0],                       [0.5, 0.7],             [0.6, 0.7]),
    ("fmod",            lambda x: np.fmod(x, 1.0),                      [2.0, 0.5],             [0.0, 0.5]),
    ("fmax",            lambda x: np.fmax(x, 1.0),                      [1.0, 0.5],             [0.0, 0.5]),
    ("isclose",         lambda x: x * np.isclose(x, 0.0, rtol=0, atol=0.5), [0.5, 1.0],         [0.4, 1.0]),
    ("angle",           lambda x: x * (x < 0),                          [0.0, 1.0],             [0.5, 1.0]),
    ("huber",           lambda x: sc.huber(1.0, x),                     [1.0, 2.0],             [0.5, 2.0]),
)
# fmt: on


@for_rows(("f", "tie", "smooth"), [pytest.param(*rest, id=name) for name, *rest in TIES])
def test_a_tie_is_found_and_nothing_else(f: Function, tie: list[float], smooth: list[float]) -> None:
    assert found(f, tie)
    assert not found(f, smooth)


def found(f: Function, at: list[float]) -> list[Any]:
    run = record(lambda x: np.sum(f(x) * np.float64(1.5)), [np.array(at)])
    return find_kinks(run, run.tape.sweep(run.y.slot, np.float64(1)))


ORDERS: tuple[Function, ...] = (
    np.sort, np.argsort, np.median, np.max, lambda x: x[np.argmax(x)], lambda x: np.partition(x, 1), np.unique,
    lambda x: np.percentile(x, 40), lambda x: np.searchsorted(x, x[2]),
)  # fmt: skip


@for_rows("f", ORDERS)
def test_an_order_that_balls_cannot_decide_is_undecided(f: Function) -> None:
    third = Ball.lift(1.0) / 3.0
    x = np.stack([Ball.lift(np.float64(0.1)), third, third * 1.0])  # equal, and neither is known exactly
    with pytest.raises(Undecided):
        y, inputs, tape = record(f, [x])
        tape.pull(y, Ball.lift(np.ones(np.shape(y))), inputs)


def test_an_order_that_float64_cannot_see_is_undecided_and_never_wrong() -> None:
    with precision(300):
        tiny = Ball.lift(2.0**-100)
        x = np.stack([Ball.lift(1.0) + tiny, Ball.lift(1.0) * 1.0])
        with pytest.raises(Undecided, match="equal in float64"):
            np.sort(x)


@for_rows("f", [np.floor, np.fix, np.rint, np.sign, lambda x: np.floor_divide(x, 0.3), lambda x: np.modf(x)[1]])
def test_a_staircase_is_found(f: Function) -> None:
    xs = [np.array([0.4, 1.3])]
    program = record(lambda x: np.sum(f(x)), xs)
    assert find_staircases(lambda x: np.sum(f(x)), xs, program, program.pull(np.float64(1)))
