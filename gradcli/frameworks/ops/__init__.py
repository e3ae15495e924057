"""Operations in numpy, by lax's names and with its arguments: what the programs that frameworks record are replayed with.

`TABLE` runs the equations of JAX. The tables of torch, TensorFlow and MLX are names and arguments of their own for what is
here: `elementwise.FUNCTIONS` by `shared`, and `convolution`, `places` (gathers, scatters, windows), `elimination` and the
running operations by calls. Integers and truth values are plain; they are made of plain numbers alone.
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
