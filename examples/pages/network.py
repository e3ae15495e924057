"""A small network by hand: its loss, the gradient that backpropagation gives, and the same with two classic slips."""

import numpy as np


def loss(W, b, w, x, y):
    z = W @ x + b
    h = np.tanh(z)
    p = w @ h
    r = p - y
    return r**2


def loss_grad(W, b, w, x, y):
    h = np.tanh(W @ x + b)
    r = w @ h - y
    dz = 2 * r * w * (1 - h**2)
    return {"W": np.outer(dz, x), "b": dz, "w": 2 * r * h}


def slope_of_tanh(W, b, w, x, y):
    h = np.tanh(W @ x + b)
    r = w @ h - y
    dz = 2 * r * w * (1 - h)
    return {"W": np.outer(dz, x), "b": dz, "w": 2 * r * h}


def transposed(W, b, w, x, y):
    h = np.tanh(W @ x + b)
    r = w @ h - y
    dz = 2 * r * w * (1 - h**2)
    return {"W": np.outer(x, dz), "b": dz, "w": 2 * r * h}


def point():
    return {
        "W": np.array([[0.5, -1.0], [1.0, 2.0]]), "b": np.array([0.1, 0.2]), "w": np.array([1.0, -2.0]),
        "x": np.array([0.3, 0.7]), "y": 1.0,
    }  # fmt: skip
