"""Compiled functions and gradients find what the function and the tape find, and refuse what they cannot."""

import dataclasses
import math
import pickle
import random
import threading
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcli
from gradcli.compiling import straight_line, written
from gradcli.errors import BadPoint, BadShape, BadTarget, CannotCompile, FunctionFailed, GradcliError, TraceDiffers
from tests.arithmetic.test_fast_programs import BEGINNING, END, loaded, statement
from tests.rows import for_rows

RNG = np.random.default_rng(7)
V, W, M = RNG.normal(size=5), RNG.normal(size=5), RNG.normal(size=(5, 5))
SCALE = 3.0
DATA = RNG.normal(size=(5, 5))


def inner(v: Any) -> Any:
    return np.tanh(v) * SCALE


def over_a_loop(v: Any, w: Any, m: Any) -> Any:
    y = v
    for k in range(4):
        y = np.sin(m @ y) / (1.0 + k) + w
    return np.sum(y)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda v, w, m: np.sum(np.exp(-v * w) / (1.0 + v**2) + np.log(2 + w * w) ** 3 - np.sqrt(1 + v * v)),
    "broadcast": lambda v, w, m: np.sum((m * v + w.reshape(-1, 1)) ** 2 / (2.0 + m * m)),
    "matrices": lambda v, w, m: np.sum(np.tanh(m @ m.T @ v) * w) + v @ m @ w,
    "reductions": lambda v, w, m: np.mean(m * v, axis=0) @ w + np.var(v) + np.max(w) + np.prod(v),
    "views": lambda v, w, m: np.sum(v[1:] * w[:-1]) + np.sum(m[:, 1] * m[2]) + np.sum(m.T[::-1] * m) + v[0] * w[-1],
    "written over": lambda v, w, m: np.sum((v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2) + np.sum(w[[0, 0, 2]] * v[:3]),
    "decompositions": lambda v, w, m: v @ np.linalg.solve(m + 9 * np.eye(5), w) + np.linalg.det(m) + np.linalg.norm(v),
    "kinks": lambda v, w, m: np.sum(np.maximum(v, w) + np.abs(m) + np.clip(v, -0.5, 0.5)),
    "powers": lambda v, w, m: np.sum((1.5 + v * v) ** w) + np.sum(np.hypot(v, w)) + np.sum(np.logaddexp(v, w)),
    "numbers": lambda v, w, m: (v[0] * v[1] - v[2] / w[0]) * 2.0 + math.sin(v[3]) ** 2 - abs(w[1]) + 1.0 / v[4] + v[1] ** 3,
    "a loop": over_a_loop,
    "a sum of parts": lambda v, w, m: sum(inner(v[k]) * w[k] for k in range(5)),
    "what is captured": lambda v, w, m: np.sum(DATA @ v * inner(w)) + np.sum(DATA * m),
    "joined": lambda v, w, m: np.sum(np.concatenate([v, 2 * w]) ** 2) + np.sum(np.stack([v, w]) @ v) + np.sum(np.array([v[0], w[1]])),
    "one of them alone": lambda v, w, m: np.sum(v**2),
    "one itself": lambda v, w, m: np.sum(v * w) + np.sum(m),
    "constants": lambda v, w, m: np.sum(np.arange(5.0) * v) + np.sum(np.ones((5, 5)) * m) + np.sum(np.zeros(5) + w),
    "sums of sums": lambda v, w, m: np.sum(np.sum(m, axis=1, keepdims=True) * m) / np.sum(np.exp(v)) - np.sum(w, axis=0),
    "cumulative": lambda v, w, m: np.sum(np.cumsum(v) * w) + np.trace(m) + np.dot(v, w) + np.sum(np.outer(v, w) * m),
}  # fmt: skip


X = np.array([1.0, -2.0, 3.0])
Y = np.array([-0.5, 0.0, 2.0])


@pytest.fixture(params=["memory used again", "not"])
def _memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "memory used again":
        monkeypatch.setattr(written, "REUSED", 1)


def same(a: Any, b: Any) -> bool:
    return (
        type(a) is type(b) and np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)
    )


