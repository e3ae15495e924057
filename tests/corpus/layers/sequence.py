import numpy as np

rng = np.random.default_rng(1)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lstm_step_forward(x, h, c, Wx, Wh, b):
    a = x @ Wx + h @ Wh + b
    H = h.shape[1]
    i, f, o, g = sigmoid(a[:, :H]), sigmoid(a[:, H : 2 * H]), sigmoid(a[:, 2 * H : 3 * H]), np.tanh(a[:, 3 * H :])
    next_c = f * c + i * g
    next_h = o * np.tanh(next_c)
    return next_h, next_c, (x, h, c, Wx, Wh, i, f, o, g, next_c)


def lstm_step_backward(dnext_h, dnext_c, cache):
    x, h, c, Wx, Wh, i, f, o, g, next_c = cache
    t = np.tanh(next_c)
    dc = dnext_c + dnext_h * o * (1 - t**2)
    da = np.hstack([dc * g * i * (1 - i), dc * c * f * (1 - f), dnext_h * t * o * (1 - o), dc * i * (1 - g**2)])
    return da @ Wx.T, da @ Wh.T, dc * f, x.T @ da, h.T @ da, da.sum(axis=0)


class LayerNorm:
    def __init__(self, d):
        self.gamma = np.ones(d) + 0.1 * np.arange(d)
        self.beta = np.zeros(d)
        self.eps = 1e-5

    def forward(self, x):
        self.mu = x.mean(axis=-1, keepdims=True)
        self.std = np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
        self.xhat = (x - self.mu) / self.std
        return self.gamma * self.xhat + self.beta

    def backward(self, grad_output):
        self.grad_gamma = np.sum(grad_output * self.xhat, axis=tuple(range(grad_output.ndim - 1)))
        self.grad_beta = np.sum(grad_output, axis=tuple(range(grad_output.ndim - 1)))
        d = grad_output * self.gamma
        return (d - d.mean(-1, keepdims=True) - self.xhat * (d * self.xhat).mean(-1, keepdims=True)) / self.std


class Attention:
    def __init__(self, d):
        self.weights = [rng.normal(size=(d, d)) for _ in range(3)]
        self.grads = [np.zeros_like(w) for w in self.weights]

    def forward(self, x):
        Wq, Wk, Wv = self.weights
        self.x = x
        self.q, self.k, self.v = x @ Wq, x @ Wk, x @ Wv
        s = self.q @ self.k.T / np.sqrt(x.shape[1])
        e = np.exp(s - s.max(axis=1, keepdims=True))
        self.a = e / e.sum(axis=1, keepdims=True)
        return self.a @ self.v

    def backward(self, dout):
        Wq, Wk, Wv = self.weights
        da = dout @ self.v.T
        dv = self.a.T @ dout
        ds = self.a * (da - (da * self.a).sum(axis=1, keepdims=True)) / np.sqrt(self.x.shape[1])
        dq, dk = ds @ self.k, ds.T @ self.q
        self.grads[0][...] = self.x.T @ dq
        self.grads[1][...] = self.x.T @ dk
        self.grads[2][...] = self.x.T @ dv
        return dq @ Wq.T + dk @ Wk.T + dv @ Wv.T


class Embedding:
    def __init__(self, W):
        self.params = [np.array(W, dtype=float)]
        self.grads = [np.zeros_like(self.params[0])]
        self.idx = None

    def forward(self, idx):
        (W,) = self.params
        self.idx = idx
        return W[idx]

    def backward(self, dout):
        (dW,) = self.grads
        dW[...] = 0
        np.add.at(dW, self.idx, dout)
        return


class Decay:
    """A linear layer whose backward adds weight decay: wrong for the loss without it."""

    def __init__(self, n, m, reg=0.1):
        self.W = rng.normal(size=(n, m))
        self.reg = reg

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, dout):
        self.dW = self.x.T @ dout + self.reg * self.W
        return dout @ self.W.T


class Product:
    """Inputs and cotangents by position."""

    def forward(self, *inputs):
        self.inputs = inputs
        return inputs[0] * inputs[1]

    def backward(self, *douts):
        a, b = self.inputs
        return douts[0] * b, douts[0] * a


class Named:
    """Inputs and cotangents by name alone."""

    def forward(self, *, x, w):
        self.x, self.w = x, w
        return x * w

    def backward(self, *, dout):
        return {"x": dout * self.w, "w": dout * self.x}
