"""Each slip in the tables of local partials, planted in a run, is named on its line."""

import functools
import re
from typing import Any

import numpy as np
import pytest

from gradcli.checks.gradient_slips import (
    PARTIAL_SLIPS,
    PULL_SLIPS,
    LocalSlip,
    negated,
    omit_contribution,
    slips_of_argument,
)
from gradcli.rules.kinds import Partial
from gradcli.tracing.primitive import PRIMITIVES, Primitive
from tests.checks.planting import Rules, checked, diagnosis_of, named, on_line, with_planted
from tests.rows import for_rows

X = np.array([0.31, 0.52, 0.17, 0.44])
Z = np.array([1.30, 0.70, 2.10, 1.60])
MATRIX = np.array([[2.0, 0.3, -0.2], [0.1, 1.5, 0.4], [-0.3, 0.2, 1.8]])
AT = {"x": X, "z": Z}
C = np.array([1.0, -0.6, 1.7, 0.4])
_OF_TWO = {"power", "divide", "multiply", "hypot", "arctan2"}


def unary(fun: Primitive) -> Any:
    """Return a function with one call of a primitive, whose value is used twice and is not all there is."""

    def f(x: Any, z: Any) -> Any:
        u = np.sinh(x) + 0.1
        y = fun(u)
        return np.sum(C @ y) + np.sum(y @ z) + np.sum(np.cosh(x) @ z)

    return f


def forked(fun: Primitive) -> Any:
    """Return a function in which nothing but the line of a call stands for all that flows through it."""

    def f(x: Any, z: Any) -> Any:
        u = np.sinh(x) * z
        y = fun(u)
        a = y * z
        b = np.cosh(y)
        return np.sum(a) * (np.sum(b) + np.cosh(x) @ z)

    return f


def binary(fun: Primitive) -> Any:
    """Return the same for a primitive of two arguments."""

    def f(x: Any, z: Any) -> Any:
        u = np.sinh(x) + 0.9
        v = np.sinh(z) + 1.2
        y = fun(u, v)
        return C @ y + y @ y + np.cosh(x) @ np.cosh(z)

    return f


_CALLED = {"integer_power": functools.partial(PRIMITIVES["integer_power"], n=3)}


def as_function(name: str) -> Any:
    """Return a primitive, its parameters given."""
    return _CALLED.get(name, PRIMITIVES[name])


ROWS = [(name, k, slip) for name, slips in PARTIAL_SLIPS.items() for k, slip in enumerate(slips)]


@for_rows(("name", "slip"), [pytest.param(n, slip, id=f"{n}-{k}") for n, k, slip in ROWS], parts=9)
def test_a_wrong_partial_is_named_on_its_line(name: str, slip: LocalSlip) -> None:
    f, source = (binary, "y = fun(u, v)") if name in _OF_TWO else (unary, "y = fun(u)")
    right, wrong = with_planted(f(as_function(name)), AT, name, slip.i, lambda _: Partial(slip.partial), source)
    found = named(f(as_function(name)), AT, lambda x, z: wrong(), lambda x, z: right())
    assert (found.kind, slip.says in found.message) == ("slip", True), found
    on_line(found, f, source)


NAMED = re.compile(r"\bnot (?P<wrong>[^;:]+?)(?:$|,| of its)")
FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "sqrt", "exp", "expm1")
IN_SENTENCES = {name: getattr(np, name) for name in FUNCTIONS} | {"relu": lambda x: np.maximum(x, 0.0)}


def value_in_sentence(name: str, slip: LocalSlip, xs: tuple[float, ...], y: float) -> Any:
    """Return the value of the wrong expression that a sentence names, y or a function of x; None where it has other names."""
    found = NAMED.search(slip.says)
    if found is None:
        return None
    known = dict(zip("xn" if "power" in name else "ab" if len(xs) == 2 else "x", xs, strict=False))
    wrong = re.sub(r"\b([a-z]{3,}\d?)\b(?!\()", r"\1(x)", found["wrong"])  # -cos means -cos(x)
    try:
        return eval(wrong, {"__builtins__": {}}, IN_SENTENCES | known | {"y": y})
    except (SyntaxError, NameError):
        return None


def test_the_wrong_expression_in_a_sentence_is_the_partial() -> None:
    compared = 0
    for name, _, slip in ROWS:
        xs = (1.3, 3.0) if name in _OF_TWO or name == "integer_power" else (0.4,)
        y = xs[0] ** xs[1] if name == "integer_power" else float(as_function(name)(*xs))
        value = value_in_sentence(name, slip, xs, y)
        compared += value is not None
        assert value is None or np.isclose(float(slip.partial(y, *xs)), value), slip.says
    assert compared >= 45


@for_rows("name", [*PARTIAL_SLIPS], parts=3)
def test_where_nothing_is_planted_nothing_is_named(name: str) -> None:
    f, source = (binary, "y = fun(u, v)") if name in _OF_TWO else (unary, "y = fun(u)")
    _, same = with_planted(f(as_function(name)), AT, name, 0, lambda line: line[0].rule(0), source)
    report = checked(f(as_function(name)), AT, lambda x, z: same())
    assert (report.verdict, diagnosis_of(report)) == ("pass", None)


