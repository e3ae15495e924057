"""From what was recorded to the report of `gradcli run`."""

import fnmatch
import itertools
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gradcli.checks.build import settings_of
from gradcli.checks.implementation import environment
from gradcli.project.capture.recorder import Kept, Recorded
from gradcli.project.capture.state import TimeIsUp, within
from gradcli.project.capture.verdict_of_calls import Judge
from gradcli.report.run import WORST, CheckedCall, Program, RunReport, UsedGradient, status_of, worst_of
from gradcli.request.options import Options


def report_of(
    recorded: Iterable[tuple[Recorded, str]],
    command: Sequence[str],
    program: Program | None,
    options: Options,
    folder: Path,
) -> RunReport:
    """Check what was recorded, and return the report; paths in it begin at `folder`.

    Each record comes with the reason why it cannot be checked, which is empty where it can.
    """
    judge = Judge(settings_of(options))
    clock = _Clock(options.checking_time)
    wanted = ((each, reason) for each, reason in recorded if not _is_excluded(each, options.exclude))
    gradients = [_gradient(each, reason, judge, folder, clock) for each, reason in wanted]
    return _report(gradients, command, program, options)


def _is_excluded(recorded: Recorded, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(recorded.definition.name, pattern) for pattern in patterns)


def merged(
    reports: Sequence[RunReport], command: Sequence[str], program: Program | None, options: Options
) -> RunReport:
    """Return one report for those of several processes: the calls of each gradient together."""
    every = sorted((gradient for report in reports for gradient in report.gradients), key=_identity)
    gradients = [_together([*group]) for _, group in itertools.groupby(every, key=_identity)]
    return _report(gradients, command, program, options)


def _identity(gradient: UsedGradient) -> tuple[str, int, str, str]:
    return gradient.file, gradient.line, gradient.name, gradient.kind


def _together(parts: list[UsedGradient]) -> UsedGradient:
    points = tuple(itertools.chain.from_iterable(part.points for part in parts))
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    calls, checked = sum(part.calls for part in parts), sum(part.checked for part in parts)
    return replace(parts[0], calls=calls, checked=checked, verdict=worst_of(points), notes=notes, points=points)


def _report(
    gradients: list[UsedGradient], command: Sequence[str], program: Program | None, options: Options
) -> RunReport:
    gradients.sort(key=lambda each: (WORST.index(each.verdict), *_identity(each)))
    status = (program.status if program else 0) or int(status_of(gradients))
    return RunReport(
        tuple(command), options.seed, program, status, tuple(gradients), environment(), full=options.verbose
    )


def _gradient(recorded: Recorded, reason: str, judge: Judge, folder: Path, clock: "_Clock") -> UsedGradient:
    points: list[CheckedCall] = []
    notes = sorted({reason, *recorded.unclear} - {""})
    kept = recorded.kept()
    for call in kept:
        try:
            with within(clock.left()):
                points.append(_checked(recorded, call, judge, folder))
        except (TimeIsUp, KeyboardInterrupt) as ended:
            clock.stop("the time limit was reached" if isinstance(ended, TimeIsUp) else "an interrupt ended the checks")
        if clock.stopped:
            notes.append(f"{len(kept) - len(points)} of {len(kept)} kept calls were not checked: {clock.stopped}")
            break
    if recorded.outside:
        notes.append(f"{recorded.outside:,} calls were left out: the function is not finite there")
    if recorded.not_kept:
        notes.append(f"{recorded.not_kept:,} calls could not be kept: --keep-bytes gives more room")
    if not kept and not notes:
        notes.append("no call could be recorded: it raised, or its arguments were given by name")
    definition = recorded.definition
    return UsedGradient(
        definition.name, _shown(definition.file, folder), definition.line, recorded.kind, recorded.of, recorded.calls,
        len(points), worst_of(points), tuple(notes), tuple(points),
    )  # fmt: skip


class _Clock:
    """The time that is left for the checks, and why they stopped before the end."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self.stopped = ""

    def left(self) -> float | None:
        """Return the seconds that are left. Raises TimeIsUp if there are none, or the checks were stopped."""
        left = None if self._until is None else self._until - time.monotonic()
        if self.stopped or (left is not None and left <= 0):
            raise TimeIsUp
        return left

    def stop(self, why: str) -> None:
        """Stop the checks for a reason; the first one counts."""
        self.stopped = self.stopped or why


def _checked(recorded: Recorded, call: Kept, judge: Judge, folder: Path) -> CheckedCall:
    at = None if call.at is None else f"{_shown(call.at[0], folder)}:{call.at[1]}"
    return CheckedCall(call.number, at, call.process or None, call.drawn, judge.row(recorded, call))


def _shown(file: str, folder: Path) -> str:
    """Return a path as people and programs read it: from the folder where gradcli was started, if it is inside."""
    path = os.path.realpath(file) if not file.startswith("<") else file
    inside = path.startswith(os.path.realpath(folder) + os.sep)
    return Path(os.path.relpath(path, os.path.realpath(folder))).as_posix() if inside else path
