"""Points that differ in one entry each: the values of whole arrays, bit for bit where sums are alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic import batch
from gradcli.arithmetic.batch import ChangedLanes, EntryLanes, Mixed
from gradcli.arithmetic.floats import FLOAT64, format_of
from gradcli.arithmetic.recorded_program import record
from gradcli.errors import NotSupported
from tests.rows import for_rows

RNG = np.random.default_rng(3)
N = 12
X, C, M = RNG.uniform(0.5, 1.5, N), RNG.uniform(0.5, 1.5, N), RNG.uniform(0.5, 1.5, (3, 4))
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: np.sum(np.tanh(x * C) ** 2 / (1.0 + x)),
    "slices": lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "backwards": lambda x: np.sum(x[::-1] * x + C[::-1]),
    "every other one": lambda x: np.sum(x[::2] * C[:6]) + np.sum(x[1::3]),
    "constants spread": lambda x: np.sum(x.reshape(3, 4) * C[:4] + M[:, :1]),
    "transposed": lambda x: np.sum(x.reshape(3, 4).T * M.T) * 2.0,
    "matrices": lambda x: np.sum(np.sqrt(x.reshape(3, 4)) * M),
    "after the sum": lambda x: np.log(np.sum(np.exp(x))) * np.sum(x) + np.tanh(np.sum(x)),
    "a branch by entries": lambda x: np.sum(np.where(x > 1.0, x**2, 3 * x)),
    "a branch by the sum": lambda x: np.sum(x) * 2 if np.sum(x) > float(np.sum(X)) else np.sum(x**2),
    "kinks": lambda x: np.sum(np.maximum(x, C) + np.abs(x - 1)),
    "a part of it": lambda x: np.sum(x[2:5]) * np.sum(C),
    "rounded": lambda x: np.sum(np.floor(4 * x) + x),
}
MIXED: dict[str, Callable[[Any], Any]] = {
    "a product": lambda x: np.sum(x.reshape(3, 4) @ M.T),
    "a square product": lambda x: np.sum(x[:9].reshape(3, 3) @ x[:9].reshape(3, 3)),
    "spread": lambda x: np.sum(x[:4] * M),
    "divided by the sum": lambda x: np.sum(x / np.sum(x) * C),
    "sums of rows": lambda x: np.sum(np.sum(x.reshape(3, 4), axis=1) ** 2),
    "positions": lambda x: np.sum(x[[0, 0, 3]] ** 2),
    "one entry": lambda x: x[0] * x[1],
    "no sum": lambda x: x * 2.0,
    "arrays after the sum": lambda x: np.sum((np.sum(x * C) - C) ** 2),
    "matrices after the sum": lambda x: np.sum(np.linalg.inv(np.eye(3) * np.sum(x))),
    "too many": lambda x: np.sum(x[:-4] * x[1:-3] * x[2:-2] * x[3:-1] * x[4:]),
}


def both(f: Callable[[Any], Any], form: Any = FLOAT64, aside: complex = 0.0) -> tuple[Any, Any]:
    """Return what the entries give and what whole arrays give: each entry moved both ways, and aside."""
    x = form.rounded(X)
    program = record(f, [X])
    at = np.repeat(np.arange(N), 2)[:, None]
    values = form.rounded(x[at] + form.rounded(np.where(np.arange(2 * N) % 2, 0.3, -0.3))[:, None])
    values = values + aside if aside else values
    whole = np.repeat(x[None], 2 * N, axis=0).astype(values.dtype)
    whole[np.arange(2 * N), at[:, 0]] = values[:, 0]
    by_entries = EntryLanes(program, frozenset((0,)), form).run({0: ChangedLanes(x, at, values)})
    return by_entries, batch.run(program, {0: whole}, form)


@for_rows("line", [batch.LINE, 5], ids=["in one piece", "in pieces"])
@for_rows("name", FUNCTIONS)
def test_entries_give_what_whole_arrays_give(name: str, line: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LINE", line * N)
    found, expected = both(FUNCTIONS[name])
    np.testing.assert_allclose(found[0], expected[0], rtol=4e-16 if name != "transposed" else 1e-15)
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("name", ["a branch by entries", "a branch by the sum"])
def test_other_branches_are_told_apart(name: str) -> None:
    found, _ = both(FUNCTIONS[name])
    assert np.any(found[1]) and not np.all(found[1])


@for_rows("name", ["elementwise", "slices", "after the sum", "backwards"])
def test_steps_may_be_complex(name: str) -> None:
    found, expected = both(FUNCTIONS[name], aside=1e-3j)
    assert np.iscomplexobj(found[0])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)


@pytest.mark.parametrize("name", ["a branch by entries", "rounded"])
def test_complex_steps_past_decisions_are_left_to_whole_arrays(name: str) -> None:
    with pytest.raises(Mixed):
        both(FUNCTIONS[name], aside=1e-3j)


def test_an_operation_that_a_format_has_not_is_named() -> None:
    with pytest.raises(NotSupported, match="cbrt"):
        both(lambda x: np.sum(np.cbrt(x)), aside=1e-3j)


@pytest.mark.parametrize("name", ["elementwise", "slices", "after the sum"])
def test_every_operation_is_rounded_to_a_format(name: str) -> None:
    found, expected = both(FUNCTIONS[name], format_of("float32"))
    assert found[0].dtype == expected[0].dtype == np.float32
    assert np.array_equal(found[0], expected[0])


@for_rows("name", MIXED)
def test_what_mixes_entries_is_left_to_whole_arrays(name: str) -> None:
    with pytest.raises(Mixed):
        both(MIXED[name])
