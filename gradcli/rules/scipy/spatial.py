"""scipy.spatial: distances; and triangulations, hulls and Voronoi diagrams, which take plain arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import Tracer, is_differentiated, plain_value


def _call_with_plain_arrays(method: Callable[..., None]) -> Callable[..., None]:
    """Return a method that hands plain arrays to scipy's. It raises NoRule if they depend on what is differentiated."""

    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        def take_value(x: Any) -> Any:
            x = as_value(x) if isinstance(x, list | tuple) else x
            if is_differentiated(x):
                says = f"scipy.spatial.{type(self).__name__} has no derivative rule by its points"
                raise NoRule(says, do="keep the points fixed, or give your own gradient to check: --grad")
            return plain_value(x) if isinstance(x, Tracer) else x

        method(self, *map(take_value, args), **{name: take_value(x) for name, x in kwargs.items()})

    return call


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield the methods of scipy.spatial's classes that read points, and their stand-ins."""
    from scipy import spatial

    for owner in (spatial.Delaunay, spatial.ConvexHull, spatial.Voronoi, spatial.HalfspaceIntersection):
        for name in ("__init__", "add_points", "add_halfspaces"):
            if name in vars(owner):
                yield owner, name, _call_with_plain_arrays(vars(owner)[name])


# scipy.spatial.distance: distances of two vectors, and of all pairs of rows.


def _weighted_sum(a: Value, w: Value | None) -> Value:
    return np.sum(a if w is None else a * w, axis=-1)


def sqeuclidean(u: Value, v: Value, w: Value | None = None) -> Value:
    return _weighted_sum(np.square(as_value(u) - as_value(v)), w)


def chebyshev(u: Value, v: Value, w: Value | None = None) -> Value:
    if w is not None:
        raise NoRule("scipy.spatial.distance.chebyshev with w= has no derivative rule", do="leave w= out")
    return np.max(np.abs(as_value(u) - as_value(v)), axis=-1)


def cosine(u: Value, v: Value, w: Value | None = None) -> Value:
    u, v = as_value(u), as_value(v)
    return 1 - _weighted_sum(u * v, w) / np.sqrt(_weighted_sum(u * u, w) * _weighted_sum(v * v, w))


def correlation(u: Value, v: Value, w: Value | None = None, centered: bool = True) -> Value:
    u, v = as_value(u), as_value(v)
    if centered:
        u, v = (x - np.expand_dims(np.average(x, axis=-1, weights=w), -1) for x in (u, v))
    return cosine(u, v, w)


def braycurtis(u: Value, v: Value, w: Value | None = None) -> Value:
    u, v = as_value(u), as_value(v)
    return _weighted_sum(np.abs(u - v), w) / _weighted_sum(np.abs(u + v), w)


def canberra(u: Value, v: Value, w: Value | None = None) -> Value:
    u, v = as_value(u), as_value(v)
    return _weighted_sum(np.abs(u - v) / (np.abs(u) + np.abs(v)), w)


def mahalanobis(u: Value, v: Value, VI: Value) -> Value:
    d = as_value(u) - as_value(v)
    return np.sqrt(np.sum(np.matmul(d, VI) * d, axis=-1))


METRICS: dict[str, Callable[..., Any]] = {
    "sqeuclidean": sqeuclidean, "euclidean": lambda u, v, w=None: np.sqrt(sqeuclidean(u, v, w)),
    "cityblock": lambda u, v, w=None: _weighted_sum(np.abs(as_value(u) - as_value(v)), w), "chebyshev": chebyshev,
    "minkowski": lambda u, v, p=2, w=None: _weighted_sum(np.abs(as_value(u) - as_value(v)) ** p, w) ** (1 / p),
    "cosine": cosine, "correlation": correlation, "braycurtis": braycurtis, "canberra": canberra, "mahalanobis": mahalanobis,
}  # fmt: skip


def _find_metric(metric: Any) -> Callable[..., Value]:
    found = METRICS.get(metric if isinstance(metric, str) else getattr(metric, "__name__", ""))
    if found is None:
        raise NoRule(
            f"scipy.spatial.distance with metric={metric!r} has no derivative rule", do="write the distance out"
        )
    return found


def cdist(XA: Value, XB: Value, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Value:
    """Return the distances of the rows of one matrix from those of another."""
    a, b = as_value(XA), as_value(XB)
    return _find_metric(metric)(a[:, None, :], b[None, :, :], **kwargs)


def pdist(X: Value, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Value:
    """Return the distances of all pairs of rows, each pair once."""
    x = as_value(X)
    left, right = np.triu_indices(shape(x)[0], 1)
    return _find_metric(metric)(x[left], x[right], **kwargs)


def squareform(X: Value, force: str = "no", checks: bool = True) -> Value:
    """Return the symmetric matrix of pairwise distances, or the distances of such a matrix."""
    x = as_value(X)
    if len(shape(x)) == 2:
        return x[np.triu_indices(shape(x)[0], 1)]
    n = round((1 + np.sqrt(1 + 8 * size(x))) / 2)
    place = np.zeros((n, n), dtype=int)
    place[np.triu_indices(n, 1)] = np.arange(1, size(x) + 1)
    return np.concatenate([np.zeros(1), x])[place + place.T]


_DISTANCE: dict[str, Callable[..., Any]] = METRICS | {"cdist": cdist, "pdist": pdist, "squareform": squareform}

FUNCTIONS = {"spatial.distance": _DISTANCE}
