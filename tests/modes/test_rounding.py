"""Rounding: the float64 gradient lies within what 53-bit balls say of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, bound_error, precision, radius
from gradcli.arithmetic.dual import cotangent_rows as jacobian
from gradcli.arithmetic.dual import jacobian_from_rows
from gradcli.arithmetic.recorded_program import record
from gradcli.errors import Undecided
from gradcli.modes.rounding import FUNCTION_ERROR, contribution_of_line, record_in_balls, rounding_bounds
from tests.rows import for_rows

A = np.array([[4.0, 1.0, 0.3], [0.2, 3.0, 1.0], [1.0, 0.5, 5.0]])
V = np.array([0.3, -1.1, 2.2])
ONE = np.float64(1)

PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "cancellation": (lambda x: (1e8 + x * x) - 1e8, [np.float64(1.1)]),
    "product of sums": (lambda x, y: (x + y) * (x - y) / (x * y + 3), [np.float64(1.1), np.float64(0.7)]),
    "vector": (lambda x: np.exp(np.sin(x)) * x[::-1], [V]),
    "matrix": (lambda a, x: np.tanh(a @ x), [A / 7, V]),
    "solve": (lambda a, x: np.linalg.solve(a, x), [A, V]),
    "long sum": (lambda x: sum(np.sin(x * k) for k in range(1, 60)), [np.float64(0.37)]),
    "softmax": (lambda x: np.exp(x - 2.2) / np.sum(np.exp(x - 2.2)), [V]),
}


@for_rows("name", PROGRAMS)
def test_the_float_gradient_is_inside_its_radius(name: str) -> None:
    f, xs = PROGRAMS[name]
    made = record(f, xs)
    y, rows = made.y, jacobian(made, ONE)
    program = record_in_balls(f, xs)
    bounds, value_bound = rounding_bounds(program, xs), radius(program.value)
    with precision(256):
        in_balls = record(f, [Ball.lift(x) for x in xs])
        y_right, right = in_balls.y, jacobian(in_balls, Ball.lift(1))
        assert np.all(bound_error(y_right.primal, y.primal) <= value_bound + FUNCTION_ERROR * np.abs(y.primal))
        for k, bound in enumerate(bounds):
            found = jacobian_from_rows(rows, y, k, xs[k])
            errors = jacobian_from_rows(
                [[bound_error(b, x) for b, x in zip(*pair, strict=True)] for pair in zip(right, rows, strict=True)],
                y,
                k,
                xs[k],
            )
            assert bound.shape == found.shape == y.shape + np.shape(xs[k])
            assert np.all(errors <= bound + FUNCTION_ERROR * np.abs(found))


def test_cancellation_is_in_the_radius() -> None:
    value_bound = radius(record_in_balls(*PROGRAMS["cancellation"]).value)
    assert 1e-9 < value_bound < 1e-7  # half an ulp of 1e8 is 7.5e-9


def test_an_exact_program_has_no_radius() -> None:
    program = record_in_balls(lambda x: x * 4 + 1, [np.float64(0.5)])
    assert (radius(program.value), *rounding_bounds(program, [np.float64(0.5)])) == (0.0, 0.0)


def test_a_comparison_that_53_bits_cannot_decide_is_undecided() -> None:
    with pytest.raises(Undecided):
        record_in_balls(lambda x: x if np.sin(x) * 3 > 3 * np.sin(x) else -x, [ONE])


def test_a_constant_function_has_no_radius() -> None:
    program = record_in_balls(lambda x: np.float64(2), [V])
    (bound,) = rounding_bounds(program, [V])
    assert radius(program.value) == 0.0
    np.testing.assert_array_equal(bound, np.zeros(3))


def test_rows_of_the_jacobian_are_in_the_outputs_order() -> None:
    made = record(lambda x: np.stack([x * 2, x * x]), [V])
    full = jacobian_from_rows(jacobian(made, ONE), made.y, 0, made.inputs[0].primal)
    assert full.shape == (2, 3, 3)
    np.testing.assert_array_equal(full[0], 2 * np.eye(3))
    np.testing.assert_array_equal(full[1], np.diag(2 * V))


@for_rows("size", [1.0, 1e-170, 1e170, 0.0])
@for_rows("holes", [(), (np.nan, np.inf, -np.inf)])
def test_a_contribution_is_the_sum_and_the_norm_of_what_is_finite(size: float, holes: tuple[float, ...]) -> None:
    bar, y = np.array([3.0, -4.0, *np.ones(len(holes))]), np.array([size, size, *holes])
    assert np.allclose(contribution_of_line(bar, y), (7 * size, 5 * size), rtol=1e-15, atol=0)
