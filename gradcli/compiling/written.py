"""A program as the text of a Python function of numpy's, one statement an operation, memory used again; or of one on balls.

Names in the text are those of `_SPACE` and short words with the numbers of nodes: nothing of the user's is written into it.
Numbers are Python's, whose sums and products are float64's own and take a third of the time; what Python refuses (division
by zero) and what it rounds otherwise is left to numpy. Large arrays are written into the memory of values that are not read
any more.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import ENTRIES, Ball, ball_of_constant
from gradcli.classes import dataclass
from gradcli.compiling.straight_line import (
    WRITING,
    Exact,
    NamedConstant,
    ProgramNode,
    StraightLine,
    expand_rules,
    is_elementwise,
    write_gradient,
)
from gradcli.errors import CannotCompile
from gradcli.rules.elementwise import INTEGER_POWER, RELU
from gradcli.rules.linalg import EINSUM, MATMUL
from gradcli.rules.reductions import SUM
from gradcli.rules.shaping import GETITEM, JOIN, PUT, SCATTER, SELECT, is_basic_index
from gradcli.tracing import primitive, shapes
from gradcli.tracing.primitive import Primitive, Value, primitive_by_name
from gradcli.tracing.shapes import shape

ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARISONS = {
    "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_INFIX = ARITHMETIC | _COMPARISONS
_SPACE: dict[str, Any] = {
    "float64": np.float64, "total": np.add.reduce, "zeros": np.zeros, "broadcast_to": np.broadcast_to, "power": np.power,
    "square": np.square, "maximum": np.maximum, "where": np.where, "concatenate": np.concatenate, "array": np.array,
    "vdot": np.vdot,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionText:
    """The text of a function, and what its names stand for."""

    text: str
    space: dict[str, Any]

    def function(self) -> Callable[..., Any]:
        """Return the function: from the inputs' values to the results, and a number that is nan if any of them is."""
        shapes.reuse_pages()
        return compile_text(self.text, self.space)


