"""The adapter for JAX: converts arrays, computes JAX's own gradients, and records its functions."""

import contextlib
import functools
import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import set_current_trace

from gradcli.arithmetic.devices import DEVICES
from gradcli.errors import BadOption, FunctionFailed, GradcliError, NotSupported
from gradcli.frameworks.framework import (
    CustomCall,
    Flat,
    Framework,
    Placed,
    Prepared,
    RecordedSteps,
    Tensor,
    function_name,
    replace_attribute,
    reraise_as_runtime_error,
    with_parameters,
)
from gradcli.frameworks.jax.record import Analytic, JaxRecorder, JaxTracer, record_program, to_numpy
from gradcli.request.point import Array
from gradcli.targets.nesting import put_together, take_apart
from gradcli.targets.python import message_of
from gradcli.tracing.provenance import current_position, is_users_file, place_of_definition

_FORMATS = {
    "float64": jnp.float64, "float32": jnp.float32, "float16": jnp.float16, "bfloat16": jnp.bfloat16, "tf32": jnp.float32,
}  # fmt: skip
_MOST_ALONE = 4  # inputs at most, to be differentiated one at a time
_ROUNDING = 1e4  # machine epsilons by which two ways to compute a value may differ
_STEP = 1e-12  # relative to the real part: a smaller imaginary part is a complex step
_JITTED = type(jax.jit(lambda: None))
_OWN = (jax.custom_vjp, jax.custom_jvp, _JITTED)


def give_devices(count: int) -> None:
    """Let JAX have so many devices of this machine's processors. Raises BadOption if it has begun with fewer."""
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # it has begun
        if len(jax.devices("cpu")) < count:
            says = f"JAX has begun with {len(jax.devices('cpu'))} of {count} devices"
            raise BadOption(
                says, do=f'write jax.config.update("jax_num_cpu_devices", {count}) after import jax'
            ) from None


# The calls of functions with custom gradients (custom_vjp, custom_jvp) during one run, with their actual arguments.

_MOST = 64  # calls that are collected at most
_CUSTOM = {"custom_vjp_call", "custom_jvp_call"}
_NO_FORWARD = "JAX has no forward mode for functions with custom_vjp"


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[CustomCall]:
    """Return one call of each custom function, for each set of argument shapes that a run contains.

    Jitted functions and loops run as plain Python here, so that calls inside them get actual values. Calls that are traced
    all the same, as under jax.checkpoint, are found in the jaxpr.
    """
    seen = _Seen()
    with _report_calls(jax.custom_vjp, seen.function), _report_calls(jax.custom_jvp, seen.function), jax.disable_jit():
        try:
            with set_current_trace(seen):
                f([seen.input(x) for x in xs])
        except FunctionFailed:  # the function does not accept recorded values
            f(xs)
    return list(seen.found.values())


