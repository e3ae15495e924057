"""Entries and spans at fixed positions: unit vectors, selected rows of the identity, triangles of ones."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from gradcli.classes import dataclass
from gradcli.derivation.algebra import (
    ALGEBRA,
    FUNCTIONS,
    identity,
    multiply,
    one,
    power,
    product,
    sum_over,
    summed_still,
    tidied,
    without,
)
from gradcli.derivation.index import (
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    fresh,
    function,
    of_atom,
    outside,
    scalar,
    slot,
)  # fmt: skip
from gradcli.targets.facts import terms_of_size


class Position(NamedTuple):
    """A position: a sum of sizes and a number. A number alone below 0 counts from the end of the axis."""

    names: tuple[str, ...] = ()
    number: int = 0

    @property
    def from_end(self) -> bool:
        return not self.names and self.number < 0

    def up_to(self, other: "Position") -> bool:
        """Whether this position is known not to lie after another one that is counted from the same end."""
        more = Counter(other.names)
        more.subtract(self.names)
        return min(more.values(), default=0) >= 0 and sum(more.values()) + other.number >= self.number

    def text(self) -> str:
        number = [str(self.number)] if self.number or not self.names else []
        return " + ".join([*self.names, *number]).replace("+ -", "- ")


FIRST = Position()


@dataclass(frozen=True)
class PositionRange:
    """Positions from a start to a stop; without a stop, to the end of the axis."""

    start: Position
    stop: Position | None

    def before(self, other: "PositionRange") -> bool:
        """Whether this span is known to lie before another one."""
        stop = self.stop
        return stop is not None and stop.from_end == other.start.from_end and stop.up_to(other.start)

    def apart(self, other: "PositionRange") -> bool:
        """Whether two spans are known to have no position in common."""
        return self.before(other) or other.before(self)

    def within(self, other: "PositionRange") -> bool:
        """Whether this span is known to lie in another one."""
        first = self.start.from_end == other.start.from_end and other.start.up_to(self.start)
        if other.stop is None or self.stop is None:
            last = other.stop is None
        else:
            last = self.stop.from_end == other.stop.from_end and self.stop.up_to(other.stop)
        return (first or other.start == FIRST) and last


def span_of(text: str) -> PositionRange | None:
    """Return a slice of neighbouring positions as a span; None for a list of positions, or for steps."""
    start, colon, stop = text.partition(":")
    if not colon or ":" in stop or (stop and place_of(stop) == FIRST):
        return None
    return PositionRange(place_of(start or "0"), place_of(stop) if stop else None)


def place_of(text: str) -> Position:
    """Return a size or a number, such as `m + k`, `n - 1` or `-2`, as a position."""
    terms = terms_of_size(text)
    number = sum(int(sign + word) for sign, word in terms if word.isdecimal())
    return Position(tuple(word for _, word in terms if not word.isdecimal()), number)


def at(place: int) -> PositionRange:
    """Return the span of one position."""
    return PositionRange(Position(number=place), None if place == -1 else Position(number=place + 1))


ONE = Fraction(1)
_OWN = {"exp", "log", "absolute"}  # functions that `algebra` writes in their own way
_ELEMENTWISE = FUNCTIONS | _OWN | {"power"}


def unit(dim: str, place: int) -> Atom:
    """Return the vector of zeros with a 1 at one position; a negative position counts from the end."""
    return Atom("unit", str(place + int(dim) if place < 0 and dim.isdecimal() else place), dims=(dim,))


def triangle(dims: Sequence[str], k: int) -> Atom:
    """Return the matrix with ones on and below its k-th diagonal, and zeros above."""
    return Atom("tri", str(k), dims=tuple(dims))


def complement(x: Tensor) -> Tensor | None:
    """Return 1 - x where x is a triangle of ones: the other triangle. None for anything else."""
    f = x.terms[0].factors[0] if len(x.terms) == 1 and len(x.terms[0].factors) == 1 else None
    if f is None or f.atom.op != "tri" or x.terms[0].coef != 1:
        return None
    return Tensor(x.free, of_atom(triangle(f.atom.dims[::-1], -1 - int(f.atom.name)), f.at[::-1]).terms)


def rows(span: str, new: Index, old: Index) -> Tensor:
    """Return the matrix that selects a span: rows of the identity."""
    return of_atom(_slice(identity(old.dim), 0, span, (new, old)), (new, old))


def cut(x: Tensor, i: Index, new: Index, span: str) -> Tensor:
    """Return the span of a tensor along an index: all factors with the index are cut."""
    free = tuple(new if j == i else j for j in x.free)
    parts = []
    for term in x.terms:
        others = tuple(f for f in term.factors if i not in f.at)
        rest = Tensor(tuple(dict.fromkeys(j for f in others for j in f.at)), (IndexedTerm(term.coef, others),))
        whole = product([rest, *(_cut(f, i, new, span) for f in term.factors if i in f.at)])
        parts.append(Tensor(free, tuple(tidied(t, free) for t in whole.terms)))
    return add(parts, free) if parts else Tensor(free, ())


def _cut(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor:
    def kept(x: Tensor) -> Tensor:
        return cut(x, i, new, span)

    def written(g: IndexedFactor) -> Tensor:
        if g.atom.op == "delta":
            return rows(span, new, next((j for j in g.at if j != i), new))
        known = _known_cut(g, i, new, span) or _chosen_again(g, i, new, span)
        if known is not None:
            return known
        places = g.at
        atom = g.atom
        for k, j in enumerate(g.at):
            if j == i:
                places = tuple(new if n == k else a for n, a in enumerate(places))
                atom = _slice(atom, k, span, places)
        return of_atom(atom, places)

    return _pushed(f, tuple(dict.fromkeys(new if j == i else j for j in f.at)), kept, written)


def _known_cut(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor | None:
    """Return the span of a unit vector, of selected rows of the identity, or of a padded vector, if it is simple; else None."""
    wanted = span_of(span)
    if f.atom.op == "unit" and wanted is not None:
        place = int(f.atom.name)
        if at(place).apart(wanted):
            return Tensor((new,), ())
        first = wanted.start
        if place >= 0 and not (first.names or first.from_end) and at(place).within(wanted):
            return of_atom(unit(new.dim, place - first.number), (new,))
        return None
    if f.atom.op == "pad" and f.atom.name == span:
        return f.atom.args[0].renamed({f.atom.args[0].free[0]: new})
    if not is_rows(f._replace(power=ONE)) or f.at[1] != i or f.at[0] == i:
        return None
    if f.atom.name == span:
        return of_atom(identity(new.dim), (f.at[0], new))
    own = span_of(f.atom.name)
    return Tensor((f.at[0], new), ()) if own is not None and wanted is not None and own.apart(wanted) else None


def turned(k: int) -> str:
    """Return the span of all positions, rolled by k."""
    return f"roll {k}"


def inverse_of(span: str, dim: str) -> str | None:
    """Return the span that puts the entries of a reversal, a roll or a permutation back; None for any other span."""
    if span == "::-1":
        return span
    if span.startswith("roll"):
        return turned(-int(span.split()[1]))
    places = listed(span)
    if places is None or not dim.isdecimal() or sorted(places) != list(range(int(dim))):
        return None
    return str([places.index(k) for k in range(len(places))])


def listed(span: str) -> list[int] | None:
    """Return the positions of a list, such as [1, 2, 0]; None for a slice."""
    return [int(word) for word in span[1:-1].split(",")] if span.startswith("[") else None


def _chosen_again(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor | None:
    """Return the entries at positions of entries at positions, both of a list or of a roll; None for anything else."""
    if f.atom.op != "slice" or f.at.count(i) != 1 or f.at.index(i) != f.atom.axes[0]:
        return None
    (inner,) = f.atom.args[0].terms[0].factors
    again = _composed(f.atom.name, span, inner.atom.dims[f.atom.axes[0]])
    at = tuple(new if j == i else j for j in f.at)
    if again is None or again == "":
        return None if again is None else of_atom(inner.atom, at)
    return of_atom(_slice(inner.atom, f.atom.axes[0], again, at), at)


def _composed(first: str, then: str, dim: str) -> str | None:
    """Return two lists or two rolls as one, nothing where they take all entries as they are; None for other spans."""
    if first.startswith("roll") and then.startswith("roll"):
        k = int(first.split()[1]) + int(then.split()[1])
        return turned(k) if k else ""
    own, wanted = listed(first), listed(then)
    if own is None or wanted is None:
        return None
    places = [own[k] for k in wanted]
    return "" if dim.isdecimal() and places == list(range(int(dim))) else str(places)


def _slice(atom: Atom, k: int, span: str, places: tuple[Index, ...]) -> Atom:
    inner = of_atom(atom, tuple(slot(n, d) for n, d in enumerate(atom.dims)))
    return Atom("slice", span, (inner,), tuple(j.dim for j in places), axes=(k,))


def _pushed(
    f: IndexedFactor,
    left: tuple[Index, ...],
    enter: Callable[[Tensor], Tensor],
    written: Callable[[IndexedFactor], Tensor],
) -> Tensor:
    """Return a part of a factor: `enter` is applied to a bracket or to a function's arguments, `written` to any other."""
    if f.atom.op == "group":
        found = enter(outside(f))
    elif _opens(f):
        args = [enter(outside(f, k)) for k in range(len(f.atom.args))]
        own = ALGEBRA[f.atom.op] if f.atom.op in _OWN else None
        found = own(*args) if own else function(f.atom.op, args, left, param=f.atom.param)
    else:
        found = written(f._replace(power=ONE))
    found = Tensor(left, found.terms)
    return found if f.power == 1 else power(found, f.power)


