"""Functions with custom gradients (`mx.custom_function`): their parts, their calls in a run, and checks of their rules.

MLX does not validate what a vjp rule returns: with too few gradients it reads foreign memory, and None ends the process.
Here the gradients that a rule returns are validated before MLX gets them.
"""

import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from gradcli.frameworks.framework import Call, Flat
from gradcli.tracing.provenance import is_users, place_of, position

_MOST = 64  # calls that are collected at most
_OF_A_VJP = 3  # primals, cotangents, outputs
Own = Callable[..., Any]


def parts(custom: Any) -> tuple[Own, Own | None]:
    """Return the function and the vjp rule of a custom function; the rule is None if it has none."""
    inside = [x for x in gc.get_referents(custom) if callable(x) and not inspect.isclass(x)]
    rules = [rule for rule in inside[1:] if _count(rule) == _OF_A_VJP]
    return inside[0], rules[0] if rules else None


def _count(rule: Own) -> int:
    try:
        return len(inspect.signature(rule).parameters)
    except (ValueError, TypeError):
        return 0


def applied(custom: Any) -> Own:
    """Return a plain function that calls a custom function, with the name and signature of the function inside it."""
    function = parts(custom)[0]

    def apply(*args: Any, **kwargs: Any) -> Any:
        return custom(*args, **kwargs)

    apply.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    apply.__name__ = getattr(function, "__name__", "function")
    apply.__wrapped__ = function  # type: ignore[attr-defined]
    return apply


def custom_calls(f: Flat, xs: Sequence[Any]) -> list[Call]:
    """Return one call of each custom function, for each set of argument shapes that a run contains."""
    found: dict[Any, Call] = {}

    def seen(own: Own, custom: Any, args: Any, kwargs: Any) -> Any:
        function, rule = parts(custom)
        key = (id(custom), tuple(_key(x) for _, x in tree_flatten([list(args), kwargs])))
        has_values = not any(_is_traced(x) for _, x in tree_flatten([list(args), kwargs]))
        if _is_users(function) and key not in found and len(found) < _MOST and has_values:
            name = getattr(function, "__name__", "function")
            found[key] = Call(name, applied(custom), tuple(args), dict(kwargs), position(), place_of(rule))
        return own(custom, *args, **kwargs)

    with _instead(seen):
        f(xs)
    return list(found.values())


@contextmanager
def without_rules() -> Iterator[None]:
    """Ignore custom gradients in the block: a custom function runs as the plain function inside it."""
    with _instead(lambda own, custom, args, kwargs: parts(custom)[0](*args, **kwargs)):
        yield


@contextmanager
def guarded() -> Iterator[None]:
    """Validate what vjp rules return in the block, before MLX gets it."""
    before: dict[int, tuple[Any, Own]] = {}

    def seen(own: Own, custom: Any, args: Any, kwargs: Any) -> Any:
        rule = parts(custom)[1]
        if rule is not None and id(custom) not in before:
            before[id(custom)] = custom, rule
            custom.vjp(_looked_at(rule))
        return own(custom, *args, **kwargs)

    try:
        with _instead(seen):
            yield
    finally:
        for custom, rule in before.values():
            custom.vjp(rule)


@contextmanager
def _instead(call: Callable[[Own, Any, Any, Any], Any]) -> Iterator[None]:
    own = mx.custom_function.__call__
    mx.custom_function.__call__ = lambda self, *args, **kwargs: call(own, self, args, kwargs)
    try:
        yield
    finally:
        mx.custom_function.__call__ = own


def _looked_at(rule: Own) -> Own:
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
        return [_of(bar, x, k) for k, (bar, x) in enumerate(zip(found, arrays, strict=True))]

    return vjp


def _of(bar: Any, x: Any, k: int) -> Any:
    if bar is None:
        return mx.zeros_like(x)
    if not isinstance(bar, mx.array):
        raise TypeError(
            f"the vjp rule returned an invalid gradient: a {type(bar).__name__} for argument {k}, not an array"
        )
    if bar.shape != x.shape:
        raise ValueError(f"the vjp rule returned an invalid gradient: shape {bar.shape} for argument {k} of {x.shape}")
    return bar


def _is_users(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and is_users(code.co_filename)


def _is_traced(x: Any) -> bool:
    """Whether an array has no value, as while a function is compiled."""
    try:
        mx.eval(x)
    except (RuntimeError, ValueError):
        return True
    return False


def _key(x: Any) -> Any:
    return (x.shape, str(x.dtype)) if isinstance(x, mx.array) else repr(x)[:80]
