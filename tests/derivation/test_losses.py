"""Losses of machine learning: the printed code is right, and finite where the gradient is."""

from typing import Any

import numpy as np

import gradcli
from gradcli.derivation.problem import dims_of
from gradcli.targets.expression import Expression
from gradcli.targets.facts import drawn
from tests.rows import for_rows

# fmt: off
RIGHT = [
    # function                                                                                  sizes                     by    what is assumed
    # operands that are equal on an open set
    ("minimum(r*a, clip(r, 0.8, 1.2)*a)",                                                       "r:; a:",                 "r",  ""),
    ("r = exp(lp - lq); -mean(minimum(r*a, clip(r, 0.8, 1.2)*a))",                              "lp: n; lq: n; a: n",     "lp", ""),
    ("mean(maximum((v - R)**2, (w + clip(v - w, -0.2, 0.2) - R)**2))",                          "v: n; w: n; R: n",       "v",  ""),
    ("sum(maximum(where(x > 0, x*a, 0), x*a))",                                                 "x: n; a: n",             "x",  ""),
    ("sum(minimum(abs(x), x)*a)",                                                               "x: n; a: n",             "x",  ""),
    # rows that sum to one, beside a softmax of all entries
    ("-sum(Y*log(exp(Z)/sum(exp(Z))))",                                                         "Z: m n; Y: m n",         "Z",  "Y: onehot rows"),
    # a transposed exponential of a negative
    ("K = exp(-C); u = a/(K@w); v = b/(K.T@u); u@(K*C)@v",                                      "C: m n; a: m; b: n; w: n", "C", "w: positive"),
    ("K = exp(-C/t); u = a/sum(K, axis=1); sum(b*(K.T@u)**2)",                                  "C: m n; a: m; b: n; t:", "C",  "t: positive"),
    # one branch or the other
    ("x if x > 0 else 0.1*x",                                                                   "x:",                     "x",  ""),
    ("a = x*y if x > y else x - y; a**2",                                                       "x:; y:",                 "x",  ""),
]
# fmt: on
LENGTHS = {"m": 3, "n": 4}


def point_of(sizes: str, assumed: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    facts = {n: frozenset({" ".join(words)}) for n, words in dims_of([assumed]).items()}
    shapes = {n: tuple(LENGTHS[d] for d in dims) for n, dims in dims_of([sizes]).items()}
    return {n: drawn(facts.get(n, frozenset()), shape, rng) for n, shape in shapes.items()}


def differences(f: Expression, at: dict[str, Any], wrt: str) -> Any:
    x = np.asarray(at[wrt], dtype=float)
    slopes = np.empty(x.shape)
    for k in np.ndindex(x.shape):
        h = np.zeros(x.shape)
        h[k] = 1e-6
        slopes[k] = (f({**at, wrt: x + h}) - f({**at, wrt: x - h})) / 2e-6
    return slopes


def code_of(f: str, sizes: str, wrt: str, assumed: str) -> Any:
    shapes = {n: " ".join(dims) for n, dims in dims_of([sizes]).items()}
    report = gradcli.derive(f, shapes, wrt=wrt, assume={n: " ".join(w) for n, w in dims_of([assumed]).items()})
    assert report.exit_status == 0, report.findings
    scope: dict[str, Any] = {}
    exec(report.results[0].code["numpy"], scope)
    return scope["gradient"]


@for_rows(("f", "sizes", "wrt", "assumed"), RIGHT, parts=2)
def test_the_code_is_right(f: str, sizes: str, wrt: str, assumed: str) -> None:
    gradient = code_of(f, sizes, wrt, assumed)
    for seed in range(4):
        at = point_of(sizes, assumed, seed)
        np.testing.assert_allclose(gradient(**at), differences(Expression(f), at, wrt), rtol=1e-6, atol=1e-6)
