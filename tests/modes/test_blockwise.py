"""A recorded program run in blocks gives the value of the function, with what is known of its levels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.modes.certified import prepare_blockwise
from gradcli.tracing.shapes import BLOCK, entries_of_part
from tests.rows import for_rows

N = BLOCK + 500
C = np.random.default_rng(1).uniform(1.0, 2.0, N)


def softmax_loss(x: Any, y: Any) -> Any:
    e = np.exp(x - 0.5)
    return -np.sum(y * np.log(e / np.sum(e)))


def spread(x: Any) -> Any:
    apart = x - np.mean(x)
    return np.sum(apart**2) / np.sum(np.cos(apart / np.sum(x**2)))


FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {  # with its inputs and its levels
    "constants": (lambda x: np.sum(C * np.sin(x) + np.where(C > 1.5, x, 2.0)), 1, 1),
    "two inputs": (lambda x, y: 3.0 * np.sum(x * y) - np.sum(y), 2, 1),
    "softmax": (softmax_loss, 2, 2),
    "variance": (spread, 1, 2),
}


def inputs(count: int, shape: tuple[int, ...] = (N,)) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.2, 1.0, shape) for _ in range(count)]


@for_rows(("f", "count", "levels"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_blocks_give_the_value_of_the_function(f: Callable[..., Any], count: int, levels: int) -> None:
    xs = inputs(count)
    prepared = prepare_blockwise(record(f, xs))
    assert prepared is not None and max(prepared.levels) == levels and prepared.count == N
    assert np.isclose(prepared.run(lambda part: [[entries_of_part(x, part) for x in xs]])[0], f(*xs), rtol=1e-12)


def test_matrices_that_meet_entry_by_entry_run_in_blocks_too() -> None:
    xs = inputs(2, (200, 150))
    xs[1] = xs[1].reshape(150, 200).T
    f = lambda x, y: np.sum(np.tanh(x) * y)
    prepared = prepare_blockwise(record(f, xs))
    assert prepared is not None
    assert np.isclose(prepared.run(lambda part: [[entries_of_part(x, part) for x in xs]])[0], f(*xs), rtol=1e-12)


@for_rows(
    "f",
    [
        lambda x: np.sum(np.cumsum(x)),
        lambda x: np.sum(x[1:] * x[:-1]),
        lambda x: np.sin(x),
        lambda x: x @ x,
        lambda x: np.sum(x.reshape(2, -1) * 2.0),
        lambda x: np.float64(3.0),
        lambda x: np.sum(x) * np.max(x),
    ],
    ids=["cumsum", "neighbours", "array", "product", "reshaped", "constant", "maximum"],
)
def test_other_programs_are_not_run_in_blocks(f: Callable[..., Any]) -> None:
    assert prepare_blockwise(record(f, inputs(1))) is None


def test_a_large_array_made_of_small_ones_is_not_run_in_blocks() -> None:
    y, z, x = np.ones(150), np.ones(140), np.ones((150, 140))
    assert prepare_blockwise(record(lambda x, y, z: np.sum(x * np.outer(y, z)), [x, y, z])) is None
    assert prepare_blockwise(record(lambda x, y, z: np.sum(x) + np.sum(np.outer(y, z)), [x, y, z])) is None


def test_large_constants_of_small_lines_stay_whole() -> None:
    c, w, x = np.ones((300, 100)), np.linspace(0, 1, 100), inputs(1)[0]
    f = lambda x, w: np.sum(x * x) + np.sum((c @ w) ** 2)
    prepared = prepare_blockwise(record(f, [x, w]))
    assert prepared is not None
    assert np.isclose(prepared.run(lambda part: [[entries_of_part(x, part), w]])[0], f(x, w), rtol=1e-12)


def test_small_programs_are_not_run_in_blocks() -> None:
    assert prepare_blockwise(record(np.sum, [np.ones(5)])) is None
