"""Stand-ins for functions of numpy, math and scipy that do not dispatch to tracers, used while tracing.

`np.zeros(n)` filled by `out[i] = t`, `np.array([t, u])`, `np.full(3, t)`, `math.sin(t)`, `np.vectorize(f)(t)` and
`scipy.stats.norm.logpdf(t)` use none of numpy's dispatch protocols. A call with traced arguments gets the stand-in, whoever
makes it. A call without them gets it if the user's code makes it, because traced values may be written into a new array;
installed packages and gradcli get the original. The originals are restored, even if the user's code raises.
"""

import functools
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.provenance import called_name, is_ours, is_users
from gradcli.core.storage import positions
from gradcli.core.tracer import Tracer, plain
from gradcli.errors import TraceEnded
from gradcli.primitives import scipy as of_scipy
from gradcli.primitives.pairs import Pair
from gradcli.primitives.shaping import as_value

Hold = Callable[[Value], Value]


class _Sweeps(threading.local):
    """The active sweeps of this thread, innermost last; None stands for an untraced call inside a sweep."""

    def __init__(self) -> None:
        self.holds: list[Hold | None] = []

    @property
    def hold(self) -> Hold | None:
        return self.holds[-1] if self.holds else None


_SWEEPS = _Sweeps()
_LOCK = threading.Lock()
_INSTALLED: list[
    tuple[dict[str, Any], dict[str, Any]]
] = []  # namespaces of modules and their original entries, while any thread traces
_USERS_OF_IT = [0]
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
    "isclose": lambda a, b, **near: math.isclose(float(plain(a)), float(plain(b)), **near),
    "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
    "log": lambda x, *base: np.log(x) / np.log(base[0]) if base else np.log(x),
    "fsum": lambda xs: sum(xs), "dist": lambda p, q: np.sqrt(sum((a - b) ** 2 for a, b in zip(p, q, strict=True))),
    "prod": lambda xs, *, start=1: functools.reduce(lambda a, b: a * b, xs, start),
    "sumprod": lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)),
    "erf": lambda x: named("erf")(x), "erfc": lambda x: named("erfc")(x),
    "gamma": lambda x: named("gamma")(x), "lgamma": lambda x: named("gammaln")(x),
}  # fmt: skip
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


def traced(x: Any) -> bool:
    """Whether a value, or anything in nested lists of values, is traced."""
    if isinstance(x, np.ndarray) and not isinstance(x, Tracer):
        return False
    return any(map(traced, x)) if isinstance(x, list | tuple) else isinstance(x, Tracer)


def _for_user(original: Any, stand_in: Callable[..., Any]) -> Any:
    """Return a function that chooses between the original and the stand-in, by who calls it and with what.

    Compiled code has no Python frame: what it allocates while the user's code calls it must be real arrays.
    """

    @functools.wraps(original, updated=())
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if _SWEEPS.hold is None:
            return original(*args, **kwargs)
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if is_users(file) and _calls(frame, chosen):
            return stand_in(*args, **kwargs)
        if is_ours(file) or not (traced(args) or traced(list(kwargs.values()))):
            return original(*args, **kwargs)
        return stand_in(*args, **kwargs)

    return chosen


def _for_method(original: Any, stand_in: Callable[..., Any]) -> Any:
    """Return a method that calls the stand-in where an argument, or what the instance holds, is traced."""

    @functools.wraps(original, updated=())
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _SWEEPS.hold is None or not (traced(args) or traced(list(kwargs.values())) or of_scipy.holds_traced(self)):
            return original(self, *args, **kwargs)
        return stand_in(self, *args, **kwargs)

    return chosen


def _calls(frame: FrameType, function: Callable[..., Any]) -> bool:
    """Whether the call that a frame executes names `function`, or a variable that holds it."""
    kind, name = called_name(frame.f_code, frame.f_lasti)
    if kind == "attribute":
        return name == str(function.__name__)
    found = frame.f_locals.get(name, frame.f_globals.get(name)) if kind == "name" else None
    return bool(found is function)


def _held(array: Any) -> Any:
    """Return a new float or complex array in a form into which traced values can be written."""
    hold = _SWEEPS.hold
    if type(array) is not np.ndarray or array.dtype not in _HELD or hold is None:
        return array
    if not array.shape or not array.flags.c_contiguous:
        return array  # other memory layouts are not supported: writing a traced value into one ends the trace
    if array.dtype == np.float64:
        return hold(array)
    return Pair(hold(array.real.copy()), hold(array.imag.copy()))


