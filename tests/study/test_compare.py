"""What compare-modes says of digits and bounds, and where it says nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.rows import for_rows
from tests.study.test_sweep import Gradcli
from tests.targets.test_loading import written

CODE = """
    from scipy.integrate import quad
    rng = np.random.default_rng(0)
    def opaque(a): return quad(lambda t: np.exp(-float(a)*t*t), 0, 2)[0]
    def stairs(x): return int(np.sum(x)*100)
    def random(x): return np.sum(x**2)*rng.uniform()
    def nans(x): return np.sum(x)*np.nan
    def only_there(x):
        if np.any(x != 1.0): raise RuntimeError("only at 1")
        return np.sum(x)
    def choice(z, y): return np.sum(np.where(y > 0.5, z, 1 - z)**2)
"""


@pytest.fixture(name="code")
def _code(tmp_path: Path) -> str:
    return written(tmp_path, CODE)


def compared(gradcli: Gradcli, *argv: str) -> Any:
    return gradcli("compare-modes", *argv, "--json").json


def test_an_estimate_measured_against_itself_has_the_digits_of_its_bound(gradcli: Gradcli, code: str) -> None:
    row = compared(gradcli, f"{code}:opaque", "a=1.5", "--modes", "fd")["modes"]["finite-difference"]
    right = -0.23941959678466138
    assert row["reference"] is True and "bound_held" not in row
    assert 8 < row["right_digits"]["worst"] < 13
    assert abs(row["gradient"]["a"] - right) <= row["bound"]["a"]
    text = gradcli("compare-modes", f"{code}:opaque", "a=1.5", "--modes", "fd").stdout
    assert "reference" in text and " yes" not in text


def test_no_claim_has_more_digits_than_an_estimated_reference(gradcli: Gradcli, code: str) -> None:
    argv = (f"{code}:opaque", "a=1.5", "--modes", "fd", "--grad", "a=-0.23941959678462274")
    modes = compared(gradcli, *argv)["modes"]
    assert modes["claim"]["right_digits"]["worst"] <= modes["finite-difference"]["right_digits"]["worst"]


def test_a_staircase_of_whole_numbers_has_no_digits(gradcli: Gradcli, code: str) -> None:
    document = compared(gradcli, f"{code}:stairs", "x=[1.0, 2.0]", "--modes", "fd")
    assert document["modes"]["finite-difference"]["right_digits"]["worst"] == 0
    assert [f["kind"] for f in document["findings"]] == ["integer", "noise"]


def test_entries_that_a_staircase_leaves_open_are_not_counted(gradcli: Gradcli) -> None:
    rows = compared(gradcli, "floor(x)", "x=2.5", "--modes", "fwd,rev,fd")["modes"]
    assert not any("right_digits" in row or "bound_held" in row for row in rows.values())
    rows = compared(gradcli, "floor(x)*y + y**2", "x=2.5", "y=3", "--modes", "fwd,rev,fd")["modes"]
    assert all(row["right_digits"]["worst"] > 8 for row in rows.values())  # those of y


@pytest.mark.parametrize(
    ("name", "x", "kind"), [("random", "x=1.0", "not-deterministic"), ("nans", "x=[1.0, 2.0]", "non-finite")]
)
def test_where_there_is_no_gradient_nothing_is_right_or_held(
    gradcli: Gradcli, code: str, name: str, x: str, kind: str
) -> None:
    document = compared(gradcli, f"{code}:{name}", x, "--modes", "fwd,rev,fd")
    assert document["exit_status"] == 3 and kind in [f["kind"] for f in document["findings"]]
    assert not any("right_digits" in row or "bound_held" in row for row in document["modes"].values())
    assert document["sweep"] == []


def test_a_value_that_is_not_finite_is_not_within_its_bound(gradcli: Gradcli, code: str) -> None:
    rows = compared(gradcli, f"{code}:only_there", "x=1.0", "--modes", "fwd,rev,fd")["modes"]
    assert "bound_held" not in rows.get("finite-difference", {})


@pytest.mark.parametrize("argv", [("sum(x)", "x=[]"), ("3",)])
def test_without_entries_there_are_no_digits(gradcli: Gradcli, argv: tuple) -> None:
    document = compared(gradcli, *argv, "--modes", "cert,rev")
    assert not any("right_digits" in row for row in document["modes"].values())
    assert [f["kind"] for f in document["findings"]] == ["nothing-to-compare"]
    assert "99.0" not in gradcli("compare-modes", *argv, "--modes", "cert,rev").stdout


def test_an_input_that_does_not_move_f_leaves_the_complex_step_to_the_others(gradcli: Gradcli, code: str) -> None:
    row = compared(gradcli, f"{code}:choice", "z=[0.3, 2.0]", "y=[1.0, 0.0]", "--modes", "cert,cs")["modes"][
        "complex-step"
    ]
    assert row["status"] == "ok" and row["gradient"]["y"] == [0, 0] and row["right_digits"]["worst"] > 14


def test_a_complex_step_that_is_refused_is_not_the_best(gradcli: Gradcli) -> None:
    document = compared(gradcli, "sin(x)*y", "x=1", "y=2", "--order", "2")
    assert document["modes"]["complex-step"]["status"] == "unsupported"
    assert "complex" not in [s["scheme"] for s in document["sweep"]]


def test_second_derivatives_are_called_so(gradcli: Gradcli) -> None:
    text = " ".join(
        gradcli("compare-modes", "x*y**2", "x=2", "y=3", "--order", "2", "--modes", "fwd,rev").stdout.split()
    )
    for says in ("d2f/dxdx", "d2f/dydx", "The Hessian is 2 by 2", "evaluations of the gradient", "gradients)"):
        assert says in text
    ran = gradcli("compare-modes", "sin(x)", "x=2", "--order", "2", "--modes", "rev", "--dtype", "float16")
    assert ran.exit_status == 2 and "low precision is for first derivatives" in ran.stderr


def test_entries_of_a_jacobian_name_output_and_input(gradcli: Gradcli) -> None:
    assert "df[0]/dx df[1]/dx" in " ".join(
        gradcli("compare-modes", "[x*y, x]", "x=2", "y=3", "--modes", "rev").stdout.split()
    )


def test_where_no_step_has_a_digit_none_is_called_the_best(gradcli: Gradcli) -> None:
    text = gradcli("compare-modes", "x**2", "x=1e-200", "--modes", "rev,fwd", "--steps").stdout
    assert "No step gives a right digit" in text and "is best" not in text


# Digits, as far as the reference tells

TAME = ("sum(exp(x)*sin(x))", "x=[0.3, 1.7, -2]")
FLOATS = ("forward", "reverse", "symbolic", "complex-step")


def digits(document: Any) -> dict[str, tuple[float, bool]]:
    return {
        name: (row["right_digits"]["worst"], row["right_digits"].get("at_least", False))
        for name, row in document["modes"].items()
        if "right_digits" in row
    }


@for_rows("modes", ["forward,fd", "reverse,cs,fd", "symbolic,reverse,fd", "cs,fd", "fd,reverse,forward"])
def test_without_certified_values_no_more_digits_are_claimed_than_the_reference_has(
    gradcli: Gradcli, modes: str
) -> None:
    certified = digits(compared(gradcli, *TAME, "--modes", "all"))
    document = compared(gradcli, *TAME, "--modes", modes)
    found = digits(document)
    for name, (worst, at_least) in found.items():
        assert worst <= certified[name][0] + 0.2, name  # as they are against certified values, or fewer
        if name in FLOATS:
            assert at_least and worst > 13, name  # nor as few as those of differences
    assert found["finite-difference"][0] < min(worst for name, (worst, _) in found.items() if name in FLOATS)
    text = gradcli("compare-modes", *TAME, "--modes", modes).stdout
    assert ">=" in text


def test_against_certified_values_digits_are_counted(gradcli: Gradcli) -> None:
    assert not any(at_least for _, at_least in digits(compared(gradcli, *TAME, "--modes", "all")).values())
    assert ">=" not in gradcli("compare-modes", *TAME, "--modes", "all").stdout


@pytest.mark.parametrize(
    ("claim", "least", "most"), [("cos(x)", 9, 13), ("cos(x)*(1+1e-4)", 3.9, 4.1), ("-cos(x)", 0, 0)]
)
def test_a_claim_has_no_digits_by_its_own_word(
    gradcli: Gradcli, tmp_path: Path, claim: str, least: float, most: float
) -> None:
    """Differences are all that there is; a claim that is right has as many digits as they show, and is not granted its own."""
    file = written(tmp_path, "import math\ndef f(x): return math.sin(float(x))")
    found = digits(compared(gradcli, f"{file}:f", "x=1.0", "--modes", "fd", "--grad", f"x={claim}"))
    assert least <= found["claim"][0] <= most
    assert found["claim"][1] is (claim == "cos(x)")
