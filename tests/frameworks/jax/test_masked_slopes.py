"""A forward mode that is right is not called wrong because the reverse mode is not finite."""

from typing import Any

import numpy as np
import pytest

import gradcli

jnp: Any = pytest.importorskip("jax.numpy", reason="jax is not installed")


def masked(x: Any) -> Any:
    return jnp.sum(jnp.where(x < 1.0, x, jnp.sqrt(x)))


def norms(x: Any) -> Any:
    r = jnp.sqrt(jnp.sum(x**2, axis=1))
    return jnp.sum(jnp.where(r > 0.5, r, 1.0))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("f", "x"), [(masked, np.array([0.0, 2.0, 0.3])), (norms, np.array([[0.0, 0.0], [1.0, 2.0]]))], ids=["sqrt", "norm"]
)
def test_only_what_is_wrong_is_called_wrong(f: Any, x: Any, dtype: str) -> None:
    report = gradcli.check(f, {"x": x}, framework="jax", dtype=dtype)
    assert report.verdict == "fail"
    status = {aspect.name: aspect.status for aspect in report.native.aspects}
    assert status["forward (jvp)"] == "agrees"
