"""Elementwise rows outside of their domains and at the edges: a derivative is right, nan or refused, and never another number."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import GradcliError, NotSupported
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.rules.special import ByOrder
from gradcli.study.accuracy import PARAMS
from gradcli.targets.expression import Expression
from gradcli.tracing.primitive import PRIMITIVES, Params, Primitive
from tests.rows import for_rows
from tests.rules.judging import Judgement, Place, as_function_has_it, judged, places
from tests.rules.references import REFERENCES, NoReference, mp, truth

ONE = np.float64(1)
ROWS = [
    row
    for row in PRIMITIVES.values()
    if row.rules and all(isinstance(rule, Partial | ConstantSlope | ByOrder) for rule in row.rules)
    if not row.name.endswith("_order")  # derivatives by an order: tests/rules/test_incomplete.py
]
SLOW = {
    "gammainc",
    "gammaincc",
    "betainc",
    "betaincc",
    "stdtr",
}  # mpmath's references of them: the benchmark looks at them
FAMILIES = [
    pytest.param(
        row,
        params,
        id=row.name + "".join(f"-{value}" for value in params.values()),
        marks=[pytest.mark.slow] if row.name in ("eval_chebyt", "hyperu", "kv", "spence") else [],
    )
    for row in ROWS
    if row.name not in SLOW
    for params in PARAMS.get(row.name, ({},))
]
PLACES, DECADES = 3, 3  # the benchmark of special functions looks at 200 a row, up to 1e300
# mpmath's limits of integer orders, and of remainders of many periods, take long or are lost in difference quotients
EDGES = (0.0, 1.0, -1.0, 0.5, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), np.nextafter(-1.0, 0.0), -2.0, -2.5)
PERIODIC = {"remainder", "fmod"}


def at_edges(row: Primitive, params: Params) -> Iterator[Place]:
    """Yield places where the argument that moves is at an edge of some domain, and the others are ordinary."""
    first = next(iter(places(row, params, 1, DECADES)))
    moving = [i for i, rule in enumerate(row.rules) if not isinstance(rule, ByOrder)]
    for k, x in enumerate(EDGES):
        i = moving[k % len(moving)]
        rest = [0.75 if j in moving else abs(own) for j, own in enumerate(first.xs)]
        yield Place(row, i, (*rest[:i], x, *rest[i + 1 :]), params)


def judgements(place: Place, modes: Any) -> dict[str, Judgement]:
    """Return what is said of the slopes by modes, each with its bound; nothing where mpmath says nothing."""
    x = np.float64(place.xs[place.i])
    with np.errstate(all="ignore"):
        value, _ = refused_is_nan(lambda: (place.function(x), 0.0))
        found = {name: refused_is_nan(lambda f=f: f(place, x)) for name, f in modes.items()}
    if np.all(np.isnan([slope for slope, _ in found.values()])):
        return dict.fromkeys(found, Judgement.REFUSED)
    try:
        right = as_function_has_it(place, value)
        return {name: judged(slope, place, right, bound=bound) for name, (slope, bound) in found.items()}
    except NoReference:
        return {}


def refused_is_nan(compute: Any) -> tuple[float, float]:
    try:
        number, bound = compute()
        return float(number), float(bound)
    except GradcliError:
        return float("nan"), 0.0


def by_mode(name: str) -> Any:
    """Return what finds the slope at a place, and its bound, by a mode."""

    def slope(place: Place, x: np.float64) -> Any:
        found = MODES[name].gradient(Question(Alone(place), Point({"x": x}), ("x",)))
        return found.value["x"], found.bound["x"]

    return slope


class Alone:
    """A primitive as a function of one input."""

    kind, outputs, seconds, inputs = "primitive", (), None, ("x",)

    def __init__(self, place: Place) -> None:
        self.place, self.text = place, place.row.name

    def __call__(self, values: Any) -> Any:
        return self.place.function(values["x"])

    def survey(self, values: Any) -> tuple[Any, list[Any]]:
        return self(values), []


SWEEPS = {
    "reverse": lambda place, x: (vjp(place.function, [x])[1](ONE)[0], 0.0),
    "forward": lambda place, x: (jvp(place.function, [x], [ONE])[1], 0.0),
}
OF_ROWS = {**SWEEPS, "certified": by_mode("certified"), "complex-step": by_mode("complex-step")}


def looked_at(row: Primitive, params: Params, count: int) -> Iterator[Place]:
    yield from places(row, params, count, 3 if row.name in PERIODIC else DECADES)
    yield from at_edges(row, params)


def test_every_scalar_row_has_a_reference() -> None:
    assert [row.name for row in ROWS if row.name not in REFERENCES] == []


@pytest.mark.parametrize(("row", "params"), FAMILIES)
def test_a_slope_is_right_or_refused_inside_and_outside_of_the_domain(row: Primitive, params: Params) -> None:
    found = [(place.xs, place.i, judgements(place, OF_ROWS)) for place in looked_at(row, params, PLACES)]
    assert [(xs, i, said) for xs, i, said in found if Judgement.WRONG in said.values()] == []
    assert sum(bool(said) for _, _, said in found) > PLACES / 2, "mpmath says too little"


def test_a_formula_beyond_its_domain_is_objected_to() -> None:
    row = PRIMITIVES["ellipe"]
    series = row.rules[0].kernel  # type: ignore[attr-defined]
    place = Place(row, 0, (-2.0,), {})
    assert judged(-111453.5, place, place.truth()) is Judgement.WRONG
    assert judged(float(series(row.fun(np.float64(-2)), np.float64(-2))), place, place.truth()) is Judgement.RIGHT
    outside = Place(PRIMITIVES["log"], 0, (-2.0,), {})
    assert judged(-0.5, outside, as_function_has_it(outside, np.nan)) is Judgement.WRONG
    assert judged(np.nan, outside, as_function_has_it(outside, np.nan)) is Judgement.REFUSED


# fmt: off
#    expression             at                        df/dx, by mpmath where it is a number
POINTS: list[tuple[str, dict[str, float], float | None]] = [
    ("ellipe(x)",           {"x": -2.0},              None),
    ("ellipk(x)",           {"x": -2.0},              None),
    ("ellipe(x)",           {"x": -1e6},              None),
    ("ellipkm1(x)",         {"x": 1e-20},             None),
    ("ellipkm1(x)",         {"x": 7.0},               None),
    ("log(x)",              {"x": -2.0},              np.nan),
    ("logit(x)",            {"x": 1.5},               np.nan),
    ("arctanh(x)",          {"x": 2.0},               np.nan),
    ("ellipk(x)",           {"x": 2.0},               np.nan),
    ("digamma(x)",          {"x": -3.0},              np.nan),
    ("exp1(x)",             {"x": -1.0},              np.nan),
]
PAIRS = [
    ("beta", 0, (-1.5, 0.3)), ("beta", 1, (-2.3, -0.4)), ("betaln", 1, (-0.22, 0.9)), ("betaln", 0, (-9.5, 5e-11)),
    ("beta", 0, (0.06, -1.7e-128)), ("rgamma", 0, (-2.9999999999999996,)), ("digamma", 0, (-2.9999999999999996,)),
]  # fmt: skip
# fmt: on


@for_rows(("text", "at", "slope"), POINTS, ids=lambda x: str(x))
@for_rows("mode", ["forward", "reverse"])
def test_slopes_of_expressions(text: str, at: dict[str, float], slope: float | None, mode: str) -> None:
    if slope is None:
        slope = float(truth(text.split("(")[0], 0, (at["x"],)).left)
    q = Question(Expression(text), Point({name: np.float64(x) for name, x in at.items()}), ("x",))
    np.testing.assert_allclose(MODES[mode].gradient(q).value["x"], slope, rtol=1e-12)


@for_rows(("name", "i", "xs"), PAIRS)
def test_slopes_beside_poles_and_of_negative_arguments(name: str, i: int, xs: tuple[float, ...]) -> None:
    place = Place(PRIMITIVES[name], i, xs, {})
    slope, _ = SWEEPS["reverse"](place, np.float64(xs[i]))
    right = place.truth().left
    room = max(
        1e-9 * abs(right), *(4 * abs(t - right) for near in place.neighbours() if (t := near.truth().left) is not None)
    )
    assert abs(mp.mpf(float(slope)) - right) <= room


@pytest.mark.parametrize("f", [PRIMITIVES["expn"], PRIMITIVES["eval_hermite"]], ids=lambda row: row.name)
def test_orders_of_which_scipy_has_no_values_are_refused(f: Primitive) -> None:
    with pytest.raises(NotSupported, match=f"{f.name} of the order 1.5: scipy"):
        f(np.float64(1.5), np.float64(0.7))


@for_rows(("a", "b"), [(3.46, 0.0), (0.3, -2.0), (1.001, 2.0), (1.99999, 3.0)])
def test_hyperu_is_refused_where_scipys_values_are_wrong(a: float, b: float) -> None:
    with pytest.raises(NotSupported, match=r"hyperu\(.*scipy's values are wrong there"):
        PRIMITIVES["hyperu"](np.float64(a), np.float64(b), np.float64(1e-3))


# fmt: off
FAR = [
    ("eval_laguerre",    (10.5, 500.0)),        ("eval_laguerre", (0.5, 150.0)), ("eval_genlaguerre", (2.5, 1.3, 700.0)),
    ("eval_chebyt",      (10.5, 5478555597754.065)), ("eval_chebyt", (0.5, 1e15)), ("hyperu", (2.0, 3.0, 1e-5)),
]
# fmt: on


@for_rows(("name", "xs"), FAR)
def test_values_that_scipy_has_not_or_has_wrong(name: str, xs: tuple[float, ...]) -> None:
    row = PRIMITIVES[name]
    reference = float(REFERENCES[name](*map(mp.mpf, xs)))
    np.testing.assert_allclose(row(*map(np.float64, xs)), reference, rtol=1e-12)


@pytest.mark.parametrize("x", [1e20, 1e300])
def test_kummers_function_of_huge_arguments_returns(x: float) -> None:
    for xs in ((0.5, 1.5, x), (-0.5, 1.5, x)):
        assert np.isinf(PRIMITIVES["hyp1f1"](*map(np.float64, xs)))
    assert PRIMITIVES["hyp1f1"](np.float64(-1), np.float64(2), np.float64(x)) == pytest.approx(-x / 2)
    assert np.isnan(PRIMITIVES["hyp1f1"](np.float64(0.5), np.float64(1e12), np.float64(x)))
    assert not np.isfinite(PRIMITIVES["eval_laguerre"](np.float64(2.5), np.float64(x)))


def test_bessel_functions_of_whole_negative_orders_are_those_of_the_positive_ones_at_tiny_arguments() -> None:
    assert PRIMITIVES["iv"](np.float64(-1), np.float64(-1e-158)) == pytest.approx(-5e-159, rel=1e-12, abs=0)


def test_the_slope_of_hyp2f1_at_zero_is_known_only_where_its_series_ends_before_the_pole() -> None:
    slope = lambda a, b, c: SWEEPS["reverse"](Place(PRIMITIVES["hyp2f1"], 3, (a, b, c, 0.0), {}), np.float64(0))[0]
    with np.errstate(all="ignore"):
        assert np.isnan(slope(-4.0, 7.5, -1.0)) and np.isnan(slope(0.5, 7.5, 0.0))
        assert slope(-1.0, 7.5, -4.0) == 7.5 / 4


def test_whole_degrees_may_be_floats_and_overflow_to_infinity() -> None:
    with np.errstate(all="ignore"):
        assert PRIMITIVES["eval_hermite"](np.float64(4), np.float64(0.5)) == PRIMITIVES["eval_hermite"](
            4, np.float64(0.5)
        )
        assert np.isinf(PRIMITIVES["eval_genlaguerre"](np.float64(6), np.float64(2), np.float64(-2.5e196)))


def test_arrays_have_slopes_where_they_have_values() -> None:
    x = np.array([-2.0, 0.5, 2.0])
    with np.errstate(all="ignore"):
        _, pull = vjp(np.log, [x])
        np.testing.assert_array_equal(pull(np.ones(3))[0], [np.nan, 2.0, 0.5])
        np.testing.assert_array_equal(
            pull(np.array([0.0, 1.0, 1.0]))[0], [0.0, 2.0, 0.5]
        )  # what is left out counts for nothing
        np.testing.assert_array_equal(
            vjp(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), [x])[1](ONE)[0], [0.0, 2.0, 0.5]
        )
