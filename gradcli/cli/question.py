"""Run a study of one target at one point, for `grad` and `trace`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from gradcli.cli.target_requests import only, target_requests
from gradcli.cli.world import World
from gradcli.request.options import Options
from gradcli.targets.target_request import checked_point_texts

if TYPE_CHECKING:
    from gradcli.modes.mode import Question

Report = TypeVar("Report")


def answered(
    study: Callable[["Question"], Report], words: Sequence[str], options: Options, world: World, doing: str
) -> Report:
    """Return the report of a study of the target in `words` at its point; `doing` names the work while it runs.

    Raises  NotSupported if the function cannot be traced, BadOption for several targets, and the errors of locating it.
    """
    from gradcli.checks.probe import LocateOptions, locate
    from gradcli.modes.mode import Question
    from gradcli.targets.points import numbers
    from gradcli.targets.points import shapes as read_shapes

    seed, shapes = options.seed, options.shapes
    ask = only(target_requests(words, options, world))
    with world.users_code(ask.target, seconds=options.time_limit), world.working(doing, options.quiet):
        at = checked_point_texts(ask)
        sizes = numbers(shapes, at, seed, target=ask.target)
        found = locate(ask.target, at, LocateOptions(seed, read_shapes(shapes, sizes), wrt=ask.wrt, sizes=sizes))
        q = Question(found.f, found.points[0], found.wrt, seed)
        q.refuse_untraced()
        return study(q)
