"""Notations: raised signs for a terminal, LaTeX with balanced braces, MathML that is XML."""

import random
import re
import xml.etree.ElementTree as ET
from fractions import Fraction

import pytest

import gradcli
from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.mathematics import Writing
from gradcli.derivation.matrix_expression import E, call, matmul, mul, name, neg, number, power, transpose
from gradcli.derivation.matrix_printing import Shapes
from gradcli.derivation.notation import Latex, Mathml, Unicode
from tests.derivation.test_expression import array
from tests.rows import for_rows

DIMS = {
    "A": "n n",
    "B": "n n",
    "S": "n n",
    "X": "m n",
    "x": "n",
    "y": "n",
    "w": "n",
    "u1": "n",
    "b": "n",
    "s": "m",
    "lam": "",
}
WRITING = Writing(Shapes({name: dims.split() for name, dims in DIMS.items()}))
A, B, S, X, x, y, w, b, s, u, lam = (name(n) for n in ("A", "B", "S", "X", "x", "y", "w", "b", "s", "u1", "lam"))
HALF, TWO, ONE = number(Fraction(1, 2)), number(Fraction(2)), number(Fraction(1))


def unicode(e: E) -> str:
    return Unicode().write(WRITING.formula(e))


def latex(e: E) -> str:
    return Latex().write(WRITING.formula(e))


def mathml(e: E) -> str:
    return Mathml().statements([("<mi>G</mi>", Mathml().write(WRITING.formula(e)))])


