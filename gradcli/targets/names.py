"""The names that an expression can use: what has a rule or a handler, and constants; what is left out has a reason here."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcli.errors import BadExpression, BadShape, NotSupported
from gradcli.rules import composites, linalg, networks, reductions
from gradcli.rules.constants import MODULES
from gradcli.rules.special import COMPOSITES, ORDERS, SAME
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive, Value, handler_of
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, plain_value

Call = Callable[..., Any]


def _torch_reduction(f: Call) -> Call:
    return lambda input, axis=None, keepdims=False: f(input, axis=axis, keepdims=keepdims)


def _torch_along_axis(f: Call) -> Call:
    return lambda input, axis: f(input, axis=axis)


def _torch_quantile(f: Call) -> Call:
    return lambda input, q, axis=None, keepdims=False: f(input, q, axis=axis, keepdims=keepdims)


def _torch_extreme(name: str, whole: Call, pair: Call) -> Call:
    def extreme(input: Value, other: Value | None = None) -> Value:
        if other is None:
            return whole(input)
        if not shape(other):
            raise NotSupported(f"torch.{name} along an axis has two results", do=f"write torch.a{name}(x, dim)")
        return pair(input, other)

    return extreme


def _torch_variance(f: Call) -> Call:
    def variance(
        input: Value, axis: Any = None, unbiased: Any = True, keepdims: bool = False, *, correction: Any = None
    ) -> Value:
        if isinstance(axis, bool):
            axis, unbiased = None, axis
        return f(input, axis=axis, ddof=int(bool(unbiased)) if correction is None else correction, keepdims=keepdims)

    return variance


def _vector_norm(x: Value, ord: Any = 2, axis: Any = None, keepdims: bool = False) -> Value:
    if axis is None:
        y = linalg.norm(np.ravel(x), ord)
        return np.reshape(y, (1,) * len(shape(x))) if keepdims else y
    if isinstance(axis, list | tuple):
        over = [k % len(shape(x)) for k in axis]
        rest = [k for k in range(len(shape(x))) if k not in over]
        flat = np.reshape(np.transpose(x, (*rest, *over)), (*(shape(x)[k] for k in rest), -1))
        y = linalg.norm(flat, ord, axis=-1)
        return np.reshape(y, [1 if k in over else n for k, n in enumerate(shape(x))]) if keepdims else y
    return linalg.norm(x, ord, axis=axis, keepdims=keepdims)


def _norm(input: Value, p: Any = "fro", axis: Any = None, keepdims: bool = False) -> Value:
    if p == "nuc":
        return linalg.norm(input, "nuc", axis=axis, keepdims=keepdims)
    return _vector_norm(input, 2 if p in (None, "fro") else p, axis, keepdims)


def _median(input: Value) -> Value:
    flat = np.sort(np.ravel(input))
    return flat[(shape(flat)[0] - 1) // 2]


def _round(input: Value, *, decimals: int = 0) -> Value:
    return np.round(input, decimals)


def _clamp(input: Value, min: Value | None = None, max: Value | None = None) -> Value:
    return np.clip(input, min, max)


def _cross(input: Value, other: Value, axis: int | None = None) -> Value:
    found = next((k for k, n in enumerate(shape(input)) if n == 3), -1) if axis is None else axis
    return np.cross(input, other, axis=found)


# --- torch.nn.functional ------------------------------------------------------------------------------------------------


def _with_implicit_axis(f: Call) -> Call:
    """Return a softmax whose axis is 0 for a vector and 1 for a matrix where none is given, as torch has it."""

    def along(input: Value, axis: int | None = None) -> Value:
        return f(input, axis=(0 if len(shape(input)) in (0, 1, 3) else 1) if axis is None else axis)

    return along


def _last_axes(x: Value, normalized_shape: Any) -> tuple[int, ...]:
    sizes = tuple(normalized_shape) if isinstance(normalized_shape, list | tuple) else (normalized_shape,)
    if shape(x)[-len(sizes) :] != sizes:
        raise ValueError(f"the last axes have the lengths {shape(x)[-len(sizes) :]}, and normalized_shape is {sizes}")
    return tuple(range(-len(sizes), 0))


def _layer_norm(
    input: Value, normalized_shape: Any, weight: Value | None = None, bias: Value | None = None, eps: Value = 1e-5
) -> Value:
    y = FUNCTIONS["standardize"](input, _last_axes(input, normalized_shape), eps)
    return _scale_and_shift(y, weight, bias)


def _rms_norm(input: Value, normalized_shape: Any, weight: Value | None = None, eps: Value | None = None) -> Value:
    over = _last_axes(input, normalized_shape)
    least = float(np.finfo(np.float64).eps) if eps is None else eps
    return _scale_and_shift(input / np.sqrt(np.mean(np.square(input), axis=over, keepdims=True) + least), weight, None)


def _scale_and_shift(y: Value, weight: Value | None, bias: Value | None) -> Value:
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def _weight_and_bias(weight: Value | None, bias: Value | None) -> tuple[Value, Value]:
    return (1.0 if weight is None else weight), (0.0 if bias is None else bias)


def _batch_norm(
    input: Value, running_mean: Value | None, running_var: Value | None, weight: Value | None = None,
    bias: Value | None = None, training: bool = False, momentum: Value = 0.1, eps: Value = 1e-5,
) -> Value:  # fmt: skip
    if training:
        return networks.batch_norm(input, *_weight_and_bias(weight, bias), eps)
    if running_mean is None or running_var is None:
        raise ValueError("batch_norm takes a running mean and a running variance unless training is True")
    mean, variance = _along_channels(running_mean, input), _along_channels(running_var, input)
    w, b = (_along_channels(x, input) if shape(x) else x for x in _weight_and_bias(weight, bias))
    return w * (input - mean) / np.sqrt(variance + eps) + b


def _along_channels(x: Value, input: Value) -> Value:
    return np.reshape(x, (-1, *(1,) * (len(shape(input)) - 2)))


def _softplus(input: Value, beta: Value = 1.0, threshold: Value = 20.0) -> Value:
    scaled = input * beta
    return np.where(np.greater(scaled, threshold), input, composites.softplus(scaled) / beta)


def _prelu(input: Value, weight: Value) -> Value:
    several = shape(weight) and len(shape(input)) > 1
    return networks.prelu(input, _along_channels(weight, input) if several else weight)


def _cross_entropy(input: Value, target: Value, *, reduction: str = "mean", label_smoothing: Value = 0.0) -> Value:
    axis = 0 if len(shape(input)) == 1 else 1
    classes = shape(input)[axis]
    if len(shape(target)) < len(shape(input)):
        target = np.moveaxis(networks.one_hot(target, classes), -1, axis)
    target = target * (1 - label_smoothing) + label_smoothing / classes
    return reductions.reduce_loss(-np.sum(target * reductions.log_softmax(input, axis), axis=axis), reduction)


def _nll_loss(input: Value, target: Value, *, reduction: str = "mean") -> Value:
    axis = 0 if len(shape(input)) == 1 else 1
    picked = np.moveaxis(networks.one_hot(target, shape(input)[axis]), -1, axis)
    return reductions.reduce_loss(-np.sum(picked * input, axis=axis), reduction)


def _attention(
    query: Value, key: Value, value: Value, attn_mask: Value | None = None, *, is_causal: bool = False,
    scale: Value | None = None,
) -> Value:  # fmt: skip
    mask = 0.0 if attn_mask is None else plain_value(attn_mask)
    if np.all(np.isin(mask, (0.0, 1.0))) and np.any(mask == 1.0):
        says = "a mask of truth values is added to the scores here, and torch leaves out what is False"
        raise NotSupported(says, do="write where(mask, 0, -inf)")
    return networks.scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale)


def _hinge_embedding_loss(input: Value, target: Value, margin: Value = 1.0, *, reduction: str = "mean") -> Value:
    far = np.where(np.equal(target, 1), 0.0, composites.relu(margin - input))
    return reductions.reduce_loss(far + np.where(np.equal(target, -1), 0.0, input), reduction)


def _cosine_embedding_loss(
    input1: Value, input2: Value, target: Value, margin: Value = 0.0, *, reduction: str = "mean"
) -> Value:
    cosine = networks.cosine_similarity(input1, input2)
    near = np.where(np.equal(target, 1), 1 - cosine, 0.0)
    return reductions.reduce_loss(
        near + np.where(np.equal(target, -1), composites.relu(cosine - margin), 0.0), reduction
    )


def _loss_of_target(f: Call) -> Call:
    return lambda input, target, *, reduction="mean": f(input, target, reduction=reduction)


# --- the tables ---------------------------------------------------------------------------------------------------------


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


def counts_as_floats(function: Callable[..., Any]) -> Callable[..., Value]:
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
    _check_axis(x, axis)
    n, place = shape(x)[axis], plain_value(k)
    if shape(k) or place != np.floor(place) or not 0 <= place < n:
        says = f"an index is a whole number from 0 to {n - 1}, not {_number_or_array(place)}"
        raise BadExpression(says, do="give the index a whole number")
    if not isinstance(k, Tracer):
        return x[(*(slice(None),) * axis, int(place))]
    here = (k == np.arange(n, dtype=float)) * 1.0
    return np.sum(x * np.reshape(here, (n, *(1,) * (len(shape(x)) - axis - 1))), axis=axis)


def _check_axis(x: Value, axis: int) -> None:
    """Raise BadShape where an array has no such axis."""
    if axis >= len(shape(x)):
        says = f"an index of axis {axis} needs an array of more axes than {len(shape(x))}"
        raise BadShape(says, do="give the array its axes, or leave the index out")


def span_at(x: Value, start: Value, stop: Value, axis: int) -> Value:
    """Return the entries of x from a start to a stop along an axis: whole numbers that are not differentiated by, or None.

    Raises  BadShape where there is no such axis; BadExpression for anything but whole numbers.
    """
    _check_axis(x, axis)
    bounds = [None if k is None else plain_value(k) for k in (start, stop)]
    for bound in bounds:
        if bound is not None and (np.ndim(bound) or bound != np.floor(bound)):
            says = f"a bound of a slice is a whole number, not {_number_or_array(bound)}"
            raise BadExpression(says, do="give the bound a whole number")
    span = slice(*(None if bound is None else int(bound) for bound in bounds))
    return x[(*(slice(None),) * axis, span)]


def _number_or_array(x: Any) -> str:
    return "an array" if np.ndim(x) else f"{float(x):g}"


def matrix_power(a: Value, n: Value) -> Value:
    """Return a product of n equal matrices. Raises BadExpression for anything but a whole number."""
    exponent = plain_value(n)
    if np.ndim(exponent) or exponent != np.floor(exponent):
        says = f"a matrix has whole powers, not {_number_or_array(exponent)}"
        raise BadExpression(says, do="write the power out: matrix_power(X, 3)")
    return np.linalg.matrix_power(a, int(exponent))


def _positional_signature(count: int) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(f"x{k + 1}", kind) for k in range(count)])


class OfScipy:
    """A function of scipy.special that is made of others: scipy's own on plain numbers, its composite on traced ones."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    @property
    def __signature__(self) -> inspect.Signature:
        return _positional_signature(len(inspect.signature(COMPOSITES[self.__name__]).parameters))

    def __call__(self, *xs: Value) -> Value:
        import scipy.special

        function = getattr(scipy.special, self.__name__)
        if any(isinstance(x, Tracer) for x in xs):
            return handler_of(function)(*xs)
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
    return np.take_along_axis(arr, np.asarray(plain_value(indices), dtype=int), axis)


