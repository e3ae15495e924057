"""A worker: a process that is started anew, and runs one job after the other."""

import contextlib
import json
import os
import signal
import sys
from typing import NoReturn

from gradcli.process.process import (
    FORKS,
    adopt_orphans,
    die_with,
    dump_stack_at_exit,
    open_pipe_ends,
    read_message,
    write_message,
)
from gradcli.process.start import compile_from_source, exit_status_of, set_threads

_exit = os._exit


def started(up: int, down: int, stack: int, parent: int) -> NoReturn:
    """Answer the jobs that come through the pipe `down`, until it is closed; answers go through the pipe `up`.

    The first message is the number of threads of numerical libraries. `stack` is the file for the stack at the end of the
    process. What the user's code prints goes to standard error.
    """
    up, down, stack = open_pipe_ends((up, down, stack))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that the processes that a check starts can be ended after this one
    die_with(parent)
    adopt_orphans()
    (threads,) = read_message(down) or (1,)
    set_threads(int(threads))
    compile_from_source()
    dump_stack_at_exit(stack)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    def work() -> int:
        try:
            return _answer_jobs(up, down)
        except OSError:  # the user's code has closed the pipes
            with contextlib.suppress(OSError):
                os.write(2, b"error: the code that was checked has closed files that its process needs\n")
            return 1

    _exit(exit_status_of(work))


def _answer_jobs(up: int, down: int) -> int:
    import warnings

    from gradcli.checks import build as _asked  # noqa: F401 (what all checks need is loaded before the first one comes)
    from gradcli.checks import check as _check  # noqa: F401
    from gradcli.process.workers import stop_workers
    from gradcli.project.suite.job import Job, answer_job
    from gradcli.repair.repair import REPAIR_WORKERS
    from gradcli.report.encode import decode_document, encode

    if FORKS:
        REPAIR_WORKERS.start(copied=True)
    own = os.getpid()
    warnings.simplefilter("ignore", RuntimeWarning)  # numpy's; empty and non-finite values become findings

    def send(*message: object) -> None:
        if os.getpid() != own:
            _exit(0)  # a copy of this process, forked by the user's code, must send nothing
        write_message(up, message)

    send("ready")
    while (message := read_message(down)) is not None:
        job = decode_document(Job, json.loads(message[0]))
        timed = job.ask.options.timeout is not None
        progress = (lambda number, point: send("point", number, json.dumps(encode(point)))) if timed else None
        answer = answer_job(job, progress)
        with contextlib.suppress(ValueError, OSError):  # the user's code may have closed it
            sys.stdout.flush()
        send("answer", answer.text())
    stop_workers()
    return 0
