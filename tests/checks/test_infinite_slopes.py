"""A rule without a finite slope at the point: function values decide on a claim, and zeros are seen to be zeros."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CODE = """
import numpy as np

def cosine(x): return np.cos(np.linalg.norm(x))
def exponential(x):
    t = np.linalg.norm(x)
    return np.sum(np.cos(t) + np.sinc(t/np.pi)*x)
def beside(x, y): return np.cos(np.linalg.norm(x)) + y**2
def norm(x): return np.linalg.norm(x)
def bent(x): return np.linalg.norm(x) + np.sum(np.sin(x))
def cube_root(x): return np.sum(np.cbrt(x))
def root(x): return np.sqrt(x)

def diagonal(x): return np.sqrt(np.abs(x[0]*x[1]))
def cubic(x): return np.cbrt(x[0]*x[1]*x[2]) + x[0]
def guarded(x): return x[0]**2*x[1]/np.linalg.norm(x)**2 if np.linalg.norm(x) > 0 else 0.0*x[0]
def smooth_guarded(x):
    t = np.linalg.norm(x)
    return np.sum(np.sin(t)/t*x) if t > 0 else np.sum(x)

def even(x): return np.cos(x[0].__float__()**2 + x[1].__float__()**2)
def parabola(x): return x.__float__()**2 + 3
def absolute(x): return abs(x.__float__()) + 1
def rounded(x): return float(np.round(x.__float__()))
def largest(x): return float(np.argmax([v.__float__() for v in x]))
def relu(x): return max(x.__float__(), 0.0)
def without(x, y): return y.__float__()**2
"""
ORIGIN = "x=[0,0]"
CASES = [
    # the rule of norm has no slope at 0; the function has one
    ("cosine", ORIGIN, "x=0*x", "pass"),
    ("cosine", ORIGIN, "x=0*x+0.1", "fail"),
    ("cosine", ORIGIN, "x=0/x", "fail"),
    ("exponential", ORIGIN, "x=0*x+1", "pass"),
    ("exponential", ORIGIN, "x=0*x+1.001", "fail"),
    ("beside", f"{ORIGIN}, y=2", "x=0*x, y=2*y", "pass"),
    ("beside", f"{ORIGIN}, y=2", "x=0*x, y=3*y", "fail"),
    # it has none
    ("norm", ORIGIN, "x=0*x", "kink"),
    ("norm", ORIGIN, "x=0*x+0.3", "kink"),
    ("norm", ORIGIN, "x=0/x", "kink"),
    ("bent", ORIGIN, "x=cos(x)", "kink"),
    ("diagonal", ORIGIN, "x=0*x", "kink"),
    ("cubic", "x=[0,0,0]", "x=[1,0,0]", "kink"),
    ("guarded", ORIGIN, "x=0*x", "kink"),
    ("smooth_guarded", ORIGIN, "x=0*x+1", "pass"),
    ("smooth_guarded", ORIGIN, "x=0*x+1.01", "fail"),
    ("cube_root", "x=0", "x=1e6", "non-finite"),
    ("root", "x=0", "x=0", "non-finite"),
    # zeros of functions that can only be called
    ("even", ORIGIN, "x=0*x+0.1", "fail"),
    ("even", ORIGIN, "x=0*x", "pass"),
    ("parabola", "x=0", "x=1e-3", "fail"),
    ("parabola", "x=0", "x=0/x", "fail"),
    ("absolute", "x=0", "x=0.3", "kink"),
    ("rounded", "x=1.2", "x=0", "staircase"),
    ("rounded", "x=1.2", "x=1", "noise"),
    ("largest", "x=[1,2]", "x=0*x", "staircase"),
    ("relu", "x=-1", "x=0", "pass"),
    ("without", "x=1, y=2", "x=0, y=2*y", "pass"),
]


@pytest.mark.parametrize(("f", "at", "grad", "expected"), CASES)
def test_function_values_decide(
    gradcli: Callable[..., Any], tmp_path: Path, f: str, at: str, grad: str, expected: str
) -> None:
    file = tmp_path / "places.py"
    file.write_text(CODE)
    document = gradcli("check", f"{file}:{f}", "--at", at, "--grad", grad, "--json").json
    kinds = {f["kind"] for f in document["points"][0]["findings"] if f["severity"] == "inconclusive"}
    assert document["verdict"] == (expected if expected in ("pass", "fail") else "inconclusive")
    assert expected in ("pass", "fail") or expected in kinds
    assert not {"kink", "non-finite"} <= kinds


def test_without_a_claim_the_reason_is_the_rule(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "places.py"
    file.write_text(CODE)
    ran = gradcli("check", f"{file}:cosine", ORIGIN)
    assert ran.exit_status == 3 and "the slope of norm is not finite" in ran.stdout
