"""Derivations line by line, as they are written by hand: differentials, substituted, rotated under a trace, and read off."""

import numpy as np

import gradcli
from gradcli.derivation.steps import lines_hold
from gradcli.report.derive import Step
from tests.rows import for_rows

GAUSSIAN = """
name: P = S⁻¹
name: f = 0.5 log(det(S)) + 0.5 (x - u)ᵀ P (x - u)
inverse: dP = -P dS P
log det: df = 0.5 tr(P dS) + 0.5 (x - u)ᵀ dP (x - u)
substitute: df = 0.5 tr(P dS) - 0.5 (x - u)ᵀ P dS P (x - u)
scalar = trace: df = 0.5 tr(P dS) - 0.5 tr(dS P (x - u) (x - u)ᵀ P)
cyclic rule: df = 0.5 tr(P dS) - 0.5 tr(P (x - u) (x - u)ᵀ P dS)
collect: df = tr((0.5 P - 0.5 P (x - u) (x - u)ᵀ P) dS)
read off: Gᵀ = 0.5 P - 0.5 P (x - u) (x - u)ᵀ P
symmetry: G = 0.5 P - 0.5 P (x - u) (x - u)ᵀ P
"""
LEAST_SQUARES = """
name: t1 = W x - y
name: f = 0.5 ‖t1‖²
sum rule: dt1 = dW x
squared norm: df = t1ᵀ dt1
substitute: df = t1ᵀ dW x
scalar = trace: df = tr(dW x t1ᵀ)
cyclic rule: df = tr(x t1ᵀ dW)
read off: Gᵀ = x t1ᵀ
transpose: G = t1 xᵀ
"""
QUADRATIC = """
name: f = xᵀ A x
product rule: df = dxᵀ A x + xᵀ A dx
transpose: df = (Aᵀ x + A x)ᵀ dx
read off: G = Aᵀ x + A x
collect: G = (A + Aᵀ) x
"""
LOGISTIC = """
name: s = sigmoid(X w)
name: f = -yᵀ log(s) - (1 - y)ᵀ log(1 - s)
chain rule: sigmoid: ds = s ∘ (1 - s) ∘ (X dw)
logarithm: df = sum(((1 - y) ∘ ds) / (1 - s)) - sum((y ∘ ds) / s)
substitute: df = sum((1 - y) ∘ s ∘ (X dw)) - sum(y ∘ (1 - s) ∘ (X dw))
read off: G = Xᵀ ((1 - y) ∘ s) - Xᵀ (y ∘ (1 - s))
collect: G = Xᵀ (s - y)
"""
CROSS_ENTROPY = """
name: p = softmax(z)
name: f = -yᵀ log(p)
softmax: dp = dz ∘ p - (dzᵀ p) p
logarithm: df = -sum((y ∘ dp) / p)
substitute: df = sum((y ∘ ((dzᵀ p) p - dz ∘ p)) / p)
read off: G = p - y
"""
ATTENTION = """
name: P = softmax_rows(Q Kᵀ)
name: f = tr(Rᵀ P V)
softmax: dP = P ∘ (dQ Kᵀ) - diag((dQ ∘ (P K)) 𝟏) P
linearity: df = tr(Rᵀ dP V)
substitute: df = tr(Rᵀ (P ∘ (dQ Kᵀ) - diag((dQ ∘ (P K)) 𝟏) P) V)
cyclic rule: df = tr(Kᵀ (Pᵀ ∘ (V Rᵀ)) dQ) - tr(Kᵀ Pᵀ diag((R ∘ (P V)) 𝟏) dQ)
collect: df = tr(Kᵀ ((V Rᵀ - 𝟏 𝟏ᵀ (R ∘ (P V))ᵀ) ∘ Pᵀ) dQ)
read off: Gᵀ = Kᵀ ((V Rᵀ - 𝟏 𝟏ᵀ (R ∘ (P V))ᵀ) ∘ Pᵀ)
transpose: G = ((R Vᵀ - (R ∘ (P V)) 𝟏 𝟏ᵀ) ∘ P) K
"""
CHOLESKY = """
name: L = cholesky(S)
name: f = sum(log(diag(L)))
chain rule: cholesky: dL = L (tril(L⁻¹ dS L⁻ᵀ) - (1/2) diag(diag(L⁻¹ dS L⁻ᵀ)))
logarithm: df = sum(diag(dL) / diag(L))
read off: G = S⁻¹ / 2
"""
LOG_DET = """
name: f = log(det(S))
log det: df = tr(S⁻¹ dS)
read off: Gᵀ = S⁻¹
symmetry: G = S⁻¹
"""
INVERSE = """
name: P = X⁻¹
name: f = tr(A P B)
inverse: dP = -P dX P
linearity: df = tr(A dP B)
substitute: df = -tr(A P dX P B)
cyclic rule: df = -tr(P B A P dX)
read off: Gᵀ = -P B A P
transpose: G = -Pᵀ Aᵀ Bᵀ Pᵀ
"""
LAYER_NORM = """
name: t1 = x - mean(x) 𝟏
name: t2 = √(mean(t1²) + 10⁻⁵)
name: f = gᵀ t1 / t2
sum rule: dt1 = dx - mean(dx) 𝟏
power rule: dt2 = mean(t1 ∘ dt1) / t2
quotient rule: df = gᵀ dt1 / t2 - dt2 gᵀ t1 / t2²
substitute: df = gᵀ (dx - mean(dx) 𝟏) / t2 - mean(g ∘ t1) t1ᵀ (dx - mean(dx) 𝟏) / t2³
read off: G = g / t2 - mean(g ∘ t1) t1 / t2³ - (mean(g) / t2) 𝟏
name: xhat = t1 / t2
collect: G = (g - mean(g ∘ xhat) xhat - mean(g) 𝟏) / t2
"""
NETWORK = "0.5*norm(V@tanh(W@x + b) + c - y)**2"
SIZES = {"V": "k m", "W": "m n", "x": "n", "b": "m", "c": "k", "y": "k"}
BY_V = """
name: h = tanh(W x + b)
name: t1 = V h + c - y
name: f = 0.5 ‖t1‖²
sum rule: dt1 = dV h
squared norm: df = t1ᵀ dt1
substitute: df = t1ᵀ dV h
error of a layer: δ2 = t1
scalar = trace: df = tr(dV h t1ᵀ)
cyclic rule: df = tr(h δ2ᵀ dV)
read off: Gᵀ = h δ2ᵀ
transpose: G = δ2 hᵀ
"""
BY_W = """
name: h = tanh(W x + b)
name: t1 = V h + c - y
name: f = 0.5 ‖t1‖²
chain rule: tanh: dh = (1 - h²) ∘ (dW x)
sum rule: dt1 = V dh
squared norm: df = t1ᵀ dt1
substitute: df = sum((1 - h²) ∘ (dW x) ∘ (Vᵀ t1))
error of a layer: δ2 = t1
error of a layer: δ1 = (1 - h²) ∘ (Vᵀ δ2)
cyclic rule: df = tr(x δ1ᵀ dW)
read off: Gᵀ = x δ1ᵀ
transpose: G = δ1 xᵀ
"""
BY_B = """
name: h = tanh(W x + b)
name: t1 = V h + c - y
name: f = 0.5 ‖t1‖²
chain rule: tanh: dh = (1 - h²) ∘ db
sum rule: dt1 = V dh
squared norm: df = t1ᵀ dt1
substitute: df = sum((1 - h²) ∘ db ∘ (Vᵀ t1))
error of a layer: δ2 = t1
error of a layer: δ1 = (1 - h²) ∘ (Vᵀ δ2)
read off: G = δ1
"""

