"""aten's operations in numpy, which replay recorded torch functions on gradcli's values."""

from gradcli.frameworks.torch.aten import elementwise, linalg, networks, shaping  # noqa: F401  (their rows)
from gradcli.frameworks.torch.aten.rows import TABLE, UP_TO_SIGN

__all__ = ["TABLE", "UP_TO_SIGN"]
