"""Sweeps inside sweeps: each derivative sees its own variable and no other."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.tracing import primitive
from tests.rows import for_rows

ONE, TWO = np.float64(1), np.float64(2)
EPS = float(np.finfo(np.float64).eps)


def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jvp(f, [x], [ONE])[1]


def reverse(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: vjp(f, [x])[1](ONE)[0]


SWEEPS = {"forward": forward, "reverse": reverse}
PAIRS = list(itertools.product(SWEEPS, repeat=2))
TRIPLES = list(itertools.product(SWEEPS, repeat=3))


@for_rows(("outer", "inner"), PAIRS)
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    """d/dx (x d/dy (x + y)) = 1, the example of Siskind and Pearlmutter (2005)."""
    f = SWEEPS[outer](lambda x: x * SWEEPS[inner](lambda y: x + y)(ONE))
    assert f(ONE) == 1.0


@for_rows(("outer", "inner"), PAIRS)
def test_an_inner_derivative_may_depend_on_the_outer_variable(outer: str, inner: str) -> None:
    f = SWEEPS[outer](lambda x: SWEEPS[inner](lambda y: x * x * y**3)(TWO))  # 12 x^2
    assert f(np.float64(5)) == 24 * 5.0


@for_rows(("outer", "inner"), PAIRS)
def test_an_inner_derivative_at_the_outer_variable(outer: str, inner: str) -> None:
    f = SWEEPS[outer](lambda x: x * SWEEPS[inner](lambda y: y * y * x)(x))  # x (2 x x) = 2 x^3
    assert f(TWO) == 6 * 4.0


@for_rows("order", TRIPLES, ids="-".join)
def test_third_derivatives_in_every_order_of_sweeps(order: tuple[str, ...]) -> None:
    f: Any = lambda x: np.exp(2 * x) * x
    for name in order:
        f = SWEEPS[name](f)
    right = (12 + 8 * 0.25) * np.exp(0.5)
    assert f(np.float64(0.25)) == pytest.approx(right, rel=16 * EPS)  # a sum of a dozen positive terms


@for_rows("order", TRIPLES, ids="-".join)
def test_third_derivatives_in_balls(order: tuple[str, ...]) -> None:
    f: Any = lambda x: np.tanh(x)
    for name in order:
        f = SWEEPS[name](f)
    with precision(200):
        y = Ball.lift(0.75)
        t = np.tanh(y)
        right = -2 * (1 - t * t) * (1 - 3 * t * t)
        found = f(y)
    assert found.value.overlaps(right.value)
    assert float(found.value.rad()) < 1e-50


def test_an_inner_sweep_that_fails_leaves_the_outer_one_working() -> None:
    def f(x: Any) -> Any:
        try:
            vjp(lambda y: 1 / 0, [x])
        except ZeroDivisionError:
            assert primitive.sweep_depth() == 1
        return reverse(lambda y: x * y)(TWO) * x

    assert reverse(f)(np.float64(3)) == 6.0
    assert forward(f)(np.float64(3)) == 6.0


def test_hessian_of_several_inputs_is_symmetric_in_every_order() -> None:
    point = np.array([0.3, -0.7, 1.1])

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x[::-1]) * np.prod(x)

    rows = [jvp(reverse(f), [point], [unit])[1] for unit in np.eye(3)]
    columns = [reverse(lambda x, unit=unit: jvp(f, [x], [unit])[1])(point) for unit in np.eye(3)]
    np.testing.assert_allclose(rows, np.transpose(rows), atol=16 * EPS)  # entries of order one
    np.testing.assert_allclose(rows, columns, atol=16 * EPS)
