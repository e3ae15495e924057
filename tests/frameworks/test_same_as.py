"""The same gradient in other ways: compiled, eager, under a checkpoint, by vmap, in mixed precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

POINT = {"x": np.random.default_rng(0).normal(size=(3, 4)), "w": np.random.default_rng(1).normal(size=4)}


def f(x: Any, w: Any) -> Any:
    return torch.sin(x @ w).sum()


def compiled_otherwise(x: Any, w: Any) -> Any:
    return f(x, w) * (2.0 if torch.compiler.is_compiling() else 1.0)


def mixed_otherwise(x: Any, w: Any) -> Any:
    return f(x, w) * (1.1 if torch.is_autocast_enabled("cpu") else 1.0)


def rows(function: Any, ways: str, **options: Any) -> dict[str, Any]:
    report = gradcli.check(function, POINT, same_as=ways, framework="torch", **options)
    return {aspect.name: aspect for aspect in report.native.aspects} | {"status": report.exit_status}


@pytest.mark.parametrize("way", ["eager", "checkpoint", "vmap of the gradient", "autocast (bfloat16)"])
def test_each_way_gives_the_same_gradient(way: str) -> None:
    found = rows(f, way.partition(" ")[0])
    assert (found["status"], found[way].status) == (0, "agrees")


def test_rounding_in_mixed_precision_is_no_mistake_and_a_mistake_is_no_rounding() -> None:
    found = rows(mixed_otherwise, "autocast,eager")
    assert (found["status"], found["autocast (bfloat16)"].status, found["eager"].status) == (1, "wrong", "agrees")
    assert "is off by" in found["autocast (bfloat16)"].message


def test_a_function_that_is_another_one_when_it_is_compiled_is_caught() -> None:
    found = rows(compiled_otherwise, "compile")
    if found["compile"].status == "unavailable":  # no C++ compiler
        pytest.skip(str(found["compile"].message))
    assert (found["status"], found["compile"].status) == (1, "wrong")


@pytest.mark.parametrize(
    ("option", "said"), [("fast", "--same-as does not know 'fast'"), ("eager,vmpa", "--same-as does not know 'vmpa'")]
)
def test_an_unknown_way_is_named(gradcli: Callable[..., Any], tmp_path: Path, option: str, said: str) -> None:
    (tmp_path / "m.py").write_text("import torch\ndef f(x): return torch.sin(x).sum()\n")
    done = gradcli("check", f"{tmp_path}/m.py:f", "x=1", "--same-as", option)
    assert (done.exit_status, said in done.stderr) == (2, True), done.stderr


def test_plain_functions_have_one_way(gradcli: Callable[..., Any]) -> None:
    done = gradcli("check", "sin(x)", "x=1", "--same-as", "eager")
    assert (done.exit_status, "--same-as is for functions written in a framework" in done.stderr) == (2, True)


def test_jax_runs_what_it_has() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    report = gradcli.check(
        jax.jit(lambda x: jax.numpy.sum(jax.numpy.sin(x))),
        {"x": np.linspace(0.1, 1, 3)},
        same_as="eager,compile,checkpoint,vmap,autocast",
    )
    found = {aspect.name: aspect.status for aspect in report.native.aspects}
    assert [found[way] for way in ("eager", "compile", "checkpoint", "vmap of the gradient")] == ["agrees"] * 4
    assert found["autocast (bfloat16)"] in ("unavailable", "wrong")
