"""Products, powers and sums keep their value as they are tidied, at random points, whatever rules meet."""

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradcli.derivation.algebra import apply_rules, multiply, power, sum_over
from gradcli.derivation.index import Index, IndexedTerm, Tensor, add, scalar
from tests.derivation.evaluate import at_point, factor, of
from tests.derivation.test_rules import (
    HOT,
    SIGN,
    SIMPLEX,
    SUM_EXP,
    TWO,
    VALUES,
    A,
    D,
    I,
    Q,
    S,
    assert_equal,
    exps,
    grouped,
    i,
    inverse,
    j,
    k,
    l,
    linear,
    raised,
    t,
    x,
    y,
    z,
)  # fmt: skip
from tests.rows import for_rows

PIECES = [
    lambda a, b: factor(x, a), lambda a, b: factor(A, a, b), lambda a, b: factor(S, a, b), lambda a, b: factor(Q, a, b),
    lambda a, b: factor(SIGN, a, power=2), lambda a, b: factor(HOT, a, power=2), lambda a, b: factor(D, a, b), lambda a, b: factor(SIMPLEX, a),
    lambda a, b: inverse(S, a, b) if a != b else factor(x, a), lambda a, b: inverse(A, a, b) if a != b else factor(x, a),
    lambda a, b: exps(z, a), lambda a, b: raised(SUM_EXP, -1), lambda a, b: of("softmax", linear(z, a), over=[a]),
    lambda a, b: raised(of("absolute", linear(x, a)), 2), lambda a, b: of("sign", linear(x, a)), lambda a, b: of("expit", linear(t, a)),
    lambda a, b: raised(exps(t, a), -1), lambda a, b: factor(I, a, b) if a != b else factor(y, a), lambda a, b: factor(TWO, power=Fraction(1, 2)),
    lambda a, b: grouped((1,), (1, exps(t, a)), free=(a,), to=-1), lambda a, b: grouped((1, factor(x, a)), (1, factor(y, a)), free=(a,)),
]  # fmt: skip


def scattered(rng: random.Random) -> IndexedTerm:
    """Return a random product of what the rules know."""
    indices = [i, j, k, l]
    return IndexedTerm(Fraction(rng.choice((1, -2, 3))), tuple(rng.choice(PIECES)(*rng.choices(indices, k=2)) for _ in range(rng.choice((2, 3, 4)))))  # fmt: skip


def lost(term: IndexedTerm, free: tuple[Index, ...]) -> bool:
    """Whether a rule may lose the sum over an index, which KNOWN_WRONG is about: only what becomes one, or an identity, has it."""
    gone = [f for f in term.factors if f.atom.op in ("delta", "sign") or "signs" in f.atom.facts]
    others = {i for f in term.factors if f not in gone for i in f.at}
    return any(not set(f.at) & {*free, *others} for f in gone)


@for_rows("seed", range(300), parts=2)
def test_random_products_keep_their_value(seed: int) -> None:
    rng = random.Random(seed)
    term = scattered(rng)
    free = tuple(sorted(rng.sample(sorted(term.indices), min(len(term.indices), rng.choice((0, 1, 2))))))
    if lost(term, free):
        free = tuple(sorted(term.indices))
    before = Tensor(free, (term,))
    assert_equal(before, Tensor(free, (apply_rules(term, free),)))


def whole(term: IndexedTerm) -> Tensor:
    free = tuple(sorted(term.indices))
    return Tensor(free, (apply_rules(term, free),))


@for_rows("seed", range(60))
def test_sums_products_and_powers_keep_their_value(seed: int) -> None:
    rng = random.Random(1000 + seed)
    a, b = (whole(scattered(rng)) for _ in "ab")
    axes = tuple(sorted({*a.free, *b.free}))
    together = add([a, b])
    for values in VALUES:
        left, right = (at_point(Tensor(axes, side.terms), values) for side in (a, b))
        np.testing.assert_allclose(at_point(multiply(a, b), values, axes), left * right, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(at_point(together, values, axes), left + right, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(at_point(power(together, Fraction(2)), values, axes), (left + right) ** 2, rtol=1e-9, atol=1e-11)  # fmt: skip
        if axes:
            summed = sum_over(together, axes[:1])
            np.testing.assert_allclose(at_point(summed, values, axes[1:]), np.sum(left + right, axis=0), rtol=1e-9, atol=1e-10)  # fmt: skip


@for_rows(("base", "to"), [(4, Fraction(1, 2)), (2, Fraction(1, 2)), (Fraction(2, 9), Fraction(-3, 2)), (8, Fraction(1, 3)), (12, Fraction(-1, 2))])  # fmt: skip
def test_roots_of_numbers_are_exact(base: Any, to: Fraction) -> None:
    found = power(scalar(Fraction(base)), to)
    assert at_point(found, {}) == pytest.approx(float(base) ** float(to), rel=1e-14)
    assert all(isinstance(term.coef, Fraction) for term in found.terms)


def test_a_root_of_a_square_is_no_root_without_a_sign() -> None:
    root = power(power(linear(x, i), Fraction(2)), Fraction(1, 2))
    for values in VALUES:
        np.testing.assert_allclose(at_point(root, values), np.abs(values["x"]))
