"""Triangulations and hulls get arrays in memory, also of points that the user's function makes while it is traced."""

from typing import Any

import numpy as np
from scipy import spatial

import gradcli

WEIGHTS = np.array([0.3, -1.2, 0.7, 2.1, 0.4])


def areas(weights: Any) -> Any:
    points = np.array([[0.0, 0.1], [1.0, 0.4], [0.3, 0.9], [0.7, 0.2], [0.5, 0.6]])
    corners = points[spatial.Delaunay(points).simplices]
    return np.sum(weights[: len(corners)] * np.linalg.det(corners[:, 1:] - corners[:, :1]))


def volume(shift: Any) -> Any:
    return spatial.ConvexHull([[0.0, 0.1], [1.0, 0.4], [0.3, 0.9], [0.7, shift[0]]]).volume


def test_points_made_while_tracing_reach_qhull_as_arrays() -> None:
    assert gradcli.check(areas, {"weights": WEIGHTS}).verdict == "pass"


def test_a_hull_of_differentiated_points_is_checked_by_function_values() -> None:
    report = gradcli.check(volume, {"shift": np.array([-0.2])}, grad=lambda shift: np.array([-0.5]))
    assert report.verdict == "pass"
    [found] = [finding for finding in report.points[0].findings if finding.kind == "untraced"]
    assert "ConvexHull has no derivative rule by its points" in found.message
