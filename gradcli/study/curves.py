"""Error against step size: one curve for each scheme, ray and format, and what its shape says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gradcli.interpreters.ball import precision
from gradcli.interpreters.low import GUARD, nearest_of, of_bits
from gradcli.lowering.floats import Format
from gradcli.numerics.schemes import Scheme
from gradcli.numerics.slopes import log_slope, neighbours
from gradcli.reports.encode import ABSENT, Absent
from gradcli.reports.sweep_rows import Best, Curve, Predicted, Useless, Why
from gradcli.study.rays import Ray, Rays, directions, in_balls

DECADES = 20  # steps go from 1 down to 1e-20 of the input's size
PER_DECADE = 3
_FAR = 10.0  # times the best error: where one of the two causes of error is alone
_LAW = 0.1  # relative error: above it a scheme is not yet in its asymptotic range
_ASYMPTOTIC = (
    18  # steps, over one more than the order, that the order is fitted to: the smallest of the truncation side
)
_NOTHING = 0.5  # relative error from which on no digit is right
_UNSEEN = 1e-31  # relative error below what two float64 numbers say of a slope
_AS_GOOD = 2.0  # times the least error
_RANGE = 1e290  # slopes beyond it, or below its inverse, leave the range of float64 by a step's unit
_STRAIGHT = 0.1, 0.05  # of a power law's exponent, absolute and relative: how far the slopes from point to point differ

Truth = Mapping[str, Sequence[arb]]  # by side ("both", or "forward" and "backward" at a kink): a slope for each ray


def steps(eps: float, most: int | None = None) -> Any:
    """Return the steps in units of the input's size, largest first: down to 1e-20, and further where eps is smaller."""
    decades = max(DECADES, int(np.ceil(-1.25 * np.log10(eps))))
    count = PER_DECADE * decades + 1
    if most is None or most >= count:
        return 10.0 ** (-np.arange(count) / PER_DECADE)
    return 10.0 ** np.linspace(0, -decades, most)


def in_format(along: Rays, rays: Sequence[Ray], schemes: Sequence[Scheme], truth: Truth, hs: Any) -> list[list[Any]]:
    """Return the relative errors of every scheme, for each ray, in a floating-point format.

    Shapes  schemes, rays, then steps.
    """
    form = along.form
    offsets = sorted({o for scheme in schemes for o in scheme.offsets})
    values = {o: along.values(rays, o * hs if o else np.zeros(1)) for o in offsets}
    found = []
    for scheme in schemes:
        slopes = truth.get(scheme.name) or truth["both"]
        units = [_unit(along, ray, slope) for ray, slope in zip(rays, slopes, strict=True)]
        h = form.rounded(form.rounded(hs) * np.array(units)[:, None])
        if scheme.imaginary:
            estimate = form.rounded(np.imag(along.values(rays, 1j * hs)) / h)
        else:
            estimate = scheme.quotient(values, h, form.rounded)
        found.append([_error(estimate[k], slope, units[k]) for k, slope in enumerate(slopes)])
    return found


def in_range(slope: arb) -> bool:
    """Whether a slope along a ray is zero or a number that floats hold with room to spare."""
    return slope == 0 or 1 / _RANGE < abs(float(slope)) < _RANGE


def _unit(along: Rays, ray: Ray, slope: arb) -> float:
    """Return the power of two that steps are divided by in units of: 1, or the ray's size where its slope leaves floats."""
    if in_range(slope):
        return 1.0
    size = max(float(np.max(np.abs(v), initial=0.0)) for v in directions(along.q, ray) if v is not None)
    return float(np.exp2(np.ceil(np.log2(size)))) if size else 1.0


def _error(estimate: Any, slope: arb, unit: float) -> Any:
    """Return |estimate - slope| / |slope|, the slope known to twice the digits of float64; absolute where it is 0.

    Units  the estimate is one of the slope over `unit`, a power of two.
    """
    with precision(256):
        slope = slope / arb(unit)
    high = float(slope)
    low = float(slope - arb(high))
    error = np.asarray(np.abs((estimate - high) - low) / (abs(high) or 1.0), dtype=np.float64)
    return np.where(error < _UNSEEN, 0.0, error)