def is_that_of_the_tape(f: Callable[..., Any], example: tuple[Any, ...], *points: tuple[Any, ...]) -> bool:
    """Whether the gradient by the first argument, compiled at the example, is the tape's at other points."""
    compiled = gradcli.compile(gradcli.value_and_grad(f), *example)
    for at in (example, *points):
        found, expected = compiled(*at), gradcli.value_and_grad(f, verify=False)(*at)
        if not (np.shape(found[0]) == () and np.allclose(found[0], expected[0], rtol=1e-12, equal_nan=True)):
            return False
        if not same(found[1], expected[1]):
            return False
    return True


@pytest.mark.usefixtures("_memory")
@for_rows("name", FUNCTIONS, parts=2)
def test_at_other_points_compiled_code_finds_what_the_tape_finds(name: str) -> None:
    f, names = FUNCTIONS[name], ("v", "w", "m")
    compiled = gradcli.compile(gradcli.value_and_grad(f, wrt=names), V, W, M)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        args = (rng.normal(size=5), rng.normal(size=5), rng.normal(size=(5, 5)))
        before = [x.copy() for x in args]
        value, found = compiled(*args)
        y, expected = gradcli.value_and_grad(f, wrt=names)(*args)
        assert same(value, y)
        assert all(map(same, found, expected))
        assert all(map(np.array_equal, args, before))
        _owned(found, args)


def _owned(found: tuple[Any, ...], args: tuple[Any, ...]) -> None:
    """Assert that results can be written to, and that none shares memory with another or with an argument."""
    for k, x in enumerate(found):
        assert x.flags.writeable
        assert not any(np.shares_memory(x, other) for other in (*found[:k], *args, DATA))


@for_rows("name", ["elementwise", "broadcast", "matrices", "views", "written over", "powers", "kinks", "sums of sums"])
def test_code_for_large_arrays_finds_what_the_tape_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight_line, "_LARGE", 4)  # entries, of which the first stands for all while it is traced
    monkeypatch.setattr(written, "REUSED", 4)
    f, names = FUNCTIONS[name], ("v", "w", "m")
    compiled = gradcli.compile(gradcli.value_and_grad(f, wrt=names), V, W, M)
    found, expected = compiled(W, V, M.T), gradcli.value_and_grad(f, wrt=names)(W, V, M.T)
    assert same(found[0], expected[0])
    assert all(map(same, found[1], expected[1]))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_functions_that_write_and_alias(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "REUSED", 1)
    for number in range(25 * part, 25 * part + 25):
        rng = random.Random(number)
        source = BEGINNING + "".join(f"    {statement(rng)}\n" for _ in range(7)) + END
        f = loaded(source, tmp_path / f"compiled{number}.py")
        drawn = np.random.default_rng(number)
        points = [tuple(drawn.normal(size=size) * 0.5 for size in (3, (3, 3))) for _ in range(3)]
        compiled = gradcli.compile(gradcli.value_and_grad(f, wrt=("x", "M")), *points[0])
        for at in points:
            y, bars = compiled(*at)
            expected_y, expected = gradcli.value_and_grad(f, wrt=("x", "M"), verify=False)(*at)
            assert np.allclose(y, expected_y, rtol=1e-12, equal_nan=True), source
            for bar, other in zip(bars, expected, strict=True):
                size = float(np.max(np.abs(other)))
                assert np.allclose(bar, other, rtol=1e-11, atol=1e-11 * size, equal_nan=True), source
        plain = gradcli.compile(f, *points[0])
        assert np.allclose(plain(*points[1]), f(*points[1]), rtol=1e-12, equal_nan=True), source


def in_a_loop(x: Any) -> Any:
    y = np.zeros(len(x) + 1)
    for k in range(len(x)):
        y[k + 1] = 0.5 * y[k] + np.sin(x[k])
    return np.sum(y**2)


def masked(x: Any) -> Any:
    y = 2.0 * x
    y[y < 0.0] = 0.1
    y[np.logical_and(x > 1.0, x < 2.5)] = x[0] * 3.0
    return np.sum(y * y)


