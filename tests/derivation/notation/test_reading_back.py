"""What is printed is what was verified: every notation of a derivative is read back and compared with differences."""

import itertools
import re
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.targets.expression import Expression
from tests.derivation.notation.reading import evaluated
from tests.derivation.notation.values import Senseless
from tests.rows import for_rows

# fmt: off
PROBLEMS = [
    # expression                                      sizes                              by
    ("sum((X@w - y)**2)/m",                           "X: m n; w: n; y: m",              "w"),
    ("sum((X + b)**2)",                               "X: m n; b: n",                    "X"),
    ("sum(tanh(X@W + b)**2)",                         "X: m n; W: n k; b: k",            "b"),
    ("sum(sigmoid(X@W + b)*C)",                       "X: m n; W: n k; b: k; C: m k",    "W"),
    ("sum(G*(X - mean(X, axis=0))/sqrt(var(X, axis=0) + 1e-5))", "X: m n; G: m n",       "X"),
    ("sum(g*(x - mean(x))/sqrt(var(x) + 1e-5))",      "x: n; g: n",                      "x"),
    ("sum(sum(X, axis=0)**2)",                        "X: m n",                          "X"),
    ("sum(X)",                                        "X: m n",                          "X"),
    ("sum(X/s)",                                      "X: m n; s: n",                    "s"),
    ("sum(C*X/s)",                                    "X: m n; s: n; C: m n",            "X"),
    ("sum((X - mean(X, axis=1)[:, None])**2)",        "X: m n",                          "X"),
    ("sum(sqrt(sum(X**2, axis=1)))",                  "X: m n",                          "X"),
    ("sum(C*softmax(Z, axis=0))",                     "Z: m n; C: m n",                  "Z"),
    ("sum(R*(softmax(Q@K.T/sqrt(d), axis=1)@V))",     "Q: m d; K: n d; V: n k; R: m k",  "Q"),
    ("sum(logsumexp(A@B, axis=1))",                   "A: m n; B: n k",                  "A"),
    ("softmax(z)",                                    "z: n",                            "z"),
    ("x/norm(x)",                                     "x: n",                            "x"),
    ("x*y",                                           "x: n; y: n",                      "x"),
    ("tanh(A@x)",                                     "A: m n; x: n",                    "x"),
    ("softmax(Z, axis=1)",                            "Z: m n",                          "Z"),
    ("sum(c*einsum('ijk,j,k->i', T, x, y))",          "T: i j k; x: j; y: k; c: i",      "T"),
    ("sum(cumsum(x)*y)",                              "x: n; y: n",                      "x"),
    ("log(det(A.T@A))",                               "A: m n",                          "A"),
    ("trace(inv(A)@B)",                               "A: n n; B: n n",                  "A"),
    ("trace(X.T@diag(s)@X)",                          "X: m n; s: m",                    "s"),
    ("x@A@x + lam*sum(x)",                            "A: n n; x: n; lam:",              "x"),
    ("sum(exp(alpha*x_1)*w2)",                        "x_1: n; w2: n; alpha:",           "x_1"),
    ("sum((I@x - b)**2)",                             "I: i j; x: j; b: i",              "I"),
    ("sum(sqrt(x**2 + 1e-8)) + 2.5e-7*sum(x)",        "x: n",                            "x"),
    ("exp(-(x - mu)**2/(2*sigma**2))/sqrt(2*pi*sigma**2)", "x:; mu:; sigma:",            "sigma"),
    ("sum(where(x > 0, x, a*x))",                     "x: n; a:",                        "x"),
    ("sum(X**3*C)",                                   "X: m n; C: m n",                  "X"),
    ("prod(x)",                                       "x: n",                            "x"),
    ("sum(outer(x, y)*C)",                            "x: m; y: n; C: m n",              "x"),
    ("x@x/(y@y)",                                     "x: n; y: n",                      "y"),
    ("sum(c*x*ndtr(x))",                              "x: n; c: n",                      "x"),
    ("h = sigmoid(V@x + b); norm(sigmoid(W@h) - y)**2", "V: k n; x: n; b: k; W: m k; y: m", "V"),
    ("g@(x/sqrt(mean(x*x) + 1e-5))",                  "x: n; g: n",                      "x"),
    ("exp(x)/(1 + exp(x))",                           "x:",                              "x"),
    ("sum(R*(softmax(Q@K.T, axis=1)@V))",             "Q: m d; K: n d; V: n k; R: m k",  "K"),
]
MASKED = [
    # expression                                                  sizes                      by   what is compared, and its values
    ("sum(where(M, x, 0)*y)",                                     "M: n; x: n; y: n",        "x", "M", (0.0, 1.0)),
    ("sum(where(M == 1, x**2, x*y))",                             "M: n; x: n; y: n",        "x", "M", (0.0, 1.0)),
    ("sum(where(M != 1, y, 3*x))",                                "M: n; x: n; y: n",        "x", "M", (0.0, 1.0)),
    ("sum(where(y == 1, log(sigmoid(X@w)), log(1 - sigmoid(X@w))))", "X: m n; w: n; y: m",   "w", "y", (0.0, 1.0)),
    ("sum((y != -100)*log(1 + exp(x)))",                          "y: n; x: n",              "x", "y", (-100.0, 2.0)),
    ("sum(where((y == 1) or (y == 2), x, x**2))",                 "y: n; x: n",              "x", "y", (1.0, 2.0, 3.0)),
    ("sum(where((y == 1) and not (x > z), x*z, 0))",              "y: n; x: n; z: n",        "z", "y", (1.0, 2.0)),
    ("sum(R*(softmax(where(M, S, -50), axis=1)@V))",              "S: m n; M: m n; V: n k; R: m k", "S", "M", (0.0, 1.0)),
    ("sum(M*x*(M == 1))",                                         "M: n; x: n",              "x", "M", (0.0, 1.0)),
    ("sum(x*(y == z))",                                           "x: n; y: n; z: n",        "x", "y", (1.0, 2.0)),
]
LETTERS = [
    ("sum(sigmoid(X@w)*sigma)",                       "X: m n; w: n; sigma: m",          "w"),
    ("sum(tanh(sigmoid(sigma1*x)))",                  "sigma1:; x: n",                   "x"),
    ("sum(Phi*ndtr(Phi*x))",                          "Phi: n; x: n",                    "x"),
    ("sum(x*ndtr(x)*phi)",                            "phi:; x: n",                      "x"),
    ("x*delta",                                       "x: n; delta: n",                  "x"),
    ("x*delta*I",                                     "x: n; delta: n; I: n",            "x"),
    ("sum(P*softmax(Z, axis=1)**2)",                  "P: m n; Z: m n",                  "Z"),
]
# fmt: on
LENGTHS = (5, 3, 6, 4)
NOTATIONS = ("unicode", "latex", "mathml", "index")


