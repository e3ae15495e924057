"""What all equations share: their parameters, found in what the user passes, and the Jacobians of the user's functions."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import GradcliError, NoRule, TraceEnded
from gradcli.rules.decompositions import SOLUTION
from gradcli.rules.shaping import as_value
from gradcli.targets.replacement_scope import stand_ins, users_modules, without_tracing
from gradcli.targets.solver_tolerances import watch_solvers
from gradcli.tracing.captured import Captured
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import Tracer, plain_value

LEAST_ERROR = 1e-12  # relative: of a solver whose residual is zero up to rounding
_AMPLIFIED = 3.0  # the derivative may be off by so much more than the functions that it is made of
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
