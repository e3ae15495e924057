"""Forward mode: dual numbers."""

import numpy as np

from gradcli.core.shapes import shape, size
from gradcli.interpreters.dual import jvp
from gradcli.modes.mode import Available, Question
from gradcli.point import Array, Cost, Estimate, Witness
from gradcli.source.function import of


class Forward:
    """One dual evaluation for each entry of the inputs."""

    name = "forward"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: what rounding can have done, by balls of 53 bits."""
        value: dict[str, Array] = {}
        count = 0
        q.affordable(4 * sum(size(x) for x in q.xs))
        with np.errstate(all="ignore"):
            for k, name in enumerate(q.wrt):
                columns = []
                alone = of(q.f, q.point.values, (name,))  # what stands still is no dual: 0 times a nan slope is nan
                for direction in directions(q.xs[k]):
                    columns.append(np.asarray(jvp(alone, [q.xs[k]], [direction])[1]))
                count += len(columns)
                value[name] = columns_to_array(columns, q.value, q.xs[k])
        return Estimate(value, q.rounding, cost=Cost(evaluations=count, operations=3 * q.operations * count))


def directions(x: Array) -> list[Array]:
    """Return the unit directions of an input, in C order."""
    if shape(x) == ():
        return [np.float64(1)]
    n = int(np.prod(shape(x)))
    return [np.eye(1, n, k).reshape(shape(x)) for k in range(n)]


def columns_to_array(columns: list[Array], y: Array, x: Array) -> Array:
    """Return derivatives by input entry as one array: the output's shape, then the input's."""
    if not columns or not np.size(columns[0]):
        return np.zeros(shape(y) + shape(x))
    return np.stack(columns, axis=-1).reshape(shape(y) + shape(x))[()]
