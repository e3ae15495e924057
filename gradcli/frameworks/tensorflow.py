"""The adapter for TensorFlow: converts tensors, computes TensorFlow's own gradients, and says what its functions compute in."""

import contextlib
import copy
import inspect
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks, random_seed
from tensorflow.python.ops import custom_gradient

from gradcli.arithmetic.devices import DEVICES
from gradcli.errors import BadOption, FunctionFailed, NotSupported
from gradcli.frameworks.framework import (
    EPS,
    CustomCall,
    Flat,
    Framework,
    Inside,
    Placed,
    Prepared,
    Tensor,
    function_name,
    replace_attribute,
    reraise_as_runtime_error,
    with_parameters,
)
from gradcli.request.point import Array
from gradcli.targets.facts import Notice
from gradcli.targets.nesting import take_apart
from gradcli.tracing.provenance import current_position, is_users_file, place_of_definition
from gradcli.words import Kind, Severity

_FORMATS = {
    "float64": tf.float64, "float32": tf.float32, "float16": tf.float16, "bfloat16": tf.bfloat16, "tf32": tf.float32,
}  # fmt: skip
_COMPILED = type(tf.function(lambda: None))
_NO_FORWARD = ("ForwardAccumulator", "forward", "gradient registry", "no gradient defined", "variant")
_ZERO = tf.UnconnectedGradients.ZERO


# What one run of a function shows: its calls of custom gradients, the formats of its values, its stopped gradients.

_MOST = 64  # calls that are collected at most
_EAGERLY = "_eager_mode_decorator"  # of tf.custom_gradient


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[CustomCall]:
    """Return one call of each custom function, for each set of argument shapes that a run contains.

    A `tf.function` runs as plain Python here, so that calls inside it get actual values.
    """
    found: dict[Any, CustomCall] = {}
    own = getattr(custom_gradient, _EAGERLY)

    def seen(function: Any, args: Any, kwargs: Any) -> Any:
        plain = inspect.unwrap(function)
        code = getattr(plain, "__code__", None)
        leaves = take_apart("", (args, kwargs))[1].values()
        key = (code, tuple(_argument_key(x) for x in leaves))
        if code is not None and is_users_file(code.co_filename) and key not in found and len(found) < _MOST:
            alone, rule = as_plain_function(function), place_of_definition(_find_gradient_rule(plain))
            found[key] = CustomCall(function_name(plain), alone, tuple(args), dict(kwargs), current_position(), rule)
        return own(function, args, kwargs)

    with replace_attribute(custom_gradient, _EAGERLY, seen), run_eagerly():
        f(xs)
    return list(found.values())


