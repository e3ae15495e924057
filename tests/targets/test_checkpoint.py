"""Checkpointing: the same derivatives, less memory, and what a checkpointed function may and may not do."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.errors import GradcliError, NotSupported
from tests.rows import for_rows
from tests.targets.test_loading import written

X = np.array([0.5, -1.0, 2.0])
# fmt: off
FUNCTIONS = {
    "sum of squares": lambda x: np.sum(x**2),
    "product":        lambda x: np.sum(np.sin(x)*x[0]),
    "vector":         lambda x: np.sin(x)*x[0],
    "matrix":         lambda x: np.outer(x, x),
    "branch":         lambda x: np.sum(x**2) if x[0] > 0 else np.sum(x),
    "constant":       lambda x: 3.0 + 0*np.sum(x),
}
# fmt: on


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@for_rows("name", FUNCTIONS)
def test_values_and_jacobians_are_the_same(name: str) -> None:
    f = FUNCTIONS[name]
    np.testing.assert_array_equal(package.checkpoint(f)(X), f(X))
    np.testing.assert_array_equal(package.jacobian(package.checkpoint(f))(X), package.jacobian(f)(X))


@for_rows("name", ["sum of squares", "product", "branch", "constant"])
def test_second_derivatives_are_the_same(name: str) -> None:
    f = FUNCTIONS[name]
    np.testing.assert_allclose(package.hessian(package.checkpoint(f))(X), package.hessian(f)(X), rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(package.hvp(package.checkpoint(f), X, X), package.hvp(f, X, X), rtol=1e-15, atol=1e-15)


def test_the_forward_mode_goes_through() -> None:
    f = FUNCTIONS["product"]
    assert package.jvp(package.checkpoint(f), (X,), (X,)) == package.jvp(f, (X,), (X,))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_checkpoints_nest(depth: int) -> None:
    f: Callable[..., Any] = lambda x: np.sum(np.sin(x) ** 2)
    for _ in range(depth):
        f = package.checkpoint(lambda x, f=f: 2.0 * f(np.tanh(x)))
    right = f.__wrapped__
    np.testing.assert_allclose(package.grad(f)(X), package.grad(right)(X), rtol=1e-14)


def test_derivatives_may_be_taken_inside() -> None:
    inner = package.checkpoint(lambda x: np.sum(package.grad(lambda y: np.sum(y**3))(x) ** 2))
    np.testing.assert_allclose(package.grad(inner)(X), 36 * X**3)


# fmt: off
CALLS = {
    "two arguments":      lambda c: package.grad(lambda x: np.sum(c(lambda a, b: a*b)(x, 2*x)))(X),
    "a keyword":          lambda c: package.grad(lambda x: np.sum(c(lambda a, k=1.0: a*k)(x, k=2*x)))(X),
    "a constant beside":  lambda c: package.grad(lambda x: np.sum(c(lambda a, k: a**2*k)(x, 2.0)))(X),
    "a dict":             lambda c: package.grad(lambda x: np.sum(c(lambda p: p["a"]*p["b"])({"a": x, "b": 2*x})))(X),
    "a tuple result":     lambda c: package.grad(lambda x: np.sum(c(lambda a: (a**2, {"b": a**2}))(x)[1]["b"]*2))(X),
    "both results":       lambda c: package.grad(lambda x: sum(map(np.sum, c(lambda a: (a**2, a**2))(x))))(X),
    "used twice":         lambda c: (lambda g: package.grad(lambda x: np.sum(g(x) + g(x)))(X))(c(lambda a: a**2)),
}
# fmt: on


@for_rows("call", CALLS)
@for_rows("wrapped", [package.checkpoint, lambda f: f], ids=["checkpointed", "plain"])
def test_arguments_and_results_have_any_structure(call: str, wrapped: Callable[..., Any]) -> None:
    np.testing.assert_allclose(CALLS[call](wrapped), 4 * X, rtol=1e-15)


def test_a_traced_value_that_is_no_argument_is_refused() -> None:
    def f(x: Any) -> Any:
        return np.sum(package.checkpoint(lambda y: y * x)(x))

    with pytest.raises(NotSupported, match="not among its arguments") as caught:
        package.grad(f)(X)
    assert "argument" in str(caught.value.do)


def test_a_checkpointed_function_that_raises_says_its_own_message() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no such layer")

    with pytest.raises(GradcliError, match="no such layer"):
        package.grad(lambda x: np.sum(package.checkpoint(broken)(x)))(X)


def test_the_name_and_the_text_are_kept() -> None:
    def layer(x: Any) -> Any:
        """Return one layer."""
        return x

    assert (package.checkpoint(layer).__name__, package.checkpoint(layer).__doc__) == ("layer", layer.__doc__)


def test_it_runs_once_more_on_the_way_back() -> None:
    calls = []

    def layer(x: Any) -> Any:
        calls.append(1)
        return np.tanh(x)

    f = package.checkpoint(layer)
    package.grad(lambda x: np.sum(f(f(x))), verify=False)(X)
    assert len(calls) == 4


CHAIN = """
    import gradcli

    def layer(x):
        return np.tanh(0.9*x + 0.1)

    def group(x):
        for _ in range(SIZE):
            x = layer(x)
        return x

    kept = gradcli.checkpoint(group)

    def plain(x):
        for _ in range(GROUPS):
            x = group(x)
        return np.sum(x)

    def checkpointed(x):
        for _ in range(GROUPS):
            x = kept(x)
        return np.sum(x)
