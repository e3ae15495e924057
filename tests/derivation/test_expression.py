"""Expressions as text: what is printed reads back to the same value, by gradcli and by Python, and repeated parts named keep it."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.languages import NUMPY, Writer
from gradcli.derivation.matrix_expression import (
    E,
    call,
    expression_text,
    matmul,
    mul,
    name,
    name_repeated_parts,
    neg,
    number,
    number_as_code,
    power,
    transpose,
)
from gradcli.derivation.study import derive
from gradcli.request.options import Options
from gradcli.targets.expression import Expression
from tests.rows import for_rows

RANKS = {"A": 2, "B": 2, "X": 2, "x": 1, "y": 1, "s": 0, "r": 0}
code = Writer(NUMPY, RANKS, "A").code
rng = np.random.default_rng(0)
VALUES: dict[str, Any] = {n: rng.uniform(0.3, 1.5, (3, 3)) for n in "AB"} | {"s": 0.7, "r": 1.3}
MADE: dict[str, Callable[..., Any]] = {
    "add": lambda *xs: sum(xs[1:], xs[0]), "mul": lambda *xs: np.prod(np.stack(np.broadcast_arrays(*xs)), axis=0), "div": np.divide,
    "neg": np.negative, "pow": np.power, "T": np.transpose,
    "matmul": lambda *xs: xs[0] if len(xs) == 1 else np.linalg.multi_dot(xs),
}  # fmt: skip


def value(e: E) -> Any:
    """Return what an expression is, by its tree alone."""
    if e.op == "name":
        return VALUES[e.text]
    if e.op == "number":
        return float(e.number)
    args = [value(a) for a in e.args]
    if e.op == "call":
        return (np.linalg.inv if e.text == "inv" else getattr(np, e.text))(*args)
    return MADE[e.op](*args)


def scalar(depth: int, rng: random.Random) -> E:
    if depth == 0:
        return rng.choice(
            (name("s"), name("r"), number(Fraction(rng.choice((1, 2, 3)), rng.choice((1, 2, 3, 7)))), number(-0.3))
        )
    a, b = scalar(depth - 1, rng), scalar(depth - 1, rng)
    return rng.choice(
        (
            ex.add([a, b]),
            mul([a, b]),
            mul([a], [b]),
            neg(a),
            ex.add([neg(a), b]),
            call("sum", array(depth - 1, rng)),
            power(call("exp", a), 2),
        )
    )


def array(depth: int, rng: random.Random) -> E:
    if depth == 0:
        return name(rng.choice("AB"))
    a, b, s = array(depth - 1, rng), array(rng.randrange(depth), rng), scalar(rng.randrange(depth), rng)
    return rng.choice((
        ex.add([a, b]), ex.add([a, neg(b)]), ex.add([s, neg(a)]), neg(a), mul([a, b]), mul([s, a, b]), mul([s, a], [call("exp", b)]), mul([a], [s, s]),
        matmul(a, b), matmul(a, neg(b)), matmul(neg(a), b), mul([s, matmul(a, b)]), mul([matmul(a, b), a]), transpose(a), transpose(ex.add([a, b])),
        power(a, Fraction(2)), power(neg(a), Fraction(3)), mul([power(a, Fraction(2))], [power(call("exp", b), Fraction(2))]), call("tanh", a),
        power(call("exp", a), Fraction(1, 2)), matmul(mul([s, a]), b), matmul(a, mul([s, b])), matmul(mul([a], [s]), transpose(b)),
    ))  # fmt: skip


@for_rows("seed", range(300), parts=3)
def test_text_reads_back_to_the_same_value(seed: int) -> None:
    e = array(random.Random(seed).choice((1, 2, 3)), random.Random(seed))
    with np.errstate(all="ignore"):
        right = value(e)
    if not np.all(np.isfinite(right)):
        return
    shown = Expression(expression_text(e))
    named = Expression(name_repeated_parts(e, ["A", "B", "s", "r"]).text())
    for found in (
        shown({n: VALUES[n] for n in shown.inputs}),
        named({n: VALUES[n] for n in named.inputs}),
        eval(code(e), {"np": np, **VALUES}),
    ):
        np.testing.assert_allclose(
            found, right, rtol=1e-9, atol=1e-12 * np.max(np.abs(right)), err_msg=expression_text(e)
        )


A, B, X, x, y = (name(n) for n in "ABXxy")


@for_rows(("e", "shown"), [
    (ex.add([neg(A), B]), "B - A"), (ex.add([A, neg(ex.add([B, X]))]), "A - (B + X)"), (mul([A], [mul([B, X])]), "A/(B*X)"),
    (mul([mul([A], [B]), X]), "A/B*X"), (power(neg(x), Fraction(2)), "(-x)**2"), (neg(power(x, Fraction(2))), "-x**2"),
    (power(power(x, Fraction(2)), Fraction(2)), "(x**2)**2"), (transpose(ex.add([A, B])), "(A + B).T"), (transpose(matmul(A, B)), "B.T@A.T"),
    (matmul(A, ex.add([x, y])), "A@(x + y)"), (mul([number(Fraction(2)), matmul(A, x)]), "2*(A@x)"), (power(x, Fraction(1, 2)), "sqrt(x)"),
    (mul([number(Fraction(1, 2)), x]), "0.5*x"), (mul([number(Fraction(1, 3)), x]), "1/3*x"), (call("sum", X, axis="1"), "sum(X, axis=1)"),
    (E("column", (ex.add([x, y]),)), "(x + y)[:, None]"), (E("compare", (x, number(Fraction(0))), ">"), "x > 0"), (mul([]), "1"),
    (mul([neg(x), neg(y)]), "x*y"), (neg(neg(x)), "x"), (transpose(transpose(A)), "A"), (transpose(call("outer", x, y)), "outer(y, x)"),
])  # fmt: skip
def test_brackets_stand_where_they_are_needed(e: E, shown: str) -> None:
    assert expression_text(e) == shown


@for_rows(("number", "shown"), [
    (Fraction(3), "3"), (Fraction(1, 2), "0.5"), (Fraction(1, 3), "1/3"), (0.1, "0.1"), (1e300, "1e+300"),
    (float(np.pi), "pi"), (float(2 / np.sqrt(np.pi)), "2/sqrt(pi)"), (float(np.sqrt(2 * np.pi)), "sqrt(2*pi)"), (float(np.log(2)), "log(2)"),
])  # fmt: skip
def test_numbers_are_written_in_full_or_by_name(number: Any, shown: str) -> None:
    assert number_as_code(number) == shown
    read = Expression(f"{number_as_code(number)} + 0*x")({"x": np.float64(0)})
    assert read == pytest.approx(float(number), rel=4e-16)


def test_operations_are_counted() -> None:
    assert [
        e.size for e in (A, neg(A), matmul(A, B, x), ex.add([A, neg(B)]), mul([A], [B]), call("exp", matmul(A, x)))
    ] == [0, 1, 2, 1, 1, 2]


def test_names_are_new_and_in_order() -> None:
    softmax = call("softmax", matmul(A, x))
    made = name_repeated_parts(ex.add([mul([softmax, call("exp", softmax)]), mul([softmax, softmax])]), ["p", "A", "x"])
    names = [n for n, _ in made.parts]
    assert names == ["p1"] and "p1 = softmax(A@x)" in made.text()
    nested = name_repeated_parts(
        ex.add([call("exp", mul([softmax, softmax])), call("sin", mul([softmax, softmax])), softmax]), ["A", "x"]
    )
    seen: set[str] = set()
    for n, e in nested.parts:
        assert {a.text for a in e.walk() if a.op == "name"} <= seen | {"A", "x"}
        seen.add(n)


@for_rows(("e", "shown"), [
    (matmul(call("inv", A), x), "np.linalg.solve(A, x)"), (matmul(E("T", (call("inv", A),)), x), "np.linalg.solve(A.T, x)"),
    (matmul(x, call("inv", A), y), "x@np.linalg.solve(A, y)"), (call("inv", A), "np.linalg.inv(A)"), (matmul(x, call("inv", A)), "x@np.linalg.inv(A)"),
    (call("sigmoid", x), "special.expit(x)"), (call("softplus", x), "np.logaddexp(0, x)"), (call("relu", x), "np.maximum(x, 0)"),
    (call("ones", name("m"), name("n")), "np.ones([m, n])"), (call("zeros", name("n")), "np.zeros(n)"), (name("pi"), "np.pi"),
])  # fmt: skip
def test_code_is_qualified_and_solves(e: E, shown: str) -> None:
    assert code(e) == shown


# fmt: off
#    f                 the gradient for people      the gradient as code
NUMBERS = [
    ("0.5*x^2",        "x",                         "x"),
    ("x^2/4",          "x / 2",                     "x/2"),
    ("0.25*x^2",       "0.5 x",                     "0.5*x"),
    ("0.5*x^2 + x/3",  "x + 1/3",                 "x + 1/3"),
    ("0.1*x^3",        "0.3 x²",                    "0.3*x**2"),
    ("1.702*x",        "1.702",                     "1.702"),
    ("x^0.3",          "0.3 / x^(0.7)",             "0.3/x**0.7"),
    ("x^(1/3)",        "1 / (3 x^(2/3))",           "1/(3*x**(2/3))"),
    ("e^x",            "exp(x)",                    "exp(x)"),
    ("e*x",            "e",                         "e"),
    ("x^e",            "e x^(e - 1)",               "e*x**(e - 1)"),
    ("x^pi",           "π x^(π - 1)",               "pi*x**(pi - 1)"),
    ("pi*x^2",         "2 π x",                     "2*pi*x"),
]
# fmt: on


@for_rows("f, people, as_code", NUMBERS)
def test_numbers_are_shown_as_the_user_writes_them(f: str, people: str, as_code: str) -> None:
    (result,) = derive(Expression(f), {}, Options(wrt="x", no_steps=True)).results
    assert (result.formula.unicode.partition(" = ")[2], result.formula.expression) == (people, as_code)
