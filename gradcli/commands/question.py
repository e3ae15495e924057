"""One target at one point, for the commands that look at one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from gradcli.commands.target_requests import checked_point_texts, only, target_requests
from gradcli.options import Options
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.modes.mode import Question

Report = TypeVar("Report")


def answered(
    study: Callable[["Question"], Report], words: Sequence[str], options: Options, world: World, doing: str
) -> Report:
    """Return the report that a study makes of the question that the options ask; `doing` says what it does."""
    from gradcli.modes.mode import Question
    from gradcli.source.points import shapes as read_shapes
    from gradcli.source.sizes import numbers
    from gradcli.verify.probe import LocateOptions, locate

    seed, shapes = options.seed, options.shapes
    ask = only(target_requests(words, options, world))
    with world.users_code(ask.target, seconds=options.time_limit), world.working(doing, options.quiet):
        at = checked_point_texts(ask)
        sizes = numbers(shapes, at, seed)
        found = locate(ask.target, at, LocateOptions(seed, read_shapes(shapes, sizes), wrt=ask.wrt, sizes=sizes))
        q = Question(found.f, found.points[0], found.wrt, seed)
        q.refuse_untraced()
        return study(q)
