"""Dual numbers: values and tangents together."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.arithmetic.dual import Dual, jvp
from gradcli.tracing import primitive
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)
ONE, TWO = np.float64(1), np.float64(2)
V = np.array([0.5, -1.0, 2.0])
numbers = st.floats(-10, 10, allow_nan=False).map(np.float64)


def curve(x: Any, y: Any) -> Any:
    return np.sin(x) * y + np.exp(-x * x) / (1 + y * y)


def test_value_and_tangent() -> None:
    assert jvp(lambda x: x**3, [TWO], [ONE]) == (8.0, 12.0)


def test_tangents_of_several_inputs_add_up() -> None:
    assert jvp(lambda x, y: x * y, [TWO, np.float64(5)], [np.float64(10), ONE])[1] == 5 * 10 + 2 * 1


@given(numbers, numbers, numbers, numbers, numbers)
def test_the_derivative_is_linear_in_the_tangent(x: Any, y: Any, a: Any, b: Any, scale: Any) -> None:
    def along(*tangent: Any) -> Any:
        return jvp(curve, [x, y], tangent)[1]

    parts = scale * along(a, np.float64(0)), along(np.float64(0), b)
    terms = np.abs([scale * a, b, *parts]).sum() * 25  # no slope of the curve exceeds 25 here
    assert abs(along(scale * a, b) - sum(parts)) <= 16 * EPS * terms + 1e-300  # underflow is absolute


@given(numbers, numbers)
def test_the_chain_rule(x: Any, xdot: Any) -> None:
    y, ydot = jvp(np.sin, [x], [xdot])
    z, zdot = jvp(lambda y: y * np.exp(y), [y], [ydot])
    assert (z, zdot) == jvp(lambda x: np.sin(x) * np.exp(np.sin(x)), [x], [xdot])


@for_rows("f", [lambda x: 5.0, lambda x: np.floor(x), lambda x: np.sign(x) * 3, lambda x: x < V])
def test_what_does_not_move_has_a_zero_tangent_of_its_shape(f: Any) -> None:
    y, ydot = jvp(f, [TWO], [ONE])
    assert np.shape(ydot) == np.shape(y)
    assert not np.any(ydot)


def test_a_tangent_has_the_shape_of_the_value_after_a_broadcast() -> None:
    y, ydot = jvp(lambda x: x + V, [TWO], [ONE])
    assert np.shape(y) == np.shape(ydot) == (3,)
    np.testing.assert_array_equal(ydot, np.ones(3))


def test_levels_are_restored_after_an_exception() -> None:
    def fails(x: Any) -> Any:
        return jvp(lambda y: y[5], [V], [V])

    with pytest.raises(IndexError):
        jvp(fails, [TWO], [ONE])
    assert primitive.sweep_depth() == 0


def test_a_dual_number_shows_its_value() -> None:
    assert repr(Dual(TWO, ONE, 1)) == "Dual(np.float64(2.0))"


def test_inputs_and_tangents_must_match_in_number() -> None:
    with pytest.raises(ValueError, match="zip"):
        jvp(lambda x, y: x, [TWO, TWO], [ONE])
