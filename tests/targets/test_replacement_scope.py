"""Idioms that reach no protocol of numpy's: they trace like the rest while the stand-ins act, and everything is put back."""

import importlib
import math
import sys
from collections.abc import Callable
from math import sin
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy import zeros

from gradcli.arithmetic.ball import Ball
from gradcli.checks.evidence import AGREE, judge_entries
from gradcli.errors import TraceEnded
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.targets.arguments import bind_arguments
from gradcli.targets.python import PythonFunction
from gradcli.targets.replacement_scope import solver_tolerances, stand_ins
from tests.rows import for_rows


def filled_buffer(x: Any) -> Any:
    out = np.zeros(3)
    for k in range(3):
        out[k] = x[k] ** 2
    out += 1
    return np.sum(out * x)


def array_of_scalars(x: Any) -> Any:
    return np.sum(np.array([x[0], x[1] ** 2, math.sin(x[2])])) + sin(x[0])


def filled_with_a_value(x: Any) -> Any:
    return np.sum(np.full(3, x[0])) * np.asarray(x)[1]


def vectorized(x: Any) -> Any:
    return np.sum(np.vectorize(lambda t: t * t if t > 0 else -t)(x))


def vectorized_with_constants(x: Any) -> Any:
    scale = np.vectorize(lambda t, c: t * c)
    return scale(x[0], 2.0) + np.sum(scale(x, [1.0] * len(x)))


def imported_name_and_a_view(x: Any) -> Any:
    y = zeros((2, 2))
    y[0, :] = x[:2]
    y[1] = x[1:]
    turned = y.T
    turned[0, 1] = x[0] * x[2]
    return np.sum(y * y)


def loop(x: Any) -> Any:
    total = 0.0
    for t in x:
        total += t * t
    return total


def masked_write(x: Any) -> Any:
    y = np.zeros_like(x)
    y[x > 0] = x[x > 0] ** 2
    return y.sum() + max(list(x))


def math_functions(x: Any) -> Any:
    return (
        math.exp(x[0]) + math.hypot(x[1], 2.0) + math.log(x[2], 3.0) + math.fsum([x[0], x[1]]) + math.prod([x[0], x[2]])
    )


def numbers(x: Any) -> Any:
    """float() around the result keeps the trace; where it is used as a class it is the class."""
    out = np.zeros(3, dtype=float)
    for k in range(3):
        out[k] = x[k] * 2 if x.dtype == float and isinstance(1.0, float) else np.nan
    total = np.sum(out.astype(float) * x) + math.fsum(t * t for t in x) + float("2.5") * math.prod(t for t in x)
    return float(total)


PLAIN = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4]])
ROW = np.array([0.3, 0.2, 0.5])


def methods_of_plain_arrays(x: Any) -> Any:
    """`A.dot(x)` runs in C; its result is used in every way that a traced array can be."""
    y = PLAIN.dot(x)
    total = y[0] * y[1] + y.sum() + sum(t * t for t in y) + np.linalg.norm(y) + y.T.dot(y) + np.tanh(y + 1.0).sum()
    total += PLAIN.T.dot(y).dot(x) + np.concatenate([PLAIN.dot(x), x]).sum() + np.trace(np.outer(x, ROW.dot(x) * x))
    out = np.zeros(2)
    out[:] = PLAIN.dot(x)
    out[0] += ROW.dot(x)
    scalar = ROW.dot(x)
    if scalar > -9 and not np.isnan(scalar):
        total += math.sin(scalar) + np.exp(scalar) + max(scalar, 0.1) ** 2 + abs(1 - scalar) / 2
    return total + out[0] * out[1] + PLAIN.dot(np.outer(x, x)).dot(ROW)[1]


def lists(x: Any) -> Any:
    a, b, c = x
    turned = np.diag([a, 2.0]) @ np.kron([a, b], [1.0]) + np.cross([a, b, c], [c, 1.0, 2.0])[:2]
    grown = np.linalg.solve([[2.0 + a, 1.0], [b, 3.0]], [a, c]) + np.linalg.inv([[2.0, a], [0.5, 3.0]])[0]
    return (
        np.sum(turned * grown)
        + np.trace([[a, 1.0], [0.5, b]])
        + np.linalg.det([[a, 1.0], [0.5, b]])
        + np.average([a, b], weights=[2.0, c])
        + np.einsum("i,i", [a, 2.0], [b, c])
        + np.sum(np.where([True, False], [a, b], [1.0, 2.0]) * np.clip([a, b], -5, 5) * np.roll([a, b], 1))
        + np.sum(np.transpose([[a, b]]) * np.reshape([a, b], (2, 1)))
    )


