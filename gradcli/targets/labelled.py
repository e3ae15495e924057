"""pandas Series and DataFrames: taken apart into an array and its labels, put together again, and read by label in a trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.tracing.tracer import Tracer

_REDUCTIONS = ("sum", "mean", "prod", "max", "min", "dot", "cumsum", "cumprod")  # which take columns in a DataFrame
_OTHERWISE = ("std", "var", "round", "sort_values")  # which differ from numpy's in a Series, too
_SHOWN = 3


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
            return _traced(x, self)
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
            yield (
                f"{path} is nan in {entries}, first at {first}",
                f"leave them out, {path}.dropna(), or fill them, {path}.fillna(0.0)",
            )
        for what, labels in (("index", self.index), ("columns", self.columns)):
            twice = _twice(() if labels is None else list(labels))
            if twice:
                says = f"the {what} of {path} ha{'s' if what == 'index' else 've'} {twice[0]!r} more than once"
                yield (
                    says,
                    "pandas then aligns and selects several at once; reset_index(drop=True) gives each its own label",
                )


def labels_of(x: Any) -> Labels | None:
    """Return the labels of a pandas Series or DataFrame whose values are all floats, or None for anything else."""
    if isinstance(x, Tracer | np.ndarray) or not hasattr(x, "to_numpy") or not hasattr(x, "index"):
        return None
    if hasattr(x, "columns"):
        formats = list(getattr(x, "dtypes", ()))
        return Labels(type(x), x.index, x.columns) if formats and all(map(_is_float, formats)) else None
    if not hasattr(x, "name") or not _is_float(getattr(x, "dtype", None)):
        return None
    return Labels(type(x), x.index, None, x.name)


def values_of(x: Any) -> Any:
    """Return the values of a Series or a DataFrame as an array."""
    return np.asarray(x.to_numpy())


def in_a_trace(x: Any) -> str:
    """Return what to write instead of pandas for an argument, so that the trace goes on."""
    return f"take the values: {x}.to_numpy(), {x}['column'].to_numpy(); these are traced"


def in_pandas(error: BaseException | None) -> bool:
    """Whether an exception, or one that it comes from, was raised in a call of pandas."""
    for _ in range(10):
        trace = None if error is None else error.__traceback__
        while trace is not None:
            if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "pandas":
                return True
            trace = trace.tb_next
        error = None if error is None else error.__cause__ or error.__context__
    return False


def _is_float(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "f"


def _twice(labels: Sequence[Any]) -> list[Any]:
    seen: set[Any] = set()
    found = []
    for label in labels:
        if label in seen:
            found.append(label)
            if len(found) == _SHOWN:
                break
        seen.add(label)
    return found


def _traced(x: Tracer, labels: Labels) -> Any:
    """Return a traced value that is read by label."""
    kind: Any = type(x)
    made: Any = object.__new__(_readable(kind))
    for base in kind.__mro__:
        for name in getattr(base, "__slots__", ()):
            if name not in ("storage", "__weakref__", "labels"):
                setattr(made, name, getattr(x, name))
    made.storage, made.labels = None, labels
    return made


@lru_cache
def _readable(kind: Any) -> Any:
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
        if isinstance(key, np.ndarray | slice | Tracer) and not (isinstance(key, slice) and _names(key)):
            return read(key)
        if not labels.is_frame:
            return read(_positions(labels.index, key, labels))
        if isinstance(key, list):
            chosen = Labels(labels.kind, labels.index, key)
            return _traced(read((slice(None), _positions(labels.columns, key, labels))), chosen)
        column = read((slice(None), _positions(labels.columns, key, labels)))
        return _traced(column, Labels(labels.kind, labels.index, None, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        labels: Labels | None = getattr(self, "labels", None)
        if labels is not None and not isinstance(key, np.ndarray | slice | Tracer):
            known = labels.columns if labels.is_frame else labels.index
            if not isinstance(key, list) and key not in list(known):
                raise _ended(labels, f"[{key!r}] = ...")
            found = _positions(known, key, labels)
            key = (slice(None), found) if labels.is_frame else found
        super().__setitem__(key, value)  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        labels: Labels | None = None if name == "labels" else getattr(self, "labels", None)
        if labels is None or name.startswith("_"):
            raise AttributeError(name)
        if name in ("index", "columns", "name"):
            return getattr(labels, name)
        if name in ("values", "array", "iloc"):
            return _plain(self)
        if name == "loc" and not labels.is_frame:
            return self
        if labels.is_frame and name in list(labels.columns):
            return self[name]
        if hasattr(labels.kind, name):
            raise _ended(labels, f".{name}")
        raise AttributeError(f"'{labels.kind.__name__}' object has no attribute '{name}'")

    def __getattribute__(self, name: str) -> Any:
        if name in _OTHERWISE or name in _REDUCTIONS:
            labels = object.__getattribute__(self, "__getattr__") and getattr(self, "labels", None)
            if labels is not None and (labels.is_frame or name in _OTHERWISE):
                raise _ended(labels, f".{name}")
        return super().__getattribute__(name)

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> Any:
        """Return the traced array."""
        if dtype is not None and np.dtype(dtype) != np.float64:
            raise TraceEnded("to_numpy(dtype=...) turns a traced value into a plain array", do="drop dtype=")
        return _plain(self)


def _plain(x: Any) -> Any:
    """Return a value that is read by label as a plain traced array."""
    base = next(kind for kind in type(x).__mro__ if issubclass(kind, Tracer) and not issubclass(kind, _ByLabel))
    made: Any = object.__new__(base)
    for kind in base.__mro__:
        for name in getattr(kind, "__slots__", ()):
            if name not in ("storage", "__weakref__"):
                setattr(made, name, getattr(x, name))
    made.storage = None
    return made


def _names(key: slice) -> bool:
    return any(isinstance(part, str) for part in (key.start, key.stop))


def _positions(known: Any, key: Any, labels: Labels) -> Any:
    """Return the positions of one label, or of a list of labels. Raises KeyError, TraceEnded."""
    listed = list(known)
    if isinstance(key, list):
        if key and all(isinstance(part, bool | np.bool_) for part in key):
            return np.array(key)
        return [_positions(known, part, labels) for part in key]
    try:
        count = listed.count(key)
    except (TypeError, ValueError):
        count = 0
    if count > 1 or isinstance(key, slice | tuple):
        raise _ended(labels, f"[{key!r}]")
    if not count:
        raise KeyError(key)
    return listed.index(key)


class PandasEnded(TraceEnded):
    """Something of pandas was asked of a traced value, which it does not have."""


def _ended(labels: Labels, what: str) -> TraceEnded:
    kind = labels.kind.__name__
    return PandasEnded(f"{what} of a {kind} is not traced", do=in_a_trace("df" if labels.is_frame else "x"))
