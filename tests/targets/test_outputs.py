"""What a function returns: numbers, arrays, tuples and dicts of them; and what has no gradient."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.errors import FunctionFailed
from gradcli.targets.facts import OutputPart
from gradcli.targets.python import flatten_result, output_entry_names
from tests.rows import for_rows
from tests.targets.test_loading import written, xfail

QUICK = ("--modes", "forward,reverse,fd")


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(name="returning")
def _returning(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Check a function of x = [1, 2, 3] that returns an expression."""

    def check(y: str, *more: str) -> Any:
        return gradcli("check", f"{written(tmp_path, f'def f(x): return {y}')}:f", "x=[1, 2, 3]", *QUICK, *more)

    return check


E = np.eye(3).tolist()
Z = [0.0, 0.0, 0.0]
# fmt: off
SCALARS = [
    ("np.sum(x**2)",                        14.0, [2.0, 4.0, 6.0]),
    ("x[0]*2",                              2.0,  [2.0, 0.0, 0.0]),
    ("np.array(x[0]*2)",                    2.0,  [2.0, 0.0, 0.0]),
    ("sum(x)",                              6.0,  [1.0, 1.0, 1.0]),
]
VECTORS = [
    ("x**2", [1.0, 4.0, 9.0], [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]),
    ("x[:1]",                               [1.0],                      [[1.0, 0.0, 0.0]]),
    ("x[None, :2]",                         [[1.0, 2.0]],               [E[:2]]),
    ("[x[0], x[1]**2]",                     [1.0, 4.0],                 [[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]]),
    ("[[x[0]], [x[1]]]",                    [[1.0], [2.0]],             [[E[0]], [E[1]]]),
    ("[x, x]",                              [[1.0, 2.0, 3.0]] * 2,      [E, E]),
    ("(x[0]*2, x)",                         [2.0, 1.0, 2.0, 3.0],       [[2.0, 0.0, 0.0], *E]),
    ("(x[2],)",                             [3.0],                      [E[2]]),
    ("{'a': x[0], 'b': x}",                 [1.0, 1.0, 2.0, 3.0],       [E[0], *E]),
    ("{'a': {'b': x[2]}, 'c': [x[0], x[1]]}", [3.0, 1.0, 2.0],          [E[2], E[0], E[1]]),
    ("(x[0], 5.0)",                         [1.0, 5.0],                 [E[0], Z]),
]
# fmt: on


@pytest.mark.parametrize(("y", "value", "gradient"), SCALARS)
def test_numbers_have_a_gradient(returning: Callable[..., Any], y: str, value: float, gradient: list[float]) -> None:
    ran = returning(y, "--json")
    (point,) = ran.json["points"]
    assert (ran.exit_status, point["value"], point["gradient"]) == (0, value, {"x": gradient})


@pytest.mark.parametrize(("y", "value", "jacobian"), VECTORS)
def test_arrays_tuples_and_dicts_have_a_jacobian_indexed_output_input(
    returning: Callable[..., Any], y: str, value: list[Any], jacobian: list[Any]
) -> None:
    ran = returning(y, "--json")
    assert ran.exit_status == 0, ran.stdout
    (point,) = ran.json["points"]
    assert (point["value"], point["jacobian"]) == (value, {"x": jacobian})
    assert "gradient" not in point


def test_matrices_have_a_jacobian_of_their_shape(returning: Callable[..., Any]) -> None:
    (point,) = returning("np.outer(x, x)", "--json").json["points"]
    assert np.shape(point["jacobian"]["x"]) == (3, 3, 3)


# fmt: off
NOTHING = [
    ("None",                             "returns None"),
    ("'text'",                           "a string"),
    ("['a', 'b']",                       "strings"),
    ("np.array(['a', 'b'])",             "strings"),
    ("b'bytes'",                         "bytes"),
    ("1j*x",                             "complex"),
    ("x[0]*1j",                          "complex"),
    ("3j",                               "complex"),
    ("np.array(['a', None])",            "object"),
    ("np.array([{}, {}])",               "object"),
    ("object()",                         "object"),
    ("{1.0, 2.0}",                       "set"),
    ("(v for v in x)",                   "generator"),
    ("lambda: x",                        "function"),
    ("()",                               "empty tuple"),
    ("{}",                               "empty dict"),
    ("(x[0], None)",                     "None"),
    ("{'loss': x[0], 'name': 'run 1'}",  "a string"),
    ("[x, x[0]]",                        "different shapes"),
    ("np.datetime64('2020-01-01')",      "datetime64"),
]
# fmt: on


