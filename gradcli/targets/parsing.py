"""Parse one statement with Python's parser, raising our errors, and locate the nodes in the statement's source."""

import ast

from gradcli.errors import BadExpression, TooLarge
from gradcli.targets.tokens import Statement


def extent(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a node begins and ends, as (line, byte) pairs."""
    return (getattr(node, "lineno", 1), getattr(node, "col_offset", 0)), (
        getattr(node, "end_lineno", 1) or 1,
        getattr(node, "end_col_offset", 0) or 0,
    )


def characters(source: str, line: int, at: int) -> int:
    """Return Python's position in UTF-8 bytes as a position in characters."""
    return at if source.isascii() else len(source.encode()[:at].decode(errors="ignore"))


def parsed(statement: Statement) -> ast.expr:
    """Return Python's syntax tree of one statement.

    Raises  BadExpression for invalid syntax; TooLarge for nesting that is too deep for Python's parser.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gradcli gives its own advice, not Python's ("perhaps you missed a comma")
            return ast.parse(statement.source, mode="eval").body
    except SyntaxError as error:
        at = max(0, min((error.offset or 1) - 1, len(statement.source) - 1))
        message = (error.msg or "invalid syntax").split(". Perhaps")[0].split(". Did you")[0]
        raise BadExpression(
            f"{message}", where=statement.span(at, at + 1), do="check the operators and brackets around this place"
        ) from None
    except (RecursionError, MemoryError, ValueError):
        raise TooLarge(
            "the expression is nested too deeply", where=statement.span(0, 1), do="name parts of it: u = ...; ..."
        ) from None
