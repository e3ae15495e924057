"""The steps of a derivation: named parts, a differential or adjoint for each by its rule, the result, its simplification."""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from gradcli.arithmetic.recorded_program import (
    RecordedProgram,
    describe_position,
    inner_lines_of_products,
    names_of_lines,
)
from gradcli.arithmetic.tape import CONSTANT, Line, Recorded, Tape, sweep_back
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation.axes import Value
from gradcli.derivation.convert import Reader
from gradcli.derivation.ending import MIRRORED, Begun, Ending, NamedParts, Simplification
from gradcli.derivation.index import Index, Tensor
from gradcli.derivation.mathematics import LineWriter
from gradcli.derivation.matrix_expression import E, Op
from gradcli.derivation.matrix_printing import NAMES, Printer
from gradcli.derivation.sized_problem import DerivationProblem
from gradcli.derivation.sized_recording import Sweep, is_shift, rule_of
from gradcli.errors import GradcliError, NotSupported
from gradcli.report.derive import Step
from gradcli.targets.expression import Expression
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer
from gradcli.tracing.shapes import broadcast_like

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


class Explained(Protocol):
    """What the steps need from a derivation."""

    begun: Begun | None

    @property
    def problem(self) -> DerivationProblem: ...

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]: ...

    @property
    def points(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def function(self) -> str: ...

    @property
    def letter(self) -> str: ...

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


def steps_of(
    made: Explained,
    wrt: str,
    sweeps: Sequence[Sweep],
    found: Simplification,
    printer: Printer,
    axes: tuple[Index | None, ...],
    named: NamedParts,
    statements: Mapping[E, str],
    turned: Mapping[E, E],
    shown: Sequence[NamedLine],
) -> tuple[Step, ...]:
    """Return the steps from the function to the result; `shown` are the lines that have names, none for no way to it.

    `turned` has the forms of transposes of what has a name, each with what it is the transpose of.
    """
    facts = made.problem.facts
    lines = LineWriter(made.problem.dims, [n for n, words in facts.items() if words & MIRRORED], turned)
    steps = [_gradient_step(made, made.begun, lines)] if made.begun else []
    moving = {word for word in names_of_lines(sweeps[0].tape.lines) if word}
    constants = [lines.part("name", n, e, e) for e, n in statements.items() if n not in moving and not made.begun]
    ending = _make_ending(made, wrt, printer, axes, named, lines)
    moved = list(_steps_from_function(made, wrt, shown, found, printer, ending))
    if made.problem.style == "differential" and not made.begun:
        at = {**made.points[0], **{n: np.float64(v[0]) for n, v in made.sizes.items()}}
        if not lines_hold(
            [*constants, *moved], at, wrt, made.letter, made.problem.layout
        ):  # the result alone, which is verified
            plain = LineWriter(made.problem.dims, lines.writing.symmetric)
            moved = list(_state_assumptions(facts, replace(ending, lines=plain).read_off(found, found.last)))
    steps += [step for step in moved if step.after not in {begun.after for begun in steps}]
    used = {word for step in steps for word in _WORD.findall(step.after)}
    for step in reversed(constants):
        if step.after.partition(" = ")[0] in used:
            used.update(_WORD.findall(step.after))
            steps.insert(0, step)
    return tuple(steps)


_WORD = re.compile(r"[^\W\d]\w*")


def _steps_from_function(
    made: Explained, wrt: str, named: Sequence[NamedLine], found: Simplification, printer: Printer, ending: Ending
) -> Iterator[Step]:
    """Yield the steps from the lines of the function to the result."""
    if named:
        with contextlib.suppress(
            NotSupported
        ):  # where a line has no form, the derivative is shown without the way to it
            shown, differential = _differential_steps(made, wrt, named, printer, ending.lines)
            yield from shown
            if differential and len(ending.own) == sum(d != "1" for d in made.problem.dims[wrt]):
                end = ending.in_indices if ending.indexed else ending.from_differential
                way = end(differential, made.reader(), shown, found.last)
                yield from _state_assumptions(made.problem.facts, way)
                return
    yield from _state_assumptions(made.problem.facts, ending.read_off(found, found.last))


def _state_assumptions(facts: Mapping[str, frozenset[str]], steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps, the first one with what is assumed of inputs: from it on, lines may rest on that."""
    assumed = "; ".join(f"{n}: {', '.join(sorted(words))}" for n, words in facts.items())
    for k, step in enumerate(steps):
        yield step if k or not assumed else replace(step, condition="; ".join(filter(None, (assumed, step.condition))))


def _make_ending(
    made: Explained, wrt: str, printer: Printer, axes: tuple[Index | None, ...], named: NamedParts, lines: LineWriter
) -> Ending:
    rank = sum(d != "1" for d in made.problem.dims[wrt])
    every = tuple(i for i in axes if i is not None)
    own = every[-rank:] if rank else ()
    of_number = made.problem.order == 1 and len(own) == len(axes)
    if made.problem.layout == "numerator" and of_number:
        own = own[::-1]
    if made.problem.layout == "denominator" and made.problem.order == 1:
        own = every[:rank]
    return Ending(
        wrt,
        made.letter,
        _describe_pairing(made, wrt, of_number),
        made.problem.facts,
        printer,
        axes,
        own,
        lines,
        named,
        partial(made.in_order_of_f, wrt=wrt),
        made.problem.style == "index",
        is_row(made.problem, wrt, of_number),
    )


def is_row(problem: DerivationProblem, wrt: str, of_number: bool) -> bool:
    """Whether a derivative of f, which may be a number, is a row: the gradient by a vector in numerator layout."""
    vector = sum(d != "1" for d in problem.dims[wrt]) == 1
    return problem.layout == "numerator" and problem.order == 1 and of_number and vector


def letter_for(taken: Iterable[str], order: int = 1) -> str:
    """Return the letter of the derivative: G, or the first letter after it that no input has; for order two, the next one."""
    used = set(taken)
    return [letter for letter in ("G", "H", "J", "D", "grad", "hess") if letter not in used][order - 1]


def _describe_pairing(made: Explained, wrt: str, of_number: bool) -> str:
    """Return from what the derivative of f, which may be a number, is read off."""
    letter, layout, rank = made.letter, made.problem.layout, sum(d != "1" for d in made.problem.dims[wrt])
    if made.problem.style == "graph":
        return f"{wrt}_bar" if of_number else f"{wrt}_bar, which is linear in its seed"
    if made.problem.direction:
        return f"d{made.function}, d{wrt} being {made.problem.direction}"
    if of_number and layout == "numerator" and rank == 2:
        return f"df = tr({letter}@d{wrt})"
    if of_number and (layout != "numerator" or rank != 1):
        return f"df = <{letter}, d{wrt}>"
    left = f"{letter}.T" if layout == "denominator" and made.problem.order == 1 and rank else letter
    return f"d{made.function} = {left}{'@' if made.problem.dims[wrt] else '*'}d{wrt}"


def _gradient_step(made: Explained, begun: Begun, lines: LineWriter) -> Step:
    """Return the first step of a second derivative: the gradient."""
    return lines.program("gradient", made.problem.f.text, made.function, begun.made)


def _differential_steps(
    made: Explained, wrt: str, named: Sequence[NamedLine], printer: Printer, lines: LineWriter
) -> tuple[list[Step], list[Any]]:
    """Return the named lines and their differentials or adjoints, and the last differential with all others substituted.

    The last is left out where the derivative is not read off it: among adjoints, and in a second derivative.
    """
    style = made.problem.style
    reader = made.reader()
    lines.moved(wrt, "_bar" if style == "graph" else "d")

    def shown(
        rule: str,
        before: str,
        graphs: list[Any],
        name: str,
        where: str | None,
        condition: str | None = None,
        forms: Sequence[tuple[E, E | None]] = (),
    ) -> Step:
        value = reader.read(graphs)
        if style == "index":
            return lines.entry(rule, before, name, value, where, condition)
        e = lines.in_names(printer.write(value.tensor, value.singles))
        if rule == "name":
            again = [write_with_transpose(printer, value), *forms]
            lines.define(
                name,
                [(e, None), *again],
                symmetric=None not in value.axes and len(value.axes) == 2 and again[0] == again[0][::-1],
            )
        return lines.step(rule, before, name, e, value, where, condition)

    def needed(line: NamedLine) -> str | None:
        said = []
        for condition in line.conditions:
            values = [reader.read(graphs) for graphs in condition.values]
            words = [lines.said(lines.in_names(printer.write(x.tensor, x.singles))) for x in values]
            says = condition.by_entry if condition.by_entry and values[0].axes else condition.says
            said.append(says.format(*words))
        return "; ".join(dict.fromkeys(said)) or None

    backward = style == "graph"
    steps = [
        shown("name", "", line.definition, line.name, line.where, needed(line) if backward else None, line.forms)
        for line in named
        if line.definition
    ]
    defined = {step.after.partition(" = ")[0].partition("[")[0]: step.after for step in steps}
    for line in reversed(named) if style == "graph" else named:
        mark = f"{line.name}_bar" if style == "graph" else f"d{line.name}"
        rule = "adjoint" if style == "graph" else ", ".join(line.rules)
        lines.moved(line.name, "_bar" if style == "graph" else "d")
        before = defined.get(line.name, line.name)
        steps.append(shown(rule, before, line.moved, mark, line.where, None if backward else needed(line)))
    plain = style != "graph" and made.problem.order == 1 and "tied" not in made.problem.facts.get(wrt, ())
    return steps, named[-1].whole if plain and named else []


def write_with_transpose(printer: Printer, x: Value) -> tuple[E, E | None]:
    """Return how a value is written, and for a matrix also how its transpose is."""
    turned = printer.write(x.tensor, x.singles[::-1]) if len(x.axes) == 2 else None
    return printer.write(x.tensor, x.singles), turned


def _read_if_possible(reader: Reader, graphs: Sequence[Any]) -> list[Value]:
    try:
        return [reader.read(graphs)] if graphs else []
    except NotSupported:
        return []


def _is_clear_without_name(graphs: Sequence[Any], reader: Reader, printer: Printer) -> bool:
    """Whether a value is a name already, or as simple as 1 - x, or cannot be written by itself."""
    try:
        value = reader.read(graphs)
        e = printer.write(value.tensor, value.singles)
    except NotSupported:
        return True
    simple = e.op == Op.ADD and e.size == 1 and any(a.op == "number" for a in e.walk())
    return e.op == "name" or simple


# Which lines of a program a derivation names, and by which rules each is differentiated.
#
# A name is for what is used again: a value that a differential has as a factor, that several lines use, or that the user has
# named. All else is written where it is used. What is computed twice is one line.

_LINEAR = {  # in all operands together
    "add": "sum rule", "subtract": "sum rule", "sum": "linearity", "negative": "linearity", "cumsum": "linearity",
    "concatenate": "linearity", "trace": "linearity", "diag": "linearity", "mean": "linearity",
    "where": "linearity",
}  # fmt: skip
_OF_ITSELF = {
    "exp",
    "sqrt",
    "tanh",
    "expit",
    "cholesky",
    "reciprocal",
    "inv",
}  # functions whose differential is in terms of their value
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
    """The plan of a program's lines up to its result; `quiet` primitives only move entries, and are never named.

    `merged` says whether equal lines are one.
    """

    def __init__(self, tape: Tape, result: int, quiet: Collection[str], *, merged: bool) -> None:
        self.tape, self.result, self.quiet = tape, result, quiet
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
                own = [
                    self._line_behind_broadcast(found[s], found) if s != CONSTANT else _key_of_constant(x)
                    for s, x in zip(slots, xs, strict=True)
                ]
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
        return {
            k: g
            for k, g in found.items()
            if not any(self.given[s] for s in g.inside) and self._is_closed_group(k, g.inside)
        }

    def _find_group(self, k: int) -> FunctionGroup | None:
        name, moving = self._name_of_primitive(k), [self._skip_reshapes(s) for s in self._moving_operands(k)]
        inner = moving[0] if moving else CONSTANT
        if name == "log" and self._name_of_primitive(inner) == "det":
            return FunctionGroup("log det", frozenset({inner}))
        if (
            name == "log"
            and self._name_of_primitive(inner) == "sum"
            and self._name_of_primitive(e := self._skip_reshapes(self._moving_operands(inner)[0])) == "exp"
        ):
            return FunctionGroup("logsumexp", frozenset({inner, e}))
        _, _, _, _, params, _ = self.tape.lines[k]
        if name == "square" or (name == "integer_power" and (params or {}).get("n") == 2):
            return (
                FunctionGroup("squared norm", frozenset({inner})) if self._name_of_primitive(inner) == "norm" else None
            )
        if (
            name == "divide"
            and len(moving) == 2
            and self._name_of_primitive(inner) == "exp"
            and self._name_of_primitive(moving[1]) == "sum"
        ):
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
        primitive = self.tape.primitive(k)
        idle = primitive is not None and (primitive.name in self.quiet or k in self.within)
        return idle or _is_zero_addition(self.tape.lines[k])

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

    def _used_lines(self) -> list[int]:
        """Return the lines that the result uses, in order; equal ones are one."""
        kept, pending = set(), [self.result]
        while pending:
            k = pending.pop()
            if k != CONSTANT and k not in kept:
                kept.add(k)
                pending += self._moving_operands(k)
        return sorted(k for k in kept if self.tape.primitive(k) is not None)

    def _factors_of_differential(self, k: int) -> list[int]:
        """Return the lines that are factors of the differential of a line: its operands, or its own value, as that of exp is."""
        product = k - 1 in self.within  # written as the exponential of a sum
        own = (self._name_of_primitive(k) in _OF_ITSELF and not product) or (
            k in self.groups and self.groups[k].rule == "softmax"
        )
        return [k] if own and k != self.result else self._moving_operands(k)

    @cached_property
    def named(self) -> frozenset[int]:
        """The lines that get a name."""
        kept = self._used_lines()
        factors = {s for k in kept if not self._is_linear(k) for s in self._factors_of_differential(k)}
        uses = [s for k in kept for s in dict.fromkeys(self._moving_operands(k))]
        wanted = factors | {s for s in uses if uses.count(s) > 1} | {k for k in kept if self.given[k]}
        for k in reversed(kept):  # a name for what only moves entries is a name for what it moves
            if k in wanted and self._is_quiet(k):
                wanted |= set(self._moving_operands(k))
        multiples = (k for k in wanted if self._name_of_primitive(k) in ("multiply", "divide") and self._is_linear(k))
        wanted -= {k for k in multiples if not self.given[k] and self._is_multiple_of_named(k, wanted)}
        inside = {s for group in self.groups.values() for s in group.inside}
        return frozenset(
            k for k in wanted - inside - self._chained_products(kept) if k in kept and not self._is_quiet(k)
        )

    def _is_multiple_of_named(self, k: int, wanted: Collection[int]) -> bool:
        """Whether a line is a constant multiple of an input, or of a line that has a name, whatever its sign."""
        moving = self._moving_operands(k)
        while (
            len(moving) == 1
            and moving[0] not in wanted
            and self._name_of_primitive(moving[0]) in ("negative", "reshape")
        ):
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
        found: dict[str, None] = {}
        conditions: dict[tuple[str, int], None] = {}
        self._collect_rules(k, found, conditions)
        return tuple(found) or (self._linear_rule(k),), tuple(conditions)

    def _collect_rules(self, k: int, found: dict[str, None], conditions: dict[tuple[str, int], None]) -> None:
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
                self._collect_rules(s, found, conditions)
        if group is not None:
            found.setdefault(group.rule)
            if group.rule == "log det":
                conditions.setdefault(("log det", next(iter(group.inside))))
            return
        if is_shift(primitive):
            conditions.setdefault((_SHIFT, k))
            return
        if self._is_quiet(k) or self._is_linear(k):
            return
        name = "prod" if k - 1 in self.within else primitive.name
        if name == "power" and self.tape.operands(k)[1] != CONSTANT:
            name = "exp" if self.tape.operands(k)[0] == CONSTANT else "power of both"
        found.setdefault(_RULES.get(name, f"chain rule: {_SIGNS.get(name) or NAMES.get(name, name)}"))
        if name in _CONDITIONS:
            conditions.setdefault((name, k - 2 if name == "prod" else k))

    def is_positive(self, k: int) -> bool:
        """Whether all entries of a line are positive by what it is."""
        k = self._skip_reshapes(k)
        return k != CONSTANT and (
            self._name_of_primitive(k) in _POSITIVE or (k in self.groups and self.groups[k].rule == "softmax")
        )

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


def _is_zero_addition(line: Line) -> bool:
    """Whether a line adds zero, such as a shift that would keep an exponential from overflowing."""
    primitive, slots, xs, _, _, _ = line
    if primitive is None or primitive.name not in ("add", "subtract"):
        return False
    return slots[-1] == CONSTANT and not isinstance(xs[-1], GraphNode) and not np.any(xs[-1])


def choose_letters(program: RecordedProgram, taken: Collection[str]) -> dict[int, str]:
    """Return the lines of a program that have a name with a letter of its own, as `s` of a sigmoid; none has a `taken` name."""
    if not program.moves or len(program.lines) > _MOST:
        return {}
    plan = StepPlan(program.tape, program.y.slot, QUIET, merged=True)
    used, found = set(taken), {}
    for k in sorted(plan.named):
        if plan.given[k] is None and (letter := plan.letter(k)) != "t":
            found[k] = _free_name(letter, used)
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
    reader, backward = made.reader(), made.problem.style == "graph"

    def lettered(graphs: Sequence[Any]) -> str | None:
        value = reader.read(graphs)
        return letters.get(printer.write(value.tensor, value.singles))

    try:
        named = _record_named_lines(
            made, wrt, sweeps, lambda graphs: _is_clear_without_name(graphs, reader, printer), lettered, backward
        )
    except NotSupported:
        return []
    return [
        replace(line, forms=[write_with_transpose(printer, v) for v in _read_if_possible(reader, line.plain)])
        for line in named
    ]


def _record_named_lines(
    made: Explained,
    wrt: str,
    sweeps: Sequence[Sweep],
    is_named: Callable[[Sequence[Any]], bool],
    lettered: Callable[[Sequence[Any]], str | None],
    backward: bool,
) -> list[NamedLine]:
    """Return the named lines of the program, each in terms of those before it; the others are written where they are used.

    A line also has its differential or, if `backward`, its adjoint in terms of the lines after it.
    """
    named: list[NamedLine] = []
    taken = {*made.problem.dims, *made.sizes, made.function, made.letter, f"d{made.function}", f"d{wrt}", f"{wrt}_bar"}
    count = len(sweeps[0].tape.lines)
    values: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    dots: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    whole: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    own = [[sweep.tape.value(k) for sweep in sweeps] for k in range(count)]  # the values without names
    result = _line_of_result(sweeps[0])
    plan = StepPlan(sweeps[0].tape, result, QUIET, merged=not backward)
    for k in range(result + 1):
        primitive, position = sweeps[0].tape.primitive(k), sweeps[0].tape.position(k)
        if primitive is None:
            for r, sweep in enumerate(sweeps):
                x = sweep.tape.value(k)
                values[k][r], dots[k][r] = x, GraphNode.variable(f"d{wrt}", np.asarray(x.value) * 0 + 0.7)
                whole[k][r] = dots[k][r]
            continue
        if plan.first[k] != k:
            values[k], dots[k], whole[k] = (own[plan.first[k]] for own in (values, dots, whole))
            continue
        pairs = [_value_and_differential(sweep.tape.lines[k], values, dots, r) for r, sweep in enumerate(sweeps)]
        whole[k] = [_value_and_differential(sweep.tape.lines[k], own, whole, r)[1] for r, sweep in enumerate(sweeps)]
        if k != result and (k not in plan.named or is_named([y for y, _ in pairs])):
            for r, (y, ydot) in enumerate(pairs):
                values[k][r], dots[k][r] = y, ydot
            continue
        stem = plan.given[k] or plan.letter(k)
        usual = lettered(own[k]) if plan.given[k] is None and stem != "t" and k != result else None
        name = made.function if k == result else usual if usual and usual not in taken else _free_name(stem, taken)
        taken.add(name)
        here = None if made.begun else describe_position(position)  # these lines are not the user's, but the gradient's
        rules, needs = plan.rules(k)
        conditions = tuple(c for need in needs if (c := _condition_of_rule(*need, plan, sweeps, values)) is not None)
        named.append(
            NamedLine(name, rules, conditions, [y for y, _ in pairs], [d for _, d in pairs], k, own[k], whole[k], here)
        )
        for r, (y, ydot) in enumerate(pairs):
            values[k][r] = GraphNode.variable(name, y.value)
            dots[k][r] = GraphNode.variable(f"d{name}", np.asarray(getattr(ydot, "value", ydot)))
    seed = made.problem.direction or _free_name("v", taken)
    return _add_adjoints(wrt, sweeps, named, values, result, seed) if backward and named else named


def _condition_of_rule(
    key: str, k: int, plan: StepPlan, sweeps: Sequence[Sweep], values: Sequence[list[Any]]
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
    wrt: str, sweeps: Sequence[Sweep], named: list[NamedLine], values: list[list[Any]], result: int, seed: str
) -> list[NamedLine]:
    """Return the lines with their adjoints: each is the sum of what the lines that use it contribute."""
    by_slot = {line.slot: line for line in named}
    for r, sweep in enumerate(sweeps):
        ones = np.ones(np.shape(values[result][r].value))
        one = GraphNode.lift(ones) if np.shape(sweep.y.primal) == () else GraphNode.variable(seed, ones)
        lines = [
            _line_storing_adjoint(line, k, r, values, by_slot.get(k))
            for k, line in enumerate(sweep.tape.lines[: result + 1])
        ]
        bars: list[Any] = [None] * len(lines)
        bars[result] = one
        sweep_back(lines, bars, result)
        for k, (primitive, *_) in enumerate(lines):
            if primitive is None and bars[k] is not None:
                by_slot.setdefault(k, NamedLine(wrt, ("adjoint",), (), [], [], k)).moved.append(bars[k])
    return [by_slot[k] for k in sorted(by_slot)]


def _line_storing_adjoint(line: Line, k: int, r: int, values: list[list[Any]], named: NamedLine | None) -> Line:
    """Return a line of recording `r` with named operands; its rules store the adjoint if the line has a name."""
    primitive, slots, xs, _, params, position = line
    if primitive is None:
        return line
    operands = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
    rules = tuple(_Noting(rule_of(primitive, i), named, r) for i in range(len(slots)))
    return replace(primitive, rules=rules), slots, operands, values[k][r], params, position


@dataclass(frozen=True, slots=True)
class _Noting:
    """A rule that stores the adjoint of its line, and continues with a variable named after the line."""

    rule: Rule
    line: NamedLine | None
    r: int

    def pull(self, ybar: Any, i: int, y: Any, xs: Sequence[Any], params: Params, transpose: Transposer) -> Any:
        if self.line is not None:
            self.line.moved[self.r] = ybar
            ybar = GraphNode.variable(f"{self.line.name}_bar", np.asarray(getattr(ybar, "value", ybar)) + 0 * y.value)
        return self.rule.pull(ybar, i, y, xs, params, transpose)

    def push(self, primitive: Primitive, i: int, y: Any, xs: Sequence[Any], xdot: Any, params: Params) -> Any:
        return self.rule.push(primitive, i, y, xs, xdot, params)


def assigned_names(lines: Sequence[Line]) -> dict[int, str]:
    """Return the lines that assign to the user's variables, with their names; names assigned twice are left out."""
    found = {k: word for k, word in enumerate(names_of_lines(lines)) if word}
    words = list(found.values())
    return {k: word for k, word in found.items() if words.count(word) == 1}


def _free_name(stem: str, taken: set[str]) -> str:
    """Return a name that is not taken; t has a number always."""
    names = [stem] if stem != "t" else []
    return next(n for n in (*names, *(f"{stem}{k}" for k in range(1, 10_000))) if n not in taken)


def _value_and_differential(line: Any, values: list[list[Any]], dots: list[list[Any]], r: int) -> tuple[Any, Any]:
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
