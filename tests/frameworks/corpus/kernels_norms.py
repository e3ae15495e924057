"""Kernels that normalise: layer norm, RMS norm and group norm."""

from typing import Any, ClassVar

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, normals, wide

EPS = 1e-5
GROUPS = 2


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS) * gain + bias


def row_statistics(z: Any) -> tuple[Any, Any]:
    mean = z.mean(-1, keepdim=True)
    return mean, torch.rsqrt((z - mean).square().mean(-1, keepdim=True) + EPS)


def layer_norm_xbar(xhat: Any, rstd: Any, hbar: Any) -> Any:
    return rstd * (hbar - hbar.mean(-1, keepdim=True) - xhat * (hbar * xhat).mean(-1, keepdim=True))


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, bias: Any) -> Any:
        mean, rstd = row_statistics(wide(x))
        ctx.save_for_backward(x, gain, mean, rstd)
        return ((wide(x) - mean) * rstd * wide(gain) + wide(bias)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, mean, rstd = ctx.saved_tensors
        xhat, bar = (wide(x) - mean) * rstd, wide(ybar)
        xbar = layer_norm_xbar(xhat, rstd, bar * wide(gain))
        return xbar.to(x.dtype), (bar * xhat).sum(0).to(x.dtype), bar.sum(0).to(x.dtype)


class NarrowLayerNorm(LayerNorm):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, mean, rstd = ctx.saved_tensors
        xhat, hbar = (wide(x) - mean) * rstd, wide(ybar) * wide(gain)
        n = x.shape[-1]
        sums = [added_up(h.to(x.dtype), -1, keepdim=True) for h in (hbar, hbar * xhat)]
        xbar = rstd * (hbar - sums[0] / n - xhat * sums[1] / n)
        return xbar.to(x.dtype), added_up(ybar * xhat.to(x.dtype), 0), added_up(ybar, 0)


class LayerNormWithoutMean(LayerNorm):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, mean, rstd = ctx.saved_tensors
        xhat, bar = (wide(x) - mean) * rstd, wide(ybar)
        hbar = bar * wide(gain)
        xbar = rstd * (hbar - xhat * (hbar * xhat).mean(-1, keepdim=True))
        return xbar.to(x.dtype), (bar * xhat).sum(0).to(x.dtype), bar.sum(0).to(x.dtype)


class LayerNormLastBlock(LayerNorm):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, mean, rstd = ctx.saved_tensors
        xhat, bar = (wide(x) - mean) * rstd, wide(ybar)
        xbar = layer_norm_xbar(xhat, rstd, bar * wide(gain))
        gainbar, biasbar = torch.zeros_like(wide(gain)), torch.zeros_like(wide(gain))
        for start in range(0, len(x), 16):
            block = slice(start, start + 16)
            gainbar = (bar[block] * xhat[block]).sum(0)
            biasbar += bar[block].sum(0)
        return xbar.to(x.dtype), gainbar.to(x.dtype), biasbar.to(x.dtype)


class LayerNormOfTwoRows(LayerNorm):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, mean, rstd = ctx.saved_tensors
        xhat, bar = (wide(x) - mean) * rstd, wide(ybar)
        xbar = layer_norm_xbar(xhat, rstd, bar * wide(gain))
        programs = min(4, len(x)) // 2 * 2 or 1  # each adds up every programs-th row
        parts = torch.stack([(bar * xhat)[k::programs].sum(0) for k in range(programs)])
        gainbar = parts[0] if len(parts) <= 2 else parts.sum(0)
        return xbar.to(x.dtype), gainbar.to(x.dtype), bar.sum(0).to(x.dtype)


class LayerNormKeptStatistics(LayerNorm):
    workspace: ClassVar[dict[Any, Any]] = {}

    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, bias: Any) -> Any:
        y = LayerNorm.forward(ctx, x, gain, bias)
        statistics = LayerNormKeptStatistics.workspace.setdefault((x.shape, x.dtype), row_statistics(wide(x)))
        ctx.save_for_backward(x, gain, *statistics)
        return y


