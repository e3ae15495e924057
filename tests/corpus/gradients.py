"""Gradients by hand, as people derive them, and the same with a mistake that people make."""

import math

import numpy as np
from scipy.special import digamma, expit, ndtr, softmax

from tests.corpus import (
    buffers,
    chemistry,
    control_flow,
    finance,
    geometry,
    linear_algebra,
    losses,
    networks,
    physics,
    signals,
    statistics_,
)


def normal_loglik(mu, sigma, data):
    """The score of a normal sample."""
    r = data - mu
    return np.sum(r) / sigma**2, -len(data) / sigma + np.sum(r**2) / sigma**3, -r / sigma**2


def normal_loglik_wrong(mu, sigma, data):
    """The sign of the first term of the slope in sigma."""
    r = data - mu
    return np.sum(r) / sigma**2, len(data) / sigma + np.sum(r**2) / sigma**3, -r / sigma**2


def gamma_loglik(shape, rate, data):
    """The score of a gamma sample."""
    by_shape = np.sum(np.log(rate) - digamma(shape) + np.log(data))
    return by_shape, np.sum(shape / rate - data), (shape - 1) / data - rate


def gamma_loglik_wrong(shape, rate, data):
    """The digamma is forgotten."""
    by_shape = np.sum(np.log(rate) + np.log(data))
    return by_shape, np.sum(shape / rate - data), (shape - 1) / data - rate


def logistic_regression(w, b, X, y, l2=0.1):
    """For the weights and the intercept alone."""
    s = -y * expit(-y * (X @ w + b)) / len(y)
    return {"w": X.T @ s + l2 * w, "b": s.sum()}


def logistic_regression_wrong(w, b, X, y, l2=0.1):
    """The penalty is forgotten."""
    s = -y * expit(-y * (X @ w + b)) / len(y)
    return {"w": X.T @ s, "b": s.sum()}


def huber_loss(prediction, target, delta=1.0):
    """The clipped residual."""
    r = np.clip(prediction - target, -delta, delta)
    return {"prediction": r, "target": -r}


def huber_loss_wrong(prediction, target, delta=1.0):
    """Not clipped."""
    r = prediction - target
    return {"prediction": r, "target": -r}


def label_smoothing_cross_entropy(logits, labels, smoothing=0.1):
    """Softmax minus the target."""
    n, k = logits.shape
    target = np.full((n, k), smoothing / (k - 1))
    target[range(n), labels] = 1.0 - smoothing
    return (softmax(logits, axis=1) - target) / n


def label_smoothing_cross_entropy_wrong(logits, labels, smoothing=0.1):
    """A sum where the loss is a mean."""
    return label_smoothing_cross_entropy(logits, labels, smoothing) * len(logits)


def kl_gaussians(q, p):
    """As a tuple of dicts."""
    ratio = np.exp(q["log_var"] - p["log_var"])
    d = (p["mean"] - q["mean"]) / np.exp(p["log_var"])
    by_q = {"mean": -d, "log_var": 0.5 * (ratio - 1)}
    by_p = {"mean": d, "log_var": 0.5 * (1 - ratio - d * (p["mean"] - q["mean"]))}
    return by_q, by_p


def kl_gaussians_wrong(q, p):
    """A factor 1/2 is forgotten."""
    by_q, by_p = kl_gaussians(q, p)
    return by_q | {"log_var": 2 * by_q["log_var"]}, by_p


def lennard_jones(coordinates, epsilon=1.0, sigma=0.8):
    """The forces, with the sign of a gradient."""
    d = coordinates[:, None] - coordinates[None, :]
    r2 = (d**2).sum(-1) + np.eye(len(coordinates))
    s6 = (sigma**2 / r2) ** 3
    pull = 4 * epsilon * (-12 * s6**2 + 6 * s6) / r2
    return np.sum((pull * (1 - np.eye(len(coordinates))))[:, :, None] * d, axis=1)


def lennard_jones_wrong(coordinates, epsilon=1.0, sigma=0.8):
    """The forces themselves."""
    return -lennard_jones(coordinates, epsilon, sigma)


def xy_model(angles, coupling, field=0.3):
    """Each spin has four bonds."""
    torque = sum(np.sin(angles - np.roll(angles, shift, axis)) for axis in (0, 1) for shift in (1, -1))
    bonds = np.cos(angles - np.roll(angles, -1, 1)) + np.cos(angles - np.roll(angles, -1, 0))
    return {"angles": coupling * torque + field * np.sin(angles), "coupling": -bonds.sum()}


