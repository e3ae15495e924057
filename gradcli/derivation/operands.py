"""Operands of matrix products: parts of arrays, padded vectors, triangles of ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.derivation.expression import E, Op, call, indexed, matmul, mul, name, neg, number, text, transpose
from gradcli.derivation.index import SINGLE, Atom, Factor, Index
from gradcli.errors import GradcliError, NotSupported
from gradcli.targets.expression import Expression


@dataclass(frozen=True)
class Piece:
    """An expression that can be written with its axes in either order."""

    at: tuple[Index, ...]
    write: Callable[[tuple[Index, ...]], E]
    natural: tuple[Index, ...] = ()

    def e(self, at: tuple[Index, ...]) -> E:
        """Return the expression with its axes in this order."""
        return self.write(at)


def piece(e: E, at: tuple[Index, ...]) -> Piece:
    """Return an expression as a piece, which is transposed for the other order of its axes."""
    return Piece(at, lambda wanted: e if wanted == at else transpose(e), at)


@dataclass(frozen=True)
class Part:
    """A factor of a product: the quotient of two products of pieces with the same axes."""

    at: tuple[Index, ...]
    top: tuple[Piece, ...]
    low: tuple[Piece, ...] = ()

    def e(self, at: tuple[Index, ...] | None = None) -> E:
        """Return the quotient with its axes in this order."""
        order = self.at if at is None else at
        return mul([x.e(order) for x in self.top], [x.e(order) for x in self.low])


Write = Callable[[Atom, tuple[int, ...]], E]  # an atom, its own indices in an order


def entries(factors: Sequence[Factor], at: tuple[Index, ...], write: Write) -> tuple[list[Part], list[Factor]]:
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
    for k, places in picks.items():
        g = factors[k]
        left = tuple(i for n, i in enumerate(g.at) if n not in places)
        e = _indexed(write(g.atom, tuple(range(len(g.at)))), [places.get(n, ":") for n in range(len(g.at))])
        parts.append(Part(left, (piece(e, left),)))
    return parts, [f for k, f in enumerate(factors) if k not in picks and k not in used]


def _indexed(e: E, parts: list[str]) -> E:
    """Return a part of an array; a part of a transpose as the transpose of a part."""
    if e.op != Op.TRANSPOSE:
        return indexed(e, parts)
    spans = all(":" in p or "[" in p for p in parts)
    turned = indexed(e.args[0], parts[::-1])
    return transpose(turned) if spans else turned


def squeezed(atom: Atom) -> E:
    """Return an input without its axes of length 1."""
    single = {int(word.removeprefix(SINGLE)) for word in atom.facts if word.startswith(SINGLE)}
    rank = len(atom.dims) + len(single)
    return indexed(name(atom.name, scalar=not rank, axes=rank), ["0" if k in single else ":" for k in range(rank)])


def with_single_axes(
    e: E, axes: Sequence[Index | None], wrt: str, values: Mapping[str, Any], right: Any
) -> tuple[E, bool]:
    """Return a derivative in the shape of its input, which has axes of length 1, and whether its shape and value are right.

    The value is compared with `right`, unless that is None.
    """
    known = None if right is None else np.asarray(getattr(right, "value", right), dtype=np.float64)
    for form in (e, E("column", (e,)) if axes[-1] is None else e, mul([e, call("ones_like", name(wrt))])):
        formula = Expression(text(form))
        try:
            with np.errstate(all="ignore"):
                found = formula({n: np.asarray(values[n], dtype=np.float64)[()] for n in formula.inputs})
        except GradcliError:
            continue
        alike = np.shape(found) == np.shape(values[wrt])
        if alike and (known is None or np.allclose(found, known, equal_nan=True)):
            return form, True
    return e, False


def slice_of(atom: Atom, order: tuple[int, ...], write: Write) -> E:
    """Return a span of an array along an axis."""
    (whole,) = atom.args[0].terms
    e = write(whole.factors[0].atom, order)
    k = order.index(atom.axes[0])
    if atom.name == "::-1":
        return call("flip", e, **({"axis": str(k)} if len(order) > 1 else {}))
    if atom.name.startswith("roll"):
        return call("roll", e, number(Fraction(atom.name.split()[1])), **({"axis": str(k)} if len(order) > 1 else {}))
    return _indexed(e, [atom.name if n == k else ":" for n in range(len(order))])


def pad_of(atom: Atom, inner: E) -> E:
    """Return a vector padded with zeros."""
    start, less = int(atom.name.partition(":")[0] or 0), _less(atom.dims[0], atom.args[0].free[0].dim)
    zeros = [", ".join(["0"] * k) for k in (start, less - start)]
    parts = [f"[{zeros[0]}]" if zeros[0] else "", f"[{zeros[1]}]" if zeros[1] else ""]
    return E("concat", (inner,), "|".join(parts))


def _less(whole: str, part: str) -> int:
    """Return by how much a size is less than another: 1 for n and n - 1."""
    if whole.isdecimal() and part.isdecimal():
        return int(whole) - int(part)
    (a, _, b), (c, _, d) = (x.replace("+ ", "- -").partition(" - ") for x in (whole, part))
    if a != c:
        raise NotSupported("a span has a size of its own")
    return int(d or 0) - int(b or 0)


def times(a: E, v: E) -> E:
    """Return the product of a matrix and a vector; for a triangle of ones, as cumsum(v), which forms no matrix."""
    *before, last = a.args if a.op == Op.MATMUL else (a,)
    rows = last.op == "index" and _of_ones(last.args[0])
    if _of_ones(last) or rows:
        v = replace(last, args=(call("cumsum", v),)) if rows else call("cumsum", v)
    elif last.op == Op.TRANSPOSE and _of_ones(last.args[0]):
        v = _turned(call("cumsum", _turned(v)))
    else:
        return matmul(a, v)
    return matmul(*before, v) if before else v


def kept(parts: Sequence[E]) -> list[E]:
    """Return the factors of an elementwise product; a triangle of ones becomes tril or triu of the other factors."""
    for k, a in enumerate(parts):
        lower = a.op == "call" and a.text == "tril" and a.args[0].text == "ones"
        upper = (
            a.op == Op.TRANSPOSE
            and a.args[0].op == "call"
            and a.args[0].text == "tril"
            and a.args[0].args[0].text == "ones"
        )
        others = [b for n, b in enumerate(parts) if n != k]
        if others and lower:
            return [call("tril", mul(others), *a.args[1:])]
        if others and upper:
            return [call("triu", mul(others), *map(neg, a.args[0].args[1:]))]
    return list(parts)


def triangle_of(atom: Atom, order: tuple[int, ...]) -> E:
    """Return a triangle of ones."""
    ones = call("ones", *(name(d) for d in atom.dims))
    e = call("tril", ones, *([] if atom.name == "0" else [number(Fraction(atom.name))]))
    return e if order == tuple(sorted(order)) else transpose(e)


def product_of(logs: E) -> E:
    """Return exp(sum(log(u))) as the product of the entries of u."""
    if logs.op == "call" and logs.text == "sum" and logs.args[0].op == "call" and logs.args[0].text == "log":
        return E("call", logs.args[0].args, "prod", options=logs.options)
    return call("exp", logs)


def _of_ones(e: E) -> bool:
    return e.op == "call" and e.text == "tril" and len(e.args) == 1 and e.args[0].text == "ones"


def _turned(v: E) -> E:
    return v.args[0] if v.op == "call" and v.text == "flip" else call("flip", v)
