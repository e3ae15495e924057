"""Measure the accuracy of each primitive's derivative rule, in units in the last place (ulps)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, bound_error, nearest_float64, precision, radius
from gradcli.arithmetic.value_graph import write_formula
from gradcli.checks.framework_claim import describe_environment, installed_version
from gradcli.errors import BadOption, Undecided
from gradcli.errors import closest_name as nearest_name
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.report.explain import ModeEntry, ModesReport, Operation, OpsReport
from gradcli.request.point import Witness
from gradcli.request.target_text import is_python
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.targets.loading import load
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.primitive import PRIMITIVES, Params, Primitive

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
#  with which a primitive is called; the first are its example
PARAMS: Mapping[str, tuple[Params, ...]] = {
    "integer_power": tuple({"n": n} for n in (3, -3, -1, 0, 1, 2, 5)),
    "polygamma": tuple({"n": n} for n in (1, 2, 3)),
    "gammainc_order": tuple({"n": n} for n in (1, 2)),
}


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
        f"{rule.factor:g}" if isinstance(rule, ConstantSlope) else write_formula(rule.partial, names, params)
        for rule in row.rules
        if isinstance(rule, Partial | ConstantSlope)
    )
    partials = tuple(formulas) if elementwise else (row.kind,)
    return Operation(
        row.name, row.kind, tuple(domain.name for domain in row.on) if elementwise else (), partials, row.kinks,
        worst_ulps(row) if elementwise and not row.body else None, row.reason,
    )  # fmt: skip


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