class LayerNormUnbiased(LayerNorm):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, bias: Any) -> Any:
        LayerNorm.forward(ctx, x, gain, bias)
        z = wide(x)
        xhat = (z - z.mean(-1, keepdim=True)) * torch.rsqrt(z.var(-1, keepdim=True) + EPS)
        return (xhat * wide(gain) + wide(bias)).to(x.dtype)


def rms_norm(x: Any, gain: Any) -> Any:
    return functional.rms_norm(x, x.shape[-1:], gain, EPS)


def rms_norm_bars(x: Any, gain: Any, rrms: Any, ybar: Any) -> tuple[Any, Any]:
    xhat, hbar = wide(x) * rrms, wide(ybar) * wide(gain)
    xbar = rrms * (hbar - xhat * (hbar * xhat).mean(-1, keepdim=True))
    return xbar.to(x.dtype), (wide(ybar) * xhat).sum((0, 1)).to(x.dtype)


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, eps: float) -> Any:
        rrms = torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, gain, rrms)
        return (wide(x) * rrms * wide(gain)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, ybar: Any) -> Any:
        return *rms_norm_bars(*ctx.saved_tensors, ybar), None


class RMSNorm(torch.nn.Module):
    """The norm as a module, which keeps only its settings: the gain is an input."""

    def __init__(self, function: Any = RMSNormFunction, eps: float = EPS) -> None:
        super().__init__()
        self.function, self.eps = function, eps

    def forward(self, x: Any, gain: Any) -> Any:
        return self.function.apply(x, gain, self.eps)


