"""Printing of tensors as expressions of matrices: a bound index is summed by the matrix product that expresses it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.algebra import (
    ALGEBRA,
    FUNCTIONS,
    ORDERS,
    elementwise_function,
    identity,
    is_exp_of_logs,
    is_truth,
    multiply,
)
from gradcli.derivation.algebra import power as raised
from gradcli.derivation.axes import OPAQUE, Value
from gradcli.derivation.index import (
    SINGLE,
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    argument_of_factor,
    fresh_index,
    magnitude,
    scalar,
    slot,
)
from gradcli.derivation.matrix_expression import (
    E,
    Number,
    Op,
    call,
    count_removed_axes,
    expression_text,
    index_array,
    matmul,
    mul,
    name,
    neg,
    number,
    replace_part,
    transpose,
)
from gradcli.derivation.units import (
    complement_of_triangle,
    fill_gaps_in_spans,
    is_selection_matrix,
    order_adjacent_spans,
    parse_position,
    span_length,
)
from gradcli.errors import GradcliError, NotSupported
from gradcli.targets.expression import Expression

NAMES = {"absolute": "abs", "expit": "sigmoid", "gammaln": "gammaln"}
SIGNS = {"greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!="}


# Operands of matrix products: parts of arrays, padded vectors, triangles of ones.


MatrixPiece = Callable[[tuple[Index, ...]], E]  # an expression with its axes in an order


def make_piece(e: E, at: tuple[Index, ...]) -> MatrixPiece:
    """Return an expression as a piece, which is transposed for the other order of its axes."""
    return lambda wanted: e if wanted == at else transpose(e)


@dataclass(frozen=True)
class Quotient:
    """A factor of a product: the quotient of two products of pieces with the same axes."""

    at: tuple[Index, ...]
    top: tuple[MatrixPiece, ...]
    low: tuple[MatrixPiece, ...] = ()

    def e(self, at: tuple[Index, ...] | None = None) -> E:
        """Return the quotient with its axes in this order."""
        order = self.at if at is None else at
        return mul(apply_triangles([x(order) for x in self.top]), [x(order) for x in self.low])


Write = Callable[[Atom, tuple[int, ...]], E]  # an atom, its own indices in an order


def write_picked_entries(
    factors: Sequence[IndexedFactor], at: tuple[Index, ...], write: Write
) -> tuple[list[Quotient], list[IndexedFactor]]:
    """Return the factors whose entries unit vectors pick, written like `W[0, :]`, and the other factors."""
    picks: dict[int, dict[int, str]] = {}
    used: set[int] = set()
    for n, u in enumerate(factors):
        i = u.at[0]
        mine = [k for k, g in enumerate(factors) if k != n and i in g.at]
        if u.atom.op != "unit" or i in at or len(mine) != 1 or mine[0] in used or n in picks:
            continue
        g = factors[mine[0]]
        if g.at.count(i) == 1 and g.power == 1:
            picks.setdefault(mine[0], {})[g.at.index(i)] = u.atom.name
            used.add(n)
    parts = []
    for k, spans in picks.items():
        g = factors[k]
        left = tuple(i for n, i in enumerate(g.at) if n not in spans)
        axes = range(len(g.at))
        e = _index_through_transpose(write(g.atom, tuple(axes)), [spans.get(n, ":") for n in axes])
        parts.append(Quotient(left, (make_piece(e, left),)))
    return parts, [f for k, f in enumerate(factors) if k not in picks and k not in used]


def _index_through_transpose(e: E, parts: list[str]) -> E:
    """Return a part of an array; a part of a transpose as the transpose of a part."""
    if e.op != Op.TRANSPOSE:
        return index_array(e, parts)
    spans = all(":" in p or "[" in p for p in parts)
    turned = index_array(e.args[0], parts[::-1])
    return transpose(turned) if spans else turned


def squeeze_input(atom: Atom) -> E:
    """Return an input without its axes of length 1."""
    single = {int(word.removeprefix(SINGLE)) for word in atom.facts if word.startswith(SINGLE)}
    rank = len(atom.dims) + len(single)
    return index_array(name(atom.name, axes=rank), ["0" if k in single else ":" for k in range(rank)])


def restore_single_axes(
    e: E, axes: Sequence[Index | None], wrt: str, values: Mapping[str, Any], right: Any
) -> tuple[E, bool]:
    """Return a derivative in the shape of its input, which has axes of length 1, and whether its shape and value are right.

    The value is compared with `right`, unless that is None.
    """
    known = None if right is None else np.asarray(getattr(right, "value", right), dtype=np.float64)
    spread = index_array(e, ["None" if i is None else ":" for i in axes]) if len(axes) > 2 or axes[:1] == (None,) else e
    for form in (e, E("column", (e,)) if axes[-1] is None else e, spread, mul([e, call("ones_like", name(wrt))])):
        formula = Expression(expression_text(form))
        try:
            with np.errstate(all="ignore"):
                found = formula({n: np.asarray(values[n], dtype=np.float64)[()] for n in formula.inputs})
        except GradcliError:
            continue
        alike = np.shape(found) == np.shape(values[wrt])
        if alike and (known is None or np.allclose(found, known, equal_nan=True)):
            return form, True
    return e, False


def write_slice(atom: Atom, order: tuple[int, ...], write: Write) -> E:
    """Return a span of an array along an axis."""
    (whole,) = atom.args[0].terms
    e = write(whole.factors[0].atom, order)
    k = order.index(atom.axes[0])
    if atom.name == "::-1":
        return call("flip", e, **({"axis": str(k)} if len(order) > 1 else {}))
    if atom.name.startswith("roll"):
        return call("roll", e, number(Fraction(atom.name.split()[1])), **({"axis": str(k)} if len(order) > 1 else {}))
    return _index_through_transpose(e, [atom.name if n == k else ":" for n in range(len(order))])


def write_padded_vector(atom: Atom, inner: E) -> E:
    """Return a vector padded with zeros."""
    start = int(atom.name.partition(":")[0] or 0)
    longer, shorter = (parse_position(dim) for dim in (atom.dims[0], atom.args[0].free[0].dim))
    if sorted(longer.names) != sorted(shorter.names):
        raise NotSupported("a span has a size of its own")
    zeros = (", ".join(["0"] * k) for k in (start, longer.number - shorter.number - start))
    return E("concat", (inner,), "|".join(f"[{shown}]" if shown else "" for shown in zeros))


def matrix_times_vector(a: E, v: E) -> E:
    """Return the product of a matrix and a vector; for a triangle of ones, as cumsum(v), which forms no matrix."""
    *before, last = a.args if a.op == Op.MATMUL else (a,)
    rows = last.op == "index" and "," not in last.text and _is_triangle_of_ones(last.args[0])
    if _is_triangle_of_ones(last) or rows:
        v = replace(last, args=(call("cumsum", v),)) if rows else call("cumsum", v)
    elif last.op == Op.TRANSPOSE and _is_triangle_of_ones(last.args[0]):
        v = _reverse_vector(call("cumsum", _reverse_vector(v)))
    else:
        return matmul(a, v)
    return matmul(*before, v) if before else v


def apply_triangles(parts: Sequence[E]) -> list[E]:
    """Return the factors of an elementwise product; a triangle of ones becomes tril or triu of the other factors."""
    for k, a in enumerate(parts):
        inner = a.args[0] if a.op == Op.TRANSPOSE else a
        others = [b for n, b in enumerate(parts) if n != k]
        if others and inner.is_call("tril") and inner.args[0].text == "ones":
            if inner is a:
                return [call("tril", mul(others), *a.args[1:])]
            return [call("triu", mul(others), *map(neg, inner.args[1:]))]
    return list(parts)


def write_triangle(atom: Atom, order: tuple[int, ...]) -> E:
    """Return a triangle of ones."""
    ones = call("ones", *(name(d) for d in atom.dims))
    e = call("tril", ones, *([] if atom.name == "0" else [number(Fraction(atom.name))]))
    return e if order == tuple(sorted(order)) else transpose(e)


def product_from_logs(logs: E) -> E:
    """Return exp(sum(log(u))) as the product of the entries of u, and the exponential of several such sums as their product."""
    if logs.op == Op.ADD:
        return mul([product_from_logs(a) for a in logs.args])
    if logs.is_call("log"):
        return logs.args[0]
    if logs.is_call("sum") and logs.args[0].is_call("log"):
        return E("call", logs.args[0].args, "prod", options=logs.options)
    return call("exp", logs)


def _is_triangle_of_ones(e: E) -> bool:
    return e.is_call("tril") and len(e.args) == 1 and e.args[0].text == "ones"


def _reverse_vector(v: E) -> E:
    return v.args[0] if v.is_call("flip") else call("flip", v)


ONE_ENTRY = call("ones", number(Fraction(1)))  # makes an array of a number


def _blocks_along(x: Tensor, i: Index) -> tuple[dict[str, tuple[Index | None, list[IndexedTerm]]], list[IndexedTerm]]:
    """Return the terms that fill spans along an index, each span with an index of its own, and the other terms.

    A span of length 1 has no index.
    """
    blocks: dict[str, tuple[Index | None, list[IndexedTerm]]] = {}
    others = []
    for term in x.terms:
        selecting = (f for f in term.factors if is_selection_matrix(f) or f.atom.op == "unit")
        mine = [f for f in selecting if f.at[-1] == i]
        rest = term.without(*mine).factors
        if len(mine) != 1 or mine[0].power != 1 or any(i in f.at for f in rest):
            others.append(term)
            continue
        (f,) = mine
        if f.atom.op == "unit":
            place = int(f.atom.name)
            last = i.dim.isdecimal() and place + 1 == int(i.dim) and len(x.free) == 2
            span = f"{place or ''}:{'' if last else place + 1 or ''}"
            blocks.setdefault(span, (None, []))[1].append(IndexedTerm(term.coef, rest))
            continue
        old = f.at[0]
        new, terms = blocks.setdefault(f.atom.name, (fresh_index(old.dim), []))
        assert new is not None
        if old in x.free:  # rows of an identity, which are a block of their own
            terms.append(IndexedTerm(term.coef, (*rest, IndexedFactor(identity(new.dim), (new, old)))))
        else:
            terms.append(IndexedTerm(term.coef, rest).renamed({old: new}))
    return blocks, others


class Printer:
    """Writes tensors as expressions; `likes` has an input for the sizes of axes, whose shape ones and zeros can take."""

    def __init__(self, likes: Mapping[tuple[str, ...], str]) -> None:
        self.likes = likes
        # by the sizes, too, as identities differ by these alone
        self.written: dict[tuple[Atom, tuple[str, ...], tuple[int, ...]], E] = {}

    def write(self, x: Tensor, axes: Sequence[Index | None]) -> E:
        """Return a tensor as an expression of an array with these axes. Raises NotSupported if it has no form."""
        at = tuple(i for i in axes if i is not None)
        if not x.terms:
            return self.filled(at, number(Fraction(0)))
        masked = any(f.atom.op == "inf" for t in x.terms for f in t.factors)
        if masked and (e := self.by_cases(x, axes, points=True)) is not None:  # 0 times infinity is nan
            return e
        if (e := self._write_in_blocks(x, axes)) is not None:
            return e
        parts = [self._write_term(t, at) for t in x.terms]
        spread = len(at) > 2 and {i for t in x.terms for i in t.indices}.issuperset(at)
        whole = spread or any(covers for _, covers in parts)
        terms = [e if covers or whole or not at else mul([e, self.filled(at, ex.ONE)]) for e, covers in parts]
        return ex.without_minus(terms[0]) if len(terms) == 1 else ex.add(terms)

    def _write_in_blocks(self, x: Tensor, axes: Sequence[Index | None]) -> E | None:
        """Return a tensor whose terms fill blocks of an axis as arrays beside or below each other, and other terms added.

        None is returned where no axis has blocks of named sizes.
        """
        for k, i in enumerate(axes):
            blocks, others = ({}, ()) if i is None else _blocks_along(x, i)
            spans = [] if i is None or not blocks else order_adjacent_spans(blocks) or fill_gaps_in_spans(blocks, i.dim)
            if i is None or len(spans) < 2:
                continue
            negative = all(t.coef < 0 for _, own in blocks.values() for t in own)
            written = []
            for span in spans:
                new, terms = blocks.get(span) or (fresh_index(span_length(span, i.dim)), [])
                signed = [IndexedTerm(-t.coef, t.factors) if negative else t for t in terms]
                written.append(self._write_block(signed, [new if a == i else a for a in axes], k))
            whole = call("concatenate", *written, axis=str(k))
            whole = neg(whole) if negative else whole
            return ex.add([self.write(Tensor(x.free, tuple(others)), axes), whole]) if others else whole
        return None

    def _write_block(self, terms: Sequence[IndexedTerm], axes: Sequence[Index | None], k: int) -> E:
        """Return one of several arrays along the k-th axis, with its axes of length 1."""
        at = tuple(a for a in axes if a is not None)
        e = self.write(Tensor(at, tuple(terms)), axes) if terms else call("zeros", *(name(a.dim) for a in at))
        if axes[k] is not None:
            return e
        if len(axes) == 1:
            return mul([e, ONE_ENTRY])
        return index_array(e, ["None" if n == k else ":" for n in range(len(axes))]) if k == 0 else E("column", (e,))

    def oriented(self, e: E) -> E:
        """Return an expression in which a function of a matrix occurs in one orientation: softmax(K@Q.T, axis=0) is P.T."""
        inside = {*e.walk()}
        for (atom, dims, order), turned in self.written.items():
            straight = self.written.get((atom, dims, order[::-1])) if order == (1, 0) else None
            if straight is None or not {straight, turned} <= inside:
                continue
            if any(a.op not in ("call", "compare") for a in (straight, turned)):
                continue
            kept, other = (straight, turned) if ("axis", "0") not in straight.options else (turned, straight)
            e = replace_part(e, other, transpose(kept))
        return e

    def filled(self, at: tuple[Index, ...], value: E) -> E:
        """Return an array of equal entries."""
        if not at:
            return value
        like = self.likes.get(tuple(i.dim for i in at))
        ones = call("ones_like", name(like)) if like else call("ones", *(name(i.dim) for i in at))
        zero = value == number(Fraction(0))
        return E(ones.op, ones.args, ones.text.replace("ones", "zeros")) if zero else mul([value, ones])

    def _write_term(self, term: IndexedTerm, at: tuple[Index, ...]) -> tuple[E, bool]:
        """Return a term as products of matrices or, if these cannot express it, as one broadcast array or one einsum."""
        with contextlib.suppress(NotSupported):
            return self._write_matrix_term(term, at)
        with contextlib.suppress(NotSupported):
            return self._write_with_new_axes(term, at), {*at} <= term.indices
        return self._einsum(term, at), {*at} <= term.indices

    def _write_with_new_axes(self, term: IndexedTerm, at: tuple[Index, ...]) -> E:
        """Return arrays with new axes where they have none: one, or its sum over an index; a product that lacks an index.

        Raises  NotSupported for other products, which an einsum forms and sums.
        """
        factors = [f for f in term.factors if f.at]
        bound = [i for i in term.indices if i not in at]
        every = (*at, *bound)
        alone = len(factors) == 1 and len(bound) <= 1
        partial = not bound and not {*at} <= term.indices
        if len(every) < 3 or not (alone or partial) or any(len({*f.at}) < len(f.at) for f in factors):
            raise NotSupported("a derivative of so many axes has no form here")
        above: list[E] = []
        below: list[E] = []
        for f in factors:
            order = tuple(f.at.index(i) for i in every if i in f.at)
            e, on_top = _raise_to_power(f, self.atom(f.atom, order))
            e = index_array(e, [":" if i in f.at else "None" for i in every]) if len(f.at) < len(every) else e
            (above if on_top else below).append(e)
        top, low = self._write_scalars(term)
        if bound:
            above, below = [call("sum", mul(above or [ex.ONE], below), axis=str(len(at)))], []
        return _with_coefficient(term.coef, [*top, *above], [*below, *low])

    def _einsum(self, term: IndexedTerm, at: tuple[Index, ...]) -> E:
        letters = dict(zip([*at, *(i for i in term.indices if i not in at)], "ijklmnpqrstuvwabc", strict=False))
        factors = [f for f in term.factors if f.at]
        kept = [i for i in at if i in term.indices]
        if len(letters) != len({*at, *term.indices}) or not factors:
            raise NotSupported("a derivative of so many axes has no form here")
        inside = ",".join("".join(letters[i] for i in f.at) for f in factors)
        args = [_raise_to_power(f, self.atom(f.atom, tuple(range(len(f.at))))) for f in factors]
        shown = [e if above else mul([ex.ONE], [e]) for e, above in args]
        top, low = self._write_scalars(term)
        product = call("einsum", *shown, first=f'"{inside}->{"".join(letters[i] for i in kept)}"')
        if kept and len(kept) < len(at):
            product = index_array(product, [":" if i in kept else "None" for i in at])
        return _with_coefficient(term.coef, [*top, product], low)

    def _write_matrix_term(self, term: IndexedTerm, at: tuple[Index, ...]) -> tuple[E, bool]:
        """Return a term, and whether it has all the axes that it should have."""
        top, low = self._write_scalars(term)
        picked, factors = write_picked_entries([f for f in term.factors if f.at], at, self.atom)
        traces, factors = self._extract_traces(factors, at)
        sums = [(e, "") for e in (*traces, *(p.e() for p in picked if not p.at))]
        parts = _multiply_equal_indices([*(self._quotient_of_factor(f) for f in factors), *(p for p in picked if p.at)])
        bound = list(dict.fromkeys(i for p in parts for i in p.at if i not in at))
        while bound:  # from the right: x @ A @ y is x @ (A @ y)
            i = min(reversed(bound), key=lambda i: _cost_of_summing(parts, i))
            bound.remove(i)
            mine = [p for p in parts if i in p.at]
            others = [p for p in parts if i not in p.at]
            found = self._sum_over_index(mine, i)
            if isinstance(found, E):
                # a matrix alone that is summed along an axis: this sum is that of the whole matrix
                top_of_sum = [x(p.at) for p in mine for x in p.top]
                whole_matrix = len(top_of_sum) == 1 and top_of_sum[0].is_call("sum") and top_of_sum[0].options
                sums.append((found, "" if whole_matrix else i.dim))
                parts = others
            else:
                parts = _multiply_equal_indices([*others, found])
        top, low = _write_means(sums, top, low)
        e, covers = self._multiply_parts(parts, at)
        coef = term.coef
        if isinstance(coef, Fraction) and ex.is_fraction(abs(coef)):
            coef, low = Fraction(coef.numerator), [number(Fraction(coef.denominator)), *low]
        if e is not None and e.op == Op.DIV:
            e, low = e.args[0], [e.args[1], *low]
        return _with_coefficient(coef, [*top, *([e] if e is not None else [])], low), covers

    def _write_scalars(self, term: IndexedTerm) -> tuple[list[E], list[E]]:
        """Return the factors of a term that are numbers: those in the numerator, and those in the denominator."""
        written = [_raise_to_power(f, self.atom(f.atom, ())) for f in term.factors if not f.at]
        top, low = ([e for e, above in written if above == on_top] for on_top in (True, False))
        return _write_root_two_pi(top), _write_root_two_pi(low)

    def _extract_traces(
        self, factors: list[IndexedFactor], at: tuple[Index, ...]
    ) -> tuple[list[E], list[IndexedFactor]]:
        """Return the traces of products A[i,j] B[j,i], and the factors that are left."""
        found: list[E] = []
        rest = list(factors)
        for f in factors:
            for g in factors:
                free = {i for h in rest if h is not f and h is not g for i in h.at} | set(at)
                if f is g or f not in rest or g not in rest or len(f.at) != 2 or g.at != f.at[::-1]:
                    continue
                if f.power != 1 or g.power != 1 or set(f.at) & free or f.at[0] == f.at[1]:
                    continue
                if "delta" in (f.atom.op, g.atom.op):
                    continue
                found.append(call("trace", matmul(self.atom(f.atom, (0, 1)), self.atom(g.atom, (0, 1)))))
                rest = [h for h in rest if h is not f and h is not g]
        return found, rest

    def _multiply_parts(self, parts: list[Quotient], at: tuple[Index, ...]) -> tuple[E | None, bool]:
        """Return the product of the parts that have the free indices, and whether it has all of these."""
        if not at:
            return None, True
        if not parts:
            return None, False
        if len(at) == 1:
            return parts[0].e(), True
        if len(at) > 2:
            raise NotSupported("a derivative of more than two axes has no matrix form")
        i, j = at
        matrix = next((p for p in parts if set(p.at) == {i, j}), None)
        row = next((p for p in parts if p.at == (j,)), None)
        column = next((p for p in parts if p.at == (i,)), None)
        eye = call("eye", name(i.dim))
        if matrix is not None and [x(at) for x in matrix.top] == [eye] and not matrix.low and (row or column):
            ends = [p for p in (row, column) if p is not None]
            above = [x(p.at) for p in ends for x in p.top]
            return call("diag", mul(above, [x(p.at) for p in ends for x in p.low])), True
        if matrix is None:
            if row is not None and column is not None:
                return call("outer", column.e(), row.e()), True
            only = row or column
            if only is None:
                return None, False
            return (only.e() if only is row else E("column", (only.e(),))), False
        vectors = [*([row.e()] if row else []), *([E("column", (column.e(),))] if column else [])]
        top = [*apply_triangles([x(at) for x in matrix.top]), *vectors]
        return mul(top, [x(at) for x in matrix.low]), True

    def _quotient_of_factor(self, f: IndexedFactor) -> Quotient:
        at = f.at
        if len(set(at)) < len(at):
            if len(at) != 2:
                raise NotSupported("a diagonal of more than two axes has no matrix form")
            e, above = _raise_to_power(f, call("diag", self.atom(f.atom, (0, 1))))
            one, at = make_piece(e, at[:1]), at[:1]
            return Quotient(at, (one,)) if above else Quotient(at, (), (one,))

        def write(order: tuple[Index, ...]) -> E:
            return _raise_to_power(f, self.atom(f.atom, tuple(at.index(i) for i in order)))[0]

        above = f.power > 0 or (f.atom.op == "exp" and not is_exp_of_logs(f.atom))
        return Quotient(at, (write,)) if above else Quotient(at, (), (write,))

    def _sum_over_index(self, parts: list[Quotient], i: Index) -> Quotient | E:
        """Return the product of all parts that have an index, summed over it; a number is returned as an expression."""
        vector = next((p for p in parts if p.at == (i,)), None)
        others = [p for p in parts if p.at != (i,)]
        if any(len(p.at) > 2 for p in others) or len(others) > 2:
            raise NotSupported("a sum over several products of matrices has no matrix form")
        if not others:
            assert vector is not None
            return _sum_of_vector(vector)
        if len(others) == 1:
            m = others[0]
            (k,) = (a for a in m.at if a != i)
            if vector is None:
                order = min(((k, i), (i, k)), key=lambda order: m.e(order).size)
                return Quotient((k,), (make_piece(call("sum", m.e(order), axis=str(order.index(i))), (k,)),))
            return Quotient((k,), (make_piece(matrix_times_vector(m.e((k, i)), vector.e()), (k,)),))
        a, b = others
        (k,) = (x for x in a.at if x != i)
        (l,) = (x for x in b.at if x != i)

        def write(order: tuple[Index, ...]) -> E:
            first, last = (a, b) if order == (k, l) else (b, a)
            left = first.e((order[0], i))
            if vector is not None:
                left = mul([left, vector.e()])
            return matmul(left, last.e((i, order[1])))

        return Quotient((k, l), (write,))

    def atom(self, atom: Atom, order: tuple[int, ...]) -> E:
        """Return an atom with its indices in an order, directly or as a transpose, whichever is shorter."""
        order = tuple(sorted(order)) if atom.symmetric else order
        key = atom, atom.dims, order
        if key not in self.written:
            e = self._write_atom(atom, order)
            if len(order) == 2 and atom.op not in ("input", "delta", "inv") and not atom.symmetric:
                turned = transpose(self._write_atom(atom, order[::-1]))
                e = min((e, turned) if atom.op == "group" else (turned, e), key=lambda x: x.size)
            self.written[key] = e
        return self.written[key]

    def write_straight(self, x: Value) -> None:
        """Write a softmax of a matrix, from here on, with its axes as they are here, if that is no longer than transposed."""
        f = x.tensor.factor
        if f is None or len(f.at) != 2 or len(set(f.at)) != 2 or set(x.axes) != set(f.at) or f.atom.symmetric:
            return
        order = tuple(f.at.index(i) for i in x.singles if i is not None)
        if f.atom.op != "softmax" or self.atom(f.atom, order).op != Op.TRANSPOSE:
            return
        e = self._write_atom(f.atom, order)
        if e.size <= self.atom(f.atom, order).size:
            self.written |= {(f.atom, f.atom.dims, order): e, (f.atom, f.atom.dims, order[::-1]): transpose(e)}

    def _write_atom(self, atom: Atom, order: tuple[int, ...]) -> E:
        if atom.op == "input":
            e = squeeze_input(atom)
            if len(order) > 2 and order not in (tuple(sorted(order)), tuple(sorted(order, reverse=True))):
                raise NotSupported("an array of more than two axes has its axes in one order")
            return e if order == tuple(sorted(order)) or atom.symmetric else transpose(e)
        if atom.op in ("size", "pi", "inf", "number"):
            return name(atom.name, axes=0) if atom.op != "number" else number(Fraction(int(atom.name)))
        if atom.op in ("delta", "arange"):
            return call("eye" if atom.op == "delta" else "arange", name(atom.dims[0]))
        if atom.op == "unit":
            return index_array(call("eye", name(atom.dims[0])), [atom.name])
        if atom.op == "tri":
            return write_triangle(atom, order)
        axes = [slot(k, atom.dims[k]) for k in order]
        if atom.op == "group":
            return self.write_shorter(atom.args[0], axes)
        if atom.op == "det":
            i, j = sorted(atom.args[0].free)
            inside = (self.write(atom.args[0], order) for order in ((j, i), (i, j)))
            return call("det", min(inside, key=lambda e: e.size))
        if atom.op in ("inv", "expm", "sqrtm", "logm"):
            return self._write_matrix_function(atom, axes)
        if atom.op == "pinv":
            inner = self.write(atom.args[0], axes[::-1])
            return E(Op.TRANSPOSE, (call("pinv", *inner.args),)) if inner.op == Op.TRANSPOSE else call("pinv", inner)
        if atom.op in OPAQUE:
            return self._write_whole_array(atom, order)
        if atom.op == "slice":
            return write_slice(atom, order, self.atom)
        if atom.op == "pad":
            return write_padded_vector(atom, self.write(atom.args[0], list(atom.args[0].free)))
        args = [self.argument(a, axes) for a in atom.args]
        if atom.op == "softmax" and any(t.factors for t in atom.args[0].terms):
            args = [self.by_cases(atom.args[0].renamed({}), axes, points=True) or args[0]]
        if atom.op in SIGNS:
            return E("compare", tuple(args), SIGNS[atom.op])
        if atom.op == "power":
            return E(Op.POW, tuple(args))
        if atom.op == "logaddexp" and number(Fraction(0)) in args:
            return call("softplus", next(a for a in args if a != number(Fraction(0))))
        if atom.op == "log" and args[0].is_call("sum") and args[0].args[0].text == "exp":
            return E("call", args[0].args[0].args, "logsumexp", options=args[0].options)
        if is_exp_of_logs(atom):
            return product_from_logs(args[0])
        if atom.op == "softmax" and len(atom.axes) < len(atom.dims):
            return call("softmax", *args, axis=str(order.index(atom.axes[0])))
        return call(NAMES.get(atom.op, atom.op), *args)

    def _write_matrix_function(self, atom: Atom, axes: list[Index]) -> E:
        """Return f(X), or the transpose of f(X.T), whichever is shorter, where one is the other."""
        if atom.symmetric:
            return call(atom.op, self.write(atom.args[0], axes))
        straight, turned = (self.write(atom.args[0], order) for order in (axes, axes[::-1]))
        return call(atom.op, straight) if straight.size <= turned.size else E(Op.TRANSPOSE, (call(atom.op, turned),))

    def _write_whole_array(self, atom: Atom, order: tuple[int, ...]) -> E:
        """Return a function of whole arrays; one that reduces an axis says which."""
        args = [self.write(a, a.free) for a in atom.args]
        gone = [k for k, i in enumerate(atom.args[0].free) if -i.id > len(atom.dims)]
        along = {"axis": str(gone[0])} if atom.dims and len(gone) < len(atom.args[0].free) else {}
        e = call(atom.op, *args, **along)
        return e if order == tuple(sorted(order)) else transpose(e)

    def by_cases(
        self,
        x: Tensor,
        axes: Sequence[Index | None],
        simple: Callable[[Tensor], Tensor] | None = None,
        *,
        points: bool = False,
    ) -> E | None:
        """Return a sum with terms that have an indicator, and others, as a choice by what it indicates; None for other sums.

        Where one branch is zero, the product with the indicator is the shorter form. `simple` simplifies the branches. With
        `points`, masks and single points decide, too, as they do in a function and not in its derivative.
        """
        truth = next((f for f in factors_in(x) if is_indicator(f, x.free, points=points)), None)
        if truth is None:
            return None
        own = x.free if truth.at else ()  # a number decides for all entries
        condition = self.write(Tensor(own, (IndexedTerm(Fraction(1), (truth,)),)), axes if truth.at else ())
        if condition.op != "compare":
            condition = E("compare", (condition, number(Fraction(0))), "!=")
        branches = [substitute_indicator(x, truth, value) for value in (Fraction(1), Fraction(0))]
        if not all(b.terms for b in branches):
            return None
        found = []
        for b in (simple(b) if simple else b for b in branches):
            if b.indices and set(b.free) - b.indices:  # it is broadcast
                return None
            inner = self.by_cases(b, axes, simple, points=points)
            found.append(inner or (self.write(b, axes) if b.indices else self.write(Tensor((), b.terms), ())))
        return found[0] if found[0] == found[1] else call("where", condition, *found)

    def write_shorter(self, x: Tensor, axes: Sequence[Index | None]) -> E:
        """Return a sum as it is written inside a product: by cases where that is no longer, and has a value everywhere."""
        e = self.write(x, axes)
        everywhere = all(f.power > 0 and f.atom.op in _EVERYWHERE for f in factors_in(x)) and not is_truth(x)
        chosen = self.by_cases(x, axes) if everywhere else None
        return e if chosen is None or chosen.size > e.size else chosen

    def argument(self, x: Tensor, axes: Sequence[Index]) -> E:
        """Return an argument of an elementwise function, with its axes aligned with those of the others."""
        own = [i for i in axes if i in x.indices]
        if len(axes) == 2 and own == [axes[0]]:
            return E("column", (self.write(x, own),))
        return self.write(Tensor(tuple(own), x.terms), own)


_EVERYWHERE = {"input", "size", "group", "sign", "absolute", "tri", *ORDERS}  # what has a value everywhere


def is_indicator(f: IndexedFactor, free: Sequence[Index], *, points: bool) -> bool:
    """Whether a factor is an indicator entry by entry: of an order, of a triangle or, with `points`, of a number or a mask."""
    numbers = f.atom.op in ("equal", "not_equal") and any(x.number is not None for x in f.atom.args)
    known = f.atom.op in ("tri", *ORDERS) or (points and (numbers or "mask" in f.atom.facts))
    return known and f.power == 1 and set(f.at) <= set(free)


def factors_in(x: Tensor) -> Iterator[IndexedFactor]:
    """Yield the factors of all terms, and those in brackets after them."""
    own = [f for t in x.terms for f in t.factors]
    yield from own
    for f in own:
        if f.atom.op == "group":
            yield from factors_in(argument_of_factor(f))


ENTRYWISE = {op: ALGEBRA.get(op) or partial(elementwise_function, op) for op in (*FUNCTIONS, "exp", "log")}


def substitute_indicator(x: Tensor, truth: IndexedFactor, value: Fraction) -> Tensor:
    """Return a sum with a number in place of an indicator, in brackets too; its complement is 1 minus that."""
    other = complement_of_triangle(Tensor(tuple(dict.fromkeys(truth.at)), (IndexedTerm(Fraction(1), (truth,)),)))
    known = {truth: value} | ({} if other is None else {other.terms[0].factors[0]: 1 - value})
    parts = []
    for t in x.terms:
        whole = scalar(t.coef)
        for f in t.factors:
            if f.atom.op == "group":
                own = raised(substitute_indicator(argument_of_factor(f), truth, value), f.power)
            elif f in known:
                own = scalar(known[f])
            else:
                own = Tensor(tuple(dict.fromkeys(f.at)), (IndexedTerm(Fraction(1), (f,)),))
                args = [argument_of_factor(f, k) for k in range(len(f.atom.args))] if f.atom.op in ENTRYWISE else []
                if any(truth in factors_in(arg) for arg in args):
                    inside = [substitute_indicator(arg, truth, value) for arg in args]
                    own = raised(ENTRYWISE[f.atom.op](*inside), f.power)
            whole = multiply(whole, own)
        parts.append(Tensor(x.free, whole.terms))
    return add(parts, x.free)


def _raise_to_power(f: IndexedFactor, e: E) -> tuple[E, bool]:
    """Return a factor, which is written as `e`, with its power, and whether it is in the numerator; exp(u)**-1 is exp(-u)."""
    straight = e.args[0] if e.op == Op.TRANSPOSE else e
    if f.atom.op == "exp" and f.power.denominator == 1 and straight.text == "exp":
        (u,) = straight.args
        inner = u if abs(f.power) == 1 else mul([number(abs(f.power)), u])
        whole = call("exp", neg(inner) if f.power < 0 else inner)
        return (whole if straight is e else transpose(whole)), True
    return ex.power(e, abs(f.power)), f.power > 0


def _with_coefficient(coef: Number, above: list[E], below: list[E]) -> E:
    whole = mul([number(magnitude(coef)), *above], below)
    return neg(whole) if coef < 0 else whole


def _write_root_two_pi(factors: list[E]) -> list[E]:
    """Return factors with sqrt(pi) and sqrt(2) as sqrt(2*pi)."""
    pi, two = (call("sqrt", x) for x in (name("pi", axes=0), number(Fraction(2))))
    if pi not in factors or two not in factors:
        return factors
    rest = list(factors)
    rest.remove(two)
    return [call("sqrt", mul([number(Fraction(2)), pi.args[0]])) if e == pi else e for e in rest]


def _write_means(sums: list[tuple[E, str]], top: list[E], low: list[E]) -> tuple[list[E], list[E]]:
    """Return the numerator and the denominator; a sum over its own size becomes a mean, or a variance."""
    for e, dim in sums:
        below = name(dim, axes=0)
        if not dim or below not in low or not (e.op == Op.DOT or (e.is_call("sum") and not e.options)):
            top = [*top, e]
            continue
        inner = mul(list(e.args)) if e.op == Op.DOT else e.args[0]
        if e.op == Op.DOT and e.args[0] == e.args[1]:
            inner = ex.power(e.args[0], Fraction(2))
        low = [x for k, x in enumerate(low) if k != low.index(below)]
        top = [*top, _match_variance(inner) or call("mean", inner)]
    return top, low


def _match_variance(e: E) -> E | None:
    if e.op != Op.POW or e.args[1] != number(Fraction(2)) or e.args[0].op != Op.ADD or len(e.args[0].args) != 2:
        return None
    u, m = e.args[0].args
    return call("var", u) if m == neg(call("mean", u)) else None


def _multiply_equal_indices(parts: Sequence[Quotient]) -> list[Quotient]:
    """Return the parts, with those of equal indices multiplied entry by entry."""
    found: dict[frozenset[Index], Quotient] = {}
    for p in parts:
        seen = found.get(frozenset(p.at))
        found[frozenset(p.at)] = p if seen is None else Quotient(seen.at, (*seen.top, *p.top), (*seen.low, *p.low))
    return list(found.values())


def _cost_of_summing(parts: Sequence[Quotient], i: Index) -> tuple[int, int, int, int]:
    """Return the size of the result of summing over an index, so that products stay vectors as long as possible."""
    mine = [p for p in parts if i in p.at]
    left = {j for p in mine for j in p.at if j != i}
    vectors = [p for p in mine if p.at == (i,)]
    return len(left), not vectors, sum(len(p.top) + len(p.low) for p in mine), sum(p.e().size for p in vectors)


def _sum_of_vector(vector: Quotient) -> E:
    """Return the sum of a vector: of a product of two as a dot product, of a matrix's row sums as the matrix's sum."""
    top = [x(vector.at) for x in vector.top]
    if not vector.low and len(top) == 2:
        return ex.dot(top[0], top[1])
    if not vector.low and len(top) == 1:
        (a,) = top
        if a.op == Op.POW and a.args[1] == number(Fraction(2)):
            return ex.dot(a.args[0], a.args[0])
        if a.is_call("sum") and a.options:
            return call("sum", *a.args)
        if a.is_call("diag"):
            return call("trace", *a.args)
    return call("sum", vector.e())


# The shapes of expressions, as names of sizes, by which a notation knows what is broadcast over what.

Shape = tuple[str, ...]
SHAPELESS = "?"  # a length that has no name, as that of a slice
_REDUCING = {"sum", "mean", "var", "std", "prod", "logsumexp", "max", "min"}


def is_vector(shape: Shape) -> bool:
    """Whether an array is a vector, also as a column or a row of a matrix."""
    return len(shape) == 1 or (len(shape) == 2 and "1" in shape)


class Shapes:
    """The shapes of expressions of names whose shapes are known; other names are sizes, which are numbers."""

    def __init__(self, known: Mapping[str, Sequence[str]]) -> None:
        self.known = {name: tuple(dims) for name, dims in known.items()}
        self._found: dict[E, Shape] = {}

    def add(self, name: str, e: E) -> None:
        """Name an expression."""
        self.name_shape(name, self.of(e))

    def name_shape(self, name: str, shape: Shape) -> None:
        """Let a name have a shape, which another one with this name may have had otherwise."""
        if self.known.get(name, ()) != shape:
            self._found.clear()
        self.known[name] = shape

    def of(self, e: E) -> Shape:
        """Return the shape of an expression."""
        if e not in self._found:
            self._found[e] = self._compute_shape(e)
        return self._found[e]

    def _compute_shape(self, e: E) -> Shape:
        if e.op == "name":
            return self.known.get(e.text, ())
        args = [self.of(a) for a in e.args]
        if e.op == "call":
            name = e.text.rpartition(".")[2]
            if name in _REDUCING and len(args) == 1:
                (shape,), axis = args, dict(e.options).get("axis")
                return () if axis is None else tuple(d for k, d in enumerate(shape) if k != int(axis) % len(shape))
            return _CALLED.get(name, _broadcast_shapes)(e, args)
        return _SHAPES.get(e.op, _broadcast_shapes)(e, args)


def _shape_from_arguments(e: E, args: list[Shape]) -> Shape:
    """Return the lengths that are the arguments of a call."""
    return tuple(a.text if a.op == "name" else str(a.number) for a in e.args)


def _einsum(e: E, args: list[Shape]) -> Shape:
    inside, _, output = dict(e.options)["first"].strip('"').partition("->")
    pairs = zip(inside.split(","), args, strict=True)
    letters = {c: d for own, shape in pairs for c, d in zip(own, shape, strict=False)}
    return tuple(letters.get(c, SHAPELESS) for c in output)


_ShapeOf = Callable[[E, list[Shape]], Shape]  # of an expression, from the shapes of its arguments
_SHAPES: dict[str, _ShapeOf] = {  # by operation; all others are broadcast
    "number": lambda e, args: (),
    Op.DOT: lambda e, args: (),
    Op.MATMUL: lambda e, args: reduce(lambda left, right: (*left[:-1], *right[1:]), args),
    Op.TRANSPOSE: lambda e, args: args[0][::-1],
    "column": lambda e, args: (*args[0], "1"),
    "index": lambda e, args: _shape_of_index(e, args[0]),
    "concat": lambda e, args: (SHAPELESS,),
}
_CALLED: dict[str, _ShapeOf] = {  # by the name of a function
    **dict.fromkeys(("norm", "det", "trace"), lambda e, args: ()),
    **dict.fromkeys(("ones", "zeros", "arange"), _shape_from_arguments),
    **dict.fromkeys(("svdvals", "convolve", "correlate"), lambda e, args: (SHAPELESS,)),
    "eye": lambda e, args: _shape_from_arguments(e, args) * 2,
    "outer": lambda e, args: (_length_of_vector(args[0]), _length_of_vector(args[1])),
    "diag": lambda e, args: args[0] * 2 if len(args[0]) == 1 else args[0][:1],
    "solve": lambda e, args: args[1],
    "eigvalsh": lambda e, args: args[0][:1],
    "left_vectors": lambda e, args: (args[0][0], SHAPELESS),
    "right_vectors": lambda e, args: (args[0][1], SHAPELESS),
    "pinv": lambda e, args: args[0][::-1],
    "einsum": _einsum,
    "concatenate": lambda e, args: _shape_of_concatenation(args, int(dict(e.options)["axis"])),
}


def _shape_of_concatenation(shapes: list[Shape], axis: int) -> Shape:
    lengths = [shape[axis] for shape in shapes]
    return (*shapes[0][:axis], SHAPELESS if SHAPELESS in lengths else " + ".join(lengths), *shapes[0][axis + 1 :])


def _length_of_vector(shape: Shape) -> str:
    """Return the length of a vector, also of a column or a row."""
    return next((d for d in shape if d != "1"), "1")


def _shape_of_index(e: E, shape: Shape) -> Shape:
    parts = [p.strip() for p in e.text[1:-1].split(",")] if "[" not in e.text[1:] else []
    if "None" in parts:
        own = iter(shape)
        return (*("1" if p == "None" else next(own) for p in parts), *own)
    if not parts:
        return (SHAPELESS,) * max(0, len(shape) - count_removed_axes(e))
    pairs = zip(shape, [*parts, *":" * (len(shape) - len(parts))], strict=False)
    return tuple(d if p == ":" else SHAPELESS for d, p in pairs if not p.strip("- ").isdigit())


def _broadcast_shapes(e: E, shapes: list[Shape]) -> Shape:
    """Return the shape of several arrays broadcast together."""
    axes = max(map(len, shapes), default=0)
    found = []
    for k in range(axes):
        lengths = [s[len(s) - axes + k] for s in shapes if len(s) >= axes - k]
        found.append(next((d for d in lengths if d not in ("1", SHAPELESS)), lengths[0]))
    return tuple(found)
