"""Functions that call solvers out of sight of the trace, at tolerances that leave few digits, with their gradients."""

import math

import numpy as np
from scipy import integrate, optimize, sparse
from scipy.integrate import odeint, quad, solve_ivp
from scipy.optimize import brentq, fixed_point, fsolve, least_squares, linprog, minimize, minimize_scalar, newton
from scipy.sparse.linalg import cg


def decay(a):
    a = float(a)
    return solve_ivp(lambda t, y: -a * y, (0, 1), [1.0]).y[0, -1]


def decay_gradient(a):
    return -math.exp(-a)


def dense(a):
    """The dense solution between the steps, by the name of the module."""
    a = float(a)
    return integrate.solve_ivp(lambda t, y: -a * y, (0, 2), [1.0], dense_output=True, rtol=1e-4).sol(0.7)[0]


def dense_gradient(a):
    return -0.7 * math.exp(-0.7 * a)


def time_of_event(a):
    """The time at which a decay reaches one half."""

    def half(t, y):
        return y[0] - 0.5

    half.terminal = True
    return solve_ivp(lambda t, y: -a * y, (0, 20), [1.0], events=half, rtol=1e-7, atol=1e-9).t[-1]


def time_of_event_gradient(a):
    return -math.log(2) / a**2


def oscillation(a):
    w = math.sqrt(a)
    return odeint(lambda y, t: [y[1], -w * w * y[0]], [1.0, 0.0], [0.0, 2.0], rtol=1e-5, atol=1e-7)[-1, 0]


def oscillation_gradient(a):
    return -math.sin(2 * math.sqrt(a)) / math.sqrt(a)


def bracketed(a):
    a = float(a)
    return brentq(lambda t: t**3 + a * t - 1, 0, 1, xtol=1e-6)


def bracketed_gradient(a):
    t = brentq(lambda t: t**3 + a * t - 1, 0, 1, xtol=1e-15)
    return -t / (3 * t * t + a)


def by_secants(a):
    a = float(a)
    return newton(lambda t: t**3 + a * t - 1, 0.6, tol=1e-4)


by_secants_gradient = bracketed_gradient


def iterated(a):
    a = float(a)
    return fixed_point(lambda x: math.cos(a * x), 0.5, xtol=1e-5, method="iteration")


def iterated_gradient(a):
    x = brentq(lambda x: x - math.cos(a * x), 0, 2, xtol=1e-15)
    return -x * math.sin(a * x) / (1 + a * math.sin(a * x))


def of_system(a):
    a = float(a)
    return fsolve(lambda x: [x[0] + x[1] - a, x[0] * x[1] - 0.1], [1.0, 0.1], xtol=1e-4)[0]


def of_system_gradient(a):
    return 0.5 + a / (2 * math.sqrt(a * a - 0.4))


def lowest(a):
    a = float(a)
    return minimize(lambda z: (z[0] - a) ** 2 + z[0] ** 4, [0.1]).x[0]


def lowest_gradient(a):
    z = brentq(lambda z: 2 * (z - a) + 4 * z**3, -2, 2, xtol=1e-15)
    return 2 / (2 + 12 * z * z)


def lowest_of_simplex(a):
    a = float(a)
    return minimize(lambda z: (z[0] - a) ** 2 + z[0] ** 4, [0.1], method="Nelder-Mead").fun


def lowest_of_simplex_gradient(a):
    z = brentq(lambda z: 2 * (z - a) + 4 * z**3, -2, 2, xtol=1e-15)
    return -2 * (z - a)


def between(a):
    a = float(a)
    return minimize_scalar(lambda z: (z - a) ** 2 + z**4, bounds=(0, 1), method="bounded").x


between_gradient = lowest_gradient


def fitted(a):
    """The rate of a curve that is no exponential, so that residuals stay."""
    a, t = float(a), np.linspace(0, 1, 6)
    return least_squares(lambda p: np.exp(-p[0] * t) - 1 / (1 + a * t), [0.5], ftol=1e-6, xtol=1e-6, gtol=1e-6).x[0]


def fitted_gradient(a):
    t = np.linspace(0, 1, 6)
    slope = lambda p: float(np.sum((np.exp(-p * t) - 1 / (1 + a * t)) * -t * np.exp(-p * t)))
    p = brentq(slope, 0.01, 5, xtol=1e-15)
    rest, by_p = np.exp(-p * t) - 1 / (1 + a * t), -t * np.exp(-p * t)
    return -np.sum(by_p * t / (1 + a * t) ** 2) / np.sum(by_p**2 + rest * t * t * np.exp(-p * t))


def kinked_integral(a):
    return quad(lambda t: np.maximum(t - a, 0), 0, 1)[0]


def kinked_integral_gradient(a):
    return a - 1


def kinked_out_of_sight(a):
    a = float(a)
    return quad(lambda t: abs(t - a), 0, 1)[0]


def kinked_out_of_sight_gradient(a):
    return 2 * a - 1


def program(a):
    a = float(a)
    return linprog([-1.0, -a], A_ub=[[1.0, 2.0], [3.0, 1.0]], b_ub=[4.0, 6.0]).fun


def program_gradient(a):
    """The vertex is (1.6, 1.2)."""
    return -1.2


def conjugate(a):
    a = float(a)
    matrix = sparse.diags([[-1.0] * 29, np.linspace(2 + a, 9, 30), [-1.0] * 29], [-1, 0, 1]).tocsr()
    return cg(matrix, np.ones(30))[0][0]


def conjugate_gradient(a):
    d = np.linspace(2 + a, 9, 30)
    matrix = np.diag(d) - np.eye(30, k=1) - np.eye(30, k=-1)
    inverse = np.linalg.inv(matrix)
    return -float(inverse[0] @ (np.linspace(1, 0, 30) * (inverse @ np.ones(30))))


def shooting(a):
    """A solver inside of a solver: the start whose solution is one half at time 1."""
    a = float(a)
    miss = lambda y0: solve_ivp(lambda t, y: -a * y, (0, 1), [y0], rtol=1e-5).y[0, -1] - 0.5
    return optimize.brentq(miss, 0, 5, xtol=1e-6)


def shooting_gradient(a):
    return math.exp(a) / 2


POINTS = {
    decay: 0.7, dense: 0.7, time_of_event: 0.7, oscillation: 1.7, bracketed: 0.7, by_secants: 0.7, iterated: 0.9,
    of_system: 1.3, lowest: 0.7, lowest_of_simplex: 0.7, between: 0.7, fitted: 0.8, kinked_integral: 0.37,
    kinked_out_of_sight: 0.37, program: 1.2, conjugate: 0.7, shooting: 0.8,
}  # fmt: skip
