"""Losses with gradients written by hand, as they stand in many projects; nothing here knows of gradcli."""

import statistics

import numpy as np
from scipy.integrate import quad


def focal(z, y, gamma=2.0):
    """Return the focal loss of logits z with labels y of 0 and 1."""
    p = 1 / (1 + np.exp(-z))
    pt = np.where(y > 0.5, p, 1 - p)
    weight = (1 - pt) ** gamma
    return -np.sum(weight * np.log(pt))


def focal_grad(z, y, gamma=2.0):
    """Return the gradient of focal with respect to z."""
    p = 1 / (1 + np.exp(-z))
    sign = np.where(y > 0.5, 1.0, -1.0)
    pt = np.where(y > 0.5, p, 1 - p)
    return sign * (1 - pt) ** gamma * (gamma * pt * np.log(pt) - (1 - pt))


def focal_grad_without_the_weight(z, y, gamma=2.0):
    """Return what remains when the weight is taken for a constant: a mistake."""
    p = 1 / (1 + np.exp(-z))
    sign = np.where(y > 0.5, 1.0, -1.0)
    pt = np.where(y > 0.5, p, 1 - p)
    return -sign * (1 - pt) ** (gamma + 1)


def network(params, x, y):
    """Return the mean squared error of a network with one hidden layer, its parameters in a dict."""
    hidden = np.zeros((len(x), len(params["b1"])))
    for k, row in enumerate(x):
        hidden[k] = np.tanh(row @ params["W1"] + params["b1"])
    return np.mean((hidden @ params["w2"] - y) ** 2)


def network_grad(params, x, y):
    """Return the gradient of network with respect to its parameters, in a dict like them."""
    hidden = np.tanh(x @ params["W1"] + params["b1"])
    error = 2 * (hidden @ params["w2"] - y) / len(y)
    back = np.outer(error, params["w2"]) * (1 - hidden**2)
    return {"W1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ error}


def network_point():
    """Return parameters and data to check network at."""
    rng = np.random.default_rng(0)
    params = {"W1": rng.normal(size=(3, 4)), "b1": np.zeros(4), "w2": rng.normal(size=4)}
    return {"params": params, "x": rng.normal(size=(5, 3)), "y": rng.normal(size=5)}


def arc(a):
    """Return the length of the curve a x**2 from 0 to 1, by numerical integration."""
    return quad(lambda x: np.sqrt(1 + (2 * a * x) ** 2), 0, 1)[0]


def arc_grad(a):
    """Return its derivative, the integral of the integrand's."""
    return quad(lambda x: 4 * a * x**2 / np.sqrt(1 + (2 * a * x) ** 2), 0, 1)[0]


def spread(x):
    """Return the standard deviation of a sample, by exact fractions."""
    return statistics.stdev(x)


def spread_grad(x):
    """Return its gradient."""
    d = np.array(x) - np.mean(x)
    return d / (len(d) - 1) / np.sqrt(np.sum(d * d) / (len(d) - 1))
