"""numpy's functions on abstract values: compiled gradients are the tape's, at points of other branches and orders too."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.errors import GradcliError
from gradcli.tracing.primitive import Params, Primitive
from tests.rows import for_rows
from tests.rules import test_functions, test_numpy_arrays, test_numpy_functions, test_rules

CASES = [*test_functions.CASES, *test_numpy_functions.CASES, *test_numpy_arrays.CASES]
REFUSED = {  # a shape, an index or a decision of Python's that depends on values; a function passed to numpy's
    "piecewise", "piecewise rest", "piecewise scalar", "sort by argsort", "sorted", "sorted()", "partition in place",
    "argpartition", "argmax", "unique", "unique counts", "nonzero", "where positions", "argwhere", "flatnonzero",
    "max of list", "nanargmax", "allclose", "argsort", "round, floor", "branches", "in", "sum, max, min", "mask", "mask +=",
    "polymul", "polydiv", "partition", "searchsorted", "digitize",
}  # fmt: skip
EDGES = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, np.inf, -np.inf, 50.0, -50.0)
NAN_ELSEWHERE = {"add", "subtract", "polygamma", "fresnel_s", "fresnel_c"}  # their values are nan at some of the edges


def drawn(shapes: Any, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) if n else np.float64(rng.normal()) for n in shapes]


def of_named_arguments(f: Any, count: int) -> tuple[Any, list[str]]:
    """Return a function with `count` named parameters, and their names."""
    names = [f"a{k}" for k in range(count)]
    return eval(f"lambda {', '.join(names)}: f({', '.join(names)})", {"f": f}), names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("f", "shapes"), CASES)
def test_a_compiled_gradient_is_the_tapes(f: Any, shapes: Any, request: pytest.FixtureRequest) -> None:
    xs = drawn(shapes, 1)
    y = f(*xs)
    weights = np.cos(1.0 + np.arange(np.size(y))).reshape(np.shape(y))[()]
    g, names = of_named_arguments(lambda *xs: np.sum(weights * f(*xs)), len(xs))
    both = gradcli.value_and_grad(g, wrt=names, verify=False)
    try:
        compiled = gradcli.compile(both, *xs)
    except GradcliError:
        assert request.node.callspec.id.rstrip("0123456789") in REFUSED
        return
    for seed in (1, 5, 6, 7):
        at = drawn(shapes, seed)
        try:
            expected_y, expected = both(*at)
        except GradcliError:  # no solution, or outside of the domain
            continue
        found_y, found = compiled(*at)
        size = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in expected)])
        assert np.allclose(found_y, expected_y, rtol=1e-11, atol=1e-11, equal_nan=True)
        for a, b in zip(found, expected, strict=True):
            assert np.allclose(a, b, rtol=1e-10, atol=1e-11 * size, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@for_rows(("row", "params"), test_rules.CASES, parts=7)
def test_a_rule_compiles_for_all_its_branches(row: Primitive, params: Params) -> None:
    points = test_rules.points(row, 8)
    g, names = of_named_arguments(lambda *xs: row(*xs, **params), len(row.rules))
    both = gradcli.value_and_grad(g, wrt=names, verify=False)
    compiled = gradcli.compile(both, *points[0])
    edges = [] if row.name in NAN_ELSEWHERE else [[np.float64(x)] * len(row.rules) for x in EDGES]
    for at in (*points, *edges):
        try:
            y, slopes = both(*at)
        except GradcliError:
            continue
        found_y, found = compiled(*at)
        assert np.allclose([found_y, *found], [y, *slopes], rtol=1e-13, equal_nan=True), at
