"""Functions that cannot be traced, with structure finer than the usual steps: waves, bumps, teeth, rounding, noise.

The true slope is that of the function at the point, by mpmath; the envelope is what is left without the structure. Where
the structure is rounding to single precision or noise, the envelope's slope is what is meant, and the right claim.
"""

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from generated import Claim, Generated, mp, pick, scale

COUNT = 300
NAMES = frozenset({"fine-structure", "staircase", "noise", "kink", "jump"})  # findings that name the reason
LEAST = 1e-9  # relative: claims nearer than this to the truth are not asked as wrong ones
OFF = (3.0, -3.0, 10.0, 0.3)  # of both slopes together


@dataclass(frozen=True)
class Smooth:
    """A smooth function on floats, and its slope in mp."""

    name: str
    f: Callable[[float], float]
    slope: Callable[[Any], Any]


SMOOTH = (
    Smooth("x**2", lambda x: x * x, lambda x: 2 * x),
    Smooth("sin", math.sin, mp.cos),
    Smooth("exp", math.exp, mp.exp),
    Smooth("x**3 + x", lambda x: x * x * x + x, lambda x: 3 * x**2 + 1),
    Smooth("atan", math.atan, lambda x: 1 / (1 + x**2)),
)


@dataclass(frozen=True)
class Structure:
    """A function on floats with its slope at the point; `right` and `envelope` say how the two slopes are claimed."""

    name: str
    f: Callable[[float], float]
    slope: Any
    envelope: Any
    right: str = "right"
    enveloped: str = "wrong"


def _waves(rng: np.random.Generator, x: float) -> Structure:
    a, w, steep, p = scale(rng, -1, 1), scale(rng, 1, 9), scale(rng, -3, 3), round(float(rng.uniform(0, 6)), 3)
    b = steep / w
    slope = 2 * a * mp.mpf(x) + mp.mpf(b) * w * mp.cos(mp.mpf(w) * x + p)
    f = lambda x: a * x * x + b * math.sin(w * x + p)
    return Structure(f"{a}*x*x + {b:.2e}*sin({w:.2e}*x + {p})", f, slope, 2 * a * mp.mpf(x))


def _bumps(rng: np.random.Generator, x: float) -> Structure:
    a, s, steep = scale(rng, -1, 1), scale(rng, -8, -1), scale(rng, -3, 3)
    b, c = steep * s, x + s * float(rng.uniform(-2, 2))
    u = (mp.mpf(x) - c) / mp.mpf(s)
    slope = 2 * a * mp.mpf(x) - 2 * u * mp.exp(-(u**2)) * mp.mpf(b) / mp.mpf(s)

    def f(x: float) -> float:
        u = (x - c) / s
        return a * x * x + b * math.exp(-min(u * u, 700.0))

    return Structure(f"{a}*x*x + bump of {b:.1e}, {s:.0e} wide", f, slope, 2 * a * mp.mpf(x))


def _teeth(rng: np.random.Generator, x: float) -> Structure:
    """A sawtooth, or its triangle, well away from the nearest edge."""
    a, w, steep = scale(rng, -1, 1), scale(rng, 1, 9), scale(rng, -3, 3)
    shift = round(float(rng.uniform(0.2, 0.8)), 2) - (w * x - math.floor(w * x))
    b, triangle = steep / w, bool(rng.integers(2))
    place = mp.mpf(w) * x + shift
    side = 1 if not triangle else 2 if place - mp.floor(place) > 0.5 else -2
    if triangle and abs(place - mp.floor(place) - 0.5) < 0.05:
        triangle, side = False, 1

    def f(x: float) -> float:
        u = w * x + shift
        u -= math.floor(u)
        return a * x * x + b * (abs(2 * u - 1) if triangle else u)

    slope = 2 * a * mp.mpf(x) + side * mp.mpf(b) * w
    return Structure(f"{a}*x*x + teeth of {b:.1e}, {1 / w:.0e} wide", f, slope, 2 * a * mp.mpf(x))


def _rounded(rng: np.random.Generator, x: float) -> Structure:
    """Decimal places: the slope is 0 except at the steps, and the smooth one what is meant."""
    g, places = pick(rng, SMOOTH), int(rng.integers(3, 11))
    inside = bool(rng.integers(2))
    f = (lambda x: g.f(round(x, places))) if inside else (lambda x: round(g.f(x), places))
    name = f"{g.name} of round(x, {places})" if inside else f"round of {g.name} to {places} places"
    return Structure(name, f, mp.mpf(0), g.slope(mp.mpf(x)), enveloped="open")


def _single(rng: np.random.Generator, x: float) -> Structure:
    """Single precision inside."""
    g, inside = pick(rng, SMOOTH), bool(rng.integers(2))
    f = (lambda x: g.f(float(np.float32(x)))) if inside else (lambda x: float(np.float32(g.f(x))))
    return Structure(f"{g.name} in float32", f, g.slope(mp.mpf(x)), mp.mpf(0), enveloped="open")


def _noisy(rng: np.random.Generator, x: float) -> Structure:
    """Noise that is a function of the bits of x."""
    g, floor = pick(rng, SMOOTH), scale(rng, -13, -4)
    f = lambda x: g.f(x) + floor * (zlib.crc32(struct.pack("d", x)) / 2**32 - 0.5)
    return Structure(f"{g.name} + noise of {floor:.0e}", f, g.slope(mp.mpf(x)), mp.mpf(0), enveloped="wrong")


FAMILIES = (
    ("waves", _waves), ("waves", _waves), ("bumps", _bumps), ("teeth", _teeth), ("rounding", _rounded),
    ("float32", _single), ("noise", _noisy),
)  # fmt: skip


def generated(number: int, seed: int) -> Generated:
    """Return one case; one in four has a second, smooth input."""
    rng = np.random.default_rng([seed, 4, number])
    family, make = FAMILIES[number % len(FAMILIES)]
    x = round(float(rng.uniform(-3, 3)), 15)
    s = make(rng, x)
    second = not rng.integers(4)
    y, c = round(float(rng.uniform(0.5, 2)), 3), scale(rng, -3, 3)

    def one(x: Any) -> float:
        return s.f(float(x))

    def two(x: Any, y: Any) -> float:
        return s.f(float(x)) + c * math.sin(float(y))

    more = {"y": float(c * mp.cos(mp.mpf(y)))} if second else {}
    at = {"x": x, "y": y} if second else {"x": x}
    name = f"{s.name} at {x}" + (f", + {c}*sin(y)" if second else "")
    return Generated(family, name, lambda: two if second else one, at, tuple(_claims(rng, s, more)))


def _claims(rng: np.random.Generator, s: Structure, more: dict[str, float]) -> Iterator[Claim]:
    yield Claim(s.right, "the slope", {"x": float(s.slope), **more}, 0.0)
    error = _relative(s.envelope, s.slope)
    if error > LEAST:
        yield Claim(s.enveloped, "the other slope", {"x": float(s.envelope), **more}, error)
    far = float(s.slope + pick(rng, OFF) * (abs(s.slope) + abs(s.envelope)))
    error = _relative(far, s.slope)
    if min(error, _relative(far, s.envelope)) > LEAST:
        yield Claim("wrong", "far from both", {"x": far, **more}, error)


def _relative(claim: Any, slope: Any) -> float:
    return float(abs(claim - slope) / abs(slope)) if slope else float("inf")
