"""scipy.optimize: roots and minima by the implicit function theorem.

Source  F(x, p) = 0 defines x as a function of p with the derivative -F_x^-1 F_p; at a minimum, F is the gradient by x.
"""

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import NoRule
from gradcli.rules.decompositions import Open
from gradcli.rules.shaping import as_value
from gradcli.targets.solver_tolerances import arguments_by_name
from gradcli.targets.solvers.equation import Parametrised, accept_tracers, refuse_tracers, relative_error
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain_value

_ROUNDED = 1e-9  # relative: an entry so near to its bound is at the bound
_MOST_CONDITION = 1e13  # of the matrix that is inverted: beyond it, the solution is not isolated


def _scipy_optimize() -> Any:
    return sys.modules["scipy.optimize"]


class Root(Parametrised):
    """A root x of `residual(parts, x)`; `structure` is what the user passed to the solver, and `solver` finds x from it."""

    def __init__(
        self, name: str, structure: Any, solver: Callable[[Any], Any], residual: Callable[[Any, Value], Value],
        free: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, structure, solver)
        self.residual, self.free = residual, free

    def derivative(self, solution: Any, parameters: Sequence[Any]) -> tuple[list[Any], float]:
        x = np.asarray(solution, dtype=float)
        rest, (by_x, *by_each) = self.jacobians(lambda x, *xs: self.residual(self.parts(xs), x), [x, *parameters])
        free = np.flatnonzero(np.ones(x.size) if self.free is None else self.free(x))
        matrices = [np.zeros((x.size, by.shape[1])) for by in by_each]
        if not free.size:
            return matrices, 0.0
        square = by_x[np.ix_(free, free)] if by_x.shape[0] == x.size else None
        if square is None or not np.linalg.cond(square) < _MOST_CONDITION:
            says = f"{self.name} has a solution that is not isolated: its equation has a singular derivative there"
            raise NoRule(says, do="move the point, or give your own gradient to check: --grad")
        for matrix, by in zip(matrices, by_each, strict=True):
            matrix[free] = -np.linalg.solve(square, by[free])
        missed = np.linalg.solve(square, rest[free])
        return matrices, 10 * relative_error(missed, np.maximum(np.abs(np.ravel(x)), 1e-3))


Given = Mapping[str, Any]  # the arguments of a call of scipy's by name, the user's function first


def _value(given: Given, x: Value) -> Value:
    """Return what the user's function returns at x, without derivatives that it returns beside its value."""
    f = next(iter(given.values()))
    y = f(x, *given["args"], **(given.get("kwargs") or {}))
    return as_value(y[0] if any(given.get(name) is True for name in ("jac", "fprime", "fprime2")) else y)


def _half_squares(given: Given, x: Value) -> Value:
    return np.sum(np.square(_value(given, x))) / 2


def _traced_gradient(f: Callable[[Value], Value], x: Value) -> Value:
    """Return the gradient of a scalar function, itself traced where x is."""
    program = record(lambda x: np.reshape(accept_tracers(f)(x), ()), [x])
    return program.pull(np.float64(1.0))[0]


def _limits_by_entry(bounds: Any) -> tuple[Any, Any]:
    """Return the limits of entries that have a pair each, with None where there is no limit."""
    pairs = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds]
    low, high = np.transpose(np.asarray(pairs, dtype=float))
    return low, high


_REFUSED = (  # an argument, what the refusal says of it, and what to do
    ("full_output", "is not traced", "leave it out"),
    ("constraints", "has no derivative rule", "substitute the constraint"),
    ("loss", "has no derivative rule", "loss='linear'"),
)
# what else of a result depends on the parameters
_OPEN = ("fun", "jac", "hess", "hess_inv", "grad", "fjac", "r", "qtf")


