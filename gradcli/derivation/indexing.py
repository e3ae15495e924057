"""Indexing, its transpose (a scatter into zeros), concatenation and cumsum as tensors; and constant arrays with names."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.graph import Graph
from gradcli.derivation.adjoints import sorts
from gradcli.derivation.index import Atom, Index, Tensor, add, fresh, function, of_atom, slot
from gradcli.derivation.products import identity, multiply, sum_over
from gradcli.derivation.structure import Axis, Sized, Value, alike, indices, matched, ordered, renewed, single
from gradcli.derivation.units import cut, inverse_of, rows, triangle, turned, unit
from gradcli.derivation.whole import opaque
from gradcli.errors import NotSupported

_NOWHERE = "an index that depends on the values, or on the sizes in this way, has no formula"
_PARTS = "write the function of each part by itself"
_WHOLE = "write sums and products of whole arrays, or give sizes as numbers: --shapes x:3"


class Pick(NamedTuple):
    """What an index does with one axis: add a `new` one, keep `all`, take one `at` a position, a `span`, or a `diagonal`."""

    kind: str
    text: str = ""


def picks(indices: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Pick]:
    """Return what an index does with each axis. Raises NotSupported unless that is the same at all sizes."""
    spelled = [_parts(index, len(shape)) for index, shape in zip(indices, shapes, strict=True)]
    if len({len(parts) for parts in spelled}) > 1:
        raise NotSupported(_NOWHERE, do=_WHOLE)
    found, axis = [], 0
    for here in zip(*spelled, strict=True):
        if all(p is None for p in here):
            found.append(Pick("new"))
            continue
        found.append(_pick(here, [shape[axis] for shape in shapes]))
        axis += 1
    kinds = [p.kind for p in found]
    if kinds.count("diagonal") == 1:
        found = [Pick("all") if p.kind == "diagonal" else p for p in found]
    several = sum(p.text.startswith("[") for p in found)
    first = kinds.index("diagonal") if "diagonal" in kinds else 0
    apart = kinds.count("diagonal") > 1 and kinds[first : first + 2] != ["diagonal", "diagonal"]
    if apart or kinds.count("diagonal") > 2 or several > 1 or (several and {"at", "diagonal"} & set(kinds)):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    return found


def _parts(index: Any, rank: int) -> list[Any]:
    """Return an index with a part for each axis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    dots = next((k for k, p in enumerate(parts) if p is Ellipsis), len(parts))
    named = sum(p is not None and p is not Ellipsis for p in parts)
    return [*parts[:dots], *[slice(None)] * (rank - named), *parts[dots + 1 :]]


def _pick(here: Sequence[Any], lengths: Sequence[int]) -> Pick:
    if all(isinstance(p, slice) for p in here):
        return _span(here, lengths)
    arrays = [np.asarray(p) for p in here]
    if any(a.dtype.kind not in "iu" or a.ndim > 1 for a in arrays):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    if arrays[0].ndim == 0:
        return Pick("at", edge([int(a) for a in arrays], lengths))
    if all(np.array_equal(a, np.arange(n)) for a, n in zip(arrays, lengths, strict=True)):
        return Pick("diagonal")
    if any(not np.array_equal(a, arrays[0]) for a in arrays):
        if (turn := _turn(arrays, lengths)) is None:
            raise NotSupported(_NOWHERE, do=_WHOLE)
        return Pick("span", turned(turn))
    return Pick("span", str([int(k) for k in arrays[0]]))


def _turn(arrays: Sequence[Any], lengths: Sequence[int]) -> int | None:
    """Return by how many positions an index rolls an axis, at all sizes; None for any other index."""
    if any(
        len(a) != n or not np.array_equal(a, np.roll(np.arange(n), -a[0])) for a, n in zip(arrays, lengths, strict=True)
    ):
        return None
    return next((k for k in (-int(arrays[0][0]), lengths[0] - int(arrays[0][0])) if _rolls(k, arrays, lengths)), None)


def _rolls(k: int, arrays: Sequence[Any], lengths: Sequence[int]) -> bool:
    return all(a[0] == -k % n for a, n in zip(arrays, lengths, strict=True))


