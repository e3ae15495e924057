"""The report of `grad`: the gradient alone."""

import json
from dataclasses import dataclass

from gradcli.report.blocks import Block, Code
from gradcli.report.common import Target
from gradcli.report.encode import ABSENT, Absent, Given, Values, encode
from gradcli.report.tidy import entries


@dataclass(frozen=True, slots=True)
class GradReport:
    """The gradient by the reverse mode, at one point."""

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    value: Values
    gradient: dict[str, Values] | Absent
    jacobian: dict[str, Values] | Absent
    environment: dict[str, str | int]
    schema: str = "gradcli.grad/1"
    exit_status: int = 0
    line: int | Absent = ABSENT

    def blocks(self) -> tuple[Block, ...]:
        """Return one line for each input: its name and its gradient, every digit shown."""
        found = self.gradient or self.jacobian or {}
        return tuple(Code(f"{name} = {json.dumps(encode(g))}", "text") for name, g in found.items())

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the entries as rows."""
        found = self.gradient or self.jacobian or {}
        return ("input", "index", "gradient"), [
            (name, index, g) for name, x in found.items() for index, g in entries(x)
        ]
