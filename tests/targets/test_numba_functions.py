"""Functions that numba compiles, by a stand-in for its classes: Python code on traced values, compiled with numpy's own."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.frameworks.native import recognise_framework
from gradcli.targets import replacement_scope
from gradcli.targets.replacement_scope import stand_ins, without_tracing
from gradcli.tracing.tracer import unwrap_function

OWN = (np.zeros,)  # names in a module of the user's are replaced in a trace, and what a tuple holds is not


class Compiled:
    """As numba's base class in C: it is called on arrays of numpy alone, and has the code of its function but no globals."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        self.py_func = self.__wrapped__ = py_func
        self.__code__ = py_func.__code__
        self.__name__, self.__module__ = py_func.__name__, py_func.__module__
        self.compiled_with: list[bool] = []
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        if any(type(x) is not np.ndarray and not np.isscalar(x) for x in args):
            raise TypeError("can't unbox array from PyObject into native value")
        if not self.compiled_with:
            self.compile(args)
        self.calls += 1
        return self.py_func(*args)

    def compile(self, signature: Any) -> None:
        self.compiled_with.append(np.zeros is OWN[0])


class Dispatcher(Compiled):
    """As numba's class for `@njit`."""


class DUFunc(Compiled):
    """As numba's class for `@vectorize`: the function is defined for one entry."""

    def __call__(self, *args: Any) -> Any:
        return np.vectorize(self.py_func)(*args)


@pytest.fixture(autouse=True)
def numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, owner in (("numba.core.dispatcher", Dispatcher), ("numba.np.ufunc.dufunc", DUFunc)):
        module = ModuleType(name)
        setattr(module, owner.__name__, owner)
        monkeypatch.setitem(sys.modules, name, module)
    for table in ("_SEEN", "_METHODS"):  # numba itself may have been imported by an earlier test
        monkeypatch.setattr(replacement_scope, table, [])
    yield


def squares(x: Any) -> Any:
    out = np.zeros(len(x))
    for k in range(len(x)):
        out[k] = x[k] ** 2
    return out.sum()


def test_a_compiled_target_is_traced_through_its_python_code() -> None:
    f = Dispatcher(squares)
    report = gradcli.check(f, at={"x": np.array([1.0, 2.0])}, grad=lambda x: 2 * x)
    assert report.verdict == "pass"
    assert {"certified", "reverse"} <= {name for name, mode in report.points[0].modes.items() if mode.status == "ok"}


def test_a_wrong_gradient_of_a_compiled_target_fails() -> None:
    assert gradcli.check(Dispatcher(squares), at={"x": np.array([1.0, 2.0])}, grad=lambda x: 3 * x).verdict == "fail"


def test_a_compiled_helper_is_traced_and_calls_another() -> None:
    helper = Dispatcher(squares)
    outer = Dispatcher(lambda x: helper(x) * 2.0)
    grad = gradcli.grad(lambda x: outer(x) + np.sum(x))
    np.testing.assert_allclose(grad(np.array([1.0, 3.0])), [5.0, 13.0])


def test_what_is_first_called_in_a_trace_is_compiled_with_numpys_own_functions() -> None:
    table = Dispatcher(lambda n: np.zeros(n) + 2.0)
    grad = gradcli.grad(lambda x: np.sum(table(2) * x))
    np.testing.assert_allclose(grad(np.array([1.0, 3.0])), [2.0, 2.0])
    assert table.compiled_with == [True]
    assert "__call__" not in vars(Dispatcher)  # all is put back
    assert np.zeros is OWN[0]


def test_within_a_trace_a_call_on_plain_values_is_compiled_and_the_stand_ins_come_back() -> None:
    f = Dispatcher(squares)
    with stand_ins(lambda x: x):
        replaced = np.zeros
        with without_tracing():
            assert f(np.array([1.0, 2.0])) == 5.0
        assert np.zeros is replaced is not OWN[0]
    assert np.zeros is OWN[0]
    assert (f.compiled_with, f.calls) == ([True], 1)


def test_a_function_of_one_entry_is_traced_entry_by_entry() -> None:
    softplus = DUFunc(lambda x: np.log1p(np.exp(x)) if x < 30 else x)
    x = np.array([[-1.0, 2.0], [0.5, 40.0]])
    expected = [[0.2689414213699951, 0.8807970779778823], [0.6224593312018546, 1.0]]
    np.testing.assert_allclose(gradcli.grad(lambda x: np.sum(softplus(x)))(x), expected)


def test_the_framework_is_that_of_the_python_code() -> None:
    assert recognise_framework(Dispatcher(squares), None, None) is None


def test_the_python_code_of_a_compiled_function_and_of_a_method() -> None:
    assert unwrap_function(Dispatcher(squares)) is squares
    assert unwrap_function(Dispatcher(squares).compile) is Compiled.compile
    assert unwrap_function(3.0) == 3.0
