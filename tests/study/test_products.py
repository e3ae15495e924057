"""Three ways to a product H v: they agree, and cost one gradient or two."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.rows import for_rows

Gradcli = Callable[..., Any]
WAYS = {"forward over reverse": 1, "reverse over reverse": 1, "differences of gradients": 2}
# fmt: off
FUNCTIONS = [
    ("x**3*y",                                   ("x=2", "y=3")),
    ("sin(x*y) + exp(-x**2)",                    ("x=0.5", "y=1.2")),
    ("sum(x**3*y)",                              ("x=[1, 2]", "y=3")),
    ("sum(tanh(W@x)**2)",                        ("W=[[0.3, -0.2], [0.5, 0.7]]", "x=[0.4, 0.9]")),
    ("logsumexp(x)",                             ("x=[0.1, 2, -1]",)),
    ("0.5*x@S@x",                                ("S=[[2, 1], [1, 3]]", "x=[1, -1]", "--wrt", "x")),
]
# fmt: on


def compared(gradcli: Gradcli, *argv: str) -> Any:
    ran = gradcli("compare-modes", *argv, "--modes", "certified,forward,reverse", "--json")
    assert ran.exit_status == 0, ran.stderr
    return ran.json


@for_rows(("text", "at"), FUNCTIONS)
def test_each_way_agrees_with_the_certified_hessian(gradcli: Gradcli, text: str, at: tuple[str, ...]) -> None:
    found = {way["name"]: way for way in compared(gradcli, text, *at, "--order", "2")["products"]}
    assert {name: way["evaluations"] for name, way in found.items()} == WAYS
    for name, way in found.items():
        assert way["digits"] > (7 if name == "differences of gradients" else 13), way
        assert way["seconds"] > 0 and way["relative_time"] > 0


def test_a_hessian_is_the_jacobian_of_the_gradient(gradcli: Gradcli) -> None:
    document = compared(gradcli, "x**2*y", "x=2", "y=3", "--order", "2")
    assert document["function"].startswith("gradient of x**2*y")
    for mode in document["modes"].values():
        assert mode["jacobian"] == {"x": [6.0, 4.0], "y": [4.0, 0.0]}


def test_a_quadratic_form_has_its_matrix(gradcli: Gradcli) -> None:
    document = compared(gradcli, *[FUNCTIONS[-1][0], *FUNCTIONS[-1][1]], "--order", "2")
    assert document["modes"]["certified"]["jacobian"] == {"x": [[2.0, 1.0], [1.0, 3.0]]}


@pytest.mark.parametrize("argv", [("x**2", "x=3"), ("[x*y, x]", "x=1", "y=2")])
def test_first_derivatives_have_no_such_products(gradcli: Gradcli, argv: tuple[str, ...]) -> None:
    assert "products" not in compared(gradcli, *argv)


def test_the_table_has_a_row_for_each_way(gradcli: Gradcli) -> None:
    text = gradcli("compare-modes", "x**3", "x=2", "--order", "2", "--modes", "certified,reverse").stdout
    assert "one product H v" in text and all(name in text for name in WAYS)


# fmt: off
JACOBIANS = [  # forward runs by columns, reverse by rows
    ("W@x",                "x=[1, 2, 3]",  (2, 3)),
    ("[sum(x), prod(x), x[0]]", "x=[1, 2]",  (3, 2)),
    ("x**2",               "x=[1, 2]",     (2, 2)),
]
# fmt: on


@pytest.mark.parametrize(("text", "x", "shape"), JACOBIANS)
def test_a_jacobian_takes_a_run_for_each_column_or_row(
    gradcli: Gradcli, text: str, x: str, shape: tuple[int, int]
) -> None:
    w = ("W=[[1, 2, 3], [4, 5, 6]]",) if "W" in text else ()
    modes = compared(gradcli, text, x, *w, "--wrt", "x", "--jacobian")["modes"]
    jacobians = [mode["jacobian"]["x"] for mode in modes.values()]
    assert (len(jacobians[0]), len(jacobians[0][0])) == shape
    assert jacobians[0] == jacobians[1] == jacobians[2]
    assert modes["forward"]["evaluations"] == shape[1]


# fmt: off
SHAPES = [  # reverse sweeps by rows, forward ones by columns, and what takes fewer operations
    ("W@x",                    "W=[[1, 2, 3], [4, 5, 6]]", "x=[1, 2, 3]", "2 by 3", "rows"),
    ("W@x",                    "W=[[1], [4], [5], [6]]",   "x=[2]",       "4 by 1", "columns"),
    ("[sum(W@x), W[0,0]]",     "W=[[1, 2, 3], [4, 5, 6]]", "x=[1, 2, 3]", "2 by 3", "rows"),
]
# fmt: on


@pytest.mark.parametrize(("text", "w", "x", "shape", "fewer"), SHAPES)
def test_the_shape_of_a_jacobian_decides(gradcli: Gradcli, text: str, w: str, x: str, shape: str, fewer: str) -> None:
    m, _, n = shape.split()
    argv = ("compare-modes", text, w, x, "--wrt", "x", "--modes", "fwd,rev")
    found = " ".join(gradcli(*argv).stdout.split())
    sweeps, columns = (
        f"{k} {what}{'' if k == '1' else 's'} (" for k, what in ((m, "reverse sweep"), (n, "forward one"))
    )
    assert f"The Jacobian is {shape}: by rows it takes {sweeps}" in found and f"f), by columns {columns}" in found
    assert f"f): {fewer} take fewer operations here." in found
    modes = gradcli(*argv, "--json").json["modes"]
    assert (modes["reverse"]["sweeps"], modes["forward"]["sweeps"]) == (int(m), int(n))
    assert modes["reverse"]["evaluations"] == 1


@pytest.mark.parametrize(
    ("modes", "says"), [("rev", "by rows it takes 2 reverse sweeps ("), ("fwd", "by columns 3 forward ones (")]
)
def test_one_way_to_a_jacobian_is_told_alone(gradcli: Gradcli, modes: str, says: str) -> None:
    argv = ("compare-modes", "W@x", "W=[[1, 2, 3], [4, 5, 6]]", "x=[1, 2, 3]", "--wrt", "x", "--modes", modes)
    found = " ".join(gradcli(*argv).stdout.split())
    assert f"The Jacobian is 2 by 3: {says}" in found and "One reverse sweep costs" not in found