def compile_text(text: str, space: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function `program` that a text defines, with these names; a primitive stands for its function."""
    names = {name: x.fun if isinstance(x, Primitive) else x for name, x in space.items()}
    exec(compile(text, "<program>", "exec"), names)
    made: Callable[..., Any] = names["program"]
    return made


def program_text(inputs: Sequence[int], lines: Sequence[str]) -> str:
    """Return the text of the function `program` of these inputs, each `v` and its number."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"def program({', '.join(f'v{k}' for k in inputs)}):\n{body}"


# Which memory the values of a program lie in, and when it is free to be used again.

REUSED = 2**11  # entries, from which on memory is worth using again
_ADD = primitive_by_name("add")
_NEW = (INTEGER_POWER, RELU, MATMUL, SUM, SCATTER, SELECT, JOIN, PUT)  # beside numpy's ufuncs: they return new arrays


class Memory:
    """The memory of the nodes that results are computed from.

    `of[k]` are the nodes whose arrays node k may lie in: its own for an operation that returns a new array, or a number;
    for any other, those of its operands, of which the result may be a view. `added[k] = j` says that addition k adds what
    scatter j would spread over zeros into the memory of its other operand, so that j itself is not made. `written[k] = j`
    says that put k writes into the memory of its operand j.
    """

    def __init__(self, program: StraightLine, results: Sequence[int], inputs: Sequence[int]) -> None:
        self.nodes = program.nodes
        self.order = program.needed([*results, *inputs])
        self.results = frozenset(results)
        self.of: dict[int, frozenset[int]] = {}
        self.added: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self._uses: dict[int, list[int]] = {}
        for k in self.order:
            for j in self.nodes[k].operands:
                self._uses.setdefault(j, []).append(k)
        self._assign_memory()
        self.unmade = frozenset(self.added.values())
        self.last = self._last_uses()
        self._free: dict[tuple[int, ...], list[int]] = {}

    def is_new(self, k: int) -> bool:
        """Whether a node is an array that nobody else has."""
        primitive = self.nodes[k].operation
        if not isinstance(primitive, Primitive) or not self.nodes[k].shape:
            return False
        return isinstance(primitive.fun, np.ufunc) or primitive.is_a(*_NEW)

    def is_whole(self, k: int) -> bool:
        """Whether a node is all of an array that nobody else has."""
        (root, *others) = self.of[k]
        own = root == k or k in self.added or k in self.written
        return not others and self.is_new(root) and self.nodes[root].shape == self.nodes[k].shape and own

    def is_simple_scatter(self, k: int) -> bool:
        """Whether a node is zeros with another one written into a part of them, no entry twice."""
        node = self.nodes[k]
        return node.operation is SCATTER and is_basic_index(node.params["index"])

    def _assign_memory(self) -> None:
        """Find where each node lies, and what is written into the memory of an operand that nothing reads later."""
        latest: dict[int, float] = {}  # of an array: its last reader
        for k in self.order:
            node = self.nodes[k]
            if node.operation is _ADD:
                pairs = (node.operands[::-1], node.operands)
                scatter = next((scatter for scatter, other in pairs if self._may_add(k, scatter, other)), None)
                self.added |= {} if scatter is None else {k: scatter}
            elif node.operation is PUT and self._may_write(k, node, latest):
                self.written[k] = node.operands[0]
            if k in self.written:
                self.of[k] = self.of[self.written[k]]
            elif not node.operands or not self.nodes[k].shape or (self.is_new(k) and k not in self.added):
                self.of[k] = frozenset((k,))
            else:
                self.of[k] = frozenset().union(*(self.of[j] for j in node.operands if j != self.added.get(k)))
            last = float("inf") if k in self.results else max(self._uses.get(k, [k]))
            for root in self.of[k]:
                latest[root] = last if k in self.written else max(latest.get(root, 0), last)

    def _may_add(self, k: int, scatter: int, other: int) -> bool:
        """Whether addition k can add what a scatter would spread into the memory of its other operand.

        What the scatter reads must not be written over before node k, which would read it then.
        """
        alone = all(self._uses[x] == [k] and x not in self.results for x in (scatter, other))
        if not alone or not self.is_simple_scatter(scatter) or not self.is_whole(other):
            return False
        read = self.of[self.nodes[scatter].operands[0]]
        over = any(scatter < put < k and not self.of[put].isdisjoint(read) for put in self.written)
        return self.nodes[other].shape == self.nodes[k].shape and not over

    def _may_write(self, k: int, node: ProgramNode, latest: dict[int, float]) -> bool:
        """Whether a put can write into its operand's memory: that is all its own, and not read any more."""
        base, v = node.operands
        if not self.is_whole(base) or not self.of[v].isdisjoint(self.of[base]):
            return False
        (root,) = self.of[base]
        return latest[root] <= k and self.nodes[base].dtype == node.dtype

    def operands(self, k: int) -> tuple[int, ...]:
        """Return what is read for a node: an addition reads for the scatter that it does the work of."""
        if k in self.unmade:
            return ()
        return tuple(self.nodes[j].operands[0] if j == self.added.get(k) else j for j in self.nodes[k].operands)

    def _last_uses(self) -> dict[int, list[int]]:
        """Return the arrays that are read no more after each node; those of inputs, constants and results stay."""
        last = {root: k for k in self.order for j in (k, *self.operands(k)) for root in self.of[j]}
        kept = frozenset().union(*(self.of[k] for k in self.results))
        found: dict[int, list[int]] = {}
        for root, k in last.items():
            if self.is_new(root) and root not in kept:
                found.setdefault(k, []).append(root)
        return found

    def taken(self, k: int) -> int | None:
        """Return the node into whose memory an elementwise node can be written, or None for new memory."""
        node = self.nodes[k]
        if node.value.size < REUSED or node.dtype != np.float64:
            return None
        for root in self.last.get(k, ()):
            other = self.nodes[root]
            fits = other.shape == node.shape and other.dtype == node.dtype
            if root != k and root in self.operands(k) and fits:
                self.last[k].remove(root)
                return root
        free = self._free.get(node.shape)
        return free.pop() if free else None

    def release(self, k: int) -> None:
        """Make free what is read no more after a node."""
        for root in self.last.get(k, ()):
            if self.nodes[root].dtype == np.float64:
                self._free.setdefault(self.nodes[root].shape, []).append(root)


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
                self._write_statement(k, node)
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

    def _write_statement(self, k: int, node: ProgramNode) -> None:
        names = [self.name(j) for j in self.memory.operands(k)]
        primitive = node.operation
        if k in self.memory.added:  # what a scatter would spread over zeros goes into the other operand's memory
            (other,) = (j for j in node.operands if j != self.memory.added[k])
            made = self.program.nodes[self.memory.added[k]]
            at = self._index_text(k, made.params["index"])
            self.lines += [f"v{other}[{at}] += {self.name(made.operands[0])}", f"v{k} = v{other}"]
        elif node.operation is PUT:  # into an array that nothing else reads, or into a copy
            at = self._index_text(k, node.params["index"])
            base = names[0]
            if k not in self.memory.written:
                self.space[f"dtype{k}"] = node.dtype
                base = f"array({base}, dtype{k})"
            self.lines += [f"v{k} = {base}", f"v{k}[{at}] = {names[1]}"]
        elif self.memory.is_simple_scatter(k):
            at = self._index_text(k, node.params["index"])
            self.lines += [f"v{k} = zeros({tuple(node.params['into'])!r})", f"v{k}[{at}] = {names[0]}"]
        elif not isinstance(primitive, Primitive):
            self.lines.append(f"v{k} = {self._call_text(k, node)}")
        elif not node.shape and is_elementwise(primitive):
            self.lines.append(f"v{k} = {self._scalar_text(k, node, primitive, names)}")
        elif is_elementwise(primitive):
            self.lines.append(f"v{k} = {self._elementwise_text(k, node, primitive, names)}")
        else:
            self.lines.append(f"v{k} = {self._numpy_text(k, node, primitive, names) or self._call_text(k, node)}")

    def _index_text(self, k: int, index: Any) -> str:
        """Return the text of an index: itself where it is simple, else a name."""
        if is_basic_index(index):
            return ", ".join(map(_subscript_text, index if type(index) is tuple else (index,))) or "()"
        self.space[f"at{k}"] = index
        return f"at{k}"

    def _elementwise_text(self, k: int, node: ProgramNode, primitive: Primitive, names: list[str]) -> str:
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
            return f"{self._ufunc_name(primitive)}({', '.join(names)}{out})"
        return self._call_text(k, node)

    def _ufunc_name(self, primitive: Primitive) -> str:
        self.space[f"np_{primitive.name}"] = primitive.fun
        return f"np_{primitive.name}"

    def _call_text(self, k: int, node: ProgramNode) -> str:
        """Return the call of an operation's own function, which gets float64's numbers and not Python's."""
        names = [f"float64({self.name(j)})" if j in self.numbers else self.name(j) for j in node.operands]
        operation = node.operation
        own = operation.name if isinstance(operation, Primitive) else getattr(operation, "__name__", None)
        kind = own or type(operation).__name__.lower()
        called = f"{kind if kind.isidentifier() else 'call'}_{k}"
        self.space[called] = operation
        if node.params:
            self.space[f"given_{k}"] = node.params
        return f"{called}({', '.join(names)}{f', **given_{k}' if node.params else ''})"

    def _scalar_text(self, k: int, node: ProgramNode, primitive: Primitive, names: list[str]) -> str:
        if primitive.name in _COMPARISONS:
            return f"{names[0]} {_COMPARISONS[primitive.name]} {names[1]}"
        nodes = [self.program.nodes[j] for j in node.operands]
        others = [x for j, x in zip(node.operands, nodes, strict=True) if j not in self.numbers]
        # Whether it is an operation of Python's floats; whole numbers may be among them.
        python = len(others) < len(nodes) and all(type(x.value) is int and x.constant for x in others)
        floats = python or all(x.is_float for x in nodes)
        if primitive.name == "divide" and python:
            return f"float64({names[0]}) / {names[1]}"
        if primitive.name in ARITHMETIC and floats:
            text = f"{names[0]} {ARITHMETIC[primitive.name]} {names[1]}"
        elif primitive.name == "negative" and floats:
            text = f"-{names[0]}"
        elif primitive.name == "integer_power" and node.params["n"] == 2 and floats:
            text = f"{names[0]} * {names[0]}"
        elif isinstance(primitive.fun, np.ufunc):
            return f"{self._ufunc_name(primitive)}({', '.join(names)})"
        else:
            return self._call_text(k, node)
        if python:
            self.numbers.add(k)
        return text

    def _numpy_text(self, k: int, node: ProgramNode, primitive: Primitive, names: list[str]) -> str | None:
        """Return the text of an operation that numpy has in fewer steps than the rule's own function, or None."""
        x, params, of = names[0], node.params, self.program.nodes[node.operands[0]].shape
        if primitive.name == "sum" and of:
            return f"total({x}, {None if len(params['axis']) == len(of) else tuple(params['axis'])!r})"
        if primitive.is_a(MATMUL):
            return f"{x} @ {names[1]}"
        if primitive is EINSUM and len(names) == 2:
            return _matrix_product_text(params["subscripts"], *names)
        if primitive.is_a(SELECT) and not node.shape and not of:
            chosen = f"{names[1]} if {x} else {names[2]}"
            if not self.numbers.issuperset(node.operands[1:]):
                return f"float64({chosen})" if node.dtype == np.float64 else None
            self.numbers.add(k)
            return chosen
        if primitive is GETITEM and of:
            return f"{x}[{self._index_text(k, params['index'])}]"
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


def _matrix_product_text(subscripts: str, a: str, b: str) -> str | None:
    """Return the text of an einsum that is a product of matrices and vectors, or None."""
    inputs, output = subscripts.split("->")
    p, q = inputs.split(",")
    for left, right, text in ((p, q, f"{a} @ {b}"), (q, p, f"{b} @ {a}")):
        letters = left[:-1] + right[1:]
        simple = 0 < len(left) <= 2 and 0 < len(right) <= 2 and len(set(letters)) == len(letters)
        if simple and left[-1] == right[0] and left[-1] not in letters and output == letters:
            return text
    return None


def _subscript_text(part: Any) -> str:
    """Return the text of a simple part of an index."""
    if type(part) is slice:
        ends = ["" if x is None else str(int(x)) for x in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])
    return "..." if part is ... else repr(part)