def quietly(x: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sum(np.where(x > 0.0, np.log(x), 0.0))


class Model:
    def __init__(self) -> None:
        self.weights = np.array([0.5, -1.0, 2.0])

    def loss(self, x: Any) -> Any:
        return np.sum(np.tanh(self.weights * x) ** 2)


def closure() -> Callable[[Any], Any]:
    layers = (DATA[:3, :3].copy(), DATA[:3, 1:4].copy())

    def f(x: Any) -> Any:
        for layer in layers:
            x = np.tanh(layer @ x)
        return np.sum(x)

    return f


def of_a_module(x: Any, xp: Any) -> Any:
    return xp.sum(xp.exp(-x * x))


IDIOMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a closure over arrays": (closure(), ()),
    "a module as an argument": (of_a_module, (np,)),
    "a default argument": (lambda x, p=3, c=2.0: c * np.sum(x**p), ()),
    "a bound method": (Model().loss, ()),
    "a dict": (lambda x, d: np.sum(d["a"] * x + d["b"]["c"] * x**2), ({"a": V[:3], "b": {"c": 2.5}},)),
    "einsum with data": (lambda x: np.einsum("ij,i,j->", DATA[:3, :3], x, x), ()),
    "errstate": (quietly, ()),
    "np.where": (lambda x: np.sum(np.where(x > 0.0, x**3, np.exp(x))), ()),
    "writes in a loop": (in_a_loop, ()),
    "writes by a mask": (masked, ()),
    "integers": (lambda x, k: np.sum(np.where(k == 1, x, x**2)) + np.sum(k * x) + np.sum(x[k]), (np.array([0, 1, 1]),)),
    "booleans": (lambda x, k: np.sum(np.where(~k & (x < 2.0), x, x**2)), (np.array([True, False, True]),)),
    "any of a mask": (lambda x: np.sum(np.where(np.any(x > 2.5), x, x**2)), ()),
    "a count": (lambda x: np.sum(x**2) / np.maximum(np.sum(x > 0.0), 1), ()),
    "a flag": (lambda x, mean: np.mean(x**2) if mean else np.sum(x**2), (True,)),
    "clipped": (lambda x: np.sum(np.clip(x, -1.0, 2.5) ** 2 + np.minimum(x, 1.0)), ()),
    "absolute values": (lambda x: np.sum(np.abs(x)) + np.max(x), ()),
    "softmax": (lambda x: -np.log(np.exp(x)[1] / np.sum(np.exp(x))), ()),
    "a mask as numbers": (lambda x: np.sum((x > 0.0) * x**2) + np.sum((x > 0.0).astype(float) * x), ()),
    "captured indices": (lambda x: np.sum(x[np.array([0, 2, 2])] ** 2) + np.sum(x[::-1] * x), ()),
    "steps": (lambda x: np.sum(np.floor(x) * x + np.sign(x) * x**2), ()),
}


@pytest.mark.filterwarnings("error")
@for_rows("name", IDIOMS)
def test_ways_in_which_people_write_functions(name: str) -> None:
    f, more = IDIOMS[name]
    assert is_that_of_the_tape(f, (X, *more), (Y, *more), (-X, *more), (np.zeros(3), *more))


def test_what_is_read_is_not_written_over_before() -> None:
    def shifted(x: Any) -> Any:
        a = x * 2.0
        a[2:] = x[:2]
        return np.sum(a * a)

    def scaled(x: Any) -> Any:
        a = x * 2.0
        a[2:] *= x[:2]
        return np.sum(a * a)

    at = np.array([1.0, 2.0, 3.0, 4.0])
    for f in (shifted, scaled):
        assert is_that_of_the_tape(f, (np.zeros(4),), (at,))


def test_a_nan_of_a_gradient_inside_decides_nothing() -> None:
    h = gradcli.grad(lambda z: np.sum(np.sqrt(z) * np.array([0.0, 1.0])))
    compiled = gradcli.compile(lambda x: np.where(h(x) == 0.0, 1.0, 2.0), np.ones(2))
    assert compiled(np.array([0.0, 1.0])).tolist() == [1.0, 2.0]


def test_a_gradient_compiles_at_its_zero() -> None:
    m, b = DATA[:, :3], V
    best = np.linalg.lstsq(m, b)[0]
    assert is_that_of_the_tape(lambda x: np.sum((m @ x - b) ** 2), (best,), (X,))


