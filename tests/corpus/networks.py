"""Neural networks in plain numpy."""

import numpy as np
from scipy.special import erf, expit, softmax

rng = np.random.default_rng(6)


def relu(x):
    """The usual."""
    return np.maximum(x, 0)


def gelu(x):
    """Exact Gaussian error unit."""
    return 0.5 * x * (1.0 + erf(x / np.sqrt(2.0)))


def mlp(params, x, y):
    """A multilayer perceptron with a dict of parameters, and a squared error."""
    h = x
    for name in ("hidden", "output"):
        layer = params[name]
        h = h @ layer["W"] + layer["b"]
        if name != "output":
            h = np.tanh(h)
    return np.mean((h[:, 0] - y) ** 2)


def mlp_list(weights, x):
    """The same as a list of pairs, with relu."""
    for W, b in weights[:-1]:
        x = relu(np.dot(x, W) + b)
    W, b = weights[-1]
    return np.sum((np.dot(x, W) + b) ** 2)


class Linear:
    """A layer as an object."""

    def __init__(self, W, b):
        self.W, self.b = W, b

    def __call__(self, x):
        return x @ self.W + self.b


class Sequential:
    """Layers one after the other."""

    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def object_oriented(W1, b1, W2, x):
    """A network made of objects on the spot."""
    model = Sequential(Linear(W1, b1), gelu, Linear(W2, 0.0), np.cos)
    return model(x).mean()


def scaled_dot_product(Q, K, V, causal=True):
    """Attention with a causal mask."""
    scores = np.einsum("qd,kd->qk", Q, K) / np.sqrt(Q.shape[-1])
    if causal:
        mask = np.triu(np.ones_like(scores, dtype=bool), k=1)
        scores[mask] = -1e9
    weights = softmax(scores, axis=-1)
    return np.sum(np.einsum("qk,kd->qd", weights, V) ** 2)


def layer_norm(x, gain, bias, eps=1e-5):
    """Layer normalisation."""
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return gain * (x - mu) / np.sqrt(var + eps) + bias


def normalised_activations(x, gain, bias):
    """A loss of a layer norm."""
    return np.sum(layer_norm(x, gain, bias) * np.arange(x.size).reshape(x.shape))


def batch_norm(x, gamma, beta, eps=1e-3):
    """Batch normalisation with a running mean that is thrown away."""
    running = np.zeros(x.shape[1])
    mean, var = np.mean(x, axis=0), np.var(x, axis=0)
    running[:] = 0.9 * running + 0.1 * mean
    xhat = (x - mean) / np.sqrt(var + eps)
    return np.sum((gamma * xhat + beta) ** 3) + running.sum()


