"""The steps of a derivation: named parts, a differential or adjoint for each by its rule, the result, its simplification."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from gradcli.core.primitive import Params, Primitive, Rule, Transposer
from gradcli.core.shapes import spread_like
from gradcli.derivation.adjoints import RULES
from gradcli.derivation.convert import Reader
from gradcli.derivation.ending import Ending, Found
from gradcli.derivation.expression import E, Op
from gradcli.derivation.index import Index
from gradcli.derivation.jacobians import Begun
from gradcli.derivation.matrices import Printer
from gradcli.derivation.narration import Lines
from gradcli.derivation.plan import Plan
from gradcli.derivation.problem import Problem
from gradcli.derivation.record import Sweep
from gradcli.derivation.replayed import lines_hold
from gradcli.derivation.structure import Value
from gradcli.derivation.textbook import Named
from gradcli.errors import NotSupported
from gradcli.interpreters.graph import Graph
from gradcli.interpreters.lines import names, where
from gradcli.interpreters.tape import CONSTANT, Line, Recorded, sweep_back
from gradcli.reports.derive import Step

QUIET = {"reshape", "transpose", "broadcast_to", "getitem", "positive", "scatter", "real", "negative"}
_MOST = 60  # lines at most, to be shown one by one


@dataclass
class _Named:
    """A named line of the program: its definition, and its differential or adjoint, in every recording."""

    name: str
    rules: tuple[str, ...]
    conditions: tuple[str, ...]
    definition: list[Any]
    moved: list[Any]
    slot: int = 0
    plain: list[Any] = field(default_factory=list)  # the value in terms of the inputs alone
    whole: list[Any] = field(default_factory=list)  # the differential in terms of dx and values alone
    where: str | None = None

    @property
    def condition(self) -> str | None:
        """What the rules need, as one text."""
        return "; ".join(self.conditions) or None


class Explained(Protocol):
    """What the steps need from a derivation."""

    begun: Begun | None

    @property
    def problem(self) -> Problem: ...

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]: ...

    @property
    def points(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def function(self) -> str: ...

    @property
    def letter(self) -> str: ...

    def reader(self) -> Reader: ...


def steps_of(
    made: Explained,
    wrt: str,
    sweeps: Sequence[Sweep],
    found: Found,
    printer: Printer,
    axes: tuple[Index | None, ...],
    named: Named,
    statements: Mapping[E, str],
) -> tuple[Step, ...]:
    """Return the steps from the function to the result."""
    facts = made.problem.facts
    lines = Lines(
        made.problem.dims, [n for n, words in facts.items() if words & {"symmetric", "spd", "tied", "diagonal"}]
    )
    steps = [_begun(made, made.begun, lines)] if made.begun else []
    moving = {word for word in names(sweeps[0].tape.lines) if word}
    constants = [lines.part(n, e, e) for e, n in statements.items() if n not in moving and not made.begun]
    ending = _ending(made, wrt, printer, axes, named, lines)
    moved = list(_from_f(made, wrt, sweeps, found, printer, ending))
    if made.problem.style == "differential" and not made.begun:
        at = {**made.points[0], **{n: np.float64(v[0]) for n, v in made.sizes.items()}}
        if not lines_hold([*constants, *moved], at, wrt, made.letter):  # the result alone, which is verified
            plain = Lines(made.problem.dims, lines.writing.symmetric)
            moved = list(replace(ending, lines=plain).read_off(found, found.last))
    steps += moved
    used = {word for step in steps for word in _WORD.findall(step.after)}
    for step in reversed(constants):
        if step.after.partition(" = ")[0] in used:
            used.update(_WORD.findall(step.after))
            steps.insert(0, step)
    return tuple(steps)


_WORD = re.compile(r"[^\W\d]\w*")


def _from_f(
    made: Explained, wrt: str, sweeps: Sequence[Sweep], found: Found, printer: Printer, ending: Ending
) -> Iterator[Step]:
    """Yield the steps from the lines of the function to the result."""
    clear = f"d{wrt}" not in made.problem.dims and not any(n.endswith("_bar") for n in made.problem.dims)
    if clear and len(sweeps[0].tape.lines) <= _MOST:
        with contextlib.suppress(
            NotSupported
        ):  # where a line has no form, the derivative is shown without the way to it
            shown, differential = _differentials(made, wrt, sweeps, printer, ending.lines)
            yield from shown
            if differential and len(ending.own) == sum(d != "1" for d in made.problem.dims[wrt]):
                yield from ending.from_differential(differential, made.reader(), shown, found.last)
                return
    yield from ending.read_off(found, found.last)


def _ending(
    made: Explained, wrt: str, printer: Printer, axes: tuple[Index | None, ...], named: Named, lines: Lines
) -> Ending:
    rank = sum(d != "1" for d in made.problem.dims[wrt])
    own = tuple(i for i in axes if i is not None)[-rank:] if rank else ()
    if made.problem.layout == "numerator" and made.problem.order == 1 and len(own) == len(axes):
        own = own[::-1]
    return Ending(
        wrt,
        made.letter,
        _pairing(made, wrt),
        made.problem.facts,
        printer,
        axes,
        own,
        lines,
        named,
        made.problem.style == "index",
    )


def letter_for(taken: Iterable[str], order: int = 1) -> str:
    """Return the letter of the derivative: G, or the first letter after it that no input has; for order two, the next one."""
    used = set(taken)
    return [letter for letter in ("G", "H", "J", "D", "grad", "hess") if letter not in used][order - 1]


def _pairing(made: Explained, wrt: str) -> str:
    """Return the equation from which the derivative is read off."""
    if made.problem.order == 1:
        return f"df = <{made.letter}, d{wrt}>"
    if made.problem.style == "graph":
        return f"{wrt}_bar"
    if made.problem.direction:
        return f"d{made.function}, d{wrt} being {made.problem.direction}"
    return f"d{made.function} = {made.letter}{'@' if made.problem.dims[wrt] else '*'}d{wrt}"


def _begun(made: Explained, begun: Begun, lines: Lines) -> Step:
    """Return the first step of a second derivative: the gradient."""
    return lines.program("gradient", made.problem.f.text, made.function, begun.made)


def _differentials(
    made: Explained, wrt: str, sweeps: Sequence[Sweep], printer: Printer, lines: Lines
) -> tuple[list[Step], list[Any]]:
    """Return the named lines and their differentials or adjoints, and the last differential with all others substituted.

    The last is left out where the derivative is not read off it: among adjoints, and in a second derivative.
    """
    style = made.problem.style
    reader = made.reader()
    named = _lines(made, wrt, sweeps, lambda graphs: _is_named(graphs, reader, printer), backward=style == "graph")
    lines.moved(wrt, "_bar" if style == "graph" else "d")

    def shown(
        rule: str,
        before: str,
        graphs: list[Any],
        name: str,
        where: str | None,
        condition: str | None = None,
        plain: Sequence[Any] = (),
    ) -> Step:
        value = reader.read(graphs)
        if style == "index":
            return lines.entry(rule, before, name, value, where, condition)
        e = lines.in_names(printer.write(value.tensor, value.singles))
        if rule == "name":
            again = [_both(printer, v) for v in (value, *_read(reader, plain))]
            lines.define(
                name,
                [(e, None), *again],
                symmetric=None not in value.axes and len(value.axes) == 2 and again[0] == again[0][::-1],
            )
        return lines.step(rule, before, name, e, value, where, condition)

    backward = style == "graph"
    steps = [
        shown("name", "", line.definition, line.name, line.where, line.condition if backward else None, line.plain)
        for line in named
        if line.definition
    ]
    defined = {step.after.partition(" = ")[0].partition("[")[0]: step.after for step in steps}
    for line in reversed(named) if style == "graph" else named:
        mark = f"{line.name}_bar" if style == "graph" else f"d{line.name}"
        rule = "adjoint" if style == "graph" else ", ".join(line.rules)
        lines.moved(line.name, "_bar" if style == "graph" else "d")
        before = defined.get(line.name, line.name)
        steps.append(shown(rule, before, line.moved, mark, line.where, None if backward else line.condition))
    plain = style == "differential" and made.problem.order == 1 and "tied" not in made.problem.facts.get(wrt, ())
    return steps, named[-1].whole if plain and named else []


def _both(printer: Printer, x: Value) -> tuple[E, E | None]:
    """Return how a value is written, and for a matrix also how its transpose is."""
    turned = printer.write(x.tensor, x.singles[::-1]) if len(x.axes) == 2 else None
    return printer.write(x.tensor, x.singles), turned


def _read(reader: Reader, graphs: Sequence[Any]) -> list[Value]:
    try:
        return [reader.read(graphs)] if graphs else []
    except NotSupported:
        return []


def _is_named(graphs: Sequence[Any], reader: Reader, printer: Printer) -> bool:
    """Whether a value is a name already, or as simple as 1 - x, or cannot be written by itself."""
    try:
        value = reader.read(graphs)
        e = printer.write(value.tensor, value.singles)
    except NotSupported:
        return True
    simple = e.op == Op.ADD and e.size == 1 and any(a.op == "number" for a in e.walk())
    return e.op == "name" or simple


def _lines(
    made: Explained, wrt: str, sweeps: Sequence[Sweep], is_named: Callable[[Sequence[Any]], bool], backward: bool
) -> list[_Named]:
    """Return the named lines of the program, each in terms of those before it; the others are written where they are used.

    A line also has its differential or, if `backward`, its adjoint in terms of the lines after it.
    """
    named: list[_Named] = []
    taken = {*made.problem.dims, *made.sizes, made.function, made.letter, f"d{made.function}", f"d{wrt}", f"{wrt}_bar"}
    count = len(sweeps[0].tape.lines)
    values: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    dots: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    whole: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    own = [[sweep.tape.value(k) for sweep in sweeps] for k in range(count)]  # the values without names
    result = _last(sweeps[0])
    plan = Plan(sweeps[0].tape, result, QUIET, merged=not backward)
    for k in range(result + 1):
        primitive, position = sweeps[0].tape.primitive(k), sweeps[0].tape.position(k)
        if primitive is None:
            for r, sweep in enumerate(sweeps):
                x = sweep.tape.value(k)
                values[k][r], dots[k][r] = x, Graph.variable(f"d{wrt}", np.asarray(x.value) * 0 + 0.7)
                whole[k][r] = dots[k][r]
            continue
        if plan.first[k] != k:
            values[k], dots[k], whole[k] = (own[plan.first[k]] for own in (values, dots, whole))
            continue
        pairs = [_moved(sweep.tape.lines[k], values, dots, r) for r, sweep in enumerate(sweeps)]
        whole[k] = [_moved(sweep.tape.lines[k], own, whole, r)[1] for r, sweep in enumerate(sweeps)]
        if k != result and (k not in plan.named or is_named([y for y, _ in pairs])):
            for r, (y, ydot) in enumerate(pairs):
                values[k][r], dots[k][r] = y, ydot
            continue
        name = made.function if k == result else _free(plan.given[k] or plan.letter(k), taken)
        taken.add(name)
        here = None if made.begun else where(position)  # these lines are not the user's, but the gradient's
        rules, conditions = plan.rules(k)
        named.append(
            _Named(name, rules, conditions, [y for y, _ in pairs], [d for _, d in pairs], k, own[k], whole[k], here)
        )
        for r, (y, ydot) in enumerate(pairs):
            values[k][r] = Graph.variable(name, y.value)
            dots[k][r] = Graph.variable(f"d{name}", np.asarray(getattr(ydot, "value", ydot)))
    seed = made.problem.direction or _free("v", taken)
    return _adjoints(wrt, sweeps, named, values, result, seed) if backward and named else named


def _last(sweep: Sweep) -> int:
    """Return the line that makes the result, before any final reshapes; CONSTANT if there is none."""
    k = sweep.y.slot if isinstance(sweep.y, Recorded) else CONSTANT
    while k != CONSTANT:
        primitive, slots, *_ = sweep.tape.lines[k]
        if primitive is None or primitive.name != "reshape" or sweep.tape.primitive(slots[0]) is None:
            break
        k = slots[0]
    return k


def _adjoints(
    wrt: str, sweeps: Sequence[Sweep], named: list[_Named], values: list[list[Any]], result: int, seed: str
) -> list[_Named]:
    """Return the lines with their adjoints: each is the sum of what the lines that use it contribute."""
    by_slot = {line.slot: line for line in named}
    for r, sweep in enumerate(sweeps):
        ones = np.ones(np.shape(values[result][r].value))
        one = Graph.lift(ones) if np.shape(sweep.y.primal) == () else Graph.variable(seed, ones)
        lines = [
            _named_line(line, k, r, values, by_slot.get(k)) for k, line in enumerate(sweep.tape.lines[: result + 1])
        ]
        bars: list[Any] = [None] * len(lines)
        bars[result] = one
        sweep_back(lines, bars, result)
        for k, (primitive, *_) in enumerate(lines):
            if primitive is None and bars[k] is not None:
                by_slot.setdefault(k, _Named(wrt, ("adjoint",), (), [], [], k)).moved.append(bars[k])
    return [by_slot[k] for k in sorted(by_slot)]


def _named_line(line: Line, k: int, r: int, values: list[list[Any]], named: _Named | None) -> Line:
    """Return a line of recording `r` with named operands; its rules store the adjoint if the line has a name."""
    primitive, slots, xs, _, params, position = line
    if primitive is None:
        return line
    operands = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
    rules = tuple(_Noting(_rule(primitive, i), named, r) for i in range(len(slots)))
    return replace(primitive, rules=rules), slots, operands, values[k][r], params, position


@dataclass(frozen=True, slots=True)
class _Noting:
    """A rule that stores the adjoint of its line, and continues with a variable named after the line."""

    rule: Rule
    line: _Named | None
    r: int

    def pull(self, ybar: Any, i: int, y: Any, xs: Sequence[Any], params: Params, transpose: Transposer) -> Any:
        if self.line is not None:
            self.line.moved[self.r] = ybar
            ybar = Graph.variable(f"{self.line.name}_bar", np.asarray(getattr(ybar, "value", ybar)) + 0 * y.value)
        return self.rule.pull(ybar, i, y, xs, params, transpose)

    def push(self, primitive: Primitive, i: int, y: Any, xs: Sequence[Any], xdot: Any, params: Params) -> Any:
        return self.rule.push(primitive, i, y, xs, xdot, params)


def assigned(lines: Sequence[Line]) -> dict[int, str]:
    """Return the lines that assign to the user's variables, with their names; names assigned twice are left out."""
    found = {k: word for k, word in enumerate(names(lines)) if word}
    words = list(found.values())
    return {k: word for k, word in found.items() if words.count(word) == 1}


def _free(stem: str, taken: set[str]) -> str:
    """Return a name that is not taken; t has a number always."""
    names = [stem] if stem != "t" else []
    return next(n for n in (*names, *(f"{stem}{k}" for k in range(1, 10_000))) if n not in taken)


def _moved(line: Any, values: list[list[Any]], dots: list[list[Any]], r: int) -> tuple[Any, Any]:
    """Return one line's value and its differential, in terms of its operands and their differentials."""
    primitive, slots, xs, _, params, _ = line
    operands = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
    y = primitive(*operands, **(params or {}))
    ydot: Any = None
    for i, slot in enumerate(slots):
        if slot != CONSTANT:
            part = _rule(primitive, i).push(primitive, i, y, operands, dots[slot][r], params or {})
            ydot = part if ydot is None else ydot + part
    return y, spread_like(ydot, y)


def _rule(primitive: Primitive, i: int) -> Any:
    return RULES.get(primitive.name) or primitive.rule(i)
