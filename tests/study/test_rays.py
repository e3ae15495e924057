"""f along rays: large inputs entry by entry, small ones as whole arrays, with the same values."""

import numpy as np
import pytest

from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.study import rays
from gradcli.study.rays import Rays, entry_rays
from gradcli.targets.expression import Expression


@pytest.mark.parametrize(
    "text", ["sum(tanh(x*c)**2)", "sum(x[1:]*x[:-1]) + 0*sum(c)", "sum((where(x > 1, x, x**2))*c)"]
)
def test_a_large_input_is_swept_entry_by_entry_as_a_whole(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    at = {"x": rng.uniform(0.5, 1.5, 80), "c": rng.uniform(0.5, 1.5, 80)}
    q = Question(Expression(text), Point(at), ("x",))
    rays_, ts = entry_rays(q), 10.0 ** -np.arange(8)
    assert Rays(q)._one_by_one(rays_, ts) is not None
    found = Rays(q).values(rays_, ts)
    monkeypatch.setattr(rays, "_LARGE", 1000)
    assert np.array_equal(found, Rays(q).values(rays_, ts))
    alone = [[float(q.g(np.where(np.arange(80) == k, at["x"] * (1 + t), at["x"]))) for t in ts] for k in range(80)]
    np.testing.assert_allclose(found, alone, rtol=1e-14)


def test_what_mixes_entries_is_swept_as_a_whole() -> None:
    x = np.random.default_rng(1).uniform(0.5, 1.5, 80)
    q = Question(Expression("sum((sum(x) - x)**2)"), Point({"x": x}), ("x",))
    swept = Rays(q)
    found = swept.values(entry_rays(q), np.array([0.0, 1e-3]))
    assert swept._mixed == {"x"}
    np.testing.assert_allclose(found[:, 0], float(q.value), rtol=1e-13)
    moved = float(q.g(np.where(np.arange(80) == 3, x * 1.001, x)))
    np.testing.assert_allclose(found[3, 1], moved, rtol=1e-13)
