"""The names that an expression can use: what has a rule or a handler, and constants; there are no others.

What is left out is in left_out.py, with the reasons.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcli.errors import BadExpression, BadShape
from gradcli.rules import composites, layers, linalg, reductions, spelled
from gradcli.rules import layers as losses
from gradcli.rules import linalg as matrix_functions
from gradcli.rules import linalg as norms
from gradcli.rules.constants import MODULES
from gradcli.rules.special import COMPOSITES, ORDERS, SAME
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive, Value, handler
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, plain

CONSTANTS = {"pi": float(np.pi), "e": float(np.e), "inf": float("inf")}
PREFIXES = {
    "np", "numpy", "np.linalg", "numpy.linalg", "np.fft", "numpy.fft", "scipy.fft", "scipy.special", "special", "math",
    "jnp", "jnp.linalg", "jnp.fft", "jax.numpy", "jax.nn", "jax.lax", "lax", "jax.scipy.special", "nn",
    "torch", "torch.linalg", "torch.special", "torch.fft", "torch.nn.functional", "F", "linalg",
}  # fmt: skip
# Functions of numpy and scipy in the form in which an expression calls them: conditions, counts and positions are floats.

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def as_number(truth: Any) -> Callable[..., Value]:
    """Return a numpy predicate as a function whose values are the numbers 0 and 1."""
    if truth.nin == 1:
        return lambda x: truth(x) * np.float64(1)
    return lambda a, b: truth(a, b) * np.float64(1)


def counting(function: Callable[..., Any]) -> Callable[..., Value]:
    """Return a numpy function of truths or counts as one whose values are floats."""

    def count(*args: Any, **kwargs: Any) -> Value:
        return function(*args, **kwargs) * np.float64(1)

    count.__wrapped__ = HANDLERS[function]  # type: ignore[attr-defined]  # its signature
    count.__doc__ = f"Return np.{function.__name__} as numbers."
    return count


def entry_at(x: Value, k: Value, axis: int) -> Value:
    """Return the entries of x at one position along an axis, a whole number that is not differentiated by.

    For a traced position this is the sum of x times the indicator of the position.
    Raises  BadShape where there is no such axis; BadExpression for anything but a whole number from 0 to its length - 1.
    """
    if axis >= len(shape(x)):
        says = f"an index of axis {axis} needs an array of more axes than {len(shape(x))}"
        raise BadShape(says, do="give the array its axes, or leave the index out")
    n, place = shape(x)[axis], plain(k)
    if shape(k) or place != np.floor(place) or not 0 <= place < n:
        says = f"an index is a whole number from 0 to {n - 1}, not {'an array' if shape(k) else f'{float(place):g}'}"
        raise BadExpression(says, do="give the index a whole number")
    if not isinstance(k, Tracer):
        return x[(*(slice(None),) * axis, int(place))]
    here = (k == np.arange(n, dtype=float)) * 1.0
    return np.sum(x * np.reshape(here, (n, *(1,) * (len(shape(x)) - axis - 1))), axis=axis)


def matrix_power(a: Value, n: Value) -> Value:
    """Return a product of n equal matrices. Raises BadExpression for anything but a whole number."""
    exponent = plain(n)
    if np.ndim(exponent) or exponent != np.floor(exponent):
        shown = "an array" if np.ndim(exponent) else f"{float(exponent):g}"
        raise BadExpression(f"a matrix has whole powers, not {shown}", do="write the power out: matrix_power(X, 3)")
    return np.linalg.matrix_power(a, int(exponent))


class OfScipy:
    """A function of scipy.special that is made of others: scipy's own on plain numbers, its composite on traced ones."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    @property
    def __signature__(self) -> inspect.Signature:
        count = len(inspect.signature(COMPOSITES[self.__name__]).parameters)
        return inspect.Signature([
            inspect.Parameter(f"x{k + 1}", inspect.Parameter.POSITIONAL_ONLY) for k in range(count)
        ])  # fmt: skip

    def __call__(self, *xs: Value) -> Value:
        import scipy.special

        function = getattr(scipy.special, self.__name__)
        if any(isinstance(x, Tracer) for x in xs):
            return handler(function)(*xs)
        complex_ = any(map(np.iscomplexobj, xs)) and not ORDERS.get(self.__name__) and self.__name__ != "gammasgn"
        return COMPOSITES[self.__name__](*xs) if complex_ else function(*xs)


def pad(array: Value, pad_width: Any, mode: str = "constant", constant_values: Value = 0.0) -> Value:
    """Return the array padded with constants, or with its own entries.

    Raises  ValueError for other modes, which have no rule.
    """
    if mode not in PAD_MODES:
        raise ValueError(f"mode is one of {', '.join(map(repr, PAD_MODES))}, not {mode!r}")
    others = {"constant_values": constant_values} if mode == "constant" else {}
    return np.pad(array, pad_width, mode, **others)  # type: ignore[call-overload]


def select(condlist: Sequence[Value], choicelist: Sequence[Value], default: Value = 0.0) -> Value:
    """Return, entry by entry, the first choice whose condition is not 0."""
    return HANDLERS[np.select](condlist, choicelist, default)


def take_along_axis(arr: Value, indices: Any, axis: int | None = -1) -> Value:
    """Return the entries at the given positions along an axis."""
    return np.take_along_axis(arr, np.asarray(plain(indices), dtype=int), axis)


