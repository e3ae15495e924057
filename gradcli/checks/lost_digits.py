"""Whether a claim is right but for rounding: its own, with the line where it, or f, loses digits, or that of a narrow format."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest_float64, precision
from gradcli.arithmetic.recorded_program import RecordedProgram, record, value_and_gradient
from gradcli.checks.assumed_sets import ClaimOnSurfaces
from gradcli.checks.causes import Verified
from gradcli.checks.evidence import DISAGREE, Evidence, FormatEvidence
from gradcli.checks.framework_claim import FrameworkClaim, own_gradient, with_function
from gradcli.checks.probe import Located
from gradcli.checks.request import Request
from gradcli.checks.run_modes import PointCheck
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place, Span
from gradcli.frameworks.framework import EPS as EPS_OF_FORMAT
from gradcli.frameworks.native import TINY, native_of
from gradcli.modes.claim import Called, Claimed, ClaimedExpressions, ClaimedFunction
from gradcli.modes.mode import Question
from gradcli.modes.recording import work_in_balls, work_of_lines
from gradcli.modes.rounding import EPS, errors_change, loses_as_many_digits
from gradcli.report import numbers
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Aspect, Exactness, PointReport
from gradcli.request.point import Array, Point
from gradcli.targets.derived import original_function
from gradcli.targets.facts import restrict_to_inputs
from gradcli.targets.python import PythonFunction, flatten_result
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape
from gradcli.words import Kind, Severity, Verdict

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
    if plain is None or work_in_balls(work_of_lines(plain.lines)) > most_work:
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


# Gather what shows whether the error of a gradient in a narrow format is rounding or a mistake.

_SCALE = 2.0**16  # the initial scale of torch's GradScaler
_HALVINGS = 16
_WIDE = "float64"
_SHRINKS = (
    2.0**-8
)  # times the narrow format's epsilon: a smaller error in a wider format is no mistake that is seen in it
_OF_CONSTANTS = 4  # epsilons of the format, relative to the largest entry of an input's gradient
_INSIDE = 2.0**-18  # relative to the largest entry: the error of code that computes in float32, whatever its inputs

Values = Mapping[str, Any]


def measure_exactness(
    dtype: str, claim: Mapping[str, Array], right: Mapping[str, Array], room: Mapping[str, Array]
) -> Exactness:
    """Return how far a gradient in a format is from the right one, in ulps and as a share of the allowed difference.

    Shapes  `claim[x]`, `right[x]` and `room[x]` have the shape of input x, or of the output followed by it.
    Units   `room` is the allowed difference of each entry, in units of the gradient.
    """
    x, y, most = (concatenate_entries(part[name] for name in claim) for part in (claim, right, room))
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        ulp = EPS_OF_FORMAT[dtype] * 2.0 ** np.floor(np.log2(np.abs(y)))
        ulps = np.where(y != 0, apart / ulp, 0.0)
        share = np.where(most > 0, apart / most, 0.0)
    ulps, share = (np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in (ulps, share))
    vanished = int(np.sum((x == 0) & (y != 0)))
    largest, most_of_room = (float(np.max(part, initial=0.0)) for part in (ulps, share))
    return Exactness(float(np.median(ulps)), largest, most_of_room, vanished)


def compare_scaled_gradient(
    own: FrameworkClaim, values: Mapping[str, Any], right: Mapping[str, Array], room: Mapping[str, Array], most: float
) -> Aspect:
    """Compare the gradient under loss scaling, as by torch's GradScaler; the scale is halved while the gradient overflows.

    `most` is the error that is allowed, as a share of `room`.
    """
    scale = _SCALE
    for _ in range(_HALVINGS):
        try:
            with np.errstate(all="ignore"):
                scaled = FrameworkClaim(own.f, own.native, own.wrt, own.w * scale)(values)
                claim = {name: g / scale for name, g in scaled.items()}
        except GradcliError as error:
            return Aspect("GradScaler", "wrong", message=f"scaled by {scale:,.0f}: {error.what}")
        if all(np.all(np.isfinite(g)) for g in claim.values()):
            break
        scale /= 2
    found = measure_exactness(own.native.narrowest, claim, right, room)
    count = found.vanished
    lost = f"{count} entr{'y underflows' if count == 1 else 'ies underflow'}" if count else "no entry underflows"
    says = f"scaled by {scale:,.0f}, {lost} to 0"
    return Aspect("GradScaler", "agrees" if found.share <= most else "wrong", message=says)


def format_evidence(case: PointCheck, request: Request, verify: Callable[[Request], Verified]) -> FormatEvidence:
    """Return what other runs of a claim say about its errors in a narrow format; the cause in a wider one is kept.

    Cost    a check of the same function in a wider format; if an entry is off by more than the format explains, also
            some gradients of the claim and of the function at nearby points.
    """
    claimed = case.claim
    coarseness = claimed.precision.coarseness() if claimed is not None else 1.0
    natives = [native_of(original_function(case.q.f)), None if request.own is None else request.own.native]
    dtype = max(
        [_WIDE, *(native.narrowest for native in natives if native is not None)], key=lambda name: EPS_OF_FORMAT[name]
    )
    found = FormatEvidence(
        dtype, coarseness, wider=_option_for_wider_format(request, dtype), underflows=_underflows(case, dtype)
    )
    found = _add_wide_verdict(found, case, request, verify)
    wrong = {name: np.asarray(word == DISAGREE) for name, word in case.agreement["claim"].items()}
    if found.wide == Verdict.FAIL or claimed is None or not any(map(np.any, wrong.values())):
        return found
    claim, right = case.estimate("claim").value, case.estimate(str(case.reference)).value
    if _is_rounding_of_constants(claim, right, wrong, EPS_OF_FORMAT[dtype]):
        return replace(found, changes=True)
    error = _relative_error(claim, right)
    known = found.wide == Verdict.PASS and found.wide_error is not None and error is not None
    if known and loses_as_many_digits(
        float(error or 0), float(found.wide_error or 0), EPS_OF_FORMAT[dtype], EPS_OF_FORMAT[_WIDE]
    ):
        return replace(found, changes=True, predicted=True)
    return replace(found, changes=_errors_change(case.q, claimed, wrong, EPS_OF_FORMAT[dtype], right))


def _is_rounding_of_constants(claim: Values, right: Values, wrong: Values, eps: float) -> bool:
    """Whether no entry is off by more than the rounding of a constant makes, which is the same at every point."""
    return all(
        np.max(np.abs(np.asarray(claim[name]) - right[name]), initial=0.0, where=mask)
        <= _OF_CONSTANTS * eps * np.max(np.abs(right[name]), initial=0.0)
        for name, mask in wrong.items()
    )


def _option_for_wider_format(request: Request, dtype: str) -> str | None:
    """Return the option that has the function computed in a wider format, unless the function narrows its values itself."""
    given = request.options.dtype or _WIDE
    if EPS_OF_FORMAT[given] < EPS_OF_FORMAT[dtype]:
        return None
    wider = next((name for name in ("float32", _WIDE) if EPS_OF_FORMAT[name] < EPS_OF_FORMAT[dtype]), None)
    return f"a wider format can: --dtype {wider}" if wider is not None else None


def _underflows(seen: Evidence, dtype: str) -> bool:
    """Whether every entry of the claim is zero, and right entries that are not are below the smallest normal number."""
    claim, right = seen.estimate("claim").value, seen.estimate(str(seen.reference))
    if any(np.any(np.asarray(x)) for x in claim.values()):
        return False
    sizes = {name: np.abs(np.asarray(right.value[name])) for name in claim}
    most = max((np.max(x, initial=0.0, where=x > np.asarray(right.bound[n])) for n, x in sizes.items()), default=0.0)
    return bool(0.0 < most < TINY[dtype])


def _add_wide_verdict(
    found: FormatEvidence, case: PointCheck, request: Request, verify: Callable[[Request], Verified]
) -> FormatEvidence:
    """Add the verdict on the same gradient in a wider format, if it can be computed there.

    A code that computes in float32 inside, whatever its inputs, is not wrong for that.
    """
    try:
        wide = None if request.to_widen is None else request_in_float64(request, request.to_widen)
        if wide is None:
            return found
        verified = verify(wide)
    except GradcliError:  # the function or its backward pass takes no other format
        return found
    case.wide_cause, report = verified.first_cause, verified.report
    point = report.points[0]
    claim = point.modes["claim"].gradient if "claim" in point.modes else None
    both = isinstance(claim, dict) and isinstance(point.gradient, dict)
    error = _relative_error(claim, point.gradient) if both else None  # type: ignore[arg-type]
    if error is not None and error <= limit_of_wide(found.dtype):  # entries that are much smaller may be open there
        return replace(found, wide=Verdict.PASS, wide_error=error)
    if report.verdict == Verdict.FAIL and _is_rounding(wide, point, EPS_OF_FORMAT[found.dtype]):
        return found  # it computes in a narrow format inside, whatever its inputs
    return replace(found, wide=report.verdict, wide_error=error)


def limit_of_wide(dtype: str) -> float:
    """Return the error in a wider format that is no mistake, relative to the largest entry: code may compute in float32."""
    return max(_INSIDE, EPS_OF_FORMAT[dtype] * _SHRINKS)


def _is_rounding(wide: Request, point: PointReport, eps: float) -> bool:
    """Whether the errors of a claim in a wider format change from point to point as rounding errors in a narrow one do."""
    if wide.claim is None or not point.mismatches:
        return False
    masks = {name: np.zeros(np.shape(x), dtype=bool) for name, x in wide.points[0].values.items() if name in wide.wrt}
    for entry in point.mismatches:
        masks[entry.input][entry.index] = True
    right: Values = point.gradient if isinstance(point.gradient, dict) else {}
    return bool(_errors_change(wide.question(wide.points[0]), wide.claim, masks, eps, right))


def _errors_change(
    q: Question, claimed: Claimed, wrong: Mapping[str, Any], eps: float, at_point: Values
) -> bool | None:
    """Return whether the errors of wrong entries change between nearby points as rounding errors do.

    Of a function that is not recorded the right gradient is taken for that at the point: it changes by the slopes of its
    entries times some ulps, up as often as down. None if the gradient cannot be computed there.
    """

    def off(values: Mapping[str, Any]) -> Any | None:
        try:
            found = claimed(values)
            if q.untraced is not None:
                right = [at_point[name] for name in q.wrt]
            else:
                _, right = value_and_gradient(
                    restrict_to_inputs(q.f, values, q.wrt), [values[name] for name in q.wrt], np.ones_like
                )
        except (GradcliError, ValueError):
            return None
        by_input = {
            name: np.asarray(found[name]) - bar for name, bar in zip(q.wrt, right, strict=True) if name in wrong
        }
        return np.concatenate([np.ravel(x)[np.ravel(wrong[name])] for name, x in by_input.items()])

    return errors_change(off, q.point.values, q.wrt, q.seed, eps)


def _relative_error(claim: Mapping[str, Any], right: Mapping[str, Any]) -> float | None:
    """Return the largest error of a claim relative to the largest entry; None if this is not finite."""
    x, y = (concatenate_entries(part[name] for name in claim) for part in (claim, right))
    largest = largest_magnitude(y)
    error = largest_magnitude(x - y) / largest if largest else np.nan
    return error if np.isfinite(error) else None


def request_in_float64(request: Request, own: FrameworkClaim) -> Request | None:
    """Return the request for the same function in float64; None if it takes none, or narrows most of its digits itself.

    Raises  GradcliError if the function or its backward pass takes no float64.
    """
    f = original_function(request.f)
    values = dict(request.points[0].values)
    by = request.implementation
    wide, theirs = own.native.in_float64(), None if by is None else native_of(f)
    if wide is None or not isinstance(f, PythonFunction):
        return None
    if by is None:
        f = with_function(f, wide)
    else:
        by = replace(by, f=with_function(own.f, wide), native=wide)
        wide_reference = None if theirs is None else theirs.in_float64()
        f = f if wide_reference is None else with_function(f, wide_reference)
    value, _ = f.survey(values)
    found = Located(f, (Point(values, (), 0, (), value),), own.wrt, True, f.arguments)
    weighted = bool(np.any(own.w != 1.0))
    made = own_gradient(found, request.seed, 1, request.options.expect, weighted, by)
    if made is None or EPS_OF_FORMAT[wide.narrowest] > EPS_OF_FORMAT[own.native.narrowest] * _SHRINKS:
        return None
    located, claim, _ = made
    return replace(
        request, f=located.f, points=located.points, wrt=located.wrt, claim=claim, own=None, notices=(), command=(),
        to_widen=None, implementation=None,
    )  # fmt: skip


def allowed_errors(point: PointReport) -> dict[str, Any]:
    """Return the allowed error of each entry of a claim, by input: the bounds of the claim and the reference added."""
    bounds: Any = point.modes["claim"].bound
    right: Any = point.modes[point.reference].bound if point.reference else {}
    return {name: np.asarray(bound) + np.asarray(right.get(name, 0.0)) for name, bound in bounds.items()}
