"""scipy.interpolate: splines, grids, scattered data."""

from collections.abc import Callable, Iterator
from typing import Any

from gradcli.rules.scipy.scattered import scattered_methods
from gradcli.rules.scipy.splines import SPLINES, spline_methods


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    yield from spline_methods()
    yield from scattered_methods()


FUNCTIONS = SPLINES
