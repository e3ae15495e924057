"""The names that an expression can use: fixed tables of functions and constants; there are no others."""

import difflib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.bind import HANDLERS
from gradcli.core.primitive import PRIMITIVES, Value
from gradcli.core.tracer import plain
from gradcli.primitives import composites, linalg, norms, reductions

CONSTANTS = {"pi": float(np.pi), "e": float(np.e), "inf": float("inf")}
PREFIXES = {
    "np", "numpy", "np.linalg", "numpy.linalg", "scipy.special", "special", "math", "jnp", "jnp.linalg", "jax.numpy", "jax.nn",
    "torch", "torch.linalg", "torch.special", "torch.nn.functional", "F", "linalg",
}  # fmt: skip
SEQUENCES = {"concatenate", "stack", "hstack", "vstack", "column_stack"}  # take a list of values of any shapes
METHODS = ("sum", "mean", "max", "min", "dot", "reshape")
STATIC = {
    "axis", "axes", "axis1", "axis2", "shape", "newshape", "keepdims", "ddof", "ord", "k", "n", "num", "offset",
    "repeats", "indices",
    "source", "destination", "decimals", "subscripts", "approximate", "order",
    "to",
}  # fmt: skip
NOT_TAKEN = {
    "out",
    "dtype",
    "where",
    "like",
    "subok",
    "casting",
    "initial",
    "returned",
    "optimize",
    "device",
    "copy",
    "order",
    "mode",
    "prepend",
    "append",
}
KEYWORD_SPELLINGS = {"dim": "axis", "keepdim": "keepdims"}

_ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "ln": "log", "fabs": "absolute", "abs": "absolute", "pow": "power", "lgamma": "gammaln",
    "psi": "digamma", "tr": "trace", "mod": "remainder", "true_divide": "divide",
    "conj": "positive", "neg": "negative", "logsigmoid": "log_expit",
}  # fmt: skip
_NUMPY = (
    "sum", "mean", "average", "max", "min", "amax", "amin", "ptp", "prod", "cumsum", "dot", "inner", "outer", "matmul",
    "tensordot", "kron", "trace", "diag", "diagonal", "transpose", "swapaxes", "moveaxis", "reshape", "ravel", "squeeze",
    "expand_dims", "broadcast_to", "concatenate", "stack", "hstack", "vstack", "column_stack", "where", "clip", "diff",
    "flip", "take", "repeat", "tril", "triu", "round", "around", "sinc", "logaddexp2", "atleast_1d", "atleast_2d", "fmax",
    "fmin", "deg2rad", "rad2deg", "degrees", "radians", "isfinite", "isnan", "argmax", "argmin",
)  # fmt: skip
_LINALG = ("det", "slogdet", "inv", "solve", "matrix_power")
_OURS: dict[str, Callable[..., Any]] = {
    "relu": composites.relu, "sigmoid": composites.sigmoid, "softplus": composites.softplus, "silu": composites.silu,
    "gelu": composites.gelu, "mse": composites.mse, "cross_entropy": composites.cross_entropy,
    "layer_norm": composites.layer_norm, "softmax": reductions.softmax, "log_softmax": reductions.log_softmax,
    "logsumexp": reductions.logsumexp,
    # numpy's versions take the modulus of complex numbers, which is not analytic: the complex step would fail
    "var": reductions.var, "std": reductions.std, "norm": norms.norm, "vdot": linalg.vdot,
    "logdet": linalg.logdet, "vec": linalg.vec,
    "einsum": linalg.einsum, "zeros_like": composites.zeros_like, "ones_like": composites.ones_like,
}  # fmt: skip
_HIDDEN = {
    "getitem", "put", "scatter", "peaks", "integer_power", "logdet", "polygamma", "where", "concatenate", "reshape", "transpose",
    "broadcast_to", "sum", "cumsum", "max", "norm", "logsumexp", "det", "inv", "solve", "matmul", "relu", "power",
    "real", "eval_hermite", "eval_hermitenorm", "si", "ci", "shi", "chi", "fresnel_s", "fresnel_c",
    "eigenvector_signs", "singular_vector_signs",
}  # fmt: skip


def whole(x: Any) -> int:
    """Return a size or a position as an int. Raises ValueError unless it is an integer."""
    number = float(plain(x)) if not isinstance(x, str) else float("nan")
    if not number.is_integer():
        raise ValueError(f"{x} is not a whole number")
    return int(plain(x))


