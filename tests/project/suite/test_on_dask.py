"""Checks on a cluster: the documents are those of this machine, also where a worker is killed in the middle."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check_suite import without_times
from tests.project.suite.project import QUICK, SUITE, written

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
Process = Callable[..., Any]
pytestmark = pytest.mark.filterwarnings("ignore")  # of dask's own


@pytest.fixture(name="cluster", scope="module")
def _cluster() -> Any:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True, silence_logs=50
    ) as cluster:
        yield cluster


def address(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


def test_documents_are_those_of_this_machine(gradcli: Process, process: Process, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    folder = written(tmp_path)
    monkeypatch.chdir(folder)
    here = process("check", "--json", cwd=folder, new_workers=True)  # these repair, as the cluster's do
    there = gradcli("check", "--json", "--executor", address(cluster))
    assert there.exit_status == here.exit_status == 1
    of_run = {"environment": None}  # this process has no set number of threads, as a test
    assert without_times(there.json) | of_run == without_times(here.json) | of_run
    (folder / "losses.py").write_text((folder / "losses.py").read_text().replace("2 * r**2", "3 * r**2"))
    again = gradcli("check", "-k", "bad", "--executor", address(cluster))
    assert again.exit_status == 0, "a worker must not keep the code of an earlier run"


def test_a_worker_that_is_killed_loses_nothing(gradcli: Process, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    slow = "import time\ndef f(x):\n    time.sleep(0.05)\n    return x**2\n"
    suite = "".join(f'[[check]]\nid = "c{k}"\ntarget = "slow.py:f"\nat = "x={k + 1}"\n' for k in range(8))
    monkeypatch.chdir(written(tmp_path, QUICK + suite, slow=slow))
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        pids = [*client.run(os.getpid).values()]
    killer = threading.Thread(target=lambda: (time.sleep(2.0), os.kill(pids[0], signal.SIGKILL)))
    killer.start()
    ran = gradcli("check", "--json", "--executor", address(cluster))
    killer.join()
    assert ran.exit_status == 0 and ran.json["counts"]["passed"] == 8
    assert [check["id"] for check in ran.json["checks"]] == [f"c{k}" for k in range(8)]


def test_no_scheduler_is_an_error(gradcli: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written(tmp_path, SUITE))
    monkeypatch.setattr("gradcli.project.suite.executors._PATIENCE", "1s")
    ran = gradcli("check", "--executor", "dask://127.0.0.1:9")
    assert ran.exit_status == 2 and "no Dask scheduler answers" in ran.stderr
