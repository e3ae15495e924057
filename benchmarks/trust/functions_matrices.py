"""Linear algebra: regularised inverses, quotients, factorisations, reconstructions, similarities."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(15)
TRAIN = rng.normal(size=(9, 4))
TRAIN_Y = TRAIN @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.4 * rng.normal(size=9)
VALID = rng.normal(size=(6, 4))
VALID_Y = VALID @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.4 * rng.normal(size=6)
COST = rng.normal(size=(5, 5))
MASS = np.diag([1.0, 2.0, 0.5, 1.5, 3.0])
RATINGS = rng.normal(size=(20, 18))
KNOWN = (rng.uniform(size=(20, 18)) < 0.6).astype(float)
CENTRED = rng.normal(size=(9, 5)) @ np.diag([3.0, 2.0, 1.0, 0.5, 0.3])
SCORES = rng.uniform(-1, 1, size=6)
LAMBDA = 0.1
TEMPERATURE = 0.5


def validation_loss(logpenalty, logweights):
    weights = np.exp(logweights)
    weighted = TRAIN * weights[:, None]
    A = TRAIN.T @ weighted + np.exp(logpenalty) * np.eye(4)
    inv = np.linalg.inv(A)
    rhs = weighted.T @ TRAIN_Y
    coef = inv @ rhs
    error = VALID @ coef - VALID_Y
    return np.mean(error**2)


def validation_loss_gradient(logpenalty, logweights):
    weights = np.exp(logweights)
    weighted = TRAIN * weights[:, None]
    A = TRAIN.T @ weighted + np.exp(logpenalty) * np.eye(4)
    inv = np.linalg.inv(A)
    rhs = weighted.T @ TRAIN_Y
    coef = inv @ rhs
    error = VALID @ coef - VALID_Y
    derror = 2 * error / len(error)
    dcoef = VALID.T @ derror
    dinv = np.outer(dcoef, rhs)
    drhs = inv.T @ dcoef
    dA = -inv.T @ dinv @ inv.T
    dweighted = TRAIN @ dA
    dweighted += np.outer(TRAIN_Y, drhs)
    dlogpenalty = np.trace(dA) * np.exp(logpenalty)
    dweights = np.sum(dweighted * TRAIN, axis=1)
    dlogweights = dweights * weights
    return dlogpenalty, dlogweights


def rayleigh(x, shift):
    Ax = COST @ x
    Bx = MASS @ x + shift * x
    top = x @ Ax
    bottom = x @ Bx
    quotient = top / bottom
    return quotient + 0.5 * (bottom - 1) ** 2


def rayleigh_gradient(x, shift):
    Ax = COST @ x
    Bx = MASS @ x + shift * x
    top = x @ Ax
    bottom = x @ Bx
    dtop = 1 / bottom
    dbottom = -top / bottom**2
    dbottom += bottom - 1
    dx = dtop * Ax
    dAx = dtop * x
    dx += dbottom * Bx
    dBx = dbottom * x
    dx += COST.T @ dAx
    dx += MASS.T @ dBx + shift * dBx
    dshift = dBx @ x
    return dx, dshift


def factorisation(U, V, mean):
    pred = mean + U @ V.T
    error = KNOWN * (pred - RATINGS)
    fit = 0.5 * np.sum(error**2)
    penalty = 0.5 * LAMBDA * (np.sum(U**2) + np.sum(V**2))
    return fit + penalty


def factorisation_gradient(U, V, mean):
    pred = mean + U @ V.T
    error = KNOWN * (pred - RATINGS)
    dpred = KNOWN * error
    dU = dpred @ V
    dV = dpred.T @ U
    dmean = np.sum(dpred)
    dU += LAMBDA * U
    dV += LAMBDA * V
    return dU, dV, dmean


def pca_reconstruction(W):
    codes = CENTRED @ W
    back = codes @ W.T
    error = CENTRED - back
    fit = np.sum(error**2) / len(CENTRED)
    gram = W.T @ W - np.eye(W.shape[1])
    return fit + LAMBDA * np.sum(gram**2)


def pca_reconstruction_gradient(W):
    codes = CENTRED @ W
    back = codes @ W.T
    error = CENTRED - back
    derror = 2 * error / len(CENTRED)
    dback = -derror
    dcodes = dback @ W
    dW = dback.T @ codes
    dW += CENTRED.T @ dcodes
    gram = W.T @ W - np.eye(W.shape[1])
    dgram = 2 * LAMBDA * gram
    dW += W @ (dgram + dgram.T)
    return dW


def cosine_regression(a, b):
    dots = np.sum(a * b, axis=1)
    na = np.sqrt(np.sum(a**2, axis=1))
    nb = np.sqrt(np.sum(b**2, axis=1))
    cosine = dots / (na * nb)
    error = cosine - SCORES
    return np.sum(error**2)


def cosine_regression_gradient(a, b):
    dots = np.sum(a * b, axis=1)
    na = np.sqrt(np.sum(a**2, axis=1))
    nb = np.sqrt(np.sum(b**2, axis=1))
    cosine = dots / (na * nb)
    dcosine = 2 * (cosine - SCORES)
    ddots = dcosine / (na * nb)
    dna = -dcosine * dots / (na**2 * nb)
    dnb = -dcosine * dots / (na * nb**2)
    da = ddots[:, None] * b
    db = ddots[:, None] * a
    da += (dna / na)[:, None] * a
    db += (dnb / nb)[:, None] * b
    return da, db


def info_nce(left, right):
    u = left / np.linalg.norm(left, axis=1, keepdims=True)
    v = right / np.linalg.norm(right, axis=1, keepdims=True)
    sim = u @ v.T / TEMPERATURE
    rows = np.log(np.sum(np.exp(sim), axis=1))
    cols = np.log(np.sum(np.exp(sim), axis=0))
    matched = np.diag(sim)
    return np.mean(0.5 * (rows + cols) - matched)


def info_nce_gradient(left, right):
    nu = np.linalg.norm(left, axis=1, keepdims=True)
    nv = np.linalg.norm(right, axis=1, keepdims=True)
    u = left / nu
    v = right / nv
    sim = u @ v.T / TEMPERATURE
    e = np.exp(sim)
    n = len(left)
    drows = 0.5 / n * np.ones(n)
    dcols = 0.5 / n * np.ones(n)
    dsim = drows[:, None] * e / np.sum(e, axis=1, keepdims=True)
    dsim += dcols * e / np.sum(e, axis=0)
    dsim -= np.eye(n) / n
    draw = dsim / TEMPERATURE
    du = draw @ v
    dv = draw.T @ u
    dleft = (du - u * np.sum(du * u, axis=1, keepdims=True)) / nu
    dright = (dv - v * np.sum(dv * v, axis=1, keepdims=True)) / nv
    return dleft, dright


def triplet(anchor, positive, negative):
    near = np.sqrt(np.sum((anchor - positive) ** 2, axis=1))
    far = np.sqrt(np.sum((anchor - negative) ** 2, axis=1))
    gap = near - far + 0.5
    loss = np.log1p(np.exp(gap))
    return np.mean(loss)


def triplet_gradient(anchor, positive, negative):
    toward = anchor - positive
    away = anchor - negative
    near = np.sqrt(np.sum(toward**2, axis=1))
    far = np.sqrt(np.sum(away**2, axis=1))
    gap = near - far + 0.5
    dgap = 1 / (1 + np.exp(-gap)) / len(gap)
    dnear = dgap
    dfar = -dgap
    dtoward = (dnear / near)[:, None] * toward
    daway = (dfar / far)[:, None] * away
    danchor = dtoward.copy()
    danchor += daway
    dpositive = -dtoward
    dnegative = -daway
    return danchor, dpositive, dnegative


def normal(*shape):
    return rng.normal(size=shape)


CASES = (
    Case("ridge by inverse, validated", validation_loss, validation_loss_gradient,
         {"logpenalty": -0.3, "logweights": normal(9) / 2}, (
        Slip("negated", "dA = -inv.T", "dA = inv.T"),
        Slip("left-out", "    dweighted += np.outer(TRAIN_Y, drhs)\n", ""),
        Slip("overwritten", "dweighted += np", "dweighted = np"),
        Slip("slip", "dinv @ inv.T", "dinv"),
        Slip("swapped", "VALID @ coef - VALID_Y", "VALID_Y - VALID @ coef"),
        Slip("slip", "dweights * weights", "dweights"),
        Slip("broadcast", "np.trace(dA)", "np.sum(dA)"),
    )),
    Case("Rayleigh quotient", rayleigh, rayleigh_gradient, {"x": normal(5), "shift": 0.3}, (
        Slip("negated", "dbottom = -top", "dbottom = top"),
        Slip("slip", "top / bottom**2", "top / bottom"),
        Slip("slip", "COST.T @ dAx", "COST @ dAx"),
        Slip("overwritten", "dx += dbottom * Bx", "dx = dbottom * Bx"),
        Slip("term", "    dbottom += bottom - 1\n", ""),
        Slip("left-out", "    dx += MASS.T @ dBx + shift * dBx\n", ""),
        Slip("left-out", "MASS.T @ dBx + shift * dBx", "MASS.T @ dBx"),
    )),
    Case("matrix factorisation of 305 entries", factorisation, factorisation_gradient,
         {"U": normal(20, 8), "V": normal(18, 8), "mean": 0.2}, (
        Slip("term", "    dV += LAMBDA * V\n", ""),
        Slip("overwritten", "dU += LAMBDA", "dU = LAMBDA"),
        Slip("broadcast", "np.sum(dpred)", "np.mean(dpred)"),
        Slip("swapped", "pred - RATINGS", "RATINGS - pred"),
        Slip("slip", "dV += LAMBDA * V", "dV += 2 * LAMBDA * V"),
    )),
    Case("PCA reconstruction", pca_reconstruction, pca_reconstruction_gradient, {"W": normal(5, 3) / 2}, (
        Slip("left-out", "    dW += CENTRED.T @ dcodes\n", ""),
        Slip("overwritten", "dW += CENTRED.T", "dW = CENTRED.T"),
        Slip("negated", "dback = -derror", "dback = derror"),
        Slip("term", "    dW += W @ (dgram + dgram.T)\n", ""),
        Slip("slip", "W @ (dgram + dgram.T)", "W @ dgram"),
        Slip("swapped", "CENTRED - back", "back - CENTRED"),
    )),
    Case("cosine similarity", cosine_regression, cosine_regression_gradient,
         {"a": normal(6, 4), "b": normal(6, 4)}, (
        Slip("negated", "dna = -dcosine", "dna = dcosine"),
        Slip("slip", "(na * nb**2)", "(na * nb)"),
        Slip("slip", "(dna / na)", "dna"),
        Slip("left-out", "    db += (dnb / nb)[:, None] * b\n", ""),
        Slip("swapped", "da = ddots[:, None] * b", "da = ddots[:, None] * a"),
        Slip("overwritten", "da += (dna", "da = (dna"),
        Slip("slip", "dcosine / (na * nb)", "dcosine"),
    )),
    Case("contrastive loss", info_nce, info_nce_gradient, {"left": normal(4, 4), "right": normal(4, 4)}, (
        Slip("left-out", "    dsim += dcols * e / np.sum(e, axis=0)\n", ""),
        Slip("axis", "np.sum(e, axis=1, keepdims=True)", "np.sum(e, axis=0)"),
        Slip("axis", "np.sum(du * u, axis=1, keepdims=True)", "np.sum(du * u, axis=0, keepdims=True)"),
        Slip("slip", "draw.T @ u", "draw @ u"),
        Slip("left-out", "(du - u * np.sum(du * u, axis=1, keepdims=True)) / nu", "du / nu"),
        Slip("slip", "keepdims=True)) / nv", "keepdims=True))"),
        Slip("overwritten", "dsim += dcols", "dsim = dcols"),
        Slip("negated", "(dv - v", "(dv + v"),
        Slip("broadcast", "np.eye(n) / n", "np.ones((n, n)) / n"),
    )),
    Case("triplet loss", triplet, triplet_gradient,
         {"anchor": normal(5, 3), "positive": normal(5, 3), "negative": normal(5, 3)}, (
        Slip("slip", "(dnear / near)", "dnear"),
        Slip("negated", "dfar = -dgap", "dfar = dgap"),
        Slip("overwritten", "danchor += daway", "danchor = daway"),
        Slip("swapped", "dnegative = -daway", "dnegative = -dtoward"),
        Slip("slip", "1 / (1 + np.exp(-gap))", "1 / (1 + np.exp(gap))"),
    )),
)  # fmt: skip
