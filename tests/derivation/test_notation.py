"""Notations: raised signs for a terminal, LaTeX with balanced braces, MathML that is XML."""

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fractions import Fraction

import pytest

from gradcli.derivation import expression as ex
from gradcli.derivation.expression import E, call, matmul, mul, name, neg, number, power, transpose
from gradcli.derivation.notation import latex, mathml, name_in_latex, unicode
from tests.derivation.test_expression import array

A, B, S, x, y, u, lam = (name(n) for n in ("A", "B", "S", "x", "y", "u1", "lam"))
X, w = name("X", axes=2), name("w", axes=1)
HALF, TWO = number(Fraction(1, 2)), number(Fraction(2))

# fmt: off
SHOWN = [
    # expression                                    in a terminal          in LaTeX
    (matmul(transpose(A), x),                       "Aᵀ x",                r"A^{\top} \, x"),
    (call("inv", S),                                "S⁻¹",                 r"S^{-1}"),
    (call("inv", ex.add([A, B])),                   "(A + B)⁻¹",           r"\left(A + B\right)^{-1}"),
    (transpose(call("inv", A)),                     "A⁻¹ᵀ",                r"A^{-\top}"),
    (call("outer", ex.add([x, neg(y)]), x),         "(x - y) xᵀ",          r"\left(x - y\right) \, x^{\top}"),
    (mul([TWO, x]),                                 "2 x",                 "2 x"),
    (mul([x, y]),                                   "x ∘ y",               r"x \odot y"),
    (mul([x], [ex.add([x, y])]),                    "x / (x + y)",         r"\frac{x}{x + y}"),
    (neg(ex.add([x, y])),                           "-(x + y)",            r"-\left(x + y\right)"),
    (call("sqrt", ex.add([x, y])),                  "√(x + y)",            r"\sqrt{x + y}"),
    (call("abs", x),                                "|x|",                 r"\left|x\right|"),
    (call("eye", name("n")),                        "I",                   "I"),
    (call("sigmoid", x),                            "sigmoid(x)",          r"\sigma\left(x\right)"),
    (call("trace", A),                              "trace(A)",            r"\operatorname{tr}\left(A\right)"),
    (power(X, Fraction(2)),                         "X^∘2",                r"X^{\circ 2}"),
    (power(matmul(X, w), Fraction(2)),              "(X w)²",              r"\left(X \, w\right)^{2}"),
    (power(matmul(transpose(X), X), Fraction(3)),   "(Xᵀ X)^∘3",           r"\left(X^{\top} \, X\right)^{\circ 3}"),
    (power(call("tanh", X), Fraction(2)),           "tanh(X)^∘2",          r"\tanh\left(X\right)^{\circ 2}"),
    (power(w, Fraction(2)),                         "w²",                  "w^{2}"),
    (power(call("sum", X, axis="0"), Fraction(2)),  "sum(X, axis=0)²",     r"\operatorname{sum}_{\mathrm{axis}\,0}\left(X\right)^{2}"),
    (power(ex.indexed(X, ["0"]), Fraction(2)),      "X[0]²",               "X_{0}^{2}"),
    (power(ex.indexed(X, ["1:"]), Fraction(2)),     "X[1:]^∘2",            r"X_{1:}^{\circ 2}"),
    (ex.indexed(call("eye", name("n")), ["0"]),     "e₀",                  "e_{0}"),
    (ex.indexed(call("eye", name("n")), ["-1"]),    "e₋₁",                 "e_{-1}"),
    (ex.indexed(call("eye", name("n")), ["1:"]),    "I[1:]",               "I_{1:}"),
    (ex.indexed(call("eye", name("n")), [":", "1"]), "I[:, 1]",            "I_{:, 1}"),
    (mul([ex.indexed(w, ["0"]), w]),                "w[0] w",              "w_{0} w"),
    (mul([ex.indexed(X, ["0"]), w]),                "X[0] ∘ w",            r"X_{0} \odot w"),
    (u,                                             "u1",                  "u_{1}"),
    (lam,                                           "λ",                   r"\lambda"),
]
NAMES = [("x", "x"), ("x2", "x_{2}"), ("alpha", r"\alpha"), ("sigma1", r"\sigma_{1}"), ("weights", r"\mathrm{weights}"), ("w_out", r"\mathrm{w\_out}")]
# fmt: on


