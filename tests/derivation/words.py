"""Every word that closed forms are made of, in an expression, and derivatives in which most of them stand."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

import gradcli
from gradcli.derivation import languages
from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.algebra import FUNCTIONS
from gradcli.derivation.languages import CodeRequest, SelfTest
from gradcli.derivation.matrix_expression import E, call, matmul, mul, name, number

rng = np.random.default_rng(3)
x, y, u, A, S, X, s, n, m = (name(w) for w in ("x", "y", "u", "A", "S", "X", "s", "n", "m"))
ZERO, HALF, TWO = (number(Fraction(k, 2)) for k in (0, 1, 4))
RANKS = {"x": 1, "y": 1, "u": 1, "A": 2, "S": 2, "X": 2, "s": 0}
SIZES = {"n": 3, "m": 2}
VALUES: dict[str, Any] = {
    "x": rng.uniform(0.1, 0.9, 3), "y": rng.uniform(0.1, 0.9, 3), "u": rng.uniform(0.1, 0.9, 2), "A": rng.normal(size=(3, 3)),
    "S": np.eye(3) + 0.3, "X": rng.normal(size=(2, 3)), "s": np.float64(0.7),
}  # fmt: skip
_TRUTHS = {"greater", "greater_equal", "less", "less_equal", "equal", "not_equal"}  # written with signs
_PAIRS = {"maximum", "minimum", "hypot", "arctan2", "logaddexp", "heaviside", "xlogy", "beta", "jv", "yv", "iv", "kv"}
_WORDS = {"absolute": "abs", "expit": "sigmoid"}
ELEMENTWISE = sorted({_WORDS.get(f, f) for f in FUNCTIONS - _TRUTHS - _PAIRS} | {"sqrt", "exp", "log", "softplus"})


def of(word: str, *args: E) -> E:
    """Return a function of one or two arguments, where it is a number."""
    first = ex.add([ex.ONE, args[0]]) if word == "arccosh" else args[0]
    return call(word, first, *args[1:])


# fmt: off
ARRAYS: dict[str, E] = {  # by what they show
    "sum": call("sum", X), "sum along": call("sum", X, axis="0"), "mean": call("mean", x), "var": call("var", x), "outer": call("outer", u, x),
    "diag of a vector": call("diag", x), "diag of a matrix": call("diag", A), "trace": call("trace", matmul(A, S)), "det": call("det", A),
    "norm": call("norm", x), "norm of a matrix": call("norm", X), "inv": call("inv", A), "solve": matmul(call("inv", A), x),
    "solve turned": matmul(E("T", (call("inv", A),)), x), "solve in a product": matmul(x, call("inv", A), S), "solve in a dot": ex.dot(matmul(x, call("inv", A)), y),
    "softmax": call("softmax", x), "softmax along": call("softmax", X, axis="1"), "softmax of all": call("softmax", X),
    "logsumexp": call("logsumexp", x), "logsumexp along": call("logsumexp", X, axis="0"), "logsumexp of all": call("logsumexp", X),
    "eye": mul([s, call("eye", n)]), "ones": mul([s, call("ones", m, n)]), "one": mul([s, call("ones", n)]), "zeros": ex.add([call("zeros", m, n), X]),
    "ones like": call("ones_like", X), "zeros like": call("zeros_like", X), "einsum": call("einsum", X, x, first='"ij,j->ij"'),
    "column": mul([E("column", (u,)), X]), "transpose": matmul(E("T", (X,)), u), "transpose of a vector": E("T", (x,)), "dot": ex.dot(x, y),
    "greater": E("compare", (x, y), ">"), "choice": call("where", E("compare", (x, y), ">"), x, ZERO), "at most": E("compare", (x, HALF), "<="), "of sizes": mul([E("compare", (n, m), ">"), x]),
    "slice": E("index", (x,), "[1:]"), "slice of columns": E("index", (X,), "[:, :-1]"), "pad before": E("concat", (u,), "[0]|"),
    "pad after": E("concat", (mul([s, u]),), "|[0, 0]"), "pad both": E("concat", (u,), "[0, 0]|[0]"), "less a size": mul([s, call("ones", name("n - 1"))]),
    "pi": mul([name("pi"), x]), "a constant": mul([number(float(2 / np.sqrt(np.pi))), x]), "another": mul([number(float(np.pi)), x]), "third": mul([number(Fraction(1, 3)), x]),
    "large": mul([number(Fraction(10**20)), x]), "root of a size": mul([x], [call("sqrt", n)]), "log of a size": mul([call("log", mul([n, m])), x]),
    "power": ex.power(x, Fraction(3, 2)), "powers": E("pow", (TWO, x)), "number and array": call("maximum", x, HALF), "array and number": call("hypot", TWO, x),
    "flip": call("flip", x), "flip along": call("flip", X, axis="1"), "cumsum": call("cumsum", x), "prod": call("prod", x), "prod along": call("prod", X, axis="0"),
    "tril": call("tril", A), "below": call("tril", A, ex.neg(ex.ONE)), "above": call("triu", A, ex.ONE), "ones below": call("tril", call("ones", m, n)),
    "unit": mul([s, E("index", (call("eye", n),), "[0]")]), "entry": E("index", (x,), "[0]"), "entry of a matrix": E("index", (X,), "[1, -1]"), "row": E("index", (X,), "[-1]"),
    "column of it": E("index", (X,), "[:, 0]"), "places": E("index", (x,), "[[0, 2]]"), "places of columns": E("index", (X,), "[:, [0, 2]]"), "steps": E("index", (x,), "[::2]"),
    "more than a size": mul([s, call("ones", name("n + 1"))]),
    "largest": call("max", x), "largest along": call("max", X, axis="1"), "smallest": call("min", X), "smallest along": call("min", X, axis="0"),
    "eigenvalues": call("eigvalsh", S), "eigenvectors": call("abs", call("eigenvectors", S)), "cholesky": call("cholesky", S),
    "singular values": call("svdvals", X), "left vectors": call("abs", call("left_vectors", X)), "right vectors": call("abs", call("right_vectors", X)),
    "pinv": call("pinv", X), "expm": call("expm", A), "sqrtm": call("sqrtm", S), "expm_frechet": call("expm_frechet", A, S), "mirrored": call("mirrored", A),
    "convolve": call("convolve", x, u), "correlate": call("correlate", x, u), "logm": call("logm", S),
    "cross": call("cross", x, y), "roll": call("roll", x, TWO), "roll along": call("roll", X, ex.neg(ex.ONE), axis="1"), "sort": call("sort", x),
    "arange": mul([s, call("arange", n)]),
    "a number": number(Fraction(3)), "a size": mul([TWO, n]), "larger size": mul([call("maximum", n, m), s]), "relu of a size": mul([call("relu", n), s]),
}
SCALARS: dict[str, E] = {
    "product": mul([s, TWO]), "third": number(Fraction(1, 3)), "whole": mul([number(Fraction(1, 3)), s], [ex.add([s, TWO])]), "square": ex.power(s, Fraction(2)),
    "root": ex.power(ex.add([s, TWO]), Fraction(3, 2)), "greater": E("compare", (s, HALF), ">"), "minus": ex.neg(mul([s, call("sin", s)])),
    "difference": ex.add([s, ex.neg(ex.add([s, ex.neg(TWO)]))]), "pi": mul([name("pi"), s]), "constant": mul([number(float(np.sqrt(2 * np.pi))), s]),
    "minus log_expit": ex.add([s, ex.neg(call("log_expit", s))]), "twice": mul([call("log_expit", s), ex.neg(call("log_expit", s))]),
}
#          function                                                    sizes                                assumed                         by   order
CASES: list[tuple[str, dict[str, str], dict[str, str], str, int]] = [
    ("0.5*sum((W@x - y)**2) + lam*sum(W**2)",                          {"W": "m n", "x": "n", "y": "m"},    {},                             "W", 1),
    ("0.5*sum((W@x - y)**2) + lam*sum(W**2)",                          {"W": "m n", "x": "n", "y": "m"},    {},                             "lam", 1),
    ("x@A@x/norm(x)",                                                  {"A": "n n", "x": "n"},              {},                             "x", 1),
    ("trace(A@inv(B)@A.T)",                                            {"A": "m n", "B": "n n"},            {},                             "B", 1),
    ("log(det(S)) + 3*x@inv(S)@x",                                     {"S": "n n", "x": "n"},              {"S": "spd"},                   "S", 1),
    ("det(A)*trace(A@B)",                                              {"A": "n n", "B": "n n"},            {},                             "A", 1),
    ("sum(solve(S, X)**2)",                                            {"S": "n n", "X": "n m"},            {"S": "spd"},                   "X", 1),
    ("-sum(Y*log(softmax(X@W, axis=1)))",                              {"X": "m n", "W": "n d", "Y": "m d"}, {"Y": "onehot rows"},          "W", 1),
    ("cross_entropy(X@W, Y)",                                          {"X": "m n", "W": "n d", "Y": "m d"}, {"Y": "simplex rows"},         "W", 1),
    ("g@layer_norm(x, w, b)",                                          {"g": "n", "x": "n", "w": "n", "b": "n"}, {},                        "x", 1),
    ("sum(G*((X - mean(X, axis=0))/std(X, axis=0)))",                  {"G": "m n", "X": "m n"},            {},                             "X", 1),
    ("sum(G*softmax(X))",                                              {"G": "m n", "X": "m n"},            {},                             "X", 1),
    ("logsumexp(X)**2",                                                {"X": "m n"},                        {},                             "X", 1),
    ("sum(logsumexp(X, axis=0)**2)",                                   {"X": "m n"},                        {},                             "X", 1),
    ("r@softmax(Q@k/sqrt(d))",                                         {"Q": "m d", "k": "d", "r": "m"},    {},                             "k", 1),
    ("sum(relu(X@w)**2) + sum(maximum(w, 0.1))",                       {"X": "m n", "w": "n"},              {},                             "w", 1),
    ("mean(softplus(-t*(X@w)))",                                       {"X": "m n", "w": "n", "t": "m"},    {"t": "signs"},                 "w", 1),
    ("sum(abs(x)**q)*log(q)",                                          {"x": "n"},                          {"q": "positive"},              "x", 1),
    ("sum((x[1:] - x[:-1])**2)",                                       {"x": "n"},                          {},                             "x", 1),
    ("a@arctan(x) + b@erf(x) + sum(cbrt(x))",                          {"a": "n", "b": "n", "x": "n"},      {},                             "x", 1),
    ("sum(gammaln(p)) - gammaln(sum(p))",                              {"p": "n"},                          {"p": "positive"},              "p", 1),
    ("sum((A - x*B)**2)",                                              {"A": "n n", "B": "n n"},            {"A": "symmetric", "B": "orthogonal"}, "x", 1),
    ("x@D@x + sum(D)",                                                 {"D": "n n", "x": "n"},              {"D": "diagonal"},              "x", 1),
    ("tanh(W@x)",                                                      {"W": "m n", "x": "n"},              {},                             "x", 1),
    ("tanh(W@x)",                                                      {"W": "m n", "x": "n"},              {},                             "W", 1),
    ("softmax(z)",                                                     {"z": "n"},                          {},                             "z", 1),
    ("logsumexp(A@x)",                                                 {"A": "m n", "x": "n"},              {},                             "x", 2),
    ("sum(exp(x)) + x@x",                                              {"x": "n"},                          {},                             "x", 2),
    ("where(x > y, x**2, y)*exp(-y)",                                  {},                                  {},                             "x", 1),
    ("3*x",                                                            {},                                  {},                             "x", 1),
    ("arccosh(logaddexp(x, y))",                                       {},                                  {"x": "positive", "y": "positive"}, "x", 1),
]
# fmt: on
NUMBERS = [
    ("exp(-x**2/2)*cos(pi*y)/3", "x", 1),
    ("exp(-x**2/2)*cos(pi*y)/3", "y", 2),
    ("x*sigmoid(gamma)*log_expit(y0)", "gamma", 1),
    ("maximum(x, 1/3)*minimum(x, y)*relu(y)", "x", 1),
    ("double*exp(int) + exp(-double)", "double", 1),
    ("where(x > 0.2, x**3, y)", "x", 1),
    ("gammaln(2 + x**2)*y", "y", 1),
    ("erf(x)*ndtr(y)*hypot(x, 2)", "x", 1),
    ("2**x + x**2.5*abs(y)", "x", 1),
    ("3*x", "x", 1),
    ("xlogy(x, y)*cbrt(x)*arctan2(x, y)", "x", 1),
    ("softplus(x)*logaddexp(x, y)*sign(y)", "x", 2),
    ("log1p(x**2)*sinh(y)", "x", 1),
]  # fmt: skip


def derived(
    f: str, shapes: Mapping[str, str], assume: Mapping[str, str], wrt: str, order: int
) -> tuple[CodeRequest, SelfTest]:
    """Return what is to be written as code, and its test."""
    kept: list[tuple[CodeRequest, SelfTest | None]] = []
    real = languages.write_all_languages

    def every(wanted: CodeRequest, test: SelfTest | None) -> tuple[dict[str, str], dict[str, str]]:
        kept.append((wanted, test))
        return real(wanted, test)

    with mock.patch.object(languages, "write_all_languages", every):
        report = gradcli.derive(f, dict(shapes), assume=dict(assume), wrt=wrt, order=order)
    assert len(kept) == 1, report.findings
    wanted, test = kept[0]
    assert test is not None
    return wanted, test
