"""Conversion of graphs recorded at several sizes to tensors: linear operations become products and sums."""

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.value_graph import GraphNode
from gradcli.derivation.algebra import (
    ALGEBRA,
    COMPARISONS,
    FUNCTIONS,
    ONE,
    ORDERS,
    RULES,
    ProductRule,
    density,
    exact_number,
    identity,
    inverse_of_product,
    is_truth,
    is_truth_factor,
    multiply,
    over_itself,
    power,
    product,
    restore_lost_sums,
    sum_over,
    tensor_of_number,
    tensor_of_value,
)
from gradcli.derivation.axes import (
    READERS,
    VECTORS,
    Axis,
    Value,
    align_to_axes,
    broadcast_axes,
    indices_of_axes,
    indices_summing_to_one,
    inverse_factors,
    single_index,
    spectral,
    triangular,
    write_cross_products,
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
    bracket,
    fresh_index,
    multiply_term,
    refresh_bound_indices,
    scalar,
    scale_tensor,
    subtract,
    tensor_of_atom,
    tensor_of_size,
)
from gradcli.derivation.simplify import normal, one_base, sign_times
from gradcli.derivation.sized_problem import RECORDINGS
from gradcli.derivation.sized_recording import INDEXING, name_constant_array
from gradcli.derivation.units import (
    at_blocks,
    at_rows,
    at_unit,
    complement_of_triangle,
    cut_span,
    span_length,
    spans_of_blocks,
)
from gradcli.errors import NotSupported

# Simplification rules for products: identities join indices, inverses cancel, sums that are one vanish; one rule each.


