"""Entries and spans at fixed positions: unit vectors, selected rows of the identity, triangles of ones."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from gradcli.classes import dataclass
from gradcli.derivation.algebra import (
    ALGEBRA,
    FUNCTIONS,
    apply_rules,
    identity,
    multiply,
    power,
    product,
    restore_lost_sums,
    sum_over,
)
from gradcli.derivation.index import (
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    apply_function,
    argument_of_factor,
    fresh_index,
    multiply_term,
    scalar,
    slot,
    tensor_of_atom,
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


def parse_span(text: str) -> PositionRange | None:
    """Return a slice of neighbouring positions as a span; None for a list of positions, or for steps."""
    start, colon, stop = text.partition(":")
    if not colon or ":" in stop or (stop and parse_position(stop) == FIRST):
        return None
    return PositionRange(parse_position(start or "0"), parse_position(stop) if stop else None)


def parse_position(text: str) -> Position:
    """Return a size or a number, such as `m + k`, `n - 1` or `-2`, as a position."""
    terms = terms_of_size(text)
    number = sum(int(sign + word) for sign, word in terms if word.isdecimal())
    return Position(tuple(word for _, word in terms if not word.isdecimal()), number)


def range_of_position(place: int) -> PositionRange:
    """Return the span of one position."""
    return PositionRange(Position(number=place), None if place == -1 else Position(number=place + 1))


ONE = Fraction(1)
_OWN = {"exp", "log", "absolute"}  # functions that `algebra` writes in their own way
_ELEMENTWISE = FUNCTIONS | _OWN | {"power"}


def unit_vector(dim: str, place: int) -> Atom:
    """Return the vector of zeros with a 1 at one position; a negative position counts from the end."""
    return Atom("unit", str(place + int(dim) if place < 0 and dim.isdecimal() else place), dims=(dim,))


def triangle_of_ones(dims: Sequence[str], k: int) -> Atom:
    """Return the matrix with ones on and below its k-th diagonal, and zeros above."""
    return Atom("tri", str(k), dims=tuple(dims))


def complement_of_triangle(x: Tensor) -> Tensor | None:
    """Return 1 - x where x is a triangle of ones: the other triangle. None for anything else."""
    f = x.factor
    if f is None or f.atom.op != "tri":
        return None
    return Tensor(x.free, tensor_of_atom(triangle_of_ones(f.atom.dims[::-1], -1 - int(f.atom.name)), f.at[::-1]).terms)


def selection_matrix(span: str, new: Index, old: Index) -> Tensor:
    """Return the matrix that selects a span: rows of the identity."""
    return tensor_of_atom(_slice_atom(identity(old.dim), 0, span, (new, old)), (new, old))


def cut_span(x: Tensor, i: Index, new: Index, span: str) -> Tensor:
    """Return the span of a tensor along an index: all factors with the index are cut."""
    free = tuple(new if j == i else j for j in x.free)
    parts = []
    for term in x.terms:
        mine = [f for f in term.factors if i in f.at]
        rest = term.without(*mine)
        whole = product([Tensor(tuple(rest.indices), (rest,)), *(_cut_factor(f, i, new, span) for f in mine)])
        parts.append(Tensor(free, tuple(apply_rules(t, free) for t in whole.terms)))
    return add(parts, free)


def _cut_factor(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor:
    def written(g: IndexedFactor) -> Tensor:
        if g.atom.op == "delta":
            return selection_matrix(span, new, next((j for j in g.at if j != i), new))
        known = _simple_cut(g, i, new, span) or _compose_selections(g, i, new, span)
        if known is not None:
            return known
        places = g.at
        atom = g.atom
        for k, j in enumerate(g.at):
            if j == i:
                places = tuple(new if n == k else a for n, a in enumerate(places))
                atom = _slice_atom(atom, k, span, places)
        return tensor_of_atom(atom, places)

    left = tuple(dict.fromkeys(new if j == i else j for j in f.at))
    return _push_into_factor(f, left, lambda x: cut_span(x, i, new, span), written)


def _simple_cut(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor | None:
    """Return the span of a unit vector, of selected rows of the identity, or of a padded vector, if it is simple; else None."""
    wanted = parse_span(span)
    if f.atom.op == "unit" and wanted is not None:
        place = int(f.atom.name)
        if range_of_position(place).apart(wanted):
            return Tensor((new,), ())
        first = wanted.start
        if place >= 0 and not (first.names or first.from_end) and range_of_position(place).within(wanted):
            return tensor_of_atom(unit_vector(new.dim, place - first.number), (new,))
        return None
    if f.atom.op == "pad" and f.atom.name == span:
        return f.atom.args[0].renamed({f.atom.args[0].free[0]: new})
    if not is_selection_matrix(f._replace(power=ONE)) or f.at[1] != i or f.at[0] == i:
        return None
    if f.atom.name == span:
        return tensor_of_atom(identity(new.dim), (f.at[0], new))
    own = parse_span(f.atom.name)
    return Tensor((f.at[0], new), ()) if own is not None and wanted is not None and own.apart(wanted) else None


def roll_span(k: int) -> str:
    """Return the span of all positions, rolled by k."""
    return f"roll {k}"


def inverse_span(span: str, dim: str) -> str | None:
    """Return the span that puts the entries of a reversal, a roll or a permutation back; None for any other span."""
    if span == "::-1":
        return span
    if span.startswith("roll"):
        return roll_span(-int(span.split()[1]))
    places = positions_in_list(span)
    if places is None or not dim.isdecimal() or sorted(places) != list(range(int(dim))):
        return None
    return str([places.index(k) for k in range(len(places))])


def positions_in_list(span: str) -> list[int] | None:
    """Return the positions of a list, such as [1, 2, 0]; None for a slice."""
    return [int(word) for word in span[1:-1].split(",")] if span.startswith("[") else None


def _compose_selections(f: IndexedFactor, i: Index, new: Index, span: str) -> Tensor | None:
    """Return the entries at positions of entries at positions, both of a list or of a roll; None for anything else."""
    if f.atom.op != "slice" or f.at.count(i) != 1 or f.at.index(i) != f.atom.axes[0]:
        return None
    (inner,) = f.atom.args[0].terms[0].factors
    k = f.atom.axes[0]
    again = _compose_spans(f.atom.name, span, inner.atom.dims[k])
    at = tuple(new if j == i else j for j in f.at)
    if again is None:
        return None
    return tensor_of_atom(_slice_atom(inner.atom, k, again, at) if again else inner.atom, at)


def _compose_spans(first: str, then: str, dim: str) -> str | None:
    """Return two lists or two rolls as one, nothing where they take all entries as they are; None for other spans."""
    if first.startswith("roll") and then.startswith("roll"):
        k = int(first.split()[1]) + int(then.split()[1])
        return roll_span(k) if k else ""
    own, wanted = positions_in_list(first), positions_in_list(then)
    if own is None or wanted is None:
        return None
    places = [own[k] for k in wanted]
    return "" if dim.isdecimal() and places == list(range(int(dim))) else str(places)


def _slice_atom(atom: Atom, k: int, span: str, places: tuple[Index, ...]) -> Atom:
    inner = tensor_of_atom(atom, tuple(slot(n, d) for n, d in enumerate(atom.dims)))
    return Atom("slice", span, (inner,), tuple(j.dim for j in places), axes=(k,))


def _push_into_factor(
    f: IndexedFactor,
    left: tuple[Index, ...],
    enter: Callable[[Tensor], Tensor],
    written: Callable[[IndexedFactor], Tensor],
) -> Tensor:
    """Return a part of a factor: `enter` is applied to a bracket or to a function's arguments, `written` to any other."""
    if f.atom.op == "group":
        found = enter(argument_of_factor(f))
    elif _can_be_entered(f):
        args = [enter(argument_of_factor(f, k)) for k in range(len(f.atom.args))]
        own = ALGEBRA[f.atom.op] if f.atom.op in _OWN else None
        found = own(*args) if own else apply_function(f.atom.op, args, left, param=f.atom.param)
    else:
        found = written(f._replace(power=ONE))
    found = Tensor(left, found.terms)
    return found if f.power == 1 else power(found, f.power)


