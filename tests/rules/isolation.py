"""Check a primitive alone: compare its derivative rules, in balls and in float64, with function values."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from gradcli.checks.evidence import AGREE, DISAGREE, Outcome, judge_entries
from gradcli.checks.run_modes import run_modes
from gradcli.errors import GradcliError, TraceDiffers
from gradcli.modes.mode import Contradiction, Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Estimate, Point
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.shapes import shape
from tests.rules.samples import Sample, samples

OK = "ok"
POINTS = 3  # at which each way to call a primitive is checked
_ATTEMPTS = 20  # points tried for each of these, because a user's own function may be undefined at some
_FLOAT64 = 1e-9  # relative: the allowed error of float64 slopes at ordinary points, which scipy's functions limit
_NEAR_ZERO = 1e-6  # slopes below it are compared as if they were this large


class CannotTell(Exception):
    """A primitive could not be checked; the message says why."""


def holds_up(row: Primitive) -> str:
    """Check one primitive alone, at random points of its domain; return `ok`, or a sentence that says what is wrong.

    Raises  CannotTell with the reason if some part could not be checked, and nothing wrong was found in the rest.
    """
    ways = samples(row)
    if not ways:
        raise CannotTell("no way to call it is known")
    reason = None
    for way in ways:
        try:
            wrong = _wrong_in(row, way)
        except CannotTell as error:
            reason = reason or error
            continue
        if wrong is not None:
            return wrong
    if reason is not None:
        raise reason
    return OK


def _wrong_in(row: Primitive, way: Sample) -> str | None:
    """Return what is wrong with one way to call a primitive, or None if nothing is. Raises CannotTell."""
    checked = 0
    for xs in islice(way.points(np.random.default_rng(0)), _ATTEMPTS * POINTS):
        inputs = {f"x{i}": xs[i] for i in way.moving}
        q = Question(_Alone(row, way, xs, tuple(inputs)), Point(inputs), tuple(inputs))
        try:
            if row.body and not (np.all(np.isfinite(q.value)) and q.not_finite is None):
                continue  # the domain of a user's own function is unknown
            wrong = _wrong_at(q, row)
        except GradcliError as error:
            raise CannotTell(error.what) from None
        if wrong is not None:
            return wrong
        checked += 1
        if checked == POINTS:
            return None
    raise CannotTell("it is finite at none of the points tried")


def _wrong_at(q: Question, row: Primitive) -> str | None:
    """Return what is wrong at one point, or None; a user's function that balls cannot run is checked in float64."""
    found = run_modes(q, [MODES["certified"], MODES["forward"], MODES["finite-difference"]])
    if isinstance(found["certified"].error, Contradiction | TraceDiffers):
        return found["certified"].error.what
    rules = found["certified"]
    if rules.estimate is None and row.body and rules.status == "unsupported":
        rules = found["forward"]
    right, differences, forward = map(_estimate, (rules, found["finite-difference"], found["forward"]))
    verdicts = {name: judge_entries(differences, right, name, _NEAR_ZERO) for name in q.wrt}
    for name, verdict in verdicts.items():
        if np.any(verdict == DISAGREE):
            return _says(q, name, right, differences, "by differences", verdict == DISAGREE)
        size = np.abs(right.value[name])
        lossy = np.abs(forward.value[name] - right.value[name]) > _FLOAT64 * (size + _NEAR_ZERO)
        if np.any(lossy):
            return _says(q, name, right, forward, "in float64", lossy)
    if any(np.any(verdict != AGREE) for verdict in verdicts.values()):
        raise CannotTell("differences cannot tell")
    return None


def _estimate(outcome: Outcome) -> Estimate:
    if outcome.estimate is None:
        raise CannotTell(f"{outcome.mode.name}: {outcome.error.what if outcome.error else outcome.status}")
    return outcome.estimate


def _says(q: Question, name: str, right: Estimate, other: Estimate, what: str, wrong: Any) -> str:
    """Return a sentence on the first entry that disagrees."""
    k = int(np.flatnonzero(wrong)[0])
    rule, found = (float(np.reshape(e.value[name], -1)[k]) for e in (right, other))
    at = ", ".join(f"{float(x):.6g}" if not shape(x) else f"an array of shape {shape(x)}" for x in q.xs)
    entry = f", entry {k}," if np.size(wrong) > 1 else ""
    return f"the partial of argument {name.removeprefix('x')}{entry} is {rule:.6g} at {at}, {what} {found:.6g}"


@dataclass(frozen=True, eq=False)
class _Alone:
    """One primitive as a function of its differentiated arguments."""

    row: Primitive
    way: Sample
    xs: tuple[Value, ...]
    inputs: tuple[str, ...]
    kind: Any = "primitive"  # no document names this kind of target
    outputs: tuple[Any, ...] = ()
    seconds: float | None = None

    @property
    def text(self) -> str:
        """The primitive's name."""
        return self.row.name

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self.row(*(self.way.prepare(values.get(f"x{i}", x)) for i, x in enumerate(self.xs)), **self.way.params)

    def survey(self, values: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return the value, and no notices."""
        return self(values), []
