"""Custom backward passes in every framework: no right one is flagged, every wrong one is caught and named, in a program."""

import importlib.util
from typing import Any

import pytest

import gradcli
from tests.frameworks.corpus.custom import WAYS, cases, program
from tests.frameworks.corpus.functions import CASES

# Functions of TensorFlow and MLX are compared by values alone: every fourth case is enough. Every wrong version is caught in
# torch or in JAX, alternately.
STEPS = {"torch": 1, "jax": 1, "tensorflow": 4, "mlx": 4}
EACH = [(framework, k) for framework in WAYS for k in range(0, len(CASES), STEPS[framework])]
NAMES = [f"{framework}-{CASES[k].name}" for framework, k in EACH]


def checked(framework: str, case: Any, custom: Any) -> Any:
    return gradcli.check(program(custom, tuple(case.inputs)), dict(case.inputs), framework=framework)


def test_there_are_enough() -> None:
    assert len(CASES) >= 28
    assert all(case.wrong for case in CASES)


@pytest.mark.parametrize(("framework", "k"), EACH, ids=NAMES)
def test_a_right_backward_pass_is_not_flagged_and_each_wrong_one_is_found_where_it_is(framework: str, k: int) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    case = cases(framework)[k]
    report = checked(framework, case, case.right)
    assert (report.verdict, report.exit_status) == ("pass", 0), str(report)
    assert [(part.name, part.verdict) for part in report.native.parts] == [(case.name, "pass")], str(report)
    of_both = framework in ("torch", "jax")
    for j, (says, wrong) in enumerate(case.wrong.items()):
        if of_both and (j + k) % 2 != list(WAYS).index(framework):
            continue
        report = checked(framework, case, wrong)
        assert (report.verdict, report.exit_status) == ("fail", 1), says
        assert [(part.name, part.verdict) for part in report.native.parts] == [(case.name, "fail")], says
