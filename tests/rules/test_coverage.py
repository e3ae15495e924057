"""Nothing in the rule table is forgotten by another table, and the test of the rules objects to wrong ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic import ball
from gradcli.arithmetic.recorded_program import record
from gradcli.modes import symbolic_worker
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.study.accuracy import PARAMS
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive
from tests.rows import for_rows
from tests.rules import test_decompositions, test_fourier
from tests.rules.test_functions import TABLE, drawn
from tests.rules.test_numpy_functions import CALCULUS
from tests.rules.test_rules import ROWS, check_row, points

MOVING = ("linear", "bilinear")  # they run on arrays of any objects
SOLVED = {"solution"}  # by the user's functions: no balls and no formula; tests/corpus/test_solvers.py exercises it
NOT_IN_ARB = SOLVED
BRANCHES = {"absolute", "maximum", "minimum", "relu", "max"}  # a plan replaces them by the branch that was taken
FACTORS = {
    "cholesky",
    "eigvalsh",
    "eigenvectors",
    "svdvals",
    "singular_vectors",
    "pinv",
    "qr",
    "expm",
    "logm",
    "sqrtm",
}  # no formula of one line
UNSTEADY = {"remainder", "fmod", "i0e", "i1e", "ive"}  # made of whole parts or of absolute values
SPECIAL = {
    "betainc",
    "betaincc",
    "stdtr",
    "gammainc_order",
    "hyp0f1",
    "hyp1f1",
    "hyp2f1",
    "hyperu",
    "spence",
    "wrightomega",
}
NOT_IN_SYMPY = UNSTEADY | SPECIAL | BRANCHES | FACTORS | SOLVED
TRACED = {line[0].name for name, f, shapes in (*TABLE, *CALCULUS, *test_decompositions.TABLE, *test_fourier.TABLE)
          for line in record(f, drawn(np.random.default_rng(1), shapes))[2].lines if line[0]}  # fmt: skip
LINEAR = ("linear", "bilinear", "differential")


def missing(entries: Any, whole: Any, rows: Any) -> set[str]:
    return {row.name for row in rows if row.name not in entries and row.name not in whole and row.kind not in MOVING}


def test_every_primitive_is_in_the_arb_table_or_runs_on_objects() -> None:
    gaps = missing(ball.ENTRIES, ball.WHOLE, PRIMITIVES.values())
    assert gaps == NOT_IN_ARB, f"an entry in arithmetic/ball.py: {gaps ^ NOT_IN_ARB}"


def test_every_differentiable_primitive_is_in_the_sympy_table_or_a_stated_gap() -> None:
    differentiable = [row for row in PRIMITIVES.values() if row.rules]
    gaps = missing(symbolic_worker.ENTRIES, symbolic_worker.WHOLE, differentiable)
    assert gaps == NOT_IN_SYMPY, (
        f"an entry in modes/symbolic_worker.py, or a name in NOT_IN_SYMPY: {gaps ^ NOT_IN_SYMPY}"
    )


@for_rows(
    "row", [pytest.param(row, id=row.name) for row in PRIMITIVES.values() if row.kind == "elementwise" and row.on]
)
def test_a_row_takes_complex_numbers_or_says_that_it_does_not(row: Primitive) -> None:
    xs = [np.complex128(domain.sample(np.random.default_rng(0), 1)[0]) for domain in row.on]
    params: Any = PARAMS.get(row.name, ({},))[0]
    try:
        takes = np.iscomplexobj(row(*xs, **params))
    except TypeError:
        takes = False
    assert takes or not row.analytic, f"{row.name} takes no complex numbers: analytic=False"


@for_rows(
    "row", [pytest.param(r, id=r.name) for r in PRIMITIVES.values() if r.kind == "elementwise" and r.on and r.analytic]
)
def test_the_complex_step_of_an_analytic_row_is_its_slope(row: Primitive) -> None:
    rng = np.random.default_rng(0)
    xs = [np.asarray(domain.sample(rng, 20)) for domain in row.on]
    params: Any = PARAMS.get(row.name, ({},))[0]
    with np.errstate(all="ignore"):
        y = row(*xs, **params)
        for i, rule in enumerate(row.rules):
            slopes = np.broadcast_to(rule.slope(y, xs, params), np.shape(y))  # type: ignore[attr-defined]
            moved = [x + 2.0**-70 * 1j if k == i else x + 0j for k, x in enumerate(xs)]
            found = np.imag(row(*moved, **params)) * 2.0**70
            plain = np.isfinite(slopes) & (np.abs(slopes) > 1e-200)
            assert np.any(plain) or row.name in ("positive",)
            np.testing.assert_allclose(found[plain], slopes[plain], rtol=max(1e-12, row.complex_loss))


@pytest.mark.parametrize("table", [ball, symbolic_worker], ids=["arb", "sympy"])
def test_no_table_names_a_primitive_that_is_not_there(table: Any) -> None:
    assert (set(table.ENTRIES) | set(table.WHOLE)) - set(PRIMITIVES) == set()
    assert set(table.ENTRIES) & set(table.WHOLE) == set()


def test_every_row_that_is_not_elementwise_is_exercised_by_the_table_of_functions() -> None:
    rows = {row.name for row in PRIMITIVES.values() if row.kind in LINEAR} - SOLVED
    assert rows == TRACED & rows


def test_every_row_has_a_domain_for_each_argument() -> None:
    assert [row.name for row in ROWS if len(row.on) != len(row.rules)] == []


def test_a_row_says_where_its_kinks_are_exactly_if_it_can_find_them() -> None:
    assert [row.name for row in PRIMITIVES.values() if (row.kinks is None) != (row.kink is None)] == []


def test_every_numpy_ufunc_in_the_table_is_what_its_row_runs() -> None:
    rows = {f: row for f, row in HANDLERS.items() if isinstance(row, Primitive) and getattr(np, f.__name__, 0) is f}
    assert len(rows) > 50
    assert all(row.fun is fun for fun, row in rows.items())


def wrong(row: Primitive, i: int, slip: Any) -> Primitive:
    """Return the row with a slip in the partial of argument `i`."""
    rule: Any = row.rules[i]
    factor = rule.factor if isinstance(rule, ConstantSlope) else None

    def partial(y: Any, *xs: Any, **params: Any) -> Any:
        return slip(factor if factor is not None else rule.partial(y, *xs, **params), *xs)

    rules = list(row.rules)
    rules[i] = Partial(partial)
    return replace(row, rules=tuple(rules))


SLIPS = {
    "sign": lambda slope, *xs: -slope,
    "a factor of two": lambda slope, *xs: 2 * slope,
    "one part in a million": lambda slope, *xs: slope * (1 + 1e-6),
    "a constant added": lambda slope, *xs: slope + 0.25,
    "a factor x": lambda slope, *xs: slope * xs[0],
}
FLAT = {"relu", "maximum", "minimum", "integer_power"}  # a slope of 0 is right with any factor; looked at below
PLANTED = [
    pytest.param(row, i, id=f"{row.name}-{i}") for row in ROWS for i in range(len(row.rules)) if row.name not in FLAT
]


@for_rows("slip", SLIPS, parts=8)
@for_rows(("row", "i"), PLANTED)
def test_a_wrong_rule_is_objected_to(row: Primitive, i: int, slip: str) -> None:
    params = PARAMS.get(row.name, ({},))[0]
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        for xs in points(row, 3):
            check_row(wrong(row, i, SLIPS[slip]), params, xs)


@for_rows("name", sorted(FLAT))
def test_a_wrong_rule_of_a_flat_row_is_objected_to(name: str) -> None:
    row = PRIMITIVES[name]
    params = {"n": 2} if name == "integer_power" else {}
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        for xs in points(row, 6):
            check_row(wrong(row, 0, SLIPS["a constant added"]), params, xs)


def test_swapped_arguments_are_objected_to() -> None:
    row = PRIMITIVES["subtract"]
    with pytest.raises(AssertionError, match="differences disagree in argument 0"):
        check_row(replace(row, rules=row.rules[::-1]), {}, points(row, 1)[0])


def test_a_wrong_kernel_beside_a_right_partial_is_objected_to() -> None:
    row = PRIMITIVES["exp"]
    mixed = replace(row, rules=(Partial(lambda y, x: y, lambda y, x: y * (1 + 1e-7)),))
    with pytest.raises(AssertionError):
        check_row(mixed, {}, points(row, 1)[0])


def test_a_wrong_partial_behind_a_right_kernel_is_objected_to() -> None:
    row = PRIMITIVES["exp"]
    mixed = replace(row, rules=(Partial(lambda y, x: y * (1 + 1e-20 * y), lambda y, x: y),))
    with pytest.raises(AssertionError):
        check_row(mixed, {}, points(row, 1)[0])