def write_function(whole: StraightLine, ins: Sequence[int], outs: Sequence[int], careful: bool) -> FunctionText:
    """Return a program as a function from the inputs' values to the results and a number, which is nan if any of them is.

    Each result is in memory of its own; a scalar is numpy's. The number is 0 where the products of cotangents and
    slopes are careful ones: the plain ones may be nan where these are not.
    """
    program, inputs, results, watched = expand_rules(whole, ins, outs, careful)
    memory = Memory(program, [*results, *watched], inputs)
    text = _Text(program, memory)
    text.numbers.update(k for k in inputs if program.nodes[k].shape == ())
    text.write()
    taken: set[int] = set()
    found, squares = [], [f"{text.name(k)} * {text.name(k)}" for k in watched]
    for k in results:
        node, name = program.nodes[k], text.name(k)
        if node.shape == ():
            found.append(text.scalar(k))
        else:
            own = memory.is_whole(k) and taken.isdisjoint(memory.of[k])
            found.append(name if own else f"array({name})")
            taken |= memory.of[k]
        if node.is_float and not node.constant:  # a sum of squares is nan if and only if an entry is
            forms = (f"{name} * {name}", f"{name}.dot({name})", f"vdot({name}, {name})")
            squares.append(forms[min(len(node.shape), 2)])
    total = "" if careful else " + ".join(squares)
    lines = [*text.lines, f"return ({''.join(f'{x}, ' for x in found)}), {total or 0.0}"]
    used = set(re.findall(r"\w+", "\n".join(lines)))
    space = {name: x for name, x in (_SPACE | text.space).items() if name in used}
    return FunctionText(program_text(inputs, lines), space)


