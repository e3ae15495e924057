"""Formulas of a framework's other operations for primitives that the framework has no function for.

`F` holds the framework's operations as attributes. numpy computes which entries move where; `F.take` and `F.add_at`
receive positions only.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Tensor = Any  # a tensor of the framework
LN2, LN10, ROOT2, DEGREE = float(np.log(2)), float(np.log(10)), float(np.sqrt(2)), float(np.pi / 180)
_SERIES = 18  # terms of (exp(x) - 1) / x that are not below rounding for |x| < 1


def positions(shape: tuple[int, ...], index: Any) -> Any:
    """Return the positions, counted in C order, of the entries that an index selects from an array of this shape."""
    return np.array(np.arange(int(np.prod(shape))).reshape(shape)[index], order="C")


def flat(F: Any, x: Tensor) -> Tensor:
    """Return the entries of a tensor as a vector."""
    return F.reshape(x, to=(int(np.prod(tuple(x.shape))),))


def getitem(F: Any, x: Tensor, *, index: Any) -> Tensor:
    """Return x[index]."""
    return F.take(flat(F, x), positions(tuple(x.shape), index))


def scatter(F: Any, v: Tensor, *, index: Any, into: tuple[int, ...]) -> Tensor:
    """Return zeros of shape `into` with `v` added at `index`."""
    at = positions(into, index)
    spread = flat(F, F.broadcast_to(v, to=at.shape))
    return F.reshape(F.add_at(int(np.prod(into)), at.reshape(-1), spread), to=into)


def put(F: Any, x: Tensor, v: Tensor, *, index: Any) -> Tensor:
    """Return a copy of `x` with `v` written at `index`; of several values at one position, the last one is kept."""
    shape = tuple(x.shape)
    at = positions(shape, index)
    source = np.full(int(np.prod(shape)), -1)
    source[at.reshape(-1)] = np.arange(at.size)
    if not at.size:
        return x
    written = F.take(flat(F, F.broadcast_to(v, to=at.shape)), np.maximum(source, 0))
    return F.reshape(F.where(F.number(source < 0), flat(F, x), written), to=shape)


def same_stacks(F: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return two stacks of matrices broadcast to the same axes before the last two."""
    stack = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return F.broadcast_to(a, to=(*stack, *a.shape[-2:])), F.broadcast_to(b, to=(*stack, *b.shape[-2:]))


def convolve(F: Any, a: Tensor, v: Tensor) -> Tensor:
    """Return the full convolution of two vectors.

    Shapes  (n,) and (m,) give (n + m - 1,).
    """
    n, m = a.shape[0], v.shape[0]
    k = np.arange(n + m - 1)[:, None] - np.arange(n)[None, :]
    shifted = F.where(F.number((k >= 0) & (k < m)), F.take(v, np.clip(k, 0, m - 1)), F.number(0.0))
    return flat(F, F.matmul(shifted, F.reshape(a, to=(n, 1))))


def transformed(F: Any, x: Tensor, axis: int, wave: Callable[[Any], Any]) -> Tensor:
    """Return the sums of x_k wave(2 pi j k / n) along an axis."""
    n, ndim = x.shape[axis], len(x.shape)
    turns = np.outer(np.arange(n), np.arange(n)) % n
    letters = "abcdefghijklmnopqrstuvwxy"[:ndim]
    subscripts = f"{letters},{letters[axis]}z->{letters[:axis]}z{letters[axis + 1 :]}"
    return F.einsum(x, F.number(wave(2 * np.pi * turns / n)), subscripts=subscripts)


def exprel(F: Any, x: Tensor) -> Tensor:
    """Return (exp(x) - 1) / x, by its series near 0."""
    near = F.absolute(x) < 1
    small = F.where(near, x, F.number(0.0))
    y = small * 0 + 1
    for k in range(_SERIES, 1, -1):
        y = 1 + y * small / k
    safe = F.where(near, F.number(1.0), x)
    return F.where(near, y, F.expm1(safe) / safe)


