"""The code of closed forms in torch and jax: it passes its self-test, keeps dtypes and devices, and a wrong word fails it."""

import contextlib
import importlib
import importlib.util
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.derivation.languages import JAX, TORCH, Dialect, Writer, write_array_code
from tests.derivation.test_code import FORM_OF, LACKING, value
from tests.derivation.words import CASES, NUMBERS, RANKS, SIZES, VALUES, derived

BOTH = pytest.mark.parametrize("name", ["torch", "jax"])
RUNNER = """
import contextlib, io, runpy, sys, warnings
warnings.simplefilter("error")
for path in sys.argv[1:]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(path, run_name="__main__")
        print(said.getvalue().strip())
    except Exception as error:
        print(f"{type(error).__name__} {error}".replace(chr(10), " "))
"""
PLANTED = {  # a word: what a slip would write for it
    "torch": {
        "var": "torch.var({0}{axis})", "eye": "torch.ones({0}, {0}, dtype={dtype})", "tanh": "torch.sinh", "compare": "(~({0})).to({dtype})",
        "softmax": "torch.log_softmax", "softmax of a vector": "torch.softmax(-({0}), dim=0)", "softmax of a matrix": "torch.softmax({0}, dim=0)",
        "logsumexp": "torch.amax", "logsumexp of a matrix": "torch.logsumexp({0}, dim=(0, 1)) + 1e-6", "solve": "torch.matmul", "inv": "torch.linalg.inv(2*{0})",
        "pad": "torch.nn.functional.pad({0}, ({after}, {before}))", "sum": "torch.mean", "outer": "torch.outer({1}, {0})", "exp": "torch.exp2", "sigmoid": "torch.tanh",
    },
    "jax": {
        "var": "(1.001*jnp.var({0}))", "eye": "jnp.ones(({0}, {0}))", "tanh": "jnp.sinh", "compare": "jnp.asarray(~({0}), {dtype})",
        "softmax": "jax.nn.log_softmax", "softmax of a vector": "jax.nn.softmax(-({0}))", "softmax of a matrix": "jax.nn.softmax({0}, axis=0)",
        "logsumexp": "(1 + jax.scipy.special.logsumexp({0}{axis}))", "solve": "jnp.matmul", "inv": "jnp.transpose",
        "pad": "jnp.pad({0}, ({after}, {before}))", "sum": "jnp.mean", "outer": "jnp.outer({1}, {0})", "exp": "jnp.exp2", "sigmoid": "jnp.tanh",
    },
}  # fmt: skip


