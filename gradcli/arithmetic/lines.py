"""The origin of a recorded line: a line of user code or a piece of an expression, and the name that the statement assigns."""

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from gradcli.arithmetic.tape import Line
from gradcli.errors import Place, Span
from gradcli.tracing.provenance import place

Statement = tuple[int, int, str]  # its first and its last line, and the name that it assigns, or an empty string


def where(position: Any) -> str | None:
    """Return a recorded position as text: `loss.py:5`, or `columns 7-9` of an expression; None if it is unknown."""
    found = place(position)
    if isinstance(found, Place):
        return f"{found.file}:{found.line}"
    if isinstance(found, Span):
        first, last = found.column + 1, found.column + len(found.source.split("\n")[0])
        column = f"column {first}" if first >= last else f"columns {first}-{last}"
        return f"line {found.line}, {column}" if "\n" in found.text else column
    return None


def names(lines: Sequence[Line]) -> list[str | None]:
    """Return, for each line of a tape, the user's name for its value; only the last line of a statement has one."""
    statements = [_statement(position) for _, _, _, _, _, position in lines]
    found: list[str | None] = []
    for k, ((key, name), (primitive, *_)) in enumerate(zip(statements, lines, strict=True)):
        last = k + 1 == len(lines) or key is None or statements[k + 1][0] != key
        found.append(name if last and primitive is not None else None)
    return found


def products(lines: Sequence[Line]) -> set[int]:
    """Return the inner lines of products recorded as exp(sum(log(x))): the logarithm and the sum."""
    found: set[int] = set()
    for k in range(len(lines) - 2):
        (log, _, _, _, _, at), (add, summed, _, _, _, also), (exp, raised, _, _, _, still) = lines[k : k + 3]
        made = [primitive.name if primitive is not None else "" for primitive in (log, add, exp)]
        if made == ["log", "sum", "exp"] and (summed, raised) == ((k,), (k + 1,)) and at == also == still:
            found |= {k, k + 1}
    return found


def _statement(position: Any) -> tuple[Any, str | None]:
    """Return a key that identifies the statement of a position, and the name that it assigns."""
    if not isinstance(position, tuple):
        return (None if position is None else id(position)), getattr(position, "name", None)
    spot = place(position)
    if not isinstance(spot, Place):
        return None, None
    file = position[0].co_filename
    inside = [s for s in _statements("".join(linecache.getlines(file))) if s[0] <= spot.line <= s[1]]
    if not inside:
        return (file, spot.line), None
    innermost = min(inside, key=lambda s: s[1] - s[0])
    return (file, innermost), innermost[2] or None


@cache
def _statements(source: str) -> tuple[Statement, ...]:
    """Return the simple statements of a file; none if the file cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
    return tuple(
        (node.lineno, node.end_lineno or node.lineno, next(_named(node), ""))
        for node in ast.walk(tree)
        if isinstance(node, simple)
    )


def _named(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if len(targets) == 1 and isinstance(targets[0], ast.Name):
        yield targets[0].id