# fmt: off
DERIVATIONS = [  # a function, the shapes, what is assumed, the input, the lines
    ("0.5*log(det(S)) + 0.5*(x-u)@inv(S)@(x-u)",                    {"S": "n n", "x": "n", "u": "n"},           {"S": "spd"},     "S", GAUSSIAN),
    ("0.5*norm(W@x - y)**2",                                        {"W": "m n", "x": "n", "y": "m"},           {},               "W", LEAST_SQUARES),
    ("x@A@x",                                                       {"A": "n n", "x": "n"},                     {},               "x", QUADRATIC),
    ("-sum(y*log(sigmoid(X@w)) + (1-y)*log(1-sigmoid(X@w)))",       {"X": "m n", "w": "n", "y": "m"},           {},               "w", LOGISTIC),
    ("-sum(y*log(softmax(z)))",                                     {"z": "n", "y": "n"},                       {"y": "simplex"}, "z", CROSS_ENTROPY),
    ("log(det(S))",                                                 {"S": "n n"},                               {"S": "spd"},     "S", LOG_DET),
    ("trace(A@inv(X)@B)",                                           {"A": "m n", "X": "n n", "B": "n m"},       {},               "X", INVERSE),
    ("sum(g*(x - mean(x))/sqrt(var(x) + 1e-5))",                    {"x": "n", "g": "n"},                       {},               "x", LAYER_NORM),
    ("sum(R*(softmax(Q@K.T, axis=1)@V))",                           {"Q": "m d", "K": "n d", "V": "n k", "R": "m k"}, {},         "Q", ATTENTION),
    ("sum(log(diag(cholesky(S))))",                                 {"S": "n n"},                               {"S": "spd"},     "S", CHOLESKY),
    (NETWORK, SIZES, {}, "V", BY_V), (NETWORK, SIZES, {}, "W", BY_W), (NETWORK, SIZES, {}, "b", BY_B),
]
# fmt: on


@for_rows(("f", "shapes", "assume", "wrt", "lines"), DERIVATIONS, parts=3)
def test_the_lines_are_those_of_a_derivation_by_hand(
    f: str, shapes: dict[str, str], assume: dict[str, str], wrt: str, lines: str
) -> None:
    (result,) = gradcli.derive(f, shapes=shapes, assume=assume, wrt=wrt).results
    assert [f"{step.rule}: {step.unicode}" for step in result.steps] == lines.strip().split("\n")


