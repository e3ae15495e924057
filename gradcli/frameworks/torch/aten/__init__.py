"""aten's operations in numpy, on gradcli's values: what a recorded torch function is replayed with."""

from gradcli.frameworks.torch.aten import (
    activations,
    backward,
    elementwise,
    factors,
    indexing,
    linalg,
    losses,
    networks,
    reductions,
    shaping,
    spectral,
    windows,
)
from gradcli.frameworks.torch.aten.rows import LAID_OUT, TABLE, UP_TO_SIGN

__all__ = [
    "LAID_OUT",
    "TABLE",
    "UP_TO_SIGN",
    "activations",
    "backward",
    "elementwise",
    "factors",
    "indexing",
    "linalg",
    "losses",
    "networks",
    "reductions",
    "shaping",
    "spectral",
    "windows",
]
