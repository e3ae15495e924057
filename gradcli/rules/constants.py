"""Functions whose results carry no derivative: shapes, types, and tests of the values.

A test is made by comparing traced values, so that a recorded run can tell how close each comparison was.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.rules.options import given, truth
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import HANDLERS
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.storage import shares
from gradcli.tracing.tracer import Tracer, plain

CONSTANTS: set[Callable[..., Any]] = set()


def constant_of(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the handler of numpy functions whose results are constants."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            HANDLERS[function] = handler
            CONSTANTS.add(function)
        return handler

    return declare


@constant_of(np.shape)
def shape_(a: Value) -> tuple[int, ...]:
    return shape(as_value(a))


@constant_of(np.ndim)
def ndim(a: Value) -> int:
    return len(shape(as_value(a)))


@constant_of(np.size)
def size(a: Value, axis: Any = None) -> int:
    found = shape(as_value(a))
    return int(np.prod([found[k] for k in shapes.axes(axis, len(found))], dtype=int))


@constant_of(np.any)
def any_(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _truths(np.any, a, axis, out, keepdims, where)


@constant_of(np.all)
def all_(a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    return _truths(np.all, a, axis, out, keepdims, where)


def _truths(function: Any, a: Value, axis: Any, out: Any, keepdims: Any, where: Any) -> Any:
    options = {"out": out} if given(out) else {}
    kept = bool(given(keepdims) and keepdims)
    chosen = True if not given(where) or where is True else truth(where)
    return function(truth(as_value(a)), axis=axis, keepdims=kept, where=chosen, **options)


@constant_of(np.count_nonzero)
def count_nonzero(a: Value, axis: Any = None, *, keepdims: bool = False) -> Any:
    return np.count_nonzero(truth(as_value(a)), axis=axis, keepdims=keepdims)


@constant_of(np.nonzero)
def nonzero(a: Value) -> Any:
    return np.nonzero(truth(as_value(a)))


@constant_of(np.argwhere)
def argwhere(a: Value) -> Any:
    return np.argwhere(truth(as_value(a)))


@constant_of(np.flatnonzero)
def flatnonzero(a: Value) -> Any:
    return np.flatnonzero(truth(as_value(a)))


@constant_of(np.isclose)
def isclose(a: Value, b: Value, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    x, y = as_value(a), as_value(b)
    near = np.less_equal(np.abs(x - y), atol + rtol * np.abs(y)) & np.isfinite(y) | np.equal(x, y)
    return near | (np.isnan(x) & np.isnan(y)) if equal_nan else near


@constant_of(np.allclose)
def allclose(a: Value, b: Value, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@constant_of(np.array_equal)
def array_equal(a1: Value, a2: Value, equal_nan: bool = False) -> bool:
    x, y = as_value(a1), as_value(a2)
    if shape(x) != shape(y):
        return False
    same = np.equal(x, y)
    return bool(np.all(same | (np.isnan(x) & np.isnan(y)) if equal_nan else same))


@constant_of(np.array_equiv)
def array_equiv(a1: Value, a2: Value) -> bool:
    try:
        return bool(np.all(np.equal(as_value(a1), as_value(a2))))
    except ValueError:
        return False


@constant_of(np.isneginf)
def isneginf(x: Value, out: Any = None) -> Any:
    return np.isinf(x) & np.signbit(x)


@constant_of(np.isposinf)
def isposinf(x: Value, out: Any = None) -> Any:
    return np.isinf(x) & ~np.signbit(x)


@constant_of(np.isrealobj)
def isrealobj(x: Value) -> bool:
    return not np.iscomplexobj(x)


@constant_of(np.isscalar)
def isscalar(element: Any) -> bool:
    return not shape(element)


CONSTANTS |= {  # their handlers are in other modules
    np.argmax, np.argmin, np.argsort, np.argpartition, np.nanargmax, np.nanargmin, np.searchsorted, np.digitize,
    np.zeros_like, np.ones_like, np.empty_like, np.iscomplexobj, np.iscomplex, np.isreal, np.linalg.matrix_rank, np.fix,
}  # fmt: skip


def _types(values: Any) -> list[Any]:
    return [x.dtype if isinstance(x, Tracer) else x for x in values]


@constant_of(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*_types(arrays_and_dtypes))


@constant_of(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


@constant_of(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> Any:
    return np.min_scalar_type(plain(a))


@constant_of(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0) if isinstance(x, Tracer) else x for x in arrays))


@constant_of(np.may_share_memory, np.shares_memory)
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    return isinstance(a, Tracer) and isinstance(b, Tracer) and shares(a, b)


@constant_of(np.array2string, np.array_repr, np.array_str)
def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    return np.array2string(np.asarray(plain(a)), *args, **kwargs)


@constant_of(np.tril_indices_from)
def tril_indices_from(arr: Value, k: int = 0) -> Any:
    return np.tril_indices_from(np.empty(shape(arr)), k)


@constant_of(np.triu_indices_from)
def triu_indices_from(arr: Value, k: int = 0) -> Any:
    return np.triu_indices_from(np.empty(shape(arr)), k)


@constant_of(np.diag_indices_from)
def diag_indices_from(arr: Value) -> Any:
    return np.diag_indices_from(np.empty(shape(arr)))
