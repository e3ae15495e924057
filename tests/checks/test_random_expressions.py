"""Random expressions over the whole language: all modes agree within their bounds, and balls enclose the truth.

The truth is mpmath's: a difference at 120 digits of the same formula, built beside the text and by none of our rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from gradcli.arithmetic.recorded_program import make_plan
from gradcli.arithmetic.tape import Recorded
from gradcli.checks.run_modes import run_mode
from gradcli.modes.mode import Question
from gradcli.modes.registry import OWN
from gradcli.modes.symbolic_worker import differentiate
from gradcli.request.point import Estimate, Point
from gradcli.targets.expression import Expression

DIGITS = 120
H = mp.mpf(10) ** -40
MPMATH_ERROR = mp.mpf(10) ** -60  # the truncation of a difference at H, and far below every bound
SMALL_FORMULA = 200  # terms; sympy's time grows fast, and two of three expressions are smaller
Values = dict[str, Any]


@dataclass(frozen=True)
class Formula:
    """A text for gradcli, and the same formula for mpmath."""

    text: str
    value: Callable[[Values], Any]


def real(text: str, function: Callable[..., Any]) -> Callable[..., Formula]:
    """Return a constructor of formulas: `{0}` in the text is the first part's text."""
    return lambda *parts: Formula(
        text.format(*(part.text for part in parts)), lambda at: function(*(part.value(at) for part in parts))
    )


def mean(*xs: Any) -> Any:
    return mp.fsum(xs) / len(xs)


def var(*xs: Any) -> Any:
    return mean(*((x - mean(*xs)) ** 2 for x in xs))


def softmax0(*xs: Any) -> Any:
    return mp.exp(xs[0]) / mp.fsum(map(mp.exp, xs))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


# Arguments are led into the domain of each function first: `{p}` is positive, `{u}` in (0, 1), `{i}` in (-1, 1), `{a}` above 1.
POSITIVE = ("(0.5 + ({0})**2)", lambda x: mp.mpf(0.5) + x**2)
INSIDE = ("(0.9*tanh({0}))", lambda x: mp.mpf(0.9) * mp.tanh(x))
UNIT = ("(0.05 + 0.9*sigmoid({0}))", lambda x: mp.mpf(0.05) + mp.mpf(0.9) * sigmoid(x))
ABOVE = ("(1.25 + ({0})**2)", lambda x: mp.mpf(1.25) + x**2)
TAMED = ("(2*tanh({0}))", lambda x: 2 * mp.tanh(x))
ANY = ("({0})", lambda x: x)

