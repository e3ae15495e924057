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
# A stand-in for gradcli's reader of suites: a check is a line `id: outcome` of gradcli.toml.
SUITE = """
import sys, types, warnings
from dataclasses import dataclass
from pathlib import Path

@dataclass(frozen=True)
class Check:
    id: str
    outcome: str

@dataclass(frozen=True)
class Suite:
    path: Path
    checks: tuple

@dataclass(frozen=True)
class Row:
    id: str
    counted: str
    seed: int = 0
    mistake: str = "the sign is flipped"

    @property
    def replay(self):
        return f"gradcli check -k {self.id}"

    def said(self):
        return f"{self.counted.upper()}  {self.id}: in a line"

    def text(self):
        return f"{self.counted.upper()}  {self.id}\\n  in full"

def find_suite(folder, profile=None):
    path = next((path for path in (folder / "gradcli.toml", folder.parent / "gradcli.toml") if path.exists()), None)
    if path is None:
        return None
    pairs = [line.split(": ") for line in path.read_text().splitlines()]
    return Suite(path, tuple(Check(*pair) for pair in pairs))

def checked(suite, check):
    warnings.warn("invalid value encountered in log", RuntimeWarning)
    return Row(check.id, check.outcome)

for name, members in {"": {}, ".config": {"find_suite": find_suite}, ".job": {"checked": checked}}.items():
    module = sys.modules["gradcli.suite" + name] = types.ModuleType("gradcli.suite" + name)
    vars(module).update(members)
"""
GOOD_AND_BAD = "focal: passed\nhinge: failed\nkinked: inconclusive\nlost: errors\n"


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
            pytester.makeconftest(SUITE)
            pytester.makefile(".toml", gradcli=suite)
        if tests:
            pytester.makepyfile(test_it=f"import numpy as np, pytest\nX = np.array([1.0, 2.0])\n{tests}")
        return pytester.runpytest_inprocess("--strict-markers", "-p", "no:hypothesispytest", *args)

    return run