def test_what_may_hold_a_traced_value_is_not_returned() -> None:
    with pytest.raises(FunctionFailed, match="SimpleNamespace"):
        gradcli.compile(lambda x: types.SimpleNamespace(a=x), X)
    with pytest.raises(BadShape, match="in another order"):
        gradcli.compile(lambda d: np.concatenate(list(d.values())), {"a": X, "b": Y})({"b": Y, "a": X})


def test_gradients_of_gradients() -> None:
    def penalty(x: Any) -> Any:
        slope = gradcli.grad(lambda y: np.sum(np.tanh(y) ** 3 * x) + np.sum(np.log(y * y + 1.0)))(x)
        return np.sum(slope**2)

    assert is_that_of_the_tape(penalty, (X,), (Y,), (np.zeros(3),))


def test_a_gradient_of_compiled_code() -> None:
    compiled = gradcli.compile(gradcli.grad(lambda x: np.sum(np.tanh(x) ** 3)), X)
    expected = gradcli.jacobian(gradcli.grad(lambda x: np.sum(np.tanh(x) ** 3)))
    assert np.allclose(gradcli.jacobian(compiled)(Y), expected(Y), rtol=1e-12)
    assert gradcli.check(gradcli.compile(lambda x: np.sum(np.tanh(x) ** 3), X), X, grad=compiled)


def test_compiled_code_inside_a_compiled_function() -> None:
    inner = gradcli.compile(lambda x: np.sum(x**3), X)
    assert is_that_of_the_tape(lambda x: inner(2.0 * x) ** 2, (X,), (Y,))


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Both:
    left: Any
    right: Any


def test_structures_go_in_and_come_out() -> None:
    at = {"pair": Pair(X, 2.0), "both": Both([Y, X], "kept"), "n": 3}

    def f(p: Any) -> Any:
        return np.sum(p["pair"].left ** p["n"]) * p["pair"].right + np.sum(p["both"].left[0] * p["both"].left[1])

    found, expected = gradcli.compile(gradcli.grad(f), at)(at), gradcli.grad(f)(at)
    assert list(found) == list(expected)
    assert isinstance(found["pair"], Pair)
    assert isinstance(found["both"], Both)
    assert same(found["pair"].left, expected["pair"].left)
    assert found["pair"].right == pytest.approx(float(expected["pair"].right))
    assert same(found["both"].left[1], expected["both"].left[1])
    outputs = gradcli.compile(lambda x: {"twice": 2 * x, "rest": [x, "text", np.arange(3)], "is": x > 0}, X)(Y)
    assert np.array_equal(outputs["twice"], 2 * Y)
    assert outputs["rest"][1] == "text"
    assert outputs["rest"][2].dtype == int
    assert outputs["is"].tolist() == [False, False, True]


def test_results_are_fresh_arrays() -> None:
    captured = np.ones(3)
    compiled = gradcli.compile(lambda x: (x, x[1:], captured, x, np.broadcast_to(x[0], 3)), X)
    first, then = compiled(X), compiled(X)
    for k, x in enumerate(first):
        assert x.flags.writeable
        others = (X, captured, *first[:k], *then)
        assert not any(np.shares_memory(x, other) for other in others)


def test_what_is_captured_is_the_examples() -> None:
    data = np.array([1.0, 2.0, 3.0])
    compiled = gradcli.compile(gradcli.grad(lambda x: np.sum(x**2 * data)), X)
    data[0] = 100.0
    assert np.array_equal(compiled(X), 2 * X * [1.0, 2.0, 3.0])


@for_rows(
    ("given", "message"),
    [
        (np.ones(4), r"x is float64 of shape \(4,\); the function was compiled for float64 of shape \(3,\)"),
        (np.ones(3, dtype=np.float32), r"x is float32 of shape \(3,\); .* compiled for float64 of shape \(3,\)"),
        (np.ones(3, dtype=int), r"x is int64 of shape \(3,\); .* float64"),
        ([1.0, 2.0, 3.0], "x is a list; .* float64"),
    ],
)
def test_another_shape_or_dtype_names_both(given: Any, message: str) -> None:
    with pytest.raises(BadShape, match=message):
        gradcli.compile(lambda x: np.sum(x), X)(given)


