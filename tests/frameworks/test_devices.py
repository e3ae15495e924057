"""--device for expressions and numpy functions, which a framework runs; and a device that is not there, in every framework."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as api
from gradcli.arithmetic.devices import DEVICES, quiet_imports
from gradcli.errors import BadOption, NotSupported
from gradcli.modes.framework_modes import lower_program
from gradcli.modes.mode import Question
from gradcli.modes.registry import FRAMEWORKS, OWN
from tests.frameworks.asking import asked, of_row
from tests.frameworks.test_lowering import ELEMENTWISE, FUNCTIONS, here, named
from tests.rules.agreement import drawn

PLAIN = "import numpy as np\ndef f(x):\n    return np.sum(np.tanh(x) * x[::-1])\n"


def installed(*names: str) -> str:
    """Return the first of these frameworks that is installed; skip the test if none is."""
    found = next((name for name in names if FRAMEWORKS[name].available().yes), None)
    if found is None:
        pytest.skip(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not installed")
    return found


def version(name: str) -> str:
    with quiet_imports():
        return str(importlib.import_module(DEVICES[name].package).__version__)


@pytest.fixture(name="target", params=["an expression", "a function"])
def _target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    if request.param == "an expression":
        return "sum(tanh(x)*x[::-1])", "x=[0.5, -1.5, 2]"
    (tmp_path / "plain.py").write_text(PLAIN)
    return f"{tmp_path / 'plain.py'}:f", "x=[0.5, -1.5, 2]"


def test_a_framework_is_added_and_the_report_says_where_it_ran(
    gradcli: Callable[..., Any], target: tuple[str, ...]
) -> None:
    name = installed("torch", "jax")
    found = gradcli("check", *target, "--device", "cpu", "--json").json
    assert (found["verdict"], found["exit_status"]) == ("pass", 0)
    modes = found["points"][0]["modes"]
    assert {*modes} == {*OWN, name}
    assert (modes[name]["status"], modes[name]["verdict"]) == ("ok", "agree")
    assert modes[name]["ran_on"] == {"framework": name, "version": version(name), "device": "cpu", "dtype": "float64"}
    assert not any("ran_on" in modes[own] for own in OWN)
    assert found["command"][-4:] == ["--device", "cpu", "--seed", "0"]
    assert f"{name} {version(name)}, float64 on cpu" in gradcli("check", *target, "--device", "cpu").stdout


def test_compare_modes_has_a_column(gradcli: Callable[..., Any], target: tuple[str, ...]) -> None:
    name = installed("torch", "jax")
    row = gradcli("compare-modes", *target, "--device", "cpu", "--json").json["modes"][name]
    assert (row["status"], row["bound_held"]) == ("ok", True)
    assert row["ran_on"] == {"framework": name, "version": version(name), "device": "cpu", "dtype": "float64"}
    text = gradcli("compare-modes", *target, "--device", "cpu").stdout
    assert re.search(r"^ *mode .* time/f +device$", text, re.MULTILINE)
    assert re.search(rf"^ *{name} .* cpu$", text, re.MULTILINE)
    assert f"{name} {version(name)}, float64 on cpu" in text
    assert "device" not in gradcli("compare-modes", *target, "--modes", "fwd,rev").stdout


def test_compare_modes_says_where_the_gradient_of_a_framework_ran(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    installed("torch")
    (tmp_path / "native.py").write_text("import torch\ndef f(x):\n    return torch.sin(x.float()).sum()\n")
    target = (f"{tmp_path}/native.py:f", "x=[1, 2]", "--device", "cpu")
    rows = gradcli("compare-modes", *target, "--json").json["modes"]
    where = {"framework": "torch", "version": version("torch"), "device": "cpu", "dtype": "float32"}
    assert rows["claim"]["ran_on"] == where
    assert "torch" not in rows  # the function runs in torch as it is
    assert f"torch {version('torch')}, float32 on cpu" in gradcli("compare-modes", *target).stdout


def test_python_has_it_too() -> None:
    name = installed("torch", "jax")
    x = {"x": np.array([0.5, 2.0])}
    assert name in api.check(lambda x: np.sum(x**3), x, device="cpu").points[0].modes
    assert name in api.compare_modes("sum(x**3)", x, device="cpu").modes


def test_a_framework_that_is_named_runs_alone(gradcli: Callable[..., Any]) -> None:
    name = installed("jax", "tensorflow", "mlx")
    modes = gradcli("check", "x**3", "x=2", "--modes", f"rev,fd,{name}", "--device", "cpu", "--json").json["points"][0]
    assert {*modes["modes"]} == {"reverse", "finite-difference", name}
    assert modes["modes"][name]["ran_on"]["device"] == "cpu"


def test_modes_of_gradcli_alone_get_one_too(gradcli: Callable[..., Any]) -> None:
    name = installed("torch", "jax")
    found = gradcli("check", "x**3", "x=2", "--modes", "rev", "--device", "cpu", "--json").json
    assert {*found["points"][0]["modes"]} == {"reverse", name}


def test_a_hessian_and_a_claim(gradcli: Callable[..., Any]) -> None:
    name = installed("torch", "jax")
    ran = gradcli("check", "sum(tanh(x)**2)", "x=[0.3, -0.8]", "--order", "2", "--device", "cpu", "--json")
    assert ran.json["points"][0]["modes"][name]["verdict"] == "agree"
    ran = gradcli("check", "x**3", "x=2", "--grad", "x=x**2", "--device", "cpu", "--json")
    assert (ran.exit_status, ran.json["points"][0]["modes"]["claim"]["verdict"]) == (1, "disagree")


@pytest.mark.parametrize("command", ["check", "compare-modes"])
@pytest.mark.parametrize(("device", "do"), [
    ("cuda:99", "install the build for cuda: |see whether the driver finds a GPU: nvidia-smi|name one of these: --device cpu"),
    ("moon", "name one of these: --device cpu"),
])  # fmt: skip
def test_a_device_that_is_not_there(
    gradcli: Callable[..., Any], target: tuple[str, ...], command: str, device: str, do: str
) -> None:
    name = installed("torch", "jax")
    ran = gradcli(command, *target, "--device", device)
    assert (ran.exit_status, ran.stdout) == (2, "")
    first, second, third = ran.stderr.splitlines()
    assert first == f"error: there is no device '{device}' here"
    assert second.startswith(f"  {name} {version(name)} finds these devices: cpu")
    assert re.search(do, third)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_error_is_the_same_for_a_function_of_a_framework(
    gradcli: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    installed(name)
    (tmp_path / "square.py").write_text("def f(x):\n    return x * x\n")
    native = gradcli("check", f"{tmp_path}/square.py:f", "x=3", "--framework", name, "--device", "cuda:99")
    lowered_ = gradcli("check", "x*x", "x=3", "--modes", f"fd,{name}", "--device", "cuda:99")
    assert native.exit_status == lowered_.exit_status == 2
    assert native.stderr == lowered_.stderr
    assert f"{name} {version(name)} finds these devices: cpu" in native.stderr


def test_the_first_framework_that_has_the_device_runs(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcli.modes import registry

    def find(name: str, device: str, **_: Any) -> str:
        if name == "torch":
            raise BadOption("there is no device 'far' here")
        return device

    monkeypatch.setattr(registry, "find_device", find)
    for name in registry.FOR_DEVICES:
        installed(name)
    assert registry.add_mode_for_device(("reverse",), "far") == ("reverse", "jax")


SECOND = """
import jax, numpy as np
from gradcli.modes.registry import FRAMEWORKS
from tests.frameworks.asking import asked
from gradcli.modes.framework_modes import lower_program
lowering = FRAMEWORKS["jax"].lowering
q = asked(lambda x: np.sum(np.tanh(x)[::-1] * x), [np.linspace(0.1, 1, 3)])
with lowering.running("cpu:1"):
    program = lower_program(lowering, q.recording)
    y, pull = jax.vjp(program, lowering.tensor(q.xs[0]))
    assert y.devices() == pull(y)[0].devices() == {jax.devices("cpu")[1]}
