"""What is traced is the function: caches that a trace hits, terms that lose their derivative, and functions that are as they seem."""

import functools
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.errors import GradcliError, TraceDiffers
from gradcli.report.check import CheckReport
from tests.rows import for_rows

X = np.array([0.3, 0.7, 1.9])
WEIGHTS = [1.0, 1e-3, 1e-6]


def by_dict(weight: float) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def f(x: Any) -> Any:
        key = tuple(map(hash, x))
        if key not in known:
            known[key] = np.sum(np.sin(3 * x))
        return np.sum(x**2) + weight * known[key]

    return f


def by_lru_cache(weight: float) -> Callable[..., Any]:
    @functools.cache
    def wave(t: float) -> Any:
        return np.sin(3 * t)

    return lambda x: np.sum(x**2) + weight * sum(wave(t) for t in x)


def by_array_equal(weight: float) -> Callable[..., Any]:
    last: list[Any] = [None, None]

    def f(x: Any) -> Any:
        if last[0] is None or not np.array_equal(x, last[0]):
            last[:] = [np.array(x), np.sum(np.sin(3 * x))]
        return np.sum(x**2) + weight * last[1]

    return f


class Keeping:
    def __init__(self, weight: float) -> None:
        self.weight, self._x, self._wave = weight, None, 0.0

    def __call__(self, x: Any) -> Any:
        if self._x is None or not np.array_equal(self._x, x):
            self._x, self._wave = x.copy(), np.sum(np.sin(3 * x))
        return np.sum(x**2) + self.weight * self._wave


MEMOISED = {"dict": by_dict, "lru_cache": by_lru_cache, "array_equal": by_array_equal, "class": Keeping}


def point(report: CheckReport) -> Any:
    return report.points[0]


def kinds(report: CheckReport) -> set[str]:
    return {f.kind for f in point(report).findings}


@for_rows("weight", WEIGHTS)
@for_rows("how", MEMOISED)
def test_a_claim_that_leaves_out_what_is_cached_fails(how: str, weight: float) -> None:
    f = MEMOISED[how](weight)
    f(X)
    report = gradcli.check(f, {"x": X}, grad=lambda x: 2 * x)
    assert report.exit_status == 1
    assert point(report).reference == "finite-difference" and point(report).trace_test.agrees is False


@for_rows("weight", WEIGHTS)
@for_rows("how", MEMOISED)
def test_the_right_claim_for_a_cached_function_passes_by_function_values(how: str, weight: float) -> None:
    report = gradcli.check(MEMOISED[how](weight), {"x": X}, grad=lambda x: 2 * x + 3 * weight * np.cos(3 * x))
    assert report.exit_status == 0 and "kink" not in kinds(report)
    (says,) = [f.message for f in point(report).findings if f.kind == "untraced"]
    assert says.startswith("checked by function values alone: the trace differs from the function: ")


@for_rows("how", MEMOISED)
def test_without_a_claim_a_cached_function_is_not_confirmed(how: str) -> None:
    assert gradcli.check(MEMOISED[how](1e-6), {"x": X}).exit_status == 3


FAITHFUL: dict[str, Callable[..., Any]] = {
    "sums": lambda x: np.sum(np.sin(x) * x),
    "sorted": lambda x: np.sum(np.sort(x) * np.arange(3.0)),
    "branches": lambda x: np.sum(x**2) if x[0] > 0 else np.sum(x**3),
    "steps": lambda x: np.sum(np.floor(x) + x**2),
    "kinks": lambda x: np.sum(np.abs(x - 0.7)) + np.max(x),
    "sinc at 0": lambda x: np.sum(np.sinc(x - X) * x),
    "statistics": lambda x: np.var(x) * np.log(np.std(x)) + np.median(x),
    "determinant": lambda x: np.linalg.det(np.vander(x)) + np.linalg.slogdet(np.diag(x))[1],
    "log-sum-exp": lambda x: np.log(np.sum(np.exp(50 * x))),
    "a cache that is not hit": lambda x, known={}: np.sum(known.setdefault(len(known), x) ** 2),
}