@pytest.mark.parametrize(("e", "raised", "tex"), SHOWN)
def test_forms(e: E, raised: str, tex: str) -> None:
    assert (unicode(e), latex(e)) == (raised, tex)


@pytest.mark.parametrize(("text", "tex"), NAMES)
def test_names_in_latex(text: str, tex: str) -> None:
    assert name_in_latex(text) == tex


OTHERS = [
    call("softmax", A, axis="1"), E("column", (x,)), E("compare", (x, HALF), ">="), E("compare", (x, y), "<"), call("einsum", A, B, first='"ij,jk->ik"'),
    call("log_expit", x), power(ex.add([x, y]), Fraction(3, 2)), power(x, 0.3), number(1e-300), E("pow", (x, ex.add([y, neg(number(Fraction(1)))]))),
    call("ones", name("m"), name("n")), number(0.7978845608028654),
]  # fmt: skip
EVERY = [*(e for e, _, _ in SHOWN), *OTHERS, *(array(3, random.Random(k)) for k in range(60))]


@pytest.mark.parametrize("e", EVERY)
def test_latex_is_balanced(e: E) -> None:
    tex = latex(e)
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", tex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0 and tex.count(r"\left") == tex.count(r"\right")
    assert not re.search(r"\^\{[^{}]*\}\^|(?<!\\)[#%&~$]", tex)


@pytest.mark.parametrize("e", EVERY)
def test_mathml_is_xml(e: E) -> None:
    root = ET.fromstring(mathml(e))
    assert root.tag.endswith("math")
    children = {"mfrac": 2, "msup": 2}
    for element in root.iter():
        tag = element.tag.split("}")[-1]
        assert len(element) == children.get(tag, len(element)), tag


@pytest.mark.parametrize("e", EVERY)
def test_a_line_of_text(e: E) -> None:
    assert unicode(e).isprintable() and unicode(e).count("(") == unicode(e).count(")")


APART: list[tuple[Callable[[E], str], E, E]] = [
    (write, a, b)
    for write in (unicode, latex)
    for a, b in [
        (power(call("inv", A), Fraction(2)), call("inv", power(A, Fraction(2)))),
        (mul([call("outer", x, y), A]), matmul(x, transpose(mul([y, A])))),
        (power(call("outer", x, y), Fraction(2)), call("outer", x, power(y, Fraction(2)))),
        (power(mul([x], [y]), Fraction(2)), mul([x], [power(y, Fraction(2))])),
        (neg(power(x, Fraction(2))), power(neg(x), Fraction(2))),
        (mul([A, ex.add([B, S])]), ex.add([mul([A, B]), S])),
    ]
]


@pytest.mark.parametrize(("write", "a", "b"), APART)
def test_different_things_look_different(write: Callable[[E], str], a: E, b: E) -> None:
    assert write(a) != write(b)


@pytest.mark.parametrize(("write", "bare"), [(unicode, "A⁻¹²"), (unicode, "x yᵀ²"), (latex, r"\frac{x}{y}^{2}"), (latex, r"x \, y^{\top}^{2}"), (latex, r"A^{-1}^{2}")])  # fmt: skip
def test_what_is_raised_stands_in_brackets(write: Callable[[E], str], bare: str) -> None:
    """A power of an inverse, of an outer product, of a fraction: without brackets it would be of the last sign only."""
    raised = [
        power(call("inv", A), Fraction(2)),
        power(call("outer", x, y), Fraction(2)),
        power(mul([x], [y]), Fraction(2)),
    ]
    assert bare not in [write(e) for e in raised]
