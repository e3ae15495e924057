"""How much the tolerances of scipy's solvers in f change its derivatives: measured, by smaller tolerances."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gradcli.modes.jacobians import jacobian_from_columns
from gradcli.modes.problem import Problem
from gradcli.modes.rounding import EPS
from gradcli.request.point import Array
from gradcli.targets.derived import original_function, random_signs
from gradcli.targets.facts import Function
from gradcli.targets.replacement_scope import solver_tolerances
from gradcli.targets.solver_tolerances import TIGHTER
from gradcli.tracing.shapes import shape

# of the size of an entry: wide, so that a solver's noise is small beside its error
_STEPS = (-0.1, -0.03, 0.0, 0.03, 0.1)
_PAIRS = ((1, 3), (0, 2), (2, 4))  # the steps between which quotients are taken
_DIRECTIONS = 4
_SMALL = 1e-3  # of the largest slope: the changes of smaller ones, relative to them, say nothing of the others
_MOST_ENTRIES = 200  # if there are more, the change along one direction stands for all of them
_ROUNDINGS = 64.0  # roundings of f, divided by the step: a smaller change is none
_TYPICAL = 0.9  # the quantile of the relative changes of all entries that every entry is granted


def solvers_of(f: Function) -> tuple[str, ...]:
    """Return the solvers of scipy that a function calls, with their tolerances: `solve_ivp at rtol=1e-8`."""
    return getattr(original_function(f), "solvers", ())


def smaller_tolerances(f: Function) -> AbstractContextManager[Any]:
    """Context in which solvers that f calls have smaller tolerances, by a factor of a hundred or more."""
    if not solvers_of(f):
        return nullcontext()
    return solver_tolerances(getattr(original_function(f), "tolerance_factor", TIGHTER[0]))


class SolverChanges:
    """How much difference quotients change between the tolerances of f's solvers and smaller ones.

    The change of an entry is the largest of three quotients, over steps of 3 % and of 10 % of the entry, since one may be
    small by accident; and no less, in proportion, than what nine in ten of all entries change. Among many entries the
    relative change along some random directions stands for all.

    Cost    ten evaluations of f for each entry, or for each of four directions, half of them with smaller tolerances.
    """

    def __init__(self, q: Problem) -> None:
        self.error: Array = 0.0  # the largest change of f's values themselves
        self._changes: dict[str, Array] = {}
        self._relative = 0.0
        self.evaluations = 2 * len(_STEPS) * (_DIRECTIONS if q.entries > _MOST_ENTRIES else q.entries)
        with np.errstate(all="ignore"):
            if q.entries > _MOST_ENTRIES:
                self._relative = self._relative_change(q)
            else:
                self._changes = {name: self._changes_of_input(q, k) for k, name in enumerate(q.wrt)}

    def of(self, name: str, slopes: Array) -> Array:
        """Return the change of each entry of an input whose derivatives are about `slopes`.

        Shapes  as the Jacobian of f by this input.
        """
        return self._changes[name] if name in self._changes else self._relative * np.abs(slopes)

    def _changes_of_input(self, q: Problem, k: int) -> Array:
        x, sizes = q.xs[k], np.asarray(q.stepping.sizes_of_entries(q.wrt[k], q.xs[k]))
        changes, slopes = [], []
        for at in np.ndindex(shape(x)):
            v = np.zeros(shape(x))
            v[at] = sizes[at]
            vs = [v[()] if j == k else np.zeros(shape(other)) for j, other in enumerate(q.xs)]
            change, slope = self._change_along_direction(q, vs)
            changes.append(change / sizes[at])
            slopes.append(slope / sizes[at])
        change, slope = (jacobian_from_columns(columns, q.value, x) for columns in (changes, slopes))
        size = np.abs(slope)
        known = size > _SMALL * np.max(size, initial=0.0)
        relative = np.divide(change, size, out=np.zeros(np.shape(change)), where=known)[known]
        typical = float(np.quantile(relative, _TYPICAL)) if relative.size else 0.0
        return np.fmax(change, typical * size)

    def _relative_change(self, q: Problem) -> float:
        rng = np.random.default_rng([q.seed, 0x50153])
        found = []
        for _ in range(_DIRECTIONS):
            vs = [
                random_signs(rng, shape(x)) * q.stepping.sizes_of_entries(name, x)
                for name, x in zip(q.wrt, q.xs, strict=True)
            ]
            change, slope = self._change_along_direction(q, vs)
            found.append((float(np.max(change, initial=0.0)), float(np.max(np.abs(slope), initial=0.0))))
        change, slope = (max(part) for part in zip(*found, strict=True))
        return change / slope if slope > 0 else 0.0

    def _change_along_direction(self, q: Problem, vs: Sequence[Array]) -> tuple[Array, Array]:
        """Return the change of the difference quotient along a direction, and the quotient with the smaller tolerances."""

        def values() -> list[Array]:
            places = ([x + t * v for x, v in zip(q.xs, vs, strict=True)] for t in _STEPS)
            return [np.asarray(q.near(*place), dtype=float) for place in places]

        smaller = values()
        with solver_tolerances(1.0):
            errors = [own - y for own, y in zip(values(), smaller, strict=True)]
        self.error = np.fmax(self.error, np.fmax.reduce(np.abs(errors)))
        changes = [np.abs(errors[b] - errors[a]) / (_STEPS[b] - _STEPS[a]) for a, b in _PAIRS]
        change, slope = np.fmax.reduce(changes), (smaller[3] - smaller[1]) / (_STEPS[3] - _STEPS[1])
        least = _ROUNDINGS * EPS * np.fmax.reduce(np.abs(smaller)) / _STEPS[3]
        return np.where(np.isfinite(change) & (change > least), change, 0.0), np.where(np.isfinite(slope), slope, 0.0)