class _Seen(JaxRecorder):
    """A trace that collects calls of custom functions with their actual values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Any, CustomCall] = {}

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Collect a call that Python code makes."""
        given, named = jax.tree_util.tree_map(_concrete_value, (args, kwargs))
        leaves = jax.tree_util.tree_leaves((given, named))
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None or not is_users_file(code.co_filename) or any(isinstance(x, jax.core.Tracer) for x in leaves):
            return
        rule = getattr(function, "bwd", None) or getattr(function, "jvp", None)
        where = place_of_definition(inspect.unwrap(rule)) if rule else None
        constants = _constant_arguments(*_fix_constant_arguments(function, args, kwargs)[1:])
        only_vjp = isinstance(function, jax.custom_vjp) and len(constants) < len(args) + len(kwargs)
        call = _fix_constant_arguments(function, given, named)
        no_forward = _NO_FORWARD if only_vjp else ""
        found = CustomCall(function_name(function), *call, current_position(), where, constants, no_forward)
        self._keep_call(rule, leaves, found)

    def process_primitive(self, primitive: Any, xs: Sequence[Any], params: dict[str, Any], /) -> Any:
        """Collect a call that an equation makes, too."""
        if primitive.name in _CUSTOM and any(isinstance(x, JaxTracer) for x in xs):
            self._collect_equation(primitive, xs, params)
        return super().process_primitive(primitive, xs, params)

    def _collect_equation(self, primitive: Any, traced: Sequence[Any], params: dict[str, Any]) -> None:
        xs = [self.value(x) for x in traced]
        own = params["call_jaxpr"].jaxpr.debug_info
        told = next((x.debug_info for key in ("fwd_jaxpr_thunk", "jvp_jaxpr_fun") if (x := params.get(key))), own)
        source = re.search(r" at (.+):\d+$", own.func_src_info or told.func_src_info or "")
        if source is None or not is_users_file(source[1]):
            return
        rule = getattr(params.get("bwd"), "f", None)
        held = params["num_consts"]

        def call(*given: Any) -> Any:
            ys = primitive.bind(*xs[:held], *given, **primitive.get_bind_params(params))
            return ys[0] if len(ys) == 1 else tuple(ys)

        count = len(xs) - held
        names = [re.sub(r"\W+", "_", name).strip("_") for name in own.arg_names or told.arg_names or ()][-count:]
        if len(set(filter(str.isidentifier, names))) < count:
            names = [f"x{k}" for k in range(count)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        call.__name__ = own.func_name
        where = place_of_definition(inspect.unwrap(rule)) if rule else None
        constants = frozenset(k for k, x in enumerate(traced[held:]) if not isinstance(x, JaxTracer))
        no_forward = _NO_FORWARD if primitive.name == "custom_vjp_call" and len(constants) < count else ""
        given = tuple(xs[held:])
        found = CustomCall(call.__name__, call, given, {}, self.here, where, constants, no_forward)
        self._keep_call(rule, given, found)

    def _keep_call(self, rule: Any, leaves: Sequence[Any], call: CustomCall) -> None:
        key = (call.name, id(rule), tuple(_argument_key(x) for x in leaves))
        if len(self.found) < _MOST:
            self.found.setdefault(key, call)

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[JaxTracer]:
        return [self._new(y) for y in ys]


def _report_calls(kind: Any, seen: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> Any:
    """Return a context in which each call of a function of type `kind` is reported to `seen`."""
    own = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen(self, args, kwargs)
        return own(self, *args, **kwargs)

    return replace_attribute(kind, "__call__", call)


def _concrete_value(x: Any) -> Any:
    """Return the value behind a tracer, or the first value of a batch; a tracer without a value as it is."""
    while isinstance(x, jax.core.Tracer):
        if isinstance(x, JaxTracer):
            x = x.value
        elif hasattr(x, "batch_dim"):
            x = x.val if x.batch_dim is None else jax.numpy.take(_concrete_value(x.val), 0, axis=x.batch_dim)
        elif hasattr(x, "primal"):
            x = x.primal
        else:
            break
    return x


def _constant_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int | str]:
    """Return the positions and names of arguments without a traced value; none if the call is not traced."""
    given = dict(enumerate(args)) | kwargs

    def is_traced(x: Any) -> bool:
        return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(x))

    if not any(map(is_traced, given.values())):
        return frozenset()
    return frozenset(key for key, x in given.items() if not is_traced(x))


