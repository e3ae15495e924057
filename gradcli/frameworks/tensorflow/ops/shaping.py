"""Operations that move entries, create arrays, or return shapes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.core.tracer import Tracer
from gradcli.frameworks.ops.places import gathered, put

Entry = Callable[..., Any]


def sizes_of(x: Any) -> tuple[int, ...]:
    """Return an input that holds a shape, as a tuple."""
    return tuple(int(n) for n in np.ravel(x))


def type_of(given: Any) -> Any:
    """Return an attribute that holds a type, as a numpy type."""
    return given.as_numpy_dtype


def squeeze(x: Value, *, squeeze_dims: Sequence[int] = (), **attrs: Any) -> Value:
    """Return `x` without axes of length 1: those named, or all."""
    return np.squeeze(x, tuple(squeeze_dims) or None)


def strided_slice(
    x: Value, begin: Any, end: Any, strides: Any, *, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0,
    new_axis_mask: int = 0, shrink_axis_mask: int = 0, **attrs: Any,
) -> Value:  # fmt: skip
    """Return x[index] for a Python index that TensorFlow encodes as numbers and bit masks."""
    return x[strided_index(begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)]


def strided_index(
    begin: Any, end: Any, strides: Any, no_begin: int, no_end: int, ellipsis: int, new_axis: int, shrink: int
) -> tuple[Any, ...]:
    """Return the Python index that a StridedSlice encodes."""
    index: list[Any] = []
    for k, (first, last, step) in enumerate(zip(*map(sizes_of, (begin, end, strides)), strict=True)):
        bit = 1 << k
        if ellipsis & bit:
            index.append(Ellipsis)
        elif new_axis & bit:
            index.append(None)
        elif shrink & bit:
            index.append(first)
        else:
            index.append(slice(None if no_begin & bit else first, None if no_end & bit else last, step))
    return tuple(index)


def _masks(attrs: Any) -> list[int]:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return [int(attrs.get(name, 0)) for name in names]


def strided_slice_update(x: Value, begin: Any, end: Any, strides: Any, value: Value, **attrs: Any) -> Value:
    """Return `x` with a value written at a strided index."""
    places = np.arange(size(x)).reshape(shape(x))[strided_index(begin, end, strides, *_masks(attrs))]
    return put(x, places, np.broadcast_to(value, places.shape))


def strided_slice_grad(sizes: Any, begin: Any, end: Any, strides: Any, value: Value, **attrs: Any) -> Value:
    """Return zeros with a value written at a strided index."""
    return strided_slice_update(np.zeros(sizes_of(sizes)), begin, end, strides, value, **attrs)


def slice_(x: Value, begin: Any, lengths: Any, **attrs: Any) -> Value:
    """Return a block; a length of -1 reaches to the end."""
    ends = zip(sizes_of(begin), sizes_of(lengths), strict=True)
    return x[tuple(slice(first, None if n == -1 else first + n) for first, n in ends)]


def concat(*xs: Value, axis: Any) -> Value:
    """Return the arrays joined along an axis."""
    return np.concatenate(xs, axis=int(axis))


def split(axis: Any, x: Value, *, num_split: int, **attrs: Any) -> tuple[Value, ...]:
    """Return equal blocks along an axis."""
    k = int(axis) % len(shape(x))
    return split_lengths(x, [shape(x)[k] // num_split] * num_split, k)


def split_lengths(x: Value, lengths: Any, axis: Any, **attrs: Any) -> tuple[Value, ...]:
    """Return blocks of given lengths along an axis; a length of -1 takes what is left."""
    k = int(axis) % len(shape(x))
    counts = list(sizes_of(lengths))
    if -1 in counts:
        counts[counts.index(-1)] = shape(x)[k] - sum(n for n in counts if n != -1)
    ends = np.cumsum(counts).tolist()
    lead = (slice(None),) * k
    return tuple(x[(*lead, slice(end - n, end))] for end, n in zip(ends, counts, strict=True))


def unpack(x: Value, *, axis: int = 0, **attrs: Any) -> tuple[Value, ...]:
    """Return the slices along an axis."""
    k = axis % len(shape(x))
    return tuple(x[(*(slice(None),) * k, n)] for n in range(shape(x)[k]))


def reverse(x: Value, axes: Any, **attrs: Any) -> Value:
    """Return `x` reversed along some axes, which are given by number or by a boolean mask."""
    named = np.flatnonzero(axes) if np.asarray(axes).dtype == bool else np.ravel(axes)
    return np.flip(x, tuple(int(k) for k in named))


def pad(x: Value, around: Any, filling: Value = 0.0, **attrs: Any) -> Value:
    """Return `x` with a filling around it."""
    places = np.pad(np.arange(size(x)).reshape(shape(x)), np.asarray(around), constant_values=size(x))
    return gathered(x, places, filling)


def mirror_pad(x: Value, around: Any, *, mode: Any, **attrs: Any) -> Value:
    """Return `x` padded with its mirrored entries; `mode` says whether the outermost ones are repeated."""
    how: Any = (mode.decode() if isinstance(mode, bytes) else str(mode)).lower()
    return gathered(x, np.pad(np.arange(size(x)).reshape(shape(x)), np.asarray(around), mode=how))


def blocks_moved(x: Value, *, block_size: int, to_depth: bool, data_format: Any = b"NHWC", **attrs: Any) -> Value:
    """Move square blocks of space into channels if `to_depth`, else channels into square blocks of space."""
    channels_first = data_format in (b"NCHW", "NCHW")
    x = np.transpose(x, (0, 2, 3, 1)) if channels_first else x
    batch, height, width, depth = shape(x)
    b = block_size
    if to_depth:
        apart = np.reshape(x, (batch, height // b, b, width // b, b, depth))
        y = np.reshape(np.transpose(apart, (0, 1, 3, 2, 4, 5)), (batch, height // b, width // b, b * b * depth))
    else:
        apart = np.reshape(x, (batch, height, width, b, b, depth // (b * b)))
        y = np.reshape(np.transpose(apart, (0, 1, 3, 2, 4, 5)), (batch, height * b, width * b, depth // (b * b)))
    return np.transpose(y, (0, 3, 1, 2)) if channels_first else y


def space_to_batch(x: Value, block: Any, around: Any, **attrs: Any) -> Value:
    """Return every b-th entry of the padded space as a batch of its own."""
    b, rank = sizes_of(block), len(shape(x))
    m = len(b)
    x = pad(x, [(0, 0), *np.asarray(around).tolist(), *[(0, 0)] * (rank - 1 - m)])
    batch, *sizes = shape(x)
    coarse, inner = [n // f for n, f in zip(sizes[:m], b, strict=True)], sizes[m:]
    apart = np.reshape(x, (batch, *(n for pair in zip(coarse, b, strict=True) for n in pair), *inner))
    order = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, 2 * m + 1 + len(inner)))
    return np.reshape(np.transpose(apart, order), (batch * int(np.prod(b)), *coarse, *inner))


def batch_to_space(x: Value, block: Any, crops: Any, **attrs: Any) -> Value:
    """Return the inverse of `space_to_batch`, with the borders cropped."""
    b = sizes_of(block)
    batch, *space = shape(x)
    m, inner = len(b), space[len(b) :]
    apart = np.reshape(x, (*b, batch // int(np.prod(b)), *space))
    order = [m]
    for k in range(m):
        order += [m + 1 + k, k]
    turned = np.transpose(apart, (*order, *range(2 * m + 1, 2 * m + 1 + len(inner))))
    y = np.reshape(turned, (batch // int(np.prod(b)), *(s * f for s, f in zip(space, b, strict=False)), *inner))
    ends = [slice(low, shape(y)[k + 1] - high) for k, (low, high) in enumerate(np.asarray(crops).tolist())]
    return y[(slice(None), *ends)]


def fill(sizes: Any, value: Value, **attrs: Any) -> Value:
    """Return an array of a given shape filled with one value."""
    return np.broadcast_to(value, sizes_of(sizes)) if sizes_of(sizes) else value


def like(number: float) -> Entry:
    """Return an entry that fills an array with one number, in the shape of its input."""
    return lambda x, **attrs: np.full(shape(x), number, dtype=float if isinstance(x, Tracer) else np.asarray(x).dtype)


TABLE: dict[str, Entry] = {
    "Reshape": lambda x, to, **attrs: np.reshape(x, sizes_of(to)), "Squeeze": squeeze,
    "Transpose": lambda x, order, **attrs: np.transpose(x, sizes_of(order)),
    "ConjugateTranspose": lambda x, order, **attrs: np.conjugate(np.transpose(x, sizes_of(order))),
    "ExpandDims": lambda x, axis, **attrs: np.expand_dims(x, int(np.ravel(axis)[0])),
    "Shape": lambda x, *, out_type, **attrs: np.array(shape(x), dtype=type_of(out_type)),
    "ShapeN": lambda *xs, out_type, **attrs: tuple(np.array(shape(x), dtype=type_of(out_type)) for x in xs),
    "Size": lambda x, *, out_type, **attrs: type_of(out_type)(size(x)), "Rank": lambda x, **attrs: np.int32(len(shape(x))),
    "Fill": fill, "ZerosLike": like(0), "OnesLike": like(1),
    "BroadcastTo": lambda x, to, **attrs: np.broadcast_to(x, sizes_of(to)),
    "LinSpace": lambda start, stop, n, **attrs: np.linspace(start, stop, int(n)),
    "Pack": lambda *xs, axis=0, **attrs: np.stack(xs, axis=axis), "Unpack": unpack,
    "ConcatV2": lambda *xs, **attrs: concat(*xs[:-1], axis=xs[-1]), "Concat": lambda axis, *xs, **attrs: concat(*xs, axis=axis),
    "Split": split, "SplitV": split_lengths, "Slice": slice_, "StridedSlice": strided_slice,
    "TensorStridedSliceUpdate": strided_slice_update, "StridedSliceGrad": strided_slice_grad,
    "ReverseV2": reverse, "Reverse": reverse, "Tile": lambda x, reps, **attrs: np.tile(x, sizes_of(reps)),
    "Roll": lambda x, shift, axis, **attrs: np.roll(x, sizes_of(shift), sizes_of(axis)),
    "Pad": pad, "PadV2": pad, "MirrorPad": mirror_pad,
    "SpaceToDepth": lambda x, **attrs: blocks_moved(x, to_depth=True, **attrs),
    "DepthToSpace": lambda x, **attrs: blocks_moved(x, to_depth=False, **attrs),
    "SpaceToBatchND": space_to_batch, "BatchToSpaceND": batch_to_space,
    "SpaceToBatch": lambda x, around, *, block_size, **attrs: space_to_batch(x, (block_size, block_size), around),
    "BatchToSpace": lambda x, crops, *, block_size, **attrs: batch_to_space(x, (block_size, block_size), crops),
}  # fmt: skip