def floats_asked_for(x: Any) -> Any:
    y = np.asarray(x, dtype=float) ** 2 + np.array(x, float) * np.asarray([x[0], 1.0, 2.0], dtype=np.float64)
    return np.sum(np.ascontiguousarray(y, dtype="float64"))


def at_x(f: Callable[..., Any]) -> PythonFunction:
    return bind_arguments(f, f.__name__, {"x": X})[0]


IDIOMS = [
    filled_buffer, array_of_scalars, filled_with_a_value, vectorized, vectorized_with_constants, imported_name_and_a_view, loop, masked_write, math_functions, numbers, methods_of_plain_arrays, lists,
    floats_asked_for,
]  # fmt: skip
X = np.array([0.3, -0.7, 1.2])


@for_rows("f", IDIOMS, ids=lambda f: f.__name__)
def test_an_idiom_has_the_gradient_that_differences_find(f: Callable[[Any], Any]) -> None:
    q = Question(at_x(f), Point({"x": X.copy()}), ("x",))
    differences = MODES["finite-difference"].gradient(q)
    for name in ("certified", "forward", "reverse"):
        found = MODES[name].gradient(q)
        assert np.all(judge_entries(differences, found, "x", 1e-6) == AGREE), (name, found.value, differences.value)


def test_a_float_that_is_used_further_ends_the_trace() -> None:
    """What is computed with it may be meant to have no derivative, as the ripple of a solver."""
    for f in (lambda x: float(x[0]) * 2, lambda x: math.sin(float(x[0])), lambda x: x[1] if float(x[0]) > 0 else x[0]):
        with pytest.raises(TraceEnded, match=r"float\(\) of a traced value"):
            MODES["reverse"].gradient(Question(at_x(f), Point({"x": X.copy()}), ("x",)))


def test_the_input_is_not_written_to() -> None:
    def scaled(x: Any) -> Any:
        y = x * 1.0
        y *= 2
        return np.sum(y)

    q = Question(at_x(scaled), Point({"x": X.copy()}), ("x",))
    MODES["reverse"].gradient(q)
    assert np.array_equal(q.point.values["x"], X)


def test_everything_is_put_back_also_when_the_function_raises() -> None:
    before = (np.zeros, np.array, np.vectorize, math.sin, globals()["zeros"])

    def broken(x: Any) -> Any:
        raise KeyError("user")

    with pytest.raises(TraceEnded, match="user"):
        at_x(broken)({"x": Ball.lift(1.0)})
    assert (np.zeros, np.array, np.vectorize, math.sin, globals()["zeros"]) == before


def test_only_the_users_code_sees_the_stand_ins() -> None:
    made_before = np.diag([1.0, 2.0, 3.0])
    with stand_ins(Ball.lift):
        mine = np.zeros(2)
        theirs = np.cov(made_before)  # numpy's own code allocates too
    assert type(mine) is Ball
    assert type(theirs) is np.ndarray


def replaced_solver(module: ModuleType) -> Any:
    """Return what a module has as `solve` while tolerances are smaller."""
    with solver_tolerances(0.1):
        return module.solve


def test_a_name_that_is_given_another_solver_in_a_notebook_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is edited and run again gives a name another value, and no name is added."""
    notebook = ModuleType("__main__")
    monkeypatch.setattr("gradcli.targets.replacement_scope.users_modules", lambda: [notebook])
    for solver in (scipy.optimize.newton, scipy.optimize.brentq):
        notebook.solve = solver
        assert replaced_solver(notebook).__wrapped__ is solver and notebook.solve is solver


def test_another_solver_in_a_module_that_is_loaded_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file, module = tmp_path / "with_a_solver.py", None
    for name in ("newton", "brentq"):
        file.write_text(f"from scipy.optimize import {name} as solve")
        module = importlib.reload(module) if module else importlib.import_module("with_a_solver")
        assert replaced_solver(module).__wrapped__ is getattr(scipy.optimize, name)
