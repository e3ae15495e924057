"""Measure gradients in low precision: errors in ulps, underflow and overflow, and the effect of loss scaling."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.errors import GradcliError, NotSupported
from gradcli.interpreters.low import Low, low
from gradcli.interpreters.program import record
from gradcli.lowering.floats import Format
from gradcli.modes.mode import Question
from gradcli.point import Estimate
from gradcli.reports.compare_rows import Precision
from gradcli.source.derived import Gradient

_HEADROOM = 2  # powers of two that an automatic loss scale leaves below the largest number
MOST_SCALE = 120  # the largest power of two by which float32 can be scaled back


def in_format(q: Question, right: Estimate, form: Format, scale: int | None) -> Precision:
    """Return the accuracy of a reverse sweep in a format, plain and with the loss scaled by 2^scale.

    Without `scale`, the loss is scaled only if something underflows, by the largest power of two without overflow.

    Units   errors in ulps of the format; `scale` is an exponent of two.
    Raises  NotSupported for second derivatives, and for functions that are no scalars.
    """
    if isinstance(q.f, Gradient):
        raise NotSupported("low precision is for first derivatives", do="leave --order 2 out")
    if shape(q.value) != ():
        raise NotSupported("a loss is scaled, and this result is not a scalar", do="reduce it: sum(...)")
    plain, events = _swept(q, form, 0)
    lost = _lost(plain, right)
    small = events["underflow"] + events["subnormal"]
    k = scale if scale is not None else (_largest(q, form) or None) if small else None
    worst, median, infinite = _figures(plain, right, form)
    found = Precision(
        dtype=form.name, ulps_worst=worst, ulps_median=median, zeros=_total(lost), not_finite=infinite,
        underflows=events["underflow"], subnormals=events["subnormal"], overflows=events["overflow"],
    )  # fmt: skip
    if k is None:
        return found
    scaled, scaled_events = _swept(q, form, k)
    worst, median, infinite = _figures(scaled, right, form)
    restored = {name: was & (scaled[name] != 0) & np.isfinite(scaled[name]) for name, was in lost.items()}
    return replace(
        found, loss_scale=k, restored=_total(restored), scaled_ulps_worst=worst, scaled_ulps_median=median,
        scaled_overflows=scaled_events["overflow"], scaled_not_finite=infinite,
    )  # fmt: skip


def _swept(q: Question, form: Format, k: int) -> tuple[dict[str, Any], Mapping[str, int]]:
    """Return the gradient of 2^k f in a format, divided by 2^k, and the counts of underflow and overflow."""
    kind: type[Low] = low(form)
    kind.events.clear()
    with np.errstate(all="ignore"):
        try:
            y, inputs, tape = record(q.g, [kind.lift(x) for x in q.xs])
            bars = tape.pull(y, kind.lift(2.0**k), inputs)
        except (GradcliError, np.linalg.LinAlgError) as error:
            if not isinstance(error.__cause__ or error, np.linalg.LinAlgError):
                raise
            bars = [np.full(shape(x), np.nan) for x in q.xs]  # a matrix that is singular after rounding
        found = {name: _plain(bar) / 2.0**k for name, bar in zip(q.wrt, bars, strict=True)}
    return found, dict(kind.events) | {key: kind.events[key] for key in ("underflow", "subnormal", "overflow")}


def _plain(x: Value) -> Any:
    return np.asarray(x.value if isinstance(x, Low) else x, dtype=np.float64)


def _lost(found: dict[str, Any], right: Estimate) -> dict[str, Any]:
    """Return a mask of the entries that became zero but should not be, by input."""
    return {name: (x == 0) & (right.value[name] != 0) for name, x in found.items()}


def _total(which: dict[str, Any]) -> int:
    return sum(int(np.count_nonzero(x)) for x in which.values())


def _figures(found: dict[str, Any], right: Estimate, form: Format) -> tuple[float, float, int]:
    """Return the worst and the median error in ulps of the format, and the number of entries that are not finite.

    An ulp is relative to the size of the right entry, as if the exponent had no limits; for an entry of zero it is that
    of the smallest normal number. An entry that is not finite has an infinite error.
    """
    errors, infinite = [np.zeros(0)], 0
    for name, x in found.items():
        g = np.abs(np.asarray(right.value[name]))
        exponent = np.floor(np.log2(np.where(g == 0, form.tiny, np.maximum(g, np.finfo(float).tiny))))
        ulps = np.abs(x - right.value[name]) / (form.eps * 2.0**exponent)
        infinite += int(np.count_nonzero(~np.isfinite(x)))
        errors.append(np.ravel(np.where(np.isfinite(x), ulps, np.inf)))
    every = np.concatenate(errors)
    return (float(np.max(every, initial=0.0)), float(np.median(every)) if len(every) else 0.0, infinite)


def _largest(q: Question, form: Format) -> int:
    """Return the exponent of the largest power of two by which no adjoint overflows."""
    top = max(q.largest_adjoint, 1.0)
    return int(np.clip(np.floor(np.log2(form.largest / top)) - _HEADROOM, 0, MOST_SCALE))
