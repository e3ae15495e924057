"""Reports as JSON data: strict JSON, floats that round-trip, large arrays summarised; their schemas; and documents read back."""

import dataclasses
import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gradcli.report.common import ABSENT, Absent, Opaque
from gradcli.words import Exit

MAX_ENTRIES = 10_000
WORST = 10
_PLAIN = frozenset({str, int, bool, type(None)})  # what JSON has too; floats may be infinite
TEXT_ONLY = "text only"  # the mark, in a field's metadata, of what says how text is shown


Values = Annotated[Any, "array"]  # a field that holds a number or an array; a large array is summarised
Given = Annotated[Any, "argument"]  # a field that holds what the user gave: numbers, or what else Python code takes


Status = Annotated[int, "exit_status"]  # a field that holds the exit status of the command


@functools.cache
def document_fields(report: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a report by their names in documents, which have none of those that only say how text is shown."""
    return {field.name.rstrip("_"): field for field in dataclasses.fields(report) if not field.metadata.get(TEXT_ONLY)}


@functools.cache
def _field_names(kind: type) -> tuple[tuple[str, str], ...] | None:
    """Return the names of the fields of a report, as attributes and in documents, the schema first; None for other types."""
    if not dataclasses.is_dataclass(kind):
        return None
    names = [(field.name, name) for name, field in document_fields(kind).items()]
    return tuple(sorted(names, key=lambda pair: pair[1] != "schema"))


def encode(x: Any) -> Any:
    """Return plain JSON data: non-finite numbers as strings, arrays as nested lists or a summary, absent fields left out."""
    kind = type(x)
    if kind in _PLAIN:
        return x
    if kind is float:
        return x if math.isfinite(x) else _encode_float(x)
    if isinstance(x, list | tuple):
        return [encode(part) for part in x]
    if isinstance(x, dict):
        return {str(key): encode(value) for key, value in x.items()}
    if kind is Opaque:
        return f"<{x.type}>"
    names = _field_names(kind)  # type: ignore[arg-type]
    if names is not None:
        found = ((name, getattr(x, attribute)) for attribute, name in names)
        return {name: encode(value) for name, value in found if type(value) is not Absent}
    if isinstance(x, Enum):
        return x.value
    if isinstance(x, float):
        return _encode_float(float(x))
    if isinstance(x, complex):
        return {"re": _encode_float(float(x.real)), "im": _encode_float(float(x.imag))}
    if isinstance(x, frozenset):
        return sorted(encode(part) for part in x)
    return x if isinstance(x, str | int) else _encode_numpy(x)


def _encode_numpy(x: Any) -> Any:
    """Return a number or an array of numpy as JSON data; of anything else the name of its type.

    numpy is loaded late, because errors are documents too.
    """
    import numpy as np

    if not isinstance(x, np.ndarray):
        kinds = ((np.bool_, bool), (np.integer, int), (np.floating, float), (np.complexfloating, complex))
        plain = next((plain for kind, plain in kinds if isinstance(x, kind)), None)
        return f"<{type(x).__name__}>" if plain is None else encode(plain(x))
    if x.dtype.kind not in "fiubcO":
        return [str(part) for part in x.reshape(-1)[:MAX_ENTRIES]]
    if x.size <= MAX_ENTRIES or x.dtype.kind == "O":
        return encode(x.tolist())
    from gradcli.report.numbers import largest_entries, norm

    plain = complex if x.dtype.kind == "c" else float
    worst = [{"index": [*at], "value": encode(plain(x[at]))} for at in largest_entries(x, WORST)]
    return {"shape": list(x.shape), "norm": _encode_float(norm(x)), "worst": worst}


def _encode_float(x: float) -> float | str:
    return x if math.isfinite(x) else str(x)


# Documents read back: the inverse of `encode`, by the types of the fields, so that what prints a report prints its document.

T = TypeVar("T")
_OBJECT = re.compile(r"<([^\W\d]\w*)>")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class NotADocument(ValueError):
    """The data is not a document of this type: a field is missing, or its value has another form."""


class Summarised(ValueError):
    """The document has the summary of a large array in place of its entries, from which the array cannot be made again."""


def decode_document(kind: type[T], data: Any) -> T:
    """Return the value of a type whose JSON data this is, such as a `CheckReport` from its document.

    Fields that the type does not have are ignored, as a later version may have added them.

    Raises  NotADocument; Summarised for an array of more than 10,000 entries, whose document has a summary.
    """
    return cast(T, _reader_of_type(cast(Any, kind))(data))


@cache
def _reader_of_type(hint: Any) -> Callable[[Any], Any]:
    """Return the function that reads the JSON data of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {"array": _read_array, "argument": _read_argument}.get(parts[1], _reader_of_type(parts[0]))
    if origin is Literal:
        return lambda data: _require(data in parts, data, f"not one of {parts}")
    if origin in (Union, types.UnionType):
        readers = [_reader_of_type(part) for part in parts if part not in (Absent, type(None))]
        return _union_reader(readers, type(None) in parts)
    if origin in (dict, Mapping):
        of_value = _reader_of_type(parts[1])
        return lambda data: {str(key): of_value(value) for key, value in _check_type(dict, data).items()}
    if origin is tuple and parts[-1] is not Ellipsis:
        of_parts = [_reader_of_type(part) for part in parts]
        return lambda data: _read_tuple(of_parts, data)
    if origin in (tuple, frozenset, list):
        make, of_part = cast(Callable[[Any], Any], origin), _reader_of_type(parts[0])
        return lambda data: make([of_part(part) for part in _check_type(list, data)])
    if dataclasses.is_dataclass(hint):
        return _object_reader(cast(type, hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = [member.value for member in hint]
        return lambda data: hint(_require(data in words, data, f"no {hint.__name__}"))
    if hint is float:
        return _read_float
    return (lambda data: _check_type(hint, data)) if hint in (int, str, bool) else lambda data: data


def _object_reader(kind: type) -> Callable[[Any], Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields = document_fields(kind)
    readers = {name: _reader_of_type(hints[field.name]) for name, field in fields.items()}
    absent = {field.name: ABSENT for field in fields.values() if Absent in get_args(hints[field.name])}

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise NotADocument(f"there is no {kind.__name__}")
        found = absent | {fields[name].name: reader(data[name]) for name, reader in readers.items() if name in data}
        try:
            return kind(**found)
        except TypeError as error:
            raise NotADocument(f"{kind.__name__}: a field is missing") from error

    return read


def _union_reader(readers: list[Callable[[Any], Any]], may_be_null: bool) -> Callable[[Any], Any]:
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


def _read_tuple(readers: list[Callable[[Any], Any]], data: Any) -> tuple[Any, ...]:
    if len(_check_type(list, data)) != len(readers):
        raise NotADocument("a list has another length")
    return tuple(reader(part) for reader, part in zip(readers, data, strict=True))


def _require(is_right: bool, data: Any, what: str) -> Any:
    """Return the data; raise NotADocument, which says what it is instead, where they are not right."""
    if not is_right:
        raise NotADocument(f"{data!r:.40} is {what}")
    return data


def _check_type(kind: type, data: Any) -> Any:
    is_right = isinstance(data, kind) and not (kind is int and isinstance(data, bool))
    return _require(is_right, data, f"no {kind.__name__}")


def _read_float(data: Any) -> float:
    if isinstance(data, str) and data in _NUMBERS:
        return _NUMBERS[data]
    return float(_require(isinstance(data, int | float) and not isinstance(data, bool), data, "no number"))


def _read_array(data: Any) -> Any:
    """Return a number, a decimal string, or an array."""
    if isinstance(data, dict) and "worst" in data:
        raise Summarised
    entries = _read_entries(data)
    if not isinstance(entries, list):
        return entries
    import numpy as np

    try:
        found = np.asarray(entries)
    except ValueError as error:
        raise NotADocument("an array has rows of different lengths") from error
    return found.astype(object) if found.dtype.kind == "U" else found  # decimal strings


def _read_entries(data: Any) -> Any:
    if isinstance(data, list):
        return [_read_entries(part) for part in data]
    if isinstance(data, dict):
        return complex(_read_float(data.get("re")), _read_float(data.get("im")))
    return _NUMBERS.get(data, data) if isinstance(data, str) else data


def _read_argument(data: Any) -> Any:
    """Return what an argument was: numbers and arrays of numbers; other lists and texts as they are.

    Of any other object the document has the type's name in angle brackets.
    """
    if isinstance(data, str) and (named := _OBJECT.fullmatch(data)):
        return Opaque(named[1])
    if isinstance(data, dict) and "worst" not in data and set(data) != {"re", "im"}:
        return data
    try:
        found = _read_array(data)
    except NotADocument:
        return data
    import numpy as np

    numeric = isinstance(found, np.ndarray) and found.dtype.kind in "fiubc"
    return found if numeric or not isinstance(data, list) else data


# JSON Schemas generated from the report types; descriptions of fields come from the docstrings of the types.

Json = dict[str, Any]

_NUMBER: Json = {
    "anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}],
    "description": "A number; NaN and infinities are strings.",
}
_INDICES: Json = {"type": "array", "items": {"type": "integer"}}
_SUMMARY: Json = {
    "type": "object",
    "description": "A summary of an array of more than 10,000 entries.",
    "required": ["shape", "norm", "worst"],
    "properties": {
        "shape": _INDICES | {"description": "The length of each axis."},
        "norm": {"$ref": "#/$defs/number", "description": "The root of the sum of the squares of all entries."},
        "worst": {
            "type": "array",
            "description": "The ten largest entries by size, those that are not finite first.",
            "items": {
                "type": "object",
                "required": ["index", "value"],
                "properties": {
                    "index": _INDICES | {"description": "The index of the entry, counted from 0."},
                    "value": {"$ref": "#/$defs/number", "description": "The entry."},
                },
            },
        },
    },
}
_DEFINITIONS: Json = {
    "number": _NUMBER,
    "array": {
        "description": "A number, a number as a decimal string, an array as nested lists, or the summary of a large array.",
        "anyOf": [
            {"$ref": "#/$defs/number"},
            {"type": "string", "pattern": "^-?[0-9.]+(e[-+]?[0-9]+)?$"},
            {"type": "array", "items": {"$ref": "#/$defs/array"}},
            _SUMMARY,
        ],
    },
    "argument": {
        "description": "The value of an argument: numbers, a string, a boolean, null, or a list of these; any other object is "
        "given by the name of its class.",
        "anyOf": [
            {"$ref": "#/$defs/array"},
            {"type": ["string", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/argument"}},
        ],
    },
    "exit_status": {
        "description": f"The exit status of the process: {', '.join(f'{x.value} {x.name.lower()}' for x in Exit)}.",
        "enum": [status.value for status in Exit],
    },
}
_FIELD = re.compile(r"([a-z]\w*) {2,}(\S.*)")


def make_schema(report_type: type, title: str) -> Json:
    """Return the JSON Schema (2020-12) of the documents made from a report type.

    A schema may gain fields and enumeration values without a new version number, so unknown fields are allowed.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "A schema may gain fields and enumeration values without a new version number.",
        "title": title,
        **_schema_of_hint(report_type),
        "$defs": _DEFINITIONS,
    }


def _schema_of_hint(hint: Any) -> Json:
    if get_origin(hint) is Annotated:
        return {"$ref": f"#/$defs/{get_args(hint)[1]}"}
    if hint in _PRIMITIVE_SCHEMAS:
        return dict(_PRIMITIVE_SCHEMAS[hint])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object_schema(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        options = [_schema_of_hint(part) for part in parts if part is not Absent]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of_hint(parts[1])}
    if origin in (tuple, list, frozenset):
        return {"type": "array", "items": _schema_of_hint(parts[0])}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [member.value for member in hint]}
    raise TypeError(f"no schema for {hint}")


_PRIMITIVE_SCHEMAS: dict[Any, Json] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, type(None): {"type": "null"},
    float: {"$ref": "#/$defs/number"}, Any: {},
}  # fmt: skip


def _object_schema(report_type: type) -> Json:
    hints, descriptions = get_type_hints(report_type, include_extras=True), field_descriptions(report_type)
    required, properties = [], {}
    for name, field in document_fields(report_type).items():
        hint = hints[field.name]
        required += [name] if Absent not in get_args(hint) else []
        field_schema = {"const": field.default} if field.name == "schema" else _schema_of_hint(hint)
        properties[name] = {**field_schema, "description": descriptions[field.name]}
    says = " ".join(inspect.cleandoc(report_type.__doc__ or "").split("\n\n")[0].split())  # the first paragraph
    return {"type": "object", "description": says, "required": required, "properties": properties}


def field_descriptions(report_type: type) -> dict[str, str]:
    """Return the descriptions of fields in the docstring of a type: lines `name  text`, continued by indented ones."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(report_type.__doc__ or "").splitlines():
        if match := _FIELD.fullmatch(line):
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("  "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found
