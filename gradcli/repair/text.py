"""Source text and its syntax tree: where a node is, what replaces it, and when brackets are needed."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
_LOOSEST, _SUM, _PRODUCT, SIGN, _POWER, ATOM = 0, 10, 11, 12, 13, 15
_BINDING: dict[type[ast.AST], int] = {
    ast.Add: _SUM, ast.Sub: _SUM, ast.Mult: _PRODUCT, ast.Div: _PRODUCT, ast.MatMult: _PRODUCT, ast.FloorDiv: _PRODUCT,
    ast.Mod: _PRODUCT, ast.Pow: _POWER,
}  # fmt: skip
SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in a text: the characters from `start` to `end` become `new`."""

    start: int
    end: int
    new: str


def changed(text: str, changes: Sequence[Change]) -> str:
    """Return the text after some replacements, which do not overlap."""
    for change in sorted(changes, key=lambda c: -c.start):
        text = text[: change.start] + change.new + text[change.end :]
    return text


@dataclass(frozen=True)
class Text:
    """A source text, of which `span` gives the characters of a node."""

    text: str
    span: Callable[[ast.AST], Span]

    def piece(self, node: ast.AST) -> str:
        """Return the text of a node, without brackets around it."""
        start, end = self.span(node)
        return self.text[start:end]

    def operand(self, node: ast.expr, operator: type[ast.AST], right: bool = False) -> str:
        """Return the text of a node as an operand of an operator, in brackets where these are needed."""
        return grouped(self.piece(node), binding(node), operator, right)

    def in_place(self, node: ast.AST, parent: ast.AST, new: str, bound: int) -> Change:
        """Return the change that replaces a node by a text that binds as strongly as `bound`."""
        start, end = self.span(node)
        before, after = self.text[:start].rstrip()[-1:], self.text[end:].lstrip()[:1]
        if bound < _needed(node, parent) and not (before == "(" and after == ")"):
            new = f"({new})"
        return Change(start, end, new)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a newline ends a line, as in Python's parser and in git."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def spans_of(text: str) -> Callable[[ast.AST], Span]:
    """Return the function that gives the span of a node of this text's own tree."""
    lines = lines_of(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    plain = text.isascii()

    def column(line: int, at: int) -> int:
        return at if plain else len(lines[line - 1].encode()[:at].decode(errors="ignore"))

    def span(node: ast.AST) -> Span:
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1) or 1
        start = starts[first - 1] + column(first, getattr(node, "col_offset", 0))
        return start, starts[last - 1] + column(last, getattr(node, "end_col_offset", 0) or 0)

    return span


def binding(node: ast.AST) -> int:
    """Return how strongly an expression binds; the operands of a stronger one need brackets."""
    if isinstance(node, ast.BinOp):
        return _BINDING.get(type(node.op), _LOOSEST)
    if isinstance(node, ast.UnaryOp):
        return SIGN
    if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.List | ast.Tuple | ast.Dict):
        return ATOM
    if isinstance(node, ast.Constant):
        negative = isinstance(node.value, int | float) and node.value < 0
        return SIGN if negative else ATOM
    return _LOOSEST


def bound_by(operator: type[ast.AST]) -> int:
    """Return how strongly an operation with this operator binds."""
    return _BINDING[operator]


def grouped(text: str, bound: int, operator: type[ast.AST], right: bool = False) -> str:
    """Return a text as an operand of an operator, in brackets if it binds less."""
    need = _BINDING[operator]
    return f"({text})" if bound < need or (bound == need and right) or (operator is ast.Pow and bound <= need) else text


def _needed(node: ast.AST, parent: ast.AST) -> int:
    """Return how strongly what replaces a node must bind to need no brackets."""
    if isinstance(parent, ast.BinOp):
        need = _BINDING.get(type(parent.op), ATOM)
        after = node is parent.right and not isinstance(parent.op, ast.Add | ast.Pow)
        before_power = isinstance(parent.op, ast.Pow) and node is parent.left
        return need + 1 if after or before_power else need
    if isinstance(parent, ast.UnaryOp):
        return SIGN if isinstance(parent.op, ast.USub | ast.UAdd) else _LOOSEST
    if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Subscript | ast.Call) and _leads(node, parent)):
        return ATOM
    return _SUM if isinstance(parent, ast.Compare | ast.BoolOp | ast.IfExp | ast.comprehension) else _LOOSEST


def _leads(node: ast.AST, parent: ast.Subscript | ast.Call) -> bool:
    return node is (parent.value if isinstance(parent, ast.Subscript) else parent.func)


def expressions(root: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Yield every expression below a statement, with its parent; nested functions are statements of their own."""
    for _, value in ast.iter_fields(root):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield child, root
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr | ast.Lambda):
                yield from expressions(child)
