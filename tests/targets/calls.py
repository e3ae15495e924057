"""A call of every function of the language, and the function that it must equal: numpy's, scipy's, or a formula as documented."""

import math
import operator

import numpy as np
import scipy.linalg
import scipy.special

from gradcli.targets.names import ALIASES

VALUES = {
    "x": np.float64(0.5),
    "y": np.float64(-1.25),
    "v": np.array([-2.5, -0.7, 0.3, 1.6]),
    "w": np.array([1.5, -0.4, 2.0, 0.9]),
    "u": np.array([3.0, 1.0]),
    "A": np.array([[2.0, -1.0], [0.5, 3.0]]),
    "B": np.array([[1.0, 0.25], [-2.0, 4.0]]),
    "W": np.arange(6.0).reshape(2, 3),
}

# fmt: off
ARGUMENTS = {  # others take as many of v, w, v**2, w**2 as they have arguments
    "arange": "1, 3, 0.5", "average": "v", "broadcast_to": "v, (2, 4)", "clip": "v, -1, 1", "column_stack": "[v, w]",
    "concatenate": "[A, B]", "cross_entropy": "v, [0, 1, 0, 0]", "cumsum": "W, 1", "det": "A", "diag": "v", "diagonal": "W",
    "diff": "v", "dot": "A, B", "einsum": "'ij,j', A, u", "expand_dims": "v, 0", "eye": "3", "flip": "v", "full": "(2, 3), x",
    "hstack": "[A, B]", "identity": "2", "inner": "v, w", "inv": "A", "kron": "A, v", "logdet": "A", "linspace": "0, 1, 5", "log_softmax": "W, 1",
    "logsumexp": "W, 1", "matmul": "A, B", "matrix_power": "A, 3", "moveaxis": "W, 0, 1", "mse": "v, w", "onehot": "1, 3",
    "ones": "(2, 3)", "outer": "v, w", "repeat": "v, 2", "reshape": "W, (3, 2)", "slogdet": "A", "softmax": "W, 1", "solve": "A, u",
    "squeeze": "[v]", "stack": "[v, w]", "swapaxes": "W, 0, 1", "take": "v, 2", "tensordot": "A, B, 1", "trace": "A", "tril": "A",
    "expn": "2, w**2", "triu": "A", "vdot": "v, w", "vec": "W", "vstack": "[v, w]", "where": "v > 0, v, w", "zeros": "3",
    "block": "[[A, B], [B, A]]", "dstack": "[A, B]", "multi_dot": "[A, B, u]", "append": "v, u", "insert": "v, 1, 7", "delete": "v, 1",
    "array_split": "v, 3", "split": "v, 2", "hsplit": "W, 3", "vsplit": "W, 2", "dsplit": "[[v, w], [w, v]], 2", "unstack": "W",
    "broadcast_arrays": "u, A", "meshgrid": "u, v", "rollaxis": "W, 1", "roll": "v, 1", "tile": "u, (2, 3)", "resize": "v, (3, 2)", "pad": "W, 2",
    "fliplr": "A", "flipud": "A", "rot90": "W", "diagflat": "u", "atleast_3d": "v", "full_like": "v, x", "matrix_transpose": "W", "permute_dims": "W",
    "sliding_window_view": "v, 2", "take_along_axis": "W, [[0, 2], [1, 1]], 1", "compress": "v > 0, v", "extract": "v > 0, v",
    "select": "[v > 1, v > 0], [v, w], x", "geomspace": "1, x + 8, 4", "logspace": "0, x, 4", "tri": "3", "fftfreq": "5, 0.5", "rfftfreq": "5, 0.5",
    "bartlett": "5", "blackman": "5", "hamming": "5", "hanning": "5", "kaiser": "5, 3", "all": "v > 0", "any": "v > 0", "count_nonzero": "v > 0",
    "isclose": "v, w", "allclose": "v, w", "array_equal": "v, w", "array_equiv": "v, w", "matrix_rank": "A", "searchsorted": "[1, 2, 3], v",
    "digitize": "v, [0, 1]", "argpartition": "v, 1", "partition": "v, 1", "quantile": "v, 0.3", "percentile": "v, [20, 70]",
    "nanquantile": "v, 0.3", "nanpercentile": "v, 30", "interp": "w, [-1, 0, 2], [3, 1, 5]", "convolve": "v, u", "correlate": "v, u, 'full'",
    "cross": "[x, y, 2], [1, x, y]", "cov": "v, w", "corrcoef": "v, w", "polyval": "v, w", "polyadd": "v, u", "polysub": "v, u", "polymul": "v, u",
    "polydiv": "v, u", "polyder": "v", "polyint": "v", "polyfit": "v, w, 1", "poly": "v", "vander": "v, 3", "matvec": "A, u", "vecmat": "u, A",
    "vecdot": "v, w", "cholesky": "A @ A.T", "expm": "A", "expm_frechet": "A / 8, A.T", "logm": "A @ A.T", "sqrtm": "A @ A.T", "stdtr": "3, v", "pdtr": "2, w**2", "pdtrc": "2, w**2",
    "gdtr": "w**2, 2, x", "gdtrc": "w**2, 2, x", "fdtr": "3, 4, w**2", "fdtrc": "3, 4, w**2", "eigvalsh": "A @ A.T", "eigh": "A @ A.T", "svd": "A", "svdvals": "A", "qr": "A", "pinv": "W", "cond": "A",
    "lstsq": "A, u", "tensorsolve": "A, u", "tensorinv": "A, 1", "matrix_norm": "W", "vector_norm": "v", "eval_hermite": "3, v",
    "eval_hermitenorm": "3, v", "polygamma": "2, w**2", "multigammaln": "w**2 + 2, 3", "kn": "2, w**2", "yn": "2, w**2", "irfft2": "W", "fft2": "W", "ifft2": "W",
    "rfft2": "W", "divmod": "v, w", "copysign": "v, w", "trapezoid": "v", "gradient": "v", "unwrap": "4*v",
    "binom": "w**2 + 1, x", "boxcox": "w**2, x", "boxcox1p": "w**2, x", "inv_boxcox": "w**2, x", "inv_boxcox1p": "w**2, x", "huber": "x, v", "poch": "w**2, x",
    "powm1": "w**2, x", "radian": "v, w, u[0]", "chdtr": "3, w**2", "chdtrc": "3, w**2",
    "eval_chebyc": "3, v", "eval_chebys": "3, v", "eval_sh_legendre": "3, v", "eval_sh_chebyt": "3, v", "eval_sh_chebyu": "3, v",
    "lerp": "v, w, x", "masked_fill": "v, v > 0, x", "dist": "v, w", "prelu": "v, x", "threshold": "v, x, y", "glu": "v", "linear": "W, W, u", "one_hot": "[2, 0], 3",
    "embedding": "[1, 0, 1], W", "scaled_dot_product_attention": "A, B, W", "cosine_similarity": "v, w", "normalize": "v", "pairwise_distance": "v, w",
    "batch_norm": "A, u, [7, 9]", "instance_norm": "[[v, w], [w, w*w]], u, u", "group_norm": "[v, w], 2", "rms_norm": "v, w", "standardize": "W", "layer_norm": "v",
    "binary_cross_entropy": "abs(v)/4, [1, 0, 0.5, 1]", "binary_cross_entropy_with_logits": "v, [1, 0, 0.5, 1], 'mean', 2",
    "kl_div_loss": "v, abs(w)", "nll_loss": "W, [2, 0]", "sigmoid_focal_loss": "v, [1, 0, 0, 1]", "hinge_loss": "v, [1, -1, 1, -1]",
    "squared_hinge_loss": "v, [1, -1, 1, -1]", "hinge_embedding_loss": "v, [1, -1, 1, -1]", "soft_margin_loss": "v, [1, -1, 1, -1]",
    "margin_ranking_loss": "v, w, [1, -1, 1, -1], x", "cosine_embedding_loss": "A, B, [1, -1]", "triplet_margin_loss": "A, B, u",
    "poisson_nll_loss": "v, w", "gaussian_nll_loss": "v, w, w*w", "mse_loss": "v, w", "l1_loss": "v, w", "huber_loss": "v, w", "smooth_l1_loss": "v, w",
    "hardshrink": "v", "softshrink": "v",
}
TAKEN = {  # which of several results
    "eigh": "[0]", "svd": "[1]", "qr": "[1]", "lstsq": "[0]", "slogdet": "[1]", "modf": "[0]", "divmod": "[1]", "sici": "[0]", "shichi": "[0]", "fresnel": "[0]",
    "polydiv": "[0]", "meshgrid": "[0]", "broadcast_arrays": "[0]", "split": "[1]", "array_split": "[0]", "hsplit": "[1]", "vsplit": "[1]", "dsplit": "[1]", "unstack": "[1]",
}
BINARY = {
    "add", "arctan2", "atan2", "divide", "equal", "float_power", "floor_divide", "fmax", "fmin", "greater", "greater_equal",
    "heaviside", "hypot", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or", "maximum", "minimum", "mod",
    "multiply", "not_equal", "pow", "power", "remainder", "subtract", "true_divide",
}


