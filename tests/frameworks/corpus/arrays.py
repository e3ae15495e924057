"""Functions of arrays that torch, JAX, TensorFlow and MLX spell differently, in one spelling.

`xp.name(x, ...)` is the function of the framework that the first array belongs to: a case is written once and runs in all
four. What all of them spell alike (`+`, `@`, `x[:, None]`, `x.shape`) needs nothing from here.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., Any]
SAME = "exp log1p sin cos tanh sqrt where abs sign zeros_like stack"


def _torch() -> Mapping[str, Function]:
    torch = importlib.import_module("torch")
    return {
        **{name: getattr(torch, name) for name in SAME.split()},
        "sigmoid": torch.sigmoid, "erf": torch.erf, "clip": torch.clamp, "T": lambda x: x.transpose(-1, -2),
        "sum": lambda x, axis=None, keepdims=False: x.sum() if axis is None else x.sum(axis, keepdim=keepdims),
        "mean": lambda x, axis=None, keepdims=False: x.mean() if axis is None else x.mean(axis, keepdim=keepdims),
        "softmax": torch.softmax, "logsumexp": torch.logsumexp, "cumsum": torch.cumsum,
        "flip": lambda x, axis: torch.flip(x, (axis,)), "roll": lambda x: torch.roll(x, 1, 0),
        "pad": torch.nn.functional.pad, "take": lambda x, ids: x[ids],
        "pick": lambda x, ids: torch.gather(x, 1, ids[:, None])[:, 0],
        "one_hot": lambda ids, like: torch.nn.functional.one_hot(ids, like.shape[1]).to(like.dtype),
        "add_at": lambda x, ids, rows: x.index_add(0, ids, rows), "set_at": lambda x, ids, rows: x.index_copy(0, ids, rows),
        "rows": lambda x, n: x.new_zeros((n, *x.shape[1:])), 
        "eye": lambda x: torch.eye(x.shape[-1], dtype=x.dtype), "inv": torch.linalg.inv, "logdet": torch.logdet,
        "solve_spd": lambda a, b: torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0],
    }  # fmt: skip


def _jax() -> Mapping[str, Function]:
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    linalg = importlib.import_module("jax.scipy.linalg")
    return {
        **{name: getattr(jnp, name) for name in SAME.split()},
        "sigmoid": jax.nn.sigmoid, "erf": jax.scipy.special.erf, "clip": jnp.clip, "T": lambda x: jnp.swapaxes(x, -1, -2),
        "sum": jnp.sum, "mean": jnp.mean, "softmax": jax.nn.softmax, "logsumexp": jax.nn.logsumexp, "cumsum": jnp.cumsum,
        "flip": jnp.flip, "roll": lambda x: jnp.roll(x, 1), "pad": jnp.pad, "take": lambda x, ids: x[ids],
        "pick": lambda x, ids: jnp.take_along_axis(x, ids[:, None], 1)[:, 0],
        "one_hot": lambda ids, like: jax.nn.one_hot(ids, like.shape[1], dtype=like.dtype),
        "add_at": lambda x, ids, rows: x.at[ids].add(rows), "set_at": lambda x, ids, rows: x.at[ids].set(rows),
        "rows": lambda x, n: jnp.zeros((n, *x.shape[1:]), x.dtype), 
        "eye": lambda x: jnp.eye(x.shape[-1]), "inv": jnp.linalg.inv, "logdet": lambda a: jnp.linalg.slogdet(a)[1],
        "solve_spd": lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b),
    }  # fmt: skip


def _tensorflow() -> Mapping[str, Function]:
    tf = importlib.import_module("tensorflow")
    return {
        **{name: getattr(tf, name) for name in SAME.split() if name != "log1p"}, "log1p": tf.math.log1p,
        "sigmoid": tf.sigmoid, "erf": tf.math.erf, "clip": tf.clip_by_value, "T": tf.linalg.matrix_transpose,
        "sum": tf.reduce_sum, "mean": tf.reduce_mean, "softmax": tf.nn.softmax, "logsumexp": tf.reduce_logsumexp,
        "cumsum": tf.cumsum, "flip": lambda x, axis: tf.reverse(x, [axis]), "roll": lambda x: tf.roll(x, 1, 0),
        "pad": lambda x, ends: tf.pad(x, [ends]), "take": tf.gather, "pick": lambda x, ids: tf.gather(x, ids, batch_dims=1),
        "one_hot": lambda ids, like: tf.one_hot(ids, like.shape[1], dtype=like.dtype),
        "add_at": lambda x, ids, rows: tf.tensor_scatter_nd_add(x, ids[:, None], rows),
        "set_at": lambda x, ids, rows: tf.tensor_scatter_nd_update(x, ids[:, None], rows),
        "rows": lambda x, n: tf.zeros((n, *x.shape[1:]), x.dtype), 
        "eye": lambda x: tf.eye(x.shape[-1], dtype=x.dtype), "inv": tf.linalg.inv, "logdet": tf.linalg.logdet,
        "solve_spd": lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b[:, None])[:, 0],
    }  # fmt: skip


def _mlx() -> Mapping[str, Function]:
    mx = importlib.import_module("mlx.core")

    def solve(a: Any, b: Any) -> Any:
        half = mx.linalg.tri_inv(mx.linalg.cholesky(a))
        return half.T @ (half @ b)

    def written(x: Any, ids: Any, rows: Any) -> Any:
        y = mx.array(x)
        y[ids] = rows
        return y

    return {
        **{name: getattr(mx, name) for name in SAME.split()},
        "sigmoid": mx.sigmoid, "erf": mx.erf, "clip": mx.clip, "T": lambda x: mx.swapaxes(x, -1, -2), "sum": mx.sum,
        "mean": mx.mean, "softmax": lambda x, axis: mx.softmax(x, axis=axis), "logsumexp": lambda x, axis: mx.logsumexp(x, axis=axis),
        "cumsum": lambda x, axis: mx.cumsum(x, axis=axis),
        "flip": lambda x, axis: x[::-1] if axis == 0 else x[:, ::-1], "roll": lambda x: mx.roll(x, 1), "pad": mx.pad,
        "take": lambda x, ids: x[ids], "pick": lambda x, ids: mx.take_along_axis(x, ids[:, None], axis=1)[:, 0],
        "one_hot": lambda ids, like: (ids[:, None] == mx.arange(like.shape[1])).astype(like.dtype),
        "add_at": lambda x, ids, rows: x.at[ids].add(rows), "set_at": written,
        "rows": lambda x, n: mx.zeros((n, *x.shape[1:]), x.dtype), 
        "eye": lambda x: mx.eye(x.shape[-1]), "inv": mx.linalg.inv,
        "logdet": lambda a: 2 * mx.sum(mx.log(mx.diag(mx.linalg.cholesky(a)))), "solve_spd": solve,
    }  # fmt: skip


# What gradcli records stands for arrays of JAX: of torch it records tensors, and of the others nothing.
TABLES = {"torch": _torch, "jax": _jax, "jaxlib": _jax, "gradcli": _jax, "tensorflow": _tensorflow, "mlx": _mlx}


@functools.cache
def _table(root: str) -> Mapping[str, Function]:
    return TABLES[root]()


class Arrays:
    """The functions above, by name."""

    def __getattr__(self, name: str) -> Function:
        def call(x: Any, *args: Any, **kwargs: Any) -> Any:
            first = x[0] if isinstance(x, list) else x
            return _table(type(first).__module__.partition(".")[0])[name](x, *args, **kwargs)

        return call


xp = Arrays()
