"""Choose the step for a function whose values are rounded, noisy or random, from the measured size of the noise."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.modes.mode import Question
from gradcli.numerics.noise import left_over, near
from gradcli.numerics.schemes import SCHEMES
from gradcli.reports.sweep_rows import Noise, NoisyStep
from gradcli.study.curves import absolute
from gradcli.study.rays import Ray, common_ray, directions, entry_rays, weights

_WIDER = 10.0 ** np.arange(8)  # times the first spacing at which noise is measured
_DISTINCT = 5  # of the nine values: with fewer, the spacing lies inside one stair
_SAME = 4.0  # noise levels at two spacings that differ by less than this factor are the same noise
_WIDE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # steps for derivatives, relative to the size of the inputs
_SEEN = 10.0  # times its own noise: a derivative this large is resolved
_MEAN = 8  # values of a random function that are averaged at one point
_SHOWN = ("forward", "central")
NOT_RANDOM = "f gives the same value at each call: --samples changes nothing"

Along = Callable[[float], float]


def ray_of(q: Question) -> Ray:
    """Return the ray along the only entry, or along all inputs in proportion to their entries."""
    if q.entries == 1:
        return entry_rays(q)[0]
    return common_ray(q, {name: np.ones(shape(q.value) + shape(x)) for name, x in zip(q.wrt, q.xs, strict=True)})


def of_neighbours(q: Question) -> Noise | None:
    """Return the noise of a rounded or noisy function and the best steps, from its values near the point; None if none.

    Cost    9 evaluations of f for each of up to 8 spacings, and about 50 for the derivatives.
    Source  Moré and Wild (2011), Estimating computational noise: the spacing grows until the values differ.
    """
    ray = ray_of(q)
    f = _along(q, ray)
    seen: list[float] = []
    for wider in _WIDER:
        places = [t * float(wider) for t in near(1.0)]
        values = np.array([f(t) for t in places])
        if not np.all(np.isfinite(values)):
            break
        if len(np.unique(values)) >= _DISTINCT:
            seen.append(float(left_over(places, values)))
            if len(seen) > 1 and seen[-1] < _SAME * seen[-2]:
                break
    return _steps(q, ray, f, min(seen), len(near(1.0)), random=False) if seen else None


def of_samples(q: Question, samples: int) -> Noise:
    """Return the noise of a random function and the best steps, from the spread of `samples` values at the point."""
    ray = ray_of(q)
    f = _along(q, ray)
    values = [f(0.0) for _ in range(samples)]
    return _steps(
        q,
        ray,
        lambda t: float(np.mean([f(t) for _ in range(_MEAN)])),
        float(np.std(values, ddof=1)),
        samples,
        random=True,
    )


def _along(q: Question, ray: Ray) -> Along:
    w, vs = weights(q), directions(q, ray)

    def f(t: float) -> float:
        return float(np.sum(w * q.near(*(x if v is None else x + t * v for x, v in zip(q.xs, vs, strict=True)))))

    return f


def _steps(q: Question, ray: Ray, f: Along, level: float, samples: int, random: bool) -> Noise:
    """Return the noise with the best step and error of each scheme, which follow from the noise and the derivatives."""
    spread = level / np.sqrt(_MEAN) if random else level
    derivatives = {2: _seen(f, _second, np.sqrt(6.0) * spread, 2), 3: _seen(f, _third, np.sqrt(2.5) * spread, 3)}
    found = []
    for scheme in (scheme for scheme in SCHEMES if scheme.name in _SHOWN):
        predicted = scheme.predicted(level, derivatives)
        if predicted is not None:
            h, error = predicted
            slope = abs((f(h) - f(-h)) / (2 * h))
            relative = error / slope if slope > error else None
            found.append(NoisyStep(scheme.name, h, error, relative, absolute(h, ray)))
    return Noise(level, samples, random, ray.name, ray.index, tuple(found))


def _seen(f: Along, difference: Callable[[Along, float], float], noise: float, order: int) -> float:
    """Return the size of a derivative by the smallest step at which it exceeds its noise, or else by the widest step."""
    sizes = [(abs(difference(f, h)), h) for h in _WIDE]
    finite = [(size, h) for size, h in sizes if np.isfinite(size)]
    return next((size for size, h in finite if size > _SEEN * noise / h**order), finite[-1][0] if finite else 0.0)


def _second(f: Along, h: float) -> float:
    return (f(h) - 2 * f(0.0) + f(-h)) / h**2


def _third(f: Along, h: float) -> float:
    return (f(2 * h) - 2 * f(h) + 2 * f(-h) - f(-2 * h)) / (2 * h**3)


def is_rounded(q: Question, slope: Any) -> bool:
    """Whether f has stairs: marked in the trace, or suspected because all values near the point are the same."""
    if q.staircases:
        return True
    f: Any = _along(q, ray_of(q))
    unseen = q.f.kind == "python" and (slope == 0 or q.untraced is not None)
    return unseen and len({f(t) for t in near(1.0)}) == 1
