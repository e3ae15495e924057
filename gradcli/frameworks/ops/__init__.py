"""Operations in numpy, with lax's names and arguments, that replay the programs recorded from frameworks.

`TABLE` runs the equations of JAX. The table of torch reuses these functions under its own names: `elementwise.FUNCTIONS`
through `by_framework_name`; what convolves, gathers, scatters and eliminates through calls.
Integers and booleans are never traced: they are computed from plain numbers only.
"""

from collections.abc import Callable
from typing import Any

from gradcli.frameworks.ops import elementwise, indexing, matrices

TABLE: dict[str, Callable[..., Any]] = {
    **elementwise.TABLE,
    **elementwise.REDUCTIONS,
    **indexing.SHAPING,
    **indexing.TABLE,
    **indexing.WINDOWS,
    **matrices.TABLE,
}
