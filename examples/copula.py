"""The generator of the Frank copula and its derivative: statsmodels' own where it is installed, else its lines.

The lines are those of statsmodels 0.15.0, statsmodels/distributions/copula/transforms.py, 91 to 95 and 117 to 119, by
Josef Perktold, under the licence BSD-3, which is in data/statsmodels_license.txt.
"""

import warnings

import numpy as np
from scipy.special import expm1

try:
    from statsmodels.distributions.copula.transforms import TransfFrank
except ImportError:
    # fmt: off
    class TransfFrank:
        def evaluate(self, t, theta):
            t = np.asarray(t)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                val = -(np.log(-expm1(-theta*t)) - np.log(-expm1(-theta)))
            return val  # noqa: RET504

        def deriv(self, t, theta):
            t = np.asarray(t)
            tmp = np.exp(-t*theta)
            return -theta * tmp/(tmp - 1)
    # fmt: on


def generator(t, theta=2.0):
    return TransfFrank().evaluate(t, theta)


def generator_slope(t, theta=2.0):
    return TransfFrank().deriv(t, theta)
