"""Every distance of scipy.spatial has its value, and the slope that its differences have, with weights and without."""

from typing import Any

import numpy as np
from scipy.spatial import distance

import gradcli
from gradcli.rules.scipy.spatial import METRICS
from tests.rows import for_rows

U, V, WEIGHTS = np.array([0.3, -1.2, 0.7]), np.array([0.52, 0.4, -0.93]), np.array([0.2, 1.0, 0.6])
OTHER = (U + np.array([0.21, -0.34, 0.17]))[None]
INVERSE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.7]])
KEYWORDS: dict[str, list[dict[str, Any]]] = {
    "chebyshev": [{}], "mahalanobis": [{"VI": INVERSE}], "minkowski": [{}, {"p": 3, "w": WEIGHTS}],
    "correlation": [{}, {"w": WEIGHTS}, {"centered": False}],
}  # fmt: skip
CASES = [(name, keywords) for name in METRICS for keywords in KEYWORDS.get(name, [{}, {"w": WEIGHTS}])]


@for_rows(("name", "keywords"), CASES)
def test_a_distance_is_traced_with_its_slope(name: str, keywords: dict[str, Any]) -> None:
    report = gradcli.check(lambda u: getattr(distance, name)(u, V, **keywords), {"u": U}, modes="reverse,fd")
    assert report.verdict == "pass", report
    np.testing.assert_allclose(report.points[0].value, getattr(distance, name)(U, V, **keywords), rtol=1e-14)


@for_rows("name", sorted(METRICS.keys() - {"mahalanobis"}))
def test_all_pairs_of_rows_are_traced(name: str) -> None:
    rows = np.stack([U, V, U * V + 0.1])
    for f in (lambda x: np.sum(distance.cdist(x, OTHER, name)), lambda x: np.sum(distance.pdist(x, name))):
        assert gradcli.check(f, {"x": rows}, modes="reverse,fd").verdict == "pass"
