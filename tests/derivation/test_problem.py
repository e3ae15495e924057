"""Assumptions: what is drawn has them, and what is unknown or cannot be is refused with what is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.derivation.sized_problem import parse_shapes
from gradcli.errors import BadOption
from gradcli.targets.facts import FACTS, draw_with_facts, parse_facts
from tests.rows import for_rows

HOLDS: dict[str, tuple[tuple[int, ...], Callable[[Any], bool]]] = {
    "symmetric": ((4, 4), lambda x: np.array_equal(x, x.T)),
    "spd": ((4, 4), lambda x: np.allclose(x, x.T) and np.all(np.linalg.eigvalsh(x) > 0)),
    "tied": ((4, 4), lambda x: np.array_equal(x, x.T)),
    "diagonal": ((4, 4), lambda x: np.array_equal(x, np.diag(np.diag(x))) and np.all(np.diag(x) != 0)),
    "orthogonal": ((4, 4), lambda x: np.allclose(x @ x.T, np.eye(4))),
    "simplex": ((5,), lambda x: np.isclose(np.sum(x), 1) and np.all(x > 0)),
    "onehot": ((5,), lambda x: sorted(x) == [0, 0, 0, 0, 1]),
    "simplex rows": ((3, 5), lambda x: np.allclose(np.sum(x, axis=1), 1) and np.all(x > 0)),
    "onehot rows": ((3, 5), lambda x: np.allclose(np.sort(x, axis=1), [0, 0, 0, 0, 1])),
    "signs": ((7,), lambda x: set(x) <= {-1.0, 1.0}),
    "skew": ((4, 4), lambda x: np.array_equal(x, -x.T)),
    "lower": ((4, 4), lambda x: np.array_equal(x, np.tril(x))),
    "upper": ((4, 4), lambda x: np.array_equal(x, np.triu(x))),
    "unit": ((5,), lambda x: np.isclose(np.linalg.norm(x), 1)),
    "mask": ((7,), lambda x: set(x) <= {0.0, 1.0}),
    "positive": ((2, 3), lambda x: np.all(x > 0)),
    "index": ((2, 3), lambda x: set(np.ravel(x)) <= {0.0, 1.0, 2.0}),
}


def test_every_fact_is_tested() -> None:
    assert set(HOLDS) == set(FACTS)


@for_rows("seed", range(5))
@for_rows("word", FACTS)
def test_a_draw_has_what_is_assumed(word: str, seed: int) -> None:
    shape, holds = HOLDS[word]
    x = draw_with_facts(frozenset({word}), shape, np.random.default_rng(seed))
    assert np.shape(x) == shape and holds(x)


@for_rows("words", [("spd", "tied"), ("symmetric", "positive"), ("positive",), ("spd", "symmetric")])
def test_several_hold_at_once(words: tuple[str, ...]) -> None:
    x = draw_with_facts(frozenset(words), (4, 4), np.random.default_rng(0))
    assert all(HOLDS[word][1](x) for word in words)


def test_a_positive_number_is_a_number() -> None:
    x = draw_with_facts(frozenset({"positive"}), (), np.random.default_rng(0))
    assert np.shape(x) == () and x > 0


DIMS = {"S": ("n", "n"), "X": ("m", "n"), "x": ("n",), "s": ()}


@for_rows(("text", "found"), [
    ("S: spd", {"S": {"spd"}}), ("S: spd, tied", {"S": {"spd", "tied"}}), ("S: spd tied", {"S": {"spd", "tied"}}), ("S: spd; x: simplex", {"S": {"spd"}, "x": {"simplex"}}),
    ("X: onehot rows", {"X": {"onehot rows"}}), (" X :Simplex Rows; ", {"X": {"simplex rows"}}), ("s: positive", {"s": {"positive"}}), ("", {}),
])  # fmt: skip
def test_assumptions_are_read(text: str, found: dict[str, set[str]]) -> None:
    assert {n: set(words) for n, words in parse_facts([text], DIMS).items()} == found


def test_assumptions_of_several_options_are_joined() -> None:
    assert parse_facts(["S: spd", "S: tied"], DIMS) == {"S": frozenset({"spd", "tied"})}


@for_rows(("text", "what", "do"), [
    ("S: round", "'round' is no assumption", f"known: {', '.join(FACTS)}"), ("x: spd", "x is n and cannot be spd", "spd is for a square matrix"),
    ("X: symmetric", "X is m x n and cannot be symmetric", "symmetric is for a square matrix"), ("s: simplex", "s is a number and cannot be simplex", "simplex is for a vector"),
    ("x: onehot rows", "x is n and cannot be onehot rows", "onehot rows is for a matrix"), ("q: spd", "--assume names 'q', which is not an input", "inputs: S, X, x, s"),
    ("spd", "the assumption 'spd' cannot be read", 'write --assume "S: spd; y: simplex"'), ("S: spdx", "'spdx' is no assumption", f"known: {', '.join(FACTS)}"),
])  # fmt: skip
def test_what_cannot_be_assumed_is_refused(text: str, what: str, do: str) -> None:
    with pytest.raises(BadOption) as raised:
        parse_facts([text], DIMS)
    assert (raised.value.what, raised.value.do) == (what, do)


def test_a_size_is_no_word_of_python() -> None:
    with pytest.raises(BadOption, match="not names, numbers"):
        parse_shapes(["x: if"])
