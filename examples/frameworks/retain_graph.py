"""Two backward passes through one graph, which the first of them has freed.

gradcli check examples/frameworks/retain_graph.py:loss --grad loss_grad --at "x=[0.3, -0.5, 1.2]"
"""

# status: 2
import torch


def loss(x):
    return torch.exp(x).sum() + (torch.exp(x) ** 2).sum()


def loss_grad(x):
    x = x.requires_grad_()
    y = torch.exp(x)
    y.sum().backward()
    (y * y).sum().backward()
    return x.grad