def with_number_condition(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return numpy's compress or extract with a condition of numbers, which holds where they are not 0."""

    @functools.wraps(function)
    def choose(condition: Any, *args: Any, **kwargs: Any) -> Any:
        return function(np.not_equal(plain_value(condition), 0), *args, **kwargs)

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
    "var": reductions.var, "std": reductions.std, "norm": linalg.norm, "vdot": linalg.vdot,
    "logdet": linalg.logdet, "vec": linalg.vec, "einsum": linalg.einsum,
    "expm": linalg.expm, "expm_frechet": linalg.expm_frechet,
    "logm": linalg.logm, "sqrtm": linalg.sqrtm,
    "zeros_like": HANDLERS[np.zeros_like], "ones_like": HANDLERS[np.ones_like], "power": np.power, "float_power": np.power,
    "cross": HANDLERS[np.cross],  # numpy's takes vectors of 2 entries too, which it gives up
    "matrix_power": matrix_power,
    "pad": pad, "select": select, "take_along_axis": take_along_axis,
    "compress": with_number_condition(np.compress), "extract": with_number_condition(np.extract),
}  # fmt: skip
_COUNTING = (
    np.any, np.all, np.count_nonzero, np.isclose, np.allclose, np.array_equal, np.array_equiv, np.isneginf, np.isposinf,
    np.linalg.matrix_rank,
)  # fmt: skip
_TRUTHS = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "isnan", "isfinite", "isinf", "signbit",
}  # fmt: skip


