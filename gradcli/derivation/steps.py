"""How a derivative is found: what is named, each differential or adjoint by its rule, what is read off, what is simplified."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.core.provenance import place
from gradcli.core.shapes import spread_like
from gradcli.derivation.expression import E, text
from gradcli.derivation.index import Atom, Factor, Index, Tensor, Term
from gradcli.derivation.index import slot as index_slot
from gradcli.derivation.matrices import Printer
from gradcli.derivation.record import RULES, Sweep
from gradcli.errors import NotSupported
from gradcli.interpreters.graph import Graph
from gradcli.interpreters.tape import CONSTANT, transpose
from gradcli.report.derive import Step

if TYPE_CHECKING:
    from gradcli.derivation.derive import Derivation

QUIET = {"reshape", "transpose", "broadcast_to", "getitem", "positive", "scatter", "real", "negative"}
_MOST = 60  # lines of a program that are told one by one
_NAMES = {
    "add": "sum rule", "subtract": "sum rule", "sum": "linearity", "multiply": "product rule", "divide": "quotient rule",
    "matmul": "product rule", "einsum": "product rule", "inv": "inverse", "det": "determinant", "logdet": "determinant",
    "solve": "solve", "square": "power rule", "integer_power": "power rule", "power": "power rule", "sqrt": "power rule",
    "reciprocal": "power rule", "norm": "norm", "negative": "linearity",
}  # fmt: skip
_CONDITIONS = {
    "inv": "invertible", "solve": "invertible", "det": "invertible", "log": "positive", "sqrt": "positive",
    "divide": "divisor not 0", "reciprocal": "not 0", "absolute": "not 0", "sign": "not 0", "maximum": "no tie",
    "minimum": "no tie", "relu": "not 0", "norm": "not 0", "power": "base positive",
}  # fmt: skip


@dataclass
class _Named:
    """One line of the program with a name: what it is, and how it moves, in every recording."""

    name: str
    operation: str
    definition: list[Any]
    moved: list[Any]
    slot: int = 0


def told(
    made: "Derivation", wrt: str, sweeps: Sequence[Sweep], tensor: Tensor, moves: Sequence[tuple[str, Tensor]],
    printer: Printer, axes: Sequence[Index | None], result: E,
) -> tuple[Step, ...]:  # fmt: skip
    """Return the steps from the function to the result."""
    steps: list[Step] = []
    if len(sweeps[0].tape.lines) <= _MOST:
        try:
            steps += _differentials(made, wrt, sweeps, printer)
        except NotSupported:
            steps = []
    letter = letter_for(made.problem.dims)
    last = _written(printer, tensor, axes)
    if last is not None:
        pairing = f"df = <{letter}, d{wrt}>"
        steps.append(Step("read off", pairing, f"{letter} = {last}"))
    before = last or ""
    assumed = "; ".join(f"{n}: {', '.join(sorted(words))}" for n, words in made.problem.facts.items()) or None
    for rule, after in moves:
        shown = _written(printer, after, axes)
        if shown is not None and shown != before:
            steps.append(Step(rule, before, f"{letter} = {shown}", condition=assumed))
            before = shown
    return tuple(steps)


def letter_for(taken: Iterable[str]) -> str:
    """Return what the derivative is called: G, or the first letter after it that no input has."""
    used = set(taken)
    return next(letter for letter in ("G", "H", "J", "D", "grad") if letter not in used)


def _written(printer: Printer, x: Tensor, axes: Sequence[Index | None]) -> str | None:
    try:
        return text(printer.write(x, axes))
    except NotSupported:
        return None


def _differentials(made: "Derivation", wrt: str, sweeps: Sequence[Sweep], printer: Printer) -> list[Step]:
    style = made.problem.style
    named = _lines(wrt, sweeps, {*made.problem.dims, *made.sizes}, backward=style == "graph")
    reader = made.reader()

    def shown(graphs: list[Any], name: str) -> str:
        value = reader.read(graphs)
        if style == "index":
            return indexed(value.tensor, value.axes, name)
        return f"{name} = {text(printer.write(value.tensor, value.axes))}"

    steps = [Step("name", "", shown(line.definition, line.name)) for line in named if line.definition]
    for line in reversed(named) if style == "graph" else named:
        mark = f"{line.name}_bar" if style == "graph" else f"d{line.name}"
        rule = "adjoint" if style == "graph" else _NAMES.get(line.operation, f"chain rule: {line.operation}")
        before = shown(line.definition, line.name) if line.definition else line.name
        steps.append(Step(rule, before, shown(line.moved, mark), condition=_CONDITIONS.get(line.operation)))
    return steps


def _lines(wrt: str, sweeps: Sequence[Sweep], taken: set[str], backward: bool) -> list[_Named]:
    """Return the lines of the program by name, each in terms of those before it; what only moves entries is not told.

    How they move is their differential or, `backward`, their adjoint in terms of those after them.
    """
    named: list[_Named] = []
    count = len(sweeps[0].tape.lines)
    values: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    dots: list[list[Any]] = [[None] * len(sweeps) for _ in range(count)]
    result = getattr(sweeps[0].y, "slot", count - 1)
    for k in range(result + 1):
        primitive, position = sweeps[0].tape.lines[k][0], sweeps[0].tape.lines[k][5]
        last = k == result or sweeps[0].tape.lines[k + 1][5] != position
        if primitive is None:
            for r, sweep in enumerate(sweeps):
                x = sweep.tape.lines[k][3]
                values[k][r], dots[k][r] = x, Graph.variable(f"d{wrt}", np.asarray(x.value) * 0 + 0.7)
            continue
        pairs = [_moved(sweep.tape.lines[k], values, dots, r) for r, sweep in enumerate(sweeps)]
        if k != result and (primitive.name in QUIET or _adds_nothing(sweeps[0].tape.lines[k])):
            for r, (y, ydot) in enumerate(pairs):
                values[k][r], dots[k][r] = y, ydot
            continue
        name = "f" if k == result else _free(_assigned(position) if last else "t", taken)
        taken.add(name)
        named.append(_Named(name, primitive.name, [y for y, _ in pairs], [d for _, d in pairs], k))
        for r, (y, ydot) in enumerate(pairs):
            values[k][r] = Graph.variable(name, y.value)
            dots[k][r] = Graph.variable(f"d{name}", np.asarray(getattr(ydot, "value", ydot)))
    return _adjoints(wrt, sweeps, named, values, result) if backward else named


def _adjoints(
    wrt: str, sweeps: Sequence[Sweep], named: list[_Named], values: list[list[Any]], result: int
) -> list[_Named]:
    """Return the lines with their adjoints: contributions of all that use them, summed."""
    by_slot = {line.slot: line for line in named}
    for r, sweep in enumerate(sweeps):
        one = (
            Graph.lift(1.0)
            if np.shape(values[result][r].value) == ()
            else Graph.variable("v", values[result][r].value * 0 + 1)
        )
        bars: dict[int, Any] = {result: one}
        for k in range(result, -1, -1):
            if k not in bars:
                continue
            primitive, slots, xs, _, params, _ = sweep.tape.lines[k]
            bar = bars[k]
            if primitive is None:
                by_slot.setdefault(k, _Named(wrt, "input", [], [], k)).moved.append(bar)
                continue
            if k in by_slot:
                line = by_slot[k]
                line.moved[r] = bar
                bar = Graph.variable(
                    f"{line.name}_bar", np.asarray(getattr(bar, "value", bar)) + 0 * values[k][r].value
                )
            operands = [x if slot == CONSTANT else values[slot][r] for slot, x in zip(slots, xs, strict=True)]
            for i, slot in enumerate(slots):
                if slot != CONSTANT:
                    part = _rule(primitive, i).pull(bar, i, values[k][r], operands, params or {}, transpose)
                    bars[slot] = part if slot not in bars else bars[slot] + part
    return [by_slot[k] for k in sorted(by_slot)]


def assigned(lines: Sequence[Any]) -> dict[int, str]:
    """Return the lines that give a name of the user's its value; a name that is given twice is none."""
    found = {}
    for k, line in enumerate(lines):
        last = k + 1 == len(lines) or lines[k + 1][5] != line[5]
        if line[0] is not None and last and (word := _assigned(line[5])) != "t":
            found[k] = word
    words = list(found.values())
    return {k: word for k, word in found.items() if words.count(word) == 1}