def _fix_constant_arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a function with its nondiff_argnums fixed, and the arguments that are left."""
    held = set(function.nondiff_argnums)
    if not held:
        return function, args, kwargs
    signature = inspect.signature(function)
    args = signature.bind(*args, **kwargs).args

    def call(*given: Any) -> Any:
        left = iter(given)
        return function(*(x if k in held else next(left) for k, x in enumerate(args)))

    free = [p for k, p in enumerate(signature.parameters.values()) if k not in held and k < len(args)]
    call.__signature__ = inspect.Signature(free)  # type: ignore[attr-defined]
    call.__name__ = function_name(function)
    return call, tuple(x for k, x in enumerate(args) if k not in held), {}


def _argument_key(x: Any) -> Any:
    return (x.shape, x.dtype) if hasattr(x, "dtype") else repr(x)[:80]


class Jax(Framework):
    """The adapter for JAX."""

    name = "jax"
    rules_return_values = True

    def holds(self, x: Any) -> bool:
        return isinstance(x, jax.Array)

    def owns(self, x: Any) -> bool:
        """Whether it is a function with a custom rule, or a jitted function."""
        return isinstance(x, _OWN)

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        x = np.asarray(x)
        device = DEVICES[self.name].native(placed.device)
        default = jax.config.jax_default_device  # where JAX puts what is put on none, so that a function may move it
        if isinstance(default, str):
            default = jax.devices(default)[0]
        device = None if device == (default or jax.local_devices()[0]) else device
        wide = _enable_float64(placed.dtype == "float64")
        if x.dtype.kind == "f":
            with wide:
                return jax.device_put(x.astype(_FORMATS[placed.dtype]), device)
        with wide, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # JAX warns that it narrows integers and complex numbers
            return jax.device_put(jnp.asarray(x), device)

    def array(self, x: Tensor) -> Array:
        return to_numpy(x)

    def is_float(self, x: Tensor) -> bool:
        return bool(jnp.issubdtype(x.dtype, jnp.floating))

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        if len(ys) == 1 and ys[0].ndim < 2:
            return ys[0]  # each operation is compiled once more
        return jnp.concatenate([jnp.ravel(y) for y in ys])

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        return jax.lax.complex(real, imag)

    def parts(self, y: Tensor) -> Tensor:
        return jnp.stack([y.real, y.imag], -1) if jnp.iscomplexobj(y) else y

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        if placed.dtype not in _FORMATS:
            raise BadOption(f"jax has no format '{placed.dtype}'", do=f"formats: {', '.join(_FORMATS)}")
        if inspect.isclass(found):
            with _enable_float64(True):
                found = found()
        name = getattr(found, "__name__", type(found).__name__)
        leaves, tree = jax.tree_util.tree_flatten_with_path(found)
        if len(leaves) == 1 and leaves[0][1] is found:
            return Prepared(found, name, {})
        return Prepared(*_prepare_module(found, leaves, tree))

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        with _match_precision((args, kwargs)):
            if any(map(_is_complex_step, take_apart("", (args, kwargs))[1].values())):
                return _call_analytically(function, args, kwargs)
            return jax.block_until_ready(function(*args, **kwargs))

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        with _match_precision(xs), reraise_as_runtime_error():
            y, pull = jax.vjp(lambda *ts: f(ts), *xs)
            return to_numpy(y), [to_numpy(xbar) for xbar in pull(_tensor_like(w, y))]

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with _match_precision(xs), reraise_as_runtime_error():
            return to_numpy(f(xs))

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        with _match_precision(xs), reraise_as_runtime_error():
            xdots = tuple(_tensor_like(v, x) for v, x in zip(vs, xs, strict=True))
            try:
                return to_numpy(jax.jvp(lambda *ts: f(ts), tuple(xs), xdots)[1])
            except (TypeError, NotImplementedError, FunctionFailed) as error:
                raise _classify_error(error, ("forward-mode", "jvp")) from error

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        def along(*ts: Tensor) -> Tensor:
            y, pull = jax.vjp(lambda *us: f(us), *ts)
            return sum(
                jnp.vdot(_tensor_like(v, xbar), xbar) for v, xbar in zip(vs, pull(_tensor_like(w, y)), strict=True)
            )

        with _match_precision(xs), reraise_as_runtime_error():
            try:
                return [to_numpy(part) for part in _run_compiled(jax.grad(along, argnums=tuple(range(len(xs)))), xs)]
            except (NotImplementedError, FunctionFailed) as error:
                raise _classify_error(error, ("not implemented", "NotImplementedError")) from error

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        with _match_precision(xs), reraise_as_runtime_error():
            pairs = [jnp.stack([a, b]) for a, b in zip(xs, others, strict=True)]
            try:
                gradients = jax.vmap(jax.grad(_weighted_sum(f, w), argnums=tuple(range(len(xs)))))
                return [to_numpy(g) for g in _run_compiled(gradients, pairs)]
            except (TypeError, NotImplementedError, FunctionFailed) as error:
                raise _classify_error(error, ("ConcretizationTypeError", "Tracer", "Batching rule", "vmap")) from error

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str]:
        """Return the gradient one input at a time, and whether the value that a custom fwd rule returns is the function's."""
        found: dict[str, list[Array | None] | str] = {}
        weighted = _weighted_sum(f, w)
        with _match_precision(xs), reraise_as_runtime_error():
            y, plain = jax.vjp(lambda *ts: f(ts), *xs)[0], f(xs)
            worst = float(np.max(np.abs(to_numpy(y - plain)), initial=0.0))
            if worst > _ROUNDING * float(jnp.finfo(y.dtype).eps) * float(np.max(np.abs(to_numpy(plain)), initial=0.0)):
                found["value of fwd"] = f"the rule returns a different value from the function, off by {worst:.1e}"
            if 1 < len(xs) <= _MOST_ALONE:
                # not compiled as a whole: its operations were for the whole gradient
                alone = [jax.grad(lambda x, k=k: weighted(*xs[:k], x, *xs[k + 1 :])) for k in range(len(xs))]
                found["one input at a time"] = [to_numpy(g(x)) for g, x in zip(alone, xs, strict=True)]
        return found

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is jitted in its array arguments; all other arguments are static."""
        known: dict[Any, Callable[..., Any]] = {}

        def call(*args: Any, **kwargs: Any) -> Any:
            node, leaves = take_apart("", (args, kwargs))
            arrays = {path: x for path, x in leaves.items() if isinstance(x, jax.Array)}
            others = {path: x for path, x in leaves.items() if path not in arrays}

            def of_arrays(given: dict[str, Any]) -> Any:
                own, named = put_together(node, {**others, **given})
                return function(*own, **named)

            key = (tuple(arrays), tuple((path, repr(x)) for path, x in others.items()))
            if key not in known:
                known[key] = jax.jit(of_arrays)
            return known[key](arrays)

        with contextlib.suppress(TypeError, ValueError):
            call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        call.__name__ = function_name(function)
        return call

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        if way == "checkpoint":
            return functools.wraps(function)(jax.checkpoint(function))

        @functools.wraps(function)
        def eager(*args: Any, **kwargs: Any) -> Any:
            with jax.disable_jit():
                return function(*args, **kwargs)

        return eager

    def recorded(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> tuple[RecordedSteps, Any]:
        node, leaves = take_apart("", (tuple(args), kwargs))
        order = {id(x): k for k, x in enumerate(xs)}

        def call(inputs: list[Any]) -> Any:
            given, named = put_together(
                node, {path: inputs[order[id(x)]] if id(x) in order else x for path, x in leaves.items()}
            )
            return function(*given, **named)

        def outputs(y: Any) -> list[Tensor]:
            return [t for t in take_apart("", y)[1].values() if self.holds(t) and self.is_float(t)]

        with _match_precision(xs):
            try:
                return record_program(call, xs, outputs)
            except GradcliError as error:
                raise NotSupported(error.what, where=error.where, do=error.do) from error
            except (RuntimeError, TypeError, ValueError, jax.errors.UnexpectedTracerError) as error:
                # the function runs in JAX, and only its recording failed
                raise NotSupported(f"JAX cannot trace it: {message_of(error)[:160]}") from error

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[CustomCall]:
        with _match_precision(xs):
            return custom_calls(f, xs)


def _prepare_module(found: Any, leaves: Sequence[Any], tree: Any) -> tuple[Callable[..., Any], str, dict[str, Array]]:
    """Return a callable pytree (a module) as a function of its inputs and float arrays, its name, and these arrays."""
    named = {id(x): name for name, x in getattr(found, "__dict__", {}).items()}
    paths = [named.get(id(x)) or jax.tree_util.keystr(path, simple=True, separator=".") for path, x in leaves]
    own = {path: x for path, (_, x) in zip(paths, leaves, strict=True)}
    moving = {
        path: to_numpy(x) for path, x in own.items() if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
    }

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        given = {**own, **(parameters or {})}
        return jax.tree_util.tree_unflatten(tree, [given[path] for path in paths])(*args, **kwargs)

    name = type(found).__name__
    return with_parameters(call, found, name), name, moving


def _run_compiled(function: Callable[..., Any], xs: Sequence[Tensor]) -> Any:
    """Return a function's result, compiled as a whole, which is faster than compiling each operation separately.

    A function that cannot be compiled, because it branches on values, runs uncompiled and raises its own errors.
    """
    try:
        return jax.jit(function)(*xs)
    except (GradcliError, TypeError, ValueError, RuntimeError):
        return function(*xs)


def _is_complex_step(x: Any) -> bool:
    """Whether a value is a complex step: a real value with a tiny imaginary part."""
    if not isinstance(x, jax.Array) or x.dtype.kind != "c":
        return False
    z = np.asarray(x)
    return bool(0 < np.max(np.abs(z.imag), initial=0.0) < _STEP * np.max(np.abs(z.real), initial=1.0))


def _call_analytically(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function; raise TypeError where it is not the analytic continuation of the real function."""
    recorder = Analytic()
    node, leaves = take_apart("", (tuple(args), kwargs))
    with set_current_trace(recorder):
        given, named = put_together(
            node, {path: recorder.input(x) if _is_complex_step(x) else x for path, x in leaves.items()}
        )
        shaped, results = take_apart("", function(*given, **named))
    return put_together(shaped, {path: recorder.value(y) for path, y in results.items()})