def of(name: str) -> Dialect:
    """Return a dialect whose framework is here."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return {"torch": TORCH, "jax": JAX}[name]


def run(codes: Sequence[str], folder: Path) -> list[str]:
    """Run each file as a program, in one process of its own, and return what each says."""
    paths = [folder / f"made{k}.py" for k in range(len(codes))]
    for path, code in zip(paths, codes, strict=True):
        path.write_text(code)
    ran = subprocess.run([sys.executable, "-c", RUNNER, *map(str, paths)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert len(said) == len(codes), ran.stderr
    return said


@pytest.fixture(name="cases", scope="module")
def _cases() -> list[Any]:
    return [derived(*case) for case in (*CASES, *((f, {}, {}, wrt, order) for f, wrt, order in NUMBERS))]


@pytest.mark.slow
@BOTH
def test_it_passes_its_self_test(name: str, cases: list[Any], tmp_path: Path) -> None:
    here = of(name)
    codes = [write_array_code(wanted, here, test) for wanted, test in cases]
    said = run(codes, tmp_path)
    assert [(code, line) for code, line in zip(codes, said, strict=True) if line != "ok"] == []


@BOTH
def test_a_wrong_word_fails_it(name: str, cases: list[Any], tmp_path: Path) -> None:
    here = of(name)
    planted: list[tuple[str, str]] = []
    for wanted, test in cases:
        right = write_array_code(wanted, here, test)
        for word, wrong in PLANTED[name].items():
            code = write_array_code(wanted, replace(here, rows={**here.rows, word: wrong}), test)
            planted += [(word, code)] if code != right else []
    assert {word for word, _ in planted} == set(PLANTED[name])
    said = run([code for _, code in planted], tmp_path)
    assert [code for (_, code), line in zip(planted, said, strict=True) if line == "ok"] == []


@BOTH
def test_every_word_says_what_the_language_says(name: str) -> None:
    here = of(name)
    arrays, scope = (_torch if name == "torch" else _jax)(np.float64)
    with _wide(name):
        for word, e in FORM_OF.items():
            if word in LACKING[name]:
                continue
            found = eval(Writer(here, RANKS, "x").result(e), {**scope, **arrays(VALUES), **SIZES})
            right = value(e)
            assert tuple(found.shape) == right.shape, word
            np.testing.assert_allclose(np.asarray(found), right, rtol=1e-12, atol=1e-15, err_msg=word)


def _wide(name: str) -> Any:
    return importlib.import_module("jax").enable_x64(True) if name == "jax" else contextlib.nullcontext()


def _torch(dtype: type) -> tuple[Any, dict[str, Any]]:
    import torch

    made = {np.float32: torch.float32, np.float64: torch.float64}[dtype]
    return lambda xs: {n: torch.as_tensor(x, dtype=made) for n, x in xs.items()}, {"torch": torch, "math": math}


def _jax(dtype: type) -> tuple[Any, dict[str, Any]]:
    import jax
    import jax.numpy as jnp

    return lambda xs: {n: jnp.asarray(x, dtype) for n, x in xs.items()}, {"jax": jax, "jnp": jnp}


@BOTH
def test_it_keeps_the_dtype_of_its_inputs(name: str, cases: list[Any]) -> None:
    here = of(name)
    arrays, _ = (_torch if name == "torch" else _jax)(np.float32)
    for wanted, test in cases:
        scope: dict[str, Any] = {}
        exec(write_array_code(wanted, here), scope)
        point, derivative = test.points[0]
        compiled = importlib.import_module("jax").jit if name == "jax" else lambda f: f  # once, not each operation
        found = compiled(scope[wanted.kind])(**arrays(point))
        assert str(found.dtype).rpartition(".")[2] == "float32"
        scale = np.max(np.abs(derivative), initial=1.0)
        np.testing.assert_allclose(np.asarray(found), derivative, rtol=1e-3, atol=1e-3 * scale)


def test_torch_stays_on_the_device_of_its_inputs(cases: list[Any]) -> None:
    of("torch")
    arrays, _ = _torch(np.float32)
    for wanted, test in cases:
        scope: dict[str, Any] = {}
        exec(write_array_code(wanted, TORCH), scope)
        point, derivative = test.points[0]
        found = scope[wanted.kind](**{n: x.to("meta") for n, x in arrays(point).items()})
        assert found.device.type == "meta" and tuple(found.shape) == np.shape(derivative)


def test_jax_compiles_it_and_takes_numbers_of_python(cases: list[Any]) -> None:
    of("jax")
    jax = importlib.import_module("jax")
    with jax.enable_x64(True):
        arrays, _ = _jax(np.float64)
        for wanted, test in cases:
            scope: dict[str, Any] = {}
            exec(write_array_code(wanted, JAX), scope)
            point, derivative = test.points[0]
            runs = [(jax.jit(scope[wanted.kind]), arrays(point))]
            if numbers := {n: float(x) for n, x in point.items() if np.ndim(x) == 0}:
                runs.append((scope[wanted.kind], arrays(point) | numbers))
            for f, at in runs:
                np.testing.assert_allclose(np.asarray(f(**at)), derivative, rtol=1e-9, atol=1e-9)


@BOTH
def test_every_name_of_its_table_is_there(name: str) -> None:
    scope = (_torch if name == "torch" else _jax)(np.float64)[1] if of(name) else {}
    for row in (*of(name).rows.values(), *of(name).plain.values()):
        if "{" not in row:
            assert callable(eval(row, scope)), row
