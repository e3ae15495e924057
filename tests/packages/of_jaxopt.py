"""jaxopt: projections with derivatives of their own, and solutions differentiated by the implicit function theorem."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from tests.packages.cases import Case

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that it is no longer maintained
    from jaxopt.implicit_diff import custom_root
    from jaxopt.projection import projection_simplex

draw = np.random.default_rng(5)
JAX = {"framework": "jax"}
X = np.array([0.3, -0.8, 0.5, 0.1])
A, Y = draw.normal(size=(5, 3)), draw.normal(size=5)


def optimality(w, penalty):
    return A.T @ (A @ w - Y) + penalty * w


def halved(w, penalty):
    """The mistake: the penalty's gradient is that of half of it, in the conditions of optimality alone."""
    return A.T @ (A @ w - Y) + 0.5 * penalty * w


def solution(_, penalty):
    return jnp.linalg.solve(A.T @ A + penalty * jnp.eye(3), A.T @ Y)


@jax.jit
def ridge(penalty):
    return custom_root(optimality)(solution)(None, penalty)


@jax.jit
def wrong_ridge(penalty):
    return custom_root(halved)(solution)(None, penalty)


def projected(x):
    return projection_simplex(x)


@jax.custom_jvp
def wrongly_projected(x):
    return projection_simplex(x)


@wrongly_projected.defjvp
def _wrongly_projected(primals, tangents):
    """The mistake: the mean of the support is not subtracted."""
    p = projection_simplex(primals[0])
    return p, (p > 0) * tangents[0]


CASES = [
    Case("projection_simplex", projected, (X,), None, wrongly_projected, "framework", glue=2, options=JAX),
    Case("custom_root", ridge, (0.7,), None, wrong_ridge, "framework", glue=6, options=JAX),
]
