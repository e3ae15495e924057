"""The adapter for TensorFlow: converts tensors, computes TensorFlow's own gradients, and says what its functions compute in."""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcli.errors import BadOption, FunctionFailed, NotSupported
from gradcli.frameworks.framework import Call, Flat, Inside, Placed, Prepared, Tensor, Without
from gradcli.frameworks.raised import told
from gradcli.frameworks.tensorflow.calls import custom_calls, inside
from gradcli.frameworks.tensorflow.modules import host, is_made_by_keras, of_keras, of_module
from gradcli.frameworks.tensorflow.seeds import drawn, seeded
from gradcli.lowering.devices import DEVICES
from gradcli.point import Array
from gradcli.source.structure import taken_apart

_FORMATS = {
    "float64": tf.float64, "float32": tf.float32, "float16": tf.float16, "bfloat16": tf.bfloat16, "tf32": tf.float32,
}  # fmt: skip
_COMPILED = type(tf.function(lambda: None))
_NO_FORWARD = ("ForwardAccumulator", "forward", "gradient registry", "no gradient defined", "variant")
_ZERO = tf.UnconnectedGradients.ZERO


class TensorFlow(Without):
    """The adapter for TensorFlow."""

    name = "tensorflow"

    def holds(self, x: Any) -> bool:
        return isinstance(x, tf.Tensor | tf.Variable | tf.IndexedSlices)

    def owns(self, x: Any) -> bool:
        """Whether it is a module, a layer, a compiled function, or a function with a custom gradient."""
        kind = x if inspect.isclass(x) else type(x)
        decorated = getattr(x, "_tf_decorator", None) is not None
        return issubclass(kind, tf.Module | _COMPILED) or is_made_by_keras(kind) or decorated

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        x = np.asarray(x)
        with tf.device(DEVICES[self.name].native(placed.device)):
            y = tf.constant(x)
            return tf.cast(y, _FORMATS[placed.dtype]) if x.dtype.kind == "f" else y

    def array(self, x: Tensor) -> Array:
        return host(x)

    def is_float(self, x: Tensor) -> bool:
        return bool(x.dtype.is_floating)

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        wide = max((y.dtype for y in ys), key=lambda dtype: dtype.size)
        return tf.concat([tf.reshape(tf.cast(y, wide), (-1,)) for y in ys], 0)

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        return tf.complex(real, imag)

    def parts(self, y: Tensor) -> Tensor:
        return tf.stack([tf.math.real(y), tf.math.imag(y)], -1) if y.dtype.is_complex else y

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        if placed.dtype not in _FORMATS:
            raise BadOption(f"tensorflow has no format '{placed.dtype}'", do=f"formats: {', '.join(_FORMATS)}")
        kind = found if inspect.isclass(found) else type(found)
        if is_made_by_keras(kind):
            return of_keras(found, placed.dtype, seed)
        if inspect.isclass(found):
            with seeded(seed):
                found = found()
        if isinstance(found, tf.Module):
            return of_module(found, _FORMATS[placed.dtype])
        device = DEVICES[self.name].native(placed.device)
        return Prepared(_on(device, found), getattr(found, "__name__", type(found).__name__), {})

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        with seeded(seed), told():
            y = function(*args, **kwargs)
        wide = {x.dtype for x in _floats((args, kwargs))} == {tf.float64}
        if wide and any(x.dtype == tf.float32 for x in _floats(y)):
            raise TypeError("it computes in float32 although its inputs are float64")
        return y

    def gradient(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        return self.pulled(f, xs, w, seed)[1]

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with _here(xs, seed):
            return host(f(xs))

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        with _here(xs, seed):
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = f(xs)
            bars = tape.gradient(y, xs, _like(w, y), unconnected_gradients=_ZERO)
            return host(y), [host(xbar) for xbar in bars]

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        xdots = [_like(v, x) for v, x in zip(vs, xs, strict=True)]
        with _here(xs, seed), tf.autodiff.ForwardAccumulator(list(xs), xdots) as accumulator:
            try:
                y = f(xs)
            except (LookupError, NotImplementedError, FunctionFailed) as error:
                raise _unsupported(error, _NO_FORWARD) from error
        return host(accumulator.jvp(y, unconnected_gradients=_ZERO))

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        with _here(xs, seed):
            with tf.GradientTape() as outer:
                outer.watch(xs)
                with tf.GradientTape() as inner:
                    inner.watch(xs)
                    y = f(xs)
                    weighted = tf.reduce_sum(y * _like(w, y))
                bars = inner.gradient(weighted, xs, unconnected_gradients=_ZERO)
                along = tf.add_n(
                    [tf.reduce_sum(bar * _like(v, bar)) for bar, v in zip(map(_dense, bars), vs, strict=True)]
                )
            try:
                return [host(part) for part in outer.gradient(along, xs, unconnected_gradients=_ZERO)]
            except LookupError as error:
                raise _unsupported(error, _NO_FORWARD) from error

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def one(ts: Sequence[Tensor]) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(ts)
                y = f(ts)
                weighted = tf.reduce_sum(y * _like(w, y))
            return [_dense(g) for g in tape.gradient(weighted, ts, unconnected_gradients=_ZERO)]

        pairs = [tf.stack([a, b]) for a, b in zip(xs, others, strict=True)]
        with _here(xs, seed), _hushed():
            try:
                found = [host(g) for g in tf.vectorized_map(one, pairs, fallback_to_while_loop=False)]
            except (
                ValueError,
                TypeError,
                NotImplementedError,
                LookupError,
                AttributeError,
                FunctionFailed,
                tf.errors.OpError,
            ) as error:
                raise NotSupported(f"tf.vectorized_map: {_short(error)}") from error
            if drawn():
                raise NotSupported("tf.vectorized_map draws other random numbers")
            return found

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str]:
        """Return the gradient inside a `tf.function`, where custom gradients take a different code path."""
        graph = tf.function(lambda *ts: f(ts), autograph=False)
        try:
            with _hushed():
                found = self.gradient(lambda ts: graph(*ts), xs, w, seed)
        except (ValueError, TypeError, RuntimeError, FunctionFailed):  # Python code that cannot become a graph
            return {}
        return {} if drawn() else {"inside tf.function": list(found)}  # a graph draws other random numbers

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        inner = tf.function(function, jit_compile=False)
        return _on(None, function, inner)

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        if way == "checkpoint":
            return _on(None, function, tf.recompute_grad(function))

        def eager(*args: Any, **kwargs: Any) -> Any:
            before = tf.config.functions_run_eagerly()
            tf.config.run_functions_eagerly(True)
            try:
                return function(*args, **kwargs)
            finally:
                tf.config.run_functions_eagerly(before)

        return _on(None, function, eager)

    def inside(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> Inside:
        with _here(xs, seed), _hushed():
            return inside(lambda: function(*args, **kwargs), xs)

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[Call]:
        with _here(xs, seed):
            return custom_calls(f, xs)


def _on(
    device: str | None, function: Callable[..., Any], inner: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function that runs on a device, with its own name and signature."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with tf.device(device):
            return (inner or function)(*args, **kwargs)

    plain = getattr(function, "python_function", function)
    with contextlib.suppress(TypeError, ValueError):
        call.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    call.__name__ = getattr(plain, "__name__", type(plain).__name__)
    call.__wrapped__ = plain  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _here(xs: Sequence[Tensor], seed: int) -> Iterator[None]:
    """Run the block on the device of the inputs, with seeded random numbers."""
    with seeded(seed), told(), tf.device(xs[0].device if xs else None):
        yield


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Silence TensorFlow's log in the block: it reports graphs that are rebuilt, or that cannot be made."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("CRITICAL")
    try:
        yield
    finally:
        logger.setLevel(before)


def _floats(x: Any) -> list[Tensor]:
    return [t for t in taken_apart("", x)[1].values() if FRAMEWORK.holds(t) and t.dtype.is_floating]


def _like(v: Array, x: Tensor) -> Tensor:
    return tf.reshape(tf.cast(tf.constant(np.asarray(v)), x.dtype), tf.shape(x))


def _dense(x: Any) -> Tensor:
    return tf.convert_to_tensor(x)


def _unsupported(error: Exception, words: Sequence[str]) -> Exception:
    """Return NotSupported if the message says that TensorFlow cannot do this, else the error itself."""
    if isinstance(error, NotImplementedError) or any(word in str(error) for word in words):
        return NotSupported(_short(error))
    return error


def _short(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:200]


FRAMEWORK = TensorFlow()
