"""A framework that is not installed is said to be so, with the command that installs it, and nothing else of it is asked."""

import importlib.util
from typing import Any

import pytest

FILE = "def f(x):\n    return x * x\n"


@pytest.mark.parametrize(
    ("name", "package"), [("tensorflow", "tensorflow"), ("mlx", "mlx"), ("torch", "torch"), ("jax", "jax")]
)
def test_a_target_in_a_framework_that_is_not_there_is_refused_with_the_command(
    gradcli: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda top, *rest: None if top == package else found(top, *rest))
    file = tmp_path / f"square_{name}.py"
    file.write_text(FILE)
    ran = gradcli("check", f"{file}:f", "--at", "x=3.0", "--framework", name)
    assert ran.exit_status == 2
    assert f"{name} is not installed" in ran.stderr
    assert f'in a clone of gradcli: pip install ".[{name}]"' in ran.stderr


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let these packages not be installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name in packages else real(name, *rest)
    )


@pytest.mark.parametrize("command", ["check", "compare-modes"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_device_for_an_expression_needs_a_framework(
    gradcli: Any, monkeypatch: pytest.MonkeyPatch, command: str, device: str
) -> None:
    without(monkeypatch, "torch", "jax")
    ran = gradcli(command, "x**2", "x=1", "--device", device)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        f"error: --device {device} needs torch or jax",
        "  expressions and numpy functions run on a device in a framework, and neither is installed",
        '  in a clone of gradcli: pip install ".[torch]" or pip install ".[jax]"',
    ]


def test_a_device_for_a_numpy_function_needs_one_too(
    gradcli: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "torch", "jax")
    (tmp_path / "square.py").write_text(FILE)
    ran = gradcli("check", f"{tmp_path}/square.py:f", "x=3", "--device", "cuda", "--json")
    error = ran.json["error"]
    assert (ran.exit_status, error["message"]) == (2, "--device cuda needs torch or jax")
    assert error["where"].startswith("expressions and numpy functions run on a device")


def test_a_framework_that_is_named_and_not_installed_is_unavailable(
    gradcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "torch", "jax")
    ran = gradcli("check", "x**2", "x=1", "--modes", "rev,fd,torch", "--device", "cuda", "--json")
    assert (ran.exit_status, ran.json["points"][0]["modes"]["torch"]["status"]) == (2, "unavailable")
