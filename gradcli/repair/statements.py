"""The edits of whole statements: `=` for `+=`, the sign of an update, a statement that is left out."""

import ast
from collections.abc import Iterator

import numpy as np

from gradcli.repair.place import Edit
from gradcli.repair.scope import UNKNOWN, Scope, is_index, is_number, shape_of
from gradcli.repair.text import Change, Text, expressions

_UPDATES = ("=", "+=", "-=", "*=", "/=")
_TWINS = {"=": ("+=", "-="), "+=": ("-=", "="), "-=": ("+=", "="), "*=": ("/=",), "/=": ("*=",)}


def statement_edits(statement: ast.stmt, text: Text, scope: Scope | None, alone: bool) -> Iterator[Edit]:
    """Yield the edits of a statement; one that is `alone` in its block cannot be left out."""
    if isinstance(statement, ast.AugAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return
    between = text.span(target)[1], text.span(statement.value)[0]
    own = next((sign for sign in reversed(_UPDATES) if sign in text.text[slice(*between)]), "=")
    start = text.text.index(own, between[0])
    there = isinstance(target, ast.Name) and scope is not None and is_number(scope.values.get(target.id))
    known = isinstance(statement, ast.AugAssign) or isinstance(target, ast.Subscript)
    reads_itself = own == "=" and text.piece(target) in {text.piece(node) for node, _ in expressions(statement.value)}
    for sign in _TWINS[own] if (known or there) and not reads_itself else ():  # nobody writes h += h - a
        kind = "sign" if {own, sign} == {"+=", "-="} else "assignment"
        yield Edit(kind, 1.0, statement.lineno, (Change(start, start + len(own), sign),))
    if known and not alone:
        first = text.text.rfind("\n", 0, text.span(statement)[0]) + 1
        last = text.text.find("\n", text.span(statement)[1]) + 1 or len(text.text)
        if text.text[first:last].strip() == text.piece(statement).strip():
            yield Edit("statement", 2.0, statement.lineno, (Change(first, last, ""),))
    if own in ("+=", "-=") and isinstance(target, ast.Subscript) and scope is not None and scope.prefix:
        function = f"{scope.prefix}{'add' if own == '+=' else 'subtract'}.at"
        new = f"{function}({text.piece(target.value)}, {text.piece(target.slice)}, {text.piece(statement.value)})"
        yield Edit("assignment", 1.3, statement.lineno, (Change(*text.span(statement), new),))


def left_out(statement: ast.stmt, text: Text, scope: Scope) -> Iterator[Edit]:
    """Yield edits that add an update after an assignment: of a name by a value of its shape, or by a product of two."""
    target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
    if not isinstance(statement, ast.Assign | ast.AugAssign) or not isinstance(target, ast.Name):
        return
    own = scope.value(text.piece(statement.value))
    if not is_number(own) or is_index(own) or own is UNKNOWN:
        return
    start = text.text.rfind("\n", 0, text.span(statement)[0]) + 1
    end = text.span(statement)[1]
    indent = text.text[start : text.span(statement)[0]]
    if indent.strip():
        return
    for cost, update in _updates(scope, shape_of(own), target.id):
        for sign in ("+=", "-="):
            new = f"\n{indent}{target.id} {sign} {update}"
            yield Edit("statement", cost, statement.lineno, (Change(end, end, new),))


def rename_edits(statement: ast.stmt, text: Text, scope: Scope) -> Iterator[Edit]:
    """Yield edits that take another value of the same shape for a name, wherever the statement reads it more than once."""
    read: dict[str, list[ast.Name]] = {}
    for node, parent in expressions(statement):
        is_function = isinstance(parent, ast.Call) and parent.func is node
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not is_function:
            read.setdefault(node.id, []).append(node)
    for name, nodes in read.items():
        own = scope.value(name)
        if len(nodes) < 2 or not is_number(own) or is_index(own):
            continue
        for term in scope.names:
            if term.text != name and not is_index(term.value) and shape_of(term.value) == shape_of(own):
                changes = tuple(Change(*text.span(node), term.text) for node in nodes)
                yield Edit("name", 1.3 if term.unread else 1.9, statement.lineno, changes)


def _updates(scope: Scope, shape: tuple[int, ...], own: str) -> Iterator[tuple[float, str]]:
    """Yield values of a shape: names, products of two names, sums of products, other expressions of the code."""
    names = [term for term in scope.names if not is_index(term.value) and term.text != own]
    for term in (*names, *scope.terms):
        if shape_of(term.value) == shape:
            yield 3.0, term.text
    for k, a in enumerate(names):
        for b in names[k:]:
            both = shape_of(a.value), shape_of(b.value)
            yield from _products(a.text, b.text, both, shape, scope.prefix)
    for a in names:
        for b in scope.terms:
            both = shape_of(a.value), shape_of(b.value)
            yield from ((cost + 0.4, new) for cost, new in _products(a.text, f"({b.text})", both, shape, scope.prefix))


def _products(
    a: str, b: str, both: tuple[tuple[int, ...], tuple[int, ...]], shape: tuple[int, ...], prefix: str
) -> Iterator[tuple[float, str]]:
    first, second = both
    try:
        broadcast = np.broadcast_shapes(first, second)
    except ValueError:
        broadcast = (-1,)
    if broadcast == shape:
        yield 3.1, f"{a} * {b}"
        yield 3.4, f"{a} / {b}"
        yield 3.4, f"{b} / {a}"
    if shape == () and broadcast not in ((), (-1,)):
        yield 3.1, f"{prefix}sum({a} * {b})"
    if len(shape) == 2 and len(first) == len(second) == 1:
        yield from (
            (3.1, f"{prefix}outer({p}, {q})")
            for p, q, n, m in ((a, b, first, second), (b, a, second, first))
            if n + m == shape
        )
    for p, q, left, right in ((a, b, first, second), (b, a, second, first)):
        if left and right and len(left) == 2:
            for spelled, rows, inner in ((p, left[0], left[1]), (f"{p}.T", left[1], left[0])):
                if inner == right[0] and (rows, *right[1:]) == shape:
                    yield 3.1, f"{spelled} @ {q}"
