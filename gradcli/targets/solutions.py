"""scipy's solvers: what they return as the solution of an equation, differentiated by the rule for solutions.

Their derivatives are not those of the solver's steps but those of the solution, to the solver's own error, which is estimated
by the equation's residual.
"""

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import GradcliError, NoRule, NotSupported, TraceEnded
from gradcli.rules.linalg import SOLUTION, Open
from gradcli.rules.shaping import as_value
from gradcli.targets.replacement_scope import stand_ins, users_modules, without_tracing
from gradcli.targets.solver_tolerances import arguments_by_name, watch_solvers
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Captured, Tracer, plain_value

# What all equations share: their parameters, found in what the user passes, and the Jacobians of the user's functions.

_AMPLIFIED = 3.0  # the derivative may be off by so much more than the result, or than the functions that it is made of
LEAST_ERROR = 1e-12  # relative: of a solver whose residual is zero up to rounding
_SAME = 1e-14  # relative: parameters that differ by less have the same derivative, to a solver's error
_MOST_ERROR = 0.05  # relative: beyond it a solver has not converged


def accept_tracers(f: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function of the user's that takes tracers: numpy's stand-ins act while it runs."""

    def called(*xs: Value) -> Value:
        tracers = [x for x in xs if isinstance(x, Tracer)]
        if not tracers:
            with without_tracing():
                return as_value(f(*xs))
        with stand_ins(max(tracers, key=lambda x: x.level).hold, users_modules()):
            return as_value(f(*xs))

    return called


class Parametrised:
    """An equation whose parameters are the traced values inside `structure`, what the user passed to a solver.

    `solver` returns the solution for plain parts, by scipy; a subclass says its `derivative` by the parameters, with the
    solver's relative error.
    """

    def __init__(self, name: str, structure: Any, solver: Callable[[Any], Any]) -> None:
        self.name, self.captured, self.solver = name, Captured(structure), solver
        self._known: tuple[Any, list[Any], float] | None = None
        self._inner = 0.0  # the largest error of a solver inside a function that this one calls

    def parts(self, parameters: Sequence[Any]) -> Any:
        """Return what the user passed, with other values of the parameters."""
        return self.captured.rebuilt(parameters)

    def derivative(self, solution: Any, parameters: Sequence[Any]) -> tuple[list[Any], float]:
        """Return the Jacobian of the solution by each parameter, and the relative error of the solution."""
        raise NotImplementedError

    def value(self, *parameters: Any) -> Any:
        with without_tracing(), watch_solvers():
            return np.asarray(self.solver(self.parts(parameters)), dtype=float)[()]

    def jacobian(self, *parameters: Any) -> list[Any]:
        return self._jacobians_and_error(parameters)[1]

    def error(self, *parameters: Any) -> float:
        return self._jacobians_and_error(parameters)[2]

    def _jacobians_and_error(self, parameters: Sequence[Any]) -> tuple[Any, list[Any], float]:
        """Return the parameters, the Jacobian by each, and the error: the known ones, if parameters differ by rounding alone."""
        x = np.concatenate([np.ravel(np.asarray(p, dtype=float)) for p in parameters])
        if self._known is None or not np.all(np.abs(self._known[0] - x) <= _SAME * np.abs(x)):
            try:
                with watch_solvers():
                    matrices, error = self.derivative(self.value(*parameters), parameters)
            except GradcliError:
                raise
            except (ArithmeticError, RuntimeError, ValueError) as failed:  # of scipy, where there is no solution
                raise NoRule(f"{self.name} has no derivative here: {failed}", do="move the point") from failed
            if not error < _MOST_ERROR or not all(np.all(np.isfinite(matrix)) for matrix in matrices):
                says = f"{self.name} has not converged: its result is off by {error:.1g} of its size"
                raise NoRule(says, do="give the solver a smaller tolerance, or another start")
            self._known = x, matrices, max(error, LEAST_ERROR) + _AMPLIFIED * self._inner
        return self._known

    def jacobians(self, f: Callable[..., Value], xs: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return f(*xs) for plain xs as a vector, and its Jacobian by each of them, `[output, input]`, by reverse sweeps."""
        program = record(lambda *inputs: np.ravel(accept_tracers(f)(*inputs)), xs)
        for primitive, _, operands, _, params, _ in program.lines:
            if primitive is not None and primitive.error is not None:
                self._inner = max(self._inner, primitive.error(operands, params or {}))
        y = np.asarray(plain_value(program.y), dtype=float)
        if not program.moves:
            return y, [np.zeros((y.size, np.size(x))) for x in xs]
        rows = [[np.ravel(xbar) for xbar in program.pull(seed)] for seed in np.eye(y.size)]
        return y, [np.reshape([row[i] for row in rows], (y.size, np.size(x))) for i, x in enumerate(xs)]

    def jacobian_of_part(self, part: int, parameters: Sequence[Any]) -> tuple[Any, Any]:
        """Return a part of the structure as a vector, and its Jacobian by all parameters together."""
        y, by_each = self.jacobians(lambda *xs: as_value(self.parts(xs)[part]), parameters)
        return y, np.concatenate(by_each, axis=1)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process is without the user's functions: it is only named there."""
        return Parametrised, (self.name, (), tuple)

    def traced(self) -> Value:
        """Return the solution, recorded as one operation of the parameters."""
        return SOLUTION(*self.captured.leaves, equation=self)


def relative_error(error: Any, size: Any) -> float:
    """Return the largest error in units of the largest entry."""
    largest = float(np.max(np.abs(size), initial=0.0))
    worst = float(np.max(np.abs(error), initial=0.0))
    return worst / largest if largest > 0 else worst


def refuse_tracers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that must not see tracers; a result that is traced by a value we did not find ends the trace."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with without_tracing():
            y = function(*args, **kwargs)
        if isinstance(y, Tracer) or (isinstance(y, list | tuple) and any(isinstance(part, Tracer) for part in y)):
            says = "a function that a solver calls uses a traced value of a global variable"
            raise TraceEnded(says, do="pass it as an argument, or use a closure")
        return y

    return called


# scipy.integrate: initial value problems by forward sensitivities, and integrals by the integral of the derivative.
#
# Source  Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.14; Leibniz's rule.

_RTOL, _ATOL = 1e-9, 1e-11  # of the sensitivities
_MOST_CALLS = 20_000  # of the right-hand side, or of an integrand, with its Jacobian
_STIFF = ("Radau", "BDF", "LSODA")


def _scipy_integrate() -> Any:
    return sys.modules["scipy.integrate"]


def _bind(name: str, first: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call of scipy's: those that come `first`, the tuple `args`, and the others by name."""
    options = arguments_by_name(getattr(_scipy_integrate(), name), given, named)
    args = options.pop("args", ())
    return *(options.pop(each) for each in first), args if isinstance(args, tuple) else (args,), options


class Trajectory(Parametrised):
    """The solution of y' = fun(t, y), y(start) = y0, at given times.

    `structure` is (fun, y0, args, start, times). The solution has the shape (entries of y, times). `solver` computes it, of
    plain parts; `time_first` says whether `fun` takes the time as its first argument.
    """

    def __init__(
        self, name: str, structure: Any, solver: Callable[..., Any], time_first: bool = True, stiff: bool = False
    ) -> None:
        super().__init__(name, structure, lambda parts: solver(*parts))
        self.time_first, self.stiff = time_first, stiff

    def derivative(self, solution: Any, parameters: Sequence[Any]) -> tuple[list[Any], float]:
        sizes = [np.size(x) for x in parameters]
        n, m = len(solution), sum(sizes)
        y0, moved = self.jacobian_of_part(1, parameters)
        start, times = (np.ravel(np.asarray(x, dtype=float)) for x in self.parts(parameters)[3:])
        first, _ = self._slope_and_jacobians(float(start[0]), y0, parameters)
        moved = moved - np.outer(first, self.jacobian_of_part(3, parameters)[1][0])
        found = self._integrate_sensitivities(np.concatenate([y0, np.ravel(moved)]), float(start[0]), times, parameters)
        y, moved = found[:n], found[n:].reshape(n, m, -1)
        if Captured(self.captured.structure[4]).leaves:
            _, by_time = self.jacobian_of_part(4, parameters)
            slopes = [self._slope_and_jacobians(float(t), y[:, j], parameters)[0] for j, t in enumerate(times)]
            moved = moved + np.stack([np.outer(*pair) for pair in zip(slopes, by_time, strict=True)], axis=-1)
        whole = np.moveaxis(moved, 1, 2).reshape(-1, m)
        error = _AMPLIFIED * relative_error(y - solution.reshape(y.shape), y) + 10 * _RTOL
        return np.split(whole, np.cumsum(sizes)[:-1], axis=1), error

    def _slope_and_jacobians(self, t: float, y: Any, parameters: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return fun(t, y), and its Jacobian by y and by each parameter."""

        def called(y: Value, *xs: Value) -> Value:
            fun, _, args, *_ = self.parts(xs)
            return as_value(fun(t, y, *args) if self.time_first else fun(y, t, *args))

        return self.jacobians(called, [y, *parameters])

    def _integrate_sensitivities(self, u0: Any, start: float, times: Any, parameters: Sequence[Any]) -> Any:
        """Return the solution and its sensitivities at the times, which go up or down from the start."""
        n, calls = np.size(self.parts(parameters)[1]), 0

        def slope(t: float, u: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > _MOST_CALLS:
                says = f"the sensitivities of {self.name} take more than {_MOST_CALLS:,} evaluations"
                raise NotSupported(says, do="check it over a shorter time")
            found, (by_y, *by_each) = self._slope_and_jacobians(t, u[:n], parameters)
            return np.concatenate([found, np.ravel(by_y @ u[n:].reshape(n, -1) + np.concatenate(by_each, axis=1))])

        if not times.size or np.all(times == start):
            return np.repeat(u0[:, None], times.size, axis=1)
        method = "LSODA" if self.stiff else "DOP853"
        span = (start, float(times[-1]))
        found = _scipy_integrate().solve_ivp(slope, span, u0, method=method, t_eval=times, rtol=_RTOL, atol=_ATOL)
        if not found.success:
            raise NoRule(f"{self.name} has no sensitivities: {found.message}", do="check it over a shorter time")
        return found.y


def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None, dense_output: bool = False,
    events: Any = None, vectorized: bool = False, args: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Return scipy's result with a traced `y`, and with a traced `sol` where it is dense.

    Raises  NoRule with events, or where the solver does not reach the end.
    """
    name = "scipy.integrate.solve_ivp"
    if events is not None:
        raise NoRule(f"{name} with events= has no derivative rule", do="solve up to a fixed time")
    whole = Captured((fun, y0, tuple(args or ()), t_span, t_eval, options))
    plain = whole.rebuilt([plain_value(x) for x in whole.leaves])

    def called(parts: Any, dense: bool = False) -> Any:
        fun, y0, args, span, times, options = parts
        span = tuple(float(plain_value(t)) for t in span)
        y0 = np.asarray(y0, dtype=float)
        return _scipy_integrate().solve_ivp(
            refuse_tracers(fun), span, y0, method, times, dense, None, vectorized, args or None, **options
        )

    found = called(plain, dense_output)
    if not found.success:
        raise NoRule(f"{name} failed: {found.message}", do="change the method or the time span")

    def at_times(fun: Any, y0: Any, args: Any, start: Any, times: Any) -> Any:
        times = np.ravel(np.asarray(times, dtype=float))
        later = max if (end := float(plain_value(t_span[1]))) >= float(start) else min  # a time may lie beyond the span
        return called((fun, y0, args, (start, later(end, float(times[-1]))), times, plain[5])).y

    def at_steps(fun: Any, y0: Any, args: Any, start: Any, times: Any) -> Any:
        times = np.ravel(np.asarray(times, dtype=float))
        again = called((fun, y0, args, (start, times[-1]), None, plain[5]), dense=True)
        if again.t.shape == times.shape:
            return again.y
        return np.concatenate([again.sol(np.minimum(times[:-1], times[-1])), again.y[:, -1:]], axis=1)

    def trajectory(times: Any, solver: Callable[..., Any] = at_times) -> Value:
        parts = (fun, y0, tuple(args or ()), t_span[0], times)
        return Trajectory(name, parts, solver, stiff=method in _STIFF).traced()

    result = copy.copy(found)
    if t_eval is not None:
        result["y"] = trajectory(t_eval)
    else:
        result["y"] = trajectory(np.concatenate([found.t[:-1], np.reshape(as_value(t_span[1]), (1,))]), at_steps)

    def dense(t: Any) -> Value:  # at one time or at several, which need not be in order
        t = as_value(t)
        row = np.reshape(t, (-1,))
        order = np.argsort(plain_value(row), kind="stable")
        y = trajectory(row[order])[:, np.argsort(order)]
        return y if np.ndim(plain_value(t)) else y[:, 0]

    if dense_output:
        result["sol"] = dense
    return result


def odeint(*given: Any, **named: Any) -> Any:
    """Return the solution at the times, one row each; the first time is that of the start."""
    func, y0, t, args, options = _bind("odeint", ("func", "y0", "t"), given, named)
    if options.get("full_output") or options.get("Dfun") is not None:
        raise NoRule("scipy.integrate.odeint with full_output= or Dfun= is not traced", do="leave them out")

    def solver(fun: Any, y0: Any, args: Any, start: Any, times: Any) -> Any:
        y0, times = np.ravel(np.asarray(y0, dtype=float)), np.asarray(times, dtype=float)
        return _scipy_integrate().odeint(refuse_tracers(fun), y0, times, args, **options).T

    times = as_value(t)
    structure, time_first = (func, y0, args, times[0], times), bool(options.get("tfirst"))
    return np.transpose(Trajectory("scipy.integrate.odeint", structure, solver, time_first, stiff=True).traced())


class Integral(Parametrised):
    """The integral of func(x, *args) from a to b; `structure` is (func, a, b, args)."""

    def __init__(self, name: str, structure: Any, solver: Callable[..., Any], breaks: Any = None) -> None:
        def integrate(parts: Any) -> Any:
            y, self.estimated = solver(*parts)
            return y

        super().__init__(name, structure, integrate)
        self.breaks, self.estimated = breaks, 0.0

    def derivative(self, solution: Any, parameters: Sequence[Any]) -> tuple[list[Any], float]:
        sizes = [np.size(x) for x in parameters]
        _, a, b, _ = self.parts(parameters)
        estimated, calls = self.estimated, 0

        def integrand(x: float) -> Any:
            nonlocal calls
            calls += 1
            if calls > _MOST_CALLS:
                says = f"the derivative of {self.name} takes more than {_MOST_CALLS:,} evaluations"
                raise NotSupported(says, do="split the interval")
            return np.concatenate(self._integrand_and_jacobians(x, parameters)[1], axis=1)

        integrate = _scipy_integrate().quad_vec
        found, error, *_ = integrate(integrand, float(a), float(b), epsabs=1e-12, epsrel=1e-10, points=self.breaks)
        for part, sign, end in ((1, -1.0, a), (2, 1.0, b)):
            if Captured(self.captured.structure[part]).leaves:
                _, by_end = self.jacobian_of_part(part, parameters)
                found = found + sign * np.outer(self._integrand_and_jacobians(float(end), parameters)[0], by_end)
        size = max(float(np.max(np.abs(found), initial=0.0)), 1e-300)
        error = max(_AMPLIFIED * relative_error(estimated, solution), error / size)
        return np.split(found, np.cumsum(sizes)[:-1], axis=1), error + 1e-10

    def _integrand_and_jacobians(self, x: float, parameters: Sequence[Any]) -> tuple[Any, list[Any]]:
        def called(*xs: Value) -> Value:
            func, _, _, args = self.parts(xs)
            return as_value(func(x, *args))

        return self.jacobians(called, parameters)


def quad(*given: Any, **named: Any) -> Any:
    """Return the integral and scipy's estimate of its error."""
    func, a, b, args, options = _bind("quad", ("func", "a", "b"), given, named)
    if options.get("weight") is not None or options.get("full_output") or options.get("complex_func"):
        says = "scipy.integrate.quad with weight=, full_output= or complex_func= is not traced"
        raise NoRule(says, do="multiply the function by the weight")

    def solver(func: Any, a: Any, b: Any, args: Any) -> Any:
        return _scipy_integrate().quad(refuse_tracers(func), float(a), float(b), args, **options)

    made = Integral("scipy.integrate.quad", (func, a, b, args), solver, options.get("points"))
    return made.traced(), made.estimated


def quad_vec(*given: Any, **named: Any) -> Any:
    """Return the integral of a function whose values are arrays, and scipy's estimate of its error."""
    f, a, b, args, options = _bind("quad_vec", ("f", "a", "b"), given, named)

    def solver(f: Any, a: Any, b: Any, args: Any) -> Any:
        found = _scipy_integrate().quad_vec(refuse_tracers(f), float(a), float(b), args=args, **options)
        return np.asarray(found[0], dtype=float), found[1]

    made = Integral("scipy.integrate.quad_vec", (f, a, b, args), solver, options.get("points"))
    return made.traced(), made.estimated


_INTEGRATE: dict[str, Callable[..., Any]] = {
    "solve_ivp": solve_ivp,
    "odeint": odeint,
    "quad": quad,
    "quad_vec": quad_vec,
}


# scipy.optimize: roots and minima by the implicit function theorem.
#
# Source  F(x, p) = 0 defines x as a function of p with the derivative -F_x^-1 F_p; at a minimum, F is the gradient by x.

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


_OPTIMIZE: dict[str, Callable[..., Any]] = {
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


FUNCTIONS = {"integrate": _INTEGRATE, "optimize": _OPTIMIZE}
