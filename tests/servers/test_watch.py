"""`gradcli check --watch`: a line for each check that depends on a saved file, until Ctrl-C."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import Ran, ends, started
from tests.conftest import gradcli as program
from tests.servers.conftest import below

pytestmark = [pytest.mark.slow, pytest.mark.repairs]


def replace(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new, 1))


def words(running: subprocess.Popen, count: int) -> list[str]:
    """Return the verdicts and the checks of the next lines."""
    lines = [running.stdout.readline() for _ in range(count)]  # type: ignore[union-attr]
    return [line.partition(":")[0] if line.startswith("PASS") else " ".join(line.split()[:3]) for line in lines]


def watching(folder: Path, *argv: str) -> subprocess.Popen:
    return started("check", "--watch", *argv, cwd=folder)  # type: ignore[return-value]


def test_what_depends_on_a_saved_file_runs_and_ctrl_c_ends_it(project: Path) -> None:
    with watching(project) as running:
        assert running.stderr.readline() == "watching . for 2 checks; Ctrl-C ends it\n"
        replace(project / "activations.py", "x * x", "x * x * 1")
        assert words(running, 2) == ["FAIL layers.py:10 energy", "PASS wave"]
        replace(project / "layers.py", "return x\n", "return 2 * x\n")
        assert words(running, 2) == ["PASS energy", "PASS wave"]
        (project / "other.py").write_text("")  # belongs to no check
        replace(project / "gradcli.toml", '"wave_grad"', '"wave_gra')
        assert "gradcli.toml is not valid TOML" in running.stderr.readline()
        replace(project / "gradcli.toml", '"wave_gra', '"wave_grad"')
        assert words(running, 2) == ["PASS energy", "PASS wave"]
        children = below(running.pid)
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert all(map(ends, children))


def test_names_select_checks_and_a_target_can_be_watched(project: Path) -> None:
    with watching(project, "-k", "wave") as running:
        assert running.stderr.readline() == "watching . for 1 check; Ctrl-C ends it\n"
        replace(project / "layers.py", "np.cos", "np.sin")
        assert words(running, 1) == ["FAIL layers.py:18 wave"]
    with watching(project, "layers.py:ramp", "--grad", "ramp_grad", "--at", "x=[1.0, 2.0]") as running:
        running.stderr.readline()
        replace(project / "layers.py", "3 * x**2", "2 * x**2")
        assert words(running, 1) == ["FAIL layers.py:26 layers.py:ramp"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("check", "--watch", "--json"), "--watch prints lines of text"),
        (("check", "--watch", "--out", "report.json"), "--watch prints lines of text"),
        (("check", "--watch", "-"), "takes no standard input"),
        (("check", "--watch", "-k", "nothing"), "no check is selected"),
    ],
)
def test_what_cannot_be_watched_is_said(
    argv: Sequence[str], says: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    ran: Ran = program(*argv)
    assert ran.exit_status == 2 and says in ran.stderr + ran.stdout


@pytest.mark.parametrize(
    ("argv", "module", "extra"),
    [(("mcp",), "mcp_types", "mcp"), (("lsp",), "lsprotocol", "lsp"), (("check", "--watch"), "watchfiles", "watch")],
)
def test_an_extra_that_is_not_installed_is_named(
    argv: Sequence[str], module: str, extra: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    for name in [name for name in sys.modules if name.startswith("gradcli.cli.servers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    ran: Ran = program(*argv)
    assert ran.exit_status == 2
    assert f"{module} is not installed" in ran.stderr and f'pip install ".[{extra}]"' in ran.stderr
