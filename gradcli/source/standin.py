"""What numpy does not dispatch: while a function is traced, these attributes of numpy, math and scipy.special do.

`np.zeros(n)` filled by `out[i] = t`, `np.array([t, u])`, `np.full(3, t)`, `math.sin(t)`, `np.vectorize(f)(t)` and
`scipy.special.logsumexp(t)` reach no protocol of numpy's. The stand-ins act for the user's code only: a call from an
installed package or from gradcli gets the original. Everything is put back, also when the user's code raises.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.tracer import Tracer
from gradcli.primitives import reductions
from gradcli.primitives.shaping import as_value

Hold = Callable[[Value], Value]
_OURS = str(Path(__file__).resolve().parents[1])
_ALLOCATE = ("zeros", "ones", "empty", "eye", "zeros_like", "ones_like", "empty_like", "linspace")
_MATH: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "fabs": np.abs, "hypot": np.hypot, "pow": np.power, "cbrt": np.cbrt, "degrees": np.degrees, "radians": np.radians,
    "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip
_SPECIAL = {"logsumexp": reductions.logsumexp, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax}


def traced(x: Any) -> bool:
    """Whether a value, or anything in nested lists of values, is traced."""
    return any(map(traced, x)) if isinstance(x, list | tuple) else isinstance(x, Tracer)


@functools.cache
def _users(file: str | None) -> bool:
    """Whether code in a file is the user's: neither gradcli's nor installed."""
    if file is None:
        return True
    resolved = str(Path(file).resolve())
    return not resolved.startswith((_OURS, sys.prefix, sys.base_prefix)) and "site-packages" not in resolved


def _for_user(original: Any, stand_in: Callable[..., Any]) -> Any:
    """Return a function that stands in when the user's code calls it, and is the original otherwise."""

    @functools.wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (stand_in if _users(sys._getframe(1).f_globals.get("__file__")) else original)(*args, **kwargs)

    return chosen


def _replacements(hold: Hold) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield module, attribute and what stands in for it."""

    def allocate(original: Any) -> Any:
        def made(*args: Any, **kwargs: Any) -> Any:
            array = original(*args, **kwargs)
            return hold(array) if type(array) is np.ndarray and array.dtype == np.float64 else array

        return made

    def array(original: Any) -> Any:
        def made(x: Any, dtype: Any = None, **kwargs: Any) -> Any:
            if traced(x):
                y = as_value(x)
                return y if dtype is None else y.astype(dtype)
            return allocate(original)(x, dtype, **kwargs)

        return made

    def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if traced(fill_value):
            return np.positive(np.broadcast_to(fill_value, shape))
        return allocate(original_full)(shape, fill_value, dtype, **kwargs)

    original_full = np.full
    yield np, "full", full
    yield np, "vectorize", functools.partial(_Vectorized, np.vectorize)
    for name in _ALLOCATE:
        yield np, name, allocate(getattr(np, name))
    for name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        yield np, name, array(getattr(np, name))
    for name, function in _MATH.items():
        yield math, name, _if_traced(getattr(math, name, None), function)
    yield math, "log", _if_traced(math.log, lambda x, *base: np.log(x) / np.log(base[0]) if base else np.log(x))
    yield math, "fsum", _if_traced(math.fsum, lambda xs: sum(xs))
    yield math, "prod", _if_traced(math.prod, lambda xs, *, start=1: functools.reduce(lambda a, b: a * b, xs, start))
    special = sys.modules.get("scipy.special")
    if special is not None:
        for name, function in _SPECIAL.items():
            yield special, name, _if_traced(getattr(special, name), function)


def _if_traced(original: Any, stand_in: Any) -> Any:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return stand_in(*args, **kwargs) if traced(args) else original(*args, **kwargs)

    return chosen


class _Vectorized:
    """np.vectorize, entry by entry on traced arrays; np.vectorize's own options go to the original."""

    def __init__(self, original: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.original = original(function, *args, **kwargs)

    def __call__(self, *args: Any) -> Any:
        if not traced(args):
            return self.original(*args)
        shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        spread = [np.broadcast_to(x, shape) if np.shape(x) != shape else x for x in args]
        entries = [self.function(*(x[at] for x in spread)) for at in np.ndindex(*shape)]
        return np.reshape(np.stack(entries), shape)


@contextmanager
def stand_ins(hold: Hold, modules: tuple[ModuleType, ...] = ()) -> Iterator[None]:
    """Let the stand-ins act inside: arrays made there are held by the sweep, so that traced values can be written in.

    `modules` are the user's: names they imported from numpy, math or scipy.special are swapped there too.
    """
    changed: list[tuple[ModuleType, str, Any]] = []
    try:
        for module, name, stand_in in list(_replacements(hold)):
            original = getattr(module, name, None)
            if original is None:
                continue
            chosen = _for_user(original, stand_in)
            changed.append((module, name, original))
            setattr(module, name, chosen)
            for mine in modules:
                for alias, found in list(vars(mine).items()):
                    if found is original:
                        changed.append((mine, alias, original))
                        setattr(mine, alias, chosen)
        yield
    finally:
        for module, name, original in reversed(changed):
            setattr(module, name, original)
