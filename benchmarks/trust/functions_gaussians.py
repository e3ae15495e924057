"""Gaussian models: likelihoods by Cholesky, solve and slogdet, processes, divergences, mixtures."""

import numpy as np
from cases import Case, Slip
from scipy.special import logsumexp

rng = np.random.default_rng(14)
DATA = rng.normal(size=(9, 4)) + np.array([1.0, 0.0, -1.0, 0.5])
TIMES = np.sort(rng.uniform(0, 4, size=8))
SIGNAL = np.sin(TIMES) + 0.1 * rng.normal(size=8)
SAMPLES = np.concatenate([rng.normal(-2, 0.5, size=9), rng.normal(1, 0.8, size=11)])
SERIES = np.cumsum(rng.normal(size=12)) + 0.5 * rng.normal(size=12)
CLOUD = rng.normal(size=(7, 3))


def gaussian_loglik(mean, A):
    S = A @ A.T + 0.1 * np.eye(4)
    L = np.linalg.cholesky(S)
    d = (DATA - mean).T
    z = np.linalg.solve(L, d)
    quad = 0.5 * np.sum(z**2)
    halflogdet = np.sum(np.log(np.diag(L)))
    return quad + len(DATA) * halflogdet


def gaussian_loglik_gradient(mean, A):
    S = A @ A.T + 0.1 * np.eye(4)
    L = np.linalg.cholesky(S)
    d = (DATA - mean).T
    z = np.linalg.solve(L, d)
    dz = z
    dd = np.linalg.solve(L.T, dz)
    dL = -np.tril(dd @ z.T)
    dL += np.diag(len(DATA) / np.diag(L))
    P = np.tril(L.T @ dL)
    P[np.diag_indices(4)] *= 0.5
    inv = np.linalg.inv(L)
    dS = inv.T @ P @ inv
    dA = (dS + dS.T) @ A
    dmean = -np.sum(dd, axis=1)
    return dmean, dA


def gp_marginal(loglength, logamp, lognoise, y):
    length = np.exp(loglength)
    r = (TIMES[:, None] - TIMES[None, :]) / length
    E = np.exp(-0.5 * r**2)
    K = np.exp(2 * logamp) * E + np.exp(2 * lognoise) * np.eye(len(TIMES))
    alpha = np.linalg.solve(K, y)
    fit = 0.5 * np.dot(y, alpha)
    logdet = np.linalg.slogdet(K)[1]
    return fit + 0.5 * logdet


def gp_marginal_gradient(loglength, logamp, lognoise, y):
    length = np.exp(loglength)
    r = (TIMES[:, None] - TIMES[None, :]) / length
    E = np.exp(-0.5 * r**2)
    K = np.exp(2 * logamp) * E + np.exp(2 * lognoise) * np.eye(len(TIMES))
    alpha = np.linalg.solve(K, y)
    dy = alpha
    dK = -0.5 * np.outer(alpha, alpha)
    dK += 0.5 * np.linalg.inv(K)
    dE = dK * np.exp(2 * logamp)
    dlogamp = 2 * np.sum(dK * E) * np.exp(2 * logamp)
    dlognoise = 2 * np.trace(dK) * np.exp(2 * lognoise)
    dr = -dE * E * r
    dlength = -np.sum(dr * r) / length
    dloglength = dlength * length
    return dloglength, dlogamp, dlognoise, dy


def kl_gaussians(m0, A0, m1, A1):
    S0 = A0 @ A0.T + np.eye(3)
    S1 = A1 @ A1.T + np.eye(3)
    P1 = np.linalg.inv(S1)
    diff = m1 - m0
    trace = np.trace(P1 @ S0)
    quad = diff @ P1 @ diff
    logdets = np.linalg.slogdet(S1)[1] - np.linalg.slogdet(S0)[1]
    return 0.5 * (trace + quad + logdets - 3)


def kl_gaussians_gradient(m0, A0, m1, A1):
    S0 = A0 @ A0.T + np.eye(3)
    S1 = A1 @ A1.T + np.eye(3)
    P1 = np.linalg.inv(S1)
    diff = m1 - m0
    dP1 = 0.5 * S0
    dS0 = 0.5 * P1
    dP1 += 0.5 * np.outer(diff, diff)
    ddiff = P1 @ diff
    dS1 = 0.5 * np.linalg.inv(S1)
    dS0 -= 0.5 * np.linalg.inv(S0)
    dS1 -= P1 @ dP1 @ P1
    dm1 = ddiff
    dm0 = -ddiff
    dA0 = 2 * dS0 @ A0
    dA1 = 2 * dS1 @ A1
    return dm0, dA0, dm1, dA1


