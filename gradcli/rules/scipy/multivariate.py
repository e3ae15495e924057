"""The multivariate distributions of scipy.stats: normal and Dirichlet."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.scipy.families import xlogy
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.tracer import plain


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
    n = np.size(plain(as_value(mean))) if mean is not None else np.shape(plain(cov))[0] if np.ndim(plain(cov)) else 1
    if mean is not None and n == 1 and np.ndim(plain(cov)):
        n = np.shape(plain(cov))[0]
    if np.ndim(plain(cov)) == 0:
        cov = cov * np.eye(n)
    elif np.ndim(plain(cov)) == 1:
        cov = np.diag(cov)
    return (np.zeros(n) if mean is None else np.ravel(as_value(mean))), cov, n


def _logpdf(x: Value, mean: Any, cov: Any) -> Value:
    mean, cov, n = _normal_parameters(mean, cov)
    x = as_value(x)
    if np.ndim(plain(x)) == 0:
        x = np.reshape(x, (1, 1))
    elif np.ndim(plain(x)) == 1:
        x = np.reshape(x, (-1, 1) if n == 1 else (1, -1))
    shape = np.shape(plain(x))[:-1]
    factor = np.linalg.cholesky(cov)  # of the lower triangle, the one that scipy reads
    whitened = np.linalg.solve(factor, np.transpose(np.reshape(x - mean, (-1, n))))
    logs = n * np.log(2 * np.pi) / 2 + np.sum(np.log(np.diagonal(factor)))
    y = -np.sum(np.square(whitened), axis=0) / 2 - logs
    return np.squeeze(np.reshape(y, shape))


def normal_logpdf(self: Any, x: Value, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Value:
    return _logpdf(x, mean, cov)


def normal_pdf(self: Any, x: Value, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Value:
    return np.exp(_logpdf(x, mean, cov))


def normal_entropy(self: Any, mean: Any = None, cov: Any = 1) -> Value:
    _, cov, n = _normal_parameters(mean, cov)
    factor = np.linalg.cholesky(cov)
    return n * (1 + np.log(2 * np.pi)) / 2 + np.sum(np.log(np.diagonal(factor)))


def _log_normaliser(alpha: Value) -> Value:
    """Return the logarithm of the multivariate beta function."""
    gammaln = named("gammaln")
    return np.sum(gammaln(alpha)) - gammaln(np.sum(alpha))


def dirichlet_logpdf(self: Any, x: Value, alpha: Value) -> Value:
    x, alpha = as_value(x), as_value(alpha)
    if np.shape(plain(x))[0] == np.size(plain(alpha)) - 1:
        x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
    powers = np.reshape(alpha - 1, (-1,) + (1,) * (np.ndim(plain(x)) - 1))
    return np.sum(xlogy(powers, x), axis=0) - _log_normaliser(alpha)


def dirichlet_pdf(self: Any, x: Value, alpha: Value) -> Value:
    return np.exp(dirichlet_logpdf(self, x, alpha))


def dirichlet_entropy(self: Any, alpha: Value) -> Value:
    alpha, digamma = as_value(alpha), named("digamma")
    total = np.sum(alpha)
    own = np.sum((alpha - 1) * digamma(alpha))
    return _log_normaliser(alpha) + (total - np.size(plain(alpha))) * digamma(total) - own


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy.stats import _multivariate

    tables: tuple[tuple[type, dict[str, Callable[..., Any]]], ...] = (
        (_multivariate.multivariate_normal_gen, {
            "__call__": lambda self, mean=None, cov=1, allow_singular=False, seed=None: Frozen(self, (mean, cov), {}),
            "logpdf": normal_logpdf, "pdf": normal_pdf, "entropy": normal_entropy,
        }),
        (_multivariate.multivariate_normal_frozen, {
            "logpdf": lambda self, x: _logpdf(x, self.mean, self.cov),
            "pdf": lambda self, x: np.exp(_logpdf(x, self.mean, self.cov)),
        }),
        (_multivariate.dirichlet_gen, {
            "__call__": lambda self, alpha, seed=None: Frozen(self, (alpha,), {}),
            "logpdf": dirichlet_logpdf, "pdf": dirichlet_pdf, "entropy": dirichlet_entropy,
        }),
        (_multivariate.dirichlet_frozen, {
            "logpdf": lambda self, x: dirichlet_logpdf(None, x, self.alpha),
            "pdf": lambda self, x: dirichlet_pdf(None, x, self.alpha),
        }),
    )  # fmt: skip
    for owner, table in tables:
        for name, function in table.items():
            yield owner, name, function
