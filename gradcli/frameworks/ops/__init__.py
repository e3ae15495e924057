"""JAX's primitives in numpy, by the primitive's name: a jaxpr runs on anything that numpy's calls run on.

An entry takes the input values in their order and the equation's params by name, and returns a value, or a tuple of
them. Integers and truth values are plain; they are made of plain numbers alone.
"""

from collections.abc import Callable
from typing import Any

from gradcli.frameworks.ops import elementwise, indexing, matrices, reductions, shaping, windows

TABLE: dict[str, Callable[..., Any]] = {
    **elementwise.TABLE,
    **reductions.TABLE,
    **shaping.TABLE,
    **indexing.TABLE,
    **windows.TABLE,
    **matrices.TABLE,
}
