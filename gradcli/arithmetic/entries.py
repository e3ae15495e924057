"""A recorded program run at many points that each differ from the recorded point in one entry: only changes are computed.

Elementwise operations run on the changed entries only, and views move the positions of these entries. A sum over an array
adds up the recorded array with the changed entries replaced, so that it rounds like the sum at that point alone. Operations
that mix entries in other ways raise `Mixed`; the caller then runs whole arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.arithmetic import batch
from gradcli.rules.reductions import SUM
from gradcli.rules.shaping import GETITEM, RESHAPE, SELECT, TRANSPOSE
from gradcli.tracing.primitive import Primitive, by_name

MOST = 4  # changed entries of one value in one lane
Params = dict[str, Any]


class Mixed(Exception):
    """An operation mixes changed entries with others."""


@dataclass(frozen=True, slots=True)
class Entries:
    """An array in many lanes, each of which differs from `base` at a few positions of its flat order.

    Shapes  `at` and `values` are (lanes, entries); a position beyond the array marks an entry that is not in it.
    """

    base: Any
    at: Any
    values: Any

    def __len__(self) -> int:
        return len(self.at)

    def among(self, at: Any) -> Any:
        """Return the values at the positions `at` in each lane."""
        row = self.base.reshape(-1)
        found = row[np.minimum(at, row.size - 1)]
        for k in range(self.at.shape[1]):
            found = np.where(at == self.at[:, k : k + 1], self.values[:, k : k + 1], found)
        return found

    def moved_to(self, base: Any, places: Any) -> "Entries":
        """Return the entries in another array; `places[k]` is the position there of the entry at position k here."""
        return Entries(base, places[np.minimum(self.at, len(places) - 1)], self.values)

    def total(self) -> Any:
        """Return the sum over the whole array in each lane.

        Shapes  the result is (lanes,).
        """
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


class EntryLanes(batch.Lanes):
    """A recorded program prepared for many points that differ in entries of one input, which `run` takes as `Entries`.

    Raises  Mixed, in `run`, if an operation mixes changed entries with others.
    """

    def run(self, moved: Mapping[int, Any]) -> tuple[Any, Any]:
        if self.decisions and any(np.iscomplexobj(x.values) for x in moved.values()):
            raise Mixed
        y, apart = super().run(moved)
        if isinstance(y, Entries):
            raise Mixed
        return y, apart

    def on(
        self, primitive: Primitive, shapes: batch.Shapes, moves: Sequence[bool], params: Params, out: Any
    ) -> Callable[..., Any]:
        on_lanes = super().on(primitive, shapes, moves, params, out)
        alone = super().on(primitive, shapes, [False] * len(moves), params, out)

        def on_entries(*xs: Any) -> Any:
            few = [isinstance(x, Entries) for x in xs]
            if not any(few):
                if any(moves) and out:  # a whole array in each lane: nothing is saved
                    raise Mixed
                return on_lanes(*xs)
            if primitive.body or few != list(moves):
                raise Mixed
            if _entry_by_entry(primitive):
                return _elementwise(alone, xs)
            rule = _RULES.get(primitive.name)
            if rule is None or len(xs) > 1:
                raise Mixed
            y = rule(xs[0], params)
            return y if isinstance(y, Entries) else self.form.rounded(y)

        return on_entries

    def differs(self, y: Any, expected: Any) -> Any:
        if not isinstance(y, Entries):
            return super().differs(y, expected)
        recorded = np.asarray(expected).reshape(-1)[np.minimum(y.at, y.base.size - 1)]
        return np.any((y.at < y.base.size) & (y.values != recorded), axis=1)


def _entry_by_entry(primitive: Primitive) -> bool:
    compares = primitive.kind == "constant" and isinstance(primitive.fun, np.ufunc)
    return compares or primitive.kind == "elementwise" or primitive.is_a(SELECT)


def _elementwise(fun: Callable[..., Any], xs: Sequence[Any]) -> Entries:
    """Return an elementwise operation at the changed entries of all operands.

    Raises  Mixed if an operand does not have the shape of the result, or too many entries change.
    """
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
    """Return the result of `view`, which must contain each entry at most once."""
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


_RULES: dict[str, Callable[[Entries, Params], Any]] = by_name(
    {
        GETITEM: _getitem,
        RESHAPE: lambda x, p: _viewed(x, lambda a: np.reshape(a, p["to"])),
        TRANSPOSE: lambda x, p: _viewed(x, lambda a: np.transpose(a, p["axes"])),
        SUM: _sum,
    }
)
