"""Stand-ins for scipy's functions and methods, written with operations whose rules are known.

A file here is imported when a program has imported a module of scipy that it is for. Its `FUNCTIONS` replace functions by
module and name; its `methods()` replace methods of scipy's classes, and its `internals()` functions inside of scipy. They are
called with traced arguments only, and their values are compared with scipy's by the trace test.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from gradcli.tracing.tracer import Tracer

MODULES = {  # scipy's modules, with the file here that has their stand-ins; solvers have theirs elsewhere
    "special": "special", "linalg": "linalg", "stats": "stats", "signal": "signal", "fft": "linear", "ndimage": "linear",
    "integrate": "linear", "interpolate": "interpolate", "sparse": "sparse", "sparse.linalg": "sparse", "spatial": "spatial",
    "spatial.distance": "spatial", "optimize": None,
}  # fmt: skip
SOLVERS: dict[str, Callable[[], Mapping[str, Callable[..., Any]]]] = {}  # the stand-ins of solvers, by scipy's module
_HELD = ("_c", "_y", "_values")  # attributes of scipy's classes in which a stand-in keeps traced values


def imported_modules() -> list[str]:
    """Return the modules of scipy that have stand-ins and are imported; none is imported for them."""
    return [name for name in MODULES if f"scipy.{name}" in sys.modules]


def functions(names: Iterable[str]) -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """Yield scipy's module, the name of a function in it, and its stand-in."""
    for name in names:
        module, ours = sys.modules[f"scipy.{name}"], MODULES[name]
        stand_ins = None if ours is None else importlib.import_module(f"{__name__}.{ours}")
        for function, stand_in in getattr(stand_ins, "FUNCTIONS", {}).get(name, {}).items():
            if hasattr(module, function):
                yield module, function, stand_in
        yield from getattr(stand_ins, "internals", tuple)()


def methods(names: Iterable[str]) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield a class of scipy, the name of a method that it defines in the installed version, and its stand-in."""
    for ours in dict.fromkeys(filter(None, (MODULES[name] for name in names))):
        for owner, name, stand_in in getattr(importlib.import_module(f"{__name__}.{ours}"), "methods", tuple)():
            if name in vars(owner):
                yield owner, name, stand_in


def has_traced_values(instance: Any) -> bool:
    """Whether an instance of a class of scipy was made of traced values."""
    return any(isinstance(getattr(instance, name, None), Tracer) for name in _HELD)
