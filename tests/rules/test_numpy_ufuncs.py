"""Ufuncs on traced values: scalars and broadcasting, where= and out=, and the methods of every binary one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import NoRule, TraceEnded
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive
from tests.rows import for_rows
from tests.rules.test_numpy_functions import Function, Shapes, check, done, drawn, row

V, M, S = (4,), (2, 3), (3, 3)
MASK = np.array([True, False, True, True])
BINARY = sorted(
    name
    for name, row in PRIMITIVES.items()
    if isinstance(getattr(np, name, None), np.ufunc) and row.kind == "elementwise" and len(row.rules) == 2
)
TESTED = {*BINARY, "fmax", "fmin", "float_power", "logaddexp2", "copysign"}
WRONG = ("power", "arctan2")  # numpy's own reduce of three entries leaves out the second, where it uses AVX512
AT = np.array([[1.3, 0.7, 2.2], [0.4, 1.9, 1.15]])  # no ties, no jumps near, in every domain

# fmt: off
#    name                   function of arrays                                                  shapes
TABLE: tuple[tuple[str, Function, Shapes], ...] = (
    ("fmod",                lambda a, b: np.fmod(5 * a, 1 + b**2),                              (M, (3,))),
    ("fmod scalar",         lambda a: np.fmod(5 * a, -0.7),                                     ((),)),
    ("divmod",              lambda a, b: row(divmod(5 * a, 1 + b**2)),                          (V, ())),
    ("divmod reflected",    lambda b: row(divmod(5.0, b)),                                      (V,)),
    ("modf",                lambda x: row(np.modf(5 * x)),                                      (V,)),
    ("frexp",               lambda x: np.frexp(5 * x)[0] * np.frexp(5 * x)[1],                  (V,)),
    ("ldexp",               lambda x: np.ldexp(x, [0, 1, -2, 3]),                               (V,)),
    ("copysign",            lambda a, b: np.copysign(a, b),                                     (M, (3,))),
    ("fmax, fmin",          lambda a, b: np.fmax(a, b) * np.fmin(a, 0.3),                       (V, ())),
    ("fmax of nan",         lambda a: np.fmax(a, [np.nan, 9.0, np.nan, -9.0]),                  (V,)),
    ("float_power",         lambda a, p: np.float_power(1 + a**2, p),                           (V, ())),
    ("power list",          lambda a: np.power(a, [0, 1, 2, 3]),                                (V,)),
    ("heaviside",           lambda x, h: np.heaviside(x, h) * x,                                (V, ())),
    ("positive",            lambda x: np.positive(x) * +x,                                      (V,)),
    ("angles",              lambda x: np.deg2rad(x) + np.rad2deg(x) + np.degrees(x) * np.radians(x), (V,)),
    ("sinc",                lambda x: np.sinc(x),                                               (V,)),
    ("logaddexp",           lambda a, b: np.logaddexp(a, b) + np.logaddexp2(a, b),              ((2, 1), (3,))),
    ("fabs, sign",          lambda x: np.fabs(x) * np.sign(x),                                  (V,)),
    ("rounding",            lambda x: x * (np.floor(x) + np.ceil(x) + np.trunc(x) + np.rint(x) + np.fix(x)), (V,)),
    ("round",               lambda x: x + np.round(x, 1) + np.round(x, -1) + np.around(x),      (V,)),
    ("round()",             lambda x: x * round(x) + round(x, 1),                               ((),)),
    ("real, conj, imag",    lambda x: np.real(x) * np.conj(x) + np.imag(x) * np.angle(x),       (V,)),
    ("real_if_close",       lambda x: np.real_if_close(x) * np.isreal(x) + np.iscomplex(x),     (V,)),
    ("clip",                lambda x, a: np.clip(x, a - 0.2, 0.9),                              (V, ())),
    ("clip one side",       lambda x: np.clip(x, None, 0.3) + np.clip(x, min=0.1),              (V,)),
    ("clip no side",        lambda x: np.clip(x, None, None) * x,                               (V,)),
    ("where, out",          lambda x: np.exp(x, where=MASK, out=x * 2.0),                       (V,)),
    ("where hides log",     lambda x: np.log(x, where=x > 0, out=np.zeros_like(x)),             (V,)),
    ("where of two",        lambda a, b: np.multiply(a, b, where=MASK, out=np.zeros_like(a)),   (V, ())),
    ("out by position",     lambda x: np.add(x, x * x, x * 0.0),                                (V,)),
    ("out is an operand",   lambda x: done(x, lambda y: np.multiply(y, y, out=y)),              (V,)),
    ("out of a view",       lambda x: done(x, lambda y: np.exp(y[1:], out=y[:-1])),             (V,)),
    ("dtype",               lambda x: np.exp(x, dtype=float) + np.add(x, 1.0, dtype=np.float64), (V,)),
    ("casting, order",      lambda x: np.exp(x, casting="same_kind", order="C", subok=True),    (V,)),
    ("two outs",            lambda x: row(np.modf(5 * x, out=(x * 0.0, x * 0.0))),              (V,)),
    ("divide.at",           lambda x, v: done(x, lambda y: np.divide.at(y, [0, 1, 0], 2 + v**2)), (V, (3,))),
    ("add.at repeated",     lambda x, v: done(x, lambda y: np.add.at(y, [1, 1, 2, 1], v)),      (V, (4,))),
    ("add.at mask",         lambda x: done(x, lambda y: np.add.at(y, MASK, x[0])),              (V,)),
    ("add.at pairs",        lambda x, v: done(x, lambda y: np.add.at(y, ([0, 1, 0], [2, 0, 2]), v)), (M, (3,))),
    ("negative.at",         lambda x: done(x, lambda y: np.negative.at(y, [0, 0, 1])),          (V,)),
    ("maximum.at",          lambda x, v: done(x, lambda y: np.maximum.at(y, [0, 0, 3], v)),     (V, (3,))),
    ("add.reduce where",    lambda x: np.add.reduce(x * x, where=MASK),                         (V,)),
    ("multiply.reduce",     lambda x: np.multiply.reduce(x, axis=1, initial=2.0, keepdims=True), (M,)),
    ("maximum.reduce",      lambda x: np.maximum.reduce(x, axis=None),                          (M,)),
    ("subtract.reduce",     lambda x: np.subtract.reduce(x, axis=1),                            (M,)),
    ("hypot.reduce",        lambda x: np.hypot.reduce(x, axis=(0, 1)),                          (M,)),
    ("logaddexp.reduce",    lambda x: np.logaddexp.reduce(x, axis=-1, initial=0.5),             (M,)),
    ("reduce out",          lambda x: np.subtract.reduce(x, axis=0, out=x[0] * 0.0),            (M,)),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x, axis=1),                        (M,)),
    ("add.accumulate",      lambda x: np.add.accumulate(x),                                     (M,)),
    ("divide.accumulate",   lambda x: np.divide.accumulate(2 + x**2, axis=1),                   (M,)),
    ("multiply.outer",      lambda a, b: np.multiply.outer(a, b),                               (V, M)),
    ("subtract.outer",      lambda a: np.subtract.outer(a, [1.0, 2.0]),                         (M,)),
    ("power.outer scalar",  lambda a: np.power.outer(a, 3.0),                                   (V,)),
    ("add.reduceat",        lambda x: np.add.reduceat(x, [0, 2, 1, 3]),                         (V,)),
    ("multiply.reduceat",   lambda x: np.multiply.reduceat(x, [0, 2], axis=1),                  (M,)),
    ("logical",             lambda x: x * np.logical_and.reduce(x > -9) * np.logical_or.reduce(x), (V,)),
)
# fmt: on


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in TABLE])
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check(f, drawn(shapes))


def test_the_binary_ufuncs_are_those_with_two_rules() -> None:
    assert {"add", "subtract", "multiply", "divide", "power", "maximum", "arctan2", "hypot", "logaddexp"} <= set(BINARY)


@for_rows("name", sorted(TESTED))
def test_every_binary_ufunc_broadcasts_and_has_its_methods(name: str) -> None:
    ufunc: Any = getattr(np, name)
    exact = 256 if name in ("power", "float_power") else 64
    check(lambda a, b: ufunc(a, b), [AT, AT[:, :1] * 1.7], exact)
    check(lambda a, b: ufunc(a, b), [np.float64(1.3), np.float64(0.6)], exact)
    check(lambda a: ufunc.outer(a, a[:2] * 1.31), [AT[0]], exact)
    check(lambda a, b: done(a, lambda y: ufunc.at(y, [0, 2], b)), [AT[0], np.array([1.7, 0.3])], exact)
    if name in WRONG:
        return
    check(lambda a: ufunc.reduce(a, axis=1), [AT], exact)
    check(lambda a: ufunc.accumulate(a, axis=0), [AT], exact)
    check(lambda a: ufunc.reduceat(a, [0, 1], axis=1), [AT], exact)


UNARY = sorted(
    name
    for name, row in PRIMITIVES.items()
    if isinstance(getattr(np, name, None), np.ufunc) and len(row.rules) == 1 and row.kind == "elementwise"
)


@for_rows("name", UNARY)
def test_every_unary_ufunc_takes_scalars_and_arrays(name: str) -> None:
    ufunc: Any = getattr(np, name)
    x = np.array([[0.31, 0.62], [0.13, 0.84]]) + (1.0 if name == "arccosh" else 0.0)
    check(lambda a: ufunc(a), [x])
    check(lambda a: ufunc(a), [x[0, 0]])


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "where without out": (lambda x: np.exp(x, where=MASK), NoRule, "leaves entries undefined"),
    "dtype": (lambda x: np.exp(x, dtype=np.float32), NoRule, "exp with dtype=float32 has no derivative rule"),
    "signature": (lambda x: np.add(x, x, signature="dd->d"), NoRule, "np.add with signature= has no derivative rule"),
    "reduce where": (lambda x: np.hypot.reduce(x, where=MASK), NoRule, "np.hypot.reduce with where="),
    "at of plain": (lambda x: np.add.at(np.zeros(4), [0], x[0]), TraceEnded, "stored into a plain array"),
    "out plain": (lambda x: np.exp(x, out=np.zeros(4)), TraceEnded, "stored into a plain array"),
    "two axes": (lambda x: np.subtract.reduce(x[None], axis=(0, 1)), ValueError, "not reorderable"),
    "empty": (lambda x: np.subtract.reduce(x[:0]), ValueError, "zero-size array"),
    "ldexp": (lambda x: np.ldexp(1.0, x), NoRule, "the exponent of ldexp is a traced value"),
}


@for_rows("name", REFUSED)
def test_what_is_refused_says_so(name: str) -> None:
    f, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says):
        vjp(f, [np.array([0.5, 1.5, -2.0, 3.0])])


def test_every_ufunc_with_a_rule_or_a_body_is_a_numpy_one_or_late() -> None:
    assert all(callable(handler) for handler in HANDLERS.values())
    assert sum(isinstance(handler, Primitive) for handler in HANDLERS.values()) > 50
