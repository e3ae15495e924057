"""Custom backward passes of functions of single numbers, of running sums and of steps in time, for every framework."""

import math
from typing import Any

from tests.frameworks.corpus.arrays import xp
from tests.frameworks.corpus.case import Rules, drawn, rules

ROOT = math.sqrt(2 / math.pi)


def phi(x: Any) -> Any:
    return xp.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def normal(x: Any) -> Any:
    return 0.5 * (1 + xp.erf(x / math.sqrt(2)))


def gelu(x: Any) -> Any:
    return x * normal(x)


def gelu_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (normal(x) + x * phi(x))


def gelu_no_density(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * normal(x)


def gelu_of_tanh(ybar: Any, y: Any, x: Any) -> Any:
    return gelu_tanh_bwd(ybar, y, x)


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(ROOT * (x + 0.044715 * x**3)))


def gelu_tanh_bwd(ybar: Any, y: Any, x: Any) -> Any:
    t = xp.tanh(ROOT * (x + 0.044715 * x**3))
    return ybar * 0.5 * (1 + t + x * (1 - t**2) * ROOT * (1 + 3 * 0.044715 * x**2))


def gelu_tanh_no_three(ybar: Any, y: Any, x: Any) -> Any:
    t = xp.tanh(ROOT * (x + 0.044715 * x**3))
    return ybar * 0.5 * (1 + t + x * (1 - t**2) * ROOT * (1 + 0.044715 * x**2))


def swish(x: Any, beta: Any) -> Any:
    return x * xp.sigmoid(beta * x)


