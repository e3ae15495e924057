"""optax: losses, projections and norms with derivatives of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax.losses._classification import weighted_logsoftmax
from optax.projections import projection_simplex

from tests.packages.cases import Case

X = np.array([0.3, -0.8, 0.5, 0.1])
JAX = {"framework": "jax"}
WEIGHTS = np.array([0.2, 0.5, 0.0, 0.3])


@jax.custom_jvp
def without_mean(x, weights):
    return weighted_logsoftmax(x, weights)


@without_mean.defjvp
def _without_mean(primals, tangents):
    """The mistake: the derivative of the normalisation is left out."""
    x, weights = primals
    return without_mean(x, weights), weights * tangents[0] + tangents[1] * jax.nn.log_softmax(x)


@jax.custom_jvp
def wrongly_projected(x):
    return projection_simplex(x)


@wrongly_projected.defjvp
def _wrongly_projected(primals, tangents):
    """The mistake: the mean is over all entries instead of those of the support."""
    p = projection_simplex(primals[0])
    return p, (p > 0) * (tangents[0] - jnp.mean(tangents[0]))


def projected(x):
    return projection_simplex(x)


def clipped_gradient(x):
    return optax.scale_gradient(optax.safe_norm(x, 1e-3), 0.5)


def norm(x):
    return optax.safe_norm(x, 1e-3)


CASES = [
    Case("weighted_logsoftmax", weighted_logsoftmax, (X, WEIGHTS + 0.1), None, without_mean, "framework"),
    Case("projection_simplex", projected, (X,), None, wrongly_projected, "framework", glue=2, options=JAX),
    Case("scale_gradient", norm, (X,), None, clipped_gradient, "framework", glue=2, options=JAX),
]
