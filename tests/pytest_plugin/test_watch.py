"""`pytest --gradcli-watch`: the gradients that tests use are checked after them."""

import pytest

TEST = """
import numpy as np
from scipy.optimize import minimize


def loss(x):
    return np.sum(x**4)


def loss_grad(x):
    return {factor} * x**3


def test_fit():
    assert minimize(loss, [1.0, 2.0], jac=loss_grad).x.shape == (2,)


def test_other():
    assert minimize(loss, [1.0, 2.0, 3.0], jac=loss_grad).x.shape == (3,)
"""


def run(pytester: pytest.Pytester, factor: int, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_fit=TEST.format(factor=factor))
    return pytester.runpytest_subprocess("--gradcli-watch", *options)


@pytest.mark.slow
def test_gradients_that_tests_use_are_checked(pytester: pytest.Pytester) -> None:
    result = run(pytester, 4)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*gradients that the tests use*", "*PASS*test_fit.py:9*loss_grad*right to*", "1 gradient: 1 passed"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_a_wrong_gradient_fails_a_run_whose_tests_pass(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = run(pytester, 5, *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*FAIL*test_fit.py:9*loss_grad*wrong*", "*Likely mistake*"])


@pytest.mark.slow
def test_without_the_option_nothing_is_watched(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_fit=TEST.format(factor=5))
    result = pytester.runpytest_subprocess()
    assert result.ret == 0
    assert "gradients that the tests use" not in result.stdout.str()
