"""A gradient of a function with a solver in it gets one verdict: from `run`, from recorded calls, and from `check`."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

import gradcli
from gradcli.project.capture.run_report import check_recorded_calls
from gradcli.project.capture.session import RecordingRequest, Session
from gradcli.report.suite import Program
from gradcli.request.options import Options

LOGISTIC = """
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

TIMES = np.linspace(0.5, 5, 4)


def slope(t, z, k):
    y, w = z
    return [k * y * (1 - y), y * (1 - y) + k * (1 - 2 * y) * w]


def solve(k):
    return solve_ivp(slope, (0, 5), [0.1, 0.0], t_eval=TIMES, args=(k,), rtol=1e-7, atol=1e-9).y


DATA = solve(1.3)[0]


def residual(p):
    return solve(p[0])[0] - DATA


def residual_jac(p):
    return FACTOR * solve(p[0])[1][:, None]


FACTOR = 1.0


def fit():
    return least_squares(residual, [1.0], jac=residual_jac, max_nfev=2).x
"""


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (1.02, "fail")])
def test_run_and_check_give_one_verdict(
    factor: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcli.checks.check.with_causes", lambda verified, budget: verified.report)
    (tmp_path / "logistic_fit.py").write_text(LOGISTIC.replace("FACTOR = 1.0", f"FACTOR = {factor}"))
    monkeypatch.syspath_prepend(tmp_path)
    session = Session(RecordingRequest(1, 2**28, (), 0))
    session.begin()
    try:
        fit = importlib.import_module("logistic_fit")  # while scipy's functions are those of the recorder
        fit.fit()
    finally:
        recorder = session.end()
    report = check_recorded_calls([(each, "") for each in recorder.all()], ("test",), Program(0), Options(), tmp_path)
    [used] = report.gradients
    checked = gradcli.check(fit.residual, {"p": np.array([1.0])}, jac=fit.residual_jac, no_diagnose=True)
    sys.modules.pop("logistic_fit")
    assert (used.verdict, checked.verdict) == (verdict, verdict)
    if verdict == "pass":
        [point] = used.points
        detects: Any = point.check.document["detects"]
        assert detects["relative"] == pytest.approx(checked.detects.relative)
        assert detects["solvers"] == ["solve_ivp at rtol=1e-7, atol=1e-9"]


def test_a_module_that_was_imported_meanwhile_gets_scipys_functions_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_names.py").write_text(
        "from scipy.integrate import solve_ivp\nfrom scipy.optimize import root as r\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    session = Session(RecordingRequest(1, 2**28, (), 0))
    session.begin()
    try:
        made = importlib.import_module("imports_names")
    finally:
        session.end()
    sys.modules.pop("imports_names")
    assert made.solve_ivp is integrate.solve_ivp
    assert made.r is optimize.root
    assert not hasattr(made.r, "__wrapped__")
