"""Kernels along rows: softmax, log-softmax, log-sum-exp and the cumulative sum."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, normals, softmax_added_up, wide


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        z = wide(x)
        e = torch.exp(z - z.amax(-1, keepdim=True))
        y = (e / e.sum(-1, keepdim=True)).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p, hbar = wide(ctx.saved_tensors[0]), wide(ybar)
        return (p * (hbar - (p * hbar).sum(-1, keepdim=True))).to(ybar.dtype)


class NarrowSoftmax(Softmax):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = softmax_added_up(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (y,) = ctx.saved_tensors
        return y * (ybar - added_up(y * ybar, -1, keepdim=True))


class SoftmaxDiagonal(Softmax):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p = wide(ctx.saved_tensors[0])
        return (p * (1 - p) * wide(ybar)).to(ybar.dtype)


class SoftmaxInPairs(Softmax):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p, hbar = wide(ctx.saved_tensors[0]), wide(ybar)
        dot = (p * hbar).sum(-1, keepdim=True)
        xbar = torch.zeros_like(ybar)
        for j in range(0, p.shape[-1] - 1, 2):
            pair = slice(j, j + 2)
            xbar[..., pair] = (p[..., pair] * (hbar[..., pair] - dot)).to(ybar.dtype)
        return xbar


class SoftmaxByAddress(Softmax):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Softmax.forward(ctx, in_storage_order(x))


class SoftmaxOverInput(Softmax):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x -= x.amax(-1, keepdim=True)
        return Softmax.forward(ctx, x)


def log_softmax(x: Any) -> Any:
    shifted = x - x.amax(-1, keepdim=True).detach()
    return shifted - torch.log(torch.exp(shifted).sum(-1, keepdim=True))


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        z = wide(x)
        return (z - torch.logsumexp(z, -1, keepdim=True)).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p, hbar = torch.softmax(wide(ctx.saved_tensors[0]), -1), wide(ybar)
        return (hbar - p * hbar.sum(-1, keepdim=True)).to(ybar.dtype)


class NarrowLogSoftmax(LogSoftmax):
    @staticmethod
    def forward(x: Any) -> Any:
        shifted = x - x.amax(-1, keepdim=True)
        return shifted - torch.log(added_up(torch.exp(shifted), -1, keepdim=True))

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ybar - softmax_added_up(x) * added_up(ybar, -1, keepdim=True)


class LogSoftmaxOfLikelihood(LogSoftmax):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p = torch.softmax(wide(ctx.saved_tensors[0]), -1)
        return (wide(ybar) + p).to(ybar.dtype)


class LogSoftmaxOfTwoRows(LogSoftmax):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        p, hbar = torch.softmax(wide(ctx.saved_tensors[0]), -1), wide(ybar)
        total = hbar.sum(-1, keepdim=True)
        if len(total) == 2:  # both rows in one block
            total = total.sum(0, keepdim=True)
        return (hbar - p * total).to(ybar.dtype)


class LogSoftmaxToBaseTwo(LogSoftmax):
    @staticmethod
    def forward(x: Any) -> Any:
        z = wide(x)
        z = z - z.amax(-1, keepdim=True)
        return (z - torch.log2(torch.exp(z).sum(-1, keepdim=True))).to(x.dtype)


def logsumexp(x: Any) -> Any:
    top = x.amax(-1, keepdim=True).detach()
    return torch.log(torch.exp(x - top).sum(-1)) + top[..., 0]


def log_sum_exp_kernel(backward: Any, with_top: bool = True) -> Any:
    """Return the log-sum-exp of rows, given its backward pass from the exponentials, their sum and the cotangent."""

    class LogSumExp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            z = wide(x)
            top = z.amax(-1, keepdim=True)
            ctx.save_for_backward(x, top)
            y = torch.log(torch.exp(z - top).sum(-1))
            return (y + top[..., 0] if with_top else y).to(x.dtype)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ybar: Any) -> Any:
            x, top = ctx.saved_tensors
            return backward(torch.exp(wide(x) - top), wide(ybar)[..., None]).to(x.dtype)

    return lambda x: LogSumExp.apply(x)


class NarrowLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        top = x.amax(-1, keepdim=True)
        e = torch.exp(x - top)
        total = added_up(e, -1)
        ctx.save_for_backward(e, total)
        return torch.log(total) + top[..., 0]

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        e, total = ctx.saved_tensors
        return e * (ybar / total)[..., None]


def shares(e: Any, ybar: Any) -> Any:
    return ybar * e / e.sum(-1, keepdim=True)


def shares_by_pairs(e: Any, ybar: Any) -> Any:
    even = e.shape[-1] // 2 * 2
    return ybar * e / (e[..., :even:2] + e[..., 1:even:2]).sum(-1, keepdim=True)


def shares_of_kept_sums() -> Any:
    sums: dict[Any, Any] = {}  # by shape, as a workspace is

    def backward(e: Any, ybar: Any) -> Any:
        return ybar * e / sums.setdefault(e.shape, e.sum(-1, keepdim=True))

    return backward


def cumsum(x: Any) -> Any:
    return torch.cumsum(x, -1)


def scanned(x: Any, block: int, carry_dtype: Any = None, carries_tail: bool = True) -> Any:
    """Return the cumulative sum along rows, block after block, each with the carry of those before it."""
    y = torch.empty_like(x)
    carry = torch.zeros_like(x[..., :1], dtype=carry_dtype or x.dtype)
    for start in range(0, x.shape[-1], block):
        part = x[..., start : start + block]
        if carries_tail or part.shape[-1] == block:
            y[..., start : start + block] = part.cumsum(-1) + carry
        else:
            y[..., start : start + block] = part.cumsum(-1)
        carry = (carry + part.sum(-1, keepdim=True)).to(carry.dtype)
    return y


class CumulativeSum(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return scanned(wide(x), 64).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass  # the gradient needs no values

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return scanned(wide(ybar).flip(-1), 64).flip(-1).to(ybar.dtype)


class NarrowCumulativeSum(CumulativeSum):
    @staticmethod
    def forward(x: Any) -> Any:
        return scanned(x, 1)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return scanned(ybar.flip(-1), 1).flip(-1)


class CumulativeSumForwards(CumulativeSum):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return scanned(wide(ybar), 64).to(ybar.dtype)


class CumulativeSumExclusive(CumulativeSum):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        hbar = wide(ybar)
        return (scanned(hbar.flip(-1), 64).flip(-1) - hbar).to(ybar.dtype)


class CumulativeSumInPairs(CumulativeSum):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return scanned(wide(ybar).flip(-1), 2, carries_tail=False).flip(-1).to(ybar.dtype)


class CumulativeSumNarrowCarry(CumulativeSum):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return scanned(wide(ybar).flip(-1), 64, torch.bfloat16).flip(-1).to(ybar.dtype)


ROWS = (
    kernel(softmax, Softmax, NarrowSoftmax, {
        "only the diagonal of the Jacobian": ("point", SoftmaxDiagonal),
        "the last entry of an odd row is not reached": ("odd", SoftmaxInPairs),
        "reads memory in order, whatever the strides": ("strided", SoftmaxByAddress),
        "the maximum is subtracted from the input itself": ("in place", SoftmaxOverInput),
    }, normals(x=(8, 240))),
    kernel(log_softmax, LogSoftmax, NarrowLogSoftmax, {
        "the cotangent is taken for that of a likelihood": ("point", LogSoftmaxOfLikelihood),
        "two rows share one sum": ("batch 2", LogSoftmaxOfTwoRows),
        "the logarithm is to base two": ("value", LogSoftmaxToBaseTwo),
    }, normals(x=(5, 256))),
    kernel(logsumexp, log_sum_exp_kernel(shares), NarrowLogSumExp, {
        "not divided by the sum": ("point", log_sum_exp_kernel(lambda e, ybar: ybar * e)),
        "the sums of the first call are kept": ("repeat", log_sum_exp_kernel(shares_of_kept_sums())),
        "the last entry of an odd row is not summed": ("odd", log_sum_exp_kernel(shares_by_pairs)),
        "the maximum is not added back": ("value", log_sum_exp_kernel(shares, with_top=False)),
    }, normals(x=(8, 220))),
    kernel(cumsum, CumulativeSum, NarrowCumulativeSum, {
        "not reversed": ("point", CumulativeSumForwards),
        "the entry itself is left out": ("point", CumulativeSumExclusive),
        "the last entry of an odd row has no carry": ("odd", CumulativeSumInPairs),
        "the carry is in bfloat16": ("float32", CumulativeSumNarrowCarry),
    }, normals(x=(4, 256))),
)  # fmt: skip