def inspect_run(run: Callable[[], Any], xs: Sequence[Any]) -> Inside:
    """Return the narrowest format among the values that a run computes from the tensors `xs`, and its stopped gradients."""
    moving = {id(x): x for x in xs}  # kept, so that no id is used again
    formats, stops = ["float64"], list[Any]()

    def note_formats(
        kind: Any, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if moving.keys().isdisjoint(map(id, inputs)):
            return
        moving.update((id(y), y) for y in outputs)
        formats.extend(y.dtype.name for y in outputs if y.dtype.name in EPS)
        if kind == "StopGradient":
            stops.append(current_position())

    op_callbacks.add_op_callback(note_formats)
    try:
        with run_eagerly():
            run()
    finally:
        op_callbacks.remove_op_callback(note_formats)
    return Inside(max(formats, key=lambda name: EPS[name]), tuple(stops))


def as_plain_function(function: Any) -> Callable[..., Any]:
    """Return a function with a custom gradient as a plain callable, with its signature."""
    call: Callable[..., Any] = tf.custom_gradient(function)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    apply.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    apply.__name__ = function_name(function)
    return apply


@contextmanager
def run_eagerly() -> Iterator[None]:
    """Run each `tf.function` as plain Python in the block."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _find_gradient_rule(function: Any) -> Any:
    """Return the gradient that a function defines inside itself, in a form whose source can be found; else the function."""
    code = function.__code__
    inner = [c for c in code.co_consts if inspect.iscode(c)]
    named = [c for c in inner if not c.co_name.startswith("<")] or inner
    return SimpleNamespace(__code__=named[-1]) if named else function


def _argument_key(x: Any) -> Any:
    return (tuple(x.shape), x.dtype) if isinstance(x, tf.Tensor | tf.Variable) else repr(x)[:80]


# Modules, layers and models as functions of their inputs and of their trainable variables.

_CHANGES = ("BatchNormalization", "Dropout", "GaussianNoise")  # layers that behave differently in training


def to_numpy(x: Any) -> Array:
    """Return a tensor in numpy: floats in float64, an array without axes as a number."""
    x = tf.convert_to_tensor(x)
    if x.dtype.is_floating:
        x = tf.cast(x, tf.float64)
    return np.array(x.numpy())[()]


def is_made_by_keras(kind: type) -> bool:
    """Whether a class is a layer or a model of Keras; Keras is not imported to find out."""
    return any(c.__module__.startswith("keras.") and c.__name__ == "Layer" for c in inspect.getmro(kind))


def prepare_module(module: tf.Module, dtype: Any) -> Prepared:
    """Return a copy of a module, with floats converted to `dtype`, as a function of its inputs and trainable variables."""
    own = copy.deepcopy(module)
    variables = list(own._flatten(predicate=lambda x: isinstance(x, tf.Variable), with_path=True))
    parameters, still, moving = {}, [], {}
    for path, _ in variables:
        variable = _value_at_path(own, path)
        if variable.dtype.is_floating:
            variable = tf.Variable(
                tf.cast(variable, dtype), trainable=variable.trainable, name=variable.name.split(":")[0]
            )
            _set_at_path(own, path, variable)
        if variable.trainable and variable.dtype.is_floating:
            name = ".".join(map(str, path))
            moving[name], parameters[name] = path, to_numpy(variable)
        else:
            still.append((variable, tf.identity(variable)))

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        try:
            with _substitute_variables(own, {moving[name]: x for name, x in (parameters or {}).items()}):
                return own(*args, **kwargs)
        finally:
            for variable, x in still:  # which the call may have written to
                variable.assign(x)

    name = type(module).__name__
    return Prepared(with_parameters(call, own, name), name, parameters)


@contextmanager
def _substitute_variables(module: Any, values: dict[Any, Any]) -> Iterator[None]:
    """Replace variables of a module by tensors in the block."""
    before = {path: _value_at_path(module, path) for path in values}
    try:
        for path, x in values.items():
            _set_at_path(module, path, x)
        yield
    finally:
        for path, variable in before.items():
            _set_at_path(module, path, variable)


def _value_at_path(x: Any, path: Sequence[Any]) -> Any:
    for key in path:
        x = getattr(x, key) if isinstance(key, str) and hasattr(x, key) else x[key]
    return x


def _set_at_path(x: Any, path: Sequence[Any], value: Any) -> None:
    owner, last = _value_at_path(x, path[:-1]), path[-1]
    if isinstance(last, str) and hasattr(owner, last):
        setattr(owner, last, value)
    else:
        owner[last] = value


# Random numbers that are the same at every call.


class _Last:
    """The seed that was set last, and whether random numbers were drawn since."""

    seed: int | None = None
    drawn = False


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the block with seeded random numbers, including those that Keras draws from Python's generator.

    Setting a seed makes TensorFlow discard its compiled functions, so it is set again only after numbers were drawn.
    """
    before, own = random.getstate(), random_seed.get_seed

    def get_seed(op_seed: int | None) -> Any:
        _Last.drawn = True
        return own(op_seed)

    if _Last.drawn or _Last.seed != seed:
        tf.random.set_seed(seed)
        _Last.seed, _Last.drawn = seed, False
    random.seed(seed)
    try:
        with replace_attribute(random_seed, "get_seed", get_seed):
            yield
    finally:
        random.setstate(before)


def prepare_keras_layer(found: Any, dtype: str, seed: int) -> Prepared:
    """Return a layer or a model as a function; a class is constructed without arguments, with seeded random numbers.

    A layer that has no variables before its first call creates them in a first call, which is seeded too.

    Raises  BadOption if Keras does not run on TensorFlow.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        says = f"Keras runs on {keras.backend.backend()} here"
        raise BadOption(says, do="set KERAS_BACKEND=tensorflow, or say --framework")
    if inspect.isclass(found):
        with seeded(seed):
            found = found()
    model, notices = found, []
    if any(type(layer).__name__ in _CHANGES for layer in model._flatten_layers()):
        notices.append(Notice(Kind.MODULE, Severity.INFO, "checked as it is called without training=True"))

    def variables() -> dict[str, Any]:
        """Return the trainable variables by the attributes that lead to each, or else by Keras's own name."""
        found: dict[int, str] = {}
        _collect_variable_names(model, "", found, set())
        return {found.get(id(v), v.path.replace("/", ".")): v for v in model.trainable_variables}

    def values() -> dict[str, Any]:
        return {name: to_numpy(v.value) for name, v in variables().items()}

    def build(point: dict[str, Any]) -> dict[str, Any]:
        with _compute_in_format(model, dtype), seeded(seed), reraise_as_runtime_error():
            model(**point)
        return values()

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        with _compute_in_format(model, dtype):
            given = parameters or {}
            own = [given.get(name, v.value) for name, v in variables().items()]
            still = [v.value for v in model.non_trainable_variables]
            return model.stateless_call(own, still, *args, **kwargs)[0]

    late = build if not model.built or not model.variables else None
    name = type(model).__name__
    return Prepared(with_parameters(call, model.call, name), name, values(), tuple(notices), late)


def _collect_variable_names(x: Any, path: str, names: dict[int, str], seen: set[int]) -> None:
    import keras

    if isinstance(x, keras.Variable):
        names.setdefault(id(x), path)
    elif isinstance(x, list | tuple | dict):
        for key, part in x.items() if isinstance(x, dict) else enumerate(x):
            _collect_variable_names(part, f"{path}.{key}", names, seen)
    elif isinstance(x, keras.Layer) and id(x) not in seen:
        seen.add(id(x))
        before = f"{path}." if path else ""
        own = {name: part for name, part in vars(x).items() if not isinstance(part, keras.Function)}
        for name, part in own.items():
            if isinstance(part, keras.Variable | keras.Layer) or not name.startswith("_"):
                _collect_variable_names(part, before + name.removeprefix("_"), names, seen)
        for k, layer in enumerate(getattr(x, "layers", ())):
            _collect_variable_names(layer, f"{before}layers.{k}", names, seen)


@contextmanager
def _compute_in_format(model: Any, dtype: str) -> Iterator[None]:
    """Make a model, its layers and its variables compute in the format `dtype` in the block."""
    import keras

    layers = list(model._flatten_layers())
    # functional and sequential models, which convert their arguments to the format of their symbolic inputs
    functional = [x for y in layers for x in (y, getattr(y, "_functional", None)) if isinstance(x, keras.Function)]
    typed = [*model.variables, *(t for x in functional for t in x._inputs)]
    typed = [x for x in typed if keras.backend.is_float_dtype(x.dtype)]
    policies, formats = [layer.dtype_policy for layer in layers], [x._dtype for x in typed]
    kept = keras.config.dtype_policy(), keras.config.floatx()
    try:
        keras.config.set_dtype_policy(dtype)
        keras.config.set_floatx(dtype)
        for layer in layers:
            layer.dtype_policy = dtype
        for x in typed:
            x._dtype = dtype
        yield
    finally:
        keras.config.set_dtype_policy(kept[0])
        keras.config.set_floatx(kept[1])
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy
        for x, own in zip(typed, formats, strict=True):
            x._dtype = own


class TensorFlow(Framework):
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
        return to_numpy(x)

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
            return prepare_keras_layer(found, placed.dtype, seed)
        if inspect.isclass(found):
            with seeded(seed):
                found = found()
        if isinstance(found, tf.Module):
            return prepare_module(found, _FORMATS[placed.dtype])
        device = DEVICES[self.name].native(placed.device)
        return Prepared(_run_on_device(device, found), getattr(found, "__name__", type(found).__name__), {})

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        with seeded(seed), reraise_as_runtime_error():
            y = function(*args, **kwargs)
        wide = {x.dtype for x in _float_tensors((args, kwargs))} == {tf.float64}
        if wide and any(x.dtype == tf.float32 for x in _float_tensors(y)):
            raise TypeError("it computes in float32 although its inputs are float64")
        return y

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with _seeded_on_device(xs, seed):
            return to_numpy(f(xs))

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        with _seeded_on_device(xs, seed):
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = f(xs)
            bars = tape.gradient(y, xs, _tensor_like(w, y), unconnected_gradients=_ZERO)
            return to_numpy(y), [to_numpy(xbar) for xbar in bars]

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        xdots = [_tensor_like(v, x) for v, x in zip(vs, xs, strict=True)]
        with _seeded_on_device(xs, seed), tf.autodiff.ForwardAccumulator(list(xs), xdots) as accumulator:
            try:
                y = f(xs)
            except (LookupError, NotImplementedError, FunctionFailed) as error:
                raise _classify_error(error, _NO_FORWARD) from error
        return to_numpy(accumulator.jvp(y, unconnected_gradients=_ZERO))

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        with _seeded_on_device(xs, seed):
            with tf.GradientTape() as outer:
                outer.watch(xs)
                with tf.GradientTape() as inner:
                    inner.watch(xs)
                    y = f(xs)
                    weighted = tf.reduce_sum(y * _tensor_like(w, y))
                bars = inner.gradient(weighted, xs, unconnected_gradients=_ZERO)
                along = tf.add_n(
                    [
                        tf.reduce_sum(bar * _tensor_like(v, bar))
                        for bar, v in zip(map(tf.convert_to_tensor, bars), vs, strict=True)
                    ]
                )
            try:
                return [to_numpy(part) for part in outer.gradient(along, xs, unconnected_gradients=_ZERO)]
            except LookupError as error:
                raise _classify_error(error, _NO_FORWARD) from error

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def one(ts: Sequence[Tensor]) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(ts)
                y = f(ts)
                weighted = tf.reduce_sum(y * _tensor_like(w, y))
            return [tf.convert_to_tensor(g) for g in tape.gradient(weighted, ts, unconnected_gradients=_ZERO)]

        pairs = [tf.stack([a, b]) for a, b in zip(xs, others, strict=True)]
        with _seeded_on_device(xs, seed), _silence_log():
            try:
                found = [to_numpy(g) for g in tf.vectorized_map(one, pairs, fallback_to_while_loop=False)]
            except (
                ValueError, TypeError, NotImplementedError, LookupError, AttributeError, FunctionFailed, tf.errors.OpError
            ) as error:  # fmt: skip
                raise NotSupported(f"tf.vectorized_map: {_short_message(error)}") from error
            if _Last.drawn:
                raise NotSupported("tf.vectorized_map draws other random numbers")
            return found

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str]:
        """Return the gradient inside a `tf.function`, where custom gradients take a different code path."""
        graph = tf.function(lambda *ts: f(ts), autograph=False)
        try:
            with _silence_log():
                found = self.gradient(lambda ts: graph(*ts), xs, w, seed)
        except (ValueError, TypeError, RuntimeError, FunctionFailed):  # Python code that cannot become a graph
            return {}
        return {} if _Last.drawn else {"inside tf.function": list(found)}  # a graph draws other random numbers

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        inner = tf.function(function, jit_compile=False)
        return _run_on_device(None, function, inner)

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        if way == "checkpoint":
            return _run_on_device(None, function, tf.recompute_grad(function))

        def eager(*args: Any, **kwargs: Any) -> Any:
            with run_eagerly():
                return function(*args, **kwargs)

        return _run_on_device(None, function, eager)

    def inside(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> Inside:
        with _seeded_on_device(xs, seed), _silence_log():
            return inspect_run(lambda: function(*args, **kwargs), xs)

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[CustomCall]:
        with _seeded_on_device(xs, seed):
            return custom_calls(f, xs)


def _run_on_device(
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


@contextmanager
def _seeded_on_device(xs: Sequence[Tensor], seed: int) -> Iterator[None]:
    """Run the block on the device of the inputs, with seeded random numbers."""
    with seeded(seed), reraise_as_runtime_error(), tf.device(xs[0].device if xs else None):
        yield


@contextmanager
def _silence_log() -> Iterator[None]:
    """Silence TensorFlow's log in the block: it reports graphs that are rebuilt, or that cannot be made."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("CRITICAL")
    try:
        yield
    finally:
        logger.setLevel(before)


def _float_tensors(x: Any) -> list[Tensor]:
    return [t for t in take_apart("", x)[1].values() if FRAMEWORK.holds(t) and t.dtype.is_floating]


def _tensor_like(v: Array, x: Tensor) -> Tensor:
    return tf.reshape(tf.cast(tf.constant(np.asarray(v)), x.dtype), tf.shape(x))


def _classify_error(error: Exception, words: Sequence[str]) -> Exception:
    """Return NotSupported if the message says that TensorFlow cannot do this, else the error itself."""
    if isinstance(error, NotImplementedError) or any(word in str(error) for word in words):
        return NotSupported(_short_message(error))
    return error


def _short_message(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:200]


FRAMEWORK = TensorFlow()
