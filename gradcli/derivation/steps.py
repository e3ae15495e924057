"""The steps of a derivation: named parts, a differential or adjoint for each by its rule, the result, its simplification."""

import contextlib
import itertools
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.arithmetic.recorded_program import (
    RecordedProgram,
    describe_position,
    inner_lines_of_products,
    names_of_lines,
)
from gradcli.arithmetic.tape import CONSTANT, Line, Recorded, Tape
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation.axes import Value
from gradcli.derivation.convert import Reader
from gradcli.derivation.ending import (
    MIRRORED,
    Begun,
    NamedParts,
    coefficient_of_seed,
    jacobian_with_deltas,
    printed_size,
)
from gradcli.derivation.index import Index, Tensor, magnitude
from gradcli.derivation.mathematics import LineWriter
from gradcli.derivation.matrix_expression import (
    E,
    Op,
    Statements,
    add,
    call,
    complement_of_sigmoid,
    dot,
    expression_text,
    matmul,
    mul,
    name,
    neg,
)
from gradcli.derivation.matrix_printing import NAMES, Printer
from gradcli.derivation.simplify import SAYS, simplified
from gradcli.derivation.sized_problem import DerivationProblem, first_free_name
from gradcli.derivation.sized_recording import Sweep, is_shift, rule_of, sweep_back_by_names
from gradcli.errors import GradcliError, NotSupported
from gradcli.report.derive import ERROR_OF_LAYER, DerivedKind, Step
from gradcli.targets.expression import Expression
from gradcli.tracing.shapes import broadcast_like

# primitives that only move entries, and are never named
QUIET = {"reshape", "transpose", "broadcast_to", "getitem", "positive", "scatter", "real", "negative"}
_MOST = 60  # lines at most, to be shown one by one


@dataclass(frozen=True)
class Condition:
    """What a rule needs: a sentence with a place for each of the values that it is about, in every recording.

    `by_entry` is the sentence where the values are arrays, of which each entry has to meet it.
    """

    says: str
    values: tuple[list[Any], ...]
    by_entry: str = ""


@dataclass
class NamedLine:
    """A named line of the program: its definition, and its differential or adjoint, in every recording."""

    name: str
    rules: tuple[str, ...]
    conditions: tuple[Condition, ...]
    definition: list[Any]
    moved: list[Any]
    slot: int = 0
    plain: list[Any] = field(default_factory=list)  # the value in terms of the inputs alone
    whole: list[Any] = field(default_factory=list)  # the differential in terms of dx and values alone
    where: str | None = None
    forms: list[tuple[E, E | None]] = field(default_factory=list)  # how `plain` and its transpose are written


Moves = Sequence[tuple[str, Tensor]]  # that simplify a derivative: rules, each with what is found after it


@dataclass(frozen=True)
class PartNames:
    """The names of parts: those the user gave, letters of the steps, the steps' lines, and parts that are written turned."""

    known: dict[E, str]
    letters: dict[E, str]
    lines: Sequence[NamedLine]
    turned: dict[E, E]

    @property
    def called(self) -> dict[E, str]:
        """The names that parts have in the steps."""
        return self.letters | {form: line.name for line in self.lines for form, _ in line.forms}


@dataclass(frozen=True)
class Closed:
    """A closed form, not yet verified: its tensor as found, the simplifying moves, the simplified tensor, its program."""

    kind: DerivedKind
    sweeps: Sequence[Sweep]
    axes: tuple[Index | None, ...]
    tensor: Tensor
    moves: Moves
    small: Tensor
    printer: Printer
    e: E
    known: dict[E, str]
    named: NamedParts
    whole: NamedParts
    made: Statements
    names: PartNames

    @property
    def last(self) -> Tensor:
        """The simplest form."""
        return self.moves[-1][1] if self.moves else self.tensor


class Explained(Protocol):
    """What the steps need from a derivation."""

    problem: DerivationProblem
    sizes: dict[str, tuple[int, ...]]
    points: Sequence[Any]
    begun: Begun | None

    def reader(self) -> Reader: ...

    def in_order_of_f(self, x: Tensor, wrt: str) -> Tensor: ...


# The lines of a derivation, computed at a point: what is printed is shown only where it holds.

_CLOSE = 1e-6  # relative to the largest entry: a line that is wrong is further off


def lines_hold(steps: Sequence[Step], point: Mapping[str, Any], wrt: str, letter: str, layout: str = "mixed") -> bool:
    """Return whether lines of one name agree at a point, and the last differential is that of the derivative `letter`.

    Lines with indices are not computed. Where an input has the name of a differential or of the function, no line is clear.
    """
    moved = f"d{wrt}"
    if {moved, "f", "df", letter} & point.keys():
        return False
    direction = np.random.default_rng(5).uniform(0.5, 1.0, np.shape(point[wrt]))[()]
    known: dict[str, Any] = {**point, moved: direction}
    for step in steps:
        name, _, code = step.after.partition(" = ")
        if "[" in name:
            return True
        try:
            f = Expression(code, frozenset(known))
            with np.errstate(all="ignore"):
                value = np.asarray(f({n: known[n] for n in f.inputs}))
        except (GradcliError, KeyError, np.linalg.LinAlgError):
            return False
        if name in known and not _is_close(known[name], value):
            return False
        known[name] = value[()]
    if not {"df", letter} <= known.keys():
        return True
    found, outputs, inputs = known[letter], np.ndim(known["df"]), np.ndim(direction)
    if layout == "numerator" and not outputs:
        found = np.transpose(found)
    if layout == "denominator" and np.ndim(found) == outputs + inputs:
        found = np.moveaxis(found, range(inputs), range(-inputs, 0))
    if np.shape(found) != (*np.shape(known["df"]), *np.shape(direction)):
        return True  # without axes of length 1
    return _is_close(known["df"], np.tensordot(found, direction, axes=inputs))


