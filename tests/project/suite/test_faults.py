"""Suites beside what else goes wrong on a machine: no room on the disk, two runs at once, and processes that are killed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.project.suite.selection import FOLDER, read_last_run
from tests.conftest import HANG, ends, started
from tests.project.suite.project import QUICK, SUITE, VERDICTS, written

Process = Callable[..., Any]
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
LAST = "2 passed, 1 failed, 1 inconclusive, 1 error in "


def on_a_full_disk(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program where no file can grow by a byte."""
    return subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$0" -m gradcli check "$@"', sys.executable, *words],
        cwd=folder, env={**ENVIRON, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_costs_the_last_verdicts_alone(tmp_path: Path) -> None:
    """The verdicts are the same, and one line says why they are not kept."""
    ran = on_a_full_disk(written(tmp_path), "-n", "2")
    assert ran.stdout.splitlines()[-1].startswith(LAST) and ran.returncode == 1
    assert ran.stderr.count("the verdicts are not kept for --last-failed") == 1 and "Traceback" not in ran.stderr
    assert not list(tmp_path.glob(f"{FOLDER}/**/*.json"))


@pytest.mark.slow
def test_a_report_that_does_not_fit_the_disk_is_an_error(tmp_path: Path) -> None:
    ran = on_a_full_disk(written(tmp_path), "-k", "good", "--out", "r.json")
    assert ran.returncode == 2 and "r.json" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.slow
def test_two_runs_at_once_leave_the_verdicts_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRON["PYTHONPATH"])
    written(tmp_path)
    with (
        started("check", cwd=tmp_path, env=ENVIRON) as one,
        started("check", "-n", "2", cwd=tmp_path, env=ENVIRON) as two,
    ):
        outs = [run.communicate(timeout=HANG)[0] for run in (one, two)]
    assert all(out.splitlines()[-1].startswith(LAST) for out in outs)
    notes: list[str] = []
    last = read_last_run(tmp_path, notes.append)
    assert {name: entry["verdict"] for name, entry in last.items()} == VERDICTS and notes == []
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {"last.json", ".gitignore", "CACHEDIR.TAG"}


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which processes there are")
def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    sleeps = "import os, time\ndef f(x):\n    open(f'{os.getpid()}.pid', 'w').close()\n    time.sleep(10**6)\n"
    checks = "".join(f'[[check]]\nid = "{k}"\ntarget = "sleeps.py:f"\nat = "x=1"\n' for k in (1, 2))
    written(tmp_path, QUICK + checks, sleeps=sleeps)
    until = time.monotonic() + HANG
    with started("check", "-n", "2", cwd=tmp_path, env=ENVIRON) as run:
        while len(list(tmp_path.glob("*.pid"))) < 2:
            assert time.monotonic() < until and run.poll() is None
            time.sleep(0.05)
        run.kill()
        run.wait()
        assert all(ends(int(path.stem)) for path in tmp_path.glob("*.pid"))


@pytest.mark.slow
def test_a_run_that_was_killed_is_repeated_from_what_it_finished(process: Process, tmp_path: Path) -> None:
    sleeps = "import time\ndef f(x): time.sleep(10**6)\n"
    written(tmp_path, SUITE + '[[check]]\nid = "stuck"\ntarget = "sleeps.py:f"\nat = "x=1"\n', sleeps=sleeps)
    with started("check", cwd=tmp_path, env=ENVIRON) as run:
        for _ in VERDICTS:
            run.stdout.readline()
        run.kill()
        run.wait()
    (tmp_path / "sleeps.py").write_text("def f(x): return x**2\n")
    ran = process("check", cwd=tmp_path)
    assert "3 passed, 1 failed, 1 inconclusive, 1 error in" in ran.stdout and ran.exit_status == 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which processes there are")
def test_what_a_check_started_ends_with_its_worker(process: Process, tmp_path: Path) -> None:
    starts = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nopen('child.pid', 'w').write(str(child.pid))\ndef f(x): return x**2\n"
    checks = "".join(f'[[check]]\ntarget = "{name}.py:f"\nat = "x=1"\n' for name in ("starts", "exits"))
    written(tmp_path, QUICK + checks, starts=starts, exits="import os\ndef f(x): os._exit(3)\n")
    assert process("check", cwd=tmp_path).exit_status == 2
    assert ends(int((tmp_path / "child.pid").read_text()))


def test_code_that_closes_its_streams_is_checked_or_named(process: Process, tmp_path: Path) -> None:
    closes = "import os, sys\nsys.stdout.close()\nos.close(1)\ndef f(x): return x**2\n"
    checks = "".join(
        f'[[check]]\nid = "{name}"\ntarget = "{name}.py:f"\nat = "x=1"\n' for name in ("closes", "closes_all")
    )
    all_ = "import os\nos.closerange(3, 200)\ndef f(x): return x**2\n"
    ran = process("check", cwd=written(tmp_path, QUICK + checks, closes=closes, closes_all=all_), new_workers=True)
    assert ran.stdout.startswith("PASS") and "1 passed, 1 error" in ran.stdout
    assert "has closed files" in ran.stderr and "internal" not in ran.stderr


def test_a_package_that_imports_its_modules_late_is_checked(process: Process, tmp_path: Path) -> None:
    """No attribute is asked of a module that the function does not ask for: it may be an import."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").write_text(
        "import importlib\ndef __getattr__(name): return importlib.import_module('.' + name, __name__)\n"
    )
    (tmp_path / "late" / "h.py").write_text("K = 2.0\n")
    (tmp_path / "m.py").write_text("import late\ndef f(x): return late.h.K * x**2\n")
    assert process("check", "m.py:f", "x=1.5", "--modes", "reverse,fd", cwd=tmp_path).exit_status == 0
