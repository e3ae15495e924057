"""Right programs that several ranks run pass, and planted mistakes are caught and named."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.report.check import CheckReport
from gradcli.words import DiagnosisKind, Verdict
from tests.rows import for_rows

for name in ("torch.distributed.fsdp", "torch.nn.parallel.distributed", "torch._dynamo"):
    pytest.importorskip(name)  # loaded here, once, and not by the ranks of each check
PROGRAMS = Path(__file__).with_name("programs.py")
pytestmark = pytest.mark.slow


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) * len(shape)).normal(size=shape)


# What each program gets, how ranks share it, and what its loss is.
# fmt: off
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "column":          ({"x": draw(2, 2), "W": draw(2, 4)}, {"shard": "W: 1"}),
    "column_gathered": ({"x": draw(2, 2), "W": draw(2, 4)}, {"shard": "W: 1"}),
    "column_bias":     ({"x": draw(2, 2), "W": draw(2, 4), "b": np.zeros(4)}, {"shard": "W: 1, b: 0"}),
    "column_module":   ({"x": draw(2, 3)}, {"shard": "linear: 0"}),
    "row":             ({"x": draw(2, 4), "W": draw(4, 2), "b": draw(2)}, {"shard": "x: 1, W: 0"}),
    "both":            ({"x": draw(1, 2), "A": draw(2, 6), "B": draw(6, 1)}, {"shard": "A: 1, B: 0"}),
    "vocabulary":      ({"h": draw(3, 2), "W": draw(2, 4), "labels": np.array([0, 3, 2])}, {"shard": "W: 1"}),
    "embedding":       ({"E": draw(4, 2), "tokens": np.array([0, 3, 3])}, {"shard": "E: 0"}),
    "layer_norm":      ({"x": draw(2, 3), "w": draw(3), "b": draw(3) + 0.5}, {"shard": "x: 0"}),
    "sequence":        ({"x": draw(4, 2), "W": draw(2, 2)}, {"shard": "x: 0, W: 1"}),
    "ring":            ({"q": draw(2, 2), "k": draw(4, 2) / 2, "v": draw(4, 2) + 1}, {"shard": "q: 0, k: 0, v: 0"}),
    "experts":         ({"x": draw(4, 2), "W": draw(4, 1)}, {"shard": "x: 0, W: 0"}),
    "sharded":         ({"x": draw(4, 2), "W": draw(2, 2)}, {"shard": "x: 0, W: 0", "loss": "sum"}),
    "data_parallel":   ({"x": draw(4, 2), "W": draw(2, 2)}, {"shard": "x: 0", "loss": "mean"}),
    "ddp":             ({"x": draw(4, 3)}, {"shard": "x: 0", "loss": "mean"}),
    "not_ddp":         ({"x": draw(4, 3)}, {"shard": "x: 0", "loss": "mean"}),
    "fsdp":            ({"x": draw(4, 3)}, {"shard": "x: 0", "loss": "mean"}),
    "dtensor":         ({"x": draw(2, 2), "W": draw(2, 2)}, {"shard": "W: 1"}),
}
THREE = {"ring": {"q": draw(3, 1), "k": draw(3, 1), "v": draw(3, 1) + 1}, "column": {"W": draw(2, 3)}}
RIGHT = [
    ("column()", 2), ("column()", 3), ("column_gathered()", 2), ("column_bias()", 2), ("column_module()", 2), ("row()", 2),
    ("both()", 2), ("both()", 3), ("vocabulary()", 2), ("embedding()", 2), ("layer_norm()", 2), ("sequence()", 2), ("ring()", 2), ("ring()", 3),
    ("experts()", 2), ("sharded()", 2), ("data_parallel()", 2), ("ddp()", 2), ("fsdp()", 2), ("dtensor()", 2),
]
NOT_REDUCED, TWICE, AVERAGED, DISAGREE = (
    DiagnosisKind.NOT_REDUCED, DiagnosisKind.REDUCED_TWICE, DiagnosisKind.AVERAGED, DiagnosisKind.RANKS_DISAGREE,
)
SWAPPED = DiagnosisKind.SWAPPED
WRONG: list[tuple[str, DiagnosisKind | None]] = [  # the program with its mistake, and its name; None where it may have any
    ("column('not summed')", NOT_REDUCED),
    ("column('averaged')", AVERAGED),
    ("column('on rank 0 alone')", DISAGREE),
    ("column('summed twice')", TWICE),
    ("column('zero')", DiagnosisKind.DETACHED),
    ("column('negated')", DiagnosisKind.SIGN),
    ("column('of the next rank')", NOT_REDUCED),
    ("column('summed again')", TWICE),
    ("column('divided')", AVERAGED),
    ("column_gathered('rank 0\\'s')", SWAPPED),
    ("column_gathered('the next one\\'s')", SWAPPED),
    ("column_gathered('scatter')", TWICE),
    ("column_gathered('divided')", AVERAGED),
    ("column_bias('summed')", TWICE),
    ("row('summed again')", TWICE),
    ("row('divided')", AVERAGED),
    ("row('kept by rank 0')", None),
    ("row('bias on each rank')", None),
    ("both('not summed')", NOT_REDUCED),
    ("both('averaged')", AVERAGED),
    ("both('summed again', 'g')", TWICE),
    ("vocabulary('local sum')", None),
    ("vocabulary('mask forgotten')", None),
    ("vocabulary('labels forgotten')", None),
    ("vocabulary('mean forgotten')", DiagnosisKind.FACTOR),
    ("vocabulary('not summed')", NOT_REDUCED),
    ("embedding('summed again')", TWICE),
    ("embedding('divided')", AVERAGED),
    ("layer_norm('not summed')", NOT_REDUCED),
    ("layer_norm('averaged')", AVERAGED),
    ("layer_norm('summed twice')", TWICE),
    ("sequence('split')", NOT_REDUCED),
    ("sequence('rank 0\\'s')", SWAPPED),
    ("sequence('divided')", AVERAGED),
    ("ring('delta forgotten')", None),
    ("ring('one block short')", None),
    ("ring('one turn short')", SWAPPED),
    ("ring('queries averaged')", AVERAGED),
    ("experts('not sent back')", None),
    ("sharded('split')", NOT_REDUCED),
    ("sharded('the next one\\'s')", SWAPPED),
    ("sharded('divided')", AVERAGED),
    ("data_parallel('summed')", TWICE),
    ("data_parallel('not summed')", NOT_REDUCED),
    ("not_ddp()", NOT_REDUCED),
    ("ddp('clipped on rank 0')", None),
    ("ddp('frozen')", DiagnosisKind.DETACHED),
    ("fsdp('summed')", TWICE),
    ("fsdp('divided again')", AVERAGED),
    ("dtensor('local')", NOT_REDUCED),
]
# fmt: on


def checked(call: str, ranks: int = 2, **more: Any) -> CheckReport:
    name = call.partition("(")[0]
    at, options = WAYS[name]
    at = at | (THREE.get(name, {}) if ranks == 3 else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gradcli.check(f"{PROGRAMS}:{call}", at, ranks=ranks, **{**options, **more})


@for_rows(("call", "ranks"), RIGHT, parts=2)
def test_a_right_program_passes(call: str, ranks: int) -> None:
    report = checked(call, ranks)
    assert report.verdict == Verdict.PASS, report
    assert not any(part.verdict == Verdict.FAIL for part in report.parts()), report


@for_rows(("call", "kind"), WRONG, parts=5)
def test_a_mistake_is_caught_and_named(call: str, kind: DiagnosisKind | None) -> None:
    report = checked(call)
    assert report.verdict == Verdict.FAIL, report
    diagnosis = report.points[0].diagnosis
    assert diagnosis is not None
    assert kind is None or diagnosis.kind == kind, diagnosis
