"""Gradients that child processes use: their calls are counted and checked with those of the parent."""

import json
from pathlib import Path

import pytest

from tests.conftest import process
from tests.project.capture.test_program import anew

PROGRAM = """
import multiprocessing as mp
import numpy as np
from scipy.optimize import minimize


def fit(scale):
    {begin}
    found = minimize(lambda x: scale * np.sum(x**4), [1.0, 2.0], jac=lambda x: {factor} * scale * x**3)
    {end}
    return found.nfev


def grad(x):
    return {factor} * x**3


def named(n):
    return minimize(lambda x: np.sum(x**4), [1.0, 2.0], jac=grad).nfev


if __name__ == "__main__":
    {main}
"""
POOL = "with mp.get_context('{method}').Pool(2) as pool: print(sum(pool.map({work}, [1.0, 2.0, 3.0])) > 0)"
PROCESS = "p = mp.get_context('{method}').Process(target=fit, args=(2.0,)); p.start(); p.join(); print(p.exitcode)"


def report(folder: Path, main: str, factor: int = 4, begin: str = "", end: str = "") -> tuple[dict, str]:
    text = PROGRAM.format(main=main, factor=factor, begin=begin or "pass", end=end or "pass")
    (folder / "script.py").write_text(text)
    words = ("run", "--out", "report.json", "script.py")
    done = anew(folder, "-m", "gradcli", *words) if "spawn" in main or "server" in main else process(*words, cwd=folder)
    return json.loads((folder / "report.json").read_text()), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("method", "factor"), [("fork", 4), ("fork", 5), ("spawn", 5), ("forkserver", 5)])
def test_a_closure_in_a_child_is_checked(method: str, factor: int, tmp_path: Path) -> None:
    document, stdout = report(tmp_path, PROCESS.format(method=method), factor)
    assert stdout == "0\n"
    (gradient,) = document["gradients"]
    assert gradient["name"] == "fit.<lambda>"
    assert gradient["calls"] >= gradient["checked"] >= 1
    assert gradient["verdict"] == ("pass" if factor == 4 else "fail")
    assert all(point["process"] for point in gradient["points"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_is_watched(method: str, tmp_path: Path) -> None:
    document, stdout = report(tmp_path, POOL.format(method=method, work="named"))
    assert stdout == "True\n"
    (gradient,) = document["gradients"]
    assert (gradient["name"], gradient["verdict"]) == ("grad", "pass")


@pytest.mark.slow
def test_the_calls_of_parent_and_child_are_one_gradient(tmp_path: Path) -> None:
    alone, _ = report(tmp_path, "fit(2.0)")
    document, _ = report(tmp_path, f"fit(2.0); {PROCESS.format(method='fork')}")
    (gradient,) = document["gradients"]
    assert gradient["calls"] == 2 * alone["gradients"][0]["calls"]


@pytest.mark.slow
def test_a_child_that_is_killed_leaves_what_it_wrote(tmp_path: Path) -> None:
    kill = "import os; os.kill(os.getpid(), 9)"
    document, stdout = report(tmp_path, PROCESS.format(method="fork"), end=kill)
    assert stdout == "-9\n"
    (gradient,) = document["gradients"]
    assert gradient["verdict"] == "pass"
    assert any("before it wrote its last counts" in note for note in gradient["notes"])


def test_values_that_cannot_be_carried_are_counted(tmp_path: Path) -> None:
    hold = "global grad; lock = __import__('threading').Lock(); plain = grad; fit.lock = lock"
    main = PROCESS.format(method="fork")
    text = PROGRAM.replace("jac=lambda x: {factor} * scale * x**3", "jac=lambda x, lock=lock: {factor} * scale * x**3")
    (tmp_path / "script.py").write_text(text.format(main=main, factor=4, begin=hold, end="pass"))
    process("run", "--out", "report.json", "script.py", cwd=tmp_path)
    (gradient,) = json.loads((tmp_path / "report.json").read_text())["gradients"]
    assert gradient["calls"] > 3
    assert gradient["verdict"] == "inconclusive"
    assert any("cannot be carried" in note for note in gradient["notes"])


@pytest.mark.slow
def test_a_child_of_a_child_is_watched(tmp_path: Path) -> None:
    start = "p = mp.get_context('spawn').Process(target={target}, args=({value},)); p.start(); p.join()"
    begin = start.format(target="named", value=1)
    document, _ = report(tmp_path, start.format(target="fit", value=2.0), begin=begin)
    assert {gradient["name"]: gradient["verdict"] for gradient in document["gradients"]} == {
        "fit.<lambda>": "pass", "grad": "pass",
    }  # fmt: skip
