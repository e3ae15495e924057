"""Functions with an mx.custom_function of their own: what a right one looks like, and how it goes wrong."""

import math
from typing import Any

import mlx.core as mx
import numpy as np

from tests.frameworks.corpus.case import Case, drawn
from tests.frameworks.corpus.mlx_case import case
from tests.frameworks.corpus.mlx_scalars import SCALARS


def mean(x: Any) -> Any:
    return mx.mean(x, axis=-1, keepdims=True)


def total(x: Any) -> Any:
    return mx.sum(x, axis=-1, keepdims=True)


def normalised(x: Any) -> tuple[Any, Any]:
    std = mx.sqrt(mean((x - mean(x)) ** 2) + 1e-5)
    return (x - mean(x)) / std, std


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return gain * normalised(x)[0] + bias


def layer_norm_bwd(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xhat, std = normalised(x)
    hbar = ybar * gain
    xbar = (hbar - mean(hbar) - xhat * mean(hbar * xhat)) / std
    return xbar, mx.sum(ybar * xhat, axis=0), mx.sum(ybar, axis=0)


def layer_norm_no_mean(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xhat, std = normalised(x)
    hbar = ybar * gain
    xbar = (hbar - xhat * mean(hbar * xhat)) / std
    return xbar, mx.sum(ybar * xhat, axis=0), mx.sum(ybar, axis=0)


def layer_norm_gain_of_x(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xbar, _, biasbar = layer_norm_bwd(ybar, y, x, gain, bias)
    return xbar, mx.sum(ybar * x, axis=0), biasbar


def rms_norm(x: Any, gain: Any) -> Any:
    return gain * x / mx.sqrt(mean(x**2))


def rms_norm_bwd(ybar: Any, y: Any, x: Any, gain: Any) -> Any:
    r, hbar = mx.sqrt(mean(x**2)), ybar * gain
    return (hbar - x * mean(hbar * x) / r**2) / r, mx.sum(ybar * x / r, axis=0)


def rms_norm_total(ybar: Any, y: Any, x: Any, gain: Any) -> Any:
    r, hbar = mx.sqrt(mean(x**2)), ybar * gain
    return (hbar - x * total(hbar * x) / r**2) / r, mx.sum(ybar * x / r, axis=0)


def l2_normalise(x: Any) -> Any:
    return x / mx.linalg.norm(x, axis=-1, keepdims=True)


def l2_normalise_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return (ybar - y * total(ybar * y)) / mx.linalg.norm(x, axis=-1, keepdims=True)


def l2_normalise_no_norm(ybar: Any, y: Any, x: Any) -> Any:
    return ybar - y * total(ybar * y)


def l2_normalise_whole(ybar: Any, y: Any, x: Any) -> Any:
    return (ybar - y * mx.sum(ybar * y)) / mx.linalg.norm(x, axis=-1, keepdims=True)


def cross_entropy(z: Any, ids: Any) -> Any:
    return mx.mean(mx.logsumexp(z, axis=-1) - mx.take_along_axis(z, ids[:, None], axis=1)[:, 0])


def one_hot(ids: Any, x: Any) -> Any:
    return (ids[:, None] == mx.arange(x.shape[1])).astype(x.dtype)


def cross_entropy_bwd(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    hot = one_hot(ids, z)
    return ybar * (mx.softmax(z, axis=-1) - hot) / z.shape[0], None


def cross_entropy_not_averaged(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    return ybar * (mx.softmax(z, axis=-1) - one_hot(ids, z)), None


def cross_entropy_over_the_batch(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    hot = one_hot(ids, z)
    return ybar * (mx.softmax(z, axis=0) - hot) / z.shape[0], None


def logsumexp(x: Any) -> Any:
    return mx.logsumexp(x, axis=-1)


def logsumexp_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar[:, None] * mx.exp(x - y[:, None])


def logsumexp_sigmoid(ybar: Any, y: Any, x: Any) -> Any:
    return ybar[:, None] * mx.sigmoid(x - y[:, None])


def weights(q: Any, k: Any) -> Any:
    return mx.softmax(q @ k.T / math.sqrt(q.shape[-1]), axis=-1)


def attention(q: Any, k: Any, v: Any) -> Any:
    return weights(q, k) @ v


def attention_bwd(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    p, pbar = weights(q, k), ybar @ v.T
    sbar = p * (pbar - total(p * pbar)) / math.sqrt(q.shape[-1])
    return sbar @ k, sbar.T @ q, p.T @ ybar


def attention_no_scale(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    qbar, kbar, vbar = attention_bwd(ybar, y, q, k, v)
    return qbar, kbar * math.sqrt(q.shape[-1]), vbar


def attention_diagonal(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    p = weights(q, k)
    sbar = p * (1 - p) * (ybar @ v.T) / math.sqrt(q.shape[-1])
    return sbar @ k, sbar.T @ q, p.T @ ybar


def conv1d(x: Any, kernel: Any) -> Any:
    n = x.shape[0] - kernel.shape[0] + 1
    return mx.sum(mx.stack([x[j : j + n] * kernel[j] for j in range(kernel.shape[0])]), axis=0)


def conv1d_bwd(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    m, n = kernel.shape[0], ybar.shape[0]
    xbar = mx.sum(mx.stack([mx.pad(ybar * kernel[j], (j, m - 1 - j)) for j in range(m)]), axis=0)
    return xbar, mx.stack([mx.sum(x[j : j + n] * ybar) for j in range(m)])


def conv1d_flipped(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    xbar, kernelbar = conv1d_bwd(ybar, y, x, kernel[::-1])
    return xbar, kernelbar


def conv1d_shifted(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    xbar, kernelbar = conv1d_bwd(ybar, y, x, kernel)
    return xbar, mx.roll(kernelbar, 1)


def embedding(table: Any, ids: Any) -> Any:
    return table[ids]


def embedding_bwd(ybar: Any, y: Any, table: Any, ids: Any) -> Any:
    return mx.zeros_like(table).at[ids].add(ybar), None


def embedding_set(ybar: Any, y: Any, table: Any, ids: Any) -> Any:
    bar = mx.zeros_like(table)
    bar[ids] = ybar
    return bar, None


def gather_rows(x: Any, ids: Any) -> Any:
    return mx.take_along_axis(x, ids[:, None], axis=1)[:, 0]


def gather_rows_bwd(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return ybar[:, None] * one_hot(ids, x), None


def gather_rows_columns(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return (ybar[:, None] * one_hot(ids, x)).T, None


def scatter_add(x: Any, ids: Any, updates: Any) -> Any:
    return x.at[ids].add(updates)


def scatter_add_bwd(ybar: Any, y: Any, x: Any, ids: Any, updates: Any) -> Any:
    return ybar, None, ybar[ids]


def scatter_add_cleared(ybar: Any, y: Any, x: Any, ids: Any, updates: Any) -> Any:
    return ybar.at[ids].multiply(0.0), None, ybar[ids]


def segment_mean(x: Any, ids: Any) -> Any:
    return mx.zeros((3, x.shape[1])).at[ids].add(x) / counted(ids)


def counted(ids: Any) -> Any:
    return mx.zeros((3, 1)).at[ids].add(mx.ones((ids.shape[0], 1)))


def segment_mean_bwd(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return (ybar / counted(ids))[ids], None


def segment_mean_as_sum(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return ybar[ids], None


def batched_matmul(a: Any, b: Any) -> Any:
    return a @ b


def batched_matmul_bwd(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ b.T, mx.sum(mx.swapaxes(a, 1, 2) @ ybar, axis=0)


def batched_matmul_not_transposed(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ b, mx.sum(mx.swapaxes(a, 1, 2) @ ybar, axis=0)


def batched_matmul_first_alone(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ b.T, mx.swapaxes(a, 1, 2) @ ybar[0]


def outer(u: Any, v: Any) -> Any:
    return u[:, None] * v


def outer_bwd(ybar: Any, y: Any, u: Any, v: Any) -> Any:
    return ybar @ v, u @ ybar


def outer_transposed(ybar: Any, y: Any, u: Any, v: Any) -> Any:
    return v @ ybar, ybar @ u


def bilinear(x: Any, a: Any, z: Any) -> Any:
    return x @ a @ z


def bilinear_bwd(ybar: Any, y: Any, x: Any, a: Any, z: Any) -> Any:
    return ybar * (a @ z), ybar * x[:, None] * z, ybar * (x @ a)


def bilinear_transposed(ybar: Any, y: Any, x: Any, a: Any, z: Any) -> Any:
    return ybar * (a @ z), ybar * z[:, None] * x, ybar * (x @ a)


def root(a: Any) -> Any:
    return mx.linalg.cholesky(a @ a.T + mx.eye(a.shape[0]))


def cholesky_solve(a: Any, b: Any) -> Any:
    half = mx.linalg.tri_inv(root(a))
    return half.T @ (half @ b)


def cholesky_solve_bwd(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    sbar = -bbar[:, None] * y
    return (sbar + sbar.T) @ a, bbar


def cholesky_solve_one_side(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    return -2.0 * (bbar[:, None] * y) @ a, bbar


def cholesky_solve_of_b(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    sbar = -bbar[:, None] * b
    return (sbar + sbar.T) @ a, bbar


def log_determinant(a: Any) -> Any:
    return 2 * mx.sum(mx.log(mx.diag(root(a))))


def log_determinant_bwd(ybar: Any, y: Any, a: Any) -> Any:
    return ybar * 2 * mx.linalg.inv(a @ a.T + mx.eye(a.shape[0])) @ a


def log_determinant_not_twice(ybar: Any, y: Any, a: Any) -> Any:
    return ybar * mx.linalg.inv(a @ a.T + mx.eye(a.shape[0])) @ a


IDS = np.array([2, 0, 2, 1])
CASES: tuple[Case, ...] = (
    case("layer_norm", layer_norm, layer_norm_bwd,
         {"the mean's term is left out": layer_norm_no_mean, "the gain's is of x, not of what it scales": layer_norm_gain_of_x},
         x=drawn(4, 4), gain=drawn(4, low=0.5), bias=drawn(4, high=0.7)),
    case("rms_norm", rms_norm, rms_norm_bwd, {"a sum for a mean": rms_norm_total}, x=drawn(3, 5), gain=drawn(5)),
    case("l2_normalise", l2_normalise, l2_normalise_bwd,
         {"not divided by the norm": l2_normalise_no_norm, "summed over all rows": l2_normalise_whole}, x=drawn(3, 4)),
    case("cross_entropy", cross_entropy, cross_entropy_bwd,
         {"not averaged": cross_entropy_not_averaged, "softmax over the batch": cross_entropy_over_the_batch},
         z=drawn(4, 3), ids=IDS),
    case("logsumexp", logsumexp, logsumexp_bwd, {"sigmoid for softmax": logsumexp_sigmoid}, x=drawn(3, 4)),
    case("attention", attention, attention_bwd,
         {"the keys' part is not scaled": attention_no_scale, "only softmax's diagonal": attention_diagonal},
         q=drawn(3, 4), k=drawn(5, 4), v=drawn(5, 2)),
    case("conv1d", conv1d, conv1d_bwd,
         {"the kernel is flipped": conv1d_flipped, "off by one": conv1d_shifted}, x=drawn(7), kernel=drawn(3)),
    case("embedding", embedding, embedding_bwd,
         {"a row that is used twice is set, not added to": embedding_set}, table=drawn(4, 3), ids=IDS),
    case("gather_rows", gather_rows, gather_rows_bwd, {"rows and columns are swapped": gather_rows_columns}, x=drawn(4, 4), ids=IDS),
    case("scatter_add", scatter_add, scatter_add_bwd,
         {"as if the entries were overwritten": scatter_add_cleared}, x=drawn(5), ids=IDS, updates=drawn(4)),
    case("segment_mean", segment_mean, segment_mean_bwd, {"as if it were a sum": segment_mean_as_sum}, x=drawn(4, 2), ids=IDS),
    case("batched_matmul", batched_matmul, batched_matmul_bwd,
         {"not transposed": batched_matmul_not_transposed, "the batch is not summed": batched_matmul_first_alone},
         a=drawn(2, 3, 3), b=drawn(3, 3)),
    case("outer", outer, outer_bwd, {"transposed": outer_transposed}, u=drawn(3), v=drawn(3, low=-1.0)),
    case("bilinear", bilinear, bilinear_bwd, {"the matrix's is transposed": bilinear_transposed}, x=drawn(3), a=drawn(3, 3), z=drawn(3, low=-1.0)),
    case("cholesky_solve", cholesky_solve, cholesky_solve_bwd,
         {"one side of the symmetric product": cholesky_solve_one_side, "b for the solution": cholesky_solve_of_b},
         a=drawn(3, 3), b=drawn(3)),
    case("log_determinant", log_determinant, log_determinant_bwd, {"a factor 2 is missing": log_determinant_not_twice}, a=drawn(3, 3)),
    *SCALARS,
)  # fmt: skip
