"""Difference schemes: exact on polynomials of their order, with the constants that theory says."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import acb, arb

from gradcli.arithmetic.ball import precision
from gradcli.errors import BadOption
from gradcli.modes.finite_difference import ONE_SIDED, SCHEMES, STENCILS, USUAL, Scheme, parse_schemes
from tests.rows import for_rows

REAL = [pytest.param(scheme, id=scheme.name) for scheme in SCHEMES if not scheme.imaginary]
ALL = [pytest.param(scheme, id=scheme.name) for scheme in SCHEMES]
NAMES = [scheme.name for scheme in SCHEMES]
AT, H = Fraction(3, 7), Fraction(5, 11)


def exact(x: float) -> Fraction:
    """Return the fraction that a constant of a scheme stands for."""
    return Fraction(x).limit_denominator(1000)


def as_is(x: Any) -> Any:
    return x


def estimate(scheme: Scheme, f: Callable[[Fraction], Fraction], at: Fraction, h: Fraction) -> Any:
    """Return what a scheme makes of a polynomial, without any rounding."""
    if scheme.imaginary:
        raise ValueError("it needs complex fractions")
    values = {o: f(at + Fraction(o) * h) for o in scheme.offsets}
    return Fraction(scheme.quotient(values, h, lambda x: Fraction(x)))


@for_rows("scheme", REAL)
def test_a_scheme_is_exact_on_polynomials_of_its_order(scheme: Scheme) -> None:
    for k in range(scheme.order + 1):
        slope = k * AT ** (k - 1) if k else 0
        assert estimate(scheme, lambda x, k=k: x**k, AT, H) == slope


@for_rows("scheme", REAL)
def test_and_on_the_next_power_it_errs_by_its_constant(scheme: Scheme) -> None:
    n = scheme.derivative
    assert n == scheme.order + 1
    error = abs(estimate(scheme, lambda x: x**n, AT, H) - n * AT ** (n - 1))
    assert error == exact(scheme.c) * math.factorial(n) * H**scheme.order


@for_rows("scheme", REAL)
def test_the_worst_rounding_of_values_is_the_other_constant(scheme: Scheme) -> None:
    weights = {o: estimate(scheme, lambda x, o=o: Fraction(x == AT + Fraction(o) * H), AT, H) for o in scheme.offsets}
    worst = sum(abs(w) for w in weights.values())  # every value off by 1, with the sign that adds
    assert worst == exact(scheme.r) / H
    assert sum(weights.values()) == 0


def test_the_complex_step_has_a_constant_and_no_rounding() -> None:
    (scheme,) = parse_schemes("complex")
    with precision(400):
        h = arb(2) ** -60
        error = abs((acb(1, h).exp()).imag / h - arb(1).exp())
        assert float(error / h**scheme.order / arb(1).exp()) == pytest.approx(scheme.c)
    assert scheme.imaginary and scheme.r == 0 and scheme.offsets == frozenset()
    assert scheme.predicted(1e-16, {3: 1.0}) is None


# fmt: off
#    function of a ball         and |f(k)| at 0.75, for k = 2, 3, 5, 7
SMOOTH: dict[str, tuple[Callable[[arb], arb], dict[int, float]]] = {
    "exp":  (arb.exp,           {k: math.exp(0.75) for k in (2, 3, 5, 7)}),
    "sin":  (arb.sin,           {2: math.sin(0.75), 3: math.cos(0.75), 5: math.cos(0.75), 7: math.cos(0.75)}),
    "1/x":  (lambda x: 1 / x,   {k: math.factorial(k) / 0.75 ** (k + 1) for k in (2, 3, 5, 7)}),
    "log":  (arb.log,           {k: math.factorial(k - 1) / 0.75**k for k in (2, 3, 5, 7)}),
}
SLOPES = {"exp": arb.exp, "sin": arb.cos, "1/x": lambda x: -1 / x**2, "log": lambda x: 1 / x}
# fmt: on


@for_rows("name", SMOOTH)
@for_rows("scheme", REAL)
def test_truncation_in_high_precision_is_the_law(scheme: Scheme, name: str) -> None:
    f, sizes = SMOOTH[name]
    with precision(900):
        x, h = arb(0.75), arb(2) ** -60
        values = {o: f(x + arb(o) * h) for o in scheme.offsets}
        error = abs(scheme.quotient(values, h, as_is) - SLOPES[name](x))
        assert float(error / h**scheme.order) == pytest.approx(scheme.c * sizes[scheme.derivative], rel=1e-9)


@for_rows("name", SMOOTH)
@for_rows("order", STENCILS)
def test_stencils_in_high_precision_are_derivatives(order: int, name: str) -> None:
    f, sizes = SMOOTH[name]
    with precision(900):
        x, h = arb(0.75), arb(2) ** -60
        total = sum((arb(w) * f(x + k * h) for k, w in enumerate(STENCILS[order], -4)), arb(0))
        assert abs(float(total / h**order)) == pytest.approx(sizes[order], rel=1e-9)


@for_rows("order", STENCILS)
def test_stencils_are_exact(order: int) -> None:
    for k in range(order + 2):
        total = sum(Fraction(w) * Fraction(o) ** k for o, w in enumerate(STENCILS[order], -4))
        assert total == (math.factorial(order) if k == order else 0)


def test_there_is_a_stencil_for_every_derivative_that_decides() -> None:
    assert {scheme.derivative for scheme in SCHEMES} == set(STENCILS)


@for_rows("scheme", REAL)
@for_rows(("e", "size"), [(1e-16, 1.0), (6e-8, 0.8), (1e-10, 1e6), (1e-34, 1e-9)])
def test_the_step_predicted_has_the_least_error_of_the_law(scheme: Scheme, e: float, size: float) -> None:
    def law(h: float) -> float:
        return scheme.c * size * h**scheme.order + scheme.r * e / h

    found = scheme.predicted(e, {scheme.derivative: size})
    assert found is not None
    h, error = found
    assert error == pytest.approx(law(h))
    assert all(law(h * t) > error for t in (0.5, 0.9, 1.1, 2.0))


# fmt: off
TEXTBOOK = [
    # scheme      e         |f(k)|   best h     error
    ("forward",  1.11e-16,  1.0,     2.11e-08,  2.11e-08),  # h = 2 sqrt(e/|f(2)|), error 2 sqrt(e |f(2)|)
    ("forward",  5.96e-08,  1.0,     4.88e-04,  4.88e-04),
    ("central",  1.11e-16,  1.0,     6.93e-06,  2.40e-11),  # h = (3 e/|f(3)|)^(1/3)
]
# fmt: on


@pytest.mark.parametrize(("name", "e", "size", "h", "error"), TEXTBOOK)
def test_the_textbooks_figures(name: str, e: float, size: float, h: float, error: float) -> None:
    (scheme,) = parse_schemes(name)
    assert scheme.predicted(e, {scheme.derivative: size}) == pytest.approx((h, error), rel=0.01)


@pytest.mark.parametrize("derivatives", [{}, {2: 0.0}, {3: 1.0}])
def test_nothing_is_predicted_where_the_derivative_is_not_known(derivatives: dict[int, float]) -> None:
    assert parse_schemes("forward")[0].predicted(1e-16, derivatives) is None
    assert parse_schemes("forward")[0].predicted(0.0, {2: 1.0}) is None


# fmt: off
LAWS = [
    ("forward",     "(4 e/|f''|)^(1/2)"),  ("central",     "(3 e/|f'''|)^(1/3)"),      ("5-point",    "(11.25 e/|f(5)|)^(1/5)"),
    ("backward",    "(4 e/|f''|)^(1/2)"),  ("richardson",  "(360 e/|f(5)|)^(1/5)"),    ("7-point",    "(42.78 e/|f(7)|)^(1/7)"),
]
# fmt: on


@for_rows(("name", "law"), LAWS)
def test_the_formula_is_the_prediction(name: str, law: str) -> None:
    (scheme,) = parse_schemes(name)
    assert scheme.law() == law
    inside = float(law.partition(" ")[0].strip("("))
    found = scheme.predicted(1e-16, {scheme.derivative: 2.0})
    assert found is not None
    assert found[0] == pytest.approx((inside * 1e-16 / 2.0) ** (1 / (scheme.order + 1)), rel=1e-3)


@for_rows("scheme", REAL)
def test_every_operation_of_a_quotient_is_rounded(scheme: Scheme) -> None:
    """In two digits, what comes out has two digits, and differs from the quotient that is rounded once."""
    seen: list[float] = []

    def rounded(x: Any) -> Any:
        seen.append(float(x))
        return np.float64(f"{x:.1e}")

    values = {o: np.float64(f"{math.exp(1 + 0.1 * o):.1e}") for o in scheme.offsets}
    found = scheme.quotient(values, np.float64(0.1), rounded)
    assert found == np.float64(f"{found:.1e}")
    scaled = sum(weight != 1 for *_, weight in scheme.terms)
    assert len(seen) == len(scheme.terms) + scaled + len(scheme.terms) - 1 + 1 + (scheme.over != 1)


@for_rows("scheme", REAL)
def test_quotients_of_many_steps_are_those_of_each(scheme: Scheme) -> None:
    h = 10.0 ** -np.arange(5)
    values = {o: np.exp(1 + o * h) if o else np.exp([1.0]) for o in scheme.offsets}
    found = scheme.quotient(values, h, as_is)
    for k in range(5):
        alone = {o: x[k] if len(x) > 1 else x[0] for o, x in values.items()}
        assert found[k] == scheme.quotient(alone, h[k], as_is)


# fmt: off
LISTS = [
    (None,                       list(USUAL)),
    ("forward",                  ["forward"]),
    ("central,forward",          ["central", "forward"]),
    (" f , 5 ,7,",               ["forward", "5-point", "7-point"]),
    ("ce,co,r,b",                ["central", "complex", "richardson", "backward"]),
    ("forward,f,forward",        ["forward"]),
]
UNKNOWN = [("c", "there is no scheme 'c'"), ("forwards", "there is no scheme 'forwards'"), ("central,8-point", "there is no scheme '8-point'"),
           ("Forward", "there is no scheme 'Forward'"), ("", "--schemes names none"), (" , ", "--schemes names none")]
# fmt: on


@for_rows(("text", "names"), LISTS)
def test_lists_of_schemes(text: str | None, names: list[str]) -> None:
    assert [scheme.name for scheme in parse_schemes(text)] == names


@for_rows(("text", "what"), UNKNOWN)
def test_an_unknown_scheme_gets_the_list(text: str, what: str) -> None:
    with pytest.raises(BadOption) as error:
        parse_schemes(text)
    assert (error.value.what, error.value.do) == (what, f"schemes: {', '.join(NAMES)}")


def test_the_usual_schemes_are_all_but_backward() -> None:
    assert set(NAMES) - set(USUAL) == {"backward"}
    assert set(ONE_SIDED) < set(NAMES)


@for_rows("scheme", ALL)
def test_one_sided_schemes_look_to_one_side(scheme: Scheme) -> None:
    sides = {np.sign(o) for o in scheme.offsets} - {0.0}
    assert (len(sides) == 1) is (scheme.name in ONE_SIDED)
