"""A program as the text of a Python function of numpy's: one statement an operation, memory used again.

Names in the text are those of `_SPACE` and short words with the numbers of nodes: nothing of the user's is written into it.
Numbers are Python's, whose sums and products are float64's own and take a third of the time; what Python refuses (division
by zero) and what it rounds otherwise is left to numpy. Large arrays are written into the memory of values that are read no
more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import shape
from gradcli.primitives.linalg import MATMUL
from gradcli.programs.memory import Memory
from gradcli.programs.straight_line import Node, StraightLine, compiled

_INFIX = {"add": "+", "subtract": "-", "multiply": "*"}
_SPACE: dict[str, Any] = {
    "float64": np.float64, "total": np.add.reduce, "zeros": np.zeros, "broadcast_to": np.broadcast_to, "power": np.power,
    "square": np.square, "maximum": np.maximum,
}  # fmt: skip


@dataclass
class _Text:
    """The text so far and the values it names."""

    program: StraightLine
    memory: Memory
    space: dict[str, Any] = field(default_factory=lambda: dict(_SPACE))
    lines: list[str] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)  # nodes that are Python's own floats

    def write(self) -> None:
        for k in self.memory.order:
            node = self.program.nodes[k]
            if node.constant:
                self.space[f"c{k}"] = float(node.value) if _is_number(node.value) else node.value
                if _is_number(node.value):
                    self.numbers.add(k)
            elif node.operation is not None and k not in self.memory.unmade:
                self._statement(k, node)
                self.memory.release(k)

    def name(self, k: int) -> str:
        return f"{'c' if self.program.nodes[k].constant else 'v'}{k}"

    def _statement(self, k: int, node: Node) -> None:
        names = [self.name(j) for j in self.memory.operands(k)]
        primitive = node.operation
        if k in self.memory.added:
            self._added(k, node)
        elif self.memory.is_simple_scatter(k):
            self.space[f"at{k}"] = node.params["index"]
            self.lines += [f"v{k} = zeros({tuple(node.params['into'])!r})", f"v{k}[at{k}] = {names[0]}"]
        elif not isinstance(primitive, Primitive):
            self.lines.append(f"v{k} = {self._called(k, node)}")
        elif not shape(node.value) and primitive.kind == "elementwise":
            self.lines.append(f"v{k} = {self._number(k, node, primitive, names)}")
        elif primitive.kind == "elementwise":
            self.lines.append(f"v{k} = {self._elementwise(k, node, primitive, names)}")
        else:
            self.lines.append(f"v{k} = {self._known(k, node, primitive, names) or self._called(k, node)}")

    def _added(self, k: int, node: Node) -> None:
        """Add what a scatter would spread over zeros into the other operand's memory."""
        scatter = self.memory.added[k]
        (other,) = (j for j in node.operands if j != scatter)
        made = self.program.nodes[scatter]
        self.space[f"at{k}"] = made.params["index"]
        self.lines += [f"v{other}[at{k}] += {self.name(made.operands[0])}", f"v{k} = v{other}"]

    def _elementwise(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str:
        memory = self.memory.taken(k) if self.memory.is_new(k) else None
        out = "" if memory is None else f", v{memory}"
        if primitive.name == "integer_power":
            n = node.params["n"]
            return f"square({names[0]}{out})" if n == 2 else f"power({names[0]}, {float(n)!r}{out})"
        if primitive.name == "relu":
            return f"maximum({names[0]}, 0.0{out})"
        if not out and primitive.name in _INFIX:
            return f" {_INFIX[primitive.name]} ".join(names)
        if isinstance(primitive.fun, np.ufunc):
            return f"{self._ufunc(primitive)}({', '.join(names)}{out})"
        return self._called(k, node)

    def _ufunc(self, primitive: Primitive) -> str:
        self.space[f"np_{primitive.name}"] = primitive.fun
        return f"np_{primitive.name}"

    def _called(self, k: int, node: Node) -> str:
        """Return the call of an operation's own function, which gets float64's numbers and not Python's."""
        names = []
        for j in node.operands:
            if self.program.nodes[j].constant:
                self.space[f"plain{j}"] = self.program.nodes[j].value
                names.append(f"plain{j}")
            else:
                names.append(f"float64(v{j})" if j in self.numbers else f"v{j}")
        fun = node.operation.fun if isinstance(node.operation, Primitive) else node.operation
        self.space[f"call{k}"] = fun
        if node.params:
            self.space[f"given{k}"] = node.params
        return f"call{k}({', '.join(names)}{f', **given{k}' if node.params else ''})"

    def _number(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str:
        whole = all(j in self.numbers for j in node.operands)
        if primitive.name in _INFIX:
            text = f" {_INFIX[primitive.name]} ".join(names)
        elif primitive.name == "negative":
            text = f"-{names[0]}"
        elif primitive.name == "integer_power" and node.params["n"] == 2:
            text = f"{names[0]} * {names[0]}"
        elif primitive.name == "divide":
            return f"float64({names[0]}) / {names[1]}"
        elif isinstance(primitive.fun, np.ufunc):
            return f"{self._ufunc(primitive)}({', '.join(names)})"
        else:
            return self._called(k, node)
        if whole:
            self.numbers.add(k)
        return text

    def _known(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str | None:
        """Return the text of an operation that numpy has in fewer steps than the rule's own function, or None."""
        x, params, of = names[0], node.params, shape(self.program.nodes[node.operands[0]].value)
        if primitive.name == "sum" and of:
            return f"total({x}, {None if len(params['axis']) == len(of) else tuple(params['axis'])!r})"
        if primitive.is_a(MATMUL):
            return f"{x} @ {names[1]}"
        if shape(node.value) == ():
            return None
        if primitive.name == "reshape" and of:
            return f"{x}.reshape({tuple(params['to'])!r})"
        if primitive.name == "transpose":
            return f"{x}.transpose({tuple(params['axes'])!r})"
        if primitive.name == "broadcast_to":
            return f"broadcast_to({x}, {tuple(params['to'])!r})"
        if primitive.name == "getitem":
            self.space[f"at{k}"] = params["index"]
            return f"{x}[at{k}]"
        return None


def _is_number(x: Value) -> bool:
    return isinstance(x, float | int | np.float64 | np.integer) and not isinstance(x, bool)


def written(
    program: StraightLine, inputs: Sequence[int], y: int | None, results: Sequence[int | None], zeros: Sequence[Value]
) -> Callable[..., tuple[Value, list[Value]]]:
    """Return a Python function from the inputs' values to y's, where it is wanted, and the results'.

    Each result is in memory of its own; where there is none, it is zero in the shape of one in `zeros`.
    """
    memory = Memory(program, [k for k in (y, *results) if k is not None], inputs)
    text = _Text(program, memory)
    numbers = [k for k in inputs if shape(program.nodes[k].value) == ()]
    text.numbers.update(numbers)
    text.write()
    taken: set[int] = set()
    found = []
    for k, like in zip(results, zeros, strict=True):
        if k is None:
            found.append(f"zeros({shape(like)!r})" if shape(like) else "float64(0)")
        elif shape(program.nodes[k].value) == ():
            found.append(f"float64({text.name(k)})")
        else:
            own = memory.is_whole(k) and taken.isdisjoint(memory.of[k])
            found.append(text.name(k) if own else f"{text.name(k)}.copy()")
            taken |= memory.of[k]
    value = "None" if y is None else f"float64({text.name(y)})"
    lines = [f"v{k} = float(v{k})" for k in numbers] + text.lines + [f"return {value}, [{', '.join(found)}]"]
    return compiled(inputs, lines, text.space)
