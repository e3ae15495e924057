"""An integer tensor has no gradient, and neither has what is chosen by argmax.

gradcli check examples/frameworks/integer_tensor.py:loss --at "x=[0.3, -0.5, 1.2]"
"""

# status: 2
import torch


def loss(x):
    return torch.argmax(x)