@for_rows("name", FAITHFUL)
def test_a_function_that_is_as_it_seems_keeps_its_trace(name: str) -> None:
    report = gradcli.check(FAITHFUL[name], {"x": X}, modes="certified,reverse,fd")
    assert "untraced" not in kinds(report), point(report).findings
    test = point(report).trace_test
    assert not test or test.agrees is not False


def test_the_limit_of_the_test_is_stated_and_kept() -> None:
    """A term that is lost in tracing and is a little above the stated limit is seen."""
    limit = point(gradcli.check(lambda x: np.sum(x**2), {"x": X})).trace_test.detects
    assert 0 < limit < 1e-12
    lost = by_dict(1e-11)
    lost(X)
    assert point(gradcli.check(lost, {"x": X})).trace_test.agrees is False


def test_an_expression_has_the_test_too() -> None:
    assert point(gradcli.check("sum(where(z > 0, z**2, z))", {"z": np.array([0.3, -1.2])})).trace_test.agrees


def raising_beside(x: Any) -> Any:
    if not np.array_equal(x, X):
        raise ValueError("only here")
    return np.sum(x**2)


def raising_away(x: Any) -> Any:
    if np.max(np.abs(x - X)) > 1e-14:
        raise ValueError("only here")
    return np.sum(x**2)


def other_shape_beside(x: Any) -> Any:
    return np.sum(x**2) if np.max(np.abs(x - X)) < 1e-14 else x**2


def raising_once() -> Callable[..., Any]:
    raised: list[bool] = []

    def f(x: Any) -> Any:
        if type(x) is np.ndarray and np.max(np.abs(x - X)) > 1e-14 and not raised:
            raised.append(True)
            raise ValueError("at the first displaced call")
        return np.sum(x**2)

    return f


@for_rows("make", [lambda: raising_beside, lambda: raising_away, lambda: other_shape_beside, raising_once])
@for_rows("claim", [None, lambda x: 2 * x])
def test_what_goes_wrong_beside_the_point_alone_is_no_pass(make: Callable[[], Any], claim: Any) -> None:
    report = gradcli.check(make(), {"x": X}, grad=claim)
    assert report.exit_status == 3
    assert any(f.severity == "inconclusive" for f in point(report).findings)


def test_a_domain_that_ends_near_the_point_is_no_reason_to_doubt() -> None:
    def f(x: Any) -> Any:
        if x > 1:
            raise ValueError("above the domain")
        return np.sqrt(1 - x)

    assert gradcli.check(f, {"x": 0.9}, grad=lambda x: -0.5 / np.sqrt(1 - x)).exit_status == 0


def test_a_function_that_keeps_count_is_said_to_depend_on_earlier_calls() -> None:
    calls = [0]

    def f(x: Any) -> Any:
        calls[0] += 1
        return np.sum(x**2) + (1e-3 if calls[0] > 6 else 0.0)

    report = gradcli.check(f, {"x": X}, grad=lambda x: 2 * x)
    assert report.exit_status == 3
    assert kinds(report) & {"depends-on-earlier-calls", "not-deterministic"}


@for_rows("seed", range(40), parts=3)
def test_a_function_that_uses_values_of_earlier_calls_gets_a_report(seed: int) -> None:
    draw, kept = random.Random(seed), []
    rate = draw.choice([0.2, 0.5, 0.9])

    def f(x: Any) -> Any:
        if kept and draw.random() < rate:
            return np.sum(np.sin(x)) * (1 + draw.choice(kept))
        kept.append(np.sum(np.exp(0.5 * x)))
        return np.sum(np.sin(x)) * (1 + kept[-1])

    report = gradcli.check(f, {"x": X}, grad=lambda x: np.cos(x))
    assert report.exit_status in (1, 3)
    assert report.exit_status == 1 or any(finding.severity == "inconclusive" for finding in point(report).findings)


@for_rows("how", MEMOISED)
@for_rows("derivative", [gradcli.grad, gradcli.value_and_grad])
def test_a_gradient_from_python_is_refused_at_the_first_call(how: str, derivative: Any) -> None:
    f = MEMOISED[how](0.1)
    f(X)
    with pytest.raises(TraceDiffers, match="differs from the function"):
        derivative(f)(X)
    assert np.all(np.isfinite(gradcli.grad(f, verify=False)(X)))


