"""Documents read back: the inverse of `encode`, by the types of the fields, so that what prints a report prints its document."""

import dataclasses
import re
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from gradcli.report.common import ABSENT, Absent
from gradcli.report.encode import Opaque, document_fields

T = TypeVar("T")
_OBJECT = re.compile(r"<([^\W\d]\w*)>")
_NUMBERS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


class NotADocument(ValueError):
    """The data is not a document of this type: a field is missing, or its value has another form."""


class Summarised(ValueError):
    """The document has the summary of a large array in place of its entries, from which the array cannot be made again."""


def decoded(kind: type[T], data: Any) -> T:
    """Return the value of a type whose JSON data this is, such as a `CheckReport` from its document.

    Fields that the type does not have are ignored, as a later version may have added them.

    Raises  NotADocument; Summarised for an array of more than 10,000 entries, whose document has a summary.
    """
    return cast(T, _reader(cast(Any, kind))(data))


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the function that reads the JSON data of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {"array": _array, "argument": _argument}.get(parts[1], _reader(parts[0]))
    if origin is Literal:
        return lambda data: _one_of(parts, data)
    if origin in (Union, types.UnionType):
        return _first_of([_reader(part) for part in parts if part not in (Absent, type(None))], type(None) in parts)
    if origin in (dict, Mapping):
        return _values_by_name(_reader(parts[1]))
    if origin is tuple and parts[-1] is not Ellipsis:
        return _row([_reader(part) for part in parts])
    if origin in (tuple, frozenset, list):
        return _several(cast(Callable[[Any], Any], origin), _reader(parts[0]))
    if dataclasses.is_dataclass(hint):
        return _object(cast(type, hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda data: _member(hint, data)
    return _PLAIN.get(hint, lambda data: data)


def _object(kind: type) -> Callable[[Any], Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields = {field.name: _reader(hints[field.name]) for field in document_fields(kind)}
    absent = {name: ABSENT for name in fields if Absent in get_args(hints[name])}

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise NotADocument(f"there is no {kind.__name__}")
        found = absent | {name: reader(data[name]) for name, reader in fields.items() if name in data}
        try:
            return kind(**found)
        except TypeError as error:
            raise NotADocument(f"{kind.__name__}: a field is missing") from error

    return read


def _first_of(readers: list[Callable[[Any], Any]], may_be_null: bool) -> Callable[[Any], Any]:
    """Read data of one of several types: the first that it is of."""

    def read(data: Any) -> Any:
        if data is None and may_be_null:
            return None
        for reader in readers[:-1]:
            try:
                return reader(data)
            except NotADocument:
                continue
        return readers[-1](data)

    return read


def _values_by_name(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: {str(key): reader(value) for key, value in _of(dict, data).items()}


def _several(make: Callable[[Any], Any], reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: make([reader(part) for part in _of(list, data)])


def _row(readers: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def read(data: Any) -> Any:
        if len(_of(list, data)) != len(readers):
            raise NotADocument("a list has another length")
        return tuple(reader(part) for reader, part in zip(readers, data, strict=True))

    return read


def _one_of(words: tuple[Any, ...], data: Any) -> Any:
    if data not in words:
        raise NotADocument(f"{data!r:.40} is not one of {words}")
    return data


def _member(kind: type[Enum], data: Any) -> Any:
    try:
        return kind(data)
    except ValueError as error:
        raise NotADocument(f"{data!r:.40} is no {kind.__name__}") from error


def _of(kind: type, data: Any) -> Any:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise NotADocument(f"{data!r:.40} is no {kind.__name__}")
    return data


def _float(data: Any) -> float:
    if isinstance(data, str) and data in _NUMBERS:
        return _NUMBERS[data]
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise NotADocument(f"{data!r:.40} is no number")
    return float(data)


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    float: _float,
    int: lambda data: _of(int, data),
    str: lambda data: _of(str, data),
    bool: lambda data: _of(bool, data),
}


def _array(data: Any) -> Any:
    """Return a number, a decimal string, or an array."""
    if isinstance(data, dict) and "worst" in data:
        raise Summarised
    entries = _entries(data)
    if not isinstance(entries, list):
        return entries
    try:
        found = np.asarray(entries)
    except ValueError as error:
        raise NotADocument("an array has rows of different lengths") from error
    return found.astype(object) if found.dtype.kind == "U" else found  # decimal strings


def _entries(data: Any) -> Any:
    if isinstance(data, list):
        return [_entries(part) for part in data]
    if isinstance(data, dict):
        return complex(_float(data.get("re")), _float(data.get("im")))
    return _NUMBERS.get(data, data) if isinstance(data, str) else data


def _argument(data: Any) -> Any:
    """Return what an argument was: numbers and arrays of numbers; other lists and texts as they are.

    Of any other object the document has the type's name in angle brackets.
    """
    if isinstance(data, str) and (named := _OBJECT.fullmatch(data)):
        return Opaque(named[1])
    if isinstance(data, dict) and "worst" not in data and set(data) != {"re", "im"}:
        return data
    try:
        found = _array(data)
    except NotADocument:
        return data
    numeric = isinstance(found, np.ndarray) and found.dtype.kind in "fiubc"
    return found if numeric or not isinstance(data, list) else data
