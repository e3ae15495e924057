"""The report of `grad`: the gradient alone."""

import itertools
import json

import numpy as np

from gradcli.classes import dataclass
from gradcli.report.blocks import Block, Code
from gradcli.report.common import ABSENT, Absent, Target, seed_line
from gradcli.report.encode import Given, Status, Values, encode
from gradcli.report.tidy import entries_with_index


@dataclass(frozen=True, slots=True)
class GradReport:
    """The gradient by the reverse mode, at one point.

    target       What was differentiated.
    at           The value of every input by name.
    drawn        The inputs whose values were drawn at random.
    seed         The seed of everything that was drawn.
    value        The value of f at the point.
    gradient     The gradient with respect to each input, shaped as the input, for a scalar result.
    jacobian     The Jacobian with respect to each input, indexed [output, input], for a result that is no scalar.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    exit_status  The exit status of this command.
    line         The line of standard input that asked for it, counted from 1.
    bound        The bound of rounding of each entry, shaped as the gradient; digits beyond it are left out of the gradient.
    notes        What the gradient does not tell, in sentences: digits lost in rounding, values that are not finite, kinks.
    """

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    seed: int
    value: Values
    gradient: dict[str, Values] | Absent
    jacobian: dict[str, Values] | Absent
    environment: dict[str, str | int]
    schema: str = "gradcli.grad/1"
    exit_status: Status = 0
    line: int | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    notes: tuple[str, ...] = ()

    def blocks(self) -> tuple[Block, ...]:
        """Return one line for each input, with the digits that rounding leaves; a point that was drawn is a line too."""
        found = self.gradient or self.jacobian or {}
        lines = [f"df/d{name} = {_write_json(g)}" for name, g in found.items()]
        if self.drawn:
            values = [f"{n} = {_write_json(x)}{' (drawn)' if n in self.drawn else ''}" for n, x in self.at.items()]
            at = f"at {', '.join(values)}"
            beside = len(lines) == 1 and not any(map(np.ndim, self.at.values()))
            lines = [f"{lines[0]}  {at}"] if beside else [*lines, at]
        return (*(Code(line, "text") for line in lines), *seed_line(self.seed, 0))

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the entries as rows, with the value of the input, and whether it was drawn."""
        found = self.gradient or self.jacobian or {}
        rows: list[tuple[object, ...]] = []
        for name, g in found.items():
            drawn = str(name in self.drawn).lower()
            # of a Jacobian, the entries of the input go round once for each output
            values = itertools.cycle(x for _, x in entries_with_index(self.at[name]))
            rows += [(name, index, dx, x, drawn) for (index, dx), x in zip(entries_with_index(g), values, strict=False)]
        return ("input", "index", "gradient", "at", "drawn"), rows


def _write_json(x: object) -> str:
    return json.dumps(encode(x))
