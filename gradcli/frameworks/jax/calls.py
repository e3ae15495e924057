"""The calls of functions with custom gradients (custom_vjp, custom_jvp) during one run, with their actual arguments."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend.core import set_current_trace

from gradcli.core.provenance import is_users, place_of, position
from gradcli.errors import FunctionFailed
from gradcli.frameworks.framework import Call, Flat
from gradcli.frameworks.jax.record import Recorded, Recorder

_MOST = 64  # calls that are collected at most
_CUSTOM = {"custom_vjp_call", "custom_jvp_call"}


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[Call]:
    """Return one call of each custom function, for each set of argument shapes that a run contains.

    Jitted functions and loops run as plain Python here, so that calls inside them get actual values. Calls that are traced
    all the same, as under jax.checkpoint, are found in the jaxpr.
    """
    seen = _Seen()
    with _watched(jax.custom_vjp, seen.function), _watched(jax.custom_jvp, seen.function), jax.disable_jit():
        try:
            with set_current_trace(seen):
                f([seen.input(x) for x in xs])
        except FunctionFailed:  # the function does not accept recorded values
            f(xs)
    return list(seen.found.values())


class _Seen(Recorder):
    """A trace that collects calls of custom functions with their actual values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Any, Call] = {}

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Collect a call that Python code makes."""
        given, named = jax.tree_util.tree_map(_concrete, (args, kwargs))
        leaves = jax.tree_util.tree_leaves((given, named))
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None or not is_users(code.co_filename) or any(isinstance(x, jax.core.Tracer) for x in leaves):
            return
        rule = getattr(function, "bwd", None) or getattr(function, "jvp", None)
        where = place_of(inspect.unwrap(rule)) if rule else None
        constants = _constants(*_moving(function, args, kwargs)[1:])
        alone, given, named = _moving(function, given, named)
        self._note(rule, leaves, Call(_name(function), alone, given, named, position(), where, constants))

    def process_primitive(self, primitive: Any, xs: Sequence[Any], params: dict[str, Any], /) -> Any:
        """Collect a call that an equation makes, too."""
        if primitive.name in _CUSTOM and any(isinstance(x, Recorded) for x in xs):
            self._equation(primitive, xs, params)
        return super().process_primitive(primitive, xs, params)

    def _equation(self, primitive: Any, traced: Sequence[Any], params: dict[str, Any]) -> None:
        xs = [self.value(x) for x in traced]
        own = params["call_jaxpr"].jaxpr.debug_info
        told = next((x.debug_info for key in ("fwd_jaxpr_thunk", "jvp_jaxpr_fun") if (x := params.get(key))), own)
        source = re.search(r" at (.+):\d+$", own.func_src_info or told.func_src_info or "")
        if source is None or not is_users(source[1]):
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
        where = place_of(inspect.unwrap(rule)) if rule else None
        constants = frozenset(k for k, x in enumerate(traced[held:]) if not isinstance(x, Recorded))
        self._note(rule, xs[held:], Call(call.__name__, call, tuple(xs[held:]), {}, self.here, where, constants))

    def _note(self, rule: Any, leaves: Sequence[Any], call: Call) -> None:
        key = (call.name, id(rule), tuple(_key(x) for x in leaves))
        if len(self.found) < _MOST:
            self.found.setdefault(key, call)

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[Recorded]:
        return [self._new(y) for y in ys]


@contextmanager
def _watched(kind: Any, seen: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> Iterator[None]:
    """Report each call of a function of type `kind` to `seen` in the block."""
    own = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen(self, args, kwargs)
        return own(self, *args, **kwargs)

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = own


def _concrete(x: Any) -> Any:
    """Return the value behind a tracer, or the first value of a batch; a tracer without a value as it is."""
    while isinstance(x, jax.core.Tracer):
        if isinstance(x, Recorded):
            x = x.value
        elif hasattr(x, "batch_dim"):
            x = x.val if x.batch_dim is None else jax.numpy.take(_concrete(x.val), 0, axis=x.batch_dim)
        elif hasattr(x, "primal"):
            x = x.primal
        else:
            break
    return x


def _constants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int | str]:
    """Return the positions and names of arguments without a traced value; none if the call is not traced."""
    given = dict(enumerate(args)) | kwargs

    def is_traced(x: Any) -> bool:
        return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(x))

    if not any(map(is_traced, given.values())):
        return frozenset()
    return frozenset(key for key, x in given.items() if not is_traced(x))


def _moving(
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
    call.__name__ = _name(function)
    return call, tuple(x for k, x in enumerate(args) if k not in held), {}


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "function"))


def _key(x: Any) -> Any:
    return (x.shape, x.dtype) if hasattr(x, "dtype") else repr(x)[:80]
