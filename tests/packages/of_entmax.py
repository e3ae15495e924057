"""entmax: sparse softmaxes and their losses, with backward passes written for torch."""

import entmax
import numpy as np
import torch
from entmax.activations import Entmax15Function, SparsemaxFunction
from entmax.losses import SparsemaxLossFunction
from entmax.root_finding import EntmaxBisectFunction

from tests.packages.cases import Case

X = np.array([[0.3, -0.8, 0.5, 0.1], [1.1, 0.9, 1.4, -0.6]])
TORCH = {"framework": "torch"}
NEAR = np.array([[0.3, 0.1, 0.5, 0.2], [0.5, 0.4, 0.7, 0.6]])  # no entry is zero where it is projected
TARGET = torch.tensor([2, 0])


def slipped(function, slip):
    """Return a custom function whose backward pass has its first result, the gradient by X, changed."""

    class Slipped(function):
        @classmethod
        def backward(cls, ctx, dy):
            found = function.backward(ctx, dy)
            return (slip(found[0]), *found[1:]) if isinstance(found, tuple) else slip(found)

    return Slipped


class NotCentred(SparsemaxFunction):
    """The mistake: the mean over the support is not subtracted."""

    @classmethod
    def backward(cls, ctx, dy):
        _, p = ctx.saved_tensors
        return torch.where(p > 0, dy, 0), None, None


class NotDoubled(Entmax15Function):
    """The mistake: the slope is that of the square root instead of the square."""

    @classmethod
    def backward(cls, ctx, dy):
        return Entmax15Function.backward(ctx, dy)[0] / 2, None, None


NegatedLoss = slipped(SparsemaxLossFunction, lambda g: -g)
DoubledBisection = slipped(EntmaxBisectFunction, lambda g: 2 * g)


def projected(X):
    return entmax.sparsemax(X)


def half(X):
    return entmax.entmax15(X)


def loss(X):
    return entmax.sparsemax_loss(X, TARGET).sum()


def bisected(X, alpha):
    return entmax.entmax_bisect(X, alpha)


def not_centred(X):
    return NotCentred.apply(X, -1)


def not_doubled(X):
    return NotDoubled.apply(X, -1)


def negated_loss(X):
    return NegatedLoss.apply(X, TARGET).sum()


def doubled_bisection(X, alpha):
    return DoubledBisection.apply(X, alpha)


CASES = [
    Case("SparsemaxFunction", projected, (X,), None, not_centred, "framework", glue=2, options=TORCH),
    Case("Entmax15Function", half, (X,), None, not_doubled, "framework", glue=2, options=TORCH),
    Case("SparsemaxLossFunction", loss, (X,), None, negated_loss, "framework", glue=2, options=TORCH),
    Case(
        "EntmaxBisectFunction",
        bisected,
        (NEAR, np.array([[1.4], [1.7]])),
        None,
        doubled_bisection,
        "framework",
        glue=2,
        options=TORCH,
        ended_by="the trace differs from the function",
    ),
]
