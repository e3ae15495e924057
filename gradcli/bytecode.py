"""Compile the user's modules from their source each time, whatever bytecode is kept of them.

Python takes bytecode for that of the source if the file still has the size and the second of change that were stored with it.
A file that is changed twice within a second may then run as it was before the second change, and a wrong gradient could pass.
"""

import os
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

_PREFIXES = (sys.prefix, sys.base_prefix, str(Path(__file__).parent))
_TRUSTED = tuple(prefix + os.sep for prefix in _PREFIXES)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")  # an installer writes both


def compile_from_source() -> None:
    """Neither read nor write bytecode in this process, except of Python, of gradcli and of installed packages."""
    known = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
        """Raise OSError for the user's files: the loader then compiles the source."""
        if not path.startswith(_TRUSTED) and not any(name in path for name in _INSTALLED):
            raise OSError(f"bytecode of {path} is not used")
        return known(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]