# fmt: off
SHOWN = [
    # expression                                    in a terminal          in LaTeX
    (matmul(transpose(A), x),                       "Aᵀ x",                r"A^{\top} \, x"),
    (call("inv", S),                                "S⁻¹",                 r"S^{-1}"),
    (call("inv", ex.add([A, B])),                   "(A + B)⁻¹",           r"\left(A + B\right)^{-1}"),
    (transpose(call("inv", A)),                     "A⁻ᵀ",                 r"A^{-\top}"),
    (call("outer", ex.add([x, neg(y)]), x),         "(x - y) xᵀ",          r"\left(x - y\right) \, x^{\top}"),
    (mul([TWO, x]),                                 "2 x",                 "2 x"),
    (mul([x, y]),                                   "x ∘ y",               r"x \circ y"),
    (mul([x], [ex.add([x, y])]),                    "x / (x + y)",         r"\frac{x}{x + y}"),
    (neg(ex.add([x, y])),                           "-(x + y)",            r"-\left(x + y\right)"),
    (call("sqrt", ex.add([x, y])),                  "√(x + y)",            r"\sqrt{x + y}"),
    (call("abs", x),                                "|x|",                 r"\left|x\right|"),
    (call("eye", name("n")),                        "I",                   "I"),
    (call("sigmoid", x),                            "sigmoid(x)",          r"\sigma\left(x\right)"),
    (call("trace", A),                              "tr(A)",               r"\operatorname{tr}\left(A\right)"),
    (power(X, Fraction(2)),                         "X^∘2",                r"X^{\circ 2}"),
    (power(matmul(X, w), Fraction(2)),              "(X w)²",              r"\left(X \, w\right)^{2}"),
    (power(w, Fraction(3, 2)),                      "w^(1.5)",             "w^{1.5}"),
    (power(ex.dot(x, x), Fraction(2)),              "‖x‖⁴",                r"\left\lVert x \right\rVert^{4}"),
    (ex.add([X, b]),                                "X + 𝟏 bᵀ",            r"X + \mathbf{1} \, b^{\top}"),
    (ex.add([X, neg(E("column", (s,)))]),           "X - s 𝟏ᵀ",            r"X - s \, \mathbf{1}^{\top}"),
    (ex.add([X, lam]),                              "X + λ 𝟏 𝟏ᵀ",          r"X + \lambda \, \mathbf{1} \, \mathbf{1}^{\top}"),
    (ex.add([x, lam]),                              "x + λ 𝟏",             r"x + \lambda \, \mathbf{1}"),
    (ex.add([ONE, neg(x)]),                         "1 - x",               "1 - x"),
    (ex.add([X, call("sum", neg(X), axis="0")]),    "X - 𝟏 𝟏ᵀ X",          r"X - \mathbf{1} \, \mathbf{1}^{\top} \, X"),
    (mul([X, b]),                                   "X diag(b)",           r"X \, \operatorname{diag}\left(b\right)"),
    (mul([TWO, X, E("column", (s,))]),              "2 diag(s) X",         r"2 \operatorname{diag}\left(s\right) \, X"),
    (mul([b, call("ones_like", X)]),                "𝟏 bᵀ",                r"\mathbf{1} \, b^{\top}"),
    (mul([X], [b]),                                 "X diag(1 / b)",       r"X \, \operatorname{diag}\left(\frac{1}{b}\right)"),
    (call("sum", X, axis="0"),                      "Xᵀ 𝟏",                r"X^{\top} \, \mathbf{1}"),
    (call("mean", X, axis="1"),                     "X 𝟏 / n",             r"\frac{X \, \mathbf{1}}{n}"),
    (call("softmax", X, axis="1"),                  "softmax_rows(X)",     r"\operatorname{softmax}_{\mathrm{rows}}\left(X\right)"),
    (call("softmax", x),                            "softmax(x)",          r"\operatorname{softmax}\left(x\right)"),
    (mul([matmul(A, B), S]),                        "(A B) ∘ S",           r"\left(A \, B\right) \circ S"),
    (ex.index_array(call("eye", name("n")), ["0"]),     "e₀",                  "e_{0}"),
    (mul([ex.index_array(w, ["0"]), w]),                "w[0] w",              r"w_{0} \, w"),
    (number(1e-5),                                  "10⁻⁵",                "10^{-5}"),
    (number(2.5e-7),                                "2.5·10⁻⁷",            r"2.5 \cdot 10^{-7}"),
    (E("compare", (x, y), ">="),                    "𝟏[x >= y]",           r"\mathbf{1}\left[x \geq y\right]"),
    (u,                                             "u1",                  "u_{1}"),
    (lam,                                           "λ",                   r"\lambda"),
]
NAMES = [("x", "x"), ("x2", "x_{2}"), ("x_1", "x_{1}"), ("alpha", r"\alpha"), ("β", r"\beta"), ("sigma1", r"\sigma_{1}"), ("weights", r"\mathrm{weights}"), ("w_out", r"\mathrm{w\_out}")]
# fmt: on


@for_rows(("e", "raised", "tex"), SHOWN)
def test_forms(e: E, raised: str, tex: str) -> None:
    assert (unicode(e), latex(e)) == (raised, tex)


@for_rows(("text", "tex"), NAMES)
def test_names_in_latex(text: str, tex: str) -> None:
    assert Latex().name(text) == tex


def test_the_identity_has_another_sign_where_an_input_has_its_name() -> None:
    eye = WRITING.formula(call("eye", name("n")))
    assert (Unicode(["I"]).write(eye), Latex(["I"]).write(eye)) == ("Id", r"\mathrm{Id}")
    assert (Unicode(["I", "Id"]).write(eye), Latex(["I", "Id"]).write(eye)) == ("Eye", r"\mathrm{Eye}")


OTHERS = [
    call("log_expit", x), power(ex.add([x, y]), Fraction(3, 2)), power(x, 0.3), number(1e-300),
    E("pow", (x, ex.add([y, neg(ONE)]))), call("ones", name("m"), name("n")), number(0.7978845608028654), mul([X], [E("column", (s,))]),
    E("concat", (x,), "[0]|"), ex.index_array(X, ["1:"]),
]  # fmt: skip
EVERY = [*(e for e, _, _ in SHOWN), *OTHERS, *(array(3, random.Random(k)) for k in range(60))]


