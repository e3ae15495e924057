"""scipy.stats: the methods of its distributions, frozen ones too, and its descriptive statistics.

A distribution without formulas here is traced through scipy's own `_logpdf`, `_pdf` and `_cdf`.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NoRule
from gradcli.rules import reductions
from gradcli.rules.kinds import make_refusal
from gradcli.rules.shaping import as_value
from gradcli.rules.special import with_plain_orders
from gradcli.tracing.primitive import F, Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import Tracer, is_differentiated, plain_value

# Parts of scipy.stats that choose formulas entry by entry: scipy fills a plain array, the stand-ins take np.where.

Formula = Callable[..., Value]


def choose_formula(condition: Any, xs: Sequence[Value], formula: Formula, otherwise: Value | Formula) -> Value:
    """Return the formula where the condition holds, and what is otherwise elsewhere; each is evaluated there only."""
    xs = [as_value(x) for x in xs]
    to = np.broadcast_shapes(shape(condition), *map(shape, xs))
    holds = np.broadcast_to(plain_value(condition), to)

    def at(places: Any, f: Formula) -> Value:
        if np.all(places):
            return f(*xs)
        first = tuple(np.argwhere(places)[0])
        inner = [np.broadcast_to(plain_value(x), to)[first] for x in xs]
        return f(*(np.where(places, x, own) for x, own in zip(xs, inner, strict=True)))

    second: Any = otherwise if not callable(otherwise) else at(~holds, otherwise) if not np.all(holds) else np.nan
    return np.where(holds, at(holds, formula), second)[()] if np.any(holds) else np.broadcast_to(second, to)[()]


def apply_where(
    cond: Any, args: Any, f1: Formula, f2: Formula | None = None, /, *, fill_value: Any = None, **others: Any
) -> Value:
    xs = args if isinstance(args, tuple | list) else (args,)
    return choose_formula(cond, xs, f1, fill_value if f2 is None else f2)


def lazyselect(
    condlist: Sequence[Any], choicelist: Sequence[Formula], arrays: Sequence[Value], default: Any = 0
) -> Value:
    y: Any = default
    for condition, formula in zip(condlist, choicelist, strict=True):
        y = choose_formula(condition, arrays, formula, y)
    return y


def _log_difference(p: Value, q: Value) -> Value:
    """Return log(exp(p) - exp(q)) for p > q."""
    return p + np.log(-np.expm1(q - p))


def log_gauss_mass(a: Value, b: Value) -> Value:
    """Return the logarithm of the normal distribution's mass between a and b, by the tail in which they are."""

    def left(a: Value, b: Value) -> Value:
        return _log_difference(F.log_ndtr(b), F.log_ndtr(a))

    return lazyselect(
        [plain_value(b) <= 0, plain_value(a) > 0, (plain_value(a) <= 0) & (plain_value(b) > 0)],
        [left, lambda a, b: left(-b, -a), lambda a, b: np.log1p(-F.ndtr(a) - F.ndtr(-b))],
        (a, b),
        np.nan,
    )


def internals() -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """Yield functions inside of scipy.stats, as far as the installed version has them, and their stand-ins."""
    from scipy.stats import _continuous_distns as distributions

    table = {
        "_lazywhere": lambda cond, arrays, f, fillvalue=None, f2=None: choose_formula(cond, arrays, f, f2 or fillvalue),
        "_lazyselect": lazyselect, "_log_gauss_mass": log_gauss_mass, "_log_diff": _log_difference,
    }  # fmt: skip
    for name, stand_in in table.items():
        if hasattr(distributions, name):
            yield distributions, name, stand_in  # type: ignore[misc]  # scipy has no types
    extra = sys.modules.get("scipy._lib.array_api_extra")
    if extra is not None and hasattr(extra, "apply_where"):
        yield extra, "apply_where", apply_where


def _no_rule_error(name: str, method: str, do: str = "give your own gradient to check: --grad") -> NoRule:
    return NoRule(f"scipy.stats.{name}.{method} has no derivative rule", do=do)


def _parse_parameters(dist: Any, args: Any, kwargs: Any) -> tuple[list[Value], Value, Value]:
    """Return the shape parameters, the location and the scale, from arguments as scipy takes them."""
    shapes, loc, scale = dist._parse_args(*args, **kwargs)
    return [as_value(x) for x in shapes], as_value(loc), as_value(scale)


