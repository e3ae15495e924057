"""The fixture and the marker, in tests that people write."""

import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest

from tests.pytest_plugin.conftest import MODES

Project = Callable[..., pytest.RunResult]


def test_the_fixture_returns_the_report_and_takes_its_seed_from_the_test(project: Project) -> None:
    seed = zlib.crc32(b"test_it.py::test_a")
    result = project(f"""
def test_a(gradcheck):
    report = gradcheck(lambda x: np.sum(x**3), X, grad=lambda x: 3 * x**2, {MODES})
    assert report.passed and report.seed == {seed}
    assert gradcheck("x**2", grad="x=2*x", seed=7, {MODES}).seed == 7

@pytest.mark.parametrize("k", [1, 2])
def test_b(gradcheck, k):
    assert gradcheck("x**2", grad="x=2*x", {MODES}).seed != {seed}
""")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["gradcli: 4 gradients checked"])


def test_a_wrong_gradient_fails_with_the_report_the_section_and_the_summary(project: Project) -> None:
    result = project(f"""
def test_a(gradcheck):
    gradcheck(lambda x: np.sum(x**3), X, grad=lambda x: 2 * x**2, {MODES})
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "E * gradcli.errors.NotConfirmed: FAIL  test_a.<lambda>: the claimed gradient is wrong in 2 of 2 entries",
        "E * x[[]0[]] * 2 * 3  0.667",
        "*- gradcli -*",
        "FAIL  test_a.<lambda>: the claimed gradient is wrong in 2 of 2 entries",
        "likely mistake: *",
        "again: pytest test_it.py::test_a",
        "gradcli: 1 gradient checked, 1 failed",
        "FAILED test_it.py::test_a - FAIL  *",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("FAILED *NotConfirmed*")
    result.stdout.no_fnmatch_line("*pytest_gradcli.py*")
    result.stdout.no_fnmatch_line("*testing.py*")


def test_a_text_is_repeated_by_the_program(project: Project) -> None:
    result = project(f"""
def test_a(gradcheck):
    gradcheck("losses.py:cube", "x=[1, 2]", grad="wrong_grad", seed=3, {MODES})
""")
    result.stdout.fnmatch_lines([
        "again: gradcli check losses.py:cube --at 'x=[[]1, 2[]]' --grad wrong_grad --modes reverse,fd --seed 3"
    ])  # fmt: skip


INCONCLUSIVE = """
def test_fixture(gradcheck):
    gradcheck("abs(x)", "x=0", grad="x=3")

@pytest.mark.gradient("abs(x)", grad="x=3", at="x=0")
def test_marker():
    pass
"""


@pytest.mark.parametrize(("word", "outcome"), [("fail", "failed"), ("skip", "skipped"), ("xfail", "xfailed")])
def test_what_is_inconclusive_becomes_what_is_asked_for(project: Project, word: str, outcome: str) -> None:
    result = project(INCONCLUSIVE, f"--gradcli-inconclusive={word}", "-rfsx")
    result.assert_outcomes(**{outcome: 2})
    result.stdout.fnmatch_lines(["gradcli: 2 gradients checked, 2 inconclusive"])
    result.stdout.fnmatch_lines(["* test_it.py*INCONCLUSIVE  *"] * 2)


def test_what_is_allowed_passes(project: Project) -> None:
    result = project("""
def test_a(gradcheck):
    assert gradcheck("floor(x)", "x=2", grad="x=0", allow="staircase,jump,kink").exit_status == 0
""")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gradcli: 1 gradient checked"])


def test_a_marker_checks_and_the_test_runs_once(project: Project) -> None:
    result = project(f"""
import losses
RAN = []

@pytest.mark.gradient("losses.py:cube", grad="cube_grad", at=["x=[1, 2]", "x=[3]"], {MODES})
@pytest.mark.gradient("losses:cube", grad="cube_grad", at="x=[1, 2]", {MODES})
@pytest.mark.gradient(losses.cube, grad=losses.cube_grad, at={{"x": X}}, {MODES})
@pytest.mark.gradient("x**3", grad="x=3*x**2", at="x=2", {MODES})
def test_a():
    RAN.append(1)

def test_it_ran_once():
    assert RAN == [1]
""")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["gradcli: 4 gradients checked"])


def test_all_markers_of_a_test_run_and_each_failure_is_shown(project: Project) -> None:
    result = project(f"""
@pytest.mark.gradient("losses.py:cube", grad="wrong_grad", at="x=[1, 2]", {MODES})
@pytest.mark.gradient("x**3", grad="x=3*x**2", at="x=2", {MODES})
@pytest.mark.gradient("x**2", grad="x=x", at="x=2", {MODES})
@pytest.mark.gradient("sine(x)", at="x=2")
@pytest.mark.gradient("x**2", at="x=2", mode="fd")
def test_a():
    print("ran")
""")
    result.assert_outcomes(failed=1)
    lines = [
        "ERROR  check() got an unexpected keyword argument 'mode'*",
        "ERROR  unknown function 'sine'",
        "sine(x)",
        "^^^^",
        "did you mean 'sin'?",
    ]
    result.stdout.fnmatch_lines([*lines, "FAIL  x[*][*]2: *", "FAIL  losses.py:cube: *", "ran", "*- gradcli -*"])
    result.stdout.fnmatch_lines(["gradcli: 5 gradients checked, 2 failed, 2 errors"])
    result.stdout.no_fnmatch_line("*pytest_gradcli.py*")
    result.stdout.no_fnmatch_line("*full-trace*")


def test_a_test_that_fails_by_itself_is_not_checked(project: Project) -> None:
    result = project("""
@pytest.mark.gradient("x**2", grad="x=x", at="x=2")
def test_a():
    assert False
""")
    result.assert_outcomes(failed=1)
    assert "gradient checked" not in result.stdout.str()


def test_assert_gradient_alone_has_the_section(project: Project) -> None:
    result = project(f"""
from gradcli.testing import assert_gradient

def test_a():
    assert_gradient("x**2", "x=1", grad="x=x", {MODES})
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- gradcli -*", "FAIL  x[*][*]2: *"])
    assert "gradients checked" not in result.stdout.str()


def test_without_the_plugin_nothing_of_it_is_there(project: Project) -> None:
    tests = "from gradcli.testing import assert_gradient\ndef test_a(): assert_gradient('x**2', 'x=1', grad='x=x')\n"
    result = project(tests, "-p", "no:gradcli")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*- gradcli -*")
    result.stdout.no_fnmatch_line("gradcli: *")


def test_without_the_plugin_there_is_no_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.gradient('x', at='x=1')\ndef test_a(): pass\n")
    # in a process of its own, as a process keeps the markers that it has met
    result = pytester.runpytest_subprocess("--strict-markers", "-p", "no:gradcli")
    result.stdout.fnmatch_lines(["*'gradient' not found in `markers` configuration option*"])


def test_the_marker_and_the_fixture_are_listed(pytester: pytest.Pytester) -> None:
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.gradient(target, grad=..., *"])
    pytester.runpytest_inprocess("--fixtures").stdout.fnmatch_lines(["gradcheck -- *"])


def test_neither_numpy_nor_gradcli_is_imported_before_a_check() -> None:
    program = "import sys, pytest; pytest.main(['--collect-only', '-q', '/dev/null']); print(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert "pytest_gradcli" in loaded
    assert not {"gradcli", "numpy"} & loaded