def _is_close(x: Any, y: Any) -> bool:
    if np.shape(x) != np.shape(y):
        return False
    scale = float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
    return bool(np.allclose(x, y, rtol=_CLOSE, atol=_CLOSE * (1 + scale), equal_nan=True))


def steps_of(made: Explained, wrt: str, found: Closed) -> tuple[Step, ...]:
    """Return the steps from the function to the result; where the lines have no names, none are on the way to it."""
    problem, facts = made.problem, made.problem.facts
    lines = LineWriter(problem.dims, [n for n, words in facts.items() if words & MIRRORED], found.names.turned)
    # the first step of a second derivative is the gradient
    steps = [lines.program("gradient", problem.f.text, made.begun.made, problem.function)] if made.begun else []
    moving = {word for word in names_of_lines(found.sweeps[0].tape.lines) if word}
    constants = [lines.part("name", n, e, e) for e, n in found.known.items() if n not in moving and not made.begun]
    moved = list(_Ending(made, wrt, found, lines).steps())
    if problem.style == "differential" and not made.begun:
        at = {**made.points[0], **{n: np.float64(v[0]) for n, v in made.sizes.items()}}
        # else the result alone, which is verified
        if not lines_hold([*constants, *moved], at, wrt, problem.letter, problem.layout):
            moved = list(_Ending(made, wrt, found, LineWriter(problem.dims, lines.writing.symmetric)).result())
    steps += [step for step in moved if step.after not in {begun.after for begun in steps}]
    used = {word for step in steps for word in _WORD.findall(step.after)}
    for step in reversed(constants):
        if step.after.partition(" = ")[0] in used:
            used.update(_WORD.findall(step.after))
            steps.insert(0, step)
    return tuple(steps)


_WORD = re.compile(r"[^\W\d]\w*")


