"""The remainder test of claims: right ones leave h squared, wrong ones leave h."""

from pathlib import Path

import pytest

from tests.rows import for_rows
from tests.study.test_sweep import Gradcli, swept
from tests.study.test_sweep_black_box import BLACK_BOX
from tests.targets.test_loading import written


@pytest.fixture(name="black_box")
def _black_box(tmp_path: Path) -> str:
    return written(tmp_path, BLACK_BOX)


# fmt: off
CLAIMS = [
    # function and point                   claim                      status  Taylor         order
    (("sin(x)", "x=1"),                    "cos(x)",                     0,   "right",       2),
    (("sin(x)", "x=1"),                    "-cos(x)",                    1,   "wrong",       1),
    (("sin(x)", "x=1"),                    "1.001*cos(x)",               1,   "wrong",       1),
    (("exp(x)*y", "x=1", "y=2"),           "x=exp(x)*y, y=exp(x)",       0,   "right",       2),
    (("exp(x)*y", "x=1", "y=2"),           "x=exp(x), y=exp(x)",         1,   "wrong",       1),
    (("sum(x**3)", "x=[1, -2, 3]"),        "3*x**2",                     0,   "right",       2),
    (("sum(x**3)", "x=[1, -2, 3]"),        "3*x",                        1,   "wrong",       1),
    (("3*x", "x=3"),                       "3",                          0,   "right",       None),
    (("3*x", "x=3"),                       "3.01",                       1,   "wrong",       1),
    (("sum(A@x)", "A=[[1,2],[3,4]]", "x=[1,2]", "--wrt", "x"), "[4, 6]", 0,   "right",       None),
    (("x**2", "x=3"),                      "2*x",                        0,   "right",       2),
    (("x**2", "x=3"),                      "2.001*x",                    1,   "wrong",       1),
    (("x**3", "x=0"),                      "3*x**2",                     0,   "right",       3),
    (("5 + 0*x", "x=1"),                   "0",                          0,   "right",       None),
    (("abs(x)", "x=0"),                    "0.5",                        0,   "cannot tell", 1),
    (("abs(x)", "x=0"),                    "3",                          3,   "cannot tell", 1),
    (("abs(x)", "x=1"),                    "1",                          0,   "right",       None),
]
# fmt: on


@for_rows(("argv", "claim", "status", "verdict", "order"), CLAIMS)
def test_remainders_of_a_claim(
    gradcli: Gradcli, argv: tuple, claim: str, status: int, verdict: str, order: float | None
) -> None:
    document = swept(gradcli, *argv, "--grad", claim)
    taylor = document["taylor"]
    assert (document["exit_status"], taylor["verdict"]) == (status, verdict)
    assert taylor["order"] == (None if order is None else pytest.approx(order, abs=0.15))
    assert len(taylor["h"]) == len(taylor["remainder"])


@pytest.mark.parametrize(("claim", "status", "verdict"), [("g", 0, "right"), ("bad", 1, "wrong")])
@pytest.mark.parametrize("name", ["f", "single"])
def test_remainders_of_black_boxes(
    gradcli: Gradcli, black_box: str, name: str, claim: str, status: int, verdict: str
) -> None:
    document = swept(gradcli, f"{black_box}:{name}", "x=1.0", "--grad", claim)
    assert (document["exit_status"], document["taylor"]["verdict"]) == (status, verdict)


def test_remainders_under_noise_stop_where_the_noise_begins(gradcli: Gradcli, black_box: str) -> None:
    taylor = swept(gradcli, f"{black_box}:noisy", "x=1.0", "--grad", "g")["taylor"]
    assert taylor["verdict"] == "right" and taylor["order"] == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize(
    ("jac", "status", "verdict"), [("x=[y, 1], y=[x, 0]", 0, "right"), ("x=[y, 2], y=[x, 0]", 1, "wrong")]
)
def test_remainders_of_a_jacobian(gradcli: Gradcli, jac: str, status: int, verdict: str) -> None:
    document = swept(gradcli, "[x*y, x]", "x=3", "y=2", "--jac", jac)
    assert (document["exit_status"], document["taylor"]["verdict"]) == (status, verdict)


# fmt: off
SAID = [
    ("sin(x)",  "x=1",  "cos(x)",       "falls with slope 2.00: along v there is no error above 1e-07 of the slope."),
    ("sin(x)",  "x=1",  "1.01*cos(x)",  "falls with slope 1.00, not 2: along v the gradient is wrong. <g, v> = 0.545705329, the slope of f is 0.540302306 (1.0e-02 off)."),
    ("3*x",     "x=1",  "3",            "The remainder is rounding at every step: f is linear along v, and <g, v> = 3 has no error above"),
    ("abs(x)",  "x=0",  "0",            "f has a kink here: remainders fall with slope 1 whatever the gradient is"),
]
# fmt: on


@for_rows(("f", "at", "claim", "says"), SAID)
def test_what_is_said_of_the_remainders(gradcli: Gradcli, f: str, at: str, claim: str, says: str) -> None:
    assert says in swept(gradcli, f, at, "--grad", claim)["taylor"]["message"]


def test_without_a_claim_there_are_no_remainders(gradcli: Gradcli) -> None:
    document = swept(gradcli, "sin(x)", "x=1")
    assert not {"taylor", "verdict", "message"} & set(document)


def test_a_remainder_is_what_it_says(gradcli: Gradcli) -> None:
    taylor = swept(gradcli, "x**2", "x=3", "--grad", "2*x")["taylor"]
    for h, remainder in zip(taylor["h"][:9], taylor["remainder"][:9], strict=True):
        assert remainder == pytest.approx(9 * h**2, rel=1e-6)  # v is x itself: (3 h)^2


@pytest.mark.parametrize("order", [2, 4, 6])
def test_small_mistakes_are_seen_down_to_what_is_said(gradcli: Gradcli, order: int) -> None:
    """The smallest h at which remainders stand above rounding bounds what is seen: about 1e-8 of the slope."""
    claim = f"cos(x)*(1 + 1e-{order})"
    assert swept(gradcli, "sin(x)", "x=1", "--grad", claim)["taylor"]["verdict"] == "wrong"


@for_rows("error", [5e-8, 1e-7, 3e-7, -5e-8, -1e-7, -3e-7])
@for_rows(("f", "claim"), [("sin(x)", "cos(x)"), ("exp(x)", "exp(x)"), ("1/x", "-1/x**2")])
def test_no_error_that_is_there_is_excluded(gradcli: Gradcli, f: str, claim: str, error: float) -> None:
    """The bend of f can hide an error at a single step; what is said to be excluded has room for it."""
    found = swept(gradcli, f, "x=1", "--grad", f"({claim})*(1 + {error!r})")["taylor"]
    if found["verdict"] == "right":
        assert float(found["message"].partition("no error above ")[2].split()[0]) >= 0.95 * abs(error)