UNARY = [
    ("exp", TAMED, mp.exp), ("exp2", TAMED, lambda x: mp.mpf(2) ** x), ("expm1", TAMED, mp.expm1), ("log", POSITIVE, mp.log),
    ("log2", POSITIVE, lambda x: mp.log(x) / mp.log(2)), ("log10", POSITIVE, mp.log10), ("log1p", POSITIVE, mp.log1p),
    ("sqrt", POSITIVE, mp.sqrt), ("cbrt", POSITIVE, mp.cbrt), ("square", ANY, lambda x: x * x), ("reciprocal", POSITIVE, lambda x: 1 / x),
    ("abs", POSITIVE, abs), ("sin", ANY, mp.sin), ("cos", ANY, mp.cos), ("tan", INSIDE, mp.tan), ("arcsin", INSIDE, mp.asin),
    ("arccos", INSIDE, mp.acos), ("arctan", ANY, mp.atan), ("sinh", TAMED, mp.sinh), ("cosh", TAMED, mp.cosh), ("tanh", ANY, mp.tanh),
    ("arcsinh", ANY, mp.asinh), ("arccosh", ABOVE, mp.acosh), ("arctanh", INSIDE, mp.atanh), ("erf", ANY, mp.erf), ("erfc", TAMED, mp.erfc),
    ("gamma", POSITIVE, mp.gamma), ("gammaln", POSITIVE, mp.loggamma), ("digamma", POSITIVE, mp.digamma), ("expit", ANY, sigmoid),
    ("sigmoid", ANY, sigmoid), ("logit", UNIT, lambda x: mp.log(x / (1 - x))), ("softplus", ANY, lambda x: mp.log1p(mp.exp(x))),
    ("silu", ANY, lambda x: x * sigmoid(x)), ("gelu", TAMED, lambda x: x * mp.ncdf(x)), ("relu", POSITIVE, lambda x: x), ("-", ANY, lambda x: -x),
]  # fmt: skip
BINARY = [
    ("({0}) + ({1})", lambda a, b: a + b), ("({0}) - ({1})", lambda a, b: a - b), ("({0})*({1})", lambda a, b: a * b),
    ("({0})/(0.5 + ({1})**2)", lambda a, b: a / (mp.mpf(0.5) + b * b)), ("(0.5 + ({0})**2)**tanh({1})", lambda a, b: (mp.mpf(0.5) + a * a) ** mp.tanh(b)),
    ("arctan2({0}, 0.5 + ({1})**2)", lambda a, b: mp.atan2(a, mp.mpf(0.5) + b * b)), ("hypot({0}, 0.5 + ({1})**2)", lambda a, b: mp.hypot(a, mp.mpf(0.5) + b * b)),
    ("maximum({0}, 3 + ({0})**2 + ({1})**2)", lambda a, b: 3 + a * a + b * b), ("minimum({0}, 3 + ({0})**2 + ({1})**2)", lambda a, b: a),
    ("logaddexp({0}, {1})", lambda a, b: mp.log(mp.exp(a) + mp.exp(b))), ("where(({0}) < 3 + ({0})**2, {1}, {0})", lambda a, b: b),
    ("(({0}) if 1 > 0 else ({1}))", lambda a, b: a), ("clip({0}, ({0})**2*0 - 1e9, 1e9 + {1})", lambda a, b: a), ("({0})**3 + {1}", lambda a, b: a**3 + b),
]  # fmt: skip
VECTOR = [
    ("sum({0})", lambda *xs: mp.fsum(xs)), ("mean({0})", mean), ("prod({0})", lambda *xs: mp.fprod(xs)), ("var({0})", var),
    ("std({0} + [1, -2, 4])", lambda a, b, c: mp.sqrt(var(a + 1, b - 2, c + 4))), ("norm({0} + [3, 4, 5]*9)", lambda a, b, c: mp.sqrt((a + 27) ** 2 + (b + 36) ** 2 + (c + 45) ** 2)),
    ("logsumexp({0})", lambda *xs: mp.log(mp.fsum(map(mp.exp, xs)))), ("softmax({0})[0]", softmax0),
    ("log_softmax({0})[0]", lambda *xs: mp.log(softmax0(*xs))), ("dot({0}, {0})", lambda *xs: mp.fsum(x * x for x in xs)),
    ("cumsum({0})[1]", lambda a, b, c: a + b), ("sum(outer({0}, {0}))", lambda *xs: mp.fsum(xs) ** 2), ("trace(outer({0}, {0}))", lambda *xs: mp.fsum(x * x for x in xs)),
    ("det(outer({0}, {0}) + eye(3))", lambda *xs: 1 + mp.fsum(x * x for x in xs)), ("einsum('i,i->', {0}, {0})", lambda *xs: mp.fsum(x * x for x in xs)),
    ("slogdet(outer({0}, {0}) + eye(3))[1]", lambda *xs: mp.log(1 + mp.fsum(x * x for x in xs))),
    ("sum(solve(outer({0}, {0}) + eye(3), {0}))", lambda *xs: mp.fsum(xs) / (1 + mp.fsum(x * x for x in xs))),
    ("trace(inv(outer({0}, {0}) + eye(3)))", lambda *xs: 2 + 1 / (1 + mp.fsum(x * x for x in xs))),
    ("sum(concatenate([{0}, {0}[1:]]))", lambda a, b, c: a + 2 * b + 2 * c), ("max({0} + [50, 0, -50])", lambda a, b, c: a + 50),
    ("min({0}*0.1 + [50, 0, -50])", lambda a, b, c: c * mp.mpf(0.1) - 50), ("({0} @ reshape([1, 2, 3], (3, 1)))[0]", lambda a, b, c: a + 2 * b + 3 * c),
    ("mse({0}, [1, 2, 3])", lambda a, b, c: mean((a - 1) ** 2, (b - 2) ** 2, (c - 3) ** 2)), ("stack([{0}, {0}]).T[0, 1]", lambda a, b, c: a),
]  # fmt: skip


def vector(text: str, function: Callable[..., Any]) -> Callable[..., Formula]:
    """Return a constructor of formulas of a vector of three parts, named once so that texts stay short."""
    return lambda a, b, c: Formula(
        text.format(f"[{a.text}, {b.text}, {c.text}]"), lambda at: function(a.value(at), b.value(at), c.value(at))
    )


