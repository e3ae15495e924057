"""Read the checks that `@gradcli.checked(...)` declares from the source of a project, without running it."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradcli.discovery.files import python_files
from gradcli.discovery.reader import CannotRead, parsed
from gradcli.errors import BadOption, Place

_NAME = "checked"


@dataclass(frozen=True, slots=True)
class Decorated:
    """A function with the decorator: its target, the keywords of the decorator, and its place."""

    target: str
    keywords: dict[str, Any]
    place: Place

    def at(self, key: str) -> Place:
        """Return the place of a keyword: that of the decorator."""
        return self.place


def decorated(folder: Path, paths: Iterable[str]) -> Iterator[Decorated]:
    """Yield the decorated functions in these paths of a folder, by file and line.

    Raises  BadOption for a path that is not there, a file that cannot be read, and a keyword that is no literal.
    """
    seen: set[Path] = set()
    for path in paths:
        if not (folder / path).exists():
            raise BadOption(f"paths names '{path}', and there is no such file or folder", do="correct paths")
        for name in python_files(str(folder / path)):
            file = Path(name)
            if file.resolve() not in seen and _may_have(file):
                seen.add(file.resolve())
                yield from _of_file(file, folder)


def _may_have(file: Path) -> bool:
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return b"gradcli" in content and _NAME.encode() in content


def _of_file(file: Path, folder: Path) -> Iterator[Decorated]:
    try:
        tree = parsed(str(file))
    except CannotRead as error:
        says = f"{file} may declare checks with @gradcli.checked, and cannot be read: {error}"
        raise BadOption(says, do="correct the file, or leave it out of paths") from None
    inside = file.relative_to(folder) if file.is_relative_to(folder) else file
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    names = _names(tree)
    for qualname, function in _functions(tree, ""):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in names:
                place = Place(inside.as_posix(), decorator.lineno, lines[decorator.lineno - 1])
                yield Decorated(f"{inside.as_posix()}:{qualname}", _keywords(decorator, place), place)


def _names(tree: ast.Module) -> set[str]:
    """Return how the file may write the decorator."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {f"{alias.asname or alias.name}.{_NAME}" for alias in node.names if alias.name == "gradcli"}
            found |= {
                f"gradcli.{_NAME}" for alias in node.names if not alias.asname and alias.name.startswith("gradcli.")
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "gradcli":
            found |= {alias.asname or alias.name for alias in node.names if alias.name == _NAME}
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module or class with their names, those below `if`, `try` and `with` too."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef):
            yield f"{prefix}{inner.name}", inner
        elif isinstance(inner, ast.ClassDef):
            yield from _functions(inner, f"{prefix}{inner.name}.")
        elif isinstance(inner, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
            inner, ast.AsyncFunctionDef
        ):
            yield from _functions(inner, prefix)


def _keywords(decorator: ast.Call, place: Place) -> dict[str, Any]:
    """Return the keywords of the decorator with hyphens; a bare name of a function is its text."""
    if decorator.args or any(keyword.arg is None for keyword in decorator.keywords):
        raise BadOption(
            "@gradcli.checked takes keywords", where=place, do='write @gradcli.checked(grad="f_grad", at="x=1")'
        )
    found = {}
    for keyword in decorator.keywords:
        name = str(keyword.arg).replace("_", "-")
        if isinstance(keyword.value, ast.Name):
            found[name] = keyword.value.id
            continue
        try:
            found[name] = ast.literal_eval(keyword.value)
        except (ValueError, SyntaxError, TypeError):
            says = f"{keyword.arg}= of @gradcli.checked is no literal, and the file is read, not run"
            raise BadOption(says, where=place, do='write its value, such as at="x=[1, 2]"') from None
    return found
