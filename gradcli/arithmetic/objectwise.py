"""Arithmetic on object arrays: the common base of balls and symbols.

Elementwise primitives use a table of functions of single entries. Primitives that only move or add entries run without
change, because numpy accepts object arrays in them.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from gradcli.errors import NotSupported
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.tracer import Arithmetic, Tracer

EntryFunction = Callable[..., Any]


class Objectwise(Arithmetic):
    """A value whose entries are Python objects: one entry for a scalar, an object array otherwise."""

    __slots__ = ("value",)
    level = 0
    what: ClassVar[str]
    entries: ClassVar[dict[str, EntryFunction]]
    whole: ClassVar[dict[str, EntryFunction]]
    _ufuncs: ClassVar[dict[tuple[str, int], Any]]

    def __init__(self, value: Any) -> None:
        self.value = value
        self.storage = None

    def __init_subclass__(cls) -> None:
        cls._ufuncs = {}

    @classmethod
    def entry(cls, number: Any) -> Any:
        """Return one plain number as an entry."""
        raise NotImplementedError

    @classmethod
    def entries_of(cls, numbers: Any) -> Iterable[Any]:
        """Return an iterator over the entries for an array of plain numbers."""
        return map(cls.entry, numbers.reshape(-1).tolist())

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(cls.objects(number))

    def hold(self, x: Value) -> Tracer:
        return type(self)(self.objects(x))

    @classmethod
    def objects(cls, x: Value) -> Any:
        """Return a value as an entry or an object array of entries; boolean arrays are returned without change."""
        if isinstance(x, Objectwise):
            return x.value
        if isinstance(x, float | int | np.floating | np.integer) and not isinstance(x, bool | np.bool_):
            return cls.entry(x)
        x = np.asarray(x)
        if x.dtype == bool or x.dtype == object:
            return x
        return np.fromiter(cls.entries_of(x), object, x.size).reshape(x.shape)[()]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape if type(self.value) is np.ndarray else ()

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        name = primitive.name
        objects = [self.objects(x) for x in xs]
        if name in self.whole:
            y = _unbox_entry(self.whole[name](*_box_entries(objects), **params))
        elif name in self.entries:
            y = self._apply_elementwise(name, objects, params)
        elif name in ("scatter", "sum"):
            y = _unbox_entry(self._add_entries(name, _box_entries(objects)[0], params))
        elif primitive.kind in ("linear", "bilinear"):
            y = _unbox_entry(primitive.fun(*_box_entries(objects), **params))
        elif primitive.body:
            return primitive.fun(*[x if isinstance(x, Tracer) else self.lift(x) for x in xs], **params)
        else:
            raise NotSupported(f"{primitive.title(params)} is not available in {self.what}")
        return np.asarray(y, dtype=bool)[()] if _is_truth(y) else type(self)(y)

    def _add_entries(self, name: str, x: Any, params: Params) -> Any:
        """Return a sum over axes, or entries added into zeros, with zeros of this arithmetic where nothing is added."""
        zero = self.entry(0)
        if name == "sum":
            return np.sum(x, axis=params["axis"], initial=zero)
        y = np.full(params["into"], zero, dtype=object)
        np.add.at(y, params["index"], x)
        return y

    def _apply_elementwise(self, name: str, objects: Sequence[Any], params: Params) -> Any:
        function = self.entries[name]
        if not any(type(x) is np.ndarray for x in objects):
            return function(*objects, **params)
        if params:
            return np.frompyfunc(functools.partial(function, **params), len(objects), 1)(*objects)
        key = (name, len(objects))
        if key not in self._ufuncs:
            self._ufuncs[key] = np.frompyfunc(function, len(objects), 1)
        return self._ufuncs[key](*objects)


def install_quick_operator(kind: type[Objectwise], name: str, dunder: str) -> None:
    """Make an operator of `kind` use its table directly for single entries; the results are those of `process`."""
    function = kind.entries[name]
    slow, reflected_slow = getattr(Tracer, f"__{dunder}__"), getattr(Tracer, f"__r{dunder}__")

    def entry_of(self: Objectwise, other: Any) -> Any:
        if type(self) is not kind or type(self.value) is np.ndarray:
            return None
        if type(other) is kind:
            return None if type(other.value) is np.ndarray else other.value
        return self.entry(other) if type(other) in _SINGLE else None

    def forward(self: Objectwise, other: Any) -> Any:
        b = entry_of(self, other)
        return slow(self, other) if b is None else kind(function(self.value, b))

    def reflected(self: Objectwise, other: Any) -> Any:
        b = entry_of(self, other)
        return reflected_slow(self, other) if b is None else kind(function(b, self.value))

    setattr(kind, f"__{dunder}__", forward)
    setattr(kind, f"__r{dunder}__", reflected)


_SINGLE = {float, int, np.float64}


def _box_entries(objects: Sequence[Any]) -> list[Any]:
    """Return values as arrays; a single entry becomes an array without axes."""
    boxed = []
    for x in objects:
        if type(x) is not np.ndarray:
            box = np.empty((), dtype=object)
            box[()] = x
            x = box
        boxed.append(x)
    return boxed


def array_of_entries(entries: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return entries as an object array of a shape."""
    filled = np.empty(shape, dtype=object)
    filled.reshape(-1)[:] = entries
    return filled


def apply_to_stacks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of matrices as a function of stacks of matrices, called matrix by matrix."""

    def of_stacks(*xs: Any, **params: Any) -> Any:
        stack = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
        if not stack:
            return function(*xs, **params)
        xs = tuple(np.broadcast_to(x, stack + x.shape[-2:]) for x in xs)
        found = [function(*(x[at] for x in xs), **params) for at in np.ndindex(*stack)]
        entries = [entry for y in found for entry in (y.reshape(-1).tolist() if isinstance(y, np.ndarray) else [y])]
        return array_of_entries(entries, stack + getattr(found[0], "shape", ()) if found else stack)

    return of_stacks


def _unbox_entry(y: Any) -> Any:
    return y[()] if type(y) is np.ndarray and y.shape == () else y


def _is_truth(y: Any) -> bool:
    if type(y) is np.ndarray:
        return y.size > 0 and type(y.reshape(-1)[0]) in (bool, np.bool_)
    return type(y) in (bool, np.bool_)
