"""The number is right, and the gradient lacks a factor 2: `.item()` takes one of the two factors out of the graph.

gradcli check examples/frameworks/detached.py:loss --at "x=[0.3, -0.5, 1.2]"
"""

# status: 1
import torch


def loss(x: torch.Tensor):
    scale = x.sum().item()
    return scale * x.sum()