# A scalar function and its gradient as straight-line code on balls, at whatever precision is set.
#
# Rules are the mathematics, not their float64 kernels, and constants are exact, so that what the code encloses is what the
# function is. It is written for functions of numbers alone that have no kinks and never look at a value.

MOST = 500  # operations of the function


@dataclass(frozen=True, slots=True)
class BallCode:
    """`value` takes all inputs, as `arb`, to f; `both` takes them to f and its gradient by some, 0 where nothing flows.

    `has_constants` says whether it names pi or e, which are balls around the float64 numbers, or exact, as it is run.
    """

    value: Callable[..., arb]
    both: Callable[..., tuple[arb, list[arb]]]
    has_constants: bool


def compile_to_balls(
    f: Callable[[Mapping[str, Value]], Value], at: Mapping[str, Value], wrt: Sequence[str]
) -> BallCode:
    """Return a function of named numbers, and its gradient by some of them, as code on balls.

    Raises  CannotCompile where that cannot be written, and what f raises on values that it cannot see.
    """
    if any(shape(x) for x in at.values()):
        raise CannotCompile("an input is an array")
    with primitive.open_sweep() as level:
        program = StraightLine(Exact, level, exact=True, most=MOST)
        token = WRITING.set(program)
        try:
            inputs = {name: program.input(np.float64(x)) for name, x in at.items()}
            y = f(inputs)
            if type(y) is not Exact or y.shape:
                raise CannotCompile("the value is no number of the trace")
            program.most = 10 * MOST
            bars = write_gradient(program, y, [inputs[name] for name in wrt])
        finally:
            WRITING.reset(token)
    numbers = [x.number for x in inputs.values()]
    slopes = [None if x is None else x.number for x in bars]
    value, both = (_compile_nodes(program, numbers, y.number, own) for own in (None, slopes))
    named = any(isinstance(node.operation, NamedConstant) for node in program.nodes)
    return BallCode(value, both, named)


