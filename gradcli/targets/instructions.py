"""A compiled expression: a flat list of instructions over registers, run without recursion, never evaluated as text."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import chain
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadExpression, BadShape, GradcliError, Span
from gradcli.targets.limits import Ledger, index_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import HERE
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Arithmetic, Tracer, arithmetic_of

_ULPS_UP = ContextVar("ulps added to constants", default=0)
_AROUND_CONSTANTS: ContextVar[Callable[[], AbstractContextManager[None]] | None] = ContextVar(
    "around constants", default=None
)
_MOST_LIFTED = 2**16  # entries of an input that is not differentiated: of larger ones, what is computed is rounded
Watch = Callable[["Instruction", Sequence[Value], Mapping[str, Value]], None]
LIST = "[..., ...]"  # the operation that makes a list of values of different shapes
_ABOUT_SHAPES = (
    "shape", "broadcast", "mismatch", "aligned", "dimension", "axis", "axes", "square", "out of bounds", "indices",
)  # fmt: skip

CallNotice = Callable[[Sequence[Value], Mapping[str, Value]], str | None]  # warns of a call that may be meant otherwise


@contextmanager
def enlarge_constants(ulps: int) -> Iterator[None]:
    """Take larger float64 numbers for pi and e inside the context: one ulp is more than what they are rounded by."""
    token = _ULPS_UP.set(ulps)
    try:
        yield
    finally:
        _ULPS_UP.reset(token)


@contextmanager
def around_constants(within: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Run each step in balls that reads constants and inputs that are not differentiated alone `within` another context."""
    token = _AROUND_CONSTANTS.set(within)
    try:
        yield
    finally:
        _AROUND_CONSTANTS.reset(token)


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
    notice: CallNotice | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A conditional: a number runs one of two blocks; an array, or a formula, runs both and selects entry by entry."""

    condition: int
    yes: "tuple[list[Step], int]"
    no: "tuple[list[Step], int]"
    to: int
    span: Span
    name: str | None = None

    def taken(self, condition: Value) -> "Iterable[Step]":
        """Return the steps to run for a condition."""
        system = arithmetic_of(condition)
        if shape(condition) == () and not (system is not None and system.symbolic):
            block, result = self.yes if bool(condition) else self.no
            return chain(block, [Instruction(_identity, "if", (result,), (), self.to, self.span)])
        both = (self.condition, self.yes[1], self.no[1])
        return chain(self.yes[0], self.no[0], [Instruction(np.where, "if", both, (), self.to, self.span)])


Step = Instruction | Choice


def _identity(x: Value) -> Value:
    return x


@dataclass
class Instructions:
    """A program: its instructions, the initial registers, and the registers of the inputs and of the result.

    `places` are the inputs whose values are positions in arrays, by which nothing is differentiated, `bounds` those of them
    that bound slices; `constants` are the
    registers of pi and e.
    """

    steps: list[Step] = field(default_factory=list)
    registers: list[Any] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    result: int = -1
    places: set[str] = field(default_factory=set)
    bounds: set[str] = field(default_factory=set)
    constants: dict[int, str] = field(default_factory=dict)

    def run(self, values: Mapping[str, Value], watch: Watch | None = None) -> Value:
        """Return the result for named input values, in the arithmetic of these values (floats, balls, tracers).

        Calls `watch(step, args, kwargs)` before each step.

        Raises  GradcliError with the place in the expression: BadShape for shapes that do not fit, else BadExpression.
        """
        registers = self.registers.copy()
        system = next((kind for x in values.values() if (kind := arithmetic_of(x))), None)
        if system is not None:
            registers = [system.lift(x) if type(x) is np.float64 else x for x in registers]
        for k, name in self.constants.items():
            value = self.registers[k] + _ULPS_UP.get() * np.spacing(self.registers[k])
            registers[k] = value if system is None else system.lift_constant(name, value)
        for name, to in self.inputs.items():
            x = values[name]
            # what is not differentiated is computed with as exactly as all else: exp(z) - 1 loses its digits in float64
            is_fixed = type(x) in (np.float64, np.ndarray) and x.dtype == np.float64 and x.size <= _MOST_LIFTED
            registers[to] = system.lift(x) if system is not None and is_fixed and name not in self.places else x
        try:
            for step in _resolve_choices(self.steps, registers):
                _run_instruction(step, registers, watch)
        finally:
            HERE.position = None
        return registers[self.result]

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[tuple[str, Span]]]:
        """Run once on plain values; return the result, and the warnings with their places.

        Raises  TooLarge before a value over the limits is allocated; the errors of `run`.
        """
        ledger = Ledger()
        notices: list[tuple[str, Span]] = []
        made: dict[int, Instruction] = {}

        def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
            if step.function is not index_value:
                for k, x in zip((*step.args, *(k for _, k in step.kwargs)), (*args, *kwargs.values()), strict=True):
                    _refuse_several(x, made.get(k))
            ledger.admit(step.function, args, dict(kwargs))
            made[step.to] = step
            said = step.notice(args, kwargs) if step.notice else None
            if said:
                notices.append((said, step.span))

        y = self.run(values, watch)
        _refuse_several(y, made.get(self.result))
        return y, notices

    def computes_with_constants(self, names: Collection[str]) -> bool:
        """Whether a step reads nothing but constants and inputs other than the named ones."""
        moving = {to for name, to in self.inputs.items() if name in names}
        steps = list(reversed(self.steps))
        while steps:
            step = steps.pop()
            if isinstance(step, Choice):
                steps += [*step.yes[0], *step.no[0]][::-1]
            elif moving.isdisjoint((*step.args, *(k for _, k in step.kwargs))):
                return True
            moving.add(step.to)
        return False

    def named(self) -> dict[str, Callable[[Mapping[str, Value]], Value]]:
        """Return the values that have a name of the user's, each as a function of the inputs."""
        return {
            step.name: replace(self, steps=self.steps[: k + 1], result=step.to).run
            for k, step in enumerate(self.steps)
            if step.name is not None
        }


