"""Nothing heavy is imported before it is needed; each case runs in a fresh interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"numpy", "sympy", "scipy", "flint", "rich", "typer"}
FRAMEWORKS = {"torch", "jax", "tensorflow", "mlx", "autograd"}
PROGRAM = """
import sys
{body}
sys.stderr.write("LOADED " + " ".join(sorted(sys.modules)))
sys.exit(status)
"""
RUN = "from gradcli.cli.main import run\nstatus = run({argv!r})"


def loaded(body: str, path: Path | None = None, status: int = 0) -> set[str]:
    """Return the modules that are loaded after a program has run, with a folder of modules before all others."""
    environ = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        capture_output=True, text=True, timeout=120, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    said, _, modules = done.stderr.rpartition("LOADED ")
    assert said == ""
    return set(modules.split())


# fmt: off
CASES = {
    "the package":    ("import gradcli; status = 0",                                               HEAVY | FRAMEWORKS),
    "its names":      ("import gradcli; dir(gradcli); gradcli.__version__; status = 0",            HEAVY | FRAMEWORKS),
    "--version":      ("from gradcli.__main__ import run_command; status = run_command(['--version'])", HEAVY | FRAMEWORKS),
    "--help":         (RUN.format(argv=["--help"]),                                                HEAVY - {"rich", "typer"} | FRAMEWORKS),
    "check --help":   (RUN.format(argv=["check", "--help"]),                                       HEAVY - {"rich", "typer"} | FRAMEWORKS),
    "check":          (RUN.format(argv=["check", "sin(x*y)", "x=1", "y=2"]),                       {"sympy", "scipy"} | FRAMEWORKS),
    "grad":           (RUN.format(argv=["grad", "sin(x*y)", "x=1", "y=2"]),                        {"sympy", "scipy"} | FRAMEWORKS),
    "trace":          (RUN.format(argv=["trace", "x*y", "x=1", "y=2", "--json"]),                  {"sympy", "scipy", "rich.console"} | FRAMEWORKS),
    "explain":        (RUN.format(argv=["explain", "kink"]),                                       HEAVY - {"rich", "typer"} | FRAMEWORKS),
    "schema":         (RUN.format(argv=["schema", "error"]),                                       {"sympy", "scipy", "flint"} | FRAMEWORKS),
}
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_heavy_modules_stay_out(case: str, tmp_path: Path) -> None:
    body, unwanted = CASES[case]
    assert not unwanted & loaded(body, stand_ins(tmp_path))


@pytest.mark.slow
def test_explanations_are_loaded_by_their_command_alone() -> None:
    argv = ["check", "abs(x)", "x=0", "--modes", "forward,fd"]
    assert "gradcli.report.explain" not in loaded(RUN.format(argv=argv), status=3)


@pytest.mark.slow
def test_scipy_is_imported_for_its_functions() -> None:
    argv = ["check", "erf(x)", "x=1", "--modes", "forward,fd"]
    modules = loaded(RUN.format(argv=argv))
    assert "scipy.special" in modules and "sympy" not in modules


ASKED = {
    "check with all modes": ["check", "x**2", "x=1", "--modes", "all"],
    "compare-modes with all modes": ["compare-modes", "x**2", "x=1", "--modes", "all"],
    "derive": ["derive", "x**2"],
    "modes": ["modes"],
}


def stand_ins(folder: Path) -> Path:
    """Return a folder of empty modules with the names of the frameworks."""
    for name in FRAMEWORKS:
        (folder / f"{name}.py").write_text("def constant(x): ...\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", ASKED)
def test_no_framework_is_imported_unless_it_is_asked_for(case: str, tmp_path: Path) -> None:
    assert not FRAMEWORKS & loaded(RUN.format(argv=ASKED[case]), stand_ins(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FRAMEWORKS - {"autograd"}))
def test_a_framework_that_is_asked_for_is_imported(name: str, tmp_path: Path) -> None:
    argv = ["check", "x**2", "x=1", "--modes", f"reverse,fd,{name}"]
    assert FRAMEWORKS & loaded(RUN.format(argv=argv), stand_ins(tmp_path)) == {name}


def test_the_interpreter_of_the_test_sees_what_is_loaded() -> None:
    assert "numpy" in loaded("import numpy; status = 0")
