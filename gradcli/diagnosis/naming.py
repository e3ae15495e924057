"""Name the operation with a mistake as the user wrote it, not by the primitives that were recorded for it."""

import ast
import re
from collections.abc import Sequence

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import shape

_LONGEST = 30  # characters of an operand that is quoted
_COUNTS = ("mean", "average")  # functions whose factor is written 1/n, with n the number of entries
_SAME = 1e-12  # relative: the rounding of 1/n
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
    """Say that the derivative with respect to argument `i` is missing; `alone` says whether the code is this one operation."""
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
    """Return a missing factor of a call in words, such as `1/n of mean(...) is missing (n = 6)`."""
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
    """Return the name of the called function, `mean` for `np.mean(x)` and `x.mean()`; empty if the code is no call."""
    node = _parsed(code)
    of = node.func if isinstance(node, ast.Call) else None
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def _operand(code: str, i: int, name: str) -> str:
    """Return the source of the other operand of a product or quotient; empty if it is long or not found."""
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
    """Return ` (n = 6)` if the operand is a variable that holds a count; empty for literals and other values."""
    if constant is None or constant < 2 or not constant.is_integer() or re.fullmatch(r"[-+\d.e_()]+", operand):
        return ""
    return f" ({operand} = {constant:.0f})"
