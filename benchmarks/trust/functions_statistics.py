"""Likelihoods and test statistics: counts, proportions, waiting times, survival, moments."""

import numpy as np
from cases import Case, Slip
from scipy.special import digamma, gammaln, ndtr

rng = np.random.default_rng(19)
X = rng.normal(size=(14, 4))
COUNTS = rng.poisson(3.0, size=14).astype(float)
EXPOSURE = rng.uniform(0.5, 2.0, size=14)
SHARES = rng.beta(2.0, 3.0, size=14)
WAITS = rng.gamma(2.0, 1.5, size=14)
OBSERVED = (rng.uniform(size=14) < 0.7).astype(float)
DEAD = np.array([3.0, 1.0, 2.0, 0.0, 1.0, 2.0])
AT_RISK = np.array([20.0, 16.0, 14.0, 11.0, 9.0, 6.0])
BINARY = (rng.uniform(size=14) < 0.5).astype(float)
CHOICES = np.array([0, 2, 1, 1, 2, 0, 1, 2, 2, 1, 0, 1, 2, 1])


def poisson_regression(beta, intercept):
    eta = X @ beta + intercept
    rate = EXPOSURE * np.exp(eta)
    loglik = COUNTS * np.log(rate) - rate - gammaln(COUNTS + 1)
    prior = 0.5 * np.sum(beta**2) / 4
    return -np.sum(loglik) + prior


def poisson_regression_gradient(beta, intercept):
    eta = X @ beta + intercept
    rate = EXPOSURE * np.exp(eta)
    drate = -COUNTS / rate
    drate += 1
    deta = drate * rate
    dbeta = X.T @ deta
    dintercept = np.sum(deta)
    dbeta += beta / 4
    return dbeta, dintercept


def negative_binomial(beta, logsize):
    size = np.exp(logsize)
    mu = np.exp(X @ beta + 1)
    norm = gammaln(COUNTS + size) - gammaln(size) - gammaln(COUNTS + 1)
    total = size + mu
    loglik = norm + size * np.log(size / total) + COUNTS * np.log(mu / total)
    return -np.mean(loglik)


def negative_binomial_gradient(beta, logsize):
    size = np.exp(logsize)
    mu = np.exp(X @ beta + 1)
    total = size + mu
    dloglik = -1 / len(COUNTS)
    dsize = dloglik * np.sum(digamma(COUNTS + size) - digamma(size))
    dsize += dloglik * np.sum(np.log(size / total) + 1)
    dtotal = -dloglik * (size + COUNTS) / total
    dmu = dloglik * COUNTS / mu
    dmu += dtotal
    dsize += np.sum(dtotal)
    dlogsize = dsize * size
    dbeta = X.T @ (dmu * mu)
    return dbeta, dlogsize


def beta_regression(beta, logphi):
    mean = 1 / (1 + np.exp(-X @ beta))
    phi = np.exp(logphi)
    a = mean * phi
    b = (1 - mean) * phi
    lognorm = gammaln(a) + gammaln(b) - gammaln(phi)
    logpdf = (a - 1) * np.log(SHARES) + (b - 1) * np.log1p(-SHARES) - lognorm
    return -np.sum(logpdf)


def beta_regression_gradient(beta, logphi):
    mean = 1 / (1 + np.exp(-X @ beta))
    phi = np.exp(logphi)
    a = mean * phi
    b = (1 - mean) * phi
    da = -np.log(SHARES)
    db = -np.log1p(-SHARES)
    da += digamma(a)
    db += digamma(b)
    dphi = -len(SHARES) * digamma(phi)
    dphi += np.sum(da * mean)
    dphi += np.sum(db * (1 - mean))
    dmean = (da - db) * phi
    dlogit = dmean * mean * (1 - mean)
    dbeta = X.T @ dlogit
    return dbeta, dphi * phi


def gamma_likelihood(logshape, logscale):
    shape = np.exp(logshape)
    scale = np.exp(logscale)
    ratio = WAITS / scale
    logpdf = (shape - 1) * np.log(WAITS) - ratio - gammaln(shape) - shape * np.log(scale)
    moments = (shape * scale - np.mean(WAITS)) ** 2
    return -np.sum(logpdf) + 0.5 * moments