def xy_model_wrong(angles, coupling, field=0.3):
    """Two of the four bonds."""
    torque = sum(np.sin(angles - np.roll(angles, -1, axis)) for axis in (0, 1))
    return {"angles": coupling * torque + field * np.sin(angles)}


def double_pendulum_energy(state, m1=1.0, m2=0.7, l1=1.1, l2=0.9, g=9.81):
    """One array for a tuple of four numbers."""
    t1, t2, w1, w2 = state
    cross = m2 * l1 * l2
    return np.array(
        [
            -cross * w1 * w2 * np.sin(t1 - t2) + (m1 + m2) * g * l1 * np.sin(t1),
            cross * w1 * w2 * np.sin(t1 - t2) + m2 * g * l2 * np.sin(t2),
            (m1 + m2) * l1**2 * w1 + cross * w2 * np.cos(t1 - t2),
            m2 * l2**2 * w2 + cross * w1 * np.cos(t1 - t2),
        ]
    )


def double_pendulum_energy_wrong(state, m1=1.0, m2=0.7, l1=1.1, l2=0.9, g=9.81):
    """A sine for a cosine in the last entry."""
    g_ = double_pendulum_energy(state, m1, m2, l1, l2, g)
    t1, t2, w1, w2 = state
    g_[3] = m2 * l2**2 * w2 + m2 * l1 * l2 * w1 * np.sin(t1 - t2)
    return g_


def mean_field_magnetisation(beta, h=0.2):
    """The implicit function theorem at the fixed point."""
    m = physics.mean_field_magnetisation(beta, h)
    s = 1 - m**2
    return s * (m + h) / (1 - beta * s)


def mean_field_magnetisation_wrong(beta, h=0.2):
    """Through the last iteration alone."""
    m = physics.mean_field_magnetisation(beta, h)
    return (1 - m**2) * (m + h)


def shoelace(polygon):
    """Half the neighbours' difference, turned."""
    d = np.roll(polygon, -1, axis=0) - np.roll(polygon, 1, axis=0)
    return 0.5 * np.stack([d[:, 1], -d[:, 0]], axis=1)


def shoelace_wrong(polygon):
    """Shifted by one."""
    return np.roll(shoelace(polygon), 1, axis=0)


def black_scholes_call(spot, strike, rate, sigma, maturity):
    """Delta, dual delta, rho, vega and minus theta."""
    root = sigma * math.sqrt(maturity)
    d1 = (math.log(spot / strike) + (rate + 0.5 * sigma**2) * maturity) / root
    d2 = d1 - root
    density = math.exp(-0.5 * d1**2) / math.sqrt(2 * math.pi)
    discounted = strike * math.exp(-rate * maturity)
    return (
        ndtr(d1),
        -math.exp(-rate * maturity) * ndtr(d2),
        maturity * discounted * ndtr(d2),
        spot * density * math.sqrt(maturity),
        spot * density * sigma / (2 * math.sqrt(maturity)) + rate * discounted * ndtr(d2),
    )


def black_scholes_call_wrong(spot, strike, rate, sigma, maturity):
    """Theta's sign."""
    *greeks, theta = black_scholes_call(spot, strike, rate, sigma, maturity)
    return (*greeks, -theta)


def kepler(mean_anomaly, eccentricity, tolerance=1e-13):
    """By Kepler's equation."""
    E = physics.kepler(mean_anomaly, eccentricity, tolerance)
    slope = 1 - eccentricity * np.cos(E)
    return {"mean_anomaly": 1 / slope, "eccentricity": np.sin(E) / slope}


def kepler_wrong(mean_anomaly, eccentricity, tolerance=1e-13):
    """The derivative of the equation's other side is forgotten."""
    E = physics.kepler(mean_anomaly, eccentricity, tolerance)
    return {"mean_anomaly": 1 / (1 - eccentricity * np.cos(E)), "eccentricity": np.sin(E)}


def ridge(X, y, penalty):
    """The envelope theorem: the weights are at their minimum."""
    w = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ y)
    r = y - X @ w
    return -2 * np.outer(r, w), 2 * r, w @ w


