"""The versions and settings that a report records about the machine."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from gradcli.process.threads import threads


def installed(package: str) -> str | None:
    """Return the version of an installed package without importing it, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def environment(frameworks: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return the versions that a result depends on, with those of the frameworks used, and the thread limit if one is set."""
    limit = threads()
    return _versions(frameworks) if limit is None else {**_versions(frameworks), "threads": limit}


@cache
def _versions(frameworks: tuple[str, ...]) -> dict[str, str | int]:
    own: dict[str, str | int] = {
        "gradcli": installed("gradcli") or "unknown", "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    return own | {name: installed(name) or "unknown" for name in frameworks}
