"""Right gradients that are easily called wrong or left open, each with what the check has to say of it.

Steps far from their jumps, rules without a finite slope at the point, second derivatives of functions that can only be
called, long sums, flat Jacobians; and functions of packages, where these are installed.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize

Options = Mapping[str, Any]
_SLIP = 1e-3  # of an entry: the planted mistake


@dataclass(frozen=True, slots=True)
class Case:
    """A function at a point with a claim of one kind, and what keeps it open where something does, truly.

    `mistake` is the verdict on the claim with a planted mistake.
    """

    name: str
    f: Callable[..., Any]
    at: Any
    claim: Callable[..., Any]
    kind: str = "grad"
    open: str | None = None
    options: Options = field(default_factory=dict)
    mistake: str = "fail"

    def slipped(self) -> Callable[..., Any]:
        """Return the claim with its first entry off by a thousandth."""

        def slipped(*args: Any) -> Any:
            return _off(self.claim(*args))

        return slipped


def _off(g: Any) -> Any:
    if isinstance(g, tuple):
        return (_off(g[0]), *g[1:])
    g = np.array(g, dtype=float)
    g.flat[0] += _SLIP * (1 + abs(g.flat[0]))
    return g[()]


TWO = np.array([1.3, -2.2])
THREE = np.array([0.4, -1.1, 2.3])
ORIGIN = np.zeros(3)
KNOTS = np.array([0.0, 1.0, 2.0, 3.0])
HEIGHTS = np.array([0.0, 1.0, 4.0, 9.0])
W = np.array([0.3, -0.7, 1.1])
KEPT: dict[str, Any] = {}


# Steps far from their jumps are constants.


def signed_log(x):
    return np.sum(np.sign(x) * np.log1p(np.abs(x)))


def wrapped_phase(x):
    turn = 2 * np.pi
    return np.sum((x - turn * np.round(x / turn)) ** 2)


def wrapped_phase_gradient(x):
    return 2 * (x - 2 * np.pi * np.round(x / (2 * np.pi)))


def interpolated(x):
    k = int(np.floor(x))
    t = x - k
    return HEIGHTS[k] * (1 - t) + HEIGHTS[k + 1] * t


def interpolated_gradient(x):
    k = int(np.floor(x))
    return HEIGHTS[k + 1] - HEIGHTS[k]


def by_search(x):
    k = np.searchsorted(KNOTS, x) - 1
    return np.sum(HEIGHTS[k] + (x - KNOTS[k]) ** 2)


def by_search_gradient(x):
    return 2 * (x - KNOTS[np.searchsorted(KNOTS, x) - 1])


def soft_threshold(x):
    return np.sum(np.sign(x) * np.maximum(np.abs(x) - 0.5, 0.0))


def huber(x):
    inside = np.abs(x) < 1
    return np.sum(np.where(inside, 0.5 * x**2, np.abs(x) - 0.5))


def huber_gradient(x):
    return np.where(np.abs(x) < 1, x, np.sign(x))


def relu_by_mask(x):
    return np.sum((x * (x > 0)) ** 2)


def relu_by_where(x):
    return np.sum(np.where(x > 0, x, 0.0) ** 2)


def relu_gradient(x):
    return 2 * np.where(x > 0, x, 0.0)


def selected(x):
    return np.sum(x[x > 0] ** 2)


def largest_squared(x):
    return x[np.argmax(x)] ** 2


def largest_squared_gradient(x):
    g = np.zeros_like(x)
    g[np.argmax(x)] = 2 * np.max(x)
    return g


def counted(x):
    return np.sum(x**2) / np.sum(np.abs(x) > 0.1)


def counted_gradient(x):
    return 2 * x / np.sum(np.abs(x) > 0.1)


def guarded(x):
    if np.any(x < -100):
        raise ValueError("too small")
    np.sign(x)
    return np.sum(x**3)


def heaviside_ramp(x):
    return np.sum(np.heaviside(x, 0.5) * x**2)


def truncated(x):
    return np.sum((x - np.trunc(x)) * x)


def truncated_gradient(x):
    return 2 * x - np.trunc(x)


def median_distance(x):
    middle = np.sort(x)[1]
    return np.sum((x - middle) ** 2)


def median_distance_gradient(x):
    k = np.argsort(x)[1]
    g = 2 * (x - x[k])
    g[k] = -np.sum(2 * (x - x[k]))
    return g


def branch(x):
    return x**2 if x > 0 else -x


def stairs(x):
    return np.sum(np.round(x) * W)


def voted(x, y):
    return y * np.sum(x > 0)


def sampled(p):
    return np.sum((np.random.default_rng(0).uniform(size=3) < p) * W)


STEPS = [
    Case("signed log", signed_log, TWO, lambda x: 1 / (1 + np.abs(x))),
    Case("wrapped phase", wrapped_phase, THREE * 7, wrapped_phase_gradient),
    Case("interpolation", interpolated, 1.4, interpolated_gradient),
    Case("interpolation at a knot", interpolated, 2.0, lambda x: 5.0, mistake="inconclusive"),
    Case("search", by_search, np.array([0.4, 1.2, 2.7]), by_search_gradient),
    Case("soft threshold", soft_threshold, TWO, np.ones_like),
    Case("huber", huber, THREE, huber_gradient),
    Case("relu by a mask", relu_by_mask, TWO, relu_gradient),
    Case("relu by where", relu_by_where, TWO, relu_gradient),
    Case("selection", selected, TWO, relu_gradient),
    Case("largest", largest_squared, THREE, largest_squared_gradient),
    Case("counted", counted, THREE, counted_gradient),
    Case("guarded", guarded, TWO, lambda x: 3 * x**2),
    Case("heaviside", heaviside_ramp, TWO, relu_gradient),
    Case("truncated", truncated, TWO, truncated_gradient),
    Case("median", median_distance, THREE, median_distance_gradient),
    Case("branch", branch, -0.7, lambda x: -1.0),
    Case("rounding alone", stairs, THREE, np.zeros_like, open="staircase"),
    Case("votes", voted, (THREE, 2.0), lambda x, y: (np.zeros(3), 2.0), open="staircase"),
    Case("draws", sampled, np.array([0.2, 0.6, 0.9]), np.zeros_like, open="staircase"),
]


# A rule of the path has no finite slope at the point.


def rotated(v):
    t = np.linalg.norm(v)
    return W @ (np.cos(t) * W + np.sinc(t / np.pi) * v)


def cosine_of_norm(x):
    return np.cos(np.linalg.norm(x))


def cube_of_root(x):
    return np.sqrt(np.sum(x**2)) ** 3


def smooth_length(x):
    return np.sqrt(1 + np.linalg.norm(x) ** 2)


def log_cosh(x):
    return np.log(np.cosh(np.linalg.norm(x)))


def beside(x, y):
    return np.cos(np.linalg.norm(x)) * y**2


def gaussian(x):
    return np.exp(-(np.linalg.norm(x - 1.0) ** 2))


def length(x):
    return np.linalg.norm(x) + np.sum(x)


FLAT = [
    Case("rotation", rotated, ORIGIN, lambda v: W),
    Case("cosine of a norm", cosine_of_norm, ORIGIN, np.zeros_like),
    Case("cube of a root", cube_of_root, ORIGIN, np.zeros_like),
    Case("smooth length", smooth_length, ORIGIN, np.zeros_like),
    Case("log cosh of a norm", log_cosh, ORIGIN, np.zeros_like),
    Case("beside another input", beside, (ORIGIN, 1.5), lambda x, y: (np.zeros(3), 2 * y)),
    Case("gaussian at its top", gaussian, np.ones(3), np.zeros_like),
    Case("length", length, ORIGIN, np.ones_like, open="kink"),
]


# Second derivatives of functions that can only be called.


def polynomial(x):
    a, b = float(x[0]), float(x[1])
    return a**3 + a * b**2


def polynomial_gradient(x):
    return np.array([3 * x[0] ** 2 + x[1] ** 2, 2 * x[0] * x[1]])


def polynomial_hessian(x):
    return np.array([[6 * x[0], 2 * x[1]], [2 * x[1], 2 * x[0]]])


def logistic(b):
    total = 0.0
    for row, label in zip(ROWS, LABELS, strict=True):
        z = math.fsum(float(c) * r for c, r in zip(b, row, strict=True))
        total += label * z - math.log1p(math.exp(z))
    return total


ROWS = [[1.0, 0.3], [1.0, -1.2], [1.0, 0.7], [1.0, 2.1]]
LABELS = [1.0, 0.0, 0.0, 1.0]


def logistic_hessian(b):
    X = np.array(ROWS)
    p = 1 / (1 + np.exp(-X @ b))
    return -(X.T * (p * (1 - p))) @ X


SECOND = [
    Case("polynomial", polynomial, TWO, polynomial_hessian, "hess"),
    Case("polynomial with v", polynomial, TWO, lambda x, v: polynomial_hessian(x) @ v, "hvp"),
    Case("polynomial by its gradient", polynomial, TWO, polynomial_hessian, "hess", options={"grad": polynomial_gradient}),
    Case("logistic", logistic, np.array([0.2, -0.4]), logistic_hessian, "hess"),
    Case("rosen", scipy.optimize.rosen, np.array([1.2, 0.7, 0.9]), scipy.optimize.rosen_hess, "hess"),
    Case("rosen with v", scipy.optimize.rosen, np.array([1.2, 0.7, 0.9]), scipy.optimize.rosen_hess_prod, "hvp"),
    Case("rosen by its gradient", scipy.optimize.rosen, np.array([1.2, 0.7, 0.9]), scipy.optimize.rosen_hess, "hess",
         options={"grad": scipy.optimize.rosen_der}),
]  # fmt: skip


# Complex numbers: long sums, and functions that are analytic.


def long_sum(x):
    total = 0.0
    for _ in range(5000):
        total = total + x
    return total


def weighted_sum(x):
    total = 0.0
    for _ in range(2000):
        total = total + 0.3 * x
    return np.sum(total**2)


def saved(rate):
    money = 1.0
    for _ in range(360):
        money = money * (1 + rate) + 0.01
    return money


def saved_gradient(rate):
    money, slope = 1.0, 0.0
    for _ in range(360):
        money, slope = money * (1 + rate) + 0.01, slope * (1 + rate) + money
    return slope


COMPLEX = [
    Case("long sum", long_sum, 1.3, lambda x: 5000.0),
    Case("weighted sum", weighted_sum, TWO, lambda x: 2 * 600.0**2 * x),
    Case("savings", saved, 0.004, saved_gradient),
]
ANALYTIC = (
    "sigmoid(x)",
    "erf(x)",
    "gelu(x)",
    "softplus(x)",
    "logaddexp(x, 0.3)",
    "ndtr(x)",
    "gammaln(x + 3)",
    "silu(x)",
    "sum(softplus(x*[1, -18]))",
    "logsigmoid(x + 18)",
)


# Jacobians laid out in another way.


def corner(x):
    return np.array([[np.sum(x**2)]])


def outer(x):
    return np.outer(x[:2], x)


def outer_flat(x):
    found = np.zeros((2, 3, 3))
    for i in range(2):
        for k in range(3):
            found[i, k, i] += x[k]
            found[i, k, k] += x[i]
    return found.reshape(6, 3)


def of_matrix(X):
    return X @ W


LAID_OUT = [
    Case("corner", corner, THREE, lambda x: 2 * x, "jac"),
    Case("corner as a row", corner, THREE, lambda x: 2 * x[None], "jac"),
    Case("outer product", outer, THREE, outer_flat, "jac"),
    Case("outer product in full", outer, THREE, lambda x: outer_flat(x).reshape(2, 3, 3), "jac"),
    Case("of a matrix", of_matrix, np.ones((2, 3)), lambda X: np.kron(np.eye(2), W), "jac"),
]

CASES = [*STEPS, *FLAT, *SECOND, *COMPLEX, *LAID_OUT]


# Functions of packages: made when they are asked for, by the package that has to be there.


def sphere():
    manifold = importlib.import_module("pymanopt.manifolds").Sphere(3)
    p = np.array([0.6, 0.0, 0.8])
    return Case("pymanopt's sphere", lambda t: W @ manifold.exp(p, t), ORIGIN, lambda t: W)


def logit(kind="hess"):
    model = importlib.import_module("statsmodels.api").Logit(np.array(LABELS), np.array(ROWS))
    claims = {"hess": model.hessian, "grad": model.score}
    return Case(f"statsmodels Logit, {kind}", model.loglike, np.array([0.2, -0.4]), claims[kind], kind)


PACKAGES = {"pymanopt": [sphere], "statsmodels": [logit, lambda: logit("grad")]}
