"""Edits of arithmetic: a number, an operator, brackets, a sign, a power, a factor, a term."""

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.repair.place import New, Place, is_factor, is_term
from gradcli.repair.scope import Term, fits, is_index, shape_of
from gradcli.repair.text import ATOM, SIGN, SIGNS, binding, bound_by, grouped


def constant_edits(place: Place) -> Iterator[New]:
    """Change a number: by one, twice, half, its inverse."""
    node = place.node
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float) or isinstance(node.value, bool):
        return
    x = node.value
    kind = "axis" if isinstance(place.parent, ast.keyword) else "exponent" if _is_exponent(place) else "constant"
    kind = "index" if place.in_index else kind
    for cost, new in ((1.0, x + 1), (1.0, x - 1), (1.3, x * 2), (1.3, x / 2), (1.6, x * x), (1.8, x * 4), (1.8, x / 4)):
        if _is_idle(place, new):
            continue
        whole = isinstance(x, int) and float(new).is_integer()
        yield kind, cost, repr(int(new) if whole else new), ATOM if new >= 0 else SIGN
    if x and not place.in_index:
        yield kind, 1.7, f"1 / {place.piece}", bound_by(ast.Div)


def _is_idle(place: Place, x: float) -> bool:
    """Whether an operation with this number is better left out: + 0, * 1, / 1, ** 1."""
    parent = place.parent
    if not isinstance(parent, ast.BinOp):
        return False
    return x == 0 or (x == 1 and isinstance(parent.op, ast.Mult | ast.Div | ast.Pow) and place.node is parent.right)


def _is_exponent(place: Place) -> bool:
    parent = place.parent
    return isinstance(parent, ast.UnaryOp) or (
        isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and place.node is parent.right
    )


_TWIN_OPERATORS: dict[type[ast.AST], tuple[tuple[type[ast.AST], float], ...]] = {
    ast.Add: ((ast.Sub, 1.0), (ast.Mult, 2.0)), ast.Sub: ((ast.Add, 1.0), (ast.Mult, 2.5)),
    ast.Mult: ((ast.Div, 1.2), (ast.MatMult, 1.5), (ast.Add, 2.0), (ast.Sub, 2.2)),
    ast.Div: ((ast.Mult, 1.2),), ast.MatMult: ((ast.Mult, 1.5),), ast.Pow: ((ast.Mult, 1.6),),
}  # fmt: skip


def operator_edits(place: Place) -> Iterator[New]:
    """Change an operator, exchange its operands, or leave one out."""
    node, text = place.node, place.text
    if not isinstance(node, ast.BinOp):
        return
    own, left, right = type(node.op), node.left, node.right
    for other, cost in _TWIN_OPERATORS.get(own, ()):
        new = f"{text.operand(left, other)} {SIGNS[other]} {text.operand(right, other, right=True)}"
        yield "sign" if {own, other} == {ast.Add, ast.Sub} else "operator", cost, new, bound_by(other)
    if own in (ast.Sub, ast.Div, ast.MatMult, ast.Pow):
        new = f"{text.operand(right, own)} {SIGNS[own]} {text.operand(left, own, right=True)}"
        yield "order", 1.2, new, bound_by(own)
    if own is ast.Sub:
        new = f"{text.operand(right, own)} - {text.operand(left, own, right=True)}"
        yield "sign", 1.2, new, bound_by(own)
    kind = "term" if own in (ast.Add, ast.Sub) else "factor"
    yield kind, 1.3 if place.in_index else 1.5, text.piece(left), binding(left)
    if own is ast.Sub:
        yield kind, 1.8, f"-{grouped(text.piece(right), binding(right), ast.Mult)}", SIGN
    elif own is ast.Div:
        yield kind, 1.8, f"1 / {text.operand(right, own, right=True)}", bound_by(own)
    yield kind, 1.5, text.piece(right), binding(right)


def grouping_edits(place: Place) -> Iterator[New]:
    """Move a product into or out of a sum: a - b*c and (a - b)*c, a/b*c and a/(b*c)."""
    node, text = place.node, place.text
    if not isinstance(node, ast.BinOp):
        return
    own, left, right = type(node.op), node.left, node.right
    if own in (ast.Add, ast.Sub):
        sign = SIGNS[own]
        if isinstance(right, ast.BinOp) and type(right.op) in (ast.Mult, ast.Div, ast.MatMult):
            op = type(right.op)
            inner = f"({text.operand(left, own)} {sign} {text.operand(right.left, own, right=True)})"
            yield "grouping", 1.4, f"{inner} {SIGNS[op]} {text.operand(right.right, op, right=True)}", bound_by(op)
        if isinstance(left, ast.BinOp) and type(left.op) in (ast.Mult, ast.MatMult):
            op = type(left.op)
            inner = f"({text.operand(left.right, own)} {sign} {text.operand(right, own, right=True)})"
            yield "grouping", 1.4, f"{text.operand(left.left, op)} {SIGNS[op]} {inner}", bound_by(op)
    if own in (ast.Mult, ast.Div, ast.MatMult):
        sign = SIGNS[own]
        if isinstance(left, ast.BinOp) and type(left.op) in (ast.Add, ast.Sub):
            op = type(left.op)
            inner = f"{text.operand(left.right, own)} {sign} {text.operand(right, own, right=True)}"
            yield "grouping", 1.4, f"{text.operand(left.left, op)} {SIGNS[op]} {inner}", bound_by(op)
        if isinstance(right, ast.BinOp) and type(right.op) in (ast.Add, ast.Sub) and own is not ast.Div:
            op = type(right.op)
            inner = f"{text.operand(left, own)} {sign} {text.operand(right.left, own, right=True)}"
            yield "grouping", 1.4, f"{inner} {SIGNS[op]} {text.operand(right.right, op, right=True)}", bound_by(op)
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div) and own is ast.Mult:
            inner = f"({text.piece(left.right)} * {text.operand(right, own, right=True)})"
            yield "grouping", 1.4, f"{text.operand(left.left, ast.Div)} / {inner}", bound_by(ast.Div)


