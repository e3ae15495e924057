"""Parts of a derivative that textbooks name although they occur once: standardised values, errors of layers, the density.

`x-hat` of layer, batch and root-mean-square norms; `delta` of backpropagation; `phi`, the density of the normal distribution.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gradcli.derivation.code.ranks import axes as axes_of
from gradcli.derivation.exponentials import DENSITY
from gradcli.derivation.expression import E, Op, call, mul, name, neg, number, power
from gradcli.derivation.index import Atom, Factor, Index, Tensor, Term, add, of_atom
from gradcli.derivation.matrices import Printer
from gradcli.derivation.measure import measure
from gradcli.derivation.problem import first_free
from gradcli.derivation.products import ONE, multiply, tidied
from gradcli.derivation.simplify import simplified
from gradcli.derivation.statements import replaced
from gradcli.report.names import parts_of, printed

Parts = tuple[tuple[str, E], ...]


@dataclass(frozen=True)
class Named:
    """A derivative in terms of its named parts, in order; some are values that are `standardised`."""

    e: E
    parts: Parts = ()
    standardised: bool = False

    def written_out(self, e: E) -> E:
        """Return a part without the names of other parts."""
        for word, own in reversed(self.parts):
            e = replaced(e, name(word), own)
        return e


def named(x: Tensor, axes: Sequence[Index | None], wrt: str, printer: Printer, taken: Collection[str]) -> Named:
    """Return a derivative by `wrt` with its parts named as a textbook does; no part has a name that is `taken`."""
    found = _standardised(x, axes, printer, taken) or Named(printer.oriented(printer.write(x, axes)))
    e, parts = found.e, list(found.parts)
    for error, layer in _errors(e, wrt):
        for n, earlier in parts:
            error = replaced(error, earlier, name(n, axes=axes_of(earlier)))
        word = _unlike([f"delta{layer or 1}"], "delta", [*taken, *(n for n, _ in parts)])
        e = replaced(e, error, name(word, axes=axes_of(error)))
        parts.append((word, error))
    return replace(found, e=e, parts=tuple(parts))


def _unlike(stems: Sequence[str], stem: str, taken: Collection[str]) -> str:
    """Return a name that no other has, and that no other looks like in a formula."""
    shown = {printed(name) for name in taken}
    alike = [name for name in (*stems, *(f"{stem}{k}" for k in range(1, 100))) if printed(name) in shown]
    return first_free(stems, stem, [*taken, *alike])


# --- values less their mean, over their standard deviation --------------------------------------------------------------


def _standardised(x: Tensor, axes: Sequence[Index | None], printer: Printer, taken: Collection[str]) -> Named | None:
    """Return a derivative in terms of x-hat, where its terms have one power of the deviation then; else None."""
    for f in (f for t in x.terms for f in t.factors if f.power < 0 and f.power.denominator == 2):
        for c in _squares_in_mean(f):
            word = _unlike(["xhat"], "xhat", taken)
            hat = Atom("input", word, dims=c.atom.dims)
            terms = [_with_hats(t, f, c, hat) for t in x.terms]
            powers = {p for _, p, _ in terms}
            if len(powers) > 1 or max(count for _, _, count in terms) < _SQUARED:
                continue
            inside = add([Tensor(x.free, (tidied(t, x.free),)) for t, _, _ in terms], x.free)
            small = simplified(inside, lambda t: measure(printer, t, axes))
            deviation = Tensor(f.at, (Term(ONE, (f._replace(power=Fraction(-1, 2)),)),))
            own = dict(zip(_places(f, c), f.at, strict=True))
            at = tuple(own.get(k, i) for k, i in enumerate(c.at))
            value = multiply(of_atom(c.atom, at), deviation)
            definition = printer.write(value, at)
            return Named(printer.write(small, axes), ((word, definition),), standardised=True)
    return None


_SQUARED = 2  # times at least that a term has the values: once as they are, once in the mean with the cotangent


def _squares_in_mean(f: Factor) -> Iterator[Factor]:
    """Yield the values whose mean square is a term of a bracket, with the slots of the bracket among their indices."""
    if f.atom.op != "group":
        return
    (inner,) = f.atom.args
    for term in inner.terms:
        squares = [g for g in term.factors if g.power == 2 and g.atom.op in ("group", "input")]
        rest = [g for g in term.factors if g not in squares]
        sizes = {g.atom.name for g in rest if g.atom.op == "size" and g.power == -1}
        if len(squares) != 1 or len(sizes) != len(rest):
            continue
        (c,) = squares
        summed = [i for i in c.at if i not in inner.free]
        if summed and {i.dim for i in summed} == sizes and len(inner.terms) > 1 and set(inner.free) <= set(c.at):
            yield c._replace(power=ONE)


def _places(f: Factor, c: Factor) -> list[int]:
    """Return where the values have each index of the bracket, in the order of the bracket's indices."""
    slots = {-1 - i.id: k for k, i in enumerate(c.at) if i in f.atom.args[0].free}
    return [slots[k] for k in range(len(f.at))]


