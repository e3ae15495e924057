"""A place in a claim's source, and an edit of it."""

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradcli.repair.scope import UNKNOWN, Scope, is_index, is_number
from gradcli.repair.text import Change, Text

New = tuple[str, float, str, int]  # kind, cost, text, how strongly it binds


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a source text: its kind, the line, and the changed text; likelier edits cost less."""

    kind: str
    cost: float
    line: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Place:
    """An expression of the claim's code, and what may stand there."""

    node: ast.expr
    parent: ast.AST
    text: Text
    scope: Scope

    @cached_property
    def piece(self) -> str:
        return self.text.piece(self.node)

    @cached_property
    def value(self) -> Any:
        """The value of the expression when the claim ran."""
        return UNKNOWN if self.stored else self.scope.value(self.piece)

    @property
    def stored(self) -> bool:
        """Whether it is the target of an assignment."""
        return isinstance(getattr(self.node, "ctx", None), ast.Store | ast.Del)

    @property
    def is_function(self) -> bool:
        return isinstance(self.parent, ast.Call) and self.parent.func is self.node

    @property
    def in_index(self) -> bool:
        """Whether its value is used as an index."""
        if isinstance(self.node, ast.Constant):
            return isinstance(self.parent, ast.Subscript | ast.Slice)
        return is_index(self.value) or (isinstance(self.parent, ast.Subscript) and self.node is self.parent.slice)

    @property
    def carries_numbers(self) -> bool:
        """Whether it is a value that can be scaled or added to: no function, index, keyword, or target."""
        if self.stored or self.is_function or self.in_index or isinstance(self.node, ast.Slice | ast.Tuple | ast.List):
            return False
        if isinstance(self.parent, ast.keyword | ast.Attribute | ast.Compare):
            return False
        return self.value is UNKNOWN or is_number(self.value)

    def as_operand(self, operator: type[ast.AST], right: bool = False) -> str:
        return self.text.operand(self.node, operator, right)


def is_factor(place: Place) -> bool:
    """Whether it is a factor of a product, so that an edit of the product is the same."""
    return isinstance(place.parent, ast.BinOp) and isinstance(place.parent.op, ast.Mult | ast.Div)


def is_term(place: Place) -> bool:
    return isinstance(place.parent, ast.BinOp) and isinstance(place.parent.op, ast.Add | ast.Sub)
