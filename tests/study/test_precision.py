"""The gradient in low precision: known losses, what loss scaling restores, and what it cannot."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.floats import format_of
from gradcli.errors import NotSupported
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.report.compare import Precision
from gradcli.request.point import Point
from gradcli.study.mode_comparison import measure_in_format
from gradcli.targets.expression import Expression
from tests.rows import for_rows

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")


def precision(text: str, x: Any, dtype: str = "float16", scale: int | None = None) -> Precision:
    at = {"x": np.asarray(x, dtype=float)[()]}
    q = Question(Expression(text, frozenset(at)), Point(at), ("x",))
    with np.errstate(all="ignore"):
        return measure_in_format(q, MODES["certified"].gradient(q), format_of(dtype), scale)


# fmt: off
LOST = [
    #  f                                x                dtype       lost  restored  2^k
    ("sum(x*x)",                        [1e-8, 1.0],     "float16",  1,    0,       12),   # x itself is lost: no scale helps
    ("sum(x*x)*2**-12",                 [1e-3, 1.0],     "float16",  0,    0,       13),   # 4.9e-7 is subnormal, and kept
    ("sum(x*x)*2**-12",                 [2e-5, 1.0],     "float16",  1,    1,       13),   # 9.8e-9 is not
    ("mean(x)*1e-3*5e-5",               [1.0, 2.0],      "float16",  2,    2,       13),   # 2.5e-8 < 2^-25
    ("sum(x*x)*2**-12",                 [1e-5, 1.0],     "bfloat16", 0,    None,    None),
    ("sum(x*x)*1e-30",                  [1e-12, 1.0],    "bfloat16", 1,    1,       None),
    ("sum(x*x)*1e-30",                  [1e-12, 1.0],    "float32",  0,    0,       None), # 2e-42 is subnormal
    ("sum(sin(x))",                     [0.3, 1.0],      "float16",  0,    None,    None),
]
# fmt: on


@for_rows(("text", "x", "dtype", "zeros", "restored", "k"), LOST)
def test_small_entries_are_lost_and_scaling_restores_them(
    text: str, x: list[float], dtype: str, zeros: int, restored: int | None, k: int | None
) -> None:
    found = precision(text, x, dtype)
    assert (found.zeros, found.restored) == (zeros, restored)
    assert k is None or found.loss_scale == k
    assert (found.underflows + found.subnormals > 0) is (restored is not None)
    if restored:
        assert (found.scaled_overflows, found.scaled_ulps_worst < 4) == (0, True)


@pytest.mark.parametrize("c", [2.0**-24, 2.0**-20, 2.0**-14])
def test_float16_holds_entries_down_to_its_smallest_number(c: float) -> None:
    assert precision(f"sum(x)*2**{round(np.log2(c))}", [1.0, 2.0]).zeros == 0
    assert precision("sum(x)*2**-10*2**-16", [1.0, 2.0]).zeros == 2  # 1.5e-8


@for_rows(("k", "restored"), [(0, 0), (5, 0), (10, 1), (13, 1)])
def test_a_scale_restores_what_it_lifts_above_the_smallest_number(k: int, restored: int) -> None:
    found = precision("sum(x*x)*2**-12", [1e-6, 1.0], scale=k)  # 4.9e-10, and half of 2^-24 is 3e-8: 2^6 is needed
    assert (found.loss_scale, found.zeros, found.restored) == (k, 1, restored)


@pytest.mark.parametrize("k", [17, 20, 100])
def test_a_scale_that_is_too_large_overflows(k: int) -> None:
    found = precision("sum(x*x)", [1.0, 2.0], scale=k)
    assert found.scaled_overflows > 0 == found.overflows


def test_the_largest_number_of_float16_is_65504() -> None:
    assert precision("sum(x*x)", [1.0, 255.0]).overflows == 0
    over = precision("x*x", 256.0)  # the value, not the slope: 512
    assert (over.overflows, over.not_finite, over.zeros) == (1, 0, 0)
    assert precision("exp(x)", 12.0).not_finite == 1
    assert precision("exp(x)", 12.0, "bfloat16").not_finite == 0


def test_saturation_is_no_underflow_and_not_restored() -> None:
    found = precision("sum(tanh(x))", [0.5, 10.0], "bfloat16")
    assert (found.zeros, found.underflows, found.restored) == (1, 0, None)
    assert precision("sum(tanh(x))", [0.5, 10.0], "bfloat16", scale=30).restored == 0


# fmt: off
ULPS = [  # f, x: the gradient in the format, worked out by hand    ulps of the format
    ("x",           1.0,                "float16",  0.0),
    ("x*x",         1.0,                "float16",  0.0),
    ("x*(1/3)",     1.0,                "float16",  abs(float(np.float16(1 / 3)) - 1 / 3) * 2**12),    # 1/3 in [2^-2, 2^-1)
    ("x*(1/3)",     1.0,                "bfloat16", abs(0.333984375 - 1 / 3) * 2**9),
    ("x*(1/3)",     1.0,                "float32",  abs(float(np.float32(1 / 3)) - 1 / 3) * 2**25),
    ("x*x",         1 + 2.0**-11,       "float16",  0.5),   # x rounds to 1
]
# fmt: on


@for_rows(("text", "x", "dtype", "ulps"), ULPS)
def test_errors_in_ulps(text: str, x: float, dtype: str, ulps: float) -> None:
    found = precision(text, x, dtype)
    assert (found.ulps_worst, found.ulps_median) == (pytest.approx(ulps, abs=1e-6), pytest.approx(ulps, abs=1e-6))


@for_rows("dtype", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_one_rounding_is_half_an_ulp_at_most(dtype: str) -> None:
    found = precision("sum(x*x)/2", np.linspace(1.0, 3.9, 200), dtype)
    assert 0 < found.ulps_median <= found.ulps_worst <= 0.5
    assert found.dtype == dtype


def test_float64_is_right_to_its_own_rounding() -> None:
    found = precision("sum(sin(x)*x)", np.linspace(0.1, 3.0, 50), "float64")
    assert found.ulps_worst < 8 and (found.zeros, found.underflows, found.overflows) == (0, 0, 0)


def test_a_matrix_that_is_singular_in_the_format_gives_no_gradient() -> None:
    text = "y = solve([[1, 1], [1, 1.001]], x); sum(y**2)"
    assert precision(text, [1.0, 2.0], "bfloat16").not_finite == 2
    assert precision(text, [1.0, 2.0], "float32").not_finite == 0


def test_a_vector_has_no_loss_to_scale() -> None:
    with pytest.raises(NotSupported, match="a loss is scaled, and this result is not a scalar") as error:
        precision("x*x", [1.0, 2.0])
    assert error.value.do == "reduce it: sum(...)"


def test_a_lost_entry_errs_by_its_whole_size_in_the_ulps_that_scaling_has_too() -> None:
    found = precision("sum(x*x)*2**-12", [2e-5, 1.5e-5])
    lost, mine = found.ulps_worst, 2.0**10
    assert found.zeros == 2 and mine <= lost < 2 * mine  # 1.m in ulps of 2^-10
    assert found.restored == 2 and found.scaled_ulps_worst < 4


def test_a_gradient_that_is_not_finite_errs_by_infinity() -> None:
    found = precision("log(exp(x))", 20.0)
    assert (found.not_finite, found.ulps_worst) == (1, np.inf)


def test_a_scale_of_one_restores_nothing_and_is_not_told() -> None:
    assert precision("z = x - max(x); -log(exp(z)[0]/sum(exp(z)))", [1.0, 5.0, 30.0]).loss_scale != 0


STEEP = "sum(x*2**11*2**10*2**10*2**-14*2**-14)"  # its slope is 8, and on the way back 2^-28 comes first
# fmt: off
OVERFLOWS = [  # f, x, 2^k: lost, restored, not finite once scaled
    ("sum(exp(x)*2**-14*2**-14)", [1.0, 0.5],              13,  2,  2,  0),
    (STEEP,                       [2.0**-20, 2.0**-19],    12,  2,  2,  0),
    (STEEP,                       [2.0**-20, 2.0**-19],    15,  2,  0,  2),   # 2^18 is beyond float16: not restored
    ("sum(x*x)*2**-14*2**-14",    [1.0, 2.0],              60,  2,  0,  2),
]
# fmt: on


@for_rows(("text", "x", "k", "zeros", "restored", "infinite"), OVERFLOWS)
def test_nothing_is_restored_to_infinity(
    text: str, x: list[float], k: int, zeros: int, restored: int, infinite: int
) -> None:
    found = precision(text, x, scale=k)
    assert (found.zeros, found.restored, found.scaled_not_finite) == (zeros, restored, infinite)


# fmt: off
CAUSES = [  # of an entry that is 0 though nothing underflowed
    ("x/exp(y)", ("x=1", "y=12", "--wrt", "x"), "float16",  "a slope is 0 after 1 overflow (1 / inf is 0)"),
    ("tanh(x)",  ("x=10",),                     "bfloat16", "a slope is lost to saturation or cancellation"),
]
# fmt: on


@pytest.mark.parametrize(("text", "at", "dtype", "cause"), CAUSES)
def test_overflow_is_not_called_saturation(
    gradcli: Callable[..., Any], text: str, at: tuple, dtype: str, cause: str
) -> None:
    ran = gradcli("compare-modes", text, *at, "--dtype", dtype, "--modes", "fwd,rev")
    said = " ".join(ran.stdout.split())
    assert cause in said and [word for _, _, _, word in CAUSES if word in said] == [cause]
