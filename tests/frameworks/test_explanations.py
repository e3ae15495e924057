"""The examples of `gradcli explain` that need a framework show their kinds."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.explain import Explanation, read_explanations
from tests.report.explanation_examples import assert_it_shows

NEEDY = [row for row in read_explanations() if row.example is not None and row.example.needs is not None]


@pytest.mark.parametrize("row", NEEDY, ids=lambda row: f"{row.kind}, {row.group}")
def test_an_example_of_a_framework_shows_its_kind(
    row: Explanation, gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    assert row.example is not None and row.example.needs is not None
    if importlib.util.find_spec(row.example.needs) is None:
        pytest.skip(f"{row.example.needs} is not installed")
    assert_it_shows(row, gradcli, tmp_path)