def point(shapes: dict[str, str], lengths: tuple[int, ...]) -> dict[str, Any]:
    """Return values of all inputs and sizes; the sizes are all different, so that no shape fits by chance."""
    rng = np.random.default_rng(7)
    names = dict.fromkeys(d for dims in shapes.values() for d in dims.split())
    sizes = dict(zip(names, lengths, strict=False))
    inputs = {n: rng.uniform(0.3, 1.1, [sizes[d] for d in dims.split()])[()] for n, dims in shapes.items()}
    return {**sizes, **inputs}


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize(("expression", "sizes", "wrt"), [*PROBLEMS, *LETTERS])
def test_what_is_printed_is_the_derivative(expression: str, sizes: str, wrt: str, notation: str) -> None:
    read_back(expression, sizes, wrt, notation)


ASSUMED = [(*row, assume) for row in MASKED for assume in ((None, "mask") if row[-1] == (0.0, 1.0) else (None,))]


@for_rows("notation", NOTATIONS, parts=11)
@for_rows(("expression", "sizes", "wrt", "mask", "values", "assume"), ASSUMED)
def test_conditions_are_printed(
    expression: str, sizes: str, wrt: str, mask: str, values: tuple[float, ...], assume: str | None, notation: str
) -> None:
    read_back(expression, sizes, wrt, notation, {mask: values}, {mask: assume} if assume else None)


def read_back(
    expression: str, sizes: str, wrt: str, notation: str, values: Any = None, assume: dict[str, str] | None = None
) -> None:
    """Read a derivative in a notation back, and compare it with differences."""
    shapes = {name.strip(): dims.strip() for name, dims in (part.split(":") for part in sizes.split(";"))}
    (result,) = gradcli.derive(expression, shapes=shapes, wrt=wrt, assume=assume).results
    text = result.index if notation == "index" else getattr(result.formula, notation)
    at = point(shapes, LENGTHS)
    for name, numbers in (values or {}).items():
        at[name] = np.resize(numbers, np.shape(at[name]))
    if "z" in at and "y == z" in expression:
        at["z"] = np.ones_like(at["z"])
    inputs = {n: x for n, x in at.items() if n in shapes}
    right = np.asarray(differences(expression, inputs, at, wrt))
    found = evaluated(notation, text, at, right.shape)
    np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-7, err_msg=text)


def differences(expression: str, inputs: dict[str, Any], at: dict[str, Any], wrt: str) -> Any:
    """Return the derivative by extrapolated central differences of the expression's own values, the input's axes last."""
    f = Expression(expression, frozenset(at))
    x = np.asarray(inputs[wrt], dtype=float)

    def value(moved: Any) -> Any:
        return np.asarray(f({**{n: v for n, v in at.items() if n in f.inputs}, wrt: moved[()]}))

    columns = []
    for k in np.ndindex(*x.shape):
        unit = np.zeros(x.shape)
        unit[k] = 1.0
        row = [(value(x + h * unit) - value(x - h * unit)) / (2 * h) for h in (4e-3, 2e-3, 1e-3)]
        first, second = ((4 * b - a) / 3 for a, b in itertools.pairwise(row))
        columns.append((16 * second - first) / 15)
    y = np.array(columns).reshape(x.shape + columns[0].shape)
    return np.moveaxis(y, range(x.ndim), range(-x.ndim, 0)) if x.ndim else y


