"""Whether a claim is right but for its own rounding errors, and the line where it, or f, loses digits."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest_float64, precision
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.checks.assumed_sets import ClaimOnSurfaces
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.claim import Called, Claimed, ClaimedExpressions, ClaimedFunction
from gradcli.modes.problem import work_in_balls
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.common import Finding, finding
from gradcli.targets.python import flatten_result
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

# What to write instead of a line that loses digits.

_KNOWN = (  # a pattern of the line, what it does, what to write
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*cos\((?P<x>.+)\)", "1 - cos(x) cancels near 0", "2*sin(x/2)**2"),
    (r"(?:\w+\.)*exp\((?P<x>.+)\)\s*-\s*1", "exp(x) - 1 cancels near 0", "expm1(x)"),
    (r"(?:\w+\.)*log\(\s*1(?:\.0)?\s*\+", "log(1 + x) cancels near 0", "log1p(x)"),
    (r"1(?:\.0)?\s*-\s*(?:\w+\.)*tanh\(.+\)\s*\*\*\s*2", "1 - tanh(x)**2 cancels where x is large", "1/cosh(x)**2"),
    (r"1(?:\.0)?\s*/\s*\(1(?:\.0)?\s*\+\s*(?:\w+\.)*exp\(.+\)\)\s*-\s*1", "sigmoid(x) - 1 cancels where x is large",
     "-1/(1 + exp(x))"),
    (r"mean\(.+\*\*\s*2.*\)\s*-\s*(?:\w+\.)*mean\(.+\)\s*\*\*\s*2", "mean(x**2) - mean(x)**2 cancels where x varies little",
     "mean((x - mean(x))**2)"),
    (r"sqrt\(.+\)\s*-\s*.*sqrt\(.+\)", "the difference of two roots cancels", "(a - b)/(sqrt(a) + sqrt(b))"),
)  # fmt: skip


# A function or a claim in balls: whether its own rounding explains its error, and the line that loses the digits.

_BITS = 1_200  # of the balls: numbers near 1e300 cancel beside ones near 1e-300
_SAME = 1e-9  # relative: the exact claim is the right gradient
_SHRUNK = 1e-2  # how much smaller an error is in longdouble, which has 11 more bits


Named = Callable[[Mapping[str, Value]], Value]  # a function of named values


@dataclass(frozen=True, slots=True)
class Loss:
    """The operation that loses the most digits: where it is, as the user wrote it, and how many."""

    where: Span | Place | None
    name: str
    digits: float


def is_explained_by_rounding(
    claim: Claimed | None, wrt: tuple[str, ...], values: Mapping[str, Any], claimed: Mapping[str, Any], right: Mapping[str, Any]
) -> bool:  # fmt: skip
    """Whether a claim without rounding is the right gradient in every entry where the computed claim is not, to 9 digits."""
    room = {name: _SAME * np.abs(right[name]) for name in claimed}
    found = is_right_without_rounding(claim, wrt, values, claimed, right, room)
    return _shrinks_in_longdouble(claim, wrt, values, claimed, right) if found is None else found


def is_right_without_rounding(
    claim: Claimed | None, wrt: tuple[str, ...], values: Mapping[str, Any], claimed: Mapping[str, Any],
    right: Mapping[str, Any], room: Mapping[str, Any], most_work: float = math.inf,
) -> bool | None:  # fmt: skip
    """Whether a claim without rounding is within `room` of the right gradient in every entry.

    None if it cannot be traced, or takes more work in balls than `most_work` scalar operations.
    """
    function = traceable_claim(claim)
    exact = None if function is None else evaluate_both_ways(function, wrt, values, most_work)
    if exact is None:
        return None
    plain, sharp = exact
    for name, x in claimed.items():
        for got, wanted, most in zip(
            *(np.ravel(np.asarray(part, float)) for part in (x, right[name], room[name])), strict=True
        ):
            is_near = abs(got - wanted) <= most
            if not is_near and not any(abs(sharp[k] - wanted) <= most for k in _nearest_entries(plain, got)):
                return False
    return True


def _nearest_entries(plain: Any, got: float) -> Any:
    """Return the entries of the traced claim that one entry of the claim can be: a traced run may round otherwise."""
    if np.isnan(got):
        return np.flatnonzero(np.isnan(plain))
    with np.errstate(all="ignore"):
        apart = np.where(plain == got, 0.0, np.abs(plain - got))
    return np.flatnonzero(apart == np.nanmin(apart)) if np.any(~np.isnan(apart)) else np.zeros(0, dtype=int)


def traceable_claim(claim: Claimed | None) -> Named | None:
    """Return the claim as a function of named values that can be traced; its outputs are one vector."""
    if isinstance(claim, ClaimedExpressions):
        programs = claim.programs

        def formulas(values: Mapping[str, Value]) -> Value:
            sized = {**claim.sizes, **values}
            return flatten_result([program.run(sized) for program in programs.values()], "the claim")[0]

        return formulas
    if isinstance(claim, ClaimedFunction) and isinstance(claim.compute, Called):
        called = claim.compute
        return lambda values: called.function({**values, **called.fixed})
    whole = traceable_claim(claim.claim) if isinstance(claim, ClaimOnSurfaces) and len(claim.names) == 1 else None
    if whole is None or not isinstance(claim, ClaimOnSurfaces):
        return None
    name = claim.names[0]  # a gradient along the set that its input lies on
    surface = claim.surfaces.get(name)

    def along(values: Mapping[str, Value]) -> Value:
        g = np.reshape(whole(values), shape(values[name]))
        return np.reshape(g if surface is None else surface.pull(values[name], g), (-1,))

    return along


def _record_both_ways(
    function: Named, wrt: tuple[str, ...], values: Mapping[str, Any], most_work: float = math.inf
) -> tuple[RecordedProgram, RecordedProgram] | None:
    """Return a function's program on numbers, and the same in balls; None if it cannot be traced, or takes more work."""
    names = [name for name in wrt if name in values]
    xs = [values[name] for name in names]

    def g(*xs: Value) -> Value:
        return function({**values, **dict(zip(names, xs, strict=True))})

    plain = record_or_none(g, xs)
    if plain is None or work_in_balls(plain.lines) > most_work:
        return None
    with precision(_BITS):
        sharp = record_or_none(g, [Ball.lift(x) for x in xs])
    return None if sharp is None else (plain, sharp)


