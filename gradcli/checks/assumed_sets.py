"""A check on the sets that inputs are assumed to lie on: symmetric matrices, the simplex, unit vectors, and others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.evidence import CANNOT_TELL, DISAGREE, SetLeft, allowed_difference
from gradcli.checks.probe import Located
from gradcli.checks.run_modes import PointCheck
from gradcli.errors import BadOption, BadPoint, GradcliError
from gradcli.modes.claim import FLOAT64, Claimed
from gradcli.report import numbers
from gradcli.report.common import Finding, finding
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.derived import OnSurfaces, random_direction, tangent_to_surfaces
from gradcli.targets.facts import (
    FACTS,
    SYMMETRIC,
    Surface,
    dims_of_values,
    first_broken_fact,
    is_fixed,
    parse_facts,
    surface_of,
)
from gradcli.tracing.shapes import largest_magnitude, shape, size
from gradcli.words import Kind, Severity

Surfaces = Mapping[str, Surface]
_MEANT = ("symmetric", "orthogonal", "skew", "simplex", "simplex rows", "unit")  # sets that a point is on by intent
_NEAR = (1e-2, 1e-4)  # relative: how far beside the point f is evaluated, on a set and off it
_SAME = 1e-12  # what rounding moves a value on a set by, where it is brought back
_HIDDEN = 1e-12  # relative to the largest entry of the claim: a smaller part that a set hides is rounding


def apply_assumptions(found: Located, options: Options) -> tuple[Located, Surfaces]:
    """Return a target with its points brought back to the sets that `--assume` names, where that holds for the check.

    The sets are returned beside it, by input; inputs of single values are constant.

    Raises  BadPoint for a point that is off its set; BadOption for an assumption that cannot be read or kept to.
    """
    if not options.assumptions_of_check:
        return found, {}
    facts = parse_facts(list(options.assumptions_of_check), dims_of_values(found.points[0].values))
    for point in found.points:
        for name, words in facts.items():
            broken = first_broken_fact(words, point.values[name])
            if broken is not None:
                says = f'--assume "{name}: {broken}" does not hold at the point'
                raise BadPoint(says, do="give a point where it holds, or leave it out")
    fixed = {name for name, words in facts.items() if is_fixed(words)}
    if found.chosen and fixed & set(found.wrt):
        names = ", ".join(sorted(fixed & set(found.wrt)))
        raise BadOption(f"{names} has single values by --assume, and no derivative", do="leave it out of --wrt")
    kept = tuple(name for name in found.wrt if name not in fixed)
    if not kept:
        raise BadOption("--assume leaves no input to differentiate", do="assume less")
    made = {name: surface_of(words) for name, words in facts.items() if name in kept}
    surfaces = {name: surface for name, surface in made.items() if surface is not None}
    points = tuple(_bring_point_to_sets(point, surfaces) for point in found.points)
    return replace(found, wrt=kept, points=points), surfaces


def _bring_point_to_sets(point: Point, surfaces: Surfaces) -> Point:
    """Return a point whose inputs lie on their sets to the last digits."""
    back = {name: surface.bring(np.asarray(point.values[name])) for name, surface in surfaces.items()}
    if all(np.array_equal(x, point.values[name]) for name, x in back.items()):
        return point
    for x in back.values():
        x.flags.writeable = False
    return replace(point, values={**point.values, **back}, value=None)


def restrict_to_surfaces(located: Located, claim: Claimed | None, surfaces: Surfaces) -> tuple[Located, Claimed | None]:
    """Return the function, and the claim of its derivative, on the sets that its inputs lie on."""
    if not surfaces:
        return located, claim
    on = located.with_function(OnSurfaces(located.f, surfaces))
    return on, None if claim is None else ClaimOnSurfaces(claim, surfaces)


class ClaimOnSurfaces:
    """A claim without its parts across the sets that inputs lie on, which nothing can confirm or contradict.

    `hidden` has the largest entry of what was left out at the last call, by input.
    """

    def __init__(self, claim: Claimed, surfaces: Surfaces) -> None:
        self.text, self.place, self.precision = claim.text, claim.place, FLOAT64
        self.claim, self.surfaces = claim, surfaces
        self.hidden: dict[str, float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self.claim.names

    @property
    def mutates(self) -> bool:
        return self.claim.mutates

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        back = {name: s.bring(values[name]) for name, s in self.surfaces.items()}
        if not all(np.allclose(x, values[name], rtol=_SAME, atol=_SAME) for name, x in back.items()):
            values = {**values, **back}  # an input that was drawn anew: f gets it on the set, too
        found = self.claim(values)
        self.hidden = {}
        along = dict(found)
        for name in self.surfaces.keys() & found.keys():  # one of another shape is wrong, whatever its numbers
            x = found[name]
            along[name] = gradient_along_surface(self.surfaces[name], x, values[name])
            left_out = largest_magnitude(along[name] - x)
            if left_out > _HIDDEN * largest_magnitude(x):
                self.hidden[name] = left_out
        return along

    def notes(self) -> list[Finding]:
        """Return a finding for each input whose claim has a part that is not compared."""
        return [
            finding(Kind.STRUCTURE, Severity.INFO, f"on {surface.name} a part of the claimed gradient of {name} is not "
                    f"compared: {surface.hides}, up to {numbers.few_digits(self.hidden[name])}")
            for name, surface in self.surfaces.items() if name in self.hidden
        ]  # fmt: skip


def gradient_along_surface(surface: Surface, x: Any, at: Any) -> Any:
    """Return a gradient or Jacobian along a set, row by row; as it is if its shape has no rows of the input's shape."""
    own = shape(at)
    flat = len(shape(x)) == 2 and shape(x)[1] == size(at)
    if not isinstance(x, np.ndarray) or not (flat or shape(x)[len(shape(x)) - len(own) :] == own):
        return x
    rows = np.reshape(x, (-1, *own))
    return np.reshape(np.stack([surface.pull(at, row) for row in rows]), shape(x)) if len(rows) else x


