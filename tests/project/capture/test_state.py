"""What changes between the call and the check, and gradients that are wrong at a later call."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from tests.project.capture.watching import used

START = np.array([0.7, -0.4])


def loss(x: Any, w: Any) -> Any:
    return np.sum(w * x**4)


def loss_grad(x: Any, w: Any) -> Any:
    return 4 * w * x**3


def kinds(found: Any) -> set[str]:
    return {f["kind"] for p in found.points for f in p.check.document["points"][0]["findings"]}


def test_arguments_that_are_changed_in_place_are_put_back() -> None:
    w = np.ones(2)

    def work() -> None:
        minimize(loss, START, (w,), jac=loss_grad)
        w[:] = 7.0

    (found,) = used(work).gradients
    assert (found.verdict, kinds(found)) == ("pass", set())
    assert w.tolist() == [7.0, 7.0]


def test_closures_and_attributes_that_are_bound_anew_are_put_back() -> None:
    class Model:
        w = np.ones(2)

        def value(self, x: Any) -> Any:
            return loss(x, self.w)

        def gradient(self, x: Any) -> Any:
            return loss_grad(x, self.w)

    model = Model()

    def work() -> None:
        for w in (np.ones(2), np.array([2.0, 3.0])):
            model.w = w
            minimize(model.value, START, jac=model.gradient)
            minimize(lambda x: loss(x, w), START, jac=lambda x: loss_grad(x, w))  # noqa: B023

    assert [each.verdict for each in used(work, keep=8).gradients] == ["pass", "pass"]


def test_a_function_that_reads_what_cannot_be_put_back_has_changed_since_the_call() -> None:
    seen: list[int] = []

    def drifting(x: Any) -> Any:
        seen.append(0)
        return np.sum(x**2) + len(seen)

    (found,) = used(lambda: minimize(drifting, START, jac=lambda x: 2 * x)).gradients
    assert found.verdict == "inconclusive"
    assert "changed-since-the-call" in kinds(found) or "depends-on-earlier-calls" in kinds(found)


class Cached:
    """Computes its gradient once, and returns it at every later call."""

    def __init__(self, *, stale: bool) -> None:
        self.stale, self.calls = stale, 0

    def value(self, x: Any) -> Any:
        return np.sum(x**4)

    def gradient(self, x: Any) -> Any:
        self.calls += 1
        if self.stale and 1 < self.calls < 6:
            return self.first
        self.first = 4 * x**3
        return self.first


@pytest.mark.slow
@pytest.mark.parametrize("stale", [True, False])
def test_a_cache_that_is_out_of_date_is_wrong_at_the_later_call(stale: bool) -> None:
    cached = Cached(stale=stale)
    (found,) = used(lambda: minimize(cached.value, START, jac=cached.gradient, method="CG"), keep=20).gradients
    assert found.verdict == ("fail" if stale else "pass")
    if stale:
        said = [
            (p.call, f["message"])
            for p in found.points
            for f in p.check.document["points"][0]["findings"]
            if f["kind"] == "depends-on-earlier-calls"
        ]
        assert said
        assert all(
            f"call {call}" in text and "returned the gradient of call 1, as from a cache" in text for call, text in said
        )


def test_a_gradient_that_is_right_at_one_place_and_wrong_at_another_fails_there() -> None:
    def above(x: Any) -> Any:
        return 4 * x**3 if x[0] > 0.3 else 4 * x**3 + 0.1

    (found,) = used(lambda: minimize(lambda x: np.sum(x**4), START, jac=above, method="CG"), keep=10).gradients
    assert found.points[0].check.verdict == "pass"
    assert found.verdict == "fail"


def test_a_gradient_by_differences_is_no_exact_one() -> None:
    f = lambda x: np.sum(x**4)
    (found,) = used(lambda: minimize(f, START, jac=lambda x: approx_fprime(x, f, 1e-2))).gradients
    assert found.verdict == "fail"


def test_a_gradient_that_the_function_has_computed_is_right() -> None:
    class Model:
        def value(self, x: Any) -> Any:
            self.gradient_there = 4 * x**3
            return np.sum(x**4)

        def gradient(self, x: Any) -> Any:
            return self.gradient_there

    model = Model()
    (found,) = used(lambda: minimize(model.value, START, jac=model.gradient)).gradients
    assert found.verdict == "pass"


@pytest.mark.parametrize("holds", ["dict", "list", "class", "slots", "module"])
def test_a_multiplier_that_is_changed_between_fits_is_put_back(holds: str, tmp_path: Any, monkeypatch: Any) -> None:
    class Slots:
        __slots__ = ("value",)

    (tmp_path / "settings_of_mine.py").write_text("value = 0.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import settings_of_mine

    held: Any = {
        "dict": {"value": 0.0},
        "list": [0.0],
        "class": Multiplier,
        "slots": Slots(),
        "module": settings_of_mine,
    }[holds]
    key: Any = 0 if holds == "list" else "value"
    in_items = isinstance(held, dict | list)
    put = (lambda v: held.__setitem__(key, v)) if in_items else (lambda v: setattr(held, key, v))
    get = (lambda: held[key]) if in_items else (lambda: getattr(held, key))
    bound = lambda x: x[0] + x[1] - 0.3

    def work() -> None:
        for multiplier in (1.0, 2.0, 5.0):
            put(multiplier)
            minimize(
                lambda x: np.sum(x**4) + get() * bound(x), START, jac=lambda x: 4 * x**3 + get(), options={"maxiter": 3}
            )

    (found,) = used(work).gradients
    assert found.verdict == "pass"
    assert get() == 5.0


class Multiplier:
    value = 0.0


def test_random_numbers_of_the_program_are_those_without_gradcli() -> None:
    def work() -> None:
        np.random.seed(0)
        minimize(loss, START, (np.ones(2),), jac=loss_grad)
        drawn.append(np.random.random())

    drawn: list[float] = []
    work()
    used(work)
    assert drawn[0] == drawn[1]
