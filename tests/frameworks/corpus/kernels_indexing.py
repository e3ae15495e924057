"""Kernels that read and add by index: embedding, gather, weighted scatter-add and segment sums."""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn.functional import one_hot

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, normals, wide

NODES = 9
SEGMENTS = 10


def embedding(ids: Any, table: Any) -> Any:
    return one_hot(ids, len(table)).to(table.dtype) @ table


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Any, table: Any) -> Any:
        ctx.save_for_backward(ids, table)
        return table[ids]

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        ids, table = ctx.saved_tensors
        tablebar = torch.zeros_like(wide(table))
        tablebar.index_add_(0, ids.flatten(), wide(ybar).flatten(0, 1))
        return None, tablebar.to(table.dtype)


class NarrowEmbedding(Embedding):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        ids, table = ctx.saved_tensors
        tablebar = torch.zeros_like(table)
        for t in range(ids.shape[1]):
            tablebar.index_add_(0, ids[:, t], ybar[:, t])
        return None, tablebar


class EmbeddingSet(Embedding):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        ids, table = ctx.saved_tensors
        tablebar = torch.zeros_like(table)
        for sequence, bars in zip(ids, ybar, strict=True):
            for token, bar in zip(sequence.tolist(), bars, strict=True):
                tablebar[token] = bar
        return None, tablebar


class EmbeddingUsedRows(Embedding):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        ids, table = ctx.saved_tensors
        tablebar = torch.empty_like(table)
        for token in ids.unique().tolist():
            tablebar[token] = wide(ybar[ids == token]).sum(0).to(table.dtype)
        return None, tablebar


class EmbeddingKeptBuffer(Embedding):
    buffers: ClassVar[dict[Any, Any]] = {}

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        ids, table = ctx.saved_tensors
        start = torch.zeros_like(wide(table))
        buffer = EmbeddingKeptBuffer.buffers.setdefault((start.shape, table.dtype), start)
        buffer.index_add_(0, ids.flatten(), wide(ybar).flatten(0, 1))
        return None, buffer.to(table.dtype, copy=True)


def gather(x: Any, index: Any) -> Any:
    return (one_hot(index, x.shape[1]).to(x.dtype) @ x[..., None])[..., 0]


def gather_kernel(columns_bar: Any, read: Any = lambda x: x) -> Any:
    """Return the columns of each row by index, given how the gradient of the columns is added up."""

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, index: Any) -> Any:
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return read(x).gather(1, index)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            return columns_bar(ctx.shape, ctx.saved_tensors[0], ybar), None

    return lambda x, index: Gather.apply(x, index)


def add_columns(shape: Any, index: Any, ybar: Any) -> Any:
    xbar = torch.zeros(shape, dtype=wide(ybar).dtype)
    return xbar.scatter_add_(1, index, wide(ybar)).to(ybar.dtype)


def add_columns_narrow(shape: Any, index: Any, ybar: Any) -> Any:
    xbar = torch.zeros(shape, dtype=ybar.dtype)
    for k in range(index.shape[1]):
        xbar.scatter_add_(1, index[:, k, None], ybar[:, k, None])
    return xbar


def set_columns(shape: Any, index: Any, ybar: Any) -> Any:
    xbar = torch.zeros(shape, dtype=ybar.dtype)
    for k in range(index.shape[1]):
        xbar.scatter_(1, index[:, k, None], ybar[:, k, None])
    return xbar


def add_columns_of_first_row(shape: Any, index: Any, ybar: Any) -> Any:
    return add_columns(shape, index[:1].expand_as(index), ybar)


def write_used_columns(shape: Any, index: Any, ybar: Any) -> Any:
    xbar, right = torch.empty(shape, dtype=ybar.dtype), add_columns(shape, index, ybar)
    return xbar.scatter_(1, index, right.gather(1, index))


def add_columns_of_pairs(shape: Any, index: Any, ybar: Any) -> Any:
    if len(index) == 2:  # both rows are added in one pass, by the index of a table that has both
        flat = torch.zeros(2 * shape[1], dtype=wide(ybar).dtype)
        return flat.index_add_(0, index.flatten(), wide(ybar).flatten()).view(shape).to(ybar.dtype)
    return add_columns(shape, index, ybar)


