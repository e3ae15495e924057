"""A function or a claim in balls: whether its own rounding explains its error, and the line that loses the digits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest, precision
from gradcli.arithmetic.program import Program, record
from gradcli.checks.request import Request
from gradcli.checks.structure import ClaimOnSurfaces
from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.claim import Called, Claimed, ClaimedExpressions, ClaimedFunction
from gradcli.modes.rounding import EPS
from gradcli.targets.python import flattened
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place
from gradcli.tracing.shapes import shape

_BITS = 1_200  # of the balls: numbers near 1e300 cancel beside ones near 1e-300
_SAME = 1e-9  # relative: the exact claim is the right gradient
_SHRUNK = 1e-2  # how much smaller an error is in longdouble, which has 11 more bits


Named = Callable[[Mapping[str, Value]], Value]  # a function of named values


@dataclass(frozen=True, slots=True)
class Loss:
    """The operation that loses the most digits: where it is, as the user wrote it, and how many."""

    position: Any
    name: str
    digits: float

    @property
    def where(self) -> Span | Place | None:
        return place(self.position)


def explains(request: Request, values: Mapping[str, Any], claimed: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether a claim without rounding is the right gradient in every entry where the computed claim is not."""
    function = function_of(request.claim)
    exact = None if function is None else both_ways(function, request.wrt, values)
    if exact is None:
        return _in_longdouble(request, values, claimed, right)
    plain, sharp = exact
    for name, x in claimed.items():
        a, b = np.ravel(np.asarray(x, dtype=float)), np.ravel(np.asarray(right[name], dtype=float))
        for got, wanted in zip(a, b, strict=True):
            if abs(got - wanted) <= _SAME * abs(wanted):
                continue
            at = _nearest(plain, got)
            if not any(abs(sharp[k] - wanted) <= _SAME * abs(wanted) for k in at):
                return False
    return True


def _nearest(plain: Any, got: float) -> Any:
    """Return the entries of the traced claim that one entry of the claim can be: a traced run may round otherwise."""
    if np.isnan(got):
        return np.flatnonzero(np.isnan(plain))
    with np.errstate(all="ignore"):
        apart = np.where(plain == got, 0.0, np.abs(plain - got))
    return np.flatnonzero(apart == np.nanmin(apart)) if np.any(~np.isnan(apart)) else np.zeros(0, dtype=int)


def function_of(claim: Claimed | None) -> Named | None:
    """Return the claim as a function of named values that can be traced; its outputs are one vector."""
    if isinstance(claim, ClaimedExpressions):
        programs = claim.programs

        def formulas(values: Mapping[str, Value]) -> Value:
            sized = {**claim.sizes, **values}
            return flattened([program.run(sized) for program in programs.values()], "the claim")[0]

        return formulas
    if isinstance(claim, ClaimedFunction) and isinstance(claim.compute, Called):
        called = claim.compute
        return lambda values: called.function({**values, **called.fixed})
    if isinstance(claim, ClaimOnSurfaces):
        return _on_surface(claim)
    return None


def _on_surface(claim: ClaimOnSurfaces) -> Named | None:
    """Return a claim of one gradient along the set that its input lies on, to be traced; None for a claim of several."""
    whole = function_of(claim.claim)
    if whole is None or len(claim.names) != 1:
        return None
    name = claim.names[0]
    surface = claim.surfaces.get(name)

    def along(values: Mapping[str, Value]) -> Value:
        g = np.reshape(whole(values), shape(values[name]))
        return np.reshape(g if surface is None else surface.pull(values[name], g), (-1,))

    return along


def _programs(function: Named, wrt: tuple[str, ...], values: Mapping[str, Any]) -> tuple[Program, Program] | None:
    """Return a function's program on numbers, and the same in balls; None if it cannot be traced."""
    names = [name for name in wrt if name in values]

    def g(*xs: Value) -> Value:
        return function({**values, **dict(zip(names, xs, strict=True))})

    xs = [values[name] for name in names]
    try:
        with np.errstate(all="ignore"):
            plain = record(g, xs)
            with precision(_BITS):
                sharp = record(g, [Ball.lift(x) for x in xs])
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError, np.linalg.LinAlgError):
        return None
    return plain, sharp


def both_ways(function: Named, wrt: tuple[str, ...], values: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return what a function computes in float64, and without rounding, both flat; None if it cannot be traced."""
    programs = _programs(function, wrt, values)
    if programs is None:
        return None
    return np.ravel(np.asarray(_number(programs[0].y), dtype=float)), np.ravel(_number(programs[1].y))


def _number(x: Any) -> Any:
    """Return a recorded value, or a ball, as the nearest numbers."""
    x = getattr(x, "primal", x)
    return np.asarray(nearest(x) if isinstance(x, Ball) else x, dtype=float)


def loss(function: Named, wrt: tuple[str, ...], values: Mapping[str, Any]) -> Loss | None:
    """Return the operation after which the fewest digits are right, where its inputs had many more."""
    programs = _programs(function, wrt, values)
    if programs is None:
        return None
    plain, sharp = programs
    if len(plain.lines) != len(sharp.lines):
        return None
    digits: dict[int, float] = {}
    found: Loss | None = None
    for k, (a, b) in enumerate(zip(plain.lines, sharp.lines, strict=True)):
        if a[0] is None or b[0] is None:
            continue
        own = _right_digits(_number(a[3]), _number(b[3]))
        before = min((digits.get(slot, 16.0) for slot in a[1] if slot >= 0), default=16.0)
        digits[k] = own
        if before - own > 1.0 and (found is None or before - own > found.digits):
            found = Loss(a[5], a[0].name, before - own)
    return found


def _right_digits(x: Any, exact: Any) -> float:
    if x.shape != exact.shape or not x.size:
        return 16.0
    with np.errstate(all="ignore"):
        error = np.abs(x - exact) / np.abs(exact)
    error = error[np.isfinite(error)]
    worst = float(np.max(error, initial=0.0))
    return 16.0 if worst <= EPS else float(np.clip(-np.log10(worst), 0.0, 16.0))


def _in_longdouble(
    request: Request, values: Mapping[str, Any], claimed: Mapping[str, Any], right: Mapping[str, Any]
) -> bool:
    """Whether the error of a claim that cannot be traced shrinks as its rounding does."""
    if not isinstance(request.claim, ClaimedFunction) or np.finfo(np.longdouble).nmant <= np.finfo(float).nmant:
        return False
    wide = {n: np.asarray(x, dtype=np.longdouble)[()] if n in request.wrt else x for n, x in values.items()}
    try:
        with np.errstate(all="ignore"):
            found = request.claim.compute(wide)
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError):
        return False
    flat = np.ravel(np.asarray(flattened(found, "the claim")[0]))
    if flat.dtype != np.longdouble or len(flat) != sum(np.size(x) for x in claimed.values()):
        return False
    old = np.concatenate([np.ravel(x) for x in claimed.values()])
    wanted = np.concatenate([np.ravel(right[name]) for name in claimed])
    with np.errstate(all="ignore"):
        before, after = np.abs(old - wanted), np.abs(flat - wanted).astype(float)
    return bool(np.all(after <= np.maximum(_SHRUNK * before, _SAME * np.abs(wanted))))
