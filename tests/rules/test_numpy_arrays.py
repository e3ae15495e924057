"""Traced arrays as arrays: methods, attributes, Python's protocols, and which memory is shared."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball
from gradcli.arithmetic.dual import Dual
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.errors import NoRule, TraceEnded
from tests.rows import for_rows
from tests.rules.test_numpy_functions import Function, Shapes, check, done, row

V, M, S, K = (4,), (2, 3), (3, 3), (2, 3, 2)
MASK = np.array([[True, False, True], [False, True, True]])
ONE = np.float64(1)


def shared(view: Function, at: Any = 0) -> Function:
    """Return a program that makes a view, writes into it, then into the array, and looks at both."""

    def program(x: Any) -> Any:
        base = x * 1.0
        seen = view(base)
        seen[at] = seen[-1] * 2.0 + 1.0
        base[...] = base * base
        return np.concatenate([np.reshape(base, -1), np.reshape(seen, -1)])

    return program


# fmt: off
METHODS: tuple[tuple[str, Function, Shapes], ...] = (
    ("sum where",       lambda x: x.sum(axis=1, where=MASK),                    (M,)),
    ("mean, prod",      lambda x: x.mean(axis=0) * x.prod(axis=0),              (M,)),
    ("var, std",        lambda x: x.var(ddof=1) * x.std(axis=1),                (M,)),
    ("max, min",        lambda x: x.max(axis=0) * x.min(),                      (M,)),
    ("argmax",          lambda x: x[x.argmax()] * x[x.argmin()],                (V,)),
    ("argsort",         lambda x: x[x.argsort()] * x[x.argpartition(2)[2]],     (V,)),
    ("cumsum, cumprod", lambda x: x.cumsum(axis=1) * x.cumprod(axis=1),         (M,)),
    ("T, mT",           lambda x: row([x.T, x.mT]),                             (K,)),
    ("transpose",       lambda x: row([x.transpose(), x.transpose(0, 2, 1), x.transpose((2, 0, 1)), x.swapaxes(0, 1)]), (K,)),
    ("reshape",         lambda x: row([x.reshape(3, 2), x.reshape((6,)), x.reshape(-1), x.reshape(2, -1, order="F")]), (M,)),
    ("flatten",         lambda x: row([x.flatten(), x.flatten("F"), x.ravel(), x.squeeze()]), (M,)),
    ("clip, round",     lambda x: x.clip(-0.5, 0.5) + x.round() + x.round(1),   (M,)),
    ("dot, trace",      lambda x: x.dot(x).diagonal() * x.trace(),              (S,)),
    ("repeat, take",    lambda x: x.repeat(2)[:4] * x.take([0, -1, 2, 1]),      (V,)),
    ("compress",        lambda x: x.compress([True, False, True], axis=1),      (M,)),
    ("nonzero",         lambda x: x[x.nonzero()] * x[(x > 0).nonzero()].sum(),  (V,)),
    ("searchsorted",    lambda x: x * np.sort(x).searchsorted(0.1),             (V,)),
    ("fill",            lambda x: done(x, lambda y: y[1].fill(x[0, 0])),        (M,)),
    ("put",             lambda x: done(x, lambda y: y.put([0, 3], x[0, :2])),   (M,)),
    ("sort",            lambda x: done(x, lambda y: y[0].sort()),               (M,)),
    ("partition",       lambda x: done(x, lambda y: y.partition(1)),            (V,)),
    ("item",            lambda x: x.item(1) * x.item(0, 2) * x[0, :1].item() * x.item((1, 1)), (M,)),
    ("tolist",          lambda x: sum(a * b for a, b in x.tolist()),            ((3, 2),)),
    ("flat",            lambda x: row([x.T.flat[1:4], x.T.flat[2], sum(k * t for k, t in enumerate(x.flat))]), (M,)),
    ("flat written",    lambda x: done(x, lambda y: y.T.flat.__setitem__(slice(1, 3), x[1, :2])), (M,)),
    ("flat set",        lambda x: done(x, lambda y: setattr(y, "flat", [1.0, 2.0])), (M,)),
    ("flat in numpy",   lambda x: np.sum(x.flat) * np.exp(x.flat)[0],           (M,)),
    ("real, imag",      lambda x: x.real * x.conj() * x.conjugate() + x.imag,   (M,)),
    ("astype",          lambda x: x.astype(float) * x.astype("float64") * (x.astype(bool) * 2), (M,)),
    ("copies",          lambda x: x.copy() * copy.copy(x) * copy.deepcopy(x),   (M,)),
    ("view",            lambda x: x.view() * 2,                                 (M,)),
    ("any, all",        lambda x: x * x.any() + x * (x > -99).all(),            (M,)),
    ("choose",          lambda x: np.array([0, 1, 0]).choose([1.0, 2.0]) * x[0], (M,)),
)
PYTHON: tuple[tuple[str, Function, Shapes], ...] = (
    ("operators",       lambda x, y: x + 2 - y * 3 / (1 + y**2) + 2 ** x - x ** 3 + (1 + x * x) ** y, (V, ())),
    ("matmul",          lambda a, b: a @ b @ a + [1.0, 2.0, 3.0] @ b,           ((3,), S)),
    ("floor, mod",      lambda x: x // 2 + x % 3 + 7 // (3 + x) + 7 % (3 + x) + -x % 1, (V,)),
    ("divmod",          lambda x: row(divmod(x, 0.7)) + row(divmod(7.0, 3 + x)), (V,)),
    ("abs, neg, pos",   lambda x: abs(x) + -x * +x,                             (V,)),
    ("round, floor",    lambda x: x * (round(x) + math.floor(x) + math.ceil(x) + math.trunc(x)) + round(x, 2), ((),)),
    ("comparisons",     lambda x: x * (x > 0) + x**2 * (x <= 0) + (x == x) - (x != x), (V,)),
    ("branches",        lambda x: x * x if x > 0.5 else -x if not x else x**3,  ((),)),
    ("in",              lambda x: x * 2 if 5.0 not in x and x[0] in x else x,   (V,)),
    ("iteration",       lambda x: sum(k * a for k, a in zip(range(9), x, strict=False)), (V,)),
    ("unpacking",       lambda x: (lambda a, b, *rest: a * b * rest[1])(*x),    (V,)),
    ("sum, max, min",   lambda x: sum(list(x)) * max(x) * min(*x),              (V,)),
    ("sorted",          lambda x: np.stack(sorted(x, reverse=True)),            (V,)),
    ("reduce",          lambda x: functools.reduce(lambda a, b: a * b + 1, x),  (V,)),
    ("enumerate",       lambda x: sum(k * t for k, t in enumerate(reversed(x))), (V,)),
    ("index",           lambda x: row([x[1], x[-1, ::2], x[..., None], x[:, ::-1], x[[1, 0, 1]], x[None, 0]]), (M,)),
    ("mask",            lambda x: x[x > 0] * 2 + x[MASK].sum(),                 (M,)),
    ("masks mixed",     lambda x: row([x[[True, False]], x[1, MASK[1]], x[np.ix_([1, 0], [2, 0])]]), (M,)),
    ("list of numpys",  lambda x: x[[np.int64(1), 0]] * x[np.uint8(1)],         (M,)),
    ("mask +=",         lambda x: done(x, lambda y: y.__setitem__(x > 0, y[x > 0] + x[0, 0])), (M,)),
    ("newaxis write",   lambda x: done(x, lambda y: y[:, None].__setitem__((0, 0), x[1])), (M,)),
    ("step write",      lambda x: done(x, lambda y: y.__setitem__((slice(None), slice(None, None, -2)), x[:, :2])), (M,)),
    ("ellipsis write",  lambda x: done(x, lambda y: y.__setitem__((..., 0), x[:, 1])), (M,)),
    ("fancy write",     lambda x: done(x, lambda y: y.__setitem__(([0, 1], [2, 0]), x[0, :2])), (M,)),
    ("repeated write",  lambda x: done(x, lambda y: y.__setitem__([1, 1, 0], x[[0, 1, 1]])), (M,)),
    ("list written",    lambda x: done(x, lambda y: y.__setitem__(0, [x[1, 0], 2.0, x[1, 1] ** 2])), (M,)),
)
VIEWS: tuple[tuple[str, Function, Shapes], ...] = (
    ("split",           shared(lambda x: np.split(x, 2)[1]),                    (V,)),
    ("array_split",     shared(lambda x: np.array_split(x, 3, axis=1)[2]),      (M,)),
    ("hsplit, vsplit",  shared(lambda x: np.hsplit(np.vsplit(x, 2)[1], 3)[0]),  (M,)),
    ("unstack",         shared(lambda x: np.unstack(x, axis=1)[1]),             (M,)),
    ("fliplr",          shared(lambda x: np.fliplr(x)),                         (M,)),
    ("flipud",          shared(lambda x: np.flipud(x)),                         (M,)),
    ("rot90",           shared(lambda x: np.rot90(x)),                          (M,)),
    ("rot90 0",         shared(lambda x: np.rot90(x, 0)),                       (M,)),
    ("rot90 2",         shared(lambda x: np.rot90(x, 2)),                       (M,)),
    ("atleast_1d",      shared(lambda x: np.atleast_1d(x)),                     (V,)),
    ("atleast_2d",      shared(lambda x: np.atleast_2d(x)),                     (V,)),
    ("atleast_3d",      shared(lambda x: np.atleast_3d(x)),                     (M,)),
    ("ravel",           shared(lambda x: np.ravel(x)),                          (M,)),
    ("ravel of T",      shared(lambda x: x.T.ravel()),                          (M,)),
    ("ravel F",         shared(lambda x: np.ravel(x, order="F")),               (M,)),
    ("ravel F of T",    shared(lambda x: x.T.ravel(order="F")),                 (M,)),
    ("reshape",         shared(lambda x: x.reshape(3, 2)),                      (M,)),
    ("keyword",         shared(lambda x: np.squeeze(a=x[None])),                (M,)),
    ("T, mT",           shared(lambda x: x.T.mT.T),                             (M,)),
    ("moveaxis",        shared(lambda x: np.moveaxis(x, 0, -1)),                (K,)),
    ("rollaxis",        shared(lambda x: np.rollaxis(x, 2)),                    (K,)),
    ("swapaxes",        shared(lambda x: np.swapaxes(x, 0, 2)),                 (K,)),
    ("squeeze",         shared(lambda x: np.squeeze(x)),                        ((1, 4),)),
    ("expand_dims",     shared(lambda x: np.expand_dims(x, 0)),                 (V,)),
    ("broadcast_arrays", shared(lambda x: np.broadcast_arrays(x, np.ones(3))[0]), (M,)),
    ("real",            shared(lambda x: x.real),                               (M,)),
    ("view",            shared(lambda x: x.view()),                             (M,)),
    ("astype no copy",  shared(lambda x: x.astype(float, copy=False)),          (M,)),
    ("slices",          shared(lambda x: x[:, ::-2][..., None][1]),             (M,)),
    ("diff 0",          shared(lambda x: np.diff(x, n=0)),                      (M,)),
    ("meshgrid shared", shared(lambda x: np.meshgrid(x, copy=False)[0]),        (V,)),
    # and what is a copy
    ("roll",            shared(lambda x: np.roll(x, 1)),                        (V,)),
    ("tile",            shared(lambda x: np.tile(x, 1)),                        (V,)),
    ("repeat",          shared(lambda x: np.repeat(x, 1)),                      (V,)),
    ("take",            shared(lambda x: np.take(x, [0, 1])),                   (V,)),
    ("pad",             shared(lambda x: np.pad(x, 0)),                         (V,)),
    ("delete",          shared(lambda x: np.delete(x, [])),                     (V,)),
    ("sort",            shared(lambda x: np.sort(x)),                           (V,)),
    ("triu",            shared(lambda x: np.triu(x)),                           (M,)),
    ("diag",            shared(lambda x: np.diag(x)),                           (V,)),
    ("clip",            shared(lambda x: np.clip(x, None, None)),               (V,)),
    ("meshgrid",        shared(lambda x: np.meshgrid(x)[0]),                    (V,)),
    ("block",           shared(lambda x: np.block(x)),                          (V,)),
    ("where",           shared(lambda x: np.where(True, x, 0.0)),               (V,)),
    ("flatten",         shared(lambda x: x.flatten()),                          (M,)),
    ("astype",          shared(lambda x: x.astype(float)),                      (M,)),
    ("fancy index",     shared(lambda x: x[[0, 1]]),                            (M,)),
    ("mask",            shared(lambda x: x[x > -99.0]),                         (M,)),
    ("conj of numpy",   shared(lambda x: np.positive(x)),                       (M,)),
    ("nan_to_num",      shared(lambda x: np.nan_to_num(x)),                     (M,)),
    ("unwrap",          shared(lambda x: np.unwrap(x)),                         (V,)),
    ("concatenate one", shared(lambda x: np.concatenate([x])),                  (M,)),
    ("resize",          shared(lambda x: np.resize(x, (2, 3))),                 (M,)),
)
# fmt: on
CASES = [pytest.param(f, shapes, id=name) for name, f, shapes in METHODS + PYTHON + VIEWS]


def spread(shape: tuple[int, ...]) -> Any:
    """Return entries away from each other and from whole numbers."""
    size = math.prod(shape)
    return (np.sin(1.0 + 7 * np.arange(size)) * 1.3 + 0.07).reshape(shape)[()]


@for_rows(("f", "shapes"), CASES)
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check(f, [spread(n) for n in shapes])


READ_ONLY: dict[str, Function] = {
    "diagonal": lambda x: np.diagonal(x),
    "method": lambda x: x.diagonal(),
    "diag": lambda x: np.diag(x),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 3)),
    "view of one": lambda x: np.broadcast_to(x, (2, 3, 3))[0].T,
}


@for_rows("name", READ_ONLY)
def test_a_read_only_view_cannot_be_written_and_sees_writes(name: str) -> None:
    x = np.arange(9.0).reshape(3, 3)

    def program(x: Any) -> Any:
        base = x * 1.0
        seen = READ_ONLY[name](base)
        with pytest.raises(ValueError, match="read-only"):
            seen[0] = 5.0
        base[...] = base * base
        return np.positive(seen)

    check(program, [x])


def test_a_scalar_is_no_memory() -> None:
    def program(x: Any) -> Any:
        y = np.reshape(x, (1,))
        y[0] = 5.0
        return x + np.expand_dims(x, 0)

    check(program, [np.float64(0.3)])


def test_attributes_are_numpys() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = Dual(x, x, 1)
    for name in ("shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"):
        assert getattr(t, name) == getattr(x, name)
        assert getattr(t.T, name) == getattr(x.T, name)
    assert t.base is None and t[0].base is t
    assert t.flags.c_contiguous and not t.T.flags.c_contiguous
    assert len(t.flat) == 6 and len(t) == 2
    assert np.shares_memory(t, t[1:]) and not np.may_share_memory(t[0], t[1]) and not np.shares_memory(t, x)


def test_facts_of_type_are_numpys() -> None:
    x = np.arange(6.0).reshape(2, 3)
    t = Dual(x, x, 1)
    assert np.result_type(t, 1) == np.float64 and np.can_cast(t, np.complex128) and not np.can_cast(t, int)
    assert np.common_type(t) == np.float64 and np.isrealobj(t) and not np.iscomplexobj(t)
    assert np.isscalar(t[0, 0]) and not np.isscalar(t)
    assert (np.shape(t), np.ndim(t), np.size(t), np.size(t, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(np.isreal(t), np.isreal(x)) and np.array_equiv(t[0], t[:1])
    assert not np.array_equal(t, t[0]) and np.array_equal(t, x)
    assert not np.any(np.isposinf(t)) and not np.any(np.isneginf(t))
    for same in (np.tril_indices_from, np.triu_indices_from):
        np.testing.assert_array_equal(same(t), same(x))


@pytest.mark.parametrize("make", [lambda x: Dual(x, x, 1), lambda x: record(lambda x: x, [x])[0], Ball.lift])
def test_a_traced_value_prints_as_its_number(make: Callable[[Any], Any]) -> None:
    t = make(np.float64(1.23456))
    assert f"{t:.3f}" == "1.235" and f"{t}" == "1.23456" and str(t) == "1.23456"
    assert str(make(np.array([1.0, 2.0]))) == "[1. 2.]"
    assert np.array2string(make(np.array([1.0, 2.0]))) == "[1. 2.]"


ENDS: dict[str, tuple[Function, type[Exception], str]] = {
    "index": (lambda x: [1, 2][x[0]], TraceEnded, "used as an index or a size"),
    "range": (lambda x: range(x[0]), TraceEnded, "used as an index or a size"),
    "int": (lambda x: int(x[0]), TraceEnded, "int() of a traced value"),
    "complex": (lambda x: complex(x[0]), TraceEnded, "complex() of a traced value"),
    "slice": (lambda x: x[: x[0]], NoRule, "an index is a traced value"),
    "list": (lambda x: x[[x[0]]], NoRule, "an index is a traced value"),
    "written": (lambda x: x.__setitem__(x[0], 1.0), NoRule, "an index is a traced value"),
    "take": (lambda x: np.take(x, x), NoRule, "an index is a traced value"),
    "roll": (lambda x: np.roll(x, x[0]), NoRule, "an index is a traced value"),
    "insert": (lambda x: np.insert(x, x[0], 1.0), NoRule, "an index is a traced value"),
    "astype int": (lambda x: x.astype(int), TraceEnded, "astype(int64) of a traced value"),
    "astype float32": (lambda x: x.astype(np.float32), NoRule, "astype(float32) rounds"),
    "tobytes": (lambda x: x.tobytes(), NoRule, "x.tobytes() has no derivative rule: it writes bytes"),
    "resize": (lambda x: x.resize(2), NoRule, "np.resize"),
    "view": (lambda x: x.view(np.int64), NoRule, "reinterprets bytes"),
    "item": (lambda x: x.item(), ValueError, "array of size 1"),
    "reshape A": (lambda x: np.reshape(x[None], -1, order="A"), NoRule, "depends on how the array lies in memory"),
    "quantile": (lambda x: np.quantile(x, x[0]), NoRule, "the probability of a quantile is a traced value"),
    "weights": (
        lambda x: np.quantile(x, 0.5, weights=[1.0, 1, 1], method="inverted_cdf"),
        NoRule,
        "quantile with weights=",
    ),
    "pad": (lambda x: np.pad(x, 1, mode="linear_ramp"), NoRule, "pad with mode='linear_ramp'"),
    "pad odd": (lambda x: np.pad(x, 1, mode="reflect", reflect_type="odd"), NoRule, "pad with reflect_type='odd'"),
    "sum dtype": (lambda x: np.sum(x, dtype=np.float32), NoRule, "sum with dtype=float32"),
    "unique": (lambda x: np.unique(x, axis=0), NoRule, "unique with axis="),
    "polyfit": (lambda x: np.polyfit(x, x, 1, cov=True), NoRule, "polyfit with full=, cov="),
    "cross": (lambda x: np.cross(x[:2], x[:2]), NoRule, "cross of vectors without 3 entries"),
    "choose": (lambda x: np.choose(x, [x, x]), NoRule, "an index is a traced value"),
    "split": (lambda x: np.split(x, 2), ValueError, "equal division"),
    "squeeze": (lambda x: np.squeeze(x, 0), ValueError, "size not equal to one"),
    "axis": (lambda x: np.sort(x, 3), np.exceptions.AxisError, "out of bounds"),
}


@for_rows("name", ENDS)
def test_what_cannot_be_traced_says_what_to_write(name: str) -> None:
    f, kind, says = ENDS[name]
    with pytest.raises(kind) as caught:
        vjp(f, [np.array([0.5, 1.5, -2.0])])
    assert says in str(caught.value) or says in str(getattr(caught.value, "do", ""))
    assert isinstance(caught.value, ValueError | IndexError) or caught.value.do  # type: ignore[attr-defined]


def test_an_index_that_is_changed_later_changes_nothing() -> None:
    def program(x: Any) -> Any:
        mask = np.array([True, False, True])
        at = [0, 1]
        y = x[mask] * x[at]
        mask[0], at[0] = False, 2
        return y

    check(program, [np.array([0.5, 1.5, -2.0])])
