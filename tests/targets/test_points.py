"""Values named on the command line merge into points; naming an input again begins the next one."""

import numpy as np
import pytest

from gradcli.errors import BadOption, BadPoint, GradcliError
from gradcli.targets.points import parse_shape_options, read_points
from tests.rows import for_rows

# fmt: off
MERGED = [
    ([],                                         []),
    (["x=1"],                                    [{"x": 1}]),
    (["x=1, y=2"],                               [{"x": 1, "y": 2}]),
    (["x=1", "y=2"],                             [{"x": 1, "y": 2}]),
    (["x=1; y=2"],                               [{"x": 1, "y": 2}]),
    (["x=1, y=2", "z=3"],                        [{"x": 1, "y": 2, "z": 3}]),
    (["x=1", "x=2"],                             [{"x": 1}, {"x": 2}]),
    (["x=1", "x=1"],                             [{"x": 1}, {"x": 1}]),
    (["x=1, y=2", "x=3"],                        [{"x": 1, "y": 2}, {"x": 3, "y": 2}]),
    (["x=1, y=2", "x=3", "y=4"],                 [{"x": 1, "y": 2}, {"x": 3, "y": 4}]),
    (["x=1, y=2", "x=3", "x=5"],                 [{"x": 1, "y": 2}, {"x": 3, "y": 2}, {"x": 5, "y": 2}]),
    (["x=1", "y=2", "x=3", "y=4", "x=5"],        [{"x": 1, "y": 2}, {"x": 3, "y": 4}, {"x": 5, "y": 4}]),
    (["x=1", "x=2, z=7", "z=8"],                 [{"x": 1}, {"x": 2, "z": 7}, {"x": 2, "z": 8}]),
    (["\u00b5=1", "\u03bc=2"],                   [{"\u03bc": 1}, {"\u03bc": 2}]),
    (["\uff58=1", "y=2"],                        [{"x": 1, "y": 2}]),
]
SHAPES = [
    (["W:3,4"],                                  {"W": (3, 4)}),
    (["W:3,4", "x:4"],                           {"W": (3, 4), "x": (4,)}),
    (["W: 3 4; x: 4; lam:"],                     {"W": (3, 4), "x": (4,), "lam": ()}),
    (["W: 3x4"],                                 {"W": (3, 4)}),
    (["W:2 × 3 x 4, x:4"],                       {"W": (2, 3, 4), "x": (4,)}),
    (["W: (3, 4), x: 4, lam:"],                  {"W": (3, 4), "x": (4,), "lam": ()}),
    (["W : 3, 4 ;"],                             {"W": (3, 4)}),
    (["x:0"],                                    {"x": (0,)}),
    (["w: 3+4; x: 9 - 2 + 1"],                   {"w": (7,), "x": (8,)}),
    (["\u00b5:2"],                               {"\u03bc": (2,)}),
    ([""],                                       {}),
    ([],                                         {}),
]
BAD_SHAPES = [
    ("W",          "the shape 'W' cannot be read",                       'write --shapes "W: 3 4; x: 4"'),
    ("W=3",        "the shape 'W=3' cannot be read",                     'write --shapes "W: 3 4; x: 4"'),
    (":3",         "the shape ':3' cannot be read",                      'write --shapes "W: 3 4; x: 4"'),
    ("W:3:4",      "the shape 'W:3:4' cannot be read",                   'write --shapes "W: 3 4; x: 4"'),
    ("W: m n",     "the sizes of W are not whole numbers: m n",          "values need numbers: --shapes W:3,4"),
    ("W: 3 -4",    "the sizes of W are not whole numbers: 3 -4",         "values need numbers: --shapes W:3,4"),
    ("W: 3-4",     "a size of W is negative: 3 - 4",                     "give the sizes other numbers"),
    ("W: 3+",      "the sizes of W are not whole numbers: 3+",           "values need numbers: --shapes W:3,4"),
    ("W: 2.5",     "the sizes of W are not whole numbers: 2.5",          "values need numbers: --shapes W:3,4"),
    ("x: 1; W: \u00b2", "the sizes of W are not whole numbers: \u00b2",  "values need numbers: --shapes W:3,4"),
]
# fmt: on


@for_rows(("texts", "expected"), MERGED)
def test_texts_merge_into_points(texts, expected):
    assert read_points(texts) == expected


def test_a_later_point_leaves_the_earlier_ones_as_they_were():
    first, second = read_points(["x=[1, 2], y=3", "x=[4, 5]"])
    assert np.array_equal(first["x"], [1, 2]) and np.array_equal(second["x"], [4, 5])
    assert first is not second and second["y"] == 3


@pytest.mark.parametrize("text", ["x=1, x=1", "x=1; y=2; x=3", "\u00b5=1, \u03bc=1"])
def test_a_repeat_inside_one_text_is_an_error(text):
    with pytest.raises(BadPoint, match="is given twice"):
        read_points([text])


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_is_refused(text):
    with pytest.raises(BadPoint) as caught:
        read_points([text])
    assert (caught.value.what, caught.value.do) == ("the point is empty", 'write --at "x=0.5, y=1.2"')


@for_rows("text", ["x", "3", "x==3", "x=", "x=y", "=3", "x=1 y=2", "x:3", "x=3)", "2x=3", "x.=3", "x[y]=3", "x+=1"])
def test_a_text_that_names_no_value_is_refused(text):
    with pytest.raises(GradcliError):
        read_points([text])


def test_the_points_of_one_text_draw_differently():
    first, second, third = read_points(["x=randn(5)", "x=randn(5)", "x=randn(5)"], seed=0)
    assert not np.any(first["x"] == second["x"]) and not np.any(second["x"] == third["x"])


def test_a_draw_depends_on_the_point_and_not_on_how_it_is_written():
    together = read_points(["x=randn(3), y=randn(3)", "x=randn(3), y=1"], seed=4)
    apart = read_points(["y=randn(3)", "x=randn(3)", "x=randn(3)", "y=1"], seed=4)
    for one, other in zip(together, apart, strict=True):
        assert np.array_equal(one["x"], other["x"]) and np.array_equal(one["y"], other["y"])


def test_a_file_is_a_whole_point_that_later_texts_add_to(tmp_path):
    path = tmp_path / "point.npz"
    np.savez(path, x=1.0, y=2.0)
    assert read_points([f"@{path}", "z=3"]) == [{"x": 1, "y": 2, "z": 3}]
    assert read_points([f" @{path} ", "x=5"]) == [{"x": 1, "y": 2}, {"x": 5, "y": 2}]
    assert read_points(["x=5", f"@{path}"]) == [{"x": 5}, {"x": 1, "y": 2}]


@for_rows(("texts", "expected"), SHAPES)
def test_shapes_are_read(texts, expected):
    assert parse_shape_options(texts) == expected


@for_rows(("text", "what", "do"), BAD_SHAPES)
def test_a_bad_shape_says_what_and_what_to_do(text, what, do):
    with pytest.raises(BadOption) as caught:
        parse_shape_options([text])
    assert (caught.value.what, caught.value.do) == (what, do)
