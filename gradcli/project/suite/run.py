"""Run checks, in whatever order and place, and give their rows in the order in which they are declared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gradcli.project.suite.job import Answer, Job
from gradcli.report.suite import CheckRow, row_of


class Executor(Protocol):
    """Runs jobs, and yields the number of each with its answer, as they come."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Answer]]: ...


Executors = AbstractContextManager[Executor]


def in_order(jobs: Iterable[Job], executor: Executor) -> Iterator[CheckRow]:
    """Yield the rows of jobs in their order; the jobs may come one after the other, as lines of standard input do."""
    taken: list[Job] = []

    def listed() -> Iterator[Job]:
        for job in jobs:
            taken.append(job)
            yield job

    waiting: dict[int, CheckRow] = {}
    following = 0
    for number, answer in executor.run(listed()):
        waiting[number] = row_of_answer(taken[number], answer)
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def run_jobs(jobs: Sequence[Job], executor: Executor, seconds: Mapping[str, float] | None) -> Iterator[CheckRow]:
    """Yield the rows of jobs in their order.

    With `seconds`, the times of the last run by id, the longest are run first, and those without a time before them.
    """
    numbers = list(range(len(jobs)))
    if seconds is not None:
        numbers.sort(key=lambda number: -seconds.get(jobs[number].id, float("inf")))
    waiting: dict[int, CheckRow] = {}
    answers = executor.run(jobs[number] for number in numbers)
    for following in range(len(jobs)):
        while following not in waiting:
            k, answer = next(answers)
            waiting[numbers[k]] = row_of_answer(jobs[numbers[k]], answer)
        yield waiting.pop(following)


def row_of_answer(job: Job, answer: Answer) -> CheckRow:
    """Return the row of a job's answer."""
    return row_of(job.id, job.ask.target, answer.document, answer.seconds)
