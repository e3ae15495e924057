"""Function values alone: finite differences of the untouched function, their schemes, and complex steps."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jacobian_from_columns, unit_directions
from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, NotSupported, OutOfTime, TraceDiffers
from gradcli.frameworks.framework import EPS as EPS_OF_FORMAT
from gradcli.frameworks.native import native_of
from gradcli.modes.difference_steps import (
    TAME,
    Difference,
    FunctionNoise,
    Line,
    derivative,
    estimate_noise,
    rough_part,
    second_derivative,
    spacing_of_values,
    widen_zeros,
)
from gradcli.modes.kinks import refuse_undefined
from gradcli.modes.mode import Available, Question
from gradcli.modes.recording import MOST_EVALUATIONS, TRACED, WITHOUT_LIMITS, Budget, OverBudget, Problem, ValueChanged
from gradcli.modes.rounding import EPS
from gradcli.request.point import DEFAULT_STEPPING, Array, Estimate, EstimateCost, Point, Slopes, Stepping, Witness
from gradcli.targets.derived import STEP, Along, Gradient, SumOfEntries, inner_gradient, original_function
from gradcli.targets.facts import Function
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import concatenate_entries, shape, split_like
from gradcli.tracing.tracer import Tracer

# Difference schemes, and the step at which the theory of each balances truncation and rounding error.
#
# With h the step, e the rounding error of one value of f, and f(k) its k-th derivative, the error of a scheme of order p is
#
#     c |f(k)| h^p + r e / h,    least at  h = (r e / (p c |f(k)|))^(1/(p+1)),  where it is  (1 + p) c |f(k)| h^p.

Rounded = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to estimate f' from values at x + o h, for its offsets o.

    `terms` are `(o, o', w)` for w (f(x + o h) - f(x + o' h)); their sum is divided by `over` h. `order`, `derivative`, `c`
    and `r` are p, k, c and r of the law above.
    """

    name: str
    terms: tuple[tuple[float, float, float], ...]
    over: float
    order: int
    derivative: int
    c: float
    r: float
    imaginary: bool = False

    @property
    def offsets(self) -> frozenset[float]:
        """The places, in steps, at which the scheme needs f."""
        return frozenset(o for up, down, _ in self.terms for o in (up, down))

    def quotient(self, values: Mapping[float, Any], h: Any, rounded: Rounded) -> Any:
        """Return the estimates, each operation rounded by `rounded`; `values[o]` are f(x + o h) for the steps `h`."""
        total: Any = None
        for up, down, weight in self.terms:
            part = rounded(values[up] - values[down])
            part = part if weight == 1 else rounded(weight * part)
            total = part if total is None else rounded(total + part)
        return rounded(total / (h if self.over == 1 else rounded(self.over * h)))

    def predicted(self, e: float, derivatives: Mapping[int, float]) -> tuple[float, float] | None:
        """Return the best step and its error; None if f(k) or the rounding error is zero, or f(k) is unknown."""
        size = self.c * derivatives.get(self.derivative, 0.0)
        if size == 0 or e == 0 or not self.r:
            return None
        h = (self.r * e / (self.order * size)) ** (1 / (self.order + 1))
        return h, (1 + self.order) * size * h**self.order

    @property
    def symbol(self) -> str:
        """The derivative f(k) of the error law as text: f'', f''' or f(5)."""
        return "f" + "'" * self.derivative if self.derivative <= 3 else f"f({self.derivative})"

    def law(self) -> str:
        """Return the formula of the best step."""
        inside = f"{self.r / (self.order * self.c):.4g} e/|{self.symbol}|"
        return f"({inside})^(1/{self.order + 1})"