def _a(*xs):
    return [np.asarray(x, dtype=float) for x in xs]


def _where(condition, yes, no):
    return np.where(condition, yes, no)


def _softplus(x):
    return np.log1p(np.exp(x))


def _norm_over(x, axes, w=1.0, b=0.0, eps=1e-5):
    return w * (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) + b


def _cosine(a, b):
    return np.sum(a * b, -1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def _focal(z, y):
    p = scipy.special.expit(z)
    entropy = -y * np.log(p) - (1 - y) * np.log(1 - p)
    return (0.25 * y + 0.75 * (1 - y)) * (1 - (p * y + (1 - p) * (1 - y))) ** 2 * entropy


def _bce(p, y, weight=1.0):
    return -np.mean(weight * y * np.log(p) + (1 - y) * np.log(1 - p))


_SELU = 1.0507009873554805, 1.6732632423543772
OURS = {
    "expm": scipy.linalg.expm, "expm_frechet": lambda a, e: scipy.linalg.expm_frechet(a, e, compute_expm=False), "logm": scipy.linalg.logm, "sqrtm": scipy.linalg.sqrtm,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": scipy.special.expit, "softplus": lambda x: np.log(1 + np.exp(x)),
    "silu": lambda x: x * scipy.special.expit(x), "gelu": lambda x: x * scipy.special.ndtr(x),
    "mse": lambda a, b: np.mean((a - b) ** 2), "cross_entropy": lambda z, y: -np.sum(y * scipy.special.log_softmax(z)),
    "layer_norm": lambda x: (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-5), "onehot": lambda k, n: np.eye(n)[k],
    "logdet": lambda a: np.log(np.linalg.det(a)), "vec": lambda a: np.ravel(a, order="F"),
    "log_expit": lambda x: -np.logaddexp(0, -x), "gammaln": np.vectorize(math.lgamma), "log": np.log, "negative": operator.neg,
    "sliding_window_view": np.lib.stride_tricks.sliding_window_view, "take_along_axis": lambda a, k, axis: np.take_along_axis(a, np.array(k), axis),
    "dsplit": lambda x, n: np.dsplit(np.array(x), n), "fft": np.fft.fft,
    "rsqrt": lambda x: x**-0.5, "frac": lambda x: np.fmod(x, 1), "lerp": lambda a, b, t: (1 - t) * a + t * b, "masked_fill": lambda x, m, c: np.where(m, c, x),
    "dist": lambda a, b: np.linalg.norm(a - b), "logcumsumexp": lambda x: np.log(np.cumsum(np.exp(x))), "logmeanexp": lambda x: np.log(np.mean(np.exp(x))),
    "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate, "multigammaln": lambda a, d: np.vectorize(scipy.special.multigammaln)(a, d),
    "elu": lambda x: _where(x > 0, x, np.exp(x) - 1), "celu": lambda x: np.maximum(x, 0) + np.minimum(0, np.exp(x) - 1),
    "selu": lambda x: _SELU[0] * (np.maximum(x, 0) + np.minimum(0, _SELU[1] * (np.exp(x) - 1))),
    "leaky_relu": lambda x: np.maximum(0, x) + 0.01 * np.minimum(0, x), "prelu": lambda x, a: np.maximum(0, x) + a * np.minimum(0, x),
    "relu6": lambda x: np.clip(x, 0, 6), "mish": lambda x: x * np.tanh(_softplus(x)), "softsign": lambda x: x / (1 + np.abs(x)),
    "hardtanh": lambda x: np.clip(x, -1, 1), "hardsigmoid": lambda x: _where(x <= -3, 0, _where(x >= 3, 1, x / 6 + 0.5)),
    "hardswish": lambda x: _where(x <= -3, 0, _where(x >= 3, x, x * (x + 3) / 6)), "tanhshrink": lambda x: x - np.tanh(x),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), "hardshrink": lambda x: x * (np.abs(x) > 0.5),
    "threshold": lambda x, t, c: _where(x > t, x, c), "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2, "softmin": lambda x: scipy.special.softmax(-x),
    "glu": lambda x: x[:2] * scipy.special.expit(x[2:]), "linear": lambda x, w, b: x @ w.T + b, "one_hot": lambda k, n: np.eye(n)[np.array(k)],
    "embedding": lambda k, w: w[np.array(k)], "normalize": lambda x: x / np.linalg.norm(x), "cosine_similarity": _cosine,
    "pairwise_distance": lambda a, b: np.linalg.norm(a - b + 1e-6), "standardize": lambda x: _norm_over(x, -1),
    "scaled_dot_product_attention": lambda q, k, v: scipy.special.softmax(q @ k.T / np.sqrt(2), axis=1) @ v,
    "batch_norm": lambda x, w, b: _norm_over(x, 0, w, b), "rms_norm": lambda x, w: w * x / np.sqrt(np.mean(x * x) + np.finfo(float).eps),
    "instance_norm": lambda x, w, b: _norm_over(*_a(x), -1, w[:, None], b[:, None]),
    "group_norm": lambda x, n: _norm_over(np.reshape(x, (2, 2, 2)), -1).reshape(2, 4),
    "mse_loss": lambda a, b: np.mean((a - b) ** 2), "l1_loss": lambda a, b: np.mean(np.abs(a - b)),
    "huber_loss": lambda a, b: np.mean(scipy.special.huber(1, a - b)), "smooth_l1_loss": lambda a, b: np.mean(scipy.special.huber(1, a - b)),
    "binary_cross_entropy": lambda p, y: _bce(*_a(p, y)), "binary_cross_entropy_with_logits": lambda z, y, r, w: _bce(scipy.special.expit(z), *_a(y), w),
    "kl_div_loss": lambda x, y: np.mean(y * (np.log(y) - x)), "nll_loss": lambda x, y: -(x[0, 2] + x[1, 0]) / 2,
    "sigmoid_focal_loss": lambda z, y: _focal(*_a(z, y)), "hinge_loss": lambda s, y: np.mean(np.maximum(0, 1 - np.array(y) * s)),
    "squared_hinge_loss": lambda s, y: np.mean(np.maximum(0, 1 - np.array(y) * s) ** 2),
    "hinge_embedding_loss": lambda x, y: np.mean(_where(np.array(y) == 1, x, np.maximum(0, 1 - x))),
    "soft_margin_loss": lambda x, y: np.mean(_softplus(-np.array(y) * x)),
    "margin_ranking_loss": lambda a, b, y, m: np.mean(np.maximum(0, -np.array(y) * (a - b) + m)),
    "cosine_embedding_loss": lambda a, b, y: (1 - _cosine(a, b)[0] + max(0, _cosine(a, b)[1])) / 2,
    "triplet_margin_loss": lambda a, p, n: np.mean(np.maximum(0, np.linalg.norm(a - p + 1e-6, axis=1) - np.linalg.norm(a - n + 1e-6, axis=1) + 1)),
    "poisson_nll_loss": lambda x, y: np.mean(np.exp(x) - y * x), "gaussian_nll_loss": lambda x, y, v: np.mean(np.log(v) + (x - y) ** 2 / v) / 2,
}
# fmt: on
ROUNDED = dict.fromkeys(
    ("sigmoid_focal_loss", "instance_norm", "standardize", "group_norm", "batch_norm", "elu", "celu", "selu"), 1e-12
)
HOMES = (np, np.linalg, np.fft, scipy.special)


def canonical(name):
    """Return the name under which a function is listed: `clip` for its alias `clamp`."""
    return ALIASES.get(name, name)


def reference(name):
    """Return the function that a function of the language must equal."""
    name = canonical(name)
    return OURS[name] if name in OURS else next(getattr(home, name) for home in HOMES if hasattr(home, name))


def arguments_of(name):
    """Return arguments for a function, and which of its results to take."""
    known = canonical(name)
    arity = 2 if known in BINARY else getattr(reference(name), "nin", 1)
    return ARGUMENTS.get(known, ", ".join(["v", "w", "v**2", "w**2"][:arity])), TAKEN.get(known, "")
