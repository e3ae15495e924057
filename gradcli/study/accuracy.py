"""Measure the accuracy of each primitive's derivative rule, in units in the last place (ulps)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, bound_error, nearest_float64, precision, radius
from gradcli.arithmetic.value_graph import write_formula
from gradcli.checks.implementation import describe_environment, installed_version
from gradcli.classes import dataclass
from gradcli.errors import BadOption, Undecided
from gradcli.errors import closest_name as nearest_name
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.report.listing import ModeEntry, ModesReport, Operation, OpsReport
from gradcli.request.point import Witness
from gradcli.request.target_text import is_python
from gradcli.rules.composites import CONVOLVE
from gradcli.rules.decompositions import (
    CHOLESKY,
    EIGENVALUES,
    EIGENVECTORS,
    PINV,
    QR,
    SINGULAR_VALUES,
    SINGULAR_VECTORS,
)
from gradcli.rules.fourier import DFT_COS, DFT_SIN
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.rules.linalg import DET, EINSUM, INV, LOGDET, MATMUL, SOLVE
from gradcli.rules.reductions import CUMSUM, LOGSUMEXP, MAX, NORM, SUM
from gradcli.rules.shaping import BROADCAST, GETITEM, JOIN, PUT, RESHAPE, SCATTER, SELECT, TRANSPOSE
from gradcli.targets.loading import load
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.domain import ABOVE_1, INSIDE_1, POSITIVE, REAL, UNIT, Domain
from gradcli.tracing.primitive import PRIMITIVES, Params, Primitive, Value, table_by_name

ALIASES = {"sigmoid": "expit", "softplus": "logaddexp"}  # composites of one primitive
_WITH = {"certified": "python-flint", "symbolic": "sympy"} | {name: name for name in FRAMEWORKS}


def available_modes() -> ModesReport:
    """Return a report of every mode: whether it can run here, its version, and how to install it."""
    entries = []
    for name, mode in MODES.items():
        state = mode.available()
        package = _WITH.get(name, "numpy")
        version = installed_version(package)
        rests = tuple(w.value for w in Witness if w in mode.rests_on)
        what = (mode.__doc__ or "").strip().split("\n")[0].rstrip(".")
        entries.append(
            ModeEntry(name, state.yes, f"{package} {version}" if version else None, rests, what, state.install or None)
        )
    return ModesReport(tuple(entries), ("cpu",), describe_environment())


BITS = (256, 1024, 4096)  # saturated slopes need more; those that 4096 do not resolve are far below float64's range
SMALLEST = 1e-290  # smaller float64 numbers may have fewer digits


def describe_primitives(name: str | None = None) -> tuple[Operation, ...]:
    """Return a description of each primitive with its accuracy, measured now; only of the named one if `name` is given."""
    rows = [row for row in PRIMITIVES.values() if row.rules and name in (None, row.name)]
    return tuple(map(describe_primitive, rows))


def describe_primitive(row: Primitive) -> Operation:
    """Return a description of one primitive, built in or the user's own."""
    params = _example_params(row)
    elementwise = all(isinstance(rule, Partial | ConstantSlope) for rule in row.rules)
    names = ("x",) if len(row.rules) == 1 else tuple("abcdefgh"[: len(row.rules)])
    formulas = (
        f"{rule.factor:g}" if isinstance(rule, ConstantSlope) else write_formula(rule.partial, "y", names, params)
        for rule in row.rules
        if isinstance(rule, Partial | ConstantSlope)
    )
    partials = tuple(formulas) if elementwise else (row.kind,)
    return Operation(
        row.name, row.kind, tuple(domain.name for domain in row.on) if elementwise else (), partials, row.kinks,
        worst_ulps(row) if elementwise and not row.body else None, row.reason,
    )  # fmt: skip


# Ways to call each primitive alone: its parameters, its constant arguments, and random values for the others.

