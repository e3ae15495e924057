"""The statements that a function ran are read in the order in which they ran, with a name for each value."""

import ast
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.repair.executed_statements import NamedStatements, StatementRecorder
from tests.rows import for_rows


def run(tmp_path: Path, text: str, *inputs: Any) -> list[str]:
    """Return the statements of `f` and, after a colon, the visit of a loop that each belongs to."""
    tree = ast.parse(text)
    names: dict[str, Any] = {"np": np}
    exec(compile(text, str(tmp_path / "users.py"), "exec"), names)
    functions = {d.name: d for d in tree.body if isinstance(d, ast.FunctionDef)}
    recorder = StatementRecorder(names["f"].__code__, lambda code: functions.get(code.co_name))
    sys.settrace(recorder.trace)
    try:
        names["f"](*inputs)
    finally:
        sys.settrace(None)
    (call,) = recorder.runs
    found = NamedStatements.of(call).statements
    return [f"{s.name} = {ast.unparse(s.expression)}{f': {s.block[2]}' if s.block else ''}" for s in found]


@for_rows(
    ("text", "statements"),
    [
        ("def f(x):\n    y = x * x\n    return y + 1\n", ["y = x * x", " = y + 1"]),
        ("def f(x):\n    x = x * 2\n    x += 1\n    return x\n", ["x__2 = x * 2", "x__3 = x__2 + 1", " = x__3"]),
        (
            "def f(x):\n    for _ in range(2):\n        x = x * 3\n    return x\n",
            ["x__2 = x * 3: 0", "x__3 = x__2 * 3: 1", " = x__3"],
        ),
        (
            "def s(x, y):\n    z = x * y\n    return z\ndef f(x):\n    y = s(x, x + 1)\n    return y\n",
            ["y = x + 1", "z = x * y", "y__2 = z", " = y__2"],
        ),
        (
            "def s(x, y):\n    return y, x\ndef f(x):\n    a, b = s(x, 2)\n    return a\n",
            ["y = 2", "a = y", "b = x", " = a"],
        ),
        (
            "def f(x):\n    if x > 9:\n        y = 1\n    else:\n        y = 2 * x\n    return y\n",
            ["y = 2 * x", " = y"],
        ),
        (
            "def f(x):\n    h = [x]\n    h.append(h[-1] * 2)\n    return h[1]\n",
            ["h = [x]", "h__2 = item * 2", " = item__2"],
        ),
        (
            "def f(x):\n    a = np.zeros(2)\n    a[0] = x\n    a[1] -= x\n    return a[1]\n",
            ["a = np.zeros(2)", "a__3 = x", "a__5 = -x", " = a__4[1]"],
        ),
    ],
)
def test_statements_are_read_as_they_ran(tmp_path: Path, text: str, statements: list[str]) -> None:
    assert run(tmp_path, text, 3.0) == statements


def test_of_a_long_loop_the_first_and_the_last_visits_are_read(tmp_path: Path) -> None:
    text = "def f(x):\n    for _ in range(20):\n        x = x + 1\n    return x\n"
    visits = [s.partition(": ")[2] for s in run(tmp_path, text, 0.0)]
    assert visits == ["0", "1", "2", "17", "18", "19", ""]


def test_a_function_that_runs_too_many_statements_is_not_read(tmp_path: Path) -> None:
    text = "def f(x):\n    for _ in range(40_000):\n        x = x + 1\n    return x\n"
    names: dict[str, Any] = {}
    exec(compile(text, str(tmp_path / "users.py"), "exec"), names)
    recorder = StatementRecorder(names["f"].__code__, lambda code: ast.parse(text).body[0])
    sys.settrace(recorder.trace)
    try:
        names["f"](0.0)
    finally:
        sys.settrace(None)
    assert [call.made for call in recorder.runs] == [None]
