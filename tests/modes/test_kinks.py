"""Kinks and lost finiteness: found where they matter, with the inputs they reach."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import Recorded
from gradcli.modes.kinks import Mark, find_kinks, first_not_finite
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

ONE = np.float64(1)
EYE = [[1, 0], [0, 1]]
relu = PRIMITIVES["relu"]


def marks(f: Any, *xs: Any) -> list[Mark]:
    values = [np.float64(x) if np.ndim(x) == 0 else np.array(x, dtype=float) for x in xs]
    with np.errstate(all="ignore"):
        run = record(f, values)
        bars = (
            run.tape.sweep(run.y.slot, np.ones(run.y.shape)[()])
            if isinstance(run.y, Recorded)
            else [None] * len(run.lines)
        )
        return find_kinks(run, bars)


# fmt: off
#     name, function, at, says, reach
FOUND: list[tuple[str, Any, tuple[Any, ...], str, tuple[Any, ...]]] = [
    ("relu",            relu,                                         (0,),           "relu has",      (1,)),
    ("relu entry",      lambda x: np.sum(relu(x)),                    ([1, 0, -1],),  "relu has",      ([0, 1, 0],)),
    ("abs",             np.abs,                                       (0,),           "absolute has",  (1,)),
    ("abs difference",  lambda x, y: np.abs(x - y),                   (2, 2),         "absolute has",  (1, 1)),
    ("maximum",         np.maximum,                                   (2, 2),         "maximum has",   (1, 1)),
    ("maximum, number", lambda x: np.maximum(x, 0.0),                 (0,),           "maximum has",   (1,)),
    ("maximum spread",  lambda x, y: np.sum(np.maximum(x, y)),        ([1, 2], 2),    "maximum has",   ([0, 1], 1)),
    ("minimum",         np.minimum,                                   (2, 2),         "minimum has",   (1, 1)),
    ("max",             np.max,                                       ([3, 1, 3],),   "max has",       ([1, 0, 1],)),
    ("min",             np.min,                                       ([3, 1, 1],),   "max has",       ([0, 1, 1],)),
    ("hypot",           np.hypot,                                     (0, 0),         "hypot has",     (1, 1)),
    ("norm",            np.linalg.norm,                               ([0, 0],),      "norm has",      ([1, 1],)),
    ("fmod",            lambda x: np.fmod(x, 2.0),                    (4,),           "fmod has",      (1,)),
    ("remainder",       lambda x: x % 2.0,                            (4,),           "remainder has", (1,)),
    ("eigvalsh",        lambda a: np.linalg.eigvalsh(a)[0],           (EYE,),         "eigvalsh has",  ([[1, 0], [1, 1]],)),
    ("eigenvectors",    lambda a: np.linalg.eigh(a)[1][0, 0],         (EYE,),         "eigenvectors",  ([[1, 0], [1, 1]],)),
    ("svdvals",         lambda a: np.linalg.svdvals(a)[0],            (EYE,),         "svdvals has",   ([[1, 1], [1, 1]],)),
    ("svd",             lambda a: np.linalg.svd(a)[0][0, 0],          (EYE,),         "singular_vect", ([[1, 1], [1, 1]],)),
    ("pinv",            np.linalg.pinv,                               ([[0], [0]],),  "pinv has",      ([[1], [1]],)),
    ("clip",            lambda x: np.clip(x, 0, 1),                   (1,),           "minimum has",   (1,)),
    ("comparison",      lambda x: x * 2 if x >= 1 else x * x,         (1,),           "the two sides",  (1,)),
    ("where",           lambda x: np.sum(np.where(x > 0, x, 3 * x)),  ([1, 0],),      "the two sides",  ([0, 1],)),
    ("behind others",   lambda x, y: np.exp(relu(x * y - 1) + x),     (2, 0.5),       "relu has",      (1, 1)),
    ("only one input",  lambda x, y: relu(x) * y + y,                 (0, 3),         "relu has",      (1, 0)),
]
NONE: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("relu**2 at 0",          lambda x: relu(x) ** 2,                       (0.0,)),
    ("abs times itself",      lambda x: np.abs(x) * np.abs(x),              (0.0,)),
    ("times zero",            lambda x, y: np.abs(x) * y,                   (0.0, 0.0)),
    ("relu beside 0",         relu,                                         (1e-300,)),
    ("maximum beside a tie",  np.maximum,                                   (2.0, np.nextafter(2.0, 3.0))),
    ("not used",              lambda x: (np.abs(x), x * 3)[1],              (0.0,)),
    ("of a constant",         lambda x: np.maximum(0.0, 0.0) + x,           (0.0,)),
    ("tie of constants",      lambda x: x if np.float64(1) <= 1.0 else -x,  (1.0,)),
    ("max without a tie",     np.max,                                       ([3.0, 1.0, 1.0],)),
    ("where beside its tie",  lambda x: np.where(x > 0, x, 3 * x),          (0.5,)),
    ("smooth",                lambda x: np.sin(x) ** 2,                     (0.0,)),
]
# fmt: on


@for_rows(("f", "at", "says", "reach"), [pytest.param(*rest, id=name) for name, *rest in FOUND])
def test_a_kink_is_found_and_says_what_it_reaches(f: Any, at: Any, says: str, reach: Any) -> None:
    found = marks(f, *at)
    assert len(found) == 1
    assert found[0].says.startswith(says)
    for mask, expected in zip(found[0].reach, reach, strict=True):
        np.testing.assert_array_equal(mask, np.array(expected, dtype=bool))


@pytest.mark.parametrize(
    ("f", "at", "says"),
    [
        (relu, (0.0,), "relu has a kink where x = 0 (slope 0)"),
        (np.maximum, (1.0, 1.0), "maximum has a kink where a = b (half each)"),
        (lambda x: x if x > 1 else -x, (1.0,), "the two sides of a comparison are exactly equal"),
    ],
)
def test_a_kink_is_told_with_its_convention(f: Any, at: Any, says: str) -> None:
    assert [mark.says for mark in marks(f, *at)] == [says]


@for_rows(("f", "at"), [pytest.param(*rest, id=name) for name, *rest in NONE])
def test_what_is_no_kink_is_left_alone(f: Any, at: Any) -> None:
    assert marks(f, *at) == []


def test_every_row_that_states_kinks_is_in_the_table() -> None:
    stated = {row.name for row in PRIMITIVES.values() if row.kinks}
    assert stated == {
        found.primitive.name for _, f, at, *_ in FOUND for found in marks(f, *at) if found.primitive.kinks
    }


ARRAY = "the slope of norm is not finite at an array of shape (2,)"
# fmt: off
LOST: list[tuple[str, Any, tuple[Any, ...], str | None]] = [
    ("log of 0",        lambda x: np.log(x) + x,                 (0.0,),          "log gives -inf at 0"),
    ("0/0",             lambda x: np.sin(x) / x,                 (0.0,),          "the quotient gives nan at 0, 0"),
    ("sqrt of -1",      lambda x: np.exp(np.sqrt(x)),            (-1.0,),         "sqrt gives nan at -1"),
    ("overflow",        lambda x: np.exp(x) * 0.0,               (1e3,),          "exp overflows at 1000"),
    ("product",         lambda x, y: x * y,                      (1e200, 1e200),  "the product overflows at 1e+200, 1e+200"),
    ("one entry",       lambda x: np.sum(np.log(x)),             ([1.0, 0.0],),   "log gives -inf at 0"),
    ("slope of sqrt",   np.sqrt,                             (0.0,),          "the slope of sqrt is not finite at 0"),
    ("slope inside",    lambda x: np.sqrt(x) * 2 + x,        (0.0,),          "the slope of sqrt is not finite at 0"),
    ("slope of norm",   lambda x: np.linalg.norm(x) * 2,         ([0.0, 0.0],),   ARRAY),
    ("nothing",         lambda x: np.exp(x) / x,                 (1.0,),          None),
]
# fmt: on


@for_rows(("f", "at", "says"), [pytest.param(*rest, id=name) for name, *rest in LOST])
def test_the_operation_that_lost_finiteness_is_named(f: Any, at: Any, says: str | None) -> None:
    values = [np.float64(x) if np.ndim(x) == 0 else np.array(x) for x in at]
    with np.errstate(all="ignore"):
        run = record(f, values)
        found = first_not_finite(run, run.tape.sweep(run.y.slot, ONE))
    assert (found and found.says) == says


# fmt: off
FAR = [  # what is too large for float64, though the function has a value there
    ("exp(x)", "x=1000"), ("exp2(x)", "x=2000"), ("expm1(x)", "x=1000"), ("cosh(x)", "x=800"), ("sinh(x)", "x=-900"),
    ("x**400", "x=1000"), ("x**y", "x=1000, y=400"), ("square(x)", "x=1e200"), ("x*y", "x=1e200, y=1e200"),
    ("x + y", "x=1e308, y=1e308"), ("x - y", "x=1e308, y=-1e308"), ("x/y", "x=1e200, y=1e-200"), ("1/x", "x=1e-320"),
    ("gamma(x)", "x=200"), ("sum(x)", "x=[1e308, 1e308]"), ("prod(x)", "x=[1e200, 1e200]"), ("x@y", "x=[1e200], y=[1e200]"),
    ("cumsum(x)[1]", "x=[1e308, 1e308]"), ("det(A)", "A=[[1e200, 0], [0, 1e200]]"), ("log(sum(exp(z)))", "z=[1000, 1, 2]"),
]
POLES = [  # where the function has no value
    ("log(x)", "x=-1"), ("log(x)", "x=0"), ("1/x", "x=0"), ("x**(-2)", "x=0"), ("x**y", "x=0, y=-1"), ("sqrt(x)", "x=-1"),
    ("arcsin(x)", "x=2"), ("arctanh(x)", "x=1"), ("gamma(x)", "x=-1"), ("lgamma(x)", "x=0"), ("digamma(x)", "x=0"),
    ("(x - x)/(x - x)", "x=1"),
]
# fmt: on


@for_rows(("text", "at"), [*FAR, *POLES])
def test_overflow_is_not_taken_for_a_point_outside_the_domain(gradcli: Callable[..., Any], text: str, at: str) -> None:
    ran = gradcli("check", text, "--at", at, "--modes", "forward,reverse", "--json")
    finding = next(f for f in ran.json["points"][0]["findings"] if f["kind"] == "non-finite")
    assert ran.exit_status == 3
    assert ("overflows at" in finding["message"]) == ((text, at) in FAR)
    assert ("into the domain" in finding["hint"]) == ((text, at) in POLES)


def test_overflow_of_exp_says_what_to_do(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "log(sum(exp(z)))", "--at", "z=[1000,1,2]")
    assert ran.exit_status == 3
    assert "exp overflows at 1000" in ran.stdout
    says = "subtract the maximum first (logsumexp, softmax, softplus), or scale the input"
    assert says in " ".join(ran.stdout.split())
    assert "into the domain" not in gradcli("check", "log(sum(exp(z)))", "--at", "z=[1000,1,2]", "--json").stdout
    assert "overflow" not in gradcli("check", "log(x)", "x=-1").stdout
