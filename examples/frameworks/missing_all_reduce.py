"""A linear layer whose columns two processes share: backward lacks the sum over them.

gradcli check examples/frameworks/missing_all_reduce.py:loss --ranks 2 --at "x=randn(2, 3), W=randn(3, 4)" --shard "W: 1"
"""

# status: 1
import torch
import torch.distributed as dist


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, ybar):
        return ybar


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, ybar):
        return ybar


def loss(x, W):
    return Reduce.apply(torch.tanh(Copy.apply(x) @ W).square().sum())
