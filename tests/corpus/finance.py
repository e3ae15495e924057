"""Finance: options, bonds and portfolios."""

import math

import numpy as np
from scipy.special import ndtr

rng = np.random.default_rng(8)
PATHS = rng.standard_normal((6, 4))


def norm_cdf(x):
    """Normal distribution by math.erf."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def black_scholes_call(spot, strike, rate, sigma, maturity):
    """Price of a European call."""
    d1 = (math.log(spot / strike) + (rate + 0.5 * sigma**2) * maturity) / (sigma * math.sqrt(maturity))
    d2 = d1 - sigma * math.sqrt(maturity)
    return spot * norm_cdf(d1) - strike * math.exp(-rate * maturity) * norm_cdf(d2)


def black_scholes_book(spots, strikes, sigma):
    """A book of calls and puts, vectorised."""
    d1 = np.log(spots / strikes) / sigma + 0.5 * sigma
    calls = spots * ndtr(d1) - strikes * ndtr(d1 - sigma)
    puts = calls - spots + strikes
    return np.where(strikes > spots, calls, puts).sum()


def binomial_american_put(spot, sigma, strike=1.1, rate=0.04, maturity=1.0, steps=5):
    """Cox-Ross-Rubinstein, backward through one array."""
    dt = maturity / steps
    u = math.exp(sigma * math.sqrt(dt))
    d = 1 / u
    p = (math.exp(rate * dt) - d) / (u - d)
    prices = spot * d ** np.arange(steps, -1, -1) * u ** np.arange(0, steps + 1)
    values = np.maximum(strike - prices, 0)
    for _ in range(steps):
        prices = prices[1:] * d
        continuation = math.exp(-rate * dt) * (p * values[1:] + (1 - p) * values[:-1])
        values = np.maximum(continuation, strike - prices)
    return values[0]


def yield_to_maturity(price, coupon=0.05, years=6):
    """Newton on the price of a bond, with its derivative by hand."""
    y = coupon
    for _ in range(100):
        f = sum(coupon / (1 + y) ** t for t in range(1, years + 1)) + 1 / (1 + y) ** years - price
        df = -sum(t * coupon / (1 + y) ** (t + 1) for t in range(1, years + 1)) - years / (1 + y) ** (years + 1)
        step = f / df
        y -= step
        if abs(step) < 1e-14:
            return y
    raise ArithmeticError("no convergence")


def implied_volatility(price, spot=1.0, strike=1.1, maturity=0.5):
    """Newton with vega, until convergence."""
    sigma = 0.4
    converged, iterations = False, 0
    while not converged:
        d1 = np.log(spot / strike) / (sigma * np.sqrt(maturity)) + 0.5 * sigma * np.sqrt(maturity)
        value = spot * ndtr(d1) - strike * ndtr(d1 - sigma * np.sqrt(maturity))
        vega = spot * np.sqrt(maturity) * np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)
        change = (value - price) / vega
        sigma = sigma - change
        converged = abs(change) < 1e-13
        iterations += 1
        if iterations > 200:
            raise RuntimeError(f"no volatility gives the price {price:.4f}")
    return sigma


def sharpe_ratio(weights, returns, cov):
    """Risk-adjusted return of softmaxed weights."""
    w = np.exp(weights) / np.exp(weights).sum()
    return (w @ returns) / np.sqrt(w @ cov @ w)


def asian_option(spot, sigma, strike=1.0, rate=0.02):
    """Monte Carlo with frozen numbers: cumulated log returns, smooth payoff."""
    dt = 1 / PATHS.shape[1]
    steps = (rate - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * PATHS
    paths = spot * np.exp(np.cumsum(steps, axis=1))
    payoff = np.maximum(paths.mean(axis=1) - strike, 0.0)
    return np.exp(-rate) * payoff.mean()


def vasicek_path(r0, speed, level, sigma):
    """A short rate path in a preallocated array, and a discount factor."""
    r = np.zeros(PATHS.shape[1] + 1)
    r[0] = r0
    for t, z in enumerate(PATHS[0]):
        r[t + 1] = r[t] + speed * (level - r[t]) * 0.25 + sigma * 0.5 * z
    return np.exp(-np.trapezoid(r, dx=0.25))


def nelson_siegel(beta, tau, maturities, yields):
    """Error of a fitted curve."""
    x = maturities / tau
    slope = -np.expm1(-x) / x
    curve = beta[0] + beta[1] * slope + beta[2] * (slope - np.exp(-x))
    return np.square(curve - yields).sum()


def max_drawdown(returns):
    """Largest fall from a running maximum."""
    wealth = np.cumprod(1 + returns)
    peak = np.maximum.accumulate(wealth)
    return np.max(1 - wealth / peak)


def expected_shortfall(weights, scenarios, level=0.5):
    """Mean of the worst outcomes, by sorting."""
    losses = np.sort(-(scenarios @ weights))[::-1]
    k = math.ceil(level * len(losses))
    return losses[:k].mean()


def amortisation(principal, rate, months=12):
    """A loan's schedule month by month in a dict."""
    payment = principal * rate / (1 - (1 + rate) ** -months)
    schedule = {}
    balance = principal
    for month in range(1, months + 1):
        interest = balance * rate
        balance = balance - (payment - interest)
        schedule[month] = {"interest": interest, "balance": balance}
    assert abs(balance) < 1e-9, f"{balance:.2e} is left"
    return sum(row["interest"] for row in schedule.values())


def kelly(fraction, odds, probabilities):
    """Expected log growth."""
    return np.dot(probabilities, np.log(1 + fraction * odds))


POINTS = {
    black_scholes_call: (1.0, 1.1, 0.03, 0.25, 0.75),
    black_scholes_book: {"spots": np.array([1.0, 1.2, 0.8]), "strikes": np.array([1.1, 1.0, 0.9]), "sigma": 0.3},
    binomial_american_put: {"spot": 1.0, "sigma": 0.3},
    yield_to_maturity: {"price": 0.93},
    implied_volatility: {"price": 0.06},
    sharpe_ratio: {
        "weights": np.array([0.1, -0.2, 0.4]), "returns": np.array([0.05, 0.02, 0.08]),
        "cov": np.array([[0.04, 0.01, 0.0], [0.01, 0.02, 0.005], [0.0, 0.005, 0.09]]),
    },
    asian_option: {"spot": 1.05, "sigma": 0.3},
    vasicek_path: {"r0": 0.03, "speed": 0.8, "level": 0.05, "sigma": 0.02},
    nelson_siegel: {
        "beta": np.array([0.04, -0.02, 0.01]), "tau": 1.7, "maturities": np.array([0.5, 1.0, 5.0, 10.0]),
        "yields": np.array([0.02, 0.025, 0.035, 0.04]),
    },
    max_drawdown: {"returns": np.array([0.1, -0.2, 0.05, -0.1, 0.3])},
    expected_shortfall: {"weights": np.array([0.6, 0.4]), "scenarios": rng.normal(size=(4, 2))},
    amortisation: {"principal": 100.0, "rate": 0.01},
    kelly: {"fraction": 0.2, "odds": np.array([1.5, -1.0]), "probabilities": np.array([0.5, 0.5])},
}  # fmt: skip