@for_rows(("f", "shapes", "wrt"), [
    ("x@dx*norm(x)", {"x": "n", "dx": "n"}, "x"), ("dW@tanh(W@x)", {"dW": "m", "W": "m n", "x": "n"}, "W"),
    ("f@tanh(W@x)", {"f": "m", "W": "m n", "x": "n"}, "W"), ("sum(log(softmax(x, axis=0))*y)", {"x": "n 1", "y": "n 1"}, "x"),
])  # fmt: skip
def test_lines_that_would_not_be_clear_are_left_out(f: str, shapes: dict[str, str], wrt: str) -> None:
    """An input has the name of a differential or of the function, or is a column, which has no axis of length 1 in formulas."""
    (result,) = gradcli.derive(f, shapes=shapes, wrt=wrt).results
    assert {step.after.partition(" = ")[0] for step in result.steps} == {"G"}


STEPS = (
    ("t1 = 2*x", "df = 4*t1@dx", "G = 4*t1"),
    ("t1 = 2*x", "df = 4*t1@dx", "G = 2*t1"),
    ("t1 = 2*x", "t1 = 3*x", "df = 4*t1@dx"),
    ("df = y@dx",),
)


@for_rows(("lines", "hold"), list(zip(STEPS, (True, False, False, False), strict=True)))
def test_lines_are_computed_before_they_are_shown(lines: tuple[str, ...], hold: bool) -> None:
    steps = [Step("rule", "", line) for line in lines]
    assert lines_hold(steps, {"x": np.array([1.0, -2.0])}, "x", "G") == hold


def test_a_cross_product_keeps_its_other_factors() -> None:
    (result,) = gradcli.derive("c@cross(a, b)", shapes={"a": "3", "b": "3", "c": "3"}, wrt="a").results
    assert [s.unicode for s in result.steps][1:3] == [
        "df = cᵀ (da × b)",
        "df = (c[[2, 0, 1]] ∘ b[[1, 2, 0]] - c[[1, 2, 0]] ∘ b[[2, 0, 1]])ᵀ da",
    ]


# fmt: off
CONDITIONS = [  # a function, the shapes, what is assumed, what the steps need, in order
    ("log(det(S))",                 {"S": "n n"},              {"S": "spd"}, ["S invertible", "S: spd", "S symmetric"]),
    ("trace(inv(X + Y))",           {"X": "n n", "Y": "n n"},  {},           ["X + Y invertible"]),
    ("sum(x**a)",                   {"x": "n", "a": ""},       {},           ["base x positive"]),
    ("max(x)",                      {"x": "n"},                {},           ["no ties in x"]),
    ("sum(maximum(x, y))",          {"x": "n", "y": "n"},      {},           ["x and y equal in no entry"]),
    ("maximum(x, y)",               {"x": "", "y": ""},        {},           ["x and y not equal"]),
    ("norm(A@x - b)",               {"x": "n", "A": "m n", "b": "m"}, {},    ["t1 not 0"]),
    ("sum(abs(x))/sum(x)",          {"x": "n"},                {},           ["no entry of x is 0", "t2 not 0"]),
    ("sum(log(softmax(x)*y))",      {"x": "n", "y": "n"},      {},           ["p ∘ y positive"]),
    ("sum(y*log(softmax(x)))",      {"x": "n", "y": "n"},      {"y": "simplex"}, ["y: simplex"]),  # a softmax is positive
]  # fmt: skip
# fmt: on


@for_rows(("f", "shapes", "assume", "conditions"), CONDITIONS, parts=2)
def test_a_condition_says_of_what_it_is_one(
    f: str, shapes: dict[str, str], assume: dict[str, str], conditions: list[str]
) -> None:
    (result,) = gradcli.derive(f, shapes=shapes, assume=assume, wrt=next(iter(shapes))).results
    assert [step.condition for step in result.steps if step.condition] == conditions


REASONS = {  # by the rule, what is said of it
    "name": "Let",
    "chain rule: tanh": "By the chain rule for tanh:",
    "inverse": "By the derivative of an inverse (P invertible):",
    "quotient rule, product rule": "By the quotient rule and the product rule:",
    "sigmoid(-t) is 1 - sigmoid(t)": "Rewrite, since sigmoid(-t) is 1 - sigmoid(t):",
    "common denominator": "Rewrite (common denominator):",
}


@for_rows(("rule", "says"), list(REASONS.items()))
def test_each_step_says_its_reason(rule: str, says: str) -> None:
    assert Step(rule, "", "G = x", condition="P invertible" if rule == "inverse" else None).reason == says


def test_a_transpose_says_what_is_transposed() -> None:
    assert Step("transpose", "", "df = g@dx").reason.startswith("Transpose the products")
    assert Step("transpose", "G.T = x", "G = x.T").reason == "Transpose both sides:"
