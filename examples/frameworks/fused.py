"""A fused kernel beside its reference: its backward pass misses the last entry of rows of odd length.

gradcli check examples/frameworks/fused.py:fused --reference plain --at "x=randn(8,64), gain=randn(64)" --dtype bfloat16
"""

# status: 1
import torch

EPS = 1e-6


def plain(x, gain):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * gain


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        wide = x.float()
        scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPS)
        ctx.save_for_backward(x, gain, scale)
        return (wide * scale * gain.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, ybar):
        x, gain, scale = ctx.saved_tensors
        pairs = x.shape[-1] // 2 * 2
        xhat, u = x.float() * scale, ybar.float() * gain.float()
        along = (xhat * u)[..., :pairs].sum(-1, keepdim=True) / x.shape[-1]
        return (scale * (u - xhat * along)).to(x.dtype), (xhat * ybar.float()).sum(0).to(gain.dtype)


def fused(x, gain):
    return RMSNorm.apply(x, gain)
