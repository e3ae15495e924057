"""A function that is rounded, noisy or random gets its step from the size of its noise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Gradcli = Callable[..., Any]

CODE = """
import itertools
import numpy as np
DRAWS = np.random.default_rng(7)
def rounded(x): return np.round(np.exp(x), 4)
def as_text(x): return float(f"{np.exp(x):.4f}")
def printed(x): return float("%.4f" % np.exp(x))
def extremum(x): return (x - 1.3)**2 + 5
def noisy(x): return np.exp(x) + 1e-6*np.sin(1e10*x)
def random(x): return np.exp(x) + 1e-4*DRAWS.standard_normal()
def smooth(x): return np.exp(x)
def constant(x): return 3.0 + 0*x
"""


def swept(gradcli: Gradcli, tmp_path: Path, name: str, *more: str) -> Any:
    file = tmp_path / "losses.py"
    file.write_text(CODE)
    return gradcli("sweep", f"{file}:{name}", "x=1.3", *more)


@pytest.mark.parametrize(
    ("name", "level", "more"),
    [
        ("rounded", 1e-4 / np.sqrt(12), ()),
        ("as_text", 1e-4 / np.sqrt(12), ()),
        ("printed", 1e-4 / np.sqrt(12), ()),
        ("noisy", 1e-6 / np.sqrt(2), ()),
        ("random", 1e-4, ("--samples", "200")),
    ],
)
def test_the_step_follows_from_the_noise(
    gradcli: Gradcli, tmp_path: Path, name: str, level: float, more: tuple[str, ...]
) -> None:
    document = swept(gradcli, tmp_path, name, *more, "--json").json
    noise = document["noise"]
    assert 0.3 < noise["level"] / level < 3
    steps = {step["scheme"]: step for step in noise["steps"]}
    right = (3 * level / np.exp(1.3)) ** (1 / 3)  # of central differences: f and all its derivatives are exp
    assert 1 / 3 < steps["central"]["h_absolute"] / right < 3
    assert steps["central"]["h"] * 1.3 == pytest.approx(steps["central"]["h_absolute"])
    assert steps["central"]["error"] < steps["forward"]["error"]
    assert document["exit_status"] == 0


@pytest.mark.parametrize("name", ["rounded", "as_text", "printed"])
def test_a_rounded_function_has_no_curves_of_error_0(gradcli: Gradcli, tmp_path: Path, name: str) -> None:
    ran = swept(gradcli, tmp_path, name)
    assert "Values of f scatter by" in ran.stdout and ran.stdout.startswith("Use h = 0.0")
    assert swept(gradcli, tmp_path, name, "--json").json["curves"] == []


def test_differences_at_the_step_have_the_error_that_is_said(gradcli: Gradcli) -> None:
    for x in np.linspace(0.5, 3, 7):
        step = gradcli("sweep", "round(exp(x), 5)", f"x={x}", "--json").json["noise"]["steps"][1]
        h = step["h_absolute"]
        slope = (np.round(np.exp(x + h), 5) - np.round(np.exp(x - h), 5)) / (2 * h)
        assert abs(slope - np.exp(x)) < 4 * step["error"] / x


@pytest.mark.parametrize("name", ["smooth", "constant", "extremum"])
def test_other_functions_have_no_noise(gradcli: Gradcli, tmp_path: Path, name: str) -> None:
    document = swept(gradcli, tmp_path, name, "--json").json
    assert "noise" not in document and document["curves"]


def test_without_samples_the_option_is_named(gradcli: Gradcli, tmp_path: Path) -> None:
    ran = swept(gradcli, tmp_path, "random")
    assert ran.exit_status == 3 and "--samples 100" in ran.stdout
