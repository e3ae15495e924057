"""Custom gradients of functions of single numbers, of running sums and of steps in time."""

import math
from typing import Any

import mlx.core as mx

from tests.frameworks.corpus.case import Case, drawn
from tests.frameworks.corpus.mlx_case import case

ROOT = math.sqrt(2 / math.pi)


def phi(x: Any) -> Any:
    return mx.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def normal(x: Any) -> Any:
    return 0.5 * (1 + mx.erf(x / math.sqrt(2)))


def gelu(x: Any) -> Any:
    return x * normal(x)


def gelu_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (normal(x) + x * phi(x))


def gelu_no_density(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * normal(x)


def gelu_of_tanh(ybar: Any, y: Any, x: Any) -> Any:
    return gelu_tanh_bwd(ybar, y, x)


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + mx.tanh(ROOT * (x + 0.044715 * x**3)))


def gelu_tanh_bwd(ybar: Any, y: Any, x: Any) -> Any:
    t = mx.tanh(ROOT * (x + 0.044715 * x**3))
    return ybar * 0.5 * (1 + t + x * (1 - t**2) * ROOT * (1 + 3 * 0.044715 * x**2))


def gelu_tanh_no_three(ybar: Any, y: Any, x: Any) -> Any:
    t = mx.tanh(ROOT * (x + 0.044715 * x**3))
    return ybar * 0.5 * (1 + t + x * (1 - t**2) * ROOT * (1 + 0.044715 * x**2))


def swish(x: Any, beta: Any) -> Any:
    return x * mx.sigmoid(beta * x)


