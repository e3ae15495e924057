"""Parts of arrays as they are written: entries, spans, and vectors among zeros."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.derivation.expression import E, Op, call, indexed, mul, name, text, transpose
from gradcli.derivation.index import SINGLE, Atom, Factor, Index
from gradcli.derivation.pieces import Part, piece
from gradcli.errors import GradcliError, NotSupported
from gradcli.source.expression import Expression

Write = Callable[[Atom, tuple[int, ...]], E]  # an atom, its own indices in an order


def entries(factors: Sequence[Factor], at: tuple[Index, ...], write: Write) -> tuple[list[Part], list[Factor]]:
    """Return the factors of which unit vectors pick entries, as `W[0, :]`, and the factors that are left."""
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
    """Return a part of an array; that of a transpose is one of what is transposed."""
    if e.op != Op.TRANSPOSE:
        return indexed(e, parts)
    spans = all(":" in p or "[" in p for p in parts)
    turned = indexed(e.args[0], parts[::-1])
    return transpose(turned) if spans else turned


def squeezed(atom: Atom) -> E:
    """Return an input, its axes of length 1 left out."""
    single = {int(word.removeprefix(SINGLE)) for word in atom.facts if word.startswith(SINGLE)}
    rank = len(atom.dims) + len(single)
    return indexed(name(atom.name, scalar=not rank, axes=rank), ["0" if k in single else ":" for k in range(rank)])


def with_single_axes(
    e: E, axes: Sequence[Index | None], wrt: str, values: Mapping[str, Any], right: Any
) -> tuple[E, bool]:
    """Return a derivative in the shape of its input, of which some axes have length 1, and whether it has that and its value.

    The value is not looked at where none is known to be `right`.
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
    """Return an array of which a span is kept along an axis."""
    (whole,) = atom.args[0].terms
    e = write(whole.factors[0].atom, order)
    k = order.index(atom.axes[0])
    if atom.name == "::-1":
        return call("flip", e, **({"axis": str(k)} if len(order) > 1 else {}))
    return _indexed(e, [atom.name if n == k else ":" for n in range(len(order))])


def pad_of(atom: Atom, inner: E) -> E:
    """Return a vector among zeros."""
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
