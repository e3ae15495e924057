"""Narrow formats, mixed precision, deterministic algorithms and what a gradient costs, in torch; on a GPU where there is one."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as library
from gradcli.report.check import worst_error

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
POINT = {"x": np.random.default_rng(0).uniform(0.1, 0.2, (2, 2)), "w": np.random.default_rng(1).uniform(0.6, 0.9, 2)}


class Cancels(torch.autograd.Function):
    """A right gradient, written so that it loses six digits of whatever format it is in."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.logsumexp(x, 0)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ybar * (torch.softmax(ctx.saved_tensors[0], 0) + 1e6 - 1e6)


class Doubled(Cancels):
    """A wrong gradient, in any format."""

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return 2 * ybar * torch.softmax(ctx.saved_tensors[0], 0)


def spread(x: Any, w: Any) -> Any:
    return torch.sin(x @ w).sum()


def tiny(x: Any) -> Any:
    return (1e-6 * torch.sin(x) ** 2).mean()


def aspects(report: Any) -> dict[str, Any]:
    return {aspect.name: aspect for aspect in report.native.aspects}


@pytest.mark.parametrize(("dtype", "most"), [("float32", 30.0), ("bfloat16", 30.0), ("float16", 30.0)])
def test_the_error_is_given_in_ulps_and_beside_what_the_format_delivers(dtype: str, most: float) -> None:
    report = library.check(spread, POINT, framework="torch", dtype=dtype)
    found = report.native.exactness
    assert 0 < found.median_ulps < most
    assert found.median_ulps <= found.largest_ulps
    assert 0 < found.share < 1
    assert 0 < found.ratio <= found.largest_ratio < 6
    assert f"times the error of the same formula in {dtype}" in " ".join(str(report).split())


def test_a_gradient_in_float64_has_no_such_line() -> None:
    assert not library.check(spread, POINT, framework="torch").native.exactness


def test_less_exact_is_not_wrong() -> None:
    x = {"x": np.array([0.3, -0.5, 1.2])}
    inexact = library.check(Cancels, x, framework="torch", dtype="float32")
    wrong = library.check(Doubled, x, framework="torch", dtype="float32")
    (said,) = [finding for finding in inexact.points[0].findings if finding.kind == "inaccurate"]
    assert (inexact.verdict, inexact.exit_status, inexact.points[0].entries.wrong) == ("pass", 0, 0)
    assert "right, but less exact than the same formula in float32: " in said.message
    assert inexact.native.exactness.ratio > 1e4
    assert inexact.sentence().startswith("torch's gradient is right, ")
    assert re.search(
        r" times less exact than the plain formula in float32 \(worst entry [^ ]+ % off\)$", inexact.sentence()
    )
    assert (wrong.verdict, wrong.points[0].diagnosis.kind) == ("fail", "factor")
    assert any("not just inexact" in finding.message for finding in wrong.points[0].findings)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision(dtype: str) -> None:
    report = library.check(spread, POINT, framework="torch", autocast=dtype)
    assert (report.native.dtype, report.verdict) == (dtype, "pass")
    assert ("GradScaler" in aspects(report)) == (dtype == "float16")


def test_a_grad_scaler_saves_what_underflows() -> None:
    report = library.check(tiny, {"x": np.linspace(0.5, 1, 50)}, framework="torch", dtype="float16")
    assert report.points[0].diagnosis.kind == "too-inexact"
    assert report.native.exactness.vanished == 50
    assert aspects(report)["GradScaler"].status == "agrees"
    assert "no entry underflows" in aspects(report)["GradScaler"].message


