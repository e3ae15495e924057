"""scipy.integrate: initial value problems by forward sensitivities, and integrals by the integral of the derivative.

Source  Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.14; Leibniz's rule.
"""

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule, NotSupported
from gradcli.rules.shaping import as_value
from gradcli.targets.solver_tolerances import arguments_by_name
from gradcli.targets.solvers.equation import Parametrised, refuse_tracers, relative_error
from gradcli.tracing.captured import Captured
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import plain_value

_RTOL, _ATOL = 1e-9, 1e-11  # of the sensitivities
_MOST_CALLS = 20_000  # of the right-hand side, or of an integrand, with its Jacobian
_STIFF = ("Radau", "BDF", "LSODA")
_AMPLIFIED = 3.0  # the derivative of a solver's result may be off by so much more than the result


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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "solve_ivp": solve_ivp,
    "odeint": odeint,
    "quad": quad,
    "quad_vec": quad_vec,
}
