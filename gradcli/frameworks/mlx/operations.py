"""MLX's primitives in numpy, keyed by the primitive's name.

An entry takes the inputs in order, and the primitive's own parameters by position in `own`. Integers and booleans are
never traced: they are computed from plain numbers only.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.core.tracer import Tracer, plain
from gradcli.errors import NotSupported
from gradcli.frameworks.ops.convolution import Convolution
from gradcli.frameworks.ops.elementwise import by_framework_name, camel, converted
from gradcli.frameworks.ops.indexing import corner
from gradcli.frameworks.ops.places import added, blocks, gathered, padded, put, put_with
from gradcli.frameworks.ops.reductions import TABLE as RUNNING
from gradcli.primitives.reductions import logsumexp, softmax

Entry = Callable[..., Any]
Own = Sequence[Any]

_REDUCED: tuple[Entry, ...] = (np.all, np.any, np.sum, np.prod, np.min, np.max)
_RUNNING = ("cummax", "cummin", "cumsum", "cumprod", "cumlogsumexp")
_WRITTEN: tuple[Entry, ...] = (put_with(np.maximum), put_with(np.minimum), added, put_with(np.multiply), put)
_LOGS: tuple[Entry, ...] = (np.log2, np.log10, np.log)


def ignoring_params(function: Entry) -> Entry:
    """Return an entry that ignores the primitive's own parameters."""
    return lambda *xs, own: function(*xs)


def as_type(x: Value, *, own: Own) -> Value:
    """Return a value as another type; real numbers stay float64. Raises NotSupported for complex types."""
    name = str(own[0]).rpartition(".")[2]
    if name.startswith("complex"):
        raise NotSupported("complex numbers of MLX are not replayed")
    if name.startswith(("float", "bfloat")):
        return converted(x, np.float64)
    y = converted(x, "bool" if name == "bool" else name)
    return y if isinstance(y, Tracer) else y[()]


def scan(x: Value, *, own: Own) -> Value:
    """Return running sums, products or extremes; `own` says whether reversed, and whether an entry includes itself."""
    kind, axis, reverse, inclusive = own
    return RUNNING[_RUNNING[kind]](x, axis=axis, reverse=reverse, exclusive=not inclusive)


def split(x: Value, *, own: Own) -> list[Value]:
    """Return the pieces of an array between positions along an axis."""
    ends, axis = [0, *own[0], shape(x)[own[1]]], own[1]
    return [x[(*(slice(None),) * axis, slice(a, b))] for a, b in pairwise(ends)]


def pad(x: Value, filling: Value, *, own: Own) -> Value:
    """Return an array with a filling around it."""
    ends = [(0, 0, 0)] * len(shape(x))
    for axis, low, high in zip(*own, strict=True):
        ends[axis] = (low, high, 0)
    return gathered(x, padded(shape(x), ends), filling)


def _sliced(own: Own) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in zip(*own, strict=True))


def _places(x: Value) -> Any:
    return np.arange(size(x)).reshape(shape(x))


def _written(kind: int, x: Value, places: Any, values: Value) -> Value:
    values = np.broadcast_to(values, places.shape)
    if isinstance(x, Tracer) or isinstance(values, Tracer) or np.asarray(x).dtype.kind == "f":
        return _WRITTEN[kind](x, places, values)
    raise NotSupported("writes into integers of MLX are not replayed")


def slice_update(x: Value, values: Value, *, own: Own) -> Value:
    """Return an array with a block overwritten, or combined with its old entries."""
    return _written(own[0], x, _places(x)[_sliced(own[1:])], values)


def _corner(start: Any, axes: Sequence[int], whole: Sequence[int], part: Sequence[int]) -> tuple[slice, ...]:
    given = dict(zip(axes, np.ravel(start), strict=True))
    return corner([given.get(axis, 0) for axis in range(len(whole))], whole, part)


def dynamic_slice(x: Value, start: Any, *, own: Own) -> Value:
    """Return a block that begins at computed positions."""
    return x[_corner(start, own[0], shape(x), own[1])]


def dynamic_slice_update(x: Value, values: Value, start: Any, *, own: Own) -> Value:
    """Return an array with a block written at computed positions."""
    return put(x, _places(x)[_corner(start, own[0], shape(x), shape(values))], values)