@for_rows("e", EVERY)
def test_latex_is_balanced(e: E) -> None:
    tex = latex(e)
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", tex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0 and tex.count(r"\left") == tex.count(r"\right")
    assert not re.search(r"\^\{[^{}]*\}\^|(?<!\\)[#%&~$]", tex)


@for_rows("e", EVERY)
def test_mathml_is_xml(e: E) -> None:
    root = ET.fromstring(mathml(e))
    assert root.tag.endswith("math")
    children = {"mfrac": 2, "msup": 2, "msub": 2}
    for element in root.iter():
        tag = element.tag.split("}")[-1]
        assert len(element) == children.get(tag, len(element)), tag


@for_rows("e", EVERY)
def test_a_line_of_text(e: E) -> None:
    assert unicode(e).isprintable() and unicode(e).count("(") == unicode(e).count(")")


APART = [
    (power(call("inv", A), Fraction(2)), call("inv", power(A, Fraction(2)))),
    (mul([call("outer", x, y), A]), matmul(x, transpose(mul([y, A])))),
    (power(call("outer", x, y), Fraction(2)), call("outer", x, power(y, Fraction(2)))),
    (power(mul([x], [y]), Fraction(2)), mul([x], [power(y, Fraction(2))])),
    (neg(power(x, Fraction(2))), power(neg(x), Fraction(2))),
    (mul([A, ex.add([B, S])]), ex.add([mul([A, B]), S])),
    (mul([X, b]), mul([E("column", (s,)), X])),
]


@for_rows("first", [True, False])
@for_rows(("one", "other"), APART)
def test_different_things_look_different(one: E, other: E, first: bool) -> None:
    write = unicode if first else latex
    assert write(one) != write(other)


@for_rows(("f", "shapes", "wrt", "entry"), [
    ("det(A@B)*sum(x)", {"A": "n n", "B": "n n", "x": "n"}, "x", "G[i] = det(A B)"),
    ("sum(max(A, axis=1))", {"A": "m n"}, "A", "G[i,j] = [A[i,j] == max_k(A[i,k])]"),
    ("max(A@x)", {"A": "m n", "x": "n"}, "x", "G[i] = sum_j A[j,i]*[sum_k A[j,k]*x[k] == max_k(sum_l A[k,l]*x[l])]"),
    ("trace(expm(A))", {"A": "n n"}, "A", "G[i,j] = expm(A)[j,i]"),
])  # fmt: skip
def test_functions_of_whole_arrays_among_indices(f: str, shapes: dict[str, str], wrt: str, entry: str) -> None:
    (result,) = gradcli.derive(f, shapes=shapes, wrt=wrt).results
    assert result.index == entry


OPTION = "d1 = (log(S/K) + (r + v**2/2)*T)/(v*sqrt(T)); d2 = d1 - v*sqrt(T); S*ndtr(d1) - K*exp(-r*T)*ndtr(d2)"
SCALARS = dict.fromkeys(("S", "K", "r", "v", "T"), "")
ASSUMED = dict.fromkeys(("S", "K", "v", "T"), "positive")
LAYERS = "h = sigmoid(W1@x + b1); a = sigmoid(W2@h + b2); 0.5*sum((a - y)**2)"
SIZES = {"W1": "k n", "x": "n", "b1": "k", "W2": "m k", "b2": "m", "y": "m"}
FORWARD = "h = sigmoid(W1 x + b1); a = sigmoid(W2 h + b2)"


