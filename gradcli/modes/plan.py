"""A recorded run as plain data: what another arithmetic, in another process, needs to run it again."""

from dataclasses import field
from typing import Any

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.classes import dataclass
from gradcli.errors import NotSupported
from gradcli.rules.reductions import MAX, SUM
from gradcli.tracing.primitive import PRIMITIVES, Value


@dataclass(slots=True)
class Plan:
    """Steps `(primitive, operand slots, constants, params)` after the inputs; branches are already taken.

    `terms[k]` is the size of slot k written out as a formula, in terms per entry.
    """

    inputs: int
    steps: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    terms: list[float] = field(default_factory=list)
    result: int = CONSTANT

    def run(self, xs: list[Value]) -> Value:
        """Return the result for other inputs, in their arithmetic."""
        values = list(xs)
        for name, slots, constants, params in self.steps:
            pairs = zip(slots, constants, strict=True)
            operands = (constant if slot == CONSTANT else values[slot] for slot, constant in pairs)
            values.append(PRIMITIVES[name](*operands, **params))
        return values[self.result]

    def add(self, name: str, operands: list[tuple[int, Any]], params: dict[str, Any], terms: float) -> int:
        """Append a step on `(slot, constant)` operands and return its slot."""
        self.steps.append(
            (name, tuple(slot for slot, _ in operands), tuple(constant for _, constant in operands), params)
        )
        self.terms.append(terms)
        return len(self.terms) - 1


def make_plan(program: RecordedProgram) -> Plan:
    """Return a recorded program as plain data, with every kink replaced by the branch that was taken."""
    y, inputs, tape = program
    made = Plan(len(inputs), terms=[1.0] * len(inputs))
    moved = {x.slot: k for k, x in enumerate(inputs)}
    for slot, line in enumerate(tape.lines[: y.slot + 1]):
        if tape.primitive(slot) is not None:
            moved[slot] = _add_line(made, line, moved)
    made.result = moved[y.slot]
    return made


def _add_line(made: Plan, line: Line, moved: dict[int, int]) -> int:
    primitive, slots, xs, y, params, _ = line
    if primitive is None:
        raise ValueError("an input is no step")
    if PRIMITIVES.get(primitive.name) is not primitive:
        raise NotSupported(f"{primitive.name} is a rule of your own, which sympy does not know")
    operands = [(CONSTANT, x) if slot == CONSTANT else (moved[slot], None) for slot, x in zip(slots, xs, strict=True)]
    inside = [1.0 if slot == CONSTANT else made.terms[slot] for slot, _ in operands]
    weights = None if primitive.branch is None else primitive.branch(y, *xs, **(params or {}))
    if weights is not None:
        products = [
            made.add("multiply", [x, (CONSTANT, w)], {}, t) for x, w, t in zip(operands, weights, inside, strict=True)
        ]
        if primitive is MAX:
            return made.add(SUM.name, [(products[0], None)], dict(params or {}), inside[0])
        return products[0] if len(products) == 1 else made.add("add", [(k, None) for k in products], {}, max(inside))
    fan = primitive.cost.terms(xs, y)
    return made.add(primitive.name, operands, dict(params or {}), 1.0 + fan * sum(inside))
