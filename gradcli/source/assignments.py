"""Read the strings of `--at` that give inputs their values by name: `x=0.5, W=randn(3,4), data=file.py:DATA`."""

import re
from collections.abc import Callable
from typing import Any

from gradcli.errors import BadPoint, GradcliError, Span
from gradcli.source.draws import NO_SIZES, Sizes, Source
from gradcli.source.point_files import PATH_OF_AN_ENTRY, file_values, without_quotes
from gradcli.source.tokens import folded, parts
from gradcli.source.values import from_file, read_value

_INNER = re.compile(r"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>\w+(?:\.\w+|\[\d+\])+)\s*=(?!=)")
_PYTHON_VALUE = re.compile(
    rf"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>{PATH_OF_AN_ENTRY})\s*=\s*"
    r"(?P<code>(?:[^,;\n@=()\[\]]+\.py|[^\W\d][\w.]*)::?[^\W\d][\w.]*(?:\(\))?)[^\S\n]*(?=[,;\n]|$)"
)


def assignments(
    text: str, seed: int = 0, point: int = 0, sizes: Sizes = NO_SIZES, from_python: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """Return the values named in `x=0.5, W=randn(3,4)`; a name may be a path into an argument, such as `params.A`.

    `from_python` returns what `file.py:DATA` names; without it such a value is refused.

    Raises  BadPoint, with the place, for a value that cannot be read, has no name, or is given twice; TooLarge.
    """
    found: dict[str, Any] = {}
    unquoted = without_quotes(text)
    taken = []
    in_code = _PYTHON_VALUE.finditer(unquoted)
    for matches, group, read in ((file_values(text), "file", from_file), (in_code, "code", _code_reader(from_python))):
        for match in matches:
            name = folded(match["name"])
            where = Span(text, match.start("name"), len(match["name"]))
            _once(name, found, where)
            try:
                found[name] = read(text[match.start(group) : match.end(group)].strip(), name)
            except GradcliError as error:
                if group == "code":
                    error.where = error.where or Span(text, match.start(group), match.end(group) - match.start(group))
                raise
            taken.append(match.span())
    rest = _blanked(text, taken)
    inner = {match.start("name"): match["name"] for match in _INNER.finditer(_blanked(unquoted, taken))}
    for start, path in inner.items():
        rest = rest[:start] + "_" * len(path) + rest[start + len(path) :]
    for part in parts(rest):
        if part.name is None:
            raise BadPoint("a point names its values", where=part.span(0, len(part.source)), do="write x=0.5, y=[1, 2]")
        name = folded(inner.get(part.name.start, part.name.text))
        _once(name, found, Span(text, part.name.start, len(part.name.text)))
        found[name] = read_value(part, Source(seed, name, point, sizes))
    return found


def _code_reader(from_python: Callable[[str], Any] | None) -> Callable[[str, str], Any]:
    def read(code: str, name: str) -> Any:
        if from_python is None:
            says = f"the value of {name}, {code}, is Python code, which runs for Python functions only"
            raise BadPoint(says, do=f"give the values of an expression as data: {name}=@{name}.npy")
        return from_python(code)

    return read


def _once(name: str, found: dict[str, Any], where: Span) -> None:
    if name in found:
        raise BadPoint(f"'{name}' is given twice", where=where, do="leave one out")


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the string with pieces replaced by blanks, so that columns do not shift."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text