def _delta(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Remove an identity by joining its indices."""
    i, j = f.at
    rest = term.without(f)
    if f.power != 1:
        return term.to_power(f, 1)
    if i == j:
        return rest if i in free or i in rest.indices else multiply_term(rest, tensor_of_size(i.dim))
    for gone, stays in ((i, j), (j, i)):
        if gone not in free:
            if gone in rest.indices:
                return rest.renamed({gone: stays})
            lost = stays not in free and stays not in rest.indices
            return multiply_term(rest, tensor_of_size(i.dim)) if lost else rest
    return None


def _inverse(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Replace X inv(X), or an orthogonal matrix times its transpose, by the identity."""
    if f.atom.op == "inv" and f.power == 1:
        inside = argument_of_factor(f).terms
        single = [(base, *base.factors) for base in inside if len(inside) == len(base.factors) == 1]
        pairs = ((base, g, h) for base, g in single for h in term.factors if h.atom == g.atom and h.power == 1)
        for base, g, other in pairs:
            found = _outer_indices_of_pair(f, other, g, free, term)
            if found is not None:
                rest = term.without(f, other).times(IndexedFactor(identity(found[0].dim), found))
                return replace(rest, coef=term.coef / base.coef)
    for other in term.factors if "orthogonal" in f.atom.facts and f.power == 1 else ():
        for k in (0, 1):
            same = other is not f and other.atom == f.atom and other.power == 1 and other.at[k] == f.at[k]
            if same and f.at[k] not in free and term.count(f.at[k]) == 2:
                ends = (f.at[1 - k], other.at[1 - k])
                return term.without(f, other).times(IndexedFactor(identity(ends[0].dim), ends))
    return None


def _outer_indices_of_pair(
    f: IndexedFactor, other: IndexedFactor, inner: IndexedFactor, free: tuple[Index, ...], term: IndexedTerm
) -> tuple[Index, Index] | None:
    """Return the outer indices of inv(X)[a,b] X[b,c] or X[a,b] inv(X)[b,c], whatever the order of X's own indices."""
    flipped = inner.at != f.at
    left, right = f.at[::-1] if flipped else f.at  # inv(X)[left, right], X being atom[left, right] as a matrix
    a, b = other.at[::-1] if flipped else other.at
    for r, l in ((right, left), (left, right)) if f.atom.symmetric else ((right, left),):
        if a == r and r not in free and term.count(r) == 2:
            return l, b
        if b == l and l not in free and term.count(l) == 2:
            return a, r
    return None


def _sums_to_one(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Remove a factor that sums to one over an index that no other factor has."""
    over = [f.at[k] for k in f.atom.axes] if f.atom.op == "softmax" else indices_summing_to_one(f)
    over = _index_of_vectors(f, "onehot") or _index_of_vectors(f, "simplex") or over
    alone = over and all(i not in free and term.count(i) == 1 for i in over)
    if not alone or not (f.power == 1 or f.atom.facts & {"onehot", "onehot rows"}):
        return None
    rest = term.without(f)
    lost = [i for i in f.at if i not in over and i not in free and i not in rest.indices]
    return multiply_term(rest, product([tensor_of_size(i.dim) for i in lost])) if lost else rest


def _picked(term: IndexedTerm, total: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Cancel the entry that an indicator picks with a sum that picks it: e[i] x[i] / sum(e x) is e[i]."""
    if total.power >= 0 or len(total.atom.args[0].terms) != 1:
        return None
    inner = refresh_bound_indices(argument_of_factor(total).terms[0], total.at)
    summed = inner.indices - set(total.at)
    for pick in inner.factors if len(summed) == 1 else ():
        picking = indices_summing_to_one(pick) or (_index_of_vectors(pick, "onehot") if pick.power == 1 else [])
        if set(picking) != summed:
            continue
        for e in (f for f in term.factors if f.atom == pick.atom and f.power >= 1):
            places = dict(zip(pick.at, e.at, strict=True))
            if any(a != b for a, b in places.items() if a not in summed):
                continue
            wanted = [f for f in inner.renamed(places).factors if f != pick._replace(at=e.at)]
            pairs = [(f, g) for f in wanted for g in term.factors if g.atom == f.atom and g.at == f.at]
            if len(pairs) < len(wanted) or any(g.power * f.power <= 0 for f, g in pairs):
                continue
            for f, g in pairs:
                term = term.to_power(g, g.power - f.power)
            return replace(term.to_power(total, total.power + 1), coef=term.coef / inner.coef)
    return None


def _index_of_vectors(f: IndexedFactor, fact: str) -> list[Index]:
    """Return the index that runs along a vector, or along the rows, of which a fact is known; none for other factors."""
    return [f.at[-1]] if f"{fact} rows" in f.atom.facts else [f.at[0]] if fact in f.atom.facts else []


def _numbers(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Compute whole powers of numbers."""
    whole = int(f.power)
    return term.to_power(f, f.power - whole).times(number=Fraction(int(f.atom.name)) ** whole) if whole else None


def _centred(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Sum a bracket over a bound index that no other factor has, if one term or none is left, as for centred values."""
    for i in f.at if f.power == 1 else ():
        if i not in free and term.count(i) == 1:
            inner = sum_over(argument_of_factor(f), [i])
            if not inner.terms:
                return IndexedTerm(Fraction(0))
            if len(inner.terms) == 1:
                return multiply_term(term.without(f), inner)
    return None


def _logistic(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write sigmoid(t) / exp(t) and 1 - sigmoid(t) as sigmoid(-t); beside sigmoid(t), as 1 - sigmoid(t)."""
    if f.atom.op == "expit" and f.power >= 1 and f.power.denominator == 1:
        t = argument_of_factor(f)
        for e in (e for e in term.factors if set(e.at) == set(f.at)):
            opposite = e.atom.op == "exp" and abs(e.power) == 1
            if opposite and scale_tensor(t, -e.power).key == _argument_like(e, t).key:
                rest = term.without(e).to_power(f, f.power - 1)
                return multiply_term(rest, apply_function("expit", [scale_tensor(t, -ONE)], f.at))
            turned = e.atom.op == "expit" and e.power == 1 and e is not f
            same = turned and scale_tensor(t, -ONE).key == _argument_like(e, t).key
            if same and (not t.terms or bracket(t).coef > 0):  # t, and not -t, is the sign that is written
                once = Tensor(f.at, (IndexedTerm(ONE, (f._replace(power=ONE),)),))
                return multiply_term(term.without(e), _one_minus(once))
        for g in term.factors:  # sigmoid(t) (1 + exp(-t)) is 1
            other = _exponential_beside_one(g) if g.power >= 1 and set(g.at) == set(f.at) else None
            if other is None or set(other.at) != set(f.at):
                continue
            if scale_tensor(_argument_like(other, t), -other.power).key == t.key:
                k = min(f.power, g.power)
                return term.to_power(f, f.power - k).to_power(g, g.power - k)
    if f.atom.op == "group" and f.power == 1 and len(f.atom.args[0].terms) == 2:
        parts = argument_of_factor(f).terms
        unit = next((t for t in parts if not t.factors and abs(t.coef) == 1), None)
        s = next((t for t in parts if len(t.factors) == 1 and t.factors[0].atom.op == "expit"), None)
        if unit is None or s is None or s.coef != -unit.coef or s.factors[0].power != 1 or s.indices - set(f.at):
            return None
        inner = argument_of_factor(s.factors[0])
        for e in term.factors:  # (1 - sigmoid(t)) exp(t) is sigmoid(t)
            opposite = e.atom.op == "exp" and e.power == 1 and set(e.at) == set(f.at)
            if opposite and _argument_like(e, inner).key == inner.key:
                return multiply_term(
                    term.without(f, e).times(number=unit.coef), Tensor(f.at, (IndexedTerm(ONE, s.factors),))
                )
        if term.like(s.factors[0]) is None:
            opposite_sigmoid = apply_function("expit", [scale_tensor(inner, -ONE)], f.at)
            return multiply_term(term.without(f).times(number=unit.coef), opposite_sigmoid)
    return None


def _exponential_beside_one(f: IndexedFactor) -> IndexedFactor | None:
    """Return the exponential of a bracket 1 + exp(t), or 1 + 1/exp(t); None for other factors."""
    parts = argument_of_factor(f).terms if f.atom.op == "group" else ()
    unit = any(not t.factors and t.coef == 1 for t in parts)
    alone = (t.factors[0] for t in parts if len(t.factors) == 1 and t.coef == 1)
    e = next((g for g in alone if g.atom.op == "exp"), None)
    return e if len(parts) == 2 and unit and e is not None and abs(e.power) == 1 else None


def _contradiction(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Remove a product with u a > clip(u) a where its other factors say that clip(u) is u."""
    strict = [f, *(g for g in term.factors if g.atom.op in ("greater", "less") and g is not f)]
    orders = (((0, 1) if g.atom.op == "greater" else (1, 0)) for g in strict)
    ends = [(argument_of_factor(g, a), argument_of_factor(g, b)) for g, (a, b) in zip(strict, orders, strict=True)]
    (large, small), *known = ends
    if known and not subtract(_resolve_extremes(large, known), _resolve_extremes(small, known)).terms:
        return IndexedTerm(Fraction(0))
    return None


def _resolve_extremes(x: Tensor, known: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return a tensor with its maxima and minima of operands that are known to be larger and smaller as one of these."""
    parts = []
    for term in x.terms:
        whole = Tensor((), (IndexedTerm(term.coef),))
        for f in term.factors:
            own = tensor_of_atom(f.atom, f.at)
            if f.atom.op == "group":
                own = _resolve_extremes(argument_of_factor(f), known)
            elif f.atom.op in ("maximum", "minimum"):
                operands = argument_of_factor(f), argument_of_factor(f, 1)
                for large, small in known:
                    if all(any(not subtract(a, b).terms for b in operands) for a in (large, small)):
                        own = _resolve_extremes(large if f.atom.op == "maximum" else small, known)
                        break
            whole = multiply(whole, power(own, f.power))
        parts.append(Tensor(x.free, whole.terms))
    return add(parts, x.free)


def _argument_like(f: IndexedFactor, like: Tensor) -> Tensor:
    """Return the argument of a factor with its free indices in the order of another's, so that keys can be compared."""
    x = argument_of_factor(f)
    return Tensor(tuple(i for i in like.free if i in x.free), x.terms)


def _diagonal(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Join the two indices of a diagonal matrix."""
    if "diagonal" not in f.atom.facts or len(f.at) != 2 or f.at[0] == f.at[1]:
        return None
    return next((term.renamed({gone: stays}) for gone, stays in (f.at, f.at[::-1]) if gone not in free), None)


def _facts(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Reduce powers of signs, whose squares are one, and of indicators, which are their own squares; open simple brackets."""
    if "signs" in f.atom.facts and f.power not in (0, 1):
        return restore_lost_sums(term, term.to_power(f, f.power % 2 != 0), free)
    if f.power > 1 and (f.atom.facts & {"onehot", "onehot rows"} or f.atom.op == "tri" or is_truth_factor(f)):
        return term.to_power(f, 1)
    if f.atom.op == "group" and len(f.atom.args[0].terms) == 1 and f.power.denominator == 1 and f.power > 0:
        inner = refresh_bound_indices(argument_of_factor(f).terms[0], f.at)
        if f.power == 1 or not inner.indices - set(f.at):
            opened = (g._replace(power=g.power * f.power) for g in inner.factors)
            return term.without(f).times(*opened, number=inner.coef**f.power.numerator)
    return None


def _signs(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write |u|^2k as u^2k, sign(u) |u|^p for odd p as u^p, and sign(u)^2 as 1, which it is off the kink."""
    if f.atom.op == "sign":
        return None if f.power in (0, 1) else restore_lost_sums(term, term.to_power(f, f.power % 2 != 0), free)
    signs = (g for g in term.factors if g.atom.op == "sign" and g.at == f.at)
    sign = next((g for g in signs if g.atom.args == f.atom.args), None)
    if f.power.denominator > 1 or (f.power % 2 and sign is None):
        return None
    rest = term.without(f, *([sign] if sign is not None and f.power % 2 else []))
    return restore_lost_sums(term, multiply_term(rest, power(argument_of_factor(f), f.power)), free)


def _softmax(term: IndexedTerm, total: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write exp(z) / sum(exp(z)), or a block of it, as softmax(z)."""
    if len(total.atom.args[0].terms) != 1 or total.power.denominator != 1:
        return None
    summed = argument_of_factor(total).terms[0]
    over, u = summed.indices - set(total.at), summed.factors[0] if summed.factors else None
    if u is None or len(summed.factors) != 1 or u.atom.op != "exp" or abs(u.power) != 1 or not over:
        return None
    for e in (e for e in term.factors if e.atom.op == "exp"):
        place = _place_in_sum(e, u, over)
        if place is None or e.power.denominator != 1 or e.power * u.power * total.power >= 0:
            continue
        if any(i != j for i, j in zip(place.at, u.at, strict=True) if j not in over):
            continue
        ours = [i for i, j in zip(place.at, u.at, strict=True) if j in over]
        k = min(abs(e.power), abs(total.power))
        step = -k if total.power > 0 else k
        z = _drop_shift(scale_tensor(argument_of_factor(u._replace(at=place.at)), u.power), ours)
        p = apply_function("softmax", [z], place.at, axes=ours).terms[0].factors[0]
        (p,) = cut_span(tensor_of_atom(p.atom, p.at), *place.cut).terms[0].factors if place.cut else (p,)
        left = {e: e.power - u.power * step, total: total.power + step}
        rest = [f._replace(power=left[f]) if f is e or f is total else f for f in term.factors]
        coef = 1 / summed.coef if summed.coef != 1 else ONE
        return IndexedTerm(term.coef * coef ** int(step), (*(f for f in rest if f.power != 0), p._replace(power=step)))
    return None


class _PlaceInSum(NamedTuple):
    """Which summand an exponential is: the indices of the summand there, and the span of a block that is cut out of it."""

    at: tuple[Index, ...]
    cut: tuple[Index, Index, str] | None = None


def _place_in_sum(e: IndexedFactor, u: IndexedFactor, over: Collection[Index]) -> _PlaceInSum | None:
    """Return the place of an exponential among the summands `u`, or those of one block; None where it is no summand."""
    if e.atom == u.atom:
        return _PlaceInSum(e.at)
    for i in over:
        for span in spans_of_blocks(u, i):
            new, old = fresh_index(span_length(span, i.dim)), fresh_index(i.dim)
            block = cut_span(tensor_of_atom(u.atom, u.at), i, new, span).factor
            if block is not None and block.atom == e.atom:
                places = dict(zip(block.at, e.at, strict=True))
                at = tuple(old if j == i else places[j] for j in u.at)
                return _PlaceInSum(at, (old, places[new], span))
    return None


def _masked(term: IndexedTerm, p: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Leave out an indicator of what a softmax does not mask by -inf beside it; what it masks is 0."""
    for t in argument_of_factor(p).terms if p.power >= 1 else ():
        if t.coef >= 0 or not any(f.atom.op == "inf" for f in t.factors):
            continue
        gone = [f for f in t.factors if f.atom.op != "inf"]
        hidden = Tensor(tuple(dict.fromkeys(i for f in gone for i in f.at)), (IndexedTerm(ONE, tuple(gone)),))
        shown = complement_of_triangle(hidden) or subtract(scalar(ONE), hidden)
        for f in (f for f in term.factors if f.power == 1 and is_truth_factor(f)):
            if len(gone) == 1 and f == gone[0]:
                return IndexedTerm(Fraction(0))
            if not subtract(tensor_of_atom(f.atom, f.at), shown).terms:
                return term.without(f)
    return None


def _drop_shift(z: Tensor, over: Sequence[Index]) -> Tensor:
    """Return the argument of a softmax without what is added to all of its entries, which changes nothing.

    Numbers stay: in z M - 1e9 + 1e9 M, without the first one, z would be rounded to the digits of the last.
    """
    kept = tuple(t for t in z.terms if t.indices & set(over) or not t.factors)
    return Tensor(z.free, kept) if kept and set(z.free) <= {i for t in kept for i in t.indices} else z


def _sigmoid(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write 1/(1 + exp(t)) as sigmoid(-t), and exp(t)/(1 + exp(t)) as sigmoid(t)."""
    e = _exponential_beside_one(f) if f.power < 0 and f.power.denominator == 1 else None
    if e is None or set(e.at) - set(f.at):
        return None
    t = scale_tensor(argument_of_factor(e), e.power)
    rest = term.to_power(f, f.power + 1)
    other = rest.like(e)
    if other is not None and other.power * e.power > 0:
        return multiply_term(rest.to_power(other, other.power - e.power), apply_function("expit", [t], f.at))
    return multiply_term(rest, apply_function("expit", [scale_tensor(t, -ONE)], f.at))


RULES[
    :
] = [  # a rule, the operations of the factors that it looks at, and whether it accounts for the indices it removes
    ProductRule(_numbers, ("number",)),
    ProductRule(_delta, ("delta",), counting=True),
    ProductRule(_softmax, ("group",)),  # before spans are cut out of what it is made of
    ProductRule(at_rows, ("slice",), counting=True),
    ProductRule(at_blocks, counting=True),
    ProductRule(_inverse, ("inv", "input"), counting=True),
    ProductRule(inverse_of_product, ("inv",), counting=True),
    ProductRule(_diagonal, ("input",), counting=True),
    ProductRule(_facts, ("input", "tri", "group", *COMPARISONS), counting=True),
    ProductRule(_signs, ("sign", "absolute"), counting=True),
    ProductRule(_masked, ("softmax",)),
    ProductRule(_sigmoid, ("group",)),
    ProductRule(_logistic, ("expit", "group")),
    ProductRule(at_unit, ("unit",), counting=True),
    ProductRule(_sums_to_one, ("softmax", "input", "equal"), counting=True),
    ProductRule(_centred, ("group",), counting=True),
    ProductRule(over_itself, ("group",), counting=True),
    ProductRule(_picked, ("group",)),
    ProductRule(one_base, ("power",)),
    ProductRule(normal, ("erfc", "group")),
    ProductRule(density, ("exp",)),
    ProductRule(sign_times, ("sign",)),
    ProductRule(_contradiction, ("greater", "less")),
    ProductRule(spectral, tuple(VECTORS), counting=True),
    ProductRule(triangular, ("tri",), counting=True),
    ProductRule(inverse_factors, ("inv",), counting=True),
]


Sizes = Mapping[str, Sequence[int]]  # for each name, its value in every recording
_HALF = Fraction(1, 2)
_POWERS = (Fraction(1), Fraction(-1), _HALF, -_HALF, Fraction(2), Fraction(-2))
_CLOSE = 1e-12
_SIMPLE = 1_000  # the largest denominator of a fraction that a rounded number is taken for
OPERATIONS = READERS | INDEXING


class Reader:
    """Reads the graphs of one program at several sizes as tensors; `facts` are the assumptions about inputs.

    Comparisons by == and != of the inputs that f itself compares are kept, except those of one `continuous` input; others,
    which rules make, are taken as false, which they are at all but single points.
    """

    def __init__(
        self, sizes: Sizes, facts: Mapping[str, frozenset[str]], order: Sequence[str] = (),
        compared: Collection[str] = (), continuous: str | None = None,
    ) -> None:  # fmt: skip
        self.sizes = sizes
        self.compared = frozenset(compared)
        self.continuous = continuous
        self.order = {name: k for k, name in enumerate(order)}
        self.facts = facts
        self.seen: dict[int, Value] = {}
        self.kept: list[Any] = []

    def read(self, graphs: Sequence[Any]) -> Value:
        """Return one value, given as a graph at every size, as a tensor. Raises NotSupported, naming the operation."""
        graphs = tuple(g.fixed() if isinstance(g, GraphNode) else g for g in graphs)
        pending = [graphs]
        while pending:
            here = pending[-1]
            if id(here[0]) in self.seen or not isinstance(here[0], GraphNode):
                pending.pop()
                continue
            first = here[0]
            if any(not isinstance(g, GraphNode) or g.op != first.op or len(g.args) != len(first.args) for g in here):
                if not self.sizes:
                    raise NotSupported("f is computed in another way at other values", do="derive each way by itself")
                says = "the program is another one at another size"
                raise NotSupported(says, do="give sizes as numbers: --shapes x:3")
            unseen = (k for k, a in enumerate(first.args) if isinstance(a, GraphNode) and id(a) not in self.seen)
            if waiting := [tuple(g.args[k] for g in here) for k in unseen]:
                pending += waiting
                continue
            self.seen[id(first)] = self._read_node(here)
            self.kept.append(here)  # so that no id is reused
            pending.pop()
        return self._read_operand(graphs)

    def _read_operand(self, operand: Sequence[Any]) -> Value:
        if isinstance(operand[0], GraphNode):
            return self.seen[id(operand[0])]
        return self.constant([np.asarray(x) for x in operand])

    def dim(self, sizes: Sequence[int]) -> str:
        """Return the size (n, n - 1, n + k - 1, n*m or a number) that has these lengths in the recordings.

        Raises  NotSupported if none has.
        """
        if len(set(sizes)) == 1:
            return str(sizes[0])
        for name, known in self.sizes.items():
            apart = {s - k for s, k in zip(sizes, known, strict=True)}
            if len(apart) == 1:
                d = apart.pop()
                return name if d == 0 else f"{name} - {-d}" if d < 0 else f"{name} + {d}"
        several = (itertools.combinations_with_replacement(self.sizes, k) for k in (2, 3))
        for names in itertools.chain.from_iterable(several):
            apart = {s - sum(own) for s, *own in zip(sizes, *(self.sizes[name] for name in names), strict=True)}
            if len(apart) == 1 and abs(d := apart.pop()) <= 2:
                return " + ".join(names) + (f" - {-d}" if d < 0 else f" + {d}" if d else "")
            if all(math.prod(own) == n for n, *own in zip(sizes, *(self.sizes[name] for name in names), strict=True)):
                return "*".join(names)
        raise NotSupported("an axis has a length that is no named size", do="give sizes as numbers: --shapes x:3")

    def lengths(self, dim: str) -> list[int]:
        """Return the lengths that a size, such as n - 1, has in the recordings."""
        if "*" in dim:
            return [math.prod(own) for own in zip(*map(self.lengths, dim.split("*")), strict=True)]
        name, *moved = dim.split()
        base = [int(name)] * RECORDINGS if name.isdecimal() else self.sizes[name]
        more = [(-1 if sign == "-" else 1, self.lengths(n)) for sign, n in zip(moved[::2], moved[1::2], strict=True)]
        return [n + sum(sign * own[k] for sign, own in more) for k, n in enumerate(base)]

    def axes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Axis, ...]:
        """Return a fresh index for each axis, and None for an axis of length 1."""
        dims = [self.dim(lengths) for lengths in zip(*shapes, strict=True)]
        return tuple(None if d == "1" else fresh_index(d) for d in dims)

    def constant(self, arrays: Sequence[Any]) -> Value:
        """Return a constant: a number, a function of sizes, an array of equal entries, or an array with a name.

        Raises  NotSupported for any other array.
        """
        axes = self.axes([x.shape for x in arrays])
        free = indices_of_axes(*axes)
        if all(x.size and np.all(x == x.flat[0]) for x in arrays):
            number = self.number([float(x.flat[0]) for x in arrays])
            return Value(axes, Tensor(free, number.terms))
        if any("*" in i.dim for i in free):
            raise NotSupported("an array of constants along a product of sizes has no formula", do="make it an input")
        if len(free) in (1, 2):
            found = name_constant_array(free, [x.reshape([n for n in x.shape if n != 1]) for x in arrays])
            if found is not None:
                return Value(axes, Tensor(free, multiply(self.number(found[1]), found[0]).terms))
        raise NotSupported("an array of constants has no formula", do="make it an input")

    def number(self, xs: Sequence[float]) -> Tensor:
        """Return a number that is the same at all sizes, or a simple function of sizes. Raises NotSupported."""
        if len(set(xs)) == 1:
            return tensor_of_number(xs[0])
        for name, known in self.sizes.items():
            apart = [x - n for x, n in zip(xs, known, strict=True)]
            if _has_equal_numbers(apart) and apart[0] == round(apart[0]):
                return add([tensor_of_size(name), scalar(exact_number(apart[0]))])
        sums = ((f"{a} + {b}",) for a, b in itertools.combinations(self.sizes, 2))
        names = itertools.chain.from_iterable(itertools.combinations(self.sizes, count) for count in (1, 2))
        for dims in itertools.chain(sums, names):
            lengths = [self.lengths(d) for d in dims]
            for powers in itertools.product(_POWERS, repeat=len(dims)):
                scales = (
                    math.prod(float(n) ** float(p) for n, p in zip(own, powers, strict=True))
                    for own in zip(*lengths, strict=True)
                )
                ratio = [x / scale for x, scale in zip(xs, scales, strict=True)]
                if _has_equal_numbers(ratio):
                    parts = [power(tensor_of_size(d), p) for d, p in zip(dims, powers, strict=True)]
                    simple = float(Fraction(ratio[0]).limit_denominator(_SIMPLE))  # which it is, up to rounding
                    share = simple if _has_equal_numbers([ratio[0], simple]) else ratio[0]
                    return scale_tensor(product(parts), exact_number(share))
        raise NotSupported("a constant depends on the sizes in a way that is not recognised", do="make it an input")

    def _read_node(self, graphs: Sequence[GraphNode]) -> Value:
        first = graphs[0]
        if first.op.startswith("input "):
            name = first.op.removeprefix("input ")
            axes = self.axes([g.shape for g in graphs])
            at = indices_of_axes(*axes)
            facts = self.facts.get(name, frozenset())
            atom = Atom("input", name, dims=tuple(i.dim for i in at), facts=facts, param=self.order.get(name))
            return Value(axes, tensor_of_atom(atom, at))
        if first.op == "constant":
            return self.constant([np.asarray(g.value) for g in graphs])
        if first.op == "equal" and (where := self._read_index_indicator(graphs)) is not None:
            return where
        xs = [self._read_operand(tuple(g.args[k] for g in graphs)) for k in range(len(first.args))]
        params = [g.params or {} for g in graphs]
        if first.op in OPERATIONS:
            return OPERATIONS[first.op](self, xs, params, graphs)
        axes = broadcast_axes(self, xs, graphs)
        operands = [align_to_axes(x, axes) for x in xs]
        free = indices_of_axes(*axes)
        if first.op in ALGEBRA:
            y = ALGEBRA[first.op](*operands, **params[0])
            y = write_cross_products(y) if first.op in ("add", "subtract") else y
        elif first.op in ("equal", "not_equal"):
            y = self._equality_indicator(first.op == "not_equal", *operands)
        elif first.op in ORDERS and (truth := _compare_indicator(first.op, *operands)) is not None:
            y = truth
        elif first.op in _LOGICAL:
            y = _LOGICAL[first.op](*(self._equality_indicator(True, x, scalar(Fraction(0))) for x in operands))
        elif first.op in FUNCTIONS and operands and all(x.number is not None for x in operands):
            value = float(np.asarray(first.value).flat[0])
            y = tensor_of_value(first.op, [float(x.number or 0) for x in operands], value)
        elif first.op == "polygamma":
            y = apply_function(first.op, [scalar(Fraction(params[0]["n"])), *operands], free)
        elif first.op in FUNCTIONS:
            if any(params):
                raise NotSupported(f"{first.op} has parameters that formulas do not show")
            y = apply_function(first.op, operands, free)
        else:
            raise NotSupported(f"{first.op} has no closed form here", do="gradcli check verifies its gradient")
        return Value(axes, Tensor(free, y.terms))

    def _read_index_indicator(self, graphs: Sequence[GraphNode]) -> Value | None:
        """Return where an input that is an index has its value, as k == 0, 1, ..., n - 1; None for other comparisons."""
        for k in (0, 1):
            positions = [np.asarray(getattr(g.args[1 - k], "value", g.args[1 - k])) for g in graphs]
            given = isinstance(graphs[0].args[1 - k], GraphNode) and graphs[0].args[1 - k].op != "constant"
            if given or any(x.ndim != 1 or not np.array_equal(x, np.arange(len(x))) for x in positions):
                continue
            place = self._read_operand(tuple(g.args[k] for g in graphs))
            last = single_index(self.axes([x.shape for x in positions])[0])
            if last is None or (place.axes and place.axes[-1] is not None):
                continue
            axes = (*place.axes[:-1], last)
            along = tensor_of_atom(Atom("arange", dims=(last.dim,)), (last,))
            return Value(axes, apply_function("equal", [place.tensor, along], indices_of_axes(*axes)))
        return None

    def _equality_indicator(self, unlike: bool, a: Tensor, b: Tensor) -> Tensor:
        """Return a == b, or a != b, as 0 or 1."""
        free = add([a, b]).free
        difference = subtract(a, b)
        if difference.number is not None:
            return scalar(Fraction((difference.number != 0) == unlike))
        for x, number in ((a, b.number), (b, a.number)):
            if number is not None and is_truth(x):
                if number not in (0, 1):
                    return scalar(Fraction(unlike))
                return x if (number == 1) != unlike else _one_minus(x, free)
        names = a.inputs | b.inputs
        same = apply_function("equal", [a, b], free)
        largest = same.factor is not None and bool(indices_summing_to_one(same.factor))
        if not (names & self.compared or largest) or self.continuous in names:
            return scalar(Fraction(unlike))
        return _one_minus(same, free) if unlike else same


def _compare_indicator(op: str, a: Tensor, b: Tensor) -> Tensor | None:
    """Return a comparison of an indicator, or a triangle of ones, with a number; None for other operands."""
    x, number = (a, b.number) if b.number is not None else (b, a.number)
    if number is None or not is_truth(x):
        return None
    at_zero, at_one = (ORDERS[op](v, number) if x is a else ORDERS[op](number, v) for v in (Fraction(0), ONE))
    if at_zero == at_one:
        return scalar(Fraction(at_one))
    return x if at_one else _one_minus(x)


def _one_minus(x: Tensor, free: tuple[Index, ...] | None = None) -> Tensor:
    return subtract(scalar(ONE), x, free)


_LOGICAL: dict[str, Callable[..., Tensor]] = {
    "logical_not": _one_minus, "logical_and": multiply,
    "logical_or": lambda a, b: _one_minus(multiply(_one_minus(a), _one_minus(b))),  # not that neither holds
}  # fmt: skip


def _has_equal_numbers(xs: Sequence[float]) -> bool:
    return all(abs(x - xs[0]) <= _CLOSE * abs(xs[0]) for x in xs)
