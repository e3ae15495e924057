"""How accurate each row of the rule table is, in units in the last place."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.core.primitive import PRIMITIVES, Params, Primitive
from gradcli.errors import GradcliError, Undecided
from gradcli.interpreters.ball import Ball, error_of, nearest, precision, radius
from gradcli.interpreters.formula import written
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.point import Point
from gradcli.primitives.kinds import Factor, Partial
from gradcli.report.listing import Operation
from gradcli.source.names import FUNCTIONS
from gradcli.verify.compare import AGREE, entrywise, run

BITS = (256, 1024, 4096)  # saturated slopes need more; where 4096 do not settle it, the slope is far below float64
SAMPLED_PARAMS: dict[str, Params] = {"integer_power": {"n": 3}, "polygamma": {"n": 1}}
SMALLEST = 1e-290  # below it floats lose digits by themselves


def operations(check: bool = False, name: str | None = None) -> tuple[Operation, ...]:
    """Return what is known of each primitive, its accuracy measured now."""
    rows = [row for row in PRIMITIVES.values() if row.rules and name in (None, row.name)]
    return tuple(operation(row, check) for row in rows)


def operation(row: Primitive, check: bool) -> Operation:
    """Return what is known of one primitive, of the table or of a user's own."""
    params = SAMPLED_PARAMS.get(row.name, {})
    elementwise = all(isinstance(rule, Partial | Factor) for rule in row.rules)
    names = ("x",) if len(row.rules) == 1 else tuple("abcdefgh"[: len(row.rules)])
    partials = tuple(_text(rule, names, params) for rule in row.rules) if elementwise else (row.kind,)
    return Operation(
        row.name, row.kind, tuple(domain.name for domain in row.on) if elementwise else (), partials, row.kinks,
        worst_ulps(row) if elementwise and not row.body else None, row.reason, holds_up(row) if check and elementwise else None,
    )  # fmt: skip


def _text(rule: Any, names: tuple[str, ...], params: Params) -> str:
    return f"{rule.factor:g}" if isinstance(rule, Factor) else written(rule.partial, "y", names, params)


def hard_points(row: Primitive) -> Iterator[tuple[np.float64, ...]]:
    """Yield arguments from all over the domain: tiny, ordinary, huge and saturated."""
    first = row.on[0].hard
    if len(row.rules) == 1:
        yield from ((np.float64(x),) for x in first)
        return
    second = row.on[1].hard
    for k, x in enumerate(first):
        for step in (0, 1, 5, 11):
            yield np.float64(x), np.float64(second[(k + step) % len(second)])


def worst_ulps(row: Primitive) -> float:
    """Return the worst error of the row's float64 partials over its whole domain, in ulps of the right value."""
    params = SAMPLED_PARAMS.get(row.name, {})
    worst = 0.0
    with np.errstate(all="ignore"):
        for xs in hard_points(row):
            for rule in row.rules:
                worst = max(
                    worst, next((u for bits in BITS if (u := _ulps(row, rule, xs, params, bits)) is not None), 0.0)
                )
    return worst


def _ulps(row: Primitive, rule: Any, xs: tuple[np.float64, ...], params: Params, bits: int) -> float | None:
    """Return the error of one partial in ulps, or None where this many bits do not give the right value."""
    with precision(bits):
        balls = [Ball.lift(x) for x in xs]
        try:
            y = row(*balls, **params)
            right = y * 0 + (rule.factor if isinstance(rule, Factor) else rule.partial(y, *balls, **params))
        except Undecided:  # a tie: a convention has no error
            return 0.0
        size = abs(float(nearest(right)))
        value = float(row.fun(*xs, **params))
        if not np.isfinite(size) or not np.isfinite(value):
            return 0.0
        if not float(radius(right)) <= 1e-20 * size:
            return None
        slope = np.float64(rule.slope(np.float64(value), xs, params))
        return float(error_of(right, slope) / np.spacing(size)) if size > SMALLEST else 0.0


def holds_up(row: Primitive, count: int = 3) -> str:
    """Check one primitive alone, rules against function values, at random points of its domain: `ok`, or what is wrong."""
    rng = np.random.default_rng(0)
    params = SAMPLED_PARAMS.get(row.name, {})
    names = tuple(f"x{k}" for k in range(len(row.rules)))

    checked = 0
    for _ in range(20 * count):
        values = {name: np.float64(domain.sample(rng, 1)[0]) for name, domain in zip(names, row.on, strict=True)}
        question = Question(_Alone(row, names, params), Point(values), names)
        try:
            if row.body and not (np.isfinite(question.value) and question.not_finite is None):
                continue  # nobody said where a user's own function is defined
            wrong = _wrong_at(question, row)
        except GradcliError as error:
            return error.what
        if wrong is not None:
            return wrong
        checked += 1
        if checked == count:
            return "ok"
    return "it is finite at none of the points tried"


def _wrong_at(q: Question, row: Primitive) -> str | None:
    """Return what is wrong with a row at one point; a user's function that balls cannot run is checked in float64."""
    found = run(q, [MODES["certified"], MODES["forward"], MODES["finite-difference"]])
    certified, differences = (found[name].estimate for name in ("certified", "finite-difference"))
    if certified is None and row.body and found["certified"].status == "unsupported":
        certified = found["forward"].estimate
    if certified is None or differences is None:
        return str(found["certified"].error or found["finite-difference"].error)
    for name in q.wrt:
        if np.any(entrywise(differences, certified, name, 1e-6) != AGREE):
            at = ", ".join(f"{float(x):.6g}" for x in q.xs)
            return (
                f"the partial of argument {q.wrt.index(name)} is {float(certified.value[name]):.6g} at {at}, "
                f"by differences {float(differences.value[name]):.6g}"
            )
    return None


class _Alone:
    """One primitive as a function of named inputs."""

    kind = "primitive"
    outputs = ()
    seconds = None

    def __init__(self, row: Primitive, inputs: tuple[str, ...], params: Params) -> None:
        self.row, self.inputs, self.params = row, inputs, params
        self.text = row.name

    def __call__(self, values: Any) -> Any:
        return self.row(*(values[name] for name in self.inputs), **self.params)

    def survey(self, values: Any) -> tuple[Any, list[Any]]:
        return self(values), []


def functions() -> tuple[str, ...]:
    """Return the names an expression can call."""
    return tuple(sorted(FUNCTIONS))