def swish_bwd(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    s = xp.sigmoid(beta * x)
    return ybar * (s + beta * y * (1 - s)), xp.sum(ybar * x * y * (1 - s))


def swish_no_beta(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    s = xp.sigmoid(beta * x)
    return ybar * (s + y * (1 - s)), xp.sum(ybar * x * y * (1 - s))


def swish_mean(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    xbar, _ = swish_bwd(ybar, y, x, beta)
    return xbar, xp.mean(ybar * x * y * (1 - xp.sigmoid(beta * x)))


def softplus(x: Any) -> Any:
    return xp.log1p(xp.exp(x))


def softplus_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (1 - xp.exp(-y))


def softplus_negated(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * xp.exp(-y)


def sinc(x: Any) -> Any:
    return xp.sin(x) / x


def sinc_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (xp.cos(x) - y) / x


def sinc_no_quotient(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * xp.cos(x) / x


def huber(x: Any, target: Any) -> Any:
    r = x - target
    return xp.mean(xp.where(xp.abs(r) < 0.5, r**2 / 2, 0.5 * (xp.abs(r) - 0.25)))


def huber_bwd(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    r = x - target
    xbar = ybar * xp.clip(r, -0.5, 0.5) / r.shape[0]
    return xbar, -xbar


def huber_sign(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    r = x - target
    xbar = ybar * xp.where(xp.abs(r) < 0.5, r, xp.sign(r)) / r.shape[0]
    return xbar, -xbar


def huber_one_sided(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    xbar, _ = huber_bwd(ybar, y, x, target)
    return xbar, None


def clip(x: Any) -> Any:
    return xp.clip(x, -0.7, 0.7)


def clip_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return xp.where(xp.abs(x) < 0.7, ybar, 0.0)


def clip_straight(ybar: Any, y: Any, x: Any) -> Any:
    return ybar


def clip_the_cotangent(ybar: Any, y: Any, x: Any) -> Any:
    return xp.clip(ybar, -0.7, 0.7)


def soft_round(x: Any, a: Any) -> Any:
    """Return a smooth stand-in for rounding, as quantisers train with."""
    return x - xp.sin(2 * math.pi * x) * a / (2 * math.pi)


def soft_round_bwd(ybar: Any, y: Any, x: Any, a: Any) -> Any:
    abar = -xp.sum(ybar * xp.sin(2 * math.pi * x)) / (2 * math.pi)
    return ybar * (1 - a * xp.cos(2 * math.pi * x)), abar


def soft_round_straight(ybar: Any, y: Any, x: Any, a: Any) -> Any:
    return ybar, -xp.sum(ybar * xp.sin(2 * math.pi * x)) / (2 * math.pi)


def polynomial(x: Any, c: Any) -> Any:
    return c[0] + x * (c[1] + x * (c[2] + x * c[3]))


def polynomial_bwd(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    xbar = ybar * (c[1] + x * (2 * c[2] + x * 3 * c[3]))
    return xbar, xp.stack([xp.sum(ybar * x**k) for k in range(4)])


def polynomial_off_by_one(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    xbar, _ = polynomial_bwd(ybar, y, x, c)
    return xbar, xp.stack([xp.sum(ybar * x ** (k + 1)) for k in range(4)])


def polynomial_no_factor(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    _, cbar = polynomial_bwd(ybar, y, x, c)
    return ybar * (c[1] + x * (c[2] + x * c[3])), cbar


def cumulative(x: Any) -> Any:
    return xp.cumsum(x, 1)


def from_the_end(ybar: Any) -> Any:
    return xp.flip(xp.cumsum(xp.flip(ybar, 1), 1), 1)


def cumulative_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return from_the_end(ybar)


def cumulative_forwards(ybar: Any, y: Any, x: Any) -> Any:
    return xp.cumsum(ybar, 1)


def cumulative_exclusive(ybar: Any, y: Any, x: Any) -> Any:
    return from_the_end(ybar) - ybar


def field(y: Any, k: Any) -> Any:
    return xp.sin(y) * k


def heun(y: Any, k: Any) -> Any:
    """Return one step of Heun's method for y' = k sin(y)."""
    first = field(y, k)
    return y + 0.05 * (first + field(y + 0.1 * first, k))


def heun_bwd(zbar: Any, z: Any, y: Any, k: Any) -> Any:
    middle = y + 0.1 * field(y, k)
    second = 0.05 * zbar
    mbar = second * xp.cos(middle) * k
    first = second + 0.1 * mbar
    return zbar + mbar + first * xp.cos(y) * k, xp.sum(second * xp.sin(middle) + first * xp.sin(y))


def heun_detached(zbar: Any, z: Any, y: Any, k: Any) -> Any:
    middle = y + 0.1 * field(y, k)
    second = 0.05 * zbar
    mbar = second * xp.cos(middle) * k
    return zbar + mbar + second * xp.cos(y) * k, xp.sum(second * xp.sin(middle) + second * xp.sin(y))


def broadcast_add(x: Any, bias: Any) -> Any:
    return xp.tanh(x + bias)


def broadcast_add_bwd(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - y**2)
    return xbar, xp.sum(xbar, axis=0)


def broadcast_add_of_x(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - x**2)
    return xbar, xp.sum(xbar, axis=0)


def broadcast_add_other_axis(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - y**2)
    return xbar, xp.sum(xbar, axis=1)


SCALARS: tuple[Rules, ...] = (
    rules("gelu", gelu, gelu_bwd, {"the density's term is left out": gelu_no_density, "that of the other variant": gelu_of_tanh}, x=drawn(4)),
    rules("gelu_tanh", gelu_tanh, gelu_tanh_bwd, {"the exponent is missing": gelu_tanh_no_three}, x=drawn(4)),
    rules("swish", swish, swish_bwd, {"beta is missing": swish_no_beta, "a mean for a sum": swish_mean}, x=drawn(4), beta=1.3),
    rules("softplus", softplus, softplus_bwd, {"1 minus it": softplus_negated}, x=drawn(4, high=1.0)),
    rules("sinc", sinc, sinc_bwd, {"the quotient's second term is left out": sinc_no_quotient}, x=drawn(4, low=0.3)),
    rules("huber", huber, huber_bwd, {"a slope of 1 outside": huber_sign, "no gradient for the target": huber_one_sided},
         x=drawn(4), target=drawn(4, high=0.3)),
    rules("clip", clip, clip_bwd, {"let through outside": clip_straight, "the cotangent is clipped": clip_the_cotangent}, x=drawn(4)),
    rules("soft_round", soft_round, soft_round_bwd, {"straight through": soft_round_straight}, x=drawn(4), a=0.6),
    rules("polynomial", polynomial, polynomial_bwd,
         {"powers are off by one": polynomial_off_by_one, "exponents are missing": polynomial_no_factor}, x=drawn(4), c=drawn(4)),
    rules("cumulative", cumulative, cumulative_bwd,
         {"not from the end": cumulative_forwards, "without the entry itself": cumulative_exclusive}, x=drawn(2, 4)),
    rules("heun", heun, heun_bwd, {"the first stage is detached from the second": heun_detached}, y=drawn(4), k=1.2),
    rules("broadcast_add", broadcast_add, broadcast_add_bwd,
         {"x was saved for y": broadcast_add_of_x, "summed over the other axis": broadcast_add_other_axis}, x=drawn(2, 2), bias=drawn(2)),
)  # fmt: skip
