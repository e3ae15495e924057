"""In a job of GitHub Actions no line that the user's code prints is a workflow command, and gradcli's own are."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gradcli.process.relay import without_commands
from tests.conftest import Ran
from tests.rows import for_rows

LOUD = """\
import os
import sys


def f(x):
    print("::error::printed")
    sys.stderr.write("##[error]written\\n")
    os.system("echo '  ::warning::by another process'")
    sys.stderr.write("the end of a line is missing")
    return x**3


def g(x):
    return 2 * x**2
"""


@for_rows(
    ("text", "kept"),
    [
        ("::error::x\n", ": :error::x\n"),
        ("a\n \t::set-env name=A::b", "a\n \t: :set-env name=A::b"),
        ("50 %\r::error::x", "50 %\r: :error::x"),
        ("a ##[error]b", "a # #[error]b"),
        ("a::b : c", "a::b : c"),
        ("::::", ": :::"),
    ],
)
def test_a_command_is_one_no_longer(text: str, kept: str) -> None:
    assert without_commands(text) == kept


def run(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "loud.py").write_text(LOUD)
    (folder / ".git").mkdir(exist_ok=True)
    below = folder / "below"
    below.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "gradcli", "check", "../loud.py:f", "x=2", "--grad", "g", "--modes", "fd,reverse"]
    env = {**os.environ, **environ}
    return subprocess.run(command, cwd=below, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_what_the_users_code_prints_is_defused_and_what_gradcli_says_is_not(tmp_path: Path) -> None:
    ran = run(tmp_path, GITHUB_ACTIONS="true")
    assert ran.returncode == 1
    lines = [line.lstrip() for line in (ran.stdout + "\n" + ran.stderr).splitlines()]
    commands = [line for line in lines if line.startswith("::") or "##[" in line]
    assert len(commands) == 1
    assert commands[0].startswith(
        "::error title=gradcli%3A ../loud.py%3Af,file=loud.py,line=14::the claimed gradient is"
    )
    assert ": :error::printed" in lines
    assert ": :warning::by another process" in lines
    assert ran.stderr.endswith("the end of a line is missing")


SUITE = """\
modes = "fd,reverse"

[[check]]
id = "ends"
target = "ends.py:f"
at = "x=2"

[[check]]
id = "loud"
target = "loud.py:f"
grad = "g"
at = "x=2"

[[check]]
id = "lost"
target = "loud.py:lost"
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_what_the_checks_of_a_suite_print_is_defused_and_each_that_did_not_pass_is_annotated_once(
    tmp_path: Path, process: Callable[..., Ran], count: str
) -> None:
    (tmp_path / "gradcli.toml").write_text(SUITE)
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "ends.py").write_text(
        "import os\n\ndef f(x):\n    os.write(2, b'::error::last words\\n')\n    os._exit(3)\n"
    )
    ran = process("check", "-n", count, cwd=tmp_path, environ={"GITHUB_ACTIONS": "true"})
    lines = [line.lstrip() for line in (ran.stdout + "\n" + ran.stderr).splitlines()]
    commands = [line for line in lines if line.startswith("::") or "##[" in line]
    begin = ["loud,file=loud.py,line=13::", "ends,file=ends.py,line=5::", "lost,file=loud.py::"]
    assert [line.partition("title=gradcli%3A ")[2].partition("::")[0] + "::" for line in commands] == begin
    assert {": :error::last words", ": :error::printed", ": :warning::by another process"} <= {*lines}
    document = process("check", "--format", "junit", cwd=tmp_path, environ={"GITHUB_ACTIONS": "true"}).stdout
    assert ElementTree.fromstring(document.encode()).find("testsuite") is not None


@pytest.mark.slow
def test_elsewhere_it_is_as_it_is(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert "::error::printed\n##[error]written\n" in ran.stderr
