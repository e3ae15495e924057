"""Custom backward passes that JAX has ways of its own for (forward rules, residuals, loops): no right one is flagged, every wrong one is caught and named, in the middle of a program."""

import pytest

import gradcli

pytest.importorskip("jax", reason="JAX is not installed")

from tests.frameworks.corpus.jax_functions import CASES
from tests.frameworks.corpus.programs import jax_program

RIGHT = {case.name: case for case in CASES}
WRONG = {f"{case.name}: {says}": (case, wrong) for case in CASES for says, wrong in case.wrong.items()}


def test_there_are_enough() -> None:
    assert len(RIGHT) >= 14
    assert all(case.wrong for case in CASES)


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    case = RIGHT[name]
    report = gradcli.check(jax_program(case.right), dict(case.inputs))
    assert report.verdict == "pass", report
    assert [(part.name, part.verdict) for part in report.native.parts] == [(name, "pass")], report


@pytest.mark.parametrize("what", WRONG)
def test_wrong(what: str) -> None:
    case, wrong = WRONG[what]
    report = gradcli.check(jax_program(wrong), dict(case.inputs))
    assert report.exit_status == 1, report
    assert [(part.name, part.verdict) for part in report.native.parts] == [(case.name, "fail")], report
