"""Random Python functions that write, alias and change what they have used: the tape's gradient is that of dual numbers.

Every value is treated as a large one, so that whatever may be forgotten or overwritten is.
"""

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.arithmetic import tape
from gradcli.rules import kinds

PROGRAMS = 200
VECTORS = (
    "np.tanh(v)", "np.exp(-w)", "x*2.0", "v*w", "v/2", "k*v", "v-k", "M@v", "K@v", "M.T@w", "v@M", "w**2", "x**3", "M[:,1]", "K[1]*v",
    "np.where(x>0,v,w)", "3.0-v", "1.0/(2.0+v*v)", "np.sum(M,0)", "np.sum(M*v,axis=1)", "np.cumsum(v)", "v[::-1]", "np.full(3,s)",
    "np.maximum(v,0.1)", "np.sqrt(1+v*v)", "buf*v", "k*buf", "np.add(v,k)", "np.divide(v,2.5)", "(K@M)[0]", "(M@K)[:,2]",
)  # fmt: skip
MATRICES = ("M@M", "K@M", "M*K", "M.T", "np.outer(v,w)", "M+K", "M*s", "np.tanh(M)", "M**2", "K*v", "M-v", "M/3")
SCALARS = (
    "np.sum(v)",
    "v[0]",
    "s*2",
    "v@w",
    "np.sum(M)",
    "np.dot(v,k)",
    "s+v[1]",
    "s*s",
    "np.mean(w)",
    "np.sum(np.sum(M,1))",
)
BEGINNING = """import numpy as np

def f(x, M):
    k = np.array([0.3, -0.7, 1.1]); K = np.arange(9.0).reshape(3, 3)/9 - 0.4; buf = np.ones(3)
    v = x; w = x + 1.0; s = np.sum(x)*0.5
"""
END = "    return np.sum(v*w) + s + np.sum(M)*0.1 + np.sum(buf)\n"


def statement(rng: random.Random) -> str:
    at = rng.randrange(3)
    return rng.choice(
        (
            f"v = {rng.choice(VECTORS)}", f"w = {rng.choice(VECTORS)}", f"M = {rng.choice(MATRICES)}", f"s = {rng.choice(SCALARS)}",
            f"k[{at}] = {rng.random():.3f}", f"K[{at}] *= 0.5", f"buf[{at}] = {rng.choice(SCALARS)}",
            f"buf = buf*1.0; buf += {rng.choice(VECTORS)}", f"v = v.copy(); v[{at}] = {rng.choice(SCALARS)}",
            f"w = 1.0*w; w -= {rng.choice(VECTORS)}", "z = v*1.0; y = z[1:]; y[:] = w[:2]; v = z*z",
        )
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((tape, "_LARGE"), (kinds, "_REUSED"), (kinds, "LARGE"), (kinds, "_BLOCK"), (tape, "LARGE")):
        monkeypatch.setattr(module, name, 2)


def loaded(source: str, file: Path) -> Any:
    """Return f of a file: stand-ins look at the line that calls them."""
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


@pytest.mark.parametrize("part", range(4))
def test_the_gradient_of_random_programs_is_that_of_dual_numbers(part: int, tmp_path: Path) -> None:
    compared = 0
    for number in range(part * PROGRAMS // 4, (part + 1) * PROGRAMS // 4):
        rng = random.Random(number)
        source = BEGINNING + "".join(f"    {statement(rng)}\n" for _ in range(rng.randint(3, 9))) + END
        f = loaded(source, tmp_path / f"program{number}.py")
        drawn = np.random.default_rng(number)
        x, m, xdot, mdot = (drawn.normal(size=size) * 0.5 for size in (3, (3, 3), 3, (3, 3)))
        y, ydot = gradcli.jvp(f, (x, m), (xdot, mdot))
        if not np.isfinite(y) or abs(y) > 1e8:
            continue
        bars = gradcli.grad(f, wrt=("x", "M"))(x, m)
        terms = [bar * dot for bar, dot in zip(bars, (xdot, mdot), strict=True)]
        size = abs(ydot) + sum(float(np.sum(np.abs(part))) for part in terms)
        assert abs(sum(float(np.sum(part)) for part in terms) - ydot) <= 1e-9 * size, source
        compared += 1
    assert compared > PROGRAMS // 8
