"""gradcli: the referee for gradients. Importing it loads nothing; names are found when they are used."""

from typing import Any

__version__ = "0.1.0"

_LAZY = {"Expression": "gradcli.source.expression"}

__all__ = ["Expression", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gradcli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
