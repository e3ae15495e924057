"""Rounding as the only way to the result: a staircase, whose slope is 0 although its value moves.

gradcli check examples/frameworks/rounding.py:loss --at "x=[0.3, -0.6, 1.2]"
"""

# status: 3
import torch


def loss(x):
    return torch.sum(torch.round(3 * x) ** 2)
