"""The distributions of scipy.stats, in their standard form: location 0 and scale 1.

Source  Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions; the parameters are those of scipy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.rules.special import with_plain_orders
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.tracer import plain

Formula = Callable[..., Value]
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A distribution by formulas of `(z, *shapes)`, or of `shapes` alone for the mean, the variance and the entropy.

    `support` is closed, and `inner` a number in its interior. `valid` says which shape parameters are allowed.
    """

    log_density: Formula
    cdf: Formula | None = None
    sf: Formula | None = None
    logcdf: Formula | None = None
    logsf: Formula | None = None
    ppf: Formula | None = None
    mean: Formula | None = None
    var: Formula | None = None
    entropy: Formula | None = None
    support: tuple[float, float] = (-np.inf, np.inf)
    inner: float = 0.0
    valid: Callable[..., Any] = lambda *shapes: np.all([plain(s) > 0 for s in shapes], axis=0) if shapes else True


def _special(name: str) -> Formula:
    return lambda *xs: named(name)(*xs)


ndtr, log_ndtr, ndtri = _special("ndtr"), _special("log_ndtr"), _special("ndtri")
gammaln, betaln, digamma = _special("gammaln"), _special("betaln"), _special("digamma")
expit, log_expit, logit = _special("expit"), _special("log_expit"), _special("logit")
xlogy, xlog1py = _special("xlogy"), _special("xlog1py")


def _gamma_log_density(z: Value, a: Value) -> Value:
    return xlogy(a - 1, z) - z - gammaln(a)


def _t_log_density(z: Value, df: Value) -> Value:
    shape = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(df * np.pi) / 2
    return shape - (df + 1) / 2 * np.log1p(z * z / df)


def _t_cdf(z: Value, df: Value) -> Value:
    return with_plain_orders("stdtr")(df, z)


def _t_entropy(df: Value) -> Value:
    half = (df + 1) / 2
    return half * (digamma(half) - digamma(df / 2)) + np.log(df) / 2 + betaln(df / 2, np.float64(0.5))


def _beta_entropy(a: Value, b: Value) -> Value:
    return betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)


def _laplace_cdf(z: Value) -> Value:
    tail = np.exp(-np.abs(z)) / 2
    return np.where(z > 0, 1 - tail, tail)


POSITIVE: dict[str, Any] = {"support": (0.0, np.inf), "inner": 1.0}
UNIT: dict[str, Any] = {"support": (0.0, 1.0), "inner": 0.5}

