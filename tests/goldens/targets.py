"""Functions and claims that the golden commands name, written as people write them."""

import math

import numpy as np


def mixture(mu, x):
    """Return a negative log-likelihood of two components."""
    a = np.exp(-0.5 * (x - mu[0]) ** 2)
    b = np.exp(-0.5 * (x - mu[1]) ** 2)
    return -np.sum(np.log(0.3 * a + 0.7 * b))


def mixture_grad(mu, x):
    """Return its gradient with respect to mu."""
    a = 0.3 * np.exp(-0.5 * (x - mu[0]) ** 2)
    b = 0.7 * np.exp(-0.5 * (x - mu[1]) ** 2)
    return np.array([np.sum(-a * (x - mu[0]) / (a + b)), np.sum(-b * (x - mu[1]) / (a + b))])


def mixture_grad_without_weights(mu, x):
    """Return what remains without the weights: a mistake."""
    a = np.exp(-0.5 * (x - mu[0]) ** 2)
    b = np.exp(-0.5 * (x - mu[1]) ** 2)
    return np.array([np.sum(-a * (x - mu[0]) / (a + b)), np.sum(-b * (x - mu[1]) / (a + b))])


def layers(params, x):
    """Return the loss of a network whose parameters are nested."""
    h = x
    for layer in params["layers"]:
        h = np.tanh(layer["W"] @ h + layer["b"])
    return np.sum(h**2) * params["scale"]


def layers_point():
    """Return a point for layers."""
    rng = np.random.default_rng(3)
    make = lambda m, n: {"W": rng.normal(size=(m, n)), "b": rng.normal(size=m)}
    return {"params": {"layers": [make(3, 2), make(2, 3)], "scale": 0.5}, "x": rng.normal(size=2)}


def rotation(theta, v):
    """Return v turned by theta."""
    return np.array([math.cos(theta) * v[0] - math.sin(theta) * v[1], math.sin(theta) * v[0] + math.cos(theta) * v[1]])


def rotation_jac(theta, v):
    """Return the Jacobian of rotation with respect to theta."""
    return np.array([-math.sin(theta) * v[0] - math.cos(theta) * v[1], math.cos(theta) * v[0] - math.sin(theta) * v[1]])


def quadratic(x):
    """Return a quadratic form and a quartic."""
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    return 0.5 * x @ A @ x + np.sum(x**4)


def quadratic_hess(x):
    """Return its Hessian."""
    return np.array([[2.0, 0.5], [0.5, 1.0]]) + np.diag(12 * x**2)


def quadratic_hvp(x, v):
    """Return its Hessian times v."""
    return quadratic_hess(x) @ v


def quadratic_vjp(x, w):
    """Return w times its gradient, a factor of 2 too large."""
    return 2 * w * (np.array([[2.0, 0.5], [0.5, 1.0]]) @ x + 4 * x**3)


def with_gradient(x):
    """Return a value and its gradient."""
    return np.sum(np.log1p(np.exp(x))), 1 / (1 + np.exp(-x))


def with_wrong_gradient(x):
    """Return a value and a gradient whose sign is wrong."""
    return np.sum(np.log1p(np.exp(x))), -1 / (1 + np.exp(-x))


def untraced(x):
    """Return a value that no trace follows."""
    return np.float64(x) ** 3


def untraced_grad(x):
    """Return the derivative of untraced."""
    return 3 * np.float64(x) ** 2


def rounded(x):
    """Return a staircase."""
    return np.sum(np.round(x, 2) ** 2)


def branching(x):
    """Return one of two pieces."""
    return x**2 if x < 1 else 2 * x - 1


def writes(x):
    """Write into the argument."""
    x *= 2
    return np.sum(x**2)


def raises(x):
    """Raise an error for every value."""
    raise ValueError(f"no value at {x.shape}")


def returns_none(x):
    """Return nothing."""
    np.sum(x)


def swaps(x, i=0):
    """Return a function of views and writes in place."""
    y = x.copy()
    y[i], y[-1] = x[-1], 2 * x[i]
    return np.sum(y * np.arange(1, len(y) + 1))


def two_outputs(x, y):
    """Return a dict of results."""
    return {"sum": np.sum(x * y), "each": x - y**2}