assert FRAMEWORKS["jax"].gradient(q).ran_on.device == "cpu"
"""


def test_jax_runs_on_the_device_that_is_named() -> None:
    """JAX can divide the CPU into several devices, so that the second one shows what runs where."""
    installed("jax")
    environ = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    ran = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    words = ["check", "sum(tanh(x))", "x=[1, 2]", "--modes", "rev,fd,jax", "--device", "cpu:1"]
    ran = subprocess.run([sys.executable, "-m", "gradcli", *words], capture_output=True, text=True, env=environ)
    assert (ran.returncode, "float64 on cpu:1" in ran.stdout) == (0, True), ran.stdout + ran.stderr


def stays_on_meta(q: Question) -> bool:
    """Whether torch runs the program and its gradient on the device `meta` alone, which mixes with no other device."""
    import torch

    lowering = here("torch")
    with np.errstate(all="ignore"), lowering.running("meta"):
        try:
            program = lower_program(lowering, q.recording)
        except NotSupported:
            return True  # test_lowering says which these are
        xs = [lowering.tensor(x).requires_grad_() for x in q.xs]
        y = program(*xs)
        bars = torch.autograd.grad(y, xs, torch.ones_like(y), materialize_grads=True)
    return all(x.device.type == "meta" for x in (y, *bars))


@pytest.mark.parametrize(("row", "params"), ELEMENTWISE, ids=named)
def test_torch_makes_no_tensor_elsewhere_for_elementwise_operations(row: Any, params: Any) -> None:
    here("torch")
    with np.errstate(all="ignore"):
        assert stays_on_meta(asked(*of_row(row, params)))


@pytest.mark.parametrize(("f", "shapes"), [pytest.param(f, shapes, id=what) for what, f, shapes in FUNCTIONS])
def test_torch_makes_no_tensor_elsewhere_for_others(f: Callable[..., Any], shapes: Any) -> None:
    here("torch")
    assert stays_on_meta(asked(f, drawn(1, shapes)))
