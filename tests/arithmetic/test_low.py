"""Low precision: every operation rounds as the type itself does, and what is lost by it is counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.floats import Low, arithmetic_of_format, format_of
from gradcli.arithmetic.recorded_program import vjp
from tests.arithmetic.test_floats import NAMES, kind_of

RNG = np.random.default_rng(3)
POSITIVE = 10 ** RNG.uniform(-3, 2, 400)
SIGNED = RNG.normal(size=400) * 10 ** RNG.uniform(-2, 1, 400)
EVENTS = ("underflow", "subnormal", "overflow")

# fmt: off
OPERATIONS: list[tuple[Callable[..., Any], int]] = [
    (lambda x, y: x + y, 2), (lambda x, y: x - y, 2), (lambda x, y: x * y, 2), (lambda x, y: x / y, 2), (np.maximum, 2),
    (lambda x: -x, 1), (lambda x: x * x, 1), (np.sqrt, 1), (np.exp, 1), (np.log, 1), (np.sin, 1), (np.tanh, 1), (np.abs, 1),
]
LOST = [  # dtype, function, x                    underflow, subnormal, overflow
    ("float16", lambda x: x * 1.0,       1.0,     (0, 0, 0)),
    ("float16", lambda x: x * x,         2e-4,    (0, 1, 0)),   # 4e-8 is nearer to 6e-8 than to 0
    ("float16", lambda x: x * x,         1e-4,    (1, 0, 0)),   # 1e-8 is nearer to 0
    ("float16", lambda x: x * x,         256.0,   (0, 0, 1)),   # 65,536 > 65,504
    ("float16", lambda x: x * x,         255.9,   (0, 0, 0)),
    ("float16", lambda x: np.exp(x),     12.0,    (0, 0, 1)),
    ("float16", lambda x: np.exp(-x),    20.0,    (1, 0, 0)),
    ("float16", lambda x: x * 0.0,       3.0,     (0, 0, 0)),   # nothing is lost: it is 0
    ("float16", lambda x: x / 0.0,       3.0,     (0, 0, 0)),   # infinite in any format
    ("float32", lambda x: x * x * x,     1e-12,   (0, 0, 0)),
    ("float32", lambda x: x * x,         1e-25,   (1, 0, 0)),
    ("float32", lambda x: x * x,         1e-20,   (0, 1, 0)),
    ("float32", lambda x: x * x,         1e20,    (0, 0, 1)),
    ("bfloat16", lambda x: x * x,        256.0,   (0, 0, 0)),
    ("bfloat16", lambda x: x * x,        1e-4,    (0, 0, 0)),
    ("bfloat16", lambda x: x * x,        1e20,    (0, 0, 1)),   # its range is that of float32
    ("bfloat16", lambda x: x * x,        1e-25,   (1, 0, 0)),
    ("bfloat16", lambda x: x * x,        1e-20,   (0, 1, 0)),
    ("float8_e4m3fn", lambda x: x * x,   24.0,    (0, 0, 1)),   # 576 > 448
    ("float8_e5m2", lambda x: x * x,     24.0,    (0, 0, 0)),
]
# fmt: on


def held(name: str, x: Any) -> Low:
    return arithmetic_of_format(format_of(name)).lift(x)


def counted(name: str, f: Callable[..., Any], *xs: Any) -> dict[str, int]:
    """Return what happens in f alone."""
    kind, lifted = arithmetic_of_format(format_of(name)), [held(name, x) for x in xs]
    kind.events.clear()
    with np.errstate(all="ignore"):
        f(*lifted)
    return {event: kind.events[event] for event in EVENTS}


@pytest.mark.parametrize("name", [name for name in NAMES if name.values[0] not in ("float64", "float32")])
@pytest.mark.parametrize(("f", "arity"), OPERATIONS)
def test_an_operation_rounds_as_the_type_does(name: str, f: Callable[..., Any], arity: int) -> None:
    """Exact to float32 and then rounded: how the types' own operations are made."""
    xs = (SIGNED, POSITIVE)[:arity] if arity == 2 else (POSITIVE,)
    kind = kind_of(name)
    with np.errstate(all="ignore"):
        found = f(*[held(name, x) for x in xs]).primal
        own = [x.astype(kind) for x in xs]
        expected = np.asarray(f(*[x.astype(np.float32) for x in own])).astype(kind).astype(np.float64)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["float16", "float32"])
@pytest.mark.parametrize("f", [row[0] for row in OPERATIONS if row[1] == 2])
def test_arithmetic_is_that_of_numpy(name: str, f: Callable[..., Any]) -> None:
    kind = kind_of(name)
    found = f(held(name, SIGNED), held(name, POSITIVE)).primal
    np.testing.assert_array_equal(found, f(SIGNED.astype(kind), POSITIVE.astype(kind)).astype(np.float64))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_rounded_on_the_way_in(name: str) -> None:
    assert held(name, 1 / 3).primal == np.float64(np.float64(1 / 3).astype(kind_of(name)))
    assert (held(name, 1.0) * (1 / 3)).primal == held(name, 1 / 3).primal  # constants too


@pytest.mark.parametrize(("name", "f", "x", "events"), LOST)
def test_events_are_counted(name: str, f: Callable[..., Any], x: float, events: tuple) -> None:
    kind_of(name)  # or skip
    assert counted(name, f, x) == dict(zip(EVENTS, events, strict=True))


def test_events_are_counted_for_each_entry() -> None:
    x = np.array([1e-4, 2e-4, 1.0, 300.0, 400.0])
    assert counted("float16", lambda x: x * x, x) == {"underflow": 1, "subnormal": 1, "overflow": 2}


def test_each_format_counts_for_itself() -> None:
    arithmetic_of_format(format_of("float32")).events.clear()
    assert counted("float16", lambda x: x * x, 1e-4)["underflow"] == 1
    assert not any(arithmetic_of_format(format_of("float32")).events.values())
    assert arithmetic_of_format(format_of("float16")) is arithmetic_of_format(format_of("float16"))


def test_sums_are_accumulated_wide_and_rounded_once() -> None:
    x = np.full(4096, 1.0)
    assert np.sum(held("float16", x)).primal == 4096.0
    assert np.sum(held("float16", np.full(4096, 1 + 2**-10))).primal == np.float16(4096 + 4)


def test_comparisons_and_selections_are_those_of_the_rounded_numbers() -> None:
    x, y = held("float16", 1.0), held("float16", 1.0001)
    assert bool(x == y) and not bool(x < y)
    assert np.where(held("float16", np.array([1.0, -1.0])) > 0, x, 0.0).primal.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("push", [True, False], ids=["forward", "reverse"])
def test_derivatives_are_rounded_too(push: bool) -> None:
    """1 - tanh(x)^2 is 0 where tanh(x) rounds to 1, long before the slope itself underflows."""

    def slope(name: str, x: float) -> float:
        at, one = held(name, x), held(name, 1.0)
        found = jvp(np.tanh, [at], [one])[1] if push else vjp(np.tanh, [at])[1](one)[0]
        return float(found.primal)

    assert slope("float16", 1.0) == pytest.approx(0.42, rel=2e-3)
    assert slope("float16", 5.0) == 0 != slope("float32", 5.0)
