"""Each kind of bad expression gets its sentence, its advice, and carets under the text that is wrong."""

import numpy as np
import pytest

from gradcli.errors import BadExpression, BadShape
from gradcli.targets.expression import Expression
from tests.rows import for_rows

VALUES = {
    "v": np.array([1.0, 2.0, 3.0]),
    "w": np.array([1.0, 2.0]),
    "W": np.arange(6.0).reshape(2, 3),
    "S": np.zeros((2, 2)),
}

# fmt: off
#    expression            what is wrong                                        what to do                                 the text under the carets
CHARACTERS = [
    ("2 × x",              "'×' is not part of the language",                   "write 2 * x",                             "×"),
    ("x – 1",              "'–' is not part of the language",                   "write x - 1",                             "–"),
    ("A∘B",                "'∘' is not part of the language",                   "write A*B",                               "∘"),
    ("∂x",                 "'∂' is not part of the language",                   "write the function alone: gradcli differentiates it", "∂"),
    ("x'A x",              "a prime is not part of the language",               "write x.T@A@x",                           "'"),
    ("(X - m)'*(X - m)",   "a prime is not part of the language, and * is the product of entries", "write (X - m).T@(X - m)", "'"),
    ("|x| + 1",            "'|' is not part of the language",                   "write abs(x) + 1",                        "|"),
    ("2 + ||x - 1||",      "'|' is not part of the language",                   "write 2 + norm(x - 1)",                   "|"),
    ("‖x + 1",             "this ‖ was never closed",                           "write norm(x)",                           "‖"),
    ("x‖ + 1",             "this ‖ closes nothing",                             "write norm(x)",                           "‖"),
    ("√x",                 "'√' is not part of the language",                   "write sqrt(x)",                           "√"),
    ("x\u00a0+ 1",         "the character '\\xa0' is not part of the language", "leave it out",                            "\u00a0"),
    ("x\u200b",            "the character '\\u200b' is not part of the language", "leave it out",                          "\u200b"),
    ("x\x00",              "the character '\\x00' is not part of the language", "leave it out",                            "\x00"),
    ("x & y",              "'&' is not part of the language",                   "write 'and' or multiply the comparisons", "&"),
    ("x | y",              "'|' is not part of the language",                   "write 'or', or abs(x), norm(x) and det(A)", "|"),
    ("~x",                 "'~' is not part of the language",                   "write 'not'",                             "~"),
    ("!x",                 "'!' is not part of the language",                   "write != or not",                         "!"),
    ("x ? 1 : 2",          "'?' is not part of the language",                   "write a if x > 0 else b",                 "?"),
    ("$x",                 "'$' is not part of the language",                   "names have letters, digits and _",        "$"),
    ("`x`",                "'`' is not part of the language",                   "names have letters, digits and _",        "`"),
    ("{x}",                "'{' is not part of the language",                   "write (x)",                               "{"),
    ("(u := 2)",           "':=' is not part of the language",                  "write u = ...; ...",                      ":="),
    ("x -> y",             "'->' is not part of the language",                  "write u = ...; ...",                      "->"),
    ("x += 1",             "'+=' is not part of the language",                  "write u = u + ... under a new name",      "+="),
    ("'abc",               "a string was never closed",                         "add the closing quote",                                "'"),
]
BRACKETS = [
    ("sin(x",              "'(' was never closed",                              "add ')'",                                      "("),
    ("u = (x\n[x",         "'[' was never closed",                              "add ']'",                                      "["),
    ("x)",                 "')' closes nothing",                                "remove it, or open a bracket before",     ")"),
    ("f(x]",               "']' does not close '('",                            "close the inner bracket first",                                      "]"),
]
STATEMENTS = [
    ("",                   "the expression is empty",                           'write one, for example "sin(x*y) + exp(-x**2)"', None),
    ("x + 1; y",           "the value of this statement is not used",           "name it (u = ...), or put brackets around an expression of several lines", "x + 1"),
    ("x^2\n+ y",           "the value of this statement is not used",           "name it (u = ...), or put brackets around an expression of several lines", "x^2"),
    ("u = ; u",            "'u =' has no value",                                "write u = ...",                           "="),
    ("u = v = x; u",       "'=' names one value, at the beginning of a statement", "write u = ...; or == to compare",      "="),
    ("x + y = 1",          "'=' names one value, at the beginning of a statement", "write u = ...; or == to compare",      "="),
    ("lambda = 2; x",      "'lambda' is a Python keyword",                      "write lam",                               "lambda"),
    ("lambda*x",           "'lambda' is a Python keyword",                      "write lam",                               "lambda"),
    ("[a for a in x]",     "'for' is a Python keyword",                         "write sums over arrays: sum(x**2)",       "for"),
    ("import os",          "'import' is a Python keyword",                      "functions are there without importing",   "import"),
    ("class*x",            "'class' is a Python keyword",                       "choose another name: class_",             "class"),
    ("μ + 1 +",            "something is missing after '+'",                    "complete the expression",                 "+"),
    ("u = x *; u",         "something is missing after '*'",                    "complete the expression",                 "*"),
    ("sin x",              "an operator is missing here",                       "write sin(x)",                            "x"),
    ("sin²(x)",            "an operator is missing here",                       "write sin(x)^2",                          "("),
    ("sum(exp²(x)+1)",     "an operator is missing here",                       "write sum(exp(x)^2+1)",                   "("),
    ("x²(1+x)",            "an operator is missing here",                       "write x²*(1+x)",                          "("),
    ("x²ᵀ",                "'ᵀ' after a power can be read in two ways",         "write brackets, as in (x²)ᵀ",             "ᵀ"),
    ("sum((x+1)²⁻¹)",      "'⁻¹' after a power can be read in two ways",        "write brackets, as in (x²)ᵀ",             "⁻¹"),
    ("x’y",                "a prime is not part of the language",               "write x.T@y",                             "’"),
    ("1 + cos 2 x",        "what follows a function without brackets can be read in two ways", "write 1 + cos(2*x), or 1 + cos(2)*x", "x"),
    ("d/dx sin(x)",        "d/dx is not part of the language: gradcli differentiates what it is given", "write sin(x)", "d"),
    ("d/dx (sin(x))",      "d/dx is not part of the language: gradcli differentiates what it is given", "write sin(x)", "d"),
    ("sum_i x",            "an operator is missing here",                       "write 2*x for a product, sin(x) for a function, sum(x) for a sum", "x"),
    ("x² y",               "an operator is missing here",                       "write x²*y",                              "y"),
    ("u = 2 v = 3; u*v",   "a semicolon is missing here",                       "write u = 2; v = 3; u*v",                          "v"),
    ("2x",                 "an operator is missing here",                       "write 2*x",                               "x"),
    ("x y",                "an operator is missing here",                       "write x*y",                               "y"),
    ("(x + 1) 2",          "an operator is missing here",                       "write (x + 1)*2",                         "2"),
    ("x if x",             "expected 'else' after 'if' expression",             "check the operators and brackets around this place", "x"),
    ("μ + x : 3",          "invalid syntax",                                    "check the operators and brackets around this place", ":"),
    ("x */ y",             "invalid syntax",                                    "check the operators and brackets around this place", "/"),
]
NAMES = [
    ("sine(x*y)",          "unknown function 'sine'",                           "did you mean 'sin'?",                     "sine"),
    ("1 + np.sine(x)",     "unknown function 'np.sine'",                        "did you mean 'sin'?",                     "np.sine"),
    ("μ*sine(x)",          "unknown function 'sine'",                           "did you mean 'sin'?",                     "sine"),
    ("σ(x)",               "unknown function 'σ'",                              "write sigmoid(x)",                        "σ"),
    ("qqqqqq(x)",          "unknown function 'qqqqqq'",                         "gradcli ops lists the functions",         "qqqqqq"),
    ("u = 2; u(x)",        "unknown function 'u'",                              "write u = 2; u*(x)",                      "u"),
    ("x + x(y)",           "unknown function 'x'",                              "write x + x*(y)",                         "x"),
    ("2(x)",               "only named functions can be called",                "write 2*(x)",                             "2"),
    ("(x + y)(x)",         "only named functions can be called",                "write (x + y)*(x)",                       "x + y"),
    ("os.system(x)",       "'os.system' is not part of the language",           "methods known: .T, .sum, .mean, .max, .min, .dot, .reshape", "os.system"),
    ("x.real + 1",         "'.real' is not part of the language",               "known: .T and .sum, .mean, .max, .min, .dot, .reshape(...)", "x.real"),
    ("x.sum",              "'.sum' is not part of the language",                "known: .T and .sum, .mean, .max, .min, .dot, .reshape(...)", "x.sum"),
]
CALLS = [
    ("sin()",              "sin: missing a required argument: 'x1'",            "write sin(x1)",                           "sin()"),
    ("1 + sin(x, y)",      "sin: too many positional arguments",                "write sin(x1)",                           "sin(x, y)"),
    ("mse(x)",             "mse: missing a required argument: 'b'",             "write mse(a, b)",                         "mse(x)"),
    ("silu(x, size=1)",    "silu: got an unexpected keyword argument 'size'",   "write silu(x)",                           "silu(x, size=1)"),
    ("v.dot()",            "dot: missing a required argument: 'b'",             "write dot(a, b)",                "v.dot()"),
    ("slogdet(S)",         "slogdet returns 2 values",                          "take one: slogdet(S)[1]",                 "slogdet(S)"),
    ("u = svd(W); sum(u)", "svd returns 3 values",                              "take one: svd(W)[1]",                     "svd(W)"),
    ("split(v, 3)[0:2]",   "[] returns 2 values",                               "take one: split(v, 3)[0:2][1]",           "split(v, 3)[0:2]"),
    ("tile(v, x)",         "tile takes reps as data, known before the expression runs", "write it out, such as reps=1",    "x"),
    ("concatenate(v, w)",  "concatenate takes axis as data, known before the expression runs", "write the arrays as a list: concatenate([x, y])", "w"),
    ("sum(v, axis=x)",     "sum takes axis as data, known before the expression runs", "write it out, such as axis=1",     "x"),
    ("sort(v, kind='s')",  "sort takes no kind here",                           "leave it out",                            "sort(v, kind='s')"),
    ("mse_loss(v, v, 's')", "'mse_loss' failed: reduction is 'mean', 'sum' or 'none', not 's'", "check its arguments",     "mse_loss(v, v, 's')"),
    ("nll_loss(W, [0, 5])", "'nll_loss' failed: classes are whole numbers from 0 to 2", "check its arguments",            "nll_loss(W, [0, 5])"),
    ("group_norm(W, 2)",   "'group_norm' failed: group_norm cannot divide 3 channels into 2 groups", "check its arguments",  "group_norm(W, 2)"),
    ("sum(*x)",            "a starred is not part of the language",             "write the arguments out",                 "*x"),
    ("sum(v, **x)",        "** is not part of the language here",               "write the arguments out",                 "x"),
]
VALUE = [
    ("1 + 1e400",          "this number is larger than the largest float64",    "write inf, or a smaller number",          "1e400"),
    ("-1e400",             "this number is larger than the largest float64",    "write inf, or a smaller number",          "1e400"),
    ("x, y",               "a tuple is not part of the language",               "give several outputs as a list: [a, b]",  "x, y"),
    ("1 + []",             "an empty list has no values",                       "write zeros(0), or the values",           "[]"),
    ("x + ...",            "Ellipsis is not part of the language",              "leave it out",                            "..."),
    ("v[x]",               "an index is a whole number from 0 to 2, not 0.5", "give the index a whole number", "v[x]"),
    ("v[0.5]",             "an index must be a whole number, an input, a slice or a list of numbers", "write x[0], x[k], x[1:] or x[0, :]",   "0.5"),
    ("v[:x]",              "a bound of a slice is a whole number, not 0.5",     "give the bound a whole number",           "v[:x]"),
    ("v[:w]",              "a bound of a slice is a whole number, not an array", "give the bound a whole number",          "v[:w]"),
    ("v[:floor(x)]",       "an index must be a whole number, an input, a slice or a list of numbers", "write x[0], x[k], x[1:] or x[0, :]",   "floor(x)"),
    ("v[()]",              "the index is empty",                                "write x[0] or x[1:]",                     "v[()]"),
    ("True",               "True is no value here",                        "write a number or a name",                         "True"),
    ("'ij'",               "'ij' is no value here",                        "write a number or a name",                         "'ij'"),
    ("None",               "None is no value here",                        "write a number or a name",                         "None"),
]
SHAPES = [
    ("1 + v*w",            "shapes (3,) and (2,) do not fit in '*'",            "check the shapes of the inputs",          "v*w"),
    ("maximum(v, w)",      "shapes (3,) and (2,) do not fit in 'maximum'",      "check the shapes of the inputs",          "maximum(v, w)"),
    ("μ + (W @ w)",        "shapes (2, 3) and (2,) do not fit in '@'",          "check the shapes of the inputs",          "W @ w"),
    ("dot(v, w)",          "shapes (3,) and (2,) do not fit in 'dot'",          "check the shapes of the inputs",          "dot(v, w)"),
    ("glu(v)",             "'glu' cannot take shape (3,): the axis has the odd length 3", "check the shapes of the inputs", "glu(v)"),
    ("linear(v, W, w) + batch_norm(v)", "'batch_norm' cannot take shape (3,): its axes are (rows, channels) or (rows, channels, places...)",
                                                                                "check the shapes of the inputs",          "batch_norm(v)"),
    ("[v, w]",             "shapes (3,) and (2,) do not fit in '[...]'",        "check the shapes of the inputs",          "[v, w]"),
    ("v[3]",               "'[]' cannot take shape (3,): index 3 is out of bounds for axis 0 with size 3",
                                                                                "check the shapes of the inputs",          "v[3]"),
    ("sum(v, axis=1)",     "'sum' cannot take shape (3,): axis 1 is out of bounds for array of dimension 1",
                                                                                "check the shapes of the inputs",          "sum(v, axis=1)"),
]
# fmt: on


