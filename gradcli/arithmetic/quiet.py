"""Quiet imports of packages that print messages about the machine while they are imported."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_LOUD = {"tensorflow": ("TF_CPP_MIN_LOG_LEVEL", "3")}  # and the variable that keeps each quiet later
_PATIENT = ("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of a framework sleep; if they spin, numpy runs at half speed


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Discard the messages of loud packages that are imported inside the context."""
    os.environ.setdefault(*_PATIENT)
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def silent() -> Iterator[None]:
    """Discard what is written to standard error inside the context, by C code too."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class _Finder:
    """An import finder for the loud packages, which runs before the usual finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the package's own spec with a quiet loader."""
        if name not in _LOUD:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            os.environ.setdefault(*_LOUD[name])
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """A package's loader that runs the package with standard error discarded."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the package's own loader creates."""
        return self.own.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Run the package, and make tensorflow look for devices now, while its messages are discarded."""
        with silent():
            self.own.exec_module(module)
            if module.__name__ == "tensorflow":
                module.constant(0.0)
