"""Losses on a batch of data: regression, classification, and their robust and focal variants."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(11)
X = rng.normal(size=(20, 6))
Y = X @ np.array([0.8, -1.2, 0.3, 0.0, 2.0, -0.5]) + 0.3 * rng.normal(size=20)
T = (rng.uniform(size=20) < 0.5).astype(float)
SIGN = np.where(rng.uniform(size=20) < 0.5, -1.0, 1.0)
SQUARE = rng.normal(size=(5, 5))
LABELS = np.array([3, 0, 4, 1, 1])
LAMBDA = 0.05
DELTA = 0.6
GAMMA = 2.5
WEIGHTS = rng.uniform(0.5, 2.0, size=20)


def ridge_regression(w, b):
    pred = X @ w + b
    residual = pred - Y
    loss = 0.5 * np.mean(residual**2)
    penalty = 0.5 * LAMBDA * np.sum(w**2)
    return loss + penalty


def ridge_regression_gradient(w, b):
    pred = X @ w + b
    residual = pred - Y
    dresidual = residual / len(Y)
    dpred = dresidual
    dw = X.T @ dpred
    db = np.sum(dpred)
    dw += LAMBDA * w
    return dw, db


def logistic_regression(w, b):
    z = X @ w + b
    p = 1 / (1 + np.exp(-z))
    loglik = T * np.log(p) + (1 - T) * np.log(1 - p)
    loss = -np.mean(loglik)
    penalty = LAMBDA * np.sqrt(np.sum(w**2) + 1e-3)
    return loss + penalty


def logistic_regression_gradient(w, b):
    z = X @ w + b
    p = 1 / (1 + np.exp(-z))
    norm = np.sqrt(np.sum(w**2) + 1e-3)
    dloglik = -np.ones_like(p) / len(p)
    dp = dloglik * T / p
    dp += -dloglik * (1 - T) / (1 - p)
    dz = dp * p * (1 - p)
    dw = X.T @ dz
    db = dz.sum()
    dw += LAMBDA * w / norm
    return dw, db


def softmax_cross_entropy(W, b):
    scores = SQUARE @ W + b
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    e = np.exp(shifted)
    total = np.sum(e, axis=1, keepdims=True)
    logp = shifted - np.log(total)
    nll = -np.mean(logp[np.arange(len(LABELS)), LABELS])
    return nll + 0.5 * LAMBDA * np.sum(W**2)


def softmax_cross_entropy_gradient(W, b):
    scores = SQUARE @ W + b
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    e = np.exp(shifted)
    total = np.sum(e, axis=1, keepdims=True)
    dlogp = np.zeros_like(scores)
    dlogp[np.arange(len(LABELS)), LABELS] = -1 / len(LABELS)
    dshifted = dlogp.copy()
    dtotal = -np.sum(dlogp, axis=1, keepdims=True) / total
    de = np.broadcast_to(dtotal, e.shape)
    dshifted += de * e
    dscores = dshifted
    dW = SQUARE.T @ dscores
    db = np.sum(dscores, axis=0)
    dW += LAMBDA * W
    return dW, db


def smooth_hinge(w, b):
    score = X @ w + b
    margin = 1 - SIGN * score
    linear = margin - 0.5
    quadratic = 0.5 * margin**2
    loss = np.where(margin >= 1, linear, np.where(margin > 0, quadratic, 0.0))
    return np.sum(WEIGHTS * loss) / np.sum(WEIGHTS) + LAMBDA * np.dot(w, w)


def smooth_hinge_gradient(w, b):
    score = X @ w + b
    margin = 1 - SIGN * score
    dloss = WEIGHTS / np.sum(WEIGHTS)
    dlinear = np.where(margin >= 1, dloss, 0.0)
    dquadratic = np.where((margin > 0) & (margin < 1), dloss, 0.0)
    dmargin = dlinear.copy()
    dmargin += dquadratic * margin
    dscore = -SIGN * dmargin
    dw = dscore @ X
    db = np.sum(dscore)
    dw += 2 * LAMBDA * w
    return dw, db


def huber_regression(w, logscale):
    scale = np.exp(logscale)
    residual = (X @ w - Y) / scale
    size = np.abs(residual)
    inside = 0.5 * residual**2
    outside = DELTA * (size - 0.5 * DELTA)
    rho = np.where(size <= DELTA, inside, outside)
    return np.sum(rho) + len(Y) * logscale


def huber_regression_gradient(w, logscale):
    scale = np.exp(logscale)
    error = X @ w - Y
    residual = error / scale
    size = np.abs(residual)
    drho = np.ones_like(residual)
    dresidual = np.where(size <= DELTA, drho * residual, 0.0)
    dsize = np.where(size > DELTA, drho * DELTA, 0.0)
    dresidual += dsize * np.sign(residual)
    derror = dresidual / scale
    dscale = -np.sum(dresidual * error) / scale**2
    dw = X.T @ derror
    dlogscale = dscale * scale
    dlogscale += len(Y)
    return dw, dlogscale


def focal_loss(w, b):
    z = X @ w + b
    p = 1 / (1 + np.exp(-z))
    pt = np.where(T == 1, p, 1 - p)
    modulator = (1 - pt) ** GAMMA
    loss = -WEIGHTS * modulator * np.log(pt)
    return loss.mean()


def focal_loss_gradient(w, b):
    z = X @ w + b
    p = 1 / (1 + np.exp(-z))
    pt = np.where(T == 1, p, 1 - p)
    modulator = (1 - pt) ** GAMMA
    dloss = np.full(len(T), 1 / len(T))
    dmodulator = -dloss * WEIGHTS * np.log(pt)
    dpt = -dloss * WEIGHTS * modulator / pt
    dpt += -dmodulator * GAMMA * (1 - pt) ** (GAMMA - 1)
    dp = np.where(T == 1, dpt, -dpt)
    dz = dp * p * (1 - p)
    dw = X.T @ dz
    db = dz.sum()
    return dw, db


def log_cosh_regression(w, b):
    pred = np.tanh(X @ w) * b
    error = pred - Y
    cost = np.log(np.cosh(error))
    weighted = WEIGHTS * cost
    smoothness = np.sum((w[1:] - w[:-1]) ** 2)
    return np.sum(weighted) / len(Y) + LAMBDA * smoothness


def log_cosh_regression_gradient(w, b):
    a = X @ w
    h = np.tanh(a)
    error = h * b - Y
    dcost = WEIGHTS / len(Y)
    derror = dcost * np.tanh(error)
    dh = derror * b
    db = np.sum(derror * h)
    da = dh * (1 - h**2)
    dw = X.T @ da
    diff = w[1:] - w[:-1]
    ddiff = 2 * LAMBDA * diff
    dw[1:] += ddiff
    dw[:-1] -= ddiff
    return dw, db


W6 = rng.normal(size=6)
CASES = (
    Case("ridge regression", ridge_regression, ridge_regression_gradient, {"w": W6, "b": 0.4}, (
        Slip("term", "    dw += LAMBDA * w\n", ""),
        Slip("overwritten", "dw += LAMBDA", "dw = LAMBDA"),
        Slip("broadcast", "np.sum(dpred)", "np.mean(dpred)"),
        Slip("slip", "residual / len(Y)", "residual"),
        Slip("swapped", "pred - Y", "Y - pred"),
    )),
    Case("logistic regression", logistic_regression, logistic_regression_gradient, {"w": W6 / 2, "b": -0.2}, (
        Slip("slip", "dp * p * (1 - p)", "dp * p"),
        Slip("slip", "dp * p * (1 - p)", "dp * p * (1 + p)"),
        Slip("negated", "dp += -dloglik", "dp += dloglik"),
        Slip("overwritten", "dp += -dloglik", "dp = -dloglik"),
        Slip("slip", "LAMBDA * w / norm", "LAMBDA * w"),
        Slip("left-out", "    dp += -dloglik * (1 - T) / (1 - p)\n", ""),
    )),
    Case("softmax cross-entropy", softmax_cross_entropy, softmax_cross_entropy_gradient,
         {"W": rng.normal(size=(5, 5)), "b": rng.normal(size=5)}, (
        Slip("left-out", "-np.sum(dlogp, axis=1, keepdims=True) / total", "np.zeros_like(total)"),
        Slip("overwritten", "dshifted += de * e", "dshifted = de * e"),
        Slip("slip", "de * e", "de"),
        Slip("slip", "SQUARE.T @ dscores", "SQUARE @ dscores"),
        Slip("axis", "np.sum(dscores, axis=0)", "np.sum(dscores, axis=1)"),
        Slip("broadcast", "-np.sum(dlogp, axis=1", "-np.mean(dlogp, axis=1"),
        Slip("term", "    dW += LAMBDA * W\n", ""),
    )),
    Case("smooth hinge", smooth_hinge, smooth_hinge_gradient, {"w": W6 * 0.7, "b": 0.25}, (
        Slip("negated", "dscore = -SIGN", "dscore = SIGN"),
        Slip("slip", "dquadratic * margin", "dquadratic * margin * 0.5"),
        Slip("slip", "np.where((margin > 0) & (margin < 1), dloss, 0.0)", "dloss"),
        Slip("overwritten", "dmargin += dquadratic", "dmargin = dquadratic"),
        Slip("broadcast", "db = np.sum(dscore)", "db = dscore[0]"),
        Slip("term", "    dw += 2 * LAMBDA * w\n", ""),
    )),
    Case("huber with a scale", huber_regression, huber_regression_gradient, {"w": W6, "logscale": 0.35}, (
        Slip("slip", "/ scale**2", "/ scale"),
        Slip("negated", "dscale = -np.sum", "dscale = np.sum"),
        Slip("slip", "dscale * scale", "dscale"),
        Slip("term", "    dlogscale += len(Y)\n", ""),
        Slip("slip", "dsize * np.sign(residual)", "dsize"),
        Slip("broadcast", "-np.sum(dresidual * error)", "-np.mean(dresidual * error)"),
    )),
    Case("focal loss", focal_loss, focal_loss_gradient, {"w": W6 * 0.6, "b": 0.1}, (
        Slip("left-out", "    dpt += -dmodulator * GAMMA * (1 - pt) ** (GAMMA - 1)\n", ""),
        Slip("negated", "dpt += -dmodulator", "dpt += dmodulator"),
        Slip("slip", "-dmodulator * GAMMA *", "-dmodulator *"),
        Slip("overwritten", "dpt += -dmodulator", "dpt = -dmodulator"),
        Slip("negated", "np.where(T == 1, dpt, -dpt)", "np.where(T == 1, dpt, dpt)"),
        Slip("swapped", "np.where(T == 1, dpt, -dpt)", "np.where(T == 1, -dpt, dpt)"),
    )),
    Case("log-cosh with smoothness", log_cosh_regression, log_cosh_regression_gradient, {"w": W6, "b": 1.7}, (
        Slip("slip", "dh * (1 - h**2)", "dh * (1 - h)"),
        Slip("overwritten", "dw[1:] += ddiff", "dw[1:] = ddiff"),
        Slip("negated", "dw[:-1] -= ddiff", "dw[:-1] += ddiff"),
        Slip("left-out", "    dw[:-1] -= ddiff\n", ""),
        Slip("slip", "np.tanh(error)", "np.tanh(error) / np.cosh(error)"),
        Slip("slip", "dh = derror * b", "dh = derror"),
    )),
)  # fmt: skip
