"""Functions that JAX writes with branches, series or bit operations, and the gradcli functions that replace them.

softplus, for example, is smooth, but JAX computes it by logaddexp with a maximum and an absolute value, whose ties are
not kinks of the function.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value, named

JAXS_OWN = ("/jax/_src/", "\\jax\\_src\\")  # where these functions are, because a user's may have the same name

KNOWN: dict[str, Callable[..., Sequence[Value]]] = {
    **{name: lambda *xs, function=function: (function(*xs),) for name, function in {
        "relu": lambda x: named("relu")(x), "logit": lambda x: named("logit")(x), "log_ndtr": lambda x: named("log_ndtr")(x),
        "expi": lambda x: named("expi")(x), "_i0": lambda x: named("i0")(x), "_erfcx": lambda x: named("erfcx")(x),
        "_dawsn": lambda x: named("dawsn")(x), "xlogy": lambda x, y: named("xlogy")(x, y),
        "xlog1py": lambda x, y: named("xlog1py")(x, y), "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2,
        "_det": np.linalg.det,
    }.items()},
    **dict.fromkeys(("_slogdet_lu", "_slogdet_qr", "_slogdet_small"), lambda a: tuple(np.linalg.slogdet(a))),
    "_frexp": lambda x: tuple(np.frexp(x)),
    "sici": lambda x: (named("si")(x), named("ci")(x)),
}  # fmt: skip


def known(program: Any) -> Callable[..., Sequence[Value]] | None:
    """Return gradcli's function for the body of a custom_jvp function that is one of JAX's own; None for any other."""
    info = getattr(getattr(program, "jaxpr", program), "debug_info", None)
    name, _, place = str(getattr(info, "func_src_info", "")).partition(" at ")
    return KNOWN.get(name) if any(folder in place for folder in JAXS_OWN) else None
