"""Second derivatives of a function that can only be called: second differences of its values."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from gradcli.errors import NotSupported
from gradcli.modes.problem import (
    DEFAULT_STEPPING,
    MOST_EVALUATIONS,
    WITHOUT_LIMITS,
    Budget,
    OverBudget,
    Problem,
    Stepping,
)
from gradcli.modes.rounding import EPS
from gradcli.modes.steps import Line, derivative, second_derivative
from gradcli.request.point import Array, Cost, Estimate, Point
from gradcli.targets.derived import STEP, Along, Gradient, SumOfEntries
from gradcli.targets.facts import Function
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import end_to_end, shape, size, split_like
from gradcli.tracing.tracer import Tracer

CALLS = 38  # for one second derivative: of the difference itself 24, and 14 to see whether f bends
_ONE_SIDED = (1e-2, 1e-3)  # steps, over the entries' sizes
_APART = 1e-3  # of the second derivative: a smaller distance of the two sides is no kink
_ROUNDINGS = 100.0


class GradientByValues(Gradient):
    """The gradient of a function that cannot be traced, by differences; `ended` is the error that ended its trace.

    Only its value and its shape are used: its Jacobian comes from second differences of the function.

    Shapes  the value is (n,), n the number of entries of all inputs in `wrt`.
    """

    def __init__(self, f: Function, wrt: tuple[str, ...], values: Mapping[str, Value], ended: NotSupported) -> None:
        super().__init__(f, wrt, values)
        self.ended = ended
        self.stepping = DEFAULT_STEPPING  # the user's bounds, once they are known

    def __call__(self, values: Mapping[str, Value]) -> Value:
        if any(isinstance(x, Tracer) for x in values.values()):
            raise self.ended
        line = _Lines(self, values)
        found = [derivative(Line(partial(line, unit)), typical=1.0) for unit in np.eye(len(line.x))]
        return np.array([float(d.value) for d in found])


class _Lines:
    """The function along lines through a point, whose entries form one vector; nan where it raises."""

    def __init__(
        self, gradient: GradientByValues, values: Mapping[str, Value], budget: Budget = WITHOUT_LIMITS
    ) -> None:
        known = {name: x for name, x in values.items() if name != STEP}
        self._problem = Problem(gradient.f, Point(known), gradient.wrt, budget=budget, stepping=gradient.stepping)
        self.x = end_to_end(self._problem.xs)

    def __call__(self, v: Array, t: float) -> float:
        return float(self._problem.near(*split_like(self.x + t * v, self._problem.xs)))


def _refuse_many(n: int, for_each: int, budget: int | None) -> None:
    """Raise OverBudget where second differences, so many for each of n entries, take too many evaluations."""
    calls, most = for_each * n * CALLS, budget or MOST_EVALUATIONS
    if calls > most:
        says = f"second differences by {n} entries would take about {calls:,} evaluations, more than the budget of {most:,}"
        raise OverBudget(says, do=f"--budget {calls}, or your gradient beside it: --grad g --hess h")


def hessian_by_values(f: Function, values: Mapping[str, Value], stepping: Stepping, budget: Budget) -> Estimate:
    """Return the Hessian of a function that can only be called, its diagonal, or the product of the Hessian and v.

    Shapes  one array (n, *shape of the input) for each input, n the number of all entries; the product is (n,), and the
            diagonal has the shape of each input.
    Error   the spread of extrapolants, and noise; estimated.
    Cost    38 evaluations for each entry of the diagonal and 76 for each other entry on one side of it; for a product with
            v, 76 for each entry.
    Raises  OverBudget if that is too much; TypeError if `f` is not a gradient by values, or one along v.
    """
    gradient = f.f if isinstance(f, Along | SumOfEntries) else f
    if not isinstance(gradient, GradientByValues):
        raise TypeError("only a gradient by values has second differences")
    line = _Lines(gradient, values, budget)
    scales = end_to_end([stepping.sizes(name, values[name]) for name in gradient.wrt])
    for_each = 2 if isinstance(f, Along) else 1 if isinstance(f, SumOfEntries) else len(scales)
    _refuse_many(len(scales), for_each, stepping.budget)
    units = np.diag(scales)
    calls = 0

    def curvature(v: Array) -> Array:
        nonlocal calls
        calls += CALLS
        found = second_derivative(partial(line, v))
        return np.array([float(found.value), np.inf if _is_bent(partial(line, v)) else float(found.bound)])

    def mixed(u: Array, v: Array) -> Array:
        plus, minus = curvature(u + v), curvature(u - v)
        return np.array([plus[0] - minus[0], plus[1] + minus[1]]) / 4

    with np.errstate(all="ignore"):
        if isinstance(f, Along):
            v = end_to_end([f.v[name] for name in gradient.wrt])
            found = np.array([mixed(u, v) / scale for u, scale in zip(units, scales, strict=True)])
            value, bound = {STEP: found[:, 0]}, {STEP: found[:, 1]}
        elif isinstance(f, SumOfEntries):
            alone = np.array([curvature(u) / scale**2 for u, scale in zip(units, scales, strict=True)])
            like = [np.asarray(values[name]) for name in gradient.wrt]
            value, bound = (dict(zip(gradient.wrt, split_like(part, like), strict=True)) for part in alone.T)
        else:
            whole = np.zeros((len(scales), len(scales), 2))
            for i, u in enumerate(units):
                whole[i, i] = curvature(u) / scales[i] ** 2
                for j in range(i):
                    whole[i, j] = whole[j, i] = mixed(u, units[j]) / (scales[i] * scales[j])
            value, bound = (_blocks(whole[..., k], gradient, values) for k in (0, 1))
    return Estimate(value, bound, statistical=True, cost=Cost(evaluations=calls))


def _is_bent(phi: Callable[[float], float]) -> bool:
    """Whether the one-sided second differences do not approach each other as steps shrink; symmetric ones hide this."""
    apart, size = [], 0.0
    for h in _ONE_SIDED:
        sides = [(phi(2 * s * h) - 2 * phi(s * h) + phi(0.0)) / h**2 for s in (1.0, -1.0)]
        apart.append(abs(sides[0] - sides[1]))
        size = max(map(abs, sides))
    rounding = _ROUNDINGS * EPS * max(abs(phi(0.0)), abs(phi(h))) / h**2
    return apart[1] > max(apart[0] / 2, _APART * size, rounding)


def _blocks(h: Array, gradient: Gradient, values: Mapping[str, Value]) -> dict[str, Array]:
    """Return a Hessian of all entries as the Jacobian of the gradient, split by input."""
    ends = np.cumsum([size(values[name]) for name in gradient.wrt])
    parts = np.split(h, ends[:-1], axis=1)
    return {
        name: np.reshape(part, (len(h), *shape(values[name]))) for name, part in zip(gradient.wrt, parts, strict=True)
    }