def _assigned(position: Any) -> str:
    """Return the name that the user's line or statement gives its value; `t` where it gives none."""
    named = getattr(position, "name", None)
    if named:
        return str(named)
    where = place(position)
    match = re.match(r"\s*([A-Za-z_]\w*)\s*=[^=]", where.source) if where is not None and where.source else None
    return match[1] if match else "t"


def _adds_nothing(line: Any) -> bool:
    """Whether a line adds zero, as the shift of an exponential that cannot overflow here does."""
    zero = [s == CONSTANT and not isinstance(x, Graph) and not np.any(x) for s, x in zip(line[1], line[2], strict=True)]
    return line[0].name in ("add", "subtract") and bool(zero[-1])


def _free(stem: str, taken: set[str]) -> str:
    names = [stem] if stem != "t" else []
    return next(n for n in (*names, *(f"{stem}{k}" for k in range(1, 10_000))) if n not in taken)


def _moved(line: Any, values: list[list[Any]], dots: list[list[Any]], r: int) -> tuple[Any, Any]:
    """Return one line's value and its differential, in terms of its operands and theirs."""
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


def indexed(x: Tensor, axes: Sequence[Index | None], name: str = "G") -> str:
    """Return a tensor in index notation: G[i,j] = sum_k A[i,k]*B[k,j]."""
    names: dict[Index, str] = {}
    letters = iter("ijklmnpqrstuvwabc")
    for i in axes:
        if i is not None and i not in names:
            names[i] = next(letters, "z")
    head = name + (f"[{','.join(names[i] for i in axes if i is not None)}]" if names else "")
    return f"{head} = {_indexed(x, names, letters)}"