def _functions_of_numpy() -> dict[str, Callable[..., Any]]:
    """Return numpy's functions that have a handler: the row itself where that is one, else numpy's function."""
    found: dict[str, Callable[..., Any]] = {}
    # read off the modules' own names: getattr would load numpy's lazy submodules
    named = [pair for module in MODULES.values() for pair in vars(module).items()]
    named += [(f.__name__, f) for f in HANDLERS if (getattr(f, "__module__", None) or "").startswith("numpy")]
    for name, function in named:
        if callable(function) and not isinstance(function, type) and function in HANDLERS:
            row = HANDLERS[function]
            found.setdefault(name, row if isinstance(row, Primitive) else function)
    return found


# What gradcli differentiates in Python code and an expression cannot call, each with the reason.
#
# Every other function with a rule or a handler is in the language; a test finds one that is neither there nor here.


class Missing(NamedTuple):
    """Why functions are not in the language, what to write instead, and which functions they are."""

    why: str
    do: str
    names: str


# fmt: off
LEFT_OUT: tuple[Missing, ...] = (
    Missing("it takes a Python function", "write the formula itself", "apply_along_axis apply_over_axes piecewise"),
    Missing("it writes into its argument", "write where(...), or concatenate([...])",
            "copyto fill_diagonal place put_along_axis putmask setitem put"),
    Missing("it is about types or memory", "leave it out: every value is an array of float64",
            "astype can_cast common_type iscomplexobj isrealobj isscalar may_share_memory min_scalar_type real_if_close "
            "result_type shares_memory asanyarray ascontiguousarray complex"),
    Missing("it writes a text", "leave it out", "array2string array_repr array_str"),
    Missing("the entries of its result are not defined", "write zeros_like(x)", "empty_like"),
    Missing("its result is a size", "write the number, or mean(...) for a sum divided by it", "shape ndim size"),
    Missing("its result is a list of positions whose length depends on the values", "multiply by a comparison: x*(x > 0)",
            "nonzero argwhere flatnonzero"),
    Missing("its result is a set of positions", "write tril(A), triu(A) or diag(A)",
            "diag_indices_from tril_indices_from triu_indices_from"),
    Missing("it takes an array of integers", "write comparisons: sum(w*(k == 2))", "bincount choose"),
    Missing("it takes or returns exponents as integers", "write x*2**n, or log2(abs(x))", "frexp ldexp"),
    Missing("it is about complex numbers, and inputs are real", "compare imag(x) with 0", "iscomplex isreal"),
    Missing("eigenvalues of a matrix that is not symmetric may be complex, or have no derivative",
            "write eigvalsh(A) for a symmetric matrix", "eig eigvals"),
    Missing("it has four complex-valued results", "write jv, yv, iv or kv of order 1/3", "airy"),
    Missing("scipy has no derivative of the zeta function", "write polygamma(n, x) for sums of powers 1/(k + x)**n", "zetac"),
    Missing("it is the part of others that indexes", "write x[0] or x[1:]", "getitem"),
    Missing("it is a part of other functions", "write the function that contains it",
            "scatter peaks integer_power eigenvectors singular_vectors dft_cos dft_sin si ci shi chi fresnel_s fresnel_c "
            "eigenvector_signs singular_vector_signs solution gammainc_order"),
)
# fmt: on
REASONS: dict[str, Missing] = {name: row for row in LEFT_OUT for name in row.names.split()}


