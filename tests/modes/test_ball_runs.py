"""Certified derivatives of numbers: what is proved on compiled code is what is proved on the trace."""

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from gradcli.arithmetic.ball import exact_constants
from gradcli.errors import NotSupported, TraceDiffers
from gradcli.modes import certified
from gradcli.modes.certified import Certified
from gradcli.modes.mode import Contradiction, Question
from gradcli.request.point import Point
from gradcli.rules.kinds import Partial
from gradcli.targets.expression import Expression
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

TEXTS = (
    "sin(x)", "x*tanh(x)/y", "x**0.3 + y**x", "log2(x) + log10(y) + exp2(x)", "1/(1 + 25*x**2) - y", "x**3*y**-2", "sigmoid(x) + gelu(y)",
    "arctan2(x, y)*hypot(x, y)", "erf(x) + gamma(y)", "u = x*y; u**2 + u", "softplus(x)*silu(y)", "degrees(x) + pi*y", "sqrt(x)*cbrt(y) + expm1(x)",
    "x - x + y", "logaddexp(x, y)", "4*x*(1 - x)", "3*y",
)  # fmt: skip
GENERAL = ("x**0.3 + y**x", "arctan2(x, y)*hypot(x, y)")  # they look at values, or have kinks
POINTS = ((0.37, 0.81), (1.3, 2.7), (4.9, 0.2))


def question(text: str, x: Any, y: Any, **more: Any) -> Question:
    f = Expression(text)
    at = {name: v for name, v in {"x": np.float64(x), "y": np.float64(y)}.items() if name in f.inputs}
    return Question(f, Point(at), tuple(at), **more)


def quickly(q: Question) -> Any:
    code = certified.compile_in_balls(q)
    return None if code is None else Certified()._gradient_by_code(q, code, exact_constants)


@for_rows("at", POINTS)
@for_rows("text", TEXTS)
def test_both_ways_prove_the_same(text: str, at: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    q = question(text, *at)
    found = quickly(q)
    with monkeypatch.context() as patch:
        patch.setattr(certified, "compile_in_balls", lambda *asked: None)
        expected = Certified().gradient(q)
    assert (found is None) == (text in GENERAL)
    if found is None:
        return
    assert found.value == expected.value
    assert found.proved
    assert found.notes == expected.notes == ("128 bits",)
    for name in q.wrt:
        assert found.decimals is not None and expected.decimals is not None
        assert str(found.decimals[name])[:30] == str(expected.decimals[name])[:30]
        assert 0 <= found.bound[name] <= 1e-28 * abs(found.value[name])


def test_the_code_is_written_once_and_serves_every_point() -> None:
    q = question("sin(x)*y", 0.3, 0.4)
    assert quickly(q) is not None
    code = certified.compile_in_balls(q)
    assert code is not None
    other = replace(q, point=Point({"x": np.float64(2.0), "y": np.float64(3.0)}))
    again = certified.compile_in_balls(other)
    assert again is not None
    assert again is code
    found = quickly(other)
    assert np.allclose([found.value["x"], found.value["y"]], [3.0 * np.cos(2.0), np.sin(2.0)], rtol=1e-15)


@for_rows(
    ("text", "x"),
    [("abs(x)", 1.0), ("x if x > 0 else -x", 1.0), ("floor(x)*x", 1.5), ("sqrt(x)", 0.0), ("1/x", 0.0), ("log(x)", -1.0), ("1/x", 1e-160)],
)  # fmt: skip
def test_what_it_leaves_open_goes_the_general_way(text: str, x: float) -> None:
    assert quickly(question(text, x, 1.0)) is None


def test_arrays_integers_and_a_trace_that_is_not_believed_go_the_general_way() -> None:
    f = Expression("sum(x**2)")
    assert quickly(Question(f, Point({"x": np.array([1.0, 2.0])}), ("x",))) is None
    assert quickly(Question(Expression("x**n"), Point({"x": np.float64(2), "n": 3}), ("x",))) is None
    assert quickly(question("sin(x)", 1.0, 1.0, blind=NotSupported("why"))) is None


@for_rows(("text", "is_traced"), [("sin(x)*y", False), ("sin(pi*x)*y", True), ("abs(x)*y", True)])
def test_only_what_names_pi_or_e_or_has_no_code_is_traced(text: str, is_traced: bool) -> None:
    q = question(text, 0.3, 0.4)
    assert Certified().gradient(q).proved
    assert ("_traced" in q.__dict__) == is_traced


def test_a_wrong_rule_is_found() -> None:
    sinh = PRIMITIVES["sinh"]
    own = sinh.rules
    object.__setattr__(sinh, "rules", (Partial(lambda y, x: np.cosh(x) * (1 + 1e-15)),))
    try:
        for x in (1.0, 1e-300, 1e-313):
            q = question("sinh(x)", x, 1.0)
            assert quickly(q) is None
            with pytest.raises(Contradiction):
                Certified().gradient(q)
    finally:
        object.__setattr__(sinh, "rules", own)
    assert quickly(question("sinh(x)", 1.0, 1.0)) is not None


def test_a_wrong_trace_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    q = question("sin(x)", 1.0, 1.0)
    q.__dict__["value"] = np.float64(np.sin(1.0) + 1e-9)
    assert quickly(q) is None
    with pytest.raises(TraceDiffers):
        Certified().gradient(q)


@pytest.mark.parametrize(("text", "x"), [("exp(-x)", 700.0), ("exp(-x)", 1000.0), ("sinh(x)*1e-200", 1e-120)])
def test_no_bound_underflows_to_zero(text: str, x: float) -> None:
    found = Certified().gradient(question(text, x, 1.0))
    assert found.bound["x"] > 0
    assert found.decimals is not None
    with mpmath.workdps(80):
        f = {"exp(-x)": lambda x: -mpmath.exp(-x), "sinh(x)*1e-200": lambda x: mpmath.cosh(x) * mpmath.mpf(1e-200)}[
            text
        ]
        exact = f(mpmath.mpf(x))
        assert abs(mpmath.mpf(str(found.decimals["x"])) / exact - 1) < 1e-29