def gamma_likelihood_gradient(logshape, logscale):
    shape = np.exp(logshape)
    scale = np.exp(logscale)
    n = len(WAITS)
    dshape = -np.sum(np.log(WAITS))
    dshape += n * digamma(shape)
    dshape += n * np.log(scale)
    dscale = n * shape / scale
    dscale -= np.sum(WAITS) / scale**2
    dproduct = shape * scale - np.mean(WAITS)
    dshape += dproduct * scale
    dscale += dproduct * shape
    return dshape * shape, dscale * scale


def weibull_survival(beta, logshape):
    k = np.exp(logshape)
    scale = np.exp(X @ beta + 1)
    z = WAITS / scale
    hazard = np.log(k / scale) + (k - 1) * np.log(z)
    cumulative = z**k
    loglik = OBSERVED * hazard - cumulative
    return -np.mean(loglik)


def weibull_survival_gradient(beta, logshape):
    k = np.exp(logshape)
    scale = np.exp(X @ beta + 1)
    z = WAITS / scale
    dloglik = -1 / len(WAITS)
    dhazard = dloglik * OBSERVED
    dcumulative = -dloglik
    dz = dcumulative * k * z ** (k - 1)
    dk = np.sum(dcumulative * z**k * np.log(z))
    dk += np.sum(dhazard) / k
    dk += np.sum(dhazard * np.log(z))
    dz += dhazard * (k - 1) / z
    dscale = -dhazard / scale
    dscale -= dz * WAITS / scale**2
    dbeta = X.T @ (dscale * scale)
    return dbeta, dk * k


def welch_statistic(a, b):
    gap = np.mean(a) - np.mean(b)
    va = np.var(a, ddof=1) / len(a)
    vb = np.var(b, ddof=1) / len(b)
    spread = np.sqrt(va + vb)
    t = gap / spread
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return t + 0.1 * np.log(freedom)


def welch_statistic_gradient(a, b):
    gap = np.mean(a) - np.mean(b)
    va = np.var(a, ddof=1) / len(a)
    vb = np.var(b, ddof=1) / len(b)
    spread = np.sqrt(va + vb)
    bottom = va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)
    dgap = 1 / spread
    dspread = -gap / spread**2
    dpooled = dspread / (2 * spread)
    dpooled += 0.2 / (va + vb)
    dbottom = -0.1 / bottom
    dva = dpooled + dbottom * 2 * va / (len(a) - 1)
    dvb = dpooled + dbottom * 2 * vb / (len(b) - 1)
    da = np.full(len(a), dgap / len(a))
    db = np.full(len(b), -dgap / len(b))
    da += dva / len(a) * 2 * (a - np.mean(a)) / (len(a) - 1)
    db += dvb / len(b) * 2 * (b - np.mean(b)) / (len(b) - 1)
    return da, db


def discrete_survival(logits):
    hazard = 1 / (1 + np.exp(-logits))
    survival = np.cumprod(1 - hazard)
    died = DEAD * np.log(hazard)
    lived = (AT_RISK - DEAD) * np.log(1 - hazard)
    expectancy = 1 + np.sum(survival)
    return -np.sum(died + lived) + 0.5 * (expectancy - 4) ** 2


def discrete_survival_gradient(logits):
    hazard = 1 / (1 + np.exp(-logits))
    survival = np.cumprod(1 - hazard)
    expectancy = 1 + np.sum(survival)
    dhazard = -DEAD / hazard
    dhazard += (AT_RISK - DEAD) / (1 - hazard)
    dexpectancy = expectancy - 4
    dsurvival = dexpectancy * np.ones_like(survival)
    tail = np.cumsum((dsurvival * survival)[::-1])[::-1]
    dhazard -= tail / (1 - hazard)
    return dhazard * hazard * (1 - hazard)


def probit(beta, cut):
    z = X @ beta - cut
    p = ndtr(z)
    clipped = 0.01 + 0.98 * p
    loglik = BINARY * np.log(clipped) + (1 - BINARY) * np.log(1 - clipped)
    return -np.mean(loglik) + 0.05 * np.sqrt(np.sum(beta**2))


