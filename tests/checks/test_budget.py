"""The budget of the search for a cause: calls are counted, some can be kept, and the time limit is a safety net."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks import causes
from gradcli.checks.wrong import FEWEST, MOST, BudgetSpent, CauseBudget, allowed_search_calls
from gradcli.modes import mode
from tests.rows import for_rows


@for_rows(
    ("verdict_calls", "operations", "calls"),
    [
        (10, None, FEWEST),  # f cannot be traced: at least 400
        (100, None, 800),  # eight times the verdict
        (10_000, None, MOST),
        (10, 100, MOST),  # a call of few operations
        (10, 4_000, 1_000),  # 4e6 operations
        (10, 10**9, FEWEST),
        (10, 0, MOST),
    ],
)
def test_calls_follow_from_the_work_of_the_verdict(verdict_calls: float, operations: int | None, calls: int) -> None:
    assert allowed_search_calls(verdict_calls, operations) == calls


def test_what_is_spent_is_counted() -> None:
    budget = CauseBudget(3)
    budget.spend(2)
    with pytest.raises(BudgetSpent):
        budget.spend(2)
    assert budget.left == 1 and not budget.late


def test_calls_that_are_kept_cannot_be_spent_meanwhile() -> None:
    budget = CauseBudget(10)
    with budget.keeping(6):
        assert budget.left == 4
        with budget.keeping(2):  # of those that are left
            assert budget.left == 2
        budget.spend(4)
        with pytest.raises(BudgetSpent):
            budget.spend()
    assert budget.left == 6


def test_after_the_time_limit_nothing_is_spent() -> None:
    budget = CauseBudget(10, seconds=-1.0)
    with pytest.raises(BudgetSpent):
        budget.spend()
    assert budget.late and budget.calls == 10


def test_the_rounding_of_a_long_program_is_estimated_at_the_given_point_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip is never as small as rounding, whose estimate takes several sweeps."""

    def f(x: Any) -> Any:
        total = 0.0
        for entry in x:
            total = total + np.sin(entry) * entry**2
        return total

    estimated: list[Any] = []
    estimate = mode.gradient_rounding_error
    monkeypatch.setattr(mode, "gradient_rounding_error", lambda q, **k: estimated.append(q) or estimate(q, **k))
    counts = []
    for most in (5_000, 10):
        monkeypatch.setattr(causes, "_MOST_LINES", most)
        estimated.clear()
        report = gradcli.check(f, {"x": np.arange(1.0, 9.0)}, grad=lambda x: np.cos(x) * x**2)
        diagnosis = report.points[0].diagnosis
        assert diagnosis is not None and "`entry**2` is missing" in diagnosis.message
        counts.append(len(estimated))
    assert counts[1] < counts[0]
