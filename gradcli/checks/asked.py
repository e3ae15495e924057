"""From a target and the options to the request that a check answers."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.checks.build import Settings, request_for
from gradcli.checks.claims import Claiming
from gradcli.checks.implementation import implementation_of
from gradcli.checks.probe import Located, LocateOptions, locate
from gradcli.checks.request import Request
from gradcli.request.options import with_claim
from gradcli.request.point import Point
from gradcli.request.replay import replayed
from gradcli.request.target_text import is_python
from gradcli.targets.points import numbers
from gradcli.targets.points import shapes as read_shapes
from gradcli.targets.target_request import TargetRequest, checked_point_texts


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options that hold for every target; `command` replaces the command that repeats a check, if it has another one."""

    settings: Settings
    points: int = 1
    sizes: Mapping[str, int] = field(default_factory=dict)
    command: tuple[str, ...] = ()


def request(ask: TargetRequest, wanted: CheckOptions, values: Mapping[str, Any] | None = None) -> Request:
    """Return the request to check one target, with the command that repeats it; `values` stand for those of the point.

    Raises  GradcliError if the target, its point or its claim cannot be used.
    """
    settings = wanted.settings
    seed, shapes = settings.options.seed, settings.options.shapes
    at = checked_point_texts(ask)
    sizes = numbers(shapes, at, seed, wanted.sizes, ask.points_of)
    looked_at = LocateOptions(
        seed, read_shapes(shapes, sizes), wanted.points, ask.wrt, settings.options.picked, sizes, settings.stepping,
        settings.framework_options, ask.separate_points, ask.points_of,
        settings.options.assume if settings.options.checks_on_sets else (),
    )  # fmt: skip
    reference = settings.options.reference
    found = locate(ask.target if reference is None else beside(reference, ask.target), at, looked_at)
    if values is not None:
        found = at_values(found, values)
    claiming = None if ask.claim is None else Claiming(*ask.claim)
    by = None
    if reference is not None:
        by, found = implementation_of(ask.target, found, looked_at)
    return request_for(found, claiming, settings, replay_of(ask, wanted, at), by)


def at_values(found: Located, values: Mapping[str, Any]) -> Located:
    """Return what was located at other values, which may have other sizes; sizes that have names follow them."""
    lengths = lengths_at(found.points[0].values, values)
    sizes = {name: lengths.get(n, n) for name, n in found.sizes.items()}
    return dataclasses.replace(found, points=(Point(dict(values)),), sizes=sizes)


def lengths_at(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[int, int]:
    """Return what each length of an axis of some values has become at others."""
    found: dict[int, int] = {}
    for name, x in given.items():
        if isinstance(x, np.ndarray) and name in values:
            found |= zip(x.shape, np.shape(values[name]), strict=False)
    return found


def beside(reference: str, target: str) -> str:
    """Return the reference as a target of its own; a name alone is one in the target's file."""
    alone = is_python(target) and all(part.isidentifier() for part in reference.removesuffix("()").split("."))
    return f"{target.strip().rpartition(':')[0]}:{reference}" if alone else reference


def replay_of(ask: TargetRequest, wanted: CheckOptions, at: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that repeats this check exactly."""
    points = None if wanted.points == 3 else wanted.points
    options = dataclasses.replace(wanted.settings.options, at=at, wrt=ask.wrt, points=points)
    return wanted.command or ("gradcli", "check", ask.target, *replayed(with_claim(options, ask.claim)))
