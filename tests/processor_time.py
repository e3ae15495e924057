"""A plugin of the tests: which took most processor time, and which of them should be marked `slow`. It never fails a run.

A test is slow that takes over half a second of processor time, of its own or of processes that it started.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOW = 0.5  # seconds
SHOWN = 10
_MEASURED = "processor time"


def _seconds() -> float:
    """Return the processor time of this process and of those it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGAN] = _seconds()
    return (yield)


_BEGAN = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_MEASURED, _seconds() - item.stash[_BEGAN]))
        report.user_properties.append(("slow", item.get_closest_marker("slow") is not None))
    return report


class Times:
    """The processor time of each test, as the process that reports sees it."""

    def __init__(self, file: str | None, advise: bool) -> None:
        self.file, self.advise = file, advise
        self.rows: list[tuple[float, bool, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            of = dict(report.user_properties)
            self.rows.append((of[_MEASURED], of["slow"], report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.file:
            Path(self.file).write_text(json.dumps(self.rows))
        if len(self.rows) < SHOWN:
            return
        write = terminalreporter.write_line
        write(f"most processor time, of {sum(row[0] for row in self.rows):.0f} s in {len(self.rows):,} tests:")
        for seconds, slow, name in sorted(self.rows, reverse=True)[:SHOWN]:
            advise = self.advise and not slow
            write(f"  {seconds:6.2f} s  {name}{'  (should be marked slow)' if advise and seconds > SLOW else ''}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", metavar="FILE", help="write the processor time of each test to FILE, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        by_default = config.args_source is pytest.Config.ArgsSource.TESTPATHS  # other folders have no default
        config.pluginmanager.register(Times(config.getoption("--times"), by_default), "processor times")
