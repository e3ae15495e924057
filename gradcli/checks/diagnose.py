"""Find the simplest single mistake that turns the right gradient into the claim, or describe the pattern of the error."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record, value_and_gradient
from gradcli.checks.findings_at_point import value_beside
from gradcli.checks.framework_claim import with_function
from gradcli.checks.gradient_slips import (
    find_added_constant,
    find_clipping,
    find_exchanged_inputs,
    find_factor_by_input,
    find_factor_in_entries,
    find_factor_of_units,
    find_mistake_in_whole,
    find_rank_mistake,
    find_slight_error,
    find_unnamed_factor,
    find_wrong_entry,
)
from gradcli.checks.on_tape import find_overwritten_positions, find_slip_on_tape, find_unnamed_share
from gradcli.checks.wrong import BudgetSpent, Gradient, Wrong
from gradcli.errors import FunctionFailed, GradcliError, Place, Span, TraceEnded
from gradcli.frameworks.framework import RecordedSteps
from gradcli.frameworks.native import (
    SURROGATES,
    Native,
    holds_values_constant,
    native_of,
    replaceable_steps,
    stopped_places,
)
from gradcli.modes.mode import Question
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Array
from gradcli.targets.derived import STEP, Weighted, inner_gradient
from gradcli.targets.facts import Function, restrict_to_inputs
from gradcli.targets.python import PythonFunction
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size
from gradcli.words import DiagnosisKind

# Mistakes in the chain rule around a function: another parameter, an incoming gradient, a first for a second derivative.

_MOST_STOPS = 2  # operations that are named
_FEWEST = 2  # entries, as one number is a multiple of anything
_SCALES: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda x: np.exp(-x), "the factor exp({0}) is missing: the claim is the derivative by exp({0})"),
    (np.exp, "a factor exp({0}) too many: {0} is taken for the logarithm of a parameter"),
    (lambda x: x, "a factor {0} too many: the claim is the derivative by log({0})"),
    (lambda x: 1 / x, "the factor {0} is missing: {0} is taken for the logarithm of a parameter"),
    (lambda x: 1 / (x * (1 - x)), "a factor 1/({0}*(1 - {0})) too many"),
    (lambda x: np.log(10.0) * 10.0**x, "a factor ln(10)*10**{0} too many: {0} is taken for a decimal logarithm"),
)


def find_other_parameter(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is the derivative by another parameter of the same quantity, such as its logarithm."""
    values = wrong.q.point.values
    if wrong.count < _FEWEST or shape(wrong.q.value) != ():
        return None
    for scale, says in _SCALES:
        with np.errstate(all="ignore"):
            made = {name: wrong.right[name] * scale(np.asarray(values[name], dtype=float)) for name in wrong.names}
        masked = {name: np.where(wrong.masks[name], made[name], wrong.right[name]) for name in wrong.names}
        if all(np.all(np.isfinite(g)) for g in masked.values()) and wrong.explained(masked):
            return wrong.says(DiagnosisKind.FACTOR, says.format(" and ".join(wrong.names)) + wrong.where())
    return None


