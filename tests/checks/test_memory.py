"""A check that does not fit into the memory that is free is refused before its arrays are made; it holds few at a time."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks import check
from gradcli.errors import TooLarge


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_SMALL", 100)
    monkeypatch.setattr(check, "memory_bytes", lambda: 30_000)


def square(x: Any) -> Any:
    return np.sum(x * x)


@pytest.mark.usefixtures("tight")
def test_a_check_that_fits_is_made() -> None:
    assert gradcli.check(square, np.ones(200), grad=lambda x: 2 * x).passed


@pytest.mark.usefixtures("tight")
def test_a_check_that_does_not_fit_is_refused() -> None:
    says = r"a check of 1,000 entries needs about 5.6e-05 GB, and 3e-05 GB are free"
    with pytest.raises(TooLarge, match=says):
        gradcli.check(square, np.ones(1_000), grad=lambda x: 2 * x)


@pytest.mark.usefixtures("tight")
def test_what_the_function_computes_on_the_way_counts_too() -> None:
    def long(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(x)
        return np.sum(x)

    with pytest.raises(TooLarge, match="a check of 200 entries needs"):
        gradcli.check(long, np.ones(200))


def test_a_large_check_drops_the_values_that_it_has_used() -> None:
    y, x = np.linspace(-2, 2, 200_000), np.linspace(1, 3, 200_000)

    def loss(w: Any) -> Any:
        return np.mean(np.logaddexp(0.0, -(y * (w * x))))

    def slope(w: Any) -> Any:
        return -y * x / (1 + np.exp(y * (w * x))) / len(x)

    tracemalloc.start()
    try:
        assert gradcli.check(loss, x[::-1].copy(), grad=slope).passed
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 13 * x.nbytes  # that of 10 arrays, and what is the same for any size