@pytest.mark.slow
@pytest.mark.parametrize(("f", "shapes", "assume", "wrt", "shown"), [
    ("max(x)", {"x": "n"}, {}, "x", "∂f/∂x = 𝟏[x == max(x)]"),
    ("norm(kron(A, B))**2", {"A": "m n", "B": "p q"}, {}, "A", "∂f/∂A = 2 ‖B‖² A"),
    ("norm(A@vec(X))**2", {"A": "k 6", "X": "2 3"}, {}, "A", None),
    ("x.T@A@x", {"x": "n 1", "A": "n n"}, {}, "A", "∂f/∂A = x xᵀ"),
    ("sum(A*B)", {"A": "1 d", "B": "n d"}, {}, "A", "∂f/∂A = 𝟏ᵀ B"),
    ("sum(A*B)", {"A": "1 d", "B": "n d"}, {}, "B", "∂f/∂B = 𝟏 A"),
    ("sum((A@B - 1)**2)", {"A": "1 d", "B": "d n"}, {}, "A", "∂f/∂A = 2 (Bᵀ Aᵀ - 1)ᵀ Bᵀ"),
    ("sum((X@W + b)**2)", {"X": "m n", "W": "n k", "b": "1 k"}, {}, "b", "∂f/∂b = 2 (Wᵀ Xᵀ 𝟏)ᵀ + 2 m b"),
    ("sum((x@y - Z)**2)", {"x": "n 1", "y": "1 m", "Z": "n m"}, {}, "x", "∂f/∂x = 2 ‖yᵀ‖² x - 2 Z yᵀ"),
    ("concatenate([x, y])", {"x": "n", "y": "m"}, {}, "x", "∂f/∂x = [I;\u00a00]"),
    ("logdet(block([[A, B], [B.T, D]]))", {"A": "n n", "B": "n m", "D": "m m"}, {}, "A", "∂f/∂A = ([[A, B];\u00a0[Bᵀ, D]]⁻¹)[:n, :n]ᵀ"),
    ("sum(gelu(x))", {"x": "n"}, {}, "x", "φ = exp(-x² / 2) / √(2 π); ∂f/∂x = x ∘ φ + Φ(x)"),
    ("sum(gelu(phi))", {"phi": "n"}, {}, "phi", "φ1 = exp(-φ² / 2) / √(2 π); ∂f/∂φ = φ ∘ φ1 + Φ(φ)"),
    (OPTION, SCALARS, ASSUMED, "S", "d1 = (log(S / K) + T (r + v² / 2)) / (v √T); ∂f/∂S = Φ(d1)"),
    (OPTION, SCALARS, ASSUMED, "v", "d1 = (log(S / K) + T (r + v² / 2)) / (v √T); φ = exp(-d1² / 2) / √(2 π); ∂f/∂v = S φ √T"),
    ("sum(cross(a, b)*c)", {"a": "3", "b": "3", "c": "3"}, {}, "a", "∂f/∂a = b × c"),
    ("norm(cross(a, b))**2", {"a": "3", "b": "3"}, {}, "b", "∂f/∂b = 2 ((a × b) × a)"),
    ("sum(log(x + sqrt(x**2 + 1)))", {"x": "n"}, {}, "x", "∂f/∂x = 1 / √(x² + 1)"),
    ("exp(x)/(1 + exp(x))", {"x": ""}, {}, "x", "∂f/∂x = sigmoid(x) (1 - sigmoid(x))"),
    ("g@(x/sqrt(mean(x*x) + 1e-5))", {"x": "n", "g": "n"}, {}, "x", "t1 = √(mean(x²) + 10⁻⁵); xhat = x / t1; ∂f/∂x = (g - mean(g ∘ xhat) xhat) / t1"),
    (LAYERS, SIZES, {}, "W1", f"{FORWARD}; δ2 = (a - y) ∘ a ∘ (1 - a); δ1 = h ∘ (1 - h) ∘ (W2ᵀ δ2); ∂f/∂W1 = δ1 xᵀ"),
    (LAYERS, SIZES, {}, "W2", f"{FORWARD}; δ2 = (a - y) ∘ a ∘ (1 - a); ∂f/∂W2 = δ2 hᵀ"),
    (LAYERS, SIZES, {}, "b1", f"{FORWARD}; δ2 = (a - y) ∘ a ∘ (1 - a); δ1 = h ∘ (1 - h) ∘ (W2ᵀ δ2); ∂f/∂b1 = δ1"),
    (LAYERS, SIZES, {}, "b2", f"{FORWARD}; δ2 = (a - y) ∘ a ∘ (1 - a); ∂f/∂b2 = δ2"),
    ("sum(R*(softmax(Q@K.T, axis=1)@V))", {"Q": "m d", "K": "n d", "V": "n k", "R": "m k"}, {}, "K", "P = softmax_rows(Q Kᵀ); ∂f/∂K = ((V Rᵀ - 𝟏 𝟏ᵀ (R ∘ (P V))ᵀ) ∘ Pᵀ) Q"),
    ("(x - u)@inv(S)@(x - u)", {"S": "n n", "x": "n", "u": "n"}, {"S": "spd"}, "x", "∂f/∂x = 2 S⁻¹ (x - u)"),
    ("norm(X - x)**2", {"X": "m n", "x": "n"}, {}, "x", "∂f/∂x = 2 m x - 2 Xᵀ 𝟏"),
    ("sum(pinv(X)*Y)", {"X": "m n", "Y": "n m"}, {}, "X", "t = pinv(X); ∂f/∂X = -tᵀ (Y tᵀ + t Yᵀ t X - t Yᵀ) - (X t Yᵀ t - Yᵀ t) tᵀ"),
    ("δ2@tanh(W2@tanh(W1@x))", {"δ2": "p", "W2": "p q", "W1": "q n", "x": "n"}, {}, "W1", "h = tanh(W1 x); δ3 = δ2 - δ2 ∘ tanh(W2 h)²; δ1 = (1 - h²) ∘ (W2ᵀ δ3); ∂f/∂W1 = δ1 xᵀ"),
    ("x@(I + eye(n))@x", {"x": "n", "I": "n n"}, {}, "x", "∂f/∂x = (I + Iᵀ) x + 2 x"),
    ("(x - mean(x))/sqrt(var(x) + 1e-5)", {"x": "n"}, {}, "x", "t2 = √(var(x) + 10⁻⁵); xhat = (x - mean(x) 𝟏) / t2; ∂f/∂x = (I - xhat xhatᵀ / n - (1 / n) 𝟏 𝟏ᵀ) / t2"),
    ("n*(x - mean(x))/sqrt(var(x) + 1e-5)", {"x": "n"}, {}, "x", "t2 = √(var(x) + 10⁻⁵); xhat = (x - mean(x) 𝟏) / t2; ∂f/∂x = -(xhat xhatᵀ + 𝟏 𝟏ᵀ - n I) / t2"),
    ("layer_norm(x, w)", {"x": "n", "w": "n"}, {}, "w", "∂f/∂w = diag(x - mean(x) 𝟏) / √(var(x) + 10⁻⁵)"),
    ("-z[c] + logsumexp(z)", {"z": "n"}, {}, "z", "∂f/∂z = softmax(z) - e_c"),
    ("-log(softmax(z)[c])", {"z": "n", "c": ""}, {"c": "index"}, "z", "∂f/∂z = softmax(z) - e_c"),
    ("E = exp(z - max(z)); -sum(y*log(E/sum(E)))", {"z": "n", "y": "n"}, {}, "z", "∂f/∂z = sum(y) softmax(z) - y"),
    ("S = X@W; E = exp(S - max(S, axis=1, keepdims=True)); P = E/sum(E, axis=1, keepdims=True); -sum(Y*log(P))/m", {"X": "m d", "W": "d k", "Y": "m k"}, {"Y": "simplex rows"}, "W", "S = X W; P = softmax_rows(S); ∂f/∂W = Xᵀ (P - Y) / m"),
    ("sum(R*(softmax(where(M > 0, Q@K.T, -inf), axis=1)@V))", {"Q": "n d", "K": "n d", "V": "n k", "R": "n k", "M": "n n"}, {}, "Q", "P = softmax_rows(Q Kᵀ if M > 0, else -∞); ∂f/∂Q = ((R Vᵀ - (R ∘ (P V)) 𝟏 𝟏ᵀ) ∘ P) K"),
    ("w@X@X.T@w/(w@w)", {"w": "d", "X": "d n"}, {}, "w", "∂f/∂w = 2 (X Xᵀ w - ‖Xᵀ w‖² w / ‖w‖²) / ‖w‖²"),
    ("norm(X@w - y)**2/2 + lam/2*w@w", {"X": "m n", "w": "n", "y": "m", "lam": ""}, {}, "w", "∂f/∂w = Xᵀ (X w - y) + λ w"),
    ("sum(-(y*log(p) + (1 - y)*log(1 - p)))", {"y": "n", "p": "n"}, {}, "p", "∂f/∂p = (p - y) / (p ∘ (1 - p))"),
    ("where(x > 0, x**2, -x)", {"x": ""}, {}, "x", "∂f/∂x = 2 x if x > 0, else -1"),
    ("sum(where(x < 0, x**2, where(x < 1, sin(x), 3*x)))", {"x": "n"}, {}, "x", "∂f/∂x = 2 x if x < 0, else cos(x) if x < 1, else 3"),
    ("sum(where((x > 0) and (x < 1), x**2, x))", {"x": "n"}, {}, "x", "∂f/∂x = (2 x if x > 0, else 1) if x < 1, else 1"),
    ("sum(where(Z > 0, Z, a*Z)*Y)", {"Z": "m n", "Y": "m n", "a": ""}, {}, "Z", "∂f/∂Z = Y if Z > 0, else a Y"),
    ("cross_entropy(Z, y)", {"Z": "m n", "y": "m"}, {"y": "index"}, "Z", "∂f/∂Z = (softmax_rows(Z) - onehot(y)) / m"),
    ("W[k, :]@x", {"W": "m n", "x": "n"}, {}, "x", "∂f/∂x = Wᵀ e_k"),
    ("sum((x - roll(x, 1))**2)", {"x": "n"}, {}, "x", "∂f/∂x = 4 x - 2 roll(x, 1) - 2 roll(x, -1)"),
    ("w@sort(x)", {"w": "n", "x": "n"}, {}, "x", "∂f/∂x = 𝟏[x 𝟏ᵀ == 𝟏 sort(x)ᵀ] w"),
    ("trace(logm(X))", {"X": "n n"}, {}, "X", "∂f/∂X = X⁻ᵀ"),
    ("sum(jv(1, x))", {"x": "n"}, {}, "x", "∂f/∂x = jv(0, x) / 2 - jv(2, x) / 2"),
    ("n*sum(x**2)", {"x": "n", "n": ""}, {}, "x", "∂f/∂x = 2 n x"),
    ("m@(X@w)", {"X": "m n", "w": "n", "m": "m"}, {}, "w", "∂f/∂w = Xᵀ m"),
    ("sum(C*exp(-g*(sum(X**2, axis=1)[:, None] + sum(X**2, axis=1)[None, :] - 2*X@X.T)))", {"X": "m n", "C": "m m", "g": ""}, {}, "X",
     "t2 = exp(g (2 X Xᵀ - X^∘2 𝟏 𝟏ᵀ - 𝟏 𝟏ᵀ (X^∘2)ᵀ)); δ1 = g (C ∘ t2); ∂f/∂X = 2 (δ1 + δ1ᵀ) X - 2 g diag(((C + Cᵀ) ∘ t2) 𝟏) X"),
])  # fmt: skip
def test_forms_of_textbooks(
    f: str, shapes: dict[str, str], assume: dict[str, str], wrt: str, shown: str | None
) -> None:
    results = gradcli.derive(f, shapes=shapes, assume=assume, wrt=wrt).results
    assert [r.formula.unicode for r in results] == ([] if shown is None else [shown])
