"""The examples in docstrings are run, and give what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import gradcli

FOLDER = Path(gradcli.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)
