"""The names after `torch.` and `F.`, with torch's parameters and defaults; other names are refused there.

A name that means the same in torch as it does alone, for the arguments that both take, is in a list; the others have a
function here. `dim` and `keepdim` are spelled `axis` and `keepdims` before a call is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.errors import NotSupported
from gradcli.rules import composites, layers, linalg, reductions
from gradcli.rules import layers as losses
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain

Call = Callable[..., Any]


def _reduce(f: Call) -> Call:
    return lambda input, axis=None, keepdims=False: f(input, axis=axis, keepdims=keepdims)


def _along(f: Call) -> Call:
    return lambda input, axis: f(input, axis=axis)


def _quantile(f: Call) -> Call:
    return lambda input, q, axis=None, keepdims=False: f(input, q, axis=axis, keepdims=keepdims)


def _extreme(name: str, whole: Call, pair: Call) -> Call:
    def extreme(input: Value, other: Value | None = None) -> Value:
        if other is None:
            return whole(input)
        if not shape(other):
            raise NotSupported(f"torch.{name} along an axis has two results", do=f"write torch.a{name}(x, dim)")
        return pair(input, other)

    return extreme


def _variance(f: Call) -> Call:
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


def _logdet(input: Value) -> Value:
    return np.log(np.linalg.det(input))


# --- torch.nn.functional ------------------------------------------------------------------------------------------------


def _implicit(f: Call) -> Call:
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
    over = _last_axes(input, normalized_shape)
    centred = input - np.mean(input, axis=over, keepdims=True)
    y = centred / np.sqrt(np.mean(np.square(centred), axis=over, keepdims=True) + eps)
    return _scaled(y, weight, bias)


def _rms_norm(input: Value, normalized_shape: Any, weight: Value | None = None, eps: Value | None = None) -> Value:
    over = _last_axes(input, normalized_shape)
    least = float(np.finfo(np.float64).eps) if eps is None else eps
    return _scaled(input / np.sqrt(np.mean(np.square(input), axis=over, keepdims=True) + least), weight, None)


def _scaled(y: Value, weight: Value | None, bias: Value | None) -> Value:
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def _group_norm(
    input: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None, eps: Value = 1e-5
) -> Value:
    return layers.group_norm(input, num_groups, *_of_channels(weight, bias), eps)


def _of_channels(weight: Value | None, bias: Value | None) -> tuple[Value, Value]:
    return (1.0 if weight is None else weight), (0.0 if bias is None else bias)


def _batch_norm(
    input: Value, running_mean: Value | None, running_var: Value | None, weight: Value | None = None,
    bias: Value | None = None, training: bool = False, momentum: Value = 0.1, eps: Value = 1e-5,
) -> Value:  # fmt: skip
    if training:
        return layers.batch_norm(input, *_of_channels(weight, bias), eps)
    if running_mean is None or running_var is None:
        raise ValueError("batch_norm takes a running mean and a running variance unless training is True")
    wide = [np.reshape(x, (-1, *(1,) * (len(shape(input)) - 2))) for x in (running_mean, running_var)]
    w, b = (np.reshape(x, (-1, *(1,) * (len(shape(input)) - 2))) if shape(x) else x for x in _of_channels(weight, bias))
    return w * (input - wide[0]) / np.sqrt(wide[1] + eps) + b


def _softplus(input: Value, beta: Value = 1.0, threshold: Value = 20.0) -> Value:
    scaled = input * beta
    return np.where(np.greater(scaled, threshold), input, composites.softplus(scaled) / beta)


def _prelu(input: Value, weight: Value) -> Value:
    wide = (
        np.reshape(weight, (-1, *(1,) * (len(shape(input)) - 2))) if shape(weight) and len(shape(input)) > 1 else weight
    )
    return layers.prelu(input, wide)


def _normalize(input: Value, p: Any = 2.0, axis: int = 1, eps: Value = 1e-12) -> Value:
    return layers.normalize(input, p, axis, eps)


def _cosine(x1: Value, x2: Value, axis: int = 1, eps: Value = 1e-8) -> Value:
    return layers.cosine_similarity(x1, x2, axis, eps)


def _cross_entropy(input: Value, target: Value, *, reduction: str = "mean", label_smoothing: Value = 0.0) -> Value:
    axis = 0 if len(shape(input)) == 1 else 1
    classes = shape(input)[axis]
    if len(shape(target)) < len(shape(input)):
        target = np.moveaxis(layers.one_hot(target, classes), -1, axis)
    target = target * (1 - label_smoothing) + label_smoothing / classes
    return _reduced(-np.sum(target * reductions.log_softmax(input, axis), axis=axis), reduction)


def _nll_loss(input: Value, target: Value, *, reduction: str = "mean") -> Value:
    axis = 0 if len(shape(input)) == 1 else 1
    picked = np.moveaxis(layers.one_hot(target, shape(input)[axis]), -1, axis)
    return _reduced(-np.sum(picked * input, axis=axis), reduction)


def _reduced(loss: Value, reduction: str) -> Value:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)


def _attention(
    query: Value, key: Value, value: Value, attn_mask: Value | None = None, *, is_causal: bool = False,
    scale: Value | None = None,
) -> Value:  # fmt: skip
    if attn_mask is not None and np.all(np.isin(plain(attn_mask), (0.0, 1.0))) and np.any(plain(attn_mask) == 1.0):
        raise NotSupported(
            "a mask of truth values is added to the scores here, and torch leaves out what is False",
            do="write where(mask, 0, -inf)",
        )
    return layers.scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale)


def _instance_norm(input: Value, *, weight: Value | None = None, bias: Value | None = None, eps: Value = 1e-5) -> Value:
    return layers.instance_norm(input, *_of_channels(weight, bias), eps)


def _linear(input: Value, weight: Value, bias: Value | None = None) -> Value:
    return layers.linear(input, weight, 0.0 if bias is None else bias)


def _poisson(
    input: Value, target: Value, log_input: bool = True, *, eps: Value = 1e-8, reduction: str = "mean"
) -> Value:
    return losses.poisson_nll_loss(input, target, log_input, eps, reduction)


def _hinge_embedding_loss(input: Value, target: Value, margin: Value = 1.0, *, reduction: str = "mean") -> Value:
    far = np.where(np.equal(target, 1), 0.0, composites.relu(margin - input))
    return _reduced(far + np.where(np.equal(target, -1), 0.0, input), reduction)


def _cosine_embedding_loss(
    input1: Value, input2: Value, target: Value, margin: Value = 0.0, *, reduction: str = "mean"
) -> Value:
    cosine = layers.cosine_similarity(input1, input2)
    near = np.where(np.equal(target, 1), 1 - cosine, 0.0)
    return _reduced(near + np.where(np.equal(target, -1), composites.relu(cosine - margin), 0.0), reduction)


def _of_target(f: Call) -> Call:
    return lambda input, target, *, reduction="mean": f(input, target, reduction=reduction)


# --- the tables ---------------------------------------------------------------------------------------------------------


def _same(words: str) -> dict[str, Call]:
    return {name: FUNCTIONS[name] for name in words.split()}


_LAYERS: dict[str, Call] = {
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "group_norm": _group_norm, "prelu": _prelu,
    "cosine_similarity": _cosine, **_same("relu selu celu hardshrink threshold pairwise_distance sigmoid tanh"),
}  # fmt: skip
_TORCH: dict[str, Call] = {
    **_same(
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
    **{name: _reduce(FUNCTIONS[name]) for name in ("sum", "mean", "prod", "nansum", "nanmean", "argmax", "argmin")},
    "amax": _reduce(FUNCTIONS["max"]), "amin": _reduce(FUNCTIONS["min"]),
    **{name: _along(FUNCTIONS[name]) for name in ("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax")},
    **_LAYERS, "logsumexp": lambda input, axis, keepdims=False: reductions.logsumexp(input, axis, keepdims),
    "var": _variance(reductions.var), "std": _variance(reductions.std), "norm": _norm, "median": _median,
    "quantile": _quantile(np.quantile), "nanquantile": _quantile(np.nanquantile), "round": _round, "clamp": _clamp,
    "clip": _clamp, "max": _extreme("max", np.max, np.maximum), "min": _extreme("min", np.min, np.minimum),
    "cross": _cross, "logdet": _logdet, "transpose": lambda input, dim0, dim1: np.swapaxes(input, dim0, dim1),
    "cov": lambda input, *, correction=1: np.cov(input, ddof=correction),
    "nan_to_num": lambda input, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        input, nan=nan, posinf=posinf, neginf=neginf
    ),
    "trapezoid": lambda y, x=None: np.trapezoid(y, x), "trapz": lambda y, x=None: np.trapezoid(y, x),
    "argsort": lambda input, axis=-1: np.argsort(input, axis=axis),
}  # fmt: skip
_LINALG: dict[str, Call] = {
    **_same("cholesky cond det eigh eigvalsh inv matmul matrix_exp matrix_power multi_dot pinv qr slogdet solve svd svdvals "
            "tensorinv vecdot"),
    "norm": lambda A, ord=None, axis=None, keepdims=False: linalg.norm(A, ord, axis=axis, keepdims=keepdims),
    "vector_norm": _vector_norm,
    "matrix_norm": lambda A, ord="fro": linalg.norm(A, ord, axis=(-2, -1)),
    "cross": lambda input, other, *, axis=-1: np.cross(input, other, axis=axis),
    "diagonal": lambda A, *, offset=0: np.diagonal(A, offset, -2, -1),
}  # fmt: skip
_SPECIAL: dict[str, Call] = {
    **_same("digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr logit "
            "multigammaln ndtr ndtri polygamma psi sinc xlog1py xlogy"),
    "softmax": _along(reductions.softmax), "log_softmax": _along(reductions.log_softmax),
    "logsumexp": _TORCH["logsumexp"], "round": _round,
}  # fmt: skip
_FFT = _same(
    "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
)
_FUNCTIONAL: dict[str, Call] = {
    **_LAYERS,
    **_same("elu embedding gaussian_nll_loss gelu glu hardsigmoid hardswish hardtanh huber_loss leaky_relu logsigmoid mish "
            "one_hot relu6 silu softshrink softsign tanhshrink"),
    "batch_norm": _batch_norm, "instance_norm": _instance_norm, "softplus": _softplus, "normalize": _normalize,
    "linear": _linear, "softmax": _implicit(reductions.softmax), "log_softmax": _implicit(reductions.log_softmax),
    "softmin": _implicit(layers.softmin), "scaled_dot_product_attention": _attention,
    "cross_entropy": _cross_entropy, "nll_loss": _nll_loss, "poisson_nll_loss": _poisson,
    **{name: _of_target(getattr(losses, name)) for name in ("mse_loss", "l1_loss", "binary_cross_entropy", "soft_margin_loss")},
    "smooth_l1_loss": lambda input, target, *, reduction="mean", beta=1.0: losses.smooth_l1_loss(
        input, target, reduction, beta
    ),
    "binary_cross_entropy_with_logits": lambda input, target, *, reduction="mean", pos_weight=1.0: (
        losses.binary_cross_entropy_with_logits(input, target, reduction, pos_weight)
    ),
    "kl_div": lambda input, target, *, reduction="mean", log_target=False: losses.kl_div_loss(
        input, target, reduction, log_target
    ),
    "hinge_embedding_loss": _hinge_embedding_loss, "cosine_embedding_loss": _cosine_embedding_loss,
    "margin_ranking_loss": lambda input1, input2, target, margin=0.0, *, reduction="mean": (
        losses.margin_ranking_loss(input1, input2, target, margin, reduction)
    ),
    "triplet_margin_loss": lambda anchor, positive, negative, margin=1.0, p=2, *, reduction="mean": (
        losses.triplet_margin_loss(anchor, positive, negative, margin, p, reduction)
    ),
}  # fmt: skip
OF_TORCH: Mapping[str, Mapping[str, Call]] = {
    "torch": _TORCH, "torch.linalg": _LINALG, "torch.special": _SPECIAL, "torch.fft": _FFT, "F": _FUNCTIONAL,
    "torch.nn.functional": _FUNCTIONAL,
}  # fmt: skip