def probit_gradient(beta, cut):
    z = X @ beta - cut
    p = ndtr(z)
    clipped = 0.01 + 0.98 * p
    dclipped = -BINARY / clipped / len(z)
    dclipped += (1 - BINARY) / (1 - clipped) / len(z)
    dp = 0.98 * dclipped
    dz = dp * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    dbeta = X.T @ dz
    dcut = -np.sum(dz)
    dbeta += 0.05 * beta / np.sqrt(np.sum(beta**2))
    return dbeta, dcut


def correlation(x, y):
    xc = x - np.mean(x)
    yc = y - np.mean(y)
    sx = np.std(x, ddof=1)
    sy = np.std(y, ddof=1)
    cov = np.sum(xc * yc) / (len(x) - 1)
    r = cov / (sx * sy)
    return np.arctanh(r)


def correlation_gradient(x, y):
    n = len(x)
    xc = x - np.mean(x)
    yc = y - np.mean(y)
    sx = np.std(x, ddof=1)
    sy = np.std(y, ddof=1)
    cov = np.sum(xc * yc) / (n - 1)
    r = cov / (sx * sy)
    dr = 1 / (1 - r**2)
    dcov = dr / (sx * sy)
    dsx = -dr * cov / (sx**2 * sy)
    dsy = -dr * cov / (sx * sy**2)
    dxc = dcov * yc / (n - 1)
    dyc = dcov * xc / (n - 1)
    dxc += dsx * xc / (sx * (n - 1))
    dyc += dsy * yc / (sy * (n - 1))
    dx = dxc - np.mean(dxc)
    dy = dyc - np.mean(dyc)
    return dx, dy


def normal(*shape):
    return rng.normal(size=shape)


