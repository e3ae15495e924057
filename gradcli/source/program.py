"""A compiled expression: a flat list of instructions over registers, run without recursion and without evaluating text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import HERE
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, arithmetic
from gradcli.errors import BadExpression, BadShape, GradcliError, Span
from gradcli.source.limits import Ledger
from gradcli.source.notices import Notice


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """Call `function` on registers and keep the result in register `to`; `name` is the user's name for it."""

    function: Callable[..., Value]
    operation: str
    args: tuple[int, ...]
    kwargs: tuple[tuple[str, int], ...]
    to: int
    span: Span
    name: str | None = None
    notice: Notice | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Run one of two blocks, by a scalar; both, and select entry by entry, by an array."""

    condition: int
    yes: "tuple[list[Step], int]"
    no: "tuple[list[Step], int]"
    to: int
    span: Span
    name: str | None = None


Step = Instruction | Choice


@dataclass
class Program:
    """Instructions, the registers they begin with, and where inputs and the result are."""

    steps: list[Step] = field(default_factory=list)
    registers: list[Any] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    result: int = -1

    def run(self, values: Mapping[str, Value]) -> Value:
        """Return the result for named input values, in whatever arithmetic they are.

        Raises  GradcliError with the place in the expression.
        """
        registers = self._prepared(values)
        try:
            _run(self.steps, registers)
        finally:
            HERE.position = None
        return registers[self.result]

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[tuple[str, Span]]]:
        """Run once on plain values with sizes checked before allocation; return the result and what deserves a warning."""
        registers = self._prepared(values)
        ledger = Ledger()
        notices: list[tuple[str, Span]] = []

        def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
            ledger.admit(step.function, args, dict(kwargs))
            said = step.notice(args, kwargs) if step.notice else None
            if said:
                notices.append((said, step.span))

        _run(self.steps, registers, watch)
        HERE.position = None
        return registers[self.result], notices

    def _prepared(self, values: Mapping[str, Value]) -> list[Any]:
        registers = self.registers.copy()
        system = next((kind for x in values.values() if (kind := arithmetic(x))), None)
        if system is not None:
            registers = [system.lift(x) if type(x) is np.float64 else x for x in registers]
        for name, to in self.inputs.items():
            registers[to] = values[name]
        return registers


def _run(steps: list[Step], registers: list[Any], watch: Callable[..., None] | None = None) -> None:
    for step in steps:
        if isinstance(step, Choice):
            _choose(step, registers, watch)
            continue
        HERE.position = step
        args = [registers[k] for k in step.args]
        kwargs = {name: registers[k] for name, k in step.kwargs}
        try:
            if watch is not None:
                watch(step, args, kwargs)
            registers[step.to] = step.function(*args, **kwargs)
        except GradcliError as error:
            if error.where is None:
                error.where = step.span
            raise
        except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError, np.linalg.LinAlgError) as error:
            raise _explained(step, args, error) from error


def _choose(step: Choice, registers: list[Any], watch: Callable[..., None] | None) -> None:
    condition = registers[step.condition]
    if shape(condition) == ():
        block, result = step.yes if bool(condition) else step.no
        _run(block, registers, watch)
        registers[step.to] = registers[result]
        return
    for block, _ in (step.yes, step.no):
        _run(block, registers, watch)
    registers[step.to] = np.where(np.not_equal(condition, 0), registers[step.yes[1]], registers[step.no[1]])


def _explained(step: Instruction, args: Sequence[Value], error: Exception) -> GradcliError:
    """Return our error for numpy's: the operation, the shapes, the place."""
    if isinstance(error, TypeError) and any(isinstance(x, Tracer) for x in args):
        raise error
    shapes = [shape(x) for x in args if isinstance(x, np.ndarray | np.floating | Tracer)]
    text = str(error).split("\n")[0]
    if isinstance(error, ValueError | IndexError) and shapes:
        listed = " and ".join(map(str, shapes))
        if "broadcast" in text or "mismatch" in text or "aligned" in text or "same shape" in text:
            return BadShape(
                f"shapes {listed} do not fit in '{step.operation}'",
                where=step.span,
                do="check the shapes of the inputs",
            )
        return BadShape(
            f"'{step.operation}' cannot take shape {listed}: {text}",
            where=step.span,
            do="check the shapes of the inputs",
        )
    return BadExpression(
        f"'{step.operation}' failed: {text}", where=step.span, do=f"check its arguments; shapes {shapes}"
    )


__all__ = ["Choice", "Instruction", "Program", "Step"]
