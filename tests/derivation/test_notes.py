"""Names and operations that may mean something else than they say are noted, and numbers where arrays are meant refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.rows import for_rows

Gradcli = Callable[..., Any]


@pytest.mark.parametrize(
    ("f", "shapes", "do"),
    [
        ("-sum(y*log(softmax(z)))", None, 'give sizes: --shapes "y: n; z: n"; of a number: "y:"'),
        ("sum(x)", None, 'give sizes: --shapes "x: n"; of a number: "x:"'),
        ("norm(W@x) + mean(t)", "W: m n; x: n", 'give sizes: --shapes "W: m n; x: n; t: k"; of a number: "t:"'),
    ],
)
def test_a_function_of_arrays_is_not_derived_for_a_number(
    gradcli: Gradcli, f: str, shapes: str | None, do: str
) -> None:
    ran = gradcli("derive", f, *(["--shapes", shapes] if shapes else []))
    assert (ran.exit_status, ran.stderr.splitlines()[-1].strip()) == (2, do)


@for_rows(
    "argv", [("sum(x)", "--shapes", "x:"), ("sum(x)", "x=3"), ("x**2*sin(y)",), ("lam*sum(x)", "--shapes", "x: n")]
)
def test_what_is_said_to_be_a_number_is_one(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    assert gradcli("derive", *argv).exit_status == 0


# fmt: off
NOTES = [
    ("trace(X^-1)",    "X: n n", "taken entry by entry: for the inverse of the matrix write inv(X)"),
    ("sum(exp(X))",    "X: n n", "taken entry by entry: the matrix exponential is expm"),
    ("sum(I*x)",       "I: n; x: n", "I is an input here, not the identity matrix; write eye(n) for that"),
    ("sum(x)/n",       "x: n", "n is the size of x here, and no input"),
]
# fmt: on


@for_rows(("f", "shapes", "says"), NOTES)
def test_what_may_be_meant_otherwise_is_noted(gradcli: Gradcli, f: str, shapes: str, says: str) -> None:
    ran = gradcli("derive", f, "--shapes", shapes, "--json")
    notices = [found["message"] for found in ran.json["findings"] if found["kind"] == "notice"]
    assert (ran.exit_status, notices) == (0, [says])


def test_a_constant_is_no_input(gradcli: Gradcli) -> None:
    ran = gradcli("derive", "sum(e*x)", "--shapes", "e: n; x: n")
    assert (ran.exit_status, "call the input by another name: e_" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("f", "shapes"), [("sum(exp(X))", "X: m n"), ("sum(x^-1)", "x: n"), ("trace(inv(X))", "X: n n")]
)
def test_nothing_is_noted_where_nothing_else_is_meant(gradcli: Gradcli, f: str, shapes: str) -> None:
    assert gradcli("derive", f, "--shapes", shapes, "--json").json["findings"] == []
