"""Functions with a custom_vjp or custom_jvp of their own: what a right one looks like, and how it goes wrong."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.frameworks.corpus.case import Case, drawn
from tests.frameworks.corpus.jax_matrices import MATRICES, case
from tests.frameworks.corpus.jax_scalars import SCALARS


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
    case("batch_norm", batch_norm, batch_norm_fwd, batch_norm_bwd,
         {"the variance is taken as fixed": batch_norm_fixed_variance, "without the epsilon": batch_norm_no_eps}, x=drawn(4, 2)),
    case("rotary", rotary, rotary_fwd, rotary_bwd, {"turned on, not back": rotary_same_way}, x=drawn(2, 4), angle=drawn(2)),
    case("segment_sum", segment_sum, segment_sum_fwd, segment_sum_bwd,
         {"the segment before": segment_sum_shifted, "as if it were a mean": segment_sum_mean}, x=drawn(4, 2), ids=IDS),
    case("max_pool", max_pool, max_pool_fwd, max_pool_bwd, {"spread as if it were an average": max_pool_average}, x=drawn(4)),
    *MATRICES,
    *SCALARS,
)  # fmt: skip
