"""What is checked is the source as it is, though Python would take older bytecode for its own."""

import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.process.start import may_use_bytecode
from tests.rows import for_rows

RIGHT = "def f(x):\n    return x**2\n\ndef g(x):\n    return 2*x\n"
WRONG = RIGHT.replace("2*x", "3*x")
USES = "from slopes import f, g\n"
SUITE = '[[check]]\ntarget = "{}:f"\ngrad = "g"\nat = "x=1.5"\nmodes = "reverse,fd"\n'


def changed_within_a_second(folder: Path, name: str) -> None:
    """Write a wrong gradient whose file has the bytecode, the size and the time of a right one."""
    file = folder / name
    file.write_text(RIGHT)
    os.utime(file, (1e9, 1e9))
    py_compile.compile(str(file))
    file.write_text(WRONG)
    os.utime(file, (1e9, 1e9))


@pytest.mark.parametrize("target", ["slopes.py", "uses.py"])
@pytest.mark.parametrize("declared", [False, True])
def test_older_bytecode_lets_no_wrong_gradient_pass(
    process: Callable[..., Any], tmp_path: Path, target: str, declared: bool
) -> None:
    changed_within_a_second(tmp_path, "slopes.py")
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "gradcli.toml").write_text(SUITE.format(target))
    words = () if declared else (f"{target}:f", "x=1.5", "--grad", "g", "--modes", "reverse,fd")
    assert process("check", *words, cwd=tmp_path).exit_status == 1


def test_bytecode_of_installed_packages_is_read(process: Callable[..., Any], tmp_path: Path) -> None:
    """The same is no error there: an installer writes source and bytecode together."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    changed_within_a_second(folder, "slopes.py")
    (tmp_path / "uses.py").write_text(f"import sys\nsys.path.append({str(folder)!r})\n{USES}")
    words = ("uses.py:f", "x=1.5", "--grad", "g", "--modes", "reverse,fd")
    assert process("check", *words, cwd=tmp_path).exit_status == 0


@pytest.mark.slow
def test_a_program_that_is_watched_runs_its_source_too(tmp_path: Path) -> None:
    changed_within_a_second(tmp_path, "slopes.py")
    (tmp_path / "fit.py").write_text(f"from scipy.optimize import minimize\n{USES}minimize(f, [1.5], jac=g)\n")
    words = [sys.executable, "-m", "gradcli", "run", "fit.py"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 1


@for_rows(
    ("path", "trusted"),
    [
        (json.__file__, True),
        (pytest.__file__, True),
        (f"{sys.prefix}/src/project/losses.py", False),
        (f"{sys.prefix}/losses.py", False),
        ("/home/me/my-site-packages/losses.py", False),
    ],
)
def test_a_project_inside_an_environment_is_the_users(path: str, trusted: bool) -> None:
    assert may_use_bytecode(path) is trusted
