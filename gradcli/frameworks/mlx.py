"""The adapter for MLX: converts arrays, computes MLX's own gradients, and says what its functions compute in.

Several of MLX's functions of float64 compute in float32, so float32 is the widest format of a gradient that is checked here.
"""

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

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
from gradcli.targets.nesting import put_together, take_apart
from gradcli.tracing.provenance import current_position, is_users_file, place_of_definition
from gradcli.words import Kind, Severity

_FORMATS = {"float64": mx.float64, "float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
_NARROW = {"i8": np.int32, "c16": np.complex64}  # the types that MLX gives Python's own numbers
_NOT_THERE = (
    "Not implemented", "not implemented", "not yet implemented", "NYI", "not supported", "not allowed", "Cannot calculate",
)  # fmt: skip


# Functions with custom gradients (`mx.custom_function`): their parts, their calls in a run, and checks of their rules.
#
# MLX does not validate what a vjp rule returns: with too few gradients it reads foreign memory, and None ends the process.
# Here the gradients that a rule returns are validated before MLX gets them.

_MOST = 64  # calls that are collected at most
_OF_A_VJP = 3  # primals, cotangents, outputs
Own = Callable[..., Any]


def function_and_rule(custom: Any) -> tuple[Own, Own | None]:
    """Return the function and the vjp rule of a custom function; the rule is None if it has none."""
    function, *rules = [x for x in gc.get_referents(custom) if callable(x) and not inspect.isclass(x)]
    for rule in rules:
        with contextlib.suppress(ValueError, TypeError):
            if len(inspect.signature(rule).parameters) == _OF_A_VJP:
                return function, rule
    return function, None


def as_plain_function(custom: Any) -> Own:
    """Return a plain function that calls a custom function, with the name and signature of the function inside it."""
    function = function_and_rule(custom)[0]

    def apply(*args: Any, **kwargs: Any) -> Any:
        return custom(*args, **kwargs)

    apply.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    apply.__name__ = function_name(function)
    apply.__wrapped__ = function  # type: ignore[attr-defined]
    return apply


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[CustomCall]:
    """Return one call of each custom function, for each set of argument shapes that a run contains."""
    found: dict[Any, CustomCall] = {}

    def seen(own: Own, custom: Any, args: Any, kwargs: Any) -> Any:
        function, rule = function_and_rule(custom)
        leaves = [x for _, x in tree_flatten([list(args), kwargs])]
        key = (id(custom), tuple(map(_argument_key, leaves)))
        has_values = not any(map(_is_traced, leaves))
        code = getattr(inspect.unwrap(function), "__code__", None)
        if (
            code is not None
            and is_users_file(code.co_filename)
            and key not in found
            and len(found) < _MOST
            and has_values
        ):
            alone, where = as_plain_function(custom), place_of_definition(rule)
            found[key] = CustomCall(alone.__name__, alone, tuple(args), dict(kwargs), current_position(), where)
        return own(custom, *args, **kwargs)

    with _replace_calls(seen):
        f(xs)
    return list(found.values())


@contextmanager
def validate_rules() -> Iterator[None]:
    """Validate what vjp rules return in the block, before MLX gets it."""
    before: dict[int, tuple[Any, Own]] = {}

    def seen(own: Own, custom: Any, args: Any, kwargs: Any) -> Any:
        rule = function_and_rule(custom)[1]
        if rule is not None and id(custom) not in before:
            before[id(custom)] = custom, rule
            custom.vjp(_validating_rule(rule))
        return own(custom, *args, **kwargs)

    try:
        with _replace_calls(seen):
            yield
    finally:
        for custom, rule in before.values():
            custom.vjp(rule)


def _replace_calls(call: Callable[[Own, Any, Any, Any], Any]) -> Any:
    """Return a context in which a custom function is called by `call(own, custom, args, kwargs)`, with MLX's own way."""
    own = mx.custom_function.__call__
    new = lambda self, *args, **kwargs: call(own, self, args, kwargs)
    return replace_attribute(mx.custom_function, "__call__", new)


def _validating_rule(rule: Own) -> Own:
    """Return a vjp rule that raises if `rule` returns invalid gradients; it replaces None by zeros."""

    def vjp(primals: Any, cotangents: Any, outputs: Any) -> Any:
        given = [x for _, x in tree_flatten(primals)]
        found = [x for _, x in tree_flatten(rule(primals, cotangents, outputs))]
        arrays = [x for x in given if isinstance(x, mx.array)]
        if len(found) == len(given):
            found = [bar for bar, x in zip(found, given, strict=True) if isinstance(x, mx.array)]
        if len(found) != len(arrays):
            raise ValueError(
                f"incorrect number of gradients: the vjp rule returns {len(found)} for {len(arrays)} arrays"
            )
        return [_validate_gradient(bar, x, k) for k, (bar, x) in enumerate(zip(found, arrays, strict=True))]

    return vjp


def _validate_gradient(bar: Any, x: Any, k: int) -> Any:
    if bar is None:
        return mx.zeros_like(x)
    if not isinstance(bar, mx.array):
        raise TypeError(
            f"the vjp rule returned an invalid gradient: a {type(bar).__name__} for argument {k}, not an array"
        )
    if bar.shape != x.shape:
        raise ValueError(f"the vjp rule returned an invalid gradient: shape {bar.shape} for argument {k} of {x.shape}")
    return bar


def _is_traced(x: Any) -> bool:
    """Whether an array has no value, as while a function is compiled."""
    try:
        mx.eval(x)
    except (RuntimeError, ValueError):
        return True
    return False


def _argument_key(x: Any) -> Any:
    return (x.shape, str(x.dtype)) if isinstance(x, mx.array) else repr(x)[:80]


class Mlx(Framework):
    """The adapter for MLX."""

    name = "mlx"

    def holds(self, x: Any) -> bool:
        return isinstance(x, mx.array)

    def owns(self, x: Any) -> bool:
        """Whether it is a module, or a function with a custom gradient."""
        kind = x if inspect.isclass(x) else type(x)
        return issubclass(kind, nn.Module | mx.custom_function)

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        x = np.asarray(x)
        if x.dtype.kind != "f":
            return mx.array(x.astype(_NARROW.get(x.dtype.kind + str(x.dtype.itemsize), x.dtype)))
        return mx.array(x if placed.dtype == "float64" else x.astype(np.float32), dtype=_FORMATS[placed.dtype])

    def array(self, x: Tensor) -> Array:
        return to_numpy(x)

    def is_float(self, x: Tensor) -> bool:
        return bool(mx.issubdtype(x.dtype, mx.floating))

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        return mx.concatenate([mx.reshape(y, (-1,)) for y in ys])

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        device = DEVICES[self.name].native(placed.device)
        if placed.dtype not in _FORMATS:
            raise BadOption(f"mlx has no format '{placed.dtype}'", do=f"formats: {', '.join([*_FORMATS][1:])}")
        if inspect.isclass(found):
            mx.random.seed(seed)
            found = found()
        if isinstance(found, nn.Module):
            return _prepare_module(found, device)
        if isinstance(found, mx.custom_function):
            found = as_plain_function(found)
        name = getattr(found, "__name__", type(found).__name__)
        return Prepared(_run_on_device(device, found, found, name), name, {})

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        with _seeded(seed), validate_rules() if differentiates else contextlib.nullcontext():
            y = function(*args, **kwargs)
            mx.eval(y)
        return y

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        def weighted(*ts: Tensor) -> tuple[Tensor, Tensor]:
            y = f(ts)
            return mx.sum(y * _tensor_like(w, y)), y

        with _seeded(seed), validate_rules():
            (_, y), found = mx.value_and_grad(weighted, argnums=tuple(range(len(xs))))(*xs)
            bars = found if isinstance(found, tuple | list) else [found]
            return to_numpy(y), [to_numpy(xbar) for xbar in bars]

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with _seeded(seed), validate_rules():
            return to_numpy(f(xs))

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        with _seeded(seed), validate_rules():
            try:
                xdots = [_tensor_like(v, x) for v, x in zip(vs, xs, strict=True)]
                return to_numpy(mx.jvp(lambda *ts: [f(ts)], list(xs), xdots)[1][0])
            except (RuntimeError, ValueError) as error:
                raise _classify_error(error) from error

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        with _seeded(seed), validate_rules():
            try:
                along = [_tensor_like(v, x) for v, x in zip(vs, xs, strict=True)]
                return [to_numpy(part) for part in mx.vjp(_gradient_function(f, w), list(xs), along)[1]]
            except (RuntimeError, ValueError) as error:
                raise _classify_error(error) from error

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        with _seeded(seed), validate_rules():
            try:
                pairs = [mx.stack([a, b]) for a, b in zip(xs, others, strict=True)]
                return [to_numpy(g) for g in mx.vmap(_gradient_function(f, w))(*pairs)]
            except (RuntimeError, ValueError, FunctionFailed) as error:
                raise NotSupported(f"mx.vmap: {' '.join(str(error).split())[:160]}") from error

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str]:
        """Return the gradient at non-contiguous inputs, which have stride 2 in memory."""
        if all(x.ndim == 0 or k in own for k, x in enumerate(xs)):
            return {}
        strided = [x if k in own or x.ndim == 0 else mx.stack([x, x], axis=-1)[..., 0] for k, x in enumerate(xs)]
        mx.eval(strided)
        return {"non-contiguous inputs": list(self.gradient(f, strided, w, seed))}

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        inner = mx.compile(function)
        return _with_signature(lambda *args, **kwargs: inner(*args, **kwargs), function, function_name(function))

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        if way != "checkpoint":
            raise NotSupported("MLX compiles only what mx.compile is given")
        return _with_signature(mx.checkpoint(function), function, function_name(function))

    def inside(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> Inside:
        """Return what the graph that MLX exports shows; of a function that reads values, which it exports none of, nothing."""
        node, leaves = take_apart("", (tuple(args), kwargs))
        order = {id(x): k for k, x in enumerate(xs)}
        formats, stops = ["float64"], list[Any]()

        def call(*inputs: Any) -> Any:
            given, named = put_together(
                node, {path: inputs[order[id(x)]] if id(x) in order else x for path, x in leaves.items()}
            )
            return [y for y in take_apart("", function(*given, **named))[1].values() if self.holds(y)]

        def note_formats(part: dict[str, Any]) -> None:
            if part["type"] == "primitive":
                formats.extend(name for *_, dtype in part["outputs"] if (name := str(dtype).rpartition(".")[2]) in EPS)

        def stop_gradient(*args: Any, **kwargs: Any) -> Any:
            stops.append(current_position())
            return own(*args, **kwargs)

        own = mx.stop_gradient
        try:
            with replace_attribute(mx, "stop_gradient", stop_gradient), _seeded(seed):
                mx.eval(call(*xs))  # what is compiled keeps its first trace, which must not be that of the export
                stops.clear()
                plain = lambda own, custom, args, kwargs: function_and_rule(custom)[0](*args, **kwargs)
                with _replace_calls(plain):  # without custom gradients
                    mx.export_function(note_formats, call, *xs)
        except Exception:  # of any type, where a function cannot be exported
            return Inside(stops=tuple(stops))
        return Inside(max(formats, key=lambda name: EPS[name]), tuple(stops))

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[CustomCall]:
        with _seeded(seed):
            return custom_calls(f, xs)


def to_numpy(x: Any) -> Array:
    """Return an array in numpy: floats in float64, an array without axes as a number."""
    if x.dtype == mx.bfloat16:
        x = x.astype(mx.float32)
    y = np.array(x)
    return (y.astype(np.float64) if y.dtype.kind == "f" else y)[()]


def _run_on_device(device: Any, function: Callable[..., Any], like: Any, name: str) -> Callable[..., Any]:
    """Return a function that runs on a device, where its backward pass runs too."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with mx.stream(device):
            return function(*args, **kwargs)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return _with_signature(call, like, name)


def _with_signature(call: Callable[..., Any], like: Any, name: str) -> Callable[..., Any]:
    """Return `call` with a name and the signature of another function."""
    with contextlib.suppress(TypeError, ValueError):
        call.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]
    call.__name__ = name
    return call


def _prepare_module(module: nn.Module, device: Any) -> Prepared:
    """Return a module as a function of its inputs and trainable parameters; what a call changes is restored."""
    name = type(module).__name__
    parameters = {
        path: to_numpy(x)
        for path, x in tree_flatten(module.trainable_parameters())
        if mx.issubdtype(x.dtype, mx.floating)
    }
    changes = any(isinstance(m, nn.BatchNorm | nn.Dropout) for m in module.modules())
    mode = "training" if module.training else "evaluation"
    notices = (Notice(Kind.MODULE, Severity.INFO, f"checked in {mode} mode, as it was handed over"),) if changes else ()

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        before = tree_unflatten(tree_flatten(module.parameters()))
        try:
            module.update(tree_unflatten(list((parameters or {}).items())))
            return module(*args, **kwargs)
        finally:
            module.update(before)

    of = _run_on_device(device, call, module, name)
    with contextlib.suppress(TypeError, ValueError):  # of a module that cannot be called
        of = with_parameters(of, module, name)
    return Prepared(of, name, parameters, notices)


def _gradient_function(f: Flat, w: Array) -> Callable[..., list[Tensor]]:
    """Return a function that computes the gradient of <w, f> by all inputs."""

    def weighted(*ts: Tensor) -> Tensor:
        y = f(ts)
        return mx.sum(y * _tensor_like(w, y))

    def pull(*ts: Tensor) -> list[Tensor]:
        found = mx.grad(weighted, argnums=tuple(range(len(ts))))(*ts)
        return list(found) if isinstance(found, tuple | list) else [found]

    return pull


def _tensor_like(v: Array, x: Tensor) -> Tensor:
    return mx.reshape(mx.array(np.asarray(v, dtype=np.float32)).astype(x.dtype), x.shape)


def _classify_error(error: Exception) -> Exception:
    """Return NotSupported if the message says that MLX cannot do this, else the error itself."""
    said = " ".join(str(error).split())
    return NotSupported(said[:200]) if any(word in said for word in _NOT_THERE) else error


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Run the block with seeded random numbers, and unusual errors converted to RuntimeError."""
    mx.random.seed(seed)
    with reraise_as_runtime_error():
        yield


FRAMEWORK = Mlx()
