"""The edits of a place: what they are, and that the edited text is the code that was meant."""

import ast
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli.repair.edits import are_alike, edits_of
from gradcli.repair.scope import Change, Edit, EditPlace, Scope, Text, apply_changes, spans_of, walk_expressions
from tests.rows import for_rows

X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.4, -0.7])
NAMES = {
    "x": X,
    "y": Y,
    "xs": Y,
    "n": 3,
    "m": 4,
    "S": np.arange(8.0).reshape(2, 2, 2),
    "lam": 0.7,
    "A": np.arange(9.0).reshape(3, 3),
    "np": np,
}


def places(source: str, around: tuple[str, ...] = ()) -> list[EditPlace]:
    text = Text(source, spans_of(source))
    values = {name: x for name, x in NAMES.items() if name != "np"}
    scope = Scope(values, lambda code: eval(code, dict(NAMES)), around=around)
    return [EditPlace(node, parent, text, scope) for node, parent in walk_expressions(ast.parse(source).body[0])]


def edited(source: str) -> dict[str, Edit]:
    """Return every edited source, with the edit that makes it."""
    return {apply_changes(source, edit.changes): edit for place in places(source) for edit in edits_of(place)}


def test_an_array_that_is_written_into_stays_the_array_itself() -> None:
    found = [text for text in edited("x[1:] += y[1:]") if not text.startswith(("x[", "y[", "xs["))]
    assert found == []


@for_rows(
    ("wrong", "right", "kind"),
    [
        ("g = x + y", "g = x - y", "sign"),
        ("g = x - y", "g = y - x", "order"),
        ("g = 3 * x**2", "g = 3 * x**3", "exponent"),
        ("g = 3 * x**-2", "g = 3 * x**-3", "exponent"),
        ("g = -2 * x", "g = -4 * x", "constant"),
        ("g = (1 - x)", "g = (1 - x**2)", "exponent"),
        ("g = np.sin(x)", "g = np.cos(x)", "function"),
        ("g = np.sin(x)", "g = np.sinh(x)", "function"),
        ("g = np.arctanh(x)", "g = np.arctan(x)", "function"),
        ("g = np.sum(x)", "g = np.mean(x)", "function"),
        ("g = np.sum(A, axis=0)", "g = np.sum(A, axis=1)", "axis"),
        ("g = A @ x", "g = A.T @ x", "transpose"),
        ("g = A.T @ x", "g = A @ x", "transpose"),
        ("g = S @ S", "g = S @ S.swapaxes(-1, -2)", "transpose"),
        ("g = S @ S.transpose(0, 2, 1) @ S", "g = S @ S @ S", "transpose"),
        ("g = S @ S.transpose(0, 2, 1) @ S", "g = S.transpose(0, 2, 1) @ S.transpose(0, 2, 1) @ S", "transpose"),
        ("g = x", "g = lam * x", "factor"),
        ("g = x", "g = x / n", "factor"),
        ("g = x / n", "g = x / (n * m)", "factor"),
        ("x /= n", "x /= n * m", "factor"),
        ("g = x * y", "g = x * y * (1 - y)", "factor"),
        ("g = x", "g = y", "name"),
        ("g = x[1:]", "g = x[:-1]", "index"),
        ("g = x[n]", "g = x[n - 1]", "index"),
        ("g = A[n, m]", "g = A[m, n]", "index"),
        ("g = A[0, n, m, 1]", "g = A[0, m, n, 1]", "index"),
        ("g = x / y", "g = 1 + x / y", "term"),
        ("g = x - y * n / lam", "g = (x - y * n) / lam", "grouping"),
        ("g = x / (y + n) * lam", "g = x / ((y + n) * lam)", "grouping"),
        ("g = np.einsum('ij,j->i', A, x)", "g = np.einsum('ji,j->i', A, x)", "subscripts"),
        ("g = np.cumsum(x)", "g = np.cumsum(x[::-1])[::-1]", "order"),
        ("g = (A @ x - y)", "g = ((A @ x - y) / n)", "factor"),
        ("g = lam / x", "g = lam / (1 + x)", "term"),
        ("g = x**2", "g = (x * y)**2", "factor"),
        ("g = 2 * A @ x", "g = (A + A.T) @ x", "transpose"),
        ("g = norm.cdf(x)", "g = norm.pdf(x)", "function"),
    ],
)
def test_a_slip_is_undone_by_one_edit(wrong: str, right: str, kind: str) -> None:
    assert edited(wrong)[right].kind == kind


def test_names_that_are_alike_are_confused_first() -> None:
    assert are_alike("K", "Ky") and are_alike("x1", "x2") and not are_alike("x", "y")
    made = edited("g = x")
    assert made["g = xs"].cost < made["g = y"].cost


def test_what_other_expressions_are_divided_by_divides_first() -> None:
    of_x = [edit for place in places("g = x", ("y / lam", "y // n")) for edit in edits_of(place)]
    costs = {edit.changes[0].new: edit.cost for edit in of_x}
    assert costs["x / lam"] < costs["x / n"] and costs["x / lam"] < costs["lam * x"]


def test_idle_operations_are_not_proposed() -> None:
    assert not {"g = x + 0", "g = x * 2 * 1"} & {*edited("g = x + 1"), *edited("g = x * 2")}
    assert "g = x**1" not in edited("g = x**2")


def test_terms_and_factors_keep_the_shape() -> None:
    assert "g = x * A" not in edited("g = x") and "g = A * x" not in edited("g = x")


def value(source: str) -> Any:
    """Return what a statement assigns; nan where it cannot be run."""
    scope = dict(NAMES)
    with np.errstate(all="ignore"):
        try:
            exec(source, scope)
        except (ValueError, TypeError, ArithmeticError):
            return np.nan
    return np.asarray(scope["g"], dtype=float)


operand = st.sampled_from(["x", "y", "lam", "2", "A @ x", "np.sin(x)", "(x + y)", "-x", "x**2", "x - y"])
sign = st.sampled_from(["+", "-", "*", "/"])


@pytest.mark.slow
@settings(max_examples=30)
@given(operand, sign, operand, sign, operand)
def test_every_edited_text_is_an_expression_in_which_only_the_place_changed(
    a: str, first: str, b: str, second: str, c: str
) -> None:
    source = f"g = {a} {first} ({b}) {second} {c}"
    for place in places(source):
        for edit in edits_of(place):
            (change,) = edit.changes
            if place.is_function:
                continue
            made = apply_changes(source, edit.changes)
            meant = apply_changes(source, [Change(change.start, change.end, f"({change.new})")])
            assert value(made) == pytest.approx(value(meant), nan_ok=True), (source, edit)