def signed(F: Any, size: Tensor, *xs: Tensor) -> Tensor:
    """Return `size` with the sign of the product of the gamma functions of `xs`; each changes sign at its poles."""
    for x in xs:
        odd = (x < 0) & (F.remainder(F.floor(x), F.number(2.0)) > 0.5)
        size = F.where(odd, -size, size)
    return size


def gamma(F: Any, x: Tensor) -> Tensor:
    """Return the gamma function by its logarithm."""
    return signed(F, F.exp(F.gammaln(x)), x)


def beta(F: Any, a: Tensor, b: Tensor) -> Tensor:
    """Return the beta function by its logarithm."""
    return signed(F, F.exp(F.betaln(a, b)), a, b, a + b)


def log_ndtr(F: Any, x: Tensor) -> Tensor:
    """Return the logarithm of the normal distribution function, valid where erfc does not underflow."""
    right = F.where(x > 0, x, F.number(0.0))
    left = F.where(x > 0, F.number(0.0), x)
    return F.where(x > 0, F.log1p(-F.erfc(right / ROOT2) / 2), F.log(F.erfc(-left / ROOT2) / 2))


# fmt: off
MOVES: dict[str, Callable[..., Tensor]] = {"getitem": getitem, "scatter": scatter, "put": put}
FORMULAS: dict[str, Callable[..., Tensor]] = {
    "positive": lambda F, x: x, "real": lambda F, x: x, "negative": lambda F, x: -x,
    "integer_power": lambda F, x, *, n: x**n, "square": lambda F, x: x * x, "reciprocal": lambda F, x: 1 / x,
    "cbrt": lambda F, x: F.sign(x) * F.absolute(x) ** (1 / 3), "hypot": lambda F, a, b: F.sqrt(a * a + b * b),
    "exp2": lambda F, x: F.power(F.number(2.0), x), "log2": lambda F, x: F.log(x) / LN2, "log10": lambda F, x: F.log(x) / LN10,
    "fmod": lambda F, a, b: a - b * F.trunc(a / b), "relu": lambda F, x: F.maximum(x, F.number(0.0)),
    "norm": lambda F, x: F.sqrt(F.sum(x * x, axis=tuple(range(len(x.shape))))), "convolve": convolve,
    "dft_cos": lambda F, x, *, axis: transformed(F, x, axis, np.cos), "dft_sin": lambda F, x, *, axis: transformed(F, x, axis, np.sin),
    "erfcinv": lambda F, x: -F.ndtri(x / 2) / ROOT2, "erfi": lambda F, x: 2 / np.pi**0.5 * F.exp(x * x) * F.dawsn(x),
    "ndtr": lambda F, x: F.erfc(-x / ROOT2) / 2, "log_ndtr": log_ndtr,
    "expit": lambda F, x: F.sigmoid(x), "logit": lambda F, x: F.log(x / (1 - x)), "log_expit": lambda F, x: -F.logaddexp(F.number(0.0), -x),
    "entr": lambda F, x: -x * F.log(x), "xlogy": lambda F, a, b: a * F.log(b), "xlog1py": lambda F, a, b: a * F.log1p(b),
    "rel_entr": lambda F, a, b: a * F.log(a / b), "kl_div": lambda F, a, b: a * F.log(a / b) - a + b,
    "pseudo_huber": lambda F, d, r: r * r / (1 + F.sqrt(1 + (r / d) ** 2)), "exprel": exprel,
    "gamma": gamma, "rgamma": lambda F, x: 1 / F.gamma(x), "loggamma": lambda F, x: F.gammaln(x),
    "betaln": lambda F, a, b: F.gammaln(a) + F.gammaln(b) - F.gammaln(a + b), "beta": beta,
    "i0": lambda F, x: F.exp(F.absolute(x)) * F.i0e(x), "i1": lambda F, x: F.exp(F.absolute(x)) * F.i1e(x),
    "k0": lambda F, x: F.exp(-x) * F.k0e(x), "k1": lambda F, x: F.exp(-x) * F.k1e(x),
    "sindg": lambda F, x: F.sin(x * DEGREE), "cosdg": lambda F, x: F.cos(x * DEGREE),
    "tandg": lambda F, x: F.tan(x * DEGREE), "cotdg": lambda F, x: 1 / F.tan(x * DEGREE),
}
# fmt: on
