"""What stands in for functions of numpy and math that do not dispatch to tracers: allocation, lists, joining, np.vectorize."""

import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.rules import scipy as of_scipy
from gradcli.rules.pairs import ComplexPair
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.tracer import (
    Dotted,
    FloatResult,
    LinearForm,
    Tracer,
    plain_value,
    positions_in_memory,
    resolve_forms,
)

Hold = Callable[[Value], Value]


class Sweeps(threading.local):
    """The active sweeps of this thread, innermost last; None stands for an untraced call inside a sweep."""

    def __init__(self) -> None:
        self.holds: list[Hold | None] = []

    @property
    def hold(self) -> Hold | None:
        return self.holds[-1] if self.holds else None


SWEEPS = Sweeps()
_ALLOCATE = (
    "zeros", "ones", "empty", "eye", "identity", "zeros_like", "ones_like", "empty_like", "linspace", "arange", "copy",
)  # fmt: skip
_ARRAYS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asarray_chkfinite")
_MATH: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "fabs": np.abs, "hypot": lambda *xs: functools.reduce(np.hypot, xs), "pow": np.power, "cbrt": np.cbrt,
    "degrees": np.degrees, "radians": np.radians, "copysign": np.copysign, "fmod": np.fmod,
    "modf": np.modf, "remainder": lambda x, y: x - y * np.rint(x / y),
    "isclose": lambda a, b, **near: math.isclose(float(plain_value(a)), float(plain_value(b)), **near),
    "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
    "log": lambda x, *base: np.log(x) / np.log(base[0]) if base else np.log(x),
    "dist": lambda p, q: np.sqrt(sum((a - b) ** 2 for a, b in zip(p, q, strict=True))),
    "sumprod": lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)),
    "erf": lambda x: primitive_by_name("erf")(x), "erfc": lambda x: primitive_by_name("erfc")(x),
    "gamma": lambda x: primitive_by_name("gamma")(x), "lgamma": lambda x: primitive_by_name("gammaln")(x),
}  # fmt: skip
_OF_ITERABLES: dict[str, Any] = {  # of math, which may take a generator
    "fsum": lambda xs: sum(xs), "prod": lambda xs, *, start=1: functools.reduce(lambda a, b: a * b, xs, start),
}  # fmt: skip
SOLVED: dict[str, Callable[..., Any]] = {}  # functions of numpy that solve an equation; targets/solvers adds them
_HELD = (np.float64, np.complex128)
_LISTS = (  # accept lists; numpy looks for tracers among the arguments, but not inside lists
    "sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "median", "average", "dot", "inner", "outer", "vdot",
    "cumsum", "cumprod", "argmax", "argmin", "sort", "diff", "trapezoid", "any", "all", "diag", "diagflat", "diagonal", "trace",
    "tril", "triu", "kron", "cross", "tensordot", "einsum", "where", "clip", "reshape", "ravel", "transpose", "flip", "roll",
    "repeat", "tile", "interp", "convolve", "correlate", "polyval", "gradient", "ediff1d", "ptp", "quantile", "percentile",
    "cov", "corrcoef", "nansum", "nanmean",
)  # fmt: skip
_LINALG_LISTS = (
    "norm", "det", "slogdet", "inv", "solve", "cholesky", "eigh", "eigvalsh", "svd", "svdvals", "pinv", "qr", "lstsq",
    "matrix_power", "cond",
)  # fmt: skip


def has_traced_value(x: Any) -> bool:
    """Whether a value, or anything in nested lists of values, is traced."""
    if isinstance(x, LinearForm | Dotted):
        return True
    if isinstance(x, np.ndarray) and not isinstance(x, Tracer):
        return False
    return any(map(has_traced_value, x)) if isinstance(x, list | tuple) else isinstance(x, Tracer)


def _hold_array(array: Any) -> Any:
    """Return a new float or complex array in a form into which traced values can be written."""
    hold = SWEEPS.hold
    if type(array) is not np.ndarray or array.dtype not in _HELD or hold is None:
        return array
    if not array.shape or not array.flags.c_contiguous:
        return array  # other memory layouts are not supported: writing a traced value into one ends the trace
    if array.dtype == np.float64:
        return hold(array)
    return ComplexPair(hold(array.real.copy()), hold(array.imag.copy()))


def _hold_result_of(original: Any) -> Any:
    return lambda *args, **kwargs: _hold_array(original(*args, **kwargs))