def test_arguments_that_are_part_of_the_program() -> None:
    compiled = gradcli.compile(lambda x, n, how: np.sum(x**n), X, 2, how="fast")
    assert compiled(Y, 2, how="fast") == compiled(how="fast", n=2, x=Y) == np.sum(Y**2)
    with pytest.raises(BadShape, match="n is 3; the function was compiled for 2"):
        compiled(Y, 3, "fast")
    with pytest.raises(BadShape, match="how is 'slow'; the function was compiled for 'fast'"):
        compiled(Y, 2, "slow")
    chosen = gradcli.compile(lambda x, k: x[k], X, np.array([0, 2]))
    assert np.array_equal(chosen(Y, np.array([0, 2])), Y[[0, 2]])
    with pytest.raises(BadShape, match=r"k is int64 of shape .* with other values"):
        chosen(Y, np.array([0, 1]))
    with pytest.raises(TypeError, match="x, n, how"):
        compiled(Y, 2)
    with pytest.raises(BadShape, match="p is a dict with other members"):
        gradcli.compile(lambda p: p["a"] * 2, {"a": X})({"b": X})


def prints(x: Any) -> Any:
    print(x)
    return np.sum(x)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "if": (lambda x: np.sum(x) if x[0] > 0 else np.sum(x**2), "truth"),
    "max": (lambda x: max(x[0], x[1]), "truth"),
    "float": (lambda x: x[0].__float__(), r"float\(\)"),
    "int": (lambda x: x[int(x[0])], r"int\(\)"),
    "an index": (lambda x: x[np.argmax(x)], "index"),
    "a mask as an index": (lambda x: np.sum(x[x > 0]), "index"),
    "nonzero": (lambda x: np.sum(x[np.nonzero(x)]), "shape"),
    "a count of positions": (lambda x: np.sum(x) / len(np.where(x > 0)[0]), "shape"),
    "where with one argument": (lambda x: np.sum(x[np.where(x > 0)]), "shape"),
    "a size": (lambda x: np.sum(np.zeros(int(np.sum(x)) + 9)) + x[0], r"int\(\)"),
    "text": (prints, "plain value"),
    "an exception caught": (lambda x: caught(x), "except"),
}


def caught(x: Any) -> Any:
    try:
        return x[0].__float__() * x[1]
    except GradcliError:
        return np.sum(x)


@for_rows("name", REFUSED)
def test_what_needs_a_plain_value_is_refused_with_its_line(name: str) -> None:
    f, message = REFUSED[name]
    with pytest.raises(GradcliError, match=message) as caught:
        gradcli.compile(f, X)
    if name != "an exception caught":
        assert isinstance(caught.value, CannotCompile)
        assert caught.value.where is not None
        assert caught.value.where.file.endswith("test_compiling.py")
        assert caught.value.do


def generator(x: Any) -> Iterator[Any]:
    yield np.sum(x)


@for_rows(
    ("f", "args", "error"),
    [
        (generator, (X,), BadTarget),
        (lambda *xs: np.sum(xs[0]), (X,), BadTarget),
        (lambda x, **more: np.sum(x), (X,), BadTarget),
        (lambda x: (k * x for k in (1, 2)), (X,), FunctionFailed),
        (lambda x: np.sum(x), (np.array([1.0, "a"], dtype=object),), BadPoint),
        (lambda x: np.sum(x), (X.astype(np.float32),), BadPoint),
        (lambda x: np.sum(x), (X * 1j,), BadPoint),
        (lambda x: np.sum(list(x)), (iter([1.0]),), BadPoint),
        (lambda x, y: np.sum(x), (X,), BadTarget),
        (lambda x: np.array([x[0], None], dtype=object) * 2, (X,), GradcliError),
    ],
)
def test_what_is_not_compiled(f: Callable[..., Any], args: tuple[Any, ...], error: type[GradcliError]) -> None:
    with pytest.raises(error):
        gradcli.compile(f, *args)


def test_a_function_that_draws_random_numbers_is_refused() -> None:
    with pytest.raises(TraceDiffers, match="does not find what the function finds"):
        gradcli.compile(lambda x: np.sum(x) * np.random.rand(), X)


