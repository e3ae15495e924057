"""JSON Schemas, generated from the report types."""

import dataclasses
import types
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gradcli.report.encode import Absent, document_fields

Json = dict[str, Any]

_NUMBER: Json = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
_DEFINITIONS: Json = {
    "number": _NUMBER,
    "array": {
        "anyOf": [
            {"$ref": "#/$defs/number"},
            {"type": "string", "pattern": "^-?[0-9.]+(e[-+]?[0-9]+)?$"},
            {"type": "array", "items": {"$ref": "#/$defs/array"}},
            {
                "type": "object",
                "required": ["shape", "norm", "worst"],
                "properties": {
                    "shape": {"type": "array", "items": {"type": "integer"}},
                    "norm": {"$ref": "#/$defs/number"},
                    "worst": {"type": "array"},
                },
            },
        ]
    },
    "argument": {
        "anyOf": [
            {"$ref": "#/$defs/array"},
            {"type": ["string", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/argument"}},
        ]
    },
}


def schema_of(kind: type, title: str) -> Json:
    """Return the JSON Schema (2020-12) of the documents made from a report type.

    Documents may gain fields without a new number, so fields the schema does not know are allowed.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_type(kind),
        "$defs": _DEFINITIONS,
    }


def _type(hint: Any) -> Json:
    if get_origin(hint) is Annotated:
        return {"$ref": f"#/$defs/{get_args(hint)[1]}"}
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        options = [_type(part) for part in parts if part is not Absent]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(parts[1])}
    if origin in (tuple, list, frozenset):
        return {"type": "array", "items": _type(parts[0])}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _SIMPLE[str]
    raise TypeError(f"no schema for {hint}")


_SIMPLE: dict[Any, Json] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, type(None): {"type": "null"},
    float: {"$ref": "#/$defs/number"}, Any: {},
}  # fmt: skip


def _object(kind: type) -> Json:
    hints = get_type_hints(kind, include_extras=True)
    fields = document_fields(kind)
    required = [field.name.rstrip("_") for field in fields if Absent not in get_args(hints[field.name])]
    properties = {field.name.rstrip("_"): _type(hints[field.name]) for field in fields}
    return {"type": "object", "required": required, "properties": properties}
