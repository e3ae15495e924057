"""Log-likelihoods and other things that statisticians maximise."""

from math import lgamma, log, pi

import numpy as np
from scipy import special as sp
from scipy.special import betaln, gammaln, log_ndtr, logsumexp, ndtr

rng = np.random.default_rng(2)
LOG_2PI = np.log(2 * np.pi)


def normal_loglik(mu, sigma, data):
    """Log-likelihood of independent normals."""
    n = len(data)
    return -0.5 * n * log(2 * pi) - n * np.log(sigma) - ((data - mu) ** 2).sum() / (2 * sigma**2)


def gamma_loglik(shape, rate, data):
    """Gamma, with math.lgamma for the scalar."""
    return np.sum(shape * np.log(rate) - lgamma(shape) + (shape - 1) * np.log(data) - rate * data)


def beta_loglik(a, b, data):
    """Beta distribution."""
    return ((a - 1) * np.log(data) + (b - 1) * np.log1p(-data) - betaln(a, b)).sum()


def student_t_loglik(params, data):
    """Student t; the parameters are packed into one vector, scale and degrees of freedom in logs."""
    mu, scale, df = params[0], np.exp(params[1]), np.exp(params[2])
    z = (data - mu) / scale
    c = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(np.pi * df) - np.log(scale)
    return np.sum(c - (df + 1) / 2 * np.log1p(z**2 / df))


def negative_binomial_loglik(beta, log_r, X, counts):
    """Negative binomial regression."""
    mu = np.exp(X @ beta)
    r = np.exp(log_r)
    ll = sp.gammaln(counts + r) - sp.gammaln(r) - sp.gammaln(counts + 1)
    ll += r * np.log(r / (r + mu)) + counts * np.log(mu / (r + mu))
    return -ll.sum()


def gaussian_mixture(weights, means, log_sigmas, data):
    """Mixture of normals; weights are unnormalised logits."""
    log_w = weights - logsumexp(weights)
    z = (data[:, None] - means) / np.exp(log_sigmas)
    log_n = -0.5 * z**2 - log_sigmas - 0.5 * LOG_2PI
    return logsumexp(log_w + log_n, axis=1).sum()


def mvn_cholesky(mean, L_flat, data):
    """Multivariate normal by a Cholesky factor built from a flat vector."""
    d = len(mean)
    L = np.zeros((d, d))
    L[np.tril_indices(d)] = L_flat
    cov = L @ L.T + 1e-3 * np.eye(d)
    chol = np.linalg.cholesky(cov)
    z = np.linalg.solve(chol, (data - mean).T)
    return -0.5 * np.sum(z**2) - len(data) * (np.log(np.diag(chol)).sum() + 0.5 * d * LOG_2PI)


def mvn_slogdet(mean, cov, data):
    """The same by slogdet and solve."""
    sign, logdet = np.linalg.slogdet(cov)
    if sign <= 0:
        return -np.inf
    r = data - mean
    maha = np.einsum("ni,ni->", r, np.linalg.solve(cov, r.T).T)
    return -0.5 * (maha + len(data) * (logdet + len(mean) * LOG_2PI))


def gp_marginal_likelihood(theta, X, y):
    """Log marginal likelihood of a Gaussian process, as in Rasmussen and Williams, algorithm 2.1."""
    length, amplitude, noise = np.exp(theta)
    d2 = np.sum((X[:, None] - X[None, :]) ** 2, axis=-1)
    K = amplitude**2 * np.exp(-0.5 * d2 / length**2)
    K[np.diag_indices_from(K)] += noise**2
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return -0.5 * y.dot(alpha) - np.log(np.diagonal(L)).sum() - len(y) / 2 * LOG_2PI


def kalman_filter(q, r, observations):
    """Negative log-likelihood of a constant-velocity model."""
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = q * np.array([[0.25, 0.5], [0.5, 1.0]])
    R = np.array([[r]])
    x, P = np.zeros(2), np.eye(2) * 10
    nll = 0.0
    for z in observations:
        x = F @ x
        P = F @ P @ F.T + Q
        innovation = z - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ innovation
        P = (np.eye(2) - K @ H) @ P
        nll += 0.5 * (innovation @ np.linalg.solve(S, innovation) + np.log(np.linalg.det(S)) + np.log(2 * np.pi))
    return nll


def hmm_forward(log_pi, log_A, log_B, observed=(0, 1, 1, 2, 0)):
    """Forward algorithm in logs, with unnormalised parameters."""
    log_pi = log_pi - logsumexp(log_pi)
    log_A = log_A - logsumexp(log_A, axis=1, keepdims=True)
    log_B = log_B - logsumexp(log_B, axis=1, keepdims=True)
    alpha = log_pi + log_B[:, observed[0]]
    for o in observed[1:]:
        alpha = np.logaddexp.reduce(alpha[:, None] + log_A, axis=0) + log_B[:, o]
    return np.logaddexp.reduce(alpha)


