"""Facts about a syntax tree that are known without running it: integers, axes, shapes, dotted names."""

import ast
import operator
from typing import Any

from gradcli.source.names import CONSTANTS

INTEGERS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
NOT_STATIC = object()


def fact(node: ast.expr, taken: set[str]) -> Any:
    """Return the value of a static node (an axis, a shape, a string, an order), or NOT_STATIC if it must be computed."""
    if isinstance(node, ast.Constant) and (isinstance(node.value, bool | str | float) or node.value is None):
        return node.value
    if isinstance(node, ast.Name) and node.id in CONSTANTS and node.id not in taken:
        return CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and integer(node) is None:
        inner = fact(node.operand, taken)
        return -inner if isinstance(inner, float) else NOT_STATIC
    if isinstance(node, ast.Tuple | ast.List):
        parts = [fact(part, taken) for part in node.elts]
        return NOT_STATIC if any(part is NOT_STATIC for part in parts) else tuple(parts)
    whole = integer(node)
    return whole if whole is not None else _arithmetic(node, taken)


def _arithmetic(node: ast.expr, taken: set[str]) -> Any:
    """Return the value of `1/3` or `2*pi`, or NOT_STATIC for anything else."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC or _height(node) > 20:
        return NOT_STATIC
    left, right = fact(node.left, taken), fact(node.right, taken)
    if not all(isinstance(x, int | float) and abs(x) < 2**53 for x in (left, right)):
        return NOT_STATIC
    return NOT_STATIC if isinstance(node.op, ast.Div) and right == 0 else ARITHMETIC[type(node.op)](left, right)


def integer(root: ast.expr) -> int | None:
    """Return the value of integer arithmetic on literals; None for anything else, and where numbers become too large."""
    node, sign = root, 1
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -sign
    if isinstance(node, ast.Constant):
        return sign * node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in INTEGERS or _height(node) > 20:
        return None
    left, right = integer(node.left), integer(node.right)
    if left is None or right is None or abs(left) > 2**53 or abs(right) > 2**53:
        return None
    if isinstance(node.op, ast.FloorDiv) and right == 0:
        return None
    if isinstance(node.op, ast.Pow) and (right < 0 or right * abs(left).bit_length() > 64):
        return None
    return sign * int(INTEGERS[type(node.op)](left, right))


def _height(node: ast.expr) -> int:
    """Return the height of a tree of binary operators, counted to 21 at most."""
    level: list[ast.expr] = [node]
    height = 0
    while level and height <= 20:
        level = [child for n in level if isinstance(n, ast.BinOp) for child in (n.left, n.right)][:1000]
        height += 1
    return height


def dotted_name(node: ast.expr) -> str | None:
    """Return a chain of attributes as text (`np.linalg.norm`), or None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else None
