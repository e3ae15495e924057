"""How an operation whose derivative is missing is called: by what the user wrote."""

from typing import Any

import numpy as np

from gradcli.checks.gradient_slips import describe_missing_partial
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

X = np.array([1.0, 2.0, 3.0])
AS_IF = "is missing (used as if it were 1)"
# fmt: off
CODE = [
    ("divide",   0, (X, 6.0),            "mean(x)",             True,  "the factor 1/n of mean(...) is missing (n = 6)"),
    ("divide",   0, (X, 6.0),            "np.mean(x, axis=0)",  False, "the factor 1/n of mean(...) is missing (n = 6)"),
    ("divide",   0, (X, 6.0),            "x.mean()",            False, "the factor 1/n of mean(...) is missing (n = 6)"),
    ("divide",   0, (X, 5.0),            "x.var(ddof=1)",       False, "the factor 1/5 of var(...) is missing"),
    ("multiply", 0, (X, 1 / 6),          "F.mse_loss(x, y)",    False, "the factor 1/6 of mse_loss(...) is missing"),
    ("multiply", 0, (X, 0.7),            "scaled(x)",           False, "the factor 0.7 of scaled(...) is missing"),
    ("divide",   0, (X, 6.0),            "np.sum(x) / n",       True,  "the factor 1/n is missing (n = 6)"),
    ("multiply", 1, (2.0, X),            "2 * m * l**2 * x",    True,  "the factor 2 is missing"),
    ("multiply", 1, (6.0, X),            "2 * m * l**2 * x",    True,  "the factor 2 * m * l ** 2 is missing (2 * m * l ** 2 = 6)"),
    ("divide",   0, (X, 5.0),            "np.sum(x) / (n - 1)", True,  "the factor 1/(n - 1) is missing (n - 1 = 5)"),
    ("divide",   0, (X, 6.0),            "np.sum(x) / 6",       True,  "the factor 1/6 is missing"),
    ("divide",   0, (X, 6.0),            "x /= n",              True,  "the factor 1/n is missing (n = 6)"),
    ("divide",   0, (X, X),              "x / y",               True,  "the factor 1/y is missing"),
    ("divide",   1, (X, X),              "x / y",               True,  "the derivative of a/b by b is -a/b**2, not 1"),
    ("divide",   0, (X, X),              "",                    True,  "the derivative of a/b by a is 1/b, not 1"),
    ("multiply", 1, (0.5, X),            "0.5 * x",             True,  "the factor 0.5 is missing"),
    ("multiply", 0, (X, X),              "x * np.exp(y)",       True,  "the factor np.exp(y) is missing"),
    ("multiply", 0, (X, X),              "x * (not python",     True,  "the derivative of a*b by a is b, not 1"),
    ("tanh",     0, (X,),                "np.tanh(x)",          True,  f"the derivative of tanh {AS_IF}"),
    ("tanh",     0, (X,),                "",                    True,  f"the derivative of tanh {AS_IF}"),
    ("expit",    0, (X,),                "torch.sigmoid(x)",    True,  f"the derivative of sigmoid {AS_IF}"),
    ("exp",      0, (X,),                "softmax(x)",          False, f"a derivative inside softmax(...) {AS_IF}"),
    ("absolute", 0, (X,),                "|x|",                 True,  f"the derivative of this operation {AS_IF}"),
]
# fmt: on


@for_rows(("name", "i", "xs", "code", "alone", "says"), CODE)
def test_what_is_missing_is_called_by_what_was_written(
    name: str, i: int, xs: tuple[Any, ...], code: str, alone: bool, says: str
) -> None:
    assert describe_missing_partial(PRIMITIVES[name], i, xs, code, alone) == says
