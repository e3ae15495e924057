"""Stand-ins for functions of numpy, math and scipy that do not dispatch to tracers, used while tracing.

`np.zeros(n)` filled by `out[i] = t`, `np.array([t, u])`, `np.full(3, t)`, `math.sin(t)`, `np.vectorize(f)(t)` and
`scipy.stats.norm.logpdf(t)` use none of numpy's dispatch protocols. A call with traced arguments gets the stand-in, whoever
makes it. A call without them gets it if the user's code makes it, because traced values may be written into a new array;
installed packages and gradcli get the original. The originals are restored, even if the user's code raises.

A function that numba compiles runs its Python code on traced arguments, and is compiled while the originals are in place:
numba knows numpy's functions by identity.
"""

import functools
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.rules import scipy as of_scipy
from gradcli.rules.pairs import ComplexPair
from gradcli.rules.shaping import as_value
from gradcli.targets.solver_tolerances import SOLVERS, SolverRow, call_solver, is_inside_solver, scale_tolerances
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.provenance import called_name, is_gradcli_file, is_users_file
from gradcli.tracing.tracer import (
    Captured,
    Dotted,
    FloatResult,
    LinearForm,
    Tracer,
    plain_value,
    positions_in_memory,
    resolve_forms,
)

# What stands in for functions of numpy and math that do not dispatch to tracers: allocation, lists, joining, np.vectorize.

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
SOLVED: dict[str, Callable[..., Any]] = {}  # functions of numpy that solve an equation; targets/python.py adds them
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


# Stand-ins in place, while something is traced.

_LOCK = threading.Lock()
_Undo = list[tuple[Callable[..., Any], tuple[Any, ...]]]  # the calls that put the originals back, the last one first


def _choose_by_caller(original: Any, stand_in: Callable[..., Any]) -> Any:
    """Return a function that chooses between the original and the stand-in, by who calls it and with what.

    Compiled code has no Python frame: what it allocates while the user's code calls it must be real arrays.
    """

    @functools.wraps(original, updated=())
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if SWEEPS.hold is None:
            return original(*args, **kwargs)
        frame = sys._getframe(1)
        file = frame.f_code.co_filename
        if is_users_file(file) and _is_call_of(frame, chosen):
            return stand_in(*args, **kwargs)
        if is_gradcli_file(file) or not has_traced_value([*args, *kwargs.values()]):
            return original(*args, **kwargs)
        return stand_in(*args, **kwargs)

    return chosen


def _choose_for_method(original: Any, stand_in: Callable[..., Any]) -> Any:
    """Return a method that calls the stand-in where an argument, or what the instance holds, is traced."""

    @functools.wraps(original, updated=())
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_traced = SWEEPS.hold is not None and (
            has_traced_value([*args, *kwargs.values()]) or of_scipy.has_traced_values(self)
        )
        return (stand_in if is_traced else original)(self, *args, **kwargs)

    return chosen


def _is_call_of(frame: FrameType, function: Callable[..., Any]) -> bool:
    """Whether the call that a frame executes names `function`, or a variable that holds it."""
    kind, name = called_name(frame.f_code, frame.f_lasti)
    if kind == "attribute":
        return name == str(function.__name__)
    found = frame.f_locals.get(name, frame.f_globals.get(name)) if kind == "name" else None
    return bool(found is function)


