"""What the report says about where it was made."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from gradcli.threads import threads


def installed(package: str) -> str | None:
    """Return a package's version without importing it, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def environment(frameworks: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return what a result depends on: versions, those of frameworks that took part among them, and threads where set."""
    limit = threads()
    return _versions(frameworks) if limit is None else {**_versions(frameworks), "threads": limit}


@cache
def _versions(frameworks: tuple[str, ...]) -> dict[str, str | int]:
    own: dict[str, str | int] = {
        "gradcli": installed("gradcli") or "unknown", "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    return own | {name: installed(name) or "unknown" for name in frameworks}
