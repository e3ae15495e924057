"""Read points and shapes from the strings of the command line: merge strings into points, draw values."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.errors import BadOption, BadPoint, GradcliError, Span, nearest
from gradcli.request.target_text import folded, is_python
from gradcli.targets.draws import NO_SIZES, Sizes, Source, Whole
from gradcli.targets.loading import load, module_of, public_names, running
from gradcli.targets.point_files import PATH_OF_AN_ENTRY, file_values, gives_values, without_quotes
from gradcli.targets.tokens import parts
from gradcli.targets.values import from_file, read_value, value, whole_point

WHOLE = "*"  # the key of a point that Python code supplies as one object
_BETWEEN = re.compile(r"[;\n]|,(?=\s*\w+\s*:)")  # also a comma, if another input follows
_BY = re.compile(r"(?<=\d)\s*[x×]\s*(?=\d)")
_PAIR = re.compile(r"\s*(?P<name>\w+)\s*:\s*(?P<sizes>[^;:]*)")


_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def read(
    texts: Sequence[str], seed: int = 0, sizes: Sizes = NO_SIZES, separate: bool = False, target: str = ""
) -> list[dict[str, Any]]:
    """Return the points that `--at` strings and NAME=VALUE arguments name, in order.

    The strings are merged into one point. Naming an input again begins the next point, which inherits the other values.
    If `separate`, each string is a whole point, which inherits nothing. Where the `target` is Python code, a bare name is
    a point in its module, and a value may be `file.py:NAME`.

    Raises  BadPoint, TooLarge for values that cannot be read; BadTarget for Python code that cannot be loaded.
    """
    if separate:
        return [_one(text, seed, number, sizes, target) for number, text in enumerate(texts)]
    points: list[dict[str, Any]] = []
    named: set[str] = set()
    for text in texts:
        found = _one(text, seed, max(0, len(points) - 1), sizes, target)
        if points and named & set(found):
            found = _one(text, seed, len(points), sizes, target)
            points.append({**points[-1], **found})
            named = set(found)
        elif points:
            points[-1] |= found
            named |= set(found)
        else:
            points, named = [found], set(found)
    return points


# Read the strings of `--at` that give inputs their values by name: `x=0.5, W=randn(3,4), data=file.py:DATA`.

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


def _one(text: str, seed: int, point: int, sizes: Sizes, target: str) -> dict[str, Any]:
    stripped = text.strip()
    if stripped.startswith("@"):
        return whole_point(stripped)
    if is_python(stripped) and not gives_values(stripped):
        return {WHOLE: _called(load(stripped).found, stripped)}
    if is_python(target) and _NAME.fullmatch(stripped):
        return {WHOLE: _called(_in_module(stripped, target), stripped)}
    if not stripped:
        raise BadPoint("the point is empty", do='write --at "x=0.5, y=1.2"')
    return assignments(text, seed, point, sizes, _from_python if is_python(target) else None)


def _from_python(text: str) -> Any:
    """Return an object of the user's code as the value of one argument."""
    found = load(text, "value").found
    return Whole(found) if type(found) is int else found


def _in_module(name: str, target: str) -> Any:
    """Return what a name refers to in the target's module. Raises BadPoint."""
    module = module_of(target)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = nearest(name, public_names(module))
            where = target.rpartition(":")[0].rstrip(":")
            do = f"did you mean {near}?" if near else f'name a point there, or write values: --at "{name}=0.5"'
            raise BadPoint(f"{where} has no '{name}'", do=do)
        found = getattr(found, part)
    return found


def _called(found: Any, text: str) -> Any:
    """Return the point that a function or an object in the user's code supplies."""
    if not callable(found):
        return found
    with running(f"{text}()", BadPoint):
        return found()


def shapes(texts: Iterable[str], sizes: Sizes = NO_SIZES) -> dict[str, tuple[int, ...]]:
    """Return the shapes in `W:3,4` or `W: 3 4; x: 4; lam:`.

    Raises  BadOption for a string that cannot be read, or a size that is neither an integer nor a name in `sizes`.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, words in pairs(texts):
        known = [str(sizes.get(word, word)) for word in words]
        if not all(word.isdecimal() and len(word) < 15 for word in known):
            says = f"the sizes of {name} are not whole numbers: {' '.join(words)}"
            raise BadOption(says, do="values need numbers: --shapes W:3,4")
        found[name] = tuple(map(int, known))
    return found


def pairs(texts: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each input and the words of its sizes in `W:3,4`, `W: 3x4` or `W: m n; x: n`. Raises BadOption."""
    for text in texts:
        for part in filter(None, (piece.strip() for piece in _BETWEEN.split(text))):
            match = _PAIR.fullmatch(part)
            if match is None:
                raise BadOption(f"the shape '{part}' cannot be read", do='write --shapes "W: 3 4; x: 4"')
            sizes = _BY.sub(" ", match["sizes"].strip("()[] ")).replace(",", " ")
            yield folded(match["name"]), tuple(map(_size, sizes.split()))


def _size(word: str) -> str:
    return folded(word) if word.isidentifier() else word


def as_input(name: str, x: Any) -> Any:
    """Return a value in the form that an expression takes: a float64 array, or np.float64 for a scalar.

    Raises  BadPoint for a value that is not numeric.
    """
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise BadPoint(f"{name} is not a number or an array of numbers", do=f"write {name}=0.5 or {name}=[1, 2, 3]")
    array = np.array(array, dtype=np.float64)
    return array[()] if array.ndim == 0 else array


def drawn(name: str, shape: tuple[int, ...], seed: int, point: int, attempt: int) -> Any:
    """Return a random value; later attempts use other distributions, for functions that are not defined everywhere."""
    size = ", ".join(map(str, shape))
    kinds = (
        f"randn({size})",
        f"uniform(0.1, 0.9{', ' + size if size else ''})",
        f"uniform(1.1, 3{', ' + size if size else ''})",
    )
    return as_input(name, value(kinds[(attempt + _spread(name, attempt)) % 3], name, seed, point + 1000 * attempt))


def _spread(name: str, attempt: int) -> int:
    """Return a shift by which inputs get different distributions, after six attempts with the same one for all."""
    return 0 if attempt < 6 else sum(map(ord, name)) * (attempt // 3)
