"""Functions of JAX's own libraries, with arguments, that gradcli replays: name -> (function, arguments)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import jax.scipy.special as jsp
import numpy as np
from jax import lax, nn
from jax.ad_checkpoint import checkpoint_name
from jax.flatten_util import ravel_pytree

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def drawn(seed: int, *shape: int, low: float = -1.5, high: float = 1.5) -> Any:
    y = np.random.default_rng(seed).uniform(low, high, size=shape)
    return y if shape else np.float64(y)


def apart(seed: int, n: int) -> Any:
    """Return numbers that no pair of which is close, in random order."""
    return np.random.default_rng(seed).permutation(np.linspace(-1.3, 1.7, n))


X, Y, S = drawn(0, 5), drawn(1, 5), drawn(2)
P, Q = drawn(3, 5, low=0.2, high=2.0), drawn(4, 5, low=0.3, high=1.8)
U = drawn(5, 5, low=-0.9, high=0.9)
H = drawn(6, 5, low=0.1, high=0.9)
M, N, T = drawn(7, 3, 4), drawn(8, 4, 2), drawn(9, 2, 3, 4)
A, B = drawn(10, 4, 4) + 3 * np.eye(4), drawn(11, 4, 2)
AA, BB = np.stack([A, drawn(12, 4, 4) - 4 * np.eye(4)]), drawn(13, 2, 4, 2)
SPD = A @ A.T + np.eye(4)
SYM = A + A.T + np.diag([0.0, 1.0, 3.0, 7.0])
TALL, WIDE = drawn(14, 5, 3), drawn(15, 3, 5)
D = apart(16, 6)
D2 = apart(17, 12).reshape(3, 4)
IMAGE, KERNEL = drawn(18, 2, 6, 5, 4), drawn(19, 3, 2, 4, 6)
LINE, TAPS = drawn(20, 2, 4, 9), drawn(21, 6, 2, 3)
KEY_SEED = 3
I3 = np.array([2, 0, 2])

ELEMENTWISE: dict[str, Case] = {
    **{name: (getattr(jnp, name), (X,)) for name in (
        "negative", "exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsinh", "arctan", "square", "abs",
        "cbrt", "sinc", "i0", "deg2rad", "rad2deg", "positive", "sign", "floor", "ceil", "round", "trunc", "rint",
        "nan_to_num", "real", "conj", "isfinite", "signbit",
    )},
    **{name: (getattr(jnp, name), (P,)) for name in ("log", "log1p", "log2", "log10", "sqrt", "reciprocal")},
    **{name: (getattr(jnp, name), (U,)) for name in ("arcsin", "arccos", "arctanh")},
    **{name: (getattr(jnp, name), (X, Y)) for name in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "arctan2", "hypot", "logaddexp", "logaddexp2", "remainder",
        "fmod", "float_power", "copysign", "heaviside", "floor_divide", "fmax", "fmin",
    ) if name != "float_power"},
    **{f"lax {name}": (getattr(lax, name), (X,)) for name in ("rsqrt", "erf", "erfc", "logistic", "sign", "is_finite", "bessel_i0e", "bessel_i1e") if name != "rsqrt"},
    **{f"special {name}": (getattr(jsp, name), (P,)) for name in (
        "gammaln", "digamma", "gamma", "erf", "erfc", "expit", "entr", "i0", "i1", "i0e", "i1e", "ndtr", "log_ndtr", "exp1", "expi",
        "factorial", "sici",
    )},
    **{f"special {name}": (getattr(jsp, name), (X,)) for name in ("ndtr", "log_ndtr", "expit", "fresnel")},
    **{f"nn {name}": (getattr(nn, name), (X,)) for name in (
        "relu", "relu6", "sigmoid", "softplus", "sparse_plus", "silu", "soft_sign", "tanh", "log_sigmoid", "leaky_relu",
        "hard_sigmoid", "hard_silu", "hard_tanh", "elu", "celu", "selu", "gelu", "squareplus", "mish", "log_softmax", "softmax",
        "standardize", "logsumexp", "identity", "sparse_sigmoid", "swish",
    )},
    "spence": (jsp.spence, (np.array([0.4, 2.2, 2.6, 3.5]),)),
    "arccosh": (jnp.arccosh, (P + 1.5,)),
    "power": (jnp.power, (P, X)),
    "power of ints": (lambda x: x**3 + x**-2 + x**0 + x**0.5, (P,)),
    "negative base": (lambda x: x**3 - x**-1, (X,)),
    "float_power": (jnp.float_power, (P, X)),
    "rsqrt": (lax.rsqrt, (P,)),
    "integer_pow": (lambda x: lax.integer_pow(x, -3), (P,)),
    "erf_inv": (lax.erf_inv, (U,)),
    "logit": (jsp.logit, (H,)), "ndtri": (jsp.ndtri, (H,)),
    "xlogy": (jsp.xlogy, (X, P)), "xlog1py": (jsp.xlog1py, (X, P)),
    "xlogy at 0": (lambda x, y: jsp.xlogy(x - x[0], y)[1:], (X, P)),
    "rel_entr": (jsp.rel_entr, (P, Q)), "kl_div": (jsp.kl_div, (P, Q)),
    "betaln": (jsp.betaln, (P, Q)), "beta": (jsp.beta, (P, Q)),
    "gammainc": (lambda x: jsp.gammainc(np.linspace(0.5, 3, 5), x), (P,)),
    "gammaincc": (lambda x: jsp.gammaincc(1.5, x), (P,)),
    "betainc": (lambda x: jsp.betainc(1.5, 2.5, x), (H,)),
    "polygamma": (lambda x: jsp.polygamma(2, x) + jsp.polygamma(1, x), (P,)),
    "gelu exact": (lambda x: nn.gelu(x, approximate=False), (X,)),
    "relu of a matrix": (nn.relu, (M,)),
    "glu": (nn.glu, (M,)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.7), (X,)),
    "clamp": (lambda x, lo: lax.clamp(lo, x, 1.0), (X, Y - 2)),
    "where": (lambda x, y: jnp.where(x > y, x * y, jnp.sin(y)), (X, Y)),
    "where guards": (lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0), (X,)),
    "select_n": (lambda x, y: lax.select_n(np.array([0, 2, 1, 1, 0]), x, y, x * y), (X, Y)),
    "jnp.select": (lambda x: jnp.select([x < -0.5, x < 0.5], [x, x**2], jnp.exp(x)), (X,)),
    "piecewise": (lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t**2]), (X,)),
    "round to even": (lambda x: lax.round(x * 4, lax.RoundingMethod.TO_NEAREST_EVEN) + x, (X,)),
    "round away": (lambda x: lax.round(jnp.array([0.5, 1.5, -0.5, -2.5, 0.49999999999999994]) + 0 * x) + x, (X,)),
    "rem": (lambda x, y: lax.rem(x, y), (X, P)),
    "int arithmetic": (lambda x: x * ((jnp.arange(5) * 7 - 9) // 4) + x * lax.div(jnp.arange(5) - 2, 2) + x * (jnp.arange(5) % 3), (X,)),
    "bits": (lambda x: x * ((jnp.arange(5) & 3) | 8) + x * (jnp.arange(5) ^ 1) + x * (~jnp.arange(5)) + x * (jnp.arange(5) << 2), (X,)),
    "astype": (lambda x: x.astype(int) * x + (x > 0).astype(float) * x + x.astype(bool) * x, (X * 3,)),
    "complex": (lambda x, y: jnp.abs(lax.complex(x, y)) + jnp.real(jnp.exp(1j * x)) + jnp.imag(jnp.conj((x + 1j * y) ** 2)), (X, Y)),
    "softmax with axis": (lambda x: nn.softmax(x, axis=(0, 1)), (M,)),
    "softmax with where": (lambda x: nn.softmax(x, where=np.arange(5) < 3), (X,)),
    "logsumexp with weights": (lambda x: nn.logsumexp(x, axis=1, b=np.array([1.0, 2.0, 0.5, 1.5])), (M,)),
    "logsumexp": (lambda x: jsp.logsumexp(x, axis=0, keepdims=True), (M,)),
    "ldexp": (lambda x: jnp.ldexp(x, np.array([1, -2, 3, 0, 5])), (X,)),
    "polyval": (jnp.polyval, (X, S)),
    "scalar": (lambda x, y: jnp.sin(x) * y**2, (S, S + 1)),
    "expm1 of square": (lambda x: jnp.expm1(jnp.square(x)) / x, (X,)),
}  # fmt: skip

REDUCTIONS: dict[str, Case] = {
    "sum": (jnp.sum, (T,)), "sum axis": (lambda x: jnp.sum(x, axis=(0, 2), keepdims=True), (T,)),
    "mean": (lambda x: jnp.mean(x, axis=1), (T,)), "var": (lambda x: jnp.var(x, axis=0, ddof=1), (M,)), "std": (jnp.std, (M,)),
    "max": (lambda x: jnp.max(x, axis=1), (D2,)), "min": (jnp.min, (D2,)), "ptp": (jnp.ptp, (D,)),
    "prod": (lambda x: jnp.prod(x, axis=1), (M,)), "prod with zero": (lambda x: jnp.prod(x - x[0] + 0.0), (X,)),
    "argmax": (lambda x: x * jnp.argmax(x), (D,)), "argmin": (lambda x: x[0] * jnp.argmin(x, axis=1), (D2[:, :3],)),
    "xor": (lambda x: x * lax.reduce_xor(np.array([5, 3, 8]), axes=(0,)), (X,)),
    "any all": (lambda x: x * jnp.any(x > 0) + x * jnp.all(x > 0), (X,)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (M,)), "cumprod": (jnp.cumprod, (X,)),
    "cumsum reverse": (lambda x: lax.cumsum(x, axis=1, reverse=True), (M,)),
    "cumprod reverse": (lambda x: lax.cumprod(x, reverse=True), (X,)),
    "cummax": (lambda x: lax.cummax(x, axis=1), (D2,)), "cummin": (lambda x: lax.cummin(x, reverse=True), (D,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=1), (M,)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), (X,)),
    "sort": (lambda x: jnp.sort(x, axis=0), (D2,)), "sort descending": (lambda x: jnp.sort(x, descending=True), (D,)),
    "argsort": (lambda x: x[jnp.argsort(x)] * np.arange(6), (D,)),
    "sort by a key": (lambda x, y: lax.sort((x, y), num_keys=1), (D, apart(30, 6))),
    "lexsort": (lambda x, y: x[jnp.lexsort((y, np.array([1, 0, 1, 0, 1, 0])))], (D, apart(30, 6))),
    "top_k": (lambda x: lax.top_k(x, 2)[0], (D2,)), "top_k positions": (lambda x: x[0] * lax.top_k(x, 3)[1], (D,)),
    "median": (jnp.median, (D,)), "quantile": (lambda x: jnp.quantile(x, jnp.array([0.3, 0.8])), (D,)),
    "percentile": (lambda x: jnp.percentile(x, 37.0, axis=1), (D2,)),
    "average": (lambda x, w: jnp.average(x, weights=w), (X, P)), "nanmean": (jnp.nanmean, (X,)), "nansum": (jnp.nansum, (X,)),
    "trapezoid": (jnp.trapezoid, (X,)), "diff": (lambda x: jnp.diff(x, n=2), (X,)), "gradient": (jnp.gradient, (X,)),
    "interp": (lambda x, f: jnp.interp(x, jnp.linspace(-2, 2, 5), f), (X, Y)),
    "searchsorted": (lambda x: x * jnp.searchsorted(jnp.linspace(-2, 2, 9), x), (X,)),
    "digitize": (lambda x: x * jnp.digitize(x, jnp.linspace(-2, 2, 9)), (X,)),
    "norm": (jnp.linalg.norm, (X,)), "norm fro": (jnp.linalg.norm, (M,)), "norm 1": (lambda x: jnp.linalg.norm(x, 1), (M,)),
    "norm 3": (lambda x: jnp.linalg.norm(x, 3), (X,)), "norm inf": (lambda x: jnp.linalg.norm(x, jnp.inf), (D,)),
    "norm 2": (lambda x: jnp.linalg.norm(x, 2), (TALL,)), "norm nuc": (lambda x: jnp.linalg.norm(x, "nuc"), (TALL,)),
    "norm axis": (lambda x: jnp.linalg.norm(x, axis=0), (M,)),
    "cov": (jnp.cov, (M,)), "corrcoef": (jnp.corrcoef, (M,)),
    "segment_sum": (lambda x: jax.ops.segment_sum(x, np.array([0, 0, 2, 1, 1]), 3), (X,)),
    "segment_max": (lambda x: jax.ops.segment_max(x, np.array([0, 0, 2, 1, 1, 2]), 3), (D,)),
    "segment_prod": (lambda x: jax.ops.segment_prod(x, np.array([0, 0, 2, 1, 1]), 3), (X,)),
    "bincount": (lambda w: jnp.bincount(np.array([0, 0, 2, 1, 1]), weights=w, length=3), (X,)),
}  # fmt: skip

SHAPING: dict[str, Case] = {
    "reshape": (lambda x: jnp.reshape(x, (4, 6)) * np.arange(6), (T,)), "reshape F": (lambda x: jnp.reshape(x, (4, 3), order="F"), (M,)),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)), (T,)), "T": (lambda x: x.T, (M,)), "swapaxes": (lambda x: jnp.swapaxes(x, 0, 2), (T,)),
    "moveaxis": (lambda x: jnp.moveaxis(x, 0, -1), (T,)), "squeeze": (lambda x: jnp.squeeze(x[:1]), (M,)),
    "expand_dims": (lambda x: jnp.expand_dims(x, (0, 2)) * x[0], (M,)), "lax.expand_dims": (lambda x: lax.expand_dims(x, (1,)), (X,)),
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (2, 3, 4)), (M,)), "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (5, 2), (0,)), (X,)),
    "broadcast scalar": (lambda x: jnp.full((2, 3), x), (S,)), "slice": (lambda x: x[1:3, ::2], (M,)), "negative step": (lambda x: x[::-2, 1], (M,)),
    "int index": (lambda x: x[-1] * x[0, 2], (M,)), "newaxis": (lambda x: x[:, None] * x[None], (X,)), "ellipsis": (lambda x: x[..., 1], (T,)),
    "fancy": (lambda x: x[I3], (M,)), "fancy pair": (lambda x: x[I3, np.array([0, 3, 1])], (M,)), "fancy grid": (lambda x: x[np.ix_(I3, np.array([1, 0]))], (M,)),
    "fancy middle": (lambda x: x[:, I3], (T,)), "fancy apart": (lambda x: x[np.array([0, 1, 1]), :, I3], (T,)), "mask": (lambda x: x[np.array([True, False, True])], (M,)),
    "take": (lambda x: jnp.take(x, I3, axis=1), (M,)), "take clip": (lambda x: jnp.take(x, np.array([9, -7]), axis=0, mode="clip"), (M,)),
    "take wrap": (lambda x: jnp.take(x, np.array([9, -7]), axis=0, mode="wrap"), (M,)),
    "take fill": (lambda x: jnp.take(x, np.array([0, 9]), axis=1, mode="fill", fill_value=2.5), (M,)),
    "get fill": (lambda x: x.at[np.array([0, 7])].get(mode="fill", fill_value=0.5), (X,)),
    "take_along_axis": (lambda x: jnp.take_along_axis(x, np.array([[0, 1], [2, 2], [3, 0]]), axis=1), (M,)),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 9), (2, 2)), (M,)), "dynamic_index": (lambda x: lax.dynamic_index_in_dim(x, 2, 1, keepdims=False), (M,)),
    "dynamic_update_slice": (lambda x, y: lax.dynamic_update_slice(x, y, (7, -5)), (M, drawn(31, 2, 2))),
    "vmapped dynamic_slice": (lambda x: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (2,)))(x, np.array([0, 2, 3])), (M,)),
    "vmapped gather": (lambda x: jax.vmap(lambda r, k: r[k])(x, np.array([[0, 2], [2, 1], [3, 3]])), (M,)),
    "at set": (lambda x, s: x.at[1].set(s).at[2:4].set(x[0]), (X, S)), "at add": (lambda x, y: x.at[I3].add(y), (X, drawn(32, 3))),
    "at add rows": (lambda x, y: x.at[I3].add(y), (M, drawn(33, 3, 4))), "at multiply": (lambda x, y: x.at[np.array([1, 3])].multiply(y, unique_indices=True), (X, drawn(34, 2))),
    "at divide": (lambda x: x.at[1].divide(x[2]), (X,)), "at power": (lambda x: x.at[1].power(2.0), (P,)),
    "at min max": (lambda x: x.at[np.array([0, 1])].min(0.1).at[np.array([3, 4])].max(x[2]), (D,)), "at columns": (lambda x, y: x.at[:, I3[:2]].set(y), (M, drawn(35, 3, 2))),
    "at out of bounds": (lambda x: x.at[np.array([0, 9])].set(3.0) + x.at[9].add(1.0, mode="drop"), (X,)), "at subtract": (lambda x: x.at[1].subtract(x[0]), (X,)),
    "at clip": (lambda x: x.at[np.array([0, 9])].add(x[:2], mode="clip"), (X,)), "at a block": (lambda x, y: x.at[1:3, 1:3].add(y), (M, drawn(31, 2, 2))),
    "vmapped scatter": (lambda x: jax.vmap(lambda r, k: r.at[k].add(r[0]))(x, np.array([0, 2, 3])), (M,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y[:, :2], x], axis=1), (M, M + 1)), "stack": (lambda x, y: jnp.stack([x, y], axis=1), (X, Y)),
    "unstack": (lambda x: sum(jnp.unstack(x, axis=1)[1:]), (M,)), "split": (lambda x: jnp.split(x, (1, 3), axis=1), (M,)), "hstack": (lambda x, y: jnp.hstack([x, y]), (X, Y)),
    "array of scalars": (lambda x: jnp.array([x[0], x[1] * x[2], 1.0]), (X,)), "roll": (lambda x: jnp.roll(x, 2, axis=1), (M,)), "flip": (jnp.flip, (M,)),
    "rot90": (jnp.rot90, (M,)), "tile": (lambda x: jnp.tile(x, (2, 1, 2)), (M,)), "repeat": (lambda x: jnp.repeat(x, 3, axis=1), (M,)),
    "repeat counts": (lambda x: jnp.repeat(x, np.array([1, 0, 2]), axis=0), (M,)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=1.5), (M,)), "pad reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), (X,)),
    "pad edge": (lambda x: jnp.pad(x, 2, mode="edge"), (X,)), "lax.pad": (lambda x, s: lax.pad(x, s, ((1, -1, 2), (-1, 2, 0))), (M, S)),
    "lax.pad crop": (lambda x, s: lax.pad(x, s, ((-1, -1, 1),)), (X, S)), "tril": (jnp.tril, (M,)), "triu": (lambda x: jnp.triu(x, 1), (M,)), "diag": (jnp.diag, (X,)),
    "diagonal": (lambda x: jnp.diagonal(x, 1), (M,)), "trace": (jnp.trace, (A,)), "eye": (lambda x: jnp.eye(5) * x, (X,)), "one_hot": (lambda x: nn.one_hot(I3, 5) * x, (X,)),
    "meshgrid": (lambda x, y: jnp.multiply(*jnp.meshgrid(x, y)), (X, Y[:3])), "linspace": (lambda x, y: jnp.linspace(x, y, 4), (S, S + 2)),
    "ravel": (jnp.ravel, (T,)), "triu_indices": (lambda a: a[np.triu_indices(4, 1)], (A,)), "vander": (lambda x: jnp.vander(x, 3), (X,)), "column_stack": (lambda x, y: jnp.column_stack((x, y)), (X, Y)),
    "kron": (jnp.kron, (M, N)), "block": (lambda x: jnp.block([[x, x], [x, 2 * x]]), (M,)), "insert": (lambda x: jnp.insert(x, 2, 7.0), (X,)), "delete": (lambda x: jnp.delete(x, 2), (X,)),
    "tri": (lambda x: jnp.tri(5) @ x, (X,)), "iota": (lambda x: x * lax.iota(float, 5) + lax.broadcasted_iota(float, (2, 5), 1), (X,)), "unravel": (lambda x: ravel_pytree({"a": x, "b": x[:2]})[0], (X,)),
    "apply_along_axis": (lambda x: jnp.apply_along_axis(jnp.cumsum, 0, x), (M,)), "choose": (lambda x, y: jnp.choose(np.array([0, 1, 1, 0, 1]), [x, y], mode="clip"), (X, Y)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 11, 52), (X,)), "optimization_barrier": (lambda x: lax.optimization_barrier((x, x * 2))[1], (X,)),
}  # fmt: skip

MATRICES: dict[str, Case] = {
    "matmul": (jnp.matmul, (M, N)), "matvec": (jnp.matmul, (M, drawn(40, 4))), "vecmat": (jnp.matmul, (drawn(41, 3), M)), "vdot": (jnp.vdot, (X, Y)),
    "batched": (jnp.matmul, (T, drawn(42, 2, 4, 2))), "batched times one": (jnp.matmul, (T, N)), "outer": (jnp.outer, (X, Y)), "inner": (jnp.inner, (M, M + 1)),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, axes=([2, 1], [1, 0])), (T, drawn(43, 3, 4, 2))), "dot": (jnp.dot, (T, N)), "cross": (jnp.cross, (X[:3], Y[:3])),
    "einsum trace": (lambda a: jnp.einsum("ii->i", a), (A,)), "einsum": (lambda a, b: jnp.einsum("bij,bjk->bki", a, b), (T, drawn(44, 2, 4, 2))),
    "einsum outer": (lambda a, b: jnp.einsum("i,j->ji", a, b), (X, Y)), "einsum three": (lambda a, b, c: jnp.einsum("ij,jk,k->i", a, b, c), (M, N, drawn(45, 2))),
    "einsum batch only": (lambda a, b: jnp.einsum("i,i->i", a, b), (X, Y)), "einsum sum": (lambda a, b: jnp.einsum("ij,k->k", a, b), (M, X)),
    "dot_general": (lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (2,)))), (T, drawn(46, 3, 4, 2))),
    "vmapped matvec": (lambda a, x: jax.vmap(jnp.dot, (0, 1))(a, x), (T, drawn(47, 4, 2))), "matrix_power": (lambda a: jnp.linalg.matrix_power(a, 3), (A,)),
    "multi_dot": (lambda a, b, c: jnp.linalg.multi_dot([a, b, c]), (M, N, drawn(48, 2, 3))),
    "solve vector": (lambda a, b: jnp.linalg.solve(a, b), (A, drawn(50, 4))), "solve": (jnp.linalg.solve, (A, B)), "solve batched": (jnp.linalg.solve, (AA, BB)),
    "solve one matrix": (lambda a, b: jnp.linalg.solve(a, b), (A, BB)), "vmapped solve": (lambda a, b: jax.vmap(jnp.linalg.solve, (None, 0))(a, b), (A, drawn(51, 3, 4))),
    "vmapped solve of both": (lambda a, b: jax.vmap(jnp.linalg.solve)(a, b), (AA, drawn(52, 2, 4))), "inv": (jnp.linalg.inv, (A,)), "inv batched": (jnp.linalg.inv, (AA,)),
    "det 2": (jnp.linalg.det, (A[:2, :2],)), "det 3": (jnp.linalg.det, (A[:3, :3],)), "det": (jnp.linalg.det, (A,)), "det batched": (jnp.linalg.det, (AA,)),
    "slogdet": (lambda a: jnp.linalg.slogdet(a)[1], (AA,)), "slogdet sign": (lambda a: jnp.prod(jnp.stack(jnp.linalg.slogdet(a))), (A[::-1],)),
    "lu": (lambda a: lax.linalg.lu(a)[0], (A[::-1],)), "lu wide": (lambda a: lax.linalg.lu(a)[0], (WIDE,)), "lu tall": (lambda a: lax.linalg.lu(a)[0], (TALL,)),
    "lu batched": (lambda a: lax.linalg.lu(a)[0], (AA[:, ::-1],)), "jsl.lu": (lambda a: jsl.lu(a)[1:], (A[::-1],)),
    "lu_solve": (lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b), (A[::-1], B)), "lu_solve trans": (lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=1), (A[::-1], B)),
    "cholesky": (jnp.linalg.cholesky, (SPD,)), "cholesky upper": (lambda a: jnp.linalg.cholesky(a, upper=True), (SPD,)), "cho_solve": (lambda a, b: jsl.cho_solve(jsl.cho_factor((a + a.T) / 2), b), (SPD, B)),
    "triangular": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (A, B)), "triangular trans": (lambda a, b: jsl.solve_triangular(a, b, trans=1), (A, B)),
    "triangular unit": (lambda a, b: jsl.solve_triangular(a, b, lower=True, unit_diagonal=True), (A, drawn(53, 4))),
    "triangular right": (lambda a, b: lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True), (A, B)),
    "triangular right trans": (lambda a, b: lax.linalg.triangular_solve(a, b.T, left_side=False, lower=False, transpose_a=True), (A, B)),
    "eigvalsh": (jnp.linalg.eigvalsh, (SYM,)), "eigh": (lambda a: jnp.linalg.eigh(a)[1] ** 2, (SYM,)), "eigh function": (lambda a: (lambda w, v: v @ jnp.diag(jnp.exp(w / 5)) @ v.T)(*jnp.linalg.eigh(a)), (SYM,)),
    "svdvals": (lambda a: jnp.linalg.svd(a, compute_uv=False), (TALL,)), "svd": (lambda a: (lambda u, s, vt: u @ jnp.diag(jnp.sqrt(s)) @ vt)(*jnp.linalg.svd(a, full_matrices=False)), (TALL,)),
    "qr": (lambda a: jnp.linalg.qr(a), (TALL,)), "pinv": (jnp.linalg.pinv, (TALL,)), "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], (TALL, X)), "cond": (jnp.linalg.cond, (TALL,)),
    "expm": (jsl.expm, (A / 4,)), "tridiagonal": (lax.linalg.tridiagonal_solve, (X, P + 4, Y, drawn(54, 5, 2))), "block_diag": (lambda a, b: jsl.block_diag(a, b), (M, N)), "toeplitz": (lambda c: jsl.toeplitz(c), (X,)),
    "matrix_rank": (lambda a: a * jnp.linalg.matrix_rank(a), (TALL,)), "symmetric_product": (lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5), (M, SYM[:3, :3])),
    "tensorsolve": (lambda a, b: jnp.linalg.tensorsolve(a.reshape(2, 2, 4), b), (A, drawn(55, 2, 2))), "tensorinv": (lambda a: jnp.linalg.tensorinv(a.reshape(2, 2, 4)), (A,)),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), (X,)), "rfft": (lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2, (X,)), "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * np.arange(4), 6), (D,)),
    "fft2": (lambda x: jnp.real(jnp.fft.ifft2(jnp.fft.fft2(x) * np.arange(4))), (M,)), "dct": (lambda x: jax.scipy.fft.dct(x), (X,)),
    "conv": (lambda x, w: lax.conv(x, w, (1,), "VALID"), (LINE, drawn(60, 6, 4, 3))), "conv same strided": (lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME"), (LINE, drawn(60, 6, 4, 3))),
    "conv grouped": (lambda x, w: lax.conv_general_dilated(x, w, (1,), [(1, 2)], feature_group_count=2), (LINE, TAPS)),
    "conv depthwise": (lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", feature_group_count=4), (LINE, drawn(61, 8, 1, 3))),
    "conv dilated": (lambda x, w: lax.conv_general_dilated(x, w, (2,), [(-1, 3)], lhs_dilation=(2,), rhs_dilation=(3,)), (LINE, drawn(60, 6, 4, 3))),
    "conv NHWC": (lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), (IMAGE, KERNEL)),
    "conv batch groups": (lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID", batch_group_count=2), (LINE, drawn(62, 6, 4, 3))),
    "conv transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), (IMAGE[:1, :3, :2], KERNEL)),
    "convolve": (lambda x, y: jnp.convolve(x, y, mode="same"), (X, Y[:3])), "correlate": (jnp.correlate, (X, Y[:3])), "convolve2d": (lambda x, y: jax.scipy.signal.convolve2d(x, y), (M, N[:2])),
    "max pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 1, 1), "SAME"), (apart(63, 240).reshape(2, 6, 5, 4),)),
    "min pool": (lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2,), (1,), "VALID"), (D,)), "average pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") / 6, (IMAGE,)),
    "window dilated": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), [(1, 1)], base_dilation=(2,), window_dilation=(3,)), (X,)),
    "attention": (lambda q, k, v: nn.softmax(jnp.where(jnp.tri(3, dtype=bool), jnp.einsum("ihd,jhd->hij", q, k), -jnp.inf)) @ v, (drawn(64, 3, 2, 4), drawn(65, 3, 2, 4), drawn(66, 2, 3, 4))),
    "multivariate normal": (lambda x, m: jax.scipy.stats.multivariate_normal.logpdf(x, m, SPD), (drawn(67, 4), drawn(68, 4))),
    "map_coordinates": (lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c, c], order=1), (M, H + 0.55)),
}  # fmt: skip


def _custom() -> Callable[..., Any]:
    f = jax.custom_vjp(lambda x: jnp.sin(x) * x)
    f.defvjp(lambda x: (jnp.sin(x) * x, x), lambda x, ybar: (ybar * (jnp.cos(x) * x + jnp.sin(x)),))
    return f


def _rnn(w: Any, x: Any) -> Any:
    return lax.scan(lambda h, row: (jnp.tanh(w @ h + row), h.sum()), jnp.zeros(4), x)


def _newton(x: Any) -> Any:
    return lax.fori_loop(0, 6, lambda k, y: (y + x / y) / 2, jnp.ones_like(x))


def _fixed(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: (a @ x.reshape(2, 2)).ravel() + 3 * x,
        b,
        lambda matvec, b: jnp.linalg.solve(jax.jacobian(matvec)(b), b),
        lambda vecmat, b: jnp.linalg.solve(jax.jacobian(vecmat)(b), b),
    )


CALLS: dict[str, Case] = {
    "jit": (jax.jit(lambda x: jax.jit(jnp.sin)(x) * x), (X,)), "checkpoint": (jax.checkpoint(lambda x: jnp.sin(x) * x), (X,)),
    "custom_vjp": (_custom(), (X,)), "custom_jvp inside jit": (jax.jit(lambda x: nn.relu(x) + nn.silu(x)), (X,)),
    "cond": (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (X,)), "switch": (lambda x: lax.switch(7, [jnp.sin, jnp.cos, jnp.exp], x), (X,)),
    "fori_loop": (_newton, (P,)), "scan": (_rnn, (A / 4, drawn(70, 3, 4))), "scan reverse": (lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c * y), 0.3, x, reverse=True), (X,)),
    "map": (lambda x: lax.map(lambda r: jnp.sum(jnp.exp(r)), x), (M,)), "vmap": (jax.vmap(lambda r: jnp.sort(r) * r[0]), (D2,)), "grad": (jax.grad(lambda x: jnp.sum(jnp.sin(x) * x**2)), (X,)),
    "grad of sort": (jax.grad(lambda x: jnp.sum(jnp.sort(x) ** 3 * np.arange(6))), (D,)), "hessian": (jax.hessian(lambda x: jnp.sum(jnp.exp(x[:3]) * x[2])), (X,)),
    "jvp": (lambda x, y: jax.jvp(lambda t: jnp.tanh(t) * t, (x,), (y,))[1], (X, Y)),
    "grad of conv": (lambda x, w: jax.grad(lambda x: jnp.sum(lax.conv(x, w, (1,), "SAME") ** 2))(x), (LINE, drawn(60, 6, 4, 3))),
    "grad of max pool": (lambda x, y: jax.vjp(lambda t: lax.reduce_window(t, -jnp.inf, lax.max, (2,), (1,), "VALID"), x)[1](y)[0], (D, X)),
    "grad of solve": (lambda a, b: jax.grad(lambda b: jnp.sum(jnp.linalg.solve(a, b) ** 2))(b), (A, B)), "custom_linear_solve": (_fixed, (A[:2, :2], drawn(71, 4))),
    "platform_dependent": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (X,)), "debug.print": (lambda x: (jax.debug.callback(lambda v: None, x), x * x)[1], (X,)),
    "random normal": (lambda x: x * jax.random.normal(jax.random.key(KEY_SEED), (5,)), (X,)), "random old key": (lambda x: x * jax.random.uniform(jax.random.PRNGKey(KEY_SEED), (5,)), (X,)),
    "dropout": (lambda x: jnp.where(jax.random.bernoulli(jax.random.split(jax.random.key(KEY_SEED))[1], 0.5, (5,)), x / 0.5, 0), (X,)),
    "permutation": (lambda x: jax.random.permutation(jax.random.key(KEY_SEED), x), (X,)), "gumbel softmax": (lambda x: nn.softmax(x + jax.random.gumbel(jax.random.key(KEY_SEED), (5,))), (X,)),
    "checkpoint_name": (lambda x: checkpoint_name(x * x, "h"), (X,)), "constants": (lambda x: x @ jnp.asarray(N) + jnp.arange(2.0), (M,)),
    "two layers": (lambda w, v, x: nn.log_softmax(nn.relu(x @ w) @ v, axis=-1)[np.arange(3), I3 % 2], (drawn(72, 4, 6), drawn(73, 6, 2), M)),
    "unused input": (lambda x, y: x * 2, (X, Y)), "layer norm": (lambda x, w: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w, (M, drawn(74, 4))),
}  # fmt: skip

CASES: dict[str, Case] = {
    f"{group}: {name}": case
    for group, cases in {"elementwise": ELEMENTWISE, "reduction": REDUCTIONS, "shaping": SHAPING, "matrix": MATRICES, "call": CALLS}.items()
    for name, case in cases.items()
}  # fmt: skip
