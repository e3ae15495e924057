"""A straight-through estimator: its backward pass is wrong on purpose, and its surrogate is what can be checked.

gradcli check examples/frameworks/straight_through.py:loss --expect straight-through --at "x=[0.3, -0.6, 1.2]"
"""

# status: 0
import torch


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(4 * x) / 4

    @staticmethod
    def backward(ctx, ybar):
        return ybar


def loss(x):
    return torch.sum(Quantise.apply(x) * torch.sin(x))