def _span(here: Sequence[slice], lengths: Sequence[int]) -> Pick:
    """Return what a slice does. Raises NotSupported if it is cut off at one size, and would be longer at a larger one."""
    exact = [s.indices(n) for s, n in zip(here, lengths, strict=True)]
    steps = {step for _, _, step in exact}
    step = steps.pop()
    if steps or any(abs(b or 0) > n for s, n in zip(here, lengths, strict=True) for b in (s.start, s.stop)):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    firsts = [0 if step > 0 else n - 1 for n in lengths]
    lasts = [n if step > 0 else -1 for n in lengths]
    start = _bound([a for a, _, _ in exact], firsts, lengths)
    stop = _bound([b for _, b, _ in exact], lasts, lengths)
    if (start, stop, step) == ("", "", 1):
        return Pick("all")
    return Pick("span", f"{start}:{stop}" + (f":{step}" if step != 1 else ""))


def _bound(places: list[int], ends: list[int], lengths: Sequence[int]) -> str:
    return "" if places == ends else edge(places, lengths)


def edge(places: Sequence[int], lengths: Sequence[int]) -> str:
    """Return a position that is the same at all sizes, counted from the start or from the end. Raises NotSupported."""
    from_end = {k if k < 0 else k - n for k, n in zip(places, lengths, strict=True)}
    from_start = {k + n if k < 0 else k for k, n in zip(places, lengths, strict=True)}
    for found in (from_start, from_end):
        if len(found) == 1:
            return str(found.pop())
    raise NotSupported(_NOWHERE, do=_WHOLE)


