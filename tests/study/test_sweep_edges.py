"""Sweeps where the reference is an estimate, the function is noisy or changes, or slopes leave the range of floats."""

import math
from pathlib import Path

import pytest
from flint import arb

from gradcli.arithmetic.floats import round_to_bits
from tests.rows import for_rows
from tests.study.test_sweep import Gradcli, curves, swept
from tests.targets.test_loading import written

CODE = """
    import math
    from scipy.integrate import quad
    rng = np.random.default_rng(0)
    calls = [0]
    def opaque(a):
        a = a.__float__()
        return quad(lambda t: math.exp(-a*t*t), 0, 2)[0]
    def random(x): return np.sum(x**2)*rng.uniform()
    def noisy(x): return np.sin(x) + 1e-6*rng.standard_normal()
    def stateful(x):
        calls[0] += 1
        return np.sum(x**2)*(1.0 if calls[0] < 10 else 1.5)
    def rippled(x): return np.sin(x) + 1e-7*np.sin(1e9*x)
    def quick(x): return np.sin(1e5*x)
    def only_there(x):
        if np.any(x != 1.0): raise RuntimeError("only at 1")
        return np.sum(x)
    def outputs(x): return np.array([x[0]*x[1], np.sin(x[0])])
"""


@pytest.fixture(name="code")
def _code(tmp_path: Path) -> str:
    return written(tmp_path, CODE)


def kinds(document: dict) -> list[str]:
    return [f["kind"] for f in document["findings"]]


def test_an_estimated_reference_tells_its_bound_and_nothing_below_it(gradcli: Gradcli, code: str) -> None:
    document = swept(gradcli, f"{code}:opaque", "a=1.5")
    (says,) = [f["message"] for f in document["findings"] if f["kind"] == "reference"]
    floors = {curve["known_to"] for curve in document["curves"]}
    assert len(floors) == 1 and 1e-15 < min(floors) < 1e-6
    assert "whose bound is" in says and "best steps are not predicted" in says
    assert all(curve["best"]["relative_error"] >= curve["known_to"] for curve in document["curves"])
    assert all(curve["best"]["digits"] <= -math.log10(curve["known_to"]) for curve in document["curves"])


@pytest.mark.parametrize("name", ["random", "noisy", "stateful"])
def test_what_is_not_deterministic_is_said_and_inconclusive(gradcli: Gradcli, code: str, name: str) -> None:
    document = swept(gradcli, f"{code}:{name}", "x=1.0")
    assert document["exit_status"] == 3 and "not-deterministic" in kinds(document)
    assert "scale" not in kinds(document)


@pytest.mark.parametrize(("name", "noise"), [("rippled", True), ("quick", False), ("opaque", False)])
def test_scatter_that_rounding_does_not_explain_is_said(gradcli: Gradcli, code: str, name: str, noise: bool) -> None:
    document = swept(gradcli, f"{code}:{name}", "a=1.5" if name == "opaque" else "x=1.0")
    assert ("noise" in kinds(document)) is noise


def test_a_function_that_is_defined_at_the_point_alone_has_no_sweep(gradcli: Gradcli, code: str) -> None:
    document = swept(gradcli, f"{code}:only_there", "x=1.0")
    assert (document["exit_status"], document["curves"]) == (3, [])


# fmt: off
BEYOND = [
    # f        x          complex digits   all of forward's errors are 1
    ("x**2",   "x=1e-200", 0,              True),    # x**2 is below the smallest float
    ("exp(x)", "x=709.7",  15,             False),   # x f'(x) is beyond the largest
    ("x*1.5",  "x=1e308",  15,             False),
]
# fmt: on


@pytest.mark.parametrize(("f", "x", "digits", "lost"), BEYOND)
def test_slopes_beyond_floats_are_neither_zero_nor_infinite(
    gradcli: Gradcli, f: str, x: str, digits: float, lost: bool
) -> None:
    document = swept(gradcli, f, x)
    found = {curve["scheme"]: curve for curve in document["curves"]}
    assert document["exit_status"] == 0 and kinds(document) == ["range"]
    assert found["complex"]["best"]["digits"] >= digits
    assert (set(found["forward"]["relative_error"]) == {1.0}) is lost
    assert (found["forward"]["best"]["digits"] < 1) is lost


