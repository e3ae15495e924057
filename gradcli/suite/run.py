"""Run checks, in whatever order and place, and give their rows in the order in which they are declared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gradcli.reports.suite import CheckRow, row_of
from gradcli.suite.job import Answer, Job
from gradcli.suite.recorder import Used

Result = tuple[CheckRow, Used | None]


class Executor(Protocol):
    """Runs jobs, and yields the number of each with its answer, as they come."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Answer]]: ...


Executors = AbstractContextManager[Executor]


def in_order(jobs: Iterable[Job], executor: Executor) -> Iterator[Result]:
    """Yield the results of jobs in their order; the jobs may come one after the other, as lines of standard input do."""
    taken: list[Job] = []

    def listed() -> Iterator[Job]:
        for job in jobs:
            taken.append(job)
            yield job

    waiting: dict[int, Result] = {}
    following = 0
    for number, answer in executor.run(listed()):
        waiting[number] = result_of(taken[number], answer)
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def scheduled(
    jobs: Sequence[Job], hits: Mapping[int, CheckRow], executor: Executor, seconds: Mapping[str, float] | None
) -> Iterator[Result]:
    """Yield the results of jobs in their order; `hits` are known already.

    With `seconds`, the times of the last run by id, the longest are run first, and those without a time before them.
    """
    left = [number for number in range(len(jobs)) if number not in hits]
    if seconds is not None:
        left.sort(key=lambda number: -seconds.get(jobs[number].id, float("inf")))
    waiting: dict[int, Result] = {number: (row, None) for number, row in hits.items()}
    answers = executor.run(jobs[number] for number in left)
    for following in range(len(jobs)):
        while following not in waiting:
            k, answer = next(answers)
            waiting[left[k]] = result_of(jobs[left[k]], answer)
        yield waiting.pop(following)


def result_of(job: Job, answer: Answer) -> Result:
    """Return the row of a job's answer, and what it used."""
    return row_of(job.id, job.ask.target, answer.document, answer.seconds), answer.used
