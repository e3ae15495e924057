"""A recorded program run at many points at once: every value that differs between points has a leading axis of lanes.

A lane is one point. A lane in which a decision (a comparison, a rounding) differs from the recorded run is marked, because
its value comes from another branch of the function.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.floats import FLOAT64, Format
from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.classes import dataclass
from gradcli.errors import NotSupported, OutOfTime
from gradcli.rules.linalg import MATMUL
from gradcli.rules.shaping import SELECT
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.shapes import shape, size

MOST = 4  # changed entries of one value in one lane
Params = dict[str, Any]


class Mixed(Exception):
    """An operation mixes changed entries with others."""


LINE = 2**17  # entries of one line in all lanes, 1 MiB: enough to make the overhead of numpy's calls small
ALL = 2**22  # entries of all lines in all lanes, 32 MiB
Shapes = Sequence[tuple[int, ...]]


def lanes_at_once(program: RecordedProgram) -> int:
    """Return how many lanes to run together, so that they are fast and memory stays bounded."""
    sizes = [size(y) for y in program.tape.values]
    return max(1, min(LINE // max(1, *sizes), ALL // max(1, sum(sizes))))


# A recorded program run at many points that each differ from the recorded point in one entry: only changes are computed.
#
# Elementwise operations run on the changed entries only, and views move the positions of these entries. A sum over an array
# adds up the recorded array with the changed entries replaced, so that it rounds like the sum at that point alone. Operations
# that mix entries in other ways raise `Mixed`; the caller then runs whole arrays.


def run(program: RecordedProgram, moved: Mapping[int, Any], form: Format = FLOAT64) -> tuple[Any, Any]:
    """Return the value in each lane, every operation rounded to a format, and which lanes took other branches.

    Shapes  `moved[k]`, the values of input line k, has a leading axis of lanes, and so has the result; the mask is (lanes,).
    Raises  NotSupported for an operation that the format does not have.
    """
    return Lanes(program, frozenset(moved), form).run(moved)


@dataclass(frozen=True, slots=True)
class _Step:
    """One line to compute: `fun` is applied to the values of slots, some of which are constants."""

    name: str
    to: int
    fun: Callable[..., Any]
    slots: tuple[int, ...]


class Lanes:
    """A recorded program, prepared for many points that differ in the inputs `moving`.

    Lines that do not depend on these inputs are computed once.

    Raises  NotSupported, here or in `run`, for an operation that the format does not have.
    """

    def __init__(self, program: RecordedProgram, moving: frozenset[int], form: Format = FLOAT64) -> None:
        tape, slot = program.tape, program.y.slot
        self.slot, self.form = slot, form
        asked = (s for _, slots, *_ in tape.decisions for s in slots)  # a decision may look at later lines
        lines = tape.lines[: max([slot, *asked]) + 1]
        self.values: list[Any] = [None] * len(lines)  # of constant lines; constant operands are appended
        self.moves = [k in moving for k in range(len(lines))]
        self.steps: list[_Step] = []
        for k, line in enumerate(lines):
            primitive, _, _, y, _, _ = line
            if primitive is None:
                self.values[k] = form.rounded(y)
                continue
            self.moves[k] = self._is_moving(line)
            step = self._make_step(k, line)
            if self.moves[k]:
                self.steps.append(step)
            else:
                self.values[k] = _compute_step(step, self.values, form)
        self.decisions = []
        for line in filter(self._is_moving, tape.decisions):
            _, _, _, answer, _, _ = line
            self.decisions.append((self._make_step(0, line), form.rounded(answer)))

    def _is_moving(self, line: Line) -> bool:
        _, slots, _, _, _, _ = line
        return any(s != CONSTANT and self.moves[s] for s in slots)

    def _make_step(self, k: int, line: Line) -> _Step:
        primitive, slots, xs, y, params, _ = line
        if primitive is None:
            raise ValueError("an input is no step")
        moves = [s != CONSTANT and self.moves[s] for s in slots]
        where = tuple(self._add_constant(x) if s == CONSTANT else s for s, x in zip(slots, xs, strict=True))
        return _Step(primitive.name, k, self.on(primitive, list(map(shape, xs)), moves, params or {}, shape(y)), where)

    def on(
        self, primitive: Primitive, shapes: Shapes, moves: Sequence[bool], params: dict[str, Any], out: Any
    ) -> Callable[..., Any]:
        """Return a function that runs one primitive on all lanes, as `function_on_lanes` does, and rounds to the format."""
        fun, form = function_on_lanes(primitive, shapes, moves, params, out), self.form
        return fun if form is FLOAT64 else lambda *xs: form.rounded(fun(*xs))

    def _add_constant(self, x: Any) -> int:
        self.values.append(self.form.rounded(x))
        return len(self.values) - 1

    def run(self, moved: Mapping[int, Any]) -> tuple[Any, Any]:
        """Return the value in each lane, and a mask of the lanes that took other branches.

        Shapes  as for the function `run`.
        """
        values = self.values.copy()
        for k, x in moved.items():
            values[k] = x
        for step in self.steps:
            values[step.to] = _compute_step(step, values, self.form)
        count = len(next(iter(moved.values())))
        apart = np.zeros(count, dtype=bool)
        if self.decisions:
            real = [np.real(x) if np.iscomplexobj(x) else x for x in values]
            for step, expected in self.decisions:
                apart |= self.differs(_compute_step(step, real, self.form), expected)
        y = values[self.slot]
        return (y if self.moves[self.slot] else np.broadcast_to(y, (count, *shape(y)))), apart

    def differs(self, y: Any, expected: Any) -> Any:
        """Return a mask of the lanes in which a decision differs from the recorded run."""
        same = np.asarray(y == expected)
        return ~np.all(same.reshape(len(same), -1), axis=1)


def _compute_step(step: _Step, values: list[Any], form: Format) -> Any:
    try:
        return step.fun(*[values[s] for s in step.slots])
    except TypeError as error:
        raise NotSupported(f"{step.name} cannot be computed in {form.name}: {str(error).split(',')[0]}") from None


def function_on_lanes(
    primitive: Primitive, shapes: Shapes, moves: Sequence[bool], params: dict[str, Any], out: Any
) -> Callable[..., Any]:
    """Return a function that runs one primitive on all lanes.

    Where an operation raises an error, as for a singular matrix, its result is nan in the shape `out` of the recorded one.

    Shapes  `shapes` are those of the operands in one lane; the operands marked in `moves` have a leading axis of lanes.
    """
    fun = functools.partial(primitive.fun, **params) if params else primitive.fun
    if not any(moves):
        return fun
    if not primitive.body:
        if primitive.kind == "elementwise" or primitive.is_a(SELECT, MATMUL):
            return _align_axes(fun, [len(s) for s in shapes], moves)
        rule = _RULES.get(primitive.name)
        if rule is not None:
            return lambda *xs: y if (y := rule(xs, moves, params)) is not None else _run_one_by_one(fun, xs, moves, out)
    return lambda *xs: _run_one_by_one(fun, xs, moves, out)


def _run_one_by_one(fun: Callable[..., Any], xs: Sequence[Any], moves: Sequence[bool], out: Any) -> Any:
    found = []
    for lane in range(len(xs[list(moves).index(True)])):
        try:
            found.append(np.asarray(fun(*(x[lane] if move else x for x, move in zip(xs, moves, strict=True)))))
        except (OutOfTime, TypeError, MemoryError):
            raise
        except Exception:
            found.append(np.full(out, np.nan))
    return np.stack(found)


def _align_axes(fun: Callable[..., Any], deeps: Sequence[int], moves: Sequence[bool]) -> Callable[..., Any]:
    """Return `fun` with operands whose axes are aligned for broadcasting after the axis of lanes."""
    deep = max(deeps)
    if all(own == deep for own, move in zip(deeps, moves, strict=True) if move):
        return fun

    def aligned(*xs: Any) -> Any:
        return fun(*(
            x.reshape(len(x), *(1,) * (deep - x.ndim + 1), *x.shape[1:]) if move else x
            for x, move in zip(xs, moves, strict=True)
        ))  # fmt: skip

    return aligned


def _getitem(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    index = params["index"] if isinstance(params["index"], tuple) else (params["index"],)
    return xs[0][(slice(None), *index)] if _is_lane_axis_first(index) else None


def _put(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    index = params["index"] if isinstance(params["index"], tuple) else (params["index"],)
    count = len(xs[list(moves).index(True)])
    if not _is_lane_axis_first(index) or (moves[1] and xs[1].ndim > 1):
        return None
    x = xs[0] if moves[0] else np.broadcast_to(xs[0], (count, *np.shape(xs[0])))
    y = np.array(x, dtype=np.result_type(*xs))
    written = y[(slice(None), *index)]
    y[(slice(None), *index)] = xs[1].reshape(count, *(1,) * (written.ndim - 1)) if moves[1] else xs[1]
    return y


def _is_lane_axis_first(index: tuple[Any, ...]) -> bool:
    """Return whether a leading axis stays in front of an index; several arrays in an index could move theirs before it."""
    plain = (slice, type(None), type(...))
    arrays = [part for part in index if not isinstance(part, plain) and not isinstance(part, int | np.integer)]
    return not arrays or len(arrays) + sum(isinstance(part, int | np.integer) for part in index) == 1


def _join(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    count = len(xs[list(moves).index(True)])
    whole = [x if move else np.broadcast_to(x, (count, *np.shape(x))) for x, move in zip(xs, moves, strict=True)]
    return np.concatenate(whole, axis=params["axis"] + 1)


def _einsum(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    inside, _, out = params["subscripts"].partition("->")
    letter = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in params["subscripts"])
    terms = [letter * move + term for term, move in zip(inside.split(","), moves, strict=True)]
    return np.einsum(f"{','.join(terms)}->{letter}{out}", *xs)


Rule = Callable[[Sequence[Any], Sequence[bool], dict[str, Any]], Any]
_RULES: dict[str, Rule] = {
    "getitem": _getitem,
    "put": _put,
    "concatenate": _join,
    "einsum": _einsum,
    "reshape": lambda xs, moves, p: xs[0].reshape(len(xs[0]), *p["to"]),
    "transpose": lambda xs, moves, p: np.transpose(xs[0], (0, *(k + 1 for k in p["axes"]))),
    "broadcast_to": lambda xs, moves, p: np.broadcast_to(
        xs[0].reshape(len(xs[0]), *(1,) * (len(p["to"]) - xs[0].ndim + 1), *xs[0].shape[1:]), (len(xs[0]), *p["to"])
    ),
    "sum": lambda xs, moves, p: np.sum(xs[0], axis=tuple(k + 1 for k in p["axis"])),
    "max": lambda xs, moves, p: np.max(xs[0], axis=tuple(k + 1 for k in p["axis"])),
}


@dataclass(frozen=True, slots=True)
class ChangedLanes:
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

    def total(self) -> Any:
        """Return the sum over the whole array in each lane.

        Shapes  the result is (lanes,).
        """
        row = self.base.reshape(-1)
        found = np.empty(len(self.at), self.values.dtype)
        rows = np.empty((max(1, min(len(self.at), LINE // row.size)), row.size), self.values.dtype)
        rows[...] = row
        for start in range(0, len(self.at), len(rows)):
            part = slice(start, start + len(rows))
            lanes, columns = np.nonzero(self.at[part] < row.size)
            at = self.at[part][lanes, columns]
            rows[lanes, at] = self.values[part][lanes, columns]
            found[part] = np.sum(rows[: len(found[part])], axis=1)
            rows[lanes, at] = row[at]
        return found


class EntryLanes(Lanes):
    """A recorded program prepared for many points that differ in entries of one input, which `run` takes as `ChangedLanes`.

    Raises  Mixed, in `run`, if an operation mixes changed entries with others.
    """

    def run(self, moved: Mapping[int, Any]) -> tuple[Any, Any]:
        if self.decisions and any(np.iscomplexobj(x.values) for x in moved.values()):
            raise Mixed
        y, apart = super().run(moved)
        if isinstance(y, ChangedLanes):
            raise Mixed
        return y, apart

    def on(
        self, primitive: Primitive, shapes: Shapes, moves: Sequence[bool], params: Params, out: Any
    ) -> Callable[..., Any]:
        on_lanes = super().on(primitive, shapes, moves, params, out)
        alone = super().on(primitive, shapes, [False] * len(moves), params, out)

        def on_entries(*xs: Any) -> Any:
            few = [isinstance(x, ChangedLanes) for x in xs]
            if not any(few):
                if any(moves) and out:  # a whole array in each lane: nothing is saved
                    raise Mixed
                return on_lanes(*xs)
            if primitive.body or few != list(moves):
                raise Mixed
            compares = primitive.kind == "constant" and isinstance(primitive.fun, np.ufunc)
            if compares or primitive.kind == "elementwise" or primitive.is_a(SELECT):
                return _run_on_entries(alone, xs)
            rule = _RULES_OF_ENTRIES.get(primitive.name)
            if rule is None or len(xs) > 1:
                raise Mixed
            y = rule(xs[0], params)
            return y if isinstance(y, ChangedLanes) else self.form.rounded(y)

        return on_entries

    def differs(self, y: Any, expected: Any) -> Any:
        if not isinstance(y, ChangedLanes):
            return super().differs(y, expected)
        recorded = np.asarray(expected).reshape(-1)[np.minimum(y.at, y.base.size - 1)]
        return np.any((y.at < y.base.size) & (y.values != recorded), axis=1)


def _run_on_entries(fun: Callable[..., Any], xs: Sequence[Any]) -> ChangedLanes:
    """Return an elementwise operation at the changed entries of all operands.

    Raises  Mixed if an operand does not have the shape of the result, or too many entries change.
    """
    base = fun(*(x.base if isinstance(x, ChangedLanes) else x for x in xs))
    several = [x for x in xs if isinstance(x, ChangedLanes)]
    if any(x.base.shape != np.shape(base) for x in several):
        raise Mixed
    ats = list({id(x.at): x.at for x in several}.values())
    at = ats[0] if len(ats) == 1 else np.concatenate(ats, axis=1)
    if at.shape[1] > MOST:
        raise Mixed
    return ChangedLanes(base, at, fun(*(_values_at(x, at, base.shape) for x in xs)))


def _values_at(x: Any, at: Any, whole: tuple[int, ...]) -> Any:
    if isinstance(x, ChangedLanes):
        return x.values if x.at is at else x.among(at)
    if not np.shape(x):
        return x
    row = np.broadcast_to(x, whole).reshape(-1)
    return row[np.minimum(at, row.size - 1)]


def _move_by_view(x: ChangedLanes, view: Callable[[Any], Any]) -> ChangedLanes:
    """Return the result of `view`, which must contain each entry at most once."""
    size = x.base.size
    kept = view(np.arange(size).reshape(x.base.shape))
    base = view(x.base)
    if not base.shape or not base.size:
        raise Mixed
    places = np.full(size + 1, base.size)
    places[kept.reshape(-1)] = np.arange(base.size)
    return ChangedLanes(base, places[np.minimum(x.at, size)], x.values)


def _getitem_of_entries(x: ChangedLanes, params: Params) -> ChangedLanes:
    index = params["index"]
    if not all(isinstance(part, slice) for part in (index if isinstance(index, tuple) else (index,))):
        raise Mixed
    return _move_by_view(x, lambda a: a[index])


def _sum(x: ChangedLanes, params: Params) -> Any:
    if len(params["axis"]) < x.base.ndim:
        raise Mixed
    return x.total()


_RULES_OF_ENTRIES: dict[str, Callable[[ChangedLanes, Params], Any]] = {
    "getitem": _getitem_of_entries,
    "reshape": lambda x, p: _move_by_view(x, lambda a: np.reshape(a, p["to"])),
    "transpose": lambda x, p: _move_by_view(x, lambda a: np.transpose(a, p["axes"])),
    "sum": _sum,
}