def find_ignored_cotangent(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if a product w J was claimed as if every weight w were 1: the incoming gradient is ignored."""
    f = wrong.q.f
    if not isinstance(f, Weighted) or np.all(np.asarray(f.w) == 1):
        return None
    wrong.budget.spend(1)
    plain = replace(wrong.q, f=Weighted(f.f, np.ones_like(f.w), f.text))
    g = restrict_to_inputs(plain.f, wrong.q.point.values, wrong.q.wrt)
    try:
        _, bars = value_and_gradient(g, list(wrong.q.xs), np.ones_like)
    except (GradcliError, ValueError, TypeError, ArithmeticError):
        return None
    made = {name: bar for name, bar in zip(wrong.q.wrt, bars, strict=True) if name in wrong.claimed}
    if not wrong.explained(made):
        return None
    return wrong.says(DiagnosisKind.LEFT_OUT, "the incoming gradient is ignored: the claim is right where that is 1")


def find_stopped_values(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is the gradient with the values held constant that the framework does not differentiate."""
    native = native_of(_unweighted(wrong))
    if native is None or native.program is None or not holds_values_constant(native.program):
        return None
    program = _program_of_claim(wrong, native, None)
    if program is None:
        return None
    places = stopped_places(program)
    names = list(dict.fromkeys(map(_quote_operation, places)))
    names = names[:_MOST_STOPS] + ["more"] * (len(names) > _MOST_STOPS) or ["one operation"]
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    says = f"{' and '.join(names)} {verb} held constant: no gradient passes through {them}"
    return _report_at(wrong, DiagnosisKind.DETACHED, says, places)


def find_straight_through(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is that of a straight-through estimator: a step function has the slope of another one."""
    native = native_of(_unweighted(wrong))
    if native is None or native.program is None or not replaceable_steps(native.program):
        return None
    for passes, smooth in SURROGATES.items():
        program = _program_of_claim(wrong, native, smooth)
        if program is not None:
            steps = replaceable_steps(program)
            places = [at for step in steps if (at := place_of_position(step.position)) is not None]
            name = _quote_operation(places[0]) if places else "a step function"
            says = f"{name} {passes}, as a straight-through estimator; if that is meant: --expect straight-through"
            return _report_at(wrong, DiagnosisKind.SLIP, says, places)
    return None


def _unweighted(wrong: Wrong) -> Function:
    return wrong.q.f.f if isinstance(wrong.q.f, Weighted) else wrong.q.f


def _program_of_claim(wrong: Wrong, native: Native, smooth: Callable[[Value], Value] | None) -> RecordedSteps | None:
    """Return the program recorded at the point, if the claim is its gradient with `smooth` for step functions; else None.

    Values that the framework does not differentiate are held constant.
    """
    f, here = _unweighted(wrong), native.without_recordings()
    if not isinstance(f, PythonFunction) or shape(wrong.q.value) != ():
        return None
    wrong.budget.spend(2)
    values, xs = wrong.q.point.values, list(wrong.q.xs)
    try:
        record(restrict_to_inputs(with_function(f, here), values, wrong.q.wrt), xs)
        held: Function = with_function(f, here.with_surrogate(smooth))
        held = Weighted(held, wrong.q.f.w) if isinstance(wrong.q.f, Weighted) else held
        _, bars = value_and_gradient(restrict_to_inputs(held, values, wrong.q.wrt), xs, np.ones_like)
    except (GradcliError, ValueError, TypeError, ArithmeticError):
        return None
    return here.program if wrong.explained(dict(zip(wrong.q.wrt, bars, strict=True))) else None


def _quote_operation(at: Place | Span) -> str:
    return f"`{at.operation if isinstance(at, Place) else at.source}`"


def _report_at(wrong: Wrong, kind: DiagnosisKind, says: str, places: Sequence[Place | Span]) -> Diagnosis:
    """Return a diagnosis at the first of some places, if any."""
    if not places:
        return wrong.says(kind, says)
    file = {"file": places[0].file} if isinstance(places[0], Place) else {}
    return wrong.says(kind, says, line=places[0].line, source=places[0].source, **file)


def find_squared_gradient(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the square of the first derivative was claimed for the second."""
    gradient = inner_gradient(wrong.q.f)
    if gradient is None or len(wrong.names) != 1 or STEP in wrong.names:
        return None
    name, g = wrong.names[0], np.asarray(gradient(wrong.q.point.values))
    outer = (np.outer(g, g), "the outer product of the gradient with itself")
    for square, says in (outer, (np.diag(g * g), "the square"), (g * g, "the square")):
        fits = square.size == np.size(wrong.claimed[name])
        if fits and wrong.explained({name: square.reshape(shape(wrong.claimed[name]))}):
            says = f"the claim is {says} of the first derivative, not the second derivative"
            return wrong.says(DiagnosisKind.SQUARED, says)
    return None


# Recognise claims that are approximations: differences with a fixed step, lower precision, a solver's tolerance.

_SAMPLES = 4  # wrong entries at which difference quotients are tried
_STEPS = (*(10.0**-k for k in range(1, 13)), *(5 * 10.0**-k for k in range(1, 9)), EPS**0.5, EPS ** (1 / 3), EPS**0.25)
_ALMOST = 3e-5  # relative to the largest entry: larger errors come from no rounding and no solver's tolerance
_ROUNDINGS = 16  # roundings of f, divided by h: the allowed distance of two runs of the same difference
_SAME = 1e-11  # relative: the allowed distance of two computations of one difference quotient
_GAIN = 0.05  # the largest part of the claim's error that a difference quotient may leave unexplained
_LAWS = {"forward": "h", "backward": "h", "central": "h**2"}


def find_lower_precision(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if every entry of the claim is a number of a lower precision, near the right value."""
    a, b = concatenate_entries(wrong.claimed.values()), concatenate_entries(wrong.right.values())
    scale = largest_magnitude(b)
    if a.size < 2 or scale == 0 or not np.all(np.isfinite(a)):
        return None
    for dtype, digits, room in ((np.float16, 3, 0.01), (np.float32, 7, 1e-5)):
        if np.array_equal(a, a.astype(dtype).astype(float)) and np.all(np.abs(a - b) <= room * scale):
            name = np.dtype(dtype).name
            right = min(digits, int(-math.log10(max(float(np.max(np.abs(a - b))) / scale, 1e-16))))
            accept = _tolerances_to_accept(wrong)
            says = f"every entry is a {name} number, right to about {right} digits: computed in {name}; {accept}"
            return wrong.says(DiagnosisKind.APPROXIMATION, says)
    return None


def find_difference_quotient(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis with the step, if the claim is a difference quotient of the function with a fixed step.

    Cost  a few hundred evaluations of f, within the budget. Raises BudgetSpent.
    """
    q = wrong.q
    errors = {n: np.where(wrong.masks[n], np.abs(wrong.claimed[n] - wrong.right[n]), -1.0) for n in wrong.names}
    sizes = {n: np.where(wrong.masks[n], -1.0, np.abs(claim)) for n, claim in wrong.claimed.items()}
    # right entries are those without truncation error
    sampled = [*_largest_entries(errors, _SAMPLES), *_largest_entries(sizes, _SAMPLES // 2)]
    if len(sampled) < 2 or shape(q.value) != ():
        return None
    value = float(q.value)
    with np.errstate(all="ignore"):
        for relative, h, scheme in itertools.product((False, True), _STEPS, _LAWS):
            if all(_is_difference_quotient(wrong, name, at, h, scheme, relative, value) for name, at in sampled):
                whose = " times |x|" if relative else ""
                apart = np.abs(concatenate_entries(wrong.claimed.values()) - concatenate_entries(wrong.right.values()))
                is_rounding = np.median(apart[apart > 0]) < _ROUNDINGS * EPS * abs(value) / h
                error = "rounding" if is_rounding else f"proportional to {_LAWS[scheme]}: truncation"
                says = f"the claim is a {scheme} difference with the step h = {h:.3g}{whose}; its error is {error}"
                return wrong.says(DiagnosisKind.APPROXIMATION, says)
    return None


def _largest_entries(of: Mapping[str, Any], most: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the inputs and the indices of the largest numbers above 0, largest first."""
    found = []
    for name, x in of.items():
        for k in np.argsort(np.ravel(-x))[:_SAMPLES]:
            at = tuple(int(i) for i in np.unravel_index(k, shape(x))) if shape(x) else ()
            found += [(float(x[at]), name, at)] if 0 < x[at] < np.inf else []
    return [(name, at) for _, name, at in sorted(found, reverse=True)[:most]]


def _is_difference_quotient(
    wrong: Wrong, name: str, at: tuple[int, ...], h: float, scheme: str, relative: bool, value: float
) -> bool:
    q = wrong.q
    x = float(np.asarray(q.xs[q.wrt.index(name)])[at])
    step = h * abs(x) if relative else h
    if step == 0:
        return False

    def f(t: float) -> float:
        wrong.budget.spend(1)
        return value_beside(q, name, at, t)

    if scheme == "central":
        made = (f(step) - f(-step)) / (2 * step)
    else:
        sign = 1.0 if scheme == "forward" else -1.0
        made = (f(sign * step) - value) / (sign * step)
    claimed, right = float(np.asarray(wrong.claimed[name])[at]), float(np.asarray(wrong.right[name])[at])
    room = _ROUNDINGS * EPS * abs(value) / step + 1e-9 * abs(claimed)
    if not np.asarray(wrong.masks[name])[at]:
        return abs(claimed - made) <= room
    again = abs(claimed - made) <= _SAME * abs(claimed)  # the same difference quotient, however large its error
    return again or abs(claimed - made) <= room <= _GAIN * abs(claimed - right)


def find_small_errors(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if every entry is nearly right, with small errors that differ between entries."""
    sizes = {name: max(largest_magnitude(wrong.right[name]), 1e-300) for name in wrong.names}
    errors = [np.ravel(np.abs(wrong.claimed[name] - wrong.right[name])) / sizes[name] for name in wrong.names]
    relative = np.concatenate(errors)
    worst = float(np.max(relative, initial=0.0))
    if not 0 < worst < _ALMOST or (relative.size > 1 and np.median(relative) < 1e-3 * worst):
        return None
    says = (
        f"the claim agrees to {-np.log10(worst):.0f} digits in every entry: the function or the claim is an approximation (a "
        f"solver's tolerance, differences, cancellation), or a small constant such as eps is missing; "
        f"{_tolerances_to_accept(wrong)}"
    )
    return wrong.says(DiagnosisKind.APPROXIMATION, says)


def _tolerances_to_accept(wrong: Wrong) -> str:
    """Return in words the fixed tolerances that would accept the claim."""
    claimed, right = concatenate_entries(wrong.claimed.values()), concatenate_entries(wrong.right.values())
    used = right != 0
    relative = float(np.max(np.abs(claimed - right)[used] / np.abs(right[used]), initial=0.0))
    also = ""
    if not np.all(claimed[~used] == 0):
        also = f" --atol {10 ** np.ceil(np.log10(np.max(np.abs(claimed[~used])))):.0e}"
    return f"--rtol {10 ** np.ceil(np.log10(max(relative, 1e-16))):.0e}{also} accepts it"


# Recognise claims that are right at another point: stale values, exchanged arguments, rounded inputs.

_TURNS = 8  # iterations of Newton's method for the distance by which the point was moved
_LINEAR = 0.7  # the largest part of the error that the first Newton step may leave unexplained
_MOST_OUTPUTS = 16
_PROBE = 1e-6  # relative to the point: the step for the derivative of the gradient
_EVEN = 1e-3  # relative: the distance is shown with three digits if this changes it by less


def find_other_point(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis that names the other point where the claim would be right; None if there is none. Raises BudgetSpent."""
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS:
        return None
    with np.errstate(all="ignore"):
        for says, xs in _other_points(q):
            made = gradient_at(wrong, xs)
            if made is not None and wrong.explained(made):
                kind = DiagnosisKind.STALE if "exchanged" not in says else DiagnosisKind.SWAPPED
                return wrong.says(kind, f"the claim is the right gradient {says}")
        if wrong.count < 2:
            return None  # some point on any line explains a single number
        for says, direction in _lines_through_point(wrong):
            distance = _find_distance_along(wrong, direction)
            if distance is not None:
                shown = f"{distance:.3g}"
                shown = shown if abs(float(shown) / distance - 1) < _EVEN else f"{distance:.6g}"
                if says.endswith("times {}"):
                    factor = f"{1 + float(shown):.10g}"
                    shown = factor if factor != "1" else f"(1 + {shown})"
                says = f"the claim is the right gradient {says.format(shown)} (a stale value)"
                return wrong.says(DiagnosisKind.STALE, says)
    return None


def gradient_at(wrong: Wrong, xs: list[Array]) -> Gradient | None:
    """Return gradcli's gradient at another point for the claimed inputs; None if it fails or is not finite.

    Shapes  `xs` as the inputs; each gradient has the shape of the output, then of the input.
    """
    q = wrong.q
    wrong.budget.spend(1 + size(q.value))  # an evaluation, and a sweep for each output
    try:
        made = wrong.gradient_of(record(q.g, xs), xs)
    except GradcliError:
        return None
    return made if all(np.all(np.isfinite(g)) for g in made.values()) else None


def _other_points(q: Question) -> Iterator[tuple[str, list[Array]]]:
    """Yield points that are used by mistake: exchanged or rounded inputs, zeros, ones, other signs."""
    for a in range(len(q.xs)):
        for b in range(a + 1, len(q.xs)):
            if shape(q.xs[a]) == shape(q.xs[b]):
                xs = list(q.xs)
                xs[a], xs[b] = xs[b], xs[a]
                yield f"with {q.wrt[a]} and {q.wrt[b]} exchanged", xs
    yield "at the point in float32", [np.array(x, dtype=np.float32).astype(np.float64)[()] for x in q.xs]
    yield "at zero", [np.zeros(shape(x))[()] for x in q.xs]  # before the rounded points, of which it may be one
    yield "at ones", [np.ones(shape(x))[()] for x in q.xs]
    for digits in range(4):
        words = "whole numbers" if digits == 0 else "1 decimal" if digits == 1 else f"{digits} decimals"
        yield f"at the point rounded to {words}", [np.asarray(np.round(x, digits))[()] for x in q.xs]
        words = "1 digit" if digits == 0 else f"{digits + 1} digits"
        yield f"at the point rounded to {words}", [_round_to_digits(x, digits + 1) for x in q.xs]
    yield "at the negative point", [-x for x in q.xs]
    if any(not np.all(np.asarray(x) >= 0) for x in q.xs):
        yield "at the absolute values of the point", [np.abs(x) for x in q.xs]


def _round_to_digits(x: Array, digits: int) -> Array:
    size = 10.0 ** (np.floor(np.log10(np.where(x == 0, 1.0, np.abs(x)))) + 1 - digits)
    return np.asarray(np.round(x / size) * size)[()]


def _lines_through_point(wrong: Wrong) -> Iterator[tuple[str, list[Array]]]:
    """Yield lines through the point along which programs move it, such as the gradient."""
    q = wrong.q
    if all(name in wrong.right and shape(wrong.right[name]) == shape(x) for name, x in zip(q.wrt, q.xs, strict=True)):
        yield "at x + {} times the gradient", [np.asarray(wrong.right[name]) for name in q.wrt]
    yield "at the point times {}", list(q.xs)
    for k, name in enumerate(q.wrt) if len(q.xs) > 1 else ():
        still = [np.zeros(shape(x))[()] for x in q.xs]
        yield f"at {name} times {{}}", [*still[:k], q.xs[k], *still[k + 1 :]]
        if name in wrong.right and shape(wrong.right[name]) == shape(q.xs[k]):
            slope = np.asarray(wrong.right[name])
            yield f"at {name} + {{}} times its gradient", [*still[:k], slope, *still[k + 1 :]]


def _find_distance_along(wrong: Wrong, direction: list[Array]) -> float | None:
    """Return the distance along a line at which the claim is the right gradient, by Newton's method; None if there is none."""
    xs = wrong.q.xs
    scale = max((largest_magnitude(x) for x in xs), default=0.0) or 1.0
    longest = max(largest_magnitude(v) for v in direction)
    if not longest > 0 or not np.isfinite(longest):
        return None
    distance, h = 0.0, _PROBE * scale / longest

    def gradient_after(s: float) -> Gradient | None:
        return gradient_at(wrong, [x + s * v for x, v in zip(xs, direction, strict=True)])

    for turn in range(_TURNS):
        here, near = (gradient_after(s) for s in (distance, distance + h))
        if here is None or near is None:
            return None
        slope = concatenate_entries(near.values()) - concatenate_entries(here.values())
        left = concatenate_entries(wrong.claimed.values()) - concatenate_entries(here.values())
        if not np.any(slope):
            return None
        step = float(left @ slope / (slope @ slope))
        if turn == 0 and float(np.linalg.norm(left - step * slope)) > _LINEAR * float(np.linalg.norm(left)):
            return None
        distance += step * h
        made = gradient_after(distance)
        if made is not None and wrong.explained(made):
            return distance
    return None


# Describe the error of a claim that no single mistake explains.

_ALIKE = 1e-6  # relative to the first singular value: smaller ones are rounding errors
_FEWEST_ROWS = 3  # entries whose errors must follow a law
_LAWS_OF_ERRORS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("{}", lambda x, g: x),
    ("{}**2", lambda x, g: x * x),
    ("the sign of {}", lambda x, g: np.sign(x)),
    ("1/{}", lambda x, g: 1 / x),
    ("the square of its gradient", lambda x, g: g * g),
)
_PENALTIES = {"{}": "a quadratic", "the sign of {}": "an absolute"}


def find_law_of_error(wrong: Wrong) -> Diagnosis | None:
    """Return the law that the error follows: one number times a function of the inputs or their gradients; or None."""
    names, values = wrong.names, wrong.q.point.values
    error = concatenate_entries(wrong.claimed[name] - wrong.right[name] for name in names)
    if shape(wrong.q.value) != () or error.size < _FEWEST_ROWS:
        return None
    for says, makes in _LAWS_OF_ERRORS:
        with np.errstate(all="ignore"):
            bases = {name: np.asarray(makes(values[name], wrong.right[name])) for name in names}
        basis = concatenate_entries(bases.values())
        if not np.all(np.isfinite(basis)) or not np.any(basis):
            continue
        factor = float(error @ basis / (basis @ basis))
        if wrong.explained({name: wrong.right[name] + factor * bases[name] for name in names}):
            if says in _PENALTIES:
                lost = "is missing" if factor < 0 else "is too much"
                term = f"{abs(factor):.6g} times {says.format(' and '.join(names))}"
                says = f"a term {lost}: {term}, the gradient of {_PENALTIES[says]} penalty"
                return wrong.says(DiagnosisKind.TERM, says)
            return _report_unknown_mistake(wrong, f" is {factor:.6g} times {says.format(' and '.join(names))}")
    return None


def describe_error_pattern(wrong: Wrong) -> Diagnosis:
    """Return a diagnosis that describes an unexplained error: the entries it is in, its sign and its size."""
    parts = []
    for name in wrong.names:
        error = np.asarray(wrong.claimed[name] - wrong.right[name])
        mask = np.asarray(wrong.masks[name])
        signs = np.sign(error[mask])
        word = "positive" if np.all(signs > 0) else "negative" if np.all(signs < 0) else "of both signs"
        size = float(np.max(np.abs(error[mask]))) / max(largest_magnitude(wrong.right[name]), 1e-300)
        where = wrong.alone(name).where() or f" in every entry of {name}"
        rank = ""
        if np.ndim(error) == 2 and min(error.shape) > 1 and np.all(np.isfinite(error)):
            values = np.linalg.svd(error, compute_uv=False)
            rank = ", of rank one" if values[1] < _ALIKE * values[0] else ""
        sized = f"({word}{rank}, up to {numbers.write_bound(size)} of the largest entry)"
        parts.append(f"{where.removeprefix(' in ')} {sized}")
    return _report_unknown_mistake(wrong, f" is in {' and '.join(parts)}")


def _report_unknown_mistake(wrong: Wrong, says: str) -> Diagnosis:
    notes = "".join(f" ({note})" for note in wrong.notes)
    says = f"no mistake that gradcli knows explains the claim{notes}; its error{says}"
    return wrong.says(DiagnosisKind.UNKNOWN, says)


_SEARCH = (  # the simplest first: the first that explains every wrong entry is the diagnosis
    find_rank_mistake, find_stopped_values, find_straight_through, find_ignored_cotangent, find_mistake_in_whole, find_clipping,
    find_exchanged_inputs, find_overwritten_positions, find_factor_in_entries,
    find_squared_gradient, find_lower_precision,
    find_difference_quotient, find_slight_error, find_slip_on_tape, find_factor_of_units, find_factor_by_input,
    find_other_parameter, find_unnamed_factor, find_added_constant, find_law_of_error, find_unnamed_share, find_other_point,
    find_wrong_entry, find_small_errors,
)  # fmt: skip
_MANY = 2  # entries, which one number, the distance to the other point, does not explain by accident
_NUMBER = re.compile(r"\d[\w.+-]*")
_SAME_NUMBER_ELSEWHERE = (DiagnosisKind.UNKNOWN, DiagnosisKind.SCALED, DiagnosisKind.FACTOR, DiagnosisKind.SLIP)


# Of the calls that are left: what a step may take, so that some are left for later ones, and for trying a name elsewhere.
_SHARES = {find_overwritten_positions: 0.25, find_difference_quotient: 0.25, find_slip_on_tape: 0.6}


def diagnose(wrong: Wrong, elsewhere: Iterable[Wrong] = ()) -> Diagnosis:
    """Return the likely mistake; if no known mistake explains the claim, the pattern of its error.

    A mistake that explains the claim at the point and not `elsewhere`, where the claim is wrong, too, is none. What takes
    calls is tried while the budget of `wrong` has some.
    """
    masks = {name: ~np.isfinite(wrong.claimed[name]) & wrong.masks[name] for name in wrong.names}
    if any(np.any(mask) for mask in masks.values()):
        where = Wrong(wrong.q, wrong.claimed, wrong.right, masks).where() or " in every entry"
        return wrong.says(DiagnosisKind.NON_FINITE, f"the claim is not finite{where}, where the right gradient is")
    elsewhere = iter(elsewhere)
    for find in _SEARCH:
        try:
            with wrong.budget.keeping(int((1 - _SHARES.get(find, 1.0)) * wrong.budget.left)):
                found = find(wrong)
            if found is None:
                continue
            elsewhere, others = itertools.tee(elsewhere)  # what it yields is kept, and asked for when it is needed
            if all(_is_same_mistake(found, _find_again_at(other, find, found), wrong) for other in others):
                return found
        except BudgetSpent:
            wrong.note_limit()
        except (FunctionFailed, TraceEnded):  # f cannot be called once more, as where it keeps what it was given
            continue
    return describe_error_pattern(wrong)


def _find_again_at(wrong: Wrong, find: Callable[[Wrong], Diagnosis | None], first: Diagnosis) -> Diagnosis | None:
    """Return the mistake that explains the claim at another point, on the line of the first one if it does there."""
    if find not in (find_slip_on_tape, find_unnamed_share):
        return find(wrong)
    for only in ((first.file, first.line), None) if first.line is not None else (None,):
        at = replace(wrong, only_line=only, unnamed=[], slipped=[])
        found = find_slip_on_tape(at)
        found = find_unnamed_share(at) if find is find_unnamed_share else found  # it takes what that search has left
        if found is not None:
            return found
    return None


def _is_same_mistake(found: Diagnosis, other: Diagnosis | None, wrong: Wrong) -> bool:
    """Whether two points have the same mistake, on the same line; a factor without a known cause has to be the same number.

    A stale value that explains many entries needs no other point: the iteration that finds it may not converge there.
    """
    if found.kind is DiagnosisKind.STALE and wrong.count > _MANY:
        return True
    if other is None or (found.kind, found.file, found.line) != (other.kind, other.file, other.line):
        return False
    if found.kind not in _SAME_NUMBER_ELSEWHERE:
        return True
    one, two = (x.message.partition(" in ")[0] for x in (found, other))
    if ":" in one and found.kind is not DiagnosisKind.UNKNOWN:  # named by its cause, whose number may be the point's
        one, two = (_NUMBER.sub("", text) for text in (one, two))
    return one == two
