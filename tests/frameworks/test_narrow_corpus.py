"""Custom backward passes in narrow formats: no right one is flagged or left open, and wrong ones are caught."""

import importlib
from typing import Any

import pytest

import gradcli
from tests.frameworks.corpus.custom import cases, program

pytest.importorskip("torch", reason="torch is not installed")

FORMATS = ("bfloat16", "float16")
NOT_IN_TORCH = {"cholesky_solve", "log_determinant"}  # torch has none of their operations in these formats
CASES = [case for case in cases("torch") if case.name not in NOT_IN_TORCH]
SIMILAR = "that of the other variant"  # differs from the right one by less than an ulp


def checked(function: Any, case: Any, dtype: str) -> Any:
    return gradcli.check(program(function, tuple(case.inputs)), dict(case.inputs), framework="torch", dtype=dtype)


@pytest.mark.parametrize("k", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_right_one_passes_and_a_wrong_one_fails(k: int) -> None:
    case = CASES[k]
    report = checked(case.right, case, FORMATS[k % 2])
    assert (report.verdict, report.exit_status) == ("pass", 0), str(report)
    assert report.native.exactness.ratio < 4
    for said, wrong in list(case.wrong.items())[:1]:
        assert checked(wrong, case, FORMATS[(k + 1) % 2]).exit_status == 1, said


def test_what_bfloat16_cannot_show_is_seen_in_a_wider_format() -> None:
    (case,) = [case for case in CASES if SIMILAR in case.wrong]
    report = checked(case.wrong[SIMILAR], case, "bfloat16")
    assert report.exit_status == 1
    assert "which bfloat16 has too few digits to show" in report.sentence()


def test_a_right_one_in_torch_of_its_own_passes() -> None:
    for case in importlib.import_module("tests.frameworks.corpus.torch_functions").CASES[:3]:
        report = gradcli.check(case.right, {"xs": tuple(case.inputs.values())}, framework="torch", dtype="bfloat16")
        assert report.verdict == "pass", str(report)
