"""JAX's programs, replayed in numpy: the value is JAX's, and the gradient that of its own reverse mode."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, nearest_float64, precision, radius
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, value_and_gradient
from gradcli.errors import NotSupported
from gradcli.tracing.tracer import plain_value

jax = pytest.importorskip("jax", reason="JAX is not installed")
CASES = pytest.importorskip("tests.frameworks.jax.cases", reason="JAX is not installed").CASES
evaluate = pytest.importorskip("gradcli.frameworks.jax.record")
TABLE: dict[str, Callable[..., Any]] = evaluate.TABLE

NO_GRADIENT = {"reduction: segment_prod", "matrix: symmetric_product"}  # of JAX's own
PARTS = 8
VALUE, GRADIENT = 1e-12, 1e-9  # relative to the largest entry


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def reals(leaves: Any) -> list[Any]:
    """Return the outputs that can be differentiated."""
    return [y for y in leaves if y.dtype.kind == "f"]


def close(found: Any, expected: Any, tolerance: float) -> None:
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * float(largest))


def frozen(xs: Any) -> list[Any]:
    """Return arguments that nothing may write into."""
    held = [x.copy() for x in xs]
    for x in held:
        if x.shape:
            x.flags.writeable = False
    return held


def jaxs(f: Callable[..., Any], xs: Any, gradient: bool) -> tuple[list[Any], list[Any]]:
    """Return JAX's outputs, and its cotangents of the inputs."""
    ys = jax.tree.leaves(f(*xs))
    if not gradient:
        return ys, []
    pull = jax.vjp(lambda *xs: reals(jax.tree.leaves(f(*xs))), *xs)[1]
    return ys, pull([jax.numpy.asarray(weights(y)) for y in reals(ys)])


def compiled(names: list[str]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return what JAX has for some cases, compiled as one program, which takes less than a program for each."""
    inputs = {name: [jax.numpy.asarray(x) for x in CASES[name][1]] for name in names}
    run = lambda inputs: {name: jaxs(CASES[name][0], xs, name not in NO_GRADIENT) for name, xs in inputs.items()}
    return jax.jit(run)(inputs)  # type: ignore[no-any-return]


def weights(y: Any) -> Any:
    """Return a cotangent in the shape of `y`."""
    found = np.random.default_rng(5).normal(size=np.shape(y))
    return found if np.shape(y) else np.float64(found)


def agrees(f: Callable[..., Any], xs: Any, right: tuple[list[Any], list[Any]] | None = None) -> None:
    """Assert that values and cotangents are JAX's."""
    closed = jax.make_jaxpr(f)(*xs)
    expected, xbars = right or jax.jit(lambda xs: jaxs(f, xs, True))([jax.numpy.asarray(x) for x in xs])
    found = evaluate.evaluate_jaxpr(closed, frozen(xs))
    assert len(found) == len(expected)
    for y, wanted in zip(found, expected, strict=True):
        assert isinstance(y, np.ndarray if np.shape(wanted) else np.generic)
        close(y, wanted, VALUE)

    def total(*xs: Any) -> Any:
        parts = reals(evaluate.evaluate_jaxpr(closed, xs))
        return sum((np.sum(part * weights(part)) for part in parts), start=np.float64(0))

    if xbars:
        _, pulled = value_and_gradient(total, frozen(xs), lambda value: np.float64(1))
        for xbar, wanted in zip(pulled, xbars, strict=True):
            close(xbar, wanted, GRADIENT)


@pytest.mark.parametrize("part", range(PARTS))
def test_value_and_gradient_are_jaxs(part: int, subtests: pytest.Subtests) -> None:
    for name, right in compiled([*CASES][part::PARTS]).items():
        try:
            agrees(*CASES[name], right)
        except Exception:
            with subtests.test(name):
                raise


CLIPPED = "reduction: corrcoef"  # its diagonal is 1, which JAX clips at 1


@pytest.mark.parametrize("name", [name for name in CASES if name != CLIPPED])
def test_balls_and_tangents_know_the_gradient(name: str) -> None:
    f, xs = CASES[name]
    closed = jax.make_jaxpr(f)(*xs)

    def total(*xs: Any) -> Any:
        parts = reals(evaluate.evaluate_jaxpr(closed, xs))
        return sum((np.sum(part * weights(part)) for part in parts), start=np.float64(0))

    _, pulled = value_and_gradient(total, frozen(xs), lambda value: np.float64(1))
    xdots = [weights(x) for x in xs]
    _, ydot = jvp(total, frozen(xs), xdots)
    terms = [np.sum(xbar * xdot) for xbar, xdot in zip(pulled, xdots, strict=True)]
    assert abs(ydot - sum(terms)) <= 1e-10 * (1.0 + sum(map(abs, terms)))
    with precision(200):
        y, inputs, tape = record(total, [Ball.lift(x) for x in xs])
        for xbar, expected in zip(tape.pull(y, Ball.lift(np.float64(1)), inputs), pulled, strict=True):
            ball = Ball(Ball.objects(xbar))
            assert np.all(radius(ball) <= 1e-30)
            close(nearest_float64(ball), expected, GRADIENT)


WRONG: dict[str, tuple[str, Callable[..., Any]]] = {  # what is replaced, the case that must see it, and by what
    "sin": ("elementwise: sin", lambda x, **params: np.sin(x) * (1 + 1e-11)),
    "tanh": ("elementwise: tanh", lambda x, **params: np.tanh(plain_value(x))),
    "mul": ("elementwise: multiply", lambda x, y, **params: plain_value(x) * y),
    "dot_general": ("matrix: matmul", lambda a, b, **params: np.matmul(a[::-1], b)),
    "gather": ("shaping: fancy", lambda x, indices, **params: x[: np.shape(indices)[0]]),
    "scatter-add": ("shaping: at add", lambda x, indices, updates, **params: x),
    "sort": ("reduction: sort", lambda *xs, **params: xs),
    "reduce_max": ("reduction: max", lambda x, *, axes, **params: np.mean(x, axis=axes)),
    "cumsum": ("reduction: cumsum reverse", lambda x, *, axis, **params: np.cumsum(x, axis=axis)),
}


@pytest.mark.parametrize("primitive", WRONG)
def test_a_wrong_entry_is_seen(primitive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = WRONG[primitive]
    agrees(*CASES[name])
    monkeypatch.setitem(TABLE, primitive, wrong)
    with pytest.raises(AssertionError):
        agrees(*CASES[name])


def test_every_entry_is_met() -> None:
    """The cases run all entries but those that only move values between devices and the like."""
    met: set[str] = set()

    def watched(name: str, entry: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *xs, **params: (met.add(name), entry(*xs, **params))[1]

    kept = dict(TABLE)
    try:
        TABLE.update({name: watched(name, entry) for name, entry in kept.items()})
        for f, xs in CASES.values():
            evaluate.evaluate_jaxpr(jax.make_jaxpr(f)(*xs), frozen(xs))
    finally:
        TABLE.update(kept)
    assert set(kept) - met == UNMET


UNMET = {
    "device_put", "pvary", "sharding_constraint", "layout_constraint", "reshard", "copy_p", "eq_to",
    "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max",
}  # fmt: skip


def test_the_function_is_differentiated_also_where_jax_stops() -> None:
    closed = jax.make_jaxpr(lambda x: jax.lax.stop_gradient(x) * x)(3.0)
    y, (xbar,) = value_and_gradient(
        lambda x: evaluate.evaluate_jaxpr(closed, [x])[0], [np.float64(3)], lambda value: np.float64(1)
    )
    assert (y, xbar) == (9.0, 6.0)


def test_softplus_has_no_kink_at_0() -> None:
    closed = jax.make_jaxpr(jax.nn.softplus)(0.0)
    _, _, tape = record(lambda x: evaluate.evaluate_jaxpr(closed, [x])[0], [np.float64(0)])
    assert [line[0].name for line in tape.lines[1:]] == ["logaddexp"]


def test_a_function_of_the_users_is_not_taken_for_jaxs_own() -> None:
    relu = jax.custom_jvp(lambda x: 3.0 * x)
    relu.defjvp(lambda xs, xdots: (relu(*xs), 0.0 * xdots[0]))
    relu.fun.__name__ = "relu"
    closed = jax.make_jaxpr(lambda x: relu(x))(2.0)
    y, (xbar,) = value_and_gradient(
        lambda x: evaluate.evaluate_jaxpr(closed, [x])[0], [np.float64(2)], lambda value: np.float64(1)
    )
    assert (y, xbar) == (6.0, 3.0)


def test_an_unknown_primitive_is_named() -> None:
    closed = jax.make_jaxpr(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), float), x))(1.0)
    with pytest.raises(NotSupported, match="pure_callback"):
        record(lambda x: evaluate.evaluate_jaxpr(closed, [x])[0], [np.float64(1)])
    assert evaluate.evaluate_jaxpr(closed, [np.float64(1)])[0] == np.sin(1.0)


