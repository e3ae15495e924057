"""Sizes with names, in `--at` and in `--shapes`: n stands for its number, and nothing else about a draw changes."""

from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadOption, BadPoint, TooLarge
from gradcli.targets.draws import RandomStream, Whole
from gradcli.targets.points import parse_shape_options, read_points
from tests.rows import for_rows

N = {"n": 3, "m": 2}
# fmt: off
SIZED = [  # named, and written out
    ("x=randn(n)",                   "x=randn(3)"),
    ("W=randn(n, m), x=randn(m)",    "W=randn(3, 2), x=randn(2)"),
    ("W=randn((n, m))",              "W=randn((3, 2))"),
    ("x=rand(2*n + 1)",              "x=rand(7)"),
    ("x=rand(n - 1, n**2)",          "x=rand(2, 9)"),
    ("x=uniform(-n, n, m)",          "x=uniform(-3, 3, 2)"),
    ("x=zeros(n), y=ones(n, n)",     "x=zeros(3), y=ones(3, 3)"),
    ("x=full(1/n, n)",               "x=full(1/3, 3)"),
    ("S=spd(n)",                     "S=spd(3)"),
    ("I=eye(n), h=onehot(m, n)",     "I=eye(3), h=onehot(2, 3)"),
    ("x=linspace(0, 1, n)",          "x=linspace(0, 1, 3)"),
    ("x=arange(n)/n",                "x=arange(3)/3"),
    ("x=1/n, y=[n, m]",              "x=1/3, y=[3, 2]"),
    ("k=int(n)",                     "k=int(3)"),
    ("x=student(n, m, n)",           "x=student(3, 2, 3)"),
    ("x=outliers(n, m)",             "x=outliers(3, 2)"),
    ("x=trained(n, m + 1)",          "x=trained(3, 3)"),
    ("c=zipf(n, m, n)",              "c=zipf(3, 2, 3)"),
    ("Y=onehots(n, m)",              "Y=onehots(3, 2)"),
    ("k=ragged(m, n)",               "k=ragged(2, 3)"),
    ("k=causal(n)",                  "k=causal(3)"),
    ("n=5",                          "n=5"),          # an input called like a size
]
SHAPES = [
    ("x: n",                         {"x": (3,)}),
    ("W: m n; x: n; lam:",           {"W": (2, 3), "x": (3,), "lam": ()}),
    ("W:n,4",                        {"W": (3, 4)}),
]
UNKNOWN = ["x=randn(k)", "x=randn(n, k)", "x=randn(N)", "x=k*randn(n)"]
BAD_SHAPES = ["W: n k", "W: 2n", "W: n*m", "W: -n"]
BAD_SIZES = ["x=randn(n/m)", "x=randn(-n)", "x=eye(n + 0.5)"]
# fmt: on


def same(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@for_rows(("named", "written"), SIZED)
def test_a_named_size_is_its_number(named: str, written: str) -> None:
    (found,), (expected,) = read_points([named], 7, N), read_points([written], 7)
    assert same(found, expected)


@pytest.mark.parametrize(("text", "expected"), SHAPES)
def test_shapes_take_names(text: str, expected: dict[str, tuple[int, ...]]) -> None:
    assert parse_shape_options([text], N) == expected


def test_every_point_takes_sizes() -> None:
    assert [len(point["x"]) for point in read_points(["x=randn(n)", "x=randn(m)"], 0, N)] == [3, 2]


@for_rows("text", UNKNOWN)
def test_other_names_are_unknown_values(text: str) -> None:
    with pytest.raises(BadPoint, match=r"unknown value '[kN]'"):
        read_points([text], 0, N)


@for_rows("text", BAD_SHAPES)
def test_other_words_are_no_sizes(text: str) -> None:
    with pytest.raises(BadOption, match="the sizes of W are not whole numbers"):
        parse_shape_options([text], N)


@pytest.mark.parametrize("text", BAD_SIZES)
def test_a_size_is_a_whole_number(text: str) -> None:
    with pytest.raises(BadPoint):
        read_points([text], 0, N)


@for_rows(
    "text",
    [
        "x=randn(n, n)", "x=zeros(n, n)", "S=spd(n)", "x=eye(n)", "x=full(0, n, n)", "x=linspace(0, 1, n*n)", "x=student(3, n, n)",
        "x=outliers(n, n)", "x=trained(n, n)", "c=zipf(3, n, n)", "Y=onehots(n, n)", "k=ragged(n, n)", "k=causal(n)",
    ],
)  # fmt: skip
def test_a_named_size_is_checked_before_anything_is_drawn(text: str) -> None:
    with pytest.raises(TooLarge, match="the result would have 10,000,000,000 entries"):
        read_points([text], 0, {"n": 10**5})


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    short, long = (read_points(["x=randn(n)"], 0, {"n": n})[0]["x"] for n in (5, 50))
    assert np.array_equal(long[:5], short)


def test_streams_differ_by_seed_name_and_point_alone() -> None:
    draws = [RandomStream(*key).functions()["randn"](4) for key in [(0, "x", 0), (1, "x", 0), (0, "y", 0), (0, "x", 1)]]
    assert len({tuple(draw) for draw in draws}) == 4
    assert np.array_equal(RandomStream(0, "x", 0, N).functions()["randn"](4), draws[0])


def test_whole_numbers_say_so() -> None:
    whole = RandomStream(0, "k", 0).functions()["int"]
    assert isinstance(whole(3.0), Whole) and not isinstance(3, Whole)
    assert whole(np.array([1.0, 2.0])).dtype.kind == "i"
    with pytest.raises(ValueError, match="not whole numbers"):
        whole(np.array([1.5]))