# fmt: off
SCHEMES = (
    #      name          terms                                        over  order  f(k)   c      r
    Scheme("forward",    ((1, 0, 1),),                                 1,    1,     2,   1/2,   2),
    Scheme("backward",   ((0, -1, 1),),                                1,    1,     2,   1/2,   2),
    Scheme("central",    ((1, -1, 1),),                                2,    2,     3,   1/6,   1),
    Scheme("5-point",    ((1, -1, 8), (2, -2, -1)),                   12,    4,     5,   1/30,  3/2),
    Scheme("7-point",    ((1, -1, 45), (2, -2, -9), (3, -3, 1)),      60,    6,     7,   1/140, 11/6),
    Scheme("richardson", ((.5, -.5, 8), (1, -1, -1)),                  6,    4,     5,   1/480, 3),
    Scheme("complex",    (),                                           1,    2,     3,   1/6,   0, imaginary=True),
)
# fmt: on
ONE_SIDED = ("forward", "backward")
USUAL = tuple(scheme.name for scheme in SCHEMES if scheme.name != "backward")
_BY_NAME = {scheme.name: scheme for scheme in SCHEMES}

#                   weights of f(x + k h), k from -4 to 4, for h^k f(k)
STENCILS: dict[int, tuple[float, ...]] = {
    2: (0, 0, 0, 1, -2, 1, 0, 0, 0),
    3: (0, 0, -0.5, 1, 0, -1, 0.5, 0, 0),
    5: (0, -0.5, 2, -2.5, 0, 2.5, -2, 0.5, 0),
    7: (-0.5, 3, -7, 7, 0, -7, 7, -3, 0.5),
}


def parse_schemes(text: str | None) -> tuple[Scheme, ...]:
    """Return the schemes that a list separated by commas names; unique prefixes will do. Raises BadOption."""
    if text is None:
        return tuple(_BY_NAME[name] for name in USUAL)
    found: list[Scheme] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        fits = [part] if part in _BY_NAME else [name for name in _BY_NAME if name.startswith(part)]
        if len(fits) != 1:
            raise BadOption(f"there is no scheme '{part}'", do=f"schemes: {', '.join(_BY_NAME)}")
        found += [_BY_NAME[fits[0]]]
    if not found:
        raise BadOption("--schemes names none", do=f"schemes: {', '.join(_BY_NAME)}")
    return tuple(dict.fromkeys(found))


# Slopes of noisy curves on logarithmic axes.


def log_slope(x: Any, y: Any) -> float | None:
    """Return the exponent p of y ~ x^p: the median of the slopes between all pairs of points; None for fewer than three.

    Source  Theil (1950) and Sen (1968): a few outliers do not change this slope.
    """
    x, y = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 3:
        return None
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] != x[i]
    return float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])) if np.any(apart) else None


def median_of_neighbours(x: Any) -> Any:
    """Return the median of each value of a curve and its two neighbours, so that a single lucky point has no effect.

    Shapes  as x; curves lie along the last axis.
    """
    padded = np.concatenate([x[..., :1], x, x[..., -1:]], axis=-1)
    return np.median(np.stack([padded[..., :-2], padded[..., 1:-1], padded[..., 2:]]), axis=0)


# The mode of finite differences.

CALLS = 21  # for each entry, about: from 14 for a smooth function to over 100
MANY = 50  # entries: if there are more, fine structure is searched for along random directions
_DIRECTIONS = 2
_FURTHER = (-1e-4, 1e-3)  # relative to the entries: where f is looked at if it does not change nearer to the point
_LEFT = 0.03  # of what smaller tolerances change of f: the noise that they may leave
_MANY_STEPS = 1e4  # times the distances at which noise is sampled: so far apart float32 has hundreds of numbers
_SAFETY = 3.0  # times what smaller tolerances of solvers change: what still smaller ones may change at other steps


# Second derivatives of a function that can only be called: second differences of its values.