def test_bits_of_another_size_are_refused() -> None:
    closed = jax.make_jaxpr(lambda x: jax.lax.bitcast_convert_type(x, np.uint32))(1.0)
    with pytest.raises(NotSupported, match="bitcast"):
        record(lambda x: evaluate.evaluate_jaxpr(closed, [x])[0], [np.float64(1)])


def test_apply_at_positions_is_refused() -> None:
    closed = jax.make_jaxpr(lambda x: x.at[0].apply(jax.numpy.sin))(np.ones(3))
    with pytest.raises(NotSupported, match="apply"):
        evaluate.evaluate_jaxpr(closed, [np.ones(3)])


def test_long_loops_are_refused() -> None:
    steps = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 10_001, lambda k, y: y + x, 0.0))(1.0)
    with pytest.raises(NotSupported, match="10000 steps"):
        evaluate.evaluate_jaxpr(steps, [np.float64(1)])
    endless = jax.make_jaxpr(lambda x: jax.lax.while_loop(lambda y: y > 0, lambda y: y + x, x))(1.0)
    with pytest.raises(NotSupported, match="10000 steps"):
        evaluate.evaluate_jaxpr(endless, [np.float64(1)])


def test_a_product_of_no_known_form_has_few_unknowns() -> None:
    def solved(x: Any) -> Any:
        return jax.lax.custom_linear_solve(lambda y: 2.0 * y, x, lambda _, b: b / 2, symmetric=True)

    agrees(solved, (np.arange(5.0),))
    closed = jax.make_jaxpr(solved)(np.ones(401))
    with pytest.raises(NotSupported, match="401 unknowns"):
        evaluate.evaluate_jaxpr(closed, [np.ones(401)])


def test_narrow_weights_are_taken_as_float64() -> None:
    w = np.linspace(0, 1, 3, dtype=np.float32)
    closed = jax.make_jaxpr(lambda x: x * w + jax.numpy.asarray(w, dtype=jax.numpy.bfloat16))(np.ones(3))
    (y,) = evaluate.evaluate_jaxpr(closed, [np.ones(3)])
    assert y.dtype == np.float64
    close(y, w.astype(float) + np.asarray(jax.numpy.asarray(w, dtype=jax.numpy.bfloat16)).astype(float), 1e-15)
