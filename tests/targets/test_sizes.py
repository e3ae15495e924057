"""Names of sizes: their numbers, by values, by what is fixed, or small ones; and lengths that disagree."""

import pytest

from gradcli.errors import BadOption
from gradcli.targets.points import numbers_of_sizes
from tests.rows import for_rows

# fmt: off
FOUND = [
    # --shapes                 --at                            fixed        numbers
    (["X: m n; w: n"],         [],                             {},          {"m": 5, "n": 3}),
    (["X: m n", "w: n"],       ["X=randn(7, 2)"],              {},          {"m": 7, "n": 2}),
    (["X: m n; w: n"],         ["w=[1, 2]"],                   {},          {"m": 5, "n": 2}),
    (["w: n; X: m n"],         ["X=randn(4, n), w=[1, 2]"],    {},          {"m": 4, "n": 2}),
    (["X: m n; w: n"],         ["X=randn(m, n)"],              {},          {"m": 5, "n": 3}),
    (["X: m n; w: n"],         [],                             {"n": 9},    {"n": 9, "m": 5}),
    (["X: m 3; w: 3"],         [],                             {},          {"m": 5}),
    (["X: 4 3"],               ["X=randn(4, 3)"],              {},          {}),
    (["x: a b c d; y: e"],     [],                             {},          {"a": 5, "b": 3, "c": 4, "d": 6, "e": 7}),
    (["x: n"],                 ["x=[1, 2], y=3", "y=4"],       {},          {"n": 2}),
    (["s: ; x: n"],            ["s=2"],                        {},          {"n": 5}),
]
REFUSED = [
    (["X: m n; w: n"],         ["X=randn(7, 2), w=[1, 2, 3]"], {},          "the size n is 2 by X and 3 by w"),
    (["A: n n"],               ["A=randn(2, 3)"],              {},          "the size n is 2 by A and 3 by A"),
    (["x: n"],                 ["x=[1, 2]"],                   {"n": 3},    "the size n is 3 by --shapes and 2 by x"),
    (["x: n"],                 ["x=[1, 2]", "x=[1, 2, 3]"],    {},          "the size n is 2 by x and 3 by x"),
    (["X: m n"],               ["X=[1, 2]"],                   {},          "X has shape (2,), and --shapes says m n"),
    (["s: ; x: n"],            ["s=[1, 2]"],                   {},          "s has shape (2,), and --shapes says a number"),
]
# fmt: on


@for_rows(("shapes", "at", "fixed", "right"), FOUND)
def test_numbers(shapes: list[str], at: list[str], fixed: dict[str, int], right: dict[str, int]) -> None:
    assert dict(numbers_of_sizes(shapes, at, 0, fixed)) == right


@for_rows(("shapes", "at", "fixed", "says"), REFUSED)
def test_lengths_that_disagree(shapes: list[str], at: list[str], fixed: dict[str, int], says: str) -> None:
    with pytest.raises(BadOption) as refused:
        numbers_of_sizes(shapes, at, 0, fixed)
    assert refused.value.what == says and refused.value.do
