"""`gradcli.testing`: what an assertion returns, and what it says when a gradient is not confirmed."""

import importlib
import pickle
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli import NotConfirmed
from gradcli.errors import BadExpression, BadPoint
from gradcli.testing import assert_gradient
from tests.rows import for_rows

X = np.array([1.0, 2.0])
QUICK = "reverse,fd"


def cube(x: Any) -> Any:
    return np.sum(x**3)


def test_the_report_is_returned() -> None:
    report = assert_gradient(cube, X, grad=lambda x: 3 * x**2, modes=QUICK, seed=5)
    assert (report.passed, report.seed, report.command) == (True, 5, ())


def test_a_wrong_gradient_is_said_in_full() -> None:
    with pytest.raises(NotConfirmed) as caught:
        assert_gradient(cube, X, grad=lambda x: -3 * x**2, modes=QUICK)
    message = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert message.startswith("FAIL  cube: the claimed gradient is wrong in 2 of 2 entries\n")
    for part in ("entry  claimed", "mode ", "Likely mistake: the sign is flipped"):
        assert part in message
    assert caught.value.report.verdict == "fail"


def test_what_is_inconclusive_is_said_so_and_what_is_allowed_passes() -> None:
    with pytest.raises(NotConfirmed, match=r"^INCONCLUSIVE  floor\(x\): "):
        assert_gradient("floor(x)", "x=2", grad="x=0")
    assert assert_gradient("floor(x)", "x=2", grad="x=0", allow="staircase,jump,kink").verdict == "inconclusive"


# fmt: off
COMMANDS = [
    (("x**2", "x=1"),                   {"grad": "x=x"},                 ["x**2", "--at", "x=1", "--grad", "x=x"]),
    (("x**2", ["x=1", "x=3"]),          {"grad": "x=x"},                 ["x**2", "--at", "x=1", "--at", "x=3", "--grad", "x=x"]),
    (("x**2",),                         {"grad": "x=x", "allow": "kink"}, ["x**2", "--grad", "x=x", "--allow", "kink"]),
    (("x**2", {"x": 1.0}),              {"grad": "x=x"},                 None),
    (("x**2", "x=1"),                   {"grad": lambda x: x},           None),
    ((lambda x: x**2, 1.0),             {"grad": lambda x: x},           None),
]
# fmt: on


@for_rows(("args", "options", "words"), COMMANDS)
def test_the_command_that_repeats_it_is_given_where_all_is_text(args: Any, options: Any, words: Any) -> None:
    with pytest.raises(NotConfirmed) as caught:
        assert_gradient(*args, **options, modes=QUICK, seed=2)
    whole = () if words is None else ("gradcli", "check", *words, "--modes", QUICK, "--seed", "2")
    command = list(caught.value.report.command)
    assert sorted(command) == sorted(whole)
    assert ("Again:" in str(caught.value)) is bool(words)


def test_the_command_gives_the_same_report(gradcli: Any) -> None:
    with pytest.raises(NotConfirmed) as caught:
        assert_gradient("x*y", grad="x=y, y=2*x", modes=QUICK, seed=3)
    ran = gradcli(*caught.value.report.command[1:])
    assert ran.exit_status == 1
    assert ran.stdout.rstrip() == str(caught.value)


@pytest.mark.parametrize("at", ["x=randn(3)", None])
def test_a_random_seed_is_drawn_once_and_is_in_the_command(gradcli: Any, at: str | None) -> None:
    report = assert_gradient("sum(x**3)", at, modes=QUICK, seed="random")
    assert report.command[-2:] == ("--seed", str(report.seed))
    drawn = gradcli(*report.command[1:], "--json").json["points"][0]["at"]["x"]
    assert np.array_equal(drawn, report.points[0].at["x"])


def test_an_error_says_what_to_do_without_gradclis_own_lines() -> None:
    with pytest.raises(BadExpression) as caught:
        assert_gradient("sine(x)", "x=1")
    assert caught.value.__notes__ == ["did you mean 'sin'?"]
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2  # this line, and the one of assert_gradient


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'mode'"):
        assert_gradient("x**2", "x=1", mode=QUICK)


def test_numpys_warnings_are_findings() -> None:
    with pytest.raises(NotConfirmed, match=r"INCONCLUSIVE.*log gives nan"):
        assert_gradient(lambda x: np.log(x), -1.0, grad=lambda x: 1 / x, modes=QUICK)


def test_the_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(NotConfirmed("FAIL", "the report")))
    assert (str(error), error.report) == ("FAIL", "the report")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0.5, 5), min_size=1, max_size=4))
def test_it_runs_under_hypothesis(values: list[float]) -> None:
    first = assert_gradient(cube, np.array(values), grad=lambda x: 3 * x**2, modes=QUICK)
    again = assert_gradient(cube, np.array(values), grad=lambda x: 3 * x**2, modes=QUICK)
    assert str(first) == str(again)


def test_its_frames_are_hidden() -> None:
    assert "__tracebackhide__" in assert_gradient.__code__.co_varnames


REPAIRED = """
import numpy as np


def cube(x):
    return np.sum(x**3)


def cube_grad(x):
    return 2 * x**2
"""


@pytest.mark.slow
@pytest.mark.repairs
def test_the_repair_is_shown_for_texts_and_for_functions_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repaired.py").write_text(REPAIRED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("repaired")
    for f, at, claim in (
        ("repaired.py:cube", "x=[1, 2]", "cube_grad"),
        (module.cube, {"x": np.array([1.0, 2.0])}, module.cube_grad),
    ):
        with pytest.raises(NotConfirmed) as caught:
            assert_gradient(f, at, grad=claim)
        assert "+ return 3 * x**2" in str(caught.value)


def test_hints_are_in_python() -> None:
    with pytest.raises(BadPoint) as caught:
        assert_gradient("x*y", "x=1, y=2", grad="x=y", wrt="z")
    assert "--" not in f"{caught.value.what} {caught.value.do}"


CHECKS_ITSELF = """
import numpy as np
from gradcli import check

with open({log!r}, "a") as log:
    log.write("loaded ")


def f(x):
    return np.sum(x**3)


def g(x):
    return 2 * x**2


report = check("checks_itself.py:f", {{"x": np.array([1.0, 2.0])}}, grad="g")
"""


@pytest.mark.slow
@pytest.mark.repairs
def test_a_module_that_checks_when_it_is_loaded_is_loaded_for_its_repair_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    (tmp_path / "checks_itself.py").write_text(CHECKS_ITSELF.format(log=str(log)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("checks_itself")
    assert module.report.verdict == "fail" and log.read_text().split() == ["loaded"] * 2
