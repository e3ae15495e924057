"""aten's operations in numpy, which replay recorded torch functions on gradcli's values."""

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
from gradcli.frameworks.torch.aten.rows import TABLE, UP_TO_SIGN

__all__ = [
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
