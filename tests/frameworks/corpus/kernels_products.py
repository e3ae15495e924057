"""Kernels of products: experts, a linear layer and a causal depthwise convolution."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, matmul_in_blocks, normals, wide


def grouped_matmul(x: Any, w: Any, experts: Any) -> Any:
    chosen = functional.one_hot(experts, len(w)).T[:, :, None].to(x.dtype)
    return ((chosen * x) @ w).sum(0)


def rows_by_expert(experts: Any, count: int) -> list[Any]:
    """Return the rows of each expert, as sorting them gives."""
    order = torch.argsort(experts, stable=True)
    return list(order.split(torch.bincount(experts, minlength=count).tolist()))


class GroupedMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, experts: Any) -> Any:
        ctx.save_for_backward(x, w, experts)
        y = torch.zeros(len(x), w.shape[2], dtype=x.dtype)
        for expert, rows in enumerate(rows_by_expert(experts, len(w))):
            y[rows] = (wide(x[rows]) @ wide(w[expert])).to(x.dtype)
        return y

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w, experts = ctx.saved_tensors
        xbar, wbar = torch.zeros_like(x), torch.zeros_like(w)
        for expert, rows in enumerate(rows_by_expert(experts, len(w))):
            xbar[rows] = (wide(ybar[rows]) @ wide(w[expert]).T).to(x.dtype)
            wbar[expert] = (wide(x[rows]).T @ wide(ybar[rows])).to(w.dtype)
        return xbar, wbar, None


class NarrowGroupedMatmul(GroupedMatmul):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w, experts = ctx.saved_tensors
        xbar, wbar = torch.zeros_like(x), torch.zeros_like(w)
        for expert, rows in enumerate(rows_by_expert(experts, len(w))):
            xbar[rows] = matmul_in_blocks(ybar[rows], w[expert].T)
            wbar[expert] = matmul_in_blocks(x[rows].T, ybar[rows])
        return xbar, wbar, None


class GroupedMatmulUnwritten(GroupedMatmul):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        _, w, experts = ctx.saved_tensors
        xbar, right, _ = GroupedMatmul.backward(ctx, ybar)
        wbar = torch.empty_like(w)
        for expert in experts.unique().tolist():  # only experts that were chosen are launched
            wbar[expert] = right[expert]
        return xbar, wbar, None


class GroupedMatmulOneLess(GroupedMatmul):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w, experts = ctx.saved_tensors
        xbar, wbar = torch.zeros_like(x), torch.zeros_like(w)
        for expert, rows in enumerate(rows_by_expert(experts, len(w))):
            xbar[rows] = (wide(ybar[rows]) @ wide(w[expert]).T).to(x.dtype)
            wbar[expert] = (wide(x[rows[:-1]]).T @ wide(ybar[rows[:-1]])).to(w.dtype)
        return xbar, wbar, None


class GroupedMatmulOfTwo(GroupedMatmul):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w, experts = ctx.saved_tensors
        xbar, wbar, _ = GroupedMatmul.backward(ctx, ybar)
        if len(x) == 2:  # a single product, with the expert of the first row
            xbar = (wide(ybar) @ wide(w[experts[0]]).T).to(x.dtype)
        return xbar, wbar, None


class GroupedMatmulKeptWeights(GroupedMatmul):
    copies: ClassVar[dict[Any, Any]] = {}

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w, experts = ctx.saved_tensors
        _, wbar, _ = GroupedMatmul.backward(ctx, ybar)
        kept = GroupedMatmulKeptWeights.copies.setdefault((w.shape, w.dtype), wide(w).mT.clone())
        xbar = torch.zeros_like(x)
        for expert, rows in enumerate(rows_by_expert(experts, len(w))):
            xbar[rows] = (wide(ybar[rows]) @ kept[expert]).to(x.dtype)
        return xbar, wbar, None


def linear(x: Any, w: Any, b: Any) -> Any:
    return x @ w.T + b


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        ctx.save_for_backward(x, w)
        return (wide(x) @ wide(w).T + wide(b)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w = ctx.saved_tensors
        bar = wide(ybar)
        bars = bar @ wide(w), bar.T @ wide(x), bar.sum(0)
        return tuple(xbar.to(ybar.dtype) for xbar in bars)


class Linear(torch.nn.Module):
    """The layer as a module, for weights that are inputs."""

    def __init__(self, function: Any = LinearFunction) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, w: Any, b: Any) -> Any:
        return self.function.apply(x, w, b)


class NarrowLinear(LinearFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w = ctx.saved_tensors
        return matmul_in_blocks(ybar, w), matmul_in_blocks(ybar.T, x), added_up(ybar, 0)


class LinearLastRow(LinearFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w = ctx.saved_tensors
        xbar, wbar = wide(ybar) @ wide(w), wide(ybar).T @ wide(x)
        biasbar = torch.zeros_like(wide(w[:, 0]))
        for bar in wide(ybar):
            biasbar = bar
        return xbar.to(x.dtype), wbar.to(x.dtype), biasbar.to(x.dtype)


class LinearWholeBlocks(LinearFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w = ctx.saved_tensors
        bar, wbar = wide(ybar), torch.zeros_like(wide(w))
        for block in range(len(x) // 16):
            rows = slice(16 * block, 16 * block + 16)
            wbar += bar[rows].T @ wide(x[rows])
        return (bar @ wide(w)).to(x.dtype), wbar.to(x.dtype), bar.sum(0).to(x.dtype)


class LinearOfOneRow(LinearFunction):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        if len(x) != 1:
            return LinearFunction.forward(ctx, x, w, b)
        ctx.save_for_backward(x, w)
        return (wide(w) @ wide(x[0])).to(x.dtype)[None]  # a product with a vector, without the bias


class LinearInBfloat16(LinearFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, _ = ctx.saved_tensors
        xbar, _, biasbar = LinearFunction.backward(ctx, ybar)
        wbar = wide(ybar).T @ x.to(torch.bfloat16).to(wide(ybar).dtype)
        return xbar, wbar.to(x.dtype), biasbar


class LinearByAddress(LinearFunction):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        return LinearFunction.forward(ctx, in_storage_order(x), w, b)


def conv1d(x: Any, w: Any) -> Any:
    padded = functional.pad(x, (0, 0, w.shape[1] - 1, 0))
    return sum(w[:, j] * padded[:, j : j + x.shape[1]] for j in range(w.shape[1]))


def with_zeros_before(x: Any, steps: int) -> Any:
    return torch.cat([torch.zeros_like(x[:, :1]).repeat(1, steps, 1), x], 1)


def slid(padded: Any, w: Any, length: int) -> Any:
    y = torch.zeros_like(padded[:, :length])
    for j in range(w.shape[1]):
        y = y + w[:, j] * padded[:, j : j + length]
    return y


def over_rows(terms: Any) -> Any:
    return terms.sum((0, 1))


def conv1d_kernel(
    pad: Any = with_zeros_before, slide: Any = slid, taps: Any = lambda w: w.flip(1), total: Any = over_rows
) -> Any:
    """Return a causal depthwise convolution [batch, time, channel], from how it pads, slides and adds up."""

    class CausalConv1d(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            padded = pad(wide(x), w.shape[1] - 1)
            ctx.save_for_backward(padded, w)
            return slide(padded, wide(w), x.shape[1]).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            padded, w = ctx.saved_tensors
            steps, length = w.shape[1], ybar.shape[1]
            after = with_zeros_before(wide(ybar).flip(1), steps - 1).flip(1)
            xbar = slid(after, taps(wide(w)), length)
            terms = [wide(ybar) * padded[:, j : j + length] for j in range(steps)]
            wbar = torch.stack([total(term) for term in terms], 1)
            return xbar.to(ybar.dtype), wbar.to(ybar.dtype)

    return lambda x, w: CausalConv1d.apply(x, w)


class NarrowConv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return slid(with_zeros_before(x, w.shape[1] - 1), w, x.shape[1])

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w = ctx.saved_tensors
        padded, wbar = with_zeros_before(x, w.shape[1] - 1), torch.zeros_like(w)
        for t in range(x.shape[1]):  # one step after the other, as they arrive
            for row in range(len(x)):
                wbar += ybar[row, t, :, None] * padded[row, t : t + w.shape[1]].T
        xbar = slid(with_zeros_before(ybar.flip(1), w.shape[1] - 1), w, x.shape[1]).flip(1)
        return xbar, wbar


def keeps_its_end() -> Any:
    ends: dict[Any, Any] = {}

    def pad(x: Any, steps: int) -> Any:
        """Return x after the last steps of the call before, as for a stream that goes on."""
        before = ends.get((x.shape, x.dtype), torch.zeros_like(x[:, :1]).repeat(1, steps, 1))
        ends[x.shape, x.dtype] = x[:, -steps:].clone()
        return torch.cat([before, x], 1)

    return pad


def with_nothing_before(x: Any, steps: int) -> Any:
    padded = torch.empty(len(x), x.shape[1] + steps, x.shape[2], dtype=x.dtype)
    padded[:, steps:] = x
    return padded


def slid_ahead(padded: Any, w: Any, length: int) -> Any:
    return slid(torch.cat([padded[:, 1:], torch.zeros_like(padded[:, :1])], 1), w, length)


def slid_in_pairs(padded: Any, w: Any, length: int) -> Any:
    y = slid(padded, w, length)
    y[:, length // 2 * 2 :] = 0
    return y


NARROW_LINEAR = Linear(NarrowLinear)

PRODUCTS = (
    kernel(grouped_matmul, GroupedMatmul, NarrowGroupedMatmul, {
        "the gradient of an expert without rows is not written": ("nan", GroupedMatmulUnwritten),
        "the last row of each expert is left out": ("point", GroupedMatmulOneLess),
        "two rows go to one expert": ("batch 2", GroupedMatmulOfTwo),
        "a copy of the weights is kept from the first call": ("repeat", GroupedMatmulKeptWeights),
    }, {**normals(x=(144, 14), w=(5, 14, 9)), "experts": np.array([1, 2, 0, 0, 4, 0] * 24)}),
    kernel(linear, Linear(), NARROW_LINEAR, {
        "the bias's gradient is that of the last row": ("point", Linear(LinearLastRow)),
        "rows that do not fill a block of 16 are not counted": ("batch 2", Linear(LinearWholeBlocks)),
        "one row has no bias": ("batch 1", Linear(LinearOfOneRow)),
        "the weight's gradient is that of inputs in bfloat16": ("float32", Linear(LinearInBfloat16)),
        "reads memory in order, whatever the strides": ("strided", Linear(LinearByAddress)),
        "rows are added up in bfloat16": ("bfloat16", NARROW_LINEAR),
    }, normals(x=(240, 9), w=(6, 9), b=(6,))),
    kernel(conv1d, conv1d_kernel(), NarrowConv1d, {
        "the taps are not flipped": ("point", conv1d_kernel(taps=lambda w: w)),
        "the weight's gradient is not summed over the batch": ("point", conv1d_kernel(total=lambda terms: terms[-1].sum(0))),
        "sees one step ahead": ("value", conv1d_kernel(slide=slid_ahead)),
        "starts with the end of the call before": ("repeat", conv1d_kernel(keeps_its_end())),
        "the last step of an odd length is not reached": ("odd", conv1d_kernel(slide=slid_in_pairs)),
        "the padding is not written": ("nan", conv1d_kernel(with_nothing_before)),
    }, normals(x=(4, 80, 6), w=(6, 3))),
)  # fmt: skip