def _getitem(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    if len(xs[0].axes) == 1 and all(sorts(p["index"], g.args[0]) for p, g in zip(params, graphs, strict=True)):
        return opaque("sort", xs, [reader.dim(lengths) for lengths in zip(*(g.shape for g in graphs), strict=True)])
    wanted = picks([p["index"] for p in params], [np.shape(getattr(g.args[0], "value", g.args[0])) for g in graphs])
    after = iter(reader.axes([g.shape for g in graphs]))
    own, tensor = iter(xs[0].axes), xs[0].tensor
    axes: list[Axis] = []
    diagonal: Axis = None
    met = False  # the first axis of a diagonal
    for pick in wanted:
        if pick.kind == "new":
            axes.append(next(after))
            continue
        i = next(own)
        if pick.kind == "at":
            place = single(i)
            tensor = tensor if place is None else sum_over(multiply(tensor, _unit_at(place, int(pick.text))), [place])
        elif pick.kind == "diagonal" and met:
            tensor = tensor.renamed(matched([i], [diagonal]))
            tensor = Tensor(tuple(dict.fromkeys(tensor.free)), tensor.terms)
        elif pick.kind == "span":
            new = next(after)
            tensor = _cut(tensor, i, new, pick.text)
            axes.append(new)
        else:
            next(after)
            if pick.kind == "diagonal":
                diagonal, met = i, True
            axes.append(i)
    return ordered(axes, tensor)


def _in_order(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return 1 where an entry of x is at a place of sort(x), summed with a vector over the places, or over the entries."""
    place, entry = (fresh(i.dim) for i in indices(*xs[0].axes) * 2)
    whole = opaque("sort", xs[:1], [place.dim])
    x = xs[0].tensor.renamed({indices(*xs[0].axes)[0]: entry})
    placed = whole.tensor.renamed({indices(*whole.axes)[0]: place})
    kept, summed = (entry, place) if graphs[0].op == "unsorted" else (place, entry)
    same = function("equal", [x, placed], (entry, place))
    along = renewed(xs[1])
    v = along.tensor.renamed({indices(*along.axes)[0]: summed})
    return ordered([kept], sum_over(multiply(same, v), [summed]))


def _cut(x: Tensor, axis: Axis, after: Axis, span: str) -> Tensor:
    """Return the span of a tensor along an axis; a span of length 1 has no index."""
    i, new = single(axis), single(after)
    if i is None:
        return x
    if new is None:
        return sum_over(multiply(x, _unit_at(i, _single(span))), [i])
    return cut(x, i, new, span)


def _unit_at(i: Index, place: int) -> Tensor:
    return of_atom(unit(i.dim, place), (i,))


def _single(span: str) -> int:
    """Return the one position of a span of length 1."""
    if span.startswith("["):
        return int(span[1:-1])
    return int(span.partition(":")[0] or ("-1" if span.endswith(":-1") else "0"))


def _scatter(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return the transpose of taking a part: the part in its place, and zeros around it."""
    wanted = picks([p["index"] for p in params], [p["into"] for p in params])
    into = reader.axes([p["into"] for p in params])
    if len(into) == 1 and len(xs[0].axes) == 1 and (padded := _padded(xs[0], wanted[-1].text, into[0])) is not None:
        return padded
    own, to, tensor = iter(xs[0].axes), iter(into), xs[0].tensor
    axes: list[Axis] = []
    diagonal: Axis = None
    met = False  # the first axis of a diagonal
    for pick in wanted:
        if pick.kind == "new":
            next(own)
            continue
        j = next(to)
        if pick.kind == "at":
            place = single(j)
            tensor = tensor if place is None else multiply(tensor, _unit_at(place, int(pick.text)))
            axes.append(j)
        elif pick.kind == "diagonal" and met:
            for one, other in zip(indices(diagonal), indices(j), strict=True):
                tensor = multiply(tensor, of_atom(identity(one.dim), (one, other)))
            axes.append(j)
        elif pick.kind == "span" and j is not None:
            tensor = _among_zeros(tensor, next(own), j, pick.text)
            axes.append(j)
        else:
            i = next(own)
            if pick.kind == "diagonal":
                diagonal, met = i, True
            axes.append(i)
    return ordered(axes, tensor)


def _among_zeros(x: Tensor, axis: Axis, into: Axis, span: str) -> Tensor:
    i, j = single(axis), single(into)
    assert j is not None
    if i is None:
        return multiply(x, _unit_at(j, _single(span)))
    back = inverse_of(span, j.dim)
    picks = rows(span, i, j) if back is None else rows(back, j, i)
    return sum_over(multiply(x, picks), [i])


def _padded(x: Value, span: str, into: Axis) -> Value | None:
    """Return a vector padded with zeros, if the numbers of zeros before and after are known; else None."""
    i, j = single(x.axes[0]), single(into)
    start, colon, stop = span.partition(":")
    if i is None or j is None or not colon or ":" in stop or start.startswith("-"):
        return None
    if stop and not stop.startswith("-") and not j.dim.isdecimal():
        return None
    inner = x.tensor.renamed({i: slot(0, i.dim)})
    atom = Atom("pad", span, (inner,), (j.dim,), axes=(0,))
    new = fresh(j.dim)
    return Value((new,), of_atom(atom, (new,)))


def _concatenate(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return a concatenation as a sum of padded parts; at most one part may have a length that differs between sizes."""
    k = params[0]["axis"]
    if len(xs) == 1:
        return xs[0]
    into = reader.axes([g.shape for g in graphs])
    spans = _spans([[np.shape(getattr(g.args[n], "value", g.args[n]))[k] for g in graphs] for n in range(len(xs))])
    full = [(x, span) for x, span in zip(xs, spans, strict=True) if x.tensor.terms]
    if len(full) == 1 and len(into) == 1 and (padded := _padded(full[0][0], full[0][1], into[0])) is not None:
        return padded
    j = into[k]
    axes = [j if n == k else i for n, i in enumerate(into)]
    parts = []
    for x, span in full:
        others = [(mine, to) for n, (mine, to) in enumerate(zip(x.axes, axes, strict=True)) if n != k]
        i = x.axes[k]
        new = alike(i)
        names = matched([i, *(mine for mine, _ in others)], [new, *(to for _, to in others)])
        parts.append(_among_zeros(x.tensor.renamed(names), new, j, span))
    return ordered(axes, add(parts, indices(*axes)) if parts else Tensor((), ()))


def _spans(lengths: Sequence[Sequence[int]]) -> list[str]:
    """Return the spans of concatenated parts. Raises NotSupported."""
    moving = [k for k, n in enumerate(lengths) if len(set(n)) > 1]
    if len(moving) > 1:
        raise NotSupported("a concatenation has a formula where all lengths but one are numbers", do=_PARTS)
    last = moving[0] if moving else len(lengths)
    found, start = [], 0
    for k, n in enumerate(lengths[:last], 1):
        found.append(f"{start or ''}:{start + n[0] if k < len(lengths) else ''}")
        start += n[0]
    rest = [n[0] for n in lengths[last + 1 :]]
    if moving:
        found.append(f"{start or ''}:{-sum(rest) or ''}")
    for k, length in enumerate(rest):
        after = sum(rest[k + 1 :])
        found.append(f"-{length + after}:{-after or ''}")
    return found


def _cumsum(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return running sums, as the product with a triangle of ones."""
    k = params[0]["axis"]
    i = single(xs[0].axes[k])
    if i is None:
        return xs[0]
    new = fresh(i.dim)
    whole = sum_over(multiply(xs[0].tensor, of_atom(triangle((i.dim, i.dim), 0), (new, i))), [i])
    return ordered([new if n == k else a for n, a in enumerate(xs[0].axes)], whole)


INDEXING: dict[str, Callable[[Sized, list[Value], list[Any], Sequence[Graph]], Value]] = {
    "getitem": _getitem, "scatter": _scatter, "cumsum": _cumsum, "concatenate": _concatenate,
    "unsorted": _in_order, "sorted along": _in_order,
}  # fmt: skip


_DIAGONALS = range(-3, 4)  # at which a triangle of ones may end, to be recognised


def named(at: Sequence[Index], arrays: Sequence[Any]) -> tuple[Tensor, list[float]] | None:
    """Return a constant array as one with a name, and the number before it at each size; None if it has no name."""
    numbers = [float(x.flat[np.argmax(np.abs(x))]) if x.size else 0.0 for x in arrays]
    if not all(numbers):
        return None
    ones = [x / c for x, c in zip(arrays, numbers, strict=True)]
    if any(not np.all((x == 0) | (x == 1)) for x in ones):
        return None
    found = next(_vectors(at[0], ones) if len(at) == 1 else _matrices(at, ones) if len(at) == 2 else iter(()), None)
    return None if found is None else (found, numbers)


def _vectors(i: Index, ones: Sequence[Any]) -> Iterator[Tensor]:
    if all(np.sum(x) == 1 for x in ones):
        try:
            yield of_atom(unit(i.dim, int(edge([int(np.argmax(x)) for x in ones], [len(x) for x in ones]))), (i,))
        except NotSupported:
            return


def _matrices(at: Sequence[Index], ones: Sequence[Any]) -> Iterator[Tensor]:
    if at[0].dim == at[1].dim and all(np.array_equal(x, np.eye(len(x))) for x in ones):
        yield of_atom(identity(at[0].dim), at)
    for order in ((0, 1), (1, 0)):
        new, old = (at[n] for n in order)
        turned = [np.transpose(x, order) for x in ones]
        yield from _rows(new, old, turned)
        for k in _DIAGONALS:
            if all(np.array_equal(x, np.tri(x.shape[0], x.shape[1], k)) for x in turned):
                yield of_atom(triangle((new.dim, old.dim), k), (new, old))


def _rows(new: Index, old: Index, ones: Sequence[Any]) -> Iterator[Tensor]:
    """Yield the matrix that selects rows of the identity: a slice of them, or a list."""
    if any(not np.all(np.sum(x, axis=1) == 1) for x in ones):
        return
    places = [np.argmax(x, axis=1) for x in ones]
    step = int(places[0][1] - places[0][0]) if len(places[0]) > 1 else 1
    spans = [slice(int(p[0]), int(p[-1]) + step if int(p[-1]) + step >= 0 else None, step) for p in places if step]
    lengths = [x.shape[1:] for x in ones]
    fits = len(spans) == len(ones) and all(
        np.array_equal(np.arange(n)[s], p) for (n,), s, p in zip(lengths, spans, places, strict=True)
    )
    for wanted in (spans, places) if fits else (places,):
        try:
            (pick,) = picks(wanted, lengths)
        except NotSupported:
            continue
        if pick.kind == "span":
            yield rows(pick.text, new, old)
