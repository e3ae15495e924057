"""Functions of TensorFlow's own libraries, with arguments, that gradcli replays: name -> (function, arguments)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def drawn(seed: int, *shape: int, low: float = -1.5, high: float = 1.5) -> Any:
    y = np.random.default_rng(seed).uniform(low, high, size=shape)
    return y if shape else np.float64(y)


def apart(seed: int, *shape: int) -> Any:
    """Return numbers that no pair of which is close, in random order."""
    n = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.linspace(-1.3, 1.7, n)).reshape(shape)


X, Y, S = drawn(0, 5), drawn(1, 5), drawn(2)
P, Q = drawn(3, 5, low=0.2, high=2.0), drawn(4, 5, low=0.3, high=1.8)
U, H = drawn(5, 5, low=-0.9, high=0.9), drawn(6, 5, low=0.1, high=0.9)
M, N, T = drawn(7, 3, 4), drawn(8, 4, 2), drawn(9, 2, 3, 4)
A, B = drawn(10, 4, 4) + 3 * np.eye(4), drawn(11, 4, 2)
AA, BB = np.stack([A, drawn(12, 4, 4) - 4 * np.eye(4)]), drawn(13, 2, 4, 2)
SPD = A @ A.T + np.eye(4)
SYM = A + A.T + np.diag([0.0, 1.0, 3.0, 7.0])
TALL, WIDE = drawn(14, 5, 3), drawn(15, 3, 5)
D, D2 = apart(16, 6), apart(17, 3, 4)
IMAGE, KERNEL = drawn(18, 2, 6, 5, 4), drawn(19, 3, 2, 4, 6)
POOL = apart(20, 2, 6, 5, 2)
VOLUME, VKERNEL = drawn(21, 1, 4, 3, 4, 2), drawn(22, 2, 2, 2, 2, 3)
LINE, TAPS = drawn(23, 2, 9, 4), drawn(24, 3, 4, 6)
I3 = np.array([2, 0, 2])
LABELS = np.array([1, 3, 0])
SOFT = drawn(25, 3, 4, low=0.1, high=1.0)
SOFT = SOFT / SOFT.sum(axis=1, keepdims=True)

ELEMENTWISE: dict[str, Case] = {
    **{name: (getattr(tf.math, name), (X,)) for name in (
        "negative", "abs", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "square", "sigmoid", "softplus",
        "log_sigmoid", "softsign", "erf", "erfc", "sign", "floor", "ceil", "round", "rint", "bessel_i0", "bessel_i0e", "bessel_i1",
        "bessel_i1e", "is_nan", "is_finite", "is_inf", "reciprocal", "reciprocal_no_nan",
    )},
    **{name: (getattr(tf.math, name), (P,)) for name in ("log", "log1p", "sqrt", "rsqrt", "lgamma", "digamma")},
    **{name: (getattr(tf.math, name), (U,)) for name in ("asin", "acos", "atanh", "erfinv")},
    **{f"special {name}": (getattr(tf.math.special, name), (P,)) for name in (
        "dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "bessel_k0",
        "bessel_k0e", "bessel_k1", "bessel_k1e",
    )},
    **{name: (getattr(tf.math, name), (X, Y)) for name in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "atan2", "squared_difference", "floordiv", "floormod", "mod",
        "divide_no_nan", "multiply_no_nan", "xdivy", "greater", "less_equal", "equal",
    )},
    **{f"nn {name}": (getattr(tf.nn, name), (X,)) for name in ("relu", "relu6", "elu", "selu", "leaky_relu", "silu", "gelu", "softmax", "log_softmax", "l2_loss", "swish")},
    "acosh": (tf.math.acosh, (P + 1.5,)), "ndtri": (tf.math.ndtri, (H,)), "erfcinv": (tf.math.erfcinv, (H,)), "truediv": (tf.math.truediv, (X, P)),
    "xlogy": (tf.math.xlogy, (X, P)), "xlog1py": (tf.math.xlog1py, (X, P)), "power": (tf.pow, (P, X)), "square by **": (lambda x: x**2 + x**3.0 + 2.0**x, (X,)),
    "no division": (lambda x, y: tf.math.divide_no_nan(x, y * tf.constant([1.0, 0, 1, 0, 1], tf.float64)), (X, P)),
    "xlogy at 0": (lambda x, y: tf.math.xlogy(x * tf.constant([1.0, 0, 1, 1, 1], tf.float64), y), (X, P)),
    "nothing times a number": (lambda x, y: tf.math.multiply_no_nan(x, y - y[1]) + tf.math.xdivy(x - x[1], y) + tf.math.xlogy(x - x[1], y), (X, P)),
    "igamma": (lambda x: tf.math.igamma(tf.constant(1.5, tf.float64), x), (P,)), "igammac": (lambda x: tf.math.igammac(tf.constant(2.5, tf.float64), x), (P,)),
    "betainc": (lambda x: tf.math.betainc(tf.constant(1.5, tf.float64), tf.constant(2.5, tf.float64), x), (H,)), "polygamma": (lambda x: tf.math.polygamma(tf.constant(2.0, tf.float64), x), (P,)),
    "lbeta": (tf.math.lbeta, (P,)), "gelu tanh": (lambda x: tf.nn.gelu(x, approximate=True), (X,)), "clip": (lambda x: tf.clip_by_value(x, -0.5, 0.7), (X,)),
    "where": (lambda x, y: tf.where(x > y, x * y, tf.sin(y)), (X, Y)), "where guards": (lambda x: tf.where(x > 0, tf.math.log(tf.where(x > 0, x, 1.0)), 0.0), (X,)),
    "select rows": (lambda x: tf.raw_ops.Select(condition=np.array([True, False, True]), x=x, y=2 * x), (M,)), "cast": (lambda x: tf.cast(tf.cast(x * 3, tf.int32), tf.float64) * x + tf.cast(x > 0, tf.float64) * x, (X,)),
    "int arithmetic": (lambda x: x * tf.cast(tf.range(5) * 7 // 4 - tf.range(5) % 3, tf.float64) + x * tf.cast(tf.truncatediv(tf.range(5) - 2, 2), tf.float64), (X,)),
    "bitwise": (lambda x: x * tf.cast(tf.bitwise.bitwise_xor(tf.range(5), 3) | (tf.range(5) & 1), tf.float64), (X,)),
    "complex": (lambda x, y: tf.abs(tf.complex(x, y)) + tf.math.real(tf.exp(tf.complex(x, y))) + tf.math.angle(tf.complex(x, y)), (X, Y)),
    "logical": (lambda x: x * tf.cast(tf.logical_and(x > 0, tf.logical_not(x > 1)), tf.float64), (X,)), "identity_n": (lambda x: tf.identity_n([x, x * 2])[1], (X,)),
    "custom_gradient": (tf.custom_gradient(lambda x: (tf.sin(x) * x, lambda ybar: ybar * (tf.cos(x) * x + tf.sin(x)))), (X,)),
    "scalar": (lambda x, y: tf.sin(x) * y**2, (S, S + 1)), "add_n": (lambda x, y: tf.add_n([x, y, x]), (X, Y)), "cumulative": (lambda x: tf.math.cumulative_logsumexp(x), (X,)),
}  # fmt: skip

REDUCTIONS: dict[str, Case] = {
    **{name: (partial(getattr(tf, name), axis=1, keepdims=True), (D2,)) for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp")},
    **{f"{name} of all": (getattr(tf.math, name), (D2,)) for name in ("reduce_sum", "reduce_max", "reduce_std", "reduce_variance", "reduce_euclidean_norm", "reduce_prod")},
    "two axes": (lambda x: tf.reduce_mean(x, axis=[0, -1]), (T,)), "no axis": (lambda x: tf.reduce_sum(x, axis=[]), (M,)), "any all": (lambda x: x * tf.cast(tf.reduce_any(x > 0), tf.float64) + x * tf.cast(tf.reduce_all(x > 0), tf.float64), (X,)),
    "argmax": (lambda x: x[0] * tf.cast(tf.argmax(x, axis=1)[0] + tf.argmin(x, axis=1)[1], tf.float64), (D2,)),
    "cumsum": (lambda x: tf.cumsum(x, axis=1), (M,)), "cumsum exclusive": (lambda x: tf.cumsum(x, axis=0, exclusive=True, reverse=True), (M,)), "cumprod": (lambda x: tf.math.cumprod(x, exclusive=True), (X,)),
    "cumprod reverse": (lambda x: tf.math.cumprod(x, reverse=True), (X,)), "top_k": (lambda x: tf.math.top_k(x, 2)[0], (D2,)), "sort": (lambda x: tf.sort(x, axis=0), (D2,)), "sort descending": (lambda x: tf.sort(x, direction="DESCENDING"), (D,)),
    "argsort": (lambda x: tf.gather(x, tf.argsort(x)) * np.arange(6.0), (D,)), "segment_sum": (lambda x: tf.math.segment_sum(x, [0, 0, 2, 2, 3]), (X,)), "segment_mean": (lambda x: tf.math.segment_mean(x, [0, 1, 1]), (M,)),
    "segment_max": (lambda x: tf.math.segment_max(x, [0, 0, 1, 1, 2, 2]), (D,)), "segment_prod": (lambda x: tf.math.segment_prod(x, [0, 0, 1, 1, 1]), (X,)), "unsorted sum": (lambda x: tf.math.unsorted_segment_sum(x, [1, -1, 0], 3), (M,)),
    "unsorted max": (lambda x: tf.math.unsorted_segment_max(x, [1, 0, 1, 0, 2, 1], 3), (D,)), "unsorted mean": (lambda x: tf.math.unsorted_segment_mean(x, [1, 0, 1, 0, 2, 1], 3), (D,)), "unsorted prod": (lambda x: tf.math.unsorted_segment_prod(x, [1, 0, 1, 0, 2], 3), (X,)),
    "norm": (tf.norm, (M,)), "norm 1": (lambda x: tf.norm(x, ord=1, axis=1), (M,)), "norm inf": (lambda x: tf.norm(x, ord=np.inf), (D,)), "l2_normalize": (lambda x: tf.math.l2_normalize(x, axis=1), (M,)), "moments": (lambda x: tf.nn.moments(x, axes=[0]), (M,)),
    "softmax axis": (lambda x: tf.nn.softmax(x, axis=0), (M,)), "log_softmax axis": (lambda x: tf.nn.log_softmax(x, axis=1), (T,)), "zero_fraction": (lambda x: x * tf.cast(tf.math.zero_fraction(x), tf.float64), (X,)), "bincount": (lambda w: tf.math.bincount(np.array([0, 2, 2, 1, 0]), weights=w, dtype=tf.float64), (X,)),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 0.7), (M,)), "clip_by_global_norm": (lambda x, y: tf.clip_by_global_norm([x, y], 0.7)[0], (X, Y)),
}  # fmt: skip

SHAPING: dict[str, Case] = {
    "reshape": (lambda x: tf.reshape(x, (4, -1)) * np.arange(6.0), (T,)), "transpose": (lambda x: tf.transpose(x, (2, 0, 1)), (T,)), "squeeze": (lambda x: tf.squeeze(x[:1]), (M,)), "expand_dims": (lambda x: tf.expand_dims(x, -1) * x[:, None, :], (M,)),
    "broadcast_to": (lambda x: tf.broadcast_to(x, (2, 3, 4)), (M,)), "fill": (lambda x: tf.fill((2, 3), x), (S,)), "like": (lambda x: tf.ones_like(x) * x + tf.zeros_like(x), (X,)), "slice": (lambda x: x[1:, ::2] + tf.slice(x, (1, 0), (-1, 2)), (M,)),
    "index": (lambda x: x[-1, 2] * x[0], (M,)), "ellipsis": (lambda x: x[..., tf.newaxis, 1], (T,)), "negative step": (lambda x: x[::-2], (M,)), "concat": (lambda x, y: tf.concat([x, y[:, :2], x], axis=-1), (M, M + 1)),
    "stack": (lambda x, y: tf.stack([x, y], axis=1), (X, Y)), "unstack": (lambda x: tf.unstack(x, axis=1)[2], (M,)), "split": (lambda x: tf.split(x, 2, axis=1)[1], (M,)), "split sizes": (lambda x: tf.split(x, [1, -1], axis=1)[1], (M,)),
    "reverse": (lambda x: tf.reverse(x, [1]), (M,)), "roll": (lambda x: tf.roll(x, [1, 2], [0, 1]), (M,)), "tile": (lambda x: tf.tile(x, (2, 1)), (M,)), "repeat": (lambda x: tf.repeat(x, [1, 0, 2], axis=0), (M,)), "pad": (lambda x: tf.pad(x, ((1, 2), (0, 1)), constant_values=1.5), (M,)),
    "pad reflect": (lambda x: tf.pad(x, ((1, 2), (0, 1)), "REFLECT"), (M,)), "pad symmetric": (lambda x: tf.pad(x, ((1, 2), (0, 1)), "SYMMETRIC"), (M,)), "linspace": (lambda x, y: tf.linspace(x, y, 4), (S, S + 2)), "meshgrid": (lambda x, y: tf.multiply(*tf.meshgrid(x, y)), (X, Y[:3])),
    "gather": (lambda x: tf.gather(x, I3, axis=1), (M,)), "gather batch": (lambda x: tf.gather(x, [[0, 1], [3, 3], [2, 0]], batch_dims=1), (M,)), "gather deep batch": (lambda x: tf.gather(x, [[0, 1], [2, 2]], axis=1, batch_dims=1), (T,)), "gather_nd": (lambda x: tf.gather_nd(x, [[0, 1], [2, 2], [0, 1]]), (M,)), "gather_nd rows": (lambda x: tf.gather_nd(x, [[2], [2]]), (M,)),
    "gather_nd batch": (lambda x: tf.gather_nd(x, [[[0]], [[2]]], batch_dims=1), (T,)), "boolean_mask": (lambda x: tf.boolean_mask(x, [True, False, True]), (M,)), "scatter_nd": (lambda x: tf.scatter_nd([[0], [2], [0]], x, (4, 4)), (M,)), "tensor update": (lambda x, y: tf.tensor_scatter_nd_update(x, [[0], [2]], y), (M, drawn(30, 2, 4))),
    "tensor add": (lambda x, y: tf.tensor_scatter_nd_add(x, [[0, 1], [2, 2], [0, 1]], y), (M, drawn(31, 3))), "tensor sub": (lambda x, y: tf.tensor_scatter_nd_sub(x, [[0], [2]], y), (M, drawn(30, 2, 4))), "tensor max": (lambda x, y: tf.tensor_scatter_nd_max(x, [[0], [2]], y), (M, drawn(30, 2, 4))), "tensor min": (lambda x, y: tf.tensor_scatter_nd_min(x, [[0], [2]], y), (M, drawn(30, 2, 4))),
    "one_hot": (lambda x: tf.one_hot(I3, 5, dtype=tf.float64) * x, (X,)), "one_hot axis": (lambda x: tf.one_hot(I3, 5, on_value=x[0], off_value=x[1], axis=0), (X,)), "embedding": (lambda x: tf.nn.embedding_lookup(x, I3), (M,)), "diag": (tf.linalg.diag, (M,)), "diag_part": (tf.linalg.diag_part, (AA,)), "diag k": (lambda x: tf.linalg.diag(x, k=1, padding_value=0.5), (X,)),
    "diag_part k": (lambda x: tf.linalg.diag_part(x, k=(-1, 1)), (A,)), "set_diag": (lambda x, d: tf.linalg.set_diag(x, d), (A, drawn(32, 4))), "band_part": (lambda x: tf.linalg.band_part(x, 1, 0), (A,)), "tensor_diag": (tf.linalg.tensor_diag, (X,)), "tensor_diag_part": (tf.linalg.tensor_diag_part, (A,)), "trace": (tf.linalg.trace, (AA,)),
    "dynamic_stitch": (lambda x: tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:4]]), (X,)), "dynamic_partition": (lambda x: tf.dynamic_partition(x, [0, 1, 0, 1, 1], 2)[1], (X,)), "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), (drawn(33, 1, 4, 6, 2),)), "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), (drawn(34, 1, 2, 3, 8),)),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [1, 0]]), (drawn(35, 1, 4, 5, 2),)), "batch_to_space": (lambda x: tf.batch_to_space(x, [2, 3], [[0, 1], [1, 0]]), (drawn(36, 6, 2, 2, 2),)), "tensor slice update": (lambda x, y: tf.raw_ops.TensorStridedSliceUpdate(input=x, begin=[1], end=[3], strides=[1], value=y), (X, drawn(37, 2))),
    "shape": (lambda x: x * tf.cast(tf.shape(x)[0] * tf.size(x) + tf.rank(x), tf.float64), (M,)), "stop at shapes": (lambda x: tf.reshape(x, tf.shape(tf.transpose(x))), (M,)), "ensure_shape": (lambda x: tf.ensure_shape(x, (3, None)), (M,)), "numerics": (lambda x: tf.debugging.check_numerics(x, "x"), (X,)),
}  # fmt: skip

MATRICES: dict[str, Case] = {
    "matmul": (tf.matmul, (M, N)), "matmul trans": (lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True), (M, drawn(40, 2, 3))), "batched": (tf.matmul, (T, drawn(41, 2, 4, 2))), "batched adjoint": (lambda a, b: tf.matmul(a, b, adjoint_b=True), (T, drawn(42, 2, 5, 4))), "broadcast": (tf.matmul, (T, N)),
    "matvec": (tf.linalg.matvec, (M, drawn(43, 4))), "tensordot": (lambda a, b: tf.tensordot(a, b, [[2, 1], [1, 0]]), (T, drawn(44, 3, 4, 2))), "einsum": (lambda a, b: tf.einsum("bij,bjk->bki", a, b), (T, drawn(41, 2, 4, 2))), "einsum dots": (lambda a, b: tf.einsum("...ij,jk", a, b), (T, N)), "cross": (tf.linalg.cross, (X[:3], Y[:3])),
    "solve": (tf.linalg.solve, (A, B)), "solve batched": (tf.linalg.solve, (AA, BB)), "solve adjoint": (lambda a, b: tf.linalg.solve(a, b, adjoint=True), (A, B)), "inv": (tf.linalg.inv, (AA,)), "inv adjoint": (lambda a: tf.linalg.inv(a, adjoint=True), (A,)), "det": (tf.linalg.det, (AA,)), "slogdet": (lambda a: tf.linalg.slogdet(a)[1], (AA,)), "logdet": (lambda a: tf.linalg.logdet(a @ tf.transpose(a)), (A,)),
    "cholesky": (lambda a: tf.linalg.cholesky((a + tf.transpose(a)) / 2), (SPD,)), "cholesky_solve": (lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky((a + tf.transpose(a)) / 2), b), (SPD, B)), "triangular": (tf.linalg.triangular_solve, (A, B)), "triangular adjoint": (lambda a, b: tf.linalg.triangular_solve(a, b, lower=False, adjoint=True), (A, B)),
    "lstsq": (lambda a, b: tf.linalg.lstsq(a, b), (TALL, drawn(45, 5, 2))), "lstsq damped": (lambda a, b: tf.linalg.lstsq(a, b, l2_regularizer=0.3), (WIDE, drawn(46, 3, 2))), "eigvalsh": (lambda a: tf.linalg.eigvalsh((a + tf.transpose(a)) / 2), (SYM,)), "eigh": (lambda a: tf.linalg.eigh((a + tf.transpose(a)) / 2)[1] ** 2, (SYM,)),
    "svdvals": (lambda a: tf.linalg.svd(a, compute_uv=False), (TALL,)), "svd": (lambda a: (lambda s, u, v: u @ tf.linalg.diag(tf.sqrt(s)) @ tf.transpose(v))(*tf.linalg.svd(a)), (TALL,)), "qr": (lambda a: tf.linalg.qr(a)[1], (TALL,)), "qr q": (lambda a: tf.linalg.qr(a)[0], (TALL,)), "pinv": (tf.linalg.pinv, (TALL,)), "expm": (tf.linalg.expm, (A / 4,)),
    "tridiagonal": (lambda d, b: tf.linalg.tridiagonal_solve(d, b), (drawn(47, 3, 4) + np.array([[0], [4], [0]]), B)), "lu": (lambda a: tf.linalg.lu(a)[0], (A[::-1],)), "adjoint": (tf.linalg.adjoint, (T,)), "fft": (lambda x: tf.abs(tf.signal.fft(tf.cast(x, tf.complex128))), (X,)), "rfft": (lambda x: tf.abs(tf.signal.rfft(x)) ** 2, (X,)),
    "irfft": (lambda x: tf.signal.irfft(tf.signal.rfft(x) * tf.cast(tf.range(4), tf.complex128), [6]), (D,)), "fft2d": (lambda x: tf.math.real(tf.signal.ifft2d(tf.signal.fft2d(tf.cast(x, tf.complex128)) * tf.cast(tf.range(4), tf.complex128))), (M,)),
}  # fmt: skip

F64 = {"dtype": "float64"}
LOSSES = [
    getattr(tf.keras.losses, name)
    for name in ("Huber", "LogCosh", "MeanSquaredError", "MeanAbsoluteError", "CosineSimilarity", "Poisson", "Hinge")
]


def keras(*layers: Any) -> Callable[..., Any]:
    """Return a keras model as a function, with weights from a seed."""
    tf.keras.utils.set_random_seed(5)

    def model(x: Any) -> Any:
        for layer in layers:
            x = layer(x, training=True) if layer._call_has_training_arg else layer(x)
        return x

    return model


NEURAL: dict[str, Case] = {
    "conv2d": (lambda x, w: tf.nn.conv2d(x, w, [1, 2], "SAME"), (IMAGE, KERNEL)), "conv2d valid": (lambda x, w: tf.nn.conv2d(x, w, 2, "VALID"), (IMAGE, KERNEL)), "conv2d explicit": (lambda x, w: tf.nn.conv2d(x, w, 1, [[0, 0], [2, 1], [0, 3], [0, 0]]), (IMAGE, KERNEL)),
    "conv2d dilated": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2), (IMAGE, KERNEL)), "conv1d": (lambda x, w: tf.nn.conv1d(x, w, 2, "SAME"), (LINE, TAPS)), "conv3d": (lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), (VOLUME, VKERNEL)),
    "depthwise": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), (IMAGE, drawn(50, 3, 2, 4, 2))), "separable": (lambda x, w, v: tf.nn.separable_conv2d(x, w, v, [1, 1, 1, 1], "VALID"), (IMAGE, drawn(50, 3, 2, 4, 2), drawn(51, 1, 1, 8, 3))),
    "conv2d_transpose": (lambda x, w: tf.nn.conv2d_transpose(x, w, (2, 8, 7, 3), 2, "SAME"), (drawn(52, 2, 4, 4, 2), drawn(53, 3, 2, 3, 2))), "conv3d_transpose": (lambda x, w: tf.nn.conv3d_transpose(x, w, (1, 4, 3, 4, 2), 1, "SAME"), (drawn(54, 1, 4, 3, 4, 3), VKERNEL)),
    "max_pool": (lambda x: tf.nn.max_pool2d(x, 2, [2, 1], "SAME"), (POOL,)), "avg_pool": (lambda x: tf.nn.avg_pool2d(x, [3, 2], 2, "SAME"), (IMAGE,)), "avg_pool valid": (lambda x: tf.nn.avg_pool2d(x, 2, 1, "VALID"), (IMAGE,)), 
    "max_pool1d": (lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), (apart(56, 2, 6, 3),)), "bias_add": (tf.nn.bias_add, (IMAGE, drawn(57, 4))), "bias_add NCHW": (lambda x, b: tf.nn.bias_add(x, b, data_format="NCHW"), (IMAGE, drawn(58, 6))), "batch_normalization": (lambda x, m, v: tf.nn.batch_normalization(x, m, v, 0.5, 1.5, 1e-3), (M, drawn(59, 4), P[:4])),
    "cross entropy": (lambda z: tf.nn.softmax_cross_entropy_with_logits(SOFT, z), (M,)), "cross entropy of both": (tf.nn.softmax_cross_entropy_with_logits, (SOFT, M)), "sparse cross entropy": (lambda z: tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, z), (M,)), "sigmoid cross entropy": (lambda z: tf.nn.sigmoid_cross_entropy_with_logits(SOFT, z), (M,)),
    "log poisson": (lambda z: tf.nn.log_poisson_loss(SOFT, z), (M,)), "weighted": (lambda z: tf.nn.weighted_cross_entropy_with_logits(SOFT, z, 2.0), (M,)), "local response": (lambda x: x / (1.0 + 0.1 * tf.nn.avg_pool2d(tf.square(x), 1, 1, "SAME")), (IMAGE,)),
    "losses": (lambda x: sum(loss(reduction=None, **F64)(SOFT, x) for loss in LOSSES), (M + 2.0,)),
    "losses of logits": (lambda x: tf.keras.losses.CategoricalCrossentropy(from_logits=True, **F64)(SOFT, x) + tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, **F64)(LABELS, x), (M,)),
    "losses of probabilities": (lambda x: tf.keras.losses.KLDivergence(**F64)(SOFT, tf.nn.softmax(x)) + tf.keras.losses.BinaryCrossentropy(**F64)(SOFT, tf.nn.sigmoid(x)), (M,)),
    "dense": (keras(tf.keras.layers.Dense(6, "relu", **F64), tf.keras.layers.Dense(3, "softmax", **F64)), (M,)), "convolutional": (keras(tf.keras.layers.Conv2D(3, 2, activation="elu", **F64), tf.keras.layers.BatchNormalization(**F64), tf.keras.layers.AveragePooling2D(2, **F64), tf.keras.layers.Flatten(**F64), tf.keras.layers.Dense(2, **F64), tf.keras.layers.LayerNormalization(**F64)), (IMAGE,)),
    "lstm": (keras(tf.keras.layers.LSTM(3, **F64)), (LINE,)), "gru": (keras(tf.keras.layers.GRU(3, return_sequences=True, **F64)), (LINE,)), "simple rnn": (keras(tf.keras.layers.SimpleRNN(3, **F64)), (LINE,)), "bidirectional": (keras(tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(2, **F64), **F64)), (LINE,)), "embedding layer": (keras(tf.keras.layers.Dense(2, **F64), tf.keras.layers.Dropout(0.0, **F64), tf.keras.layers.GroupNormalization(1, **F64)), (M,)),
    "conv transpose layer": (keras(tf.keras.layers.Conv2DTranspose(2, 3, strides=2, **F64), tf.keras.layers.GlobalAveragePooling2D(**F64)), (IMAGE,)), "pooling layers": (keras(tf.keras.layers.MaxPooling2D(2, **F64), tf.keras.layers.UpSampling2D(**F64), tf.keras.layers.ZeroPadding2D(1, **F64), tf.keras.layers.Cropping2D(1, **F64), tf.keras.layers.GlobalMaxPooling2D(**F64)), (POOL,)),
}  # fmt: skip


def _attention() -> Callable[..., Any]:
    tf.keras.utils.set_random_seed(6)
    layer = tf.keras.layers.MultiHeadAttention(2, 3, **F64)
    layer.build((1, 9, 4), (1, 9, 4))
    return lambda x: layer(x, x, use_causal_mask=True)


def _variable() -> Callable[..., Any]:
    v, count = tf.Variable(drawn(70, 5)), tf.Variable(np.float64(0))

    def f(x: Any) -> Any:
        count.assign_add(1.0)
        count.assign(count * 2.0)
        return x * v + count - count.read_value() + tf.gather(v, I3)[0] * x

    return f


def _array(x: Any) -> Any:
    rows = tf.TensorArray(tf.float64, 5)
    for k in range(5):
        rows = rows.write(k, x[k] * x[0])
    return rows.gather([4, 0, 3]) * rows.stack()[:3] + tf.reduce_sum(rows.read(2))


def _grown(x: Any) -> Any:
    rows = tf.TensorArray(tf.float64, 0, dynamic_size=True, clear_after_read=False, infer_shape=False).unstack(x)
    rows = rows.write(5, x[1] * x[1])
    return rows.stack()


def _penalty(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(
            tf.tanh(x) * tf.sigmoid(x)
            + tf.sqrt(tf.square(x) + 1)
            + tf.nn.softplus(x)
            + tf.nn.elu(x)
            + tf.nn.relu(x) ** 2
        )
    return tape.gradient(y, x) ** 2


def _conv_penalty(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        y = tf.reduce_sum(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), w[0, 0, 0]) ** 2)
    return [tf.reduce_mean(g * g) for g in tape.gradient(y, (x, w))]


CALLS: dict[str, Case] = {
    "function": (tf.function(lambda x: tf.function(tf.sin)(x) * x), (X,)), "cond": (lambda x: tf.cond(x[0] > 0, lambda: tf.sin(x), lambda: tf.cos(x)), (X,)), "case": (lambda x: tf.switch_case(tf.constant(7), [lambda: tf.sin(x), lambda: tf.exp(x)]), (X,)),
    "while": (lambda x: tf.while_loop(lambda k, y: k < 4, lambda k, y: (k + 1, (y + x / y) / 2), (0, tf.ones_like(x)))[1], (P,)), "while on values": (lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: (y * x + y,), (x,))[0], (P,)), "scan": (lambda x: tf.scan(lambda h, y: h * y + y, x), (X,)),
    "scan reverse": (lambda x: tf.scan(lambda h, y: h * y + y, x, reverse=True, initializer=tf.constant(0.5, tf.float64)), (X,)), "map_fn": (lambda x: tf.map_fn(lambda r: tf.reduce_sum(tf.exp(r)), x), (M,)), "vectorized_map": (lambda x: tf.vectorized_map(lambda r: tf.reduce_sum(tf.exp(r)) * r, x), (M,)), "foldl": (lambda x: tf.foldl(lambda a, y: a * y + y, x), (X,)),
    "TensorArray": (_array, (X,)), "TensorArray grown": (_grown, (X,)), "variables": (_variable(), (X,)), "tape inside": (_penalty, (X,)), "tape inside of conv": (_conv_penalty, (IMAGE, KERNEL)), "recompute": (lambda x: tf.recompute_grad(lambda y: tf.sin(y) * y)(x), (X,)),
    "stateless random": (lambda x: x * tf.random.stateless_normal((5,), [1, 2], dtype=tf.float64), (X,)), "attention": (_attention(), (LINE,)), "captured": (lambda x: x @ tf.constant(N) + tf.range(2.0, dtype=tf.float64), (M,)), "unused input": (lambda x, y: x * 2, (X, Y)), "py_function free": (lambda x: tf.nest.map_structure(tf.square, {"a": x, "b": [x * 2]}), (X,)),
    "two layers": (lambda w, v, x: tf.gather(tf.nn.log_softmax(tf.nn.relu(x @ w) @ v), I3 % 2, axis=1, batch_dims=1), (drawn(72, 4, 6), drawn(73, 6, 2), M)), "assert": (lambda x: [tf.debugging.assert_positive(x), x * x][1], (P,)), "numpy": (lambda x: tf.experimental.numpy.sum(tf.experimental.numpy.outer(x, x) ** 2, axis=0), (X,)),
}  # fmt: skip

raw = tf.raw_ops
C = drawn(80, 2, 3, 4)
RAW: dict[str, Case] = {
    "Add": (lambda x, y: raw.Add(x=x, y=y) + raw.Div(x=x, y=y + 3) + raw.Inv(x=x + 3) + raw.AccumulateNV2(inputs=[x, y], shape=(5,)), (X, Y)), "ClipByValue": (lambda x: raw.ClipByValue(t=x, clip_value_min=tf.constant(-0.5, tf.float64), clip_value_max=tf.constant(0.7, tf.float64)), (X,)),
    "BatchMatMul": (lambda a, b: raw.BatchMatMul(x=a, y=b) + raw.BatchMatMulV3(x=a, y=b, Tout=tf.float64), (T, drawn(41, 2, 4, 2))), "BatchToSpace": (lambda x: raw.BatchToSpace(input=x, crops=[[0, 1], [1, 0]], block_size=2), (drawn(81, 4, 2, 2, 2),)),
    "SpaceToBatch": (lambda x: raw.SpaceToBatch(input=x, paddings=[[0, 0], [1, 0]], block_size=2), (drawn(35, 1, 4, 5, 2),)), "BiasAddV1": (lambda x, b: raw.BiasAddV1(value=x, bias=b), (IMAGE, drawn(57, 4))), "Concat": (lambda x: raw.Concat(concat_dim=1, values=[x, x]), (M,)),
    "complex parts": (lambda x, y: tf.math.imag(tf.math.conj(tf.complex(x, y)) ** 2) + tf.math.real(tf.transpose(tf.complex(x, y), conjugate=True)), (X, Y)), "spectra": (lambda x: tf.math.real(tf.signal.ifft3d(tf.signal.fft3d(tf.cast(x, tf.complex128)) ** 2) + tf.signal.ifft(tf.signal.fft(tf.cast(x, tf.complex128)) ** 2)), (C,)),
    "real spectra": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x) ** 2, [3, 4]) + tf.signal.irfft3d(tf.signal.rfft3d(x) ** 2, [2, 3, 4]), (C,)), "Gather": (lambda x: raw.Gather(params=x, indices=I3), (M,)), "integers": (lambda x: x * tf.cast(raw.TruncateMod(x=tf.range(5) - 3, y=2) + raw.Mod(x=tf.range(5) - 3, y=2) + raw.Invert(x=tf.range(5)), tf.float64), (X,)),
    "LogicalOr": (lambda x: x * tf.cast(tf.logical_or(x > 1, x < 0), tf.float64), (X,)), "diagonals": (lambda x: raw.MatrixDiag(diagonal=raw.MatrixDiagPart(input=x)) + raw.MatrixSetDiag(input=x, diagonal=x[0]), (A,)), "diagonals of any number": (lambda x: raw.MatrixDiagPartV2(input=x, k=[-1, 1], padding_value=tf.constant(0.5, tf.float64)), (A,)),
    "diagonals set": (lambda x, d: raw.MatrixSetDiagV2(input=x, diagonal=d, k=[0, 1]) + raw.MatrixDiagV2(diagonal=d, k=[0, 1], num_rows=-1, num_cols=-1, padding_value=tf.constant(0.5, tf.float64)), (A, drawn(82, 2, 4))), "MatrixSolveLs": (lambda a, b: raw.MatrixSolveLs(matrix=a, rhs=b, l2_regularizer=tf.constant(0.3, tf.float64)), (TALL, drawn(45, 5, 2))),
    "MatrixSolveLs wide": (lambda a, b: raw.MatrixSolveLs(matrix=a, rhs=b, l2_regularizer=tf.constant(0.3, tf.float64)), (WIDE, drawn(46, 3, 2))), "PreventGradient": (lambda x: raw.Snapshot(input=raw.PlaceholderWithDefault(input=x, shape=(5,))), (X,)),
    "slopes of activations": (lambda x, y: raw.ReciprocalGrad(y=x, dy=y) + raw.InvGrad(y=x, dy=y) + raw.RsqrtGrad(y=x, dy=y) + raw.SoftplusGrad(gradients=y, features=x) + raw.SoftsignGrad(gradients=y, features=x) + raw.SeluGrad(gradients=y, outputs=x) + raw.LeakyReluGrad(gradients=y, features=x), (X, Y)),
    "Relu6Grad": (lambda y: raw.Relu6Grad(gradients=y, features=tf.constant([-1.0, 1, 7, 3, 5], tf.float64)), (Y,)), "segments": (lambda x: raw.UnsortedSegmentMin(data=x, segment_ids=[1, 0, 3, 1, 2, 0], num_segments=4), (D,)),
    "SegmentMin": (lambda x: raw.SegmentMin(data=x, segment_ids=[0, 0, 1, 1, 2, 2]), (D,)), "Reverse": (lambda x: raw.Reverse(tensor=x, dims=[True, False]), (M,)), "ParallelDynamicStitch": (lambda x: raw.ParallelDynamicStitch(indices=[[0, 2], [1, 3]], data=[x[:2], x[2:4]]), (X,)),
    "lists": (lambda x: _listed(x), (X,)), "lists of blocks": (lambda x: _blocks(x), (X,)), "ScatterNdNonAliasingAdd": (lambda x, y: raw.ScatterNdNonAliasingAdd(input=x, indices=[[0], [2], [0]], updates=y), (X, drawn(83, 3))), "LinSpace": (lambda x: x * raw.LinSpace(start=tf.constant(0.5, tf.float64), stop=tf.constant(1.5, tf.float64), num=5), (X,)),
}  # fmt: skip


def _listed(x: Any) -> Any:
    items = raw.EmptyTensorList(element_shape=tf.constant([], tf.int32), max_num_elements=9, element_dtype=tf.float64)
    items = raw.TensorListPushBack(
        input_handle=raw.TensorListPushBack(input_handle=items, tensor=x[0]), tensor=x[1] * x[2]
    )
    rest, last = raw.TensorListPopBack(
        input_handle=items, element_shape=tf.constant([], tf.int32), element_dtype=tf.float64
    )
    length = tf.cast(raw.TensorListLength(input_handle=raw.TensorListResize(input_handle=rest, size=3)), tf.float64)
    spread = raw.TensorListScatterV2(
        tensor=x[:2], indices=[3, 1], element_shape=tf.constant([], tf.int32), num_elements=4
    )
    return last * length + raw.TensorListStack(
        input_handle=spread, element_shape=tf.constant([], tf.int32), element_dtype=tf.float64, num_elements=4
    )


def _blocks(x: Any) -> Any:
    items = raw.TensorListSplit(tensor=x, element_shape=[-1], lengths=tf.constant([2, 3], tf.int64))
    return (
        raw.TensorListConcatV2(
            input_handle=items, element_shape=[-1], leading_dims=tf.constant([], tf.int64), element_dtype=tf.float64
        )[0]
        * x
    )


CASES: dict[str, Case] = {
    f"{group}: {name}": case
    for group, cases in {"elementwise": ELEMENTWISE, "reduction": REDUCTIONS, "shaping": SHAPING, "matrix": MATRICES, "neural": NEURAL, "call": CALLS, "raw": RAW}.items()
    for name, case in cases.items()
}  # fmt: skip


def _normed(name: str, training: bool, form: str) -> Callable[..., Any]:
    def normed(x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = (
            tf.constant(drawn(seed, 0 if training else 4, low=0.5, high=1.5), tf.float32) for seed in (62, 63)
        )
        return getattr(raw, name)(
            x=x,
            scale=scale,
            offset=offset,
            mean=mean,
            variance=variance,
            epsilon=0.001,
            is_training=training,
            data_format=form,
        )[0]

    return normed


VECTORS = tuple(drawn(seed, 4, low=0.5, high=1.5) for seed in (60, 61))
NARROW: dict[str, Case] = {  # what there is for float32 alone
    "batch norm": (_normed("FusedBatchNormV3", False, "NHWC"), (IMAGE, *VECTORS)),
    "batch norm in training": (_normed("FusedBatchNorm", True, "NHWC"), (IMAGE, *VECTORS)),
    "batch norm of the second kind": (_normed("FusedBatchNormV2", True, "NHWC"), (IMAGE, *VECTORS)),
    "max_pool3d": (lambda x: tf.nn.max_pool3d(x, 2, 1, "VALID"), (apart(55, 1, 3, 3, 3, 2),)),
    "avg_pool3d": (lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME"), (VOLUME,)),
    "conv3d to its kernel": (lambda x, y: raw.Conv3DBackpropFilterV2(input=x, filter_sizes=[2, 2, 2, 2, 3], out_backprop=y, strides=[1] * 5, padding="SAME"), (VOLUME, drawn(54, 1, 4, 3, 4, 3))),
}  # fmt: skip