CONTINUOUS: dict[str, Family] = {
    "norm": Family(
        log_density=lambda z: -z * z / 2 - _HALF_LOG_2PI,
        cdf=ndtr, sf=lambda z: ndtr(-z), logcdf=log_ndtr, logsf=lambda z: log_ndtr(-z), ppf=ndtri,
        mean=lambda: 0.0, var=lambda: 1.0, entropy=lambda: 0.5 + _HALF_LOG_2PI,
    ),
    "t": Family(
        log_density=_t_log_density, cdf=_t_cdf, sf=lambda z, df: _t_cdf(-z, df),
        mean=lambda df: np.where(plain(df) > 1, 0.0, np.inf), var=lambda df: df / (df - 2), entropy=_t_entropy,
    ),
    "chi2": Family(
        log_density=lambda z, df: xlogy(df / 2 - 1, z) - z / 2 - gammaln(df / 2) - df / 2 * np.log(2.0), **POSITIVE,
        cdf=lambda z, df: named("gammainc")(df / 2, z / 2), sf=lambda z, df: named("gammaincc")(df / 2, z / 2),
        mean=lambda df: df, var=lambda df: 2 * df,
        entropy=lambda df: df / 2 + np.log(2.0) + gammaln(df / 2) + (1 - df / 2) * digamma(df / 2),
    ),
    "beta": Family(
        log_density=lambda z, a, b: xlog1py(b - 1, -z) + xlogy(a - 1, z) - betaln(a, b), **UNIT,
        cdf=lambda z, a, b: with_plain_orders("betainc")(a, b, z), sf=lambda z, a, b: with_plain_orders("betaincc")(a, b, z),
        mean=lambda a, b: a / (a + b), var=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)), entropy=_beta_entropy,
    ),
    "gamma": Family(
        log_density=_gamma_log_density, **POSITIVE,
        cdf=lambda z, a: named("gammainc")(a, z), sf=lambda z, a: named("gammaincc")(a, z),
        mean=lambda a: a, var=lambda a: a, entropy=lambda a: a + gammaln(a) + (1 - a) * digamma(a),
    ),
    "expon": Family(
        log_density=lambda z: -z, **POSITIVE, cdf=lambda z: -np.expm1(-z), sf=lambda z: np.exp(-z), logsf=lambda z: -z,
        ppf=lambda q: -np.log1p(-q), mean=lambda: 1.0, var=lambda: 1.0, entropy=lambda: 1.0,
    ),
    "lognorm": Family(
        log_density=lambda z, s: -np.square(np.log(z) / s) / 2 - np.log(s * z) - _HALF_LOG_2PI, **POSITIVE,
        cdf=lambda z, s: ndtr(np.log(z) / s), sf=lambda z, s: ndtr(-np.log(z) / s),
        logcdf=lambda z, s: log_ndtr(np.log(z) / s), logsf=lambda z, s: log_ndtr(-np.log(z) / s),
        ppf=lambda q, s: np.exp(s * ndtri(q)), mean=lambda s: np.exp(s * s / 2),
        var=lambda s: np.expm1(s * s) * np.exp(s * s), entropy=lambda s: 0.5 + _HALF_LOG_2PI + np.log(s),
    ),
    "uniform": Family(
        log_density=lambda z: 0.0 * z, **UNIT, cdf=lambda z: 1.0 * z, sf=lambda z: 1 - z, ppf=lambda q: 1.0 * q,
        mean=lambda: 0.5, var=lambda: 1 / 12, entropy=lambda: 0.0,
    ),
    "laplace": Family(
        log_density=lambda z: -np.abs(z) - np.log(2.0), cdf=_laplace_cdf, sf=lambda z: _laplace_cdf(-z),
        ppf=lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
        mean=lambda: 0.0, var=lambda: 2.0, entropy=lambda: np.log(2.0) + 1,
    ),
    "logistic": Family(
        log_density=lambda z: log_expit(z) + log_expit(-z), cdf=expit, sf=lambda z: expit(-z), logcdf=log_expit,
        logsf=lambda z: log_expit(-z), ppf=logit, mean=lambda: 0.0, var=lambda: np.pi**2 / 3, entropy=lambda: 2.0,
    ),
    "cauchy": Family(
        log_density=lambda z: -np.log1p(z * z) - np.log(np.pi), cdf=lambda z: np.arctan2(1.0, -z) / np.pi,
        sf=lambda z: np.arctan2(1.0, z) / np.pi, ppf=lambda q: np.tan(np.pi * (q - 0.5)), entropy=lambda: np.log(4 * np.pi),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """A discrete distribution by formulas of `(k, *shapes)`; `last` returns the largest count."""

    log_mass: Formula
    cdf: Formula
    mean: Formula
    var: Formula
    first: float = 0.0
    last: Callable[..., Any] = lambda *shapes: np.inf
    valid: Callable[..., Any] = lambda *shapes: True


def _share(p: Any) -> Any:
    return (plain(p) >= 0) & (plain(p) <= 1)


def _binom_log_mass(k: Value, n: Value, p: Value) -> Value:
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


def _binom_cdf(k: Value, n: Value, p: Value) -> Value:
    whole = np.minimum(k, n - 1.0)
    return np.where(k >= n, 1.0, with_plain_orders("betaincc")(whole + 1.0, n - whole, p))


def _nbinom_log_mass(k: Value, n: Value, p: Value) -> Value:
    return gammaln(n + k) - gammaln(k + 1.0) - gammaln(n) + n * np.log(p) + xlog1py(k, -p)


DISCRETE: dict[str, Counting] = {
    "poisson": Counting(
        log_mass=lambda k, mu: xlogy(k, mu) - gammaln(k + 1.0) - mu,
        cdf=lambda k, mu: named("gammaincc")(k + 1.0, mu),
        mean=lambda mu: mu, var=lambda mu: mu, valid=lambda mu: plain(mu) >= 0,
    ),
    "binom": Counting(
        log_mass=_binom_log_mass, cdf=_binom_cdf, mean=lambda n, p: n * p, var=lambda n, p: n * p * (1 - p),
        last=lambda n, p: plain(n), valid=lambda n, p: (plain(n) >= 0) & (plain(n) == np.floor(plain(n))) & _share(p),
    ),
    "nbinom": Counting(
        log_mass=_nbinom_log_mass, cdf=lambda k, n, p: with_plain_orders("betainc")(n, k + 1.0, p),
        mean=lambda n, p: n * (1 - p) / p, var=lambda n, p: n * (1 - p) / np.square(p),
        valid=lambda n, p: (plain(n) > 0) & (plain(p) > 0) & (plain(p) <= 1),
    ),
    "bernoulli": Counting(
        log_mass=lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p), cdf=lambda k, p: np.where(k >= 1, 1.0, 1 - p),
        mean=lambda p: p, var=lambda p: p * (1 - p), last=lambda p: 1.0, valid=_share,
    ),
    "geom": Counting(
        log_mass=lambda k, p: xlog1py(k - 1.0, -p) + np.log(p), cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
        mean=lambda p: 1 / p, var=lambda p: (1 - p) / np.square(p), first=1.0, valid=lambda p: (plain(p) > 0) & (plain(p) <= 1),
    ),
}  # fmt: skip
