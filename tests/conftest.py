"""What all tests share: the program run in-process, or as a process of its own, with its streams and status in hand."""

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from gradcli.cli.main import run
from gradcli.cli.world import World
from gradcli.process import workers
from gradcli.process.process import Process
from gradcli.project.suite import executors
from gradcli.request.option_values import count_processors
from gradcli.tracing import provenance
from tests.rows import forget_modules

pytest_plugins = ["pytester", "tests.processor_time"]  # pytester for tests/pytest_plugin; it may stand at the top only

# No test depends on the load of the machine, and a run can be repeated; HYPOTHESIS_PROFILE=searching draws new examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("searching", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Where Python is told to keep no bytecode, each of a thousand processes would compile gradcli again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):  # the tests say themselves where the program runs
    os.environ.pop(name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-docs", action="store_true", help="rewrite what the documents show, and what is generated"
    )


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are processors: in each, tests wait for processes."""
    return count_processors() + 1


def pytest_configure(config: pytest.Config) -> None:
    """Run slow tests, too, where the documents are rewritten: their pages are among them."""
    if config.getoption("--update-docs"):
        config.option.markexpr = ""


# Folders that are run when they are named. Of closed forms and of the corpus, whose tests are many and alike, every few are
# default tests too.
ALONE = {"browser", "corpus", "derivation", "frameworks", "notebooks", "packages", "servers"}
SAMPLED = {"corpus": 3, "derivation": 6}


def _by_default(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders that are run by a command of their own, where none is named on the command line."""
    is_alone = collection_path.name in ALONE - SAMPLED.keys() and collection_path.parent.name == "tests"
    return True if is_alone and _by_default(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out most tests of sampled folders, and all that are slow, where none is named on the command line."""
    if not _by_default(config):
        return
    seen = dict.fromkeys(SAMPLED, 0)
    left_out: list[pytest.Item] = []
    for item in items:
        folder = item.path.relative_to(config.rootpath).parts[1]
        if folder in SAMPLED:
            is_slow = item.get_closest_marker("slow") is not None
            seen[folder] += not is_slow
            if is_slow or seen[folder] % SAMPLED[folder]:
                left_out.append(item)
    config.hook.pytest_deselected(items=left_out)
    known = set(left_out)
    items[:] = [item for item in items if item not in known]


def pytest_collection_finish() -> None:
    """Keep thirty thousand tests, and all that is loaded, out of each later collection of garbage."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Ran:
    """One run of the program."""

    exit_status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output as one strict JSON document."""
        return json.loads(self.stdout, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not strict JSON")


def gradcli(*argv: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    """Run the program in this process; the processes that it starts for sympy and repairs stay for the next run."""
    world = World(io.StringIO(stdin), io.StringIO(), io.StringIO(), environ or {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradcli.cli.main.stop_workers", lambda: None)
        # A copy of this process would hold what other tests have loaded.
        patch.setattr("gradcli.cli.check.FORKS", False)
        status = run(argv, world)
    return Ran(int(status), world.stdout.getvalue(), world.stderr.getvalue())


@pytest.fixture(autouse=True)
def _modules_stay_in_their_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test wrote into its temporary folder and loaded, and which folders it named as the user's.

    Another test may use the same names, or an installed package that a test before it had as its target.
    """
    known, path = {*sys.modules}, [*sys.path]
    yield
    forget_modules(known, tmp_path_factory)
    sys.path[:] = path
    provenance._OWN.clear()  # the folders that a test took as the user's
    provenance._USERS.clear()


@pytest.fixture(autouse=True)
def _repairs_are_sought_in_their_own_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the search for a repair, which takes a second for each wrong claim, except where a test is about it."""
    if request.node.get_closest_marker("repairs") is None:
        monkeypatch.setattr("gradcli.repair.full_check.with_repair", lambda report, *_: report)


@pytest.fixture(name="gradcli")
def _gradcli() -> Any:
    return gradcli


HANG = 240  # seconds after which a process is taken to hang


@functools.cache
def _load() -> None:
    """Load what the program loads, once, and not in every copy."""
    gradcli("check", "x**2 + sin(x)", "x=1", "--grad", "2*x", "--modes", "forward,reverse,fd")
    gradcli("check", "sine(x)")
    importlib.import_module(workers.SYMBOLIC)
    importlib.import_module("gradcli.project.suite.worker")


def process(
    *argv: str,
    stdin: str = "",
    cwd: Path | None = None,
    environ: dict[str, str] | None = None,
    together: bool = False,
    new_workers: bool = False,
) -> Ran:
    """Run the program as a process of its own, supervisor and child, in a copy of this process.

    It is the real program on real streams; only the modules are loaded already. Both streams are one if `together`. The
    workers that it starts, of suites and for sympy, are copies of it unless `new_workers`.
    """
    _load()
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the copy runs one
            pid = os.fork()
        if pid == 0:
            streams = (given.fileno(), out.fileno(), out.fileno() if together else err.fileno())
            _be_the_program(argv, streams, cwd, environ or {}, new_workers)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return Ran(status, out.read().decode(), err.read().decode())


def _be_the_program(
    argv: tuple[str, ...], fds: tuple[int, int, int], cwd: Path | None, environ: dict[str, str], new_workers: bool
) -> None:
    try:
        signal.alarm(HANG)
        if not new_workers:
            executors.Process = lambda first, module, forks: Process(first, module=module)  # type: ignore[assignment, misc]
            workers.Worker = CopiedWorker  # type: ignore[misc]
        faulthandler.disable()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        os.environ.update(environ)
        os.chdir(cwd or Path.cwd())
        sys.argv = ["gradcli", *argv]
        atexit._clear()  # what the tests do at their end
        atexit.register(workers.stop_workers)
        from gradcli.__main__ import main

        os._exit(_end_as_python_does(main))
    finally:
        os._exit(99)


def _end_as_python_does(main: Callable[[], Any]) -> int:
    """Return the exit status of a program, after its threads have ended and its exit handlers have run."""
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        status = 1
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return status & 0xFF


class CopiedWorker(workers.Worker):
    """A worker for sympy that is a copy of this process; one for repairs is as the program starts it."""

    def __init__(self, module: str = workers.SYMBOLIC, *, copied: bool = False) -> None:
        super().__init__(module, copied=copied or module == workers.SYMBOLIC)


@pytest.fixture(name="process")
def _process() -> Any:
    return process


@contextlib.contextmanager
def started(*argv: str, **more: Any) -> Iterator[subprocess.Popen]:
    """Start the program anew in a session of its own; at the end of the block it and its group are gone, as after HANG seconds."""
    running = subprocess.Popen(
        [sys.executable, "-m", "gradcli", *argv],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more,
    )  # fmt: skip
    limit = threading.Timer(HANG, os.killpg, (running.pid, signal.SIGKILL))
    limit.start()
    try:
        yield running
    finally:
        limit.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        for stream in (running.stdin, running.stdout, running.stderr):
            stream.close()


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be read by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Wait until a process has ended; whether it did."""
    until = time.monotonic() + HANG
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)
