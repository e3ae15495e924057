"""A program as the text of a Python function of numpy's: one statement an operation, memory used again.

Names in the text are those of `_SPACE` and short words with the numbers of nodes: nothing of the user's is written into it.
Numbers are Python's, whose sums and products are float64's own and take a third of the time; what Python refuses (division
by zero) and what it rounds otherwise is left to numpy. Large arrays are written into the memory of values that are not read
any more.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.core import heap
from gradcli.core.primitive import Primitive
from gradcli.primitives.linalg import EINSUM, MATMUL
from gradcli.primitives.shaping import GETITEM, JOIN, PUT, SELECT, is_simple
from gradcli.programs.expansion import Expanded
from gradcli.programs.memory import Memory
from gradcli.programs.straight_line import Node, StraightLine, is_elementwise

_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARISONS = {
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "equal": "==",
    "not_equal": "!=",
}
_INFIX = _ARITHMETIC | _COMPARISONS
_SPACE: dict[str, Any] = {
    "float64": np.float64, "total": np.add.reduce, "zeros": np.zeros, "broadcast_to": np.broadcast_to, "power": np.power,
    "square": np.square, "maximum": np.maximum, "where": np.where, "concatenate": np.concatenate, "array": np.array,
    "vdot": np.vdot,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a function, and what its names stand for."""

    text: str
    space: dict[str, Any]

    def function(self) -> Callable[..., Any]:
        """Return the function: from the inputs' values to the results, and a number that is nan if any of them is."""
        heap.reuse_pages()
        return compiled(self.text, self.space)


