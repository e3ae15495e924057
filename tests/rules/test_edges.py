"""Edge values: what a derivative is where a convention, or a limit, decides."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.rules import composites, reductions
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

INF, NAN, ONE = np.inf, np.nan, np.float64(1)
relu, expit = PRIMITIVES["relu"], PRIMITIVES["expit"]

# fmt: off
#     name                        function                              at                   gradient
EDGES: list[tuple[str, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = [
    ("maximum tie",               np.maximum,                           (2.0, 2.0),          (0.5, 0.5)),
    ("maximum tie of itself",     lambda x: np.maximum(x, x),           (2.0,),              (1.0,)),
    ("maximum tie at infinity",   np.maximum,                           (INF, INF),          (0.5, 0.5)),
    ("maximum of infinity",       np.maximum,                           (INF, 1.0),          (1.0, 0.0)),
    ("maximum of signed zeros",   np.maximum,                           (0.0, -0.0),         (0.5, 0.5)),
    ("minimum tie",               np.minimum,                           (2.0, 2.0),          (0.5, 0.5)),
    ("minimum below",             np.minimum,                           (1.0, 2.0),          (1.0, 0.0)),
    ("fmax tie",                  np.fmax,                              (2.0, 2.0),          (0.5, 0.5)),
    ("max of two",                np.max,                               ([3.0, 3.0],),       ([0.5, 0.5],)),
    ("max of three",              np.max,                             ([3, 1, 3, 3],),     ([1 / 3, 0, 1 / 3, 1 / 3],)),
    ("min tie",                   np.min,                               ([1.0, 1.0, 3.0],),  ([0.5, 0.5, 0.0],)),
    ("clip at the bound",         lambda x: np.clip(x, 0.0, 1.0),       (1.0,),              (0.5,)),
    ("clip outside",              lambda x: np.clip(x, 0.0, 1.0),       (1.5,),              (0.0,)),
    ("relu",                      relu,                                 (0.0,),              (0.0,)),
    ("relu of -0",                relu,                                 (-0.0,),             (0.0,)),
    ("abs",                       np.abs,                               (0.0,),              (0.0,)),
    ("abs of -0",                 np.abs,                               (-0.0,),             (0.0,)),
    ("sqrt",                      np.sqrt,                              (0.0,),              (INF,)),
    ("cbrt",                      np.cbrt,                              (0.0,),              (INF,)),
    ("log",                       np.log,                               (0.0,),              (INF,)),
    ("x**0 at 0",                 lambda x: x**0,                       (0.0,),              (0.0,)),
    ("x**1 at 0",                 lambda x: x**1,                       (0.0,),              (1.0,)),
    ("x**2 at 0",                 lambda x: x**2,                       (0.0,),              (0.0,)),
    ("x**-1",                     lambda x: x**-1,                      (-2.0,),             (-0.25,)),
    ("x**-2",                     lambda x: x**-2,                      (2.0,),              (-0.25,)),
    ("x**-3 of an array",         lambda x: np.sum(x**-3),              ([1.0, -2.0],),      ([-3.0, -3 / 16],)),
    ("x**3 at -2, float",         lambda x: x**3.0,                     (-2.0,),             (12.0,)),
    ("x**[0, 1, 2] at 0",         lambda x: np.sum(x ** np.array([0.0, 1.0, 2.0])), (0.0,),  (1.0,)),
    ("0**p",                      lambda p: 0**p,                       (2.0,),              (0.0,)),
    ("x**p at x = 0, p = 2",      np.power,                             (0.0, 2.0),          (0.0, 0.0)),
    ("x**p at x = 0, p = 1",      np.power,                             (0.0, 1.0),          (1.0, 0.0)),
    ("x**p at x = 0, p = 0",      np.power,                             (0.0, 0.0),          (0.0, -INF)),
    ("x**p at x = 0, p = 1/2",    np.power,                             (0.0, 0.5),          (INF, 0.0)),
    ("x**p at x = -2, p = 3",     np.power,                             (-2.0, 3.0),         (12.0, NAN)),
    ("hypot on an axis",          np.hypot,                             (3.0, 0.0),          (1.0, 0.0)),
    ("hypot of nothing",          np.hypot,                             (0.0, 0.0),          (NAN, NAN)),
    ("norm of nothing",           np.linalg.norm,                       ([0.0, 0.0],),       ([NAN, NAN],)),
    ("norm of one entry",         np.linalg.norm,                       ([0.0, -2.0],),      ([0.0, -1.0],)),
    ("norm of huge entries",      np.linalg.norm,                       ([3e200, 4e200],),   ([0.6, 0.8],)),
    ("norm of tiny entries",      np.linalg.norm,                       ([3e-200, 4e-200],), ([0.6, 0.8],)),
    ("arctan2 tiny",              np.arctan2,                           (1e-200, 0.0),       (0.0, -1e200)),
    ("arctan2 on the cut",        np.arctan2,                           (0.0, -2.0),         (-0.5, 0.0)),
    ("logaddexp of -inf",         np.logaddexp,                         (0.0, -INF),         (1.0, 0.0)),
    ("logaddexp huge",            np.logaddexp,                         (1e300, 0.0),        (1.0, 0.0)),
    ("logsumexp with -inf",       reductions.logsumexp,                 ([-INF, 1.0],),      ([0.0, 1.0],)),
    ("logsumexp huge",            reductions.logsumexp,                 ([1e300, 0.0],),     ([1.0, 0.0],)),
    ("softplus far left",         composites.softplus,                  (-800.0,),           (0.0,)),
    ("sigmoid far right",         expit,                                (800.0,),            (0.0,)),
    ("sinc",                      np.sinc,                              (0.0,),              (0.0,)),
    ("sinc at 1",                 np.sinc,                              (1.0,),              (-1.0,)),
    ("prod with a zero",          np.prod,                              ([0.0, 2.0, 3.0],),  ([6.0, 0.0, 0.0],)),
    ("prod with two zeros",       np.prod,                              ([0.0, 0.0, 3.0],),  ([0.0, 0.0, 0.0],)),
    ("det of rank one less",      np.linalg.det,                        ([[1, 2], [2, 4]],), ([[4, -2], [-2, 1]],)),
    ("det of zeros",              np.linalg.det,                        ([[0.0] * 3] * 3,),  ([[0.0] * 3] * 3,)),
    ("where hides log",           lambda x: np.where(x > 0, np.log(x), 0.0) * 1.0, (1.0,),   (1.0,)),
    ("remainder of a negative",   np.remainder,                         (-7.5, 2.0),         (1.0, 4.0)),
    ("exp overflows",             np.exp,                               (800.0,),            (INF,)),
    ("exp underflows",            np.exp,                               (-800.0,),           (0.0,)),
    ("reciprocal",                np.reciprocal,                        (-0.5,),             (-4.0,)),
    ("sign",                      lambda x: np.sign(x) * x,             (0.0,),              (0.0,)),
    ("floor moves nothing",       lambda x: np.floor(x) + x,            (2.0,),              (1.0,)),
]
# fmt: on


def at_point(values: Any) -> list[Any]:
    return [np.float64(x) if np.ndim(x) == 0 else np.array(x, dtype=float) for x in values]


@for_rows(("f", "at", "gradient"), [pytest.param(*rest, id=name) for name, *rest in EDGES])
def test_gradient_at_the_edge(f: Any, at: Any, gradient: Any) -> None:
    xs = at_point(at)
    with np.errstate(all="ignore"):
        xbars = vjp(f, xs)[1](ONE)
    for xbar, right in zip(xbars, gradient, strict=True):
        np.testing.assert_allclose(xbar, right, rtol=2.0**-49, atol=2.0**-49)  # 8 ulps, as claimed of every row


FORWARD = [
    pytest.param(*rest, id=name)
    for name, *rest in EDGES
    if np.all(np.isfinite(np.hstack([np.ravel(x) for x in rest[2]])))
]


@for_rows(("f", "at", "gradient"), FORWARD)
def test_forward_mode_has_the_same_conventions(f: Any, at: Any, gradient: Any) -> None:
    xs = at_point(at)
    xdots = [np.cos(np.arange(1.0, 1 + np.size(x))).reshape(np.shape(x))[()] for x in xs]
    with np.errstate(all="ignore"):
        ydot = jvp(f, xs, xdots)[1]
    right = sum(np.sum(np.multiply(slope, xdot)) for slope, xdot in zip(gradient, xdots, strict=True))
    np.testing.assert_allclose(ydot, right, rtol=2.0**-49, atol=2.0**-49)


#     name            function                               derivatives at 0, from the first
AT_ZERO: list[tuple[str, Callable[[Any], Any], list[float]]] = [
    ("x**0", lambda x: x**0, [0, 0, 0]),
    ("x**1", lambda x: x**1, [1, 0, 0]),
    ("x**2", lambda x: x**2, [0, 2, 0, 0]),
    ("x**3", lambda x: x**3, [0, 0, 6, 0, 0]),
    ("x**[2]", lambda x: np.power(x, np.array([2.0]))[0], [0, 2, 0]),
    ("abs", np.abs, [0, 0]),
    ("relu squared", lambda x: relu(x) ** 2, [0, 0]),
    ("sinc", np.sinc, [0, -(np.pi**2) / 3, 0, np.pi**4 / 5]),
    ("tanh", np.tanh, [1, 0, -2]),
    ("x * abs(x)", lambda x: x * np.abs(x), [0, 0]),
]


@for_rows(("f", "right"), [pytest.param(f, right, id=name) for name, f, right in AT_ZERO])
def test_repeated_derivatives_at_zero(f: Any, right: list[float]) -> None:
    found = []
    with np.errstate(all="ignore"):
        for _ in right:
            f = lambda x, f=f: jvp(f, [x], [ONE])[1]
            found.append(f(np.float64(0)))
    np.testing.assert_allclose(found, right, rtol=2.0**-47)  # a handful of operations on the way


def test_select_never_multiplies_by_a_mask() -> None:
    with np.errstate(all="ignore"):
        xbar = vjp(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), [np.array([0.0, 4.0])])[1](ONE)[0]
    assert xbar[1] == 0.25
