"""What the fast path records is what the long way records, and what a tape that is swept once forgets no rule reads."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import record, value_and_gradient
from gradcli.arithmetic.tape import Recorded, drop_unread_values, held_bytes, values_read_by_rules
from gradcli.rules.kinds import Partial
from gradcli.tracing.primitive import PRIMITIVES, Primitive
from gradcli.tracing.shapes import Forgotten
from gradcli.tracing.tracer import Tracer
from tests.rows import for_rows

M, V = np.arange(6.0).reshape(2, 3) / 7 + 0.3, np.array([0.2, 0.5, 0.9])
ELEMENTWISE = [
    p for p in PRIMITIVES.values() if p.rules and p.kind == "elementwise" and getattr(p.fun, "nin", None) == len(p.on)
]

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda a, v: np.sum((a * v + a / v - v) * 2.0 - 1.0 / a),
    "arrays": lambda a, v: np.sum(M * a + V - v * V),
    "powers": lambda a, v: np.sum(a**3 + v**-2 + v**0.5),
    "ufuncs": lambda a, v: np.sum(np.tanh(a)) + np.sum(np.log(v) * np.exp(-v)),
    "a matrix and a vector": lambda a, v: np.sum((a @ v) ** 2) + np.sum((M @ v) ** 2) + np.sum(M.T @ (a @ v)),
    "matrices": lambda a, v: np.sum((a @ a.T) @ M) + np.sum(v @ a.T),
    "sums": lambda a, v: np.sum(np.sum(a, 0) * v) + np.sum(np.sum(a, axis=1) ** 2) + a.sum(),
    "scalars": lambda a, v: (a[0, 0] * v[1] + 2.0) / v[2] - 3.0 * a[1, 1],
}


def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call take the long way."""
    names = [n for n in vars(Recorded) if n in vars(Tracer) and n.startswith("__") and callable(getattr(Tracer, n))]
    for name in names:
        if name not in ("__init__", "__slots__", "__class__"):
            monkeypatch.setattr(Recorded, name, getattr(Tracer, name))


@for_rows("name", PROGRAMS)
def test_the_fast_path_gives_what_the_long_way_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, xs = PROGRAMS[name], [np.array(M), np.array(V)]
    y, bars = value_and_gradient(lambda *xs: f(*xs), xs, np.ones_like)
    slowly(monkeypatch)
    slow_y, slow_bars = value_and_gradient(lambda *xs: f(*xs), xs, np.ones_like)
    assert y == slow_y
    for bar, slow in zip(bars, slow_bars, strict=True):
        assert np.allclose(bar, slow, rtol=1e-15, atol=1e-15)


def test_the_fast_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines() -> list[Any]:
        _, _, tape = record(lambda a, v: np.sum(np.tanh(a @ v) * V[:2] + v[0]), [np.array(M), np.array(V)])
        return [(line[0].name if line[0] else None, type(line[2])) for line in tape.lines]

    fast = lines()
    slowly(monkeypatch)
    slow = lines()
    assert [name for name, _ in fast] == [name for name, _ in slow]
    assert fast != slow  # the long way keeps lists, the fast one tuples


@for_rows("primitive", ELEMENTWISE, ids=lambda p: p.name)
def test_what_is_forgotten_is_not_read(primitive: Primitive) -> None:
    rng = np.random.default_rng(0)
    xs = [domain.sample(rng, 6) for domain in primitive.on]
    with np.errstate(all="ignore"):
        y = primitive.fun(*xs)
        for i in range(len(xs)):
            rule, read = primitive.rule(i), values_read_by_rules(primitive, tuple(k == i for k in range(len(xs))))
            if not isinstance(rule, Partial):
                assert read == set()
                continue
            own = rule.kernel or rule.partial
            values = [x if k in read else Forgotten(np.shape(x)) for k, x in enumerate((y, *xs))]
            assert np.array_equal(own(*values), own(y, *xs), equal_nan=True)


def test_some_rule_reads_less_than_everything() -> None:
    assert values_read_by_rules(PRIMITIVES["tanh"], (True,)) == {1}
    assert values_read_by_rules(PRIMITIVES["multiply"], (True, False)) == {2}
    assert values_read_by_rules(PRIMITIVES["add"], (True, True)) == set()


def test_small_values_are_kept_and_large_ones_forgotten() -> None:
    small, large = np.ones(8), np.ones(1000)
    assert drop_unread_values(PRIMITIVES["add"], (0, 1), (small, small), small) == ((small, small), small)
    (a, b), y = drop_unread_values(PRIMITIVES["multiply"], (0, -1), (large, 2.0), large)
    assert (type(a), b, type(y)) == (Forgotten, 2.0, Forgotten)


def test_a_lean_tape_holds_what_the_way_back_needs() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(50):
            y = y * 0.5 + 1.0
        return np.sum(np.tanh(y))

    x = np.ones(10_000)
    full, swept_once = (held_bytes(record(f, [x], swept_once=swept_once)[2]) for swept_once in (False, True))
    assert full > 100 * x.nbytes
    assert swept_once < 2 * x.nbytes


def test_the_collector_is_as_it_was() -> None:
    before = gc.get_threshold()
    seen = []

    def f(x: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return np.sum(x)

    record(f, [np.ones(3)])
    assert seen[0] > before[0] or before[0] == 0
    assert gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError):
        record(lambda x: 1 // 0, [np.ones(3)])
    assert gc.get_threshold() == before


def test_another_shape_of_cotangent_is_summed() -> None:
    _, (xbar, bbar) = value_and_gradient(lambda x, b: np.sum(x * 2.0 + b), [np.ones((3, 4)), np.ones(4)], np.ones_like)
    assert np.array_equal(bbar, np.full(4, 3.0))
    assert np.array_equal(xbar, np.full((3, 4), 2.0))
