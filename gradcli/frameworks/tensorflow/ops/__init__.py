"""TensorFlow's operations in numpy, keyed by `op.type`, so that a graph also runs on traced values.

An entry takes the inputs in order and the operation's attributes by name, and returns a value or a tuple of values.
Integers and booleans are never traced: they are computed from plain numbers only.
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
