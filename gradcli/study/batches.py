"""Gradient accumulation: compare the mean and the sum of micro-batch gradients with the full batch's gradient."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import BadOption
from gradcli.interpreters.program import value_and_pulled
from gradcli.modes.mode import Question
from gradcli.reports.compare_rows import Accumulation

_ROUNDING = 1e-9  # relative: a larger difference is not rounding error


def accumulated(q: Question, count: int) -> Accumulation:
    """Return how the mean and the sum of the gradients of `count` micro-batches differ from the full gradient.

    The batch is split along the first axis of all inputs that are not differentiated; these must have the same length.

    Raises  BadOption if f is no scalar, if there is no such axis, or if it has fewer than `count` rows.
    """
    if shape(q.value) != ():
        raise BadOption("--accumulate needs a scalar loss", do="reduce the result: mean(...)")
    batch = _batched(q)
    rows = len(q.point.values[batch[0]])
    if not 1 < count <= rows:
        raise BadOption(f"--accumulate {count} does not fit a batch of {rows}", do=f"--accumulate 2 to {rows}")
    full = _gradient(q, {})
    parts, sizes = [], []
    for some in np.array_split(np.arange(rows), count):
        parts.append(_gradient(q, {name: q.point.values[name][some] for name in batch}))
        sizes.append(len(some))
    shares = np.array(sizes) / rows
    mean = [sum((w * part[k] for w, part in zip(shares, parts, strict=True)), 0.0) for k in range(len(full))]
    total = [sum((part[k] for part in parts), 0.0) for k in range(len(full))]
    apart: dict[Literal["mean", "sum"], float] = {"mean": _apart(mean, full), "sum": _apart(total, full)}
    how = min(apart, key=lambda name: apart[name])
    return Accumulation(
        count, tuple(batch), rows, how if apart[how] <= _ROUNDING else None, apart["mean"], apart["sum"],
        len(set(sizes)) > 1,
    )  # fmt: skip


def _batched(q: Question) -> list[str]:
    still = [name for name, x in q.point.values.items() if name not in q.wrt and isinstance(x, np.ndarray) and x.ndim]
    lengths = {len(q.point.values[name]) for name in still}
    if len(lengths) != 1:
        what = "several lengths" if lengths else "no array"
        raise BadOption(
            f"--accumulate splits the inputs that are not differentiated along their first axis, and they have {what}",
            do='differentiate by the parameters alone: --wrt "w,b"',
        )
    return still


def _gradient(q: Question, changed: dict[str, Any]) -> list[Any]:
    point = replace(q.point, values={**q.point.values, **changed}, value=None)
    part = replace(q, point=point)
    with np.errstate(all="ignore"):
        _, xbars = value_and_pulled(part.g, part.xs, lambda y: np.float64(1))
    return [np.asarray(xbar, dtype=np.float64) for xbar in xbars]


def _apart(found: list[Any], full: list[Any]) -> float:
    """Return the largest difference, relative to the largest entry of the full gradient."""
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in full), default=0.0) or 1.0
    return (
        max((float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(found, full, strict=True)), default=0.0) / size
    )
