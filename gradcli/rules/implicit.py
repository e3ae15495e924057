"""The solution of an equation as one operation: what a solver returns, with the derivative by the equation itself.

The equation may be a differential equation, an integral, a root or a minimum. A solver works to a tolerance, so the value
has an error far above rounding; the operation states it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradcli.errors import NoRule
from gradcli.tracing.cost import factored
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value, declare
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer


class Equation(Protocol):
    """An equation with parameters, and how it is solved."""

    name: str

    def value(self, *parameters: Any) -> Any:
        """Return the solution for plain parameters, by the solver that the program calls."""

    def jacobian(self, *parameters: Any) -> list[Any]:
        """Return the derivative by each parameter, `[entry of the solution, entry of the parameter]`."""

    def error(self, *parameters: Any) -> float:
        """Return an estimate of the relative error of the solver's result."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The rule of a solution: the product with its Jacobian, which is made when it is first asked for."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return np.reshape(np.matmul(_jacobian(xs, i, params), np.reshape(xdot, (-1,))), shape(y))

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return np.reshape(np.matmul(_jacobian(xs, i, params).T, np.reshape(ybar, (-1,))), shape(xs[i]))


def _jacobian(xs: Sequence[Value], i: int, params: Params) -> Any:
    equation: Equation = params["equation"]
    if any(isinstance(x, Tracer) for x in xs):
        raise NoRule(
            f"{equation.name} has a rule for first derivatives only", do="check the gradient, not the Hessian, of it"
        )
    return equation.jacobian(*xs)[i]


def _solved(*xs: Value, equation: Equation) -> Value:
    return equation.value(*xs)


def solver_error(xs: Sequence[Value], params: Params) -> float:
    """Return the relative error of a solution."""
    return params["equation"].error(*xs)  # type: ignore[no-any-return]


SOLUTION = declare(
    Primitive(
        "solution",
        _solved,
        (Sensitivity(),),
        kind="differential",
        analytic=False,
        cost=factored(1000),
        error=solver_error,
    )
)
