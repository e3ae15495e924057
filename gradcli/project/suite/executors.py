"""Where checks run: in this process, in workers on this machine, or by an executor that another package registers."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from gradcli.errors import BadOption
from gradcli.project.suite.job import Answer, Job, answer_of
from gradcli.project.suite.run import Executor
from gradcli.report.common import ErrorDetail, ErrorReport
from gradcli.report.decode import NotADocument, decoded
from gradcli.report.encode import encode

GROUP = "gradcli.executors"
Function = Callable[[str], str]  # a job as JSON to its answer as JSON
Remote = Callable[[str, Function, Iterable[str]], Iterator[tuple[int, str | None]]]


class Inline:
    """Runs jobs in this process: for expressions, which run no code of the user's and cannot end it."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Answer]]:
        """Yield each answer when it is there."""
        for number, job in enumerate(jobs):
            yield number, answer_of(job)


class Elsewhere:
    """Runs jobs by an executor of the entry points `gradcli.executors`, to which only JSON and one function travel."""

    def __init__(self, url: str, remote: Remote) -> None:
        self._url, self._remote = url, remote

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Answer]]:
        """Yield each answer when it comes; a job that was lost, and what is no answer, is that check's error."""
        from gradcli.project.suite.apart import run_apart

        listed = list(jobs)
        left = set(range(len(listed)))
        for number, text in self._remote(self._url, run_apart, [job.text() for job in listed]):
            left.discard(number)
            yield number, self._answer(listed[number], text)
        for number in sorted(left):
            yield number, self._answer(listed[number], None)

    def _answer(self, job: Job, text: str | None) -> Answer:
        import json

        try:
            if text is not None:
                answer = decoded(Answer, json.loads(text))
                if answer.document.keys().isdisjoint(("error", "verdict")):
                    raise NotADocument("there is no verdict")
                return answer
            says = f"the workers of {self._url} that ran this check were lost"
        except (ValueError, NotADocument):
            says = f"{self._url} gave no answer that can be read"
        detail = ErrorDetail("ended the process", says, None, "run it here: without --executor")
        return Answer(encode(ErrorReport(detail, line=job.ask.line, id=job.id)), 0.0)


@contextmanager
def local(count: int, threads: int, apart: bool) -> Iterator[Executor]:
    """Run checks on this machine, `count` at a time; in processes of their own if there are several, or if `apart`."""
    if count == 1 and not apart:
        yield Inline()
        return
    from gradcli.project.suite.pool import Pool

    with Pool(count, threads) as pool:
        yield pool


@contextmanager
def elsewhere(url: str) -> Iterator[Executor]:
    """Run checks by the executor of a URL such as `dask://host:8786`. Raises BadOption if there is none of this scheme."""
    scheme = url.partition("://")[0]
    known: dict[str, Any] = {entry.name: entry for entry in entry_points(group=GROUP)}
    if "://" not in url or scheme not in known:
        listed = ", ".join(f"{name}://" for name in sorted(known))
        raise BadOption(f"there is no executor for '{url}'", do=f"known: {listed}" if known else "reinstall gradcli")
    yield Elsewhere(url, known[scheme].load())
