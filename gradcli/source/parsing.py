"""Python's parser behind our errors: the tree of one statement, and where its nodes stand in the user's text."""

import ast

from gradcli.errors import BadExpression, TooLarge
from gradcli.source.tokens import Statement


def extent(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a node begins and ends, as (line, byte) pairs."""
    return (getattr(node, "lineno", 1), getattr(node, "col_offset", 0)), (
        getattr(node, "end_lineno", 1) or 1,
        getattr(node, "end_col_offset", 0) or 0,
    )


def characters(source: str, line: int, at: int) -> int:
    """Return a position in characters for Python's position in UTF-8 bytes."""
    return at if source.isascii() else len(source.encode()[:at].decode(errors="ignore"))


def parsed(statement: Statement) -> ast.expr:
    """Return Python's tree of one statement; every failure of Python's parser becomes an error of ours."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice about code ("perhaps you missed a comma") is ours to give
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