def matmul_left(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX
    y = u @ MATRIX
    return np.sum(y * y * y) + np.sum(np.sinh(x) * np.sinh(z))


def matmul_right(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX
    y = MATRIX @ u
    return np.sum(y * y * y) + np.sum(np.sinh(x) * np.sinh(z))


def matrix_by_vector(x: Any, z: Any) -> Any:
    u = np.sinh(x) * z
    y = MATRIX @ u
    return np.sum(y * y * y) + np.sum(np.sinh(x) * np.sinh(z))


def summed(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX * np.sinh(x)
    y = np.sum(u * u, axis=0)
    return np.exp(y) @ z + np.sinh(x) @ np.sinh(z)


def largest(x: Any, z: Any) -> Any:
    u = np.sinh(x) * z
    y = np.max(u)
    return y * y + np.sinh(x) @ np.sinh(z)


def determinant(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX
    y = np.linalg.slogdet(u)[1]
    return y * y + np.sinh(x) @ np.sinh(z)


def cumulated(x: Any, z: Any) -> Any:
    u = np.sinh(x) * z
    y = np.cumsum(u)
    return np.exp(y) @ z + np.sinh(x) @ np.sinh(z)


def solved(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX
    y = np.linalg.solve(u, np.sinh(z))
    return y @ y + np.sinh(x) @ np.sinh(z)


def inverted(x: Any, z: Any) -> Any:
    u = np.outer(x, z) + MATRIX
    y = np.linalg.inv(u)
    return np.sum(y * MATRIX) + np.sinh(x) @ np.sinh(z)


def spread(x: Any, z: Any) -> Any:
    u = np.outer(x, z) * np.sinh(z)
    y = u + np.exp(x)
    return np.sum(y * y * y) + np.sinh(x) @ np.sinh(z)


# fmt: off
REPLACED = [
    # function, primitive, argument, source, what each known slip is called
    (matmul_left,      "matmul", 0, "y = u @ MATRIX", ["the other operand of @ is not transposed", "the factors of the outer product are swapped"]),
    (matmul_right,     "matmul", 1, "y = MATRIX @ u", ["the other operand of @ is not transposed", "the factors of the outer product are swapped"]),
    (matrix_by_vector, "matmul", 1, "y = MATRIX @ u", ["the other operand of @ is not transposed"]),
    (summed,           "sum",    0, "y = np.sum(u * u, axis=0)", ["as that of a mean would be"]),
    (largest,          "max",    0, "y = np.max(u)", ["goes to every entry, not to the largest"]),
    (determinant,      "logdet", 0, "y = np.linalg.slogdet(u)[1]", ["the transpose is missing"]),
    (cumulated,        "cumsum", 0, "y = np.cumsum(u)", ["a cumulative sum from the end, not from the start"]),
    (solved,           "solve",  0, "y = np.linalg.solve(u, np.sinh(z))", ["solved with A, not with its transpose"]),
    (solved,           "solve",  1, "y = np.linalg.solve(u, np.sinh(z))", ["solved with A, not with its transpose"]),
    (inverted,         "inv",    0, "y = np.linalg.inv(u)", ["the gradient of an inverse is transposed"]),
    (spread,           "add",    1, "y = u + np.exp(x)", ["summed over the wrong axis", "averaged over the axes", "the first of the broadcast copies"]),
]
# fmt: on


@for_rows(
    ("f", "name", "i", "source", "parts"),
    [pytest.param(*row, id=f"{row[0].__name__}-{row[2]}") for row in REPLACED],
    parts=2,
)
def test_a_wrong_transpose_sum_or_axis_is_named_on_its_line(
    f: Any, name: str, i: int, source: str, parts: list[str]
) -> None:
    at = {"x": X[:3], "z": Z[:3]}
    for says in parts:
        right, wrong = with_planted(f, at, name, i, called(says, i), source)
        found = named(f, at, lambda x, z, wrong=wrong: wrong(), lambda x, z, right=right: right())
        assert says in found.message, found
        on_line(found, f, source)


def called(says: str, i: int) -> Rules:
    """Return how a line is given the slip that says so."""
    return lambda line: next(
        rule for _, words, rule in slips_of_argument(line[0], i, line[3], line[2]) if says in words
    )


def test_every_table_of_slips_is_tried() -> None:
    assert set(PULL_SLIPS) - {"logsumexp"} == {name for _, name, *_ in REPLACED} - {"add"}  # numpy has no logsumexp


MISSING = {"divide": "the derivative of a/b by a is 1/b, not 1", "power": "the derivative of x**n is n*x**(n-1), not 1"}


@for_rows(
    "name",
    ["exp", "sqrt", "tanh", "arctan", "sinh", "erf", "log1p", "cbrt", "gammaln", "divide", "hypot", "power"],
    parts=2,
)
def test_a_derivative_that_is_missing_is_named_on_its_line(name: str) -> None:
    f, source = (binary, "y = fun(u, v)") if name in _OF_TWO else (unary, "y = fun(u)")
    right, wrong = with_planted(f(PRIMITIVES[name]), AT, name, 0, lambda _: Partial(lambda y, *xs: 1 + 0 * y), source)
    found = named(f(PRIMITIVES[name]), AT, lambda x, z: wrong(), lambda x, z: right())
    says = MISSING.get(name, "the derivative of fun is missing (used as if it were 1)")
    assert (found.kind, says in found.message) == ("slip", True)
    on_line(found, f, source)


@for_rows(
    ("rule", "kind", "says"),
    [
        (omit_contribution, "left-out", "the gradient through `fun(u)` is missing: treated as a constant"),
        (negated, "negated", "the derivative of one operation has the wrong sign"),
    ],
)
@for_rows("name", ["tanh", "exp", "erf", "cbrt"])
def test_what_is_left_out_or_negated_on_one_line_is_named(name: str, rule: Any, kind: str, says: str) -> None:
    f = forked(PRIMITIVES[name])
    right, wrong = with_planted(f, AT, name, 0, lambda line: rule(line[0].rule(0)), "y = fun(u)")
    found = named(f, AT, lambda x, z: wrong(), lambda x, z: right())
    assert (found.kind, says in found.message) == (kind, True), found
    on_line(found, f, "y = fun(u)")
