"""Numerical libraries run on one thread, or on as many as `--threads` names, in every process of the program."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.process import start
from tests.cli.reading import line_of
from tests.rows import for_rows
from tests.targets.test_loading import written

X = "x=[0.5, 2]"
TELLS = """
import os, sys
print("THREADS", *(os.environ[name] for name in (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"
)), file=sys.stderr)
def f(x): return np.sum(x**2)
"""
COMMANDS = ("check", "compare-modes", "sweep", "trace", "grad", "derive")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in start._VARIABLES:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(start, "_SET", [])


def test_the_variables_are_set() -> None:
    assert start.thread_count() is None
    start.set_threads(3)
    assert start.thread_count() == 3
    assert {os.environ[name] for name in start._VARIABLES} == {"3"}


@for_rows(
    ("words", "number"),
    [((), 1), (("--threads", "3"), 3), (("--threads=4",), 4), (("--threads", "3", "--threads", "2"), 2)],
)
def test_the_number_is_that_of_the_option_or_one(words: tuple, number: int) -> None:
    assert line_of("check", "x**2", *words).options.threads == number


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("words", "number"), [((), 1), (("--threads", "2"), 2)])
def test_every_command_sets_them_before_the_target_is_imported(
    process: Callable[..., Any], tmp_path: Path, command: str, words: tuple, number: int
) -> None:
    ran = process(command, f"{written(tmp_path, TELLS)}:f", X, *words, "--json")
    assert " ".join(["THREADS", *[str(number)] * 5]) in ran.stderr
    assert ran.json["environment"]["threads"] == number


def test_expressions_have_them_too(process: Callable[..., Any]) -> None:
    assert process("grad", "x**2", "x=1", "--threads", "2", "--json").json["environment"]["threads"] == 2


def test_the_python_interface_sets_none_and_says_none(gradcli: Callable[..., Any]) -> None:
    assert "threads" not in json.loads(gradcli("grad", "x**2", "x=1", "--json").stdout)["environment"]


@for_rows("text", ["0", "-1", "many", "1.5", "5000"])
def test_a_number_that_is_none_is_refused(gradcli: Callable[..., Any], text: str) -> None:
    ran = gradcli("check", "x**2", "x=1", f"--threads={text}")
    assert ran.exit_status == 2 and "--threads" in ran.stderr
