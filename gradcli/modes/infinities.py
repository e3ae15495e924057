"""Why an operation gives a value that is not finite: it overflows, or the point is a pole or outside its domain."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import Line
from gradcli.errors import Undecided
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import shape

INTO_THE_DOMAIN = "move the point into the domain of the function"
TO_FINITE = "move the point to where f and its slope are finite"
_BY_MAXIMUM = "subtract the maximum first (logsumexp, softmax, softplus), or scale the input"
_UNDERFLOWING = {"exp", "exp2"}
_UNDERFLOWED = (
    "exp underflows to 0 before: subtract the maximum first (logsumexp, softmax, softplus), or scale the input"
)
_BY_SCALE = "scale the input, or compute with logarithms"
_EXPONENTIAL = {"exp", "exp2", "expm1"}
_OPERATORS = {
    "add": "the sum", "subtract": "the difference", "multiply": "the product", "divide": "the quotient",
    "power": "the power", "integer_power": "the power", "square": "the square", "reciprocal": "the quotient",
    "matmul": "the product", "einsum": "the product", "absolute": "the absolute value",
}  # fmt: skip


def named(primitive: Primitive, position: Any) -> str:
    """Return how a message calls a primitive: by its name if the user wrote it, else `the product` for `x*y`."""
    written = re.search(rf"\b{primitive.name}\b", code_at(position))
    return primitive.name if written else _OPERATORS.get(primitive.name, primitive.name)


def overflow_hint(primitive: Primitive, xs: Sequence[Value], y: Value, params: Params) -> str | None:
    """Return advice if the first value that is not finite has overflowed; None if it has another cause."""
    if not _overflows(primitive, xs, y, params):
        return None
    return _BY_MAXIMUM if primitive.name in _EXPONENTIAL else _BY_SCALE


def underflow_hint(before: Iterable[Line], xs: Sequence[Value], y: Value) -> str | None:
    """Return advice if an operation has a pole at 0 where exponentials `before` it underflowed to 0; else None."""
    bad = ~np.isfinite(np.asarray(y))
    if not any(np.all(np.equal(np.broadcast_to(x, bad.shape)[bad], 0)) for x in xs if np.size(x) in (1, bad.size)):
        return None
    powers = ((p, own[0], z) for p, _, own, z, _, _ in before if p is not None and p.name in _UNDERFLOWING)
    return _UNDERFLOWED if any(np.any(np.equal(z, 0) & np.isfinite(x)) for _, x, z in powers) else None


def _overflows(primitive: Primitive, xs: Sequence[Value], y: Value, params: Params) -> bool:
    """Whether the first entry that is not finite would be finite in exact arithmetic; the operands are finite."""
    bad = ~np.isfinite(np.asarray(y))
    if np.isnan(np.asarray(y)[bad][0]):
        return False
    from gradcli.arithmetic.arb import ENTRIES

    exact = ENTRIES.get(primitive.name)
    if primitive.kind == "elementwise" and exact is not None:
        return _finite_in_balls(exact, [np.broadcast_to(x, shape(y))[bad].flat[0] for x in xs], params)
    if primitive.kind in ("linear", "bilinear"):
        return True
    flags: list[str] = []
    with np.errstate(all="ignore", over="call", divide="call", call=lambda kind, _: flags.append(kind)):
        primitive.fun(*xs, **params)
    return set(flags) == {"overflow"}


def _finite_in_balls(exact: Any, xs: Sequence[Any], params: Params) -> bool:
    from flint import arb

    try:
        return bool(exact(*(arb(float(x)) for x in xs), **params).is_finite())
    except (Undecided, ValueError, TypeError):
        return False
