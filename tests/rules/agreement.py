"""What must hold of any traced function: numpy's value, the adjoint, differences, the second order, balls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, bound_error, precision, radius
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.modes.difference_steps import FunctionNoise, Line, derivative, estimate_noise

EPS = float(np.finfo(np.float64).eps)
Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]


def drawn(seed: int, shapes: Shapes) -> list[Any]:
    """Return random arrays; numbers for the shape ()."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) if n else np.float64(rng.normal()) for n in shapes]


def weights(y: Any) -> Any:
    """Return a cotangent in the shape of `y`."""
    found = np.random.default_rng(9).normal(size=np.shape(y))
    return found if np.shape(y) else np.float64(found)


def value_is_numpys(f: Function, xs: Sequence[Any], tolerance: float) -> None:
    expected, traced = f(*xs), vjp(f, xs)[0]
    assert np.shape(traced) == np.shape(expected)
    np.testing.assert_allclose(traced, expected, rtol=tolerance, atol=tolerance)


def pull_is_the_adjoint_of_push(f: Function, xs: Sequence[Any], xdots: Sequence[Any], tolerance: float) -> None:
    y, ydot = jvp(f, xs, xdots)
    ybar = weights(y)
    xbars = vjp(f, xs)[1](ybar)
    assert [np.shape(xbar) for xbar in xbars] == [np.shape(x) for x in xs]
    left, right = np.sum(ybar * ydot), sum(np.sum(a * b) for a, b in zip(xbars, xdots, strict=True))
    size = np.sum(np.abs(ybar * ydot)) + sum(np.sum(np.abs(a * b)) for a, b in zip(xbars, xdots, strict=True))
    assert abs(left - right) <= tolerance * size


def differences_agree(f: Function, xs: Sequence[Any], xdots: Sequence[Any]) -> None:
    ydot = jvp(f, xs, xdots)[1]
    phi = lambda t: f(*(x + t * xdot for x, xdot in zip(xs, xdots, strict=True)))
    found = derivative(
        Line(phi), 1.0, FunctionNoise(seen=estimate_noise(phi, 1.0))
    )  # as the mode does; LAPACK rounds more than one operation
    assert np.all(found.bound <= 1e-5 * np.maximum(1.0, np.abs(ydot))), "differences say nothing"
    assert np.all(np.abs(found.value - ydot) <= found.bound)


def second_order_agrees(f: Function, xs: Sequence[Any], xdots: Sequence[Any]) -> None:
    ybar = weights(vjp(f, xs)[0])

    def gradient(*xs: Any) -> Any:
        return np.concatenate([np.ravel(xbar) for xbar in vjp(f, xs)[1](ybar)])

    differences_agree(gradient, xs, xdots)


def in_balls(f: Function, xs: Sequence[Any], ybar: Any, bits: int) -> tuple[Any, list[Any]]:
    with precision(bits):
        y, inputs, tape = record(f, [Ball.lift(x) for x in xs])
        xbars = tape.pull(y, Ball.lift(ybar), inputs)
        return Ball(Ball.objects(y.primal)), [Ball(Ball.objects(xbar)) for xbar in xbars]


def balls_enclose(f: Function, xs: Sequence[Any], tolerance: float) -> None:
    """Assert that balls know the value and the gradient, and that float64 is within rounding of both."""
    y, pull = vjp(f, xs)
    ybar = weights(y)
    found, xbars = in_balls(f, xs, ybar, 256)
    coarse, _ = in_balls(f, xs, ybar, 53)
    scale = max(1.0, float(np.max(np.abs(y), initial=0.0)))
    assert np.all(radius(found) <= 1e-50 * scale)
    assert np.all(bound_error(found, f(*xs)) <= tolerance * scale)
    assert np.all(np.frompyfunc(lambda a, b: a.overlaps(b), 2, 1)(coarse.value, found.value))
    for xbar, ball in zip(pull(ybar), xbars, strict=True):
        largest = max(1.0, float(np.max(np.abs(xbar), initial=0.0)))
        assert np.all(radius(ball) <= 1e-50 * largest)
        assert np.all(bound_error(ball, xbar) <= tolerance * largest)


def check_function(f: Function, shapes: Shapes, tolerance: float) -> None:
    """Assert all of it at one random point; `tolerance` is of rounding, relative to the largest entry."""
    xs, xdots = drawn(1, shapes), drawn(2, shapes)
    value_is_numpys(f, xs, tolerance)
    pull_is_the_adjoint_of_push(f, xs, xdots, tolerance)
    differences_agree(f, xs, xdots)
    second_order_agrees(f, xs, xdots)
    balls_enclose(f, xs, tolerance)
