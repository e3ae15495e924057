"""numpy's functions on traced values: numpy's value, and one derivative on which all witnesses agree."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, bound_error, precision, radius
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.tracing.primitive import HANDLERS
from gradcli.tracing.tracer import plain_value
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)
Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]
V, W, M, S, K = (4,), (5,), (2, 3), (3, 3), (2, 3, 2)
MASK = np.array([[True, False, True], [False, True, True]])
KNOTS = np.array([-1.5, -0.4, 0.3, 0.9, 2.0])
H = 3e-5  # differences of fourth order: truncation h^4, rounding EPS / h, of functions that are of size 1 here
FIRST, SECOND = 1e-8, 1e-6  # bounds on such differences of values and of gradients


def row(ys: Any) -> Any:
    """Return several results as one row, each with a weight of its own."""
    return np.concatenate([np.reshape((k + 1) * y, -1) for k, y in enumerate(ys)])


def done(x: Any, write: Function) -> Any:
    """Return an array after something was written into it."""
    y = x * 1.0
    write(y)
    return y


def drawn(shapes: Shapes, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) if n else np.float64(rng.normal()) for n in shapes]


def weights(y: Any) -> Any:
    return np.cos(1.0 + np.arange(np.size(y))).reshape(np.shape(y))[()]


def difference(phi: Callable[[float], Any]) -> Any:
    """Return the slope at 0 by differences of fourth order."""
    near, far = phi(H) - phi(-H), phi(2 * H) - phi(-2 * H)
    return (8 * near - far) / (12 * H)


def moved(xs: Sequence[Any], xdots: Sequence[Any], t: float) -> list[Any]:
    return [x + t * xdot for x, xdot in zip(xs, xdots, strict=True)]


def inner(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, float]:
    terms = np.concatenate([np.ravel(x * y) for x, y in zip(a, b, strict=True)])
    return float(np.sum(terms)), float(np.sum(np.abs(terms)))


def check(f: Function, xs: Sequence[Any], ulps: float = 64) -> None:
    """Assert that value and derivatives of f at xs are what all witnesses say; `ulps` is for the value."""
    xdots = [weights(x) * 0.7 for x in xs]
    expected = f(*(np.array(x)[()] for x in xs))
    y, ydot = jvp(f, xs, xdots)
    recorded, pull = vjp(f, xs)
    ybar = weights(expected)
    xbars = pull(ybar)
    for value in (y, recorded):
        assert np.shape(value) == np.shape(expected)
        np.testing.assert_allclose(value, expected, rtol=ulps * EPS, atol=ulps * EPS)
    assert [np.shape(xbar) for xbar in xbars] == [np.shape(x) for x in xs]
    (left, left_size), (right, right_size) = inner([ybar], [ydot]), inner(xbars, xdots)
    assert abs(left - right) <= 128 * EPS * (left_size + right_size + 1), "pull is not the adjoint of push"
    near = difference(lambda t: f(*moved(xs, xdots, t)))
    np.testing.assert_allclose(ydot, near, rtol=FIRST, atol=FIRST * max(1.0, np.max(np.abs(ydot), initial=0.0)))
    second_order(f, xs, xdots, ybar)
    balls(f, xs, expected, xbars, ybar, ulps)


def second_order(f: Function, xs: Sequence[Any], xdots: Sequence[Any], ybar: Any) -> None:
    def gradient(*xs: Any) -> Any:
        return np.concatenate([np.reshape(xbar, -1) for xbar in vjp(f, xs)[1](ybar)])

    second = jvp(gradient, xs, xdots)[1]
    near = difference(lambda t: gradient(*moved(xs, xdots, t)))
    np.testing.assert_allclose(second, near, rtol=SECOND, atol=SECOND * max(1.0, np.max(np.abs(second), initial=0.0)))


def balls(f: Function, xs: Sequence[Any], expected: Any, xbars: Sequence[Any], ybar: Any, ulps: float) -> None:
    with precision(200):
        y, inputs, tape = record(f, [Ball.lift(x) for x in xs])
        size = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        value = Ball(Ball.objects(y.primal if inputs and hasattr(y, "slot") else y))
        assert np.all(bound_error(value, expected) <= ulps * EPS * size), "the ball is not numpy's value"
        for fine, xbar in zip(tape.pull(y, Ball.lift(ybar), inputs), xbars, strict=True):
            ball = Ball(Ball.objects(fine))
            scale = max(1.0, float(np.max(np.abs(xbar), initial=0.0)))
            assert np.all(radius(ball) <= 1e-40 * scale)
            assert np.all(bound_error(ball, xbar) <= 8 * ulps * EPS * scale), "the ball is not the gradient"


# fmt: off
#    name                   function of arrays                                                  shapes
MOVING: tuple[tuple[str, Function, Shapes], ...] = (
    ("roll",                lambda x: np.roll(x, 2),                                            (M,)),
    ("roll axes",           lambda x: np.roll(x, (1, -1), axis=(0, 1)),                         (M,)),
    ("fliplr",              lambda x: np.fliplr(x),                                             (M,)),
    ("flipud",              lambda x: np.flipud(x),                                             (M,)),
    ("rot90",               lambda x: np.rot90(x),                                              (M,)),
    ("rot90 3 axes",        lambda x: np.rot90(x, 3, axes=(1, 2)),                              (K,)),
    ("rot90 2",             lambda x: np.rot90(x, 2),                                           (M,)),
    ("tile",                lambda x: np.tile(x, (2, 1, 2)),                                    (M,)),
    ("tile scalar",         lambda x: np.tile(x, 3),                                            ((),)),
    ("repeat",              lambda x: np.repeat(x, 2, axis=1),                                  (M,)),
    ("repeat scalar",       lambda x: np.repeat(x, 3),                                          ((),)),
    ("resize",              lambda x: np.resize(x, (3, 4)),                                     (M,)),
    ("take modes",          lambda x: np.take(x, [5, -7, 2], mode="wrap"),                      (M,)),
    ("take axis",           lambda x: np.take(x, [[2, 0]], axis=1),                             (M,)),
    ("take one",            lambda x: np.take(x, 2),                                            (V,)),
    ("take_along_axis",     lambda x: np.take_along_axis(x, np.array([[2, 0], [1, 1]]), 1),     (M,)),
    ("compress",            lambda x: np.compress([True, False, True], x, axis=1),              (M,)),
    ("extract",             lambda x: np.extract(MASK, x),                                      (M,)),
    ("delete",              lambda x: np.delete(x, [0, 2], axis=1),                             (M,)),
    ("delete flat",         lambda x: np.delete(x, slice(1, 4)),                                (M,)),
    ("insert",              lambda x, v: np.insert(x, 1, v, axis=1),                            (M, (2,))),
    ("insert many",         lambda x, v: np.insert(x, [0, 2, 2], v),                            (V, (3,))),
    ("append",              lambda x, v: np.append(x, v),                                       (M, V)),
    ("append axis",         lambda x, v: np.append(x, v, axis=0),                               (M, (1, 3))),
    ("pad zeros",           lambda x: np.pad(x, ((1, 0), (2, 1))),                              (M,)),
    ("pad traced",          lambda x, v: np.pad(x, 1, constant_values=v),                       (M, ())),
    ("pad many traced",     lambda x, v: np.pad(x, ((1, 0), (2, 1)), constant_values=v),        (M, (2, 2))),
    ("pad edge",            lambda x: np.pad(x, 2, mode="edge"),                                (M,)),
    ("pad reflect",         lambda x: np.pad(x, (3, 2), mode="reflect"),                        (V,)),
    ("pad symmetric",       lambda x: np.pad(x, (3, 2), mode="symmetric"),                      (V,)),
    ("pad wrap",            lambda x: np.pad(x, (3, 5), mode="wrap"),                           (V,)),
    ("split",               lambda x: row(np.split(x, 3, axis=1)),                              (M,)),
    ("split at",            lambda x: row(np.split(x, [1, 3])),                                 (W,)),
    ("array_split",         lambda x: row(np.array_split(x, 3)),                                (W,)),
    ("hsplit",              lambda x: row(np.hsplit(x, 3)),                                     (M,)),
    ("vsplit",              lambda x: row(np.vsplit(x, 2)),                                     (M,)),
    ("dsplit",              lambda x: row(np.dsplit(x, 2)),                                     (K,)),
    ("unstack",             lambda x: row(np.unstack(x, axis=1)),                               (M,)),
    ("dstack",              lambda a, b: np.dstack([a, b]),                                     (M, M)),
    ("dstack vectors",      lambda a, b: np.dstack([a, b]),                                     (V, V)),
    ("vstack scalars",      lambda a, b: np.vstack([a, b]),                                     ((), ())),
    ("block",               lambda a, b: np.block([[a, np.ones((2, 1))], [b, np.zeros((1, 1))]]), (M, (1, 3))),
    ("block flat",          lambda a, b: np.block([a, b]),                                      (V, ())),
    ("block one",           lambda a: np.block(a),                                              (M,)),
    ("concat",              lambda a, b: np.concat([a, b]),                                     (V, W)),
    ("atleast_1d",          lambda a: np.atleast_1d(a),                                         ((),)),
    ("atleast_2d many",     lambda a, b: row(np.atleast_2d(a, b)),                              ((), V)),
    ("atleast_3d",          lambda a, b, c: row(np.atleast_3d(a, b, c)),                        ((), V, M)),
    ("broadcast_arrays",    lambda a, b: row(np.broadcast_arrays(a, b)),                        ((2, 1), (3,))),
    ("rollaxis",            lambda x: np.rollaxis(x, 2),                                        ((2, 3, 4),)),
    ("rollaxis to",         lambda x: np.rollaxis(x, 0, 2),                                     ((2, 3, 4),)),
    ("moveaxis many",       lambda x: np.moveaxis(x, (0, 1), (-1, 0)),                          ((2, 3, 4),)),
    ("permute_dims",        lambda x: np.permute_dims(x, (2, 0, 1)),                            ((2, 3, 4),)),
    ("reshape F",           lambda x: np.reshape(x, (3, 4), order="F"),                         ((2, 3, 2),)),
    ("reshape F from row",  lambda x: np.reshape(x, (2, 2), order="F"),                         (V,)),
    ("ravel F",             lambda x: np.ravel(x, order="F"),                                   (K,)),
    ("meshgrid",            lambda a, b: row(np.meshgrid(a, b)),                                (V, (3,))),
    ("meshgrid ij sparse",  lambda a, b: row(np.meshgrid(a, b, np.ones(2), indexing="ij", sparse=True)), (V, (3,))),
    ("triu",                lambda x: np.triu(x, -1),                                           (S,)),
    ("tril of vector",      lambda x: np.tril(x),                                               (V,)),
    ("diag",                lambda x: np.diag(x, -1),                                           (V,)),
    ("diag of matrix",      lambda x: np.diag(x, 1),                                            (S,)),
    ("diagflat",            lambda x: np.diagflat(x, 1),                                        (M,)),
    ("diagonal axes",       lambda x: np.diagonal(x, 0, 2, 0),                                  (K,)),
    ("kron",                lambda a, b: np.kron(a, b),                                         (M, (2, 2))),
    ("kron ranks",          lambda a, b: np.kron(a, b),                                         (V, M)),
    ("kron scalar",         lambda a, b: np.kron(a, b),                                         ((), M)),
    ("flip many",           lambda x: np.flip(x, (0, 2)),                                       (K,)),
    ("put",                 lambda x, v: done(x, lambda y: np.put(y, [0, -1, 2], v)),           (M, (2,))),
    ("put clip",            lambda x, v: done(x, lambda y: np.put(y, [0, 99], v, mode="clip")), (M, (2,))),
    ("put same twice",      lambda x, v: done(x, lambda y: np.put(y, [1, 1], v)),               (M, (2,))),
    ("place",               lambda x, v: done(x, lambda y: np.place(y, MASK, v)),               (M, (3,))),
    ("putmask",             lambda x, v: done(x, lambda y: np.putmask(y, MASK, v)),             (M, V)),
    ("copyto",              lambda x, v: done(x, lambda y: np.copyto(y, v)),                    (M, (3,))),
    ("copyto where",        lambda x, v: done(x, lambda y: np.copyto(y, v, where=MASK)),        (M, (3,))),
    ("put_along_axis",      lambda x, v: done(x, lambda y: np.put_along_axis(y, np.array([[2], [0]]), v, 1)), (M, (2, 1))),
    ("fill_diagonal",       lambda x, v: done(x, lambda y: np.fill_diagonal(y, v)),             (S, (3,))),
    ("fill_diagonal wrap",  lambda x, v: done(x, lambda y: np.fill_diagonal(y, v, wrap=True)),  ((7, 2), ())),
    ("write twice",         lambda x, v: done(x, lambda y: y.__setitem__([0, 0, 1], v)),        (V, (3,))),
    ("write mask add",      lambda x, v: done(x, lambda y: y.__setitem__(MASK, y[MASK] + v)),   (M, ())),
    ("select",              lambda a, b: np.select([a > 0.5, a > -0.5], [a * a, b], 2.0),       (M, (3,))),
    ("choose",              lambda a, b: np.choose([[0, 1, 0], [1, 1, 0]], [a, b]),             (M, (3,))),
    ("piecewise",           lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda t: t**2, lambda t: np.sqrt(t)]), (W,)),
    ("piecewise rest",      lambda x: np.piecewise(x, [x < -0.5, x > 0.5], [-1.0, lambda t, k: k * t**3, lambda t, k: t], 3.0), (M,)),
    ("piecewise scalar",    lambda x: np.piecewise(x, x > 0, [lambda t: t**2, lambda t: t**3]), ((),)),
    ("apply_along_axis",    lambda x: np.apply_along_axis(lambda r: r * np.sum(r * r), 0, x),   (M,)),
    ("apply_along to one",  lambda x: np.apply_along_axis(lambda r: np.sum(r * r), 1, x),       (M,)),
    ("apply_along to two",  lambda x: np.apply_along_axis(lambda r: np.outer(r, r), 1, x),      (K,)),
    ("apply_over_axes",     lambda x: np.apply_over_axes(np.sum, x * x, [0, 2]),                (K,)),
    ("where nested",        lambda x: np.where(x > 0, np.where(x > 1, x, x**2), 3.0),           (M,)),
    ("copy",                lambda x: np.copy(x) * x,                                           (M,)),
    ("full_like",           lambda x, v: done(np.full_like(x, v), lambda y: y.__setitem__(0, x[0])), (M, ())),
    ("zeros_like",          lambda x: done(np.zeros_like(x), lambda y: y.__setitem__(1, x[0])), (M,)),
    ("lists",               lambda x: np.concatenate([[x[0], 2.0], np.multiply([1.0, 2.0], x[:2]), x[:2] / [2.0, 4.0]]), (V,)),
)
ORDER: tuple[tuple[str, Function, Shapes], ...] = (
    ("sort",                lambda x: np.sort(x),                                               (M,)),
    ("sort axis",           lambda x: np.sort(x, axis=0),                                       (S,)),
    ("sort flat",           lambda x: np.sort(x, axis=None) ** 2,                               (M,)),
    ("sort by argsort",     lambda x: x[np.argsort(x)] * np.arange(5.0),                        (W,)),
    ("sort in place",       lambda x: done(x, lambda y: y.sort(axis=0)),                        (S,)),
    ("sorted()",            lambda x: np.stack(sorted(x)),                                      (W,)),
    ("partition",           lambda x: np.partition(x, 2),                                       ((9,),)),
    ("partition axis",      lambda x: np.partition(x, 1, axis=0),                               (S,)),
    ("partition in place",  lambda x: done(x, lambda y: y.partition(3)),                        ((9,),)),
    ("argpartition",        lambda x: x[np.argpartition(x, 2)],                                 ((9,),)),
    ("argmax",              lambda x: x[np.argmax(x)] ** 2,                                     (W,)),
    ("argmin axis",         lambda x: np.take_along_axis(x, np.argmin(x, axis=1, keepdims=True), 1), (M,)),
    ("max",                 lambda x: np.max(x, axis=1, keepdims=True),                         (M,)),
    ("max initial",         lambda x: np.max(x, axis=0, initial=0.1),                           (M,)),
    ("max where",           lambda x: np.max(x, axis=1, initial=-9.0, where=MASK),              (M,)),
    ("min where",           lambda x: np.min(x, where=MASK, initial=9.0),                       (M,)),
    ("amax amin",           lambda x: np.amax(x) * np.amin(x),                                  (M,)),
    ("ptp",                 lambda x: np.ptp(x, axis=1),                                        (M,)),
    ("median odd",          lambda x: np.median(x),                                             (W,)),
    ("median even",         lambda x: np.median(x, axis=0, keepdims=True),                      (M,)),
    ("median axes",         lambda x: np.median(x, axis=(0, 2)),                                (K,)),
    ("percentile",          lambda x: np.percentile(x, 37.0),                                   (W,)),
    ("percentile many",     lambda x: np.percentile(x, [10, 50, 90], axis=1),                   (M,)),
    ("quantile lower",      lambda x: np.quantile(x, 0.3, method="lower"),                      (W,)),
    ("quantile hazen",      lambda x: np.quantile(x, [0.3, 0.9], method="hazen", axis=0),       (S,)),
    ("quantile nearest",    lambda x: np.quantile(x, 0.7, method="nearest", keepdims=True),     (M,)),
    ("quantile cdf",        lambda x: np.quantile(x, 0.7, method="inverted_cdf"),               (W,)),
    ("quantile ends",       lambda x: np.quantile(x, [0.0, 1.0]),                               (W,)),
    ("searchsorted",        lambda x: KNOTS[np.searchsorted(KNOTS, x, "right") - 1] * x,        (V,)),
    ("digitize",            lambda x: KNOTS[np.digitize(x, KNOTS[::-1]) - 1] * x,               (V,)),
    ("unique",              lambda x: np.unique(x) ** 2,                                        (M,)),
    ("unique counts",       lambda x: np.multiply(*np.unique(x, return_counts=True)),           (V,)),
    ("nonzero",             lambda x: x[np.nonzero(x > 0)] ** 2,                                (M,)),
    ("where positions",     lambda x: x[np.where(x > 0)] ** 2,                                  (M,)),
    ("argwhere",            lambda x: x[tuple(np.argwhere(x > 0).T)],                           (M,)),
    ("flatnonzero",         lambda x: x[np.flatnonzero(x)] ** 2,                                (V,)),
    ("count_nonzero",       lambda x: np.count_nonzero(x > 0) * x,                              (V,)),
    ("max of list",         lambda x: max(list(x)) * min(x),                                    (V,)),
)
SUMS: tuple[tuple[str, Function, Shapes], ...] = (
    ("sum where",           lambda x: np.sum(x * x, axis=1, where=MASK),                        (M,)),
    ("sum dtype",           lambda x: np.sum(x * x, dtype=float),                               (M,)),
    ("sum out",             lambda x: np.sum(x * x, axis=0, out=x[0] * 0),                      (M,)),
    ("sum of list",         lambda x: np.sum(x) + sum([x[0], x[1]]),                            (V,)),
    ("prod where",          lambda x: np.prod(x, axis=0, where=MASK, initial=2.0),              (M,)),
    ("mean where",          lambda x: np.mean(x * x, axis=1, where=MASK, keepdims=True),        (M,)),
    ("var where",           lambda x: np.var(x, axis=1, where=MASK, ddof=1),                    (M,)),
    ("var correction",      lambda x: np.var(x, correction=1),                                  (M,)),
    ("std where",           lambda x: np.std(x, where=MASK),                                    (M,)),
    ("var mean",            lambda x: np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)), (M,)),
    ("average",             lambda x, w: np.average(x, axis=1, weights=2 + w**2),               (M, (3,))),
    ("average returned",    lambda x, w: row(np.average(x, axis=0, weights=2 + w**2, returned=True)), (M, (2,))),
    ("average plain",       lambda x: np.average(x * x),                                        (M,)),
    ("cumsum out",          lambda x: np.cumsum(x * x, axis=0, out=x * 1.0),                    (M,)),
    ("cumprod",             lambda x: np.cumprod(x),                                            (M,)),
    ("cumprod axis",        lambda x: np.cumprod(x, axis=1),                                    (M,)),
    ("cumprod zero",        lambda x: np.cumprod(x * [1.0, 0.0, 2.0, 3.0]),                     (V,)),
    ("cumulative_sum",      lambda x: np.cumulative_sum(x, axis=1, include_initial=True),       (M,)),
    ("cumulative_prod",     lambda x: np.cumulative_prod(x, include_initial=True),              (V,)),
    ("nansum",              lambda x: np.nansum(np.where(MASK, x * x, np.nan), axis=0),         (M,)),
    ("nanprod",             lambda x: np.nanprod(np.where(MASK, x, np.nan)),                    (M,)),
    ("nanmean",             lambda x: np.nanmean(np.where(MASK, x * x, np.nan), axis=1),        (M,)),
    ("nanvar",              lambda x: np.nanvar(np.where(MASK, x, np.nan), axis=1, keepdims=True), (M,)),
    ("nanstd",              lambda x: np.nanstd(np.where(MASK, x, np.nan), ddof=1),             (M,)),
    ("nanmax",              lambda x: np.nanmax(np.where(MASK, x, np.nan), axis=0),             (M,)),
    ("nanmin",              lambda x: np.nanmin(np.where(MASK, x, np.nan)),                     (M,)),
    ("nanmedian",           lambda x: np.nanmedian(np.where(MASK, x, np.nan), axis=1),          (M,)),
    ("nanpercentile",       lambda x: np.nanpercentile(np.where(MASK, x, np.nan), [20, 60], axis=1), (M,)),
    ("nanquantile whole",   lambda x: np.nanquantile(x, 0.4),                                   (M,)),
    ("nancumsum",           lambda x: np.nancumsum(np.where(MASK, x, np.nan), axis=1),          (M,)),
    ("nancumprod",          lambda x: np.nancumprod(np.where(MASK, x, np.nan)),                 (M,)),
    ("nanargmax",           lambda x: x[0, np.nanargmax(np.where(MASK, x, np.nan)[0])],         (M,)),
    ("nan_to_num",          lambda x: np.nan_to_num(np.where(MASK, x * x, np.nan), nan=3.0),    (M,)),
    ("nan_to_num inf",      lambda x: np.nan_to_num(np.where(MASK, x, -np.inf), neginf=7.0),    (M,)),
    ("cov",                 lambda x: np.cov(x),                                                (M,)),
    ("cov two",             lambda x, y: np.cov(x, y, ddof=0),                                  (V, V)),
    ("cov columns",         lambda x: np.cov(x, rowvar=False, bias=True),                       (S,)),
    ("cov weights",         lambda x, w: np.cov(x, fweights=[1, 2, 1], aweights=1 + w**2),      (M, (3,))),
    ("cov of one row",      lambda x: np.cov(x),                                                (V,)),
    ("corrcoef",            lambda x: np.corrcoef(x),                                           (S,)),
    ("corrcoef two",        lambda x, y: np.corrcoef(x, y)[0, 1],                               (W, W)),
    ("bincount",            lambda w: np.bincount([0, 2, 2, 1], weights=w, minlength=5),        (V,)),
)
CALCULUS: tuple[tuple[str, Function, Shapes], ...] = (
    ("diff ends",           lambda x, v: np.diff(x, prepend=0.0, append=v, axis=1),             (M, ())),
    ("diff 2",              lambda x: np.diff(x, 2),                                            (W,)),
    ("ediff1d",             lambda x, v: np.ediff1d(x, to_begin=v, to_end=[1.0, 2.0]),          (M, ())),
    ("gradient",            lambda x: np.gradient(x),                                           (W,)),
    ("gradient spacing",    lambda x, h: np.gradient(x, 1 + h**2),                              (W, ())),
    ("gradient places",     lambda x: np.gradient(x, np.array([0.0, 0.3, 1.0, 1.2, 2.0])),      (W,)),
    ("gradient traced",     lambda x, t: np.gradient(x, np.cumsum(1 + t**2), edge_order=2),     (W, W)),
    ("gradient edges",      lambda x: np.gradient(x, 0.5, edge_order=2),                        (W,)),
    ("gradient axes",       lambda x: row(np.gradient(x)),                                      ((3, 4),)),
    ("gradient one axis",   lambda x: np.gradient(x, 2.0, axis=1),                              ((3, 4),)),
    ("trapezoid",           lambda y: np.trapezoid(y, dx=0.3),                                  (M,)),
    ("trapezoid places",    lambda y, x: np.trapezoid(y, x, axis=0),                            ((3, 2), (3,))),
    ("trapezoid all",       lambda y, x: np.trapezoid(y, x),                                    (M, M)),
    ("interp",              lambda x: np.interp(x, KNOTS, np.cos(KNOTS)),                       (M,)),
    ("interp scalar",       lambda x: np.interp(x, KNOTS, np.cos(KNOTS)),                       ((),)),
    ("interp traced",       lambda x, f: np.interp(x, KNOTS, f, left=-1.0),                     (V, W)),
    ("interp knots",        lambda k, f: np.interp([-9.0, 0.7, 1.5, 99.0], np.cumsum(0.3 + k**2), f, right=2.0), (W, W)),
    ("interp period",       lambda x, f: np.interp(x, [0.1, 0.5, 0.7], f, period=1.0),          (V, (3,))),
    ("unwrap",              lambda x: np.unwrap(4 * x),                                         (W,)),
    ("unwrap period",       lambda x: np.unwrap(3 * x, period=2.0, axis=0),                     (S,)),
    ("convolve",            lambda a, b: np.convolve(a, b),                                     (V, (3,))),
    ("convolve same",       lambda a, b: np.convolve(a, b, "same"),                             ((3,), V)),
    ("convolve valid",      lambda a, b: np.convolve(a, b, mode="valid"),                       (W, (2,))),
    ("correlate",           lambda a, b: np.correlate(a, b),                                    (W, (3,))),
    ("correlate same",      lambda a, b: np.correlate(a, b, "same"),                            ((2,), W)),
    ("correlate full",      lambda a, b: np.correlate(a, b, "full"),                            (V, (3,))),
    ("cross",               lambda a, b: np.cross(a, b),                                        ((3,), (2, 3))),
    ("cross axes",          lambda a, b: np.cross(a, b, axisa=0, axisb=0, axisc=0),             ((3, 2), (3, 2))),
    ("polyval",             lambda p, x: np.polyval(p, x),                                      (V, M)),
    ("polyadd",             lambda p, q: np.polyadd(p, q),                                      (V, (2,))),
    ("polysub",             lambda p, q: np.polysub(p, q),                                      ((2,), V)),
    ("polymul",             lambda p, q: np.polymul(p, q),                                      (V, (2,))),
    ("polydiv",             lambda p, q: row(np.polydiv(p, q)),                                 (V, (2,))),
    ("polyder",             lambda p: np.polyder(p, 2),                                         (W,)),
    ("polyint",             lambda p: np.polyint(p, 2, k=[1.0, 2.0]),                           ((3,),)),
    ("poly",                lambda r: np.poly(r),                                               ((3,),)),
    ("polyfit",             lambda x, y: np.polyfit(x, y, 2),                                   (W, W)),
    ("polyfit many",        lambda y, w: np.polyfit(KNOTS, y, 1, w=1 + w**2),                   ((5, 2), W)),
    ("vander",              lambda x: np.vander(x),                                             ((3,),)),
    ("vander increasing",   lambda x: np.vander(x, 4, increasing=True),                         ((3,),)),
    ("linspace",            lambda a, b: np.linspace(a, b, 4),                                  ((), ())),
    ("linspace rows",       lambda a: np.linspace(a, 2.0, 3, endpoint=False, axis=1),           ((2,),)),
    ("logspace",            lambda a, b: np.logspace(a, b, 3, base=2.0),                        ((), ())),
    ("geomspace",           lambda a, b: np.geomspace(1 + a**2, 3 + b**2, 4),                   ((), ())),
    ("matvec",              lambda a, x: np.matvec(a, x),                                       (K, (2, 2))),
    ("vecmat",              lambda x, a: np.vecmat(x, a),                                       ((2,), M)),
    ("vecdot",              lambda a, b: np.vecdot(a, b),                                       (M, (3,))),
    ("isclose",             lambda x: np.where(np.isclose(x, 0.0, atol=0.5), x**2, x),          (M,)),
    ("allclose",            lambda x: x * 2 if np.allclose(x, x) and np.array_equal(x, x * 1) else x, (V,)),
)
# fmt: on
CASES = [pytest.param(f, shapes, id=name) for name, f, shapes in MOVING + ORDER + SUMS + CALCULUS]


@for_rows(("f", "shapes"), CASES, parts=3)
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check(f, drawn(shapes))


WRONG: dict[str, Function] = {
    "another value": lambda x, shift: HANDLERS[np.flip](x),
    "a derivative lost": lambda x, shift: x * 0.0 + np.roll(plain_value(x), shift),
    "a derivative doubled": lambda x, shift: 2 * x[[3, 0, 1, 2]] - np.roll(plain_value(x), shift),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_handler_is_objected_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(lambda x: np.roll(x, 1), drawn((V,)))
    monkeypatch.setitem(HANDLERS, np.roll, WRONG[name])
    with pytest.raises(AssertionError):
        check(lambda x: np.roll(x, 1), drawn((V,)))