def multi_head_attention(x, Wq, Wk, Wv, Wo, heads=2):
    """Several heads by reshape and transpose."""
    n, d = x.shape

    def split(h):
        return h.reshape(n, heads, d // heads).transpose(1, 0, 2)

    q, k, v = split(x @ Wq), split(x @ Wk), split(x @ Wv)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(d // heads)
    scores -= scores.max(axis=-1, keepdims=True)
    e = np.exp(scores)
    a = e / e.sum(axis=-1, keepdims=True)
    return (a @ v).transpose(1, 0, 2).reshape(n, d) @ Wo


def transformer_block(p, x):
    """Pre-norm transformer block, a scalar at the end."""
    x = x + multi_head_attention(layer_norm(x, p["g1"], 0.0), p["Wq"], p["Wk"], p["Wv"], p["Wo"])
    x = x + gelu(layer_norm(x, p["g2"], 0.1) @ p["W1"]) @ p["W2"]
    return np.sum(x**2)


def lstm_cell(params, x, h, c):
    """One LSTM step; gates from one matrix product."""
    z = np.concatenate([x, h]) @ params["W"] + params["b"]
    i, f, g, o = np.split(z, 4)
    c = expit(f + 1.0) * c + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(c), c


def lstm(params, xs):
    """An LSTM over a short sequence."""
    h, c = np.zeros(2), np.zeros(2)
    outputs = []
    for x in xs:
        h, c = lstm_cell(params, x, h, c)
        outputs.append(h)
    return np.sum(np.stack(outputs) ** 2)


def gru(Wz, Wr, Wh, xs):
    """Gated recurrent units with a history written into a buffer."""
    h = np.zeros(2)
    history = np.empty((len(xs), 2))
    for t, x in enumerate(xs):
        u = np.hstack((x, h))
        z, r = 1 / (1 + np.exp(-u @ Wz)), 1 / (1 + np.exp(-u @ Wr))
        h = (1 - z) * h + z * np.tanh(np.hstack((x, r * h)) @ Wh)
        history[t] = h
    return history[:, 0].dot(history[:, 1])


def conv2d(image, kernel):
    """Valid convolution by four loops."""
    H, W = image.shape
    h, w = kernel.shape
    out = np.zeros((H - h + 1, W - w + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(image[i : i + h, j : j + w] * kernel)
    return np.sum(relu(out) ** 2)


def im2col(image, kernels):
    """Convolution with several kernels by windows and tensordot, then max pooling by reshape."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernels.shape[1:])
    maps = np.tensordot(windows, kernels, axes=([2, 3], [1, 2])).transpose(2, 0, 1)
    pooled = maps.reshape(2, 1, 2, 1, 2).max(axis=(2, 4))
    return np.sum(pooled**2)


def graph_convolution(features, W):
    """Kipf and Welling's layer on a fixed graph."""
    A = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    A_hat = A + np.eye(3)
    d = A_hat.sum(axis=1) ** -0.5
    return np.tanh(np.diag(d) @ A_hat @ np.diag(d) @ features @ W).sum()


def embedding_bag(table, tokens=((0, 2, 2), (1,), (3, 0))):
    """Means of looked-up rows, ragged."""
    pooled = [table[list(t)].mean(axis=0) for t in tokens]
    return np.linalg.norm(np.vstack(pooled))


def rotary(x, base=10.0):
    """Rotary position embedding, written with strides and out of place."""
    n, d = x.shape
    angle = np.outer(np.arange(n), base ** (-np.arange(0, d, 2) / d))
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * np.cos(angle) - x[:, 1::2] * np.sin(angle)
    out[:, 1::2] = x[:, 0::2] * np.sin(angle) + x[:, 1::2] * np.cos(angle)
    return np.sum(np.tanh(out) * np.arange(d))


def mixture_of_experts(x, gate, experts, k=2):
    """Top-k gating with argsort."""
    logits = gate @ x
    top = np.argsort(-logits)[:k]
    w = softmax(logits[top])
    return sum(w[j] * np.tanh(experts[e] @ x).sum() for j, e in enumerate(top))


def residual_scan(depth, x, W):
    """A residual network, i.e. Euler steps of an ordinary differential equation."""
    for layer in range(int(depth)):
        x = x + (0.5 / (layer + 1)) * np.tanh(W.dot(x))
    return np.max(x) - np.min(x)


def dropout_and_relu6(x, W, seed=3):
    """A dropout mask from a seeded generator inside the function."""
    mask = np.random.default_rng(seed).random(W.shape[1]) < 0.7
    h = np.clip(x @ W, 0.0, 6.0) * mask / 0.7
    return h.sum() ** 2


def rms_norm_swiglu(x, g, W, V):
    """The gated unit of recent language models."""
    x = g * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)
    a = x @ W
    return np.sum(a * expit(a) * (x @ V))


def leaky(x, slope=0.1):
    """Several activations by np.where and friends."""
    elu = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    softplus = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
    leaky_relu = np.where(x >= 0, x, slope * x)
    mish = x * np.tanh(softplus)
    return (elu + softplus * leaky_relu + mish).sum()


def _normal(*shape):
    return rng.normal(size=shape)


POINTS = {
    mlp: {
        "params": {"hidden": {"W": _normal(2, 3), "b": _normal(3)}, "output": {"W": _normal(3, 1), "b": _normal(1)}},
        "x": _normal(4, 2),
        "y": _normal(4),
    },
    mlp_list: {"weights": [(_normal(2, 3), _normal(3)), (_normal(3, 1), _normal(1))], "x": _normal(3, 2)},
    object_oriented: {"W1": _normal(2, 3), "b1": _normal(3), "W2": _normal(3, 2), "x": _normal(2, 2)},
    scaled_dot_product: {"Q": _normal(3, 2), "K": _normal(3, 2), "V": _normal(3, 2)},
    normalised_activations: {"x": _normal(2, 3), "gain": _normal(3), "bias": _normal(3)},
    batch_norm: {"x": _normal(4, 2), "gamma": _normal(2), "beta": _normal(2)},
    transformer_block: {
        "p": {name: _normal(2, 2) for name in ("Wq", "Wk", "Wv", "Wo", "W1", "W2")}
        | {"g1": _normal(2), "g2": _normal(2)},
        "x": _normal(3, 2),
    },
    lstm: {"params": {"W": 0.5 * _normal(3, 8), "b": _normal(8)}, "xs": _normal(3, 1)},
    gru: {"Wz": _normal(3, 2), "Wr": _normal(3, 2), "Wh": _normal(3, 2), "xs": _normal(3, 1)},
    conv2d: {"image": _normal(3, 4), "kernel": np.array([[0.5, -0.2], [0.9, 0.4]])},
    im2col: {"image": _normal(3, 3), "kernels": _normal(2, 2, 2)},
    graph_convolution: {"features": _normal(3, 2), "W": _normal(2, 2)},
    embedding_bag: {"table": _normal(4, 2)},
    rotary: {"x": _normal(3, 4)},
    mixture_of_experts: {"x": _normal(2), "gate": _normal(3, 2), "experts": _normal(3, 2, 2)},
    residual_scan: {"depth": 3, "x": _normal(3), "W": _normal(3, 3)},
    dropout_and_relu6: {"x": _normal(2), "W": _normal(2, 5)},
    rms_norm_swiglu: {"x": _normal(2, 3), "g": _normal(3), "W": _normal(3, 2), "V": _normal(3, 2)},
    leaky: {"x": _normal(4)},
}
