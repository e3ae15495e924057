"""Checks of files that were saved, by a worker that is ready before they are asked for, and new in every run."""

import threading
from collections.abc import Callable, Iterator, Sequence

from gradcli.project.suite.config import Suite, SuiteCheck
from gradcli.project.suite.executors import Pool
from gradcli.project.suite.job import job_of_check, row_of_answer
from gradcli.report.suite import CheckRow


class Checker:
    """Runs checks one after the other. It belongs to one thread, which outlives it: on Linux a worker ends with the thread that
    started it. Another thread may stop it.
    """

    def __init__(self) -> None:
        self._pool = Pool(1)
        self._lock = threading.RLock()  # a signal may come while it is held
        self._busy = False

    def rows(
        self, suite: Suite, checks: Sequence[SuiteCheck], wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[CheckRow]:
        """Yield the row of each check while they are wanted. The code is loaded anew, as it may have changed."""
        if not checks:
            return
        self._pool.wait_until_ready()
        with self._lock:
            if not wanted():
                return
            self._busy = True
        jobs = [job_of_check(suite, check) for check in checks]
        try:
            for number, answer in self._pool.run(jobs):
                if not wanted():
                    return
                yield row_of_answer(jobs[number], answer)
        finally:
            with self._lock:
                self._busy = False
                self._pool.close()
                self._pool = Pool(1)

    def stop(self) -> None:
        """End the check that runs, with all that it started, where it is no longer wanted."""
        with self._lock:
            if self._busy:
                self._pool.end()

    def close(self) -> None:
        """End the worker."""
        self._pool.close()
