"""OTT: roots of matrices, soft minima and norms with derivatives of their own."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from tests.packages.cases import Case

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # jaxopt says that it is no longer maintained
    from ott.math import matrix_square_root
    from ott.math import utils as mu

JAX = {"framework": "jax"}
X = np.array([0.3, -0.8, 0.5, 0.1])
S = np.array([[2.0, 0.3], [0.3, 1.1]])
FEW = {**JAX, "modes": "reverse,fd"}  # each call runs a loop


@jax.jit
def inverse_root(S):
    return matrix_square_root.inv_sqrtm_only((S + S.T) / 2, threshold=1e-13, regularization=1e-12)


def least(x):
    return mu.softmin(x, 0.3)


def norm(x):
    return mu.norm(x)


def log_sum(x):
    return mu.logsumexp(x)


def with_wrong_backward(f, mistake):
    """Return f with a vector-Jacobian product to which a mistake is done."""
    wrong = jax.custom_vjp(lambda x: f(x))
    wrong.defvjp(lambda x: jax.vjp(f, x), lambda pull, ybar: (mistake(pull(ybar)[0]),))
    return jax.jit(lambda x: wrong(x))


CASES = [
    Case("inv_sqrtm_only", inverse_root, (S,), None, with_wrong_backward(inverse_root, jnp.negative), "framework", glue=2, decided_by="reverse", options=FEW),
    Case("softmin", least, (X,), None, with_wrong_backward(least, lambda g: g / 0.3), "framework", glue=2, options=JAX),
    Case("norm", norm, (X,), None, with_wrong_backward(norm, lambda g: 2 * g), "framework", glue=2, options=JAX),
    Case("logsumexp", log_sum, (X,), None, with_wrong_backward(log_sum, lambda g: g.at[1].set(0)), "framework", glue=2, options=JAX),
]  # fmt: skip