def in_bits(along: Rays, ray: Ray, schemes: Sequence[Scheme], truth: Truth, hs: Any, bits: int) -> list[Any]:
    """Return the relative errors of every scheme along one ray, with numbers of so many bits. Shapes: schemes, steps."""
    rounded = np.frompyfunc(lambda x: nearest_of(x, bits), 1, 1)
    offsets = sorted({o for scheme in schemes for o in scheme.offsets})
    with precision(bits + GUARD):
        h = np.array([nearest_of(arb(float(x)), bits) for x in hs], dtype=object)
        places = {o: [t * arb(o) for t in h] if o else [arb(0)] for o in offsets}
        values = {
            o: np.array(in_balls(along.q, ray, ts, bits + GUARD, of_bits(bits)), dtype=object)
            for o, ts in places.items()
        }
        estimates = [scheme.quotient(values, h, rounded) for scheme in schemes]
    with precision(2 * bits):
        slopes = [(truth.get(scheme.name) or truth["both"])[0] for scheme in schemes]
        return [
            np.array([float(abs(x - slope) / (abs(slope) if slope != 0 else arb(1))) for x in estimate])
            for estimate, slope in zip(estimates, slopes, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A kind of number: what a curve needs to know of it. Units: `eps` is the spacing at 1."""

    name: str
    eps: float

    @property
    def digits(self) -> float:
        """The decimal digits of a correctly rounded number."""
        return float(-np.log10(self.eps / 2))

    @classmethod
    def of(cls, form: Format) -> "Numbers":
        return cls(form.name, form.eps)


class Errors(NamedTuple):
    """Relative errors by step, and at which steps f did not move at all."""

    hs: Any
    errors: Any
    still: Any


class Known(NamedTuple):
    """What is known of f along a ray: the slope, how well, the derivatives, and the rounding error of one value."""

    slope: arb
    known_to: float  # smaller relative errors say nothing
    derivatives: Mapping[int, float]
    e: float


def curve(kind: Numbers, ray: Ray, scheme: Scheme, seen: Errors, truth: Known) -> Curve:
    """Return one curve with what was observed on it and what theory predicts."""
    hs, errors, still = seen
    slope, known_to, derivatives, e = truth
    known = np.where(np.isfinite(errors), errors, np.inf)
    smooth = np.maximum(neighbours(known), known_to)
    k = int(np.argmin(smooth))
    if scheme.imaginary:
        k = int(np.argmax(smooth <= _AS_GOOD * max(float(smooth[k]), kind.eps / 2)))
    least = float(smooth[k])
    digits = kind.digits if least == 0 else float(np.clip(-np.log10(least), 0.0, kind.digits)) + 0.0
    floor = max(least, kind.eps / 2)
    right = (np.arange(len(hs)) < k) & (smooth > 3 * _FAR * floor) & (smooth < _LAW)
    some = max(4, _ASYMPTOTIC // (scheme.order + 1))
    left = (np.arange(len(hs)) > k) & (smooth > _FAR * floor) & (smooth < _NOTHING) & ~still
    return Curve(
        scheme=scheme.name, dtype=kind.name, input=ray.name, index=ray.index, scale=ray.scale, slope=float(slope),
        rounding=kind.eps / 2, h=tuple(map(float, hs)), relative_error=tuple(map(float, errors)),
        order=_order(hs[right][-some:], smooth[right][-some:]), rounding_slope=log_slope(hs[left], smooth[left]),
        best=Best(float(hs[k]), least, digits, absolute(float(hs[k]), ray)),
        predicted=_predicted(kind, scheme, ray, e, derivatives, float(slope)),
        useless=tuple(_useless(hs, known, smooth, still, k)), absolute=bool(slope == 0), known_to=known_to or ABSENT,
        h_absolute=ABSENT if ray.name is None else tuple(map(float, hs * ray.scale)),
    )  # fmt: skip


def absolute(h: float, ray: Ray) -> float | Absent:
    """Return a step in the units of the input; along all inputs it is another one for each entry."""
    return ABSENT if ray.name is None else h * ray.scale


def _order(hs: Any, errors: Any) -> float | None:
    """Return the exponent of the error in h; None where the errors follow no power law."""
    order = log_slope(hs, errors)
    if order is None:
        return None
    with np.errstate(all="ignore"):
        apart = np.median(np.abs(np.diff(np.log(errors)) / np.diff(np.log(hs)) - order))
    return order if apart <= max(_STRAIGHT[0], _STRAIGHT[1] * order) else None


def _predicted(
    kind: Numbers, scheme: Scheme, ray: Ray, e: float, derivatives: Mapping[int, float], slope: float
) -> Predicted | None:
    """Return what theory says of the best step; its formula is in the input's units, or in the step's along all inputs."""
    unit = 1.0 if ray.name is None else ray.scale
    if scheme.imaginary:
        third = derivatives.get(scheme.derivative, 0.0)
        if not third or not slope:
            return None
        h = float(np.sqrt(kind.eps / 2 * abs(slope) / (scheme.c * third)))
        given = f"6 x {kind.eps / 2:.2g} x {abs(slope) / unit:.3g} / {third / unit**3:.3g}"
        says = f"h < sqrt(6 u |f'| / |{scheme.symbol}|) = sqrt({given}) = {h * unit:.2g}"
        return Predicted(h, kind.eps / 2, says, absolute(h, ray))
    found = scheme.predicted(e, derivatives)
    if found is None or not slope:
        return None
    size = f"{derivatives[scheme.derivative] / unit**scheme.derivative:.3g}"
    numbers = scheme.law().replace(" e/", f" x {e:.2g}/").replace(f"|{scheme.symbol}|", size)
    says = f"h = {scheme.law()} = {numbers} = {found[0] * unit:.2g}"
    return Predicted(found[0], found[1] / abs(slope), says, absolute(found[0], ray))


def _useless(hs: Any, errors: Any, smooth: Any, still: Any, best: int) -> list[Useless]:
    """Return the ranges of h in which no digit is right, each with its cause."""
    kinds: list[Why | None] = []
    for k in range(len(hs)):
        if still[k]:
            kinds.append("below one ulp")
        elif not np.isfinite(errors[k]):
            kinds.append("no value")
        elif smooth[k] >= _NOTHING and errors[k] >= _NOTHING / 5:
            kinds.append("truncation" if k < best else "cancellation")
        else:
            kinds.append(None)
    found: list[Useless] = []
    start = 0
    for k in range(1, len(hs) + 1):
        if k == len(hs) or kinds[k] != kinds[start]:
            why = kinds[start]
            if why is not None:
                found.append(Useless(float(hs[k - 1]), float(hs[start]), why))
            start = k
    return found