def _compile_nodes(
    program: StraightLine, inputs: Sequence[int], y: int, slopes: Sequence[int | None] | None
) -> Callable[..., Any]:
    wanted = [y, *(k for k in slopes or () if k is not None)]
    space: dict[str, Any] = {"zero": arb(0)}
    lines = []
    for k in program.needed([*wanted, *inputs]):
        node = program.nodes[k]
        if node.constant:
            space[f"v{k}"] = Ball.entry(node.value)
        elif node.operation is not None:
            lines.append(f"v{k} = {_statement_text(node, k, space)}")
    found = "" if slopes is None else f", [{', '.join('zero' if k is None else f'v{k}' for k in slopes)}]"
    return compile_text(program_text(inputs, [*lines, f"return v{y}{found}"]), space)


def _statement_text(node: ProgramNode, k: int, space: dict[str, Any]) -> str:
    """Return the text of one operation. Raises CannotCompile for one that balls do not have by name."""
    operation, params, names = node.operation, node.params, [f"v{j}" for j in node.operands]
    if isinstance(operation, NamedConstant):
        space[f"call{k}"] = partial(ball_of_constant, operation.name, operation.value)
        return f"call{k}()"
    if not isinstance(operation, Primitive) or operation.name not in ENTRIES or operation.body:
        raise CannotCompile("an operation that balls do not have by its name")
    if operation.name in ARITHMETIC:
        return f" {ARITHMETIC[operation.name]} ".join(names)
    space[f"call{k}"] = ENTRIES[operation.name]
    if params:
        space[f"given{k}"] = params
    return f"call{k}({', '.join(names)}{f', **given{k}' if params else ''})"
