"""The functions of a claim: which of the user's code it runs, the live functions with this code, and its syntax."""

import ast
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from gradcli.tracing.captured import codes
from gradcli.tracing.provenance import is_users

Definition = ast.FunctionDef | ast.Lambda
_LARGEST = 1_000_000  # bytes of a file that is edited
_WITH_CUSTOM_GRADIENT = {"custom_function", "custom_jvp", "custom_vjp"}  # decorators of JAX and MLX


def codes_run(call: Callable[[], Any]) -> list[CodeType]:
    """Return the code of the user's functions that a call runs, in the order of their first calls."""
    found: dict[CodeType, None] = {}

    def heard(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_users(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith("<"):
            found.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(found)


def live_functions(path: str) -> dict[str, list[FunctionType]]:
    """Return the functions of a file that exist now, by their qualified name."""
    found: dict[str, list[FunctionType]] = {}
    for x in gc.get_objects():
        if type(x) is FunctionType and x.__code__.co_filename == path:
            found.setdefault(x.__code__.co_qualname, []).append(x)
    return found


@dataclass(frozen=True)
class SourceFile:
    """A file of the user's, as text with the line ends as they are."""

    path: str
    text: str

    @classmethod
    def read(cls, path: str) -> "SourceFile | None":
        """Return a file in UTF-8; None if it is large, in another encoding, or no Python."""
        try:
            content = Path(path).read_bytes()
            found = cls(path, content.decode("utf-8"))
            _ = found.tree
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            return None
        return found if len(content) <= _LARGEST and not content.startswith(b"\xef\xbb\xbf") else None

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def definitions(self) -> dict[tuple[int, str], Definition]:
        """The functions of the file, by their first line and name, as their code objects give them."""
        found: dict[tuple[int, str], Definition] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                found[first_line(node), node.name] = node
            elif isinstance(node, ast.Lambda):
                found.setdefault((node.lineno, "<lambda>"), node)
        return found

    def definition(self, code: CodeType) -> Definition | None:
        """Return the function that a code object was compiled from."""
        return self.definitions.get((code.co_firstlineno, code.co_name))

    @cached_property
    def forwards(self) -> set[Definition]:
        """The functions that compute the value: those with a custom gradient, and what `defvjp` registers beside it."""
        calls = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        named = {getattr(n.args[0], "id", "") for n in calls if getattr(n.func, "attr", "") == "defvjp" and n.args}
        return {node for (_, name), node in self.definitions.items() if name in named or _has_custom_gradient(node)}

    def reached(self, roots: list[Definition]) -> set[Definition]:
        """Return the functions of this file that some of them may call, by their names, and these themselves."""
        named: dict[str, list[Definition]] = {}
        for (_, name), node in self.definitions.items():
            named.setdefault(name, []).append(node)
        found, waiting = set(roots), list(roots)
        while waiting:
            for inner in ast.walk(waiting.pop()):
                name = (
                    inner.attr if isinstance(inner, ast.Attribute) else inner.id if isinstance(inner, ast.Name) else ""
                )
                for other in named.get(name, []):
                    if other not in found:
                        found.add(other)
                        waiting.append(other)
        return found


def _has_custom_gradient(node: Definition) -> bool:
    """Whether a decorator says that another function computes the gradient of this one."""
    words = [word for d in getattr(node, "decorator_list", ()) for word in ast.walk(d)]
    return any(getattr(w, "attr", getattr(w, "id", "")) in _WITH_CUSTOM_GRADIENT for w in words)


@dataclass(frozen=True)
class Unit:
    """A piece of a file that is compiled anew: a function or method, with what it is defined in."""

    first: int  # its lines, counted from 0
    last: int
    header: str  # the line of the class that the method is in

    def compiled(self, text: str, path: str, flags: int) -> list[CodeType]:
        """Return the code of the functions in the piece. Raises SyntaxError."""
        code = compile(self.header + text, path, "exec", flags=flags, dont_inherit=True)
        return [inner for inner in codes(code) if inner.co_name != "<module>"]


def unit_of(tree: ast.Module, node: ast.AST) -> Unit:
    """Return the smallest piece around a function that can be compiled alone."""
    line = getattr(node, "lineno", 1)
    top = next(s for s in tree.body if first_line(s) <= line <= (s.end_lineno or s.lineno))
    if isinstance(top, ast.ClassDef):
        for s in top.body:
            if first_line(s) <= line <= (s.end_lineno or s.lineno) and isinstance(s, ast.FunctionDef):
                return Unit(s.lineno - 1, s.end_lineno or s.lineno, f"class {top.name}:\n")
    start = top.lineno if isinstance(top, ast.FunctionDef) else first_line(top)
    return Unit(start - 1, top.end_lineno or top.lineno, "")


def first_line(node: ast.AST) -> int:
    """Return the first line of a definition or a statement, with its decorators."""
    line: int = getattr(node, "lineno", 1)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([line, *(d.lineno for d in decorators)])
