"""A recorded program on many points at once: every value that moves has a leading axis of lanes, one a point.

A lane that takes another branch than the recorded run (a comparison, a rounding) is told apart, for its value belongs to
another program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.core.shapes import shape, size
from gradcli.errors import NotSupported
from gradcli.interpreters.tape import CONSTANT, Line, Tape
from gradcli.lowering.floats import FLOAT64, Format

LINE = 2**17  # entries of one line in all lanes, 1 MiB: so many that calls of numpy cost little beside what they do
ALL = 2**22  # entries of all lines, 32 MiB


def lanes_at_once(tape: Tape) -> int:
    """Return how many lanes are run together, so that they are quick and memory stays bounded."""
    sizes = [size(line[3]) for line in tape.lines]
    return max(1, min(LINE // max(1, *sizes), ALL // max(1, sum(sizes))))


def run(tape: Tape, slot: int, moved: Mapping[int, Any], form: Format = FLOAT64) -> tuple[Any, Any]:
    """Return the value of line `slot` in each lane, every operation rounded to a format, and which lanes took other branches.

    Shapes  `moved[k]`, a value for the line of input k, has a leading axis of lanes; so has the value; a mask of lanes.
    Raises  NotSupported for an operation that the format has not.
    """
    count = len(next(iter(moved.values())))
    values: list[Any] = []
    moving: list[bool] = []
    last = max((s for line in tape.decisions for s in line[1]), default=slot)  # a decision may look at later lines
    for k, line in enumerate(tape.lines[: max(slot, last) + 1]):
        if line[0] is None:
            values.append(moved[k] if k in moved else form.rounded(line[3]))
            moving.append(k in moved)
        else:
            y, moves = _step(line, values, moving, form)
            values.append(y)
            moving.append(moves)
    apart = np.zeros(count, dtype=bool)
    for line in tape.decisions:
        if any(s != CONSTANT and moving[s] for s in line[1]):
            apart |= _decided_otherwise(line, values, moving, form)
    y = values[slot]
    return (y if moving[slot] else np.broadcast_to(y, (count, *shape(y)))), apart


def _step(line: Line, values: list[Any], moving: list[bool], form: Format) -> tuple[Any, bool]:
    primitive, slots, xs, _, params, _ = line
    if primitive is None:
        raise ValueError("an input is no step")
    operands = [form.rounded(x) if s == CONSTANT else values[s] for s, x in zip(slots, xs, strict=True)]
    moves = [s != CONSTANT and moving[s] for s in slots]
    try:
        y = _applied(primitive, operands, moves, params or {}, shape(line[3]))
    except TypeError as error:
        raise NotSupported(f"{primitive.name} cannot be computed in {form.name}: {str(error).split(',')[0]}") from None
    return form.rounded(y), any(moves)


def _decided_otherwise(line: Line, values: list[Any], moving: list[bool], form: Format) -> Any:
    """Return in which lanes a comparison or a rounding came out otherwise than in the recorded run."""
    real = [np.real(x) if np.iscomplexobj(x) else x for x in values]
    y, _ = _step(line, real, moving, form)
    here = np.asarray(y == form.rounded(line[3]))
    return ~np.all(here.reshape(len(here), -1), axis=1)


def _applied(primitive: Primitive, xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any], out: Any) -> Any:
    """Run one primitive on all lanes; nan, in the shape `out` of the recorded result, where a matrix is singular."""
    if not any(moves):
        return primitive.fun(*xs, **params)
    if not primitive.body:
        if primitive.kind == "elementwise" or primitive.name in ("where", "matmul"):
            return primitive.fun(*_aligned(xs, moves), **params)
        rule = _RULES.get(primitive.name)
        found = None if rule is None else rule(xs, moves, params)
        if found is not None:
            return found
    count = len(xs[list(moves).index(True)])
    rows = ([x[lane] if move else x for x, move in zip(xs, moves, strict=True)] for lane in range(count))
    return np.stack([_alone(primitive, row, params, out) for row in rows])


def _alone(primitive: Primitive, xs: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
    try:
        return np.asarray(primitive.fun(*xs, **params))
    except np.linalg.LinAlgError:
        return np.full(out, np.nan)


def _aligned(xs: Sequence[Any], moves: Sequence[bool]) -> list[Any]:
    """Return operands whose own axes stand under each other, behind that of the lanes."""
    deep = max(np.ndim(x) - move for x, move in zip(xs, moves, strict=True))
    return [
        x.reshape(len(x), *(1,) * (deep - x.ndim + 1), *x.shape[1:]) if move else x
        for x, move in zip(xs, moves, strict=True)
    ]


def _getitem(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    index = params["index"] if isinstance(params["index"], tuple) else (params["index"],)
    return xs[0][(slice(None), *index)] if _leads(index) else None


def _put(xs: Sequence[Any], moves: Sequence[bool], params: dict[str, Any]) -> Any:
    index = params["index"] if isinstance(params["index"], tuple) else (params["index"],)
    count = len(xs[list(moves).index(True)])
    if not _leads(index) or (moves[1] and xs[1].ndim > 1):
        return None
    x = xs[0] if moves[0] else np.broadcast_to(xs[0], (count, *np.shape(xs[0])))
    y = np.array(x, dtype=np.result_type(*xs))
    written = y[(slice(None), *index)]
    y[(slice(None), *index)] = xs[1].reshape(count, *(1,) * (written.ndim - 1)) if moves[1] else xs[1]
    return y


def _leads(index: tuple[Any, ...]) -> bool:
    """Whether an axis before an index stays before its result: arrays in it, apart from each other, would move theirs."""
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


def _axes(params: dict[str, Any]) -> tuple[int, ...]:
    return tuple(k + 1 for k in params["axis"])


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
    "sum": lambda xs, moves, p: np.sum(xs[0], axis=_axes(p)),
    "max": lambda xs, moves, p: np.max(xs[0], axis=_axes(p)),
}
