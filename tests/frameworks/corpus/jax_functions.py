"""Functions with a custom_vjp or custom_jvp of their own: what a right one looks like, and how it goes wrong."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.frameworks.corpus.case import Case, drawn
from tests.frameworks.corpus.jax_matrices import MATRICES, case
from tests.frameworks.corpus.jax_scalars import SCALARS


def _normalised(x: Any) -> tuple[Any, Any]:
    scale = lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)
    return (x - jnp.mean(x, axis=-1, keepdims=True)) * scale, scale


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return gain * _normalised(x)[0] + bias


def layer_norm_fwd(x: Any, gain: Any, bias: Any) -> Any:
    return layer_norm(x, gain, bias), (*_normalised(x), gain)


def layer_norm_bwd(saved: Any, ybar: Any) -> Any:
    xhat, scale, gain = saved
    hbar = ybar * gain
    mean, along = jnp.mean(hbar, axis=-1, keepdims=True), jnp.mean(hbar * xhat, axis=-1, keepdims=True)
    return scale * (hbar - mean - xhat * along), jnp.sum(ybar * xhat, axis=0), jnp.sum(ybar, axis=0)


def layer_norm_no_mean(saved: Any, ybar: Any) -> Any:
    xhat, scale, gain = saved
    hbar = ybar * gain
    along = jnp.mean(hbar * xhat, axis=-1, keepdims=True)
    return scale * (hbar - xhat * along), jnp.sum(ybar * xhat, axis=0), jnp.sum(ybar, axis=0)


def layer_norm_features(saved: Any, ybar: Any) -> Any:
    xbar, _, _ = layer_norm_bwd(saved, ybar)
    return xbar, jnp.sum(ybar * saved[0], axis=-1), jnp.sum(ybar, axis=-1)


def rms_norm(x: Any, gain: Any) -> Any:
    return gain * x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True))


def rms_norm_fwd(x: Any, gain: Any) -> Any:
    return rms_norm(x, gain), (x, gain)


def rms_norm_bwd(saved: Any, ybar: Any) -> Any:
    x, gain = saved
    r = jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True))
    hbar = ybar * gain
    return (hbar - x * jnp.mean(hbar * x, axis=-1, keepdims=True) / r**2) / r, jnp.sum(ybar * x / r, axis=0)


def rms_norm_sum(saved: Any, ybar: Any) -> Any:
    x, gain = saved
    r = jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True))
    hbar = ybar * gain
    return (hbar - x * jnp.sum(hbar * x, axis=-1, keepdims=True) / r**2) / r, jnp.sum(ybar * x / r, axis=0)


def batch_norm(x: Any) -> Any:
    return (x - jnp.mean(x, axis=0)) / jnp.sqrt(jnp.var(x, axis=0) + 1e-5)


def batch_norm_fwd(x: Any) -> Any:
    y = batch_norm(x)
    return y, (y, jnp.sqrt(jnp.var(x, axis=0) + 1e-5))


def batch_norm_bwd(saved: Any, ybar: Any) -> Any:
    y, std = saved
    return ((ybar - jnp.mean(ybar, axis=0) - y * jnp.mean(ybar * y, axis=0)) / std,)


def batch_norm_fixed_variance(saved: Any, ybar: Any) -> Any:
    return ((ybar - jnp.mean(ybar, axis=0)) / saved[1],)


def batch_norm_no_eps(saved: Any, ybar: Any) -> Any:
    y, std = saved
    return batch_norm_bwd((y, jnp.sqrt(std**2 - 1e-5)), ybar)


def l2_normalise(x: Any) -> Any:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def l2_normalise_fwd(x: Any) -> Any:
    y = l2_normalise(x)
    return y, (y, jnp.linalg.norm(x, axis=-1, keepdims=True))


def l2_normalise_bwd(saved: Any, ybar: Any) -> Any:
    y, n = saved
    return ((ybar - y * jnp.sum(ybar * y, axis=-1, keepdims=True)) / n,)


def l2_normalise_no_norm(saved: Any, ybar: Any) -> Any:
    y, _ = saved
    return (ybar - y * jnp.sum(ybar * y, axis=-1, keepdims=True),)


def l2_normalise_whole(saved: Any, ybar: Any) -> Any:
    y, n = saved
    return ((ybar - y * jnp.sum(ybar * y)) / n,)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T / np.sqrt(q.shape[-1]), axis=-1) @ v


def attention_fwd(q: Any, k: Any, v: Any) -> Any:
    p = jax.nn.softmax(q @ k.T / np.sqrt(q.shape[-1]), axis=-1)
    return p @ v, (q, k, v, p)


def _through_softmax(p: Any, pbar: Any) -> Any:
    return p * (pbar - jnp.sum(p * pbar, axis=-1, keepdims=True))


def attention_bwd(saved: Any, ybar: Any) -> Any:
    q, k, v, p = saved
    sbar = _through_softmax(p, ybar @ v.T) / np.sqrt(q.shape[-1])
    return sbar @ k, sbar.T @ q, p.T @ ybar


def attention_no_scale(saved: Any, ybar: Any) -> Any:
    q, k, v, p = saved
    sbar = _through_softmax(p, ybar @ v.T)
    return sbar @ k / np.sqrt(q.shape[-1]), sbar.T @ q, p.T @ ybar


def attention_diagonal(saved: Any, ybar: Any) -> Any:
    q, k, v, p = saved
    sbar = p * (1 - p) * (ybar @ v.T) / np.sqrt(q.shape[-1])
    return sbar @ k, sbar.T @ q, p.T @ ybar


def conv1d(x: Any, kernel: Any) -> Any:
    return jnp.stack([jnp.sum(x[i : i + kernel.shape[0]] * kernel) for i in range(x.shape[0] - kernel.shape[0] + 1)])


def conv1d_fwd(x: Any, kernel: Any) -> Any:
    return conv1d(x, kernel), (x, kernel)


def conv1d_bwd(saved: Any, ybar: Any) -> Any:
    x, kernel = saved
    return jnp.convolve(ybar, kernel), jnp.correlate(x, ybar, mode="valid")


def conv1d_flipped(saved: Any, ybar: Any) -> Any:
    x, kernel = saved
    return jnp.convolve(ybar, kernel[::-1]), jnp.correlate(x, ybar, mode="valid")


def conv1d_kernel_flipped(saved: Any, ybar: Any) -> Any:
    x, kernel = saved
    return jnp.convolve(ybar, kernel), jnp.convolve(x, ybar, mode="valid")


def rotary(x: Any, angle: Any) -> Any:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


def rotary_fwd(x: Any, angle: Any) -> Any:
    y = rotary(x, angle)
    return y, (y, angle)


def rotary_bwd(saved: Any, ybar: Any) -> Any:
    y, angle = saved
    (a, b), (abar, bbar) = jnp.split(y, 2, axis=-1), jnp.split(ybar, 2, axis=-1)
    return rotary(ybar, -angle), jnp.sum(a * bbar - b * abar, axis=0)


def rotary_same_way(saved: Any, ybar: Any) -> Any:
    return rotary(ybar, saved[1]), rotary_bwd(saved, ybar)[1]


def embedding(table: Any, ids: Any) -> Any:
    return table[ids]


def embedding_fwd(table: Any, ids: Any) -> Any:
    return table[ids], (table, ids)


def embedding_bwd(saved: Any, ybar: Any) -> Any:
    table, ids = saved
    return jnp.zeros_like(table).at[ids].add(ybar), None


def embedding_set(saved: Any, ybar: Any) -> Any:
    table, ids = saved
    return jnp.zeros_like(table).at[ids].set(ybar), None


def gather_rows(x: Any, ids: Any) -> Any:
    return jnp.take_along_axis(x, ids[:, None], axis=1)[:, 0]


def gather_rows_fwd(x: Any, ids: Any) -> Any:
    return gather_rows(x, ids), (x, ids)


def gather_rows_bwd(saved: Any, ybar: Any) -> Any:
    x, ids = saved
    return jnp.zeros_like(x).at[jnp.arange(x.shape[0]), ids].add(ybar), None


def gather_rows_columns(saved: Any, ybar: Any) -> Any:
    x, ids = saved
    return jnp.zeros_like(x).at[ids, jnp.arange(x.shape[0])].add(ybar), None


def scatter_add(x: Any, ids: Any, updates: Any) -> Any:
    return x.at[ids].add(updates)


def scatter_add_fwd(x: Any, ids: Any, updates: Any) -> Any:
    return scatter_add(x, ids, updates), ids


def scatter_add_bwd(ids: Any, ybar: Any) -> Any:
    return ybar, None, ybar[ids]


def scatter_add_cleared(ids: Any, ybar: Any) -> Any:
    return ybar.at[ids].set(0.0), None, ybar[ids]


def segment_sum(x: Any, ids: Any) -> Any:
    return jax.ops.segment_sum(x, ids, num_segments=3)


def segment_sum_fwd(x: Any, ids: Any) -> Any:
    return segment_sum(x, ids), ids


def segment_sum_bwd(ids: Any, ybar: Any) -> Any:
    return ybar[ids], None


def segment_sum_shifted(ids: Any, ybar: Any) -> Any:
    return ybar[jnp.maximum(ids - 1, 0)], None


def segment_sum_mean(ids: Any, ybar: Any) -> Any:
    return ybar[ids] / jnp.bincount(ids, length=3)[ids][:, None], None


def max_pool(x: Any) -> Any:
    return jnp.max(x.reshape(-1, 2), axis=1)


def max_pool_fwd(x: Any) -> Any:
    return max_pool(x), (x, max_pool(x))


def max_pool_bwd(saved: Any, ybar: Any) -> Any:
    x, y = saved
    return (jnp.where(x == jnp.repeat(y, 2), jnp.repeat(ybar, 2), 0.0),)


def max_pool_average(saved: Any, ybar: Any) -> Any:
    return (jnp.repeat(ybar, 2) / 2,)


IDS = np.array([2, 0, 2, 1])
CASES: tuple[Case, ...] = (
    case("layer_norm", layer_norm, layer_norm_fwd, layer_norm_bwd,
         {"the mean's term is left out": layer_norm_no_mean, "summed over features, not the batch": layer_norm_features},
         x=drawn(4, 4), gain=drawn(4, low=0.5), bias=drawn(4, high=0.7)),
    case("rms_norm", rms_norm, rms_norm_fwd, rms_norm_bwd, {"a sum for a mean": rms_norm_sum}, x=drawn(3, 5), gain=drawn(5)),
    case("batch_norm", batch_norm, batch_norm_fwd, batch_norm_bwd,
         {"the variance is taken as fixed": batch_norm_fixed_variance, "without the epsilon": batch_norm_no_eps}, x=drawn(5, 3)),
    case("l2_normalise", l2_normalise, l2_normalise_fwd, l2_normalise_bwd,
         {"not divided by the norm": l2_normalise_no_norm, "summed over all rows": l2_normalise_whole}, x=drawn(3, 4)),
    case("attention", attention, attention_fwd, attention_bwd,
         {"the keys' part is not scaled": attention_no_scale, "only softmax's diagonal": attention_diagonal},
         q=drawn(3, 4), k=drawn(5, 4), v=drawn(5, 2)),
    case("conv1d", conv1d, conv1d_fwd, conv1d_bwd,
         {"the kernel is flipped": conv1d_flipped, "its own gradient is flipped": conv1d_kernel_flipped}, x=drawn(7), kernel=drawn(3)),
    case("rotary", rotary, rotary_fwd, rotary_bwd, {"turned on, not back": rotary_same_way}, x=drawn(3, 4), angle=drawn(2)),
    case("embedding", embedding, embedding_fwd, embedding_bwd,
         {"a row that is used twice is set, not added to": embedding_set}, table=drawn(4, 3), ids=IDS),
    case("gather_rows", gather_rows, gather_rows_fwd, gather_rows_bwd,
         {"rows and columns are swapped": gather_rows_columns}, x=drawn(4, 4), ids=IDS),
    case("scatter_add", scatter_add, scatter_add_fwd, scatter_add_bwd,
         {"as if the entries were overwritten": scatter_add_cleared}, x=drawn(5), ids=IDS, updates=drawn(4)),
    case("segment_sum", segment_sum, segment_sum_fwd, segment_sum_bwd,
         {"the segment before": segment_sum_shifted, "as if it were a mean": segment_sum_mean}, x=drawn(4, 2), ids=IDS),
    case("max_pool", max_pool, max_pool_fwd, max_pool_bwd, {"spread as if it were an average": max_pool_average}, x=drawn(6)),
    *MATRICES,
    *SCALARS,
)  # fmt: skip