def _is_exactly(x: Value, number: float) -> bool:
    return not isinstance(x, Tracer) and np.shape(x) == () and float(x) == number


def _standardise(x: Value, loc: Value, scale: Value) -> Value:
    moved = x if _is_exactly(loc, 0.0) else x - loc
    return moved if _is_exactly(scale, 1.0) else moved / scale


def _nan_unless_valid(y: Value, family: Any, shapes: list[Value], scale: Value = 1.0) -> Value:
    """Return the value, made nan where a parameter is not allowed."""
    valid = np.logical_and(family.valid(*shapes), plain_value(scale) > 0)
    return y if np.all(valid) else np.where(valid, y, np.nan)


# The distributions of scipy.stats, in their standard form: location 0 and scale 1.
#
# Source  Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions; the parameters are those of scipy.

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
    valid: Callable[..., Any] = lambda *shapes: np.all([plain_value(s) > 0 for s in shapes], axis=0) if shapes else True


def _t_log_density(z: Value, df: Value) -> Value:
    logs = F.gammaln((df + 1) / 2) - F.gammaln(df / 2) - np.log(df * np.pi) / 2
    return logs - (df + 1) / 2 * np.log1p(z * z / df)


def _t_cdf(z: Value, df: Value) -> Value:
    return with_plain_orders("stdtr")(df, z)


def _t_entropy(df: Value) -> Value:
    half = (df + 1) / 2
    return half * (F.digamma(half) - F.digamma(df / 2)) + np.log(df) / 2 + F.betaln(df / 2, np.float64(0.5))


def _laplace_cdf(z: Value) -> Value:
    tail = np.exp(-np.abs(z)) / 2
    return np.where(z > 0, 1 - tail, tail)


POSITIVE: dict[str, Any] = {"support": (0.0, np.inf), "inner": 1.0}
UNIT: dict[str, Any] = {"support": (0.0, 1.0), "inner": 0.5}

