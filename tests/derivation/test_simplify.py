"""Simplification: what is smaller has the same value, brackets are opened and factors taken out where that helps."""

import random
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.derivation import convert  # noqa: F401  (what products are tidied by)
from gradcli.derivation.algebra import multiply, sum_over
from gradcli.derivation.ending import coefficient_of_seed
from gradcli.derivation.index import Tensor, add, fresh_index
from gradcli.derivation.simplify import collect_factors, simplified, size_of_tensor
from tests.derivation.evaluate import at_point, factor, known, sum_of, tensor
from tests.rows import for_rows

i, j, k, o = (fresh_index("n") for _ in range(4))
x, y, z, A, B, v = (
    known("x", "n"),
    known("y", "n"),
    known("z", "n"),
    known("A", "n n"),
    known("B", "n n"),
    known("v", "n"),
)
rng = np.random.default_rng(0)
VALUES: dict[str, Any] = {n: rng.normal(size=3) for n in "xyzv"} | {n: rng.normal(size=(3, 3)) for n in "AB"}


def grouped(*terms: tuple[Any, ...], free: tuple) -> tuple[Any, Any]:
    return sum_of(tensor(free, *terms))


PLUS = grouped((1, factor(x, i)), (1, factor(y, i)), free=(i,))[1]
AX_Y = grouped((1, factor(A, i, j), factor(x, j)), (-1, factor(y, i)), free=(i,))[1]
COEF = grouped((1, factor(A, i, j), factor(x, j)), (-1, factor(y, i)), free=(i,))[0]

# fmt: off
CASES = {
    # what                         the tensor                                                                                       terms then
    "A x + A y":                  (tensor((i,), (1, factor(A, i, j), factor(x, j)), (1, factor(A, i, k), factor(y, k))),                  1),
    "A x + B x":                  (tensor((i,), (1, factor(A, i, j), factor(x, j)), (1, factor(B, i, k), factor(x, k))),                  1),
    "x y + x z":                  (tensor((i,), (1, factor(x, i), factor(y, i)), (1, factor(x, i), factor(z, i))),                        1),
    "(x + y) - y":                (tensor((i,), (1, PLUS), (-1, factor(y, i))),                                                           1),
    "z (x + y) - z x":            (tensor((i,), (1, factor(z, i), PLUS), (-1, factor(z, i), factor(x, i))),                               1),
    "x' (A x - y) z":             (tensor((k,), (COEF, factor(x, i), AX_Y, factor(z, k))),                                                1),
    "tr A + x' A y":              (tensor((), (1, factor(A, i, i)), (1, factor(A, j, k), factor(x, j), factor(y, k))),                     2),
    "A x + y":                    (tensor((i,), (1, factor(A, i, j), factor(x, j)), (1, factor(y, i))),                                   2),
    "2 x y - 2 x y":              (add([tensor((i,), (2, factor(x, i), factor(y, i))), tensor((i,), (-2, factor(y, i), factor(x, i)))]),  0),
}
# fmt: on


def leaves(x: Tensor) -> int:
    """Return how many factors there are, those in brackets too."""
    return sum(sum(leaves(a) for a in f.atom.args) or 1 for t in x.terms for f in t.factors)


@for_rows(("made", "terms"), CASES.values(), ids=CASES)
def test_sums_become_smaller(made: Tensor, terms: int) -> None:
    steps: list[tuple[str, Tensor]] = []
    found = simplified(made, leaves, steps)
    assert len(found.terms) == terms and leaves(found) <= leaves(made)
    for after in (found, collect_factors(made, leaves), *(after for _, after in steps)):
        np.testing.assert_allclose(at_point(after, VALUES, made.free), at_point(made, VALUES), atol=1e-12)
    assert [leaves(after) for _, after in steps] == sorted((leaves(after) for _, after in steps), reverse=True)


def grown(depth: int, rng: random.Random) -> Tensor:
    """Return a random vector of sums and products, at an index of its own."""
    if depth == 0:
        return tensor((i,), (rng.choice((1, 2, -1)), factor(rng.choice((x, y, z)), i)))
    a, b = grown(depth - 1, rng), grown(rng.randrange(depth), rng)
    if rng.random() < 0.3:
        moved = a.renamed({i: j})
        return sum_over(multiply(tensor((i, j), (1, factor(rng.choice((A, B)), i, j))), moved), [j])
    return add([a, b]) if rng.random() < 0.5 else multiply(a, b)


@for_rows("seed", range(60))
def test_random_sums_keep_their_value(seed: int) -> None:
    made = grown(3, random.Random(seed))
    right = at_point(made, VALUES, (i,))
    steps: list[tuple[str, Tensor]] = []
    simplified(made, size_of_tensor, steps)
    for _, after in steps:
        np.testing.assert_allclose(at_point(after, VALUES, (i,)), right, rtol=1e-9, atol=1e-11 * np.max(np.abs(right)))


def test_a_jacobian_is_read_off_a_sweep() -> None:
    """A' v + x v, the cotangent v taken away, is A' + diag(x), its rows the outputs."""
    swept = tensor((i,), (1, factor(A, j, i), factor(v, j)), (Fraction(1), factor(x, i), factor(v, i)))
    np.testing.assert_allclose(
        at_point(coefficient_of_seed(swept, "v", (o,)), VALUES, (o, i)), VALUES["A"] + np.diag(VALUES["x"])
    )
    bracketed = multiply(
        tensor((i,), (1, factor(x, i))),
        add([tensor((i,), (1, factor(v, i))), tensor((i,), (2, factor(A, j, i), factor(v, j)))]),
    )
    right = np.diag(VALUES["x"]) + 2 * VALUES["A"] * VALUES["x"]
    np.testing.assert_allclose(at_point(coefficient_of_seed(bracketed, "v", (o,)), VALUES, (o, i)), right)
