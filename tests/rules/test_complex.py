"""Complex values in between: real in, real out, and every witness agrees on what happens on the way."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.errors import NoRule, TraceEnded
from gradcli.rules.pairs import ComplexPair
from tests.rows import for_rows
from tests.rules.agreement import Function, Shapes, check_function, drawn

ROUNDING = 1e-13
S, V, M, K = (), (3,), (2, 3), (3, 3)
W = np.array([1 + 2j, -0.5j, 2.0])
C = np.array([[1j, 2.0, 1 - 1j], [0.5, 1 + 1j, -2j], [1.0, 0.0, 3j]])


def flat(z: Any) -> Any:
    """Return real and imaginary parts side by side."""
    return np.concatenate([np.ravel(z.real), np.ravel(z.imag)])


def z(x: Any) -> Any:
    """Return complex values away from zero and from the negative axis, both parts moving."""
    return 2 + x * x + 1j * np.sin(x)


def written(x: Any) -> Any:
    y = x * 1j
    y[0] = 2 + 1j * x[1]
    y[1:] *= x[0]
    return y


# fmt: off
#    name                   function of arrays                                                  shapes
TABLE: tuple[tuple[str, Function, Shapes], ...] = (
    ("1j * t",              lambda t: flat(1j * t),                                             (S,)),
    ("t * 1j",              lambda t: flat(t * 1j),                                             (V,)),
    ("t + 2j",              lambda t: flat((t + 2j) * (2j + t)),                                (S,)),
    ("t - 2j",              lambda t: flat((t - 2j) * (2j - t)),                                (V,)),
    ("t / 2j",              lambda t: flat(t / (1 + 2j)),                                       (S,)),
    ("2j / t",              lambda t: flat((1 + 2j) / (t + 3)),                                 (S,)),
    ("numpy's complex",     lambda t: flat(np.complex128(1 + 2j) * t + t * np.complex128(1j)),  (S,)),
    ("array left",          lambda x: flat(W * x),                                              (V,)),
    ("array right",         lambda x: flat(x * W),                                              (M,)),
    ("array spread",        lambda t: flat(t * W + t),                                          (S,)),
    ("single precision",    lambda t: flat(np.complex64(2j) * t),                               (S,)),
    ("plus, minus",         lambda x, y: flat(-z(x) + z(y) - (+z(x)) * 2),                      (V, M)),
    ("times",               lambda x, y: flat(z(x) * z(y) * x),                                 (V, M)),
    ("divide",              lambda x, y: flat(z(x) / z(y)),                                     (V, M)),
    ("divide by real",      lambda x, y: flat(z(x) / (2 + y * y)),                              (V, V)),
    ("real by complex",     lambda x, y: flat(x / z(y)),                                        (V, V)),
    ("powers",              lambda x: flat(z(x) ** 0 + z(x) ** 1 + z(x) ** 3 + z(x) ** -2),     (V,)),
    ("complex power",       lambda x: flat(z(x) ** (0.5 + 1j)),                                 (V,)),
    ("traced power",        lambda x, y: flat(z(x) ** y),                                       (V, V)),
    ("power of plain",      lambda x: flat((1 + 2j) ** x + 2.0 ** z(x)),                        (V,)),
    ("square, reciprocal",  lambda x: flat(np.square(z(x)) + np.reciprocal(z(x))),              (V,)),
    ("exp",                 lambda x: flat(np.exp(z(x))),                                       (V,)),
    ("exp of 1j * t",       lambda x: flat(np.exp(1j * x)),                                     (V,)),
    ("exp of real",         lambda x: flat(np.exp(x + 0j)),                                     (V,)),
    ("expm1, log1p",        lambda x: flat(np.expm1(z(x)) + np.log1p(z(x))),                    (V,)),
    ("log",                 lambda x: flat(np.log(z(x))),                                       (V,)),
    ("log of -2 + 1j * t",  lambda x: flat(np.log(-2 + 1j * (x * x + 1))),                      (V,)),
    ("sqrt",                lambda x: flat(np.sqrt(z(x)) + np.sqrt(1j * x)),                    (V,)),
    ("sin, cos, tan",       lambda x: flat(np.sin(z(x)) + np.cos(z(x)) * np.tan(z(x))),         (V,)),
    ("sinh, cosh, tanh",    lambda x: flat(np.sinh(z(x)) + np.cosh(z(x)) * np.tanh(z(x))),      (V,)),
    ("log2, log10, exp2",   lambda x: flat(np.log2(z(x)) + np.log10(z(x)) + np.exp2(z(x))),     (V,)),
    ("arcsin, arctan",      lambda x: flat(np.arcsin(z(x)) * np.arccos(z(x) / 9) + np.arctan(z(x))), (V,)),
    ("arcsinh and others",  lambda x: flat(np.arcsinh(z(x)) * np.arccosh(z(x)) + np.arctanh(z(x) / 9)), (V,)),
    ("sign",                lambda x: flat(np.sign(z(x))),                                      (V,)),
    ("cov with complex",    lambda x: flat(np.cov(x, W) + np.cov(z(x), x)),                     (V,)),
    ("sinc",                lambda x: flat(np.sinc(z(x))),                                      (V,)),
    ("meshgrid",            lambda x: flat(np.meshgrid(z(x), x)[0]),                            (V,)),
    ("abs",                 lambda x: abs(z(x)) + np.abs(1j * x),                               (V,)),
    ("abs of real",         lambda x: np.abs(x + 0j),                                           (V,)),
    ("angle",               lambda x: np.angle(z(x)) + np.angle(1j * x),                        (V,)),
    ("angle in degrees",    lambda x: np.angle(z(x), deg=True),                                 (V,)),
    ("angle of real",       lambda x: np.angle(x) * x,                                          (V,)),
    ("conj",                lambda x: flat(np.conj(z(x)) * z(x) + z(x).conj() ** 2),            (V,)),
    ("real, imag",          lambda x: np.real(z(x)) * np.imag(z(x)) + np.real(x) + np.imag(x),  (V,)),
    ("of real values",      lambda x: x.real * x.conj() + x.conjugate() + x.imag,               (V,)),
    ("sum",                 lambda x: flat(np.sum(z(x), axis=0) + z(x).sum(axis=0)),            (M,)),
    ("mean",                lambda x: flat(np.mean(z(x), axis=1, keepdims=True)),               (M,)),
    ("prod",                lambda x: flat(np.prod(z(x), axis=1)),                              (M,)),
    ("cumsum",              lambda x: flat(np.cumsum(z(x))),                                    (M,)),
    ("var, std",            lambda x: np.var(z(x), axis=0) + z(x).std(axis=0, ddof=1) + z(x).var(axis=0), (K,)),
    ("norm",                lambda x: np.linalg.norm(z(x)) + np.linalg.norm(z(x), axis=0),      (M,)),
    ("norms",               lambda x: np.linalg.norm(z(x), 1) + np.linalg.norm(z(x), "fro"),    (M,)),
    ("matmul",              lambda x, y: flat(z(x) @ z(y)),                                     (M, K)),
    ("matmul plain",        lambda x: flat(C @ z(x) + C @ x + x @ C + x @ W),                   (K,)),
    ("dot",                 lambda x: flat(np.dot(W, x) + np.dot(z(x), W) + x.dot(W)),          (V,)),
    ("vdot",                lambda x: flat(np.vdot(z(x), W) + np.vdot(W, z(x)) + np.vdot(W, x) + np.vdot(x, W)), (V,)),
    ("vecdot",              lambda x: flat(np.vecdot(z(x), W) + np.linalg.vecdot(W, x)),        (M,)),
    ("einsum",              lambda x, y: flat(np.einsum("ij,jk,k->i", z(x), C, z(y))),          (M, V)),
    ("tensordot",           lambda x: flat(np.tensordot(z(x), C, axes=1)),                      (M,)),
    ("outer, inner",        lambda x: flat(np.outer(x, W) * np.inner(z(x), W)),                 (V,)),
    ("trace, diagonal",     lambda x: flat(np.trace(z(x)) + np.diagonal(z(x))),                 (K,)),
    ("matrix_power",        lambda x: flat(np.linalg.matrix_power(z(x), 3)),                    (K,)),
    ("solve, inv",          lambda x: flat(np.linalg.solve(z(x) + C, W) + np.linalg.inv(x + 4 * np.eye(3) + 1j)[0]), (K,)),
    ("solve real, complex", lambda x: flat(np.linalg.solve(x + 4 * np.eye(3), C)),              (K,)),
    ("index",               lambda x: flat(z(x)[1] + z(x)[0, ::-1] + z(x)[0, [2, 1, 1]]),       (M,)),
    ("iterate",             lambda x: flat(sum(k * row for k, row in enumerate(z(x)))),         (M,)),
    ("write",               lambda x: flat(written(x)),                                         (V,)),
    ("write plain complex", lambda x: flat(written(np.zeros_like(x * 1j) + 1j * x)),            (V,)),
    ("reshape, T",          lambda x: flat(z(x).reshape(3, 2) @ z(x) + z(x).T @ z(x)),          (M,)),
    ("concatenate",         lambda x: flat(np.concatenate([x, z(x), W])),                       (V,)),
    ("stack",               lambda x: flat(np.stack([x, W, z(x)], axis=1)),                     (V,)),
    ("where",               lambda x: flat(np.where(x > 0, z(x), x) + np.where(x > 0, 1j, x)),  (V,)),
    ("broadcast, flip",     lambda x: flat(np.broadcast_to(np.flip(z(x)), (2, 3))),             (V,)),
    ("astype",              lambda x: flat(np.exp(x.astype(complex) * 1j)),                     (V,)),
    ("equality",            lambda x: flat(np.where(z(x) == W, 0.0, z(x)) + (z(x) != 1) * x),   (V,)),
    ("bool",                lambda t: flat(1j * t if 1j * t else t),                            (S,)),
    ("in place",            lambda t: flat(sum(np.exp(1j * k * t) for k in range(3))),          (S,)),
    ("characteristic",      lambda t: abs(np.mean(np.exp(1j * t * np.arange(4.0)))),            (S,)),
)
# fmt: on


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in TABLE], parts=5)
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check_function(f, shapes, ROUNDING)


def looked_at(f: Function) -> Any:
    """Return what `f` says of a traced complex vector."""
    found: list[Any] = []
    record(lambda x: found.append(f(z(x))) or x, drawn(1, (V,)))
    return found[0]


FACTS = [
    (lambda z: z.shape, (3,)), (lambda z: z.ndim, 1), (lambda z: z.size, 3), (lambda z: z.dtype, np.dtype(complex)), (len, 3),
    (lambda z: isinstance(z, np.ndarray), True), (lambda z: isinstance(z[0], np.complexfloating), True),
    (lambda z: isinstance(z[0], complex), True), (np.iscomplexobj, True), (np.isrealobj, False), (np.shape, (3,)),
    (lambda z: np.iscomplexobj(z.real), False), (lambda z: np.all(np.isfinite(z)), True), (lambda z: np.any(np.isnan(z)), False),
    (lambda z: list(np.iscomplex(z + 0 * z)), [True] * 3), (lambda z: bool(np.allclose(z, z)), True),
]  # fmt: skip


@for_rows(("f", "right"), FACTS)
def test_a_pair_says_of_itself_what_numpy_would(f: Function, right: Any) -> None:
    assert looked_at(f) == right


# fmt: off
#    name               function                                                what it must say
REFUSED: list[tuple[str, Function, str]] = [
    ("order",           lambda x: z(x) > 1,                                     "complex values have no order"),
    ("max",             lambda x: np.max(z(x)),                                 "max of a complex value"),
    ("max method",      lambda x: z(x).max(),                                   "complex values have no order"),
    ("maximum",         lambda x: np.maximum(z(x), 0),                          "complex values have no order"),
    ("sort",            lambda x: np.sort(z(x)),                                "sort of a complex value"),
    ("floor",           lambda x: np.floor(z(x)),                               "floor of a complex value"),
    ("arctan2",         lambda x: np.arctan2(z(x), 1.0),                        "arctan2 of a complex value"),
    ("det",             lambda x: np.linalg.det(np.outer(z(x), x)),             "det of a complex value"),
    ("cholesky",        lambda x: np.linalg.cholesky(np.outer(z(x), x)),        "cholesky of a complex value"),
    ("real first",      lambda x: np.corrcoef(x, z(x)),                         "corrcoef of a complex value"),
    ("into a real",     lambda x: x.__setitem__(0, 1j),                         "written into a real array"),
    ("matrix norm",     lambda x: np.linalg.norm(np.outer(z(x), x), 2),         "norm of order 2"),
]
# fmt: on


@for_rows(("f", "says"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_what_has_no_rule_is_refused_by_name(f: Function, says: str) -> None:
    with pytest.raises(NoRule) as refused:
        vjp(lambda x: f(x + 0.0), drawn(1, (V,)))
    assert says in refused.value.what
    assert refused.value.do


@pytest.mark.parametrize("f", [lambda t: float(1j * t), lambda t: complex(1j * t), lambda t: (1j * t).astype(float)])
def test_what_loses_the_derivative_ends_the_trace(f: Function) -> None:
    with pytest.raises(TraceEnded):
        vjp(f, [np.float64(2)])


def test_parts_follow_what_is_written_and_cannot_be_written() -> None:
    def f(x: Any) -> Any:
        y = 1j * x + 2
        seen, before = y.imag, y.real.copy()
        y[1] = 3j * x[0]
        with pytest.raises(ValueError, match="read-only"):
            y.imag[0] = 1.0
        with pytest.raises(AttributeError):
            y.real = x
        return seen @ before

    x = np.array([1.0, 2.0, 5.0])
    y, pull = vjp(f, [x])
    assert y == 2 * 1 + 2 * 3 + 2 * 5
    np.testing.assert_array_equal(pull(np.float64(1))[0], [8.0, 0.0, 2.0])


def test_a_complex_constant_of_zeros_costs_nothing() -> None:
    tape = record(lambda t: np.exp(1j * t).real, [np.float64(2)])[2]
    assert [line[0].name for line in tape.lines if line[0]] == ["multiply", "cos", "sin", "real"]


def test_the_real_part_of_a_real_value_tells_the_complex_step() -> None:
    takers = (lambda x: x.real, lambda x: np.conj(x) * x, lambda x: np.abs(1j * x + 2), lambda x: np.vdot(x, x), np.var, np.std,
              np.nanvar, np.cov, lambda x: np.vecdot(x, x), lambda x: np.linalg.norm(x[None], axis=1))  # fmt: skip
    for f in takers:
        tape = record(f, drawn(1, (V,)))[2]
        assert any(line[0] is not None and not line[0].analytic for line in tape.lines)


def test_a_pair_prints_its_value() -> None:
    assert "2j" in repr(ComplexPair(np.float64(0), np.float64(2)))
