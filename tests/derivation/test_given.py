"""A point that is given to `derive`: sizes read from its values, and closed forms evaluated there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.errors import BadOption, NotSupported
from tests.rows import for_rows

# fmt: off
SIZES = [
    # function                --at                                          --shapes           shapes                                     sizes
    ("sum((W@x)**2)",         "W=[[1, 2, 3], [0, 1, 2]], x=[1, 0, 2]",      "",                {"W": ["m", "n"], "x": ["n"]},             {"n": 3, "m": 2}),
    ("sum((W@x)**2)",         "W=[[1, 2], [0, 1]], x=[1, 0]",               "",                {"W": ["n", "n"], "x": ["n"]},             {"n": 2}),
    ("sum((W@x)**2)",         "W=[[1, 2], [0, 1]], x=[1, 0]",               "W: m n; x: n",    {"W": ["m", "n"], "x": ["n"]},             None),
    ("sum((W@x)**2)",         "W=[[1, 2, 3], [0, 1, 2]], x=[1, 0, 2]",      "W: m k",          {"W": ["m", "k"], "x": ["k"]},             None),
    ("sum(x)*n",              "x=[1, 2, 3], n=4",                           "",                {"x": ["m"], "n": []},                     {"m": 3}),
    ("sum(x)/n",              "x=[1, 2, 3]",                                "x: n",            {"x": ["n"]},                              None),
    ("x*y",                   "x=2, y=3",                                   "",                {"x": [], "y": []},                        None),
    ("sum((x + b)**2)",       "x=[1, 2, 3], b=[2]",                         "",                {"x": ["n"], "b": ["1"]},                  {"n": 3}),
    ("sum(X@w)",              "X=ones(3, 1), w=[2]",                        "",                {"X": ["m", "n"], "w": ["n"]},             {"n": 1, "m": 3}),
    ("sum(concatenate([x, y])*z)", "x=[1, 2], y=[3], z=[1, 2, 3]",          "",                {"x": ["2"], "y": ["1"], "z": ["3"]},      None),
]
VALUES = [
    # function                --at                                          by    options                           value
    ("sum((W@x)**2)",         "W=[[1, 2, 3], [0, 1, 2]], x=[1, 0, 2]",      "x",  (),                               [14.0, 36.0, 58.0]),
    ("sum(x)*s",              "x=[1, 2, 3], s=4",                           "s",  (),                               6.0),
    ("x@A@x",                 "x=[1, 2], A=[[1, 2], [3, 4]]",               "x",  ("--order", "2"),                 [[2.0, 5.0], [5.0, 8.0]]),
    ("trace(A@B)",            "A=[[1, 2], [3, 4]], B=[[0, 1], [2, 3]]",     "A",  ("--layout", "numerator"),        [[0.0, 1.0], [2.0, 3.0]]),
    ("x**2",                  "x=[1, 2]",                                   "x",  (),                               [[2.0, 0.0], [0.0, 4.0]]),
    ("mean(x)",               "x=[1, 2, 3, 4]",                             "x",  (),                               [0.25, 0.25, 0.25, 0.25]),
    ("sum(X@w)",              "X=[[1], [2]], w=[3]",                        "w",  (),                               [3.0]),
]
# fmt: on


@for_rows(("f", "at", "shapes", "right", "sizes"), SIZES, parts=2)
def test_sizes_are_read_from_values(
    gradcli: Callable[..., Any], f: str, at: str, shapes: str, right: dict, sizes: dict | None
) -> None:
    ran = gradcli("derive", f, "--at", at, *(("--shapes", shapes) if shapes else ()), "--no-steps", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["shapes"] == right and ran.json.get("sizes") == sizes
    assert all(r["value_error"] < 1e-12 for r in ran.json["results"])


@for_rows(("f", "at", "wrt", "options", "right"), VALUES)
def test_the_value_at_the_point(
    gradcli: Callable[..., Any], f: str, at: str, wrt: str, options: tuple[str, ...], right: Any
) -> None:
    ran = gradcli("derive", f, "--at", at, "--wrt", wrt, *options, "--no-steps", "--json")
    (result,) = ran.json["results"]
    np.testing.assert_allclose(result["value"], right, rtol=1e-14)
    assert result["value_error"] < 1e-12 and ran.exit_status == 0


def test_the_text_says_which_sizes_were_taken(gradcli: Callable[..., Any]) -> None:
    shown = " ".join(
        gradcli("derive", "sum((W@x)**2)", "W=[[1, 2, 3], [0, 1, 2]]", "x=[1, 0, 2]", "--wrt", "x").stdout.split()
    )
    assert "sizes from --at: n = 3, m = 2; give --shapes if equal lengths are not the same size" in shown
    assert "at the point [14, 36, 58]; relative error" in shown and "at W = 2x3 [1, 2, 3, 0, ... 6 entries]" in shown
    without = gradcli("derive", "sum((W@x)**2)", "--shapes", "W: m n; x: n").stdout
    assert "from --at" not in without and "at the point" not in without


def test_what_is_assumed_and_does_not_hold_is_told(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "-sum(y*log(softmax(z)))", "--assume", "y: simplex", "--wrt", "z", "--json", "--at")
    assert gradcli(*argv, "z=[1, 2, 3], y=[0.2, 0.3, 0.5]").exit_status == 0
    ran = gradcli(*argv, "z=[1, 2, 3], y=[0.2, 0.3, 0.6]")
    (finding,) = ran.json["findings"]
    assert (
        ran.exit_status == 3
        and finding["kind"] == "disagreement"
        and "check that the assumptions hold" in finding["hint"]
    )


def test_a_value_where_f_has_none(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "sum(log(x))", "--at", "x=[1, -1]", "--no-steps")
    assert "not compared with a derivative" in " ".join(ran.stdout.split())


def test_a_closed_form_without_a_value_at_the_point_is_shown(gradcli: Callable[..., Any]) -> None:
    document = gradcli("derive", "det(A)", "--at", "A=[[0, 0], [0, 0]]", "--no-steps", "--json").json
    (result,), (found,) = document["results"], document["findings"]
    assert result["formula"]["unicode"] == "∂f/∂A = det(A) A⁻ᵀ" and "value" not in result
    assert found["message"] == "by A: the closed form has no value at the point: 'inv' failed: Singular matrix"


REFUSED = [
    (("sum(x)", "--at", "x=[1, 2]", "--shapes", "x: m n"),          "x has shape (2,), and --shapes says m n"),
    (("sum(x)", "--at", "x=[1, 2]", "--shapes", "x: 3"),            "x has shape (2,), and --shapes says 3"),
    (("sum(x)/n", "--at", "x=[1, 2], n=3", "--shapes", "x: n"),     "n is the size 2 in --shapes, and 3.0 in --at"),
    (("w@append(x, y)", "--at", "w=[1, 2, 3, 4], x=[1, 2], y=[3]", "--shapes", "x: n; y: m; w: n+m"), "the size n + m is 3 by its terms and 4 by w"),
    (("x@y", "--at", "x=[1, 2], y=[1, 2, 3]", "--shapes", "x: n; y: n"), "the size n is 2 by x and 3 by y"),
    (("sum(W@x)", "W=ones(2, 2)", "x=[1, 2]", "--shapes", "W: m n"), "x has a length of 2, as have m and n"),
    (("x**2", "x=1", "x=2"),                                        "derive takes one point, not 2"),
    (("x**2", "y=1"),                                               "'y' is not an input of the expression"),
]  # fmt: skip


@for_rows(("argv", "says"), REFUSED)
def test_points_that_do_not_fit(gradcli: Callable[..., Any], argv: tuple[str, ...], says: str) -> None:
    ran = gradcli("derive", *argv)
    assert (ran.exit_status, ran.stdout) == (2, "") and says in ran.stderr


SOURCE = """
import numpy as np