# Constructors: arrays that are made of sizes and plain numbers, which an expression and a point can contain.


def whole_number(x: Any) -> int:
    """Return a size or a position as an int. Raises ValueError unless it is an integer."""
    number = float(plain_value(x)) if not isinstance(x, str) else float("nan")
    if not number.is_integer():
        raise ValueError(f"{x} is not a whole number")
    return int(plain_value(x))


def shape_from_sizes(*sizes: Any) -> tuple[int, ...]:
    """Return a shape given as sizes, or as one list of them. Raises ValueError for a negative or fractional size."""
    parts = sizes[0] if len(sizes) == 1 and np.ndim(sizes[0]) == 1 else sizes
    found = tuple(whole_number(n) for n in parts)
    if any(n < 0 for n in found):
        raise ValueError("a size is negative")
    return found


def _shape_in_brackets(shape: Any) -> tuple[int, ...]:
    return shape_from_sizes(shape) if np.ndim(shape) == 0 else shape_from_sizes(*shape)


def _full(shape: Any, value: Value) -> Any:
    wanted = _shape_in_brackets(shape)
    return np.broadcast_to(value, wanted) if wanted else value


def _onehot(k: Any, n: Any) -> Any:
    """Return the k-th row of the identity matrix of n rows, k from 0."""
    if not 0 <= whole_number(k) < whole_number(n):
        raise ValueError(f"position {whole_number(k)} is not in 0 to {whole_number(n) - 1}")
    return np.eye(1, whole_number(n), whole_number(k))[0]


