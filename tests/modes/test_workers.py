"""The process that loads sympy is asked by one process only."""

import os
import warnings

import pytest

import gradcli
from gradcli.modes.workers import WORKERS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_asks_a_process_of_its_own() -> None:
    assert gradcli.check("sin(x)", {"x": 1.0}, modes=["symbolic", "fd"]).exit_status == 0
    worker = WORKERS.waiting
    assert worker is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child asks once and ends
        pid = os.fork()
    if pid == 0:
        try:
            own = (
                WORKERS.waiting is None
                and gradcli.check("cos(x)", {"x": 1.0}, modes=["symbolic", "fd"]).exit_status == 0
            )
            WORKERS.stop()
            os._exit(0 if own else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert WORKERS.waiting is worker and worker.process.poll() is None
    assert gradcli.check("tan(x)", {"x": 1.0}, modes=["symbolic", "fd"]).exit_status == 0
