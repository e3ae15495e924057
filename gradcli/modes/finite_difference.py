"""Finite differences of the untouched function."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gradcli.errors import TraceDiffers
from gradcli.frameworks.native import native_of
from gradcli.modes.jacobians import columns_to_array
from gradcli.modes.mode import Available, Question
from gradcli.modes.problem import MOST_EVALUATIONS, OverBudget
from gradcli.modes.second_differences import GradientByValues, hessian_by_values
from gradcli.modes.steps import EPS, TAME, Difference, Line, Noise, derivative, noise, rough_part, spacing, widen_zeros
from gradcli.request.point import Array, Cost, Estimate, Slopes, Witness
from gradcli.targets.derived import gradient_in, root_of
from gradcli.tracing.shapes import shape

CALLS = 21  # for each entry, about: from 14 for a smooth function to over 100
MANY = 50  # entries: if there are more, fine structure is searched for along random directions
_DIRECTIONS = 2
_FURTHER = (-1e-4, 1e-3)  # relative to the entries: where f is looked at if it does not change nearer to the point
_LEFT = 0.03  # of what smaller tolerances change of f: the noise that they may leave
_MANY_STEPS = 1e4  # times the distances at which noise is sampled: so far apart float32 has hundreds of numbers
_SAFETY = 3.0  # times what smaller tolerances of solvers change: what still smaller ones may change at other steps


class FiniteDifference:
    """Central differences with Richardson extrapolation; step and error bound from estimated noise and truncation."""

    name = "finite-difference"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by differences.

        Error   estimated; it does not include structure of f that noise hides. It includes what smaller tolerances of
                solvers in f change.
        Cost    for each entry, 14 to 18 evaluations of a smooth function and 43 or more of another; 8 less if there are
                many entries and no fine structure. 9 in addition, and more if f looks noisy.
        Raises  NotRun, OverBudget if that is too much; TraceDiffers if the recorded program is not the function.
        """
        if isinstance(gradient_in(q.f), GradientByValues):
            return hessian_by_values(q.f, q.point.values, q.stepping, q.budget)
        self.affordable(q)
        if q.untraced is None and q.trace_test.agrees is False:
            raise TraceDiffers("the trace differs from the function")  # the caller asks again, without a trace
        value: dict[str, Array] = {}
        bound: dict[str, Array] = {}
        slopes: dict[str, Slopes] = {}
        with np.errstate(all="ignore"):
            entries, most = q.entries, q.stepping.budget or np.inf
            around = surroundings(q, most - TAME * entries)
            calls = around.calls
            differences: dict[str, list[Difference]] = {}
            for k, name in enumerate(q.wrt):
                found = differences[name] = []
                for at in np.ndindex(shape(q.xs[k])):
                    entries -= 1
                    left = most - calls - TAME * entries
                    found.append(self.entry(q, k, at, around, left))
                    calls += found[-1].calls
                    if not around.looks and q.solver_changes is None and _differs(q, name, at, found[-1]):
                        found[-1] = self.entry(q, k, at, replace(around, looks=True), left - found[-1].calls)
                        calls += found[-1].calls
            if q.untraced is not None and any(differences.values()):
                widened = iter(widen_zeros([d for found in differences.values() for d in found]))
                differences = {name: [next(widened) for _ in found] for name, found in differences.items()}
            for k, (name, found) in enumerate(differences.items()):
                value[name] = columns_to_array([d.value for d in found], q.value, q.xs[k])
                bound[name] = columns_to_array([d.bound for d in found], q.value, q.xs[k])
                if any(np.any(d.kinked | np.isfinite(d.other)) for d in found):
                    slopes[name] = _slopes(found, q.value, q.xs[k])
            if (
                q.untraced is None and q.affords_slopes
            ):  # the values of an ill-conditioned f are those of a slightly different f
                bound = {name: b + q.rounding[name] for name, b in bound.items()}
            changes = q.solver_changes
            solvers = {} if changes is None else {name: _SAFETY * changes.of(name, g) for name, g in value.items()}
            bound = {name: b + solvers.get(name, 0.0) for name, b in bound.items()}
        calls += 0 if changes is None else changes.evaluations
        cost = Cost(evaluations=calls, operations=calls * q.operations)
        return Estimate(value, bound, statistical=True, cost=cost, slopes=slopes, solvers=solvers)

    def affordable(self, q: Question) -> None:
        """Raise NotRun if the entries would take too many evaluations, or too much work."""
        calls = q.entries * CALLS
        budget = q.stepping.budget or (MOST_EVALUATIONS if q.untraced is not None else calls)
        if calls > budget:
            says = f"{q.entries:,} entries would take about {calls:,} evaluations, more than the budget of {budget:,}"
            raise OverBudget(says, do=f"--budget {calls}")
        if q.untraced is None:
            q.budget.admit(calls * q.work, f"{calls:,} evaluations of f")

    def entry(
        self, q: Question, k: int, at: tuple[int, ...], around: "Surroundings", most: float = np.inf
    ) -> Difference:
        """Return the derivative with respect to one entry, with at most `most` calls."""
        x = q.xs[k]

        def phi(t: float) -> Any:
            moved = np.array(x)
            moved[at] += t
            xs = list(q.xs)
            xs[k] = moved[()]
            return q.near(*xs)

        name = q.wrt[k]
        low, high = q.stepping.of(name)
        line = Line(phi, float(np.asarray(x)[at]), low, high, at=q.value, most=most)
        return derivative(
            line, float(np.median(np.abs(x))), Noise(around.floor, around.noise, around.rough),
            h=q.stepping.h, size=q.stepping.scales.get(name), looks=around.looks,
        )  # fmt: skip


