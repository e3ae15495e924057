"""Elementwise functions of one, two or three values."""

from functools import reduce
from typing import Any

import numpy as np

from gradcli.frameworks.ops.elementwise import by_framework_name
from gradcli.frameworks.torch.aten.rows import (
    allow_scalars,
    at_axis,
    aten,
    axes,
    axis,
    missing_rule,
    reduce_loss,
    register,
    scale_by,
)
from gradcli.rules import composites
from gradcli.rules.composites import relu, sigmoid, silu, softplus
from gradcli.rules.elementwise import pi
from gradcli.rules.reductions import log_softmax, softmax
from gradcli.rules.reductions import logsumexp as _logsumexp
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain_value

# fmt: off
register(by_framework_name(
    same="abs neg square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinc "
    "sinh cosh tanh asinh acosh atanh deg2rad rad2deg angle floor ceil trunc sign mul hypot copysign fmax fmin remainder "
    "floor_divide logaddexp logaddexp2 eq ne lt le gt ge logical_and logical_or logical_xor logical_not gcd lcm signbit where "
    "erf erfc digamma igamma igammac xlogy matmul dot outer",
    renamed="sgn=sign maximum=max minimum=min fmod=rem bitwise_and=and bitwise_or=or bitwise_xor=xor bitwise_not=not "
    "bitwise_left_shift=shift_left bitwise_right_shift=shift_right_arithmetic isnan=is_nan isinf=is_inf isfinite=is_finite "
    "isposinf=is_posinf isneginf=is_neginf erfinv=erf_inv special_erfcx=erfcx special_ndtri=ndtri special_log_ndtr=log_ndtr "
    "special_entr=entr special_ndtr=ndtr i0=bessel_i0 special_i0e=bessel_i0e special_i1=bessel_i1 special_i1e=bessel_i1e "
    "special_bessel_j0=bessel_j0 special_bessel_j1=bessel_j1 special_bessel_y0=bessel_y0 special_bessel_y1=bessel_y1 "
    "special_modified_bessel_i0=bessel_i0 special_modified_bessel_i1=bessel_i1 "
    "special_modified_bessel_k0=bessel_k0 special_modified_bessel_k1=bessel_k1 "
    "special_scaled_modified_bessel_k0=bessel_k0e special_scaled_modified_bessel_k1=bessel_k1e positive=identity "
    "special_xlog1py=xlog1py "
    "mm=matmul bmm=matmul mv=matmul vdot=matmul",
))
register({
    "round": lambda x, *, decimals=0: np.round(x, decimals), "frac": lambda x: x - np.trunc(x),
    "lerp": lambda start, end, weight: start + weight * (end - start),
    "add": lambda x, y, alpha=1: np.add(x, scale_by(y, alpha)), "sub": lambda x, y, alpha=1: np.subtract(x, scale_by(y, alpha)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "frexp": lambda x: tuple(np.frexp(x)), "nextafter": lambda x, y: _next_float(x, y), "ldexp": lambda x, n: x * np.exp2(n),
    "_is_all_true": np.all, "_is_any_true": np.any, "isclose": np.isclose,
    "lgamma": lambda x: _log_gamma(x),
    "polygamma": lambda n, x: primitive_by_name("polygamma")(x, n=n) if n else primitive_by_name("digamma")(x),
    "special_spherical_bessel_j0": lambda x: np.sinc(x / pi(x)),
    "special_hermite_polynomial_h": lambda x, n: _evaluate_polynomial("hermite", x, n),
    "special_hermite_polynomial_he": lambda x, n: _evaluate_polynomial("hermitenorm", x, n),
    "special_laguerre_polynomial_l": lambda x, n: _evaluate_polynomial("laguerre", x, n),
    "special_legendre_polynomial_p": lambda x, n: _evaluate_polynomial("legendre", x, n),
})
for chebyshev, x_of in (("chebyshev_polynomial", lambda x: x), ("shifted_chebyshev_polynomial", lambda x: 2 * x - 1)):
    register({
        f"special_{chebyshev}_t": lambda x, n, at=x_of: _evaluate_polynomial("chebyt", at(x), n),
        f"special_{chebyshev}_u": lambda x, n, at=x_of: _evaluate_polynomial("chebyu", at(x), n),
        f"special_{chebyshev}_v": lambda x, n, at=x_of: _evaluate_polynomial("chebyu", at(x),
            n) - _one_degree_lower("chebyu", at(x), n),
        f"special_{chebyshev}_w": lambda x, n, at=x_of: _evaluate_polynomial("chebyu", at(x),
            n) + _one_degree_lower("chebyu", at(x), n),
    })
# fmt: on


def _evaluate_polynomial(name: str, x: Value, n: Any) -> Value:
    """Return the polynomial of a family (`name`) of integer degree n; 0 for a negative degree."""
    degree = np.trunc(plain_value(n)).astype(int)
    return np.where(degree < 0, 0.0, primitive_by_name(f"eval_{name}")(np.maximum(degree, 0), x))


def _one_degree_lower(name: str, x: Value, n: Any) -> Value:
    return _evaluate_polynomial(name, x, np.subtract(n, 1))


def _log_gamma(x: Value) -> Value:
    """Return log(abs(gamma(x))), by reflection left of 1/2, because the primitive is not declared left of 0."""
    left = np.less(plain_value(x), 0.5)
    if not np.any(left):
        return primitive_by_name("gammaln")(x)
    reflected = np.where(left, 1 - x, x)
    fraction = np.where(left, x - np.floor(plain_value(x)), 0.5)
    by_reflection = np.log(pi(x) / np.abs(np.sin(pi(x) * fraction))) - primitive_by_name("gammaln")(reflected)
    return np.where(left, by_reflection, primitive_by_name("gammaln")(reflected))


def _next_float(x: Value, y: Value) -> Value:
    """Return the next float64 after x towards y, as x plus a constant, so that its derivative with respect to x is 1."""
    return x + (np.nextafter(plain_value(x), plain_value(y)) - plain_value(x))


@aten()
def pow(x: Value, p: Value) -> Value:
    """Return x to the power p."""
    return np.power(x, p)


@aten("div")
def div(x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """Return x / y, rounded down or towards zero if `rounding_mode` says so."""
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(np.divide(x, y)) if rounding_mode == "trunc" else np.divide(x, y)


@aten("clamp")
def clamp(x: Value, min: Value = None, max: Value = None) -> Value:
    """Return min(max(x, min), max)."""
    y = x if min is None else np.maximum(x, min)
    return y if max is None else np.minimum(y, max)


@aten()
def copy(x: Value, src: Value) -> Value:
    """Return `src` in the shape of x."""
    if shape(src) != shape(x):
        return np.broadcast_to(src, shape(x))
    return np.positive(src) if src.dtype != np.bool_ else np.array(src)


# Activation functions of neural networks.


def _exponential_linear(x: Value, alpha: float, scale: float = 1, input_scale: float = 1) -> Value:
    """Return scale * x right of 0, and scale * alpha * expm1(input_scale * x) left of it."""
    left = np.expm1(input_scale * np.where(np.greater(x, 0), 0.0, x))
    return np.where(np.greater(x, 0), scale * x, scale * alpha * left)


# fmt: off
register({
    "relu": relu, "sigmoid": sigmoid, "silu": silu, "mish": lambda x: x * np.tanh(softplus(x)),
    "gelu": lambda x, *, approximate="none": composites.gelu(x, approximate),
    "hardtanh": lambda x, low=-1, high=1: np.clip(x, low, high), 
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, 
    "log_sigmoid_forward": lambda x: (primitive_by_name("log_expit")(x), None), "log_sigmoid": primitive_by_name("log_expit"),
    "elu": lambda x, alpha=1, scale=1, input_scale=1: _exponential_linear(x, alpha, scale, input_scale),
    "leaky_relu": lambda x, slope=0.01: np.where(np.greater(x, 0), x, slope * x),
    "softshrink": lambda x, lambd=0.5: relu(x - lambd) - relu(-x - lambd),
    "hardshrink": lambda x, lambd=0.5: np.where(np.greater(np.abs(x), lambd), x, 0.0),
})
# fmt: on


@aten()
def glu(x: Value, dim: int = -1) -> Value:
    """Return the first half of an axis times the sigmoid of the second."""
    k = axis(dim, len(shape(x)))
    half = shape(x)[k] // 2
    first, second = (GETITEM(x, index=at_axis(k, part)) for part in (slice(None, half), slice(half, None)))
    return first * sigmoid(second)


@aten("softplus")
def _softplus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Return log(1 + exp(beta x)) / beta, or x where beta x is above the threshold, as torch does."""
    z = beta * x
    return np.where(np.greater(z, threshold), x, softplus(z) / beta)


@aten()
def rrelu_with_noise(
    x: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Value:
    """Return x right of 0, and x times the mean slope left of it. Raises NoRule in training, where slopes are drawn."""
    if training:
        raise missing_rule("rrelu in training", do="model.eval()")
    return np.where(np.greater(x, 0), x, (lower + upper) / 2 * x)


@aten("_softmax", "softmax")
def _softmax(x: Value, dim: int, half_to_float: Any = False) -> Value:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return softmax(x, axis(dim, len(shape(x))) if shape(x) else None) if size(x) else x


@aten("_log_softmax", "log_softmax")
def _log_softmax(x: Value, dim: int, half_to_float: Any = False) -> Value:
    """Return log(softmax(x)) along an axis."""
    return log_softmax(x, axis(dim, len(shape(x))) if shape(x) else None) if size(x) else x


# Loss functions. `reduction` is 0 for none, 1 for the mean and 2 for the sum.

MEAN = 1


@aten()
def mse_loss(x: Value, target: Value, reduction: int = MEAN) -> Value:
    """Return squared errors."""
    return reduce_loss(np.square(x - target), reduction)


@aten()
def smooth_l1_loss(x: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    """Return errors, of which those below `beta` are squared, so that the slope has no jump."""
    error = x - target
    small = np.less(np.abs(error), beta)
    return reduce_loss(np.where(small, 0.5 * np.square(error) / beta, np.abs(error) - 0.5 * beta), reduction)


@aten()
def huber_loss(x: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    """Return half of the squared errors, continued in a straight line from `delta` on."""
    error = x - target
    small = np.less(np.abs(error), delta)
    return reduce_loss(np.where(small, 0.5 * np.square(error), delta * (np.abs(error) - 0.5 * delta)), reduction)


@aten()
def soft_margin_loss(x: Value, target: Value, reduction: int = MEAN) -> Value:
    """Return log(1 + exp(-target x))."""
    return reduce_loss(np.log1p(np.exp(-target * x)), reduction)


@aten()
def binary_cross_entropy(x: Value, target: Value, weight: Value = None, reduction: int = MEAN) -> Value:
    """Return -log of the probability of the target; logarithms are at least -100, as torch has them."""
    losses = (target - 1) * np.maximum(np.log1p(-x), -100.0) - target * np.maximum(np.log(x), -100.0)
    return reduce_loss(losses if weight is None else losses * weight, reduction)


@aten("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(x: Value, target: Any, weight: Value, reduction: int, ignore_index: int) -> tuple[Value, Any]:
    """Return minus the entries of x at the right classes, weighted, and the sum of their weights, by which a mean divides.

    Shapes  x (batch, class, *places) or (class,); target (batch, *places) or (); weight (class,).
    """
    used = target != ignore_index
    classes = np.where(used, target, 0)
    places = list(np.indices(shape(target)))
    places.insert(1 if places else 0, classes)
    weights = np.where(used, 1.0 if weight is None else weight[classes], 0.0)
    losses = -weights * GETITEM(x, index=tuple(places))
    total = np.sum(weights)
    if not reduction:
        return losses, 0.0 if shape(target) else plain_value(total)
    return np.sum(losses) / (total if reduction == MEAN else 1.0), plain_value(total)


@aten()
def multi_margin_loss(
    x: Value, target: Any, p: float = 1, margin: float = 1, weight: Value = None, reduction: int = MEAN
) -> Value:
    """Return how far the scores of the other classes come within the margin of the right class.

    Shapes  x (batch, class) or (class,); target (batch,) or (), the right classes; weight (class,).
    """
    x = x if shape(x) else np.reshape(x, (1,))
    rows, labels = np.reshape(x, (-1, shape(x)[-1])), np.reshape(target, -1)
    count, classes = shape(rows)
    right = GETITEM(rows, index=(np.arange(count), labels))
    over = np.power(relu(margin - right[:, None] + rows), p)
    over = over if weight is None else over * weight[labels][:, None]
    losses = np.sum(np.where(np.arange(classes) == labels[:, None], 0.0, over), axis=-1) / classes
    return reduce_loss(np.reshape(losses, np.shape(target)) if len(shape(x)) > 1 else losses[0], reduction)


@aten()
def multilabel_margin_loss_forward(x: Value, target: Any, reduction: int = MEAN) -> tuple[Value, Any]:
    """Return how far wrong classes come within 1 of the right ones (those before the first -1), and a mask of the latter."""
    x = x if shape(x) else np.reshape(x, (1,))
    rows, labels = np.reshape(x, (-1, shape(x)[-1])), np.reshape(target, (-1, shape(x)[-1]))
    valid = np.cumprod(labels >= 0, axis=-1).astype(bool)
    is_right = np.zeros(labels.shape, dtype=bool)
    row, place = np.nonzero(valid)
    is_right[row, labels[row, place]] = True
    right = GETITEM(rows, index=(np.arange(len(labels))[:, None], np.where(valid, labels, 0)))
    over = relu(1 - right[:, :, None] + rows[:, None, :])
    losses = np.sum(np.where(valid[:, :, None] & ~is_right[:, None, :], over, 0.0), axis=(1, 2)) / shape(x)[-1]
    loss = reduce_loss(losses if len(shape(x)) > 1 else losses[0], reduction)
    return loss, np.reshape(is_right * 1.0, np.shape(target))


@aten("_ctc_loss")
def ctc_loss(
    x: Value, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> tuple[Value, None]:
    """Return the negative log-likelihood of label sequences, summed over alignments with blanks and repetitions.

    Shapes  x is (time, batch, class), logarithms of probabilities; targets (batch, length) or in one row.
    Source  Graves et al. (2006), Connectionist temporal classification, section 4.1.
    """
    lengths = [int(n) for n in np.ravel(target_lengths)]
    starts = np.cumsum([0, *lengths])
    losses = []
    for b, (time, length) in enumerate(zip(np.ravel(input_lengths), lengths, strict=True)):
        labels = targets[b, :length] if np.ndim(targets) == 2 else targets[starts[b] : starts[b] + length]
        loss = _sequence_loss(x[: int(time), b], np.asarray(labels), blank)
        losses.append(np.where(np.isinf(plain_value(loss)), 0.0, loss) if zero_infinity else loss)
    return np.stack(losses), None


def _sequence_loss(x: Value, labels: Any, blank: int) -> Any:
    """Return the negative log-likelihood of one sequence, by the forward algorithm over prefixes of the labels."""
    spread = np.full(2 * len(labels) + 1, blank)
    spread[1::2] = labels
    n = len(spread)
    skips = np.zeros(n, dtype=bool)
    skips[2:] = (spread[2:] != blank) & (spread[2:] != spread[:-2])
    reached: list[Value] = [x[0, int(spread[k])] if k < 2 else None for k in range(n)]
    for t in range(1, shape(x)[0]):
        before, reached = reached, []
        for k in range(n):
            ways = [before[j] for j in (k, k - 1, k - 2) if j >= 0 and (j != k - 2 or skips[k])]
            ways = [way for way in ways if way is not None]
            reached.append(reduce(np.logaddexp, ways) + x[t, int(spread[k])] if ways else None)
    ends = [y for y in reached[-2:] if y is not None]
    return -reduce(np.logaddexp, ends) if ends else np.float64(np.inf)


# Reductions over axes (sums, products, extremes, norms), and running operations along an axis.


@aten("sum")
def sum_(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the sum over axes."""
    return np.sum(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def mean(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the mean over axes."""
    return np.mean(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def prod(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Return the product of all entries, or along an axis."""
    return np.prod(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def var(x: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Value:
    """Return the variance over axes; the divisor is the number of entries minus the correction, which is 1 if `unbiased`."""
    over = axes(dim, x)
    count = size(x) // max(1, int(np.prod([n for k, n in enumerate(shape(x)) if k not in over], dtype=int)))
    free = max(0.0, count - float(int(unbiased) if correction is None else correction))
    y = np.sum(np.square(x - np.mean(x, axis=over, keepdims=True)), axis=over, keepdims=keepdim)
    return y / np.float64(free)


@aten()
def amax(x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Return the largest entries over axes."""
    return np.max(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def amin(x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Return the smallest entries over axes."""
    return np.min(x, axis=axes(dim, x), keepdims=keepdim)


def _position_of_extreme(find: Any, x: Value, dim: int, keepdim: bool) -> Any:
    return find(plain_value(x), axis=axis(dim, len(shape(x))), keepdims=keepdim) if shape(x) else np.int64(0)


@aten("max")
def max_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the maximum of all entries, or along an axis with its position, or of two tensors entry by entry."""
    if dim is None:
        return np.max(x)
    if not isinstance(dim, int):
        return np.maximum(x, dim)
    return amax(x, dim, keepdim), _position_of_extreme(np.argmax, x, dim, keepdim)


@aten("min")
def min_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the minimum of all entries, or along an axis with its position, or of two tensors entry by entry."""
    if dim is None:
        return np.min(x)
    if not isinstance(dim, int):
        return np.minimum(x, dim)
    return amin(x, dim, keepdim), _position_of_extreme(np.argmin, x, dim, keepdim)


@aten()
def argmax(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position of the largest entry."""
    return np.argmax(x, axis=dim, keepdims=keepdim) if shape(x) else np.int64(0)


@aten()
def argmin(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position of the smallest entry."""
    return np.argmin(x, axis=dim, keepdims=keepdim) if shape(x) else np.int64(0)


@aten()
def logsumexp(x: Value, dim: Any, keepdim: bool = False) -> Value:
    """Return log(sum(exp(x))) over axes."""
    over = axes(dim, x)
    top = plain_value(x)
    if np.all(np.isfinite(top)):
        return _logsumexp(x, over, keepdim)
    top = np.max(top, axis=over, keepdims=True)
    spread = np.sum(np.exp(x - np.where(np.isfinite(top), top, 0.0)), axis=over, keepdims=keepdim)
    return np.log(spread) + np.reshape(np.where(np.isfinite(top), top, 0.0), shape(spread))


@aten()
def linalg_vector_norm(x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the vector norm of the entries over all these axes together."""
    if not shape(x):
        return np.abs(x) if ord else np.not_equal(x, 0) * 1.0
    return np.linalg.vector_norm(x, ord=float(ord), axis=axes(dim, x), keepdims=keepdim)


@aten("any")
def any_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether any entry is not 0."""
    return np.any(x, axis=axes(dim, x), keepdims=keepdim)


@aten("all")
def all_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether no entry is 0."""
    return np.all(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def nonzero(x: Value) -> Any:
    """Return the positions of the entries that are not 0, one in each row."""
    return np.argwhere(x) if shape(x) else np.zeros((int(np.not_equal(x, 0)), 0), dtype=np.int64)


# Running operations.


@aten()
@allow_scalars
def cumsum(x: Value, dim: int) -> Value:
    """Return running sums."""
    return np.cumsum(x, axis=dim)


@aten()
@allow_scalars
def cumprod(x: Value, dim: int) -> Value:
    """Return running products."""
    return np.cumprod(x, axis=dim)


@aten()
@allow_scalars
def logcumsumexp(x: Value, dim: int) -> Value:
    """Return the logarithms of running sums of exponentials."""
    return np.logaddexp.accumulate(x, axis=dim)


def _position_of_best(x: Value, k: int, better: Any) -> Any:
    """Return the last position of the best entry so far along an axis."""
    rows = np.moveaxis(plain_value(x), k, 0)
    at = np.zeros(rows.shape, dtype=np.int64)
    for n in range(1, len(rows)):
        held = np.take_along_axis(rows, at[n - 1 : n], 0)[0]
        at[n] = np.where(better(rows[n], held) | np.isnan(rows[n]), n, at[n - 1])
    return np.moveaxis(at, 0, k)


@aten()
@allow_scalars
def cummax(x: Value, dim: int) -> tuple[Value, Any]:
    """Return the largest entry so far, and its position."""
    return np.maximum.accumulate(x, axis=dim), _position_of_best(x, dim, np.greater_equal)


@aten()
@allow_scalars
def cummin(x: Value, dim: int) -> tuple[Value, Any]:
    """Return the smallest entry so far, and its position."""
    return np.minimum.accumulate(x, axis=dim), _position_of_best(x, dim, np.less_equal)
