"""POT: the smoothed duals of optimal transport, Gromov-Wasserstein, the semi-dual of the entropic problem, potentials of linear programs."""

import numpy as np
import ot
from ot.gromov import gwggrad, gwloss, init_matrix
from ot.smooth import NegEntropy, SquaredL2, dual_obj_grad, semi_dual_obj_grad
from ot.stochastic import coordinate_grad_semi_dual

from tests.packages.cases import Case, flipped, lost, scaled, second

draw = np.random.default_rng(3)
M = draw.uniform(size=(3, 4))
a, b = np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.4, 0.2, 0.3])
U, V = draw.normal(size=3), draw.normal(size=4)
T = draw.uniform(size=(3, 4))
C1, C2 = (C + C.T for C in (draw.uniform(size=(3, 3)), draw.uniform(size=(4, 4))))
squared, entropy = SquaredL2(gamma=0.7), NegEntropy(gamma=0.7)


def quadratic(alpha, beta):
    return dual_obj_grad(alpha, beta, a, b, M, squared)[0]


def quadratic_gradient(alpha, beta):
    return dual_obj_grad(alpha, beta, a, b, M, squared)[1:]


def entropic(alpha, beta):
    return dual_obj_grad(alpha, beta, a, b, M, entropy)[0]


def entropic_gradient(alpha, beta):
    return dual_obj_grad(alpha, beta, a, b, M, entropy)[1:]


def semi_dual(alpha):
    return semi_dual_obj_grad(alpha, a, b, M, entropy)


def gromov(T):
    return gwloss(*init_matrix(C1, C2, T.sum(axis=1), T.sum(axis=0)), T)


def gromov_gradient(T):
    return gwggrad(*init_matrix(C1, C2, T.sum(axis=1), T.sum(axis=0)), T)


def stochastic(v):
    return v @ b - 0.3 * np.log(np.sum(b * np.exp((v - M[1]) / 0.3)))


def stochastic_gradient(v):
    return coordinate_grad_semi_dual(b, M, 0.3, v, 1)


def cost(M):
    return ot.emd2(a, b, M)


def plan(M):
    return ot.emd(a, b, M)


def conjugate(X):
    return np.sum(entropy.delta_Omega(X)[0])


def conjugate_gradient(X):
    return entropy.delta_Omega(X)[1]


def one_term_lost(alpha, beta):
    """The mistake: the histogram is left out of the gradient by beta."""
    by_alpha, by_beta = entropic_gradient(alpha, beta)
    return by_alpha, by_beta - b


CASES = [
    Case("dual_obj_grad, SquaredL2", quadratic, (U, V), quadratic_gradient, lambda u, v: (quadratic_gradient(u, v)[0], -quadratic_gradient(u, v)[1]), glue=5, ended_by="stored into a plain array"),
    Case("dual_obj_grad, NegEntropy", entropic, (U, V), entropic_gradient, one_term_lost, glue=5, ended_by="stored into a plain array"),
    Case("semi_dual_obj_grad", semi_dual, (U,), None, second(semi_dual, flipped, 1), "value_and_grad", glue=3, ended_by="stored into a plain array"),
    Case("NegEntropy.delta_Omega", conjugate, (M - 0.5,), conjugate_gradient, scaled(conjugate_gradient, 1 / 0.7), glue=5),
    Case("gwggrad", gromov, (T,), gromov_gradient, scaled(gromov_gradient, 0.5), glue=5),
    Case("coordinate_grad_semi_dual", stochastic, (V,), stochastic_gradient, lambda v: stochastic_gradient(v) - b, glue=4),
    Case("emd2", cost, (M,), plan, lost(plan, 1), glue=4, ended_by="emd2 of ot.lp"),
]  # fmt: skip
