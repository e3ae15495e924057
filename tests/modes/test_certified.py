"""The certified mode: how many bits it takes, and steps that lose nothing."""

from decimal import Decimal

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, bound_error, precision
from gradcli.errors import TraceDiffers, Undecided
from gradcli.modes.certified import FIRST_BITS, Certified, scale_by_halvings
from gradcli.modes.mode import Question
from gradcli.modes.rounding import record_in_balls
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from tests.rows import for_rows

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


@for_rows("v", [1.5, -3e300, 1e-300, 5e-324, 0.0])
@for_rows("halvings", [42, 300, 1365])
def test_steps_are_exact(v: float, halvings: int) -> None:
    with precision(4096):
        exact = Ball.lift(np.array([v])) / Ball.lift(2) ** halvings
        assert float(bound_error(scale_by_halvings(np.array([v]), halvings) - exact, 0.0)[0]) == 0.0


def test_what_rounding_found_serves_the_test_of_the_trace() -> None:
    q = question("sum(sin(x))", x=np.array([1.0, 2.0]))
    q.balls[53] = record_in_balls(q.g, q.xs)
    assert Certified().gradient(q).proved
    wrong = question("sum(sin(x))", x=np.array([1.0, 2.0]))
    wrong.balls[53] = q.balls[53]._replace(y=q.balls[53].value + Ball.lift(1e-6))
    with pytest.raises(TraceDiffers):
        Certified().gradient(wrong)


PI = "3.1415926535897932384626433832795028"  # to the last digit that 128 bits are sure of


@for_rows("text", ["pi*x", "x*pi/2*2", "sum(pi*stack([x, 2*x]))/3", "(sin(pi/2) - 1 + sqrt(pi))**2*x"])
@for_rows("shape", [(), (2,)])
def test_pi_is_exact(text: str, shape: tuple[int, ...]) -> None:
    written = Certified().gradient(question(f"sum({text})", x=np.ones(shape))).decimals
    assert written is not None
    assert {entry[: len(PI)] for entry in np.ravel(written["x"])} == {PI}


def test_e_is_exact() -> None:
    written = Certified().gradient(question("log(e)*x + x*log(np.e)", x=np.float64(0.5))).decimals
    assert written is not None
    assert abs(Decimal(written["x"]) - 2) < Decimal("1e-36")


def test_a_kink_that_only_exact_constants_meet_is_a_note() -> None:
    found = Certified().gradient(question("abs(sin(pi*x))", x=np.float64(1.0)))
    assert found.value["x"] == -np.pi and found.proved
    assert found.notes[1] == (
        "the gradient is certified with the float64 values of pi and e: "
        "with exact ones the function may have a kink at this point"
    )


@pytest.mark.parametrize("at", [np.pi, -np.pi])
def test_where_the_rounding_of_pi_is_the_gradient_float64_decides(at: float) -> None:
    q = question("(abs(x) - pi)**2", x=np.float64(at))
    found = Certified().gradient(q)
    assert found.value["x"] == 0 and "some ulps in one of them" in found.notes[1]
    assert q.rounding["x"] > 1e-16  # as a gradient written otherwise may round pi otherwise


def test_where_f_raises_with_other_constants_float64s_are_certified_and_there_is_no_bound() -> None:
    q = question("sum(cholesky([[x, 1], [1, 4.141592653589794 - pi]]))", x=np.float64(1.0))
    assert np.isinf(q.rounding["x"]) and q.unbounded == "f with pi or e some ulps larger raises an error"
    assert "raise an error" in Certified().gradient(q).notes[1]


def test_a_number_is_the_float64_that_it_names() -> None:
    assert Certified().gradient(question("3.141592653589793*x", x=np.float64(1.0))).decimals == {
        "x": "3.1415926535897931159979634685441851615905761718750"
    }


def test_where_f_overflows_nothing_is_certified() -> None:
    q = Question(Expression("x*x"), Point({"x": np.float64(1e160)}), ("x",))
    with pytest.raises(Undecided, match="f is not finite here"), np.errstate(over="ignore"):
        Certified().gradient(q)


@for_rows("text", ["x*(exp(z)-1)", "abs(x)*(exp(z)-1)", "sum([x, 0]*(exp(z)-1))", "x*(exp(1e-10)-1) + 0*z"])
def test_what_is_not_differentiated_is_not_rounded(text: str) -> None:
    q = Question(Expression(text), Point({"x": np.float64(0.5), "z": np.float64(1e-10)}), ("x",))
    found = Certified().gradient(q)
    assert found.decimals is not None and found.decimals["x"].startswith("1.0000000000500000364338639858")
    assert abs(q.slopes["x"] - found.value["x"]) <= q.rounding["x"] <= 1e-14  # it is rounded in float64
