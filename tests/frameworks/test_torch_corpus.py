"""Custom backward passes that torch has ways of its own for (saved results, straight-through): no right one is flagged, every wrong one is caught and named."""

import importlib
from typing import Any

import pytest

import gradcli

pytest.importorskip("torch", reason="torch is not installed")

CASES = importlib.import_module("tests.frameworks.corpus.torch_functions").CASES
WRONG = [(case, said) for case in CASES for said in case.wrong]


def checked(function: Any, case: Any) -> Any:
    return gradcli.check(function, {"xs": tuple(case.inputs.values())}, framework="torch", expect=case.expect)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_backward_is_not_flagged(case: Any) -> None:
    report = checked(case.right, case)
    assert report.verdict == "pass", str(report)
    assert [(part.name, part.verdict) for part in report.native.parts] == [(case.name, "pass")]


@pytest.mark.parametrize(("case", "said"), WRONG, ids=[f"{case.name}: {said}" for case, said in WRONG])
def test_a_wrong_backward_is_caught_and_named(case: Any, said: str) -> None:
    report = checked(case.wrong[said], case)
    assert report.exit_status == 1, str(report)
    assert [(part.name, part.verdict) for part in report.native.parts] == [(case.name, "fail")]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 9
