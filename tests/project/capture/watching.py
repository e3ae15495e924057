"""Watch code of a test, and check what it used, in the process of the test."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradcli.project.capture.run_report import check_recorded_calls
from gradcli.project.capture.session import RecordingRequest, Session
from gradcli.report.suite import Program, RunReport
from gradcli.request.options import Options


def used(work: Callable[[], Any], *, keep: int = 3, keep_bytes: int = 2**28, sources: Sequence[str] = ()) -> RunReport:
    """Run a function while gradients are watched, and return the report on those that it used."""
    session = Session(RecordingRequest(keep, keep_bytes, tuple(sources), 0))
    session.begin()
    try:
        work()
    finally:
        recorder = session.end()
    return check_recorded_calls([(each, "") for each in recorder.all()], ("test",), Program(0), Options(), Path.cwd())


def verdicts(work: Callable[[], Any], **wanted: Any) -> dict[str, str]:
    """Return the verdict on each gradient by its last name."""
    return {each.name.rpartition(".")[2]: each.verdict for each in used(work, **wanted).gradients}
