"""Recomputing in segments gives the gradient that storing everything gives, whatever the segments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.arithmetic.program import record, vjp
from gradcli.study.cost import peak_bytes
from gradcli.study.growth import Skeleton, gradient, skeleton
from tests.rows import for_rows

A = np.arange(9.0).reshape(3, 3) / 7 - 0.5


def chain(x: Any, y: Any) -> Any:
    for _ in range(12):
        x = np.tanh(x) * y
    return np.sum(x)


def remembered(x: Any, y: Any) -> Any:
    """An early value that is used late, and inputs used everywhere."""
    early = np.sin(x)
    late = x
    for _ in range(9):
        late = late * y + np.cos(late)
    return np.sum(late * early) + np.sum(x)


def linear_algebra(x: Any, y: Any) -> Any:
    for _ in range(4):
        x = np.tanh(A @ x + y)
    return np.linalg.norm(x) + np.sum(x[1:] * x[:-1])


def dead(x: Any, y: Any) -> Any:
    """Values that nothing uses, and an input that is not used."""
    unused = np.exp(x)
    unused = unused * unused
    return np.sum(x**3)


FUNCTIONS = [chain, remembered, linear_algebra, dead]
X, Y = np.array([0.3, -0.7, 1.1]), np.array([0.9, 1.2, -0.4])


def made_of(f: Callable[..., Any]) -> Skeleton:
    return skeleton(record(f, [X, Y]))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@given(segment=st.integers(1, 80))
def test_any_segments_give_the_gradient_of_the_reverse_mode(f: Callable[..., Any], segment: int) -> None:
    expected = vjp(f, [X, Y])[1](np.float64(1))
    for found, xbar in zip(gradient(made_of(f), [X, Y], segment), expected, strict=True):
        assert np.array_equal(found, xbar)  # the same operations in the same order


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@given(x=st.lists(st.floats(-2, 2), min_size=3, max_size=3), segment=st.integers(1, 80))
def test_a_program_runs_at_other_points(f: Callable[..., Any], x: list[float], segment: int) -> None:
    at = [np.array(x), Y]
    for found, xbar in zip(gradient(made_of(f), at, segment), vjp(f, at)[1](np.float64(1)), strict=True):
        np.testing.assert_array_equal(found, xbar)


@for_rows("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_without_segments_everything_is_stored(f: Callable[..., Any]) -> None:
    made = made_of(f)
    for whole, parts in zip(gradient(made, [X, Y]), gradient(made, [X, Y], made.segment), strict=True):
        assert np.array_equal(whole, parts)


def test_a_segment_is_the_root_of_the_length() -> None:
    made = made_of(chain)
    assert made.segment == int(np.sqrt(len(made.lines)))
    assert made.segment**2 <= len(made.lines) < (made.segment + 1) ** 2


def test_values_are_kept_until_their_last_use() -> None:
    made = made_of(lambda x, y: np.sum(np.sin(x) * np.cos(x)))
    names = [step[0].name if step[0] is not None else "input" for step in made.lines]
    uses = {name: made.last[k] for k, name in enumerate(names) if k not in made.inputs}
    assert names[uses["sin"]] == names[uses["cos"]] == "multiply"
    assert uses["sum"] == len(made.lines)  # the result, to the end


def test_segments_hold_less() -> None:
    def deep(x: Any) -> Any:
        for _ in range(100):
            x = np.tanh(x)
        return np.sum(x)

    x = np.linspace(-1, 1, 10_000)
    program = record(deep, [x])
    made = skeleton(program)
    stored, recomputed = (peak_bytes(lambda n=n: gradient(made, [x], n)) for n in (None, made.segment))
    assert 100 <= stored / x.nbytes <= 110
    assert 15 <= recomputed / x.nbytes <= 40  # ten starts, ten values of a segment, and a few beside
