"""TensorFlow's operations in numpy, by `op.type`: a graph runs on anything that numpy's calls run on.

An entry takes the input values in their order and the operation's attributes by name, and returns a value, or a tuple of
them. Integers and truth values are plain; they are made of plain numbers alone.
"""

from collections.abc import Callable
from typing import Any

from gradcli.frameworks.tensorflow.ops.elementwise import TABLE as ELEMENTWISE
from gradcli.frameworks.tensorflow.ops.indexing import TABLE as INDEXING
from gradcli.frameworks.tensorflow.ops.lists import TABLE as LISTS
from gradcli.frameworks.tensorflow.ops.matrices import TABLE as MATRICES
from gradcli.frameworks.tensorflow.ops.neural import TABLE as NEURAL
from gradcli.frameworks.tensorflow.ops.reductions import TABLE as REDUCTIONS
from gradcli.frameworks.tensorflow.ops.shaping import TABLE as SHAPING

TABLE: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **SHAPING,
    **INDEXING,
    **MATRICES,
    **NEURAL,
    **LISTS,
}
