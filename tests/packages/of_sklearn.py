"""scikit-learn: losses of linear models, of trees and of networks, Gaussian processes and their kernels, NCA, t-SNE."""

import numpy as np
from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss, HalfSquaredError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, RationalQuadratic, WhiteKernel
from sklearn.linear_model._huber import _huber_loss_and_gradient
from sklearn.linear_model._linear_loss import LinearModelLoss
from sklearn.manifold._t_sne import _kl_divergence
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from tests.packages.cases import Case, flipped, lost, negated, scaled, second

draw = np.random.default_rng(1)
X = draw.normal(size=(9, 3))
Y = draw.normal(size=9)
LABELS = np.array([0.0, 1, 2, 0, 1, 2, 0, 1, 2])
BINARY = np.array([0.0, 1, 1, 0, 1, 0, 1, 1, 0])
COUNTS = np.array([0.0, 2, 1, 0, 3, 1, 4, 0, 2])
W = np.array([0.4, -0.7, 0.2, 0.1])
PAIRS = draw.uniform(size=10)
PAIRS /= 2 * PAIRS.sum()

squared = LinearModelLoss(base_loss=HalfSquaredError(), fit_intercept=True)
logistic = LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=True)
softmax = LinearModelLoss(base_loss=HalfMultinomialLoss(n_classes=3), fit_intercept=False)
gp = GaussianProcessRegressor(RBF(0.8) + WhiteKernel(0.3), optimizer=None).fit(X, Y)
gpc = GaussianProcessClassifier(RBF(0.8), optimizer=None).fit(X, BINARY)
nca = NeighborhoodComponentsAnalysis(n_components=2)
nca.n_iter_ = 1


def linear(w):
    return squared.loss_gradient(w, X, Y, l2_reg_strength=0.3)


def binomial(w):
    return logistic.loss_gradient(w, X, BINARY, l2_reg_strength=0.3)


def multinomial(w):
    return softmax.loss_gradient(w.reshape(3, 3, order="F"), X, LABELS)[0]


def multinomial_gradient(w):
    return softmax.gradient(w.reshape(3, 3, order="F"), X, LABELS).ravel(order="F")


def regression(theta):
    return gp.log_marginal_likelihood(theta, eval_gradient=True)


def classification(theta):
    return gpc.log_marginal_likelihood(theta, eval_gradient=True)


def huber(w):
    return _huber_loss_and_gradient(w, X, Y, 1.35, 0.1, np.ones(9))


def neighbours(a):
    return nca._loss_grad_lbfgs(a, X, LABELS[:, None] == LABELS, -1.0)


def embedding(y):
    return _kl_divergence(y, PAIRS, 1, 5, 2)


def kernel_case(kernel, ended_by=None):
    """Return the case of a kernel's values by the logarithms of its parameters."""

    def values(theta):
        return kernel.clone_with_theta(theta)(X)

    def slopes(theta):
        return kernel.clone_with_theta(theta)(X, eval_gradient=True)[1]

    return Case(
        f"kernels.{type(kernel).__name__}",
        values,
        (kernel.theta,),
        slopes,
        scaled(slopes, 0.5),
        "jac",
        glue=4,
        ended_by=ended_by,
    )


CASES = [
    Case("LinearModelLoss(HalfSquaredError)", linear, (W,), None, second(linear, lost, 3), "value_and_grad", glue=3, ended_by="a bytes-like object is required"),
    Case("LinearModelLoss(HalfBinomialLoss)", binomial, (W,), None, second(binomial, flipped, 1), "value_and_grad", glue=3, ended_by="a bytes-like object is required"),
    Case("LinearModelLoss(HalfMultinomialLoss)", multinomial, (draw.normal(size=9),), multinomial_gradient, scaled(multinomial_gradient, 9), glue=5, ended_by="a bytes-like object is required"),
    Case("GaussianProcessRegressor.log_marginal_likelihood", regression, (np.log([0.8, 0.3]),), None, second(regression, lost, 1), "value_and_grad", glue=3, ended_by="log_marginal_likelihood of sklearn.gaussian_process"),
    Case("GaussianProcessClassifier.log_marginal_likelihood", classification, (np.log([0.8]),), None, second(classification, negated), "value_and_grad", glue=3, ended_by="log_marginal_likelihood of sklearn.gaussian_process"),
    kernel_case(RBF([0.8, 1.2, 0.5]), ended_by="kernel.clone_with_theta(theta)(X)"),
    kernel_case(Matern(0.9, nu=1.5), ended_by="kernel.clone_with_theta(theta)(X)"),
    *map(kernel_case, [RationalQuadratic(0.9, 1.4), ExpSineSquared(0.9, 1.4)]),
    Case("_huber_loss_and_gradient", huber, (np.array([0.4, -0.7, 0.2, 0.8]),), None, second(huber, flipped, 3), "value_and_grad", glue=2, ended_by="_huber_loss_and_gradient of sklearn.linear_model"),
    Case("NeighborhoodComponentsAnalysis._loss_grad_lbfgs", neighbours, (draw.normal(size=6),), None, second(neighbours, negated), "value_and_grad", glue=4),
    Case("_kl_divergence of t-SNE", embedding, (draw.normal(size=10),), None, second(embedding, scaled, 0.5), "value_and_grad", glue=2, ended_by="_kl_divergence of sklearn.manifold"),
]  # fmt: skip
