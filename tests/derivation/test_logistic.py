"""sigmoid(-t) as 1 - sigmoid(t): the same sum at random points, and only where another term has sigmoid(t)."""

import numpy as np

from gradcli.derivation.index import Tensor, fresh_index
from gradcli.derivation.simplify import write_sigmoid_complements
from tests.derivation.evaluate import at_point, factor, known, of, sum_of, tensor
from tests.rows import for_rows

i, j, k = fresh_index("n"), fresh_index("n"), fresh_index("n")
t, y, A = known("t", "n"), known("y", "n"), known("A", "n n")
rng = np.random.default_rng(3)
VALUES = {"t": rng.normal(size=3), "y": rng.normal(size=3), "A": rng.normal(size=(3, 3))}


def logistic(sign: int, at: object) -> object:
    return of("expit", tensor((at,), (sign, factor(t, at))))


ONE_LESS_Y = sum_of(tensor((i,), (1,), (-1, factor(y, i))))
# fmt: off
SUMS = {  # and how many of their terms can be written otherwise
    "y s(-t) and s(t)":          (tensor((i,), (-1, factor(y, i), logistic(-1, i)), (1, logistic(1, i))), 2),
    "a bracket beside it":       (tensor((i,), (-1, factor(y, i), logistic(-1, i)), (ONE_LESS_Y[0], ONE_LESS_Y[1], logistic(1, i))), 2),
    "summed over other indices": (tensor((i,), (2, factor(A, i, j), logistic(-1, j)), (-3, factor(A, i, k), factor(y, k), logistic(1, k))), 2),
    "of one sign":               (tensor((i,), (1, factor(y, i), logistic(1, i)), (1, logistic(1, i))), 0),
    "of other arguments":        (tensor((i,), (1, logistic(1, i)), (1, of("expit", tensor((i,), (-1, factor(y, i)))))), 0),
    "in one term":               (tensor((i,), (1, logistic(1, i), logistic(-1, i)), (1, factor(y, i))), 0),
    "beside its square":         (tensor((i,), (1, logistic(1, i)), (1, logistic(-1, i)._replace(power=2))), 1),
}
# fmt: on


@for_rows(("made", "count"), SUMS.values(), ids=SUMS)
def test_the_value_stays(made: Tensor, count: int) -> None:
    found = list(write_sigmoid_complements(made))
    assert len(found) == count
    for other in found:
        np.testing.assert_allclose(at_point(other, VALUES, made.free), at_point(made, VALUES), rtol=1e-12)