def swish_bwd(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    s = mx.sigmoid(beta * x)
    return ybar * (s + beta * y * (1 - s)), mx.sum(ybar * x * y * (1 - s))


def swish_no_beta(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    s = mx.sigmoid(beta * x)
    return ybar * (s + y * (1 - s)), mx.sum(ybar * x * y * (1 - s))


def swish_mean(ybar: Any, y: Any, x: Any, beta: Any) -> Any:
    xbar, _ = swish_bwd(ybar, y, x, beta)
    return xbar, mx.mean(ybar * x * y * (1 - mx.sigmoid(beta * x)))


def softplus(x: Any) -> Any:
    return mx.log1p(mx.exp(x))


def softplus_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (1 - mx.exp(-y))


def softplus_negated(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * mx.exp(-y)


def sinc(x: Any) -> Any:
    return mx.sin(x) / x


def sinc_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * (mx.cos(x) - y) / x


def sinc_no_quotient(ybar: Any, y: Any, x: Any) -> Any:
    return ybar * mx.cos(x) / x


def huber(x: Any, target: Any) -> Any:
    r = x - target
    return mx.mean(mx.where(mx.abs(r) < 0.5, r**2 / 2, 0.5 * (mx.abs(r) - 0.25)))


def huber_bwd(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    r = x - target
    xbar = ybar * mx.clip(r, -0.5, 0.5) / r.shape[0]
    return xbar, -xbar


def huber_sign(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    r = x - target
    xbar = ybar * mx.where(mx.abs(r) < 0.5, r, mx.sign(r)) / r.shape[0]
    return xbar, -xbar


def huber_one_sided(ybar: Any, y: Any, x: Any, target: Any) -> Any:
    xbar, _ = huber_bwd(ybar, y, x, target)
    return xbar, None


def clip(x: Any) -> Any:
    return mx.clip(x, -0.7, 0.7)


def clip_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return mx.where(mx.abs(x) < 0.7, ybar, 0.0)


def clip_straight(ybar: Any, y: Any, x: Any) -> Any:
    return ybar


def clip_the_cotangent(ybar: Any, y: Any, x: Any) -> Any:
    return mx.clip(ybar, -0.7, 0.7)


def soft_round(x: Any, a: Any) -> Any:
    """Return a smooth stand-in for rounding, as quantisers train with."""
    return x - mx.sin(2 * math.pi * x) * a / (2 * math.pi)


def soft_round_bwd(ybar: Any, y: Any, x: Any, a: Any) -> Any:
    abar = -mx.sum(ybar * mx.sin(2 * math.pi * x)) / (2 * math.pi)
    return ybar * (1 - a * mx.cos(2 * math.pi * x)), abar


def soft_round_straight(ybar: Any, y: Any, x: Any, a: Any) -> Any:
    return ybar, -mx.sum(ybar * mx.sin(2 * math.pi * x)) / (2 * math.pi)


def polynomial(x: Any, c: Any) -> Any:
    return c[0] + x * (c[1] + x * (c[2] + x * c[3]))


def polynomial_bwd(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    xbar = ybar * (c[1] + x * (2 * c[2] + x * 3 * c[3]))
    return xbar, mx.stack([mx.sum(ybar * x**k) for k in range(4)])


def polynomial_off_by_one(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    xbar, _ = polynomial_bwd(ybar, y, x, c)
    return xbar, mx.stack([mx.sum(ybar * x ** (k + 1)) for k in range(4)])


def polynomial_no_factor(ybar: Any, y: Any, x: Any, c: Any) -> Any:
    _, cbar = polynomial_bwd(ybar, y, x, c)
    return ybar * (c[1] + x * (c[2] + x * c[3])), cbar


def cumulative(x: Any) -> Any:
    return mx.cumsum(x, axis=1)


def cumulative_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return mx.cumsum(ybar, axis=1, reverse=True)


def cumulative_forwards(ybar: Any, y: Any, x: Any) -> Any:
    return mx.cumsum(ybar, axis=1)


def cumulative_exclusive(ybar: Any, y: Any, x: Any) -> Any:
    return mx.cumsum(ybar, axis=1, reverse=True, inclusive=False)


def field(y: Any, k: Any) -> Any:
    return mx.sin(y) * k


def heun(y: Any, k: Any) -> Any:
    """Return one step of Heun's method for y' = k sin(y)."""
    first = field(y, k)
    return y + 0.05 * (first + field(y + 0.1 * first, k))


def heun_bwd(zbar: Any, z: Any, y: Any, k: Any) -> Any:
    middle = y + 0.1 * field(y, k)
    second = 0.05 * zbar
    mbar = second * mx.cos(middle) * k
    first = second + 0.1 * mbar
    return zbar + mbar + first * mx.cos(y) * k, mx.sum(second * mx.sin(middle) + first * mx.sin(y))


def heun_detached(zbar: Any, z: Any, y: Any, k: Any) -> Any:
    middle = y + 0.1 * field(y, k)
    second = 0.05 * zbar
    mbar = second * mx.cos(middle) * k
    return zbar + mbar + second * mx.cos(y) * k, mx.sum(second * mx.sin(middle) + second * mx.sin(y))


def broadcast_add(x: Any, bias: Any) -> Any:
    return mx.tanh(x + bias)


def broadcast_add_bwd(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - y**2)
    return xbar, mx.sum(xbar, axis=0)


def broadcast_add_of_x(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - x**2)
    return xbar, mx.sum(xbar, axis=0)


def broadcast_add_other_axis(ybar: Any, y: Any, x: Any, bias: Any) -> Any:
    xbar = ybar * (1 - y**2)
    return xbar, mx.sum(xbar, axis=1)


SCALARS: tuple[Case, ...] = (
    case("gelu", gelu, gelu_bwd, {"the density's term is left out": gelu_no_density, "that of the other variant": gelu_of_tanh}, x=drawn(6)),
    case("gelu_tanh", gelu_tanh, gelu_tanh_bwd, {"the exponent is missing": gelu_tanh_no_three}, x=drawn(6)),
    case("swish", swish, swish_bwd, {"beta is missing": swish_no_beta, "a mean for a sum": swish_mean}, x=drawn(5), beta=1.3),
    case("softplus", softplus, softplus_bwd, {"1 minus it": softplus_negated}, x=drawn(4, high=1.0)),
    case("sinc", sinc, sinc_bwd, {"the quotient's second term is left out": sinc_no_quotient}, x=drawn(4, low=0.3)),
    case("huber", huber, huber_bwd, {"a slope of 1 outside": huber_sign, "no gradient for the target": huber_one_sided},
         x=drawn(6), target=drawn(6, high=0.3)),
    case("clip", clip, clip_bwd, {"let through outside": clip_straight, "the cotangent is clipped": clip_the_cotangent}, x=drawn(8)),
    case("soft_round", soft_round, soft_round_bwd, {"straight through": soft_round_straight}, x=drawn(5), a=0.6),
    case("polynomial", polynomial, polynomial_bwd,
         {"powers are off by one": polynomial_off_by_one, "exponents are missing": polynomial_no_factor}, x=drawn(5), c=drawn(4)),
    case("cumulative", cumulative, cumulative_bwd,
         {"not from the end": cumulative_forwards, "without the entry itself": cumulative_exclusive}, x=drawn(2, 4)),
    case("heun", heun, heun_bwd, {"the first stage is detached from the second": heun_detached}, y=drawn(4), k=1.2),
    case("broadcast_add", broadcast_add, broadcast_add_bwd,
         {"x was saved for y": broadcast_add_of_x, "summed over the other axis": broadcast_add_other_axis}, x=drawn(3, 3), bias=drawn(3)),
)  # fmt: skip
