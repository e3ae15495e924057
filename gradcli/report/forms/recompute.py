"""The script with which a page computes a program of numbers again, at other values of its inputs."""

import ast
from collections.abc import Sequence

from gradcli.report.trace import ScalarLine, ScalarProgram, TraceReport

# What an operation computes from its operands a, b and its parameters, in the notation of the rules of its partials.
VALUES = {
    "absolute": "abs(a)", "add": "a + b", "arccos": "arccos(a)", "arccosh": "arccosh(a)", "arcsin": "arcsin(a)",
    "arcsinh": "arcsinh(a)", "arctan": "arctan(a)", "arctan2": "arctan2(a, b)", "arctanh": "arctanh(a)", "cbrt": "cbrt(a)",
    "cos": "cos(a)", "cosh": "cosh(a)", "divide": "a/b", "exp": "exp(a)", "exp2": "2**a", "expit": "expit(a)",
    "expm1": "expm1(a)", "hypot": "hypot(a, b)", "integer_power": "a**n", "log": "log(a)", "log10": "log10(a)",
    "log1p": "log1p(a)", "log2": "log2(a)", "log_expit": "-(max(-a, 0) + log1p(exp(-abs(a))))",
    "logaddexp": "max(a, b) + log1p(exp(-abs(a - b)))", "maximum": "max(a, b)", "minimum": "min(a, b)", "multiply": "a*b",
    "negative": "-a", "positive": "a", "power": "a**b", "real": "a", "reciprocal": "1/a", "relu": "max(a, 0)", "sin": "sin(a)",
    "sinh": "sinh(a)", "sqrt": "sqrt(a)", "square": "a*a", "subtract": "a - b", "tan": "tan(a)", "tanh": "tanh(a)",
}  # fmt: skip
_DECISIONS = {
    "greater": "a > b", "greater_equal": "a >= b", "less": "a < b", "less_equal": "a <= b", "equal": "a == b",
    "not_equal": "a != b", "floor": "floor(a)", "ceil": "ceil(a)", "trunc": "trunc(a)", "sign": "sign(a)",
}  # fmt: skip
_FUNCTIONS = {
    "arccos": "Math.acos", "arccosh": "Math.acosh", "arcsin": "Math.asin", "arcsinh": "Math.asinh", "arctan": "Math.atan",
    "arctan2": "Math.atan2", "arctanh": "Math.atanh", "where": "choose", "heaviside": "heaviside",
    "square": "square", "expit": "expit",
    **{name: f"Math.{name}" for name in (
        "abs", "cbrt", "ceil", "cos", "cosh", "exp", "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "max", "min",
        "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
}  # fmt: skip
_HELPERS = """const choose = (is, a, b) => (is ? a : b);
const heaviside = (a, b) => (a < 0 ? 0 : a > 0 ? 1 : b);
const square = (a) => a * a;
const expit = (a) => 1 / (1 + Math.exp(-a));
"""
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def write_script(walks: Sequence[TraceReport]) -> str:
    """Return the script of the programs of a page; an empty text where it has none that a browser can compute.

    It defines RECOMPUTE, for each walk the function of its program and those of the claims by each input: of the values x of
    the inputs, and of a function r that rounds, each returns the values v of all lines, the partials p of each line by its
    operands, and the answers d of all decisions. It has null where an operation has no counterpart in a browser.
    """
    functions = [[write_function(walk.program), *map(write_function, claims_by_input(walk))] for walk in walks]
    written = ", ".join(f"[{', '.join(one or 'null' for one in of_walk)}]" for of_walk in functions)
    return f"{_HELPERS}const RECOMPUTE = [{written}];\n" if any(of_walk[0] for of_walk in functions) else ""


def claims_by_input(walk: TraceReport) -> list[ScalarProgram | None]:
    """Return the claim by each input that is a program, in the order of the inputs."""
    return [walk.claims.get(node.name) for node in walk.nodes if node.operation == "input"]


def write_function(program: ScalarProgram | None) -> str:
    """Return the function of one program; an empty text where a browser cannot compute it."""
    if program is None:
        return ""
    lines, partials = [], []
    try:
        for k, line in enumerate(program.lines):
            if line.operation != "input":
                lines.append(f"  v[{k}] = r({_write_javascript(VALUES[line.operation], line, k)});")
            partials.append(f"[{', '.join(_write_javascript(partial, line, k) for partial in line.partials)}]")
        decisions = [_write_javascript(_DECISIONS[line.operation], line, -1) for line in program.decisions]
    except (KeyError, ValueError):
        return ""
    body = "\n".join(lines)
    answer = f"  return {{ v, p: [{', '.join(partials)}], d: [{', '.join(decisions)}].map(Number) }};"
    return f"(x, r) => {{\n  const v = [...x];\n{body}\n{answer}\n}}"


def _write_javascript(formula: str, line: ScalarLine, k: int) -> str:
    """Return a formula in a, b, ..., the parameters and the result y of a line as JavaScript."""
    names = {"y": f"v[{k}]"} | {name: _write_number(x) for name, x in line.params}
    names |= {
        letter: f"v[{x}]" if isinstance(x, int) else _write_number(x)
        for letter, x in zip("abcd", line.operands, strict=False)
    }

    def of(node: ast.expr) -> str:
        match node:
            case ast.BinOp(op=ast.Pow()):
                return f"Math.pow({of(node.left)}, {of(node.right)})"
            case ast.BinOp() if type(node.op) in _SIGNS:
                return f"({of(node.left)} {_SIGNS[type(node.op)]} {of(node.right)})"
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{of(node.operand)})"
            case ast.Compare():  # rules write one after another without brackets
                found = of(node.left)
                for sign, right in zip(node.ops, node.comparators, strict=True):
                    found = f"({found} {_SIGNS[type(sign)]} {of(right)})"
                return found
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
                return f"{_FUNCTIONS[name]}({', '.join(map(of, node.args))})"
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Constant(value=int() | float() as value):
                return _write_number(float(value))
        raise ValueError(f"a browser cannot compute {ast.unparse(node)}")

    return of(ast.parse(formula, mode="eval").body)


def _write_number(x: float) -> str:
    """Return a number in JavaScript."""
    if x != x:
        return "NaN"
    if abs(x) == float("inf"):
        return "Infinity" if x > 0 else "(-Infinity)"
    return f"({x!r})" if x < 0 else repr(x)