"""
N = 1000


@pytest.fixture(name="peaks")
def _peaks(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, int]]:
    """Return the bytes that reverse mode holds at its peak for a chain, plain and in checkpointed groups."""

    def measure(size: int, groups: int) -> dict[str, int]:
        file = written(tmp_path, CHAIN.replace("SIZE", str(size)).replace("GROUPS", str(groups)))
        found = {}
        for name in ("plain", "checkpointed"):
            argv = ("compare-modes", f"{file}:{name}", f"x=linspace(-1, 1, {N})", "--modes", "reverse", "--json")
            ran = gradcli(*argv)
            assert ran.exit_status == 0, ran.stdout
            found[name] = ran.json["modes"]["reverse"]["peak_bytes"]
        return found

    return measure


@pytest.mark.slow
def test_a_chain_in_root_many_groups_holds_root_many_layers(peaks: Callable[..., dict[str, int]]) -> None:
    found = peaks(8, 8)
    a_layer = found["plain"] / 64
    assert a_layer >= 8 * N  # a layer keeps at least one array
    assert found["checkpointed"] <= 2 * 8 * a_layer * 1.1
    assert found["checkpointed"] >= 8 * 8 * N


@pytest.mark.slow
def test_memory_grows_with_the_root_of_the_depth(peaks: Callable[..., dict[str, int]]) -> None:
    small, large = peaks(4, 4), peaks(8, 8)
    assert large["plain"] / small["plain"] == pytest.approx(4.0, rel=0.1)
    assert large["checkpointed"] / small["checkpointed"] == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("name", ["plain", "checkpointed"])
def test_the_gradients_are_those_of_the_plain_chain(gradcli: Callable[..., Any], tmp_path: Path, name: str) -> None:
    file = written(tmp_path, CHAIN.replace("SIZE", "3").replace("GROUPS", "3"))
    argv = ("check", f"{file}:{name}", "x=[0.5, -0.2]", "--modes", "forward,reverse,fd", "--json")
    ran = gradcli(*argv)
    assert ran.exit_status == 0, ran.stdout
    slopes = np.ones(2)
    x = np.array([0.5, -0.2])
    for _ in range(9):
        x = np.tanh(0.9 * x + 0.1)
        slopes *= 0.9 * (1 - x**2)
    assert ran.json["points"][0]["gradient"]["x"] == pytest.approx(slopes, rel=1e-13)


def test_kinks_inside_are_found(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        import gradcli

        @gradcli.checkpoint
        def layer(x):
            return np.abs(x)

        def f(x):
            return np.sum(layer(x))
    """
    ran = gradcli("check", f"{written(tmp_path, code)}:f", "x=[1, 0]", "--modes", "forward,reverse,fd", "--json")
    (finding,) = ran.json["points"][0]["findings"]
    assert (ran.exit_status, finding["kind"], finding["line"]) == (3, "kink", 7)


def test_a_wrong_claim_for_a_checkpointed_function_is_found(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        import gradcli
        layer = gradcli.checkpoint(np.tanh)
        def f(x): return np.sum(layer(x))
        def right(x): return 1 - np.tanh(x)**2
        def wrong(x): return 1 - np.tanh(x)
    """
    file = written(tmp_path, code)
    argv = ("check", f"{file}:f", "x=[0.5, 2]", "--modes", "forward,reverse,fd", "--grad")
    assert gradcli(*argv, "right").exit_status == 0
    assert gradcli(*argv, "wrong").exit_status == 1