CALLS_OF_A_SECOND_DERIVATIVE = 38  # of the difference itself 24, and 14 to see whether f bends
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

    def __init__(self, by: GradientByValues, values: Mapping[str, Value], budget: Budget = WITHOUT_LIMITS) -> None:
        known = {name: x for name, x in values.items() if name != STEP}
        self._problem = Problem(by.f, Point(known), by.wrt, budget=budget, stepping=by.stepping)
        self.x = concatenate_entries(self._problem.xs)

    def __call__(self, v: Array, t: float) -> float:
        return float(self._problem.near(*split_like(self.x + t * v, self._problem.xs)))


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
    scales = concatenate_entries([stepping.sizes_of_entries(name, values[name]) for name in gradient.wrt])
    n, most = len(scales), stepping.budget or MOST_EVALUATIONS
    calls = n * (2 if isinstance(f, Along) else 1 if isinstance(f, SumOfEntries) else n) * CALLS_OF_A_SECOND_DERIVATIVE
    if calls > most:
        says = f"second differences by {n} entries would take about {calls:,} evaluations, more than the budget of {most:,}"
        raise OverBudget(says, do=f"--budget {calls}, or your gradient beside it: --grad g --hess h")
    units, like = np.diag(scales), [np.asarray(values[name]) for name in gradient.wrt]

    def curvature(v: Array) -> Array:
        found = second_derivative(partial(line, v))
        return np.array([float(found.value), np.inf if _has_curvature_jump(partial(line, v)) else float(found.bound)])

    def mixed(u: Array, v: Array) -> Array:
        plus, minus = curvature(u + v), curvature(u - v)
        return np.array([plus[0] - minus[0], plus[1] + minus[1]]) / 4

    with np.errstate(all="ignore"):
        if isinstance(f, Along):
            v = concatenate_entries([f.v[name] for name in gradient.wrt])
            found = np.array([mixed(u, v) / scale for u, scale in zip(units, scales, strict=True)])
            value, bound = {STEP: found[:, 0]}, {STEP: found[:, 1]}
        elif isinstance(f, SumOfEntries):
            alone = np.array([curvature(u) / scale**2 for u, scale in zip(units, scales, strict=True)])
            value, bound = (dict(zip(gradient.wrt, split_like(part, like), strict=True)) for part in alone.T)
        else:
            whole = np.zeros((n, n, 2))
            for i, u in enumerate(units):
                whole[i, i] = curvature(u) / scales[i] ** 2
                for j in range(i):
                    whole[i, j] = whole[j, i] = mixed(u, units[j]) / (scales[i] * scales[j])
            parts = np.split(whole, np.cumsum([x.size for x in like])[:-1], axis=1)
            value, bound = (
                {
                    name: np.reshape(part[..., k], (n, *x.shape))
                    for name, x, part in zip(gradient.wrt, like, parts, strict=True)
                }
                for k in (0, 1)
            )
    return Estimate(value, bound, statistical=True, cost=EstimateCost(evaluations=calls))


def _has_curvature_jump(phi: Callable[[float], float]) -> bool:
    """Whether the one-sided second differences do not approach each other as steps shrink; symmetric ones hide this."""
    apart, size = [], 0.0
    for h in _ONE_SIDED:
        sides = [(phi(2 * s * h) - 2 * phi(s * h) + phi(0.0)) / h**2 for s in (1.0, -1.0)]
        apart.append(abs(sides[0] - sides[1]))
        size = max(map(abs, sides))
    rounding = _ROUNDINGS * EPS * max(abs(phi(0.0)), abs(phi(h))) / h**2
    return apart[1] > max(apart[0] / 2, _APART * size, rounding)