CASES = (
    Case("Poisson regression", poisson_regression, poisson_regression_gradient,
         {"beta": normal(4) / 3, "intercept": 0.7}, (
        Slip("term", "    drate += 1\n", ""),
        Slip("overwritten", "dbeta += beta", "dbeta = beta"),
        Slip("slip", "drate * rate", "drate"),
        Slip("negated", "drate = -COUNTS", "drate = COUNTS"),
        Slip("broadcast", "np.sum(deta)", "np.mean(deta)"),
        Slip("slip", "deta = drate * rate", "deta = drate * EXPOSURE"),
    )),
    Case("negative binomial regression", negative_binomial, negative_binomial_gradient,
         {"beta": normal(4) / 3, "logsize": 0.8}, (
        Slip("left-out", "    dsize += np.sum(dtotal)\n", ""),
        Slip("left-out", "    dmu += dtotal\n", ""),
        Slip("slip", "np.log(size / total) + 1", "np.log(size / total)"),
        Slip("negated", "digamma(COUNTS + size) - digamma(size)", "digamma(COUNTS + size) + digamma(size)"),
        Slip("overwritten", "dsize += dloglik", "dsize = dloglik"),
        Slip("slip", "digamma(COUNTS + size)", "np.log(COUNTS + size)"),
    )),
    Case("beta regression", beta_regression, beta_regression_gradient, {"beta": normal(4) / 2, "logphi": 1.3}, (
        Slip("swapped", "(da - db) * phi", "(db - da) * phi"),
        Slip("term", "dphi = -len(SHARES) * digamma(phi)", "dphi = 0.0"),
        Slip("overwritten", "dphi += np.sum(db", "dphi = np.sum(db"),
        Slip("slip", "dmean * mean * (1 - mean)", "dmean * mean"),
        Slip("slip", "digamma(phi)", "np.log(phi)"),
        Slip("left-out", "    dphi += np.sum(da * mean)\n", ""),
        Slip("slip", "dphi * phi", "dphi"),
    )),
    Case("gamma likelihood", gamma_likelihood, gamma_likelihood_gradient, {"logshape": 0.5, "logscale": 0.6}, (
        Slip("term", "    dshape += n * np.log(scale)\n", ""),
        Slip("overwritten", "dscale += dproduct", "dscale = dproduct"),
        Slip("slip", "/ scale**2", "/ scale"),
        Slip("negated", "dscale -= np.sum", "dscale += np.sum"),
        Slip("swapped", "dshape += dproduct * scale", "dshape += dproduct * shape"),
        Slip("broadcast", "n * digamma(shape)", "digamma(shape)"),
    )),
    Case("censored Weibull regression", weibull_survival, weibull_survival_gradient,
         {"beta": normal(4) / 4, "logshape": 0.3}, (
        Slip("slip", "z**k * np.log(z)", "z**k"),
        Slip("slip", "k * z ** (k - 1)", "z ** (k - 1)"),
        Slip("left-out", "    dz += dhazard * (k - 1) / z\n", ""),
        Slip("overwritten", "dk += np.sum(dhazard * np.log(z))", "dk = np.sum(dhazard * np.log(z))"),
        Slip("negated", "dscale -= dz", "dscale += dz"),
        Slip("swapped", "dz * WAITS / scale**2", "dz * scale / WAITS**2"),
    )),
    Case("Welch's statistic", welch_statistic, welch_statistic_gradient,
         {"a": normal(7) + 0.8, "b": 2 * normal(5)}, (
        Slip("left-out", "    da += dva / len(a) * 2 * (a - np.mean(a)) / (len(a) - 1)\n", ""),
        Slip("slip", "(b - np.mean(b)) / (len(b) - 1)", "(b - np.mean(b)) / len(b)"),
        Slip("slip", "dspread / (2 * spread)", "dspread / spread"),
        Slip("negated", "dspread = -gap", "dspread = gap"),
        Slip("left-out", "    dpooled += 0.2 / (va + vb)\n", ""),
        Slip("slip", "dbottom * 2 * va", "dbottom * va"),
        Slip("swapped", "np.mean(a) - np.mean(b)", "np.mean(b) - np.mean(a)"),
    )),
    Case("survival in discrete time", discrete_survival, discrete_survival_gradient,
         {"logits": np.array([-1.5, -2.2, -1.0, -0.6, -1.8, -0.3])}, (
        Slip("slip", "np.cumsum((dsurvival * survival)[::-1])[::-1]", "np.cumsum(dsurvival * survival)"),
        Slip("left-out", "    dhazard -= tail / (1 - hazard)\n", ""),
        Slip("negated", "dhazard -= tail", "dhazard += tail"),
        Slip("slip", "dhazard * hazard * (1 - hazard)", "dhazard * (1 - hazard)"),
        Slip("overwritten", "dhazard += (AT_RISK", "dhazard = (AT_RISK"),
        Slip("broadcast", "dexpectancy * np.ones_like(survival)", "dexpectancy * np.ones_like(survival) / len(logits)"),
    )),
    Case("probit", probit, probit_gradient, {"beta": normal(4) / 2, "cut": 0.2}, (
        Slip("slip", " / np.sqrt(2 * np.pi)", ""),
        Slip("term", "    dbeta += 0.05 * beta / np.sqrt(np.sum(beta**2))\n", ""),
        Slip("negated", "dcut = -np", "dcut = np"),
        Slip("slip", "dp * np.exp(-0.5 * z**2)", "dp * p * (1 - p)"),
        Slip("left-out", "dp = 0.98 * dclipped", "dp = dclipped"),
        Slip("overwritten", "dclipped += (1", "dclipped = (1"),
    )),
    Case("Fisher's z of a correlation", correlation, correlation_gradient, {"x": normal(8), "y": normal(8)}, (
        Slip("left-out", "    dxc += dsx * xc / (sx * (n - 1))\n", ""),
        Slip("slip", "1 / (1 - r**2)", "1 / (1 - r)"),
        Slip("negated", "dsy = -dr", "dsy = dr"),
        Slip("slip", "(sy * (n - 1))", "(sy * n)"),
        Slip("swapped", "dxc = dcov * yc", "dxc = dcov * xc"),
        Slip("overwritten", "dyc += dsy", "dyc = dsy"),
    )),
)  # fmt: skip
