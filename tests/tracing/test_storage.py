"""Views and writes: a traced array behaves as numpy's do, and the derivative follows every write."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball
from gradcli.arithmetic.dual import Dual, jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import BadShape, TraceEnded
from gradcli.modes.difference_steps import Line, derivative
from gradcli.tracing.tracer import storage_of

Program = Callable[[Any], Any]
X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
XDOT = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8]])
EPS = float(np.finfo(np.float64).eps)


def write_scalar(x: Any) -> Any:
    x[0, 1] = x[1, 1] * x[0, 0]
    return x


def write_row(x: Any) -> Any:
    x[0] = x[1] ** 2
    return x


def write_constant(x: Any) -> Any:
    x[:, 1] = 5.0
    return x * x


def write_list(x: Any) -> Any:
    x[0] = [x[1, 0], 2.0, x[0, 0] * x[0, 1]]
    return x


def write_mask(x: Any) -> Any:
    x[x < 0] = 0.0
    return x


def write_positions(x: Any) -> Any:
    x[[0, 1], [2, 0]] = x[0, :2] * 3
    return x


def view_writes_to_base(x: Any) -> Any:
    y = x[1:]
    y[0] = y[0] * x[0]
    return x


def base_writes_to_view(x: Any) -> Any:
    y = x[0, 1:]
    x[0, 1] = x[1, 1] ** 3
    return y


def sibling_views(x: Any) -> Any:
    a, b = x[:, :2], x[:, 1:]
    a[1, 1] = x[0, 0] * 7
    return b * a


def view_of_view(x: Any) -> Any:
    y = x[1:][0][1:]
    y[0] = x[0, 0] ** 2
    return x


def base_to_view_of_view(x: Any) -> Any:
    y = x[1:]
    z = y[0, ::-1]
    x[1, 2] = x[0, 0] * x[0, 1]
    return z + y


def transposed(x: Any) -> Any:
    y = x.T
    y[2, 0] = y[1, 1] * 2
    return x


def seen_transposed(x: Any) -> Any:
    y = x.T
    x[0, 2] = x[1, 1] ** 2
    return y


def reshaped(x: Any) -> Any:
    y = x.reshape(3, 2)
    y[1] = y[0] * y[2]
    return x


def ravelled(x: Any) -> Any:
    y = x.ravel()
    y[1:3] = y[3:5] * y[0]
    return x


def view_of_transpose(x: Any) -> Any:
    y = x.T[1:]
    y[0] = y[1] * 2
    return x * x.T.ravel()[1]


def reshaped_transpose_is_a_copy(x: Any) -> Any:
    y = x.T.reshape(-1)
    y[1] = 7.0
    return x * y[1]


def one_entry_kept_an_axis(x: Any) -> Any:
    y = x[0]
    z = y[None, 1]
    z[0] = x[1, 0] * 2
    return x


def function_ravel(x: Any) -> Any:
    y = np.ravel(x)
    y[1] = y[2] * 2
    return x


def method_swapaxes(x: Any) -> Any:
    y = x.swapaxes(0, 1)
    y[2, 0] = y[1, 1] * 2
    return x


def method_squeeze(x: Any) -> Any:
    y = x[:1].squeeze()
    y[0] = y[1] * 2
    return x


def in_place_operators(x: Any) -> Any:
    y = x[0]
    y += x[1]
    y *= 2.0
    y -= x[1] ** 2
    y /= 3.0
    return x


def in_place_item(x: Any) -> Any:
    x[0] += x[1]
    x[1, 1] *= x[0, 0]
    return x


def overlapping(x: Any) -> Any:
    x[:, 1:] += x[:, :-1]
    return x


def swapped_rows(x: Any) -> Any:
    x[0], x[1] = x[1], x[0]
    return x


def rows_in_a_loop(x: Any) -> Any:
    for row in x:
        row *= row[0]
    return x


def cumulated(x: Any) -> Any:
    for k in range(1, 3):
        x[:, k] += x[:, k - 1] * x[:, k]
    return x


def new_axis(x: Any) -> Any:
    y = x[:, None]
    y[0, 0, 0] = x[1, 1] * 2
    return x


def copied(x: Any) -> Any:
    y = x.copy()
    y[0] = x[1] * 2
    return x + 3 * y


def flattened(x: Any) -> Any:
    y = x.flatten()
    y[0] = x[1, 1]
    return x + y[0]


def picked(x: Any) -> Any:
    y = x[[0, 1]]
    y[0] = 0.0
    return x + 2 * y


def masked(x: Any) -> Any:
    y = x[x > 0]
    y[0] = 9.0
    return np.sum(x) * y


def computed(x: Any) -> Any:
    y = x + 0.0
    y[0] = x[1] * 5
    return x * y


def stored(x: Any) -> Any:
    y = x * 2
    np.multiply(x, x, out=y)
    return y


def stored_in_view(x: Any) -> Any:
    np.exp(x[0], out=x[1])
    return x


def reduced_into(x: Any) -> Any:
    y = x[0] * 0
    np.add.reduce(x, axis=0, out=y)
    return y


def function_reshape(x: Any) -> Any:
    y = np.reshape(x, (3, 2))
    y[1] = y[0] * 2
    return x


def function_transpose(x: Any) -> Any:
    y = np.transpose(x)
    y[2, 0] = y[1, 1] * 2
    return x


def method_transpose(x: Any) -> Any:
    y = x.transpose()
    y[2, 0] = y[1, 1] * 2
    return x


PROGRAMS: list[Program] = [
    write_scalar, write_row, write_constant, write_list, write_mask, write_positions, view_writes_to_base,
    base_writes_to_view, sibling_views, view_of_view, base_to_view_of_view, transposed, seen_transposed, reshaped,
    ravelled, view_of_transpose, reshaped_transpose_is_a_copy, one_entry_kept_an_axis, function_ravel,
    method_swapaxes, method_squeeze, in_place_operators, in_place_item, overlapping, swapped_rows, rows_in_a_loop,
    cumulated, new_axis, copied, flattened, picked, masked, computed, stored, stored_in_view, reduced_into,
    function_reshape, function_transpose, method_transpose,
]  # fmt: skip
named = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


def owning(program: Program) -> Program:
    """Return the program run on an array of its own."""
    return lambda x: program(x * 1.0)


def expected(x: Any, program: Program) -> Any:
    return np.array(program(np.array(x)))


@named
def test_values_are_numpys(program: Program) -> None:
    y, _ = jvp(owning(program), [X], [XDOT])
    np.testing.assert_array_equal(y, expected(X, program))


@named
def test_tangents_follow_the_writes(program: Program) -> None:
    _, ydot = jvp(owning(program), [X], [XDOT])
    found = derivative(Line(lambda t: expected(X + t * XDOT, program)), 1.0)
    assert np.all(np.abs(ydot - found.value) <= found.bound)


@named
def test_cotangents_follow_the_writes(program: Program) -> None:
    y, ydot = jvp(owning(program), [X], [XDOT])
    ybar = np.cos(np.arange(np.size(y))).reshape(np.shape(y))
    xbar = vjp(owning(program), [X])[1](ybar)[0]
    size = np.sum(np.abs(ybar * ydot)) + np.sum(np.abs(xbar * XDOT))
    assert abs(np.sum(ybar * ydot) - np.sum(xbar * XDOT)) <= 16 * EPS * size  # sums of six terms


def test_the_callers_array_is_never_written() -> None:
    x = X.copy()
    vjp(lambda t: write_row(t), [x])
    np.testing.assert_array_equal(x, X)


def test_a_write_reaches_only_views_that_are_alive() -> None:
    x = Dual(X, XDOT, 1)
    for _ in range(5):
        x[0, 1:]
    kept = x[1]
    x[1, 0] = 4.0
    assert kept.primal[0] == 4.0
    assert [ref() for ref in storage_of(x).views] == [kept]


def test_writes_are_counted() -> None:
    x = Dual(X, XDOT, 1)
    x[0, 0] = 1.0
    x[1][0] = 2.0
    assert storage_of(x).version == 2


def test_an_outer_array_cannot_be_written_in_an_inner_sweep() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            x[0] = y[0]
            return x

        return jvp(inner, [x + 0.0], [np.ones(3)])[1]

    with pytest.raises(TraceEnded, match="made outside this sweep"):
        jvp(outer, [X[0]], [XDOT[0]])


def test_an_inner_array_can_be_written_with_outer_values() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            y = y * 1.0
            y[0] = x[1]
            return y * x

        return jvp(inner, [x], [np.ones(3)])[1]

    y, ydot = jvp(outer, [X[0]], [XDOT[0]])
    np.testing.assert_array_equal(y, [0.0, X[0, 1], X[0, 2]])
    np.testing.assert_array_equal(ydot, [0.0, XDOT[0, 1], XDOT[0, 2]])


def test_a_ball_can_be_written() -> None:
    x = Ball.lift(X)
    row = x[0]
    row[1] = 5.0
    assert x.primal[0, 1] == 5.0


def test_in_place_results_must_fit() -> None:
    def grows(x: Any) -> Any:
        row = x[0]
        row += x
        return row

    with pytest.raises(BadShape, match=r"a result of shape \(2, 3\) does not fit into an array of shape \(3,\)"):
        vjp(grows, [X])
