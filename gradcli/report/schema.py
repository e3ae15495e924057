"""JSON Schemas generated from the report types; descriptions of fields come from the docstrings of the types."""

import dataclasses
import inspect
import re
import types
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gradcli.report.common import Absent
from gradcli.report.encode import document_fields
from gradcli.words import Exit

Json = dict[str, Any]

_NUMBER: Json = {
    "anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}],
    "description": "A number; NaN and infinities are strings.",
}
_SUMMARY: Json = {
    "type": "object",
    "description": "A summary of an array of more than 10,000 entries.",
    "required": ["shape", "norm", "worst"],
    "properties": {
        "shape": {"type": "array", "items": {"type": "integer"}, "description": "The length of each axis."},
        "norm": {"$ref": "#/$defs/number", "description": "The root of the sum of the squares of all entries."},
        "worst": {
            "type": "array",
            "description": "The ten largest entries by size, those that are not finite first.",
            "items": {
                "type": "object",
                "required": ["index", "value"],
                "properties": {
                    "index": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "description": "The index of the entry, counted from 0.",
                    },
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


def schema_of(report_type: type, title: str) -> Json:
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
        return _object(hint)
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


def _object(report_type: type) -> Json:
    hints = get_type_hints(report_type, include_extras=True)
    fields = document_fields(report_type)
    required = [field.name.rstrip("_") for field in fields if Absent not in get_args(hints[field.name])]
    descriptions = field_descriptions(report_type)
    properties = {}
    for field in fields:
        field_schema = {"const": field.default} if field.name == "schema" else _schema_of_hint(hints[field.name])
        properties[field.name.rstrip("_")] = {**field_schema, "description": descriptions[field.name]}
    return {"type": "object", "description": _summary(report_type), "required": required, "properties": properties}


def field_descriptions(report_type: type) -> dict[str, str]:
    """Return the descriptions of fields in the docstring of a type: lines `name  text`, continued by indented ones."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(report_type.__doc__ or "").splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("  "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def _summary(report_type: type) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(report_type.__doc__ or "").split("\n\n")[0].split())
