"""scipy.optimize: roots and minima by the implicit function theorem.

Source  F(x, p) = 0 defines x as a function of p with the derivative -F_x^-1 F_p; at a minimum, F is the gradient by x.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import NoRule
from gradcli.rules.decompositions import Open
from gradcli.rules.shaping import as_value
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
        super().__init__(structure)
        self.name, self.solver, self.residual, self.free = name, solver, residual, free

    def solve(self, parts: Any) -> Any:
        return self.solver(parts)

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


def root(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: str = "hybr", jac: Any = None, **options: Any
) -> Any:
    """Return scipy's result with a traced `x`."""
    args = args if isinstance(args, tuple) else (args,)
    with_jacobian = jac is True

    def called(parts: Any) -> Any:
        fun, x0, args, jac = parts
        return _scipy_optimize().root(refuse_tracers(fun), np.asarray(x0, dtype=float), args, method, jac, **options)

    def residual(parts: Any, x: Value) -> Value:
        y = parts[0](x, *parts[2])
        return as_value(y[0] if with_jacobian else y)

    made = Root("scipy.optimize.root", (fun, x0, args, jac), lambda parts: called(parts).x, residual)
    return _traced_result(called(made.plain_parts()), made)


def _traced_result(found: Any, made: Root) -> Any:
    """Return scipy's result with a traced solution; what else depends on the parameters is not known.

    What the solver says of its success is not asked: the residual decides, because BFGS often stops at a minimum with a warning.
    """
    result = copy.copy(found)
    result["x"] = made.traced()
    for key in ("fun", "jac", "hess", "hess_inv", "grad", "fjac", "r", "qtf"):
        if key in result:
            result[key] = Open(f"{key} of the result of {made.name} is not traced", "use x of the result")
    return result


def fsolve(
    func: Callable[..., Any], x0: Any, args: Any = (), fprime: Any = None, full_output: int = 0, **options: Any
) -> Any:
    if full_output:
        raise NoRule("scipy.optimize.fsolve with full_output= is not traced", do="leave it out")
    args = args if isinstance(args, tuple) else (args,)

    def solver(parts: Any) -> Any:
        func, x0, args, fprime = parts
        return _scipy_optimize().fsolve(refuse_tracers(func), np.asarray(x0, dtype=float), args, fprime, 0, **options)

    def residual(parts: Any, x: Value) -> Value:
        return as_value(parts[0](x, *parts[2]))

    return Root("scipy.optimize.fsolve", (func, x0, args, fprime), solver, residual).traced()


def _scalar_root_replacement(name: str) -> Callable[..., Value]:
    """Return the stand-in of a solver for a root of one number: brentq, newton and their kin."""

    def stand_in(
        f: Callable[..., Any], *given: Any, args: Any = (), full_output: bool = False, **options: Any
    ) -> Value:
        if full_output:
            raise NoRule(f"scipy.optimize.{name} with full_output= is not traced", do="leave it out")
        args = args if isinstance(args, tuple) else (args,)

        def solver(parts: Any) -> Any:
            f, given, args, options = parts
            return getattr(_scipy_optimize(), name)(refuse_tracers(f), *given, args=args, **options)

        def residual(parts: Any, x: Value) -> Value:
            y = as_value(parts[0](x, *parts[2]))
            return y - x if name == "fixed_point" else y

        return Root(f"scipy.optimize.{name}", (f, given, args, options), solver, residual).traced()

    stand_in.__name__ = name
    return stand_in


def root_scalar(f: Callable[..., Any], args: Any = (), **options: Any) -> Any:
    """Return scipy's result with a traced `root`."""
    args = args if isinstance(args, tuple) else (args,)

    def called(parts: Any) -> Any:
        f, args, options = parts
        return _scipy_optimize().root_scalar(refuse_tracers(f), args, **options)

    def residual(parts: Any, x: Value) -> Value:
        y = parts[0](x, *parts[1])
        return as_value(y[0] if isinstance(y, tuple) else y)

    made = Root("scipy.optimize.root_scalar", (f, args, options), lambda parts: called(parts).root, residual)
    result = copy.copy(called(made.plain_parts()))
    if not result.converged:
        raise NoRule(f"scipy.optimize.root_scalar failed: {result.flag}", do="give it another bracket or start")
    result["root"] = made.traced()
    return result


def _traced_gradient(f: Callable[[Value], Value], x: Value) -> Value:
    """Return the gradient of a scalar function, itself traced where x is."""
    program = record(lambda x: np.reshape(accept_tracers(f)(x), ()), [x])
    return program.pull(np.float64(1.0))[0]