def hmm_scaled(A, B, pi_, observed=(0, 1, 1, 2)):
    """Forward algorithm with scaling, normalised in place."""
    T = len(observed)
    alpha = np.zeros((T, len(pi_)))
    scale = np.zeros(T)
    alpha[0] = pi_ * B[:, observed[0]]
    scale[0] = alpha[0].sum()
    alpha[0] /= scale[0]
    for t in range(1, T):
        alpha[t] = (alpha[t - 1] @ A) * B[:, observed[t]]
        scale[t] = alpha[t].sum()
        alpha[t] /= scale[t]
    return np.log(scale).sum()


def logistic_regression(w, b, X, y, l2=0.1):
    """Penalised logistic regression, labels in {-1, 1}."""
    margins = y * (X.dot(w) + b)
    return np.logaddexp(0, -margins).mean() + 0.5 * l2 * (w**2).sum()


def cox_partial_likelihood(beta, X, times, events):
    """Breslow's partial likelihood of proportional hazards."""
    eta = X @ beta
    loglik = 0.0
    for i in np.flatnonzero(events):
        at_risk = times >= times[i]
        loglik += eta[i] - np.log(np.sum(np.exp(eta[at_risk])))
    return loglik


def kernel_density(x, samples, bandwidth):
    """Log of a Gaussian kernel density estimate."""
    u = (x - samples) / bandwidth
    return np.log(np.mean(np.exp(-0.5 * u * u)) / (bandwidth * np.sqrt(2 * np.pi)))


def leave_one_out_kde(samples, log_h):
    """Cross-validated likelihood of a bandwidth."""
    h = np.exp(log_h)
    total = 0
    for i, x in enumerate(samples):
        others = np.delete(samples, i)
        total += np.log(np.exp(-0.5 * ((x - others) / h) ** 2).sum() / (len(others) * h))
    return total


def poisson_glm(beta, X, y, exposure):
    """Poisson regression with an offset."""
    eta = X @ beta + np.log(exposure)
    return (y * eta - np.exp(eta) - gammaln(y + 1)).sum()


def zero_inflated_poisson(logit_p, log_rate, counts):
    """Zeros come from two sources; the two cases by masks."""
    p, rate = sp.expit(logit_p), np.exp(log_rate)
    out = np.empty(len(counts))
    zero = counts == 0
    out[zero] = np.log(p + (1 - p) * np.exp(-rate))
    out[~zero] = np.log1p(-p) + counts[~zero] * log_rate - rate - gammaln(counts[~zero] + 1)
    return out.sum()


def dirichlet_multinomial(alpha, counts):
    """Compound distribution of counts."""
    a0, n = np.sum(alpha), np.sum(counts)
    first = sp.gammaln(a0) + sp.gammaln(n + 1) - sp.gammaln(n + a0)
    return first + np.sum(sp.gammaln(counts + alpha) - sp.gammaln(alpha) - sp.gammaln(counts + 1))


def garch(params, returns):
    """GARCH(1, 1) with the variance in a preallocated array."""
    omega, alpha, beta = params
    sigma2 = np.empty(len(returns))
    sigma2[0] = np.var(returns)
    for t in range(1, len(returns)):
        sigma2[t] = omega + alpha * returns[t - 1] ** 2 + beta * sigma2[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi * sigma2) + returns**2 / sigma2)


def ordinal_probit(beta, cuts, x, y):
    """Ordered probit with cutpoints -inf, c1, ..., inf."""
    edges = np.concatenate(([-np.inf], np.sort(cuts), [np.inf]))
    upper, lower = edges[y + 1] - beta * x, edges[y] - beta * x
    return np.log(ndtr(upper) - ndtr(lower)).sum()


def skew_normal(loc, scale, shape, data):
    """Azzalini's skew normal."""
    z = (data - loc) / scale
    return np.sum(np.log(2.0) - np.log(scale) - 0.5 * z**2 - 0.5 * LOG_2PI + log_ndtr(shape * z))


def von_mises(mu, kappa, angles):
    """Normal distribution of angles."""
    return np.sum(kappa * (np.cos(angles - mu) - 1) - np.log(2 * np.pi * sp.i0e(kappa)))


def ar_likelihood(phi, log_sigma, series):
    """Conditional likelihood of an autoregression by slices."""
    p = len(phi)
    residuals = series[p:].copy()
    for k in range(p):
        residuals -= phi[k] * series[p - k - 1 : len(series) - k - 1]
    n = residuals.size
    return -n * log_sigma - 0.5 * np.exp(-2 * log_sigma) * np.sum(residuals**2)


