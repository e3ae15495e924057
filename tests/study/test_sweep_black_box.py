"""Functions that cannot be traced, swept by their values alone."""

from pathlib import Path

import pytest

from tests.study.test_sweep import ORDERS, Gradcli, curves, swept
from tests.targets.test_loading import written

BLACK_BOX = """
    import math
    def f(x): return sum(map(math.sin, map(np.float64, np.ravel(x))))
    def g(x): return np.cos(x)
    def bad(x): return 1.01*np.cos(x)
    def vector(x): return np.array([math.sin(v.__float__()) for v in x])
    def single(x): return float(np.float32(math.sin(x.__float__())))
    def noisy(x): return math.sin(x.__float__()) + 1e-7*math.sin(1e9*x.__float__())
    def raises(x):
        if x.__float__() > 1.2: raise ValueError("too far")
        return math.sin(x.__float__())
"""


@pytest.fixture(name="black_box")
def _black_box(tmp_path: Path) -> str:
    return written(tmp_path, BLACK_BOX)


def test_a_black_box_is_swept_by_its_values(gradcli: Gradcli, black_box: str) -> None:
    document = swept(gradcli, f"{black_box}:f", "x=1.0")
    found = {curve["scheme"]: curve for curve in document["curves"]}
    assert document["reference"] == "finite-difference"
    assert [f["kind"] for f in document["findings"]] == ["reference", "complex"]
    assert {name: c["order"] for name, c in found.items()} == {n: pytest.approx(ORDERS[n], abs=0.15) for n in found}
    assert 3e-10 < found["forward"]["best"]["h"] < 3e-7
    assert all(curve["predicted"] is None for curve in found.values())  # of its derivatives nothing is known


def test_a_black_box_in_single_precision_shows_it(gradcli: Gradcli, black_box: str) -> None:
    best = curves(gradcli, f"{black_box}:single", "x=1.0")["forward"]["best"]
    assert 3e-5 < best["h"] < 3e-3 and 2.5 < best["digits"] < 5


@pytest.mark.parametrize(("name", "x"), [("vector", "x=[0.3, 1]"), ("f", "x=[0.3, 1]"), ("raises", "x=1.0")])
def test_black_boxes_of_arrays_and_those_that_raise(gradcli: Gradcli, black_box: str, name: str, x: str) -> None:
    found = curves(gradcli, f"{black_box}:{name}", x)
    assert found["central"]["best"]["digits"] > 9
    assert ("no value" in {part["why"] for part in found["central"]["useless"]}) is (name == "raises")


@pytest.mark.parametrize("option", [("--dtype", "float32"), ("--bits", "113")])
def test_a_black_box_runs_in_its_own_precision_alone(gradcli: Gradcli, black_box: str, option: tuple) -> None:
    document = swept(gradcli, f"{black_box}:f", "x=1.0", *option)
    assert document["curves"] == [] and len(document["unsupported"]) == 1