@for_rows("at", ["x=1", "x=0.7", "x=-3.3"])
@for_rows("f", ["1 + x", "x*x", "x/3"])
def test_53_bits_round_as_float64_does(gradcli: Gradcli, f: str, at: str) -> None:
    many = swept(gradcli, f, at, "--dtype", "float64", "--bits", "53", "--schemes", "forward,central,5-point")["curves"]
    for one, other in zip(many[:3], many[3:], strict=True):
        assert one["relative_error"] == pytest.approx(other["relative_error"], rel=1e-9, abs=1e-30)
        assert one["useless"] == other["useless"]


@for_rows(
    ("x", "bits", "rounded"),
    [(5, 2, 4), (7, 2, 8), (6, 2, 6), (-5, 2, -4), (-7, 2, -8), (11, 3, 12), (13, 3, 12), (0, 3, 0), (1025, 8, 1024)],
)
def test_numbers_of_few_bits_are_the_nearest_ties_to_even(x: int, bits: int, rounded: int) -> None:
    assert round_to_bits(arb(x), bits) == rounded


def test_the_nearest_of_what_is_not_finite_is_not() -> None:
    assert not round_to_bits(arb("nan"), 53).is_finite()


def test_an_order_is_one_of_a_power_law(gradcli: Gradcli) -> None:
    f = "z = x - max(x); -log(exp(z)[0]/sum(exp(z)))"
    found = curves(gradcli, f, "x=[1, 5, 30]")
    assert all(found[name]["order"] is None for name in ("forward", "central", "5-point"))


def test_no_slope_of_a_kink_is_called_zero(gradcli: Gradcli) -> None:
    document = swept(gradcli, "abs(x)", "x=0")
    assert kinds(document) == ["kink"]
    assert "nothing to draw" in gradcli("sweep", "abs(x)", "x=0").stdout


def test_errors_beside_a_slope_of_zero_are_called_absolute(gradcli: Gradcli) -> None:
    text = gradcli("sweep", "x**2", "x=0").stdout
    assert "x**2 at x = 0.0: error of df/dx" in text and "relative error of" not in text


def test_how_outputs_are_summed_is_said(gradcli: Gradcli, code: str) -> None:
    argv = (f"{code}:outputs", "x=[1.0, 2.0]")
    w = swept(gradcli, *argv)["weights"]
    (slope,) = {curve["slope"] for curve in swept(gradcli, *argv)["curves"]}
    assert slope == pytest.approx(abs(w[0] * 2 + w[1] * math.cos(1)) + abs(w[0]) * 2)
    assert "the outputs are summed with weights w = [" in gradcli("sweep", *argv).stdout


# fmt: off
LOST = [
    (("sin(x)", "x=1.5"),                          "(1.5 + 6.3e-17) - 1.5 = 0 in float64."),
    (("sin(x)", "x=1", "--scale", "x=1e-300"),     "(1 + 1e-300) - 1 = 0 in float64."),
    (("x*y", "x=3", "y=2"),                        "so it is for h <= 4.6e-17 times each input, in float64."),
]
# fmt: on


@pytest.mark.parametrize(("argv", "says"), LOST)
def test_a_step_that_is_lost_is_a_true_sum(gradcli: Gradcli, argv: tuple, says: str) -> None:
    assert says in " ".join(gradcli("sweep", *argv).stdout.split())


def test_a_claim_whose_error_is_too_small_to_be_seen_is_not_called_right(gradcli: Gradcli) -> None:
    document = swept(gradcli, "sum(x**2)", "x=[1, 2, 3]", "--grad", "2*x*(1 + 1e-9)")
    assert (document["exit_status"], document["taylor"]["verdict"]) == (1, "cannot tell")
    assert "right" not in document["taylor"]["message"]


def test_the_other_schemes_and_what_has_no_complex_numbers_are_told(gradcli: Gradcli) -> None:
    text = " ".join(gradcli("sweep", "sin(x)", "x=1", "--dtype", "float16,float64").stdout.split())
    assert "relative error of df/dx, central (the table has the other schemes)" in text
    assert "no complex step in float16: it has no complex numbers" in text


@pytest.mark.parametrize(("option", "says"), [
    (("--dtype", ","), "--dtype names no format"), (("--bits", ","), "--bits takes whole numbers, not ','"),
])  # fmt: skip
def test_a_list_of_nothing_is_refused(gradcli: Gradcli, option: tuple, says: str) -> None:
    ran = gradcli("sweep", "sin(x)", "x=1", *option)
    assert ran.exit_status == 2 and says in ran.stderr
