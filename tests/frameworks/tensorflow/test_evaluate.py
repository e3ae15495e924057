"""TensorFlow's graphs, replayed in numpy: the value is TensorFlow's, and the gradient that of its own tape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.core.provenance import place
from gradcli.core.tracer import plain
from gradcli.errors import NotSupported
from gradcli.interpreters.ball import Ball, nearest, precision, radius
from gradcli.interpreters.dual import jvp
from gradcli.interpreters.program import record, value_and_pulled

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
tf_cases = pytest.importorskip("tests.frameworks.tensorflow.cases", reason="TensorFlow is not installed")
CASES = tf_cases.CASES
evaluate = pytest.importorskip("gradcli.frameworks.tensorflow.evaluate")
TABLE: dict[str, Callable[..., Any]] = evaluate.TABLE

NO_GRADIENT = {  # what TensorFlow does not differentiate itself
    "reduction: bincount", "matrix: lu", "raw: real spectra", "raw: PreventGradient", "raw: slopes of activations",
    "raw: lists", "raw: lists of blocks",
    "neural: conv2d dilated",  # not on a CPU
    "shaping: one_hot axis",  # in its values, silently
    "raw: diagonals of any number", "raw: diagonals set",  # it turns these as operations of another alignment
}  # fmt: skip
VALUE, GRADIENT = 1e-12, 1e-9  # relative to the largest entry


def reals(leaves: Any) -> list[Any]:
    """Return the outputs that can be differentiated."""
    return [y for y in leaves if getattr(y.dtype, "is_floating", False) or getattr(y.dtype, "kind", "") == "f"]


def close(found: Any, expected: Any, tolerance: float) -> None:
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * float(largest))


def graph(f: Callable[..., Any], xs: Any, dtype: Any = tf.float64) -> Any:
    specs = [tf.TensorSpec(np.shape(x), dtype) for x in xs]
    return tf.function(f, autograph=False).get_concrete_function(*specs)


def frozen(xs: Any) -> list[Any]:
    """Return arguments that nothing may write into."""
    held = [x.copy() for x in xs]
    for x in held:
        if x.shape:
            x.flags.writeable = False
    return held


def weights(y: Any) -> Any:
    """Return a cotangent in the shape of `y`."""
    found = np.random.default_rng(5).normal(size=np.shape(y))
    return found if np.shape(y) else np.float64(found)


def weighted(concrete: Any) -> Callable[..., Any]:
    """Return a sum over all real outputs of a graph."""

    def total(*xs: Any) -> Any:
        parts = reals(evaluate.evaluated(concrete, xs))
        return sum((np.sum(part * weights(part)) for part in parts), start=np.float64(0))

    return total


def tensorflows(concrete: Any, xs: Any, gradient: bool) -> tuple[list[Any], list[Any]]:
    """Return TensorFlow's outputs, and its cotangents of the inputs."""
    inputs = [tf.constant(x) for x in xs]
    with tf.GradientTape() as tape:
        tape.watch(inputs if gradient else [])
        ys = [y for y in tf.nest.flatten(concrete(*inputs)) if y is not None]
        total = tf.add_n([tf.reduce_sum(y * weights(y)) for y in reals(ys)]) if reals(ys) else tf.constant(0.0)
    none = tf.UnconnectedGradients.ZERO
    xbars = (
        [tf.convert_to_tensor(xbar).numpy() for xbar in tape.gradient(total, inputs, unconnected_gradients=none)]
        if gradient
        else []
    )
    return [y.numpy() for y in ys], xbars


def agrees(f: Callable[..., Any], xs: Any, gradient: bool = True) -> None:
    """Assert that values and cotangents are TensorFlow's."""
    concrete = graph(f, xs)
    expected, xbars = tensorflows(concrete, xs, gradient)
    found = evaluate.evaluated(concrete, frozen(xs))
    assert len(found) == len(expected)
    for y, wanted in zip(found, expected, strict=True):
        assert isinstance(y, np.ndarray if np.shape(wanted) else np.generic)
        close(y, wanted, VALUE)
    if gradient:
        _, pulled = value_and_pulled(weighted(concrete), frozen(xs), lambda value: np.float64(1))
        for xbar, wanted in zip(pulled, xbars, strict=True):
            close(xbar, wanted, GRADIENT)


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_are_tensorflows(name: str) -> None:
    agrees(*CASES[name], gradient=name not in NO_GRADIENT)


