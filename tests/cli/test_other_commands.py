"""`compare-modes`, `grad`, `trace`, `modes`, `ops` and `schema`: statuses, documents and text."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.rows import for_rows

QUICK = ("--modes", "certified,forward,reverse,fd")
EXAMPLE = ("sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2")

# fmt: off
STATUSES = [
    (0, ("compare-modes", *EXAMPLE, *QUICK)),
    (0, ("compare-modes", "x**2", "x=3", "--grad", "2*x", *QUICK)),
    (0, ("compare-modes", "abs(x)", "x=0", "--modes", "fwd,rev")),
    (1, ("compare-modes", "x**2", "x=3", "--grad", "x", *QUICK)),
    (2, ("compare-modes", "sine(x)", *QUICK)),
    (3, ("compare-modes", "abs(x)", "x=0", "--grad", "1.5", *QUICK)),
    (0, ("grad", "x**2", "x=3")),
    (0, ("grad", "abs(x)", "x=1")),
    (2, ("grad", "x**2", "x=@nowhere.npy")),
    (0, ("trace", "x**2", "x=3")),
    (0, ("trace", "log(x)", "x=0")),
    (2, ("trace", "x**")),
    (0, ("modes",)),
    (0, ("ops", "tanh")),
    (2, ("ops", "coshh")),
    (0, ("schema", "trace")),
    (2, ("schema", "tarce")),
]
# fmt: on


@for_rows(("status", "argv"), STATUSES)
def test_exit_statuses(gradcli: Callable[..., Any], status: int, argv: tuple) -> None:
    ran = gradcli(*argv)
    assert ran.exit_status == status, ran.stderr
    assert (ran.stderr == "") is (status != 2)
    assert (ran.stdout == "") is (status == 2)


# fmt: off
NOTES = [  # status, what is printed, what the note says
    (3, ("log(sum(exp(z)))", "z=[1000, 2]"), 'df/dz = ["nan", "nan"]\n', "f is not finite here: exp overflows at 1000; subtract the maximum first (logsumexp"),
    (3, ("log(sum(exp(z)))", "z=[-1000, -2000]"), 'df/dz = ["nan", "nan"]\n', "log gives -inf at 0; exp underflows to 0 before: subtract the maximum first (logsumexp"),
    (3, ("exp(a)/(1 + exp(a))", "a=1000"), 'df/da = "nan"\n', "exp overflows at 1000"),
    (3, ("[x/y, y]", "x=1", "y=0"), 'df/dx = ["nan", 0.0]\ndf/dy = ["nan", 1.0]\n', "f is not finite here: the quotient gives inf"),
    (3, ("log(x)", "x=0"), 'df/dx = "nan"\n', "f is not finite here: log gives -inf at 0; move the point"),
    (3, ("sqrt(x)", "x=0"), 'df/dx = "inf"\n', "the gradient is not finite here: the slope of sqrt is not finite at 0"),
    (3, ("(1 - cos(x))/x**2", "x=1e-7"), 'df/dx = "nan"\n', "rounding leaves no right digit of df/dx: printed as nan"),
    (3, ("sum(cholesky(S))", "S=[[1, 1], [1, 1.0000000000000004]]"), "nan", "no digit of the gradient is known to be right: a run with random"),
    (0, ("(1 - cos(x))/x**2", "x=0.01"), "df/dx = -0.0008333", "right digits of df/dx, the worst; the others are not printed"),
    (0, ("sum(abs(x))", "x=[1, 0]"), "df/dx = [1.0, 0.0]\n", "the gradient may be a convention here: absolute has a kink where x = 0"),
    (0, ("where(x > 1, x**2, x)", "x=1"), "df/dx = 1.0\n", "convention here: the two sides of a comparison are exactly equal"),
]
# fmt: on


@for_rows(("status", "argv", "shown", "note"), NOTES)
def test_a_gradient_has_no_digit_that_is_not_known(
    gradcli: Callable[..., Any], status: int, argv: tuple, shown: str, note: str
) -> None:
    ran = gradcli("grad", *argv)
    assert ran.exit_status == status
    assert shown in ran.stdout
    assert ran.stderr.startswith("note: ")
    assert note in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    document = gradcli("grad", *argv, "--json")
    assert document.json["notes"] == [ran.stderr[len("note: ") : -1]]
    assert gradcli("grad", *argv, "--quiet").stderr == ""


def test_a_gradient_is_no_convention_where_the_pieces_meet_smoothly(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("grad", "relu(x)**2", "x=0")
    assert (ran.stdout, ran.stderr) == ("df/dx = 0.0\n", "")


@pytest.mark.parametrize("small", [1e-4, 1e-8, 1e-11])
def test_every_digit_of_a_gradient_is_right(gradcli: Callable[..., Any], small: float) -> None:
    matrix = f"S=[[1, 1], [1, {1 + small!r}]]"
    right = gradcli("compare-modes", "sum(cholesky(S))", matrix, "--modes", "certified,reverse", "--json").json
    right = np.ravel(right["modes"]["certified"]["gradient"]["S"])
    ran = gradcli("grad", "sum(cholesky(S))", matrix, "--json")
    written = [repr(x) for x in np.ravel(ran.json["gradient"]["S"]).tolist()]
    for text, x in zip(written, right, strict=True):
        digits = len(text.split("e")[0].replace(".", "").replace("-", "").strip("0"))
        assert float(text) == pytest.approx(x, rel=10.0 ** (1 - digits), abs=0)
    assert ran.exit_status == 0


@pytest.mark.parametrize("argv", [("norm(x)/sum(x)", "x=[1, 1, 1]"), ("sum((x - y)**2)", "x=[1, 2]", "y=[1, 2]")])
def test_a_gradient_that_is_zero_up_to_rounding_is_zero(gradcli: Callable[..., Any], argv: tuple) -> None:
    ran = gradcli("grad", *argv, "--json")
    assert (ran.exit_status, ran.stderr) == (0, "")
    assert all(not np.any(x) for x in ran.json["gradient"].values())


@pytest.fixture(name="compared")
def _compared(gradcli: Callable[..., Any]) -> Any:
    return gradcli("compare-modes", *EXAMPLE, *QUICK, "--json").json


def test_compare_modes_tells_every_figure_of_every_mode(compared: Any) -> None:
    assert list(compared["modes"]) == ["certified", "forward", "reverse", "finite-difference"]
    for mode in compared["modes"].values():
        assert set(mode["right_digits"]) == {"worst", "median"}
        assert {"gradient", "bound", "bound_held", "evaluations", "operations", "seconds", "relative_time"} <= set(mode)
        assert mode["bound_held"] is True


def test_compare_modes_ranks_the_digits(compared: Any) -> None:
    digits = {name: mode["right_digits"]["worst"] for name, mode in compared["modes"].items()}
    assert digits["certified"] > 30
    assert digits["reverse"] > 15 > digits["finite-difference"] > 9


def test_compare_modes_counts_evaluations(compared: Any) -> None:
    calls = {name: mode["evaluations"] for name, mode in compared["modes"].items()}
    assert calls["reverse"] == 1 and calls["forward"] == 2 and calls["finite-difference"] > 8


def test_compare_modes_measures_a_claim(gradcli: Callable[..., Any]) -> None:
    document = gradcli("compare-modes", "x**2", "x=3", "--grad", "2.002*x", *QUICK, "--json").json
    assert document["verdict"] == "fail"
    assert document["modes"]["claim"]["right_digits"]["worst"] == pytest.approx(3.0, abs=0.01)
    assert document["modes"]["claim"]["bound_held"] is False


def test_compare_modes_has_jacobians_of_vector_results(gradcli: Callable[..., Any]) -> None:
    modes = gradcli("compare-modes", "[x*y, x]", "x=3", "y=2", "--modes", "fwd,rev", "--json").json["modes"]
    assert modes["forward"]["jacobian"] == modes["reverse"]["jacobian"] == {"x": [2.0, 1.0], "y": [3.0, 0.0]}


def test_compare_modes_shows_modes_that_do_not_apply(gradcli: Callable[..., Any]) -> None:
    argv = ("compare-modes", "abs(x)", "x=1", "--modes", "cs,fwd")
    assert gradcli(*argv, "--json").json["modes"]["complex-step"]["status"] == "unsupported"
    assert "unsupported" in gradcli(*argv).stdout


def test_compare_modes_runs_the_symbolic_mode(gradcli: Callable[..., Any]) -> None:
    mode = gradcli("compare-modes", *EXAMPLE, "--modes", "certified,symbolic", "--json").json["modes"]["symbolic"]
    assert mode["status"] == "ok" and mode["right_digits"]["worst"] > 15.5


def test_grad_prints_a_line_that_reads_back(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("grad", "sum(x**2)/y", "x=[1, 2]", "y=3")
    found = dict(line.split(" = ") for line in ran.stdout.splitlines())
    assert json.loads(found["df/dx"]) == [2 / 3, 4 / 3]
    assert float(found["df/dy"]) == pytest.approx(-5 / 9)


def test_grad_says_at_which_drawn_point(gradcli: Callable[..., Any]) -> None:
    document = gradcli("grad", "x**2", "--json").json
    x = document["at"]["x"]
    assert gradcli("grad", "x**2").stdout == f"df/dx = {2 * x}  at x = {x} (drawn)\n"
    assert gradcli("grad", "x*y", "y=3").stdout == f"df/dx = 3.0\ndf/dy = {x}\nat x = {x} (drawn), y = 3.0\n"
    assert gradcli("grad", "x**2", "--format", "csv").stdout == f"input,index,gradient,at,drawn\nx,,{2 * x},{x},true\n"


def test_grad_keeps_the_shape_of_the_input(gradcli: Callable[..., Any]) -> None:
    document = gradcli("grad", "sum(W**2)", "W=[[1, 2], [3, 4]]", "--json").json
    assert document["gradient"] == {"W": [[2.0, 4.0], [6.0, 8.0]]}
    assert document["value"] == 30.0


def test_grad_floats_round_trip(gradcli: Callable[..., Any]) -> None:
    assert gradcli("grad", "sin(x)", "x=0.1", "--json").json["gradient"]["x"] == math.cos(0.1)


def test_grad_of_what_is_not_finite_says_so(gradcli: Callable[..., Any]) -> None:
    assert gradcli("grad", "log(x)", "x=0", "--json").json["gradient"] == {"x": "nan"}


def test_a_large_gradient_is_summarised(gradcli: Callable[..., Any]) -> None:
    found = gradcli("grad", "sum(x**2)", "x=arange(10001)", "--json").json["gradient"]["x"]
    assert found["shape"] == [10_001]
    assert found["worst"][0] == {"index": [10_000], "value": 20_000.0}


def test_trace_tells_forward_and_back(gradcli: Callable[..., Any]) -> None:
    text = gradcli("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 v3 = x1 + x2 7.0 dv3/dx1 = 1 dv3/dx2 = 1" in lines
    assert "2 result = v3 * x1 21.0 dresult/dv3 = 3 dresult/dx1 = 7" in lines
    assert "dL/dx1 10.0 = 3*1 (v3) + 1*7 (result): used twice, summed" in lines
    assert lines.index("dL/dv3 3.0 = 1*3 (result)") < lines.index("dL/dx2 3.0 = 3*1 (v3)")


def test_modes_lists_what_is_here(gradcli: Callable[..., Any]) -> None:
    document = gradcli("modes", "--json").json
    assert [mode["name"] for mode in document["modes"]] == [
        "certified",
        "symbolic",
        "forward",
        "reverse",
        "complex-step",
        "finite-difference",
        "torch",
        "jax",
        "tensorflow",
        "mlx",
    ]
    assert document["devices"] == ["cpu"]
    assert all(mode["available"] and mode["version"] for mode in document["modes"][:6])
    assert all(mode["what"] for mode in document["modes"])
    assert all(bool(mode["hint"]) is not mode["available"] for mode in document["modes"])


def test_modes_text_names_the_libraries(gradcli: Callable[..., Any]) -> None:
    text = gradcli("modes", environ={"COLUMNS": "120"}).stdout
    assert all(word in text for word in ("python-flint", "sympy", "numpy", "devices: cpu"))


def test_ops_shows_the_derivative_and_its_accuracy(gradcli: Callable[..., Any]) -> None:
    text = gradcli("ops", "tanh").stdout
    assert "tanh" in text and "ulps" in text


def test_ops_check_is_accepted_and_says_that_it_does_nothing(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("ops", "sin", "--check", "--json")
    assert [op["checked"] for op in ran.json["operations"]] == [None]
    assert ran.stderr == "note: --check does nothing: every check verifies the rules that its function uses\n"


def test_unknown_primitives_get_a_near_name(gradcli: Callable[..., Any]) -> None:
    assert gradcli("ops", "coshh").stderr == "error: there is no primitive 'coshh'\n  did you mean 'cosh'?\n"


def test_schema_prints_json_schema(gradcli: Callable[..., Any]) -> None:
    found = gradcli("schema", "trace").json
    assert found["$schema"].endswith("2020-12/schema")
    assert {"nodes", "target", "at", "environment", "schema"} <= set(found["required"])