def _corners(indices: Sequence[Any], axes: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    batch = np.broadcast_shapes(*(np.shape(at) for at in indices))
    found: list[Any] = [np.zeros(batch, dtype=int) for _ in sizes]
    for axis, at in zip(axes, indices, strict=True):
        whole = np.broadcast_to(np.asarray(at).astype(int), batch)
        found[axis] = np.where(whole < 0, whole + sizes[axis], whole)
    return found


def gather(x: Value, *indices: Any, own: Own) -> Value:
    """Return blocks of an array that begin at given positions.

    Shapes  the shape of the positions, then that of a block.
    """
    return gathered(x, blocks(_corners(indices, own[0], shape(x)), shape(x), own[1]))


def scatter(x: Value, *rest: Any, own: Own) -> Value:
    """Return an array with blocks at given positions overwritten, or combined with their old entries."""
    *indices, values = rest
    corners = _corners(indices, own[1], shape(x))
    lengths = shape(values)[len(corners[0].shape) :]
    return _written(own[0], x, blocks(corners, shape(x), lengths), values)


def gather_axis(x: Value, at: Any, *, own: Own) -> Value:
    """Return entries at positions along one axis."""
    return np.take_along_axis(x, np.asarray(at).astype(int), own[0])


def scatter_axis(x: Value, at: Any, values: Value, *, own: Own) -> Value:
    """Return an array with entries added or written at positions along one axis."""
    places = np.take_along_axis(_places(x), np.asarray(at).astype(int), own[1])
    return _written(2 if own[0] == 0 else 4, x, places, values)


def as_strided(x: Value, *, own: Own) -> Value:
    """Return the entries that a view with the given sizes, strides and offset would show."""
    sizes, strides, offset = own
    grid = np.meshgrid(*(np.arange(n) * s for n, s in zip(sizes, strides, strict=True)), indexing="ij")
    return gathered(x, np.asarray(sum(grid, np.zeros(tuple(sizes), dtype=int)) + offset))


def conv(x: Value, w: Value, *, own: Own) -> Value:
    """Return a convolution; the channels are the last axis."""
    strides, low, high, dilation, between, groups, flipped = own
    inner = tuple(range(1, len(shape(x)) - 1))
    kernel = np.flip(w, inner) if flipped else w
    ends = [(a, b, d - 1) for a, b, d in zip(low, high, between, strict=True)]
    first = (0, len(shape(x)) - 1, *inner)
    x, kernel = np.transpose(x, first), np.transpose(kernel, first)
    y = Convolution(shape(x), shape(kernel), strides, ends, dilation, groups)(x, kernel)
    return np.transpose(y, (0, *range(2, len(shape(y))), 1))


def inverse(a: Value, *, own: Own) -> Value:
    """Return the inverse of a matrix, or of one of its triangles."""
    triangular, upper = own
    return np.linalg.inv((np.triu if upper else np.tril)(a) if triangular else a)


def svd(a: Value, *, own: Own) -> Any:
    """Return U, s and V^T, or s alone."""
    return list(np.linalg.svd(a, full_matrices=True)) if own[0] else np.linalg.svd(a, compute_uv=False)


def eigh(a: Value, *, own: Own) -> Any:
    """Return eigenvalues, and eigenvectors if the primitive asks for them."""
    return list(np.linalg.eigh(a, own[0])) if own[1] else np.linalg.eigvalsh(a, own[0])


# fmt: off
TABLE: dict[str, Entry] = {
    **{name: ignoring_params(function) for name, function in (by_framework_name(
        same="abs exp expm1 log1p square sin cos tan sinh cosh tanh floor ceil sign add remainder floor_divide "
        "logical_not logical_and logical_or matmul erf",
        renamed="Negative=neg ArcSin=asin ArcCos=acos ArcTan=atan ArcSinh=asinh ArcCosh=acosh ArcTanh=atanh ArcTan2=atan2 "
        "Round=rint Subtract=sub Multiply=mul Divide=div Power=pow Maximum=max Minimum=min LogAddExp=logaddexp NotEqual=ne "
        "Less=lt LessEqual=le Greater=gt GreaterEqual=ge BitwiseInvert=not Select=where Sigmoid=logistic ErfInv=erf_inv "
        "Full=identity Copy=identity Contiguous=identity StopGradient=identity",
        spelled=camel,
    ) | {
        "DivMod": lambda a, b: [np.floor_divide(a, b), np.remainder(a, b)], "QRF": lambda a: list(np.linalg.qr(a)),
        "Softmax": lambda x: softmax(x, -1), "LogSumExp": lambda x: logsumexp(x, -1, keepdims=True),
    }).items()},
    "Sqrt": lambda x, *, own: 1 / np.sqrt(x) if own[0] else np.sqrt(x), "Log": lambda x, *, own: _LOGS[own[0]](x),
    "Equal": lambda a, b, *, own: np.equal(a, b), "AsType": as_type,
    "Reduce": lambda x, *, own: _REDUCED[own[0]](x, axis=tuple(own[1]), keepdims=True),
    "ArgReduce": lambda x, *, own: np.expand_dims((np.argmax if own[0] else np.argmin)(plain(x), axis=own[1]), own[1]),
    "Scan": scan,
    "Sort": lambda x, *, own: np.sort(x, axis=own[0]), "Partition": lambda x, *, own: np.sort(x, axis=own[1]),
    "ArgSort": lambda x, *, own: np.argsort(plain(x), axis=own[0], kind="stable"),
    "Reshape": lambda x, *, own: np.reshape(x, tuple(own[0])), "Transpose": lambda x, *, own: np.transpose(x, tuple(own[0])),
    "ExpandDims": lambda x, *, own: np.expand_dims(x, tuple(own[0])), "Squeeze": lambda x, *, own: np.squeeze(x, tuple(own[0])),
    "Broadcast": lambda x, *rest, own: np.broadcast_to(x, tuple(own[0])),
    "Concatenate": lambda *xs, own: np.concatenate(xs, axis=own[0]),
    "Flatten": lambda x, *, own: np.reshape(x, (*shape(x)[: own[0]], -1, *shape(x)[own[1] + 1 :])),
    "Unflatten": lambda x, *, own: np.reshape(x, (*shape(x)[: own[0]], *own[1], *shape(x)[own[0] + 1 :])),
    "Arange": lambda *, own: np.arange(*own), "Split": split, "Pad": pad, "AsStrided": as_strided,
    "Slice": lambda x, *, own: x[_sliced(own)], "SliceUpdate": slice_update,
    "DynamicSlice": dynamic_slice, "DynamicSliceUpdate": dynamic_slice_update,
    "Gather": gather, "Scatter": scatter, "GatherAxis": gather_axis, "ScatterAxis": scatter_axis,
    "AddMM": lambda a, b, c, *, own: own[0] * np.matmul(a, b) + own[1] * c, "Convolution": conv,
    "Cholesky": lambda a, *, own: np.swapaxes(np.linalg.cholesky(a), -1, -2) if own[0] else np.linalg.cholesky(a),
    "Inverse": inverse, "SVD": svd, "Eigh": eigh,
}
# fmt: on