def correlation(x, y):
    """Pearson's correlation and the partial sums everybody writes."""
    xm, ym = x - x.mean(), y - y.mean()
    return (xm * ym).sum() / np.sqrt((xm**2).sum() * (ym**2).sum())


def censored_exponential(rate, durations, observed):
    """Survival likelihood with censoring flags given as booleans."""
    return np.sum(np.log(rate[observed])) - np.dot(rate, durations)


X = rng.normal(size=(5, 2))
X.flags.writeable = False
POINTS = {
    normal_loglik: {"mu": 0.3, "sigma": 1.2, "data": rng.normal(size=6)},
    gamma_loglik: {"shape": 2.3, "rate": 0.8, "data": rng.gamma(2.0, size=5)},
    beta_loglik: {"a": 1.7, "b": 2.9, "data": rng.uniform(0.1, 0.9, size=5)},
    student_t_loglik: {"params": np.array([0.2, -0.3, 1.1]), "data": rng.normal(size=5)},
    negative_binomial_loglik: {
        "beta": np.array([0.3, -0.2]), "log_r": 0.4, "X": X, "counts": np.array([0, 3, 1, 2, 7])
    },
    gaussian_mixture: {
        "weights": np.array([0.1, -0.4]), "means": np.array([-1.0, 1.5]), "log_sigmas": np.array([-0.2, 0.3]),
        "data": rng.normal(size=5),
    },
    mvn_cholesky: {"mean": np.array([0.1, -0.2]), "L_flat": np.array([1.1, 0.3, 0.8]), "data": rng.normal(size=(4, 2))},
    mvn_slogdet: {
        "mean": np.array([0.1, -0.2]), "cov": np.array([[1.3, 0.4], [0.4, 0.9]]), "data": rng.normal(size=(4, 2))
    },
    gp_marginal_likelihood: {"theta": np.array([-0.2, 0.1, -1.0]), "X": X, "y": rng.normal(size=5)},
    kalman_filter: {"q": 0.3, "r": 0.8, "observations": np.array([0.1, 0.9, 2.3, 2.8])},
    hmm_forward: {
        "log_pi": rng.normal(size=2), "log_A": rng.normal(size=(2, 2)), "log_B": rng.normal(size=(2, 3))
    },
    hmm_scaled: {
        "A": np.array([[0.7, 0.3], [0.4, 0.6]]), "B": np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]),
        "pi_": np.array([0.6, 0.4]),
    },
    logistic_regression: {"w": np.array([0.5, -0.7]), "b": 0.2, "X": X, "y": np.array([1, -1, -1, 1, 1])},
    cox_partial_likelihood: {
        "beta": np.array([0.4, -0.6]), "X": X, "times": np.array([3, 1, 4, 2, 5]),
        "events": np.array([1, 1, 0, 1, 1]),
    },
    kernel_density: {"x": 0.4, "samples": rng.normal(size=5), "bandwidth": 0.6},
    leave_one_out_kde: {"samples": rng.normal(size=5), "log_h": -0.3},
    poisson_glm: {
        "beta": np.array([0.2, 0.5]), "X": X, "y": np.array([1, 0, 2, 4, 1]),
        "exposure": np.array([1.0, 2.0, 0.5, 1.5, 1.0]),
    },
    zero_inflated_poisson: {"logit_p": -0.4, "log_rate": 0.6, "counts": np.array([0, 2, 0, 1, 5])},
    dirichlet_multinomial: {"alpha": np.array([0.8, 1.4, 2.2]), "counts": np.array([3, 0, 5])},
    garch: {"params": np.array([0.1, 0.15, 0.7]), "returns": rng.normal(size=6)},
    ordinal_probit: {
        "beta": 0.6, "cuts": np.array([0.9, -0.5]), "x": rng.normal(size=4), "y": np.array([0, 2, 1, 1])
    },
    skew_normal: {"loc": 0.1, "scale": 1.1, "shape": 1.8, "data": rng.normal(size=5)},
    von_mises: {"mu": 0.4, "kappa": 2.1, "angles": rng.uniform(-2, 2, size=4)},
    ar_likelihood: {"phi": np.array([0.5, -0.2]), "log_sigma": 0.1, "series": rng.normal(size=7)},
    correlation: {"x": rng.normal(size=5), "y": rng.normal(size=5)},
    censored_exponential: {
        "rate": np.array([0.5, 1.2, 0.8]), "durations": np.array([1.0, 0.3, 2.0]),
        "observed": np.array([True, False, True]),
    },
}  # fmt: skip
