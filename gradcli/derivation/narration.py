"""The steps of a derivation in every notation: a line of gradcli's language, of Unicode and of LaTeX for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from gradcli.derivation.code.ranks import axes
from gradcli.derivation.expression import E, name, power, text, transpose
from gradcli.derivation.index_notation import entry_of
from gradcli.derivation.mathematics import Writing
from gradcli.derivation.notation import Latex, Mathml, Notation, Plain, Unicode
from gradcli.derivation.signs import M, Sign, transposed
from gradcli.derivation.sized import Shapes
from gradcli.derivation.statements import Statements, replaced
from gradcli.derivation.structure import Value
from gradcli.errors import NotSupported
from gradcli.report.derive import Step

_Written = tuple[str, str, str]  # Unicode, LaTeX and MathML


class Lines:
    """Writes the lines of a derivation; it learns the shape of each name, and what is a differential or an adjoint."""

    def __init__(self, dims: Mapping[str, Sequence[str]], symmetric: Iterable[str] = ()) -> None:
        self.dims = dims
        self.notations: tuple[Notation, ...] = (Unicode([*dims]), Latex([*dims]), Mathml([*dims]))
        self.symbols: dict[str, M] = {}
        self.shapes = Shapes(dims)
        self.writing = Writing(self.shapes, self.symbols, symmetric)
        self.definitions: dict[E, E] = {}
        self.densities = False  # whether a line has the density of the normal distribution

    def define(self, word: str, forms: Sequence[tuple[E, E | None]], *, symmetric: bool = False) -> None:
        """Note what a name stands for, in several forms, each with that of its transpose."""
        short = name(word, axes=axes(forms[0][0]))
        if symmetric:
            self.writing.symmetric.add(word)
        for e, turned in forms:
            if not e.size:
                continue
            self.definitions.setdefault(e, short)
            if turned is not None and turned != transpose(e):
                self.definitions.setdefault(turned, transpose(short))
            if e.op == "call" and e.text == "sqrt" and e.args[0].size:
                self.definitions.setdefault(power(e.args[0], Fraction(3, 2)), power(short, Fraction(3)))
                self.definitions.setdefault(e.args[0], power(short, Fraction(2)))

    def in_names(self, e: E) -> E:
        """Return an expression with names for what was defined, the largest parts first."""
        for old, new in sorted(self.definitions.items(), key=lambda pair: -pair[0].size):
            e = replaced(e, old, new)
        return e

    def moved(self, name: str, how: str) -> None:
        """Note that the differential (`d`) or the adjoint (`_bar`) of a name is used from here on, with its shape."""
        sign, mark = (Sign.DIFFERENTIAL, f"d{name}") if how == "d" else (Sign.ADJOINT, f"{name}_bar")
        self.symbols[mark] = M(sign, (M(Sign.NAME, text=name),))
        self.shapes.known[mark] = self.shapes.known.get(name, ())

    def step(
        self,
        rule: str,
        before: str,
        name: str,
        e: E,
        value: Value,
        where: str | None = None,
        condition: str | None = None,
    ) -> Step:
        """Return a step whose outcome is an expression with a name, and the same as a tensor."""
        said = f"{name} = {text(e)}"
        self.shapes.known[name] = tuple(i.dim for i in value.singles if i is not None)
        written = self._written([(name, e)]) or self._entry(name, value, self.notations[0])
        if "φ(" in written[0] and not self.densities:
            self.densities = True
            condition = "; ".join(filter(None, (condition, "φ the normal density")))
        return Step(rule, before, said, where, condition, *written)

    def part(self, name: str, e: E, whole: E) -> Step:
        """Return a step that names a part of the derivative; `whole` is the part in terms of the inputs alone."""
        shown = self.in_names(e)
        self.shapes.add(name, shown)
        self.define(name, [(whole, None)])
        said = f"{name} = {text(shown)}"
        return Step("name", "", said, None, None, *(self._written([(name, shown)]) or (said, "", "")))

    def program(self, rule: str, before: str, name: str, made: Statements) -> Step:
        """Return a step whose outcome is a program of several statements."""
        lines = [*made.parts, (name, made.result)]
        for n, e in lines:
            self.shapes.add(n, e)
        said = "; ".join(f"{n} = {text(e)}" for n, e in lines)
        return Step(rule, before, said, None, None, *(self._written(lines) or (said, "", "")))

    def _written(self, lines: Sequence[tuple[str, E]]) -> _Written | None:
        """Return statements in every notation; None where only indices can write one."""
        try:
            formulas = [(self._symbol(n), self.writing.formula(e)) for n, e in lines]
        except NotSupported:
            return None
        unicode, latex, mathml = (w.statements([(w.write(n), w.write(m)) for n, m in formulas]) for w in self.notations)
        return unicode, latex, mathml

    def entry(self, rule: str, before: str, name: str, value: Value, where: str | None, condition: str | None) -> Step:
        """Return a step whose outcome is written with indices."""
        self.shapes.known[name] = tuple("1" if i is None else i.dim for i in value.singles)
        plain, latex, mathml = self._entry(name, value, Plain([*self.dims]))
        return Step(rule, before, plain, where, condition, plain, latex, mathml)

    def _entry(self, name: str, value: Value, plain: Notation) -> _Written:
        """Return one entry as a line of text, in LaTeX and in MathML."""
        entry = entry_of(value.tensor, value.singles, self.dims, name)
        left, right = self._with_symbols(self._at(name, entry.letters)), self._with_symbols(entry.formula)
        shown, latex, mathml = (w.statements([(w.write(left), w.write(right))]) for w in (plain, *self.notations[1:]))
        return shown, latex, mathml

    def _with_symbols(self, m: M) -> M:
        """Return a formula with the signs of differentials and adjoints for their names."""
        if m.sign is Sign.NAME:
            return self.symbols.get(m.text, m)
        return replace(m, args=tuple(map(self._with_symbols, m.args)))

    def _symbol(self, name: str) -> M:
        if name.endswith(".T"):
            return transposed(self._symbol(name.removesuffix(".T")))
        letter, bracket, direction = name.partition("[")
        if bracket:
            return M(Sign.AT, (M(Sign.NAME, text=letter),), direction.rstrip("]"))
        return self.symbols.get(name, M(Sign.NAME, text=name))

    def _at(self, name: str, letters: tuple[str, ...]) -> M:
        return M(Sign.ENTRY, (M(Sign.NAME, text=name),), letters=letters) if letters else M(Sign.NAME, text=name)