def unary(row: tuple[str, Any, Any]) -> Callable[[Formula], Formula]:
    name, (led, lead), function = row
    return real(f"{name}({led})", lambda x: function(lead(x)))


leaves = st.sampled_from(
    [Formula(name, lambda at, name=name: at[name]) for name in "xy"]
    + [Formula(repr(c), lambda at, c=c: mp.mpf(c)) for c in (0.5, 2.0, 1.25, -0.75)]
    + [Formula("pi", lambda at: +mp.pi), Formula("(1/3)", lambda at: mp.mpf(1) / 3)]
)
inputs = st.sampled_from([Formula(name, lambda at, name=name: at[name]) for name in "xy"])


def grown(part: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    return st.one_of(
        st.builds(lambda row, a: unary(row)(a), st.sampled_from(UNARY), part),
        st.builds(lambda row, a, b: real(*row)(a, b), st.sampled_from(BINARY), part, part),
        st.builds(lambda row, a, b, c: vector(*row)(a, b, c), st.sampled_from(VECTOR), part, part, part),
    )


formulas = grown(st.recursive(st.one_of(inputs, leaves), grown, max_leaves=5))
points = st.tuples(st.floats(-1.5, 1.5, width=32), st.floats(-1.5, 1.5, width=32))


def truth(formula: Formula, at: Values, name: str) -> Any:
    """Return df/dname by a symmetric difference at 120 digits."""
    with mp.workdps(DIGITS):
        exact = {key: mp.mpf(float(value)) for key, value in at.items()}
        up, down = ({**exact, name: exact[name] + sign * H} for sign in (1, -1))
        return (formula.value(up) - formula.value(down)) / (2 * H)


def encloses(certified: Estimate, name: str, right: Any) -> bool:
    """Whether the certified decimals and their bound hold the truth."""
    assert certified.decimals is not None
    with mp.workdps(DIGITS):
        known = mp.mpf(str(certified.decimals[name]))
        return bool(abs(known - right) <= mp.mpf(float(certified.bound[name])) + (1 + abs(right)) * MPMATH_ERROR)


def within(estimate: Estimate, name: str, right: Any) -> bool:
    with mp.workdps(DIGITS):
        return bool(
            abs(mp.mpf(float(estimate.value[name])) - right)
            <= mp.mpf(float(estimate.bound[name])) + abs(right) * 2.0**-52 + MPMATH_ERROR
        )


def symbolic(q: Question) -> Estimate | None:
    """The symbolic mode in this process: a child for each of a thousand expressions would only wait."""
    if not isinstance(q.recording.y, Recorded):
        return None
    program = make_plan(q.recording)
    if program.terms[program.result] * len(q.xs) > SMALL_FORMULA:
        return None
    answer = differentiate(program, q.xs, ())
    return Estimate(
        dict(zip(q.wrt, answer["values"], strict=True)),
        {name: bound + q.rounding[name] for name, bound in zip(q.wrt, answer["bounds"], strict=True)},
    )


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_all_modes_agree_within_their_bounds_and_balls_enclose_the_truth(part: int) -> None:
    @seed(part)
    @settings(
        max_examples=100 if part else 30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(formulas, points)
    def holds(formula: Formula, point: tuple[float, float]) -> None:
        f = Expression(formula.text)
        at = {name: np.float64(x) for name, x in zip("xy", point, strict=True)}
        q = Question(f, Point({name: at[name] for name in f.inputs}), f.inputs)
        with np.errstate(all="ignore"):
            assume(np.isfinite(q.value) and abs(q.value) < 1e12 and not q.kinks and q.not_finite is None)
            found = {name: run_mode(OWN[name], q) for name in OWN if name != "symbolic"}
            by_sympy = symbolic(q)
        assert found["certified"].estimate is not None, (formula.text, point, found["certified"].error)
        for name in f.inputs:
            right = truth(formula, at, name)
            assert encloses(found["certified"].estimate, name, right), (formula.text, point, name, right)
            for mode, outcome in found.items():
                if outcome.estimate is None:
                    assert outcome.status == "unsupported" and mode == "complex-step", (
                        formula.text,
                        mode,
                        outcome.error,
                    )
                    continue
                assert within(outcome.estimate, name, right), (formula.text, point, mode, name, right, outcome.estimate)
            assert by_sympy is None or within(by_sympy, name, right), (formula.text, point, name, right, by_sympy)

    holds()
