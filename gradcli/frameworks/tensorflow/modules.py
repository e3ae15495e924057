"""Modules, layers and models as functions of their inputs and of their trainable variables."""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcli.errors import BadOption
from gradcli.frameworks.framework import Prepared
from gradcli.frameworks.raised import told
from gradcli.frameworks.tensorflow.seeds import seeded
from gradcli.point import Array
from gradcli.source.function import Notice
from gradcli.words import Kind, Severity

_CHANGES = ("BatchNormalization", "Dropout", "GaussianNoise")  # layers that behave differently in training


def host(x: Any) -> Array:
    """Return a tensor in numpy: floats in float64, an array without axes as a number."""
    x = tf.convert_to_tensor(x)
    if x.dtype.is_floating:
        x = tf.cast(x, tf.float64)
    return np.array(x.numpy())[()]


def is_made_by_keras(kind: type) -> bool:
    """Whether a class is a layer or a model of Keras; Keras is not imported to find out."""
    return any(c.__module__.startswith("keras.") and c.__name__ == "Layer" for c in inspect.getmro(kind))


def of_module(module: tf.Module, dtype: Any) -> Prepared:
    """Return a copy of a module, with floats converted to `dtype`, as a function of its inputs and trainable variables."""
    own = copy.deepcopy(module)
    predicate = lambda x: isinstance(x, tf.Variable)
    paths = [path for path, _ in own._flatten(predicate=predicate, with_path=True)]
    parameters, still, moving = {}, [], {}
    for path in paths:
        variable = _at(own, path)
        if variable.dtype.is_floating:
            variable = tf.Variable(
                tf.cast(variable, dtype), trainable=variable.trainable, name=variable.name.split(":")[0]
            )
            _put(own, path, variable)
        if variable.trainable and variable.dtype.is_floating:
            name = ".".join(map(str, path))
            moving[name], parameters[name] = path, host(variable)
        else:
            still.append((variable, tf.identity(variable)))

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        with _restored(still), _substituted(own, {moving[name]: x for name, x in (parameters or {}).items()}):
            return own(*args, **kwargs)

    return Prepared(_signed(call, own, type(module)), type(module).__name__, parameters)


@contextlib.contextmanager
def _substituted(module: Any, values: dict[Any, Any]) -> Iterator[None]:
    """Replace variables of a module by tensors in the block."""
    before = {path: _at(module, path) for path in values}
    try:
        for path, x in values.items():
            _put(module, path, x)
        yield
    finally:
        for path, variable in before.items():
            _put(module, path, variable)


def _at(x: Any, path: Sequence[Any]) -> Any:
    for key in path:
        x = getattr(x, key) if isinstance(key, str) and hasattr(x, key) else x[key]
    return x


def _put(x: Any, path: Sequence[Any], value: Any) -> None:
    owner, last = _at(x, path[:-1]), path[-1]
    if isinstance(last, str) and hasattr(owner, last):
        setattr(owner, last, value)
    else:
        owner[last] = value


@contextlib.contextmanager
def _restored(still: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """Restore, after the block, the variables that a call may write to."""
    try:
        yield
    finally:
        for variable, x in still:
            variable.assign(x)


def of_keras(found: Any, dtype: str, seed: int) -> Prepared:
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

    def names() -> dict[str, Any]:
        return dict(zip(_named(model), model.trainable_variables, strict=True))

    def values() -> dict[str, Any]:
        return {name: host(v.value) for name, v in names().items()}

    def build(point: dict[str, Any]) -> dict[str, Any]:
        with _wide(model, dtype), seeded(seed), told():
            model(**point)
        return values()

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        with _wide(model, dtype):
            given = parameters or {}
            own = [given.get(name, v.value) for name, v in names().items()]
            still = [v.value for v in model.non_trainable_variables]
            return model.stateless_call(own, still, *args, **kwargs)[0]

    late = build if not model.built or not model.variables else None
    of = _signed(call, model.call, type(model))
    return Prepared(of, type(model).__name__, values(), tuple(notices), late)


def _named(model: Any) -> list[str]:
    """Return the names of a model's trainable variables: the attributes that lead to each, or else Keras's own name."""
    names: dict[int, str] = {}
    _walk(model, "", names, set())
    return [names.get(id(v), v.path.replace("/", ".")) for v in model.trainable_variables]


def _walk(x: Any, path: str, names: dict[int, str], seen: set[int]) -> None:
    import keras

    if isinstance(x, keras.Variable):
        names.setdefault(id(x), path)
    elif isinstance(x, list | tuple | dict):
        for key, part in x.items() if isinstance(x, dict) else enumerate(x):
            _walk(part, f"{path}.{key}", names, seen)
    elif isinstance(x, keras.Layer) and id(x) not in seen:
        seen.add(id(x))
        before = f"{path}." if path else ""
        own = {name: part for name, part in vars(x).items() if not isinstance(part, keras.Function)}
        for name, part in own.items():
            if isinstance(part, keras.Variable | keras.Layer) or not name.startswith("_"):
                _walk(part, before + name.removeprefix("_"), names, seen)
        for k, layer in enumerate(getattr(x, "layers", ())):
            _walk(layer, f"{before}layers.{k}", names, seen)


@contextlib.contextmanager
def _wide(model: Any, dtype: str) -> Iterator[None]:
    """Make a model, its layers and its variables compute in the format `dtype` in the block."""
    import keras

    layers = list(model._flatten_layers())
    variables = [v for v in model.variables if keras.backend.is_float_dtype(v.dtype)]
    inputs = [t for layer in layers for t in _inputs(layer)]
    before = [(layer, layer.dtype_policy) for layer in layers], [(v, v._dtype) for v in variables]
    formats = [t.dtype for t in inputs]
    kept = keras.config.dtype_policy(), keras.config.floatx()
    try:
        keras.config.set_dtype_policy(dtype)
        keras.config.set_floatx(dtype)
        for layer in layers:
            layer.dtype_policy = dtype
        for v in variables:
            v._dtype = dtype
        for t in inputs:
            t._dtype = dtype
        yield
    finally:
        keras.config.set_dtype_policy(kept[0])
        keras.config.set_floatx(kept[1])
        for layer, policy in before[0]:
            layer.dtype_policy = policy
        for v, own in before[1]:
            v._dtype = own
        for t, own in zip(inputs, formats, strict=True):
            t._dtype = own


def _inputs(layer: Any) -> list[Any]:
    """Return the symbolic float inputs of a functional or sequential model, which converts its arguments to their format."""
    import keras

    made = [x for x in (layer, getattr(layer, "_functional", None)) if isinstance(x, keras.Function)]
    return [t for x in made for t in x._inputs if keras.backend.is_float_dtype(t.dtype)]


def _signed(call: Callable[..., Any], like: Any, kind: type) -> Callable[..., Any]:
    """Return a function with the signature of another and a keyword for parameters."""
    own = list(inspect.signature(like).parameters.values())
    keyword = inspect.Parameter("parameters", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = [p for p in own if p.kind is p.VAR_KEYWORD]
    call.__signature__ = inspect.Signature([*(p for p in own if p not in last), keyword, *last])  # type: ignore[attr-defined]
    call.__name__ = kind.__name__
    return call
