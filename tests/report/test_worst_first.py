"""The order of wrong entries: by relative error, then by absolute error."""

import numpy as np

import gradcli
from gradcli.report.check import error_maps
from gradcli.report.point_report import order_worst_first
from tests.rows import for_rows


@for_rows(
    ("claimed", "right", "order"),
    [
        ([1.5, 30.0, 1e9], [1.0, 20.0, 1.001e9], [1, 0, 2]),  # equally wrong: the larger absolute error first
        ([-1.0, -3.0000000001, -2.0], [1.0, 3.0, 2.0], [1, 2, 0]),  # rounding does not decide
        ([1.0, 1e-9, 5.0], [2.0, 0.0, 1.0], [1, 2, 0]),  # where the right one is 0, any error is infinitely large
        ([np.nan, 0.0, np.inf], [1.0, 1.0, 1.0], [0, 2, 1]),
        ([1.0, 2.0], [1.0, 2.0], [0, 1]),
        ([], [], []),
    ],
)
def test_the_order_of_entries(claimed, right, order):
    assert list(order_worst_first(np.array(claimed), np.array(right))) == order


def test_table_map_and_correction_agree():
    report = gradcli.check("sum(a*x**2)", at={"x": [1.0, 2.0, 3.0, 4.0, 1.0], "a": [1e6, 1.0, 1e-3, 5.0, 1.0]}, wrt="x",
                           grad="[2e6, 4, 0.03, 41, 2]")  # fmt: skip
    point = report.points[0]
    assert [m.index for m in point.mismatches] == [(2,), (3,)]
    assert point.diagnosis.corrected == "x[2] = 0.006, not 0.03"
    claimed, right, drawn = [block for block in report.page_blocks() if type(block).__name__ == "HeatMap"]
    assert claimed.marked == drawn.marked == ((0, 2), (0, 3)) and right.marked == ()
    assert claimed.values.tolist() == right.beside.tolist() == [[2e6, 4, 0.03, 41, 2]]
    assert claimed.beside.tolist() == right.values.tolist() == [[2e6, 4, 0.006, 40, 2]]
    assert "the largest ringed" in drawn.title
    assert "the worst first, by relative, then by absolute error" in str(report)


def test_the_worst_of_many_wrong_entries_are_kept():
    x = np.ones(1500)
    claim = 1.0 + np.arange(1500) / 1e3
    claim[0] = 1.0001
    report = gradcli.check("sum(x)", at={"x": x}, grad=f"1 + [{', '.join(map(repr, (claim - 1).tolist()))}]")
    worst = [m.index[0] for m in report.points[0].mismatches]
    assert worst == list(range(1499, 499, -1))


def test_a_map_without_a_claim_rings_its_own_worst_entries():
    right = np.array([[1.0, 100.0], [10.0, 0.5]])
    (drawn,) = error_maps("fd", {"x": right + np.array([[1e-3, 1e-3], [0.2, 0.0]])}, {"x": right})
    assert drawn.marked == ((1, 0), (0, 0), (0, 1))


def test_the_point_of_wrong_entries_is_named_where_there_are_several():
    several, one = (str(gradcli.check("x**2", at=at, grad="3*x")) for at in (["x=1", "x=2"], "x=1"))
    assert "\n\n  at point 1\n  entry" in several
    assert "at point" not in one
