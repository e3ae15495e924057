"""Right gradients that are easily called wrong or left open pass, or are open for a true reason; a planted mistake is caught."""

import importlib.util
from typing import Any

import numpy as np
import pytest

import gradcli
from tests.corpus import left_open
from tests.corpus.left_open import Case
from tests.rows import for_rows

OF_PACKAGES = [(package, k) for package, cases in left_open.PACKAGES.items() for k in range(len(cases))]


def verdict(case: Case, claim: Any) -> tuple[str, set[str]]:
    """Return the verdict, and the kinds of findings that keep it open."""
    at = case.at if isinstance(case.at, tuple) else (case.at,)
    report = gradcli.check(case.f, at, **{case.kind: claim}, **case.options)
    return report.verdict, {f.kind for p in report.points for f in p.findings if f.severity == "inconclusive"}


def held(case: Case) -> None:
    """Check a case and its planted mistake."""
    said, kinds = verdict(case, case.claim)
    assert said == ("pass" if case.open is None else "inconclusive"), kinds
    assert case.open is None or case.open in kinds
    wrong = verdict(case, case.slipped())[0]
    assert wrong == case.mistake if case.open is None else wrong != "pass"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if case in left_open.COMPLEX else [], id=case.name)
        for case in left_open.CASES
    ],
)
def test_right_gradients(case: Case) -> None:
    held(case)


@pytest.mark.parametrize(("package", "k"), OF_PACKAGES)
def test_right_gradients_of_packages(package: str, k: int) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    held(left_open.PACKAGES[package][k]())


@for_rows("f", left_open.ANALYTIC)
def test_analytic_functions_are_run_on_complex_numbers(f: str) -> None:
    report = gradcli.check(f, {"x": np.float64(0.4)})
    assert report.verdict == "pass" and report.points[0].modes["complex-step"].verdict == "agree"
