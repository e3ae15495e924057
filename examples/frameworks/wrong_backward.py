"""Two custom backward passes in one function, of which one is wrong: the report says which.

gradcli check examples/frameworks/wrong_backward.py:loss --at "x=randn(4, 3)"
"""

# status: 1
import torch


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, ybar):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return ybar * (s + x * s * (1 - s))


class Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        ctx.save_for_backward(x, n)
        return x / n

    @staticmethod
    def backward(ctx, ybar):
        x, n = ctx.saved_tensors
        return ybar / n - x * (ybar * x).sum() / n**3


def loss(x):
    return torch.sum(torch.tanh(Unit.apply(Swish.apply(x))))
