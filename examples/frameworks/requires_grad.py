"""A gradient function that asks for the gradient of an input that requires none.

gradcli check examples/frameworks/requires_grad.py:loss --grad loss_grad --at "x=[0.3, -0.5, 1.2]"
"""

# status: 2
import torch


def loss(x):
    return torch.sum(x**3)


def loss_grad(x):
    loss(x).backward()
    return x.grad
