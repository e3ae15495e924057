"""What people type by hand is read as the language, or shown in it; what is in the language already is left alone."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.errors import BadExpression
from gradcli.targets.expression import Expression
from gradcli.targets.hand_notation import explain_joined_names, read_notation
from gradcli.targets.points import split_shapes
from tests.derivation.problems import PROBLEMS
from tests.rows import for_rows

NOTHING: dict[str, Any] = {}
NUMBERS = dict.fromkeys("abcxy", ())
SQUARE = {"A": (3, 3), "B": (3, 3), "x": (3,), "y": (3,), "b": (3,), "c": ()}
WIDE = {"X": (4, 3), "w": (3,), "y": (4,), "W": (2, 3)}

# fmt: off
READ = [
    # products of numbers
    ("2x",                 NOTHING, "2*x"),
    ("-2x",                NOTHING, "-2*x"),
    ("x^2 sin(x)",         NOTHING, "x^2*sin(x)"),
    ("(2x+1)/(x^2+3)",     NOTHING, "(2*x+1)/(x^2+3)"),
    ("(x+1)(x-1)",         NOTHING, "(x+1)*(x-1)"),
    ("(1+x)^2(1-x)",       NOTHING, "(1+x)^2*(1-x)"),
    ("x(x+1)",             NOTHING, "x*(x+1)"),
    ("3(x+1)",             NOTHING, "3*(x+1)"),
    ("x y z",              NOTHING, "x*y*z"),
    ("2 e^x",              NOTHING, "2*e^x"),
    ("e^(2x)",             NOTHING, "e^(2*x)"),
    ("3x²-2x+1",           NOTHING, "3*x²-2*x+1"),
    ("u = 2x; u^2",        NOTHING, "u = 2*x; u^2"),
    ("u = A x; v = B u; v^T u", SQUARE, "u = A@x; v = B@u; v.T@u"),
    ("2x if x>0 else 3x",  NOTHING, "2*x if x>0 else 3*x"),
    ("max(0, 1-2x)",       NOTHING, "max(0, 1-2*x)"),
    ("x[0]x[1]",           NOTHING, "x[0]*x[1]"),
    # names of several letters, where every letter is given
    ("ax^2+bx+c",          NUMBERS, "a*x^2+b*x+c"),
    ("πr²",                NOTHING, "pi*r²"),
    ("π*r^2",              NOTHING, "pi*r^2"),
    # functions
    ("sin x",              NOTHING, "sin(x)"),
    ("x sin x",            NOTHING, "x*sin(x)"),
    ("sin x cos x",        NOTHING, "sin(x)*cos(x)"),
    ("sin -x",             NOTHING, "sin(-x)"),
    ("log det A",          SQUARE,  "log(det(A))"),
    ("sin²(x)",            NOTHING, "sin(x)^2"),
    ("sin^2(x)",           NOTHING, "sin(x)^2"),
    ("cos²x",              NOTHING, "cos(x)^2"),
    ("sin^n x",            NOTHING, "sin(x)^n"),
    ("sin^-(2) x",         NOTHING, "sin(x)^-(2)"),
    ("np.sin(2x)",         NOTHING, "np.sin(2*x)"),
    ("√np.pi",             NOTHING, "sqrt(np.pi)"),
    ("np.pi A",            NOTHING, "np.pi*A"),
    ("sec(x)",             NOTHING, "1/cos(x)"),
    ("x cot²x",            NOTHING, "x*(1/tan(x))^2"),
    ("sec(x)tan(x)",       NOTHING, "(1/cos(x))*tan(x)"),
    ("tg x + σ(x)",        NOTHING, "tan(x) + sigmoid(x)"),
    ("log(x,10)",          NOTHING, "log10(x)"),
    ("log(x, b+1)",        NOTHING, "log(x)/log(b+1)"),
    ("log(|x|, 2)",        NOTHING, "log2(abs(x))"),
    ("log_2(x) + log₃ x",  NOTHING, "log2(x) + (log(x)/log(3))"),
    ("x!",                 NOTHING, "gamma(x + 1)"),
    ("(n-1)!",             NOTHING, "gamma((n-1) + 1)"),
    ("max{x, 0}",          NOTHING, "max(x, 0)"),
    # signs
    ("√x + ∛(x+1)",        NOTHING, "sqrt(x) + cbrt(x+1)"),
    ("x√(1-x²)",           NOTHING, "x*sqrt(1-x²)"),
    ("|x|",                NOTHING, "abs(x)"),
    ("2|x-1|^3",           NOTHING, "2*abs(x-1)^3"),
    ("|x||y|",             NOTHING, "abs(x)*abs(y)"),
    ("|x|/(1+|x|)",        NOTHING, "abs(x)/(1+abs(x))"),
    ("||x|-1|",            NOTHING, "abs(abs(x)-1)"),
    ("ln|x|",              NOTHING, "ln(abs(x))"),
    ("½x²",                NOTHING, "(1/2)*x²"),
    ("a × b ÷ c – 1",      NOTHING, "a * b / c - 1"),
    ("xⁿ + eˣ",            NOTHING, "x^n + e^x"),
    ("e^{-x}",             NOTHING, "e^(-x)"),
    ("x₁ + 2x₂",           NOTHING, "x1 + 2*x2"),
    ("Σ(X w-y)²",          WIDE,    "sum((X@w-y)²)"),
    ("½ Σ (x - y)^2/2",    SQUARE,  "(1/2)*sum((x - y)^2/2)"),
    ("log_{10} x",         NOTHING, "log10(x)"),
    ("x_{12}^2 + x_{1} x_{2}", NOTHING, "x_12^2 + x_1*x_2"),
    ("sin²(x)³",           NOTHING, "(sin(x)^2)³"),
    ("sin^2(x)^3",         NOTHING, "(sin(x)^2)^3"),
    ("tr(A^{-1} B)",       SQUARE,  "tr(A⁻¹@B)"),
    # a name before the formula
    ("f(x) = 3x^2",        NOTHING, "3*x^2"),
    ("f(x) = x(1-x)",      NOTHING, "x*(1-x)"),
    ("y = x^2+3x",         NOTHING, "y = x^2+3*x"),
    # matrices
    ("xᵀ A x",             NOTHING, "xᵀ@A@x"),
    ("x^T A x",            SQUARE,  "x.T@A@x"),
    ("xAx",                SQUARE,  "x@A@x"),
    ("2 A x",              SQUARE,  "2*A@x"),
    ("c A x",              SQUARE,  "c*A@x"),
    ("A(x+y)",             SQUARE,  "A@(x+y)"),
    ("A⁻¹ b",              SQUARE,  "A⁻¹@b"),
    ("tr(AᵀB)",            SQUARE,  "tr(Aᵀ@B)"),
    ("x xᵀ",               SQUARE,  "outer(x, x)"),
    ("log|A|",             SQUARE,  "log(det(A))"),
    ("||Xw-y||^2",         WIDE,    "norm(X@w-y)^2"),
    ("(Xw-y)ᵀ(Xw-y)",      WIDE,    "(X@w-y)ᵀ@(X@w-y)"),
    ("λ‖w‖²",              WIDE,    "λ*norm(w)²"),
    ("‖X‖_F² + ‖w‖₁",      WIDE,    "norm(X)² + sum(abs(w))"),
    ("-Σ y log(softmax(X w))", WIDE, "-sum(y*log(softmax(X@w)))"),
]
IN_TWO_WAYS = [
    ("1/2x",               NOTHING, ("1/(2*x)", "1/2*x")),
    ("1/2 x^2",            NOTHING, ("1/(2*x^2)", "1/2*x^2")),
    ("x/(x+1)(x+2)",       NOTHING, ("x/((x+1)*(x+2))", "x/(x+1)*(x+2)")),
    ("sin 2x",             NOTHING, ("sin(2*x)", "sin(2)*x")),
    ("3x + cos x/2",       NOTHING, ("3*x + cos(x/2)", "3*x + cos(x)/2")),
    ("sin x^2",            NOTHING, ("sin(x^2)", "sin(x)^2")),
    ("√2x",                NOTHING, ("sqrt(2*x)", "sqrt(2)*x")),
    ("a b^c",              NOTHING, ("a*b^c", "(a*b)^c")),
    ("x^2y",               NOTHING, ("x^(2*y)", "x^2*y")),
    ("e^x(x+1)",           NOTHING, ("e^(x*(x+1))", "e^x*(x+1)")),
    ("sin^-1(x)",          NOTHING, ("arcsin(x)", "1/sin(x)")),
    ("|x|y|z|",            NOTHING, ("abs(x)*y*abs(z)", "abs(x*abs(y)*z)")),
    ("A B",                SQUARE,  ("A@B", "A*B")),
    ("x y",                SQUARE,  ("x@y", "x*y")),
    ("tr(A^-1 B)",         SQUARE,  ("tr(inv(A)@B)", "tr(A^-1*B)")),
    ("tr(A^-T B)",         SQUARE,  ("tr(inv(A).T@B)", "tr(A^-T*B)")),
    ("x^T A^-1 y",         SQUARE,  ("x.T@inv(A)@y", "(x.T@A)^-1@y")),
    ("tr(A² B)",           SQUARE,  ("tr(matrix_power(A, 2)@B)", "tr(A²*B)")),
    ("tr(B A^(-1))",       SQUARE,  ("tr(B@inv(A))", "tr((B*A)^(-1))")),
    ("A x^2",              NOTHING, ("A@x^2", "(A*x)^2")),
    ("A x",                NOTHING, ("A@x", "A*x")),
    ("|x|",                SQUARE,  ("norm(x)", "abs(x)")),
]
SHOWN = [  # in one way, which is not taken
    ("x'*A*x",             NOTHING, "x.T@A@x"),
    ("x'Ax",               SQUARE,  "x@A@x"),
    ("x'y",                SQUARE,  "x@y"),
    ("x x'",               SQUARE,  "outer(x, x)"),
    ("A'x",                SQUARE,  "A.T@x"),
    ("d/dx (x^2 + 5x)",    NOTHING, "x^2 + 5*x"),
    ("ax^2 + b",           {"x": None}, "a*x^2 + b"),
    ("max(0, 1 - y(x+b))", {"x": ()}, "max(0, 1 - y*(x+b))"),
]
LEFT = [
    "sin(x)*y", "xe^x", "e^x", "xᵀ@A@x", "[x^2+1]/x", "sum(x, axis=0)", "ab = x^2; ab", "x.sum()", "sin - x", "x-y",
    "2j", "0x10", "x sgn x", "sum x²", "lg x", "xlog x", "1ᵀx", "‖x‖²_2", "‖x‖∞", "log₂x", "f(x+1)", "sine(x)", "sum_i x", "x +", "", "(", ")x", "|", "||", "x |", "!", "'", "x'y'z)", "∂x", "$x", "2 3 (",
]  # fmt: skip
# fmt: on


def read(typed: str, shapes: Any) -> Any:
    return read_notation(typed, shapes, lambda text: Expression(text, frozenset(shapes)).program)


@for_rows("typed, shapes, text", READ)
def test_it_is_read(typed: str, shapes: Any, text: str) -> None:
    found = read(typed, shapes)
    assert found is not None and (found.texts[0], found.question) == (text, None)


@for_rows("typed, shapes, texts", IN_TWO_WAYS)
def test_both_readings_are_shown_whole(typed: str, shapes: Any, texts: tuple[str, ...]) -> None:
    found = read(typed, shapes)
    assert found is not None and found.texts == texts and found.question.endswith("can be read in two ways")
    assert found.refusal(typed).do == f"write {texts[0]}, or {texts[1]}"


@for_rows("typed, shapes, text", SHOWN)
def test_one_reading_is_shown(typed: str, shapes: Any, text: str) -> None:
    found = read(typed, shapes)
    assert found is not None and found.texts == (text,) and found.question is not None


@for_rows("typed", LEFT)
def test_the_rest_is_left_alone(typed: str) -> None:
    assert read(typed, NOTHING) is None


def test_a_constant_is_not_split() -> None:
    assert read("p*i + pi*x", dict.fromkeys("pix", ())) is None


def test_the_language_is_left_alone() -> None:
    for problem in PROBLEMS.values():
        assert read(problem.f, {name: None for name, _ in split_shapes([problem.shapes])}) is None, problem.f


@given(st.text("xyA2 +-*/^()|'ᵀ²!.,=√sin[]{}", max_size=30), st.sampled_from([NOTHING, NUMBERS, SQUARE]))
def test_a_reading_is_in_the_language(typed: str, shapes: Any) -> None:
    found = read(typed, shapes)
    for text in () if found is None else found.texts:
        Expression(text, frozenset(shapes))
        again = read(text, shapes)
        assert again is None or again.question, (typed, text)


@for_rows(
    "typed",
    [
        "sin " * 300 + "2x",
        "√" * 300 + "2x",
        "2^" * 190 + "2x",
        "(" * 100 + "2x" + ")" * 100,
        "|" * 300 + "x",
        "2x" * 190,
    ],
)
def test_nesting_ends(typed: str) -> None:
    found = read(typed, NOTHING)
    assert found is None or len(found.texts[0]) < 4 * len(typed)


def test_a_reading_has_the_value_that_is_meant() -> None:
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=3), rng.normal(size=(3, 3))
    for typed, value in (("½ xᵀ A x", x @ A @ x / 2), ("x xᵀ", np.outer(x, x)), ("‖A x‖²", np.sum((A @ x) ** 2))):
        found = read(typed, {"x": (3,), "A": (3, 3)})
        np.testing.assert_allclose(Expression(found.texts[0])({"x": x, "A": A}), value, rtol=1e-12)


@for_rows(
    "typed, sentence",
    [
        ("sinx + 1", "sinx is one name here; for the function write sin(x)"),
        ("xe^x", "xe is one name here; for a product write x*e"),
        ("alpha + a", None),
        ("mu*m + dx*x", None),
        ("sine(x)", None),
    ],
)
def test_a_name_that_may_be_several_is_told(typed: str, sentence: str | None) -> None:
    assert list(explain_joined_names(typed, ())) == ([sentence] if sentence else [])


def test_python_shows_the_reading_and_does_not_take_it() -> None:
    with pytest.raises(BadExpression) as caught:
        Expression("x^2 sin(x) + 2x")
    assert caught.value.do == "write x^2*sin(x) + 2*x"


class TestCommandLine:
    """The reading is the first line of the report, and the target from then on."""

    def test_the_first_line_says_it(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("derive", "x^2 sin(x)")
        assert done.stdout.startswith("  x^2 sin(x) is read as x^2*sin(x)\n  f          x^2*sin(x)\n")

    def test_a_claim_is_read_too(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("check", "x^2 sin(x)", "--grad", "2x sin x + x^2 cos(x)", "x=1")
        assert "  2x sin x + x^2 cos(x) is read as 2*x*sin(x) + x^2*cos(x)\nPASS" in done.stdout

    def test_an_answer_is_read_too(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("derive", "x^2 sin(x)", "--answer", "2x sin x + x^2 cos x")
        assert "\n  2x sin x + x^2 cos x is read as 2*x*sin(x) + x^2*cos(x)\nPASS" in done.stdout

    def test_a_document_has_the_reading(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("grad", "3(x+1)", "x=1", "--json")
        assert json.loads(done.stdout)["target"]["text"] == "3*(x+1)" and done.stderr == "3(x+1) is read as 3*(x+1)\n"

    def test_sizes_decide(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("grad", "½ xᵀ A x", "--at", "x=[1,2],A=[[1,2],[3,4]]", "--wrt", "x")
        assert done.stdout == "  ½ xᵀ A x is read as (1/2)*xᵀ@A@x\ndf/dx = [6.0, 10.5]\n"

    def test_a_size_is_a_number(self, gradcli: Callable[..., Any]) -> None:
        argv = ("sum((X@w-y)**2)/m", "--shapes", "X: m n; w: n; y: m", "--wrt", "w", "--answer", "(2/m)Xᵀ(Xw-y)")
        done = gradcli("derive", *argv)
        assert done.exit_status == 0 and "is read as (2/m)*Xᵀ@(X@w-y)" in done.stdout

    def test_two_readings_are_an_error(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("derive", "1/2x")
        assert done.exit_status == 2 and done.stderr.endswith("\n     ^\n  write 1/(2*x), or 1/2*x\n")

    def test_standard_input_is_not_read_so(self, gradcli: Callable[..., Any]) -> None:
        done = gradcli("check", "-", stdin="2x\n")
        assert done.exit_status == 2 and "write 2*x" in done.stderr
