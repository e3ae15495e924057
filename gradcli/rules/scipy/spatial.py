"""scipy.spatial: triangulations, hulls and Voronoi diagrams, whose code in C takes every argument for a plain array."""

from collections.abc import Callable, Iterator
from typing import Any

from gradcli.errors import NoRule
from gradcli.rules.shaping import as_value
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
