"""Numbers near which a function may take another branch: the constants of its code, and of the user's functions it calls."""

import itertools
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np

from gradcli.core.closures import closure, codes, python_code
from gradcli.modes.claim import Claimed
from gradcli.modes.claimed import Called, ClaimedFunction
from gradcli.source.derived import root_of
from gradcli.source.function import Function
from gradcli.source.python import PythonFunction

_MOST = 24  # numbers that are used
_MOST_ENTRIES = 200  # of an array that holds such numbers
_DEEP = 4  # calls from one function to the next
_NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:[eE][-+]?\d+)?")


def critical_numbers(f: Function, claim: Claimed | None) -> list[float]:
    """Return numbers between and beyond the constants that a function and its claim hold, both signs, the smallest first."""
    found = {x for function in _functions(f, claim) for x in _constants(function, _DEEP, set())}
    if root_of(f).kind == "expression":
        texts = (getattr(root_of(f), "text", ""), getattr(claim, "text", ""))
        found |= {float(number) for text in texts for number in _NUMBER.findall(text)}
    held = sorted({x for x in found if np.isfinite(x) and 0 < abs(x) < 1e6} | {0.0})
    if len(held) > _MOST:
        held = [held[k] for k in np.linspace(0, len(held) - 1, _MOST).astype(int)]
    beyond = [held[0] - 1.0, held[-1] * 1.25 + 1.0]
    between = [(a + b) / 2 for a, b in itertools.pairwise(held)]
    beside = [x * (1 + side) for x in held if x for side in (-1e-3, 1e-3)]
    both = {*beyond, *between, *beside}
    return sorted(both | {-x for x in both}, key=abs)


def _functions(f: Function, claim: Claimed | None) -> list[FunctionType]:
    root = root_of(f)
    found: list[Any] = [root.function] if isinstance(root, PythonFunction) else []
    if isinstance(claim, ClaimedFunction) and isinstance(claim.compute, Called):
        found.append(claim.compute.function.function)
    return [x for x in map(python_code, found) if isinstance(x, FunctionType)]


def _constants(function: FunctionType, deep: int, seen: set[int]) -> Iterator[float]:
    if id(function) in seen or not deep:
        return
    seen.add(id(function))
    names = {name for code in codes(function.__code__) for name in code.co_names}
    own = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    for code in codes(function.__code__):
        yield from (float(x) for x in code.co_consts if isinstance(x, int | float) and not isinstance(x, bool))
    for x in map(python_code, (*closure(function).values(), *own, *(function.__defaults__ or ()))):
        if isinstance(x, FunctionType):
            if x.__module__ == function.__module__:
                yield from _constants(x, deep - 1, seen)
        elif isinstance(x, int | float) and not isinstance(x, bool):
            yield float(x)
        elif isinstance(x, np.ndarray) and x.dtype.kind in "fiu" and x.size <= _MOST_ENTRIES:
            yield from map(float, x.reshape(-1))
