"""Canonical keys: one for one tensor, whatever its bound indices are called and its factors ordered, and another for another."""

import itertools
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradcli.derivation.index import (
    IndexedTerm,
    Tensor,
    add,
    apply_function,
    argument_of_factor,
    bracket,
    fresh_index,
    refresh_bound_indices,
    scale_tensor,
    tensor_of_atom,
    tensor_of_size,
)
from tests.derivation.evaluate import ONE, at_point, factor, known, of, sum_of, tensor
from tests.rows import for_rows

i, j, k, l, p, q = (fresh_index("n") for _ in range(6))
x, y, A, B = known("x", "n"), known("y", "n"), known("A", "n n"), known("B", "n n")
S = known("S", "n n", "symmetric")
rng = np.random.default_rng(0)
VALUES: dict[str, Any] = {
    "x": rng.normal(size=3),
    "y": rng.normal(size=3),
    "A": rng.normal(size=(3, 3)),
    "B": rng.normal(size=(3, 3)),
}
VALUES["S"] = VALUES["A"] + VALUES["A"].T


def one(*factors: Any, free: tuple = (), coef: Any = 1) -> Tensor:
    return tensor(free, (coef, *factors))


# fmt: off
PRODUCTS = {
    "x' y":             one(factor(x, i), factor(y, i)),
    "x' A y":           one(factor(x, i), factor(A, i, j), factor(y, j)),
    "x' A B y":         one(factor(x, i), factor(A, i, j), factor(B, j, k), factor(y, k)),
    "tr(A B)":          one(factor(A, i, j), factor(B, j, i)),
    "tr(A A)":          one(factor(A, i, j), factor(A, j, i)),
    "tr(A A')":         one(factor(A, i, j, power=2)),
    "tr(A A A)":        one(factor(A, i, j), factor(A, j, k), factor(A, k, i)),
    "tr(A A B)":        one(factor(A, i, j), factor(A, j, k), factor(B, k, i)),
    "tr(A A A A)":      one(factor(A, i, j), factor(A, j, k), factor(A, k, l), factor(A, l, i)),
    "tr(A B A B)":      one(factor(A, i, j), factor(B, j, k), factor(A, k, l), factor(B, l, i)),
    "tr(A A' A A')":    one(factor(A, i, j), factor(A, k, j), factor(A, k, l), factor(A, i, l)),
    "tr(A A A A A A)":  one(factor(A, i, j), factor(A, j, k), factor(A, k, l), factor(A, l, p), factor(A, p, q), factor(A, q, i)),
    "tr(A A A) squared": one(factor(A, i, j), factor(A, j, k), factor(A, k, i), factor(A, l, p), factor(A, p, q), factor(A, q, l)),
    "tr(S S S S S)":    one(factor(S, i, j), factor(S, j, k), factor(S, k, l), factor(S, l, p), factor(S, p, i)),
    "tr(A A' B)":       one(factor(A, i, j), factor(A, k, j), factor(B, k, i)),
    "tr(S S S S)":      one(factor(S, i, j), factor(S, j, k), factor(S, k, l), factor(S, l, i)),
    "tr(S S) tr(S S)":  one(factor(S, i, j, power=2), factor(S, k, l, power=2)),
    "(x' x) (y' y)":    one(factor(x, i, power=2), factor(y, j, power=2)),
    "sum x, sum y":     one(factor(x, i), factor(y, j)),
    "A x, squared":     one(factor(A, i, j), factor(x, j), factor(A, i, k), factor(x, k)),
    "A' x, squared":    one(factor(A, j, i), factor(x, j), factor(A, k, i), factor(x, k)),
    "(A x)":            one(factor(A, i, j), factor(x, j), free=(i,)),
    "(A' x)":           one(factor(A, j, i), factor(x, j), free=(i,)),
    "A B":              one(factor(A, i, k), factor(B, k, j), free=(i, j)),
    "B A":              one(factor(B, i, k), factor(A, k, j), free=(i, j)),
    "(A B)'":           one(factor(A, j, k), factor(B, k, i), free=(i, j)),
    "S S":              one(factor(S, i, k), factor(S, k, j), free=(i, j)),
    "exp(A x)":         one(of("exp", one(factor(A, i, j), factor(x, j), free=(i,))), free=(i,)),
    "exp(A' x)":        one(of("exp", one(factor(A, j, i), factor(x, j), free=(i,))), free=(i,)),
    "sum exp(A x)":     one(of("exp", one(factor(A, i, j), factor(x, j), free=(i,)))),
    "x' (A x + y)":     one(factor(x, i), sum_of(tensor((i,), (1, factor(A, i, j), factor(x, j)), (1, factor(y, i))))[1]),
    "2 x' y":           one(factor(x, i), factor(y, i), coef=2),
    "softmax rows":     one(of("softmax", one(factor(A, i, j), free=(i, j)), over=[j]), free=(i, j)),
    "softmax columns":  one(of("softmax", one(factor(A, i, j), free=(i, j)), over=[i]), free=(i, j)),
}
# fmt: on