class FiniteDifference:
    """Central differences with Richardson extrapolation; step and error bound from estimated noise and truncation."""

    name = "finite-difference"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by differences.

        Error   estimated; it does not include structure of f that noise hides. It includes what smaller tolerances of
                solvers in f change.
        Cost    for each entry, 14 to 18 evaluations of a smooth function and 43 or more of another; 8 less if there are
                many entries and no fine structure. 9 in addition, and more if f looks noisy.
        Raises  NotRun, OverBudget if that is too much; ValueChanged if f is not traced, looks noisy, and has another value
                when it is called again; TraceDiffers if the recorded program is not the function.
        """
        if isinstance(inner_gradient(q.f), GradientByValues):
            return hessian_by_values(q.f, q.point.values, q.stepping, q.budget)
        self.affordable(q)
        if q.untraced is None and q.trace_test.agrees is False:
            raise TraceDiffers("the trace differs from the function")  # the caller asks again, without a trace
        value: dict[str, Array] = {}
        bound: dict[str, Array] = {}
        slopes: dict[str, Slopes] = {}
        with np.errstate(all="ignore"):
            entries, most = q.entries, q.stepping.budget or np.inf
            noise, looks, calls = measure_noise(q, most - TAME * entries)
            calls += _require_same_value(q, noise.seen) if q.untraced is not None else 0
            differences: dict[str, list[Difference]] = {}
            for k, name in enumerate(q.wrt):
                found = differences[name] = []
                for at in np.ndindex(shape(q.xs[k])):
                    entries -= 1
                    left = most - calls - TAME * entries
                    found.append(self.entry(q, k, at, noise, looks, left))
                    calls += found[-1].calls
                    if not looks and q.solver_changes is None and _is_off_program_slope(q, name, at, found[-1]):
                        found[-1] = self.entry(q, k, at, noise, True, left - found[-1].calls)
                        calls += found[-1].calls
            if q.untraced is not None and any(differences.values()):
                widened = iter(widen_zeros([d for found in differences.values() for d in found]))
                differences = {name: [next(widened) for _ in found] for name, found in differences.items()}
            for k, (name, found) in enumerate(differences.items()):
                value[name] = jacobian_from_columns([d.value for d in found], q.value, q.xs[k])
                bound[name] = jacobian_from_columns([d.bound for d in found], q.value, q.xs[k])
                if any(np.any(d.kinked | np.isfinite(d.other)) for d in found):
                    slopes[name] = _collect_slopes(found, q.value, q.xs[k])
            if q.untraced is None and q.affords_slopes:
                # the values of an ill-conditioned f are those of a slightly different f
                bound = {name: b + q.rounding[name] for name, b in bound.items()}
            solvers: dict[str, Array] = {}
            if (changes := q.solver_changes) is not None:
                solvers = {name: _SAFETY * changes.of(name, g) for name, g in value.items()}
                bound = {name: b + solvers[name] for name, b in bound.items()}
                calls += changes.evaluations
        cost = EstimateCost(evaluations=calls, operations=calls * q.operations)
        return Estimate(value, bound, statistical=True, cost=cost, slopes=slopes, solvers=solvers)

    def affordable(self, q: Question) -> None:
        """Raise NotRun if the entries would take too many evaluations, or too much work."""
        calls = q.entries * CALLS
        budget = q.stepping.budget or (MOST_EVALUATIONS if q.untraced is not None else calls)
        if calls > budget:
            says = f"{q.entries:,} entries would take about {calls:,} evaluations, more than the budget of {budget:,}"
            raise OverBudget(says, do=f"--budget {calls}")
        if q.untraced is None:
            q.budget.admit(calls * q.work, f"{calls:,} evaluations of f")

    def entry(
        self, q: Question, k: int, at: tuple[int, ...], noise: FunctionNoise, looks: bool, most: float
    ) -> Difference:
        """Return the derivative with respect to one entry, with at most `most` calls; `looks` is that of measure_noise."""
        x = q.xs[k]

        def phi(t: float) -> Any:
            moved = np.array(x)
            moved[at] += t
            xs = list(q.xs)
            xs[k] = moved[()]
            return q.near(*xs)

        name = q.wrt[k]
        low, high = q.stepping.edges_of(name)
        line = Line(phi, float(np.asarray(x)[at]), low, high, at=q.value, most=most)
        return derivative(
            line, float(np.median(np.abs(x))), noise,
            h=q.stepping.h, size=q.stepping.scales.get(name), looks=looks,
        )  # fmt: skip


def _require_same_value(q: Question, noise: Any) -> int:
    """Call a function again at the point if noise hides half of the digits of its format; return how many calls were made.

    Raises ValueChanged if the value has changed by as much; FunctionFailed if there is none now.
    """
    native = native_of(original_function(q.f))
    eps = EPS if native is None else EPS_OF_FORMAT[native.values_format]
    most = float(np.sqrt(eps) * np.max(np.abs(q.value), initial=0.0))
    if float(np.max(noise, initial=0.0)) <= most:
        return 0
    again = q.g(*q.xs)
    if shape(again) != shape(q.value) or not float(np.max(np.abs(again - q.value), initial=0.0)) <= most:
        raise ValueChanged(
            "another call with the same arguments gives another value", do="let it depend on its arguments alone"
        )
    return 1


def _is_off_program_slope(q: Question, name: str, at: tuple[int, ...], found: Difference) -> bool:
    """Whether a difference is not the slope of the recorded program, so that fine structure is worth looking for."""
    if q.untraced is not None or not q.affords_slopes:
        return False
    apart = np.abs(found.value - q.slopes[name][(..., *at)])
    return bool(np.any(apart > found.bound + q.rounding[name][(..., *at)]))


def _collect_slopes(found: list[Difference], y: Array, x: Array) -> Slopes:
    parts = {f.name: [np.broadcast_to(getattr(d, f.name), np.shape(y)) for d in found] for f in fields(Slopes)}
    return Slopes(**{name: jacobian_from_columns(columns, y, x) for name, columns in parts.items()})


def measure_noise(q: Question, most: float) -> tuple[FunctionNoise, bool, int]:
    """Return the noise of f along a random direction in proportion to the entries, whether it `looks`, and the calls made.

    The floor of the noise is what f is known to have: by its recorded run, or by the spacing of its values. `looks` says
    whether each entry is searched for structure finer than the steps of differences. It is set if there is such structure
    along the direction, and for a function with few entries that cannot be traced; never where f calls a solver, whose
    steps make such structure.

    Cost    9 calls; if f looks noisier than rounding and `most` allows, 28 more, and up to 106 for each of six entries of
            the output; for many entries of a function that cannot be traced, two differences.
    """
    rng = np.random.default_rng([q.seed, 0x4015E])

    def line(most: float) -> Line:
        vs = []
        for name, x in zip(q.wrt, q.xs, strict=True):
            v = rng.choice([-1.0, 1.0], shape(x)) * q.stepping.sizes_of_entries(name, x)
            vs.append(q.stepping.turn_inward(name, x, v))

        def phi(t: float) -> Any:
            return q.near(*[x + t * v for x, v in zip(q.xs, vs, strict=True)])

        return Line(phi, at=q.value, most=most)

    along = line(most)
    floor = q.noise_floor if q.untraced is None else _coarse_spacing(along)
    seen = np.maximum(floor, estimate_noise(along, 1.0))
    native = native_of(original_function(q.f)) if q.untraced is not None else None
    if native is not None and native.values_format != "float64":  # what it computes in between moves by steps of that
        floor = seen = np.maximum(seen, estimate_noise(along, _MANY_STEPS))
    if q.solver_changes is not None:
        seen = np.maximum(seen, _LEFT * q.solver_changes.error)
        return FunctionNoise(floor, seen, seen), False, along.calls
    noise, fine, calls = FunctionNoise(floor, seen, rough_part(along, seen)), False, along.calls
    for _ in range(_DIRECTIONS if q.untraced is not None and q.entries > MANY else 0):
        found = derivative(line(most - calls), noise=noise)
        calls += found.calls
        fine |= bool(np.any(found.kinked | (np.isfinite(found.other) & ~found.jumps)))
    few = q.untraced is not None and q.entries <= MANY
    return noise, fine or few or bool(np.any(noise.rough < seen)), calls


def _coarse_spacing(along: Line) -> Any:
    """Return the spacing of f's values, by those that are known along a line, where it is coarser than that of float64.

    Cost    2 calls if all known values are equal.
    """
    if len(along.seen) > 1 and all(np.array_equal(y, along.at) for y in along.seen.values()):
        for t in _FURTHER:
            along(t)
    values = np.stack([along.at, *along.seen.values()])
    found = spacing_of_values(values)
    return np.where(found > EPS * np.max(np.abs(values), axis=0), found, 0.0)


# The complex step: Im f(x + i h) / h, where the function is analytic and accepts complex numbers.

_SAME = 1e-9  # of f: how near its real part must stay to its value for real numbers
_AT_ZERO = 1e-3  # the size assumed for an entry of 0
_LEAST = 1e-250  # the least size of an entry: the step for a smaller one would lose its digits
_MOVED = 1e-3  # of the entry's size: how far it is moved to see whether f depends on it at all
H = 2.0**-66  # of the entry's size: nothing is subtracted, so the step can be far below rounding


class ComplexStep:
    """One complex evaluation for each entry of the inputs.

    Source  Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.
    """

    name = "complex-step"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by complex steps.

        Error   rounding, as for the sweeps of other modes; truncation is below it.
        Cost    one complex evaluation for each entry of the inputs.
        Raises  NotSupported if an operation is not analytic or does not take complex numbers; NotRun, Undecided.
        """
        q.refuse_untraced()
        refuse_undefined(q.value)
        if inner_gradient(q.f) is not None:
            raise NotSupported("gradcli's gradient is made for real numbers")
        self.refuse_if_not_analytic(q)
        value: dict[str, Array] = {}
        count = 0
        q.budget.admit(TRACED * q.entries * q.work, f"{q.entries:,} evaluations with complex numbers")
        for k, name in enumerate(q.wrt):
            columns = []
            for direction in unit_directions(q.xs[k]):
                columns.append(self._derivative_along(q, k, direction))
            count += len(columns)
            value[name] = jacobian_from_columns(columns, q.value, q.xs[k])
        # complex functions take more operations than real ones; truncation is of the order of H squared
        loss = max((p.complex_loss for p, *_ in q.program_lines if p is not None), default=0.0)
        largest = max((float(np.max(np.abs(x), initial=0.0)) for x in q.xs), default=1.0)
        truncation = float(np.max(np.abs(q.value), initial=0.0)) / max(1e-3, largest)  # in f per unit of its inputs
        least = (H**1.5 + loss) * q.largest_adjoint + H**1.5 * truncation
        bound = {name: 4 * b + least + loss * np.abs(value[name]) for name, b in q.rounding.items()}
        cost = EstimateCost(evaluations=count, operations=4 * q.operations * count)
        return Estimate(value, bound, statistical=q.rounding_is_estimated, cost=cost)

    def refuse_if_not_analytic(self, q: Question) -> None:
        """Raise NotSupported if an operation on the path has no complex derivative, or none that its values show."""
        for primitive, _, _, _, params, position in (*q.program_lines, *q.program.tape.decisions):
            if primitive is not None and not primitive.analytic:
                raise NotSupported(f"{primitive.title(params)} is not analytic", where=place_of_position(position))
            if primitive is not None and primitive.complex_loss >= 1.0:
                says = f"{primitive.title(params)} rounds small imaginary parts away"
                raise NotSupported(says, where=place_of_position(position))

    def _derivative_along(self, q: Question, k: int, direction: Array) -> Array:
        size = float(np.max(np.abs(q.xs[k] * direction)))
        if 0 < size < _LEAST:
            raise NotSupported(f"an entry of {size:.1e} is too small to step from with complex numbers")
        h = float(np.exp2(np.rint(np.log2(H * (size or _AT_ZERO)))))  # of 2: imaginary parts round as derivatives do
        xs = list(q.xs)
        xs[k] = q.xs[k] + 1j * h * direction
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                y = np.asarray(q.g(*xs))
            except OutOfTime:
                raise
            except (GradcliError, TypeError, np.exceptions.ComplexWarning) as error:
                what = getattr(error, "what", str(error)).split("\n")[0]
                raise NotSupported(f"the function does not take complex numbers: {what[:120]}") from None
        if not np.iscomplexobj(y) and np.size(y):
            xs[k] = q.xs[k] + _MOVED * np.maximum(1.0, np.abs(q.xs[k])) * direction
            if np.array_equal(q.near(*xs), q.value):
                return np.zeros(shape(q.value))[()]  # f does not depend on this entry
            raise NotSupported("the function does not take complex numbers: its result is real")
        apart = np.abs(np.real(y) - q.value)
        if np.any(apart > _SAME * (np.abs(q.value) + q.largest_adjoint * _SAME) + 1e3 * q.noise_floor):
            raise NotSupported("the function behaves differently for complex numbers")
        return np.imag(y) / h if shape(y) else np.float64(np.imag(y) / h)