@for_rows(
    ("notation", "text"),
    [
        ("unicode", "∂f/∂X = X + b"),
        ("unicode", "∂f/∂X = X ∘ b"),
        ("latex", r"\frac{\partial f}{\partial X} = X - b \, \mathbf{1}^{\top}"),
        ("index", "G[i,j] = X[j,i]"),
        ("mathml", "<math><mi>G</mi><mo>=</mo><mi>X</mi><mi>X</mi></math>"),
        ("unicode", "∂f/∂X = X²"),
    ],
)
def test_the_reader_refuses_what_has_no_meaning(notation: str, text: str) -> None:
    at = {"X": np.ones((5, 3)), "b": np.ones(3)}
    with pytest.raises((Senseless, IndexError)):
        evaluated(notation, text, at, (5, 3))


STEPPED = [
    ("sum((X@w - y)**2)/m", "X: m n; w: n; y: m", "w"),
    ("sum(G*(X - mean(X, axis=0))/sqrt(var(X, axis=0) + 1e-5))", "X: m n; G: m n", "X"),
    ("sum(tanh(X@W + b)**2)", "X: m n; W: n k; b: k", "b"),
    ("sum(c*log(x@x + exp(x)))", "x: n; c: n", "x"),
    ("trace(inv(A)@B)", "A: n n; B: n n", "A"),
    ("0.5*norm(W@x - y)**2", "W: m n; x: n; y: m", "W"),
    ("x@A@x", "A: n n; x: n", "x"),
    ("-sum(y*log(softmax(z)))", "z: n; y: n", "z"),
    ("g@((x - mean(x))/sqrt(var(x) + 1e-5))", "x: n; g: n", "x"),
    ("log(det(A)**2) + x@inv(A)@(x - u)", "A: n n; x: n; u: n", "A"),
    ("0.5*norm(V@tanh(W@x + b) - y)**2", "V: k m; W: m n; x: n; b: m; y: k", "W"),
    ("norm(A@X@B)**2", "A: m n; X: n n; B: n k", "X"),
    ("norm(solve(A, x))**2", "A: n n; x: n", "A"),
    ("h = sigmoid(V@x + b); 0.5*norm(sigmoid(W@h) - y)**2", "V: k n; x: n; b: k; W: m k; y: m", "V"),
    ("sum(c*x*ndtr(x))", "x: n; c: n", "x"),
]
DIFFERENTIAL = re.compile(r"\\mathrm\{d\}([A-Za-z])(?:_\{(\d+)\})?")  # of a letter, with its subscript


@for_rows("notation", ["unicode", "latex"], parts=8)
@for_rows(("expression", "sizes", "wrt"), STEPPED)
def test_every_step_says_in_signs_what_it_says_in_code(expression: str, sizes: str, wrt: str, notation: str) -> None:
    shapes = {name.strip(): dims.strip() for name, dims in (part.split(":") for part in sizes.split(";"))}
    (result,) = gradcli.derive(expression, shapes=shapes, wrt=wrt).results
    scope = point(shapes, LENGTHS)
    name, scope[f"d{wrt}"] = "", np.random.default_rng(1).normal(size=np.shape(scope[wrt]))[()]
    for step in result.steps:
        name, _, code = step.after.partition(" = ")
        f = Expression(code, frozenset(scope))
        value = np.asarray(f({n: x for n, x in scope.items() if n in f.inputs}))
        shown = step.unicode if notation == "unicode" else DIFFERENTIAL.sub(r"\\mathrm{d\1\2}", step.latex)
        shown = (
            f"{name} = {shown.partition(' = ')[2]}" if name.endswith(".T") else shown
        )  # the reader takes names alone
        found = evaluated(notation, shown, scope, value.shape)
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9, err_msg=shown)
        if name in scope:  # a line that says the same in another form
            np.testing.assert_allclose(scope[name], value, rtol=1e-9, atol=1e-9, err_msg=shown)
        scope[name] = value[()]
    if f"{name}.T" in scope:
        np.testing.assert_allclose(scope[name], scope[f"{name}.T"].T, rtol=1e-9, atol=1e-9)
    f, h = Expression(expression), 1e-6
    ends = [{**scope, wrt: scope[wrt] + sign * h * scope[f"d{wrt}"]} for sign in (1, -1)]
    above, below = (float(f({n: end[n] for n in f.inputs})) for end in ends)
    np.testing.assert_allclose(scope["df"], (above - below) / (2 * h), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.sum(scope[name] * scope[f"d{wrt}"]), scope["df"], rtol=1e-9, atol=1e-9)
