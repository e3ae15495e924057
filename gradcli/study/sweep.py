"""Error against step size: what each difference scheme reaches, and what theory says it should."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import NotSupported
from gradcli.modes.complex_step import ComplexStep
from gradcli.modes.mode import Question
from gradcli.numerics.noise import EPS, noise
from gradcli.point import Estimate
from gradcli.report.compare import SchemeSummary

STEPS = 10.0 ** (-np.arange(0, 33) / 2)  # 1 down to 1e-16, of the inputs' size
MOST_SECONDS = 2.0
Phi = Callable[[Any], Any]


def summary(q: Question, reference: Estimate) -> tuple[SchemeSummary, ...]:
    """Return how forward and central differences and the complex step do along one direction.

    Units  h in units of the inputs' size.
    Cost   about 130 evaluations of f; none if that would take more than two seconds.
    """
    if q.seconds * 4 * len(STEPS) > MOST_SECONDS or not q.wrt:
        return ()
    phi, slope = _along(q, reference)
    if not np.isfinite(slope) or slope == 0:
        return ()
    at, rounding = float(phi(0.0)), float(noise(phi, 1.0))
    second, third = _derivatives(phi)
    found = [
        _summarise("forward", slope, lambda h: (phi(h) - at) / h, _predict_forward(at, rounding, second, slope)),
        _summarise("central", slope, lambda h: (phi(h) - phi(-h)) / (2 * h), _predict_central(rounding, third, slope)),
    ]
    if _analytic(q):
        found.append(_summarise("complex", slope, lambda h: np.imag(phi(1j * h)) / h, (None, None)))
    return tuple(found)


def _along(q: Question, reference: Estimate) -> tuple[Phi, float]:
    """Return f along a direction in proportion to the inputs, in which no slopes cancel, and its slope there."""
    rng = np.random.default_rng([q.seed, 0x57E9])
    weights = rng.uniform(0.5, 1.5, shape(q.value)) if shape(q.value) else np.float64(1)
    slopes = [np.tensordot(weights, reference.value[name], np.ndim(weights)) for name in q.wrt]
    vs = [
        np.where(np.asarray(x) == 0, 1.0, np.abs(x)) * np.where(g < 0, -1.0, 1.0)
        for x, g in zip(q.xs, slopes, strict=True)
    ]

    def moved(t: Any) -> Any:
        return np.sum(weights * np.asarray(q.g(*[x + t * v for x, v in zip(q.xs, vs, strict=True)])))

    slope = sum(float(np.sum(g * v)) for g, v in zip(slopes, vs, strict=True))
    return moved, slope


def _derivatives(phi: Phi) -> tuple[float, float]:
    """Estimate the second and third derivative at 0, by steps suited to each."""
    h, k = 1e-4, 2e-3
    second = (phi(h) - 2 * phi(0.0) + phi(-h)) / h**2
    third = (phi(2 * k) - 2 * phi(k) + 2 * phi(-k) - phi(-2 * k)) / (2 * k**3)
    return abs(float(second)), abs(float(third))


def _predict_forward(at: float, rounding: float, second: float, slope: float) -> tuple[float | None, float | None]:
    """h = 2 sqrt(noise / |f''|), error 2 sqrt(noise |f''|)."""
    e = max(rounding, EPS * abs(at) / 2)
    if second <= 1e-7 * abs(slope) or e == 0:
        return None, None
    return 2 * np.sqrt(e / second), 2 * np.sqrt(e * second) / abs(slope)


def _predict_central(rounding: float, third: float, slope: float) -> tuple[float | None, float | None]:
    """h = (3 noise / |f'''|)^(1/3), error 3/2 noise / h."""
    if third <= 1e-6 * abs(slope) or rounding == 0:
        return None, None
    h = (3 * rounding / third) ** (1 / 3)
    return h, 1.5 * rounding / h / abs(slope)


def _analytic(q: Question) -> bool:
    try:
        ComplexStep().refuse_if_not_analytic(q)
    except NotSupported:
        return False
    return True


def _summarise(
    scheme: str, slope: float, estimate: Callable[[float], Any], predicted: tuple[float | None, float | None]
) -> SchemeSummary:
    with np.errstate(all="ignore"):
        errors = np.array([abs(float(estimate(float(h))) - slope) / abs(slope) for h in STEPS])
    usable = np.where(np.isfinite(errors), errors, np.inf)
    k = int(np.argmin(usable))
    digits = 16.0 if usable[k] == 0 else float(np.clip(-np.log10(usable[k]), 0.0, 16.0))
    return SchemeSummary(scheme, _order(usable, k), float(STEPS[k]), float(usable[k]), digits, *predicted)


def _order(errors: Any, best: int) -> float | None:
    """Return the slope of log error against log h on the truncation side, well right of the best step."""
    slopes = [
        float(np.log10(errors[k] / errors[k + 1]) / 0.5)
        for k in range(max(0, best - 2))
        if errors[k + 1] > 0 and errors[k] < 0.1 and errors[k + 1] > 30 * max(errors[best], EPS)
    ]
    return float(np.median(slopes)) if len(slopes) >= 2 else None
