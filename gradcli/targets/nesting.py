"""Nested inputs and outputs: take dicts, tuples, lists and dataclasses apart into leaves named by path (`params.layer1.W`)."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadPoint, TraceEnded, with_causes
from gradcli.tracing.tracer import Tracer

MOST_DEEP = 50


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of one value in a structure."""

    path: str


# pandas Series and DataFrames: taken apart into an array and its labels, put together again, and read by label in a trace.

_REDUCTIONS = ("sum", "mean", "prod", "max", "min", "dot", "cumsum", "cumprod")  # which take columns in a DataFrame
_OTHERWISE = ("std", "var", "round", "sort_values")  # which differ from numpy's in a Series, too


@dataclass(frozen=True, slots=True)
class Labels:
    """What a Series or a DataFrame is besides its values: its type, its index, and its name or its columns."""

    kind: type
    index: Any
    columns: Any = None
    name: Any = None

    @property
    def is_frame(self) -> bool:
        """Whether there are columns."""
        return self.columns is not None

    def made(self, x: Any) -> Any:
        """Return the object with these values: a new one of plain values, a value that is read by label of traced ones."""
        if x is None:
            return None
        if isinstance(x, Tracer):
            return _attach_labels(x, self)
        values = np.array(x)
        if self.is_frame:
            return self.kind(values, index=self.index, columns=self.columns)
        return self.kind(values, index=self.index, name=self.name)

    def remarks(self, path: str, values: Any) -> Iterator[tuple[str, str]]:
        """Yield what is odd, nan and labels that occur twice, each with what to do about it."""
        missing = np.argwhere(np.isnan(np.asarray(values, dtype=float)))
        if len(missing):
            row = list(self.index)[missing[0][0]]
            first = f"column {list(self.columns)[missing[0][1]]!r}, row {row!r}" if self.is_frame else repr(row)
            entries = f"{len(missing)} entr{'y' if len(missing) == 1 else 'ies'}"
            do = f"leave them out, {path}.dropna(), or fill them, {path}.fillna(0.0)"
            yield f"{path} is nan in {entries}, first at {first}", do
        do = "pandas then aligns and selects several at once; reset_index(drop=True) gives each its own label"
        for what, has, labels in (("index", "has", self.index), ("columns", "have", self.columns)):
            seen: set[Any] = set()
            for label in () if labels is None else labels:
                if label in seen:
                    yield f"the {what} of {path} {has} {label!r} more than once", do
                    break
                seen.add(label)


def labels_of(x: Any) -> Labels | None:
    """Return the labels of a pandas Series or DataFrame whose values are all floats, or None for anything else."""
    if isinstance(x, Tracer | np.ndarray | type) or not hasattr(x, "to_numpy") or not hasattr(x, "index"):
        return None
    if hasattr(x, "columns"):
        formats = list(getattr(x, "dtypes", ()))
        return Labels(type(x), x.index, x.columns) if formats and all(map(_is_float_dtype, formats)) else None
    if not hasattr(x, "name") or not _is_float_dtype(getattr(x, "dtype", None)):
        return None
    return Labels(type(x), x.index, None, x.name)


def advise_values_of_pandas(x: Any) -> str:
    """Return what to write instead of pandas for an argument, so that the trace goes on."""
    return f"take the values: {x}.to_numpy(), {x}['column'].to_numpy(); these are traced"


def is_raised_in_pandas(error: BaseException) -> bool:
    """Whether an exception, or one that it comes from, was raised in a call of pandas."""
    for each in with_causes(error):
        trace = each.__traceback__
        while trace is not None:
            if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "pandas":
                return True
            trace = trace.tb_next
    return False


