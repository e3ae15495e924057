"""Where a function is defined, and whether it is one that the report is about. By the standard library alone."""

import functools
import inspect
import os
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from gradcli.classes import dataclass

LIBRARIES = ("numpy", "scipy", "torch", "torchvision", "jax", "jaxlib", "tensorflow", "keras", "mlx", "gradcli")
_DIFFERENTIATE = (  # by themselves: what they return is not written by hand
    "torch", "jax", "jaxlib", "tensorflow", "keras", "mlx", "autograd", "casadi", "numdifftools", "pytensor", "gradcli",
)  # fmt: skip
_GRADCLI = str(Path(__file__).resolve().parents[2]) + os.sep
_STANDARD = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")})
_MOST_WRAPPERS = 32
_SITES = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a function is defined: its name with the names around it, its file, and its first line."""

    name: str
    file: str
    line: int


class ReportedDefinitions:
    """The definitions that a report is about.

    By default those outside the standard library, numpy, scipy, the frameworks and gradcli; `sources` are folders to which
    they are narrowed, or the word `all`.
    """

    def __init__(self, sources: Sequence[str] = ()) -> None:
        self._all = "all" in sources
        folders = (os.path.realpath(source) for source in sources if source != "all")
        self._folders = tuple(folder.rstrip(os.sep) + os.sep for folder in folders)
        self.holds = cache(self._is_reported)

    def _is_reported(self, file: str) -> bool:
        """Whether the report is about what a file defines."""
        if self._all:
            return True
        path = os.path.realpath(file)
        if self._folders:
            return path.startswith(self._folders) or file.startswith("<")
        return not _is_library(path, LIBRARIES)


def definition_of(function: Any) -> Definition | None:
    """Return where a function is defined; None for one without Python source, or that a library derives by itself.

    Partials, bound methods, callable objects and decorated functions are those of the function inside.
    """
    for _ in range(_MOST_WRAPPERS):
        if isinstance(function, functools.partial):
            function = function.func
            continue
        if isinstance(function, FunctionType) and hasattr(function, "_gradcli"):  # ours, which watches the user's
            function = function.__wrapped__  # type: ignore[attr-defined]
            continue
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            path = _real(code.co_filename)
            wraps = hasattr(function, "__wrapped__")
            if _is_library(path, _DIFFERENTIATE) and not _is_standard(path):
                return None
            if not (wraps and set(_SITES) & set(Path(path).parts)) and not _is_standard(path):  # such as np.errstate
                # a decorator took over the name of the function inside
                name = code.co_qualname if wraps else getattr(function, "__qualname__", code.co_name)
                place = _absolute_path(code.co_filename), code.co_firstlineno
                return Definition(name.replace("<locals>.", ""), *place)
        inner = getattr(function, "__wrapped__", None) or getattr(function, "py_func", None)
        if inner is None and not inspect.isclass(function) and not isinstance(code, CodeType):
            inner = type(function).__dict__.get("__call__")
        if inner is None:
            return None
        function = inner
    return None


def definition_name(function: Any) -> str | None:
    """Return the name of a function as its definition has it; None if it has none."""
    definition = definition_of(function)
    return None if definition is None else definition.name


_real = cache(os.path.realpath)  # which asks the disk for each folder


@cache
def _absolute_path(file: str) -> str:
    return file if file.startswith("<") else str(Path(file).absolute())


@cache
def _is_library(path: str, names: tuple[str, ...]) -> bool:
    """Whether a file is part of the standard library, or of one of these packages."""
    if path.startswith(_GRADCLI) or _is_standard(path):
        return True
    parts = Path(path).parts
    places = [k for k, part in enumerate(parts) if part in _SITES]
    return bool(places) and len(parts) > places[-1] + 1 and parts[places[-1] + 1].removesuffix(".py") in names


def _is_standard(path: str) -> bool:
    if path.startswith("<frozen"):
        return True
    return path.startswith(_STANDARD) and not set(_SITES) & set(Path(path).parts)