def mixture(logits, means, logstd):
    logweight = logits - logsumexp(logits)
    std = np.exp(logstd)
    u = (SAMPLES[:, None] - means) / std
    logpdf = -0.5 * u**2 - logstd - 0.5 * np.log(2 * np.pi)
    joint = logweight + logpdf
    loglik = logsumexp(joint, axis=1)
    return -np.mean(loglik)


def mixture_gradient(logits, means, logstd):
    logweight = logits - logsumexp(logits)
    std = np.exp(logstd)
    u = (SAMPLES[:, None] - means) / std
    logpdf = -0.5 * u**2 - logstd - 0.5 * np.log(2 * np.pi)
    joint = logweight + logpdf
    loglik = logsumexp(joint, axis=1)
    dloglik = -np.ones(len(SAMPLES)) / len(SAMPLES)
    djoint = dloglik[:, None] * np.exp(joint - loglik[:, None])
    dlogweight = np.sum(djoint, axis=0)
    du = -djoint * u
    dlogstd = -np.sum(djoint, axis=0)
    dmeans = -np.sum(du / std, axis=0)
    dstd = -np.sum(du * u, axis=0) / std
    dlogstd += dstd * std
    dlogits = dlogweight - np.sum(dlogweight) * np.exp(logweight)
    return dlogits, dmeans, dlogstd


def kalman_filter(x0, p0, q, r):
    x, p = x0, p0
    nll = 0.0
    for y in SERIES:
        p = p + q
        v = y - x
        s = p + r
        k = p / s
        x = x + k * v
        p = (1 - k) * p
        nll = nll + 0.5 * (np.log(s) + v**2 / s)
    return nll


def kalman_filter_gradient(x0, p0, q, r):
    x, p, tape = x0, p0, []
    for y in SERIES:
        ahead = p + q
        v = y - x
        s = ahead + r
        k = ahead / s
        tape.append((ahead, v, s, k))
        x = x + k * v
        p = (1 - k) * ahead
    dx = dp = dq = dr = 0.0
    for ahead, v, s, k in reversed(tape):
        ds = 0.5 / s - 0.5 * v**2 / s**2
        dv = v / s
        dk = -dp * ahead
        dahead = dp * (1 - k)
        dk += dx * v
        dv += dx * k
        dahead += dk / s
        ds -= dk * ahead / s**2
        dahead += ds
        dr += ds
        dx -= dv
        dp = dahead
        dq += dahead
    return dx, dp, dq, dr


def mahalanobis_scatter(centre, logs):
    scale = np.exp(logs)
    d = (CLOUD - centre) / scale
    C = d.T @ d / len(CLOUD) + 0.05 * np.eye(3)
    logdet = np.linalg.slogdet(C)[1]
    w = np.linalg.solve(C, d[0])
    dist = np.sqrt(d[0] @ w)
    return logdet + dist


def mahalanobis_scatter_gradient(centre, logs):
    scale = np.exp(logs)
    d = (CLOUD - centre) / scale
    C = d.T @ d / len(CLOUD) + 0.05 * np.eye(3)
    w = np.linalg.solve(C, d[0])
    dist = np.sqrt(d[0] @ w)
    dC = np.linalg.inv(C)
    dsq = 0.5 / dist
    dd = np.zeros_like(d)
    dd[0] += dsq * 2 * w
    dC -= dsq * np.outer(w, w)
    dd += d @ (dC + dC.T) / len(CLOUD)
    dcentre = -np.sum(dd, axis=0) / scale
    dscale = -np.sum(dd * d, axis=0) / scale
    dlogs = dscale * scale
    return dcentre, dlogs


def normal(*shape):
    return rng.normal(size=shape)


