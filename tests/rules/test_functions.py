"""Everything that is not elementwise: sums, shapes, selections, products, linear algebra and what is made of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, precision, radius
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.modes.difference_steps import Line, derivative
from gradcli.rules import composites, reductions, shaping
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)
Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]
V, M, S, K, Q = (3,), (2, 3), (3, 3), (2, 3, 4), (2, 1, 2, 3)
MASK = np.array([[True, False, True], [False, True, True]])
SIGNS = np.array([1.0, 0.0, -1.0])


def well(a: Any) -> Any:
    """Return a square matrix far from singular."""
    return a + 4 * np.eye(3)


def written(x: Any, v: Any, index: Any) -> Any:
    y = x.copy()
    y[index] = v
    return y


def zeros_at(x: Any, index: Any) -> Any:
    return written(x, 0.0, index)


# fmt: off
#    name                   function of arrays                                                  shapes
TABLE: tuple[tuple[str, Function, Shapes], ...] = (
    ("sum all",             lambda x: np.sum(x),                                                (M,)),
    ("sum axis",            lambda x: np.sum(x, axis=1),                                        (K,)),
    ("sum axes kept",       lambda x: np.sum(x, axis=(0, -1), keepdims=True),                   (K,)),
    ("sum of a scalar",     lambda x: np.sum(x),                                                ((),)),
    ("sum from",            lambda x: np.sum(x, axis=0, initial=2.0),                           (M,)),
    ("sum of nothing",      lambda x: np.sum(x[:0]) + x[0],                                     (V,)),
    ("mean",                lambda x: np.mean(x, axis=1, keepdims=True),                        (M,)),
    ("average",             lambda x, w: np.average(x, axis=1, weights=2 + w * w),              (M, V)),
    ("cumsum",              lambda x: np.cumsum(x),                                             (M,)),
    ("cumsum axis",         lambda x: np.cumsum(x, axis=1),                                     (M,)),
    ("diff",                lambda x: np.diff(x, n=2),                                          (K,)),
    ("diff axis",           lambda x: np.diff(x, axis=0),                                       (M,)),
    ("reshape",             lambda x: np.reshape(x, (4, -1)),                                   (K,)),
    ("reshape to scalar",   lambda x: np.reshape(x, ()),                                        ((1, 1),)),
    ("ravel",               lambda x: np.ravel(x),                                              (M,)),
    ("squeeze",             lambda x: np.squeeze(x, axis=0),                                    ((1, 3, 1),)),
    ("expand_dims",         lambda x: np.expand_dims(x, (0, 2)),                                (M,)),
    ("transpose",           lambda x: np.transpose(x, (1, 2, 0)),                               (K,)),
    ("T",                   lambda x: x.T,                                                      (K,)),
    ("swapaxes",            lambda x: np.swapaxes(x, 0, -1),                                    (K,)),
    ("moveaxis",            lambda x: np.moveaxis(x, 0, 1),                                     (K,)),
    ("matrix_transpose",    lambda x: np.matrix_transpose(x),                                   (K,)),
    ("broadcast_to",        lambda x: np.broadcast_to(x, (4, 2, 3)),                            ((2, 1),)),
    ("broadcast scalar",    lambda x: np.broadcast_to(x, (2, 2)),                               ((),)),
    ("index",               lambda x: x[1],                                                     (M,)),
    ("index negative",      lambda x: x[-1, 0],                                                 (M,)),
    ("slice",               lambda x: x[::-1, ::2],                                             (M,)),
    ("new axis",            lambda x: x[:, None, 1:],                                           (M,)),
    ("ellipsis",            lambda x: x[..., 0],                                                (K,)),
    ("index repeated",      lambda x: x[[0, 0, 2, 0]],                                          (V,)),
    ("index mask",          lambda x: x[MASK],                                                  (M,)),
    ("index mixed",         lambda x: x[:, [2, 0], 1],                                          (K,)),
    ("iterate",             lambda x: sum(k * row for k, row in enumerate(x)),                  (M,)),
    ("put",                 lambda x, v: written(x, v, (slice(None), 1)),                       (M, (2,))),
    ("put spread",          lambda x, v: written(x, v, slice(1, None)),                         (K, (3, 1))),
    ("put scalar",          lambda x, v: written(x, v, (0, 0)),                                 (M, ())),
    ("put constant",        lambda x: zeros_at(x, MASK),                                        (M,)),
    ("scatter",             lambda v: shaping.SCATTER(v, index=([0, 0, 2],), into=(4,)),        (V,)),
    ("where",               lambda a, b: np.where(MASK, a, b),                                  (M, V)),
    ("where scalar",        lambda a, b: np.where(MASK, a, b),                                  ((), M)),
    ("where on traced",     lambda a, b: np.where(a > 0, a * b, b),                             (M, M)),
    ("concatenate",         lambda a, b: np.concatenate([a, b], axis=1),                        (M, (2, 1))),
    ("concatenate flat",    lambda a, b: np.concatenate([a, b], axis=None),                     (M, V)),
    ("concatenate same",    lambda a: np.concatenate([a, 2 * a, a]),                            (V,)),
    ("concatenate const",   lambda a: np.concatenate([np.ones(2), a]),                          (V,)),
    ("stack",               lambda a, b: np.stack([a, b], axis=-1),                             (M, M)),
    ("hstack",              lambda a, b: np.hstack([a, b]),                                     (M, (2, 2))),
    ("hstack vectors",      lambda a, b: np.hstack([a, b]),                                     (V, (2,))),
    ("vstack",              lambda a, b: np.vstack([a, b]),                                     (V, M)),
    ("column_stack",        lambda a, b: np.column_stack([a, b]),                               (V, S)),
    ("diagonal",            lambda a: np.diagonal(a),                                           (M,)),
    ("diagonal above",      lambda a: np.diagonal(a, offset=1),                                 (M,)),
    ("diagonal below",      lambda a: np.diagonal(a, -1, 2, 0),                                 (K,)),
    ("diag of vector",      lambda v: np.diag(v, 1),                                            (V,)),
    ("diag of matrix",      lambda a: np.diag(a, -1),                                           (M,)),
    ("trace",               lambda a: np.trace(a),                                              (S,)),
    ("trace offset",        lambda a: np.trace(a, offset=1, axis1=1, axis2=2),                  (K,)),
    ("tril",                lambda a: np.tril(a, -1),                                           (S,)),
    ("triu",                lambda a: np.triu(a, 1),                                            (K,)),
    ("flip",                lambda a: np.flip(a),                                               (M,)),
    ("flip axis",           lambda a: np.flip(a, axis=1),                                       (K,)),
    ("take",                lambda a: np.take(a, [[0, 5], [5, 1]]),                             (M,)),
    ("take axis",           lambda a: np.take(a, [2, 2, 0], axis=1),                            (M,)),
    ("repeat",              lambda a: np.repeat(a, 2),                                          (M,)),
    ("repeat axis",         lambda a: np.repeat(a, [1, 0, 2], axis=1),                          (M,)),
    ("matmul",              lambda a, b: a @ b,                                                 (M, (3, 2))),
    ("matmul vectors",      lambda a, b: a @ b,                                                 (V, V)),
    ("matmul row",          lambda a, b: a @ b,                                                 (V, (3, 2))),
    ("matmul column",       lambda a, b: a @ b,                                                 (M, V)),
    ("matmul stacks",       lambda a, b: a @ b,                                                 (K, (2, 4, 2))),
    ("matmul spread",       lambda a, b: a @ b,                                                 (Q, (4, 3, 2))),
    ("matmul stack vector", lambda a, b: a @ b,                                                 (K, (4,))),
    ("matmul vector stack", lambda a, b: a @ b,                                                 ((3,), K)),
    ("matmul constant",     lambda b: np.ones((2, 3)) @ b,                                      (V,)),
    ("matmul itself",       lambda a: a @ a,                                                    (S,)),
    ("matrix_power",        lambda a: np.linalg.matrix_power(well(a), 5),                       (S,)),
    ("matrix_power -2",     lambda a: np.linalg.matrix_power(well(a), -2),                      (S,)),
    ("einsum product",      lambda a, b: np.einsum("ij,jk->ik", a, b),                          (M, (3, 2))),
    ("einsum implicit",     lambda a, b: np.einsum("ij,jk", a, b),                              (M, (3, 2))),
    ("einsum transposes",   lambda a: np.einsum("ba", a),                                       (M,)),
    ("einsum trace",        lambda a: np.einsum("ii", a),                                       (S,)),
    ("einsum diagonal",     lambda a: np.einsum("ii->i", a),                                    (S,)),
    ("einsum repeated",     lambda a, b: np.einsum("iij,j->i", a, b),                           ((2, 2, 3), V)),
    ("einsum ellipsis",     lambda a, b: np.einsum("...ij,...jk->...ik", a, b),                 (K, (4, 2))),
    ("einsum dots spread",  lambda a, b: np.einsum("...i,i...->...", a, b),                     (M, (3, 2))),
    ("einsum summed away",  lambda a, b: np.einsum("ij,k->k", a, b),                            (M, V)),
    ("einsum three",        lambda a, b, c: np.einsum("i,ij,j->", a, b, c),                     ((2,), M, V)),
    ("einsum itself",       lambda a: np.einsum("ij,ij->j", a, a),                              (M,)),
    ("tensordot",           lambda a, b: np.tensordot(a, b, axes=1),                            (K, (4, 2))),
    ("tensordot axes",      lambda a, b: np.tensordot(a, b, axes=((0, 2), (1, 0))),             (K, (4, 2))),
    ("tensordot outer",     lambda a, b: np.tensordot(a, b, axes=0),                            (M, V)),
    ("inner",               lambda a, b: np.inner(a, b),                                        (M, (4, 3))),
    ("inner vectors",       lambda a, b: np.inner(a, b),                                        (V, V)),
    ("inner scalar",        lambda a, b: np.inner(a, b),                                        ((), V)),
    ("outer",               lambda a, b: np.outer(a, b),                                        (V, M)),
    ("vdot",                lambda a, b: np.vdot(a, b),                                         (M, M)),
    ("dot scalars",         lambda a, b: np.dot(a, b),                                          ((), M)),
    ("dot vectors",         lambda a, b: np.dot(a, b),                                          (V, V)),
    ("dot matrices",        lambda a, b: np.dot(a, b),                                          (M, (3, 2))),
    ("dot stack matrix",    lambda a, b: np.dot(a, b),                                          (K, (4, 2))),
    ("dot matrix stack",    lambda a, b: np.dot(a, b),                                          (M, (2, 3, 4))),
    ("dot vector stack",    lambda a, b: np.dot(a, b),                                          (V, K)),
    ("dot method",          lambda a, b: a.dot(b),                                              (M, V)),
    ("det",                 lambda a: np.linalg.det(well(a)),                                   (S,)),
    ("slogdet",             lambda a: np.linalg.slogdet(well(a))[1],                            (S,)),
    ("slogdet negative",    lambda a: np.linalg.slogdet(-well(a)).logabsdet,                    (S,)),
    ("inv",                 lambda a: np.linalg.inv(well(a)),                                   (S,)),
    ("solve vector",        lambda a, b: np.linalg.solve(well(a), b),                           (S, V)),
    ("solve matrix",        lambda a, b: np.linalg.solve(well(a), b),                           (S, (3, 2))),
    ("max",                 lambda x: np.max(x),                                                (M,)),
    ("max axis",            lambda x: np.max(x, axis=(0, 2)),                                   (K,)),
    ("min kept",            lambda x: np.min(x, axis=1, keepdims=True),                         (M,)),
    ("ptp",                 lambda x: np.ptp(x, axis=0),                                        (M,)),
    ("norm",                lambda x: np.linalg.norm(x),                                        (V,)),
    ("norm fro",            lambda x: np.linalg.norm(x, "fro"),                                 (M,)),
    ("norm all",            lambda x: np.linalg.norm(x, keepdims=True),                         (K,)),
    ("norm axis",           lambda x: np.linalg.norm(x, axis=1),                                (M,)),
    ("norm 1",              lambda x: np.linalg.norm(x, 1),                                     (V,)),
    ("norm 1 of matrix",    lambda x: np.linalg.norm(x, 1),                                     (M,)),
    ("norm inf",            lambda x: np.linalg.norm(x, np.inf, axis=0),                        (M,)),
    ("norm -inf",           lambda x: np.linalg.norm(x, -np.inf),                               (V,)),
    ("norm 3",              lambda x: np.linalg.norm(x, 3),                                     (V,)),
    ("logsumexp",           lambda x: reductions.logsumexp(x, axis=0),                          (M,)),
    ("logsumexp all",       lambda x: reductions.logsumexp(x, keepdims=True),                   (M,)),
    ("softmax",             lambda x: reductions.softmax(x, axis=-1),                           (M,)),
    ("log_softmax",         lambda x: reductions.log_softmax(x, axis=0),                        (M,)),
    ("prod",                lambda x: np.prod(x),                                               ((5,),)),
    ("prod axis",           lambda x: np.prod(x, axis=1, keepdims=True),                        (K,)),
    ("prod with a zero",    lambda x: np.prod(x * np.array([1.0, 0.0, 2.0])),                   (V,)),
    ("prod near zeros",     lambda x: np.prod(zeros_at(x, slice(0, 2)) + 0.0 * x, axis=0),      (V,)),
    ("prod of nothing",     lambda x: np.prod(x[:0]) * x[0],                                    (V,)),
    ("var",                 lambda x: np.var(x, axis=0),                                        (M,)),
    ("var ddof",            lambda x: np.var(x, ddof=1),                                        (M,)),
    ("std",                 lambda x: np.std(x, axis=1, keepdims=True),                         (M,)),
    ("clip",                lambda x: np.clip(x, -0.5, 0.5),                                    (K,)),
    ("sinc",                lambda x: np.sinc(x),                                               (M,)),
    ("silu",                lambda x: composites.silu(x),                                       (V,)),
    ("softplus",            lambda x: composites.softplus(x),                                   (V,)),
    ("gelu",                lambda x: composites.gelu(x),                                       (V,)),
    ("gelu tanh",           lambda x: composites.gelu(x, "tanh"),                               (V,)),
    ("mse",                 lambda a, b: composites.mse(a, b),                                  (M, V)),
    ("cross_entropy",       lambda z: composites.cross_entropy(z, np.array([2, 0])),            (M,)),
    ("layer_norm",          lambda x, w, b: composites.layer_norm(x, w, b),                     (M, V, V)),
    ("logaddexp2",          lambda a, b: np.logaddexp2(a, b),                                   (M, V)),
    ("degrees, radians",    lambda x: np.degrees(x) * np.deg2rad(x),                            (V,)),
)
# fmt: on
CASES = [pytest.param(f, shapes, id=name) for name, f, shapes in TABLE]


def drawn(rng: np.random.Generator, shapes: Shapes) -> list[Any]:
    return [rng.normal(size=n) if n else np.float64(rng.normal()) for n in shapes]


def along(f: Function, xs: Sequence[Any], xdots: Sequence[Any]) -> Any:
    """Return the derivative of f along `xdots` by differences."""
    return derivative(Line(lambda t: f(*(x + t * xdot for x, xdot in zip(xs, xdots, strict=True)))), 1.0)


def inner(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, float]:
    """Return the inner product, and the sum of sizes of its terms."""
    terms = np.concatenate([np.ravel(x * y) for x, y in zip(a, b, strict=True)])
    return float(np.sum(terms)), float(np.sum(np.abs(terms)))


@for_rows(("f", "shapes"), CASES)
def test_traced_value_and_shape_are_numpys(f: Function, shapes: Shapes) -> None:
    xs = drawn(np.random.default_rng(1), shapes)
    y, _ = jvp(f, xs, xs)
    expected = f(*xs)
    assert np.shape(y) == np.shape(expected)
    np.testing.assert_allclose(y, expected, rtol=64 * EPS, atol=64 * EPS)  # sums of up to 24 terms in another order


@for_rows(("f", "shapes"), CASES)
def test_pull_is_the_adjoint_of_push(f: Function, shapes: Shapes) -> None:
    rng = np.random.default_rng(2)
    xs, xdots = drawn(rng, shapes), drawn(rng, shapes)
    y, ydot = jvp(f, xs, xdots)
    ybar = rng.normal(size=np.shape(y))[()] if np.shape(y) else np.float64(rng.normal())
    xbars = vjp(f, xs)[1](ybar)
    assert [np.shape(xbar) for xbar in xbars] == list(shapes)
    left, left_size = inner([ybar], [ydot])
    right, right_size = inner(xbars, xdots)
    assert abs(left - right) <= 64 * EPS * (left_size + right_size)  # two sums of up to 60 terms


@for_rows(("f", "shapes"), CASES)
def test_forward_agrees_with_differences(f: Function, shapes: Shapes) -> None:
    rng = np.random.default_rng(3)
    xs, xdots = drawn(rng, shapes), drawn(rng, shapes)
    found = along(f, xs, xdots)
    ydot = jvp(f, xs, xdots)[1]
    assert np.all(found.bound <= 1e-6 * np.maximum(1.0, np.abs(ydot)))  # differences have something to say
    assert np.all(np.abs(found.value - ydot) <= found.bound)


@for_rows(("f", "shapes"), CASES, parts=3)
def test_forward_over_reverse_agrees_with_differences_of_the_gradient(f: Function, shapes: Shapes) -> None:
    rng = np.random.default_rng(4)
    xs, xdots = drawn(rng, shapes), drawn(rng, shapes)
    y, _ = vjp(f, xs)
    ybar = rng.normal(size=np.shape(y))[()] if np.shape(y) else np.float64(rng.normal())
    for k in range(len(xs)):

        def gradient(*xs: Any, k: int = k) -> Any:
            return vjp(f, xs)[1](ybar)[k]

        found, second = along(gradient, xs, xdots), jvp(gradient, xs, xdots)[1]
        assert np.all(found.bound <= 1e-5 * np.maximum(1.0, np.abs(second)))
        assert np.all(np.abs(found.value - second) <= found.bound)


def pulled_in_balls(f: Function, xs: Sequence[Any], ybar: Any, bits: int) -> list[Any]:
    with precision(bits):
        y, inputs, tape = record(f, [Ball.lift(x) for x in xs])
        return [Ball(Ball.objects(xbar)) for xbar in tape.pull(y, Ball.lift(ybar), inputs)]


@for_rows(("f", "shapes"), CASES)
def test_balls_enclose(f: Function, shapes: Shapes) -> None:
    rng = np.random.default_rng(5)
    xs = drawn(rng, shapes)
    y, pull = vjp(f, xs)
    ybar = rng.normal(size=np.shape(y))[()] if np.shape(y) else np.float64(rng.normal())
    wide, narrow = (pulled_in_balls(f, xs, ybar, bits) for bits in (53, 256))
    for xbar, coarse, fine in zip(pull(ybar), wide, narrow, strict=True):
        assert np.all(radius(fine) <= 1e-60)
        assert np.all(np.frompyfunc(lambda a, b: a.contains(b), 2, 1)(coarse.value, fine.value))
        assert np.all(np.abs(fine.primal - xbar) <= 2 * radius(coarse) + 64 * EPS * np.abs(xbar))