def record_or_none(function: Any, xs: list[Any]) -> RecordedProgram | None:
    """Return the program of a function; None if it cannot be traced there."""
    try:
        with np.errstate(all="ignore"):
            return record(function, xs)
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError, np.linalg.LinAlgError):
        return None


def evaluate_both_ways(
    function: Named, wrt: tuple[str, ...], values: Mapping[str, Any], most_work: float = math.inf
) -> tuple[Any, Any] | None:
    """Return what a function computes in float64, and without rounding, both flat; None as `_record_both_ways`."""
    programs = _record_both_ways(function, wrt, values, most_work)
    if programs is None:
        return None
    plain, sharp = (np.ravel(_nearest_numbers(program.y)) for program in programs)
    return plain, sharp


def _nearest_numbers(x: Any) -> Any:
    """Return a recorded value, or a ball, as the nearest numbers."""
    x = getattr(x, "primal", x)
    return np.asarray(nearest_float64(x) if isinstance(x, Ball) else x, dtype=float)


def find_digit_loss(function: Named, wrt: tuple[str, ...], values: Mapping[str, Any]) -> Loss | None:
    """Return the operation after which the fewest digits are right, where its inputs had many more."""
    programs = _record_both_ways(function, wrt, values)
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
        own = _digits_beside_exact(_nearest_numbers(a[3]), _nearest_numbers(b[3]))
        before = min((digits.get(slot, 16.0) for slot in a[1] if slot >= 0), default=16.0)
        digits[k] = own
        if before - own > 1.0 and (found is None or before - own > found.digits):
            found = Loss(place_of_position(a[5]), a[0].name, before - own)
    return found


def _digits_beside_exact(x: Any, exact: Any) -> float:
    if x.shape != exact.shape or not x.size:
        return 16.0
    with np.errstate(all="ignore"):
        error = np.abs(x - exact) / np.abs(exact)
    error = error[np.isfinite(error)]
    worst = float(np.max(error, initial=0.0))
    return 16.0 if worst <= EPS else float(np.clip(-np.log10(worst), 0.0, 16.0))


def _shrinks_in_longdouble(
    claim: Claimed | None, wrt: tuple[str, ...], values: Mapping[str, Any], claimed: Mapping[str, Any], right: Mapping[str, Any]
) -> bool:  # fmt: skip
    """Whether the error of a claim that cannot be traced shrinks as its rounding does."""
    if not isinstance(claim, ClaimedFunction) or np.finfo(np.longdouble).nmant <= np.finfo(float).nmant:
        return False
    wide = {n: np.asarray(x, dtype=np.longdouble)[()] if n in wrt else x for n, x in values.items()}
    try:
        with np.errstate(all="ignore"):
            found = claim.compute(wide)
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError):
        return False
    flat = np.ravel(np.asarray(flatten_result(found, "the claim")[0]))
    if flat.dtype != np.longdouble or len(flat) != sum(np.size(x) for x in claimed.values()):
        return False
    old = np.concatenate([np.ravel(x) for x in claimed.values()])
    wanted = np.concatenate([np.ravel(right[name]) for name in claimed])
    with np.errstate(all="ignore"):
        before, after = np.abs(old - wanted), np.abs(flat - wanted).astype(float)
    return bool(np.all(after <= np.maximum(_SHRUNK * before, _SAME * np.abs(wanted))))


def report_inaccuracy(
    what: str, digits: float, values: Mapping[str, Any], function: Named | None, wrt: tuple[str, ...], wanted: float | None
) -> Finding:  # fmt: skip
    """Return the finding that `what` keeps few right digits at a point, an error if more are `wanted`.

    `function` computes it; its line that loses the digits is named where it can be traced.
    """
    says = f"{what} keeps {math.floor(digits * 10) / 10:.1f} right digits at {numbers.write_point(values)}"
    lost = None if function is None else find_digit_loss(function, wrt, values)
    hint, where = None, None if lost is None else lost.where
    if lost is not None:
        line = where.source if where is not None else ""
        cancels = lost.name in ("sub", "subtract", "add", "sum", "-", "+")
        unknown = "nearly equal numbers cancel" if cancels else "digits are lost", None
        reason, better = next(((says, do) for known, says, do in _KNOWN if re.search(known, line)), unknown)
        says += f"; {reason}"
        hint = None if better is None else f"write {better}"
        if isinstance(where, Place) and where.operation != where.source:
            says += f", in {where.operation}"
    few = wanted is not None and digits < wanted
    if few:
        says += f"; --digits asks for {wanted:g}"
    return finding(Kind.INACCURATE, Severity.ERROR if few else Severity.WARNING, says, at=where, hint=hint)