def shape_of(*sizes: Any) -> tuple[int, ...]:
    """Return a shape given as sizes, or as one list of them. Raises ValueError for a negative or fractional size."""
    parts = sizes[0] if len(sizes) == 1 and np.ndim(sizes[0]) == 1 else sizes
    found = tuple(whole(n) for n in parts)
    if any(n < 0 for n in found):
        raise ValueError("a size is negative")
    return found


def _zeros(shape: Any = ()) -> Any:
    """Return zeros of a shape."""
    return np.zeros(shape_of(shape) if np.ndim(shape) == 0 else shape_of(*shape))[()]


def _ones(shape: Any = ()) -> Any:
    """Return ones of a shape."""
    return _zeros(shape) + 1.0


def _full(shape: Any, value: Value) -> Any:
    """Return an array filled with a value."""
    wanted = shape_of(shape) if np.ndim(shape) == 0 else shape_of(*shape)
    return np.broadcast_to(value, wanted) if wanted else value


def _eye(n: Any) -> Any:
    """Return the identity matrix of n rows."""
    return np.eye(whole(n))


def _arange(*bounds: Any) -> Any:
    """Return evenly spaced numbers, without the end."""
    return np.arange(*(plain(x) for x in bounds), dtype=float)


def _linspace(start: Any, stop: Any, num: Any = 50) -> Any:
    """Return `num` evenly spaced numbers, the end included."""
    return np.linspace(plain(start), plain(stop), whole(num))


def _onehot(k: Any, n: Any) -> Any:
    """Return the k-th row of the identity matrix of n rows, k from 0."""
    if not 0 <= whole(k) < whole(n):
        raise ValueError(f"position {whole(k)} is not in 0 to {whole(n) - 1}")
    return np.eye(1, whole(n), whole(k))[0]


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "full": _full, "eye": _eye, "identity": _eye,
    "arange": _arange, "linspace": _linspace, "onehot": _onehot,
}  # fmt: skip


def constructed_entries(name: str, given: dict[str, Any]) -> int:
    """Return how many entries a constructor would make from its named arguments.

    Raises  ValueError for an arange without an end, with a step of 0 or with infinite bounds.
    """
    if name in ("zeros", "ones", "full"):
        sizes = given.get("shape", ())
        return math.prod(int(plain(n)) for n in (sizes if isinstance(sizes, list | tuple | np.ndarray) else (sizes,)))
    if name in ("eye", "identity"):
        return int(plain(given["n"])) ** 2
    if name in ("onehot", "linspace"):
        return int(plain(given.get("n", given.get("num", 50))))
    bounds = [float(plain(x)) for x in given.get("bounds", ())]
    if not bounds:
        raise ValueError("arange needs an end")
    start, stop, step = (0.0, bounds[0], 1.0) if len(bounds) == 1 else (*bounds, 1.0)[:3]
    if step == 0 or not math.isfinite((stop - start) / step):
        raise ValueError("arange needs a step that is not 0, and finite bounds")
    return max(0, math.ceil((stop - start) / step))


_TRUTHS = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "isnan", "isfinite", "isinf", "signbit",
}  # fmt: skip


def as_number(truth: Any) -> Callable[..., Value]:
    """Return a numpy predicate as a function whose values are the numbers 0 and 1."""
    if truth.nin == 1:
        return lambda x: truth(x) * np.float64(1)
    return lambda a, b: truth(a, b) * np.float64(1)


def _table() -> dict[str, Callable[..., Any]]:
    shown = [row for row in PRIMITIVES.values() if row.kind in ("elementwise", "constant") and row.name not in _HIDDEN]
    found: dict[str, Callable[..., Any]] = {row.name: row for row in shown}
    found |= {name: getattr(np, name) for name in _NUMPY}
    found |= {name: getattr(np.linalg, name) for name in _LINALG}
    found |= {"power": np.power, "float_power": np.power}
    found |= _OURS | CONSTRUCTORS
    found |= {name: as_number(row.fun) for name, row in PRIMITIVES.items() if row.constant and name in _TRUTHS}
    found |= {alias: found[name] for alias, name in _ALIASES.items()}
    return found


FUNCTIONS = _table()


def nearest(name: str, known: Any) -> str | None:
    """Return the known name most similar to `name`, or None if none is similar."""
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return close[0] if close else None


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
