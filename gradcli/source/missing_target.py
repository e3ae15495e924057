"""Targets that are not there, found by looking and by reading, before anything is imported or run."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gradcli.errors import BadTarget
from gradcli.source.targets import TARGET

_COMMANDS = ("check", "compare-modes", "sweep", "derive", "grad", "trace")
_TAKE_VALUES = (
    "--at",
    "-a",
    "--wrt",
    "--seed",
    "--shapes",
    "--grad",
    "--jac",
    "--hess",
    "--jvp",
    "--vjp",
    "--hvp",
    "--pick",
    "--modes",
)
_FLAGS = (
    "--value-and-grad", "--require-claim", "--json", "--quiet", "-q", "--verbose", "-v", "--color", "--no-color", "--traceback",
    "--no-cache", "--allow-inconclusive", "--mutate",
)  # fmt: skip
_VALUE = re.compile(r"\s*[\w.\[\]]+\s*=(?!=)")
_MAKES_NAMES = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__dict__", "modules", "__getattr__"})
_MOST_BYTES = 2_000_000
_LISTED = 12


def refuse_missing(argv: Sequence[str]) -> None:
    """Raise BadTarget if a command has one target, which names a Python file, a module or a name that is not there.

    It decides only what is certain without importing: the words are the target, values, and known options with theirs.
    """
    if len(argv) < 2 or argv[0] not in _COMMANDS or argv[1].startswith("-") or not _one_target(argv[2:]):
        return
    match = TARGET.fullmatch(argv[1].strip())
    if match is None:
        return
    file = match["file"]
    if not file.endswith(".py"):
        _refuse_module(file)
        return
    if not Path(file).is_file():
        raise no_file(file)
    if Path(file).name != "__init__.py":  # whose names may be modules
        _refuse_name(file, match["name"].partition(".")[0])


def _one_target(words: Sequence[str]) -> bool:
    """Whether words are options that are known, with their values, and values of inputs, but no other targets."""
    before = ""
    for word in words:
        if before in _TAKE_VALUES:
            before = ""
        elif word in _TAKE_VALUES or word in _FLAGS:
            before = word
        elif word.startswith("-") or not _VALUE.match(word):
            return False
    return before not in _TAKE_VALUES


def no_file(path: str) -> BadTarget:
    """Return the error for a Python file that is not there, with a name near it."""
    file = Path(path)
    what = f"{path} is a folder" if file.is_dir() else f"there is no file {path}"
    try:
        known = sorted(each.name for each in (file.parent if file.parent.is_dir() else Path()).glob("*.py"))
    except OSError:
        known = []
    near = nearest(file.name, known)
    if near is not None:
        return BadTarget(what, do=f"did you mean {file.parent / near if str(file.parent) != '.' else near}?")
    return BadTarget(what, do=f"in that folder: {', '.join(known[:8])}" if known else "check the path")


def no_module(name: str) -> BadTarget:
    """Return the error for a module that is not there."""
    advice = f"did you mean {name}.py:...?" if Path(f"{name}.py").exists() else "give a file: path/to/file.py:name"
    return BadTarget(f"there is no module '{name}'", do=advice)


def no_name(where: str, part: str, known: Sequence[str], full: str, what: str = "function") -> BadTarget:
    """Return the error for a name that a file or an object does not have; `full` is how one beside it is named."""
    near = nearest(part, known)
    listed = f"it has: {', '.join(known[:_LISTED])}" if known else f"it defines no {what}s"
    return BadTarget(
        f"{where} has no {what} '{part}'", do=f"did you mean {full.replace('?', near)}? {listed}" if near else listed
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None if none is similar."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return close[0] if close else None


def _refuse_module(name: str) -> None:
    top = name.partition(".")[0]
    if top in sys.modules or any(_has_module(folder, top) for folder in (".", *sys.path)):
        return
    import importlib.util

    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if found is None:
        raise no_module(name)


def _has_module(folder: str, name: str) -> bool:
    path = Path(folder or ".", name)
    return path.is_dir() or path.with_name(f"{name}.py").is_file()


def _refuse_name(file: str, name: str) -> None:
    """Raise BadTarget if a file certainly binds no such name; what cannot be read or is made at run time is not certain."""
    import ast

    try:
        if Path(file).stat().st_size > _MOST_BYTES:
            return
        source = Path(file).read_bytes()
        if name.encode() in source and re.search(
            rb"^(?:def|class) +%s\b" % re.escape(name).encode(), source, re.MULTILINE
        ):
            return
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    words = {getattr(node, "id", getattr(node, "attr", getattr(node, "name", None))) for node in ast.walk(tree)}
    if words & _MAKES_NAMES or any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)
    ):
        return
    if name in set(_bound(tree)) or name.startswith("__"):
        return
    raise no_name(file, name, [each for each in _functions(tree) if not each.startswith("_")], f"{file}:?")


def _bound(tree: object) -> Iterator[str]:
    """Yield the names that a file binds anywhere, in functions too, which may declare them global."""
    import ast

    for node in ast.walk(tree):  # type: ignore[arg-type]
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        else:
            for text in (getattr(node, "name", None), getattr(node, "rest", None), *getattr(node, "names", ())):
                if isinstance(text, str):
                    yield text


def _functions(tree: object) -> Iterator[str]:
    """Yield the functions and classes of a file, lambdas too, in order."""
    import ast

    for node in getattr(tree, "body", ()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
