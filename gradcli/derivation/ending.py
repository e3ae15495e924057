"""The end of a derivation: the differentials substituted, what stands beside dX collected, and the derivative read off."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcli.derivation.convert import Reader
from gradcli.derivation.expression import E, call, dot, matmul, name, text
from gradcli.derivation.index import Index, Tensor
from gradcli.derivation.jacobians import unseeded
from gradcli.derivation.matrices import Printer
from gradcli.derivation.measure import measure
from gradcli.derivation.narration import Lines
from gradcli.derivation.simplify import simplified
from gradcli.derivation.structure import Value
from gradcli.errors import NotSupported
from gradcli.reports.derive import Step


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
        last = before[-1]
        for rule, e in self._differentials(whole, slope, outputs, chained=len(before) > 2):
            step = self.lines.step(rule, last.after, "df", self.lines.in_names(e), Value(outputs, whole))
            if step.unicode != last.unicode:
                yield step
            last = step
        moves: list[tuple[str, Tensor]] = []
        simplified(slope, lambda t: measure(self.printer, t, self.axes), moves)
        yield from self.read_off(Found(slope, moves), result)

    def _differentials(
        self, whole: Tensor, slope: Tensor, outputs: tuple[Index, ...], *, chained: bool
    ) -> Iterator[tuple[str, E]]:
        """Yield the last differential in terms of dX, and with dX at its end: tr(G.T dX), or g @ dx."""
        if chained:
            yield "substitute", self.printer.write(whole, outputs)
        d = name(f"d{self.wrt}", axes=len(self.own))
        if not outputs and len(self.own) == 2:
            yield "cyclic rule", call("trace", matmul(self.printer.write(slope, self.own[::-1]), d))
        elif not outputs and len(self.own) == 1 and not chained:
            yield "transpose", dot(self.printer.write(slope, self.own), d)

    def read_off(self, found: Found, result: Tensor) -> Iterator[Step]:
        """Yield the derivative as it is read off, each move that simplifies it, and the result where that is another form."""
        assumed = "; ".join(f"{n}: {', '.join(sorted(words))}" for n, words in self.facts.items()) or None
        before: E | None = None
        for rule, after in [("read off", found.first), *found.moves, ("simplify", result)]:
            try:
                shown = self.lines.in_names(self.printer.write(after, self.axes))
            except NotSupported:
                continue
            if shown != before:
                said = self.pairing if before is None else text(before)
                value, condition = Value(self.axes, after), None if before is None else assumed
                before = shown
                if self.indexed:
                    yield self.lines.entry(rule, said, self.letter, value, None, condition)
                else:
                    yield self.lines.step(rule, said, self.letter, shown, value, condition=condition)
