"""What the report says about where it was made."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np


def installed(package: str) -> str | None:
    """Return a package's version without importing it, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def environment(frameworks: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the versions that a result depends on, those of frameworks that took part among them."""
    own = {"gradcli": installed("gradcli") or "unknown", "python": platform.python_version(), "numpy": np.__version__}
    return own | {name: installed(name) or "unknown" for name in frameworks}
