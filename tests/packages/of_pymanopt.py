"""Pymanopt: gradients of problems on manifolds, and of distances by the exponential and logarithmic maps."""

import numpy as np
import pymanopt
from pymanopt.manifolds import Sphere, Stiefel, SymmetricPositiveDefinite

from tests.packages.cases import Case, negated, scaled

draw = np.random.default_rng(4)
S = draw.normal(size=(4, 4))
S = S + S.T
sphere, stiefel, matrices = Sphere(4), Stiefel(4, 2), SymmetricPositiveDefinite(3)
p, q = np.array([0.6, 0.0, 0.8, 0.0]), np.array([0.5, 0.5, -0.5, 0.5])
Q = np.linalg.qr(draw.normal(size=(4, 2)))[0]
t = sphere.projection(p, np.array([0.1, 0.3, -0.2, 0.4]))
D = draw.normal(size=(4, 2))


@pymanopt.function.numpy(sphere)
def quotient(x):
    return x @ S @ x


@pymanopt.function.numpy(sphere)
def quotient_gradient(x):
    return 2 * S @ x


@pymanopt.function.numpy(sphere)
def quotient_hessian(x, v):
    return 2 * S @ v


problem = pymanopt.Problem(sphere, quotient, euclidean_gradient=quotient_gradient, euclidean_hessian=quotient_hessian)


def cost(x):
    return problem.cost(x)


def gradient(x):
    return problem.euclidean_gradient(x)


def product(x, v):
    return problem.euclidean_hessian(x, v)


def moved(t):
    return quotient(sphere.retraction(p, sphere.projection(p, t)))


def riemannian(t):
    return problem.riemannian_gradient(p)


def distance(t):
    return 0.5 * sphere.dist(sphere.exp(p, sphere.projection(p, t)), q) ** 2


def logarithm(t):
    return -sphere.log(p, q)


def moved_frame(T):
    return np.sum(D * stiefel.retraction(Q, stiefel.projection(Q, T)))


def frame_gradient(T):
    return stiefel.euclidean_to_riemannian_gradient(Q, D)


def moved_matrix(T):
    return np.sum(S[:3, :3] * matrices.exp(P, (T + T.T) / 2))


P = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.1]])


def matrix_gradient(T):
    return np.linalg.solve(P, np.linalg.solve(P, matrices.euclidean_to_riemannian_gradient(P, S[:3, :3])).T)


CASES = [
    Case("Problem.euclidean_gradient", cost, (q,), gradient, scaled(gradient, 0.5), glue=12),
    Case("Problem.euclidean_hessian", cost, (q,), product, negated(product), "hvp", glue=12),
    Case("Problem.riemannian_gradient of Sphere", moved, (np.zeros(4),), riemannian, lambda t: gradient(p), glue=11),
    Case("Sphere.log", distance, (np.zeros(4),), logarithm, negated(logarithm), glue=4, ended_by="the slope of norm is not finite"),
    Case("Stiefel.euclidean_to_riemannian_gradient", moved_frame, (np.zeros((4, 2)),), frame_gradient, lambda T: D, glue=4, ended_by="retraction of pymanopt.manifolds.stiefel"),
    Case("SymmetricPositiveDefinite.euclidean_to_riemannian_gradient", moved_matrix, (np.zeros((3, 3)),), matrix_gradient, negated(matrix_gradient), glue=4, ended_by="exp of pymanopt.manifolds.positive_definite"),
]  # fmt: skip