def test_mixed_precision_is_for_torch(gradcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text("def f(x):\n    return x**2\n")
    done = gradcli("check", "plain.py:f", "--at", "x=2", "--autocast", "bfloat16")
    assert (done.exit_status, "--autocast is for functions written in a framework" in done.stderr) == (2, True)
    (tmp_path / "in_torch.py").write_text("import torch\n\ndef f(x):\n    return torch.tanh(x).sum()\n")
    done = gradcli("check", "in_torch.py:f", "--at", "x=2", "--autocast", "half")
    assert (done.exit_status, "--autocast does not know 'half'" in done.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--autocast=bfloat16", "--dtype=float32"])
def test_expressions_have_no_format_of_a_framework(option: str, gradcli: Any) -> None:
    done = gradcli("check", "sin(x)", "--at", "x=1", *option.split("="))
    assert (done.exit_status, "is for functions written in a framework" in done.stderr) == (2, True), done.stderr


def test_what_a_gradient_costs_is_reported() -> None:
    cost = library.check(spread, POINT, framework="torch", modes="all").native.cost
    assert cost.forward_seconds > 0 and cost.backward_seconds > 0
    assert cost.saved_bytes == 2 * 8  # x @ w, which the sine needs; the inputs are there anyway


def test_a_first_run_that_compiles_is_not_the_time_of_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradcli.frameworks.framework import Measured
    from gradcli.frameworks.torch import adapter

    runs = iter([Measured(30.0, 0.1, 8, None), Measured(0.2, 0.1, 8, None), Measured(0.3, 0.1, 8, None)])
    monkeypatch.setattr(adapter, "_once", lambda *_: next(runs))
    assert adapter.measure_cost(lambda leaves: leaves[0], [torch.ones(1)], torch.ones(1)).forward == 0.2
    assert next(runs).forward == 0.3  # a run that takes long is measured twice


def test_deterministic_algorithms_are_switched_back_off() -> None:
    from gradcli.errors import NotSupported
    from gradcli.frameworks.torch.adapter import FRAMEWORK

    def writes(xs: Any) -> Any:
        return xs[0].clone().put_(torch.tensor([0, 1]), torch.ones(2, dtype=xs[0].dtype)).sum()

    x, w = torch.ones(3, dtype=torch.float64), np.float64(1.0)
    (gradient,) = FRAMEWORK.settled(lambda xs: torch.sin(xs[0]).sum(), [x], w, 0)
    assert np.allclose(gradient, np.cos(1.0))
    with pytest.raises(NotSupported, match="put_ does not have a deterministic implementation"):
        FRAMEWORK.settled(writes, [x], w, 0)
    assert not torch.are_deterministic_algorithms_enabled()


def jittering() -> Any:
    """Return the sine with a backward pass that differs from run to run."""

    class Jitters(torch.autograd.Function):  # type: ignore[misc]
        runs = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            Jitters.runs += 1
            return ybar * torch.cos(ctx.saved_tensors[0]) * (1 + 2.3e-16 * (Jitters.runs % 5))

    return Jitters


def test_a_run_that_differs_is_measured_and_tried_deterministically() -> None:
    report = library.check(jittering(), {"x": np.array([0.3, 0.4])}, framework="torch")
    found = aspects(report)
    assert found["second run"].status == "differs"
    assert 0 < found["second run"].difference < 1e-15
    assert found["deterministic algorithms"].message == "still not deterministic"
    assert report.verdict == "pass"


def test_what_has_no_deterministic_algorithm_is_named_and_the_check_goes_on() -> None:
    jitters = jittering()

    def writes(x: Any) -> Any:
        zeros = torch.zeros(2, dtype=x.dtype).put_(torch.tensor([0]), torch.ones(1, dtype=x.dtype))
        return (jitters.apply(x) * (1 + zeros)).sum()

    report = library.check(writes, {"x": np.array([0.3, 0.4])}, framework="torch")
    found = aspects(report)["deterministic algorithms"]
    assert (found.status, "put_ does not have a deterministic implementation" in found.message) == ("unavailable", True)


def test_a_backward_that_fails_on_a_scaled_cotangent_is_told() -> None:
    class Limited(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            if float(ybar.abs().max()) > 100:
                raise ValueError("too large")
            return ybar * torch.cos(ctx.saved_tensors[0])

    report = library.check(Limited, {"x": np.array([0.3, 0.4])}, framework="torch", dtype="float16")
    scaler = aspects(report)["GradScaler"]
    assert (scaler.status, "too large" in scaler.message) == ("wrong", True)


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("dtype", ["float64", "float32", "tf32", "bfloat16", "float16"])
def test_on_a_gpu(dtype: str) -> None:
    report = library.check(spread, POINT, framework="torch", dtype=dtype, device="cuda")
    assert report.verdict == "pass", str(report)
    assert report.native.cost.peak_bytes > 0
    assert aspects(report)["deterministic algorithms"].status in ("agrees", "unavailable")


@pytest.mark.gpu
@CUDA
def test_an_expression_on_a_gpu() -> None:
    report = library.check("sum(tanh(W@x))", {"W": np.ones((3, 4)), "x": np.linspace(0, 1, 4)}, device="cuda")
    found = report.points[0].modes["torch"]
    assert (report.verdict, found.verdict, found.ran_on.device) == ("pass", "agree", "cuda:0")


@pytest.mark.gpu
@CUDA
def test_atomics_on_a_gpu() -> None:
    index = torch.zeros(100_000, dtype=torch.long, device="cuda")
    base = torch.linspace(0, 1, 100_000, device="cuda", dtype=torch.float32)

    def scattered(x: Any) -> Any:
        return torch.zeros(2, device="cuda", dtype=x.dtype).index_add(0, index, base.to(x.dtype) * x[index]).sin().sum()

    report = library.check(scattered, {"x": np.array([1e-3, 2.0])}, framework="torch", dtype="float32", device="cuda")
    assert "second run" in aspects(report)
    assert "deterministic algorithms" in aspects(report)


@pytest.mark.parametrize("size", [8, 64])
def test_a_limit_is_stated_only_where_it_holds_for_every_entry(size: int) -> None:
    def f(x: Any) -> Any:
        return (torch.nn.functional.layer_norm(x, (size,)) ** 3).sum()

    x = {"x": np.random.default_rng(3).standard_normal((2, size))}
    report = library.check(f, x, framework="torch", dtype="bfloat16")
    assert report.verdict == "pass"
    held = worst_error(report.points[0]) <= report.detects.relative
    assert ("right to better than" in report.sentence()) == held
    assert ("worst entry" in report.sentence()) != held