def _replaceable_solver(original: Any, stand_in: Callable[..., Any] | None, row: SolverRow | None) -> Any:
    """Return a solver that notes its tolerances or makes them smaller, and that is traced if it holds traced values."""

    @functools.wraps(original, updated=())
    def chosen(*args: Any, **kwargs: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        if is_gradcli_file(file):
            return original(*args, **kwargs)
        is_traced = stand_in is not None and SWEEPS.hold is not None and Captured((args, kwargs)).leaves
        function: Any = stand_in if is_traced else original
        if row is None or is_inside_solver(file):
            return function(*args, **kwargs)
        return call_solver(original.__name__, row, original, function, args, kwargs)

    return chosen


_Row = tuple[ModuleType, str, Any, Any]  # a module, the name of a function in it, the original, its stand-in
_SEEN: list[str] = []  # the modules of scipy whose stand-ins are in the table
_TABLE: dict[int, _Row] = {}  # by the original's id
_SOLVERS: dict[int, _Row] = {}  # the same of functions that call the user's, which may hold traced values
_DIRECT: dict[int, tuple[Any, Any]] = {}  # by the original's id: the original, what replaces it whoever calls
_METHODS: list[tuple[type, str, Any, Any]] = []  # of classes of scipy and numba: class, name, original, stand-in
_INHERITED = object()  # the original of a method that the class itself does not define


# Functions that numba compiles: their Python code runs on traced arguments, and they are compiled without stand-ins.


def _run_python_code(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the Python code of a function of `@njit`."""
    return self.py_func(*args, **kwargs)


def _run_entry_by_entry(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the Python code of a function of `@vectorize`, which is defined for one entry."""
    if kwargs:
        raise TraceEnded("a function of numba.vectorize with keywords cannot be traced", do="write y = f(x)")
    return call_by_entry(self.__wrapped__, args)


def _compile_with_originals(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what compiles a function for types of arguments: numba knows numpy's functions by identity."""

    @functools.wraps(original)
    def compile_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _originals_in_place():
            return original(self, *args, **kwargs)

    return compile_function


_NUMBA_METHODS: tuple[tuple[str, str, str, Callable[..., Any] | None], ...] = (  # with a stand-in, or what compiles
    ("numba.core.dispatcher", "Dispatcher", "__call__", _run_python_code),
    ("numba.core.dispatcher", "Dispatcher", "compile", None),
    ("numba.np.ufunc.dufunc", "DUFunc", "__call__", _run_entry_by_entry),
    ("numba.np.ufunc.ufuncbuilder", "UFuncDispatcher", "compile", None),
)


def call_python_code() -> None:
    """From now on, let every function of `@njit` run its Python code: for a process that edits the code of functions."""
    owner = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
    if owner is not None:
        owner.__call__ = _run_python_code


def _update_table() -> None:
    """Make the table of stand-ins once, and add those of a module of scipy after it is imported."""
    imported = of_scipy.imported_modules()
    imported += [name for name in dict.fromkeys(row[0] for row in _NUMBA_METHODS) if name in sys.modules]
    if _TABLE and imported == _SEEN:
        return
    _SEEN[:] = imported
    scipys = [name for name in _SEEN if name in of_scipy.MODULES]
    for module, name, stand_in in list(iterate_replacements(scipys)):
        original = getattr(module, name)
        chosen = stand_in if isinstance(stand_in, JoinByIndex) else _choose_by_caller(original, stand_in)
        _TABLE.setdefault(id(original), (module, name, original, chosen))
        _DIRECT.setdefault(id(original), (original, stand_in))
    _TABLE.update(_table_of_solvers())
    _METHODS[:] = [
        (owner, name, vars(owner)[name], _choose_for_method(vars(owner)[name], stand_in))
        for owner, name, stand_in in of_scipy.methods(scipys)
    ]
    for module_name, kind, name, stand_in in _NUMBA_METHODS:
        owner = getattr(sys.modules.get(module_name), kind, None)
        if owner is not None and hasattr(owner, name):
            original = getattr(owner, name)
            chosen = _choose_for_method(original, stand_in) if stand_in else _compile_with_originals(original)
            _METHODS.append((owner, name, vars(owner).get(name, _INHERITED), chosen))


_WITH_SOLVERS: list[str] = []  # the modules of scipy whose solvers are in the table


def _table_of_solvers() -> dict[int, _Row]:
    """Return the table of solvers, with those of a module of scipy that was imported since."""
    imported = of_scipy.imported_modules()
    for name in [name for name in imported if name not in _WITH_SOLVERS]:
        module, rows = sys.modules[f"scipy.{name}"], SOLVERS.get(name, {})
        traced_ones = of_scipy.SOLVERS[name]() if name in of_scipy.SOLVERS else {}
        for function in {**rows, **traced_ones}:
            original = getattr(module, function, None)
            if original is not None:
                chosen = _replaceable_solver(original, traced_ones.get(function), rows.get(function))
                _SOLVERS.setdefault(id(original), (module, function, original, chosen))
        _WITH_SOLVERS.append(name)
    return _SOLVERS


@contextmanager
def solver_tolerances(factor: float) -> Iterator[dict[str, None]]:
    """Context in which the solvers that watched functions call have `factor` times their tolerances; yields what they call.

    The solvers are replaced in every module that holds them, but not inside scipy, whose functions call each other.
    """
    _SOLVING.enter(())
    try:
        with scale_tolerances(factor) as calls:
            yield calls
    finally:
        _SOLVING.leave()


def _replace_solvers(undo: _Undo, modules: Iterable[ModuleType]) -> None:
    """Replace the solvers of scipy wherever a module holds one."""
    table = _table_of_solvers()
    if not table:
        return
    own = [place for module in users_modules() for place in _solvers_in_module(module, table)]
    for names, key, original in (*_solvers_in_packages(len(sys.modules), len(table)), *own):
        if names.get(key) is original:
            names[key] = table[id(original)][3]
            undo.append((names.__setitem__, (key, original)))


# The namespace of a module that holds a solver, its name there, and the solver.
_SolverPlace = tuple[dict[str, Any], str, Any]
# By module: its state when it was looked at, and the solvers that it holds.
_LOOKED_AT: "WeakKeyDictionary[ModuleType, tuple[tuple[int, ...], list[_SolverPlace]]]" = WeakKeyDictionary()


@functools.lru_cache(maxsize=1)
def _solvers_in_packages(loaded: int, count: int) -> list[_SolverPlace]:
    """Return where installed packages hold solvers: the numbers of modules and of solvers key the cache."""
    table, mine = _table_of_solvers(), set(users_modules())
    own = {row[0].__name__ for row in table.values()}
    packages = [m for m in list(sys.modules.values()) if isinstance(m, ModuleType) and m not in mine]
    others = [m for m in packages if m.__name__ in own or not m.__name__.startswith(("scipy.", "gradcli."))]
    return [place for module in others for place in _solvers_in_module(module, table)]


def _solvers_in_module(module: ModuleType, table: Mapping[int, _Row]) -> list[_SolverPlace]:
    """Return where a module holds solvers.

    It is looked through again where it has other names, or was loaded again; the one that cells of a notebook fill each time.
    """
    names = vars(module)
    known, state = _LOOKED_AT.get(module), _state_of_module(module, len(table))
    if known is None or known[0] != state or module.__name__ == "__main__":
        found = [(names, at, x) for at, x in list(names.items()) if id(x) in table and table[id(x)][2] is x]
        _LOOKED_AT[module] = known = state, found
    return known[1]


def _state_of_module(module: ModuleType, count: int) -> tuple[int, ...]:
    """Return what changes when a module gets other names or is loaded again, or when `count` things are looked for in it."""
    return count, len(vars(module)), id(vars(module).get("__spec__"))


class stand_ins:
    """Context in which the stand-ins act: the sweep holds new arrays, so that traced values can be written into them.

    `modules` are the user's modules: names that they imported from numpy, math or scipy are replaced there too.
    The stand-ins act in this thread only; in other threads they call the originals.
    """

    __slots__ = ("hold", "modules")

    def __init__(self, hold: Hold, modules: Iterable[ModuleType] = ()) -> None:
        self.hold, self.modules = hold, modules

    def __enter__(self) -> None:
        _TRACING.enter(self.modules)
        SWEEPS.holds.append(self.hold)

    def __exit__(self, *raised: object) -> None:
        SWEEPS.holds.pop()
        _TRACING.leave()


def replacement_of(function: Any) -> Any:
    """Return what stands in for a function, or a bound method, that is itself the target; anything else as it is."""
    original, stand_in = _DIRECT.get(id(function), (None, None))
    if original is function and function is not None:
        return stand_in
    for owner, _, method, chosen in _METHODS if isinstance(function, MethodType) else ():
        if function.__func__ is method and isinstance(function.__self__, owner):
            return MethodType(chosen, function.__self__)
    return function


@contextmanager
def without_tracing() -> Iterator[None]:
    """Context in which the originals act, for a call on plain values while another function is traced."""
    SWEEPS.holds.append(None)
    try:
        yield
    finally:
        SWEEPS.holds.pop()


def is_tracing() -> bool:
    """Whether the stand-ins act in this thread."""
    return SWEEPS.hold is not None


@contextmanager
def _originals_in_place() -> Iterator[None]:
    """Context in which no stand-in is in place, in any thread."""
    modules = users_modules()
    with _LOCK:
        _TRACING.put_back()
    try:
        yield
    finally:
        with _LOCK:
            if _TRACING.users:
                _install_replacements(_TRACING.undo, modules)


def _install_replacements(undo: _Undo, modules: Iterable[ModuleType]) -> None:
    """Install the stand-ins, and note how they are undone."""
    _update_table()
    modules = tuple(modules)
    with_float, places = _places_in_modules(modules, tuple(map(len, map(vars, modules))), len(_TABLE))
    undo.append((_remove_float, (with_float,)))
    for names in with_float:
        names["float"] = FLOAT
    for owner, name, original, stand_in in _METHODS:
        setattr(owner, name, stand_in)
        undo.append((delattr, (owner, name)) if original is _INHERITED else (setattr, (owner, name, original)))
    for names, originals, chosen in (*_places_in_libraries(len(_TABLE)), *places):
        if not all(map(operator.is_, map(names.get, originals), originals.values())):
            kept = {name for name, original in originals.items() if names.get(name) is original}
            originals, chosen = ({name: part[name] for name in kept} for part in (originals, chosen))
        undo.append((names.update, (originals,)))
        names.update(chosen)


def _remove_float(modules: Iterable[dict[str, Any]]) -> None:
    for names in modules:
        names.pop("float", None)


class _Replacements:
    """What is replaced while any thread uses it; `install` replaces it in modules, and notes how that is undone."""

    def __init__(self, install: Callable[[_Undo, Iterable[ModuleType]], None]) -> None:
        self.install, self.users = install, 0
        self.undo: _Undo = []

    def enter(self, modules: Iterable[ModuleType]) -> None:
        with _LOCK:
            self.users += 1
            if self.users == 1:
                self.install(self.undo, modules)

    def leave(self) -> None:
        with _LOCK:
            self.users -= 1
            if self.users == 0:
                self.put_back()

    def put_back(self) -> None:
        """Put the originals back."""
        while self.undo:
            function, arguments = self.undo.pop()
            function(*arguments)


_TRACING, _SOLVING = _Replacements(_install_replacements), _Replacements(_replace_solvers)


# a module's namespace, the originals in it by name, their stand-ins by name
_Place = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


@functools.lru_cache(maxsize=1)
def _places_in_libraries(count: int) -> list[_Place]:
    """Return the entries to replace in numpy, math and scipy; the number of stand-ins keys the cache."""
    found: dict[int, _Place] = {}
    for module, name, original, chosen in _TABLE.values():
        _, originals, stand = found.setdefault(id(module), (vars(module), {}, {}))
        originals[name], stand[name] = original, chosen
    return list(found.values())


@functools.lru_cache(maxsize=1)
def _places_in_modules(
    modules: tuple[ModuleType, ...], lengths: tuple[int, ...], count: int
) -> tuple[list[dict[str, Any]], list[_Place]]:
    """Return the user's modules in which `float` is replaced, and the entries to replace in them, under any alias.

    The numbers of names in each of them, and of stand-ins, key the cache.
    """
    found = [_place_in_module(module, count) for module in modules]
    return [vars(module) for module in modules if "float" not in vars(module)], [place for place in found if place]


# By module: its state when it was looked at, and the entries to replace in it.
_FOUND: "WeakKeyDictionary[ModuleType, tuple[tuple[int, ...], _Place | None]]" = WeakKeyDictionary()


def _place_in_module(module: ModuleType, count: int) -> _Place | None:
    """Return the entries to replace in one of the user's modules by one of the `count` stand-ins; None if there are none."""
    names = vars(module)
    known, state = _FOUND.get(module), _state_of_module(module, count)
    if known is None or known[0] != state:
        rows = {alias: row for alias, x in list(names.items()) if (row := _row_of(x)) is not None}
        place = (names, {a: row[2] for a, row in rows.items()}, {a: row[3] for a, row in rows.items()})
        _FOUND[module] = known = state, place if rows else None
    return known[1]


def _row_of(x: Any) -> _Row | None:
    """Return the row of the table for an original, or for what stands in its place meanwhile."""
    row = _TABLE.get(id(x)) or _TABLE.get(id(getattr(x, "__wrapped__", None) if callable(x) else None))
    return row if row is not None and (row[2] is x or row[3] is x) else None


def users_modules() -> list[ModuleType]:
    """Return the user's modules, where names imported from numpy are replaced while tracing."""
    return _users_modules(len(sys.modules), id(next(reversed(sys.modules.values()))))


@functools.lru_cache(maxsize=1)
def _users_modules(loaded: int, last: int) -> list[ModuleType]:
    """Return the user's modules; the arguments key the cache."""
    files = [(m, getattr(m, "__file__", None)) for m in list(sys.modules.values()) if isinstance(m, ModuleType)]
    found = [m for m, file in files if isinstance(file, str) and is_users_file(file)]
    main = sys.modules.get("__main__")
    if main is not None and main not in found and getattr(main, "__file__", None) is None:
        found.append(main)
    return found
