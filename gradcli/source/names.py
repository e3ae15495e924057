"""What a name in an expression can mean: our own table, and nothing else."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import PRIMITIVES, Value
from gradcli.core.tracer import plain
from gradcli.primitives import composites, reductions

CONSTANTS = {"pi": float(np.pi), "e": float(np.e), "inf": float("inf")}
PREFIXES = {
    "np", "numpy", "np.linalg", "numpy.linalg", "scipy.special", "special", "math", "jnp", "jnp.linalg", "jax.numpy", "jax.nn",
    "torch", "torch.linalg", "torch.special", "torch.nn.functional", "F", "linalg",
}  # fmt: skip
METHODS = ("sum", "mean", "max", "min", "dot", "reshape")
KEYWORD_SPELLINGS = {"dim": "axis", "keepdim": "keepdims"}

_ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "ln": "log", "fabs": "absolute", "abs": "absolute", "pow": "power", "lgamma": "gammaln",
    "loggamma": "gammaln", "psi": "digamma", "mod": "remainder", "fmod": "remainder", "true_divide": "divide",
    "conj": "positive", "neg": "negative", "logsigmoid": "log_expit",
}  # fmt: skip
_NUMPY = [
    "sum",
    "mean",
    "average",
    "var",
    "std",
    "max",
    "min",
    "amax",
    "amin",
    "ptp",
    "prod",
    "cumsum",
    "dot",
    "vdot",
    "inner",
    "outer",
    "matmul",
    "einsum",
    "tensordot",
    "trace",
    "diag",
    "diagonal",
    "transpose",
    "swapaxes",
    "moveaxis",
    "reshape",
    "ravel",
    "squeeze",
    "expand_dims",
    "broadcast_to",
    "concatenate",
    "stack",
    "hstack",
    "vstack",
    "column_stack",
    "where",
    "clip",
    "diff",
    "flip",
    "take",
    "repeat",
    "tril",
    "triu",
    "round",
    "around",
    "sinc",
    "logaddexp2",
    "atleast_1d",
    "atleast_2d",
    "zeros_like",
    "ones_like",
    "fmax",
    "fmin",
    "deg2rad",
    "rad2deg",
    "degrees",
    "radians",
    "isfinite",
    "isnan",
    "argmax",
    "argmin",
]
_LINALG = ["norm", "det", "slogdet", "inv", "solve", "matrix_power"]
_OURS: dict[str, Callable[..., Any]] = {
    "relu": composites.relu, "sigmoid": composites.sigmoid, "softplus": composites.softplus, "silu": composites.silu,
    "gelu": composites.gelu, "mse": composites.mse, "cross_entropy": composites.cross_entropy,
    "layer_norm": composites.layer_norm, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax,
    "logsumexp": reductions.logsumexp,
}  # fmt: skip
_HIDDEN = {
    "getitem", "put", "scatter", "peaks", "integer_power", "logdet", "polygamma", "where", "concatenate", "reshape", "transpose",
    "broadcast_to", "sum", "cumsum", "max", "norm", "logsumexp", "det", "inv", "solve", "matmul", "einsum", "relu", "power",
}  # fmt: skip


def _entries(shape_: Any) -> int:
    return int(np.prod([int(n) for n in (shape_ if isinstance(shape_, list | tuple) else (shape_,))], dtype=object))


def _zeros(shape: Any = ()) -> Any:
    """Return zeros of a shape."""
    return np.zeros(_shape(shape))[()]


def _ones(shape: Any = ()) -> Any:
    """Return ones of a shape."""
    return np.ones(_shape(shape))[()]


def _full(shape: Any, value: Value) -> Any:
    """Return an array filled with a value."""
    return np.broadcast_to(value, _shape(shape)) if _shape(shape) else value


def _eye(n: Any) -> Any:
    """Return the identity matrix of n rows."""
    return np.eye(int(plain(n)))


def _arange(*bounds: Any) -> Any:
    """Return evenly spaced numbers, the end left out."""
    return np.arange(*(plain(x) for x in bounds), dtype=float)


def _linspace(start: Any, stop: Any, num: Any = 50) -> Any:
    """Return `num` evenly spaced numbers, the end included."""
    return np.linspace(plain(start), plain(stop), int(plain(num)))


def _onehot(k: Any, n: Any) -> Any:
    """Return the k-th row of the identity matrix of n rows."""
    return np.eye(1, int(plain(n)), int(plain(k)))[0]


def _shape(shape: Any) -> tuple[int, ...]:
    parts = shape if isinstance(shape, list | tuple) else (shape,)
    return tuple(int(plain(n)) for n in parts)


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "full": _full, "eye": _eye, "identity": _eye,
    "arange": _arange, "linspace": _linspace, "onehot": _onehot,
}  # fmt: skip


def constructed_entries(name: str, args: tuple[Any, ...]) -> int:
    """Return how many entries a constructor would make, before it makes them."""
    first: Any = args[0] if args else ()
    if name in ("zeros", "ones", "full"):
        return _entries(first)
    if name in ("eye", "identity"):
        return int(first) ** 2
    if name == "onehot":
        return int(args[1])
    if name == "linspace":
        return int(args[2]) if len(args) > 2 else 50
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return max(0, int((stop - start) / step)) if step else 0


def _table() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {name: row for name, row in PRIMITIVES.items() if name not in _HIDDEN}
    found |= {name: getattr(np, name) for name in _NUMPY}
    found |= {name: getattr(np.linalg, name) for name in _LINALG}
    found |= {"power": np.power, "float_power": np.power}
    found |= _OURS | CONSTRUCTORS
    found |= {alias: found[name] for alias, name in _ALIASES.items()}
    return found


FUNCTIONS = _table()


def nearest(name: str, known: Any) -> str | None:
    """Return the known name most like `name`, if one is like it."""
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return close[0] if close else None


def arity(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature to check a call against, if the function has one."""
    rules = getattr(function, "rules", None)
    if rules is not None:
        count = len(rules) or getattr(getattr(function, "fun", None), "nin", 1)
        parameters = [inspect.Parameter(f"x{k + 1}", inspect.Parameter.POSITIONAL_ONLY) for k in range(count)]
        return inspect.Signature(parameters)
    try:
        return inspect.signature(function)
    except ValueError:
        return None
