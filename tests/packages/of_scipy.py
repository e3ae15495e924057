"""scipy: Rosenbrock's function, splines, Bessel functions, the exponential of a matrix."""

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
from scipy.interpolate import BSpline, CubicSpline, KroghInterpolator, PchipInterpolator

from tests.packages.cases import Case, flipped, lost, negated, scaled

optimize, special = scipy.optimize, scipy.special
POINT = np.array([1.2, 0.7, 0.9])
KNOTS = np.array([0.0, 1.0, 2.5, 3.0, 4.2])
HEIGHTS = np.array([0.3, 1.4, 0.9, 1.1, 2.0])
A = np.array([[0.3, -0.7], [1.1, 0.2]])
cubic, pchip, krogh = CubicSpline(KNOTS, HEIGHTS), PchipInterpolator(KNOTS, HEIGHTS), KroghInterpolator(KNOTS, HEIGHTS)
b_spline = BSpline(np.arange(9.0), HEIGHTS, 3)


def along(A, V):
    return scipy.linalg.expm_frechet(A, V, compute_expm=False)


def second_kind(x):
    return special.kv(1.5, x)


def second_kind_slope(x):
    return special.kvp(1.5, x)


def first_kind(x):
    return special.jv(2, x)


def first_kind_slope(x):
    return special.jvp(2, x)


def spherical(x):
    return special.spherical_jn(2, x)


def spherical_slope(x):
    return special.spherical_jn(2, x, derivative=True)


CASES = [
    Case("rosen_der", optimize.rosen, (POINT,), optimize.rosen_der, lost(optimize.rosen_der, 2)),
    Case("rosen_hess", optimize.rosen, (POINT,), optimize.rosen_hess, flipped(optimize.rosen_hess, 0, 1), "hess"),
    Case("CubicSpline.derivative", cubic, (1.3,), cubic.derivative(), cubic.derivative(2), glue=2),
    Case("PchipInterpolator.derivative", pchip, (1.3,), pchip.derivative(), negated(pchip.derivative()), glue=2),
    Case("KroghInterpolator.derivative", krogh, (1.3,), krogh.derivative, scaled(krogh.derivative, 1.2), glue=1, ended_by="a traced result is stored into a plain array"),
    Case("BSpline.derivative", b_spline, (4.3,), b_spline.derivative(), scaled(b_spline.derivative(), 3), glue=2),
    Case("jvp", first_kind, (1.3,), first_kind_slope, lambda x: special.jv(1, x) - special.jv(3, x), glue=4),
    Case("kvp", second_kind, (1.3,), second_kind_slope, negated(second_kind_slope), glue=4),
    Case("spherical_jn", spherical, (1.3,), spherical_slope, lambda x: special.spherical_jn(1, x) - 2 / x * spherical(x), glue=4),
    Case("expm_frechet", scipy.linalg.expm, (A,), along, lambda A, V: scipy.linalg.expm(A) @ V, "jvp", glue=2),
]  # fmt: skip
