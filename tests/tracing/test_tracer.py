"""What numpy and Python ask of a traced value, and what ends a trace."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.ndimage
import scipy.stats

from gradcli.arithmetic.ball import Ball
from gradcli.arithmetic.dual import Dual, jvp
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.arithmetic.tape import Tape
from gradcli.errors import NoRule, TraceEnded
from gradcli.tracing.tracer import arithmetic_of, exact_integer, plain_value
from tests.rows import for_rows

Function = Callable[[Any], Any]
EPS = float(np.finfo(np.float64).eps)
ONE = np.float64(1)
V = np.array([0.4, 1.3, 2.2])
M = np.array([[0.3, 1.2, 0.7], [1.1, 0.4, 0.6]])
N = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]])


def loop(x: Any) -> Any:
    s = 0.0
    for _ in range(3):
        s += x * x
    return s


def loop_from_plain_scalar(x: Any) -> Any:
    s = np.float64(0)
    for row in x:
        s += np.sum(row)
    return s


def aliased(x: Any) -> Any:
    s = x * 1.0
    kept = s
    s += x
    return kept


# fmt: off
PROTOCOLS: dict[str, Function] = {
    "ufunc":              lambda x: np.exp(x),
    "ufunc plain first":  lambda x: np.multiply(V, x),
    "reduce":             lambda x: np.add.reduce(x),
    "reduce all":         lambda x: np.add.reduce(x, axis=None),
    "reduce axis":        lambda x: np.add.reduce(x, axis=1, keepdims=True),
    "reduce from":        lambda x: np.add.reduce(x, axis=1, initial=2.0),
    "reduce product":     lambda x: np.multiply.reduce(x, axis=1),
    "reduce maximum":     lambda x: np.maximum.reduce(x),
    "reduce minimum":     lambda x: np.minimum.reduce(x, axis=None),
    "accumulate":         lambda x: np.add.accumulate(x),
    "accumulate axis":    lambda x: np.add.accumulate(x, axis=1),
    "out":                lambda x: np.exp(x, out=x * 1.0),
    "out by position":    lambda x: np.add(x, V, x * 1.0),
    "function":           lambda x: np.sum(x, axis=0),
    "function of list":   lambda x: np.concatenate([x, M]),
    "no-value keywords":  lambda x: np.sum(x, axis=0, keepdims=np._NoValue, initial=np._NoValue),
}
METHODS: dict[str, Function] = {
    "sum":       lambda x: x.sum(axis=1),           "mean":     lambda x: x.mean(0, keepdims=True),
    "max":       lambda x: x.max(axis=0),           "min":      lambda x: x.min(),
    "prod":      lambda x: x.prod(),                "var":      lambda x: x.var(axis=1, ddof=1),
    "std":       lambda x: x.std(),                 "dot":      lambda x: x.dot(N),
    "cumsum":    lambda x: x.cumsum(axis=1),        "trace":    lambda x: x.trace(),
    "diagonal":  lambda x: x.diagonal(1),           "clip":     lambda x: x.clip(0.5, 1.0),
    "squeeze":   lambda x: x[:1].squeeze(),         "swapaxes": lambda x: x.swapaxes(0, 1),
    "repeat":    lambda x: x.repeat(2, axis=0),     "take":     lambda x: x.take([0, 4]),
    "reshape":   lambda x: x.reshape(3, 2),         "reshape tuple": lambda x: x.reshape((2, -1)),
    "ravel":     lambda x: x.ravel(),               "flatten":  lambda x: x.flatten(),
    "transpose": lambda x: x.transpose(),           "transpose axes": lambda x: x.transpose(1, 0),
    "T":         lambda x: x.T,                     "astype":   lambda x: x.astype(float),
    "copy":      lambda x: x.copy(),                "round":    lambda x: x.round(1) + x,
}
OPERATORS: dict[str, Function] = {
    "+ number":   lambda x: x + 2,                  "number +":  lambda x: 2 + x,
    "+ float64":  lambda x: x + np.float64(2),      "float64 +": lambda x: np.float64(2) + x,
    "- array":    lambda x: x - V,                  "array -":   lambda x: V - x,
    "* array":    lambda x: x * V,                  "array *":   lambda x: V * x,
    "/ float64":  lambda x: x / np.float64(3),      "float64 /": lambda x: np.float64(3) / x,
    "/ int":      lambda x: x / 3,                  "int /":     lambda x: 3 / x,
    "** int":     lambda x: x**3,                   "int **":    lambda x: 2**x,
    "** array":   lambda x: x**V,                   "array **":  lambda x: V**x,
    "** negative": lambda x: x**-2,                 "float64 **": lambda x: np.float64(1.5) ** x,
    "@ array":    lambda x: x @ N,                  "array @":   lambda x: N @ x,
    "% number":   lambda x: x % 0.9,                "number %":  lambda x: 5.0 % x,
    "// number":  lambda x: x // 0.9 + x,           "number //": lambda x: 5.0 // x + x,
    "itself":     lambda x: x * x + x / x - x**x,   "negative":  lambda x: -x,
    "positive":   lambda x: +x,                     "abs":       lambda x: abs(x),
    "list +":     lambda x: list(V) + x,            "0-d array": lambda x: np.array(2.0) * x,
    "int64 *":    lambda x: np.int64(2) * x,        "bool *":    lambda x: True * x,
    "loop":       loop,                             "loop of rows": loop_from_plain_scalar,
    "+= aliased": aliased,                          "sum()":     lambda x: sum(x),
}
# fmt: on
ALL = [pytest.param(f, id=name) for name, f in (PROTOCOLS | METHODS | OPERATORS).items()]


@for_rows("f", ALL)
def test_value_is_numpys_under_either_sweep(f: Function) -> None:
    expected = f(M.copy())
    forward, (reverse, _) = jvp(f, [M], [M])[0], vjp(f, [M])
    for y in (forward, reverse):
        assert np.shape(y) == np.shape(expected)
        np.testing.assert_allclose(y, expected, rtol=8 * EPS)  # sums of six terms in another order


@for_rows("f", ALL)
def test_derivative_passes_through(f: Function) -> None:
    mdot = np.sin(1 + np.arange(6.0)).reshape(2, 3)
    y, ydot = jvp(f, [M], [mdot])
    assert np.any(ydot != 0)
    ybar = np.cos(np.arange(np.size(y))).reshape(np.shape(y))[()]
    mbar = vjp(f, [M])[1](ybar)[0]
    size = np.sum(np.abs(ybar * ydot)) + np.sum(np.abs(mbar * mdot))
    assert abs(np.sum(ybar * ydot) - np.sum(mbar * mdot)) <= 32 * EPS * size  # two sums of at most 24 terms


ENDS: dict[str, tuple[Function, str]] = {
    "float": (lambda x: float(x), "float() of a traced value loses its derivative"),
    "math": (lambda x: math.sin(x), "float() of a traced value loses its derivative"),
    "int": (lambda x: int(x), "int() of a traced value loses its derivative"),
    "asarray": (lambda x: np.asarray(x, dtype=float), "a traced value is converted to a plain array"),
    "np.array": (lambda x: np.array(x), "a traced value is converted to a plain array"),
    "a package": (lambda x: scipy.stats.norm.logpdf(x), "logpdf of scipy.stats is not traced"),
    "a package's": (
        partial(scipy.ndimage.gaussian_filter1d, sigma=1.0),
        "gaussian_filter1d of scipy.ndimage is not traced",
    ),
    "a package's method": (
        scipy.interpolate.CubicSpline(np.arange(4.0), np.arange(4.0)),
        "_PPolyBase.__call__ of scipy.interpolate is not",
    ),
    "np.float64": (lambda x: np.float64(x), "a traced value is converted to a plain array"),
    "astype": (lambda x: x.astype(int), "astype(int64) of a traced value loses its derivative"),
    "out plain": (lambda x: np.exp(x, out=np.zeros(())), "a traced result is stored into a plain array"),
}


@for_rows("sweep", [lambda f: jvp(f, [ONE], [ONE]), lambda f: vjp(f, [ONE])], ids=["dual", "tape"])
@for_rows("name", ENDS)
def test_a_plain_number_ends_the_trace_and_says_what_to_do(name: str, sweep: Any) -> None:
    f, says = ENDS[name]
    with pytest.raises(TraceEnded) as caught:
        sweep(f)
    assert caught.value.what.startswith(says)
    assert caught.value.do


def plus_in_place(x: Any) -> Any:
    a = np.zeros(3)
    a += x
    return a


def slice_of_plain(x: Any) -> Any:
    a = np.zeros(3)
    a[:] = x
    return a


def item_of_plain(x: Any) -> Any:
    a = np.zeros(3)
    a[0] = x[0]
    return a


@pytest.mark.parametrize("f", [plus_in_place, slice_of_plain])
def test_storing_into_a_plain_array_ends_the_trace(f: Function) -> None:
    with pytest.raises(TraceEnded):
        vjp(f, [V])


def test_numpy_hides_the_end_of_the_trace_in_the_cause() -> None:
    with pytest.raises(ValueError, match="setting an array element") as caught:
        vjp(item_of_plain, [V])
    assert isinstance(caught.value.__cause__, TraceEnded)


NO_RULE: dict[str, tuple[Function, str]] = {
    "ufunc": (lambda x: np.nextafter(x, x), "nextafter has no derivative rule: its value is the grid of float64"),
    "function": (lambda x: np.roots(x), "roots has no derivative rule: roots and eigenvalues"),
    "where": (lambda x: np.exp(x, where=V > 1), "np.exp with where= and no out= leaves entries undefined"),
    "dtype": (lambda x: np.exp(x, dtype=np.float32), "exp with dtype=float32 has no derivative rule"),
    "sum dtype": (lambda x: np.sum(x, dtype=int), "sum with dtype=int64 has no derivative rule"),
    "reshape": (lambda x: np.reshape(x[None], -1, order="K"), "reshape with order='K' depends on how the array lies"),
    "eig": (lambda x: np.linalg.eig(x * np.eye(3)), "eigenvalues of a matrix that is not symmetric may be complex"),
}


@for_rows("name", NO_RULE)
def test_what_has_no_rule_says_so(name: str) -> None:
    f, says = NO_RULE[name]
    with pytest.raises(NoRule) as caught:
        vjp(f, [V])
    assert caught.value.what.startswith(says)


def test_a_traced_index_is_refused() -> None:
    with pytest.raises(NoRule, match="an index is a traced value"):
        vjp(lambda x: x[x], [V])


def test_isinstance_is_what_it_would_be_untraced() -> None:
    def f(x: Any, y: Any) -> Any:
        assert isinstance(x, np.ndarray)
        assert not isinstance(x, float)
        assert isinstance(y, float)
        assert not isinstance(y, np.ndarray)
        return y

    jvp(f, [V, ONE], [V, ONE])
    vjp(f, [V, ONE])


def test_attributes_are_numpys() -> None:
    def f(x: Any) -> Any:
        assert (x.shape, x.ndim, x.size, x.dtype, len(x)) == (M.shape, M.ndim, M.size, M.dtype, len(M))
        assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
        return x

    jvp(f, [M], [M])


def test_a_scalar_has_no_length() -> None:
    with pytest.raises(TypeError, match="has no len"):
        jvp(lambda x: len(x), [ONE], [ONE])


@for_rows("other", [1.3, np.float64(1.3), np.array(1.3), V], ids=["float", "float64", "0-d", "array"])
@for_rows("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_comparisons_are_plain_and_numpys(name: str, other: Any) -> None:
    compare = getattr(np, name)
    for x in (Dual(V, V, 1), Tape(1).variable(V)):
        np.testing.assert_array_equal(compare(x, other), compare(V, other))
        np.testing.assert_array_equal(compare(other, x), compare(other, V))


def test_a_branch_is_taken_by_value() -> None:
    def f(x: Any) -> Any:
        return x * x if x > 2 else -x

    assert vjp(f, [np.float64(3)])[1](ONE) == [6.0]
    assert vjp(f, [np.float64(1)])[1](ONE) == [-1.0]


def test_truth_is_being_nonzero() -> None:
    assert Dual(ONE, ONE, 1)
    assert not Dual(np.float64(0), ONE, 1)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(Dual(V, V, 1))


def test_every_branch_is_recorded_as_a_decision() -> None:
    _, _, tape = record(lambda x: x if x > 1 and x != 2 else -x, [np.float64(3)])
    assert [line[0].name for line in tape.decisions] == ["greater", "not_equal"]


def test_the_class_is_fixed() -> None:
    with pytest.raises(TypeError, match="fixed"):
        Dual(ONE, ONE, 1).__class__ = float  # type: ignore[assignment]


def test_constants_are_exact_in_the_arithmetic_underneath() -> None:
    x = Dual(Ball.lift(ONE), Ball.lift(ONE), 1)
    assert arithmetic_of(x) is Ball
    assert arithmetic_of(Dual(ONE, ONE, 1)) is None
    assert type(exact_integer(2, x)) is Ball
    assert plain_value(Dual(Dual(ONE, ONE, 1), ONE, 2)) is ONE
