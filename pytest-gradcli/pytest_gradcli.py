"""Gradients in pytest: the fixture `gradcheck`, the marker `gradient`, and the checks of a project's suite as tests.

Neither gradcli nor numpy is imported before a gradient is checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradcli.errors import GradcliError
    from gradcli.report.check import CheckReport

INCONCLUSIVE = ("fail", "skip", "xfail")  # what an inconclusive check can become
COUNTED = ("passed", "failed", "inconclusive", "errors", "known", "stale")
THREADS = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
PROPERTY = "gradcli_outcome"
MARKER = "gradient(target, grad=..., at=..., **options): check a gradient by gradcli, and run the test as usual."


# Options and set-up


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradcli", "gradients checked by gradcli")
    group.addoption("--gradcli", action="store_true", help="also run the project's suite of gradient checks")
    watch = "check the hand-written gradients that the tests use, at values they use"
    group.addoption("--gradcli-watch", action="store_true", help=watch)
    says = "what an inconclusive check of a gradient is: fail (the default), skip or xfail"
    group.addoption("--gradcli-inconclusive", choices=INCONCLUSIVE, default=None, help=says)
    parser.addini("gradcli_inconclusive", says, default="fail")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Set one thread for each process before a conftest imports a numerical library; what the user set is kept."""
    if early_config.known_args_namespace.gradcli or "PYTEST_XDIST_WORKER" in os.environ:
        for name in THREADS:
            os.environ.setdefault(name, "1")
    if early_config.known_args_namespace.gradcli_watch:
        WATCHES.append(Watch())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if config.getini("gradcli_inconclusive") not in INCONCLUSIVE:
        raise pytest.UsageError(f"gradcli_inconclusive is one of {', '.join(INCONCLUSIVE)}")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(), "gradcli-summary")
    if config.getoption("--gradcli-watch"):
        config.pluginmanager.register(WATCHES[-1] if WATCHES else Watch(), "gradcli-watch")
    if config.getoption("--gradcli"):
        config.stash[SUITE] = suite = _suite_of(config)
        folder = config.invocation_params.dir
        if not any(_holds_suite(folder / word.partition("::")[0], suite) for word in config.args):
            config.args.append(str(suite.path))


def pytest_unconfigure() -> None:
    """End the process that ran the checks of the suite, if there was one."""
    if "gradcli.project.suite.executors" in sys.modules:
        from gradcli.project.suite.executors import end_thread_worker

        end_thread_worker()


def _holds_suite(path: Path, suite: Any) -> bool:
    """Whether pytest reaches the suite's file by this argument: two arguments, one inside the other, lose tests in pytest 8."""
    return _is_suite(path, suite) or path.resolve() in suite.path.resolve().parents


def _is_suite(path: Path, suite: Any) -> bool:
    """Whether a path is that of the suite's file."""
    return path.name == suite.path.name and path.exists() and path.samefile(suite.path)


def _inconclusive(config: pytest.Config) -> str:
    """Return what an inconclusive check becomes: the option, else the ini value."""
    return str(config.getoption("--gradcli-inconclusive") or config.getini("gradcli_inconclusive"))


# The interface of suites


SUITE: pytest.StashKey[Any] = pytest.StashKey()


def _suite_of(config: pytest.Config) -> Any:
    """Return the project's suite. Raises UsageError where there is none, or where it cannot be read."""
    from gradcli.errors import GradcliError
    from gradcli.project.suite.config import find_suite

    try:
        suite = find_suite(config.rootpath)
    except GradcliError as error:
        raise pytest.UsageError(_error_text(error)) from None
    if suite is None:
        folder = config.rootpath
        raise pytest.UsageError(f"--gradcli: there is no suite in {folder} or above; gradcli init writes one")
    if suite.path is None:
        raise pytest.UsageError(
            "--gradcli: the suite needs a file: add an empty table [tool.gradcli] to pyproject.toml"
        )
    return suite


