"""Python's operators: the function that each becomes, and the advice for syntax that is refused."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.source.adapted import as_number

BINARY: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"), ast.Mult: (operator.mul, "*"), ast.Div: (operator.truediv, "/"),
    ast.Pow: (operator.pow, "**"), ast.MatMult: (np.matmul, "@"),
    ast.Mod: (operator.mod, "%"), ast.FloorDiv: (operator.floordiv, "//"),
}  # fmt: skip
COMPARE: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Lt: (as_number(np.less), "<"), ast.LtE: (as_number(np.less_equal), "<="), ast.Gt: (as_number(np.greater), ">"),
    ast.GtE: (as_number(np.greater_equal), ">="), ast.Eq: (as_number(np.equal), "=="), ast.NotEq: (as_number(np.not_equal), "!="),
}  # fmt: skip
LOGICAL = {ast.And: (as_number(np.logical_and), "and"), ast.Or: (as_number(np.logical_or), "or")}
REFUSED = {
    ast.Lambda: "write the formula itself", ast.ListComp: "write sums over arrays: sum(x**2)",
    ast.GeneratorExp: "write sum(x**2)",
    ast.Dict: "give several outputs as a list: [a, b]", ast.Set: "give several outputs as a list: [a, b]",
    ast.JoinedStr: "leave it out",
    ast.Tuple: "give several outputs as a list: [a, b]", ast.Starred: "write the arguments out",
    ast.NamedExpr: "write u = ...; ...",
}  # fmt: skip
