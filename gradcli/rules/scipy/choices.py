"""Parts of scipy.stats that choose formulas entry by entry: scipy fills a plain array, the stand-ins take np.where."""

import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.tracer import plain

Formula = Callable[..., Value]


def chosen(condition: Any, xs: Sequence[Value], formula: Formula, otherwise: Value | Formula) -> Value:
    """Return the formula where the condition holds, and what is otherwise elsewhere; each is evaluated there only."""
    xs = [as_value(x) for x in xs]
    shape = np.broadcast_shapes(np.shape(plain(condition)), *(np.shape(plain(x)) for x in xs))
    holds = np.broadcast_to(plain(condition), shape)

    def at(places: Any, f: Formula) -> Value:
        if np.all(places):
            return f(*xs)
        first = tuple(np.argwhere(places)[0])
        inner = [np.broadcast_to(plain(x), shape)[first] for x in xs]
        return f(*(np.where(places, x, own) for x, own in zip(xs, inner, strict=True)))

    second: Any = otherwise if not callable(otherwise) else at(~holds, otherwise) if not np.all(holds) else np.nan
    return np.where(holds, at(holds, formula), second)[()] if np.any(holds) else np.broadcast_to(second, shape)[()]


def apply_where(
    cond: Any, args: Any, f1: Formula, f2: Formula | None = None, /, *, fill_value: Any = None, **others: Any
) -> Value:
    xs = args if isinstance(args, tuple | list) else (args,)
    return chosen(cond, xs, f1, fill_value if f2 is None else f2)


def lazywhere(cond: Any, arrays: Any, f: Formula, fillvalue: Any = None, f2: Formula | None = None) -> Value:
    return chosen(cond, arrays, f, fillvalue if f2 is None else f2)


def lazyselect(
    condlist: Sequence[Any], choicelist: Sequence[Formula], arrays: Sequence[Value], default: Any = 0
) -> Value:
    y: Any = default
    for condition, formula in zip(condlist, choicelist, strict=True):
        y = chosen(condition, arrays, formula, y)
    return y


def _log_difference(p: Value, q: Value) -> Value:
    """Return log(exp(p) - exp(q)) for p > q."""
    return p + np.log(-np.expm1(q - p))


def log_gauss_mass(a: Value, b: Value) -> Value:
    """Return the logarithm of the normal distribution's mass between a and b, by the tail in which they are."""
    log_ndtr, ndtr = named("log_ndtr"), named("ndtr")

    def left(a: Value, b: Value) -> Value:
        return _log_difference(log_ndtr(b), log_ndtr(a))

    return lazyselect(
        [plain(b) <= 0, plain(a) > 0, (plain(a) <= 0) & (plain(b) > 0)],
        [left, lambda a, b: left(-b, -a), lambda a, b: np.log1p(-ndtr(a) - ndtr(-b))],
        (a, b),
        np.nan,
    )


def internals() -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """Yield functions inside of scipy.stats, as far as the installed version has them, and their stand-ins."""
    from scipy.stats import _continuous_distns as distributions

    table = {
        "_lazywhere": lazywhere,
        "_lazyselect": lazyselect,
        "_log_gauss_mass": log_gauss_mass,
        "_log_diff": _log_difference,
    }
    for name, stand_in in table.items():
        if hasattr(distributions, name):
            yield distributions, name, stand_in  # type: ignore[misc]  # scipy has no types
    extra = sys.modules.get("scipy._lib.array_api_extra")
    if extra is not None and hasattr(extra, "apply_where"):
        yield extra, "apply_where", apply_where