@pytest.mark.parametrize(("name", "most"), [("MOST_NODES", 20), ("MOST_BYTES", 100)])
def test_a_program_that_would_be_too_long_is_refused(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight_line, name, most)
    with pytest.raises(CannotCompile, match="over"):
        f = FUNCTIONS["elementwise"]
        gradcli.compile(gradcli.grad(f), V, W, M)


def test_the_examples_errstate_is_not_kept() -> None:
    with np.errstate(all="raise"):
        compiled = gradcli.compile(lambda x: 1.0 / x, X)
    with np.errstate(all="ignore"):
        assert np.isinf(compiled(np.zeros(3))).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        compiled(np.zeros(3))


def pickled(x: Any) -> Any:
    return np.sum(np.tanh(DATA[:3, :3] @ x)) + np.linalg.norm(x) + np.sum(np.maximum(x, 0.5))


def test_a_compiled_function_can_be_pickled() -> None:
    compiled = gradcli.compile(gradcli.value_and_grad(pickled), X)
    again = pickle.loads(pickle.dumps(compiled))
    assert again.source == compiled.source
    assert all(map(same, again(Y), compiled(Y)))
    assert np.allclose(gradcli.grad(lambda x: again(x)[0])(Y), compiled(Y)[1])
    module = pickle.loads(pickle.dumps(gradcli.compile(of_a_module, X, np)))
    assert module(Y, np) == of_a_module(Y, np)


def test_compiled_code_runs_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "REUSED", 1)
    compiled = gradcli.compile(gradcli.grad(FUNCTIONS["broadcast"], wrt="m"), V, W, M)
    points = [np.random.default_rng(k).normal(size=(5, 5)) for k in range(8)]
    expected = [compiled(V, W, m) for m in points]
    found: list[bool] = []

    def run(k: int) -> None:
        found.append(all(np.array_equal(compiled(V, W, points[k]), expected[k]) for _ in range(50)))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_the_source_is_code_with_what_its_names_stand_for() -> None:
    compiled = gradcli.compile(lambda x, p: np.sum(x * DATA[0]) * p["scale"], V, {"scale": 2.0})
    assert "# v0: x, float64 of shape (5,)" in compiled.source
    assert "# v1: p.scale, a float" in compiled.source
    assert "float64 of shape (5,), captured" in compiled.source
    space: dict[str, Any] = {}
    exec(compiled.source, space)
    assert isinstance(space["program"], types.FunctionType)
    hostile = gradcli.compile(lambda p: p["\nimport os"] * 2.0, {"\nimport os": X})
    assert "\nimport" not in hostile.source


def test_infinite_slopes_that_meet_zero_give_zero() -> None:
    assert is_that_of_the_tape(lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), x)), (X,), (np.zeros(3),))
    assert is_that_of_the_tape(lambda x: np.sum(np.sqrt(np.abs(x)) * 0.0), (X,), (np.zeros(3),))
    assert is_that_of_the_tape(lambda x: np.sum(np.where(x < 5.0, x, np.exp(x))), (X,), (np.full(3, 1e4),), (-X * 1e4,))
    assert is_that_of_the_tape(lambda x: np.log(x[0]) + np.sum(x), (np.abs(X),), (-X,), (np.zeros(3),))


def test_a_number_is_numpys_in_the_result() -> None:
    compiled = gradcli.compile(gradcli.value_and_grad(lambda x, y: x * y + x / y, wrt=("x", "y")), 2.0, np.float64(3.0))
    value, (dx, dy) = compiled(1.0, 4.0)
    assert {type(x) for x in (value, dx, dy)} == {np.float64}
    assert (float(value), float(dx), float(dy)) == (4.25, 4.25, 1 - 1 / 16)
    with np.errstate(all="ignore"):
        assert gradcli.compile(lambda x: 1.0 / x, 2.0)(0.0) == math.inf


def test_a_partial_function_compiles() -> None:
    f = partial(of_a_module, xp=np)
    assert np.allclose(gradcli.compile(gradcli.grad(f), X)(Y), gradcli.grad(f)(Y))


def test_the_tape_alone_is_traced_at_each_call() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.sum(x**2)

    gradient = gradcli.grad(f, verify=False)
    for _ in range(10):
        gradient(X)
    assert len(calls) == 10