def _make_window(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda M: make(whole_number(M))


# fmt: off
CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "zeros":    lambda shape=(): np.zeros(_shape_in_brackets(shape))[()],
    "ones":     lambda shape=(): np.ones(_shape_in_brackets(shape))[()],
    "full":     _full,
    "eye":      lambda n: np.eye(whole_number(n)),
    "identity": lambda n: np.eye(whole_number(n)),
    "onehot":   _onehot,
    "tri":      lambda N, M=None, k=0: np.tri(whole_number(N), None if M is None else whole_number(M), whole_number(k)),
    "arange":   lambda *bounds: np.arange(*map(plain_value, bounds), dtype=float),
    "linspace": lambda start, stop, num=50: np.linspace(plain_value(start), plain_value(stop), whole_number(num)),
    "fftfreq":  lambda n, d=1.0: np.fft.fftfreq(whole_number(n), float(plain_value(d))),
    "rfftfreq": lambda n, d=1.0: np.fft.rfftfreq(whole_number(n), float(plain_value(d))),
    "bartlett": _make_window(np.bartlett),
    "blackman": _make_window(np.blackman),
    "hamming":  _make_window(np.hamming),
    "hanning":  _make_window(np.hanning),
    "kaiser":   lambda M, beta: np.kaiser(whole_number(M), float(plain_value(beta))),
}
# fmt: on


def _table_of_functions() -> dict[str, Callable[..., Any]]:
    """Return every function by its names; later tables take precedence."""
    shown = [row for row in PRIMITIVES.values() if row.kind in ("elementwise", "constant")]
    found: dict[str, Callable[..., Any]] = {name: OfScipy(name) for name in COMPOSITES}
    found |= {row.name: row for row in shown}
    found |= _functions_of_numpy()
    found |= {name: PRIMITIVES[row] for name, row in SAME.items()}
    found |= {
        name: x
        for name, x in vars(networks).items()
        if inspect.isfunction(x) and x.__module__ == networks.__name__ and not name.startswith("_")
    }
    found |= CONSTRUCTORS | _OURS | {"linspace": np.linspace}
    found |= {name: as_number(row.fun) for name, row in PRIMITIVES.items() if row.constant and name in _TRUTHS}
    found |= {function.__name__: counts_as_floats(function) for function in _COUNTING}
    found |= {alias: found[name] for alias, name in ALIASES.items()}
    return {name: function for name, function in found.items() if name not in REASONS}


FUNCTIONS = _table_of_functions()


def function_along_axis(name: str) -> Callable[..., Any] | None:
    """Return what formulas print as `softmax_rows` or `softmax_columns`: a function along an axis; None for other names."""
    base, _, word = name.rpartition("_")
    axis = {"rows": 1, "columns": 0}.get(word)
    signature = call_signature(FUNCTIONS[base]) if axis is not None and base in FUNCTIONS else None
    if signature is None or "axis" not in signature.parameters:
        return None
    return lambda X: FUNCTIONS[base](X, axis=axis)


