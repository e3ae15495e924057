"""Measure the accuracy of each primitive's derivative rule, in units in the last place (ulps)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.core.primitive import PRIMITIVES, Params, Primitive
from gradcli.errors import Undecided
from gradcli.interpreters.ball import Ball, error_of, nearest, precision, radius
from gradcli.interpreters.formula import written
from gradcli.primitives.kinds import Factor, Partial
from gradcli.reports.listing import Operation
from gradcli.source.names import FUNCTIONS
from gradcli.study.samples import PARAMS

BITS = (256, 1024, 4096)  # saturated slopes need more; those that 4096 do not resolve are far below float64's range
SMALLEST = 1e-290  # smaller float64 numbers may have fewer digits


def operations(name: str | None = None) -> tuple[Operation, ...]:
    """Return a description of each primitive with its accuracy, measured now; only of the named one if `name` is given."""
    rows = [row for row in PRIMITIVES.values() if row.rules and name in (None, row.name)]
    return tuple(map(operation, rows))


def operation(row: Primitive) -> Operation:
    """Return a description of one primitive, built in or the user's own."""
    params = _params(row)
    elementwise = all(isinstance(rule, Partial | Factor) for rule in row.rules)
    names = ("x",) if len(row.rules) == 1 else tuple("abcdefgh"[: len(row.rules)])
    partials = tuple(_text(rule, names, params) for rule in row.rules) if elementwise else (row.kind,)
    return Operation(
        row.name, row.kind, tuple(domain.name for domain in row.on) if elementwise else (), partials, row.kinks,
        worst_ulps(row) if elementwise and not row.body else None, row.reason,
    )  # fmt: skip


def _params(row: Primitive) -> Params:
    """Return the example parameters with which a primitive is shown and measured."""
    return {} if row.body else PARAMS.get(row.name, ({},))[0]


def _text(rule: Any, names: tuple[str, ...], params: Params) -> str:
    return f"{rule.factor:g}" if isinstance(rule, Factor) else written(rule.partial, "y", names, params)


def hard_points(row: Primitive) -> Iterator[tuple[np.float64, ...]]:
    """Yield arguments from the whole domain: tiny, ordinary, huge and saturating ones."""
    first = row.on[0].hard
    if len(row.rules) == 1:
        yield from ((np.float64(x),) for x in first)
        return
    for k, x in enumerate(first):
        for step in (0, 1, 5, 11):
            rest = (domain.hard[(k + (i + 1) * step) % len(domain.hard)] for i, domain in enumerate(row.on[1:]))
            yield np.float64(x), *map(np.float64, rest)


def worst_ulps(row: Primitive) -> float:
    """Return the largest error of a primitive's float64 partials over its whole domain.

    Units  ulps of the right value, which is computed in balls.
    """
    params = _params(row)
    worst = 0.0
    with np.errstate(all="ignore"):
        for xs in hard_points(row):
            for rule in row.rules:
                worst = max(
                    worst, next((u for bits in BITS if (u := _ulps(row, rule, xs, params, bits)) is not None), 0.0)
                )
    return worst


def _ulps(row: Primitive, rule: Any, xs: tuple[np.float64, ...], params: Params, bits: int) -> float | None:
    """Return the error of one partial in ulps, or None if this many bits do not determine the right value."""
    with precision(bits):
        balls = [Ball.lift(x) for x in xs]
        try:
            y = row(*balls, **params)
            right = y * 0 + (rule.factor if isinstance(rule, Factor) else rule.partial(y, *balls, **params))
        except Undecided:  # a tie between branches: its slope is a convention, without error
            return 0.0
        size = abs(float(nearest(right)))
        value = float(row.fun(*xs, **params))
        if not np.isfinite(size) or not np.isfinite(value):
            return 0.0
        if not float(radius(right)) <= 1e-20 * size:
            return None
        slope = np.float64(rule.slope(np.float64(value), xs, params))
        return float(error_of(right, slope) / np.spacing(size)) if size > SMALLEST else 0.0


def functions() -> tuple[str, ...]:
    """Return the names an expression can call."""
    return tuple(sorted(FUNCTIONS))
