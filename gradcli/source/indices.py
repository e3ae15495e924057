"""What stands in the brackets of x[...]: positions that are written out, and inputs whose values are positions."""

import ast
from collections.abc import Callable, Container
from typing import Any

from gradcli.errors import BadExpression, Span
from gradcli.source.names import CONSTANTS
from gradcli.source.static import integer


def parts_of(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an index, one for each axis."""
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def places(parts: list[ast.expr], names: Container[str], given: Container[str]) -> list[int]:
    """Return the axes, the last one first, whose index is an input; `names` are those of statements, `given` those of inputs.

    None are returned beside `...` and new axes, which move the axes after them.
    """
    if any(isinstance(p, ast.Constant) and p.value in (None, ...) for p in parts):
        return []
    named = [isinstance(p, ast.Name) and p.id not in names and (p.id not in CONSTANTS or p.id in given) for p in parts]
    return [k for k in reversed(range(len(parts))) if named[k]]


def written_out(node: ast.expr, span: Callable[[ast.AST], Span]) -> Any:
    """Return an index that is written out. Raises BadExpression for any other; `span` says where a node is."""
    if isinstance(node, ast.Tuple):
        return tuple(written_out(part, span) for part in node.elts)
    if isinstance(node, ast.Slice):
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else written_out(part, span) for part in ends))
    if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
        return node.value
    if isinstance(node, ast.List):
        return [written_out(part, span) for part in node.elts]
    whole = integer(node)
    if whole is None:
        raise BadExpression(
            "an index must be a whole number, an input, a slice or a list of numbers",
            where=span(node),
            do="write x[0], x[k], x[1:] or x[0, :]",
        )
    return whole
