"""Reports as JSON data: strict JSON, floats that round-trip, large arrays summarised."""

import dataclasses
import functools
import math
from enum import Enum
from typing import Annotated, Any

from gradcli.classes import dataclass
from gradcli.report.common import Absent

MAX_ENTRIES = 10_000
WORST = 10
_PLAIN = frozenset({str, int, bool, type(None)})  # what JSON has too; floats may be infinite
TEXT_ONLY = "text only"  # the mark, in a field's metadata, of what says how text is shown


Values = Annotated[Any, "array"]  # a field that holds a number or an array; a large array is summarised
Given = Annotated[Any, "argument"]  # a field that holds what the user gave: numbers, or what else Python code takes


Status = Annotated[int, "exit_status"]  # a field that holds the exit status of the command


@dataclass(frozen=True, slots=True)
class Opaque:
    """What stays of a value of the user's own type in another process: the name of the type."""

    type: str


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
    from gradcli.report.tidy import largest_entries, norm

    plain = complex if x.dtype.kind == "c" else float
    worst = [{"index": [*at], "value": encode(plain(x[at]))} for at in largest_entries(x, WORST)]
    return {"shape": list(x.shape), "norm": _encode_float(norm(x)), "worst": worst}


def _encode_float(x: float) -> float | str:
    return x if math.isfinite(x) else str(x)