Draw = Callable[[Any], Value]
_V, _M, _K, _S, _TALL = (3,), (2, 3), (2, 3, 4), (3, 3), (4, 2)
_MASK = np.array([[True, False, True], [False, True, True]])
_JUMP = 0.02  # relative to the period: the distance to keep from the jumps of remainder


@dataclass(frozen=True)
class Sample:
    """One way to call a primitive: a function that draws each argument, or its constant value; and the parameters.

    `prepare` is applied to each argument inside the checked function, such as to make a matrix symmetric. Points that do
    not satisfy `fits` are drawn again.
    """

    arguments: tuple[Draw | Value, ...]
    params: Params = field(default_factory=dict)
    prepare: Callable[[Value], Value] = lambda x: x
    fits: Callable[..., bool] = lambda *xs: True

    @property
    def moving(self) -> tuple[int, ...]:
        """The positions of the arguments that are differentiated."""
        return tuple(i for i, argument in enumerate(self.arguments) if callable(argument))

    def points(self, rng: Any) -> Iterator[tuple[Value, ...]]:
        """Yield random arguments that satisfy `fits`, without end."""
        while True:
            xs = tuple(argument(rng) if callable(argument) else argument for argument in self.arguments)
            if self.fits(*xs):
                yield xs


def draw_from_domain(domain: Domain) -> Draw:
    """Return a function that draws an ordinary number from a domain."""
    return lambda rng: np.float64(domain.sample(rng, 1)[0])


def draw_array(*shape: int) -> Draw:
    """Return a function that draws an array of normally distributed numbers; one number if no sizes are given."""
    return lambda rng: rng.normal(size=shape) if shape else np.float64(rng.normal())


def _draw_regular_matrix(rng: Any) -> Value:
    return rng.normal(size=_S) + 4 * np.eye(3)


def _draw_positive_definite(rng: Any) -> Value:
    a = rng.normal(size=_S)
    return a @ a.T + np.eye(3)


def _symmetric_part(a: Value) -> Value:
    """Return the symmetric part, because factorisations of symmetric matrices read only one triangle."""
    return (a + np.transpose(a)) / 2


