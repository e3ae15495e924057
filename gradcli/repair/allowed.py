"""Which code is run again and again in search of a repair: arithmetic alone, nothing that touches files or processes."""

import ast
import builtins
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

_LIBRARIES = frozenset(
    {
        "numpy",
        "scipy",
        "math",
        "cmath",
        "numba",
        "torch",
        "jax",
        "jaxlib",
        "tensorflow",
        "mlx",
        "functools",
        "itertools",
    }
)
_BUILTINS = frozenset(
    """
    len range zip enumerate sum abs min max float int list tuple dict set frozenset reversed sorted isinstance map filter any
    all round divmod slice bool str print super type complex pow iter next ValueError TypeError RuntimeError ZeroDivisionError
    NotImplementedError ArithmeticError AssertionError IndexError KeyError staticmethod classmethod property repr format
    """.split()  # noqa: SIM905 (a list is three pages long)
)
_REFUSED = frozenset(
    """
    load save savez savez_compressed loadtxt savetxt genfromtxt fromfile tofile memmap open_memmap dump dumps fromregex
    DataSource system popen remove unlink compile eval exec save_file load_library lib ctypeslib f2py distutils io
    """.split()  # noqa: SIM905
)
_STATEMENTS = (ast.Global, ast.Nonlocal, ast.Delete, ast.AsyncFunctionDef, ast.ClassDef, ast.AsyncFor, ast.AsyncWith)
_EXPRESSIONS = (ast.Await, ast.Yield, ast.YieldFrom)


def refused(definition: ast.AST, names: Mapping[str, Any]) -> str | None:
    """Return why a function is not run in search of a repair, as a phrase; None if it may be.

    `names` are the globals of the function. Calls of numpy, scipy, math, the frameworks, of builtin functions that compute,
    of methods of values, and of functions of the same module are allowed.
    """
    own = _assigned(definition)
    for node in ast.walk(definition):
        if isinstance(node, _STATEMENTS) and node is not definition:
            return f"it has a {type(node).__name__.lower()} statement, line {node.lineno}"
        if isinstance(node, _EXPRESSIONS):
            return f"it waits or yields, line {node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.partition(".")[0] not in _LIBRARIES for name in modules):
                return f"it imports {modules[0]}, line {node.lineno}"
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("__") or node.attr in _REFUSED:
                return f"it uses {node.attr}, line {node.lineno}"
            if isinstance(node.ctx, ast.Store) and getattr(node.value, "id", None) not in own:  # a layer's own copy
                return f"it assigns to {ast.unparse(node)}, line {node.lineno}"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            known = node.id in own or _may_be_used(node.id, names)
            if not known:
                return f"it uses {node.id}, line {node.lineno}"
    return None


def _assigned(definition: ast.AST) -> set[str]:
    """Return the names that a function assigns, its parameters, and its inner functions."""
    found = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def _may_be_used(name: str, names: Mapping[str, Any]) -> bool:
    if name not in names:
        return name in _BUILTINS or not hasattr(builtins, name)  # a free variable, or a name that is not there
    x = names[name]
    if isinstance(x, ModuleType):
        return x.__name__.partition(".")[0] in _LIBRARIES
    if isinstance(x, FunctionType):
        return x.__globals__ is names or x.__module__.partition(".")[0] in _LIBRARIES
    if callable(x):
        module = str(getattr(x, "__module__", None) or getattr(type(x), "__module__", ""))
        return module.partition(".")[0] in _LIBRARIES or module == names.get("__name__")
    return True
