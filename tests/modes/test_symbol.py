"""Symbols: the recorded formula, differentiated by sympy."""

from typing import Any

import numpy as np
import pytest
import sympy as sp

from gradcli.errors import NotSupported
from gradcli.modes.symbolic_worker import Symbol
from gradcli.tracing.primitive import PRIMITIVES, Primitive
from tests.rows import for_rows

V = np.array([0.5, 1.5])


def variable(name: str = "x") -> Symbol:
    return Symbol.variables(np.float64(0), name)


def test_a_program_becomes_its_formula() -> None:
    x, y = variable("x"), variable("y")
    f = np.sin(x * y) + x**2 / y - np.exp(-x)
    assert f.value == sp.sin(x.value * y.value) + x.value**2 / y.value - sp.exp(-x.value)


def test_sympys_derivative_of_a_program() -> None:
    x = variable()
    assert sp.diff((np.tanh(x) * x).value, x.value) == sp.tanh(x.value) + x.value * (1 - sp.tanh(x.value) ** 2)


def test_small_integers_are_exact() -> None:
    assert (variable() * 3.0).value.args[0] == sp.Integer(3)
    assert Symbol.entry(-1000) == sp.Integer(-1000)


@for_rows("number", [0.1, 1001.0, 1e300, -2.5])
def test_other_numbers_are_symbols_that_remember_their_value(number: float) -> None:
    made = Symbol.entry(number)
    assert made.is_Symbol
    assert made.is_real
    assert Symbol.numbers[made] == number


def test_equal_numbers_do_not_cancel() -> None:
    assert (variable() + 0.1 - 0.1).value.free_symbols != variable().value.free_symbols
    assert len((variable() + 0.1 - 0.1).value.free_symbols) == 3


def test_arrays_of_symbols_have_the_shape_and_run_as_numpys() -> None:
    x = Symbol.variables(np.zeros((2, 2)), "x")
    (a, b), (c, d) = x.value
    assert x.shape == (2, 2)
    assert np.trace(x @ x).value == a * a + b * c + (c * b + d * d)
    assert np.sum(x.T[0] * x[1]).value == a * c + c * d
    assert sp.simplify(np.linalg.det(x).value - (a * d - b * c)) == 0


def test_variables_are_real_and_their_own() -> None:
    x = Symbol.variables(np.zeros(2), "x")
    assert variable().value.is_real
    assert len({*x.value.tolist(), variable("x").value, variable("y").value, Symbol.entry(0.3), Symbol.entry(0.3)}) == 6


@for_rows("name", ["maximum", "heaviside", "floor", "remainder"])
def test_branches_are_not_symbolic(name: str) -> None:
    row = PRIMITIVES[name]
    operands = [variable()] * (1 if name == "floor" else 2)
    with pytest.raises(NotSupported, match=f"{name} is not available in the symbolic mode"):
        row(*operands)


def test_what_symbols_cannot_do_is_said() -> None:
    with pytest.raises(NotSupported, match="mystery is not available in the symbolic mode"):
        Primitive("mystery", np.exp, PRIMITIVES["exp"].rules)(variable())


def jacobian(f: Any, x: Any) -> Any:
    names = Symbol.variables(x, "x")
    y = f(names)
    values = dict(zip(names.value.tolist(), x.tolist(), strict=True))
    return [[float(sp.diff(out, name).subs(values)) for name in values] for out in np.ravel(y.value)]


def test_linear_algebra_is_differentiated() -> None:
    x = np.array([2.0, 5.0])
    eps = float(np.finfo(float).eps)

    def f(x: Any) -> Any:
        a = np.stack([np.stack([x[0], x[0] * 0 + 1]), np.stack([x[0] * 0, x[1]])])
        return np.linalg.solve(a, np.stack([x[1], x[0]]))  # (x1 - x0 / x1) / x0, x0 / x1

    right = [[-5 / 4, (1 + 2 / 25) / 2], [1 / 5, -2 / 25]]
    np.testing.assert_allclose(jacobian(f, x), right, rtol=8 * eps)  # a float of an exact number, and ours
