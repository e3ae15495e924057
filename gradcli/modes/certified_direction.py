"""One random direction certified, where there are too many entries for a ball each: f in balls, block by block."""

from collections.abc import Sequence

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest, precision, radius
from gradcli.arithmetic.blockwise import blockwise
from gradcli.errors import GradcliError
from gradcli.modes.certified import FIRST_BITS, WITNESS_AGREEMENT, scaled
from gradcli.modes.extrapolation import Difference
from gradcli.modes.mode import Question
from gradcli.request.point import Array
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import part_of, shape, size


def certified_difference(q: Question, vs: Sequence[Array], slope_size: float) -> Difference | None:
    """Return the slope of a scalar f along v by a symmetric difference in balls; no rule is used in it.

    Return None where f cannot be run in blocks: its large arrays must have one shape, meet entry by entry, and end in sums.

    Shapes  `vs` have the shapes of the inputs.
    Units   `slope_size` is the sum of the sizes of the terms of <g, v>, in those of f.
    Error   the radius of the balls, and for truncation, at a step of 2^-42, 1e-18 of `slope_size`.
    Cost    two evaluations of f in balls; memory for one block of each of its lines.
    """
    prepared = blockwise(q.recording) if q.untraced is None and shape(q.value) == () else None
    if prepared is None:
        return None
    halvings = FIRST_BITS // 3

    def moved(part: slice) -> tuple[list[Value], list[Value]]:
        """Return a part of the inputs, moved by the step along v and against it."""
        up, down = [], []
        for x, v in zip(q.xs, vs, strict=True):
            if size(x) == prepared.count:
                x, v = part_of(x, part), part_of(v, part)
            middle, step = Ball.lift(x), scaled(v, halvings)
            up.append(middle + step)
            down.append(middle - step)
        return up, down

    try:
        with precision(FIRST_BITS), np.errstate(all="ignore"):
            up, down = prepared.run(moved)
            slope = (up - down) * Ball.lift(2.0 ** (halvings - 1))
            value, bound = float(nearest(slope)), float(radius(slope)) + WITNESS_AGREEMENT * slope_size
    except GradcliError:  # an operation has no balls, or a comparison is undecided
        return None
    return Difference(np.float64(value), np.float64(bound), np.float64(2.0**-halvings), calls=2)
