"""A gradient asked for again and again is that of the tape, by a program as soon as there is one."""

import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.errors import GradcliError
from gradcli.programs import memory, repeated, straight_line
from gradcli.programs.repeated import Repeated

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


@pytest.fixture(params=["memory used again", "not"])
def _memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "memory used again":
        monkeypatch.setattr(memory, "REUSED", 1)


def ready(f: Callable[..., Any], *args: Any, wrt: Any = None, with_value: bool = True) -> Repeated:
    """Return the gradient of a function, called as often as it takes to have a program."""
    asked = Repeated(f, wrt, with_value)
    for _ in range(repeated.CALLS):
        asked(args, {})
    return asked


def programs(asked: Repeated) -> int:
    return len(asked._ready)


def same(a: Any, b: Any) -> bool:
    return (
        type(a) is type(b) and np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-13, atol=1e-13, equal_nan=True)
    )


@pytest.mark.usefixtures("_memory")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_at_other_points_a_program_finds_what_the_tape_finds(name: str) -> None:
    f, names = FUNCTIONS[name], ("v", "w", "m")
    asked = ready(f, V, W, M, wrt=names)
    assert programs(asked) == 1
    for seed in range(5):
        rng = np.random.default_rng(seed)
        args = (rng.normal(size=5), rng.normal(size=5), rng.normal(size=(5, 5)))
        before = [x.copy() for x in args]
        value, found = asked(args, {})
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


@pytest.mark.parametrize(
    "name", ["elementwise", "broadcast", "matrices", "views", "written over", "powers", "kinks", "sums of sums"]
)
def test_a_program_for_large_arrays_finds_what_the_tape_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        straight_line, "_LARGE", 4
    )  # entries, of which the first stands for all while the program is written
    monkeypatch.setattr(memory, "REUSED", 4)
    f, names = FUNCTIONS[name], ("v", "w", "m")
    asked = ready(f, V, W, M, wrt=names)
    assert programs(asked) == 1
    found, expected = asked((W, V, M.T), {}), gradcli.value_and_grad(f, wrt=names)(W, V, M.T)
    assert same(found[0], expected[0])
    assert all(map(same, found[1], expected[1]))


def test_the_gradient_of_one_argument_alone() -> None:
    asked = ready(lambda x, c: np.sum(x**2 * c), V, W, wrt="c", with_value=False)
    assert programs(asked) == 1
    value, found = asked((V, W), {})
    assert value is None
    assert np.allclose(found, V**2)


def test_numbers_of_python_are_numpys_in_the_result() -> None:
    asked = ready(lambda x, y: x * y + x / y, 2.0, np.float64(3.0), wrt=("x", "y"))
    assert programs(asked) == 1
    value, (dx, dy) = asked((1.0, 4.0), {})
    assert {type(x) for x in (value, dx, dy)} == {np.float64}
    assert (float(value), float(dx), float(dy)) == (4.25, 4.25, 1 - 1 / 16)


def test_division_by_zero_is_numpys() -> None:
    asked = ready(lambda x: 1.0 / x, 2.0)
    assert programs(asked) == 1
    value, dx = asked((0.0,), {})
    assert (value, dx) == (math.inf, -math.inf)


def test_where_a_program_finds_nan_the_tape_decides() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sqrt(x) * y)

    asked = ready(f, np.array([1.0, 2.0]), np.array([1.0, 2.0]), wrt=("x", "y"))
    assert programs(asked) == 1
    args = np.array([0.0, 4.0]), np.array([0.0, 4.0])
    found, expected = asked(args, {})[1], gradcli.grad(f, wrt=("x", "y"))(*args)
    assert all(map(same, found, expected))
    assert np.array_equal(found[0], [0.0, 1.0])


def test_where_a_program_raises_the_tape_says_so() -> None:
    asked = ready(lambda a: np.sum(np.linalg.inv(a)), M)
    assert programs(asked) == 1
    with pytest.raises(GradcliError, match="ingular"):
        asked((np.zeros((5, 5)),), {})


def test_what_a_function_reads_from_outside_may_change() -> None:
    space: dict[str, Any] = {"np": np}
    exec("def f(x): return np.sum(g(x) * c)\ndef g(x): return x**2", space)
    space["c"] = 2.0
    x = np.array([1.0, 2.0])
    asked = ready(space["f"], x)
    assert programs(asked) == 1
    assert np.array_equal(asked((x,), {})[1], 4 * x)
    space["c"] = 3.0
    assert np.array_equal(asked((x,), {})[1], 6 * x)
    exec("def g(x): return x**3", space)
    assert np.array_equal(asked((x,), {})[1], 9 * x**2)


def test_a_captured_array_is_read_each_time() -> None:
    data = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        return np.sum(x**2 * data)

    x = np.array([3.0, 4.0])
    asked = ready(f, x)
    assert programs(asked) == 1
    data[0] = 10.0
    assert np.array_equal(asked((x,), {})[1], 2 * x * data)
    data = np.array([7.0])
    assert np.array_equal(asked((x,), {})[1], 14 * x)


