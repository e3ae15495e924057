"""A sample of each generated class of `benchmarks/trust`: no false alarm, no miss beyond the stated limit, no silent kink."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "trust"
SAMPLE = {"kinks": range(6), "memo": range(12), "symmetry": range(0, 40, 4), "fine": range(8)}


@pytest.fixture(autouse=True)
def importable() -> Iterator[None]:
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_generated_claims_get_the_verdict_that_is_true_of_them(name: str) -> None:
    classes = importlib.import_module("classes")
    answers = classes.answers(name, SAMPLE[name], seed=1)
    assert {answer.truth for answer in answers} >= {"wrong"}
    assert list(classes.listed({name: answers})) == []