@pytest.mark.parametrize(("y", "said"), NOTHING)
def test_what_has_no_gradient_is_refused(returning: Callable[..., Any], y: str, said: str) -> None:
    ran = returning(y)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ") and said in ran.stderr.splitlines()[0]
    assert len(ran.stderr.splitlines()) >= 2


@pytest.mark.parametrize("y", ["3", "int(x[0])", "np.int64(3)", "len(x)"])
def test_an_integer_result_is_told(returning: Callable[..., Any], y: str) -> None:
    ran = returning(y, "--json")
    kinds = {finding["kind"] for finding in ran.json["points"][0]["findings"]}
    assert "integer" in kinds and ran.exit_status in (0, 3)


@pytest.mark.parametrize("y", ["x > 1.5", "True", "np.all(x > 0)", "(x > 1.5).astype(int)"])
def test_truth_values_never_confirm_anything_quietly(returning: Callable[..., Any], y: str) -> None:
    ran = returning(y, "--json")
    findings = ran.json["points"][0]["findings"]
    assert ran.exit_status in (0, 3)
    assert any(finding["severity"] in ("warning", "inconclusive") for finding in findings)


@pytest.mark.parametrize("y", ["x[:0]", "[]", "np.zeros((0, 3))", "np.zeros(0)"])
def test_empty_results_are_inconclusive(returning: Callable[..., Any], y: str) -> None:
    ran = returning(y, "--json")
    assert ran.exit_status == 3
    assert "nothing" in ran.json["points"][0]["findings"][0]["message"]


@pytest.mark.parametrize("y", ["np.array([x[0], x[1]**2], dtype=object)", "np.array([x[0], 1.0], dtype=object)"])
def test_object_arrays_of_numbers_are_read_or_refused(returning: Callable[..., Any], y: str) -> None:
    ran = returning(y)
    assert ran.exit_status in (0, 2)
    assert "internal" not in ran.stderr


def test_a_value_and_a_gradient_are_noticed(returning: Callable[..., Any]) -> None:
    ran = returning("(np.sum(x**2), 2*x)", "--json")
    (finding,) = ran.json["points"][0]["findings"]
    assert "--value-and-grad" in (finding["message"] + finding["hint"])


def test_the_names_of_outputs_are_shown_where_they_are_wrong(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "def f(x): return {'loss': np.sum(x**2), 'aux': x}\ndef j(x): return np.vstack([3*x, np.eye(2)])\n"
    ran = gradcli("check", f"{written(tmp_path, code)}:f", "x=[1, 2]", "--jac", "j", *QUICK)
    assert ran.exit_status == 1
    assert "loss/x[0]" in ran.stdout and "aux" not in ran.stdout.partition("mode")[0].partition("entry")[2]


def test_results_of_other_shapes_at_other_points_stay_apart(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return x**2\n")
    ran = gradcli("check", f"{file}:f", "x=[1, 2]", "x=[1, 2, 3]", *QUICK, "--json")
    assert ran.exit_status == 0
    assert [np.shape(point["jacobian"]["x"]) for point in ran.json["points"]] == [(2, 2), (3, 3)]


def test_flattened_lays_parts_end_to_end() -> None:
    y, outputs = flatten_result({"loss": 1.0, "aux": {"W": np.ones((2, 2))}}, "f")
    assert y.tolist() == [1.0] * 5
    assert outputs == (OutputPart("loss", ()), OutputPart("aux.W", (2, 2)))
    assert output_entry_names(outputs) == ["loss", "aux.W[0,0]", "aux.W[0,1]", "aux.W[1,0]", "aux.W[1,1]"]


@for_rows("y", [2.0, np.float64(2), np.float32(2), 2, np.array(2.0)])
def test_one_number_is_one_number(y: Any) -> None:
    value, outputs = flatten_result(y, "f")
    assert isinstance(value, np.float64) and value == 2.0 and outputs == ()


def test_flattened_refuses_none() -> None:
    with pytest.raises(FunctionFailed, match="returns None") as caught:
        flatten_result(None, "f")
    assert "return" in str(caught.value.do)


@xfail("a bool result is taken for the number 1.0 and only its zero gradient is remarked on")
def test_a_bool_result_is_told(returning: Callable[..., Any]) -> None:
    kinds = {finding["kind"] for finding in returning("True", "--json").json["points"][0]["findings"]}
    assert kinds - {"weak"}
