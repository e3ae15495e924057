"""A project with a right and a wrong gradient, and what runs in it; each needs the extras mcp, lsp and watch."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = [name for name in ("mcp", "pygls", "watchfiles") if find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] * bool(MISSING)


def pytest_report_header() -> list[str]:
    """Say why nothing is run here, where that is so."""
    return [f"tests/servers needs the extras mcp, lsp and watch: {', '.join(MISSING)} not installed"] * bool(MISSING)


LAYERS = """import numpy as np
from activations import square


def energy(x):
    return np.sum(square(x))


def energy_grad(x):
    return x


def wave(x):
    return np.sum(np.sin(x))


def wave_grad(x):
    return np.cos(x)


def ramp(x):
    return np.sum(x**3)


def ramp_grad(x):
    return 3 * x**2
"""
SUITE = """[[check]]
id = "energy"
target = "layers.py:energy"
grad = "energy_grad"
at = "x=[1.0, 2.0, 3.0]"

[[check]]
id = "wave"
target = "layers.py:wave"
grad = "wave_grad"
at = "x=[1.0, 2.0, 3.0]"
"""
ENDS = """import os, time


def f(x):
    os._exit(3)


def never(x):
    open("began.txt", "w").close()
    time.sleep(600)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of the project; beside it lies a file that is no part of it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("def f(x):\n    return x\n")
    files = {
        "layers.py": LAYERS,
        "activations.py": "def square(x):\n    return x * x\n",
        "gradcli.toml": SUITE,
        "ends.py": ENDS,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def below(root: int) -> set[int]:
    """Return the processes that a process started, with those that these started; without those that have ended."""
    parents = {}
    for each in (path.name for path in Path("/proc").iterdir() if path.name.isdecimal()):
        try:
            state, parent = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(each)] = int(parent)
    return set(_below(root, parents))


def _below(root: int, parents: dict[int, int]) -> Iterator[int]:
    for each, parent in parents.items():
        if parent == root:
            yield each
            yield from _below(each, parents)
