"""Check the calls that were kept: each function against its gradient, at the values that it had."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.capture.conventions import Stated, stated, value_at
from gradcli.capture.recorder import Kept, Recorded
from gradcli.capture.repeated import repeated
from gradcli.capture.state import as_it_was
from gradcli.errors import BadPoint, FunctionFailed, GradcliError
from gradcli.frameworks.adapt import PLAIN, takes_less
from gradcli.frameworks.framework import KNOWN, Call, Framework, Placed, framework
from gradcli.reports.check import CheckReport
from gradcli.reports.common import Finding, error_report, finding
from gradcli.reports.encode import encode
from gradcli.reports.suite import CheckRow, row_of
from gradcli.source.points import WHOLE
from gradcli.source.python import message_of
from gradcli.source.structure import put_together, taken_apart
from gradcli.verify.build import Settings, request_for
from gradcli.verify.check import check
from gradcli.verify.claims import Claiming
from gradcli.verify.parts import located_call, with_cotangent
from gradcli.verify.probe import LocateOptions, function_at
from gradcli.verify.request import Request
from gradcli.words import Exit, Kind, Severity, Verdict

_SAME = 1e-10  # relative to the largest entry: two runs of the same code may round sums differently
_VALUE = "the function has another value now than when the gradient was called"
_RIGHT_THEN = "the gradient was right when it was called, and returns something else for the same input now"
_UNKNOWN = "the gradient returns something else for the same input now; what the function returned then is not known"
_ELSEWHERE = "the gradient returns something else for the same input now, and the function has changed at other calls"
_STATUS = {Verdict.PASS: Exit.CONFIRMED, Verdict.FAIL: Exit.WRONG, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}


@dataclass(frozen=True, slots=True)
class Judge:
    """Checks kept calls, each with these settings."""

    settings: Settings

    def row(self, recorded: Recorded, kept: Kept) -> CheckRow:
        """Return the check of one kept call; every error is an answer too."""
        begun = time.perf_counter()
        name = recorded.definition.name
        try:
            with as_it_was(kept.state), np.errstate(all="ignore"):
                document = encode(self._report(recorded, kept))
        except GradcliError as error:
            document = encode(error_report(error))
        except (Exception, SystemExit) as error:  # whatever the user's code raises when it is called again
            says = f"it cannot be called again: {type(error).__name__}: {message_of(error)[:300]}"
            document = encode(error_report(FunctionFailed(says)))
        return row_of(name, recorded.of or name, document, time.perf_counter() - begun)

    def _report(self, recorded: Recorded, kept: Kept) -> CheckReport:
        if kept.pair.convention == "framework":
            return self._of_framework(recorded, kept)
        what = stated(kept)
        if what.returned is None:
            return self._check(what, what.claim)
        same = _same(what.claim(**what.values), what.returned(**what.values))
        steady = None if kept.value is None else _same(value_at(kept), kept.value)
        now = self._check(what, what.claim)
        if steady is False:
            return _with(now, _changed(_VALUE, "what it reads besides its arguments was changed after the call"))
        if same:
            cause = _cause(recorded, kept) if now.verdict == Verdict.FAIL else None
            return now if cause is None else _with(now, _state(f"call {kept.number:,} {cause}", Severity.ERROR))
        then = self._check(what, what.returned)
        if then.verdict == Verdict.PASS:
            return _with(now, _state(_RIGHT_THEN, Severity.WARNING))
        if steady is None:
            return _with(now, _changed(_UNKNOWN))
        cause = _cause(recorded, kept) or "depends on earlier calls"
        if any(_has_changed(other) for other in recorded.kept() if other.pair.convention == kept.pair.convention):
            return _with(now, _changed(_ELSEWHERE))
        says = f"call {kept.number:,} returned another gradient than the same input gives now: it {cause}"
        return _with(then, _state(says, Severity.ERROR))

    def _of_framework(self, recorded: Recorded, kept: Kept) -> CheckReport:
        """Check a custom gradient of a framework, and what its backward pass returned when it ran."""
        name = kept.pair.options["framework"]
        own = framework(name)
        request = self._request(own, recorded, kept, Placed(KNOWN[name].dtype))
        if name == "torch":
            request = dataclasses.replace(
                request, own=None
            )  # its other derivatives are not those that the program used
        report = check(request)
        said = repeated(kept)
        return report if said is None or report.verdict == Verdict.FAIL else _with(report, said)

    def _request(self, own: Framework, recorded: Recorded, kept: Kept, placed: Placed) -> Request:
        text, seed = recorded.of or recorded.definition.name, self.settings.options.seed
        args, kwargs = _as_tensors((kept.args, kept.kwargs), own, placed)
        call = Call(text, kept.pair.function, args, kwargs, constants=kept.constants)
        try:
            found = located_call(call, own, placed, seed)
        except FunctionFailed as error:
            if placed.dtype == "float32" or not takes_less(error.what, PLAIN):
                raise
            return self._request(own, recorded, kept, Placed("float32"))
        if not found.wrt:
            raise BadPoint(
                f"{text} was called with nothing to differentiate", do="it is checked where a gradient is asked for"
            )
        request = request_for(dataclasses.replace(found, chosen=True), None, self.settings)
        return with_cotangent(request, found) or request

    def _check(self, what: Stated, claim: Callable[..., Any]) -> CheckReport:
        found = function_at(what.function, what.function.__name__, [{WHOLE: what.values}], self._locate)
        return check(request_for(found, Claiming(what.kind, claim), self.settings))

    @property
    def _locate(self) -> LocateOptions:
        return LocateOptions(self.settings.options.seed, stepping=self.settings.stepping)


def _as_tensors(values: Any, own: Framework, placed: Placed) -> Any:
    """Return values with tensors of a framework for arrays, which were kept as those of numpy."""
    node, leaves = taken_apart("", values)
    tensors = {path: own.tensor(x, placed) if isinstance(x, np.ndarray) else x for path, x in leaves.items()}
    return put_together(node, tensors)


def _with(report: CheckReport, said: Finding) -> CheckReport:
    """Return a report with one more finding, and the verdict that it leads to: a warning changes none."""
    verdict = {Severity.ERROR: Verdict.FAIL, Severity.INCONCLUSIVE: Verdict.INCONCLUSIVE}.get(
        said.severity, report.verdict
    )
    points = tuple(dataclasses.replace(p, findings=(said, *p.findings), verdict=verdict) for p in report.points)
    return dataclasses.replace(report, points=points, verdict=verdict, exit_status=int(_STATUS[verdict]))


def _changed(says: str, hint: str | None = None) -> Finding:
    return finding(Kind.CHANGED_SINCE, Severity.INCONCLUSIVE, says, hint=hint)


def _state(says: str, severity: Severity) -> Finding:
    return finding(Kind.EARLIER_CALLS, severity, says)


def _has_changed(kept: Kept) -> bool:
    """Whether the function has another value now than it had at a kept call."""
    if kept.value is None:
        return False
    with as_it_was(kept.state):
        return not _same(value_at(kept), kept.value)


def _cause(recorded: Recorded, kept: Kept) -> str | None:
    """Return the likely cause why a gradient was wrong at one call and not at another, None if none is seen."""
    earlier = [other for other in recorded.kept() if other.number < kept.number and other.process == kept.process]
    if all(_same(other.returned, kept.returned) for other in recorded.kept()):
        earlier = []  # a constant gradient is no cache
    for other in earlier:
        if other.pair.convention == kept.pair.convention and _same(other.returned, kept.returned):
            return f"returned the gradient of call {other.number:,}, as from a cache that is out of date"
    if kept.changes_input:
        return "changed its input in place"
    if kept.reuses_array:
        return "returned the array of an earlier call, which each call overwrites"
    return None


def _same(x: Any, y: Any) -> bool:
    """Whether two results are equal but for rounding."""
    if isinstance(x, tuple | list) and isinstance(y, tuple | list) and len(x) == len(y) and any(map(np.ndim, x)):
        return all(map(_same, x, y))
    x, y = (np.asarray(each.toarray() if hasattr(each, "toarray") else each) for each in (x, y))
    if x.shape != y.shape:
        x, y = np.squeeze(x), np.squeeze(y)
    if x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc" and y.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    largest = float(np.max(np.abs(x), initial=0.0))
    return bool(np.allclose(x, y, rtol=0.0, atol=_SAME * largest, equal_nan=True))