def find_sets_left(case: PointCheck) -> tuple[SetLeft, ...]:
    """Return the sets that a derivative by single entries leaves and f does not allow, or does not see: a set for an input.

    f raises off the set, as where it demands a distribution, or reads one triangle of a symmetric matrix, as a Cholesky
    factor does. Of inputs whose claim is wrong, those are left out whose claim is wrong along the set, too.
    """
    if case.reference is None or "claim" not in case.agreement:
        return ()
    claim, right = case.estimate("claim"), case.estimate(case.reference)
    found = []
    for name, word in case.agreement["claim"].items():
        x, g, bound = (np.asarray(part) for part in (case.q.point.values[name], right.value[name], right.bound[name]))
        wrong = bool(np.any(word == DISAGREE))
        if not wrong and not (np.any(word == CANNOT_TELL) and not np.all(np.isfinite(bound))):
            continue
        room = np.broadcast_to(np.asarray(allowed_difference(claim, right, name, case.tolerance)), g.shape)
        for fact in _MEANT:
            surface, fits = FACTS[fact].surface, FACTS[fact].fits(tuple(map(str, x.shape)))
            if surface is None or not fits or first_broken_fact(frozenset({fact}), x):
                continue
            if wrong and not _is_zero_along_surface(surface, np.asarray(claim.value[name]) - g, room, x):
                continue
            if wrong and fact == "symmetric" and _reads_one_triangle(g, bound):
                found.append(SetLeft(name, fact, surface.name, f"f reads one triangle of {name}", wrong))
            elif _raises_off_surface(case, name, surface, x):
                found.append(SetLeft(name, fact, surface.name, f"f raises off {surface.name}", wrong))
            else:
                continue
            break
    return tuple(found)


def _is_zero_along_surface(surface: Surface, apart: Any, room: Any, x: Any) -> bool:
    """Whether the difference of two gradients is none along a set, within the room that their entries have."""
    pulled = np.abs(gradient_along_surface(surface, apart, x))
    if surface is SYMMETRIC:
        return bool(np.all(pulled <= (room + np.swapaxes(room, -1, -2)) / 2))
    return bool(np.all(pulled <= 2 * np.sum(room)))


def _reads_one_triangle(g: Any, bound: Any) -> bool:
    """Whether the derivative is 0 by every entry above the diagonal, or below it, and not by those of the other side."""
    zero, off = np.abs(g) <= np.broadcast_to(bound, g.shape), ~np.eye(g.shape[-1], dtype=bool)
    upper, lower = (bool(np.any(~zero & half)) for half in (np.triu(off), np.tril(off)))
    return upper != lower


def _raises_off_surface(case: PointCheck, name: str, surface: Surface, x: Any) -> bool:
    """Whether f has no value at points near this one off a set, on either side, and has values at those on it."""
    v = random_direction(case.q.seed, name, x)
    across = v - tangent_to_surfaces({name: surface}, {name: x}, {name: v})[name]

    def raises(moved: Any) -> bool:
        try:
            case.q.f({**case.q.point.values, name: moved})
        except (GradcliError, np.linalg.LinAlgError):
            return True
        return False

    off = any(all(raises(x + sign * h * across) for sign in (1.0, -1.0)) for h in _NEAR)
    return off and not any(raises(surface.bring(x + h * v)) for h in _NEAR)
