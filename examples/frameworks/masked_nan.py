"""`where` masks a value that is not a number, and the gradient of the masked side is not a number all the same.

gradcli check examples/frameworks/masked_nan.py:loss --at "x=[4.0, 0.0, 1.0]"
"""

# status: 1
import torch


def loss(x):
    return torch.sum(torch.where(x > 0.5, torch.sqrt(x), 2 * x))