def test_other_shapes_have_other_programs() -> None:
    asked = ready(lambda x: np.sum(x**2) / len(x), np.ones(3))
    assert np.array_equal(asked((np.ones(2),), {})[1], np.ones(2))
    for _ in range(repeated.CALLS):
        asked((np.ones(2),), {})
    assert programs(asked) == 2
    assert np.array_equal(asked((np.ones(2),), {})[1], np.ones(2))
    assert np.allclose(asked((np.ones(3),), {})[1], np.full(3, 2 / 3))


def test_a_partial_function_has_a_program() -> None:
    def f(xp: Any, x: Any, *, power: int) -> Any:
        return xp.sum(x**power)

    asked = ready(partial(f, np, power=3), V)
    assert programs(asked) == 1
    assert np.allclose(asked((W,), {})[1], 3 * W**2)


def test_arguments_by_name_have_a_program_of_their_own() -> None:
    asked = Repeated(lambda x, w, c=2.0: np.sum(c * x**2 / w), ("w", "x"), True)
    w = np.abs(V) + 1.0
    for _ in range(repeated.CALLS):
        asked((), {"w": w, "x": V})
        asked((V,), {"w": w})
    assert programs(asked) == 2
    for args, kwargs in (((), {"w": w, "x": W}), ((W,), {"w": w}), ((W, w), {}), ((W,), {"w": w, "c": 2.0})):
        value, (dw, dx) = asked(args, kwargs)
        assert np.allclose(value, np.sum(2.0 * W**2 / w))
        assert np.allclose(dx, 4.0 * W / w)
        assert np.allclose(dw, -2.0 * W**2 / w**2)


def test_arguments_of_other_kinds_go_to_the_tape() -> None:
    asked = ready(lambda x, n=2: np.sum(x**n), V)
    assert programs(asked) == 1
    assert np.allclose(asked((V,), {"n": 3})[1], 3 * V**2)
    assert np.allclose(asked((V, 3), {})[1], 3 * V**2)
    assert np.allclose(asked((V.astype(np.float32),), {})[1], 2 * V.astype(np.float32))


def test_a_function_that_changed_gets_a_program_again() -> None:
    space: dict[str, Any] = {"np": np, "c": 2.0}
    exec("def f(x): return np.sum(x**2 * c)", space)
    asked = ready(space["f"], V)
    space["c"] = 3.0
    assert np.allclose(asked((V,), {})[1], 6 * V)
    assert programs(asked) == 0
    for _ in range(repeated.CALLS):
        asked((V,), {})
    assert programs(asked) == 0  # what has changed once may change again: it waits longer
    for _ in range(repeated.CALLS):
        asked((V,), {})
    assert programs(asked) == 1
    assert np.allclose(asked((W,), {})[1], 6 * W)


def test_an_array_from_a_pickle_is_one_too() -> None:
    data = pickle.loads(pickle.dumps(DATA))
    asked = ready(lambda v: np.sum(data @ v), pickle.loads(pickle.dumps(V)))
    for _ in range(3):
        assert np.allclose(asked((V,), {})[1], DATA.sum(0))
    assert programs(asked) == 1


def test_what_a_program_raises_when_it_is_written_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        raise TypeError("not of the user's")

    monkeypatch.setattr(repeated, "written", lambda *args: failing)
    asked = ready(lambda x: np.sum(x**2), V)
    assert programs(asked) == 0
    assert np.allclose(asked((V,), {})[1], 2 * V)


def test_gradients_of_gradients_are_traced() -> None:
    gradient = gradcli.grad(lambda x: np.sum(x**3))
    for _ in range(repeated.CALLS + 1):
        gradient(V)
    assert np.allclose(gradcli.jacobian(gradient)(V), np.diag(6 * V))


@pytest.mark.parametrize(("module", "name", "most"), [(repeated, "MOST_NODES", 20), (straight_line, "MOST_BYTES", 100)])
def test_a_program_that_would_be_too_long_is_not_written(
    module: Any, name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, most)
    asked = ready(FUNCTIONS["elementwise"], V, W, M)
    assert programs(asked) == 0
    assert same(asked((V, W, M), {})[1], gradcli.grad(FUNCTIONS["elementwise"])(V, W, M))


def test_a_program_is_written_once_and_not_too_early() -> None:
    asked = Repeated(lambda x: np.sum(x**2), None, True)
    for k in range(repeated.CALLS):
        assert programs(asked) == 0, k
        asked((V,), {})
    assert programs(asked) == 1


def test_a_program_that_finds_something_else_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = repeated.written

    def wrong(*args: Any) -> Any:
        run = real(*args)
        return lambda *xs: (run(*xs)[0], [1.001 * x for x in run(*xs)[1]])

    monkeypatch.setattr(repeated, "written", wrong)
    asked = ready(lambda x: np.sum(x**2), V)
    assert programs(asked) == 0
    assert np.allclose(asked((V,), {})[1], 2 * V)