def _refuse_several(x: Value, maker: Instruction | None) -> None:
    """Raise BadExpression if a value is several arrays that one call returned."""
    if maker is not None and isinstance(x, tuple | list) and maker.operation != LIST:
        source = maker.span.source
        shown = source if len(source) <= 40 else source.partition("(")[0] + "(...)"
        do = f"take one: {shown}[{min(1, len(x) - 1)}]"
        raise BadExpression(f"{maker.operation} returns {len(x)} values", where=maker.span, do=do)


def _resolve_choices(steps: Iterable[Step], registers: list[Any]) -> Iterator[Instruction]:
    """Yield the instructions to run, in order; a choice is resolved when it is reached."""
    blocks = [iter(steps)]
    while blocks:
        step = next(blocks[-1], None)
        if step is None:
            blocks.pop()
        elif isinstance(step, Choice):
            blocks.append(iter(step.taken(registers[step.condition])))
        else:
            yield step


def _run_instruction(step: Instruction, registers: list[Any], watch: Watch | None) -> None:
    HERE.position = step
    args = [registers[k] for k in step.args]
    kwargs = {name: registers[k] for name, k in step.kwargs}
    try:
        if watch is not None:
            watch(step, args, kwargs)
        within = _AROUND_CONSTANTS.get()
        if within is None or any(isinstance(x, Tracer) and not isinstance(x, Arithmetic) for x in args):
            registers[step.to] = step.function(*args, **kwargs)
        else:
            with within():
                registers[step.to] = step.function(*args, **kwargs)
    except GradcliError as error:
        if error.where is None:
            error.where = step.span
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError, RuntimeError, AttributeError) as error:
        raise _explain_error(step, args, error) from error


def _explain_error(step: Instruction, args: Sequence[Value], error: Exception) -> GradcliError:
    """Return our error for one of numpy's, with the operation, the shapes and the place."""
    if isinstance(error, TypeError) and any(isinstance(x, Tracer) for x in args):
        raise error
    shapes = [shape(x) for x in args if isinstance(x, np.ndarray | np.floating | Tracer)]
    text = str(error).split("\n")[0].split(" (has ")[0].split(", with gufunc")[0]
    if isinstance(error, ValueError | IndexError) and shapes and any(word in text for word in _ABOUT_SHAPES):
        listed = " and ".join(map(str, shapes))
        if "broadcast" in text or "mismatch" in text or "aligned" in text or "same shape" in text:
            what = f"shapes {listed} do not fit in '{step.operation}'"
        else:
            what = f"'{step.operation}' cannot take shape {listed}: {text}"
        return BadShape(what, where=step.span, do="check the shapes of the inputs")
    return BadExpression(f"'{step.operation}' failed: {text}", where=step.span, do="check its arguments")