def _allocating(original: Any) -> Any:
    return lambda *args, **kwargs: _held(original(*args, **kwargs))


def _array_maker(name: str, original: Any) -> Any:
    def made(x: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if not traced(x):
            y = original(x, dtype, **kwargs)
            return y if y is x else _held(y)
        if dtype is not None and np.dtype(dtype).kind == "c":
            return as_value(x) + np.complex128(0)
        if dtype is not None and np.dtype(dtype) != np.float64:
            raise TraceEnded(
                f"np.{name}(..., dtype=...) turns a traced value into a plain array", do="drop dtype= to keep the trace"
            )
        y = as_value(x)
        copied = kwargs.get("copy", True) is True if name == "array" else name == "ascontiguousarray" and _strided(y)
        return np.positive(y) if copied and isinstance(x, Tracer) else y

    return made


def _strided(x: Any) -> bool:
    """Whether a traced array is not contiguous in memory, so that numpy would copy it."""
    return not positions(x)[1].flags.c_contiguous


def _full(original: Any) -> Any:
    def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if traced(fill_value):
            return np.positive(np.broadcast_to(fill_value, shape))
        return _held(original(shape, fill_value, dtype, **kwargs))

    return full


def _if_traced(original: Any, stand_in: Any) -> Any:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        is_traced = traced(args) or traced(list(kwargs.values()))
        return stand_in(*args, **kwargs) if is_traced else original(*args, **kwargs)

    return chosen


def _replacements() -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield (module, attribute, stand-in)."""
    yield np, "full", _full(np.full)
    yield np, "vectorize", functools.partial(_Vectorized, np.vectorize)
    for name in _ALLOCATE:
        yield np, name, _allocating(getattr(np, name))
    yield np, "ndenumerate", _if_traced(np.ndenumerate, lambda x: ((at, x[at]) for at in np.ndindex(*x.shape)))
    for name in _ARRAYS:
        yield np, name, _array_maker(name, getattr(np, name))
    for name in _LISTS:
        yield np, name, _of_lists(getattr(np, name))
    for name in _LINALG_LISTS:
        yield np.linalg, name, _of_lists(getattr(np.linalg, name))
    yield np, "r_", _Joined(np.r_, np.concatenate)
    yield np, "c_", _Joined(np.c_, np.column_stack)
    for name, function in _MATH.items():
        if hasattr(math, name):
            yield math, name, _if_traced(getattr(math, name), function)
    for module, name, function in of_scipy.functions(_SEEN):
        yield module, name, _if_traced(getattr(module, name), function)


def _of_lists(original: Any) -> Any:
    def array_of(x: Any) -> Any:
        return as_value(x) if isinstance(x, list | tuple) and traced(x) else x

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return original(*map(array_of, args), **{name: array_of(x) for name, x in kwargs.items()})

    return chosen


class _Joined:
    """np.r_ and np.c_ for traced parts, which `join` joins; everything else goes to the original."""

    def __init__(self, original: Any, join: Callable[[Sequence[Any]], Any]) -> None:
        self.original = original
        self.join = join

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not traced(list(parts)):
            return self.original[key]
        return self.join([np.atleast_1d(as_value(self.original[p] if isinstance(p, slice) else p)) for p in parts])


class _Vectorized:
    """np.vectorize, entry by entry on traced arrays; np.vectorize's own options go to the original."""

    def __init__(self, original: Any, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.original = original(function, *args, **kwargs) if function is not None else original(*args, **kwargs)
        self.signature = kwargs.get("signature")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:  # used as a decorator with options
            return _Vectorized(lambda f: self.original(f), args[0])
        if not traced(args) and not traced(list(kwargs.values())):
            return self.original(*args, **kwargs)
        if self.signature or kwargs:
            raise TraceEnded("np.vectorize with a signature or keywords cannot be traced", do="write the loop out")
        shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        spread = [np.broadcast_to(x, shape) if np.shape(x) != shape else x for x in args]
        entries = [self.function(*(x[at] for x in spread)) for at in np.ndindex(*shape)]
        return np.reshape(np.stack(entries), shape)


_SEEN: list[str] = []  # the modules of scipy whose stand-ins are in the table
_TABLE: dict[int, tuple[ModuleType, str, Any, Any]] = {}  # by the original's id: module, name, original, stand-in
_METHODS: list[tuple[type, str, Any, Any]] = []  # of classes of scipy: class, name, original, stand-in


def _update_table() -> None:
    """Make the table of stand-ins once, and add those of a module of scipy after it is imported."""
    imported = of_scipy.imported()
    if _TABLE and imported == _SEEN:
        return
    _SEEN[:] = imported
    for module, name, stand_in in list(_replacements()):
        original = getattr(module, name)
        chosen = stand_in if isinstance(stand_in, _Joined) else _for_user(original, stand_in)
        _TABLE.setdefault(id(original), (module, name, original, chosen))
    _METHODS[:] = [
        (owner, name, vars(owner)[name], _for_method(vars(owner)[name], stand_in))
        for owner, name, stand_in in of_scipy.methods(_SEEN)
    ]


class stand_ins:
    """Context in which the stand-ins act: the sweep holds new arrays, so that traced values can be written into them.

    `modules` are the user's modules: names that they imported from numpy, math or scipy are replaced there too.
    The stand-ins act in this thread only; in other threads they call the originals.
    """

    __slots__ = ("hold", "modules")

    def __init__(self, hold: Hold, modules: Iterable[ModuleType] = ()) -> None:
        self.hold, self.modules = hold, modules

    def __enter__(self) -> None:
        with _LOCK:
            _USERS_OF_IT[0] += 1
            if _USERS_OF_IT[0] == 1:
                _INSTALLED[:] = _installed(tuple(self.modules))
        _SWEEPS.holds.append(self.hold)

    def __exit__(self, *raised: object) -> None:
        _SWEEPS.holds.pop()
        with _LOCK:
            _USERS_OF_IT[0] -= 1
            if _USERS_OF_IT[0] == 0:
                for names, originals in _INSTALLED:
                    names.update(originals)
                for owner, name, original, _ in _METHODS:
                    setattr(owner, name, original)


@contextmanager
def untraced() -> Iterator[None]:
    """Context in which the originals act, for a call on plain values while another function is traced."""
    _SWEEPS.holds.append(None)
    try:
        yield
    finally:
        _SWEEPS.holds.pop()


def tracing() -> bool:
    """Whether the stand-ins act in this thread."""
    return _SWEEPS.hold is not None


def _installed(modules: tuple[ModuleType, ...]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Install the stand-ins and return, for each namespace, the originals to restore."""
    _update_table()
    for owner, name, _, stand_in in _METHODS:
        setattr(owner, name, stand_in)
    changed = []
    for names, originals, chosen in (
        *_own_places(len(_TABLE)),
        *_users_places(modules, tuple(map(_length, modules)), len(_TABLE)),
    ):
        if not all(map(operator.is_, map(names.get, originals), originals.values())):
            kept = {name for name, original in originals.items() if names.get(name) is original}
            originals, chosen = ({name: part[name] for name in kept} for part in (originals, chosen))
        changed.append((names, originals))
        names.update(chosen)
    return changed


_Place = tuple[
    dict[str, Any], dict[str, Any], dict[str, Any]
]  # a module's namespace, the originals in it by name, their stand-ins by name


@functools.lru_cache(maxsize=1)
def _own_places(count: int) -> list[_Place]:
    """Return the entries to replace in numpy, math and scipy; the number of stand-ins keys the cache."""
    found: dict[int, _Place] = {}
    for module, name, original, chosen in _TABLE.values():
        _, originals, stand = found.setdefault(id(module), (vars(module), {}, {}))
        originals[name], stand[name] = original, chosen
    return list(found.values())


@functools.lru_cache(maxsize=4)
def _users_places(modules: tuple[ModuleType, ...], lengths: tuple[int, ...], count: int) -> list[_Place]:
    """Return the entries to replace in the user's modules, under any alias; the numbers of names key the cache."""
    found = []
    for module in modules:
        known = [(alias, _TABLE.get(id(x)), x) for alias, x in list(vars(module).items())]
        there = [(alias, row) for alias, row, x in known if row is not None and row[2] is x]
        if there:
            found.append((vars(module), {a: row[2] for a, row in there}, {a: row[3] for a, row in there}))
    return found


def _length(module: ModuleType) -> int:
    return len(vars(module))
