"""How a mistake names the operation it is in: by what the user wrote, not by the primitives that were recorded for it."""

import ast
import re
from collections.abc import Sequence

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import shape

_LONGEST = 30  # characters of an operand that is quoted
_COUNTS = ("mean", "average")  # what the users of these call n is the number of entries
_SAME = 1e-12  # relative: 1/n as a float
_AS_IF = "is missing (used as if it were 1)"
_RULES = {
    ("multiply", 0): "the derivative of a*b by a is b, not 1",
    ("multiply", 1): "the derivative of a*b by b is a, not 1",
    ("divide", 0): "the derivative of a/b by a is 1/b, not 1",
    ("divide", 1): "the derivative of a/b by b is -a/b**2, not 1",
    ("power", 0): "the derivative of x**n is n*x**(n-1), not 1",
    ("power", 1): "the derivative of x**n by n is x**n*log(x), not 1",
    ("integer_power", 0): "the derivative of x**n is n*x**(n-1), not 1",
    ("square", 0): "the derivative of x**2 is 2*x, not 1",
    ("reciprocal", 0): "the derivative of 1/x is -1/x**2, not 1",
}


def passed_on(primitive: Primitive, i: int, xs: Sequence[Value], code: str, alone: bool = True) -> str:
    """Return in words that the derivative by argument `i` is missing; `alone` is whether the code is this operation only."""
    constant = _constant(xs, 1 - i) if len(xs) == 2 else None
    called = _called(code)
    if primitive.name in ("multiply", "divide") and (primitive.name, i) != ("divide", 1):
        inverse = "1/" if primitive.name == "divide" else ""
        operand = _operand(code, i, primitive.name)
        if operand:
            return f"the factor {inverse}{_quoted(operand, inverse)} is missing{_value(operand, constant)}"
        if called and constant:
            return f"the factor {_factor(called, 1 / constant if inverse else constant)}"
    if (primitive.name, i) in _RULES:
        return _RULES[primitive.name, i]
    if re.search(rf"\b{primitive.name}\b", code) or not code:
        return f"the derivative of {primitive.name} {_AS_IF}"
    if called:
        return f"the derivative of {called} {_AS_IF}" if alone else f"a derivative inside {called}(...) {_AS_IF}"
    return f"the derivative of this operation {_AS_IF}"


def _constant(xs: Sequence[Value], i: int) -> float | None:
    x = xs[i]
    return float(x) if isinstance(x, float | int | np.floating | np.integer) and shape(x) == () else None


def _factor(called: str, factor: float) -> str:
    """Return `1/n of mean(...) is missing (n = 6)`, the factor of a call."""
    n = round(1 / factor)
    if abs(n) < 2 or abs(factor * n - 1) > _SAME:
        return f"{factor:.6g} of {called}(...) is missing"
    if called in _COUNTS:
        return f"1/n of {called}(...) is missing (n = {n})"
    return f"1/{n} of {called}(...) is missing"


def _parsed(code: str) -> ast.AST | None:
    try:
        body = ast.parse(code.strip()).body
    except (SyntaxError, ValueError):
        return None
    return body[0].value if body and isinstance(body[0], ast.Expr) else body[0] if body else None


def _called(code: str) -> str:
    """Return what a call names, `mean` of `np.mean(x)` and of `x.mean()`; nothing for what is no call."""
    node = _parsed(code)
    of = node.func if isinstance(node, ast.Call) else None
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def _operand(code: str, i: int, name: str) -> str:
    """Return how the operand beside argument `i` of a product or a quotient is written, where it is short."""
    node, wanted = _parsed(code), ast.Mult if name == "multiply" else ast.Div
    if isinstance(node, ast.AugAssign) and isinstance(node.op, wanted) and i == 0:
        text = ast.unparse(node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, wanted):
        text = ast.unparse(node.left if i else node.right)
    else:
        return ""
    return text if len(text) <= _LONGEST else ""


def _quoted(operand: str, inverse: str) -> str:
    return operand if re.fullmatch(r"[\w.]+", operand) or not inverse else f"({operand})"


def _value(operand: str, constant: float | None) -> str:
    """Return ` (n = 6)` for the name of a count; nothing for a number that is written, and for other values."""
    if constant is None or constant < 2 or not constant.is_integer() or re.fullmatch(r"[-+\d.e_()]+", operand):
        return ""
    return f" ({operand} = {constant:.0f})"
