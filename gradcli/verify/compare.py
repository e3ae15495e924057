"""Running several modes on one question, and comparing what they say, entry by entry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.errors import GradcliError, NotSupported, OutOfTime, TraceDiffers, Undecided
from gradcli.modes.limits import timed
from gradcli.modes.mode import Contradiction, Mode, NotRun, Question
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.point import Array, Estimate
from gradcli.report.common import Finding, finding
from gradcli.words import Kind, Severity

AGREE, CANNOT_TELL, DISAGREE = np.int8(0), np.int8(1), np.int8(2)  # verdicts of entries; the larger is the worse
WORDS = ("agree", "cannot tell", "disagree")
NEAR_ZERO = 1e-6  # of the largest entry: smaller ones are compared as if they were this large
USEFUL = 1e-3  # a bound wider than this, relative to the entry, decides nothing
USEFUL_NARROW = 0.5  # the same for formats of few digits, relative to the largest entry
UNRESOLVED = 0.5  # an entry known to be different from zero is not confirmed by a bound half its size
DOUBT = 3.0  # between one and three bounds, an estimated bound cannot tell


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mode: an estimate, or a status and why."""

    mode: Mode
    status: str
    estimate: Estimate | None = None
    error: GradcliError | None = None


def run(
    q: Question, modes: Sequence[Mode], heard: Callable[[dict[str, Outcome]], None] | None = None
) -> dict[str, Outcome]:
    """Run the modes; the symbolic one beside the others, in its own process. `heard` is told after each."""
    q.prepare()
    apart = [mode for mode in modes if mode.name == "symbolic" and not q.crowded]
    found: dict[str, Outcome] = {}
    with ThreadPoolExecutor(1) as pool:
        waiting = {mode.name: pool.submit(attempt, mode, q) for mode in apart}
        for mode in modes:
            if mode.name not in waiting:
                found[mode.name] = attempt(mode, q)
                if heard is not None:
                    heard(found)
        found |= {name: future.result() for name, future in waiting.items()}
    return {mode.name: found[mode.name] for mode in modes}


def attempt(mode: Mode, q: Question) -> Outcome:
    """Run one mode; what keeps it from answering becomes its status."""
    available = mode.available()
    if not available.yes:
        return Outcome(mode, "unavailable", error=NotSupported(available.why, do=available.install))
    try:
        return Outcome(mode, "ok", timed(lambda: mode.gradient(q), q.mode_timeout))
    except NotRun as error:
        return Outcome(mode, "not run", error=error)
    except OutOfTime as error:
        return Outcome(mode, "timeout", error=error)
    except NotSupported as error:
        return Outcome(mode, "unsupported", error=error)
    except (Contradiction, TraceDiffers, Undecided) as error:
        return Outcome(mode, "failed", error=error)


def answered(outcomes: Mapping[str, Outcome]) -> tuple[str, ...]:
    """Return the frameworks that answered."""
    return tuple(name for name in FRAMEWORKS if name in outcomes and outcomes[name].status == "ok")


def missing(outcomes: Mapping[str, Outcome]) -> tuple[Finding, ...]:
    """Return a finding for each mode that was asked for and is not installed."""
    errors = [outcome.error for outcome in outcomes.values() if outcome.status == "unavailable"]
    return tuple(
        finding(Kind.UNAVAILABLE, Severity.WARNING, error.what, hint=error.do) for error in errors if error is not None
    )


def reference_of(outcomes: dict[str, Outcome]) -> str | None:
    """Return the mode the others are measured against: certified if it answered, else rules, else differences."""
    for name in ("certified", "reverse", "forward", "symbolic", "complex-step", "finite-difference"):
        if name in outcomes and outcomes[name].status == "ok":
            return name
    return next((name for name, outcome in outcomes.items() if outcome.status == "ok" and name in MODES), None)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A user's fixed tolerances, instead of computed ones."""

    rtol: float = 0.0
    atol: float = 0.0


def allowed(a: Estimate, b: Estimate, name: str, fixed: Tolerance | None) -> Array:
    """Return how far apart two right values of one input may lie."""
    if fixed is not None:
        return fixed.atol + fixed.rtol * np.abs(b.value[name])
    return np.asarray(a.bound[name]) + np.asarray(b.bound[name])


def scale_of(q: Question, right: Estimate) -> float:
    """Return the size of gradient below which entries count as zero."""
    largest = max((_largest(v) for v in right.value.values()), default=0.0)
    x = max((float(np.max(np.abs(x), initial=0.0)) for x in q.xs), default=0.0)
    return NEAR_ZERO * max(largest, _largest(q.value) / max(x, 1.0))


def _largest(x: Array) -> float:
    sizes = np.abs(np.atleast_1d(x))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def entrywise(a: Estimate, b: Estimate, name: str, scale: float, fixed: Tolerance | None = None) -> Any:
    """Return the verdict of each entry of one input; `b` is the reference.

    Shapes  as the estimates' values.
    Units   `scale` is the size of gradient below which an entry counts as zero.
    """
    if a is b and fixed is None:
        return np.where(np.isfinite(a.value[name]) & np.isfinite(a.bound[name]), AGREE, CANNOT_TELL)
    room = np.asarray(allowed(a, b, name, fixed))
    x, y = np.asarray(a.value[name]), np.asarray(b.value[name])
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
        close = distance <= room
        verdict = np.where(close, AGREE, DISAGREE)
        if fixed is None:  # a user who sets a tolerance has said what is near enough
            size = np.abs(y)
            if a.narrow:
                wide = room > USEFUL_NARROW * max(_largest(y), scale)
            else:
                wide = room > USEFUL * np.maximum(size, scale)
                wide |= (room > UNRESOLVED * size) & (size > b.bound[name])
            if np.any(wide):  # two equal zeros agree, unless the bound is as wide as the slopes of f
                unequal = (distance > 0) | (room > USEFUL * scale / NEAR_ZERO if scale else False)
                verdict[...] = np.where(close & wide & unequal, CANNOT_TELL, verdict)
        if a.statistical or b.statistical:
            verdict[...] = np.where(~close & (distance <= DOUBT * room), CANNOT_TELL, verdict)
        known = np.isfinite(distance) & np.isfinite(room)
    return verdict if np.all(known) else np.where(known, verdict, CANNOT_TELL)


def word_of(verdicts: Iterable[Any]) -> str:
    """Return the worst of many verdicts in words."""
    return WORDS[max((int(np.max(v, initial=AGREE)) for v in verdicts), default=0)]
