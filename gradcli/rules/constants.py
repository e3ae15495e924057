"""Functions whose results carry no derivative: shapes, types, and tests of the values.

A test is made by comparing traced values, so that a recorded run can tell how close each comparison was.
"""

from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.rules.kinds import as_booleans, is_given
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.primitive import REASONS, Value, handle, handles
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, has_shared_memory, plain_value

MODULES = {"": np, "linalg.": np.linalg, "fft.": np.fft}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why functions have no derivative rule, what to write instead, and which functions they are."""

    why: str
    do: str
    names: str


# fmt: off
REFUSED: tuple[Reason, ...] = (
    Reason("it works on integers or bits", "pass what it works on as integer inputs",
           "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_not bitwise_left_shift bitwise_right_shift bitwise_count "
           "invert left_shift right_shift gcd lcm packbits unpackbits"),
    Reason("its value is the grid of float64 around a number, not a function of real numbers", "leave it out",
           "nextafter spacing"),
    Reason("counts jump where a value crosses an edge", "np.bincount(np.digitize(x, edges), weights=w) for sums of weights",
           "histogram histogram2d histogramdd histogram_bin_edges"),
    Reason("which entries it keeps depends on which are exactly equal, or exactly 0", "np.unique, or index with a mask",
           "intersect1d union1d setdiff1d setxor1d isin unique_all unique_counts unique_inverse unique_values trim_zeros"),
    Reason("roots and eigenvalues of a matrix that is not symmetric may be complex, or have no derivative",
           "np.linalg.eigh, or np.linalg.eigvalsh", "roots linalg.eig linalg.eigvals"),
    Reason("it orders complex numbers", "np.sort", "sort_complex"),
    Reason("it takes or makes positions, which are integers", "compute positions from plain arrays",
           "lexsort ravel_multi_index unravel_index ix_ einsum_path"),
    Reason("it works on dates", "pass plain numbers",
           "busday_count busday_offset is_busday isnat datetime_as_string datetime_data"),
    Reason("it writes a file, where derivatives are lost", "leave it out of the function",
           "save savetxt savez savez_compressed"),
    Reason("it makes a plain array or a matrix of another kind", "np.asarray, np.block or np.stack",
           "asfortranarray require asmatrix bmat"),
    Reason("it makes a function of Python objects", "np.vectorize, or a loop", "frompyfunc"),
    Reason("it takes its values from an iterator", "np.stack", "fromiter"),
)
# fmt: on


def refused() -> dict[str, Reason]:
    """Return the refused functions with their reasons."""
    return {name: reason for reason in REFUSED for name in reason.names.split()}


@handles(np.size)
def size(a: Value, axis: Any = None) -> int:
    found = shape(as_value(a))
    return int(np.prod([found[k] for k in shapes.normalise_axes(axis, len(found))], dtype=int))


def _reduce_truths(function: Any, a: Value, axis: Any, out: Any, keepdims: Any, where: Any) -> Any:
    options = {"out": out} if is_given(out) else {}
    kept = bool(is_given(keepdims) and keepdims)
    chosen = True if not is_given(where) or where is True else as_booleans(where)
    return function(as_booleans(as_value(a)), axis=axis, keepdims=kept, where=chosen, **options)


@handles(np.isclose)
def isclose(a: Value, b: Value, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    x, y = as_value(a), as_value(b)
    near = np.less_equal(np.abs(x - y), atol + rtol * np.abs(y)) & np.isfinite(y) | np.equal(x, y)
    return near | (np.isnan(x) & np.isnan(y)) if equal_nan else near


@handles(np.array_equal)
def array_equal(a1: Value, a2: Value, equal_nan: bool = False) -> bool:
    x, y = as_value(a1), as_value(a2)
    if shape(x) != shape(y):
        return False
    same = np.equal(x, y)
    return bool(np.all(same | (np.isnan(x) & np.isnan(y)) if equal_nan else same))


@handles(np.array_equiv)
def array_equiv(a1: Value, a2: Value) -> bool:
    try:
        return bool(np.all(np.equal(as_value(a1), as_value(a2))))
    except ValueError:
        return False


def _dtype_if_traced(x: Any) -> Any:
    return x.dtype if isinstance(x, Tracer) else x


handle({
    np.shape: lambda a: shape(as_value(a)), np.ndim: lambda a: len(shape(as_value(a))),
    np.any: lambda a, axis=None, out=None, keepdims=False, *, where=True:
        _reduce_truths(np.any, a, axis, out, keepdims, where),
    np.all: lambda a, axis=None, out=None, keepdims=False, *, where=True:
        _reduce_truths(np.all, a, axis, out, keepdims, where),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False:
        np.count_nonzero(as_booleans(as_value(a)), axis=axis, keepdims=keepdims),
    np.nonzero: lambda a: np.nonzero(as_booleans(as_value(a))),
    np.argwhere: lambda a: np.argwhere(as_booleans(as_value(a))),
    np.flatnonzero: lambda a: np.flatnonzero(as_booleans(as_value(a))),
    np.allclose: lambda a, b, rtol=1e-05, atol=1e-08, equal_nan=False: bool(np.all(isclose(a, b, rtol, atol, equal_nan))),
    np.isneginf: lambda x, out=None: np.isinf(x) & np.signbit(x),
    np.isposinf: lambda x, out=None: np.isinf(x) & ~np.signbit(x),
    np.isrealobj: lambda x: not np.iscomplexobj(x), np.isscalar: lambda element: not shape(element),
    np.result_type: lambda *arrays_and_dtypes: np.result_type(*map(_dtype_if_traced, arrays_and_dtypes)),
    np.can_cast: lambda from_, to, casting="safe": np.can_cast(_dtype_if_traced(from_), to, casting),
    np.min_scalar_type: lambda a, /: np.min_scalar_type(plain_value(a)),
    np.common_type: lambda *arrays: np.common_type(*(np.empty(0) if isinstance(x, Tracer) else x for x in arrays)),
    np.tril_indices_from: lambda arr, k=0: np.tril_indices_from(np.empty(shape(arr)), k),
    np.triu_indices_from: lambda arr, k=0: np.triu_indices_from(np.empty(shape(arr)), k),
    np.diag_indices_from: lambda arr: np.diag_indices_from(np.empty(shape(arr))),
})  # fmt: skip


@handles(np.may_share_memory, np.shares_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    return isinstance(a, Tracer) and isinstance(b, Tracer) and has_shared_memory(a, b)


@handles(np.array2string, np.array_repr, np.array_str)
def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    return np.array2string(np.asarray(plain_value(a)), *args, **kwargs)


for _name, _reason in refused().items():
    _prefix, _dot, _last = _name.rpartition(".")
    if (_function := getattr(MODULES[_prefix + _dot], _last, None)) is not None:
        REASONS[_function] = (_reason.why, _reason.do)