def ridge_wrong(X, y, penalty):
    """Transposed, in effect: the residual of the fit without a penalty."""
    w = np.linalg.lstsq(X, y, rcond=None)[0]
    r = y - X @ w
    return -2 * np.outer(r, w), 2 * r, w @ w


def log_determinant(a):
    """Three halves of the inverse, made symmetric."""
    return 1.5 * np.linalg.inv(linear_algebra.symmetric(a))


def log_determinant_wrong(a):
    """The inverse of the matrix itself."""
    return 1.5 * np.linalg.inv(a).T


def mlp_list(weights, x):
    """Backpropagation by hand, in the structure of the weights."""
    (W1, b1), (W2, b2) = weights
    a = x @ W1 + b1
    h = np.maximum(a, 0)
    delta = 2 * (h @ W2 + b2)
    back = (delta @ W2.T) * (a > 0)
    return [(x.T @ back, back.sum(0)), (h.T @ delta, delta.sum(0))], back @ W1.T


def mlp_list_wrong(weights, x):
    """The mask of relu is forgotten."""
    (W1, b1), (W2, b2) = weights
    h = np.maximum(x @ W1 + b1, 0)
    delta = 2 * (h @ W2 + b2)
    back = delta @ W2.T
    return [(x.T @ back, back.sum(0)), (h.T @ delta, delta.sum(0))], back @ W1.T


def michaelis_menten(vmax, km, substrate, observed):
    """By the two parameters; the data are left out with None."""
    fraction = substrate / (km + substrate)
    r = 2 * (vmax * fraction - observed)
    return np.sum(r * fraction), np.sum(-r * vmax * substrate / (km + substrate) ** 2), None, None


def michaelis_menten_wrong(vmax, km, substrate, observed):
    """The denominator is not squared."""
    by_vmax, _, *_ = michaelis_menten(vmax, km, substrate, observed)
    r = 2 * (vmax * substrate / (km + substrate) - observed)
    return by_vmax, np.sum(-r * vmax * substrate / (km + substrate)), None, None


def total_variation(image, eps=1e-3):
    """Scattered back from the differences."""
    dy, dx = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1, :]
    size = np.sqrt(dx**2 + dy**2 + eps)
    g = np.zeros_like(image)
    g[1:, :-1] += dy / size
    g[:-1, :-1] -= dy / size + dx / size
    g[:-1, 1:] += dx / size
    return g


def total_variation_wrong(image, eps=1e-3):
    """Overwritten instead of added."""
    dy, dx = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1, :]
    size = np.sqrt(dx**2 + dy**2 + eps)
    g = np.zeros_like(image)
    g[1:, :-1] = dy / size
    g[:-1, :-1] = -(dy / size + dx / size)
    g[:-1, 1:] = dx / size
    return g


def scattered(values, weights):
    """Gathered from the histogram."""
    bins = np.array([0, 2, 1, 2, 0])
    h = np.zeros(3)
    np.add.at(h, bins, values * weights)
    return 2 * h[bins] * weights, 2 * h[bins] * values


def scattered_wrong(values, weights):
    """h[bins] += v adds once for each position."""
    bins = np.array([0, 2, 1, 2, 0])
    h = np.zeros(3)
    h[bins] += values * weights
    return 2 * h[bins] * weights, 2 * h[bins] * values


def reduced(ws, x):
    """The chain rule backward through a chain of tanh."""
    hs = [x]
    for w in ws:
        hs.append(np.tanh(w * hs[-1] + 0.3))
    bar, by_w = 1.0, np.zeros_like(ws)
    for k in range(len(ws) - 1, -1, -1):
        bar *= 1 - hs[k + 1] ** 2
        by_w[k] = bar * hs[k]
        bar *= ws[k]
    return by_w, bar


def reduced_wrong(ws, x):
    """The derivative of tanh without its square."""
    hs = [x]
    for w in ws:
        hs.append(np.tanh(w * hs[-1] + 0.3))
    bar, by_w = 1.0, np.zeros_like(ws)
    for k in range(len(ws) - 1, -1, -1):
        bar *= 1 - hs[k + 1]
        by_w[k] = bar * hs[k]
        bar *= ws[k]
    return by_w, bar


HOMES = (
    buffers, chemistry, control_flow, finance, geometry, linear_algebra, losses, networks, physics, signals, statistics_,
)  # fmt: skip
