"""Functions that call a solver, with their gradients by hand: differential equations, integrals, roots, minima."""

import math

import numpy as np
import scipy.integrate
import scipy.optimize
from scipy.integrate import odeint, quad, solve_ivp
from scipy.optimize import brentq, minimize

T = np.linspace(0.0, 2.0, 5)


def integral(a, b):
    """A parameter and a limit of an integral by quadrature."""
    value, _ = quad(lambda t: math.exp(-a * t) * t, 0.0, b)
    return value


def integral_gradient(a, b):
    """Differentiated below the integral sign, and Leibniz's rule."""
    by_a = (b * (a * b + 2) * math.exp(-a * b)) / a**2 + 2 * (math.exp(-a * b) - 1) / a**3
    return by_a, math.exp(-a * b) * b


def normal_moment(mu, sigma):
    """An integral over the whole line, with the parameters as arguments."""
    density = lambda x, m, s: x**2 * np.exp(-((x - m) ** 2) / (2 * s**2)) / np.sqrt(2 * np.pi * s**2)
    return quad(density, -np.inf, np.inf, args=(mu, sigma))[0]


def normal_moment_gradient(mu, sigma):
    return 2 * mu, 2 * sigma


def initial_value_problem(y0, rate):
    """Logistic growth by scipy's solver."""
    found = solve_ivp(lambda t, y: rate * y * (1 - y), (0, 1), [y0], rtol=1e-10, atol=1e-12)
    return found.y[0, -1]


def initial_value_problem_gradient(y0, rate):
    """The solution is known."""
    e = math.exp(rate)
    denominator = (1 + y0 * (e - 1)) ** 2
    return e / denominator, e * y0 * (1 - y0) / denominator


def decay_at_default_tolerance(k):
    """With the defaults, the solver is right to three digits."""
    return solve_ivp(lambda t, y: -k * y, (0, 2), [1.0]).y[0, -1]


def decay_at_default_tolerance_gradient(k):
    return -2 * math.exp(-2 * k)


def oscillator(k, y0):
    """A system by odeint, its parameter among the arguments, fitted to data at several times."""
    path = odeint(lambda y, t, k: [y[1], -k * y[0]], y0, T, args=(k,), rtol=1e-10, atol=1e-12)
    return np.sum(path[:, 0] ** 2)


def oscillator_gradient(k, y0):
    w = math.sqrt(k)
    c, s = np.cos(w * T), np.sin(w * T)
    x = y0[0] * c + y0[1] / w * s
    by_w = -y0[0] * T * s + y0[1] * (T * c / w - s / w**2)
    return np.sum(2 * x * by_w) / (2 * w), np.array([np.sum(2 * x * c), np.sum(2 * x * s / w)])


class Reactor:
    """A model whose right-hand side is a method that reads an attribute."""

    def __init__(self):
        self.rate = 1.0

    def slope(self, t, y):
        return -self.rate * y

    def left(self, rate):
        self.rate = rate
        found = solve_ivp(self.slope, (0, 1), [2.0], dense_output=True, rtol=1e-9, atol=1e-11)
        return found.sol(0.5)[0]


reactor = Reactor()


def left(rate):
    """The dense solution between the steps."""
    return reactor.left(rate)


def left_gradient(rate):
    return -math.exp(-rate / 2)


def root(c):
    """A root by bracketing."""
    return brentq(lambda x: x**3 + x - c, 0.0, 3.0, xtol=1e-15, rtol=1e-14)


def root_gradient(c):
    """The implicit function theorem."""
    return 1 / (3 * root(c) ** 2 + 1)


def equations(p):
    """A root of two equations, each solver once."""
    f = lambda x, p: np.array([x[0] * p[0] - x[1], x[0] + x[1] - p[1]])
    return scipy.optimize.fsolve(f, [1.0, 1.0], args=(p,))[0] + scipy.optimize.root(f, [1.0, 1.0], args=(p,)).x[1]


def equations_gradient(p):
    """x = p1 / (1 + p0), y = p0 p1 / (1 + p0): their sum is p1."""
    return np.array([0.0, 1.0])


def shooting(k):
    """A root finder around a differential equation: the start whose solution is one half at time 1."""
    return brentq(lambda y0: solve_ivp(lambda t, y: -k * y, (0, 1), [y0], rtol=1e-10, atol=1e-11).y[0, -1] - 0.5, 0, 5)


def shooting_gradient(k):
    return math.exp(k) / 2


def minimum(p):
    """The place and the value of a minimum."""
    found = minimize(lambda x: (x[0] - p[0]) ** 2 + p[1] * (x[1] - x[0]) ** 2 + x[1] ** 2, np.zeros(2), tol=1e-10)
    return found.x[0] + found.fun


def minimum_gradient(p):
    """With q = p1 / (1 + p1): x = p0 / (1 + q), and the value is p0^2 q / (1 + q)."""
    q, slope = p[1] / (1 + p[1]), 1 / (1 + p[1]) ** 2
    by_q = (-p[0] + p[0] ** 2) / (1 + q) ** 2
    return np.array([1 / (1 + q) + 2 * p[0] * q / (1 + q), by_q * slope])


def line_fit(y):
    """The slope of a fitted line, by two solvers."""
    fitted = scipy.optimize.curve_fit(lambda t, a, b: a + b * t, T, y)[0]
    return fitted[1] + scipy.optimize.least_squares(lambda x: x[0] + x[1] * T - y, [0.0, 0.0]).x[1]


def line_fit_gradient(y):
    t = T - T.mean()
    return 2 * t / np.sum(t * t)


def polynomial_roots(c):
    """The squared sizes of the roots of a polynomial, two of which are complex."""
    return np.sum(np.abs(np.roots(c)) ** 2 * np.array([1.0, 2.0, 2.5]))


def polynomial_roots_gradient(c):
    """A root moves by -r^k / p'(r) with the coefficient of r^k."""
    r = np.roots(c)
    moves = -np.vander(r, len(c)) / np.polyval(np.polyder(c), r)[:, None]
    return 2 * np.real(np.conj(r)[:, None] * moves).T @ np.array([1.0, 2.0, 2.5])


POINTS = {
    integral: {"a": 1.3, "b": 2.0},
    normal_moment: {"mu": 0.3, "sigma": 0.8},
    initial_value_problem: {"y0": 0.2, "rate": 1.3},
    decay_at_default_tolerance: {"k": 0.7},
    oscillator: {"k": 1.2, "y0": np.array([0.5, 0.3])},
    left: {"rate": 0.8},
    root: {"c": 2.2},
    equations: {"p": np.array([0.5, 1.2])},
    shooting: {"k": 0.8},
    minimum: {"p": np.array([0.5, 1.2])},
    polynomial_roots: {"c": np.array([1.0, 0.3, 2.0, 1.5])},
    line_fit: {"y": np.array([1.0, 0.7, 0.4, 0.3, 0.2])},
}