PARAMS: Mapping[str, tuple[Params, ...]] = {
    "integer_power": tuple({"n": n} for n in (3, -3, -1, 0, 1, 2, 5)),
    "polygamma": tuple({"n": n} for n in (1, 2, 3)),
    "gammainc_order": tuple({"n": n} for n in (1, 2)),
}
_TRIANGLES = tuple(Sample((draw_array(*_S),), {"uplo": uplo}, prepare=_symmetric_part) for uplo in "LU")
# fmt: off
#  choices of the constant orders and parameters, and the domain of the differentiated argument
ORDERS: Mapping[str, tuple[tuple[tuple[float, ...], ...], Domain]] = {
    **dict.fromkeys(("jv", "yv", "iv", "kv", "ive", "kve"), (((0,), (1,), (2.5,)), POSITIVE)),
    "expn":             (((1,), (2,), (3,)), POSITIVE),
    "hyp0f1":           (((1.5,), (-0.5,)), REAL),
    "hyp1f1":           (((0.5, 1.5), (-0.7, 2)), REAL),
    "hyp2f1":           (((0.5, 1, 2.5), (-0.7, 2, 1.3)), INSIDE_1),
    "hyperu":           (((0.5, 1.5), (1.5, 2.5)), POSITIVE),
    **dict.fromkeys(("betainc", "betaincc"), (((2.5, 0.7), (1, 3)), UNIT)),
    "stdtr":            (((1,), (3.5,)), REAL),
    "eval_jacobi":      (((3, 0.5, 1.5), (1, 2, 0)), INSIDE_1),
    "eval_gegenbauer":  (((3, 0.5), (1, 2)), INSIDE_1),
    **dict.fromkeys(("eval_legendre", "eval_chebyt", "eval_chebyu"), (((0,), (1,), (4,)), INSIDE_1)),
    **dict.fromkeys(("eval_hermite", "eval_hermitenorm"), (((0,), (1,), (4,)), REAL)),
    "eval_laguerre":    (((0,), (1,), (4,)), ABOVE_1),
    "eval_genlaguerre": (((3, 0.5), (1, 2)), ABOVE_1),
}
#  primitives of arrays
ARRAYS: Mapping[str, tuple[Sample, ...]] = table_by_name({
    GETITEM:        (Sample((draw_array(*_K),), {"index": (slice(None, None, -1), [2, 0, 2], 1)}),
                     Sample((draw_array(*_M),), {"index": _MASK})),
    SCATTER:        (Sample((draw_array(*_V),), {"index": ([0, 0, 2],), "into": (4,)}),),
    RESHAPE:        (Sample((draw_array(*_K),), {"to": (4, 6)}),),
    TRANSPOSE:      (Sample((draw_array(*_K),), {"axes": (1, 2, 0)}),),
    BROADCAST:      (Sample((draw_array(2, 1),), {"to": (4, 2, 3)}),),
    JOIN:           (Sample((draw_array(*_M), draw_array(2, 1)), {"axis": 1}),),
    PUT:            (Sample((draw_array(*_M), draw_array(2)), {"index": (slice(None), 1)}),),
    SELECT:         (Sample((_MASK, draw_array(*_M), draw_array(*_V))),),
    CONVOLVE:       (Sample((draw_array(4), draw_array(*_V))),),
    SUM:            (Sample((draw_array(*_K),), {"axis": (0, 2)}),),
    CUMSUM:         (Sample((draw_array(*_M),), {"axis": 1}),),
    MAX:            (Sample((draw_array(*_K),), {"axis": (0, 2)}),),
    NORM:           (Sample((draw_array(*_V),)), Sample((draw_array(*_M),))),
    LOGSUMEXP:      (Sample((draw_array(*_M),), {"axis": (0,)}),),
    MATMUL:         (Sample((draw_array(*_M), draw_array(3, 2))), Sample((draw_array(2, 3, 4), draw_array(2, 4, 2)))),
    EINSUM:         (Sample((draw_array(*_M), draw_array(3, 2)), {"subscripts": "ij,jk->ik"}),
                     Sample((draw_array(2, 2, 3), draw_array(*_V)), {"subscripts": "iij,j->i"})),
    DET:            (Sample((_draw_regular_matrix,)), Sample((draw_array(2, 3, 3),))),
    LOGDET:         (Sample((_draw_regular_matrix,)),),
    INV:            (Sample((_draw_regular_matrix,)),),
    SOLVE:          (Sample((_draw_regular_matrix, draw_array(3, 2))),),
    CHOLESKY:       (Sample((_draw_positive_definite,), prepare=_symmetric_part),),
    EIGENVALUES:    _TRIANGLES,
    EIGENVECTORS:   _TRIANGLES,
    SINGULAR_VALUES:(Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    SINGULAR_VECTORS:   (Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    PINV:           (Sample((draw_array(*_TALL),), {"rcond": 1e-15}), Sample((draw_array(*_S),), {"rcond": 1e-15})),
    QR:             (Sample((draw_array(*_S),)), Sample((draw_array(*_TALL),))),
    DFT_COS:        (Sample((draw_array(5),), {"axis": 0}), Sample((draw_array(3, 4),), {"axis": 1})),
    DFT_SIN:        (Sample((draw_array(5),), {"axis": 0}), Sample((draw_array(3, 4),), {"axis": 1})),
})
# fmt: on


def samples(row: Primitive) -> tuple[Sample, ...]:
    """Return the ways to call a primitive alone; empty if none is known."""
    if row.name in ARRAYS and not row.body:
        return ARRAYS[row.name]
    if row.name in ORDERS and not row.body:
        choices, domain = ORDERS[row.name]
        return tuple(Sample((*map(np.float64, orders), draw_from_domain(domain))) for orders in choices)
    if row.kind != "elementwise" or len(row.on) != len(row.rules):
        return ()
    draws = tuple(map(draw_from_domain, row.on))
    if row.name in ("remainder", "fmod"):
        return (Sample(draws, fits=lambda a, b: bool(abs((a / b + 0.5) % 1 - 0.5) > _JUMP)),)
    return tuple(Sample(draws, params) for params in (({},) if row.body else PARAMS.get(row.name, ({},))))


def _example_params(row: Primitive) -> Params:
    """Return the example parameters with which a primitive is shown and measured."""
    return {} if row.body else PARAMS.get(row.name, ({},))[0]


def hard_points(row: Primitive) -> Iterator[tuple[np.float64, ...]]:
    """Yield arguments from the whole domain: tiny, ordinary, huge and saturating ones."""
    first = row.on[0].hard
    if len(row.rules) == 1:
        yield from ((np.float64(x),) for x in first)
        return
    for k, x in enumerate(first):
        for step in (0, 1, 5, 11):
            rest = (domain.hard[(k + (i + 1) * step) % len(domain.hard)] for i, domain in enumerate(row.on[1:]))
            yield np.float64(x), *map(np.float64, rest)


def worst_ulps(row: Primitive) -> float:
    """Return the largest error of a primitive's float64 partials over its whole domain.

    Units  ulps of the right value, which is computed in balls.
    """
    params = _example_params(row)
    worst = 0.0
    with np.errstate(all="ignore"):
        for xs in hard_points(row):
            for rule in row.rules:
                ulps = (_ulps_of_partial(row, rule, xs, params, bits) for bits in BITS)
                worst = max(worst, next((u for u in ulps if u is not None), 0.0))
    return worst


def _ulps_of_partial(row: Primitive, rule: Any, xs: tuple[np.float64, ...], params: Params, bits: int) -> float | None:
    """Return the error of one partial in ulps, or None if this many bits do not determine the right value."""
    with precision(bits):
        balls = [Ball.lift(x) for x in xs]
        try:
            y = row(*balls, **params)
            right = y * 0 + (rule.factor if isinstance(rule, ConstantSlope) else rule.partial(y, *balls, **params))
        except Undecided:  # a tie between branches: its slope is a convention, without error
            return 0.0
        size = abs(float(nearest_float64(right)))
        value = float(row.fun(*xs, **params))
        if not np.isfinite(size) or not np.isfinite(value):
            return 0.0
        if not float(radius(right)) <= 1e-20 * size:
            return None
        slope = np.float64(rule.slope(np.float64(value), xs, params))
        return float(bound_error(right, slope) / np.spacing(size)) if size > SMALLEST else 0.0


# The lists behind `modes` and `ops`: the modes and the primitives.


def known_operations(name: str | None) -> OpsReport:
    """Return a report of all primitives, or of the named one.

    Raises  BadOption for a name that is no primitive; BadTarget for Python code that cannot be loaded.
    """
    if name is not None and is_python(name):
        row = load(name).found
        if not isinstance(row, Primitive):
            raise BadOption(f"{name} is no primitive", do="make one: gradcli.primitive(fun, *partials)")
        return OpsReport((describe_primitive(row),), (), describe_environment())
    known = FUNCTIONS.get(str(name))
    found = describe_primitives(known.name if isinstance(known, Primitive) else ALIASES.get(str(name), name))
    if not found:
        close = nearest_name(str(name), [row.name for row in PRIMITIVES.values() if row.rules])
        if name in FUNCTIONS:
            made = f"'{name}' is made of primitives and is not one itself"
            raise BadOption(made, do=f'gradcli trace shows them: gradcli trace "{name}(...)"')
        raise BadOption(
            f"there is no primitive '{name}'", do=f"did you mean '{close}'?" if close else "gradcli ops lists them"
        )
    return OpsReport(found, () if name else tuple(sorted(FUNCTIONS)), describe_environment())
