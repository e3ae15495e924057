"""The end of a derivation: the differentials substituted, what stands beside dX collected, and the derivative read off."""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradcli.derivation.convert import Reader
from gradcli.derivation.expression import E, Op, add, call, dot, matmul, mul, name, neg, text
from gradcli.derivation.index import Index, Tensor, scaled
from gradcli.derivation.jacobians import unseeded
from gradcli.derivation.matrices import Printer
from gradcli.derivation.measure import measure
from gradcli.derivation.narration import Lines
from gradcli.derivation.simplify import simplified
from gradcli.derivation.structure import Value
from gradcli.derivation.textbook import Named
from gradcli.errors import NotSupported
from gradcli.report.derive import Step


@dataclass(frozen=True)
class Found:
    """A derivative as it was found and the moves that simplify it: rules, each with what is found after it."""

    first: Tensor
    moves: Sequence[tuple[str, Tensor]]

    @property
    def last(self) -> Tensor:
        """The simplest form."""
        return self.moves[-1][1] if self.moves else self.first


@dataclass(frozen=True)
class Ending:
    """What the last steps are written with; `axes` are those of the derivative, of which `own` belong to the input."""

    wrt: str
    letter: str
    pairing: str
    facts: Mapping[str, frozenset[str]]
    printer: Printer
    axes: tuple[Index | None, ...]
    own: tuple[Index, ...]
    lines: Lines
    named: Named
    indexed: bool = False

    def from_differential(
        self, graphs: Sequence[Any], reader: Reader, before: Sequence[Step], result: Tensor
    ) -> Iterator[Step]:
        """Yield the steps from the last differential, all others substituted, to the result.

        `before` are the steps so far. Raises NotSupported where the differential has no form.
        """
        value = reader.read(graphs)
        outputs = tuple(i for i in self.axes if i is not None and i not in self.own)
        names = dict(zip((i for i in value.singles if i is not None), outputs, strict=True))
        whole = Tensor(outputs, value.tensor.renamed(names).terms)
        slope = unseeded(whole, f"d{self.wrt}", self.own)
        slope = Tensor(tuple(i for i in self.axes if i is not None), slope.terms)
        traced, chained = not outputs and len(self.own) == 2, len(before) > 2
        said = Value(outputs, whole)
        first = [("substitute", self.printer.write(whole, outputs))] if chained else []
        last = yield from self._differentials(first, before[-1], said)
        if not self.named.standardised:
            yield from self._parts()
        lines = self._under_trace(whole, slope, result) if traced else self._as_product(slope, outputs, chained)
        yield from self._differentials(lines, last, said)
        if traced:
            yield from self._out_of_trace(result)
            return
        moves: list[tuple[str, Tensor]] = []
        simplified(slope, lambda t: measure(self.printer, t, self.axes), moves)
        yield from self.read_off(Found(slope, moves), result)

    def _differentials(self, lines: Iterable[tuple[str, E]], last: Step, value: Value) -> Generator[Step, None, Step]:
        """Yield the last differential in several forms, none that is printed as the one before; return the last step."""
        for rule, e in lines:
            step = self.lines.step(rule, last.after, "df", self.lines.in_names(e), value)
            if step.unicode != last.unicode:
                yield step
                last = step
        return last

    def _as_product(self, slope: Tensor, outputs: tuple[Index, ...], chained: bool) -> Iterator[tuple[str, E]]:
        """Yield the last differential with dx at its end, g @ dx, unless it is substituted before."""
        if not outputs and len(self.own) == 1 and not chained:
            yield "transpose", dot(self.printer.write(slope, self.own), self._moved)

    def _under_trace(self, whole: Tensor, slope: Tensor, result: Tensor) -> Iterator[tuple[str, E]]:
        """Yield the last differential in terms of dX, as traces, with dX at the end of each, and as one: tr(G.T dX)."""
        first = self.printer.write(whole, ())
        if (traced := _with_traces(first, self._moved)) != first:
            yield "scalar = trace", traced
        if len(slope.terms) > 1:
            yield "cyclic rule", add([self._signed(Tensor(slope.free, (term,))) for term in slope.terms])
        yield "cyclic rule" if len(slope.terms) == 1 else "collect", self._trace(result)

    def _signed(self, slope: Tensor) -> E:
        """Return tr(G.T dX) of one term, a minus before it."""
        (term,) = slope.terms
        return neg(self._trace(scaled(slope, -1))) if term.coef < 0 else self._trace(slope)

    @property
    def _moved(self) -> E:
        return name(f"d{self.wrt}", axes=len(self.own))

    def _trace(self, slope: Tensor) -> E:
        """Return tr(G.T dX), with the sign and the number before the trace."""
        e = self.printer.write(slope, self.own[::-1])
        minus, e = e.op == Op.NEG, e.args[0] if e.op == Op.NEG else e
        numbers = [a for a in e.args if a.op == "number"] if e.op == Op.MUL else []
        left = mul([a for a in e.args if a not in numbers]) if numbers else e
        traced = mul([*numbers, call("trace", matmul(left, self._moved))])
        return neg(traced) if minus else traced

    def _out_of_trace(self, result: Tensor) -> Iterator[Step]:
        """Yield what stands beside dX under the trace, which is the transpose of the derivative, and the derivative."""
        if self.axes != self.own or self.indexed or self.named.standardised:  # or numerator layout
            yield from self.read_off(Found(result, ()), result)
            return
        turned = self.printer.write(result, self.own[::-1])
        straight = self.printer.write(result, self.own)
        rule = "symmetry" if turned == straight else "transpose"
        left, value = f"{self.letter}.T", Value(self.own[::-1], result)
        off = self.lines.step("read off", self.pairing, left, self.lines.in_names(turned), value)
        yield off
        e = self.lines.in_names(straight)
        yield self.lines.step(rule, off.after, self.letter, e, Value(self.axes, result), condition=self._assumed)

    def read_off(self, found: Found, result: Tensor) -> Iterator[Step]:
        """Yield the derivative as it is read off, each kind of move that simplifies it, and the result in another form."""
        before: E | None = None
        moves = () if self.named.standardised else _collected([*found.moves, ("simplify", result)])
        for rule, after in (("read off", found.first), *moves):
            try:
                shown = self.lines.in_names(self.printer.write(after, self.axes))
            except NotSupported:
                continue
            if shown != before:
                said = self.pairing if before is None else text(before)
                value, condition = Value(self.axes, after), None if before is None else self._assumed
                before = shown
                if self.indexed:
                    yield self.lines.entry(rule, said, self.letter, value, None, condition)
                else:
                    yield self.lines.step(rule, said, self.letter, shown, value, condition=condition)
        if before is not None and self.named.standardised and not self.indexed:
            yield from self._parts()
            e = self.lines.in_names(self.named.e)
            yield self.lines.step("collect", text(before), self.letter, e, Value(self.axes, result))

    @property
    def _assumed(self) -> str | None:
        """What is assumed of inputs, which a move may rest on."""
        return "; ".join(f"{n}: {', '.join(sorted(words))}" for n, words in self.facts.items()) or None

    def _parts(self) -> Iterator[Step]:
        """Yield the parts that a textbook names, by which later lines call them."""
        for word, e in self.named.parts:
            yield self.lines.part(word, e, self.named.written_out(e))


_COLLECTING = frozenset(
    {"collect like terms", "take out a common factor", "distribute", "distribute and collect", "simplify"}
)


def _collected(moves: Sequence[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield moves, those one after another that only collect terms as one."""
    for collects, several in itertools.groupby(moves, key=lambda move: move[0] in _COLLECTING):
        own = list(several)
        yield from [("collect", own[-1][1])] if collects else own


def _with_traces(e: E, moved: E) -> E:
    """Return a sum with its products of a row and a column that hold dX as traces: u.T v is tr(v u.T)."""
    if e.op in (Op.ADD, Op.NEG, Op.MUL, Op.DIV):
        return replace(e, args=tuple(_with_traces(a, moved) for a in e.args))
    if e.op != Op.DOT or moved not in e.walk():
        return e
    first, last = e.args if moved in e.args[1].walk() else e.args[::-1]
    return call("trace", call("outer", last, first))
