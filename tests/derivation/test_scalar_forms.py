"""Derivatives by a number have the form that a book prints, which is shorter, proved, and a step of its own."""

from gradcli.derivation.study import derive
from gradcli.report.derive import Result
from gradcli.request.options import Options
from gradcli.targets.expression import Expression
from tests.rows import for_rows

# fmt: off
BOOK = [
    ("(a*x+b)/(c*x+d)",       "(a d - b c) / (c x + d)²"),
    ("log(tan(x/2))",         "1 / sin(x)"),
    ("log(sin(x))",           "1 / tan(x)"),
    ("x^2+x",                 "2 x + 1"),
    ("x^3*(1-x)^4",           "x² (1 - x)³ (3 - 7 x)"),
    ("(3*x-2)^5",             "15 (3 x - 2)⁴"),
    ("(x^2-1)/(x^2+1)",       "4 x / (x² + 1)²"),
    ("arctan(1/x)",           "-1 / (x² + 1)"),
    ("arcsin(x/2)",           "1 / √(4 - x²)"),
    ("log((1+x)/(1-x))",      "2 / (1 - x²)"),
    ("(1-cos(x))/sin(x)",     "(1 - cos(x)) / sin(x)²"),
    ("sinh(x)/cosh(x)",       "1 / cosh(x)²"),
    ("tan(x)",                "1 / cos(x)²"),
    ("1/tan(x)",              "-1 / sin(x)²"),
    # which have that form already
    ("exp(x)/(1+exp(x))",     "sigmoid(x) (1 - sigmoid(x))"),
    ("sin(x)/x",              "cos(x) / x - sin(x) / x²"),
    ("exp(-x)*sin(2*x)",      "(2 cos(2 x) - sin(2 x)) exp(-x)"),
    ("x^n",                   "n x^(n - 1)"),
    ("sqrt((1-x)/(1+x))",     "-1 / (√((1 - x) / (1 + x)) (1 + x)²)"),
]
# fmt: on


def derived(f: str) -> Result:
    (result,) = derive(Expression(f), {}, Options(wrt="x")).results
    return result


@for_rows("f, form", BOOK)
def test_the_form_is_that_of_a_book(f: str, form: str) -> None:
    assert derived(f).formula.unicode.partition(" = ")[2] == form


def test_no_form_is_sought_by_opening_large_products() -> None:
    """Opened, this has 455 times 455 terms."""
    assert (
        derived("(a+b+c+d)^12*(x+f+g+h)^12").formula.unicode.partition(" = ")[2]
        == "12 (a + b + c + d)¹² (x + f + g + h)¹¹"
    )


def test_the_last_step_says_how_it_was_found() -> None:
    result = derived("(a*x+b)/(c*x+d)")
    last = result.steps[-1]
    assert (last.rule, last.unicode) == ("factor", "G = (a d - b c) / (c x + d)²")
    assert result.index == "G = (a*d - b*c)/(c*x + d)^2" and "return (a*d - b*c)/(c*x + d)**2" in result.code["numpy"]
