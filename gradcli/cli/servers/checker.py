"""Checks of files that were saved, by a worker that is ready before they are asked for, and new in every run."""

import itertools
from collections.abc import Iterator, Sequence

from gradcli.project.suite.config import Check, Suite
from gradcli.project.suite.executors import Pool
from gradcli.project.suite.job import job_of, row_of_answer
from gradcli.report.suite import CheckRow


class Checker:
    """Runs checks one after the other. It belongs to one thread, which outlives it: on Linux a worker ends with the thread that
    started it. Another thread may stop it.
    """

    def __init__(self) -> None:
        self._pool = Pool(1)
        self._runs = itertools.count()
        self._stopped = -1
        self._run = 0

    def rows(self, suite: Suite, checks: Sequence[Check]) -> Iterator[CheckRow]:
        """Yield the row of each check, none after it was stopped. The code is loaded anew, as it may have changed."""
        self._run = next(self._runs)
        jobs = [job_of(suite, check, run=str(self._run)) for check in checks]
        try:
            for number, answer in self._pool.run(jobs):
                if self._stopped >= self._run:
                    return
                yield row_of_answer(jobs[number], answer)
        finally:
            self.close()
            self._pool = Pool(1)

    def stop(self) -> None:
        """End the check that runs, with all that it started; the others of this run are left out."""
        self._stopped = self._run
        self._pool.end()

    def close(self) -> None:
        """End the worker."""
        self._pool.close()
