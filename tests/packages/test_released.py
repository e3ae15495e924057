"""Gradients of released packages: each passes, by the mode that is expected; a mistake planted in each is caught."""

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import gradcli
from tests.packages.cases import Case

PACKAGES = {
    "statsmodels": "of_statsmodels",
    "sklearn": "of_sklearn",
    "scipy": "of_scipy",
    "lifelines": "of_lifelines",
    "ot": "of_ot",
    "optax": "of_optax",
    "jaxopt": "of_jaxopt",
    "ott": "of_ott",
    "entmax": "of_entmax",
    "torchdiffeq": "of_torchdiffeq",
    "openmdao": "of_openmdao",
    "pymanopt": "of_pymanopt",
    "autograd_gamma": "of_autograd_gamma",
}
HERE = [package for package in PACKAGES if importlib.util.find_spec(package) is not None]
FEWEST_CASES, FEWEST_PACKAGES, FEWEST_TRACED = 100, 13, 80
MOST_GLUE = 4  # lines of a case that a user has to write, on average


@functools.cache
def module(package: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # packages warn of others that they use
        return importlib.import_module(f"tests.packages.{PACKAGES[package]}")


def cases() -> Iterator[Any]:
    for package in PACKAGES:
        if package not in HERE:
            yield pytest.param(None, id=package, marks=pytest.mark.skip(f"{package} is not installed"))
            continue
        for case in module(package).CASES:
            yield pytest.param(case, id=f"{package}: {case.name}")


CASES = list(cases())


def checked(case: Case, *, wrong: bool) -> Any:
    """Check a case, or the mistake planted in it."""
    options = dict(case.options)
    f = case.wrong if wrong and case.claim is None else case.f
    if case.kind == "value_and_grad":
        options[case.kind] = True
    elif case.claim is not None:
        options[case.kind] = case.wrong if wrong else case.claim
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gradcli.check(f, case.at, **options)


@pytest.mark.parametrize("case", CASES)
def test_a_released_gradient_passes(case: Case) -> None:
    report = checked(case, wrong=False)
    assert report.verdict == "pass", str(report)
    (point,) = report.points
    messages = {mode.message for mode in point.modes.values()}
    by_quick_look = "reverse and function values decide" in messages
    assert point.reference == ("reverse" if by_quick_look and case.reference == "certified" else case.reference)
    ended = [f"{f.message} {f.source}" for f in point.findings if f.kind == "untraced"]
    if case.ended_by is None:
        assert ended == [], "a trace that is expected ended"
    else:
        assert any(case.ended_by in text for text in ended), ended


@pytest.mark.parametrize("case", CASES)
def test_a_planted_mistake_is_caught(case: Case) -> None:
    report = checked(case, wrong=True)
    assert report.verdict == "fail", str(report)


@pytest.mark.skipif(len(HERE) < len(PACKAGES), reason="not all packages are installed")
def test_there_are_enough_of_them() -> None:
    found = [case for package in PACKAGES for case in module(package).CASES]
    assert len(found) >= FEWEST_CASES and len(PACKAGES) >= FEWEST_PACKAGES
    assert sum(case.ended_by is None for case in found) >= FEWEST_TRACED
    assert sum(case.glue for case in found) <= MOST_GLUE * len(found)
