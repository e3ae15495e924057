"""What Python's operators become, and what is refused with which advice."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value


def compared(function: Any) -> Callable[[Value, Value], Value]:
    """Return the comparison as a number, 0 or 1."""

    def compare(a: Value, b: Value) -> Value:
        return function(a, b) * np.float64(1)

    return compare


BINARY: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"), ast.Mult: (operator.mul, "*"), ast.Div: (operator.truediv, "/"),
    ast.Pow: (operator.pow, "**"), ast.MatMult: (np.matmul, "@"),
    ast.Mod: (operator.mod, "%"), ast.FloorDiv: (operator.floordiv, "//"),
}  # fmt: skip
COMPARE: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Lt: (compared(np.less), "<"), ast.LtE: (compared(np.less_equal), "<="), ast.Gt: (compared(np.greater), ">"),
    ast.GtE: (compared(np.greater_equal), ">="), ast.Eq: (compared(np.equal), "=="), ast.NotEq: (compared(np.not_equal), "!="),
}  # fmt: skip
LOGICAL = {ast.And: (compared(np.logical_and), "and"), ast.Or: (compared(np.logical_or), "or")}
REFUSED = {
    ast.Lambda: "write the formula itself", ast.ListComp: "write sums over arrays: sum(x**2)",
    ast.GeneratorExp: "write sum(x**2)",
    ast.Dict: "give several outputs as a list: [a, b]", ast.Set: "give several outputs as a list: [a, b]",
    ast.JoinedStr: "leave it out",
    ast.Tuple: "give several outputs as a list: [a, b]", ast.Starred: "write the arguments out",
    ast.NamedExpr: "write u = ...; ...",
}  # fmt: skip
