"""Values for single entries of an argument, such as `params.A=1`: the other entries keep what they have."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.errors import BadPoint, nearest
from gradcli.targets.arguments import default_of
from gradcli.targets.draws import Whole
from gradcli.targets.structure import Branch, Named, put_together, taken_apart

_SHOWN = 8  # most entries that a message lists
_ROOT = re.compile(r"\w+")


def with_entries(function: Callable[..., Any], point: Mapping[str, Any], typed: bool) -> dict[str, Any]:
    """Return a point whose entries by path, such as `params.A`, are put into the arguments that hold them.

    An argument that has no value has its default; a path into neither stays, for a report writes whole points by path.
    Numbers that are `typed` are floats, or integers where the entry is one.

    Raises  BadPoint for a path that the argument does not have.
    """
    found = dict(point)
    for path in [path for path in point if "." in path or "[" in path]:
        root = _root(path, found)
        held = found.get(root, default_of(function, root)) if callable(function) else found.get(root)
        if held is None:
            found[path] = _like(None, point[path]) if typed else point[path]
            continue
        node, leaves = taken_apart(root, held)
        named = path if path in leaves else path.removeprefix(f"{root}.") if isinstance(held, Named) else path
        if not isinstance(node, Branch) or named not in leaves:
            raise _no_entry(path, root, list(leaves) if isinstance(node, Branch) else [])
        x = found.pop(path)
        leaves[named] = _like(leaves[named], x) if typed else x
        found[root] = put_together(node, leaves)
    return found


def _root(path: str, point: Mapping[str, Any]) -> str:
    """Return the argument that holds an entry: of a module's parameters, which have their own names, or by its first name."""
    for name, x in point.items():
        if isinstance(x, Named) and path in x:
            return name
    match = _ROOT.match(path)
    return match[0] if match else path


def _like(old: Any, x: Any) -> Any:
    """Return a typed value: a number as a float, or as what was there if that is an integer or a flag."""
    if isinstance(x, Whole):
        return int(x)
    if isinstance(x, bool) or not isinstance(x, int | float):
        return x
    if isinstance(old, bool) and x in (0, 1):
        return bool(x)
    if isinstance(old, int | np.integer) and float(x).is_integer():
        return int(x)
    return float(x)


def _no_entry(path: str, root: str, entries: list[str]) -> BadPoint:
    inside = [entry for entry in entries if entry.startswith((f"{path}.", f"{path}["))]
    if inside:
        return BadPoint(f"{path} holds several entries", do=f"name one: {', '.join(inside[:_SHOWN])}")
    near = nearest(path, entries)
    listed = f"it has: {', '.join(entries[:_SHOWN])}" if entries else f"it is one value: write {root}=..."
    return BadPoint(f"{root} has no entry '{path}'", do=f"did you mean '{near}'? {listed}" if near else listed)
