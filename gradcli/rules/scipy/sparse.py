"""scipy.sparse: products of a sparse matrix of plain numbers with traced vectors and matrices."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.kinds import make_refusal
from gradcli.rules.shaping import GETITEM, SCATTER, as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

_DENSE = 1_000_000  # entries of a matrix up to which the dense product is recorded


def sparse_product(a: Any, x: Value) -> Value:
    """Return the product of a sparse matrix with a vector or a matrix."""
    x = as_value(x)
    if len(shape(x)) == 0:
        raise NoRule("a sparse matrix times a traced number is not traced", do="multiply the vector by the number")
    if np.prod(a.shape, dtype=float) <= _DENSE:
        return np.matmul(a.toarray(), x)
    entries = a.tocoo()
    rows, columns = entries.coords
    terms = GETITEM(x, index=columns) * np.reshape(entries.data, (-1,) + (1,) * (len(shape(x)) - 1))
    return SCATTER(terms, index=rows, into=(a.shape[0], *shape(x)[1:]))


def _reflected_product(a: Any, x: Value) -> Value:
    """Return the product of a vector or a matrix with a sparse matrix."""
    return np.transpose(sparse_product(a.T, np.transpose(as_value(x))))


_refuse_traced_entries = make_refusal(
    "a sparse matrix of traced entries is not traced",
    "make a dense one: np.diag(v), or A = np.zeros((n, n)) and A[i, j] = v",
)


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy.sparse import _base, _compressed, _coo, _dia, _matrix

    yield _base._spbase, "__matmul__", sparse_product
    yield _base._spbase, "__rmatmul__", _reflected_product
    yield _base._spbase, "dot", sparse_product
    says = "the entrywise product of a sparse and a traced array is not traced"
    yield _base._spbase, "multiply", make_refusal(says, "multiply by A.toarray()")
    yield _matrix.spmatrix, "__mul__", sparse_product
    yield _matrix.spmatrix, "__rmul__", _reflected_product
    for module, owner in ((_compressed, "_cs_matrix"), (_coo, "_coo_base"), (_dia, "_dia_base")):
        if hasattr(module, owner):
            yield getattr(module, owner), "__init__", _refuse_traced_entries


FUNCTIONS: dict[str, Callable[..., Any]] = dict.fromkeys(("diags", "diags_array", "spdiags"), _refuse_traced_entries)
