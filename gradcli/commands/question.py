"""One target at one point, for the commands that look at one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gradcli.commands.request import asks, limit_of, only, seed_of, with_values
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.modes.mode import Question

Report = TypeVar("Report")


class Asked(NamedTuple):
    """The options that say which target is looked at, and where."""

    target: Sequence[str]
    at: Sequence[str] | None
    wrt: str | None
    seed: str
    shapes: Sequence[str] | None


def answered(
    study: Callable[["Question"], Report], asked: Asked, world: World, doing: str, timeout: str | None, quiet: bool
) -> Report:
    """Return the report that a study makes of the question that the options ask; `doing` says what it does."""
    from gradcli.modes.mode import Question
    from gradcli.source.points import shapes as read_shapes
    from gradcli.source.sizes import numbers
    from gradcli.verify.probe import locate

    seed, shapes = seed_of(asked.seed), asked.shapes or ()
    ask = only(asks(asked.target, asked.at, world, None, asked.wrt))
    deadline = limit_of(timeout, "--timeout")
    with world.users_code(ask.target, seconds=deadline), world.working(doing, quiet):
        at = with_values(ask)
        sizes = numbers(shapes, at, seed)
        found = locate(ask.target, at, seed=seed, shapes=read_shapes(shapes, sizes), count=1, wrt=ask.wrt, sizes=sizes)
        q = Question(found.f, found.points[0], found.wrt, seed)
        q.refuse_untraced()
        return study(q)