def _with_hats(term: Term, f: Factor, c: Factor, hat: Atom) -> tuple[Term, Fraction, int]:
    """Return a term with x-hat, the power of the mean square that is left, and how often it has x-hat."""
    factors: list[Factor] = []
    count = 0
    left: dict[tuple[Index, ...], Fraction] = {}
    for g in term.factors:
        if g.atom == f.atom:
            left[g.at] = left.get(g.at, Fraction(0)) + g.power
        elif g.atom == c.atom and g.power.denominator == 1 and g.power > 0:
            at = tuple(g.at[k] for k in _places(f, c))
            left[at] = left.get(at, Fraction(0)) + g.power / 2
            count += int(g.power)
            factors.append(Factor(hat, g.at, g.power))
        else:
            factors.append(g)
    factors += [Factor(f.atom, at, p) for at, p in left.items() if p]
    return Term(term.coef, tuple(factors)), sum(left.values(), Fraction(0)), count


# --- errors of layers ---------------------------------------------------------------------------------------------------


def _errors(e: E, wrt: str) -> list[tuple[E, str]]:
    """Return the errors of layers, the last layer's first, each with the number of its layer.

    An error is a product with the slope of a layer's function, of which the derivative is the outer product with the layer's
    input, or which a layer's matrix takes to the error of the layer before.
    """
    found: list[tuple[E, str]] = []

    def visit(a: E, layer: str | None, below: bool) -> bool:
        """Note the errors in a part, the inner ones first, and return whether there are any."""
        slope = _has_slope(a)
        outer = a.op == "call" and a.text == "outer"
        layers = _layers(a, wrt)
        inside = [visit(b, own, below or slope or outer) for b, own in zip(a.args, layers, strict=True)]
        if slope and layer is not None and (below or any(inside)):
            found.append((a, layer))
            return True
        return any(inside)

    visit(e, None, False)
    return list(dict.fromkeys(found))


def _layers(a: E, wrt: str) -> list[str | None]:
    """Return for each operand the number of the layer whose error it would be: W2.T @ v has that of layer 2."""
    if a.op == "call" and a.text == "outer":
        return [parts_of(wrt)[1], None]
    found: list[str | None] = [None] * len(a.args)
    if a.op == Op.MATMUL:
        for k in range(len(a.args)):
            beside = [a.args[j] for j in (k - 1, k + 1) if 0 <= j < len(a.args)]
            owner = next((c.args[0].text for c in beside if c.op == Op.TRANSPOSE and c.args[0].op == "name"), None)
            found[k] = None if owner is None else parts_of(owner)[1]
    return found


def _has_slope(e: E) -> bool:
    """Whether a product has the slope of a layer's function as a factor: h (1 - h), 1 - h**2, or u > 0."""
    if e.op != Op.MUL:
        return False
    return any(a.op == "compare" or (_complement(a) is not None) for a in e.args)


def _complement(e: E) -> E | None:
    """Return h of 1 - h or 1 - h**2, h being a sigmoid or tanh; None for anything else."""
    if e.op != Op.ADD or len(e.args) != 2 or e.args[0] != number(Fraction(1)) or e.args[1].op != Op.NEG:
        return None
    (h,) = e.args[1].args
    h = h.args[0] if h.op == Op.POW else h
    return h if h.op == "call" and h.text in ("sigmoid", "tanh") else None


# --- the normal distribution --------------------------------------------------------------------------------------------


def with_densities(made: Named, taken: Collection[str]) -> Named:
    """Return a derivative with the densities as parts with names."""
    e, parts = made.e, list(made.parts)
    while (
        found := next((a for x in (e, *(p for _, p in parts)) for a in x.walk() if _is_density(a)), None)
    ) is not None:
        (u,) = found.args
        word = _unlike(["phi"], "phi", [*taken, *(n for n, _ in parts)])
        short = name(word, axes=axes_of(u))
        e = replaced(e, found, short)
        parts = [(n, replaced(p, found, short)) for n, p in parts]
        two_pi = mul([number(Fraction(2)), name("pi", scalar=True)])
        bell = call("exp", neg(mul([number(Fraction(1, 2)), power(u, Fraction(2))])))
        parts.append((word, mul([bell], [call("sqrt", two_pi)])))
    return replace(made, e=e, parts=tuple(parts))


def _is_density(e: E) -> bool:
    return e.op == "call" and e.text == DENSITY and not any(_is_density(a) for b in e.args for a in b.walk())