class _Ending:
    """Makes the steps; `own` are the axes of the derivative that belong to the input.

    A derivative that is a `row` is written as one.
    """

    def __init__(self, made: Explained, wrt: str, found: Closed, lines: LineWriter) -> None:
        self.made, self.wrt, self.found, self.lines = made, wrt, found, lines
        self.printer, self.axes, self.named, self.letter = found.printer, found.axes, found.named, made.problem.letter
        problem = made.problem
        self.rank = sum(d != "1" for d in problem.dims[wrt])
        self.every = tuple(i for i in found.axes if i is not None)
        self.own = self.every[-self.rank :] if self.rank else ()
        self.of_number = problem.order == 1 and len(self.own) == len(found.axes)
        if problem.layout == "numerator" and self.of_number:
            self.own = self.own[::-1]
        if problem.layout == "denominator" and problem.order == 1:
            self.own = self.every[: self.rank]
        self.indexed = problem.style == "index"
        self.row = is_row(problem, wrt, self.of_number)

    @property
    def pairing(self) -> str:
        """From what the derivative is read off."""
        problem, letter, moved = self.made.problem, self.letter, f"d{self.wrt}"
        if problem.style == "graph":
            return f"{self.wrt}_bar" if self.of_number else f"{self.wrt}_bar, which is linear in its seed"
        if problem.direction:
            return f"d{problem.function}, {moved} being {problem.direction}"
        if self.of_number and problem.layout == "numerator" and self.rank == 2:
            return f"df = tr({letter}@{moved})"
        if self.of_number and (problem.layout != "numerator" or self.rank != 1):
            return f"df = <{letter}, {moved}>"
        left = f"{letter}.T" if problem.layout == "denominator" and problem.order == 1 and self.rank else letter
        return f"d{problem.function} = {left}{'@' if problem.dims[self.wrt] else '*'}{moved}"

    def steps(self) -> Iterator[Step]:
        """Yield the steps from the lines of the function to the result."""
        if self.found.names.lines:
            # where a line has no form, the derivative is shown without the way to it
            with contextlib.suppress(NotSupported):
                shown, differential = self._line_steps()
                yield from shown
                if differential and len(self.own) == self.rank:
                    end = self._in_indices if self.indexed else self._from_differential
                    yield from self._state_assumptions(end(differential, shown))
                    return
        yield from self.result()

    def result(self) -> Iterator[Step]:
        """Yield the result alone."""
        yield from self._state_assumptions(self._read_off(self.found.tensor, self.found.moves, self.found.last))

    def _state_assumptions(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Yield steps, the first one with what is assumed of inputs: from it on, lines may rest on that."""
        assumed = "; ".join(f"{n}: {', '.join(sorted(words))}" for n, words in self.made.problem.facts.items())
        for k, step in enumerate(steps):
            conditions = filter(None, (assumed, step.condition))
            yield step if k or not assumed else replace(step, condition="; ".join(conditions))

    def _line_steps(self) -> tuple[list[Step], list[Any]]:
        """Return the named lines and their differentials or adjoints, and the last differential with all others substituted.

        The last is left out where the derivative is not read off it: among adjoints, and in a second derivative.
        """
        problem, lines, named = self.made.problem, self.lines, self.found.names.lines
        reader, backward = self.made.reader(), problem.style == "graph"
        how = "_bar" if backward else "d"
        lines.moved(self.wrt, how)

        def needed(line: NamedLine) -> str | None:
            said = []
            for condition in line.conditions:
                values = [reader.read(graphs) for graphs in condition.values]
                words = [lines.said(lines.in_names(self.printer.write(x.tensor, x.singles))) for x in values]
                says = condition.by_entry if condition.by_entry and values[0].axes else condition.says
                said.append(says.format(*words))
            return "; ".join(dict.fromkeys(said)) or None

        def shown(rule: str, before: str, name: str, graphs: list[Any], line: NamedLine, condition: str | None) -> Step:
            value = reader.read(graphs)
            if self.indexed:
                return lines.entry(rule, before, name, value, line.where, condition)
            e = lines.in_names(self.printer.write(value.tensor, value.singles))
            if rule == "name":
                forms = [write_with_transpose(self.printer, value), *line.forms]
                symmetric = None not in value.axes and len(value.axes) == 2 and forms[0] == forms[0][::-1]
                lines.define(name, [(e, None), *forms], symmetric=symmetric)
            return lines.step(rule, before, name, e, value, line.where, condition)

        steps = []
        for line in (line for line in named if line.definition):
            condition = needed(line) if backward else None
            steps.append(shown("name", "", line.name, line.definition, line, condition))
        defined = {step.after.partition(" = ")[0].partition("[")[0]: step.after for step in steps}
        for line in reversed(named) if backward else named:
            lines.moved(line.name, how)
            rule, mark = ("adjoint", f"{line.name}_bar") if backward else (", ".join(line.rules), f"d{line.name}")
            condition = None if backward else needed(line)
            steps.append(shown(rule, defined.get(line.name, line.name), mark, line.moved, line, condition))
        plain = not backward and problem.order == 1 and "tied" not in problem.facts.get(self.wrt, ())
        return steps, named[-1].whole if plain else []

    def _from_differential(self, graphs: Sequence[Any], before: Sequence[Step]) -> Iterator[Step]:
        """Yield the steps from the last differential, all others substituted, to the result.

        `before` are the steps so far. Raises NotSupported where the differential has no form.
        """
        outputs, whole, slope = self._read_differential(graphs)
        traced, chained = not outputs and len(self.own) == 2, len(before) > 2
        said = Value(outputs, whole)
        first = [("substitute", self.printer.write(whole, outputs))] if chained else []
        last = yield from self._differential_steps(first, before[-1], said)
        if not self.named.standardised:
            yield from self._part_steps()
        result = self.named.tensor or self.found.last
        lines: Iterable[tuple[str, E]] = ()
        if traced:
            lines = self._trace_forms(whole, slope, result)
        elif not outputs and len(self.own) == 1 and not chained:  # dx at its end, unless it was substituted before
            lines = [("transpose", dot(self.printer.write(slope, self.own), self._differential_of_input))]
        yield from self._differential_steps(lines, last, said)
        if traced:
            yield from self._read_off_trace(result)
            return
        if self.named.tensor is not None:
            slope = result
        yield from self._read_off(slope, self._moves_from(slope), result)

    def _in_indices(self, graphs: Sequence[Any], before: Sequence[Step]) -> Iterator[Step]:
        """Yield the steps from the last differential to the result as a book's first proof has them, with Kronecker deltas.

        Raises  NotSupported where the differential has no form.
        """
        outputs, whole, slope = self._read_differential(graphs)
        if len(before) > 2:
            yield self.lines.entry("substitute", before[-1].after, "df", Value(outputs, whole), None, None)
        moves = self._moves_from(slope)
        deltas = jacobian_with_deltas(whole, f"d{self.wrt}", self.own) if self.own else None
        yield from self._read_off(slope, moves, self.found.last, deltas)

    def _moves_from(self, slope: Tensor) -> Moves:
        """Return the moves that simplify the derivative as it is read off the differential."""
        moves: list[tuple[str, Tensor]] = []
        simplified(slope, lambda t: printed_size(self.printer, t, self.axes), moves)
        return moves

    def _read_differential(self, graphs: Sequence[Any]) -> tuple[tuple[Index, ...], Tensor, Tensor]:
        """Return the axes of f, its differential, and the derivative that is read off it."""
        value = self.made.reader().read(graphs)
        outputs = tuple(i for i in self.every if i not in self.own)
        names = dict(zip((i for i in value.singles if i is not None), outputs, strict=True))
        whole = Tensor(outputs, value.tensor.renamed(names).terms)
        slope = coefficient_of_seed(whole, f"d{self.wrt}", self.own)
        return outputs, whole, Tensor(self.every, slope.terms)

    def _differential_steps(
        self, lines: Iterable[tuple[str, E]], last: Step, value: Value
    ) -> Generator[Step, None, Step]:
        """Yield the last differential in several forms, none that is printed as the one before; return the last step."""
        for rule, e in lines:
            step = self.lines.step(rule, last.after, "df", self.lines.in_names(e), value)
            if step.unicode != last.unicode:
                yield step
                last = step
        return last

    def _trace_forms(self, whole: Tensor, slope: Tensor, result: Tensor) -> Iterator[tuple[str, E]]:
        """Yield the last differential in terms of dX, as traces, with dX at the end of each, and as one: tr(G.T dX)."""
        first = self.printer.write(whole, ())
        if (traced := _write_traces(first, self._differential_of_input)) != first:
            yield "scalar = trace", traced
        if self.named.tensor is not None:
            slope = result
        if len(slope.terms) > 1:
            signed = [(t.coef < 0, Tensor(slope.free, (replace(t, coef=magnitude(t.coef)),))) for t in slope.terms]
            traces = [(minus, self._trace_expression(x)) for minus, x in signed]
            yield "cyclic rule", add([neg(e) if minus else e for minus, e in traces])
        yield "cyclic rule" if len(slope.terms) == 1 else "collect", self._trace_expression(result)

    @property
    def _differential_of_input(self) -> E:
        return name(f"d{self.wrt}", axes=len(self.own))

    def _trace_expression(self, slope: Tensor) -> E:
        """Return tr(G.T dX), with the sign and the number before the trace."""
        e = self.printer.write(slope, self.own[::-1])
        minus, e = e.op == Op.NEG, e.args[0] if e.op == Op.NEG else e
        numbers = [a for a in e.args if a.op == "number"] if e.op == Op.MUL else []
        left = mul([a for a in e.args if a not in numbers]) if numbers else e
        traced = mul([*numbers, call("trace", matmul(left, self._differential_of_input))])
        return neg(traced) if minus else traced

    def _read_off_trace(self, result: Tensor) -> Iterator[Step]:
        """Yield what stands beside dX under the trace, which is the transpose of the derivative, and the derivative."""
        if self.axes != self.own or self.indexed or self.named.standardised:  # or numerator layout
            yield from self._read_off(result, (), result)
            return
        turned = self.printer.write(result, self.own[::-1])
        straight = self.printer.write(result, self.own)
        rule = "symmetry" if turned == straight else "transpose"
        left, value = f"{self.letter}.T", Value(self.own[::-1], result)
        off = self.lines.step("read off", self.pairing, left, self.lines.in_names(turned), value)
        yield off
        e = self.lines.in_names(straight)
        mirrored = [f"{n} symmetric" for n, words in self.made.problem.facts.items() if words & MIRRORED]
        condition = "; ".join(mirrored) if rule == "symmetry" and mirrored else None
        yield self.lines.step(rule, off.after, self.letter, e, Value(self.axes, result), condition=condition)

    def _read_off(self, found: Tensor, moves: Moves, result: Tensor, deltas: Tensor | None = None) -> Iterator[Step]:
        """Yield the derivative as it is read off, each kind of move that simplifies it, and the result in another form.

        With `deltas`, the derivative with an identity for each index of the input, it is read off as that.
        """
        before: E | None = None
        first = "read off"
        if deltas is not None:
            yield self.lines.entry(first, self.pairing, self.letter, Value(self.axes, deltas), None, None)
            first = "Kronecker delta"
        merged = () if self.named.standardised else _merge_collecting_moves([*moves, ("simplify", result)])
        for rule, x in [(first, found), *merged]:
            after = self.made.in_order_of_f(x, self.wrt)
            try:
                shown = self.lines.in_names(self.printer.write(after, self.axes))
            except NotSupported:
                continue
            if shown != before:
                complemented = before is None or any(complement_of_sigmoid(a) is not None for a in before.walk())
                rule = rule if rule != SAYS or complemented else "collect"
                said = self.pairing if before is None else expression_text(before)
                value, before = Value(self.axes, after), shown
                if self.indexed:
                    yield self.lines.entry(rule, said, self.letter, value, None, None)
                else:
                    yield self.lines.step(rule, said, self.letter, shown, value, row=self.row)
        apart = self.named.standardised or self.named.tensor not in (None, result)
        if before is not None and apart and not self.indexed:
            yield from self._part_steps()
            rule, e = "collect" if self.named.standardised else "substitute", self.lines.in_names(self.named.e)
            value = Value(self.axes, self.named.tensor or result)
            yield self.lines.step(rule, expression_text(before), self.letter, e, value, row=self.row)

    def _part_steps(self) -> Iterator[Step]:
        """Yield the parts that a textbook names, by which later lines call them."""
        rule = "name" if self.named.tensor is None else ERROR_OF_LAYER
        for word, e in self.named.parts:
            yield self.lines.part(rule, word, e, self.named.written_out(e))


def is_row(problem: DerivationProblem, wrt: str, of_number: bool) -> bool:
    """Whether a derivative of f, which may be a number, is a row: the gradient by a vector in numerator layout."""
    vector = sum(d != "1" for d in problem.dims[wrt]) == 1
    return problem.layout == "numerator" and problem.order == 1 and of_number and vector


def write_with_transpose(printer: Printer, x: Value) -> tuple[E, E | None]:
    """Return how a value is written, and for a matrix also how its transpose is."""
    turned = printer.write(x.tensor, x.singles[::-1]) if len(x.axes) == 2 else None
    return printer.write(x.tensor, x.singles), turned


_COLLECTING = frozenset(
    {"collect like terms", "take out a common factor", "distribute", "distribute and collect", "simplify"}
)


def _merge_collecting_moves(moves: Sequence[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield moves, those one after another that only collect terms as one."""
    for collects, several in itertools.groupby(moves, key=lambda move: move[0] in _COLLECTING):
        own = list(several)
        yield from [("collect", own[-1][1])] if collects else own


def _write_traces(e: E, moved: E) -> E:
    """Return a sum with its products of a row and a column that hold dX as traces: u.T v is tr(v u.T)."""
    if e.op in (Op.ADD, Op.NEG, Op.MUL, Op.DIV):
        return replace(e, args=tuple(_write_traces(a, moved) for a in e.args))
    if e.op != Op.DOT or moved not in e.walk():
        return e
    first, last = e.args if moved in e.args[1].walk() else e.args[::-1]
    return call("trace", call("outer", last, first))


# Which lines of a program a derivation names, and by which rules each is differentiated.
#
# A name is for what is used again: a value that a differential has as a factor, that several lines use, or that the user has
# named. All else is written where it is used. What is computed twice is one line.

_LINEAR = {  # in all operands together
    "add": "sum rule", "subtract": "sum rule", "sum": "linearity", "negative": "linearity", "cumsum": "linearity",
    "concatenate": "linearity", "trace": "linearity", "diag": "linearity", "mean": "linearity",
    "where": "linearity",
}  # fmt: skip
# functions whose differential is in terms of their value
_OF_ITSELF = {"exp", "sqrt", "tanh", "expit", "cholesky", "reciprocal", "inv"}
_CHAINED = {"matmul", "einsum", "dot"}  # products that read as one where they are nested
_LETTERS = {"softmax": "p", "expit": "s", "inv": "P", "tanh": "h", "cholesky": "L"}
_PRODUCTS = {"multiply", "matmul", "einsum", "dot", "outer"}  # linear in each operand
_RULES = {
    "multiply": "product rule", "divide": "quotient rule", "matmul": "product rule", "einsum": "product rule", "inv": "inverse",
    "det": "determinant", "logdet": "determinant", "solve": "solve", "square": "power rule", "integer_power": "power rule",
    "power": "power rule", "sqrt": "power rule", "reciprocal": "power rule", "norm": "norm", "prod": "product rule",
    "power of both": "logarithmic differentiation", "exp": "exponential", "log": "logarithm",
    "dot": "product rule", "outer": "product rule",
}  # fmt: skip
_SIGNS = {"ndtr": "Φ"}
_INVERTIBLE, _NOT_ZERO = ("{} invertible", "", (0,)), ("{} not 0", "no entry of {} is 0", (0,))
_APART = ("{} and {} not equal", "{} and {} equal in no entry", (0, 1))
_CONDITIONS: dict[str, tuple[str, str, tuple[int, ...]]] = {  # of a number, of each entry of an array, the operands
    "inv": _INVERTIBLE, "solve": _INVERTIBLE, "det": _INVERTIBLE, "logdet": _INVERTIBLE, "log det": _INVERTIBLE,
    "log": ("{} positive", "", (0,)), "sqrt": ("{} positive", "", (0,)), "power": ("base {} positive", "", (0,)),
    "divide": ("{} not 0", "no entry of {} is 0", (1,)), "reciprocal": _NOT_ZERO, "absolute": _NOT_ZERO, "sign": _NOT_ZERO,
    "relu": _NOT_ZERO, "norm": ("{} not 0", "", (0,)), "prod": _NOT_ZERO, "maximum": _APART, "minimum": _APART,
    "max": ("no ties in {}", "", (0,)),
}  # fmt: skip
_SHIFT = "shift"  # of the conditions, the one of a largest entry that cancels
_POSITIVE = {"exp", "expit", "softplus"}  # functions whose values are positive, of which this is not said
_ZERO = {"log", "sqrt", "power", "divide", "reciprocal", "absolute", "sign", "prod"}  # what positive operands suit


@dataclass(frozen=True)
class FunctionGroup:
    """Lines that are one function together, such as a softmax: the rule that has its name, and the lines inside."""

    rule: str
    inside: frozenset[int]


class StepPlan:
    """The plan of a program's lines up to its result; `merged` says whether equal lines are one."""

    def __init__(self, tape: Tape, result: int, *, merged: bool) -> None:
        self.tape, self.result = tape, result
        self.given = names_of_lines(tape.lines)
        self.within = inner_lines_of_products(tape.lines)  # lines of one product, which is named as a whole
        self.first = self._first_equal_lines() if merged else list(range(result + 1))

    def _first_equal_lines(self) -> list[int]:
        """Return, for each line, the first line that computes the same."""
        found: list[int] = []
        seen: dict[Any, int] = {}
        for k, (primitive, slots, xs, y, params, _) in enumerate(self.tape.lines[: self.result + 1]):
            key: Any = k
            if primitive is not None:
                own: list[Any] = [s if s == CONSTANT else self._line_behind_broadcast(found[s], found) for s in slots]
                own += [_key_of_constant(x) for s, x in zip(slots, xs, strict=True) if s == CONSTANT]
                key = primitive.name, tuple(own), repr(params), _shape_of_value(y)
            found.append(seen.setdefault(key, k) if k != self.result else k)
        return found

    def _line_behind_broadcast(self, k: int, found: Sequence[int]) -> int:
        """Return what a reshape that puts axes of length 1 before the others reshapes, which broadcasts alike; else the line."""
        primitive, slots, xs, y, _, _ = self.tape.lines[k]
        if primitive is None or primitive.name != "reshape" or slots[0] == CONSTANT:
            return k
        before, after = map(_shape_of_value, (xs[0], y))
        return found[slots[0]] if after[len(after) - len(before) :] == before else k

    @cached_property
    def groups(self) -> dict[int, FunctionGroup]:
        """The lines that end a group, with it; no line inside is used elsewhere, and the user has named none."""
        found = {k: group for k, j in enumerate(self.first) if j == k and (group := self._find_group(k)) is not None}
        unnamed = {k: g for k, g in found.items() if not any(self.given[s] for s in g.inside)}
        return {k: g for k, g in unnamed.items() if self._is_closed_group(k, g.inside)}

    def _find_group(self, k: int) -> FunctionGroup | None:
        moving = [self._skip_reshapes(s) for s in self._moving_operands(k)]
        inner = moving[0] if moving else CONSTANT
        names = [self._name_of_primitive(s) for s in (k, *moving)]
        _, _, _, _, params, _ = self.tape.lines[k]
        if names == ["integer_power", "norm"] and (params or {}).get("n") == 2:
            names = ["square", "norm"]
        if names in (["log", "det"], ["square", "norm"]):
            return FunctionGroup("log det" if names[0] == "log" else "squared norm", frozenset({inner}))
        if names == ["log", "sum"]:
            e = self._skip_reshapes(self._moving_operands(inner)[0])
            return FunctionGroup("logsumexp", frozenset({inner, e})) if self._name_of_primitive(e) == "exp" else None
        if names == ["divide", "exp", "sum"]:
            whole = self._skip_reshapes(self._moving_operands(moving[1])[0])
            return FunctionGroup("softmax", frozenset({inner, moving[1]})) if whole == inner else None
        return None

    def _name_of_primitive(self, k: int) -> str:
        primitive = self.tape.primitive(k) if k != CONSTANT else None
        return "" if primitive is None else primitive.name

    def _skip_reshapes(self, k: int) -> int:
        """Return the line that a reshape reshapes."""
        while self._name_of_primitive(k) == "reshape" and self._moving_operands(k):
            k = self._moving_operands(k)[0]
        return k

    def _is_closed_group(self, end: int, inside: frozenset[int]) -> bool:
        """Whether lines inside a group are used in it alone."""
        others = (k for k, j in enumerate(self.first) if j == k and k != end and k not in inside)
        users = [k for k in others if self._name_of_primitive(k) not in ("", "reshape")]
        return not any(self._skip_reshapes(s) in inside for k in users for s in self._moving_operands(k))

    def _is_quiet(self, k: int) -> bool:
        primitive, slots, xs, _, _, _ = self.tape.lines[k]
        if primitive is None:
            return False
        # adding zero is idle, too, as with a shift that would keep an exponential from overflowing
        added = primitive.name in ("add", "subtract") and slots[-1] == CONSTANT and not isinstance(xs[-1], GraphNode)
        return primitive.name in QUIET or k in self.within or (added and not np.any(xs[-1]))

    def _moving_operands(self, k: int) -> list[int]:
        """Return the lines that a line uses and that depend on the input."""
        return [self.first[s] for s in self.tape.operands(k) if s != CONSTANT]

    def _is_linear(self, k: int) -> bool:
        """Whether the differential of a line has no operand as a factor that depends on the input."""
        primitive, slots = self.tape.primitive(k), self.tape.operands(k)
        if primitive is None or self._is_quiet(k) or primitive.name in _LINEAR:
            return True
        if primitive.name == "divide":
            return slots[1] == CONSTANT
        return primitive.name in _PRODUCTS and len(self._moving_operands(k)) == 1

    def _is_softmax(self, k: int) -> bool:
        return k in self.groups and self.groups[k].rule == "softmax"

    def _factors_of_differential(self, k: int) -> list[int]:
        """Return the lines that are factors of the differential of a line: its operands, or its own value, as that of exp is."""
        product = k - 1 in self.within  # written as the exponential of a sum
        own = (self._name_of_primitive(k) in _OF_ITSELF and not product) or self._is_softmax(k)
        return [k] if own and k != self.result else self._moving_operands(k)

    @cached_property
    def named(self) -> frozenset[int]:
        """The lines that get a name."""
        reached, pending = set(), [self.result]
        while pending:
            k = pending.pop()
            if k != CONSTANT and k not in reached:
                reached.add(k)
                pending += self._moving_operands(k)
        kept = sorted(k for k in reached if self.tape.primitive(k) is not None)
        factors = {s for k in kept if not self._is_linear(k) for s in self._factors_of_differential(k)}
        uses = [s for k in kept for s in dict.fromkeys(self._moving_operands(k))]
        wanted = factors | {s for s in uses if uses.count(s) > 1} | {k for k in kept if self.given[k]}
        for k in reversed(kept):  # a name for what only moves entries is a name for what it moves
            if k in wanted and self._is_quiet(k):
                wanted |= set(self._moving_operands(k))
        multiples = (k for k in wanted if self._name_of_primitive(k) in ("multiply", "divide") and self._is_linear(k))
        wanted -= {k for k in multiples if not self.given[k] and self._is_multiple_of_named(k, wanted)}
        inside = {s for group in self.groups.values() for s in group.inside}
        wanted -= inside | self._chained_products(kept)
        return frozenset(k for k in wanted if k in kept and not self._is_quiet(k))

    def _is_multiple_of_named(self, k: int, wanted: Collection[int]) -> bool:
        """Whether a line is a constant multiple of an input, or of a line that has a name, whatever its sign."""
        moving, passed = self._moving_operands(k), ("negative", "reshape")
        while len(moving) == 1 and moving[0] not in wanted and self._name_of_primitive(moving[0]) in passed:
            moving = self._moving_operands(moving[0])
        return len(moving) == 1 and (moving[0] in wanted or self.tape.primitive(moving[0]) is None)

    def _chained_products(self, kept: Sequence[int]) -> set[int]:
        """Return the matrix products that are factors of one other product alone, as x @ A is in x @ A @ x."""
        users: dict[int, list[int]] = {}
        for k in kept:
            for s in {self._skip_reshapes(s) for s in self._moving_operands(k)} - {k}:
                if self._name_of_primitive(k) != "reshape":
                    users.setdefault(s, []).append(k)
        chained = {s: own for s, own in users.items() if self._name_of_primitive(s) in _CHAINED and not self.given[s]}
        return {s for s, own in chained.items() if len(own) == 1 and self._name_of_primitive(own[0]) in _CHAINED}

    def letter(self, k: int) -> str:
        """Return the letter for the value of a line; t where it has none of its own."""
        group = self.groups.get(k)
        letter = _LETTERS.get(self._name_of_primitive(k) if group is None else group.rule, "t")
        return letter.upper() if letter == "p" and len(_shape_of_value(self.tape.value(k))) == 2 else letter

    def rules(self, k: int) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        """Return the rules by which a named line is differentiated, the innermost first, and what they need.

        What a rule needs is a key of the conditions and the line that the condition is about.
        """
        pairs = list(self._rules_within(k))
        rules = dict.fromkeys(rule for rule, _ in pairs if rule is not None)
        return tuple(rules) or (self._linear_rule(k),), tuple(
            dict.fromkeys(need for _, need in pairs if need is not None)
        )

    def _rules_within(self, k: int) -> Iterator[tuple[str | None, tuple[str, int] | None]]:
        """Yield the rules of a line and of all without names that it is made of, each with what it needs."""
        primitive = self.tape.primitive(k)
        if primitive is None:
            return
        group = self.groups.get(k)
        pending = list(self._moving_operands(k))
        while pending:
            s = pending.pop(0)
            if group is not None and self._skip_reshapes(s) in group.inside:
                pending += self._moving_operands(self._skip_reshapes(s))
            elif s not in self.named:
                yield from self._rules_within(s)
        if group is not None:
            yield group.rule, ("log det", next(iter(group.inside))) if group.rule == "log det" else None
        elif is_shift(primitive):
            yield None, (_SHIFT, k)
        elif not self._is_quiet(k) and not self._is_linear(k):
            name = "prod" if k - 1 in self.within else primitive.name
            if name == "power" and self.tape.operands(k)[1] != CONSTANT:
                name = "exp" if self.tape.operands(k)[0] == CONSTANT else "power of both"
            rule = _RULES.get(name, f"chain rule: {_SIGNS.get(name) or NAMES.get(name, name)}")
            yield rule, (name, k - 2 if name == "prod" else k) if name in _CONDITIONS else None

    def is_positive(self, k: int) -> bool:
        """Whether all entries of a line are positive by what it is."""
        k = self._skip_reshapes(k)
        return k != CONSTANT and (self._name_of_primitive(k) in _POSITIVE or self._is_softmax(k))

    def _linear_rule(self, k: int) -> str:
        """Return the rule of a line that is linear: its own or, where that only moves entries, that of what it moves."""
        primitive = self.tape.primitive(k)
        moving = self._moving_operands(k)
        if primitive is not None and not self._is_quiet(k):
            return _LINEAR.get(primitive.name, "constant multiple")
        return self._linear_rule(moving[0]) if primitive is not None and moving else "linearity"


def _shape_of_value(x: Any) -> tuple[int, ...]:
    return np.shape(getattr(x, "value", x))


def _key_of_constant(x: Any) -> Any:
    """Return what tells constant operands apart."""
    if isinstance(x, GraphNode):
        return id(x)
    return "constant", np.shape(x), np.asarray(x).tobytes() if np.asarray(x).dtype != object else id(x)


def choose_letters(program: RecordedProgram, taken: Collection[str]) -> dict[int, str]:
    """Return the lines of a program that have a name with a letter of its own, as `s` of a sigmoid; none has a `taken` name."""
    if not program.moves or len(program.lines) > _MOST:
        return {}
    plan = StepPlan(program.tape, program.y.slot, merged=True)
    used, found = set(taken), {}
    for k in sorted(plan.named):
        if plan.given[k] is None and (letter := plan.letter(k)) != "t":
            found[k] = first_free_name([letter], letter, used)
            used.add(found[k])
    return found


def lines_to_show(
    made: Explained, wrt: str, sweeps: Sequence[Sweep], printer: Printer, letters: Mapping[E, str]
) -> list[NamedLine]:
    """Return the lines that the steps show; none where there are too many, or names would be taken for differentials.

    A line whose value has one of the `letters` is called by it.
    """
    clear = f"d{wrt}" not in made.problem.dims and not any(n.endswith("_bar") for n in made.problem.dims)
    if not clear or len(sweeps[0].tape.lines) > _MOST:
        return []
    reader = made.reader()
    try:
        named = _record_named_lines(made, wrt, sweeps, reader, printer, letters)
    except NotSupported:
        return []
    for line in named:
        try:
            values = [reader.read(line.plain)] if line.plain else []
        except NotSupported:
            continue
        line.forms = [write_with_transpose(printer, value) for value in values]
    return named


def _record_named_lines(
    made: Explained, wrt: str, sweeps: Sequence[Sweep], reader: Reader, printer: Printer, letters: Mapping[E, str]
) -> list[NamedLine]:
    """Return the named lines of the program, each in terms of those before it; the others are written where they are used.

    A line also has its differential or, among adjoints, its adjoint in terms of the lines after it.
    """

    def written(graphs: Sequence[Any]) -> E:
        value = reader.read(graphs)
        return printer.write(value.tensor, value.singles)

    def is_clear_without_name(graphs: Sequence[Any]) -> bool:
        """Whether a value is a name already, or as simple as 1 - x, or cannot be written by itself."""
        try:
            e = written(graphs)
        except NotSupported:
            return True
        return e.op == "name" or (e.op == Op.ADD and e.size == 1 and any(a.op == "number" for a in e.walk()))

    backward = made.problem.style == "graph"
    named: list[NamedLine] = []
    function, letter = made.problem.function, made.problem.letter
    taken = {*made.problem.dims, *made.sizes, function, letter, f"d{function}", f"d{wrt}", f"{wrt}_bar"}
    # of each line, in every recording: the value and the differential in terms of named lines, and of the inputs alone
    values: dict[int, list[Any]] = {}
    dots: dict[int, list[Any]] = {}
    own = {k: [sweep.tape.value(k) for sweep in sweeps] for k in range(len(sweeps[0].tape.lines))}
    whole: dict[int, list[Any]] = {}
    result = _line_of_result(sweeps[0])
    plan = StepPlan(sweeps[0].tape, result, merged=not backward)
    for k in range(result + 1):
        primitive, position = sweeps[0].tape.primitive(k), sweeps[0].tape.position(k)
        if primitive is None:
            values[k] = own[k]
            dots[k] = whole[k] = [GraphNode.variable(f"d{wrt}", np.asarray(x.value) * 0 + 0.7) for x in own[k]]
            continue
        if plan.first[k] != k:
            values[k], dots[k], whole[k] = (known[plan.first[k]] for known in (values, dots, whole))
            continue
        lines = [sweep.tape.lines[k] for sweep in sweeps]
        pairs = [_value_and_differential(line, values, dots, r) for r, line in enumerate(lines)]
        whole[k] = [_value_and_differential(line, own, whole, r)[1] for r, line in enumerate(lines)]
        values[k], dots[k] = ([pair[n] for pair in pairs] for n in (0, 1))
        if k != result and (k not in plan.named or is_clear_without_name(values[k])):
            continue
        stem = plan.given[k] or plan.letter(k)
        usual = letters.get(written(own[k])) if plan.given[k] is None and stem != "t" and k != result else None
        stems = [word for word in (usual, stem) if word and word != "t"]  # t has a number always
        name = function if k == result else first_free_name(stems, stem, taken)
        taken.add(name)
        here = None if made.begun else describe_position(position)  # these lines are not the user's, but the gradient's
        rules, needs = plan.rules(k)
        conditions = tuple(c for need in needs if (c := _condition_of_rule(*need, plan, sweeps, values)) is not None)
        named.append(NamedLine(name, rules, conditions, values[k], dots[k], k, own[k], whole[k], here))
        values[k] = [GraphNode.variable(name, y.value) for y in values[k]]
        dots[k] = [GraphNode.variable(f"d{name}", np.asarray(getattr(ydot, "value", ydot))) for ydot in dots[k]]
    seed = made.problem.direction or first_free_name(["v"], "v", taken)
    return _add_adjoints(wrt, sweeps, named, values, result, seed) if backward and named else named


def _condition_of_rule(
    key: str, k: int, plan: StepPlan, sweeps: Sequence[Sweep], values: Mapping[int, list[Any]]
) -> Condition | None:
    """Return what the rule of a line needs of its operands; None for what every value of an operand meets."""
    if key == _SHIFT:
        return Condition("the shift {} does not change f", (values[k],))
    says, by_entry, places = _CONDITIONS[key]
    slots = sweeps[0].tape.operands(k)
    if key in _ZERO and plan.is_positive(slots[places[0]]):
        return None
    plain = [xs for _, _, xs, *_ in (sweep.tape.lines[k] for sweep in sweeps)]
    operands = [values[slots[i]] if slots[i] != CONSTANT else [GraphNode.lift(xs[i]) for xs in plain] for i in places]
    if _is_in_a_case(sweeps[0].tape.lines, k):
        says, by_entry = (f"{words} in the case that has it" if words else words for words in (says, by_entry))
    return Condition(says, tuple(operands), by_entry)


def _is_in_a_case(lines: Sequence[Line], k: int) -> bool:
    """Whether a line, and each line like it, is in a branch of a choice alone, so that it needs no value in other branches."""
    own, operands, _, y, *_ = lines[k]
    made: set[int] = set()
    for s, (primitive, slots, _, z, *_) in enumerate(lines):
        alike = primitive is own and slots == operands and np.array_equal(z.value, y.value, equal_nan=True)
        chosen = primitive is not None and primitive.name == "where" and slots[0] not in made
        if alike or (made.intersection(slots) and not chosen):
            made.add(s)
    return len(lines) - 1 not in made


def _line_of_result(sweep: Sweep) -> int:
    """Return the line that makes the result, before any final reshapes; CONSTANT if there is none."""
    k = sweep.y.slot if isinstance(sweep.y, Recorded) else CONSTANT
    while k != CONSTANT:
        primitive, slots, *_ = sweep.tape.lines[k]
        if primitive is None or primitive.name != "reshape" or sweep.tape.primitive(slots[0]) is None:
            break
        k = slots[0]
    return k


def _add_adjoints(
    wrt: str, sweeps: Sequence[Sweep], named: list[NamedLine], values: Mapping[int, list[Any]], result: int, seed: str
) -> list[NamedLine]:
    """Return the lines with their adjoints: each is the sum of what the lines that use it contribute."""
    by_slot = {line.slot: line for line in named}
    bar_of = {k: (f"{line.name}_bar", line.moved) for k, line in by_slot.items()}
    for r, sweep in enumerate(sweeps):
        ones = np.ones(np.shape(values[result][r].value))
        lines = []
        for k, (primitive, slots, xs, y, params, position) in enumerate(sweep.tape.lines[: result + 1]):
            if primitive is not None:
                xs = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
                y = values[k][r]
            lines.append((primitive, slots, xs, y, params, position))
        one = GraphNode.lift(ones) if np.shape(sweep.y.primal) == () else GraphNode.variable(seed, ones)
        bars = sweep_back_by_names(lines, one, bar_of, r)
        for k, (primitive, *_) in enumerate(lines):
            if primitive is None and bars[k] is not None:
                by_slot.setdefault(k, NamedLine(wrt, ("adjoint",), (), [], [], k)).moved.append(bars[k])
    return [by_slot[k] for k in sorted(by_slot)]


def assigned_names(lines: Sequence[Line]) -> dict[int, str]:
    """Return the lines that assign to the user's variables, with their names; names assigned twice are left out."""
    found = {k: word for k, word in enumerate(names_of_lines(lines)) if word}
    words = list(found.values())
    return {k: word for k, word in found.items() if words.count(word) == 1}


def _value_and_differential(
    line: Any, values: Mapping[int, list[Any]], dots: Mapping[int, list[Any]], r: int
) -> tuple[Any, Any]:
    """Return one line's value and its differential, in terms of its operands and their differentials."""
    primitive, slots, xs, _, params, _ = line
    operands = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
    y = primitive(*operands, **(params or {}))
    ydot: Any = None
    for i, slot in enumerate(slots):
        if slot != CONSTANT:
            part = rule_of(primitive, i).push(primitive, i, y, operands, dots[slot][r], params or {})
            ydot = part if ydot is None else ydot + part
    return y, broadcast_like(ydot, y)
