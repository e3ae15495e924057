"""A claim that is an expression, as text that can be edited: an expression is data, so that it is evaluated here."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedExpressions, in_shape
from gradcli.repair.composed import lacking
from gradcli.repair.edits import edits_of
from gradcli.repair.place import Edit, Place
from gradcli.repair.right import Gradient, Right
from gradcli.repair.scope import Scope, texts_of
from gradcli.repair.text import Change, Text, changed, expressions
from gradcli.source.expression import Expression
from gradcli.source.parsing import characters, extent, parsed
from gradcli.source.tokens import Statement, shared_and_parts


@dataclass(frozen=True)
class FormulaClaim:
    """A claim such as `p = softmax(z); z=p - y`, and the points where it is evaluated."""

    text: str
    wrt: tuple[str, ...]
    sizes: Mapping[str, Any]
    points: Sequence[Right]

    def gradient(self, changes: Sequence[Change], number: int) -> Gradient | None:
        point = self.points[number]
        try:
            sizes = {**self.sizes, **point.sizes}
            claim = ClaimedExpressions(changed(self.text, changes), self.wrt, frozenset(point.at), sizes)
            found = claim(point.at)
            return {n: in_shape(n, x, point.outputs, shape(point.at[n])) for n, x in found.items()}
        except (GradcliError, ValueError, TypeError, IndexError, ArithmeticError, np.linalg.LinAlgError):
            return None

    def edits(self) -> Iterator[Edit]:
        for _, place in self._places:
            yield from edits_of(place)
        spans = [(texts.span(root.body)) for texts, root in self._parts]
        for k, first in enumerate(spans):
            for second in spans[k + 1 :]:
                exchanged = Change(*first, self.text[slice(*second)]), Change(*second, self.text[slice(*first)])
                yield Edit("order", 0.9, 1, exchanged)

    def composed(self, right: Right) -> Iterator[Edit]:
        claimed = self.gradient((), 0) or {}
        for statement, place in self._places:
            name = self._input(statement)
            if name in right.gradient and place.parent is self._roots[id(statement)]:
                yield from lacking(place, name, claimed, right)

    def scaled(self) -> Mapping[int, tuple[Change, ...]]:
        return {}  # all of it is on one line

    def after(self, edit: Edit) -> "FormulaClaim":
        return FormulaClaim(changed(self.text, edit.changes), self.wrt, self.sizes, self.points)

    def _input(self, statement: Statement) -> str:
        return self.wrt[0] if statement.name is None else statement.name.text

    @cached_property
    def _statements(self) -> tuple[list[Statement], list[Statement]]:
        return shared_and_parts(self.text)

    @cached_property
    def _roots(self) -> dict[int, ast.Expression]:
        return {id(s): ast.Expression(parsed(s)) for part in self._statements for s in part if s.source != "None"}

    @property
    def _parts(self) -> list[tuple[Text, ast.Expression]]:
        """The claims of single inputs, with their trees."""
        return [(Text(self.text, _spans(s)), self._roots[id(s)]) for s in self._statements[1] if id(s) in self._roots]

    @cached_property
    def _places(self) -> list[tuple[Statement, Place]]:
        shared, parts = self._statements
        texts = {id(s): Text(self.text, _spans(s)) for s in (*shared, *parts)}
        around = [
            t for s in (*shared, *parts) if id(s) in self._roots for t in texts_of(texts[id(s)], [self._roots[id(s)]])
        ]
        found = []
        for number, statement in enumerate((*shared, *parts)):
            if id(statement) not in self._roots or statement.inner:
                continue
            scope = self._scope(shared[:number], around)
            for node, parent in expressions(self._roots[id(statement)]):
                found.append((statement, Place(node, parent, texts[id(statement)], scope)))
        return found

    def _scope(self, before: Sequence[Statement], around: Iterable[str]) -> Scope:
        at = {**self.sizes, **self.points[0].at}
        given = frozenset(at)
        named = [f"{s.name.text} = {s.source}" for s in before if s.name is not None]

        def evaluate(text: str) -> Any:
            return Expression("; ".join((*named, text)), given)({**at})

        values = {**at, **{s.name.text: evaluate(s.name.text) for s in before if s.name is not None}}
        return Scope(values, evaluate, prefix="", around=tuple(around))


def _spans(statement: Statement) -> Any:
    """Return the function that gives the span in the user's text of a node of a statement."""
    source = statement.source

    def span(node: ast.AST) -> tuple[int, int]:
        start, stop = (characters(source, line, at) for line, at in extent(node))
        return statement.columns[start], statement.columns[stop - 1] + 1

    return span