def minimize(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: Any = None, jac: Any = None, hess: Any = None, hessp: Any = None,
    bounds: Any = None, constraints: Any = (), **options: Any,
) -> Any:  # fmt: skip
    """Return scipy's result with a traced `x` and `fun`; an entry at its bound does not move.

    Raises  NoRule with constraints.
    """
    if constraints:
        says = "scipy.optimize.minimize with constraints= has no derivative rule"
        raise NoRule(says, do="substitute the constraint")
    args = args if isinstance(args, tuple) else (args,)
    limits = None if bounds is None else _read_bounds(bounds)

    def called(parts: Any) -> Any:
        fun, x0, args, jac, hess, hessp = parts
        x0 = np.asarray(x0, dtype=float)
        return _scipy_optimize().minimize(refuse_tracers(fun), x0, args, method, jac, hess, hessp, bounds, **options)

    def value(parts: Any, x: Value) -> Value:
        y = parts[0](x, *parts[2])
        return as_value(y[0] if jac is True else y)

    structure = (fun, x0, args, jac, hess, hessp)
    result = _traced_minimum("scipy.optimize.minimize", structure, called, value, limits)
    result["fun"] = value(structure, result["x"])
    return result


def _traced_minimum(name: str, structure: Any, called: Any, value: Any, limits: Any) -> Any:
    """Return what `called` finds, with a traced `x`, where the slopes of `value` by entries inside the limits are 0."""

    def free(x: Any) -> Any:
        if limits is None:
            return np.ones(x.size, dtype=bool)
        near = _ROUNDED * np.maximum(1.0, np.abs(np.ravel(x)))
        return (np.ravel(x) > limits[0] + near) & (np.ravel(x) < limits[1] - near)

    def slopes(parts: Any, x: Value) -> Value:
        return _traced_gradient(lambda x: value(parts, x), x)

    made = Root(name, structure, lambda parts: called(parts).x, slopes, free)
    return _traced_result(called(made.plain_parts()), made)


def _read_bounds(bounds: Any) -> tuple[Any, Any]:
    if hasattr(bounds, "lb"):
        return np.asarray(bounds.lb, dtype=float), np.asarray(bounds.ub, dtype=float)
    pairs = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds]
    low, high = np.transpose(np.asarray(pairs, dtype=float))
    return low, high


def minimize_scalar(
    fun: Callable[..., Any], bracket: Any = None, bounds: Any = None, args: Any = (), **options: Any
) -> Any:
    """Return scipy's result with a traced `x` and `fun`."""
    args = args if isinstance(args, tuple) else (args,)

    def called(parts: Any) -> Any:
        fun, args = parts
        return _scipy_optimize().minimize_scalar(refuse_tracers(fun), bracket, bounds, args, **options)

    def value(parts: Any, x: Value) -> Value:
        return as_value(parts[0](x, *parts[1]))

    result = _traced_minimum("scipy.optimize.minimize_scalar", (fun, args), called, value, bounds)
    result["fun"] = value((fun, args), result["x"])
    return result


def least_squares(
    fun: Callable[..., Any], x0: Any, jac: Any = "2-point", bounds: Any = (-np.inf, np.inf), args: Any = (),
    kwargs: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Return scipy's result with a traced `x`; an entry at its bound does not move."""
    if options.get("loss", "linear") != "linear":
        raise NoRule("scipy.optimize.least_squares with loss= has no derivative rule", do="loss='linear'")
    limits = tuple(np.asarray(x, dtype=float) for x in bounds) if isinstance(bounds, tuple) else _read_bounds(bounds)

    def called(parts: Any) -> Any:
        fun, x0, jac, args, kwargs = parts
        x0 = np.asarray(x0, dtype=float)
        return _scipy_optimize().least_squares(
            refuse_tracers(fun), x0, jac, bounds, args=args, kwargs=kwargs, **options
        )

    def half_squares(parts: Any, x: Value) -> Value:
        fun, _, _, args, kwargs = parts
        return np.sum(np.square(as_value(fun(x, *args, **kwargs)))) / 2

    structure = (fun, x0, jac, tuple(args), dict(kwargs or {}))
    return _traced_minimum("scipy.optimize.least_squares", structure, called, half_squares, limits)


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
    "root": root, "fsolve": fsolve, "root_scalar": root_scalar, "minimize": minimize, "minimize_scalar": minimize_scalar,
    "least_squares": least_squares, "curve_fit": curve_fit,
    **{name: _scalar_root_replacement(name) for name in ("brentq", "brenth", "bisect", "ridder", "toms748", "newton",
        "fixed_point")},
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
