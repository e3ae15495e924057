"""What of scipy and numpy has no rule says so by name, and says what to write instead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as ip
import scipy.signal as sg
import scipy.sparse as sparse
import scipy.special as sp
import scipy.stats as st

import gradcli
from tests.rows import for_rows

T = np.arange(5.0)
PLACES = np.array([[0.0, 0.1], [1.0, 0.4], [0.3, 0.9], [0.7, 0.2], [0.5, 0.6]])
X = np.array([0.3, 1.2, 0.7, 2.1, 0.4])
# fmt: off
CASES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("smoothing",        lambda x: ip.UnivariateSpline(T, x)(1.7),                      "UnivariateSpline with smoothing chooses its knots"),
    ("spline integral",  lambda x: ip.UnivariateSpline(T, x, s=0).integral(0, 1),       "UnivariateSpline.integral is not traced"),
    ("neighbors",        lambda x: ip.RBFInterpolator(PLACES, x, neighbors=3)(PLACES[:1] + 0.05)[0], "RBFInterpolator with neighbors="),
    ("kde integral",     lambda x: st.gaussian_kde(x).integrate_box_1d(0, 1),           "gaussian_kde.integrate_box_1d has no derivative rule"),
    ("kde weights",      lambda x: st.gaussian_kde(T, weights=x)(0.3)[0],               "gaussian_kde has no derivative rule by its weights"),
    ("median of welch",  lambda x: sg.welch(x, nperseg=2, average="median")[1][0],      "scipy.signal.welch with average= or mode="),
    ("two-sided",        lambda x: sg.periodogram(x, return_onesided=False)[1][0],      "scipy.signal.periodogram with return_onesided=False"),
    ("sparse entries",   lambda x: (sparse.csr_matrix((x, (np.arange(5), np.arange(5)))) @ T)[1], "sparse matrix of traced entries"),
    ("sparse diagonal",  lambda x: (sparse.diags(x) @ T)[1],                            "sparse matrix of traced entries"),
    ("np.matrix",        lambda x: (np.matrix(x) * np.matrix(x).T)[0, 0],               "an array as np.matrix is not traced"),
    ("double root",      lambda x: np.abs(np.roots(np.append(x[:1] / 0.3, [-2.0, 1.0])))[0], "np.roots has a solution that is not isolated"),
    ("private ufunc",    lambda x: np.sum(sp.zeta(x + 2, 1.0)),                         "zeta of scipy.special has no derivative rule"),
    ("private density",  lambda x: np.sum(st.nct.pdf(x, 5.0, 0.5)),                     "pdf of scipy.stats has no derivative rule"),
    ("float() further",  lambda x: np.sum(np.array([float(v) for v in x]) ** 2),        "float() of a traced value loses its derivative"),
]
# fmt: on


@pytest.mark.filterwarnings("ignore")
@for_rows(("f", "says"), [pytest.param(f, says, id=name) for name, f, says in CASES], parts=2)
def test_the_trace_ends_with_a_sentence(f: Callable[[Any], Any], says: str) -> None:
    report = gradcli.check(f, {"x": X}, modes="reverse,finite-difference")
    [found] = [finding for finding in report.points[0].findings if finding.kind == "untraced"]
    assert says in found.message and ": _" not in found.message
    assert found.hint
