"""Balls: what they enclose, what they decide, and what they refuse to."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from gradcli.arithmetic.ball import ENTRIES, Ball, bound_error, equal, nearest_float64, precision, radius
from gradcli.errors import NotSupported, Undecided
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows
from tests.rules.references import REFERENCES

V = np.array([1.5, -2.25, 3.0])
DIGITS = 60
PARAMS: dict[str, dict[str, int]] = {"integer_power": {"n": -3}, "polygamma": {"n": 2}}
STAIRCASES = {
    "sign": mpmath.sign, "floor": mpmath.floor, "ceil": mpmath.ceil, "rint": mpmath.nint,
    "trunc": lambda x: mpmath.sign(x) * mpmath.floor(abs(x)),
}  # fmt: skip
POINTS = {"floor": V, "ceil": V, "rint": np.array([0.5, 1.5, -2.5, -0.2, 3.7]), "trunc": V, "sign": V}


UNARY = sorted(name for name in ENTRIES if len(PRIMITIVES[name].rules) == 1 or name in POINTS)


def truth(name: str) -> Callable[..., Any]:
    """Return a function by mpmath; a test fails for one that has no reference."""
    return STAIRCASES.get(name) or REFERENCES[name]


def exactly(x: Any) -> arb:
    """Return a number of mpmath, with its working precision as a radius."""
    return arb(mpmath.nstr(x, DIGITS), abs(float(x)) * 10.0 ** (1 - DIGITS))


def points(name: str) -> Any:
    row = PRIMITIVES[name]
    return POINTS[name] if name in POINTS else row.on[0].sample(np.random.default_rng(len(name)), 5)


@for_rows("bits", [53, 128], parts=2)
@for_rows("name", UNARY)
def test_a_function_of_a_ball_encloses_what_mpmath_has(name: str, bits: int) -> None:
    for x in points(name):
        with mpmath.workdps(DIGITS + 20):
            right = exactly(truth(name)(mpmath.mpf(float(x)), **PARAMS.get(name, {})))
        with precision(bits):
            found = PRIMITIVES[name](Ball.lift(np.float64(x)), **PARAMS.get(name, {})).value
        assert found.overlaps(right)
        assert float(found.rad()) <= 2.0 ** (14 - bits) * abs(float(right.mid()))  # flint loses a few bits, 13 in K0


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.integers(20, 80))
def test_arithmetic_encloses_the_exact_result(numbers: list[float], bits: int) -> None:
    from fractions import Fraction

    a, b, c = (Fraction(x) for x in numbers)
    exact = (a + b) * c - a * b
    with precision(bits):
        x, y, z = (Ball.lift(n) for n in numbers)
        found = ((x + y) * z - x * y).value
    with precision(2500):  # the smallest float squared has a denominator of 2148 bits
        assert found.contains(arb(exact.numerator) / arb(exact.denominator))


def wide(middle: float, by: float = 0.5) -> Ball:
    return Ball(arb(middle, by))


@for_rows(
    ("compare", "near", "far"),
    [
        (np.less, Undecided, True), (np.less_equal, Undecided, True), (np.greater, Undecided, False),
        (np.greater_equal, Undecided, False), (np.equal, Undecided, False), (np.not_equal, Undecided, True),
    ],
)  # fmt: skip
def test_comparisons_decide_or_say_that_they_cannot(compare: Any, near: Any, far: bool) -> None:
    assert bool(compare(wide(1.0), wide(3.0))) is far
    with pytest.raises(near, match="too close to compare"):
        compare(wide(1.0), wide(1.5))


def test_exact_balls_decide_every_comparison() -> None:
    one = Ball.lift(1.0)
    for compare in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        assert bool(compare(one, 1.0)) is bool(compare(1.0, 1.0))


def test_truths_are_compared_with_numbers_and_with_truths() -> None:
    assert [equal(True, arb(1)), equal(arb(0), True), equal(True, False)] == [True, False, False]
    with pytest.raises(Undecided):
        equal(True, arb(1, 0.5))


@for_rows("name", ["sign", "floor", "ceil", "trunc", "rint"])
def test_steps_inside_a_ball_are_undecided(name: str) -> None:
    with pytest.raises(Undecided):
        PRIMITIVES[name](wide(0.25, 1.0))


def test_a_branch_inside_a_ball_is_undecided() -> None:
    with pytest.raises(Undecided):
        bool(wide(0.25) > 0)


def test_maximum_of_overlapping_balls_holds_both() -> None:
    y = np.maximum(wide(1.0), wide(1.25)).value
    assert y.contains(arb(1.5))
    assert y.contains(arb(0.75))
    assert not y.contains(arb(0.5))


def test_precision_comes_back_after_an_exception() -> None:
    before = ctx.prec
    with pytest.raises(KeyError), precision(before + 77):
        assert ctx.prec == before + 77
        raise KeyError
    assert ctx.prec == before


def test_the_radius_grows_with_the_operations() -> None:
    with precision(53):
        x = Ball.lift(0.1)
        assert radius(x) == 0.0
        radii = [radius(x := np.sin(x) * 1.1) for _ in range(4)]
    assert sorted(radii) == radii
    assert radii[0] > 0


def test_the_radius_shrinks_with_the_precision() -> None:
    def at(bits: int) -> float:
        with precision(bits):
            return float(radius(np.exp(Ball.lift(1.0))))

    assert at(128) < 2.0**-60 * at(53)


def test_float64_inputs_are_exact() -> None:
    assert radius(Ball.lift(0.1)) == 0
    np.testing.assert_array_equal(radius(Ball.lift(V)), np.zeros(3))
    np.testing.assert_array_equal(nearest_float64(Ball.lift(V)), V)
    assert Ball.lift(0.1).value == arb(0.1)


def test_shapes_are_those_of_the_value() -> None:
    assert Ball.lift(0.1).shape == ()
    assert Ball.lift(V).shape == (3,)
    assert Ball.lift(np.zeros((2, 0))).shape == (2, 0)


def test_error_of_bounds_the_distance_from_both_sides() -> None:
    with precision(128):
        third = Ball.lift(1.0) / 3
    error = bound_error(third, np.float64(1 / 3))
    assert 1.85e-17 < error < 1.851e-17  # 1/3 - float(1/3) = 2^-54 / 3
    assert bound_error(wide(1.0, 0.25), np.float64(2)) >= 1.25


def test_nothing_known_is_an_infinite_radius() -> None:
    unknown = Ball.lift(1.0) / wide(0.0)
    assert radius(unknown) == np.inf
    assert bound_error(unknown, np.float64(1)) == np.inf
    assert np.isnan(nearest_float64(unknown))


def test_what_balls_cannot_do_is_said() -> None:
    from gradcli.tracing.primitive import Primitive

    with pytest.raises(NotSupported, match="mystery is not available in ball arithmetic"):
        Primitive("mystery", np.exp, PRIMITIVES["exp"].rules)(Ball.lift(1.0))


def test_a_singular_matrix_is_undecided() -> None:
    with pytest.raises(Undecided, match="singular"):
        np.linalg.inv(Ball.lift(np.array([[1.0, 2.0], [2.0, 4.0]])))
