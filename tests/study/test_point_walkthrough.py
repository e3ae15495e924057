"""The walkthrough of a check: proved digits, the adjoints of a wrong claim, and where it departs."""

import copy
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.report.check import CheckReport
from gradcli.report.common import Absent
from gradcli.report.trace import TraceReport
from tests.rows import for_rows

NETWORK = """
import numpy as np

def loss(W, b, w, x, y):
    z = W @ x + b
    h = np.tanh(z)
    p = w @ h
    r = p - y
    return r**2

def slope_of_tanh(W, b, w, x, y):
    z = W @ x + b
    h = np.tanh(z)
    r = w @ h - y
    dz = 2 * r * w * (1 - h)
    return {"W": np.outer(dz, x), "b": dz, "w": 2 * r * h}

def dropped_factor(W, b, w, x, y):
    z = W @ x + b
    h = np.tanh(z)
    r = w @ h - y
    dz = r * w * (1 - h**2)
    return {"W": np.outer(dz, x), "b": dz, "w": r * h}

def right(W, b, w, x, y):
    z = W @ x + b
    h = np.tanh(z)
    r = w @ h - y
    dz = 2 * r * w * (1 - h**2)
    return {"W": np.outer(dz, x), "b": dz, "w": 2 * r * h}
"""
POINT = "W=[[0.5,-1],[1,2]], b=[0.1,0.2], w=[1,-2], x=[0.3,0.7], y=1"


@pytest.fixture(name="walked")
def _walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], TraceReport]:
    (tmp_path / "network.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)

    def walked(claim: str) -> TraceReport:
        found = checked("network.py:loss", POINT, grad=claim).walk
        assert found is not None
        walk = found()
        assert isinstance(walk, TraceReport)
        return walk

    return walked


def checked(f: Any, at: Any, **options: Any) -> CheckReport:
    return gradcli.check(f, at, **options)


def wrong(walk: TraceReport) -> set[str]:
    return {node.name for node in walk.nodes if not isinstance(node.claimed, Absent)}


def test_a_slip_inside_is_followed_back(walked: Callable[[str], TraceReport]) -> None:
    walk = walked("slope_of_tanh")
    assert walk.departs == "z" and wrong(walk) == {"z", "t1", "b", "W"}
    assert not isinstance(walk.mistake, Absent) and (walk.mistake.file, walk.mistake.line) == ("network.py", 6)
    z = next(node for node in walk.nodes if node.name == "z")
    h = next(node for node in walk.nodes if node.name == "h")
    np.testing.assert_allclose(z.claimed, h.adjoint * (1 - h.value), rtol=1e-12)


def test_a_factor_at_the_end_is_wrong_everywhere(walked: Callable[[str], TraceReport]) -> None:
    walk = walked("dropped_factor")
    assert wrong(walk) >= {"W", "b", "w"}
    assert isinstance(walk.departs, Absent) or walk.departs not in ("W", "b", "w")


def test_a_right_claim_departs_nowhere(walked: Callable[[str], TraceReport]) -> None:
    walk = walked("right")
    assert isinstance(walk.departs, Absent) and not wrong(walk)


def test_code_around_the_nodes_is_kept(walked: Callable[[str], TraceReport]) -> None:
    walk = walked("right")
    assert {(node.file, node.line) for node in walk.nodes if node.operation != "input"} <= {
        (s.file, s.line) for s in walk.source
    }
    assert "    z = W @ x + b" in [line.source for line in walk.source]


def test_values_and_adjoints_are_proved() -> None:
    walk = checked("exp(x)*sin(y)", {"x": 0.3, "y": 0.7}).walk()  # type: ignore[misc]
    last = walk.nodes[-1]
    assert last.proved.value.startswith("0.869602919114040") and len(last.proved.value) > 30
    assert last.proved.value_digits > 15
    x = walk.nodes[0]
    assert x.proved.adjoint == last.proved.value


def test_a_long_program_is_not_proved() -> None:
    walk = checked(lambda x: np.sum(np.sin(x) ** 2), np.ones(20_000), modes="reverse").walk()  # type: ignore[misc]
    assert all(isinstance(node.proved, Absent) for node in walk.nodes)


def test_claims_on_jacobians_are_summed_over_the_outputs() -> None:
    A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    claim = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    walk = checked(lambda x: A @ x, np.array([0.5, 0.2]), jac=lambda x: claim).walk()  # type: ignore[misc]
    np.testing.assert_allclose(walk.nodes[0].claimed, claim.sum(axis=0))
    np.testing.assert_allclose(walk.nodes[0].adjoint, A.sum(axis=0))


@pytest.mark.parametrize(("f", "options", "says"), [
    (lambda x: float(np.sum(x)) ** 2, {}, "cannot be drawn"),
    (lambda x: np.sum(x**4), {"hess": lambda x: np.diag(12 * x**2)}, "not for a Hessian"),
])  # fmt: skip
def test_what_cannot_be_drawn_says_so(f: Any, options: dict[str, Any], says: str) -> None:
    walk = checked(f, np.array([1.0, 2.0]), **options).walk()  # type: ignore[misc]
    assert isinstance(walk, str) and says in walk and walk.endswith(".")


@for_rows(("f", "at", "claim", "red"), [
    ("x**2 + y**3", {"x": 1.0, "y": 2.0}, "x=2*x, y=1/0.0*y", {"y"}),
    ("x**2 + y**3", {"x": 1.0, "y": 2.0}, "x=2*x*(1+1e-7), y=3*y**2", {"x"}),
    ("sum(x**3)", {"x": np.array([1e4, 1e-2, 1.0])}, "3*x**2 + [0, 1e-3, 0]", {"x"}),
    ("abs(x) + y**2", {"x": 0.0, "y": 2.0}, "x=0.5, y=3*y", {"y"}),
])  # fmt: skip
def test_red_is_what_the_check_finds_wrong(f: str, at: dict[str, Any], claim: str, red: set[str]) -> None:
    walk = checked(f, at, grad=claim).walk()  # type: ignore[misc]
    assert wrong(walk) & set(at) == red


@pytest.mark.parametrize(("changes", "drawn"), [(0.1, False), (1e-9, True)])
def test_a_function_that_changes_is_not_drawn_or_not_proved(changes: float, drawn: bool) -> None:
    calls = itertools.count()

    def f(x: Any) -> Any:
        return (1 + changes * next(calls)) * np.sum(x**2)

    walk = checked(f, np.array([1.0, 2.0])).walk()  # type: ignore[misc]
    assert isinstance(walk, TraceReport) == drawn
    assert "another value" in walk if not drawn else all(isinstance(node.proved, Absent) for node in walk.nodes)


def test_copies_have_what_was_made() -> None:
    report = checked("sin(x)", {"x": 1.0})
    before = pickle.loads(pickle.dumps(report))
    assert "not drawn" in before.walk() and "not drawn" in str(before.page())
    page = str(report.page())
    assert str(copy.deepcopy(report).page()) == str(pickle.loads(pickle.dumps(report)).page()) == page