CONTINUOUS: dict[str, Family] = {
    "norm": Family(
        log_density=lambda z: -z * z / 2 - _HALF_LOG_2PI,
        cdf=F.ndtr, sf=lambda z: F.ndtr(-z), logcdf=F.log_ndtr, logsf=lambda z: F.log_ndtr(-z), ppf=F.ndtri,
        mean=lambda: 0.0, var=lambda: 1.0, entropy=lambda: 0.5 + _HALF_LOG_2PI,
    ),
    "t": Family(
        log_density=_t_log_density, cdf=_t_cdf, sf=lambda z, df: _t_cdf(-z, df),
        mean=lambda df: np.where(plain_value(df) > 1, 0.0, np.inf), var=lambda df: df / (df - 2), entropy=_t_entropy,
    ),
    "chi2": Family(
        log_density=lambda z, df: F.xlogy(df / 2 - 1, z) - z / 2 - F.gammaln(df / 2) - df / 2 * np.log(2.0), **POSITIVE,
        cdf=lambda z, df: F.gammainc(df / 2, z / 2), sf=lambda z, df: F.gammaincc(df / 2, z / 2),
        mean=lambda df: df, var=lambda df: 2 * df,
        entropy=lambda df: df / 2 + np.log(2.0) + F.gammaln(df / 2) + (1 - df / 2) * F.digamma(df / 2),
    ),
    "beta": Family(
        log_density=lambda z, a, b: F.xlog1py(b - 1, -z) + F.xlogy(a - 1, z) - F.betaln(a, b), **UNIT,
        cdf=lambda z, a, b: with_plain_orders("betainc")(a, b, z), sf=lambda z, a, b: with_plain_orders("betaincc")(a, b, z),
        mean=lambda a, b: a / (a + b), var=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
        entropy=lambda a, b: F.betaln(a, b) - (a - 1) * F.digamma(a) - (b - 1) * F.digamma(b) + (a + b - 2) * F.digamma(a + b),
    ),
    "gamma": Family(
        log_density=lambda z, a: F.xlogy(a - 1, z) - z - F.gammaln(a), **POSITIVE,
        cdf=lambda z, a: F.gammainc(a, z), sf=lambda z, a: F.gammaincc(a, z),
        mean=lambda a: a, var=lambda a: a, entropy=lambda a: a + F.gammaln(a) + (1 - a) * F.digamma(a),
    ),
    "expon": Family(
        log_density=lambda z: -z, **POSITIVE, cdf=lambda z: -np.expm1(-z), sf=lambda z: np.exp(-z), logsf=lambda z: -z,
        ppf=lambda q: -np.log1p(-q), mean=lambda: 1.0, var=lambda: 1.0, entropy=lambda: 1.0,
    ),
    "lognorm": Family(
        log_density=lambda z, s: -np.square(np.log(z) / s) / 2 - np.log(s * z) - _HALF_LOG_2PI, **POSITIVE,
        cdf=lambda z, s: F.ndtr(np.log(z) / s), sf=lambda z, s: F.ndtr(-np.log(z) / s),
        logcdf=lambda z, s: F.log_ndtr(np.log(z) / s), logsf=lambda z, s: F.log_ndtr(-np.log(z) / s),
        ppf=lambda q, s: np.exp(s * F.ndtri(q)), mean=lambda s: np.exp(s * s / 2),
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
        log_density=lambda z: F.log_expit(z) + F.log_expit(-z), cdf=F.expit, sf=lambda z: F.expit(-z), logcdf=F.log_expit,
        logsf=lambda z: F.log_expit(-z), ppf=F.logit, mean=lambda: 0.0, var=lambda: np.pi**2 / 3, entropy=lambda: 2.0,
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


def _is_probability(p: Any) -> Any:
    return (plain_value(p) >= 0) & (plain_value(p) <= 1)


def _binom_cdf(k: Value, n: Value, p: Value) -> Value:
    whole = np.minimum(k, n - 1.0)
    return np.where(k >= n, 1.0, with_plain_orders("betaincc")(whole + 1.0, n - whole, p))


DISCRETE: dict[str, Counting] = {
    "poisson": Counting(
        log_mass=lambda k, mu: F.xlogy(k, mu) - F.gammaln(k + 1.0) - mu,
        cdf=lambda k, mu: F.gammaincc(k + 1.0, mu),
        mean=lambda mu: mu, var=lambda mu: mu, valid=lambda mu: plain_value(mu) >= 0,
    ),
    "binom": Counting(
        log_mass=lambda k, n, p: (
            F.gammaln(n + 1.0) - F.gammaln(k + 1.0) - F.gammaln(n - k + 1.0) + F.xlogy(k, p) + F.xlog1py(n - k, -p)
        ),
        cdf=_binom_cdf, mean=lambda n, p: n * p, var=lambda n, p: n * p * (1 - p), last=lambda n, p: plain_value(n),
        valid=lambda n, p: (plain_value(n) >= 0) & (plain_value(n) == np.floor(plain_value(n))) & _is_probability(p),
    ),
    "nbinom": Counting(
        log_mass=lambda k, n, p: F.gammaln(n + k) - F.gammaln(k + 1.0) - F.gammaln(n) + n * np.log(p) + F.xlog1py(k, -p),
        cdf=lambda k, n, p: with_plain_orders("betainc")(n, k + 1.0, p),
        mean=lambda n, p: n * (1 - p) / p, var=lambda n, p: n * (1 - p) / np.square(p),
        valid=lambda n, p: (plain_value(n) > 0) & (plain_value(p) > 0) & (plain_value(p) <= 1),
    ),
    "bernoulli": Counting(
        log_mass=lambda k, p: F.xlogy(k, p) + F.xlog1py(1.0 - k, -p), cdf=lambda k, p: np.where(k >= 1, 1.0, 1 - p),
        mean=lambda p: p, var=lambda p: p * (1 - p), last=lambda p: 1.0, valid=_is_probability,
    ),
    "geom": Counting(
        log_mass=lambda k, p: F.xlog1py(k - 1.0, -p) + np.log(p), cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
        mean=lambda p: 1 / p, var=lambda p: (1 - p) / np.square(p), first=1.0,
        valid=lambda p: (plain_value(p) > 0) & (plain_value(p) <= 1),
    ),
}  # fmt: skip


def _evaluate_in_support(
    z: Value, family: Family, formula: Callable[[Value], Value], below: float, above: float
) -> Value:
    """Return the formula inside the support, and constants outside it."""
    low, high = family.support
    sides = [(z < low, below)] if np.any(low > -np.inf) else []
    sides += [(z > high, above)] if np.any(high < np.inf) else []
    sides = [(side, value) for side, value in sides if np.any(side)]
    for side, _ in sides:
        z = np.where(side, family.inner, z)
    y = formula(z)
    for side, value in sides:
        y = np.where(side, value, y)
    return y


class _Own:
    """The formulas of a distribution that has none in the table: the methods that scipy's own class defines."""

    def __init__(self, dist: Any, shapes: list[Value]) -> None:
        self.dist = dist
        with np.errstate(all="ignore"):
            ends = [np.asarray(end, dtype=float)[()] for end in dist._get_support(*map(plain_value, shapes))]
            low, high = np.broadcast_arrays(*ends)
            inner = np.where(np.isfinite(low + high), (low + high) / 2, np.where(np.isfinite(low), low + 1, high - 1))
        self.support, self.inner = (low[()], high[()]), np.where(np.isfinite(inner), inner, 0.0)[()]

    def valid(self, *shapes: Value) -> Any:
        return self.dist._argcheck(*map(plain_value, shapes))

    def log_density(self, z: Value, *shapes: Value) -> Value:
        if self._overrides_method("_logpdf"):
            return self._call_formula("logpdf", z, *shapes)
        return np.log(self._call_formula("pdf", z, *shapes))

    def _overrides_method(self, method: str) -> bool:
        from scipy.stats import rv_continuous

        return getattr(type(self.dist), method) is not getattr(rv_continuous, method)

    def _call_formula(self, method: str, *args: Value) -> Value:
        try:
            return getattr(self.dist, f"_{method}")(*args)
        except GradcliError:
            raise
        except Exception as error:
            raise _no_rule_error(self.dist.name, method) from error

    def __getattr__(self, method: str) -> Any:
        """Return scipy's own formula of a method, or None if its class has none."""
        if method not in ("cdf", "sf", "logcdf", "logsf", "ppf", "entropy"):
            return None
        return functools.partial(self._call_formula, method) if self._overrides_method(f"_{method}") else None


def _find_family(dist: Any, shapes: list[Value]) -> Any:
    return CONTINUOUS.get(dist.name) or _Own(dist, shapes)


def logpdf(dist: Any, x: Value, *args: Any, **kwargs: Any) -> Value:
    shapes, loc, scale = _parse_parameters(dist, args, kwargs)
    family = _find_family(dist, shapes)
    z = _standardise(as_value(x), loc, scale)
    y = _evaluate_in_support(z, family, lambda z: family.log_density(z, *shapes), -np.inf, -np.inf)
    y = y if _is_exactly(scale, 1.0) else y - np.log(scale)
    return _nan_unless_valid(y, family, shapes, scale)


def _probability_formula(family: Any, method: str) -> Any:
    """Return the formula of cdf, sf, logcdf or logsf; of a family that has none, made of another one, if there is one."""
    own = getattr(family, method)
    if own is None and method == "sf" and family.cdf is not None:
        return lambda z, *shapes: 1 - family.cdf(z, *shapes)
    if own is None and method.startswith("log"):
        plain = _probability_formula(family, method.removeprefix("log"))
        return plain and (lambda z, *shapes: np.log(plain(z, *shapes)))
    return own


def _probability_function(method: str, below: float, above: float) -> Callable[..., Value]:
    """Return the stand-in of cdf, sf, logcdf or logsf."""

    def probability(dist: Any, x: Value, *args: Any, **kwargs: Any) -> Value:
        shapes, loc, scale = _parse_parameters(dist, args, kwargs)
        family = _find_family(dist, shapes)
        formula = _probability_formula(family, method)
        if formula is None:
            raise _no_rule_error(dist.name, method)
        z = _standardise(as_value(x), loc, scale)
        y = _evaluate_in_support(z, family, lambda z: formula(z, *shapes), below, above)
        return _nan_unless_valid(y, family, shapes, scale)

    probability.__name__ = method
    return probability


def ppf(dist: Any, q: Value, *args: Any, **kwargs: Any) -> Value:
    shapes, loc, scale = _parse_parameters(dist, args, kwargs)
    family = _find_family(dist, shapes)
    if family.ppf is None:
        raise _no_rule_error(dist.name, "ppf")
    y = family.ppf(as_value(q), *shapes)
    y = y if _is_exactly(scale, 1.0) else y * scale
    return _nan_unless_valid(y if _is_exactly(loc, 0.0) else y + loc, family, shapes, scale)


def _moment_formula(dist: Any, args: Any, kwargs: Any, what: str) -> tuple[Any, list[Value], Value, Value]:
    shapes, loc, scale = _parse_parameters(dist, args, kwargs)
    formula = getattr(CONTINUOUS.get(dist.name) or DISCRETE.get(dist.name), what, None)
    if formula is None:
        raise _no_rule_error(dist.name, what, "write its formula out")
    return formula, shapes, loc, scale


def mean(dist: Any, *args: Any, **kwargs: Any) -> Value:
    formula, shapes, loc, scale = _moment_formula(dist, args, kwargs, "mean")
    return formula(*shapes) * scale + loc


def var(dist: Any, *args: Any, **kwargs: Any) -> Value:
    formula, shapes, loc, scale = _moment_formula(dist, args, kwargs, "var")
    return formula(*shapes) * np.square(scale) + 0.0 * loc


def continuous_entropy(dist: Any, *args: Any, **kwargs: Any) -> Value:
    shapes, loc, scale = _parse_parameters(dist, args, kwargs)
    family = _find_family(dist, shapes)
    if family.entropy is None:
        raise _no_rule_error(dist.name, "entropy")
    return family.entropy(*shapes) + np.log(scale) + 0.0 * loc


def nnlf(dist: Any, theta: Value, x: Value) -> Value:
    """Return the negative log-likelihood of the data; theta is (shapes..., loc, scale)."""
    return -np.sum(logpdf(dist, x, *theta))


def logpmf(dist: Any, k: Value, *args: Any, **kwargs: Any) -> Value:
    family, k, shapes = _parse_counts(dist, k, args, kwargs, "logpmf")
    outside = (k < family.first) | (k > family.last(*shapes)) | (k != np.floor(k))
    y = family.log_mass(np.where(outside, family.first, k)[()] if np.any(outside) else k, *shapes)
    return _nan_unless_valid(np.where(outside, -np.inf, y) if np.any(outside) else y, family, shapes)


def _parse_counts(dist: Any, k: Value, args: Any, kwargs: Any, method: str) -> tuple[Any, Any, list[Value]]:
    """Return the distribution, the counts from location 0, and the shape parameters.

    Raises  NoRule for a distribution without formulas, and for counts or a location that are traced.
    """
    shapes, loc, _ = _parse_parameters(dist, args, kwargs)
    family, k = DISCRETE.get(dist.name), as_value(k)
    if family is None:
        raise _no_rule_error(dist.name, method)
    if is_differentiated(k) or is_differentiated(loc):
        raise NoRule(
            f"scipy.stats.{dist.name}.{method} is defined at whole numbers: it has no derivative by them",
            do="give the counts as a fixed argument",
        )
    return family, np.asarray(plain_value(k), dtype=float)[()] - plain_value(loc), shapes


def discrete_cdf(dist: Any, k: Value, *args: Any, **kwargs: Any) -> Value:
    family, k, shapes = _parse_counts(dist, k, args, kwargs, "cdf")
    k = np.floor(k)
    last = family.last(*shapes)
    inside = (k >= family.first) & (k < last)
    y = family.cdf(np.where(inside, k, family.first)[()], *shapes)
    y = y if np.all(inside) else np.where(inside, y, np.where(k >= last, 1.0, 0.0))
    return _nan_unless_valid(y, family, shapes)


def binom_entropy(dist: Any, *args: Any, **kwargs: Any) -> Value:
    """Return the entropy of a binomial distribution with one plain number of trials, summed over all counts."""
    shapes, _, _ = _parse_parameters(dist, args, kwargs)
    trials = shapes[0] if dist.name == "binom" else 1
    if dist.name not in ("binom", "bernoulli") or size(trials) != 1 or is_differentiated(trials):
        raise _no_rule_error(dist.name, "entropy")
    counts = np.arange(DISCRETE[dist.name].last(*shapes) + 1.0)
    logs = logpmf(dist, counts, *shapes)
    return -np.sum(np.exp(logs) * logs)


# The multivariate distributions of scipy.stats: normal and Dirichlet.


class Frozen:
    """A distribution with traced parameters; its methods call those of the distribution with them."""

    def __init__(self, dist: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwargs

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.dist, name)
        return lambda *given: method(*given, *self.args, **self.kwds)


def _normal_parameters(mean: Any, cov: Any) -> tuple[Value, Value, int]:
    """Return mean, covariance matrix and dimension; a covariance may be a number or a diagonal, as in scipy."""
    if not isinstance(cov, list | tuple | int | float) and not hasattr(cov, "__array_ufunc__"):
        raise NoRule(f"multivariate_normal with a {type(cov).__name__} is not traced", do="give the matrix")
    cov = as_value(cov)
    n = 1 if mean is None else size(as_value(mean))
    if n == 1 and shape(cov):
        n = shape(cov)[0]
    if not shape(cov):
        cov = cov * np.eye(n)
    elif len(shape(cov)) == 1:
        cov = np.diag(cov)
    return (np.zeros(n) if mean is None else np.ravel(as_value(mean))), cov, n


def _logpdf(x: Value, mean: Any, cov: Any) -> Value:
    mean, cov, n = _normal_parameters(mean, cov)
    x = as_value(x)
    if len(shape(x)) == 0:
        x = np.reshape(x, (1, 1))
    elif len(shape(x)) == 1:
        x = np.reshape(x, (-1, 1) if n == 1 else (1, -1))
    places = shape(x)[:-1]
    factor = np.linalg.cholesky(cov)  # of the lower triangle, the one that scipy reads
    whitened = np.linalg.solve(factor, np.transpose(np.reshape(x - mean, (-1, n))))
    logs = n * np.log(2 * np.pi) / 2 + np.sum(np.log(np.diagonal(factor)))
    y = -np.sum(np.square(whitened), axis=0) / 2 - logs
    return np.squeeze(np.reshape(y, places))


def normal_entropy(self: Any, mean: Any = None, cov: Any = 1) -> Value:
    _, cov, n = _normal_parameters(mean, cov)
    factor = np.linalg.cholesky(cov)
    return n * (1 + np.log(2 * np.pi)) / 2 + np.sum(np.log(np.diagonal(factor)))


def _log_multivariate_beta(alpha: Value) -> Value:
    """Return the logarithm of the multivariate beta function."""
    return np.sum(F.gammaln(alpha)) - F.gammaln(np.sum(alpha))


def dirichlet_logpdf(self: Any, x: Value, alpha: Value) -> Value:
    x, alpha = as_value(x), as_value(alpha)
    if shape(x)[0] == size(alpha) - 1:
        x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
    powers = np.reshape(alpha - 1, (-1,) + (1,) * (len(shape(x)) - 1))
    return np.sum(F.xlogy(powers, x), axis=0) - _log_multivariate_beta(alpha)


def dirichlet_entropy(self: Any, alpha: Value) -> Value:
    alpha = as_value(alpha)
    total = np.sum(alpha)
    own = np.sum((alpha - 1) * F.digamma(alpha))
    return _log_multivariate_beta(alpha) + (total - size(alpha)) * F.digamma(total) - own


def _multivariate_tables() -> tuple[tuple[type, dict[str, Callable[..., Any]]], ...]:
    from scipy.stats import _multivariate

    return (
        (_multivariate.multivariate_normal_gen, {
            "__call__": lambda self, mean=None, cov=1, allow_singular=False, seed=None: Frozen(self, (mean, cov), {}),
            "logpdf": lambda self, x, mean=None, cov=1, allow_singular=False: _logpdf(x, mean, cov),
            "pdf": lambda self, x, mean=None, cov=1, allow_singular=False: np.exp(_logpdf(x, mean, cov)),
            "entropy": normal_entropy,
        }),
        (_multivariate.multivariate_normal_frozen, {
            "logpdf": lambda self, x: _logpdf(x, self.mean, self.cov),
            "pdf": lambda self, x: np.exp(_logpdf(x, self.mean, self.cov)),
        }),
        (_multivariate.dirichlet_gen, {
            "__call__": lambda self, alpha, seed=None: Frozen(self, (alpha,), {}),
            "logpdf": dirichlet_logpdf, "pdf": lambda self, x, alpha: np.exp(dirichlet_logpdf(self, x, alpha)),
            "entropy": dirichlet_entropy,
        }),
        (_multivariate.dirichlet_frozen, {
            "logpdf": lambda self, x: dirichlet_logpdf(None, x, self.alpha),
            "pdf": lambda self, x: np.exp(dirichlet_logpdf(None, x, self.alpha)),
        }),
    )  # fmt: skip


# scipy.stats.gaussian_kde: by the places, by the data, and by a bandwidth that is a number.


def make_density(self: Any, dataset: Value, bw_method: Any = None, weights: Any = None) -> None:
    """Make a gaussian_kde with plain data, and keep the traced data and bandwidth beside them."""
    if is_differentiated(weights) or (callable(bw_method) and not isinstance(bw_method, Tracer)):
        says = (
            "scipy.stats.gaussian_kde has no derivative rule by its weights, or by data where bw_method is a function"
        )
        raise NoRule(says, do="keep the weights fixed, and give bw_method as a number or a name")
    data = np.atleast_2d(as_value(dataset))
    bandwidth = plain_value(bw_method) if isinstance(bw_method, Tracer) else bw_method
    type(self).__init__(self, plain_value(data), bandwidth, None if weights is None else plain_value(as_value(weights)))
    self._values = data
    self._c = bw_method if isinstance(bw_method, Tracer) else self.factor


def _kernel_covariance(self: Any) -> Value:
    """Return the covariance of the kernels; scipy's own where neither the data nor the bandwidth is traced."""
    data = getattr(self, "_values", self.dataset)
    if not isinstance(data, Tracer) and not isinstance(getattr(self, "_c", None), Tracer):
        return self.covariance
    weights = self.weights
    centred = data - np.sum(data * weights, axis=1, keepdims=True)
    spread = np.matmul(centred * weights, np.transpose(centred)) / (1 - np.sum(np.square(weights)))
    return spread * np.square(self._c)


def _density_logpdf(self: Any, x: Value) -> Value:
    """Return the logarithm of the estimated density at points, which are columns."""
    points, data = np.atleast_2d(as_value(x)), getattr(self, "_values", self.dataset)
    if shape(points) == (1, self.d):
        points = np.reshape(points, (self.d, 1))
    if shape(points)[0] != self.d:
        raise ValueError(f"points have dimension {shape(points)[0]}, dataset has dimension {self.d}")
    covariance = _kernel_covariance(self)
    apart = points[:, :, None] - data[:, None, :]
    energy = np.einsum("imn,ij,jmn->mn", apart, np.linalg.inv(covariance), apart) / 2
    logs = np.log(self.weights) - energy
    return reductions.logsumexp(logs, 1) - np.linalg.slogdet(2 * np.pi * covariance)[1] / 2


_DENSITY_METHODS: dict[str, Callable[..., Any]] = {
    "__init__": make_density, "logpdf": _density_logpdf,
    **dict.fromkeys(("evaluate", "__call__", "pdf"), lambda self, points: np.exp(_density_logpdf(self, points))),
    **{name: make_refusal(f"scipy.stats.gaussian_kde.{name} has no derivative rule", "give your own gradient: --grad")
       for name in ("integrate_gaussian", "integrate_box_1d", "integrate_box", "integrate_kde", "resample", "set_bandwidth",
                    "marginal")},
}  # fmt: skip


# The methods of all distributions, and the descriptive statistics.


_EITHER: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("__call__", "freeze"), lambda dist, *args, **kwargs: Frozen(dist, args, kwargs)),
    "mean": mean, "var": var, "std": lambda dist, *args, **kwargs: np.sqrt(var(dist, *args, **kwargs)),
}  # fmt: skip
_CONTINUOUS_METHODS: dict[str, Callable[..., Any]] = {
    "pdf": lambda dist, x, *args, **kwargs: np.exp(logpdf(dist, x, *args, **kwargs)), "logpdf": logpdf,
    "cdf": _probability_function("cdf", 0.0, 1.0),
    "sf": _probability_function("sf", 1.0, 0.0),
    "logcdf": _probability_function("logcdf", -np.inf, 0.0),
    "logsf": _probability_function("logsf", 0.0, -np.inf),
    "ppf": ppf, "isf": lambda dist, q, *args, **kwargs: ppf(dist, 1 - as_value(q), *args, **kwargs),
    "nnlf": nnlf, "_nnlf_and_penalty": nnlf,
}  # fmt: skip
_DISCRETE_METHODS: dict[str, Callable[..., Any]] = {
    "pmf": lambda dist, k, *args, **kwargs: np.exp(logpmf(dist, k, *args, **kwargs)), "logpmf": logpmf,
    "cdf": discrete_cdf, "sf": lambda dist, k, *args, **kwargs: 1 - discrete_cdf(dist, k, *args, **kwargs),
    "logcdf": lambda dist, *args, **kwargs: np.log(discrete_cdf(dist, *args, **kwargs)),
    "logsf": lambda dist, *args, **kwargs: np.log(1 - discrete_cdf(dist, *args, **kwargs)),
}  # fmt: skip


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy.stats import _distn_infrastructure as infrastructure
    from scipy.stats import gaussian_kde

    def entropy_either(dist: Any, *args: Any, **kwargs: Any) -> Value:
        own = continuous_entropy if isinstance(dist, infrastructure.rv_continuous) else binom_entropy
        return own(dist, *args, **kwargs)

    tables: tuple[tuple[type, dict[str, Callable[..., Any]]], ...] = (
        (infrastructure.rv_generic, _EITHER | {"entropy": entropy_either}),
        (infrastructure.rv_continuous, _CONTINUOUS_METHODS),
        (infrastructure.rv_discrete, _DISCRETE_METHODS),
        *_multivariate_tables(),
        (gaussian_kde, _DENSITY_METHODS),
    )
    for owner, table in tables:
        for name, function in table.items():
            yield owner, name, function


