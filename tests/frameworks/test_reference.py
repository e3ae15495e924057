"""Kernels beside their references: no right one is flagged, and each kind of slip is caught, in the row that shows it."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli

pytest.importorskip("torch", reason="torch is not installed")

KERNELS = importlib.import_module("tests.frameworks.corpus.kernels").KERNELS
SLOW = {"capped_attention"}  # its less exact version
ROWS = {  # what shows a slip, by what it needs
    "value": "value",
    "repeat": "",
    "nan": "outputs prefilled with nan",
    "strided": "non-contiguous inputs",
    "in place": "inputs",
    "batch 1": "a batch of 1",
    "batch 2": "a batch of 2",
    "odd": "an odd length",
}


def one_of_each(k: int) -> tuple[str, str]:
    """Return a slip of kernel k and what it needs; over all kernels, every need comes up."""
    slips = [(said, need) for said, need in KERNELS[k].needs.items() if need in (*ROWS, "point")]
    return slips[-1 - k % 2]


def checked(function: Any, kernel: Any, **options: Any) -> Any:
    given = {"framework": "torch", "dtype": "bfloat16", **options}
    return gradcli.check(function, dict(kernel.inputs), reference=kernel.reference, **given)


def wrong(report: Any) -> list[str]:
    return [row.name for row in report.comparison.rows if row.status == "wrong"]


@pytest.mark.parametrize("k", range(len(KERNELS)), ids=[kernel.name for kernel in KERNELS])
def test_a_right_kernel_passes_and_a_slip_is_caught(k: int) -> None:
    kernel = KERNELS[k]
    report = checked(kernel.right, kernel)
    assert (report.exit_status, wrong(report)) == (0, []), str(report)
    assert report.native.exactness.ratio < 4
    said, need = one_of_each(k)
    report = checked(kernel.slips[said], kernel)
    assert report.exit_status == 1, f"{said}: {report}"
    assert need == "point" or any(ROWS[need] in name for name in wrong(report)), f"{said}: {report}"


def test_every_need_comes_up() -> None:
    assert {one_of_each(k)[1] for k in range(len(KERNELS))} >= {*ROWS}


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.name not in SLOW][::4], ids=lambda kernel: kernel.name)
def test_a_less_exact_kernel_is_right(kernel: Any) -> None:
    report = checked(kernel.less_exact, kernel)
    assert (report.exit_status, wrong(report)) == (0, []), str(report)
    assert report.native.exactness.ratio > checked(kernel.right, kernel).native.exactness.ratio


@pytest.mark.parametrize(
    ("name", "version", "dtype"),
    [("cumsum", "right", "float64"), ("softmax", "less_exact", "float64"), ("rope", "less_exact", "float16")],
)
def test_other_formats(name: str, version: str, dtype: str) -> None:
    (kernel,) = [kernel for kernel in KERNELS if kernel.name == name]
    report = checked(getattr(kernel, version), kernel, dtype=dtype)
    assert (report.exit_status, wrong(report)) == (0, []), str(report)


CODE = """
import numpy as np
import torch

def plain(x): return torch.sin(x).sum()
def same(x): return torch.sin(x).sum()
def scaled(x): return 1.01 * torch.sin(x).sum()
def rows(x): return torch.sin(x)
def refuses(x):
    if x.shape[0] == 1: raise ValueError("batches of 1 are not supported")
    return torch.sin(x)
def at_one(x): return torch.sin(x) if x.shape[0] != 1 else torch.cos(x)
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)
    @staticmethod
    def backward(ctx, ybar): return 2 * ybar * torch.cos(ctx.saved_tensors[0])
def wrong(x): return Wrong.apply(x)
"""


@pytest.fixture(name="ran")
def _ran(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    path = tmp_path / "kernels.py"
    path.write_text(CODE)

    def ran(target: str, reference: str, *more: str) -> Any:
        given = f"{path}:{reference}" if ":" not in reference else reference
        return gradcli("check", f"{path}:{target}", "--reference", given, "x=randn(4,3)", *more)

    return ran


# fmt: off
RUNS = [
    ("same",   "plain", (),                        0, "value and gradient are those of"),
    ("scaled", "plain", (),                        1, "value: the value is off by 1e-02"),
    ("at_one", "rows",  (),                        1, "a batch of 1: the value is off by"),
    ("refuses", "rows", (),                        0, "unavailable: "),
    ("wrong",  "rows",  ("--dtype", "float32"),    1, "torch's gradient is wrong in 12 of 12 entries"),
    ("rows",   "plain", (),                        2, "returns shape (4, 3), and its reference"),
    ("same",   "nosuch", (),                       2, "has no function 'nosuch'"),
    ("same",   "nosuch.py:f", (),                  2, "there is no file nosuch.py"),
]
# fmt: on


@pytest.mark.parametrize(("target", "reference", "more", "status", "said"), RUNS)
def test_the_command(
    ran: Callable[..., Any], target: str, reference: str, more: tuple[str, ...], status: int, said: str
) -> None:
    done = ran(target, reference, *more)
    assert done.exit_status == status, done.stdout + done.stderr
    assert said in " ".join((done.stdout + done.stderr).split())


def test_the_document_has_the_rows(ran: Callable[..., Any]) -> None:
    document = ran("at_one", "rows", "--json").json
    rows = {row["name"]: row["status"] for row in document["comparison"]["rows"]}
    assert document["comparison"]["reference"].endswith("kernels.py:rows")
    assert document["target"]["text"].endswith("kernels.py:at_one")
    assert (rows["a batch of 1"], rows["a batch of 2"], rows["no rows"]) == ("wrong", "agrees", "agrees")
    assert [f["kind"] for f in document["points"][0]["findings"] if f["severity"] == "error"] == ["unlike-reference"]


def test_a_reference_with_a_wrong_backward_pass_is_named(ran: Callable[..., Any]) -> None:
    document = ran("rows", "wrong", "--json").json
    (row,) = [row for row in document["comparison"]["rows"] if row["name"] == "the reference's own backward pass"]
    assert (document["verdict"], row["status"]) == ("pass", "differs")
    assert row["message"].endswith("compared is the derivative of its values")


def test_jax_compares_what_it_can() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    twice = jax.custom_vjp(lambda x: jax.numpy.sin(x))
    twice.defvjp(lambda x: (1.5 * jax.numpy.sin(x), x), lambda x, ybar: (ybar * jax.numpy.cos(x),))
    point = {"x": np.linspace(0.1, 1, 6)}
    report = gradcli.check(twice, point, reference=jax.numpy.sin, framework="jax", dtype="float32")
    assert report.exit_status == 1
    assert "value and gradient" in wrong(report) and "value" not in wrong(report)
