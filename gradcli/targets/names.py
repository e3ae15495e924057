"""The names that an expression can use: what has a rule or a handler, and constants; there are no others.

What is left out is in left_out.py, with the reasons.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.rules import composites, layers, linalg, reductions, spelled
from gradcli.rules import layers as losses
from gradcli.rules import linalg as matrix_functions
from gradcli.rules import linalg as norms
from gradcli.rules.constants import MODULES
from gradcli.rules.special import COMPOSITES, SAME
from gradcli.targets import adapted, left_out
from gradcli.targets.adapted import OfScipy, as_number, counting
from gradcli.targets.constructors import CONSTRUCTORS
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive

CONSTANTS = {"pi": float(np.pi), "e": float(np.e), "inf": float("inf")}
PREFIXES = {
    "np", "numpy", "np.linalg", "numpy.linalg", "np.fft", "numpy.fft", "scipy.fft", "scipy.special", "special", "math",
    "jnp", "jnp.linalg", "jnp.fft", "jax.numpy", "jax.nn", "jax.lax", "lax", "jax.scipy.special", "nn",
    "torch", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional", "F", "linalg",
}  # fmt: skip
SEQUENCES = {  # take a list of values of any shapes, or nested lists
    "concatenate", "concat", "cat", "stack", "hstack", "vstack", "dstack", "column_stack", "block", "multi_dot", "select",
}  # fmt: skip
METHODS = ("sum", "mean", "max", "min", "dot", "reshape")

ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "ln": "log", "fabs": "absolute", "abs": "absolute", "pow": "power", "lgamma": "gammaln",
    "tr": "trace", "mod": "remainder", "true_divide": "divide", "neg": "negative", "logsigmoid": "log_expit",
    "log_sigmoid": "log_expit", "logistic": "expit", "igamma": "gammainc", "igammac": "gammaincc", "mvlgamma": "multigammaln",
    "sgn": "sign", "clamp": "clip", "cat": "concatenate", "concat": "concatenate", "mm": "matmul", "bmm": "matmul",
    "mv": "matmul", "ger": "outer", "unsqueeze": "expand_dims", "movedim": "moveaxis", "swapdims": "swapaxes",
    "permute": "transpose",
    "matrix_exp": "expm", "inverse": "inv", "pinverse": "pinv", "trapz": "trapezoid",
    "array": "positive", "asarray": "positive", "copy": "positive",
    "swish": "silu", "hard_tanh": "hardtanh", "hard_sigmoid": "hardsigmoid", "hard_swish": "hardswish", "hard_silu": "hardswish",
    "soft_sign": "softsign", "attention": "scaled_dot_product_attention", "mae": "l1_loss",
}  # fmt: skip
_OURS: dict[str, Callable[..., Any]] = {
    "relu": composites.relu, "sigmoid": composites.sigmoid, "softplus": composites.softplus, "silu": composites.silu,
    "gelu": composites.gelu, "mse": composites.mse, "cross_entropy": composites.cross_entropy,
    "layer_norm": composites.layer_norm, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax,
    "logsumexp": reductions.logsumexp,
    # numpy's versions take the modulus of complex numbers, which is not analytic: the complex step would fail
    "var": reductions.var, "std": reductions.std, "norm": norms.norm, "vdot": linalg.vdot,
    "logdet": linalg.logdet, "vec": linalg.vec, "einsum": linalg.einsum,
    "expm": matrix_functions.expm, "expm_frechet": matrix_functions.expm_frechet,
    "logm": matrix_functions.logm, "sqrtm": matrix_functions.sqrtm,
    "zeros_like": composites.zeros_like, "ones_like": composites.ones_like, "power": np.power, "float_power": np.power,
    "cross": HANDLERS[np.cross],  # numpy's takes vectors of 2 entries too, which it gives up
    "matrix_power": adapted.matrix_power,
    "pad": adapted.pad, "select": adapted.select, "take_along_axis": adapted.take_along_axis,
    "compress": adapted.conditional(np.compress), "extract": adapted.conditional(np.extract),
}  # fmt: skip
_COUNTING = (
    np.any, np.all, np.count_nonzero, np.isclose, np.allclose, np.array_equal, np.array_equiv, np.isneginf, np.isposinf,
    np.linalg.matrix_rank,
)  # fmt: skip
_TRUTHS = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "isnan", "isfinite", "isinf", "signbit",
}  # fmt: skip


def _of_numpy() -> dict[str, Callable[..., Any]]:
    """Return numpy's functions that have a handler: the row itself where that is one, else numpy's function."""
    found: dict[str, Callable[..., Any]] = {}
    # read off the modules' own names: getattr would load numpy's lazy submodules
    named = [
        (name, function) for module in MODULES.values() for name, function in vars(module).items() if _handled(function)
    ]
    others = [(f.__name__, f) for f in HANDLERS if (getattr(f, "__module__", None) or "").startswith("numpy")]
    for name, function in (*named, *others):
        row = HANDLERS[function]
        found.setdefault(name, row if isinstance(row, Primitive) else function)
    return found


def _handled(function: Any) -> bool:
    return callable(function) and not isinstance(function, type) and function in HANDLERS


def _of_module(module: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions that a module of gradcli defines."""
    own = {name: x for name, x in vars(module).items() if inspect.isfunction(x) and x.__module__ == module.__name__}
    return {name: function for name, function in own.items() if not name.startswith("_")}


def _table() -> dict[str, Callable[..., Any]]:
    """Return every function by its names; later tables take precedence."""
    shown = [row for row in PRIMITIVES.values() if row.kind in ("elementwise", "constant")]
    found: dict[str, Callable[..., Any]] = {name: OfScipy(name) for name in COMPOSITES}
    found |= {row.name: row for row in shown}
    found |= _of_numpy()
    found |= {name: PRIMITIVES[row] for name, row in SAME.items()}
    for module in (spelled, layers, losses):
        found |= _of_module(module)
    found |= CONSTRUCTORS | _OURS | {"linspace": np.linspace}
    found |= {name: as_number(row.fun) for name, row in PRIMITIVES.items() if row.constant and name in _TRUTHS}
    found |= {function.__name__: counting(function) for function in _COUNTING}
    found |= {alias: found[name] for alias, name in ALIASES.items()}
    return {name: function for name, function in found.items() if name not in left_out.REASONS}


FUNCTIONS = _table()


def taken_along(name: str) -> Callable[..., Any] | None:
    """Return what formulas print as `softmax_rows` or `softmax_columns`: a function along an axis; None for other names."""
    base, _, word = name.rpartition("_")
    axis = {"rows": 1, "columns": 0}.get(word)
    signature = arity(FUNCTIONS[base]) if axis is not None and base in FUNCTIONS else None
    if signature is None or "axis" not in signature.parameters:
        return None
    return lambda X: FUNCTIONS[base](X, axis=axis)


def arity(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature to check a call against, or None if the function has none."""
    function = HANDLERS.get(function, function)
    rules = getattr(function, "rules", None)
    if rules is not None:
        count = len(rules) or getattr(getattr(function, "fun", None), "nin", 1)
        parameters = [inspect.Parameter(f"x{k + 1}", inspect.Parameter.POSITIONAL_ONLY) for k in range(count)]
        return inspect.Signature(parameters)
    try:
        return inspect.signature(function)
    except ValueError:
        return None