def _stand_in(
    name: str, equation: Callable[[Given, Value], Value] = _value, *, solution: str | None = None,
    minimised: Callable[[Given, Value], Value] | None = None, limits: Callable[[Any], tuple[Any, Any]] = tuple,
) -> Callable[..., Any]:  # fmt: skip
    """Return what stands in for a solver: its solution is where `equation` is 0, or what is `minimised` has the gradient 0.

    scipy's result has a traced `solution`; without that name, the solver returns the solution itself. A `fun` of one number
    is traced too. An entry at one of its bounds, which `limits` reads, does not move.
    """
    full_name = f"scipy.optimize.{name}"

    def solve(parts: Given) -> Any:
        f, *_ = parts
        plain = {**parts, f: refuse_tracers(parts[f])}
        if parts.get("x0") is not None:
            plain["x0"] = np.asarray(parts["x0"], dtype=float)
        return getattr(_scipy_optimize(), name)(**plain)

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        given = arguments_by_name(getattr(_scipy_optimize(), name), args, kwargs)
        for argument, says, do in _REFUSED:
            if (x := given.get(argument)) and x != "linear":
                raise NoRule(f"{full_name} with {argument}= {says}", do=do)
        others = given.get("args", ())
        given["args"] = tuple(others) if isinstance(others, tuple) or name == "least_squares" else (others,)
        bounds = given.get("bounds")
        if bounds is not None:
            bounds = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else limits(bounds)

        def free(x: Any) -> Any:
            if bounds is None:
                return np.ones(x.size, dtype=bool)
            near = _ROUNDED * np.maximum(1.0, np.abs(np.ravel(x)))
            return (np.ravel(x) > bounds[0] + near) & (np.ravel(x) < bounds[1] - near)

        def residual(parts: Given, x: Value) -> Value:
            if minimised is None:
                return equation(parts, x)
            return _traced_gradient(functools.partial(minimised, parts), x)

        if solution is None:
            return Root(full_name, given, solve, residual, free).traced()
        made = Root(full_name, given, lambda parts: solve(parts)[str(solution)], residual, free)
        result = copy.copy(solve(made.parts([plain_value(x) for x in made.captured.leaves])))
        # What a minimiser says of its success is not asked: the residual decides, because BFGS often stops at a minimum with
        # a warning.
        if not result.get("converged", True):
            raise NoRule(f"{full_name} failed: {result.flag}", do="give it another bracket or start")
        result[solution] = made.traced()
        for key in _OPEN:
            if key in result:
                result[key] = Open(f"{key} of the result of {full_name} is not traced", f"use {solution} of the result")
        if minimised is _value:
            result["fun"] = _value(given, result[solution])
        return result

    return stand_in


def curve_fit(f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None, **options: Any) -> Any:
    """Return the parameters that fit best; their covariance is not traced."""
    name = "scipy.optimize.curve_fit"
    if options.get("full_output") or np.ndim(plain_value(as_value(0.0 if sigma is None else sigma))) > 1:
        raise NoRule(f"{name} with full_output= or a matrix sigma= is not traced", do="leave them out")

    def solver(parts: Any) -> Any:
        f, xdata, ydata, p0, sigma = parts
        return _scipy_optimize().curve_fit(refuse_tracers(f), xdata, ydata, p0, sigma, **options)[0]

    def half_squares(parts: Any, p: Value) -> Value:
        f, xdata, ydata, _, sigma = parts
        rest = as_value(f(xdata, *(p[k] for k in range(shape(p)[0])))) - ydata
        return np.sum(np.square(rest if sigma is None else rest / sigma)) / 2

    def slopes(parts: Any, p: Value) -> Value:
        return _traced_gradient(lambda p: half_squares(parts, p), p)

    covariance = Open("the covariance that scipy.optimize.curve_fit returns is not traced", "use the parameters")
    return Root(name, (f, xdata, ydata, p0, sigma), solver, slopes).traced(), covariance


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _stand_in(name) for name in ("fsolve", "brentq", "brenth", "bisect", "ridder", "toms748", "newton")},
    "fixed_point":     _stand_in("fixed_point", lambda given, x: _value(given, x) - x),
    "root":            _stand_in("root", solution="x"),
    "root_scalar":     _stand_in("root_scalar", solution="root"),
    "minimize":        _stand_in("minimize", solution="x", minimised=_value, limits=_limits_by_entry),
    "minimize_scalar": _stand_in("minimize_scalar", solution="x", minimised=_value),
    "least_squares":   _stand_in("least_squares", solution="x", minimised=_half_squares),
    "curve_fit":       curve_fit,
}  # fmt: skip


# np.roots: the roots of a polynomial by its coefficients, which solve the equation p(r) = 0.


def roots(p: Value) -> Value:
    """Return the roots in numpy's order, real if all of them are real.

    Raises  NoRule where the first or the last coefficient is 0: the number of the other roots depends on it.
    """
    coefficients = as_value(p)
    first = plain_value(coefficients)
    if len(shape(coefficients)) != 1 or len(first) < 2 or first[0] == 0 or first[-1] == 0:
        raise NoRule("np.roots has a rule where neither the first nor the last coefficient is 0", do="leave them out")
    count = len(first) - 1

    def solver(parts: Any) -> Any:
        found = np.roots(parts)
        return np.concatenate([np.real(found), np.imag(found)])

    def residual(parts: Any, x: Value) -> Value:
        r = x[:count] + x[count:] * np.complex128(1j)
        y: Any = 0.0
        for k in range(count + 1):
            y = y * r + parts[k]
        return np.concatenate([np.real(y), np.imag(y)])

    both = Root("np.roots", coefficients, solver, residual).traced()
    if not np.iscomplexobj(np.roots(first)):
        return both[:count]
    return both[:count] + both[count:] * np.complex128(1j)