def loss(w, X, y):
    r = X @ w - y
    return np.sum(r**2) / len(y)

def raised(x, k):
    return np.sum(x**k)

def fixed(x):
    return x @ np.diag([1.0, 2.0, 3.0]) @ x

def boxed(p):
    return np.sum(p["w"] ** 2)

def point():
    return {"p": {"w": np.ones(3)}}
"""


@pytest.fixture
def losses(tmp_path: Path) -> str:
    path = tmp_path / "losses.py"
    path.write_text(SOURCE)
    return str(path)


def test_a_python_function_needs_no_shapes(gradcli: Callable[..., Any], losses: str) -> None:
    ran = gradcli("derive", f"{losses}:loss", "--at", "w=[1, 2], X=randn(4, 2), y=ones(4)", "--wrt", "w", "--json")
    (result,) = ran.json["results"]
    assert result["formula"]["expression"] == "r = X@w - y; 2*(X.T@r)/m" and result["value_error"] < 1e-12


def test_arguments_that_are_no_arrays_of_floats_stay(gradcli: Callable[..., Any], losses: str) -> None:
    ran = gradcli("derive", f"{losses}:raised", "--at", "x=[1, 2], k=int(3)", "--json")
    (result,) = ran.json["results"]
    assert result["formula"]["expression"] == "3*x**2" and result["value"] == [3.0, 12.0]


def test_a_function_of_one_size_is_derived_at_it(gradcli: Callable[..., Any], losses: str) -> None:
    ran = gradcli("derive", f"{losses}:fixed", "--at", "x=[1, 1, 1]", "--json")
    assert "sizes" not in ran.json and ran.json["shapes"] == {"x": ["3"]}
    assert ran.exit_status == 3 or ran.json["results"][0]["value"] == [2.0, 4.0, 6.0]


def test_containers_are_refused(gradcli: Callable[..., Any], losses: str) -> None:
    ran = gradcli("derive", f"{losses}:boxed", "--at", f"{losses}:point")
    assert ran.exit_status == 2 and "is in a container" in ran.stderr


def test_from_python() -> None:
    report = package.derive("sum((W@x)**2)", at={"W": np.ones((2, 3)), "x": np.arange(3.0)}, wrt="x")
    np.testing.assert_allclose(report.results[0].value, [12.0, 12.0, 12.0])
    assert report.sizes == {"n": 3, "m": 2} and report.shapes == {"W": ("m", "n"), "x": ("n",)}
    of_function = package.derive(lambda x, k: np.sum(x**k), at=(np.array([1.0, 2.0]), 3))
    np.testing.assert_allclose(of_function.results[0].value, [3.0, 12.0])
    with pytest.raises(BadOption, match="and --shapes says m n"):
        package.derive("sum(x)", {"x": "m n"}, at={"x": np.ones(3)})
    with pytest.raises(NotSupported, match="in a container"):
        package.derive(lambda p: np.sum(p["w"] ** 2), at={"p": {"w": np.ones(3)}})


@for_rows(("f", "at", "more"), [
    ("abs(x)", "x=0", ""), ("where(x>1, x**2, 0)", "x=1", ""), ("floor(x)*x", "x=2", ""), ("abs(x)", "x=[0, 1]", ""),
    ("where(x>0, x**2, -x**2)", "x=0", "2"), ("relu(x)**2", "x=0", "2"),
])  # fmt: skip
def test_nothing_is_compared_at_a_kink(gradcli: Callable[..., Any], f: str, at: str, more: str) -> None:
    document = gradcli("derive", f, "--at", at, "--order", more or "1", "--no-steps", "--json").json
    (result,) = document["results"]
    assert "value_error" not in result and "kink" in [found["kind"] for found in document["findings"]]


@for_rows(("f", "at", "more"), [
    ("relu(x)**2", "x=0", ""), ("where(x>0, x**2, 0)", "x=0", ""), ("abs(x)", "x=[2, 1]", ""), ("abs(x)**3", "x=1", "2"),
])  # fmt: skip
def test_a_smooth_point_is_no_kink(gradcli: Callable[..., Any], f: str, at: str, more: str) -> None:
    document = gradcli("derive", f, "--at", at, "--order", more or "1", "--no-steps", "--json").json
    (result,) = document["results"]
    assert result["value_error"] < 1e-12 and not document["findings"]