def conditional(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return numpy's compress or extract with a condition of numbers, which holds where they are not 0."""

    @functools.wraps(function)
    def choose(condition: Any, *args: Any, **kwargs: Any) -> Any:
        return function(np.not_equal(plain(condition), 0), *args, **kwargs)

    return choose


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
    "matrix_power": matrix_power,
    "pad": pad, "select": select, "take_along_axis": take_along_axis,
    "compress": conditional(np.compress), "extract": conditional(np.extract),
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


# What gradcli differentiates in Python code and an expression cannot call, each with the reason.
#
# Every other function with a rule or a handler is in the language; a test finds one that is neither there nor here.


class LeftOut(NamedTuple):
    """Why functions are not in the language, what to write instead, and which functions they are."""

    why: str
    do: str
    names: str


# fmt: off
LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut("it takes a Python function", "write the formula itself", "apply_along_axis apply_over_axes piecewise"),
    LeftOut("it writes into its argument", "write where(...), or concatenate([...])",
            "copyto fill_diagonal place put_along_axis putmask setitem put"),
    LeftOut("it is about types or memory", "leave it out: every value is an array of float64",
            "astype can_cast common_type iscomplexobj isrealobj isscalar may_share_memory min_scalar_type real_if_close "
            "result_type shares_memory asanyarray ascontiguousarray complex"),
    LeftOut("it writes a text", "leave it out", "array2string array_repr array_str"),
    LeftOut("the entries of its result are not defined", "write zeros_like(x)", "empty_like"),
    LeftOut("its result is a size", "write the number, or mean(...) for a sum divided by it", "shape ndim size"),
    LeftOut("its result is a list of positions whose length depends on the values", "multiply by a comparison: x*(x > 0)",
            "nonzero argwhere flatnonzero"),
    LeftOut("its result is a set of positions", "write tril(A), triu(A) or diag(A)",
            "diag_indices_from tril_indices_from triu_indices_from"),
    LeftOut("it takes an array of integers", "write comparisons: sum(w*(k == 2))", "bincount choose"),
    LeftOut("it takes or returns exponents as integers", "write x*2**n, or log2(abs(x))", "frexp ldexp"),
    LeftOut("it is about complex numbers, and inputs are real", "compare imag(x) with 0", "iscomplex isreal"),
    LeftOut("eigenvalues of a matrix that is not symmetric may be complex, or have no derivative",
            "write eigvalsh(A) for a symmetric matrix", "eig eigvals"),
    LeftOut("it has four complex-valued results", "write jv, yv, iv or kv of order 1/3", "airy"),
    LeftOut("scipy has no derivative of the zeta function", "write polygamma(n, x) for sums of powers 1/(k + x)**n", "zetac"),
    LeftOut("it is the part of others that indexes", "write x[0] or x[1:]", "getitem"),
    LeftOut("it is a part of other functions", "write the function that contains it",
            "scatter peaks integer_power eigenvectors singular_vectors dft_cos dft_sin si ci shi chi fresnel_s fresnel_c "
            "eigenvector_signs singular_vector_signs solution gammainc_order"),
)
# fmt: on
REASONS: dict[str, LeftOut] = {name: row for row in LEFT_OUT for name in row.names.split()}


# Constructors: arrays that are made of sizes and plain numbers, which an expression and a point can contain.


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


def _tri(N: Any, M: Any = None, k: Any = 0) -> Any:
    """Return ones on and below the k-th diagonal of N rows and M columns, and zeros above."""
    return np.tri(whole(N), None if M is None else whole(M), whole(k))


def _fftfreq(n: Any, d: Any = 1.0) -> Any:
    """Return the frequencies of a transform of n samples that are d apart."""
    return np.fft.fftfreq(whole(n), float(plain(d)))


def _rfftfreq(n: Any, d: Any = 1.0) -> Any:
    """Return the frequencies of 0 or more of a transform of n samples that are d apart."""
    return np.fft.rfftfreq(whole(n), float(plain(d)))


def _window(make: Callable[..., Any]) -> Callable[..., Any]:
    def window(M: Any) -> Any:
        return make(whole(M))

    window.__doc__ = f"Return numpy's window {make.__name__} of M points."
    return window


def _kaiser(M: Any, beta: Any) -> Any:
    """Return numpy's window kaiser of M points."""
    return np.kaiser(whole(M), float(plain(beta)))


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "full": _full, "eye": _eye, "identity": _eye,
    "arange": _arange, "linspace": _linspace, "onehot": _onehot, "tri": _tri, "fftfreq": _fftfreq, "rfftfreq": _rfftfreq,
    "bartlett": _window(np.bartlett), "blackman": _window(np.blackman), "hamming": _window(np.hamming),
    "hanning": _window(np.hanning), "kaiser": _kaiser,
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
    if name == "tri":
        rows = int(plain(given["N"]))
        return rows * (rows if given.get("M") is None else int(plain(given["M"])))
    if "M" in given:
        return int(plain(given["M"]))
    if name in ("onehot", "linspace", "fftfreq", "rfftfreq"):
        return int(plain(given.get("n", given.get("num", 50))))
    bounds = [float(plain(x)) for x in given.get("bounds", ())]
    if not bounds:
        raise ValueError("arange needs an end")
    start, stop, step = (0.0, bounds[0], 1.0) if len(bounds) == 1 else (*bounds, 1.0)[:3]
    if step == 0 or not math.isfinite((stop - start) / step):
        raise ValueError("arange needs a step that is not 0, and finite bounds")
    return max(0, math.ceil((stop - start) / step))


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
    return {name: function for name, function in found.items() if name not in REASONS}


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
