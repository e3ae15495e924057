"""A gradient that is right at its first call, and twice as large at the second: `.grad` is never set to zero.

gradcli check examples/frameworks/forgotten_zero_grad.py:loss --grad loss_grad --at "w=[0.3, -0.5, 1.2]"
"""

# status: 1
import torch

weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)


def loss(w):
    return torch.sum(w**3)


def loss_grad(w):
    with torch.no_grad():
        weights.copy_(w)
    loss(weights).backward()
    return weights.grad