def _can_be_entered(f: IndexedFactor) -> bool:
    return f.atom.op == "group" or (f.atom.op in _ELEMENTWISE and not f.atom.axes)


def at_unit(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let a unit vector pick an entry of all factors that have its index; alone it sums to one."""
    if f.power > 1:
        return term.to_power(f, 1)
    (i,) = f.at
    others = [g for g in term.factors if g is not f and i in g.at]
    bound = i not in free
    if f.power != 1 or not (others or bound):
        return None
    if bound and len(others) == 1:  # an entry that is written with an index, as that of an input or an inverse is
        (g,) = others
        opened = _can_be_entered(g) or g.atom.op == "delta"
        if g.power == 1 and g.at.count(i) == 1 and not opened and _product_of_units(g, f) is None:
            return None
    picked = product([_entry_of_factor(g, f) for g in others])
    if not picked.terms:
        return IndexedTerm(Fraction(0))
    return multiply_term(term.without(f, *others).times(*([] if bound else [f])), picked)


def _product_of_units(g: IndexedFactor, f: IndexedFactor) -> int | None:
    """Return the product of two unit vectors, 1 or 0; None if only one counts from the end, or `g` is not one."""
    if g.atom.op != "unit" or (int(g.atom.name) < 0) != (int(f.atom.name) < 0):
        return None
    return int(g.atom.name == f.atom.name)


def _entry_of_factor(g: IndexedFactor, f: IndexedFactor) -> Tensor:
    """Return the entry of a factor at the position of a unit vector."""
    (i,) = f.at
    left = tuple(j for j in dict.fromkeys(g.at) if j != i)

    def entry(x: Tensor) -> Tensor:
        parts = [sum_over(multiply(Tensor(x.free, (t,)), tensor_of_atom(f.atom, (i,))), [i]) for t in x.terms]
        own = tuple(j for j in x.free if j != i)
        return add(parts, own)

    def written(g: IndexedFactor) -> Tensor:
        common = _product_of_units(g, f)
        if common is not None:
            return scalar(Fraction(common))
        if g.atom.op == "delta":
            return tensor_of_atom(f.atom, left) if left else scalar(ONE)
        places = [fresh_index(i.dim) if j == i else j for j in g.at]
        units = [IndexedFactor(f.atom, (new,)) for new, j in zip(places, g.at, strict=True) if j == i]
        return Tensor(left, (IndexedTerm(ONE, (g._replace(at=tuple(places)), *units)),))

    return _push_into_factor(g, left, entry, written)


def at_rows(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let selected rows of the identity cut a span out of all factors that have their other index."""
    if not is_selection_matrix(f) or f.at[0] == f.at[1]:
        return None
    new, old, span = *f.at, f.atom.name
    if old in free:
        back = None if new in free else inverse_span(span, old.dim)
        if back is None:
            return None
        new, old, span = old, new, back
    others = [g for g in term.factors if g is not f and old in g.at]
    kept = product([_cut_factor(g, old, new, span) for g in others])
    if not kept.terms:
        return IndexedTerm(Fraction(0))
    return restore_lost_sums(term.renamed({old: new}), multiply_term(term.without(f, *others), kept), free)


def at_blocks(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Let a sum along an axis that blocks make up be a sum over each block."""
    for i in f.at:
        mine = [g for g in term.factors if i in g.at]
        # each index is looked at once; the sum of exp alone is what a softmax is divided by
        if i in free or mine[0] is not f or [g.atom.op for g in mine] == ["exp"]:
            continue
        spans = {span for g in mine if _can_be_entered(g) for span in spans_of_blocks(g, i)}
        if not (found := order_adjacent_spans(spans)):
            continue
        parts = []
        for span in found:
            new = fresh_index(span_length(span, i.dim))
            parts.append(sum_over(product([_cut_factor(g, i, new, span) for g in mine]), [new]))
        left = tuple(dict.fromkeys(j for g in mine for j in g.at if j != i))
        return multiply_term(term.without(*mine), add(parts, left))
    return None


def spans_of_blocks(f: IndexedFactor, i: Index) -> Iterator[str]:
    """Yield the spans along an index that blocks take in the arguments of a function or a bracket."""
    for k in range(len(f.atom.args)):
        for g in (g for term in argument_of_factor(f, k).terms for g in term.factors):
            if is_selection_matrix(g) and g.at[1] == i:
                yield g.atom.name
            elif i in g.at and _can_be_entered(g):
                yield from spans_of_blocks(g, i)


def order_adjacent_spans(spans: Collection[str]) -> list[str]:
    """Return the spans from the first position to the last, if each begins where the one before ends; else none."""
    by_start = {span.partition(":")[0]: span for span in spans if parse_span(span) is not None}
    found, start = [], ""
    while span := by_start.pop(start, ""):
        found.append(span)
        start = span.partition(":")[2]
        if not start:
            return found if not by_start and len(found) == len(spans) else []
    return []


def fill_gaps_in_spans(spans: Collection[str], dim: str) -> list[str]:
    """Return the spans of blocks from the first position to the last, with those between them; none for spans of numbers.

    None are returned either where the length of one between them is no sum of sizes.
    """
    rest = {span: known for span in spans if (known := parse_span(span)) is not None}
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
    end = parse_position(dim)
    bounds = (parse_position(start or "0"), parse_position(stop or dim))
    first, last = (Position(end.names, end.number + b.number) if b.from_end else b for b in bounds)
    names = Counter(last.names)
    names.subtract(first.names)
    if min(names.values(), default=0) < 0:
        return ""
    return Position(tuple(names.elements()), last.number - first.number).text()


def is_selection_matrix(f: IndexedFactor) -> bool:
    return f.atom.op == "slice" and f.power == 1 and f.atom.args[0].terms[0].factors[0].atom.op == "delta"
