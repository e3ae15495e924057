"""Hand derivations: right by formula, right by numbers, wrong, of another shape, and what cannot be read."""

from collections.abc import Callable
from typing import Any

import pytest

import gradcli
from tests.rows import for_rows

LEAST = ("0.5*sum((W@x - y)**2)", "W: m n; x: n; y: m")
LOGISTIC = ("sum(log(1 + exp(x)))", "x: n")
CROSS = ("-sum(y*log(softmax(z)))", "z: n; y: n")

# fmt: off
ANSWERS = [
    # function   by   the answer                             status  verdict  how         says
    (LEAST,     "W", "outer(W@x - y, x)",                      0, "right", "formulas", "the difference simplifies to zero"),
    (LEAST,     "W", "outer(W@x, x) - outer(y, x)",            0, "right", "formulas", "the difference simplifies to zero"),
    (LEAST,     "x", "W.T@W@x - W.T@y",                        0, "right", "formulas", "the difference simplifies to zero"),
    (LEAST,     "x", "r = W@x - y; W.T@r",                     0, "right", "formulas", "the difference simplifies to zero"),
    (LEAST,     "x", "(W@x - y)@W",                            0, "right", "formulas", "the difference simplifies to zero"),
    (LOGISTIC,  "x", "1/(1 + exp(-x))",                        0, "right", "formulas", "the difference simplifies to zero"),
    (LOGISTIC,  "x", "0.5*(1 + tanh(x/2))",                    0, "right", "numbers",  "at random points of three sizes"),
    (LEAST,     "W", "outer(x, W@x - y)",                      1, "wrong", "numbers",  "its shape is "),
    (LEAST,     "W", "sum(W@x - y)",                           1, "wrong", "numbers",  "its shape is "),
    (LEAST,     "W", "2*outer(W@x - y, x)",                    1, "wrong", "numbers",  "it is off by 1 times the largest entry; the gradient is"),
    (LEAST,     "x", "W.T@(y - W@x)",                          1, "wrong", "numbers",  "it is off by 2 times the largest entry; the gradient is"),
    (LOGISTIC,  "x", "1.0001/(1 + exp(-x))",                   1, "wrong", "numbers",  "it is off by 0.0001 times the largest entry; the gradient is"),
    (LOGISTIC,  "x", "log(-1 - x**2)",                         1, "wrong", "numbers",  "the gradient is"),
]
REFUSED = [
    ("W", "outer(W@x - q, x)",   "the answer uses 'q', which is not an input",             "inputs: W, x, y"),
    ("W", "outer(W@x - y, x",    "a bracket is not closed",                            ""),
    ("W", "outr(W@x - y, x)",    "unknown function 'outr'",                            "did you mean 'outer'?"),
    (None, "outer(W@x - y, x)",  "--answer is the derivative by one input",            "say which: --wrt W"),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "wrt", "answer", "status", "verdict", "how", "says"), ANSWERS)
def test_answers(
    gradcli: Callable[..., Any], problem: tuple, wrt: str, answer: str, status: int, verdict: str, how: str, says: str
) -> None:
    argv = ("derive", problem[0], "--shapes", problem[1], "--wrt", wrt, "--answer", answer)
    ran = gradcli(*argv, "--json")
    assert (ran.exit_status, ran.json["exit_status"]) == (status, status)
    found = ran.json["results"][0]["answer"]
    assert (found["text"], found["verdict"], found["how"]) == (answer, verdict, how)
    assert says in found["message"]
    shown = " ".join(gradcli(*argv).stdout.split())
    assert ("PASS" if status == 0 else "FAIL") in shown and says in shown


@for_rows(("wrt", "answer", "what", "do"), REFUSED)
def test_answers_that_cannot_be_read(
    gradcli: Callable[..., Any], wrt: str | None, answer: str, what: str, do: str
) -> None:
    ran = gradcli("derive", LEAST[0], "--shapes", LEAST[1], *(("--wrt", wrt) if wrt else ()), "--answer", answer)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert do in ran.stderr and (what in ran.stderr or what.startswith("a bracket"))


