"""scipy.linalg's functions, as user's code calls them: traced, with the gradients that differences find."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from gradcli.checks.evidence import AGREE, judge_entries
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.rules.scipy.linalg import FUNCTIONS
from gradcli.targets.arguments import bind_arguments
from tests.rows import for_rows

A = np.array([[4.0, 0.3, -0.2], [0.5, 3.0, 0.1], [-0.4, 0.7, 5.0]])
W = np.arange(1.0, 10.0).reshape(3, 3) / 7
B = np.array([0.3, -1.2, 0.7])
S = np.array([[2.0, 0.3], [0.1, 1.5]])


def weighted(y: Any) -> Any:
    return np.sum(y * W[: y.shape[0], : y.shape[1]]) if y.ndim == 2 else np.sum(y * W[0, : y.shape[0]])


# fmt: off
CALLS: dict[str, Callable[[Any], Any]] = {  # of a matrix that is neither symmetric nor triangular
    "cholesky":                  lambda a: weighted(sla.cholesky(a)) + weighted(sla.cholesky(a, lower=True)),
    "cho_factor":                lambda a: weighted(cho_factor(a)[0]) + weighted(sla.cho_factor(a, lower=True)[0]),
    "cho_solve":                 lambda a: weighted(cho_solve(cho_factor(a), B)) + weighted(cho_solve((a, True), W)),
    "solve_triangular":          lambda a: weighted(solve_triangular(a, B)) + weighted(solve_triangular(a, a[0], trans="T", lower=True, unit_diagonal=True)),
    "solve":                     lambda a: weighted(sla.solve(a, B)) + weighted(sla.solve(a, a[0], assume_a="pos", lower=True)) + weighted(sla.solve(a=A, b=a[1], transposed=True)),
    "solve of a triangle":       lambda a: weighted(sla.solve(a, B, assume_a="upper triangular")) + weighted(sla.solve(a, B, assume_a="sym")),
    "solve_banded":              lambda a: weighted(sla.solve_banded((1, 1), a, B)),
    "solve_sylvester":           lambda a: weighted(sla.solve_sylvester(a, S, a[:, :2])),
    "solve_continuous_lyapunov": lambda a: weighted(sla.solve_continuous_lyapunov(a, a)),
    "solve_discrete_lyapunov":   lambda a: weighted(sla.solve_discrete_lyapunov(a / 7, a)),
    "eigvalsh":                  lambda a: weighted(sla.eigvalsh(a)) + weighted(sla.eigvalsh(a, lower=False)),
    "eigh":                      lambda a: weighted(sla.eigh(a, eigvals_only=True)),
    "svdvals":                   lambda a: weighted(sla.svdvals(a)) + weighted(sla.svd(a[:2], compute_uv=False)),
    "qr":                        lambda a: weighted(sla.qr(a)[1]) + weighted(sla.qr(a[:, :2], mode="economic")[0]) + weighted(sla.qr(a, mode="r")[0]),
    "pinv":                      lambda a: weighted(sla.pinv(a[:, :2])),
    "norm":                      lambda a: sla.norm(a) + sla.norm(a[0], 3) + weighted(sla.norm(a, axis=1)),
    "det":                       lambda a: sla.det(a),
    "inv":                       lambda a: weighted(sla.inv(a)),
    "block_diag":                lambda a: np.sum(sla.block_diag(a, a[0], 2.0, [[a[0, 0], 1.0]]) ** 2 * np.arange(1, 10)[:9]),
    "generalized":               lambda a: weighted(sla.eigh(S, a[:2, :2] @ a[:2, :2].T)[1] ** 4) + weighted(sla.eigvalsh(a, subset_by_index=[0, 1])),
    "eigenvectors":              lambda a: weighted(sla.eigh(a)[1] ** 4) + weighted(sla.svd(a)[2] ** 4) + weighted(sla.svd(a[:2], full_matrices=False)[0] ** 4),
    "lu":                        lambda a: weighted(sla.lu(a[[2, 0, 1]])[2]) + weighted(sla.lu(a[:, :2], permute_l=True)[0]) + weighted(sla.lu(a, p_indices=True)[1]),
    "lu_factor":                 lambda a: weighted(sla.lu_factor(a[[1, 2, 0]])[0]) + weighted(sla.lu_solve(sla.lu_factor(a[[1, 2, 0]]), B)) + weighted(sla.lu_solve(sla.lu_factor(A), a[1], trans=1)),
    "lstsq":                     lambda a: weighted(sla.lstsq(a[:, :2], B)[0]) + sla.lstsq(a[:, :2], B)[1],
    "functions":                 lambda a: weighted(sla.expm(a / 3)) + weighted(sla.logm(a)) + weighted(sla.sqrtm(a)),
    "hankel":                    lambda a: weighted(sla.hankel(a[0], a[1]) ** 2) + weighted(sla.companion(a[0])) + weighted(sla.khatri_rao(a, a)[:3]),
    "other solvers":             lambda a: weighted(sla.solve_toeplitz((a[0], a[1]), a[2])) + weighted(sla.solve_circulant(a[0], a[2])) + weighted(sla.solveh_banded(a[:2] + np.array([[0.0], [3.0]]), a[2])),
    "toeplitz":                  lambda a: weighted(sla.toeplitz(a[0])) + weighted(sla.toeplitz(a[0], a[1])) + weighted(sla.circulant(a[2])),
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "eigvals":  lambda a: np.sum(np.abs(sla.eigvals(a))),
    "solve":    lambda a: np.sum(sla.solve(a, B, assume_a="banded")),
    "eigh":     lambda a: np.sum(sla.eigh(a, subset_by_value=[0, 9])[0]),
    "qr":       lambda a: np.sum(sla.qr(a, pivoting=True)[1]),
    "sqrtm":    lambda a: np.sum(sla.sqrtm(a, disp=False)[0]),
}
# fmt: on


def asked(f: Callable[[Any], Any]) -> Question:
    return Question(bind_arguments(f, "f", {"a": A})[0], Point({"a": A.copy()}), ("a",))


@for_rows("f", CALLS.values(), ids=CALLS, parts=4)
def test_the_gradient_is_that_of_differences(f: Callable[[Any], Any]) -> None:
    q = asked(f)
    differences = MODES["finite-difference"].gradient(q)
    for name in ("certified", "forward", "reverse"):
        found = MODES[name].gradient(q)
        assert np.all(judge_entries(differences, found, "a", 1e-6) == AGREE), (name, found.value, differences.value)


@for_rows("name", REFUSED)
def test_what_has_no_rule_is_refused_by_name(name: str) -> None:
    """The check goes on by function values; the reason names the function."""
    with pytest.raises(Exception, match=rf"scipy\.linalg\.{name}"):
        MODES["reverse"].gradient(asked(REFUSED[name]))


def test_every_function_is_one_of_scipys() -> None:
    assert {name for name in FUNCTIONS["linalg"] if not hasattr(sla, name)} <= {
        "solve_lyapunov"
    }  # gone from later versions


def test_plain_values_go_to_scipy() -> None:
    assert np.all(sla.expm(np.zeros((2, 2))) == np.eye(2))
    assert np.isclose(sla.eigh(A + A.T, eigvals_only=True)[0], sla.eigvalsh(A + A.T)[0])