def sign_edits(place: Place) -> Iterator[New]:
    """Change the sign of a factor or term, or leave it out."""
    node = place.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", 1.0, place.text.piece(node.operand), binding(node.operand)
    elif place.carries_numbers and not is_factor(place):
        yield "sign", 1.2, f"-{grouped(place.piece, binding(node), ast.Mult)}", SIGN


def power_edits(place: Place) -> Iterator[New]:
    """Square an expression, or leave out its power."""
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield "exponent", 1.2, place.text.piece(node.left), binding(node.left)
    elif place.carries_numbers and not isinstance(node, ast.Constant):
        base = place.as_operand(ast.Pow)
        for cost, power in ((1.6, "2"), (2.5, "3"), (2.8, "-1")):
            yield "exponent", cost, f"{base}**{power}", bound_by(ast.Pow)


_NUMBERS = (("2", 1.4), ("0.5", 1.4), ("3", 1.9), ("4", 1.9))


def factor_edits(place: Place) -> Iterator[New]:
    """Multiply or divide by a number, a name or a size, or by what a derivative often lacks: 1 - t, 1 - t**2."""
    if not place.carries_numbers or is_factor(place) or isinstance(place.node, ast.Constant):
        return
    product, quotient = place.as_operand(ast.Mult), place.as_operand(ast.Div)
    for number, cost in _NUMBERS:
        yield "factor", cost, f"{number} * {product}", bound_by(ast.Mult)
    plain = [(term, 1.3 if term.unread else 1.9) for term in place.scope.names]
    plain += [(term, 2.1) for term in place.scope.sizes]
    plain += [(term, 1.2 if term.unread and not shape_of(term.value) else 2.4) for term in place.scope.terms]
    for term, cost in plain:
        if fits(term.value, place.value) and not is_trivial(term.value):
            by = grouped(term.text, term.bound, ast.Mult, right=True)
            first = not shape_of(term.value) and term.bound == ATOM
            yield "factor", cost, f"{by} * {product}" if first else f"{product} * {by}", bound_by(ast.Mult)
            yield "factor", cost + 0.1, f"{quotient} / {by}", bound_by(ast.Div)
    for term in place.scope.names:
        if fits(term.value, place.value) and not is_index(term.value):
            t = term.text
            usual = (
                (1.9, f"(1 - {t})"),
                (1.9, f"(1 - {t}**2)"),
                (2.2, f"({t} > 0)"),
                (2.3, f"{t} * (1 - {t})"),
                (2.4, f"{t}**2"),
            )
            for cost, by in usual:
                yield "factor", cost, f"{product} * {by}", bound_by(ast.Mult)
            yield "factor", 2.4, f"{quotient} / {t}**2", bound_by(ast.Div)
            for name in ("exp", "cos", "sin", "sign", "sqrt"):
                yield "factor", 2.6, f"{product} * {place.scope.prefix}{name}({t})", bound_by(ast.Mult)


def is_trivial(x: Any) -> bool:
    """Whether a factor is 1 or 0 everywhere."""
    return isinstance(x, int | float | np.number) and float(x) in (0.0, 1.0)


def term_edits(place: Place) -> Iterator[New]:
    """Add or subtract 1, a name, or an expression of the code."""
    if not (place.carries_numbers or place.in_index) or is_term(place) or isinstance(place.node, ast.Constant):
        return
    left, right = place.as_operand(ast.Add), place.as_operand(ast.Sub, right=True)
    if not place.in_index:
        yield "term", 1.8, f"1 + {left}", bound_by(ast.Add)
        yield "term", 1.8, f"1 - {right}", bound_by(ast.Sub)
        yield "term", 1.9, f"{left} - 1", bound_by(ast.Sub)
    found: list[tuple[Term, float]] = [(term, 1.4 if term.unread else 2.2) for term in place.scope.names]
    found += [(term, 2.1 if term.unread else 2.5) for term in place.scope.terms]
    dearer = (
        0.0
        if isinstance(place.parent, ast.stmt | ast.Tuple | ast.List | ast.Dict | ast.Expression | ast.Subscript)
        else 0.15
    )
    for term, cost in found:
        cost += dearer
        if fits(term.value, place.value) and not (is_index(place.value) and not is_index(term.value)):
            yield "term", cost, f"{left} + {grouped(term.text, term.bound, ast.Add)}", bound_by(ast.Add)
            yield "term", cost, f"{left} - {grouped(term.text, term.bound, ast.Sub, right=True)}", bound_by(ast.Sub)
