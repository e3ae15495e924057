"""The report of `trace`: the computation as a walkthrough, forward and back."""

from dataclasses import field

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Block, Figure, Graph, Paragraph, Piece, Table, Walk, shorten_text
from gradcli.report.common import ABSENT, Absent, Finding, Printed, SourceLine, Target, seed_line
from gradcli.report.encode import TEXT_ONLY, Given, Status, Values


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one use of a node adds to its adjoint: the using node's adjoint times the local partial.

    from_    The name of the node that uses this one.
    adjoint  The adjoint of the node that uses this one, shaped as its value.
    partial  The local partial, or `transpose of NAME` for a linear operation on arrays.
    product  What this use adds to the adjoint, shaped as the value of this node.
    formula  The same as a product of matrices, such as `(dL/dz) xᵀ`.
    rule     The local partial as a formula, such as `1 - y*y`, where the operation is elementwise.
    """

    from_: str
    adjoint: Values
    partial: Values | str
    product: Values
    formula: str | Absent = ABSENT
    rule: str | Absent = ABSENT

    @property
    def of_numbers(self) -> bool:
        """Whether it is the product of two numbers."""
        return not isinstance(self.partial, str) and not np.ndim(self.partial) and not np.ndim(self.adjoint)


@dataclass(frozen=True, slots=True)
class Proved:
    """What ball arithmetic proves of a value and its adjoint.

    value           The value to 30 digits, where it is a number; null for an array.
    adjoint         The adjoint to 30 digits, where it is a number; null for an array.
    value_digits    The right digits of the float64 value, in the worst entry; 17 at most. Where the balls are too wide to
                    tell them, a value and its adjoint have no proof.
    adjoint_digits  The right digits of the float64 adjoint, in the worst entry; 17 at most.
    """

    value: str | None
    adjoint: str | None
    value_digits: float
    adjoint_digits: float


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A function or a loop of the user's code.

    file         The file it is in.
    first        Its first line, counted from 1.
    last         Its last line.
    title        The name of the function, or `for k`.
    is_function  Whether it is a function.
    uneven       The first and the last lines of what is run another number of times than the block, such as a branch.
    """

    file: str
    first: int
    last: int
    title: str
    is_function: bool
    uneven: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarLine:
    """One recorded operation on numbers.

    operation  The name of the operation, `input` for an input.
    operands   The number of the line of each operand, or the number itself that a constant is.
    partials   Its derivative by each operand, as a formula in the operands a, b, ..., the parameters and the result y.
    params     The parameters by name.
    """

    operation: str
    operands: tuple[int | float, ...] = ()
    partials: tuple[str, ...] = ()
    params: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarProgram:
    """A recorded computation of numbers alone, which can be made again at other values of the inputs.

    lines      The operations in order, the inputs first.
    result     The line that computes the result.
    steps      The lines of each node.
    decisions  What was decided, such as a comparison: these are constants of the recorded computation.
    answers    What was found each time; a comparison that holds is 1.
    places     Where each decision was made.
    """

    lines: tuple[ScalarLine, ...]
    result: int
    steps: tuple[tuple[int, ...], ...]
    decisions: tuple[ScalarLine, ...]
    answers: tuple[float, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One step: its name, operation, operands, value, adjoint, and the local partials by operand.

    id             The number of the node in the recorded program, counted from 0.
    name           The name of the node: an input, a variable of the user's, `result`, or `t` and a number; a variable that
                   gets several values has their numbers, `h₁`, `h₂`.
    operation      The operation, `input` for an input.
    inputs         The operands: names of nodes, and constants as text.
    value          The forward value.
    adjoint        The derivative of the sum of all outputs with respect to this node, shaped as its value.
    partials       The local partial by operand, or `transpose of NAME` for a linear operation on arrays.
    contributions  What each use of the node adds to its adjoint.
    line           The line of the code, counted from 1; null where it is not known.
    text           The operation as the user wrote it.
    file           The file of the code; absent for an expression and where it is not known.
    proved         What ball arithmetic proves of the value and the adjoint, where it was asked for.
    claimed        The adjoint that a wrong claim has, where it is another one: of an input, the claimed gradient; of another
                   node, the adjoint that the mistake makes, where one line of the program explains the whole claim.
    column         The column of the line where the operation begins, counted from 1; absent where it is not known.
    """

    id: int
    name: str
    operation: str
    inputs: tuple[str, ...]
    value: Values
    adjoint: Values
    partials: dict[str, Values | str]
    contributions: tuple[Contribution, ...]
    line: int | None
    text: str | Absent = ABSENT
    file: str | Absent = ABSENT
    proved: Proved | Absent = ABSENT
    claimed: Values | Absent = ABSENT
    column: int | Absent = ABSENT


@dataclass(frozen=True, slots=True, repr=False)
class TraceReport(Printed):
    """The recorded program at one point, every node with its forward value and its adjoint.

    target       What was recorded.
    at           The value of every input by name.
    drawn        The inputs whose values were drawn at random.
    seed         The seed of everything that was drawn.
    nodes        The nodes in the order in which they were computed.
    findings     What is worth knowing of the function and the point.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    exit_status  The exit status of this command.
    line         The line of standard input that asked for it, counted from 1.
    value        The value of f.
    result       The name of the node whose value this is; absent where f does not depend on the inputs.
    departs      The first node inside the computation, from the result backward, whose adjoint is not that of a wrong claim.
    mistake      The line of code with the mistake that makes the claim depart there, where it is known.
    engine       The class of one's own engine, whose gradients the claimed adjoints are.
    """

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    seed: int
    nodes: tuple[Node, ...]
    findings: tuple[Finding, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.trace/2"
    exit_status: Status = 0
    line: int | Absent = ABSENT
    value: Values | Absent = ABSENT
    result: str | Absent = ABSENT
    departs: str | Absent = ABSENT
    mistake: SourceLine | Absent = ABSENT
    engine: str | Absent = ABSENT
    source: tuple[SourceLine, ...] = field(default=(), metadata={TEXT_ONLY: True})  # the code around the nodes
    program: ScalarProgram | None = field(default=None, metadata={TEXT_ONLY: True})  # where all values are numbers
    # of claims that are expressions
    claims: dict[str, ScalarProgram] = field(default_factory=dict, metadata={TEXT_ONLY: True})
    blocks_of_code: tuple[CodeBlock, ...] = field(default=(), metadata={TEXT_ONLY: True})  # that the nodes may be in

    def blocks(self) -> tuple[Block, ...]:
        """Return the forward table, the backward table, and the graph; for a constant, that it is one."""
        constant = [Paragraph(self._value_in_words())] if isinstance(self.result, Absent) else []
        if not self.nodes:
            return (*constant, *seed_line(self.seed))
        blocks: list[Block] = [
            *constant,
            self._forward_table(),
            Paragraph((Piece(f"backward, last line first; L is {self.loss()}", "strong"),)),
            self._backward_table(),
        ]
        blocks += [Paragraph(self.departure())] if isinstance(self.engine, str) else []
        blocks += [Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))) for f in self.findings]
        return (*blocks, self.graph(), *seed_line(self.seed))

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the graph with its steps, and the findings."""
        found = [Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))) for f in self.findings]
        place = numbers.write_point(self.at, self.drawn)
        head = [Paragraph(self._value_in_words()), *([Paragraph(f"at {place}")] if place else [])]
        return (*head, *([Walk(self)] if self.nodes else []), *found, *seed_line(self.seed))

    def gist(self) -> str:
        """Return the target, the number of nodes, and the value."""
        return f"{shorten_text(self.target.text)}: {len(self.nodes):,} nodes, {self._value_in_words()}"

    def _value_in_words(self) -> str:
        """Return the value of f, by the name of its node."""
        if isinstance(self.result, Absent):
            return f"f = {numbers.write_value(self.value)}, which does not depend on the inputs"
        return f"{self.result} = {numbers.write_value(self.value)}"

    def loss(self) -> str:
        """Return what the adjoints are derivatives of, in words."""
        name = "f" if isinstance(self.result, Absent) else self.result
        return f"the sum of {name}" if not isinstance(self.value, Absent) and np.ndim(self.value) else name

    def _forward_table(self) -> Table:
        rows = []
        for k, node in enumerate((node for node in self.nodes if node.operation != "input"), 1):
            text = node.text if isinstance(node.text, str) else node.operation
            known = {name: p for name, p in node.partials.items() if not isinstance(p, str)}
            partials = "   ".join(f"d{node.name}/d{name} = {write_partial(p)}" for name, p in known.items())
            rows.append((str(k), f"{node.name} = {text}", numbers.write_value(node.value), partials))
        return Table(("", "forward", "value", "local partials"), rows, {0})

    def departure(self) -> str:
        """Return a sentence that says where a claim first goes wrong, from the result backward; empty if it does nowhere."""
        if not isinstance(self.departs, str):
            if not isinstance(self.engine, str):
                return ""
            wrong = [node.name for node in self.nodes if not isinstance(node.claimed, Absent)]
            at = f" inside is right; at {', '.join(wrong)} it is not" if wrong else " is right"
            return f"Every .grad of {self.engine}{at}."
        node = next(node for node in self.nodes if node.name == self.departs)
        if isinstance(self.engine, str):
            uses = [n for n in self.nodes if self.departs in n.inputs and isinstance(n.file, str) and n.line]
            at = ", ".join(dict.fromkeys(f"{n.file}:{n.line}" for n in uses))
            where = f"; what uses it, and passes its gradient back, is at {at}" if at else ""
            return f"Going back from the result, the .grad of {self.engine} first goes wrong at {self.departs}{where}."
        inferred = "" if isinstance(node.claimed, Absent) else "Assuming the likely mistake, and "
        return f"{inferred}{'going' if inferred else 'Going'} back from the result, the claim first goes wrong at {self.departs}."

    def _backward_table(self) -> Table:
        claims = any(not isinstance(node.claimed, Absent) for node in self.nodes)
        claimed = f"{self.engine}.grad" if isinstance(self.engine, str) else "claimed"
        rows = []
        for node in reversed(self.nodes):
            products = []
            for c in node.contributions:  # each a product of numbers, or of matrices where one of them is an array
                numbered = f"{write_partial(c.adjoint)}*{write_partial(c.partial)} ({c.from_})"
                products.append(numbered if c.of_numbers or isinstance(c.formula, Absent) else c.formula)
            how = " + ".join(products)
            if len(products) > 1:
                how += ": used twice, summed" if len(products) == 2 else f": used {len(products)} times, summed"
            other = "" if isinstance(node.claimed, Absent) else Piece(numbers.write_value(node.claimed), "bad")
            value = numbers.write_value(node.adjoint)
            rows.append((f"dL/d{node.name}", value, *(other,) * claims, f"= {how}" if how else ""))
        return Table(("adjoint", "value", *(claimed,) * claims, "from its uses"), rows)

    def graph(self) -> Graph:
        """Return the nodes with their values, and the edges with their local partials."""
        names = {node.name: str(node.id) for node in self.nodes}
        nodes, edges = [], []
        for node in self.nodes:
            value, adjoint = numbers.write_value(node.value), numbers.write_value(node.adjoint)
            nodes.append((str(node.id), f"{node.name}\n{node.operation}\n{value}\nadjoint {adjoint}"))
            known = ((names[name], partial) for name, partial in node.partials.items() if name in names)
            edges += [(operand, str(node.id), write_partial(partial)) for operand, partial in known]
        return Graph(tuple(nodes), tuple(edges))

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the nodes as rows."""
        return ("id", "name", "operation", "inputs", "value", "adjoint"), [
            (n.id, n.name, n.operation, " ".join(n.inputs), _value_for_record(n.value), _value_for_record(n.adjoint))
            for n in self.nodes
        ]


def _value_for_record(x: Values) -> object:
    """Return a scalar as a number, an array as a summary."""
    return float(x) if getattr(x, "ndim", 0) == 0 else numbers.write_value(x)


def write_partial(x: Values | str) -> str:
    """Return a partial: a number, an array by its shape, or the words for a linear operation."""
    return x if isinstance(x, str) else numbers.write_value(x) if getattr(x, "ndim", 0) else numbers.few_digits(x, 8)
