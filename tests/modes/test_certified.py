"""The certified mode: how many bits it takes, and steps that lose nothing."""

import numpy as np
import pytest

from gradcli.errors import TraceDiffers
from gradcli.interpreters.ball import Ball, error_of, precision
from gradcli.modes.certified import FIRST_BITS, Certified, scaled
from gradcli.modes.mode import Question
from gradcli.numerics.rounding import rounding_bounds
from gradcli.point import Point
from gradcli.source.expression import Expression

N = 1_500


def question(text: str, **at: np.ndarray) -> Question:
    return Question(Expression(text), Point({name: np.asarray(x) for name, x in at.items()}), ("x",))


def test_small_entries_among_many_take_no_more_bits() -> None:
    c = np.where(np.arange(N) % 100 == 0, 1e-6, 1.0)
    x = np.random.default_rng(0).uniform(0.5, 1.5, N)
    q = question("sum(c*sin(x)) + 1e5*sum(sin(x)*x - x*sin(x))", x=x, c=c)
    found = Certified().gradient(q)
    assert found.notes == (f"{FIRST_BITS} bits",)
    np.testing.assert_allclose(found.value["x"], c * np.cos(x), rtol=1e-15)
    relative = found.bound["x"] / np.abs(found.value["x"])
    assert 1e-30 < np.max(relative) < 1e-22


def test_entries_that_lose_all_their_digits_take_more() -> None:
    x = np.full(N, 1.0)
    q = question("sum(x**2)*1e25 - sum(x**2)*1e25 + sum(sin(x))*1e-25", x=x)
    found = Certified().gradient(q)
    assert found.notes != (f"{FIRST_BITS} bits",)
    np.testing.assert_allclose(found.value["x"], 1e-25 * np.cos(1.0), rtol=1e-15)


@pytest.mark.parametrize("v", [1.5, -3e300, 1e-300, 5e-324, 0.0])
@pytest.mark.parametrize("halvings", [42, 300, 1365])
def test_steps_are_exact(v: float, halvings: int) -> None:
    with precision(4096):
        exact = Ball.lift(np.array([v])) / Ball.lift(2) ** halvings
        assert float(error_of(scaled(np.array([v]), halvings) - exact, 0.0)[0]) == 0.0


def test_what_rounding_found_serves_the_test_of_the_trace() -> None:
    q = question("sum(sin(x))", x=np.array([1.0, 2.0]))
    q.balls[53], _ = rounding_bounds(q.g, q.xs)
    assert Certified().gradient(q).proved
    wrong = question("sum(sin(x))", x=np.array([1.0, 2.0]))
    wrong.balls[53] = q.balls[53] + Ball.lift(1e-6)
    with pytest.raises(TraceDiffers):
        Certified().gradient(wrong)