def refusal(text, kind):
    with pytest.raises(kind) as caught:
        f = Expression(text)
        f.survey({name: VALUES.get(name, np.float64(0.5)) for name in f.inputs})
    return caught.value


@for_rows(("text", "what", "do", "under"), CHARACTERS + BRACKETS + STATEMENTS + NAMES + CALLS + VALUE, ids=ascii)
def test_a_bad_expression_says_what_where_and_what_to_do(text, what, do, under):
    error = refusal(text, BadExpression)
    assert (error.what, error.do, error.where and error.where.source) == (what, do, under)


@for_rows(("text", "what", "do", "under"), SHAPES, ids=ascii)
def test_shapes_that_do_not_fit_say_what_where_and_what_to_do(text, what, do, under):
    error = refusal(text, BadShape)
    assert (error.what, error.do, error.where.source) == (what, do, under)


# fmt: off
@for_rows(
    ("text", "line", "carets"),
    [
        ("sine(x*y) + exp(-x**2)",      "sine(x*y) + exp(-x**2)", "^^^^"),
        ("x^2 + y^2 + sine(x)",         "x^2 + y^2 + sine(x)",    "            ^^^^"),
        ("u = x^2\n  v = sine(u)\nv",   "  v = sine(u)",          "      ^^^^"),
        ("μ^2 + ϵ*sine(x)",             "μ^2 + ϵ*sine(x)",        "        ^^^^"),
        ("sum(x) + (x +\n y)(2)",       "sum(x) + (x +",          "          ^^^"),
        ("x" + " + x" * 40 + "; u = 2y; u", "..." + "x" + " + x" * 17 + " +...", None),
    ],
    ids=ascii,
)
# fmt: on
def test_carets_stand_under_the_column_of_the_user_s_text(text, line, carets):
    shown, under = refusal(text, BadExpression).where.caret()
    if carets is None:
        assert max(len(shown), len(under)) <= 76
        assert shown.startswith("...") or shown.endswith("...")
    else:
        assert (shown, under) == (line, carets)


@pytest.mark.parametrize("text", ["v*w", "sum(v*w)", "v[7]"])
def test_a_call_and_a_survey_refuse_alike(text):
    f = Expression(text)
    at = {name: VALUES[name] for name in f.inputs}
    errors = []
    for evaluate in (f, f.survey):
        with pytest.raises(BadShape) as caught:
            evaluate(at)
        errors.append((caught.value.what, caught.value.where, caught.value.do))
    assert errors[0] == errors[1]
