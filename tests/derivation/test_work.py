"""Every derivation ends: functions that loop by values, write in place, have many operations, or give a long formula."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.arithmetic import value_graph
from gradcli.derivation import simplify, sized_problem, study
from gradcli.derivation.sized_problem import TooLong, limited_work, spend_work
from tests.rows import for_rows


def newton_root(x: Any) -> Any:
    y = 1.0
    while abs(y * y - x) > 1e-13 * x:  # has no end for x < 0
        y = 0.5 * (y + x / y)
    return y


def settled(A: Any, b: Any) -> Any:
    x = np.zeros(b.shape)
    while np.max(np.abs(A @ x - b)) > 1e-9:
        x = x - 0.1 * (A @ x - b)
    return np.sum(x)


def larger(x: Any) -> Any:
    return max(x[0], x[1] ** 2)


def branch(x: Any) -> Any:
    return np.sum(x) if x[0] > 0 else np.sum(x**2)


def many_waves(x: Any) -> Any:
    y = 0.0
    for k in range(3_000):
        y = y + np.sin(k * x)
    return y


def many_waves_at_once(x: Any) -> Any:
    return np.sum(np.stack([np.sin(k * x) for k in range(3_000)]))


def forty_steps(x: Any) -> Any:
    y = 1.0
    for _ in range(40):
        y = 0.5 * (y + x / y)
    return y


def added(x: Any) -> Any:
    y = np.tanh(x)
    y += 1
    return np.sum(y**2)


def added_after_use(x: Any) -> Any:
    y = np.tanh(x)
    z = y * x
    y += 1
    y *= 2
    return np.sum(z * y)


def written_entry(x: Any) -> Any:
    y = np.sin(x)
    z = y**2
    y[0] = 0.0
    return np.sum(y * z)


def written_view(x: Any) -> Any:
    y = np.sin(x)
    tail = y[1:]
    tail *= 3
    return np.sum(y)


def written_out(x: Any) -> Any:
    y = x * x
    np.exp(y, out=y)
    return np.sum(y)


def written_constant(x: Any) -> Any:
    c = np.full(x.shape, 2.0)
    y = c * x
    c += 5
    return np.sum(y * y)


CHOOSE = "f asks whether a comparison of its inputs holds"
LONG = "its formula is too long"
MANY = "f has more than 2,000 operations"

REFUSED = [
    (newton_root, {"x": ""}, CHOOSE),
    (settled, {"A": "n n", "b": "n"}, CHOOSE),
    (larger, {"x": "n"}, CHOOSE),
    (branch, {"x": "n"}, CHOOSE),
    (many_waves, {"x": ""}, MANY),
    (many_waves_at_once, {"x": ""}, MANY),
    (forty_steps, {"x": ""}, LONG),
]
WRITTEN = {
    added: lambda x: 2 * (np.tanh(x) + 1) * (1 - np.tanh(x) ** 2),
    added_after_use: lambda x: (
        2 * (np.tanh(x) + 1) * (np.tanh(x) + x / np.cosh(x) ** 2) + 2 * x * np.tanh(x) / np.cosh(x) ** 2
    ),
    written_out: lambda x: 2 * x * np.exp(x * x),
    written_constant: lambda x: 8 * x,
}


@for_rows(("f", "shapes", "says"), REFUSED)
def test_what_has_no_formula_is_refused(
    monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], shapes: dict[str, str], says: str
) -> None:
    monkeypatch.setattr(value_graph, "MOST_NODES", 2_000)
    monkeypatch.setattr(study, "limited_work", lambda: limited_work(20_000))
    report = gradcli.derive(f, shapes=shapes)
    assert report.exit_status == 3 and not report.results
    assert all(
        finding.message.startswith(f"by {n}: {says}") for n, finding in zip(shapes, report.findings, strict=True)
    )
    assert all(finding.hint for finding in report.findings)


@for_rows("f", WRITTEN, ids=lambda f: f.__name__)
def test_arrays_that_are_written_in_place(f: Callable[..., Any]) -> None:
    report = gradcli.derive(f, shapes={"x": "n"})
    assert report.exit_status == 0
    scope: dict[str, Any] = {}
    exec(report.results[0].code["numpy"], scope)
    x = np.array([0.3, -0.7, 1.2, 0.5])
    np.testing.assert_allclose(scope["gradient"](x=x), WRITTEN[f](x), rtol=1e-12)


@pytest.mark.parametrize("f", [written_entry, written_view], ids=lambda f: f.__name__)
def test_entries_that_are_written_have_no_formula(f: Callable[..., Any]) -> None:
    report = gradcli.derive(f, shapes={"x": "n"})
    assert report.exit_status == 3 and not report.results


def test_a_simplification_that_is_ended_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    shortest = gradcli.derive("sum((X@w - y)**2)", shapes={"X": "m n", "w": "n", "y": "m"}, wrt="w").results[0]
    monkeypatch.setattr(simplify, "MOST_SIMPLIFYING", 5)
    ended = gradcli.derive("sum((X@w - y)**2)", shapes={"X": "m n", "w": "n", "y": "m"}, wrt="w").results[0]
    assert shortest.check.verdict == ended.check.verdict == "pass"


def test_a_derivation_that_is_ended_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "limited_work", lambda: limited_work(20))
    report = gradcli.derive("sum(log(1 + exp(-y*(X@w))))", shapes={"X": "m n", "w": "n", "y": "m"}, wrt="w")
    assert report.exit_status == 3 and LONG in report.findings[-1].message


def test_work_inside_counts_outside() -> None:
    with limited_work(10):
        with limited_work(4), pytest.raises(TooLong):
            spend_work(5)
        with limited_work(100), pytest.raises(TooLong):
            spend_work(6)
    spend_work(sized_problem.MOST_WORK + 1)  # nothing is counted outside of a derivation
