"""Nested inputs and outputs: take dicts, tuples, lists and dataclasses apart into leaves named by path (`params.layer1.W`)."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gradcli.errors import BadPoint
from gradcli.targets.labelled import Labels, labels_of, values_of
from gradcli.tracing.tracer import Tracer

MOST_DEEP = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """The place of one value in a structure."""

    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class LabelledLeaf(Leaf):
    """The place of the values of a pandas Series or DataFrame, with its labels."""

    labels: Labels


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """A container: its parts, and the function that makes it again from them."""

    parts: tuple["Node", ...]
    make: Callable[[list[Any]], Any]


Node = Leaf | Branch


class Named(dict[str, Any]):
    """Values whose keys serve unchanged as paths: the parameters of a module, `layers.0.weight`."""


def taken_apart(name: str, x: Any) -> tuple[Node, dict[str, Any]]:
    """Return the structure of a value and its leaves by path.

    Raises  BadPoint for a structure that is nested too deeply, for example one that contains itself.
    """
    leaves: dict[str, Any] = {}
    return _apart(name, x, leaves, 0), leaves


def _apart(path: str, x: Any, leaves: dict[str, Any], depth: int) -> Node:
    if depth > MOST_DEEP:
        raise BadPoint(f"{path[:40]}... is nested more than {MOST_DEEP} deep", do="give a flatter structure")
    named = _named_parts(path, x)
    if named is None:
        while path in leaves:  # two keys may give the same path
            path += "'"
        labels = labels_of(x)
        leaves[path] = x if labels is None else values_of(x)
        return Leaf(path) if labels is None else LabelledLeaf(path, labels)
    return Branch(tuple(_apart(inner, part, leaves, depth + 1) for inner, part in named), _maker(x))


def _named_parts(path: str, x: Any) -> list[tuple[str, Any]] | None:
    """Return the parts of a container with their paths, or None for a leaf."""
    if isinstance(x, Tracer | np.ndarray):
        return None
    if isinstance(x, Named):
        return list(x.items())
    if isinstance(x, Mapping):
        return [(_member(path, key), part) for key, part in x.items()]
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return [(f"{path}.{name}", part) for name, part in zip(x._fields, x, strict=True)]
    if isinstance(x, list | tuple):
        return [(f"{path}[{k}]", part) for k, part in enumerate(x)]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [(f"{path}.{field.name}", getattr(x, field.name)) for field in dataclasses.fields(x)]
    return None


def _member(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"


def _maker(x: Any) -> Callable[[list[Any]], Any]:
    if isinstance(x, Mapping):
        keys = list(x)
        plain: Any = dict if type(x) is dict else lambda pairs: _like(x, dict(pairs))
        return lambda parts: plain(zip(keys, parts, strict=True))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return lambda parts: type(x)(*parts)
    if isinstance(x, list | tuple):
        return type(x)
    return lambda parts: _replaced(x, parts)


def _like(original: Any, members: dict[Any, Any]) -> Any:
    """Return a mapping of the original's type with other members; a defaultdict keeps its factory."""
    try:
        made = copy.copy(original)
        made.update(members)
    except (TypeError, AttributeError):  # a mapping that cannot be written to
        return members
    return made


def _replaced(x: Any, parts: list[Any]) -> Any:
    """Return a dataclass instance like `x` with other members; its `__post_init__`, if any, runs again."""
    members = {field.name: part for field, part in zip(dataclasses.fields(x), parts, strict=True)}
    if hasattr(x, "__post_init__"):
        return dataclasses.replace(x, **{f.name: members[f.name] for f in dataclasses.fields(x) if f.init})
    made = object.__new__(type(x))
    for name, kept in getattr(x, "__dict__", {}).items():
        if not isinstance(getattr(type(x), name, None), functools.cached_property):
            made.__dict__[name] = kept
    for name, part in members.items():
        object.__setattr__(made, name, part)
    return made


def put_together(node: Node, leaves: Mapping[str, Any]) -> Any:
    """Return the structure with the given leaves."""
    if isinstance(node, Leaf):
        x = leaves[node.path]
        return node.labels.made(x) if isinstance(node, LabelledLeaf) else x
    return node.make([put_together(part, leaves) for part in node.parts])


def paths(node: Node) -> list[str]:
    """Return the paths of the leaves, in order."""
    return [node.path] if isinstance(node, Leaf) else [path for part in node.parts for path in paths(part)]


def labelled(nodes: Iterable[Node]) -> dict[str, Labels]:
    """Return the labels of the leaves that have some, by path."""
    found: dict[str, Labels] = {}
    for node in nodes:
        if isinstance(node, LabelledLeaf):
            found[node.path] = node.labels
        elif isinstance(node, Branch):
            found |= labelled(node.parts)
    return found


def with_complex(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each pair `z.real`, `z.imag`, as a report writes it, joined into one complex `z`."""
    names = [path.removesuffix(".real") for path in flat if path.endswith(".real")]
    pairs = [name for name in names if f"{name}.imag" in flat]
    parts = {f"{name}.{part}" for name in pairs for part in ("real", "imag")}
    whole = {name: np.asarray(flat[f"{name}.real"]) + 1j * np.asarray(flat[f"{name}.imag"]) for name in pairs}
    return {path: x for path, x in flat.items() if path not in parts} | whole


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values named by path, as a report writes them, as nested dicts and lists.

    Raises  BadPoint if a path is given both alone and as a container.
    """
    found = _Made()
    for path, x in flat.items():
        here, keys = found, _keys(path)
        for key in keys[:-1]:
            here = here.setdefault(key, _Made())
            if not isinstance(here, _Made):
                raise BadPoint(
                    f"'{path}' is given twice: alone, and in the container that holds it", do="leave one out"
                )
        here[keys[-1]] = x
    return {str(name): _listed(x) for name, x in found.items()}


class _Made(dict[Any, Any]):
    """A container that paths name."""


def _keys(path: str) -> list[Any]:
    keys: list[Any] = []
    for piece in path.replace("[", ".[").split("."):
        keys.append(int(piece[1:-1]) if piece[:1] == "[" and piece[1:-1].isdecimal() else piece)
    return keys


def _listed(x: Any) -> Any:
    if not isinstance(x, _Made):
        return x  # the user's own container
    members = {key: _listed(part) for key, part in x.items()}
    if members and sorted(map(str, members)) == sorted(map(str, range(len(members)))):
        return [members[k] for k in range(len(members))]
    return members