@for_rows("name", FAITHFUL)
def test_a_gradient_from_python_of_a_pure_function_is_not_refused(name: str) -> None:
    assert np.all(np.isfinite(gradcli.grad(FAITHFUL[name])(X)))


def test_a_function_is_tested_once() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return np.sum(x**2)

    derivative = gradcli.grad(f)
    derivative(X)
    first = len(calls)
    derivative(X)
    assert len(calls) == first + 1
    gradcli.grad(f)(X)
    assert len(calls) == first + 2


def test_a_random_function_is_refused_unless_it_is_wished() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(TraceDiffers) as raised:
        gradcli.grad(lambda x: np.sum(x**2) + rng.normal())(X)
    assert "verify=False skips this test" in str(raised.value.do)


DERIVATIVES: dict[str, Any] = {
    "grad": lambda f: gradcli.grad(f)(X),
    "value_and_grad": lambda f: gradcli.value_and_grad(f)(X),
    "jacobian": lambda f: gradcli.jacobian(f)(X),
    "compile": lambda f: gradcli.compile(f, X),
    "compiled gradient": lambda f: gradcli.compile(gradcli.grad(f), X),
}


@for_rows("derivative", DERIVATIVES)
def test_a_function_that_was_refused_is_refused_at_every_call(derivative: str) -> None:
    drawn = iter([1.0, 2.0])

    def f(x: Any) -> Any:
        return np.sum(x**2) * next(drawn, 3.0)  # from the third call on it is pure

    for _ in range(3):
        with pytest.raises(TraceDiffers):
            DERIVATIVES[derivative](f)
    with pytest.raises(TraceDiffers, match=r"f was refused at an earlier call: the (trace|compiled code) of f d"):
        gradcli.grad(f)(X)


def test_a_gradient_keeps_refusing_a_function_that_cannot_be_remembered() -> None:
    class Random:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: Any) -> Any:
            return np.sum(x**2) * np.random.default_rng().normal()

    derivative = gradcli.grad(Random())
    for _ in range(2):
        with pytest.raises(TraceDiffers):
            derivative(X)


def test_a_function_is_tested_again_after_it_raised() -> None:
    drawn = itertools.count()

    def f(x: Any) -> Any:
        if np.ndim(x) != 1:
            raise ValueError("give a vector")
        return np.sum(x**2) * next(drawn)

    derivative = gradcli.grad(f)
    with pytest.raises(GradcliError, match="give a vector"):
        derivative(np.eye(2))
    with pytest.raises(TraceDiffers):
        derivative(X)


def test_a_function_is_tested_at_a_later_call_where_the_first_compares_nothing() -> None:
    drawn = itertools.count(1)
    derivative = gradcli.grad(lambda x: np.sum(np.maximum(x, 0.0)) * next(drawn) if np.any(x > 0) else 0.0)
    assert np.all(derivative(-X) == 0)
    with pytest.raises(TraceDiffers):
        derivative(X)


@pytest.mark.parametrize("f", [lambda x: np.exp(x) / np.sum(np.exp(x)), np.cumsum, lambda x: np.outer(x, x)])
def test_a_jacobian_of_a_pure_function_is_not_refused(f: Any) -> None:
    assert np.all(np.isfinite(gradcli.jacobian(f)(X)))


def test_a_jacobian_is_tested_entry_by_entry() -> None:
    def f(x: Any) -> Any:
        return np.stack([np.sum(x**2), np.random.default_rng().normal() * x[0]])

    with pytest.raises(TraceDiffers):
        gradcli.jacobian(f)(X)
    assert np.shape(gradcli.jacobian(f, verify=False)(X)) == (2, *X.shape)


def test_a_branch_by_equality_may_hold_at_the_point() -> None:
    assert gradcli.grad(lambda x: 1.0 if x == 0 else np.sin(x) / x)(0.0) == 0.0
    assert gradcli.check(lambda x: 1.0 if x == 0 else math.e ** (0 * x) * np.sin(x) / x, {"x": 0.0}, grad=lambda x: 0.0)
