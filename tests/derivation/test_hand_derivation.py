"""Hand derivations: right by formula, right by numbers, wrong, the slips that are named, and what cannot be read."""

from collections.abc import Callable
from typing import Any

import pytest

import gradcli
from gradcli.derivation.hand_derivation import parse_answers
from tests.rows import for_rows

LEAST = ("0.5*sum((W@x - y)**2)", "W: m n; x: n; y: m")
LOGISTIC = ("sum(log(1 + exp(x)))", "x: n")
MEAN = ("mean((X@w - y)**2)", "X: m n; w: n; y: m")
AFFINE = ("0.5*sum((X@W + b - Y)**2)", "X: m n; W: n k; b: k; Y: m k")
NET = ("H = tanh(X@W1); Z = H@W2; 0.5*sum((Z - Y)**2)/m", "X: m n; W1: n h; W2: h k; Y: m k")
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
    (LEAST,     "x", "W@(W@x - y)",                            1, "wrong", "numbers",  "it cannot be computed: shapes m x n and m do not fit"),
    (LEAST,     "W", "sum(W@x - y)",                           1, "wrong", "numbers",  "its shape is "),
    (LEAST,     "W", "2*outer(W@x - y, x)",                    1, "wrong", "numbers",  "your gradient by W is wrong: it is off by 1 times the largest entry"),
    (LEAST,     "x", "W.T@(y - W@x)",                          1, "wrong", "numbers",  "your gradient by x is wrong: it is off by 2 times the largest entry"),
    (LOGISTIC,  "x", "1.0001/(1 + exp(-x))",                   1, "wrong", "numbers",  "your gradient by x is wrong: it is off by 0.0001 times the largest entry"),
    (LOGISTIC,  "x", "log(-1 - x**2)",                         1, "wrong", "numbers",  "your gradient by x is wrong: it is not finite"),
]
REFUSED = [
    ("W", "outer(W@x - q, x)",   "the answer uses 'q', which is not an input",             "inputs: W, x, y; names of parts: t1, f; or say what it is: q = ...; outer(W@x - q, x)"),
    ("W", "outer(W@x - y, x",    "a bracket is not closed",                            ""),
    ("W", "outr(W@x - y, x)",    "unknown function 'outr'",                            "did you mean 'outer'?"),
    ("W", "x = W.T@(W@x - y)",   "--wrt leaves out x, which --answer has",              "--wrt x"),
    ("W,x", "W = outer(W@x, x)", "--wrt names x, and --answer does not",                "--wrt W"),
    (None, "W = x; W = y",       "the derivative by W is answered twice",               "leave one out"),
    (None, "W = x; y - W@x",     "'y - W@x' does not say which input it is by",         "name it: x = ...; y = ..."),
    (None, "r = W@x - y",        "the answer ends with 'r = W@x - y', which is by no input", "inputs: W, x, y"),
    ("W", "outer(W@x, x)/len(x)", "unknown function 'len'",                            "a size has the name that --shapes gives it"),
    ("W", "outer(W@x, x)/x.shape[0]", "'.shape' is not part of the language",          "a size has the name that --shapes gives it"),
    (None, "outer(W@x - y, x)",  "--answer does not say which input it is by",           "say which: --wrt W, or name each: W = ...; x = ...; y = ..."),
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


@pytest.mark.parametrize("answer", ["1/abs(x)", "exp(-log(x))", "1/x"])
def test_an_answer_is_compared_where_f_is_defined(gradcli: Callable[..., Any], answer: str) -> None:
    assert gradcli("derive", "log(x)", "--answer", answer).exit_status == 0


@for_rows(
    ("text", "found"),
    [
        ("dW = outer(y, x); db = y", {"W": "outer(y, x)", "b": "y"}),
        ("dL/dW = outer(y, x)", {"W": "outer(y, x)"}),
        ("p = y; grad_W = outer(p, x); ∂L/∂b = p", {"W": "p = y; outer(p, x)", "b": "p = y; p"}),
        ("db = x - y; 2*db", {None: "db = x - y; 2*db"}),  # used later: a helper
    ],
)
def test_the_left_side_of_an_answer_says_its_input(text: str, found: dict[str | None, str]) -> None:
    assert parse_answers(text, ("W", "x", "b", "y")) == found


# fmt: off
SLIPS = [
    # function                              shapes                   by    the answer                         the slip
    ("x*sin(x)",                            "x:",                    "x",  "cos(x)",                          "the product `x*sin(x)` is taken as the product of the derivatives"),
    ("x*sin(x)",                            "x:",                    "x",  "x*cos(x)",                        "a term of the product rule is missing, the one with the derivative of `x`"),
    ("x*sin(x)",                            "x:",                    "x",  "sin(x) - x*cos(x)",               "a term of the product rule has the wrong sign, the one with the derivative of `sin(x)`"),
    ("(a@x)*(b@x)",                         "a: n; b: n; x: n",      "x",  "a*b",                             "is taken as the product of the derivatives"),
    ("x@A@x",                               "A: n n; x: n",          "x",  "A@x",                             "a term of the product rule is missing"),
    ("sin(x)/x",                            "x:",                    "x",  "cos(x)",                          "is taken as the quotient of the derivatives"),
    ("sin(x)/x",                            "x:",                    "x",  "(x*cos(x) + sin(x))/x**2",        "a term of the quotient rule has the wrong sign"),
    ("sin(x)/x",                            "x:",                    "x",  "(x*cos(x) - sin(x))/x",           "`x` is one too many: the quotient rule has the square"),
    ("sin(x**2)",                           "x:",                    "x",  "cos(x**2)",                       "it is the gradient by `x**2`, and not by x: the last factor of the chain rule"),
    ("exp(3*x)",                            "x:",                    "x",  "exp(3*x)",                        "a factor of the chain rule is missing: the derivative of `3*x`"),
    ("tanh(w*x + b)**2",                    "w:; x:; b:",            "w",  "2*tanh(w*x + b)*x",               "a factor of the chain rule is missing: the derivative of `tanh(w*x + b)`"),
    ("u = A@x - b; u@u/2",                  "A: m n; x: n; b: m",    "x",  "u",                               "it is the gradient by `A@x - b`, and not by x"),
    ("x**2*y + y**3",                       "x:; y:",                "y",  "2*x*y",                           "it is the gradient by x, and not by y"),
    ("sum(x*y) - sum(x**2)",                "x: n; y: n",            "x",  "y + 2*x",                         "has the wrong sign, that through `sum(x**2)`"),
    ("norm(x)",                             "x: n",                  "x",  "x",                               "a factor `norm(x)` is one too many"),
    ("logsumexp(z)",                        "z: n",                  "z",  "exp(z)",                          "all entries are wrong by one factor, a number that depends on the inputs"),
    ("sum(X@v)",                            "X: m n; v: n",          "X",  "v",                               "the derivative has it at each place of axis 0, which is missing"),
    ("sum((y*(X@w) - 1)**2)",               "X: m n; w: n; y: m",    "w",  "2*X.T@(X@w - y)",                 'it is right if the entries of y are 1 or -1 (--assume "y: signs")'),
    ("norm(Q@x)**2",                        "Q: n n; x: n",          "x",  "2*x",                             "it is right if Q is orthogonal"),
    ("x@A@x",                               "A: n n; x: n",          "x",  "2*A@x",                           'it is right if A is symmetric (--assume "A: symmetric")'),
    ("sum((X@w - y)**2)/m",                 "X: m n; w: n; y: m",    "w",  "2*X.T@(X@w - y)/n",               "it is m/n times the right one: a factor of sizes is wrong"),
    ("sum((A@x - b)**2)",                   "A: m n; x: n; b: m",    "x",  "-2*A.T@(A@x - b)",                "the sign is flipped"),
    ("1/norm(x)",                           "x: n",                  "x",  "-x/norm(x)**2",                   "b is not squared"),
    ("0.5*sum((W@x - y)**2)",               "W: n n; x: n; y: n",    "x",  "W@(W@x - y)",                     "not transposed"),
    ("sum(logsumexp(Z, axis=1))",           "Z: m n",                "Z",  "softmax(Z, axis=0)",              "`axis=0` should be `axis=1`, and it is right then"),
    ("sum(relu(X@w))",                      "X: m n; w: n",          "w",  "X.T@relu(X@w)",                   "relu' is 1 where x is positive, not relu(x)"),
    ("sin(cos(x))",                         "x:",                    "x",  "cos(sin(x))*sin(x)",              "the first `sin` should be `cos`, and it is right then, up to the sign"),
    ("tanh(W@x)",                           "W: m n; x: n",          "x",  "(1 - tanh(W@x)**2)[None, :]*W",   "should be"),
    ("sum(tanh(W@x))",                      "W: m n; x: n",          "W",  "-outer(1 - tanh(W@x), x)",        "tanh' is 1 - y**2, not 1 - y"),
    (*LEAST,                                                         "W",  "outer(x, y - W@x)",               "the answer is transposed, and the sign is flipped"),
    (*LEAST,                                                         "x",  "W@(W@x - y)",                     "the first `W` should be `W.T`, and it is right then"),
    (*LEAST,                                                         "W",  "2*outer(W@x - y, x)",             "a factor 2 too large: the factor 0.5 is missing"),
    (*MEAN,                                                          "w",  "2*X.T@(X@w - y)",                 "the mean's 1/m is missing"),
    (*MEAN,                                                          "w",  "-2*X.T@(X@w - y)/m**2",           "a factor 1/m is too much, and the sign is flipped"),
    (*MEAN,                                                          "w",  "X.T@(X@w - y)/m",                 "a factor 2 too small: the derivative of x**n is n*x**(n-1): the n is missing"),
    (*AFFINE,                                                        "b",  "sum(X@W + b - Y, axis=1)",        "`axis=1` should be `axis=0`, and it is right then"),
    (*MEAN,                                                          "w",  "X.T@(X@w - y)",                   "the mean's 1/m is missing, and so is a factor 2"),
    (*LEAST,                                                         "W",  "dW = (W@x - y)@x.T",              "should be `outer(W@x - y, x)`, and it is right then"),
    ("logdet(X)",                           "X: n n",                "X",  "1/X",                             "`1/X` should be `inv(X).T`, and it is right then"),
    ("-(y*log(sigmoid(w@x)) + (1 - y)*log(1 - sigmoid(w@x)))", "w: n; x: n; y:", "w", "p = sigmoid(w@x); (p - y)*p*(1 - p)*x", "the derivative of `sigmoid(w@x)` is a factor too many"),
    (*NET,                                                           "W1", "X.T@((Z - Y)@W2.T)/m",            "a factor of the chain rule is missing: the derivative of `tanh(X@W1)`"),
]
# fmt: on


@pytest.mark.parametrize(("f", "shapes", "wrt", "answer", "says"), SLIPS)
def test_slips_in_answers_are_named(f: str, shapes: str, wrt: str, answer: str, says: str) -> None:
    found = _judged(f, shapes, answer, wrt=wrt)[wrt]
    assert found.verdict == "wrong" and says in found.slip


@pytest.mark.slow
def test_a_transpose_that_mends_the_shapes_alone_is_said() -> None:
    found = _judged(*LEAST, "W@(exp(W@x) + 3*y**2)", wrt="x")["x"]
    assert "should be `W.T` for the shapes to fit, but the answer is wrong then, too" in found.slip


def _judged(f: str, shapes: str, answer: str, **options: Any) -> dict[str, Any]:
    sizes = {name.strip(): dims.strip() for name, dims in (part.split(":") for part in shapes.split(";"))}
    return {result.wrt: result.answer for result in gradcli.derive(f, sizes, answer=answer, **options).results}


def test_no_slip_is_named_where_none_is_shown(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "sin(x)", "--answer", "exp(x) - 1/x")
    assert ran.exit_status == 1 and "slip: gradcli knows none that explains it" in ran.stdout


@pytest.mark.parametrize(
    ("answer", "verdicts"),
    [
        ("p = softmax(W@x + b); W = outer(p - y, x); b = p - y", ["right", "right"]),
        ("p = softmax(W@x + b); b = y - p, W = outer(p - y, x)", ["right", "wrong"]),
        ("b = softmax(W@x + b) - y", ["right"]),
    ],
)
def test_answers_by_several_inputs(answer: str, verdicts: list[str]) -> None:
    f, shapes = "-sum(y*log(softmax(W@x + b)))", "W: m n; x: n; b: m; y: m"
    found = _judged(f, shapes, answer, assume={"y": "simplex"})
    assert [found[name].verdict for name in sorted(found)] == verdicts


def test_answers_by_several_inputs_have_one_status(gradcli: Callable[..., Any]) -> None:
    problem = ("derive", "x*y", "--answer")
    assert gradcli(*problem, "x = y; y = x").exit_status == 0
    ran = gradcli(*problem, "x = y; y = -x")
    assert ran.exit_status == 1
    assert [line.split("  ")[0] for line in ran.stdout.splitlines()[:2]] == ["PASS", "FAIL"]


def test_answers_use_the_names_of_parts() -> None:
    right = "H.T@(Z - Y)/m"
    assert _judged(*NET, right, wrt="W2")["W2"].verdict == "right"
    assert _judged(*LEAST, "outer(t1, x)", wrt="W")["W"].verdict == "right"  # t1 = W@x - y is a name of the steps


def test_the_solution_beside_an_answer_is_shown_on_request(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "x**3", "--answer", "x**2")
    hidden, shown = gradcli(*argv).stdout, gradcli(*argv, "--show").stdout
    assert hidden.startswith("FAIL") and "--show" in hidden and "∂f/∂x" not in hidden and "def gradient" not in hidden
    assert shown.startswith("FAIL") and "∂f/∂x = 3 x²" in shown and "def gradient" in shown