def entropy(pk: Value, qk: Value | None = None, base: float | None = None, axis: Any = 0, **others: Any) -> Value:
    """Return the entropy of probabilities, or relative to `qk`; both are normalised."""
    p = as_value(pk)
    p = p / np.sum(p, axis=axis, keepdims=True)
    if qk is None:
        y = -np.sum(F.xlogy(p, p), axis=axis)
    else:
        q = as_value(qk)
        y = np.sum(p * np.log(p / (q / np.sum(q, axis=axis, keepdims=True))), axis=axis)
    return y if base is None else y / np.log(base)


def zscore(a: Value, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Value:
    a = as_value(a)
    return (a - np.mean(a, axis=axis, keepdims=True)) / np.std(a, axis=axis, ddof=ddof, keepdims=True)


def _count_entries(a: Value, axis: Any) -> int:
    return size(a) if axis is None else shape(a)[axis]


def _central_moment(a: Value, k: int, axis: Any) -> Value:
    return np.mean((a - np.mean(a, axis=axis, keepdims=True)) ** k, axis=axis)


def skew(a: Value, axis: Any = 0, bias: bool = True, **others: Any) -> Value:
    a = as_value(a)
    y, n = _central_moment(a, 3, axis) / _central_moment(a, 2, axis) ** 1.5, _count_entries(a, axis)
    return y if bias else y * np.sqrt(n * (n - 1.0)) / (n - 2.0)


def kurtosis(a: Value, axis: Any = 0, fisher: bool = True, bias: bool = True, **others: Any) -> Value:
    a = as_value(a)
    y, n = _central_moment(a, 4, axis) / np.square(_central_moment(a, 2, axis)), _count_entries(a, axis)
    if not bias:
        y = ((n**2 - 1.0) * y - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3
    return y - 3 if fisher else y


def moment(a: Value, order: int = 1, axis: Any = 0, *, center: Value | None = None, **others: Any) -> Value:
    a = as_value(a)
    about = np.mean(a, axis=axis, keepdims=True) if center is None else center
    return np.mean((a - about) ** order, axis=axis)


def sem(a: Value, axis: Any = 0, ddof: int = 1, **others: Any) -> Value:
    a = as_value(a)
    return np.std(a, axis=axis, ddof=ddof) / np.sqrt(float(_count_entries(a, axis)))


_STATS: dict[str, Callable[..., Any]] = {
    "entropy": entropy, "zscore": zscore, "skew": skew, "kurtosis": kurtosis,
    "moment": moment, "sem": sem,
    "gmean": lambda a, axis=0, dtype=None, weights=None, **others:
        np.exp(np.average(np.log(as_value(a)), axis=axis, weights=weights)),
    "hmean": lambda a, axis=0, dtype=None, *, weights=None, **others:
        1 / np.average(1 / as_value(a), axis=axis, weights=weights),
}  # fmt: skip

FUNCTIONS = {"stats": _STATS}
