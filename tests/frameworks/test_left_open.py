"""Right gradients of torch and JAX that were called wrong or left open pass; the same with a planted mistake fail."""

import importlib.util
import warnings

import pytest

import gradcli

pytest.importorskip("torch")
pytest.importorskip("jax")

from tests.frameworks.corpus import left_open
from tests.frameworks.corpus.left_open import Case


def _installed(case: Case) -> None:
    if importlib.util.find_spec(case.package) is None:
        pytest.skip(f"{case.package} is not installed")


@pytest.mark.parametrize("case", left_open.CASES, ids=lambda case: case.name)
def test_a_right_gradient(case: Case) -> None:
    _installed(case)
    report = gradcli.check(case.target, case.at, **case.options)
    said = [f.message for p in report.points for f in p.findings if f.severity in ("error", "inconclusive")]
    assert report.verdict == case.verdict, said


@pytest.mark.parametrize("case", left_open.CASES, ids=lambda case: case.name)
def test_a_planted_mistake(case: Case) -> None:
    _installed(case)
    options = {name: 1e-5 if name == "rtol" else x for name, x in case.options.items()}
    report = gradcli.check(left_open.slipped(case), case.at, **options)
    # the gradient of a staircase is 0 whatever the slip inside it does, so that the whole is not shown to be wrong
    assert report.verdict == ("inconclusive" if case.name == "rounding in JAX" else "fail")
    if case.verdict == "pass":
        assert report.points[0].modes["claim"].verdict == "disagree"


def test_torch_warns_of_nothing_that_it_does_not_warn_of_alone() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for case in left_open.CASES:
            if case.package == "torch":
                gradcli.check(case.target, case.at, **case.options)
    assert [str(w.message) for w in heard if "torch" in w.filename] == []
