"""Layers of neural networks: perceptrons with several activations, and the three usual normalisations."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(12)
X = rng.normal(size=(8, 3))
Y = rng.normal(size=8)
LABEL = (rng.uniform(size=8) < 0.5).astype(float)
SQUARE = rng.normal(size=(6, 6))
TARGET = rng.normal(size=(6, 6))
WIDE = rng.normal(size=(12, 10))
WIDE_TARGET = rng.normal(size=12)
EPS = 1e-5
DECAY = 0.02
ROOT = np.sqrt(2 / np.pi)


def tanh_mlp(W1, b1, w2, b2):
    a1 = X @ W1 + b1
    h1 = np.tanh(a1)
    out = h1 @ w2 + b2
    error = out - Y
    return np.mean(error**2) + DECAY * (np.sum(W1**2) + np.sum(w2**2))


def tanh_mlp_gradient(W1, b1, w2, b2):
    a1 = X @ W1 + b1
    h1 = np.tanh(a1)
    out = h1 @ w2 + b2
    error = out - Y
    dout = 2 * error / len(Y)
    dw2 = h1.T @ dout
    db2 = np.sum(dout)
    dh1 = np.outer(dout, w2)
    da1 = dh1 * (1 - h1**2)
    dW1 = X.T @ da1
    db1 = np.sum(da1, axis=0)
    dW1 += 2 * DECAY * W1
    dw2 += 2 * DECAY * w2
    return dW1, db1, dw2, db2


def sigmoid_relu_mlp(W1, W2, w3):
    a1 = X @ W1
    h1 = 1 / (1 + np.exp(-a1))
    a2 = h1 @ W2
    h2 = np.maximum(a2, 0)
    z = h2 @ w3
    loss = np.logaddexp(0, z) - LABEL * z
    return np.sum(loss)


def sigmoid_relu_mlp_gradient(W1, W2, w3):
    a1 = X @ W1
    h1 = 1 / (1 + np.exp(-a1))
    a2 = h1 @ W2
    h2 = np.maximum(a2, 0)
    z = h2 @ w3
    dz = 1 / (1 + np.exp(-z))
    dz -= LABEL
    dw3 = h2.T @ dz
    dh2 = np.outer(dz, w3)
    da2 = dh2 * (a2 > 0)
    dW2 = h1.T @ da2
    dh1 = da2 @ W2.T
    da1 = dh1 * h1 * (1 - h1)
    dW1 = X.T @ da1
    return dW1, dW2, dw3


def gelu_block(W1, W2):
    u = SQUARE @ W1
    inner = ROOT * (u + 0.044715 * u**3)
    t = np.tanh(inner)
    h = 0.5 * u * (1 + t)
    out = SQUARE + h @ W2
    return 0.5 * np.sum((out - TARGET) ** 2)


def gelu_block_gradient(W1, W2):
    u = SQUARE @ W1
    inner = ROOT * (u + 0.044715 * u**3)
    t = np.tanh(inner)
    h = 0.5 * u * (1 + t)
    out = SQUARE + h @ W2
    dout = out - TARGET
    dW2 = h.T @ dout
    dh = dout @ W2.T
    du = dh * 0.5 * (1 + t)
    dt = dh * 0.5 * u
    dinner = dt * (1 - t**2)
    du += dinner * ROOT * (1 + 3 * 0.044715 * u**2)
    dW1 = SQUARE.T @ du
    return dW1, dW2


def layer_norm(x, gain, bias):
    mean = np.mean(x, axis=1, keepdims=True)
    centred = x - mean
    var = np.mean(centred**2, axis=1, keepdims=True)
    std = np.sqrt(var + EPS)
    xhat = centred / std
    y = gain * xhat + bias
    return 0.5 * np.sum((y - TARGET) ** 2)


def layer_norm_gradient(x, gain, bias):
    mean = np.mean(x, axis=1, keepdims=True)
    centred = x - mean
    var = np.mean(centred**2, axis=1, keepdims=True)
    std = np.sqrt(var + EPS)
    xhat = centred / std
    y = gain * xhat + bias
    dy = y - TARGET
    dgain = np.sum(dy * xhat, axis=0)
    dbias = np.sum(dy, axis=0)
    dxhat = dy * gain
    dcentred = dxhat / std
    dstd = -np.sum(dxhat * centred, axis=1, keepdims=True) / std**2
    dvar = dstd / (2 * std)
    dcentred += dvar * 2 * centred / x.shape[1]
    dx = dcentred.copy()
    dmean = -np.sum(dcentred, axis=1, keepdims=True)
    dx += dmean / x.shape[1]
    return dx, dgain, dbias


def batch_norm(x, gamma, beta):
    mu = x.mean(axis=0)
    xc = x - mu
    var = np.mean(xc**2, axis=0)
    inv = 1 / np.sqrt(var + EPS)
    xhat = xc * inv
    out = np.maximum(gamma * xhat + beta, 0)
    return np.sum(TARGET * out)


def batch_norm_gradient(x, gamma, beta):
    n = len(x)
    mu = x.mean(axis=0)
    xc = x - mu
    var = np.mean(xc**2, axis=0)
    inv = 1 / np.sqrt(var + EPS)
    xhat = xc * inv
    pre = gamma * xhat + beta
    dpre = TARGET * (pre > 0)
    dgamma = np.sum(dpre * xhat, axis=0)
    dbeta = np.sum(dpre, axis=0)
    dxhat = dpre * gamma
    dinv = np.sum(dxhat * xc, axis=0)
    dxc = dxhat * inv
    dvar = -0.5 * dinv * inv**3
    dxc += 2 * xc * dvar / n
    dmu = -dxc.sum(axis=0)
    dx = dxc + dmu / n
    return dx, dgamma, dbeta


def rms_norm(x, scale):
    ms = np.mean(x**2, axis=-1, keepdims=True)
    rms = np.sqrt(ms + EPS)
    normed = x / rms
    y = normed * scale
    swish = y / (1 + np.exp(-y))
    return np.sum(TARGET * swish)


def rms_norm_gradient(x, scale):
    ms = np.mean(x**2, axis=-1, keepdims=True)
    rms = np.sqrt(ms + EPS)
    normed = x / rms
    y = normed * scale
    s = 1 / (1 + np.exp(-y))
    dswish = TARGET
    dy = dswish * s
    ds = dswish * y
    dy += ds * s * (1 - s)
    dscale = np.sum(dy * normed, axis=0)
    dnormed = dy * scale
    dx = dnormed / rms
    drms = -np.sum(dnormed * x / rms**2, axis=-1, keepdims=True)
    dms = drms * 0.5 / rms
    dx += dms * 2 * x / x.shape[-1]
    return dx, dscale


def wide_mlp(W1, b1, W2, b2, w3):
    a1 = WIDE @ W1 + b1
    h1 = np.tanh(a1)
    a2 = h1 @ W2 + b2
    h2 = np.log1p(np.exp(a2))
    out = h2 @ w3
    residual = out - WIDE_TARGET
    loss = np.mean(residual**2)
    return loss + DECAY * np.sum(np.abs(w3))


def wide_mlp_gradient(W1, b1, W2, b2, w3):
    a1 = WIDE @ W1 + b1
    h1 = np.tanh(a1)
    a2 = h1 @ W2 + b2
    h2 = np.log1p(np.exp(a2))
    out = h2 @ w3
    residual = out - WIDE_TARGET
    dout = 2 * residual / len(residual)
    dw3 = h2.T @ dout
    dh2 = dout[:, None] * w3
    da2 = dh2 / (1 + np.exp(-a2))
    dW2 = h1.T @ da2
    db2 = da2.sum(axis=0)
    dh1 = da2 @ W2.T
    da1 = dh1 * (1 - h1 * h1)
    dW1 = WIDE.T @ da1
    db1 = da1.sum(axis=0)
    dw3 += DECAY * np.sign(w3)
    return dW1, db1, dW2, db2, dw3


def normal(*shape, scale=1.0):
    return scale * rng.normal(size=shape)


CASES = (
    Case("MLP tanh", tanh_mlp, tanh_mlp_gradient,
         {"W1": normal(3, 5), "b1": normal(5), "w2": normal(5), "b2": 0.1}, (
        Slip("slip", "(1 - h1**2)", "(1 - h1)"),
        Slip("slip", "(1 - h1**2)", "(1 - a1**2)"),
        Slip("broadcast", "np.sum(da1, axis=0)", "np.mean(da1, axis=0)"),
        Slip("term", "    dW1 += 2 * DECAY * W1\n", ""),
        Slip("slip", "dw2 += 2 * DECAY", "dw2 += DECAY"),
        Slip("swapped", "out - Y", "Y - out"),
    )),
    Case("MLP sigmoid and relu", sigmoid_relu_mlp, sigmoid_relu_mlp_gradient,
         {"W1": normal(3, 4), "W2": normal(4, 4), "w3": normal(4)}, (
        Slip("slip", "dh2 * (a2 > 0)", "dh2"),
        Slip("slip", "dh1 * h1 * (1 - h1)", "dh1 * h1"),
        Slip("slip", "da2 @ W2.T", "da2 @ W2"),
        Slip("negated", "dz -= LABEL", "dz += LABEL"),
        Slip("term", "    dz -= LABEL\n", ""),
        Slip("slip", "(a2 > 0)", "(h1 > 0.5)"),
    )),
    Case("GELU residual block", gelu_block, gelu_block_gradient,
         {"W1": normal(6, 6, scale=0.4), "W2": normal(6, 6, scale=0.4)}, (
        Slip("left-out", "    du += dinner * ROOT * (1 + 3 * 0.044715 * u**2)\n", ""),
        Slip("overwritten", "du += dinner", "du = dinner"),
        Slip("slip", "3 * 0.044715", "0.044715"),
        Slip("slip", "dt * (1 - t**2)", "dt * (1 - t)"),
        Slip("slip", "dout @ W2.T", "dout @ W2"),
        Slip("swapped", "h.T @ dout", "dout.T @ h"),
    )),
    Case("layer norm", layer_norm, layer_norm_gradient,
         {"x": 2 * normal(6, 6) + 1, "gain": normal(6), "bias": normal(6)}, (
        Slip("left-out", "    dcentred += dvar * 2 * centred / x.shape[1]\n", ""),
        Slip("left-out", "    dx += dmean / x.shape[1]\n", ""),
        Slip("overwritten", "dcentred += dvar", "dcentred = dvar"),
        Slip("axis", "dgain = np.sum(dy * xhat, axis=0)", "dgain = np.sum(dy * xhat, axis=1)"),
        Slip("negated", "dstd = -np.sum", "dstd = np.sum"),
        Slip("slip", "/ std**2", "/ std"),
        Slip("slip", "dstd / (2 * std)", "dstd / std"),
        Slip("broadcast", "dbias = np.sum(dy, axis=0)", "dbias = np.mean(dy, axis=0)"),
    )),
    Case("batch norm", batch_norm, batch_norm_gradient,
         {"x": normal(6, 6), "gamma": normal(6), "beta": normal(6)}, (
        Slip("left-out", "    dxc += 2 * xc * dvar / n\n", ""),
        Slip("axis", "dinv = np.sum(dxhat * xc, axis=0)", "dinv = np.sum(dxhat * xc, axis=1)"),
        Slip("negated", "-0.5 * dinv", "0.5 * dinv"),
        Slip("slip", "inv**3", "inv**2"),
        Slip("slip", "TARGET * (pre > 0)", "TARGET"),
        Slip("left-out", "dxc + dmu / n", "dxc"),
        Slip("overwritten", "dxc += 2 * xc", "dxc = 2 * xc"),
    )),
    Case("RMS norm and swish", rms_norm, rms_norm_gradient, {"x": normal(6, 6), "scale": normal(6)}, (
        Slip("left-out", "    dy += ds * s * (1 - s)\n", ""),
        Slip("overwritten", "dx += dms", "dx = dms"),
        Slip("left-out", "    dx += dms * 2 * x / x.shape[-1]\n", ""),
        Slip("axis", "dscale = np.sum(dy * normed, axis=0)", "dscale = np.sum(dy * normed, axis=1)"),
        Slip("slip", "drms * 0.5 / rms", "drms / rms"),
        Slip("broadcast", "* 2 * x / x.shape[-1]", "* 2 * x"),
    )),
    Case("MLP of 300 entries", wide_mlp, wide_mlp_gradient,
         {"W1": normal(10, 14, scale=0.4), "b1": normal(14), "W2": normal(14, 10, scale=0.4), "b2": normal(10),
          "w3": normal(10)}, (
        Slip("slip", "dh2 / (1 + np.exp(-a2))", "dh2 / (1 + np.exp(a2))"),
        Slip("slip", "(1 - h1 * h1)", "(1 - h1)"),
        Slip("term", "    dw3 += DECAY * np.sign(w3)\n", ""),
        Slip("broadcast", "db2 = da2.sum(axis=0)", "db2 = da2.mean(axis=0)"),
        Slip("overwritten", "dw3 += DECAY", "dw3 = DECAY"),
    )),
)  # fmt: skip
