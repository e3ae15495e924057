"""Run a job in a worker process of this process: what pytest does, and an executor on another machine."""

import json
import threading

from gradcli.project.suite.config import Check, Suite
from gradcli.project.suite.job import Answer, Job, job_of
from gradcli.project.suite.pool import Pool
from gradcli.project.suite.run import row_of_answer
from gradcli.report.decode import decoded
from gradcli.report.suite import CheckRow


class _Local(threading.local):
    """The worker of a thread, which ends with it, and the run that it works for."""

    pool: Pool | None = None
    run: str | None = None


_LOCAL = _Local()


def run_apart(text: str) -> str:
    """Return the answer to a job, both as JSON. The check cannot end this process, and its time limit holds."""
    return _answer(decoded(Job, json.loads(text))).text()


def checked(suite: Suite, check: Check) -> CheckRow:
    """Run one check of a suite, and return its row."""
    job = job_of(suite, check)
    return row_of_answer(job, _answer(job))


def close() -> None:
    """End the worker of this thread, if it has one."""
    if _LOCAL.pool is not None:
        _LOCAL.pool.close()
        _LOCAL.pool = None


def _answer(job: Job) -> Answer:
    if _LOCAL.pool is None or _LOCAL.run != job.run:
        close()
        _LOCAL.pool, _LOCAL.run = Pool(1, job.options.threads), job.run
    ((_, answer),) = _LOCAL.pool.run([job])
    return answer