def _is_float_dtype(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "f"


def _attach_labels(x: Tracer, labels: Labels) -> Any:
    """Return a traced value that is read by label."""
    kind: Any = type(x)
    made = _as_kind(x, _labelled_class(kind), kind)
    made.labels = labels
    return made


def _as_kind(x: Any, kind: Any, slots: Any) -> Any:
    """Return a traced value as one of another class, with what the class `slots` holds, and no storage."""
    made: Any = object.__new__(kind)
    for base in slots.__mro__:
        for name in getattr(base, "__slots__", ()):
            if name not in ("storage", "__weakref__", "labels"):
                setattr(made, name, getattr(x, name))
    made.storage = None
    return made


@lru_cache
def _labelled_class(kind: Any) -> Any:
    """Return a tracer's class with what pandas adds to an array; reading any other attribute of pandas ends the trace."""
    if issubclass(kind, _ByLabel):
        return kind
    return type(kind.__name__, (_ByLabel, kind), {"__slots__": ("labels",)})


class _ByLabel:
    """What a Series or a DataFrame has besides an array: mixed into a tracer's class."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        labels: Labels | None = getattr(self, "labels", None)
        read = super().__getitem__  # type: ignore[misc]
        if labels is None:
            return read(key)
        by_label = isinstance(key, slice) and any(isinstance(part, str) for part in (key.start, key.stop))
        if isinstance(key, np.ndarray | slice | Tracer) and not by_label:
            return read(key)
        if not labels.is_frame:
            return read(_positions_of_labels(labels.index, key, labels))
        chosen = (key, None) if isinstance(key, list) else (None, key)  # columns, or the name of one
        columns = read((slice(None), _positions_of_labels(labels.columns, key, labels)))
        return _attach_labels(columns, Labels(labels.kind, labels.index, *chosen))

    def __setitem__(self, key: Any, value: Any) -> None:
        labels: Labels | None = getattr(self, "labels", None)
        if labels is not None and not isinstance(key, np.ndarray | slice | Tracer):
            known = labels.columns if labels.is_frame else labels.index
            if not isinstance(key, list) and key not in list(known):
                raise _pandas_error(labels, f"[{key!r}] = ...")
            found = _positions_of_labels(known, key, labels)
            key = (slice(None), found) if labels.is_frame else found
        super().__setitem__(key, value)  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        labels: Labels | None = None if name == "labels" else getattr(self, "labels", None)
        if labels is None or name.startswith("_"):
            raise AttributeError(name)
        if name in ("index", "columns", "name"):
            return getattr(labels, name)
        if name in ("values", "array", "iloc"):
            return _without_labels(self)
        if name == "loc" and not labels.is_frame:
            return self
        if labels.is_frame and name in list(labels.columns):
            return self[name]
        if hasattr(labels.kind, name):
            raise _pandas_error(labels, f".{name}")
        raise AttributeError(f"'{labels.kind.__name__}' object has no attribute '{name}'")

    def __getattribute__(self, name: str) -> Any:
        if name in _OTHERWISE or name in _REDUCTIONS:
            labels = object.__getattribute__(self, "__getattr__") and getattr(self, "labels", None)
            if labels is not None and (labels.is_frame or name in _OTHERWISE):
                raise _pandas_error(labels, f".{name}")
        return super().__getattribute__(name)

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> Any:
        """Return the traced array."""
        if dtype is not None and np.dtype(dtype) != np.float64:
            raise TraceEnded("to_numpy(dtype=...) turns a traced value into a plain array", do="drop dtype=")
        return _without_labels(self)


def _without_labels(x: Any) -> Any:
    """Return a value that is read by label as a plain traced array."""
    base = next(kind for kind in type(x).__mro__ if issubclass(kind, Tracer) and not issubclass(kind, _ByLabel))
    return _as_kind(x, base, base)


def _positions_of_labels(known: Any, key: Any, labels: Labels) -> Any:
    """Return the positions of one label, or of a list of labels. Raises KeyError, TraceEnded."""
    listed = list(known)
    if isinstance(key, list):
        if key and all(isinstance(part, bool | np.bool_) for part in key):
            return np.array(key)
        return [_positions_of_labels(known, part, labels) for part in key]
    try:
        count = listed.count(key)
    except (TypeError, ValueError):
        count = 0
    if count > 1 or isinstance(key, slice | tuple):
        raise _pandas_error(labels, f"[{key!r}]")
    if not count:
        raise KeyError(key)
    return listed.index(key)


class PandasEnded(TraceEnded):
    """Something of pandas was asked of a traced value, which it does not have."""


def _pandas_error(labels: Labels, what: str) -> TraceEnded:
    do = advise_values_of_pandas("df" if labels.is_frame else "x")
    return PandasEnded(f"{what} of a {labels.kind.__name__} is not traced", do=do)


@dataclass(frozen=True, slots=True)
class LabelledLeaf(Leaf):
    """The place of the values of a pandas Series or DataFrame, with its labels."""

    labels: Labels


@dataclass(frozen=True, slots=True)
class ContainerNode:
    """A container: its parts, and the function that makes it again from them."""

    parts: tuple["Node", ...]
    make: Callable[[list[Any]], Any]


Node = Leaf | ContainerNode


class NamedValues(dict[str, Any]):
    """Values whose keys serve unchanged as paths: the parameters of a module, `layers.0.weight`."""


def take_apart(name: str, x: Any) -> tuple[Node, dict[str, Any]]:
    """Return the structure of a value and its leaves by path.

    Raises  BadPoint for a structure that is nested too deeply, for example one that contains itself.
    """
    leaves: dict[str, Any] = {}
    return _take_apart_at(name, x, leaves, 0), leaves


def _take_apart_at(path: str, x: Any, leaves: dict[str, Any], depth: int) -> Node:
    if depth > MOST_DEEP:
        raise BadPoint(f"{path[:40]}... is nested more than {MOST_DEEP} deep", do="give a flatter structure")
    container = _open_container(path, x)
    if container is None:
        while path in leaves:  # two keys may give the same path
            path += "'"
        labels = labels_of(x)
        leaves[path] = x if labels is None else np.asarray(x.to_numpy())
        return Leaf(path) if labels is None else LabelledLeaf(path, labels)
    named, make = container
    return ContainerNode(tuple(_take_apart_at(inner, part, leaves, depth + 1) for inner, part in named), make)


def _open_container(path: str, x: Any) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]] | None:
    """Return the parts of a container with their paths, and what makes it again of other parts; None for a leaf."""
    if isinstance(x, Tracer | np.ndarray):
        return None
    if isinstance(x, Mapping):
        keys = list(x)
        plain: Any = dict if type(x) is dict else lambda pairs: _mapping_like(x, dict(pairs))
        paths = keys if isinstance(x, NamedValues) else [_path_of_member(path, key) for key in keys]
        return list(zip(paths, x.values(), strict=True)), lambda parts: plain(zip(keys, parts, strict=True))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        fields = [(f"{path}.{name}", part) for name, part in zip(x._fields, x, strict=True)]
        return fields, lambda parts: type(x)(*parts)
    if isinstance(x, list | tuple):
        return [(f"{path}[{k}]", part) for k, part in enumerate(x)], type(x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = [(f"{path}.{field.name}", getattr(x, field.name)) for field in dataclasses.fields(x)]
        return fields, lambda parts: _dataclass_like(x, parts)
    return None


def _path_of_member(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"


def _mapping_like(original: Any, members: dict[Any, Any]) -> Any:
    """Return a mapping of the original's type with other members; a defaultdict keeps its factory."""
    try:
        made = copy.copy(original)
        made.update(members)
    except (TypeError, AttributeError):  # a mapping that cannot be written to
        return members
    return made


def _dataclass_like(x: Any, parts: list[Any]) -> Any:
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


def paths_of_leaves(node: Node) -> list[str]:
    """Return the paths of the leaves, in order."""
    return [node.path] if isinstance(node, Leaf) else [path for part in node.parts for path in paths_of_leaves(part)]


def labels_by_path(nodes: Iterable[Node]) -> dict[str, Labels]:
    """Return the labels of the leaves that have some, by path."""
    found: dict[str, Labels] = {}
    for node in nodes:
        if isinstance(node, LabelledLeaf):
            found[node.path] = node.labels
        elif isinstance(node, ContainerNode):
            found |= labels_by_path(node.parts)
    return found


def join_complex_pairs(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each pair `z.real`, `z.imag`, as a report writes it, joined into one complex `z`."""
    names = [path.removesuffix(".real") for path in flat if path.endswith(".real")]
    pairs = [name for name in names if f"{name}.imag" in flat]
    parts = {f"{name}.{part}" for name in pairs for part in ("real", "imag")}
    whole = {name: np.asarray(flat[f"{name}.real"]) + 1j * np.asarray(flat[f"{name}.imag"]) for name in pairs}
    return {path: x for path, x in flat.items() if path not in parts} | whole


def nest_by_path(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values named by path, as a report writes them, as nested dicts and lists.

    Raises  BadPoint if a path is given both alone and as a container.
    """
    found = _Made()
    for path, x in flat.items():
        pieces = path.replace("[", ".[").split(".")
        *keys, last = (int(p[1:-1]) if p[:1] == "[" and p[1:-1].isdecimal() else p for p in pieces)
        here = found
        for key in keys:
            here = here.setdefault(key, _Made())
            if not isinstance(here, _Made):
                says = f"'{path}' is given twice: alone, and in the container that holds it"
                raise BadPoint(says, do="leave one out")
        here[last] = x
    return {str(name): _plain_containers(x) for name, x in found.items()}


class _Made(dict[Any, Any]):
    """A container that paths name."""


def _plain_containers(x: Any) -> Any:
    if not isinstance(x, _Made):
        return x  # the user's own container
    members = {key: _plain_containers(part) for key, part in x.items()}
    if members and sorted(map(str, members)) == sorted(map(str, range(len(members)))):
        return [part for _, part in sorted(members.items(), key=lambda pair: int(pair[0]))]
    return members
