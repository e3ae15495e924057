"""Set the number of threads of numerical libraries, before they are loaded, because they read it only once."""

import os
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
_SET: list[int] = []


def set_threads(count: int) -> None:
    """Set the threads of numerical libraries, because sums over threads vary in the last digits."""
    _SET[:] = [count]
    os.environ.update(dict.fromkeys(_VARIABLES, str(count)))


def thread_count() -> int | None:
    """Return the number of threads that was set; None if it was not set, as in the Python interface."""
    return _SET[0] if _SET else None


# The folders of the standard library and of gradcli, and the names of those in which an installer writes source and bytecode.
_TRUSTED = tuple(f"{folder}{os.sep}" for folder in (Path(os.__file__).parent, Path(__file__).parents[1]))
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def may_use_bytecode(path: str) -> bool:
    """Return whether the bytecode of a source may be used: that of Python, of gradcli and of installed packages."""
    return path.startswith(_TRUSTED) or any(name in path for name in _INSTALLED)


def compile_from_source() -> None:
    """Neither read nor write bytecode in this process, except of Python, of gradcli and of installed packages.

    Python trusts cached bytecode if the source's size and modification time, in whole seconds, are those stored with it. A
    file that is changed twice within a second may then run as it was before the second change, and a wrong gradient could pass.
    """
    known = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
        """Raise OSError for the user's files: the loader then compiles the source."""
        if not may_use_bytecode(path):
            raise OSError(f"bytecode of {path} is not used")
        return known(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
