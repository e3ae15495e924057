"""Networks of layers: a loss that has the slope of the softmax before it, blocks within blocks, running statistics."""

from collections import OrderedDict

import numpy as np


class Dense:
    def __init__(self, n, m):
        self.params = {"W": np.random.randn(n, m), "b": np.random.randn(m)}

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dout):
        self.grads = {"W": self.x.T @ dout, "b": dout.sum(axis=0)}
        return dout @ self.params["W"].T


class Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, dout):
        return dout * (1 - self.y**2)


class BatchNorm:
    def __init__(self, n, momentum=0.9):
        self.gamma, self.beta, self.momentum = np.ones(n), np.zeros(n), momentum
        self.running_mean, self.running_var = np.zeros(n), np.ones(n)

    def forward(self, x, train=True):
        if not train:
            self.centred, self.std = x - self.running_mean, np.sqrt(self.running_var + 1e-5)
        else:
            mean, var = x.mean(axis=0), x.var(axis=0)
            self.centred, self.std = x - mean, np.sqrt(var + 1e-5)
            self.running_mean = self.momentum * self.running_mean + (1 - self.momentum) * mean
            self.running_var = self.momentum * self.running_var + (1 - self.momentum) * var
        self.train, self.hat = train, self.centred / self.std
        return self.gamma * self.hat + self.beta

    def backward(self, dout):
        self.dgamma, self.dbeta = (dout * self.hat).sum(axis=0), dout.sum(axis=0)
        d = dout * self.gamma
        if self.train:
            d = d - d.mean(axis=0) - self.hat * (d * self.hat).mean(axis=0)
        return d / self.std


class Softmax:
    def forward(self, x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.y = e / e.sum(axis=1, keepdims=True)
        return self.y

    def backward(self, dout):
        return dout


class CrossEntropy:
    def forward(self, y, t):
        self.y, self.t = y, t
        return -np.mean(np.log(y[np.arange(len(t)), t]))

    def backward(self, dout=1.0):
        d = dout * self.y
        d[np.arange(len(self.t)), self.t] -= dout
        return d / len(self.t)


class Residual:
    def __init__(self, n):
        self.dense, self.tanh = Dense(n, n), Tanh()

    def forward(self, x):
        return self.tanh.forward(self.dense(x)) + x

    def backward(self, dout):
        return self.dense.backward(self.tanh.backward(dout)) + dout


class Net:
    def __init__(self):
        self.layers = [Residual(3), BatchNorm(3), Dense(3, 4)]
        self.soft, self.end = Softmax(), CrossEntropy()

    def forward(self, x, t):
        for layer in self.layers:
            x = layer.forward(x)
        return self.end.forward(self.soft.forward(x), t)

    def backward(self):
        d = self.soft.backward(self.end.backward())
        for layer in reversed(self.layers):
            d = layer.backward(d)
        return d


class Book:
    def __init__(self, n, m):
        self.params = {"W1": np.random.randn(n, 5), "b1": np.zeros(5), "W2": np.random.randn(5, m), "b2": np.zeros(m)}
        self.layers = OrderedDict(first=Dense(n, 5), tanh=Tanh(), second=Dense(5, m))
        self.layers["first"].params = {"W": self.params["W1"], "b": self.params["b1"]}
        self.layers["second"].params = {"W": self.params["W2"], "b": self.params["b2"]}
        self.soft, self.end = Softmax(), CrossEntropy()

    def predict(self, x):
        for layer in self.layers.values():
            x = layer.forward(x)
        return x

    def loss(self, x, t):
        return self.end.forward(self.soft.forward(self.predict(x)), t)

    def gradient(self, x, t):
        self.loss(x, t)
        d = self.soft.backward(self.end.backward())
        for layer in reversed(self.layers.values()):
            d = layer.backward(d)
        first, second = self.layers["first"].grads, self.layers["second"].grads
        return {"W1": first["W"], "b1": first["b"], "W2": second["W"], "b2": second["b"]}


class Adam(Dense):
    """A layer that keeps its optimiser's state in tables with the names of its parameters."""

    def __init__(self, n, m):
        super().__init__(n, m)
        self.grads = {name: np.zeros_like(x) for name, x in self.params.items()}
        self.first = {name: np.zeros_like(x) for name, x in self.params.items()}
        self.second = {name: np.ones_like(x) for name, x in self.params.items()}


class Linear:
    """A model whose gradient is that of an attribute, which is no argument."""

    def __init__(self, n):
        self.W = np.random.randn(n)

    def loss(self, X, y):
        return np.sum((X @ self.W - y) ** 2)

    def gradient(self, X, y):
        return 2 * X.T @ (X @ self.W - y)


class Ridge:
    def __init__(self, strength):
        self.strength = strength

    def loss(self, w, X, y):
        return 0.5 * np.sum((X @ w - y) ** 2) + 0.5 * self.strength * w @ w

    def gradient(self, w, X, y):
        return X.T @ (X @ w - y) + self.strength * w
