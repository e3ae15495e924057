"""A recorded program run block by block along its large arrays, so that memory does not grow with them.

It works for programs whose large arrays have one shape, meet entry by entry, and end in sums: losses of many numbers. Where a
sum enters the large arrays again, as in a softmax, their entries are computed once more for each such level.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.classes import dataclass
from gradcli.rules.reductions import SUM
from gradcli.rules.shaping import SELECT
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import BLOCK, entries_of_part, iterate_blocks, shape, size


@dataclass(frozen=True, slots=True)
class Blockwise:
    """A program with, for each line, its level: how many sums over large arrays it needs, one after the other.

    `large` are the lines whose values have the large shape, and `sums` those that add up a large array.
    """

    program: RecordedProgram
    large: frozenset[int]
    sums: frozenset[int]
    levels: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of entries of a large array."""
        return max(size(self.program.tape.value(k)) for k in self.large)

    def run(self, inputs: Callable[[slice], Sequence[list[Value]]]) -> list[Value]:
        """Return the program's value at each of some points, on the branches of the record.

        Shapes  `inputs(part)` returns the values of the inputs at each point: for large inputs only that part of their
                entries, in C order.
        """
        small = inputs(slice(0, 0))
        numbers = {x.slot: k for k, x in enumerate(self.program.inputs)}
        points: list[dict[int, Value]] = [{} for _ in small]
        for level in range(max(self.levels) + 1):
            for values, given in zip(points, small, strict=True):
                for k, line in enumerate(self.program.lines):
                    if self.levels[k] == level and k not in self.large | self.sums:
                        values[k] = given[numbers[k]] if k in numbers else _compute_line(line, values, None)
            added = [k for k in self.sums if self.levels[k] == level + 1]
            for part in iterate_blocks(self.count) if added else ():
                for values, given in zip(points, inputs(part), strict=True):
                    here = dict(values)
                    for k in sorted(self.large):
                        if self.levels[k] <= level:
                            here[k] = (
                                given[numbers[k]] if k in numbers else _compute_line(self.program.lines[k], here, part)
                            )
                    for k in added:
                        (slot,) = self.program.tape.operands(k)
                        total = np.sum(here[slot])
                        values[k] = values[k] + total if k in values else total
        return [values[self.program.y.slot] for values in points]


def prepare_blockwise(program: RecordedProgram) -> Blockwise | None:
    """Return the program prepared to be run in blocks, or None where its large arrays do more than meet entry by entry."""
    shapes = {shape(x.primal) for x in program.inputs if size(x.primal) > BLOCK}
    if len(shapes) != 1 or not program.moves:
        return None
    (whole,) = shapes
    large, sums, levels = set[int](), set[int](), list[int]()
    for k, (primitive, slots, xs, y, _, _) in enumerate(program.lines):
        level = max((levels[s] for s in slots if s != CONSTANT), default=0)
        entry_by_entry = (
            primitive and (primitive.kind == "elementwise" or primitive.is_a(SELECT)) and not primitive.body
        )
        if primitive is None:
            large |= {k} if shape(y) == whole else set()
        elif not (large.intersection(slots) or any(shape(x) == whole for x in xs)):
            if shape(y) == whole:  # made of smaller arrays, as an outer product is
                return None
        elif entry_by_entry and shape(y) == whole and all(shape(x) in (whole, ()) for x in xs):
            large.add(k)
        elif primitive is SUM and shape(y) == ():
            sums.add(k)
            level += 1
        else:
            return None
        levels.append(level)
    if program.y.slot in large:
        return None
    return Blockwise(program, frozenset(large), frozenset(sums), tuple(levels))


def _compute_line(line: Line, values: dict[int, Value], part: slice | None) -> Value:
    """Return the value of a line, given those of its operands; in a large line, a part of the entries of constants."""
    primitive, slots, xs, _, params, _ = line
    assert primitive is not None
    operands = [
        (x if part is None else entries_of_part(x, part)) if slot == CONSTANT else values[slot]
        for slot, x in zip(slots, xs, strict=True)
    ]
    return primitive.fun(*operands, **(params or {}))