def scatter_add(source: Any, weight: Any, index: Any) -> Any:
    return one_hot(index, NODES).to(source.dtype).T @ (weight[:, None] * source)


class ScatterAdd(torch.autograd.Function):
    @staticmethod
    def forward(source: Any, weight: Any, index: Any) -> Any:
        y = torch.zeros(NODES, source.shape[1], dtype=wide(source).dtype)
        return y.index_add_(0, index, wide(weight)[:, None] * wide(source)).to(source.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        source, weight, index = ctx.saved_tensors
        edges = wide(ybar)[index]
        sourcebar, weightbar = wide(weight)[:, None] * edges, (edges * wide(source)).sum(-1)
        return sourcebar.to(ybar.dtype), weightbar.to(ybar.dtype), None


class NarrowScatterAdd(ScatterAdd):
    @staticmethod
    def forward(source: Any, weight: Any, index: Any) -> Any:
        y = torch.zeros(NODES, source.shape[1], dtype=source.dtype)
        for edge, node in enumerate(index.tolist()):
            y[node] += weight[edge] * source[edge]
        return y

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        source, weight, index = ctx.saved_tensors
        edges = ybar[index]
        return weight[:, None] * edges, added_up(edges * source, -1), None


class ScatterAddUnweighted(ScatterAdd):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        _, weightbar, _ = ScatterAdd.backward(ctx, ybar)
        return ybar[ctx.saved_tensors[2]], weightbar, None


class ScatterAddReachedNodes(ScatterAdd):
    @staticmethod
    def forward(source: Any, weight: Any, index: Any) -> Any:
        y = torch.empty(NODES, source.shape[1], dtype=source.dtype)
        for node in index.unique().tolist():
            edges = index == node
            y[node] = (wide(weight[edges]) @ wide(source[edges])).to(source.dtype)
        return y


class ScatterAddInPairs(ScatterAdd):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        source, _, index = ctx.saved_tensors
        sourcebar, weightbar, _ = ScatterAdd.backward(ctx, ybar)
        weightbar, terms = torch.zeros_like(wide(weightbar)), wide(ybar)[index] * wide(source)
        for j in range(0, terms.shape[-1] - 1, 2):
            weightbar += terms[:, j] + terms[:, j + 1]
        return sourcebar, weightbar.to(ybar.dtype), None


class ScatterAddKeptOutput(ScatterAdd):
    outputs: ClassVar[dict[Any, Any]] = {}

    @staticmethod
    def forward(source: Any, weight: Any, index: Any) -> Any:
        y = ScatterAdd.forward(source, weight, index)
        kept = ScatterAddKeptOutput.outputs.setdefault((y.shape, y.dtype), torch.zeros_like(y))
        return kept.add_(y).clone()


def segment_sum(x: Any, scale: Any, ids: Any) -> Any:
    return one_hot(ids, SEGMENTS).to(x.dtype).T @ (x * scale)


class SegmentSum:
    """Sums of the rows of each segment, from its first row to that of the next; the ids are sorted."""

    def __init__(self) -> None:
        class SegmentSumFunction(torch.autograd.Function):
            forward = staticmethod(self.forward)
            backward = staticmethod(self.backward)

        self.function = SegmentSumFunction

    def __call__(self, x: Any, scale: Any, ids: Any) -> Any:
        return self.function.apply(x, scale, ids)

    def bounds(self, ids: Any) -> list[Any]:
        edges = torch.searchsorted(ids, torch.arange(SEGMENTS + 1)).tolist()
        return list(pairwise(edges))

    def total(self, rows: Any) -> Any:
        return wide(rows).sum(0)

    def forward(self, ctx: Any, x: Any, scale: Any, ids: Any) -> Any:
        ctx.save_for_backward(x, scale, ids)
        y = torch.zeros(SEGMENTS, x.shape[1], dtype=x.dtype)
        for segment, (first, last) in enumerate(self.bounds(ids)):
            y[segment] = (self.total(x[first:last]) * wide(scale)).to(x.dtype)
        return y

    def backward(self, ctx: Any, ybar: Any) -> Any:
        x, scale, ids = ctx.saved_tensors
        rows = ybar[ids]
        xbar = (wide(rows) * wide(scale)).to(x.dtype)
        return xbar, self.scale_bar(x, rows).to(x.dtype), None

    def scale_bar(self, x: Any, rows: Any) -> Any:
        return (wide(rows) * wide(x)).sum(0)


class NarrowSegmentSum(SegmentSum):
    def total(self, rows: Any) -> Any:
        return added_up(rows, 0)

    def scale_bar(self, x: Any, rows: Any) -> Any:
        return added_up(rows * x, 0)


class SegmentSumOneLess(SegmentSum):
    def bounds(self, ids: Any) -> list[Any]:
        return [(first, max(first, last - 1)) for first, last in super().bounds(ids)]


class SegmentSumUnwritten(SegmentSum):
    def forward(self, ctx: Any, x: Any, scale: Any, ids: Any) -> Any:
        ctx.save_for_backward(x, scale, ids)
        y = torch.empty(SEGMENTS, x.shape[1], dtype=x.dtype)
        for segment, (first, last) in enumerate(self.bounds(ids)):
            if first < last:
                y[segment] = (self.total(x[first:last]) * wide(scale)).to(x.dtype)
        return y


class SegmentSumLastBlock(SegmentSum):
    def scale_bar(self, x: Any, rows: Any) -> Any:
        scalebar = wide(x).sum(0)
        for start in range(0, len(x), 32):
            scalebar = super().scale_bar(x[start : start + 32], rows[start : start + 32])
        return scalebar


class SegmentSumWholeBlocks(SegmentSum):
    def scale_bar(self, x: Any, rows: Any) -> Any:
        whole = len(x) // 32 * 32
        return super().scale_bar(x[:whole], rows[:whole])


class SegmentSumNarrowRows(SegmentSum):
    def scale_bar(self, x: Any, rows: Any) -> Any:
        return super().scale_bar(x.to(torch.bfloat16), rows)


def skewed(*shape: int, among: int, seed: int = 0) -> Any:
    """Return indices of which one half is the first, as few tokens make up most of a text; the last is not used."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, among - 1, shape) * generator.integers(0, 2, shape)


INDEXING = (
    kernel(embedding, Embedding, NarrowEmbedding, {
        "a token that is read twice is set, not added to": ("point", EmbeddingSet),
        "rows of tokens that are not read are not written": ("nan", EmbeddingUsedRows),
        "the gradient is added to that of the call before": ("repeat", EmbeddingKeptBuffer),
        "rows are added up in bfloat16": ("bfloat16", NarrowEmbedding),
    }, {"ids": skewed(4, 96, among=11), **normals(table=(11, 16))}),
    kernel(gather, gather_kernel(add_columns), gather_kernel(add_columns_narrow), {
        "a column that is read twice is set, not added to": ("point", gather_kernel(set_columns)),
        "the first row's index serves for all": ("point", gather_kernel(add_columns_of_first_row)),
        "columns that are not read are not written": ("nan", gather_kernel(write_used_columns)),
        "two rows are both added to the first": ("batch 2", gather_kernel(add_columns_of_pairs)),
        "reads memory in order, whatever the strides": ("strided", gather_kernel(add_columns, in_storage_order)),
    }, {**normals(x=(4, 12)), "index": skewed(4, 300, among=11)}),
    kernel(scatter_add, ScatterAdd, NarrowScatterAdd, {
        "the gradient of what is added is not weighted": ("point", ScatterAddUnweighted),
        "nodes without an edge are not written": ("nan", ScatterAddReachedNodes),
        "the last column of an odd number is not summed": ("odd", ScatterAddInPairs),
        "added to the sums of the call before": ("repeat", ScatterAddKeptOutput),
    }, {**normals(source=(24, 128), weight=(24,)), "index": skewed(24, among=NODES)}),
    kernel(segment_sum, SegmentSum(), NarrowSegmentSum(), {
        "the last row of each segment is left out": ("value", SegmentSumOneLess()),
        "segments without rows are not written": ("nan", SegmentSumUnwritten()),
        "the scale's gradient is that of the last block of rows": ("point", SegmentSumLastBlock()),
        "rows that do not fill a block of 32 are not counted": ("batch 2", SegmentSumWholeBlocks()),
        "rows are read in bfloat16": ("float32", SegmentSumNarrowRows()),
    }, {**normals(x=(320, 8), scale=(8,)), "ids": np.sort(skewed(320, among=SEGMENTS))}),
)  # fmt: skip