def _indexed(x: Tensor, names: dict[Index, str], letters: Any) -> str:
    shown = ""
    for term in x.terms:
        sign, size = ("-", -term.coef) if term.coef < 0 else ("+", term.coef)
        part = _term(term, size, dict(names), letters)
        shown += (f" {sign} " if shown else "-" if sign == "-" else "") + part
    return shown or "0"


def _term(term: Term, size: Any, names: dict[Index, str], letters: Any) -> str:
    bound = [i for i in dict.fromkeys(i for f in term.factors for i in f.at) if i not in names]
    for i in bound:
        names[i] = next(letters, "z")
    parts = [] if size == 1 and term.factors else [str(size)]
    parts += [_factor(f, names, letters) for f in term.factors]
    total = f"sum_{','.join(names[i] for i in bound)} " if bound else ""
    return total + "*".join(parts)


def _factor(f: Factor, names: dict[Index, str], letters: Any) -> str:
    at = f"[{','.join(names[i] for i in f.at)}]" if f.at else ""
    power = "" if f.power == 1 else f"^{f.power}" if f.power.denominator == 1 else f"^({f.power})"
    return f"{_atom(f.atom, [names[i] for i in f.at], at, letters)}{power}"


def _atom(atom: Atom, own: list[str], at: str, letters: Any) -> str:
    if atom.op in ("input", "size", "number", "pi"):
        return f"{atom.name}{at}"
    if atom.op == "delta":
        return f"delta{at}"
    if atom.op in ("inv", "det"):
        matrix = atom.args[0]
        return f"{atom.op}({text(Printer({}).write(matrix, sorted(matrix.free, reverse=True)))}){at}"
    names = {index_slot(k, d): own[k] for k, d in enumerate(atom.dims)}
    inside = []
    for arg in atom.args:
        inner = dict(names)
        for i in arg.free:
            inner.setdefault(i, next(letters, "z"))
        inside.append(_indexed(arg, inner, letters))
    if atom.op == "group":
        return f"({inside[0]})"
    return f"{atom.op}({', '.join(inside)})" + (at if atom.op == "softmax" else "")
