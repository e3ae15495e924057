"""scipy.stats as people use it: by method and by name, frozen or not, with location and scale."""

import numpy as np
import scipy.stats as st
from scipy.stats import multivariate_normal as mvn
from scipy.stats import norm

DATA = np.array([0.3, 1.2, 2.2, 0.7])
SHARES = np.array([0.2, 0.7, 0.4])
COUNTS = np.array([0, 3, 1, 4])
COV = np.array([[2.0, 0.3], [0.3, 1.0]])
PRIOR = norm(0.5, 2.0)
FROZEN = mvn(np.zeros(2), COV)


def normal_by_name(mu, log_sigma):
    """Log-likelihood with keywords."""
    return np.sum(norm.logpdf(DATA, loc=mu, scale=np.exp(log_sigma)))


def normal_frozen_inside(mu, log_sigma):
    """A frozen distribution whose parameters are differentiated."""
    dist = norm(mu, np.exp(log_sigma))
    return dist.logpdf(DATA).sum() + dist.mean() + dist.std() + dist.entropy()


def normal_frozen_outside(x):
    """A frozen distribution of the module, at points that are differentiated."""
    return np.sum(PRIOR.logpdf(x) + PRIOR.cdf(x) + PRIOR.logsf(x) + PRIOR.ppf(PRIOR.cdf(x)))


def student(x, df):
    return np.sum(st.t.logpdf(x, df, loc=0.1, scale=2.0) * st.t.pdf(x, df)) + st.t.entropy(df) + st.t.var(df + 2)


def student_tails(x):
    return np.sum(st.t.cdf(x, 3.5) * st.t.sf(x, 2) + st.t.logcdf(x, 1.5))


def chi_squared(x, df):
    return np.sum(st.chi2.logpdf(x, df) + st.chi2.pdf(x, df) + st.chi2.cdf(x, 3) + st.chi2.logsf(x, 2))


def beta(x, a, b):
    return np.sum(st.beta.logpdf(x, a, b) + st.beta.pdf(x, a, b, scale=2)) + st.beta.entropy(a, b)


def beta_tails(x):
    return np.sum(st.beta.cdf(x, 2, 3.5) * st.beta.sf(x, 0.5, 1))


def gamma(x, a, scale):
    return np.sum(st.gamma.logpdf(x, a, scale=scale) + st.gamma.cdf(x, 2.5, scale=scale)) + st.gamma.entropy(a)


def tails_by_shape(x, a, b, df):
    """Distribution functions by their shape parameters."""
    return np.sum(st.gamma.cdf(x, a) * st.gamma.sf(x, b) + st.chi2.logsf(x, df))


def exponential(x, scale):
    tails = st.expon.cdf(x) + st.expon.logsf(x) + st.expon.logcdf(x)
    return np.sum(st.expon.logpdf(x, scale=scale) + tails) + st.expon.entropy(scale=scale)


def lognormal(x, s):
    return np.sum(st.lognorm.logpdf(x, s) + st.lognorm.cdf(x, s) + st.lognorm.logsf(x, s)) + st.lognorm.mean(s)


def uniform(x, width):
    return np.sum(st.uniform.logpdf(x, 0, width) + st.uniform.cdf(x, -1, width))


def laplace(x, scale):
    return np.sum(st.laplace.logpdf(x, 0, scale) + st.laplace.cdf(x, 0.5, scale) * st.laplace.sf(x))


def logistic(x, scale):
    return np.sum(st.logistic.logpdf(x, 0, scale) + st.logistic.cdf(x) * st.logistic.logsf(x))


def cauchy(x, scale):
    return np.sum(st.cauchy.logpdf(x, 0, scale) + st.cauchy.cdf(x) * st.cauchy.sf(x))


def poisson_regression(beta, X):
    """Counts whose rate is the exponential of a linear function."""
    return -st.poisson.logpmf(COUNTS, np.exp(X @ beta)).sum()


def counts(mu, p):
    """Poisson, binomial, Bernoulli and geometric, with their distribution functions."""
    total = st.poisson.pmf(COUNTS, mu) + st.poisson.cdf(COUNTS, mu) + st.binom.logpmf(COUNTS, 5, p)
    total = total + st.binom.cdf(COUNTS, 4, p) + st.geom.logpmf(COUNTS + 1, p) + st.geom.cdf(COUNTS, p)
    return total.sum() + st.bernoulli.logpmf([0, 1, 1], p).sum() + st.binom.entropy(5, p)


def negative_binomial(n, p):
    return np.sum(st.nbinom.logpmf(COUNTS, n, p) + st.nbinom.cdf(COUNTS, 3, p))


def multivariate_normal(x, mean):
    return FROZEN.logpdf(x) + mvn.logpdf(x, mean, COV) + mvn.pdf(x, mean, 2.0) + mvn(mean, COV).logpdf(x)


