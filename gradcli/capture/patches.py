"""Replace functions of modules when the program imports them, in every module that holds them, and put them back."""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

Replacements = Callable[
    [str], Iterator[tuple[Any, str, Any]]
]  # of a module: the holder, the name there, what replaces it


class Patches:
    """What is replaced, and how it was before."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Replacements]] = {}
        self._before: list[tuple[Any, str, Any, bool]] = []
        self._inside: list[tuple[Any, Any]] = []  # of modules: what was replaced, and by what
        self._finder = _Finder(self)

    def add(self, module: str, replacements: Replacements) -> None:
        """Replace functions of a module: now if it is loaded, else when it has been imported."""
        self._waiting.setdefault(module, []).append(replacements)

    def begin(self) -> None:
        """Replace what is loaded, and watch imports from now on."""
        for name in self._waiting:
            if name in sys.modules:
                self.imported(name)
        sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """Put everything back."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._finder)
        for holder, name, before, own in reversed(self._before):
            with contextlib.suppress(AttributeError, TypeError):
                if own:
                    setattr(holder, name, before)
                else:
                    delattr(holder, name)
        self._before.clear()
        imported = {id(replacement): before for before, replacement in self._inside}
        for module in [m for m in [*sys.modules.values()] if isinstance(m, ModuleType)] if imported else ():
            for name in [name for name, x in [*vars(module).items()] if id(x) in imported]:
                setattr(module, name, imported[id(vars(module)[name])])  # imported while it was replaced
        self._inside.clear()

    def waits_for(self, name: str) -> bool:
        """Whether a module has functions to be replaced."""
        return name in self._waiting

    def imported(self, name: str) -> None:
        """Replace the functions of a module that has just been imported, in every module that holds them."""
        found = [each for replacements in self._waiting[name] for each in replacements(name)]
        inside: dict[int, tuple[Any, Any]] = {}
        for holder, attribute, replacement in found:
            own = attribute in vars(holder)
            before = vars(holder)[attribute] if own else getattr(holder, attribute)
            self._set(holder, attribute, replacement, before, own)
            if isinstance(holder, ModuleType):
                inside[id(before)] = before, replacement
        self._inside += inside.values()
        if inside:
            self._replace_everywhere(name.partition(".")[0], inside)

    def _replace_everywhere(self, package: str, replaced: dict[int, tuple[Any, Any]]) -> None:
        """Replace objects in all modules but those of their own package, whose functions call each other."""
        for module in [*sys.modules.values()]:
            if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == package:
                continue
            for other in [name for name, x in [*vars(module).items()] if id(x) in replaced]:
                before, replacement = replaced[id(vars(module)[other])]
                self._set(module, other, replacement, before, True)

    def _set(self, holder: Any, name: str, replacement: Any, before: Any, own: bool) -> None:
        setattr(holder, name, replacement)
        self._before.append((holder, name, before, own))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: it asks the other finders, and has the module that they load patched after it ran."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._looking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the other finders have for a watched module; None for all others."""
        if name in self._looking or not self._patches.waits_for(name):
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        plain = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            plain(module)
            self._patches.imported(name)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader that takes no attributes
            return None
        return spec
