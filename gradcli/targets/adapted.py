"""Functions of numpy and scipy in the form in which an expression calls them: conditions, counts and positions are floats."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import BadExpression, BadShape
from gradcli.rules.special import COMPOSITES, ORDERS
from gradcli.tracing.primitive import HANDLERS, Value, handler
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, plain

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def as_number(truth: Any) -> Callable[..., Value]:
    """Return a numpy predicate as a function whose values are the numbers 0 and 1."""
    if truth.nin == 1:
        return lambda x: truth(x) * np.float64(1)
    return lambda a, b: truth(a, b) * np.float64(1)


def counting(function: Callable[..., Any]) -> Callable[..., Value]:
    """Return a numpy function of truths or counts as one whose values are floats."""

    def count(*args: Any, **kwargs: Any) -> Value:
        return function(*args, **kwargs) * np.float64(1)

    count.__wrapped__ = HANDLERS[function]  # type: ignore[attr-defined]  # its signature
    count.__doc__ = f"Return np.{function.__name__} as numbers."
    return count


def entry_at(x: Value, k: Value, axis: int) -> Value:
    """Return the entries of x at one position along an axis, a whole number that is not differentiated by.

    For a traced position this is the sum of x times the indicator of the position.
    Raises  BadShape where there is no such axis; BadExpression for anything but a whole number from 0 to its length - 1.
    """
    if axis >= len(shape(x)):
        says = f"an index of axis {axis} needs an array of more axes than {len(shape(x))}"
        raise BadShape(says, do="give the array its axes, or leave the index out")
    n, place = shape(x)[axis], plain(k)
    if shape(k) or place != np.floor(place) or not 0 <= place < n:
        says = f"an index is a whole number from 0 to {n - 1}, not {'an array' if shape(k) else f'{float(place):g}'}"
        raise BadExpression(says, do="give the index a whole number")
    if not isinstance(k, Tracer):
        return x[(*(slice(None),) * axis, int(place))]
    here = (k == np.arange(n, dtype=float)) * 1.0
    return np.sum(x * np.reshape(here, (n, *(1,) * (len(shape(x)) - axis - 1))), axis=axis)


def matrix_power(a: Value, n: Value) -> Value:
    """Return a product of n equal matrices. Raises BadExpression for anything but a whole number."""
    exponent = plain(n)
    if np.ndim(exponent) or exponent != np.floor(exponent):
        shown = "an array" if np.ndim(exponent) else f"{float(exponent):g}"
        raise BadExpression(f"a matrix has whole powers, not {shown}", do="write the power out: matrix_power(X, 3)")
    return np.linalg.matrix_power(a, int(exponent))


class OfScipy:
    """A function of scipy.special that is made of others: scipy's own on plain numbers, its composite on traced ones."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    @property
    def __signature__(self) -> inspect.Signature:
        count = len(inspect.signature(COMPOSITES[self.__name__]).parameters)
        return inspect.Signature([
            inspect.Parameter(f"x{k + 1}", inspect.Parameter.POSITIONAL_ONLY) for k in range(count)
        ])  # fmt: skip

    def __call__(self, *xs: Value) -> Value:
        import scipy.special

        function = getattr(scipy.special, self.__name__)
        if any(isinstance(x, Tracer) for x in xs):
            return handler(function)(*xs)
        complex_ = any(map(np.iscomplexobj, xs)) and not ORDERS.get(self.__name__) and self.__name__ != "gammasgn"
        return COMPOSITES[self.__name__](*xs) if complex_ else function(*xs)


def pad(array: Value, pad_width: Any, mode: str = "constant", constant_values: Value = 0.0) -> Value:
    """Return the array padded with constants, or with its own entries.

    Raises  ValueError for other modes, which have no rule.
    """
    if mode not in PAD_MODES:
        raise ValueError(f"mode is one of {', '.join(map(repr, PAD_MODES))}, not {mode!r}")
    others = {"constant_values": constant_values} if mode == "constant" else {}
    return np.pad(array, pad_width, mode, **others)  # type: ignore[call-overload]


def select(condlist: Sequence[Value], choicelist: Sequence[Value], default: Value = 0.0) -> Value:
    """Return, entry by entry, the first choice whose condition is not 0."""
    return HANDLERS[np.select](condlist, choicelist, default)


def take_along_axis(arr: Value, indices: Any, axis: int | None = -1) -> Value:
    """Return the entries at the given positions along an axis."""
    return np.take_along_axis(arr, np.asarray(plain(indices), dtype=int), axis)


def conditional(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return numpy's compress or extract with a condition of numbers, which holds where they are not 0."""

    @functools.wraps(function)
    def choose(condition: Any, *args: Any, **kwargs: Any) -> Any:
        return function(np.not_equal(plain(condition), 0), *args, **kwargs)

    return choose
