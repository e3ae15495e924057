"""Floating-point formats: their limits, how they round, and the names that are not known."""

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.floats import DTYPES, FLOAT64, format_of
from gradcli.errors import BadOption, GradcliError, NotSupported

small = pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")
LONG = np.finfo(np.longdouble)
# fmt: off
#                  name               eps      smallest normal  smallest   largest            digits  held in
FORMATS = [
    pytest.param("float64",        2.0**-52, 2.0**-1022, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, 15.95, np.float64),
    pytest.param("float32",        2.0**-23, 2.0**-126,  2.0**-149,  (2 - 2.0**-23) * 2.0**127,   7.22, np.float32),
    pytest.param("float16",        2.0**-10, 2.0**-14,   2.0**-24,   65504.0,                     3.31, np.float32),
    pytest.param("bfloat16",       2.0**-7,  2.0**-126,  2.0**-133,  (2 - 2.0**-7) * 2.0**127,    2.41, np.float32, marks=small),
    pytest.param("float8_e4m3fn",  2.0**-3,  2.0**-6,    2.0**-9,    448.0,                       1.20, np.float32, marks=small),
    pytest.param("float8_e5m2",    2.0**-2,  2.0**-14,   2.0**-16,   57344.0,                     0.90, np.float32, marks=small),
]
NAMES = [pytest.param(case.values[0], marks=case.marks) for case in FORMATS]
PREFIXES = [
    ("float64", "float64"), ("float32", "float32"), ("float3", "float32"), ("float1", "float16"), ("long", "longdouble"),
    pytest.param("b", "bfloat16", marks=small), pytest.param("bf", "bfloat16", marks=small),
    pytest.param("float8_e4", "float8_e4m3fn", marks=small), pytest.param("float8_e5m2", "float8_e5m2", marks=small),
]
# fmt: on
HARD = np.concatenate(
    [
        s
        * np.array(
            [
                0.0,
                1.0,
                1 / 3,
                0.1,
                np.pi,
                1 + 2.0**-11,
                1 + 2.0**-8,
                3 * 2.0**-11 + 1,
                1e-3,
                6e-8,
                2.0**-25,
                3e-39,
                1e-45,
                240.1,
                300.0,
                448.0,
                464.0,
                465.0,
                65504.0,
                65519.0,
                65520.0,
                1e5,
                3.39e38,
                1e300,
                np.inf,
                np.nan,
            ]
        )
        for s in (1, -1)
    ]
)  # fmt: skip


def kind_of(name: str) -> Any:
    """Return the type that numpy or ml_dtypes has for a format."""
    return getattr(np, name, None) or getattr(pytest.importorskip("ml_dtypes"), name)


@pytest.mark.parametrize(("name", "eps", "tiny", "least", "largest", "digits", "held"), FORMATS)
def test_limits(name: str, eps: float, tiny: float, least: float, largest: float, digits: float, held: Any) -> None:
    form = format_of(name)
    assert (form.name, form.eps, form.tiny, form.least, form.largest) == (name, eps, tiny, least, largest)
    assert form.digits == pytest.approx(digits, abs=0.01)
    assert form.held is held


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_those_of_the_rounding(name: str) -> None:
    form = format_of(name)
    assert form.rounded(np.float64(1 + form.eps)) == 1 + form.eps
    assert form.rounded(np.float64(1 + form.eps / 2)) == 1  # a tie goes to the even one
    assert form.rounded(np.float64(form.least)) == form.least
    assert form.rounded(np.float64(form.least / 2)) == 0
    assert form.rounded(np.float64(form.largest)) == form.largest


@pytest.mark.parametrize("name", NAMES)
def test_rounding_is_that_of_the_type_itself(name: str) -> None:
    form, rng = format_of(name), np.random.default_rng(0)
    x = np.concatenate([HARD, rng.normal(size=2000), 10 ** rng.uniform(-12, 6, 2000)])
    with np.errstate(all="ignore"):
        found, expected = form.rounded(x), x.astype(kind_of(name))
        np.testing.assert_array_equal(found, expected.astype(form.held))
        np.testing.assert_array_equal(form.rounded(found), found)  # once is enough
    assert found.dtype == form.held


@pytest.mark.parametrize("name", NAMES)
def test_rounding_errs_by_half_an_ulp_at_most(name: str) -> None:
    form = format_of(name)
    x = np.random.default_rng(1).uniform(max(form.tiny, 2.0**-6), 200.0, 5000)
    error = np.abs(form.rounded(x).astype(np.float64) - x) / x
    assert np.max(error) <= form.eps / 2
    assert np.max(error) > form.eps / 5 or form is FLOAT64


@pytest.mark.parametrize("name", NAMES)
def test_shapes_stay_and_what_is_no_float_does_too(name: str) -> None:
    form = format_of(name)
    assert form.rounded(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert np.ndim(form.rounded(0.5)) == 0
    for x in (7, True, np.arange(3), np.array([True, False]), "ij->ji"):
        assert form.rounded(x) is x


@pytest.mark.parametrize(("name", "kind"), [("float64", np.complex128), ("float32", np.complex64), ("longdouble", np.clongdouble)])  # fmt: skip
def test_formats_with_complex_numbers_round_them(name: str, kind: Any) -> None:
    z = np.array([1 / 3 + 1j * np.pi])
    assert format_of(name).complex is kind
    assert format_of(name).rounded(z).dtype == kind
    assert format_of(name).rounded(z)[0] == z.astype(kind)[0]


def test_narrow_formats_have_no_complex_numbers() -> None:
    assert format_of("float16").complex is None


def test_float64_is_left_alone() -> None:
    x = np.array([0.1, 1e-320])
    assert FLOAT64.rounded(x) is x


def test_longdouble_is_numpys() -> None:
    form = format_of("longdouble")
    assert (form.eps, form.held) == (float(LONG.eps), np.longdouble)
    third = np.longdouble(1) / 3
    assert form.rounded(np.array([third]))[0] == third != np.float64(third)


def test_a_machine_without_long_doubles_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    own = np.finfo
    monkeypatch.setattr(np, "finfo", lambda kind: own(np.float64 if kind is np.longdouble else kind))
    with pytest.raises(NotSupported, match="longdouble is float64 on this machine") as error:
        format_of.__wrapped__("longdouble")
    assert error.value.do == "use --bits 64, which works anywhere"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_formats_that_need_a_library_say_which(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(NotSupported, match=f"{name} needs ml_dtypes, which is not installed") as error:
        format_of.__wrapped__(name)
    assert error.value.do == "pip install ml_dtypes"


@pytest.mark.parametrize(("text", "name"), PREFIXES)
def test_a_prefix_that_is_no_others_is_enough(text: str, name: str) -> None:
    assert format_of(text).name == name
    assert format_of(text) is format_of(text)


@pytest.mark.parametrize(
    "text", ["", "float", "float8", "float8_e", "double", "fp16", "Float32", "float128", "int8", "float32 "]
)
def test_an_unknown_name_gets_the_list(text: str) -> None:
    with pytest.raises(BadOption) as error:
        format_of(text)
    assert error.value.what == f"there is no dtype '{text}'"
    assert isinstance(error.value, GradcliError) and error.value.do == f"dtypes: {', '.join(DTYPES)}"
