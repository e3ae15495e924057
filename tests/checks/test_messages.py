"""What a diagnosis says of expressions, of which the piece is quoted, and of Jacobians, whose entries are named."""

from typing import Any

import numpy as np

import gradcli
from tests.checks.planting import MODES, checked, corrected, diagnosis_of
from tests.rows import for_rows

# fmt: off
EXPRESSIONS = [
    # expression, point, right claim, wrong claim, kind, part of the message, the line
    ("sum(tanh(x)*y)",         "x=[0.3, 1.2, -0.7], y=[1, 2, 0.5]", "x=(1 - tanh(x)**2)*y, y=tanh(x)", "x=(1 - tanh(x))*y, y=tanh(x)", "slip", "tanh' is 1 - y**2, not 1 - y, in tanh(x)", 1),
    ("sum(sqrt(x)*x)",         "x=[0.3, 1.2, 0.7]",                 "sqrt(x) + 0.5*sqrt(x)",           "2*sqrt(x)",                    "slip", "", 1),
    ("sum(sqrt(x)) + sum(x*x)", "x=[0.3, 1.2, 0.7]",                "0.5/sqrt(x) + 2*x",               "1/sqrt(x) + 2*x",              "slip", "the 1/2 is missing, in sqrt(x)", 1),
    ("sum(log(x)) + sum(x*x)", "x=[0.3, 1.2, 0.7]",                 "1/x + 2*x",                       "2*x",                          "term", "the gradient of one term of the function is missing, in sum(log(x))", 1),
    ("sum(log(x)) + sum(x*x)", "x=[0.3, 1.2, 0.7]",                 "1/x + 2*x",                       "-1/x + 2*x",                   "negated", "wrong sign, in sum(log(x))", 1),
    ("sum(x/y)",               "x=[0.3, 1.2, 0.7], y=[1, 2, 0.5]",  "x=1/y, y=-x/y**2",                "x=1/y, y=-x/y",                "slip", "b is not squared", 1),
    ("a = exp(x); sum(a*sin(x))", "x=[0.3, 1.2, -0.7]",             "exp(x)*(sin(x) + cos(x))",        "exp(x)*(sin(x) - cos(x))",     "negated", "the derivative of one operation has the wrong sign", 1),
    ("a = exp(x); sum(a*sin(x))", "x=[0.3, 1.2, -0.7]",             "exp(x)*(sin(x) + cos(x))",        "exp(x)*2*sin(x)",              "slip", "sin' is cos, not sin, in sin(x)", 1),
    ("mean((x - y)**2)",       "x=[0.3, 1.2, 0.7, 3, 4], y=[1, 2, 0.5, 2, 1]", "x=2*(x - y)/5, y=2*(y - x)/5",   "x=2*(x - y), y=2*(y - x)",     "factor", "a factor 5 too large: a mean over axis 0 of x became a sum", None),
]
# fmt: on


@for_rows(("text", "at", "right", "wrong", "kind", "says", "line"), EXPRESSIONS)
def test_the_piece_of_the_expression_is_quoted(
    text: str, at: str, right: str, wrong: str, kind: str, says: str, line: int | None
) -> None:
    report = checked(text, at, right)
    assert (report.verdict, diagnosis_of(report)) == ("pass", None)
    report = checked(text, at, wrong)
    found = diagnosis_of(report)
    assert report.exit_status == 1
    assert found is not None
    assert (found.kind, says in found.message, found.line) == (kind, True, line), found
    if found.source is not None:
        assert found.source in text
        assert found.message.endswith(f"in {found.source}")


X = np.array([0.4, -1.1, 0.8])
W = np.array([[0.5, -0.2, 0.7], [1.1, 0.3, -0.6]])


def hidden(x: Any, W: Any) -> Any:
    h = W @ x
    return np.tanh(h) + h * h


def jacobian(x: Any, W: Any) -> Any:
    h = W @ x
    d = 1 - np.tanh(h) ** 2 + 2 * h
    return d[:, None] * W, np.einsum("k,kl,m->klm", d, np.eye(2), x)


def edited(makes: Any) -> Any:
    def claim(x: Any, W: Any) -> Any:
        dx, dW = (np.array(g) for g in jacobian(x, W))
        makes(dx, dW)
        return dx, dW

    return claim


def _negate_row(dx: Any, dW: Any) -> None:
    dx[1] *= -1


def _double_column(dx: Any, dW: Any) -> None:
    dx[:, 2] *= 2


def _spoil_entry(dx: Any, dW: Any) -> None:
    dx[1, 2] += 0.0123


def _negate_all(dx: Any, dW: Any) -> None:
    dx *= -1
    dW *= -1


def _clear_row(dx: Any, dW: Any) -> None:
    dx[0] = 0


# fmt: off
JACOBIANS = [
    (_negate_row,    "sign",     "the sign is flipped in f[1]/x[0], f[1]/x[1], f[1]/x[2]",   "f[1]/x["),
    (_double_column, "factor",   "a factor 2 too large in ",               "f["),
    (_spoil_entry,   "entry",    "one entry alone is wrong, f[1]/x[2]",    "f[1]/x[2]"),
    (_negate_all,    "sign",     "the sign is flipped",                    "f["),
    (_clear_row,     "detached", "in f[0]/x[0], f[0]/x[1], f[0]/x[2]",                      "f[0]/x["),
]
# fmt: on


@for_rows(("makes", "kind", "says", "entry"), JACOBIANS)
def test_the_wrong_entries_of_a_jacobian_are_named(makes: Any, kind: str, says: str, entry: str) -> None:
    at = {"x": X, "W": W}
    report = gradcli.check(hidden, at, jac=edited(makes), modes=MODES)
    found = diagnosis_of(report)
    assert report.exit_status == 1
    assert found is not None
    assert (found.kind, says in found.message) == (kind, True), found
    assert str(found.corrected).startswith(entry)
    corrected(found, dict(zip(at, jacobian(X, W), strict=True)), dict(zip(at, edited(makes)(X, W), strict=True)))


def test_a_slip_in_a_jacobian_is_named_on_its_line() -> None:
    def claim(x: Any, W: Any) -> Any:
        h = W @ x
        d = 1 - np.tanh(h) + 2 * h
        return d[:, None] * W, np.einsum("k,kl,m->klm", d, np.eye(2), x)

    found = diagnosis_of(gradcli.check(hidden, {"x": X, "W": W}, jac=claim, modes=MODES))
    assert found is not None
    assert found.kind == "slip"
    assert found.message == "tanh' is 1 - y**2, not 1 - y, in np.tanh(h)"
    assert found.source == "return np.tanh(h) + h * h"


def test_a_right_jacobian_has_no_diagnosis() -> None:
    report = gradcli.check(hidden, {"x": X, "W": W}, jac=jacobian, modes=MODES)
    assert (report.verdict, diagnosis_of(report)) == ("pass", None)