def compiled(text: str, space: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function `program` that a text defines, with these names; a primitive stands for its function."""
    names = {name: x.fun if isinstance(x, Primitive) else x for name, x in space.items()}
    exec(compile(text, "<program>", "exec"), names)
    made: Callable[..., Any] = names["program"]
    return made


def defined(inputs: Sequence[int], lines: Sequence[str]) -> str:
    """Return the text of the function `program` of these inputs, each `v` and its number."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"def program({', '.join(f'v{k}' for k in inputs)}):\n{body}"


@dataclass
class _Text:
    """The text so far and the values it names."""

    program: StraightLine
    memory: Memory
    space: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)  # nodes that are Python's own floats

    def write(self) -> None:
        for k in self.memory.order:
            node = self.program.nodes[k]
            if node.constant:
                self.space[f"c{k}"] = node.value
                if isinstance(node.value, float):  # np.float64 is one
                    self.numbers.add(k)
            elif node.operation is not None and k not in self.memory.unmade:
                self._statement(k, node)
                self.memory.release(k)

    def name(self, k: int) -> str:
        """Return how the text writes a node: its name, or a number."""
        node = self.program.nodes[k]
        if not node.constant:
            return f"v{k}"
        if type(node.value) is int or (isinstance(node.value, float) and math.isfinite(node.value)):
            number = repr(node.value if type(node.value) is int else float(node.value))
            return f"({number})" if number.startswith("-") else number
        return f"c{k}"

    def scalar(self, k: int) -> str:
        """Return a result without axes as numpy's own number."""
        kind = self.program.nodes[k].dtype.type
        self.space[kind.__name__] = kind
        return f"{kind.__name__}({self.name(k)})"

    def _statement(self, k: int, node: Node) -> None:
        names = [self.name(j) for j in self.memory.operands(k)]
        primitive = node.operation
        if k in self.memory.added:
            self._added(k, node)
        elif node.operation is PUT:
            self._put(k, node, names)
        elif self.memory.is_simple_scatter(k):
            at = self._at(k, node.params["index"])
            self.lines += [f"v{k} = zeros({tuple(node.params['into'])!r})", f"v{k}[{at}] = {names[0]}"]
        elif not isinstance(primitive, Primitive):
            self.lines.append(f"v{k} = {self._called(k, node)}")
        elif not node.shape and is_elementwise(primitive):
            self.lines.append(f"v{k} = {self._number(k, node, primitive, names)}")
        elif is_elementwise(primitive):
            self.lines.append(f"v{k} = {self._elementwise(k, node, primitive, names)}")
        else:
            self.lines.append(f"v{k} = {self._known(k, node, primitive, names) or self._called(k, node)}")

    def _added(self, k: int, node: Node) -> None:
        """Add what a scatter would spread over zeros into the other operand's memory."""
        scatter = self.memory.added[k]
        (other,) = (j for j in node.operands if j != scatter)
        made = self.program.nodes[scatter]
        at = self._at(k, made.params["index"])
        self.lines += [f"v{other}[{at}] += {self.name(made.operands[0])}", f"v{k} = v{other}"]

    def _at(self, k: int, index: Any) -> str:
        """Return the text of an index: itself where it is simple, else a name."""
        if is_simple(index):
            return ", ".join(map(_subscript, index if type(index) is tuple else (index,))) or "()"
        self.space[f"at{k}"] = index
        return f"at{k}"

    def _put(self, k: int, node: Node, names: list[str]) -> None:
        """Write into an array that nothing else reads, or into a copy."""
        at = self._at(k, node.params["index"])
        if k in self.memory.written:
            self.lines.append(f"v{k} = {names[0]}")
        else:
            self.space[f"dtype{k}"] = node.dtype
            self.lines.append(f"v{k} = array({names[0]}, dtype{k})")
        self.lines.append(f"v{k}[{at}] = {names[1]}")

    def _elementwise(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str:
        memory = self.memory.taken(k) if self.memory.is_new(k) else None
        out = "" if memory is None else f", out=v{memory}"
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
        names = [f"float64({self.name(j)})" if j in self.numbers else self.name(j) for j in node.operands]
        operation = node.operation
        kind = operation.name if isinstance(operation, Primitive) else type(operation).__name__.lower()
        called = f"{kind if kind.isidentifier() else 'call'}_{k}"
        self.space[called] = operation
        if node.params:
            self.space[f"given_{k}"] = node.params
        return f"{called}({', '.join(names)}{f', **given_{k}' if node.params else ''})"

    def _number(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str:
        if primitive.name in _COMPARISONS:
            return f"{names[0]} {_COMPARISONS[primitive.name]} {names[1]}"
        python, nodes = self._is_of_numbers(node.operands), [self.program.nodes[j] for j in node.operands]
        floats = python or all(one.is_float for one in nodes)
        if primitive.name == "divide" and python:
            return f"float64({names[0]}) / {names[1]}"
        if primitive.name in _ARITHMETIC and floats:
            text = f"{names[0]} {_ARITHMETIC[primitive.name]} {names[1]}"
        elif primitive.name == "negative" and floats:
            text = f"-{names[0]}"
        elif primitive.name == "integer_power" and node.params["n"] == 2 and floats:
            text = f"{names[0]} * {names[0]}"
        elif isinstance(primitive.fun, np.ufunc):
            return f"{self._ufunc(primitive)}({', '.join(names)})"
        else:
            return self._called(k, node)
        if python:
            self.numbers.add(k)
        return text

    def _is_of_numbers(self, operands: Sequence[int]) -> bool:
        """Whether an operation on these nodes is one of Python's floats; whole numbers may be among them."""
        others = [self.program.nodes[j] for j in operands if j not in self.numbers]
        return len(others) < len(operands) and all(type(node.value) is int and node.constant for node in others)

    def _known(self, k: int, node: Node, primitive: Primitive, names: list[str]) -> str | None:
        """Return the text of an operation that numpy has in fewer steps than the rule's own function, or None."""
        x, params, of = names[0], node.params, self.program.nodes[node.operands[0]].shape
        if primitive.name == "sum" and of:
            return f"total({x}, {None if len(params['axis']) == len(of) else tuple(params['axis'])!r})"
        if primitive.is_a(MATMUL):
            return f"{x} @ {names[1]}"
        if primitive is EINSUM and len(names) == 2:
            return _product(params["subscripts"], *names)
        if primitive.is_a(SELECT) and not node.shape and not of:
            chosen = f"{names[1]} if {x} else {names[2]}"
            if not self.numbers.issuperset(node.operands[1:]):
                return f"float64({chosen})" if node.dtype == np.float64 else None
            self.numbers.add(k)
            return chosen
        if primitive is GETITEM and of:
            return f"{x}[{self._at(k, params['index'])}]"
        if node.shape == ():
            return None
        if primitive.is_a(SELECT):
            return f"where({', '.join(names)})"
        if primitive.is_a(JOIN):
            return f"concatenate(({', '.join(names)},), axis={params['axis']})"
        if primitive.name == "reshape" and of:
            return f"{x}.reshape({tuple(params['to'])!r})"
        if primitive.name == "transpose":
            return f"{x}.transpose({tuple(params['axes'])!r})"
        if primitive.name == "broadcast_to":
            return f"broadcast_to({x}, {tuple(params['to'])!r})"
        return None


def _product(subscripts: str, a: str, b: str) -> str | None:
    """Return the text of an einsum that is a product of matrices and vectors, or None."""
    inputs, output = subscripts.split("->")
    p, q = inputs.split(",")
    for left, right, text in ((p, q, f"{a} @ {b}"), (q, p, f"{b} @ {a}")):
        letters = left[:-1] + right[1:]
        simple = 0 < len(left) <= 2 and 0 < len(right) <= 2 and len(set(letters)) == len(letters)
        if simple and left[-1] == right[0] and left[-1] not in letters and output == letters:
            return text
    return None


def _subscript(part: Any) -> str:
    """Return the text of a simple part of an index."""
    if type(part) is slice:
        ends = ["" if x is None else str(int(x)) for x in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])
    return "..." if part is ... else repr(part)


def written(expanded: Expanded) -> Written:
    """Return a program as a function from the inputs' values to the results and a number, which is nan if any of them is.

    Each result is in memory of its own; a scalar is numpy's. The number is 0 where the program is not checked.
    """
    program, results = expanded.program, expanded.results
    memory = Memory(program, [*results, *expanded.watched], expanded.inputs)
    text = _Text(program, memory)
    numbers = [k for k in expanded.inputs if program.nodes[k].shape == ()]
    text.numbers.update(numbers)
    text.write()
    taken: set[int] = set()
    found, squares = [], [f"{text.name(k)} * {text.name(k)}" for k in expanded.watched]
    for k in results:
        node = program.nodes[k]
        if node.shape == ():
            found.append(text.scalar(k))
        else:
            own = memory.is_whole(k) and taken.isdisjoint(memory.of[k])
            found.append(text.name(k) if own else f"array({text.name(k)})")
            taken |= memory.of[k]
        if node.is_float and not node.constant:
            squares.append(_squared(text.name(k), node.shape))
    total = " + ".join(squares) if expanded.is_checked else ""
    lines = [*text.lines, f"return ({''.join(f'{x}, ' for x in found)}), {total or 0.0}"]
    used = set(re.findall(r"\w+", "\n".join(lines)))
    space = {name: x for name, x in (_SPACE | text.space).items() if name in used}
    return Written(defined(expanded.inputs, lines), space)


def _squared(name: str, shape: tuple[int, ...]) -> str:
    """Return the text of the sum of a value's squares, which is nan if and only if an entry is."""
    if not shape:
        return f"{name} * {name}"
    return f"{name}.dot({name})" if len(shape) == 1 else f"vdot({name}, {name})"
