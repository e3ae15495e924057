"""Points on the other side of the branches that f and its claim took, sought by following the margins of comparisons."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.errors import GradcliError
from gradcli.interpreters.program import Program, record
from gradcli.interpreters.tape import CONSTANT
from gradcli.point import Point
from gradcli.source.function import of
from gradcli.stress.exact import function_of
from gradcli.verify.request import Request

_STEPS = 4  # of Newton's method towards a margin of zero
_BEYOND = (1.01, 1.5)  # times the step that reaches it
_MOST = 40  # comparisons
_COMPARED = frozenset({"less", "less_equal", "greater", "greater_equal"})


def beyond_branches(request: Request, point: Point) -> Iterator[dict[str, Any]]:
    """Yield points where one comparison of f or of the claim goes the other way than at the given point."""
    claim = function_of(request.claim)
    functions = [of(request.f, point.values, request.wrt)]
    if claim is not None:
        functions.append(lambda *xs: claim({**point.values, **dict(zip(request.wrt, xs, strict=True))}))
    for function in functions:
        program = _recorded(function, [point.values[name] for name in request.wrt])
        if program is not None:
            yield from _crossings(request, point.values, function, program)


def _recorded(function: Any, xs: list[Value]) -> Program | None:
    try:
        with np.errstate(all="ignore"):
            return record(function, xs)
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError, np.linalg.LinAlgError):
        return None


def _crossings(
    request: Request, values: Mapping[str, Any], function: Any, program: Program
) -> Iterator[dict[str, Any]]:
    number = 0
    for k, (primitive, _, operands, _, _, _) in enumerate(program.tape.decisions):
        if primitive is None or primitive.name not in _COMPARED or len(operands) < 2:
            continue
        margins = np.ravel(np.subtract(*(np.asarray(x, dtype=float) for x in operands[:2])))
        for entry in np.argsort(np.abs(margins))[:3]:
            number += 1
            if number > _MOST:
                return
            for beyond in _BEYOND:
                made = _followed(request, values, function, k, int(entry), beyond)
                if made is not None:
                    yield made


def _followed(
    request: Request, values: Mapping[str, Any], function: Any, k: int, entry: int, beyond: float
) -> dict[str, Any] | None:
    """Return a point a little beyond that where the k-th comparison changes, found by Newton's method on its margin."""
    xs = [np.asarray(values[name], dtype=float) for name in request.wrt]
    for _ in range(_STEPS):
        program = _recorded(function, [x[()] for x in xs])
        if program is None or k >= len(program.tape.decisions):
            break
        _, slots, operands, _, _, _ = program.tape.decisions[k]
        margin = np.subtract(*(np.asarray(x, dtype=float) for x in operands[:2]))
        if entry >= margin.size:
            break
        slopes = [np.zeros(np.shape(x)) for x in xs]
        seed = np.zeros(margin.shape)
        seed.flat[entry] = 1.0
        for sign, slot, x in zip((1.0, -1.0), slots, operands, strict=False):
            if slot == CONSTANT:
                continue
            own = seed if np.shape(x) == margin.shape else np.sum(seed).reshape(np.shape(x))
            found = program.tape.sweep(slot, (sign * own)[()])
            for n, recorded in enumerate(program.inputs):
                if found[recorded.slot] is not None:
                    slopes[n] = slopes[n] + found[recorded.slot]
        square = sum(float(np.sum(np.square(s))) for s in slopes)
        if not 0 < square < np.inf:
            break
        xs = [x - float(margin.flat[entry]) / square * s for x, s in zip(xs, slopes, strict=True)]
    start = [np.asarray(values[name], dtype=float) for name in request.wrt]
    xs = [a + beyond * (b - a) for a, b in zip(start, xs, strict=True)]
    made = {name: x[()] for name, x in zip(request.wrt, xs, strict=True)}
    return {**values, **made} if all(np.all(np.isfinite(x)) for x in made.values()) else None