def _row_of(suite: Any, check: Any) -> tuple[Any, bool]:
    """Run one check of a suite in a process of its own; return its row, and whether the baseline lists what is so no longer.

    What the suite's baseline lists is known. Raises  GradcliError if the baseline cannot be read.
    """
    from gradcli.project.suite import selection
    from gradcli.project.suite.executors import run_check

    row, listed = run_check(suite, check), suite.options.baseline
    if listed is None:
        return row, False
    baseline = selection.read_baseline(suite.folder / listed)
    stale = baseline.stale([row], [known.id for known in baseline.checks])  # of this check alone
    return replace(row, known=baseline.covers(row)), bool(stale)


# One check in a test


def seed_of(item: pytest.Item) -> int:
    """Return a seed that depends on the test's id alone, also where xdist adds the name of a group to it."""
    nodeid, group = item.nodeid, item.get_closest_marker("xdist_group")
    if group is not None:
        name = group.args[0] if group.args else group.kwargs.get("name", "default")
        nodeid = nodeid.removesuffix(f"@{name}")
    return zlib.crc32(nodeid.encode())


def _keep(item: pytest.Item, counted: str, seed: object, replay: str) -> None:
    """Keep how a check ended with the test's report: for the summary, JUnit, and the other process under xdist."""
    item.user_properties += [(PROPERTY, counted), ("gradcli_replay", replay)]
    if seed is not None:
        item.user_properties.append(("gradcli_seed", seed))


def _keep_report(item: pytest.Item, report: CheckReport) -> None:
    counted = {"pass": "passed", "fail": "failed"}.get(report.verdict, "inconclusive")
    _keep(item, "passed" if report.exit_status == 0 else counted, report.seed, _replay(item, report))


def _replay(item: pytest.Item, report: CheckReport) -> str:
    """Return the command that repeats a check: gradcli's where the request is text, else the test."""
    return shlex.join(report.command or ("pytest", item.nodeid))


def _summary_of(report: CheckReport) -> str:
    """Return what pytest's last lines say of a check: the likely mistake, and the line to be changed."""
    from gradcli.report.check import likely_cause, line_to_change

    line = line_to_change(report)
    return f"{report.verdict.upper()}  {likely_cause(report)}" + (f"  {line}" if line else "")


def _section(item: pytest.Item, report: CheckReport) -> str:
    """Return what the report of a failing test says of a check: the verdict, the likely mistake, and the command."""
    lines = [f"{report.verdict.upper()}  {report.target.text}: {report.sentence()}"]
    mistakes = [p.diagnosis.message for p in report.points if p.diagnosis is not None and p.diagnosis.kind != "unknown"]
    return "\n".join([*lines, *(f"likely mistake: {said}" for said in mistakes[:1]), f"again: {_replay(item, report)}"])


def _error_text(error: GradcliError | TypeError) -> str:
    """Return an error as people read it: what, where, and what to do."""
    if isinstance(error, TypeError):
        return f"ERROR  {error}"
    where = () if error.where is None else error.where.caret()
    return "\n".join([f"ERROR  {error.what}", *filter(None, (*where, error.do))])


@pytest.fixture
def gradcheck(request: pytest.FixtureRequest) -> Callable[..., CheckReport]:
    """A function that takes what `gradcli.testing.assert_gradient` takes; its seed is made from the test's id."""

    def check(f: Any, at: Any = None, **options: Any) -> CheckReport:
        from gradcli.errors import NotConfirmed
        from gradcli.testing import assert_gradient

        __tracebackhide__ = True
        options.setdefault("seed", seed_of(request.node))
        try:
            report = assert_gradient(f, at, **options)
        except NotConfirmed as error:
            found: Any = error.report
            _keep_report(request.node, found)
            if found.verdict == "inconclusive":
                _skip_or_xfail(request.config, _section(request.node, found))
            raise
        _keep_report(request.node, report)
        return report

    return check


def _skip_or_xfail(config: pytest.Config, says: str) -> None:
    """Skip or xfail the running test, where an inconclusive check is to do so."""
    __tracebackhide__ = True
    become, reason = _inconclusive(config), says.splitlines()[0]
    if become == "skip":
        raise pytest.skip.Exception(reason, _use_item_location=True)
    if become == "xfail":
        pytest.xfail(reason)


