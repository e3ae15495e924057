"""Error against step size: observed orders, slopes and best steps against theory, in every format; remainders of claims."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.rows import for_rows

Curve = dict[str, Any]
Gradcli = Callable[..., Any]


def swept(gradcli: Gradcli, *argv: str) -> Any:
    return gradcli("sweep", *argv, "--json").json


def curves(gradcli: Gradcli, *argv: str) -> dict[str, Curve]:
    """Return the curves of one ray in one format, by scheme."""
    return {curve["scheme"]: curve for curve in swept(gradcli, *argv)["curves"]}


def error_at(curve: Curve, h: float) -> float:
    near = min(range(len(curve["h"])), key=lambda k: abs(math.log(curve["h"][k] / h)))
    return curve["relative_error"][near]


# fmt: off
SMOOTH = [
    ("sin(x)", "x=1"), ("exp(x)", "x=1"), ("log(x) + 1/x", "x=1.5"), ("exp(x)*sin(3*x)", "x=0.7"), ("x**7", "x=1.3"), ("tanh(x)", "x=0.4"),
    ("sqrt(1 + x**2)", "x=-2"), ("exp(x)", "x=0"), ("log(x)", "x=1e-6"), ("1/x", "x=1e8"), ("sin(x)*y", "x=1", "y=2"),
    ("sum(tanh(W@x)**2)", "W=[[0.3, -0.2], [0.5, 0.7]]", "x=[0.4, 0.9]"),
]
ORDERS = {"forward": 1, "backward": 1, "central": 2, "5-point": 4, "7-point": 6, "richardson": 4, "complex": 2}
# fmt: on
EVERY = ("--schemes", "forward,backward,central,5-point,7-point,richardson,complex")


@pytest.fixture(name="sweep", params=SMOOTH, ids=[" ".join(argv) for argv in SMOOTH])
def _sweep(request: pytest.FixtureRequest, gradcli: Gradcli) -> dict[str, Curve]:
    return curves(gradcli, *request.param, *EVERY)


def test_orders_are_those_of_theory(sweep: dict[str, Curve]) -> None:
    for name, curve in sweep.items():
        far = 0.25 if name == "7-point" else 0.15  # of order 6 there are a few steps only before rounding
        assert curve["order"] == pytest.approx(ORDERS[name], abs=far)


def test_rounding_grows_as_one_over_h(sweep: dict[str, Curve]) -> None:
    for name in ("forward", "central"):
        assert sweep[name]["rounding_slope"] == pytest.approx(-1, abs=0.15)
    assert sweep["complex"]["rounding_slope"] is None  # it has no such side


def test_best_steps_are_where_theory_says(sweep: dict[str, Curve]) -> None:
    for name, curve in sweep.items():
        if name != "complex":
            assert 1 / 10 < curve["best"]["h"] / curve["predicted"]["h"] < 10
            # the law is of the worst rounding; values come out well by chance, most at a few steps among many
            assert 1 / 100 < curve["best"]["relative_error"] / curve["predicted"]["relative_error"] < 3


def test_schemes_of_higher_order_have_more_digits(sweep: dict[str, Curve]) -> None:
    digits = [sweep[name]["best"]["digits"] for name in ("forward", "central", "5-point", "7-point", "complex")]
    assert digits == sorted(digits)
    assert digits[0] > 6 and digits[-1] > 14.5  # the slope of exp(x)*sin(3*x) is ten times as sensitive to x


def test_the_best_is_the_least_of_the_curve_by_neighbours(sweep: dict[str, Curve]) -> None:
    for curve in sweep.values():
        k = curve["h"].index(curve["best"]["h"])
        around = curve["relative_error"][max(k - 1, 0) : k + 2]
        assert min(around) <= curve["best"]["relative_error"] <= max(around)
        assert curve["h"][0] == 1 and curve["h"][-1] == pytest.approx(1e-20) and curve["h"] == sorted(curve["h"])[::-1]


def test_the_formula_holds_the_numbers_of_the_prediction(sweep: dict[str, Curve]) -> None:
    for curve in sweep.values():
        step = curve["predicted"].get("h_absolute", curve["predicted"]["h"])
        assert curve["predicted"]["formula"].endswith(f" = {step:.2g}")


# fmt: off
TEXTBOOK = [
    # function   dtype       scheme      best h between   digits between
    ("sin(x)",  "float64",  "forward",  (1e-9, 1e-7),    (7.5, 9)),
    ("exp(x)",  "float64",  "forward",  (1e-9, 1e-7),    (7.5, 9)),
    ("sin(x)",  "float64",  "central",  (1e-6, 1e-4),    (9.5, 11.5)),
    ("exp(x)",  "float64",  "central",  (1e-6, 1e-4),    (9.5, 11.5)),
    ("sin(x)",  "float64",  "complex",  (1e-9, 1e-7),    (15, 16)),
    ("sin(x)",  "float32",  "forward",  (5e-5, 2e-3),    (3, 4.5)),
    ("exp(x)",  "float32",  "forward",  (5e-5, 2e-3),    (3, 4.5)),
    ("exp(x)",  "float32",  "central",  (1e-3, 5e-2),    (4.5, 6)),
    ("sin(x)",  "float16",  "forward",  (5e-3, 0.3),     (1, 2.5)),
    ("sin(x)",  "longdouble", "forward", (5e-11, 5e-9),  (8.5, 11)),
]
# fmt: on


@for_rows(("f", "dtype", "scheme", "between", "digits"), TEXTBOOK)
def test_the_textbooks_figures_come_out(
    gradcli: Gradcli, f: str, dtype: str, scheme: str, between: Any, digits: Any
) -> None:
    best = curves(gradcli, f, "x=1", "--dtype", dtype)[scheme]["best"]
    assert between[0] <= best["h"] <= between[1]
    assert digits[0] <= best["digits"] <= digits[1]


@pytest.mark.parametrize("f", ["sin(x)", "exp(x)"])
def test_forward_differences_have_an_order_in_float32_too(gradcli: Gradcli, f: str) -> None:
    order = curves(gradcli, f, "x=1", "--dtype", "float32")["forward"]["order"]
    assert order == pytest.approx(1, abs=0.15)


def test_a_step_of_1e_8_gives_zero_in_float32_and_eight_digits_in_float64(gradcli: Gradcli) -> None:
    for f in ("sin(x)", "exp(x)"):
        single, double = (curves(gradcli, f, "x=1", "--dtype", d)["forward"] for d in ("float32", "float64"))
        assert error_at(single, 1e-8) == 1.0  # all of the slope is missing
        assert error_at(double, 1e-8) < 1e-7
        assert any(u["why"] == "below one ulp" and u["from"] <= 1e-8 <= u["to"] for u in single["useless"])


# fmt: off
PRECISIONS = [
    # --dtype or --bits             eps         digits of central and 7-point at least
    (("--dtype", "float8_e5m2"),    2.0**-2,    0.3,  0.3),
    (("--dtype", "float8_e4m3fn"),  2.0**-3,    0.5,  0.5),
    (("--dtype", "bfloat16"),       2.0**-7,    1,    1),
    (("--dtype", "float16"),        2.0**-10,   2,    2),
    (("--dtype", "float32"),        2.0**-23,   4.5,  5.5),
    (("--dtype", "longdouble"),     2.0**-63,   11.5, 15),
    (("--bits", "16"),              2.0**-15,   2.5,  2.5),
    (("--bits", "113"),             2.0**-112,  22,   28),
    (("--bits", "400"),             2.0**-399,  79,   102),
    (("--bits", "800"),             2.0**-799,  160,  205),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize(("option", "eps", "central", "seven"), PRECISIONS)
def test_every_precision_has_its_digits(
    gradcli: Gradcli, option: Any, eps: float, central: float, seven: float
) -> None:
    if option[1].startswith(("bf", "float8")):
        pytest.importorskip("ml_dtypes")
    found = curves(gradcli, "sin(x)", "x=1", *option)
    most = -math.log10(eps / 2) + 1e-9
    assert found["forward"]["rounding"] == eps / 2
    assert central <= found["central"]["best"]["digits"] <= most
    assert seven <= found["7-point"]["best"]["digits"] <= most
    assert found["central"]["h"][-1] < eps  # down to where x + h is x


@pytest.mark.parametrize("bits", ["113", "400"])
def test_laws_hold_in_high_precision(gradcli: Gradcli, bits: str) -> None:
    for name, curve in curves(gradcli, "exp(x)*sin(x)", "x=1", "--bits", bits).items():
        assert curve["order"] == pytest.approx(ORDERS[name], abs=0.1)
        assert (
            1 / 100 < curve["best"]["h"] / curve["predicted"]["h"] < 10
        )  # three values in a row come out well by chance
        assert curve["rounding_slope"] == pytest.approx(-1, abs=0.15)


def test_formats_may_be_mixed_and_are_told_once(gradcli: Gradcli) -> None:
    argv = ("sin(x)", "x=1", "--dtype", "float64,float32,float64", "--bits", "113,113", "--schemes", "central")
    assert [curve["dtype"] for curve in swept(gradcli, *argv)["curves"]] == ["float64", "float32", "113 bits"]


@pytest.mark.parametrize("option", [("--dtype", "float16"), ("--bits", "113")])
def test_a_format_without_complex_numbers_says_so(gradcli: Gradcli, option: tuple) -> None:
    document = swept(gradcli, "sin(x)", "x=1", "--schemes", "complex", *option)
    assert document["curves"] == []
    assert ["no complex step" in why for why in document["unsupported"].values()] == [True]


def test_what_a_format_cannot_compute_is_told_and_the_others_are_shown(gradcli: Gradcli) -> None:
    document = swept(gradcli, "det(A)", "A=[[2, 1], [1, 3]]", "--dtype", "longdouble,float32")
    assert {curve["dtype"] for curve in document["curves"]} == {"float32"}
    assert "det cannot be computed in longdouble" in document["unsupported"]["longdouble"]


def test_an_overflow_in_a_narrow_format_is_no_value(gradcli: Gradcli) -> None:
    found = curves(gradcli, "exp(x)", "x=20", "--dtype", "float16")["forward"]
    assert {part["why"] for part in found["useless"]} == {"no value", "below one ulp"}
    assert found["best"]["digits"] == 0


REGIONS = [("sin(x)", "x=1"), ("exp(x)", "x=30"), ("log(x)", "x=1.0001"), ("sin(x) + 1e8", "x=1")]


@for_rows("argv", REGIONS, ids=str)
def test_useless_steps_err_by_half_or_more_and_lie_on_their_side(gradcli: Gradcli, argv: tuple) -> None:
    for curve in curves(gradcli, *argv).values():
        best = curve["best"]["h"]
        for part in curve["useless"]:
            assert part["from"] <= part["to"]
            assert part["from"] > best if part["why"] in ("truncation", "no value") else part["to"] < best
    forward = curves(gradcli, *argv)["forward"]
    (still,) = (part for part in forward["useless"] if part["why"] == "below one ulp")
    assert all(e == 1 for h, e in zip(forward["h"], forward["relative_error"], strict=True) if h <= still["to"])


def test_cancellation_is_told(gradcli: Gradcli) -> None:
    causes = [part["why"] for part in curves(gradcli, "sin(x) + 1e8", "x=1")["central"]["useless"]]
    assert causes == ["cancellation", "below one ulp"]


# fmt: off
EXACT = [
    ("3*x",          "x=2",  {"forward", "central", "5-point", "7-point", "richardson", "complex"}),
    ("x**2",         "x=3",  {"central", "5-point", "7-point", "richardson"}),
    ("x**4 - x",     "x=2",  {"5-point", "7-point", "richardson"}),
    ("x**6",         "x=2",  {"7-point"}),
]
# fmt: on


@for_rows(("f", "at", "exact"), EXACT)
def test_a_polynomial_has_no_truncation_in_schemes_of_its_order(
    gradcli: Gradcli, f: str, at: str, exact: set[str]
) -> None:
    found = curves(gradcli, f, at)
    assert {name for name, curve in found.items() if curve["order"] is None} - {"complex"} == exact - {"complex"}
    for name in exact - {"complex"}:
        assert found[name]["predicted"] is None
        assert found[name]["best"]["digits"] > 14


def test_where_the_slope_is_zero_errors_are_absolute(gradcli: Gradcli) -> None:
    document = swept(gradcli, "x**2", "x=0")
    assert [f["kind"] for f in document["findings"]] == ["zero-slope"]
    forward = document["curves"][0]
    assert forward["order"] == pytest.approx(1) and forward["relative_error"][:2] == pytest.approx(forward["h"][:2])


# fmt: off
SIDES = [
    # function           at                  slopes to the right and to the left, per step of the inputs' sizes
    ("abs(x)",           ("x=0",),           (1, -1)),
    ("relu(x)",          ("x=0",),           (1, 0)),
    ("relu(x) + exp(x)", ("x=0",),           (2, 1)),
    ("maximum(x, 3*x - 2)", ("x=1",),        (3, 1)),
    ("abs(sin(x) - sin(2))", ("x=2",),       (-2 * math.cos(2), 2 * math.cos(2))),
    ("sum(abs(x))",      ("x=[0]",),         (1, -1)),
]
# fmt: on


@for_rows(("f", "at", "slopes"), SIDES)
@for_rows("option", [(), ("--dtype", "float32"), ("--bits", "80")], ids=str)
def test_at_a_kink_each_side_has_its_own_curve(gradcli: Gradcli, f: str, at: tuple, slopes: Any, option: tuple) -> None:
    document = swept(gradcli, f, *at, *option)
    assert "kink" in [finding["kind"] for finding in document["findings"]]
    assert document["reference"] == "one-sided" and document["exit_status"] == 0
    assert [curve["scheme"] for curve in document["curves"]] == ["forward", "backward"]
    assert [curve["slope"] for curve in document["curves"]] == pytest.approx(slopes)
    assert all(curve["best"]["digits"] > 2.5 for curve in document["curves"])


def test_at_the_edge_of_the_domain_one_side_is_left(gradcli: Gradcli) -> None:
    found = curves(gradcli, "x**1.5", "x=0", "--schemes", "forward,backward")
    assert found["forward"]["order"] == pytest.approx(0.5, abs=0.05)  # f(h)/h = sqrt(h), and the slope is 0
    assert [part["why"] for part in found["backward"]["useless"]] == ["no value"]


def test_bounds_are_not_left(gradcli: Gradcli) -> None:
    found = curves(gradcli, "exp(x)", "x=1", "--bounds", "x=1:1.5", "--schemes", "forward,central")
    assert found["forward"]["best"]["digits"] > 7
    assert error_at(found["forward"], 1.0) == "nan"  # 2 lies outside
    steps = zip(found["central"]["h"], found["central"]["relative_error"], strict=True)
    assert all(error == "nan" for h, error in steps if h > 1e-15)


# fmt: off
UNDEFINED = [("log(x)", "x=0", "non-finite"), ("log(x)", "x=-1", "non-finite"), ("sqrt(x)", "x=0", "infinite-slope")]
# fmt: on


@pytest.mark.parametrize(("f", "at", "kind"), UNDEFINED)
def test_where_there_is_no_slope_it_is_said(gradcli: Gradcli, f: str, at: str, kind: str) -> None:
    document = swept(gradcli, f, at)
    assert (document["exit_status"], document["findings"][-1]["kind"]) == (3, kind)
    assert all(curve["best"]["digits"] == 0 for curve in document["curves"])


@pytest.mark.parametrize("f", ["floor(x)", "floor(x)*3 + 1", "sum(sign([x, 1]))"])
def test_a_staircase_is_said(gradcli: Gradcli, f: str) -> None:
    document = swept(gradcli, f, "x=2.5")
    assert document["exit_status"] == 0 and document["findings"][0]["kind"] == "staircase"


@pytest.mark.parametrize("f", ["abs(x)*x", "x*floor(x)", "norm([x, 2*x])"])
def test_a_function_that_is_not_analytic_has_no_complex_step(gradcli: Gradcli, f: str) -> None:
    document = swept(gradcli, f, "x=2.5")
    assert "complex" not in {curve["scheme"] for curve in document["curves"]}
    assert "complex" in [finding["kind"] for finding in document["findings"]]


SEVERAL = ("sum(sin(W@x))*y", "W=[[0.3, -0.2], [0.5, 0.7]]", "x=[0.4, 0.9]", "y=1.5")


@pytest.mark.parametrize("option", [(), ("--dtype", "float32"), ("--bits", "80")], ids=str)
def test_each_entry_is_swept_as_if_alone(gradcli: Gradcli, option: tuple) -> None:
    together = swept(gradcli, "sum(sin(x))", "x=[0.5, 2, -3]", "--each", *option)["curves"]
    assert len(together) == (6 if option != ("--bits", "80") else 5) * 3
    assert [tuple(curve["index"]) for curve in together if curve["scheme"] == "central"] == [(0,), (1,), (2,)]
    for k, x in enumerate(("0.5", "2", "-3")):
        rest = [v for v in ("0.5", "2", "-3") if v != x]
        alone = swept(gradcli, f"sin(x) + {'+'.join(f'sin({v})' for v in rest)}", f"x={x}", *option)["curves"]
        for one, many in zip(alone, together[k * len(alone) : (k + 1) * len(alone)], strict=True):
            assert (one["scheme"], one["h"], one["slope"]) == (many["scheme"], many["h"], many["slope"])
            assert many["scale"] == one["scale"] == abs(float(x))
            truncation = slice(0, 3)
            assert many["relative_error"][truncation] == pytest.approx(one["relative_error"][truncation], rel=1e-2)


def test_each_entry_is_the_same_as_with_the_other_inputs_held(gradcli: Gradcli) -> None:
    together = swept(gradcli, *SEVERAL, "--each")["curves"]
    alone = swept(gradcli, *SEVERAL, "--wrt", "y")["curves"]
    same = ("scheme", "dtype", "h", "scale")
    for one, many in zip(alone, [curve for curve in together if curve["input"] == "y"], strict=True):
        assert {name: one[name] for name in same} == {name: many[name] for name in same}
        assert one["relative_error"] == pytest.approx(many["relative_error"], abs=1e-15, rel=1e-9)
    assert {curve["input"] for curve in together} == {"W", "x", "y"} and len(together) == 7 * 6


def test_along_all_inputs_the_slope_is_the_sum_of_the_entries(gradcli: Gradcli) -> None:
    entries = [curve for curve in swept(gradcli, *SEVERAL, "--each")["curves"] if curve["scheme"] == "central"]
    along = curves(gradcli, *SEVERAL)["central"]
    assert (along["input"], along["index"], along["scale"]) == (None, [], 1.0)
    assert along["slope"] == pytest.approx(sum(abs(curve["slope"]) for curve in entries))  # none cancels another


@pytest.mark.parametrize("f", ["[x*y, sin(x), 3]", "outer([x, y], [1, x])", "[[x, x**3], [y, exp(y)]]"])
def test_outputs_of_vector_functions_are_weighed_and_summed(gradcli: Gradcli, f: str) -> None:
    for argv in ((), ("--each",), ("--dtype", "float32")):
        document = swept(gradcli, f, "x=3", "y=2", *argv)
        assert document["exit_status"] == 0
        assert all(curve["best"]["digits"] > 3 for curve in document["curves"])


@pytest.mark.parametrize("more", [(), ("--each",), ("--schemes", "forward")])
def test_no_more_evaluations_than_the_budget(gradcli: Gradcli, more: tuple) -> None:
    for budget in (200, 500):
        assert swept(gradcli, "sum(x**3)", "x=[1, 2]", "--budget", str(budget), *more)["evaluations"] <= budget


def test_a_fixed_step_has_its_error_told_in_units_of_the_input(gradcli: Gradcli) -> None:
    for at, h in (("x=1", "1e-4"), ("x=4", "4e-4")):
        found = curves(gradcli, "x**3", at, "--h", h)
        assert found["forward"]["error_at_h"] == pytest.approx(1e-4, rel=1e-3)
        assert found["central"]["error_at_h"] == pytest.approx(1e-8 / 3, rel=1e-2)


def test_a_scale_is_the_unit_of_steps(gradcli: Gradcli) -> None:
    usual, scaled = (curves(gradcli, "x**3", "x=1", *more)["forward"] for more in ((), ("--scale", "x=0.01")))
    assert (usual["scale"], scaled["scale"]) == (1.0, 0.01)
    assert error_at(scaled, 1e-2) == pytest.approx(error_at(usual, 1e-4), rel=1e-6)
    assert scaled["best"]["h"] * scaled["scale"] == pytest.approx(usual["best"]["h"], rel=9)


def test_a_claim_is_checked_on_the_same_recording(monkeypatch: pytest.MonkeyPatch, gradcli: Gradcli) -> None:
    from gradcli.modes import recording

    recorded: list[Any] = []
    record = recording.record
    here = lambda xs: np.array_equal(xs[0], [1.0, 2.0])  # and not beside it, where inputs are moved by their rounding
    monkeypatch.setattr(recording, "record", lambda g, xs: (recorded.append(g) if here(xs) else None) or record(g, xs))
    assert gradcli("sweep", "sum(x**3)", "x=[1,2]").exit_status == 0
    alone = len(recorded)
    assert gradcli("sweep", "sum(x**3)", "--grad", "3*x**2", "x=[1,2]").exit_status == 0
    assert (alone, len(recorded)) == (1, 2)


@pytest.mark.parametrize(
    ("f", "at", "most"), [("1e10 + x**2", "x=1", 8), ("1e10 + x**2", "x=0.5", 8), ("1e6 + x**2 + x", "x=2", 12)]
)
def test_the_best_step_is_no_accident_of_binary_numbers(gradcli: Gradcli, f: str, at: str, most: float) -> None:
    curves = swept(gradcli, f, at, "--schemes", "forward,central,5-point,7-point,richardson")["curves"]
    assert all(curve["best"]["digits"] < most for curve in curves)


@pytest.mark.parametrize("f", ["cos(x)", "1 + x**2", "exp(-x**2)"])
def test_a_slope_of_zero_has_an_error_and_no_digits(gradcli: Gradcli, f: str) -> None:
    (curve,) = swept(gradcli, f, "x=0", "--schemes", "forward")["curves"]
    assert curve["absolute"] is True
    assert 1e-9 < curve["best"]["h"] < 1e-7  # below, f(x + h) is f(x), which is no estimate of 0
    assert curve["best"]["relative_error"] > 1e-10
    text = " ".join(gradcli("sweep", f, "x=0").stdout.split())
    assert "Use h = 1 with central differences (an error of " in text
    assert " digits)" not in text


@for_rows("f", ["sin(x)", "x**3/7", "exp(x)"])
@for_rows("dtype", ["float32", "float16"])
def test_errors_in_a_narrow_format_are_those_against_the_slope_itself(gradcli: Gradcli, f: str, dtype: str) -> None:
    curves = swept(gradcli, f, "x=1.1", "--dtype", dtype, "--schemes", "central,complex")["curves"]
    for curve in curves:
        slope = curve["slope"]
        least = abs(float(getattr(np, dtype)(slope)) - slope) / abs(slope)  # of the nearest number of the format
        assert min(map(float, curve["relative_error"])) >= least * (1 - 1e-6)