class NarrowRMSNorm(RMSNormFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, rrms = ctx.saved_tensors
        xhat, hbar, root = (wide(x) * rrms).to(x.dtype), ybar * gain, rrms.to(x.dtype)
        xbar = root * (hbar - xhat * added_up(hbar * xhat, -1, keepdim=True) / x.shape[-1])
        return xbar, added_up((ybar * xhat).flatten(0, 1), 0), None


class RMSNormTotal(RMSNormFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, rrms = ctx.saved_tensors
        xhat, bar = wide(x) * rrms, wide(ybar)
        hbar = bar * wide(gain)
        xbar = rrms * (hbar - xhat * (hbar * xhat).sum(-1, keepdim=True))
        return xbar.to(x.dtype), (bar * xhat).sum((0, 1)).to(x.dtype), None


class RMSNormLastSequence(RMSNormFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, rrms = ctx.saved_tensors
        xbar, gainbar = rms_norm_bars(x, gain, rrms, ybar)
        for rows in wide(ybar) * wide(x) * rrms:
            gainbar = rows.sum(0).to(x.dtype)
        return xbar, gainbar, None


class RMSNormOverInput(RMSNormFunction):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, eps: float) -> Any:
        y = RMSNormFunction.forward(ctx, x.clone(), gain, eps)
        return x.copy_(y).clone()  # the input is taken for scratch


class RMSNormNarrowRoot(RMSNormFunction):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, gain, rrms = ctx.saved_tensors
        return *rms_norm_bars(x, gain, rrms.to(torch.bfloat16).to(rrms.dtype), ybar), None


def group_norm(x: Any, gain: Any, bias: Any) -> Any:
    return functional.group_norm(x.transpose(1, 2), GROUPS, gain, bias, EPS).transpose(1, 2)


class GroupNorm:
    """A norm of channels that come last, in groups; its methods are the passes of one torch.autograd.Function."""

    def __init__(self) -> None:
        class GroupNormFunction(torch.autograd.Function):
            forward = staticmethod(self.forward)
            backward = staticmethod(self.backward)

        self.function = GroupNormFunction

    def __call__(self, x: Any, gain: Any, bias: Any) -> Any:
        return self.function.apply(x, gain, bias)

    def inside(self, x: Any) -> Any:
        return wide(x)

    def grouped(self, x: Any) -> Any:
        return self.inside(x).unflatten(-1, (GROUPS, -1))

    def mean(self, z: Any) -> Any:
        return z.mean((1, 3), keepdim=True)

    def over_rows(self, terms: Any) -> Any:
        return terms.sum((0, 1))

    def forward(self, ctx: Any, x: Any, gain: Any, bias: Any) -> Any:
        z = self.grouped(x)
        centred = z - self.mean(z)
        rstd = torch.rsqrt(self.mean(centred.square()) + EPS)
        ctx.save_for_backward(x, gain, rstd)
        return ((centred * rstd).flatten(2) * self.inside(gain) + self.inside(bias)).to(x.dtype)

    def backward(self, ctx: Any, ybar: Any) -> Any:
        x, gain, rstd = ctx.saved_tensors
        z, bar = self.grouped(x), self.inside(ybar)
        xhat, hbar = (z - self.mean(z)) * rstd, self.grouped(bar * self.inside(gain))
        xbar = rstd * (hbar - self.mean(hbar) - xhat * self.mean(hbar * xhat))
        gainbar, biasbar = self.over_rows(bar * xhat.flatten(2)), self.over_rows(bar)
        return xbar.flatten(2).to(x.dtype), gainbar.to(x.dtype), biasbar.to(x.dtype)


class NarrowGroupNorm(GroupNorm):
    def inside(self, x: Any) -> Any:
        return x

    def mean(self, z: Any) -> Any:
        terms = z.transpose(1, 2).flatten(2)
        return (added_up(terms, -1) / terms.shape[-1])[:, None, :, None]

    def over_rows(self, terms: Any) -> Any:
        return added_up(terms.flatten(0, 1), 0)


class GroupNormOfOneSample(GroupNorm):
    def mean(self, z: Any) -> Any:
        return z.mean((1, 2, 3) if len(z) == 1 else (1, 3), keepdim=True)  # a sample alone is taken for one group


class GroupNormLastSample(GroupNorm):
    def over_rows(self, terms: Any) -> Any:
        return terms[-1:].sum((0, 1))


class GroupNormInPairs(GroupNorm):
    def over_rows(self, terms: Any) -> Any:
        even = terms.shape[1] // 2 * 2
        return (terms[:, :even:2] + terms[:, 1:even:2]).sum((0, 1))


class GroupNormByAddress(GroupNorm):
    def forward(self, ctx: Any, x: Any, gain: Any, bias: Any) -> Any:
        return super().forward(ctx, in_storage_order(x), gain, bias)


NORMS = (
    kernel(layer_norm, LayerNorm, NarrowLayerNorm, {
        "the mean's term is left out": ("point", LayerNormWithoutMean),
        "the gain's gradient is that of the last block of rows": ("point", LayerNormLastBlock),
        "of two partial sums only one is added": ("batch 2", LayerNormOfTwoRows),
        "the statistics of the first call are kept": ("repeat", LayerNormKeptStatistics),
        "the variance is divided by one less": ("value", LayerNormUnbiased),
    }, normals(x=(240, 14), gain=(14,), bias=(14,))),
    kernel(rms_norm, RMSNorm(), RMSNorm(NarrowRMSNorm), {
        "a sum for a mean": ("point", RMSNorm(RMSNormTotal)),
        "the gain's gradient is that of the last sequence": ("point", RMSNorm(RMSNormLastSequence)),
        "the input is overwritten with the output": ("in place", RMSNorm(RMSNormOverInput)),
        "the inverse root is kept in bfloat16": ("float32", RMSNorm(RMSNormNarrowRoot)),
    }, normals(x=(4, 40, 22), gain=(22,))),
    kernel(group_norm, GroupNorm(), NarrowGroupNorm(), {
        "a batch of one is one group": ("batch 1", GroupNormOfOneSample()),
        "the gain's and the bias's gradients are not summed over the batch": ("point", GroupNormLastSample()),
        "the last row of an odd length is not summed": ("odd", GroupNormInPairs()),
        "reads memory in order, whatever the strides": ("strided", GroupNormByAddress()),
    }, normals(x=(4, 50, 8), gain=(8,), bias=(8,))),
)  # fmt: skip
