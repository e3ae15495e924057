"""A recorded program at many points that differ from the recorded one in one entry each: only what moves is computed.

Elementwise operations are done at the entries that move, and views carry their positions along; a sum over an array is that
of the recorded array with these entries exchanged, so that it rounds as the sum of each point alone. What mixes entries in
another way is not done here: `run` says so, and whole arrays are run instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.core.shapes import shape
from gradcli.interpreters import batch
from gradcli.interpreters.tape import CONSTANT, Line, Tape
from gradcli.lowering.floats import FLOAT64, Format

MOST = 4  # entries of one value that move in one lane
Params = dict[str, Any]


class Mixed(Exception):
    """An operation mixes the entries that move with others."""


@dataclass(frozen=True, slots=True)
class Entries:
    """An array in many lanes, each of which differs from `base` at a few positions of its flat order.

    Shapes  `at` and `values` are lanes by entries; a position beyond the array stands for an entry that is not in it.
    """

    base: Any
    at: Any
    values: Any

    def among(self, at: Any) -> Any:
        """Return the values at other positions in each lane."""
        row = self.base.reshape(-1)
        found = row[np.minimum(at, row.size - 1)]
        for k in range(self.at.shape[1]):
            found = np.where(at == self.at[:, k : k + 1], self.values[:, k : k + 1], found)
        return found

    def moved_to(self, base: Any, places: Any) -> "Entries":
        """Return the entries in another array; `places` are their positions there, by position here."""
        return Entries(base, places[np.minimum(self.at, len(places) - 1)], self.values)

    def total(self) -> Any:
        """Return the sum over the whole array in each lane."""
        row = self.base.reshape(-1)
        found = np.empty(len(self.at), self.values.dtype)
        rows = np.empty((max(1, min(len(self.at), batch.LINE // row.size)), row.size), self.values.dtype)
        rows[...] = row
        for start in range(0, len(self.at), len(rows)):
            part = slice(start, start + len(rows))
            lanes, columns = np.nonzero(self.at[part] < row.size)
            at = self.at[part][lanes, columns]
            rows[lanes, at] = self.values[part][lanes, columns]
            found[part] = np.sum(rows[: len(found[part])], axis=1)
            rows[lanes, at] = row[at]
        return found


def run(tape: Tape, slot: int, k: int, moved: Entries, form: Format = FLOAT64) -> tuple[Any, Any] | None:
    """Return the value of line `slot` in each lane, and which lanes took other branches, as `batch.run` does.

    `moved` is input k. None where an operation mixes the entries that move with others.
    """
    values: list[Any] = []
    moving: list[bool] = []
    last = max((s for line in tape.decisions for s in line[1]), default=slot)
    apart = np.zeros(len(moved.at), dtype=bool)
    try:
        for number, line in enumerate(tape.lines[: max(slot, last) + 1]):
            if line[0] is None:
                values.append(moved if number == k else form.rounded(line[3]))
                moving.append(number == k)
            else:
                values.append(_step(line, values, moving, form))
                moving.append(any(s != CONSTANT and moving[s] for s in line[1]))
        for line in tape.decisions:
            if any(s != CONSTANT and moving[s] for s in line[1]):
                apart |= _decided_otherwise(line, values, moving, form)
    except Mixed:
        return None
    y = values[slot]
    if isinstance(y, Entries):
        return None
    return (y if moving[slot] else np.broadcast_to(y, (len(apart), *shape(y)))), apart


def _step(line: Line, values: list[Any], moving: list[bool], form: Format) -> Any:
    primitive, slots, xs, _, params, _ = line
    if primitive is None:
        raise ValueError("an input is no step")
    operands = [form.rounded(x) if s == CONSTANT else values[s] for s, x in zip(slots, xs, strict=True)]
    moves = [s != CONSTANT and moving[s] for s in slots]
    few = [isinstance(x, Entries) for x in operands]
    if not any(few):
        return form.rounded(batch.on_lanes(primitive, list(map(shape, xs)), moves, params or {}, ())(*operands))
    if primitive.body or few != moves:
        raise Mixed
    if _entry_by_entry(primitive):
        return _elementwise(lambda *x: form.rounded(primitive.fun(*x, **(params or {}))), operands)
    rule = _RULES.get(primitive.name)
    if rule is None or len(operands) > 1:
        raise Mixed
    y = rule(operands[0], params or {})
    return y if isinstance(y, Entries) else form.rounded(y)


def _entry_by_entry(primitive: Primitive) -> bool:
    compares = primitive.kind == "constant" and isinstance(primitive.fun, np.ufunc)
    return compares or primitive.kind == "elementwise" or primitive.name == "where"


def _decided_otherwise(line: Line, values: list[Any], moving: list[bool], form: Format) -> Any:
    y = _step(line, values, moving, form)
    expected = form.rounded(line[3])
    if not isinstance(y, Entries):
        same = np.asarray(y == expected)
        return ~np.all(same.reshape(len(same), -1), axis=1)
    there = y.at < y.base.size
    return np.any(there & (y.values != np.asarray(expected).reshape(-1)[np.minimum(y.at, y.base.size - 1)]), axis=1)


def _elementwise(fun: Callable[..., Any], xs: Sequence[Any]) -> Entries:
    """Return an elementwise operation at the entries of all operands, which must have the shape of the result."""
    base = fun(*(x.base if isinstance(x, Entries) else x for x in xs))
    several = [x for x in xs if isinstance(x, Entries)]
    if any(x.base.shape != np.shape(base) for x in several):
        raise Mixed
    ats = list({id(x.at): x.at for x in several}.values())
    at = ats[0] if len(ats) == 1 else np.concatenate(ats, axis=1)
    if at.shape[1] > MOST:
        raise Mixed
    return Entries(base, at, fun(*(_at(x, at, base.shape) for x in xs)))


def _at(x: Any, at: Any, whole: tuple[int, ...]) -> Any:
    if isinstance(x, Entries):
        return x.values if x.at is at else x.among(at)
    if not np.shape(x):
        return x
    row = np.broadcast_to(x, whole).reshape(-1)
    return row[np.minimum(at, row.size - 1)]


def _viewed(x: Entries, view: Callable[[Any], Any]) -> Entries:
    """Return a view that has each entry at most once."""
    size = x.base.size
    kept = view(np.arange(size).reshape(x.base.shape))
    base = view(x.base)
    if not base.shape or not base.size:
        raise Mixed
    places = np.full(size + 1, base.size)
    places[kept.reshape(-1)] = np.arange(base.size)
    return x.moved_to(base, places)


def _getitem(x: Entries, params: Params) -> Entries:
    index = params["index"]
    if not all(isinstance(part, slice) for part in (index if isinstance(index, tuple) else (index,))):
        raise Mixed
    return _viewed(x, lambda a: a[index])


def _sum(x: Entries, params: Params) -> Any:
    if len(params["axis"]) < x.base.ndim:
        raise Mixed
    return x.total()


_RULES: dict[str, Callable[[Entries, Params], Any]] = {
    "getitem": _getitem,
    "reshape": lambda x, p: _viewed(x, lambda a: np.reshape(a, p["to"])),
    "transpose": lambda x, p: _viewed(x, lambda a: np.transpose(a, p["axes"])),
    "sum": _sum,
}
