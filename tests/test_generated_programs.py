"""A sample of the random programs of `benchmarks/trust`, each with a mistake: the search for its cause has an end."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gradcli.checks.build import build_request
from gradcli.checks.causes import with_causes
from gradcli.checks.check import verify
from gradcli.checks.wrong import MOST, CauseBudget
from gradcli.derivation.right_answer import right_answer
from gradcli.repair.full_check import full_check
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.target_request import TargetRequest
from gradcli.words import Verdict

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "trust"
LIMIT = 30.0  # seconds of processor time: a program without an end fails, and does not stall the tests


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in [name for name in sys.modules if name.startswith("program_")]:
        del sys.modules[name]


def asked_for(seed: int, folder: Path, claim: str = "wrong") -> TargetRequest:
    """Return the request to check a random program."""
    from generated_programs import program

    made = program(seed)
    assert made is not None
    path = folder / f"program_{seed}.py"
    path.write_text(made.text)
    return TargetRequest(f"{path}:loss", (made.point,), Options(modes="reverse,fd,certified", grad=f"{path}:{claim}"))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 30, 6))
def test_the_cause_of_a_failure_is_looked_for_within_its_budget(first: int, tmp_path: Path) -> None:
    failed = 0
    for seed in range(first, first + 6):
        start = time.process_time()
        asked = build_request(asked_for(seed, tmp_path))
        verified = verify(asked)
        budget = CauseBudget(verified.calls)
        report = with_causes(verified, budget)
        point = report.points[0]
        right_answer(Point(dict(point.at)), ("x",), "numpy", asked)
        failed += report.verdict == Verdict.FAIL
        assert (point.diagnosis is not None) == (report.verdict == Verdict.FAIL)
        assert 0 <= budget.calls <= verified.calls <= MOST
        assert time.process_time() - start < LIMIT
    assert failed >= 3


@pytest.mark.parametrize("seed", [2, 3])
def test_the_right_gradient_of_a_random_program_passes(seed: int, tmp_path: Path) -> None:
    assert verify(build_request(asked_for(seed, tmp_path, "right"))).report.verdict == Verdict.PASS


@pytest.mark.slow
@pytest.mark.repairs
@pytest.mark.parametrize("seed", [0, 5])
def test_a_random_program_is_repaired_or_left_within_the_budget(seed: int, tmp_path: Path) -> None:
    ask = asked_for(seed, tmp_path)
    point = full_check(build_request(ask), ask, right_answer).points[0]
    assert point.verdict == Verdict.PASS or point.diagnosis is not None
    assert all(np.isfinite(entry.reference) for entry in point.mismatches)