def call_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature to check a call against, or None if the function has none."""
    function = HANDLERS.get(function, function)
    rules = getattr(function, "rules", None)
    if rules is not None:
        return _positional_signature(len(rules) or getattr(getattr(function, "fun", None), "nin", 1))
    try:
        return inspect.signature(function)
    except ValueError:
        return None


# The names after `torch.` and `F.`, with torch's parameters and defaults; other names are refused there.
#
# A name that means the same in torch as it does alone, for the arguments that both take, is in a list; the others have a
# function here. `dim` and `keepdim` are spelled `axis` and `keepdims` before a call is read.


def _look_up_functions(words: str) -> dict[str, Call]:
    return {name: FUNCTIONS[name] for name in words.split()}


_LAYERS: dict[str, Call] = {
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "prelu": _prelu,
    "group_norm": lambda input, num_groups, weight=None, bias=None, eps=1e-5: networks.group_norm(
        input, num_groups, *_weight_and_bias(weight, bias), eps
    ),
    "cosine_similarity": lambda x1, x2, axis=1, eps=1e-8: networks.cosine_similarity(x1, x2, axis, eps),
    **_look_up_functions("relu selu celu hardshrink threshold pairwise_distance sigmoid tanh"),
}  # fmt: skip
_TORCH: dict[str, Call] = {
    **_look_up_functions(
        "abs absolute acos acosh add all allclose angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin "
        "asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d bmm broadcast_to cat ceil cholesky column_stack concat "
        "concatenate conj copysign corrcoef cos cosh count_nonzero deg2rad det diag diagflat diagonal diff digamma dist divide "
        "dot dsplit dstack einsum equal erf erfc erfinv exp exp2 expm1 eye fix flip fliplr flipud float_power floor "
        "floor_divide fmax fmin fmod frac full full_like ger greater greater_equal heaviside hsplit hstack hypot i0 igamma "
        "igammac imag inner inverse isclose isfinite isinf isnan isneginf isposinf kron lerp less less_equal lgamma linspace "
        "log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit masked_fill matmul "
        "matrix_exp matrix_power maximum minimum mm moveaxis movedim multiply mv mvlgamma neg negative not_equal ones_like "
        "outer permute pinverse polygamma positive pow rad2deg ravel real reciprocal remainder reshape roll rot90 rsqrt sgn "
        "sign signbit sin sinc sinh slogdet sqrt square squeeze stack subtract swapaxes swapdims tan tensordot tile trace tril "
        "triu true_divide trunc unsqueeze vdot vsplit vstack where xlogy zeros_like"
    ),
    **{name: _torch_reduction(FUNCTIONS[name]) for name in ("sum", "mean", "prod", "nansum", "nanmean", "argmax", "argmin")},
    "amax": _torch_reduction(FUNCTIONS["max"]), "amin": _torch_reduction(FUNCTIONS["min"]),
    **{name: _torch_along_axis(FUNCTIONS[name]) for name in ("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax")},
    **_LAYERS, "logsumexp": lambda input, axis, keepdims=False: reductions.logsumexp(input, axis, keepdims),
    "var": _torch_variance(reductions.var), "std": _torch_variance(reductions.std), "norm": _norm, "median": _median,
    "quantile": _torch_quantile(np.quantile), "nanquantile": _torch_quantile(np.nanquantile), "round": _round, "clamp": _clamp,
    "clip": _clamp, "max": _torch_extreme("max", np.max, np.maximum), "min": _torch_extreme("min", np.min, np.minimum),
    "cross": _cross, "logdet": lambda input: np.log(np.linalg.det(input)),
    "transpose": lambda input, dim0, dim1: np.swapaxes(input, dim0, dim1),
    "cov": lambda input, *, correction=1: np.cov(input, ddof=correction),
    "nan_to_num": lambda input, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        input, nan=nan, posinf=posinf, neginf=neginf
    ),
    "trapezoid": lambda y, x=None: np.trapezoid(y, x), "trapz": lambda y, x=None: np.trapezoid(y, x),
    "argsort": lambda input, axis=-1: np.argsort(input, axis=axis),
}  # fmt: skip
_LINALG: dict[str, Call] = {
    **_look_up_functions(
        "cholesky cond det eigh eigvalsh inv matmul matrix_exp matrix_power multi_dot pinv qr slogdet solve svd svdvals "
        "tensorinv vecdot"),
    "norm": lambda A, ord=None, axis=None, keepdims=False: linalg.norm(A, ord, axis=axis, keepdims=keepdims),
    "vector_norm": _vector_norm,
    "matrix_norm": lambda A, ord="fro": linalg.norm(A, ord, axis=(-2, -1)),
    "cross": lambda input, other, *, axis=-1: np.cross(input, other, axis=axis),
    "diagonal": lambda A, *, offset=0: np.diagonal(A, offset, -2, -1),
}  # fmt: skip
_SPECIAL: dict[str, Call] = {
    **_look_up_functions(
        "digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr logit "
        "multigammaln ndtr ndtri polygamma psi sinc xlog1py xlogy"),
    "softmax": _torch_along_axis(reductions.softmax), "log_softmax": _torch_along_axis(reductions.log_softmax),
    "logsumexp": _TORCH["logsumexp"], "round": _round,
}  # fmt: skip
_FFT = _look_up_functions(
    "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
)
_FUNCTIONAL: dict[str, Call] = {
    **_LAYERS,
    **_look_up_functions(
        "elu embedding gaussian_nll_loss gelu glu hardsigmoid hardswish hardtanh huber_loss leaky_relu logsigmoid mish "
        "one_hot relu6 silu softshrink softsign tanhshrink"),
    "batch_norm": _batch_norm, "softplus": _softplus,
    "instance_norm": lambda input, *, weight=None, bias=None, eps=1e-5: networks.instance_norm(
        input, *_weight_and_bias(weight, bias), eps
    ),
    "normalize": lambda input, p=2.0, axis=1, eps=1e-12: networks.normalize(input, p, axis, eps),
    "linear": lambda input, weight, bias=None: networks.linear(input, weight, 0.0 if bias is None else bias),
    "softmax": _with_implicit_axis(reductions.softmax), "log_softmax": _with_implicit_axis(reductions.log_softmax),
    "softmin": _with_implicit_axis(networks.softmin), "scaled_dot_product_attention": _attention,
    "cross_entropy": _cross_entropy, "nll_loss": _nll_loss,
    "poisson_nll_loss": lambda input, target, log_input=True, *, eps=1e-8, reduction="mean": networks.poisson_nll_loss(
        input, target, log_input, eps, reduction
    ),
    **{name: _loss_of_target(getattr(networks, name))
       for name in ("mse_loss", "l1_loss", "binary_cross_entropy", "soft_margin_loss")},
    "smooth_l1_loss": lambda input, target, *, reduction="mean", beta=1.0: networks.smooth_l1_loss(
        input, target, reduction, beta
    ),
    "binary_cross_entropy_with_logits": lambda input, target, *, reduction="mean", pos_weight=1.0: (
        networks.binary_cross_entropy_with_logits(input, target, reduction, pos_weight)
    ),
    "kl_div": lambda input, target, *, reduction="mean", log_target=False: networks.kl_div_loss(
        input, target, reduction, log_target
    ),
    "hinge_embedding_loss": _hinge_embedding_loss, "cosine_embedding_loss": _cosine_embedding_loss,
    "margin_ranking_loss": lambda input1, input2, target, margin=0.0, *, reduction="mean": (
        networks.margin_ranking_loss(input1, input2, target, margin, reduction)
    ),
    "triplet_margin_loss": lambda anchor, positive, negative, margin=1.0, p=2, *, reduction="mean": (
        networks.triplet_margin_loss(anchor, positive, negative, margin, p, reduction)
    ),
}  # fmt: skip
OF_TORCH: Mapping[str, Mapping[str, Call]] = {
    "torch": _TORCH, "torch.linalg": _LINALG, "torch.special": _SPECIAL, "torch.fft": _FFT, "F": _FUNCTIONAL,
    "torch.nn.functional": _FUNCTIONAL,
}  # fmt: skip
