"""One target at one point, for the commands that look at one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradcli.commands.request import asks, only, seed_of, with_values
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.modes.mode import Question


def asked(
    target: Sequence[str],
    at: Sequence[str] | None,
    wrt: str | None,
    seed: str,
    shapes: Sequence[str] | None,
    world: World,
) -> "Question":
    """Return the question that the options ask."""
    from gradcli.modes.mode import Question
    from gradcli.source.points import shapes as read_shapes
    from gradcli.source.sizes import numbers
    from gradcli.verify.probe import locate

    number = seed_of(seed)
    ask = only(asks(target, at, world, None, wrt))
    with world.users_code():
        at = with_values(ask)
        sizes = numbers(shapes or (), at, number)
        found = locate(
            ask.target, at, seed=number, shapes=read_shapes(shapes or (), sizes), count=1, wrt=ask.wrt, sizes=sizes
        )
        q = Question(found.f, found.points[0], found.wrt, number)
        q.refuse_untraced()
    return q