def _opens(f: IndexedFactor) -> bool:
    return f.atom.op == "group" or (f.atom.op in _ELEMENTWISE and not f.atom.axes)


def at_unit(term: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let a unit vector pick an entry of all factors that have its index; alone it sums to one."""
    for f in term.factors:
        if f.atom.op != "unit":
            continue
        if f.power > 1:
            return IndexedTerm(term.coef, (*without(term, f), f._replace(power=ONE)))
        (i,) = f.at
        others = [g for g in term.factors if g is not f and i in g.at]
        bound = i not in free
        if f.power != 1 or (not others and not bound) or (bound and len(others) == 1 and _stays(others[0], f)):
            continue
        picked = product([_picked(g, f) for g in others])
        if not picked.terms:
            return IndexedTerm(Fraction(0))
        whole = one(picked)
        return IndexedTerm(
            term.coef * whole.coef, (*without(term, f, *others), *(() if bound else (f,)), *whole.factors)
        )
    return None


def _stays(g: IndexedFactor, f: IndexedFactor) -> bool:
    """Whether an entry of a factor is written with an index, as that of an input or an inverse is."""
    opened = _opens(g) or g.atom.op == "delta"
    return g.power == 1 and g.at.count(f.at[0]) == 1 and not opened and _in_common(g, f) is None


def _in_common(g: IndexedFactor, f: IndexedFactor) -> int | None:
    """Return the product of two unit vectors, 1 or 0; None if only one counts from the end, or `g` is not one."""
    if g.atom.op != "unit" or (int(g.atom.name) < 0) != (int(f.atom.name) < 0):
        return None
    return int(g.atom.name == f.atom.name)


def _picked(g: IndexedFactor, f: IndexedFactor) -> Tensor:
    """Return the entry of a factor at the position of a unit vector."""
    (i,) = f.at
    left = tuple(j for j in dict.fromkeys(g.at) if j != i)

    def entry(x: Tensor) -> Tensor:
        parts = [sum_over(multiply(Tensor(x.free, (t,)), of_atom(f.atom, (i,))), [i]) for t in x.terms]
        own = tuple(j for j in x.free if j != i)
        return add(parts, own) if parts else Tensor(own, ())

    def written(g: IndexedFactor) -> Tensor:
        common = _in_common(g, f)
        if common is not None:
            return scalar(Fraction(common))
        if g.atom.op == "delta":
            return of_atom(f.atom, left) if left else scalar(ONE)
        places = [fresh(i.dim) if j == i else j for j in g.at]
        units = [IndexedFactor(f.atom, (new,)) for new, j in zip(places, g.at, strict=True) if j == i]
        return Tensor(left, (IndexedTerm(ONE, (g._replace(at=tuple(places)), *units)),))

    return _pushed(g, left, entry, written)


def at_rows(term: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let selected rows of the identity cut a span out of all factors that have their other index."""
    for f in term.factors:
        if not is_rows(f) or f.at[0] == f.at[1]:
            continue
        new, old, span = *f.at, f.atom.name
        if old in free:
            back = None if new in free else inverse_of(span, old.dim)
            if back is None:
                continue
            new, old, span = old, new, back
        others = [g for g in term.factors if g is not f and old in g.at]
        kept = product([_cut(g, old, new, span) for g in others])
        if not kept.terms:
            return IndexedTerm(Fraction(0))
        whole = one(kept)
        after = IndexedTerm(term.coef * whole.coef, (*without(term, f, *others), *whole.factors))
        return summed_still(term.renamed({old: new}), after, free)
    return None


def at_blocks(term: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let a sum along an axis that blocks make up be a sum over each block."""
    for i in term.indices:
        if i in free:
            continue
        mine = [f for f in term.factors if i in f.at]
        if [f.atom.op for f in mine] == ["exp"]:  # what a softmax is divided by
            continue
        spans = {span for f in mine if _opens(f) for span in _spans_of_blocks(f, i)}
        if not (found := spans_in_order(spans)):
            continue
        parts = []
        for span in found:
            new = fresh(span_length(span, i.dim))
            parts.append(sum_over(product([_cut(f, i, new, span) for f in mine]), [new]))
        left = tuple(dict.fromkeys(j for f in mine for j in f.at if j != i))
        whole = one(add(parts, left))
        return IndexedTerm(term.coef * whole.coef, (*without(term, *mine), *whole.factors))
    return None


def _spans_of_blocks(f: IndexedFactor, i: Index) -> Iterator[str]:
    """Yield the spans along an index that blocks take in the arguments of a function or a bracket."""
    for k in range(len(f.atom.args)):
        for g in (g for term in outside(f, k).terms for g in term.factors):
            if is_rows(g) and g.at[1] == i:
                yield g.atom.name
            elif i in g.at and _opens(g):
                yield from _spans_of_blocks(g, i)


def spans_in_order(spans: Collection[str]) -> list[str]:
    """Return the spans from the first position to the last, if each begins where the one before ends; else none."""
    by_start = {span.partition(":")[0]: span for span in spans if span_of(span) is not None}
    found, start = [], ""
    while span := by_start.pop(start, ""):
        found.append(span)
        start = span.partition(":")[2]
        if not start:
            return found if not by_start and len(found) == len(spans) else []
    return []


def with_gaps(spans: Collection[str], dim: str) -> list[str]:
    """Return the spans of blocks from the first position to the last, with those between them; none for spans of numbers.

    None are returned either where the length of one between them is no sum of sizes.
    """
    rest = {span: known for span in spans if (known := span_of(span)) is not None}
    bounds = [b for known in rest.values() for b in (known.start, known.stop) if b is not None]
    if len(rest) < len(spans) or any(b.from_end for b in bounds) or not any(b.names for b in bounds):
        return []
    found: list[str] = []
    start: Position | None = FIRST
    while start is not None:
        after = [(span, known.stop) for span, known in rest.items() if known.start == start]
        if not after:
            nearest = [k.start for k in rest.values() if all(k.start.up_to(o.start) for o in rest.values())]
            stop = nearest[0] if nearest else None
            after = [(f"{start.text() if start != FIRST else ''}:{stop.text() if stop else ''}", stop)]
        span, start = after[0]
        rest.pop(span, None)
        found.append(span)
    lengths = [span_length(span, dim) for span in found]
    return found if not rest and all(lengths) and len(found) > 1 else []


def span_length(span: str, dim: str) -> str:
    """Return the length of a block as a size: k for `m:m + k` or, along an axis of length m + k, for `m:`; "" for none."""
    start, _, stop = span.partition(":")
    end = place_of(dim)
    bounds = (place_of(start or "0"), place_of(stop or dim))
    first, last = (Position(end.names, end.number + b.number) if b.from_end else b for b in bounds)
    names = Counter(last.names)
    names.subtract(first.names)
    return (
        ""
        if min(names.values(), default=0) < 0
        else Position(tuple(names.elements()), last.number - first.number).text()
    )


def is_rows(f: IndexedFactor) -> bool:
    return f.atom.op == "slice" and f.power == 1 and f.atom.args[0].terms[0].factors[0].atom.op == "delta"
