"""What the words of a command name and is not there: found by looking and by reading, before anything is imported or run.

Only what is certain is reported; all else is left to the command, which says it in the same words.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gradcli.errors import BadPoint, BadTarget, GradcliError, Place, TooLarge, closest_name
from gradcli.request.target_text import TARGET, is_folder, is_python

# Python targets that are not there, found by looking and by reading, before anything is imported or run.

_MAKES_NAMES = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__dict__", "modules", "__getattr__"})
SOURCES = "src"  # the folder of many projects' packages, from which they are imported as from the current one
_MOST_BYTES = 500_000  # of a file that is parsed here; Python parses it once more when it is imported
_LISTED = 12
_AS_A_SCRIPT = "__name__ == '__main__'"


class ParsedFile(NamedTuple):
    """A Python file that was read and parsed, and not run."""

    text: bytes
    tree: Any  # an ast.Module


def refuse_target(text: str) -> ParsedFile | None:
    """Return the file that a Python target names, if it was read.

    Raises  BadTarget if the file, the module or the name is certainly not there, or the file is not Python.
    """
    match = TARGET.fullmatch(text.strip())
    file = text.strip() if match is None else match["file"]
    if not file.endswith(".py"):
        _refuse_module(file)
        return None
    source = _read_and_parse(file)
    if source is not None and match is not None and Path(file).name != "__init__.py":  # whose names may be modules
        _refuse_name(file, source, match["name"].partition(".")[0])
    return source


def missing_file_error(path: str) -> BadTarget:
    """Return the error for a Python file that is not there, with a name near it."""
    file = Path(path)
    what = f"{path} is a folder" if file.is_dir() else f"there is no file {path}"
    try:
        known = sorted(each.name for each in (file.parent if file.parent.is_dir() else Path()).glob("*.py"))
    except OSError:
        known = []
    near = closest_name(file.name, known)
    if near is not None:
        return BadTarget(what, do=f"did you mean {file.parent / near if str(file.parent) != '.' else near}?")
    return BadTarget(what, do=f"in that folder: {', '.join(known[:8])}" if known else "check the path")


def missing_module_error(name: str) -> BadTarget:
    """Return the error for a module that is not there."""
    advice = f"did you mean {name}.py:...?" if Path(f"{name}.py").exists() else "give a file: path/to/file.py:name"
    return BadTarget(f"there is no module '{name}'", do=advice)


def missing_name_error(where: str, part: str, known: Sequence[str], full: str, what: str = "function") -> BadTarget:
    """Return the error for a name that a file or an object does not have; `full` is how one beside it is named."""
    near = closest_name(part, known)
    listed = f"it has: {', '.join(known[:_LISTED])}" if known else f"it defines no {what}s"
    do = f"did you mean {full.replace('?', near)}? {listed}" if near else listed
    return BadTarget(f"{where} has no {what} '{part}'", do=do)


def _refuse_module(name: str) -> None:
    top = name.partition(".")[0]
    places = (Path(folder or ".", top) for folder in (".", SOURCES, *sys.path))
    if top in sys.modules or any(path.is_dir() or path.with_name(f"{top}.py").is_file() for path in places):
        return
    import importlib.util

    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if found is None:
        raise missing_module_error(name)


def _read_and_parse(file: str) -> ParsedFile | None:
    """Return a Python file, None if it cannot be read here or is too large. Raises BadTarget."""
    import ast
    import warnings

    path = Path(file)
    if not path.is_file():
        raise missing_file_error(file)
    full = str(path.resolve())
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        text = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import shows them
            return ParsedFile(text, ast.parse(text, full))
    except SyntaxError as error:
        from gradcli.tracing.provenance import path_for_display

        raise invalid_python_error(path_for_display(full), error) from error
    except (OSError, ValueError, RecursionError, MemoryError):
        return None


def invalid_python_error(what: str, error: SyntaxError, kind: Callable[..., GradcliError] = BadTarget) -> GradcliError:
    """Return the error for code that is not Python."""
    from gradcli.tracing.provenance import path_for_display

    text = (error.text or "").rstrip("\n")
    place = Place(path_for_display(error.filename or what), error.lineno or 1, text, max(0, (error.offset or 1) - 1), 1)
    return kind(f"{what} is not valid Python: {error.msg}", where=place, do="correct the file")


def _refuse_name(file: str, source: ParsedFile, name: str) -> None:
    """Raise BadTarget if a file certainly binds no such name; what is made at run time is not certain."""
    import ast

    if re.search(rb"^(?:def|class) +%s\b" % re.escape(name).encode(), source.text, re.MULTILINE):
        return
    tree = source.tree
    words = {getattr(node, "id", getattr(node, "attr", getattr(node, "name", None))) for node in ast.walk(tree)}
    stars = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
    if words & _MAKES_NAMES or next(stars, None) is not None:
        return
    known = _defined_functions(tree)
    if known is None or name in set(_bound_names(tree)) or name.startswith("__"):
        return
    raise missing_name_error(file, name, [each for each in known if not each.startswith("_")], f"{file}:?")


def _bound_names(tree: Any) -> Iterator[str]:
    """Yield the names that a file binds anywhere, in functions too, which may declare them global."""
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif not isinstance(getattr(node, "ctx", None), ast.Load | ast.Del):
            texts = (getattr(node, field, None) for field in ("id", "name", "rest"))
            yield from (text for text in (*texts, *getattr(node, "names", ())) if isinstance(text, str))


def _defined_functions(tree: Any) -> list[str] | None:
    """Return the functions and classes of a file, lambdas too, in order; None if what it binds is known when it has run."""
    import ast

    defines = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    own = {node.name for node in ast.walk(tree) if isinstance(node, defines)}
    found: list[str] = []
    for node in tree.body:
        inner = list(ast.walk(node))
        used = [part for part in inner if isinstance(part, ast.Name)]
        if isinstance(node, defines):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == _AS_A_SCRIPT:
            continue  # it is not run when the file is imported
        elif any(isinstance(part, (*defines, ast.Lambda, ast.Delete)) for part in inner):
            return None
        elif own & {part.id for part in used} and any(isinstance(part.ctx, ast.Store) for part in used):
            return None  # such as net = Net(), which may be called
    return list(dict.fromkeys(found))


def refuse_missing(target: str, points: Iterable[str], claims: Iterable[str]) -> None:
    """Raise an error for what a command names and is not there: a Python file, a module, a name, or a file of data.

    `points` are the texts of the target's point, `claims` those of claimed derivatives.

    Raises  BadTarget, BadPoint, TooLarge.
    """
    if is_folder(target):
        return
    with contextlib.suppress(OSError):  # of a path that no file can have
        source = refuse_target(target) if is_python(target) else None
        for text in points:
            _refuse_point(text, target, source)
        for text in claims:
            if is_python(text):
                refuse_target(text)


# Which files the strings of a point name, `x=@x.npy` or `@point.npz`, and whether they are there; nothing is read.

MAX_FILE_BYTES = 2**30
PATH_OF_AN_ENTRY = r"\w+(?:\.\w+|\[\d+\])*"
_KINDS = (".npy", ".npz", ".json", ".csv")
_VALUE = re.compile(r"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>\w+)\s*=\s*@(?P<file>[^,;\n]+)")
_ASSIGNED = re.compile(rf"\s*{PATH_OF_AN_ENTRY}\s*=(?!=)")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def blank_quoted_parts(text: str) -> str:
    """Return the string with each quoted part replaced by blanks, so that columns do not shift."""
    return _QUOTED.sub(lambda match: " " * len(match.group()), text)


def find_file_values(text: str) -> Iterator[re.Match[str]]:
    """Yield where a string of `--at` has values that are files, `x=@x.npy`: the spans of the groups `name` and `file`."""
    yield from _VALUE.finditer(blank_quoted_parts(text))


def has_assignment(text: str) -> bool:
    """Whether a string of `--at` begins with `NAME=`, so that it is no path of a file that happens to have `=` in it."""
    match = _ASSIGNED.match(text)
    return match is not None and not exists(Path(text.partition(".py")[0] + ".py"))


def data_file(reference: str, name: str) -> tuple[Path, str]:
    """Return the path in `@file.npy` or `@file.npz:key`, and the key, which is the input's name if there is none.

    Raises  BadPoint for a file that is missing or of another kind; TooLarge.
    """
    path_text, key = reference.removeprefix("@"), name
    if not exists(Path(path_text)) and ":" in path_text:
        path_text, _, key = path_text.rpartition(":")
    path = _check_regular_file(Path(path_text))
    if path.suffix.lower() not in _KINDS:
        raise BadPoint(f"{path.name} is not a kind of file gradcli reads", do="use .npy, .npz, .json or .csv")
    return path, key


def point_file(reference: str) -> Path:
    """Return the path in `@point.npz` or `@point.json`. Raises BadPoint, TooLarge."""
    path = _check_regular_file(Path(reference.removeprefix("@")))
    if path.suffix.lower() not in (".npz", ".json"):
        do = "use .npz or .json for a whole point, x=@file.npy for one input"
        raise BadPoint(f"{path.name} holds no point", do=do)
    return path


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; False for a path that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _check_regular_file(path: Path) -> Path:
    if not exists(path):
        raise BadPoint(f"there is no file {path}", do="check the path")
    if not path.is_file():
        raise BadPoint(f"{path} is not a regular file", do="give a data file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise TooLarge(f"{path.name} is larger than {MAX_FILE_BYTES:,} bytes", do="use a smaller file")
    return path


def _refuse_point(text: str, target: str, source: ParsedFile | None) -> None:
    """Raise an error for a file that a string of the point names and is not there.

    A file that the target's own code names is left out, because this code may write it when it is imported.
    """
    stripped = text.strip()
    if is_python(stripped) and not has_assignment(stripped):
        refuse_target(stripped)
        return
    whole = stripped.startswith("@")
    values = [text[slice(*match.span("file"))].strip() for match in find_file_values(text)]
    for reference in [stripped] if whole else values:
        stem = Path(reference.removeprefix("@")).name.partition(".")[0]
        named = rb"\b%s(?:\.\w+)?['\"]" % re.escape(stem).encode()  # with any ending or none: np.save("x") adds one
        if is_python(target) and (source is None or re.search(named, source.text)):
            continue
        if whole:
            point_file(reference)
        else:
            data_file(reference, "")
