"""Expressions as functions."""

from collections.abc import Mapping

from gradcli.errors import BadExpression, Span
from gradcli.targets.compiler import Compiler
from gradcli.targets.function import Notice, Output
from gradcli.targets.instructions import Instructions, Watch
from gradcli.targets.tokens import statements
from gradcli.tracing.primitive import Value
from gradcli.words import Kind, Severity, TargetKind


class Expression:
    """A parsed expression: data, never executed as Python.

    Raises  BadExpression for a string that is not in the language; TooLarge over its limits.

    >>> Expression("u = W*x; v = u + b; v**2").inputs
    ('W', 'x', 'b')
    """

    kind: TargetKind = "expression"
    outputs: tuple[Output, ...] = ()
    seconds: float | None = None

    def __init__(self, text: str, given: frozenset[str] = frozenset()) -> None:
        self.text = text
        self.given = given
        compiler = Compiler(given)
        *named, last = statements(text)
        for statement in named:
            if statement.name is None:
                raise BadExpression(
                    "the value of this statement is not used",
                    where=statement.span(0, len(statement.source)),
                    do="name it (u = ...), or put brackets around an expression of several lines",
                )
            compiler.add(statement)
        compiler.add(last)
        self.program: Instructions = compiler.program
        result = self.program.registers[self.program.result]
        if isinstance(result, str | bool):
            raise BadExpression("the result is not a number", where=Span(text, 0, len(text)), do="write a formula")

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.program.inputs)

    @property
    def places(self) -> frozenset[str]:
        """The inputs whose values are positions in arrays, by which nothing is differentiated unless it is asked for."""
        return frozenset(self.program.places)

    @property
    def has_constants(self) -> bool:
        """Whether pi or e is in it, which float64 rounds."""
        return bool(self.program.constants)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return self.program.run(values)

    def watched(self, values: Mapping[str, Value], watch: Watch) -> Value:
        """Return the value, and call `watch(step, args, kwargs)` before each operation."""
        return self.program.watched(values, watch)

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        y, said = self.program.survey(values)
        return y, [Notice(Kind.NOTICE, Severity.WARNING, message, span) for message, span in said]

    def __reduce__(self) -> tuple[type["Expression"], tuple[str, frozenset[str]]]:
        return Expression, (self.text, self.given)
