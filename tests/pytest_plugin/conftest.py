"""What the tests of the plugin share: runs of pytest in a folder of their own, and a project with a suite."""

import sys
from collections.abc import Callable

import pytest

from gradcli.testing import assert_gradient

MODES = 'modes="reverse,fd"'  # which take the least time
LOSSES = """
import numpy as np

def cube(x):
    return np.sum(x**3)

def cube_grad(x):
    return 3 * x**2

def wrong_grad(x):
    return 2 * x**2
"""
CHECKS = {  # what a check of the suite asks for that ends so
    "passed": 'target = "x**2"\ngrad = "2*x"',
    "failed": 'target = "x**2"\ngrad = "-2*x"',
    "inconclusive": 'target = "abs(x)"',
    "errors": 'target = "sine(x)"',
}
GOOD_AND_BAD = "focal: passed\nhinge: failed\nkinked: inconclusive\nlost: errors\n"


def suite_of(lines: str) -> str:
    """Return a suite with a check for each line `id: how it ends`."""
    pairs = [line.split(": ") for line in lines.splitlines()]
    return "".join(
        f'[[check]]\nid = "{name}"\n{CHECKS[end]}\nat = "x=0"\nmodes = "reverse,fd"\n'.replace(
            "x=0", "x=0" if end == "inconclusive" else "x=1"
        )
        for name, end in pairs
    )


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    """Load what checks load before the inner runs: what they load is unloaded after them, and numpy loads only once."""
    assert_gradient("x**2 + erf(x)", "x=1")
    assert_gradient(lambda x: x**2, 1.0, grad=lambda x: 2 * x)


@pytest.fixture(autouse=True)
def _outside_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the inner run one of its own, also where this test runs in a worker."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "losses", raising=False)
    import pytest_gradcli

    for name in pytest_gradcli.THREADS:
        monkeypatch.setenv(name, "1")  # the inner run would set them in this process


@pytest.fixture
def project(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Return a function that runs pytest in this process in a project: losses.py, a suite if one is given, and a test file."""

    def run(tests: str = "", *args: str, suite: str | None = None) -> pytest.RunResult:
        pytester.makefile(".ini", pytest="[pytest]\nfilterwarnings = error\n")
        pytester.makepyfile(losses=LOSSES)
        if suite is not None:
            pytester.makefile(".toml", gradcli=suite_of(suite))
        if tests:
            pytester.makepyfile(test_it=f"import numpy as np, pytest\nX = np.array([1.0, 2.0])\n{tests}")
        return pytester.runpytest_inprocess("--strict-markers", "-p", "no:hypothesispytest", *args)

    return run
