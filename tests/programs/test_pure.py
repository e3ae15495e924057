"""Which functions can do nothing else next time."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.programs.pure import Isolation, Outside
from gradcli.programs.repeated import CALLS, Repeated
from gradcli.programs.straight_line import CannotCompile
from tests.interpreters.test_fast_programs import BEGINNING, END, MATRICES, SCALARS, VECTORS, loaded

COUNTED = [0]
SETTINGS = {"scale": 2.0}
LABELS = np.array([0, 1])


class Model:
    scale = 2.0


MODEL = Model()


def counting(x: Any) -> Any:
    COUNTED.append(1)
    return np.sum(x)


def closing() -> Callable[[Any], Any]:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        return np.sum(x) * n

    return f


def through_another(x: Any) -> Any:
    return counting(x)


def catching(x: Any) -> Any:
    try:
        return np.sum(x)
    except ValueError:
        return x


def writing(x: Any) -> Any:
    x[0] = 1.0
    return np.sum(x)


def remembering(x: Any, seen: list[Any] = []) -> Any:  # noqa: B006
    seen.append(1)
    return np.sum(x) * len(seen)


def in_place(x: Any) -> Any:
    x += 1.0
    return np.sum(x)


def branching(x: Any) -> Any:
    return np.sum(x) if x[0] > 0 else np.sum(x**2)


IMPURE: dict[str, Callable[[Any], Any]] = {
    "a list of its own": counting,
    "a variable of its own": closing(),
    "by another function": through_another,
    "exceptions": catching,
    "a write": writing,
    "a default that changes": remembering,
    "a write in place": in_place,
    "a branch": branching,
    "a branch of numpy's": lambda x: np.sum(np.where(x > 0, x, x**2)),
    "random numbers": lambda x: np.sum(x) * np.random.rand(),
    "a dict": lambda x: np.sum(x) * SETTINGS["scale"],
    "an object": lambda x: np.sum(x) * MODEL.scale,
    "integers that may change": lambda x: np.sum(x[LABELS]),
    "printing": lambda x: print("") or np.sum(x),  # type: ignore[func-returns-value]
    "identity": lambda x: np.sum(x) if x is COUNTED else np.sum(x**2),
    "a value as text": lambda x: np.sum(x) * len(f"{x[0]}"),
    "an order": lambda x: np.sum(np.sort(x) * x),
    "memory that nobody wrote": lambda x: np.sum(np.empty(2) * 0 + x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IMPURE)
def test_a_function_that_may_do_something_else_has_no_program(name: str) -> None:
    asked = Repeated(IMPURE[name], None, True)
    for _ in range(CALLS + 1):
        asked((np.array([1.0, 2.0]),), {})
    assert asked._ready == {}


def test_a_function_that_counts_its_calls_is_called_each_time() -> None:
    calls = len(COUNTED)
    gradient = gradcli.grad(counting, verify=False)
    for _ in range(CALLS + 10):
        gradient(np.ones(2))
    assert len(COUNTED) == calls + CALLS + 10


def test_what_is_read_from_outside_is_remembered() -> None:
    space: dict[str, Any] = {"np": np, "c": 2.0}
    exec("def f(x): return np.sum(x) * c", space)
    outside = Outside()
    Isolation(outside, lambda x: x).isolated(space["f"])
    assert outside.unchanged()
    space["c"] = 3.0
    assert not outside.unchanged()


def test_an_isolated_function_sees_nothing_else() -> None:
    isolated: Any = Isolation(Outside(), lambda x: x).isolated(branching)
    assert isolated.__globals__.keys() == {"np", "__builtins__"}
    assert isolated.__globals__["__builtins__"] == {}
    with pytest.raises(CannotCompile, match="print"):
        Isolation(Outside(), lambda x: x).isolated(lambda x: print(x))


def test_random_programs_are_those_of_the_tape(tmp_path: Path) -> None:
    written = 0
    for number in range(60):
        rng = random.Random(number)
        lines = [rng.choice((f"v = {rng.choice(VECTORS)}", f"w = {rng.choice(VECTORS)}", f"M = {rng.choice(MATRICES)}", f"s = {rng.choice(SCALARS)}")) for _ in range(6)]  # fmt: skip
        f = loaded(BEGINNING + "".join(f"    {line}\n" for line in lines) + END, tmp_path / f"pure{number}.py")
        asked = Repeated(f, ("x", "M"), True)
        drawn = np.random.default_rng(number)
        points = [tuple(drawn.normal(size=size) * 0.5 for size in (3, (3, 3))) for _ in range(2)]
        for _ in range(CALLS):
            asked(points[0], {})
        written += len(asked._ready)
        y, bars = asked(points[1], {})
        expected_y, expected = gradcli.value_and_grad(f, wrt=("x", "M"))(*points[1])
        assert np.allclose(y, expected_y, rtol=1e-12, equal_nan=True), lines
        for bar, other in zip(bars, expected, strict=True):
            size = float(np.max(np.abs(other)))
            assert np.allclose(bar, other, rtol=1e-11, atol=1e-11 * size, equal_nan=True), lines
    assert written > 30