CASES = (
    Case("Gaussian likelihood by Cholesky", gaussian_loglik, gaussian_loglik_gradient,
         {"mean": normal(4), "A": normal(4, 4)}, (
        Slip("term", "    dL += np.diag(len(DATA) / np.diag(L))\n", ""),
        Slip("slip", "    P[np.diag_indices(4)] *= 0.5\n", ""),
        Slip("slip", "np.linalg.solve(L.T, dz)", "np.linalg.solve(L, dz)"),
        Slip("negated", "dL = -np.tril", "dL = np.tril"),
        Slip("slip", "dA = (dS + dS.T) @ A", "dA = dS @ A"),
        Slip("broadcast", "-np.sum(dd, axis=1)", "-np.mean(dd, axis=1)"),
        Slip("swapped", "inv.T @ P @ inv", "inv @ P @ inv.T"),
        Slip("overwritten", "dL += np.diag", "dL = np.diag"),
    )),
    Case("GP marginal likelihood", gp_marginal, gp_marginal_gradient,
         {"loglength": 0.1, "logamp": -0.2, "lognoise": -1.5, "y": SIGNAL}, (
        Slip("term", "    dK += 0.5 * np.linalg.inv(K)\n", ""),
        Slip("negated", "dK = -0.5 * np.outer", "dK = 0.5 * np.outer"),
        Slip("slip", "dlogamp = 2 * np.sum", "dlogamp = np.sum"),
        Slip("slip", "-dE * E * r", "-dE * E"),
        Slip("slip", "dlength * length", "dlength"),
        Slip("broadcast", "np.trace(dK)", "np.sum(dK)"),
        Slip("overwritten", "dK += 0.5", "dK = 0.5"),
        Slip("left-out", "-0.5 * np.outer(alpha, alpha)", "np.zeros_like(K)"),
    )),
    Case("KL of Gaussians", kl_gaussians, kl_gaussians_gradient,
         {"m0": normal(3), "A0": normal(3, 3), "m1": normal(3), "A1": normal(3, 3)}, (
        Slip("overwritten", "dP1 += 0.5", "dP1 = 0.5"),
        Slip("negated", "dS1 -= P1", "dS1 += P1"),
        Slip("swapped", "diff = m1 - m0", "diff = m0 - m1"),
        Slip("left-out", "    dS1 -= P1 @ dP1 @ P1\n", ""),
        Slip("term", "    dS0 -= 0.5 * np.linalg.inv(S0)\n", ""),
        Slip("slip", "P1 @ dP1 @ P1", "dP1 @ P1"),
        Slip("slip", "2 * dS0 @ A0", "dS0 @ A0"),
    )),
    Case("mixture of Gaussians", mixture, mixture_gradient,
         {"logits": np.array([0.2, -0.4, 0.5]), "means": np.array([-1.7, 0.3, 1.4]),
          "logstd": np.array([-0.5, 0.1, -0.2])}, (
        Slip("slip", "np.exp(joint - loglik[:, None])", "np.exp(logpdf - loglik[:, None])"),
        Slip("left-out", "dlogweight - np.sum(dlogweight) * np.exp(logweight)", "dlogweight"),
        Slip("overwritten", "dlogstd += dstd", "dlogstd = dstd"),
        Slip("term", "dlogstd = -np.sum(djoint, axis=0)", "dlogstd = np.zeros(3)"),
        Slip("negated", "dmeans = -np.sum", "dmeans = np.sum"),
        Slip("slip", "dstd * std", "dstd"),
        Slip("broadcast", "dstd = -np.sum(du * u, axis=0)", "dstd = -np.sum(du * u)"),
    )),
    Case("Kalman filter", kalman_filter, kalman_filter_gradient, {"x0": 0.3, "p0": 1.2, "q": 0.8, "r": 0.4}, (
        Slip("left-out", "        ds -= dk * ahead / s**2\n", ""),
        Slip("stale", "dk = -dp * ahead", "dk = -dp * p"),
        Slip("stale", "dk += dx * v", "dk += dx * (1 - k) * v"),
        Slip("overwritten", "dv += dx * k", "dv = dx * k"),
        Slip("overwritten", "dq += dahead", "dq = dahead"),
        Slip("slip", "0.5 * v**2 / s**2", "0.5 * v**2 / s"),
        Slip("negated", "ds -= dk", "ds += dk"),
        Slip("negated", "dx -= dv", "dx += dv"),
    )),
    Case("scatter and Mahalanobis distance", mahalanobis_scatter, mahalanobis_scatter_gradient,
         {"centre": normal(3) / 2, "logs": normal(3) / 3}, (
        Slip("slip", "0.5 / dist", "1 / dist"),
        Slip("left-out", "    dC -= dsq * np.outer(w, w)\n", ""),
        Slip("overwritten", "dd += d @", "dd = d @"),
        Slip("slip", "dscale * scale", "dscale"),
        Slip("broadcast", "-np.sum(dd * d, axis=0)", "-np.sum(dd * d)"),
        Slip("negated", "dC -= dsq", "dC += dsq"),
    )),
)  # fmt: skip