def shuffled(x: Tensor, seed: int) -> Tensor:
    """Return the same tensor, its factors in another order and its bound indices called otherwise."""
    rng = random.Random(seed)
    terms = []
    for term in x.terms:
        other = refresh_bound_indices(term, x.free)
        names = {
            i: fresh_index(i.dim) for i in rng.sample(sorted(other.indices), len(other.indices)) if i not in x.free
        }
        factors = [
            f._replace(at=f.at[::-1]) if f.atom.symmetric and rng.random() < 0.5 else f
            for f in other.renamed(names).factors
        ]
        terms.append(IndexedTerm(term.coef, tuple(rng.sample(factors, len(factors)))))
    return Tensor(x.free, tuple(rng.sample(terms, len(terms))))


@for_rows("made", PRODUCTS.values(), ids=PRODUCTS)
def test_a_tensor_has_one_key(made: Tensor) -> None:
    assert {shuffled(made, seed).key for seed in range(40)} == {made.key}


@for_rows(("a", "b"), [*itertools.combinations(PRODUCTS, 2)], parts=3)
def test_different_tensors_have_different_keys(a: str, b: str) -> None:
    same = PRODUCTS[a].free == PRODUCTS[b].free and np.allclose(
        at_point(PRODUCTS[a], VALUES), at_point(PRODUCTS[b], VALUES)
    )
    assert (PRODUCTS[a].key == PRODUCTS[b].key) is same


@for_rows("seed", range(60))
def test_equal_keys_are_of_equal_tensors(seed: int) -> None:
    """Random products that differ in one index: equal keys only where the values are equal."""
    rng = random.Random(seed)
    atoms = rng.choices([A, B, S, x], k=rng.choice((2, 3, 4)))

    def drawn() -> Tensor:
        return one(*(factor(atom, *rng.choices([i, j, k], k=len(atom.dims))) for atom in atoms), free=(i,))

    made = [drawn() for _ in range(12)]
    for a, b in itertools.combinations(made, 2):
        if a.key == b.key:
            np.testing.assert_allclose(at_point(a, VALUES), at_point(b, VALUES), rtol=1e-12)


def test_like_terms_are_added() -> None:
    a, b = PRODUCTS["x' A y"], shuffled(PRODUCTS["x' A y"], 1)
    assert [t.coef for t in add([a, b]).terms] == [2]
    assert add([a, scale_tensor(b, -1)]).terms == ()


@for_rows("name", [n for n, x in PRODUCTS.items() if len(x.terms) == 1])
def test_renaming_keeps_the_value(name: str) -> None:
    made = PRODUCTS[name]
    turned = made.renamed(dict(zip(made.free, (p, q), strict=False)))
    np.testing.assert_allclose(at_point(turned, VALUES), at_point(made, VALUES))


def test_a_bracket_shows_its_first_sign_and_shared_number() -> None:
    total = tensor((i,), (-2, factor(x, i)), (2, factor(A, i, j), factor(y, j)))
    made = bracket(total)
    np.testing.assert_allclose(at_point(Tensor((i,), (made,)), VALUES), at_point(total, VALUES))
    assert {t.coef for t in argument_of_factor(made.factors[0]).terms} == {1, -1}
    assert bracket(scale_tensor(total, Fraction(-1))).factors == made.factors


@pytest.mark.parametrize("write", [
    lambda: apply_function("exp", [one(factor(A, i, j), free=(i, j))], (i, j)),
    lambda: apply_function("exp", [one(factor(A, i, j), free=(j, i))], (j, i)),
    lambda: apply_function("exp", [one(factor(A, i, j), free=(i, j))], (j, i)),
])  # fmt: skip
def test_a_function_is_one_atom_whatever_the_order_of_its_axes(write: Callable[[], Tensor]) -> None:
    found = write()
    assert found.terms[0].factors[0].atom == of("exp", one(factor(A, i, j), free=(i, j))).atom
    np.testing.assert_allclose(at_point(found, VALUES, (i, j)), np.exp(VALUES["A"]))


@for_rows(("dim", "right"), [("n", 3), ("n - 1", 2), ("m - 2", 2), ("7", 7)])
def test_sizes_are_numbers(dim: str, right: int) -> None:
    assert at_point(tensor_of_size(dim), {}) == right


@for_rows(("atom", "symmetric"), [
    (S, True), (A, False), (x, False), (known("D", "n n", "diagonal"), True), (known("C", "m n", "signs"), False),
    (of("inv", one(factor(S, i, j), free=(i, j))).atom, True), (of("inv", one(factor(A, i, j), free=(i, j))).atom, False),
    (of("inv", one(factor(A, i, k), factor(A, j, k), free=(i, j))).atom, True), (of("exp", one(factor(S, i, j), free=(i, j))).atom, True),
    (of("softmax", one(factor(S, i, j), free=(i, j)), over=[j]).atom, False), (of("exp", one(factor(x, i), factor(x, j), free=(i, j))).atom, True),
])  # fmt: skip
def test_symmetry_is_known(atom: Any, symmetric: bool) -> None:
    assert atom.symmetric is symmetric


def test_an_atom_at_one_index_twice_is_a_diagonal() -> None:
    np.testing.assert_allclose(at_point(tensor_of_atom(A, (i, i)), VALUES), np.diag(VALUES["A"]))
    assert ONE == 1
