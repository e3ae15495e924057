"""Linear algebra on matrices and stacks of them: factorisations, norms, and where they have no derivative."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from gradcli.arithmetic.ball import Ball, bound_error, precision, radius
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.errors import GradcliError, NoRule, Undecided
from gradcli.modes.kinks import find_kinks
from gradcli.rules.kinds import Differential
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, primitive_by_name
from tests.rows import for_rows
from tests.rules.agreement import EPS, Function, Shapes, check_function, drawn, in_balls

L = np.linalg
ONE = np.float64(1)
S1, S2, S3, S4, S5 = (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)
TALL, WIDE, STACK, STACK_TALL, STACK_WIDE = (4, 2), (2, 4), (2, 3, 3), (2, 3, 2), (2, 2, 3)
ROUNDING = 1e-12  # condition numbers of the matrices drawn are below 1e3


def T(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


def well(a: Any) -> Any:
    """Return square matrices far from singular."""
    return a + 4 * np.eye(np.shape(a)[-1])


def positive(a: Any) -> Any:
    return a @ T(a) + np.eye(np.shape(a)[-1])


# fmt: off
#    name                   function of arrays                                                  shapes
TABLE: tuple[tuple[str, Function, Shapes], ...] = (
    ("det of one",          lambda a: L.det(a),                                                 (S1,)),
    ("det of two",          lambda a: L.det(a),                                                 (S2,)),
    ("det of four",         lambda a: L.det(a),                                                 (S4,)),
    ("det of six",          lambda a: L.det(well(a)),                                           ((6, 6),)),
    ("det stack",           lambda a: L.det(a),                                                 (STACK,)),
    ("det stack of four",   lambda a: L.det(a),                                                 ((2, 4, 4),)),
    ("slogdet stack",       lambda a: L.slogdet(a).logabsdet,                                   (STACK,)),
    ("slogdet sign",        lambda a: L.slogdet(-well(a))[0] * a,                               (S3,)),
    ("inv of one",          lambda a: L.inv(a),                                                 (S1,)),
    ("inv stack",           lambda a: L.inv(well(a)),                                           (STACK,)),
    ("solve stack vector",  lambda a, b: L.solve(well(a), b),                                   (STACK, (3,))),
    ("solve stack matrix",  lambda a, b: L.solve(well(a), b),                                   (STACK, (3, 2))),
    ("solve of stacks",     lambda a, b: L.solve(well(a), b),                                   (STACK, (2, 3, 2))),
    ("solve one, b stack",  lambda a, b: L.solve(well(a), b),                                   (S3, (2, 3, 1))),
    ("solve spread",        lambda a, b: L.solve(well(a), b),                                   ((2, 1, 2, 2), (3, 2, 2))),
    ("solve constant",      lambda b: L.solve(well(np.ones((3, 3))), b),                        ((3,),)),
    ("solve for constant",  lambda a: L.solve(well(a), [1.0, 2.0, 3.0]),                        (S3,)),
    ("matrix_power 0",      lambda a: L.matrix_power(a, 0) @ a,                                 (S3,)),
    ("matrix_power 1",      lambda a: L.matrix_power(a, 1),                                     (S2,)),
    ("matrix_power stack",  lambda a: L.matrix_power(a, 3),                                     (STACK,)),
    ("matrix_power -2",     lambda a: L.matrix_power(well(a), -2),                              (STACK,)),
    ("cholesky of one",     lambda a: L.cholesky(positive(a)),                                  (S1,)),
    ("cholesky",            lambda a: L.cholesky(positive(a)),                                  (S3,)),
    ("cholesky alone",      lambda a: L.cholesky(a + 9 * np.eye(4)),                            (S4,)),
    ("cholesky upper",      lambda a: L.cholesky(a + 9 * np.eye(3), upper=True),                (S3,)),
    ("cholesky stack",      lambda a: L.cholesky(positive(a)),                                  (STACK,)),
    ("eigvalsh of one",     lambda a: L.eigvalsh(a),                                            (S1,)),
    ("eigvalsh",            lambda a: L.eigvalsh(a),                                            (S3,)),
    ("eigvalsh upper",      lambda a: L.eigvalsh(a, "U"),                                       (S4,)),
    ("eigvalsh stack",      lambda a: L.eigvalsh(a),                                            (STACK,)),
    ("eigh values",         lambda a: L.eigh(a).eigenvalues,                                    (S2,)),
    ("eigh of one",         lambda a: L.eigh(a).eigenvectors * a,                               (S1,)),
    ("eigh vectors",        lambda a: L.eigh(a).eigenvectors,                                   (S3,)),
    ("eigh vectors upper",  lambda a: L.eigh(a, UPLO="U")[1],                                   (S4,)),
    ("eigh vectors stack",  lambda a: L.eigh(a)[1],                                             (STACK,)),
    ("eigh both",           lambda a: L.eigh(a)[1] @ np.diag(np.exp(L.eigh(a)[0])),             (S3,)),
    ("svdvals of one",      lambda a: L.svdvals(a),                                             (S1,)),
    ("svdvals",             lambda a: L.svdvals(a),                                             (S3,)),
    ("svdvals tall",        lambda a: L.svdvals(a),                                             (TALL,)),
    ("svdvals wide",        lambda a: L.svd(a, compute_uv=False),                               (WIDE,)),
    ("svdvals stack",       lambda a: L.svdvals(a),                                             (STACK_WIDE,)),
    ("svd of one",          lambda a: L.svd(a).U * a,                                           (S1,)),
    ("svd left",            lambda a: L.svd(a).U,                                               (S3,)),
    ("svd right",           lambda a: L.svd(a).Vh,                                              (S3,)),
    ("svd of a vector",     lambda a: L.svd(a, full_matrices=False).U,                          ((4, 1),)),
    ("svd tall left",       lambda a: L.svd(a, full_matrices=False).U,                          (TALL,)),
    ("svd tall right",      lambda a: L.svd(a, full_matrices=False)[2],                         (TALL,)),
    ("svd tall, full",      lambda a: L.svd(a).Vh,                                              (TALL,)),
    ("svd wide left",       lambda a: L.svd(a, full_matrices=False).U,                          (WIDE,)),
    ("svd wide right",      lambda a: L.svd(a, full_matrices=False).Vh,                         (WIDE,)),
    ("svd stack",           lambda a: L.svd(a, full_matrices=False).U,                          (STACK_TALL,)),
    ("svd stack wide",      lambda a: L.svd(a, full_matrices=False).Vh,                         (STACK_WIDE,)),
    ("svd together",        lambda a: (lambda u, s, vt: u @ np.diag(s**2) @ vt)(*L.svd(a)),     (S3,)),
    ("pinv",                lambda a: L.pinv(a),                                                (S3,)),
    ("pinv tall",           lambda a: L.pinv(a),                                                (TALL,)),
    ("pinv wide",           lambda a: L.pinv(a),                                                (WIDE,)),
    ("pinv of a vector",    lambda a: L.pinv(a),                                                ((3, 1),)),
    ("pinv stack",          lambda a: L.pinv(a, rtol=1e-10),                                    (STACK_TALL,)),
    ("qr of one",           lambda a: L.qr(a).R,                                                (S1,)),
    ("qr Q",                lambda a: L.qr(a).Q,                                                (S3,)),
    ("qr R",                lambda a: L.qr(a).R,                                                (S3,)),
    ("qr tall Q",           lambda a: L.qr(a).Q,                                                (TALL,)),
    ("qr tall R",           lambda a: L.qr(a, mode="r"),                                        (TALL,)),
    ("qr wide Q",           lambda a: L.qr(a)[0],                                               (WIDE,)),
    ("qr wide R",           lambda a: L.qr(a, "complete")[1],                                   (WIDE,)),
    ("qr stack",            lambda a: L.qr(a).Q @ L.qr(a).R ** 2,                               (STACK_TALL,)),
    ("lstsq tall",          lambda a, b: L.lstsq(a, b)[0],                                      (TALL, (4,))),
    ("lstsq matrix",        lambda a, b: L.lstsq(a, b, rcond=None)[0],                          (TALL, (4, 3))),
    ("lstsq residuals",     lambda a, b: L.lstsq(a, b)[1],                                      (TALL, (4, 3))),
    ("lstsq wide",          lambda a, b: L.lstsq(a, b)[0],                                      (WIDE, (2,))),
    ("lstsq values",        lambda a, b: L.lstsq(a, b)[3] * b[0],                               (TALL, (4,))),
    ("expm",                lambda a: primitive_by_name("expm")(a),                                         (S3,)),
    ("expm of one",         lambda a: primitive_by_name("expm")(a),                                         (S1,)),
    ("logm",                lambda a: primitive_by_name("logm")(a @ a.T + 3 * np.eye(3) + a),               (S3,)),
    ("sqrtm",               lambda a: primitive_by_name("sqrtm")(a @ a.T + 3 * np.eye(3) + a),              (S3,)),
    ("norm 2",              lambda a: L.norm(a, 2),                                             (S3,)),
    ("norm -2",             lambda a: L.norm(a, -2),                                            (S3,)),
    ("norm nuc",            lambda a: L.norm(a, "nuc"),                                         (TALL,)),
    ("norm -1",             lambda a: L.norm(a, -1),                                            (TALL,)),
    ("norm inf",            lambda a: L.norm(a, np.inf),                                        (TALL,)),
    ("norm -inf",           lambda a: L.norm(a, -np.inf, keepdims=True),                        (TALL,)),
    ("norm 1 of axes",      lambda a: L.norm(a, 1, axis=(2, 0)),                                (STACK_TALL,)),
    ("norm 2 of axes",      lambda a: L.norm(a, 2, axis=(0, 2), keepdims=True),                 (STACK_TALL,)),
    ("norm fro of axes",    lambda a: L.norm(a, axis=(-1, 0)),                                  (STACK_TALL,)),
    ("norm 0",              lambda a: L.norm(a, 0, axis=1) * a[:, 0],                           (TALL,)),
    ("norm 3 axis",         lambda a: L.norm(a, 3, axis=-1, keepdims=True),                     (TALL,)),
    ("norm 2 vector",       lambda a: L.norm(a, 2),                                             ((3,),)),
    ("norm axis tuple",     lambda a: L.norm(a, 1, axis=(1,)),                                  (TALL,)),
    ("matrix_norm",         lambda a: L.matrix_norm(a, ord="nuc"),                              (STACK_TALL,)),
    ("matrix_norm kept",    lambda a: L.matrix_norm(a, keepdims=True),                          (STACK_TALL,)),
    ("vector_norm",         lambda a: L.vector_norm(a),                                         (STACK_TALL,)),
    ("vector_norm axes",    lambda a: L.vector_norm(a, axis=(0, 2), keepdims=True, ord=3),      (STACK_TALL,)),
    ("cond",                lambda a: L.cond(a),                                                (TALL,)),
    ("cond -2",             lambda a: L.cond(a, -2),                                            (S2,)),
    ("cond 1",              lambda a: L.cond(well(a), 1),                                       (S3,)),
    ("cond fro stack",      lambda a: L.cond(well(a), "fro"),                                   (STACK,)),
    ("multi_dot",           lambda a, b, c: L.multi_dot([a, b, c]),                             (TALL, (2, 3), (3, 2))),
    ("multi_dot vectors",   lambda a, b, c: L.multi_dot([a, b, c]),                             ((4,), TALL, (2,))),
    ("outer",               lambda a, b: L.outer(a, b),                                         ((2,), (3,))),
    ("cross",               lambda a, b: L.cross(a, b),                                         ((2, 3), (3,))),
    ("cross axis",          lambda a, b: L.cross(a, b, axis=0),                                 ((3, 2), (3, 2))),
    ("trace stack",         lambda a: L.trace(a, offset=1),                                     (STACK,)),
    ("diagonal stack",      lambda a: L.diagonal(a, offset=-1),                                 (STACK,)),
    ("matmul",              lambda a, b: L.matmul(a, b),                                        (TALL, (2, 3))),
    ("tensordot",           lambda a, b: L.tensordot(a, b, axes=1),                             (TALL, (2, 3))),
    ("vecdot",              lambda a, b: L.vecdot(a, b, axis=0),                                (TALL, TALL)),
    ("vecdot ufunc",        lambda a, b: np.vecdot(a, b),                                       (TALL, (2,))),
    ("matrix_transpose",    lambda a: L.matrix_transpose(a),                                    (STACK_TALL,)),
    ("tensorsolve",         lambda a, b: L.tensorsolve(a + 4 * np.eye(6).reshape(2, 3, 2, 3), b), ((2, 3, 2, 3), (2, 3))),
    ("tensorsolve axes",    lambda a, b: L.tensorsolve(np.moveaxis(a + 4 * np.eye(4).reshape(2, 2, 2, 2), 3, 0), b, axes=(0,)),
                                                                                                ((2, 2, 2, 2), (2, 2))),
    ("tensorinv",           lambda a: L.tensorinv(a + 4 * np.eye(4).reshape(2, 2, 4), ind=2),   ((2, 2, 4),)),
    ("matrix_rank",         lambda a: L.matrix_rank(a) * a,                                     (TALL,)),
)
# fmt: on


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in TABLE], parts=8)
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check_function(f, shapes, ROUNDING)


def test_every_public_function_of_linalg_is_declared() -> None:
    public = {name for name in L.__all__ if name[0].islower()}
    assert {name for name in public if getattr(L, name) not in HANDLERS} == set()


# fmt: off
PREPARED: dict[str, tuple[Function, Shapes, dict[str, Any]]] = {
    "det": (well, (S3,), {}), "logdet": (well, (S3,), {}), "inv": (well, (S3,), {}), "cholesky": (positive, (S3,), {}),
    "eigvalsh": (positive, (S3,), {"uplo": "L"}), "eigenvectors": (positive, (S3,), {"uplo": "L"}),
    "svdvals": (lambda a: a, (TALL,), {}), "singular_vectors": (lambda a: a, (TALL,), {}),
    "pinv": (lambda a: a, (TALL,), {"rcond": 1e-15}), "qr": (lambda a: a, (TALL,), {}),
}
SLIPS: dict[str, Callable[[Any], Any]] = {
    "sign": lambda ydot: -ydot, "one part in a million": lambda ydot: ydot * (1 + 1e-6), "half": lambda ydot: ydot / 2,
}
# fmt: on


@for_rows("slip", SLIPS, parts=3)
@for_rows("name", PREPARED)
def test_a_wrong_differential_is_objected_to(name: str, slip: str) -> None:
    row, (prepare, shapes, params) = PRIMITIVES[name], PREPARED[name]
    right: Any = row.rules[0]
    wrong = replace(row, rules=(Differential(lambda *args, **kw: SLIPS[slip](right.differential(*args, **kw))),))
    check_function(lambda a: row(prepare(a), **params), shapes, ROUNDING)
    with pytest.raises(AssertionError):
        check_function(lambda a: wrong(prepare(a), **params), shapes, ROUNDING)


# fmt: off
LAPACK: dict[str, Function] = {
    "solve": lambda a: L.solve(a, a[0]), "inv": L.inv, "det": L.det, "cholesky": lambda a: L.cholesky(a @ T(a)),
    "Q": lambda a: L.qr(a).Q, "R": lambda a: L.qr(a[:, :-1]).R, "pinv": lambda a: L.pinv(a[:, 1:]), "svdvals": L.svdvals,
    "U": lambda a: L.svd(a).U, "eigvalsh": L.eigvalsh, "eigenvectors": lambda a: L.eigh(a)[1],
    "lstsq": lambda a: L.lstsq(a[:, 1:], a[:, 0])[0], "fft": lambda a: np.fft.fft(a[0]).imag,
}
# fmt: on


@for_rows("n", [2, 4, 9, 12], parts=2)
@for_rows("name", LAPACK)
def test_balls_of_53_bits_allow_for_what_lapack_rounds(name: str, n: int) -> None:
    f, decided = LAPACK[name], 0
    for seed in range(12):
        u, v = (L.qr(a)[0] for a in drawn(seed, ((n, n), (n, n))))
        a = u @ np.diag(10.0 ** np.random.default_rng(seed).uniform(-seed / 3, 0, n)) @ v
        with precision(53):
            try:
                ball = Ball.lift(0) + f(Ball.lift(a))
            except Undecided:
                continue
            decided += 1
            y = f(a)
            assert np.all(bound_error(ball, y) <= 3 * radius(ball) + 16 * EPS * np.abs(y))
    assert decided >= 3


def gradient(f: Function, *xs: Any) -> Any:
    return vjp(f, xs)[1](ONE)[0]


NAMED = [
    (L.eigh, ("eigenvalues", "eigenvectors")), (L.svd, ("U", "S", "Vh")), (L.qr, ("Q", "R")), (L.slogdet, ("sign", "logabsdet")),
]  # fmt: skip


@for_rows(("function", "fields"), NAMED)
def test_results_are_numpys_named_tuples(function: Function, fields: tuple[str, ...]) -> None:
    found: list[Any] = []
    vjp(lambda a: np.sum(found.append(function(a)) or a), [np.eye(2) + 1.0])
    assert type(found[0]) is type(function(np.eye(2)))
    assert found[0]._fields == fields


# fmt: off
#    name             function                                        the triangle that is not read
TRIANGLES: list[tuple[str, Function, Callable[..., Any]]] = [
    ("cholesky",       lambda a: L.cholesky(a),                         np.triu),
    ("cholesky upper", lambda a: L.cholesky(a, upper=True),             np.tril),
    ("eigvalsh",       lambda a: L.eigvalsh(a),                         np.triu),
    ("eigvalsh U",     lambda a: L.eigvalsh(a, UPLO="U"),               np.tril),
    ("eigh",           lambda a: L.eigh(a)[1],                          np.triu),
]
# fmt: on


@for_rows(("f", "other"), [pytest.param(*rest, id=name) for name, *rest in TRIANGLES])
def test_the_triangle_that_numpy_does_not_read_has_slope_zero(f: Function, other: Any) -> None:
    a = drawn(3, (S3,))[0] + np.diag([5.0, 7.0, 9.0])
    a = np.where(other(np.ones_like(a), 1 if other is np.triu else -1) > 0, np.nan, a)
    y, pull = vjp(f, [a])
    np.testing.assert_array_equal(y, f(a))
    slopes = pull(np.cos(np.arange(np.size(y))).reshape(np.shape(y)))[0]
    assert np.all(slopes[np.isnan(a)] == 0)
    assert np.all(np.isfinite(slopes))
    assert np.all(slopes[~np.isnan(a)] != 0)


def singular(n: int, rank: int) -> Any:
    rng = np.random.default_rng(n)
    return (rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, n))).astype(float)


@for_rows(("n", "rank"), [(1, 0), (2, 1), (3, 2), (3, 1), (4, 3), (5, 4), (5, 3), (6, 5), (7, 5)])
def test_det_of_singular_matrices_has_the_cofactors_for_slopes(n: int, rank: int) -> None:
    a = singular(n, rank)
    right = np.array(sp.Matrix(a.astype(int)).adjugate().T.tolist(), dtype=float)
    scale = max(1.0, float(L.norm(a) ** (n - 1)))
    np.testing.assert_allclose(gradient(L.det, a), right, rtol=0, atol=1e-14 * scale)
    _, (ball,) = in_balls(L.det, [a], ONE, 128)
    np.testing.assert_allclose(ball.primal, right, rtol=0, atol=1e-15 * scale)
    direction = np.cos(np.arange(n * n)).reshape(n, n)
    second = jvp(lambda a: vjp(L.det, [a])[1](ONE)[0], [a], [direction])[1]
    h = 1e-3
    differences = (gradient(L.det, a + h * direction) - gradient(L.det, a - h * direction)) / (2 * h)
    np.testing.assert_allclose(second, differences, rtol=0, atol=1e-3 * max(1.0, float(np.max(np.abs(differences)))))


def test_minors_of_small_matrices_keep_every_digit() -> None:
    a = np.array([[1e10, 3.0, 0.0], [2.0, 1e-10, 0.0], [0.0, 0.0, 1.0]])
    right = np.array([[1e-10, -2.0, 0.0], [-3.0, 1e10, 0.0], [0.0, 0.0, 1 - 6.0]])
    np.testing.assert_allclose(gradient(L.det, a), right, rtol=1e-15)


def test_slogdet_of_a_singular_matrix_has_no_finite_slope() -> None:
    with np.errstate(all="ignore"):
        assert not np.any(np.isfinite(gradient(lambda a: L.slogdet(a)[1], singular(3, 2))))


def marks(f: Function, a: Any) -> list[str]:
    with np.errstate(all="ignore"):
        run = record(f, [a])
        return [mark.says for mark in find_kinks(run, run.tape.sweep(run.y.slot, np.ones(np.shape(run.y))))]


EYE, ROTATION = np.eye(3), np.array([[0.6, -0.8], [0.8, 0.6]])
# fmt: off
#    name                      function                              at
KINKS = [
    ("eigenvalues tie",        lambda a: L.eigvalsh(a)[0],           EYE),
    ("eigenvectors tie",       lambda a: L.eigh(a)[1],               EYE),
    ("singular values tie",    lambda a: L.svdvals(a)[0],            ROTATION),
    ("singular vectors tie",   lambda a: L.svd(a)[0],                ROTATION),
    ("a singular value 0",     lambda a: L.norm(a, "nuc"),           np.diag([2.0, 1.0, 0.0])),
    ("vectors of rank 1",      lambda a: L.svd(a, full_matrices=False)[0], np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])),
    ("pinv jumps",             lambda a: L.pinv(a),                  singular(3, 2)),
    ("pinv jumps, tall",       lambda a: L.pinv(a),                  np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])),
]
# fmt: on


@for_rows(("f", "at"), [pytest.param(*rest, id=name) for name, *rest in KINKS])
def test_a_point_without_derivative_is_marked_and_balls_do_not_decide_it(f: Function, at: Any) -> None:
    assert any("has a kink where" in says for says in marks(f, at))
    y = f(at)
    with pytest.raises(Undecided):
        in_balls(f, [at], np.ones(np.shape(y))[()], 128)


SMOOTH = [
    (lambda a: L.eigvalsh(a)[0], np.diag([1.0, 2.0, 2.0])),
    (lambda a: L.svdvals(a)[0], np.diag([3.0, 2.0, 2.0])),
    (lambda a: L.svdvals(a)[0], np.diag([3.0, 2.0, 0.0])),
]


@pytest.mark.parametrize(("f", "at"), SMOOTH)
def test_a_tie_of_others_is_no_kink(f: Function, at: Any) -> None:
    assert marks(f, at) == []
    slopes = np.zeros((3, 3))
    slopes[0, 0] = 1.0
    np.testing.assert_allclose(gradient(f, at), slopes, atol=1e-15)


def test_sums_of_equal_eigenvalues_have_their_slope() -> None:
    np.testing.assert_allclose(gradient(lambda a: np.sum(np.exp(L.eigvalsh(a))), EYE), np.e * EYE, atol=1e-14)


def test_vectors_of_equal_values_have_no_finite_slope() -> None:
    with np.errstate(all="ignore"):
        assert not np.all(np.isfinite(gradient(lambda a: L.eigh(a)[1][0, 0], EYE)))
        assert not np.all(np.isfinite(gradient(lambda a: L.svd(a)[0][0, 0], EYE)))


def test_eigenvalues_of_a_tie_are_enclosed() -> None:
    found: list[Any] = []
    with pytest.raises(Undecided):  # the slopes need vectors
        in_balls(lambda a: found.append(L.eigvalsh(a)) or found[0], [np.diag([1.0, 2.0, 2.0])], np.ones(3), 128)
    np.testing.assert_allclose(found[0].primal.primal, [1.0, 2.0, 2.0], rtol=1e-15)


# fmt: off
#    name                      function                                                    what it must say
REFUSED: list[tuple[str, Function, str]] = [
    ("eig",                    lambda a: L.eig(a),                                         "may be complex"),
    ("eigvals",                lambda a: L.eigvals(a),                                     "may be complex"),
    ("svd beyond, left",       lambda a: L.svd(a[:, :2])[0] @ a,                           "beyond the 2 singular values"),
    ("svd beyond, right",      lambda a: L.svd(a[:2]).Vh[0],                               "beyond the 2 singular values"),
    ("svd beyond, ufunc",      lambda a: np.exp(L.svd(a[:2]).Vh),                          "beyond the 2 singular values"),
    ("svd hermitian",          lambda a: L.svd(a, hermitian=True),                         "hermitian=True"),
    ("pinv hermitian",         lambda a: L.pinv(a, hermitian=True),                        "hermitian=True"),
    ("qr complete",            lambda a: L.qr(a[:, :2], "complete"),                       "mode='complete'"),
    ("qr raw",                 lambda a: L.qr(a, "raw"),                                   "mode='raw'"),
    ("lstsq below full rank",  lambda a: L.lstsq(a * 0 + 1, [1.0, 2.0, 3.0]),              "without full rank"),
]
# fmt: on


@for_rows(("f", "says"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_what_has_no_rule_is_refused_by_name(f: Function, says: str) -> None:
    with pytest.raises(NoRule) as refused:
        vjp(f, drawn(1, (S3,)))
    assert says in refused.value.what
    assert refused.value.do


WRONG = [
    lambda a: L.det(a[:2]), lambda a: L.inv(a[0]), lambda a: L.cholesky(a[:2]), lambda a: L.norm(a, "x"),
    lambda a: L.norm(a[0], "fro"), lambda a: L.solve(a, a[:2]), lambda a: L.norm(a, axis=(0, 1, 1)), lambda a: L.cholesky(-a @ a.T),
]  # fmt: skip


@for_rows("f", WRONG)
def test_what_numpy_refuses_is_refused(f: Function) -> None:
    a = drawn(1, (S3,))[0]
    with pytest.raises(ValueError):  # np.linalg.LinAlgError is one
        f(a)
    with pytest.raises((ValueError, GradcliError)):
        vjp(f, [a])


def test_balls_say_when_a_matrix_may_not_be_positive() -> None:
    nearly = np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    with pytest.raises(Undecided, match="not positive"):
        in_balls(lambda a: L.cholesky(a / 3), [nearly], np.ones((2, 2)), 53)