def _array_maker(name: str, original: Any) -> Any:
    def made(x: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if not has_traced_value(x):
            y = original(x, dtype, **kwargs)
            return y if y is x else _hold_array(y)
        wanted = np.dtype(float if dtype is None else dtype)
        if wanted.kind == "c":
            return as_value(x) + np.complex128(0)
        if wanted != np.float64:
            says = f"np.{name}(..., dtype=...) turns a traced value into a plain array"
            if wanted.kind == "f" and wanted.itemsize < 8:
                says = f"f computes in {wanted}, by np.{name}(..., dtype={wanted}): the rules are for float64"
            raise TraceEnded(says, do="drop dtype= to keep the trace")
        y = as_value(x)
        if name == "ascontiguousarray":  # numpy copies what is not contiguous in memory
            copied = not positions_in_memory(y)[1].flags.c_contiguous
        else:
            copied = name == "array" and kwargs.get("copy", True) is True
        return np.positive(y) if copied and isinstance(x, Tracer) else y

    return made


def _full(original: Any) -> Any:
    def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if has_traced_value(fill_value):
            return np.positive(np.broadcast_to(fill_value, shape))
        return _hold_array(original(shape, fill_value, dtype, **kwargs))

    return full


def dispatch_if_traced(original: Any, stand_in: Any) -> Any:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (stand_in if has_traced_value([*args, *kwargs.values()]) else original)(*args, **kwargs)

    return chosen


def iterate_replacements(names: Iterable[str]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield (module, attribute, stand-in), for numpy, math and the given modules of scipy."""
    yield np, "full", _full(np.full)
    yield np, "vectorize", functools.partial(Vectorized, np.vectorize)
    for name in _ALLOCATE:
        yield np, name, _hold_result_of(getattr(np, name))
    for name, function in SOLVED.items():
        yield np, name, dispatch_if_traced(getattr(np, name), function)
    yield np, "ndenumerate", dispatch_if_traced(np.ndenumerate, lambda x: ((at, x[at]) for at in np.ndindex(*x.shape)))
    for name in _ARRAYS:
        yield np, name, _array_maker(name, getattr(np, name))
    for name in _LISTS:
        yield np, name, _accept_lists(getattr(np, name))
    for name in _LINALG_LISTS:
        yield np.linalg, name, _accept_lists(getattr(np.linalg, name))
    yield np, "r_", JoinByIndex(np.r_, np.concatenate)
    yield np, "c_", JoinByIndex(np.c_, np.column_stack)
    for name, function in _MATH.items():
        if hasattr(math, name):
            yield math, name, dispatch_if_traced(getattr(math, name), function)
    for name, function in _OF_ITERABLES.items():
        yield math, name, _accept_iterable(dispatch_if_traced(getattr(math, name), function))
    for module, name, function in of_scipy.functions(names):
        yield module, name, dispatch_if_traced(getattr(module, name), function)


def _accept_iterable(function: Any) -> Any:
    return lambda xs, *args, **kwargs: function(xs if isinstance(xs, Tracer) else list(xs), *args, **kwargs)


def _accept_lists(original: Any) -> Any:
    def array_of(x: Any) -> Any:
        return as_value(x) if isinstance(x, list | tuple) and has_traced_value(x) else x

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return original(*map(array_of, args), **{name: array_of(x) for name, x in kwargs.items()})

    return chosen


class JoinByIndex:
    """np.r_ and np.c_ for traced parts, which `join` joins; everything else goes to the original."""

    def __init__(self, original: Any, join: Callable[[Sequence[Any]], Any]) -> None:
        self.original = original
        self.join = join

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not has_traced_value(list(parts)):
            return self.original[key]
        return self.join([np.atleast_1d(as_value(self.original[p] if isinstance(p, slice) else p)) for p in parts])


class Vectorized:
    """np.vectorize, entry by entry on traced arrays; np.vectorize's own options go to the original."""

    def __init__(self, original: Any, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.original = original(function, *args, **kwargs) if function is not None else original(*args, **kwargs)
        self.signature = kwargs.get("signature")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:  # used as a decorator with options
            return Vectorized(lambda f: self.original(f), args[0])
        if not has_traced_value([*args, *kwargs.values()]):
            return self.original(*args, **kwargs)
        if self.signature or kwargs:
            raise TraceEnded("np.vectorize with a signature or keywords cannot be traced", do="write the loop out")
        return call_by_entry(self.function, args)


def call_by_entry(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the values of a function of single entries, at each entry of the arguments."""
    shape = np.broadcast_shapes(*map(np.shape, args))
    spread = [x if isinstance(x, Tracer) and x.shape == shape else np.broadcast_to(x, shape) for x in args]
    return np.reshape(np.stack([function(*(x[at] for x in spread)) for at in np.ndindex(*shape)]), shape)


class Float:
    """The builtin `float` in user's code: a traced number can be returned through it, and not be used further.

    It behaves like the class where it is used as one: as a dtype, in isinstance and in comparisons.
    """

    dtype = np.dtype(np.float64)

    def __call__(self, x: Any = 0.0, /) -> Any:
        x = resolve_forms(x)
        return FloatResult(x) if isinstance(x, Tracer) and not x.shape else float(x)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, float)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, float)

    def __getattr__(self, name: str) -> Any:
        return getattr(float, name)

    def __eq__(self, other: object) -> bool:
        return other is float or other is self

    def __hash__(self) -> int:
        return hash(float)

    def __or__(self, other: Any) -> Any:
        return float | other

    def __ror__(self, other: Any) -> Any:
        return other | float

    def __repr__(self) -> str:
        return repr(float)


FLOAT = Float()
