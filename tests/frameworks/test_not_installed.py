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
    assert f"pip install 'gradcli[{name}]'" in ran.stderr
