"""JSON Schemas, generated from the report types: what a field means stands in the docstring of its type."""

import dataclasses
import inspect
import re
import types
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gradcli.reports.encode import Absent, document_fields
from gradcli.words import Exit

Json = dict[str, Any]

_NUMBER: Json = {
    "anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}],
    "description": "A number; what is not finite is a text.",
}
_SUMMARY: Json = {
    "type": "object",
    "description": "An array of more than 10,000 entries, in short.",
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
        "description": "A number, a number as a decimal string, an array as nested lists, or a large array in short.",
        "anyOf": [
            {"$ref": "#/$defs/number"},
            {"type": "string", "pattern": "^-?[0-9.]+(e[-+]?[0-9]+)?$"},
            {"type": "array", "items": {"$ref": "#/$defs/array"}},
            _SUMMARY,
        ],
    },
    "argument": {
        "description": "What an input is: numbers, or what else Python code takes; an object of a class is its name.",
        "anyOf": [
            {"$ref": "#/$defs/array"},
            {"type": ["string", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/argument"}},
        ],
    },
    "exit_status": {
        "description": f"What the process says to the shell: {', '.join(f'{x.value} {x.name.lower()}' for x in Exit)}.",
        "enum": [status.value for status in Exit],
    },
}
_FIELD = re.compile(r"([a-z]\w*) {2,}(\S.*)")


def schema_of(kind: type, title: str) -> Json:
    """Return the JSON Schema (2020-12) of the documents made from a report type.

    Documents may gain fields without a new number, so fields the schema does not know are allowed.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Documents may gain fields and words without a new number.",
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
        return {"enum": [word.value for word in hint]}
    raise TypeError(f"no schema for {hint}")


_SIMPLE: dict[Any, Json] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, type(None): {"type": "null"},
    float: {"$ref": "#/$defs/number"}, Any: {},
}  # fmt: skip


def _object(kind: type) -> Json:
    hints = get_type_hints(kind, include_extras=True)
    fields = document_fields(kind)
    required = [field.name.rstrip("_") for field in fields if Absent not in get_args(hints[field.name])]
    said = described(kind)
    properties = {}
    for field in fields:
        what = {"const": field.default} if field.name == "schema" else _type(hints[field.name])
        properties[field.name.rstrip("_")] = {**what, "description": said[field.name]}
    return {"type": "object", "description": _summary(kind), "required": required, "properties": properties}


def described(kind: type) -> dict[str, str]:
    """Return what the docstring of a report type says of its fields: lines `name  text`, continued by indented ones."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(kind.__doc__ or "").splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("  "):
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def _summary(kind: type) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