# The marker


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the test, then the checks of its markers, those nearest to the function first."""
    __tracebackhide__ = True
    result = yield
    marks = list(item.iter_markers("gradient"))
    if marks:
        _check_marks(item, marks)
    return result


def _check_marks(item: pytest.Item, marks: list[pytest.Mark]) -> None:
    """Run all checks, and end the test by the worst of them."""
    from gradcli.errors import GradcliError, NotConfirmed

    failed: list[tuple[str, str]] = []  # the text in full, and the section
    unclear: list[tuple[str, str]] = []
    for mark in marks:
        try:
            _keep_report(item, _check_mark(item, mark))
        except NotConfirmed as error:
            found: Any = error.report
            _keep_report(item, found)
            text = f"{_summary_of(found)}\n\n{error}"  # pytest's last lines have the first line of a text
            (unclear if found.verdict == "inconclusive" else failed).append((text, _section(item, found)))
        except (GradcliError, TypeError) as error:
            _keep(item, "errors", None, shlex.join(("pytest", item.nodeid)))
            failed.append((_error_text(error), _error_text(error)))
    if unclear and not failed:
        _skip_or_xfail(item.config, unclear[0][1])
    if failed or unclear:
        texts, sections = zip(*failed, *unclear, strict=True)
        raise _with_section(pytest.fail.Exception("\n\n".join(texts), pytrace=False), "\n\n".join(sections))


def _check_mark(item: pytest.Item, mark: pytest.Mark) -> CheckReport:
    """Check what one marker names; paths in its texts begin at pytest's root folder. Raises what assert_gradient raises."""
    from gradcli.testing import assert_gradient

    if len(mark.args) != 1:
        raise TypeError(f"pytest.mark.gradient takes one target and keywords; it was given {len(mark.args)} targets")
    options = {"seed": seed_of(item), **mark.kwargs}
    with contextlib.chdir(item.config.rootpath):
        return assert_gradient(mark.args[0], options.pop("at", None), **options)


# The suite


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    suite = parent.config.stash.get(SUITE, None)
    if suite is None or not _is_suite(file_path, suite):
        return None
    nodeid = Path(
        os.path.relpath(file_path, parent.config.rootpath)
    ).as_posix()  # pytest has none above its root folder
    return SuiteFile.from_parent(parent, path=file_path, nodeid=nodeid)


class SuiteFile(pytest.File):
    """The file that holds the suite."""

    def collect(self) -> Iterator[pytest.Collector]:
        yield SuiteChecks.from_parent(self, name="gradcli")


class SuiteChecks(pytest.Collector):
    """The checks of the suite."""

    def collect(self) -> Iterator[pytest.Item]:
        for check in self.config.stash[SUITE].checks:
            yield SuiteCheck.from_parent(self, name=check.id, check=check)


class NotPassed(Exception):
    """A check of the suite did not pass; `row` says why."""

    def __init__(self, row: Any) -> None:
        super().__init__(row.said())
        self.row = row


class SuiteCheck(pytest.Item):
    """One check of the suite."""

    def __init__(self, *, check: Any, **more: Any) -> None:
        super().__init__(**more)
        self.check = check

    def runtest(self) -> None:
        row, stale = _row_of(self.config.stash[SUITE], self.check)
        again = row.replay() or shlex.join(("gradcli", "check", "-k", row.id))
        said = f"{row.word[0]}  {row.id}: {row.said()}"
        stale = stale and row.counted in ("passed", "known")
        _keep(self, "stale" if stale else row.counted, row.document.get("seed"), again)
        if stale:
            old = f"{row.id}: the baseline lists a failure that is no longer there"
            section = f"{said}\n{old}\nwrite the baseline anew: gradcli check --update-baseline"
            raise _with_section(pytest.fail.Exception(old, pytrace=False), section)
        if row.counted == "known":
            pytest.xfail(said)
        if row.counted == "inconclusive":
            _skip_or_xfail(self.config, said)
        if row.counted != "passed":
            found = [point["diagnosis"] for point in row.document.get("points", ()) if point["diagnosis"]]
            mistakes = [each["message"] for each in found if each["kind"] != "unknown"]
            lines = [said, *(f"likely mistake: {mistake}" for mistake in mistakes[:1]), f"again: {again}"]
            raise _with_section(NotPassed(row), "\n".join(lines))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *more: Any) -> Any:
        if not isinstance(excinfo.value, NotPassed):
            return super().repr_failure(excinfo)
        from gradcli.report.forms import Page
        from gradcli.report.forms.text import blocks_as_text

        row = excinfo.value.row
        head = "" if row.report is None else f"{_summary_of(row.report)}\n\n"
        return head + blocks_as_text(row.blocks(), Page())

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"gradcli: {self.name}"


