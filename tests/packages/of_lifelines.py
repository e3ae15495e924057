"""lifelines: the partial likelihood of Cox's model with its gradient and Hessian, and a likelihood differentiated by autograd."""

import autograd
import autograd.numpy as anp
import numpy as np
import pandas as pd
from lifelines import CoxTimeVaryingFitter, WeibullFitter
from lifelines.fitters.coxph_fitter import SemiParametricPHFitter
from lifelines.utils.safe_exp import safe_exp

from tests.packages.cases import Case, flipped, lost, negated, scaled

draw = np.random.default_rng(2)
X = draw.normal(size=(8, 2))
STOP = np.array([1.0, 2, 2, 3, 4, 5, 5, 6])
DIED = np.array([True, True, True, False, True, True, False, True])
B = np.array([0.4, -0.3])
EPISODES = (X, DIED, np.zeros(8), STOP, np.ones(8))
SUBJECTS = (pd.DataFrame(X), pd.Series(STOP), pd.Series(DIED), pd.Series(np.ones(8)), None)

cox = SemiParametricPHFitter()
survival = WeibullFitter()


def varying(b):
    return CoxTimeVaryingFitter._get_gradients(*EPISODES, b)[2]


def varying_gradient(b):
    return CoxTimeVaryingFitter._get_gradients(*EPISODES, b)[1]


def varying_hessian(b):
    return CoxTimeVaryingFitter._get_gradients(*EPISODES, b)[0]


def efron(b):
    return cox._get_efron_values_single(*SUBJECTS, b)[2]


def efron_gradient(b):
    return cox._get_efron_values_single(*SUBJECTS, b)[1]


def weibull(p):
    return anp.sum(survival._cumulative_hazard(p, STOP) - DIED * survival._log_hazard(p, STOP))


def exponential(x):
    return anp.sum(safe_exp(x) ** 2)


weibull_gradient, exponential_gradient = autograd.grad(weibull), autograd.grad(exponential)
P = np.array([3.2, 1.4])

CASES = [
    Case("CoxTimeVaryingFitter._get_gradients", varying, (B,), varying_gradient, negated(varying_gradient), glue=4),
    Case("CoxTimeVaryingFitter._get_gradients, Hessian", varying, (B,), varying_hessian, flipped(varying_hessian, 0, 1), "hess", glue=4),
    Case("SemiParametricPHFitter._get_efron_values_single", efron, (B,), efron_gradient, lost(efron_gradient, 1), glue=5),
    Case("WeibullFitter, by autograd", weibull, (P,), weibull_gradient, flipped(weibull_gradient, 1), glue=3),
    Case("safe_exp, by autograd", exponential, (B,), exponential_gradient, scaled(exponential_gradient, 0.5), glue=2),
]  # fmt: skip