def _differs(q: Question, name: str, at: tuple[int, ...], found: Difference) -> bool:
    """Whether a difference is not the slope of the recorded program, so that fine structure is worth looking for."""
    if q.untraced is not None or not q.affords_slopes:
        return False
    apart = np.abs(found.value - q.slopes[name][(..., *at)])
    return bool(np.any(apart > found.bound + q.rounding[name][(..., *at)]))


def _slopes(found: list[Difference], y: Array, x: Array) -> Slopes:
    parts = {f.name: [np.broadcast_to(getattr(d, f.name), np.shape(y)) for d in found] for f in fields(Slopes)}
    return Slopes(**{name: columns_to_array(columns, y, x) for name, columns in parts.items()})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What values of f along a random direction show: the noise, its part that is not fine structure, and the calls made.

    `floor` is the noise that f is known to have: by its recorded run, or by the spacing of its values. `looks` says whether
    each entry is searched for structure finer than the steps of differences. It is set if there is such structure along
    the direction, and for a function with few entries that cannot be traced; never where f calls a solver, whose steps make
    such structure.
    """

    floor: Any
    noise: Any
    rough: Any
    looks: bool
    calls: int


def surroundings(q: Question, most: float = np.inf) -> Surroundings:
    """Return the noise of f along a random direction in proportion to the entries, and how much of it is rounding.

    Cost    9 calls; if f looks noisier than rounding and `most` allows, 28 more, and up to 106 for each of six entries of
            the output; for many entries of a function that cannot be traced, two differences.
    """
    rng = np.random.default_rng([q.seed, 0x4015E])

    def line(most: float) -> Line:
        drawn = [
            rng.choice([-1.0, 1.0], shape(x)) * q.stepping.sizes(name, x) for name, x in zip(q.wrt, q.xs, strict=True)
        ]
        vs = [q.stepping.inward(name, x, v) for name, x, v in zip(q.wrt, q.xs, drawn, strict=True)]

        def phi(t: float) -> Any:
            return q.near(*[x + t * v for x, v in zip(q.xs, vs, strict=True)])

        return Line(phi, at=q.value, most=most)

    along = line(most)
    floor = q.noise_floor if q.untraced is None else _spacing(along)
    seen = np.maximum(floor, noise(along, 1.0))
    native = native_of(root_of(q.f)) if q.untraced is not None else None
    if native is not None and native.values_format != "float64":  # what it computes in between moves by steps of that
        floor = seen = np.maximum(seen, noise(along, _MANY_STEPS))
    if q.solver_changes is not None:
        seen = np.maximum(seen, _LEFT * q.solver_changes.error)
        return Surroundings(floor, seen, seen, False, along.calls)
    rough, fine, calls = rough_part(along, seen), False, along.calls
    for _ in range(_DIRECTIONS if q.untraced is not None and q.entries > MANY else 0):
        found = derivative(line(most - calls), noise=Noise(floor, seen, rough))
        calls += found.calls
        fine |= bool(np.any(found.kinked | (np.isfinite(found.other) & ~found.jumps)))
    few = q.untraced is not None and q.entries <= MANY
    return Surroundings(floor, seen, rough, fine or few or bool(np.any(rough < seen)), calls)


def _spacing(along: Line) -> Any:
    """Return the spacing of f's values, by those that are known along a line, where it is coarser than that of float64.

    Cost    2 calls if all known values are equal.
    """
    if len(along.seen) > 1 and all(np.array_equal(y, along.at) for y in along.seen.values()):
        for t in _FURTHER:
            along(t)
    values = np.stack([along.at, *along.seen.values()])
    found = spacing(values)
    return np.where(found > EPS * np.max(np.abs(values), axis=0), found, 0.0)