# The gradients that tests use


class Watch:
    """Watches the gradients that the tests of this process use, and reports on those of all processes under xdist."""

    def __init__(self) -> None:
        from gradcli.project.capture.session import RecordingRequest, Session

        self._session = Session(RecordingRequest())
        self._session.begin()
        self._folder = Path.cwd()
        self._of_workers: list[Any] = []
        self.report: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the report of a worker of xdist."""
        self._of_workers.append(getattr(node, "workeroutput", {}).get("gradcli_watch"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Check what was used; a worker sends its report, the process that reports puts all together."""
        from gradcli.project.capture.run_report import check_recorded_calls, merge_run_reports
        from gradcli.report.encode import decode_document, encode
        from gradcli.report.suite import RunReport
        from gradcli.request.options import DEFAULTS

        recorder = self._session.end()
        command = ("pytest", *session.config.invocation_params.args)
        own = check_recorded_calls([(each, "") for each in recorder.all()], command, None, DEFAULTS, self._folder)
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["gradcli_watch"] = json.dumps(encode(own))
            return
        others = [decode_document(RunReport, json.loads(text)) for text in self._of_workers if text is not None]
        self.report = merge_run_reports([own, *others], command) if others else own
        if any(gradient.verdict == "fail" for gradient in self.report.gradients) and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report after that of the tests."""
        if self.report is not None:
            from gradcli.report.forms import Page
            from gradcli.report.forms.text import blocks_as_text

            terminalreporter.section("gradients that the tests use")
            terminalreporter.write(blocks_as_text(self.report.blocks(), Page(width=80)))


WATCHES: list[Watch] = []  # begun before the modules of the project are imported


# What is reported


def _with_section(error: BaseException, section: str) -> BaseException:
    """Return the error with what the test's report shows of it in the section `gradcli`."""
    error.gradcli_section = section  # type: ignore[attr-defined]
    return error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add the section `gradcli` to the report of a test that failed by a check, `assert_gradient` alone included."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if report.failed and error is not None:
        found: Any = getattr(error, "report", None) if type(error).__name__ == "NotConfirmed" else None
        section = getattr(error, "gradcli_section", None) if found is None else _section(item, found)
        crash = getattr(report.longrepr, "reprcrash", None)
        if found is not None and crash is not None:
            crash.message = _summary_of(found)
        if found is not None and not any(name == PROPERTY for name, _ in item.user_properties):
            _keep_report(item, found)  # of `assert_gradient` alone
        report.sections += [] if section is None else [("gradcli", section)]
    return report


class Summary:
    """Counts the checks of all tests, in the process that reports them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # once a test, with the properties that it has gathered
            self.counts.update(str(value) for name, value in report.user_properties if name == PROPERTY)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = self.counts.total()
        if not total:
            return
        words = [f"{total} gradient{'s' * (total != 1)} checked"]
        for counted in COUNTED[1:]:
            if n := self.counts[counted]:
                words.append(f"{n} {counted.removesuffix('s') if n == 1 else counted}")
        bad = any(self.counts[word] for word in ("failed", "errors", "stale"))
        terminalreporter.write_line(f"gradcli: {', '.join(words)}", red=bad, green=len(words) == 1)
