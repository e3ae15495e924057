"""A small project with a suite, for the tests of suites."""

from pathlib import Path

LOSSES = """
import numpy as np
from shared import scale

def good(r):
    return np.sum(scale(r) ** 2)

def good_grad(r):
    return 2 * scale(r) * 3.0

def bad(r):
    return np.sum(r**3)

def bad_grad(r):
    return 2 * r**2

def kinked(r):
    return np.sum(np.abs(r))
"""
SHARED = "def scale(r):\n    return 3.0 * r\n"
QUICK = 'modes = "reverse,fd"\n'
SUITE = f"""{QUICK}
[[check]]
id = "good"
target = "losses.py:good"
grad = "good_grad"
at = ["r=[0.5, 1.5]", "r=[1, 2, 3]"]

[[check]]
id = "bad"
target = "losses.py:bad"
grad = "bad_grad"
at = "r=[0.5, 1.5]"

[[check]]
id = "kinked"
target = "losses.py:kinked"
at = "r=[0.0, 1.5]"

[[check]]
target = "x**2"
at = "x=3"

[[check]]
id = "lost"
target = "nowhere.py:f"
at = "x=3"
"""
VERDICTS = {"good": "pass", "bad": "fail", "kinked": "inconclusive", "x**2": "pass", "lost": "error"}


def written(folder: Path, suite: str = SUITE, **files: str) -> Path:
    """Write the project into a folder and return it."""
    for name, text in {"losses": LOSSES, "shared": SHARED, **files}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "gradcli.toml").write_text(suite)
    return folder
