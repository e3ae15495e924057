"""Convolution and its transpose as one matrix product: the windows of the input are gathered into columns."""

from collections.abc import Sequence

import numpy as np

from gradcli.frameworks.ops.places import added, gathered, padded, windowed
from gradcli.tracing.primitive import Value

Sizes = Sequence[int]
Ends = Sequence[tuple[int, int, int]]


class Convolution:
    """A cross-correlation of inputs of shape `x` with kernels of shape `w`.

    `ends` gives the padding of each spatial axis before, after and between its entries.

    Shapes  x (batch, channels, space...), w (features, channels / groups, window...); the result (batch, features, space...).
    """

    def __init__(self, x: Sizes, w: Sizes, strides: Sizes, ends: Ends, dilation: Sizes, groups: int = 1) -> None:
        self.x, self.w, self.groups = tuple(x), tuple(w), groups
        batch, channels, rank = x[0], x[1], len(x) - 2
        places = padded(x, [(0, 0, 0), (0, 0, 0), *ends])
        seen = windowed(places, (1, 1, *w[2:]), (1, 1, *strides), (1, 1, *dilation))
        self.space, self.count = seen.shape[2 : 2 + rank], int(np.prod(w[1:], dtype=int))
        spread = seen.reshape(batch, groups, channels // groups, *self.space, -1)
        self.columns = spread.transpose(1, 2, 3 + rank, 0, *range(3, 3 + rank)).reshape(groups, self.count, -1)

    def __call__(self, x: Value, w: Value) -> Value:
        """Return the correlation."""
        return self._out(self._product(self._kernels(w), gathered(x, self.columns)))

    def to_input(self, ybar: Value, w: Value) -> Value:
        """Apply the transpose of the map from `x` to the result; `ybar` has the shape of the result."""
        pulled = self._product(np.swapaxes(self._kernels(w), -1, -2), self._in(ybar))
        row = added(np.zeros(int(np.prod(self.x, dtype=int)) + 1), self.columns, pulled)
        return np.reshape(row[:-1], self.x)

    def _product(self, a: Value, b: Value) -> Value:
        return np.matmul(a, b) if self.groups > 1 else np.matmul(a[0], b[0])[None]

    def _kernels(self, w: Value) -> Value:
        return np.reshape(w, (self.groups, self.w[0] // self.groups, self.count))

    def _out(self, y: Value) -> Value:
        apart = np.reshape(y, (self.w[0], self.x[0], *self.space))
        return np.transpose(apart, (1, 0, *range(2, len(self.x))))

    def _in(self, y: Value) -> Value:
        apart = np.transpose(y, (1, 0, *range(2, len(self.x))))
        return np.reshape(apart, (self.groups, self.w[0] // self.groups, -1))
