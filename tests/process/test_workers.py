"""The process that loads sympy is asked by one process only, and its end, its silence and its answer are noticed."""

import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gradcli
from gradcli.checks.run_modes import run_modes
from gradcli.modes.mode import Question
from gradcli.modes.registry import MEMORY_BYTES, MODES
from gradcli.process.process import FORKS
from gradcli.process.workers import WORKERS, Worker, Workers, WorkerTimeout
from gradcli.request.point import Point
from gradcli.targets.expression import Expression

LARGE = bytes(10**6)  # more than the buffer of a pipe


@pytest.fixture(params=[False, True], ids=["new", "copied"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    if request.param and not FORKS:
        pytest.skip("processes are not copied here")
    made = Worker(copied=request.param)
    yield made
    made.stop()


def question(text: str = "sin(x)") -> Question:
    return Question(Expression(text), Point({"x": np.float64(1.0)}), ("x",))


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


def test_a_copy_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(os, "fork", fork, raising=False)
    workers = Workers("gradcli.repair.repair_process")
    workers.start(copied=True)
    assert workers.waiting is None
    Workers.every.remove(workers)


def test_a_process_that_others_have_waited_for_is_stopped(worker: Worker) -> None:
    os.kill(worker.process.pid, signal.SIGKILL)
    os.waitpid(worker.process.pid, 0)
    worker.stop()
    assert worker.status == 0


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes are not stopped here")
def test_a_process_that_reads_nothing_is_late(worker: Worker) -> None:
    os.kill(worker.process.pid, signal.SIGSTOP)
    start = time.monotonic()
    worker.send(LARGE)
    assert time.monotonic() - start < 60  # nothing waits for it to be read
    with pytest.raises(WorkerTimeout):
        worker.receive(0.2)


@pytest.mark.parametrize("request_", [b"x", LARGE])
def test_a_process_that_has_ended_answers_nothing_and_can_be_stopped(worker: Worker, request_: bytes) -> None:
    worker.process.kill()
    worker.process.wait()
    worker.send(request_)
    assert worker.receive(None) == b""
    worker.stop()


def test_an_answer_that_is_there_is_taken_though_its_time_is_over(worker: Worker) -> None:
    worker.send(pickle.dumps((None, MEMORY_BYTES)))  # what is no question is answered with an error
    while not worker.process.stdout.peek(1):  # type: ignore[union-attr]
        time.sleep(0.01)
    assert pickle.loads(worker.receive(0.0))[0] == "error"


@pytest.mark.parametrize("module", ["random", "signal", "mpmath"])
def test_a_file_of_the_users_hides_no_module_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text("print('it was imported'); open('seen', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    worker = Worker()
    assert pickle.loads(worker.ask(pickle.dumps((None, MEMORY_BYTES)), 60.0))[0] == "error"
    worker.stop()
    assert not Path("seen").exists()


def test_what_a_module_prints_while_it_is_loaded_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud.py").write_text(
        "print('loaded', flush=True)\nprint('ready')\nfrom gradcli.modes.symbolic_worker import main\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    worker = Worker("loud")
    assert pickle.loads(worker.ask(pickle.dumps((None, MEMORY_BYTES)), 60.0))[0] == "error"
    worker.stop()


def test_an_error_of_another_mode_ends_the_process_and_stays_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def fails(*_: object) -> None:
        (worker,) = begun
        worker.process.kill()
        worker.process.wait()
        worker.send(b"more")
        raise KeyboardInterrupt

    monkeypatch.setattr(WORKERS, "take", lambda: begun.append(Worker()) or begun[-1])
    monkeypatch.setattr(type(MODES["reverse"]), "gradient", fails)
    with pytest.raises(KeyboardInterrupt):
        run_modes(question(), [MODES["symbolic"], MODES["reverse"]])
    assert begun[0].process.returncode is not None


def test_an_interrupt_while_the_answer_is_awaited_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Worker] = []

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(WORKERS, "take", lambda: begun.append(Worker()) or begun[-1])
    monkeypatch.setattr(Worker, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_modes(question(), [MODES["symbolic"]])
    assert begun[0].process.returncode is not None


@pytest.mark.skipif(not FORKS, reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of pipes, which nobody closes
def test_an_interrupt_while_a_process_is_forked_is_not_dropped() -> None:
    once = [signal.SIGINT]
    os.register_at_fork(after_in_parent=lambda: once and signal.raise_signal(once.pop()))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where it is ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            Worker("gradcli.modes.symbolic_worker", copied=True)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_time_of_a_constant_is_counted_too() -> None:
    outcome = run_modes(question("sign(x)*2"), [MODES["symbolic"]])["symbolic"]
    assert outcome.estimate is not None and outcome.estimate.cost.seconds > 0
