"""Custom backward passes of layers, products, solvers and sums, for every framework: a right one, and how it goes wrong."""

import math
from typing import Any

import numpy as np

from tests.frameworks.corpus.arrays import xp
from tests.frameworks.corpus.case import Rules, drawn, rules
from tests.frameworks.corpus.scalars import SCALARS


def mean(x: Any) -> Any:
    return xp.mean(x, axis=-1, keepdims=True)


def total(x: Any) -> Any:
    return xp.sum(x, axis=-1, keepdims=True)


def normalised(x: Any) -> tuple[Any, Any]:
    std = xp.sqrt(mean((x - mean(x)) ** 2) + 1e-5)
    return (x - mean(x)) / std, std


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return gain * normalised(x)[0] + bias


def layer_norm_bwd(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xhat, std = normalised(x)
    hbar = ybar * gain
    xbar = (hbar - mean(hbar) - xhat * mean(hbar * xhat)) / std
    return xbar, xp.sum(ybar * xhat, axis=0), xp.sum(ybar, axis=0)


def layer_norm_no_mean(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xhat, std = normalised(x)
    hbar = ybar * gain
    xbar = (hbar - xhat * mean(hbar * xhat)) / std
    return xbar, xp.sum(ybar * xhat, axis=0), xp.sum(ybar, axis=0)


def layer_norm_gain_of_x(ybar: Any, y: Any, x: Any, gain: Any, bias: Any) -> Any:
    xbar, _, biasbar = layer_norm_bwd(ybar, y, x, gain, bias)
    return xbar, xp.sum(ybar * x, axis=0), biasbar


def rms_norm(x: Any, gain: Any) -> Any:
    return gain * x / xp.sqrt(mean(x**2))


def rms_norm_bwd(ybar: Any, y: Any, x: Any, gain: Any) -> Any:
    r, hbar = xp.sqrt(mean(x**2)), ybar * gain
    return (hbar - x * mean(hbar * x) / r**2) / r, xp.sum(ybar * x / r, axis=0)


def rms_norm_total(ybar: Any, y: Any, x: Any, gain: Any) -> Any:
    r, hbar = xp.sqrt(mean(x**2)), ybar * gain
    return (hbar - x * total(hbar * x) / r**2) / r, xp.sum(ybar * x / r, axis=0)


def l2_normalise(x: Any) -> Any:
    return x / xp.sqrt(total(x**2))


def l2_normalise_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return (ybar - y * total(ybar * y)) / xp.sqrt(total(x**2))


def l2_normalise_no_norm(ybar: Any, y: Any, x: Any) -> Any:
    return ybar - y * total(ybar * y)


def l2_normalise_whole(ybar: Any, y: Any, x: Any) -> Any:
    return (ybar - y * xp.sum(ybar * y)) / xp.sqrt(total(x**2))


def cross_entropy(z: Any, ids: Any) -> Any:
    return xp.mean(xp.logsumexp(z, -1) - xp.pick(z, ids))


def cross_entropy_bwd(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    hot = xp.one_hot(ids, z)
    return ybar * (xp.softmax(z, -1) - hot) / z.shape[0], None


def cross_entropy_not_averaged(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    return ybar * (xp.softmax(z, -1) - xp.one_hot(ids, z)), None


def cross_entropy_over_the_batch(ybar: Any, y: Any, z: Any, ids: Any) -> Any:
    hot = xp.one_hot(ids, z)
    return ybar * (xp.softmax(z, 0) - hot) / z.shape[0], None


def logsumexp(x: Any) -> Any:
    return xp.logsumexp(x, -1)


def logsumexp_bwd(ybar: Any, y: Any, x: Any) -> Any:
    return ybar[:, None] * xp.exp(x - y[:, None])


def logsumexp_sigmoid(ybar: Any, y: Any, x: Any) -> Any:
    return ybar[:, None] * xp.sigmoid(x - y[:, None])


def weights(q: Any, k: Any) -> Any:
    return xp.softmax(q @ xp.T(k) / math.sqrt(q.shape[-1]), -1)


def attention(q: Any, k: Any, v: Any) -> Any:
    return weights(q, k) @ v


def attention_bwd(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    p, pbar = weights(q, k), ybar @ xp.T(v)
    sbar = p * (pbar - total(p * pbar)) / math.sqrt(q.shape[-1])
    return sbar @ k, xp.T(sbar) @ q, xp.T(p) @ ybar


def attention_no_scale(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    qbar, kbar, vbar = attention_bwd(ybar, y, q, k, v)
    return qbar, kbar * math.sqrt(q.shape[-1]), vbar


def attention_diagonal(ybar: Any, y: Any, q: Any, k: Any, v: Any) -> Any:
    p = weights(q, k)
    sbar = p * (1 - p) * (ybar @ xp.T(v)) / math.sqrt(q.shape[-1])
    return sbar @ k, xp.T(sbar) @ q, xp.T(p) @ ybar


def conv1d(x: Any, kernel: Any) -> Any:
    n = x.shape[0] - kernel.shape[0] + 1
    return sum(x[j : j + n] * kernel[j] for j in range(kernel.shape[0]))


def conv1d_bwd(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    m, n = kernel.shape[0], ybar.shape[0]
    xbar = sum(xp.pad(ybar * kernel[j], (j, m - 1 - j)) for j in range(m))
    return xbar, xp.stack([xp.sum(x[j : j + n] * ybar) for j in range(m)])


def conv1d_flipped(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    xbar, kernelbar = conv1d_bwd(ybar, y, x, xp.flip(kernel, 0))
    return xbar, kernelbar


def conv1d_shifted(ybar: Any, y: Any, x: Any, kernel: Any) -> Any:
    xbar, kernelbar = conv1d_bwd(ybar, y, x, kernel)
    return xbar, xp.roll(kernelbar)


def embedding(table: Any, ids: Any) -> Any:
    return xp.take(table, ids)


def embedding_bwd(ybar: Any, y: Any, table: Any, ids: Any) -> Any:
    return xp.add_at(xp.zeros_like(table), ids, ybar), None


def embedding_set(ybar: Any, y: Any, table: Any, ids: Any) -> Any:
    return xp.set_at(xp.zeros_like(table), ids, ybar), None


def gather_rows(x: Any, ids: Any) -> Any:
    return xp.pick(x, ids)


def gather_rows_bwd(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return ybar[:, None] * xp.one_hot(ids, x), None


def gather_rows_columns(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return xp.T(ybar[:, None] * xp.one_hot(ids, x)), None


def scatter_add(x: Any, ids: Any, updates: Any) -> Any:
    return xp.add_at(x, ids, updates)


def scatter_add_bwd(ybar: Any, y: Any, x: Any, ids: Any, updates: Any) -> Any:
    return ybar, None, xp.take(ybar, ids)


def scatter_add_cleared(ybar: Any, y: Any, x: Any, ids: Any, updates: Any) -> Any:
    return xp.set_at(ybar, ids, xp.zeros_like(updates)), None, xp.take(ybar, ids)


def segment_mean(x: Any, ids: Any) -> Any:
    return xp.add_at(xp.rows(x, 3), ids, x) / counted(x, ids)


def counted(x: Any, ids: Any) -> Any:
    """Return how many rows each of three segments has."""
    ones = xp.zeros_like(x[:, :1]) + 1.0
    return xp.add_at(xp.rows(ones, 3), ids, ones)


def segment_mean_bwd(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return xp.take(ybar / counted(x, ids), ids), None


def segment_mean_as_sum(ybar: Any, y: Any, x: Any, ids: Any) -> Any:
    return xp.take(ybar, ids), None


def batched_matmul(a: Any, b: Any) -> Any:
    return a @ b


def batched_matmul_bwd(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ xp.T(b), xp.sum(xp.T(a) @ ybar, axis=0)


def batched_matmul_not_transposed(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ b, xp.sum(xp.T(a) @ ybar, axis=0)


def batched_matmul_first_alone(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    return ybar @ xp.T(b), (xp.T(a) @ ybar)[0]


def apply(a: Any, x: Any) -> Any:
    """Return a matrix times a vector."""
    return xp.sum(a * x, -1)


def outer(u: Any, v: Any) -> Any:
    return u[:, None] * v


def outer_bwd(ybar: Any, y: Any, u: Any, v: Any) -> Any:
    return apply(ybar, v), apply(xp.T(ybar), u)


def outer_transposed(ybar: Any, y: Any, u: Any, v: Any) -> Any:
    return apply(xp.T(ybar), v), apply(ybar, u)


def bilinear(x: Any, a: Any, z: Any) -> Any:
    return xp.sum(x[:, None] * a * z)


def bilinear_bwd(ybar: Any, y: Any, x: Any, a: Any, z: Any) -> Any:
    return ybar * apply(a, z), ybar * x[:, None] * z, ybar * apply(xp.T(a), x)


def bilinear_transposed(ybar: Any, y: Any, x: Any, a: Any, z: Any) -> Any:
    return ybar * apply(a, z), ybar * z[:, None] * x, ybar * apply(xp.T(a), x)


def cholesky_solve(a: Any, b: Any) -> Any:
    return xp.solve_spd(_positive(a), b)


def _positive(a: Any) -> Any:
    return a @ xp.T(a) + xp.eye(a)


def cholesky_solve_bwd(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    sbar = -bbar[:, None] * y
    return (sbar + xp.T(sbar)) @ a, bbar


def cholesky_solve_one_side(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    return (-2.0 * bbar[:, None] * y) @ a, bbar


def cholesky_solve_of_b(ybar: Any, y: Any, a: Any, b: Any) -> Any:
    bbar = cholesky_solve(a, ybar)
    sbar = -bbar[:, None] * b
    return (sbar + xp.T(sbar)) @ a, bbar


def log_determinant(a: Any) -> Any:
    return xp.logdet(_positive(a))


def log_determinant_bwd(ybar: Any, y: Any, a: Any) -> Any:
    return 2 * ybar * xp.inv(_positive(a)) @ a


def log_determinant_not_twice(ybar: Any, y: Any, a: Any) -> Any:
    return ybar * xp.inv(_positive(a)) @ a


IDS = np.array([2, 0, 2, 1])
CASES: tuple[Rules, ...] = (
    rules("layer_norm", layer_norm, layer_norm_bwd,
         {"the mean's term is left out": layer_norm_no_mean, "the gain's is of x, not of what it scales": layer_norm_gain_of_x},
         x=drawn(2, 4), gain=drawn(4, low=0.5), bias=drawn(4, high=0.7)),
    rules("rms_norm", rms_norm, rms_norm_bwd, {"a sum for a mean": rms_norm_total}, x=drawn(2, 4), gain=drawn(4)),
    rules("l2_normalise", l2_normalise, l2_normalise_bwd,
         {"not divided by the norm": l2_normalise_no_norm, "summed over all rows": l2_normalise_whole}, x=drawn(2, 4)),
    rules("cross_entropy", cross_entropy, cross_entropy_bwd,
         {"not averaged": cross_entropy_not_averaged, "softmax over the batch": cross_entropy_over_the_batch},
         z=drawn(4, 2), ids=IDS % 2),
    rules("logsumexp", logsumexp, logsumexp_bwd, {"sigmoid for softmax": logsumexp_sigmoid}, x=drawn(2, 4)),
    rules("attention", attention, attention_bwd,
         {"the keys' part is not scaled": attention_no_scale, "only softmax's diagonal": attention_diagonal},
         q=drawn(2, 2), k=drawn(4, 2), v=drawn(4, 2)),
    rules("conv1d", conv1d, conv1d_bwd,
         {"the kernel is flipped": conv1d_flipped, "off by one": conv1d_shifted}, x=drawn(4), kernel=drawn(2)),
    rules("embedding", embedding, embedding_bwd,
         {"a row that is used twice is set, not added to": embedding_set}, table=drawn(4, 2), ids=IDS),
    rules("gather_rows", gather_rows, gather_rows_bwd, {"rows and columns are swapped": gather_rows_columns}, x=drawn(2, 2), ids=IDS[:2] % 2),
    rules("scatter_add", scatter_add, scatter_add_bwd,
         {"as if the entries were overwritten": scatter_add_cleared}, x=drawn(4), ids=IDS, updates=drawn(4)),
    rules("segment_mean", segment_mean, segment_mean_bwd, {"as if it were a sum": segment_mean_as_sum}, x=drawn(4, 2), ids=IDS),
    rules("batched_matmul", batched_matmul, batched_matmul_bwd,
         {"not transposed": batched_matmul_not_transposed, "the batch is not summed": batched_matmul_first_alone},
         a=drawn(2, 2, 2), b=drawn(2, 2)),
    rules("outer", outer, outer_bwd, {"transposed": outer_transposed}, u=drawn(2), v=drawn(2, low=-1.0)),
    rules("bilinear", bilinear, bilinear_bwd, {"the matrix's is transposed": bilinear_transposed}, x=drawn(2), a=drawn(2, 2), z=drawn(2, low=-1.0)),
    rules("cholesky_solve", cholesky_solve, cholesky_solve_bwd,
         {"one side of the symmetric product": cholesky_solve_one_side, "b for the solution": cholesky_solve_of_b},
         a=drawn(2, 2), b=drawn(2)),
    rules("log_determinant", log_determinant, log_determinant_bwd, {"a factor 2 is missing": log_determinant_not_twice}, a=drawn(2, 2)),
    *SCALARS,
)  # fmt: skip