def test_a_fact_makes_an_answer_right(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", CROSS[0], "--shapes", CROSS[1], "--wrt", "z", "--answer", "softmax(z) - y")
    assert gradcli(*argv).exit_status == 1
    assert gradcli(*argv, "--assume", "y: simplex").exit_status == 0


def test_an_answer_is_of_the_layout(gradcli: Callable[..., Any]) -> None:
    argv = (
        "derive",
        LEAST[0],
        "--shapes",
        LEAST[1],
        "--wrt",
        "W",
        "--layout",
        "numerator",
        "--answer",
        "outer(x, W@x - y)",
    )
    assert gradcli(*argv).exit_status == 0


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        ("A.T@(A@x - b)", "a factor 2 too small"),
        ("-2*A.T@(A@x - b)", "the sign is flipped"),
        ("A@x", "its shape is m, not n"),
    ],
)
def test_the_mistake_in_an_answer_is_named(gradcli: Callable[..., Any], answer: str, mistake: str) -> None:
    shapes = ("--shapes", "A: m n; x: n; b: m", "--wrt", "x")
    ran = gradcli("derive", "sum((A@x - b)**2)", *shapes, "--answer", answer, "--json")
    assert mistake in ran.json["results"][0]["answer"]["message"] and ran.exit_status == 1


@for_rows(
    ("f", "shapes", "wrt", "answer", "says"),
    [
        ("x@A@x", "A: n n; x: n", "x", "2*A@x", 'right only if A is symmetric (--assume "A: symmetric")'),
        ("sum((X@w - y)**2)/m", "X: m n; w: n; y: m", "w", "2*X.T@(X@w - y)/n", "it is m/n times the right one"),
        ("1/norm(x)", "x: n", "x", "-x/norm(x)**2", "b is not squared"),
        ("0.5*sum((W@x - y)**2)", "W: n n; x: n; y: n", "x", "W@(W@x - y)", "not transposed"),
        (
            "0.5*sum((W@x - y)**2)",
            "W: m n; x: n; y: m",
            "x",
            "W@(W@x - y)",
            "it cannot be computed: shapes m x n and m do not fit",
        ),
        ("sum(logsumexp(Z, axis=1))", "Z: m n", "Z", "softmax(Z, axis=0)", "softmax(Z, axis=1) is right"),
    ],
)
def test_classic_mistakes_in_answers_are_named(
    gradcli: Callable[..., Any], f: str, shapes: str, wrt: str, answer: str, says: str
) -> None:
    ran = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--answer", answer, "--json")
    assert ran.exit_status == 1 and says in ran.json["results"][0]["answer"]["message"]


@pytest.mark.parametrize("answer", ["1/abs(x)", "exp(-log(x))", "1/x"])
def test_an_answer_is_compared_where_f_is_defined(gradcli: Callable[..., Any], answer: str) -> None:
    assert gradcli("derive", "log(x)", "--answer", answer).exit_status == 0


@for_rows(
    ("f", "shapes", "wrt", "order", "shown"),
    [
        ("log(1 + sum(exp(z)))", "z: n", "z", 1, "∂f/∂z = exp(z) / (1 + sum(exp(z)))"),
        ("log(2 + sum(exp(2*z)))", "z: n", "z", 1, "∂f/∂z = 2 exp(2 z) / (2 + sum(exp(2 z)))"),
        ("sum(gamma(x))", "x: n", "x", 1, "∂f/∂x = gamma(x) ∘ digamma(x)"),
        ("sum(gammaln(x))", "x: n", "x", 2, "∂²f/∂x² = diag(polygamma(1, x))"),
        ("beta(a, b)", "a:; b:", "a", 1, "∂f/∂a = beta(a, b) (digamma(a) - digamma(a + b))"),
        ("j0(x)", "x:", "x", 1, "∂f/∂x = -j1(x)"),
        ("norm(X)", "X: m n", "X", 1, "∂f/∂X = X / ‖X‖"),
    ],
)
def test_closed_forms_of_further_functions(f: str, shapes: str, wrt: str, order: int, shown: str) -> None:
    sizes = {name.strip(): dims.strip() for name, dims in (part.split(":") for part in shapes.split(";"))}
    (result,) = gradcli.derive(f, shapes=sizes, wrt=wrt, order=order).results
    assert result.formula.unicode == shown and result.check.verdict == "pass"
