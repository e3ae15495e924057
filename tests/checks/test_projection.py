"""Jacobians too large to hold: one product with a random vector is checked, and said to be so."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.modes import claim as claim_module
from gradcli.modes import recording
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
SMALL = 100  # entries: what counts as too large here, so that it stays cheap
CODE = """
    import scipy.sparse as sp
    from scipy.sparse.linalg import LinearOperator

    def f(x): return np.tile(np.sin(x), 10)
    def J(x): return np.tile(np.diag(np.cos(x)), (10, 1))
    def slip(x):
        found = J(x)
        found[17, 7 % len(x)] += 1e-3
        return found
    def as_csr(x): return sp.csr_matrix(J(x))
    def slip_csr(x): return sp.csr_matrix(slip(x))
    def as_operator(x):
        return LinearOperator((10*len(x), len(x)), matvec=lambda v: J(x) @ v, rmatvec=lambda w: J(x).T @ w)
    def slip_operator(x):
        return LinearOperator((10*len(x), len(x)), matvec=lambda v: slip(x) @ v, rmatvec=lambda w: slip(x).T @ w)
    def misshapen(x): return J(x)[:-1]
    def transposed(x): return J(x).T
    def misshapen_csr(x): return sp.csr_matrix(J(x)[:-1])
    def sign(x): return -J(x)
"""


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(name="large")
def _large(gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Check a function of 10 entries with 100 outputs, where 1000 entries of Jacobian are too many."""
    monkeypatch.setattr(recording, "MOST_JACOBIAN", SMALL)
    monkeypatch.setattr(claim_module, "MOST_JACOBIAN", SMALL)
    file = written(tmp_path, CODE)
    return lambda *more: gradcli("check", f"{file}:f", "x=linspace(0.1, 1, 10)", *QUICK, *more)


def test_the_projection_is_a_finding(large: Callable[..., Any]) -> None:
    ran = large("--json")
    (point,) = ran.json["points"]
    (finding,) = (finding for finding in point["findings"] if finding["kind"] == "projection")
    assert (ran.exit_status, finding["severity"]) == (0, "info")
    assert "100 x 10" in finding["message"] and "seed 0" in finding["message"]
    assert np.shape(point["gradient"]["x"]) == (10,)


def test_the_projection_is_shown(large: Callable[..., Any]) -> None:
    assert "projection" in large().stdout


@pytest.mark.parametrize("claim", ["J", "as_csr", "as_operator"])
def test_right_claims_pass(large: Callable[..., Any], claim: str) -> None:
    ran = large("--jac", claim)
    assert ran.exit_status == 0, ran.stdout


@pytest.mark.parametrize("claim", ["slip", "slip_csr", "slip_operator", "sign"])
def test_a_slip_in_one_entry_is_found(large: Callable[..., Any], claim: str) -> None:
    assert large("--jac", claim).exit_status == 1


@pytest.mark.parametrize("claim", ["misshapen", "transposed", "misshapen_csr"])
def test_wrong_shapes_are_wrong(large: Callable[..., Any], claim: str) -> None:
    ran = large("--jac", claim, "--json")
    assert ran.exit_status == 1, ran.stdout
    assert "shape" in ran.json["points"][0]["diagnosis"]["message"]


def test_the_seed_chooses_the_vector(large: Callable[..., Any]) -> None:
    values = [large("--seed", seed, "--json").json["points"][0]["value"] for seed in ("0", "0", "1")]
    assert values[0] == values[1] != values[2]


def test_a_sparse_jacobian_is_never_filled_in(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        import scipy.sparse as sp
        def f(x): return np.sin(x)*x
        def J(x): return sp.diags(np.cos(x)*x + np.sin(x))
        def slip(x):
            d = np.cos(x)*x + np.sin(x)
            d[777] *= 1.01
            return sp.diags(d)
    """
    file = written(tmp_path, code)
    argv = ("check", f"{file}:f", "x=linspace(0.1, 3, 20000)")
    assert gradcli(*argv, "--jac", "J").exit_status == 0
    assert gradcli(*argv, "--jac", "slip").exit_status == 1


def test_small_jacobians_are_compared_entry_by_entry(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, CODE)
    ran = gradcli("check", f"{file}:f", "x=linspace(0.1, 1, 10)", "--jac", "J", *QUICK, "--json")
    (point,) = ran.json["points"]
    assert (ran.exit_status, point["entries"]["compared"]) == (0, 1000)
    assert "projection" not in [finding["kind"] for finding in point["findings"]]


def test_the_api_projects_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_JACOBIAN", SMALL)
    report = package.check(lambda x: np.tile(np.sin(x), 10), np.linspace(0.1, 1, 10), modes="forward,reverse,fd")
    assert report.passed
    assert [finding.kind for finding in report.points[0].findings] == ["projection"]


@pytest.mark.parametrize(("claim", "status"), [("J", 0), ("sign", 1)])
def test_a_lost_trace_is_judged_by_values_of_the_same_projection(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str, status: int
) -> None:
    monkeypatch.setattr(recording, "MOST_JACOBIAN", SMALL)
    monkeypatch.setattr(claim_module, "MOST_JACOBIAN", SMALL)
    code = CODE.replace("np.tile(np.sin(x), 10)", "np.tile(np.array([np.sin(np.float64(str(v))) for v in x]), 10)")
    ran = gradcli("check", f"{written(tmp_path, code)}:f", "x=linspace(0.1, 1, 10)", *QUICK, "--grad", claim, "--json")
    assert ran.exit_status == status
    assert {"projection", "untraced"} <= {f["kind"] for f in ran.json["points"][0]["findings"]}