@pytest.mark.parametrize("name", CASES)
def test_balls_and_tangents_know_the_gradient(name: str) -> None:
    f, xs = CASES[name]
    total = weighted(graph(f, xs))
    _, pulled = value_and_pulled(total, frozen(xs), lambda value: np.float64(1))
    xdots = [weights(x) for x in xs]
    _, ydot = jvp(total, frozen(xs), xdots)
    terms = [np.sum(xbar * xdot) for xbar, xdot in zip(pulled, xdots, strict=True)]
    assert abs(ydot - sum(terms)) <= 1e-10 * (1.0 + sum(map(abs, terms)))
    with precision(200):
        y, inputs, tape = record(total, [Ball.lift(x) for x in xs])
        for xbar, expected in zip(tape.pull(y, Ball.lift(np.float64(1)), inputs), pulled, strict=True):
            ball = Ball(Ball.objects(xbar))
            assert np.all(radius(ball) <= 1e-30)
            close(nearest(ball), expected, GRADIENT)


NARROW, SINGLE = tf_cases.NARROW, 1e-5  # some eps of float32, of the largest entry


@pytest.mark.parametrize("name", NARROW)
def test_operations_for_float32_alone(name: str) -> None:
    f, xs = NARROW[name]
    xs = [np.asarray(x, dtype=np.float32) for x in xs]
    concrete = graph(f, xs, tf.float32)
    expected, xbars = tensorflows(concrete, xs, True)
    wide = [x.astype(float) for x in xs]
    for y, wanted in zip(evaluate.evaluated(concrete, wide), expected, strict=True):
        assert y.dtype == np.float64
        close(y, wanted, SINGLE)
    _, pulled = value_and_pulled(weighted(concrete), wide, lambda value: np.float64(1))
    largest = max(float(np.max(np.abs(xbar))) for xbar in pulled)
    for xbar, wanted in zip(pulled, xbars, strict=True):
        np.testing.assert_allclose(xbar, wanted, rtol=0, atol=SINGLE * largest)


WRONG: dict[str, tuple[str, Callable[..., Any]]] = {  # what is replaced, the case that must see it, and by what
    "Sin": ("elementwise: sin", lambda x, **attrs: np.sin(x) * (1 + 1e-11)),
    "Tanh": ("elementwise: tanh", lambda x, **attrs: np.tanh(plain(x))),
    "Mul": ("elementwise: multiply", lambda x, y, **attrs: plain(x) * y),
    "MatMul": ("matrix: matmul", lambda a, b, **attrs: np.matmul(a[::-1], b)),
    "Cumsum": ("reduction: cumsum exclusive", lambda x, axis, **attrs: np.cumsum(x, axis=int(axis))),
    "GatherNd": ("shaping: gather_nd", lambda x, at, **attrs: x[np.asarray(at)[:, 0], 0]),
    "Conv2D": ("neural: conv2d", lambda x, w, **attrs: TABLE["DepthwiseConv2dNative"](x, w, **attrs)[..., :6]),
    "MaxPool": ("neural: max_pool", lambda x, **attrs: TABLE["AvgPool"](x, **attrs)),
}


