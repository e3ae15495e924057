"""Layers in the spellings of courses: cells with a dict of parameters, parameters as objects, layers within layers."""

import numpy as np

rng = np.random.default_rng(0)
cell_parameters = {"W": rng.normal(size=(4, 6)), "b": rng.normal(size=(4, 1)), "Wy": rng.normal(size=(2, 4))}


def cell_forward(xt, a_prev, c_prev, parameters):
    W, b, Wy = parameters["W"], parameters["b"], parameters["Wy"]
    z = np.tanh(W @ np.concatenate([a_prev, xt]) + b)
    c = c_prev * 0.5 + z
    a = np.tanh(c)
    return a, c, 1 / (1 + np.exp(-(Wy @ a))), (a, z, a_prev, xt, parameters)


def cell_backward(da_next, dc_next, cache):
    a, z, a_prev, xt, parameters = cache
    dc = dc_next + da_next * (1 - a**2)
    dz = dc * (1 - z**2)
    both = parameters["W"].T @ dz
    n = a_prev.shape[0]
    grads = {"dxt": both[n:], "da_prev": both[:n], "dc_prev": 0.5 * dc, "db": dz.sum(axis=1, keepdims=True)}
    return grads | {"dW": dz @ np.concatenate([a_prev, xt]).T}


class Weight:
    def __init__(self, value):
        self.value, self.grad = value, np.zeros_like(value)


class Linear:
    def __init__(self, n, m):
        self.w = Weight(np.random.randn(n, m))
        self.b = {"val": np.zeros(m), "grad": np.zeros(m)}

    def forward(self, x):
        self.x = x
        return x @ self.w.value + self.b["val"]

    def backward(self, g):
        self.w.grad += self.x.T @ g
        self.b["grad"] += g.sum(axis=0)
        return g @ self.w.value.T


class Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, g):
        return g * (1 - self.y**2)


class Sequential:
    def __init__(self):
        self.layers = [Linear(3, 4), Tanh(), Linear(4, 2)]

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, g):
        for layer in reversed(self.layers):
            g = layer.backward(g)
        return g


class Classifier:
    def __init__(self):
        self.params = {"W": np.random.randn(3, 2)}

    def loss(self, X, y=None):
        scores = X @ self.params["W"]
        if y is None:
            return scores
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        d = p.copy()
        d[np.arange(len(X)), y] -= 1
        return -np.log(p[np.arange(len(X)), y]).mean(), {"W": X.T @ d / len(X)}