def matches_the_tape(f: Callable[..., Any], first: tuple[Any, ...], then: tuple[Any, ...], change: Any = None) -> bool:
    """Whether, after many calls at `first` and a change, the value and the gradient at `then` are those of the tape."""
    asked = ready(f, *first)
    if change is not None:
        change()
    return outcome(lambda: asked(then, {})) == outcome(lambda: gradcli.value_and_grad(f)(*then))


def outcome(compute: Callable[[], Any]) -> Any:
    try:
        y, dx = compute()
    except GradcliError as error:
        return str(error)
    return repr((float(y), np.asarray(dx).tolist()))  # nan is nan, and -0.0 is not 0.0


X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("f", "k", "then"),
    [
        (lambda x, k: np.sum(x * (1 / k)), 2.0, 0.0),
        (lambda x, k: np.sum(x * x) + k**0.5, 2.0, -1.0),
        (lambda x, k: np.sum(x / math.exp(k)), 2.0, 1000.0),
        (lambda x, k: np.sum(x) * math.fsum([k, 1.0, -1.0]), 3.0, 1e-20),
        (lambda x, k: np.sum(x * np.full_like(x, k, dtype=int)), 3.0, 4.5),
        (lambda x, k: np.sum(x * k) if isinstance(k, np.float64) else np.sum(x * x * k), np.float64(2.0), 2.0),
        (lambda x, k: np.sum(x * k), 0.0, -0.0),
        (lambda x, k: np.sum(x * k), 2.0, math.nan),
    ],
)
def test_numbers_that_stand_still_are_the_users_own(f: Callable[..., Any], k: float, then: float) -> None:
    assert matches_the_tape(f, (X, k), (X, then))


def test_a_number_that_stands_still_has_a_program_of_its_own() -> None:
    asked = Repeated(lambda x, k: np.sum(x**2) * k, None, False)
    for k in (2.0, 3.0):
        for _ in range(repeated.CALLS):
            assert np.allclose(asked((X, k), {})[1], 2 * k * X)
    assert programs(asked) == 2
    for k in (2.0, 3.0, 4.0):
        assert np.allclose(asked((X, k), {})[1], 2 * k * X)


STILL: dict[str, tuple[Callable[..., Any], float]] = {
    "dtype=": (lambda x, c: np.sum(x) * np.sum(np.concatenate([c, c], dtype=int, casting="unsafe")), 0.5),
    "linalg": (lambda x, c: np.sum(x) * np.linalg.norm(c), 1e200),
    "math": (lambda x, c: np.sum(x) * math.fsum(c), 1e100),
    "sum to whole numbers": (lambda x, c: np.sum(x) * np.sum(c, None, int), 0.5),
    "trace to whole numbers": (lambda x, c: np.sum(x) * np.linalg.trace(np.outer(c, c), dtype=int), 0.5),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STILL)
def test_arrays_from_outside_are_numpys_own(name: str) -> None:
    f, factor = STILL[name]
    data = X.copy()
    assert matches_the_tape(lambda x: f(x, data), (X,), (X,), lambda: np.multiply(data, factor, out=data))


def test_the_arguments_of_a_partial_function_may_change() -> None:
    f = partial(lambda x, k: np.sum(x * k), k=2.0)
    assert matches_the_tape(f, (X,), (X,), lambda: f.keywords.update(k=5.0))
    g = partial(lambda x, k: np.sum(x * k), k=X.copy())
    assert matches_the_tape(g, (X,), (X,), lambda: g.keywords.update(k=np.ones(3)))

    class Counted(partial):  # type: ignore[type-arg]
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args) * len(SEEN)

    assert matches_the_tape(Counted(lambda x: np.sum(x**2)), (X,), (X,), lambda: SEEN.append(1))


SEEN = [1]


def test_structures_among_the_arguments_go_to_the_tape() -> None:
    asked = Repeated(
        lambda *parts: np.sum(parts[0] ** 2) / parts[1] if len(parts) == 2 else np.sum(parts[0][0]), None, True
    )
    asked(([X, X], 2.0, 3.0), {})
    asked((X, 2.0), {})
    for _ in range(repeated.CALLS):
        assert np.allclose(asked((X, 2.0), {})[1], X)
    assert programs(asked) == 1
    with pytest.raises(GradcliError, match="ZeroDivisionError"):
        Repeated(lambda *parts: np.sum(parts[0]) * (1 / parts[1]), None, True)((X, 0.0), {})
    assert np.allclose(asked((X, 4.0), {})[1], X / 2)


def test_true_and_one_are_different_positions() -> None:
    assert matches_the_tape(lambda x: x[1] ** 2 + np.sum(x[True] ** 2), (np.array([0.0, 3.0, 0.0]),), (X,))
