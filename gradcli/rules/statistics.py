"""Covariances, correlations, weighted counts."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.moving import is_traced
from gradcli.rules.options import real_dtype
from gradcli.rules.shaping import SCATTER, as_value
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import frozen, plain


@handles(np.cov)
def cov(
    m: Value,
    y: Value = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Value:
    real_dtype("cov", dtype)
    if len(shape(as_value(m))) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = np.atleast_2d(as_value(m))
    x = x.T if not rowvar and len(shape(as_value(m))) != 1 else x
    if y is not None:
        other = np.atleast_2d(as_value(y))
        other = other.T if not rowvar and shape(other)[0] != 1 else other
        x = np.concatenate([x, other], axis=0)
    free = (0 if bias else 1) if ddof is None else int(ddof)
    w = _cov_weights(fweights, aweights)
    if w is None:
        total: Value = float(shape(x)[1])
        centred, spread = x - np.mean(x, axis=1, keepdims=True), total - free
        weighted = centred
    else:
        total = np.sum(w)
        centred = x - (np.sum(x * w, axis=1) / total)[:, None]
        weighted = centred * w
        aw = 1.0 if aweights is None else as_value(aweights)
        spread = total - free * np.sum(w * aw) / total
    return np.squeeze(np.matmul(weighted, np.conjugate(centred.T)) / (spread if plain(spread) > 0 else np.float64(0)))


def _cov_weights(fweights: Any, aweights: Any) -> Value:
    if is_traced(fweights):
        raise NoRule("the counts fweights of cov are traced", do="pass them as plain integers, or use aweights=")
    given = [as_value(w) for w in (fweights, aweights) if w is not None]
    return None if not given else given[0] if len(given) == 1 else given[0] * given[1]


@handles(np.corrcoef)
def corrcoef(x: Value, y: Value = None, rowvar: bool = True, *, dtype: Any = None) -> Value:
    """Return covariances over standard deviations; numpy's clipping to [-1, 1] only removes rounding errors and is omitted."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape(c):
        return c / c
    deviation = np.sqrt(np.diagonal(c))
    return c / deviation[:, None] / deviation[None, :]


@handles(np.bincount)
def bincount(x: Any, /, weights: Value = None, minlength: int = 0) -> Value:
    """Return the sum of the weights of each integer in `x`.

    Raises  NoRule if `x` is traced.
    """
    at = frozen(x if is_traced(x) else np.asarray(x, dtype=None if np.size(x) else int))
    if weights is None:
        return np.bincount(at, minlength=minlength)
    count = len(np.bincount(at, minlength=minlength))
    return SCATTER(as_value(weights), index=(at,), into=(count,))