def _weighted_sum(f: Flat, w: Array) -> Callable[..., Tensor]:
    """Return <w, f> as a function of all inputs."""

    def weighted(*ts: Tensor) -> Tensor:
        y = f(ts)
        return jnp.vdot(_tensor_like(w, y), y)

    return weighted


def _tensor_like(v: Array, x: Tensor) -> Tensor:
    return jnp.asarray(np.reshape(np.asarray(v), x.shape), dtype=x.dtype)


def _classify_error(error: Exception, words: Sequence[str]) -> Exception:
    """Return NotSupported if the message says that JAX cannot do this, else the error itself."""
    said = message_of(error)
    if "forward-mode autodiff (jvp) to a custom_vjp" in said:
        return NotSupported(_NO_FORWARD)
    if isinstance(error, NotImplementedError) or any(word in said for word in words):
        return NotSupported(said[:200])
    return error


def _enable_float64(on: bool) -> Any:
    """Return a context that switches JAX's float64 on or off; one that does nothing where it is so already, which is faster."""
    return contextlib.nullcontext() if jax.config.jax_enable_x64 == on else jax.enable_x64(on)


def _match_precision(x: Any) -> Any:
    """Return a context that switches float64 on, unless all given floats are narrower."""
    floats = [
        t for t in take_apart("", x)[1].values() if isinstance(t, jax.Array) and jnp.issubdtype(t.dtype, jnp.floating)
    ]
    return _enable_float64(not floats or any(t.dtype.itemsize == 8 for t in floats))


FRAMEWORK = Jax()