@pytest.mark.parametrize("operation", WRONG)
def test_a_wrong_entry_is_seen(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = WRONG[operation]
    agrees(*CASES[name])
    monkeypatch.setitem(TABLE, operation, wrong)
    with pytest.raises(AssertionError):
        agrees(*CASES[name])


UNMET = {
    "CheckNumericsV2", "Conj", "ConjugateTranspose", "OptionalFromValue", "OptionalNone", "PreventGradient", "ResourceGatherNd",
    "TensorListConcat", "TensorListScatter", "TensorListElementShape",
}  # fmt: skip


def test_every_entry_is_met() -> None:
    met: set[str] = set()

    def watched(name: str, entry: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *xs, **attrs: (met.add(name), entry(*xs, **attrs))[1]

    kept = dict(TABLE)
    try:
        TABLE.update({name: watched(name, entry) for name, entry in kept.items()})
        for f, xs in CASES.values():
            evaluate.evaluated(graph(f, xs), frozen(xs))
        for f, xs in NARROW.values():
            evaluate.evaluated(graph(f, xs, tf.float32), frozen(xs))
        for f in (tf.size, tf.rank, tf.shape, tf.ones_like, tf.zeros_like):  # of shapes that the graph does not know
            unknown = tf.function(f, autograph=False).get_concrete_function(tf.TensorSpec(None, tf.float64))
            assert np.all(evaluate.evaluated(unknown, [np.ones((2, 3))])[0] == f(np.ones((2, 3))))
    finally:
        TABLE.update(kept)
    assert sorted(set(kept) - met - UNMET) == []


def of_one(f: Callable[..., Any], x: float) -> tuple[Any, Any]:
    concrete = graph(f, [np.float64(x)])
    y, (xbar,) = value_and_pulled(
        lambda x: evaluate.evaluated(concrete, [x])[0], [np.float64(x)], lambda value: np.float64(1)
    )
    return y, xbar


def test_the_function_is_differentiated_also_where_tensorflow_stops() -> None:
    assert of_one(lambda x: tf.stop_gradient(x) * x, 3.0) == (9.0, 6.0)
    assert of_one(tf.custom_gradient(lambda x: (x * x, lambda ybar: 0.0 * ybar)), 3.0) == (9.0, 6.0)


def test_softplus_has_no_kink_at_0() -> None:
    concrete = graph(tf.nn.softplus, [np.float64(0)])
    _, _, tape = record(lambda x: evaluate.evaluated(concrete, [x])[0], [np.float64(0)])
    assert [line[0].name for line in tape.lines[1:]] == ["logaddexp"]


@pytest.mark.parametrize("name", ["multiply_no_nan", "xdivy", "xlogy", "xlog1py", "divide_no_nan"])
def test_nothing_of_no_number(name: str) -> None:
    xs = [np.array([0.0, 0.0, 0.0, 2.0, np.inf, 0.0]), np.array([0.0, np.inf, -1.0, 3.0, 0.0, np.nan])]
    f = getattr(tf.math, name)
    np.testing.assert_allclose(evaluate.evaluated(graph(f, xs), xs)[0], f(*xs), rtol=1e-15)


def test_a_line_of_the_users_is_found() -> None:
    concrete = graph(lambda x: tf.sin(x), [np.float64(0)])
    _, _, tape = record(lambda x: evaluate.evaluated(concrete, [x])[0], [np.float64(0)])
    found = place(tape.lines[1][5])
    assert found is not None and found.text.strip().startswith("concrete = graph(lambda x: tf.sin(x)")


def test_an_unknown_operation_is_named_with_its_line() -> None:
    concrete = graph(lambda x: tf.raw_ops.Zeta(x=x, q=x), [np.float64(2)])
    with pytest.raises(NotSupported, match="Zeta") as raised:
        record(lambda x: evaluate.evaluated(concrete, [x])[0], [np.float64(2)])
    assert raised.value.where is not None
    assert evaluate.evaluated(concrete, [np.float64(2)])[0] == tf.math.zeta(np.float64(2), np.float64(2)).numpy()


def test_long_loops_are_refused() -> None:
    concrete = graph(lambda x: tf.while_loop(lambda y: y > 0, lambda y: (y + x,), (x,)), [np.float64(1)])
    with pytest.raises(NotSupported, match="10000 steps"):
        evaluate.evaluated(concrete, [np.float64(1)])


def test_variables_are_read_as_they_are_now_and_not_written() -> None:
    v = tf.Variable(np.float64(2))

    def f(x: Any) -> Any:
        v.assign_add(x)
        return v * x

    concrete = graph(f, [np.float64(3)])
    assert evaluate.evaluated(concrete, [np.float64(3)]) == [15.0]
    assert v.numpy() == 2.0
    v.assign(4.0)
    y, (xbar,) = value_and_pulled(
        lambda x: evaluate.evaluated(concrete, [x])[0], [np.float64(3)], lambda value: np.float64(1)
    )
    assert (y, xbar) == (21.0, 10.0)


def test_the_number_of_inputs_is_checked() -> None:
    with pytest.raises(ValueError, match="takes 1 inputs, not 2"):
        evaluate.evaluated(graph(tf.sin, [np.float64(1)]), [np.float64(1), np.float64(1)])
