"""scipy.stats.gaussian_kde: by the places, by the data, and by a bandwidth that is a number."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules import reductions
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import Tracer, is_differentiated, plain_value


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


def logpdf(self: Any, x: Value) -> Value:
    """Return the logarithm of the estimated density at points, which are columns."""
    points, data = np.atleast_2d(as_value(x)), getattr(self, "_values", self.dataset)
    if np.shape(plain_value(points)) == (1, self.d):
        points = np.reshape(points, (self.d, 1))
    if np.shape(plain_value(points))[0] != self.d:
        raise ValueError(f"points have dimension {np.shape(plain_value(points))[0]}, dataset has dimension {self.d}")
    covariance = _kernel_covariance(self)
    apart = points[:, :, None] - data[:, None, :]
    energy = np.einsum("imn,ij,jmn->mn", apart, np.linalg.inv(covariance), apart) / 2
    logs = np.log(self.weights) - energy
    return reductions.logsumexp(logs, 1) - np.linalg.slogdet(2 * np.pi * covariance)[1] / 2


def evaluate(self: Any, points: Value) -> Value:
    return np.exp(logpdf(self, points))


def _refusing_method(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NoRule(f"scipy.stats.gaussian_kde.{name} has no derivative rule", do="give your own gradient: --grad")

    return refuse


_REFUSED = (
    "integrate_gaussian",
    "integrate_box_1d",
    "integrate_box",
    "integrate_kde",
    "resample",
    "set_bandwidth",
    "marginal",
)


def density_methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy.stats import gaussian_kde

    own: dict[str, Callable[..., Any]] = {
        "__init__": make_density, "evaluate": evaluate, "__call__": evaluate, "pdf": evaluate, "logpdf": logpdf,
    }  # fmt: skip
    for name, stand_in in (own | {name: _refusing_method(name) for name in _REFUSED}).items():
        yield gaussian_kde, name, stand_in