def multivariate_normal_by_factor(L):
    """The covariance is made of a factor; its lower triangle is what scipy reads."""
    cov = L @ L.T + np.eye(2)
    return (
        mvn.logpdf(np.ones((3, 2)), cov=cov).sum() + mvn.entropy(np.zeros(2), cov) + mvn.logpdf([0.3, 0.4], [0, 0], cov)
    )


def dirichlet(alpha):
    return st.dirichlet.logpdf(SHARES / SHARES.sum(), alpha) + st.dirichlet(alpha).entropy()


def lifetimes(x, c, scale):
    """Distributions without formulas of gradcli's own: scipy's lines are traced."""
    total = st.weibull_min.logpdf(x, c, scale=scale) + st.weibull_min.cdf(x, c) + st.gumbel_r.logpdf(x, scale=scale)
    return np.sum(total + st.pareto.logpdf(1 + x, c) + st.invgamma.logpdf(x, c) + st.rayleigh.logpdf(x, scale=scale))


def chosen_by_entry(x, a, b, c):
    """Distributions whose formulas depend on the entry: scipy fills a plain array with them."""
    total = (
        st.truncnorm.logpdf(x, a, b) + st.truncnorm.cdf(x, a, b) + st.genpareto.logpdf(x, c) + st.skewnorm.logpdf(x, c)
    )
    ends = st.truncnorm.logpdf(
        np.array([0.5, 2.5, -1.5]), np.array([-1.0, 2.0, -3.0]) + a, np.array([1.0, 4.0, -1.0]) + b
    )
    return np.sum(total + st.genextreme.cdf(x, c) + st.burr.logpdf(x, c, b) + st.fisk.logpdf(x, c)) + np.sum(ends)


def kernel_density(data, x, h):
    """Density estimates by the data, the places and the bandwidth."""
    total = np.sum(st.gaussian_kde(data).logpdf(x)) + st.gaussian_kde(DATA, bw_method=h)(x)[0]
    weighted = st.gaussian_kde(np.stack([data, data**2]), bw_method="silverman", weights=[1, 2, 3, 4])
    return total + np.sum(weighted.evaluate(np.stack([x, x])))


def outside_the_support(scale):
    """One point has density 0, whatever the scale."""
    return np.sum(st.gamma.pdf(np.array([-1.0, 0.5]), 2, scale=scale))


def descriptive(x):
    """Descriptive statistics."""
    total = np.sum(st.zscore(x) ** 3) + st.skew(x) + st.kurtosis(x) + st.gmean(x) + st.hmean(x)
    return total + st.entropy(x) + st.sem(x) + st.moment(x, 3)


class Mixture:
    """A model with distributions as attributes."""

    def __init__(self):
        self.parts = [norm(-1.0, 0.5), st.t(4.0, loc=1.0)]

    def loglik(self, weights, x):
        """Log-likelihood of a mixture of different families."""
        w = np.exp(weights) / np.exp(weights).sum()
        return np.log(sum(wk * part.pdf(x) for wk, part in zip(w, self.parts, strict=True))).sum()


mixture = Mixture()

X = DATA.copy()
POINTS = {
    normal_by_name: {"mu": 0.3, "log_sigma": 0.2},
    normal_frozen_inside: {"mu": 0.3, "log_sigma": 0.2},
    normal_frozen_outside: {"x": X},
    student: {"x": X, "df": 2.5},
    student_tails: {"x": X - 1},
    chi_squared: {"x": X, "df": 3.3},
    beta: {"x": SHARES, "a": 1.4, "b": 2.1},
    beta_tails: {"x": SHARES},
    gamma: {"x": X, "a": 1.4, "scale": 1.3},
    tails_by_shape: {"x": X, "a": 1.4, "b": 2.2, "df": 3.3},
    exponential: {"x": X, "scale": 1.3},
    lognormal: {"x": X, "s": 0.8},
    uniform: {"x": SHARES, "width": 1.5},
    laplace: {"x": X - 1, "scale": 0.7},
    logistic: {"x": X - 1, "scale": 0.7},
    cauchy: {"x": X - 1, "scale": 0.7},
    poisson_regression: {
        "beta": np.array([0.3, -0.2]),
        "X": np.array([[1.0, 0.2], [1.0, 1.3], [1.0, -0.4], [1.0, 0.8]]),
    },
    counts: {"mu": 2.3, "p": 0.4},
    negative_binomial: {"n": 2.5, "p": 0.4},
    multivariate_normal: {"x": np.array([0.3, 0.4]), "mean": np.array([0.1, -0.2])},
    multivariate_normal_by_factor: {"L": np.array([[1.0, 0.2], [0.3, 0.8]])},
    dirichlet: {"alpha": np.array([1.2, 0.8, 2.1])},
    lifetimes: {"x": X, "c": 1.4, "scale": 2.1},
    chosen_by_entry: {"x": X, "a": -0.4, "b": 2.5, "c": 0.3},
    kernel_density: {"data": X, "x": SHARES, "h": 0.5},
    outside_the_support: {"scale": 1.2},
    descriptive: {"x": X},
    mixture.loglik: {"weights": np.array([0.2, -0.3]), "x": X},
}
