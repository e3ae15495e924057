"""The budget of the search for a cause: calls are counted, some can be kept, and the time limit is a safety net."""

import pytest

from gradcli.checks.wrong import FEWEST, MOST, BudgetSpent, CauseBudget, allowed_search_calls
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
        with budget.keeping(2):  # what is kept outside stays kept
            assert budget.left == 4
        budget.spend(4)
        with pytest.raises(BudgetSpent):
            budget.spend()
    assert budget.left == 6


def test_after_the_time_limit_nothing_is_spent() -> None:
    budget = CauseBudget(10, seconds=-1.0)
    with pytest.raises(BudgetSpent):
        budget.spend()
    assert budget.late and budget.calls == 10
